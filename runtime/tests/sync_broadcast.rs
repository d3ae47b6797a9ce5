//! `sync::broadcast`, by its public interface.

mod support;
mod sync_support;

use std::cell::Cell;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use parking_lot::Mutex;
use runtime::sync::broadcast::error::{RecvError, TryRecvError};
use runtime::sync::broadcast::{self, Receiver, Sender};
use support::{joined_scope, until};
use sync_support::*;

#[test]
fn each_receiver_gets_each_value_that_is_sent_while_it_is_there() {
    let (tx, mut first) = broadcast::channel(4);
    assert_eq!(tx.send(1), Ok(1));
    let mut second = tx.subscribe();
    let mut third = first.resubscribe();
    assert_eq!(tx.send(2), Ok(3));
    assert_eq!((first.len(), second.len(), tx.len()), (2, 1, 2));
    assert_eq!([first.try_recv(), first.try_recv()], [Ok(1), Ok(2)]);
    assert_eq!([second.try_recv(), third.try_recv()], [Ok(2), Ok(2)]);
    assert!(first.is_empty() && tx.is_empty());
    assert_eq!([first.try_recv(), second.try_recv()], [Err(TryRecvError::Empty), Err(TryRecvError::Empty)]);
}

#[test]
fn a_value_without_receivers_comes_back() {
    let (tx, rx) = broadcast::channel(4);
    drop(rx);
    let error = tx.send(1).unwrap_err();
    assert_eq!((error.0, error.to_string()), (1, "channel closed".into()));
    let mut rx = tx.subscribe();
    assert_eq!((tx.send(2), rx.try_recv()), (Ok(1), Ok(2)));
    assert!(Sender::new(1).send(3).is_err());
}

#[test]
fn a_receiver_that_is_too_slow_learns_how_many_it_missed() {
    for (capacity, holds) in [(1, 1), (2, 2), (3, 4), (4, 4)] {
        let (tx, mut rx) = broadcast::channel(capacity);
        let sent = holds + 5;
        (0..sent).for_each(|n| drop(tx.send(n)));
        assert_eq!((rx.len(), tx.len()), (sent, holds));
        assert_eq!(rx.try_recv(), Err(TryRecvError::Lagged(5)));
        assert_eq!(rx.len(), holds);
        // Again, in the middle of catching up.
        tx.send(sent).unwrap();
        assert_eq!(block_on(rx.recv()), Err(RecvError::Lagged(1)));
        for n in 6..=sent {
            assert_eq!(rx.try_recv(), Ok(n), "capacity {capacity}");
        }
        assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(RecvError::Lagged(5).to_string(), "channel lagged by 5");
    }
}

#[test]
fn one_that_is_too_slow_does_not_hold_up_the_others() {
    let (tx, mut fast) = broadcast::channel(2);
    let mut slow = tx.subscribe();
    for n in 0..100 {
        assert_eq!((tx.send(n), fast.try_recv()), (Ok(2), Ok(n)));
    }
    assert_eq!(slow.try_recv(), Err(TryRecvError::Lagged(98)));
    assert_eq!([slow.try_recv(), slow.try_recv()], [Ok(98), Ok(99)]);
}

#[test]
fn a_receiver_that_lags_behind_between_wake_and_look_learns_it() {
    let (tx, mut rx) = broadcast::channel(1);
    let counter = Counter::new();
    let mut recv = pin!(rx.recv());
    assert!(poll(recv.as_mut(), &counter).is_pending());
    (0..3).for_each(|n| drop(tx.send(n)));
    assert_eq!(counter.wakes(), 1);
    assert_eq!(poll_once(recv.as_mut()), Poll::Ready(Err(RecvError::Lagged(2))));
}

#[test]
fn capacities_are_checked() {
    for capacity in [0, usize::MAX / 2 + 1, usize::MAX] {
        let text = panic_text(|| broadcast::channel::<u8>(capacity));
        assert!(text.contains(&format!("not {capacity}")), "{text}");
        assert!(panic_text(|| Sender::<u8>::new(capacity)).contains("capacity"));
    }
    let text = panic_text(|| broadcast::channel::<u64>(usize::MAX / 64));
    assert!(text.starts_with("no memory for a broadcast channel of"), "{text}");
}

