use super::*;
use crate::config::Config;
use crate::driver::Driver;
use crate::driver::io::IoDriver;
use crate::job::Tag;
use crate::loom::sync::atomic::Ordering::Relaxed;
use crate::scheduler::enter;
use crate::scheduler::shared::tests::{IdleJob, NoThreads};

impl Worker {
    /// Makes [`has_long_polls`](Self::has_long_polls) return true, for the tests of other modules.
    pub fn set_long_polls(&self) {
        self.stride.set(1);
    }
}

#[test]
fn a_worker_takes_no_tasks_while_it_computes_or_blocks() {
    let runtime = NoThreads::new(2);
    let worker = runtime.worker(1);
    let present = || (worker.is_here(), worker.takes_tasks(), worker.is_blocked());
    assert_eq!(present(), (true, true, false));
    worker.computing(|| {
        assert_eq!(present(), (false, false, false));
        worker.computing(|| assert_eq!(present(), (false, false, false)));
        let had_table = worker.begin_blocking();
        assert!(had_table && worker.table().is_none());
        assert_eq!(present(), (false, false, true));
        assert!(!worker.end_blocking(had_table));
        assert_eq!((present(), worker.table()), ((false, false, false), Some(1)));
    });
    assert_eq!(present(), (true, true, false));
}

#[test]
fn a_worker_that_was_counted_as_blocked_takes_its_table_back() {
    let runtime = NoThreads::new(2);
    let worker = runtime.worker(0);
    for _ in 0..2 {
        let had_table = worker.begin_blocking();
        assert!(had_table && runtime.count_blocked(0));
        assert_eq!(runtime.away.blocked(), 1);
        assert!(worker.end_blocking(had_table));
        assert_eq!((runtime.away.blocked(), worker.table()), (0, Some(0)));
    }
}

#[test]
fn a_worker_is_away_while_it_is_marked_and_here_when_another_thread_has_unmarked_it() {
    let runtime = NoThreads::new(2);
    let worker = runtime.worker(0);
    assert!(!worker.is_marked());
    runtime.processor(0).marks.store(1, Relaxed);
    worker.begin_marked();
    worker.begin_marked();
    assert!(worker.is_marked() && worker.table().is_none() && !worker.is_blocked());
    assert!(!worker.takes_tasks());
    runtime.processor(0).marks.store(0, Relaxed);
    worker.computing(|| assert!(!worker.takes_tasks(), "it computes as well"));
    assert!(!worker.is_marked() && !worker.is_here());
    assert!(worker.takes_tasks() && worker.is_here());
    assert_eq!(worker.table(), Some(0));
}

#[test]
fn the_table_of_a_marked_worker_stays_lent_after_a_call_that_blocks() {
    let runtime = NoThreads::new(2);
    let worker = runtime.worker(0);
    runtime.processor(0).marks.store(1, Relaxed);
    worker.begin_marked();
    let had_table = worker.begin_blocking();
    assert!(!had_table && !worker.end_blocking(had_table));
    assert!(worker.is_marked() && worker.table().is_none());
    // It was unmarked in the meantime.
    let had_table = worker.begin_blocking();
    runtime.processor(0).marks.store(0, Relaxed);
    worker.end_blocking(had_table);
    assert_eq!(worker.table(), Some(0));
}

#[test]
fn only_permanent_workers_of_runtimes_have_tables() {
    let pool = NoThreads::of(Config::of_pool(1), Driver::new(None, None));
    let runtime = NoThreads::with_spares(1, 1);
    let spare = runtime.add_spare();
    for worker in [pool.worker(0), runtime.worker(spare)] {
        assert!(!worker.begin_blocking());
        worker.end_blocking(false);
        worker.take_table_back();
        worker.lend_table();
        assert!(worker.table().is_none());
    }
}

#[test]
fn a_worker_that_returns_from_a_call_tells_the_monitor() {
    let runtime = NoThreads::new(1);
    let worker = runtime.worker(0);
    let had_table = worker.begin_blocking();
    assert!(runtime.processor(0).blocked_state.is_uncounted());
    worker.end_blocking(had_table);
    assert!(!runtime.processor(0).blocked_state.is_blocked());
}

#[test]
fn a_worker_holds_work_in_each_of_its_queues_and_the_injector() {
    let (runtime, job) = (NoThreads::new(2), IdleJob::new());
    let worker = runtime.worker(0);
    let holds = || (worker.holds_work(), worker.has_own_tasks());
    assert_eq!(holds(), (false, false));
    let task = runtime.task();
    assert!(worker.own_queues().push_next(task).is_none());
    assert_eq!(holds(), (true, true));
    let task = worker.own_queues().pop_next().unwrap();
    worker.own_queues().push_back(task, &runtime.injector);
    assert_eq!(holds(), (true, true));
    worker.own_queues().pop_front().unwrap().cancel();
    runtime.job_processor(0).detached.push_back(job.tagged(Tag::NONE));
    assert_eq!(holds(), (true, false));
    runtime.job_processor(0).detached.pop_front();
    assert_eq!(holds(), (false, false));
    runtime.spawn();
    assert_eq!(holds(), (true, false));
}

