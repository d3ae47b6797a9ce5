//! One registered source, and those who wait for it.
//!
//! Who waits through a `poll_*` function leaves its waker in a slot (`readiness.rs` has the protocol), where it stays
//! for the next time. Who awaits `ready()` and the like stands in a list, so that many tasks can wait at once. The
//! list is touched only while the word says HAS_WAITERS:
//! ```text
//!   waiter (under the lock): link, then set HAS_WAITERS     event: add ready, and see the bit; then lock and collect
//! ```
//! Both change the same word, so one of them comes first: either the waiter sees the readiness in what it replaced,
//! or the event sees the bit and then, having the lock, the waiter.

use std::fmt;
use std::future::Future;
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker};

use crate::loom::cell::UnsafeCell;
use crate::loom::sync::Mutex;
use crate::loom::sync::atomic::AtomicUsize;
use crate::util::list::{Link, Links, List};
use crate::util::unwind;
use crate::util::wake_list::WakeList;

use super::interest::Ready;
use super::readiness::{Direction, Finish, Hold, Readiness, ReadyEvent, Wakes};

/// One registered source. Its address is its token.
pub struct Source {
    readiness: Readiness,
    /// The cached wakers. Who may touch which when: `readiness.rs`.
    slots: [UnsafeCell<Option<Waker>>; 2],
    waiters: Mutex<List<Waiter>>,
    /// Which driver watches it. There is one so far.
    driver: u32,
    /// Its place among the driver's sources; read and written under their lock.
    pub(super) index: AtomicUsize,
}

// SAFETY: `slots` are accessed by whom `readiness` grants it, one writer or several readers at a time, and `Waker` is
// `Send` and `Sync`. The rest is so by itself.
unsafe impl Sync for Source {}

impl Source {
    /// `assumed` is what the first operations may try without waiting for an event.
    pub fn new(driver: u32, assumed: Ready) -> Self {
        Self {
            readiness: Readiness::new(assumed),
            slots: [UnsafeCell::new(None), UnsafeCell::new(None)],
            waiters: Mutex::new(List::new()),
            driver,
            index: AtomicUsize::new(usize::MAX),
        }
    }

    /// What ends a wait for `mask` now, if anything does.
    #[inline]
    pub fn event(&self, mask: Ready) -> Option<ReadyEvent> {
        self.readiness.event(mask)
    }

    /// Takes back what `event` had promised, unless another event has come since.
    #[inline]
    pub fn clear(&self, event: ReadyEvent) {
        self.readiness.clear(event);
    }

    /// Waits in the slot of `direction`: the last task to do so is the one that is woken.
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
        // SAFETY: the slot is held, so nobody writes it.
        let is_ours =
            slot.with(|slot| unsafe { &*slot }.as_ref().is_some_and(|stored| stored.will_wake(waker)));
        let mut previous = None;
        if !is_ours {
            if is_waking {
                self.readiness.release(direction);
                waker.wake_by_ref();
                return Poll::Pending;
            }
            let bomb = ReleaseOnUnwind { source: self, direction };
            let ours = waker.clone();
            std::mem::forget(bomb);
            // SAFETY: held while no event was waking, and none begins to while the slot is held: it is ours alone.
            previous = slot.with_mut(|slot| unsafe { &mut *slot }.replace(ours));
        }
        let event = self.readiness.arm(direction);
        drop(previous);
        match event {
            Some(event) => Poll::Ready(event),
            None => Poll::Pending,
        }
    }

    /// Waits in the list, as any number of tasks may.
    pub fn ready(&self, mask: Ready) -> WaitReady<'_> {
        WaitReady { source: self, has_registered: false, waiter: Waiter::new(mask) }
    }

    /// Adds what the system reports and wakes whom it concerns. What panics there goes no further.
    #[inline]
    pub fn dispatch(&self, ready: Ready) {
        let wakes = self.readiness.add(ready);
        self.wake(wakes, ready);
    }

    /// Ends every wait, now and in future.
    pub fn shut_down(&self) {
        let wakes = self.readiness.shut_down();
        self.wake(wakes, Ready::ALL);
    }

    /// Drops the cached wakers, and wakes nobody from now on. Nobody waits any more when this is called.
    pub fn detach(&self) {
        let emptied = self.readiness.detach();
        for direction in Direction::BOTH {
            if emptied[direction as usize] {
                self.empty(direction);
            }
        }
    }

    /// Which driver watches it.
    pub fn driver(&self) -> u32 {
        self.driver
    }

    #[inline]
    fn wake(&self, wakes: Wakes, ready: Ready) {
        for direction in Direction::BOTH {
            if wakes.slot(direction) {
                self.wake_slot(direction);
            }
        }
        if wakes.waiters() {
            self.wake_waiters(ready);
        }
    }

    /// Wakes the waker in the slot of `direction`, in which the caller is WAKING.
    #[inline]
    fn wake_slot(&self, direction: Direction) {
        self.wake_cached(direction);
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
        if finish == Finish::Detached {
            self.empty(direction);
        }
    }

    /// Wakes by reference. What panics there goes no further.
    #[inline]
    fn wake_cached(&self, direction: Direction) {
        self.slots[direction as usize].with(|slot| {
            // SAFETY: the caller is WAKING, and while that is set nobody writes the slot.
            let waker = unsafe { &*slot }.as_ref();
            if let Err(payload) = unwind::catch(|| waker.map(Waker::wake_by_ref)) {
                unwind::drop_quietly(payload);
            }
        });
    }

    /// Drops the waker of a detached source's slot; called by the one to whom it was left.
    fn empty(&self, direction: Direction) {
        // SAFETY: nobody arms a detached source, so no event begins to wake; of those that had begun, the last one
        // calls this, or else there was none and the caller of `detach` does.
        let waker = self.slots[direction as usize].with_mut(|slot| unsafe { &mut *slot }.take());
        unwind::drop_quietly(waker);
    }

    #[inline(never)]
    fn wake_waiters(&self, ready: Ready) {
        let mut left = usize::MAX;
        while left > 0 {
            let mut wakes = WakeList::new();
            let mut waiters = self.waiters.lock();
            // Those who come while the lock is open are not this event's: they line up behind, and are not counted.
            left = left.min(waiters.len());
            while left > 0 && !wakes.is_full() {
                left -= 1;
                // SAFETY: linked waiters live, in place, until unlinked; links and wakers are the lock's.
                unsafe {
                    let Some(waiter) = waiters.pop_front() else { break };
                    if (waiter.as_ref().mask & ready).is_empty() {
                        waiters.push_back(waiter);
                    } else if let Some(waker) = waiter.as_ref().waker.with_mut(|waker| (*waker).take()) {
                        wakes.push(waker);
                    }
                }
            }
            if waiters.is_empty() {
                self.readiness.retract_waiters();
            }
            drop(waiters);
            wakes.wake_all_quietly();
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("readiness", &self.readiness).field("driver", &self.driver).finish()
    }
}

