//! The count of a scope: the owner goes on when every job has ended and not before, sees what each did, and
//! no thread touches the count once the owner has freed it.
//!
//! Bounds: an owner that spawns one or two jobs and runs one job or none, and one or two other threads, which
//! run the rest. A job may spawn one or two more, which any of the threads runs. The owner folds while the
//! others are at it, once, or twice with work or none in between; or it runs a job while it is folded.

mod twin;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize as StdAtomicUsize;

use loom::sync::atomic::Ordering::Relaxed;
use runtime::internals::job::{CountLatch, ThreadLatch};

use super::once_built::model;
use super::once_built::thread::{self, JoinHandle};
use super::plain::Plain;
use twin::{Fault, Twin};

/// A count as the models use it: the real one, or a twin.
pub trait Count: 'static {
    fn make() -> Self;

    /// # Safety
    /// 1. As `CountLatch::increment`.
    unsafe fn increment(&self, is_owner: bool);

    /// # Safety
    /// 1. As `CountLatch::decrement`.
    unsafe fn decrement(this: *const Self, is_owner: bool);

    /// # Safety
    /// 1. As `CountLatch::is_done`.
    unsafe fn is_done(&self) -> bool;

    /// # Safety
    /// 1. 2. As `CountLatch::fold`.
    unsafe fn fold(&self) -> bool;

    /// # Safety
    /// 1. As `CountLatch::unfold`.
    unsafe fn unfold(&self) -> bool;

    /// Waits for the latch.
    fn wait(&self);
}

impl Count for CountLatch<ThreadLatch> {
    fn make() -> Self {
        Self::new(ThreadLatch::new())
    }

    unsafe fn increment(&self, is_owner: bool) {
        // SAFETY: the caller guarantees the same.
        unsafe { self.increment(is_owner) }
    }

    unsafe fn decrement(this: *const Self, is_owner: bool) {
        // SAFETY: the caller guarantees the same.
        unsafe { Self::decrement(this, is_owner) }
    }

    unsafe fn is_done(&self) -> bool {
        // SAFETY: (1).
        unsafe { self.is_done() }
    }

    unsafe fn fold(&self) -> bool {
        // SAFETY: (1), (2).
        unsafe { self.fold() }
    }

    unsafe fn unfold(&self) -> bool {
        // SAFETY: (1).
        unsafe { self.unfold() }
    }

    fn wait(&self) {
        self.latch().wait();
    }
}

/// A scope: the count, what each job writes, and how many have ended. Loom does not see the last, which is
/// for the checks alone.
struct Scope<C> {
    count: C,
    results: [Plain<u32>; 4],
    ended: Arc<StdAtomicUsize>,
}

struct SendPtr<T>(*const T);

impl<T> Clone for SendPtr<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SendPtr<T> {}

// SAFETY: to find out whether the accesses are ordered is what the models are for.
unsafe impl<T> Send for SendPtr<T> {}

impl<C: Count> SendPtr<Scope<C>> {
    fn new() -> Self {
        let results = std::array::from_fn(|_| Plain::new("a job's result", 0));
        Self(Box::into_raw(Box::new(Scope {
            count: C::make(),
            results,
            ended: Arc::new(StdAtomicUsize::new(0)),
        })))
    }

    fn scope(&self) -> &Scope<C> {
        // SAFETY: a job that has not ended keeps the scope, by the property under test.
        unsafe { &*self.0 }
    }

    fn spawn(self, is_owner: bool) {
        // SAFETY: (1) a model says `true` on the owner's thread only, and not while it is folded, unless a
        // twin has that fault. (2) The owner's body or a job calls this, unless the model is that fault.
        unsafe { self.scope().count.increment(is_owner) };
    }

    fn run(self, job: usize, is_owner: bool) {
        let ended = self.scope().ended.clone();
        // SAFETY: the cell checks that no other thread is there.
        self.scope().results[job].with_mut(|result| unsafe { *result = 7 });
        ended.fetch_add(1, Relaxed);
        // SAFETY: (1) the job was counted; the scope may be gone afterwards. (2) `is_owner`: as in `spawn`.
        unsafe { C::decrement(&raw const (*self.0).count, is_owner) };
    }

    fn is_done(self) -> bool {
        // SAFETY: (1) a model calls this on the owner's thread, while it is not folded.
        unsafe { self.scope().count.is_done() }
    }

    fn fold(self) -> bool {
        // SAFETY: (1) as in `is_done`. (2) A model calls this after the owner's body.
        unsafe { self.scope().count.fold() }
    }

