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
//! A wake may also drop the last reference to another runtime, whose hooks and handlers are foreign code.
//! Their destructors are kept in the same way.
//!
//! **A waker that blocks keeps no other waker.** The worker takes one waker at a time out of [`Waking`],
//! which other threads see. If two looks of the monitor find wakers there, and none was taken out in between,
//! it starts a thread for them. If that one is inside of a waker for long, too, it starts another one. If a
//! waker is about to sleep in the runtime, the worker itself starts one. A worker that has left wakers,
//! because it waited in an isolated region or had claimed a job, calls what is left when it is back in its
//! loop, also when it winds down. On a `current_thread` runtime no thread helps, so a `block_on` inside of a
//! waker calls the others itself (`current_thread.rs`). Rejected: the threads for blocking closures. All of
//! them may wait for these wakers.
//!
//! A waker that is cached in a [`Source`] stays there. Its slot is WAKING until the waker was called
//! (`io/readiness.rs`).

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::task::Waker;

use super::io::{Direction, Source};
use crate::coop;
use crate::loom::sync::{Arc, Mutex};
use crate::util::unwind;

/// See the module's docs. Wakes what is left when it is dropped.
#[derive(Debug, Default)]
pub struct ForeignWakes(RefCell<VecDeque<Kept>>);

/// What was kept.
#[derive(Debug)]
#[must_use = "a task may wait for it"]
pub struct Kept(Wake);

#[derive(Debug)]
enum Wake {
    Waker(Waker),
    /// The waker that is cached in this slot.
    Slot(Arc<Source>, Direction),
    /// No waker, but other foreign code that a wake would have called.
    Call(Call),
}

/// Foreign code of another kind.
struct Call(Box<dyn FnOnce() + Send>);

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Call")
    }
}

impl Kept {
    /// Calls the waker. A panic goes no further.
    pub fn wake(self) {
        match self.0 {
            Wake::Waker(waker) => unwind::run_quietly(|| waker.wake()),
            Wake::Slot(source, direction) => source.wake_slot(direction),
            Wake::Call(Call(f)) => unwind::run_quietly(f),
        }
    }
}

impl ForeignWakes {
    pub const fn new() -> Self {
        Self(RefCell::new(VecDeque::new()))
    }

    /// Wakes `waker` at once if that runs no foreign code; otherwise keeps it.
    #[inline]
    pub fn wake(&self, waker: Waker) {
        match coop::is_of_task(&waker) {
            true => waker.wake(),
            false => self.keep(waker),
        }
    }

    #[cold]
    #[inline(never)]
    fn keep(&self, waker: Waker) {
        if !coop::wake_if_harmless(&waker) {
            self.0.borrow_mut().push_back(Kept(Wake::Waker(waker)));
        }
    }

    /// Keeps the waker that is cached for `direction`. The caller is WAKING there.
    #[cold]
    #[inline(never)]
    pub fn keep_slot(&self, source: Arc<Source>, direction: Direction) {
        self.0.borrow_mut().push_back(Kept(Wake::Slot(source, direction)));
    }

    /// Keeps other foreign code: `f` is called in its turn.
    #[cold]
    pub fn keep_call(&self, f: Box<dyn FnOnce() + Send>) {
        self.0.borrow_mut().push_back(Kept(Wake::Call(Call(f))));
    }

    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Wakes all that was kept, in the order in which it came. Catches the panic of each.
    pub fn wake_all(self) {
        drop(self);
    }
}

impl Drop for ForeignWakes {
    fn drop(&mut self) {
        mem::take(self.0.get_mut()).into_iter().for_each(Kept::wake);
    }
}

/// The foreign wakers that a worker is about to wake.
#[derive(Debug, Default)]
pub struct Waking(Mutex<Left>);

#[derive(Debug, Default)]
struct Left {
    wakes: VecDeque<Kept>,
    /// How many were taken out so far, to be woken.
    taken: u64,
}

impl Waking {
    pub fn add(&self, wakes: &ForeignWakes) {
        self.0.lock().wakes.append(&mut wakes.0.borrow_mut());
    }

    /// Wakes what is left, one after the other. For the worker, also within a waker, and for other threads
    /// that help it.
    pub fn wake_rest(&self) {
        while let Some(kept) = self.next() {
            kept.wake();
        }
    }

    /// Takes the next one out. Without the lock once this has returned.
    pub fn next(&self) -> Option<Kept> {
        let mut left = self.0.lock();
        left.taken = left.taken.wrapping_add(1);
        left.wakes.pop_front()
    }

    /// Takes all that is left.
    pub fn take(&self) -> Self {
        let taken = Self::default();
        self.move_to(&taken);
        taken
    }

    /// Moves all that is left behind what `other` has.
    pub fn move_to(&self, other: &Self) {
        let mut wakes = mem::take(&mut self.0.lock().wakes);
        other.0.lock().wakes.append(&mut wakes);
    }

    pub fn is_empty(&self) -> bool {
        self.0.lock().wakes.is_empty()
    }

    /// How many wakers were taken out so far, if some are left.
    pub fn taken(&self) -> Option<u64> {
        let left = self.0.lock();
        (!left.wakes.is_empty()).then_some(left.taken)
    }
}
