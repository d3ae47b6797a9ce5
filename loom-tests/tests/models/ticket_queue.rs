//! The queue of a FIFO scope. A taker with a ticket finds an item. Each item is taken once, oldest first, and
//! its taker sees what its pusher wrote.
//!
//! Bounds: one pusher, three items, two takers; the pusher may be one of them. The first ring has space for
//! one item. So it is reused or followed by a larger ring, depending on when the takers come.

mod twin;

use loom::sync::Arc;
use runtime::internals::queue::TicketQueue;

use super::once_built::{model, thread};
use super::plain::Plain;
use twin::{Fault, Twin};

/// A queue as the models use it: the real one, or a twin.
pub trait Queue<T>: 'static {
    fn make() -> Self;

    /// # Safety
    /// 1. As `TicketQueue::push`.
    unsafe fn push(&self, item: *mut T);

    /// # Safety
    /// 1. As `TicketQueue::take`.
    unsafe fn take(&self) -> *mut T;
}

impl<T: 'static> Queue<T> for TicketQueue<T> {
    fn make() -> Self {
        Self::new()
    }

    unsafe fn push(&self, item: *mut T) {
        // SAFETY: the caller guarantees the same.
        unsafe { self.push(item) }
    }

    unsafe fn take(&self) -> *mut T {
        // SAFETY: the caller guarantees the same.
        unsafe { self.take() }
    }
}

/// An item: a number that was written just before its push.
type Item = Plain<usize>;

/// The taken items. None is freed, because a twin may give an item to two takers.
struct Shared<Q> {
    queue: Q,
    items: [Item; 3],
}

// SAFETY: the models find out whether the accesses are ordered.
unsafe impl<Q> Send for Shared<Q> {}
// SAFETY: as above.
unsafe impl<Q> Sync for Shared<Q> {}

impl<Q: Queue<Item>> Shared<Q> {
    fn new() -> Self {
        Self { queue: Q::make(), items: [(); 3].map(|()| Plain::new("an item", usize::MAX)) }
    }

    fn push(&self, number: usize) {
        let item = &self.items[number];
        // SAFETY: by the property under test no thread reads it yet, and the cell checks that.
        item.with_mut(|value| unsafe { *value = number });
        // SAFETY: (1) each model has one pusher. (2) Each model takes once for each push, after it. (3) A
        // reference is not null.
        unsafe { self.queue.push(std::ptr::from_ref(item).cast_mut()) }
    }

    /// Takes an item, once for each ticket. Returns `None` if no item is there. The models report that when
    /// all threads have ended, because a panic would not wait for the threads.
    fn take(&self) -> Option<usize> {
        // SAFETY: (1) the caller has a ticket, and takes once for it. The items live as long as `self`.
        let item = unsafe { self.queue.take().as_ref() };
        // SAFETY: by the property under test it was written before it was pushed, and the cell checks that.
        item.map(|item| item.with(|number| unsafe { *number }))
    }
}

/// Panics unless each ticket found an item, and each item was taken.
fn assert_each_once<const N: usize>(taken: [Option<usize>; N]) {
    let mut numbers = taken.map(|item| item.expect("a ticket found no item"));
    numbers.sort_unstable();
    assert_eq!(numbers, std::array::from_fn(|number| number), "an item was taken twice");
}

/// Two takers. The first knows only of the first item, and may get the second.
fn two_takers<Q: Queue<Item>>() {
    let queue = Arc::new(Shared::<Q>::new());
    let takers = [0, 1].map(|number| {
        queue.push(number);
        let queue = queue.clone();
        thread::spawn(move || queue.take())
    });
    assert_each_once(takers.map(|taker| taker.join().unwrap()));
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
    assert!(own[0] < own[1] || own.contains(&None), "the pusher takes the younger item first");
    assert_each_once([own[0], own[1], taker.join().unwrap()]);
}

#[test]
fn a_thread_with_a_ticket_gets_an_item_though_it_may_be_another() {
    model(two_takers::<TicketQueue<Item>>);
}

#[test]
fn items_are_taken_in_order_from_whichever_ring() {
    model(the_pusher_takes::<TicketQueue<Item>>);
}

#[test]
fn the_twin_without_a_fault_passes() {
    model(two_takers::<Twin<Item, { Fault::NONE }>>);
    model(the_pusher_takes::<Twin<Item, { Fault::NONE }>>);
}

#[test]
#[should_panic(expected = "an item was taken twice")]
fn relaxed_claims_take_an_item_twice() {
    model(two_takers::<Twin<Item, { Fault::CLAIMS_RELAXED }>>);
}

#[test]
#[should_panic(expected = "a ticket found no item")]
fn a_slot_that_is_used_again_before_it_was_read_loses_an_item() {
    model(two_takers::<Twin<Item, { Fault::OVERWRITES }>>);
}

#[test]
#[should_panic(expected = "a ticket found no item")]
fn a_ring_without_those_before_it_hides_what_waits() {
    model(the_pusher_takes::<Twin<Item, { Fault::FORGETS_OLDER }>>);
}
