//! What a program runs on a [`ThreadPool`] of its own.

use std::error::Error;

#[allow(deprecated)]
use super::configuration::Configuration;
use super::pool::ThreadPool;
use super::{BroadcastContext, Scope, ScopeFifo, Yield, broadcast, enter, scope, spawn, yields};
use crate::scheduler::OwnJobs;

impl ThreadPool {
    /// Builds a pool; as [`ThreadPoolBuilder::build`](super::ThreadPoolBuilder::build).
    ///
    /// # Errors
    /// As [`ThreadPoolBuilder::build`](super::ThreadPoolBuilder::build).
    #[deprecated(note = "Use `ThreadPoolBuilder::build`")]
    #[allow(deprecated)]
    pub fn new(configuration: Configuration) -> Result<Self, Box<dyn Error>> {
        configuration.build()
    }

    /// Runs `op` on one of the pool's threads, and waits for it.
    ///
    /// On a thread of this pool, this just calls `op`. A thread of another pool or runtime runs jobs of that
    /// pool or runtime while it waits. Any other thread blocks.
    ///
    /// # Panics
    /// If `op` panics.
    pub fn install<OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce() -> R + Send,
        R: Send,
    {
        // SAFETY: (1) `self` keeps the pool during the call.
        unsafe { enter::install(self.shared_ptr(), |_, _| op()) }
    }

    /// Runs two closures on the pool's threads, perhaps in parallel; as [`join`](super::join) inside
    /// [`install`](Self::install).
    ///
    /// # Panics
    /// If one of them panics, after both have ended.
    pub fn join<A, B, RA, RB>(&self, oper_a: A, oper_b: B) -> (RA, RB)
    where
        A: FnOnce() -> RA + Send,
        B: FnOnce() -> RB + Send,
        RA: Send,
        RB: Send,
    {
        self.install(|| super::join(oper_a, oper_b))
    }

    /// Runs a scope on one of the pool's threads; as [`scope`](super::scope) inside
    /// [`install`](Self::install).
    ///
    /// # Panics
    /// If `op` or a job of the scope panics, after all have ended.
    pub fn scope<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&Scope<'scope>) -> R + Send,
        R: Send,
    {
        // SAFETY: (1) `self` keeps the pool during the call.
        unsafe { scope::scope_in(self.shared_ptr(), op) }
    }

    /// Runs a FIFO scope on one of the pool's threads; as [`scope_fifo`](super::scope_fifo) inside
    /// [`install`](Self::install).
    ///
    /// # Panics
    /// As [`scope`](Self::scope).
    pub fn scope_fifo<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&ScopeFifo<'scope>) -> R + Send,
        R: Send,
    {
        // SAFETY: (1) `self` keeps the pool during the call.
        unsafe { scope::scope_fifo_in(self.shared_ptr(), op) }
    }

    /// Runs a scope whose body stays on the calling thread. Its jobs run on the pool's threads.
    ///
    /// # Panics
    /// As [`scope`](Self::scope).
    pub fn in_place_scope<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&Scope<'scope>) -> R,
    {
        // SAFETY: (1) `self` keeps the pool during the call.
        unsafe { scope::in_place_scope_in(Some(self.shared_ptr()), op) }
    }

    /// Runs a FIFO scope whose body stays on the calling thread. Its jobs run on the pool's threads.
    ///
    /// # Panics
    /// As [`scope`](Self::scope).
    pub fn in_place_scope_fifo<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&ScopeFifo<'scope>) -> R,
    {
        // SAFETY: (1) `self` keeps the pool during the call.
        unsafe { scope::in_place_scope_fifo_in(Some(self.shared_ptr()), op) }
    }

    /// Starts a job on the pool's threads and does not wait for it; as [`spawn`](fn@super::spawn). The job
    /// runs even if the pool is dropped before.
    pub fn spawn<OP>(&self, op: OP)
    where
        OP: FnOnce() + Send + 'static,
    {
        // SAFETY: (1) `self` keeps the pool during the call.
        unsafe { spawn::push(self.shared_ptr(), false, op) }
    }

    /// Starts a job and does not wait for it, in the order of these calls; as
    /// [`spawn_fifo`](super::spawn_fifo).
    pub fn spawn_fifo<OP>(&self, op: OP)
    where
        OP: FnOnce() + Send + 'static,
    {
        // SAFETY: (1) `self` keeps the pool during the call.
        unsafe { spawn::push(self.shared_ptr(), true, op) }
    }

    /// Calls `op` once on each of the pool's threads, and returns the results by index; as
    /// [`broadcast`](fn@super::broadcast).
    ///
    /// # Panics
    /// If one of the calls panics, after all have ended.
    pub fn broadcast<OP, R>(&self, op: OP) -> Vec<R>
    where
        OP: Fn(BroadcastContext<'_>) -> R + Sync,
        R: Send,
    {
        // SAFETY: (1) `self` keeps the pool during the call.
        unsafe { broadcast::broadcast_in(self.shared_ptr(), op) }
    }

    /// Calls `op` once on each of the pool's threads, without waiting; as
    /// [`spawn_broadcast`](super::spawn_broadcast).
    pub fn spawn_broadcast<OP>(&self, op: OP)
    where
        OP: Fn(BroadcastContext<'_>) + Send + Sync + 'static,
    {
        // SAFETY: (1) `self` keeps the pool during the call.
        unsafe { broadcast::spawn_broadcast_in(self.shared_ptr(), op) }
    }

    /// Returns the index of the calling thread, or `None` if it is not one of the pool's. Indices begin at 0,
    /// and do not change while the thread lives.
    pub fn current_thread_index(&self) -> Option<usize> {
        // SAFETY: (1) used in this call only.
        unsafe { enter::job_processor_of(self.shared_ptr()) }.and_then(|processor| processor.thread_index())
    }

    /// Returns whether jobs wait that the calling thread could run without stealing. `None` if it is not one
    /// of the pool's threads.
    pub fn current_thread_has_pending_tasks(&self) -> Option<bool> {
        // SAFETY: (1) used in this call only.
        unsafe { enter::job_processor_of(self.shared_ptr()) }.map(OwnJobs::has_pending_jobs)
    }

    /// Runs one waiting job, as [`yield_now`](super::yield_now) does. Returns `None` if the calling thread is
    /// not one of the pool's.
    pub fn yield_now(&self) -> Option<Yield> {
        yields::yield_in(self.shared_ptr(), false)
    }

    /// Runs one job that waits on the calling thread, as [`yield_local`](super::yield_local) does. Returns
    /// `None` if the thread is not one of the pool's.
    pub fn yield_local(&self) -> Option<Yield> {
        yields::yield_in(self.shared_ptr(), true)
    }
}
