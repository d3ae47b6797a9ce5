//! The lock whose holder lets go with a plain store: one thread at a time has it, and sees what the last one
//! did.
//!
//! Bounds: two threads beside main, one critical section each. A thread that finds the lock taken goes away,
//! because a thread that waits only tries again.

use loom::sync::Arc;
use loom::sync::atomic::AtomicBool;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use runtime::internals::ByteLock;

use super::once_built::{model, thread};
use super::plain::Plain;

/// What has a critical section.
trait Lock: Send + Sync + 'static {
    /// False if another thread has the lock.
    fn try_with(&self, f: impl FnOnce(&Plain<usize>)) -> bool;
}

struct Real(ByteLock<Plain<usize>>);

// SAFETY: the cell is what the models watch.
unsafe impl Send for Real {}
// SAFETY: as above.
unsafe impl Sync for Real {}

impl Lock for Real {
    fn try_with(&self, f: impl FnOnce(&Plain<usize>)) -> bool {
        self.0.try_lock().map(|guard| f(&guard)).is_some()
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// `ByteLockTake` is a load and a store.
    LooksAndTakes,
    LocksRelaxed,
    UnlocksRelaxed,
}

/// A copy with at most one bug.
struct Twin {
    is_locked: AtomicBool,
    value: Plain<usize>,
    fault: Fault,
}

// SAFETY: the cell is what the models watch.
unsafe impl Send for Twin {}
// SAFETY: as above.
unsafe impl Sync for Twin {}

impl Twin {
    fn new(fault: Fault) -> Self {
        Self { is_locked: AtomicBool::new(false), value: Plain::new("the locked value", 0), fault }
    }

    fn try_lock(&self) -> bool {
        let order = if self.fault == Fault::LocksRelaxed { Relaxed } else { Acquire };
        match self.fault {
            Fault::LooksAndTakes => {
                let is_free = !self.is_locked.load(Acquire);
                if is_free {
                    self.is_locked.store(true, Relaxed);
                }
                is_free
            }
            _ => self.is_locked.compare_exchange(false, true, order, Relaxed).is_ok(),
        }
    }
}

impl Lock for Twin {
    fn try_with(&self, f: impl FnOnce(&Plain<usize>)) -> bool {
        let has_lock = self.try_lock();
        if has_lock {
            f(&self.value);
            self.is_locked.store(false, if self.fault == Fault::UnlocksRelaxed { Relaxed } else { Release });
        }
        has_lock
    }
}

/// Of three threads, those that get the lock count in one cell; at the end every count is there.
fn three_count<L: Lock>(lock: impl Fn() -> L + Send + Sync + 'static) {
    model(move || {
        let lock = Arc::new(lock());
        let count = |lock: &L| {
            lock.try_with(|value| {
                // SAFETY: whether we are alone is what the cell checks.
                value.with_mut(|value| unsafe { *value += 1 });
            })
        };
        let threads = [(); 2].map(|()| {
            let lock = lock.clone();
            thread::spawn(move || count(&lock))
        });
        let mut counted = usize::from(count(&lock));
        counted += threads.into_iter().map(|thread| usize::from(thread.join().unwrap())).sum::<usize>();
        assert!(counted > 0, "no thread got the lock");
        // SAFETY: as above.
        let is_free = lock.try_with(|value| assert_eq!(value.with(|value| unsafe { *value }), counted));
        assert!(is_free, "the lock was not given back");
    });
}

#[test]
fn one_thread_at_a_time_that_sees_what_others_did() {
    three_count(|| Real(ByteLock::new(Plain::new("the locked value", 0))));
}

#[test]
fn a_twin_without_a_bug() {
    three_count(|| Twin::new(Fault::None));
}

#[test]
#[should_panic(expected = "data race on the locked value")]
fn a_lock_taken_in_two_steps() {
    three_count(|| Twin::new(Fault::LooksAndTakes));
}

#[test]
#[should_panic(expected = "data race on the locked value")]
fn a_lock_that_does_not_acquire() {
    three_count(|| Twin::new(Fault::LocksRelaxed));
}

#[test]
#[should_panic(expected = "data race on the locked value")]
fn an_unlock_that_does_not_release() {
    three_count(|| Twin::new(Fault::UnlocksRelaxed));
}
