//! What a macro asks before it polls its branches: which one is first, and whether the task may go on.

use std::task::{Context, Poll, ready};

use crate::coop;

/// Returns `Pending`, and has the task polled again, if its budget is used up. It takes nothing from the
/// budget.
///
/// Each poll of a `select!` calls this first, before it polls any branch. With no budget left, this crate's
/// futures only return `Pending`, and a branch that knows no budget would win every round.
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
