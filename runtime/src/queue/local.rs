//! A worker's run queue: a bounded FIFO ring. Its owner pushes and pops; other workers steal half of it at a
//! time.
//!
//! # States
//! Indices count all items since the ring was made. The slot of an index is the index modulo the capacity.
//! ```text
//!        free  │  being copied  │    waiting     │  free
//!     ─────────┼────────────────┼────────────────┼───────────────┼──▶ index
//!            steal ── claimed ─ real            tail      steal + CAPACITY
//!
//!   head   one word: `real`, the oldest item that is not taken, and `claimed`, how far `steal` is behind it.
//!          Every change of `real` is a read-modify-write of this word, and that is how an item gets its
//!          one taker.
//!   tail   where the owner pushes next. Only the owner writes it.
//! ```
//! `claimed` is zero unless a thief is inside: the thief has taken items and is still copying them out of
//! their slots. Meanwhile the owner pops at `real` as usual and leaves `steal` where it is. It does not push
//! beyond `steal + CAPACITY`. A second thief goes away.
//!
//! # Steps
//! ```text
//!   push      RingRead      load head (is there space?)
//!             RingWrite     write the slot
//!             RingPublish   store tail
//!   pop       RingPop       swing head: real + 1
//!             RingPopRead   read the slot
//!   overflow  RingOverflow  swing head: real + CAPACITY
//!             RingKeepHalf  store tail + CAPACITY/2
//!             RingGiveHalf  read the second half, hand it over
//!   thief     RingHead      load head
//!             RingTail      load tail
//!             RingClaim     swing head: real + n, claimed = n
//!             RingCopy      copy n slots
//!             RingUnclaim   claimed = 0
//! ```
//! *Overflow*: the ring is full and no thief is inside. The owner takes everything. It puts the older half
//! back by moving `tail`: one lap on, an index has the same slot as before. It gives the younger half, with
//! the item that did not fit, to the injector. A batch from the injector lands in the older half, so no item
//! goes back and forth. Between RingOverflow and RingKeepHalf the ring looks empty to thieves, and until
//! RingGiveHalf ends the younger half is in no queue. So an owner that overflows notifies afterwards, as
//! after any push into the injector.
//!
//! # The race
//! A thief has claimed the older half and is preempted while copying. The owner goes on, pops what is left,
//! and pushes until `tail` has come round to the slot that the thief reads next. If the free space were
//! measured from `real`, the owner would write that slot: one item would be lost, another taken twice.
//!
//! # Ordering
//! - *One taker an item.* `real` only grows, by read-modify-writes of one word, each from the value it was
//!   computed from. `(real, claimed)` does not recur. `real` has 55 bits, which 5 ns a pop use up in five
//!   years. Of the states with one `real`, the state with nothing claimed comes last. So RingClaim succeeds
//!   only if the head has not moved since RingHead, however long the thief slept in between.
//! - *Indices may wrap.* `tail` has 32 bits and is compared with as many bits of `real`. At a RingClaim that
//!   succeeds, the two are at most a lap apart. They are at most a lap apart for the owner as well, even if
//!   the head it loads is an old one. It never pushed more than a lap beyond any head that it had seen, and
//!   it sees no older head after a newer one.
//! - *RingHead sees no tail older than its head.* RingPop and RingOverflow are Release and RingHead is
//!   Acquire. So with `real` a thief gets the `tail` that the writer of `real` knew, and at RingClaim `tail -
//!   real` is between zero and the capacity. RingClaim itself may be Relaxed: while its claim stands other
//!   thieves go away, and RingUnclaim, which ends the claim, is Release.
//! - *A taker sees the item.* RingTail (Acquire) pairs with RingPublish (Release). RingPopRead and
//!   RingGiveHalf read what the owner wrote.
//! - *No slot is written while it is read.* The owner writes index i (RingWrite) only after `steal` has
//!   passed i - CAPACITY. Either the owner took that item itself, or RingRead (Acquire) reads from
//!   RingUnclaim (Release) or from a later change of the head by the owner, which continues RingUnclaim's
//!   release sequence. RingCopy comes before RingUnclaim. So the slots are plain memory.
//! - *No thread waits for a thief.* If a thief falls asleep inside, the owner pops, other thieves look
//!   elsewhere, and once the ring is full a pushed item goes to the injector alone.
//!
//! # Rejected
//! - Copy first, then change the head (Go): with tasks of 10 ns the owner moves the head faster than a thief
//!   can copy 128 pointers, so the thief's change keeps failing. Slots that are read before they are claimed
//!   would also have to be atomic.
//! - Two 32-bit indices `(steal, real)` in the head (Tokio): a thief that sleeps for exactly 2^32 pops takes
//!   items that it has not seen, and RingUnclaim is a loop.
//! - Popping several items at once into a private buffer: a long poll would hide them from thieves.
//!
//! # Sources
//! Tokio's `queue.rs` (the two heads, its overflow into the younger half), after Go's `runqput`, `runqgrab`.

