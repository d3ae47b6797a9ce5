//! Starting tasks and closures on the current runtime.

use std::future::Future;
use std::panic::Location;
use std::ptr::NonNull;

use crate::coop;
use crate::memory;
#[cfg(doc)]
use crate::runtime::handle::Handle;
use crate::scheduler::context;
use crate::scheduler::reference::Reference;
use crate::scheduler::{Shared, blocking, in_place};
use crate::task::{self, JoinHandle};
use crate::util::{as_tokio, block_on};

/// Starts a future as a task of the current runtime, and returns a handle that waits for its output.
///
/// The task begins at once, whether or not the program awaits the handle. Dropping the handle detaches the
/// task. If the runtime has been shut down, the future is dropped and the handle says that the task was
/// cancelled.
///
/// # Panics
/// Outside of a runtime: call it in a task, in `block_on`, or while a guard of [`Handle::enter`] is alive.
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let handle = runtime::spawn(async { 6 * 7 });
/// assert_eq!(handle.await.unwrap(), 42);
/// # });
/// ```
///
/// Prior art: `tokio::spawn`.
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let site = Location::caller();
    let shared = current("spawn");
    // SAFETY: (1) the current runtime's shared state is valid. (2) Future and output are `Send`.
    unsafe { spawn_on(shared, future, site) }
}

/// Runs a closure that may block on a thread for blocking closures, and returns a handle that waits for its
/// result.
///
/// Up to [`max_blocking_threads`](crate::Builder::max_blocking_threads) closures run at once. Further
/// closures wait in order. A closure that has begun cannot be cancelled, and dropping a
/// [`Runtime`](crate::Runtime) waits for it. A closure that has not begun is dropped by `abort`. At shutdown
/// it is dropped unless a thread is on its way for it. If the system refuses a thread and the pool has none,
/// the handle yields an error that says so.
///
/// # Panics
/// Outside of a runtime: call it in a task, in `block_on`, or while a guard of [`Handle::enter`] is alive.
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let lines = runtime::task::spawn_blocking(|| std::fs::read_to_string("/proc/self/status"));
/// assert!(lines.await.unwrap().is_ok());
/// # });
/// ```
///
/// Prior art: `tokio::task::spawn_blocking`.
#[track_caller]
pub fn spawn_blocking<F, R>(f: F) -> JoinHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    let site = Location::caller();
    // SAFETY: the current runtime's shared state is valid.
    let runtime = unsafe { Reference::new(current("spawn_blocking")) };
    blocking::spawn_on(&runtime, f, site)
}

/// Runs a closure that may block on the calling thread, while other threads take over this worker's tasks.
///
/// The other tasks of the worker go on. Other futures inside the same task (in `join!`, `select!`) wait. On a
/// `current_thread` runtime, on a blocking thread and outside of a runtime this just calls `f`. A runtime has
/// as many spare workers for this as [`spare_workers`](crate::Builder::spare_workers) says. When all of them
/// are blocked, or the system refuses a thread, tasks wait.
///
/// Inside of `f`, [`Handle::block_on`] is allowed, and [`task::id`](crate::task::id) is that of the
/// surrounding task.
///
/// # Examples
/// ```
/// # runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap().block_on(async {
/// # runtime::spawn(async {
/// let text = runtime::task::block_in_place(|| std::fs::read_to_string("/proc/self/status"));
/// assert!(text.is_ok());
/// # }).await.unwrap();
/// # });
/// ```
///
/// Prior art: `tokio::task::block_in_place`, which panics on a `current_thread` runtime.
#[track_caller]
pub fn block_in_place<R>(f: impl FnOnce() -> R) -> R {
    let site = Location::caller();
    as_tokio::blocks_in_place(|| {
        // SAFETY: the current runtime's shared state is valid.
        context::current().is_some_and(|shared| unsafe { shared.as_ref() }.is_current_thread())
    });
    let id = task::try_id();
    let f = || task::with_id(id, f);
    context::with_worker(|worker| match worker {
        Some(worker) => in_place::block_in_place(worker, site, f),
        // The call is outside of a runtime, or in the destructor of a task that a thread which is no worker
        // cancels. An external thread shares its child jobs first.
        None => block_on::blocking(|| coop::suspended(f)),
    })
}

#[track_caller]
#[inline]
fn current(what: &str) -> NonNull<Shared> {
    match context::current() {
        Some(shared) => shared,
        None => panic!("{}", no_runtime(what)),
    }
}

/// The text for calls that need a runtime where there is none. Some programs recognise Tokio's text by a part
/// of it, and this text has that part.
pub(crate) fn no_runtime(what: &str) -> String {
    let theirs = "there is no reactor running, must be called from the context of a Tokio 1.x runtime";
    let ours = format!(
        "`{what}` needs a runtime, but there is no reactor running: \
         call it in a task, inside of `block_on`, or while a guard of `Handle::enter` is alive"
    );
    as_tokio::text(theirs, ours)
}

/// The size in bytes beyond which a future is boxed before it is made a task. Each move on the way into the
/// cell may be a copy on the stack. Without optimisation each move is one.
pub(crate) const LARGE: usize = if cfg!(debug_assertions) { 2 << 10 } else { 16 << 10 };

/// # Safety
/// 1. `shared` is valid for the call. 2. `future` and its output may be used by other threads.
#[inline]
pub(crate) unsafe fn spawn_on<F: Future + 'static>(
    shared: NonNull<Shared>,
    future: F,
    site: &'static Location<'static>,
) -> JoinHandle<F::Output> {
    // SAFETY: (1) and (2).
    unsafe {
        match size_of::<F>() > LARGE {
            true => spawn_small(shared, Box::pin(future), site),
            false => spawn_small(shared, future, site),
        }
    }
}

/// # Safety
/// 1. 2. As [`spawn_on`].
unsafe fn spawn_small<F: Future + 'static>(
    shared: NonNull<Shared>,
    future: F,
    site: &'static Location<'static>,
) -> JoinHandle<F::Output> {
    context::with_worker_of(shared, |worker| {
        // SAFETY: (1).
        let state = unsafe { shared.as_ref() };
        let layout = task::layout_of::<F>();
        let memory = match worker {
            Some(worker) => {
                worker.count_references(1);
                worker.processor().metrics.spawned.add(1);
                worker.magazine().allocate(layout, &state.depot)
            }
            None => memory::allocate_outside(layout, &state.depot),
        };
        // SAFETY: (1) is our (2). (2) The cell's reference was just taken, or `take_newborn` takes it before
        // any other thread sees the task. (3) The memory is from the allocator of all magazines, as that of
        // `Shared::allocate`, has this layout, and is given up here.
        let (task, handle) = unsafe { task::new_in(memory, future, shared, site) };
        match worker {
            // The worker drains its queues before it leaves.
            Some(worker) if !state.lifecycle.spawns_slowly() && worker.takes_tasks() => worker.push(task),
            _ => state.take_newborn(task, worker.is_none()),
        }
        handle
    })
}
