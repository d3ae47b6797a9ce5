//! How often a thread wakes for timers alone: some three and a half thousand times a second, if it goes on
//! for long.
//!
//! A wake costs more than a dozen timers, and timers that are due one shortly after the other can share one:
//! late by [`INTERVAL`] at most. That is as many wakes as Tokio's milliseconds cost, where two threads wake
//! for most of them. Timers that are due now and then should not be late for that. So each wake for timers
//! pays for [`INTERVAL`], and a thread that has not woken for some time has as much of that time to spend as
//! [`SAVINGS`] allow:
//! ```text
//!   timers      |    |    |    |          |||||||||||||||||||||||||||||||||||||
//!   wakes       ^    ^    ^    ^          ^^^^^^^^    ^      ^      ^      ^
//!                   on time               savings       once an interval
//! ```
//! A wake for a descriptor costs nothing here, and fires what is due as well.
//!
//! Prior art: the leaky bucket of ATM networks (the "generic cell rate algorithm"); the kernel's timer slack.

use crate::loom::sync::atomic::AtomicU64;
use crate::loom::sync::atomic::Ordering::Relaxed;

use super::time::Deadline;

/// What a wake for timers pays for, in nanoseconds.
const INTERVAL: u64 = 270_000;
/// How much time unspent counts, in nanoseconds.
const SAVINGS: u64 = 16 * INTERVAL;

/// The wakes for timers of the thread that sits in the driver.
#[derive(Debug)]
pub struct Pace {
    /// Time is paid for until then. Read and written by the thread that sits in the driver.
    paid_until: AtomicU64,
}

impl Pace {
    pub fn new() -> Self {
        Self { paid_until: AtomicU64::new(0) }
    }

    /// When to wake for a timer that is due at `deadline`.
    pub fn wake_at(&self, deadline: Deadline) -> Deadline {
        // Relaxed: the sitter's.
        deadline.max(self.paid_until.load(Relaxed))
    }

    /// A sleep ended at `time` for timers alone.
    pub fn woke(&self, time: Deadline) {
        let paid_until = self.paid_until.load(Relaxed).max(time.saturating_sub(SAVINGS));
        self.paid_until.store(paid_until.saturating_add(INTERVAL), Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Wakes for timers that are due every `gap`; gives the latest, and how many wakes there were in each
    /// interval.
    fn run(gap: u64, timers: u64) -> (u64, f64) {
        let pace = Pace::new();
        let (mut latest, mut wakes, mut next) = (0, 0, 1);
        while next <= timers {
            let deadline = 100 * INTERVAL + next * gap;
            let time = pace.wake_at(deadline);
            pace.woke(time);
            wakes += 1;
            latest = latest.max(time - deadline);
            next += 1 + (time - deadline) / gap;
        }
        (latest, wakes as f64 * INTERVAL as f64 / (timers * gap) as f64)
    }

    #[test]
    fn timers_now_and_then_are_on_time() {
        for gap in [INTERVAL, INTERVAL + 1, 5 * INTERVAL, 1_000 * INTERVAL] {
            assert_eq!(run(gap, 10_000).0, 0, "every {gap} ns");
        }
    }

    #[test]
    fn a_burst_is_on_time() {
        assert_eq!(run(INTERVAL / 4, 16).0, 0);
    }

    #[test]
    fn many_timers_share_a_wake_an_interval_and_none_is_late_by_more() {
        for gap in [INTERVAL / 2, INTERVAL / 3, INTERVAL / 1_000, 5] {
            let timers = 1_000 * INTERVAL / gap;
            let (latest, wakes) = run(gap, timers);
            assert!(latest <= INTERVAL, "{latest} ns late");
            assert!(wakes < 1.05, "{wakes} wakes an interval");
        }
    }

    #[test]
    fn the_end_of_time_is_bearable() {
        let pace = Pace::new();
        pace.woke(Deadline::MAX - 1);
        pace.woke(Deadline::MAX);
        assert!(pace.wake_at(0) > 0);
    }
}
