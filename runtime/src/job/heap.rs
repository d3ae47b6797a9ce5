//! Jobs on the heap, for scopes and detached spawns; and the queue that makes them first in, first out.

use std::alloc::Layout;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use super::job_ref::{JobHeader, JobRef};
use super::region::{Region, Tag};
use crate::queue::{LockedList, TicketQueue};

/// The memory for heap jobs.
///
/// # Safety
/// 1. `allocate` returns memory for the layout. 2. `free` takes it on any thread.
pub unsafe trait Memory {
    fn allocate(layout: Layout) -> NonNull<u8>;

    /// # Safety
    /// 1. `memory` comes from [`allocate`](Self::allocate), for the same layout, and is not used any more.
    unsafe fn free(memory: NonNull<u8>, layout: Layout);
}

/// The memory of a job that runs. It is freed when this is dropped.
#[derive(Debug)]
pub struct Spot<M: Memory> {
    memory: NonNull<u8>,
    layout: Layout,
    _memory: PhantomData<M>,
}

impl<M: Memory> Spot<M> {
    /// The memory, with its layout, for a caller that can free it in a shorter way.
    #[inline(always)]
    pub fn into_raw(self) -> (NonNull<u8>, Layout) {
        let this = ManuallyDrop::new(self);
        (this.memory, this.layout)
    }
}

impl<M: Memory> Drop for Spot<M> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: (1) `execute` alone makes a `Spot`, with the layout of the job and the memory in which the
        // job was made. By duty 4 of `allocate_by`, `free` takes that memory. The closure was moved out, so
        // nothing else uses the memory, and `into_raw` prevents this drop.
        unsafe { M::free(self.memory, self.layout) }
    }
}

/// A closure on the heap. The closure gets the memory that it was in.
#[repr(C)]
pub struct HeapJob<M, F> {
    header: JobHeader,
    f: F,
    _memory: PhantomData<M>,
}

impl<M: Memory, F: FnOnce(Spot<M>)> HeapJob<M, F> {
    /// # Safety
    /// 1. `f` does not unwind, may be sent to whichever thread gets the reference, and is valid until it has
    ///    run. 2. So is `region`, or null. 3. The reference is run, once.
    #[inline]
    pub unsafe fn allocate(region: *const Region, tag: Tag, f: F) -> JobRef {
        // SAFETY: (1) to (3); (4) by the duties of `Memory`.
        unsafe { Self::allocate_by(M::allocate, region, tag, f) }
    }

    /// As [`allocate`](Self::allocate), with memory from the caller's function.
    ///
    /// # Safety
    /// 1. to 3. as for [`allocate`](Self::allocate). 4. `allocate` returns memory for the layout that it
    ///    gets, and [`Memory::free`] takes that memory.
    #[inline(always)]
    pub unsafe fn allocate_by(
        allocate: impl FnOnce(Layout) -> NonNull<u8>,
        region: *const Region,
        tag: Tag,
        f: F,
    ) -> JobRef {
        let header = JobHeader::new(Self::execute, region);
        let job = allocate(Layout::new::<Self>()).cast::<Self>();
        // SAFETY: `write`: by (4) the memory is for a `Self`, and ours. `JobRef::new`: (1) the job is live
        // until it has run, and so are closure and region, by our (1) and (2); (2) is our (3).
        unsafe {
            job.write(Self { header, f, _memory: PhantomData });
            JobRef::new(job.cast(), tag)
        }
    }

    /// # Safety
    /// 1. As [`JobRef::run`].
    unsafe fn execute(header: NonNull<JobHeader>) {
        let job = header.cast::<Self>();
        // SAFETY: by (1) the job is live and claimed, so it is ours, and the closure is read once.
        let f = unsafe { (&raw const (*job.as_ptr()).f).read() };
        f(Spot { memory: job.cast(), layout: Layout::new::<Self>(), _memory: PhantomData });
    }
}

/// Runs jobs in the order of their pushes, although deques are last in, first out.
///
/// The deque gets a *token*, the address of this queue. A thread that runs a token runs the oldest job here.
/// So the jobs keep their order among themselves, whichever thread takes a token. The tokens decide their
/// place among other jobs.
///
/// The jobs of a scope are in a [`TicketQueue`], whose tickets are the tokens. The detached jobs of a job
/// processor are in a [`LockedList`], which frees its memory after a peak.
///
/// Source: Rayon's RFC 1, "scope_fifo".
#[repr(C)]
pub struct JobFifo<Q> {
    header: JobHeader,
    jobs: Q,
}

/// Where the jobs of a [`JobFifo`] wait.
pub trait Waiting {
    fn new() -> Self;

    /// # Safety
    /// 1. Calls are made by one thread after the other. 2. Behind each, one token is pushed.
    unsafe fn push(&self, job: JobRef);

    /// # Safety
    /// 1. Once for each token, by the thread that took that token.
    unsafe fn pop(&self) -> JobRef;
}

impl Waiting for TicketQueue<JobHeader> {
    fn new() -> Self {
        Self::new()
    }

    #[inline]
    unsafe fn push(&self, job: JobRef) {
        // SAFETY: (1) and (2) are ours; (3) the word of a job holds its address, so it is not null.
        unsafe { self.push(job.into_raw()) }
    }

    #[inline]
    unsafe fn pop(&self) -> JobRef {
        // SAFETY: `take`: (1). `from_raw`: (1) only `push` above fills the queue; (2) `take` gives each word
        // out once.
        unsafe { JobRef::from_raw(self.take()) }
    }
}

