//! `sync::mpsc`, by its public interface.

mod sync_support;

mod support;

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use runtime::sync::mpsc::{self, error::TryRecvError, error::TrySendError};
use runtime::task::coop::{consume_budget, has_budget_remaining};
use support::joined_scope;
use sync_support::*;

#[test]
fn values_come_in_order_over_many_blocks() {
    let (tx, mut rx) = mpsc::unbounded_channel();
    (0..1000).for_each(|n| tx.send(n).unwrap());
    assert_eq!(rx.len(), 1000);
    (0..1000).for_each(|n| assert_eq!(rx.try_recv(), Ok(n)));
    assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    drop(tx);
    assert_eq!(rx.try_recv(), Err(TryRecvError::Disconnected));
}

/// Without a runtime, a timer would panic.
#[test]
fn send_timeout_needs_no_timer_unless_it_waits() {
    let (tx, mut rx) = mpsc::channel(1);
    let limit = std::time::Duration::from_secs(1);
    assert_eq!(poll_once(pin!(tx.send_timeout(1, limit))), Poll::Ready(Ok(())));
    rx.close();
    let closed = mpsc::error::SendTimeoutError::Closed(2);
    assert_eq!(poll_once(pin!(tx.send_timeout(2, limit))), Poll::Ready(Err(closed)));
}

#[test]
fn a_full_channel_makes_senders_wait_in_line() {
    let (tx, mut rx) = mpsc::channel(1);
    tx.try_send(0).unwrap();
    let (mut first, mut second) = (Box::pin(tx.send(1)), Box::pin(tx.send(2)));
    assert!(poll_once(first.as_mut()).is_pending());
    assert!(poll_once(second.as_mut()).is_pending());
    assert_eq!(rx.try_recv(), Ok(0));
    assert_eq!(tx.try_send(9), Err(TrySendError::Full(9)), "the room is the first one's");
    assert!(poll_once(second.as_mut()).is_pending());
    assert!(poll_once(first.as_mut()).is_ready());
    assert_eq!(rx.try_recv(), Ok(1));
    assert!(poll_once(second.as_mut()).is_ready());
    assert_eq!(rx.try_recv(), Ok(2));
    assert_eq!(tx.capacity(), 1);
}

#[test]
fn a_send_that_is_dropped_sends_nothing_and_returns_its_room() {
    let (tx, mut rx) = mpsc::channel(1);
    tx.try_send(0).unwrap();
    let mut send = Box::pin(tx.send(1));
    assert!(poll_once(send.as_mut()).is_pending());
    assert_eq!(rx.try_recv(), Ok(0));
    drop(send);
    assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    assert_eq!(tx.capacity(), 1);
}

#[test]
fn a_recv_that_is_dropped_loses_nothing() {
    let (tx, mut rx) = mpsc::unbounded_channel();
    let (first, second) = (Counter::new(), Counter::new());
    assert!(poll(pin!(rx.recv()), &first).is_pending());
    tx.send(1).unwrap();
    assert_eq!(first.wakes(), 1);
    // Woken, but polled by another task.
    assert_eq!(poll(pin!(rx.recv()), &second), Poll::Ready(Some(1)));
    assert!(poll(pin!(rx.recv()), &first).is_pending());
    assert!(poll(pin!(rx.recv()), &second).is_pending());
    tx.send(2).unwrap();
    assert_eq!((first.wakes(), second.wakes()), (1, 1));
    assert_eq!(rx.try_recv(), Ok(2));
}

#[test]
fn many_are_received_at_once_up_to_the_limit() {
    let (tx, mut rx) = mpsc::channel(100);
    (0..70).for_each(|n| tx.try_send(n).unwrap());
    let mut buffer = Vec::new();
    assert_eq!(poll_once(pin!(rx.recv_many(&mut buffer, 0))), Poll::Ready(0));
    assert_eq!(poll_once(pin!(rx.recv_many(&mut buffer, 40))), Poll::Ready(40));
    assert_eq!(tx.capacity(), 70);
    assert_eq!(poll_once(pin!(rx.recv_many(&mut buffer, 40))), Poll::Ready(30));
    assert!(poll_once(pin!(rx.recv_many(&mut buffer, 40))).is_pending());
    assert_eq!(buffer, (0..70).collect::<Vec<_>>());
    drop(tx);
    assert_eq!(poll_once(pin!(rx.recv_many(&mut buffer, 40))), Poll::Ready(0));
}

