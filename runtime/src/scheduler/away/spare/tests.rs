//! Spare workers without threads. Their indices begin at 4: there are two permanent workers, and places for
//! two external threads.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use super::*;
use crate::config::{Config, Deadlock};
use crate::driver::Driver;
use crate::driver::foreign::ForeignWakes;
use crate::driver::io::IoDriver;
use crate::driver::time::TimeDriver;
use crate::job::Tag;
use crate::parallel;
use crate::scheduler::enter;
use crate::scheduler::injected::Injected;
use crate::scheduler::shared::tests::{IdleJob, NoThreads, was_unparked};

/// Spare workers with the indices `4..4 + active` are active, and then come `resting` that rest.
fn with(active: usize, resting: usize) -> NoThreads {
    let runtime = NoThreads::with_spares(2, active + resting);
    let spares: Vec<_> = (0..active + resting).map(|_| runtime.add_spare()).collect();
    assert!(spares.iter().copied().eq(4..4 + active + resting));
    runtime.away.change(|table| spares[active..].iter().for_each(|&spare| table.begin_rest(spare)));
    runtime
}

fn is_resting(runtime: &NoThreads, index: usize) -> bool {
    runtime.away.read(|table| table.is_resting(index))
}

#[test]
fn a_spare_worker_comes_for_each_worker_that_is_away_and_for_no_other() {
    let runtime = with(0, 2);
    assert!(!runtime.admit(), "none is needed");
    runtime.away.change(|table| table.blocked = 1);
    assert!(runtime.lacks_spare_for_now(0));
    assert!(runtime.admit());
    assert_eq!((runtime.unparked(), runtime.away.active()), (vec![5], 1));
    assert!(!runtime.lacks_spare_for_now(0) && runtime.lacks_spare_for_now(1));
    assert!(!runtime.admit(), "it is there");
    assert_eq!(runtime.unparked(), []);
}

#[test]
fn a_runtime_without_spare_workers_does_not_ask_for_one() {
    let runtime = NoThreads::new(2);
    runtime.marked_blocked();
    assert!(!runtime.admit());
    assert_eq!(runtime.away.counts().capped, 0);
}

#[test]
fn the_spare_worker_of_a_waiting_worker_is_preferred() {
    let runtime = with(0, 4);
    // Spare workers 5 and 7 belong to worker 1, which waits for a latch.
    assert!(runtime.idle.announce_wait(1, runtime.idle.get_sleepy()));
    runtime.away.change(|table| {
        assert!(table.end_rest(5, true));
        table.begin_rest(5);
        assert!(table.end_rest(4, true));
        table.begin_rest(4);
    });
    runtime.away.change(|table| table.blocked = 1);
    assert!(runtime.admit());
    assert_eq!(runtime.unparked(), [5]);
    assert!(runtime.admit(), "the worker that waits counts, too");
    assert_eq!(runtime.unparked(), [7]);
}

#[test]
fn a_spare_worker_that_was_called_starts_until_it_has_started() {
    let runtime = NoThreads::with_spares(2, 1);
    runtime.away.change(|table| _ = table.call_fresh());
    assert!(runtime.is_spare_starting(4));
    runtime.away.change(|table| table.blocked = 1);
    assert!(runtime.lacks_spare_for_now(0));
    runtime.spare_has_started(4);
    assert!(!runtime.is_spare_starting(4) && !runtime.lacks_spare_for_now(0));
}

#[test]
fn no_more_are_kept_in_reserve_than_are_asked_for() {
    let runtime = with(1, 1);
    // A call beyond the limit is counted.
    runtime.keep_in_reserve(1);
    runtime.keep_in_reserve(2);
    assert_eq!(runtime.away.counts().capped, 0);
    runtime.keep_in_reserve(3);
    assert_eq!(runtime.away.counts().capped, 1);
}

#[test]
fn the_monitor_sets_how_many_are_stalled_and_serve() {
    let runtime = with(2, 0);
    let numbers = || runtime.away.read(|table| (table.stalled, table.serving));
    runtime.set_away(1, 0);
    assert_eq!((numbers(), runtime.away.blocked(), runtime.away.is_any_serving()), ((1, 0), 1, false));
    runtime.set_away(1, 1);
    assert_eq!((numbers(), runtime.away.is_any_serving()), ((1, 1), true));
    runtime.set_away(0, 0);
    assert_eq!((numbers(), runtime.away.is_any()), ((0, 0), false));
}

