//! The number of references to the shared state that threads outside of its workers hold; see `reference.rs`.

use crate::loom::sync::atomic::AtomicI64;
use crate::loom::sync::atomic::Ordering::AcqRel;

/// Stands for all references of the workers until the last worker has left.
const BIAS: i64 = 1 << 62;

/// A count that cannot reach zero before [`end_bias`](Self::end_bias).
#[derive(Debug)]
pub struct BiasedCount(AtomicI64);

impl BiasedCount {
    /// BIAS and one reference.
    pub fn new() -> Self {
        Self(AtomicI64::new(BIAS + 1))
    }

    pub fn add(&self, count: i64) {
        // AcqRel: a worker's own count may be negative, and then stands for the worker's uses of the state.
        self.0.fetch_add(count, AcqRel);
    }

    /// Takes one reference away. Returns whether it was the last.
    #[inline]
    pub fn release(&self) -> bool {
        self.subtract(1)
    }

    /// Takes BIAS away. Returns whether no reference is left.
    pub fn end_bias(&self) -> bool {
        self.subtract(BIAS)
    }

    #[inline]
    fn subtract(&self, count: i64) -> bool {
        // AcqRel: all uses of the state come before its end.
        self.0.fetch_sub(count, AcqRel) == count
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
