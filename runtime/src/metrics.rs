//! The numbers a runtime keeps of itself.

use std::fmt;
use std::io;
use std::ops::Range;
use std::panic::Location;
#[cfg(not(loom))]
use std::thread::ThreadId;
use std::time::Duration;

use crate::builder::Flavor;
use crate::handle::Handle;
use crate::histogram::Histogram;
use crate::loom::sync::atomic::Ordering::Relaxed;
use crate::scheduler::away::SpareCounts;
use crate::scheduler::metrics::WorkerMetrics;

/// A view of a runtime's metrics; made by [`Handle::metrics`].
///
/// The numbers are always kept and cost next to nothing: nearly all are written by one thread with plain
/// stores, so what is read is a moment old. Those of a worker begin at zero when the runtime is built and
/// wrap after 2^64.
///
/// # Examples
/// ```
/// # let runtime = runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
/// let metrics = runtime.metrics();
/// assert_eq!(metrics.num_workers(), 2);
/// assert_eq!(metrics.num_alive_tasks(), 0);
/// ```
///
/// Prior art: `tokio::runtime::RuntimeMetrics`, of which most needs `--cfg tokio_unstable`.
#[derive(Clone)]
pub struct RuntimeMetrics {
    handle: Handle,
}

impl RuntimeMetrics {
    pub(crate) fn new(handle: Handle) -> Self {
        Self { handle }
    }

    #[track_caller]
    fn worker(&self, worker: usize) -> &WorkerMetrics {
        let workers = self.num_workers();
        assert!(
            worker < workers,
            "the runtime has {workers} workers, numbered from 0, but number {worker} was asked for"
        );
        &self.handle.shared().processor(worker).metrics
    }

    /// Worker threads; 1 for a `current_thread` runtime.
    pub fn num_workers(&self) -> usize {
        self.handle.shared().config.workers
    }

    /// Tasks that have been spawned and have not ended.
    pub fn num_alive_tasks(&self) -> usize {
        let shared = self.handle.shared();
        let on_workers: u64 = shared.processors.iter().map(|processor| processor.metrics.ended.get()).sum();
        let ended = on_workers + shared.ended_elsewhere.load(Relaxed);
        // Read later, so at least as large.
        self.spawned_tasks_count().saturating_sub(ended) as usize
    }

    /// As [`num_alive_tasks`](Self::num_alive_tasks).
    #[doc(hidden)]
    #[deprecated = "it is called `num_alive_tasks` now"]
    pub fn active_tasks_count(&self) -> usize {
        self.num_alive_tasks()
    }

    /// As [`global_queue_depth`](Self::global_queue_depth).
    #[doc(hidden)]
    #[deprecated = "it is called `global_queue_depth` now"]
    pub fn injection_queue_depth(&self) -> usize {
        self.global_queue_depth()
    }

    /// Tasks that have been spawned since the runtime was built.
    pub fn spawned_tasks_count(&self) -> u64 {
        let shared = self.handle.shared();
        let on_workers: u64 = shared.processors.iter().map(|processor| processor.metrics.spawned.get()).sum();
        on_workers + shared.injector.newborns() + shared.refused_elsewhere.load(Relaxed)
    }

    /// Tasks in the injector, the queue for tasks that are woken or spawned outside of the workers or
    /// overflowed from one.
    pub fn global_queue_depth(&self) -> usize {
        self.handle.shared().injector.len()
    }

    /// Threads for blocking closures, idle ones included.
    pub fn num_blocking_threads(&self) -> usize {
        self.handle.shared().blocking.counts().threads
    }

    /// Threads for blocking closures that wait for one.
    pub fn num_idle_blocking_threads(&self) -> usize {
        self.handle.shared().blocking.counts().idle
    }

    /// Blocking closures that wait for a thread.
    pub fn blocking_queue_depth(&self) -> usize {
        self.handle.shared().blocking.counts().queued
    }

    /// Times that a thread for blocking closures was woken because one waited.
    pub fn blocking_wake_count(&self) -> u64 {
        self.handle.shared().blocking.counts().wakes
    }

    /// Times that a thread for blocking closures was started because one waited, those times included that
    /// the system refused it.
    pub fn blocking_start_count(&self) -> u64 {
        self.handle.shared().blocking.counts().starts
    }

