//! A worker's deque of jobs: bounded, and private until another thread could use its items.
//!
//! The owner pushes and pops at the young end; thieves take the oldest item. A fork pushes one half, and
//! mostly takes it back itself a moment later, millions of times a second. So the items are private to the
//! owner, at the price of a load and a few stores, until the owner *publishes* the oldest of them.
//!
//! # States
//! ```text
//!     stolen    │  public  │  private  │  free
//!   ────────────┼──────────┼───────────┼──────────▶ index
//!              tail       split       head       CAPACITY
//!
//!   public   one word: version (36 bits), split (14), tail (14). Every item that is public is claimed by
//!            exactly one read-modify-write of this word, the thief's or the owner's.
//!   head     the owner's alone, and so is a copy of `split`, which only the owner moves.
//! ```
//! Indices do not wrap around: the deque is a stack, and thieves take from its lower end.
//!
//! # Steps
//! ```text
//!   push     WriteSlot    write slot[head]
//!            RaiseHead    head += 1
//!   finish   WriteSlot    again, of private items that are only begun: write the item's own memory, then its
//!                         mark
//!   note     WriteSlot    again, of a private item, with a mark
//!   publish  RaiseSplit   split += n (RMW, Release); `push_public` is WriteSlot, RaiseHead and RaiseSplit of
//!                         one item
//!   pop      PopPrivate   i = head - 1, private (i >= split): read the slot, head = i
//!            PopPublic    public, no thief was there (tail <= i): swing (version + 1, split = i), read the
//!                         slot, head = i
//!            Rewind       stolen (tail > i): store (version + 1, split = tail = floor), head = floor
//!   thief    ThiefLoads   load public (tail < split?)
//!            ThiefReads   read slot[tail]
//!            ThiefSwings  swing tail + 1
//! ```
//! A thief may take several scope items at once: `ThiefReads` reads that many slots, and `ThiefSwings` moves
//! `tail` by as many. An owner that takes back its own push leaves out reading the slot at `PopPrivate` and
//! `PopPublic`.
//!
//! *Begun*: mostly no thread but its pusher ever looks at an item. So the push of a begun item writes only
//! what its pusher needs. The owner *finishes* an item before it publishes it.
//!
//! *Floor*: an item may be a *join item*: its pusher comes back for just this index, and takes tail > index
//! for "stolen". So a rewind goes no lower than above the youngest join item. Every other item is a *scope
//! item*.
//!
//! # The race
//! A thief loads the word, reads a slot, and falls asleep. The owner takes that item back, runs it, pushes
//! another item in the same place, and publishes it. Now tail and split are what they were. The thief wakes
//! and finds the word as it was. It claims an item that was never stolen, and runs what it read: a job whose
//! frame is gone. Reading the slot after the claim does not help. The owner, seeing its item stolen, could
//! reuse the slot before the thief has read it.
//!
//! # Ordering
//! - *One claimer an item.* Public items leave by `PopPublic` and `ThiefSwings`. These are read-modify-writes
//!   of one word, each from the value it was computed from. The owner changes the version whenever it moves
//!   `split` down (`PopPublic`, `Rewind`), so a value of the word does not recur. (That would take 2^36
//!   changes inside one thief's window, six minutes at 5 ns.)
//! - *A thief has read what it claims.* `ThiefLoads` (Acquire) reads from `RaiseSplit` (Release) or from a
//!   read-modify-write behind it, so `ThiefReads` sees `WriteSlot` of that item or a later write of the slot.
//!   A later write comes after a `PopPublic` or `Rewind` of the owner, and then `ThiefSwings` fails.
//!   `ThiefSwings` and that `PopPublic` cannot both follow the same value of the word, and `Rewind` changes
//!   the value. `ThiefLoads` also makes visible what the owner wrote before it published: the job, and what
//!   was written when it was finished.
//! - *No slot is reused before the thread that claimed it has read it.* The owner writes slot i again after
//!   `PopPublic`, or after it has learned from the word (Acquire) that tail > i. `ThiefSwings` is Release, so
//!   `ThiefReads` came before. Slots are atomics all the same, for the thieves that read and then fail.
//! - *`Rewind` may be a store*: at `Rewind` tail = split, so nothing is public and no `ThiefSwings` can
//!   succeed.
//!
//! # Rejected
//! - Chase and Lev's deque: its owner needs a full fence for every pop, and every item is public.
//! - One public slot, refilled by the owner (Spice, chili): it starves all thieves but one while the owner is
//!   in a long leaf.
//! - Indices that wrap around: "tail > i" is no answer once the indices may have lapped. Scope items that do
//!   not fit go elsewhere.
//!
//! # Sources
//! Split deques: Lace, after Wool; private deques with explicit sharing.

