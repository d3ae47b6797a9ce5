//! Threads that may block: for closures that wait for what no driver can watch.
//!
//! One queue in order of arrival, one lock. A thread is started when a closure arrives and none is idle, up to the bound;
//! beyond it closures wait. An idle thread leaves after the keep-alive time. Each thread holds a handle, so the pool's
//! memory outlives its threads.
//!
//! Closures are tasks that never wait: the same cell, the same handle. They are in no owned list: shutdown drops those in
//! the queue, and those that have begun run to their end.

use std::alloc::Layout;
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use crate::context::{self, Entry};
use crate::coop;
use crate::driver::time;
use crate::handle::Handle;
use crate::loom::sync::{Condvar, Mutex};
use crate::scheduler::Shared;
use crate::task::{Failure, Header, Runnable, Schedule};

/// The blocking threads of one runtime.
#[derive(Debug)]
pub struct Pool {
    state: Mutex<State>,
    /// A closure came, or the pool was closed.
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    queue: VecDeque<Closure>,
    threads: usize,
    /// Threads that wait and have not been notified.
    idle: usize,
    /// Notifications that no thread has taken yet.
    notified: usize,
    is_closed: bool,
}

impl Pool {
    pub fn new() -> Self {
        let state = State { queue: VecDeque::new(), threads: 0, idle: 0, notified: 0, is_closed: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Threads, idle threads, closures that wait.
    pub fn counts(&self) -> (usize, usize, usize) {
        let state = self.state.lock();
        (state.threads, state.idle, state.queue.len())
    }

    /// Step 1 of the shutdown: drops the closures that have not begun and has idle threads leave.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        let queue = std::mem::take(&mut state.queue);
        self.changed.notify_all();
        drop(state);
        queue.into_iter().for_each(|closure| closure.end(Runnable::cancel));
    }

    /// Queues a closure for a thread of the pool of `handle`; a pool that was closed cancels it.
    pub fn push(handle: &Handle, task: Runnable) {
        let shared = handle.shared();
        let pool = &shared.blocking;
        let mut state = pool.state.lock();
        if state.is_closed {
            drop(state);
            return task.cancel();
        }
        state.queue.push_back(Closure { task, _clock: ClockHold::new(handle) });
        if state.idle > 0 {
            state.idle -= 1;
            state.notified += 1;
            pool.changed.notify_one();
        } else if state.threads < shared.config.max_blocking_threads {
            state.threads += 1;
            drop(state);
            if let Err(error) = start_thread(handle) {
                pool.thread_refused(error);
            }
        }
    }

    /// With no thread left to run them, the closures in the queue fail; else they wait for one.
    fn thread_refused(&self, error: io::Error) {
        let mut state = self.state.lock();
        state.threads -= 1;
        if state.threads > 0 {
            return;
        }
        let queue = std::mem::take(&mut state.queue);
        drop(state);
        let error = Arc::new(error);
        queue.into_iter().for_each(|closure| closure.end(|task| task.fail(Failure::Refused(error.clone()))));
    }

    /// The life of a thread: runs closures until none has come for the keep-alive time.
    fn run(&self, handle: &Handle) {
        let keep_alive = handle.shared().config.thread_keep_alive;
        let mut state = self.state.lock();
        loop {
            while let Some(closure) = state.queue.pop_front() {
                drop(state);
                closure.end(Runnable::run);
                state = self.state.lock();
            }
            if state.is_closed {
                break;
            }
            state.idle += 1;
            let give_up = Instant::now().checked_add(keep_alive);
            while state.notified == 0 && !state.is_closed {
                match give_up {
                    None => self.changed.wait(&mut state),
                    Some(give_up) if self.changed.wait_until(&mut state, give_up).timed_out() => break,
                    Some(_) => {}
                }
            }
            if state.notified > 0 {
                state.notified -= 1;
                continue;
            }
            state.idle -= 1;
            if !state.is_closed {
                break;
            }
        }
        state.threads -= 1;
    }
}

fn start_thread(handle: &Handle) -> io::Result<()> {
    let shared = handle.shared();
    let exit = shared.shutdown.exit();
    exit.enter();
    let started = shared.config.start_thread({
        let handle = handle.clone();
        let exit = exit.clone();
        move || {
            let exit = exit;
            run_thread(handle);
            exit.leave();
        }
    });
    if started.is_err() {
        exit.leave();
    }
    started.map(drop)
}

fn run_thread(handle: Handle) {
    context::become_blocking();
    let entry = Entry::new(handle.shared_ptr());
    // SAFETY: the entry stays in this frame until `leave`, and the handle keeps the state.
    unsafe { entry.enter() };
    let hooks = &handle.shared().config.hooks;
    hooks.on_thread_start();
    handle.shared().blocking.run(&handle);
    hooks.on_thread_stop();
    entry.leave();
}

/// A closure in the queue.
#[derive(Debug)]
struct Closure {
    task: Runnable,
    /// A paused clock does not move by itself until whoever waits for the closure has been woken.
    _clock: ClockHold,
}

impl Closure {
    fn end(self, how: impl FnOnce(Runnable)) {
        how(self.task);
    }
}

/// The shared state as what closures have for a scheduler: they never wait, so they are never scheduled nor counted as tasks.
#[repr(transparent)]
pub struct Closures(Shared);

impl Closures {
    pub fn of(shared: NonNull<Shared>) -> NonNull<Self> {
        shared.cast()
    }
}

// SAFETY: (1) nothing is scheduled; (2) cells are counted as those of tasks.
unsafe impl Schedule for Closures {
    unsafe fn schedule(_: NonNull<Self>, task: Runnable) {
        // The abort of a closure only marks it: it is scheduled all its life.
        unreachable!("{task:?}, a closure, was woken");
    }

