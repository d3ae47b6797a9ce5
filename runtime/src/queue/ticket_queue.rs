//! An unbounded FIFO for jobs. Its takers know that there is an item for each of them, and so need not ask.
//!
//! One thread pushes. For each item it hands out a *ticket*, by other means, to one thread. The holder of a
//! ticket takes the oldest item, once. (For a FIFO scope, the deques hold the tickets; see `job/heap.rs`.) So
//! a take is one read-modify-write that cannot fail. A queue that may be empty would need a lock or a loop.
//!
//! # States
//! ```text
//!   claimed    how many takes have begun: the number of the next item to be taken
//!   pushed     the number of the next item. The pusher's alone
//!   rings      newest ──▶ older ──▶ … each of a power of two of slots, and holds the items from its `first`
//!              on, item i in slot i modulo its size, up to the `first` of the newer one
//!   slot       an item, or null: free
//! ```
//! # Steps
//! ```text
//!   push   FindSlot     the newest ring's slot for item `pushed` is free? Else a larger ring begins with
//!                       this item
//!          PutItem      put the item into its slot; pushed += 1
//!          HandTicket   hand out the ticket
//!   take   ClaimNumber  i = claimed, claimed += 1 (RMW)
//!          FindRing     from the newest ring on, the first with `first` <= i
//!          TakeItem     take item i out of its slot, which is free then
//! ```
//! # Ordering
//! - *The item is there.* The thread that claims i is the (i + 1)th to do `ClaimNumber`, and each of these
//!   i + 1 threads had a ticket of its own. So one of these tickets is that of item i or of a later item. Its
//!   `HandTicket`, behind `PutItem` of i, comes before that thread's `ClaimNumber`, because a ticket is
//!   handed over by Release and Acquire. `ClaimNumber` is AcqRel, a chain of read-modify-writes. So `PutItem`
//!   of i is visible from that thread's `ClaimNumber` on. The `ClaimNumber` that claims i is that
//!   `ClaimNumber` or a later one. The ring that holds i is visible, too, because `FindSlot` comes before
//!   `PutItem`.
//! - *A slot is reused only after it was read.* `TakeItem` reads the item before it makes the slot null, and
//!   `FindSlot` sees null before `PutItem` writes the next item. So `TakeItem` cannot read that next item, by
//!   the order of the slot's values alone.
//! - *The ring is there.* A ring is freed only with the queue. If there are several rings, they have in sum
//!   less than six times as many slots as items have waited at once, unless a taker stops between
//!   `ClaimNumber` and `TakeItem` for a whole lap.
//!
//! # Rejected
//! - A deque behind a lock: two threads that run short jobs spent four fifths of their time in it, asleep or
//!   not.
//! - Blocks in a linked list, as in crossbeam's `SegQueue`: a taker has to find the block in the same step in
//!   which it claims the item.

use std::cell::Cell;
use std::fmt;
use std::ptr::null_mut;

use crate::loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::loom::sync::atomic::{AtomicPtr, AtomicU64};
use crate::loom::{TICKET_QUEUE_CAPACITY, null_pointers};
use crate::util::pad::CachePadded;

/// The factor by which the next ring is larger.
const GROWTH: usize = 4;

/// See the module's docs.
pub struct TicketQueue<T> {
    claimed: CachePadded<AtomicU64>,
    /// The pusher's alone.
    pushed: CachePadded<Cell<u64>>,
    /// Null before the first push. Written by the pusher.
    newest: AtomicPtr<Ring<T>>,
}

struct Ring<T> {
    first: u64,
    older: *mut Ring<T>,
    slots: Box<[AtomicPtr<T>]>,
}

// SAFETY: items are pointers that the queue does not follow. The cell is the pusher's, by duty 1 of `push`.
unsafe impl<T> Send for TicketQueue<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for TicketQueue<T> {}

impl<T> TicketQueue<T> {
    pub fn new() -> Self {
        Self {
            claimed: CachePadded::new(AtomicU64::new(0)),
            pushed: CachePadded::new(Cell::new(0)),
            newest: AtomicPtr::new(null_mut()),
        }
    }

    /// `FindSlot`, `PutItem`: pushes `item`.
    ///
    /// # Safety
    /// 1. No other thread pushes: calls are ordered. 2. The caller hands out one ticket for the item, after
    ///    this call. 3. The item is not null.
    #[inline]
    pub unsafe fn push(&self, item: *mut T) {
        let number = self.pushed.get();
        self.pushed.set(number + 1);
        // Relaxed: the pusher's own.
        // SAFETY: a ring lives as long as the queue.
        let newest = unsafe { self.newest.load(Relaxed).as_ref() };
        // Acquire, though Relaxed would do as at `TakeItem`: the order of the slot's own values is enough.
        let slot = newest.map(|ring| ring.slot(number)).filter(|slot| slot.load(Acquire).is_null());
        let slot = slot.unwrap_or_else(|| self.grow(number).slot(number));
        // Relaxed: `HandTicket` publishes it.
        slot.store(item, Relaxed);
    }

    /// Makes a larger ring, for the items from `first` on. For the pusher.
    #[cold]
    #[inline(never)]
    fn grow(&self, first: u64) -> &Ring<T> {
        let older = self.newest.load(Relaxed);
        // SAFETY: a ring lives as long as the queue.
        let size =
            unsafe { older.as_ref() }.map_or(TICKET_QUEUE_CAPACITY, |older| GROWTH * older.slots.len());
        let ring = Box::into_raw(Box::new(Ring { first, older, slots: null_pointers(size) }));
        // Release: publishes the ring's contents.
        self.newest.store(ring, Release);
        // SAFETY: just made.
        unsafe { &*ring }
    }

