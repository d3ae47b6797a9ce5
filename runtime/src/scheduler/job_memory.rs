//! Which thread's magazine memory for a job comes from, and where it goes.

use std::alloc::Layout;
use std::ptr::NonNull;

use crate::job::Memory;
use crate::memory::{allocate, free};
use crate::scheduler::context;

/// Memory for jobs. It comes from the magazine of the calling thread's job processor, or of its worker, and
/// goes back into the magazine of the thread that runs the job.
#[derive(Debug)]
pub struct JobMemory;

// SAFETY: (1) each of the calls in `allocate` returns memory for the layout. (2) All magazines and depots
// have their blocks from one allocator, so the memory may go back on any thread.
unsafe impl Memory for JobMemory {
    #[inline]
    fn allocate(layout: Layout) -> NonNull<u8> {
        // SAFETY: (1) used in this call only.
        if let Some(job_processor) = unsafe { context::job_processor() } {
            return job_processor.allocate(layout);
        }
        context::with_worker(|worker| match worker {
            Some(worker) => worker.magazine().allocate(layout, &worker.shared().depot),
            None => allocate(layout),
        })
    }

    #[inline]
    unsafe fn free(memory: NonNull<u8>, layout: Layout) {
        // SAFETY: `job_processor`: (1) used in this call only. `OwnJobs::free`: (1) is our (1).
        unsafe {
            if let Some(job_processor) = context::job_processor() {
                return job_processor.free(memory, layout);
            }
        }
        context::with_worker(|worker| {
            // SAFETY: (1) by our (1), because `allocate` has the memory from a magazine or from the
            // allocator.
            unsafe {
                match worker {
                    Some(worker) => worker.magazine().free(memory, layout, &worker.shared().depot),
                    None => free(memory, layout),
                }
            }
        });
    }
}
