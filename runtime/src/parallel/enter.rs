//! Which pool a call belongs to, and how the call gets onto a job processor of that pool.
//!
//! | the calling thread                                    | the work runs                               |
//! | has a job processor (of a runtime, of a `ThreadPool`) | there, on its own stack                     |
//! | keeps a job processor for good, and its pool is there | there, as a computation of that pool        |
//! | is in a solitary part (see `isolated.rs`)             | in place                                    |
//! | has entered a multi-thread runtime, or blocks in one  | on a job processor of that runtime          |
//! | any other, also if it drives a current_thread runtime | on a job processor of the process-wide pool |
//!
//! In the last two cases the thread runs the work itself, as an *external thread*
//! (`scheduler/jobs/external.rs`), if it may and a worker sleeps. Otherwise the thread sends the work
//! to a worker, and waits.
//!
//! A pool whose workers are leaving accepts no more work. Then a scope goes to the process-wide pool, and
//! other work runs in place. If the system refused every thread of the process-wide pool, all its work runs
//! in place.
//!
//! # Threads that keep a job processor for good
//! Such a thread (`use_current_thread`) never leaves, and never arrives: other workers of its pool cannot
//! wait for its end. But code in its computations may need them. So it holds its job processor only during a
//! computation, and counts each outermost computation as an injected job ([`OwnComputation`]): see *A thread
//! that never leaves* in `scheduler/lifecycle.rs`. Once the pool has closed, the thread is like any other
//! thread that is no worker, and its calls go to another pool.

use std::ptr::NonNull;

use super::global;
use super::pool::ThreadPool;
use crate::job::region::Current;
use crate::job::{CoreLatch, CrossLatch, HeapRegion, Latch, Region, SpinLatch, StackJob, Tag, ThreadLatch};
use crate::scheduler::context;
use crate::scheduler::enter::enter_job_processor;
use crate::scheduler::reference::Reference;
use crate::scheduler::{JobProcessor, OwnJobs, Shared, Worker};
use crate::util::block_on;
use crate::util::unwind::Payload;

/// The place to which a call belongs.
enum Place<'a> {
    /// The calling thread's own job processor.
    Processor(&'a OwnJobs),
    /// On another thread: on a job processor of this pool. The pool is valid for as long as the caller keeps
    /// the reason why it is current.
    Pool(NonNull<Shared>),
    /// Here, sequentially.
    Here,
}

/// The place of a call that names no pool.
///
/// # Safety
/// 1. As [`context::job_processor`].
#[inline]
unsafe fn place<'a>() -> Place<'a> {
    // SAFETY: (1).
    match unsafe { context::job_processor() } {
        Some(processor) => Place::Processor(processor),
        None => place_without_processor(),
    }
}

#[cold]
fn place_without_processor<'a>() -> Place<'a> {
    if is_solitary() {
        return Place::Here;
    }
    let for_good = context::idle_for_good();
    // The thread is in no solitary part. So a worker has its job processor, as `enter_worker` set it, unless
    // the thread keeps it for good: only solitary parts and `OwnComputation` take a job processor out.
    debug_assert!(for_good.is_some() || worker_pool().is_none(), "a worker has lost its job processor");
    // A caller that has tried `OwnComputation::begin` finds the pool closed here.
    let own = for_good.filter(|processor| !processor.shared().injected_jobs.is_closed());
    let pool = own.map(|processor| processor.shared_ptr()).or_else(entered_pool);
    pool.map_or(Place::Here, Place::Pool)
}

/// Whether the calling thread shares nothing of what it runs.
pub fn is_solitary() -> bool {
    context::region().1 == Tag::SOLITARY
}

/// The pool that has the calling thread for a worker.
fn worker_pool() -> Option<NonNull<Shared>> {
    let pool = context::with_worker(|worker| worker.map(Worker::shared_ptr));
    // SAFETY: (1) the worker keeps its pool.
    pool.filter(|&shared| unsafe { has_job_processors(shared) })
}

/// The runtime that the calling thread has entered, or the process-wide pool.
fn entered_pool() -> Option<NonNull<Shared>> {
    // SAFETY: (1) the current runtime is valid.
    context::current().filter(|&shared| unsafe { has_job_processors(shared) }).or_else(global_pool)
}

pub fn global_pool() -> Option<NonNull<Shared>> {
    global::get().map(ThreadPool::shared_ptr)
}

