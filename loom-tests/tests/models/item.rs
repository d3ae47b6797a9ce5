//! The items that the models push through the queues.

use std::ptr::NonNull;

use runtime::internals::queue::{Linked, Next};

use super::plain::Plain;

/// An item whose value is plain memory. Its pusher writes it and its taker overwrites it. So loom finds a
/// queue that does not order the two, or has two takers.
pub struct Item {
    value: Plain<Option<usize>>,
    next: Next<Item>,
}

// SAFETY: (1) the link is a field of the item, always the same one. (2) It lives as long as the item. (3) No
// code here touches it.
unsafe impl Linked for Item {
    unsafe fn next(item: NonNull<Self>) -> NonNull<Next<Self>> {
        // SAFETY: the caller guarantees that `item` is live.
        unsafe { NonNull::new_unchecked(&raw mut (*item.as_ptr()).next) }
    }
}

/// The items of one run of a model. They live as long as this.
pub struct Items(Vec<NonNull<Item>>);

// SAFETY: the models find out whether the accesses of different threads to an item are ordered.
unsafe impl Send for Items {}
// SAFETY: as above.
unsafe impl Sync for Items {}

impl Items {
    pub fn new(count: usize) -> Self {
        let item = || Box::new(Item { value: Plain::new("an item", None), next: Next::new() });
        Self((0..count).map(|_| NonNull::from(Box::leak(item()))).collect())
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The item `value`, for comparisons.
    pub fn at(&self, value: usize) -> NonNull<Item> {
        self.0[value]
    }

    /// Prepares the item `value` for its one push.
    pub fn make(&self, value: usize) -> NonNull<Item> {
        let item = self.0[value];
        // SAFETY: items live as long as `self`. The cell checks that no other thread accesses the item.
        unsafe { item.as_ref().value.with_mut(|slot| *slot = Some(value)) };
        item
    }

    /// Takes the value of an item that left a queue.
    pub fn take(&self, item: NonNull<Item>) -> usize {
        // SAFETY: as in `make`.
        let value = unsafe { item.as_ref().value.with_mut(|slot| (*slot).take()) };
        let number = || self.0.iter().position(|other| *other == item).expect("one of the items");
        value.unwrap_or_else(|| panic!("item {} was taken twice, or before it was pushed", number()))
    }

    /// Panics unless every item was taken.
    pub fn assert_all(&self, taken: Vec<usize>) {
        for item in 0..self.0.len() {
            assert!(taken.contains(&item), "item {item} was lost");
        }
        assert_eq!(taken.len(), self.0.len(), "an item was taken twice");
    }
}

impl Drop for Items {
    fn drop(&mut self) {
        for item in self.0.drain(..) {
            // SAFETY: leaked in `new`, and freed only here, after all threads are done with the items.
            drop(unsafe { Box::from_raw(item.as_ptr()) });
        }
    }
}
