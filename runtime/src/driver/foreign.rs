//! Foreign wakers, kept until it is safe to call them.
//!
//! A turn of the driver wakes tasks. The wakers of tasks are this crate's: they take a lock for a moment and
//! never block. Any other waker is foreign code. It may block, panic, or call back into the runtime. But
//! while a worker sleeps in the driver, or has just woken there, other threads rely on it. So a turn only
//! collects the foreign wakers. The worker wakes them when it counts as a worker that runs, like one in a
//! task's poll.
//!
//! The waker of a task of a `LocalSet` is this crate's, but it may wake the set, and that waker is perhaps
//! foreign. The worker keeps it, too: [`Worker::wake`](crate::scheduler::Worker::wake).
//!
//! **A waker that blocks keeps no other waker.** The worker takes one waker at a time out of [`Waking`], which
//! other threads see. While it is inside of a waker for long, the monitor has the others woken by the threads
//! for blocking closures.
//!
//! A waker that is cached in a [`Source`] stays there. Its slot is WAKING until the waker was called
//! (`io/readiness.rs`).

use std::cell::RefCell;
use std::collections::VecDeque;
use std::mem;
use std::task::Waker;

use super::io::{Direction, Source};
use crate::coop;
use crate::loom::sync::{Arc, Mutex};
use crate::util::unwind;

/// See the module's docs. Wakes what is left when it is dropped.
#[derive(Debug, Default)]
pub struct ForeignWakes(RefCell<VecDeque<Wake>>);

#[derive(Debug)]
enum Wake {
    Waker(Waker),
    /// The waker that is cached in this slot.
    Slot(Arc<Source>, Direction),
}

impl Wake {
    /// Wakes. Catches a panic.
    fn wake(self) {
        match self {
            Self::Waker(waker) => unwind::drop_quietly(unwind::catch(|| waker.wake())),
            Self::Slot(source, direction) => source.wake_slot(direction),
        }
    }
}

impl ForeignWakes {
    pub const fn new() -> Self {
        Self(RefCell::new(VecDeque::new()))
    }

    /// Wakes `waker` at once if it belongs to a task; otherwise keeps it.
    #[inline]
    pub fn wake(&self, waker: Waker) {
        match coop::is_of_task(&waker) {
            true => waker.wake(),
            false => self.0.borrow_mut().push_back(Wake::Waker(waker)),
        }
    }

    /// Keeps the waker that is cached for `direction`. The caller is WAKING there.
    #[cold]
    pub fn keep_slot(&self, source: Arc<Source>, direction: Direction) {
        self.0.borrow_mut().push_back(Wake::Slot(source, direction));
    }

    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Takes all wakers that were kept.
    pub fn take(&self) -> Self {
        Self(RefCell::new(self.0.take()))
    }

    /// Wakes all that was kept, in the order in which it came. Catches the panic of each.
    pub fn wake_all(self) {
        drop(self);
    }

    /// Each of those that were kept, by itself.
    pub fn split(self) -> impl Iterator<Item = Self> {
        self.0.take().into_iter().map(|wake| Self(RefCell::new(VecDeque::from([wake]))))
    }
}

impl Drop for ForeignWakes {
    fn drop(&mut self) {
        mem::take(self.0.get_mut()).into_iter().for_each(Wake::wake);
    }
}

/// The foreign wakers that a worker is about to wake.
#[derive(Debug, Default)]
pub struct Waking(Mutex<VecDeque<Wake>>);

impl Waking {
    /// Wakes all of `wakes`, unless another thread takes some of them. Only the worker may call this, also
    /// within a waker.
    pub fn wake_all(&self, wakes: &ForeignWakes) {
        self.0.lock().append(&mut wakes.0.borrow_mut());
        while let Some(wake) = self.next() {
            wake.wake();
        }
    }

    /// Without the lock once this has returned.
    fn next(&self) -> Option<Wake> {
        self.0.lock().pop_front()
    }

    /// For another thread, which finds that the worker has been inside of a waker for long: takes the rest.
    pub fn take(&self) -> ForeignWakes {
        ForeignWakes(RefCell::new(mem::take(&mut self.0.lock())))
    }
}
