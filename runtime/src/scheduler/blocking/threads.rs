//! The threads of the blocking pool, and the closures that they run.

use std::alloc::Layout;
use std::future::Future;
use std::io;
use std::panic::Location;
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use super::queue::{Next, PendingWake, PoolQueue, PoolThread, Refused};
use crate::coop;
use crate::driver::time;
use crate::queue::IntrusiveList;
use crate::scheduler::Shared;
use crate::scheduler::context;
use crate::scheduler::polling::Polling;
use crate::scheduler::reference::Reference;
use crate::task::{self, Failure, Header, JoinHandle, Runnable, Schedule};

/// Runs `f` on a thread of the pool. A pool that was closed drops `f`, and the handle says cancelled. If the
/// system refuses a thread and the pool has no other, `f` is dropped, and the handle has the system's error.
pub fn spawn_on<F, R>(handle: &Reference, f: F, site: &'static Location<'static>) -> JoinHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    spawn_by(PoolQueue::submit, handle, f, site)
}

/// As [`spawn_on`], for a caller to which the system has just refused a thread. Starts no thread, and if the
/// pool has none, drops `f`. So it drops no other closure.
pub fn spawn_on_present<F, R>(handle: &Reference, f: F, site: &'static Location<'static>) -> JoinHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    spawn_by(PoolQueue::submit_to_present, handle, f, site)
}

fn spawn_by<F, R>(submit: Submit, handle: &Reference, f: F, site: &'static Location<'static>) -> JoinHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    let shared = handle.shared_ptr();
    // SAFETY: (1) `handle` is a reference.
    unsafe { Shared::retain(shared) };
    let future = BlockingTask::new(f);
    // SAFETY: (1) closure and result are `Send`; (2) the cell's reference was just taken.
    let (task, join) = unsafe { task::new(future, Closures::of(shared), site) };
    push(handle, task, submit);
    join
}

/// `BeginShutdown` of `lifecycle.rs`: has idle threads leave. Returns the closures for which no thread is on
/// its way.
pub fn close(shared: &Shared) -> IntrusiveList<Header> {
    shared.blocking.queue.close()
}

/// Drops closures that were not run.
pub fn cancel(shared: &Shared, closures: IntrusiveList<Header>) {
    end_all(shared, closures, Runnable::cancel);
}

/// [`PoolQueue::submit`], or [`PoolQueue::submit_to_present`], which has the same duties.
type Submit = unsafe fn(&PoolQueue<Header>, NonNull<Header>) -> Option<PendingWake>;

/// Queues a closure for a thread of the pool of `handle`. A closure that the queue refuses is cancelled.
fn push(handle: &Reference, task: Runnable, submit: Submit) {
    let shared = handle.shared();
    hold_clock(shared);
    let task = task.into_raw();
    // SAFETY: (1) the task lives while its `SCHEDULED` is in the queue. (2) Its `SCHEDULED` was ours, so the
    // task is in no queue, and goes into this one with the task.
    match unsafe { submit(&shared.blocking.queue, task) } {
        Some(pending) => perform(handle, pending),
        // SAFETY: (1) the closure was refused, so `SCHEDULED` is still ours.
        None => end(shared, || unsafe { Runnable::from_raw(task) }.cancel()),
    }
}

fn perform(handle: &Reference, pending: PendingWake) {
    match pending {
        PendingWake::Nothing => {}
        PendingWake::Wake(thread) => thread.wake(),
        PendingWake::Start if handle.shared().config.thread_name.is_made() => start_named(handle),
        PendingWake::Start => {
            if let Err(error) = start_thread(handle, arrive_and_run) {
                thread_refused(handle, Refused::Coming, error);
            }
        }
    }
}

/// Starts a thread whose name foreign code makes. Others rely on the calling thread: it may have taken a
/// closure. They also rely on a thread that is coming. So a thread that is started for the call arrives in
/// the new thread's place, and makes the name as a starting one.
fn start_named(handle: &Reference) {
    let reference = handle.clone();
    let started = handle.shared().run_apart(move |shared| {
        perform(&reference, shared.blocking.queue.arrive());
        if let Err(error) = start_thread(&reference, run_closures) {
            thread_refused(&reference, Refused::Starting, error);
        }
    });
    if let Err(error) = started {
        thread_refused(handle, Refused::Coming, error);
    }
}

/// Handles the refusal of a thread. If no thread is left, the closures in the queue fail. Otherwise they
/// wait for a thread.
#[cold]
fn thread_refused(handle: &Reference, refused: Refused, error: io::Error) {
    let (pending, closures) = handle.shared().blocking.queue.refused(refused);
    // This cannot be refused again: the pending wake starts no thread.
    perform(handle, pending);
    let error = Arc::new(error);
    end_all(handle.shared(), closures, |task| task.fail(Failure::Refused(error.clone())));
}