/// Gives a held slot back when a waker panics in `clone`. Holding disarmed it: whoever's waker is in it has to look.
struct ReleaseOnUnwind<'a> {
    source: &'a Source,
    direction: Direction,
}

impl Drop for ReleaseOnUnwind<'_> {
    fn drop(&mut self) {
        self.source.slots[self.direction as usize].with(|slot| {
            // SAFETY: the slot is held, so nobody writes it.
            let waker = unsafe { &*slot }.as_ref();
            unwind::drop_quietly(unwind::catch(|| waker.map(Waker::wake_by_ref)));
        });
        self.source.readiness.release(self.direction);
    }
}

/// A place in the list.
struct Waiter {
    links: Links<Waiter>,
    /// What ends the wait.
    mask: Ready,
    /// Some while linked. Under the list's lock.
    waker: UnsafeCell<Option<Waker>>,
    _pinned: PhantomPinned,
}

impl Waiter {
    fn new(mask: Ready) -> Self {
        Self { links: Links::new(), mask, waker: UnsafeCell::new(None), _pinned: PhantomPinned }
    }
}

// SAFETY: the links are a field of the node.
unsafe impl Link for Waiter {
    type Node = Waiter;

    unsafe fn links(node: NonNull<Waiter>) -> NonNull<Links<Waiter>> {
        // SAFETY: `node` is live, by the caller's word.
        unsafe { NonNull::new_unchecked(&raw mut (*node.as_ptr()).links) }
    }
}

/// The future of [`Source::ready`].
#[must_use = "futures do nothing unless awaited"]
pub struct WaitReady<'a> {
    source: &'a Source,
    /// It has been in the list and may still be.
    has_registered: bool,
    waiter: Waiter,
}

// SAFETY: the waiter is accessed under the list's lock by whichever thread, and `Waker` is `Send`.
unsafe impl Send for WaitReady<'_> {}
// SAFETY: nothing can be done with a shared reference.
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

        // Cloned before and dropped after: no foreign code under the lock.
        let ours = cx.waker().clone();
        let mut waiters = this.source.waiters.lock();
        let event = this.source.readiness.announce_waiter(mask);
        let node = NonNull::from(&mut this.waiter);
        this.has_registered = true;
        // SAFETY: the waiter is pinned and leaves the list in `drop` at the latest; links and waker are the lock's.
        let previous = unsafe {
            let previous = node.as_ref().waker.with_mut(|waker| (*waker).replace(ours));
            if previous.is_none() {
                waiters.push_back(node);
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
        let mut waiters = self.source.waiters.lock();
        let node = NonNull::from(&mut self.waiter);
        // SAFETY: the waiter is live and in this list or in none; links and waker are the lock's.
        let waker = unsafe {
            waiters.remove(node);
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
