//! Building a thread pool: its settings, how its threads are started, and what happens if one cannot be
//! started.
//!
//! The builder counts as a worker of the pool that it builds. So nothing is freed before it has given every
//! job processor to a [`ThreadBuilder`], which counts as a worker, too. If the system refuses a thread, the
//! pool is dropped at once, and the started threads end like those of any dropped pool.
//!
//! A thread that keeps a job processor for good (`use_current_thread`) never leaves. Then the builder never
//! gives up its count, and the shared state lives for ever, because that thread may use the state in its last
//! destructor. `scheduler/lifecycle.rs` says what becomes of its computations.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread;

use super::error::{ErrorKind, ThreadPoolBuildError};
use super::pool::ThreadPool;
use super::thread::{CustomSpawn, DefaultSpawn, ThreadBuilder, ThreadSpawn};
use crate::config::{Config, Deadlock, DeadlockHandler, IndexedHook, PanicHandler};
use crate::driver::Driver;
use crate::runtime::builder::{MAX_WORKERS, available_cpus};
use crate::scheduler::away::OnChildJobs;
use crate::scheduler::context;
use crate::scheduler::{self, Shared, WorkerStart};
use crate::util::affinity;

/// The environment variable that sets the default number of threads of a pool.
const THREADS_VARIABLE: &str = "RAYON_NUM_THREADS";
/// The older name of the variable.
const OLD_THREADS_VARIABLE: &str = "RAYON_RS_NUM_CPUS";

/// Builds a [`ThreadPool`], or configures the process-wide one.
///
/// # Examples
/// ```
/// use runtime::parallel::ThreadPoolBuilder;
///
/// let pool = ThreadPoolBuilder::new().num_threads(2).thread_name(|i| format!("cruncher-{i}")).build()?;
/// assert_eq!(pool.install(|| std::thread::current().name().map(str::len)), Some(10));
/// # Ok::<(), runtime::parallel::ThreadPoolBuildError>(())
/// ```
///
/// Prior art: `rayon::ThreadPoolBuilder`, with the same names and defaults.
pub struct ThreadPoolBuilder<S = DefaultSpawn> {
    settings: Settings,
    /// Starts the threads.
    spawner: S,
}

/// All settings except how the threads are started.
#[derive(Default)]
pub struct Settings {
    /// 0: the default.
    num_threads: usize,
    use_current_thread: bool,
    thread_name: Option<Box<dyn FnMut(usize) -> String>>,
    stack_size: Option<usize>,
    panic_handler: Option<PanicHandler>,
    start_handler: Option<IndexedHook>,
    exit_handler: Option<IndexedHook>,
    deadlock_handler: Option<DeadlockHandler>,
    is_breadth_first: bool,
}

impl ThreadPoolBuilder {
    /// Begins a pool with default settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Builds a pool for as long as `with_pool` runs, with threads that may borrow. Returns the result of
    /// `with_pool`, after all threads have ended.
    ///
    /// `wrapper` is called on each thread and has to call [`ThreadBuilder::run`]. Jobs can use what `wrapper`
    /// borrows or sets, for instance thread-locals. They must not borrow it, because they may move to any of
    /// the threads.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    ///
    /// # Panics
    /// If `with_pool` or `wrapper` panics, after all threads have ended.
    ///
    /// # Examples
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    /// use runtime::parallel::ThreadPoolBuilder;
    ///
    /// let begun = AtomicUsize::new(0);
    /// let wrapper = |thread: runtime::parallel::ThreadBuilder| {
    ///     begun.fetch_add(1, Relaxed);
    ///     thread.run();
    /// };
    /// let builder = ThreadPoolBuilder::new().num_threads(2);
    /// let sum = builder.build_scoped(wrapper, |pool| pool.install(|| 1 + 1))?;
    /// assert_eq!((sum, begun.into_inner()), (2, 2));
    /// # Ok::<(), runtime::parallel::ThreadPoolBuildError>(())
    /// ```
    pub fn build_scoped<W, F, R>(self, wrapper: W, with_pool: F) -> Result<R, ThreadPoolBuildError>
    where
        W: Fn(ThreadBuilder) + Sync,
        F: FnOnce(&ThreadPool) -> R,
    {
        /// When dropped, lets other threads have this thread's child jobs until what it holds is dropped.
        struct Expose<'a, 'b>(&'b Cell<Option<OnChildJobs<'a>>>);
        impl Drop for Expose<'_, '_> {
            fn drop(&mut self) {
                // SAFETY: (1) the frame that has made this thread the holder is below that of the call.
                self.0.set(unsafe { context::expose_while_blocked() });
            }
        }
        let on_child_jobs = Cell::new(None);
        thread::scope(|scope| {
            // The scope waits for the pool's threads, also if `with_pool` panics.
            let _expose = Expose(&on_child_jobs);
            let wrapper = &wrapper;
            let pool = self.settings.start(|thread| {
                let builder = thread.std_builder();
                builder.spawn_scoped(scope, affinity::unpinned(None, move || wrapper(thread)))?;
                Ok(())
            });
            Ok(with_pool(&pool.map_err(ThreadPoolBuildError::new)?))
        })
    }
}

