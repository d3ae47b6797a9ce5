//! Building a runtime: every setting, its bounds, and what happens if the system refuses.

use std::fmt;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::driver::{self, Driver};
use crate::handle::Handle;
use crate::loom::thread;
use crate::runtime::Runtime;
use crate::scheduler::{self, Shared};
use crate::util::unwind;

/// Most worker threads.
const MAX_WORKERS: usize = 4096;
/// Most threads that take over while workers block.
const MAX_RELIEF_THREADS: usize = 512;
/// Every so many rounds a worker looks at the injector first, and at the driver: prime, as in Go, so that no periodic load
/// falls in step.
const INTERVAL: u32 = 61;
/// Events taken from the system in one turn of the driver.
const EVENTS_PER_TURN: usize = 1024;
/// The variable that sets the default number of worker threads.
const WORKERS_VARIABLE: &str = "RUNTIME_WORKER_THREADS";

/// The kind of scheduler a runtime has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flavor {
    /// Tasks run on the thread that is in `block_on`.
    CurrentThread,
    /// Tasks run on worker threads that steal from each other.
    MultiThread,
}

type Hook = Arc<dyn Fn() + Send + Sync>;

/// What the runtime's threads are called.
#[derive(Clone)]
enum ThreadName {
    Fixed(String),
    /// Asked for each thread.
    Made(Arc<dyn Fn() -> String + Send + Sync>),
}

impl ThreadName {
    /// The name of the next thread.
    fn next(&self) -> io::Result<String> {
        let name = match self {
            Self::Fixed(name) => name.clone(),
            Self::Made(f) => unwind::catch(|| f()).map_err(|payload| {
                unwind::drop_quietly(payload);
                io::Error::other("the function of thread_name_fn panicked")
            })?,
        };
        // `std::thread` would panic.
        match name.contains('\0') {
            true => Err(invalid(format!("thread_name must not contain NUL, got {name:?}"))),
            false => Ok(name),
        }
    }
}

/// Functions of the user, called at points in a thread's life. A panic in one is swallowed after it has been reported by the
/// panic hook.
#[derive(Clone, Default)]
pub struct Hooks {
    thread_start: Option<Hook>,
    thread_stop: Option<Hook>,
    thread_park: Option<Hook>,
    thread_unpark: Option<Hook>,
}

impl Hooks {
    pub fn on_thread_start(&self) {
        call(&self.thread_start);
    }

    pub fn on_thread_stop(&self) {
        call(&self.thread_stop);
    }

    pub fn on_park(&self) {
        call(&self.thread_park);
    }

    pub fn on_unpark(&self) {
        call(&self.thread_unpark);
    }
}

fn call(hook: &Option<Hook>) {
    if let Some(hook) = hook {
        unwind::drop_quietly(unwind::catch(|| hook()));
    }
}

/// What a runtime was built with.
pub struct Config {
    pub flavor: Flavor,
    pub workers: usize,
    pub max_blocking_threads: usize,
    pub thread_keep_alive: Duration,
    pub thread_stack_size: Option<usize>,
    thread_name: ThreadName,
    pub event_interval: u32,
    pub global_queue_interval: u32,
    pub hooks: Hooks,
    pub has_io: bool,
}

impl Config {
    /// Starts a thread of the runtime.
    ///
    /// # Errors
    /// What the system says if it refuses the thread, or that it cannot be named; `main` has then been dropped.
    pub fn start_thread(&self, main: impl FnOnce() + Send + 'static) -> io::Result<thread::JoinHandle<()>> {
        let builder = thread::Builder::new().name(self.thread_name.next()?);
        let builder = match self.thread_stack_size {
            Some(size) => builder.stack_size(size),
            None => builder,
        };
        builder.spawn(main)
    }

