//! Waiting until an instant.

use std::fmt;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use pin_project_lite::pin_project;

use crate::coop::{poll_has_budget, spend};
use crate::driver::time::entry::{TimerEntry, TimerState};
use crate::driver::time::shard::{ShardRef, ShutDown};
use crate::driver::time::{Deadline, TimeDriver};
use crate::runtime::handle::Handle;
use crate::util::as_tokio;

use super::Instant;

/// Waits for `duration`.
///
/// `duration` counts from this call, not from the first poll, and is a lower bound. It is rounded up to
/// eighths of a millisecond, or to whole milliseconds once the clock has been [paused](super::pause). If
/// thousands of timers a second are due, several share a wake of their thread, up to 0.3 milliseconds later.
/// A zero `duration` is over at the first poll. A `duration` that ends more than 584 years after the runtime
/// began, such as [`Duration::MAX`], counts as thirty years.
///
/// A `duration` that has passed before the first poll is over at once, or at the runtime's next look at its
/// timers, which does not wait for anything. For work at regular intervals use
/// [`interval`](super::interval()), which does not drift.
///
/// # Panics
/// Outside of a runtime (call it in a task, or after [`Handle::enter`](crate::Handle::enter)); on a runtime
/// without time enabled. When polled after that runtime was shut down.
///
/// # Cancel safety
/// Safe: dropping it stops the wait, and nothing else is lost.
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
/// A deadline that has passed is over at the first poll, if the runtime has looked at the clock since.
/// Otherwise it is over at the runtime's next look at its timers, which does not wait for anything. All else
/// is as in [`sleep`].
///
/// # Panics
/// As [`sleep`].
///
/// # Cancel safety
/// Safe: dropping it stops the wait, and nothing else is lost.
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
    /// It belongs to the runtime that was current when it was made, and may be polled anywhere. To poll it
    /// repeatedly, as a branch of `select!` in a loop, [pin](std::pin::pin) it first. To store it in an
    /// `Unpin` type, use `Pin<Box<Sleep>>`. Once it is over, it is ready at each further poll.
    ///
    /// # Examples
    /// ```
    /// use runtime::time::{Duration, Instant, sleep};
    /// # let runtime = runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    /// # runtime.unwrap().block_on(async {
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
        // Taken out in `drop`, and nowhere else.
        handle: ManuallyDrop<Handle>,
        deadline: When,
        look: Look,
        // `is_elapsed` has found by the clock that the deadline of a `reset` has passed. The next poll must
        // not deny it. Relaxed: the flag guards no memory.
        noticed: AtomicBool,
        // The shard of the driver that `handle` keeps. Written before `entry` is registered there.
        shard: ShardRef,
        // This future is the owner of the entry, as `entry.rs` defines it.
        #[pin]
        entry: TimerEntry,
    }

    impl PinnedDrop for Sleep {
        fn drop(mut this: Pin<&mut Self>) {
            let me = this.as_mut().project();
            // SAFETY: it is taken out only here, and not used afterwards.
            let handle = unsafe { ManuallyDrop::take(me.handle) };
            // Mostly it has fired, and this takes no lock.
            if me.entry.state() == TimerState::Registered {
                // SAFETY: `Pin<&mut Self>` makes us the owner. The entry is registered in `shard`, which
                // `handle` keeps.
                drop(unsafe { me.shard.get().cancel(&me.entry) });
                handle.shared().report_deadlock();
            }
        }
    }
}

/// The time as which a duration counts that is too long for an instant or a deadline. As in Tokio, a paused
/// clock can jump over it.
const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// A deadline, in the unit in which it was given.
#[derive(Debug, Clone, Copy)]
enum When {
    /// In the driver's unit. It was ahead when this was made. If it has passed since then, the next turn of
    /// the driver notices.
    Ahead(Deadline),
    At(Instant),
}

/// The way to find out whether the deadline of a timer that is not registered has passed already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// By the clock's reading at the driver's last turn.
    Behind,
    /// By the clock.
    Now,
    /// As `Behind`, after a `reset`. `is_elapsed` looks by the clock, without a poll.
    Reset,
}

