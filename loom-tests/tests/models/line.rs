//! The queue of a FIFO scope: a taker with a ticket finds an item, each item is taken once, oldest first, and
//! what its pusher wrote is seen.
//!
//! Bounds: one pusher, three items, two takers, of which the pusher may be one. The first ring has room for
//! one item, so that it is used again or followed by a larger one, depending on when the takers come.

mod twin;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use runtime::internals::queue::Line;

use twin::{Fault, Twin};

/// A queue as the models use it: the real one, or a twin.
pub trait Queue<T>: 'static {
    fn make() -> Self;

    /// # Safety
    /// 1. As `Line::push`.
    unsafe fn push(&self, item: *mut T);

    /// # Safety
    /// 1. As `Line::take`.
    unsafe fn take(&self) -> *mut T;
}

impl<T: 'static> Queue<T> for Line<T> {
    fn make() -> Self {
        Self::new()
    }

    unsafe fn push(&self, item: *mut T) {
        // SAFETY: (1).
        unsafe { self.push(item) }
    }

    unsafe fn take(&self) -> *mut T {
        // SAFETY: (1).
        unsafe { self.take() }
    }
}

/// What waits: a number that was written just before.
type Item = UnsafeCell<usize>;

/// A twin may give an item to two takers: so no taken item is freed.
struct Shared<Q> {
    queue: Q,
    items: [Item; 3],
}

// SAFETY: to find out whether the accesses are ordered is what the models are for.
unsafe impl<Q> Send for Shared<Q> {}
// SAFETY: as above.
unsafe impl<Q> Sync for Shared<Q> {}

impl<Q: Queue<Item>> Shared<Q> {
    fn new() -> Self {
        Self { queue: Q::make(), items: [(); 3].map(|()| UnsafeCell::new(usize::MAX)) }
    }

    fn push(&self, number: usize) {
        let item = &self.items[number];
        // SAFETY: by the property under test no thread reads it yet; the cell checks.
        item.with_mut(|value| unsafe { *value = number });
        // SAFETY: each model has one pusher, which hands out the ticket.
        unsafe { self.queue.push(std::ptr::from_ref(item).cast_mut()) }
    }

    /// Once for each ticket. None if nothing is there: the models tell when all threads have ended, which a
    /// panic would not wait for.
    fn take(&self) -> Option<usize> {
        // SAFETY: the caller has a ticket.
        let item = unsafe { self.queue.take().as_ref() };
        // SAFETY: written before it was pushed, by the property under test; the cell checks.
        item.map(|item| item.with(|number| unsafe { *number }))
    }
}

/// Two takers, the first of which knows of the first item only, and may get the second.
fn two_takers<Q: Queue<Item>>() {
    let queue = Arc::new(Shared::<Q>::new());
    let takers = [0, 1].map(|number| {
        queue.push(number);
        let queue = queue.clone();
        thread::spawn(move || queue.take())
    });
    let mut taken = takers.map(|taker| taker.join().unwrap());
    taken.sort();
    assert_eq!(taken, [Some(0), Some(1)]);
}

/// The pusher takes two of three items itself.
fn the_pusher_takes<Q: Queue<Item>>() {
    let queue = Arc::new(Shared::<Q>::new());
    queue.push(0);
    let taker = {
        let queue = queue.clone();
        thread::spawn(move || queue.take())
    };
    queue.push(1);
    queue.push(2);
    let own = [queue.take(), queue.take()];
    let mut taken = [own[0], own[1], taker.join().unwrap()];
    assert!(own[0] < own[1], "{own:?}");
    taken.sort();
    assert_eq!(taken, [Some(0), Some(1), Some(2)]);
}

#[test]
fn who_has_a_ticket_gets_an_item_though_it_may_be_another() {
    loom::model(two_takers::<Line<Item>>);
}

#[test]
fn items_are_taken_in_order_from_whichever_ring() {
    loom::model(the_pusher_takes::<Line<Item>>);
}

#[test]
fn the_twin_without_a_fault_passes() {
    loom::model(two_takers::<Twin<Item, { Fault::NONE }>>);
    loom::model(the_pusher_takes::<Twin<Item, { Fault::NONE }>>);
}

#[test]
#[should_panic]
fn claims_that_hand_nothing_on_find_no_item() {
    loom::model(two_takers::<Twin<Item, { Fault::CLAIMS_RELAXED }>>);
}

#[test]
#[should_panic]
fn a_slot_that_is_used_again_before_it_was_read_loses_an_item() {
    loom::model(two_takers::<Twin<Item, { Fault::OVERWRITES }>>);
}

#[test]
#[should_panic]
fn a_ring_without_those_before_it_hides_what_waits() {
    loom::model(the_pusher_takes::<Twin<Item, { Fault::FORGETS_OLDER }>>);
}
