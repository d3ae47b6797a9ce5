//! One registered source, and the tasks that wait for it.
//!
//! A task that waits through a `poll_*` function leaves its waker in a slot, where it stays for the next
//! time. `readiness.rs` has the protocol. A future of `ready()` and the like stands in a list, so that many
//! tasks can wait at once. An event touches the list only while the word says HAS_WAITERS:
//! ```text
//!   waiter (under the lock): set HAS_WAITERS, then link
//!   event: add ready, and see the bit; then lock and collect
//! ```
//! Both change the same word, so one of them comes first. If the event comes first, the waiter sees the
//! readiness in the value that it replaced. If the waiter comes first, the event sees the bit, takes the
//! lock, and sees the waiter.
//!
//! An event takes the waiters that it wakes out of the list. A woken task reads that from `is_linked`,
//! without the lock, and may then free its waiter. So the event takes the waker first, clears `is_linked`
//! last, and does not touch the waiter after that.
//!
//! `dispatch.rs` is the event's side.

use std::fmt;
use std::future::Future;
use std::marker::PhantomPinned;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker};

use crate::loom::cell::UnsafeCell;
use crate::loom::sync::Mutex;
use crate::loom::sync::atomic::Ordering::{Acquire, Relaxed};
use crate::loom::sync::atomic::{AtomicBool, AtomicUsize};
use crate::util::list::{Link, Links, List};
use crate::util::unwind;

use super::interest::Ready;
use super::readiness::{Arm, Direction, Finish, Hold, Readiness, ReadyEvent};

/// What kind of object a descriptor leads to, as far as events mean different things there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceKind {
    /// A direction that was closed stays closed.
    Stream,
    /// An end that was closed may be opened again: a FIFO.
    Pipe,
    /// An error is a message of its own: the next receive takes it. Nothing is closed then, although the
    /// flags call the socket closed for writing. If its user has shut the socket down for reading, a receive
    /// would wait for ever.
    Datagrams,
}

/// The outcome of [`Source::retract`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retracted {
    /// The readiness was cleared; an event comes when it is back.
    Cleared,
    /// A direction was closed for good: its readiness stays, and no event need follow.
    Stays,
    /// Nothing will ever be received.
    Ended,
}

/// One registered source. Its address is its token.
pub struct Source {
    pub(super) readiness: Readiness,
    pub(super) kind: SourceKind,
    /// An event has announced urgent data.
    pub(super) has_urgent: AtomicBool,
    /// The cached wakers. `readiness.rs` says which thread may touch which one when.
    pub(super) slots: [UnsafeCell<Option<Waker>>; 2],
    pub(super) waiters: Mutex<List<Waiter>>,
    /// The number of the driver that watches it. There is one driver so far.
    driver: u32,
    /// Its place among the driver's sources. Read and written under their lock.
    pub(super) index: AtomicUsize,
}

// SAFETY: `readiness` grants access to `slots` to one writer or several readers at a time, and `Waker` is
// `Send` and `Sync`. The other fields are `Sync` by themselves.
unsafe impl Sync for Source {}
// A panic that passes a wait leaves the word and the slots as they were, see `ReleaseOnUnwind`.
impl UnwindSafe for Source {}
impl RefUnwindSafe for Source {}

impl Source {
    /// Makes a source. `assumed` is what the first operations may try without waiting for an event.
    pub fn new(driver: u32, assumed: Ready) -> Self {
        Self {
            readiness: Readiness::new(assumed),
            kind: SourceKind::Stream,
            has_urgent: AtomicBool::new(false),
            slots: [UnsafeCell::new(None), UnsafeCell::new(None)],
            waiters: Mutex::new(List::new()),
            driver,
            index: AtomicUsize::new(usize::MAX),
        }
    }

    /// Sets the kind of the source.
    pub fn of_kind(self, kind: SourceKind) -> Self {
        Self { kind, ..self }
    }

    /// What ends a wait for `mask` now, if anything does.
    #[inline]
    pub fn event(&self, mask: Ready) -> Option<ReadyEvent> {
        self.readiness.event(mask)
    }

    /// Takes back the flags of `event`, unless another event has come since.
    #[inline]
    pub fn clear(&self, event: ReadyEvent) {
        self.readiness.clear(event);
    }

    /// As [`clear`](Self::clear), for an operation that waited for the flags `mask` and answered
    /// `WouldBlock`.
    #[inline]
    pub fn retract(&self, event: ReadyEvent, mask: Ready) -> Retracted {
        if (event.ready & Ready::FINAL).is_empty() {
            self.readiness.clear(event);
            return Retracted::Cleared;
        }
        match self.kind {
            SourceKind::Stream => {
                self.readiness.clear(event);
                Retracted::Stays
            }
            SourceKind::Datagrams if event.ready.is_read_closed() => {
                // If the operation may be a send, the answer says nothing of what is received. So a receive
                // that waits for both polls again and again, as in Tokio.
                if !mask.is_writable() {
                    return Retracted::Ended;
                }
                self.readiness.clear(event);
                Retracted::Stays
            }
            // The operation has shown that nothing is closed.
            SourceKind::Pipe | SourceKind::Datagrams => {
                self.readiness.clear_closed(event);
                Retracted::Cleared
            }
        }
    }

