//! Channels and locks for tasks: waiting for them does not block a thread.
//!
//! - [`oneshot`]: one value from one task to another.
//! - [`mpsc`]: many values from many tasks to one.
//! - [`Notify`]: something happened.
//! - [`Semaphore`]: at most so many at a time.
//! - [`Mutex`]: one at a time, with data, held across an `.await`.
//!
//! None of them needs a runtime: they work in any task of any executor, and, through their `blocking_` methods, on
//! plain threads. Every future takes part in the [budget](crate::task::coop).
//!
//! # In which order to read
//! ```text
//! oneshot.rs          alone: one cell, one word
//! wait_list.rs        a fair line of futures; who may touch a waiter, how it is released
//! ├── notify.rs       … which one event or a broadcast releases
//! └── permits.rs      … which stand in line for permits
//!     ├── semaphore.rs                the public face
//!     ├── mutex.rs, mutex_owned.rs    one permit and the data it guards
//!     └── mpsc/                       a permit for each value in a bounded channel
//! ```
//! Wakers are foreign code: they are cloned, woken and dropped while no lock is held. One that panics keeps nobody
//! else asleep; the panic comes out of the call that woke it.
//!
//! Blocking calls are allowed everywhere but directly inside a task, where they would hold its worker.

mod mutex;
mod mutex_owned;
mod notify;
mod permits;
mod semaphore;
mod wait_list;

pub mod mpsc;
pub mod oneshot;

pub use self::mutex::{MappedMutexGuard, Mutex, MutexGuard, TryLockError};
pub use self::mutex_owned::{OwnedMappedMutexGuard, OwnedMutexGuard};
pub use self::notify::Notify;
pub use self::semaphore::{AcquireError, OwnedSemaphorePermit, Semaphore, SemaphorePermit, TryAcquireError};

/// Futures that have a name because they have methods.
pub mod futures {
    pub use super::notify::{Notified, OwnedNotified};
}
