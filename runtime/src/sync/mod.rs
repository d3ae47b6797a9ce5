//! Channels and locks for tasks. Waiting for them does not block a thread.
//!
//! - [`oneshot`]: one value from one task to another.
//! - [`mpsc`]: many values from many tasks to one.
//! - [`broadcast`]: many values from many tasks, each to all of many others.
//! - [`watch`]: the last of many values, for many tasks to look at.
//! - [`Notify`]: the news that something happened.
//! - [`Semaphore`]: at most a given number of tasks at a time.
//! - [`Mutex`]: one task at a time, with data, held across an `.await`.
//! - [`RwLock`]: many readers or one writer, with data, held across an `.await`.
//! - [`OnceCell`]: a value that the first task to ask makes.
//! - [`SetOnce`]: a value for which many tasks wait.
//! - [`Barrier`]: many tasks that go on together.
//!
//! None of them needs a runtime, except a [`send_timeout`](mpsc::Sender::send_timeout) that has to wait. They
//! work in any task of any executor, and their `blocking_` methods work on plain threads. Every future takes
//! part in the [budget](crate::task::coop).
//!
//! # Where to begin reading
//! ```text
//! oneshot.rs          alone: one cell, one word
//! wait_list.rs        a fair list of futures; which thread may touch a waiter, how it is released
//! ├── notify.rs       … which one event or a broadcast releases
//! ├── broadcast/, watch/    … which the next value releases
//! ├── barrier.rs      … which the last to come releases
//! └── permits.rs      … which wait for permits
//!     ├── semaphore.rs, semaphore_owned.rs    the public face
//!     ├── mutex.rs, mutex_owned.rs    one permit and the data it guards
//!     ├── once.rs, once_cell.rs, set_once.rs    a value that is there when they are closed
//!     ├── rwlock/                     as many permits as there may be readers, and the data they guard
//!     └── mpsc/                       a permit for each value in a bounded channel
//! ```
//! Wakers are foreign code. They are cloned, woken and dropped while no lock is held. A waker that panics
//! keeps no other task asleep; the panic comes out of the call that woke it.
//!
//! Blocking calls are allowed everywhere but directly inside a task, because they would hold the worker
//! there.

mod backoff;
mod barrier;
mod counts;
mod mutex;
mod mutex_owned;
mod notify;
mod once;
mod once_cell;
mod permits;
mod rwlock;
mod semaphore;
mod semaphore_owned;
mod set_once;
mod wait_list;

pub mod broadcast;
pub mod mpsc;
pub mod oneshot;
pub mod watch;

pub use self::barrier::{Barrier, BarrierWaitResult};
pub use self::mutex::{MappedMutexGuard, Mutex, MutexGuard, TryLockError};
pub use self::mutex_owned::{OwnedMappedMutexGuard, OwnedMutexGuard};
pub use self::notify::Notify;
pub use self::once_cell::{OnceCell, SetError};
pub use self::rwlock::{
    OwnedRwLockMappedWriteGuard, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock, RwLockMappedWriteGuard,
    RwLockReadGuard, RwLockWriteGuard,
};
pub use self::semaphore::{AcquireError, Semaphore, SemaphorePermit, TryAcquireError};
pub use self::semaphore_owned::OwnedSemaphorePermit;
pub use self::set_once::{SetOnce, SetOnceError};

/// Futures that have a name because they have methods.
pub mod futures {
    pub use super::notify::{Notified, OwnedNotified};
}
