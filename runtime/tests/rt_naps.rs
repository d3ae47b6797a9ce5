//! A worker that would be woken for nothing again and again naps instead; what others rely on it for is done soon all the same.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::{Duration, Instant};

use runtime::runtime::{Builder, Runtime};

/// Far less than what the monitor needs to find a worker stuck.
const SOON: Duration = Duration::from_micros(1500);

fn two_workers() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Keeps one worker at tiny tasks for so long that the other naps.
async fn be_quick() {
    let start = Instant::now();
    while start.elapsed() < Duration::from_micros(500) {
        for _ in 0..20 {
            runtime::spawn(async { black_box(()) }).await.unwrap();
        }
    }
}

/// How long a task waits that was queued behind a poll which does not return before the task has run.
async fn delay_behind_a_long_poll(to_be_queued: usize) -> Duration {
    runtime::spawn(async move {
        be_quick().await;
        let has_run = Arc::new(AtomicBool::new(false));
        let theirs = has_run.clone();
        let start = Instant::now();
        runtime::spawn(async move { theirs.store(true, Release) });
        // Each displaces the one before from the LIFO slot.
        for _ in 1..to_be_queued {
            runtime::spawn(async { black_box(()) });
        }
        while !has_run.load(Acquire) {
            std::thread::yield_now();
        }
        start.elapsed()
    })
    .await
    .unwrap()
}

#[test]
fn a_task_behind_a_poll_that_turns_out_long_is_taken_soon() {
    let runtime = two_workers();
    for to_be_queued in [2, 3, 100] {
        // One time of many: the machine may have other work.
        let is_soon = |_: &i32| runtime.block_on(delay_behind_a_long_poll(to_be_queued)) < SOON;
        assert!((0..300).any(|round| is_soon(&round)), "with {to_be_queued} tasks");
    }
}

#[test]
fn a_task_from_outside_is_taken_soon_beside_a_poll_that_turns_out_long() {
    let runtime = two_workers();
    let is_soon = |_: i32| {
        let has_run = Arc::new(AtomicBool::new(false));
        let is_long = Arc::new(AtomicBool::new(false));
        let (has, is) = (has_run.clone(), is_long.clone());
        let long = runtime.spawn(async move {
            be_quick().await;
            is.store(true, Release);
            while !has.load(Acquire) {
                std::thread::yield_now();
            }
        });
        while !is_long.load(Acquire) {
            std::thread::yield_now();
        }
        let start = Instant::now();
        let task = runtime.spawn(async move {
            has_run.store(true, Release);
            start.elapsed()
        });
        let delay = runtime.block_on(task).unwrap();
        runtime.block_on(long).unwrap();
        delay < SOON
    };
    assert!((0..300).any(is_soon));
}

#[test]
fn nothing_is_lost_when_bursts_of_tiny_tasks_come_from_everywhere() {
    let runtime = two_workers();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..500 {
                    runtime.block_on(async {
                        let inner = runtime::spawn(async { runtime::spawn(async { 1 }).await.unwrap() });
                        let outer: Vec<_> = (0..20).map(|_| runtime::spawn(async { 1 })).collect();
                        let mut sum = inner.await.unwrap();
                        for task in outer {
                            sum += task.await.unwrap();
                        }
                        assert_eq!(sum, 21);
                    });
                }
            });
        }
    });
}