/// # Safety
/// 1. `shared` is valid until this returns.
unsafe fn has_job_processors(shared: NonNull<Shared>) -> bool {
    // SAFETY: (1).
    !unsafe { shared.as_ref() }.is_current_thread()
}

/// The pool of an injected job that the caller does not wait for, valid as in [`Place::Pool`]. A solitary
/// part makes no difference. None: there is no pool, so the job runs in place.
///
/// A thread that keeps its job processor for good names its own pool, also when that pool is closed.
pub fn detached_pool() -> Option<NonNull<Shared>> {
    let own = context::idle_for_good().map(|processor| processor.shared_ptr());
    own.or_else(current_pool).or_else(worker_pool).or_else(entered_pool)
}

/// The pool of a call here, valid as in [`Place::Pool`].
pub fn current_pool() -> Option<NonNull<Shared>> {
    // SAFETY: (1) used in this call only.
    match unsafe { place() } {
        Place::Processor(processor) => Some(processor.shared_ptr()),
        Place::Pool(shared) => Some(shared),
        Place::Here => None,
    }
}

/// As [`detached_pool`], for a job that was meant for the runtime `shared`. A `current_thread` runtime has no
/// job processors.
///
/// # Safety
/// 1. `shared` is valid until this returns.
pub unsafe fn detached_pool_of(shared: NonNull<Shared>) -> Option<NonNull<Shared>> {
    // SAFETY: (1).
    Some(shared).filter(|&shared| unsafe { has_job_processors(shared) }).or_else(global_pool)
}

/// The region of jobs that the calling thread, which holds `processor`, makes and awaits.
#[inline]
pub fn region_of(processor: Option<&OwnJobs>) -> (*const Region, Tag) {
    let (region, tag) =
        processor.map_or_else(context::region, |processor| (processor.region(), processor.tag()));
    // A cancellation unwinds. A stack that unwinds already cannot, so its jobs get no region.
    let is_unwinding = !region.is_null() && std::thread::panicking();
    (if is_unwinding { std::ptr::null() } else { region }, tag)
}

/// The region to which the jobs of a call belong, if the call leaves the calling thread for a pool.
pub struct CallRegion {
    region: *const Region,
    tag: Tag,
    /// A region made for this call, and a reference to the runtime that it names. It is needed if the
    /// thread's current runtime is not the one that its region, or the pool's threads, would give. The call
    /// may drop the guard that has entered that runtime, and all else that keeps it.
    entered: Option<(HeapRegion, Option<Reference>)>,
}

impl CallRegion {
    /// The region of a call that goes to `pool`, on the calling thread, which holds `processor`.
    pub fn of(processor: Option<&OwnJobs>, pool: &Shared) -> Self {
        let (region, tag) = region_of(processor);
        let here = context::current();
        // SAFETY: the region of the calling thread is live.
        let there = match unsafe { Region::current_of(region) } {
            Current::OfThread => pool.current_on_threads(),
            Current::Is(current) => current.map(NonNull::cast),
        };
        // SAFETY: `entered`: (1) the region around is live until this call ends. `Reference::new`: (1) the
        // entry of the current runtime keeps it.
        let entered = || unsafe {
            let region = Region::entered(region, tag, here.map(NonNull::cast));
            (HeapRegion::new(region), here.map(|here| Reference::new(here)))
        };
        // SAFETY: (1) as above.
        unsafe { Region::mark_used(region) };
        Self { region, tag, entered: (here != there).then(entered) }
    }

    /// The region. It lives as long as `self`, and is not null if the call has one.
    pub fn region(&self) -> *const Region {
        self.entered.as_ref().map_or(self.region, |(region, _)| region.as_ptr())
    }

    pub fn tag(&self) -> Tag {
        self.tag
    }
}

/// What a call does on a non-worker thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outside {
    /// The thread runs the call itself if it can, as an external thread.
    Visits,
    /// The thread sends its work to a worker, whatever that costs.
    Sends,
}

/// Runs `op` on a job processor of the pool that the call belongs to, if there is one. `op` gets the job
/// processor, and whether it was moved to another thread. A panic in `op` goes on here.
#[inline]
pub fn in_pool<R: Send>(outside: Outside, op: impl FnOnce(Option<&OwnJobs>, bool) -> R + Send) -> R {
    let _own = OwnComputation::begin();
    // SAFETY: (1) used in this call only.
    at(unsafe { place() }, outside, op)
}

