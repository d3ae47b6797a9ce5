//! `sync::OnceCell` and `sync::SetOnce`, by their public interface.

mod support;
mod sync_support;

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;

use runtime::sync::*;
use support::joined_scope;
use sync_support::*;

static MADE: OnceCell<String> = OnceCell::const_new();
static GIVEN: OnceCell<u8> = OnceCell::const_new_with(3);
static SET: SetOnce<String> = SetOnce::const_new();
static READY: SetOnce<u8> = SetOnce::const_new_with(3);

#[test]
fn cells_may_be_static() {
    assert_eq!((GIVEN.get(), READY.get()), (Some(&3), Some(&3)));
    assert!(GIVEN.set(4).unwrap_err().is_already_init_err() && READY.set(4).is_err());
    block_on(async {
        assert_eq!(MADE.get_or_init(|| async { "made".to_string() }).await, "made");
        runtime::spawn(async { SET.set("set".into()).unwrap() });
        assert_eq!(SET.wait().await, "set");
    });
}

#[test]
fn one_makes_the_value_and_the_others_wait() {
    let cell = OnceCell::new();
    let (tx, rx) = oneshot::channel();
    let made = AtomicUsize::new(0);
    let counters = [Counter::new(), Counter::new()];
    {
        let mut first = pin!(cell.get_or_init(|| async {
            made.fetch_add(1, SeqCst);
            rx.await.unwrap()
        }));
        let mut others = counters.each_ref().map(|_| Box::pin(cell.get_or_init(|| async { unreachable!() })));
        assert!(poll_once(first.as_mut()).is_pending());
        for (other, counter) in others.iter_mut().zip(&counters) {
            assert!(poll(other.as_mut(), counter).is_pending());
        }
        assert!(cell.set(1).unwrap_err().is_initializing_err());
        tx.send(7).unwrap();
        assert_eq!(poll_once(first.as_mut()), Poll::Ready(&7));
        for (mut other, counter) in others.into_iter().zip(&counters) {
            assert_eq!(counter.wakes(), 1);
            assert_eq!(poll_once(other.as_mut()), Poll::Ready(&7));
        }
    }
    assert_eq!((made.into_inner(), cell.into_inner()), (1, Some(7)));
}

/// How making the value ends without one: an error, a panic, a drop.
#[test]
fn when_making_fails_the_next_makes_it() {
    for end in ["error", "panic", "drop"] {
        let cell = OnceCell::new();
        let (tx, rx) = oneshot::channel::<()>();
        let mut first = Box::pin(cell.get_or_try_init(|| async {
            rx.await.unwrap();
            assert_ne!(end, "panic", "making panics");
            Err::<i32, _>("making fails")
        }));
        let counters = [Counter::new(), Counter::new()];
        let mut second = pin!(cell.get_or_init(|| async { 2 }));
        let mut third = pin!(cell.get_or_init(|| async { 3 }));
        assert!(poll_once(first.as_mut()).is_pending());
        assert!(poll(second.as_mut(), &counters[0]).is_pending());
        assert!(poll(third.as_mut(), &counters[1]).is_pending());
        match end {
            "error" => {
                tx.send(()).unwrap();
                assert_eq!(poll_once(first.as_mut()), Poll::Ready(Err("making fails")));
            }
            "panic" => {
                tx.send(()).unwrap();
                assert!(panic_text(|| poll_once(first.as_mut())).contains("making panics"));
            }
            _ => drop(first),
        }
        assert_eq!(counters.each_ref().map(|counter| counter.wakes()), [1, 0]);
        assert_eq!(poll_once(second.as_mut()), Poll::Ready(&2));
        assert_eq!(poll_once(third.as_mut()), Poll::Ready(&2));
    }
}