use std::cell::Cell;
use std::fmt;

use crate::loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::loom::sync::atomic::{AtomicPtr, AtomicU64};
use crate::loom::{DEQUE_CAPACITY, null_pointers};
use crate::util::pad::CachePadded;

const CAPACITY: u32 = DEQUE_CAPACITY as u32;
const FIELD: u32 = 0x3fff;
const SPLIT: u64 = 1 << 14;
const VERSION: u64 = 1 << 28;
const _: () = assert!(CAPACITY <= FIELD);

/// The most items that a thief takes at once.
const MOST: usize = 32;

/// The lowest bits of an item's address carry a mark; items are aligned to at least four bytes. Every mark
/// but `SCOPE` means that the item is a join item.
const MARKS: usize = 3;

/// The mark of an item that is begun. It is zero, so that the push need not add it.
const BEGUN: usize = 0;

const SCOPE: usize = 1;

/// The mark of a join item that is finished.
const JOIN: usize = 2;

/// The mark of an item that the owner has [noted](Deque::note).
const NOTED: usize = 3;

/// See the module's docs.
pub struct Deque<T> {
    /// Alone on its lines, because thieves read it while the owner works on the other fields.
    public: CachePadded<AtomicU64>,
    own: CachePadded<Own>,
    /// On lines that no thread writes.
    slots: Box<[AtomicPtr<T>]>,
}

/// The owner's alone. Written at each push and pop.
#[derive(Default)]
struct Own {
    /// The next free index.
    head: Cell<u32>,
    /// A copy of the `split` of `public`.
    split: Cell<u32>,
}

// SAFETY: the cells are touched only by methods that require the caller to be the owner. Items are pointers
// that the deque does not follow.
unsafe impl<T> Send for Deque<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Deque<T> {}

/// What became of an item that its pusher wants back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// The pusher has it back, and the deque does not have it any more.
    Back,
    /// A thief has it.
    Stolen,
}

impl<T> Deque<T> {
    const HAS_ROOM_FOR_MARKS: () = assert!(align_of::<T>() > MARKS);

    pub fn new() -> Self {
        () = Self::HAS_ROOM_FOR_MARKS;
        Self {
            public: CachePadded::new(AtomicU64::new(0)),
            own: CachePadded::default(),
            slots: null_pointers(DEQUE_CAPACITY),
        }
    }

    /// The index that the next push gets.
    ///
    /// # Safety
    /// 1. The caller is the owner.
    #[inline(always)]
    pub unsafe fn head(&self) -> u32 {
        self.own.head.get()
    }

    /// `WriteSlot`, `RaiseHead`: pushes an item whose pusher will come back for it, by
    /// [`take_back`](Self::take_back) of the same index. Returns false if the deque is full.
    ///
    /// # Safety
    /// 1. The caller is the owner. 2. The item stays valid until it has been taken back, or claimed and used.
    #[allow(dead_code, reason = "called by tests and models")]
    pub unsafe fn push_join_item(&self, item: *mut T) -> bool {
        let head = self.own.head.get();
        if head == CAPACITY {
            return false;
        }
        // SAFETY: (1), and the check leaves space.
        unsafe { self.put(head, item.map_addr(|address| address | JOIN)) };
        true
    }

