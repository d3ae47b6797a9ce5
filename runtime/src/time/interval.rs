//! Intervals, which tick at regular times.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;

use super::{Instant, Sleep};

/// A tick that is taken at most this late is not missed, because timers are rounded and tasks wait for their
/// turn.
const TOLERANCE: Duration = Duration::from_millis(5);

/// Returns an [`Interval`] that ticks now and then once each `period`.
///
/// Ticks have fixed times. So the work between them causes no drift, unlike in a loop that
/// [sleeps](super::sleep()).
///
/// # Panics
/// If `period` is zero; and as [`sleep`](super::sleep()).
///
/// # Examples
/// ```
/// use runtime::time::{Duration, Instant, interval};
/// # runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
/// let start = Instant::now();
/// let mut interval = interval(Duration::from_millis(10));
/// for _ in 0..3 {
///     interval.tick().await;
/// }
/// assert_eq!(start.elapsed(), Duration::from_millis(20));
/// # });
/// ```
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    Interval::new(Instant::now(), period, "interval")
}

/// Returns an [`Interval`] that ticks at `start` and then once each `period`.
///
/// # Panics
/// As [`interval`].
///
/// # Examples
/// ```
/// use runtime::time::{Duration, Instant, interval_at};
/// # runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
/// let start = Instant::now() + Duration::from_millis(50);
/// let mut interval = interval_at(start, Duration::from_millis(10));
/// assert_eq!(interval.tick().await, start);
/// # });
/// ```
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    Interval::new(start, period, "interval_at")
}

/// The behaviour of an [`Interval`] after a tick that was taken more than 5 ms late, because the task was
/// busy.
///
/// With a period of 50 ms, and 130 ms of work after the tick at 50:
/// ```text
/// Burst   50 ────work────▶ 180 181 200 250      all ticks are made up for, at their old times
/// Delay   50 ────work────▶ 180 230 280          a period from now
/// Skip    50 ────work────▶ 180 200 250          the next of the old times that lies ahead
/// ```
/// In each case the tick at 100 is taken at 180, at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MissedTickBehavior {
    /// Ticks at once until it has caught up. This is the default: there are as many ticks as periods.
    #[default]
    Burst,
    /// Ticks one period after the late tick was taken, and goes on from there. No two ticks are closer than a
    /// period.
    Delay,
    /// Leaves out the missed ticks. Ticks stay at multiples of the period after the start.
    Skip,
}

impl MissedTickBehavior {
    /// The time of the next tick, when the tick of time `tick` is taken at `now`, too late.
    fn next_tick(self, tick: Instant, now: Instant, period: Duration) -> Instant {
        match self {
            Self::Burst => tick + period,
            Self::Delay => now + period,
            Self::Skip => now + (period - remainder(now - tick, period)),
        }
    }
}

/// The rest of `time` after whole `period`s.
fn remainder(time: Duration, period: Duration) -> Duration {
    let nanos = time.as_nanos() % period.as_nanos();
    let per_second = Duration::from_secs(1).as_nanos();
    // Neither cast truncates, because the rest is less than `period`.
    Duration::new((nanos / per_second) as u64, (nanos % per_second) as u32)
}

/// Ticks at regular times; made by [`interval`] and [`interval_at`].
///
/// It is also a [`Stream`] of the times of its ticks, which never ends.
///
/// # Examples
/// ```
/// use runtime::time::{Duration, MissedTickBehavior, interval};
/// # runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
/// let mut interval = interval(Duration::from_secs(1));
/// interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
/// for _ in 0..3 {
///     interval.tick().await;
///     println!("about once a second");
/// }
/// # });
/// ```
#[derive(Debug)]
pub struct Interval {
    /// The time until the next tick. Boxed, so that an interval can be moved.
    next: Pin<Box<Sleep>>,
    period: Duration,
    missed_tick_behavior: MissedTickBehavior,
}

impl Interval {
    #[track_caller]
    fn new(start: Instant, period: Duration, what: &str) -> Interval {
        assert!(
            !period.is_zero(),
            "the period of `{what}` must be longer than zero: to tick always, use `yield_now`"
        );
        Interval {
            next: Box::pin(Sleep::until(start, what)),
            period,
            missed_tick_behavior: MissedTickBehavior::default(),
        }
    }

