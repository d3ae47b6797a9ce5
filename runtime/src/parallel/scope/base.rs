//! What both kinds of scope share: the count of the jobs, the first panic, and the wait for the end.

use std::alloc::Layout;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::{self, NonNull, null, null_mut};

use crate::job::{CoreLatch, CountLatch, JobRef, Memory, Question, Region, Tag};
use crate::loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use crate::loom::sync::atomic::{AtomicBool, AtomicPtr};
use crate::parallel::cancel;
use crate::parallel::enter::{
    CallRegion, JobEnd, JobLatch, global_pool, in_surroundings_here, is_solitary, region_of,
};
use crate::queue::LockedList;
use crate::scheduler::context;
use crate::scheduler::reference::Reference;
use crate::scheduler::wait::Awaited;
use crate::scheduler::{JobMemory, OwnJobs, Shared};
use crate::util::unwind::{self, Cancelled, Payload};

/// An address that no job processor has.
const NO_OWNER: *mut OwnJobs = ptr::dangling_mut();

/// The part that both kinds of scope share.
pub(super) struct Base<'scope> {
    /// The pool in which the jobs run, valid while the scope is. None: they run on the owner, after the body.
    pub(super) pool: Option<NonNull<Shared>>,
    /// The owner's job processor in any pool, or null.
    owner: *const OwnJobs,
    /// The owner's job processor, if it is a job processor of the scope's pool and the owner has not folded
    /// its count. Otherwise an address that no job processor has. Written by the owner.
    home: AtomicPtr<OwnJobs>,
    /// The lowest index of the owner's child jobs.
    floor: u32,
    pub(super) count: CountLatch<JobLatch>,
    /// The first panic, boxed; or null.
    panic: AtomicPtr<Payload>,
    /// Whether a job was dropped, or unwound, because the computation was cancelled.
    is_cut_short: AtomicBool,
    /// The region in which the scope was made, and to which its jobs belong. A spawner's region may end
    /// before the jobs.
    pub(super) region: *const Region,
    pub(super) tag: Tag,
    /// The region's question, which is asked before a job begins; or null.
    question: *const Question,
    /// Keeps the region, if the owner holds no job processor of the pool.
    _foreign: Option<CallRegion>,
    /// Jobs of a scope without a pool.
    pub(super) list: LockedList<JobRef>,
    /// Invariant: jobs borrow for exactly `'scope`. A shorter or longer lifetime must not pass for it.
    _marker: PhantomData<&'scope mut &'scope ()>,
}

// SAFETY: only the owner touches the count's cells and waits for the latch. `at_home` recognises the owner by
// its job processor, and the other calls that touch them are made by the owner alone. Jobs are `Send`. All
// else is atomic, locked, or not written.
unsafe impl Send for Base<'_> {}

// SAFETY: as above.
unsafe impl Sync for Base<'_> {}

/// Runs a job on the calling thread, which holds `processor`.
///
/// # Safety
/// 1. The caller has claimed the job.
pub(super) unsafe fn run_here(processor: Option<&OwnJobs>, job: JobRef) {
    // SAFETY: `JobRef::region`, `JobRef::run`, `OwnJobs::run`: (1). `without_forgotten`: (1) the region is live
    // until the job has run. Jobs do not unwind.
    unsafe {
        let Some(processor) = processor else {
            let (region, tag) = context::region();
            // A part that runs alone stays alone: it hides the job processor of this thread, which may hold
            // regions.
            let inside = if tag == Tag::SOLITARY { tag } else { job.tag() };
            context::replace_region(Region::without_forgotten(job.region()), inside);
            in_surroundings_here(|| job.run());
            context::replace_region(region, tag);
            return;
        };
        processor.run(job);
    }
}

/// The jobs of a scope whose owner has a job processor of its pool, and waits for them.
struct JobsOf<'a, 'scope> {
    base: &'a Base<'scope>,
    /// Keeps the value on the owner's thread.
    stays_here: PhantomData<*const ()>,
}

impl<'a, 'scope> JobsOf<'a, 'scope> {
    /// # Safety
    /// 1. The calling thread is the owner of `base`. 2. The body has ended.
    unsafe fn new(base: &'a Base<'scope>) -> Self {
        Self { base, stays_here: PhantomData }
    }