    /// As [`push_join_item`](Self::push_join_item), for an item that is only begun. Returns its index.
    ///
    /// # Safety
    /// 1. The caller is the owner. 2. The deque is not full. 3. The item is [finished](Self::finish) before
    ///    it is published. From then on it stays valid until it has been taken back, or claimed and used.
    #[inline(always)]
    pub unsafe fn begin_join_item(&self, item: *mut T) -> u32 {
        let head = self.own.head.get();
        // SAFETY: (1), (2).
        unsafe { self.put(head, item) };
        head
    }

    /// Finishes the private items that are only begun, from the youngest on. `finish` writes the rest of an
    /// item, and returns the address under which the deque keeps it.
    ///
    /// # Safety
    /// 1. The caller is the owner.
    #[inline]
    pub unsafe fn finish(&self, finish: impl Fn(*mut T) -> *mut T) {
        for index in (self.own.split.get()..self.own.head.get()).rev() {
            let item = self.slot(index);
            match mark(item) {
                // Relaxed: `RaiseSplit` publishes it.
                BEGUN => {
                    self.slots[index as usize].store(finish(item).map_addr(|address| address | JOIN), Relaxed)
                }
                SCOPE => {}
                // This item was finished before, and so were those below it.
                _ => break,
            }
        }
    }

    /// `WriteSlot`, `RaiseHead`: pushes a scope item, at an index below `limit`. Returns false if there is no
    /// space.
    ///
    /// # Safety
    /// 1. The caller is the owner. 2. The item stays valid until it has been taken and used. 3. `limit` is at
    ///    most the capacity.
    #[inline]
    pub unsafe fn push(&self, item: *mut T, limit: u32) -> bool {
        // SAFETY: (1).
        if self.own.head.get() >= limit && !unsafe { self.make_room(limit) } {
            return false;
        }
        // SAFETY: (1); the head is below `limit`, and so by (3) below the capacity.
        unsafe { self.put(self.own.head.get(), item.map_addr(|address| address | SCOPE)) };
        true
    }

    /// Does [`push`](Self::push) and [`publish`](Self::publish) at once, if no item is private. Returns
    /// false, and does nothing, if there is no space or an item is private.
    ///
    /// # Safety
    /// 1. to 3. as for [`push`](Self::push).
    #[inline(always)]
    pub unsafe fn push_public(&self, item: *mut T, limit: u32) -> bool {
        let head = self.own.head.get();
        if head >= limit || head != self.own.split.get() {
            return false;
        }
        // SAFETY: (1); `head` is below `limit`, and so by (3) below the capacity.
        unsafe { self.put(head, item.map_addr(|address| address.wrapping_add(SCOPE))) };
        // Release: pairs with `ThiefLoads`.
        self.public.fetch_add(SPLIT, Release);
        self.own.split.set(head + 1);
        true
    }

    /// # Safety
    /// 1. The caller is the owner. 2. `head` is its index, below the capacity.
    #[inline(always)]
    unsafe fn put(&self, head: u32, item: *mut T) {
        debug_assert!(head < CAPACITY);
        // SAFETY: (2).
        // Relaxed: `RaiseSplit` publishes it.
        unsafe { self.slots.get_unchecked(head as usize) }.store(item, Relaxed);
        self.own.head.set(head + 1);
    }

    /// Whether thieves find nothing here. For the owner this is exact except for thefts, for others a hint.
    #[inline(always)]
    pub fn is_nothing_public(&self) -> bool {
        // Relaxed: the items are not followed.
        let word = self.public.load(Relaxed);
        split(word) == tail(word)
    }

    /// Whether the item at `index` is or was public.
    ///
    /// # Safety
    /// 1. The caller is the owner.
    #[inline(always)]
    pub unsafe fn is_public(&self, index: u32) -> bool {
        index < self.own.split.get()
    }

