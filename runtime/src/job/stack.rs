//! A job in its caller's frame, and why that frame outlives it.
//!
//! The maker of a stack job pushes a [`JobRef`] to it. The maker leaves the frame, by returning or by
//! unwinding, only after it has taken the reference back or has seen the latch set. `execute` sets the latch
//! as its last access.
//!
//! A job may be *begun* first: only the fields that its maker needs to take it back are written. It is
//! finished before any other thread gets the reference.

use std::cell::UnsafeCell;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::NonNull;

use super::job_ref::{JobHeader, JobRef};
use super::latch::Latch;
use super::region::{Region, Tag};
use crate::util::unwind::{self, Payload};

/// The fields of a job that only other threads need.
#[derive(Debug)]
#[repr(C)]
pub struct StackHead<L> {
    header: JobHeader,
    latch: L,
}

impl<L> StackHead<L> {
    /// Writes the fields that [`StackJob::begin`] has left out.
    ///
    /// # Safety
    /// 1. `this` is the head of a job that is begun, and no other thread has a reference to it. 2. `region`
    ///    is null, or valid until the job has run.
    #[inline]
    pub unsafe fn finish(this: NonNull<Self>, region: *const Region, latch: L) {
        let this = this.as_ptr();
        // SAFETY: by (1) the head is a live job's memory, and no other thread uses it.
        unsafe {
            JobHeader::set_region(&raw mut (*this).header, region);
            (&raw mut (*this).latch).write(latch);
        }
    }
}

/// See the module's docs.
#[repr(C)]
pub struct StackJob<L, F, R> {
    head: StackHead<L>,
    /// Valid until the job runs.
    f: UnsafeCell<ManuallyDrop<F>>,
    /// Valid once the latch is set.
    result: UnsafeCell<MaybeUninit<Result<R, Payload>>>,
}

