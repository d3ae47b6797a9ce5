//! Detached jobs: no caller waits for them, and they keep their pool running until they have ended.

use std::ptr::NonNull;

use super::enter::{self, JobEnd};
use crate::job::{HeapJob, JobRef, Tag};
use crate::scheduler::JobMemory;
use crate::scheduler::Shared;
use crate::scheduler::context;
use crate::scheduler::inject::detached_panicked;
use crate::scheduler::injected::Injected;
use crate::scheduler::reference::Reference;
use crate::util::unwind;

/// Spawns a job that runs on its own: no caller waits for it, and it can borrow nothing.
///
/// The job runs in the pool that the call belongs to: of a runtime, a [`ThreadPool`](super::ThreadPool), or
/// the process. That pool stays until the job has ended. The job never runs in the middle of other work on
/// its thread, unless that work calls [`yield_now`](super::yield_now), [`broadcast`](super::broadcast) or the
/// like. On the thread that spawned it, younger jobs run first. [`spawn_fifo`] is the other way round. The job
/// is no part of a computation around it, and so is not cancelled with it. If there is no pool any more, the
/// job runs at once, on the calling thread. It must then not wait for what that thread has to do.
///
/// For a task, an async computation, use [`runtime::spawn`](crate::spawn); for a job with a result,
/// [`compute`](crate::compute).
///
/// # Panics
/// Never itself. A panic of the job goes to the pool's panic handler if there is one. Otherwise it is
/// dropped, or aborts the process if the feature `abort-on-detached-panic` is on.
///
/// # Examples
/// ```
/// use std::sync::mpsc;
///
/// let (tx, rx) = mpsc::channel();
/// runtime::parallel::spawn(move || tx.send(6 * 7).unwrap());
/// assert_eq!(rx.recv(), Ok(42));
/// ```
/// The job outlives the call:
/// ```compile_fail,E0597
/// let numbers = vec![1, 2, 3];
/// let borrowed = &numbers;
/// runtime::parallel::spawn(move || println!("{}", borrowed.len()));
/// ```
/// and goes to another thread:
/// ```compile_fail,E0277
/// let count = std::rc::Rc::new(1);
/// runtime::parallel::spawn(move || println!("{count}"));
/// ```
///
/// Prior art: `rayon::spawn`.
pub fn spawn<F>(func: F)
where
    F: FnOnce() + Send + 'static,
{
    spawn_here(false, func);
}

/// Spawns a job that runs on its own, after the jobs that this thread has spawned this way before.
///
/// Otherwise as [`spawn`].
///
/// # Panics
/// Never itself; see [`spawn`].
///
/// # Examples
/// ```
/// use std::sync::mpsc;
///
/// let (tx, rx) = mpsc::channel();
/// runtime::parallel::spawn_fifo(move || tx.send(6 * 7).unwrap());
/// assert_eq!(rx.recv(), Ok(42));
/// ```
///
/// Prior art: `rayon::spawn_fifo`.
pub fn spawn_fifo<F>(func: F)
where
    F: FnOnce() + Send + 'static,
{
    spawn_here(true, func);
}

fn spawn_here(is_fifo: bool, f: impl FnOnce() + Send + 'static) {
    match enter::detached_pool() {
        // SAFETY: (1) what makes it the pool of this call stays until `f` begins, if that runs in place.
        Some(shared) => unsafe { push(shared, is_fifo, f) },
        None => run_in_place(f),
    }
}

/// [`spawn`], or [`spawn_fifo`], in the pool `shared`.
///
/// # Safety
/// 1. `shared` is valid until this returns, or until `f` begins in place.
pub(super) unsafe fn push(shared: NonNull<Shared>, is_fifo: bool, f: impl FnOnce() + Send + 'static) {
    // SAFETY: (1).
    let state = unsafe { shared.as_ref() };
    if !state.injected_jobs.try_begin() {
        // SAFETY: (1).
        return unsafe { run_refused(shared, f) };
    }
    // SAFETY: (1) `try_begin` has counted it.
    let job = unsafe { job(shared, f) };
    // SAFETY: used in this call only.
    match unsafe { enter::job_processor_of(shared) }.filter(|processor| !processor.is_external()) {
        // SAFETY: (1) the job processor outlives its jobs, because they are counted. (2) The token is pushed
        // here, and a queue gives it to one thread, which runs it.
        Some(processor) if is_fifo => state.queue_detached(processor, unsafe { processor.push_fifo(job) }),
        Some(processor) => state.queue_detached(processor, job),
        None => state.queue_injected(Injected::Spawn(job)),
    }
}

/// A detached job of the pool `shared`.
///
/// # Safety
/// 1. It was counted.
pub(super) unsafe fn job(shared: NonNull<Shared>, f: impl FnOnce() + Send + 'static) -> JobRef {
    let pool = Pool(shared);
    let run = move |spot| {
        // The memory goes back first, so that the jobs which this job spawns can use it.
        drop(spot);
        // So that the closure captures the whole struct, which is `Send`, and not its field.
        let pool = pool;
        // SAFETY: (1), and the job processor that runs the job keeps its pool.
        let _end = unsafe { JobEnd::new(pool.0) };
        // SAFETY: as above.
        run_catching(unsafe { pool.0.as_ref() }, f);
    };
    // SAFETY: (1) nothing in `run` unwinds or borrows, and `run` is `Send`. (2) There is no region. (3) The
    // callers queue the reference, and a queue gives it to one thread, which runs it.
    unsafe { HeapJob::<JobMemory, _>::allocate(std::ptr::null(), Tag::NONE, run) }
}

struct Pool(NonNull<Shared>);

// SAFETY: the shared state is made to be used from all threads.
unsafe impl Send for Pool {}

/// Runs `f`. Only the pool's panic handler is told of its panic.
pub(super) fn run_catching(shared: &Shared, f: impl FnOnce()) {
    if let Err(payload) = unwind::catch(f) {
        shared.detached_panicked(payload);
    }
}

/// Runs `f` in place, because the pool `shared` has closed. `f` may drop all else that keeps the pool.
///
/// # Safety
/// 1. `shared` is valid until `f` begins.
#[cold]
pub(super) unsafe fn run_refused(shared: NonNull<Shared>, f: impl FnOnce()) {
    // SAFETY: (1).
    let hold = unsafe { Reference::new(shared) };
    apart_from_caller(|| run_catching(hold.shared(), f));
}

/// Runs `f` where there is no pool, and so no panic handler.
#[cold]
pub(super) fn run_in_place(f: impl FnOnce()) {
    apart_from_caller(|| {
        if let Err(payload) = unwind::catch(f) {
            detached_panicked(None, payload);
        }
    });
}

/// Runs `f` on the calling thread, as a job that is no part of the poll that makes it. `f` does not unwind.
fn apart_from_caller(f: impl FnOnce()) {
    // SAFETY: (1) used in this call only.
    match unsafe { context::job_processor() } {
        Some(processor) => processor.run_apart(f),
        None => enter::in_surroundings_here(f),
    }
}
