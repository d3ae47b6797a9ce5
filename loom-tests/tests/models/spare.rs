//! Spare workers, all real: one comes for a worker that is away, runs what waits, and rests when it is not
//! needed any more; and no task is left, whenever it is pushed.
//!
//! A task that is not run, or a thread that does not rest, is a deadlock, which loom reports.
//!
//! The twins do not sleep; they say where they would.
//!
//! Bounds: one worker, which comes back from what it was stuck in or blocks until another task has run; one
//! spare worker; two tasks.

mod twin;

use std::sync::Arc;
use std::time::Duration;

use runtime::Builder;
use runtime::sync::oneshot;

use super::once_built::thread;
use super::stage::{Signal, Stage};

#[test]
fn a_task_runs_while_the_only_worker_is_blocked() {
    let mut builder = loom::model::Builder::new();
    // A whole runtime: two preemptions take hours.
    builder.preemption_bound = Some(1);
    builder.check(|| {
        // A limit below an hour would be over at once, again and again: models have no time.
        let keep_alive = Duration::from_secs(1 << 20);
        let runtime =
            Builder::new_multi_thread().worker_threads(1).thread_keep_alive(keep_alive).build().unwrap();
        let (tx, rx) = oneshot::channel();
        let blocked =
            runtime.spawn(async move { runtime::task::block_in_place(|| rx.blocking_recv().unwrap()) });
        let other = runtime.spawn(async move { tx.send(3).unwrap() });
        drop(other);
        assert_eq!(runtime::internals::block_on(blocked).unwrap(), 3);
        drop(runtime);
        thread::yield_now();
    });
}

#[test]
fn one_comes_for_a_stalled_worker_and_rests_then() {
    let mut builder = loom::model::Builder::new();
    // A spare worker and another worker have many steps: at most one preemption.
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
        stage.shared().set_away(1, 0);
        assert!(stage.shared().admit());
        // The worker is stuck until that was run.
        has_run[0].wait();
        let worker = {
            let stage = stage.clone();
            thread::spawn(move || stage.live(0))
        };
        let outside = {
            let (stage, task) = (stage.clone(), task(1));
            thread::spawn(move || stage.shared().inject(task))
        };
        stage.shared().set_away(0, 0);
        stage.shared().dismiss_surplus();
        has_run[1].wait();
        outside.join().unwrap();
        // As in the monitor's next looks.
        while stage.shared().away.counts().resting == 0 {
            stage.shared().dismiss_surplus();
            thread::yield_now();
        }
        assert_eq!(stage.shared().away.counts().active, 0);
        stage.shared().begin_shutdown();
        worker.join().unwrap();
        stage.end();
    });
}