#[test]
fn the_poller_looks_at_all_wheels_when_the_first_spare_worker_serves() {
    let driver = Driver::new(Some(IoDriver::new(16, None).unwrap()), Some(TimeDriver::new(3, false)));
    let config = Config { is_pool: false, spare_workers: 2, ..Config::of_pool(2) };
    let runtime = NoThreads::of(config, driver);
    let foreign = ForeignWakes::new();
    let mut poller = runtime.driver.try_become_poller(0).unwrap();
    let mut lasts = |limit| {
        let begin = Instant::now();
        poller.sleep(Some(limit), &foreign);
        begin.elapsed() >= limit
    };
    let short = Duration::from_millis(1);
    let time = runtime.driver.time().unwrap();
    let are_all_served = || time.must_unpark_for(time.shard(0));
    runtime.set_away(1, 0);
    assert!(lasts(short) && !are_all_served());
    runtime.set_away(1, 1);
    assert!(!lasts(LONG) && are_all_served());
    runtime.set_away(1, 2);
    assert!(lasts(short) && are_all_served(), "the second one");
    runtime.set_away(1, 0);
    assert!(lasts(short) && !are_all_served(), "they serve no more");
}

#[test]
fn the_first_sleeper_that_takes_slow_tasks_is_woken_for_one() {
    let runtime = with(3, 0);
    runtime.away.change(|table| table.blocked = 2);
    runtime.idle.announce_sleep(6, false);
    runtime.wake_full_spare();
    assert_eq!(runtime.unparked(), [], "the third is not needed in full");
    runtime.idle.announce_sleep(5, false);
    runtime.wake_full_spare();
    assert_eq!(runtime.unparked(), [5]);
}

#[test]
fn a_sleeper_that_serves_can_probe_a_slow_task_if_another_one_is_left_for_the_driver() {
    let config = Config { is_pool: false, spare_workers: 3, ..Config::of_pool(2) };
    let runtime = NoThreads::of(config, Driver::new(Some(IoDriver::new(16, None).unwrap()), None));
    let spares = [(); 3].map(|()| runtime.add_spare());
    runtime.away.change(|table| (table.stalled, table.serving) = (1, 2));
    let poller = runtime.driver.try_become_poller(spares[1]).unwrap();
    [0, 1].into_iter().for_each(|spare| runtime.idle.announce_sleep(spares[spare], false));
    assert_eq!(runtime.sleeping_prober(), None, "the first one helps, and does not serve");
    runtime.idle.announce_sleep(spares[2], false);
    assert_eq!(runtime.sleeping_prober(), Some(spares[2]));
    drop(poller);
    assert_eq!(runtime.sleeping_prober(), Some(spares[1]));
    assert!(runtime.idle.end_sleep(spares[1]));
    assert_eq!(runtime.sleeping_prober(), None, "the last one that sleeps");
}

#[test]
fn a_surplus_sleeper_is_woken_to_rest() {
    let runtime = with(3, 0);
    [4, 5].into_iter().for_each(|spare| runtime.idle.announce_sleep(spare, false));
    runtime.away.change(|table| table.blocked = 3);
    runtime.dismiss_surplus();
    assert_eq!(runtime.unparked(), [], "all are needed");
    runtime.away.change(|table| table.blocked = 2);
    runtime.dismiss_surplus();
    assert_eq!(runtime.unparked(), [5], "the last of those that sleep");
    assert!(runtime.lifecycle.begin());
    runtime.dismiss_surplus();
    assert_eq!(runtime.unparked(), [], "at the shutdown none rests");
}

#[test]
fn at_the_shutdown_a_spare_worker_that_is_not_needed_serves_and_does_not_rest() {
    let runtime = with(2, 0);
    runtime.away.change(|table| table.blocked = 1);
    assert_eq!([4, 5].map(|spare| runtime.role(spare)), [Role::Full, Role::Surplus]);
    assert!(runtime.lifecycle.begin());
    assert_eq!([4, 5].map(|spare| runtime.role(spare)), [Role::Full, Role::Serves]);
    assert!(!runtime.begin_rest(5) && !is_resting(&runtime, 5));
}

