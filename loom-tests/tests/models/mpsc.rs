//! mpsc: every value is received once, in its sender's order; the receiver sleeps through no value, nor
//! through the end.
//!
//! Bounds: two senders, blocks of two values (so three values use two blocks). The payload is a loom `Arc`,
//! whose leak or second drop a model reports.

use std::task::Poll;

use loom::future::block_on;
use loom::sync::Arc;
use runtime::sync::mpsc;

use super::flag::{Flag, poll};
use super::once_built::{model, thread};
use super::plain::Plain;

#[test]
fn two_senders_fill_two_blocks_and_nothing_is_lost_or_reordered() {
    model(|| {
        let (tx, mut rx) = mpsc::unbounded_channel();
        let other = tx.clone();
        let sender = thread::spawn(move || {
            other.send(10).unwrap();
            other.send(11).unwrap();
        });
        tx.send(20).unwrap();
        drop(tx);
        let mut values = Vec::new();
        while let Some(value) = block_on(rx.recv()) {
            values.push(value);
        }
        sender.join().unwrap();
        let place = |value| values.iter().position(|v| *v == value).expect("received");
        assert!(place(10) < place(11), "{values:?}");
        assert_eq!(values.len(), 3);
        assert!(place(20) < 3);
    });
}

#[test]
fn two_senders_race_for_the_last_slot_of_a_block() {
    model(|| {
        let (tx, mut rx) = mpsc::unbounded_channel();
        tx.send(Arc::new(0)).unwrap();
        let other = tx.clone();
        let sender = thread::spawn(move || other.send(Arc::new(1)).unwrap());
        tx.send(Arc::new(2)).unwrap();
        sender.join().unwrap();
        assert_eq!(rx.len(), 3);
        let sum: i32 = (0..3).map(|_| *rx.try_recv().unwrap()).sum();
        assert_eq!(sum, 3);
        // A second lap: the first block comes back.
        tx.send(Arc::new(4)).unwrap();
        assert_eq!(*rx.try_recv().unwrap(), 4);
    });
}

#[test]
fn a_receiver_is_woken_through_its_last_waker() {
    model(|| {
        let (tx, mut rx) = mpsc::unbounded_channel();
        let sender = thread::spawn(move || {
            tx.send(1).unwrap();
            tx
        });
        let (first, second) = (Flag::new(), Flag::new());
        let mut result = poll(std::pin::pin!(rx.recv()), &first);
        if result.is_pending() {
            result = poll(std::pin::pin!(rx.recv()), &second);
        }
        let _tx = sender.join().unwrap();
        if result.is_pending() {
            assert!(second.is_set(), "lost wake");
            result = poll(std::pin::pin!(rx.recv()), &second);
        }
        assert_eq!(result, Poll::Ready(Some(1)));
    });
}

#[test]
fn the_end_wakes_the_receiver() {
    model(|| {
        let (tx, mut rx) = mpsc::unbounded_channel::<i32>();
        let other = tx.clone();
        let sender = thread::spawn(move || drop(other));
        drop(tx);
        assert_eq!(block_on(rx.recv()), None);
        sender.join().unwrap();
    });
}

#[test]
fn a_value_sent_while_the_receiver_leaves_is_dropped_once() {
    model(|| {
        let (tx, rx) = mpsc::unbounded_channel();
        let sender = thread::spawn(move || {
            let _ = tx.send(Arc::new(1));
            let _ = tx.send(Arc::new(2));
        });
        drop(rx);
        sender.join().unwrap();
    });
}

/// The senders may wait for what is in their values. So these do not stay until the channel goes.
#[test]
fn values_sent_while_the_receiver_leaves_are_dropped_before_the_channel() {
    model(|| {
        let (tx, rx) = mpsc::unbounded_channel();
        let values = [1, 2].map(Arc::new);
        let senders = values.clone().map(|value| {
            let tx = tx.clone();
            thread::spawn(move || drop(tx.send(value)))
        });
        drop(rx);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        let kept = values.map(|value| Arc::strong_count(&value) - 1);
        assert_eq!(kept, [0, 0], "values stay in a channel without a receiver");
        drop(tx);
    });
}

#[test]
fn a_full_channel_lets_the_sender_on_when_a_value_is_received() {
    model(|| {
        let (tx, mut rx) = mpsc::channel(1);
        let sender = thread::spawn(move || {
            block_on(tx.send(1)).unwrap();
            block_on(tx.send(2)).unwrap();
        });
        assert_eq!(block_on(rx.recv()), Some(1));
        assert_eq!(block_on(rx.recv()), Some(2));
        sender.join().unwrap();
    });
}

#[test]
fn a_closed_channel_ends_when_the_last_permit_is_dropped() {
    model(|| {
        let (tx, mut rx) = mpsc::channel::<i32>(1);
        let permit = tx.clone().try_reserve_owned().unwrap();
        let holder = thread::spawn(move || drop(permit));
        rx.close();
        assert_eq!(block_on(rx.recv()), None);
        holder.join().unwrap();
        drop(tx);
    });
}

