//! How often the poller wakes for timers alone: about 3,700 times a second, if it goes on for long.
//!
//! A wake costs more than a dozen timers. Timers that are due shortly after one another can share a wake,
//! which is late by [`INTERVAL`] at most. Tokio's milliseconds cost as many wakes, because two threads wake
//! for most of them. But timers that are due now and then should not be late. So each wake for timers pays
//! with [`INTERVAL`] of time. A thread that has not woken for some time has saved that time, up to
//! [`SAVINGS`]:
//! ```text
//!   timers      |    |    |    |          |||||||||||||||||||||||||||||||||||||
//!   wakes       ^    ^    ^    ^          ^^^^^^^^    ^      ^      ^      ^
//!                   on time               savings       once an interval
//! ```
//! A wake for a descriptor pays nothing, and fires what is due as well.
//!
//! Prior art: the leaky bucket of ATM networks (the "generic cell rate algorithm"); the kernel's timer slack.

use crate::loom::sync::atomic::AtomicU64;
use crate::loom::sync::atomic::Ordering::Relaxed;

use super::time::Deadline;

/// The time with which a wake for timers pays, in nanoseconds.
const INTERVAL: u64 = 270_000;
/// The most time that can be saved, in nanoseconds.
const SAVINGS: u64 = 16 * INTERVAL;

/// The rate limiter for the poller's wakes for timers.
#[derive(Debug)]
pub struct RateLimiter {
    /// The time up to which wakes have paid. The poller alone reads and writes it.
    paid_until: AtomicU64,
}

impl RateLimiter {
    pub fn new() -> Self {
        Self { paid_until: AtomicU64::new(0) }
    }

    /// When to wake for a timer that is due at `deadline`.
    pub fn wake_at(&self, deadline: Deadline) -> Deadline {
        // Relaxed: the poller's alone.
        deadline.max(self.paid_until.load(Relaxed))
    }

    /// A sleep ended at `time`, for timers alone.
    pub fn woke(&self, time: Deadline) {
        let paid_until = self.paid_until.load(Relaxed).max(time.saturating_sub(SAVINGS));
        self.paid_until.store(paid_until.saturating_add(INTERVAL), Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Wakes for `timers` timers that are due every `gap` nanoseconds. Returns the most that a timer was
    /// late, and the wakes in each interval.
    fn run(gap: u64, timers: u64) -> (u64, f64) {
        let limiter = RateLimiter::new();
        let (mut latest, mut wakes, mut next) = (0, 0, 1);
        while next <= timers {
            let deadline = 100 * INTERVAL + next * gap;
            let time = limiter.wake_at(deadline);
            limiter.woke(time);
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
        let limiter = RateLimiter::new();
        limiter.woke(Deadline::MAX - 1);
        limiter.woke(Deadline::MAX);
        assert!(limiter.wake_at(0) > 0);
    }
}
