//! Ways to spawn tasks that stand above the runtime: sets of tasks, tasks that stay on a thread, names.
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
