//! `sync::Semaphore` and `sync::Mutex`, by their public interface.

mod sync_support;

mod support;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use runtime::sync::{
    MappedMutexGuard, Mutex, MutexGuard, OwnedMappedMutexGuard, OwnedMutexGuard, Semaphore, TryAcquireError,
};
use runtime::task::coop::{consume_budget, has_budget_remaining};
use support::joined_scope;
use sync_support::*;

#[test]
fn the_first_in_line_is_not_overtaken() {
    let semaphore = Semaphore::new(1);
    let mut many = Box::pin(semaphore.acquire_many(3));
    let mut one = Box::pin(semaphore.acquire());
    assert!(poll_once(many.as_mut()).is_pending());
    assert!(poll_once(one.as_mut()).is_pending(), "one is free, but not for a task that comes later");
    assert_eq!(semaphore.try_acquire().unwrap_err(), TryAcquireError::NoPermits);
    semaphore.add_permits(2);
    assert!(poll_once(one.as_mut()).is_pending());
    assert!(poll_once(many.as_mut()).is_ready());
    assert!(poll_once(one.as_mut()).is_ready(), "the permits of `many` came back with its output");
}

#[test]
fn a_request_for_no_permits_waits_for_nobody() {
    let semaphore = Arc::new(Semaphore::new(1));
    let mut many = Box::pin(semaphore.acquire_many(3));
    assert!(poll_once(many.as_mut()).is_pending());
    assert_eq!(semaphore.try_acquire_many(0).unwrap().num_permits(), 0);
    assert_eq!(semaphore.clone().try_acquire_many_owned(0).unwrap().num_permits(), 0);
    assert!(poll_once(pin!(semaphore.acquire_many(0))).is_ready());
    assert!(poll_once(pin!(semaphore.clone().acquire_many_owned(0))).is_ready());
    // A task without budget waits for budget, and not for the others.
    let counter = Counter::new();
    let mut spent = Box::pin(async {
        while has_budget_remaining() {
            consume_budget().await;
        }
        semaphore.acquire_many(0).await.unwrap().num_permits()
    });
    block_on(async { assert!(poll(spent.as_mut(), &counter).is_pending()) });
    assert_eq!(counter.wakes(), 1);
    assert!(poll(spent.as_mut(), &counter).is_ready());
    assert_eq!(semaphore.available_permits(), 1);
    semaphore.close();
    assert_eq!(semaphore.try_acquire_many(0).unwrap_err(), TryAcquireError::Closed);
    assert!(block_on(semaphore.acquire_many(0)).is_err());
}

#[test]
fn permits_are_granted_in_order_and_wakes_come_in_order() {
    let order = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let semaphore = Arc::new(Semaphore::new(0));
    block_on(async {
        let handles: Vec<_> = (0..50)
            .map(|n| {
                let (semaphore, order) = (semaphore.clone(), order.clone());
                runtime::spawn(async move {
                    semaphore.acquire().await.unwrap().forget();
                    order.lock().push(n);
                })
            })
            .collect();
        runtime::task::yield_now().await;
        semaphore.add_permits(50);
        for handle in handles {
            handle.await.unwrap();
        }
    });
    assert_eq!(*order.lock(), (0..50).collect::<Vec<_>>());
}

#[test]
fn a_waiter_that_leaves_gives_its_grant_to_the_next() {
    let semaphore = Semaphore::new(0);
    let (mut leaving, mut staying) = (Box::pin(semaphore.acquire()), Box::pin(semaphore.acquire()));
    let counter = Counter::new();
    assert!(poll_once(leaving.as_mut()).is_pending());
    assert!(poll(staying.as_mut(), &counter).is_pending());
    semaphore.add_permits(1);
    assert_eq!(counter.wakes(), 0);
    drop(leaving);
    assert_eq!(counter.wakes(), 1);
    assert!(poll(staying.as_mut(), &counter).is_ready());
    assert_eq!(semaphore.available_permits(), 1);
}

#[test]
fn a_waiter_for_many_that_leaves_lets_those_behind_pass() {
    let semaphore = Semaphore::new(2);
    let (mut many, mut one) = (Box::pin(semaphore.acquire_many(3)), Box::pin(semaphore.acquire()));
    let counter = Counter::new();
    assert!(poll_once(many.as_mut()).is_pending());
    assert!(poll(one.as_mut(), &counter).is_pending());
    drop(many);
    assert_eq!(counter.wakes(), 1);
    drop(one);
    assert!(semaphore.try_acquire_many(2).is_ok(), "the wait list is empty again");
}

