//! A `current_thread` runtime whose thread may spawn futures that are not `Send`.
//!
//! It is a [`Runtime`] and a [`LocalSet`], which each `block_on` drives together. An entry in a thread-local
//! chain (`sets/local_set/current.rs`) tells `spawn_local` that this set stands for that runtime.

use std::fmt;
use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

use super::local_set::{LocalSet, StandIn};
use crate::config::Flavor;
use crate::runtime::Runtime;
use crate::runtime::RuntimeMetrics;
use crate::runtime::builder::Builder;
use crate::runtime::handle::{EnterGuard, Handle};
use crate::scheduler::current_thread;
use crate::task::JoinHandle;

/// A `current_thread` runtime that stays on the thread that made it, so that its tasks need not be `Send`.
///
/// [`spawn_local`](crate::task::spawn_local) works without a [`LocalSet`]: in this runtime's `block_on`, in
/// all its tasks, and while a guard of [`enter`](Self::enter) is alive. [`spawn`](crate::spawn) and the
/// [`handle`](Self::handle) work as those of any runtime, from any thread.
///
/// Tasks of both kinds run while the thread is in [`block_on`](Self::block_on). Another thread that is in
/// `block_on` of the [`handle`](Self::handle) runs none of them, and waits for this thread to drive timers
/// and descriptors. On this thread, too, `block_on` of the handle runs no local task, so its future must not
/// wait for one.
///
/// With [`UnhandledPanic::ShutdownRuntime`], the panic of a task of either kind in `block_on` ends both kinds.
///
/// [`UnhandledPanic::ShutdownRuntime`]: crate::runtime::UnhandledPanic::ShutdownRuntime
///
/// # Examples
/// ```
/// use std::rc::Rc;
/// use runtime::runtime::LocalRuntime;
/// use runtime::task::spawn_local;
///
/// let runtime = LocalRuntime::new()?;
/// let answer = runtime.block_on(async {
///     let here = Rc::new(42);
///     spawn_local(async move { *here }).await.unwrap()
/// });
/// assert_eq!(answer, 42);
/// # std::io::Result::Ok(())
/// ```
///
/// Prior art: `tokio::runtime::LocalRuntime`.
pub struct LocalRuntime {
    // Dropped before the runtime.
    local: LocalTasks,
    runtime: Runtime,
}

/// The set. Its tasks are dropped with the runtime entered.
struct LocalTasks {
    set: LocalSet,
    handle: Handle,
    _stand_in: StandIn,
}

// A panic that passes through a call leaves nothing half done.
impl UnwindSafe for LocalRuntime {}
impl RefUnwindSafe for LocalRuntime {}

