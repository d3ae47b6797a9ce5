use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use super::*;
use crate::config::Config;
use crate::config::hooks::{Hook, Hooks};
use crate::driver::Driver;
use crate::job::Tag;
use crate::scheduler::idle::Work;
use crate::scheduler::shared::tests::{IdleJob, NoThreads, OwnWorker, was_unparked};

/// Worker `index`, on this thread.
fn worker(runtime: &NoThreads, index: usize) -> OwnWorker<'_> {
    let worker = runtime.worker(index);
    worker.processor().parker.adopt_current_thread();
    worker.processor().metrics.thread_begins();
    worker
}

/// Has the next sleep of the worker end at once.
fn unpark(worker: &Worker) {
    worker.processor().parker.unpark(&worker.shared().driver);
}

#[test]
fn a_worker_looks_again_as_often_as_it_was_told() {
    let runtime = NoThreads::new(1);
    let worker = worker(&runtime, 0);
    assert!(!worker.looks_again());
    worker.rounds_left.set(3);
    assert_eq!([(); 4].map(|()| worker.looks_again()), [true, true, true, false]);
}

#[test]
fn a_worker_does_not_sleep_beside_work_and_searches_then() {
    let runtime = NoThreads::new(2);
    let worker = worker(&runtime, 0);
    runtime.spawn();
    assert!(!worker.sleeps_if_idle());
    assert_eq!((runtime.idle.counts(), worker.is_searching.get()), ((1, 0), true));
    // A searcher stays one.
    assert!(!worker.sleeps_if_idle());
    assert_eq!((runtime.idle.counts(), worker.is_searching.get()), ((1, 0), true));
}

#[test]
fn a_worker_that_is_sleepy_looks_for_jobs_once_more() {
    let runtime = NoThreads::new(2);
    let worker = worker(&runtime, 0);
    runtime.idle.post_job();
    assert!(!worker.sleeps_if_idle());
    assert!(!runtime.idle.is_job_posted());
    assert_eq!(runtime.idle.counts(), (0, 0));
    unpark(&worker);
    assert!(worker.sleeps_if_idle());
}

#[test]
fn a_worker_that_wakes_by_itself_is_no_searcher() {
    let runtime = NoThreads::new(2);
    let worker = worker(&runtime, 0);
    assert!(runtime.idle.start_searching());
    worker.is_searching.set(true);
    unpark(&worker);
    assert!(worker.sleeps_if_idle());
    assert_eq!(runtime.idle.counts(), (0, 0));
    assert!(!worker.is_searching.get() && !worker.is_notified.get());
}

#[test]
fn a_worker_that_was_notified_searches_and_counts_if_it_found_nothing() {
    let runtime = NoThreads::new(2);
    let handle = runtime.handle();
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let worker = worker(&runtime, 0);
            assert!(worker.sleeps_if_idle());
            assert!(worker.is_searching.get() && worker.is_notified.get());
            assert!(worker.begins_park());
            assert_eq!((worker.processor().metrics.noops.get(), worker.is_notified.get()), (1, false));
            assert!(worker.begins_park());
            assert_eq!(worker.processor().metrics.noops.get(), 1);
        });
        while !runtime.processor(0).parker.is_asleep() {
            std::thread::yield_now();
        }
        assert!(handle.shared().fetch(Work::Task));
        sleeper.join().unwrap();
    });
    assert_eq!(runtime.idle.counts(), (1, 0));
}

#[test]
fn a_worker_looks_at_what_its_role_may_take() {
    let (runtime, job) = (NoThreads::with_spares(2, 1), IdleJob::new());
    let spare_index = runtime.add_spare();
    let (worker, spare) = (worker(&runtime, 0), worker(&runtime, spare_index));
    assert!(!worker.has_work(Role::Full, false) && !spare.has_work(Role::Serves, false));
    runtime.spawn();
    assert!(worker.has_work(Role::Full, false) && spare.has_work(Role::Serves, false));
    assert!(worker.has_work(Role::Full, true), "nobody samples now");
    assert!(runtime.samplers.begin(1));
    assert!(!worker.has_work(Role::Full, true), "another one takes it");
    assert!(worker.own_queues().push_next(runtime.injector.pop_task().unwrap()).is_none());
    let task = worker.own_queues().pop_next().unwrap();
    worker.own_queues().push_back(task, &runtime.injector);
    assert!(worker.has_work(Role::Full, false) && !spare.has_work(Role::Serves, false));
    worker.own_queues().pop_front().unwrap().cancel();
    runtime.job_processor(1).detached.push_back(job.tagged(Tag::NONE));
    assert!(worker.has_work(Role::Full, true) && spare.has_work(Role::Begins, true));
    assert!(!spare.has_work(Role::Serves, true));
}

