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
use crate::histogram::HistogramConfiguration;
use crate::loom::{HAS_MONITOR, thread};
use crate::observer::{Observer, TaskHooks, TaskMeta};
use crate::runtime::Runtime;
use crate::scheduler::deadlock::{Deadlock, DeadlockHandler};
use crate::scheduler::{self, Shared};
use crate::stall::Stall;
use crate::util::affinity::{self, Pins};
use crate::util::unwind;

/// Most worker threads.
pub const MAX_WORKERS: usize = 4096;
/// Most threads that take over while workers block.
pub const MAX_SPARE_WORKERS: usize = 512;
/// What the monitor's thread is called.
const MONITOR_NAME: &str = "runtime-monitor";
/// Every so many rounds a worker looks at the injector first, and at the driver: prime, as in Go, so that no
/// periodic load falls in step.
const INTERVAL: u32 = 61;
/// Events taken from the system in one turn of the driver, unless the builder says otherwise.
const EVENTS_PER_TURN: usize = 1024;
/// Most events of one turn, for which the driver keeps 12 MiB.
const MAX_EVENTS_PER_TURN: usize = 1 << 20;
/// The variables that set the default number of worker threads: ours, else Tokio's.
const WORKERS_VARIABLES: [&str; 2] = ["RUNTIME_WORKER_THREADS", "TOKIO_WORKER_THREADS"];

/// The kind of scheduler a runtime has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flavor {
    /// Tasks run on the thread that is in `block_on`.
    CurrentThread,
    /// Tasks run on worker threads that steal from each other.
    MultiThread,
}

/// What a panic in a task does to its runtime; see [`Builder::unhandled_panic`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnhandledPanic {
    /// Nothing. The panic is in the task's [`JoinHandle`](crate::task::JoinHandle). The default.
    Ignore,
    /// The runtime is shut down, and `block_on` panics.
    ShutdownRuntime,
}

/// A seed for [`Builder::rng_seed`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RngSeed(u64);