#[test]
fn a_close_refuses_all_and_permits_may_still_come_back() {
    let semaphore = Semaphore::new(1);
    let permit = semaphore.try_acquire().unwrap();
    let mut waiting: Vec<_> = (0..40).map(|_| Box::pin(semaphore.acquire())).collect();
    waiting.iter_mut().for_each(|future| assert!(poll_once(future.as_mut()).is_pending()));
    semaphore.close();
    drop(permit);
    assert!(waiting.iter_mut().all(|future| matches!(poll_once(future.as_mut()), Poll::Ready(Err(_)))));
    assert_eq!(semaphore.available_permits(), 1);
    assert_eq!(semaphore.try_acquire().unwrap_err(), TryAcquireError::Closed);
}

// As in Tokio: after the close no waiter is told of success.
#[test]
fn a_close_refuses_also_waiters_with_granted_permits_that_have_not_looked() {
    let semaphore = Semaphore::new(3);
    let permits = semaphore.try_acquire_many(3).unwrap();
    let mut granted = Box::pin(semaphore.acquire_many(2));
    assert!(poll_once(granted.as_mut()).is_pending());
    drop(permits);
    assert_eq!(semaphore.available_permits(), 1);
    semaphore.close();
    assert!(matches!(poll_once(granted.as_mut()), Poll::Ready(Err(_))));
    assert_eq!(semaphore.available_permits(), 3);
    drop(granted);
    assert_eq!(semaphore.available_permits(), 3, "given back once");
}

// Otherwise all tasks that come before it has budget again would overtake it, at each lock anew.
#[test]
fn a_task_without_budget_stands_in_line() {
    let mutex = Mutex::new(());
    let guard = mutex.try_lock().unwrap();
    let spent = async {
        while has_budget_remaining() {
            consume_budget().await;
        }
        mutex.lock().await
    };
    let (first, second) = (Counter::new(), Counter::new());
    let (mut spent, mut late) = (Box::pin(spent), Box::pin(mutex.lock()));
    let runtime = runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async { assert!(poll(spent.as_mut(), &first).is_pending()) });
    assert!(poll(late.as_mut(), &second).is_pending());
    drop(guard);
    assert_eq!((first.wakes(), second.wakes()), (1, 0));
    let guard = match poll(spent.as_mut(), &first) {
        Poll::Ready(guard) => guard,
        Poll::Pending => panic!("it was the first waiter"),
    };

    // What is free is not taken without budget: that would be a task that never yields.
    drop((guard, late));
    let spent = async {
        while has_budget_remaining() {
            consume_budget().await;
        }
        drop(mutex.lock().await);
    };
    let mut spent = Box::pin(spent);
    runtime.block_on(async { assert!(poll(spent.as_mut(), &first).is_pending()) });
    assert!(mutex.try_lock().is_ok());
    assert_eq!(first.wakes(), 2, "it is polled again");
}

#[test]
fn permits_are_added_up_to_the_limit() {
    assert_eq!(Semaphore::MAX_PERMITS, usize::MAX >> 3, "as Tokio's");
    let semaphore = Semaphore::new(Semaphore::MAX_PERMITS - 2);
    semaphore.add_permits(2);
    assert_eq!(semaphore.available_permits(), Semaphore::MAX_PERMITS);
    let text = panic_text(|| semaphore.add_permits(1));
    assert!(text.contains(&(Semaphore::MAX_PERMITS + 1).to_string()), "{text}");
    assert_eq!(semaphore.available_permits(), Semaphore::MAX_PERMITS);
}

#[test]
fn permits_that_are_forgotten_are_gone() {
    let semaphore = Semaphore::new(5);
    assert_eq!((semaphore.forget_permits(2), semaphore.available_permits()), (2, 3));
    assert_eq!((semaphore.forget_permits(9), semaphore.available_permits()), (3, 0));
    assert!(semaphore.try_acquire().is_err());
    semaphore.add_permits(1);
    assert_eq!(semaphore.available_permits(), 1);
}

