//! The right to drive a `current_thread` runtime, and the callers that wait for it; see `current_thread.rs`.

use std::mem;
use std::time::{Duration, Instant};

use crate::config::RngSeed;
use crate::loom::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::loom::sync::atomic::{AtomicBool, fence};
use crate::loom::sync::{Condvar, Mutex, MutexGuard};
use crate::loom::thread::{self, Thread};
use crate::util::rand::{self, Seeded};

/// The right to be the worker of a `current_thread` runtime.
#[derive(Debug, Default)]
pub struct Core {
    pub(super) state: Mutex<CoreState>,
    /// Whether the thread that has the core is in the poll of its own future.
    is_in_own_poll: AtomicBool,
    /// The core was given to the thread that ends the runtime.
    given: Condvar,
}

/// Whether a thread waits for the core to end the runtime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Ender {
    #[default]
    None,
    Waits,
    /// The core is its own now.
    HasCore,
}

/// See [`Core::begin_own_poll`].
pub(super) struct OwnPoll<'a>(&'a AtomicBool);

impl Drop for OwnPoll<'_> {
    fn drop(&mut self) {
        self.0.store(false, Release);
    }
}

#[derive(Debug, Default)]
pub(super) struct CoreState {
    pub(super) is_taken: bool,
    /// Whether the runtime has been shut down and has finished.
    pub(super) is_finished: bool,
    /// A task has panicked, and the runtime was built to end by that.
    pub(super) has_panicked: bool,
    /// The numbers and threads of the `block_on` calls that are about to park, because they do not have the
    /// core.
    pub(super) waiters: Vec<(u64, Thread)>,
    ender: Ender,
    /// The only thread that may take the core; `None` if any may.
    owner: Option<Thread>,
    /// The next waiter's number.
    next_waiter: u64,
    /// The seeds that calls of `block_on` have taken; see `Builder::rng_seed`.
    seeds: u64,
}

impl Core {
    /// Has the calling thread's random choices begin with the next seed of the series, until the result is
    /// dropped.
    pub(super) fn seed_thread(&self, seed: &RngSeed) -> Seeded {
        let mut state = self.state.lock();
        state.seeds += 1;
        rand::seed_thread(seed.of(state.seeds))
    }

    /// From now on, all calls of `block_on` end by a panic. The caller then ends the runtime.
    pub fn tell_of_panic(&self) {
        let mut state = self.state.lock();
        state.has_panicked = true;
        state.waiters.drain(..).for_each(|(_, thread)| thread.unpark());
    }

    /// Panics if the runtime has ended because a task panicked. A waiter calls this after it was entered
    /// among the waiters. So either `tell_of_panic` unparks the waiter, or this call sees the panic.
    ///
    /// A thread that unwinds already may still poll its future once, because its next panic is an abort. This
    /// call lets such a thread pass, unless `must_end`.
    pub(super) fn check_panicked(&self, must_end: bool) {
        if self.state.lock().has_panicked && (must_end || !std::thread::panicking()) {
            panic!("a spawned task panicked and the runtime is configured to shut down on unhandled panic");
        }
    }

    /// Has only the calling thread take the core from now on. Other callers of `block_on` wait beside it.
    pub fn stay_here(&self) {
        self.state.lock().owner = Some(thread::current());
    }

    /// Takes the core. Returns false if it is taken, or its runtime has finished, or another thread owns it.
    pub(super) fn try_take(&self) -> bool {
        let mut state = self.state.lock();
        let is_free = state.is_free();
        state.is_taken |= is_free;
        is_free
    }

