//! Foreign code panics: the task's handle says so, the worker lives and runs the others.

mod support;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

use parking_lot::Mutex;
use runtime::Runtime;
use runtime::task::JoinError;
use support::{Drops, each_kind, text_of, until, watchdog};

/// Panics without noise on stderr.
fn quiet_panic(text: &'static str) -> ! {
    std::panic::resume_unwind(Box::new(text))
}

struct PanicsInDrop(Drops);

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        drop(self.0.token());
        quiet_panic("drop");
    }
}

/// A future whose poll and whose destructor panic as told.
struct Bad {
    in_poll: bool,
    _in_drop: Option<PanicsInDrop>,
}

impl Future for Bad {
    type Output = i32;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<i32> {
        if self.in_poll { quiet_panic("poll") } else { Poll::Ready(1) }
    }
}

/// Asserts that tasks still run, and that none is left over.
#[track_caller]
fn assert_alive(runtime: &Runtime) {
    let tasks: Vec<_> = (0..20).map(|i| runtime.spawn(async move { i })).collect();
    for (i, task) in tasks.into_iter().enumerate() {
        assert_eq!(runtime.block_on(task).unwrap(), i);
    }
    until("no task is left", || runtime.metrics().num_alive_tasks() == 0);
}

#[track_caller]
fn text_of_error(error: JoinError) -> String {
    assert!(error.is_panic() && !error.is_cancelled());
    text_of(&*error.into_panic())
}

#[test]
fn a_task_that_panics_says_so_to_its_handle() {
    let _watchdog = watchdog();
    each_kind(|runtime| {
        let task = runtime.spawn(async { quiet_panic("poll") });
        let error = runtime.block_on(task).unwrap_err();
        assert!(error.to_string().contains("panicked with message \"poll\""), "{error}");
        assert_eq!(text_of_error(error), "poll");
        drop(runtime.spawn(async { quiet_panic("poll") }));
        assert_alive(&runtime);
    });
}

#[test]
fn a_panic_in_poll_or_in_the_futures_drop_is_the_tasks_result() {
    let _watchdog = watchdog();
    each_kind(|runtime| {
        for (in_poll, in_drop, says) in [(true, false, "poll"), (false, true, "drop"), (true, true, "poll")] {
            let drops = Drops::default();
            let bad = || Bad { in_poll, _in_drop: in_drop.then(|| PanicsInDrop(drops.clone())) };
            let error = runtime.block_on(runtime.spawn(bad())).unwrap_err();
            assert_eq!(text_of_error(error), says);
            drop(runtime.spawn(bad()));
            assert_alive(&runtime);
            assert_eq!(drops.count(), if in_drop { 2 } else { 0 });
        }
    });
}

#[test]
fn a_cancelled_future_whose_drop_panics_is_a_panic() {
    let _watchdog = watchdog();
    each_kind(|runtime| {
        let drops = Drops::default();
        let bad = PanicsInDrop(drops.clone());
        let task = runtime.spawn(async move {
            let _bad = bad;
            std::future::pending::<()>().await;
        });
        task.abort();
        assert_eq!(text_of_error(runtime.block_on(task).unwrap_err()), "drop");
        assert_eq!(drops.count(), 1);
        assert_alive(&runtime);
    });
}

#[test]
fn an_output_whose_drop_panics_harms_nobody_when_nobody_takes_it() {
    let _watchdog = watchdog();
    each_kind(|runtime| {
        let drops = Drops::default();
        // The handle goes before the task ends, and after.
        let output = PanicsInDrop(drops.clone());
        drop(runtime.spawn(async move { output }));
        let output = PanicsInDrop(drops.clone());
        let task = runtime.spawn(async move { output });
        runtime.block_on(async {
            while !task.is_finished() {
                runtime::task::yield_now().await;
            }
        });
        drop(task);
        assert_alive(&runtime);
        assert_eq!(drops.count(), 2);
        // Taken, it is the taker's.
        let output = PanicsInDrop(drops.clone());
        let output = runtime.block_on(runtime.spawn(async move { output })).unwrap();
        assert_eq!(drops.count(), 2);
        assert_eq!(support::panic_of(|| drop(output)), "drop");
        // In a task, the taker's task ends.
        let output = PanicsInDrop(drops.clone());
        let task = runtime.spawn(async move { drop(runtime::spawn(async move { output }).await) });
        assert_eq!(text_of_error(runtime.block_on(task).unwrap_err()), "drop");
        assert_alive(&runtime);
    });
}

