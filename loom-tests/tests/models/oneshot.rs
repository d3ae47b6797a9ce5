//! oneshot: a value sent is received or dropped, once; neither side sleeps through it; the cell is freed by
//! the last to leave.
//!
//! Bounds: one thread a side. The payload is a loom `Arc`, whose leak or second drop a model reports.

use std::pin::Pin;
use std::task::Poll;

use loom::sync::Arc;
use runtime::sync::oneshot;

use super::flag::{Flag, poll};
use super::once_built::{model, thread};
use super::plain::Plain;

#[test]
fn a_receiver_that_waits_is_woken_through_its_last_waker() {
    model(|| {
        let (tx, mut rx) = oneshot::channel();
        let sender = thread::spawn(move || tx.send(Arc::new(3)).unwrap());
        let (first, second) = (Flag::new(), Flag::new());
        let mut result = poll(Pin::new(&mut rx), &first);
        if result.is_pending() {
            result = poll(Pin::new(&mut rx), &second);
        }
        sender.join().unwrap();
        if result.is_pending() {
            assert!(second.is_set(), "lost wake");
            result = poll(Pin::new(&mut rx), &second);
        }
        assert!(matches!(result, Poll::Ready(Ok(value)) if *value == 3));
    });
}

#[test]
fn a_value_is_dropped_once_if_the_receiver_leaves_while_it_is_sent() {
    model(|| {
        let (tx, mut rx) = oneshot::channel();
        let sender = thread::spawn(move || drop(tx.send(Arc::new(3))));
        let _ = poll(Pin::new(&mut rx), &Flag::new());
        drop(rx);
        sender.join().unwrap();
    });
}

#[test]
fn a_sender_that_leaves_ends_the_wait() {
    model(|| {
        let (tx, mut rx) = oneshot::channel::<Arc<i32>>();
        let sender = thread::spawn(move || drop(tx));
        let flag = Flag::new();
        let result = poll(Pin::new(&mut rx), &flag);
        sender.join().unwrap();
        match result {
            Poll::Pending => assert!(flag.is_set(), "lost wake"),
            Poll::Ready(result) => assert!(result.is_err()),
        }
    });
}

#[test]
fn a_close_decides_with_the_sender_whether_there_is_a_value() {
    model(|| {
        let (tx, mut rx) = oneshot::channel();
        let sender = thread::spawn(move || tx.send(Arc::new(3)).is_ok());
        let flag = Flag::new();
        let mut was_received = matches!(poll(Pin::new(&mut rx), &flag), Poll::Ready(Ok(_)));
        if !was_received {
            rx.close();
            was_received = rx.try_recv().is_ok();
        }
        assert_eq!(sender.join().unwrap(), was_received);
        assert_eq!(std::sync::Arc::strong_count(&flag), 1, "leaked waker");
    });
}

#[test]
fn a_sender_that_waits_for_the_end_is_woken() {
    model(|| {
        let (mut tx, rx) = oneshot::channel::<Arc<i32>>();
        let receiver = thread::spawn(move || drop(rx));
        let (first, second) = (Flag::new(), Flag::new());
        let mut is_closed = poll(std::pin::pin!(tx.closed()), &first).is_ready();
        if !is_closed {
            is_closed = poll(std::pin::pin!(tx.closed()), &second).is_ready();
        }
        receiver.join().unwrap();
        assert!(is_closed || second.is_set(), "lost wake");
        assert!(tx.is_closed());
    });
}

#[test]
fn both_sides_may_leave_with_their_wakers_registered() {
    model(|| {
        let (mut tx, mut rx) = oneshot::channel();
        let (rx_flag, tx_flag) = (Flag::new(), Flag::new());
        let theirs = rx_flag.clone();
        let receiver = thread::spawn(move || {
            let _ = poll(Pin::new(&mut rx), &theirs);
        });
        let _ = poll(std::pin::pin!(tx.closed()), &tx_flag);
        drop(tx.send(Arc::new(3)));
        receiver.join().unwrap();
        for flag in [rx_flag, tx_flag] {
            assert_eq!(std::sync::Arc::strong_count(&flag), 1, "leaked waker");
        }
    });
}

