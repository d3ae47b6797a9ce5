//! The non-blocking poll: a thread that is not the poller takes events.

use super::*;

#[test]
fn a_nonblocking_poll_takes_events_while_another_thread_is_the_poller() {
    let driver = driver();
    let (_near, source, mut far) = pair(&driver);
    let (counter, waker) = Counter::new();
    assert!(poll_read(&source, &waker).is_pending());
    let mut poller = driver.try_poller().unwrap();
    far.write_all(b"x").unwrap();
    poll_nonblocking(&driver);
    assert_eq!(counter.count(), 1);
    let Poll::Ready(event) = poll_read(&source, &waker) else { panic!("not ready") };
    assert!(event.ready.is_readable() && !event.ready.is_read_closed());
    assert_eq!(turn_for(&mut poller, Some(Duration::ZERO)), 0, "the event is taken once");
    drop(far);
    poll_nonblocking(&driver);
    let Poll::Ready(event) = poll_read(&source, &waker) else { panic!("not ready") };
    assert!(event.ready.is_read_closed());
}

#[test]
fn nonblocking_polls_and_their_events_are_counted() {
    let driver = driver();
    let (_near, _source, mut far) = pair(&driver);
    let mut poller = driver.try_poller().unwrap();
    let counts = || (driver.turns(), driver.polls(), driver.events());
    turn_for(&mut poller, Some(Duration::ZERO));
    assert_eq!(counts(), (1, 1, 0));
    poll_nonblocking(&driver);
    assert_eq!(counts(), (1, 2, 0));
    far.write_all(b"x").unwrap();
    driver.unpark();
    poll_nonblocking(&driver);
    assert_eq!(counts(), (1, 3, 1), "an unpark is no event of a descriptor");
    let nonblocking = driver.nonblocking.lock();
    poll_nonblocking(&driver);
    assert_eq!(counts(), (1, 3, 1), "a third thread does not poll");
    drop(nonblocking);
    far.write_all(b"x").unwrap();
    assert_eq!(turn_for(&mut poller, Some(Duration::ZERO)), 1);
    assert_eq!(counts(), (2, 4, 2));
}

#[test]
fn a_nonblocking_poll_does_not_swallow_the_unpark_of_the_poller() {
    let driver = driver();
    let mut poller = driver.try_poller().unwrap();
    driver.unpark();
    poll_nonblocking(&driver);
    // Waits for ever if the non-blocking poll took the unpark.
    turn_for(&mut poller, None);
}

#[test]
fn a_source_that_is_released_beside_a_nonblocking_poll_is_freed_later() {
    let driver = driver();
    let (mut near, source, _far) = pair(&driver);
    let watched = Arc::downgrade(&source);
    driver.deregister(&source, &mut near).unwrap();
    drop(source);
    let nonblocking = driver.nonblocking.lock();
    turn(&driver);
    assert!(watched.upgrade().is_some(), "a non-blocking poll may have an event that names it");
    drop(nonblocking);
    turn(&driver);
    assert!(watched.upgrade().is_none());
}

#[test]
fn nonblocking_polls_and_turns_at_once_lose_no_event() {
    let driver = driver();
    let polling = PollingThread::start(&driver);
    let (mut near, source, mut far) = pair(&driver);
    let (counter, waker) = Counter::new();
    for round in 1..=2000 {
        while let Poll::Ready(event) = poll_read(&source, &waker) {
            let mut byte = [0];
            if near.read(&mut byte).is_err() {
                source.clear(event);
            }
        }
        far.write_all(b"x").unwrap();
        poll_nonblocking(&driver);
        eventually("woken", || counter.count() >= round);
    }
    polling.stop();
}
