//! Blocking calls, `SayBlocked` to `SayBack` of `away/mod.rs`, all real. A worker in such a call is counted
//! at most once, and uncounted as often. Its table is lent if and only if the worker is counted, and the
//! worker takes the table back before it uses it. At the shutdown, either the worker sees that the shutdown
//! has begun, or another thread finds the worker blocked.
//!
//! The tables' cells find a thread that touches another's table; the stage checks the numbers at the end.
//!
//! Bounds: one worker that blocks twice beside one thread that looks for the blocked, or once beside two; a
//! task in the table after each; no spare workers.

mod twin;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use runtime::internals::scheduler::{Worker, in_place};

use super::once_built::{model, thread};
use super::stage::{Signal, Stage};

/// The monitor, or the thread that ends the runtime: counts worker 0 if it is blocked, and looks in the
/// tables that are lent.
fn look_for_blocked(stage: &Stage) {
    // SAFETY: (1) no table is claimed as the caller's own.
    unsafe {
        if stage.shared().count_blocked(0) {
            stage.shared().owned.cancel_idle(None);
        }
    }
}

/// Polls a task that waits, so that it is in the worker's table.
fn enter_task(stage: &Stage) {
    stage.task(poll_fn(|_| Poll::Pending)).run();
}

/// The owner uses its table, without a lock.
fn use_table(worker: &Worker, stage: &Stage) {
    assert_eq!(worker.table(), Some(0), "the table is not its own");
    enter_task(stage);
}

/// The owner blocks a number of times and uses its table in between.
fn blocks_while(others: usize, times: usize) {
    model(move || {
        let stage = Stage::new(1, 0);
        let others: Vec<_> = (0..others)
            .map(|_| {
                let stage = stage.clone();
                thread::spawn(move || look_for_blocked(&stage))
            })
            .collect();
        stage.act(0, |worker| {
            for _ in 0..times {
                let had_table = worker.begin_blocking();
                worker.end_blocking(had_table);
                assert!(!worker.is_blocked());
                use_table(worker, &stage);
            }
        });
        others.into_iter().for_each(|other| other.join().unwrap());
        stage.end();
    });
}

#[test]
fn one_looks_for_the_blocked() {
    blocks_while(1, 2);
}

#[test]
fn two_look_for_the_blocked() {
    blocks_while(2, 1);
}

/// The call lasts until the shutdown has begun: then the worker is counted, by itself or by the thread that
/// began the shutdown.
#[test]
fn a_worker_that_blocks_while_the_shutdown_begins_is_counted() {
    model(|| {
        let (stage, has_begun) = (Stage::new(1, 0), Arc::new(Signal::default()));
        let blocked = {
            let (stage, has_begun) = (stage.clone(), has_begun.clone());
            thread::spawn(move || {
                stage.act(0, |worker| {
                    enter_task(&stage);
                    in_place::block_in_place(worker, std::panic::Location::caller(), || {
                        has_begun.wait();
                        let blocked_state = &worker.processor().blocked_state;
                        assert!(!blocked_state.is_uncounted(), "the blocked worker is never counted");
                        assert_eq!(stage.shared().away.blocked(), 1, "it is not counted");
                        assert_eq!(stage.shared().away.lent(), 1, "its table is not lent");
                    });
                    use_table(worker, &stage);
                });
            })
        };
        stage.shared().begin_shutdown();
        has_begun.set();
        blocked.join().unwrap();
        stage.end();
    });
}
