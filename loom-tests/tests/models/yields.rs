//! Yielding to tasks at a split point, `Yield` to `YieldOver` of `split.rs`, all real: with the limit of the
//! sleep taken out, no worker sleeps for ever, neither while a task waits nor when all have been run; and no
//! spare worker is lost.
//!
//! A worker that sleeps for ever, or a task that is not run, is a deadlock, which loom reports. The twins do
//! not sleep; they say where they would.
//!
//! Bounds: two workers that yield once, one spare worker, a task for each of the former.

mod twin;

use std::sync::Arc;

use runtime::internals::scheduler::{Work, Worker};

use super::once_built::{model, thread};
use super::stage::{Signal, Stage};

/// Pushes a task, and returns the signal that is set when the task has been run.
fn push(worker: &Worker, stage: &Stage) -> Arc<Signal> {
    let has_run = Arc::new(Signal::default());
    let task = stage.task({
        let has_run = has_run.clone();
        async move { has_run.set() }
    });
    // Not into the slot, whose thieves look at the clock.
    worker.push_back(task);
    has_run
}

/// The worker has a task, and comes to a split point.
fn compute(worker: &Worker, stage: &Stage) -> Arc<Signal> {
    let has_run = push(worker, stage);
    worker.see_to_tasks(worker.job_processor().expect("a processor"), u64::MAX, false);
    has_run
}

/// A spare worker is there, at rest or on its way to it.
fn keep_one_in_reserve(stage: &Stage) {
    stage.shared().keep_in_reserve(1);
}

#[test]
fn a_worker_that_yields_goes_on() {
    model(|| {
        let stage = Stage::new(1, 1);
        keep_one_in_reserve(&stage);
        stage.act(0, |worker| compute(worker, &stage).wait());
        stage.end();
    });
}

#[test]
fn two_workers_that_yield_go_on() {
    let mut builder = loom::model::Builder::new();
    // A spare worker has many steps: at most one preemption.
    builder.preemption_bound = builder.preemption_bound.map(|bound| bound.min(1));
    builder.check(|| {
        let stage = Stage::new(2, 1);
        keep_one_in_reserve(&stage);
        let other = {
            let stage = stage.clone();
            thread::spawn(move || stage.act(1, |worker| compute(worker, &stage).wait()))
        };
        stage.act(0, |worker| compute(worker, &stage).wait());
        other.join().unwrap();
        stage.end();
    });
}

/// The only spare worker is there for a worker that blocks, and may sleep since nothing was to be done.
#[test]
fn a_worker_does_not_yield_to_one_that_sleeps() {
    model(|| {
        let stage = Stage::new(2, 1);
        stage.act(0, |blocked| {
            let had_table = blocked.begin_blocking();
            assert!(stage.shared().count_blocked(0));
            stage.act(1, |worker| compute(worker, &stage).wait());
            blocked.end_blocking(had_table);
        });
        stage.end();
    });
}

/// The limit passes at any moment.
#[test]
fn no_spare_worker_is_lost_when_the_limit_passes() {
    model(|| {
        let stage = Stage::new(2, 1);
        keep_one_in_reserve(&stage);
        stage.act(0, |worker| {
            let has_run = push(worker, &stage);
            worker.collect_tasks(worker.job_processor().expect("a processor"), false);
            if stage.shared().begin_yield(0).is_some() {
                _ = stage.shared().end_yield(0);
            } else {
                _ = stage.shared().fetch_strictly(Work::Task);
            }
            worker.leave_queues();
            drop(has_run);
        });
        stage.end();
    });
}