#[test]
fn a_worker_that_exposes_its_tasks_has_another_come_for_them() {
    let runtime = NoThreads::new(2);
    let worker = runtime.worker(0);
    let tasks = [(); 2].map(|()| runtime.task());
    runtime.idle.announce_sleep(1, false);
    tasks.into_iter().for_each(|task| _ = worker.own_queues().push_back(task, &runtime.injector));
    worker.expose();
    assert!(!worker.has_own_tasks());
    assert_eq!((runtime.injector.len(), runtime.unparked()), (2, vec![1]));
}

/// What a worker with a task in its ring (`has_task`) does before it begins a job: does it wake a sleeper?
fn exposes(runtime: &NoThreads, has_task: bool) -> bool {
    let (worker, task) = (runtime.worker(0), has_task.then(|| runtime.task()));
    runtime.idle.announce_sleep(1, false);
    task.into_iter().for_each(|task| _ = worker.own_queues().push_back(task, &runtime.injector));
    worker.begin_job();
    assert_eq!(worker.rounds_left.get(), wait::ROUNDS);
    if runtime.idle.end_sleep(1) {
        return false;
    }
    assert!(runtime.idle.stop_searching());
    runtime.unparked() == [1]
}

#[test]
fn a_worker_that_begins_a_job_leaves_its_tasks_and_the_driver_to_others() {
    let runtime = NoThreads::new(2);
    assert!(!exposes(&runtime, false), "nothing waits");
    assert!(exposes(&runtime, true));
    assert!(exposes(&runtime, false), "its task is in the injector now");

    let config = Config { is_pool: false, ..Config::of_pool(2) };
    let io = IoDriver::new(16, None).unwrap();
    let runtime = NoThreads::of(config, Driver::new(Some(io), None));
    assert!(exposes(&runtime, false), "none is the poller");
    let _poller = runtime.driver.try_become_poller(1).unwrap();
    assert!(!exposes(&runtime, false));
}

#[test]
fn a_searcher_that_begins_a_job_searches_no_more() {
    let runtime = NoThreads::new(2);
    let worker = runtime.worker(0);
    assert!(runtime.idle.start_searching());
    worker.is_searching.set(true);
    worker.begin_job();
    assert_eq!((runtime.idle.counts(), worker.is_searching.get()), ((0, 0), false));
}

#[test]
fn a_worker_that_comes_back_after_the_end_has_begun_queues_the_tasks_that_wait() {
    let runtime = NoThreads::new(1);
    let worker = runtime.worker(0);
    enter::enter_worker(&worker, || drop(runtime.handle().spawn(std::future::pending::<()>())));
    // Polled once, it waits for a wake.
    worker.own_queues().pop().unwrap().run();
    worker.queue_if_ending();
    assert!(runtime.injector.is_empty(), "the shutdown has not begun");
    assert!(runtime.lifecycle.begin());
    worker.table.set(None);
    worker.queue_if_ending();
    assert!(runtime.injector.is_empty(), "its table is lent");
    worker.table.set(Some(0));
    worker.queue_if_ending();
    assert_eq!(runtime.injector.len(), 1);
    enter::enter_worker(&worker, || runtime.injector.pop_task().unwrap().cancel());
}

#[test]
fn a_mark_within_a_call_that_blocks_does_not_outlast_the_call() {
    let runtime = NoThreads::new(2);
    let worker = runtime.worker(0);
    let had_table = worker.begin_blocking();
    runtime.processor(0).marks.store(1, Relaxed);
    assert!(runtime.count_blocked(0) && worker.end_blocking(had_table));
    assert!(worker.is_here() && !worker.is_marked());
    assert_eq!(worker.table(), Some(0));
}

#[test]
fn no_other_thread_sees_to_the_table_of_a_worker_that_is_back() {
    let runtime = NoThreads::new(2);
    let worker = runtime.worker(0);
    for is_back in [false, true] {
        enter::enter_worker(&worker, || {
            drop(runtime.handle().spawn(std::future::pending::<()>()));
            // Polled once, it waits for a wake.
            worker.own_queues().pop().unwrap().run();
        });
        let had_table = worker.begin_blocking();
        assert!(runtime.count_blocked(0));
        if is_back {
            worker.end_blocking(had_table);
        }
        runtime.queue_lent();
        assert_eq!(runtime.injector.len(), usize::from(!is_back));
        if !is_back {
            worker.end_blocking(had_table);
            enter::enter_worker(&worker, || runtime.injector.pop_task().unwrap().cancel());
        }
    }
}
