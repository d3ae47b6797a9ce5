//! Broadcasts: a closure that runs once on each job processor.
//!
//! Each job processor has a queue of jobs that only it may run. It runs them in their order, after the jobs
//! that were pushed at the job processor before, and before it steals. So the calls of a broadcast can run at
//! once on all threads, and may wait for each other.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use super::cancel;
use super::enter::{self, CallRegion, JobEnd, JobLatch, OwnComputation};
use super::spawn;
use crate::job::{CountLatch, JobHeader, JobRef};
use crate::scheduler::context;
use crate::scheduler::{OwnJobs, Shared};
use crate::util::unwind::{self, Payload};

/// Tells the closure of a [`broadcast`](broadcast()) on which thread it runs.
///
/// It stays on that thread:
/// ```compile_fail,E0277
/// runtime::parallel::broadcast(|thread| {
///     std::thread::scope(|threads| _ = threads.spawn(|| println!("{}", thread.index())));
/// });
/// ```
pub struct BroadcastContext<'a> {
    index: usize,
    num_threads: usize,
    /// Belongs to this thread and this call only.
    _marker: PhantomData<(&'a mut std::cell::Cell<()>, *mut ())>,
}

impl BroadcastContext<'_> {
    pub(super) fn new(index: usize, num_threads: usize) -> Self {
        Self { index, num_threads, _marker: PhantomData }
    }

    /// Returns the index of the thread in its pool.
    #[inline]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the number of threads of the pool. The closure runs that many times.
    #[inline]
    pub fn num_threads(&self) -> usize {
        self.num_threads
    }
}

impl fmt::Debug for BroadcastContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BroadcastContext")
            .field("index", &self.index)
            .field("num_threads", &self.num_threads)
            .finish_non_exhaustive()
    }
}

