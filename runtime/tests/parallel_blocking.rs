//! Blocking calls in jobs: they are allowed, and count as blocked, so that nothing waits for the thread that
//! waits.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use runtime::parallel::{self, ThreadPoolBuilder};
use runtime::sync::{Mutex, mpsc, oneshot};
use runtime::{Handle, compute};
use support::{AssertSend, Gate, NEAR_A_BUDGETS_END, build, builder, panic_of, short_joins, until, watchdog};

#[test]
fn a_job_may_wait_for_tasks_of_its_own_runtime() {
    let _watchdog = watchdog();
    for workers in [1, 2] {
        let runtime = build(workers);
        let computation = runtime.compute(|| {
            let task = runtime::spawn(async {
                runtime::time::sleep(Duration::from_millis(1)).await;
                runtime::task::yield_now().await;
                5
            });
            Handle::current().block_on(task).unwrap()
        });
        assert_eq!(runtime.block_on(computation).unwrap(), 5);
        // On each side of a fork at once.
        let side = || Handle::current().block_on(runtime::spawn(runtime::task::yield_now())).unwrap();
        runtime.block_on(runtime.compute(move || parallel::join(side, side))).unwrap();
    }
}

#[test]
fn a_job_may_wait_for_channels_and_locks() {
    let _watchdog = watchdog();
    let runtime = build(1);
    let (to_job, mut from_task) = mpsc::channel(1);
    let (to_task, from_job) = oneshot::channel();
    let mutex = Arc::new(Mutex::new(0));
    let computation = runtime.compute({
        let mutex = mutex.clone();
        move || {
            let first: u32 = from_task.blocking_recv().unwrap();
            to_task.send(first + 1).unwrap();
            let second = from_task.blocking_recv().unwrap();
            *mutex.blocking_lock() + second
        }
    });
    let task = runtime.spawn(async move {
        let mut guard = mutex.lock_owned().await;
        to_job.send(1).await.unwrap();
        *guard = from_job.await.unwrap();
        to_job.send(10).await.unwrap();
        runtime::task::yield_now().await;
    });
    runtime.block_on(task).unwrap();
    assert_eq!(runtime.block_on(computation).unwrap(), 12);
}

#[test]
fn what_a_blocked_job_has_split_off_is_run_by_others() {
    let _watchdog = watchdog();
    let runtime = build(2);
    for _ in 0..100 {
        let computation = runtime.compute(|| {
            let (sender, receiver) = oneshot::channel();
            // Below forks that keep their halves to themselves.
            parallel::join(
                || parallel::join(|| receiver.blocking_recv().unwrap(), || _ = sender.send(3)).0,
                || (),
            )
            .0
        });
        assert_eq!(runtime.block_on(computation).unwrap(), 3);
    }
}

#[test]
fn what_it_has_split_off_is_run_also_inside_of_another_block_on() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let fork = || {
        let (sender, receiver) = oneshot::channel();
        parallel::join(|| receiver.blocking_recv().unwrap(), || _ = sender.send(4)).0
    };
    // The worker is blocked already: in the future of a `block_on` that has waited once, or as the thread
    // that drives another runtime.
    let nested = move || {
        Handle::current().block_on(async move {
            runtime::task::yield_now().await;
            runtime::time::sleep(Duration::from_millis(1)).await;
            fork()
        })
    };
    let single = move || build(0).block_on(async move { fork() });
    for _ in 0..20 {
        assert_eq!(runtime.block_on(runtime.compute(nested)).unwrap(), 4);
        assert_eq!(runtime.block_on(runtime.compute(single)).unwrap(), 4);
    }
}

#[test]
fn what_nobody_wanted_when_it_was_split_off_is_run_while_it_is_waited_for() {
    let _watchdog = watchdog();
    let runtime = build(2);
    // The other worker has something to do, until the first waits.
    let (busy, release) = (Gate::default(), Gate::default());
    let (is_busy, wait) = (busy.clone(), release.clone());
    let other = runtime.compute(move || {
        is_busy.open();
        wait.wait();
    });
    busy.wait();
    let computation = runtime.compute(move || {
        Handle::current().block_on(async move {
            // From now on the worker is blocked already.
            runtime::time::sleep(Duration::from_millis(1)).await;
            let (sender, receiver) = oneshot::channel();
            let waits = || {
                release.open();
                receiver.blocking_recv().unwrap()
            };
            parallel::join(|| parallel::join(waits, || _ = sender.send(4)).0, || ()).0
        })
    });
    assert_eq!(runtime.block_on(computation).unwrap(), 4);
    runtime.block_on(other).unwrap();
}

