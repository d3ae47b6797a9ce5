//! The list of tasks that wait for one source.

use super::*;

#[test]
fn every_waiter_in_the_list_is_woken_once_and_only_those_concerned() {
    let source = super::Arc::new(Source::new(0, Ready::EMPTY));
    let (readers, reader) = Counter::new();
    let (writers, writer) = Counter::new();
    // More than one batch, with both kinds mixed.
    let mut waits: Vec<_> = (0..100)
        .map(|i| {
            let (mask, waker) =
                if i % 3 == 0 { (Ready::WRITABLE, &writer) } else { (Ready::READABLE, &reader) };
            let mut wait = Box::pin(source.ready(mask));
            assert!(wait.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
            wait
        })
        .collect();
    drop(waits.swap_remove(7));
    dispatch(&source, Ready::READABLE);
    dispatch(&source, Ready::READABLE);
    assert_eq!((readers.count(), writers.count()), (65, 0));
    dispatch(&source, Ready::WRITABLE);
    assert_eq!((readers.count(), writers.count()), (65, 34));
    for mut wait in waits {
        assert!(wait.as_mut().poll(&mut Context::from_waker(&reader)).is_ready());
    }
    assert_eq!((Arc::strong_count(&readers), Arc::strong_count(&writers)), (2, 2));
}

/// Once, an event that found many tasks let the lock go in between. Another event could then move tasks of
/// the first event behind tasks that the first event had seen. The first event ended before it came to them.
#[test]
fn two_events_at_once_wake_all_waiters_of_both() {
    const WRITERS: usize = 1000;
    const READERS: usize = 720;
    for round in 0..300 {
        let source = super::Arc::new(Source::new(0, Ready::EMPTY));
        let (readers, reader) = Counter::new();
        let (writers, writer) = Counter::new();
        let wait = |mask, waker: &Waker| {
            let mut wait = Box::pin(source.ready(mask));
            assert!(wait.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
            wait
        };
        let waits: Vec<_> = (0..WRITERS)
            .map(|_| wait(Ready::WRITABLE, &writer))
            .chain((0..READERS).map(|_| wait(Ready::READABLE, &reader)))
            .collect();
        let barrier = Barrier::new(2);
        thread::scope(|scope| {
            for ready in [Ready::READABLE, Ready::WRITABLE] {
                let (source, barrier) = (&source, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    dispatch(source, ready);
                });
            }
        });
        assert_eq!((readers.count(), writers.count()), (READERS, WRITERS), "in round {round}");
        drop(waits);
    }
}
