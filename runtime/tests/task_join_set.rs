//! Sets of tasks: each result comes once, in the order of the ends; what is dropped, aborted or detached ends
//! as it should; and no waiter is woken in vain or forgotten.

mod support;

use std::collections::HashSet;
use std::future::{pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use runtime::sync::{Semaphore, oneshot};
use runtime::task::{JoinSet, yield_now};
use runtime::{Builder, Runtime};
use support::{Drops, build, each_kind, until, watchdog};

/// A waker that counts.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Bell {
    fn rings(&self) -> usize {
        self.0.load(SeqCst)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

struct PanicsInDrop;

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        resume_unwind(Box::new("drop"));
    }
}

#[test]
fn ten_thousand_results_come_once_each() {
    let _watchdog = watchdog();
    each_kind(|runtime| {
        runtime.block_on(async {
            let mut set = JoinSet::new();
            // The second round uses what the first has left.
            for round in 0..2 {
                for i in 0..10_000_usize {
                    set.spawn(async move {
                        if i % 3 == round {
                            yield_now().await;
                        }
                        i
                    });
                }
                assert_eq!(set.len(), 10_000);
                let mut seen = vec![false; 10_000];
                while let Some(result) = set.join_next().await {
                    assert!(!std::mem::replace(&mut seen[result.unwrap()], true));
                }
                assert!(seen.into_iter().all(|was_seen| was_seen) && set.is_empty());
            }
        });
    });
}

#[test]
fn results_come_in_the_order_of_the_ends() {
    let _watchdog = watchdog();
    build(0).block_on(async {
        let mut set = JoinSet::new();
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..8).map(|_| oneshot::channel::<i32>()).unzip();
        for receiver in receivers {
            set.spawn(async move { receiver.await.unwrap() });
        }
        for (i, sender) in senders.into_iter().enumerate().rev() {
            sender.send(i as i32).unwrap();
            yield_now().await;
        }
        let results: Vec<_> = std::iter::from_fn(|| set.try_join_next()).map(Result::unwrap).collect();
        assert_eq!(results, [7, 6, 5, 4, 3, 2, 1, 0]);
    });
}

#[test]
fn a_set_is_filled_while_it_is_emptied() {
    let _watchdog = watchdog();
    each_kind(|runtime| {
        runtime.block_on(async {
            let mut set = JoinSet::new();
            let mut sum = 0;
            (0..20).for_each(|i| _ = set.spawn(async move { i }));
            for i in 20..5000_u64 {
                sum += set.join_next().await.unwrap().unwrap();
                set.spawn(async move { i });
                assert_eq!(set.len(), 20);
            }
            sum += set.join_all().await.into_iter().sum::<u64>();
            assert_eq!(sum, (0..5000).sum());
        });
    });
}

#[test]
fn a_waiter_is_woken_once_for_all_that_end_before_it_looks() {
    let _watchdog = watchdog();
    build(0).block_on(async {
        let (bell, gate) = (Arc::<Bell>::default(), Arc::new(Semaphore::new(0)));
        let waker = Waker::from(bell.clone());
        let mut set = JoinSet::new();
        for _ in 0..100 {
            let gate = gate.clone();
            set.spawn(async move { gate.acquire().await.unwrap().forget() });
        }
        for _ in 0..3 {
            assert!(set.poll_join_next(&mut Context::from_waker(&waker)).is_pending());
        }
        gate.add_permits(100);
        while gate.available_permits() > 0 {
            yield_now().await;
        }
        yield_now().await;
        assert_eq!(bell.rings(), 1);
        while set.try_join_next().is_some() {}
        assert!(set.is_empty());
        assert!(set.poll_join_next(&mut Context::from_waker(&waker)).is_ready(), "empty");
    });
}

#[test]
fn only_the_last_waker_is_woken() {
    let _watchdog = watchdog();
    build(0).block_on(async {
        let (first, second) = (Arc::<Bell>::default(), Arc::<Bell>::default());
        let (sender, receiver) = oneshot::channel::<()>();
        let mut set = JoinSet::new();
        set.spawn(receiver);
        for bell in [&first, &second] {
            let waker = Waker::from(bell.clone());
            assert!(set.poll_join_next(&mut Context::from_waker(&waker)).is_pending());
        }
        assert_eq!(Arc::strong_count(&first), 1, "the first waker was let go");
        sender.send(()).unwrap();
        until_ended(&set, &second).await;
        assert_eq!(first.rings(), 0);
        assert!(set.try_join_next().unwrap().unwrap().is_ok());
        drop(set);
        assert_eq!(Arc::strong_count(&second), 1);
    });
}