use std::array;
use std::fmt;
use std::iter;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use super::injector::Injector;
use super::intrusive_list::{IntrusiveList, Linked};
use crate::loom::RING_CAPACITY;
use crate::loom::cell::UnsafeCell;
use crate::loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::loom::sync::atomic::{AtomicU32, AtomicU64};
use crate::util::prefetch;

const CAPACITY: u32 = RING_CAPACITY as u32;

const _: () = assert!(CAPACITY.is_power_of_two() && (CAPACITY as u64) < Head::ONE);

/// The ring. See the module's docs.
///
/// The fields that thieves read come first, so that the processor can lay them on one line with the other
/// fields that thieves read.
#[repr(C)]
pub struct Local<T: Linked> {
    /// A [`Head`]. Changed by owner and thieves.
    head: AtomicU64,
    /// Written by the owner; read by all.
    tail: AtomicU32,
    /// Slots from `steal` to `tail` are initialised. The owner writes the slots outside of that range. An
    /// initialised slot is read once, by the thread that took its item.
    slots: [UnsafeCell<MaybeUninit<NonNull<T>>>; RING_CAPACITY],
}

// SAFETY: a ring consists of pointers that it does not follow. To follow a pointer that it returns is unsafe,
// and justified there.
unsafe impl<T: Linked> Send for Local<T> {}
// SAFETY: only the slots have no synchronisation of their own. The protocol above orders the accesses to
// them.
unsafe impl<T: Linked> Sync for Local<T> {}

impl<T: Linked> Local<T> {
    /// Makes an empty ring.
    pub fn new() -> Self {
        Self::starting_at(0)
    }

    /// Makes an empty ring through which `index` items seem to have gone already, for tests of indices that
    /// wrap.
    pub fn starting_at(index: u64) -> Self {
        Self {
            head: AtomicU64::new(Head::at(index).0),
            tail: AtomicU32::new(index as u32),
            slots: array::from_fn(|_| UnsafeCell::new(MaybeUninit::uninit())),
        }
    }

    /// The number of waiting items: exact for the owner while no thief comes, a hint for all others.
    pub fn len(&self) -> usize {
        // Relaxed: a hint. The two loads may be of different times, hence the clamp.
        let head = Head(self.head.load(Relaxed));
        let waiting = self.tail.load(Relaxed).wrapping_sub(head.real()) as i32;
        waiting.clamp(0, CAPACITY as i32) as usize
    }

    /// The number of pushes, modulo 2^32, which tells whether the owner moves: a hint.
    pub fn pushes(&self) -> u32 {
        // Relaxed: a hint.
        self.tail.load(Relaxed)
    }

    /// Whether no item waits, with the same limits as [`len`](Self::len).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds `item` as the youngest. Returns how many items went to the injector instead, normally none.
    ///
    /// A full ring sends its younger half to the injector, followed by `item`. If a thief is inside, it sends
    /// only `item`. The caller then notifies as after a push into the injector.
    ///
    /// # Safety
    /// 1. The caller is the owner. 2. `item` is live, and stays so at its place until popped. 3. It is in no
    ///    queue, and its right ([`Linked`]) is the caller's.
    pub unsafe fn push_back(&self, item: NonNull<T>, injector: &Injector<T>) -> usize {
        // Relaxed: only the owner writes it.
        let tail = self.tail.load(Relaxed);
        // RingRead, pairs with RingUnclaim.
        let head = Head(self.head.load(Acquire));
        if tail.wrapping_sub(head.steal()) < CAPACITY {
            // SAFETY: by (1) and the check, the owner may write the slot of `tail`.
            unsafe { self.write(tail, item) };
            // RingPublish, pairs with RingTail.
            self.tail.store(tail.wrapping_add(1), Release);
            return 0;
        }
        // SAFETY: (1) to (3); the check.
        unsafe { self.overflow(head, tail, item, injector) }
    }

