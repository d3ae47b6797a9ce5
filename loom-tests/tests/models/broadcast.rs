//! broadcast: each receiver gets each value whole, or is told that it missed it; a value is dropped once,
//! when no receiver has still to take it; a receiver that waits learns of the next value, or of the end.
//!
//! Bounds: rings of one and two slots, one or two senders, up to three receivers. A value has a loom `Arc`,
//! whose leak or second drop a model reports, and a loom cell, so two threads that use a value at once are
//! found.

use std::sync::Arc as StdArc;

use loom::future::block_on;
use loom::sync::Arc;
use runtime::sync::broadcast::error::{RecvError, TryRecvError};
use runtime::sync::broadcast::{self, Receiver};

use super::flag::{Flag, poll};
use super::once_built::{model, thread};
use super::plain::Plain;

/// A number that is `Send` and not `Sync`: a clone writes to what it clones.
struct Value {
    number: usize,
    clones: Plain<usize>,
    _watched: Arc<()>,
}

impl Value {
    fn new(number: usize) -> Self {
        Self { number, clones: Plain::new("the clones of a value", 0), _watched: Arc::new(()) }
    }
}

impl Clone for Value {
    fn clone(&self) -> Self {
        // SAFETY: one thread at a time is at a value; a bug is what the models are to find.
        self.clones.with_mut(|clones| unsafe { *clones += 1 });
        Self {
            number: self.number,
            clones: Plain::new("the clones of a value", 0),
            _watched: self._watched.clone(),
        }
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.clones.with_mut(|_| ());
    }
}

/// Receives to the end. Returns the numbers, with 0 for each value that was missed.
fn collect(mut rx: Receiver<Value>) -> Vec<usize> {
    let mut numbers = Vec::new();
    loop {
        match block_on(rx.recv()) {
            Ok(value) => numbers.push(value.number),
            Err(RecvError::Lagged(missed)) => (0..missed).for_each(|_| numbers.push(0)),
            Err(RecvError::Closed) => return numbers,
        }
    }
}

#[test]
fn a_receiver_that_waits_gets_the_value_and_learns_of_the_end() {
    model(|| {
        let (tx, rx) = broadcast::channel(2);
        let sender = thread::spawn(move || drop(tx.send(Value::new(7))));
        assert_eq!(collect(rx), [7]);
        sender.join().unwrap();
    });
}

#[test]
fn two_receivers_take_a_value_in_turn() {
    model(|| {
        let (tx, mut first) = broadcast::channel(1);
        let mut second = tx.subscribe();
        assert!(tx.send(Value::new(7)).is_ok());
        let other = thread::spawn(move || second.try_recv().map(|value| value.number));
        assert_eq!(first.try_recv().map(|value| value.number), Ok(7));
        assert_eq!(other.join().unwrap(), Ok(7));
        assert!(tx.is_empty(), "a value that all have taken is there");
    });
}

#[test]
fn a_value_is_overwritten_or_taken() {
    model(|| {
        let (tx, rx) = broadcast::channel(1);
        let other = tx.subscribe();
        assert!(tx.send(Value::new(1)).is_ok());
        let receiver = thread::spawn(move || collect(rx));
        assert!(tx.send(Value::new(2)).is_ok());
        drop((other, tx));
        let numbers = receiver.join().unwrap();
        assert!(numbers == [1, 2] || numbers == [0, 2], "{numbers:?}");
    });
}

#[test]
fn two_senders_put_their_values_in_one_order() {
    model(|| {
        let (tx, rx) = broadcast::channel(2);
        let (theirs, second) = (tx.clone(), rx.resubscribe());
        let other = thread::spawn(move || drop(theirs.send(Value::new(1))));
        assert!(tx.send(Value::new(2)).is_ok());
        drop(tx);
        let numbers = collect(rx);
        other.join().unwrap();
        assert!(numbers == [1, 2] || numbers == [2, 1], "{numbers:?}");
        assert_eq!(collect(second), numbers);
    });
}