    /// Whether urgent data was announced by the event on whose readiness the caller relied, or by an earlier
    /// one. A read stops before such data, so a short read has not emptied the source then.
    #[inline]
    pub fn has_urgent(&self) -> bool {
        // Relaxed: the store comes before the readiness of the same event, which the caller has acquired. If
        // the caller relied on an older event, its clear does nothing.
        self.has_urgent.load(Relaxed)
    }

    /// Waits in the slot of `direction`. An event wakes the last task that waited there.
    #[inline]
    pub fn poll_ready(&self, cx: &mut Context<'_>, direction: Direction) -> Poll<ReadyEvent> {
        match self.readiness.event(direction.mask()) {
            Some(event) => Poll::Ready(event),
            None => self.wait_in_slot(cx.waker(), direction),
        }
    }

    fn wait_in_slot(&self, waker: &Waker, direction: Direction) -> Poll<ReadyEvent> {
        let is_waking = match self.readiness.hold(direction) {
            Hold::Held { is_waking } => is_waking,
            Hold::Ready(event) => return Poll::Ready(event),
            Hold::Busy => {
                waker.wake_by_ref();
                return Poll::Pending;
            }
        };
        let slot = &self.slots[direction as usize];
        // SAFETY: the slot is held, so no other thread writes it.
        let is_ours =
            slot.with(|slot| unsafe { &*slot }.as_ref().is_some_and(|stored| stored.will_wake(waker)));
        let mut previous = None;
        if !is_ours {
            if is_waking {
                self.give_back(direction);
                waker.wake_by_ref();
                return Poll::Pending;
            }
            let bomb = ReleaseOnUnwind { source: self, direction };
            let ours = waker.clone();
            std::mem::forget(bomb);
            // SAFETY: the slot was taken while no event was waking, and no event begins to wake while it is
            // held. So this thread alone accesses it.
            previous = slot.with_mut(|slot| unsafe { &mut *slot }.replace(ours));
        }
        let arm = self.readiness.arm(direction);
        drop(previous);
        match arm {
            Arm::Armed => Poll::Pending,
            Arm::Ready(event) => Poll::Ready(event),
            Arm::Last(event) => {
                self.empty(direction);
                Poll::Ready(event)
            }
        }
    }

    /// Gives back a slot that the caller holds and has not written.
    #[cold]
    fn give_back(&self, direction: Direction) {
        if !self.readiness.release(direction) {
            self.empty(direction);
        }
    }

    /// Waits in the list, as any number of tasks may.
    pub fn ready(&self, mask: Ready) -> WaitReady<'_> {
        WaitReady { source: self, has_registered: false, waiter: Waiter::new(mask) }
    }

    /// Drops the cached wakers, and wakes no task from now on. The caller ensures that no task waits any
    /// more.
    pub fn detach(&self) {
        let emptied = self.readiness.detach();
        for direction in Direction::BOTH {
            if emptied[direction as usize] {
                self.empty(direction);
            }
        }
    }

    /// The number of the driver that watches it.
    pub fn driver(&self) -> u32 {
        self.driver
    }

    /// Calls the waker in the slot of `direction`, and finishes the wake. The caller is WAKING there. A panic
    /// of the waker is caught.
    pub(in crate::driver) fn wake_slot(&self, direction: Direction) {
        self.wake_cached(direction);
        self.finish_wake(direction);
    }

    #[inline]
    pub(super) fn finish_wake(&self, direction: Direction) {
        let finish = self.readiness.finish_wake(direction);
        if finish != Finish::Done {
            self.go_on_waking(direction, finish);
        }
    }

    #[cold]
    fn go_on_waking(&self, direction: Direction, mut finish: Finish) {
        while finish == Finish::Again {
            self.wake_cached(direction);
            finish = self.readiness.finish_wake(direction);
        }
        if finish == Finish::Last {
            self.empty(direction);
        }
    }

    /// Wakes by reference. A panic of the waker is caught.
    fn wake_cached(&self, direction: Direction) {
        self.slots[direction as usize].with(|slot| {
            // SAFETY: the caller is WAKING, and while that is set no thread writes the slot.
            let waker = unsafe { &*slot }.as_ref();
            unwind::run_quietly(|| waker.map_or((), Waker::wake_by_ref));
        });
    }

    /// Drops the waker of a slot that is used no more. Only the thread to which the slot was left calls this.
    fn empty(&self, direction: Direction) {
        // SAFETY: no task arms a source that was detached or shut down. So no event begins to wake, and no
        // task holds the slot. Of the threads that had begun, the last one calls this. If there was none, the
        // caller of `detach` does.
        let waker = self.slots[direction as usize].with_mut(|slot| unsafe { &mut *slot }.take());
        unwind::drop_quietly(waker);
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("readiness", &self.readiness).field("driver", &self.driver).finish()
    }
}