    /// Marks the thread that has the core, until the result is dropped. Afterwards that thread looks whether
    /// the shutdown has begun.
    pub(super) fn begin_own_poll(&self) -> OwnPoll<'_> {
        // Relaxed, and a fence: its partner is `CloseFence`; see `current_thread.rs`.
        self.is_in_own_poll.store(true, Relaxed);
        fence(SeqCst);
        OwnPoll(&self.is_in_own_poll)
    }

    /// `EndWaits`: the calling thread is about to begin the shutdown, and to take the core.
    pub(super) fn expect_end(&self) {
        self.state.lock().ender = Ender::Waits;
    }

    /// Takes the core for the thread that ends the runtime, which has begun the shutdown after
    /// [`expect_end`](Self::expect_end). Waits for the thread that has the core, at most for `limit`, unless
    /// that thread is in the poll of its own future. Returns false if it was not to be had.
    pub(super) fn take_to_end(&self, limit: Option<Duration>) -> bool {
        let mut state = self.state.lock();
        if state.is_free() {
            state.is_taken = true;
            state.ender = Ender::None;
            return true;
        }
        // A panic may have ended the runtime before.
        if !state.is_finished && !self.is_in_own_poll.load(Acquire) {
            self.await_core(&mut state, limit);
        }
        mem::take(&mut state.ender) == Ender::HasCore
    }

    fn await_core(&self, state: &mut MutexGuard<'_, CoreState>, limit: Option<Duration>) {
        // A limit beyond the clock's range counts as no limit.
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        while state.ender == Ender::Waits {
            match deadline {
                None => self.given.wait(state),
                Some(deadline) if self.given.wait_until(state, deadline).timed_out() => break,
                Some(_) => {}
            }
        }
    }

    /// Gives the core of the calling thread to the thread that ends the runtime. Returns false if none waits.
    pub(super) fn give_to_end(&self, state: &mut CoreState) -> bool {
        let waits = state.ender == Ender::Waits;
        if waits {
            // `EndGiven`.
            state.ender = Ender::HasCore;
            self.given.notify_one();
        }
        waits
    }

    /// The runtime has finished. A thread that waits to end it goes on.
    pub(super) fn finish(&self, state: &mut CoreState) {
        state.is_finished = true;
        state.ender = Ender::None;
        self.given.notify_one();
    }

    /// Makes the caller a waiter until the result is dropped, if the core cannot be taken. A thread that puts
    /// the core down unparks a waiter, which may try again. Until then a waiter runs no foreign code: other
    /// waiters rely on the one that is unparked.
    pub(super) fn wait(&self) -> Option<Waiting<'_>> {
        let mut state = self.state.lock();
        if state.is_free() {
            return None;
        }
        let number = state.next_waiter;
        state.next_waiter += 1;
        state.waiters.push((number, thread::current()));
        Some(Waiting { core: self, number })
    }
}

/// A place among the waiters; given up when dropped.
pub(super) struct Waiting<'a> {
    core: &'a Core,
    number: u64,
}

impl Waiting<'_> {
    /// Whether this waiter was not called to the core.
    pub(super) fn is_uncalled(&self) -> bool {
        self.core.state.lock().waiters.iter().any(|waiter| waiter.0 == self.number)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.core.state.lock();
        match state.waiters.iter().position(|waiter| waiter.0 == self.number) {
            Some(place) => _ = state.waiters.swap_remove(place),
            // This waiter was called to the core. Whether or not it takes the core, the core must not stay
            // unused while another waiter waits.
            None if state.is_free() => state.unpark_a_waiter(),
            None => {}
        }
    }
}

impl CoreState {
    /// Whether the calling thread may take the core.
    fn is_free(&self) -> bool {
        let is_open_here = || self.owner.as_ref().is_none_or(|owner| owner.id() == thread::current().id());
        !self.is_taken && !self.is_finished && is_open_here()
    }

    /// Calls a waiter that may take the core, if there is one.
    pub(super) fn unpark_a_waiter(&mut self) {
        let owner = self.owner.as_ref().map(Thread::id);
        let may_take = |waiter: &(u64, Thread)| owner.is_none_or(|owner| owner == waiter.1.id());
        if let Some(place) = self.waiters.iter().rposition(may_take) {
            self.waiters.swap_remove(place).1.unpark();
        }
    }
}
