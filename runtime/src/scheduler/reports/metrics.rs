//! Counters, each written by one thread: a load and a store, no read-modify-write.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// A number that one thread at a time increments and any thread reads.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. Only the writing thread may call this: two threads at once would lose counts.
    #[inline]
    pub fn add(&self, n: u64) {
        // Relaxed: a number by itself. A reader may see it late.
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The bit of a [`BusyTime`] that is set while the worker is busy.
const BUSY: u64 = 1 << 63;

/// For how long a worker has been busy, up to now: also while it is busy.
///
/// All times are in nanoseconds since `created`. While the worker is not busy, `word` is its busy time. While
/// it is busy, `word` is [`BUSY`] plus the time that it has *not* been busy, so the rest of the time that
/// has passed is its busy time. One word, so that a reader never counts the present stretch twice.
#[derive(Debug)]
pub struct BusyTime {
    created: Instant,
    word: AtomicU64,
    /// The highest result of [`get`](Self::get): a reader may look at the clock after the worker did that is
    /// about to end its stretch.
    highest: AtomicU64,
}

impl Default for BusyTime {
    fn default() -> Self {
        Self { created: Instant::now(), word: AtomicU64::new(0), highest: AtomicU64::new(0) }
    }
}

impl BusyTime {
    /// The worker is busy from `now` on, or goes on being so. Only one thread at a time may call this, or
    /// [`end`](Self::end).
    pub fn begin(&self, now: Instant) {
        let idle = self.nanos(now).saturating_sub(self.until(now));
        // Relaxed, here and below: a number by itself.
        self.word.store(idle | BUSY, Relaxed);
    }

    /// The worker is not busy from `now` on.
    pub fn end(&self, now: Instant) {
        self.word.store(self.until(now), Relaxed);
    }

    /// The busy time until now. Never falls.
    pub fn get(&self) -> Duration {
        let nanos = self.until(Instant::now());
        Duration::from_nanos(self.highest.fetch_max(nanos, Relaxed).max(nanos))
    }

    fn until(&self, now: Instant) -> u64 {
        match self.word.load(Relaxed) {
            word if word & BUSY == 0 => word,
            word => self.nanos(now).saturating_sub(word & !BUSY),
        }
    }

    fn nanos(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.created).as_nanos() as u64
    }
}

/// One beginning or end of a thread, in `sleep_changes`. The bit is set while the worker has a thread.
const THREAD_CHANGE: u64 = 1 << 56;

/// The counters of one worker.
#[derive(Debug, Default)]
pub struct WorkerMetrics {
    /// Tasks spawned by the worker.
    pub spawned: Counter,
    /// Tasks that ended on the worker.
    pub ended: Counter,
    /// Polls of tasks.
    pub polls: Counter,
    /// Polls of tasks that came from the LIFO slot.
    pub lifo_polls: Counter,
    /// Tasks stolen from other workers.
    pub stolen: Counter,
    /// Steals that brought a task.
    pub steals: Counter,
    /// Searches begun.
    pub searches: Counter,
    /// Sleepers this worker unparked for work.
    pub notifies: Counter,
    /// Times that the worker was unparked for work and found none.
    pub noops: Counter,
    /// Times it went to sleep.
    pub parks: Counter,
    /// The lower 56 bits count the sleeps begun and ended, and one more while the worker has no thread. So
    /// they are odd while the worker sleeps, while it was woken and does not run yet, and while it has no
    /// thread. The higher bits count the beginnings and ends of its threads, and wrap. The worker of a
    /// `current_thread` runtime never gets a thread of its own.
    pub sleep_changes: Counter,
    /// Split points at which it looked at the clock.
    pub looks: Counter,
    /// Injected jobs that it took while it had no work.
    pub injected_jobs: Counter,
    /// Times it yielded to tasks at a split point.
    pub yields: Counter,
    /// Times its ring overflowed into the injector.
    pub overflows: Counter,
    /// The time that it was not asleep.
    pub busy: BusyTime,
}

impl WorkerMetrics {
    /// The counters of a worker that has no thread yet.
    pub fn new() -> Self {
        let metrics = Self::default();
        metrics.sleep_changes.add(1);
        metrics
    }

    /// The worker's thread begins: the first one, or the next after [`thread_ends`](Self::thread_ends).
    /// Called on that thread.
    pub fn thread_begins(&self) {
        self.sleep_changes.add(THREAD_CHANGE - 1);
    }

    /// The worker's thread ends. Called on that thread.
    pub fn thread_ends(&self) {
        self.sleep_changes.add(THREAD_CHANGE + 1);
    }

    /// Sleeps begun and ended, of all threads that the worker has had. Even once the last of them has ended.
    pub fn parks_and_unparks(&self) -> u64 {
        let sleep_changes = self.sleep_changes.get();
        let has_no_thread = sleep_changes & THREAD_CHANGE == 0;
        sleep_changes % THREAD_CHANGE - u64::from(has_no_thread)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A spare worker's index has one thread after the other. Each added two.
    #[test]
    fn threads_that_begin_and_end_count_as_no_sleeps() {
        let metrics = WorkerMetrics::new();
        let mut count = 0;
        // More often than the higher bits can count.
        for _ in 0..300 {
            assert_eq!(metrics.parks_and_unparks(), count, "no thread has begun since");
            assert_eq!(metrics.sleep_changes.get() % 2, 1, "a worker without a thread seems asleep");
            let before = metrics.sleep_changes.get();
            metrics.thread_begins();
            metrics.thread_ends();
            assert_ne!(metrics.sleep_changes.get(), before, "the monitor sees another thread");
            metrics.thread_begins();
            for _ in 0..4 {
                assert_eq!(metrics.sleep_changes.get() % 2, count % 2);
                assert_eq!(metrics.parks_and_unparks(), count);
                metrics.sleep_changes.add(1);
                count += 1;
            }
            metrics.thread_ends();
        }
        assert_eq!(metrics.parks_and_unparks(), 1200);
    }
}