/// As [`in_pool`], for a scope. If the workers of its pool are leaving, it goes to the process-wide pool. In
/// place, its jobs would begin behind its body, and the body may wait for them.
#[inline]
pub fn in_pool_of_scope<R: Send>(outside: Outside, op: impl FnOnce(Option<&OwnJobs>, bool) -> R + Send) -> R {
    let _own = OwnComputation::begin();
    // SAFETY: (1) used in this call only.
    let pool = match unsafe { place() } {
        Place::Pool(pool) => pool,
        place => return at(place, outside, op),
    };
    // The scope counts from now on, so that the workers do not leave before it is there.
    // SAFETY: what makes the pool the place of this call stays until `op` begins. The process-wide pool is
    // there for good.
    let begin = |pool: NonNull<Shared>| unsafe { pool.as_ref() }.injected_jobs.try_begin().then_some(pool);
    match begin(pool).or_else(|| global_pool().and_then(begin)) {
        Some(pool) => {
            // `op` may drop all else that keeps the pool.
            // SAFETY: `Reference::new`: (1) the pool is valid now. `JobEnd::new`: (1) `begin` has counted it.
            // (2) The reference is dropped after it.
            let (_hold, _end) = unsafe { (Reference::new(pool), JobEnd::new(pool)) };
            at(Place::Pool(pool), outside, op)
        }
        None => op(None, false),
    }
}

#[inline]
fn at<R: Send>(place: Place<'_>, outside: Outside, op: impl FnOnce(Option<&OwnJobs>, bool) -> R + Send) -> R {
    match place {
        Place::Processor(processor) => op(Some(processor), false),
        // SAFETY: (1) what makes the pool the place of this call stays until `op` begins.
        Place::Pool(shared) => unsafe { at_pool(shared, outside, op) },
        Place::Here => op(None, false),
    }
}

/// # Safety
/// 1. `shared` is valid until `op` begins.
unsafe fn at_pool<R: Send>(
    shared: NonNull<Shared>,
    outside: Outside,
    op: impl FnOnce(Option<&OwnJobs>, bool) -> R + Send,
) -> R {
    // `op` may drop all else that keeps the pool.
    // SAFETY: `Reference::new`: (1) by our (1). The others: (1) the reference.
    unsafe {
        let _hold = Reference::new(shared);
        match outside {
            Outside::Visits => visit_or_install(shared, op),
            Outside::Sends => install(shared, op),
        }
    }
}

/// Runs `op` here, as an external thread of `shared`, or else on a worker's thread.
///
/// # Safety
/// 1. `shared` is valid until this returns.
unsafe fn visit_or_install<R: Send>(
    shared: NonNull<Shared>,
    op: impl FnOnce(Option<&OwnJobs>, bool) -> R + Send,
) -> R {
    // SAFETY: (1).
    let state = unsafe { shared.as_ref() };
    match Visit::begin(state) {
        Some(visit) => enter_job_processor(visit.processor, || op(Some(visit.processor), false)),
        // SAFETY: (1).
        None => unsafe { install(shared, op) },
    }
}

/// The calling thread has an external thread's job processor until this is dropped.
struct Visit<'a> {
    processor: &'a OwnJobs,
    _region: CallRegion,
}

impl<'a> Visit<'a> {
    /// Returns `None` if no job processor is free, or if this thread must not take one.
    fn begin(shared: &'a Shared) -> Option<Self> {
        // The worker of a `current_thread` runtime has to come back to that runtime's tasks.
        let is_stranger = || context::with_worker(|worker| worker.is_none());
        if !shared.idle.has_sleepers() || !is_stranger() || !shared.injected_jobs.try_begin() {
            return None;
        }
        let Some((processor, own_tag)) = shared.take_external() else {
            shared.job_ended();
            return None;
        };
        let region = CallRegion::of(None, shared);
        let tag =
            if region.tag() == Tag::NONE || region.tag().is_external() { own_tag } else { region.tag() };
        // SAFETY: (1) the region is in `self`, or is the calling thread's own, which outlives the call. The
        // drop of `self` calls `end_external`, which replaces it.
        unsafe { processor.replace_region(region.region(), tag) };
        Some(Self { processor, _region: region })
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        let shared = self.processor.shared();
        // SAFETY: (1) the visit ends after its call.
        let has_moved = unsafe { self.processor.end_external() };
        let kept = self.processor.take_kept_regions();
        // SAFETY: (1) `begin` has taken it, and the view ends with the visit.
        unsafe { shared.give_external_back(self.processor, has_moved) };
        shared.job_ended();
        drop(kept);
    }
}