/// The life of a thread that is coming.
fn arrive_and_run(handle: &Reference) {
    // A hook may be slow. So the next thread is fetched before the hook, and no closure is taken yet.
    perform(handle, handle.shared().blocking.queue.arrive());
    run_closures(handle);
}

/// The life of a thread that has arrived: it runs closures until none has come for the keep-alive time.
fn run_closures(handle: &Reference) {
    let shared = handle.shared();
    let queue = &shared.blocking.queue;
    let hooks = &shared.config.hooks;
    let record = shared.blocking.records.enter();
    hooks.on_thread_start();
    let thread = PoolThread::new();
    let mut is_overdue = false;
    loop {
        match queue.next(&thread, is_overdue) {
            Next::Run(task, pending) => {
                perform(handle, pending);
                run_closure(shared, &record, task);
                is_overdue = false;
            }
            Next::Sleep => {
                // The last thread to fall asleep looks; see `scheduler/away/deadlock.rs`. Others rely on it:
                // it may have been chosen already.
                shared.find_deadlock().into_iter().for_each(|report| shared.deliver_elsewhere(report));
                is_overdue = thread.sleep(Instant::now().checked_add(shared.config.thread_keep_alive));
            }
            Next::Leave => break,
        }
    }
    hooks.on_thread_stop();
    shared.blocking.records.leave(&record);
}

/// Starts a thread that calls `run`. Makes its name on the calling thread.
fn start_thread(handle: &Reference, run: fn(&Reference)) -> io::Result<()> {
    let shared = handle.shared();
    let exit = shared.lifecycle.exit();
    exit.enter();
    let started = shared.config.start_thread({
        let handle = handle.clone();
        let exit = exit.clone();
        move || {
            let exit = exit;
            run_thread(handle, run);
            exit.leave();
        }
    });
    if started.is_err() {
        exit.leave();
    }
    started.map(drop)
}

fn run_thread(handle: Reference, run: fn(&Reference)) {
    context::become_blocking(handle.shared_ptr());
    // SAFETY: (1) the handle keeps the runtime valid.
    unsafe { context::enter_runtime(handle.shared_ptr(), || run(&handle)) };
}

fn run_closure(shared: &Shared, record: &Polling, task: NonNull<Header>) {
    // SAFETY: (1) the queue gives out each closure once, with the `SCHEDULED` that was pushed.
    let task = unsafe { Runnable::from_raw(task) };
    record.begin(&task);
    end(shared, || task.run());
    record.clear();
    shared.closure_ended();
}

fn end_all(shared: &Shared, mut closures: IntrusiveList<Header>, how: impl Fn(Runnable)) {
    while let Some(task) = closures.pop_task() {
        end(shared, || how(task));
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

/// Keeps a paused clock from moving by itself until the task or thread that waits for the closure has been
/// woken.
fn hold_clock(shared: &Shared) {
    clock(shared).into_iter().for_each(time::TimeDriver::inhibit_auto_advance);
}

fn clock(shared: &Shared) -> Option<&time::TimeDriver> {
    shared.driver.time().filter(|_| shared.is_current_thread())
}

/// The shared state as the scheduler of closures. Closures never wait, so they are never scheduled nor
/// counted as tasks.
#[repr(transparent)]
struct Closures(Shared);

impl Closures {
    fn of(shared: NonNull<Shared>) -> NonNull<Self> {
        shared.cast()
    }
}

// SAFETY: (1) nothing is scheduled; (2) cells are counted like those of tasks.
unsafe impl Schedule for Closures {
    /// The thread that drops a closure or its result belongs to the pool, ends the runtime, or has the spawn
    /// refused.
    const MAY_BLOCK: bool = true;

    fn is_own_thread(this: NonNull<Self>) -> bool {
        Shared::is_own_thread(this.cast())
    }

    unsafe fn allocate(this: NonNull<Self>, layout: Layout) -> NonNull<u8> {
        // SAFETY: (1) is ours, for the same state.
        unsafe { Shared::allocate(this.cast(), layout) }
    }

    unsafe fn free(this: NonNull<Self>, memory: NonNull<u8>, layout: Layout) {
        // SAFETY: (1) and (2) are ours, for the same state.
        unsafe { Shared::free(this.cast(), memory, layout) }
    }
}

/// A closure as a future that is ready at its first poll.
struct BlockingTask<F>(Option<F>);

impl<F> BlockingTask<F> {
    fn new(f: F) -> Self {
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
