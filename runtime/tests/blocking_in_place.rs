//! `block_in_place`: the worker's other tasks go on elsewhere, and everything is as before when it returns.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use support::{Gate, KINDS, build, builder, each_kind, panic_of, threads, until, watchdog};

#[test]
fn the_other_tasks_of_a_blocked_worker_go_on() {
    let _watchdog = watchdog();
    for workers in [1, 3] {
        let runtime = build(workers);
        let task = runtime.spawn(async {
            let gate = Gate::default();
            // In the LIFO slot and in the ring of this very worker.
            let tasks: Vec<_> = (0..10)
                .map(|_| {
                    runtime::spawn(async {
                        runtime::task::yield_now().await;
                        runtime::time::sleep(std::time::Duration::from_millis(1)).await;
                    })
                })
                .collect();
            let open = gate.clone();
            runtime::spawn(async move {
                for task in tasks {
                    task.await.unwrap();
                }
                open.open();
            });
            runtime::task::block_in_place(|| gate.wait());
        });
        runtime.block_on(task).unwrap();
    }
}

#[test]
fn a_task_keeps_its_name_in_the_closure() {
    let _watchdog = watchdog();
    each_kind(|runtime| {
        let handle = runtime.handle().clone();
        let task = runtime.spawn(async move {
            let own = runtime::task::id();
            runtime::task::block_in_place(|| {
                assert_eq!(runtime::task::try_id(), Some(own));
                assert_eq!(handle.block_on(async { runtime::task::try_id() }), Some(own));
                let other = handle.spawn(async { runtime::task::id() });
                let id = other.id();
                assert_eq!(handle.block_on(other).unwrap(), id);
                assert_eq!(runtime::task::block_in_place(runtime::task::try_id), Some(own));
            });
            assert_eq!(runtime::task::id(), own);
        });
        runtime.block_on(task).unwrap();
        assert_eq!(runtime::task::block_in_place(runtime::task::try_id), None);
    });
}

#[test]
fn the_task_that_a_blocked_worker_would_have_run_next_goes_on() {
    let _watchdog = watchdog();
    // No other work can wake another thread, which would find that task.
    for _ in 0..20 {
        let runtime = runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let task = runtime.spawn(async {
            let gate = Gate::default();
            let open = gate.clone();
            runtime::spawn(async move { open.open() });
            runtime::task::block_in_place(|| gate.wait());
        });
        runtime.block_on(task).unwrap();
    }
}

#[test]
fn tasks_woken_and_spawned_by_a_blocked_worker_run() {
    let _watchdog = watchdog();
    let runtime = build(1);
    let task = runtime.spawn(async {
        let notify = Arc::new(runtime::sync::Notify::new());
        let wait = notify.clone();
        let gate = Gate::default();
        let open = gate.clone();
        runtime::spawn(async move {
            wait.notified().await;
            open.open();
        });
        runtime::task::yield_now().await;
        runtime::task::block_in_place(|| {
            notify.notify_one();
            gate.wait();
            let gate = Gate::default();
            let open = gate.clone();
            runtime::spawn(async move { open.open() });
            gate.wait();
        });
    });
    runtime.block_on(task).unwrap();
}

#[test]
fn more_tasks_may_block_than_there_are_workers() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let barrier = Arc::new(std::sync::Barrier::new(20));
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let barrier = barrier.clone();
            runtime.spawn(async move {
                runtime::task::block_in_place(|| barrier.wait());
                runtime::task::yield_now().await;
            })
        })
        .collect();
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
    assert_eq!(runtime.block_on(runtime.spawn(async { 1 })).unwrap(), 1);
}

#[test]
fn beyond_the_bound_tasks_wait_and_then_run() {
    let _watchdog = watchdog();
    let runtime = builder(1).spare_workers(2).build().unwrap();
    let gate = Gate::default();
    let blocked = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..5)
        .map(|_| {
            let (gate, blocked) = (gate.clone(), blocked.clone());
            runtime.spawn(async move {
                runtime::task::block_in_place(|| {
                    blocked.fetch_add(1, SeqCst);
                    gate.wait();
                });
            })
        })
        .collect();
    // The worker and two spare workers.
    until("all threads are blocked", || blocked.load(SeqCst) == 3);
    gate.open();
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
}

