//! External threads, `ExternalCounts` to `ExternalEnds` of `external.rs`, all real: one thread at a time has
//! an index, and a thread that walks over all processors finds no gap; a task that comes while an external
//! thread takes part is run by a worker that sleeps; and no worker leaves before the external thread has
//! gone.
//!
//! A task that is not run, or a worker that does not leave, is a deadlock, which loom reports.
//!
//! Bounds: two workers, of which one never comes; two external threads, one task.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use loom::cell::UnsafeCell;

use super::once_built::{model, thread};
use super::stage::{Signal, Stage};

/// Takes an index and gives it back, if there is one; calls `meanwhile` in between.
fn take_part(stage: &Stage, meanwhile: impl FnOnce(usize)) {
    let shared = stage.shared();
    if !shared.injected_jobs.try_begin() {
        return;
    }
    if let Some((processor, _)) = shared.take_external() {
        meanwhile(processor.index());
        // SAFETY: (1) it was taken above, and this is the last use.
        unsafe { shared.give_external_back(processor, false) };
    }
    shared.job_ended();
}

#[test]
fn a_worker_runs_a_task_and_leaves_around_an_external_thread() {
    static TAKEN: AtomicUsize = AtomicUsize::new(0);
    model(|| {
        // A runtime with one worker lets no external thread take part. So there are two, and one never comes.
        let stage = Stage::new(2, 0);
        let has_run = Arc::new(Signal::default());
        let worker = {
            let stage = stage.clone();
            thread::spawn(move || stage.live(0))
        };
        let external = {
            let stage = stage.clone();
            thread::spawn(move || take_part(&stage, |_| _ = TAKEN.fetch_add(1, Relaxed)))
        };
        let task = {
            let has_run = has_run.clone();
            stage.task(async move { has_run.set() })
        };
        stage.shared().inject(task);
        has_run.wait();
        external.join().unwrap();
        stage.shared().begin_shutdown();
        worker.join().unwrap();
        stage.end();
    });
    assert!(TAKEN.load(Relaxed) > 0, "no external thread ever took part");
}

/// What belongs to the thread that has an index.
struct Owned([UnsafeCell<usize>; 2]);

// SAFETY: whether one thread at a time has it is what the cells check.
unsafe impl Sync for Owned {}
// SAFETY: as above.
unsafe impl Send for Owned {}

#[test]
fn two_external_threads_have_an_index_each() {
    model(|| {
        let stage = Stage::new(2, 0);
        let owned = Arc::new(Owned([UnsafeCell::new(0), UnsafeCell::new(0)]));
        // Both workers sleep, for good.
        (0..2).for_each(|index| stage.shared().idle.announce_sleep(index, false));
        let takes_part = {
            let owned = owned.clone();
            move |stage: &Stage| {
                let first = stage.shared().config.workers;
                take_part(stage, |index| {
                    // As a thief does.
                    assert!(!stage.shared().has_visible_tasks());
                    // SAFETY: see `Owned`.
                    owned.0[index - first].with_mut(|cell| unsafe { *cell += 1 });
                    thread::yield_now();
                });
            }
        };
        let other = {
            let (stage, takes_part) = (stage.clone(), takes_part.clone());
            thread::spawn(move || takes_part(&stage))
        };
        takes_part(&stage);
        other.join().unwrap();
        assert_eq!(stage.shared().external.count(), 0, "an index was lost");
        (0..2).for_each(|index| assert!(stage.shared().idle.end_sleep(index)));
        stage.end();
    });
}
