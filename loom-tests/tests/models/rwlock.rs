//! RwLock: readers share the data, a writer is alone with them; a writer that becomes a reader lets no other
//! writer in between; a waiter that leaves the wait list lets the waiters behind it go on.
//!
//! The wait list is that of `semaphore.rs`, where its twins are, too. Bounds: two threads, locks for two
//! readers. The data are a loom cell, so a reader that meets a writer is found.

use std::sync::Arc as StdArc;

use loom::future::block_on;
use runtime::sync::RwLock;

use super::flag::{Flag, poll};
use super::once_built::{model, thread};
use super::plain::Plain;

/// A number that the model checks for races.
struct Data(Plain<usize>);

// SAFETY: whether its accesses exclude each other is what the models are for.
unsafe impl Send for Data {}
// SAFETY: as above.
unsafe impl Sync for Data {}

impl Data {
    fn get(&self) -> usize {
        // SAFETY: under the lock; a bug is what the model is to find.
        self.0.with(|number| unsafe { *number })
    }

    fn set(&self, number: usize) {
        // SAFETY: as above.
        self.0.with_mut(|slot| unsafe { *slot = number });
    }
}

fn lock() -> StdArc<RwLock<Data>> {
    StdArc::new(RwLock::with_max_readers(Data(Plain::new("the locked data", 0)), 2))
}

#[test]
fn a_reader_and_a_writer_exclude_each_other() {
    model(|| {
        let lock = lock();
        let theirs = lock.clone();
        let writer = thread::spawn(move || block_on(theirs.write()).set(1));
        let seen = block_on(lock.read()).get();
        let later = block_on(lock.read()).get();
        assert!(later >= seen, "a write was undone");
        writer.join().unwrap();
        assert_eq!(block_on(lock.read()).get(), 1);
    });
}

#[test]
fn readers_share() {
    model(|| {
        let lock = lock();
        let theirs = lock.clone();
        let first = block_on(lock.read());
        let other = thread::spawn(move || block_on(theirs.read()).get());
        // Both at once, or the model hangs.
        assert_eq!(other.join().unwrap(), first.get());
    });
}

#[test]
fn a_writer_that_becomes_a_reader_lets_no_other_in_between() {
    model(|| {
        let lock = lock();
        let theirs = lock.clone();
        let other = thread::spawn(move || block_on(theirs.write()).set(2));
        let writer = block_on(lock.write());
        writer.set(1);
        let reader = writer.downgrade();
        assert_eq!(reader.get(), 1);
        drop(reader);
        other.join().unwrap();
    });
}

#[test]
fn a_writer_that_leaves_the_line_lets_readers_in() {
    model(|| {
        let lock = lock();
        let first = lock.clone().try_read_owned().unwrap();
        let mut write = Box::pin(lock.clone().write_owned());
        let mut read = Box::pin(lock.clone().read_owned());
        let flag = Flag::new();
        assert!(poll(write.as_mut(), &Flag::new()).is_pending());
        assert!(poll(read.as_mut(), &flag).is_pending());
        let reader = thread::spawn(move || drop(first));
        drop(write);
        reader.join().unwrap();
        assert!(flag.is_set(), "lost wake");
        assert!(poll(read.as_mut(), &flag).is_ready());
    });
}

mod twins {
    use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;

    use super::*;

    const ALL: usize = 2;

    #[derive(Clone, Copy, PartialEq)]
    enum Bug {
        None,
        GivesAllBack,
        GivesTooWeakly,
    }

    /// The count of permits alone: a thread that finds too few gives up.
    struct Twin {
        bug: Bug,
        free: AtomicUsize,
        data: Data,
    }

    impl Twin {
        fn try_take(&self, n: usize) -> bool {
            self.free.fetch_update(Acquire, Relaxed, |free| free.checked_sub(n)).is_ok()
        }

        fn give(&self, n: usize) {
            self.free.fetch_add(n, if self.bug == Bug::GivesTooWeakly { Relaxed } else { Release });
        }

        /// True if it still holds a permit.
        fn downgrade(&self) -> bool {
            if self.bug != Bug::GivesAllBack {
                self.give(ALL - 1);
                return true;
            }
            self.free.fetch_add(ALL, AcqRel);
            self.try_take(1)
        }
    }

    fn check(bug: Bug) {
        model(move || {
            let data = Data(Plain::new("the locked data", 0));
            let twin = Arc::new(Twin { bug, free: AtomicUsize::new(ALL), data });
            let theirs = twin.clone();
            let other = thread::spawn(move || {
                if theirs.try_take(ALL) {
                    theirs.data.set(2);
                    theirs.give(ALL);
                }
            });
            if twin.try_take(ALL) {
                twin.data.set(1);
                if twin.downgrade() {
                    assert_eq!(twin.data.get(), 1, "a writer came in between");
                    twin.give(1);
                }
            }
            other.join().unwrap();
        });
    }

    #[test]
    fn the_twin_without_a_bug_passes() {
        check(Bug::None);
    }

    #[test]
    #[should_panic(expected = "a writer came in between")]
    fn a_downgrade_that_gives_all_back_is_found() {
        check(Bug::GivesAllBack);
    }

    #[test]
    #[should_panic(expected = "data race on the locked data")]
    fn permits_that_are_given_without_release_are_found() {
        check(Bug::GivesTooWeakly);
    }
}