#[test]
fn a_closed_channel_gives_what_it_has_and_what_permits_bring() {
    let (tx, mut rx) = mpsc::channel(3);
    tx.try_send(1).unwrap();
    let (used, dropped) = (tx.try_reserve().unwrap(), tx.try_reserve().unwrap());
    rx.close();
    assert!(tx.is_closed() && rx.is_closed());
    assert_eq!(tx.try_send(9), Err(TrySendError::Closed(9)));
    assert_eq!(rx.try_recv(), Ok(1));
    let counter = Counter::new();
    assert!(poll(pin!(rx.recv()), &counter).is_pending(), "permits are out");
    used.send(2);
    assert_eq!(counter.wakes(), 1);
    assert_eq!(poll(pin!(rx.recv()), &counter), Poll::Ready(Some(2)));
    assert!(poll(pin!(rx.recv()), &counter).is_pending(), "one is still out");
    drop(dropped);
    assert_eq!(counter.wakes(), 2);
    assert_eq!(poll(pin!(rx.recv()), &counter), Poll::Ready(None));
}

#[test]
fn a_close_wakes_senders_and_its_waiters() {
    let (tx, mut rx) = mpsc::channel(1);
    tx.try_send(0).unwrap();
    let (sends, closed) = (Counter::new(), Counter::new());
    let mut send = Box::pin(tx.send(1));
    let mut end = Box::pin(tx.closed());
    assert!(poll(send.as_mut(), &sends).is_pending());
    assert!(poll(end.as_mut(), &closed).is_pending());
    rx.close();
    assert_eq!((sends.wakes(), closed.wakes()), (1, 1));
    assert!(matches!(poll(send.as_mut(), &sends), Poll::Ready(Err(error)) if error.0 == 1));
    assert!(poll(end.as_mut(), &closed).is_ready());

    let (tx, mut rx) = mpsc::unbounded_channel();
    tx.send(1).unwrap();
    rx.close();
    assert_eq!(tx.send(2).unwrap_err().0, 2);
    assert_eq!(rx.try_recv(), Ok(1));
    assert_eq!(rx.try_recv(), Err(TryRecvError::Disconnected));
}

#[test]
fn values_are_dropped_once_whichever_side_leaves_first() {
    for count in [0, 1, 31, 32, 100] {
        for rx_first in [false, true] {
            let drops = Drops::default();
            let (tx, rx) = mpsc::unbounded_channel();
            (0..count).for_each(|_| tx.send(drops.item()).unwrap());
            if rx_first {
                drop(rx);
                assert_eq!(drops.count(), count, "dropped with the receiver");
                assert!(tx.send(drops.item()).is_err());
                assert_eq!(drops.count(), count + 1);
                drop(tx);
            } else {
                drop(tx);
                assert_eq!(drops.count(), 0);
                drop(rx);
            }
            assert_eq!(drops.count(), count + usize::from(rx_first));
        }
    }
    let drops = Drops::default();
    let (tx, rx) = mpsc::channel(1);
    let permit = tx.clone().try_reserve_owned().unwrap();
    drop(rx);
    drop(permit.send(drops.item()));
    assert_eq!(drops.count(), 1, "a permit used after the receiver left");
}

#[test]
fn a_value_whose_drop_panics_does_not_keep_the_others() {
    struct Bomb(Option<Item>);
    impl Drop for Bomb {
        fn drop(&mut self) {
            if self.0.is_none() {
                panic!("a bomb");
            }
        }
    }
    let drops = Drops::default();
    let (tx, rx) = mpsc::unbounded_channel();
    tx.send(Bomb(None)).unwrap();
    (0..40).for_each(|_| drop(tx.send(Bomb(Some(drops.item())))));
    tx.send(Bomb(None)).unwrap();
    assert_eq!(panic_text(|| drop(rx)), "a bomb");
    assert_eq!(drops.count(), 40, "with the receiver, not with the last sender");
}