mod twins {
    use std::sync::atomic::Ordering::{AcqRel, Acquire};
    use std::task::{Context, Waker};

    use loom::sync::atomic::AtomicUsize;

    use super::*;

    const DONE: usize = 1;
    const WAITING: usize = 2;

    #[derive(Clone, Copy, PartialEq)]
    enum Bug {
        None,
        ValueAfterBit,
        NoSecondLook,
        WakerAfterBit,
    }

    /// The handshake of OneshotWrite to OneshotTakeWaker and OneshotTake to OneshotWait, on its own.
    struct Twin {
        bug: Bug,
        word: AtomicUsize,
        value: Plain<u32>,
        waker: Plain<Option<Waker>>,
    }

    impl Twin {
        fn send(&self) {
            // SAFETY: the slot is the sender's until DONE; a bug is what the model is to find.
            let write = || self.value.with_mut(|slot| unsafe { *slot = 3 });
            if self.bug != Bug::ValueAfterBit {
                write();
            }
            let word = self.word.fetch_or(DONE, AcqRel);
            if self.bug == Bug::ValueAfterBit {
                write();
            }
            if word & WAITING != 0 {
                // SAFETY: the slot is ours, as WAITING was set.
                self.waker.with_mut(|slot| unsafe { (*slot).take() }).unwrap().wake();
            }
        }

        fn poll(&self, cx: &mut Context<'_>) -> Poll<u32> {
            if self.word.load(Acquire) & DONE == 0 {
                // SAFETY: the slot is ours until WAITING is set.
                let write = || self.waker.with_mut(|slot| unsafe { *slot = Some(cx.waker().clone()) });
                if self.bug == Bug::WakerAfterBit {
                    let word = self.word.fetch_or(WAITING, AcqRel);
                    write();
                    if word & DONE == 0 {
                        return Poll::Pending;
                    }
                } else {
                    write();
                    if self.word.fetch_or(WAITING, AcqRel) & DONE == 0 || self.bug == Bug::NoSecondLook {
                        return Poll::Pending;
                    }
                }
            }
            // SAFETY: DONE, so the value is ours.
            Poll::Ready(self.value.with(|slot| unsafe { *slot }))
        }
    }

    fn check(bug: Bug) {
        model(move || {
            let twin = Arc::new(Twin {
                bug,
                word: AtomicUsize::new(0),
                value: Plain::new("the value", 0),
                waker: Plain::new("the receiver's waker", None),
            });
            let theirs = twin.clone();
            let sender = thread::spawn(move || theirs.send());
            let flag = Flag::new();
            let mut result = poll(std::pin::pin!(std::future::poll_fn(|cx| twin.poll(cx))), &flag);
            sender.join().unwrap();
            if result.is_pending() {
                assert!(flag.is_set(), "lost wake");
                result = poll(std::pin::pin!(std::future::poll_fn(|cx| twin.poll(cx))), &flag);
            }
            assert_eq!(result, Poll::Ready(3));
        });
    }

    #[test]
    fn the_twin_without_a_bug_passes() {
        check(Bug::None);
    }

    #[test]
    #[should_panic(expected = "data race on the value")]
    fn a_value_stored_after_the_bit_is_found() {
        check(Bug::ValueAfterBit);
    }

    #[test]
    #[should_panic(expected = "lost wake")]
    fn a_receiver_that_does_not_look_again_is_found() {
        check(Bug::NoSecondLook);
    }

    #[test]
    #[should_panic(expected = "data race on the receiver's waker")]
    fn a_waker_stored_after_the_bit_is_found() {
        check(Bug::WakerAfterBit);
    }
}