#[test]
fn a_receiver_that_leaves_takes_what_is_left_for_it() {
    model(|| {
        let (tx, rx) = broadcast::channel(2);
        let mut staying = tx.subscribe();
        let leaver = thread::spawn(move || drop(rx));
        let receivers = tx.send(Value::new(7));
        assert!(matches!(receivers, Ok(1 | 2)));
        leaver.join().unwrap();
        assert_eq!(tx.len(), 1);
        assert_eq!(staying.try_recv().map(|value| value.number), Ok(7));
        assert!(tx.is_empty(), "a value that all have taken is there");
    });
}

#[test]
fn a_receiver_that_is_made_gets_what_is_sent_from_then_on() {
    model(|| {
        let (tx, mut first) = broadcast::channel(2);
        let theirs = tx.clone();
        let sender = thread::spawn(move || theirs.send(Value::new(7)).ok());
        let mut second = tx.subscribe();
        let receivers = sender.join().unwrap();
        let is_counted = second.try_recv().is_ok();
        assert_eq!(receivers, Some(if is_counted { 2 } else { 1 }));
        assert!(first.try_recv().is_ok() && tx.is_empty());
    });
}

#[test]
fn a_receiver_that_gives_up_keeps_no_other_from_the_value() {
    model(|| {
        let (tx, mut rx) = broadcast::channel(2);
        let mut theirs = tx.subscribe();
        let flag = Flag::new();
        let mut leaving = Box::pin(theirs.recv());
        let mut staying = Box::pin(rx.recv());
        assert!(poll(leaving.as_mut(), &Flag::new()).is_pending());
        assert!(poll(staying.as_mut(), &flag).is_pending());
        let sender = thread::spawn(move || drop(tx.send(Value::new(7))));
        drop(leaving);
        sender.join().unwrap();
        assert!(flag.is_set(), "lost wake");
        assert!(poll(staying.as_mut(), &flag).is_ready());
    });
}

#[test]
fn a_receiver_that_joins_a_line_that_is_marked_is_not_forgotten() {
    model(|| {
        let (tx, mut rx) = broadcast::channel(2);
        let mut theirs = tx.subscribe();
        // Leaves the mark behind.
        assert!(poll(Box::pin(theirs.recv()).as_mut(), &Flag::new()).is_pending());
        let sender = thread::spawn(move || {
            drop(tx.send(Value::new(7)));
            tx
        });
        let flag = Flag::new();
        let mut recv = Box::pin(rx.recv());
        let result = poll(recv.as_mut(), &flag);
        let tx = sender.join().unwrap();
        assert!(result.is_ready() || flag.is_set(), "lost wake");
        drop((recv, tx));
    });
}

#[test]
fn a_receiver_that_is_ahead_of_the_others_keeps_none_of_them_asleep() {
    model(|| {
        let (tx, mut rx) = broadcast::channel(2);
        let (mut quick, mut theirs) = (tx.subscribe(), tx.subscribe());
        // Leaves the mark behind.
        assert!(poll(Box::pin(theirs.recv()).as_mut(), &Flag::new()).is_pending());
        let sender = thread::spawn(move || {
            drop(tx.send(Value::new(7)));
            tx
        });
        let quick = thread::spawn(move || {
            let has_value = quick.try_recv().is_ok();
            let mut recv = Box::pin(async move { quick.recv().await.is_ok() });
            if has_value {
                // Joins the wait list for the next value, perhaps before the other does for this one.
                assert!(poll(recv.as_mut(), &Flag::new()).is_pending());
            }
            recv
        });
        let flag = Flag::new();
        let mut recv = Box::pin(rx.recv());
        let result = poll(recv.as_mut(), &flag);
        let tx = sender.join().unwrap();
        let quick = quick.join().unwrap();
        assert!(result.is_ready() || flag.is_set(), "lost wake");
        drop((recv, quick, tx));
    });
}