/// Runs a job in place, in surroundings of its own, with the runtime that is current now. The job may drop the
/// guard by which the thread has entered that runtime.
pub fn in_surroundings_here(job: impl FnOnce()) {
    let current = context::current();
    // SAFETY: `Reference::new`: (1) the current runtime is valid. `in_surroundings`: (1) the reference keeps
    // it.
    unsafe {
        let _hold = current.map(|current| Reference::new(current));
        context::in_surroundings(current, job);
    }
}

/// A computation of a thread that keeps its job processor for good. The thread holds the job processor until
/// this is dropped.
pub struct OwnComputation {
    processor: &'static OwnJobs,
    _region: CallRegion,
}

impl OwnComputation {
    /// `CountJob`. Returns `None` on any other thread, inside of a computation, and if the pool has closed.
    #[inline]
    pub fn begin() -> Option<Self> {
        context::idle_for_good().and_then(Self::begin_on)
    }

    #[cold]
    fn begin_on(processor: &'static OwnJobs) -> Option<Self> {
        if !processor.shared().injected_jobs.try_begin() {
            return None;
        }
        let region = CallRegion::of(None, processor.shared());
        // SAFETY: (1) `drop` puts the former value back, which is null: see `idle_for_good`. The thread keeps
        // the job processor for good.
        unsafe { context::replace_job_processor(processor) };
        // SAFETY: (1) the region is in `self`, or is the calling thread's own, which outlives the call. The
        // drop of `self` replaces it.
        unsafe { processor.replace_region(region.region(), region.tag()) };
        Some(Self { processor, _region: region })
    }
}

impl Drop for OwnComputation {
    fn drop(&mut self) {
        // Jobs that are left belong to other threads' scopes, and this thread may not come back to them.
        context::expose_child_jobs();
        self.processor.leave_regions();
        let kept = self.processor.take_kept_regions();
        // SAFETY: (1) null, which was there before.
        unsafe { context::replace_job_processor(std::ptr::null()) };
        self.processor.shared().job_ended();
        drop(kept);
    }
}

/// Calls `f` with the job processor of the calling thread, also if the thread keeps it for good and is in no
/// computation.
pub fn with_own<R>(f: impl FnOnce(Option<&OwnJobs>) -> R) -> R {
    let _own = OwnComputation::begin();
    // SAFETY: (1) used in this call only.
    f(unsafe { job_processor() })
}

/// Runs `op` on a job processor of `shared`.
///
/// # Safety
/// 1. `shared` is valid until this returns.
pub unsafe fn install<R: Send>(
    shared: NonNull<Shared>,
    op: impl FnOnce(Option<&OwnJobs>, bool) -> R + Send,
) -> R {
    let _own = OwnComputation::begin();
    // SAFETY: used in this call only.
    match unsafe { context::job_processor() } {
        Some(processor) if processor.shared_ptr() == shared => op(Some(processor), false),
        None if is_solitary() => op(None, false),
        // SAFETY: (1).
        processor => unsafe { install_and_wait(shared, processor, op) },
    }
}

/// # Safety
/// 1. `shared` is valid until this returns.
unsafe fn install_and_wait<R: Send>(
    shared: NonNull<Shared>,
    processor: Option<&OwnJobs>,
    op: impl FnOnce(Option<&OwnJobs>, bool) -> R + Send,
) -> R {
    // SAFETY: (1).
    let state = unsafe { shared.as_ref() };
    if !state.injected_jobs.try_begin() {
        // The workers are leaving.
        return op(None, false);
    }
    let region = CallRegion::of(processor, state);
    let job = StackJob::new(region.region(), JobLatch::new(processor, Some(shared)), |_| {
        // SAFETY: (1) the injected job was counted. (2) The job processor that runs it keeps its pool.
        let _end = unsafe { JobEnd::new(shared) };
        // SAFETY: used in this call only.
        op(unsafe { context::job_processor() }, true)
    });
    // SAFETY: `as_job_ref`: (1) this frame waits below until the job has run. (2) A queue gives the reference
    // to one thread, which runs it. Closure and result are `Send`, and any thread may set the latch. `wait`:
    // (1) no item is at the head or above. `take_result`: (1) the latch is set. (2) Called once.
    unsafe {
        state.queue_install(job.as_job_ref(region.tag()));
        job.latch().wait(processor, processor.map_or(0, OwnJobs::head));
        resume(job.take_result())
    }
}

