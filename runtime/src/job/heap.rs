//! Jobs on the heap, for scopes and detached spawns; and the indirection that makes them first in, first out.

use std::alloc::Layout;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;

use super::region::{Region, Tag};
use super::{JobHeader, JobRef};
use crate::queue::Shelf;

/// Where heap jobs lie.
///
/// # Safety
/// 1. `allocate` returns memory for the layout. 2. `free` takes it on any thread.
pub unsafe trait Memory {
    fn allocate(layout: Layout) -> NonNull<u8>;

    /// # Safety
    /// 1. `memory` comes from [`allocate`](Self::allocate), for the same layout, and is not used any more.
    unsafe fn free(memory: NonNull<u8>, layout: Layout);
}

/// A closure on the heap, freed when it is run.
#[repr(C)]
pub struct HeapJob<M, F> {
    header: JobHeader,
    f: F,
    _memory: PhantomData<M>,
}

impl<M: Memory, F: FnOnce()> HeapJob<M, F> {
    /// # Safety
    /// 1. `f` does not unwind, may be sent to whichever thread gets the reference, and is valid until it has run. 2. So is
    ///    `region`, or null. 3. The reference is run, once.
    #[inline]
    pub unsafe fn allocate(region: *const Region, tag: Tag, f: F) -> JobRef {
        let header = JobHeader::new(Self::execute, region);
        let job = M::allocate(Layout::new::<Self>()).cast::<Self>();
        // SAFETY: the memory is for it; the job is live until it is run; (1), (3).
        unsafe {
            job.write(Self { header, f, _memory: PhantomData });
            JobRef::new(job.cast(), tag)
        }
    }

    /// # Safety
    /// 1. As [`JobRef::run`].
    unsafe fn execute(header: NonNull<JobHeader>) {
        let job = header.cast::<Self>();
        // SAFETY: (1): ours now. The memory first, so that what the job spawns can have it.
        let f = unsafe {
            let f = job.read().f;
            M::free(job.cast(), Layout::new::<Self>());
            f
        };
        f();
    }
}

/// Runs jobs in the order in which they came, although deques are last in, first out.
///
/// What goes into the deque is a *token*, the address of this queue; whoever runs a token runs the oldest job here. So the jobs
/// keep their order among themselves, whoever takes a token, and their place among other jobs is that of the tokens.
///
/// Source: Rayon's RFC 1, "scope_fifo".
#[repr(C)]
pub struct Fifo {
    header: JobHeader,
    jobs: Shelf<JobRef>,
}

// SAFETY: the region is only followed by whoever runs a job, which keeps it.
unsafe impl Send for Fifo {}
// SAFETY: as above.
unsafe impl Sync for Fifo {}

impl Fifo {
    pub fn new(region: *const Region) -> Self {
        Self { header: JobHeader::new(Self::execute, region), jobs: Shelf::new() }
    }

    /// Queues a job and returns a token for it.
    ///
    /// # Safety
    /// 1. The queue outlives the token's run. 2. The token is run once.
    pub unsafe fn push(&self, job: JobRef) -> JobRef {
        self.jobs.push_back(job);
        // SAFETY: (1), (2); the header is the first field.
        unsafe { JobRef::new(NonNull::from(self).cast(), job.tag()) }
    }

    /// # Safety
    /// 1. As [`JobRef::run`].
    unsafe fn execute(header: NonNull<JobHeader>) {
        // SAFETY: (1), duty 1 of `push`: the queue is live until the last of its jobs has run, and we take one out now.
        let job = unsafe { header.cast::<Self>().as_ref() }.jobs.pop_front();
        let job = job.expect("there are as many jobs as tokens");
        // SAFETY: claimed by the `pop_front`. Its region is the token's.
        unsafe { job.run() };
    }
}

impl fmt::Debug for Fifo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fifo").finish_non_exhaustive()
    }
}