#[test]
fn waiting_workers_call_for_a_worker_that_begins_and_waiting_spare_workers_for_more() {
    let runtime = with(2, 0);
    assert!(runtime.idle.announce_wait(0, runtime.idle.get_sleepy()));
    assert_eq!([4, 5].map(|spare| runtime.role(spare)), [Role::Begins, Role::Surplus]);
    assert!(runtime.idle.announce_wait(5, runtime.idle.get_sleepy()));
    assert_eq!(runtime.role(4), Role::Full);
}

#[test]
fn a_spare_worker_rests_if_it_is_not_needed_and_holds_no_work() {
    let runtime = with(2, 0);
    let (permanent, spare) = (runtime.worker(0), runtime.worker(5));
    assert!(!permanent.rests());
    runtime.away.change(|table| table.blocked = 2);
    assert!(!spare.rests(), "it is needed");
    runtime.away.change(|table| table.blocked = 1);
    assert_eq!(spare.own_queues().push_back(runtime.task(), &runtime.injector), 0);
    assert!(!spare.rests(), "it holds a task");
    assert!(!is_resting(&runtime, 5));
    spare.own_queues().pop_front().unwrap().cancel();
    assert!(spare.rests() && is_resting(&runtime, 5));
    assert_eq!(runtime.unparked(), [], "nothing waits");
}

#[test]
fn a_spare_worker_that_rests_has_another_come_for_what_waits() {
    for is_task in [true, false] {
        let runtime = with(1, 0);
        let (busy, spare, job) = (runtime.worker(0), runtime.worker(4), IdleJob::new());
        runtime.idle.announce_sleep(1, false);
        if is_task {
            assert_eq!(busy.own_queues().push_back(runtime.task(), &runtime.injector), 0);
        } else {
            runtime.job_processor(0).detached.push_back(job.tagged(Tag::NONE));
        }
        runtime.unparked();
        // The spawn has woken a worker, which sleeps again.
        if !runtime.idle.is_sleeper(1) {
            assert!(runtime.idle.stop_searching());
            runtime.idle.announce_sleep(1, false);
        }
        assert!(spare.rests());
        assert_eq!(runtime.unparked(), [1]);
        busy.own_queues().pop_front().into_iter().for_each(|task| task.cancel());
    }
}

/// Spare worker 4 rests, on the calling thread.
fn rest(keep_alive: Duration, f: impl FnOnce(&NoThreads)) -> (NoThreads, bool) {
    let config =
        Config { is_pool: false, spare_workers: 1, thread_keep_alive: keep_alive, ..Config::of_pool(2) };
    let runtime = NoThreads::of(config, Driver::new(None, None));
    assert_eq!(runtime.add_spare(), 4);
    let worker = runtime.worker(4);
    worker.processor().parker.adopt_current_thread();
    worker.processor().metrics.thread_begins();
    runtime.away.change(|table| table.begin_rest(4));
    f(&runtime);
    let was_called = worker.rest();
    drop(worker);
    (runtime, was_called)
}

/// Longer than any test.
const LONG: Duration = Duration::from_secs(10_000);

#[test]
fn a_rest_ends_with_a_call() {
    let (runtime, was_called) = rest(LONG, |runtime| {
        runtime.away.change(|table| table.blocked = 1);
        assert!(runtime.admit());
    });
    assert!(was_called);
    assert_eq!((runtime.away.active(), runtime.away.counts().resting), (1, 0));
}

#[test]
fn a_rest_ends_after_the_keep_alive_time_or_at_the_shutdown() {
    let at_once = rest(Duration::ZERO, |_| ());
    let at_the_shutdown = rest(LONG, |runtime| {
        assert!(runtime.lifecycle.begin());
        runtime.unpark_all();
    });
    for (runtime, was_called) in [at_once, at_the_shutdown] {
        assert!(!was_called);
        assert!(runtime.away.is_absent(4), "its index is free");
        assert_eq!(runtime.processors.len(), 2, "its processor is empty");
    }
}

