//! Time that jumps: a paused clock by years, and a process that was stopped for a while. Each timer fires
//! once, and no task is taken for stuck because no thread had the CPU.

mod support;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use runtime::time::{Duration, Instant, MissedTickBehavior, advance, interval, sleep};
use support::{build, builder, in_child, until, watchdog};

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

#[test]
fn a_jump_by_a_century_fires_what_is_due_then() {
    let runtime = builder(0).start_paused(true).build().unwrap();
    let fired = Arc::new(AtomicUsize::new(0));
    runtime.block_on(async {
        let start = Instant::now();
        let sleeps: Vec<_> = [Duration::from_millis(1), Duration::from_secs(1), YEAR, 99 * YEAR, 101 * YEAR]
            .map(|duration| {
                let fired = fired.clone();
                runtime::spawn(async move {
                    sleep(duration).await;
                    fired.fetch_add(1, SeqCst);
                })
            })
            .into();
        let mut burst = interval(Duration::from_secs(1));
        let mut skip = interval(Duration::from_secs(1));
        skip.set_missed_tick_behavior(MissedTickBehavior::Skip);
        assert_eq!((burst.tick().await, skip.tick().await), (start, start));
        runtime::task::yield_now().await;
        assert_eq!(fired.load(SeqCst), 0);
        advance(100 * YEAR).await;
        runtime::task::yield_now().await;
        assert_eq!((start.elapsed(), fired.load(SeqCst)), (100 * YEAR, 4));
        // One makes up for what was missed, as far as it is asked to; the other leaves it out.
        for seconds in 1..100 {
            assert_eq!(burst.tick().await, start + Duration::from_secs(seconds));
        }
        assert_eq!(skip.tick().await, start + Duration::from_secs(1));
        assert_eq!(start.elapsed(), 100 * YEAR);
        assert_eq!(skip.tick().await, start + 100 * YEAR + Duration::from_secs(1));
        for sleep in sleeps {
            sleep.await.unwrap();
        }
        assert_eq!((start.elapsed(), fired.load(SeqCst)), (101 * YEAR, 5));
    });
}

/// Stops this process for a second.
fn stop_this_process() {
    let id = std::process::id();
    let stop = format!("kill -STOP {id}; sleep 1; kill -CONT {id}");
    assert!(Command::new("sh").args(["-c", &stop]).status().unwrap().success());
}

/// Takes ticks until `is_over`, and then until one is taken in time. Counts itself in `begun` at the first
/// tick. Returns when each was meant for.
async fn ticks(
    behavior: MissedTickBehavior,
    begun: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
) -> Vec<Instant> {
    let mut interval = interval(PERIOD);
    interval.set_missed_tick_behavior(behavior);
    let mut ticks = Vec::new();
    loop {
        let was_over = is_over.load(SeqCst);
        let tick = interval.tick().await;
        assert!(tick <= Instant::now(), "too early");
        if ticks.is_empty() {
            begun.fetch_add(1, SeqCst);
        }
        ticks.push(tick);
        if was_over && tick.elapsed() < PERIOD {
            return ticks;
        }
    }
}

const PERIOD: Duration = Duration::from_millis(20);

#[test]
fn a_process_that_was_stopped_fires_each_timer_once_and_starts_no_crowd_of_threads() {
    let _watchdog = watchdog();
    if !in_child("a_process_that_was_stopped_fires_each_timer_once_and_starts_no_crowd_of_threads", &[]) {
        return;
    }
    let runtime = build(2);
    let (fired, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    for i in 0..50 {
        let fired = fired.clone();
        runtime.spawn(async move {
            let due = Instant::now() + Duration::from_millis(30 * i);
            runtime::time::sleep_until(due).await;
            assert!(Instant::now() >= due);
            fired.fetch_add(1, SeqCst);
        });
    }
    // The workers are in the middle of something, and something waits.
    for _ in 0..4 {
        let is_over = is_over.clone();
        runtime.spawn(async move {
            while !is_over.load(SeqCst) {
                let start = std::time::Instant::now();
                while start.elapsed() < Duration::from_micros(100) {}
                runtime::task::yield_now().await;
            }
        });
    }
    let behaviors = [MissedTickBehavior::Burst, MissedTickBehavior::Delay, MissedTickBehavior::Skip];
    let begun = Arc::new(AtomicUsize::new(0));
    let intervals = behaviors.map(|behavior| runtime.spawn(ticks(behavior, begun.clone(), is_over.clone())));
    until("the intervals tick", || begun.load(SeqCst) == 3);
    let before = runtime.metrics().spare_started_count();
    stop_this_process();
    until("all timers have fired", || fired.load(SeqCst) == 50);
    let started = runtime.metrics().spare_started_count() - before;
    is_over.store(true, SeqCst);
    let [burst, delay, skip] = intervals.map(|ticks| runtime.block_on(ticks).unwrap());
    let gaps = |ticks: &[Instant]| ticks.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>();
    assert!(gaps(&burst).iter().all(|&gap| gap == PERIOD), "a tick was left out");
    assert!(gaps(&delay).iter().all(|&gap| gap >= PERIOD), "two ticks are too close");
    assert!(
        gaps(&skip).iter().all(|gap| gap.as_nanos() % PERIOD.as_nanos() == 0),
        "not a multiple of the period"
    );
    assert!(gaps(&skip).iter().any(|&gap| gap > 20 * PERIOD), "it has not been stopped");
    assert_eq!(fired.load(SeqCst), 50);
    assert!(started < 20, "{started} spare workers for a process that was stopped");
}
