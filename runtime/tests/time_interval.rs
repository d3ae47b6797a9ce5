//! `interval`, `interval_at`, `Interval` and `MissedTickBehavior`.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use futures_core::Stream;
use runtime::Runtime;
use runtime::time::{Duration, Instant, Interval, MissedTickBehavior, advance, interval, interval_at, sleep};

fn paused() -> Runtime {
    runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn ticks_come_at_their_times_whatever_the_work_between() {
    paused().block_on(async {
        let start = Instant::now();
        let mut interval = interval(ms(100));
        for round in 0..20 {
            assert_eq!(interval.tick().await, start + ms(100 * round));
            assert_eq!(start.elapsed(), ms(100 * round));
            sleep(ms(round * 4)).await;
        }
    });
}

/// Takes the ticks at 0 and 50 ms, works for 130 ms, and takes four more ticks. Returns when each of these
/// was meant for, and when it came, in milliseconds.
async fn after_missing(behavior: MissedTickBehavior) -> Vec<(u64, u64)> {
    let start = Instant::now();
    let since = |instant: Instant| (instant - start).as_millis() as u64;
    let mut interval = interval(ms(50));
    interval.set_missed_tick_behavior(behavior);
    assert_eq!(interval.missed_tick_behavior(), behavior);
    interval.tick().await;
    interval.tick().await;
    advance(ms(130)).await;
    let mut ticks = Vec::new();
    for _ in 0..4 {
        let tick = interval.tick().await;
        ticks.push((since(tick), since(Instant::now())));
    }
    ticks
}

#[test]
fn burst_makes_up_for_missed_ticks() {
    let ticks = paused().block_on(after_missing(MissedTickBehavior::Burst));
    assert_eq!(ticks, [(100, 180), (150, 180), (200, 200), (250, 250)]);
}

#[test]
fn delay_starts_anew_from_the_late_tick() {
    let ticks = paused().block_on(after_missing(MissedTickBehavior::Delay));
    assert_eq!(ticks, [(100, 180), (230, 230), (280, 280), (330, 330)]);
}

#[test]
fn skip_stays_at_multiples_of_the_period() {
    let ticks = paused().block_on(after_missing(MissedTickBehavior::Skip));
    assert_eq!(ticks, [(100, 180), (200, 200), (250, 250), (300, 300)]);
}

#[test]
fn a_little_late_is_not_missed() {
    paused().block_on(async {
        let start = Instant::now();
        let mut interval = interval(ms(50));
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        interval.tick().await;
        advance(ms(55)).await;
        assert_eq!(interval.tick().await, start + ms(50));
        assert_eq!(interval.tick().await, start + ms(100));
    });
}

#[test]
fn it_starts_when_told_and_may_start_in_the_past() {
    paused().block_on(async {
        sleep(ms(500)).await;
        let now = Instant::now();
        assert_eq!(interval_at(now + ms(30), ms(10)).tick().await, now + ms(30));
        let mut late = interval_at(now - ms(100), ms(60));
        assert_eq!(late.tick().await, now - ms(100));
        assert_eq!(late.tick().await, now - ms(40));
    });
}

#[test]
fn resets_move_the_next_tick() {
    paused().block_on(async {
        let start = Instant::now();
        let mut interval = interval(ms(100));
        interval.tick().await;
        sleep(ms(30)).await;
        interval.reset();
        assert_eq!(interval.tick().await, start + ms(130));
        interval.reset_immediately();
        assert_eq!(interval.tick().await, start + ms(130));
        interval.reset_after(ms(7));
        assert_eq!(interval.tick().await, start + ms(137));
        interval.reset_at(start + ms(200));
        assert_eq!(interval.tick().await, start + ms(200));
        assert_eq!(interval.tick().await, start + ms(300));
        assert_eq!(interval.period(), ms(100));
    });
}

#[test]
fn a_tick_that_is_moved_to_now_while_somebody_waits_for_it_comes_at_once() {
    paused().block_on(async {
        let mut interval = interval(ms(100));
        let start = interval.tick().await;
        let mut cx = Context::from_waker(Waker::noop());
        assert!(interval.poll_tick(&mut cx).is_pending());
        advance(ms(30)).await;
        interval.reset_immediately();
        assert_eq!(interval.poll_tick(&mut cx), Poll::Ready(start + ms(30)));
    });
}

#[test]
fn the_longest_period_ticks_once() {
    paused().block_on(async {
        let mut interval = interval(Duration::MAX);
        for behavior in [MissedTickBehavior::Burst, MissedTickBehavior::Delay, MissedTickBehavior::Skip] {
            interval.set_missed_tick_behavior(behavior);
            interval.reset_immediately();
            advance(ms(10)).await;
            interval.tick().await;
            assert!(interval.poll_tick(&mut Context::from_waker(Waker::noop())).is_pending());
        }
    });
}

#[test]
fn a_period_of_zero_is_refused_with_the_way_out() {
    paused().block_on(async {
        let payload = catch_unwind(AssertUnwindSafe(|| interval(Duration::ZERO))).unwrap_err();
        let text = payload.downcast_ref::<String>().unwrap();
        assert!(text.contains("longer than zero") && text.contains("yield_now"), "{text}");
    });
}

#[test]
fn it_is_a_stream_that_can_be_moved() {
    fn movable<T: Unpin + Send>(_: &T) {}
    paused().block_on(async {
        let start = Instant::now();
        let mut interval = interval(ms(10));
        movable::<Interval>(&interval);
        for round in 0..3 {
            let tick = poll_fn(|cx| Pin::new(&mut interval).poll_next(cx)).await;
            assert_eq!(tick, Some(start + ms(10 * round)));
        }
    });
}
