//! A runtime as a value, whose drop ends it.

use std::fmt;
use std::future::Future;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::{Duration, Instant};

use super::handle::{EnterGuard, Handle};
use super::metrics::RuntimeMetrics;
use crate::config::Flavor;
use crate::loom::thread;
use crate::scheduler::unfinished::Unfinished;
use crate::scheduler::{context, current_thread};
use crate::task::JoinHandle;
use crate::util::as_tokio;

/// A scheduler for tasks with its worker threads, its driver for sockets and timers, and its blocking
/// threads.
///
/// # Shutdown
/// Dropping a runtime ends it. Tasks that wait are dropped, and the others at their next yield. Closures of
/// `spawn_blocking` that have not begun are dropped, unless a thread is on its way for them. The drop waits
/// for the other closures and for the workers.
///
/// Inside of any runtime (in a task, a `block_on`, a blocking closure) the drop does not wait. Everything
/// then ends in the background, and nothing panics. Tokio panics in a task and in a `block_on`. In a blocking
/// closure and in `block_in_place` it waits, as [`shutdown_timeout`](Self::shutdown_timeout) does here.
///
/// # Examples
/// ```
/// let runtime = runtime::Runtime::new()?;
/// let answer = runtime.block_on(async { runtime::spawn(async { 42 }).await.unwrap() });
/// assert_eq!(answer, 42);
/// # std::io::Result::Ok(())
/// ```
///
/// Prior art: `tokio::runtime::Runtime`.
pub struct Runtime {
    handle: Handle,
    /// The worker threads of a multi-thread runtime, until it has ended.
    workers: Vec<thread::JoinHandle<()>>,
    /// The runtime has been shut down, so the drop waits for nothing.
    has_ended: bool,
}

// A panic that passes through a call leaves nothing half done.
impl UnwindSafe for Runtime {}
impl RefUnwindSafe for Runtime {}

impl Runtime {
    pub(crate) fn new_current_thread(handle: Handle) -> Self {
        Self { handle, workers: Vec::new(), has_ended: false }
    }

    pub(crate) fn new_multi_thread(handle: Handle, workers: Vec<thread::JoinHandle<()>>) -> Self {
        Self { handle, workers, has_ended: false }
    }

