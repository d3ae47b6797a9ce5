//! A lock for many readers or one writer, whose guards may be held across an `.await`.
//!
//! It is a count of [`permits`](super::permits): a reader takes one permit, a writer takes all. So the wait
//! list is fair for both: a reader that comes after a waiting writer waits behind it. The permits' Acquire
//! and Release order one holder after the other. The count of the permits makes reading and writing exclude
//! each other.
//!
//! A guard is its hold (`Share`, `Whole`), whose drop gives the permits back, and the address of the data.
//! Mapping a guard moves the hold into another guard. Downgrading gives back all permits but one.
//!
//! `lock.rs` has the lock, `borrowed.rs` the guards that borrow it. `owned.rs` has the guards that keep it
//! alive, and the methods that make them.

mod borrowed;
mod lock;
mod owned;

pub use self::borrowed::{RwLockMappedWriteGuard, RwLockReadGuard, RwLockWriteGuard};
pub use self::lock::RwLock;
pub use self::owned::{OwnedRwLockMappedWriteGuard, OwnedRwLockReadGuard, OwnedRwLockWriteGuard};
