use std::pin::pin;

use super::*;

fn poll_once(future: Pin<&mut Notified<'_>>) -> Poll<()> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Asserts that no notification takes the lock: it would wait for this thread.
fn assert_notifies_without_the_lock(notify: &Notify) {
    let _lock = notify.waiters.lock();
    assert_ne!(notify.word.load(Ordering::SeqCst) & STATE, WAITING);
    notify.notify_waiters();
    notify.notify_one();
    notify.notify_last();
}

#[test]
fn notifications_need_no_lock_while_no_future_waits() {
    let notify = Notify::new();
    assert_notifies_without_the_lock(&notify);
    // The kept notification.
    assert!(poll_once(pin!(notify.notified())).is_ready());
    // The last future leaves by itself, by a broadcast, or by a notification for one.
    for way in 0..3 {
        let mut futures = [Box::pin(notify.notified()), Box::pin(notify.notified())];
        futures.iter_mut().for_each(|future| assert!(poll_once(future.as_mut()).is_pending()));
        assert_eq!(notify.word.load(Ordering::SeqCst) & STATE, WAITING);
        match way {
            0 => drop(futures),
            1 => notify.notify_waiters(),
            _ => (0..2).for_each(|_| notify.notify_one()),
        }
        assert_notifies_without_the_lock(&notify);
        assert!(poll_once(pin!(notify.notified())).is_ready());
    }
}
