//! The owner's side of a job processor.
//!
//! Any thread may have a `&JobProcessor`: it steals from there, pushes into the lists, or asks for jobs. Only
//! the owner may push into the deque and pop from it, and touch the cells. [`OwnJobs`] is the token of the
//! owner: a thread that has it may do both, so no method of it asks the caller which thread it is on.
//!
//! The token is made in three places:
//! - [`Worker::job_processor`](crate::scheduler::Worker::job_processor): a worker is the owner of its job
//!   processor, and stays on its thread. The thread-local (`context.rs`) keeps a pointer to this view.
//! - [`Shared::take_external`](crate::scheduler::Shared::take_external): an external thread takes its job
//!   processor under a lock, and gives it back as its last use of the view.
//! - [`JobProcessor::bind`], before any other thread knows the job processor.
//!
//! The files beside add the methods that belong to their subjects: see the list in `job_processor.rs`.

use std::alloc::Layout;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{self, NonNull};

use crate::scheduler::job_processor::JobProcessor;

/// A job processor, for its owner. The view stays on the owner's thread. It derefs to what any thread may
/// use.
#[repr(transparent)]
pub struct OwnJobs {
    job_processor: JobProcessor,
    /// Makes the view neither `Send` nor `Sync`.
    stays_here: PhantomData<*const ()>,
}

impl JobProcessor {
    /// The owner's view of the job processor.
    ///
    /// # Safety
    /// 1. Until the last use of the result, the calling thread is the owner, and no other thread is.
    #[inline(always)]
    pub unsafe fn by_owner(&self) -> &OwnJobs {
        // SAFETY: the view has the same representation. By (1) the methods of the view are called by the
        // owner, because the view cannot leave this thread.
        unsafe { &*ptr::from_ref(self).cast() }
    }
}

impl Deref for OwnJobs {
    type Target = JobProcessor;

    #[inline(always)]
    fn deref(&self) -> &JobProcessor {
        &self.job_processor
    }
}

impl OwnJobs {
    #[inline]
    pub(super) fn set_flag(&self, what: u32, is_so: bool) {
        let others = self.flags.get() & !what;
        self.flags.set(if is_so { others | what } else { others });
    }

    #[inline]
    pub(super) fn has_flag(&self, what: u32) -> bool {
        self.flags.get() & what != 0
    }

    /// Memory for a job.
    #[inline(always)]
    pub fn allocate(&self, layout: Layout) -> NonNull<u8> {
        self.magazine.allocate(layout, &self.shared().depot)
    }

    /// Takes a job's memory back.
    ///
    /// # Safety
    /// 1. As [`Memory::free`](crate::job::Memory::free).
    #[inline(always)]
    pub unsafe fn free(&self, memory: NonNull<u8>, layout: Layout) {
        // SAFETY: (1) by our (1), because `JobMemory` has its memory from a magazine or from the allocator.
        unsafe { self.magazine.free_by(memory, layout, || &self.shared().depot) };
    }

    /// Other work begins, so its first split ends the poll interval.
    pub fn restart_poll_interval(&self) {
        self.poll_interval.restart();
        if !self.is_external() {
            self.slices.begin();
        }
        self.end_budget();
    }

    /// A split point; see `split.rs`. `has_job`: the owner has claimed a job that it has not begun.
    #[inline(always)]
    pub fn pass_split(&self, has_job: bool) {
        if self.poll_interval.pass() {
            self.look(has_job);
        }
    }

    /// The owner is a spare worker; see `hints/slices.rs`.
    pub fn begin_short_slices(&self) {
        self.slices.begin_short();
    }

    /// The worker is back from a computation; see `hints/slices.rs`. `now` is called only if it is needed.
    pub fn end_slices(&self, now: impl FnOnce() -> u64) {
        self.slices.end(now);
    }

    /// The index that the next child job gets.
    #[inline(always)]
    pub fn head(&self) -> u32 {
        // SAFETY: the view is the owner's.
        unsafe { self.deque.head() }
    }

    /// Whether child jobs lie here.
    pub fn has_child_jobs(&self) -> bool {
        // SAFETY: the view is the owner's.
        unsafe { self.deque.has_items() || !self.overflow.is_empty() }
    }

    /// Whether jobs that were pushed here wait.
    pub fn has_pending_jobs(&self) -> bool {
        self.has_child_jobs() || !self.detached.is_empty()
    }
}

impl fmt::Debug for OwnJobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
