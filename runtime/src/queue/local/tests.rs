use std::sync::atomic::AtomicBool;
use std::thread;

use super::*;
use crate::queue::intrusive_list::tests::{Item, Items};
use crate::util::joined::joined_scope;
use crate::util::unwind::catch;

/// The start of a ring's indices: at zero, before `tail` wraps, and before the head's 55 bits do.
const STARTS: [u64; 3] = [0, (1 << 32) - 100, (1 << 55) - 100];

/// Pushes the items of `values`, and returns how many overflowed.
fn push(
    ring: &Local<Item>,
    injector: &Injector<Item>,
    items: &Items,
    values: impl Iterator<Item = usize>,
) -> usize {
    values
        .map(|value| {
            // SAFETY: each test calls this from the thread that owns the ring; its items outlive the rings
            // and are pushed while in no queue.
            unsafe {
                let overflowed = ring.push_back(items.at(value), injector);
                ring.validate();
                overflowed
            }
        })
        .sum()
}

fn pop(ring: &Local<Item>, items: &Items) -> Option<usize> {
    // SAFETY: as in `push`.
    unsafe {
        let item = ring.pop();
        ring.validate();
        item.map(|item| items.take(item))
    }
}

#[test]
fn a_ring_is_first_in_first_out_while_its_indices_wrap() {
    for start in STARTS {
        let items = Items::new(4 * RING_CAPACITY);
        let (ring, injector) = (Local::starting_at(start), Injector::new());
        for values in 0..4 {
            let values = values * RING_CAPACITY..(values + 1) * RING_CAPACITY;
            assert_eq!(push(&ring, &injector, &items, values.clone()), 0);
            assert_eq!(ring.len(), RING_CAPACITY);
            for value in values {
                assert_eq!(pop(&ring, &items), Some(value));
            }
            assert!(ring.is_empty() && pop(&ring, &items).is_none());
        }
        assert!(injector.is_empty());
        items.assert_all_taken();
    }
}

#[test]
fn a_full_ring_sends_its_younger_half_to_the_injector() {
    for start in STARTS {
        let items = Items::new(RING_CAPACITY + 1);
        let (ring, injector) = (Local::starting_at(start), Injector::new());
        assert_eq!(push(&ring, &injector, &items, 0..RING_CAPACITY + 1), RING_CAPACITY / 2 + 1);
        assert_eq!((ring.len(), injector.len()), (RING_CAPACITY / 2, RING_CAPACITY / 2 + 1));
        for value in 0..RING_CAPACITY / 2 {
            assert_eq!(pop(&ring, &items), Some(value));
        }
        for value in RING_CAPACITY / 2..RING_CAPACITY + 1 {
            assert_eq!(injector.pop().map(|item| items.take(item)), Some(value));
        }
        items.assert_all_taken();
    }
}

#[test]
fn a_thief_takes_half_rounded_up_and_the_oldest() {
    for start in STARTS {
        for waiting in [1, 2, 3, 7, RING_CAPACITY] {
            let items = Items::new(waiting);
            let (ring, into, injector) =
                (Local::starting_at(start), Local::starting_at(start), Injector::new());
            push(&ring, &injector, &items, 0..waiting);
            // SAFETY: this thread owns both rings.
            let (first, count) = unsafe { ring.steal_into(&into) }.expect("items wait");
            assert_eq!((items.take(first), count), (0, waiting.div_ceil(2)));
            assert_eq!((into.len(), ring.len()), (count - 1, waiting - count));
            for value in 1..waiting {
                let from = if value < count { &into } else { &ring };
                assert_eq!(pop(from, &items), Some(value));
            }
            items.assert_all_taken();
        }
    }
}

#[test]
fn a_thief_takes_no_more_than_fits() {
    let items = Items::new(2 * RING_CAPACITY);
    let (ring, into, injector) = (Local::new(), Local::new(), Injector::new());
    push(&ring, &injector, &items, 0..RING_CAPACITY);
    push(&into, &injector, &items, RING_CAPACITY..2 * RING_CAPACITY);
    // SAFETY: this thread owns both rings.
    let (first, count) = unsafe { ring.steal_into(&into) }.expect("items wait");
    assert_eq!((items.take(first), count, into.len()), (0, 1, RING_CAPACITY));
}

#[test]
fn there_is_nothing_to_steal_in_an_empty_ring() {
    let (ring, into) = (Local::<Item>::new(), Local::new());
    // SAFETY: this thread owns both rings.
    assert!(unsafe { ring.steal_into(&into) }.is_none());
}

