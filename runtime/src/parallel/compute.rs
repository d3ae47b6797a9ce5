//! `compute`: a computation that starts at once, and a handle for a task. The task can wait for the handle,
//! and its drop cancels the computation.
//!
//! A computation is a task that never waits: it has the same cell, the same handle, the same errors.
//! Otherwise it is no task of the runtime. It is an injected job of `scheduler/jobs/injected.rs`, runs on
//! a job processor, on a fresh stack, and is in no owned list. The request to end is the `CANCELLED` bit in
//! its own cell. An abort of a task that is `SCHEDULED` sets the bit, and leaves the rest to the thread that
//! runs the task. A computation is `SCHEDULED` all its life, so it needs nothing else.
//!
//! ```text
//! QueueCompute   the caller makes the cell and queues the injected job
//! BeginCompute   a worker takes it: CANCELLED? Then f is dropped, unrun
//! RunCompute     f runs inside a `Region` whose cancel flag is: CANCELLED, or is the pool being shut down?
//! EndCompute     f returns: its value counts, whatever was asked
//!                f unwinds: a panic, kept or its own; or else it was cancelled
//! CancelCompute  drop or abort: CANCELLED
//! CancelBudgets  end the publish budgets of all job processors (`cancel.rs`)
//! ```

use std::alloc::Layout;
use std::fmt;
use std::future::Future;
use std::panic::{Location, resume_unwind};
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll};

use super::enter;
use crate::coop;
use crate::job::region::{Question, Region, Tag};
use crate::runtime::Runtime;
use crate::runtime::handle::Handle;
use crate::scheduler::Shared;
use crate::scheduler::context;
use crate::scheduler::injected::Injected;
use crate::task::{self, AbortHandle, Header, Id, JoinError, JoinHandle, Schedule};
use crate::util::unwind;
use crate::util::unwind::Cancelled;

/// Starts a computation on a worker, and returns a handle that waits for its result and cancels it when
/// dropped.
///
/// It begins as soon as a worker has nothing else to do, whether or not the handle is awaited. Inside of it,
/// [`join`](crate::parallel::join) and the like share its work with the other workers. Meanwhile the task
/// that awaits the handle holds no worker. [`block_on`](crate::Runtime::block_on) may await the handle as
/// well, also that of another runtime.
///
/// If the calling thread is a worker of a runtime or a [`ThreadPool`](crate::parallel::ThreadPool), the
/// computation runs there. Else it runs in the multi-thread runtime that the thread has
/// [entered](crate::Handle::enter), else in the process-wide pool. A `current_thread` runtime that the thread
/// drives does not count; see [where it runs](crate::parallel#where-it-runs).
///
/// # Cancelling
/// Dropping the handle, or [`abort`](Compute::abort), never waits. A computation that has not begun is
/// dropped unrun. A computation that runs ends at its next *split point*, which is a call of `join` or
/// `scope`. It unwinds from there as from a panic, without a message. So destructors run, and `catch_unwind`
/// sees it. (A `join` that begins at the same instant may miss the request, and so may up to 1024 calls after
/// it, which take some 25 µs as a rule. In a pool that the computation has been
/// [installed](crate::parallel::ThreadPool::install) into, up to 16 calls may always miss it.)
///
/// It does not unwind inside of `isolated` parts, from destructors while it unwinds already, or in programs
/// built with `panic = "abort"`. There, and in long loops without a split, call
/// [`is_cancelled`](crate::parallel::is_cancelled). If the closure returns all the same, its value counts. If
/// any part of the computation panics, the panic takes precedence over the cancellation. Jobs that were
/// [spawned](fn@crate::spawn) without a scope are not a part of it.
///
/// The shutdown of its runtime cancels the computation, too. A computation that is started afterwards is
/// dropped unrun. If the system refused every thread of the process-wide pool, a computation that would run
/// there runs in place, before this returns.
///
/// # Errors
/// The handle yields a [`JoinError`] if the closure panicked or was cancelled.
///
/// # Examples
/// ```
/// # runtime::Runtime::new().unwrap().block_on(async {
/// fn sum(numbers: &[u64]) -> u64 {
///     if numbers.len() <= 1000 {
///         return numbers.iter().sum();
///     }
///     let (left, right) = numbers.split_at(numbers.len() / 2);
///     let (left, right) = runtime::parallel::join(|| sum(left), || sum(right));
///     left + right
/// }
/// let numbers: Vec<u64> = (0..100_000).collect();
/// let total = runtime::compute(move || sum(&numbers)).await?;
/// assert_eq!(total, 4_999_950_000);
/// # Ok::<(), runtime::task::JoinError>(())
/// # }).unwrap();
/// ```
///
/// Prior art: a Rayon `spawn` that answers over a oneshot channel. Structured cancellation by dropping comes
/// from Rust's futures.
#[track_caller]
pub fn compute<F, T>(f: F) -> Compute<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    // SAFETY: (1) what the calling thread is in, or has entered, is valid until the call returns.
    unsafe { compute_in(enter::detached_pool(), f, Location::caller()) }
}

