//! A lock for short critical sections. The holder unlocks with a plain store.
//!
//! A lock whose waiters sleep must learn at each unlock whether there are waiters. This takes a second
//! read-modify-write, which costs as much as a short critical section does. Here the holder tells no waiter.
//! A waiter looks again: at first at once, then after other threads had the CPU, and then after [`NAP`]. So
//! this lock is for data that is rarely contended, and that a thread holds for no longer than another thread
//! spins, as a rule. The wait may be longer, because the holder needs memory or has lost its CPU. The waiter
//! then lets other threads have the CPU.
//!
//! ```text
//!   free ── ByteLockTake: compare and swap, Acquire ──▶ locked
//!     ▲                                                   │
//!     └──────── ByteLockRelease: store, Release ──────────┘
//! ```
//! **One at a time**: in the lock's modification order, one ByteLockTake follows each ByteLockRelease, and
//! one ByteLockTake follows the beginning. The next ByteLockTake finds `locked` until the thread that did the
//! first ByteLockTake does its ByteLockRelease. **Ordering**: ByteLockTake reads from that ByteLockRelease,
//! so what the last holder did happens before what the next holder does.
//!
//! Models of the guarded data use loom's own lock in its place (`loom/mod.rs`), because threads that spin
//! try too many schedules.
//!
//! The lock is not fair. Waiting does not use the thread's token (`scheduler/sleep/park.rs`), so a worker may
//! wait between its `ParkShow` and `ParkSleep`.

use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::loom::cell::UnsafeCell;
use crate::loom::hint;
use crate::loom::sync::atomic::AtomicBool;
use crate::loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::loom::thread;

/// The number of looks in a row: some two microseconds.
const SPINS: u32 = 64;
/// The number of looks that each let other threads have the CPU.
const YIELDS: u32 = 16;
const YIELDS_END: u32 = SPINS + YIELDS;
/// The time between two later looks, in microseconds.
const NAP: u64 = 50;

/// A value that one thread at a time may touch.
pub struct ByteLock<T> {
    is_locked: AtomicBool,
    /// Only the holder of the lock touches this.
    value: UnsafeCell<T>,
}

// SAFETY: one thread at a time touches the value, and any thread may.
unsafe impl<T: Send> Sync for ByteLock<T> {}

impl<T> ByteLock<T> {
    pub fn new(value: T) -> Self {
        Self { is_locked: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Waits until no other thread has the lock, and takes it.
    #[inline]
    pub fn lock(&self) -> ByteGuard<'_, T> {
        match self.try_lock() {
            Some(guard) => guard,
            None => self.wait(),
        }
    }

    /// ByteLockTake: takes the lock, if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<ByteGuard<'_, T>> {
        // Relaxed if it fails, because the caller then touches nothing.
        let taken = self.is_locked.compare_exchange(false, true, Acquire, Relaxed);
        taken.is_ok().then(|| ByteGuard { lock: self })
    }

    #[cold]
    #[inline(never)]
    fn wait(&self) -> ByteGuard<'_, T> {
        let mut looks = 0;
        loop {
            // Relaxed: a hint. Another ByteLockTake would take the cache line from the holder of the lock.
            let may_be_free = !self.is_locked.load(Relaxed);
            if let Some(guard) = may_be_free.then(|| self.try_lock()).flatten() {
                return guard;
            }
            match looks {
                0..SPINS => hint::spin_loop(),
                SPINS..YIELDS_END => thread::yield_now(),
                _ => thread::nap(NAP),
            }
            looks = looks.saturating_add(1);
        }
    }
}

impl<T> fmt::Debug for ByteLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByteLock").field("is_locked", &self.is_locked.load(Relaxed)).finish_non_exhaustive()
    }
}

/// Holds the lock. ByteLockRelease: the drop unlocks.
pub struct ByteGuard<'a, T> {
    lock: &'a ByteLock<T>,
}

impl<T> Deref for ByteGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard holds the lock, and the result borrows the guard.
        self.lock.value.with(|value| unsafe { &*value })
    }
}

impl<T> DerefMut for ByteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard holds the lock, and the result borrows the guard exclusively.
        self.lock.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T> Drop for ByteGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.is_locked.store(false, Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Barrier;

    use super::*;
    use crate::util::joined::joined_scope;

    #[test]
    fn one_thread_at_a_time() {
        const THREADS: usize = 4;
        const ROUNDS: usize = 20_000;
        let (lock, barrier) = (ByteLock::new((0, 0)), Barrier::new(THREADS));
        joined_scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    barrier.wait();
                    for _ in 0..ROUNDS {
                        let mut pair = lock.lock();
                        assert_eq!(pair.0, pair.1);
                        pair.0 += 1;
                        hint::spin_loop();
                        pair.1 += 1;
                    }
                });
            }
        });
        assert_eq!(*lock.lock(), (THREADS * ROUNDS, THREADS * ROUNDS));
    }

    #[test]
    fn a_panic_lets_go() {
        let lock = ByteLock::new(0);
        let result = catch_unwind(AssertUnwindSafe(|| {
            *lock.lock() = 1;
            let _guard = lock.lock();
            panic!("as planned");
        }));
        assert!(result.is_err());
        assert_eq!(*lock.lock(), 1);
    }

    #[test]
    fn a_task_that_waits_long_gets_it_in_the_end() {
        let lock = ByteLock::new(0);
        let guard = lock.lock();
        joined_scope(|scope| {
            let waiting = scope.spawn(|| *lock.lock() += 1);
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!waiting.is_finished());
            drop(guard);
        });
        assert_eq!(*lock.lock(), 1);
    }
}
