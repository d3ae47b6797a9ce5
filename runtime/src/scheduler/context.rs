//! The thread-local: which runtime is current, and which worker this thread is.
//!
//! Runtimes are entered in a chain of [`Entry`]s, newest first. Each entry lives in the guard or the stack
//! frame that made it, and unlinks itself from any place in the chain. So guards may be dropped in any order.
//! Nothing here has a destructor: the chain holds pointers, and the owners of the entries hold the runtime.
//!
//! # Surroundings
//! A thread that waits for a job runs other jobs on the same stack, above the frames of the call that waits.
//! Such a job must not see what those frames have set up: their current runtime, their task-locals, their
//! budget. So it runs in [surroundings of its own](in_surroundings). The current runtime there is that of the
//! call that made the job; if that call was in none, it is the thread's own, or what a pool's thread has
//! entered for all its jobs. Task-locals have no value.
//!
//! A job's [`Region`] says which runtime was current where the job was made. A thread that holds a job
//! processor may enter a runtime. If the jobs that it makes would otherwise name another runtime, it enters a
//! region, too ([`Entered`]).

use std::cell::{Cell, RefCell};
use std::ptr::{self, NonNull, null};
use std::task::Waker;

use crate::coop;
use crate::job::region::Current;
use crate::job::{HeapRegion, Region, Tag};
use crate::loom::thread_cell;
use crate::scheduler::away::OnChildJobs;
use crate::scheduler::{OwnJobs, Shared, Worker};
use crate::util::{surroundings, unwind};

thread_cell! {
    static CONTEXT: Context = Context {
        newest: Cell::new(null()),
        worker: Cell::new(null()),
        job_processor: Cell::new(null()),
        for_good: Cell::new(null()),
        region: Cell::new((null(), Tag::NONE)),
        blocking: Cell::new(null()),
        block_ons: Cell::new(0),
    };
}

#[derive(Debug)]
struct Context {
    /// The newest entry.
    newest: Cell<*const Entry>,
    /// The worker that this thread is, or null.
    worker: Cell<*const Worker>,
    /// The job processor that this thread owns, or null.
    job_processor: Cell<*const OwnJobs>,
    /// The job processor that this thread keeps for good, or null. It is in `job_processor` only while the
    /// thread is in a computation of that job processor's pool.
    for_good: Cell<*const OwnJobs>,
    /// The region in which this thread works, and its tag, while it has no job processor.
    region: Cell<(*const Region, Tag)>,
    /// The runtime whose blocking closures this thread runs, or null.
    blocking: Cell<*const Shared>,
    /// The number of `block_on` calls that this thread is in.
    block_ons: Cell<usize>,
}

/// A runtime that was entered and not left; or surroundings, which hide the older entries.
#[derive(Debug)]
pub struct Entry {
    /// The current runtime while this is the newest entry. The owner of the entry keeps it valid.
    shared: Option<NonNull<Shared>>,
    older: Cell<*const Entry>,
    entered: RefCell<Option<Entered>>,
    /// The entry of a call, which leaves it at its end; not of a guard.
    is_frame: bool,
}

/// The region of a runtime that was entered on a thread with a job processor.
#[derive(Debug)]
struct Entered {
    /// On the heap, because jobs point to it.
    region: HeapRegion,
    shared: NonNull<Shared>,
    job_processor: *const OwnJobs,
    /// The region and tag before.
    outer: (*const Region, Tag),
}

impl Entered {
    /// Returns `None` if jobs that are made on `job_processor` name `shared` anyway, and go on doing so: a
    /// region that names it may be a guard's that is dropped first. `is_frame`: see [`Entry`].
    ///
    /// # Safety
    /// 1. `shared` stays valid until [`leave`](Self::leave).
    unsafe fn enter(job_processor: &OwnJobs, shared: NonNull<Shared>, is_frame: bool) -> Option<Self> {
        job_processor.leave_kept_regions();
        // SAFETY: (1) this thread works in that region, so it is live.
        let is_of_thread = unsafe { Region::current_of(job_processor.region()) } == Current::OfThread;
        if is_of_thread && job_processor.shared().current_on_threads() == Some(shared) {
            return None;
        }
        let region = job_processor.region_to_enter(shared, is_frame);
        // SAFETY: (1) the region lives until it is replaced in `leave`, which keeps it otherwise.
        let outer = unsafe { job_processor.replace_region(region.as_ptr(), job_processor.tag()) };
        Some(Self { region, shared, job_processor, outer })
    }

