//! The builder, and what a runtime is: its threads, names and limits.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::config::hooks::{Hooks, ThreadName};
use crate::config::observer::TaskHooks;
use crate::config::settings::INTERVAL;
use crate::config::{DeadlockHandler, Flavor, HistogramConfiguration, RngSeed, UnhandledPanic};
#[cfg(doc)]
use crate::runtime::{Handle, Runtime};
use crate::util::as_tokio;

/// The largest number of spare workers, which take over while workers block.
pub const MAX_SPARE_WORKERS: usize = 512;
/// The default number of events that one turn of the driver takes from the system.
const EVENTS_PER_TURN: usize = 1024;
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
    pub(super) name: Option<String>,
    pub(crate) flavor: Flavor,
    pub(super) worker_threads: Option<usize>,
    pub(super) max_blocking_threads: usize,
    pub(super) spare_workers: usize,
    pub(super) thread_keep_alive: Duration,
    pub(super) thread_stack_size: Option<usize>,
    pub(super) thread_name: ThreadName,
    pub(super) event_interval: u32,
    pub(super) global_queue_interval: u32,
    pub(super) max_io_events_per_tick: usize,
    pub(super) max_io_events_per_busy_tick: Option<usize>,
    pub(super) hooks: Hooks,
    pub(super) deadlock_handler: Option<DeadlockHandler>,
    pub(super) task_hooks: TaskHooks,
    pub(super) has_poll_times: bool,
    pub(super) poll_times: HistogramConfiguration,
    pub(super) unhandled_panic: UnhandledPanic,
    pub(super) rng_seed: Option<RngSeed>,
    pub(super) has_lifo_slot: bool,
    pub(super) is_pinning: bool,
    pub(super) has_io: bool,
    pub(super) has_time: bool,
    pub(super) is_start_paused: bool,
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
    /// With 1, the only spare worker may be inside of a long poll itself. Sockets and timers then wait for
    /// it. So it leaves tasks that are known to compute for long to the workers, and polls them only if no
    /// worker has taken one for 5 s.
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

    /// Sets the stack size of the runtime's threads in bytes, from 1 to `isize::MAX / 2`. The default is that
    /// of `std::thread`: 2 MiB, unless the variable `RUST_MIN_STACK` says otherwise.
    ///
    /// The monitor's thread, which runs no code of the user, keeps the default. So does a thread that calls
    /// such code in another thread's place, if the system refuses it a stack of this size.
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
    /// Spare workers and threads for blocking closures are named on a thread that is started for the call,
    /// because `f` may take its time.
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
    /// that are built on a worker are not affected: they get all CPUs. So do programs that
    /// `process::Command` starts there. Those of `std::process::Command` inherit the worker's one CPU.
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
