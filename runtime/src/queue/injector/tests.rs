use std::thread;

use super::*;
use crate::loom::sync::atomic::Ordering::{Acquire, Release};
use crate::queue::Local;
use crate::queue::intrusive_list::tests::{Item, Items};
use crate::util::joined::joined_scope;

fn injector_with(items: &Items, count: usize) -> Injector<Item> {
    let injector = Injector::new();
    for value in 0..count {
        // SAFETY: `items` outlives the injector, and each item is pushed once.
        unsafe { injector.push(items.at(value)) };
    }
    injector
}

#[test]
fn items_leave_in_the_order_of_their_pushes() {
    let items = Items::new(10);
    let injector = injector_with(&items, 4);
    let mut batch = IntrusiveList::new();
    for value in 4..10 {
        // SAFETY: `items` outlives the chain, and each item is pushed once.
        unsafe { batch.push_back(items.at(value)) };
    }
    injector.push_batch(batch);
    injector.push_batch(IntrusiveList::new());
    for value in 0..10 {
        assert_eq!(injector.len(), 10 - value);
        assert_eq!(injector.pop().map(|item| items.take(item)), Some(value));
    }
    assert!(injector.is_empty() && injector.pop().is_none());
    items.assert_all_taken();
}

#[test]
fn a_batch_is_all_that_waits_if_that_is_little() {
    let items = Items::new(12);
    let injector = injector_with(&items, 12);
    let local = Local::new();
    // SAFETY: this thread owns `local`.
    let (first, count) = unsafe { injector.pop_batch_into(&local) }.expect("twelve wait");
    assert_eq!((items.take(first), count), (0, 12));
    assert_eq!((local.len(), injector.len()), (11, 0));
    for value in 1..12 {
        // SAFETY: as above.
        assert_eq!(unsafe { local.pop() }.map(|item| items.take(item)), Some(value));
    }
}

#[test]
fn a_batch_is_at_most_half_a_ring() {
    let items = Items::new(3 * RING_CAPACITY);
    let injector = injector_with(&items, 3 * RING_CAPACITY);
    let local = Local::new();
    // SAFETY: this thread owns `local`.
    let (_, count) = unsafe { injector.pop_batch_into(&local) }.expect("three rings full wait");
    assert_eq!((count, local.len()), (RING_CAPACITY / 2, RING_CAPACITY / 2 - 1));
}

#[test]
fn a_batch_is_no_more_than_fits() {
    for free in [0, 1, 3] {
        let items = Items::new(RING_CAPACITY + 20);
        let injector = injector_with(&items, 20);
        let local = Local::new();
        for value in 20 + free..20 + RING_CAPACITY {
            // SAFETY: this thread owns `local`; `items` outlives it, and each item is pushed once.
            assert_eq!(unsafe { local.push_back(items.at(value), &injector) }, 0);
        }
        // SAFETY: as above.
        let (first, count) = unsafe { injector.pop_batch_into(&local) }.expect("twenty wait");
        assert_eq!((items.take(first), count), (0, 1 + free));
        assert_eq!((local.len(), injector.len()), (RING_CAPACITY, 19 - free));
        // The items that did not fit are still the oldest.
        assert_eq!(injector.pop().map(|item| items.take(item)), Some(1 + free));
    }
}

#[test]
fn an_empty_injector_gives_no_batch() {
    let injector = Injector::<Item>::new();
    // SAFETY: this thread owns the ring.
    assert!(unsafe { injector.pop_batch_into(&Local::new()) }.is_none());
}

/// Many producers push. Consumers take batches until every producer has ended and nothing is left.
#[test]
fn each_item_reaches_one_of_many_consumers() {
    const PRODUCERS: usize = 3;
    const EACH: usize = 4_000;
    let items = Items::new(PRODUCERS * EACH);
    let injector = Injector::new();
    let ended = AtomicUsize::new(0);
    joined_scope(|scope| {
        let mut threads = Vec::new();
        for producer in 0..PRODUCERS {
            let (items, injector, ended) = (&items, &injector, &ended);
            threads.push(scope.spawn(move || {
                for value in producer * EACH..(producer + 1) * EACH {
                    // SAFETY: `items` outlives the injector, and each item is pushed once.
                    unsafe { injector.push(items.at(value)) };
                }
                ended.fetch_add(1, Release);
            }));
        }
        for _ in 0..2 {
            threads.push(scope.spawn(|| {
                let local = Local::new();
                loop {
                    // Read before the injector, so that an empty injector is empty for good.
                    let is_last_look = ended.load(Acquire) == PRODUCERS;
                    // SAFETY: this thread owns `local`.
                    match unsafe { injector.pop_batch_into(&local) } {
                        Some((first, _)) => _ = items.take(first),
                        None if is_last_look => break,
                        None => thread::yield_now(),
                    }
                    // SAFETY: as above.
                    while let Some(item) = unsafe { local.pop() } {
                        items.take(item);
                    }
                }
            }));
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    assert_eq!(injector.len(), 0);
    items.assert_all_taken();
}

#[test]
fn newborn_items_are_counted_if_asked_for_until_the_queue_is_closed() {
    let items = Items::new(4);
    let injector = injector_with(&items, 1);
    // SAFETY: `items` outlives the injector, and each item is pushed once; the last is refused.
    let push = |value, is_counted| unsafe { injector.push_unless_closed(items.at(value), is_counted) };
    assert_eq!(injector.newborns(), 0);
    assert!(push(1, true) && push(2, false));
    assert_eq!((injector.newborns(), injector.close()), (1, 1));
    assert!(!push(3, true));
    assert_eq!((injector.newborns(), injector.len()), (1, 3));
    while injector.pop().map(|item| items.take(item)).is_some() {}
}

#[test]
fn the_memory_for_the_blocks_of_a_peak_is_freed_when_the_last_one_is_taken() {
    for (capacity, is_kept) in [(MOST_KEPT, true), (MOST_KEPT + 1, false)] {
        let items = Items::new(BLOCK + 1);
        let injector = Injector::new();
        injector.inner.blocks.lock().queue = VecDeque::with_capacity(capacity);
        let kept = || injector.inner.blocks.lock().queue.capacity();
        assert_eq!(kept(), capacity);
        for value in 0..BLOCK + 1 {
            // SAFETY: `items` outlives the injector, and each item is pushed once.
            unsafe { injector.push(items.at(value)) };
        }
        for value in 0..BLOCK + 1 {
            assert_eq!(kept(), capacity);
            assert_eq!(injector.pop().map(|item| items.take(item)), Some(value));
        }
        assert_eq!(kept(), if is_kept { capacity } else { 0 });
    }
}
