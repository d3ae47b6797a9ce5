//! The queue of a channel: a linked list of blocks, with many producers, one consumer, and no lock.
//!
//! # The tail word
//! ```text
//!  bit 63 … 21   20 … 5   4         3         2         1        0
//!  position      FREE     QUEUED    CLOSED    SEALED    ENDED    PARKED
//! ```
//! FREE, QUEUED and CLOSED are the capacity of a bounded channel (`capacity.rs`). In this file only
//! `push_taking_permit` reads and changes them; every other step leaves them as they are.
//!
//! The position is that of the next value, modulo 2⁴³. Of each MPSC_LAP positions, the last stands for no
//! value: while the tail is there, a producer is putting the next block in place. PARKED: the consumer found
//! the queue empty and sleeps. ENDED: no producer is left. SEALED: the consumer takes no further values.
//!
//! # Steps
//! ```text
//! push
//!   MpscRead     read the tail; SEALED? fail; at a lap's last position? spin
//!   MpscBlock    read the tail block
//!   MpscClaim    tail + 1, PARKED cleared (CAS)
//!   MpscGrow     that was the block's last slot: install the next block, tail + 1
//!   MpscUnpark   PARKED was set: move the waker out
//!   MpscFill     write the value, slot := full
//!   MpscWake     wake
//! pop
//!   MpscPop      the head's slot is full: take the value and go on; after a block's last slot move to the
//!                next block and recycle this one
//!   MpscBusy     else read the tail; not the head's position: Busy, a producer is at MpscClaim to MpscFill
//!   MpscEnd      the head's position: Ended if ENDED, else Empty
//! park, after Empty
//!   MpscWaker    write the waker
//!   MpscPark     the head's position, not ENDED: set PARKED (CAS); else take the waker back, MpscPop again
//! ```
//! A push that finds the consumer awake costs one read-modify-write; a pop costs none.
//!
//! # The races
//! *Lost wake.* The consumer finds nothing, a producer pushes and sees no PARKED, and then the consumer
//! parks. MpscClaim and MpscPark change the same word. If MpscClaim comes first, MpscPark fails, because the
//! position has moved. If MpscPark comes first, MpscClaim sees PARKED.
//!
//! *The waker slot* belongs to the consumer while PARKED is clear and the head is the tail. The thread that
//! clears PARKED moves the waker out. A producer (MpscUnpark) does it before it fills its slot (MpscFill),
//! and the consumer cannot pass that slot. The last producer sets ENDED in the same step, after which the
//! consumer never parks. The consumer itself does it in `unpark`.
//!
//! *A block freed under a producer.* A producer touches a block only between its claim of a slot there
//! (MpscClaim) and the filling of that slot (MpscFill). The consumer recycles a block when all its slots were
//! filled. MpscBlock may read a block that is recycled before MpscClaim, but then the tail has moved and
//! MpscClaim fails. The same position comes back only after 2⁴³ values, which take more than a day, and the
//! producer would have to stop between MpscBlock and MpscClaim for exactly as long.
//!
//! *The next block.* MpscGrow links it before MpscFill fills the last slot. So the consumer, which has found
//! that slot full, finds the link. Other producers meanwhile spin at MpscRead. They wait for a block that is
//! already allocated, so for a few instructions, once in a lap.
//!
//! # Ordering
//! MpscFill is Release and MpscPop is Acquire: they pass on the value, and the link of MpscGrow. MpscGrow's
//! second step is Release and MpscRead is Acquire, so MpscBlock reads the block of that lap or a later one.
//! MpscBlock is Acquire. So if it reads a later block, MpscClaim sees that the tail has moved, and fails.
//! MpscClaim, MpscPark, ENDED and SEALED are AcqRel: MpscUnpark pairs with MpscWaker. Recycling passes a
//! block through `spare`: Release in, Acquire out.
//!
//! # Memory
//! One block is kept for reuse, so that a steady stream allocates nothing. All other blocks are freed as they
//! are emptied.
//!
//! Prior art: the block list with its spare last position is that of Crossbeam's unbounded channel. The
//! parked bit in the tail is ours. It saves the fence or the second read-modify-write that a separate "is it
//! asleep?" costs.

