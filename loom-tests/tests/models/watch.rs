//! watch: readers see whole values, with the version that belongs to them; a send or the end of the senders
//! reaches each receiver that waits; a reader that holds the value may read again while a sender waits.
//!
//! Bounds: one sender, one or two receivers, each in a thread of its own; two slots in a table. The value is
//! a loom cell, so a reader that meets a writer is found.

use std::sync::Arc as StdArc;

use loom::future::block_on;
use runtime::sync::watch;

use super::flag::{Flag, poll};
use super::once_built::{model, thread};
use super::plain::Plain;

/// A number that the model checks for races.
struct Value(Plain<usize>);

// SAFETY: whether its accesses exclude each other is what the models are for.
unsafe impl Send for Value {}
// SAFETY: as above.
unsafe impl Sync for Value {}

impl Value {
    fn new(number: usize) -> Self {
        Self(Plain::new("the watched value", number))
    }

    fn get(&self) -> usize {
        // SAFETY: under the channel's lock; a bug is what the model is to find.
        self.0.with(|number| unsafe { *number })
    }

    fn set(&self, number: usize) {
        // SAFETY: as above.
        self.0.with_mut(|slot| unsafe { *slot = number });
    }
}

#[test]
fn a_reader_and_a_sender_exclude_each_other() {
    model(|| {
        let (tx, rx) = watch::channel(Value::new(0));
        let sender = thread::spawn(move || {
            tx.send_modify(|value| value.set(1));
            tx
        });
        let first = rx.borrow();
        // The version is that of the value.
        assert_eq!(first.has_changed(), first.get() == 1);
        let seen = first.get();
        drop(first);
        assert!(rx.borrow().get() >= seen, "a value went back");
        drop(sender.join().unwrap());
        assert_eq!(rx.borrow().get(), 1);
    });
}

#[test]
fn readers_that_meet_in_a_table_are_found_by_a_sender() {
    model(|| {
        let (tx, rx) = watch::channel(Value::new(0));
        let held = rx.borrow();
        let other = {
            let rx = rx.clone();
            // Meets `held` in the first slot.
            thread::spawn(move || rx.borrow().get())
        };
        assert_eq!(held.get(), 0);
        drop(held);
        tx.send_modify(|value| value.set(1));
        assert_eq!(rx.borrow().get(), 1);
        other.join().unwrap();
    });
}

#[test]
fn senders_exclude_each_other() {
    model(|| {
        let (tx, rx) = watch::channel(Value::new(0));
        let theirs = tx.clone();
        let other = thread::spawn(move || theirs.send_modify(|value| value.set(value.get() + 1)));
        tx.send_modify(|value| value.set(value.get() + 1));
        other.join().unwrap();
        assert_eq!(rx.borrow().get(), 2);
    });
}

#[test]
fn a_nested_read_waits_for_no_sender() {
    model(|| {
        let (tx, rx) = watch::channel(Value::new(0));
        let outer = rx.borrow();
        let sender = thread::spawn(move || tx.send_modify(|value| value.set(1)));
        let inner = rx.borrow();
        drop(outer);
        // Not 1: the sender waits for this reader, too.
        assert_eq!(inner.get(), 0);
        drop(inner);
        sender.join().unwrap();
        assert_eq!(rx.borrow().get(), 1);
    });
}

#[test]
fn a_receiver_that_waits_learns_of_a_send() {
    model(|| {
        let (tx, mut rx) = watch::channel(Value::new(0));
        let sender = thread::spawn(move || {
            tx.send_modify(|value| value.set(1));
            tx
        });
        block_on(rx.changed()).unwrap();
        assert_eq!(rx.borrow().get(), 1);
        drop(sender.join().unwrap());
        assert!(block_on(rx.changed()).is_err());
    });
}

#[test]
fn a_receiver_that_waits_learns_of_each_send_in_turn() {
    model(|| {
        let (tx, mut rx) = watch::channel(Value::new(0));
        let sender = thread::spawn(move || {
            tx.send_modify(|value| value.set(1));
            tx.send_modify(|value| value.set(2));
        });
        let mut seen = 0;
        while block_on(rx.changed()).is_ok() {
            let value = rx.borrow_and_update().get();
            assert!(value > seen, "a change without a new value");
            seen = value;
        }
        assert_eq!(seen, 2);
        sender.join().unwrap();
    });
}

#[test]
fn a_receiver_that_waits_learns_of_the_end() {
    model(|| {
        let (tx, mut rx) = watch::channel(Value::new(0));
        let sender = thread::spawn(move || drop(tx));
        assert!(block_on(rx.changed()).is_err());
        sender.join().unwrap();
    });
}

#[test]
fn a_receiver_that_leaves_keeps_no_other_from_the_news() {
    model(|| {
        let (tx, mut rx) = watch::channel(Value::new(0));
        let mut theirs = rx.clone();
        let flag = Flag::new();
        let mut leaving = Box::pin(theirs.changed());
        let mut staying = Box::pin(rx.changed());
        assert!(poll(leaving.as_mut(), &Flag::new()).is_pending());
        assert!(poll(staying.as_mut(), &flag).is_pending());
        let sender = thread::spawn(move || tx.send_modify(|value| value.set(1)));
        drop(leaving);
        sender.join().unwrap();
        assert!(flag.is_set(), "lost wake");
        assert!(poll(staying.as_mut(), &flag).is_ready());
    });
}

#[test]
fn a_sender_that_waits_for_the_end_learns_of_it() {
    model(|| {
        let (tx, rx) = watch::channel(());
        let tx = StdArc::new(tx);
        let receiver = thread::spawn(move || drop(rx));
        block_on(tx.closed());
        assert!(tx.is_closed());
        receiver.join().unwrap();
        assert!(!tx.subscribe().is_closed());
    });
}