impl<S: ThreadSpawn> ThreadPoolBuilder<S> {
    /// Builds the pool and starts its threads, without waiting until they run.
    ///
    /// # Errors
    /// - The system's error if it refuses a thread, or the error of the
    ///   [`spawn_handler`](Self::spawn_handler). Threads that were started end.
    /// - An [`InvalidInput`](io::ErrorKind::InvalidInput) error with the value, if a thread's name contains
    ///   NUL or the stack size is out of its range. It is the [`source`](std::error::Error::source) of the
    ///   returned error, as is the system's error.
    /// - An error for [`use_current_thread`](Self::use_current_thread) if the calling thread belongs to a
    ///   pool or runtime already, or computes for one.
    ///
    /// # Panics
    /// If the function of [`thread_name`](Self::thread_name) or the [`spawn_handler`](Self::spawn_handler)
    /// panics. Threads that were started end.
    pub fn build(self) -> Result<ThreadPool, ThreadPoolBuildError> {
        let Self { settings, mut spawner } = self;
        settings.start(|thread| spawner.spawn(thread)).map_err(ThreadPoolBuildError::new)
    }
}

impl<S> ThreadPoolBuilder<S> {
    /// Sets a function that starts the threads. It is called once for each thread, and has to make a thread
    /// call [`ThreadBuilder::run`].
    ///
    /// If the function drops a `ThreadBuilder` and returns `Ok`, the pool has one thread less than it counts.
    /// Then a `broadcast` never returns. A pool without any thread has ended: calls run in place, and scopes on
    /// the process-wide pool. A call that was made before the last one was dropped never returns, and a
    /// detached job is lost.
    ///
    /// # Examples
    /// ```
    /// use runtime::parallel::ThreadPoolBuilder;
    ///
    /// let builder = ThreadPoolBuilder::new().num_threads(2).spawn_handler(|thread| {
    ///     let mut builder = std::thread::Builder::new().name(format!("mine-{}", thread.index()));
    ///     if let Some(bytes) = thread.stack_size() {
    ///         builder = builder.stack_size(bytes);
    ///     }
    ///     builder.spawn(|| thread.run())?;
    ///     Ok(())
    /// });
    /// let pool = builder.build()?;
    /// assert_eq!(pool.current_num_threads(), 2);
    /// # Ok::<(), runtime::parallel::ThreadPoolBuildError>(())
    /// ```
    pub fn spawn_handler<F>(self, spawn: F) -> ThreadPoolBuilder<CustomSpawn<F>>
    where
        F: FnMut(ThreadBuilder) -> io::Result<()>,
    {
        ThreadPoolBuilder { settings: self.settings, spawner: CustomSpawn(spawn) }
    }

    /// Sets a function that names the threads by their index. Without it, the threads have no names of their
    /// own.
    pub fn thread_name<F>(mut self, name: F) -> Self
    where
        F: FnMut(usize) -> String + 'static,
    {
        self.settings.thread_name = Some(Box::new(name));
        self
    }

    /// Sets the number of threads; more than 4096 count as 4096.
    ///
    /// 0, the default, stands for the environment variable `RAYON_NUM_THREADS`, or for `RAYON_RS_NUM_CPUS` if
    /// the first is not set to a number. If that gives no positive number, 0 stands for the number of CPUs
    /// that the process may use.
    pub fn num_threads(mut self, num_threads: usize) -> Self {
        self.settings.num_threads = num_threads;
        self
    }

    /// Makes the thread that calls `build` the first of the pool's threads, for the rest of its life.
    ///
    /// The thread runs the pool's jobs only while it waits for its own or yields (`yield_now`). So if it is
    /// the only thread of the pool, jobs that others spawn run only then. A `broadcast` waits for it. The
    /// memory of the pool is never freed.
    ///
    /// The pool may be dropped at any time. The other threads stay until the computation that this thread is
    /// in has ended. From then on, a `join`, a scope or a `broadcast` on this thread belongs to the runtime
    /// that the thread has entered, or else to the process-wide pool. A `spawn` runs in place.
    pub fn use_current_thread(mut self) -> Self {
        self.settings.use_current_thread = true;
        self
    }