#[test]
fn a_call_that_comes_with_the_end_of_the_keep_alive_time_counts() {
    let (runtime, was_called) = rest(Duration::ZERO, |runtime| {
        runtime.away.change(|table| table.blocked = 1);
        assert!(runtime.admit());
        // Its sleep is over before its unpark.
        assert!(was_unparked(&runtime.processor(4).parker));
    });
    assert!(was_called && !runtime.away.is_absent(4));
}

#[test]
fn a_spare_worker_that_finds_a_deadlock_at_its_rest_reports_it_as_a_worker() {
    let reports = Arc::new(AtomicUsize::new(0));
    let counter = reports.clone();
    let config = Config {
        is_pool: false,
        spare_workers: 1,
        thread_keep_alive: LONG,
        deadlock_handler: Some(Arc::new(move |_: &Deadlock| _ = counter.fetch_add(1, Relaxed))),
        ..Config::of_pool(1)
    };
    let runtime = NoThreads::of(config, Driver::new(None, None));
    let (worker, index) = (runtime.worker(0), runtime.add_spare());
    runtime.away.change(|table| table.begin_rest(index));
    let mark = enter::enter_worker(&worker, parallel::mark_blocked);
    assert_eq!((runtime.unparked(), reports.load(Relaxed)), (vec![index], 0));
    let spare = runtime.worker(index);
    spare.processor().metrics.thread_begins();
    runtime.away.change(|table| table.begin_rest(index));
    assert!(spare.rest());
    assert_eq!((reports.load(Relaxed), runtime.away.active()), (1, 1));
    parallel::mark_unblocked(mark);
}

#[test]
fn a_computation_yields_to_a_spare_worker_that_rests_or_is_not_needed() {
    let runtime = with(0, 3);
    // The spare workers 4 and 6 belong to worker 0.
    assert_eq!(runtime.begin_yield(1), Some(YieldsTo::Called));
    assert_eq!((runtime.unparked(), runtime.away.has_yielding()), (vec![5], true));
    assert_eq!(runtime.begin_yield(1), None, "it yields already");
    assert_eq!(runtime.begin_yield(0), Some(YieldsTo::Called));
    assert_eq!(runtime.unparked(), [6]);
    assert!(!runtime.end_yield(0), "its tasks are not done");
    assert!(runtime.end_yield(0), "it has gone on");
    runtime.end_all_yields();
    assert!(was_unparked(&runtime.processor(1).yield_parker));
    assert!(!was_unparked(&runtime.processor(0).yield_parker));
    assert!(runtime.end_yield(1), "its tasks are done");
    assert!(!runtime.away.has_yielding());
}

#[test]
fn a_computation_yields_to_an_active_spare_worker_only_if_more_are_active_than_compensate() {
    let runtime = with(1, 0);
    runtime.away.change(|table| table.blocked = 1);
    assert_eq!(runtime.begin_yield(0), None);
    runtime.away.change(|table| table.blocked = 0);
    runtime.idle.announce_sleep(4, false);
    assert_eq!(runtime.begin_yield(0), Some(YieldsTo::Active));
    assert_eq!(runtime.unparked(), [4]);
    assert!(!runtime.end_yield(0));
    assert!(runtime.lifecycle.begin());
    assert_eq!(runtime.begin_yield(0), None, "at the shutdown no worker yields");
}

#[test]
fn the_polls_of_spare_workers_are_counted() {
    let runtime = with(1, 1);
    [(0, 1), (4, 10), (5, 100)].into_iter().for_each(|(index, polls)| {
        runtime.processor(index).metrics.polls.add(polls);
    });
    assert_eq!(runtime.polls_of_spares(), 110);
}

#[test]
fn detached_jobs_do_not_keep_a_spare_worker_that_rests_from_its_rest() {
    let (runtime, job) = (with(1, 0), IdleJob::new());
    let spare = runtime.worker(4);
    runtime.queue_injected(Injected::Spawn(job.tagged(Tag::NONE)));
    assert!(spare.rests(), "the other workers are there for it");
}