#[test]
fn a_turn_that_was_granted_and_not_seen_goes_to_the_next() {
    let cell = OnceCell::new();
    let mut first = Box::pin(cell.get_or_init(pending));
    let mut second = Box::pin(cell.get_or_init(|| async { 2 }));
    let counter = Counter::new();
    let mut third = pin!(cell.get_or_init(|| async { 3 }));
    assert!(poll_once(first.as_mut()).is_pending());
    assert!(poll_once(second.as_mut()).is_pending());
    assert!(poll(third.as_mut(), &counter).is_pending());
    drop(first);
    assert_eq!(counter.wakes(), 0);
    drop(second);
    assert_eq!(counter.wakes(), 1);
    assert_eq!(poll_once(third.as_mut()), Poll::Ready(&3));
}

#[test]
fn values_of_cells_are_dropped_once() {
    let drops = Drops::default();
    let cell = OnceCell::from(drops.item());
    assert!(cell.set(drops.item()).is_err());
    assert_eq!(drops.count(), 1);
    drop(cell);
    assert_eq!(drops.count(), 2);
    let mut cell = OnceCell::new_with(Some(drops.item()));
    drop(cell.take());
    assert_eq!(drops.count(), 3);
    cell.set(drops.item()).unwrap();
    drop(cell.into_inner());
    drop(OnceCell::<Item>::new());
    let once = SetOnce::new();
    assert!(once.set(drops.item()).is_ok() && once.set(drops.item()).is_err());
    assert_eq!(drops.count(), 5);
    drop(once);
    drop(SetOnce::from(drops.item()).into_inner());
    drop(SetOnce::<Item>::new());
    assert_eq!(drops.count(), 7);
}

#[test]
fn a_cell_says_how_far_it_is_and_gives_its_value_away() {
    let cell = OnceCell::new();
    assert!(!cell.initialized() && cell.get().is_none());
    {
        let mut making = pin!(cell.get_or_try_init(pending::<Result<i32, ()>>));
        assert!(poll_once(making.as_mut()).is_pending());
        let error = cell.set(1).unwrap_err();
        assert!(error.is_initializing_err() && !error.is_already_init_err());
        assert_eq!((error, cell.initialized()), (SetError::InitializingError(1), false));
    }
    assert_eq!((cell.set(2), cell.get()), (Ok(()), Some(&2)));
    let error = cell.set(3).unwrap_err();
    assert!(error.is_already_init_err() && !error.is_initializing_err());
    assert_eq!(block_on(cell.get_or_try_init(|| async { Err::<i32, _>(()) })), Ok(&2));
    assert_eq!(block_on(cell.get_or_init(|| async { unreachable!() })), &2);
    let mut cell = cell;
    assert_eq!((cell.take(), cell.take(), cell.initialized()), (Some(2), None, false));
    assert_eq!(block_on(cell.get_or_try_init(|| async { Ok::<_, ()>(4) })), Ok(&4));
    assert_eq!(cell.into_inner(), Some(4));
    assert_eq!(OnceCell::<i32>::new().into_inner(), None);
    assert_eq!((OnceCell::new_with(Some(5)).get(), OnceCell::from(6).clone().get()), (Some(&5), Some(&6)));

    let once = SetOnce::new();
    assert!(!once.initialized() && once.get().is_none());
    assert!(poll_once(pin!(once.wait())).is_pending());
    assert_eq!((once.set(5), once.initialized(), once.get()), (Ok(()), true, Some(&5)));
    assert_eq!((poll_once(pin!(once.wait())), once.set(6)), (Poll::Ready(&5), Err(SetOnceError(6))));
    assert_ne!(once, SetOnce::from(6));
    assert_eq!((once.into_inner(), SetOnce::<i32>::new().into_inner()), (Some(5), None));
}

#[test]
fn a_task_whose_values_are_there_lets_others_run() {
    let (cell, once) = (OnceCell::from(1), SetOnce::from(2));
    let mut busy = pin!(async {
        for _ in 0..400 {
            assert_eq!(cell.get_or_init(pending).await, &1);
            assert_eq!(cell.get_or_try_init(pending::<Result<i32, ()>>).await, Ok(&1));
            assert_eq!(once.wait().await, &2);
            OnceCell::new().get_or_init(|| async { 1 }).await;
            runtime::task::coop::consume_budget().await;
        }
    });
    let mut polls = 0;
    block_on(std::future::poll_fn(|cx| {
        polls += 1;
        busy.as_mut().poll(cx)
    }));
    // 2000 calls, with a budget of 128 for each poll.
    assert!(polls >= 2000 / 128, "{polls} polls");
}

