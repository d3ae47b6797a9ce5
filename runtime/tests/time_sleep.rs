//! `sleep`, `sleep_until` and `Sleep`.

mod support;

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use runtime::Runtime;
use runtime::time::{Duration, Instant, Sleep, advance, sleep, sleep_until};

fn paused() -> Runtime {
    runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

fn poll(sleep: Pin<&mut Sleep>, waker: &Waker) -> Poll<()> {
    sleep.poll(&mut Context::from_waker(waker))
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn counter() -> (Arc<Count>, Waker) {
    let count = Arc::new(Count::default());
    (count.clone(), count.into())
}

/// What a panic said.
fn panic_text(f: impl FnOnce()) -> String {
    let payload = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).expect_err("it panics");
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => payload.downcast::<&str>().unwrap().to_string(),
    }
}

#[test]
fn sleeps_take_exactly_as_long_as_asked_while_paused() {
    paused().block_on(async {
        for millis in [1, 2, 63, 64, 65, 4095, 4096, 4097, 262_144, 100_000_000] {
            let start = Instant::now();
            sleep(ms(millis)).await;
            assert_eq!(start.elapsed(), ms(millis));
        }
    });
}

#[test]
fn a_fraction_of_a_millisecond_is_rounded_up() {
    paused().block_on(async {
        let start = Instant::now();
        sleep(Duration::from_nanos(1)).await;
        assert_eq!(start.elapsed(), ms(1));
        sleep(Duration::from_micros(1500)).await;
        assert_eq!(start.elapsed(), ms(3));
    });
}