    /// The part of [`push_back`](Self::push_back) for a full ring. It is a function of its own, so that the
    /// common case keeps its registers.
    ///
    /// # Safety
    /// 1. to 3. As `push_back`. 4. At `head` and `tail` no slot is free.
    #[cold]
    unsafe fn overflow(&self, head: Head, tail: u32, item: NonNull<T>, injector: &Injector<T>) -> usize {
        if head.thief_is_inside() {
            // SAFETY: (2) and (3).
            unsafe { injector.push(item) };
            return 1;
        }
        // RingOverflow, pairs with RingHead. Relaxed on failure: RingRead comes again.
        if self.head.compare_exchange(head.0, head.moved_by(CAPACITY).0, Release, Relaxed).is_err() {
            // A thief came. So it is inside, or there is space now: this happens once.
            // SAFETY: (1) to (3).
            return unsafe { self.push_back(item, injector) };
        }
        // RingKeepHalf. Release, like every store of `tail`. Relaxed would do: a thread that sees this `tail`
        // and takes an item has read RingOverflow, and the slots that are visible again were written before
        // RingOverflow.
        self.tail.store(tail.wrapping_add(CAPACITY / 2), Release);
        let mut batch = IntrusiveList::new();
        for index in CAPACITY / 2..CAPACITY {
            // RingGiveHalf.
            // SAFETY: `read`: (1) RingOverflow took all items, RingKeepHalf gave back only the older half,
            // and this thread wrote the slots; (2) it is the owner, and has not pushed since. `push_back`:
            // (1) and (2) the items were pushed under the promises of our (2) and (3), and are out of the
            // ring.
            unsafe { batch.push_back(self.read(head.real().wrapping_add(index))) };
        }
        // SAFETY: (2) and (3).
        unsafe { batch.push_back(item) };
        let count = batch.len();
        injector.push_batch(batch);
        count
    }

    /// Adds items from `items`, in their order, until the ring is full or they end. Returns how many it
    /// added. Takes no item from `items` that it does not add.
    ///
    /// # Safety
    /// 1. The caller is the owner. 2. The items are live, and stay so at their place until popped. 3. They
    ///    are in no queue, and their rights ([`Linked`]) are the caller's.
    pub unsafe fn push_batch(&self, items: impl Iterator<Item = NonNull<T>>) -> usize {
        // Relaxed: only the owner writes it.
        let tail = self.tail.load(Relaxed);
        // SAFETY: (1).
        let free = unsafe { self.free_slots() };
        let mut end = tail;
        for item in items.take(free) {
            // SAFETY: by (1) and `take`, the owner may write the slot.
            unsafe { self.write(end, item) };
            end = end.wrapping_add(1);
        }
        // RingPublish, pairs with RingTail.
        self.tail.store(end, Release);
        end.wrapping_sub(tail) as usize
    }

    /// Prefetches the memory in the middle of each of the `count` youngest items, which another core wrote
    /// last.
    ///
    /// # Safety
    /// 1. The caller is the owner, and has just pushed `count` items. (Thieves may have them by now.)
    pub unsafe fn fetch_youngest(&self, count: usize) {
        // Relaxed: only the owner writes it.
        let tail = self.tail.load(Relaxed);
        for distance in (1..=count as u32).rev() {
            // SAFETY: (1) by our (1) this thread wrote the slot. (2) It is the owner, and has not pushed
            // since.
            let item = unsafe { self.read(tail.wrapping_sub(distance)) };
            prefetch::to_write(item.map_addr(|addr| addr.saturating_add(size_of::<T>() / 2)));
        }
    }

