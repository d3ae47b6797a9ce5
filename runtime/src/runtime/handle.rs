//! A shared way into a runtime.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::num::NonZeroU64;
use std::panic::Location;
use std::ptr::NonNull;

use crate::config::Flavor;
use crate::coop;
use crate::driver;
use crate::runtime::metrics::RuntimeMetrics;
use crate::runtime::spawn;
use crate::scheduler::context::{self, Entry};
use crate::scheduler::reference::Reference;
use crate::scheduler::shared::next_id;
use crate::scheduler::{Shared, blocking, current_thread};
use crate::task::JoinHandle;
use crate::util::erased_future::{ErasedFuture, output_of};
use crate::util::{as_tokio, block_on};

/// A way into a runtime that can be cloned and sent around.
///
/// It keeps the runtime's memory, not its threads. Once the [`Runtime`](crate::Runtime) has been shut down,
/// each task that is spawned through a handle is cancelled.
///
/// # Examples
/// ```
/// let runtime = runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
/// let handle = runtime.handle().clone();
/// let thread = std::thread::spawn(move || {
///     handle.block_on(async { runtime::spawn(async { 1 }).await.unwrap() })
/// });
/// assert_eq!(thread.join().unwrap(), 1);
/// ```
#[derive(Clone)]
pub struct Handle {
    reference: Reference,
}

impl Handle {
    /// # Safety
    /// 1. `shared` is valid now.
    pub(crate) unsafe fn from_shared(shared: NonNull<Shared>) -> Self {
        // SAFETY: (1).
        Self { reference: unsafe { Reference::new(shared) } }
    }

    /// Makes the handle that owns the reference that [`Shared::new`] returns.
    ///
    /// # Safety
    /// 1. The caller has a reference, and gives it to the handle.
    pub(crate) unsafe fn adopt(shared: NonNull<Shared>) -> Self {
        // SAFETY: (1).
        Self { reference: unsafe { Reference::adopt(shared) } }
    }

    pub(crate) fn reference(&self) -> &Reference {
        &self.reference
    }

    #[inline]
    pub(crate) fn shared(&self) -> &Shared {
        self.reference.shared()
    }

    pub(crate) fn shared_ptr(&self) -> NonNull<Shared> {
        self.reference.shared_ptr()
    }

    /// Returns the current runtime's handle, without a reference of its own.
    ///
    /// # Safety
    /// 1. The result is not used after anything may have left the runtime on this thread, and not dropped.
    #[inline]
    pub(crate) unsafe fn borrow_current() -> Option<ManuallyDrop<Self>> {
        // SAFETY: the result is not dropped, so it gives up no reference. The entry of the current runtime
        // keeps it.
        context::current().map(|shared| ManuallyDrop::new(unsafe { Self::adopt(shared) }))
    }

    /// Returns a handle to the current runtime: the runtime that runs this task, `block_on` or blocking
    /// closure, or the runtime that this thread [entered](Self::enter) last.
    ///
    /// # Panics
    /// Outside of a runtime; see [`try_current`](Self::try_current).
    ///
    /// # Examples
    /// ```
    /// use runtime::Handle;
    ///
    /// let runtime = runtime::Runtime::new()?;
    /// let id = runtime.block_on(async { Handle::current().id() });
    /// assert_eq!(id, runtime.handle().id());
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn current() -> Self {
        Self::current_for("Handle::current")
    }

    /// Returns the current runtime's handle for a call of `what`.
    ///
    /// # Panics
    /// At the caller's line outside of a runtime.
    #[track_caller]
    #[inline]
    pub(crate) fn current_for(what: &str) -> Self {
        match Self::try_current() {
            Ok(handle) => handle,
            Err(_) => panic_no_runtime(what),
        }
    }

    /// Returns a handle to the current runtime, as [`current`](Self::current) does, but an error if there is
    /// none.
    ///
    /// # Errors
    /// [`TryCurrentError`] outside of a runtime.
    ///
    /// # Examples
    /// ```
    /// use runtime::Handle;
    ///
    /// assert!(Handle::try_current().is_err());
    /// let runtime = runtime::Runtime::new()?;
    /// assert!(runtime.block_on(async { Handle::try_current().is_ok() }));
    /// # std::io::Result::Ok(())
    /// ```
    #[inline]
    pub fn try_current() -> Result<Self, TryCurrentError> {
        // SAFETY: the current runtime's shared state is valid.
        context::current().map(|shared| unsafe { Self::from_shared(shared) }).ok_or(TryCurrentError(()))
    }

