//! Notify: a `notify_one` reaches a waiter or is kept; a `notify_waiters` reaches every waiter that was
//! there.
//!
//! Bounds: two waiters, one notifier; one of the waiters may be dropped at any point.

use std::sync::Arc as StdArc;

use loom::cell::UnsafeCell;
use loom::future::block_on;
use loom::sync::Arc;
use loom::sync::atomic::AtomicBool;
use loom::sync::atomic::Ordering::{Acquire, Release};
use runtime::sync::Notify;

use super::flag::{Flag, poll};
use super::once_built::{model, thread};

#[test]
fn a_notification_is_passed_on_by_a_waiter_that_leaves() {
    model(|| {
        let notify = StdArc::new(Notify::new());
        let mut leaving = Box::pin(notify.clone().notified_owned());
        let mut staying = Box::pin(notify.clone().notified_owned());
        let flag = Flag::new();
        assert!(poll(leaving.as_mut(), &Flag::new()).is_pending());
        assert!(poll(staying.as_mut(), &flag).is_pending());
        let theirs = notify.clone();
        let notifier = thread::spawn(move || theirs.notify_one());
        drop(leaving);
        notifier.join().unwrap();
        assert!(flag.is_set(), "lost notification");
        assert!(poll(staying.as_mut(), &flag).is_ready());
    });
}

#[test]
fn a_notification_meets_a_waiter_or_is_kept_for_it() {
    model(|| {
        let notify = StdArc::new(Notify::new());
        let data = Arc::new(UnsafeCell::new(0));
        let (theirs, their_data) = (notify.clone(), data.clone());
        let notifier = thread::spawn(move || {
            // SAFETY: before the notification, which orders it before the read.
            their_data.with_mut(|data| unsafe { *data = 1 });
            theirs.notify_one();
        });
        block_on(notify.notified());
        // SAFETY: after the notification.
        assert_eq!(data.with(|data| unsafe { *data }), 1);
        notifier.join().unwrap();
    });
}

#[test]
fn a_broadcast_reaches_all_that_exist_and_orders_what_came_before() {
    model(|| {
        let notify = StdArc::new(Notify::new());
        let data = Arc::new(UnsafeCell::new(0));
        let mine = notify.notified();
        let (theirs, their_data) = (notify.clone(), data.clone());
        let waiter = thread::spawn({
            let notified = notify.clone().notified_owned();
            move || block_on(notified)
        });
        let notifier = thread::spawn(move || {
            // SAFETY: before the notification.
            their_data.with_mut(|data| unsafe { *data = 1 });
            theirs.notify_waiters();
        });
        block_on(mine);
        // SAFETY: after the notification.
        assert_eq!(data.with(|data| unsafe { *data }), 1);
        waiter.join().unwrap();
        notifier.join().unwrap();
    });
}

#[test]
fn a_broadcast_orders_what_came_before_also_for_threads_not_in_line() {
    model(|| {
        let notify = StdArc::new(Notify::new());
        let data = Arc::new(UnsafeCell::new(0));
        // Makes the broadcast go through the wait list.
        let mut in_line = Box::pin(notify.clone().notified_owned());
        assert!(poll(in_line.as_mut(), &Flag::new()).is_pending());
        let mut apart = Box::pin(notify.clone().notified_owned());
        let (theirs, their_data) = (notify.clone(), data.clone());
        let notifier = thread::spawn(move || {
            // SAFETY: before the notification.
            their_data.with_mut(|data| unsafe { *data = 1 });
            theirs.notify_waiters();
        });
        if poll(apart.as_mut(), &Flag::new()).is_ready() {
            // SAFETY: after the notification.
            assert_eq!(data.with(|data| unsafe { *data }), 1);
        }
        notifier.join().unwrap();
    });
}