/// A set may be polled by one task, and filled or emptied by another, behind a lock.
#[test]
fn a_waiter_is_woken_for_a_task_that_is_over_at_once_and_for_a_set_that_is_emptied() {
    let over = build(0).handle().clone();
    let bell = Arc::<Bell>::default();
    let waker = Waker::from(bell.clone());
    let cx = &mut Context::from_waker(&waker);
    build(0).block_on(async {
        let mut set = JoinSet::new();
        set.spawn(pending::<()>());
        assert!(set.poll_join_next(cx).is_pending());
        // The runtime has ended, so the task is cancelled before the set has its handle.
        set.spawn_on(pending(), &over);
        assert_eq!(bell.rings(), 1, "the end of a task that is over at once");
        assert!(set.poll_join_next(cx).map(|result| result.unwrap().is_err()).is_ready());

        assert!(set.poll_join_next(cx).is_pending());
        set.detach_all();
        assert_eq!(bell.rings(), 2, "the set is empty");
        assert!(set.poll_join_next(cx).map(|result| result.is_none()).is_ready());
    });
}

async fn until_ended<T>(_: &JoinSet<T>, bell: &Bell) {
    while bell.rings() == 0 {
        yield_now().await;
    }
}

#[test]
fn a_join_that_is_dropped_loses_nothing() {
    let _watchdog = watchdog();
    build(0).block_on(async {
        let mut set = JoinSet::new();
        for i in 0..10 {
            set.spawn(async move { i });
        }
        let mut seen = HashSet::new();
        while !set.is_empty() {
            // Polled once, then dropped.
            let polled = poll_fn(|cx| Poll::Ready(pin!(set.join_next()).poll(cx))).await;
            match polled {
                Poll::Ready(Some(result)) => assert!(seen.insert(result.unwrap())),
                Poll::Ready(None) => unreachable!("it is not empty"),
                Poll::Pending => yield_now().await,
            }
        }
        assert_eq!(seen.len(), 10);
    });
}

#[test]
fn a_set_that_is_dropped_drops_its_tasks() {
    let _watchdog = watchdog();
    each_kind(|runtime| {
        let drops = Drops::default();
        let mut set = JoinSet::new();
        for _ in 0..100 {
            let token = drops.token();
            set.spawn_on(
                async move {
                    pending::<()>().await;
                    drop(token);
                },
                runtime.handle(),
            );
        }
        runtime.block_on(yield_now());
        drop(set);
        // On a `current_thread` runtime they are cancelled as it goes on.
        runtime.block_on(async {
            while drops.count() < 100 {
                yield_now().await;
            }
        });
    });
}

#[test]
fn tasks_may_end_while_the_set_is_dropped() {
    let _watchdog = watchdog();
    let runtime = build(3);
    for round in 0..300 {
        let (drops, ended) = (Drops::default(), Arc::new(AtomicUsize::new(0)));
        let mut set = JoinSet::new();
        for i in 0..20 {
            let (token, ended) = (drops.token(), ended.clone());
            set.spawn_on(
                async move {
                    if i % 2 == 0 {
                        yield_now().await;
                    }
                    ended.fetch_add(1, SeqCst);
                    token
                },
                runtime.handle(),
            );
        }
        until("some have ended", || ended.load(SeqCst) >= round % 15);
        match round % 3 {
            0 => drop(set),
            1 => {
                set.detach_all();
                assert!(set.is_empty() && set.try_join_next().is_none());
                until("all have ended", || ended.load(SeqCst) == 20);
                drop(set);
            }
            _ => {
                set.abort_all();
                drop(runtime.block_on(set.join_next()));
                // On another thread.
                thread::spawn(move || drop(set)).join().unwrap();
            }
        }
        until("all is dropped", || drops.count() == 20);
    }
}

