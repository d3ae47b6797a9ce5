use std::pin::pin;

use super::*;

/// A receiver's future that has seen `version` joins the wait list, or learns that it need not.
fn join(channel: &Channel<i32>, version: Version) -> Poll<()> {
    let waiter = pin!(Waiter::new(version.0));
    // SAFETY: (1) the waiter is new. (2) It leaves below.
    let result = unsafe { channel.join(waiter.as_ref(), Waker::noop().clone()) };
    if result.is_pending() {
        // SAFETY: (1) it has joined this list, and leaves only here.
        drop(unsafe { channel.waiters.lock().leave(waiter.as_ref()) });
    }
    result
}

/// A change or the end may come after a receiver has looked and before it has the lock.
#[test]
fn a_receiver_that_is_about_to_wait_looks_once_more() {
    let channel = Channel::new(1, 1);
    let seen = channel.version();
    assert!(join(&channel, seen).is_pending());
    assert!(channel.modify(|_| true));
    assert!(join(&channel, seen).is_ready() && join(&channel, channel.version()).is_pending());
    channel.remove_sender();
    assert!(join(&channel, channel.version()).is_ready());
}

#[test]
fn a_send_and_the_end_need_no_lock_while_no_receiver_waits() {
    let channel = Channel::new(1, 1);
    // A receiver that waited, and one that did and left. The first send after that finds out.
    let mut seen = channel.version();
    let mut waiting = Box::pin(Changed::new(&channel, &mut seen));
    assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(waiting);
    assert!(channel.modify(|_| true));
    // A call that took the lock would wait for this thread.
    let _lock = channel.waiters.lock();
    assert!(channel.modify(|_| true));
    channel.remove_sender();
    assert!(channel.is_closed());
}
