//! The numbers that a runtime keeps of itself.

use std::fmt;
use std::io;
use std::ops::Range;
use std::panic::Location;
#[cfg(not(loom))]
use std::thread::ThreadId;
use std::time::Duration;

#[cfg(doc)]
use crate::Handle;
use crate::config::Flavor;
use crate::config::histogram::Histogram;
use crate::loom::sync::atomic::Ordering::Relaxed;
use crate::scheduler::away::SpareCounts;
use crate::scheduler::metrics::WorkerMetrics;
use crate::scheduler::reference::Reference;

/// A view of a runtime's metrics. [`Handle::metrics`] makes it.
///
/// The numbers are always kept and cost next to nothing. One thread writes most of them, with plain stores,
/// so a reader sees them a moment late. The counters of a worker begin at zero when the runtime is built, and
/// wrap after 2^64. Other threads may change all numbers between two calls.
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
    reference: Reference,
}

impl RuntimeMetrics {
    pub(crate) fn new(reference: Reference) -> Self {
        Self { reference }
    }

    #[track_caller]
    fn worker(&self, worker: usize) -> &WorkerMetrics {
        let workers = self.num_workers();
        assert!(
            worker < workers,
            "the runtime has {workers} workers, numbered from 0, but number {worker} was asked for"
        );
        &self.reference.shared().processor(worker).metrics
    }