mod twins {
    use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

    use loom::sync::atomic::{AtomicUsize, fence};
    use loom::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Copy, PartialEq)]
    enum LockBug {
        None,
        ChecksFirst,
        ScansFirst,
        ClearsTooWeakly,
        LowersTooWeakly,
    }

    /// ClaimSlot to LowerWriter, with one slot; a side that meets the other gives up.
    struct LockTwin {
        bug: LockBug,
        word: AtomicUsize,
        slot: AtomicUsize,
        value: Value,
    }

    impl LockTwin {
        fn read(&self) {
            let is_written = || {
                fence(SeqCst);
                self.word.load(SeqCst) != 0
            };
            if self.bug == LockBug::ChecksFirst && is_written() {
                return;
            }
            self.slot.swap(1, SeqCst);
            if self.bug == LockBug::ChecksFirst || !is_written() {
                self.value.get();
            }
            self.slot.store(0, if self.bug == LockBug::ClearsTooWeakly { Relaxed } else { Release });
        }

        fn write(&self) {
            let is_read = || {
                fence(SeqCst);
                self.slot.load(SeqCst) != 0
            };
            if self.bug == LockBug::ScansFirst && is_read() {
                return;
            }
            self.word.swap(1, SeqCst);
            if self.bug == LockBug::ScansFirst || !is_read() {
                self.value.set(1);
            }
            self.word.store(0, if self.bug == LockBug::LowersTooWeakly { Relaxed } else { Release });
        }
    }

    fn check_lock(bug: LockBug) {
        model(move || {
            let (word, slot) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let twin = Arc::new(LockTwin { bug, word, slot, value: Value::new(0) });
            let theirs = twin.clone();
            let writer = thread::spawn(move || theirs.write());
            twin.read();
            writer.join().unwrap();
        });
    }

    #[test]
    fn the_twin_of_the_lock_without_a_bug_passes() {
        check_lock(LockBug::None);
    }

    #[test]
    #[should_panic(expected = "data race on the watched value")]
    fn a_reader_that_checks_before_it_claims_is_found() {
        check_lock(LockBug::ChecksFirst);
    }

    #[test]
    #[should_panic(expected = "data race on the watched value")]
    fn a_writer_that_scans_before_it_raises_is_found() {
        check_lock(LockBug::ScansFirst);
    }

    #[test]
    #[should_panic(expected = "data race on the watched value")]
    fn a_slot_that_is_cleared_without_release_is_found() {
        check_lock(LockBug::ClearsTooWeakly);
    }

    #[test]
    #[should_panic(expected = "data race on the watched value")]
    fn a_writer_that_lowers_without_release_is_found() {
        check_lock(LockBug::LowersTooWeakly);
    }

    const WAITING: usize = 1;
    const VERSION: usize = 2;

    #[derive(Clone, Copy, PartialEq)]
    enum Bug {
        None,
        NoSecondLook,
        LooksBeforeItLocks,
        ClearsUnlocked,
    }

    /// CompareVersion to ReleaseOlder, with a list of flags for waiters.
    struct Twin {
        bug: Bug,
        word: AtomicUsize,
        waiters: Mutex<Vec<(usize, StdArc<Flag>)>>,
    }

    impl Twin {
        fn send(&self) {
            let word = self.word.fetch_add(VERSION, Release);
            if word & WAITING == 0 {
                return;
            }
            if self.bug == Bug::ClearsUnlocked {
                self.word.fetch_and(!WAITING, Relaxed);
            }
            let mut waiters = self.waiters.lock().unwrap();
            if waiters.is_empty() {
                self.word.fetch_and(!WAITING, Relaxed);
            }
            let version = word / VERSION + 1;
            waiters.retain(|(seen, flag)| {
                if *seen < version {
                    std::task::Waker::from(flag.clone()).wake();
                }
                *seen >= version
            });
        }

        /// True if there is something to see; else `flag` is in the list.
        fn wait(&self, seen: usize, flag: &StdArc<Flag>) -> bool {
            let mut word = self.word.load(Acquire);
            if word / VERSION != seen {
                return true;
            }
            let mut waiters = self.waiters.lock().unwrap();
            if self.bug == Bug::NoSecondLook {
                word = self.word.fetch_or(WAITING, AcqRel) | WAITING;
            } else if self.bug != Bug::LooksBeforeItLocks {
                word = self.word.load(Acquire);
            }
            loop {
                if word / VERSION != seen && self.bug != Bug::NoSecondLook {
                    return true;
                }
                if word & WAITING != 0 {
                    break;
                }
                match self.word.compare_exchange(word, word | WAITING, Acquire, Acquire) {
                    Ok(_) => break,
                    Err(actual) => word = actual,
                }
            }
            waiters.push((seen, flag.clone()));
            false
        }
    }

    fn check(bug: Bug) {
        model(move || {
            let twin = Arc::new(Twin { bug, word: AtomicUsize::new(0), waiters: Mutex::new(Vec::new()) });
            let theirs = twin.clone();
            let sender = thread::spawn(move || {
                theirs.send();
                theirs.send();
            });
            let (first, second) = (Flag::new(), Flag::new());
            let is_first_ready = twin.wait(0, &first);
            let is_second_ready = twin.wait(1, &second);
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
    fn a_receiver_that_does_not_look_again_is_found() {
        check(Bug::NoSecondLook);
    }

    #[test]
    #[should_panic(expected = "lost wake")]
    fn a_receiver_that_looks_before_it_has_the_lock_is_found() {
        check(Bug::LooksBeforeItLocks);
    }

    #[test]
    #[should_panic(expected = "lost wake")]
    fn a_sender_that_clears_the_mark_without_the_lock_is_found() {
        check(Bug::ClearsUnlocked);
    }
}