    /// Waits for the next tick. Returns the time for which the tick was meant, which is not after now.
    ///
    /// # Panics
    /// If the runtime in which the interval was made is shut down, and the tick has not come before.
    ///
    /// # Cancel safety
    /// Safe: if it is dropped before it is ready, it has taken no tick.
    ///
    /// # Examples
    /// ```
    /// use runtime::time::{Duration, interval};
    /// # let runtime = runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    /// # runtime.unwrap().block_on(async {
    /// let mut interval = interval(Duration::from_millis(10));
    /// let first = interval.tick().await;
    /// assert_eq!(interval.tick().await, first + Duration::from_millis(10));
    /// # });
    /// ```
    pub async fn tick(&mut self) -> Instant {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// Polls for the next tick, as [`tick`](Self::tick) does. The waker of the last `cx` is woken.
    ///
    /// # Panics
    /// As [`tick`](Self::tick).
    ///
    /// # Examples
    /// ```
    /// use runtime::time::{Duration, interval};
    /// # let runtime = runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    /// # runtime.unwrap().block_on(async {
    /// let mut interval = interval(Duration::from_millis(10));
    /// std::future::poll_fn(|cx| interval.poll_tick(cx)).await;
    /// # });
    /// ```
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        ready!(self.next.as_mut().poll(cx));
        let tick = self.next.deadline();
        let now = Instant::now();
        let next = if now > tick + TOLERANCE {
            self.missed_tick_behavior.next_tick(tick, now, self.period)
        } else {
            tick + self.period
        };
        // The sleep is over, so no task waits and this registers nothing. The next poll registers it.
        self.next.as_mut().reset_and_look(next);
        Poll::Ready(tick)
    }

    /// Moves the next tick to one period from now. The later ticks follow from there.
    ///
    /// # Examples
    /// ```
    /// use runtime::time::{Duration, Instant, interval, sleep};
    /// # let runtime = runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    /// # runtime.unwrap().block_on(async {
    /// let start = Instant::now();
    /// let mut interval = interval(Duration::from_millis(100));
    /// interval.tick().await;
    /// sleep(Duration::from_millis(50)).await;
    /// interval.reset();
    /// interval.tick().await;
    /// assert_eq!(start.elapsed(), Duration::from_millis(150));
    /// # });
    /// ```
    pub fn reset(&mut self) {
        self.reset_after(self.period);
    }

    /// Moves the next tick to now. The later ticks follow from there.
    ///
    /// # Examples
    /// ```
    /// use runtime::time::{Duration, Instant, interval};
    /// # let runtime = runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    /// # runtime.unwrap().block_on(async {
    /// let mut interval = interval(Duration::from_millis(100));
    /// interval.tick().await;
    /// interval.reset_immediately();
    /// assert_eq!(interval.tick().await, Instant::now());
    /// # });
    /// ```
    pub fn reset_immediately(&mut self) {
        self.reset_at(Instant::now());
    }

    /// Moves the next tick to `after` from now. The later ticks follow from there.
    ///
    /// # Examples
    /// ```
    /// use runtime::time::{Duration, Instant, interval};
    /// # let runtime = runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    /// # runtime.unwrap().block_on(async {
    /// let start = Instant::now();
    /// let mut interval = interval(Duration::from_millis(100));
    /// interval.reset_after(Duration::from_millis(20));
    /// assert_eq!(interval.tick().await, start + Duration::from_millis(20));
    /// assert_eq!(interval.tick().await, start + Duration::from_millis(120));
    /// # });
    /// ```
    pub fn reset_after(&mut self, after: Duration) {
        self.reset_at(Instant::now() + after);
    }

    /// Moves the next tick to `deadline`, which may have passed. The later ticks follow from there.
    ///
    /// # Examples
    /// ```
    /// use runtime::time::{Duration, Instant, interval};
    /// # let runtime = runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    /// # runtime.unwrap().block_on(async {
    /// let deadline = Instant::now() + Duration::from_millis(30);
    /// let mut interval = interval(Duration::from_millis(100));
    /// interval.reset_at(deadline);
    /// assert_eq!(interval.tick().await, deadline);
    /// # });
    /// ```
    pub fn reset_at(&mut self, deadline: Instant) {
        self.next.as_mut().reset_and_look(deadline);
    }

    /// Returns the behaviour after missed ticks.
    ///
    /// # Examples
    /// ```
    /// use runtime::time::{Duration, MissedTickBehavior, interval};
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// assert_eq!(interval(Duration::from_secs(1)).missed_tick_behavior(), MissedTickBehavior::Burst);
    /// # });
    /// ```
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.missed_tick_behavior
    }

    /// Sets the behaviour after missed ticks, from now on.
    ///
    /// # Examples
    /// ```
    /// use runtime::time::{Duration, MissedTickBehavior, interval};
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let mut interval = interval(Duration::from_secs(1));
    /// interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    /// # });
    /// ```
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.missed_tick_behavior = behavior;
    }

    /// Returns the time from one tick to the next.
    ///
    /// # Examples
    /// ```
    /// use runtime::time::{Duration, interval};
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// assert_eq!(interval(Duration::from_secs(1)).period(), Duration::from_secs(1));
    /// # });
    /// ```
    pub fn period(&self) -> Duration {
        self.period
    }
}

impl Stream for Interval {
    type Item = Instant;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Instant>> {
        self.poll_tick(cx).map(Some)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, None)
    }
}
