//! `sync::oneshot`, by its public interface.

mod sync_support;

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

use runtime::sync::oneshot::{self, error::TryRecvError};
use sync_support::*;

#[test]
fn a_value_sent_first_is_there_at_the_first_poll() {
    let (tx, mut rx) = oneshot::channel();
    tx.send(3).unwrap();
    assert_eq!(poll_once(Pin::new(&mut rx)), Poll::Ready(Ok(3)));
    assert!(rx.is_terminated());
}

#[test]
fn a_value_sent_later_wakes_the_last_waker_once() {
    let (tx, mut rx) = oneshot::channel();
    let (first, second) = (Counter::new(), Counter::new());
    assert!(poll(Pin::new(&mut rx), &first).is_pending());
    assert!(poll(Pin::new(&mut rx), &second).is_pending());
    assert!(poll(Pin::new(&mut rx), &second).is_pending());
    tx.send(3).unwrap();
    assert_eq!((first.wakes(), second.wakes()), (0, 1));
    assert_eq!(poll(Pin::new(&mut rx), &second), Poll::Ready(Ok(3)));
}

#[test]
fn no_waker_is_leaked_in_any_order_of_drops() {
    for is_sent in [false, true] {
        for rx_waits in [false, true] {
            for tx_waits in [false, true] {
                for tx_first in [false, true] {
                    let (mut tx, mut rx) = oneshot::channel();
                    let (rx_waker, tx_waker) = (Counter::new(), Counter::new());
                    let drops = Drops::default();
                    if rx_waits {
                        assert!(poll(Pin::new(&mut rx), &rx_waker).is_pending());
                    }
                    if tx_waits {
                        assert!(poll(pin!(tx.closed()), &tx_waker).is_pending());
                    }
                    let send = |tx: oneshot::Sender<Item>| {
                        if is_sent { drop(tx.send(drops.item())) } else { drop(tx) }
                    };
                    if tx_first {
                        send(tx);
                        assert_eq!(rx_waker.wakes(), usize::from(rx_waits));
                        assert_eq!(drops.count(), 0);
                        drop(rx);
                    } else {
                        drop(rx);
                        assert_eq!(tx_waker.wakes(), usize::from(tx_waits));
                        send(tx);
                    }
                    assert_eq!(drops.count(), usize::from(is_sent));
                    assert_eq!(Arc::strong_count(&rx_waker), 1);
                    assert_eq!(Arc::strong_count(&tx_waker), 1);
                }
            }
        }
    }
}

#[test]
fn a_close_keeps_what_was_sent_and_refuses_what_was_not() {
    let (tx, mut rx) = oneshot::channel();
    tx.send(3).unwrap();
    rx.close();
    assert_eq!(rx.try_recv(), Ok(3));
    assert_eq!(rx.try_recv(), Err(TryRecvError::Closed));

    let (tx, mut rx) = oneshot::channel();
    let waker = Counter::new();
    assert!(poll(Pin::new(&mut rx), &waker).is_pending());
    rx.close();
    rx.close();
    assert_eq!(Arc::strong_count(&waker), 1);
    assert!(tx.is_closed());
    assert!(poll_once(Pin::new(&mut rx)).map(|result| result.is_err()).is_ready());
    assert_eq!(tx.send(3), Err(3));
}

#[test]
fn the_sender_learns_that_the_receiver_has_left() {
    let (mut tx, rx) = oneshot::channel::<i32>();
    let counter = Counter::new();
    assert!(poll(pin!(tx.closed()), &counter).is_pending());
    drop(rx);
    assert_eq!(counter.wakes(), 1);
    assert!(poll(pin!(tx.closed()), &counter).is_ready());
}

#[test]
fn a_sender_that_leaves_without_sending_ends_it() {
    let (tx, mut rx) = oneshot::channel::<i32>();
    assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    drop(tx);
    assert!(rx.is_empty() && !rx.is_terminated());
    assert_eq!(rx.try_recv(), Err(TryRecvError::Closed));
}

#[test]
fn a_waker_that_is_replaced_is_dropped_on_either_side() {
    let (mut tx, mut rx) = oneshot::channel::<i32>();
    let (old, new) = (Counter::new(), Counter::new());
    for counter in [&old, &new] {
        assert!(poll(Pin::new(&mut rx), counter).is_pending());
        assert!(poll(pin!(tx.closed()), counter).is_pending());
    }
    assert_eq!((Arc::strong_count(&old), Arc::strong_count(&new)), (1, 3));
    drop((tx, rx));
    assert_eq!((old.wakes(), new.wakes()), (0, 1), "only the receiver was told");
    assert_eq!(Arc::strong_count(&new), 1);
}

#[test]
fn a_side_that_changes_its_waker_keeps_that_of_the_other() {
    for tx_changes in [false, true] {
        for tx_first in [false, true] {
            let (mut tx, mut rx) = oneshot::channel::<i32>();
            let (tx_waker, rx_waker, new) = (Counter::new(), Counter::new(), Counter::new());
            assert!(poll(Pin::new(&mut rx), &rx_waker).is_pending());
            assert!(poll(pin!(tx.closed()), &tx_waker).is_pending());
            let (tx_waker, rx_waker) = if tx_changes {
                assert!(poll(pin!(tx.closed()), &new).is_pending());
                (new, rx_waker)
            } else {
                assert!(poll(Pin::new(&mut rx), &new).is_pending());
                (tx_waker, new)
            };
            if tx_first {
                tx.send(3).unwrap();
                assert_eq!((tx_waker.wakes(), rx_waker.wakes()), (0, 1));
                assert_eq!(poll_once(Pin::new(&mut rx)), Poll::Ready(Ok(3)));
            } else {
                drop(rx);
                assert_eq!((tx_waker.wakes(), rx_waker.wakes()), (1, 0));
                assert!(poll_once(pin!(tx.closed())).is_ready());
            }
        }
    }
}

