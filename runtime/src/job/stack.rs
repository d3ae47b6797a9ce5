//! A job in its caller's frame, and why that frame outlives it.
//!
//! Whoever makes one pushes a [`JobRef`] to it somewhere and does not leave the frame, neither by returning nor by unwinding,
//! before it has either taken the reference back or seen the latch set. `execute` sets the latch as its last access.

use std::cell::UnsafeCell;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::NonNull;

use super::latch::Latch;
use super::region::{Region, Tag};
use super::{JobHeader, JobRef};
use crate::util::unwind::{self, Payload};

/// See the module's docs.
#[repr(C)]
pub struct StackJob<L, F, R> {
    header: JobHeader,
    pub latch: L,
    /// There until the job is run.
    f: UnsafeCell<ManuallyDrop<F>>,
    /// There once the latch is set.
    result: UnsafeCell<MaybeUninit<Result<R, Payload>>>,
}

impl<L, F, R> StackJob<L, F, R>
where
    L: Latch,
    F: FnOnce(bool) -> R,
{
    /// `f` is called with true if it is run by reference.
    #[inline(always)]
    pub fn new(region: *const Region, latch: L, f: F) -> Self {
        Self {
            header: JobHeader::new(Self::execute, region),
            latch,
            f: UnsafeCell::new(ManuallyDrop::new(f)),
            result: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// # Safety
    /// 1. The frame that has the job is not left before the reference was taken back or the latch set; see the module's docs.
    ///    2. `f` and its result may be sent to whichever thread gets the reference.
    #[inline(always)]
    pub unsafe fn as_job_ref(&self, tag: Tag) -> JobRef {
        // SAFETY: (1) and (2); the header is the job's first field.
        unsafe { JobRef::new(NonNull::from(self).cast(), tag) }
    }

    /// Runs the job in place.
    ///
    /// # Safety
    /// 1. No reference to the job is left, and it has not run.
    #[inline(always)]
    pub unsafe fn run_inline(self, is_migrated: bool) -> R {
        let f = ManuallyDrop::into_inner(self.f.into_inner());
        f(is_migrated)
    }

    /// The closure, unrun.
    ///
    /// # Safety
    /// 1. As [`run_inline`](Self::run_inline).
    pub unsafe fn into_closure(self) -> F {
        ManuallyDrop::into_inner(self.f.into_inner())
    }

    /// What the job returned or panicked with.
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
        // SAFETY: (1): the job is live until the latch is set, and its parts are ours alone until then.
        unsafe {
            let f = ManuallyDrop::take(&mut *(*this).f.get());
            let result = unwind::catch(|| f(true));
            (*this).result.get().write(MaybeUninit::new(result));
            L::set(&raw const (*this).latch);
        }
    }
}