    /// The index of the oldest private item, or of the next one.
    ///
    /// # Safety
    /// 1. The caller is the owner.
    pub unsafe fn first_private(&self) -> u32 {
        self.own.split.get()
    }

    /// Marks the private item at `index`. The mark stays until the item is taken back or claimed, and another
    /// item is put there.
    ///
    /// # Safety
    /// 1. The caller is the owner. 2. The item is private, a join item, and finished.
    pub unsafe fn note(&self, index: u32) {
        debug_assert!(matches!(mark(self.slot(index)), JOIN | NOTED));
        debug_assert!(self.own.split.get() <= index && index < self.own.head.get());
        // Relaxed: this is `WriteSlot` once more, and `RaiseSplit` publishes it.
        self.slots[index as usize].store(self.slot(index).map_addr(|address| address | NOTED), Relaxed);
    }

    /// Whether the item that was last put at `index` has been [noted](Self::note).
    ///
    /// # Safety
    /// 1. The caller is the owner.
    pub unsafe fn is_noted(&self, index: u32) -> bool {
        mark(self.slot(index)) == NOTED
    }

    /// Whether thieves have left an item.
    ///
    /// # Safety
    /// 1. The caller is the owner.
    pub unsafe fn has_items(&self) -> bool {
        // Relaxed: the items are not followed.
        tail(self.public.load(Relaxed)) < self.own.head.get()
    }

    /// `RaiseSplit`: lets thieves have the oldest `n` private items, or all if there are fewer. Returns their
    /// number.
    ///
    /// # Safety
    /// 1. The caller is the owner. 2. These items are [finished](Self::finish).
    pub unsafe fn publish(&self, n: u32) -> u32 {
        let n = n.min(self.own.head.get() - self.own.split.get());
        debug_assert!((self.own.split.get()..).take(n as usize).all(|index| mark(self.slot(index)) != BEGUN));
        if n > 0 {
            // Release: pairs with `ThiefLoads`.
            self.public.fetch_add(u64::from(n) * SPLIT, Release);
            self.own.split.set(self.own.split.get() + n);
        }
        n
    }

    /// `PopPrivate` without reading the slot: takes the item at `index` back if it is private. Returns false
    /// if it is or was public.
    ///
    /// # Safety
    /// 1. The caller is the owner. 2. It pushed a join item there, and has not taken it back. 3. If the
    ///    item is private, then all that was pushed afterwards has been taken out.
    #[inline(always)]
    pub unsafe fn take_back_private(&self, index: u32) -> bool {
        if index < self.own.split.get() {
            return false;
        }
        debug_assert!(self.own.head.get() == index + 1);
        self.own.head.set(index);
        true
    }

    /// `PopPrivate`, `PopPublic`, `Rewind`: takes back the item at `index`, which is the youngest, or learns
    /// that it was stolen.
    ///
    /// # Safety
    /// 1. The caller is the owner. 2. It pushed a join item there, has not taken it back, and has taken
    ///    out all that was pushed afterwards.
    pub unsafe fn take_back(&self, index: u32) -> Taken {
        debug_assert!(self.own.head.get() == index + 1);
        // SAFETY: (1), (2): the item is the youngest, and the only join item at `index` or above. `reclaim`
        // is called only if the item is or was public.
        let is_back = unsafe { self.take_back_private(index) || self.reclaim(index, index).is_some() };
        if is_back { Taken::Back } else { Taken::Stolen }
    }

    /// Takes the youngest item at or above `floor`, if thieves have left one.
    ///
    /// # Safety
    /// 1. The caller is the owner. 2. No join item is at `floor` or above.
    #[inline]
    pub unsafe fn pop(&self, floor: u32) -> Option<*mut T> {
        let head = self.own.head.get();
        if head <= floor {
            return None;
        }
        let index = head - 1;
        if index >= self.own.split.get() {
            self.own.head.set(index);
            // SAFETY: the index is below the capacity: an item was there.
            return Some(unsafe { self.item(index) });
        }
        // SAFETY: (1), (2); `index` is the youngest item's, and below `split`.
        unsafe { self.reclaim(index, floor) }
    }

