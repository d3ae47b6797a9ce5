//! Building a runtime: every setting, its bounds, and what happens if the system refuses.

use std::fmt;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::handle::Handle;
use super::value::Runtime;
use crate::config::hooks::{Hooks, ThreadName, invalid};
use crate::config::observer::TaskHooks;
use crate::config::settings::INTERVAL;
use crate::config::{
    Config, Deadlock, DeadlockHandler, Flavor, HistogramConfiguration, Observer, RngSeed, Stall, TaskMeta,
    UnhandledPanic,
};
use crate::driver::Driver;
use crate::driver::io::IoDriver;
use crate::driver::time::TimeDriver;
use crate::loom::HAS_MONITOR;
use crate::scheduler::{self, Shared};
use crate::util::affinity::Pins;
use crate::util::as_tokio;

/// Most worker threads.
pub const MAX_WORKERS: usize = 4096;
/// The largest number of spare workers, which take over while workers block.
pub const MAX_SPARE_WORKERS: usize = 512;
/// The default number of events that one turn of the driver takes from the system.
const EVENTS_PER_TURN: usize = 1024;
/// The largest number of events of one turn. The driver keeps 12 MiB for so many.
const MAX_EVENTS_PER_TURN: usize = 1 << 20;
/// The environment variables that set the default number of worker threads: ours, then Tokio's.
const WORKERS_VARIABLES: [&str; 2] = ["RUNTIME_WORKER_THREADS", "TOKIO_WORKER_THREADS"];