#[test]
fn a_spare_worker_stays_awake_while_a_worker_yields() {
    let runtime = NoThreads::with_spares(2, 1);
    let spare_index = runtime.add_spare();
    let (worker, spare) = (worker(&runtime, 0), worker(&runtime, spare_index));
    assert!(runtime.begin_yield(1).is_some());
    assert!(spare.has_work(Role::Serves, false) && !worker.has_work(Role::Full, false));
    assert!(!worker.ends_yields() && runtime.away.has_yielding(), "a permanent worker ends no yields");
    assert!(!spare.ends_yields() && !runtime.away.has_yielding());
    assert!(was_unparked(&runtime.processor(1).yield_parker));
    assert!(runtime.begin_yield(1).is_some());
    let task = runtime.task();
    spare.own_queues().push_back(task, &runtime.injector);
    assert!(spare.ends_yields() && runtime.away.has_yielding(), "it has a task left");
    assert!(!runtime.end_yield(1));
    assert!(!spare.ends_yields(), "none yields");
}

#[test]
fn a_worker_winds_down_unless_it_has_seen_all_tables_that_were_lent() {
    let runtime = NoThreads::new(2);
    let worker = worker(&runtime, 0);
    assert!(runtime.lifecycle.begin());
    assert!(worker.has_work(Role::Full, false));
    worker.seen_lent.set(Some(0));
    assert!(!worker.has_work(Role::Full, false));
    runtime.processor(1).blocked_state.say_blocked();
    assert!(runtime.count_blocked(1));
    assert!(worker.has_work(Role::Full, false));
}

#[test]
fn only_spare_workers_and_those_of_pools_wake_by_themselves() {
    let runtime = NoThreads::new(1);
    assert_eq!(runtime.worker(0).longest_sleep(), None);
    for (keep_alive, longest) in [
        (Duration::ZERO, LOOK_AGAIN),
        (Duration::from_secs(10), Duration::from_secs(10)),
        (Duration::MAX, LONGEST_SLEEP),
    ] {
        let config =
            Config { is_pool: false, spare_workers: 1, thread_keep_alive: keep_alive, ..Config::of_pool(1) };
        let runtime = NoThreads::of(config, Driver::new(None, None));
        let spare = runtime.add_spare();
        assert_eq!(runtime.worker(spare).longest_sleep(), Some(longest));
    }
}

#[test]
fn a_pools_worker_that_is_not_woken_sleeps_twice_as_long_each_time() {
    let pool = NoThreads::of(Config::of_pool(1), Driver::new(None, None));
    let worker = pool.worker(0);
    let next = |slept| {
        worker.slept.set(slept);
        worker.longest_sleep().unwrap()
    };
    let first = next(Duration::ZERO);
    assert_eq!(first, LOOK_AGAIN);
    assert_eq!(next(first), 2 * first);
    assert_eq!(next(3 * first), 4 * first);
    assert_eq!(next(4 * first - Duration::from_nanos(1)), first, "it was woken");
    let last = (0..40).fold(first, |last, _| next(last));
    assert_eq!(last, LONGEST_SLEEP);
}

#[test]
fn a_park_hook_that_makes_work_keeps_the_worker_awake() {
    let runtime = NoThreads::new(1);
    let worker = worker(&runtime, 0);
    assert!(worker.run_park_hook());
    let task = runtime.task();
    worker.own_queues().push_back(task, &runtime.injector);
    assert!(!worker.run_park_hook() && !worker.begins_park());
}

