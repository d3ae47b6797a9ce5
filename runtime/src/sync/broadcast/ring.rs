//! The memory of a broadcast channel's values until all receivers have taken them.
//!
//! Values have *positions*, from 0 on. Position `p` is in slot `p mod capacity`. One sender at a time puts
//! values in, in the order of the positions. Any number of receivers take copies.
//!
//! # The word of a slot
//! ```text
//! bit 63 … 2    1 … 0
//!  stamp        EMPTY: no value; a sender may write
//!               FULL: a value that a receiver has still to take
//!               LOCKED: one receiver, or a sender that overwrites, is at the value
//! ```
//! The stamp is the position of the last value plus the capacity, which is the position that the slot holds
//! next. So a receiver at position `p` looks for the stamp `p + capacity`. A lower stamp says that the value
//! has not come. A higher stamp says that it was overwritten. At first the stamp of each slot is its index,
//! and the slot is EMPTY.
//!
//! # Which thread may touch what
//! The value and the count of receivers that have still to take it belong to the thread that set LOCKED, and
//! to the sender while the slot is EMPTY. A receiver clones the value while the slot is locked, because a `T`
//! need not be `Sync`. This is the one place where foreign code runs under a lock of ours. It holds up other
//! receivers of the same value, which let other tasks run meanwhile, and a sender that has come round to this
//! slot. A receiver that is dropped before it has taken the value blocks its thread. The last receiver takes
//! the value itself.
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
//! So a value that all receivers take costs its sender no read-modify-write here, and each receiver one.
//!
//! # Ordering
//! FillSlot and CountDown are Release. ReadOld, LockOld and LockSlot are Acquire. So a thread that is at the
//! value sees what the threads before it did, and a sender that finds EMPTY comes after the last receiver. A
//! receiver that is counted for a value and has not taken it does not find the slot EMPTY. So if it finds its
//! stamp, it finds FULL or LOCKED.
//!
//! # Rejected
//! - Counting readers in and out of a slot, so that several clone at once: this needs `T: Sync`, for which
//!   Tokio does not ask.
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
    /// Their number is a power of two.
    slots: Box<[Slot<T>]>,
}

struct Slot<T> {
    word: AtomicUsize,
    /// The number of receivers that have still to take the value.
    remaining: UnsafeCell<usize>,
    /// Holds a value unless the slot is EMPTY.
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: a value moves between threads, and one thread at a time clones it.
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Ring<T> {}

/// Why a receiver finds no value.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// The value has not come.
    NotYet,
    /// Another thread is at the value at this moment.
    Busy,
    /// The value was overwritten.
    Overwritten,
}

impl<T> Ring<T> {
    /// The largest capacity of a ring.
    pub(super) const MAX: usize = usize::MAX >> 1;

    /// Creates a ring for `capacity` values, rounded up to a power of two. `None` if there is no memory for
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

    /// ReadStamp and LockSlot: locks the value at `position`, for a receiver that has not taken it.
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

    /// Whether all receivers have taken the value at `position`. Called while no sender puts values in.
    pub(super) fn is_taken(&self, position: usize) -> bool {
        // Relaxed: a hint as soon as it is read.
        self.slot(position).word.load(Relaxed) & STATE == EMPTY
    }

    /// ReadOld and LockOld: makes room at `position`. Returns `None` if a receiver is at the old value at
    /// this moment.
    ///
    /// # Safety
    /// 1. One thread at a time calls this and fills the result, with positions that follow each other from 0
    ///    on.
    #[inline]
    pub(super) unsafe fn reserve(&self, position: usize) -> Option<Reserved<'_, T>> {
        let slot = self.slot(position);
        // ReadOld, pairs with CountDown.
        let word = slot.word.load(Acquire);
        let old = match word & STATE {
            EMPTY => None,
            // LockOld, pairs with CountDown, and with FillSlot of another sender.
            FULL if slot.word.compare_exchange(word, word ^ FULL ^ LOCKED, Acquire, Relaxed).is_ok() => {
                // SAFETY: (1) the slot is locked by this thread, and was FULL, so it holds a value. (2) It
                // counts as taken from here on.
                Some(unsafe { slot.take() })
            }
            _ => return None,
        };
        Some(Reserved { slot, stamp: position + self.capacity(), old })
    }
}