    fn core(&self) -> &CoreLatch {
        self.base.count.latch().core().expect("the latch was made for a processor of the pool")
    }
}

impl Awaited for JobsOf<'_, '_> {
    const IS_SHARED: bool = true;

    fn is_over(&self) -> bool {
        let count = &self.base.count;
        // SAFETY: `is_folded`, `is_done`: (1) by duty 1 of `new` this thread is the owner. `is_done` is
        // called only if the owner has not folded.
        unsafe { if count.is_folded() { self.core().is_set() } else { count.is_done() } }
    }

    fn fall_asleep(&self) -> bool {
        // SAFETY: (1) is duty 1 of `new`; (2) is duty 2 of `new`.
        let is_any_left = unsafe { self.base.fold() };
        is_any_left && self.core().fall_asleep()
    }

    unsafe fn wake_up(&self) {
        self.core().wake_up();
        // SAFETY: (1) by duty 1 of `new` this thread is the owner. By our (1) `fall_asleep` has folded, and
        // the owner has not unfolded since.
        unsafe { self.base.unfold() };
    }
}

/// Keeps a pool's workers for a scope whose owner has no job processor of the pool.
pub(super) struct Stay {
    _end: JobEnd,
    /// Dropped last.
    _hold: Reference,
}

impl<'scope> Base<'scope> {
    /// For the owner of `processor`, in its pool.
    #[inline]
    pub(super) fn on(processor: Option<&OwnJobs>) -> Self {
        if let Some(processor) = processor {
            cancel::split_point(processor);
        }
        Self::new(processor.map(|processor| processor.shared_ptr()), processor)
    }

    /// For the calling thread, in any pool, or none.
    ///
    /// # Safety
    /// 1. The pool is valid now.
    pub(super) unsafe fn in_place(pool: Option<NonNull<Shared>>) -> (Self, Option<Stay>) {
        // SAFETY: (1) used in this call only. The scope, too, refers to the job processor, which the thread
        // does not lose inside of a scope.
        let processor = unsafe { context::job_processor() };
        if let Some(processor) = processor {
            cancel::split_point(processor);
            if pool == Some(processor.shared_ptr()) {
                return (Self::new(pool, Some(processor)), None);
            }
        }
        let stay_in = |pool: NonNull<Shared>| {
            // SAFETY: `Reference::new`: (1), or the process-wide pool, which is there for good.
            // `JobEnd::new`: (1) `try_begin` has counted it; (2) the hold keeps the pool, and `Stay` drops
            // the hold last.
            unsafe {
                let hold = Reference::new(pool);
                let is_counted = pool.as_ref().injected_jobs.try_begin();
                is_counted.then(|| (pool, Stay { _end: JobEnd::new(pool), _hold: hold }))
            }
        };
        // A part that runs alone hides the job processor of this thread, which may be the pool's only worker
        // that is free.
        let is_hidden = |pool| is_solitary() && context::with_worker_of(pool, |worker| worker.is_some());
        let pool = pool.filter(|&pool| !is_hidden(pool));
        let stay = pool.and_then(|pool| stay_in(pool).or_else(|| global_pool().and_then(stay_in)));
        let (pool, stay) = stay.unzip();
        (Self::new(pool, processor), stay)
    }

    #[inline]
    fn new(pool: Option<NonNull<Shared>>, processor: Option<&OwnJobs>) -> Self {
        let home = processor.filter(|processor| Some(processor.shared_ptr()) == pool);
        // On a stack that unwinds, the jobs are in no region, and yet in the runtime that was entered.
        let has_own_region = home.is_none_or(|home| !home.region().is_null() && std::thread::panicking());
        // SAFETY: the pool is that of `processor`, whose thread keeps it, or the caller holds it by a `Stay`.
        let foreign =
            pool.filter(|_| has_own_region).map(|pool| CallRegion::of(processor, unsafe { pool.as_ref() }));
        let (region, tag) =
            foreign.as_ref().map_or_else(|| region_of(processor), |call| (call.region(), call.tag()));
        // SAFETY: (1) a scope's region is live.
        unsafe { Region::mark_used(region) };
        Self {
            pool,
            owner: processor.map_or(null(), |processor| processor),
            home: AtomicPtr::new(home.map_or(NO_OWNER, |processor| ptr::from_ref(processor).cast_mut())),
            floor: processor.map_or(0, OwnJobs::head),
            count: CountLatch::new(JobLatch::new(processor, pool)),
            panic: AtomicPtr::new(null_mut()),
            is_cut_short: AtomicBool::new(false),
            region,
            tag,
            // SAFETY: a scope's region is live.
            question: unsafe { region.as_ref() }.map_or(null(), Region::asked_at_splits),
            _foreign: foreign,
            list: LockedList::new(),
            _marker: PhantomData,
        }
    }