/// Builds a [`Runtime`].
///
/// [`build`](Self::build) checks the settings. It returns an error that carries the value. (Tokio panics.)
///
/// # Panics
/// With the feature `tokio-panics`, a setter panics at its caller's line if the value is 0 where Tokio's
/// does, or if the name is empty. Without it, no setter panics.
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
    /// Creates a builder of a runtime with worker threads, which steal tasks from each other.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    /// assert_eq!(runtime.metrics().num_workers(), 2);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn new_multi_thread() -> Self {
        Self::new(Flavor::MultiThread)
    }

    /// Creates a builder of a runtime that runs its tasks on the thread that is in `block_on`.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_current_thread().build()?;
    /// let task = runtime.spawn(async { std::thread::current().id() });
    /// assert_eq!(runtime.block_on(task).unwrap(), std::thread::current().id());
    /// # std::io::Result::Ok(())
    /// ```
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

    /// Sets the name of the runtime, which [`Handle::name`] returns. It has at least one character that is
    /// not white space. By default a runtime has no name.
    ///
    /// The name is for people and logs. The threads have another name: see
    /// [`thread_name`](Self::thread_name). Several runtimes may have the same name; [`Handle::id`] tells them
    /// apart.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_multi_thread().worker_threads(1).name("requests").build()?;
    /// assert_eq!(runtime.handle().name(), Some("requests"));
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn name(&mut self, name: impl Into<String>) -> &mut Self {
        let name = name.into();
        as_tokio::setter(!name.trim().is_empty(), "runtime name shouldn't be empty");
        self.name = Some(name);
        self
    }

    /// Sets the number of worker threads, from 1 to 4096. It has no effect on a `current_thread` runtime.
    ///
    /// The default is the environment variable `RUNTIME_WORKER_THREADS`, else `TOKIO_WORKER_THREADS`, else
    /// the number of CPUs that the process may use by its affinity and its control group.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_multi_thread().worker_threads(4).build()?;
    /// assert_eq!(runtime.metrics().num_workers(), 4);
    ///
    /// let error = runtime::Builder::new_multi_thread().worker_threads(0).build().unwrap_err();
    /// assert_eq!(error.to_string(), "worker_threads must be at least 1, got 0");
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn worker_threads(&mut self, n: usize) -> &mut Self {
        as_tokio::setter(n > 0, "Worker threads cannot be set to 0");
        self.worker_threads = Some(n);
        self
    }

    /// Sets how many threads may run blocking closures at the same time, at least 1. The default is 512.
    ///
    /// The runtime starts a thread when it is needed. [Spare workers](Self::spare_workers) are not counted
    /// here.
    ///
    /// # Examples
    /// With one thread, the second closure waits for the first:
    /// ```
    /// let runtime = runtime::Builder::new_current_thread().max_blocking_threads(1).build()?;
    /// let (first, second) = (runtime.spawn_blocking(|| 1), runtime.spawn_blocking(|| 2));
    /// let sum = runtime.block_on(async { first.await.unwrap() + second.await.unwrap() });
    /// assert_eq!(sum, 3);
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn max_blocking_threads(&mut self, n: usize) -> &mut Self {
        as_tokio::setter(n > 0, "Max blocking threads cannot be set to 0");
        self.max_blocking_threads = n;
        self
    }

    /// Sets the largest number of *spare workers*, which take over for workers that are stuck or blocked. The
    /// default is 512. A larger number counts as 512.
    ///
    /// A task that blocks, or computes for long in one poll, keeps its worker. The other workers take what
    /// else that worker holds. If none of them is idle, spare workers take it. The thread of a spare worker
    /// is started when work waits and no other thread is there to run it. A spare worker polls tasks and runs
    /// jobs until the others are back. It ends when it was not needed for
    /// [`thread_keep_alive`](Self::thread_keep_alive).
    ///
    /// So most programs need no setting. A lower bound limits the memory for stacks when many tasks block at
    /// once; then tasks wait.
    ///
    /// With 0, tasks wait while all workers are stuck or blocked, and computations do not yield to tasks.
    ///
    /// # Examples
    /// The one worker sleeps, and a spare worker polls the other task:
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

    /// Sets after what time an idle thread ends: a thread for blocking closures, or a spare worker that is
    /// not needed. The default is 10 s.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = runtime::Builder::new_multi_thread()
    ///     .thread_keep_alive(Duration::from_secs(60))
    ///     .build()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn thread_keep_alive(&mut self, duration: Duration) -> &mut Self {
        self.thread_keep_alive = duration;
        self
    }

    /// Sets the stack size of the runtime's threads in bytes, at least 1. The default is that of
    /// `std::thread`: 2 MiB, unless the variable `RUST_MIN_STACK` says otherwise.
    ///
    /// The monitor's thread, which runs no code of the user, keeps the default.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_multi_thread().thread_stack_size(8 << 20).build()?;
    /// let task = runtime.spawn(async { [1_u8; 4 << 20].iter().filter(|&&n| n == 1).count() });
    /// assert_eq!(runtime.block_on(task).unwrap(), 4 << 20);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn thread_stack_size(&mut self, bytes: usize) -> &mut Self {
        self.thread_stack_size = Some(bytes);
        self
    }

    /// Sets the name of the runtime's threads, which must not contain NUL. The default is `runtime-worker`.
    ///
    /// The monitor's thread is always called `runtime-monitor`.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_multi_thread().thread_name("requests").build()?;
    /// let task = runtime.spawn(async { std::thread::current().name().map(str::to_owned) });
    /// assert_eq!(runtime.block_on(task).unwrap().as_deref(), Some("requests"));
    /// # std::io::Result::Ok(())
    /// ```
    pub fn thread_name(&mut self, name: impl Into<String>) -> &mut Self {
        self.thread_name = ThreadName::Fixed(name.into());
        self
    }

    /// Sets a function that names each thread when it is started.
    ///
    /// If `f` panics or the name contains NUL, the thread is not started, as if the system had refused it.
    ///
    /// # Examples
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// let next = AtomicUsize::new(0);
    /// let runtime = runtime::Builder::new_multi_thread()
    ///     .thread_name_fn(move || format!("requests-{}", next.fetch_add(1, Ordering::Relaxed)))
    ///     .build()?;
    /// let task = runtime.spawn(async { std::thread::current().name().map(str::to_owned) });
    /// assert!(runtime.block_on(task).unwrap().is_some_and(|name| name.starts_with("requests-")));
    /// # std::io::Result::Ok(())
    /// ```
    pub fn thread_name_fn(&mut self, f: impl Fn() -> String + Send + Sync + 'static) -> &mut Self {
        self.thread_name = ThreadName::Made(Arc::new(f));
        self
    }

    /// Calls `f` on each worker, spare worker and blocking thread of the runtime when the thread begins.
    ///
    /// The panic hook reports a panic in `f`, and then the panic is swallowed.
    ///
    /// # Examples
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// let started = Arc::new(AtomicUsize::new(0));
    /// let counter = started.clone();
    /// let runtime = runtime::Builder::new_multi_thread()
    ///     .worker_threads(2)
    ///     .on_thread_start(move || _ = counter.fetch_add(1, Ordering::Relaxed))
    ///     .build()?;
    /// // The drop waits for the workers.
    /// drop(runtime);
    /// assert_eq!(started.load(Ordering::Relaxed), 2);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn on_thread_start(&mut self, f: impl Fn() + Send + Sync + 'static) -> &mut Self {
        self.hooks.thread_start = Some(Arc::new(f));
        self
    }

    /// Calls `f` on each worker, spare worker and blocking thread of the runtime before the thread ends.
    ///
    /// The panic hook reports a panic in `f`, and then the panic is swallowed.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_multi_thread()
    ///     .on_thread_stop(|| println!("{:?} ends", std::thread::current().id()))
    ///     .build()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn on_thread_stop(&mut self, f: impl Fn() + Send + Sync + 'static) -> &mut Self {
        self.hooks.thread_stop = Some(Arc::new(f));
        self
    }

    /// Calls `f` on a worker before it goes to sleep.
    ///
    /// If `f` makes work for this worker, the worker runs that work and does not go to sleep. The panic hook
    /// reports a panic in `f`, and then the panic is swallowed.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_multi_thread()
    ///     .on_thread_park(|| println!("{:?} goes to sleep", std::thread::current().id()))
    ///     .build()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn on_thread_park(&mut self, f: impl Fn() + Send + Sync + 'static) -> &mut Self {
        self.hooks.thread_park = Some(Arc::new(f));
        self
    }

    /// Calls `f` on a worker after it woke.
    ///
    /// The panic hook reports a panic in `f`, and then the panic is swallowed.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_multi_thread()
    ///     .on_thread_unpark(|| println!("{:?} is awake", std::thread::current().id()))
    ///     .build()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn on_thread_unpark(&mut self, f: impl Fn() + Send + Sync + 'static) -> &mut Self {
        self.hooks.thread_unpark = Some(Arc::new(f));
        self
    }

    /// Calls `f` when a worker is found stuck: it has been in one poll of a task for at least 2.5 ms, while
    /// something waits for a worker, such as tasks, due timers or the driver.
    ///
    /// Other workers take over what waits. The purpose of `f` is to find the task that holds its worker. It
    /// gets the id of the task and the line that spawned it. It is called once for each poll in which a
    /// worker is found stuck.
    ///
    /// `f` is not called while a worker runs a [computation](crate::compute()), is inside of
    /// [`block_in_place`](crate::task::block_in_place), or is marked by
    /// [`mark_blocked`](crate::parallel::mark_blocked), because the program has said there that it takes
    /// long. Closures of [`spawn_blocking`](crate::task::spawn_blocking) and the future of a `block_on` are
    /// not watched. Nor is a `current_thread` runtime, because no thread could take over there.
    ///
    /// `f` runs as a closure of [`spawn_blocking`](crate::task::spawn_blocking) does, on a blocking thread of
    /// the runtime. So it may spawn and may block. The end of the runtime waits for an `f` that has begun. A
    /// runtime that is dropped by `f` itself waits for nothing. The panic hook reports a panic in `f`, and
    /// then the panic is swallowed.
    ///
    /// A worker may get no CPU for that long, because other processes have it. The CPU time of the worker
    /// shows this, and it is not reported.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_multi_thread()
    ///     .on_stall(|stall| eprintln!("{stall}"))
    ///     .build()?;
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// Prior art: Go's `sysmon`, which takes the processor of a thread that is in a long system call, and
    /// reports nothing; `tokio::runtime::Builder::on_before_task_poll` and `on_after_task_poll` with a clock
    /// of the program's own.
    pub fn on_stall(&mut self, f: impl Fn(&Stall) + Send + Sync + 'static) -> &mut Self {
        self.hooks.stall = Some(Arc::new(f));
        self
    }

    /// Calls `f` when the runtime is deadlocked: every thread of the runtime is asleep or marked as blocked,
    /// at least one is marked, and nothing is left that would wake one. See
    /// [`parallel::mark_blocked`](crate::parallel::mark_blocked).
    ///
    /// Nothing is left if no task is in a queue, no timer is armed, no descriptor is registered, and no
    /// blocking closure and no `block_on` runs on a thread that is not marked. So a runtime that has a
    /// listener, or listens to signals, is never deadlocked. The runtime does not know a thread that only
    /// holds a [`Handle`] or a waker; see [`parallel::blocking`](crate::parallel::blocking).
    ///
    /// `f` is called once for each deadlock, and again only after a thread was marked or unmarked. It runs on
    /// the thread that was the last to fall asleep or to be marked. That thread holds no lock. It may be the
    /// very thread that is needed once the deadlock is resolved, so `f` should not wait. The panic hook
    /// reports a panic in `f`, and then the panic is swallowed.
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

    /// Enables what needs the I/O driver: sockets, pipes, other descriptors, signals and child processes.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
    /// let socket = runtime.block_on(runtime::net::UdpSocket::bind("127.0.0.1:0"))?;
    /// assert_ne!(socket.local_addr()?.port(), 0);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn enable_io(&mut self) -> &mut Self {
        self.has_io = true;
        self
    }

    /// Enables timers: [`time`](crate::time) and all time limits.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = runtime::Builder::new_current_thread().enable_time().build()?;
    /// runtime.block_on(async { runtime::time::sleep(Duration::from_millis(1)).await });
    /// # std::io::Result::Ok(())
    /// ```
    pub fn enable_time(&mut self) -> &mut Self {
        self.has_time = true;
        self
    }

    /// Enables I/O and time.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use runtime::net::UdpSocket;
    ///
    /// let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    /// runtime.block_on(async {
    ///     let socket = UdpSocket::bind("127.0.0.1:0").await?;
    ///     let limit = Duration::from_millis(1);
    ///     assert!(runtime::time::timeout(limit, socket.recv(&mut [0; 16])).await.is_err());
    ///     std::io::Result::Ok(())
    /// })?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn enable_all(&mut self) -> &mut Self {
        self.enable_io().enable_time()
    }

    /// Sets the largest number of rounds that a busy worker makes before it looks for events and timers, at
    /// least 1. The default is 61. In one round a worker polls one task.
    ///
    /// A worker measures its rounds and looks about every 200 µs. This setting only bounds their number. On a
    /// `current_thread` runtime it also bounds the rounds between two looks at the future of `block_on`.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_multi_thread().event_interval(31).build()?;
    ///
    /// let error = runtime::Builder::new_multi_thread().event_interval(0).build().unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn event_interval(&mut self, rounds: u32) -> &mut Self {
        as_tokio::setter(rounds > 0, "event_interval must be greater than 0");
        self.event_interval = rounds;
        self
    }

    /// Sets after how many rounds a busy worker takes a task of the injector first, which is the global
    /// queue, at least 1. The default is 61. In one round a worker polls one task.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_multi_thread().global_queue_interval(31).build()?;
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn global_queue_interval(&mut self, rounds: u32) -> &mut Self {
        as_tokio::setter(rounds > 0, "global_queue_interval must be greater than 0");
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
    #[track_caller]
    pub fn max_io_events_per_tick(&mut self, events: usize) -> &mut Self {
        as_tokio::setter(events > 0, "max_io_events_per_tick must be non-zero");
        self.max_io_events_per_tick = events;
        self
    }

    /// Sets how many I/O events a worker takes at once when it does not wait for them, because it has tasks
    /// to run: from 1 to 1,048,576. The default is the number of
    /// [`max_io_events_per_tick`](Self::max_io_events_per_tick).
    ///
    /// A small number keeps the queues of a busy runtime short. The other events stay with the system until
    /// the next look.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_multi_thread()
    ///     .enable_io()
    ///     .max_io_events_per_busy_tick(8)
    ///     .build()?;
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn max_io_events_per_busy_tick(&mut self, events: usize) -> &mut Self {
        as_tokio::setter(events > 0, "max_io_events_per_busy_tick must be non-zero");
        self.max_io_events_per_busy_tick = Some(events);
        self
    }

    /// Calls `f` for each spawned task, on the thread that spawns it, before the task is queued. By default
    /// there is no hook.
    ///
    /// The runtime calls the task hooks for the tasks of [`spawn`](crate::spawn) and its like. It does not
    /// call them for the tasks of a [`LocalSet`](crate::task::LocalSet), for `spawn_blocking`, for
    /// `block_on`, or for a task that is spawned once the shutdown has begun. The runtime catches a panic in
    /// a hook. Only the panic hook reports it.
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

    /// Calls `f` before each poll of a task, on the thread that polls it. By default there is no hook.
    ///
    /// See [`on_task_spawn`](Self::on_task_spawn) for the tasks that have hooks.
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

    /// Calls `f` after each poll of a task, on the thread that has polled it, also if the poll panicked. By
    /// default there is no hook.
    ///
    /// See [`on_task_spawn`](Self::on_task_spawn) for the tasks that have hooks.
    ///
    /// # Examples
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// let polls = Arc::new(AtomicUsize::new(0));
    /// let seen = polls.clone();
    /// let runtime = runtime::Builder::new_current_thread()
    ///     .on_after_task_poll(move |_| {
    ///         seen.fetch_add(1, Ordering::Relaxed);
    ///     })
    ///     .build()?;
    /// runtime.block_on(runtime.spawn(runtime::task::yield_now()))?;
    /// assert_eq!(polls.load(Ordering::Relaxed), 2);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn on_after_task_poll(&mut self, f: impl Fn(&TaskMeta<'_>) + Send + Sync + 'static) -> &mut Self {
        self.task_hooks.after_poll = Some(Arc::new(f));
        self
    }

    /// Calls `f` once for each task at its end: after its future was dropped, and before its `JoinHandle`
    /// returns. It does so whether the task returned, panicked or was cancelled. By default there is no hook.
    ///
    /// See [`on_task_spawn`](Self::on_task_spawn) for the tasks that have hooks.
    ///
    /// # Examples
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// let ended = Arc::new(AtomicUsize::new(0));
    /// let seen = ended.clone();
    /// let runtime = runtime::Builder::new_current_thread()
    ///     .on_task_terminate(move |_| {
    ///         seen.fetch_add(1, Ordering::Relaxed);
    ///     })
    ///     .build()?;
    /// runtime.block_on(runtime.spawn(async {}))?;
    /// assert_eq!(ended.load(Ordering::Relaxed), 1);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn on_task_terminate(&mut self, f: impl Fn(&TaskMeta<'_>) + Send + Sync + 'static) -> &mut Self {
        self.task_hooks.terminate = Some(Arc::new(f));
        self
    }

    /// Counts the durations of task polls in one histogram for each worker. Off by default.
    ///
    /// [`RuntimeMetrics::poll_time_histogram_bucket_count`] reads the counts. Each poll then reads the clock
    /// twice. Let `n` be the number of workers. The polls of spare worker `i` count for worker `i % n`.
    ///
    /// [`RuntimeMetrics::poll_time_histogram_bucket_count`]:
    ///     crate::runtime::RuntimeMetrics::poll_time_histogram_bucket_count
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

    /// Sets the buckets of the histograms of
    /// [`enable_metrics_poll_time_histogram`](Self::enable_metrics_poll_time_histogram). By default there are
    /// ten buckets of 100 µs.
    ///
    /// A histogram has from 1 to 1,048,576 buckets. For a configuration with another number
    /// [`build`](Self::build) returns an error.
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

    /// Sets what a panic in a task does to the runtime. By default it is [`UnhandledPanic::Ignore`]: the
    /// task's `JoinHandle` returns the panic, and the runtime goes on.
    ///
    /// With [`UnhandledPanic::ShutdownRuntime`] the runtime shuts down. It cancels its tasks, and every
    /// present and future call of `block_on` panics. This needs a `current_thread` runtime; for another
    /// flavor [`build`](Self::build) returns an error.
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

    /// Makes each worker run the tasks that it wakes or spawns in the order of these wakes and spawns.
    ///
    /// By default a worker keeps the task that it woke last in a slot, and runs it next, because the task's
    /// data is in the worker's cache. A worker takes only a few tasks in a row from the slot. So the slot
    /// changes the order of tasks, but starves no task. A `current_thread` runtime has no such slot.
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

    /// Sets the seed of the runtime's random choices: the first branch of a `select!`, and the first worker
    /// that a worker tries to steal from. By default each run of the program makes other choices.
    ///
    /// On a `current_thread` runtime each `block_on` takes the next seed of a series that begins with `seed`.
    /// So a program that makes the same calls in the same order sees the same choices of `select!`. With
    /// several workers the order of the tasks is random, and the seed is of little use.
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

    /// Starts the runtime with its clock paused; see [`time::pause`](crate::time::pause). Only a
    /// `current_thread` runtime with time enabled can do this; for others [`build`](Self::build) returns an
    /// error. Off by default.
    ///
    /// # Examples
    /// An hour passes at once:
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// let runtime = runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    /// let start = Instant::now();
    /// runtime.block_on(async { runtime::time::sleep(Duration::from_secs(3600)).await });
    /// assert!(start.elapsed() < Duration::from_secs(600));
    /// # std::io::Result::Ok(())
    /// ```
    pub fn start_paused(&mut self, is_paused: bool) -> &mut Self {
        self.is_start_paused = is_paused;
        self
    }

    /// Keeps each worker on one CPU. Off by default. It has no effect on a `current_thread` runtime.
    ///
    /// Let `n` be the number of CPUs that the thread that calls [`build`](Self::build) may use. Worker `i`
    /// gets the CPU `i % n` of these, in the order of their numbers. Spare workers are spread in the same
    /// way. So no worker leaves the CPUs that `taskset`, a control group's cpuset, or the caller's own
    /// `sched_setaffinity` allows. The runtime's other threads, such as blocking threads, may use all `n`
    /// CPUs. When `build` returns, each worker is on its CPU, and
    /// [`worker_cpu`](crate::runtime::RuntimeMetrics::worker_cpu) says on which.
    ///
    /// It pays where the kernel stacks woken workers on one CPU while others are idle, and where the workers'
    /// data should stay in one cache. It costs where other threads want the same CPUs, because the kernel can
    /// no longer move a worker out of their way. In particular, processes that are limited by a quota of CPU
    /// time and not by a cpuset would all use the first CPUs of the machine. So would two runtimes with fewer
    /// workers than CPUs.
    ///
    /// **If the system refuses**, to a sandboxed process for instance, the runtime runs unpinned:
    /// `worker_cpu` is `None`, and [`pin_error`](crate::runtime::RuntimeMetrics::pin_error) says why. `build`
    /// does not fail.
    ///
    /// **Threads that your code starts on a worker** inherit its one CPU, as all threads do on Linux, and
    /// `std::thread::available_parallelism` is 1 there. Libraries that start threads or count CPUs at their
    /// first use are easily overlooked. Start such threads before, in
    /// [`spawn_blocking`](crate::task::spawn_blocking), or on a thread outside of the runtime; or let them
    /// call `sched_setaffinity` first. Runtimes and [pools](crate::parallel::ThreadPoolBuilder) of this crate
    /// that are built on a worker are not affected: they get all CPUs.
    ///
    /// **If CPUs come or go later**, the runtime does not look again. If a worker's CPU is unplugged or
    /// leaves the cpuset, the kernel moves the worker to another CPU that it may use. The worker may stay
    /// unpinned then. CPUs that are added are not used.
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
    /// - [`InvalidInput`](io::ErrorKind::InvalidInput), with the value, if a setting, or the environment
    ///   variable that stands for it, is out of its range.
    /// - The system's error if it refuses a descriptor or a thread. The threads that were started have ended
    ///   then, and nothing is left open.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_multi_thread().enable_all().build()?;
    ///
    /// let error = runtime::Builder::new_multi_thread().worker_threads(10_000).build().unwrap_err();
    /// assert_eq!(error.to_string(), "worker_threads must be at most 4096, got 10000");
    /// # std::io::Result::Ok(())
    /// ```
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
            // `available_cpus` keeps its first answer. A first call on a pinned worker would make it 1 for
            // good.
            available_cpus();
            Pins::new(workers)
        })
    }

    fn driver(&self, workers: usize) -> io::Result<Driver> {
        // Timers need a place to sleep. So a runtime has an I/O driver also if only time is enabled.
        let io = match self.has_io || self.has_time {
            true => Some(self.io_driver()?),
            false => None,
        };
        // One wheel for each worker, and one for all other threads.
        let mut time = self.has_time.then(|| TimeDriver::new(workers + 1, self.is_start_paused));
        if self.flavor == Flavor::CurrentThread {
            time.as_mut().map(TimeDriver::allow_pausing);
        }
        Ok(Driver::new(io, time))
    }

    fn io_driver(&self) -> io::Result<IoDriver> {
        IoDriver::new(self.max_io_events_per_tick, self.max_io_events_per_busy_tick).map_err(|error| {
            io::Error::new(error.kind(), format!("could not open the driver's descriptors: {error}"))
        })
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
    // SAFETY: the builder's count; the builder is in no worker's context. The handle keeps the state.
    unsafe { Shared::leave(shared, 0) };
    match refused {
        None => Ok(Runtime::new_multi_thread(handle, threads)),
        Some(error) => {
            threads.into_iter().for_each(|thread| _ = thread.join());
            Err(error)
        }
    }
}

/// The number of CPUs that the process may use. It is asked for once, because the answer costs reading files
/// of the control group.
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
