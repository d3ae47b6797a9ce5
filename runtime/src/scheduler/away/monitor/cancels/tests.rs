use std::thread;

use super::*;
use crate::scheduler::enter;
use crate::scheduler::shared::tests::NoThreads;

/// A runtime whose only worker is blocked, with tasks to cancel. The shutdown has begun.
fn ending(tasks: usize) -> NoThreads {
    let runtime = NoThreads::new(1);
    (0..tasks).for_each(|_| runtime.spawn());
    runtime.marked_blocked();
    assert!(runtime.lifecycle.begin());
    runtime
}

/// Waits until `threads` threads that cancel tasks have ended.
fn until_ended(runtime: &NoThreads, threads: u64) {
    while runtime.monitor.cancellers.counts()[2] < threads || runtime.injected_jobs.is_any_live() {
        thread::yield_now();
    }
}

#[test]
fn a_thread_cancels_the_tasks_of_a_runtime_whose_workers_are_away() {
    let runtime = ending(3);
    let mut cancellers = WatchedCancellers::default();
    cancellers.see_to(&runtime, false);
    until_ended(&runtime, 1);
    assert_eq!((runtime.monitor.cancellers.counts(), runtime.injector.len()), ([1, 3, 1], 0));
    cancellers.see_to(&runtime, false);
    assert_eq!(runtime.monitor.cancellers.counts(), [1, 3, 1], "nothing is left");
}

#[test]
fn no_thread_comes_before_the_shutdown_nor_while_a_worker_is_there_or_goes_on() {
    let mut cancellers = WatchedCancellers::default();
    let runtime = NoThreads::new(1);
    runtime.spawn();
    runtime.marked_blocked();
    cancellers.see_to(&runtime, false);
    assert!(runtime.lifecycle.begin());
    runtime.one_less_blocked();
    cancellers.see_to(&runtime, false);
    runtime.marked_blocked();
    cancellers.see_to(&runtime, true);
    assert_eq!((cancellers.started, runtime.injector.len()), (0, 1));
}

#[test]
fn the_next_thread_comes_a_look_later_for_each_that_is_stuck() {
    let runtime = ending(1);
    let mut cancellers = WatchedCancellers { started: 2, taken: 7, ..WatchedCancellers::default() };
    // Two were started, and have taken seven tasks in all.
    let counts = &runtime.monitor.cancellers;
    (0..2).for_each(|_| counts.begins());
    (0..7).for_each(|_| counts.takes_task());
    (0..2).for_each(|_| cancellers.see_to(&runtime, false));
    assert_eq!((cancellers.still, cancellers.started), (2, 2));
    counts.takes_task();
    cancellers.see_to(&runtime, false);
    assert_eq!((cancellers.still, cancellers.taken), (0, 8), "one goes on");
    counts.begins();
    cancellers.see_to(&runtime, false);
    assert_eq!(cancellers.still, 0, "another is on its way");
    cancellers.started = 3;
    counts.ends();
    (0..2).for_each(|_| cancellers.see_to(&runtime, false));
    assert_eq!((cancellers.still, cancellers.started), (2, 3), "two are live");
    cancellers.see_to(&runtime, false);
    assert_eq!(cancellers.started, 4);
    until_ended(&runtime, 2);
}

#[test]
fn tasks_of_tables_that_were_lent_are_queued_once() {
    let runtime = NoThreads::new(1);
    let worker = runtime.worker(0);
    enter::enter_worker(&worker, || {
        drop(runtime.handle().spawn(std::future::pending::<()>()));
        // Polled once, it waits for a wake.
        worker.own_queues().pop().unwrap().run();
    });
    let had_table = worker.begin_blocking();
    assert!(had_table && runtime.count_blocked(0));
    assert!(runtime.lifecycle.begin());
    let mut cancellers = WatchedCancellers::default();
    cancellers.see_to(&runtime, true);
    assert_eq!((runtime.injector.len(), cancellers.seen_lent), (1, Some(1)));
    runtime.injector.pop_task().unwrap().cancel();
    cancellers.see_to(&runtime, true);
    assert_eq!((runtime.injector.len(), cancellers.seen_lent), (0, Some(1)));
}