#[test]
fn weak_senders_do_not_keep_a_channel_open() {
    let (tx, mut rx) = mpsc::channel::<i32>(1);
    let weak = tx.downgrade();
    let counter = Counter::new();
    assert!(poll(pin!(rx.recv()), &counter).is_pending());
    let second = weak.upgrade().unwrap();
    assert_eq!((weak.strong_count(), weak.weak_count()), (2, 1));
    drop((tx, second));
    assert_eq!(counter.wakes(), 1);
    assert!(weak.upgrade().is_none());
    assert_eq!(poll(pin!(rx.recv()), &counter), Poll::Ready(None));
    drop(weak);
    assert_eq!(rx.sender_weak_count(), 0);
}

#[test]
fn reserved_room_is_exact() {
    let (tx, mut rx) = mpsc::channel(4);
    let mut permits = block_on(tx.reserve_many(3)).unwrap();
    assert_eq!((permits.len(), tx.capacity()), (3, 1));
    permits.next().unwrap().send(1);
    drop(permits);
    assert_eq!(tx.capacity(), 3);
    assert_eq!(rx.try_recv(), Ok(1));
    assert!(block_on(tx.reserve_many(5)).is_err());
    let text = panic_text(|| mpsc::channel::<i32>(0));
    assert!(text.contains("not 0"), "{text}");
}

#[test]
fn a_request_for_no_room_waits_for_nobody() {
    for max in [1, 100_000] {
        let (tx, mut rx) = mpsc::channel(max);
        let most = tx.try_reserve_many(max).unwrap();
        let mut waiting = Box::pin(tx.send(1));
        assert!(poll_once(waiting.as_mut()).is_pending());
        assert_eq!(tx.try_reserve_many(0).unwrap().len(), 0);
        assert!(poll_once(pin!(tx.reserve_many(0))).is_ready());
        drop(most);
        assert!(poll_once(waiting.as_mut()).is_ready());
        assert_eq!((rx.try_recv(), tx.capacity()), (Ok(1), max));
        rx.close();
        assert_eq!(tx.try_reserve_many(0).err(), Some(TrySendError::Closed(())));
        assert!(block_on(tx.reserve_many(0)).is_err());
    }
}

#[test]
fn room_for_more_values_than_the_word_counts_is_as_exact() {
    for max in [65_535, 65_536, 100_000] {
        let (tx, mut rx) = mpsc::channel(max);
        let most = tx.try_reserve_many(max - 1).unwrap();
        assert_eq!(tx.capacity(), 1);
        tx.try_send(1).unwrap();
        let mut waiting = Box::pin(tx.send(2));
        assert!(poll_once(waiting.as_mut()).is_pending());
        assert_eq!((tx.try_send(3), rx.try_recv()), (Err(TrySendError::Full(3)), Ok(1)));
        assert!(poll_once(waiting.as_mut()).is_ready());
        drop(most);
        assert_eq!((rx.try_recv(), tx.capacity(), rx.max_capacity()), (Ok(2), max, max));
        rx.close();
        assert_eq!(rx.try_recv(), Err(TryRecvError::Disconnected));
        assert_eq!(tx.try_send(4), Err(TrySendError::Closed(4)));
    }
}

// The sender had been given the only room when the channel was closed. It gave it back without a word to the
// receiver, which waited for it.
#[test]
fn a_closed_channel_ends_when_a_sender_gives_up_the_room_it_was_granted() {
    let (tx, mut rx) = mpsc::channel(1);
    tx.try_send(1).unwrap();
    let mut send = Box::pin(tx.send(2));
    assert!(poll_once(send.as_mut()).is_pending());
    assert_eq!(rx.try_recv(), Ok(1));
    rx.close();
    let counter = Counter::new();
    assert!(poll(pin!(rx.recv()), &counter).is_pending());
    drop(send);
    assert_eq!(counter.wakes(), 1);
    assert_eq!(poll(pin!(rx.recv()), &counter), Poll::Ready(None));
}