use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::task::Waker;

use crate::loom::MPSC_LAP as LAP;
use crate::loom::cell::UnsafeCell;
use crate::loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use crate::sync::backoff::Backoff;
use crate::util::pad::CachePadded;

const PARKED: usize = 1;
const ENDED: usize = 1 << 1;
const SEALED: usize = 1 << 2;
pub(super) const CLOSED: usize = 1 << 3;
pub(super) const QUEUED: usize = 1 << 4;
/// One free permit.
pub(super) const ONE_FREE: usize = 1 << 5;
/// The largest number in FREE.
pub(super) const MOST_FREE: usize = (1 << 16) - 1;
/// The bits of the free permits.
pub(super) const FREE: usize = MOST_FREE * ONE_FREE;
const SHIFT: u32 = 21;
const ONE: usize = 1 << SHIFT;
/// The largest position.
const LAST_POSITION: usize = usize::MAX >> SHIFT;

const _: () = assert!(FREE < ONE && FREE & QUEUED == 0);

/// The number of free permits in `word`.
pub(super) fn free_in(word: usize) -> usize {
    (word & FREE) / ONE_FREE
}

/// The number of values in a block.
const VALUES: usize = LAP - 1;

/// The result of [`Queue::pop`].
#[derive(Debug, PartialEq)]
pub enum Pop<T> {
    Value(T),
    /// The next value is being written at this moment.
    Busy,
    Empty,
    /// The queue is empty, and no producer is left.
    Ended,
}

struct Slot<T> {
    /// Set by the producer once the value is there; cleared by the consumer when it recycles the block.
    is_full: AtomicBool,
    /// Belongs to the producer that claimed the slot until `is_full`, then to the consumer.
    value: UnsafeCell<MaybeUninit<T>>,
}

struct Block<T> {
    slots: [Slot<T>; VALUES],
    /// Written by the producer that claimed the last slot, before it fills that slot.
    next: AtomicPtr<Block<T>>,
}

/// The place of the consumer.
struct Head<T> {
    position: usize,
    block: NonNull<Block<T>>,
}

/// The queue. Any thread pushes values, and one consumer pops them.
pub struct Queue<T> {
    tail: CachePadded<Tail<T>>,
    /// Touched by the consumer only.
    head: CachePadded<UnsafeCell<Head<T>>>,
    /// Holds a waker while PARKED is set. "The waker slot" in the module docs says which thread may use it.
    waker: UnsafeCell<MaybeUninit<Waker>>,
    /// An empty block for reuse, or null.
    spare: AtomicPtr<Block<T>>,
}

/// The part of the queue that producers share.
struct Tail<T> {
    word: AtomicUsize,
    /// The block of the tail's position. Stale while that position is a lap's last.
    block: AtomicPtr<Block<T>>,
}

// SAFETY: values and wakers pass between threads as the module docs say. No method gives out a `&T`.
unsafe impl<T: Send> Send for Queue<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Queue<T> {}

impl<T> Block<T> {
    /// Makes the block in place, because a block of large values does not fit on every stack.
    fn new() -> Box<Self> {
        let mut block = Box::<Self>::new_uninit();
        let at = block.as_mut_ptr();
        for i in 0..VALUES {
            let slot =
                Slot { is_full: AtomicBool::new(false), value: UnsafeCell::new(MaybeUninit::uninit()) };
            // SAFETY: `at` points to the box's memory, `i` is below the length of the array, and the slot
            // holds nothing to drop.
            unsafe { (&raw mut (*at).slots[i]).write(slot) };
        }
        // SAFETY: `at` points to the box's memory, and the field holds nothing to drop.
        unsafe { (&raw mut (*at).next).write(AtomicPtr::new(ptr::null_mut())) };
        // SAFETY: both fields were written, and so was each slot of the array.
        unsafe { block.assume_init() }
    }
}

