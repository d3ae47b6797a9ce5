//! To which runtime, and to which worker, a job processor belongs. The job processor keeps a pointer without
//! a type to the shared state, because the shared state holds the job processors.

use std::ptr::{NonNull, null};

use crate::job::Owner;
use crate::scheduler::context;
use crate::scheduler::job_processor::{BREADTH_FIRST, JobProcessor};
use crate::scheduler::owner::OwnJobs;
use crate::scheduler::reference::Reference;
use crate::scheduler::shared::Shared;
use crate::scheduler::worker::Worker;

impl JobProcessor {
    /// Tells the job processor where it belongs.
    ///
    /// # Safety
    /// 1. No other thread knows the job processor yet. 2. `shared` outlives it.
    pub unsafe fn bind(&self, shared: NonNull<Shared>) {
        self.shared.set(shared.as_ptr().cast_const().cast());
        // SAFETY: (2).
        let state = unsafe { shared.as_ref() };
        // SAFETY: (1) by our (1) this thread is the owner in this call, and no other thread is.
        unsafe { self.by_owner() }.set_flag(BREADTH_FIRST, state.config.is_breadth_first);
        self.is_external.set((state.config.workers..state.first_spare).contains(&self.index));
    }

    /// The number that a program sees. It is below the number of threads for permanent workers. Spare workers
    /// have higher numbers, because programs use the number as the index of a slot that no other thread uses
    /// meanwhile. External threads have none.
    #[inline]
    pub fn thread_index(&self) -> Option<usize> {
        let shared = self.shared();
        match self.index < shared.config.workers {
            true => Some(self.index),
            false => self.index.checked_sub(shared.first_spare).map(|place| shared.config.workers + place),
        }
    }

    #[inline]
    pub fn shared_ptr(&self) -> NonNull<Shared> {
        // SAFETY: bound, before any caller can have the job processor.
        unsafe { NonNull::new_unchecked(self.shared.get().cast_mut().cast()) }
    }

    #[inline]
    pub fn shared(&self) -> &Shared {
        // SAFETY: the shared state holds the job processor, so it lives at least as long.
        unsafe { self.shared_ptr().as_ref() }
    }
}

impl OwnJobs {
    /// Calls `f` with the owner's worker. Panics on an external thread, which is no worker.
    pub fn with_worker<R>(&self, f: impl FnOnce(&Worker) -> R) -> R {
        context::with_worker_of(self.shared_ptr(), |worker| {
            f(worker.expect("a job processor's owner is its worker"))
        })
    }

    /// Runs `f`, which is no part of the computation below on the stack, nor in a runtime that it has
    /// entered. `f` does not unwind.
    pub fn run_apart<R>(&self, f: impl FnOnce() -> R) -> R {
        outside_of_computations(|| self.in_surroundings(f))
    }
}

/// Runs `f`. `f` polls tasks, which are no part of the computation below on the stack, and does not unwind.
/// An isolated region around still counts, because what it holds is still held.
pub fn outside_of_computations<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: (1) used in this call only.
    let Some(job_processor) = (unsafe { context::job_processor() }) else {
        return f();
    };
    // SAFETY: (1) no region; then the region that was there before, which is around this call.
    unsafe {
        let (region, tag) = job_processor.replace_region(null(), job_processor.waits_for());
        let result = f();
        job_processor.put_region_back(region, tag);
        result
    }
}

// SAFETY: (1) a job processor's parker is its processor's, which lives as long as the shared state; (2)
// `Hold` is a reference to that.
unsafe impl Owner for JobProcessor {
    type Hold = Reference;

    unsafe fn hold(owner: NonNull<Self>) -> Reference {
        // SAFETY: (1) by our (1) the caller keeps the job processor's pool, and so the job processor.
        unsafe { Reference::new(owner.as_ref().shared_ptr()) }
    }

    unsafe fn unpark(owner: NonNull<Self>) {
        // SAFETY: by (1) the caller keeps the pool, which holds the job processor.
        let job_processor = unsafe { owner.as_ref() };
        job_processor.shared().unpark_picked(Some(job_processor.index));
    }
}
