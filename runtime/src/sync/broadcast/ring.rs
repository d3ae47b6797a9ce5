//! Where the values of a broadcast channel lie until all receivers have them.
//!
//! Values have *positions*, from 0 on; position `p` lies in slot `p mod capacity`. One sender at a time puts
//! values in, in the order of the positions; any number of receivers take copies.
//!
//! # The word of a slot
//! ```text
//! bit 63 … 2    1 … 0
//!  stamp        EMPTY: no value; a sender may write
//!               FULL: a value that a receiver has still to take
//!               LOCKED: one receiver, or a sender that overwrites, is at the value
//! ```
//! The stamp is the position of the last value plus the capacity: the position for which the slot is next. So
//! a receiver at position `p` looks for the stamp `p + capacity`. A lower one says that the value has not
//! come, a higher one that it was overwritten. At first each slot has its own index for a stamp, and is
//! EMPTY.
//!
//! # Who may touch what
//! The value and the count of receivers that have still to take it: the thread that set LOCKED; while EMPTY,
//! the sender. A receiver clones the value while the slot is locked, because a `T` need not be `Sync`. This
//! is the one place where foreign code runs under a lock of ours: it holds up receivers of the same value,
//! which let other tasks run meanwhile, and a sender that has come round to this slot. The last receiver
//! takes the value itself.
//!
//! # Steps
//! ```text
//! receiver at p                                 sender at p
//! ReadStamp   p + capacity? else: nothing       ReadOld     EMPTY: go on
//! LockSlot    FULL → LOCKED (CAS)               LockOld     FULL → LOCKED (CAS); LOCKED: try again later
//! CountDown   one less to take it; the last     …           the end of the ring goes on (`channel.rs`)
//!             takes it: → EMPTY; else → FULL    FillSlot    write value and count;
//!                                                           stamp := p + capacity, FULL
//! ```
//! So a value that all take costs its sender no read-modify-write here, and each receiver one.
//!
//! # Ordering
//! FillSlot and CountDown are Release. ReadOld, LockOld and LockSlot are Acquire. So the thread that is at
//! the value sees what the threads before it did, and the sender that finds EMPTY comes after the last
//! receiver. A receiver that is counted for a value has not taken it, so the slot is not EMPTY for it: if it
//! finds its stamp, it finds FULL or LOCKED.
//!
//! # Rejected
//! - Counting readers in and out of a slot, so that they clone at once: needs `T: Sync`, which Tokio's does
//!   not ask for.
//! - A mutex for each slot, as Tokio has: two read-modify-writes for each receiver, and two for the sender.
//! - Slots on cache lines of their own: a ring of 1024 small values would take 128 KiB.

use std::mem::{ManuallyDrop, MaybeUninit};

use crate::loom::cell::UnsafeCell;
use crate::loom::sync::atomic::AtomicUsize;
use crate::loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::util::unwind::FirstPanic;

const EMPTY: usize = 0;
const FULL: usize = 1;
const LOCKED: usize = 2;
const STATE: usize = 3;
const STAMP: usize = 4;

/// The slots.
pub(super) struct Ring<T> {
    /// As many as a power of two.
    slots: Box<[Slot<T>]>,
}

struct Slot<T> {
    word: AtomicUsize,
    /// Receivers that have still to take the value.
    remaining: UnsafeCell<usize>,
    /// Holds a value unless the slot is EMPTY.
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: a value moves between threads, and is cloned by one at a time.
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Ring<T> {}

/// Why there is no value for a receiver.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// It has not come.
    NotYet,
    /// Another is at it at this moment.
    Busy,
    /// It was overwritten.
    Overwritten,
}

impl<T> Ring<T> {
    /// The most values a ring can hold.
    pub(super) const MAX: usize = usize::MAX >> 1;

    /// For `capacity` values or a little more: up to the next power of two. `None` if there is no memory for
    /// them.
    ///
    /// `capacity` must be between 1 and [`MAX`](Self::MAX).
    pub(super) fn new(capacity: usize) -> Option<Self> {
        let capacity = capacity.checked_next_power_of_two()?;
        let mut slots = Vec::new();
        slots.try_reserve_exact(capacity).ok()?;
        slots.extend((0..capacity).map(|index| Slot {
            word: AtomicUsize::new(word_of(index, EMPTY)),
            remaining: UnsafeCell::new(0),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        }));
        Some(Self { slots: slots.into_boxed_slice() })
    }