#[test]
fn a_broadcast_does_not_use_up_a_single_notification() {
    model(|| {
        let notify = StdArc::new(Notify::new());
        let mut waiting = Box::pin(notify.clone().notified_owned());
        let flag = Flag::new();
        assert!(poll(waiting.as_mut(), &flag).is_pending());
        let has_broadcast = Arc::new(AtomicBool::new(false));
        let (theirs, says) = (notify.clone(), has_broadcast.clone());
        let broadcaster = thread::spawn(move || {
            theirs.notify_waiters();
            says.store(true, Release);
        });
        let waiter_was_told = has_broadcast.load(Acquire);
        notify.notify_one();
        broadcaster.join().unwrap();
        assert!(flag.is_set());
        assert!(poll(waiting.as_mut(), &flag).is_ready());
        drop(waiting);
        // The waiter was told by the broadcast, so the single notification is kept. Otherwise the waiter may
        // have taken it, and the next one arrives.
        if !waiter_was_told {
            notify.notify_one();
        }
        assert!(poll(std::pin::pin!(notify.notified()), &flag).is_ready());
    });
}

mod twins {
    use std::collections::VecDeque;
    use std::sync::atomic::Ordering::{AcqRel, Acquire};

    use loom::sync::Mutex;
    use loom::sync::atomic::AtomicUsize;

    use super::*;

    const EMPTY: usize = 0;
    const WAITING: usize = 1;
    const STORED: usize = 2;

    #[derive(Clone, Copy, PartialEq)]
    enum Bug {
        None,
        NoSecondLook,
        ForgetsOnDrop,
    }

    /// NotifyPassed to NotifyJoin and NotifyStore to NotifyOne, with a queue of flags for waiters.
    struct Twin {
        bug: Bug,
        word: AtomicUsize,
        waiters: Mutex<VecDeque<StdArc<Flag>>>,
    }

    impl Twin {
        fn notify(&self) {
            while self.word.load(Acquire) != WAITING {
                let word = self.word.load(Acquire);
                if word != WAITING && self.word.compare_exchange(word, STORED, AcqRel, Acquire).is_ok() {
                    return;
                }
            }
            let mut waiters = self.waiters.lock().unwrap();
            match waiters.pop_front() {
                Some(flag) => {
                    std::task::Waker::from(flag).wake();
                    if waiters.is_empty() {
                        self.word.store(EMPTY, std::sync::atomic::Ordering::Release);
                    }
                }
                None => self.word.store(STORED, std::sync::atomic::Ordering::Release),
            }
        }

        /// True if there was a notification; else `flag` is in the list.
        fn wait(&self, flag: &StdArc<Flag>) -> bool {
            if self.word.compare_exchange(STORED, EMPTY, AcqRel, Acquire).is_ok() {
                return true;
            }
            let mut waiters = self.waiters.lock().unwrap();
            if self.bug == Bug::NoSecondLook {
                self.word.store(WAITING, std::sync::atomic::Ordering::Release);
            } else if self.word.compare_exchange(STORED, EMPTY, AcqRel, Acquire).is_ok() {
                return true;
            } else if self.word.compare_exchange(EMPTY, WAITING, AcqRel, Acquire) == Err(STORED) {
                self.word.store(EMPTY, std::sync::atomic::Ordering::Release);
                return true;
            }
            waiters.push_back(flag.clone());
            false
        }

        fn leave(&self, flag: &StdArc<Flag>) {
            let was_notified = {
                let mut waiters = self.waiters.lock().unwrap();
                waiters.retain(|other| !StdArc::ptr_eq(other, flag));
                flag.is_set()
            };
            if was_notified && self.bug != Bug::ForgetsOnDrop {
                self.notify();
            }
        }
    }

    fn check(bug: Bug) {
        model(move || {
            let twin =
                Arc::new(Twin { bug, word: AtomicUsize::new(EMPTY), waiters: Mutex::new(VecDeque::new()) });
            let leaving = Flag::new();
            let is_queued = !twin.wait(&leaving);
            let theirs = twin.clone();
            let notifier = thread::spawn(move || theirs.notify());
            if is_queued {
                twin.leave(&leaving);
            }
            let staying = Flag::new();
            let is_ready = twin.wait(&staying);
            notifier.join().unwrap();
            assert!(is_ready || staying.is_set(), "lost notification");
        });
    }

    #[test]
    fn the_twin_without_a_bug_passes() {
        check(Bug::None);
    }

    #[test]
    #[should_panic(expected = "lost notification")]
    fn a_waiter_that_does_not_look_again_is_found() {
        check(Bug::NoSecondLook);
    }

    #[test]
    #[should_panic(expected = "lost notification")]
    fn a_waiter_that_keeps_what_it_did_not_see_is_found() {
        check(Bug::ForgetsOnDrop);
    }
}