#[test]
fn all_that_wait_are_woken_once_and_in_order() {
    let (tx, rx) = broadcast::channel(4);
    let mut receivers: Vec<_> = (0..100).map(|_| rx.resubscribe()).collect();
    let counters: Vec<_> = receivers.iter().map(|_| Counter::new()).collect();
    let mut futures: Vec<_> = receivers.iter_mut().map(|rx| Box::pin(rx.recv())).collect();
    for (future, counter) in futures.iter_mut().zip(&counters) {
        assert!(poll(future.as_mut(), counter).is_pending());
        assert!(poll(future.as_mut(), counter).is_pending());
    }
    tx.send(1).unwrap();
    tx.send(2).unwrap();
    assert!(counters.iter().all(|counter| counter.wakes() == 1));
    assert!(futures.iter_mut().all(|future| poll_once(future.as_mut()) == Poll::Ready(Ok(1))));
    drop(futures);
    assert!(receivers.iter_mut().all(|rx| rx.try_recv() == Ok(2)));
}

#[test]
fn a_receiver_that_gives_up_loses_nothing_and_keeps_nobody() {
    let (tx, mut rx) = broadcast::channel(4);
    let mut other = tx.subscribe();
    let counter = Counter::new();
    let mut staying = pin!(other.recv());
    let mut leaving = Box::pin(rx.recv());
    assert!(poll_once(leaving.as_mut()).is_pending());
    assert!(poll(staying.as_mut(), &counter).is_pending());
    tx.send(1).unwrap();
    drop(leaving);
    let mut again = Box::pin(rx.recv());
    assert_eq!(poll_once(again.as_mut()), Poll::Ready(Ok(1)));
    drop(again);
    assert_eq!(counter.wakes(), 1);
    assert_eq!(poll_once(staying.as_mut()), Poll::Ready(Ok(1)));
    for n in 0..3 {
        assert!(poll_once(pin!(rx.recv())).is_pending());
        tx.send(n).unwrap();
        tx.send(n).unwrap();
        assert_eq!([rx.try_recv(), rx.try_recv()], [Ok(n), Ok(n)]);
        let counter = Counter::new();
        let mut recv = pin!(rx.recv());
        assert!(poll(recv.as_mut(), &counter).is_pending());
        tx.send(n).unwrap();
        assert_eq!((counter.wakes(), poll_once(recv.as_mut())), (1, Poll::Ready(Ok(n))));
    }
}

#[test]
fn the_end_comes_after_the_last_value() {
    let (tx, mut rx) = broadcast::channel(4);
    let (weak, more) = (tx.downgrade(), tx.clone());
    let counter = Counter::new();
    {
        let mut recv = pin!(rx.recv());
        assert!(poll(recv.as_mut(), &counter).is_pending());
        drop(tx);
        assert_eq!(counter.wakes(), 0);
        weak.upgrade().unwrap().send(1).unwrap();
        drop(more);
        assert_eq!(counter.wakes(), 1);
        assert_eq!(poll_once(recv.as_mut()), Poll::Ready(Ok(1)));
    }
    assert!(rx.is_closed() && weak.upgrade().is_none());
    assert_eq!(rx.try_recv(), Err(TryRecvError::Closed));
    assert_eq!(block_on(rx.recv()), Err(RecvError::Closed));
    assert_eq!((rx.sender_strong_count(), rx.sender_weak_count(), weak.weak_count()), (0, 1, 1));
    let (tx, mut rx) = broadcast::channel::<u8>(1);
    let counter = Counter::new();
    let mut recv = pin!(rx.recv());
    assert!(poll(recv.as_mut(), &counter).is_pending());
    drop(tx);
    assert_eq!((counter.wakes(), poll_once(recv.as_mut())), (1, Poll::Ready(Err(RecvError::Closed))));
}

#[test]
fn closed_waits_for_the_last_receiver_and_for_the_next_last_one() {
    let (tx, rx) = broadcast::channel::<u8>(1);
    let counter = Counter::new();
    let mut closed = pin!(tx.closed());
    assert!(poll(closed.as_mut(), &counter).is_pending());
    let more = tx.subscribe();
    drop(rx);
    assert_eq!(counter.wakes(), 0);
    drop(more);
    assert_eq!(counter.wakes(), 1);
    let reopened = tx.subscribe();
    assert!(poll(closed.as_mut(), &counter).is_pending());
    drop(reopened);
    assert!(poll(closed.as_mut(), &counter).is_ready());
    assert_eq!(tx.receiver_count(), 0);
}