    /// Threads that stand in for stuck and blocked workers, idle ones included; see
    /// [`Builder::spare_workers`](crate::Builder::spare_workers).
    pub fn num_spare_workers(&self) -> usize {
        let counts = self.spares();
        counts.active + counts.resting
    }

    /// Spare workers that are not needed at the moment.
    pub fn num_idle_spare_workers(&self) -> usize {
        self.spares().resting
    }

    /// Spare workers started since the runtime was built.
    pub fn spare_started_count(&self) -> u64 {
        self.spares().started
    }

    /// Times that the system refused a spare worker. It is asked again while tasks wait.
    pub fn spare_refused_count(&self) -> u64 {
        self.spares().refused
    }

    /// Times that a spare worker was needed and all that [are allowed](crate::Builder::spare_workers) were in
    /// use.
    pub fn spare_capped_count(&self) -> u64 {
        self.spares().capped
    }

    /// Times that a worker was found stuck in a poll while work waited.
    pub fn stall_count(&self) -> u64 {
        self.handle.shared().monitor.stalls.get()
    }

    /// Tasks that a stuck worker was to run next, and that were taken from it.
    pub fn rescued_task_count(&self) -> u64 {
        self.handle.shared().monitor.rescued_tasks.get()
    }

    /// Times that a worker was called for the driver or its timers, because no worker had looked there for
    /// long.
    pub fn rescued_driver_count(&self) -> u64 {
        self.handle.shared().monitor.rescued_driver.get()
    }

    /// Wakes that were lost: work waited for a quarter of a second, and a worker slept that could have run
    /// it.
    ///
    /// That would be a fault of the runtime, which looks for it and makes up for it; as far as we know this
    /// is always 0. On a machine on which threads get no CPU for so long it may count what was only late.
    /// Please report a program that makes it grow.
    pub fn missed_wake_count(&self) -> u64 {
        self.handle.shared().monitor.missed_wakes.get()
    }

    /// Times that computations yielded to tasks at a split point.
    pub fn computation_yield_count(&self) -> u64 {
        let shared = self.handle.shared();
        shared.processors.iter().map(|processor| processor.metrics.yields.get()).sum()
    }

    /// Places in the program that mark blocking calls ([`block_in_place`](crate::task::block_in_place),
    /// [`parallel::blocking`](crate::parallel::blocking)), the most frequent first.
    ///
    /// # Examples
    /// ```
    /// # let runtime = runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    /// let task = runtime.spawn(async { runtime::task::block_in_place(|| 7) });
    /// runtime.block_on(task).unwrap();
    /// for site in runtime.metrics().blocking_sites() {
    ///     println!("{:?}: {} calls, {} long", site.location(), site.calls(), site.relieved());
    /// }
    /// # assert_eq!(runtime.metrics().blocking_sites()[0].calls(), 1);
    /// ```
    pub fn blocking_sites(&self) -> Vec<BlockingSite> {
        let mut sites: Vec<BlockingSite> = Vec::new();
        let processors = self.handle.shared().processors.iter();
        for (location, site) in processors.flat_map(|processor| processor.sites.iter()) {
            let (calls, relieved) = (site.calls.get(), site.relieved.get());
            match sites.iter_mut().find(|other| other.location == location) {
                Some(other) => {
                    other.calls += calls;
                    other.relieved += relieved;
                }
                None => sites.push(BlockingSite { location, calls, relieved }),
            }
        }
        sites.sort_by_key(|site| std::cmp::Reverse(site.calls));
        sites
    }

    fn spares(&self) -> SpareCounts {
        self.handle.shared().away.counts()
    }

    /// Times that a thread asked the system for events; 0 without I/O and time.
    pub fn driver_turn_count(&self) -> u64 {
        self.handle.shared().driver.io().map_or(0, |io| io.turns())
    }

    /// Events that came from the system; 0 without I/O and time.
    pub fn driver_event_count(&self) -> u64 {
        self.handle.shared().driver.io().map_or(0, |io| io.events())
    }

    /// The same as [`driver_event_count`](Self::driver_event_count), under Tokio's name.
    pub fn io_driver_ready_count(&self) -> u64 {
        self.driver_event_count()
    }