// A value that the sender sent then would come after the close. So the sender is refused, and the receiver
// learns of the end, as if the sender had been dropped.
#[test]
fn a_sender_that_was_granted_room_and_looks_after_the_close_is_refused() {
    for max in [1, 65_536] {
        let (tx, mut rx) = mpsc::channel(max);
        let all = tx.try_reserve_many(max).unwrap();
        let mut send = Box::pin(tx.send(2));
        assert!(poll_once(send.as_mut()).is_pending());
        drop(all);
        rx.close();
        let counter = Counter::new();
        assert!(poll(pin!(rx.recv()), &counter).is_pending(), "it may have sent before");
        assert!(matches!(poll_once(send.as_mut()), Poll::Ready(Err(error)) if error.0 == 2));
        assert_eq!(counter.wakes(), 1);
        assert_eq!(poll(pin!(rx.recv()), &counter), Poll::Ready(None));
        drop(send);
        assert_eq!(rx.capacity(), max, "given back once");
    }
}

// A send that finds room does not go through a future that would count it.
#[test]
fn sends_that_find_room_are_counted_in_the_budget() {
    let (tx, _rx) = mpsc::channel(1000);
    block_on(async {
        let mut sending = Box::pin(async {
            for n in 0..1000 {
                tx.send(n).await.unwrap();
            }
        });
        let mut polls = 0;
        let counted = std::future::poll_fn(|cx| {
            polls += 1;
            sending.as_mut().poll(cx)
        });
        counted.await;
        assert!(polls >= 7, "{polls} polls for 1000 values");
    });
}

#[test]
fn receivers_are_streams() {
    fn next<S: futures_core::Stream + Unpin>(stream: &mut S) -> Poll<Option<S::Item>> {
        Pin::new(stream).poll_next(&mut std::task::Context::from_waker(std::task::Waker::noop()))
    }
    let (tx, mut rx) = mpsc::channel(1);
    tx.try_send(1).unwrap();
    drop(tx);
    assert_eq!(next(&mut rx), Poll::Ready(Some(1)));
    assert_eq!(next(&mut rx), Poll::Ready(None));
}

#[test]
fn a_receiver_that_is_always_ready_lets_others_run() {
    block_on(async {
        let (tx, mut rx) = mpsc::unbounded_channel();
        (0..1000).for_each(|n| tx.send(n).unwrap());
        let mut recv = pin!(async { while rx.recv().await != Some(999) {} });
        let polls = std::sync::atomic::AtomicUsize::new(0);
        std::future::poll_fn(|cx| {
            polls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            recv.as_mut().poll(cx)
        })
        .await;
        assert!(polls.into_inner() >= 1000 / 128);
    });
}

#[test]
fn counts_and_identity() {
    macro_rules! check {
        ($channel:expr) => {
            let ((tx, rx), (other, _rx)) = ($channel, $channel);
            let (more, weak) = (tx.clone(), [tx.downgrade(), tx.downgrade()]);
            let third = weak[0].clone();
            assert!(tx.same_channel(&more) && !tx.same_channel(&other));
            assert_eq!((tx.strong_count(), weak[0].strong_count(), rx.sender_strong_count()), (2, 2, 2));
            assert_eq!((tx.weak_count(), weak[0].weak_count(), rx.sender_weak_count()), (3, 3, 3));
            let upgraded = third.upgrade().unwrap();
            assert!(upgraded.same_channel(&tx));
            assert_eq!(rx.sender_strong_count(), 3);
            drop((more, third, upgraded));
            assert_eq!((tx.strong_count(), tx.weak_count()), (1, 2));
            assert!(!tx.is_closed() && !rx.is_closed());
            drop(tx);
            assert!(rx.is_closed() && weak[0].upgrade().is_none());
            assert_eq!((weak[0].strong_count(), rx.sender_strong_count()), (0, 0));
            drop(weak);
            assert_eq!(rx.sender_weak_count(), 0);
        };
    }
    check!(mpsc::channel::<i32>(1));
    check!(mpsc::unbounded_channel::<i32>());
}

