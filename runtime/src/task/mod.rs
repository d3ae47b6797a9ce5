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
// - `raw.rs`: type erasure; `harness.rs`: poll, complete, cancel; `waker.rs`, `join.rs`: the handles that
//   other code holds.
// - `stock.rs`: reserved references for the task's own polls.
// - `owned.rs`: all tasks that wait, for shutdown.
// - `join_set/entries.rs`: how a set learns which of its tasks have ended.
// - `local_set/shared.rs`: the scheduler of tasks that stay on one thread.
//
// Kinds of reference: the life's (until `DONE`), the handle's, one for each waker and abort handle, and the
// reserved references (until `DONE`). Which thread may touch which field:
//
// | field        | while not `DONE`                                   | once `DONE`                    |
// | stage        | the owner of `SCHEDULED`                           | the handle, if there is one    |
// | join waker   | the handle while `JOIN_WAKER` is unset, else none   | the completer if it was set   |
// | queue link   | the owner of `SCHEDULED`                           | no thread                      |
// | owned place  | the owner of `SCHEDULED`                           | left before                    |
// | stock        | the owner of `SCHEDULED`                           | given up                       |

mod builder;
pub(crate) mod cell;
mod harness;
mod id;
mod join;
pub mod join_set;
pub mod local;
mod local_set;
pub(crate) mod owned;
pub(crate) mod raw;
pub(crate) mod state;
mod stock;
mod waker;
mod yield_now;

use std::alloc::Layout;
use std::future::Future;
use std::panic::Location;
use std::ptr::NonNull;

pub use self::builder::Builder;
pub use self::id::{Id, id, try_id};
pub use self::join::{AbortHandle, JoinError, JoinHandle};
pub use self::join_set::JoinSet;
pub use self::local::{AccessError, LocalKey};
pub use self::local_set::{LocalEnterGuard, LocalSet, spawn_local};
pub use self::yield_now::yield_now;
pub use crate::spawn::{block_in_place, spawn, spawn_blocking};

pub(crate) use self::cell::Header;
pub(crate) use self::id::with_id;
pub(crate) use self::join::Failure;
pub(crate) use self::local_set::StandIn;
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

/// Makes a task of `future`. The caller queues it. The scheduler counts the cell.
///
/// # Safety
/// 1. `future` and its output may be used by the threads that run and join the task. 2. `scheduler` stays
///    valid until `S::free`.
pub(crate) unsafe fn new<F: Future + 'static, S: Schedule>(
    future: F,
    scheduler: NonNull<S>,
    spawned_at: &'static Location<'static>,
) -> (Runnable, JoinHandle<F::Output>) {
    let vtable = raw::Vtable::of::<F, S>();
    // SAFETY: (1), (2); the vtable is that of `F` and `S`.
    let header = unsafe { cell::TaskCell::allocate(future, scheduler, id::next(), spawned_at, vtable) };
    // SAFETY: a new cell is `SCHEDULED` and ours; one of its two references is the handle's.
    unsafe { (Runnable::from_raw(header), JoinHandle::from_raw(header)) }
}

/// The layout of a task with a future of type `F`.
#[inline(always)]
pub(crate) fn layout_of<F: Future>() -> Layout {
    Layout::new::<cell::TaskCell<F>>()
}

/// As [`new`], in memory that the caller provides.
///
/// # Safety
/// As [`new`]; 3. `memory` is what `S::allocate` would return for [`layout_of`] the future, and the caller
/// gives it up.
#[inline]
pub(crate) unsafe fn new_in<F: Future + 'static, S: Schedule>(
    memory: NonNull<u8>,
    future: F,
    scheduler: NonNull<S>,
    spawned_at: &'static Location<'static>,
) -> (Runnable, JoinHandle<F::Output>) {
    let vtable = raw::Vtable::of::<F, S>();
    // SAFETY: (1), (2), (3); the vtable is that of `F` and `S`. Then as in `new`.
    unsafe {
        let header = cell::TaskCell::place(memory, future, scheduler, id::next(), spawned_at, vtable);
        (Runnable::from_raw(header), JoinHandle::from_raw(header))
    }
}