#[test]
fn numbers_at_the_limit_are_refused_with_the_value() {
    let text = panic_text(|| Semaphore::new(Semaphore::MAX_PERMITS + 1));
    assert!(text.contains(&(Semaphore::MAX_PERMITS + 1).to_string()), "{text}");
    let semaphore = Semaphore::new(Semaphore::MAX_PERMITS);
    panic_text(|| semaphore.add_permits(usize::MAX));
    assert_eq!(semaphore.available_permits(), Semaphore::MAX_PERMITS);
    assert_eq!(semaphore.forget_permits(usize::MAX), Semaphore::MAX_PERMITS);
    assert!(semaphore.try_acquire_many(0).is_ok());
}

#[test]
fn guards_can_be_merged_and_split_but_not_across_semaphores() {
    let (one, two) = (Semaphore::new(3), Semaphore::new(1));
    let mut permit = one.try_acquire_many(2).unwrap();
    permit.merge(one.try_acquire().unwrap());
    let half = permit.split(2).unwrap();
    assert!(permit.split(2).is_none());
    drop(half);
    assert_eq!(one.available_permits(), 2);
    assert!(panic_text(|| permit.merge(two.try_acquire().unwrap())).contains("two semaphores"));
    assert_eq!((one.available_permits(), two.available_permits()), (2, 1));
}

#[test]
fn owned_permits_act_as_borrowed_ones() {
    let (one, two) = (Arc::new(Semaphore::new(4)), Arc::new(Semaphore::new(1)));
    let mut permit = one.clone().try_acquire_many_owned(2).unwrap();
    assert!(Arc::ptr_eq(permit.semaphore(), &one));
    permit.merge(one.clone().try_acquire_owned().unwrap());
    assert_eq!((permit.num_permits(), one.available_permits()), (3, 1));
    let half = permit.split(2).unwrap();
    assert_eq!((half.num_permits(), permit.num_permits()), (2, 1));
    assert!(permit.split(2).is_none());
    assert_eq!(permit.num_permits(), 1);
    drop(half);
    assert_eq!(one.available_permits(), 3);
    let other = two.clone().try_acquire_owned().unwrap();
    assert!(panic_text(|| permit.merge(other)).contains("two semaphores"));
    assert_eq!((one.available_permits(), two.available_permits()), (3, 1));
    permit.forget();
    assert_eq!((one.available_permits(), Arc::strong_count(&one)), (3, 1));
    // Each way to get one.
    let all = one.clone().try_acquire_many_owned(3).unwrap();
    assert_eq!(one.clone().try_acquire_owned().unwrap_err(), TryAcquireError::NoPermits);
    let mut single = pin!(one.clone().acquire_owned());
    let mut many = pin!(one.clone().acquire_many_owned(2));
    assert!(poll_once(single.as_mut()).is_pending() && poll_once(many.as_mut()).is_pending());
    drop(all);
    match (poll_once(single.as_mut()), poll_once(many.as_mut())) {
        (Poll::Ready(Ok(single)), Poll::Ready(Ok(many))) => {
            assert_eq!((single.num_permits(), many.num_permits(), one.available_permits()), (1, 2, 0));
        }
        _ => panic!("there are enough"),
    }
    assert_eq!(one.clone().blocking_acquire_owned().unwrap().num_permits(), 1);
    assert_eq!(one.clone().blocking_acquire_many_owned(3).unwrap().num_permits(), 3);
    one.close();
    assert!(block_on(one.clone().acquire_owned()).is_err());
    assert!(block_on(one.clone().acquire_many_owned(2)).is_err());
    assert!(one.clone().blocking_acquire_owned().is_err());
    assert!(one.clone().blocking_acquire_many_owned(2).is_err());
    assert_eq!(one.clone().try_acquire_many_owned(2).unwrap_err(), TryAcquireError::Closed);
    assert_eq!((one.available_permits(), Arc::strong_count(&one)), (3, 1));
}

#[test]
fn permits_know_their_number_and_their_semaphore() {
    let semaphore = Semaphore::new(5);
    assert!(!semaphore.is_closed());
    let mut permit = semaphore.try_acquire_many(3).unwrap();
    assert!(std::ptr::eq(permit.semaphore(), &semaphore));
    assert_eq!((permit.num_permits(), semaphore.available_permits()), (3, 2));
    permit.merge(semaphore.try_acquire_many(2).unwrap());
    assert_eq!((permit.num_permits(), semaphore.available_permits()), (5, 0));
    assert_eq!((permit.split(1).unwrap().num_permits(), permit.num_permits()), (1, 4));
    assert_eq!(semaphore.available_permits(), 1);
    permit.forget();
    assert_eq!((semaphore.available_permits(), semaphore.forget_permits(3)), (1, 1));
    semaphore.add_permits(2);
    assert_eq!(semaphore.blocking_acquire().unwrap().num_permits(), 1);
    assert_eq!(semaphore.blocking_acquire_many(2).unwrap().num_permits(), 2);
    semaphore.close();
    assert!(semaphore.is_closed());
    assert!(semaphore.blocking_acquire().is_err() && semaphore.blocking_acquire_many(2).is_err());
    assert!(block_on(semaphore.acquire()).is_err() && block_on(semaphore.acquire_many(2)).is_err());
}