#[test]
fn either_side_learns_that_the_receiver_has_closed() {
    macro_rules! check {
        ($channel:expr) => {
            for is_dropped in [false, true] {
                let (tx, mut rx): (_, _) = $channel;
                let (first, second) = (Counter::new(), Counter::new());
                let mut closed = pin!(tx.closed());
                let mut also = pin!(tx.closed());
                assert!(poll(closed.as_mut(), &first).is_pending());
                assert!(poll(also.as_mut(), &second).is_pending());
                assert!(!tx.is_closed() && !rx.is_closed());
                if is_dropped {
                    drop(rx);
                } else {
                    rx.close();
                    assert!(rx.is_closed());
                }
                assert_eq!((first.wakes(), second.wakes()), (1, 1));
                assert!(poll(closed.as_mut(), &first).is_ready() && poll(also.as_mut(), &second).is_ready());
                assert!(tx.is_closed() && poll_once(pin!(tx.closed())).is_ready());
            }
        };
    }
    check!(mpsc::channel::<i32>(1));
    check!(mpsc::channel::<i32>(100_000));
    check!(mpsc::unbounded_channel::<i32>());
}

#[test]
fn a_receiver_knows_how_much_there_is_and_how_much_may_come() {
    let (tx, mut rx) = mpsc::channel(5);
    assert_eq!((rx.is_empty(), rx.len()), (true, 0));
    tx.try_send(1).unwrap();
    tx.try_send(2).unwrap();
    assert!(!rx.is_empty());
    assert_eq!((rx.len(), rx.capacity(), tx.capacity()), (2, 3, 3));
    assert_eq!((rx.max_capacity(), tx.max_capacity()), (5, 5));
    assert_eq!((rx.try_recv(), rx.len(), rx.capacity()), (Ok(1), 1, 4));
    let (tx, rx) = mpsc::unbounded_channel();
    assert!(rx.is_empty());
    tx.send(1).unwrap();
    assert!(!rx.is_empty() && rx.len() == 1);
}

#[test]
fn permits_belong_to_their_channel() {
    let ((tx, mut rx), (other, _rx)) = (mpsc::channel(3), mpsc::channel(3));
    let permits = [tx.clone(), tx.clone(), other.clone()].map(|tx| tx.try_reserve_owned().unwrap());
    let [one, two, of_other] = permits;
    assert!(one.same_channel(&two) && !one.same_channel(&of_other));
    assert!(one.same_channel_as_sender(&tx) && !one.same_channel_as_sender(&other));
    assert_eq!((tx.capacity(), tx.strong_count()), (1, 3));
    assert!(one.send(1).same_channel(&tx));
    assert!(two.release().same_channel(&tx));
    drop(of_other);
    assert_eq!((tx.capacity(), tx.strong_count(), other.capacity()), (2, 1, 3));
    assert_eq!((rx.try_recv(), tx.capacity()), (Ok(1), 3));
}

#[test]
fn reserved_room_that_is_not_used_goes_to_the_sender_that_waits() {
    let (tx, _rx) = mpsc::channel(1);
    let counter = Counter::new();
    let send_behind = |room: &dyn Fn() -> Box<dyn Anything>| {
        let room = room();
        let wakes = counter.wakes();
        let mut send = pin!(tx.send(1));
        assert!(poll(send.as_mut(), &counter).is_pending());
        drop(room);
        assert_eq!(counter.wakes(), wakes + 1);
    };
    /// A value that can be dropped.
    trait Anything {}
    impl<T> Anything for T {}
    send_behind(&|| Box::new(tx.try_reserve().unwrap()));
    send_behind(&|| Box::new(block_on(tx.reserve()).unwrap()));
    send_behind(&|| Box::new(tx.try_reserve_many(1).unwrap()));
    send_behind(&|| Box::new(tx.clone().try_reserve_owned().unwrap()));
    send_behind(&|| Box::new(block_on(tx.clone().reserve_owned()).unwrap()));
    assert_eq!(tx.capacity(), 1);
}