#[test]
fn what_it_has_split_off_in_a_blocking_call_is_run_when_it_blocks_again() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let fork = |shorts| {
        short_joins(shorts);
        let (sender, receiver) = std::sync::mpsc::channel();
        let wait = AssertSend::new(|| runtime::task::block_in_place(|| receiver.recv().unwrap()));
        parallel::join(move || wait.call(), || sender.send(4).unwrap()).0
    };
    let nested = move |shorts| runtime::task::block_in_place(|| fork(shorts));
    let single = move |shorts| build(0).block_on(async move { fork(shorts) });
    // That holds however short such a child job was found to be, and wherever in a publish budget it comes.
    for shorts in NEAR_A_BUDGETS_END {
        assert_eq!(runtime.block_on(runtime.compute(move || nested(shorts))).unwrap(), 4);
        assert_eq!(runtime.block_on(runtime.compute(move || single(shorts))).unwrap(), 4);
    }
}

#[test]
fn tasks_go_on_while_the_only_worker_drives_another_runtime() {
    let _watchdog = watchdog();
    let runtime = build(1);
    let (sender, receiver) = oneshot::channel();
    let started = Gate::default();
    let open = started.clone();
    let computation = runtime.compute(move || {
        open.open();
        build(0).block_on(receiver).unwrap()
    });
    started.wait();
    runtime.spawn(async move { sender.send(9).unwrap() });
    assert_eq!(runtime.block_on(computation).unwrap(), 9);
}

#[test]
fn directly_inside_of_a_task_it_panics_and_says_what_to_do() {
    let _watchdog = watchdog();
    // A spare worker could come, because it takes long to print a panic, and it shares nothing of a `join`.
    let runtime = builder(2).spare_workers(0).build().unwrap();
    let handle = runtime.handle().clone();
    let text =
        runtime.block_on(runtime.spawn(async move { panic_of(|| handle.block_on(async {})) })).unwrap();
    assert!(text.contains("`.await` the future instead"), "{text}");
    // What another thread runs for the task is a job.
    let task = runtime.spawn(async {
        let gate = Gate::default();
        let job = || {
            gate.open();
            Handle::current().block_on(async { 6 })
        };
        parallel::join(|| gate.wait(), job).1
    });
    assert_eq!(runtime.block_on(task).unwrap(), 6);
}

#[test]
fn a_thread_of_a_pool_may_wait_for_a_runtime() {
    let _watchdog = watchdog();
    let runtime = build(1);
    let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let handle = runtime.handle().clone();
    assert_eq!(pool.install(|| handle.block_on(async { runtime::spawn(async { 1 }).await.unwrap() })), 1);
    let wait = || {
        let (sender, receiver) = oneshot::channel();
        parallel::join(|| receiver.blocking_recv().unwrap(), || _ = sender.send(2)).0
    };
    for _ in 0..100 {
        assert_eq!(pool.install(wait), 2);
    }
}

#[test]
fn a_shutdown_cancels_the_tasks_that_a_job_waits_for() {
    let _watchdog = watchdog();
    for has_slept in [false, true] {
        let runtime = build(2);
        let begun = Arc::new(AtomicUsize::new(0));
        // In the tables of both workers.
        let tasks: Vec<_> = (0..64)
            .map(|_| {
                let begun = begun.clone();
                runtime.spawn(async move {
                    begun.fetch_add(1, SeqCst);
                    std::future::pending::<()>().await;
                })
            })
            .collect();
        until("all wait", || begun.load(SeqCst) == 64);
        let waits = Gate::default();
        let open = waits.clone();
        let wait_for_tasks = move || {
            if has_slept {
                // A wait for a latch, which is over before the wait below.
                let gate = Gate::default();
                let slow = || {
                    gate.open();
                    std::thread::sleep(Duration::from_millis(20));
                };
                parallel::join(|| gate.wait(), slow);
            }
            open.open();
            tasks.into_iter().all(|task| Handle::current().block_on(task).unwrap_err().is_cancelled())
        };
        let computation = runtime.compute(|| runtime::task::block_in_place(wait_for_tasks));
        waits.wait();
        drop(runtime);
        until("finished", || computation.is_finished());
        assert!(build(0).block_on(computation).unwrap());
    }
}

#[test]
fn more_blocked_jobs_than_workers_find_their_tasks_polled() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let sum = runtime.block_on(async {
        let jobs: Vec<_> = (0..50_u64)
            .map(|n| {
                compute(move || {
                    Handle::current().block_on(async move { runtime::spawn(async move { n }).await.unwrap() })
                })
            })
            .collect();
        let mut sum = 0;
        for job in jobs {
            sum += job.await.unwrap();
        }
        sum
    });
    assert_eq!(sum, 1225);
}
