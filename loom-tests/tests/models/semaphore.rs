//! Permits: none is lost or made, whichever threads wait, give back or leave; a waiter that can be served is
//! woken.
//!
//! Bounds: one permit or two, one thread that gives, one that waits or leaves.

use std::sync::Arc as StdArc;
use std::task::Poll;

use loom::cell::UnsafeCell;
use loom::future::block_on;
use loom::sync::Arc;
use runtime::sync::Semaphore;

use super::flag::{Flag, poll};
use super::once_built::{model, thread};

#[test]
fn holders_of_the_only_permit_exclude_each_other() {
    model(|| {
        let semaphore = StdArc::new(Semaphore::new(1));
        let data = Arc::new(UnsafeCell::new(0));
        let work = |semaphore: StdArc<Semaphore>, data: Arc<UnsafeCell<i32>>| {
            let permit = block_on(semaphore.acquire()).unwrap();
            // SAFETY: the only permit is ours, so no other thread is here. The cell checks that.
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
    model(|| {
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
fn a_waiter_for_many_leaves_and_those_behind_are_served() {
    model(|| {
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
fn permits_that_come_at_once_are_all_there() {
    model(|| {
        let semaphore = StdArc::new(Semaphore::new(0));
        let mut waiting = Box::pin(semaphore.clone().acquire_owned());
        let flag = Flag::new();
        assert!(poll(waiting.as_mut(), &flag).is_pending());
        let theirs = semaphore.clone();
        let giver = thread::spawn(move || theirs.add_permits(1));
        semaphore.add_permits(1);
        giver.join().unwrap();
        assert!(flag.is_set(), "lost permit");
        assert_eq!(semaphore.available_permits(), 1);
        assert!(semaphore.try_acquire().is_ok());
    });
}

/// A giver saw the waiter, and comes to the word when the waiter was served and all permits are there.
#[test]
fn permits_that_come_at_once_do_not_exceed_the_maximum() {
    model(|| {
        let semaphore = StdArc::new(Semaphore::new(2));
        let [first, second] = [(); 2].map(|()| semaphore.clone().try_acquire_owned().unwrap());
        let mut waiting = Box::pin(semaphore.clone().acquire_owned());
        assert!(poll(waiting.as_mut(), &Flag::new()).is_pending());
        let giver = thread::spawn(move || drop(first));
        semaphore.add_permits(Semaphore::MAX_PERMITS);
        drop(second);
        giver.join().unwrap();
        assert_eq!(semaphore.available_permits(), Semaphore::MAX_PERMITS, "more than there may be");
    });
}

#[test]
fn a_future_that_has_its_permit_does_not_see_it_as_free() {
    model(|| {
        let semaphore = StdArc::new(Semaphore::new(0));
        let [mut first, mut second] = [(); 2].map(|()| Box::pin(semaphore.clone().acquire_owned()));
        assert!(poll(first.as_mut(), &Flag::new()).is_pending());
        assert!(poll(second.as_mut(), &Flag::new()).is_pending());
        let theirs = semaphore.clone();
        let giver = thread::spawn(move || theirs.add_permits(2));
        let permit = poll(first.as_mut(), &Flag::new());
        if permit.is_ready() {
            assert!(semaphore.available_permits() <= 1, "its own permit is free");
        }
        giver.join().unwrap();
        assert_eq!(semaphore.available_permits(), 0);
    });
}

#[test]
fn a_permit_granted_before_a_close_and_not_seen_goes_back() {
    model(|| {
        let semaphore = StdArc::new(Semaphore::new(0));
        let mut waiting = Box::pin(semaphore.clone().acquire_owned());
        assert!(poll(waiting.as_mut(), &Flag::new()).is_pending());
        let theirs = semaphore.clone();
        let giver = thread::spawn(move || theirs.add_permits(1));
        semaphore.close();
        let result = poll(waiting.as_mut(), &Flag::new());
        assert!(matches!(result, std::task::Poll::Ready(Err(_))));
        giver.join().unwrap();
        assert_eq!(semaphore.available_permits(), 1);
    });
}

#[test]
fn a_close_refuses_waiters() {
    model(|| {
        let semaphore = StdArc::new(Semaphore::new(0));
        let theirs = semaphore.clone();
        let closer = thread::spawn(move || theirs.close());
        assert!(block_on(semaphore.acquire()).is_err());
        closer.join().unwrap();
    });
}

#[test]
fn a_permit_granted_while_the_semaphore_is_closed_comes_back() {
    model(|| {
        let semaphore = StdArc::new(Semaphore::new(1));
        let permit = semaphore.clone().try_acquire_owned().unwrap();
        let mut waiting = Box::pin(semaphore.clone().acquire_owned());
        assert!(poll(waiting.as_mut(), &Flag::new()).is_pending());
        let giver = thread::spawn(move || drop(permit));
        semaphore.close();
        assert!(matches!(poll(waiting.as_mut(), &Flag::new()), Poll::Ready(Err(_))), "granted or not");
        giver.join().unwrap();
        assert_eq!(semaphore.available_permits(), 1);
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
        StoresWhatItSaw,
        ShowsGranted,
    }

    /// PermitTake to PermitJoin and PermitGive to PermitSettle for single permits, with a queue of flags for
    /// waiters.
    struct Twin {
        bug: Bug,
        word: AtomicUsize,
        waiters: Mutex<VecDeque<StdArc<Flag>>>,
        /// How many waiters were served: the outcome of the first one.
        served: AtomicUsize,
    }

    impl Twin {
        fn give(&self) {
            if self.word.fetch_add(ONE, AcqRel) & QUEUED != 0 {
                self.serve();
            }
        }

        fn serve(&self) {
            let mut waiters = self.waiters.lock().unwrap();
            let word = self.word.load(Acquire);
            if word & QUEUED == 0 {
                return;
            }
            let (mut taken, mut left) = (0, 0);
            while taken + ONE <= word - QUEUED {
                let Some(flag) = waiters.pop_front() else { break };
                match self.bug {
                    Bug::StoresWhatItSaw | Bug::ShowsGranted => left += ONE,
                    _ => _ = self.word.fetch_sub(ONE, AcqRel),
                }
                self.served.fetch_add(1, AcqRel);
                std::task::Waker::from(flag).wake();
                taken += ONE;
            }
            if waiters.is_empty() {
                left += QUEUED;
            }
            if self.bug == Bug::StoresWhatItSaw {
                self.word.store(word - left, std::sync::atomic::Ordering::Release);
            } else {
                self.word.fetch_sub(left, AcqRel);
            }
        }

        fn try_take(&self) -> bool {
            let take = |word: usize| if word & QUEUED == 0 { word.checked_sub(ONE) } else { None };
            self.word.fetch_update(AcqRel, Acquire, take).is_ok()
        }

        /// True if a permit was taken; else `flag` is in the list.
        fn take(&self, flag: &StdArc<Flag>) -> bool {
            if self.try_take() {
                return true;
            }
            let mut waiters = self.waiters.lock().unwrap();
            if self.bug == Bug::QueuedWithoutLook {
                self.word.fetch_or(QUEUED, AcqRel);
            } else {
                let mut word = self.word.load(Acquire);
                while word & QUEUED == 0 {
                    let next = if word >= ONE { word - ONE } else { word | QUEUED };
                    match self.word.compare_exchange(word, next, AcqRel, Acquire) {
                        Ok(_) if word >= ONE => return true,
                        Ok(_) => break,
                        Err(actual) => word = actual,
                    }
                }
            }
            waiters.push_back(flag.clone());
            false
        }

        fn leave(&self, flag: &StdArc<Flag>) {
            let was_granted = {
                let mut waiters = self.waiters.lock().unwrap();
                waiters.retain(|other| !StdArc::ptr_eq(other, flag));
                flag.is_set()
            };
            match was_granted {
                true if self.bug == Bug::LosesGranted => {}
                true => self.give(),
                false => self.serve(),
            }
        }
    }

    fn twin(bug: Bug) -> Arc<Twin> {
        Arc::new(Twin {
            bug,
            word: AtomicUsize::new(0),
            waiters: Mutex::new(VecDeque::new()),
            served: AtomicUsize::new(0),
        })
    }

    /// `leaves`: the first waiter leaves while the permit comes, and the second must get it.
    fn check(bug: Bug, leaves: bool) {
        model(move || {
            let twin = twin(bug);
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

    /// Two permits come at once for one in the list: one is left.
    fn check_givers(bug: Bug) {
        model(move || {
            let twin = twin(bug);
            let flag = Flag::new();
            assert!(!twin.take(&flag));
            let theirs = twin.clone();
            let giver = thread::spawn(move || theirs.give());
            twin.give();
            giver.join().unwrap();
            assert!(flag.is_set() && twin.try_take(), "lost permit");
        });
    }

    /// A permit comes for the one in the list, which looks how many are free.
    fn check_shown(bug: Bug) {
        model(move || {
            let twin = twin(bug);
            assert!(!twin.take(&Flag::new()));
            let theirs = twin.clone();
            let giver = thread::spawn(move || theirs.give());
            if twin.served.load(Acquire) > 0 {
                assert!(twin.word.load(Acquire) / ONE == 0, "its own permit is free");
            }
            giver.join().unwrap();
        });
    }

    #[test]
    fn the_twin_without_a_bug_passes() {
        check(Bug::None, false);
        check(Bug::None, true);
        check_givers(Bug::None);
        check_shown(Bug::None);
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

    #[test]
    #[should_panic(expected = "lost permit")]
    fn a_server_that_stores_what_it_saw_is_found() {
        check_givers(Bug::StoresWhatItSaw);
    }

    #[test]
    #[should_panic(expected = "its own permit is free")]
    fn a_server_that_shows_what_it_has_granted_is_found() {
        check_shown(Bug::ShowsGranted);
    }
}