/// Imitates a thief that fell asleep between its claim and the end of its copying.
#[test]
fn a_thief_asleep_inside_stops_neither_pops_nor_pushes() {
    for start in STARTS {
        let items = Items::new(2 * RING_CAPACITY);
        let (ring, into, injector) = (Local::starting_at(start), Local::new(), Injector::new());
        push(&ring, &injector, &items, 0..RING_CAPACITY);
        let claimed = RING_CAPACITY / 2;
        let head = Head(ring.head.load(Relaxed));
        ring.head.store(head.claimed_by_thief(claimed as u32).0, Relaxed);
        // The slots that it copies stay its own: a push goes to the injector although items were taken.
        assert_eq!(push(&ring, &injector, &items, RING_CAPACITY..RING_CAPACITY + 2), 2);
        assert_eq!(pop(&ring, &items), Some(claimed));
        assert_eq!(push(&ring, &injector, &items, RING_CAPACITY + 2..RING_CAPACITY + 3), 1);
        // SAFETY: this thread owns both rings.
        assert!(unsafe { ring.steal_into(&into) }.is_none(), "a second thief goes away");
        // SAFETY: as above.
        assert_eq!(unsafe { ring.free_slots() }, 0, "a batch keeps off those slots, too");
        for value in claimed + 1..RING_CAPACITY {
            assert_eq!(pop(&ring, &items), Some(value));
        }
        assert_eq!(pop(&ring, &items), None);
        // The thief wakes, finds its items where they were, and leaves.
        for value in 0..claimed {
            // SAFETY: claimed above, and not given back yet.
            assert_eq!(items.take(unsafe { ring.read(head.real().wrapping_add(value as u32)) }), value);
        }
        ring.head.fetch_and(!Head::CLAIMED, Release);
        assert_eq!(push(&ring, &injector, &items, RING_CAPACITY + 3..2 * RING_CAPACITY), 0);
        assert_eq!(pop(&ring, &items), Some(RING_CAPACITY + 3));
    }
}

#[test]
fn a_batch_takes_from_its_source_only_what_fits() {
    let items = Items::new(RING_CAPACITY + 5);
    let ring = Local::<Item>::new();
    let mut source = (0..RING_CAPACITY + 5).map(|value| items.at(value));
    // SAFETY: this thread owns the ring; the items outlive it.
    unsafe {
        assert_eq!(ring.push_batch(source.by_ref().take(3)), 3);
        assert_eq!(ring.free_slots(), RING_CAPACITY - 3);
        assert_eq!(ring.push_batch(&mut source), RING_CAPACITY - 3);
    }
    assert_eq!(source.next(), Some(items.at(RING_CAPACITY)));
}

#[test]
fn pushes_are_counted_and_pops_are_not() {
    for start in STARTS {
        let items = Items::new(5);
        let (ring, injector) = (Local::starting_at(start), Injector::new());
        let pushes = || ring.pushes().wrapping_sub(start as u32);
        assert_eq!((pushes(), ring.is_empty()), (0, true));
        push(&ring, &injector, &items, 0..3);
        assert_eq!((pushes(), ring.is_empty()), (3, false));
        // SAFETY: this thread owns the ring; the items outlive it.
        unsafe { ring.push_batch((3..5).map(|value| items.at(value))) };
        while pop(&ring, &items).is_some() {}
        assert_eq!((pushes(), ring.is_empty()), (5, true));
    }
}

#[test]
fn contradictory_indices_are_noticed() {
    for start in STARTS {
        let ring = Local::<Item>::starting_at(start);
        let is_valid = |waiting: u32, claimed: u64| {
            ring.head.store(Head::at(start).0 + claimed, Relaxed);
            ring.tail.store((start as u32).wrapping_add(waiting), Relaxed);
            // SAFETY: this thread owns the ring.
            catch(|| unsafe { ring.validate() }).is_ok()
        };
        assert!(is_valid(0, 0) && is_valid(CAPACITY, 0) && is_valid(0, u64::from(CAPACITY)));
        assert!(!is_valid(CAPACITY + 1, 0), "more wait than fit");
        assert!(!is_valid(u32::MAX, 0), "the head is beyond the tail");
        assert!(
            !is_valid(CAPACITY, 1) && !is_valid(1, u64::from(CAPACITY)),
            "the thief's do not fit besides"
        );
    }
}

/// Tells the thieves of a stress test to end, also when its owner panics.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// An owner that pushes in bursts longer than its ring and pops some items. Thieves steal from it and drain
/// what they got.
#[test]
fn each_item_is_taken_once_under_stress() {
    const ITEMS: usize = 60_000;
    const BURST: usize = RING_CAPACITY + RING_CAPACITY / 2;
    let items = Items::new(ITEMS);
    let (ring, injector) = (Local::starting_at((1 << 32) - 1_000), Injector::new());
    let done = AtomicBool::new(false);
    joined_scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let own = Local::new();
                while !done.load(Relaxed) {
                    // SAFETY: this thread owns `own`.
                    match unsafe { ring.steal_into(&own) } {
                        Some((first, _)) => _ = items.take(first),
                        None => thread::yield_now(),
                    }
                    while pop(&own, &items).is_some() {}
                }
            });
        }
        let _done = Done(&done);
        for burst in 0..ITEMS.div_ceil(BURST) {
            push(&ring, &injector, &items, burst * BURST..ITEMS.min((burst + 1) * BURST));
            for _ in 0..BURST / 3 {
                pop(&ring, &items);
            }
            while let Some(item) = injector.pop() {
                items.take(item);
            }
        }
        while pop(&ring, &items).is_some() {}
    });
    assert!(ring.is_empty() && injector.is_empty());
    items.assert_all_taken();
}