    /// `ClaimNumber` to `TakeItem`: takes the oldest item.
    ///
    /// # Safety
    /// 1. The caller has a ticket, and uses it for this call alone.
    #[inline]
    pub unsafe fn take(&self) -> *mut T {
        let number = self.claimed.fetch_add(1, AcqRel);
        // Acquire: pairs with the store of the ring in `grow`.
        let mut ring = self.newest.load(Acquire);
        loop {
            // SAFETY: by (1) the item was pushed, so there is a ring that holds it; see the module's docs.
            let here = unsafe { &*ring };
            if here.first <= number {
                let slot = here.slot(number);
                // Relaxed: `ClaimNumber` has acquired the item, and `FindSlot` passes nothing on.
                let item = slot.load(Relaxed);
                slot.store(null_mut(), Relaxed);
                return item;
            }
            ring = here.older;
        }
    }
}

impl<T> Ring<T> {
    #[inline(always)]
    fn slot(&self, number: u64) -> &AtomicPtr<T> {
        &self.slots[number as usize & (self.slots.len() - 1)]
    }
}

impl<T> Drop for TicketQueue<T> {
    fn drop(&mut self) {
        // Relaxed: no other thread is left.
        let mut ring = self.newest.load(Relaxed);
        while !ring.is_null() {
            // SAFETY: made by `grow`, and freed once.
            ring = unsafe { Box::from_raw(ring) }.older;
        }
    }
}

impl<T> fmt::Debug for TicketQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketQueue").field("claimed", &self.claimed.load(Relaxed)).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::ptr::NonNull;
    use std::sync::atomic::{AtomicBool, AtomicUsize};
    use std::thread;

    use super::*;
    use crate::queue::intrusive_list::tests::Items;
    use crate::util::joined::joined_scope;

    #[test]
    fn a_queue_gives_the_oldest_and_grows_around_what_waits() {
        let (queue, mut values) = (TicketQueue::new(), (0..u32::MAX).map(|value| value as usize + 1));
        let mut next = 1;
        for waiting in [1, TICKET_QUEUE_CAPACITY, TICKET_QUEUE_CAPACITY + 1, 20 * TICKET_QUEUE_CAPACITY] {
            for _ in 0..3 {
                let items = values.by_ref().take(waiting);
                // SAFETY: one thread; the items are numbers.
                items.for_each(|value| unsafe { queue.push(std::ptr::without_provenance_mut::<u64>(value)) });
                for _ in 0..waiting {
                    // SAFETY: there are as many tickets as items.
                    assert_eq!(unsafe { queue.take() }.addr(), next);
                    next += 1;
                }
            }
        }
    }

    #[test]
    fn each_ring_is_four_times_as_large_as_the_one_before() {
        let queue = TicketQueue::new();
        for value in 1..=20 * TICKET_QUEUE_CAPACITY {
            // SAFETY: one thread; no ticket is used; the items are numbers.
            unsafe { queue.push(std::ptr::without_provenance_mut::<u64>(value)) };
        }
        // SAFETY: rings live as long as the queue.
        let older = |ring: &&Ring<u64>| unsafe { ring.older.as_ref() };
        // SAFETY: as above.
        let rings = std::iter::successors(unsafe { queue.newest.load(Relaxed).as_ref() }, older);
        let (firsts, sizes): (Vec<_>, Vec<_>) = rings.map(|ring| (ring.first, ring.slots.len())).unzip();
        assert_eq!(sizes, [16, 4, 1].map(|size| size * TICKET_QUEUE_CAPACITY));
        assert_eq!(firsts, [5, 1, 0].map(|first| first * TICKET_QUEUE_CAPACITY as u64));
    }

    #[test]
    fn what_comes_and_goes_needs_no_more_room() {
        let queue = TicketQueue::new();
        for value in 1..100 * TICKET_QUEUE_CAPACITY {
            // SAFETY: one thread, and one ticket each; the items are numbers.
            unsafe {
                queue.push(std::ptr::without_provenance_mut::<u64>(value));
                queue.take();
            }
        }
        // SAFETY: there is a ring.
        let newest = unsafe { &*queue.newest.load(Relaxed) };
        assert!(newest.older.is_null() && newest.slots.len() == TICKET_QUEUE_CAPACITY);
    }

    #[test]
    fn each_item_is_taken_once_by_threads_with_a_ticket_under_stress() {
        const ITEMS: usize = 30_000;
        let (items, queue, tickets) = (Items::new(ITEMS), TicketQueue::new(), AtomicUsize::new(0));
        let is_over = AtomicBool::new(false);
        joined_scope(|scope| {
            let takers = [(); 3].map(|()| {
                scope.spawn(|| {
                    let mut next = 0;
                    // The flag is read first, so that all pushes before it are visible.
                    loop {
                        let is_over = is_over.load(Acquire);
                        if tickets.fetch_update(Acquire, Relaxed, |left| left.checked_sub(1)).is_ok() {
                            // SAFETY: with a ticket; items are not null.
                            let value = items.take(unsafe { NonNull::new_unchecked(queue.take()) });
                            assert!(value >= next, "{value} came behind {next}");
                            next = value + 1;
                        } else if is_over {
                            break;
                        } else {
                            thread::yield_now();
                        }
                    }
                })
            });
            for value in 0..ITEMS {
                // SAFETY: this thread alone pushes.
                unsafe { queue.push(items.at(value).as_ptr()) };
                tickets.fetch_add(1, Release);
            }
            is_over.store(true, Release);
            takers.into_iter().for_each(|taker| taker.join().unwrap());
        });
        items.assert_all_taken();
    }
}