    pub(super) fn capacity(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    fn slot(&self, position: usize) -> &Slot<T> {
        // The capacity is a power of two, so the index is in bounds.
        &self.slots[position & (self.slots.len() - 1)]
    }

    /// ReadStamp and LockSlot: the value at `position`, for a receiver that has not taken it.
    #[inline]
    pub(super) fn lock(&self, position: usize) -> Result<Locked<'_, T>, Missing> {
        let slot = self.slot(position);
        let stamp = position + self.capacity();
        // Acquire: pairs with FillSlot and CountDown.
        match slot.word.compare_exchange(word_of(stamp, FULL), word_of(stamp, LOCKED), Acquire, Acquire) {
            Ok(_) => Ok(Locked { slot, stamp }),
            Err(word) if word / STAMP == stamp => {
                debug_assert_eq!(word & STATE, LOCKED, "a receiver took a value twice");
                Err(Missing::Busy)
            }
            Err(word) if word / STAMP < stamp => Err(Missing::NotYet),
            Err(_) => Err(Missing::Overwritten),
        }
    }

    /// Whether all have taken the value at `position`. To be asked while no sender puts values in.
    pub(super) fn is_taken(&self, position: usize) -> bool {
        // Relaxed: a hint as soon as it is read.
        self.slot(position).word.load(Relaxed) & STATE == EMPTY
    }

    /// ReadOld and LockOld: makes room at `position`, or returns `None` if a receiver is at the old value at
    /// this moment.
    ///
    /// # Safety
    /// 1. One thread at a time calls this and fills what it gets, with positions that follow each other from
    ///    0 on.
    #[inline]
    pub(super) unsafe fn reserve(&self, position: usize) -> Option<Reserved<'_, T>> {
        let slot = self.slot(position);
        // ReadOld, pairs with CountDown.
        let word = slot.word.load(Acquire);
        let old = match word & STATE {
            EMPTY => None,
            // LockOld, pairs with CountDown, and with FillSlot of another sender.
            FULL if slot.word.compare_exchange(word, word ^ FULL ^ LOCKED, Acquire, Relaxed).is_ok() => {
                // SAFETY: the slot is locked, and was FULL: it holds a value, which counts as taken from here
                // on.
                Some(unsafe { slot.take() })
            }
            _ => return None,
        };
        Some(Reserved { slot, stamp: position + self.capacity(), old })
    }
}

/// A sender's room for its value. It must be filled.
#[must_use = "receivers wait for the value"]
pub(super) struct Reserved<'a, T> {
    /// EMPTY, or locked.
    slot: &'a Slot<T>,
    stamp: usize,
    old: Option<T>,
}

impl<T> Reserved<'_, T> {
    /// FillSlot, for so many `receivers` to take `value`. Answers the value that it overwrites.
    #[inline]
    pub(super) fn fill(self, receivers: usize, value: T) -> Option<T> {
        // SAFETY: the slot is EMPTY, and ours by (1) of `reserve`, or it is locked by us.
        self.slot.value.with_mut(|slot| unsafe { (*slot).write(value) });
        // SAFETY: as above.
        self.slot.remaining.with_mut(|remaining| unsafe { *remaining = receivers });
        // Pairs with LockSlot.
        self.slot.word.store(word_of(self.stamp, FULL), Release);
        self.old
    }
}

impl<T> Slot<T> {
    /// Moves the value out.
    ///
    /// # Safety
    /// 1. The slot is locked by the caller, or no other thread has it, and holds a value. 2. It counts as
    ///    empty from here on.
    unsafe fn take(&self) -> T {
        // SAFETY: as (1) and (2) say.
        self.value.with(|value| unsafe { (*value).assume_init_read() })
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        let mut panic = FirstPanic::new();
        for slot in &self.slots {
            // Relaxed: `&mut self` has come after everything else.
            if slot.word.load(Relaxed) & STATE == FULL {
                // SAFETY: (1) no other thread has the slot. (2) The ring is at its end.
                let value = unsafe { slot.take() };
                panic.catch(|| drop(value));
            }
        }
        panic.resume();
    }
}

/// A receiver at a value. Dropping it without more counts as having taken the value.
pub(super) struct Locked<'a, T> {
    slot: &'a Slot<T>,
    stamp: usize,
}

