use std::sync::Arc;
use std::sync::atomic::AtomicUsize as Count;
use std::task::{Context, Wake};

use super::super::queue::{FREE, MOST_FREE};
use super::*;
use crate::sync::permits::Take;

#[derive(Default)]
struct Counter(Count);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Counter {
    fn wakes(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

fn poll<F: Future>(future: Pin<&mut F>, counter: &Arc<Counter>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(&counter.clone().into()))
}

/// A small channel, which has its permits in the tail's word, and a large one.
const SIZES: [usize; 2] = [4, MOST_FREE + 5];

/// The bits of the tail's word that are not those of the capacity.
const OTHERS: usize = !(FREE | QUEUED | CLOSED);

/// Calls `test` with the permits of a channel of each of [`SIZES`]. Asserts that the other bits of the tail's
/// word stay as they are.
fn with_permits(test: impl Fn(CapacityPermits<'_>, usize)) {
    for max in SIZES {
        let capacity = Capacity::new(max);
        let tail = AtomicUsize::new(OTHERS | (capacity.free_in_tail() * ONE_FREE));
        test(capacity.with(&tail), max);
        assert_eq!(tail.load(Ordering::SeqCst) & OTHERS, OTHERS);
    }
}

#[test]
fn permits_are_in_the_tails_word_as_long_as_they_fit() {
    for max in [1, 2, MOST_FREE] {
        assert_eq!(Capacity::new(max).free_in_tail(), max);
    }
    assert_eq!(Capacity::new(MOST_FREE + 1).free_in_tail(), 0);
}

#[test]
fn permits_are_taken_and_come_back_exactly() {
    with_permits(|permits, max| {
        assert_eq!((permits.free(), permits.is_closed()), (max, false));
        assert_eq!((permits.try_take(3), permits.free()), (Ok(()), max - 3));
        assert_eq!((permits.try_take(max - 2), permits.free()), (Err(TakeError::TooFew), max - 3));
        assert_eq!((permits.try_take(max - 3), permits.free()), (Ok(()), 0));
        assert_eq!((permits.try_take(1), permits.try_take(0)), (Err(TakeError::TooFew), Ok(())));
        permits.give(2);
        permits.drop_permits(1);
        Source::give(&permits, max - 3);
        assert_eq!(permits.free(), max);
        assert_eq!((Source::try_take(&permits, max), Source::try_take(&permits, 1).is_err()), (Ok(()), true));
        permits.give(max);
    });
}

#[test]
fn a_task_must_wait_if_permits_are_too_few_or_others_wait() {
    with_permits(|permits, max| {
        assert!([0, 1, max].iter().all(|&n| !permits.must_wait(n)));
        assert!(permits.must_wait(max + 1));
        permits.try_take(max - 1).unwrap();
        assert!(!permits.must_wait(1) && permits.must_wait(2));
        let counter = Arc::default();
        let mut two = Box::pin(Take::new(permits, 2));
        assert!(poll(two.as_mut(), &counter).is_pending());
        assert!(permits.must_wait(1) && !permits.must_wait(0), "one is free, but not for a later task");
        assert_eq!(permits.try_take(1), Err(TakeError::TooFew));
        drop(two);
        assert!(!permits.must_wait(1) && permits.must_wait(2));
        permits.close();
        assert!([0, 1, 2, max].iter().all(|&n| !permits.must_wait(n)), "it will be refused");
        permits.give(max - 1);
    });
}

#[test]
fn permits_that_come_back_go_to_the_tasks_that_wait_in_their_order() {
    with_permits(|permits, max| {
        permits.try_take(max).unwrap();
        let counters: [Arc<Counter>; 3] = Default::default();
        let wakes = || counters.each_ref().map(|counter| counter.wakes());
        let needs = [2, 1, 1];
        let mut takes = needs.map(|n| Box::pin(Take::new(permits, n)));
        for (take, counter) in takes.iter_mut().zip(&counters) {
            assert!(poll(take.as_mut(), counter).is_pending());
        }
        permits.give(1);
        assert_eq!((wakes(), permits.free()), ([0, 0, 0], 1), "the first needs two");
        permits.give(2);
        assert_eq!((wakes(), permits.free()), ([1, 1, 0], 0));
        permits.give(1);
        assert_eq!((wakes(), permits.free()), ([1, 1, 1], 0));
        for (take, counter) in takes.iter_mut().zip(&counters) {
            assert!(matches!(poll(take.as_mut(), counter), Poll::Ready(Ok(()))));
        }
        permits.give(max);
        assert_eq!((permits.free(), permits.try_take(max)), (max, Ok(())), "no task waits any more");
        permits.give(max);
    });
}

#[test]
fn a_task_that_gives_up_makes_way_for_those_behind_it() {
    with_permits(|permits, max| {
        permits.try_take(max - 1).unwrap();
        let (mut many, mut one) = (Box::pin(Take::new(permits, 2)), Box::pin(Take::new(permits, 1)));
        let counter = Arc::default();
        assert!(poll(many.as_mut(), &counter).is_pending() && poll(one.as_mut(), &counter).is_pending());
        assert_eq!(counter.wakes(), 0);
        drop(many);
        assert_eq!((counter.wakes(), permits.free()), (1, 0));
        // It was granted the permit and does not look.
        drop(one);
        assert_eq!((permits.free(), permits.try_take(1)), (1, Ok(())));
        permits.give(max);
    });
}

#[test]
fn a_close_refuses_tasks_that_wait_and_tasks_that_come_later() {
    with_permits(|permits, max| {
        permits.try_take(max).unwrap();
        // More than a batch of wakers.
        let mut takes: Vec<_> = (0..100).map(|_| Box::pin(Take::new(permits, 1))).collect();
        let counter = Arc::default();
        takes.iter_mut().for_each(|take| assert!(poll(take.as_mut(), &counter).is_pending()));
        permits.close();
        assert!(permits.is_closed() && Source::is_closed(&permits));
        assert_eq!(counter.wakes(), 100);
        assert!(
            takes.iter_mut().all(|take| matches!(poll(take.as_mut(), &counter), Poll::Ready(Err(Closed))))
        );
        assert!(matches!(poll(Box::pin(Take::new(permits, 1)).as_mut(), &counter), Poll::Ready(Err(Closed))));
        permits.drop_permits(max);
        assert_eq!((permits.free(), permits.try_take(1)), (max, Err(TakeError::Closed)));
        assert_eq!(permits.try_take(0), Err(TakeError::Closed));
    });
}

#[test]
fn the_receiver_is_woken_by_permits_that_are_dropped_after_the_close_only() {
    with_permits(|permits, max| {
        permits.try_take(max).unwrap();
        let counter: Arc<Counter> = Arc::default();
        *permits.capacity.last_permits.lock() = Some(counter.clone().into());
        permits.drop_permits(1);
        permits.give(1);
        assert_eq!(counter.wakes(), 0);
        permits.close();
        permits.drop_permits(1);
        assert_eq!(counter.wakes(), 1);
        permits.drop_permits(max - 3);
        assert_eq!((counter.wakes(), permits.free()), (1, max));
    });
}

/// A permit may come back after a task has looked and before it has the lock.
#[test]
fn a_task_that_is_about_to_wait_looks_once_more() {
    with_permits(|permits, max| {
        let join = |n| {
            let waiter = std::pin::pin!(Waiter::new(n));
            // SAFETY: (1) the waiter is new. (2) It does not join, because the permits are free or closed.
            unsafe { permits.join(waiter.as_ref(), Waker::noop().clone()) }
        };
        assert!(matches!(join(3), Poll::Ready(Ok(()))));
        assert_eq!(permits.free(), max - 3);
        assert!(matches!(join(max - 3), Poll::Ready(Ok(()))));
        assert_eq!(permits.free(), 0);
        permits.give(max);
        permits.close();
        assert!(matches!(join(1), Poll::Ready(Err(Closed))));
        assert_eq!(permits.free(), max);
    });
}

#[test]
fn permits_come_back_without_the_lock_while_no_task_waits() {
    with_permits(|permits, max| {
        permits.try_take(max).unwrap();
        // A task that waited, and left.
        let counter = Arc::default();
        assert!(poll(Box::pin(Take::new(permits, 1)).as_mut(), &counter).is_pending());
        // A call that took the lock would wait for this thread.
        let _lock = permits.waiters().lock();
        permits.give(1);
        permits.drop_permits(max - 1);
        assert_eq!((permits.free(), permits.try_take(2)), (max, Ok(())));
        permits.give(2);
    });
}