    pub fn max_relief_threads(&self) -> usize {
        match self.flavor {
            Flavor::CurrentThread => 0,
            Flavor::MultiThread => self.max_blocking_threads.min(MAX_RELIEF_THREADS),
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("flavor", &self.flavor)
            .field("workers", &self.workers)
            .field("max_blocking_threads", &self.max_blocking_threads)
            .field("has_io", &self.has_io)
            .finish_non_exhaustive()
    }
}

/// Builds a [`Runtime`].
///
/// Settings are checked by [`build`](Self::build), which gives an error that carries the value. (Tokio panics.)
///
/// # Examples
/// ```
/// let runtime = runtime::Builder::new_multi_thread()
///     .worker_threads(2)
///     .thread_name("my-server")
///     .enable_all()
///     .build()?;
/// runtime.block_on(async { println!("hello") });
/// # std::io::Result::Ok(())
/// ```
///
/// Prior art: `tokio::runtime::Builder`.
pub struct Builder {
    flavor: Flavor,
    worker_threads: Option<usize>,
    max_blocking_threads: usize,
    thread_keep_alive: Duration,
    thread_stack_size: Option<usize>,
    thread_name: ThreadName,
    event_interval: u32,
    global_queue_interval: u32,
    hooks: Hooks,
    has_io: bool,
    has_time: bool,
    is_start_paused: bool,
}

impl Builder {
    /// Begins a runtime with worker threads that steal tasks from each other.
    pub fn new_multi_thread() -> Self {
        Self::new(Flavor::MultiThread)
    }

    /// Begins a runtime that runs its tasks on the thread that is in `block_on`.
    pub fn new_current_thread() -> Self {
        Self::new(Flavor::CurrentThread)
    }

    fn new(flavor: Flavor) -> Self {
        Self {
            flavor,
            worker_threads: None,
            max_blocking_threads: 512,
            thread_keep_alive: Duration::from_secs(10),
            thread_stack_size: None,
            thread_name: ThreadName::Fixed("runtime-worker".to_owned()),
            event_interval: INTERVAL,
            global_queue_interval: INTERVAL,
            hooks: Hooks::default(),
            has_io: false,
            has_time: false,
            is_start_paused: false,
        }
    }

    /// Sets the number of worker threads, from 1 to 4096. No effect on a `current_thread` runtime.
    ///
    /// The default is the environment variable `RUNTIME_WORKER_THREADS`, else the number of CPUs that the process may use
    /// by its affinity and its control group.
    pub fn worker_threads(&mut self, n: usize) -> &mut Self {
        self.worker_threads = Some(n);
        self
    }

    /// Sets how many threads may run blocking closures at once, at least 1. The default is 512.
    ///
    /// Threads are started when they are needed. As many, but 512 at most, may take over for workers in
    /// [`block_in_place`](crate::task::block_in_place).
    pub fn max_blocking_threads(&mut self, n: usize) -> &mut Self {
        self.max_blocking_threads = n;
        self
    }

    /// Sets after what time an idle blocking thread ends. The default is 10 s.
    pub fn thread_keep_alive(&mut self, duration: Duration) -> &mut Self {
        self.thread_keep_alive = duration;
        self
    }

    /// Sets the stack size of the runtime's threads in bytes. The default is that of `std::thread`, 2 MiB.
    pub fn thread_stack_size(&mut self, bytes: usize) -> &mut Self {
        self.thread_stack_size = Some(bytes);
        self
    }

    /// Sets the name of the runtime's threads. The default is `runtime-worker`.
    pub fn thread_name(&mut self, name: impl Into<String>) -> &mut Self {
        self.thread_name = ThreadName::Fixed(name.into());
        self
    }

    /// Sets a function that names each thread as it is started. If it panics or the name contains NUL, the thread is not
    /// started, as if the system had refused it.
    pub fn thread_name_fn(&mut self, f: impl Fn() -> String + Send + Sync + 'static) -> &mut Self {
        self.thread_name = ThreadName::Made(Arc::new(f));
        self
    }

    /// Calls `f` on each thread of the runtime when it begins.
    pub fn on_thread_start(&mut self, f: impl Fn() + Send + Sync + 'static) -> &mut Self {
        self.hooks.thread_start = Some(Arc::new(f));
        self
    }

