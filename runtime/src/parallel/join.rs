//! `join`: two closures, perhaps at the same time.
//!
//! The second closure is pushed as a job in this frame, and the first is run. Then the second is taken back
//! and run here. If a thief has it, this thread runs other jobs until the thief is done. The frame stays
//! until then, also if the first closure panics: [`Rescue`] runs or awaits the second closure while the first
//! unwinds. There is no `catch` around the first closure, so that it can be inlined.

use std::mem::MaybeUninit;
use std::panic::resume_unwind;
use std::ptr::NonNull;

use super::cancel;
use super::enter::{self, Outside, in_pool};
use crate::job::{CoreLatch, SpinLatch, StackJob};
use crate::queue::Taken;
use crate::scheduler::context;
use crate::scheduler::{JobProcessor, OwnJobs};
use crate::util::unwind;

/// Tells a closure of [`join_context`] whether it was moved to another thread.
#[derive(Debug)]
pub struct FnContext {
    is_migrated: bool,
    /// Neither `Send` nor `Sync`, because it describes this thread.
    _marker: std::marker::PhantomData<*mut ()>,
}

impl FnContext {
    #[inline]
    fn new(is_migrated: bool) -> Self {
        Self { is_migrated, _marker: std::marker::PhantomData }
    }

    /// Returns whether the closure was called on another thread than the caller of [`join_context`].
    #[inline]
    pub fn migrated(&self) -> bool {
        self.is_migrated
    }
}

/// Runs two closures, perhaps in parallel, and returns both results.
///
/// The first runs on the calling thread. Meanwhile another thread may take the second. If no thread has taken
/// it, the second runs here, too. So a call costs a few nanoseconds, and a program can divide a problem down
/// to small parts.
///
/// If the calling thread is no worker and a worker sleeps, both closures run on the calling thread as well.
/// It takes part beside the workers, without an [index](super::current_thread_index), until the call returns.
/// If no worker sleeps, or the workers were given a stack size or a hook that they call when they start, the
/// call is sent to a worker, and the thread waits.
///
/// Do not rely on another thread taking the second closure. If the first closure waits for something that the
/// second does, both may hang.
///
/// # Panics
/// Both closures run in any case. If one panics, the panic goes on here after both have ended. If both panic,
/// the first closure's panic goes on. If the computation was cancelled (see [`compute`](crate::compute())),
/// it unwinds from here, and closures that have not begun are dropped. There is one exception. If the first
/// closure has panicked, the second runs while its thread unwinds, and a cancellation does not end it,
/// because nothing may unwind then.
///
/// # Examples
/// ```
/// use runtime::parallel::join;
///
/// fn sort(numbers: &mut [u32]) {
///     if numbers.len() < 100 {
///         return numbers.sort_unstable();
///     }
///     let middle = numbers.len() / 2;
///     numbers.select_nth_unstable(middle);
///     let (left, right) = numbers.split_at_mut(middle);
///     join(|| sort(left), || sort(right));
/// }
/// let mut numbers: Vec<u32> = (0..1000).rev().collect();
/// sort(&mut numbers);
/// assert!(numbers.is_sorted());
/// ```
/// Both may borrow, but not write the same thing:
/// ```compile_fail,E0499
/// let mut numbers = vec![3, 1, 2];
/// runtime::parallel::join(|| numbers.sort(), || numbers.clear());
/// ```
/// and what they use must be `Send`:
/// ```compile_fail,E0277
/// let shared = std::rc::Rc::new(1);
/// runtime::parallel::join(|| println!("{shared}"), || ());
/// ```
/// ```compile_fail,E0277
/// runtime::parallel::join(|| std::rc::Rc::new(1), || ());
/// ```
///
/// Prior art: `rayon::join`, whose documentation calls the way it works "potential parallelism".
#[inline]
pub fn join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    join_context(move |_| a(), move |_| b())
}

