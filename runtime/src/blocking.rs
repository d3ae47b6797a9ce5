//! Threads that may block: for closures that wait for what no driver can watch.
//!
//! Closures begin in order of arrival, on as many threads as they need, up to the bound. A thread comes when
//! a closure waits and leaves when it has been idle for the keep-alive time; [`crew`] tells which thread
//! fetches it, and why no closure is forgotten. Each thread holds a handle, so the pool's memory outlives its
//! threads.
//!
//! Closures are tasks that never wait: the same cell, the same handle. They are in no owned list: shutdown
//! drops those in the queue that no thread is on its way for. The others, and those that have begun, run to
//! their end.

pub mod crew;

use std::alloc::Layout;
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
use crate::queue::Chain;
use crate::scheduler::Shared;
use crate::scheduler::polling::Polling;
use crate::scheduler::unfinished::Records;
use crate::task::{self, Failure, Header, Runnable, Schedule};
use crew::{Counts, Crew, Errand, Member, Next};

/// The blocking threads of one runtime.
#[derive(Debug)]
pub struct Pool {
    /// Each item came out of a [`Runnable`], and the thread that takes it makes it a `Runnable` again.
    crew: Crew<Header>,
    /// What each thread is at.
    records: Records,
}

impl Pool {
    /// A pool of at most `most` threads, with none to begin with.
    pub fn new(most: usize) -> Self {
        Self { crew: Crew::new(most), records: Records::new() }
    }

    pub fn records(&self) -> &Records {
        &self.records
    }

    /// Its numbers at this moment.
    pub fn counts(&self) -> Counts {
        self.crew.counts()
    }

    /// Step 1 of the shutdown: drops the closures that no thread is on its way for, and has idle threads
    /// leave.
    pub fn close(&self, shared: &Shared) {
        end_all(shared, self.crew.close(), Runnable::cancel);
    }

    /// Queues a closure for a thread of the pool of `handle`; a pool that was closed cancels it.
    pub fn push(handle: &Handle, task: Runnable) {
        let shared = handle.shared();
        hold_clock(shared);
        let task = task.into_raw();
        // SAFETY: the task lives while its `SCHEDULED` is ours, which goes into the queue with it: so it is
        // in no other.
        match unsafe { shared.blocking.crew.submit(task) } {
            Some(errand) => Self::perform(handle, errand),
            // SAFETY: it was refused, so `SCHEDULED` is still ours.
            None => end(shared, || unsafe { Runnable::from_raw(task) }.cancel()),
        }
    }

    fn perform(handle: &Handle, errand: Errand) {
        match errand {
            Errand::Nothing => {}
            Errand::Wake(member) => member.wake(),
            Errand::Start => {
                if let Err(error) = start_thread(handle) {
                    Self::thread_refused(handle, error);
                }
            }
        }
    }

    /// With no thread left to run them, the closures in the queue fail; else they wait for one.
    #[cold]
    fn thread_refused(handle: &Handle, error: io::Error) {
        let (errand, closures) = handle.shared().blocking.crew.refused();
        // No second refusal: it starts no thread.
        Self::perform(handle, errand);
        let error = Arc::new(error);
        end_all(handle.shared(), closures, |task| task.fail(Failure::Refused(error.clone())));
    }

    /// The life of a thread: runs closures until none has come for the keep-alive time.
    fn run(handle: &Handle) {
        let shared = handle.shared();
        let crew = &shared.blocking.crew;
        let hooks = &shared.config.hooks;
        let record = shared.blocking.records.enter();
        // A hook may take its time, so the next thread is fetched before, and no closure taken yet.
        Self::perform(handle, crew.arrive());
        hooks.on_thread_start();
        let member = Member::new();
        let mut is_overdue = false;
        loop {
            match crew.next(&member, is_overdue) {
                Next::Run(task, errand) => {
                    Self::perform(handle, errand);
                    run_closure(shared, &record, task);
                    is_overdue = false;
                }
                Next::Sleep => {
                    // The last to fall asleep looks; see `deadlock.rs`.
                    shared.report_deadlock();
                    is_overdue = member.sleep(Instant::now().checked_add(shared.config.thread_keep_alive));
                }
                Next::Leave => break,
            }
        }
        hooks.on_thread_stop();
        shared.blocking.records.leave(&record);
    }
}

fn start_thread(handle: &Handle) -> io::Result<()> {
    let shared = handle.shared();
    let exit = shared.lifecycle.exit();
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
    context::become_blocking(handle.shared_ptr());
    let entry = Entry::new(handle.shared_ptr());
    // SAFETY: the entry stays in this frame until `leave`, and the handle keeps the state.
    unsafe { entry.enter() };
    Pool::run(&handle);
    entry.leave();
}

fn run_closure(shared: &Shared, record: &Polling, task: NonNull<Header>) {
    // SAFETY: the crew gives out each closure once, and with it the `SCHEDULED` that was pushed.
    let task = unsafe { Runnable::from_raw(task) };
    record.begin(&task);
    end(shared, || task.run());
    record.clear();
    shared.closure_ended();
}

fn end_all(shared: &Shared, mut closures: Chain<Header>, how: impl Fn(Runnable)) {
    while let Some(task) = closures.pop_front() {
        // SAFETY: as in `run_closure`.
        end(shared, || how(unsafe { Runnable::from_raw(task) }));
    }
}

/// Ends a closure for which the clock was held.
fn end(shared: &Shared, how: impl FnOnce()) {
    how();
    if let Some(time) = clock(shared) {
        time.allow_auto_advance();
        shared.driver.unpark();
    }
}

/// A paused clock does not move by itself until the task or thread that waits for the closure has been woken.
fn hold_clock(shared: &Shared) {
    clock(shared).into_iter().for_each(time::Driver::inhibit_auto_advance);
}

fn clock(shared: &Shared) -> Option<&time::Driver> {
    shared.driver.time().filter(|_| shared.is_current_thread())
}

/// The shared state as what closures have for a scheduler: they never wait, so they are never scheduled nor
/// counted as tasks.
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
        let id = task::try_id();
        Poll::Ready(coop::suspended(|| task::with_id(id, f)))
    }
}