    /// Calls `f` on each thread of the runtime before it ends.
    pub fn on_thread_stop(&mut self, f: impl Fn() + Send + Sync + 'static) -> &mut Self {
        self.hooks.thread_stop = Some(Arc::new(f));
        self
    }

    /// Calls `f` on a worker before it goes to sleep. The worker counts as asleep already, so `f` should be short.
    pub fn on_thread_park(&mut self, f: impl Fn() + Send + Sync + 'static) -> &mut Self {
        self.hooks.thread_park = Some(Arc::new(f));
        self
    }

    /// Calls `f` on a worker after it woke.
    pub fn on_thread_unpark(&mut self, f: impl Fn() + Send + Sync + 'static) -> &mut Self {
        self.hooks.thread_unpark = Some(Arc::new(f));
        self
    }

    /// Enables sockets and signals.
    pub fn enable_io(&mut self) -> &mut Self {
        self.has_io = true;
        self
    }

    /// Enables timers.
    pub fn enable_time(&mut self) -> &mut Self {
        self.has_time = true;
        self
    }

    /// Enables I/O and time.
    pub fn enable_all(&mut self) -> &mut Self {
        self.enable_io().enable_time()
    }

    /// Sets after how many rounds a busy worker looks for events and timers, at least 1. The default is 61.
    pub fn event_interval(&mut self, rounds: u32) -> &mut Self {
        self.event_interval = rounds;
        self
    }

    /// Sets after how many rounds a busy worker takes a task of the global queue first, at least 1. The default is 61.
    pub fn global_queue_interval(&mut self, rounds: u32) -> &mut Self {
        self.global_queue_interval = rounds;
        self
    }

    /// Starts with the clock paused; see [`time::pause`](crate::time::pause). For `current_thread` runtimes with time enabled.
    pub fn start_paused(&mut self, is_paused: bool) -> &mut Self {
        self.is_start_paused = is_paused;
        self
    }

    /// Builds the runtime and starts its workers.
    ///
    /// # Errors
    /// - [`InvalidInput`](io::ErrorKind::InvalidInput), with the value, if a setting or `RUNTIME_WORKER_THREADS` is out of
    ///   its range.
    /// - What the system says if it refuses a descriptor or a thread. Threads that were started have then ended, and nothing
    ///   is left open.
    pub fn build(&mut self) -> io::Result<Runtime> {
        let config = self.config()?;
        let workers = config.workers;
        let driver = self.driver(workers)?;
        let shared = Shared::new(config, driver);
        // SAFETY: the reference that `Shared::new` returns.
        let handle = unsafe { Handle::adopt(shared) };
        let runtime = match self.flavor {
            Flavor::CurrentThread => Runtime::new_current_thread(handle),
            Flavor::MultiThread => start_workers(shared, workers, handle)?,
        };
        Ok(runtime)
    }

    /// Checks the settings.
    fn config(&self) -> io::Result<Config> {
        let workers = match self.flavor {
            Flavor::CurrentThread => 1,
            Flavor::MultiThread => self.workers()?,
        };
        at_least_one("max_blocking_threads", self.max_blocking_threads)?;
        at_least_one("event_interval", self.event_interval as usize)?;
        at_least_one("global_queue_interval", self.global_queue_interval as usize)?;
        if let Some(size) = self.thread_stack_size.filter(|&size| size == 0 || size > isize::MAX as usize / 2)
        {
            return Err(invalid(format!(
                "thread_stack_size must be from 1 to {} bytes, got {size}",
                isize::MAX / 2
            )));
        }
        if let ThreadName::Fixed(_) = self.thread_name {
            self.thread_name.next()?;
        }
        if self.is_start_paused && (self.flavor != Flavor::CurrentThread || !self.has_time) {
            let text = "start_paused needs a current_thread runtime with time enabled";
            return Err(invalid(text.to_owned()));
        }
        Ok(Config {
            flavor: self.flavor,
            workers,
            max_blocking_threads: self.max_blocking_threads,
            thread_keep_alive: self.thread_keep_alive,
            thread_stack_size: self.thread_stack_size,
            thread_name: self.thread_name.clone(),
            event_interval: self.event_interval,
            global_queue_interval: self.global_queue_interval,
            hooks: self.hooks.clone(),
            has_io: self.has_io,
        })
    }