    /// Returns the runtime's handle. A clone of it may outlive the runtime.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Runtime::new()?;
    /// let handle = runtime.handle().clone();
    /// std::thread::spawn(move || handle.spawn(async {})).join().unwrap();
    /// # std::io::Result::Ok(())
    /// ```
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Runs a future on the calling thread until it is ready, as [`Handle::block_on`] does.
    ///
    /// # Panics
    /// As [`Handle::block_on`].
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = runtime::Runtime::new()?;
    /// let answer = runtime.block_on(async {
    ///     runtime::time::sleep(Duration::from_millis(1)).await;
    ///     42
    /// });
    /// assert_eq!(answer, 42);
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.handle.block_on(future)
    }

    /// Starts a future as a task, as [`spawn`](crate::spawn) does.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Runtime::new()?;
    /// let task = runtime.spawn(async { 6 * 7 });
    /// assert_eq!(runtime.block_on(task).unwrap(), 42);
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.handle.spawn(future)
    }

    /// Runs a closure that may block, as [`spawn_blocking`](crate::task::spawn_blocking) does.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Runtime::new()?;
    /// let task = runtime.spawn_blocking(|| std::fs::read_to_string("/proc/self/status"));
    /// assert!(runtime.block_on(task).unwrap().is_ok());
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn spawn_blocking<F, R>(&self, f: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.handle.spawn_blocking(f)
    }

    /// Makes this runtime the current one of the calling thread, as [`Handle::enter`] does.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Runtime::new()?;
    /// let _guard = runtime.enter();
    /// let task = runtime::spawn(async { 1 });
    /// assert_eq!(runtime.block_on(task).unwrap(), 1);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn enter(&self) -> EnterGuard<'_> {
        self.handle.enter()
    }

    /// Returns a view of the runtime's metrics.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    /// assert_eq!(runtime.metrics().num_workers(), 2);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn metrics(&self) -> RuntimeMetrics {
        self.handle.metrics()
    }

    /// Ends the runtime and waits for its threads, but no longer than `limit`. Unlike the drop, it waits also
    /// inside of a runtime.
    ///
    /// A task that does not yield, or a blocking closure, may not have ended by then. It goes on, and its own
    /// thread ends it when it returns. [`shutdown_report`](Self::shutdown_report) says what has not ended.
    ///
    /// The limit does not cover two things: the destructors of blocking closures that have not begun, which
    /// this call drops (those of regular files make the writes that are left); and the destructors of thread-local
    /// values of workers, if all else has ended within the limit. The closures are dropped one after the
    /// other, so the destructor of one must not wait for that of another.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = runtime::Runtime::new()?;
    /// runtime.spawn(std::future::pending::<()>());
    /// runtime.shutdown_timeout(Duration::from_secs(10));
    /// # std::io::Result::Ok(())
    /// ```
    pub fn shutdown_timeout(mut self, limit: Duration) {
        self.shutdown(Some(limit));
        if !limit.is_zero() {
            as_tokio::ends_runtime();
        }
    }

    /// Ends the runtime as [`shutdown_timeout`](Self::shutdown_timeout) does, and returns what has not ended
    /// by then: each task with the line that spawned it.
    ///
    /// A `current_thread` runtime has threads for blocking closures only. If another thread drives its tasks
    /// in a `block_on`, this waits for that thread, but not while it polls the future of that `block_on`. It
    /// does not report these tasks.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = runtime::Runtime::new()?;
    /// runtime.spawn(std::future::pending::<()>());
    /// let unfinished = runtime.shutdown_report(Duration::from_secs(10));
    /// assert!(unfinished.is_empty(), "{unfinished}");
    /// # std::io::Result::Ok(())
    /// ```
    #[must_use = "only the report tells this from `shutdown_timeout`"]
    pub fn shutdown_report(mut self, limit: Duration) -> Unfinished {
        self.shutdown(Some(limit));
        // `self` holds a handle until this returns, and the handle keeps the records.
        self.handle.shared().unfinished()
    }

    /// Ends the runtime and waits for nothing, as [`shutdown_timeout`](Self::shutdown_timeout) with zero
    /// does.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Runtime::new()?;
    /// runtime.spawn_blocking(|| std::thread::sleep(std::time::Duration::from_millis(1)));
    /// runtime.shutdown_background();
    /// # std::io::Result::Ok(())
    /// ```
    pub fn shutdown_background(mut self) {
        self.shutdown(Some(Duration::ZERO));
    }

    fn shutdown(&mut self, limit: Option<Duration>) {
        if std::mem::replace(&mut self.has_ended, true) {
            return;
        }
        let shared = self.handle.shared();
        let exit = shared.lifecycle.exit();
        context::expose_child_jobs();
        let begun = Instant::now();
        match self.handle.runtime_flavor() {
            Flavor::CurrentThread => current_thread::shutdown(self.handle.reference(), limit),
            Flavor::MultiThread => shared.begin_shutdown(),
        }
        let workers = std::mem::take(&mut self.workers);
        if exit.wait(limit.map(|limit| limit.saturating_sub(begun.elapsed()))) {
            // Each thread has done its last work for the runtime, so the join is short.
            workers.into_iter().for_each(|worker| _ = worker.join());
        }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        let had_ended = self.has_ended;
        self.shutdown(context::is_inside_runtime().then_some(Duration::ZERO));
        if !had_ended {
            as_tokio::ends_runtime();
        }
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("flavor", &self.handle.runtime_flavor()).finish_non_exhaustive()
    }
}