#[test]
fn all_ways_to_reserve_wait_for_room_and_end_with_the_channel() {
    let (tx, mut rx) = mpsc::channel(2);
    let most = tx.try_reserve_many(2).unwrap();
    assert!(matches!(tx.try_reserve(), Err(TrySendError::Full(()))));
    assert!(matches!(tx.try_reserve_many(1), Err(TrySendError::Full(()))));
    let back = tx.clone().try_reserve_owned().unwrap_err();
    assert!(matches!(back, TrySendError::Full(_)) && back.into_inner().same_channel(&tx));
    let mut one = pin!(tx.reserve());
    let mut many = pin!(tx.reserve_many(2));
    let mut owned = pin!(tx.clone().reserve_owned());
    assert!(poll_once(one.as_mut()).is_pending());
    assert!(poll_once(many.as_mut()).is_pending());
    assert!(poll_once(owned.as_mut()).is_pending());
    drop(most);
    match poll_once(one.as_mut()) {
        Poll::Ready(Ok(permit)) => permit.send(7),
        _ => panic!("there is room"),
    }
    assert_eq!(rx.try_recv(), Ok(7));
    match poll_once(many.as_mut()) {
        Poll::Ready(Ok(permits)) => assert_eq!((permits.len(), permits.size_hint()), (2, (2, Some(2)))),
        _ => panic!("there is room"),
    }
    rx.close();
    assert!(matches!(poll_once(owned.as_mut()), Poll::Ready(Err(_))));
    assert!(block_on(tx.reserve()).is_err() && block_on(tx.clone().reserve_owned()).is_err());
    assert!(matches!(tx.try_reserve(), Err(TrySendError::Closed(()))));
    assert!(matches!(tx.clone().try_reserve_owned(), Err(TrySendError::Closed(_))));
}

#[test]
fn permits_for_many_values_come_one_by_one() {
    let (tx, mut rx) = mpsc::channel(3);
    let mut permits = tx.try_reserve_many(3).unwrap();
    for left in [2, 1, 0] {
        permits.next().unwrap().send(left);
        assert_eq!(permits.size_hint(), (left, Some(left)));
    }
    assert!(permits.next().is_none() && permits.next().is_none());
    drop(permits);
    assert_eq!(tx.capacity(), 0);
    (0..3).rev().for_each(|n| assert_eq!(rx.try_recv(), Ok(n)));
    assert_eq!(tx.capacity(), 3);
    drop(tx.try_reserve_many(0).unwrap());
    assert_eq!(tx.capacity(), 3);
    // The receiver waits for permits after the close, but not for those that were used.
    let (mut used, unused) = (tx.try_reserve_many(1).unwrap(), tx.try_reserve_many(2).unwrap());
    used.next().unwrap().send(1);
    rx.close();
    assert_eq!(rx.try_recv(), Ok(1));
    let counter = Counter::new();
    assert!(poll(pin!(rx.recv()), &counter).is_pending());
    drop(used);
    assert_eq!(counter.wakes(), 0);
    drop(unused);
    assert_eq!((counter.wakes(), poll(pin!(rx.recv()), &counter)), (1, Poll::Ready(None)));
}

#[test]
fn errors_give_back_what_was_not_sent() {
    let (tx, rx) = mpsc::channel(1);
    tx.try_send(1).unwrap();
    assert_eq!(tx.try_send(2).unwrap_err().into_inner(), 2);
    drop(rx);
    assert_eq!(tx.try_send(3).unwrap_err().into_inner(), 3);
    assert_eq!(block_on(tx.send(4)), Err(mpsc::error::SendError(4)));
    assert_eq!(tx.blocking_send(5), Err(mpsc::error::SendError(5)));
    let error = block_on(tx.send_timeout(6, std::time::Duration::from_secs(60))).unwrap_err();
    assert_eq!((error, error.into_inner()), (mpsc::error::SendTimeoutError::Closed(6), 6));
    assert_eq!(mpsc::error::SendTimeoutError::Timeout(7).into_inner(), 7);
    assert_eq!(TrySendError::from(mpsc::error::SendError(8)), TrySendError::Closed(8));
}