    /// Returns the number of worker threads, without spare workers. It is 1 for a `current_thread` runtime.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_multi_thread().worker_threads(3).build()?;
    /// assert_eq!(runtime.metrics().num_workers(), 3);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn num_workers(&self) -> usize {
        self.reference.shared().config.workers
    }

    /// Returns the number of tasks that have been spawned and have not ended.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_current_thread().build()?;
    /// runtime.spawn(std::future::pending::<()>());
    /// assert_eq!(runtime.metrics().num_alive_tasks(), 1);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn num_alive_tasks(&self) -> usize {
        let shared = self.reference.shared();
        let on_workers: u64 = shared.processors.iter().map(|processor| processor.metrics.ended.get()).sum();
        let ended = on_workers + shared.ended_elsewhere.load(Relaxed);
        // Read after `ended`, so at least as large.
        self.spawned_tasks_count().saturating_sub(ended) as usize
    }

    /// Returns [`num_alive_tasks`](Self::num_alive_tasks).
    #[doc(hidden)]
    #[deprecated = "it is called `num_alive_tasks` now"]
    pub fn active_tasks_count(&self) -> usize {
        self.num_alive_tasks()
    }

    /// Returns [`global_queue_depth`](Self::global_queue_depth).
    #[doc(hidden)]
    #[deprecated = "it is called `global_queue_depth` now"]
    pub fn injection_queue_depth(&self) -> usize {
        self.global_queue_depth()
    }

    /// Returns the number of tasks that have been spawned since the runtime was built.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_current_thread().build()?;
    /// runtime.block_on(runtime.spawn(async {})).unwrap();
    /// assert_eq!(runtime.metrics().spawned_tasks_count(), 1);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn spawned_tasks_count(&self) -> u64 {
        let shared = self.reference.shared();
        let on_workers: u64 = shared.processors.iter().map(|processor| processor.metrics.spawned.get()).sum();
        on_workers + shared.injector.newborns() + shared.refused_elsewhere.load(Relaxed)
    }

    /// Returns the number of tasks in the injector. This queue takes the tasks that are spawned or woken
    /// outside of the workers, and those that overflow from a worker's run queue.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_current_thread().build()?;
    /// runtime.spawn(async {});
    /// assert_eq!(runtime.metrics().global_queue_depth(), 1);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn global_queue_depth(&self) -> usize {
        self.reference.shared().injector.len()
    }

    /// Returns the number of threads for blocking closures, idle threads included.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_current_thread().build()?;
    /// runtime.block_on(runtime.spawn_blocking(|| {})).unwrap();
    /// assert_eq!(runtime.metrics().num_blocking_threads(), 1);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn num_blocking_threads(&self) -> usize {
        self.reference.shared().blocking.counts().threads
    }

    /// Returns the number of threads for blocking closures that wait for a closure.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_current_thread().build()?;
    /// let metrics = runtime.metrics();
    /// assert!(metrics.num_idle_blocking_threads() <= metrics.num_blocking_threads());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn num_idle_blocking_threads(&self) -> usize {
        self.reference.shared().blocking.counts().idle
    }

    /// Returns the number of blocking closures that wait for a thread.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_current_thread().build()?;
    /// runtime.block_on(runtime.spawn_blocking(|| {})).unwrap();
    /// assert_eq!(runtime.metrics().blocking_queue_depth(), 0);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn blocking_queue_depth(&self) -> usize {
        self.reference.shared().blocking.counts().queued
    }

    /// Returns how often a thread for blocking closures was woken because a closure waited.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_current_thread().build()?;
    /// runtime.block_on(runtime.spawn_blocking(|| {})).unwrap();
    /// println!("{} wakes", runtime.metrics().blocking_wake_count());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn blocking_wake_count(&self) -> u64 {
        self.reference.shared().blocking.counts().wakes
    }

    /// Returns how often a thread for blocking closures was started because a closure waited. Attempts that
    /// the system refused count as well.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_current_thread().build()?;
    /// runtime.block_on(runtime.spawn_blocking(|| {})).unwrap();
    /// assert_eq!(runtime.metrics().blocking_start_count(), 1);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn blocking_start_count(&self) -> u64 {
        self.reference.shared().blocking.counts().starts
    }

    /// Returns the number of spare workers, idle ones included. Spare workers take over for stuck and blocked
    /// workers; see [`Builder::spare_workers`](crate::Builder::spare_workers).
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_multi_thread().spare_workers(0).build()?;
    /// assert_eq!(runtime.metrics().num_spare_workers(), 0);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn num_spare_workers(&self) -> usize {
        let counts = self.spares();
        counts.active + counts.resting
    }

    /// Returns the number of spare workers that are not needed at the moment.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_multi_thread().spare_workers(0).build()?;
    /// assert_eq!(runtime.metrics().num_idle_spare_workers(), 0);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn num_idle_spare_workers(&self) -> usize {
        self.spares().resting
    }

    /// Returns the number of spare workers that have been started since the runtime was built.
    ///
    /// # Examples
    /// The one worker sleeps, so a spare worker polls the second task:
    /// ```
    /// let runtime = runtime::Builder::new_multi_thread().worker_threads(1).build()?;
    /// let (sender, receiver) = std::sync::mpsc::channel();
    /// let stuck = runtime.spawn(async move { receiver.recv().unwrap() });
    /// runtime.spawn(async move { sender.send(7).unwrap() });
    /// assert_eq!(runtime.block_on(stuck).unwrap(), 7);
    /// println!("{} spare workers were started", runtime.metrics().spare_started_count());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn spare_started_count(&self) -> u64 {
        self.spares().started
    }

    /// Returns how often the system refused a spare worker. The runtime asks again while tasks wait.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Runtime::new()?;
    /// if runtime.metrics().spare_refused_count() > 0 {
    ///     eprintln!("the system refuses threads");
    /// }
    /// # std::io::Result::Ok(())
    /// ```
    pub fn spare_refused_count(&self) -> u64 {
        self.spares().refused
    }

    /// Returns how often a spare worker was needed while all [allowed](crate::Builder::spare_workers) spare
    /// workers were in use.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Runtime::new()?;
    /// if runtime.metrics().spare_capped_count() > 0 {
    ///     eprintln!("tasks have waited for blocked workers");
    /// }
    /// # std::io::Result::Ok(())
    /// ```
    pub fn spare_capped_count(&self) -> u64 {
        self.spares().capped
    }

    /// Returns how often a worker was found stuck in a poll while work waited; see
    /// [`Builder::on_stall`](crate::Builder::on_stall).
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Runtime::new()?;
    /// println!("{} stalls", runtime.metrics().stall_count());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn stall_count(&self) -> u64 {
        self.reference.shared().monitor.stalls.get()
    }

    /// Returns the number of tasks that a stuck worker was about to run next, and that were taken from it.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Runtime::new()?;
    /// println!("{} tasks were rescued", runtime.metrics().rescued_task_count());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn rescued_task_count(&self) -> u64 {
        self.reference.shared().monitor.rescued_tasks.get()
    }

    /// Returns how often a worker was called for the driver or its timers, because no worker had looked there
    /// for long.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Runtime::new()?;
    /// println!("{} calls for the driver", runtime.metrics().rescued_driver_count());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn rescued_driver_count(&self) -> u64 {
        self.reference.shared().monitor.rescued_driver.get()
    }

    /// Returns the number of lost wakes: work waited for a quarter of a second while a worker slept that
    /// could have run it.
    ///
    /// A lost wake would be a fault of the runtime, which looks for lost wakes and makes up for them. As far
    /// as we know this number is always 0. On a machine on which threads get no CPU for so long, it may count
    /// a wake that was only late. Please report a program that makes it grow.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Runtime::new()?;
    /// if runtime.metrics().missed_wake_count() > 0 {
    ///     eprintln!("please report this program");
    /// }
    /// # std::io::Result::Ok(())
    /// ```
    pub fn missed_wake_count(&self) -> u64 {
        self.reference.shared().monitor.missed_wakes.get()
    }

    /// Returns how often computations yielded to tasks at a split point.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Runtime::new()?;
    /// println!("{} yields", runtime.metrics().computation_yield_count());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn computation_yield_count(&self) -> u64 {
        let shared = self.reference.shared();
        shared.processors.iter().map(|processor| processor.metrics.yields.get()).sum()
    }

    /// Returns the lines of the program that mark blocking calls
    /// ([`block_in_place`](crate::task::block_in_place), [`parallel::blocking`](crate::parallel::blocking)),
    /// the most frequent first.
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
        let processors = self.reference.shared().processors.iter();
        for (location, site) in processors.flat_map(|processor| processor.call_sites.iter()) {
            let (calls, relieved) = (site.calls.get(), site.compensated.get());
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
        self.reference.shared().away.counts()
    }

    /// Returns how often a thread asked the system for events; 0 without I/O and time.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_current_thread().build()?;
    /// assert_eq!(runtime.metrics().driver_turn_count(), 0);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn driver_turn_count(&self) -> u64 {
        self.reference.shared().driver.io().map_or(0, |io| io.turns())
    }

    /// Returns the number of events that came from the system; 0 without I/O and time.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_current_thread().build()?;
    /// assert_eq!(runtime.metrics().driver_event_count(), 0);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn driver_event_count(&self) -> u64 {
        self.reference.shared().driver.io().map_or(0, |io| io.events())
    }

    /// Returns [`driver_event_count`](Self::driver_event_count), under Tokio's name.
    ///
    /// # Examples
    /// ```
    /// let metrics = runtime::Builder::new_current_thread().build()?.metrics();
    /// assert_eq!(metrics.io_driver_ready_count(), metrics.driver_event_count());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn io_driver_ready_count(&self) -> u64 {
        self.driver_event_count()
    }

    /// Returns the number of descriptors that have been registered with the driver since the runtime was
    /// built. Those that were deregistered since count as well. 0 without I/O.
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

    /// Returns the number of descriptors that have been deregistered from the driver since the runtime was
    /// built; 0 without I/O.
    ///
    /// # Examples
    /// See [`io_driver_fd_registered_count`](Self::io_driver_fd_registered_count).
    pub fn io_driver_fd_deregistered_count(&self) -> u64 {
        self.registrations().1
    }

    fn registrations(&self) -> (u64, u64) {
        self.reference.shared().driver.io().map_or((0, 0), |io| io.registrations())
    }

    /// Returns the id of the worker's thread, or `None` until the thread has begun. For a `current_thread`
    /// runtime it is the thread that drives the runtime, or that drove it last.
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
        self.reference.shared().processor(worker).parker.thread_id()
    }

    /// Returns the number of tasks in the worker's run queue, without the task that it runs next.
    ///
    /// # Panics
    /// If there is no such worker, as all methods with a worker's number.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let metrics = runtime::Handle::current().metrics();
    /// for _ in 0..10 {
    ///     runtime::spawn(async {});
    /// }
    /// assert!(metrics.worker_local_queue_depth(0) <= 10);
    /// # });
    /// ```
    #[track_caller]
    pub fn worker_local_queue_depth(&self, worker: usize) -> usize {
        self.worker(worker);
        self.reference.shared().processor(worker).ring.len()
    }

    /// Returns how many polls of tasks the worker has begun.
    ///
    /// # Panics
    /// If there is no such worker.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_current_thread().build()?;
    /// runtime.block_on(runtime.spawn(async {})).unwrap();
    /// assert_eq!(runtime.metrics().worker_poll_count(0), 1);
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn worker_poll_count(&self, worker: usize) -> u64 {
        self.worker(worker).polls.get()
    }

    /// Returns the number of polls of tasks that the worker took from its LIFO slot. This slot holds the task
    /// that was woken last, which the worker runs next.
    ///
    /// # Panics
    /// If there is no such worker.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_current_thread().build()?;
    /// runtime.block_on(async { runtime::spawn(async {}).await.unwrap() });
    /// let metrics = runtime.metrics();
    /// assert!(metrics.worker_lifo_poll_count(0) <= metrics.worker_poll_count(0));
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn worker_lifo_poll_count(&self, worker: usize) -> u64 {
        self.worker(worker).lifo_polls.get()
    }

    /// Returns the number of tasks that the worker stole from others.
    ///
    /// # Panics
    /// If there is no such worker.
    ///
    /// # Examples
    /// A single worker has no other to steal from:
    /// ```
    /// let runtime = runtime::Builder::new_current_thread().build()?;
    /// assert_eq!(runtime.metrics().worker_steal_count(0), 0);
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn worker_steal_count(&self, worker: usize) -> u64 {
        self.worker(worker).stolen.get()
    }

    /// Returns how often the worker stole tasks from another. One operation may steal several tasks.
    ///
    /// # Panics
    /// If there is no such worker.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Runtime::new()?;
    /// let metrics = runtime.metrics();
    /// let (operations, tasks) = (metrics.worker_steal_operations(0), metrics.worker_steal_count(0));
    /// println!("{operations} operations stole {tasks} tasks");
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn worker_steal_operations(&self, worker: usize) -> u64 {
        self.worker(worker).steals.get()
    }

    /// Returns how often the worker searched the other workers' queues.
    ///
    /// # Panics
    /// If there is no such worker.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Runtime::new()?;
    /// println!("{} searches", runtime.metrics().worker_search_count(0));
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn worker_search_count(&self, worker: usize) -> u64 {
        self.worker(worker).searches.get()
    }

    /// Returns how often the worker woke another for work.
    ///
    /// # Panics
    /// If there is no such worker.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_current_thread().build()?;
    /// assert_eq!(runtime.metrics().worker_notify_count(0), 0);
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn worker_notify_count(&self, worker: usize) -> u64 {
        self.worker(worker).notifies.get()
    }

    /// Returns how often the worker was woken for work and found none.
    ///
    /// # Panics
    /// If there is no such worker.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Runtime::new()?;
    /// println!("{} vain wakes", runtime.metrics().worker_noop_count(0));
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn worker_noop_count(&self, worker: usize) -> u64 {
        self.worker(worker).noops.get()
    }

    /// Returns how often the worker went to sleep.
    ///
    /// # Panics
    /// If there is no such worker.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = runtime::Builder::new_current_thread().enable_time().build()?;
    /// runtime.block_on(async { runtime::time::sleep(Duration::from_millis(1)).await });
    /// assert!(runtime.metrics().worker_park_count(0) >= 1);
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn worker_park_count(&self, worker: usize) -> u64 {
        self.worker(worker).parks.get()
    }

    /// Returns how often the worker went to sleep plus how often it woke. The number is odd while the worker
    /// is asleep. It is even while the worker is awake, and once the runtime has ended.
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
        match self.reference.shared().config.flavor {
            Flavor::CurrentThread => metrics.parks_and_unparks_without_thread(),
            Flavor::MultiThread => metrics.parks_and_unparks(),
        }
    }

    /// Returns how often the worker's run queue overflowed into the injector.
    ///
    /// # Panics
    /// If there is no such worker.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_current_thread().build()?;
    /// assert_eq!(runtime.metrics().worker_overflow_count(0), 0);
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn worker_overflow_count(&self, worker: usize) -> u64 {
        self.worker(worker).overflows.get()
    }

    /// Returns the number of the CPU on which [`pin_workers`](crate::Builder::pin_workers) keeps the worker.
    /// It is `None` without that setting, and if the system refused.
    ///
    /// It does not change once the runtime has been built, even if the kernel has had to move the worker
    /// since.
    ///
    /// # Panics
    /// If there is no such worker.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_multi_thread().worker_threads(1).build()?;
    /// assert_eq!(runtime.metrics().worker_cpu(0), None);
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn worker_cpu(&self, worker: usize) -> Option<usize> {
        self.worker(worker);
        self.reference.shared().config.pins.as_ref()?.cpu(worker)
    }

    /// Returns why a worker or a spare worker could not be kept on its CPU: the first refusal of the system.
    /// It is `None` if the system refused nothing, and without [`pin_workers`](crate::Builder::pin_workers).
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_multi_thread().pin_workers(true).build()?;
    /// if let Some(error) = runtime.metrics().pin_error() {
    ///     println!("workers are not pinned: {error}");
    /// }
    /// # std::io::Result::Ok(())
    /// ```
    pub fn pin_error(&self) -> Option<io::Error> {
        self.reference.shared().config.pins.as_ref()?.refused()
    }

    /// Returns the mean duration of a poll: the worker's
    /// [busy duration](Self::worker_total_busy_duration), divided by its number of
    /// [polls](Self::worker_poll_count). Before the first poll it returns the whole busy duration.
    ///
    /// The busy duration contains the worker's own work between polls, and ends with the worker's last sleep.
    /// [`enable_metrics_poll_time_histogram`](crate::Builder::enable_metrics_poll_time_histogram) measures
    /// each poll.
    ///
    /// # Panics
    /// If there is no such worker.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = runtime::Builder::new_current_thread().build()?;
    /// assert_eq!(runtime.metrics().worker_mean_poll_time(0), Duration::ZERO);
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn worker_mean_poll_time(&self, worker: usize) -> Duration {
        let polls = self.worker_poll_count(worker);
        let nanos = self.worker_total_busy_duration(worker).as_nanos() / u128::from(polls.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Returns whether the runtime measures its polls; see
    /// [`enable_metrics_poll_time_histogram`](crate::Builder::enable_metrics_poll_time_histogram).
    ///
    /// # Examples
    /// ```
    /// let runtime =
    ///     runtime::Builder::new_current_thread().enable_metrics_poll_time_histogram().build()?;
    /// assert!(runtime.metrics().poll_time_histogram_enabled());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn poll_time_histogram_enabled(&self) -> bool {
        self.poll_times(0).is_some()
    }

    /// Returns the number of buckets of the histogram of poll times. 0 unless the histogram is enabled.
    ///
    /// # Examples
    /// ```
    /// let runtime =
    ///     runtime::Builder::new_current_thread().enable_metrics_poll_time_histogram().build()?;
    /// assert_eq!(runtime.metrics().poll_time_histogram_num_buckets(), 10);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn poll_time_histogram_num_buckets(&self) -> usize {
        self.poll_times(0).map_or(0, Histogram::buckets)
    }

    /// Returns the range of poll times that bucket `bucket` counts. The end is exclusive. The range is empty
    /// unless the histogram is enabled.
    ///
    /// `bucket` must be less than
    /// [`poll_time_histogram_num_buckets`](Self::poll_time_histogram_num_buckets). For a larger `bucket` the
    /// result has no meaning, and the call may panic.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime =
    ///     runtime::Builder::new_current_thread().enable_metrics_poll_time_histogram().build()?;
    /// let range = runtime.metrics().poll_time_histogram_bucket_range(1);
    /// assert_eq!(range, Duration::from_micros(100)..Duration::from_micros(200));
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn poll_time_histogram_bucket_range(&self, bucket: usize) -> Range<Duration> {
        self.poll_times(0).map_or_else(Range::default, |histogram| histogram.range(bucket))
    }

    /// Returns the number of polls of the worker whose duration was in the range of the bucket. 0 unless the
    /// histogram is enabled.
    ///
    /// # Panics
    /// If there is no such worker, or if the histogram is enabled and has no such bucket.
    ///
    /// # Examples
    /// ```
    /// let runtime =
    ///     runtime::Builder::new_current_thread().enable_metrics_poll_time_histogram().build()?;
    /// runtime.block_on(runtime.spawn(async {}))?;
    /// let metrics = runtime.metrics();
    /// let count = |bucket| metrics.poll_time_histogram_bucket_count(0, bucket);
    /// assert_eq!((0..10).map(count).sum::<u64>(), 1);
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn poll_time_histogram_bucket_count(&self, worker: usize, bucket: usize) -> u64 {
        self.worker(worker);
        self.poll_times(worker).map_or(0, |histogram| histogram.count(bucket))
    }

    fn poll_times(&self, worker: usize) -> Option<&Histogram> {
        self.reference.shared().config.observer.as_ref()?.poll_times(worker)
    }

    /// Returns the time that the worker has not been asleep, up to the beginning of its last sleep, or to the
    /// end of its thread.
    ///
    /// The worker of a `current_thread` runtime ends with each `block_on`.
    ///
    /// # Panics
    /// If there is no such worker.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = runtime::Builder::new_current_thread().build()?;
    /// assert_eq!(runtime.metrics().worker_total_busy_duration(0), Duration::ZERO);
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn worker_total_busy_duration(&self, worker: usize) -> Duration {
        self.worker(worker).busy()
    }
}

/// A line of the program that marks blocking calls; see [`RuntimeMetrics::blocking_sites`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockingSite {
    location: Option<&'static Location<'static>>,
    calls: u64,
    relieved: u64,
}

impl BlockingSite {
    /// Returns the line, or `None` for all lines beyond the first 32 of a worker.
    pub fn location(&self) -> Option<&'static Location<'static>> {
        self.location
    }

    /// Returns the number of calls.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Returns in how many of the calls a spare worker took over for the worker, because the call was long or
    /// tasks waited.
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
