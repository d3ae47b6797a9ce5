//! Permits: none is lost or made, whoever waits, gives back or leaves; who can be served is woken.
//!
//! Bounds: one permit or two, one thread that gives, one that waits or leaves.

use std::sync::Arc as StdArc;

use loom::cell::UnsafeCell;
use loom::future::block_on;
use loom::sync::Arc;
use loom::thread;
use runtime::sync::Semaphore;

use super::flag::{Flag, poll};

#[test]
fn holders_of_the_only_permit_exclude_each_other() {
    loom::model(|| {
        let semaphore = StdArc::new(Semaphore::new(1));
        let data = Arc::new(UnsafeCell::new(0));
        let work = |semaphore: StdArc<Semaphore>, data: Arc<UnsafeCell<i32>>| {
            let permit = block_on(semaphore.acquire()).unwrap();
            // SAFETY: the permit is ours.
            data.with_mut(|data| unsafe { *data += 1 });
            drop(permit);
        };
        let (theirs, their_data) = (semaphore.clone(), data.clone());
        let other = thread::spawn(move || work(theirs, their_data));
        work(semaphore.clone(), data.clone());
        other.join().unwrap();
        // SAFETY: the other thread is gone.
        assert_eq!(data.with(|data| unsafe { *data }), 2);
        assert_eq!(semaphore.available_permits(), 1);
    });
}

#[test]
fn a_permit_granted_to_a_waiter_that_leaves_goes_to_the_next() {
    loom::model(|| {
        let semaphore = StdArc::new(Semaphore::new(1));
        let permit = semaphore.clone().try_acquire_owned().unwrap();
        let mut leaving = Box::pin(semaphore.clone().acquire_owned());
        let mut staying = Box::pin(semaphore.clone().acquire_owned());
        let flag = Flag::new();
        assert!(poll(leaving.as_mut(), &Flag::new()).is_pending());
        assert!(poll(staying.as_mut(), &flag).is_pending());
        let giver = thread::spawn(move || drop(permit));
        drop(leaving);
        giver.join().unwrap();
        assert!(flag.is_set(), "lost permit");
        assert!(poll(staying.as_mut(), &flag).is_ready());
        drop(staying);
        assert_eq!(semaphore.available_permits(), 1);
    });
}

#[test]
fn who_waits_for_many_leaves_and_those_behind_are_served() {
    loom::model(|| {
        let semaphore = StdArc::new(Semaphore::new(0));
        let mut many = Box::pin(semaphore.clone().acquire_many_owned(2));
        let mut one = Box::pin(semaphore.clone().acquire_owned());
        let flag = Flag::new();
        assert!(poll(many.as_mut(), &Flag::new()).is_pending());
        assert!(poll(one.as_mut(), &flag).is_pending());
        let theirs = semaphore.clone();
        let giver = thread::spawn(move || theirs.add_permits(1));
        drop(many);
        giver.join().unwrap();
        assert!(flag.is_set(), "the one behind was not served");
        assert!(poll(one.as_mut(), &flag).is_ready());
    });
}

#[test]
fn a_close_refuses_who_waits() {
    loom::model(|| {
        let semaphore = StdArc::new(Semaphore::new(0));
        let theirs = semaphore.clone();
        let closer = thread::spawn(move || theirs.close());
        assert!(block_on(semaphore.acquire()).is_err());
        closer.join().unwrap();
    });
}

mod twins {
    use std::collections::VecDeque;
    use std::sync::atomic::Ordering::{AcqRel, Acquire};

    use loom::sync::Mutex;
    use loom::sync::atomic::AtomicUsize;

    use super::*;

    const QUEUED: usize = 1;
    const ONE: usize = 2;

    #[derive(Clone, Copy, PartialEq)]
    enum Bug {
        None,
        QueuedWithoutLook,
        LosesGranted,
    }

    /// T1 to T3 and G1 to G4 for single permits, with a queue of flags for a line.
    struct Twin {
        bug: Bug,
        word: AtomicUsize,
        line: Mutex<VecDeque<StdArc<Flag>>>,
    }

    impl Twin {
        fn give(&self) {
            let mut word = self.word.load(Acquire);
            while word & QUEUED == 0 {
                match self.word.compare_exchange(word, word + ONE, AcqRel, Acquire) {
                    Ok(_) => return,
                    Err(actual) => word = actual,
                }
            }
            let mut line = self.line.lock().unwrap();
            match line.pop_front() {
                Some(flag) => std::task::Waker::from(flag).wake(),
                None => {
                    self.word.fetch_add(ONE, AcqRel);
                }
            }
            if line.is_empty() {
                self.word.fetch_and(!QUEUED, AcqRel);
            }
        }

        fn try_take(&self) -> bool {
            self.word.fetch_update(AcqRel, Acquire, |word| word.checked_sub(ONE)).is_ok()
        }

        /// True if a permit was taken; else `flag` is in line.
        fn take(&self, flag: &StdArc<Flag>) -> bool {
            if self.try_take() {
                return true;
            }
            let mut line = self.line.lock().unwrap();
            if self.bug == Bug::QueuedWithoutLook {
                self.word.fetch_or(QUEUED, AcqRel);
            } else {
                let mut word = self.word.load(Acquire);
                loop {
                    let next = if word >= ONE { word - ONE } else { word | QUEUED };
                    match self.word.compare_exchange(word, next, AcqRel, Acquire) {
                        Ok(_) if word >= ONE => return true,
                        Ok(_) => break,
                        Err(actual) => word = actual,
                    }
                }
            }
            line.push_back(flag.clone());
            false
        }

        fn leave(&self, flag: &StdArc<Flag>) {
            let was_granted = {
                let mut line = self.line.lock().unwrap();
                line.retain(|other| !StdArc::ptr_eq(other, flag));
                flag.is_set()
            };
            if was_granted && self.bug != Bug::LosesGranted {
                self.give();
            }
        }
    }

    /// `leaves`: the first in line leaves while the permit comes, and the second must get it.
    fn check(bug: Bug, leaves: bool) {
        loom::model(move || {
            let twin = Arc::new(Twin { bug, word: AtomicUsize::new(0), line: Mutex::new(VecDeque::new()) });
            let leaving = Flag::new();
            if leaves {
                assert!(!twin.take(&leaving));
            }
            let theirs = twin.clone();
            let giver = thread::spawn(move || theirs.give());
            let staying = Flag::new();
            let is_taken = twin.take(&staying);
            if leaves {
                twin.leave(&leaving);
            }
            giver.join().unwrap();
            assert!(is_taken || staying.is_set(), "lost permit");
        });
    }

    #[test]
    fn the_twin_without_a_bug_passes() {
        check(Bug::None, false);
        check(Bug::None, true);
    }

    #[test]
    #[should_panic(expected = "lost permit")]
    fn a_taker_that_does_not_look_again_is_found() {
        check(Bug::QueuedWithoutLook, false);
    }

    #[test]
    #[should_panic(expected = "lost permit")]
    fn a_waiter_that_keeps_what_it_did_not_see_is_found() {
        check(Bug::LosesGranted, true);
    }
}