#[test]
fn zero_and_past_are_ready_at_the_first_poll() {
    paused().block_on(async {
        sleep(ms(10)).await;
        let (count, waker) = counter();
        for sleep in [
            sleep(Duration::ZERO),
            sleep_until(Instant::now()),
            sleep_until(Instant::now() - ms(5)),
            sleep_until(Instant::now() - Duration::from_secs(1_000_000)),
        ] {
            let mut sleep = pin!(sleep);
            assert_eq!(poll(sleep.as_mut(), &waker), Poll::Ready(()));
            assert_eq!(poll(sleep.as_mut(), &waker), Poll::Ready(()), "and at each later poll");
            assert!(sleep.is_elapsed());
        }
        assert_eq!(count.0.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn a_sleep_whose_time_passed_before_its_first_poll_is_ready() {
    paused().block_on(async {
        let sleep = sleep(ms(10));
        advance(ms(10)).await;
        assert_eq!(poll(pin!(sleep), Waker::noop()), Poll::Ready(()));
    });
}

#[test]
fn weeks_years_and_centuries_pass() {
    paused().block_on(async {
        for days in [25, 1_000, 3_650, 36_500] {
            let start = Instant::now();
            let long = Duration::from_secs(days * 86_400);
            sleep(long).await;
            assert_eq!(start.elapsed(), long);
        }
    });
}

#[test]
fn the_last_instant_never_comes_and_does_no_harm() {
    paused().block_on(async {
        let (count, waker) = counter();
        let mut forever = pin!(sleep_until(Instant::now() + Duration::MAX));
        let mut too_far = pin!(sleep_until(Instant::now() + Duration::MAX));
        assert!(poll(forever.as_mut(), &waker).is_pending());
        assert!(poll(too_far.as_mut(), &waker).is_pending());
        sleep(Duration::from_secs(86_400 * 365 * 100)).await;
        assert!(poll(forever.as_mut(), &waker).is_pending());
        forever.as_mut().reset(Instant::now() + ms(1));
        sleep(ms(2)).await;
        assert_eq!((poll(forever.as_mut(), &waker), count.0.load(Ordering::SeqCst)), (Poll::Ready(()), 1));
        assert!(!too_far.is_elapsed());
    });
}

/// A test that has nothing else to wait for would hang otherwise.
#[test]
fn a_sleep_that_is_too_long_to_be_counted_takes_thirty_years() {
    paused().block_on(async {
        // The last one fits into an instant, but not into a deadline.
        for duration in [Duration::MAX, Duration::MAX - ms(1), Duration::from_secs(20_000_000_000)] {
            let start = Instant::now();
            sleep(duration).await;
            assert_eq!(start.elapsed(), Duration::from_secs(86_400 * 365 * 30));
        }
    });
}

#[test]
fn a_reset_to_later_wakes_only_at_the_new_deadline() {
    paused().block_on(async {
        let (count, waker) = counter();
        let mut late = pin!(sleep(ms(10)));
        assert!(poll(late.as_mut(), &waker).is_pending());
        late.as_mut().reset(Instant::now() + ms(50));
        assert_eq!(late.deadline(), Instant::now() + ms(50));
        sleep(ms(49)).await;
        assert_eq!(count.0.load(Ordering::SeqCst), 0);
        sleep(ms(1)).await;
        assert_eq!(count.0.load(Ordering::SeqCst), 1, "without another poll");
        assert!(late.is_elapsed());
    });
}

#[test]
fn time_does_not_stop_at_deadlines_from_which_a_sleep_was_put_off() {
    paused().block_on(async {
        let (count, waker) = counter();
        let start = Instant::now();
        let mut late = pin!(sleep(ms(10)));
        assert!(poll(late.as_mut(), &waker).is_pending());
        for millis in [20, 5_000, 6_000, 5_500] {
            late.as_mut().reset(start + ms(millis));
            assert!(poll(late.as_mut(), &waker).is_pending());
        }
        // A task that looks at the clock whenever it moves.
        let mut stops = Vec::new();
        while !late.is_elapsed() {
            sleep(Duration::from_secs(1)).await;
            stops.push(start.elapsed().as_millis());
            assert_eq!(count.0.load(Ordering::SeqCst), usize::from(late.is_elapsed()));
        }
        assert_eq!(stops, [1_000, 2_000, 3_000, 4_000, 5_000, 6_000]);
        assert_eq!(poll(late.as_mut(), &waker), Poll::Ready(()));
        late.as_mut().reset(start + ms(7_000));
        late.await;
        assert_eq!(start.elapsed(), ms(7_000));
    });
}

#[test]
fn a_reset_to_earlier_or_the_past_wakes_earlier() {
    paused().block_on(async {
        for millis in [20, 0] {
            let (count, waker) = counter();
            let mut early = pin!(sleep(ms(100)));
            assert!(poll(early.as_mut(), &waker).is_pending());
            early.as_mut().reset(Instant::now() + ms(millis));
            sleep(ms(millis + 1)).await;
            assert_eq!(count.0.load(Ordering::SeqCst), 1);
        }
    });
}

#[test]
fn a_reset_to_the_past_is_over_at_the_next_poll_and_wakes_without_one() {
    let real = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for runtime in [paused(), real] {
        runtime.block_on(async {
            let (count, waker) = counter();
            let start = Instant::now();
            let mut early = pin!(sleep(Duration::from_secs(100)));
            assert!(poll(early.as_mut(), &waker).is_pending());
            // The runtime has looked at its timers since `start`.
            sleep(ms(1)).await;
            early.as_mut().reset(start);
            assert_eq!(count.0.load(Ordering::SeqCst), 1);
            assert!(early.is_elapsed());
            assert_eq!(poll(early.as_mut(), &waker), Poll::Ready(()));
            assert_eq!(count.0.load(Ordering::SeqCst), 1, "once");
        });
    }
}

#[test]
fn a_sleep_that_is_over_can_be_started_again() {
    paused().block_on(async {
        let start = Instant::now();
        let mut again = pin!(sleep(ms(10)));
        for round in 1..=3 {
            again.as_mut().await;
            assert!(again.is_elapsed());
            assert_eq!(start.elapsed(), ms(10 * round));
            again.as_mut().reset(Instant::now() + ms(10));
            assert!(!again.is_elapsed());
        }
    });
}

#[test]
fn a_sleep_that_was_reset_is_elapsed_without_a_poll() {
    paused().block_on(async {
        let (mut fresh, mut moved, mut over) = (pin!(sleep(ms(10))), pin!(sleep(ms(10))), pin!(sleep(ms(0))));
        over.as_mut().await;
        for sleep in [moved.as_mut(), over.as_mut()] {
            sleep.reset(Instant::now() + ms(20));
        }
        advance(ms(19)).await;
        assert!(!moved.is_elapsed() && !over.is_elapsed());
        advance(ms(1)).await;
        assert!(moved.is_elapsed() && over.is_elapsed());
        assert!(!fresh.is_elapsed(), "as in Tokio, a sleep that was neither polled nor reset is not");
        moved.as_mut().reset(Instant::now() + ms(1));
        assert!(!moved.is_elapsed());
        let waker = Waker::noop();
        assert!(poll(moved.as_mut(), waker).is_pending());
        assert_eq!(poll(over.as_mut(), waker), Poll::Ready(()));
        assert_eq!(poll(fresh.as_mut(), waker), Poll::Ready(()));
    });
}

/// No thread of the runtime looks at the clock meanwhile.
#[test]
fn a_sleep_that_was_reset_is_elapsed_also_while_its_runtime_is_idle() {
    let _watchdog = support::watchdog();
    support::each_kind(|runtime| {
        let _entered = runtime.enter();
        let mut moved = pin!(sleep(Duration::from_secs(1000)));
        moved.as_mut().reset(Instant::now() + ms(5));
        support::until("the sleep is elapsed", || moved.is_elapsed());
        assert_eq!(poll(moved.as_mut(), Waker::noop()), Poll::Ready(()));
        assert!(moved.is_elapsed());
    });
}

#[test]
fn the_last_waker_is_the_one_that_is_woken() {
    paused().block_on(async {
        let (first, first_waker) = counter();
        let (second, second_waker) = counter();
        let mut moved = pin!(sleep(ms(10)));
        assert!(poll(moved.as_mut(), &first_waker).is_pending());
        assert!(poll(moved.as_mut(), &second_waker).is_pending());
        drop(first_waker);
        assert_eq!(Arc::strong_count(&first), 1, "the replaced waker was dropped");
        sleep(ms(10)).await;
        assert_eq!((first.0.load(Ordering::SeqCst), second.0.load(Ordering::SeqCst)), (0, 1));
    });
}

#[test]
fn a_dropped_sleep_lets_go_of_its_waker_and_time_does_not_advance_for_it() {
    paused().block_on(async {
        let start = Instant::now();
        let (count, waker) = counter();
        {
            let mut dropped = pin!(sleep(ms(10)));
            assert!(poll(dropped.as_mut(), &waker).is_pending());
        }
        drop(waker);
        assert_eq!(Arc::strong_count(&count), 1);
        sleep(ms(30)).await;
        assert_eq!((start.elapsed(), count.0.load(Ordering::SeqCst)), (ms(30), 0));
    });
}

#[test]
fn a_sleep_may_be_dropped_on_another_thread_than_it_was_polled_on() {
    paused().block_on(async {
        let (count, waker) = counter();
        let mut moved = Box::pin(sleep(ms(10)));
        assert!(poll(moved.as_mut(), &waker).is_pending());
        std::thread::spawn(move || drop(moved)).join().unwrap();
        sleep(ms(20)).await;
        assert_eq!(count.0.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn a_sleep_may_be_polled_on_a_thread_that_is_in_no_runtime() {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut moved = {
        let _guard = runtime.handle().enter();
        Box::pin(sleep(Duration::from_secs(3_600)))
    };
    let moved = std::thread::spawn(move || {
        assert!(poll(moved.as_mut(), Waker::noop()).is_pending());
        // Not until now: it may take long until this thread begins.
        moved.as_mut().reset(Instant::now() + ms(20));
        moved
    })
    .join()
    .unwrap();
    let start = std::time::Instant::now();
    runtime.block_on(moved);
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[test]
fn many_tasks_sleep_in_order() {
    paused().block_on(async {
        let order = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let tasks: Vec<_> = (0..1_000_u64)
            .map(|i| {
                let (order, millis) = (order.clone(), i * 7919 % 1_000);
                runtime::spawn(async move {
                    sleep(ms(millis)).await;
                    order.lock().push(millis);
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let order = order.lock();
        assert_eq!(order.len(), 1_000);
        assert!(order.is_sorted());
    });
}

#[test]
fn real_time_passes_too() {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let start = std::time::Instant::now();
        sleep(ms(30)).await;
        assert!(start.elapsed() >= ms(30));
        assert!(start.elapsed() < Duration::from_secs(30));
    });
}

#[test]
fn a_loop_over_elapsed_sleeps_lets_other_tasks_run() {
    paused().block_on(async {
        let flag = Arc::new(AtomicUsize::new(0));
        let task = runtime::spawn({
            let flag = flag.clone();
            async move { flag.store(1, Ordering::SeqCst) }
        });
        let mut rounds = 0;
        while flag.load(Ordering::SeqCst) == 0 {
            sleep(Duration::ZERO).await;
            rounds += 1;
            assert!(rounds < 100_000, "the budget does not end");
        }
        task.await.unwrap();
    });
}

#[test]
fn outside_of_a_runtime_it_panics_at_the_callers_line() {
    let location = Arc::new(parking_lot::Mutex::new(None));
    let previous = std::panic::take_hook();
    std::panic::set_hook(Box::new({
        let (location, this) = (location.clone(), std::thread::current().id());
        move |info| {
            if std::thread::current().id() == this {
                *location.lock() = info.location().map(|l| (l.file().to_owned(), l.line()));
            }
        }
    }));
    let line = line!() + 1;
    let result = std::panic::catch_unwind(|| sleep(ms(1)).is_elapsed());
    std::panic::set_hook(previous);
    assert!(result.is_err());
    assert_eq!(location.lock().take(), Some((file!().to_owned(), line)));
}

#[test]
fn a_sleep_that_outlives_its_runtime_is_woken_and_says_so() {
    let runtime = paused();
    let (count, waker) = counter();
    let (mut waiting, mut fresh) = runtime.block_on(async {
        let mut waiting = Box::pin(sleep(ms(10)));
        assert!(poll(waiting.as_mut(), &waker).is_pending());
        (waiting, Box::pin(sleep(ms(10))))
    });
    drop(runtime);
    assert_eq!(count.0.load(Ordering::SeqCst), 1);
    for sleep in [&mut waiting, &mut fresh] {
        let text = panic_text(|| assert!(poll(sleep.as_mut(), &waker).is_ready()));
        assert!(text.contains("was shut down"), "{text}");
    }
    waiting.as_mut().reset(Instant::now() + Duration::from_secs(3_600));
    let text = panic_text(|| assert!(poll(waiting.as_mut(), &waker).is_ready()));
    assert!(text.contains("was shut down"), "{text}");
}

#[test]
fn sleep_is_small_and_may_cross_threads() {
    fn send_sync<T: Send + Sync>() {}
    send_sync::<Sleep>();
    assert!(size_of::<Sleep>() <= 96, "{}", size_of::<Sleep>());
}