/// A payload whose drop panics with such a payload, some levels deep.
struct BadPayload(u32, Drops);

impl Drop for BadPayload {
    fn drop(&mut self) {
        drop(self.1.token());
        if self.0 > 0 {
            std::panic::resume_unwind(Box::new(BadPayload(self.0 - 1, self.1.clone())));
        }
    }
}

#[test]
fn a_payload_whose_drop_panics_harms_nobody() {
    let _watchdog = watchdog();
    each_kind(|runtime| {
        // After a few levels the rest is leaked, which a leak checker would rightly tell.
        let deepest = if support::has_shadow_memory() { 3 } else { 1000 };
        for depth in [1, 3, deepest] {
            let drops = Drops::default();
            let inside = drops.clone();
            drop(runtime.spawn(async move {
                std::panic::resume_unwind(Box::new(BadPayload(depth, inside)));
            }));
            assert_alive(&runtime);
            until("the payload is dropped", || drops.count() > depth.min(3) as usize);
        }
        // The same in a blocking closure.
        let drops = Drops::default();
        let inside = drops.clone();
        drop(runtime.spawn_blocking(move || std::panic::resume_unwind(Box::new(BadPayload(2, inside)))));
        assert_eq!(runtime.block_on(runtime.spawn_blocking(|| 1)).unwrap(), 1);
        until("the payload is dropped", || drops.count() == 3);
    });
}

#[test]
fn blocking_closures_that_panic_leave_their_thread_alive() {
    let _watchdog = watchdog();
    let runtime = support::builder(1).max_blocking_threads(1).build().unwrap();
    for _ in 0..3 {
        let closure = runtime.spawn_blocking(|| quiet_panic("closure"));
        assert_eq!(text_of_error(runtime.block_on(closure).unwrap_err()), "closure");
    }
    assert_eq!(runtime.metrics().num_blocking_threads(), 1);
    assert_eq!(runtime.block_on(runtime.spawn_blocking(|| 1)).unwrap(), 1);
}

/// A waker that panics in the chosen functions and counts its clones.
struct BadWaker {
    in_clone: bool,
    in_wake: bool,
    in_drop: bool,
    alive: AtomicUsize,
    wakes: AtomicUsize,
}

impl BadWaker {
    fn waker(self: &Arc<Self>) -> Waker {
        self.alive.fetch_add(1, SeqCst);
        // SAFETY: the functions below treat the pointer as what it is here, an `Arc` that the waker owns, and
        // may be called on any thread, because `BadWaker` is `Send` and `Sync`.
        unsafe { Waker::from_raw(RawWaker::new(Arc::into_raw(self.clone()).cast(), &BAD)) }
    }
}

static BAD: RawWakerVTable = RawWakerVTable::new(
    |data| {
        // SAFETY: the waker that is cloned holds the `Arc`.
        let bad = unsafe { &*data.cast::<BadWaker>() };
        if bad.in_clone {
            quiet_panic("clone");
        }
        bad.alive.fetch_add(1, SeqCst);
        // SAFETY: as above.
        unsafe { Arc::increment_strong_count(data.cast::<BadWaker>()) };
        RawWaker::new(data, &BAD)
    },
    |data| {
        // SAFETY: the waker gives up its `Arc`.
        let bad = unsafe { Arc::from_raw(data.cast::<BadWaker>()) };
        bad.alive.fetch_sub(1, SeqCst);
        bad.wakes.fetch_add(1, SeqCst);
        if bad.in_wake {
            quiet_panic("wake");
        }
    },
    |data| {
        // SAFETY: the waker holds the `Arc`.
        let bad = unsafe { &*data.cast::<BadWaker>() };
        bad.wakes.fetch_add(1, SeqCst);
        if bad.in_wake {
            quiet_panic("wake");
        }
    },
    |data| {
        // SAFETY: the waker gives up its `Arc`.
        let bad = unsafe { Arc::from_raw(data.cast::<BadWaker>()) };
        bad.alive.fetch_sub(1, SeqCst);
        if bad.in_drop {
            quiet_panic("drop");
        }
    },
);