#[test]
fn counts_and_identity() {
    let (tx, rx) = broadcast::channel::<u8>(1);
    let (more, other) = (tx.clone(), Sender::<u8>::new(1));
    let weak = [tx.downgrade(), tx.downgrade().clone()];
    assert_eq!((tx.strong_count(), tx.weak_count(), tx.receiver_count()), (2, 2, 1));
    assert_eq!((weak[0].strong_count(), rx.sender_weak_count()), (2, 2));
    assert!(tx.same_channel(&more) && !tx.same_channel(&other));
    assert!(rx.same_channel(&more.subscribe()) && !rx.same_channel(&other.subscribe()));
    drop((weak, more));
    assert_eq!((rx.sender_strong_count(), rx.sender_weak_count()), (1, 0));
    assert_eq!(format!("{tx:?}"), "Sender { len: 0, receiver_count: 1, .. }");
    assert_eq!(format!("{rx:?}"), "Receiver { len: 0, is_closed: false, .. }");
}

/// Counts its clones and its drops.
struct Counted(Arc<(AtomicUsize, AtomicUsize)>);

impl Clone for Counted {
    fn clone(&self) -> Self {
        self.0.0.fetch_add(1, SeqCst);
        Self(self.0.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.1.fetch_add(1, SeqCst);
    }
}

#[test]
fn values_are_dropped_when_nobody_has_still_to_take_them() {
    let counts = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    let value = || Counted(counts.clone());
    let now = || (counts.0.load(SeqCst), counts.1.load(SeqCst));
    let (tx, mut first) = broadcast::channel(2);
    let mut second = tx.subscribe();
    tx.send(value()).unwrap_or_else(|_| panic!("there are receivers"));
    drop(first.try_recv());
    assert_eq!(now(), (1, 1), "a clone");
    drop(second.try_recv());
    assert_eq!(now(), (1, 2), "the last one takes the value itself");
    // Overwritten.
    (0..5).for_each(|_| drop(tx.send(value())));
    assert_eq!(now(), (1, 5));
    drop(first.try_recv());
    drop(first.try_recv());
    assert_eq!(now(), (2, 6));
    drop(first);
    assert_eq!(now(), (2, 6), "the second has still to take them");
    drop(second);
    assert_eq!(now(), (2, 8));
    let error = tx.send(value());
    assert_eq!(now(), (2, 8), "the error holds it");
    assert!(error.is_err());
}

#[test]
fn values_go_with_a_receiver_that_lags_far_behind() {
    let drops = Drops::default();
    let item = || Arc::new(drops.item());
    let (tx, rx) = broadcast::channel(2);
    let other = tx.subscribe();
    (0..7).for_each(|_| drop(tx.send(item())));
    drop(rx);
    assert_eq!(drops.count(), 5);
    drop(other);
    assert_eq!(drops.count(), 7);
}

#[test]
fn a_clone_that_panics_counts_as_taken() {
    #[derive(Debug, PartialEq)]
    struct Fragile(u8);
    impl Clone for Fragile {
        fn clone(&self) -> Self {
            assert_ne!(self.0, 0, "this clone panics");
            Self(self.0)
        }
    }
    let (tx, mut first) = broadcast::channel(4);
    let mut second = tx.subscribe();
    tx.send(Fragile(0)).unwrap();
    tx.send(Fragile(1)).unwrap();
    assert!(panic_text(|| first.try_recv()).contains("this clone panics"));
    assert_eq!(first.try_recv(), Ok(Fragile(1)));
    assert_eq!([second.try_recv(), second.try_recv()], [Ok(Fragile(0)), Ok(Fragile(1))]);
    // Also in a future that has waited.
    let mut third = tx.subscribe();
    let mut recv = pin!(first.recv());
    assert!(poll_once(recv.as_mut()).is_pending());
    tx.send(Fragile(0)).unwrap();
    assert!(panic_text(|| poll_once(recv.as_mut())).contains("this clone panics"));
    drop(second);
    assert_eq!(third.try_recv(), Ok(Fragile(0)));
    assert!(tx.is_empty());
}

#[test]
fn a_destructor_that_panics_keeps_nothing_from_going_on() {
    #[derive(Clone)]
    struct Bomb(Arc<AtomicUsize>, bool);
    impl Drop for Bomb {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
            assert!(!self.1, "a bomb");
        }
    }
    let drops = Arc::new(AtomicUsize::new(0));
    let bomb = |is_armed| Bomb(drops.clone(), is_armed);
    let (tx, rx) = broadcast::channel(2);
    let mut other = tx.subscribe();
    let counter = Counter::new();
    let mut recv = Box::pin(other.recv());
    assert!(poll(recv.as_mut(), &counter).is_pending());
    // Overwritten values.
    assert!(tx.send(bomb(true)).is_ok() && tx.send(bomb(true)).is_ok());
    assert!(panic_text(|| tx.send(bomb(true)).is_ok()).contains("a bomb"));
    assert_eq!((counter.wakes(), drops.load(SeqCst)), (1, 1));
    assert!(matches!(poll_once(recv.as_mut()), Poll::Ready(Err(RecvError::Lagged(1)))));
    drop(recv);
    drop(other);
    // Values that go with their last receiver.
    let closed = Counter::new();
    let mut closing = pin!(tx.closed());
    assert!(poll(closing.as_mut(), &closed).is_pending());
    assert!(panic_text(|| drop(rx)).contains("a bomb"));
    assert_eq!((closed.wakes(), drops.load(SeqCst), tx.len()), (1, 3, 0));
}