impl LocalRuntime {
    /// Builds a local runtime with default settings and everything enabled.
    ///
    /// # Errors
    /// As [`Builder::build`].
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::runtime::LocalRuntime::new()?;
    /// assert_eq!(runtime.block_on(async { 42 }), 42);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn new() -> io::Result<Self> {
        Builder::new_current_thread().enable_all().build_local(LocalOptions::default())
    }

    /// Returns the runtime's handle. A clone of it may outlive the runtime.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::runtime::LocalRuntime::new()?;
    /// let task = runtime.handle().spawn(async { 1 });
    /// assert_eq!(runtime.block_on(task).unwrap(), 1);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn handle(&self) -> &Handle {
        self.runtime.handle()
    }

    /// Starts a future that need not be `Send` as a task of this runtime.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::runtime::LocalRuntime::new()?;
    /// let here = std::rc::Rc::new(42);
    /// let task = runtime.spawn_local(async move { *here });
    /// assert_eq!(runtime.block_on(task).unwrap(), 42);
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn spawn_local<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.local.set.spawn_local(future)
    }

    /// Runs a closure that may block, as [`spawn_blocking`](crate::task::spawn_blocking) does.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::runtime::LocalRuntime::new()?;
    /// let task = runtime.spawn_blocking(|| std::fs::read_to_string("/proc/self/status"));
    /// assert!(runtime.block_on(task).unwrap().is_ok());
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn spawn_blocking<F, R>(&self, func: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.runtime.spawn_blocking(func)
    }

    /// Runs a future on the calling thread until it is ready, and the runtime's tasks meanwhile.
    ///
    /// # Panics
    /// As [`Runtime::block_on`].
    ///
    /// # Examples
    /// ```
    /// use runtime::task::spawn_local;
    ///
    /// let runtime = runtime::runtime::LocalRuntime::new()?;
    /// assert_eq!(runtime.block_on(async { spawn_local(async { 1 }).await.unwrap() }), 1);
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        struct Ends<'a>(&'a LocalRuntime);
        impl Drop for Ends<'_> {
            fn drop(&mut self) {
                self.0.end_if_panicked();
            }
        }
        let _ends = Ends(self);
        self.runtime.block_on(self.local.set.run_until(future))
    }

    /// A panic that has ended the set, or the runtime, ends the other one, too.
    fn end_if_panicked(&self) {
        let handle = &self.local.handle;
        // As long as there is a `self`, only a panic begins the shutdown.
        let has_begun = handle.shared().lifecycle.has_begun();
        if !has_begun && !self.local.set.has_panicked() {
            return;
        }
        self.local.end();
        if !has_begun {
            handle.shared().core.tell_of_panic();
            current_thread::shutdown(handle.reference(), None);
        }
    }

    /// Makes this runtime the current one of the calling thread, as [`Handle::enter`] does.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::runtime::LocalRuntime::new()?;
    /// let _guard = runtime.enter();
    /// let task = runtime::task::spawn_local(async { 1 });
    /// assert_eq!(runtime.block_on(task).unwrap(), 1);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn enter(&self) -> EnterGuard<'_> {
        self.runtime.enter()
    }

    /// Ends the runtime and waits for its threads, which are those of blocking closures, but no longer than
    /// `duration`.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = runtime::runtime::LocalRuntime::new()?;
    /// runtime.spawn_local(std::future::pending::<()>());
    /// runtime.shutdown_timeout(Duration::from_secs(10));
    /// # std::io::Result::Ok(())
    /// ```
    pub fn shutdown_timeout(self, duration: Duration) {
        let Self { local, runtime } = self;
        drop(local);
        runtime.shutdown_timeout(duration);
    }

    /// Ends the runtime and waits for nothing, as [`shutdown_timeout`](Self::shutdown_timeout) with zero
    /// does.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::runtime::LocalRuntime::new()?;
    /// runtime.spawn_local(std::future::pending::<()>());
    /// runtime.shutdown_background();
    /// # std::io::Result::Ok(())
    /// ```
    pub fn shutdown_background(self) {
        self.shutdown_timeout(Duration::ZERO);
    }

    /// Returns a view of the runtime's metrics. They do not count the tasks of
    /// [`spawn_local`](crate::task::spawn_local).
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::runtime::LocalRuntime::new()?;
    /// assert_eq!(runtime.metrics().num_workers(), 1);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn metrics(&self) -> RuntimeMetrics {
        self.runtime.metrics()
    }
}

impl LocalTasks {
    fn end(&self) {
        let _entered = self.handle.enter();
        self.set.shut_down();
    }
}

impl Drop for LocalTasks {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for LocalRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalRuntime").finish_non_exhaustive()
    }
}

/// The settings that only a [`LocalRuntime`] has. There are none yet.
#[derive(Default, Debug)]
#[non_exhaustive]
pub struct LocalOptions {
    /// Later settings may hold what stays on the thread.
    not_send: PhantomData<*mut u8>,
}

impl Builder {
    /// Builds a runtime that stays on the calling thread, and whose tasks need not be `Send`.
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) unless the builder is one of
    /// [`new_current_thread`](Self::new_current_thread) (Tokio panics); else as [`build`](Self::build).
    ///
    /// # Examples
    /// ```
    /// use runtime::runtime::{Builder, LocalOptions};
    ///
    /// let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
    /// runtime.block_on(async { runtime::task::spawn_local(async {}).await }).unwrap();
    /// # std::io::Result::Ok(())
    /// ```
    pub fn build_local(&mut self, options: LocalOptions) -> io::Result<LocalRuntime> {
        let LocalOptions { not_send: _ } = options;
        if self.flavor != Flavor::CurrentThread {
            let text = "`build_local` needs `Builder::new_current_thread`, not `new_multi_thread`";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let runtime = self.build()?;
        runtime.handle().shared().core.stay_here();
        let mut set = LocalSet::new();
        set.unhandled_panic(runtime.handle().shared().config.unhandled_panic.clone());
        let stand_in = set.stand_in(runtime.handle());
        let local = LocalTasks { set, handle: runtime.handle().clone(), _stand_in: stand_in };
        Ok(LocalRuntime { local, runtime })
    }
}
