//! A task in the LIFO slot of a worker that is stuck runs elsewhere.

mod stall_support;
mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use runtime::sync::Notify;
use stall_support::{Trap, WAYS, assert_prompt};
use support::{build, until, watchdog};

/// A task wakes another, then is stuck: how long the other waits to run.
fn wake_and_stick(runtime: &runtime::Runtime, way: stall_support::Way) -> Duration {
    let (trap, notify) = (Trap::default(), Arc::new(Notify::new()));
    let (waits, has_begun) = std::sync::mpsc::channel();
    let woken = runtime.spawn({
        let notify = notify.clone();
        async move {
            let notified = notify.notified();
            waits.send(()).unwrap();
            notified.await;
            Instant::now()
        }
    });
    has_begun.recv().unwrap();
    let stuck = runtime.spawn({
        let trap = trap.clone();
        async move {
            let start = Instant::now();
            notify.notify_one();
            trap.enter(way);
            start
        }
    });
    let ran_at = runtime.block_on(woken).unwrap();
    trap.release();
    ran_at - runtime.block_on(stuck).unwrap()
}

#[test]
fn a_task_that_a_stuck_worker_has_woken_runs() {
    let _watchdog = watchdog();
    for way in WAYS {
        for workers in [1, 2, 4] {
            let runtime = build(workers);
            assert_prompt("woken", (0..10).map(|_| wake_and_stick(&runtime, way)).collect());
        }
    }
}

#[test]
fn it_runs_without_a_driver_and_after_all_have_slept_long() {
    let _watchdog = watchdog();
    for way in WAYS {
        for workers in [1, 3] {
            let runtime = runtime::Builder::new_multi_thread().worker_threads(workers).build().unwrap();
            let metrics = runtime.metrics();
            for _ in 0..5 {
                // So that no worker sleeps only until its second look.
                until("all sleep for good", || {
                    let parks = || (0..workers).map(|worker| metrics.worker_park_count(worker)).sum::<u64>();
                    let before = parks();
                    std::thread::sleep(Duration::from_millis(20));
                    parks() == before
                });
                wake_and_stick(&runtime, way);
            }
        }
    }
}

#[test]
fn a_task_that_a_stuck_worker_has_spawned_runs() {
    let _watchdog = watchdog();
    for way in WAYS {
        for workers in [1, 2] {
            let runtime = build(workers);
            for _ in 0..5 {
                let trap = Trap::default();
                let (send, ran) = std::sync::mpsc::channel();
                let stuck = runtime.spawn({
                    let trap = trap.clone();
                    async move {
                        runtime::spawn(async move { send.send(()).unwrap() });
                        trap.enter(way);
                    }
                });
                ran.recv().unwrap();
                trap.release();
                runtime.block_on(stuck).unwrap();
            }
        }
    }
}