    /// The calling thread's `processor`, if the thread is the owner, on a job processor of the scope's pool,
    /// and has not folded. Any other thread counts as one of the others. So does the owner in its sleep,
    /// because wakers run there, and with them any code that they call.
    #[inline(always)]
    pub(super) fn at_home<'a>(&self, processor: Option<&'a OwnJobs>) -> Option<&'a OwnJobs> {
        let processor: *const OwnJobs = processor.map_or(null(), |processor| processor);
        // Relaxed: it is the caller's job processor only if the caller wrote it.
        // SAFETY: `home` is never null, and `NO_OWNER` is no job processor's address. So if the pointers are
        // equal, `processor` was made from the reference in the argument.
        ptr::eq(processor, self.home.load(Relaxed)).then(|| unsafe { &*processor })
    }

    /// Folds the count, unless it is folded. Returns true if jobs are left.
    ///
    /// # Safety
    /// 1. The calling thread is the owner. 2. The body has ended.
    unsafe fn fold(&self) -> bool {
        // Relaxed: see `at_home`.
        self.home.store(NO_OWNER, Relaxed);
        // SAFETY: `is_folded`: (1). `CountLatch::fold`: (1) is our (1), and the owner has not folded if
        // `is_folded` returns false. (2) is our (2).
        unsafe { self.count.is_folded() || self.count.fold() }
    }

    /// # Safety
    /// 1. The calling thread is the owner, and has folded.
    unsafe fn unfold(&self) {
        // SAFETY: (1).
        if unsafe { self.count.unfold() } {
            // Relaxed: see `at_home`.
            self.home.store(self.owner.cast_mut(), Relaxed);
        }
    }

    /// Whether the computation was cancelled, and its jobs need not begin.
    #[inline(always)]
    pub(super) fn is_cancelled(&self) -> bool {
        // SAFETY: a part of the scope's region, which is live.
        unsafe { self.question.as_ref() }.is_some_and(Question::is_cancelled)
    }

    /// A job has ended, and its memory is freed.
    ///
    /// # Safety
    /// 1. `this` is live: the job is counted; afterwards it may be gone. 2. As [`Memory::free`].
    #[inline(always)]
    pub(super) unsafe fn end_job(this: *const Self, memory: NonNull<u8>, layout: Layout) {
        // SAFETY: `job_processor`: (1) used in this call only. `decrement`: (1) is ours; (2) `at_home` says
        // that this thread is the owner and has not folded; (3) the owner sets no latch. `free`: (1) is our
        // (2). `end_elsewhere`: (1) and (2) are ours, and the thread is not at home.
        unsafe {
            match (*this).at_home(context::job_processor()) {
                Some(processor) => {
                    CountLatch::decrement(&raw const (*this).count, true);
                    processor.free(memory, layout);
                }
                None => Self::end_elsewhere(this, memory, layout),
            }
        }
    }

    /// # Safety
    /// As [`end_job`](Self::end_job), on another thread than the owner's, or not on the scope's job
    /// processor.
    #[inline(never)]
    unsafe fn end_elsewhere(this: *const Self, memory: NonNull<u8>, layout: Layout) {
        // SAFETY: `free`: (1) is our (2). `decrement`: (1) is ours; (2) `false` is right for a thread that is
        // not the owner at home; (3) the thread works on a job processor of the scope's pool, which keeps the
        // pool, or holds the pool (`spawn_outside`). Without a pool, the latch has an owner of another pool,
        // or none, and holds what it refers to itself.
        unsafe {
            JobMemory::free(memory, layout);
            CountLatch::decrement(&raw const (*this).count, false);
        }
    }

    /// A job was cancelled before it began.
    ///
    /// # Safety
    /// As [`end_job`](Self::end_job).
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn cancel_job(
        this: *const Self,
        memory: NonNull<u8>,
        layout: Layout,
        body: impl Sized,
    ) {
        // SAFETY: (1), (2).
        unsafe {
            (*this).is_cut_short.store(true, Relaxed);
            unwind::drop_quietly(body);
            Self::end_job(this, memory, layout);
        }
    }

    /// A job panicked.
    ///
    /// # Safety
    /// As [`end_job`](Self::end_job).
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn end_panicked(
        this: *const Self,
        memory: NonNull<u8>,
        layout: Layout,
        payload: Payload,
    ) {
        // SAFETY: (1), (2).
        unsafe {
            (*this).keep_panic(payload);
            Self::end_job(this, memory, layout);
        }
    }

    #[inline]
    pub(super) fn run_body<R>(&self, body: impl FnOnce() -> R) -> Option<R> {
        unwind::catch(body).map_err(|payload| self.keep_panic(payload)).ok()
    }

    /// Keeps the first panic. A cancellation is no panic.
    #[cold]
    #[inline(never)]
    pub(super) fn keep_panic(&self, payload: Payload) {
        if payload.is::<Cancelled>() {
            self.is_cut_short.store(true, Relaxed);
            return;
        }
        let new = Box::into_raw(Box::new(payload));
        // AcqRel: pairs with `end`. A thread that waits has seen everything anyway.
        if self.panic.compare_exchange(null_mut(), new, AcqRel, Acquire).is_err() {
            // SAFETY: made above, and no other thread has it.
            unwind::drop_quietly(unsafe { Box::from_raw(new) });
        }
    }

    /// Waits for all jobs, and goes on with a panic if there is one.
    ///
    /// # Safety
    /// 1. The calling thread is the owner: it made `self`. 2. The body has ended. 3. This is called once.
    #[inline]
    pub(super) unsafe fn end(&self) {
        // SAFETY: (1), (2), (3).
        unsafe { self.wait() };
        // Acquire, although the count orders this already.
        let panic = self.panic.load(Acquire);
        if !panic.is_null() || self.is_cut_short.load(Relaxed) {
            // SAFETY: all jobs have ended.
            unsafe { self.go_on_with_panic() };
        }
    }

    /// # Safety
    /// As [`end`](Self::end).
    #[inline]
    unsafe fn wait(&self) {
        // SAFETY: it is null, or from the view of the owner. By (1) the owner runs this, and its thread keeps
        // the job processor inside of a scope.
        let processor = unsafe { self.owner.as_ref() };
        match processor {
            Some(processor) if self.at_home(Some(processor)).is_some() => {
                // SAFETY: `run_own`, `OwnJobs::wait`: (1) `floor` was the head before the body, which by our
                // (2) has ended, and with it all its calls of `join`. The jobs that are left above are jobs
                // of scopes. `is_done`: (1) is our (1); by our (3) the owner folds for the first time in
                // `OwnJobs::wait`. `JobsOf::new`: (1), (2).
                unsafe {
                    processor.run_own(self.floor, || self.count.is_done());
                    processor.wait(&JobsOf::new(self), self.floor);
                }
            }
            _ => {
                self.run_list(processor);
                // SAFETY: `is_done`, `fold`: (1) is our (1); by our (3) the owner has not folded before.
                // `fold`: (2) is our (2). `JobLatch::wait`: (1) `floor` as above.
                unsafe {
                    if !self.count.is_done() && self.count.fold() {
                        self.count.latch().wait(processor, self.floor);
                    }
                }
            }
        }
    }

    /// Runs the jobs of a scope without a pool. Whether in the order of their spawns or against it makes no
    /// difference to the jobs.
    fn run_list(&self, processor: Option<&OwnJobs>) {
        while let Some(job) = self.list.pop_back() {
            // SAFETY: claimed by the pop.
            unsafe { run_here(processor, job) };
        }
    }

    /// # Safety
    /// 1. All jobs have ended.
    #[cold]
    unsafe fn go_on_with_panic(&self) {
        let panic = self.panic.swap(null_mut(), Acquire);
        if panic.is_null() {
            cancel::unwind_quietly();
        }
        // SAFETY: (1): ours alone.
        std::panic::resume_unwind(*unsafe { Box::from_raw(panic) });
    }

    pub(super) fn fields(&self, debug: &mut fmt::DebugStruct<'_, '_>) {
        debug.field("pool_id", &self.pool).field("panic", &self.panic.load(Relaxed));
    }
}
