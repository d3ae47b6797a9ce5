//! `sync::watch`, by its public interface.

mod support;
mod sync_support;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use parking_lot::Mutex;
use runtime::sync::watch;
use support::{joined_scope, until};
use sync_support::*;

#[test]
fn a_value_is_seen_once_by_each_receiver() {
    let (tx, mut first) = watch::channel(1);
    let mut second = first.clone();
    assert!(poll_once(pin!(first.changed())).is_pending(), "the first value counts as seen");
    tx.send(2).unwrap();
    tx.send(3).unwrap();
    for rx in [&mut first, &mut second] {
        assert!(matches!(poll_once(pin!(rx.changed())), Poll::Ready(Ok(()))));
        assert!(!rx.borrow().has_changed());
        assert_eq!(*rx.borrow_and_update(), 3);
        assert!(poll_once(pin!(rx.changed())).is_pending());
    }
}

#[test]
fn a_clone_has_seen_what_the_original_has() {
    let (tx, rx) = watch::channel(1);
    tx.send(2).unwrap();
    assert!(rx.clone().has_changed().unwrap());
    assert!(!tx.subscribe().has_changed().unwrap());
}

#[test]
fn marks_can_be_set_by_hand() {
    let (tx, mut rx) = watch::channel(1);
    for _ in 0..3 {
        rx.mark_changed();
        assert!(rx.has_changed().unwrap());
        assert!(rx.borrow().has_changed());
    }
    assert!(poll_once(pin!(rx.changed())).is_ready());
    tx.send(2).unwrap();
    rx.mark_unchanged();
    assert!(poll_once(pin!(rx.changed())).is_pending());
}

#[test]
fn all_that_wait_are_woken_once() {
    let (tx, rx) = watch::channel(0);
    let mut receivers: Vec<_> = (0..100).map(|_| rx.clone()).collect();
    let counters: Vec<_> = receivers.iter().map(|_| Counter::new()).collect();
    let mut futures: Vec<_> = receivers.iter_mut().map(|rx| Box::pin(rx.changed())).collect();
    for (future, counter) in futures.iter_mut().zip(&counters) {
        assert!(poll(future.as_mut(), counter).is_pending());
        assert!(poll(future.as_mut(), counter).is_pending());
    }
    tx.send(1).unwrap();
    tx.send(2).unwrap();
    assert!(counters.iter().all(|counter| counter.wakes() == 1));
    assert!(futures.iter_mut().all(|future| poll_once(future.as_mut()).is_ready()));
}

#[test]
fn the_last_waker_is_the_one_that_is_woken() {
    let (tx, mut rx) = watch::channel(0);
    let (old, new) = (Counter::new(), Counter::new());
    let mut changed = pin!(rx.changed());
    assert!(poll(changed.as_mut(), &old).is_pending());
    assert!(poll(changed.as_mut(), &new).is_pending());
    tx.send(1).unwrap();
    assert_eq!((old.wakes(), new.wakes()), (0, 1));
}

#[test]
fn a_receiver_that_gives_up_loses_nothing_and_keeps_nobody() {
    let (tx, mut rx) = watch::channel(0);
    let mut other = rx.clone();
    let mut staying = pin!(other.changed());
    {
        let mut leaving = Box::pin(rx.changed());
        assert!(poll_once(leaving.as_mut()).is_pending());
        assert!(poll_once(staying.as_mut()).is_pending());
        tx.send(1).unwrap();
        // Released, and dropped without having looked.
    }
    assert!(poll_once(pin!(rx.changed())).is_ready());
    assert!(poll_once(staying.as_mut()).is_ready());
}

#[test]
fn waiting_works_after_everybody_gave_up() {
    let (tx, mut rx) = watch::channel(0);
    for n in 1..4 {
        drop(poll_once(pin!(rx.changed())));
        tx.send(n).unwrap();
        assert!(rx.has_changed().unwrap(), "although no receiver waited");
        tx.send(-n).unwrap();
        let counter = Counter::new();
        rx.mark_unchanged();
        let mut changed = pin!(rx.changed());
        assert!(poll(changed.as_mut(), &counter).is_pending());
        tx.send(n).unwrap();
        assert_eq!(counter.wakes(), 1);
        assert!(poll_once(changed.as_mut()).is_ready());
    }
}