    /// The number of items that fit. Only the owner's own pushes can make it less.
    ///
    /// # Safety
    /// 1. The caller is the owner.
    pub unsafe fn free_slots(&self) -> usize {
        // RingRead, pairs with RingUnclaim.
        let head = Head(self.head.load(Acquire));
        // Relaxed: only the owner writes it.
        let tail = self.tail.load(Relaxed);
        (CAPACITY - tail.wrapping_sub(head.steal())) as usize
    }

    /// Takes the oldest item.
    ///
    /// # Safety
    /// 1. The caller is the owner.
    pub unsafe fn pop(&self) -> Option<NonNull<T>> {
        // Relaxed: only the owner writes it.
        let tail = self.tail.load(Relaxed);
        // Relaxed: if it is not the newest head, RingPop fails. An old head does not make the ring look empty
        // when it is not.
        let mut head = Head(self.head.load(Relaxed));
        loop {
            if head.real() == tail {
                return None;
            }
            // RingPop, pairs with RingHead.
            match self.head.compare_exchange_weak(head.0, head.popped().0, Release, Relaxed) {
                // SAFETY: (1) RingPop took the item, and by our (1) this thread wrote the slot. (2) It is the
                // owner, and has not pushed since.
                Ok(_) => return Some(unsafe { self.read(head.real()) }),
                Err(newer) => head = Head(newer),
            }
        }
    }

    /// Takes half of the items that wait here, rounded up. Returns the oldest item, to be run at once, and
    /// how many were taken in all. The others go to the back of `into`; no more are taken than fit there.
    ///
    /// Returns `None` if there is no item, or another thief is inside.
    ///
    /// `into` is another ring, because a theft from one's own ring would only move the older half behind the
    /// younger half. A debug build panics.
    ///
    /// # Safety
    /// 1. The caller is the owner of `into`.
    pub unsafe fn steal_into(&self, into: &Self) -> Option<(NonNull<T>, usize)> {
        debug_assert!(!ptr::eq(self, into), "a worker does not steal from itself");
        // SAFETY: (1).
        let room = unsafe { into.free_slots() } as u32 + 1;
        // RingHead, pairs with RingPop and RingOverflow.
        let mut head = Head(self.head.load(Acquire));
        let count = loop {
            // RingTail, pairs with RingPublish.
            let waiting = self.tail.load(Acquire).wrapping_sub(head.real());
            if head.thief_is_inside() || waiting == 0 {
                return None;
            }
            let count = waiting.div_ceil(2).min(room);
            // RingClaim. Relaxed, as the proof says; on failure, RingHead once more.
            match self.head.compare_exchange_weak(head.0, head.claimed_by_thief(count).0, Relaxed, Acquire) {
                Ok(_) => break count,
                Err(newer) => head = Head(newer),
            }
        };
        // RingCopy.
        // SAFETY: (1) RingClaim took `count` items from `real` on, and RingTail made them visible. (2) The
        // claim has not ended: until RingUnclaim the owner writes none of these slots.
        let item = |offset| unsafe { self.read(head.real().wrapping_add(offset)) };
        let first = item(0);
        // SAFETY: (1) is our (1). (2) and (3) the items' promises were made to this ring, which they have
        // left. If `into` is this ring: no more are pushed than there were free slots before RingClaim, and
        // until RingUnclaim the slots that are read are not free.
        let added = unsafe { into.push_batch((1..count).map(item)) };
        debug_assert_eq!(added, count as usize - 1, "what was taken fits");
        // RingUnclaim, pairs with RingRead.
        self.head.fetch_and(!Head::CLAIMED, Release);
        Some((first, count as usize))
    }

    /// Panics if the ring's words contradict each other.
    ///
    /// # Safety
    /// 1. The caller is the owner.
    #[allow(dead_code, reason = "called by tests and models")]
    pub unsafe fn validate(&self) {
        // Relaxed: no slot is touched, and an old head fits `tail` too.
        let head = Head(self.head.load(Relaxed));
        let tail = self.tail.load(Relaxed);
        let waiting = tail.wrapping_sub(head.real());
        assert!(waiting <= CAPACITY, "{waiting} items wait: {head:?}, tail {tail}");
        let used = tail.wrapping_sub(head.steal());
        assert!(used <= CAPACITY, "{used} slots are in use: {head:?}, tail {tail}");
    }