    /// Sets a function that gets the panics of jobs that no caller waits for (`spawn`, `spawn_fifo`,
    /// `spawn_broadcast`), and of the start and exit handlers. If the function panics, the process aborts.
    ///
    /// Without it, such a panic ends with the message that the panic hook prints. (Rayon aborts the process.
    /// So does this crate with its feature `abort-on-detached-panic`, which the shim `rayon-core` switches
    /// on.)
    pub fn panic_handler<H>(mut self, handler: H) -> Self
    where
        H: Fn(Box<dyn Any + Send>) + Send + Sync + 'static,
    {
        self.settings.panic_handler = Some(Arc::new(handler));
        self
    }

    /// Sets the stack size of the threads in bytes, at most `isize::MAX / 2`. The default is that of
    /// `std::thread`: 2 MiB, unless the variable `RUST_MIN_STACK` says otherwise.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.settings.stack_size = Some(bytes);
        self
    }

    /// Makes each thread run the jobs of its own queue in the order of their pushes. The default is the
    /// reverse order.
    #[deprecated(note = "use `scope_fifo` and `spawn_fifo` for similar effect")]
    pub fn breadth_first(mut self) -> Self {
        self.settings.is_breadth_first = true;
        self
    }

    /// Calls `handler` when every thread of the pool is asleep or marked as blocked, at least one is marked,
    /// and no job is left that one of the others could run; as
    /// [`Builder::deadlock_handler`](crate::Builder::deadlock_handler).
    ///
    /// A thread of the pool that waits in another pool or runtime counts as awake. A non-pool thread that
    /// waits in [`install`](ThreadPool::install) and the like does not count.
    ///
    /// # Examples
    /// ```
    /// use runtime::parallel::ThreadPoolBuilder;
    ///
    /// let builder = ThreadPoolBuilder::new().deadlock_handler(|deadlock| {
    ///     eprintln!("{deadlock}");
    ///     std::process::abort();
    /// });
    /// let pool = builder.build()?;
    /// # Ok::<(), runtime::parallel::ThreadPoolBuildError>(())
    /// ```
    pub fn deadlock_handler<H>(mut self, handler: H) -> Self
    where
        H: Fn(&Deadlock) + Send + Sync + 'static,
    {
        self.settings.deadlock_handler = Some(Arc::new(handler));
        self
    }

    /// Calls `handler` on each thread, with its index, before its first job. Does not call it on the thread
    /// of [`use_current_thread`](Self::use_current_thread).
    ///
    /// `handler` should not wait for the other threads, as a [`broadcast`](super::broadcast()) does: the
    /// system may refuse to start one of them.
    ///
    /// If it enters a runtime by a guard that stays on the thread ([`Handle::enter`](crate::Handle::enter)),
    /// that runtime is the current one in the thread's jobs. But a child job, an `install` and a part of a
    /// `broadcast` see the runtime of their call, if that was inside of one. If the threads enter different
    /// runtimes, a child job sees that of the thread that runs it.
    pub fn start_handler<H>(mut self, handler: H) -> Self
    where
        H: Fn(usize) + Send + Sync + 'static,
    {
        self.settings.start_handler = Some(Arc::new(handler));
        self
    }

    /// Calls `handler` on each thread, with its index, after its last job. Does not call it on the thread of
    /// [`use_current_thread`](Self::use_current_thread).
    ///
    /// The current runtime is that of the thread's jobs: see [`start_handler`](Self::start_handler).
    ///
    /// The other threads may be gone then. So `handler` must not wait inside of a [`scope`](super::scope())
    /// for a job of that scope, because nothing may run the job before the scope's end.
    pub fn exit_handler<H>(mut self, handler: H) -> Self
    where
        H: Fn(usize) + Send + Sync + 'static,
    {
        self.settings.exit_handler = Some(Arc::new(handler));
        self
    }
}