#[test]
fn the_end_of_the_senders_is_told_after_the_last_value() {
    let (tx, mut rx) = watch::channel(0);
    let (counter, more) = (Counter::new(), tx.clone());
    {
        let mut changed = pin!(rx.changed());
        assert!(poll(changed.as_mut(), &counter).is_pending());
        drop(tx);
        assert_eq!(counter.wakes(), 0);
        more.send_replace(1);
        drop(more);
        assert_eq!(counter.wakes(), 1);
        assert!(matches!(poll_once(changed.as_mut()), Poll::Ready(Ok(()))));
    }
    assert!(matches!(poll_once(pin!(rx.changed())), Poll::Ready(Err(_))));
    assert!(rx.has_changed().is_err() && rx.is_closed());
    assert_eq!(*rx.borrow(), 1);
    rx.mark_changed();
    assert!(rx.has_changed().is_err());
    assert!(matches!(poll_once(pin!(rx.changed())), Poll::Ready(Ok(()))));
}

#[test]
fn wait_for_asks_about_the_last_value_once() {
    let (tx, mut rx) = watch::channel(0);
    let asked = Mutex::new(Vec::new());
    let mut ask = |n: &i32| {
        asked.lock().push(*n);
        *n == 9
    };
    {
        let mut waiting = pin!(rx.wait_for(&mut ask));
        assert!(poll_once(waiting.as_mut()).is_pending());
        tx.send(1).unwrap();
        assert!(poll_once(waiting.as_mut()).is_pending());
        tx.send(2).unwrap();
        tx.send(3).unwrap();
        drop(tx);
        assert!(matches!(poll_once(waiting.as_mut()), Poll::Ready(Err(_))));
    }
    assert_eq!(*asked.lock(), [0, 1, 3]);
    assert!(matches!(poll_once(pin!(rx.wait_for(&mut ask))), Poll::Ready(Err(_))));
    assert_eq!(*asked.lock(), [0, 1, 3, 3]);
}

#[test]
fn wait_for_answers_the_value_it_asked_about() {
    let (tx, mut rx) = watch::channel(5);
    assert!(!block_on(rx.wait_for(|&n| n == 5)).unwrap().has_changed(), "seen values are asked about, too");
    tx.send(6).unwrap();
    drop(tx);
    let value = block_on(rx.wait_for(|&n| n == 6)).unwrap();
    assert_eq!((*value, value.has_changed()), (6, true));
}

#[test]
fn sending_needs_a_receiver_replacing_does_not() {
    let (tx, rx) = watch::channel(1);
    drop(rx);
    let watch::error::SendError(value) = tx.send(2).unwrap_err();
    assert_eq!(value, 2);
    assert_eq!(tx.send_replace(3), 1);
    tx.send_modify(|value| *value += 1);
    assert!(!tx.send_if_modified(|value| {
        *value += 1;
        false
    }));
    let rx = tx.subscribe();
    assert_eq!(*rx.borrow(), 5);
    assert!(!rx.has_changed().unwrap());
}

#[test]
fn closed_waits_for_the_last_receiver_and_for_the_next_last_one() {
    let (tx, rx) = watch::channel(());
    let counter = Counter::new();
    let mut closed = pin!(tx.closed());
    assert!(poll(closed.as_mut(), &counter).is_pending());
    let more = rx.clone();
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
    let (tx, rx) = watch::channel(());
    let (more, other) = (tx.clone(), watch::Sender::<()>::default());
    assert_eq!((tx.sender_count(), tx.receiver_count()), (2, 1));
    assert!(tx.same_channel(&more) && !tx.same_channel(&other));
    assert!(rx.same_channel(&more.subscribe()) && !rx.same_channel(&other.subscribe()));
    drop(tx);
    assert_eq!(more.sender_count(), 1);
}

#[test]
fn each_value_is_dropped_once_the_last_with_the_channel() {
    let drops = Drops::default();
    let (tx, rx) = watch::channel(drops.item());
    tx.send(drops.item()).unwrap();
    assert_eq!(drops.count(), 1);
    drop(tx);
    assert_eq!(drops.count(), 1);
    drop(rx);
    assert_eq!(drops.count(), 2);
}

#[test]
fn handles_print_the_value_unless_it_is_being_changed() {
    let (tx, rx) = watch::channel(7);
    for text in [format!("{tx:?}"), format!("{rx:?}"), format!("{:?}", rx.borrow())] {
        assert!(text.contains("value: 7"), "{text}");
    }
    tx.send_modify(|_| {
        let text = format!("{rx:?}");
        assert!(text.contains("<locked>"), "{text}");
    });
}

