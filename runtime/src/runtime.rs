//! Runtimes: [`Builder`] makes one, [`Runtime`] owns it, [`Handle`] gives a way in.

use std::fmt;
use std::future::Future;
use std::io;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

pub use crate::builder::{Builder, Flavor as RuntimeFlavor, RngSeed, UnhandledPanic};
use crate::context;
use crate::driver::io::is_shut_down_error;
pub use crate::handle::{EnterGuard, Handle, Id, TryCurrentError};
pub use crate::histogram::{
    HistogramConfiguration, InvalidHistogramConfiguration, LogHistogram, LogHistogramBuilder,
};
pub use crate::local_runtime::{LocalOptions, LocalRuntime};
use crate::loom::thread;
pub use crate::metrics::{BlockingSite, RuntimeMetrics};
pub use crate::observer::TaskMeta;
pub use crate::scheduler::unfinished::{Unfinished, UnfinishedKind, UnfinishedTask};
use crate::scheduler::{Worker, current_thread};
pub use crate::stall::Stall;
use crate::task::JoinHandle;

/// Says whether an I/O error is that of a socket, or anything else with a descriptor, whose runtime was shut
/// down.
///
/// # Examples
/// ```
/// use runtime::net::UdpSocket;
/// use runtime::runtime::{Runtime, is_rt_shutdown_err};
///
/// let (first, second) = (Runtime::new()?, Runtime::new()?);
/// let socket = first.block_on(UdpSocket::bind("127.0.0.1:0"))?;
/// drop(first);
/// let error = second.block_on(socket.recv(&mut [0; 16])).unwrap_err();
/// assert!(is_rt_shutdown_err(&error));
/// # std::io::Result::Ok(())
/// ```
pub fn is_rt_shutdown_err(error: &io::Error) -> bool {
    is_shut_down_error(error)
}

/// Returns the index of the worker that the calling thread is, or `None` if it is no worker of a runtime.
///
/// The index is that of [`RuntimeMetrics`]' methods, from 0 to [`num_workers`](RuntimeMetrics::num_workers)
/// less 1. A thread that is in a `block_on` of a `current_thread` runtime has index 0 while it drives that
/// runtime, also by [`Handle::block_on`]; a thread that waits beside it for a future of its own has none. The
/// result is also `None` in closures of `spawn_blocking`, in the future of a `block_on` of a runtime with
/// workers, and on threads that take over for blocked workers, which the metrics do not number: see
/// [`Builder::spare_workers`].
///
/// A task may be on another worker after each `.await`.
///
/// # Examples
/// ```
/// let runtime = runtime::Builder::new_multi_thread().worker_threads(4).spare_workers(0).build()?;
/// assert_eq!(runtime.block_on(async { runtime::runtime::worker_index() }), None);
/// let task = runtime.spawn(async { runtime::runtime::worker_index() });
/// assert!(runtime.block_on(task).unwrap().is_some_and(|index| index < 4));
/// # std::io::Result::Ok(())
/// ```
///
/// Prior art: `tokio::runtime::worker_index`.
pub fn worker_index() -> Option<usize> {
    context::with_worker(|worker| worker.and_then(Worker::public_index))
}

/// A scheduler for tasks with its worker threads, its driver for sockets and timers, and its blocking
/// threads.
///
/// # Shutdown
/// Dropping a runtime ends it: tasks are dropped at their next yield, closures of `spawn_blocking` that have
/// not begun are dropped, unless a thread is on its way for them, and the drop waits for the others, and for
/// the workers. Inside of any runtime
/// (in a task, a `block_on`, a blocking closure) it does not wait; everything is then ended in the
/// background, and nothing panics. (Tokio panics.)
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
    /// It has been shut down, so dropping it waits for nothing.
    has_ended: bool,
}

// A panic that passes a call leaves nothing half done.
impl UnwindSafe for Runtime {}
impl RefUnwindSafe for Runtime {}

impl Runtime {
    /// Builds a multi-thread runtime with default settings and everything enabled.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn new() -> std::io::Result<Self> {
        Builder::new_multi_thread().enable_all().build()
    }

    pub(crate) fn new_current_thread(handle: Handle) -> Self {
        Self { handle, workers: Vec::new(), has_ended: false }
    }

    pub(crate) fn new_multi_thread(handle: Handle, workers: Vec<thread::JoinHandle<()>>) -> Self {
        Self { handle, workers, has_ended: false }
    }

    /// Returns the runtime's handle; clone it to keep it.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Runs a future on the calling thread until it is ready; as [`Handle::block_on`].
    ///
    /// # Panics
    /// Directly inside a task, and if `future` panics.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.handle.block_on(future)
    }

    /// Starts a future as a task; as [`spawn`](crate::spawn).
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.handle.spawn(future)
    }

    /// Runs a closure that may block; as [`spawn_blocking`](crate::task::spawn_blocking).
    #[track_caller]
    pub fn spawn_blocking<F, R>(&self, f: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.handle.spawn_blocking(f)
    }

    /// Makes this runtime the current one of the calling thread; as [`Handle::enter`].
    pub fn enter(&self) -> EnterGuard<'_> {
        self.handle.enter()
    }

    /// Returns a view of the runtime's metrics.
    pub fn metrics(&self) -> RuntimeMetrics {
        self.handle.metrics()
    }

    /// Ends the runtime and waits for its threads, but no longer than `limit`.
    ///
    /// What has not ended by then (a task that does not yield, a blocking closure) goes on, and is ended by
    /// its own thread when it returns; [`shutdown_report`](Self::shutdown_report) says what that is.
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
    }

    /// Ends the runtime as [`shutdown_timeout`](Self::shutdown_timeout) does, and returns what has not ended
    /// by then: each task with the line that spawned it.
    ///
    /// A `current_thread` runtime has threads for blocking closures only: a task that another thread drives
    /// in a `block_on` is neither waited for nor reported.
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
        // `self` holds a handle until this returns, which keeps the records.
        self.handle.shared().unfinished()
    }

    /// Ends the runtime and waits for nothing; as [`shutdown_timeout`](Self::shutdown_timeout) with zero.
    pub fn shutdown_background(mut self) {
        self.shutdown(Some(Duration::ZERO));
    }

    fn shutdown(&mut self, limit: Option<Duration>) {
        if std::mem::replace(&mut self.has_ended, true) {
            return;
        }
        let shared = self.handle.shared();
        let exit = shared.lifecycle.exit();
        match self.handle.runtime_flavor() {
            RuntimeFlavor::CurrentThread => current_thread::shutdown(&self.handle),
            RuntimeFlavor::MultiThread => shared.begin_shutdown(),
        }
        let workers = std::mem::take(&mut self.workers);
        context::expose_pieces();
        if exit.wait(limit) {
            // They have done their last, so this is short.
            workers.into_iter().for_each(|worker| _ = worker.join());
        }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.shutdown(context::is_inside_runtime().then_some(Duration::ZERO));
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("flavor", &self.handle.runtime_flavor()).finish_non_exhaustive()
    }
}