#[test]
fn a_send_with_a_limit_waits_that_long_and_not_for_ever() {
    let mut builder = runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap().block_on(async {
        let limit = std::time::Duration::from_secs(1);
        let (tx, mut rx) = mpsc::channel(1);
        tx.send_timeout(1, limit).await.unwrap();
        let error = tx.send_timeout(2, limit).await.unwrap_err();
        assert_eq!(error, mpsc::error::SendTimeoutError::Timeout(2));
        {
            let mut send = pin!(tx.send_timeout(3, limit));
            assert!(poll_once(send.as_mut()).is_pending());
            assert_eq!(rx.recv().await, Some(1));
            assert_eq!(send.await, Ok(()));
        }
        assert_eq!((rx.recv().await, rx.try_recv()), (Some(3), Err(TryRecvError::Empty)));
    });
}

#[test]
fn many_are_received_at_once_on_a_plain_thread_too() {
    let (tx, mut rx) = mpsc::channel(10);
    let mut buffer = vec![0];
    (1..6).for_each(|n| tx.try_send(n).unwrap());
    assert_eq!(rx.blocking_recv_many(&mut buffer, 3), 3);
    assert_eq!((rx.blocking_recv_many(&mut buffer, 3), tx.capacity()), (2, 10));
    let (tx, mut rx) = mpsc::unbounded_channel();
    (6..9).for_each(|n| tx.send(n).unwrap());
    drop(tx);
    assert_eq!(rx.blocking_recv_many(&mut buffer, 10), 3);
    assert_eq!(rx.blocking_recv_many(&mut buffer, 10), 0);
    assert_eq!(buffer, (0..9).collect::<Vec<_>>());
}

#[test]
fn a_full_channel_whose_receiver_leaves_drops_all_and_refuses_the_senders() {
    let drops = Drops::default();
    let (tx, rx) = mpsc::channel(40);
    (0..40).for_each(|_| tx.try_send(drops.item()).unwrap());
    let counter = Counter::new();
    let mut send = pin!(tx.send(drops.item()));
    assert!(poll(send.as_mut(), &counter).is_pending());
    drop(rx);
    assert_eq!((drops.count(), counter.wakes(), tx.capacity()), (40, 1, 40));
    assert!(matches!(poll(send.as_mut(), &counter), Poll::Ready(Err(_))));
    assert_eq!(drops.count(), 41);
}

#[test]
fn a_receiver_that_leaves_drops_its_wakers() {
    let (tx, mut rx) = mpsc::channel::<i32>(1);
    let counter = Counter::new();
    assert!(poll(pin!(rx.recv()), &counter).is_pending());
    drop(rx);
    assert_eq!((Arc::strong_count(&counter), counter.wakes()), (1, 0));
    drop(tx);
    // It waits for the permit that is still out.
    let (tx, mut rx) = mpsc::channel::<i32>(1);
    let permit = tx.try_reserve().unwrap();
    rx.close();
    assert!(poll(pin!(rx.recv()), &counter).is_pending());
    drop(rx);
    assert_eq!((Arc::strong_count(&counter), counter.wakes()), (1, 0));
    drop(permit);
}

// Otherwise all senders that come before it has budget again would overtake it.
#[test]
fn a_sender_without_budget_stands_in_line() {
    for max in [1, 65_536] {
        let (tx, mut rx) = mpsc::channel(max);
        let all = tx.try_reserve_many(max).unwrap();
        let spent = |value| {
            let tx = &tx;
            Box::pin(async move {
                while has_budget_remaining() {
                    consume_budget().await;
                }
                tx.send(value).await.unwrap();
            })
        };
        let (first, second) = (Counter::new(), Counter::new());
        let (mut early, mut late) = (spent(1), Box::pin(tx.send(2)));
        block_on(async { assert!(poll(early.as_mut(), &first).is_pending()) });
        assert!(poll(late.as_mut(), &second).is_pending());
        assert_eq!(first.wakes(), 0, "it waits for room");
        drop(all);
        assert_eq!(first.wakes(), 1);
        assert!(poll(early.as_mut(), &first).is_ready());
        assert_eq!(rx.try_recv(), Ok(1));
        assert!(poll(late.as_mut(), &second).is_ready());
        assert_eq!(rx.try_recv(), Ok(2));
        // Room that is free is not taken without budget.
        let mut early = spent(3);
        block_on(async { assert!(poll(early.as_mut(), &first).is_pending()) });
        assert_eq!((first.wakes(), rx.len()), (2, 0), "it is polled again");
        assert!(poll(early.as_mut(), &first).is_ready());
    }
}

