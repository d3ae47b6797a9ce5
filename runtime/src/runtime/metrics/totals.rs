//! The numbers of a whole runtime.

use std::fmt;
use std::io;
use std::panic::Location;

#[cfg(doc)]
use crate::Handle;
use crate::loom::sync::atomic::Ordering::Relaxed;
use crate::scheduler::away::SpareCounts;
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
    pub(super) reference: Reference,
}

impl RuntimeMetrics {
    pub(crate) fn new(reference: Reference) -> Self {
        Self { reference }
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
        let on_workers: u64 = shared.processors.made().map(|processor| processor.metrics.ended.get()).sum();
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
        let on_workers: u64 = shared.processors.made().map(|processor| processor.metrics.spawned.get()).sum();
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
        self.reference.shared().blocking.queue.counts().threads
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
        self.reference.shared().blocking.queue.counts().idle
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
        self.reference.shared().blocking.queue.counts().queued
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
        self.reference.shared().blocking.queue.counts().wakes
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
        self.reference.shared().blocking.queue.counts().starts
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
        shared.processors.made().map(|processor| processor.metrics.yields.get()).sum()
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
        let processors = self.reference.shared().processors.made();
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

    /// Returns how often a thread polled the driver for events; 0 without I/O and time. The polls of a second
    /// thread, while another thread is inside of the driver, count as well.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_current_thread().build()?;
    /// assert_eq!(runtime.metrics().driver_turn_count(), 0);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn driver_turn_count(&self) -> u64 {
        self.reference.shared().driver.io().map_or(0, |io| io.polls())
    }

    /// Returns the number of events of descriptors that the polls of
    /// [`driver_turn_count`](Self::driver_turn_count) took; 0 without I/O and time.
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