#[test]
fn a_join_waker_that_panics_harms_nobody() {
    let _watchdog = watchdog();
    for bits in 1..8 {
        each_kind(|runtime| {
            let bad = Arc::new(BadWaker {
                in_clone: bits & 1 != 0,
                in_wake: bits & 2 != 0,
                in_drop: bits & 4 != 0,
                alive: AtomicUsize::new(0),
                wakes: AtomicUsize::new(0),
            });
            let waker = bad.waker();
            let poll = |task: &mut runtime::task::JoinHandle<()>| {
                let mut cx = Context::from_waker(&waker);
                let polled = || Pin::new(task).poll(&mut cx).is_pending();
                _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(polled));
            };
            let _guard = runtime.enter();
            let slow = || runtime.spawn(std::future::pending());
            // Woken by the end; replaced by another waker; dropped with the handle; the runtime ends.
            let mut woken = slow();
            poll(&mut woken);
            woken.abort();
            let mut replaced = slow();
            poll(&mut replaced);
            let other = Context::from_waker(Waker::noop()).waker().clone();
            let replace = || Pin::new(&mut replaced).poll(&mut Context::from_waker(&other)).is_pending();
            _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(replace));
            let mut dropped = slow();
            poll(&mut dropped);
            drop(dropped);
            let mut left = slow();
            poll(&mut left);
            runtime.block_on(async {
                while !woken.is_finished() {
                    runtime::task::yield_now().await;
                }
            });
            assert!(runtime.block_on(woken).unwrap_err().is_cancelled());
            assert_eq!(runtime.block_on(runtime.spawn(async { 1 })).unwrap(), 1);
            replaced.abort();
            assert!(runtime.block_on(replaced).unwrap_err().is_cancelled());
            drop(_guard);
            drop(runtime);
            drop(left);
            assert_eq!(bad.alive.load(SeqCst), 1, "only ours is left, bits {bits}");
            assert_eq!(bad.wakes.load(SeqCst), if bad.in_clone { 0 } else { 2 });
            _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(waker)));
        });
    }
}

#[test]
fn a_timers_waker_that_panics_harms_nobody() {
    let _watchdog = watchdog();
    each_kind(|runtime| {
        let bad = Arc::new(BadWaker {
            in_clone: false,
            in_wake: true,
            in_drop: true,
            alive: AtomicUsize::new(0),
            wakes: AtomicUsize::new(0),
        });
        let waker = bad.waker();
        runtime.block_on(async {
            let sleep = || Box::pin(runtime::time::sleep(std::time::Duration::from_millis(100)));
            let (mut first, second, mut third) = (sleep(), sleep(), sleep());
            assert!(first.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            assert!(third.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            second.await;
            sleep().await;
            assert_eq!(bad.wakes.load(SeqCst), 2);
        });
        assert_alive(&runtime);
        assert_eq!(support::panic_of(|| drop(waker)), "drop");
    });
}

#[test]
fn hooks_that_panic_leave_threads_alive() {
    let _watchdog = watchdog();
    for workers in support::KINDS {
        let calls = Arc::new(Mutex::new([0; 4]));
        let hook = |i: usize| {
            let calls = calls.clone();
            move || {
                calls.lock()[i] += 1;
                quiet_panic("hook");
            }
        };
        let mut builder = support::builder(workers);
        if workers > 0 {
            // A panic is printed for so long that a spare worker may come, which would be counted, too.
            builder.spare_workers(0);
        }
        let runtime = builder
            .on_thread_start(hook(0))
            .on_thread_stop(hook(1))
            .on_thread_park(hook(2))
            .on_thread_unpark(hook(3))
            .build()
            .unwrap();
        assert_alive(&runtime);
        runtime.block_on(async { runtime::time::sleep(std::time::Duration::from_millis(2)).await });
        assert_eq!(runtime.block_on(runtime.spawn_blocking(|| 1)).unwrap(), 1);
        drop(runtime);
        let calls = *calls.lock();
        assert_eq!(calls[0], workers + 1);
        assert_eq!(calls[1], workers + 1);
        assert!(calls[2] > 0 && calls[3] == calls[2], "{calls:?}");
    }
}
