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

/// The bit of `sleep_changes` that is set while a worker has no thread.
const NO_THREAD: u64 = 1 << 63;

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
    /// Sleeps begun and ended. Odd while the worker sleeps, while it was woken and does not run yet, and
    /// while it has no thread. While it has no thread, [`NO_THREAD`] is set as well. The worker of a
    /// `current_thread` runtime has no thread of its own, and does not set [`NO_THREAD`].
    pub sleep_changes: Counter,
    /// Split points at which it looked at the clock.
    pub looks: Counter,
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
        metrics.sleep_changes.add(NO_THREAD + 1);
        metrics
    }

    /// The worker's thread begins or ends. Called on that thread.
    pub fn thread_begins_or_ends(&self) {
        // The bit `NO_THREAD` overflows, so it is set and cleared alternately.
        self.sleep_changes.add(NO_THREAD + 1);
    }

    /// Sleeps begun and ended since the thread began. Even once the thread has ended.
    pub fn parks_and_unparks(&self) -> u64 {
        let sleep_changes = self.sleep_changes.get();
        // One for the time before the thread, one for its beginning.
        let since_begin = (sleep_changes & !NO_THREAD).saturating_sub(2);
        match sleep_changes & NO_THREAD {
            0 => since_begin,
            _ => since_begin & !1,
        }
    }

    /// As [`parks_and_unparks`](Self::parks_and_unparks), for a `current_thread` runtime's worker, which no
    /// thread begins or ends.
    pub fn parks_and_unparks_without_thread(&self) -> u64 {
        (self.sleep_changes.get() & !NO_THREAD) - 1
    }
}
