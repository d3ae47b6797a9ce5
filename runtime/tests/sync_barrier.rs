//! `sync::Barrier`, by its public interface.

mod support;
mod sync_support;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;

use runtime::sync::Barrier;
use sync_support::*;

fn leads(poll: Poll<runtime::sync::BarrierWaitResult>) -> Option<bool> {
    match poll {
        Poll::Ready(result) => Some(result.is_leader()),
        Poll::Pending => None,
    }
}

#[test]
fn nobody_waits_for_nobody() {
    for barrier in [Barrier::new(0), Barrier::new(1)] {
        for _ in 0..3 {
            assert_eq!(leads(poll_once(pin!(barrier.wait()))), Some(true));
        }
    }
}

#[test]
fn the_last_leads_and_releases_the_others() {
    let barrier = Barrier::new(3);
    for _ in 0..3 {
        let counters = [Counter::new(), Counter::new()];
        let mut waiting = counters.each_ref().map(|_| Box::pin(barrier.wait()));
        for (future, counter) in waiting.iter_mut().zip(&counters) {
            assert_eq!(leads(poll(future.as_mut(), counter)), None);
            assert_eq!(leads(poll(future.as_mut(), counter)), None, "a second poll is no second arrival");
        }
        assert_eq!(leads(poll_once(pin!(barrier.wait()))), Some(true));
        for (mut future, counter) in waiting.into_iter().zip(&counters) {
            assert_eq!(counter.wakes(), 1);
            assert_eq!(leads(poll_once(future.as_mut())), Some(false));
        }
    }
}

#[test]
fn a_future_that_was_not_polled_has_not_arrived() {
    let barrier = Barrier::new(2);
    drop(barrier.wait());
    let mut first = pin!(barrier.wait());
    assert_eq!(leads(poll_once(first.as_mut())), None);
}

#[test]
fn an_arrival_counts_although_its_future_is_dropped() {
    let barrier = Barrier::new(3);
    let mut leaving = Box::pin(barrier.wait());
    let mut staying = pin!(barrier.wait());
    assert_eq!(leads(poll_once(leaving.as_mut())), None);
    assert_eq!(leads(poll_once(staying.as_mut())), None);
    drop(leaving);
    assert_eq!(leads(poll_once(pin!(barrier.wait()))), Some(true));
    assert_eq!(leads(poll_once(staying.as_mut())), Some(false));
    // The next group is whole again.
    assert_eq!(leads(poll_once(pin!(barrier.wait()))), None);
    assert!(format!("{barrier:?}").contains("arrived: 1"), "{barrier:?}");
}

/// The future is gone, but a counter of its waker is still there to count a wake.
#[test]
fn a_future_that_is_dropped_leaves_its_waker() {
    let barrier = Barrier::new(3);
    let counters = [Counter::new(), Counter::new()];
    let mut futures = counters.each_ref().map(|_| Box::pin(Some(barrier.wait())));
    for (future, counter) in futures.iter_mut().zip(&counters) {
        assert!(poll(future.as_mut().as_pin_mut().unwrap(), counter).is_pending());
    }
    futures[0].as_mut().set(None);
    assert_eq!(Arc::strong_count(&counters[0]), 1);
    assert_eq!(leads(poll_once(pin!(barrier.wait()))), Some(true));
    assert_eq!(counters.each_ref().map(|counter| counter.wakes()), [0, 1]);
    // Also a future that was released.
    futures[1].as_mut().set(None);
    assert_eq!(leads(poll_once(pin!(barrier.wait()))), None);
}

#[test]
fn a_task_that_always_finds_the_others_there_lets_more_tasks_run() {
    let barriers = [Barrier::new(1), Barrier::new(2)];
    let mut busy = pin!(async {
        for _ in 0..500 {
            assert!(barriers[0].wait().await.is_leader());
            let mut other = pin!(barriers[1].wait());
            assert!(poll_once(other.as_mut()).is_pending());
            assert!(barriers[1].wait().await.is_leader());
            assert!(!other.await.is_leader());
        }
    });
    let mut polls = 0;
    block_on(std::future::poll_fn(|cx| {
        polls += 1;
        busy.as_mut().poll(cx)
    }));
    assert!(polls >= 4, "{polls} polls for 1500 waits");
}

/// A waker that arrives for the next group while the first is released, in batches.
#[test]
fn a_group_is_not_mixed_with_the_next() {
    struct Eager(Arc<Barrier>, parking_lot::Mutex<Vec<Waiting>>);
    type Waiting = std::pin::Pin<Box<dyn Future<Output = bool> + Send>>;

    fn wait(barrier: Arc<Barrier>) -> Waiting {
        Box::pin(async move { barrier.wait().await.is_leader() })
    }

    impl std::task::Wake for Eager {
        fn wake(self: Arc<Self>) {
            let mut next = wait(self.0.clone());
            assert!(poll_once(next.as_mut()).is_pending());
            self.1.lock().push(next);
        }
    }

    const N: usize = 100;
    let barrier = Arc::new(Barrier::new(N));
    let eager = Arc::new(Eager(barrier.clone(), Default::default()));
    let waker = eager.clone().into();
    let mut first: Vec<_> = (1..N).map(|_| wait(barrier.clone())).collect();
    for future in &mut first {
        assert!(future.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
    }
    assert_eq!(poll_once(wait(barrier.clone()).as_mut()), Poll::Ready(true));
    assert!(first.iter_mut().all(|future| poll_once(future.as_mut()) == Poll::Ready(false)));
    let mut second = std::mem::take(&mut *eager.1.lock());
    assert_eq!(second.len(), N - 1);
    assert!(second.iter_mut().all(|future| poll_once(future.as_mut()).is_pending()));
    assert_eq!(poll_once(wait(barrier).as_mut()), Poll::Ready(true));
    assert!(second.iter_mut().all(|future| poll_once(future.as_mut()) == Poll::Ready(false)));
}

#[test]
fn a_waker_that_panics_keeps_nobody_asleep() {
    let barrier = Barrier::new(3);
    let counters = [Counter::panicking(), Counter::new()];
    let mut waiting = counters.each_ref().map(|_| Box::pin(barrier.wait()));
    for (future, counter) in waiting.iter_mut().zip(&counters) {
        assert_eq!(leads(poll(future.as_mut(), counter)), None);
    }
    assert_eq!(panic_text(|| poll_once(pin!(barrier.wait())).is_ready()), "this waker panics");
    assert_eq!(counters[1].wakes(), 1);
    assert!(waiting.iter_mut().all(|future| poll_once(future.as_mut()).is_ready()));
}

#[test]
fn groups_of_tasks_go_on_together() {
    let _watchdog = support::watchdog();
    const TASKS: usize = 6;
    const ROUNDS: usize = 300;
    support::each_kind(|rt| {
        let shared = Arc::new((Barrier::new(TASKS), AtomicUsize::new(0), AtomicUsize::new(0)));
        rt.block_on(async {
            let tasks: Vec<_> = (0..TASKS)
                .map(|_| {
                    let shared = shared.clone();
                    runtime::spawn(async move {
                        let (barrier, came, leaders) = &*shared;
                        for round in 0..ROUNDS {
                            came.fetch_add(1, SeqCst);
                            let result = barrier.wait().await;
                            leaders.fetch_add(usize::from(result.is_leader()), SeqCst);
                            let came = came.load(SeqCst);
                            assert!(
                                (round + 1) * TASKS <= came && came <= (round + 2) * TASKS,
                                "{round}: {came}"
                            );
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
        assert_eq!(shared.2.load(SeqCst), ROUNDS);
    });
}