    /// Descriptors that have been registered with the driver since the runtime was built, those included that
    /// were deregistered again; 0 without I/O.
    ///
    /// # Examples
    /// ```
    /// use runtime::net::UdpSocket;
    ///
    /// let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
    /// let metrics = runtime.metrics();
    /// let socket = runtime.block_on(UdpSocket::bind("127.0.0.1:0"))?;
    /// let counts = || (metrics.io_driver_fd_registered_count(), metrics.io_driver_fd_deregistered_count());
    /// assert_eq!(counts(), (1, 0));
    /// drop(socket);
    /// assert_eq!(counts(), (1, 1));
    /// # std::io::Result::Ok(())
    /// ```
    pub fn io_driver_fd_registered_count(&self) -> u64 {
        self.registrations().0
    }

    /// Descriptors that have been deregistered from the driver since the runtime was built; 0 without I/O.
    pub fn io_driver_fd_deregistered_count(&self) -> u64 {
        self.registrations().1
    }

    fn registrations(&self) -> (u64, u64) {
        self.handle.shared().driver.io().map_or((0, 0), |io| io.registrations())
    }

    /// The name of the worker's thread: `None` until the thread has begun. Of a `current_thread` runtime it
    /// is the thread that drives the runtime, or that did so last.
    ///
    /// # Panics
    /// If there is no such worker.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_multi_thread().worker_threads(1).spare_workers(0).build()?;
    /// let thread = runtime.block_on(runtime.spawn(async { std::thread::current().id() })).unwrap();
    /// assert_eq!(runtime.metrics().worker_thread_id(0), Some(thread));
    /// # std::io::Result::Ok(())
    /// ```
    #[cfg(not(loom))]
    #[track_caller]
    pub fn worker_thread_id(&self, worker: usize) -> Option<ThreadId> {
        self.worker(worker);
        self.handle.shared().processor(worker).parker.thread_id()
    }

    /// Tasks in the worker's run queue, without the one that it runs next.
    ///
    /// # Panics
    /// If there is no such worker, as all methods with a worker's number.
    #[track_caller]
    pub fn worker_local_queue_depth(&self, worker: usize) -> usize {
        self.worker(worker);
        self.handle.shared().processor(worker).ring.len()
    }

    /// Polls of tasks by the worker.
    #[track_caller]
    pub fn worker_poll_count(&self, worker: usize) -> u64 {
        self.worker(worker).polls.get()
    }

    /// Polls of tasks that the worker took from its LIFO slot: the task woken last, run next.
    #[track_caller]
    pub fn worker_lifo_poll_count(&self, worker: usize) -> u64 {
        self.worker(worker).lifo_polls.get()
    }

    /// Tasks that the worker stole from others.
    #[track_caller]
    pub fn worker_steal_count(&self, worker: usize) -> u64 {
        self.worker(worker).stolen.get()
    }

    /// Times that the worker stole tasks from another.
    #[track_caller]
    pub fn worker_steal_operations(&self, worker: usize) -> u64 {
        self.worker(worker).steals.get()
    }

    /// Times that the worker searched the other workers' queues.
    #[track_caller]
    pub fn worker_search_count(&self, worker: usize) -> u64 {
        self.worker(worker).searches.get()
    }

    /// Times that the worker woke another for work.
    #[track_caller]
    pub fn worker_notify_count(&self, worker: usize) -> u64 {
        self.worker(worker).notifies.get()
    }

    /// Times that the worker was woken for work and found none.
    #[track_caller]
    pub fn worker_noop_count(&self, worker: usize) -> u64 {
        self.worker(worker).noops.get()
    }

    /// Times that the worker went to sleep.
    #[track_caller]
    pub fn worker_park_count(&self, worker: usize) -> u64 {
        self.worker(worker).parks.get()
    }

    /// Times that the worker went to sleep and times that it woke, added up: odd while it is asleep, even
    /// while it is awake and once the runtime has ended.
    ///
    /// # Panics
    /// If there is no such worker.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_current_thread().build()?;
    /// let metrics = runtime.metrics();
    /// let count = runtime.block_on(async { metrics.worker_park_unpark_count(0) });
    /// assert_eq!(count % 2, 0, "the worker that asks is awake");
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn worker_park_unpark_count(&self, worker: usize) -> u64 {
        let metrics = self.worker(worker);
        match self.handle.runtime_flavor() {
            Flavor::CurrentThread => metrics.parks_and_unparks_without_thread(),
            Flavor::MultiThread => metrics.parks_and_unparks(),
        }
    }

