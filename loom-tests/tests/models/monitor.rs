//! The monitor's rest, `RestShow` to `RestSleep` of `monitor/mod.rs`, all real: it never rests while a worker
//! is awake.
//!
//! In each model a worker is woken, and polls a task that ends only when the monitor does not rest any more:
//! if the monitor rests beside it, that is a deadlock, which loom reports. The twins do not rest; they say
//! where they would.
//!
//! Bounds: one worker, one sleep, blocking call or mark of the worker, one rest of the monitor. A worker that
//! blocks has another beside it, asleep for good. (That no worker is the poller any more is in the twins
//! alone: there is no driver here.)

mod twin;

use std::sync::Arc;

use runtime::internals::scheduler::{in_place, monitor};
use runtime::parallel::{mark_blocked, mark_unblocked};

use super::once_built::{model, thread};
use super::stage::{Signal, Stage};

/// The monitor goes to rest once, at any moment.
fn start_monitor(stage: &Arc<Stage>, is_up: &Arc<Signal>) -> thread::JoinHandle<()> {
    let (stage, is_up) = (stage.clone(), is_up.clone());
    thread::spawn(move || {
        stage.shared().monitor.parker.adopt_current_thread();
        monitor::rest(stage.shared());
        is_up.set();
    })
}

/// A worker, with its loop and its sleep, beside a monitor that goes to rest. `wake` gives the worker a task
/// that lasts until the monitor is up.
fn a_worker_wakes(wake: impl Fn(&Stage, runtime::internals::task::Runnable) + Send + Sync + 'static) {
    model(move || {
        let (stage, is_up) = (Stage::new(1, 0), Arc::new(Signal::default()));
        let worker = {
            let stage = stage.clone();
            thread::spawn(move || stage.live(0))
        };
        let monitor = start_monitor(&stage, &is_up);
        let task = stage.task(async move { is_up.wait() });
        wake(&stage, task);
        monitor.join().unwrap();
        stage.shared().begin_shutdown();
        worker.join().unwrap();
        stage.end();
    });
}

#[test]
fn it_sees_a_worker_that_is_woken_for_a_task() {
    a_worker_wakes(|stage, task| stage.shared().inject(task));
}

/// As after a timer or an event: no thread has taken the worker out of the number of sleepers.
#[test]
fn it_sees_a_worker_that_wakes_by_itself() {
    a_worker_wakes(|stage, task| {
        stage.push_quietly(task);
        stage.shared().unpark_all();
    });
}

#[test]
fn it_sees_a_worker_that_comes_back_from_a_call_that_blocked() {
    model(|| {
        let (stage, is_up) = (Stage::new(2, 0), Arc::new(Signal::default()));
        // Otherwise the monitor would not rest.
        stage.shared().away.permanent_comes();
        stage.shared().idle.announce_sleep(1, false);
        let monitor = start_monitor(&stage, &is_up);
        stage.act(0, |worker| {
            in_place::block_in_place(worker, std::panic::Location::caller(), || ());
            is_up.wait();
        });
        monitor.join().unwrap();
        assert!(stage.shared().idle.end_sleep(1));
        stage.end();
    });
}

/// The mark is taken back by another thread, and the worker goes on at once.
#[test]
fn it_sees_a_worker_that_is_not_marked_any_more() {
    model(|| {
        let (stage, is_up) = (Stage::new(2, 0), Arc::new(Signal::default()));
        let monitor = start_monitor(&stage, &is_up);
        stage.act(0, |_| {
            let mark = mark_blocked();
            stage.shared().away.permanent_comes();
            // Otherwise the monitor would not rest. This comes after the mark, because the marked worker
            // would leave its queues to a worker that sleeps.
            stage.shared().idle.announce_sleep(1, false);
            thread::spawn(move || mark_unblocked(mark)).join().unwrap();
            is_up.wait();
        });
        monitor.join().unwrap();
        assert!(stage.shared().idle.end_sleep(1));
        stage.end();
    });
}