/// Runs a closure once on each thread of the pool, and returns the results by the threads' indices.
///
/// Each thread runs the closure when it has nothing of its own left to do, and before it steals. Later
/// broadcasts come after it. The pool is the one that the call belongs to. If the calling thread belongs to
/// the pool, it takes part; otherwise it waits. If the pool is gone, the closure runs once, on the calling
/// thread.
///
/// The call waits for a thread that is busy for long, in a task or a job. A non-worker thread that runs its
/// own parallel call, see [`join`](super::join), does not belong to the pool. Two broadcasts inside of
/// different [`isolated`](super::isolated) parts wait for each other for ever.
///
/// # Panics
/// If the closure panics on one of the threads, with the payload of the lowest index, after it has run on
/// all.
///
/// # Examples
/// ```
/// use runtime::parallel::{ThreadPoolBuilder, broadcast};
///
/// let pool = ThreadPoolBuilder::new().num_threads(3).build()?;
/// let squares = pool.install(|| broadcast(|thread| thread.index() * thread.index()));
/// assert_eq!(squares, [0, 1, 4]);
/// # Ok::<(), runtime::parallel::ThreadPoolBuildError>(())
/// ```
/// All threads call the same closure, so it has to be `Sync`:
/// ```compile_fail,E0277
/// let count = std::cell::Cell::new(0);
/// runtime::parallel::broadcast(|_| count.set(count.get() + 1));
/// ```
///
/// Prior art: `rayon::broadcast`.
pub fn broadcast<OP, R>(op: OP) -> Vec<R>
where
    OP: Fn(BroadcastContext<'_>) -> R + Sync,
    R: Send,
{
    let _own = OwnComputation::begin();
    match enter::current_pool() {
        // SAFETY: (1) what makes it the pool of this call stays until the call returns.
        Some(shared) => unsafe { broadcast_in(shared, op) },
        None => vec![op(BroadcastContext::new(0, 1))],
    }
}

/// Runs a closure once on each thread of the pool, without waiting for it.
///
/// The calls keep the order of other broadcasts, [`broadcast`] included. The closure is dropped after its
/// last run. Otherwise as [`spawn`](super::spawn()).
///
/// # Panics
/// Never itself. Each panic of the closure counts as one of a detached job, see [`spawn`](super::spawn()).
///
/// # Examples
/// ```
/// use runtime::parallel::{ThreadPoolBuilder, spawn_broadcast};
/// use std::sync::mpsc;
///
/// let (tx, rx) = mpsc::channel();
/// let pool = ThreadPoolBuilder::new().num_threads(3).build()?;
/// pool.install(|| spawn_broadcast(move |thread| tx.send(thread.index()).unwrap()));
/// assert_eq!(rx.iter().sum::<usize>(), 0 + 1 + 2);
/// # Ok::<(), runtime::parallel::ThreadPoolBuildError>(())
/// ```
///
/// Prior art: `rayon::spawn_broadcast`.
pub fn spawn_broadcast<OP>(op: OP)
where
    OP: Fn(BroadcastContext<'_>) + Send + Sync + 'static,
{
    match enter::detached_pool() {
        // SAFETY: (1) what makes it the pool of this call stays until `op` begins, if that runs in place.
        Some(shared) => unsafe { spawn_broadcast_in(shared, op) },
        None => spawn::run_in_place(move || op(BroadcastContext::new(0, 1))),
    }
}

/// [`broadcast`] in the pool `shared`.
///
/// # Safety
/// 1. `shared` is valid until this returns.
pub(super) unsafe fn broadcast_in<OP, R>(shared: NonNull<Shared>, op: OP) -> Vec<R>
where
    OP: Fn(BroadcastContext<'_>) -> R + Sync,
    R: Send,
{
    let _own = OwnComputation::begin();
    // SAFETY: (1).
    let state = unsafe { shared.as_ref() };
    // SAFETY: (1) used in this call only.
    let processor = unsafe { context::job_processor() };
    if let Some(processor) = processor {
        cancel::split_point(processor);
    }
    // A part that runs alone hides the job processor of this thread, and only this thread may run what is
    // queued for that job processor.
    let is_hidden = enter::is_solitary() && context::with_worker_of(shared, |worker| worker.is_some());
    let threads = state.config.workers;
    if is_hidden || !state.try_begin_many(threads) {
        return vec![op(BroadcastContext::new(0, 1))];
    }
    let floor = processor.map_or(0, OwnJobs::head);
    let call = Call { shared, threads, op, count: CountLatch::new(JobLatch::new(processor, Some(shared))) };
    let region = CallRegion::of(processor, state);
    let parts: Vec<_> = (0..threads)
        .map(|index| Part {
            header: JobHeader::new(Part::<OP, R>::execute, region.region()),
            call: &raw const call,
            index,
            result: UnsafeCell::new(None),
        })
        .collect();
    state.queue_broadcast(parts.iter().map(|part| {
        // SAFETY: `increment`: (1) this thread is the owner, and folds only below; (2) it runs the owner's
        // body. `JobRef::new`: (1) the parts and the call stay in this frame until the latch is set; (2) one
        // job processor gets the part, and runs it once. Other threads get a `&OP`, and `OP` is `Sync`. They
        // leave an `R` here, which is `Send`.
        unsafe {
            call.count.increment(true);
            JobRef::new(NonNull::from(part).cast(), region.tag())
        }
    }));
    // Jobs that were spawned here before come first, although they do not belong to this stack.
    if let Some(processor) = processor.filter(|processor| processor.shared_ptr() == shared) {
        processor.run_detached();
    }
    // SAFETY: (1) this thread is the owner, and folds only here. (2) `queue_broadcast` has counted all parts,
    // and no part counts another.
    if unsafe { call.count.fold() } {
        // SAFETY: (1) `floor` was the head before this call, which leaves no join job.
        unsafe { call.count.latch().wait(processor, floor) };
    }
    let results =
        parts.into_iter().map(|part| part.result.into_inner().expect("each processor has run its part"));
    enter::resume(all_or_first_panic(results))
}

/// All results, or the panic of the lowest index. The destructors of what is dropped then do not replace it,
/// nor does the end of a cancelled computation.
fn all_or_first_panic<R>(results: impl Iterator<Item = Result<R, Payload>>) -> Result<Vec<R>, Payload> {
    let (mut all, mut first) = (Vec::with_capacity(results.size_hint().0), None);
    for result in results {
        match (result, first.take()) {
            (Ok(result), None) => all.push(result),
            (Ok(result), earlier) => {
                unwind::drop_quietly(result);
                first = earlier;
            }
            (Err(payload), None) => first = Some(payload),
            (Err(payload), Some(earlier)) => first = Some(cancel::first_panic(earlier, payload)),
        }
    }
    let Some(first) = first else { return Ok(all) };
    all.into_iter().for_each(unwind::drop_quietly);
    Err(first)
}

/// A call of [`broadcast`], in its frame.
struct Call<OP> {
    shared: NonNull<Shared>,
    threads: usize,
    op: OP,
    count: CountLatch<JobLatch>,
}

/// The part of one job processor in the call.
#[repr(C)]
struct Part<OP, R> {
    header: JobHeader,
    call: *const Call<OP>,
    index: usize,
    /// Valid once the count is zero.
    result: UnsafeCell<Option<Result<R, Payload>>>,
}

impl<OP, R> Part<OP, R>
where
    OP: Fn(BroadcastContext<'_>) -> R + Sync,
    R: Send,
{
    /// # Safety
    /// 1. As [`JobRef::run`].
    unsafe fn execute(header: NonNull<JobHeader>) {
        let this = header.cast::<Self>().as_ptr();
        // SAFETY: (1): the frame is live until the count is zero, and the result ours alone until then.
        // `JobEnd::new`: (1) the part was counted; (2) it runs on a job processor of its pool, which keeps
        // the pool. `decrement`: (1) the part is counted until this call; (2) `false` is right for every
        // thread, because the owner counts the parts that it runs as other threads do; (3) the pool is kept,
        // as before, and a latch of another pool takes a hold of that pool.
        unsafe {
            let call = (*this).call;
            let context = BroadcastContext::new((*this).index, (*call).threads);
            let result = unwind::catch(|| ((*call).op)(context));
            (*this).result.get().write(Some(result));
            drop(JobEnd::new((*call).shared));
            CountLatch::decrement(&raw const (*call).count, false);
        }
    }
}

/// [`spawn_broadcast`] in the pool `shared`.
///
/// # Safety
/// 1. `shared` is valid until this returns, or until `op` begins in place.
pub(super) unsafe fn spawn_broadcast_in<OP>(shared: NonNull<Shared>, op: OP)
where
    OP: Fn(BroadcastContext<'_>) + Send + Sync + 'static,
{
    // SAFETY: (1).
    let state = unsafe { shared.as_ref() };
    let threads = state.config.workers;
    if !state.try_begin_many(threads) {
        // SAFETY: (1).
        return unsafe { spawn::run_refused(shared, move || op(BroadcastContext::new(0, 1))) };
    }
    let op = Arc::new(op);
    state.queue_broadcast((0..threads).map(|index| {
        let op = op.clone();
        // SAFETY: (1) `try_begin_many` has counted a job for each thread.
        unsafe { spawn::job(shared, move || op(BroadcastContext::new(index, threads))) }
    }));
    // All threads may have ended by now.
    unwind::drop_quietly(op);
}