impl<T> Locked<'_, T> {
    /// Takes a copy, or the value itself if no other receiver is to have it. If the clone panics, the value
    /// counts as taken.
    #[inline]
    pub(super) fn copy(self) -> T
    where
        T: Clone,
    {
        if self.remaining() > 1 {
            // SAFETY: the slot is locked by us until `self` is dropped.
            return self.slot.value.with(|value| unsafe { (*value).assume_init_ref() }.clone());
        }
        self.count_down().expect("the last one takes the value")
    }

    /// Takes nothing; if no other receiver is to have the value, it comes back.
    #[inline]
    pub(super) fn count_down(self) -> Option<T> {
        ManuallyDrop::new(self).unlock()
    }

    fn remaining(&self) -> usize {
        // SAFETY: the slot is locked by us.
        self.slot.remaining.with(|remaining| unsafe { *remaining })
    }

    /// CountDown. Not to be called again.
    #[inline]
    fn unlock(&self) -> Option<T> {
        let left = self.remaining() - 1;
        let value = if left == 0 {
            // SAFETY: (1) the slot is locked by us, and we had still to take the value. (2) EMPTY is what we
            // leave.
            Some(unsafe { self.slot.take() })
        } else {
            // SAFETY: the slot is locked by us.
            self.slot.remaining.with_mut(|remaining| unsafe { *remaining = left });
            None
        };
        // Pairs with LockSlot, LockOld and ReadOld.
        self.slot.word.store(word_of(self.stamp, if left == 0 { EMPTY } else { FULL }), Release);
        value
    }
}

impl<T> Drop for Locked<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // Foreign code: after the slot was left.
        drop(self.unlock());
    }
}

#[inline]
fn word_of(stamp: usize, state: usize) -> usize {
    stamp * STAMP + state
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Puts `value` at `position`, for `receivers`.
    fn put<T>(ring: &Ring<T>, position: usize, receivers: usize, value: T) -> Result<Option<T>, T> {
        // SAFETY: (1) each test puts on one thread, in order.
        match unsafe { ring.reserve(position) } {
            Some(room) => Ok(room.fill(receivers, value)),
            None => Err(value),
        }
    }

    fn missing<T>(ring: &Ring<T>, position: usize) -> Option<Missing> {
        ring.lock(position).err()
    }

    #[test]
    fn capacities_are_rounded_up_and_refused_if_too_large() {
        assert_eq!([1, 2, 3, 5, 1024].map(|n| Ring::<u8>::new(n).unwrap().capacity()), [1, 2, 4, 8, 1024]);
        assert!(Ring::<u8>::new(Ring::<u8>::MAX).is_none());
        assert!(Ring::<u64>::new(usize::MAX >> 8).is_none());
    }

    #[test]
    fn a_value_is_copied_by_all_but_the_last_who_takes_it() {
        let ring = Ring::new(2).unwrap();
        let value = std::sync::Arc::new(());
        assert_eq!(missing(&ring, 0), Some(Missing::NotYet));
        put(&ring, 0, 3, value.clone()).unwrap();
        assert!(!ring.is_taken(0));
        let copies = [ring.lock(0).unwrap().copy(), ring.lock(0).unwrap().copy()];
        assert_eq!(std::sync::Arc::strong_count(&value), 4);
        let last = ring.lock(0).unwrap().copy();
        assert_eq!(std::sync::Arc::strong_count(&value), 4);
        assert!(ring.is_taken(0));
        drop((copies, last));
    }

    #[test]
    fn who_is_too_late_learns_it() {
        let ring = Ring::new(2).unwrap();
        assert_eq!(put(&ring, 0, 1, 10), Ok(None));
        assert_eq!(put(&ring, 1, 1, 11), Ok(None));
        assert_eq!(put(&ring, 2, 1, 12), Ok(Some(10)));
        assert_eq!(missing(&ring, 0), Some(Missing::Overwritten));
        assert_eq!(ring.lock(1).unwrap().copy(), 11);
        assert_eq!(put(&ring, 3, 1, 13), Ok(None), "all had it");
        assert_eq!(ring.lock(2).unwrap().count_down(), Some(12));
        assert_eq!(missing(&ring, 4), Some(Missing::NotYet));
    }

    #[test]
    fn what_nobody_took_goes_with_the_ring() {
        let ring = Ring::new(4).unwrap();
        let value = std::sync::Arc::new(());
        (0..6).for_each(|position| drop(put(&ring, position, 1, value.clone())));
        ring.lock(3).unwrap().copy();
        assert_eq!(std::sync::Arc::strong_count(&value), 4);
        drop(ring);
        assert_eq!(std::sync::Arc::strong_count(&value), 1);
    }

    #[test]
    fn a_value_that_somebody_is_at_is_neither_taken_nor_overwritten() {
        let ring = Ring::new(1).unwrap();
        put(&ring, 0, 2, 10).unwrap();
        let locked = ring.lock(0).unwrap();
        assert_eq!(missing(&ring, 0), Some(Missing::Busy));
        assert_eq!(put(&ring, 1, 1, 11), Err(11));
        drop(locked);
        assert_eq!(put(&ring, 1, 1, 11), Ok(Some(10)));
        assert_eq!(missing(&ring, 0), Some(Missing::Overwritten));
    }
}
