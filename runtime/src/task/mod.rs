//! Tasks: spawned futures, and the handles and tools for them.
//!
//! - [`spawn`] starts a future as a task. Its [`JoinHandle`] waits for the output, and its [`AbortHandle`]
//!   cancels the task.
//! - [`spawn_blocking`] runs a closure that may block on a thread of its own. [`block_in_place`] runs such a
//!   closure where the task is, while other threads take over the worker's other tasks.
//! - [`JoinSet`] awaits many tasks, in the order in which they end. [`LocalSet`] and [`spawn_local`] are for
//!   futures that are not `Send`.
//! - [`yield_now`] and [`coop`] let other tasks run. [`task_local!`](crate::task_local) declares values that
//!   belong to a task.
//
// How a task works, for readers of the code. Begin with `state.rs`.
//
// - `cell.rs`: one allocation: header (72 bytes: links and wakers, then state, vtable, scheduler, id), future
//   or output.
// - `state.rs`: the state word. `SCHEDULED` is the right to poll. Queues hold that right and no reference.
// - `raw.rs`: the interface to the scheduler; `vtable.rs`: type erasure; `harness.rs`: poll, complete,
//   cancel.
// - `waker.rs`, `join.rs`: the handles that other code holds; `failure.rs`: why there is no output.
// - `id.rs`, `current.rs`: ids, and which task a thread runs.
// - `reserved.rs`: reserved references for the task's own polls.
// - `owned.rs`: all tasks that wait, for shutdown.
// - `queued.rs`: queues of tasks.
// - `new.rs`: makes a task.
//
// What spawns tasks is elsewhere: `runtime/spawn.rs`, and the sets in `sets/`.
//
// Kinds of reference: the life's (until `DONE`), the handle's, one for each waker and abort handle, and the
// reserved references (until `DONE`). Which thread may touch which field:
//
// | field        | while not `DONE`                                   | once `DONE`                    |
// | stage        | the owner of `SCHEDULED`                           | the handle, if there is one    |
// | join waker   | the handle while `JOIN_WAKER` is unset, else none   | the completer if it was set   |
// | queue link   | the owner of `SCHEDULED`                           | no thread                      |
// | owned place  | the owner of `SCHEDULED`                           | left before                    |
// | reserved     | the owner of `SCHEDULED`                           | given up                       |

pub(crate) mod cell;
mod current;
mod failure;
mod harness;
mod id;
mod join;
pub mod local;
mod new;
pub(crate) mod owned;
mod queued;
pub(crate) mod raw;
pub(crate) mod reserved;
pub(crate) mod state;
mod vtable;
mod waker;
mod yield_now;

pub use self::current::{id, try_id};
pub use self::id::Id;
pub use self::join::{AbortHandle, JoinError, JoinHandle};
pub use self::local::{AccessError, LocalKey};
pub use self::yield_now::yield_now;
pub use crate::runtime::spawn::{block_in_place, spawn, spawn_blocking};
pub use crate::sets::{Builder, JoinSet, LocalEnterGuard, LocalSet, join_set, spawn_local};

pub(crate) use self::cell::Header;
pub(crate) use self::current::with_id;
pub(crate) use self::failure::Failure;
pub(crate) use self::new::{layout_of, new, new_in};
pub(crate) use self::owned::Owned;
pub(crate) use self::raw::{Runnable, Schedule};
pub(crate) use self::waker::introduce as introduce_wakers;

/// Cooperative scheduling: a budget limits the operations of one poll, so that a task that is always ready
/// does not starve other tasks.
pub mod coop {
    pub use crate::coop::{
        Coop, RestoreOnPending, Unconstrained, consume_budget, cooperative, has_budget_remaining,
        poll_proceed, unconstrained,
    };
}

/// Futures whose types a program may have to name.
pub mod futures {
    pub use super::local::TaskLocalFuture;
}

// Tokio had these here before it had `coop`, and some programs still use these paths.
#[doc(hidden)]
#[deprecated = "use `task::coop::Unconstrained`"]
pub use crate::coop::Unconstrained;
#[doc(hidden)]
#[deprecated = "use `task::coop::consume_budget`"]
pub use crate::coop::consume_budget;
#[doc(hidden)]
#[deprecated = "use `task::coop::unconstrained`"]
pub use crate::coop::unconstrained;