/// The future is gone, but a counter of its waker is still there to count a wake.
#[test]
fn a_future_that_is_dropped_leaves_the_line_and_its_waker() {
    let semaphore = Semaphore::new(0);
    let counters = [Counter::new(), Counter::new(), Counter::new()];
    let mut futures = counters.each_ref().map(|_| Box::pin(Some(semaphore.acquire())));
    for (future, counter) in futures.iter_mut().zip(&counters) {
        assert!(poll(future.as_mut().as_pin_mut().unwrap(), counter).is_pending());
    }
    futures[1].as_mut().set(None);
    assert_eq!(Arc::strong_count(&counters[1]), 1);
    semaphore.add_permits(2);
    assert_eq!(counters.each_ref().map(|counter| counter.wakes()), [1, 0, 1]);
}

#[test]
fn a_waker_that_panics_keeps_nobody_asleep() {
    let semaphore = Semaphore::new(0);
    let mut futures: Vec<_> = (0..100).map(|_| Box::pin(semaphore.acquire())).collect();
    let counters: Vec<_> =
        (0..100).map(|n| if n % 30 == 0 { Counter::panicking() } else { Counter::new() }).collect();
    for (future, counter) in futures.iter_mut().zip(&counters) {
        assert!(poll(future.as_mut(), counter).is_pending());
    }
    assert_eq!(panic_text(|| semaphore.add_permits(100)), "this waker panics");
    assert!(counters.iter().all(|counter| counter.wakes() == 1));
    assert!(futures.iter_mut().all(|future| poll_once(future.as_mut()).is_ready()));
    assert_eq!(semaphore.available_permits(), 100);
}

#[test]
fn a_repeated_poll_wakes_only_the_last_waker() {
    let semaphore = Semaphore::new(0);
    let (first, second) = (Counter::new(), Counter::new());
    let mut future = pin!(semaphore.acquire());
    assert!(poll(future.as_mut(), &first).is_pending());
    assert!(poll(future.as_mut(), &second).is_pending());
    semaphore.add_permits(1);
    assert_eq!((first.wakes(), second.wakes()), (0, 1));
}

#[test]
fn threads_never_exceed_the_permits_and_lose_none() {
    let semaphore = Semaphore::new(3);
    let inside = AtomicUsize::new(0);
    joined_scope(|scope| {
        for thread in 0..4 {
            let (semaphore, inside) = (&semaphore, &inside);
            scope.spawn(move || {
                for round in 0..500 {
                    let n = 1 + (thread + round) % 3;
                    if round % 7 == 0 {
                        // Give up, perhaps with a grant that no task saw.
                        let mut future = Box::pin(semaphore.acquire_many(n));
                        let _ = poll_once(future.as_mut());
                        continue;
                    }
                    let permit = semaphore.blocking_acquire_many(n).unwrap();
                    assert!(inside.fetch_add(n as usize, Ordering::SeqCst) + n as usize <= 3);
                    inside.fetch_sub(n as usize, Ordering::SeqCst);
                    drop(permit);
                }
            });
        }
    });
    assert_eq!(semaphore.available_permits(), 3);
    assert!(semaphore.try_acquire_many(3).is_ok());
}

#[test]
fn a_mutex_lets_one_in_at_a_time_in_order() {
    let mutex = Mutex::new(0);
    let guard = mutex.try_lock().unwrap();
    let (mut first, mut second) = (Box::pin(mutex.lock()), Box::pin(mutex.lock()));
    assert!(poll_once(first.as_mut()).is_pending());
    assert!(poll_once(second.as_mut()).is_pending());
    drop(guard);
    assert!(mutex.try_lock().is_err());
    assert!(poll_once(second.as_mut()).is_pending());
    assert!(poll_once(first.as_mut()).is_ready());
    assert!(poll_once(second.as_mut()).is_ready());
}

