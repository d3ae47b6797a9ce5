use super::*;
use crate::config::Config;
use crate::driver::Driver;
use crate::job::Tag;
use crate::loom::sync::atomic::Ordering::Relaxed;
use crate::scheduler::enter;
use crate::scheduler::injected::Injected;
use crate::scheduler::shared::tests::{IdleJob, NoThreads, was_unparked};

#[test]
fn the_shutdown_begins_once_and_unparks_all() {
    let runtime = NoThreads::new(2);
    runtime.processor(1).blocked_state.say_blocked();
    runtime.job_processor(0).budget_left().store(100, Relaxed);
    runtime.begin_shutdown();
    assert!(runtime.lifecycle.has_begun() && runtime.injected_jobs.is_any_live());
    assert_eq!((runtime.unparked(), runtime.away.blocked()), (vec![0, 1], 1));
    assert_eq!(
        runtime.job_processor(0).budget_left().load(Relaxed),
        0,
        "computations look at the next split"
    );
    assert!(was_unparked(&runtime.monitor.parker));
    runtime.begin_shutdown();
    assert_eq!(runtime.unparked(), []);
}

#[test]
fn tasks_of_a_lent_table_are_queued_at_the_shutdown_if_no_worker_is_there() {
    for blocks in [true, false] {
        let runtime = NoThreads::new(1);
        let worker = runtime.worker(0);
        enter::enter_worker(&worker, || drop(runtime.handle().spawn(std::future::pending::<()>())));
        // Polled once, it waits for a wake.
        enter::enter_worker(&worker, || worker.own_queues().pop().unwrap().run());
        if blocks {
            worker.begin_blocking();
        } else {
            worker.lend_table();
        }
        runtime.begin_shutdown();
        assert_eq!(runtime.injector.len(), usize::from(blocks), "another worker does it itself");
        runtime.queue_lent();
        assert_eq!(runtime.injector.len(), 1);
        assert_eq!(runtime.away.blocked(), usize::from(blocks));
    }
}

#[test]
fn tasks_to_cancel_are_queued_and_a_worker_comes_for_them() {
    let runtime = NoThreads::new(2);
    let mut tasks = IntrusiveList::new();
    runtime.idle.announce_sleep(1, false);
    runtime.queue_to_cancel(IntrusiveList::new());
    assert_eq!(runtime.unparked(), [], "there are none");
    assert!(runtime.idle.end_sleep(1));
    tasks.push_task(runtime.task());
    runtime.idle.announce_sleep(1, false);
    runtime.queue_to_cancel(tasks);
    assert_eq!((runtime.unparked(), runtime.injector.len()), (vec![1], 1));
}

#[test]
fn a_thread_that_counts_as_a_job_keeps_the_workers_and_wakes_them_at_its_end() {
    let runtime = NoThreads::new(1);
    assert_eq!(runtime.as_job(|| runtime.injected_jobs.is_any_live()), Some(true));
    assert_eq!(runtime.unparked(), []);
    assert!(!runtime.injected_jobs.is_any_live());
    runtime.injected_jobs.begin_closing();
    assert_eq!(runtime.as_job(|| runtime.injected_jobs.try_close(|| true)), Some(false));
    assert_eq!(runtime.unparked(), [0]);
    assert!(!was_unparked(&runtime.monitor.parker), "it may be the monitor");
    assert!(runtime.injected_jobs.try_close(|| true));
    assert_eq!(runtime.as_job(|| unreachable!("the workers leave")), None::<()>);
    assert_eq!(runtime.unparked(), []);
}

#[test]
fn a_thread_cancels_all_queued_tasks_apart() {
    let runtime = NoThreads::new(1);
    (0..3).for_each(|_| runtime.spawn());
    let task = runtime.task();
    runtime.slow.push_task(task);
    assert!(matches!(runtime.cancel_apart(), Ok(true)));
    while runtime.injected_jobs.is_any_live() {
        crate::loom::thread::yield_now();
    }
    assert!(runtime.injector.is_empty() && runtime.slow.is_empty());
    runtime.injected_jobs.begin_closing();
    assert!(runtime.injected_jobs.try_close(|| true));
    runtime.spawn();
    assert!(matches!(runtime.cancel_apart(), Ok(false)));
    assert_eq!(runtime.injector.len(), 1);
}

#[test]
fn the_workers_leave_only_when_no_task_and_no_job_is_visible() {
    let (runtime, job) = (NoThreads::new(2), IdleJob::new());
    assert!(!runtime.may_close(), "the shutdown has not begun");
    runtime.injected_jobs.begin_closing();
    runtime.job_processor(1).detached.push_back(job.tagged(Tag::NONE));
    assert!(!runtime.may_close());
    runtime.job_processor(1).detached.pop_front();
    runtime.spawn();
    assert!(!runtime.may_close());
    runtime.injector.pop_task().unwrap().cancel();
    assert!(runtime.may_close());
}

#[test]
fn the_workers_wind_down_together() {
    let runtime = NoThreads::new(1);
    runtime.away.permanent_comes();
    let worker = runtime.worker(0);
    worker.processor().parker.adopt_current_thread();
    worker.processor().metrics.thread_begins();
    enter::enter_worker(&worker, || {
        let handle = runtime.handle();
        let tasks = [(); 2].map(|()| handle.spawn(std::future::pending::<()>()));
        // One waits for a wake, the other one is queued.
        worker.own_queues().pop().unwrap().run();
        runtime.begin_shutdown();
        worker.wind_down();
        assert!(tasks.iter().all(crate::task::JoinHandle::is_finished));
    });
    assert!(runtime.away.is_closed() && runtime.injected_jobs.is_closed());
    assert!(was_unparked(&runtime.monitor.parker));
}

#[test]
fn what_is_queued_in_a_closed_pool_is_not_run() {
    let (pool, job) = (NoThreads::of(Config::of_pool(1), Driver::new(None, None)), IdleJob::new());
    pool.begin_shutdown();
    assert!(pool.injected_jobs.try_close(|| true));
    assert!(pool.push_injected(Injected::Spawn(job.tagged(Tag::NONE))).is_err());
}

#[test]
fn closures_without_a_thread_are_dropped_at_the_shutdown() {
    let runtime = NoThreads::new(1);
    let closure = runtime.handle().spawn(async {});
    let task = runtime.injector.pop_task().unwrap().into_raw();
    // SAFETY: (1) a task lives while its `SCHEDULED` is ours, (2) and it was popped.
    drop(unsafe { runtime.blocking.queue.submit(task) });
    runtime.drop_closures(IntrusiveList::new());
    assert!(!closure.is_finished());
    runtime.begin_shutdown();
    assert!(closure.is_finished());
}

#[test]
fn the_last_worker_to_leave_cancels_all_tasks_that_are_left() {
    let runtime = NoThreads::new(1);
    let worker = runtime.worker(0);
    let handle = runtime.handle();
    let waits = enter::enter_worker(&worker, || {
        let task = handle.spawn(std::future::pending::<()>());
        worker.own_queues().pop().unwrap().run();
        task
    });
    let queued = handle.spawn(async {});
    drop(worker);
    assert!(!waits.is_finished() && !queued.is_finished());
    drop(runtime);
    assert!(waits.is_finished() && queued.is_finished());
    // No worker is left to run it.
    assert!(handle.spawn(async {}).is_finished());
}