    /// Makes this runtime the current one of the calling thread until the guard is dropped.
    ///
    /// Guards may be dropped in any order. (Tokio panics unless they are dropped in the reverse order.)
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Runtime::new().unwrap();
    /// let _guard = runtime.handle().enter();
    /// let task = runtime::spawn(async { 1 });
    /// # runtime.block_on(task).unwrap();
    /// ```
    pub fn enter(&self) -> EnterGuard<'_> {
        let entry = NonNull::from(Box::leak(Box::new(Entry::of_guard(self.shared_ptr()))));
        // SAFETY: (1) the entry is freed only by the guard, which belongs to this thread and leaves first.
        // The guard's handle keeps the runtime. A forgotten guard leaks both the entry and its handle. (2)
        // The entry is new.
        unsafe { entry.as_ref().enter() };
        EnterGuard { _entered: Entered { entry, _handle: self.clone() }, lifetime: PhantomData }
    }

    /// Starts a future as a task, as [`spawn`](crate::spawn) does, from any thread.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Runtime::new()?;
    /// let handle = runtime.handle().clone();
    /// let task = std::thread::spawn(move || handle.spawn(async { 1 })).join().unwrap();
    /// assert_eq!(runtime.block_on(task).unwrap(), 1);
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        // SAFETY: (1) our reference keeps the state. (2) Future and output are `Send`.
        unsafe { spawn::spawn_on(self.shared_ptr(), future, Location::caller()) }
    }

    /// Runs a closure that may block, as [`spawn_blocking`](crate::task::spawn_blocking) does, from any
    /// thread.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Runtime::new()?;
    /// let task = runtime.handle().spawn_blocking(|| std::fs::read_to_string("/proc/self/status"));
    /// assert!(runtime.block_on(task).unwrap().is_ok());
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn spawn_blocking<F, R>(&self, f: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        blocking::spawn_on(&self.reference, f, Location::caller())
    }

    /// Runs a future on the calling thread until it is ready, with this runtime as the current one.
    ///
    /// On a `current_thread` runtime this also drives tasks, timers and sockets, unless another thread does.
    /// (Tokio's `Handle::block_on` never does.) It may be called in blocking closures, inside
    /// [`block_in_place`](crate::task::block_in_place), in [computations](fn@crate::compute) and other jobs,
    /// and by several threads at once. A thread that drives a `current_thread` runtime drives nothing while it
    /// waits here for another runtime. So the future must not need a task, a timer or a socket of the first.
    /// Nor does it drive while a poll of its own future blocks, and no other thread does then.
    ///
    /// In a job it holds the worker, and other threads take over the worker's tasks. A computation that the
    /// future waits for needs another worker. So if all workers wait like that, they wait for ever.
    ///
    /// # Panics
    /// - Directly inside a task, and in the destructor of a task's future, because it would hold the worker.
    /// - If `future` panics.
    /// - If a task has panicked and the runtime was built with [`UnhandledPanic::ShutdownRuntime`].
    ///
    /// [`UnhandledPanic::ShutdownRuntime`]: crate::runtime::UnhandledPanic::ShutdownRuntime
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Runtime::new()?;
    /// let handle = runtime.handle().clone();
    /// let thread = std::thread::spawn(move || {
    ///     handle.block_on(async { runtime::spawn(async { 1 }).await.unwrap() })
    /// });
    /// assert_eq!(thread.join().unwrap(), 1);
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        assert!(
            !coop::is_polling_task(),
            "`block_on` would hold the worker that polls this task: `.await` the future instead, or call \
             `block_on` inside of `spawn_blocking` or `block_in_place`"
        );
        as_tokio::enters_block_on();
        output_of(future, |future| self.wait_for(future))
    }

    fn wait_for(&self, future: ErasedFuture<'_>) {
        let wait = || match self.runtime_flavor() {
            Flavor::CurrentThread => block_on::blocking(|| current_thread::block_on(&self.reference, future)),
            Flavor::MultiThread => block_on::wait_patiently(future, || self.shared().crowd.is_overrun()),
        };
        let _in_block_on = self.shared().enter_block_on();
        // SAFETY: our reference keeps the state.
        unsafe { context::enter_runtime(self.shared_ptr(), || context::enter_block_on(wait)) }
    }

    /// Returns the identity of the runtime. No other runtime of the process has or had the same.
    ///
    /// # Examples
    /// ```
    /// let (one, other) = (runtime::Runtime::new()?, runtime::Runtime::new()?);
    /// assert_ne!(one.handle().id(), other.handle().id());
    /// assert_eq!(one.block_on(async { runtime::Handle::current().id() }), one.handle().id());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn id(&self) -> Id {
        Id(self.shared().id)
    }

    /// Returns the name that [`Builder::name`](crate::Builder::name) gave the runtime, or `None`.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_current_thread().name("timers").build()?;
    /// let name = runtime.block_on(async { runtime::Handle::current().name().map(str::to_owned) });
    /// assert_eq!(name.as_deref(), Some("timers"));
    /// # std::io::Result::Ok(())
    /// ```
    pub fn name(&self) -> Option<&str> {
        self.shared().config.name.as_deref()
    }

    /// Returns a view of the runtime's metrics.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// assert_eq!(runtime::Handle::current().metrics().num_workers(), 1);
    /// # });
    /// ```
    pub fn metrics(&self) -> RuntimeMetrics {
        RuntimeMetrics::new(self.reference.clone())
    }

    /// Returns the kind of scheduler that the runtime has.
    ///
    /// # Examples
    /// ```
    /// use runtime::runtime::RuntimeFlavor;
    ///
    /// let runtime = runtime::Builder::new_current_thread().build()?;
    /// assert_eq!(runtime.handle().runtime_flavor(), RuntimeFlavor::CurrentThread);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn runtime_flavor(&self) -> Flavor {
        self.shared().config.flavor
    }

    /// Returns the I/O driver for a call of `what`.
    ///
    /// # Panics
    /// At the caller's line if the runtime has no I/O driver.
    #[track_caller]
    pub(crate) fn io_driver(&self, what: &str) -> &driver::io::IoDriver {
        let driver = self.shared().driver.io().filter(|_| self.shared().config.has_io);
        match driver {
            Some(driver) => driver,
            None => panic_no_io(what),
        }
    }

    /// Returns the time driver for a call of `what`.
    ///
    /// # Panics
    /// At the caller's line if the runtime has no time driver.
    #[track_caller]
    #[inline]
    pub(crate) fn time_driver(&self, what: &str) -> &driver::time::TimeDriver {
        match self.shared().driver.time() {
            Some(driver) => driver,
            None => panic_no_time(what),
        }
    }

    /// The time driver, if the runtime has one.
    #[inline]
    pub(crate) fn try_time_driver(&self) -> Option<&driver::time::TimeDriver> {
        self.shared().driver.time()
    }

    /// The index of the worker on whose wheel the calling thread registers timers. For spare workers and
    /// threads that are no workers, an index that no worker has.
    #[inline]
    pub(crate) fn wheel_of_this_thread(&self) -> usize {
        context::with_worker_of(self.shared_ptr(), |worker| {
            // A worker that blocks or computes does not look at its wheel before it sleeps.
            worker.filter(|worker| worker.takes_tasks()).map_or(usize::MAX, |worker| worker.index())
        })
    }

    /// Called when a thread that is no worker has registered a timer that is the earliest of its wheel.
    pub(crate) fn timer_registered(&self, deadline: driver::time::Deadline) {
        self.shared().driver.timer_registered(deadline);
    }
}

