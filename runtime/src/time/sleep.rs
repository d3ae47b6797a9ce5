//! Waiting until an instant.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use pin_project_lite::pin_project;

use crate::coop::poll_proceed;
use crate::driver::time::clock::was_ever_paused;
use crate::driver::time::entry::{Entry, State};
use crate::driver::time::shard::ShutDown;
use crate::handle::Handle;

use super::Instant;

/// Waits for `duration`.
///
/// `duration` counts from this call, not from the first poll, and is a lower bound: timers count milliseconds, rounded
/// up. A zero `duration` is over at the first poll, [`Duration::MAX`] never. For work at regular intervals use
/// [`interval`](super::interval()), which does not drift.
///
/// # Panics
/// Outside of a runtime (call it in a task, or after [`Handle::enter`](crate::Handle::enter)); on a runtime without time
/// enabled. When polled after that runtime was shut down.
///
/// # Cancel safety
/// Safe: dropping it stops the wait and loses nothing else.
///
/// # Examples
/// ```
/// use runtime::time::{Duration, sleep};
/// # runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
/// sleep(Duration::from_millis(100)).await;
/// println!("100 ms have passed");
/// # });
/// ```
#[track_caller]
pub fn sleep(duration: Duration) -> Sleep {
    Sleep::after(duration, "sleep")
}

/// Waits until `deadline`.
///
/// One that has passed is over at the first poll. Otherwise as [`sleep`].
///
/// # Panics
/// As [`sleep`].
///
/// # Cancel safety
/// Safe: dropping it stops the wait and loses nothing else.
///
/// # Examples
/// ```
/// use runtime::time::{Duration, Instant, sleep_until};
/// # runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
/// let deadline = Instant::now() + Duration::from_millis(100);
/// sleep_until(deadline).await;
/// assert!(Instant::now() >= deadline);
/// # });
/// ```
#[track_caller]
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep::until(deadline, "sleep_until")
}

pin_project! {
    /// The future returned by [`sleep`] and [`sleep_until`].
    ///
    /// It belongs to the runtime that was current when it was made, and may be polled anywhere. To poll it repeatedly, as
    /// a branch of `select!` in a loop, [pin](std::pin::pin) it first; to store it in an `Unpin` type, use
    /// `Pin<Box<Sleep>>`. Once it is over, it is ready at each further poll.
    ///
    /// # Examples
    /// ```
    /// use runtime::time::{Duration, Instant, sleep};
    /// # runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
    /// let start = Instant::now();
    /// let mut idle = std::pin::pin!(sleep(Duration::from_secs(1)));
    /// // Something happened: count anew.
    /// idle.as_mut().reset(Instant::now() + Duration::from_secs(5));
    /// idle.await;
    /// assert_eq!(start.elapsed(), Duration::from_secs(5));
    /// # });
    /// ```
    #[must_use = "futures do nothing unless awaited"]
    pub struct Sleep {
        handle: Handle,
        deadline: Instant,
        // The wheel that `entry` is registered in, if it is.
        wheel: u32,
        // The deadline was in the future when this was made.
        is_ahead: bool,
        // This future is its owner, in the words of `entry.rs`.
        #[pin]
        entry: Entry,
    }

    impl PinnedDrop for Sleep {
        fn drop(this: Pin<&mut Self>) {
            this.cancel();
        }
    }
}

impl Sleep {
    #[track_caller]
    pub(super) fn after(duration: Duration, what: &str) -> Sleep {
        Self::new(Instant::now() + duration, !duration.is_zero(), what)
    }

    #[track_caller]
    pub(super) fn until(deadline: Instant, what: &str) -> Sleep {
        Self::new(deadline, false, what)
    }

    #[track_caller]
    fn new(deadline: Instant, is_ahead: bool, what: &str) -> Sleep {
        let handle = Handle::current_for(what);
        // Panics here, at the user's line, rather than in a later poll.
        handle.time_driver(what);
        Sleep { handle, deadline, wheel: 0, is_ahead, entry: Entry::new() }
    }

    /// Returns the instant at which it is over.
    ///
    /// # Examples
    /// ```
    /// use runtime::time::{Duration, Instant, sleep_until};
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let deadline = Instant::now() + Duration::from_secs(1);
    /// assert_eq!(sleep_until(deadline).deadline(), deadline);
    /// # });
    /// ```
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Says whether it is over, as far as the runtime has noticed: it looks when it is polled, and when its timer fires.
    ///
    /// # Examples
    /// ```
    /// use runtime::time::{Duration, sleep};
    /// # runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
    /// let mut sleep = std::pin::pin!(sleep(Duration::from_secs(1)));
    /// assert!(!sleep.is_elapsed());
    /// sleep.as_mut().await;
    /// assert!(sleep.is_elapsed());
    /// # });
    /// ```
    pub fn is_elapsed(&self) -> bool {
        self.entry.state() == State::Fired
    }