mod twins {
    use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
    use std::task::{Context, Waker};

    use loom::sync::atomic::{AtomicBool, AtomicUsize};

    use super::*;

    const PARKED: usize = 1;
    const ONE: usize = 2;

    #[derive(Clone, Copy, PartialEq)]
    enum Bug {
        None,
        ParkWithoutLook,
        WakerAfterSlot,
        ValueAfterSlot,
    }

    /// The handshake of MpscClaim to MpscFill and MpscWaker, MpscPark, over two slots that are never used
    /// again.
    struct Twin {
        bug: Bug,
        tail: AtomicUsize,
        full: [AtomicBool; 2],
        value: [Plain<usize>; 2],
        waker: Plain<Option<Waker>>,
    }

    impl Twin {
        fn push(&self, value: usize) {
            let mut word = self.tail.load(Acquire);
            while let Err(actual) = self.tail.compare_exchange(word, (word + ONE) & !PARKED, AcqRel, Acquire)
            {
                word = actual;
            }
            let at = word / ONE;
            let take = || {
                // SAFETY: the thread that cleared PARKED has the slot; whether that is so is what the cell
                // checks.
                (word & PARKED != 0).then(|| self.waker.with_mut(|slot| unsafe { (*slot).take() }).unwrap())
            };
            // SAFETY: claimed above.
            let write = || self.value[at].with_mut(|slot| unsafe { *slot = value });
            let early = if self.bug != Bug::WakerAfterSlot { take() } else { None };
            if self.bug != Bug::ValueAfterSlot {
                write();
            }
            self.full[at].store(true, Release);
            if self.bug == Bug::ValueAfterSlot {
                write();
            }
            let late = if self.bug == Bug::WakerAfterSlot { take() } else { None };
            if let Some(waker) = early.or(late) {
                waker.wake();
            }
        }

        fn poll(&self, head: usize, cx: &mut Context<'_>) -> Poll<usize> {
            loop {
                if self.full[head].load(Acquire) {
                    // SAFETY: full, so ours.
                    return Poll::Ready(self.value[head].with(|slot| unsafe { *slot }));
                }
                let word = self.tail.load(Acquire);
                if word / ONE != head && self.bug != Bug::ParkWithoutLook {
                    thread::yield_now();
                    continue;
                }
                if word & PARKED == 0 {
                    // SAFETY: not PARKED, and the head is the tail: ours.
                    self.waker.with_mut(|slot| unsafe { *slot = Some(cx.waker().clone()) });
                }
                let is_parked = match self.bug {
                    Bug::ParkWithoutLook => {
                        self.tail.fetch_or(PARKED, AcqRel);
                        true
                    }
                    _ => self.tail.compare_exchange(word, word | PARKED, AcqRel, Acquire).is_ok(),
                };
                if is_parked {
                    return Poll::Pending;
                }
            }
        }
    }

    fn check(bug: Bug) {
        model(move || {
            let twin = Arc::new(Twin {
                bug,
                tail: AtomicUsize::new(0),
                full: [AtomicBool::new(false), AtomicBool::new(false)],
                value: [Plain::new("a value", 0), Plain::new("a value", 0)],
                waker: Plain::new("the receiver's waker", None),
            });
            let theirs = twin.clone();
            let sender = thread::spawn(move || theirs.push(7));
            let (first, second) = (Flag::new(), Flag::new());
            let mut result = poll(std::pin::pin!(std::future::poll_fn(|cx| twin.poll(0, cx))), &first);
            let mut next = Poll::Pending;
            if result.is_pending() {
                // The receiver is polled once more: a second look at the same place.
                result = poll(std::pin::pin!(std::future::poll_fn(|cx| twin.poll(0, cx))), &first);
            }
            if result.is_ready() {
                next = poll(std::pin::pin!(std::future::poll_fn(|cx| twin.poll(1, cx))), &second);
            }
            sender.join().unwrap();
            if result.is_pending() {
                assert!(first.is_set(), "lost wake");
                result = poll(std::pin::pin!(std::future::poll_fn(|cx| twin.poll(0, cx))), &first);
            }
            assert_eq!(result, Poll::Ready(7));
            assert!(next.is_pending());
        });
    }

    #[test]
    fn the_twin_without_a_bug_passes() {
        check(Bug::None);
    }

    #[test]
    #[should_panic(expected = "data race on the receiver's waker")]
    fn parking_without_looking_at_the_tail_is_found() {
        check(Bug::ParkWithoutLook);
    }

    #[test]
    #[should_panic(expected = "data race on the receiver's waker")]
    fn a_waker_moved_out_after_the_slot_was_filled_is_found() {
        check(Bug::WakerAfterSlot);
    }

    #[test]
    #[should_panic(expected = "data race on a value")]
    fn a_value_written_after_the_slot_was_filled_is_found() {
        check(Bug::ValueAfterSlot);
    }
}
