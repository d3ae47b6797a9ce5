//! A small fast random number generator, for choices that need no quality: where a steal begins, which branch
//! of a `select!` is polled first.

use std::cell::Cell;

use crate::loom::{random_seed, thread_cell};

/// Marsaglia's xorshift64.
#[derive(Debug, Clone)]
pub struct FastRand(u64);

impl FastRand {
    /// A generator with a seed of its own.
    pub fn new() -> Self {
        Self::from_seed(random_seed())
    }

    pub fn from_seed(seed: u64) -> Self {
        // Zero is xorshift's only fixed point.
        Self(seed | 1)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number in `0..n`, by Lemire's multiplication. `n` must not be zero.
    pub fn below(&mut self, n: u32) -> u32 {
        (((self.next_u64() >> 32) * u64::from(n)) >> 32) as u32
    }
}

thread_cell! {
    static SEED: Cell<u64> = Cell::new(0);
}

/// Puts the calling thread's generator back on drop.
#[derive(Debug)]
pub struct Seeded(u64);

/// Makes the calling thread's generator begin with `seed`, until the result is dropped.
#[must_use]
pub fn seed_thread(seed: u64) -> Seeded {
    SEED.with(|current| Seeded(current.replace(seed | 1)))
}

impl Drop for Seeded {
    fn drop(&mut self) {
        SEED.with(|current| current.set(self.0));
    }
}

/// A number in `0..n` from the calling thread's generator. `n` must not be zero.
pub fn thread_below(n: u32) -> u32 {
    SEED.with(|seed| {
        let mut rand = match seed.get() {
            0 => FastRand::new(),
            state => FastRand(state),
        };
        let number = rand.below(n);
        seed.set(rand.0);
        number
    })
}