    /// # Safety
    /// 1. The caller is the owner. 2. `index` is at least `tail`, and less than a lap from `steal`.
    #[inline]
    unsafe fn write(&self, index: u32, item: NonNull<T>) {
        let slot = &self.slots[(index % CAPACITY) as usize];
        // SAFETY: by (2) no thread reads the slot, by (1) no other thread writes it.
        slot.with_mut(|slot| unsafe { (*slot).write(item) });
    }

    /// # Safety
    /// 1. The caller has taken the item at `index`, and has seen the `tail` behind it; or it has written the
    ///    slot itself. 2. It has not ended its claim (RingUnclaim) yet, or is the owner and has not pushed
    ///    since.
    #[inline]
    unsafe fn read(&self, index: u32) -> NonNull<T> {
        let slot = &self.slots[(index % CAPACITY) as usize];
        // SAFETY: by (1) the slot is initialised, by (2) it is not written meanwhile.
        slot.with(|slot| unsafe { (*slot).assume_init() })
    }
}

/// Batches, which go from the injector to a ring.
impl<T: Linked> Injector<T> {
    /// Takes the oldest block. Returns its oldest item, to be run at once, and the number of items that were
    /// taken in all. The other items go to the back of `local`, as far as they fit. The items that do not fit
    /// stay here.
    ///
    /// Other workers can steal them from `local`. The caller decides whether to notify one.
    ///
    /// # Safety
    /// 1. The caller is the owner of `local`.
    pub unsafe fn pop_batch_into(&self, local: &Local<T>) -> Option<(NonNull<T>, usize)> {
        let (first, added) = self.pop_with(|rest| {
            // SAFETY: (1) is the ring's (1). The thread that pushed here guaranteed the ring's (2). For (3),
            // the items have just left this queue.
            unsafe { local.push_batch(iter::from_fn(|| rest.pop_front())) }
        })?;
        // SAFETY: (1).
        unsafe { local.fetch_youngest(added) };
        Some((first, 1 + added))
    }
}

impl<T: Linked> fmt::Debug for Local<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = Head(self.head.load(Relaxed));
        f.debug_struct("Local")
            .field("head", &head)
            .field("tail", &self.tail.load(Relaxed))
            .finish_non_exhaustive()
    }
}

/// The head: `real` in the upper 55 bits, `claimed` in the lower 9. An overflow of `real` leaves the word.
#[derive(Clone, Copy)]
struct Head(u64);

impl Head {
    const BITS: u32 = 9;
    const ONE: u64 = 1 << Self::BITS;
    const CLAIMED: u64 = Self::ONE - 1;

    fn at(index: u64) -> Self {
        Self(index << Self::BITS)
    }

    /// The lower 32 bits of the index of the oldest item that is not taken; see *indices may wrap* in the
    /// module's docs.
    fn real(self) -> u32 {
        (self.0 >> Self::BITS) as u32
    }

    /// The index of the oldest slot that must not be written.
    fn steal(self) -> u32 {
        self.real().wrapping_sub((self.0 & Self::CLAIMED) as u32)
    }

    fn thief_is_inside(self) -> bool {
        self.0 & Self::CLAIMED != 0
    }

    /// RingPop: the owner took one item. With a thief inside, `steal` stays, so `claimed` grows by one. It
    /// grows at most to the capacity, because `tail` stays within a lap of `steal`.
    fn popped(self) -> Self {
        Self(self.0.wrapping_add(Self::ONE + u64::from(self.thief_is_inside())))
    }

    /// RingOverflow: the owner took `count` items, with no thief inside.
    fn moved_by(self, count: u32) -> Self {
        Self(self.0.wrapping_add(u64::from(count) * Self::ONE))
    }

    /// RingClaim: a thief took `count` items, and is inside now.
    fn claimed_by_thief(self, count: u32) -> Self {
        Self(self.moved_by(count).0 + u64::from(count))
    }
}

impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let claimed = self.0 & Self::CLAIMED;
        f.debug_struct("Head").field("real", &(self.0 >> Self::BITS)).field("claimed", &claimed).finish()
    }
}

#[cfg(test)]
mod tests;
