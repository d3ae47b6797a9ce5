//! The owner's side of a processor's queues of tasks.
//!
//! Only the owner of a processor may push into its ring and its LIFO slot, and pop from them. [`OwnQueues`]
//! is the token of the owner: a thread that has it may do both, so its methods are safe. It is made in one
//! place, [`Worker::own_queues`], because a [`Worker`] is the owner of its processor and stays on its thread.

use std::marker::PhantomData;

use super::processor::{LifoSlot, Processor};
use super::worker::Worker;
use crate::queue::{Injector, Local};
use crate::task::{Header, Runnable};

/// The ring and the LIFO slot of a processor, for its owner. The view stays on the owner's thread.
#[derive(Debug, Clone, Copy)]
pub struct OwnQueues<'a> {
    lifo: &'a LifoSlot,
    ring: &'a Local<Header>,
    /// Makes the view neither `Send` nor `Sync`.
    stays_here: PhantomData<*const ()>,
}

impl<'a> OwnQueues<'a> {
    /// # Safety
    /// 1. The calling thread is the owner of `processor`, and no other thread is the owner during `'a`.
    #[inline(always)]
    unsafe fn new(processor: &'a Processor) -> Self {
        Self { lifo: &processor.lifo, ring: &processor.ring, stays_here: PhantomData }
    }

    /// Puts `task` into the LIFO slot. Returns the task that was there.
    #[inline(always)]
    pub fn push_next(self, task: Runnable) -> Option<Runnable> {
        // SAFETY: duty 1 of `new`, and the view has not left the thread.
        unsafe { self.lifo.push(task) }
    }

    /// Takes the task out of the LIFO slot.
    #[inline(always)]
    pub fn pop_next(self) -> Option<Runnable> {
        // SAFETY: as in `push_next`.
        unsafe { self.lifo.pop() }
    }

    /// [`Local::push_back`] for a task. Returns how many tasks went to `injector` instead.
    #[inline(always)]
    pub fn push_back(self, task: Runnable, injector: &Injector<Header>) -> usize {
        // SAFETY: (1) as in `push_next`. (2), (3): a task lives while its `SCHEDULED` is ours, and is in no
        // queue. We give `SCHEDULED` up.
        unsafe { self.ring.push_back(task.into_raw(), injector) }
    }

    /// Takes the oldest task of the ring.
    #[inline(always)]
    pub fn pop_front(self) -> Option<Runnable> {
        // SAFETY: as in `push_next`; the task's `SCHEDULED` was pushed with it.
        unsafe { self.ring.pop().map(|task| Runnable::from_raw(task)) }
    }

    /// Takes the task of the LIFO slot, or the oldest task of the ring.
    #[inline(always)]
    pub fn pop(self) -> Option<Runnable> {
        self.pop_next().or_else(|| self.pop_front())
    }

    /// [`Injector::pop_batch_into`] for the ring: a task to run, and how many were taken in all.
    #[inline(always)]
    pub fn take_batch(self, injector: &Injector<Header>) -> Option<(Runnable, usize)> {
        // SAFETY: as in `pop_front`.
        unsafe { injector.pop_batch_into(self.ring).map(|(task, count)| (Runnable::from_raw(task), count)) }
    }

    /// [`Local::steal_into`] for the ring: half of the tasks of `victim`, another processor's ring. Returns a
    /// task to run, and how many were taken in all.
    #[inline(always)]
    pub fn steal_from(self, victim: &Local<Header>) -> Option<(Runnable, usize)> {
        // SAFETY: as in `pop_front`.
        unsafe { victim.steal_into(self.ring).map(|(task, count)| (Runnable::from_raw(task), count)) }
    }
}

impl Worker {
    /// The worker's queues of tasks.
    #[inline(always)]
    pub fn own_queues(&self) -> OwnQueues<'_> {
        // SAFETY: the worker is neither `Send` nor `Sync`, so the calling thread is the thread that made it.
        // By duty 2 of `Worker::new` no other thread is the owner while the worker lives.
        unsafe { OwnQueues::new(self.processor()) }
    }
}
