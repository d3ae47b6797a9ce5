//! The capacity of a bounded channel, whose permits stand in the word of the queue's tail: no permit is lost
//! or made, and a sender that waits for one is served or refused, whatever other threads send, receive, close
//! or leave meanwhile.
//!
//! Bounds: a capacity of one or two, blocks of two values, one thread beside the main one.

use std::future::Future;
use std::pin::Pin;

use loom::future::block_on;
use runtime::sync::mpsc::{self, Sender};

use super::flag::{Flag, poll};
use super::once_built::{model, thread};

type Sending = Pin<Box<dyn Future<Output = bool> + Send>>;

fn sending(tx: &Sender<usize>, value: usize) -> Sending {
    let tx = tx.clone();
    Box::pin(async move { tx.send(value).await.is_ok() })
}

#[test]
fn two_senders_that_wait_for_the_only_room_are_both_served() {
    model(|| {
        let (tx, mut rx) = mpsc::channel(1);
        let other = tx.clone();
        let sender = thread::spawn(move || block_on(other.send(1)).unwrap());
        let (flag, mut mine) = (Flag::new(), sending(&tx, 2));
        let mut is_sent = poll(mine.as_mut(), &flag).is_ready();
        let mut sum = block_on(rx.recv()).unwrap();
        if !is_sent {
            assert!(flag.is_set(), "not served");
            is_sent = poll(mine.as_mut(), &flag).is_ready();
        }
        assert!(is_sent);
        sum += block_on(rx.recv()).unwrap();
        sender.join().unwrap();
        assert_eq!(sum, 3);
        assert_eq!(tx.capacity(), 1);
    });
}

#[test]
fn room_that_was_granted_to_a_sender_that_leaves_goes_to_the_next() {
    model(|| {
        let (tx, mut rx) = mpsc::channel(1);
        tx.try_send(1).unwrap();
        let (mut leaving, mut staying) = (sending(&tx, 2), sending(&tx, 3));
        let flag = Flag::new();
        assert!(poll(leaving.as_mut(), &Flag::new()).is_pending());
        assert!(poll(staying.as_mut(), &flag).is_pending());
        let receiver = thread::spawn(move || {
            assert_eq!(rx.try_recv(), Ok(1));
            rx
        });
        drop(leaving);
        let mut rx = receiver.join().unwrap();
        assert!(flag.is_set(), "lost room");
        assert!(poll(staying.as_mut(), &flag).is_ready());
        assert_eq!(rx.try_recv(), Ok(3));
        assert_eq!(tx.capacity(), 1);
    });
}

#[test]
fn room_comes_back_while_a_permit_is_taken_and_a_value_sent() {
    model(|| {
        let (tx, mut rx) = mpsc::channel(2);
        tx.try_send(1).unwrap();
        let sender = thread::spawn(move || {
            let permit = tx.try_reserve().unwrap();
            let is_sent = tx.try_send(2).is_ok();
            permit.send(3);
            (tx, is_sent)
        });
        assert_eq!(rx.try_recv(), Ok(1));
        let (tx, is_sent) = sender.join().unwrap();
        assert_eq!(tx.capacity(), if is_sent { 0 } else { 1 });
        while rx.try_recv().is_ok() {}
        assert_eq!(tx.capacity(), 2);
    });
}

#[test]
fn a_close_refuses_the_sender_that_waits() {
    model(|| {
        let (tx, mut rx) = mpsc::channel(1);
        tx.try_send(1).unwrap();
        let closer = thread::spawn(move || {
            rx.close();
            rx
        });
        assert!(!block_on(sending(&tx, 2)));
        let mut rx = closer.join().unwrap();
        assert_eq!(block_on(rx.recv()), Some(1));
        assert_eq!(block_on(rx.recv()), None);
    });
}

#[test]
fn the_end_of_a_closed_channel_is_seen_when_granted_room_is_given_up() {
    model(|| {
        let (tx, mut rx) = mpsc::channel(1);
        tx.try_send(1).unwrap();
        let mut leaving = sending(&tx, 2);
        assert!(poll(leaving.as_mut(), &Flag::new()).is_pending());
        assert_eq!(rx.try_recv(), Ok(1));
        rx.close();
        let leaver = thread::spawn(move || drop(leaving));
        assert_eq!(block_on(rx.recv()), None);
        leaver.join().unwrap();
        drop(tx);
    });
}

