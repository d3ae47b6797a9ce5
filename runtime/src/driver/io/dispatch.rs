//! An event reaches its source, and wakes the tasks that wait for it. `source.rs` is the tasks' side.

use crate::coop;
use crate::driver::foreign::ForeignWakes;
use crate::loom::sync::Arc;
use crate::loom::sync::atomic::Ordering::{Relaxed, Release};
use crate::util::wake_list::WakeList;

use super::interest::Ready;
use super::readiness::{Direction, Wakes};
use super::source::{Source, SourceKind};

impl Source {
    /// Adds what the system reports, and wakes the tasks that wait for it. Foreign wakers go to `foreign`.
    #[inline(always)]
    pub fn dispatch(this: &Arc<Self>, ready: Ready, foreign: &ForeignWakes) {
        let ready = if ready.is_plain() { ready } else { this.interpret(ready) };
        let wakes = this.readiness.add(ready);
        Self::wake(this, wakes, ready, foreign);
    }

    /// Translates the rarer flags for this kind of source.
    #[cold]
    fn interpret(&self, ready: Ready) -> Ready {
        if ready.is_priority() {
            // Relaxed: see `has_urgent`.
            self.has_urgent.store(true, Relaxed);
        }
        match self.kind {
            SourceKind::Datagrams if ready.is_error() => ready | Ready::READABLE,
            _ => ready,
        }
    }

    /// Ends every wait, now and from now on. Foreign wakers go to `foreign`.
    pub fn shut_down(this: &Arc<Self>, foreign: &ForeignWakes) {
        let wakes = this.readiness.shut_down();
        Self::wake(this, wakes, Ready::ALL, foreign);
    }

    #[inline(always)]
    fn wake(this: &Arc<Self>, wakes: Wakes, ready: Ready, foreign: &ForeignWakes) {
        for direction in Direction::BOTH {
            if wakes.slot(direction) {
                match this.wake_task(direction) {
                    true => this.finish_wake(direction),
                    false => foreign.keep_slot(this.clone(), direction),
                }
            }
        }
        if wakes.waiters() {
            this.wake_waiters(ready, foreign);
        }
    }

    /// Wakes the task whose waker is in the slot of `direction`. The caller is WAKING there. Returns false,
    /// and does nothing, if the waker is foreign.
    #[inline]
    fn wake_task(&self, direction: Direction) -> bool {
        self.slots[direction as usize].with(|slot| {
            // SAFETY: the caller is WAKING, and while that is set no thread writes the slot.
            match unsafe { &*slot } {
                Some(waker) if coop::is_of_task(waker) => waker.wake_by_ref(),
                Some(waker) => return coop::wake_if_harmless(waker),
                None => {}
            }
            true
        })
    }

    /// Takes all waiters that `ready` concerns out of the list, under one hold of the lock, and wakes them.
    ///
    /// Rejected: to let the lock go after each batch of wakers. Another event may move waiters meanwhile, and
    /// the rest of the pass then misses some of them. A pass that begins anew after each batch looks at the
    /// other waiters again and again.
    #[inline(never)]
    fn wake_waiters(&self, ready: Ready, foreign: &ForeignWakes) {
        let mut wakes = WakeList::new();
        // The wakers for which `wakes` has no room. It is mostly empty, and allocates nothing then.
        let mut more = Vec::new();
        let mut waiters = self.waiters.lock();
        // A whole round, so the waiters that stay keep their order.
        for _ in 0..waiters.len() {
            // SAFETY: `pop_front`: (1) the lock, which guards the links and the wakers, is held.
            // `push_back`: (1) until it is unlinked, the waiter lives at its place: its future unlinks it
            // under this lock, before it is freed; (2) it was just popped; (3) the lock is held. So the
            // waiter is also live for the other accesses, up to the store to `is_linked`.
            unsafe {
                let Some(waiter) = waiters.pop_front() else { break };
                if (waiter.as_ref().mask & ready).is_empty() {
                    waiters.push_back(waiter);
                    continue;
                }
                let waker = waiter.as_ref().waker.with_mut(|waker| (*waker).take());
                // Last, because the task may free the waiter from here on. Release: pairs with the load
                // in `leave`.
                waiter.as_ref().is_linked.store(false, Release);
                match waker {
                    Some(waker) if wakes.is_full() => more.push(waker),
                    Some(waker) => wakes.push(waker),
                    None => {}
                }
            }
        }
        if waiters.is_empty() {
            self.readiness.retract_waiters();
        }
        drop(waiters);
        wakes.drain(|waker| foreign.wake(waker));
        more.into_iter().for_each(|waker| foreign.wake(waker));
    }
}
