//! `join`: two closures, perhaps at the same time.
//!
//! The second is pushed as a job in this frame, the first is run, and the second taken back and run here,
//! unless a thief has it: then this thread helps others until it is done. The frame stays until then, also if
//! the first panics: that is the duty of [`Rescue`], which runs or awaits the second while unwinding. No
//! `catch` around the first, so that it can be inlined.

use std::mem::MaybeUninit;
use std::panic::resume_unwind;
use std::ptr::NonNull;

use super::cancel;
use super::enter::{self, Outside, on_seat};
use crate::context;
use crate::job::{CoreLatch, SpinLatch, StackJob};
use crate::queue::Taken;
use crate::scheduler::Seat;
use crate::util::unwind;

/// What a closure of [`join_context`] is told.
#[derive(Debug)]
pub struct FnContext {
    is_migrated: bool,
    /// Neither `Send` nor `Sync`: it speaks of this thread.
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
/// The first runs on the calling thread. Meanwhile another thread may take the second; if none has, it runs
/// here, too. So it costs a few nanoseconds, and dividing a problem down to small parts is the way to use it.
///
/// Called on a thread that is no worker, both are run there as well, if one of the workers sleeps: the thread
/// takes part beside them, without an [index](super::current_thread_index), until the call returns.
/// Otherwise, and if the workers were given a size for their stacks or a hook that calls them in, the call is
/// sent to a worker, and the thread waits.
///
/// Whether another thread takes the second is not to be relied upon: if the first closure waits for something
/// that the second does, the two may hang.
///
/// # Panics
/// Both closures are run in any case. If one panics, that goes on here after both have ended; if both do, the
/// first's. If the computation was cancelled (see [`compute`](crate::compute())), it unwinds from here, and
/// closures that have not begun are dropped. But a second closure that runs because the first has panicked
/// runs while its thread unwinds, and a cancellation does not end it: nothing may unwind then.
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
    // By hand, so that only the usual way is inlined: a recursion then has one frame a level.
    // SAFETY: used within this call only.
    match unsafe { context::seat() } {
        Some(seat) => join_on(seat, false, a, b),
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
    // SAFETY: used within this call only.
    match unsafe { context::seat() } {
        Some(seat) => join_on(seat, false, a, b),
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
    on_seat(outside, move |seat, is_migrated| match seat {
        Some(seat) => join_on(seat, is_migrated, a, b),
        None => join_in_place(a, b),
    })
}

/// Without a seat there is no thread to share with.
#[cold]
fn join_in_place<RA, RB>(a: impl FnOnce(FnContext) -> RA, b: impl FnOnce(FnContext) -> RB) -> (RA, RB) {
    let result_a = unwind::catch(|| a(FnContext::new(false)));
    let result_b = unwind::catch(|| b(FnContext::new(false)));
    match result_a {
        Ok(result_a) => (result_a, enter::resume(result_b)),
        Err(payload) => {
            unwind::drop_quietly(result_b);
            resume_unwind(payload)
        }
    }
}

#[inline(always)]
fn join_on<A, B, RA, RB>(seat: &Seat, is_migrated: bool, a: A, b: B) -> (RA, RB)
where
    A: FnOnce(FnContext) -> RA + Send,
    B: FnOnce(FnContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    let mut place = MaybeUninit::uninit();
    let job = StackJob::begin(&mut place, move |is_stolen| b(FnContext::new(is_stolen)));
    // SAFETY: this thread is the seat's owner. The job is begun; `Rescue`, or what follows it, keeps the
    // frame until it was taken back or its latch set. Closure and result are `Send`.
    let index = match unsafe { seat.push_granted(job.cast()) } {
        Some(index) => index,
        // SAFETY: (1) as above; (2) no other thread got the reference.
        None => match unsafe { split(seat, job) } {
            Some(index) => index,
            // So deep that thieves have plenty.
            // SAFETY: no other thread got the reference.
            None => return join_in_place(a, move |_| unsafe { StackJob::take_closure(job)(is_migrated) }),
        },
    };
    let rescue = Rescue { seat, job, index };
    let result_a = a(FnContext::new(is_migrated));
    std::mem::forget(rescue);
    // SAFETY: this thread is the owner; the frames that pushed anchored pieces above have been left.
    if unsafe { seat.take_back_private(index) || take_back_public(seat, index) } {
        // SAFETY: taken back.
        return (result_a, unsafe { StackJob::take_closure(job) }(is_migrated));
    }
    // SAFETY: it was stolen, so it was finished.
    let job = unsafe { job.as_ref() };
    wait(seat, job.latch().core(), index);
    // SAFETY: the latch is set.
    (result_a, enter::resume(unsafe { job.take_result() }))
}

/// The split point, at the end of a grant: ends the computation if it was cancelled, and drops the closure
/// then; else pushes.
///
/// # Safety
/// 1. As [`Seat::push_slowly`]. 2. No other thread has the job.
#[cold]
#[inline(never)]
unsafe fn split<F: FnOnce(bool) -> R, R>(
    seat: &Seat,
    job: NonNull<StackJob<SpinLatch<Seat>, F, R>>,
) -> Option<u32> {
    if cancel::ends_here(seat) {
        // SAFETY: (2).
        let _closure = unsafe { StackJob::take_closure(job) };
        cancel::unwind_quietly();
    }
    // SAFETY: (1).
    unsafe { seat.push_slowly(job.cast()) }
}

/// The second's place, at `index`, is or was public. Runs what the first closure has left above it, jobs of
/// scopes around the call; then returns whether it is back, or stolen.
///
/// # Safety
/// 1. As [`Seat::take_back_private`].
#[cold]
#[inline(never)]
unsafe fn take_back_public(seat: &Seat, index: u32) -> bool {
    if seat.head() != index + 1 {
        seat.run_loose(index + 1);
    }
    // SAFETY: (1), and what was above has been taken out.
    unsafe { seat.take_back(index) == Taken::Back }
}

/// [`Seat::wait`], kept out of line.
#[cold]
#[inline(never)]
fn wait(seat: &Seat, latch: &CoreLatch, floor: u32) {
    seat.wait(latch, floor);
}

/// While the first closure unwinds: sees to the second, which is pushed at `index`. In a computation that was
/// cancelled it is dropped if it has not begun.
struct Rescue<'a, F: FnOnce(bool) -> R, R> {
    seat: &'a Seat,
    job: NonNull<StackJob<SpinLatch<Seat>, F, R>>,
    index: u32,
}

impl<F: FnOnce(bool) -> R, R> Drop for Rescue<'_, F, R> {
    // Inlined, so that the three need not lie in memory for it.
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the frame of the join is being left, by unwinding.
        unsafe { rescue(self.seat, self.job, self.index) }
    }
}