impl<T> Queue<T> {
    /// Creates a queue whose tail has `free` free permits.
    pub fn new(free: usize) -> Self {
        debug_assert!(free <= MOST_FREE);
        let block = NonNull::from(Box::leak(Block::new()));
        Self {
            tail: CachePadded::new(Tail {
                word: AtomicUsize::new(free * ONE_FREE),
                block: AtomicPtr::new(block.as_ptr()),
            }),
            head: CachePadded::new(UnsafeCell::new(Head { position: 0, block })),
            waker: UnsafeCell::new(MaybeUninit::uninit()),
            spare: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Appends `value`, and wakes the consumer if it sleeps. Returns the value if the queue is sealed.
    #[inline]
    pub fn push(&self, value: T) -> Result<(), T> {
        // MpscRead.
        let word = self.tail.word.load(Ordering::Acquire);
        let offset = (word >> SHIFT) % LAP;
        if word & SEALED == 0 && offset + 1 < VALUES {
            // MpscBlock.
            let block = self.tail.block.load(Ordering::Acquire);
            if self.claim(word, 0).is_ok() {
                // SAFETY: (1) by MpscClaim. (2) `block` was the tail's block at MpscClaim.
                unsafe { self.fill(block, offset, word, value) };
                return Ok(());
            }
        }
        self.push_slowly(value)
    }

    /// Appends `value` as [`push`](Self::push) does, and takes a permit in the same step, which the value
    /// then carries. Returns the value if no permit is there at once (CapacityTake of `capacity.rs`), or if
    /// the tail is at the end of a block. The caller then takes a permit first.
    #[inline(always)]
    pub fn push_taking_permit(&self, value: T) -> Result<(), T> {
        // MpscRead, CapacityTake.
        let mut word = self.tail.word.load(Ordering::Acquire);
        loop {
            let offset = (word >> SHIFT) % LAP;
            if word & (QUEUED | CLOSED | SEALED) != 0 || word & FREE == 0 || offset + 1 >= VALUES {
                return Err(value);
            }
            // MpscBlock.
            let block = self.tail.block.load(Ordering::Acquire);
            match self.claim(word, ONE_FREE) {
                Ok(_) => {
                    // SAFETY: (1) by MpscClaim. (2) `block` was the tail's block at MpscClaim.
                    unsafe { self.fill(block, offset, word, value) };
                    return Ok(());
                }
                Err(actual) => word = actual,
            }
        }
    }

    /// Appends `value` as [`push`](Self::push) does, wherever the tail is, and with as many attempts as it
    /// takes.
    #[inline(never)]
    fn push_slowly(&self, value: T) -> Result<(), T> {
        let mut backoff = Backoff::new();
        let mut next = None;
        // MpscRead.
        let mut word = self.tail.word.load(Ordering::Acquire);
        let (block, offset) = loop {
            if word & SEALED != 0 {
                return Err(value);
            }
            let offset = (word >> SHIFT) % LAP;
            if offset == VALUES {
                backoff.snooze();
                word = self.tail.word.load(Ordering::Acquire);
                continue;
            }
            // MpscBlock.
            let block = self.tail.block.load(Ordering::Acquire);
            if offset + 1 == VALUES && next.is_none() {
                // Allocated before the claim, so that no other thread waits for the allocator.
                next = Some(self.fresh_block());
            }
            match self.claim(word, 0) {
                Ok(_) => break (block, offset),
                Err(actual) => word = actual,
            }
        };
        if offset + 1 == VALUES {
            // MpscGrow.
            let next = Box::into_raw(next.take().expect("allocated before the claim"));
            self.tail.block.store(next, Ordering::Release);
            // SAFETY: this thread owns a slot of the block that is not full, so the consumer has not recycled
            // the block.
            unsafe { &*block }.next.store(next, Ordering::Release);
            self.tail.word.fetch_add(ONE, Ordering::Release);
        }
        // A block that another claim made superfluous is kept for later.
        if let Some(unused) = next {
            self.keep(unused);
        }
        // SAFETY: (1) by MpscClaim. (2) `block` was the tail's block at MpscClaim.
        unsafe { self.fill(block, offset, word, value) };
        Ok(())
    }

    /// MpscClaim: takes the position of `word`, and `permits` (a multiple of [`ONE_FREE`]), if the tail is
    /// still `word`.
    #[inline(always)]
    fn claim(&self, word: usize, permits: usize) -> Result<usize, usize> {
        let claimed = (word.wrapping_add(ONE) - permits) & !PARKED;
        self.tail.word.compare_exchange_weak(word, claimed, Ordering::AcqRel, Ordering::Acquire)
    }

    /// MpscUnpark to MpscWake.
    ///
    /// # Safety
    /// 1. The caller has claimed the position of `word`, which is at `offset` in its block, and calls this
    ///    once. 2. `block` is the block of that position.
    #[inline(always)]
    unsafe fn fill(&self, block: *mut Block<T>, offset: usize, word: usize, value: T) {
        // MpscUnpark. SAFETY: (1) PARKED was set, so the slot holds a waker, and this thread's MpscClaim has
        // cleared PARKED.
        let waker = (word & PARKED != 0).then(|| unsafe { self.take_waker() });
        // SAFETY: by (1) and (2) this thread owns a slot of the block that is not full, so the consumer has
        // not recycled the block.
        let slot = &unsafe { &*block }.slots[offset];
        // MpscFill. SAFETY: the slot is ours, by (1), and empty.
        slot.value.with_mut(|slot| unsafe { (*slot).write(value) });
        slot.is_full.store(true, Ordering::Release);
        // MpscWake.
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Takes the oldest value.
    ///
    /// # Safety
    /// 1. The caller is the consumer.
    pub unsafe fn pop(&self) -> Pop<T> {
        // SAFETY: (1).
        if let Some(value) = unsafe { self.try_pop() } {
            return Pop::Value(value);
        }
        // SAFETY: by (1), no thread writes the head.
        let position = self.head.with(|head| unsafe { (*head).position });
        let word = self.tail.word.load(Ordering::Acquire);
        if word >> SHIFT != position {
            // MpscBusy. The slot may have been filled since, but then the caller will come again.
            Pop::Busy
        } else if word & ENDED != 0 {
            Pop::Ended
        } else {
            Pop::Empty
        }
    }

    /// MpscPop: takes the oldest value if it is there.
    ///
    /// # Safety
    /// 1. The caller is the consumer.
    #[inline(always)]
    pub unsafe fn try_pop(&self) -> Option<T> {
        self.head.with_mut(|head| {
            // SAFETY: by (1), no other thread uses the head.
            let head = unsafe { &mut *head };
            let offset = head.position % LAP;
            // SAFETY: only `leave_block` recycles the head's block, when the head leaves it.
            let slot = &unsafe { head.block.as_ref() }.slots[offset];
            if !slot.is_full.load(Ordering::Acquire) {
                return None;
            }
            // SAFETY: the slot is full, so the value is there, and ours. The head moves on, so the value is
            // read once.
            let value = slot.value.with(|value| unsafe { (*value).assume_init_read() });
            head.position += 1;
            if offset + 1 == VALUES {
                // SAFETY: (1) it is this queue's head, and by our (1) the caller is the consumer. (2) The
                // value of the last slot was taken above.
                unsafe { self.leave_block(head) };
            }
            Some(value)
        })
    }

    /// The rest of MpscPop, after the last slot of the head's block.
    ///
    /// # Safety
    /// 1. `head` is that of this queue, and the caller is the consumer. 2. The caller has taken the value of
    ///    the last slot of the head's block.
    #[inline(never)]
    unsafe fn leave_block(&self, head: &mut Head<T>) {
        // The last position ends a lap.
        head.position = head.position.wrapping_add(1) & LAST_POSITION;
        // SAFETY: by (1), only this call recycles the head's block, below.
        let next = unsafe { head.block.as_ref() }.next.load(Ordering::Acquire);
        let emptied = std::mem::replace(
            &mut head.block,
            NonNull::new(next).expect("the next block is linked before the last slot is filled"),
        );
        // SAFETY: `Box` made the block. The consumer takes values in order, so by (2) all its slots were
        // filled and emptied. So no producer uses it, and the consumer has left it.
        self.recycle(unsafe { Box::from_raw(emptied.as_ptr()) });
    }

    /// Puts the consumer to sleep. Returns `true` if the next push, or the end, will wake `waker`. Returns
    /// `false` if there is something to pop.
    ///
    /// # Safety
    /// 1. The caller is the consumer, and its last call of `pop` found nothing.
    pub unsafe fn park(&self, waker: &Waker) -> bool {
        let mut word = self.tail.word.load(Ordering::Acquire);
        if word & PARKED != 0 {
            // SAFETY: PARKED is set, so the slot holds a waker. This only reads the slot, as a producer that
            // moves the waker out does. That producer may even drop the waker meanwhile, but `will_wake` only
            // compares addresses, and does not follow that of the data.
            let is_current = self.waker.with(|slot| unsafe { (*slot).assume_init_ref() }.will_wake(waker));
            if is_current {
                return true;
            }
            // SAFETY: (1).
            unsafe { self.unpark() };
            word = self.tail.word.load(Ordering::Acquire);
        }
        let fresh = waker.clone();
        // SAFETY: by (1), no other thread uses the head.
        let position = self.head.with(|head| unsafe { (*head).position });
        if word >> SHIFT != position || word & ENDED != 0 {
            return false;
        }
        // MpscWaker. SAFETY: PARKED is clear and the head is the tail, so the slot is ours, and empty.
        self.waker.with_mut(|slot| unsafe { (*slot).write(fresh) });
        // MpscPark.
        while word >> SHIFT == position && word & ENDED == 0 {
            match self.tail.word.compare_exchange_weak(
                word,
                word | PARKED,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return true,
                Err(actual) => word = actual,
            }
        }
        // SAFETY: (1) the slot holds the waker of MpscWaker. By our (1) the caller is the consumer, and
        // PARKED was never set for this waker.
        drop(unsafe { self.take_waker() });
        false
    }

    /// Takes back the waker of [`park`](Self::park), if it is still there.
    ///
    /// # Safety
    /// 1. The caller is the consumer.
    pub unsafe fn unpark(&self) {
        let word = self.tail.word.fetch_and(!PARKED, Ordering::AcqRel);
        if word & PARKED != 0 {
            // SAFETY: (1) PARKED was set, so the slot holds a waker, and this call has cleared PARKED.
            drop(unsafe { self.take_waker() });
        }
    }

    /// Called when the last producer has left. Wakes the consumer if it sleeps.
    pub fn end(&self) {
        self.set_and_wake(ENDED);
    }

    /// Makes pushes fail from now on.
    pub fn seal(&self) {
        self.tail.word.fetch_or(SEALED, Ordering::AcqRel);
    }

    pub fn is_sealed(&self) -> bool {
        self.tail.word.load(Ordering::Acquire) & SEALED != 0
    }

    /// Counts the values that were pushed and not popped, including those that are being written.
    ///
    /// # Safety
    /// 1. The consumer does not pop meanwhile.
    pub unsafe fn len(&self) -> usize {
        let tail = self.tail.word.load(Ordering::Acquire) >> SHIFT;
        // SAFETY: by (1), no thread writes the head.
        let head = self.head.with(|head| unsafe { (*head).position });
        let positions = tail.wrapping_sub(head) & LAST_POSITION;
        // All positions, without the last one of each lap that lies in between.
        positions - (head % LAP + positions) / LAP
    }

    /// The tail's word, for `capacity.rs`.
    #[inline(always)]
    pub(super) fn tail_word(&self) -> &AtomicUsize {
        &self.tail.word
    }

    fn set_and_wake(&self, flag: usize) {
        let mut word = self.tail.word.load(Ordering::Relaxed);
        loop {
            let next = (word | flag) & !PARKED;
            match self.tail.word.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => break,
                Err(actual) => word = actual,
            }
        }
        if word & PARKED != 0 {
            // SAFETY: (1) PARKED was set, so the slot holds a waker, and this call has cleared PARKED.
            unsafe { self.take_waker() }.wake();
        }
    }

    /// Moves the consumer's waker out of its slot.
    ///
    /// # Safety
    /// 1. The slot holds a waker, and the caller has cleared PARKED, or is the consumer and PARKED was never
    ///    set for this waker.
    unsafe fn take_waker(&self) -> Waker {
        // SAFETY: by (1), no other thread moves the waker out, and none writes before this read.
        self.waker.with(|slot| unsafe { (*slot).assume_init_read() })
    }

    /// Returns an empty block: the spare one, or a new one.
    fn fresh_block(&self) -> Box<Block<T>> {
        match NonNull::new(self.spare.swap(ptr::null_mut(), Ordering::Acquire)) {
            // SAFETY: `Box` made the block, and the thread that takes it out of `spare` owns it.
            Some(block) => unsafe { Box::from_raw(block.as_ptr()) },
            None => Block::new(),
        }
    }

    /// Clears the block's marks, for its next use.
    fn recycle(&self, mut block: Box<Block<T>>) {
        let Block { slots, next } = &mut *block;
        for slot in slots {
            // This access does nothing, but a model checks that the slot's producer is done with it.
            slot.value.with_mut(|_| ());
            // Relaxed: no other thread sees the block until `keep` publishes it.
            slot.is_full.store(false, Ordering::Relaxed);
        }
        next.store(ptr::null_mut(), Ordering::Relaxed);
        self.keep(block);
    }

    /// Makes an empty block the spare one, if there is none. Otherwise frees it.
    fn keep(&self, block: Box<Block<T>>) {
        if !self.spare.load(Ordering::Relaxed).is_null() {
            return;
        }
        let block = Box::into_raw(block);
        if self.spare.compare_exchange(ptr::null_mut(), block, Ordering::Release, Ordering::Relaxed).is_err()
        {
            // SAFETY: `Box` made the block above, and it was not published.
            drop(unsafe { Box::from_raw(block) });
        }
    }
}

impl<T> Drop for Queue<T> {
    fn drop(&mut self) {
        /// Frees the blocks, also when a value's destructor panics. The values that are left are leaked then.
        struct Blocks<'a, T>(&'a Queue<T>);
        impl<T> Drop for Blocks<'_, T> {
            fn drop(&mut self) {
                let head = self.0.head.with(|head| {
                    // SAFETY: the drop has the queue alone.
                    unsafe { (*head).block.as_ptr() }
                });
                let mut block = head;
                while let Some(this) = NonNull::new(block) {
                    // SAFETY: `Box` made the block. Each block is linked once, and the drop has the queue
                    // alone.
                    block = unsafe { Box::from_raw(this.as_ptr()) }.next.load(Ordering::Relaxed);
                }
                if let Some(spare) = NonNull::new(self.0.spare.load(Ordering::Relaxed)) {
                    // SAFETY: `Box` made the block, and it is in no list.
                    drop(unsafe { Box::from_raw(spare.as_ptr()) });
                }
            }
        }
        let blocks = Blocks(self);
        // SAFETY: (1) the drop has the queue alone, so it is the consumer.
        unsafe { blocks.0.unpark() };
        // SAFETY: as above. No producer is left, so the loop ends with the last value.
        while let Pop::Value(value) = unsafe { blocks.0.pop() } {
            drop(value);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
