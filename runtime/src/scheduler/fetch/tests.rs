use super::*;
use crate::scheduler::shared::tests::NoThreads;

/// Two workers, and the spare worker 4, which rests.
fn with_a_resting_spare() -> NoThreads {
    let runtime = NoThreads::with_spares(2, 1);
    assert_eq!(runtime.add_spare(), 4);
    runtime.away.set_up(|table| table.begin_rest(4));
    runtime
}

fn waits(runtime: &NoThreads, index: usize) {
    assert!(runtime.idle.announce_wait(index, runtime.idle.get_sleepy()));
}

#[test]
fn a_sleeper_comes_for_work_unless_a_worker_searches() {
    let runtime = with_a_resting_spare();
    assert!(!runtime.fetch(Work::Task), "none sleeps, none is away");
    runtime.idle.announce_sleep(1, false);
    assert!(runtime.fetch(Work::Task));
    assert_eq!(runtime.unparked(), [1]);
    runtime.idle.announce_sleep(0, false);
    assert!(!runtime.fetch(Work::Job), "worker 1 searches");
    assert_eq!(runtime.unparked(), []);
}

#[test]
fn a_spare_worker_comes_for_work_if_a_worker_is_away_and_none_is_idle() {
    let runtime = with_a_resting_spare();
    runtime.away.set_up(|table| table.blocked = 1);
    runtime.idle.announce_sleep(1, false);
    assert!(runtime.fetch_strictly(Work::Task));
    assert_eq!(runtime.unparked(), [1], "a sleeper is there");
    assert!(!runtime.fetch(Work::Task), "a searcher is there");
    assert!(runtime.idle.stop_searching());
    assert!(runtime.fetch_strictly(Work::Task));
    assert_eq!(runtime.unparked(), [4]);
    assert!(!runtime.fetch(Work::Task), "no other one is needed");
}

#[test]
fn a_waiter_comes_for_a_job_and_a_spare_worker_for_its_tasks() {
    let runtime = with_a_resting_spare();
    waits(&runtime, 0);
    assert!(runtime.fetch(Work::Job));
    assert_eq!(runtime.unparked(), [0]);
    waits(&runtime, 0);
    assert!(runtime.fetch(Work::Task));
    assert_eq!(runtime.unparked(), [4]);
}

#[test]
fn a_thread_that_does_not_rely_on_searchers_asks_sleepers_then_waiters_and_spare_workers() {
    let runtime = with_a_resting_spare();
    assert!(runtime.idle.start_searching());
    runtime.idle.announce_sleep(1, false);
    waits(&runtime, 0);
    runtime.fetch_anyway();
    assert_eq!(runtime.unparked(), [1]);
    runtime.fetch_anyway();
    assert_eq!(runtime.unparked(), [0], "there are searchers for tasks");
    waits(&runtime, 0);
    [(); 2].into_iter().for_each(|()| _ = runtime.idle.stop_searching());
    runtime.away.set_up(|table| table.blocked = 1);
    runtime.fetch_anyway();
    assert_eq!(runtime.unparked(), [0, 4]);
}

#[test]
fn a_restricted_worker_leaves_work_to_lower_workers_or_waiters_and_spare_workers() {
    let runtime = with_a_resting_spare();
    [0, 1].into_iter().for_each(|index| runtime.idle.announce_sleep(index, false));
    runtime.leave_to_lower(1);
    assert_eq!(runtime.unparked(), [0]);
    waits(&runtime, 0);
    runtime.leave_to_lower(1);
    assert_eq!(runtime.unparked(), [0], "none is away");
    waits(&runtime, 0);
    runtime.away.set_up(|table| table.blocked = 1);
    runtime.leave_to_lower(1);
    assert_eq!(runtime.unparked(), [0, 4]);
}

#[test]
fn an_errand_is_passed_on_to_a_higher_waiter_and_then_to_a_spare_worker() {
    let runtime = with_a_resting_spare();
    [0, 1].into_iter().for_each(|index| waits(&runtime, index));
    runtime.pass_errand_on(0);
    assert_eq!(runtime.unparked(), [1]);
    runtime.pass_errand_on(1);
    assert_eq!(runtime.unparked(), [4]);
}

#[test]
fn a_task_that_is_injected_wakes_a_sleeper() {
    let runtime = with_a_resting_spare();
    let task = runtime.task();
    runtime.idle.announce_sleep(0, false);
    runtime.inject(task);
    assert_eq!((runtime.unparked(), runtime.injector.len()), (vec![0], 1));
}
