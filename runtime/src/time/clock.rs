//! The clock that tests pause and move.

use std::time::Duration;

use crate::driver::time::TimeDriver;
use crate::driver::time::clock::ClockError;
use crate::runtime::handle::Handle;

/// Stops the runtime's clock.
///
/// From now on [`Instant::now`](super::Instant::now) returns the same instant until the clock is moved.
/// [`advance`] moves it. The runtime moves it, too: whenever nothing else can run, the clock jumps to the
/// earliest timer. So a test that sleeps for an hour takes no time, and always sees the same instants. The
/// jump waits for closures of [`spawn_blocking`](crate::Handle::spawn_blocking). It does not wait for I/O.
///
/// Only this crate's time stands still; [`std::time`] goes on. The clock stops at the next whole millisecond,
/// so that sleeps of whole milliseconds take exactly as long as asked.
///
/// # Panics
/// Outside of a runtime with time enabled; on a multi-thread runtime (use
/// [`Builder::new_current_thread`](crate::Builder::new_current_thread)); if time is already paused.
///
/// # Examples
/// ```
/// use runtime::time::{Duration, Instant, pause, sleep};
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// pause();
/// let start = Instant::now();
/// sleep(Duration::from_secs(3600)).await;
/// assert_eq!(start.elapsed(), Duration::from_secs(3600));
/// # });
/// ```
#[track_caller]
pub fn pause() {
    let handle = Handle::current_for("time::pause");
    or_panic(handle.time_driver("time::pause").pause());
    handle.shared().driver.clock_changed();
}

/// Lets the runtime's clock run on from its present reading, after [`pause`].
///
/// # Panics
/// Outside of a runtime with time enabled; if time is not paused.
///
/// # Examples
/// ```
/// use runtime::time::{Duration, Instant, pause, resume, sleep};
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// pause();
/// sleep(Duration::from_secs(3600)).await;
/// resume();
/// let start = Instant::now();
/// sleep(Duration::from_millis(5)).await;
/// assert!(start.elapsed() >= Duration::from_millis(5));
/// # });
/// ```
#[track_caller]
pub fn resume() {
    let handle = Handle::current_for("time::resume");
    or_panic(handle.time_driver("time::resume").resume());
    handle.shared().driver.clock_changed();
}

/// Advances the paused clock by `duration`, in one jump, and lets the tasks run whose timers are due then.
///
/// Timers fire in the order of their deadlines, but all see the new time: a task that sleeps in a loop sleeps
/// from there. To go through each deadline on the way, [`sleep`](super::sleep()) instead. When this returns,
/// all due timers have fired, and their tasks have had one turn. It does not wait for these tasks to end. If
/// `duration` leads beyond the last instant that can be counted, the clock stops there.
///
/// # Panics
/// When polled outside of a runtime with time enabled; if time is not paused.
///
/// # Cancel safety
/// Not safe to retry: time has moved once this was polled.
///
/// # Examples
/// ```
/// use runtime::time::{Duration, Instant, advance, pause};
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// pause();
/// let start = Instant::now();
/// advance(Duration::from_secs(60)).await;
/// assert_eq!(start.elapsed(), Duration::from_secs(60));
/// # });
/// ```
pub async fn advance(duration: Duration) {
    or_panic(Handle::current_for("time::advance").time_driver("time::advance").advance(duration));
    crate::task::yield_now().await;
}

/// The time of the calling thread's runtime, if the runtime has a clock of its own.
#[cold]
pub(super) fn runtime_now() -> Option<std::time::Instant> {
    let handle = Handle::try_current().ok()?;
    handle.try_time_driver().map(TimeDriver::now_instant)
}

#[track_caller]
fn or_panic(result: Result<(), ClockError>) {
    if let Err(error) = result {
        panic!("{error}");
    }
}