#[test]
fn cells_act_as_their_values() {
    let mut cell = OnceCell::new();
    assert_eq!(format!("{cell:?}"), "OnceCell { value: None }");
    assert_eq!((cell.clone(), cell.get_mut()), (OnceCell::default(), None));
    cell.set(1).unwrap();
    *cell.get_mut().unwrap() += 1;
    assert_eq!((cell.clone(), cell.initialized()), (OnceCell::new_with(Some(2)), true));
    let once = SetOnce::new();
    assert_eq!((once.clone(), once.get()), (SetOnce::new_with(None), None));
    once.set(2).unwrap();
    assert_eq!((once.clone(), once.initialized()), (SetOnce::from(2), true));
    assert_eq!(format!("{once:?}"), "SetOnce { value: Some(2) }");
    assert_eq!(once.set(3), Err(SetOnceError(3)));
    assert_eq!(cell.set(3), Err(SetError::AlreadyInitializedError(3)));
}

#[test]
fn all_that_wait_for_a_value_are_woken_even_if_a_waker_panics() {
    let once = SetOnce::new();
    let counters: Vec<_> =
        (0..100).map(|n| if n % 40 == 0 { Counter::panicking() } else { Counter::new() }).collect();
    let mut futures: Vec<_> = (0..100).map(|_| Box::pin(once.wait())).collect();
    for (future, counter) in futures.iter_mut().zip(&counters) {
        assert!(poll(future.as_mut(), counter).is_pending());
    }
    drop(futures.pop());
    assert_eq!(panic_text(|| once.set(5)), "this waker panics");
    assert!(counters[..99].iter().all(|counter| counter.wakes() == 1));
    assert!(futures.iter_mut().all(|future| poll_once(future.as_mut()) == Poll::Ready(&5)));
}

#[test]
fn of_many_that_set_one_wins_and_the_others_see_its_value() {
    for _ in 0..200 {
        let (once, cell) = (SetOnce::new(), OnceCell::new());
        let wins = AtomicUsize::new(0);
        joined_scope(|scope| {
            let threads = [0, 1, 2, 3].map(|n| {
                let (once, cell, wins) = (&once, &cell, &wins);
                scope.spawn(move || {
                    match once.set(n) {
                        Ok(()) => _ = wins.fetch_add(1, SeqCst),
                        Err(SetOnceError(value)) => {
                            assert_eq!(value, n);
                            assert!(once.get().is_some_and(|&value| value != n));
                        }
                    }
                    match cell.set(n) {
                        Ok(()) => _ = wins.fetch_add(1, SeqCst),
                        Err(error) => assert!(error.is_initializing_err() || cell.get().is_some()),
                    }
                })
            });
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        assert_eq!(wins.into_inner(), 2);
    }
}

#[test]
fn tasks_on_many_threads_get_the_one_value() {
    let _watchdog = support::watchdog();
    support::each_kind(|rt| {
        for round in 0..50 {
            let shared = Arc::new((OnceCell::new(), SetOnce::new(), AtomicUsize::new(0)));
            rt.block_on(async {
                let tasks: Vec<_> = (0..8)
                    .map(|n| {
                        let shared = shared.clone();
                        runtime::spawn(async move {
                            let (cell, once, made) = &*shared;
                            let value = cell.get_or_init(|| async {
                                made.fetch_add(1, SeqCst);
                                runtime::task::yield_now().await;
                                round
                            });
                            assert_eq!(value.await, &round);
                            if n == 7 {
                                once.set(round).unwrap();
                            }
                            assert_eq!(once.wait().await, &round);
                        })
                    })
                    .collect();
                for task in tasks {
                    task.await.unwrap();
                }
            });
            assert_eq!(shared.2.load(SeqCst), 1);
        }
    });
}
