//! A copy of the LIFO slot, with at most one bug.

use std::cell::Cell;
use std::ptr::{NonNull, null_mut};

use loom::sync::atomic::AtomicPtr;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use runtime::internals::task::{Header, Runnable};

use super::Slot;

/// The bug that was put back.
#[derive(Clone, Copy, PartialEq)]
pub enum Fault {
    None,
    PopsByStore,
    PushesByStore,
    ForgetsFlag,
    StealsByStore,
    PushesRelaxed,
    SwapsRelaxed,
    StealsRelaxed,
}

pub struct Twin {
    slot: AtomicPtr<Header>,
    is_set: Cell<bool>,
    fault: Fault,
}

// SAFETY: the flag is the owner's.
unsafe impl Send for Twin {}
// SAFETY: as above.
unsafe impl Sync for Twin {}

impl Twin {
    pub fn new(fault: Fault) -> Self {
        Self { slot: AtomicPtr::new(null_mut()), is_set: Cell::new(false), fault }
    }
}

fn from_slot(task: *mut Header) -> Option<Runnable> {
    // SAFETY: whether the task was taken by others too is what the model finds out, before any thread runs
    // it.
    NonNull::new(task).map(|task| unsafe { Runnable::from_raw(task) })
}

impl Slot for Twin {
    unsafe fn push(&self, task: Runnable) -> Option<Runnable> {
        let task = task.into_raw().as_ptr();
        if !self.is_set.replace(true) || self.fault == Fault::ForgetsFlag {
            self.slot.store(task, if self.fault == Fault::PushesRelaxed { Relaxed } else { Release });
            return None;
        }
        if self.fault == Fault::PushesByStore {
            let old = self.slot.load(Acquire);
            self.slot.store(task, Release);
            return from_slot(old);
        }
        from_slot(self.slot.swap(task, if self.fault == Fault::SwapsRelaxed { Relaxed } else { Release }))
    }

    unsafe fn pop(&self) -> Option<Runnable> {
        if !self.is_set.replace(false) {
            return None;
        }
        if self.fault == Fault::PopsByStore {
            let old = self.slot.load(Acquire);
            self.slot.store(null_mut(), Relaxed);
            return from_slot(old);
        }
        from_slot(self.slot.swap(null_mut(), Relaxed))
    }

    fn steal(&self, task: NonNull<Header>) -> Option<Runnable> {
        if self.fault == Fault::StealsByStore {
            let old = self.slot.load(Acquire);
            if old != task.as_ptr() {
                return None;
            }
            self.slot.store(null_mut(), Relaxed);
            return from_slot(old);
        }
        let success = if self.fault == Fault::StealsRelaxed { Relaxed } else { Acquire };
        let taken = self.slot.compare_exchange(task.as_ptr(), null_mut(), success, Relaxed).ok()?;
        from_slot(taken)
    }
}