#[test]
fn either_side_can_ask_without_waiting() {
    let (tx, mut rx) = oneshot::channel();
    assert!(!tx.is_closed() && rx.is_empty() && !rx.is_terminated());
    assert!(poll_once(Pin::new(&mut rx)).is_pending());
    assert!(!tx.is_closed() && rx.is_empty());
    tx.send(3).unwrap();
    assert!(!rx.is_empty() && !rx.is_terminated());
    assert_eq!(rx.try_recv(), Ok(3));
    assert!(rx.is_empty() && rx.is_terminated());

    let (tx, rx) = oneshot::channel::<i32>();
    drop(rx);
    assert!(tx.is_closed());
}

/// A waker whose clone panics.
fn fragile_waker() -> Waker {
    static VTABLE: RawWakerVTable =
        RawWakerVTable::new(|_| panic!("this clone panics"), |_| (), |_| (), |_| ());
    // SAFETY: the functions of the table do nothing with the pointer.
    unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &VTABLE)) }
}

#[test]
fn a_waker_that_was_replaced_by_one_whose_clone_panics_is_dropped_once_and_not_woken() {
    let fragile = fragile_waker();
    for tx_panics in [false, true] {
        for end in ["send", "close", "drop the receiver", "drop the sender"] {
            let (mut tx, mut rx) = oneshot::channel();
            let [rx_waker, tx_waker] = [Counter::new(), Counter::new()];
            assert!(poll(Pin::new(&mut rx), &rx_waker).is_pending());
            assert!(poll(pin!(tx.closed()), &tx_waker).is_pending());
            let cx = &mut Context::from_waker(&fragile);
            let text = match tx_panics {
                true => panic_text(|| tx.poll_closed(cx)),
                false => panic_text(|| Pin::new(&mut rx).poll(cx)),
            };
            assert_eq!(text, "this clone panics");
            let is_end_of_rx = end == "close" || end == "drop the receiver";
            match end {
                "send" => assert_eq!(tx.send(3), Ok(())),
                "close" => rx.close(),
                "drop the receiver" => drop(rx),
                _ => drop(tx),
            }
            let expected = (usize::from(!tx_panics && is_end_of_rx), usize::from(tx_panics && !is_end_of_rx));
            assert_eq!((tx_waker.wakes(), rx_waker.wakes()), expected, "{end}");
            let dropped = if tx_panics { &tx_waker } else { &rx_waker };
            assert_eq!(Arc::strong_count(dropped), 1, "{end}");
        }
    }
}

#[test]
fn a_close_after_the_value_or_the_end_changes_nothing() {
    let (tx, mut rx) = oneshot::channel::<i32>();
    let counter = Counter::new();
    assert!(poll(Pin::new(&mut rx), &counter).is_pending());
    drop(tx);
    rx.close();
    assert_eq!(counter.wakes(), 1);
    assert!(poll_once(Pin::new(&mut rx)).map(|result| result.is_err()).is_ready());
    rx.close();
    assert_eq!(rx.try_recv(), Err(TryRecvError::Closed));
}

#[test]
fn a_task_whose_values_are_always_there_lets_others_run() {
    block_on(async {
        let mut busy = pin!(async {
            for n in 0..1000 {
                let (mut tx, rx) = oneshot::channel();
                if n % 2 == 0 {
                    tx.send(n).unwrap();
                    assert_eq!(rx.await, Ok(n));
                } else {
                    drop(rx);
                    tx.closed().await;
                }
            }
        });
        let mut polls = 0;
        std::future::poll_fn(|cx| {
            polls += 1;
            busy.as_mut().poll(cx)
        })
        .await;
        assert!(polls >= 7, "{polls} polls for 1000 values");
    });
}

#[test]
fn a_waker_that_panics_leaves_the_value_where_it_belongs() {
    let (tx, mut rx) = oneshot::channel();
    assert!(poll(Pin::new(&mut rx), &Counter::panicking()).is_pending());
    assert_eq!(panic_text(|| tx.send(3)), "this waker panics");
    assert_eq!(poll_once(Pin::new(&mut rx)), Poll::Ready(Ok(3)));
}

#[test]
fn a_blocking_call_inside_a_task_says_what_to_do() {
    block_on(async {
        let (_tx, rx) = oneshot::channel::<i32>();
        let text = runtime::spawn(async move { panic_text(move || rx.blocking_recv()) }).await.unwrap();
        assert!(text.contains("receiver.await") && text.contains("spawn_blocking"), "{text}");
    });
}

#[test]
fn threads_exchange_many_values() {
    for n in 0..2000 {
        let (tx, rx) = oneshot::channel();
        let sender = std::thread::spawn(move || tx.send(Box::new(n)).unwrap());
        assert_eq!(*rx.blocking_recv().unwrap(), n);
        sender.join().unwrap();
    }
}