impl Settings {
    /// Makes a pool, and starts its threads by `spawn`.
    fn start(
        mut self,
        mut spawn: impl FnMut(ThreadBuilder) -> io::Result<()>,
    ) -> Result<ThreadPool, ErrorKind> {
        /// The builder's count as a worker.
        struct Building(NonNull<Shared>);
        impl Drop for Building {
            fn drop(&mut self) {
                // SAFETY: (1) `Shared::new` counted the builder as a worker, and this is its last use. (2)
                // This thread is no worker of the pool: if it becomes one, the count is never given up.
                unsafe { Shared::leave(self.0, 0) };
            }
        }
        let uses_current_thread = self.use_current_thread;
        if uses_current_thread && context::is_taken() {
            return Err(ErrorKind::CurrentThreadAlreadyInPool);
        }
        let stack_size = self.checked_stack_size()?;
        let workers = self.workers();
        let mut config = Config::of_pool(workers);
        config.is_breadth_first = self.is_breadth_first;
        config.panic_handler = self.panic_handler.take();
        config.start_handler = self.start_handler.take();
        config.exit_handler = self.exit_handler.take();
        config.deadlock_handler = self.deadlock_handler.take();
        config.thread_stack_size = stack_size;
        let shared = Shared::new(config, Driver::new(None, None));
        let building = Building(shared);
        // If a thread cannot be started, this is dropped before `building`, and the others end.
        // SAFETY: (1) the reference that `Shared::new` returns.
        let pool = unsafe { ThreadPool::adopt(shared) };
        for index in 0..workers {
            let name = self.next_name(index)?;
            if index > 0 || !uses_current_thread {
                // SAFETY: (1) the builder counts as a worker until `building` is dropped. (2) Each job
                // processor is given away once, and has had no owner before.
                let worker = unsafe { WorkerStart::new(shared, index) };
                spawn(ThreadBuilder { name, stack_size, worker })?;
            }
        }
        if uses_current_thread {
            // `thread_name` and `spawn_handler` may have made this thread a worker of another pool.
            if context::is_taken() {
                return Err(ErrorKind::CurrentThreadAlreadyInPool);
            }
            // Never given up: see the module's docs.
            std::mem::forget(building);
            // SAFETY: (1) `building` was our count as a worker, and is never given up. (2) No `ThreadBuilder`
            // got processor 0. (3) Checked just now.
            unsafe { scheduler::become_permanent_worker(shared) };
        }
        Ok(pool)
    }

    /// The number of threads.
    fn workers(&self) -> usize {
        let threads = match self.num_threads {
            0 => default_threads(number_in(THREADS_VARIABLE), || number_in(OLD_THREADS_VARIABLE)),
            n => n,
        };
        threads.min(MAX_WORKERS)
    }

    fn next_name(&mut self, index: usize) -> io::Result<Option<String>> {
        let name = self.thread_name.as_mut().map(|name| name(index));
        match name {
            // `std::thread` would panic.
            Some(name) if name.contains('\0') => {
                Err(invalid(format!("thread_name must not contain NUL, got {name:?}")))
            }
            name => Ok(name),
        }
    }

    /// Rejects sizes that `std::thread` could not round up.
    fn checked_stack_size(&self) -> io::Result<Option<usize>> {
        const MOST: usize = isize::MAX as usize / 2;
        match self.stack_size {
            Some(size) if size > MOST => {
                Err(invalid(format!("stack_size must be at most {MOST} bytes, got {size}")))
            }
            size => Ok(size),
        }
    }
}

/// The number that the two variables give, read as Rayon reads them.
fn default_threads(new: Option<usize>, old: impl FnOnce() -> Option<usize>) -> usize {
    match new {
        Some(0) => available_cpus(),
        Some(n) => n,
        None => old().filter(|&n| n > 0).unwrap_or_else(available_cpus),
    }
}

fn number_in(variable: &str) -> Option<usize> {
    std::env::var(variable).ok()?.parse().ok()
}

fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

impl Default for ThreadPoolBuilder {
    fn default() -> Self {
        Self { settings: Settings::default(), spawner: DefaultSpawn }
    }
}

impl<S> fmt::Debug for ThreadPoolBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.settings.fmt_as("ThreadPoolBuilder", f)
    }
}

impl Settings {
    fn fmt_as(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        struct Closure;
        impl fmt::Debug for Closure {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("<closure>")
            }
        }
        f.debug_struct(name)
            .field("num_threads", &self.num_threads)
            .field("use_current_thread", &self.use_current_thread)
            .field("thread_name", &self.thread_name.as_ref().map(|_| Closure))
            .field("panic_handler", &self.panic_handler.as_ref().map(|_| Closure))
            .field("stack_size", &self.stack_size)
            .field("start_handler", &self.start_handler.as_ref().map(|_| Closure))
            .field("exit_handler", &self.exit_handler.as_ref().map(|_| Closure))
            .field("breadth_first", &self.is_breadth_first)
            .finish()
    }
}