    /// Moves the deadline, earlier or later, and starts the wait again if it was over.
    ///
    /// Whoever waits already is woken at the new deadline, without another poll.
    ///
    /// # Examples
    /// ```
    /// use runtime::time::{Duration, Instant, sleep};
    /// # runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
    /// let start = Instant::now();
    /// let mut sleep = std::pin::pin!(sleep(Duration::from_secs(1)));
    /// sleep.as_mut().reset(start + Duration::from_secs(2));
    /// sleep.await;
    /// assert_eq!(start.elapsed(), Duration::from_secs(2));
    /// # });
    /// ```
    pub fn reset(mut self: Pin<&mut Self>, deadline: Instant) {
        let waiting = self.as_mut().cancel();
        let me = self.as_mut().project();
        *me.deadline = deadline;
        *me.is_ahead = false;
        // SAFETY: `cancel` saw to it that the entry is in no wheel; `Pin<&mut Self>` makes us its owner.
        unsafe { me.entry.set_by_owner(State::Idle) };
        let Some(waker) = waiting else { return };
        if let Err(ShutDown(waker)) = self.as_mut().register(waker) {
            // The driver ended in between. The task is told as the driver would have told it.
            // SAFETY: as above.
            unsafe { self.project().entry.set_by_owner(State::ShutDown) };
            waker.wake();
        }
    }

    /// As `poll`, as a part of another operation: takes nothing from the budget, and does not read the clock if the
    /// deadline was ahead when it was last read; if it has passed since then, the next turn of the driver notices.
    pub(super) fn poll_as_limit(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // A test that moves the clock should not have to wait for a turn.
        let may_have_passed = !self.is_ahead || was_ever_paused();
        self.poll_elapsed(cx, may_have_passed)
    }

    fn poll_elapsed(mut self: Pin<&mut Self>, cx: &mut Context<'_>, may_have_passed: bool) -> Poll<()> {
        let me = self.as_mut().project();
        if me.entry.state() == State::Registered {
            let driver = me.handle.time_driver("sleep");
            // SAFETY: `Pin<&mut Self>` makes us the owner; registered in `wheel`.
            if unsafe { driver.update(&me.entry, *me.wheel as usize, cx.waker()) } {
                return Poll::Pending;
            }
        }
        match me.entry.state() {
            State::Fired => return Poll::Ready(()),
            State::ShutDown => panic_shut_down(),
            State::Idle | State::Registered => {}
        }
        if may_have_passed {
            let driver = me.handle.time_driver("sleep");
            if driver.has_passed((*me.deadline).into_std()) {
                // SAFETY: owner as above; `Idle`.
                unsafe { me.entry.set_by_owner(State::Fired) };
                return Poll::Ready(());
            }
        }
        match self.register(cx.waker().clone()) {
            Ok(()) => Poll::Pending,
            Err(_) => panic_shut_down(),
        }
    }

    /// Has the calling thread's wheel wake `waker` at the deadline. The entry must be in no wheel.
    fn register(self: Pin<&mut Self>, waker: Waker) -> Result<(), ShutDown> {
        let me = self.project();
        let driver = me.handle.time_driver("sleep");
        let wheel = me.handle.wheel_of_this_thread();
        *me.wheel = u32::try_from(wheel).expect("there are fewer wheels than threads");
        let deadline = driver.deadline_at((*me.deadline).into_std());
        // SAFETY: `Pin<&mut Self>` makes us the owner, and the entry is in no wheel; it is pinned, and not freed before
        // `drop` has cancelled it.
        let must_unpark = unsafe { driver.register(&me.entry, wheel, deadline, waker) }?;
        if must_unpark {
            me.handle.timer_registered(deadline);
        }
        Ok(())
    }

    /// Takes the timer out of its wheel. Returns the waker of whoever waits still.
    fn cancel(self: Pin<&mut Self>) -> Option<Waker> {
        let me = self.project();
        if me.entry.state() != State::Registered {
            // The usual end: no lock.
            return None;
        }
        let driver = me.handle.time_driver("sleep");
        // SAFETY: `Pin<&mut Self>`, here and in `drop`, makes us the owner; registered in `wheel`.
        let waker = unsafe { driver.cancel(&me.entry, *me.wheel as usize) };
        me.handle.shared().report_deadlock();
        waker
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let coop = ready!(poll_proceed(cx));
        ready!(self.poll_elapsed(cx, true));
        coop.made_progress();
        Poll::Ready(())
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep")
            .field("deadline", &self.deadline)
            .field("is_elapsed", &self.is_elapsed())
            .finish_non_exhaustive()
    }
}

#[cold]
fn panic_shut_down() -> ! {
    panic!(
        "the runtime that a timer belongs to was shut down, so it will never fire: \
         make the timer in the runtime that polls it, or keep its runtime longer"
    )
}