/// Polls `busy` to its end, and returns how often that took.
fn polls_of(busy: impl Future<Output = ()>) -> usize {
    let mut busy = pin!(busy);
    let mut polls = 0;
    block_on(std::future::poll_fn(|cx| {
        polls += 1;
        busy.as_mut().poll(cx)
    }));
    polls
}

#[test]
fn each_call_that_may_wait_is_counted_in_the_budget() {
    let (tx, mut rx) = mpsc::channel(10);
    let polls = polls_of(async {
        for _ in 0..250 {
            tx.reserve().await.unwrap().send(1);
            assert_eq!(rx.recv_many(&mut Vec::new(), 2).await, 1);
            assert!(tx.reserve_many(11).await.is_err());
            tx.send_timeout(1, std::time::Duration::MAX).await.unwrap();
            assert_eq!(rx.recv().await, Some(1));
        }
    });
    assert!(polls >= 9, "{polls} polls for 1250 calls");
    rx.close();
    let polls = polls_of(async {
        for _ in 0..500 {
            tx.closed().await;
            assert_eq!(rx.recv().await, None);
        }
    });
    assert!(polls >= 7, "{polls} polls for 1000 calls");
}

#[test]
fn a_blocking_call_inside_a_task_says_what_to_do() {
    block_on(async {
        let (tx, mut rx) = mpsc::channel::<i32>(1);
        let texts =
            runtime::spawn(
                async move { [panic_text(|| rx.blocking_recv()), panic_text(|| tx.blocking_send(1))] },
            )
            .await
            .unwrap();
        assert!(texts[0].contains("recv().await"), "{}", texts[0]);
        assert!(texts[1].contains("send().await"), "{}", texts[1]);
    });
}

#[test]
fn a_waker_that_panics_leaves_the_channel_usable() {
    let (tx, mut rx) = mpsc::unbounded_channel();
    assert!(poll(pin!(rx.recv()), &Counter::panicking()).is_pending());
    assert_eq!(panic_text(|| tx.send(1)), "this waker panics");
    tx.send(2).unwrap();
    assert_eq!((rx.try_recv(), rx.try_recv()), (Ok(1), Ok(2)));
}

/// Receives what `threads` senders send meanwhile. Asserts that each sender's values come in order, and all
/// of them.
fn exchange(threads: usize, each: usize, bound: Option<usize>) {
    let mut last = vec![0; threads];
    let mut receive = |(thread, n): (usize, usize)| {
        assert_eq!(n, last[thread] + 1, "in order");
        last[thread] = n;
    };
    joined_scope(|scope| match bound {
        Some(bound) => {
            let (tx, mut rx) = mpsc::channel(bound);
            for thread in 0..threads {
                let tx = tx.clone();
                scope.spawn(move || (1..=each).for_each(|n| tx.blocking_send((thread, n)).unwrap()));
            }
            drop(tx);
            std::iter::from_fn(|| rx.blocking_recv()).for_each(&mut receive);
        }
        None => {
            let (tx, mut rx) = mpsc::unbounded_channel();
            for thread in 0..threads {
                let tx = tx.clone();
                scope.spawn(move || (1..=each).for_each(|n| tx.send((thread, n)).unwrap()));
            }
            drop(tx);
            std::iter::from_fn(|| rx.blocking_recv()).for_each(&mut receive);
        }
    });
    assert_eq!(last, vec![each; threads]);
}

#[test]
fn threads_exchange_many_values_without_a_bound() {
    exchange(4, 20_000, None);
}

#[test]
fn threads_exchange_many_values_with_a_bound() {
    exchange(4, 2000, Some(1));
    exchange(4, 5000, Some(40));
}