/// A sender in a thread of its own that waits for the `Ref`s of others.
fn blocked_sender(tx: &watch::Sender<i32>, value: i32) -> (thread::JoinHandle<()>, Arc<AtomicBool>) {
    let (theirs, has_sent) = (tx.clone(), Arc::new(AtomicBool::new(false)));
    let sent = has_sent.clone();
    let sender = thread::spawn(move || {
        theirs.send(value).unwrap();
        sent.store(true, SeqCst);
    });
    // This thread may have a `Ref`, and would print the value.
    joined_scope(|scope| {
        scope.spawn(|| until("the sender is at the value", || format!("{tx:?}").contains("<locked>")));
    });
    (sender, has_sent)
}

#[test]
fn a_sender_waits_until_nobody_reads_and_new_readers_wait_for_it() {
    let (tx, rx) = watch::channel(1);
    let value = rx.borrow();
    let (sender, has_sent) = blocked_sender(&tx, 2);
    let late = rx.clone();
    let reader = thread::spawn(move || *late.borrow());
    // Long enough for both to fall asleep.
    thread::sleep(std::time::Duration::from_millis(20));
    assert!(!has_sent.load(SeqCst) && !reader.is_finished());
    assert_eq!(*value, 1);
    drop(value);
    sender.join().unwrap();
    assert_eq!(reader.join().unwrap(), 2);
    assert!(rx.has_changed().unwrap());
}

#[test]
fn all_threads_that_sleep_behind_a_sender_are_woken() {
    let _watchdog = support::watchdog();
    let (tx, rx) = watch::channel(1);
    joined_scope(|scope| {
        tx.send_modify(|value| {
            for n in 0..4 {
                let number = Arc::new(AtomicUsize::new(0));
                let theirs = number.clone();
                let (tx, rx) = (&tx, &rx);
                scope.spawn(move || {
                    theirs.store(support::thread_number() as usize, SeqCst);
                    if n % 2 == 0 {
                        assert!(*rx.borrow() >= 2);
                    } else {
                        tx.send_modify(|value| *value += 1);
                    }
                });
                until("the thread runs", || number.load(SeqCst) != 0);
                support::until_asleep(number.load(SeqCst) as i32);
            }
            *value = 2;
        });
    });
    assert_eq!(*rx.borrow(), 4);
}

#[test]
fn a_thread_that_reads_may_read_again_while_a_sender_waits() {
    let (tx, rx) = watch::channel(1);
    let outer = rx.borrow();
    let (sender, has_sent) = blocked_sender(&tx, 2);
    let (inner, innermost) = (tx.borrow(), rx.borrow());
    drop(outer);
    drop(innermost);
    assert_eq!((*inner, has_sent.load(SeqCst)), (1, false));
    drop(inner);
    sender.join().unwrap();
    assert_eq!(*rx.borrow(), 2);
}

#[test]
fn a_thread_may_read_as_often_as_it_likes() {
    let (tx, rx) = watch::channel(1);
    // More than a slot can count.
    let many: Vec<_> = (0..200_000).map(|_| rx.borrow()).collect();
    assert!(many.iter().all(|value| **value == 1));
    drop(many);
    tx.send(2).unwrap();
}

#[test]
fn more_threads_may_read_than_there_are_slots() {
    const THREADS: usize = 50;
    let (tx, rx) = watch::channel(1);
    let barrier = std::sync::Barrier::new(THREADS + 1);
    joined_scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let value = rx.borrow();
                barrier.wait();
                barrier.wait();
                assert_eq!(*value, 1);
            });
        }
        barrier.wait();
        let (sender, has_sent) = blocked_sender(&tx, 2);
        assert!(!has_sent.load(SeqCst));
        barrier.wait();
        sender.join().unwrap();
    });
    assert_eq!(*rx.borrow(), 2);
}

