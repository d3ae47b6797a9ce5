//! An unbounded FIFO into which any thread pushes and from which any worker pops. Its length is readable
//! without its lock. It takes tasks from outside of the workers, and the overflow of the workers' rings.
//!
//! # States
//! ```text
//!   blocks    under the lock: pointers to the items, oldest first, up to half a ring in each
//!   len       written under the lock, before it is released: always their number as of some unlock, or of
//!             the unlock about to happen
//!   newborns  under the lock: the number of counted newborn items so far; see `scheduler/reference.rs`
//! ```
//! A worker takes a block as a whole, by copying pointers: no item is touched under the lock. The items lie
//! in memory that the pushing thread wrote last, so each is a cache miss. The worker asks for all items of a
//! block at once, after the unlock. Links from one item to the next would make these misses wait for one
//! another.
//!
//! The lock's holder lets go with a plain store (`loom/byte_lock.rs`). It is held for a few stores, or for
//! the copy of a block. While tasks pile up, one push in [`BLOCK`] also requests memory under it.
//!
//! A wake may be in flight when the runtime shuts down, so a push must work at any time. The last worker that
//! leaves drains the injector, as often as it takes. It cannot know of a newborn item that is still to come.
//! So it *closes* the queue, under the lock, before it drains it for the last time. A closed queue refuses
//! newborn items.
//!
//! # Steps
//! ```text
//!   push      InjectAdd lock, add; InjectLen store len; InjectUnlock unlock
//!   strict    InjectFence SeqCst fence; InjectWake read the sleepers, wake one if none searches
//!   sleeper   InjectAnnounce announce; InjectSleepFence SeqCst fence; InjectSleepRead read len
//!   pop       InjectPeek read len, leave if it is zero; InjectTake lock, take; InjectTakeLen store len;
//!             InjectTakeUnlock unlock
//!   batch     the steps of a pop, for as much of a block as fits into the ring, which InjectTake puts there;
//!             see `local.rs`
//! ```
//! The scheduler does the steps of *strict*, InjectAnnounce and InjectSleepFence.
//!
//! # The race
//! A thread outside pushes while the last worker goes to sleep. The worker looked at `len` before the push,
//! and the thread looked for sleepers before the worker announced itself. No worker comes for the item.
//!
//! # Ordering
//! `len` is Relaxed on both sides: the fences carry the handshake, the lock carries the items.
//! - *Nothing is stranded.* SeqCst fences have one total order. If InjectSleepFence is before InjectFence,
//!   InjectWake sees InjectAnnounce and a worker is woken. If InjectFence is before InjectSleepFence,
//!   InjectSleepRead reads the value of InjectLen or a later one in `len`'s own order. A later value that is
//!   zero was stored by a worker that has taken the item, and is awake.
//! - *What a reader may conclude.* Not zero: the reader locks and looks. The thread that stored the value is
//!   about to unlock; the queue can be empty again by then. Zero: there was a moment at which the queue was
//!   empty. That moment came after every push that happens before the read, or is ordered before it by fences
//!   as above. A push that is ordered by neither may be missed. So [`is_empty`](Injector::is_empty) alone is
//!   no reason to sleep.
//! - *`len` does not drift.* Suppose that it were stored after the unlock. Then the store of a popper that
//!   left an empty queue could overwrite the store of the next pusher. That item would be hidden from all
//!   threads until the next push.
//! - *A pusher touches no item after InjectUnlock.* By then it may have been popped, run and freed.
//!
//! # Rejected
//! - A lock-free queue. A push comes with a foreign wake, which costs a microsecond anyway, and pops come in
//!   batches. A queue of linked nodes without a lock needs a stub node, and a rule for when a node may be
//!   freed.
//! - Shards. Each is one more cache line that every worker reads before it sleeps.
//! - `len` on a line of its own. Every push and pop that writes it has the lock's line already.
//! - A bound. A wake that meets the bound would have nowhere to put its task. An item is in one queue once,
//!   so there are never more items than live tasks.
//!
//! # Sources
//! The handshake is Dekker's. Go's `sched.runq` and Tokio's `inject` are this queue with other neighbours.

use std::collections::VecDeque;
use std::fmt;
use std::iter;
use std::ptr::NonNull;

use super::intrusive_list::{IntrusiveList, Linked};
use crate::loom::RING_CAPACITY;
use crate::loom::sync::ShortLock;
use crate::loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use crate::util::pad::CachePadded;

/// The number of items in a block, which a worker takes at once. It leaves space in the worker's ring for
/// tasks that these push in turn.
const BLOCK: usize = RING_CAPACITY / 2;
/// The most items that a thread adds while it holds the lock.
const PIECE: usize = 1024;
/// The most blocks for which an empty queue keeps memory.
const MOST_KEPT: usize = 1024;

/// The queue that all workers share. See the module's documentation.
pub struct Injector<T: Linked> {
    inner: CachePadded<Inner<T>>,
}

struct Inner<T: Linked> {
    blocks: ShortLock<Blocks<T>>,
    /// The number of items. Only the holder of the lock writes it; any thread reads it.
    len: AtomicUsize,
    /// The number of counted newborn items. Written and read likewise.
    newborns: AtomicU64,
}

struct Blocks<T> {
    /// No block in here is empty.
    queue: VecDeque<Block<T>>,
    /// The memory of the block that was taken last.
    spare: Option<Block<T>>,
    len: usize,
    /// Newborn items are refused.
    is_closed: bool,
}