#[test]
fn a_guard_mapped_or_thrown_unlocks_once() {
    let mutex = Arc::new(Mutex::new((1, vec![2])));
    panic_text(|| MutexGuard::map(mutex.try_lock().unwrap(), |_| -> &mut i32 { panic!("in map") }));
    let back = MutexGuard::try_map(mutex.try_lock().unwrap(), |data| data.1.get_mut(9)).unwrap_err();
    drop(MutexGuard::map(back, |data| &mut data.0));
    let owned = mutex.clone().try_lock_owned().unwrap();
    let mut part = OwnedMutexGuard::map(owned, |data| &mut data.1);
    part.push(3);
    assert!(mutex.try_lock().is_err());
    drop(part);
    assert_eq!(mutex.try_lock().unwrap().1, [2, 3]);
    assert_eq!(Arc::strong_count(&mutex), 1);
    assert_eq!(format!("{mutex:?}"), "Mutex { data: (1, [2, 3]) }");
}

#[test]
fn a_guard_gives_the_data_and_a_mapped_one_a_part() {
    let mut mutex = Mutex::from((1, vec![2, 3]));
    mutex.get_mut().0 = 4;
    let mut guard = mutex.blocking_lock();
    assert_eq!((guard.0, MutexGuard::mutex(&guard).try_lock().is_err()), (4, true));
    guard.0 = 5;
    let part = MutexGuard::map(guard, |data| &mut data.1);
    let mut part = MappedMutexGuard::map(part, |list| &mut list[..]);
    assert_eq!(*part, [2, 3]);
    part[0] = 6;
    let part = MappedMutexGuard::try_map(part, |list| list.get_mut(9)).unwrap_err();
    let mut part = MappedMutexGuard::try_map(part, |list| list.get_mut(1)).unwrap();
    *part += 1;
    assert_eq!((*part, mutex.try_lock().is_err()), (4, true));
    drop(part);
    let part = MutexGuard::try_map(mutex.try_lock().unwrap(), |data| Some(&mut data.0)).unwrap();
    assert_eq!((*part, mutex.try_lock().is_err()), (5, true));
    drop(part);
    assert_eq!(block_on(mutex.lock()).1, [6, 4]);
    assert_eq!(mutex.into_inner(), (5, vec![6, 4]));
    assert_eq!(Mutex::<i32>::default().into_inner(), 0);
}

#[test]
fn owned_guards_act_as_borrowed_ones() {
    let mutex = Arc::new(Mutex::new((1, vec![2, 3])));
    let owned = || mutex.clone().try_lock_owned().unwrap();
    let mut guard = owned();
    assert!(Arc::ptr_eq(OwnedMutexGuard::mutex(&guard), &mutex));
    guard.0 = 5;
    assert!(mutex.clone().try_lock_owned().is_err());
    let mut waiting = pin!(mutex.clone().lock_owned());
    assert!(poll_once(waiting.as_mut()).is_pending());
    drop(guard);
    assert!(matches!(poll_once(waiting.as_mut()), Poll::Ready(guard) if guard.0 == 5));
    assert_eq!(mutex.clone().blocking_lock_owned().1, [2, 3]);
    let guard = OwnedMutexGuard::try_map(owned(), |data| data.1.get_mut(9)).unwrap_err();
    let part = OwnedMutexGuard::try_map(guard, |data| Some(&mut data.1)).unwrap();
    let mut part = OwnedMappedMutexGuard::map(part, |list| &mut list[..]);
    part[0] = 6;
    let part = OwnedMappedMutexGuard::try_map(part, |list| list.get_mut(9)).unwrap_err();
    let mut part = OwnedMappedMutexGuard::try_map(part, |list| list.get_mut(1)).unwrap();
    *part += 1;
    assert_eq!((*part, mutex.try_lock().is_err()), (4, true));
    drop(part);
    panic_text(|| OwnedMutexGuard::map(owned(), |_| -> &mut i32 { panic!("in map") }));
    assert_eq!(mutex.try_lock().unwrap().1, [6, 4]);
    assert_eq!(Arc::into_inner(mutex).unwrap().into_inner(), (5, vec![6, 4]));
}

#[test]
fn threads_count_under_a_mutex() {
    let mutex = Mutex::new(0);
    joined_scope(|scope| {
        let threads = [(); 4].map(|()| scope.spawn(|| (0..1000).for_each(|_| *mutex.blocking_lock() += 1)));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    assert_eq!(mutex.into_inner(), 4000);
}