impl Waiting for LockedList<JobRef> {
    fn new() -> Self {
        Self::new()
    }

    unsafe fn push(&self, job: JobRef) {
        self.push_back(job);
    }

    unsafe fn pop(&self) -> JobRef {
        self.pop_front().expect("there are as many jobs as tokens")
    }
}

// SAFETY: the header's region is followed only by a thread that runs a token, and is valid until then. The
// jobs may be sent, by the duty of their makers.
unsafe impl<Q: Send> Send for JobFifo<Q> {}
// SAFETY: as above.
unsafe impl<Q: Sync> Sync for JobFifo<Q> {}

impl<Q: Waiting> JobFifo<Q> {
    pub fn new(region: *const Region) -> Self {
        Self { header: JobHeader::new(Self::execute, region), jobs: Q::new() }
    }

    /// Queues a job and returns a token for it.
    ///
    /// # Safety
    /// 1. The queue outlives the token's run. 2. The token is pushed, and run once. 3. Calls are made by one
    ///    thread after the other.
    #[inline]
    pub unsafe fn push(&self, job: JobRef) -> JobRef {
        // SAFETY: `Waiting::push`: (1) is our (3); (2) is our (2). `JobRef::new`: (1) the header is the first
        // field of the queue, which by our (1) is live until the token has run; (2) is our (2).
        unsafe {
            self.jobs.push(job);
            JobRef::new(NonNull::from(self).cast(), job.tag())
        }
    }

    /// # Safety
    /// 1. As [`JobRef::run`].
    unsafe fn execute(header: NonNull<JobHeader>) {
        // SAFETY: by duty 1 of `push` the queue is live until this token has run. `pop`: (1) this thread has
        // claimed the token, by our (1), and pops once for it.
        let job = unsafe { header.cast::<Self>().as_ref().jobs.pop() };
        // SAFETY: claimed by the `pop`. Its region is the token's.
        unsafe { job.run() };
    }
}

impl<Q> fmt::Debug for JobFifo<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobFifo").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::alloc::{alloc, dealloc};
    use std::cell::{Cell, RefCell};
    use std::ptr::null;

    use super::*;

    thread_local! {
        /// The number of allocations that this thread has made and not freed.
        static LIVE: Cell<i32> = const { Cell::new(0) };
    }

    /// Memory that counts.
    struct Counted;

    // SAFETY: (1) and (2) the global allocator's.
    unsafe impl Memory for Counted {
        fn allocate(layout: Layout) -> NonNull<u8> {
            LIVE.set(LIVE.get() + 1);
            // SAFETY: a job is not of size zero.
            NonNull::new(unsafe { alloc(layout) }).expect("there is memory")
        }

        unsafe fn free(memory: NonNull<u8>, layout: Layout) {
            LIVE.set(LIVE.get() - 1);
            // SAFETY: (1).
            unsafe { dealloc(memory.as_ptr(), layout) }
        }
    }

    /// A job that calls `f`.
    fn job(f: impl FnOnce(Spot<Counted>)) -> JobRef {
        // SAFETY: (1) and (3) the tests run each job once, on this thread, while what it borrows lives, and
        // no closure unwinds; (2) null.
        unsafe { HeapJob::<Counted, _>::allocate(null(), Tag::new(3), f) }
    }

    fn run(job: JobRef) {
        // SAFETY: (1) as above.
        unsafe { job.run() }
    }

    #[test]
    fn the_memory_of_a_job_is_freed_when_its_closure_drops_it() {
        let values = Cell::new((0, 0));
        let job = job(|spot| {
            let before = LIVE.get();
            drop(spot);
            values.set((before, LIVE.get()));
        });
        assert_eq!((job.tag(), LIVE.get()), (Tag::new(3), 1));
        run(job);
        assert_eq!(values.get(), (1, 0));
    }

    #[test]
    fn a_closure_may_free_its_memory_in_another_way() {
        let memory = Cell::new(None);
        run(job(|spot| memory.set(Some(spot.into_raw()))));
        assert_eq!(LIVE.get(), 1);
        let (memory, layout) = memory.take().expect("the job ran");
        // SAFETY: (1) it is what the job got, and the job is gone.
        unsafe { Counted::free(memory, layout) };
        assert_eq!(LIVE.get(), 0);
    }

    fn assert_is_first_in_first_out<Q: Waiting>() {
        let (fifo, order) = (JobFifo::<Q>::new(null()), RefCell::new(Vec::new()));
        let push = |value| {
            let job = job({
                let order = &order;
                move |_| order.borrow_mut().push(value)
            });
            // SAFETY: (1) the queue outlives this test's tokens; (2) each is run below; (3) by one thread.
            unsafe { fifo.push(job) }
        };
        let mut tokens = [0, 1, 2].map(push);
        assert!(tokens.iter().all(|token| token.tag() == Tag::new(3)));
        tokens.reverse();
        run(tokens[0]);
        run(push(3));
        run(tokens[1]);
        run(tokens[2]);
        assert_eq!((order.into_inner(), LIVE.get()), (vec![0, 1, 2, 3], 0));
    }

    #[test]
    fn a_token_runs_the_oldest_job_whichever_token_it_is() {
        assert_is_first_in_first_out::<TicketQueue<JobHeader>>();
        assert_is_first_in_first_out::<LockedList<JobRef>>();
    }
}