/// A value whose clone waits until it is let go.
struct Slow(Arc<(AtomicBool, AtomicBool)>);

impl Clone for Slow {
    fn clone(&self) -> Self {
        self.0.0.store(true, SeqCst);
        until("the clone is let go", || self.0.1.load(SeqCst));
        Self(self.0.clone())
    }
}

#[test]
fn a_clone_that_takes_its_time_holds_up_receivers_of_the_same_value_only() {
    let _watchdog = support::watchdog();
    let gate = Arc::new((AtomicBool::new(false), AtomicBool::new(false)));
    let has_come_round = AtomicBool::new(false);
    let (tx, mut cloning) = broadcast::channel(2);
    let (mut same, mut last) = (tx.subscribe(), tx.subscribe());
    tx.send(Slow(gate.clone())).map_err(drop).unwrap();
    joined_scope(|scope| {
        let clone = scope.spawn(|| assert!(cloning.try_recv().is_ok()));
        until("it is being cloned", || gate.0.load(SeqCst));
        // A receiver that wants the same value lets other tasks run meanwhile.
        let counter = Counter::new();
        let mut recv = pin!(same.recv());
        assert!(poll(recv.as_mut(), &counter).is_pending());
        assert!(counter.wakes() > 0, "it is polled again");
        // Sending goes on, until it comes round; so do all others.
        let mut new = tx.subscribe();
        tx.send(Slow(gate.clone())).map_err(drop).unwrap();
        assert_eq!((new.len(), tx.receiver_count(), tx.len()), (1, 4, 2));
        let sending = scope.spawn(|| {
            tx.send(Slow(gate.clone())).map_err(drop).unwrap();
            has_come_round.store(true, SeqCst);
        });
        let mut one_more = tx.subscribe();
        assert!(one_more.try_recv().is_err());
        assert!(!has_come_round.load(SeqCst) && !clone.is_finished());
        gate.1.store(true, SeqCst);
        clone.join().unwrap();
        sending.join().unwrap();
        let result = block_on(recv);
        assert!(matches!(result, Err(RecvError::Lagged(1))), "it was overwritten");
        assert!(last.try_recv().is_err() && new.try_recv().is_ok());
    });
}

#[test]
fn handles_tell_how_many_values_and_handles_are_left() {
    let (tx, mut rx) = broadcast::channel(4);
    assert!(tx.is_empty() && rx.is_empty() && !rx.is_closed());
    tx.send(1).unwrap();
    tx.send(2).unwrap();
    assert!(!tx.is_empty() && !rx.is_empty());
    assert_eq!((tx.len(), rx.len()), (2, 2));
    assert_eq!((rx.try_recv(), tx.len(), rx.len()), (Ok(1), 1, 1));
    let weak = [tx.downgrade(), tx.downgrade(), tx.downgrade()];
    let more = [tx.clone(), weak[0].upgrade().unwrap()];
    assert!(tx.same_channel(&more[1]));
    assert_eq!((tx.strong_count(), weak[0].strong_count(), rx.sender_strong_count()), (3, 3, 3));
    assert_eq!((tx.weak_count(), weak[0].weak_count(), rx.sender_weak_count()), (3, 3, 3));
    drop((tx, more));
    assert!(rx.is_closed() && weak[0].upgrade().is_none());
    assert_eq!((weak[0].strong_count(), weak[0].weak_count()), (0, 3));
}

