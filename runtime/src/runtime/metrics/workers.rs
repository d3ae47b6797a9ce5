//! The numbers of each worker.

use std::ops::Range;
#[cfg(not(loom))]
use std::thread::ThreadId;
use std::time::Duration;

use super::totals::RuntimeMetrics;
use crate::config::histogram::Histogram;
use crate::scheduler::metrics::WorkerMetrics;

/// The numbers of each worker.
impl RuntimeMetrics {
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

    /// Returns how often the worker woke another worker, or called a spare worker, for a task that it queued.
    ///
    /// Wakes for the rest of a batch from the injector, and for jobs, are not counted.
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
        self.worker(worker).parks_and_unparks()
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

    /// Returns the mean duration of a poll: the worker's
    /// [busy duration](Self::worker_total_busy_duration), divided by its number of
    /// [polls](Self::worker_poll_count). Before the first poll it returns the whole busy duration.
    ///
    /// The busy duration contains the worker's own work between polls, and a poll that has not ended.
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

    /// Returns the time that the worker has not been asleep, up to now. Its growth in a second is the
    /// worker's load, also while the worker is inside of a long poll.
    ///
    /// The worker of a `current_thread` runtime is busy only within `block_on`.
    ///
    /// Tokio's worker counts the time when it goes to sleep, or sees to events and timers.
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
        self.worker(worker).busy.get()
    }

    fn poll_times(&self, worker: usize) -> Option<&Histogram> {
        self.reference.shared().config.observer.as_ref()?.poll_times(worker)
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
}
