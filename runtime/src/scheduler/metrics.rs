//! Counters, each written by one thread: a load and a store, no read-modify-write.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// A number that one thread at a time counts up and any thread reads.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Only the writing thread may call this: two at once would lose counts.
    #[inline]
    pub fn add(&self, n: u64) {
        // Relaxed: a number by itself; readers get it late.
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The bit of `naps` that tells a worker without a thread from a worker that sleeps.
const NO_THREAD: u64 = 1 << 63;

/// What a worker counts.
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
    /// Tasks stolen from others.
    pub stolen: Counter,
    /// Steals that brought something.
    pub steals: Counter,
    /// Searches begun.
    pub searches: Counter,
    /// Sleepers this worker unparked for work.
    pub notifies: Counter,
    /// Times it was unparked for work and found none.
    pub noops: Counter,
    /// Times it went to sleep.
    pub parks: Counter,
    /// Sleeps begun and ended: odd while it is asleep, or was woken and does not run yet, and while it has no
    /// thread. Beside that, [`NO_THREAD`] is set while it has no thread, but for a `current_thread` runtime,
    /// which has none of its own.
    pub naps: Counter,
    /// Split points at which it looked at the clock.
    pub looks: Counter,
    /// Times it yielded to tasks at a split point.
    pub yields: Counter,
    /// Times its ring overflowed into the injector.
    pub overflows: Counter,
    /// Nanoseconds from the end of a sleep to the beginning of the next, or to the end of the worker's time.
    pub busy_ns: Counter,
}

impl WorkerMetrics {
    /// Those of a worker that has no thread yet.
    pub fn new() -> Self {
        let metrics = Self::default();
        metrics.naps.add(NO_THREAD + 1);
        metrics
    }

    /// The worker's thread begins or ends. Called on that thread.
    pub fn thread_begins_or_ends(&self) {
        // What overflows is `NO_THREAD`, which is set and cleared by turns.
        self.naps.add(NO_THREAD + 1);
    }

    /// Sleeps begun and ended since the thread was there. It is even once the thread has ended.
    pub fn parks_and_unparks(&self) -> u64 {
        let naps = self.naps.get();
        // One for the time before the thread, one for its begin.
        let since_begin = (naps & !NO_THREAD).saturating_sub(2);
        match naps & NO_THREAD {
            0 => since_begin,
            _ => since_begin & !1,
        }
    }

    /// The same of a `current_thread` runtime's worker, which no thread begins or ends.
    pub fn parks_and_unparks_without_thread(&self) -> u64 {
        (self.naps.get() & !NO_THREAD) - 1
    }

    pub fn busy(&self) -> Duration {
        Duration::from_nanos(self.busy_ns.get())
    }
}