/// The future is gone, but a counter of its waker is still there to count a wake.
#[test]
fn a_future_that_is_dropped_leaves_the_line_and_its_waker() {
    let (tx, rx) = broadcast::channel(4);
    let mut receivers = [rx.resubscribe(), rx.resubscribe(), rx.resubscribe()];
    let counters = [Counter::new(), Counter::new(), Counter::new()];
    let mut futures = receivers.each_mut().map(|rx| Box::pin(Some(rx.recv())));
    for (future, counter) in futures.iter_mut().zip(&counters) {
        assert!(poll(future.as_mut().as_pin_mut().unwrap(), counter).is_pending());
    }
    futures[1].as_mut().set(None);
    assert_eq!(Arc::strong_count(&counters[1]), 1);
    tx.send(1).unwrap();
    assert_eq!(counters.each_ref().map(|counter| counter.wakes()), [1, 0, 1]);
    drop(futures);
    assert!(receivers.iter_mut().all(|rx| rx.try_recv() == Ok(1)));
}

/// The receivers are more than a batch, so that the wait list's lock is released in between.
#[test]
fn a_receiver_that_comes_while_others_are_woken_sleeps_until_the_next_value() {
    for sent_before in 0..3 {
        let (tx, rx) = broadcast::channel(4);
        (0..sent_before).for_each(|n| drop(tx.send(n)));
        let newcomer = Arc::new(Mutex::new(None));
        let counter = Counter::new();
        let (theirs, their_newcomer, their_counter) = (tx.clone(), newcomer.clone(), counter.clone());
        let waker = support::waker(move || {
            let mut rx = theirs.subscribe();
            let mut future = Box::pin(async move { rx.recv().await });
            assert!(poll(future.as_mut(), &their_counter).is_pending());
            *their_newcomer.lock() = Some(future);
        });
        let mut receivers: Vec<_> = (0..100).map(|_| rx.resubscribe()).collect();
        let mut futures: Vec<_> = receivers.iter_mut().map(|rx| Box::pin(rx.recv())).collect();
        support::wait_with(&waker, futures[0].as_mut());
        futures[1..].iter_mut().for_each(|future| assert!(poll_once(future.as_mut()).is_pending()));
        tx.send(7).unwrap();
        assert!(futures.iter_mut().all(|future| poll_once(future.as_mut()) == Poll::Ready(Ok(7))));
        let mut newcomer = newcomer.lock().take().unwrap();
        assert_eq!(counter.wakes(), 0);
        assert!(poll(newcomer.as_mut(), &counter).is_pending());
        tx.send(8).unwrap();
        assert_eq!((counter.wakes(), poll_once(newcomer.as_mut())), (1, Poll::Ready(Ok(8))));
    }
}

#[test]
fn the_last_waker_is_the_one_that_is_woken() {
    let (tx, mut rx) = broadcast::channel(4);
    let (old, new) = (Counter::new(), Counter::new());
    let mut recv = pin!(rx.recv());
    assert!(poll(recv.as_mut(), &old).is_pending());
    assert!(poll(recv.as_mut(), &new).is_pending());
    tx.send(1).unwrap();
    assert_eq!((old.wakes(), new.wakes(), Arc::strong_count(&old)), (0, 1, 1));
}

#[test]
fn all_that_wait_are_told_of_the_end() {
    let (tx, rx) = broadcast::channel::<u8>(4);
    let mut receivers: Vec<_> = (0..100).map(|_| rx.resubscribe()).collect();
    let counter = Counter::new();
    let mut futures: Vec<_> = receivers.iter_mut().map(|rx| Box::pin(rx.recv())).collect();
    futures.iter_mut().for_each(|future| assert!(poll(future.as_mut(), &counter).is_pending()));
    drop(tx);
    assert_eq!(counter.wakes(), 100);
    let end = Poll::Ready(Err(RecvError::Closed));
    assert!(futures.iter_mut().all(|future| poll_once(future.as_mut()) == end));
}

