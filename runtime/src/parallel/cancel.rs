//! How a computation that was cancelled ends: at its split points, as by a panic.
//!
//! A *split point* is a call of `join` or `scope` (what else it is for: `scheduler/split.rs`). If the
//! computation around it has been cancelled, it does not go on but unwinds with [`Cancelled`], which no panic
//! hook sees, up to the root of the computation. On the way every frame does what it does in a panic: it
//! waits for its pieces, which end at their own next split points. Where unwinding would harm, nothing
//! happens, and `is_cancelled` is there to ask: on a stack that unwinds already, in an isolated region (whose
//! locks would be poisoned), and in a program that aborts on panics.
//!
//! Code that catches the payload and goes on meets it again at its next split point.
//!
//! # Asked without asking
//! To ask costs a `join` a third of its instructions. So it does not ask while it is *granted*
//! (`scheduler/seat.rs`), and the thread that cancels ends the grants.
//! ```text
//! The canceller                                  Seat
//! K1 mark: `CANCELLED`, or the pool's shutdown   A1 a push finds left = 0: marked? Then unwind
//! K2 fence                                       A2 left = what is granted; a change of region makes it 0
//! K3 left > 0 at a seat? left = 0                A3 fence
//!                                                A4 marked? Then left = 0
//! ```
//! If K2 comes before A3, then A4 sees the mark; else K3 sees what A2 wrote, or what was counted down since.
//! And then the next push asks, unless K3 fell between the load and the store of a push that counts down:
//! that one goes on for the rest of its grant. A grant is no longer than a stride of `scheduler/split.rs`, so
//! it ends after some 25 µs, and if splits become slow all of a sudden, after 1024 of them. (In a
//! `ThreadPool` there are no strides: after 1024 of them, and where there are several threads, after 64.)
//!
//! The thread that cancels knows the seats of the pool in which the computation began, and of no other: in a
//! pool that it has gone into (`install`), grants are short instead.

use std::panic::resume_unwind;

use crate::context;
use crate::job::region::Cancelled;
use crate::job::{Region, Tag};
use crate::scheduler::Seat;
use crate::util::unwind::{self, Payload};

/// Ends the computation in which `seat`'s owner works, by unwinding, if it has been cancelled and may end
/// here.
#[inline(always)]
pub fn split_point(seat: &Seat) {
    seat.pass_split();
    if ends_here(seat) {
        unwind_quietly();
    }
}

/// Whether the computation in which `seat`'s owner works is to be ended here, by unwinding.
#[inline(always)]
pub fn ends_here(seat: &Seat) -> bool {
    seat.is_to_end() && !std::thread::panicking()
}

/// Whether the owner of `seat`, whose stack unwinds, is not to begin the parts of its computation that it
/// would have to run before it goes on: in there, split points would not end them.
pub fn is_over(seat: &Seat) -> bool {
    seat.is_to_end()
}

#[cold]
pub fn unwind_quietly() -> ! {
    resume_unwind(Box::new(Cancelled));
}

/// A panic that has no way out, because its stack unwinds already: it is the computation's if that ends by a
/// cancellation, and else forgotten. For the owner of `seat`.
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

/// Returns whether the computation in which it is called has been cancelled: for loops that are long between
/// two splits.
///
/// False outside of a computation that can be cancelled: see [`compute`](crate::compute()). Detached jobs are
/// outside. It also tells where a cancellation does not act by itself: in [`isolated`](super::isolated())
/// parts, in destructors while unwinding, and in programs built with `panic = "abort"`.
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

/// The region in which the calling thread, whose seat this is, works, and its tag.
pub fn current_region(seat: Option<&Seat>) -> (*const Region, Tag) {
    seat.map_or_else(context::region, |seat| (seat.region(), seat.tag()))
}
