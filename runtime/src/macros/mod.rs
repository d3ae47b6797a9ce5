//! The macros that wait for several futures in one task: [`join!`](crate::join),
//! [`try_join!`](crate::try_join), [`select!`](crate::select); and [`pin!`](crate::pin), which they and their
//! users need.
//!
//! They are plain `macro_rules!` that expand to safe code, and follow one pattern:
//!
//! 1. The public macro only takes the mode (`biased;` or not) and hands over to a hidden twin (`__select!`,
//!    `__join!`).
//! 2. The twin reads one branch at a time and normalises it. Each step names its branch `future`: as every
//!    step is an expansion of its own, hygiene makes these names differ. That is what stands for "the future
//!    of branch *n*", without tuples to project through and without counting. A step costs one level of
//!    recursion, so the compiler's default limit of 128 is far away.
//! 3. The last step emits the code: all futures are pinned to the stack, and one
//!    [`poll_fn`](std::future::poll_fn) polls them.
//!
//! What the expansions call is in [`maybe_done`] and at the end of this file, and reaches them through
//! `$crate::__private`. They name nothing else but this crate and `core`, so they work under whatever name a
//! program imports the crate. Items, unlike local variables, have no hygiene: an item in an expansion bears a
//! name that no user's code would use.
//!
//! The attribute macros `main` and `test` are in the crate `runtime-macros`.

mod join;
pub(crate) mod maybe_done;
mod pin;
mod select;

use std::task::{Context, Poll, ready};

use crate::coop;

/// Answers `Pending`, and has the task polled again, if its budget is used up; takes nothing from it.
///
/// `select!` asks before it polls a branch: with no budget left this crate's futures only answer `Pending`,
/// and a branch that knows no budget would win every round.
#[inline]
pub fn poll_budget(cx: &mut Context<'_>) -> Poll<()> {
    // Dropped without progress, it gives back what it took.
    drop(ready!(coop::poll_proceed(cx)));
    Poll::Ready(())
}

/// The branch that a `biased` macro polls first; the counterpart of
/// [`thread_below`](crate::util::rand::thread_below).
#[inline]
pub fn always_first(_branches: u32) -> u32 {
    0
}