    /// `is_frame`: see [`Entry`].
    fn leave(self, is_frame: bool) {
        // SAFETY: (1) used in this call only.
        let own = unsafe { job_processor() };
        if own.is_none() && region().1 != Tag::SOLITARY {
            // The thread has left its job processor, and is outside of all computations that were on it.
            return;
        }
        let Some(own) = own.filter(|&own| ptr::eq(own, self.job_processor)) else {
            // The thread is inside of another pool, or in a part that runs alone. Frames that refer to the
            // region may lie on its stack. So the region and a reference to its runtime stay for good.
            // SAFETY: (1) is duty 1 of `enter`.
            unsafe { Shared::retain(self.shared) };
            return self.region.leak().set_current(None);
        };
        own.leave_kept_regions();
        let is_at_home = ptr::eq(own.region(), self.region.as_ptr());
        if is_at_home {
            // SAFETY: (1) the region around is live. If it is a frame's, the frame has not ended, because it
            // would have put another region back. If it is a guard's, it stays as long as the owner works in
            // a region inside of it.
            unsafe { own.put_region_back(self.outer.0, self.outer.1) };
        }
        // The jobs of a call have ended with it. A guard may be dropped inside of a scope, a call or a `join`
        // that has begun in its region. Then the region stays, and names the runtime of the region around.
        let stays = !is_frame && self.region.is_used();
        if is_at_home && stays {
            // The region around stays, too, if it is a guard's.
            // SAFETY: (1) as above.
            unsafe { Region::mark_used(self.outer.0) };
        }
        if !is_at_home || stays {
            // SAFETY: (1) is duty 1 of `enter`.
            unsafe { own.keep_region(self.region, self.shared) };
        }
    }
}

impl Entry {
    /// The entry of a call.
    pub fn new(shared: NonNull<Shared>) -> Self {
        Self::of(Some(shared), true)
    }

    /// The entry of a guard, which may be dropped at any place of its thread.
    pub fn of_guard(shared: NonNull<Shared>) -> Self {
        Self::of(Some(shared), false)
    }

    fn of(shared: Option<NonNull<Shared>>, is_frame: bool) -> Self {
        Self { shared, older: Cell::new(null()), entered: RefCell::new(None), is_frame }
    }

    /// Makes the entry's runtime the current one.
    ///
    /// # Safety
    /// 1. The entry stays at its place, and its runtime valid, until [`leave`](Self::leave), on the same
    ///    thread. 2. It is not linked.
    pub unsafe fn enter(&self) {
        // SAFETY: (1) used in this call only.
        if let (Some(job_processor), Some(shared)) = (unsafe { job_processor() }, self.shared) {
            // SAFETY: (1) is our (1).
            *self.entered.borrow_mut() = unsafe { Entered::enter(job_processor, shared, self.is_frame) };
        }
        self.link();
    }

    fn link(&self) {
        CONTEXT.with(|context| {
            self.older.set(context.newest.get());
            context.newest.set(self);
        });
    }

    /// Whether no entry was linked after this one.
    pub fn is_newest(&self) -> bool {
        CONTEXT.with(|context| std::ptr::eq(context.newest.get(), self))
    }

    /// Takes the entry out of the chain.
    pub fn leave(&self) {
        if let Some(entered) = self.entered.take() {
            entered.leave(self.is_frame);
        }
        CONTEXT.with(|context| {
            let mut link = &context.newest;
            while !link.get().is_null() {
                if std::ptr::eq(link.get(), self) {
                    link.set(self.older.get());
                    return;
                }
                // SAFETY: linked entries are live (duty 1 of `enter`).
                link = unsafe { &(*link.get()).older };
            }
        });
    }
}

/// Runs `f` with `shared` as the current runtime.
///
/// # Safety
/// 1. `shared` is valid until this returns.
pub unsafe fn enter_runtime<R>(shared: NonNull<Shared>, f: impl FnOnce() -> R) -> R {
    struct Leave<'a>(&'a Entry);
    impl Drop for Leave<'_> {
        fn drop(&mut self) {
            self.0.leave();
        }
    }
    let entry = Entry::new(shared);
    // SAFETY: (1) the entry stays in this frame until `Leave` is dropped, and the runtime is valid by our
    // (1). (2) The entry is new.
    unsafe { entry.enter() };
    let _leave = Leave(&entry);
    f()
}

/// The runtime that was entered last and not left.
#[inline]
pub fn current() -> Option<NonNull<Shared>> {
    CONTEXT.with(|context| {
        // SAFETY: linked entries are live (duty 1 of `Entry::enter`).
        unsafe { context.newest.get().as_ref() }.and_then(|entry| entry.shared)
    })
}

