//! Relief, all real: a multi-threaded runtime of one worker, which blocks until another task has run.
//!
//! Bounds: one worker, one relief thread at a time, two tasks.

use loom::thread;
use runtime::Builder;
use runtime::sync::oneshot;

#[test]
fn a_task_runs_while_the_only_worker_is_blocked() {
    let mut builder = loom::model::Builder::new();
    // A whole runtime: two preemptions take hours.
    builder.preemption_bound = Some(1);
    builder.check(|| {
        let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
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