#[test]
fn a_waker_that_panics_keeps_nobody_asleep() {
    let (tx, rx) = broadcast::channel(4);
    let mut receivers: Vec<_> = (0..100).map(|_| rx.resubscribe()).collect();
    let counters: Vec<_> =
        (0..100).map(|n| if n % 40 == 0 { Counter::panicking() } else { Counter::new() }).collect();
    let mut futures: Vec<_> = receivers.iter_mut().map(|rx| Box::pin(rx.recv())).collect();
    for (future, counter) in futures.iter_mut().zip(&counters) {
        assert!(poll(future.as_mut(), counter).is_pending());
    }
    assert_eq!(panic_text(|| tx.send(1)), "this waker panics");
    assert!(counters.iter().all(|counter| counter.wakes() == 1));
    assert!(futures.iter_mut().all(|future| poll_once(future.as_mut()) == Poll::Ready(Ok(1))));
}

/// What a waker does in the middle of a send: send, receive, drop a receiver that is in the list, and put one
/// there.
#[test]
fn a_send_survives_what_its_wakers_do() {
    type Future =
        std::pin::Pin<Box<dyn std::future::Future<Output = (Result<i32, RecvError>, Receiver<i32>)> + Send>>;

    fn waiting(mut rx: Receiver<i32>) -> Future {
        Box::pin(async move { (rx.recv().await, rx) })
    }

    struct Meddler {
        tx: Sender<i32>,
        victims: Mutex<Vec<Future>>,
        newcomer: Mutex<Option<(Future, Arc<Counter>)>>,
    }

    impl Wake for Meddler {
        fn wake(self: Arc<Self>) {
            self.victims.lock().pop();
            let (mut future, counter) = (waiting(self.tx.subscribe()), Counter::new());
            assert!(poll(future.as_mut(), &counter).is_pending());
            *self.newcomer.lock() = Some((future, counter));
            assert_eq!(self.tx.send(2), Ok(self.tx.receiver_count()));
        }
    }

    let (tx, rx) = broadcast::channel(4);
    let meddler = Arc::new(Meddler { tx: tx.clone(), victims: Mutex::default(), newcomer: Mutex::default() });
    let mut first = waiting(rx.resubscribe());
    assert!(first.as_mut().poll(&mut Context::from_waker(&Waker::from(meddler.clone()))).is_pending());
    // More than a batch, so that the wait list's lock is released in between.
    let mut others: Vec<_> = (0..100).map(|_| (waiting(rx.resubscribe()), Counter::new())).collect();
    for (future, counter) in &mut others {
        assert!(poll(future.as_mut(), counter).is_pending());
    }
    meddler.victims.lock().push(others.pop().unwrap().0);

    tx.send(1).unwrap();

    let (mut newcomer, counter) = meddler.newcomer.lock().take().unwrap();
    assert_eq!(counter.wakes(), 1);
    assert!(matches!(poll_once(newcomer.as_mut()), Poll::Ready((Ok(2), _))));
    for (future, counter) in &mut others {
        assert_eq!(counter.wakes(), 1);
        let Poll::Ready((Ok(1), mut rx)) = poll_once(future.as_mut()) else { panic!("the first value") };
        assert_eq!(rx.try_recv(), Ok(2));
    }
    assert!(matches!(poll_once(first.as_mut()), Poll::Ready((Ok(1), _))));
}

#[test]
fn a_receiver_that_always_has_a_value_lets_others_run() {
    let rt = support::build(0);
    rt.block_on(async {
        let turns = Arc::new(AtomicUsize::new(0));
        let theirs = turns.clone();
        let task = runtime::spawn(async move {
            let (tx, mut rx) = broadcast::channel(1);
            loop {
                tx.send(1).unwrap();
                tx.send(2).unwrap();
                assert_eq!(rx.recv().await, Err(RecvError::Lagged(1)));
                assert_eq!(rx.recv().await, Ok(2));
                theirs.fetch_add(1, SeqCst);
            }
        });
        while turns.load(SeqCst) == 0 {
            runtime::task::yield_now().await;
        }
        task.abort();
    });
}

#[test]
fn blocking_calls_work_on_threads_and_panic_in_tasks() {
    let (tx, mut rx) = broadcast::channel(16);
    let sender = thread::spawn(move || (0..100).for_each(|n| drop(tx.send(n))));
    let mut got = 0;
    loop {
        match rx.blocking_recv() {
            Ok(_) => got += 1,
            Err(RecvError::Lagged(missed)) => got += missed,
            Err(RecvError::Closed) => break,
        }
    }
    sender.join().unwrap();
    assert_eq!(got, 100);
    let rt = support::build(1);
    rt.block_on(rt.spawn(async move {
        let text = panic_text(|| rx.blocking_recv());
        assert!(text.contains("`recv().await`"), "{text}");
    }))
    .unwrap();
}