    fn unfold(self) -> bool {
        // SAFETY: (1) a model calls this on the owner's thread, after a fold that has returned true.
        unsafe { self.scope().count.unfold() }
    }

    /// Waits for the latch.
    fn wait(self) {
        self.scope().count.wait();
    }

    /// Folds, and waits if anything is left.
    fn fold_and_wait(self) {
        if self.fold() {
            self.wait();
        }
    }

    /// The owner's end: all `jobs` have ended. Frees the scope.
    fn leave(self, jobs: usize) {
        // SAFETY: no other thread has it any more, by the property under test.
        let scope = unsafe { Box::from_raw(self.0.cast_mut()) };
        assert_eq!(scope.ended.load(Relaxed), jobs, "the owner leaves before a job has ended");
        for result in &scope.results[..jobs] {
            // SAFETY: the cell checks that no thread writes.
            assert_eq!(result.with(|result| unsafe { *result }), 7);
        }
    }
}

fn join_all(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Two thieves end a job each while the owner folds.
fn two_thieves<C: Count>() {
    let scope = SendPtr::<Scope<C>>::new();
    let threads = [0, 1].map(|job| {
        scope.spawn(true);
        thread::spawn(move || { scope }.run(job, false))
    });
    scope.fold_and_wait();
    scope.leave(2);
    join_all(threads);
}

/// The owner runs one job itself and looks, without folding unless it has to; a thief's job spawns another,
/// and runs it.
fn a_thief_that_spawns<C: Count>() {
    let scope = SendPtr::<Scope<C>>::new();
    scope.spawn(true);
    let thief = thread::spawn(move || {
        let scope = { scope };
        scope.spawn(false);
        scope.run(0, false);
        scope.run(1, false);
    });
    scope.spawn(true);
    scope.run(2, true);
    if !scope.is_done() {
        scope.fold_and_wait();
    }
    scope.leave(3);
    join_all([thief]);
}

/// A job spawned by a thief is run by the owner, which may find it before or behind its fold.
fn the_owner_runs_a_thiefs_job<C: Count>() {
    let scope = SendPtr::<Scope<C>>::new();
    let handed = Arc::new(loom::sync::atomic::AtomicBool::new(false));
    scope.spawn(true);
    let theirs = handed.clone();
    let thief = thread::spawn(move || {
        let scope = { scope };
        scope.spawn(false);
        theirs.store(true, loom::sync::atomic::Ordering::Release);
        scope.run(0, false);
    });
    let has_run = handed.load(loom::sync::atomic::Ordering::Acquire);
    if has_run {
        scope.run(1, true);
    }
    if has_run {
        if !scope.is_done() {
            scope.fold_and_wait();
        }
        scope.leave(2);
        join_all([thief]);
    } else {
        // No other thread runs it: it is the thief's own, later.
        join_all([thief]);
        scope.run(1, true);
        assert!(scope.is_done());
        scope.leave(2);
    }
}

/// The owner folds, is woken for something else, and unfolds, perhaps when all has ended. A thief's job
/// spawns another.
fn an_owner_that_unfolds<C: Count>() {
    let scope = SendPtr::<Scope<C>>::new();
    scope.spawn(true);
    let thief = thread::spawn(move || {
        let scope = { scope };
        scope.spawn(false);
        scope.run(0, false);
        scope.run(1, false);
    });
    if scope.fold() {
        if !scope.unfold() {
            scope.wait();
        } else if !scope.is_done() {
            scope.fold_and_wait();
        }
    }
    scope.leave(2);
    join_all([thief]);
}

/// What it was woken for is a job, which spawns another for a thief: it counts both as if it had not folded.
fn an_owner_that_unfolds_and_works<C: Count>() {
    let scope = SendPtr::<Scope<C>>::new();
    scope.spawn(true);
    scope.spawn(true);
    let thief = thread::spawn(move || { scope }.run(0, false));
    assert!(scope.fold() && scope.unfold(), "its own job has not ended");
    scope.spawn(true);
    let other = thread::spawn(move || { scope }.run(1, false));
    scope.run(2, true);
    if !scope.is_done() {
        scope.fold_and_wait();
    }
    scope.leave(3);
    join_all([thief, other]);
}

/// What runs on its thread while it is folded is a job that spawns two for a thief. The real count is told
/// that this is not the owner; twins see that it has folded.
fn an_owner_that_works_in_its_sleep<C: Count, const IS_OWNER: bool>() {
    let scope = SendPtr::<Scope<C>>::new();
    scope.spawn(true);
    scope.spawn(true);
    let thief = thread::spawn(move || { scope }.run(0, false));
    assert!(scope.fold(), "job 1 has not begun");
    scope.spawn(IS_OWNER);
    scope.spawn(IS_OWNER);
    let other = thread::spawn(move || {
        let scope = { scope };
        scope.run(2, false);
        scope.run(3, false);
    });
    scope.run(1, IS_OWNER);
    if !scope.unfold() {
        scope.wait();
    } else if !scope.is_done() {
        scope.fold_and_wait();
    }
    scope.leave(4);
    join_all([thief, other]);
}

#[test]
fn the_owner_leaves_when_both_thieves_have_ended() {
    model(two_thieves::<CountLatch<ThreadLatch>>);
}

#[test]
fn a_job_spawned_by_a_thief_is_waited_for() {
    model(a_thief_that_spawns::<CountLatch<ThreadLatch>>);
}

#[test]
fn a_thiefs_job_that_the_owner_runs_is_counted_on_both_sides() {
    model(the_owner_runs_a_thiefs_job::<CountLatch<ThreadLatch>>);
}

#[test]
fn an_owner_that_was_woken_for_something_else_waits_again() {
    model(an_owner_that_unfolds::<CountLatch<ThreadLatch>>);
}

#[test]
fn an_owner_that_was_woken_for_a_job_counts_it_in_its_cell() {
    model(an_owner_that_unfolds_and_works::<CountLatch<ThreadLatch>>);
}

#[test]
fn an_owner_that_works_in_its_sleep_counts_as_others_do() {
    model(an_owner_that_works_in_its_sleep::<CountLatch<ThreadLatch>, false>);
}

#[test]
fn the_twin_without_a_fault_passes() {
    model(two_thieves::<Twin<{ Fault::NONE }>>);
    model(a_thief_that_spawns::<Twin<{ Fault::NONE }>>);
    model(the_owner_runs_a_thiefs_job::<Twin<{ Fault::NONE }>>);
    model(an_owner_that_unfolds::<Twin<{ Fault::NONE }>>);
    model(an_owner_that_unfolds_and_works::<Twin<{ Fault::NONE }>>);
    model(an_owner_that_works_in_its_sleep::<Twin<{ Fault::NONE }>, true>);
}

#[test]
#[should_panic(expected = "data race on a job's result")]
fn an_owner_that_counts_in_its_cell_while_it_is_folded_leaves_too_early_or_never() {
    model(an_owner_that_works_in_its_sleep::<Twin<{ Fault::COUNTS_IN_ITS_SLEEP }>, true>);
}

#[test]
#[should_panic(expected = "the owner sleeps for ever")]
fn an_unfold_by_load_and_store_loses_an_end() {
    model(an_owner_that_unfolds::<Twin<{ Fault::UNFOLDS_BY_STORE }>>);
}

#[test]
#[should_panic(expected = "late use of the count")]
fn an_owner_that_unfolds_when_all_has_ended_frees_the_latch_while_it_is_set() {
    model(an_owner_that_unfolds::<Twin<{ Fault::UNFOLDS_ZERO }>>);
}

#[test]
#[should_panic(expected = "data race on a job's result")]
fn without_the_bias_a_thief_that_is_quick_sets_the_latch_too_early() {
    model(two_thieves::<Twin<{ Fault::NO_BIAS }>>);
}

#[test]
#[should_panic(expected = "the owner sleeps for ever")]
fn a_fold_by_load_and_store_loses_an_end() {
    model(two_thieves::<Twin<{ Fault::FOLDS_BY_STORE }>>);
}

#[test]
#[should_panic(expected = "data race on a job's result")]
fn ends_that_release_nothing_hide_what_the_jobs_did() {
    model(two_thieves::<Twin<{ Fault::ENDS_RELAXED }>>);
}

#[test]
#[should_panic(expected = "data race on a job's result")]
fn an_owner_that_looks_without_acquiring_misses_what_the_jobs_did() {
    model(a_thief_that_spawns::<Twin<{ Fault::LOOKS_RELAXED }>>);
}

#[test]
#[should_panic(expected = "data race on a job's result")]
fn a_spawn_that_is_counted_behind_its_parents_end_is_not_waited_for() {
    model(|| {
        let scope = SendPtr::<Scope<Twin<{ Fault::NONE }>>>::new();
        scope.spawn(true);
        let thief = thread::spawn(move || {
            let scope = { scope };
            scope.run(0, false);
            scope.spawn(false);
            scope.run(1, false);
        });
        scope.fold_and_wait();
        scope.leave(2);
        join_all([thief]);
    });
}