#[test]
fn a_sender_that_waits_for_the_end_learns_of_it() {
    model(|| {
        let (tx, rx) = broadcast::channel::<Value>(1);
        let tx = StdArc::new(tx);
        let receiver = thread::spawn(move || drop(rx));
        block_on(tx.closed());
        assert!(tx.send(Value::new(7)).is_err());
        receiver.join().unwrap();
    });
}

#[test]
fn a_look_at_an_empty_channel_tells_what_is_to_come() {
    model(|| {
        let (tx, mut rx) = broadcast::channel(2);
        let sender = thread::spawn(move || drop(tx.send(Value::new(7))));
        loop {
            match rx.try_recv().map(|value| value.number) {
                Ok(number) => break assert_eq!(number, 7),
                Err(TryRecvError::Empty) => thread::yield_now(),
                Err(error) => panic!("{error:?} before the value"),
            }
        }
        sender.join().unwrap();
        assert_eq!(rx.try_recv().err(), Some(TryRecvError::Closed));
    });
}

mod twins {
    use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

    use loom::sync::Mutex;
    use loom::sync::atomic::{AtomicBool, AtomicUsize};

    use super::*;

    const EMPTY: usize = 0;
    const FULL: usize = 1;
    const LOCKED: usize = 2;
    const STAMP: usize = 4;

    #[derive(Clone, Copy, PartialEq)]
    enum SlotBug {
        None,
        StampsFirst,
        OverwritesUnlocked,
        UnlocksTooWeakly,
    }

    /// A ring with one slot, which two threads are to take from; a thread that finds another there gives up.
    struct SlotTwin {
        bug: SlotBug,
        word: AtomicUsize,
        value: Plain<usize>,
    }

    impl SlotTwin {
        fn put(&self, position: usize) {
            let word = self.word.load(Acquire);
            let locks = word & 3 == FULL && self.bug != SlotBug::OverwritesUnlocked;
            let locked = word ^ FULL ^ LOCKED;
            if word & 3 == LOCKED
                || locks && self.word.compare_exchange(word, locked, Acquire, Relaxed).is_err()
            {
                return;
            }
            // SAFETY: the slot is ours; a bug is what the model is to find.
            let write = || self.value.with_mut(|value| unsafe { *value = position });
            if self.bug != SlotBug::StampsFirst {
                write();
            }
            self.word.store((position + 1) * STAMP + FULL, Release);
            if self.bug == SlotBug::StampsFirst {
                write();
            }
        }

        fn take(&self, position: usize, then: usize) {
            let stamp = (position + 1) * STAMP;
            if self.word.compare_exchange(stamp | FULL, stamp | LOCKED, Acquire, Acquire).is_ok() {
                // SAFETY: as above.
                assert_eq!(self.value.with(|value| unsafe { *value }), position);
                let ordering = if self.bug == SlotBug::UnlocksTooWeakly { Relaxed } else { Release };
                self.word.store(stamp | then, ordering);
            }
        }
    }

    fn check_slot(bug: SlotBug) {
        model(move || {
            let twin = Arc::new(SlotTwin {
                bug,
                word: AtomicUsize::new(EMPTY),
                value: Plain::new("the slot's value", 0),
            });
            let theirs = twin.clone();
            let receiver = thread::spawn(move || {
                theirs.take(0, FULL);
                theirs.take(0, EMPTY);
            });
            twin.put(0);
            twin.put(1);
            receiver.join().unwrap();
        });
    }

    #[test]
    fn the_twin_of_a_slot_without_a_bug_passes() {
        check_slot(SlotBug::None);
    }

    #[test]
    #[should_panic(expected = "data race on the slot's value")]
    fn a_value_that_is_stamped_before_it_is_written_is_found() {
        check_slot(SlotBug::StampsFirst);
    }

    #[test]
    #[should_panic(expected = "data race on the slot's value")]
    fn a_sender_that_overwrites_what_is_not_locked_is_found() {
        check_slot(SlotBug::OverwritesUnlocked);
    }