#[test]
fn a_thread_that_would_wait_for_its_own_ref_panics() {
    let (tx, mut rx) = watch::channel(1);
    let value = rx.borrow();
    let text = panic_text(|| tx.send(2));
    assert!(text.contains("holds a `Ref`"), "{text}");
    // Also while another sender waits for it.
    let (sender, _) = blocked_sender(&tx, 3);
    let text = panic_text(|| tx.send_modify(|_| ()));
    assert!(text.contains("holds a `Ref`"), "{text}");
    drop(value);
    sender.join().unwrap();
    let text = panic_text(|| block_on(rx.wait_for(|_| tx.send(2).is_ok())).is_ok());
    assert!(text.contains("holds a `Ref`"), "{text}");
    tx.send(4).unwrap();
    assert_eq!(*rx.borrow_and_update(), 4);
}

#[test]
fn a_thread_that_would_wait_for_its_own_change_panics() {
    let (tx, rx) = watch::channel(1);
    let mut later = rx.clone();
    let mut changed = pin!(later.changed());
    assert!(poll_once(changed.as_mut()).is_pending());
    let inside: [&dyn Fn(); 3] = [&|| drop(rx.borrow()), &|| drop(tx.borrow()), &|| _ = tx.send(3)];
    for inside in inside {
        let text = panic_text(|| tx.send_modify(|_| inside()));
        assert!(text.contains("is changing the value"), "{text}");
        assert!(poll_once(changed.as_mut()).is_pending(), "no receiver learns of it");
    }
    tx.send(4).unwrap();
    assert!(poll_once(changed.as_mut()).is_ready());
    assert_eq!(*rx.borrow(), 4);
}

#[test]
fn a_panic_in_a_closure_leaves_the_channel_usable() {
    let (tx, mut rx) = watch::channel(1);
    let change = |value: &mut i32| {
        *value = 2;
        panic!("this closure panics")
    };
    assert_eq!(panic_text(|| tx.send_modify(change)), "this closure panics");
    assert!(!rx.has_changed().unwrap());
    assert_eq!(*rx.borrow(), 2);
    assert_eq!(panic_text(|| tx.send_if_modified(|_| panic!("this one, too"))), "this one, too");
    let ask = |_: &i32| panic!("and this one");
    assert_eq!(panic_text(|| block_on(rx.wait_for(ask)).is_ok()), "and this one");
    tx.send(3).unwrap();
    assert_eq!(*rx.borrow_and_update(), 3);
}

#[test]
fn an_old_value_may_use_the_channel_as_it_is_dropped() {
    #[derive(Default)]
    struct Value(Option<watch::Sender<Value>>);

    impl Drop for Value {
        fn drop(&mut self) {
            if let Some(tx) = self.0.take() {
                assert!(tx.borrow().0.is_none());
                tx.send(Value(None)).unwrap();
            }
        }
    }

    let (tx, mut rx) = watch::channel(Value(None));
    tx.send(Value(Some(tx.clone()))).unwrap();
    rx.mark_unchanged();
    tx.send(Value(None)).unwrap();
    assert!(rx.has_changed().unwrap());
    drop(tx);
    assert!(rx.is_closed(), "both senders are gone");
}

#[test]
fn a_waker_that_panics_keeps_nobody_asleep() {
    let (tx, rx) = watch::channel(0);
    let mut receivers: Vec<_> = (0..100).map(|_| rx.clone()).collect();
    let counters: Vec<_> =
        (0..100).map(|n| if n % 40 == 0 { Counter::panicking() } else { Counter::new() }).collect();
    let mut futures: Vec<_> = receivers.iter_mut().map(|rx| Box::pin(rx.changed())).collect();
    for (future, counter) in futures.iter_mut().zip(&counters) {
        assert!(poll(future.as_mut(), counter).is_pending());
    }
    assert_eq!(panic_text(|| tx.send(1)), "this waker panics");
    assert!(counters.iter().all(|counter| counter.wakes() == 1));
    assert!(futures.iter_mut().all(|future| poll_once(future.as_mut()).is_ready()));
}