impl Sleep {
    #[track_caller]
    #[inline]
    pub(super) fn after(duration: Duration, what: &str) -> Sleep {
        // SAFETY: (1) it is used and copied only in this call, which leaves no runtime. It is not dropped: it
        // is a `ManuallyDrop`.
        if let Some(handle) = unsafe { Handle::borrow_current() } {
            if let Some(driver) = handle.try_time_driver() {
                if !driver.was_paused() {
                    if let Some(nanos) = in_nanos(duration) {
                        let counted = Handle::clone(&handle);
                        return Sleep::new(counted, When::Ahead(driver.deadline_after(nanos)), Look::Behind);
                    }
                }
            }
        }
        Sleep::at_end_of(duration, what)
    }

    /// Makes a sleep for a `duration` that is zero, or too long to be counted, or begins after a clock was
    /// paused. Panics if there is no time driver: at the user's line rather than in a later poll.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn at_end_of(duration: Duration, what: &str) -> Sleep {
        let handle = Handle::current_for(what);
        let driver = handle.time_driver(what);
        let now = Instant::now();
        let is_counted = |end: &Instant| driver.deadline_at(end.into_std()) != Deadline::MAX;
        let deadline = now.checked_add(duration).filter(is_counted).unwrap_or_else(|| now + FAR);
        Sleep::new(handle, When::At(deadline), Look::Now)
    }

    #[track_caller]
    pub(super) fn until(deadline: Instant, what: &str) -> Sleep {
        let handle = Handle::current_for(what);
        handle.time_driver(what);
        Sleep::new(handle, When::At(deadline), Look::Behind)
    }

    #[inline]
    fn new(handle: Handle, deadline: When, look: Look) -> Sleep {
        Sleep {
            handle: ManuallyDrop::new(handle),
            deadline,
            look,
            noticed: AtomicBool::new(false),
            shard: ShardRef::NONE,
            entry: TimerEntry::new(),
        }
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
        match self.deadline {
            When::At(instant) => instant,
            When::Ahead(nanos) => self.handle.time_driver("sleep").instant_at(nanos).into(),
        }
    }

    /// Returns whether it is over, as far as it has noticed. It looks when it is polled, and when its timer
    /// fires. After a [`reset`](Self::reset) it also looks when this is called, so it needs no poll.
    ///
    /// # Examples
    /// ```
    /// use runtime::time::{Duration, sleep};
    /// # let runtime = runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    /// # runtime.unwrap().block_on(async {
    /// let mut sleep = std::pin::pin!(sleep(Duration::from_secs(1)));
    /// assert!(!sleep.is_elapsed());
    /// sleep.as_mut().await;
    /// assert!(sleep.is_elapsed());
    /// # });
    /// ```
    pub fn is_elapsed(&self) -> bool {
        self.entry.is_over() || (self.look == Look::Reset && self.notice())
    }

    /// Looks by the clock whether the deadline has passed, if the timer is in no wheel.
    #[cold]
    fn notice(&self) -> bool {
        if !matches!(self.entry.state(), TimerState::Idle | TimerState::Fired) {
            return false;
        }
        let driver = self.handle.time_driver("sleep");
        let has_passed = self.deadline.in_nanos(driver) <= driver.now();
        if has_passed {
            self.noticed.store(true, Ordering::Relaxed);
        }
        has_passed
    }

    /// Moves the deadline, earlier or later, and starts the wait again if it was over.
    ///
    /// A task that waits already is woken at the new deadline, without another poll.
    ///
    /// # Examples
    /// ```
    /// use runtime::time::{Duration, Instant, sleep};
    /// # let runtime = runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    /// # runtime.unwrap().block_on(async {
    /// let start = Instant::now();
    /// let mut sleep = std::pin::pin!(sleep(Duration::from_secs(1)));
    /// sleep.as_mut().reset(start + Duration::from_secs(2));
    /// sleep.await;
    /// assert_eq!(start.elapsed(), Duration::from_secs(2));
    /// # });
    /// ```
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        self.reset_to(deadline, Look::Reset);
    }

    /// As [`reset`](Self::reset), but the next poll reads the clock.
    pub(super) fn reset_and_look(self: Pin<&mut Self>, deadline: Instant) {
        self.reset_to(deadline, Look::Now);
    }

    fn reset_to(mut self: Pin<&mut Self>, deadline: Instant, look: Look) {
        let me = self.as_mut().project();
        *me.deadline = When::At(deadline);
        *me.look = look;
        me.noticed.store(false, Ordering::Relaxed);
        if me.entry.state() == TimerState::Registered {
            let driver = me.handle.time_driver("sleep");
            // SAFETY: `Pin<&mut Self>` makes us the owner.
            let is_later = unsafe { driver.put_off(&me.entry, driver.deadline_at(deadline.into_std())) };
            // The timer may have fired in the meantime, for the old deadline or the new one.
            if is_later && me.entry.state() == TimerState::Registered {
                return;
            }
        }
        self.register_anew();
    }

    /// Takes the timer out of its wheel. If a task still waits, registers it again.
    fn register_anew(mut self: Pin<&mut Self>) {
        let waiting = self.as_mut().cancel();
        self.handle.shared().report_deadlock();
        // SAFETY: after `cancel` the entry is in no wheel; `Pin<&mut Self>` makes us its owner.
        unsafe { self.as_mut().project().entry.set_by_owner(TimerState::Idle) };
        let Some(waker) = waiting else { return };
        if self.has_passed() {
            // SAFETY: as above.
            unsafe { self.project().entry.set_by_owner(TimerState::Fired) };
            return waker.wake();
        }
        if let Err(ShutDown(waker)) = self.as_mut().register(waker) {
            // The driver ended in between. The task is told as the driver would have told it.
            // SAFETY: as above.
            unsafe { self.project().entry.set_by_owner(TimerState::ShutDown) };
            waker.wake();
        }
    }

    /// As `poll`, for a part of another operation: takes nothing from the budget.
    #[inline]
    pub(super) fn poll_as_limit(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let me = self.as_mut().project();
        if let When::Ahead(deadline) = *me.deadline {
            if me.entry.state() == TimerState::Idle {
                if let Some(driver) = me.handle.try_time_driver() {
                    if !driver.was_paused() {
                        let shard = driver.shard(me.handle.wheel_of_this_thread());
                        *me.shard = ShardRef::new(shard);
                        // SAFETY: `Pin<&mut Self>` makes us the owner of the entry, which is idle. The entry
                        // is pinned, and not freed before `drop` has cancelled it.
                        return match unsafe { shard.register(&me.entry, deadline, cx.waker().clone()) } {
                            Ok(false) => Poll::Pending,
                            Ok(true) => self.became_earliest(),
                            Err(refused) => panic_refused(refused),
                        };
                    }
                }
            }
        }
        // SAFETY: `Pin<&mut Self>` makes us the owner.
        if unsafe { me.entry.will_wake(cx.waker()) } {
            return Poll::Pending;
        }
        self.poll_slowly(cx)
    }

    /// The timer became the earliest of its wheel. Returns `Pending`.
    #[cold]
    #[inline(never)]
    fn became_earliest(self: Pin<&mut Self>) -> Poll<()> {
        let driver = self.handle.time_driver("sleep");
        // SAFETY: the timer was just registered there, and our handle keeps the shard.
        if driver.must_unpark_for(unsafe { self.shard.get() }) {
            self.handle.timer_registered(self.deadline.in_nanos(driver));
        }
        Poll::Pending
    }

    /// The rest of a poll. The quick cases were before: the first poll of a timer that was ahead, and another
    /// poll by the same task.
    #[inline(never)]
    fn poll_slowly(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let me = self.as_mut().project();
        // SAFETY: `Pin<&mut Self>` makes us the owner. If registered, the entry is in `shard`, which our
        // handle keeps.
        let is_registered = me.entry.state() == TimerState::Registered
            && unsafe { me.shard.get().update(&me.entry, cx.waker()) };
        if is_registered {
            return Poll::Pending;
        }
        match me.entry.state() {
            TimerState::Fired if me.entry.is_over() => return Poll::Ready(()),
            TimerState::ShutDown => panic_shut_down(),
            // It fired for a deadline from which it was put off, or it is not registered yet.
            TimerState::Fired | TimerState::Idle | TimerState::Registered => {}
        }
        let has_passed = self.has_passed();
        let state = if has_passed { TimerState::Fired } else { TimerState::Idle };
        // SAFETY: we are the owner, as above; the entry is not registered.
        unsafe { self.as_mut().project().entry.set_by_owner(state) };
        if has_passed {
            return Poll::Ready(());
        }
        match self.register(cx.waker().clone()) {
            Ok(()) => Poll::Pending,
            Err(refused) => panic_refused(refused),
        }
    }

    /// Whether the deadline has passed, as far as `look` asks for.
    fn has_passed(&self) -> bool {
        let driver = self.handle.time_driver("sleep");
        let deadline = self.deadline.in_nanos(driver);
        match (self.deadline, self.look) {
            (When::Ahead(_), _) if !driver.was_paused() => false,
            (_, Look::Behind | Look::Reset) if !driver.was_paused() => {
                driver.had_passed(deadline) || self.noticed.load(Ordering::Relaxed)
            }
            // A test that moves the clock should not have to wait for a turn.
            _ => deadline <= driver.now(),
        }
    }

    /// Has the calling thread's wheel wake `waker` at the deadline. The entry is in no wheel.
    #[inline(never)]
    fn register(self: Pin<&mut Self>, waker: Waker) -> Result<(), ShutDown> {
        let me = self.project();
        let driver = me.handle.time_driver("sleep");
        let deadline = me.deadline.in_nanos(driver);
        let shard = driver.shard(me.handle.wheel_of_this_thread());
        *me.shard = ShardRef::new(shard);
        // SAFETY: `Pin<&mut Self>` makes us the owner, and the entry is in no wheel. The entry is pinned, and
        // not freed before `drop` has cancelled it.
        let must_unpark = unsafe { driver.register(&me.entry, shard, deadline, waker) }?;
        if must_unpark {
            me.handle.timer_registered(deadline);
        }
        Ok(())
    }

    /// Takes the timer out of its wheel. Returns the waker of the task that still waits.
    #[inline(always)]
    fn cancel(self: Pin<&mut Self>) -> Option<Waker> {
        let me = self.project();
        if me.entry.state() != TimerState::Registered {
            // This is the usual end, and takes no lock.
            return None;
        }
        // SAFETY: `Pin<&mut Self>`, here and in `drop`, makes us the owner. The entry is registered in
        // `shard`, which our handle keeps.
        unsafe { me.shard.get().cancel(&me.entry) }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        ready!(poll_has_budget(cx));
        ready!(self.poll_as_limit(cx));
        spend();
        Poll::Ready(())
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep")
            .field("deadline", &self.deadline())
            .field("is_elapsed", &self.is_elapsed())
            .finish_non_exhaustive()
    }
}

impl When {
    #[inline]
    fn in_nanos(self, driver: &TimeDriver) -> Deadline {
        match self {
            When::At(instant) => driver.deadline_at(instant.into_std()),
            When::Ahead(nanos) => nanos,
        }
    }
}

/// Returns `None` for zero, and for more nanoseconds than a lifetime has.
#[inline]
fn in_nanos(duration: Duration) -> Option<u64> {
    // A quarter of the range of a `u64`, so no overflow has to be checked.
    let secs = u64::from(u32::try_from(duration.as_secs()).ok()?);
    Some(secs * 1_000_000_000 + u64::from(duration.subsec_nanos())).filter(|&nanos| nanos > 0)
}

#[cold]
#[inline(never)]
fn panic_refused(_: ShutDown) -> ! {
    panic_shut_down()
}

#[cold]
#[inline(never)]
fn panic_shut_down() -> ! {
    let theirs = "A Tokio 1.x context was found, but it is being shutdown.";
    let ours = "the runtime that a timer belongs to was shut down, so it will never fire: \
                make the timer in the runtime that polls it, or keep its runtime longer";
    panic!("{}", as_tokio::text(theirs, ours))
}
