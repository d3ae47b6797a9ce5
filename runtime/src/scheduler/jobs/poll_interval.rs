//! How often a computation looks at the clock at its split points, and when the workers last looked for
//! tasks; see `split.rs`.

use std::cell::Cell;
use std::time::Instant;

use crate::loom::sync::atomic::Ordering::Relaxed;
use crate::loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use crate::scheduler::hints::slices::INTERVAL_NANOS;

/// How long a poll interval should take.
pub(super) const POLL_INTERVAL_NANOS: u64 = 25_000;

/// The most splits in a poll interval: a computation passes that many before it notices that they have become
/// slow.
pub(super) const LONGEST_POLL_INTERVAL: u32 = 1024;

/// If the last look is no older than this, split points are being passed. A worker that yields may be away
/// for `LIMIT` of `split.rs`, and then compute for as long. And a computation may have parts of some
/// milliseconds: if a spare worker that serves took it for a long poll, it would begin one more computation,
/// and serve no more.
const RECENT_NANOS: u64 = 20_000_000;

/// The last look of a runtime's workers: its time and its result.
#[derive(Debug)]
pub struct Splits {
    base: Instant,
    /// When a worker last looked, in nanoseconds since `base`.
    pub(super) last: AtomicU64,
    /// The worker that looked then: a hint.
    last_by: AtomicUsize,
    /// Whether tasks waited at the last look, and there was no spare worker to yield to: a hint. If so, the
    /// workers count as stuck.
    pub(super) is_pressed: AtomicBool,
    /// Whether tasks waited at the last look, and an idle thread was asked to take them: a hint.
    pub(super) has_asked: AtomicBool,
}

impl Splits {
    pub fn new() -> Self {
        Self {
            base: Instant::now(),
            last: AtomicU64::new(0),
            last_by: AtomicUsize::new(0),
            is_pressed: AtomicBool::new(false),
            has_asked: AtomicBool::new(false),
        }
    }

    /// The time in nanoseconds since the runtime was made.
    pub fn now(&self) -> u64 {
        self.base.elapsed().as_nanos() as u64
    }

    /// Whether a worker looked recently: a hint.
    pub fn are_passed(&self) -> bool {
        // Relaxed: a hint.
        let last = self.last.load(Relaxed);
        last != 0 && self.now().saturating_sub(last) < RECENT_NANOS
    }

    /// Whether a worker other than `index` looked recently, as the last of all: a hint. (Beginning a
    /// computation is a look, too.)
    pub fn are_passed_by_others_than(&self, index: usize) -> bool {
        // Relaxed: a hint.
        self.are_passed() && self.last_by.load(Relaxed) != index
    }

    /// Whether worker `index` is the first to look since the last interval ended.
    pub(super) fn claim(&self, index: usize, now: u64) -> bool {
        let last = self.last.load(Relaxed);
        // Relaxed: this hands nothing over.
        let is_first = now.saturating_sub(last) >= INTERVAL_NANOS
            && self.last.compare_exchange(last, now, Relaxed, Relaxed).is_ok();
        if is_first {
            self.last_by.store(index, Relaxed);
        }
        is_first
    }
}

/// A job processor's countdown to its next look at the clock. Only the owner touches it. Its times are those
/// of [`Splits::now`].
#[derive(Debug)]
pub struct PollInterval {
    pub(super) left: Cell<u32>,
    pub(super) length: Cell<u32>,
    pub(super) began: Cell<u64>,
    /// When other threads last had this thread's CPU.
    pub(super) yielded: Cell<u64>,
    /// The time from which the job processor may yield its CPU again.
    pub(super) yields_cpu_from: Cell<u64>,
    /// The time from which the job processor may yield to tasks again.
    pub(super) yields_to_tasks_from: Cell<u64>,
}

impl PollInterval {
    pub fn new() -> Self {
        Self {
            left: Cell::new(1),
            length: Cell::new(1),
            began: Cell::new(0),
            yielded: Cell::new(0),
            yields_cpu_from: Cell::new(0),
            yields_to_tasks_from: Cell::new(0),
        }
    }

    /// Passes a split point. Returns true at the end of a poll interval.
    #[inline(always)]
    pub fn pass(&self) -> bool {
        let left = self.left.get() - 1;
        self.left.set(left);
        left == 0
    }

    /// Other work begins, so its first split ends the poll interval.
    pub fn restart(&self) {
        if self.length.get() != u32::MAX {
            self.left.set(1);
            self.length.set(1);
        }
    }

    /// Passes `splits` split points at once. Returns true at the end of a poll interval.
    pub fn pass_many(&self, splits: u32) -> bool {
        let left = self.left.get().saturating_sub(splits);
        self.left.set(left);
        left == 0
    }

    /// How many splits are left of this poll interval, at least one.
    pub fn left(&self) -> u32 {
        self.left.get()
    }

    /// Begins the next poll interval at `now`.
    pub(super) fn adapt(&self, now: u64) {
        let taken = now.saturating_sub(self.began.replace(now));
        let length = self.length.get();
        let next = if taken < POLL_INTERVAL_NANOS / 2 {
            (2 * length).min(LONGEST_POLL_INTERVAL)
        } else if taken > 2 * POLL_INTERVAL_NANOS {
            (u64::from(length) * POLL_INTERVAL_NANOS / taken).max(1) as u32
        } else {
            length
        };
        self.length.set(next);
        self.left.set(next);
    }

    /// There will be nothing more to look for.
    pub(super) fn end(&self) {
        self.length.set(u32::MAX);
        self.left.set(u32::MAX);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
