//! Foreign wakers, kept until it is safe to call them.
//!
//! A turn of the driver wakes tasks. The wakers of tasks are this crate's: they take a lock for a moment and
//! never block. Any other waker is foreign code. It may block, panic, or call back into the runtime. But
//! while a worker sleeps in the driver, or has just woken there, other threads rely on it. So a turn only
//! collects the foreign wakers. The worker wakes them when it counts as a worker that runs, like one in a
//! task's poll. A foreign waker that blocks then holds up its caller and no other thread.
//!
//! A waker that is cached in a [`Source`] stays there. Its slot is WAKING until the waker was called
//! (`io/readiness.rs`).

use std::mem;
use std::task::Waker;

use super::io::{Direction, Source};
use crate::coop;
use crate::loom::sync::Arc;
use crate::util::unwind;

/// See the module's docs.
#[derive(Debug, Default)]
pub struct ForeignWakes(Vec<Wake>);

#[derive(Debug)]
enum Wake {
    Waker(Waker),
    /// The waker that is cached in this slot.
    Slot(Arc<Source>, Direction),
}

impl ForeignWakes {
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Wakes `waker` at once if it belongs to a task; otherwise keeps it.
    #[inline]
    pub fn wake(&mut self, waker: Waker) {
        match coop::is_of_task(&waker) {
            true => waker.wake(),
            false => self.0.push(Wake::Waker(waker)),
        }
    }

    /// Keeps the waker that is cached for `direction`. The caller is WAKING there.
    #[cold]
    pub fn keep_slot(&mut self, source: Arc<Source>, direction: Direction) {
        self.0.push(Wake::Slot(source, direction));
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes all wakers that were kept.
    pub fn take(&mut self) -> Self {
        mem::take(self)
    }

    /// Wakes all that was kept, in the order in which it came. Catches the panic of each.
    pub fn wake_all(self) {
        for wake in self.0 {
            match wake {
                Wake::Waker(waker) => unwind::drop_quietly(unwind::catch(|| waker.wake())),
                Wake::Slot(source, direction) => source.wake_slot(direction),
            }
        }
    }
}