    /// Takes the youngest item, if it is a scope item and thieves have left it.
    ///
    /// # Safety
    /// 1. The caller is the owner.
    pub unsafe fn pop_if_scope_item(&self) -> Option<*mut T> {
        let youngest = self.own.head.get().checked_sub(1)?;
        let is_scope_item = mark(self.slot(youngest)) == SCOPE;
        // SAFETY: (1); it is a scope item, and the youngest.
        if is_scope_item { unsafe { self.pop(youngest) } } else { None }
    }

    /// `PopPublic`, or `Rewind` if the youngest item, at `index`, was stolen.
    ///
    /// # Safety
    /// 1. The caller is the owner; `index` is the youngest item's, and that item is or was public. 2. No
    ///    join item is at `floor` or above, except the one for which the caller has come back.
    #[inline]
    unsafe fn reclaim(&self, index: u32, floor: u32) -> Option<*mut T> {
        debug_assert!(self.own.split.get() == index + 1);
        // Acquire: pairs with `ThiefSwings`, for the reuse of slots.
        let mut word = self.public.load(Acquire);
        while tail(word) <= index {
            // (version + 1, split = index, tail): `split` was index + 1.
            debug_assert!(split(word) == index + 1);
            let reclaimed = word.wrapping_add(VERSION - SPLIT);
            // Relaxed: the item is our own. Acquire if it fails: as above.
            match self.public.compare_exchange_weak(word, reclaimed, Relaxed, Acquire) {
                Ok(_) => {
                    self.own.split.set(index);
                    self.own.head.set(index);
                    // SAFETY: the index is below the capacity: an item was there.
                    return Some(unsafe { self.item(index) });
                }
                Err(actual) => word = actual,
            }
        }
        // SAFETY: (1): nothing is public or private, because tail = split = head; and (2).
        unsafe { self.rewind(word, floor) };
        None
    }

    /// `Rewind`: an empty deque begins again at `floor`.
    ///
    /// # Safety
    /// 1. The caller is the owner. 2. Nothing is private or public; `word` is the word. 3. At `floor` or
    ///    above there is no join item for which its pusher will come back.
    #[cold]
    unsafe fn rewind(&self, word: u64, floor: u32) {
        debug_assert!(split(word) == tail(word) && floor <= tail(word));
        // Relaxed: nothing is public, so no thread acquires by this store. No thief's `ThiefSwings` can come
        // between, as the module's docs show.
        self.public.store(pack(version(word).wrapping_add(VERSION), floor, floor), Relaxed);
        self.own.split.set(floor);
        self.own.head.set(floor);
    }

    /// Makes space below `limit`, if all scope items on top were stolen.
    ///
    /// # Safety
    /// 1. The caller is the owner.
    #[cold]
    unsafe fn make_room(&self, limit: u32) -> bool {
        // Acquire: pairs with `ThiefSwings`, for the reuse of slots.
        let word = self.public.load(Acquire);
        if tail(word) != self.own.head.get() {
            return false;
        }
        let join = (0..self.own.head.get()).rev().find(|&index| mark(self.slot(index)) != SCOPE);
        let floor = join.map_or(0, |index| index + 1);
        if floor >= limit {
            return false;
        }
        // SAFETY: (1). All items were stolen, and `floor` is above all join items.
        unsafe { self.rewind(word, floor) };
        true
    }

    /// `ThiefLoads` to `ThiefSwings`: takes the oldest public item, if there is one and it `is_wanted`. For
    /// any thread, also for the owner.
    ///
    /// `is_wanted` must not follow the pointer that it gets, because the item may be gone already.
    pub fn steal(&self, is_wanted: impl Fn(*mut T) -> bool) -> Option<*mut T> {
        self.steal_several(1, is_wanted, |_| unreachable!("one was asked for"))
    }