/// Runs `f` in surroundings of its own: `current` is the current runtime, task-locals have no value, and no
/// budget limits `f`.
///
/// # Safety
/// 1. `current` is valid until this returns.
pub unsafe fn in_surroundings<R>(current: Option<NonNull<Shared>>, f: impl FnOnce() -> R) -> R {
    struct Leave<'a>(&'a Entry, u64);
    impl Drop for Leave<'_> {
        fn drop(&mut self) {
            surroundings::end(self.1);
            self.0.leave();
        }
    }
    // The entry enters no region, because the caller sets the region of the jobs that `f` makes.
    let entry = Entry::of(current, true);
    entry.link();
    let _leave = Leave(&entry, surroundings::begin());
    coop::suspended(f)
}

/// Calls `f` with the worker that this thread is, if it is one.
#[inline]
pub fn with_worker<R>(f: impl FnOnce(Option<&Worker>) -> R) -> R {
    // SAFETY: by the duty of `replace_worker`, the worker outlives its time in the context. That time cannot
    // end inside of `f`, because it ends in the frame that began it.
    f(unsafe { worker().as_ref() })
}

/// The worker that this thread is, or null. Apart, so that no closure is compiled for each caller's type.
#[inline]
fn worker() -> *const Worker {
    CONTEXT.with(|context| context.worker.get())
}

/// Wakes `waker`, because a task was woken that its owner polls. A panic goes no further. In a dispatch a
/// foreign waker is kept; see [`Worker::wake`].
pub fn wake(waker: Waker) {
    with_dispatching(|worker| match worker {
        Some(worker) => worker.wake(waker),
        None => unwind::run_quietly(|| waker.wake()),
    });
}

/// Drops a value that contains foreign code. A worker that dispatches keeps it; see [`Worker::wake`].
pub fn drop_foreign(value: impl Send + 'static) {
    with_dispatching(|worker| match worker {
        Some(worker) => worker.keep_call(move || drop(value)),
        None => unwind::drop_quietly(value),
    });
}

/// Calls `f` with the worker in whose dispatch this thread is, if it is in one. That may be an outer worker: a
/// `join` in a `block_on` of a `current_thread` runtime waits, and dispatches, as the worker below. A dispatch
/// runs no foreign code, so no worker begins inside of one.
fn with_dispatching<R>(f: impl FnOnce(Option<&Worker>) -> R) -> R {
    with_worker(|newest| {
        f(newest.and_then(|newest| with_outer(newest).find(|worker| worker.is_dispatching())))
    })
}

/// `worker` and the workers around it on this thread, the innermost first. A thread may be a worker of several
/// runtimes at once, by one `block_on` inside another.
fn with_outer(worker: &Worker) -> impl Iterator<Item = &Worker> {
    // SAFETY: an outer worker outlives the workers inside of it: see `enter.rs`.
    std::iter::successors(Some(worker), |worker| unsafe { worker.outer().as_ref() })
}

/// Calls `f` with the worker of the runtime `shared` that this thread is, if it is one.
#[inline]
pub fn with_worker_of<R>(shared: NonNull<Shared>, f: impl FnOnce(Option<&Worker>) -> R) -> R {
    with_worker(|newest| {
        let worker = match newest {
            Some(worker) if worker.shared_ptr() != shared => outer_worker_of(worker, shared),
            _ => newest,
        };
        f(worker)
    })
}

/// Finds an outer worker.
#[cold]
#[inline(never)]
fn outer_worker_of(worker: &Worker, shared: NonNull<Shared>) -> Option<&Worker> {
    with_outer(worker).find(|worker| worker.shared_ptr() == shared)
}

/// Makes `worker`, or none if it is null, the worker that [`with_worker`] finds. Makes `job_processor`, if
/// there is one, the calling thread's. Returns the former pointers.
///
/// # Safety
/// 1. The frame that calls this puts the former pointers back. Until then, `worker` and `job_processor` are
///    null, or valid and the calling thread's own.
#[inline]
pub unsafe fn replace_worker(
    worker: *const Worker,
    job_processor: Option<*const OwnJobs>,
) -> (*const Worker, *const OwnJobs) {
    CONTEXT.with(|context| {
        let before = context.job_processor.get();
        job_processor.into_iter().for_each(|job_processor| context.job_processor.set(job_processor));
        (context.worker.replace(worker), before)
    })
}

/// Makes this thread the worker `worker` for good. It was no worker before.
pub fn set_worker_for_good(worker: &'static Worker) {
    CONTEXT.with(|context| {
        debug_assert!(context.worker.get().is_null());
        context.worker.set(worker);
        context.for_good.set(worker.job_processor().map_or(null(), |job_processor| job_processor));
    });
}