    /// Times that the worker's run queue overflowed into the injector.
    #[track_caller]
    pub fn worker_overflow_count(&self, worker: usize) -> u64 {
        self.worker(worker).overflows.get()
    }

    /// The number of the CPU that the worker is kept on by [`pin_workers`](crate::Builder::pin_workers);
    /// `None` without that setting, and if the system refused.
    ///
    /// It does not change any more once the runtime has been built, even if the kernel has had to move the
    /// worker since.
    #[track_caller]
    pub fn worker_cpu(&self, worker: usize) -> Option<usize> {
        self.worker(worker);
        self.handle.shared().config.pins.as_ref()?.cpu(worker)
    }

    /// Why a worker could not be kept on its CPU: the first refusal of the system, also for a thread that
    /// took over for a worker. `None` if nothing was refused, and without
    /// [`pin_workers`](crate::Builder::pin_workers).
    pub fn pin_error(&self) -> Option<io::Error> {
        self.handle.shared().config.pins.as_ref()?.refused()
    }

    /// How long a poll takes on average: the worker's [busy duration](Self::worker_total_busy_duration) divided
    /// by its [polls](Self::worker_poll_count). Zero before the first poll.
    ///
    /// Both numbers are the worker's own costs included, and the busy duration is that of its last sleep. For
    /// more, see [`enable_metrics_poll_time_histogram`](crate::Builder::enable_metrics_poll_time_histogram).
    #[track_caller]
    pub fn worker_mean_poll_time(&self, worker: usize) -> Duration {
        let polls = self.worker_poll_count(worker);
        let nanos = self.worker_total_busy_duration(worker).as_nanos() / u128::from(polls.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Whether the runtime measures how long polls take; see
    /// [`enable_metrics_poll_time_histogram`](crate::Builder::enable_metrics_poll_time_histogram).
    pub fn poll_time_histogram_enabled(&self) -> bool {
        self.poll_times(0).is_some()
    }

    /// The number of buckets of the histogram of poll times. 0 unless that is enabled.
    pub fn poll_time_histogram_num_buckets(&self) -> usize {
        self.poll_times(0).map_or(0, Histogram::buckets)
    }

    /// The poll times that bucket `bucket` counts; the end is exclusive. Empty unless the histogram is enabled.
    ///
    /// # Panics
    /// If there is no such bucket.
    #[track_caller]
    pub fn poll_time_histogram_bucket_range(&self, bucket: usize) -> Range<Duration> {
        self.poll_times(0).map_or_else(Range::default, |histogram| histogram.range(bucket))
    }

    /// How many polls of the worker took as long as the bucket says. 0 unless the histogram is enabled.
    ///
    /// # Panics
    /// If there is no such worker or bucket.
    #[track_caller]
    pub fn poll_time_histogram_bucket_count(&self, worker: usize, bucket: usize) -> u64 {
        self.worker(worker);
        self.poll_times(worker).map_or(0, |histogram| histogram.count(bucket))
    }

    fn poll_times(&self, worker: usize) -> Option<&Histogram> {
        self.handle.shared().config.observer.as_ref()?.poll_times(worker)
    }

    /// Time that the worker has not been asleep, up to its last sleep, or to its end if it has ended.
    ///
    /// The worker of a `current_thread` runtime ends with each `block_on`.
    #[track_caller]
    pub fn worker_total_busy_duration(&self, worker: usize) -> Duration {
        self.worker(worker).busy()
    }
}

/// A place in the program that marks blocking calls; see [`RuntimeMetrics::blocking_sites`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockingSite {
    location: Option<&'static Location<'static>>,
    calls: u64,
    relieved: u64,
}

impl BlockingSite {
    /// Returns the line; none for all beyond the first 32 of a worker.
    pub fn location(&self) -> Option<&'static Location<'static>> {
        self.location
    }

    /// Returns how many calls there were.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Returns in how many of them a spare worker stood in for the worker: the call was long, or tasks
    /// waited.
    pub fn relieved(&self) -> u64 {
        self.relieved
    }
}

impl fmt::Debug for RuntimeMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeMetrics")
            .field("workers", &self.num_workers())
            .field("alive_tasks", &self.num_alive_tasks())
            .field("global_queue_depth", &self.global_queue_depth())
            .finish_non_exhaustive()
    }
}