/// As [`join`], and tells each closure whether it was moved to another thread.
///
/// # Panics
/// As [`join`].
///
/// # Examples
/// ```
/// # runtime::Runtime::new().unwrap().block_on(runtime::compute(|| {
/// let (a, b) = runtime::parallel::join_context(|a| a.migrated(), |b| b.migrated());
/// assert!(!a, "the first stays where it is");
/// println!("another thread took the second: {b}");
/// # })).unwrap();
/// ```
///
/// Prior art: `rayon::join_context`.
#[inline]
pub fn join_context<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce(FnContext) -> RA + Send,
    B: FnOnce(FnContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    // Two branches by hand, so that only the usual one is inlined. A recursion then has one frame for each
    // level.
    // SAFETY: (1) used within this call only.
    match unsafe { context::job_processor() } {
        Some(processor) => join_on(processor, false, a, b),
        None => join_elsewhere(Outside::Visits, a, b),
    }
}

/// As [`join_context`], but on a thread that is no worker both are sent to one.
#[inline]
pub fn join_context_sent<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce(FnContext) -> RA + Send,
    B: FnOnce(FnContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    // SAFETY: (1) used within this call only.
    match unsafe { context::job_processor() } {
        Some(processor) => join_on(processor, false, a, b),
        None => join_elsewhere(Outside::Sends, a, b),
    }
}

#[cold]
#[inline(never)]
fn join_elsewhere<A, B, RA, RB>(outside: Outside, a: A, b: B) -> (RA, RB)
where
    A: FnOnce(FnContext) -> RA + Send,
    B: FnOnce(FnContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    in_pool(outside, move |processor, is_migrated| match processor {
        Some(processor) => join_on(processor, is_migrated, a, b),
        None => join_in_place(a, b),
    })
}

/// Runs both closures here. Without a job processor, there is no thread to share them with.
#[cold]
fn join_in_place<RA, RB>(a: impl FnOnce(FnContext) -> RA, b: impl FnOnce(FnContext) -> RB) -> (RA, RB) {
    let result_a = unwind::catch(|| a(FnContext::new(false)));
    let result_b = unwind::catch(|| b(FnContext::new(false)));
    match (result_a, result_b) {
        (Ok(result_a), result_b) => (result_a, enter::resume(result_b)),
        (Err(payload), Ok(result_b)) => {
            unwind::drop_quietly(result_b);
            resume_unwind(payload)
        }
        (Err(first), Err(second)) => resume_unwind(cancel::first_panic(first, second)),
    }
}

#[inline(always)]
fn join_on<A, B, RA, RB>(processor: &OwnJobs, is_migrated: bool, a: A, b: B) -> (RA, RB)
where
    A: FnOnce(FnContext) -> RA + Send,
    B: FnOnce(FnContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    let mut place = MaybeUninit::uninit();
    let job = StackJob::begin(&mut place, move |is_stolen| b(FnContext::new(is_stolen)));
    // SAFETY: (1) the job is begun. `Rescue`, or what follows it, keeps the frame until the job was taken
    // back or its latch set. Closure and result are `Send`.
    let index = match unsafe { processor.push_within_budget(job.cast()) } {
        Some(index) => index,
        // SAFETY: (1) as above; (2) no other thread got the reference.
        None => match unsafe { split(processor, job) } {
            Some(index) => index,
            // The deque is full, so thieves have plenty of jobs.
            // SAFETY: (1) the job was not pushed, so there is no reference to it, and it has not run. It is
            // called once, because `join_in_place` calls each closure once.
            None => return join_in_place(a, move |_| unsafe { StackJob::take_closure(job)(is_migrated) }),
        },
    };
    let rescue = Rescue { processor, job, index };
    let result_a = a(FnContext::new(is_migrated));
    std::mem::forget(rescue);
    // SAFETY: (1) this frame has pushed the job there, and the frames that pushed join jobs above have been
    // left.
    if unsafe { processor.take_back_private(index) || take_back_public(processor, index) } {
        // SAFETY: (1) the reference was taken back, so the job has not run; called once.
        return (result_a, unsafe { StackJob::take_closure(job) }(is_migrated));
    }
    // SAFETY: it was stolen, so it was finished.
    let job = unsafe { job.as_ref() };
    // SAFETY: (1) the job at `index` was stolen, and the frames that pushed join jobs above have been left.
    unsafe { wait(processor, job.latch().core(), index) };
    // SAFETY: (1) `wait` returned because the latch is set. (2) Called once.
    (result_a, enter::resume(unsafe { job.take_result() }))
}