/// The identity of a runtime; see [`Handle::id`] and [`LocalSet::id`](crate::task::LocalSet::id).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Id(NonZeroU64);

impl Id {
    /// Makes an identity that no runtime has or had.
    pub(crate) fn next() -> Self {
        Self(next_id())
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("flavor", &self.runtime_flavor()).finish_non_exhaustive()
    }
}

/// Keeps a runtime current. [`Handle::enter`] makes it.
///
/// It belongs to its thread, so it is not `Send`.
#[must_use = "the runtime is left when the guard is dropped"]
pub struct EnterGuard<'a> {
    _entered: Entered,
    lifetime: PhantomData<&'a Handle>,
}

/// What a guard gives back. It does not have the guard's lifetime, so that a program may shut a runtime down
/// before it drops a guard that it uses no more, as with Tokio.
struct Entered {
    entry: NonNull<Entry>,
    _handle: Handle,
}

// SAFETY: a shared reference has no methods. (The entry belongs to one thread, so this is not `Send`.)
unsafe impl Sync for Entered {}

impl Drop for Entered {
    fn drop(&mut self) {
        // SAFETY: the entry is from a box that `enter` made. It is freed only here, after it was unlinked.
        let was_newest = unsafe {
            let was_newest = self.entry.as_ref().is_newest();
            self.entry.as_ref().leave();
            drop(Box::from_raw(self.entry.as_ptr()));
            was_newest
        };
        as_tokio::leaves_runtime(was_newest);
    }
}

impl fmt::Debug for EnterGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnterGuard").finish_non_exhaustive()
    }
}

/// The error of [`Handle::try_current`]: no runtime is current.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TryCurrentError(());

impl TryCurrentError {
    /// Returns true. It is for programs written for Tokio, whose error has a second cause.
    pub fn is_missing_context(&self) -> bool {
        true
    }

    /// Returns false; see [`is_missing_context`](Self::is_missing_context).
    pub fn is_thread_local_destroyed(&self) -> bool {
        false
    }
}

impl fmt::Display for TryCurrentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&spawn::no_runtime("Handle::try_current"))
    }
}

impl Error for TryCurrentError {}

#[cold]
#[inline(never)]
#[track_caller]
fn panic_no_runtime(what: &str) -> ! {
    panic!("{}", spawn::no_runtime(what))
}

#[cold]
#[inline(never)]
#[track_caller]
fn panic_no_time(what: &str) -> ! {
    let theirs = "A Tokio 1.x context was found, but timers are disabled. \
                  Call `enable_time` on the runtime builder to enable timers.";
    panic_disabled(what, "timers", "enable_time", theirs)
}

#[cold]
#[inline(never)]
#[track_caller]
fn panic_no_io(what: &str) -> ! {
    let theirs = "A Tokio 1.x context was found, but IO is disabled. \
                  Call `enable_io` on the runtime builder to enable IO.";
    panic_disabled(what, "I/O", "enable_io", theirs)
}

#[track_caller]
fn panic_disabled(what: &str, part: &str, setter: &str, theirs: &str) -> ! {
    let ours = format!("`{what}` needs {part}: build the runtime with `{setter}` or `enable_all`");
    panic!("{}", as_tokio::text(theirs, ours))
}
