//! OnceCell and SetOnce: one value is made or set, all see it whole, and all that wait learn of it; a maker
//! that gives up is followed by the next.
//!
//! Bounds: two threads. The value is a loom cell that is read by all and written once, so a value that is
//! seen too early is found. It is a loom `Arc`, too, so a value that is leaked or dropped twice is found.

use std::sync::Arc as StdArc;

use loom::future::block_on;
use loom::sync::Arc;
use runtime::sync::{OnceCell, SetOnce};

use super::flag::{Flag, poll};
use super::once_built::{model, thread};
use super::plain::Plain;

/// A number that the model checks for races.
struct Value(Plain<usize>, #[allow(dead_code, reason = "watched by loom")] Arc<()>);

// SAFETY: whether its accesses exclude each other is what the models are for.
unsafe impl Send for Value {}
// SAFETY: as above.
unsafe impl Sync for Value {}

impl Value {
    fn new(number: usize) -> Self {
        let value = Self(Plain::new("a set value", 0), Arc::new(()));
        // SAFETY: no other thread has it.
        value.0.with_mut(|slot| unsafe { *slot = number });
        value
    }

    fn get(&self) -> usize {
        // SAFETY: no thread writes to a value that is set; a bug is what the model is to find.
        self.0.with(|number| unsafe { *number })
    }
}

#[test]
fn a_value_that_is_seen_is_whole() {
    model(|| {
        let once = StdArc::new(SetOnce::new());
        let theirs = once.clone();
        let setter = thread::spawn(move || assert!(theirs.set(Value::new(7)).is_ok()));
        if let Some(value) = once.get() {
            assert_eq!(value.get(), 7);
        }
        assert_eq!(block_on(once.wait()).get(), 7);
        setter.join().unwrap();
    });
}

#[test]
fn of_two_that_set_one_wins() {
    model(|| {
        let once = StdArc::new(SetOnce::new());
        let theirs = once.clone();
        let other = thread::spawn(move || theirs.set(Value::new(1)).is_ok());
        let is_mine = once.set(Value::new(2)).is_ok();
        let value = once.get().expect("lost value").get();
        assert_eq!((value, other.join().unwrap()), if is_mine { (2, false) } else { (1, true) });
    });
}

#[test]
fn a_waiter_that_leaves_keeps_no_other_from_the_value() {
    model(|| {
        let once = StdArc::new(SetOnce::new());
        let mut leaving = Box::pin(once.wait());
        let mut staying = Box::pin(once.wait());
        let flag = Flag::new();
        assert!(poll(leaving.as_mut(), &Flag::new()).is_pending());
        assert!(poll(staying.as_mut(), &flag).is_pending());
        let theirs = once.clone();
        let setter = thread::spawn(move || assert!(theirs.set(Value::new(7)).is_ok()));
        drop(leaving);
        setter.join().unwrap();
        assert!(flag.is_set(), "lost wake");
        assert!(poll(staying.as_mut(), &flag).is_ready());
    });
}

#[test]
fn one_makes_the_value_for_both() {
    model(|| {
        let cell = StdArc::new(OnceCell::new());
        let get = |cell: &OnceCell<Value>, number| {
            block_on(cell.get_or_init(|| async move { Value::new(number) })).get()
        };
        let theirs = cell.clone();
        let other = thread::spawn(move || get(&theirs, 1));
        let mine = get(&cell, 2);
        assert_eq!(other.join().unwrap(), mine);
    });
}

#[test]
fn a_maker_that_gives_up_is_followed_by_the_next() {
    model(|| {
        let cell = StdArc::new(OnceCell::new());
        let mut leaving = Box::pin(cell.get_or_init(std::future::pending));
        assert!(poll(leaving.as_mut(), &Flag::new()).is_pending());
        let theirs = cell.clone();
        let other = thread::spawn(move || block_on(theirs.get_or_init(|| async { Value::new(7) })).get());
        drop(leaving);
        assert_eq!(other.join().unwrap(), 7);
    });
}

mod twins {
    use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

    use loom::sync::Mutex;
    use loom::sync::atomic::AtomicUsize;

    use super::*;

    const CLOSED: usize = 1;
    const QUEUED: usize = 2;

    #[derive(Clone, Copy, PartialEq)]
    enum Bug {
        None,
        ClosesFirst,
        ClosesTooWeakly,
        DoesNotLookAgain,
    }

    /// A value that is set under the lock of a list of flags.
    struct Twin {
        bug: Bug,
        word: AtomicUsize,
        value: Plain<usize>,
        waiters: Mutex<Vec<StdArc<Flag>>>,
    }

    impl Twin {
        fn set(&self) {
            // SAFETY: no thread reads before CLOSED; a bug is what the model is to find.
            let write = || self.value.with_mut(|slot| unsafe { *slot = 7 });
            let mut waiters = self.waiters.lock().unwrap();
            if self.bug != Bug::ClosesFirst {
                write();
            }
            self.word.fetch_or(CLOSED, if self.bug == Bug::ClosesTooWeakly { Relaxed } else { Release });
            if self.bug == Bug::ClosesFirst {
                write();
            }
            waiters.drain(..).for_each(|flag| std::task::Waker::from(flag).wake());
        }

        fn get(&self) -> Option<usize> {
            let is_set = self.word.load(Acquire) & CLOSED != 0;
            // SAFETY: as above.
            is_set.then(|| self.value.with(|slot| unsafe { *slot }))
        }

        /// True if there is a value; else `flag` is in the list.
        fn wait(&self, flag: &StdArc<Flag>) -> bool {
            if self.get().is_some() {
                return true;
            }
            let mut waiters = self.waiters.lock().unwrap();
            if self.word.fetch_or(QUEUED, Acquire) & CLOSED != 0 && self.bug != Bug::DoesNotLookAgain {
                return true;
            }
            waiters.push(flag.clone());
            false
        }
    }

    fn check(bug: Bug) {
        model(move || {
            let (word, value) = (AtomicUsize::new(0), Plain::new("the value", 0));
            let twin = Arc::new(Twin { bug, word, value, waiters: Mutex::new(Vec::new()) });
            let theirs = twin.clone();
            let setter = thread::spawn(move || theirs.set());
            let flag = Flag::new();
            let is_ready = twin.wait(&flag);
            assert!(twin.get().is_none_or(|value| value == 7));
            setter.join().unwrap();
            assert!(is_ready || flag.is_set(), "lost wake");
        });
    }

    #[test]
    fn the_twin_without_a_bug_passes() {
        check(Bug::None);
    }

    #[test]
    #[should_panic(expected = "data race on the value")]
    fn a_value_written_after_it_was_announced_is_found() {
        check(Bug::ClosesFirst);
    }

    #[test]
    #[should_panic(expected = "data race on the value")]
    fn a_value_announced_without_release_is_found() {
        check(Bug::ClosesTooWeakly);
    }

    #[test]
    #[should_panic(expected = "lost wake")]
    fn a_waiter_that_does_not_look_again_is_found() {
        check(Bug::DoesNotLookAgain);
    }
}
