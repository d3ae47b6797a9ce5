//! Pauses between the rounds of a loop that waits until another thread has run a few instructions.

use crate::loom::{hint, thread};

/// Spins in the first rounds, then lets other threads have the CPU (the awaited thread may have lost its
/// own), and then sleeps.
pub(super) struct Backoff {
    rounds: u32,
}

impl Backoff {
    /// The number of rounds of spinning. Each lasts twice as long as the one before.
    const SPINS: u32 = 6;
    /// The number of rounds that let other threads have the CPU.
    const YIELDS: u32 = 64;
    /// The length of each later round, in microseconds.
    const NAP: u64 = 50;

    pub(super) fn new() -> Self {
        Self { rounds: 0 }
    }

    /// Pauses for one round.
    pub(super) fn snooze(&mut self) {
        match self.rounds {
            rounds @ 0..Self::SPINS => (0..1 << rounds).for_each(|_| hint::spin_loop()),
            rounds if rounds - Self::SPINS < Self::YIELDS => thread::yield_now(),
            _ => thread::nap(Self::NAP),
        }
        self.rounds = self.rounds.saturating_add(1);
    }

    /// Whether the spinning is over, and the rounds give up the CPU.
    pub(super) fn is_spent(&self) -> bool {
        self.rounds >= Self::SPINS
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn after_a_few_rounds_it_is_time_for_other_tasks_and_it_stays_so() {
        let mut backoff = Backoff::new();
        assert!(!backoff.is_spent(), "the other thread may be about to finish");
        backoff.snooze();
        assert!(!backoff.is_spent());
        (0..20).for_each(|_| backoff.snooze());
        assert!(backoff.is_spent());
        // Through all kinds of pauses.
        (0..60).for_each(|_| backoff.snooze());
        assert!(backoff.is_spent());
    }
}
