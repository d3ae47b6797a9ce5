//! Threads that poll tasks while workers are blocked.
//!
//! A worker that is about to block, by its own word, announces it; for each that is blocked, one relief thread is awake:
//! one that rests is called, or a new one started, up to a bound. A relief thread is a worker like the others, with a
//! processor, but without a seat: it steals from the blocked one and takes part in the sleep protocol. When the blocked
//! worker returns, there is one too many, and the next relief thread that runs out of work goes to rest, for good after some
//! idle time. (Those that sleep as workers at that moment stay until they are woken once.)
//!
//! **At shutdown** what a blocked worker waits for may be tasks, which somebody has to cancel. Those that wait for a wake it
//! cancels itself, if it blocks after the shutdown has begun; for the others, while anybody is blocked, somebody who is not
//! stays: a relief thread, or a worker with a seat if all relief threads are blocked. Whether one may leave, and whether there
//! is one, is decided under the lock.
//!
//! All numbers are under one lock: blocking costs a thread wake anyway.

use std::ptr::NonNull;
use std::time::Instant;

use super::shared::Shared;
use super::worker::Worker;
use crate::coop;
use crate::loom::sync::Mutex;
use crate::loom::sync::atomic::AtomicBool;
use crate::loom::sync::atomic::Ordering::Relaxed;

/// The relief threads of a runtime.
#[derive(Debug)]
pub struct Relief {
    state: Mutex<State>,
    /// More relief threads than blocked workers: a hint, so that idle relief threads need not take the lock.
    has_surplus: AtomicBool,
}

#[derive(Debug)]
struct State {
    /// Workers that are inside a blocking call.
    blocked: usize,
    /// How many of these are relief threads.
    blocked_reliefs: usize,
    /// Relief threads that run, search, sleep or block as workers.
    active: usize,
    /// Indices of relief threads that rest, the last to lie down last.
    resting: Vec<usize>,
    /// Indices that no thread has.
    free: Vec<usize>,
}

impl Relief {
    /// Relief threads have the indices `workers..workers + reliefs`.
    pub fn new(workers: usize, reliefs: usize) -> Self {
        let free = (workers..workers + reliefs).rev().collect();
        Self {
            state: Mutex::new(State { blocked: 0, blocked_reliefs: 0, active: 0, resting: Vec::new(), free }),
            has_surplus: AtomicBool::new(false),
        }
    }

    /// A relief thread without work asks whether it may rest. If so, it is no worker until it is called.
    pub fn try_retire(&self, index: usize) -> bool {
        // Relaxed: seen at the next idle moment if not now.
        if !self.has_surplus.load(Relaxed) {
            return false;
        }
        let mut state = self.state.lock();
        if state.active <= state.blocked {
            return false;
        }
        state.active -= 1;
        state.resting.push(index);
        self.update_hint(&state);
        true
    }

    /// Whether a worker may leave once the shutdown has begun.
    pub fn may_leave(&self, has_seat: bool) -> bool {
        self.state.lock().may_leave(has_seat)
    }

    /// A worker with empty queues leaves for good, if it still may; a relief thread gives its `index` back.
    pub fn try_leave(&self, has_seat: bool, index: usize) -> bool {
        let mut state = self.state.lock();
        let may_leave = state.may_leave(has_seat);
        if may_leave && !has_seat {
            state.active -= 1;
            state.free.push(index);
        }
        may_leave
    }

    /// Relief threads that run, search or sleep as workers.
    #[cfg(test)]
    pub fn active(&self) -> usize {
        self.state.lock().active
    }

    fn update_hint(&self, state: &State) {
        self.has_surplus.store(state.active > state.blocked, Relaxed);
    }
}

impl State {
    fn may_leave(&self, has_seat: bool) -> bool {
        self.blocked == 0 || has_seat && !self.is_deserted()
    }

    /// Every relief thread is blocked: at shutdown there may be nobody else.
    fn is_deserted(&self) -> bool {
        self.active == self.blocked_reliefs
    }
}

/// Runs `f`, which may block, while other threads take over this worker's tasks.
pub fn block_in_place<R>(worker: &Worker, f: impl FnOnce() -> R) -> R {
    if worker.is_blocked() || worker.shared().is_current_thread() {
        // Others are at it already, or there are none.
        return coop::suspended(f);
    }
    struct Return<'a>(&'a Worker);
    impl Drop for Return<'_> {
        fn drop(&mut self) {
            self.0.end_blocking();
            self.0.shared().worker_returned(self.0.has_seat());
        }
    }
    worker.begin_blocking();
    let _return = Return(worker);
    // SAFETY: this thread is a worker that has not left.
    unsafe { worker_blocks(worker.shared_ptr(), worker.has_seat()) };
    worker.expose();
    coop::suspended(|| {
        if worker.shared().shutdown.has_begun() {
            // Those who stay may have looked before the table was lent.
            // SAFETY: no table is claimed as the caller's own.
            unsafe { worker.shared().owned.cancel_idle(None) };
        }
        f()
    })
}

/// Counts a blocked worker and sees to it that a relief thread is awake for it.
///
/// # Safety
/// 1. The caller is a worker that has not left.
unsafe fn worker_blocks(shared: NonNull<Shared>, has_seat: bool) {
    // SAFETY: (1).
    let this = unsafe { shared.as_ref() };
    let mut state = this.relief.state.lock();
    state.blocked += 1;
    state.blocked_reliefs += usize::from(!has_seat);
    if state.active < state.blocked || this.shutdown.has_begun() && state.is_deserted() {
        if let Some(index) = state.resting.pop() {
            state.active += 1;
            this.processor(index).parker.unpark(&this.driver);
        } else if let Some(index) = state.free.pop() {
            state.active += 1;
            // Made here, so that those that have been made are the first ones, and nobody's search ends before one.
            this.processor(index);
            drop(state);
            // SAFETY: (1); the index was free, so its processor has no owner.
            if unsafe { super::start_worker(shared, index) }.is_err() {
                // The call goes on in place; whoever blocks next tries again.
                state = this.relief.state.lock();
                state.active -= 1;
                state.free.push(index);
                this.relief.update_hint(&state);
            }
            return;
        }
    }
    this.relief.update_hint(&state);
}

impl Shared {
    fn worker_returned(&self, has_seat: bool) {
        let mut state = self.relief.state.lock();
        state.blocked -= 1;
        state.blocked_reliefs -= usize::from(!has_seat);
        self.relief.update_hint(&state);
        drop(state);
        if self.shutdown.has_begun() {
            // Others stayed for this worker.
            self.unpark_all();
        }
    }
}

/// Rests until called (true) or until the thread is to end (false).
pub fn rest(worker: &Worker) -> bool {
    let shared = worker.shared();
    let index = worker.index();
    let give_up = Instant::now().checked_add(shared.config.thread_keep_alive);
    loop {
        let timeout = give_up.map(|give_up| give_up.saturating_duration_since(Instant::now()));
        worker.processor().parker.park(timeout);
        let mut state = shared.relief.state.lock();
        let Some(place) = state.resting.iter().position(|&resting| resting == index) else {
            return true;
        };
        if shared.shutdown.has_begun() || give_up.is_some_and(|give_up| Instant::now() >= give_up) {
            state.resting.remove(place);
            state.free.push(index);
            return false;
        }
    }
}
