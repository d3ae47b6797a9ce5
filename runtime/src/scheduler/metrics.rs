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
    /// Sleeps begun and ended: odd while it is asleep, or was woken and does not run yet.
    pub naps: Counter,
    /// Split points at which it looked at the clock.
    pub looks: Counter,
    /// Times it yielded to tasks at a split point.
    pub yields: Counter,
    /// Times its ring overflowed into the injector.
    pub overflows: Counter,
    /// Nanoseconds from the end of a sleep to the beginning of the next.
    pub busy_ns: Counter,
}

impl WorkerMetrics {
    pub fn busy(&self) -> Duration {
        Duration::from_nanos(self.busy_ns.get())
    }
}
