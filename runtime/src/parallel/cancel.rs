//! How a cancelled computation ends: at its split points, as by a panic.
//!
//! A *split point* is a call of `join` or `scope` (`scheduler/jobs/split.rs` lists its other uses).
//! If the computation around it has been cancelled, the split point unwinds with [`Cancelled`], which no
//! panic hook sees, up to the first frame of the computation. On the way every frame does what it does in a
//! panic: it waits for its child jobs, which end at their own next split points. Where unwinding would harm,
//! nothing happens, and `is_cancelled` is there to ask. This is so on a stack that unwinds already, in an
//! isolated region (whose locks would be poisoned), and in a program that aborts on panics.
//!
//! If code catches the payload and goes on, its next split point unwinds again.
//!
//! # How a split point saves the test
//! The test costs a `join` a third of its instructions. So a `join` does not test within a *publish budget*
//! (`scheduler/jobs/publish.rs`), and the thread that cancels the computation ends the publish budgets.
//! ```text
//! The canceller
//! MarkCancelled  mark: `CANCELLED`, or the pool's shutdown
//! CancelFence    fence
//! EndBudgets     left > 0 at a job processor? left = 0
//!
//! The owner of a job processor
//! PushAsks       a push finds left = 0: marked? Then unwind
//! SetBudget      left = the publish budget; a change of region makes it 0
//! BudgetFence    fence
//! AskAgain       marked? Then left = 0
//! ```
//! If `CancelFence` comes before `BudgetFence`, `AskAgain` sees the mark. Otherwise `EndBudgets` sees the
//! value that `SetBudget` wrote, or a value counted down since. Then the next push tests, with one exception:
//! if `EndBudgets` falls between the load and the store of a push that counts down, that push overwrites
//! `EndBudgets`, and the rest of the publish budget goes on. A publish budget is no longer than a poll
//! interval of `scheduler/jobs/split.rs`. So it ends after some 25 µs, or after 1024 splits if they suddenly
//! become slow. (A `ThreadPool` has no poll intervals. There a publish budget ends after 1024 splits, or
//! after 64 if there are several threads.)
//!
//! The thread that cancels knows only the job processors of the pool in which the computation began. In a
//! pool that the computation has entered by `install`, publish budgets are short instead.

use std::panic::resume_unwind;

use crate::job::{Region, Tag};
use crate::scheduler::OwnJobs;
use crate::scheduler::context;
use crate::util::unwind::Cancelled;
use crate::util::unwind::{self, Payload};

/// If the computation of `processor`'s owner has been cancelled, and may end here, ends it by unwinding.
#[inline(always)]
pub fn split_point(processor: &OwnJobs) {
    processor.pass_split(false);
    if ends_here(processor) {
        unwind_quietly();
    }
}

/// Whether the computation of `processor`'s owner should end here, by unwinding.
#[inline(always)]
pub fn ends_here(processor: &OwnJobs) -> bool {
    processor.is_to_end() && !std::thread::panicking()
}

/// Whether the owner of `processor`, whose stack unwinds, should drop the parts of its computation that it
/// would otherwise run first. Split points in these parts would not end them.
pub fn is_over(processor: &OwnJobs) -> bool {
    processor.is_to_end()
}

#[cold]
pub fn unwind_quietly() -> ! {
    resume_unwind(Box::new(Cancelled));
}

/// The one of two panics that goes on: the first, unless that is the end of a cancelled computation. The other
/// one is dropped.
#[cold]
pub fn first_panic(first: Payload, second: Payload) -> Payload {
    let (first, second) = if first.is::<Cancelled>() { (second, first) } else { (first, second) };
    unwind::drop_quietly(second);
    first
}

/// A panic that cannot go on, because its stack unwinds already. If a cancellation ends the computation, the
/// computation keeps the panic. Otherwise the panic is dropped.
#[cold]
pub fn keep_panic(processor: &OwnJobs, payload: Payload) {
    // SAFETY: the job processor's region is live.
    let region = unsafe { processor.region().as_ref() }.filter(|region| region.is_cancelled());
    let left = match region {
        Some(region) if !payload.is::<Cancelled>() => region.keep_panic(payload),
        _ => Some(payload),
    };
    unwind::drop_quietly(left);
}

/// Returns whether the computation around the call has been cancelled: for loops that are long between two
/// splits.
///
/// False outside of a computation that can be cancelled: see [`compute`](crate::compute()). A detached job is
/// outside. It also returns true where a cancellation does not act by itself: in
/// [`isolated`](super::isolated()) parts, in destructors while unwinding, and in programs built with `panic =
/// "abort"`.
///
/// # Examples
/// ```
/// # runtime::Runtime::new().unwrap().block_on(async {
/// use runtime::parallel::is_cancelled;
///
/// let search = runtime::compute(|| (1_u64..).find(|n| n % 99_991 == 77 || is_cancelled()));
/// assert_eq!(search.await.unwrap(), Some(77));
/// # });
/// ```
pub fn is_cancelled() -> bool {
    // SAFETY: the job processor is used in this call only; the region in which the calling thread works is
    // live.
    unsafe { current_region(context::job_processor()).0.as_ref() }.is_some_and(Region::is_cancelled)
}

/// The region in which the calling thread, which holds `processor`, works, and its tag.
pub fn current_region(processor: Option<&OwnJobs>) -> (*const Region, Tag) {
    processor.map_or_else(context::region, |processor| (processor.region(), processor.tag()))
}
