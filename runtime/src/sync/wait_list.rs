//! The wait list: the waiting futures of a primitive of this module, in the order in which they came.
//!
//! A waiter is a node inside the future that waits, so waiting allocates nothing. The wait list is in a mutex
//! of its primitive.
//!
//! # States of a waiter
//! ```text
//!            join                release_front / release_back
//!  apart ──────────▶ in the list ──────────────────────────────▶ released (outcome is set)
//!    ▲                    │
//!    └────────────────────┘ leave (the future is dropped)
//! ```
//! # Which thread may touch what
//! Links and waker: the holder of the lock, while the waiter is in the list; otherwise the waiter's future
//! alone. The outcome is written once, under the lock, by the thread that releases the waiter, *as its last
//! access to the waiter*. The future reads the outcome without the lock.
//!
//! # Ordering
//! WaiterUnlink unlink, WaiterTakeWaker take the waker, WaiterRelease outcome := o (Release); WaiterLook
//! outcome? (Acquire). If WaiterLook sees WaiterRelease, the releaser is done with the node. All that the
//! releaser did before happens before what the future does next, so the future may be freed without the lock.
//! If WaiterLook does not see WaiterRelease, the future takes the lock and looks again. If the releaser has
//! left the lock, the future sees WaiterRelease. If the releaser has not come yet, it finds what the future
//! does now.
//!
//! Wakers are foreign code. They are cloned before the lock is taken, and woken and dropped after it is
//! released.

use std::fmt;
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker};

use crate::loom::cell::UnsafeCell;
use crate::loom::sync::Mutex;
use crate::loom::sync::atomic::{AtomicU8, Ordering};
use crate::util::list::{Link, Links, List};
use crate::util::unwind::FirstPanic;
use crate::util::wake_list::WakeList;

/// The number with which a waiter was released. Each primitive has its own numbers. None is zero.
pub(super) type Outcome = u8;

/// Not released yet.
const NONE: Outcome = 0;

/// A future's place in a wait list.
pub(super) struct Waiter {
    links: Links<Waiter>,
    waker: UnsafeCell<Option<Waker>>,
    outcome: AtomicU8,
    /// A number of the primitive's about its waiter. It never changes.
    key: usize,
    _pinned: PhantomPinned,
}

// SAFETY: only links and waker keep this from being `Send` and `Sync`. They are guarded as the module docs
// say, and any thread may use both.
unsafe impl Send for Waiter {}
// SAFETY: as above.
unsafe impl Sync for Waiter {}

// SAFETY: (1) the result is a field's address. (2) The field lives as long as the node.
unsafe impl Link for Waiter {
    type Node = Waiter;

    unsafe fn links(node: NonNull<Waiter>) -> NonNull<Links<Waiter>> {
        // SAFETY: `node` is live by (1), so the address of its field is in bounds and not null.
        unsafe { NonNull::new_unchecked(&raw mut (*node.as_ptr()).links) }
    }
}

impl Waiter {
    pub(super) fn new(key: usize) -> Self {
        Self {
            links: Links::new(),
            waker: UnsafeCell::new(None),
            outcome: AtomicU8::new(NONE),
            key,
            _pinned: PhantomPinned,
        }
    }

    pub(super) fn key(&self) -> usize {
        self.key
    }

    /// The outcome with which the waiter was released, if it was.
    pub(super) fn outcome(&self) -> Option<Outcome> {
        // WaiterLook: pairs with WaiterRelease.
        match self.outcome.load(Ordering::Acquire) {
            NONE => None,
            outcome => Some(outcome),
        }
    }

    /// Returns the outcome. If there is none yet, `cx` is woken when there is.
    ///
    /// # Safety
    /// 1. This waiter has joined the wait list in `waiters`, and has not left.
    pub(super) unsafe fn poll_outcome(
        &self,
        waiters: &Mutex<WaitList>,
        cx: &mut Context<'_>,
    ) -> Poll<Outcome> {
        let mut fresh = None;
        loop {
            if let Some(outcome) = self.outcome() {
                return Poll::Ready(outcome);
            }
            // Dropped after the lock, whichever waker it holds then.
            let _replaced;
            let list = waiters.lock();
            if self.outcome().is_some() {
                continue;
            }
            // The waiter is not released, so by (1) it is in the list, and the lock makes the slot ours.
            let is_current = self.waker.with(|slot| {
                // SAFETY: as above, no other thread reads or writes the slot.
                unsafe { (*slot).as_ref() }.is_some_and(|waker| waker.will_wake(cx.waker()))
            });
            if is_current {
                return Poll::Pending;
            }
            if fresh.is_some() {
                // SAFETY: as above.
                _replaced = self.waker.with_mut(|slot| unsafe { std::mem::replace(&mut *slot, fresh) });
                return Poll::Pending;
            }
            drop(list);
            fresh = Some(cx.waker().clone());
        }
    }
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiter")
            .field("key", &self.key)
            .field("outcome", &self.outcome())
            .finish_non_exhaustive()
    }
}

