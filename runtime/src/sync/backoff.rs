//! Waiting for another thread's few instructions.

use crate::loom::{hint, thread};

/// Spins, then lets others have the CPU, should that thread have lost its, and then sleeps from look to look.
pub(super) struct Backoff {
    rounds: u32,
}

impl Backoff {
    /// Rounds of spinning, each twice as long as the one before.
    const SPINS: u32 = 6;
    /// Rounds of letting others have the CPU.
    const YIELDS: u32 = 64;
    /// How long a round lasts after that, in microseconds.
    const NAP: u64 = 50;

    pub(super) fn new() -> Self {
        Self { rounds: 0 }
    }

    pub(super) fn snooze(&mut self) {
        match self.rounds {
            rounds @ 0..Self::SPINS => (0..1 << rounds).for_each(|_| hint::spin_loop()),
            rounds if rounds - Self::SPINS < Self::YIELDS => thread::yield_now(),
            _ => thread::nap(Self::NAP),
        }
        self.rounds = self.rounds.saturating_add(1);
    }

    /// Whether it has come to yielding the CPU.
    pub(super) fn is_spent(&self) -> bool {
        self.rounds >= Self::SPINS
    }
}
