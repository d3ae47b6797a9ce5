//! The blocking pool: threads for closures that wait for events that no driver can watch.
//!
//! Closures begin in order of arrival, on as many threads as they need, up to the bound. A thread comes when
//! a closure waits, and leaves when it has been idle for the keep-alive time. [`queue`] says which thread
//! fetches the next thread, and why no closure is forgotten. Each thread holds a handle, so the pool's memory
//! outlives its threads.
//!
//! Closures are tasks that never wait, with the same cell and the same handle. They are in no table of
//! `Owned`. Shutdown drops the closures in the queue for which no thread is on its way. All other closures,
//! and those that have begun, run to their end.

mod pool;
pub mod queue;
mod threads;

pub use pool::Pool;
pub use threads::{cancel, close, spawn_on, spawn_on_present};