/// See [`Rescue`].
///
/// # Safety
/// 1. The calling thread is the seat's owner, and has pushed the job at `index`; the frames that pushed
///    anchored pieces above have been left. 2. The job's frame does not use it any more.
#[cold]
#[inline(never)]
unsafe fn rescue<F: FnOnce(bool) -> R, R>(
    seat: &Seat,
    job: NonNull<StackJob<SpinLatch<Seat>, F, R>>,
    index: u32,
) {
    // Nothing else is run on a stack that unwinds; others, or this thread later, get what lies above.
    // SAFETY: (1).
    unsafe { seat.spill(index + 1) };
    // SAFETY: (1).
    let is_back = match unsafe { seat.take_back(index) } {
        Taken::Back => true,
        Taken::Stolen => {
            // SAFETY: it was stolen, so it was finished.
            let latch = unsafe { job.as_ref() }.latch();
            seat.wait_unwinding(latch.core(), seat.head(), || seat.take_moved(job.cast()))
        }
    };
    let result = match is_back {
        // SAFETY: taken back; (2).
        true if cancel::is_over(seat) => return unwind::drop_quietly(unsafe { StackJob::take_closure(job) }),
        // SAFETY: as above.
        true => unwind::catch(|| unsafe { StackJob::take_closure(job) }(false)),
        // SAFETY: the latch is set.
        false => unsafe { job.as_ref().take_result() },
    };
    match result {
        Ok(result) => unwind::drop_quietly(result),
        Err(payload) => cancel::keep_panic(seat, payload),
    }
}