    fn workers(&self) -> io::Result<usize> {
        let (what, n) = match (self.worker_threads, std::env::var_os(WORKERS_VARIABLE)) {
            (Some(n), _) => ("worker_threads", n),
            (None, Some(text)) => match text.to_str().and_then(|text| text.trim().parse().ok()) {
                Some(n) => (WORKERS_VARIABLE, n),
                None => return Err(invalid(format!("{WORKERS_VARIABLE} must be a number, got {text:?}"))),
            },
            (None, None) => ("worker_threads", available_cpus()),
        };
        match n {
            1..=MAX_WORKERS => Ok(n),
            0 => Err(invalid(format!("{what} must be at least 1, got 0"))),
            _ => Err(invalid(format!("{what} must be at most {MAX_WORKERS}, got {n}"))),
        }
    }

    fn driver(&self, workers: usize) -> io::Result<Driver> {
        // Timers need a place to sleep, so there is an I/O driver also if only time is enabled.
        let io = match self.has_io || self.has_time {
            true => Some(driver::io::Driver::new(EVENTS_PER_TURN).map_err(|error| {
                io::Error::new(error.kind(), format!("could not open the driver's descriptors: {error}"))
            })?),
            false => None,
        };
        // One wheel for each worker, one for all other threads.
        let mut time = self.has_time.then(|| driver::time::Driver::new(workers + 1, self.is_start_paused));
        if self.flavor == Flavor::CurrentThread {
            time.as_mut().map(driver::time::Driver::allow_pausing);
        }
        Ok(Driver::new(io, time))
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("flavor", &self.flavor)
            .field("worker_threads", &self.worker_threads)
            .field("max_blocking_threads", &self.max_blocking_threads)
            .field("enable_io", &self.has_io)
            .field("enable_time", &self.has_time)
            .finish_non_exhaustive()
    }
}

/// Starts all workers, or none.
fn start_workers(shared: NonNull<Shared>, workers: usize, handle: Handle) -> io::Result<Runtime> {
    let mut threads = Vec::with_capacity(workers);
    let mut refused = None;
    for index in 0..workers {
        // SAFETY: the builder counts as a worker until `leave`; nobody owns the processor yet.
        match unsafe { scheduler::start_worker(shared, index) } {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                let text = format!("could not start worker thread {} of {workers}: {error}", index + 1);
                refused = Some(io::Error::new(error.kind(), text));
                break;
            }
        }
    }
    if refused.is_some() {
        handle.shared().begin_shutdown();
    }
    // SAFETY: the builder's count; it is in no worker's context. The handle keeps the state.
    unsafe { Shared::leave(shared, 0) };
    match refused {
        None => Ok(Runtime::new_multi_thread(handle, threads)),
        Some(error) => {
            threads.into_iter().for_each(|thread| _ = thread.join());
            Err(error)
        }
    }
}

/// CPUs that the process may use. Asked once: the answer costs reading files of the control group.
fn available_cpus() -> usize {
    static CPUS: AtomicUsize = AtomicUsize::new(0);
    match CPUS.load(Relaxed) {
        0 => {
            let cpus = std::thread::available_parallelism().map_or(1, |n| n.get()).min(MAX_WORKERS);
            CPUS.store(cpus, Relaxed);
            cpus
        }
        cpus => cpus,
    }
}

fn at_least_one(what: &str, n: usize) -> io::Result<()> {
    if n == 0 { Err(invalid(format!("{what} must be at least 1, got 0"))) } else { Ok(()) }
}

fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}