    /// As [`steal`](Self::steal), and takes scope items behind the oldest as well: at most `most` in all, and
    /// no more than half of what is public. They are given to `put`, the youngest first.
    pub fn steal_several(
        &self,
        most: u32,
        is_wanted: impl Fn(*mut T) -> bool,
        mut put: impl FnMut(*mut T),
    ) -> Option<*mut T> {
        let mut items = [std::ptr::null_mut(); MOST];
        // Acquire: pairs with `RaiseSplit`.
        let mut word = self.public.load(Acquire);
        loop {
            let (tail, public) = (tail(word), split(word) - tail(word));
            if public == 0 {
                return None;
            }
            let most = public.div_ceil(2).min(most).min(MOST as u32);
            let mut n = 0;
            for (place, index) in items.iter_mut().zip(tail..tail + most) {
                let item = self.slot(index);
                let is_join_item = mark(item) != SCOPE;
                *place = item.map_addr(|address| address & !MARKS);
                if !is_wanted(*place) || is_join_item && n > 0 {
                    break;
                }
                n += 1;
                if is_join_item {
                    break;
                }
            }
            if n == 0 {
                // The items may be of this value of the word or of another. The caller comes again.
                return None;
            }
            // Release: the slots were read before they are reused. Acquire if it fails: `ThiefLoads` of the
            // next round.
            match self.public.compare_exchange_weak(word, word + n as u64, Release, Acquire) {
                Ok(_) => {
                    items[1..n].iter().rev().for_each(|&item| put(item));
                    return Some(items[0]);
                }
                Err(actual) => word = actual,
            }
        }
    }

    /// The item at `index`, without the marks.
    ///
    /// # Safety
    /// 1. `index` is below the capacity.
    #[inline(always)]
    unsafe fn item(&self, index: u32) -> *mut T {
        debug_assert!(index < CAPACITY);
        // SAFETY: (1).
        // Relaxed: ordered by the word.
        let item = unsafe { self.slots.get_unchecked(index as usize) }.load(Relaxed);
        item.map_addr(|address| address & !MARKS)
    }

    #[inline(always)]
    fn slot(&self, index: u32) -> *mut T {
        // Relaxed: ordered by the word.
        self.slots[index as usize].load(Relaxed)
    }

    /// Checks the conditions that hold between two calls of the owner.
    ///
    /// # Safety
    /// 1. The caller is the owner.
    #[allow(dead_code, reason = "called by tests and models")]
    pub unsafe fn validate(&self) {
        // Relaxed: the items are not followed.
        let word = self.public.load(Relaxed);
        let (tail, split, head) = (tail(word), split(word), self.own.head.get());
        assert!(tail <= split && split <= head && head <= CAPACITY, "{tail} {split} {head}");
        assert_eq!(split, self.own.split.get());
    }
}

impl<T> fmt::Debug for Deque<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.public.load(Relaxed);
        f.debug_struct("Deque")
            .field("tail", &tail(word))
            .field("split", &split(word))
            .finish_non_exhaustive()
    }
}

fn mark<T>(item: *mut T) -> usize {
    item.addr() & MARKS
}

fn tail(word: u64) -> u32 {
    word as u32 & FIELD
}

fn split(word: u64) -> u32 {
    (word / SPLIT) as u32 & FIELD
}

/// The version, at its place in the word.
fn version(word: u64) -> u64 {
    word & !(VERSION - 1)
}

/// An overflow of `version` leaves the word, so the version begins again at 0.
fn pack(version: u64, split: u32, tail: u32) -> u64 {
    version | (u64::from(split) * SPLIT) | u64::from(tail)
}

#[cfg(all(test, not(loom)))]
mod tests;