/// The waiters of one primitive, in the order in which they came.
#[derive(Debug)]
pub(super) struct WaitList {
    /// Every node in the list is live, because its future leaves before it is freed, by duty 2 of
    /// [`join`](Self::join).
    list: List<Waiter>,
}

impl WaitList {
    pub(super) const fn new() -> Self {
        Self { list: List::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The key of the first waiter.
    pub(super) fn front_key(&self) -> Option<usize> {
        // SAFETY: nodes in the list are live.
        self.list.front().map(|node| unsafe { node.as_ref() }.key)
    }

    /// Puts `waiter` at the end of the wait list. Its release will wake `waker`, if any.
    ///
    /// # Safety
    /// 1. `waiter` has never joined a wait list. 2. It calls [`leave`](Self::leave) on this list before it is
    ///    freed, unless it has seen its outcome.
    pub(super) unsafe fn join(&mut self, waiter: Pin<&Waiter>, waker: Option<Waker>) {
        // SAFETY: by (1) the waiter is not in the list, so only its future, which calls this, touches its
        // slot.
        waiter.waker.with_mut(|slot| unsafe { *slot = waker });
        // SAFETY: (1) the waiter is pinned, and live until it has left, by our (2). (2) By our (1). (3)
        // `self` is borrowed mutably.
        unsafe { self.list.push_back(NonNull::from(waiter.get_ref())) };
    }

    /// Takes `waiter` out of the wait list. If it was released before, returns its outcome instead. The
    /// caller drops the returned waker after the lock.
    ///
    /// # Safety
    /// 1. `waiter` has joined this list, and has not left it.
    pub(super) unsafe fn leave(&mut self, waiter: Pin<&Waiter>) -> (Option<Outcome>, Option<Waker>) {
        if let Some(outcome) = waiter.outcome() {
            return (Some(outcome), None);
        }
        // SAFETY: (1) `waiter` is borrowed. (2) It is not released, so by our (1) it is in the list. (3)
        // `self` is borrowed mutably.
        unsafe { self.list.remove(NonNull::from(waiter.get_ref())) };
        // SAFETY: the waiter is out of the wait list, so the slot belongs to its future, which calls this.
        (None, waiter.waker.with_mut(|slot| unsafe { (*slot).take() }))
    }

    /// Releases the first waiter with `outcome` and adds its waker to `wakers`. Returns whether there was a
    /// waiter.
    pub(super) fn release_front(&mut self, outcome: Outcome, wakers: &mut WakeList) -> bool {
        self.list.front().map(|node| self.release(node, outcome, wakers)).is_some()
    }

    /// Releases the last waiter, otherwise as [`release_front`](Self::release_front).
    pub(super) fn release_back(&mut self, outcome: Outcome, wakers: &mut WakeList) -> bool {
        self.list.back().map(|node| self.release(node, outcome, wakers)).is_some()
    }

    /// Releases `node`, which must be in the list.
    fn release(&mut self, node: NonNull<Waiter>, outcome: Outcome, wakers: &mut WakeList) {
        // WaiterUnlink. SAFETY: (1) nodes in the list are live; (2) it is in this one; (3) `self` is borrowed
        // mutably.
        unsafe { self.list.remove(node) };
        // SAFETY: the waiter stays live until its future sees the outcome, or takes the lock, which this
        // thread holds.
        let waiter = unsafe { node.as_ref() };
        // WaiterTakeWaker. SAFETY: this thread holds the lock and the outcome is not set, so the slot is
        // ours.
        if let Some(waker) = waiter.waker.with_mut(|slot| unsafe { (*slot).take() }) {
            wakers.push(waker);
        }
        // WaiterRelease, pairs with WaiterLook: the last access.
        waiter.outcome.store(outcome, Ordering::Release);
    }
}

/// Runs `step` under the lock as long as it asks for more, and wakes the collected wakers with the lock
/// released.
///
/// `step` must ask for more when the list of wakers is full and there may be another waiter to release. A
/// waker that panics keeps no other task asleep: the first panic is resumed at the end.
pub(super) fn release_in_batches(
    waiters: &Mutex<WaitList>,
    mut step: impl FnMut(&mut WaitList, &mut WakeList) -> bool,
) {
    let mut wakers = WakeList::new();
    let mut panic = FirstPanic::new();
    loop {
        let is_more = step(&mut waiters.lock(), &mut wakers);
        panic.catch(|| wakers.wake_all());
        if !is_more {
            break;
        }
    }
    panic.resume();
}
