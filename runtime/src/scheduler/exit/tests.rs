use std::thread;
use std::time::{Duration, Instant};

use super::{Exit, Lifecycle};
use crate::loom::sync::atomic::Ordering::Relaxed;
use crate::util::joined::joined_scope;

#[test]
fn the_shutdown_begins_once_and_slows_spawns_down() {
    let lifecycle = Lifecycle::new(false);
    // SAFETY: `lifecycle` lives until the end of the test.
    let flag = unsafe { lifecycle.has_begun_flag().as_ref() };
    assert!(!lifecycle.has_begun() && !lifecycle.spawns_slowly() && !flag.load(Relaxed));
    assert!(lifecycle.begin());
    assert!(lifecycle.has_begun() && lifecycle.spawns_slowly() && flag.load(Relaxed));
    assert!(!lifecycle.begin());
    assert!(lifecycle.has_begun());
}

#[test]
fn spawns_are_slow_from_the_start_if_tasks_are_observed() {
    let lifecycle = Lifecycle::new(true);
    assert!(lifecycle.spawns_slowly() && !lifecycle.has_begun());
}

#[test]
fn the_last_to_leave_is_told_so_and_the_builder_counts() {
    let lifecycle = Lifecycle::new(false);
    lifecycle.thread_starts();
    lifecycle.thread_starts();
    assert_eq!(lifecycle.exit().threads(), 2, "the builder is no thread of the runtime");
    assert!(!lifecycle.thread_leaves());
    assert!(!lifecycle.thread_leaves());
    assert!(lifecycle.thread_leaves());
}

#[test]
fn a_wait_for_the_threads_ends_when_the_last_has_left() {
    let exit = Exit::default();
    assert!(exit.wait(None), "there is none");
    exit.enter();
    exit.enter();
    exit.leave();
    assert_eq!(exit.threads(), 1);
    joined_scope(|scope| {
        scope.spawn(|| {
            // Mostly, the other thread waits by then.
            (0..1_000).for_each(|_| thread::yield_now());
            exit.leave();
        });
        assert!(exit.wait(None));
    });
    assert_eq!(exit.threads(), 0);
}

#[test]
fn a_wait_for_the_threads_lasts_as_long_as_its_limit() {
    let exit = Exit::default();
    exit.enter();
    let limit = Duration::from_millis(2);
    let begin = Instant::now();
    assert!(!exit.wait(Some(limit)));
    assert!(begin.elapsed() >= limit);
    exit.leave();
    assert!(exit.wait(Some(Duration::ZERO)));
    assert!(exit.wait(Some(Duration::MAX)), "a limit beyond the clock's range is no limit");
}