/// What a waker does in the middle of a send: send, read, drop a receiver that is in the list, and put one
/// there.
#[test]
fn a_send_survives_what_its_wakers_do() {
    type Future = std::pin::Pin<Box<dyn std::future::Future<Output = watch::Receiver<i32>> + Send>>;

    fn waiting(mut rx: watch::Receiver<i32>) -> Future {
        Box::pin(async move {
            rx.changed().await.unwrap();
            rx
        })
    }

    struct Meddler {
        tx: watch::Sender<i32>,
        victims: Mutex<Vec<Future>>,
        newcomer: Mutex<Option<(Future, Arc<Counter>)>>,
    }

    impl Wake for Meddler {
        fn wake(self: Arc<Self>) {
            assert_eq!(*self.tx.borrow(), 1);
            self.victims.lock().pop();
            let (mut future, counter) = (waiting(self.tx.subscribe()), Counter::new());
            assert!(poll(future.as_mut(), &counter).is_pending());
            *self.newcomer.lock() = Some((future, counter));
            self.tx.send(2).unwrap();
        }
    }

    let (tx, rx) = watch::channel(0);
    let meddler = Arc::new(Meddler { tx: tx.clone(), victims: Mutex::default(), newcomer: Mutex::default() });
    let mut first = waiting(rx.clone());
    assert!(first.as_mut().poll(&mut Context::from_waker(&Waker::from(meddler.clone()))).is_pending());
    // More than a batch, so that the wait list's lock is released in between.
    let mut others: Vec<_> = (0..100).map(|_| (waiting(rx.clone()), Counter::new())).collect();
    for (future, counter) in &mut others {
        assert!(poll(future.as_mut(), counter).is_pending());
    }
    meddler.victims.lock().push(others.pop().unwrap().0);

    tx.send(1).unwrap();

    others.push(meddler.newcomer.lock().take().unwrap());
    for (future, counter) in &mut others {
        assert_eq!(counter.wakes(), 1);
        assert!(matches!(poll_once(future.as_mut()), Poll::Ready(rx) if *rx.borrow() == 2));
    }
    assert!(poll_once(first.as_mut()).is_ready());
}

/// The future is gone, but a counter of its waker is still there to count a wake.
#[test]
fn a_future_that_is_dropped_leaves_the_line_and_its_waker() {
    let (tx, rx) = watch::channel(0);
    let mut receivers = [rx.clone(), rx.clone(), rx.clone()];
    let counters = [Counter::new(), Counter::new(), Counter::new()];
    let mut futures = receivers.each_mut().map(|rx| Box::pin(Some(rx.changed())));
    for (future, counter) in futures.iter_mut().zip(&counters) {
        assert!(poll(future.as_mut().as_pin_mut().unwrap(), counter).is_pending());
    }
    futures[1].as_mut().set(None);
    assert_eq!(Arc::strong_count(&counters[1]), 1);
    tx.send(1).unwrap();
    assert_eq!(counters.each_ref().map(|counter| counter.wakes()), [1, 0, 1]);
}

/// The receivers are more than a batch, so that the wait list's lock is released in between.
#[test]
fn a_receiver_that_comes_while_others_are_woken_sleeps_until_the_next_value() {
    let (tx, rx) = watch::channel(0);
    let newcomer = Arc::new(Mutex::new(None));
    let counter = Counter::new();
    let (theirs, their_newcomer, their_counter) = (tx.clone(), newcomer.clone(), counter.clone());
    let waker = support::waker(move || {
        let mut rx = theirs.subscribe();
        let mut future = Box::pin(async move { rx.changed().await.is_ok() });
        assert!(poll(future.as_mut(), &their_counter).is_pending());
        *their_newcomer.lock() = Some(future);
    });
    let mut receivers: Vec<_> = (0..100).map(|_| rx.clone()).collect();
    let mut futures: Vec<_> = receivers.iter_mut().map(|rx| Box::pin(rx.changed())).collect();
    support::wait_with(&waker, futures[0].as_mut());
    futures[1..].iter_mut().for_each(|future| assert!(poll_once(future.as_mut()).is_pending()));
    tx.send(7).unwrap();
    assert!(futures.iter_mut().all(|future| poll_once(future.as_mut()).is_ready()));
    let mut newcomer = newcomer.lock().take().unwrap();
    assert_eq!(counter.wakes(), 0);
    assert!(poll(newcomer.as_mut(), &counter).is_pending());
    tx.send(8).unwrap();
    assert_eq!((counter.wakes(), poll_once(newcomer.as_mut())), (1, Poll::Ready(true)));
}

#[test]
fn all_that_wait_are_told_of_the_end() {
    let (tx, rx) = watch::channel(0);
    assert!(!rx.is_closed());
    let mut receivers: Vec<_> = (0..100).map(|_| rx.clone()).collect();
    let counter = Counter::new();
    let mut futures: Vec<_> = receivers.iter_mut().map(|rx| Box::pin(rx.changed())).collect();
    futures.iter_mut().for_each(|future| assert!(poll(future.as_mut(), &counter).is_pending()));
    drop(tx);
    assert_eq!((counter.wakes(), rx.is_closed()), (100, true));
    assert!(futures.iter_mut().all(|future| matches!(poll_once(future.as_mut()), Poll::Ready(Err(_)))));
}