#[test]
fn a_sleep_is_counted_and_the_table_is_lent_meanwhile() {
    let runtime = NoThreads::new(1);
    let worker = worker(&runtime, 0);
    let metrics = &worker.processor().metrics;
    let before = (metrics.parks.get(), metrics.sleep_changes.get());
    let mut seen = None;
    worker.sleeping(|_| seen = Some((worker.table(), metrics.sleep_changes.get())));
    assert_eq!(seen, Some((None, before.1 + 1)));
    assert_eq!((metrics.parks.get(), metrics.sleep_changes.get()), (before.0 + 1, before.1 + 2));
    assert_eq!(worker.table(), Some(0));
    let had_table = worker.begin_blocking();
    worker.sleeping(|_| ());
    assert_eq!(worker.table(), None, "it still blocks");
    worker.end_blocking(had_table);
}

#[test]
fn a_sleep_on_the_token_lasts_no_longer_than_its_limit() {
    let runtime = NoThreads::new(1);
    let worker = worker(&runtime, 0);
    let limit = Duration::from_millis(1);
    // A park may end early. Mostly it does not.
    assert!((0..100).any(|_| {
        worker.sleep_on_token(limit);
        worker.slept.get() >= limit
    }));
}

#[test]
fn a_worker_that_may_not_run_everything_goes_to_sleep_as_no_searcher() {
    let runtime = NoThreads::with_spares(2, 1);
    let index = runtime.add_spare();
    runtime.away.set_up(|table| table.serving = 1);
    let (busy, spare) = (worker(&runtime, 1), worker(&runtime, index));
    busy.own_queues().push_back(runtime.task(), &runtime.injector);
    runtime.idle.announce_sleep(0, false);
    assert!(runtime.idle.start_searching());
    spare.is_searching.set(true);
    unpark(&spare);
    assert!(spare.sleeps_if_idle());
    assert_eq!((runtime.unparked(), runtime.idle.counts()), (vec![0], (1, 0)));
    assert!(!spare.is_searching.get());
}

#[test]
fn a_spare_worker_that_serves_sorts_what_came_while_it_slept() {
    let runtime = NoThreads::with_spares(2, 1);
    let index = runtime.add_spare();
    runtime.away.set_up(|table| table.serving = 1);
    let (spare, task) = (worker(&runtime, index), runtime.task());
    (0..2).for_each(|_| runtime.monitor.slow_tasks.insert(task.id(), task.spawned_at()));
    spare.own_queues().push_back(task, &runtime.injector);
    spare.end_park(false);
    assert!(runtime.slow.is_empty(), "it has not slept");
    spare.end_park(true);
    assert_eq!((runtime.slow.len(), spare.has_own_tasks()), (1, false));
}

#[test]
fn each_park_hook_is_followed_by_an_unpark_hook_and_no_searcher_runs_them() {
    let calls = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let hook = |counter: &Arc<AtomicUsize>| -> Option<Hook> {
        let counter = counter.clone();
        Some(Arc::new(move || _ = counter.fetch_add(1, Relaxed)))
    };
    let hooks = Hooks { thread_park: hook(&calls[0]), thread_unpark: hook(&calls[1]), ..Hooks::default() };
    let config = Config { is_pool: false, hooks, ..Config::of_pool(2) };
    let runtime = NoThreads::of(config, Driver::new(None, None));
    let worker = worker(&runtime, 0);
    let count = || [&calls[0], &calls[1]].map(|count| count.load(Relaxed));
    let searches = || {
        assert!(runtime.idle.start_searching());
        worker.is_searching.set(true);
    };
    searches();
    assert!(worker.begins_park());
    assert_eq!((count(), runtime.idle.counts()), ([1, 0], (0, 0)));
    searches();
    worker.end_park(true);
    assert_eq!((count(), runtime.idle.counts()), ([1, 1], (0, 0)));
    let task = runtime.task();
    worker.own_queues().push_back(task, &runtime.injector);
    assert!(!worker.begins_park());
    assert_eq!(count(), [2, 2], "the hook has made work");
}

#[test]
fn a_worker_is_busy_between_its_sleeps() {
    let runtime = NoThreads::new(1);
    let worker = worker(&runtime, 0);
    let busy = &worker.processor().metrics.busy;
    let passes = |from: Duration| {
        (0..100).any(|_| {
            std::thread::sleep(Duration::from_micros(10));
            busy.get() > from
        })
    };
    worker.begin_busy(Instant::now());
    assert!(passes(busy.get()));
    worker.end_busy();
    assert!(!passes(busy.get()));
    worker.begin_busy(Instant::now());
    assert!(passes(busy.get()));
    worker.end_counters();
    assert!(!passes(busy.get()));
}
