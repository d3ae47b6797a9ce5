//! Giving way to tasks at a split point, G1 to G4 and D1 to D3 of `split.rs`, all real: with the limit of the sleep taken out, no
//! seat sleeps for ever, neither while a task waits nor when all have been run; and no relief thread is lost.
//!
//! A seat that sleeps for ever, or a task that is not run, is a deadlock, which loom reports. The twins do not sleep; they
//! say where they would.
//!
//! Bounds: two seats that give way once, one relief thread, a task for each seat.

mod twin;

use std::sync::Arc;

use loom::thread;
use runtime::internals::scheduler::{Shared, Worker};

use super::stage::{Signal, Stage};

/// A task, and what tells that it has been run.
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

/// Has a task, and comes to a split point.
fn compute(worker: &Worker, stage: &Stage) -> Arc<Signal> {
    let has_run = push(worker, stage);
    worker.see_to_tasks(worker.job_seat().expect("a seat"), u64::MAX);
    has_run
}

/// A relief thread is there, at rest or on its way to it.
fn keep_one_relief_thread(stage: &Stage) {
    // SAFETY: the stage counts as a worker.
    unsafe { Shared::keep_in_reserve(stage.ptr(), 1) };
}

#[test]
fn a_seat_that_gives_way_goes_on() {
    loom::model(|| {
        let stage = Stage::new(1, 1);
        keep_one_relief_thread(&stage);
        stage.act(0, |worker| compute(worker, &stage).wait());
        stage.end();
    });
}

#[test]
fn two_seats_that_give_way_go_on() {
    let mut builder = loom::model::Builder::new();
    // A relief thread, and all that it does.
    builder.preemption_bound = builder.preemption_bound.map(|bound| bound.min(1));
    builder.check(|| {
        let stage = Stage::new(2, 1);
        keep_one_relief_thread(&stage);
        let other = {
            let stage = stage.clone();
            thread::spawn(move || stage.act(1, |worker| compute(worker, &stage).wait()))
        };
        stage.act(0, |worker| compute(worker, &stage).wait());
        other.join().unwrap();
        stage.end();
    });
}

/// The only relief thread is there for a worker that blocks, and may sleep since nothing was to be done.
#[test]
fn a_seat_does_not_give_way_to_one_that_sleeps() {
    loom::model(|| {
        let stage = Stage::new(2, 1);
        stage.act(0, |blocked| {
            let had_table = blocked.begin_blocking();
            // SAFETY: the stage counts as a worker.
            assert!(unsafe { Shared::register_blocked(stage.ptr(), 0) });
            stage.act(1, |worker| compute(worker, &stage).wait());
            blocked.end_blocking(had_table);
        });
        stage.end();
    });
}

/// The limit passes at any moment.
#[test]
fn no_relief_thread_is_lost_when_the_limit_passes() {
    loom::model(|| {
        let stage = Stage::new(2, 1);
        keep_one_relief_thread(&stage);
        stage.act(0, |worker| {
            let has_run = push(worker, &stage);
            worker.collect_tasks();
            if stage.shared().begin_giving_way(0) {
                stage.shared().end_giving_way(0);
            } else {
                stage.shared().notify_strictly();
            }
            worker.drain();
            drop(has_run);
        });
        stage.end();
    });
}
