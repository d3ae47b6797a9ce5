//! The macros that wait for several futures in one task: [`join!`](crate::join),
//! [`try_join!`](crate::try_join) and [`select!`](crate::select). And [`pin!`](crate::pin), which these
//! macros and their users need.
//!
//! They are plain `macro_rules!` that expand to safe code, and follow one pattern:
//!
//! 1. The public macro only takes the mode (`biased;` or not) and calls a hidden macro (`__select!`,
//!    `__join!`).
//! 2. The hidden macro reads one branch at a time and normalises it. Each step names its branch `future`.
//!    Every step is an expansion of its own, so hygiene makes these names differ. So the names stand for "the
//!    future of branch *n*", without tuples to project through and without counting. A step costs one level
//!    of recursion, so the compiler's default limit of 128 is far away.
//! 3. The last step emits the code: all futures are pinned to the stack, and one
//!    [`poll_fn`](std::future::poll_fn) polls them.
//!
//! The functions that the expansions call are in [`maybe_done`] and [`turns`]. The expansions
//! reach them through `$crate::__private`. They name nothing else but this crate and `core`, so they work
//! under whatever name a program imports the crate. Items, unlike local variables, have no hygiene. So an
//! item in an expansion has a name that no user's code would use.
//!
//! The attribute macros `main` and `test` are in the crate `runtime-macros`.

mod join;
pub(crate) mod maybe_done;
mod pin;
mod select;
mod turns;

pub use turns::{always_first, poll_budget};