/// The sender finds the close, or was served before: then its value comes.
#[test]
fn the_end_of_a_closed_channel_is_seen_when_granted_room_is_refused() {
    model(|| {
        let (tx, mut rx) = mpsc::channel(1);
        tx.try_send(1).unwrap();
        let mut granted = sending(&tx, 2);
        assert!(poll(granted.as_mut(), &Flag::new()).is_pending());
        assert_eq!(rx.try_recv(), Ok(1));
        let sender = thread::spawn(move || block_on(granted));
        rx.close();
        let received = block_on(rx.recv());
        assert_eq!(received.is_some(), sender.join().unwrap());
        assert_eq!(tx.capacity(), 1);
        drop(tx);
    });
}

mod twins {
    use std::collections::VecDeque;
    use std::sync::Arc as StdArc;
    use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
    use std::task::Waker;

    use loom::sync::atomic::AtomicUsize;
    use loom::sync::{Arc, Mutex};

    use super::*;

    const QUEUED: usize = 1;
    const FREE: usize = 2;

    #[derive(Clone, Copy, PartialEq)]
    enum Bug {
        None,
        QueuedWithoutLook,
        LookBeforeGive,
        ClearByStore,
    }

    /// CapacityTake to CapacityJoin and CapacityGive to CapacitySettle for single permits, with a queue of
    /// flags for waiters.
    struct Twin {
        bug: Bug,
        word: AtomicUsize,
        waiters: Mutex<VecDeque<StdArc<Flag>>>,
    }

    impl Twin {
        fn give(&self) {
            let before = self.word.load(Acquire);
            let word = self.word.fetch_add(FREE, AcqRel);
            let seen = if self.bug == Bug::LookBeforeGive { before } else { word };
            if seen & QUEUED != 0 {
                self.serve();
            }
        }

        fn serve(&self) {
            let mut waiters = self.waiters.lock().unwrap();
            while let Some(flag) = waiters.front() {
                let word = self.word.load(Acquire);
                if word < FREE {
                    return;
                }
                if self.word.compare_exchange(word, word - FREE, AcqRel, Acquire).is_ok() {
                    Waker::from(flag.clone()).wake();
                    waiters.pop_front();
                }
            }
            if self.bug == Bug::ClearByStore {
                let word = self.word.load(Acquire);
                self.word.store(word & !QUEUED, Release);
            } else {
                self.word.fetch_and(!QUEUED, AcqRel);
            }
        }

        /// True if a permit was taken; else `flag` is in the list.
        fn take(&self, flag: &StdArc<Flag>) -> bool {
            let mut waiters = self.waiters.lock().unwrap();
            let mut word = self.word.load(Acquire);
            while word & QUEUED == 0 {
                let is_free = word >= FREE;
                if !is_free && self.bug == Bug::QueuedWithoutLook {
                    self.word.fetch_or(QUEUED, AcqRel);
                    break;
                }
                let next = if is_free { word - FREE } else { word | QUEUED };
                match self.word.compare_exchange(word, next, AcqRel, Acquire) {
                    Ok(_) if is_free => return true,
                    Ok(_) => break,
                    Err(actual) => word = actual,
                }
            }
            waiters.push_back(flag.clone());
            false
        }
    }

    /// One thread takes a permit, and two permits come.
    fn check(bug: Bug) {
        model(move || {
            let twin =
                Arc::new(Twin { bug, word: AtomicUsize::new(0), waiters: Mutex::new(VecDeque::new()) });
            let givers = [(); 2].map(|()| {
                let twin = twin.clone();
                thread::spawn(move || twin.give())
            });
            let flag = Flag::new();
            let is_taken = twin.take(&flag);
            givers.into_iter().for_each(|giver| giver.join().unwrap());
            assert!(is_taken || flag.is_set(), "not served");
            assert_eq!(twin.word.load(Acquire), FREE, "lost room");
        });
    }

    #[test]
    fn the_twin_without_a_bug_passes() {
        check(Bug::None);
    }

    #[test]
    #[should_panic(expected = "not served")]
    fn a_taker_that_does_not_look_again_is_found() {
        check(Bug::QueuedWithoutLook);
    }

    #[test]
    #[should_panic(expected = "not served")]
    fn a_giver_that_looks_for_waiters_before_it_gives_is_found() {
        check(Bug::LookBeforeGive);
    }

    #[test]
    #[should_panic(expected = "lost room")]
    fn a_line_that_ends_with_a_plain_store_is_found() {
        check(Bug::ClearByStore);
    }
}