/// Lets other threads have the child jobs in the calling thread's job processor, if it has one. It is called
/// before the thread blocks.
#[cold]
#[inline(never)]
pub fn expose_child_jobs() {
    // SAFETY: (1) used in this call only.
    if let Some(job_processor) = unsafe { job_processor() } {
        job_processor.expose_child_jobs();
    }
}

/// As [`expose_child_jobs`], for a thread that blocks until the result is dropped; see
/// [`OwnJobs::expose_while_blocked`].
///
/// # Safety
/// 1. As [`job_processor`].
pub unsafe fn expose_while_blocked<'a>() -> Option<OnChildJobs<'a>> {
    // SAFETY: (1).
    match unsafe { job_processor() } {
        Some(job_processor) if job_processor.is_external() => Some(job_processor.expose_while_blocked()),
        _ => {
            expose_child_jobs();
            None
        }
    }
}

/// The job processor that the calling thread keeps for good, if the thread is in no computation. Solitary
/// parts count as computations.
#[inline]
pub fn idle_for_good() -> Option<&'static OwnJobs> {
    CONTEXT.with(|context| {
        let is_idle = context.job_processor.get().is_null() && context.region.get().1 != Tag::SOLITARY;
        // SAFETY: the pool of a thread that keeps its job processor for good lives for ever, and the pointer
        // is from a view of this thread that is `'static`.
        unsafe { context.for_good.get().as_ref() }.filter(|_| is_idle)
    })
}

/// The job processor that the calling thread owns, if it owns one.
///
/// # Safety
/// 1. The result is not used beyond the frame that made this thread the job processor's holder.
#[inline(always)]
pub unsafe fn job_processor<'a>() -> Option<&'a OwnJobs> {
    // SAFETY: by the duties of `replace_worker` and `replace_job_processor`, the calling thread is the owner
    // until the end of the frame of (1). A job processor lives as long as its shared state. The worker that
    // owns the job processor keeps that state, and so does the injected job that an external thread has
    // counted.
    unsafe { CONTEXT.with(|context| context.job_processor.get()).as_ref() }
}

/// Whether the calling thread is a worker, takes part in a computation, or is in a part that hides this.
pub fn is_taken() -> bool {
    CONTEXT.with(|context| {
        !context.worker.get().is_null()
            || !context.job_processor.get().is_null()
            || context.region.get().1 == Tag::SOLITARY
    })
}

/// Sets what [`job_processor`] finds: `job_processor`, which the calling thread holds, or null. Returns the
/// former value.
///
/// # Safety
/// 1. The frame that calls this, or the guard that it makes, puts the former value back. Until then,
///    `job_processor` is null, or valid and the calling thread's own.
pub unsafe fn replace_job_processor(job_processor: *const OwnJobs) -> *const OwnJobs {
    CONTEXT.with(|context| context.job_processor.replace(job_processor))
}

/// The region in which the calling thread works, and its tag, while it has no job processor.
pub fn region() -> (*const Region, Tag) {
    CONTEXT.with(|context| context.region.get())
}

/// Sets what [`region`] returns. Returns the former value.
pub fn replace_region(region: *const Region, tag: Tag) -> (*const Region, Tag) {
    CONTEXT.with(|context| context.region.replace((region, tag)))
}

/// Runs `f`, the body of a `block_on` or the end of a runtime. Inside of it, this thread does not wait for
/// runtimes to end.
pub fn enter_block_on<R>(f: impl FnOnce() -> R) -> R {
    struct Restore;
    impl Drop for Restore {
        fn drop(&mut self) {
            CONTEXT.with(|context| context.block_ons.set(context.block_ons.get() - 1));
        }
    }
    CONTEXT.with(|context| context.block_ons.set(context.block_ons.get() + 1));
    let _restore = Restore;
    f()
}

/// Marks this thread for good as a thread that runs blocking closures of `shared`.
pub fn become_blocking(shared: NonNull<Shared>) {
    CONTEXT.with(|context| context.blocking.set(shared.as_ptr()));
}

/// Whether this thread runs blocking closures of `shared`.
pub fn is_blocking_thread_of(shared: NonNull<Shared>) -> bool {
    CONTEXT.with(|context| std::ptr::eq(context.blocking.get(), shared.as_ptr()))
}

/// A number that no other live thread has.
pub fn thread_token() -> usize {
    CONTEXT.with(|context| std::ptr::from_ref(context).addr())
}

/// Whether a runtime owns this thread's time at the moment: the thread is a worker, runs blocking closures,
/// or is in a `block_on`. Such a thread does not wait for a runtime to end.
pub fn is_inside_runtime() -> bool {
    CONTEXT.with(|context| {
        with_worker(|worker| worker.is_some_and(Worker::is_engaged))
            || !context.blocking.get().is_null()
            || context.block_ons.get() > 0
    })
}