#[test]
fn detached_tasks_run_on_and_leave_room_for_others() {
    let _watchdog = watchdog();
    build(0).block_on(async {
        let (gate, ended) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut set = JoinSet::new();
        for round in 1..=3 {
            for _ in 0..50 {
                let (gate, ended) = (gate.clone(), ended.clone());
                set.spawn(async move {
                    gate.acquire().await.unwrap().forget();
                    ended.fetch_add(1, SeqCst);
                });
            }
            yield_now().await;
            // One has ended and was not joined.
            gate.add_permits(1);
            while ended.load(SeqCst) < 50 * (round - 1) + 1 {
                yield_now().await;
            }
            set.detach_all();
            assert_eq!((set.len(), set.join_next().await.is_none()), (0, true));
            gate.add_permits(49);
            while ended.load(SeqCst) < 50 * round {
                yield_now().await;
            }
            assert!(set.try_join_next().is_none());
        }
    });
}

#[test]
fn aborted_tasks_stay_until_they_are_joined() {
    let _watchdog = watchdog();
    each_kind(|runtime| {
        runtime.block_on(async {
            let mut set = JoinSet::new();
            set.spawn(async { 1 });
            let abort = set.spawn(pending::<i32>());
            set.spawn(pending());
            assert_eq!(set.join_next().await.unwrap().unwrap(), 1);
            thread::spawn(move || abort.abort()).join().unwrap();
            assert!(set.join_next().await.unwrap().unwrap_err().is_cancelled());
            set.abort_all();
            assert_eq!(set.len(), 1);
            assert!(set.join_next().await.unwrap().unwrap_err().is_cancelled());
            assert!(set.join_next().await.is_none());
            (0..10).for_each(|_| _ = set.spawn(pending()));
            set.shutdown().await;
            assert!(set.is_empty());
        });
    });
}

#[test]
fn names_come_with_outputs_and_with_errors() {
    let _watchdog = watchdog();
    build(1).block_on(async {
        let mut set = JoinSet::new();
        let good = set.spawn(async { 5 }).id();
        assert_eq!(set.join_next_with_id().await.unwrap().unwrap(), (good, 5));
        let bad = set.spawn(async { resume_unwind(Box::new("boom")) }).id();
        let error = set.join_next_with_id().await.unwrap().unwrap_err();
        assert_eq!((error.id(), error.is_panic()), (bad, true));
        let third = set.spawn(async { 6 }).id();
        let result = loop {
            match set.try_join_next_with_id() {
                Some(result) => break result,
                None => yield_now().await,
            }
        };
        assert_eq!(result.unwrap(), (third, 6));
    });
}

#[test]
fn blocking_closures_and_tasks_of_other_runtimes_are_joined() {
    let _watchdog = watchdog();
    let (here, there) = (build(0), build(1));
    here.block_on(async {
        let mut set = JoinSet::new();
        set.spawn_blocking(|| 1);
        set.spawn_blocking_on(|| 2, there.handle());
        set.spawn_on(async { 4 }, there.handle());
        set.spawn(async { 8 });
        assert_eq!(set.join_all().await.into_iter().sum::<i32>(), 15);
    });
    // Of a runtime that is gone.
    let mut set = JoinSet::new();
    set.spawn_on(pending::<()>(), there.handle());
    drop(there);
    set.spawn_on(async {}, here.handle());
    drop(here);
    let runtime = build(0);
    for _ in 0..2 {
        assert!(runtime.block_on(set.join_next()).unwrap().unwrap_err().is_cancelled());
    }
}

#[test]
fn panics_are_results_and_panics_of_destructors_pass() {
    let _watchdog = watchdog();
    each_kind(|runtime| {
        runtime.block_on(async {
            let mut set = JoinSet::new();
            set.spawn(async { resume_unwind(Box::new("poll")) });
            assert!(set.join_next().await.unwrap().is_err_and(|error| error.is_panic()));
            set.spawn(async { PanicsInDrop });
            let Ok(output) = set.join_next().await.unwrap() else { panic!("it has an output") };
            assert!(catch_unwind(AssertUnwindSafe(|| drop(output))).is_err());
            // Outputs that are never taken: detached before, dropped with the set, and with the future.
            let (sent, received) = mpsc::channel();
            for _ in 0..3 {
                let sent = sent.clone();
                set.spawn(async move {
                    sent.send(()).unwrap();
                    PanicsInDrop
                });
            }
            set.detach_all();
            let held = PanicsInDrop;
            set.spawn(async move {
                pending::<()>().await;
                held
            });
            let sent = sent.clone();
            set.spawn(async move {
                sent.send(()).unwrap();
                PanicsInDrop
            });
            let mut begun = 0;
            while begun < 4 {
                begun += received.try_iter().count();
                yield_now().await;
            }
            drop(set);
            assert_eq!(runtime::spawn(async { 1 }).await.unwrap(), 1);
        });
    });
}