#[test]
fn values_need_not_be_sync() {
    let (tx, mut first) = broadcast::channel(1024);
    let mut second = tx.subscribe();
    joined_scope(|scope| {
        let threads = [&mut first, &mut second].map(|rx| {
            scope.spawn(move || {
                for n in 0..1000 {
                    assert_eq!(rx.blocking_recv().map(Cell::into_inner), Ok(n));
                }
            })
        });
        (0..1000).for_each(|n| assert!(tx.send(Cell::new(n)).is_ok()));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn receivers_on_many_threads_see_one_order_and_miss_what_they_are_told() {
    let _watchdog = support::watchdog();
    const SENDS: usize = 20_000;
    for capacity in [1, 8, 1 << 16] {
        let (tx, rx) = broadcast::channel(capacity);
        let logs: Vec<_> = (0..3).map(|_| Mutex::new(Vec::new())).collect();
        joined_scope(|scope| {
            let mut threads = Vec::new();
            for log in &logs {
                let mut rx = rx.resubscribe();
                threads.push(scope.spawn(move || {
                    let mut position = 0;
                    loop {
                        match rx.blocking_recv() {
                            Ok(value) => {
                                log.lock().push((position, value));
                                position += 1;
                            }
                            Err(RecvError::Lagged(missed)) => position += missed as usize,
                            Err(RecvError::Closed) => break assert_eq!(position, 2 * SENDS),
                        }
                    }
                }));
            }
            drop(rx);
            for sender in 0..2 {
                let tx = tx.clone();
                threads.push(scope.spawn(move || (0..SENDS).for_each(|n| drop(tx.send((sender, n))))));
            }
            drop(tx);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        // What two receivers have of the same position is the same; a sender's values come in its order.
        let mut all = vec![None; 2 * SENDS];
        for log in logs {
            let mut last = [None, None];
            for (position, value @ (sender, n)) in log.into_inner() {
                assert!(all[position].replace(value).is_none_or(|other| other == value));
                assert!(last[sender].replace(n) < Some(n));
            }
        }
    }
}

#[test]
fn receivers_come_and_go_while_values_are_sent() {
    let _watchdog = support::watchdog();
    let drops = Drops::default();
    let sent = AtomicUsize::new(0);
    let (tx, rx) = broadcast::channel(8);
    joined_scope(|scope| {
        for _ in 0..3 {
            let tx = &tx;
            scope.spawn(move || {
                for round in 0..2000 {
                    let mut rx = tx.subscribe();
                    if round % 3 == 0 {
                        let _ = rx.try_recv();
                    } else if round % 3 == 1 {
                        let _ = poll_once(pin!(rx.recv()));
                    }
                }
            });
        }
        let (tx, sent, drops) = (&tx, &sent, &drops);
        scope.spawn(move || {
            for _ in 0..5000 {
                sent.fetch_add(1, SeqCst);
                assert!(tx.send(Arc::new(drops.item())).is_ok());
            }
        });
    });
    assert!(drops.count() + 8 >= sent.load(SeqCst));
    drop(rx);
    assert_eq!(drops.count(), sent.load(SeqCst));
    assert!(tx.is_empty());
}

#[test]
fn tasks_follow_senders_to_the_end() {
    let _watchdog = support::watchdog();
    const SENDS: u64 = 2_000;
    support::each_kind(|rt| {
        rt.block_on(async {
            let (tx, rx) = broadcast::channel(64);
            let followers: Vec<_> = (0..20)
                .map(|_| {
                    let mut rx = rx.resubscribe();
                    runtime::spawn(async move {
                        let mut count = 0;
                        loop {
                            match rx.recv().await {
                                Ok(value) => {
                                    assert_eq!(value, count);
                                    count += 1;
                                }
                                Err(RecvError::Lagged(missed)) => count += missed,
                                Err(RecvError::Closed) => break count,
                            }
                        }
                    })
                })
                .collect();
            drop(rx);
            for n in 0..SENDS {
                tx.send(n).unwrap();
                if n % 40 == 0 {
                    runtime::task::yield_now().await;
                }
            }
            drop(tx);
            for follower in followers {
                assert_eq!(follower.await.unwrap(), SENDS);
            }
        });
    });
}
