//! Points in time that stand still when a test pauses the clock.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

use crate::driver::time::clock::was_ever_paused;

/// A point in time of the monotonic clock. Unlike [`std::time::Instant`], it follows [`pause`](super::pause)
/// and [`advance`](super::advance).
///
/// Where std's and Tokio's arithmetic panics, this one stops at the ends of what the system can represent
/// (hundreds of billions of years). So `Instant::now() + Duration::MAX` is a deadline that never comes.
///
/// # Examples
/// ```
/// use runtime::time::{Duration, Instant, sleep};
/// # runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
/// let start = Instant::now();
/// sleep(Duration::from_millis(20)).await;
/// assert!(start.elapsed() >= Duration::from_millis(20));
/// assert!(Instant::now() + Duration::MAX > Instant::now());
/// # });
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(std::time::Instant);

impl Instant {
    /// Returns the current time of the calling thread's runtime, if its clock was paused; otherwise the
    /// system's.
    ///
    /// Costs as much as std's unless a clock in this process was paused.
    ///
    /// # Examples
    /// ```
    /// let now = runtime::time::Instant::now();
    /// # let _ = now;
    /// ```
    #[inline]
    pub fn now() -> Instant {
        let of_runtime = if was_ever_paused() { super::clock::runtime_now() } else { None };
        Instant(of_runtime.unwrap_or_else(std::time::Instant::now))
    }

    /// Makes an instant from one of the standard library.
    ///
    /// # Examples
    /// ```
    /// let std = std::time::Instant::now();
    /// assert_eq!(runtime::time::Instant::from_std(std).into_std(), std);
    /// ```
    pub fn from_std(std: std::time::Instant) -> Instant {
        Instant(std)
    }

    /// Returns this as an instant of the standard library.
    ///
    /// # Examples
    /// ```
    /// let std: std::time::Instant = runtime::time::Instant::now().into_std();
    /// # let _ = std;
    /// ```
    pub fn into_std(self) -> std::time::Instant {
        self.0
    }

    /// Returns the time from `earlier` to this; zero if `earlier` is later.
    ///
    /// # Examples
    /// ```
    /// use runtime::time::{Duration, Instant};
    /// let now = Instant::now();
    /// assert_eq!((now + Duration::from_secs(2)).duration_since(now), Duration::from_secs(2));
    /// assert_eq!(now.duration_since(now + Duration::from_secs(2)), Duration::ZERO);
    /// ```
    pub fn duration_since(&self, earlier: Instant) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }

    /// Returns the time from `earlier` to this; `None` if `earlier` is later.
    ///
    /// # Examples
    /// ```
    /// use runtime::time::{Duration, Instant};
    /// let now = Instant::now();
    /// assert_eq!(now.checked_duration_since(now + Duration::from_secs(2)), None);
    /// ```
    pub fn checked_duration_since(&self, earlier: Instant) -> Option<Duration> {
        self.0.checked_duration_since(earlier.0)
    }

    /// Returns the time from `earlier` to this; zero if `earlier` is later.
    ///
    /// # Examples
    /// ```
    /// use runtime::time::{Duration, Instant};
    /// let now = Instant::now();
    /// assert_eq!(now.saturating_duration_since(now + Duration::from_secs(2)), Duration::ZERO);
    /// ```
    pub fn saturating_duration_since(&self, earlier: Instant) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }

    /// Returns the time from this until now; zero if this lies ahead.
    ///
    /// # Examples
    /// ```
    /// use runtime::time::{Duration, Instant};
    /// assert_eq!((Instant::now() + Duration::from_secs(60)).elapsed(), Duration::ZERO);
    /// ```
    pub fn elapsed(&self) -> Duration {
        Instant::now().saturating_duration_since(*self)
    }

    /// Returns this plus `duration`; `None` if the sum cannot be represented.
    ///
    /// # Examples
    /// ```
    /// use runtime::time::{Duration, Instant};
    /// assert_eq!(Instant::now().checked_add(Duration::MAX), None);
    /// ```
    pub fn checked_add(&self, duration: Duration) -> Option<Instant> {
        self.0.checked_add(duration).map(Instant)
    }

    /// Returns this minus `duration`; `None` if the difference cannot be represented.
    ///
    /// # Examples
    /// ```
    /// use runtime::time::{Duration, Instant};
    /// let now = Instant::now();
    /// assert!(now.checked_sub(Duration::from_nanos(1)).unwrap() < now);
    /// ```
    pub fn checked_sub(&self, duration: Duration) -> Option<Instant> {
        self.0.checked_sub(duration).map(Instant)
    }
}

/// Applies `step` to `start` in parts of `distance`, as far as the result can be represented, and at most for
/// the whole `distance`.
#[cold]
fn as_far_as_possible(
    start: std::time::Instant,
    distance: Duration,
    step: impl Fn(&std::time::Instant, Duration) -> Option<std::time::Instant>,
) -> Instant {
    let mut reached = start;
    let mut stride = distance;
    // Halving a `Duration` ends at zero after some 94 rounds.
    while !stride.is_zero() {
        match step(&reached, stride) {
            Some(next) => reached = next,
            None => stride /= 2,
        }
    }
    Instant(reached)
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, duration: Duration) -> Instant {
        match self.0.checked_add(duration) {
            Some(sum) => Instant(sum),
            None => as_far_as_possible(self.0, duration, std::time::Instant::checked_add),
        }
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;

    fn sub(self, duration: Duration) -> Instant {
        match self.0.checked_sub(duration) {
            Some(difference) => Instant(difference),
            None => as_far_as_possible(self.0, duration, std::time::Instant::checked_sub),
        }
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

impl Sub for Instant {
    type Output = Duration;

    /// As [`duration_since`](Instant::duration_since): zero if `earlier` is later.
    fn sub(self, earlier: Instant) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }
}

impl From<std::time::Instant> for Instant {
    fn from(std: std::time::Instant) -> Instant {
        Instant(std)
    }
}

impl From<Instant> for std::time::Instant {
    fn from(instant: Instant) -> std::time::Instant {
        instant.0
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
