//! Ways to spawn tasks that are built on top of the runtime's `spawn`: sets of tasks, tasks that stay on one
//! thread, and tasks with a name.
//!
//! Their public places are [`task`](crate::task) and [`runtime`](crate::runtime).

mod builder;
pub mod join_set;
mod local_runtime;
mod local_set;

pub use self::builder::Builder;
pub use self::join_set::JoinSet;
pub use self::local_runtime::{LocalOptions, LocalRuntime};
pub use self::local_set::{LocalEnterGuard, LocalSet, spawn_local};
