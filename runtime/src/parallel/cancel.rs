//! How a cancelled computation ends: at its split points, as by a panic.
//!
//! A *split point* is a call of `join` or `scope` (`scheduler/computations/split.rs` lists its other uses).
//! If the computation around it has been cancelled, the split point unwinds with [`Cancelled`], which no
//! panic hook sees, up to the first frame of the computation. On the way every frame does what it does in a
//! panic: it waits for its child jobs, which end at their own next split points. Where unwinding would harm,
//! nothing happens, and `is_cancelled` is there to ask. This is so on a stack that unwinds already, in an
//! isolated region (whose locks would be poisoned), and in a program that aborts on panics.
//!
//! If code catches the payload and goes on, its next split point unwinds again.
//!
//! # How a split point saves the test
//! The test costs a `join` a third of its instructions. So a `join` does not test while it is *granted*
//! (`scheduler/computations/seat.rs`), and the thread that cancels the computation ends the grants.
//! ```text
//! The canceller                                  Seat
//! K1 mark: `CANCELLED`, or the pool's shutdown   A1 a push finds left = 0: marked? Then unwind
//! K2 fence                                       A2 left = what is granted; a change of region makes it 0
//! K3 left > 0 at a seat? left = 0                A3 fence
//!                                                A4 marked? Then left = 0
//! ```
//! If K2 comes before A3, A4 sees the mark. Otherwise K3 sees the value that A2 wrote, or a value counted
//! down since. Then the next push tests, with one exception: if K3 falls between the load and the store of a
//! push that counts down, that push overwrites K3, and the rest of the grant goes on. A grant is no longer
//! than a stride of `scheduler/computations/split.rs`. So it ends after some 25 µs, or after 1024 splits if
//! they suddenly become slow. (A `ThreadPool` has no strides. There a grant ends after 1024 splits, or after
//! 64 if there are several threads.)
//!
//! The thread that cancels knows only the seats of the pool in which the computation began. In a pool that
//! the computation has entered by `install`, grants are short instead.

use std::panic::resume_unwind;

use crate::job::{Region, Tag};
use crate::scheduler::Seat;
use crate::scheduler::context;
use crate::util::unwind::Cancelled;
use crate::util::unwind::{self, Payload};

/// If the computation of `seat`'s owner has been cancelled, and may end here, ends it by unwinding.
#[inline(always)]
pub fn split_point(seat: &Seat) {
    seat.pass_split();
    if ends_here(seat) {
        unwind_quietly();
    }
}

/// Whether the computation of `seat`'s owner should end here, by unwinding.
#[inline(always)]
pub fn ends_here(seat: &Seat) -> bool {
    seat.is_to_end() && !std::thread::panicking()
}

/// Whether the owner of `seat`, whose stack unwinds, should drop the parts of its computation that it would
/// otherwise run first. Split points in these parts would not end them.
pub fn is_over(seat: &Seat) -> bool {
    seat.is_to_end()
}

#[cold]
pub fn unwind_quietly() -> ! {
    resume_unwind(Box::new(Cancelled));
}

/// A panic that cannot go on, because its stack unwinds already. If a cancellation ends the computation, the
/// computation keeps the panic. Otherwise the panic is dropped. For the owner of `seat`.
#[cold]
pub fn keep_panic(seat: &Seat, payload: Payload) {
    // SAFETY: the seat's region is live.
    let region = unsafe { seat.region().as_ref() }.filter(|region| region.is_cancelled());
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
/// let search = runtime::compute(|| (1_u64..).find(|n| n % 99_991 == 77 || runtime::parallel::is_cancelled()));
/// assert_eq!(search.await.unwrap(), Some(77));
/// # });
/// ```
pub fn is_cancelled() -> bool {
    // SAFETY: the seat is used in this call only; the region in which the calling thread works is live.
    unsafe { current_region(context::seat()).0.as_ref() }.is_some_and(Region::is_cancelled)
}

/// The region in which the calling thread, which holds `seat`, works, and its tag.
pub fn current_region(seat: Option<&Seat>) -> (*const Region, Tag) {
    seat.map_or_else(context::region, |seat| (seat.region(), seat.tag()))
}
