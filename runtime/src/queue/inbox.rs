//! A queue into which any thread pushes, and from which one owner takes all items at once. The owner can
//! sleep on it.
//!
//! It is a stack whose links lie in its items. So a push is one compare-and-swap, and taking all items is one
//! swap. The owner reverses what it took, and has the items in the order of the pushes. The owner leaves its
//! waker only when it is about to sleep, so most pushes look at nothing but the head.
//! [`JoinSet`](crate::task::JoinSet) collects its ended tasks in an inbox.
//! [`LocalSet`](crate::task::LocalSet) collects the tasks that other threads woke.
//!
//! # States
//! ```text
//!   head      EMPTY        nothing is there, and the owner does not wait
//!             WAITING(n)   nothing is there, and the owner has left its n-th waker
//!             an item      the youngest; the owner does not wait
//!             CLOSED       the owner is gone for good, and pushes are refused
//!   waker     under a lock: the waker, and n. Taken out by the pusher that is about to end WAITING(n)
//! ```
//! Only the owner makes the head `EMPTY`, `WAITING` or `CLOSED`. Only pushers make it an item.
//!
//! # Steps
//! ```text
//!   pusher                                            owner
//!   InboxRead   read the head                         InboxSwap   head: items → EMPTY (Acquire)
//!   InboxTake   if WAITING: lock, take the waker      InboxLeave  lock, leave the waker, count n up
//!   InboxPush   head: as read → item (Release),       InboxWait   EMPTY or WAITING(n - 1) → WAITING(n);
//!               or InboxRead again                                fails if there is an item
//!   InboxWake   wake the newest waker that was taken;
//!               then drop the older ones
//! ```
//!
//! # The race
//! The owner finds nothing and goes to sleep while a pusher comes. InboxPush and InboxWait change one word,
//! so one comes first. If InboxPush does, InboxWait fails and the owner takes the item. If InboxWait does,
//! the pusher reads WAITING(n). InboxTake then finds the n-th waker, or finds that another pusher has it.
//!
//! # Argument
//! - *An item is taken once, and what its pusher wrote is seen.* InboxSwap acquires the release of each
//!   InboxPush below the head: the pushes are read-modify-writes of one word, so each continues the release
//!   sequence of those before it.
//! - *No owner sleeps over an item.* A pusher that takes a waker always gets to InboxWake: a push is repeated
//!   until it succeeds, or the inbox is closed by the owner itself. Its own item is pushed before it wakes,
//!   so the poll that follows sees it. A second pusher that reads WAITING(n) and finds no waker relies on the
//!   first. If its InboxPush precedes the first one's, the poll sees both items. If it comes later, it cannot
//!   replace WAITING(n) any more. It reads again, and by then the owner has either taken the first item, or
//!   will.
//! - *Why n is counted.* The owner may be polled with another waker while it waits, and so wait for the
//!   n+1-st time. A pusher that has taken the n-th waker must not end that wait, because it would wake the
//!   wrong task. Its InboxPush fails, as the head is WAITING(n+1), and it takes the new waker, too.
//! - *Others rely on a pusher from InboxTake to InboxWake, so it runs no foreign code between them.* The
//!   destructor of an older waker is foreign, and could wait for the owner. It runs after InboxWake.
//! - *The inbox may be freed as soon as the last item was taken.* A pusher touches neither the inbox nor the
//!   item after InboxPush. That is why InboxTake comes before it.
//!
//! # Rejected
//! - Taking the waker after the push: the owner may have freed the inbox by then.
//! - A waker behind an atomic state of its own: pushes would read two lines, and the state needs the same
//!   proof again.
//!
//! # Sources
//! The stack is Treiber's; the swap is that of the remote free lists of Go and Linux (`llist`). The waiting
//! mark in the head comes from parking locks.

use std::fmt;
use std::ptr::{self, NonNull};
use std::task::Waker;

use super::intrusive_list::{self, IntrusiveList, Linked};
use crate::loom::sync::ShortLock;
use crate::loom::sync::atomic::AtomicPtr;
use crate::loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::util::unwind::drop_quietly;

const CLOSED: usize = 2;
/// The bit of `WAITING(n)`, which is `n << 1 | 1`.
const WAITING: usize = 1;

/// See the module's docs.
pub struct Inbox<T: Linked> {
    head: AtomicPtr<T>,
    waker: ShortLock<Left>,
}

/// The waker that the owner has left for a pusher.
struct Left {
    waker: Option<Waker>,
    /// The number of times that the owner has waited.
    n: usize,
}

/// The wakers that a pusher has taken. All but the newest are of waits that were over.
#[derive(Default)]
struct Taken {
    newest: Option<Waker>,
    older: Vec<Waker>,
}

impl Taken {
    fn add(&mut self, newer: Waker) {
        self.older.extend(self.newest.replace(newer));
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.older.drain(..).chain(self.newest.take()).for_each(drop_quietly);
    }
}

/// The error of [`Inbox::push`]. The owner is gone, so the item is the caller's again.
#[derive(Debug)]
pub struct Closed;

impl<T: Linked> Inbox<T> {
    pub fn new() -> Self {
        const { assert!(align_of::<T>() > CLOSED, "the lowest bits of the head tell a mark from an item") };
        Self { head: AtomicPtr::new(ptr::null_mut()), waker: ShortLock::new(Left { waker: None, n: 0 }) }
    }

