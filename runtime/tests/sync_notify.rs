//! `sync::Notify`, by its public interface.

mod sync_support;

use std::pin::pin;
use std::sync::Arc;

use runtime::sync::Notify;
use sync_support::*;

#[test]
fn at_most_one_notification_is_kept() {
    let notify = Notify::new();
    notify.notify_one();
    notify.notify_one();
    assert!(poll_once(pin!(notify.notified())).is_ready());
    assert!(poll_once(pin!(notify.notified())).is_pending());
}

#[test]
fn single_notifications_go_to_the_first_or_the_last() {
    let notify = Notify::new();
    let counters: Vec<_> = (0..3).map(|_| Counter::new()).collect();
    let mut futures: Vec<_> = (0..3).map(|_| Box::pin(notify.notified())).collect();
    for (future, counter) in futures.iter_mut().zip(&counters) {
        assert!(poll(future.as_mut(), counter).is_pending());
    }
    notify.notify_last();
    assert_eq!(counters.iter().map(|c| c.wakes()).collect::<Vec<_>>(), [0, 0, 1]);
    notify.notify_one();
    assert_eq!(counters.iter().map(|c| c.wakes()).collect::<Vec<_>>(), [1, 0, 1]);
}

#[test]
fn a_broadcast_releases_what_exists_and_nothing_later() {
    let notify = Notify::new();
    let mut never_polled = pin!(notify.notified());
    let mut polled = pin!(notify.notified());
    assert!(poll_once(polled.as_mut()).is_pending());
    notify.notify_waiters();
    let mut later = pin!(notify.notified());
    assert!(poll_once(never_polled.as_mut()).is_ready());
    assert!(poll_once(polled.as_mut()).is_ready());
    assert!(poll_once(later.as_mut()).is_pending());
}

#[test]
fn a_notification_that_was_not_seen_goes_on_from_the_same_end() {
    let notify = Notify::new();
    let mut futures: Vec<_> = (0..3).map(|_| Box::pin(notify.notified())).collect();
    futures.iter_mut().for_each(|future| assert!(poll_once(future.as_mut()).is_pending()));
    notify.notify_last();
    drop(futures.pop());
    assert!(poll_once(futures[0].as_mut()).is_pending());
    assert!(poll_once(futures[1].as_mut()).is_ready());
    notify.notify_one();
    drop(futures);
    assert!(poll_once(pin!(notify.notified())).is_ready(), "kept when no waiter is left");
}

#[test]
fn a_broadcast_that_was_not_seen_is_not_passed_on() {
    let notify = Notify::new();
    let mut first = Box::pin(notify.notified());
    assert!(poll_once(first.as_mut()).is_pending());
    notify.notify_waiters();
    drop(first);
    assert!(poll_once(pin!(notify.notified())).is_pending());
}

#[test]
fn an_enabled_future_is_chosen_without_a_poll() {
    let notify = Notify::new();
    let mut enabled = pin!(notify.notified());
    assert!(!enabled.as_mut().enable());
    assert!(!enabled.as_mut().enable());
    notify.notify_one();
    assert!(poll_once(pin!(notify.notified())).is_pending(), "it was spent");
    assert!(enabled.as_mut().enable());
    assert!(poll_once(enabled).is_ready());
}

/// Wakes that come while a broadcast has its lock released: the first of its wakers drops a waiter, adds one,
/// and notifies.
#[test]
fn a_broadcast_survives_what_its_wakers_do() {
    use parking_lot::Mutex;
    use std::task::{Context, Wake, Waker};

    type Future = std::pin::Pin<Box<runtime::sync::futures::OwnedNotified>>;
    struct Meddler {
        notify: Arc<Notify>,
        victims: Mutex<Vec<Future>>,
        newcomer: Mutex<Option<Future>>,
    }
    impl Wake for Meddler {
        fn wake(self: Arc<Self>) {
            self.victims.lock().pop();
            let mut newcomer = Box::pin(self.notify.clone().notified_owned());
            assert!(poll_once(newcomer.as_mut()).is_pending());
            *self.newcomer.lock() = Some(newcomer);
            // Must not be spent on one of those the broadcast releases anyway.
            self.notify.notify_one();
        }
    }

    let notify = Arc::new(Notify::new());
    let new = || Box::pin(notify.clone().notified_owned());
    let meddler =
        Arc::new(Meddler { notify: notify.clone(), victims: Mutex::default(), newcomer: Mutex::default() });
    let mut first = new();
    let waker = Waker::from(meddler.clone());
    assert!(first.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    // More than a batch, so that the lock is released in between.
    let mut others: Vec<_> = (0..100).map(|_| new()).collect();
    let counters: Vec<_> = others.iter().map(|_| Counter::new()).collect();
    for (future, counter) in others.iter_mut().zip(&counters) {
        assert!(poll(future.as_mut(), counter).is_pending());
    }
    meddler.victims.lock().push(others.pop().unwrap());

    notify.notify_waiters();

    for (future, counter) in others.iter_mut().zip(&counters) {
        assert_eq!(counter.wakes(), 1);
        assert!(poll_once(future.as_mut()).is_ready());
    }
    assert!(poll_once(first.as_mut()).is_ready());
    let mut newcomer = meddler.newcomer.lock().take().unwrap();
    assert!(poll_once(newcomer.as_mut()).is_ready(), "released by the single notification");
}

#[test]
fn a_waker_that_panics_keeps_nobody_asleep() {
    let notify = Notify::new();
    let mut futures: Vec<_> = (0..100).map(|_| Box::pin(notify.notified())).collect();
    let counters: Vec<_> =
        (0..100).map(|n| if n % 40 == 0 { Counter::panicking() } else { Counter::new() }).collect();
    for (future, counter) in futures.iter_mut().zip(&counters) {
        assert!(poll(future.as_mut(), counter).is_pending());
    }
    assert_eq!(panic_text(|| notify.notify_waiters()), "this waker panics");
    assert!(counters.iter().all(|counter| counter.wakes() == 1));
    assert!(futures.iter_mut().all(|future| poll_once(future.as_mut()).is_ready()));
}

#[test]
fn threads_notify_and_wait_without_losing_one() {
    let ping = Arc::new(Notify::new());
    let pong = Arc::new(Notify::new());
    let (their_ping, their_pong) = (ping.clone(), pong.clone());
    let other = std::thread::spawn(move || {
        block_on(async move {
            for _ in 0..2000 {
                their_ping.notified().await;
                their_pong.notify_one();
            }
        })
    });
    block_on(async {
        for _ in 0..2000 {
            ping.notify_one();
            pong.notified().await;
        }
    });
    other.join().unwrap();
}
