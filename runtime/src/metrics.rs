//! The numbers a runtime keeps of itself.

use std::fmt;
use std::time::Duration;

use crate::handle::Handle;
use crate::loom::sync::atomic::Ordering::Relaxed;
use crate::scheduler::metrics::WorkerMetrics;

/// A view of a runtime's metrics; made by [`Handle::metrics`].
///
/// The numbers are always kept and cost next to nothing: each is written by one thread with plain stores, so what is read is
/// a moment old. Those of a worker begin at zero when the runtime is built and wrap after 2^64.
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

    /// Tasks that have been spawned since the runtime was built.
    pub fn spawned_tasks_count(&self) -> u64 {
        let shared = self.handle.shared();
        let on_workers: u64 = shared.processors.iter().map(|processor| processor.metrics.spawned.get()).sum();
        on_workers + shared.spawned_elsewhere.load(Relaxed)
    }

    /// Tasks in the injector, the queue for tasks that are woken or spawned outside of the workers or overflowed from one.
    pub fn global_queue_depth(&self) -> usize {
        self.handle.shared().injector.len()
    }

    /// Threads for blocking closures, idle ones included.
    pub fn num_blocking_threads(&self) -> usize {
        self.handle.shared().blocking.counts().0
    }

    /// Threads for blocking closures that wait for one.
    pub fn num_idle_blocking_threads(&self) -> usize {
        self.handle.shared().blocking.counts().1
    }

    /// Blocking closures that wait for a thread.
    pub fn blocking_queue_depth(&self) -> usize {
        self.handle.shared().blocking.counts().2
    }

    /// Times that somebody asked the system for events; 0 without I/O and time.
    pub fn driver_turn_count(&self) -> u64 {
        self.handle.shared().driver.io().map_or(0, |io| io.turns())
    }

    /// Events that came from the system; 0 without I/O and time.
    pub fn driver_event_count(&self) -> u64 {
        self.handle.shared().driver.io().map_or(0, |io| io.events())
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

    /// Times that the worker's run queue overflowed into the injector.
    #[track_caller]
    pub fn worker_overflow_count(&self, worker: usize) -> u64 {
        self.worker(worker).overflows.get()
    }

    /// Time that the worker has not been asleep, up to its last sleep.
    #[track_caller]
    pub fn worker_total_busy_duration(&self, worker: usize) -> Duration {
        self.worker(worker).busy()
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
