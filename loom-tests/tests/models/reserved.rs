//! Reserved references (`task/reserved.rs`): a small task whose poll clones and drops wakers. One of them
//! goes to another thread.
//!
//! The memory is freed once, and not before the last use. Bounds: one poll, which ends the task, and one
//! other thread.

use std::sync::atomic::AtomicUsize as Count;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicUsize;
use loom::sync::atomic::Ordering::{AcqRel, Relaxed};
use loom::thread;

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// Clones are taken from a reserve that the word does not count.
    IsNotCounted,
    /// The other thread puts its reference into the reserve.
    IsPutFromOutside,
    /// The completer gives up the life's reference alone.
    IsKeptAtTheEnd,
}

/// A task that is nothing but its references.
struct Task {
    references: AtomicUsize,
    reserve: UnsafeCell<usize>,
    /// Every thread with a reference reads it, and the thread that frees writes it.
    is_alive: UnsafeCell<bool>,
    freed: Count,
    fault: Fault,
}

// SAFETY: the cells are what the models watch.
unsafe impl Send for Task {}
// SAFETY: as above.
unsafe impl Sync for Task {}

impl Task {
    /// Makes a newborn task: the life's reference, and `reserve`.
    fn new(fault: Fault, reserve: usize) -> Self {
        let counted = if fault == Fault::IsNotCounted { 0 } else { reserve };
        Self {
            references: AtomicUsize::new(1 + counted),
            reserve: UnsafeCell::new(reserve),
            is_alive: UnsafeCell::new(true),
            freed: Count::new(0),
            fault,
        }
    }

    fn use_it(&self) {
        // SAFETY: the cell checks that no other thread writes.
        assert!(self.is_alive.with(|is_alive| unsafe { *is_alive }), "used after it was freed");
    }

    fn give_up(&self, count: usize) {
        if self.references.fetch_sub(count, AcqRel) == count {
            // SAFETY: the cell checks that no other thread accesses it.
            self.is_alive.with_mut(|is_alive| unsafe { *is_alive = false });
            self.freed.fetch_add(1, Relaxed);
        }
    }

    /// Drops a reference in the poll.
    fn clone_waker(&self) {
        // SAFETY: the cell checks that no other thread accesses it.
        self.reserve.with_mut(|reserve| unsafe {
            if *reserve == 0 {
                self.references.fetch_add(1, Relaxed);
                *reserve = 1;
            }
            *reserve -= 1;
        });
    }

    fn put(&self) {
        // SAFETY: as above.
        self.reserve.with_mut(|reserve| unsafe { *reserve += 1 });
    }

    /// Drops a reference on another thread.
    fn drop_waker(&self) {
        self.use_it();
        match self.fault {
            Fault::IsPutFromOutside => self.put(),
            _ => self.give_up(1),
        }
    }

    fn complete(&self) {
        // SAFETY: as above.
        let reserve = self.reserve.with(|reserve| unsafe { *reserve });
        self.use_it();
        self.give_up(1 + if self.fault == Fault::IsKeptAtTheEnd { 0 } else { reserve });
    }
}

fn a_waker_goes_elsewhere(fault: Fault) {
    loom::model(move || {
        let task = Arc::new(Task::new(fault, 1));
        task.clone_waker();
        let other = thread::spawn({
            let task = task.clone();
            move || task.drop_waker()
        });
        task.clone_waker();
        task.use_it();
        task.put();
        task.complete();
        other.join().unwrap();
        assert_eq!(task.freed.load(Relaxed), 1, "not freed once");
    });
}

#[test]
fn the_task_is_freed_once_after_its_last_use() {
    a_waker_goes_elsewhere(Fault::None);
}

#[test]
#[should_panic]
fn a_reserve_that_is_not_counted() {
    a_waker_goes_elsewhere(Fault::IsNotCounted);
}

#[test]
#[should_panic]
fn a_reserve_that_others_put_into() {
    a_waker_goes_elsewhere(Fault::IsPutFromOutside);
}

#[test]
#[should_panic(expected = "not freed once")]
fn a_reserve_that_outlives_the_task() {
    a_waker_goes_elsewhere(Fault::IsKeptAtTheEnd);
}
