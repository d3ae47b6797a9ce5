//! What the models push through the queues.

use std::ptr::NonNull;

use loom::cell::UnsafeCell;
use runtime::internals::queue::{Linked, Next};

/// An item whose value is plain memory: written by its pusher, overwritten by its taker, so that a queue that
/// does not order the two, or has two takers, is found out.
pub struct Item {
    value: UnsafeCell<Option<usize>>,
    next: Next<Item>,
}

// SAFETY: the link is a field of the item, and no code here touches it.
unsafe impl Linked for Item {
    unsafe fn next(item: NonNull<Self>) -> NonNull<Next<Self>> {
        // SAFETY: `item` is live, by the caller's word.
        unsafe { NonNull::new_unchecked(&raw mut (*item.as_ptr()).next) }
    }
}

/// The items of one run of a model; they live as long as this.
pub struct Items(Vec<NonNull<Item>>);

// SAFETY: to find out whether the accesses of different threads to an item are ordered is what the models are
// for.
unsafe impl Send for Items {}
// SAFETY: as above.
unsafe impl Sync for Items {}

impl Items {
    pub fn new(count: usize) -> Self {
        let item = || Box::new(Item { value: UnsafeCell::new(None), next: Next::new() });
        Self((0..count).map(|_| NonNull::from(Box::leak(item()))).collect())
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The item `value`, to compare with.
    pub fn at(&self, value: usize) -> NonNull<Item> {
        self.0[value]
    }

    /// Prepares the item `value` for its one push.
    pub fn make(&self, value: usize) -> NonNull<Item> {
        let item = self.0[value];
        // SAFETY: items live as long as `self`; the cell checks that no other thread is there.
        unsafe { item.as_ref().value.with_mut(|slot| *slot = Some(value)) };
        item
    }

    /// The value of an item that left a queue.
    pub fn take(&self, item: NonNull<Item>) -> usize {
        // SAFETY: as in `make`.
        let value = unsafe { item.as_ref().value.with_mut(|slot| (*slot).take()) };
        value.expect("an item has one taker, which sees its value")
    }

    /// Panics unless every item was taken.
    pub fn assert_all(&self, mut taken: Vec<usize>) {
        taken.sort_unstable();
        assert_eq!(taken, (0..self.0.len()).collect::<Vec<_>>(), "an item was lost");
    }
}

impl Drop for Items {
    fn drop(&mut self) {
        for item in self.0.drain(..) {
            // SAFETY: leaked in `new`, and freed only here, after every thread is done with the items.
            drop(unsafe { Box::from_raw(item.as_ptr()) });
        }
    }
}