#[test]
fn it_nests() {
    each_kind(|runtime| {
        let task = runtime.spawn(async {
            runtime::task::block_in_place(|| {
                runtime::task::block_in_place(|| {
                    runtime::Handle::current().block_on(async {
                        runtime::task::block_in_place(|| 1) + runtime::spawn(async { 2 }).await.unwrap()
                    })
                })
            })
        });
        assert_eq!(runtime.block_on(task).unwrap(), 3);
    });
}

#[test]
fn a_panic_inside_comes_through_and_the_worker_is_as_before() {
    let _watchdog = watchdog();
    each_kind(|runtime| {
        for _ in 0..3 {
            let task = runtime.spawn(async {
                runtime::task::block_in_place(|| std::panic::resume_unwind(Box::new("inside")));
            });
            let error = runtime.block_on(task).unwrap_err();
            assert_eq!(support::text_of(&*error.into_panic()), "inside");
        }
        let task = runtime.spawn(async {
            let handle = runtime::Handle::current();
            panic_of(|| runtime::task::block_in_place(|| std::panic::resume_unwind(Box::new(()))));
            // In a task again.
            assert!(panic_of(|| handle.block_on(async {})).contains("would hold"));
            runtime::spawn(async { 1 }).await.unwrap()
        });
        assert_eq!(runtime.block_on(task).unwrap(), 1);
    });
}

#[test]
fn outside_of_tasks_it_just_calls() {
    assert_eq!(runtime::task::block_in_place(|| 1), 1);
    each_kind(|runtime| {
        assert_eq!(runtime.block_on(async { runtime::task::block_in_place(|| 1) }), 1);
        let closure = runtime.spawn_blocking(|| runtime::task::block_in_place(|| 1));
        assert_eq!(runtime.block_on(closure).unwrap(), 1);
    });
}

#[test]
fn spare_workers_are_used_again_and_leave_when_idle() {
    let _watchdog = watchdog();
    if support::in_child("spare_workers_are_used_again_and_leave_when_idle", &[]) {
        let before = threads();
        let runtime = builder(1).thread_keep_alive(std::time::Duration::from_millis(100)).build().unwrap();
        for _ in 0..200 {
            let task = runtime.spawn(async {
                let inner = runtime::spawn(async { 1 });
                runtime::task::block_in_place(|| runtime::Handle::current().block_on(inner)).unwrap()
            });
            assert_eq!(runtime.block_on(task).unwrap(), 1);
        }
        // A worker, the monitor, and a few spare workers: on a busy machine more than one is needed at times.
        assert!(threads() <= before + 2 + 8, "{} threads, {before} before", threads());
        // Those that idle are asked to rest when next there is something to do.
        until("they leave", || {
            runtime.block_on(runtime.spawn(async {})).unwrap();
            threads() <= before + 2
        });
        drop(runtime);
        until("all threads have ended", || threads() == before);
    }
}

#[test]
fn many_tasks_block_and_wake_each_other_at_random() {
    let _watchdog = watchdog();
    for workers in KINDS {
        let runtime = build(workers);
        let tasks: Vec<_> = (0..60)
            .map(|i| {
                runtime.spawn(async move {
                    for round in 0..20 {
                        let inner = runtime::spawn(async move {
                            if i % 3 == 0 {
                                runtime::task::yield_now().await;
                            }
                            round
                        });
                        let seen = match (i + round) % 4 {
                            0 => runtime::task::block_in_place(|| runtime::Handle::current().block_on(inner)),
                            _ => inner.await,
                        };
                        assert_eq!(seen.unwrap(), round);
                    }
                })
            })
            .collect();
        for task in tasks {
            runtime.block_on(task).unwrap();
        }
    }
}

#[test]
fn marked_calls_are_counted_by_their_line() {
    let runtime = runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let calls = |n: usize| async move {
        for _ in 0..n {
            runtime::task::block_in_place(|| ());
        }
        runtime::parallel::blocking(|| ());
    };
    for n in [10, 20] {
        runtime.block_on(runtime.spawn(calls(n))).unwrap();
    }
    let sites = runtime.metrics().blocking_sites();
    assert_eq!(sites.iter().map(|site| site.calls()).collect::<Vec<_>>(), [30, 2], "{sites:?}");
    assert!(
        sites
            .iter()
            .all(|site| site.location().is_some_and(|it| it.file().ends_with("blocking_in_place.rs")))
    );
    assert!(sites[0].location().unwrap().line() < sites[1].location().unwrap().line());
}