impl RngSeed {
    /// The seed that stands for these bytes: the same on all machines, and in all releases.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        // FNV-1a.
        Self(bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        }))
    }

    /// Seed `index` of the series that begins with this one.
    pub(crate) fn of(&self, index: u64) -> u64 {
        // As splitmix64 does it: neighbours have nothing in common.
        let mixed = self.0.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

type Hook = Arc<dyn Fn() + Send + Sync>;

/// What is called with a stuck worker.
type StallHook = Arc<dyn Fn(&Stall) + Send + Sync>;

/// What is called with the index of a pool's thread.
pub type IndexedHook = Arc<dyn Fn(usize) + Send + Sync>;

/// What is called with the panic of a detached job.
pub type PanicHandler = Arc<dyn Fn(unwind::Payload) + Send + Sync>;

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

/// Functions of the user, called at points in a thread's life. A panic in one is swallowed after it has been
/// reported by the panic hook.
#[derive(Clone, Default)]
pub struct Hooks {
    thread_start: Option<Hook>,
    thread_stop: Option<Hook>,
    thread_park: Option<Hook>,
    thread_unpark: Option<Hook>,
    stall: Option<StallHook>,
}

impl Hooks {
    pub fn on_thread_start(&self) {
        call(&self.thread_start);
    }

    pub fn on_thread_stop(&self) {
        call(&self.thread_stop);
    }

    pub fn has_park(&self) -> bool {
        self.thread_park.is_some()
    }

    pub fn has_unpark(&self) -> bool {
        self.thread_unpark.is_some()
    }

    pub fn has_stall(&self) -> bool {
        self.stall.is_some()
    }

    pub fn on_park(&self) {
        call(&self.thread_park);
    }

    pub fn on_unpark(&self) {
        call(&self.thread_unpark);
    }

    /// Called on a blocking thread.
    #[allow(dead_code)]
    pub fn on_stall(&self, stall: &Stall) {
        if let Some(hook) = &self.stall {
            unwind::drop_quietly(unwind::catch(|| hook(stall)));
        }
    }
}

fn call(hook: &Option<Hook>) {
    if let Some(hook) = hook {
        unwind::drop_quietly(unwind::catch(|| hook()));
    }
}

/// What a runtime was built with.
pub struct Config {
    /// The runtime's own name, not that of its threads.
    pub name: Option<String>,
    pub flavor: Flavor,
    pub workers: usize,
    pub max_blocking_threads: usize,
    pub spare_workers: usize,
    pub thread_keep_alive: Duration,
    pub thread_stack_size: Option<usize>,
    thread_name: ThreadName,
    pub event_interval: u32,
    pub global_queue_interval: u32,
    pub hooks: Hooks,
    /// Keeps workers on CPUs.
    pub pins: Option<Pins>,
    pub has_io: bool,
    /// Only jobs run on it: no driver, no spare workers.
    pub is_pool: bool,
    /// Jobs are run in the order in which they were spawned, see `ThreadPoolBuilder::breadth_first`.
    pub is_breadth_first: bool,
    /// Gets the panics of detached jobs.
    pub panic_handler: Option<PanicHandler>,
    /// Called on each seat's thread before its first job, and after its last.
    pub start_handler: Option<IndexedHook>,
    pub exit_handler: Option<IndexedHook>,
    /// Is told when nothing can unblock the threads that are marked.
    pub deadlock_handler: Option<DeadlockHandler>,
    /// Calls the task hooks and measures polls.
    pub observer: Option<Arc<Observer>>,
    pub unhandled_panic: UnhandledPanic,
    pub rng_seed: Option<RngSeed>,
    pub has_lifo_slot: bool,
}

impl Config {
    /// That of a pool of jobs, whose threads others start and name.
    pub fn of_pool(workers: usize) -> Self {
        Self {
            name: None,
            flavor: Flavor::MultiThread,
            workers,
            max_blocking_threads: 0,
            spare_workers: 0,
            thread_keep_alive: Duration::ZERO,
            thread_stack_size: None,
            thread_name: ThreadName::Fixed(String::new()),
            event_interval: INTERVAL,
            global_queue_interval: INTERVAL,
            hooks: Hooks::default(),
            pins: None,
            has_io: false,
            is_pool: true,
            is_breadth_first: false,
            panic_handler: None,
            start_handler: None,
            exit_handler: None,
            deadlock_handler: None,
            observer: None,
            unhandled_panic: UnhandledPanic::Ignore,
            rng_seed: None,
            has_lifo_slot: true,
        }
    }

    /// Whether a thread that is no worker may run its parallel calls itself; see `scheduler/external.rs`.
    pub fn takes_external(&self) -> bool {
        let are_threads_special = self.thread_stack_size.is_some()
            || self.start_handler.is_some()
            || self.hooks.thread_start.is_some();
        self.flavor == Flavor::MultiThread
            && self.workers >= 2
            && self.deadlock_handler.is_none()
            && !are_threads_special
    }

    /// Starts a thread of the runtime.
    ///
    /// # Errors
    /// What the system says if it refuses the thread, or that it cannot be named; `main` has then been
    /// dropped.
    pub fn start_thread(&self, main: impl FnOnce() + Send + 'static) -> io::Result<thread::JoinHandle<()>> {
        start(self.thread_name.next()?, self.thread_stack_size, self.unpinned(main))
    }

    /// Starts the monitor's thread, which has a name and a stack of its own.
    ///
    /// # Errors
    /// What the system says if it refuses the thread.
    pub fn start_monitor(&self, main: impl FnOnce() + Send + 'static) -> io::Result<thread::JoinHandle<()>> {
        start(MONITOR_NAME.to_owned(), None, self.unpinned(main))
    }

    /// What a thread runs that the calling one starts: `main`, but not on the one CPU of a pinned worker.
    fn unpinned<F: FnOnce() + Send + 'static>(&self, main: F) -> impl FnOnce() + Send + use<F> {
        affinity::unpinned(self.pins.as_ref(), main)
    }

    pub fn max_spares(&self) -> usize {
        match self.flavor {
            Flavor::CurrentThread => 0,
            Flavor::MultiThread if self.is_pool => 0,
            Flavor::MultiThread => self.spare_workers,
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("name", &self.name)
            .field("flavor", &self.flavor)
            .field("workers", &self.workers)
            .field("max_blocking_threads", &self.max_blocking_threads)
            .field("has_io", &self.has_io)
            .finish_non_exhaustive()
    }
}

/// Builds a [`Runtime`].
///
/// Settings are checked by [`build`](Self::build), which gives an error that carries the value. (Tokio
/// panics.)
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
    name: Option<String>,
    flavor: Flavor,
    worker_threads: Option<usize>,
    max_blocking_threads: usize,
    spare_workers: usize,
    thread_keep_alive: Duration,
    thread_stack_size: Option<usize>,
    thread_name: ThreadName,
    event_interval: u32,
    global_queue_interval: u32,
    max_io_events_per_tick: usize,
    max_io_events_per_busy_tick: Option<usize>,
    hooks: Hooks,
    deadlock_handler: Option<DeadlockHandler>,
    task_hooks: TaskHooks,
    has_poll_times: bool,
    poll_times: HistogramConfiguration,
    unhandled_panic: UnhandledPanic,
    rng_seed: Option<RngSeed>,
    has_lifo_slot: bool,
    is_pinning: bool,
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
            name: None,
            flavor,
            worker_threads: None,
            max_blocking_threads: 512,
            spare_workers: MAX_SPARE_WORKERS,
            thread_keep_alive: Duration::from_secs(10),
            thread_stack_size: None,
            thread_name: ThreadName::Fixed("runtime-worker".to_owned()),
            event_interval: INTERVAL,
            global_queue_interval: INTERVAL,
            max_io_events_per_tick: EVENTS_PER_TURN,
            max_io_events_per_busy_tick: None,
            hooks: Hooks::default(),
            deadlock_handler: None,
            task_hooks: TaskHooks::default(),
            has_poll_times: false,
            poll_times: HistogramConfiguration::default(),
            unhandled_panic: UnhandledPanic::Ignore,
            rng_seed: None,
            has_lifo_slot: true,
            is_pinning: false,
            has_io: false,
            has_time: false,
            is_start_paused: false,
        }
    }

    /// Sets the name of the runtime, which [`Handle::name`] returns: at least one character that is no white
    /// space. By default a runtime has no name.
    ///
    /// The name is for people and logs. It is not that of the threads: see
    /// [`thread_name`](Self::thread_name). Several runtimes may have the same one; what tells them apart is
    /// [`Handle::id`].
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_multi_thread().worker_threads(1).name("requests").build()?;
    /// assert_eq!(runtime.handle().name(), Some("requests"));
    /// # std::io::Result::Ok(())
    /// ```
    pub fn name(&mut self, name: impl Into<String>) -> &mut Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the number of worker threads, from 1 to 4096. No effect on a `current_thread` runtime.
    ///
    /// The default is the environment variable `RUNTIME_WORKER_THREADS`, else `TOKIO_WORKER_THREADS`, else
    /// the number of CPUs that the process may use by its affinity and its control group.
    pub fn worker_threads(&mut self, n: usize) -> &mut Self {
        self.worker_threads = Some(n);
        self
    }

    /// Sets how many threads may run blocking closures at once, at least 1. The default is 512.
    ///
    /// Threads are started when they are needed. (Those that take over for stuck workers are not counted
    /// here: see [`spare_workers`](Self::spare_workers).)
    pub fn max_blocking_threads(&mut self, n: usize) -> &mut Self {
        self.max_blocking_threads = n;
        self
    }

    /// Sets how many *spare* workers there may be, which take over for workers that are stuck or blocked. The
    /// default is 512, which is the most.
    ///
    /// A task that computes for long in one poll, or blocks, keeps its worker. What else the worker holds
    /// goes to the other workers, and if none is idle, to spare ones. Their threads are started when work
    /// waits and no other thread is there. They poll tasks and run jobs until the others are back, and end
    /// after [`thread_keep_alive`](Self::thread_keep_alive). So no setting is needed; a lower bound limits
    /// memory when many tasks block at once, and makes tasks wait then.
    ///
    /// With 0, tasks wait while all workers are stuck or blocked, and computations do not yield to tasks.
    ///
    /// # Examples
    /// With one worker, which sleeps, the other task is polled all the same:
    /// ```
    /// let runtime = runtime::Builder::new_multi_thread().worker_threads(1).spare_workers(4).build()?;
    /// let (sender, receiver) = std::sync::mpsc::channel();
    /// let stuck = runtime.spawn(async move { receiver.recv().unwrap() });
    /// runtime.spawn(async move { sender.send(7).unwrap() });
    /// assert_eq!(runtime.block_on(stuck).unwrap(), 7);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// Prior art: Go's `sysmon`, which hands on the processor of a thread that is stuck in a system call.
    pub fn spare_workers(&mut self, max: usize) -> &mut Self {
        self.spare_workers = max;
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

    /// Sets a function that names each thread as it is started. If it panics or the name contains NUL, the
    /// thread is not started, as if the system had refused it.
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

    /// Calls `f` on a worker before it goes to sleep. The worker counts as asleep already, so `f` should be
    /// short.
    pub fn on_thread_park(&mut self, f: impl Fn() + Send + Sync + 'static) -> &mut Self {
        self.hooks.thread_park = Some(Arc::new(f));
        self
    }

    /// Calls `f` on a worker after it woke.
    pub fn on_thread_unpark(&mut self, f: impl Fn() + Send + Sync + 'static) -> &mut Self {
        self.hooks.thread_unpark = Some(Arc::new(f));
        self
    }

    /// Calls `f` when a worker is found stuck: it has been in one poll of a task for some milliseconds, while
    /// something waits that it would have seen to, such as tasks, due timers or the driver.
    ///
    /// What waits is taken over by others; `f` is there to find the culprit. It gets the task's name and
    /// where it was spawned. It is called once for each time that a worker is found stuck: not again for the
    /// same poll, again for a later one.
    ///
    /// It is not called while a worker runs a [computation](crate::compute()), nor inside of
    /// [`block_in_place`](crate::task::block_in_place) or while the thread is marked by
    /// [`mark_blocked`](crate::parallel::mark_blocked): those have said that they take long. Nor for closures
    /// of [`spawn_blocking`](crate::task::spawn_blocking), for the future of a `block_on`, or on a
    /// `current_thread` runtime, where no thread could take over.
    ///
    /// `f` is called on the thread that looks for the stuck, inside of the runtime, so that it may spawn.
    /// While `f` runs no thread looks, so `f` should be short: a line of a log, a number in a metric. The end
    /// of the runtime waits for it, as for the runtime's threads; a runtime that is dropped by `f` itself
    /// waits for nothing. A panic in it is swallowed after it has been reported by the panic hook.
    ///
    /// A worker that gets no CPU for that long, because other processes have it, is told apart by its CPU
    /// time and not reported.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_multi_thread()
    ///     .on_stall(|stall| eprintln!("{stall}"))
    ///     .build()?;
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// Prior art: Go's `sysmon`, which takes the processor of a thread that is in a system call for long, and
    /// reports nothing; `tokio::runtime::Builder::on_before_task_poll` and `on_after_task_poll` with a clock
    /// of one's own.
    pub fn on_stall(&mut self, f: impl Fn(&Stall) + Send + Sync + 'static) -> &mut Self {
        self.hooks.stall = Some(Arc::new(f));
        self
    }

    /// Calls `f` when every thread of the runtime is asleep or marked as blocked, at least one is marked, and
    /// nothing is left that would wake one; see [`parallel::mark_blocked`](crate::parallel::mark_blocked).
    ///
    /// Nothing is left if no task is in a queue, no timer is armed, no descriptor is registered (so a runtime
    /// that has a listener, or listens to signals, is never deadlocked), no blocking closure and no
    /// `block_on` runs, unless their threads are marked. A thread that only holds a [`Handle`] or a waker is
    /// not known to the runtime; see [`parallel::blocking`](crate::parallel::blocking).
    ///
    /// `f` is called once for each deadlock, again only after a thread was marked or unmarked, on the thread
    /// that was the last to fall asleep or to be marked; that one holds no lock. It may be the very thread
    /// that is needed once the deadlock is resolved, so `f` should not wait. A panic in it is swallowed after
    /// it has been reported by the panic hook.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_multi_thread()
    ///     .deadlock_handler(|deadlock| {
    ///         eprintln!("{deadlock}");
    ///         std::process::abort();
    ///     })
    ///     .build()?;
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// Prior art: the deadlock handler of Rayon's older sleep module and of rustc's copy of it.
    pub fn deadlock_handler(&mut self, f: impl Fn(&Deadlock) + Send + Sync + 'static) -> &mut Self {
        self.deadlock_handler = Some(Arc::new(f));
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

    /// Sets after how many rounds a busy worker takes a task of the global queue first, at least 1. The
    /// default is 61.
    pub fn global_queue_interval(&mut self, rounds: u32) -> &mut Self {
        self.global_queue_interval = rounds;
        self
    }

    /// Sets how many I/O events the driver takes from the system at once, from 1 to 1,048,576. The default is
    /// 1024.
    ///
    /// The tasks that these events wake are queued before any of them runs.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_current_thread()
    ///     .enable_io()
    ///     .max_io_events_per_tick(256)
    ///     .max_io_events_per_busy_tick(8)
    ///     .build()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn max_io_events_per_tick(&mut self, events: usize) -> &mut Self {
        self.max_io_events_per_tick = events;
        self
    }

    /// Sets how many I/O events a worker takes at once when it does not wait for them, because it has tasks
    /// to run: from 1 to 1,048,576. The default is the number of
    /// [`max_io_events_per_tick`](Self::max_io_events_per_tick).
    ///
    /// A small number keeps the queues of a busy runtime short: what is not taken stays with the system until
    /// the next look.
    ///
    /// # Examples
    /// As [`max_io_events_per_tick`](Self::max_io_events_per_tick).
    pub fn max_io_events_per_busy_tick(&mut self, events: usize) -> &mut Self {
        self.max_io_events_per_busy_tick = Some(events);
        self
    }

    /// Calls `f` for each task that is spawned, before the task is queued, on the thread that spawns it.
    ///
    /// The hooks are called for the tasks of [`spawn`](crate::spawn) and its like, not for the tasks of a
    /// [`LocalSet`](crate::task::LocalSet), nor for `spawn_blocking` or `block_on`. A panic in a hook is caught and
    /// reported by the panic hook alone.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_multi_thread()
    ///     .on_task_spawn(|task| println!("{} spawned {}", task.spawned_at(), task.id()))
    ///     .on_task_terminate(|task| println!("{} has ended", task.id()))
    ///     .build()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn on_task_spawn(&mut self, f: impl Fn(&TaskMeta<'_>) + Send + Sync + 'static) -> &mut Self {
        self.task_hooks.spawn = Some(Arc::new(f));
        self
    }

    /// Calls `f` before each poll of a task; see [`on_task_spawn`](Self::on_task_spawn).
    ///
    /// # Examples
    /// ```
    /// use std::cell::Cell;
    /// use std::time::{Duration, Instant};
    ///
    /// thread_local! {
    ///     static BEGAN: Cell<Option<Instant>> = Cell::new(None);
    /// }
    ///
    /// let runtime = runtime::Builder::new_multi_thread()
    ///     .on_before_task_poll(|_| BEGAN.set(Some(Instant::now())))
    ///     .on_after_task_poll(|task| {
    ///         let duration = BEGAN.take().map_or(Duration::ZERO, |began| began.elapsed());
    ///         if duration > Duration::from_millis(10) {
    ///             eprintln!("task {} of {} computed for {duration:?}", task.id(), task.spawned_at());
    ///         }
    ///     })
    ///     .build()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn on_before_task_poll(&mut self, f: impl Fn(&TaskMeta<'_>) + Send + Sync + 'static) -> &mut Self {
        self.task_hooks.before_poll = Some(Arc::new(f));
        self
    }

    /// Calls `f` after each poll of a task, also if the poll panicked; see
    /// [`on_before_task_poll`](Self::on_before_task_poll).
    pub fn on_after_task_poll(&mut self, f: impl Fn(&TaskMeta<'_>) + Send + Sync + 'static) -> &mut Self {
        self.task_hooks.after_poll = Some(Arc::new(f));
        self
    }

    /// Calls `f` once for each task, after its future was dropped, and before its output is there: whether the
    /// task ended, panicked or was cancelled. See [`on_task_spawn`](Self::on_task_spawn).
    pub fn on_task_terminate(&mut self, f: impl Fn(&TaskMeta<'_>) + Send + Sync + 'static) -> &mut Self {
        self.task_hooks.terminate = Some(Arc::new(f));
        self
    }

    /// Counts how long polls of tasks take, in one histogram for each worker:
    /// [`poll_time_histogram_bucket_count`](crate::runtime::RuntimeMetrics::poll_time_histogram_bucket_count).
    ///
    /// Each poll then reads the clock twice. What a spare worker polls is counted for
    /// the worker with the same number modulo the number of workers.
    ///
    /// # Examples
    /// ```
    /// let runtime =
    ///     runtime::Builder::new_current_thread().enable_metrics_poll_time_histogram().build()?;
    /// runtime.block_on(runtime.spawn(async {}))?;
    /// let metrics = runtime.metrics();
    /// for bucket in 0..metrics.poll_time_histogram_num_buckets() {
    ///     let polls = metrics.poll_time_histogram_bucket_count(0, bucket);
    ///     println!("{:?}: {polls}", metrics.poll_time_histogram_bucket_range(bucket));
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn enable_metrics_poll_time_histogram(&mut self) -> &mut Self {
        self.has_poll_times = true;
        self
    }

    /// Sets the buckets of [`enable_metrics_poll_time_histogram`](Self::enable_metrics_poll_time_histogram).
    /// By default ten of 100 µs. A configuration without buckets, or with more than 1,048,576, is an error of
    /// [`build`](Self::build).
    ///
    /// # Examples
    /// ```
    /// use runtime::runtime::{HistogramConfiguration, LogHistogram};
    ///
    /// let runtime = runtime::Builder::new_current_thread()
    ///     .enable_metrics_poll_time_histogram()
    ///     .metrics_poll_time_histogram_configuration(HistogramConfiguration::log(
    ///         LogHistogram::default(),
    ///     ))
    ///     .build()?;
    /// assert_eq!(runtime.metrics().poll_time_histogram_num_buckets(), 119);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn metrics_poll_time_histogram_configuration(
        &mut self,
        configuration: HistogramConfiguration,
    ) -> &mut Self {
        self.poll_times = configuration;
        self
    }

    /// Says what a panic in a task does to the runtime. By default nothing: the panic is in the task's
    /// `JoinHandle`.
    ///
    /// With [`UnhandledPanic::ShutdownRuntime`] the runtime is shut down: its tasks are cancelled, and every
    /// call of `block_on`, present and future, panics. That needs a `current_thread` runtime; for another one
    /// [`build`](Self::build) returns an error.
    ///
    /// # Examples
    /// ```should_panic
    /// use runtime::runtime::UnhandledPanic;
    ///
    /// let runtime = runtime::Builder::new_current_thread()
    ///     .unhandled_panic(UnhandledPanic::ShutdownRuntime)
    ///     .build()
    ///     .unwrap();
    /// runtime.spawn(async { panic!("boom") });
    /// runtime.block_on(std::future::pending::<()>());
    /// ```
    pub fn unhandled_panic(&mut self, behavior: UnhandledPanic) -> &mut Self {
        self.unhandled_panic = behavior;
        self
    }

    /// Has workers run the tasks that they wake or spawn in the order of the wakes.
    ///
    /// By default the task that a worker woke last runs next, from a slot of its own: its data is in the
    /// worker's cache. A worker takes at most a few tasks from the slot in a row, so this changes the order of
    /// tasks, and starves none. A `current_thread` runtime has no such slot.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_multi_thread().disable_lifo_slot().build()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn disable_lifo_slot(&mut self) -> &mut Self {
        self.has_lifo_slot = false;
        self
    }

    /// Sets the seed of the runtime's random choices: with which branch a `select!` begins, and from which
    /// worker a worker tries to steal first.
    ///
    /// On a `current_thread` runtime each `block_on` takes the next seed of a series that begins with this
    /// one. So a program that makes the same calls in the same order sees the same choices of `select!`. With
    /// several workers the order of the tasks is chance, and the seed of little use.
    ///
    /// # Examples
    /// ```
    /// use runtime::runtime::RngSeed;
    ///
    /// let runtime = runtime::Builder::new_current_thread()
    ///     .rng_seed(RngSeed::from_bytes(b"the same again"))
    ///     .build()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn rng_seed(&mut self, seed: RngSeed) -> &mut Self {
        self.rng_seed = Some(seed);
        self
    }

    /// Starts with the clock paused; see [`time::pause`](crate::time::pause). For `current_thread` runtimes
    /// with time enabled.
    pub fn start_paused(&mut self, is_paused: bool) -> &mut Self {
        self.is_start_paused = is_paused;
        self
    }

    /// Keeps each worker on one CPU. Off by default, and no effect on a `current_thread` runtime.
    ///
    /// Worker `i` gets the CPU `i % n` of the `n` that the thread which calls [`build`](Self::build) may use,
    /// in the order of their numbers; threads that take over for stuck workers are spread in the same way. So
    /// what `taskset`, a control group's cpuset, or the caller itself by `sched_setaffinity` allows is never
    /// left. The runtime's other threads, blocking threads above all, may use all of these CPUs. When `build`
    /// returns, workers are where they belong, and [`worker_cpu`](crate::runtime::RuntimeMetrics::worker_cpu)
    /// says where.
    ///
    /// It pays where the kernel stacks woken workers on one CPU while others are idle, and where workers'
    /// data should stay in one cache. It costs where others want the same CPUs: the kernel can no longer move
    /// a worker out of their way. In particular, processes that are limited by a quota of CPU time and not by
    /// a cpuset would all use the first CPUs of the machine; so would two runtimes with fewer workers than
    /// CPUs.
    ///
    /// **If the system refuses**, to a sandboxed process for instance, the runtime runs unpinned:
    /// `worker_cpu` is `None`, and [`pin_error`](crate::runtime::RuntimeMetrics::pin_error) says why. `build`
    /// does not fail.
    ///
    /// **Threads that your code starts on a worker** inherit its one CPU, as all threads do on Linux, and
    /// `std::thread::available_parallelism` is 1 there; libraries that start threads or count CPUs at their
    /// first use are easily overlooked. Start such threads before, in
    /// [`spawn_blocking`](crate::task::spawn_blocking), or on a thread outside of the runtime; or have them
    /// call `sched_setaffinity` first. Runtimes and [pools](crate::parallel::ThreadPoolBuilder) of this crate
    /// that are built on a worker are not affected: they get all CPUs.
    ///
    /// **If CPUs come or go later**, the runtime does not look again. A worker whose CPU is unplugged or
    /// leaves the cpuset is moved by the kernel to another one that it may use, and may stay unpinned; CPUs
    /// that are added are not used.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_multi_thread().worker_threads(2).pin_workers(true).build()?;
    /// let metrics = runtime.metrics();
    /// for worker in 0..metrics.num_workers() {
    ///     println!("worker {worker} is on CPU {:?}", metrics.worker_cpu(worker));
    /// }
    /// if let Some(error) = metrics.pin_error() {
    ///     println!("workers are not pinned: {error}");
    /// }
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// Prior art: Glommio's `PoolPlacement`; the crate `core_affinity` in the start hooks of Tokio and Rayon.
    pub fn pin_workers(&mut self, is_pinning: bool) -> &mut Self {
        self.is_pinning = is_pinning;
        self
    }

    /// Builds the runtime and starts its workers.
    ///
    /// # Errors
    /// - [`InvalidInput`](io::ErrorKind::InvalidInput), with the value, if a setting is out of its range, or
    ///   the environment variable that stands for one.
    /// - What the system says if it refuses a descriptor or a thread. Threads that were started have then
    ///   ended, and nothing is left open.
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
        check_events("max_io_events_per_tick", self.max_io_events_per_tick)?;
        if let Some(events) = self.max_io_events_per_busy_tick {
            check_events("max_io_events_per_busy_tick", events)?;
        }
        if let Some(name) = self.name.as_ref().filter(|name| name.trim().is_empty()) {
            return Err(invalid(format!("name must not be empty, got {name:?}")));
        }
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
        if self.unhandled_panic != UnhandledPanic::Ignore && self.flavor != Flavor::CurrentThread {
            let text = "unhandled_panic needs a current_thread runtime unless it is `Ignore`";
            return Err(invalid(text.to_owned()));
        }
        let poll_times = self.has_poll_times.then_some(&self.poll_times);
        poll_times.map_or(Ok(()), HistogramConfiguration::check).map_err(invalid)?;
        Ok(Config {
            name: self.name.clone(),
            flavor: self.flavor,
            workers,
            max_blocking_threads: self.max_blocking_threads,
            spare_workers: self.spare_workers.min(MAX_SPARE_WORKERS),
            thread_keep_alive: self.thread_keep_alive,
            thread_stack_size: self.thread_stack_size,
            thread_name: self.thread_name.clone(),
            event_interval: self.event_interval,
            global_queue_interval: self.global_queue_interval,
            hooks: self.hooks.clone(),
            pins: self.pins(workers),
            has_io: self.has_io,
            is_pool: false,
            is_breadth_first: false,
            panic_handler: None,
            start_handler: None,
            exit_handler: None,
            deadlock_handler: self.deadlock_handler.clone(),
            observer: Observer::new(&self.task_hooks, poll_times, workers),
            unhandled_panic: self.unhandled_panic.clone(),
            rng_seed: self.rng_seed.clone(),
            has_lifo_slot: self.has_lifo_slot,
        })
    }

    fn workers(&self) -> io::Result<usize> {
        let from_environment =
            || WORKERS_VARIABLES.iter().find_map(|&name| Some((name, std::env::var_os(name)?)));
        let (what, n) = match self.worker_threads {
            Some(n) => ("worker_threads", n),
            None => match from_environment() {
                Some((name, text)) => match text.to_str().and_then(|text| text.trim().parse().ok()) {
                    Some(n) => (name, n),
                    None => return Err(invalid(format!("{name} must be a number, got {text:?}"))),
                },
                None => ("worker_threads", available_cpus()),
            },
        };
        match n {
            1..=MAX_WORKERS => Ok(n),
            0 => Err(invalid(format!("{what} must be at least 1, got 0"))),
            _ => Err(invalid(format!("{what} must be at most {MAX_WORKERS}, got {n}"))),
        }
    }

    fn pins(&self, workers: usize) -> Option<Pins> {
        (self.is_pinning && self.flavor == Flavor::MultiThread).then(|| {
            // Asked for the first time on a pinned worker, the answer would be 1 for ever.
            available_cpus();
            Pins::new(workers)
        })
    }

    fn driver(&self, workers: usize) -> io::Result<Driver> {
        // Timers need a place to sleep, so there is an I/O driver also if only time is enabled.
        let io = match self.has_io || self.has_time {
            true => Some(self.io_driver()?),
            false => None,
        };
        // One wheel for each worker, one for all other threads.
        let mut time = self.has_time.then(|| driver::time::Driver::new(workers + 1, self.is_start_paused));
        if self.flavor == Flavor::CurrentThread {
            time.as_mut().map(driver::time::Driver::allow_pausing);
        }
        Ok(Driver::new(io, time))
    }

    fn io_driver(&self) -> io::Result<driver::io::Driver> {
        driver::io::Driver::new(self.max_io_events_per_tick, self.max_io_events_per_busy_tick).map_err(
            |error| io::Error::new(error.kind(), format!("could not open the driver's descriptors: {error}")),
        )
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("name", &self.name)
            .field("flavor", &self.flavor)
            .field("worker_threads", &self.worker_threads)
            .field("max_blocking_threads", &self.max_blocking_threads)
            .field("spare_workers", &self.spare_workers)
            .field("pin_workers", &self.is_pinning)
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
        // SAFETY: the builder counts as a worker until `leave`; no thread owns the processor yet.
        match unsafe { scheduler::start_worker(shared, index) } {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                let text = format!("could not start worker thread {} of {workers}: {error}", index + 1);
                refused = Some(io::Error::new(error.kind(), text));
                break;
            }
        }
    }
    if refused.is_none() && HAS_MONITOR {
        // SAFETY: as above.
        match unsafe { scheduler::start_monitor(shared) } {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                let text = format!("could not start the monitor's thread: {error}");
                refused = Some(io::Error::new(error.kind(), text));
            }
        }
    }
    match &refused {
        Some(_) => handle.shared().begin_shutdown(),
        // So that the metrics say at once on which CPU each worker is.
        None => handle.shared().config.pins.iter().for_each(Pins::wait),
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

fn start(
    name: String,
    stack_size: Option<usize>,
    main: impl FnOnce() + Send + 'static,
) -> io::Result<thread::JoinHandle<()>> {
    let builder = thread::Builder::new().name(name);
    let builder = match stack_size {
        Some(size) => builder.stack_size(size),
        None => builder,
    };
    builder.spawn(main)
}

/// CPUs that the process may use. Asked once: the answer costs reading files of the control group.
pub fn available_cpus() -> usize {
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

fn check_events(what: &str, n: usize) -> io::Result<()> {
    at_least_one(what, n)?;
    match n {
        0..=MAX_EVENTS_PER_TURN => Ok(()),
        _ => Err(invalid(format!("{what} must be at most {MAX_EVENTS_PER_TURN}, got {n}"))),
    }
}

fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}
