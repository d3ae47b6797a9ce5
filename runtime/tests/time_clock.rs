//! `pause`, `resume`, `advance`, and `Instant` with them.

mod support;

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use runtime::Runtime;
use runtime::time::{Duration, Instant, advance, pause, resume, sleep};

fn paused() -> Runtime {
    runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn panic_text(f: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(f)).expect_err("it panics");
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => payload.downcast::<&str>().unwrap().to_string(),
    }
}

#[test]
fn time_stands_still_until_it_is_advanced() {
    paused().block_on(async {
        let start = Instant::now();
        std::thread::sleep(ms(5));
        assert_eq!(Instant::now(), start);
        advance(ms(1_234)).await;
        assert_eq!(start.elapsed(), ms(1_234));
    });
}

#[test]
fn an_hour_asleep_takes_no_time() {
    let real = std::time::Instant::now();
    paused().block_on(async {
        let start = Instant::now();
        sleep(Duration::from_secs(3_600)).await;
        assert_eq!(start.elapsed(), Duration::from_secs(3_600));
    });
    assert!(real.elapsed() < Duration::from_secs(60));
}

/// The thread that drives the runtime sleeps without a timer when another thread sets one. The clock then
/// moves all the same.
#[test]
fn a_timer_of_another_thread_moves_the_clock_of_a_sleeping_runtime() {
    let _watchdog = support::watchdog();
    let runtime = paused();
    let (send, receive) = runtime::sync::oneshot::channel();
    let (is_driving, drives) = std::sync::mpsc::channel();
    let handle = runtime.handle();
    support::joined_scope(|scope| {
        scope.spawn(move || {
            support::until_asleep(drives.recv().unwrap());
            handle.block_on(async { sleep(Duration::from_secs(3_600)).await });
            send.send(()).unwrap();
        });
        runtime.block_on(async {
            is_driving.send(support::thread_number()).unwrap();
            receive.await.unwrap();
        });
    });
}

#[test]
fn a_clock_paused_on_the_way_keeps_to_whole_milliseconds() {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let before = Instant::now();
        pause();
        let start = Instant::now();
        assert!(start >= before);
        sleep(ms(100)).await;
        assert_eq!(start.elapsed(), ms(100));
    });
}

#[test]
fn a_timer_from_before_the_pause_leaves_the_clock_at_a_whole_millisecond() {
    // By chance, the timer of a round may be due at a whole millisecond.
    for _ in 0..16 {
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut early = pin!(sleep(ms(3)));
            poll_fn(|cx| Poll::Ready(_ = early.as_mut().poll(cx))).await;
            pause();
            early.await;
            let start = Instant::now();
            sleep(ms(5)).await;
            assert_eq!(start.elapsed(), ms(5));
        });
    }
}

#[test]
fn a_resumed_clock_runs_on_from_where_it_stood() {
    paused().block_on(async {
        let start = Instant::now();
        sleep(Duration::from_secs(1_000)).await;
        resume();
        let resumed = Instant::now();
        assert!(resumed - start >= Duration::from_secs(1_000));
        sleep(ms(5)).await;
        assert!(resumed.elapsed() >= ms(5) && resumed.elapsed() < Duration::from_secs(60));
        pause();
        let again = Instant::now();
        assert!(again >= resumed + ms(5));
        assert_eq!(Instant::now(), again);
    });
}

/// The runtime sleeps in the driver, without a limit, because the closure keeps the clock from jumping.
#[test]
fn a_clock_that_a_closure_resumes_runs_on_for_a_sleeping_runtime() {
    let _watchdog = support::watchdog();
    let runtime = paused();
    let number = support::thread_number();
    runtime.block_on(async {
        let (sender, receiver) = std::sync::mpsc::channel();
        let closure = runtime::task::spawn_blocking(move || {
            support::until_asleep(number);
            resume();
            receiver.recv().unwrap();
        });
        sleep(ms(20)).await;
        sender.send(()).unwrap();
        closure.await.unwrap();
    });
}

/// The runtime sleeps in the driver until the timer would be due if the clock ran.
#[test]
fn a_clock_that_another_thread_pauses_jumps_for_a_sleeping_runtime() {
    let _watchdog = support::watchdog();
    let runtime = support::build(0);
    let number = support::thread_number();
    let handle = runtime.handle().clone();
    let other = std::thread::spawn(move || {
        let _entered = handle.enter();
        support::until_asleep(number);
        pause();
    });
    let start = std::time::Instant::now();
    runtime.block_on(async { sleep(Duration::from_secs(60)).await });
    assert!(start.elapsed() < Duration::from_secs(50));
    other.join().unwrap();
}

#[test]
fn advancing_fires_what_is_due_and_lets_the_tasks_run() {
    paused().block_on(async {
        // No more tasks than run before the future of `block_on` is polled again.
        const TASKS: u64 = 50;
        let woken = Arc::new(AtomicUsize::new(0));
        for i in 0..TASKS {
            let woken = woken.clone();
            runtime::spawn(async move {
                sleep(ms(10 * (i + 1))).await;
                woken.fetch_add(1, Ordering::SeqCst);
            });
        }
        runtime::task::yield_now().await;
        for expected in [0, 1, 2] {
            assert_eq!(woken.load(Ordering::SeqCst), expected);
            advance(ms(10)).await;
        }
        advance(ms(9)).await;
        assert_eq!(woken.load(Ordering::SeqCst), 3);
        advance(ms(10 * TASKS)).await;
        assert_eq!(woken.load(Ordering::SeqCst), TASKS as usize);
    });
}

#[test]
fn a_jump_too_far_stops_at_the_end_of_time() {
    paused().block_on(async {
        advance(Duration::MAX).await;
        let end = Instant::now();
        advance(Duration::from_secs(1)).await;
        assert_eq!(Instant::now(), end);
    });
}

#[test]
fn misuse_says_what_to_do() {
    let running = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    running.block_on(async {
        let text = panic_text(resume);
        assert!(text.contains("not paused") && text.contains("time::pause"), "{text}");
    });
    let text = panic_text(|| running.block_on(advance(ms(1))));
    assert!(text.contains("not paused"), "{text}");
    paused().block_on(async {
        let text = panic_text(pause);
        assert!(text.contains("already paused"), "{text}");
    });
    assert!(catch_unwind(pause).is_err(), "no runtime");
}

#[test]
fn the_clocks_of_two_runtimes_are_their_own() {
    let stopped = paused();
    let running = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let before = stopped.block_on(async { Instant::now() });
    running.block_on(async {
        let start = Instant::now();
        sleep(ms(3)).await;
        assert!(start.elapsed() >= ms(3));
    });
    assert_eq!(stopped.block_on(async { Instant::now() }), before);
    assert!(Instant::now().into_std().elapsed() < Duration::from_secs(60), "outside, the system's");
}

#[test]
fn arithmetic_stops_at_the_ends() {
    let now = Instant::now();
    let end = now + Duration::MAX;
    assert!(end > now + Duration::from_secs(1 << 60));
    assert_eq!(end + Duration::from_secs(1), end);
    assert_eq!(end.checked_add(Duration::from_nanos(1)), None, "the very end");
    let beginning = now - Duration::MAX;
    assert!(beginning < now);
    assert_eq!(beginning.checked_sub(Duration::from_nanos(1)), None);
    let mut moved = now;
    moved += ms(3);
    moved -= ms(1);
    assert_eq!((moved - now, now - moved), (ms(2), Duration::ZERO));
    assert_eq!(Instant::from(std::time::Instant::from(now)), now);
}