/// Blocks the calling thread, which has no job processor.
fn wait_blocking(latch: &ThreadLatch) {
    block_on::blocking(|| latch.wait());
}

/// When dropped, an injected job or a detached job has ended, whether it returns or unwinds.
#[derive(Debug)]
pub struct JobEnd(NonNull<Shared>);

// SAFETY: the shared state is made to be used from all threads.
unsafe impl Send for JobEnd {}

impl JobEnd {
    /// # Safety
    /// 1. The job was counted. 2. `shared` is valid when this is dropped.
    pub unsafe fn new(shared: NonNull<Shared>) -> Self {
        Self(shared)
    }
}

impl Drop for JobEnd {
    fn drop(&mut self) {
        // SAFETY: duty 2 of `new`.
        unsafe { self.0.as_ref() }.job_ended();
    }
}

/// The latch of a thread that may or may not have a job processor.
#[derive(Debug)]
pub enum JobLatch {
    Spin(SpinLatch<JobProcessor>),
    /// For jobs in another pool.
    Cross(CrossLatch<JobProcessor>),
    Thread(ThreadLatch),
}

impl JobLatch {
    /// A latch for jobs of the pool `shared`. The calling thread waits for it, and holds `processor`.
    pub fn new(processor: Option<&OwnJobs>, shared: Option<NonNull<Shared>>) -> Self {
        match processor {
            Some(processor) if Some(processor.shared_ptr()) == shared => {
                Self::Spin(SpinLatch::new(processor))
            }
            Some(processor) => Self::Cross(CrossLatch::new(processor)),
            None => Self::Thread(ThreadLatch::new()),
        }
    }

    /// The state of the latch, if it is that of a job processor of the pool.
    pub fn core(&self) -> Option<&CoreLatch> {
        match self {
            Self::Spin(latch) => Some(latch.core()),
            Self::Cross(_) | Self::Thread(_) => None,
        }
    }

    /// Waits until the latch is set. `processor` is as for [`new`](Self::new), and `floor` as for
    /// [`OwnJobs::wait`].
    ///
    /// # Safety
    /// 1. As [`OwnJobs::wait`], if there is a `processor`.
    pub unsafe fn wait(&self, processor: Option<&OwnJobs>, floor: u32) {
        match (self, processor) {
            // SAFETY: (1).
            (Self::Spin(latch), Some(processor)) => unsafe { processor.wait(latch.core(), floor) },
            (Self::Cross(latch), Some(processor)) => {
                // This job processor's pool does not know the thread that sets the latch.
                let _expecting = processor.shared().expect();
                // SAFETY: (1).
                unsafe { processor.wait(latch.core(), floor) };
            }
            (Self::Thread(latch), _) => wait_blocking(latch),
            (Self::Spin(_) | Self::Cross(_), None) => unreachable!("the latch was made for a processor"),
        }
    }
}

impl Latch for JobLatch {
    // Runs once for each scope, so it is kept out of line from the code that runs for each job.
    #[cold]
    #[inline(never)]
    unsafe fn set(this: *const Self) {
        // SAFETY: (1) `this` is live until the inner latch is set, and is not used afterwards. (2) and (3) as
        // ours, because the inner latch is set once here.
        unsafe {
            match &*this {
                Self::Spin(latch) => SpinLatch::set(std::ptr::from_ref(latch)),
                Self::Cross(latch) => CrossLatch::set(std::ptr::from_ref(latch)),
                Self::Thread(latch) => ThreadLatch::set(std::ptr::from_ref(latch)),
            }
        }
    }
}

/// The calling thread's job processor, if it belongs to the pool `shared`; also if the thread keeps it for
/// good.
///
/// # Safety
/// 1. As [`context::job_processor`].
pub unsafe fn job_processor_of<'a>(shared: NonNull<Shared>) -> Option<&'a OwnJobs> {
    // SAFETY: (1).
    unsafe { job_processor() }.filter(|processor| processor.shared_ptr() == shared)
}

/// The calling thread's job processor; also if the thread keeps it for good, and is in no computation.
///
/// # Safety
/// 1. As [`context::job_processor`].
pub unsafe fn job_processor<'a>() -> Option<&'a OwnJobs> {
    // SAFETY: (1).
    unsafe { context::job_processor() }.or_else(context::idle_for_good)
}

/// Resumes the panic of a job where the job is awaited.
#[inline]
pub fn resume<R>(result: Result<R, Payload>) -> R {
    result.unwrap_or_else(|payload| std::panic::resume_unwind(payload))
}