/// The split point at the end of a publish budget. If the computation was cancelled, drops the closure and
/// ends the computation. Otherwise pushes the job.
///
/// # Safety
/// 1. As [`OwnJobs::push_slowly`]. 2. No other thread has the job.
#[cold]
#[inline(never)]
unsafe fn split<F: FnOnce(bool) -> R, R>(
    processor: &OwnJobs,
    job: NonNull<StackJob<SpinLatch<JobProcessor>, F, R>>,
) -> Option<u32> {
    if cancel::ends_here(processor) {
        // SAFETY: (1) by our (2) the job was never pushed, so there is no reference to it; called once.
        let _closure = unsafe { StackJob::take_closure(job) };
        cancel::unwind_quietly();
    }
    // SAFETY: (1).
    unsafe { processor.push_slowly(job.cast()) }
}

/// The second closure's place, at `index`, is or was public. First runs the jobs that the first closure has
/// left above it, which belong to scopes around the call. Then returns whether the second closure is back. It
/// may be stolen instead.
///
/// # Safety
/// 1. As [`OwnJobs::take_back_private`].
#[cold]
#[inline(never)]
unsafe fn take_back_public(processor: &OwnJobs, index: u32) -> bool {
    if processor.head() != index + 1 {
        // SAFETY: (1) by our (1) all join jobs above `index` were taken out.
        unsafe { processor.run_scope_jobs(index + 1) };
    }
    // SAFETY: (1), and what was above has been taken out.
    unsafe { processor.take_back(index) == Taken::Back }
}

/// [`OwnJobs::wait`], kept out of line.
///
/// # Safety
/// 1. As [`OwnJobs::wait`].
#[cold]
#[inline(never)]
unsafe fn wait(processor: &OwnJobs, latch: &CoreLatch, floor: u32) {
    // SAFETY: (1).
    unsafe { processor.wait(latch, floor) };
}

/// While the first closure unwinds, runs or awaits the second closure, which is pushed at `index`. In a
/// cancelled computation, drops the second closure if it has not begun.
struct Rescue<'a, F: FnOnce(bool) -> R, R> {
    processor: &'a OwnJobs,
    job: NonNull<StackJob<SpinLatch<JobProcessor>, F, R>>,
    index: u32,
}

impl<F: FnOnce(bool) -> R, R> Drop for Rescue<'_, F, R> {
    // Inlined, so that the three fields need not lie in memory for it.
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: (1) the frame of the join has pushed the job at `index`, and the first closure's frames,
        // which pushed join jobs above, have been unwound. (2) The frame of the join is being left, too.
        unsafe { rescue(self.processor, self.job, self.index) }
    }
}

/// See [`Rescue`].
///
/// # Safety
/// 1. The caller has pushed the job at `index`, and the frames that pushed join jobs above have been left. 2.
///    The job's frame does not use it any more.
#[cold]
#[inline(never)]
unsafe fn rescue<F: FnOnce(bool) -> R, R>(
    processor: &OwnJobs,
    job: NonNull<StackJob<SpinLatch<JobProcessor>, F, R>>,
    index: u32,
) {
    // A stack that unwinds runs nothing else. Other threads, or this thread later, run the jobs above.
    // SAFETY: (1).
    unsafe { processor.spill(index + 1) };
    // SAFETY: (1).
    let is_back = match unsafe { processor.take_back(index) } {
        Taken::Back => true,
        Taken::Stolen => {
            // SAFETY: it was stolen, so it was finished.
            let latch = unsafe { job.as_ref() }.latch();
            let is_back = || processor.take_moved(job.cast());
            // SAFETY: (1) no item is at the head or above.
            unsafe { processor.wait_unwinding(latch.core(), processor.head(), is_back) }
        }
    };
    let result = match is_back {
        true if cancel::is_over(processor) => {
            // SAFETY: (1) the reference was taken back, so the job has not run; by our (2) called once.
            return unwind::drop_quietly(unsafe { StackJob::take_closure(job) });
        }
        // SAFETY: (1) as above.
        true => unwind::catch(|| unsafe { StackJob::take_closure(job) }(false)),
        // SAFETY: (1) the wait ended because the latch is set. (2) By our (2) called once.
        false => unsafe { job.as_ref().take_result() },
    };
    match result {
        Ok(result) => unwind::drop_quietly(result),
        Err(payload) => cancel::keep_panic(processor, payload),
    }
}