impl Handle {
    /// Starts a computation on a worker of this runtime; as [`compute`](fn@crate::compute), from any thread.
    ///
    /// A `current_thread` runtime has no workers to share with. Then the computation runs in the process-wide
    /// pool.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Runtime::new()?;
    /// let answer = runtime.handle().compute(|| 6 * 7);
    /// assert_eq!(runtime.block_on(answer).unwrap(), 42);
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn compute<F, T>(&self, f: F) -> Compute<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        // SAFETY: `detached_pool_of` and `compute_in`: (1) our reference keeps the state.
        unsafe { compute_in(enter::detached_pool_of(self.shared_ptr()), f, Location::caller()) }
    }
}

impl Runtime {
    /// Starts a computation on a worker of this runtime; as [`Handle::compute`].
    #[track_caller]
    pub fn compute<F, T>(&self, f: F) -> Compute<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.handle().compute(f)
    }
}

/// # Safety
/// 1. `pool` is valid for the call.
unsafe fn compute_in<F, T>(
    pool: Option<NonNull<Shared>>,
    f: F,
    site: &'static Location<'static>,
) -> Compute<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let future = Computation(Some(f));
    let Some(pool) = pool else {
        // SAFETY: (1) closure and result are `Send`. (2) This scheduler is nothing but a type.
        let (task, handle) = unsafe { task::new(future, NonNull::<InPlace>::dangling(), site) };
        // The poll of a task may be around it.
        coop::suspended(|| task.run());
        return Compute { handle, cancels: true };
    };
    // SAFETY: (1): what keeps the pool valid for the call is a reference, or a worker.
    unsafe { Shared::retain(pool) };
    // SAFETY: (1) closure and result are `Send`. (2) The cell's reference to the pool was just taken, and
    // `free` gives it up.
    let (task, handle) = unsafe { task::new(future, pool.cast::<Computations>(), site) };
    // SAFETY: (1), and the handle's cell keeps it.
    if let Err(Injected::Compute(task)) = unsafe { pool.as_ref() }.push_injected(Injected::Compute(task)) {
        // The workers are leaving. Those that are left would cancel it as well.
        task.cancel();
    }
    Compute { handle, cancels: true }
}

/// Waits for a computation: a future that yields its result. Made by [`compute`](fn@compute).
///
/// Dropping it cancels the computation, and does not wait for it. If the computation has ended, its result is
/// dropped with the handle.
///
/// # Cancel safety
/// Safe if it is awaited by `&mut`: it can be awaited again. Dropping it cancels the computation.
///
/// # Panics
/// If it is polled after it has given its result.
#[must_use = "dropping it cancels the computation: await it, or call `detach`"]
pub struct Compute<T> {
    handle: JoinHandle<T>,
    /// Whether a drop cancels the computation.
    cancels: bool,
}

impl<T> Compute<T> {
    /// Asks the computation to end; see [`compute`](fn@compute). Does not wait for it.
    ///
    /// The handle then yields an error whose [`is_cancelled`](JoinError::is_cancelled) is true, unless the
    /// closure returns or panics first.
    ///
    /// # Examples
    /// ```
    /// # runtime::Runtime::new().unwrap().block_on(async {
    /// fn for_ever() {
    ///     runtime::parallel::join(|| (), || ());
    ///     for_ever();
    /// }
    /// let computation = runtime::compute(for_ever);
    /// computation.abort();
    /// assert!(computation.await.unwrap_err().is_cancelled());
    /// # });
    /// ```
    pub fn abort(&self) {
        self.handle.abort();
    }

    /// Returns a handle that can cancel the computation and does not keep its result.
    pub fn abort_handle(&self) -> AbortHandle {
        self.handle.abort_handle()
    }

    /// Lets the computation go on by itself; its result will be dropped.
    pub fn detach(mut self) {
        self.cancels = false;
    }