/// The place for a sender's value. The sender must fill it.
#[must_use = "receivers wait for the value"]
pub(super) struct Reserved<'a, T> {
    /// EMPTY, or locked by the sender.
    slot: &'a Slot<T>,
    stamp: usize,
    old: Option<T>,
}

impl<T> Reserved<'_, T> {
    /// FillSlot: writes `value`, for `receivers` receivers to take. Returns the value that it overwrites.
    #[inline]
    pub(super) fn fill(self, receivers: usize, value: T) -> Option<T> {
        // SAFETY: the slot is EMPTY, and ours by (1) of `reserve`, or this thread has locked it.
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
    /// 1. The slot holds a value, and the caller has locked it, or no other thread has the slot. 2. It counts
    ///    as empty from here on.
    unsafe fn take(&self) -> T {
        // SAFETY: as (1) and (2) say.
        self.value.with(|value| unsafe { (*value).assume_init_read() })
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        let mut panic = FirstPanic::new();
        for slot in &self.slots {
            // Relaxed: `&mut self` comes after everything else.
            if slot.word.load(Relaxed) & STATE == FULL {
                // SAFETY: (1) the slot is FULL, so it holds a value, and `&mut self` excludes other threads.
                // (2) The ring is being dropped.
                let value = unsafe { slot.take() };
                panic.catch(|| drop(value));
            }
        }
        panic.resume();
    }
}

/// A receiver at a value, whose slot it has locked. The drop counts the value as taken.
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
            // SAFETY: this thread has locked the slot until `self` is dropped.
            return self.slot.value.with(|value| unsafe { (*value).assume_init_ref() }.clone());
        }
        self.count_down().expect("the last one takes the value")
    }

    /// Counts the value as taken without a copy. Returns the value if no other receiver is to have it.
    #[inline]
    pub(super) fn count_down(self) -> Option<T> {
        ManuallyDrop::new(self).unlock()
    }

    fn remaining(&self) -> usize {
        // SAFETY: this thread has locked the slot.
        self.slot.remaining.with(|remaining| unsafe { *remaining })
    }

    /// CountDown. It must not be called again.
    #[inline]
    fn unlock(&self) -> Option<T> {
        let left = self.remaining() - 1;
        let value = if left == 0 {
            // SAFETY: (1) this thread has locked the slot, and this receiver had still to take the value. (2)
            // The store below makes the slot EMPTY.
            Some(unsafe { self.slot.take() })
        } else {
            // SAFETY: this thread has locked the slot.
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
        // The drop of a value is foreign code, so it comes after the slot was unlocked.
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
    fn a_value_is_copied_by_all_but_the_last_taker() {
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
    fn a_thread_that_is_too_late_learns_it() {
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

    #[test]
    fn a_value_that_a_sender_is_about_to_overwrite_is_neither_there_nor_taken() {
        let ring = Ring::new(2).unwrap();
        (0..6).for_each(|position| _ = put(&ring, position, 1, position));
        // SAFETY: (1) one thread; the positions go on.
        let room = unsafe { ring.reserve(6) }.unwrap();
        assert_eq!(missing(&ring, 4), Some(Missing::Busy));
        assert!(!ring.is_taken(4));
        assert_eq!(room.fill(1, 6), Some(4));
        assert_eq!(missing(&ring, 4), Some(Missing::Overwritten));
        assert_eq!((ring.lock(5).unwrap().copy(), ring.lock(6).unwrap().copy()), (5, 6));
    }
}
