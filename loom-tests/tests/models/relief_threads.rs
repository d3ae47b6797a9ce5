//! Relief for a stuck worker, all real: a thread starts for it, runs what waits, and rests when it is not needed any more; and no
//! task is left, whenever it is pushed.
//!
//! A task that is not run, or a thread that does not rest, is a deadlock, which loom reports. (Without R2, a task is left to one
//! that retires: see `idle_jobs.rs`.)
//!
//! The twins do not sleep; they say where they would.
//!
//! Bounds: one seat, which comes back from what it was stuck in, one relief thread, two tasks, one of them from outside.

mod twin;

use std::sync::Arc;

use loom::thread;
use runtime::internals::scheduler::Shared;

use super::stage::{Signal, Stage};

#[test]
fn relief_starts_for_a_stuck_worker_and_retires() {
    let mut builder = loom::model::Builder::new();
    // A relief thread and a worker, and all that they do.
    builder.preemption_bound = builder.preemption_bound.map(|bound| bound.min(1));
    builder.check(|| {
        let stage = Stage::new(1, 1);
        let has_run = [(); 2].map(|()| Arc::new(Signal::default()));
        let task = |i: usize| {
            let has_run = has_run[i].clone();
            stage.task(async move { has_run.set() })
        };
        // What the monitor found in the stuck worker's queues.
        stage.push_quietly(task(0));
        // SAFETY: the stage counts as a worker.
        assert_eq!(unsafe { Shared::relieve_stuck(stage.ptr(), 1, 1) }, 1);
        // The seat is stuck until that was run.
        has_run[0].wait();
        let seat = {
            let stage = stage.clone();
            thread::spawn(move || stage.live(0))
        };
        let outside = {
            let (stage, task) = (stage.clone(), task(1));
            thread::spawn(move || stage.shared().inject(task))
        };
        // SAFETY: as above.
        unsafe { Shared::relieve_stuck(stage.ptr(), 0, 0) };
        stage.shared().dismiss_relief();
        has_run[1].wait();
        outside.join().unwrap();
        // As in the monitor's next looks.
        while stage.shared().relief.counts().resting == 0 {
            stage.shared().dismiss_relief();
            thread::yield_now();
        }
        assert_eq!(stage.shared().relief.counts().active, 0);
        stage.shared().begin_shutdown();
        seat.join().unwrap();
        stage.end();
    });
}
