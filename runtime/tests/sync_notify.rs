//! `sync::Notify`, by its public interface.

mod support;
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

/// The future is gone, but a counter of its waker is still there to count a wake.
#[test]
fn a_future_that_is_dropped_leaves_the_line_and_its_waker() {
    let notify = Notify::new();
    let counters = [Counter::new(), Counter::new(), Counter::new()];
    let mut futures = counters.each_ref().map(|_| Box::pin(Some(notify.notified())));
    for (future, counter) in futures.iter_mut().zip(&counters) {
        assert!(poll(future.as_mut().as_pin_mut().unwrap(), counter).is_pending());
    }
    futures[1].as_mut().set(None);
    assert_eq!(Arc::strong_count(&counters[1]), 1);
    notify.notify_one();
    notify.notify_one();
    assert_eq!(counters.each_ref().map(|counter| counter.wakes()), [1, 0, 1]);
}

#[test]
fn one_notification_releases_one_of_the_futures_that_exist() {
    let notify = Notify::new();
    // A broadcast without a future that waits, and one with one.
    notify.notify_waiters();
    for _ in 0..2 {
        let mut waiting = pin!(notify.notified());
        let mut others = [Box::pin(notify.notified()), Box::pin(notify.notified())];
        // Kept, for the first that looks.
        notify.notify_one();
        assert!(poll_once(others[0].as_mut()).is_ready());
        assert!(poll_once(others[1].as_mut()).is_pending());
        // Given to the first that waits.
        assert!(poll_once(waiting.as_mut()).is_pending());
        let mut never_polled = pin!(notify.notified());
        notify.notify_one();
        assert!(poll_once(others[1].as_mut()).is_ready());
        assert!(poll_once(waiting.as_mut()).is_pending());
        assert!(poll_once(never_polled.as_mut()).is_pending());
        notify.notify_waiters();
    }
}

#[test]
fn a_future_that_a_broadcast_released_takes_no_kept_notification_with_it() {
    let notify = Notify::new();
    let mut released = Box::pin(notify.notified());
    assert!(poll_once(released.as_mut()).is_pending());
    notify.notify_waiters();
    notify.notify_one();
    drop(released);
    assert!(poll_once(pin!(notify.notified())).is_ready());
}

#[test]
fn a_future_that_is_done_stays_done() {
    let notify = Notify::new();
    let mut done = pin!(notify.notified());
    notify.notify_one();
    assert!(poll_once(done.as_mut()).is_ready());
    assert!(done.as_mut().enable());
    assert!(poll_once(done.as_mut()).is_ready());
}

#[test]
fn an_owned_future_acts_as_a_borrowed_one() {
    let notify = Arc::new(Notify::default());
    let mut enabled = pin!(notify.clone().notified_owned());
    let mut second = pin!(notify.clone().notified_owned());
    assert!(!enabled.as_mut().enable());
    let counter = Counter::new();
    assert!(poll(second.as_mut(), &counter).is_pending());
    notify.notify_one();
    assert_eq!(counter.wakes(), 0);
    assert!(enabled.as_mut().enable());
    assert!(poll_once(enabled).is_ready());
    notify.notify_last();
    assert_eq!(counter.wakes(), 1);
    assert!(poll_once(second).is_ready());
}

/// More than a batch, so that the broadcast unlocks in between. The waker of its first future runs `meddle`.
fn broadcast_and(notify: &Arc<Notify>, meddle: impl Fn() + Send + Sync + 'static) {
    let waker = support::waker(meddle);
    let mut first = pin!(notify.notified());
    support::wait_with(&waker, first.as_mut());
    let mut others: Vec<_> = (0..100).map(|_| Box::pin(notify.notified())).collect();
    others.iter_mut().for_each(|future| assert!(poll_once(future.as_mut()).is_pending()));
    notify.notify_waiters();
    assert!(others.iter_mut().all(|future| poll_once(future.as_mut()).is_ready()));
}

#[test]
fn a_future_that_comes_during_a_broadcast_is_not_released_by_it() {
    for broadcasts_before in 0..2 {
        let notify = Arc::new(Notify::new());
        (0..broadcasts_before).for_each(|_| notify.notify_waiters());
        let (newcomer, counter) = (Arc::new(parking_lot::Mutex::new(None)), Counter::new());
        let (theirs, their_newcomer, their_counter) = (notify.clone(), newcomer.clone(), counter.clone());
        broadcast_and(&notify, move || {
            let mut future = Box::pin(theirs.clone().notified_owned());
            assert!(poll(future.as_mut(), &their_counter).is_pending());
            *their_newcomer.lock() = Some(future);
        });
        let mut newcomer = newcomer.lock().take().unwrap();
        assert_eq!(counter.wakes(), 0);
        assert!(poll(newcomer.as_mut(), &counter).is_pending());
        notify.notify_waiters();
        assert_eq!(counter.wakes(), 1);
    }
}

#[test]
fn a_notification_during_a_broadcast_is_kept_if_the_broadcast_releases_all_that_wait() {
    let notify = Arc::new(Notify::new());
    let theirs = notify.clone();
    broadcast_and(&notify, move || theirs.notify_one());
    assert!(poll_once(pin!(notify.notified())).is_ready());
    assert!(poll_once(pin!(notify.notified())).is_pending());
}

#[test]
fn a_task_that_is_always_notified_lets_others_run() {
    block_on(async {
        let notify = Arc::new(Notify::new());
        let mut busy = pin!(async {
            for n in 0..1000 {
                notify.notify_one();
                match n % 2 {
                    0 => notify.notified().await,
                    _ => notify.clone().notified_owned().await,
                }
            }
        });
        let mut polls = 0;
        std::future::poll_fn(|cx| {
            polls += 1;
            busy.as_mut().poll(cx)
        })
        .await;
        assert!(polls >= 7, "{polls} polls for 1000 notifications");
    });
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