/// Up to [`BLOCK`] items, oldest first. The pushers guarantee that all are live and in no other queue.
struct Block<T>(VecDeque<NonNull<T>>);

// SAFETY: the block does nothing to an item. To do more with an item that it returns is unsafe, and justified
// there.
unsafe impl<T> Send for Block<T> {}

impl<T: Linked> Injector<T> {
    /// Makes an empty injector.
    pub fn new() -> Self {
        let blocks = Blocks { queue: VecDeque::new(), spare: None, len: 0, is_closed: false };
        let inner =
            Inner { blocks: ShortLock::new(blocks), len: AtomicUsize::new(0), newborns: AtomicU64::new(0) };
        Self { inner: CachePadded::new(inner) }
    }

    /// The number of waiting items. The module's docs say what a reader may conclude.
    pub fn len(&self) -> usize {
        // Relaxed: InjectSleepRead and InjectPeek. The fences or the lock do the rest.
        self.inner.len.load(Relaxed)
    }

    /// Whether no item waits, with the same limits as [`len`](Self::len).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds `item` as the youngest. The caller still has to notify a worker, by the strict rule.
    ///
    /// # Safety
    /// 1. `item` is live, and stays so at its place until it has been popped. 2. It is in no queue, and its
    ///    right ([`Linked`]) is the caller's.
    pub unsafe fn push(&self, item: NonNull<T>) {
        self.change(|blocks| blocks.push(item));
    }

    /// Adds all items of `batch`, in their order, behind the youngest. Takes the lock once for each
    /// [`PIECE`] of them, because each item may be a cache miss. The caller notifies once.
    pub fn push_batch(&self, mut batch: IntrusiveList<T>) {
        while !batch.is_empty() {
            let mut piece = iter::from_fn(|| batch.pop_front()).take(PIECE);
            self.change(|blocks| piece.by_ref().for_each(|item| blocks.push(item)));
        }
    }

    /// Adds the newborn `item` as the youngest, unless the queue is closed. Returns whether it did. If
    /// `is_counted`, the item counts in [`newborns`](Self::newborns) before it can be popped.
    ///
    /// # Safety
    /// As [`push`](Self::push). If the item is refused, the promises end, and the right is the caller's
    /// again.
    #[inline]
    pub unsafe fn push_unless_closed(&self, item: NonNull<T>, is_counted: bool) -> bool {
        self.change(|blocks| {
            if !blocks.is_closed {
                blocks.push(item);
                if is_counted {
                    let newborns = &self.inner.newborns;
                    // Relaxed: no other thread writes it while this thread holds the lock. The lock also
                    // orders it for the thread that pops the item.
                    newborns.store(newborns.load(Relaxed) + 1, Relaxed);
                }
            }
            !blocks.is_closed
        })
    }

    /// Refuses newborn items from now on. Returns the final number of counted newborn items.
    pub fn close(&self) -> u64 {
        self.change(|blocks| {
            blocks.is_closed = true;
            self.newborns()
        })
    }

    /// The number of newborn items that were counted so far.
    pub fn newborns(&self) -> u64 {
        // Relaxed: a number by itself, unless the caller has the lock.
        self.inner.newborns.load(Relaxed)
    }

    /// Takes the oldest item.
    pub fn pop(&self) -> Option<NonNull<T>> {
        self.pop_with(|_| ()).map(|(item, ())| item)
    }

    /// Takes the oldest item, and lets `f` take items of its block, under the lock. `f` leaves the items that
    /// it does not take.
    pub(super) fn pop_with<R>(
        &self,
        f: impl FnOnce(&mut VecDeque<NonNull<T>>) -> R,
    ) -> Option<(NonNull<T>, R)> {
        if self.is_empty() {
            return None;
        }
        self.change(|blocks| blocks.take_oldest(f))
    }

    /// Runs `f` under the lock, and stores the length before the unlock.
    #[inline]
    fn change<R>(&self, f: impl FnOnce(&mut Blocks<T>) -> R) -> R {
        let mut blocks = self.inner.blocks.lock();
        let result = f(&mut blocks);
        self.inner.len.store(blocks.len, Relaxed);
        result
    }
}

impl<T> Blocks<T> {
    fn push(&mut self, item: NonNull<T>) {
        match self.queue.back_mut() {
            Some(Block(last)) if last.len() < BLOCK => last.push_back(item),
            _ => {
                let mut block = self.spare.take().unwrap_or_else(|| Block(VecDeque::with_capacity(BLOCK)));
                block.0.push_back(item);
                self.queue.push_back(block);
            }
        }
        self.len += 1;
    }

    /// Takes the oldest item, and lets `f` take items of its block.
    fn take_oldest<R>(&mut self, f: impl FnOnce(&mut VecDeque<NonNull<T>>) -> R) -> Option<(NonNull<T>, R)> {
        let Block(block) = self.queue.front_mut()?;
        let before = block.len();
        let first = block.pop_front()?;
        let result = f(block);
        self.len -= before - block.len();
        if block.is_empty() {
            self.spare = self.queue.pop_front();
        }
        if self.queue.is_empty() && self.queue.capacity() > MOST_KEPT {
            self.queue = VecDeque::new();
        }
        Some((first, result))
    }
}

impl<T: Linked> fmt::Debug for Injector<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Injector").field("len", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