#[test]
fn join_all_resumes_a_panic_and_aborts_the_others() {
    let _watchdog = watchdog();
    build(1).block_on(async {
        let drops = Drops::default();
        let token = drops.token();
        let mut set = JoinSet::new();
        set.spawn(async move {
            pending::<()>().await;
            drop(token);
        });
        set.spawn(async { resume_unwind(Box::new("boom")) });
        let error = runtime::spawn(set.join_all()).await.unwrap_err();
        assert_eq!(*error.into_panic().downcast::<&str>().unwrap(), "boom");
        while drops.count() == 0 {
            yield_now().await;
        }
        let mut set = JoinSet::new();
        set.spawn(pending::<()>()).abort();
        let error = runtime::spawn(set.join_all()).await.unwrap_err();
        let text = *error.into_panic().downcast::<String>().unwrap();
        assert!(text.contains("was cancelled"), "{text}");
    });
}

#[test]
fn a_join_spends_budget_and_a_try_does_not() {
    let _watchdog = watchdog();
    build(0).block_on(async {
        let mut set = JoinSet::new();
        (0..1000).for_each(|_| _ = set.spawn(async {}));
        yield_now().await;
        yield_now().await;
        let is_waiting = Arc::new(AtomicBool::new(true));
        let flag = is_waiting.clone();
        let other = runtime::spawn(async move { flag.store(false, SeqCst) });
        let mut before = 0;
        while set.join_next().await.is_some() {
            before += usize::from(is_waiting.load(SeqCst));
        }
        assert!(before < 1000, "the other task had its turn");
        other.await.unwrap();
        (0..1000).for_each(|_| _ = set.spawn(async {}));
        for _ in 0..20 {
            yield_now().await;
        }
        assert_eq!(std::iter::from_fn(|| set.try_join_next()).count(), 1000);
    });
}

#[test]
fn a_task_may_own_the_set_that_it_is_in() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let drops = Drops::default();
    let set = Arc::new(parking_lot::Mutex::new(JoinSet::new()));
    let (theirs, token) = (set.clone(), drops.token());
    set.lock().spawn_on(
        async move {
            let _token = token;
            yield_now().await;
            // The last to have it drops the set, with this task in it.
            drop(theirs);
            pending::<()>().await;
        },
        runtime.handle(),
    );
    drop(set);
    until("the task is gone", || drops.count() == 1);
}

#[test]
fn a_task_may_spawn_while_the_set_is_dropped() {
    let _watchdog = watchdog();
    struct Spawns(Arc<AtomicUsize>);
    impl Drop for Spawns {
        fn drop(&mut self) {
            let count = self.0.clone();
            runtime::spawn(async move { count.fetch_add(1, SeqCst) });
        }
    }
    each_kind(|runtime| {
        let count = Arc::new(AtomicUsize::new(0));
        runtime.block_on(async {
            let mut set = JoinSet::new();
            for _ in 0..10 {
                let spawns = Spawns(count.clone());
                set.spawn(async move {
                    pending::<()>().await;
                    drop(spawns);
                });
            }
            yield_now().await;
            drop(set);
            while count.load(SeqCst) < 10 {
                yield_now().await;
            }
        });
    });
}

#[test]
fn sets_are_made_from_iterators_and_tell_their_length() {
    let runtime: Runtime = Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut set: JoinSet<_> = (0..5).map(|i| async move { i }).collect();
        set.extend((5..10).map(|i| async move { i }));
        assert_eq!(format!("{set:?}"), "JoinSet { len: 10 }");
        assert_eq!(set.join_all().await.into_iter().sum::<i32>(), 45);
        assert!(JoinSet::<()>::default().join_all().await.is_empty());
    });
}
