//! The number of a channel's senders: strong ones, which keep the channel open, and weak ones.

use crate::loom::sync::atomic::AtomicUsize;
use crate::loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

/// The counts of one channel. Each handle also owns an `Arc` of the channel, which aborts before a count can
/// overflow.
pub(super) struct Counts {
    strong: AtomicUsize,
    weak: AtomicUsize,
}

impl Counts {
    /// The counts of a channel with one strong sender.
    pub(super) fn new() -> Self {
        Self { strong: AtomicUsize::new(1), weak: AtomicUsize::new(0) }
    }

    pub(super) fn strong(&self) -> usize {
        self.strong.load(Acquire)
    }

    pub(super) fn weak(&self) -> usize {
        self.weak.load(Acquire)
    }

    /// Adds a strong sender. The caller is a strong sender.
    pub(super) fn add(&self) {
        // Relaxed: the caller is counted, so the count is not zero meanwhile.
        self.strong.fetch_add(1, Relaxed);
    }

    /// Adds a strong sender if there is one, and returns whether it did.
    pub(super) fn try_add(&self) -> bool {
        let mut count = self.strong.load(Relaxed);
        while count != 0 {
            // Acquire: pairs with the AcqRel of the handles that left, as a clone of such a handle would.
            match self.strong.compare_exchange_weak(count, count + 1, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(actual) => count = actual,
            }
        }
        false
    }

    /// Removes a strong sender. Returns true for the last one, which must end the channel.
    pub(super) fn remove(&self) -> bool {
        // AcqRel: what every sender did comes before the end.
        self.strong.fetch_sub(1, AcqRel) == 1
    }

    pub(super) fn add_weak(&self) {
        // Relaxed: only a number.
        self.weak.fetch_add(1, Relaxed);
    }

    pub(super) fn remove_weak(&self) {
        self.weak.fetch_sub(1, Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_last_to_leave_learns_it_and_no_handle_comes_after_it() {
        let counts = Counts::new();
        assert_eq!((counts.strong(), counts.weak()), (1, 0));
        counts.add();
        assert!(counts.try_add());
        assert_eq!(counts.strong(), 3);
        assert!(!counts.remove() && !counts.remove());
        assert!(counts.try_add() && !counts.remove());
        assert!(counts.remove());
        assert!(!counts.try_add());
        assert_eq!(counts.strong(), 0);
    }

    #[test]
    fn weak_handles_are_counted_apart() {
        let counts = Counts::new();
        (0..3).for_each(|_| counts.add_weak());
        counts.remove_weak();
        assert_eq!((counts.strong(), counts.weak()), (1, 2));
    }
}