impl<L, F, R> StackJob<L, F, R>
where
    L: Latch,
    F: FnOnce(bool) -> R,
{
    /// `f` is called with true if the job runs by its reference.
    #[inline(always)]
    pub fn new(region: *const Region, latch: L, f: F) -> Self {
        Self {
            head: StackHead { header: JobHeader::new(Self::execute, region), latch },
            f: UnsafeCell::new(ManuallyDrop::new(f)),
            result: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Begins a job in the memory `place`.
    #[inline(always)]
    pub fn begin(place: &mut MaybeUninit<Self>, f: F) -> NonNull<Self> {
        let job = place.as_mut_ptr();
        // SAFETY: `place` is memory for a job, and borrowed exclusively. `set_execute`: (1) by the same.
        unsafe {
            JobHeader::set_execute(&raw mut (*job).head.header, Self::execute);
            (&raw mut (*job).f).write(UnsafeCell::new(ManuallyDrop::new(f)));
            NonNull::new_unchecked(job)
        }
    }

    pub fn latch(&self) -> &L {
        &self.head.latch
    }

    /// Takes the closure out of a job that is begun, and perhaps finished.
    ///
    /// # Safety
    /// 1. No reference to the job is left, it has not run, and this is called once.
    #[inline(always)]
    pub unsafe fn take_closure(this: NonNull<Self>) -> F {
        // SAFETY: (1): `begin` has written it.
        ManuallyDrop::into_inner(unsafe { (&raw mut (*this.as_ptr()).f).read() }.into_inner())
    }

    /// # Safety
    /// 1. The frame that has the job is not left before the reference was taken back or the latch set; see
    ///    the module's docs. 2. One thread gets the reference, and runs it once. `f` and its result may be
    ///    sent to that thread, which may set the latch.
    #[inline(always)]
    pub unsafe fn as_job_ref(&self, tag: Tag) -> JobRef {
        // SAFETY: (1) the header is the first field of the job, which by our (1) is live until it has run.
        // (2) is in our (2).
        unsafe { JobRef::new(NonNull::from(self).cast(), tag) }
    }

    /// The return value of the job, or its panic.
    ///
    /// # Safety
    /// 1. The latch has been seen set. 2. Called once.
    pub unsafe fn take_result(&self) -> Result<R, Payload> {
        // SAFETY: (1): `execute` has written it, before it set the latch; (2).
        unsafe { (*self.result.get()).assume_init_read() }
    }

    /// # Safety
    /// 1. As [`JobRef::run`].
    unsafe fn execute(header: NonNull<JobHeader>) {
        let this = header.cast::<Self>().as_ptr();
        // SAFETY: by (1) the job is claimed. So it is live until the latch is set, and its parts are ours
        // alone until then. `set`: (1) by the same argument; (2) by duty 2 of `as_job_ref`, or because a
        // worker of the owner's own pool runs the job; (3) a job runs once, and sets its latch once.
        unsafe {
            let f = ManuallyDrop::take(&mut *(*this).f.get());
            let result = unwind::catch(|| f(true));
            (*this).result.get().write(MaybeUninit::new(result));
            L::set(&raw const (*this).head.latch);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::panic::panic_any;
    use std::ptr::null;

    use super::*;
    use crate::job::latch::tests::Bell;

    fn tag() -> Tag {
        Tag::new(3)
    }

    #[test]
    fn a_job_that_runs_by_its_reference_leaves_its_result_before_it_sets_its_latch() {
        let text = String::from("seven");
        let job = StackJob::new(null(), Bell::default(), |is_by_reference| (is_by_reference, text));
        assert_eq!(job.latch().rung(), 0);
        // SAFETY: (1) the job is run below; (2) this thread runs it, once.
        let job_ref = unsafe { job.as_job_ref(tag()) };
        assert_eq!(job_ref.tag(), tag());
        // SAFETY: (1) this thread has the reference, and runs it once.
        unsafe { job_ref.run() };
        assert_eq!(job.latch().rung(), 1);
        // SAFETY: (1) the latch is set; (2) called once.
        let result = unsafe { job.take_result() };
        assert_eq!(result.unwrap(), (true, "seven".into()));
    }

    #[test]
    fn the_panic_of_a_job_is_its_result() {
        let job = StackJob::new(null(), Bell::default(), |_| -> u32 { panic_any(7) });
        // SAFETY: (1) the job is run here; (2) by this thread, once. `run`: (1) likewise.
        unsafe { job.as_job_ref(tag()).run() };
        assert_eq!(job.latch().rung(), 1);
        // SAFETY: (1) the latch is set; (2) called once.
        let result = unsafe { job.take_result() };
        assert_eq!(result.unwrap_err().downcast_ref(), Some(&7));
    }

    #[test]
    fn a_job_that_was_only_begun_gives_its_closure_back() {
        let mut place = MaybeUninit::<StackJob<Bell, _, _>>::uninit();
        let text = String::from("seven");
        let job = StackJob::begin(&mut place, |is_by_reference| (is_by_reference, text));
        // SAFETY: (1) there is no reference, it has not run, and this is called once.
        let f = unsafe { StackJob::take_closure(job) };
        assert_eq!(f(false), (false, "seven".into()));
    }

    #[test]
    fn a_job_that_was_begun_and_finished_is_as_one_that_was_made_at_once() {
        let region = NonNull::<u64>::dangling().as_ptr().cast_const().cast();
        let mut place = MaybeUninit::<StackJob<Bell, _, _>>::uninit();
        let job = StackJob::begin(&mut place, |is_by_reference| is_by_reference);
        // SAFETY: `finish`: (1) the job is begun, and this thread has it alone; (2) no code follows the
        // region. The rest as above: the job is finished, and run once.
        unsafe {
            StackHead::finish(job.cast(), region, Bell::default());
            let job = job.as_ref();
            let job_ref = job.as_job_ref(tag());
            assert_eq!((job_ref.region(), job.latch().rung()), (region, 0));
            job_ref.run();
            assert_eq!((job.take_result().unwrap(), job.latch().rung()), (true, 1));
        }
    }
}