#[test]
fn a_change_that_is_none_is_told_to_nobody() {
    let (tx, mut rx) = watch::channel(1);
    let counter = Counter::new();
    {
        let mut changed = pin!(rx.changed());
        assert!(poll(changed.as_mut(), &counter).is_pending());
        assert!(!tx.send_if_modified(|_| false));
        assert_eq!(counter.wakes(), 0);
        assert!(tx.send_if_modified(|value| {
            *value = 2;
            true
        }));
        assert_eq!(counter.wakes(), 1);
        assert!(poll(changed.as_mut(), &counter).is_ready());
    }
    assert_eq!((*rx.borrow(), tx.borrow().has_changed()), (2, false));
    assert!(!tx.is_closed());
    drop(rx);
    assert!(tx.is_closed());
}

#[test]
fn a_receiver_that_always_has_news_lets_others_run() {
    let rt = support::build(0);
    rt.block_on(async {
        let (tx, mut rx) = watch::channel(0);
        let turns = Arc::new(AtomicUsize::new(0));
        let theirs = turns.clone();
        let task = runtime::spawn(async move {
            loop {
                tx.send(1).unwrap();
                rx.changed().await.unwrap();
                drop(rx.wait_for(|_| true).await.unwrap());
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
fn readers_on_many_threads_see_whole_values_in_order() {
    let _watchdog = support::watchdog();
    const SENDS: u64 = 20_000;
    let (tx, rx) = watch::channel((0u64, 0u64));
    joined_scope(|scope| {
        for _ in 0..4 {
            let mut rx = rx.clone();
            scope.spawn(move || {
                let mut last = 0;
                while !rx.is_closed() {
                    let value = rx.borrow_and_update();
                    let again = rx_again(&value);
                    assert_eq!((value.0, again), (value.1, value.0));
                    assert_eq!(value.has_changed(), value.0 > last);
                    last = value.0;
                }
            });
        }
        for sender in 0..2 {
            let tx = tx.clone();
            scope.spawn(move || {
                for n in 0..SENDS {
                    if n % 2 == sender {
                        tx.send_modify(|value| *value = (value.0 + 1, value.1 + 1));
                    } else {
                        assert!(!tx.send_if_modified(|_| false));
                    }
                }
            });
        }
        drop(tx);
    });
    assert_eq!(*rx.borrow(), (SENDS, SENDS));

    /// Reads the value a second time, later.
    fn rx_again(value: &(u64, u64)) -> u64 {
        std::hint::black_box(value).1
    }
}

/// There is a reader at each moment, so a sender that let new ones in would never have its turn.
#[test]
fn readers_on_more_threads_than_there_are_slots_hold_up_no_sender() {
    let _watchdog = support::watchdog();
    const SENDS: u64 = 500;
    let (tx, rx) = watch::channel((0, 0));
    joined_scope(|scope| {
        for _ in 0..24 {
            let mut rx = rx.clone();
            scope.spawn(move || {
                let mut last = 0;
                while last < SENDS {
                    let value = rx.borrow_and_update();
                    let first = value.0;
                    // Other threads read meanwhile.
                    thread::yield_now();
                    assert_eq!(*value, (first, first));
                    assert!(first >= last);
                    last = first;
                }
            });
        }
        for _ in 0..SENDS {
            tx.send_modify(|value| *value = (value.0 + 1, value.1 + 1));
        }
    });
}

#[test]
fn tasks_follow_a_sender_to_the_end() {
    let _watchdog = support::watchdog();
    const SENDS: u32 = 2_000;
    support::each_kind(|rt| {
        rt.block_on(async {
            let (tx, rx) = watch::channel(0);
            let followers: Vec<_> = (0..20)
                .map(|_| {
                    let mut rx = rx.clone();
                    runtime::spawn(async move {
                        let mut last = 0;
                        while rx.changed().await.is_ok() {
                            let value = *rx.borrow_and_update();
                            assert!(value > last);
                            last = value;
                        }
                        last
                    })
                })
                .collect();
            drop(rx);
            for n in 1..=SENDS {
                tx.send(n).unwrap();
                if n % 3 == 0 {
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