    /// Pushes `item`. If the owner waits, `wake` is called with its waker. Everybody relies on that wake.
    ///
    /// # Safety
    /// 1. `this` is valid until the owner has taken `item`. 2. `item` is live, and stays so at its place
    ///    until the owner has taken it. 3. It is in no queue, and its right ([`Linked`]) is the caller's.
    pub unsafe fn push(
        this: NonNull<Self>,
        item: NonNull<T>,
        wake: impl FnOnce(Waker),
    ) -> Result<(), Closed> {
        // SAFETY: (1): the inbox is used only up to the exchange that succeeds.
        let inbox = unsafe { this.as_ref() };
        let mut taken = Taken::default();
        // InboxRead. Acquire: the thread that reads `WAITING` sees the waker that was left before.
        let mut now = inbox.head.load(Acquire);
        loop {
            let is_item = match now.addr() {
                CLOSED => return Err(Closed),
                mark if mark & WAITING != 0 => {
                    // InboxTake.
                    inbox.take_waker().into_iter().for_each(|newer| taken.add(newer));
                    false
                }
                _ => !now.is_null(),
            };
            // SAFETY: (2) and (3): the item is on its way into this queue.
            unsafe { intrusive_list::set_next(item, is_item.then(|| NonNull::new_unchecked(now))) };
            // InboxPush. Release: publishes the pusher's writes. Acquire if it fails, as above.
            match inbox.head.compare_exchange(now, item.as_ptr(), Release, Acquire) {
                Ok(_) => break,
                Err(actual) => now = actual,
            }
        }
        // InboxWake.
        taken.newest.take().map(wake);
        Ok(())
    }

    /// Whether the inbox was empty a moment ago.
    #[inline]
    pub fn is_empty(&self) -> bool {
        !is_item(self.head.load(Relaxed))
    }

    /// Takes all items, oldest first. For the owner.
    pub fn take_all(&self) -> IntrusiveList<T> {
        if self.is_empty() {
            return IntrusiveList::new();
        }
        // InboxSwap. Only the owner takes items away, so there still is one.
        let youngest = self.head.swap(ptr::null_mut(), Acquire);
        Self::chain_of(youngest)
    }

    /// Has the next push return `waker`, so that its pusher wakes it. Returns false if there is an item
    /// already. For the owner.
    pub fn wait(&self, waker: &Waker) -> bool {
        let now = self.head.load(Relaxed);
        if is_item(now) {
            return false;
        }
        let is_waiting = now.addr() & WAITING != 0;
        let has_left = self.waker.lock().waker.as_ref().is_some_and(|left| left.will_wake(waker));
        if is_waiting && has_left {
            return true;
        }
        // The clone, and the drop of the older waker, run foreign code. So both happen without the lock.
        let waker = (!has_left).then(|| waker.clone());
        let mut left = self.waker.lock();
        // InboxLeave.
        left.n = left.n.wrapping_add(1);
        let next = ptr::without_provenance_mut(left.n << 1 | WAITING);
        let older = match waker {
            Some(waker) => left.waker.replace(waker),
            None => None,
        };
        drop(left);
        // InboxWait. Release: publishes the waker to pushers that read the mark. Meanwhile only pushers
        // change the head, and only to an item.
        let is_waiting = self.head.compare_exchange(now, next, Release, Relaxed).is_ok();
        drop(older);
        is_waiting
    }

    /// Takes the owner's waker, if the owner waits. The caller wakes it. For the owner's thread: the owner
    /// will see what that thread did before.
    ///
    /// A pusher that finds the waker gone relies on this wake, as on that of another pusher.
    #[must_use = "pushers rely on the wake"]
    pub fn take_waker(&self) -> Option<Waker> {
        self.waker.lock().waker.take()
    }

    /// Drops the waker that was left, if there is one. For an owner that waits no more.
    pub fn forget_waker(&self) {
        // Its destructor is foreign code, and runs without the lock.
        let left = self.take_waker();
        drop_quietly(left);
    }

    /// Refuses pushes from now on, and takes all items, oldest first. For the owner.
    pub fn close(&self) -> IntrusiveList<T> {
        // Acquire: as in `take_all`. Release: publishes the owner's earlier writes to pushers that are
        // refused.
        let youngest = self.head.swap(ptr::without_provenance_mut(CLOSED), AcqRel);
        self.forget_waker();
        Self::chain_of(youngest)
    }

    /// Makes a list of `youngest`, which was swapped out of the head, and the items below it.
    fn chain_of(youngest: *mut T) -> IntrusiveList<T> {
        match is_item(youngest) {
            // SAFETY: the items were pushed. So they live until the caller lets go, by duty 2 of `push`. The
            // first item was linked to none.
            true => unsafe { IntrusiveList::from_stack(NonNull::new_unchecked(youngest)) },
            false => IntrusiveList::new(),
        }
    }
}

impl<T: Linked> fmt::Debug for Inbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("is_empty", &self.is_empty()).finish_non_exhaustive()
    }
}

/// Whether `head` is an item, not one of the marks.
#[inline]
fn is_item<T>(head: *mut T) -> bool {
    !head.is_null() && head.addr() & (WAITING | CLOSED) == 0
}

#[cfg(all(test, not(loom)))]
mod tests;
