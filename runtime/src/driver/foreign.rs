//! Wakers of others, kept until it is safe to call them.
//!
//! A turn of the driver wakes tasks, and those wakers are this crate's: they take a lock for a moment and
//! never block. Any other waker is foreign code. It may block, panic, or call back into the runtime. But
//! while a worker sleeps in the driver, or has just woken there, other threads rely on it. So a turn only
//! collects the foreign wakers. The worker wakes them when it counts as a worker that runs, like one in a
//! task's poll. A waker that blocks then holds up its caller and no other thread.
//!
//! A waker that is cached in a [`Source`] stays there: the slot is WAKING until it was woken
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

    /// Wakes `waker` at once if it is a task's, else keeps it.
    #[inline]
    pub fn wake(&mut self, waker: Waker) {
        match coop::is_of_task(&waker) {
            true => waker.wake(),
            false => self.0.push(Wake::Waker(waker)),
        }
    }

    /// Keeps the waker that is cached for `direction`, where the caller is WAKING.
    #[cold]
    pub fn keep_slot(&mut self, source: Arc<Source>, direction: Direction) {
        self.0.push(Wake::Slot(source, direction));
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes all that was kept.
    pub fn take(&mut self) -> Self {
        mem::take(self)
    }

    /// Wakes all that was kept, in the order in which it came. A panic of one of them goes no further.
    pub fn wake_all(self) {
        for wake in self.0 {
            match wake {
                Wake::Waker(waker) => unwind::drop_quietly(unwind::catch(|| waker.wake())),
                Wake::Slot(source, direction) => source.wake_slot(direction),
            }
        }
    }
}
