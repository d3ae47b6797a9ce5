//! The macros that wait for several futures in one task: [`join!`](crate::join),
//! [`try_join!`](crate::try_join) and [`select!`](crate::select). And [`pin!`](crate::pin), which these
//! macros and their users need.
//!
//! They are plain `macro_rules!` that expand to safe code, and follow one pattern:
//!
//! 1. The public macro only takes the mode (`biased;` or not) and calls a hidden twin (`__select!`,
//!    `__join!`). 2. The twin reads one branch at a time and normalises it. Each step names its branch
//!    `future`. Every step is an expansion of its own, so hygiene makes these names differ. So the names
//!    stand for "the future of branch *n*", without tuples to project through and without counting. A step
//!    costs one level of recursion, so the compiler's default limit of 128 is far away. 3. The last step
//!    emits the code: all futures are pinned to the stack, and one [`poll_fn`](std::future::poll_fn) polls
//!    them.
//!
//! The functions that the expansions call are in [`maybe_done`] and at the end of this file. The expansions
//! reach them through `$crate::__private`. They name nothing else but this crate and `core`, so they work
//! under whatever name a program imports the crate. Items, unlike local variables, have no hygiene. So an
//! item in an expansion has a name that no user's code would use.
//!
//! The attribute macros `main` and `test` are in the crate `runtime-macros`.

mod join;
pub(crate) mod maybe_done;
mod pin;
mod select;

use std::task::{Context, Poll, ready};

use crate::coop;

/// Returns `Pending`, and has the task polled again, if its budget is used up. It takes nothing from the
/// budget.
///
/// `select!` calls this before it polls a branch. With no budget left, this crate's futures only return
/// `Pending`, and a branch that knows no budget would win every round.
#[inline]
pub fn poll_budget(cx: &mut Context<'_>) -> Poll<()> {
    // The guard is dropped without progress, so it gives back what it took.
    drop(ready!(coop::poll_proceed(cx)));
    Poll::Ready(())
}

/// The branch that a `biased` macro polls first; the counterpart of
/// [`thread_below`](crate::util::rand::thread_below).
#[inline]
pub fn always_first(_branches: u32) -> u32 {
    0
}