    unsafe fn reschedule(_: NonNull<Self>, task: Runnable) {
        unreachable!("{task:?}, a closure, was pending");
    }

    fn is_own_thread(this: NonNull<Self>) -> bool {
        Shared::is_own_thread(this.cast())
    }

    unsafe fn adopt(_: NonNull<Self>, _: NonNull<Header>) -> bool {
        unreachable!("a closure does not wait")
    }

    unsafe fn release(_: NonNull<Self>, _: NonNull<Header>) {}

    unsafe fn allocate(this: NonNull<Self>, layout: Layout) -> NonNull<u8> {
        // SAFETY: the same state; the caller's words are the same.
        unsafe { Shared::allocate(this.cast(), layout) }
    }

    unsafe fn free(this: NonNull<Self>, memory: NonNull<u8>, layout: Layout) {
        // SAFETY: as above.
        unsafe { Shared::free(this.cast(), memory, layout) }
    }
}

/// A closure as a future that is ready at its first poll.
pub struct BlockingTask<F>(Option<F>);

impl<F> BlockingTask<F> {
    pub fn new(f: F) -> Self {
        Self(Some(f))
    }
}

// The closure is never pinned.
impl<F> Unpin for BlockingTask<F> {}

impl<T, F: FnOnce() -> T> Future for BlockingTask<F> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<T> {
        let f = self.0.take().expect("a blocking closure is run once");
        Poll::Ready(coop::suspended(f))
    }
}

/// Keeps a paused clock from moving by itself.
#[derive(Debug)]
struct ClockHold(Option<Handle>);

impl ClockHold {
    fn new(handle: &Handle) -> Self {
        let time = handle.shared().driver.time().filter(|_| handle.shared().is_current_thread());
        time.map(time::Driver::inhibit_auto_advance);
        Self(time.map(|_| handle.clone()))
    }
}

impl Drop for ClockHold {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take() {
            handle.shared().driver.time().map(time::Driver::allow_auto_advance);
            handle.shared().driver.unpark();
        }
    }
}