    /// Returns whether the computation has ended: by returning, panicking or having been cancelled.
    ///
    /// A computation that was asked to end is not finished until all its parts have ended.
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    /// Returns the id of the computation, which is unique among tasks and computations.
    pub fn id(&self) -> Id {
        self.handle.id()
    }
}

impl<T> Future for Compute<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.handle).poll(cx)
    }
}

impl<T> Drop for Compute<T> {
    fn drop(&mut self) {
        if self.cancels {
            self.handle.abort();
        }
    }
}

impl<T> fmt::Debug for Compute<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compute").field("id", &self.id()).finish()
    }
}

/// A closure as a future that is ready at its first poll.
struct Computation<F>(Option<F>);

// The closure is never pinned.
impl<F> Unpin for Computation<F> {}

impl<T, F: FnOnce() -> T> Future for Computation<F> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<T> {
        let f = self.0.take().expect("a computation is run once");
        let task = NonNull::new(coop::current_task_data().cast_mut().cast());
        let task = task.expect("a computation is polled as a task");
        // SAFETY: the task is live until this poll has ended.
        Poll::Ready(coop::suspended(|| unsafe { run(task, f) }))
    }
}

/// `RunCompute` and `EndCompute`.
///
/// # Safety
/// 1. `task` is live until this returns.
unsafe fn run<T>(task: NonNull<Header>, f: impl FnOnce() -> T) -> T {
    // SAFETY: (1) used in this call only.
    let Some(processor) = (unsafe { context::job_processor() }) else {
        // Run in place: no other thread has the handle yet.
        return f();
    };
    let has_begun = processor.shared().lifecycle.has_begun_flag();
    // SAFETY: (1), and this worker keeps the pool; the region is used until this call returns, when all that
    // was made inside has ended.
    let region =
        Region::cancellable(unsafe { Question::new(task, processor.shared_ptr().cast(), has_begun) });
    // SAFETY: (1) the region stays until it is replaced below.
    let (outer, outer_tag) = unsafe { processor.replace_region(&raw const region, Tag::NONE) };
    let result = unwind::catch(f);
    // SAFETY: (1) that one is around this call.
    unsafe { processor.put_region_back(outer, outer_tag) };
    let kept = region.take_panic();
    match (result, kept) {
        (Err(payload), Some(panic)) if payload.is::<Cancelled>() => resume_unwind(panic),
        (result, kept) => {
            unwind::drop_quietly(kept);
            enter::resume(result)
        }
    }
}

/// The shared state in the role of a computation's scheduler. Computations never wait, so they are never
/// scheduled nor counted as tasks.
#[repr(transparent)]
struct Computations(Shared);

// SAFETY: (1) nothing is scheduled; (2) cells are counted as those of tasks.
unsafe impl Schedule for Computations {
    /// `CancelBudgets`.
    unsafe fn hurry(this: NonNull<Self>) {
        // SAFETY: the same state; (1).
        unsafe { this.cast::<Shared>().as_ref() }.end_budgets();
    }

    fn is_own_thread(this: NonNull<Self>) -> bool {
        Shared::is_own_thread(this.cast())
    }

    unsafe fn allocate(this: NonNull<Self>, layout: Layout) -> NonNull<u8> {
        // SAFETY: (1) is the caller's, for the same state under its own type.
        unsafe { Shared::allocate(this.cast(), layout) }
    }

    unsafe fn free(this: NonNull<Self>, memory: NonNull<u8>, layout: Layout) {
        // SAFETY: (1) and (2) are the caller's, for the same state under its own type.
        unsafe { Shared::free(this.cast(), memory, layout) }
    }
}

/// The scheduler of a computation that its caller runs, because there is no pool.
struct InPlace;

// SAFETY: (1) nothing is scheduled; (2) there is nothing to stay valid.
unsafe impl Schedule for InPlace {
    fn is_own_thread(_: NonNull<Self>) -> bool {
        false
    }

    unsafe fn allocate(_: NonNull<Self>, layout: Layout) -> NonNull<u8> {
        // SAFETY: a cell is not of size zero.
        let memory = unsafe { std::alloc::alloc(layout) };
        NonNull::new(memory).unwrap_or_else(|| std::alloc::handle_alloc_error(layout))
    }

    unsafe fn free(_: NonNull<Self>, memory: NonNull<u8>, layout: Layout) {
        // SAFETY: by (2) the memory is from `allocate`, with this layout, and is not used any more.
        unsafe { std::alloc::dealloc(memory.as_ptr(), layout) }
    }
}