    #[test]
    #[should_panic(expected = "data race on the slot's value")]
    fn a_slot_that_is_unlocked_without_release_is_found() {
        check_slot(SlotBug::UnlocksTooWeakly);
    }

    #[derive(Clone, Copy, PartialEq)]
    enum Bug {
        None,
        MarksUnlocked,
        ReadsBeforeItMoves,
        ClearsUnderOneLock,
    }

    /// LockTail to JoinWaiters, with a list of flags for waiters.
    struct Twin {
        bug: Bug,
        tail: Mutex<()>,
        end: AtomicUsize,
        may_wait: AtomicBool,
        waiters: Mutex<Vec<StdArc<Flag>>>,
    }

    impl Twin {
        fn send(&self) {
            let mut may_wait = self.bug == Bug::ReadsBeforeItMoves && self.may_wait.load(Relaxed);
            {
                let _tail = self.tail.lock().unwrap();
                let end = self.end.load(Relaxed);
                self.end.store(end + 1, Release);
                if self.bug != Bug::ReadsBeforeItMoves {
                    may_wait = self.may_wait.load(Relaxed);
                }
            }
            if !may_wait {
                return;
            }
            let mut waiters = self.waiters.lock().unwrap();
            if waiters.is_empty() {
                if self.bug == Bug::ClearsUnderOneLock {
                    // Under the lock of the tail alone.
                    drop(waiters);
                    let _tail = self.tail.lock().unwrap();
                    return self.may_wait.store(false, Relaxed);
                }
                let _tail = self.tail.lock().unwrap();
                self.may_wait.store(false, Relaxed);
            }
            waiters.drain(..).for_each(|flag| std::task::Waker::from(flag).wake());
        }

        /// True if the end is above `position`; else `flag` is in the list.
        fn wait(&self, position: usize, flag: &StdArc<Flag>) -> bool {
            let mut waiters = self.waiters.lock().unwrap();
            if self.end.load(Acquire) > position {
                return true;
            }
            if !self.may_wait.load(Relaxed) {
                let tail = (self.bug != Bug::MarksUnlocked).then(|| self.tail.lock().unwrap());
                if self.end.load(Acquire) > position {
                    return true;
                }
                self.may_wait.store(true, Relaxed);
                drop(tail);
            }
            waiters.push(flag.clone());
            false
        }
    }

    fn check(bug: Bug) {
        model(move || {
            let twin = Arc::new(Twin {
                bug,
                tail: Mutex::new(()),
                end: AtomicUsize::new(0),
                // As a waiter that gave up has left it.
                may_wait: AtomicBool::new(bug != Bug::ReadsBeforeItMoves && bug != Bug::MarksUnlocked),
                waiters: Mutex::new(Vec::new()),
            });
            let theirs = twin.clone();
            let sender = thread::spawn(move || {
                theirs.send();
                theirs.send();
            });
            let (first, second) = (Flag::new(), Flag::new());
            let is_first_ready = twin.wait(0, &first);
            let is_second_ready = !is_first_ready || twin.wait(1, &second);
            sender.join().unwrap();
            assert!(is_first_ready || first.is_set(), "lost wake");
            assert!(is_second_ready || second.is_set(), "lost wake");
        });
    }

    #[test]
    fn the_twin_without_a_bug_passes() {
        check(Bug::None);
    }

    #[test]
    #[should_panic(expected = "lost wake")]
    fn a_receiver_that_marks_without_the_lock_is_found() {
        check(Bug::MarksUnlocked);
    }

    #[test]
    #[should_panic(expected = "lost wake")]
    fn a_sender_that_reads_the_mark_before_it_moves_the_end_is_found() {
        check(Bug::ReadsBeforeItMoves);
    }

    #[test]
    #[should_panic(expected = "lost wake")]
    fn a_mark_that_is_cleared_under_one_lock_is_found() {
        check(Bug::ClearsUnderOneLock);
    }
}