/// Gives a held slot back when a waker panics in `clone`. Holding has disarmed the slot, so the task whose
/// waker is in the slot is woken to look again.
struct ReleaseOnUnwind<'a> {
    source: &'a Source,
    direction: Direction,
}

impl Drop for ReleaseOnUnwind<'_> {
    fn drop(&mut self) {
        self.source.slots[self.direction as usize].with(|slot| {
            // SAFETY: the slot is held, so no other thread writes it.
            let waker = unsafe { &*slot }.as_ref();
            unwind::run_quietly(|| waker.map_or((), Waker::wake_by_ref));
        });
        self.source.give_back(self.direction);
    }
}

/// A node of the list.
pub(super) struct Waiter {
    links: Links<Waiter>,
    /// What ends the wait.
    pub(super) mask: Ready,
    /// There is one while linked. Guarded by the list's lock.
    pub(super) waker: UnsafeCell<Option<Waker>>,
    /// Whether it is in the list. Written under the list's lock. If its task reads false without the lock,
    /// that task alone has access to the waiter.
    pub(super) is_linked: AtomicBool,
    _pinned: PhantomPinned,
}

impl Waiter {
    fn new(mask: Ready) -> Self {
        Self {
            links: Links::new(),
            mask,
            waker: UnsafeCell::new(None),
            is_linked: AtomicBool::new(false),
            _pinned: PhantomPinned,
        }
    }
}

// SAFETY: (1) and (2): the links are always the same field of the node.
unsafe impl Link for Waiter {
    type Node = Waiter;

    unsafe fn links(node: NonNull<Waiter>) -> NonNull<Links<Waiter>> {
        // SAFETY: by (1) `node` is live, so the address of its field may be computed, and is not null.
        unsafe { NonNull::new_unchecked(&raw mut (*node.as_ptr()).links) }
    }
}

/// The future of [`Source::ready`].
#[must_use = "futures do nothing unless awaited"]
pub struct WaitReady<'a> {
    source: &'a Source,
    /// The waiter has been in the list and may still be there.
    has_registered: bool,
    waiter: Waiter,
}

// SAFETY: threads access the waiter under the list's lock; once it is unlinked, only its task does. `Waker`
// is `Send`.
unsafe impl Send for WaitReady<'_> {}
// SAFETY: through a shared reference only `Debug` reads the waiter, and it reads the mask, which never
// changes.
unsafe impl Sync for WaitReady<'_> {}

impl Future for WaitReady<'_> {
    type Output = ReadyEvent;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<ReadyEvent> {
        // SAFETY: nothing is moved out.
        let this = unsafe { self.get_unchecked_mut() };
        let mask = this.waiter.mask;
        if let Some(event) = this.source.readiness.event(mask) {
            this.leave();
            return Poll::Ready(event);
        }

        // Cloned before and dropped after, because no foreign code may run under the lock.
        let ours = cx.waker().clone();
        let mut waiters = this.source.waiters.lock();
        let event = this.source.readiness.announce_waiter(mask);
        let node = NonNull::from(&mut this.waiter);
        this.has_registered = true;
        // SAFETY: `push_back`: (1) the waiter is pinned, and leaves the list in `drop` at the latest; (2) a
        // waiter without a waker is in no list; (3) the lock, which guards the links and the waker, is held.
        let previous = unsafe {
            let previous = node.as_ref().waker.with_mut(|waker| (*waker).replace(ours));
            if previous.is_none() {
                waiters.push_back(node);
                // Relaxed: all writes happen under the lock.
                node.as_ref().is_linked.store(true, Relaxed);
            }
            previous
        };
        drop(waiters);
        drop(previous);
        match event {
            Some(event) => {
                this.leave();
                Poll::Ready(event)
            }
            None => Poll::Pending,
        }
    }
}

impl WaitReady<'_> {
    /// Leaves the list if it is still there.
    fn leave(&mut self) {
        if !std::mem::take(&mut self.has_registered) {
            return;
        }
        // Acquire: pairs with the store in `wake_waiters`, after which the event does not touch the waiter.
        if !self.waiter.is_linked.load(Acquire) {
            // SAFETY: the waiter is in no list, so this task alone can reach it.
            let waker = self.waiter.waker.with_mut(|waker| unsafe { (*waker).take() });
            debug_assert!(waker.is_none(), "an event that unlinks a waiter takes its waker");
            return;
        }
        let mut waiters = self.source.waiters.lock();
        let node = NonNull::from(&mut self.waiter);
        // SAFETY: `remove`: (1) the waiter is live, as a field of `self`; (2) it is in this list, or in none;
        // (3) the lock, which guards the links and the waker, is held.
        let waker = unsafe {
            waiters.remove(node);
            node.as_ref().is_linked.store(false, Relaxed);
            node.as_ref().waker.with_mut(|waker| (*waker).take())
        };
        if waiters.is_empty() {
            self.source.readiness.retract_waiters();
        }
        drop(waiters);
        drop(waker);
    }
}

impl Drop for WaitReady<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl fmt::Debug for WaitReady<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitReady").field("mask", &self.waiter.mask).finish_non_exhaustive()
    }
}
