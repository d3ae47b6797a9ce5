//! Fork-join: computations split into pieces that run in parallel, on the workers that run the tasks.
//!
//! - [`join`] runs two closures, perhaps at the same time; [`scope`] any number, which may borrow from around
//!   it.
//! - [`compute`](crate::compute()) is for tasks: they wait for a computation as for any future, and dropping
//!   it cancels it.
//! - [`spawn`] starts a job that no caller waits for, [`broadcast`] runs one on every thread.
//! - [`isolated`] keeps unrelated work off a computation's stacks. [`mark_blocked`] and [`blocking`] say that
//!   a job blocks.
//! - [`ThreadPool`] is a separate pool, without tasks.
//!
//! The names, and their behaviour, are those of `rayon-core` 1.13. The book lists the intended differences,
//! in `docs/src/rayon.md`.
//!
//! # Where it runs
//! - On a worker of a multi-thread [`Runtime`](crate::Runtime), in that runtime.
//! - On a thread that has entered such a runtime, or that blocks in one, in that runtime, too.
//! - On a thread of a [`ThreadPool`], in that pool.
//! - Everywhere else, in a process-wide pool.
//!
//! A `current_thread` runtime has no workers. So a call in one of its tasks runs where a call of the thread
//! that drives the runtime would run. If that thread belongs to a worker or a `ThreadPool`, this is its pool;
//! otherwise it is the process-wide pool.
//!
//! If a non-worker thread calls while a worker sleeps, it runs the call itself, and shares parts of it.
//! Otherwise it waits for a worker.
//!
//! # Examples
//! ```
//! fn sum(numbers: &[u64]) -> u64 {
//!     if numbers.len() < 1000 {
//!         return numbers.iter().sum();
//!     }
//!     let (left, right) = numbers.split_at(numbers.len() / 2);
//!     let (left, right) = runtime::parallel::join(|| sum(left), || sum(right));
//!     left + right
//! }
//! assert_eq!(sum(&(0..100_000).collect::<Vec<_>>()), 4_999_950_000);
//! ```
//
// How it works, for readers of the code: `enter.rs` (which call from where), `join.rs`, then
// `queue/deque.rs`, `job/`, and `scheduler/jobs/mod.rs`, `scheduler/jobs/wait.rs`,
// `scheduler/jobs/injected.rs`.

mod blocked;
mod broadcast;
mod builder;
mod cancel;
mod compute;
mod configuration;
mod enter;
mod error;
mod global;
mod isolated;
mod join;
mod pool;
mod pool_calls;
mod scope;
mod spawn;
mod thread;
mod yields;

pub use crate::config::{Blocked, Deadlock};
pub use blocked::{Mark, blocking, mark_blocked, mark_unblocked};
pub use broadcast::{BroadcastContext, broadcast, spawn_broadcast};
pub use builder::ThreadPoolBuilder;
pub use cancel::is_cancelled;
pub use compute::{Compute, compute};
#[allow(deprecated)]
pub use configuration::{Configuration, initialize};
pub use error::ThreadPoolBuildError;
pub use isolated::isolated;
pub use join::{FnContext, join, join_context};
pub use pool::ThreadPool;
pub use scope::{Scope, ScopeFifo, in_place_scope, in_place_scope_fifo, scope, scope_fifo};
pub use spawn::{spawn, spawn_fifo};
pub use thread::ThreadBuilder;

/// For `compat/rayon-core`: what Rayon promises to run on a thread of the pool.
#[doc(hidden)]
pub mod sent {
    pub use super::join::join_context_sent as join_context;
    pub use super::scope::{scope_fifo_sent as scope_fifo, scope_sent as scope};
}

pub use yields::{
    Yield, current_num_threads, current_thread_has_pending_tasks, current_thread_index, max_num_threads,
    yield_local, yield_now,
};
