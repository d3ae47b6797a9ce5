//! What can wake a sleeping thread: descriptors, timers, and an unpark from any thread.
//!
//! One thread at a time is the poller ([`try_become_poller`](Driver::try_become_poller)). It sleeps until an
//! event comes, a timer is due or another thread unparks it. Then it dispatches the events and gives the role
//! up. Any thread may fire timers ([`fire_timers`](Driver::fire_timers)), because each wheel has its own
//! lock.
//!
//! The driver wakes tasks through `std::task::Waker`, and knows no scheduler. Wakers that do not belong to
//! tasks are left to the caller: see `foreign.rs`.

pub mod foreign;
pub mod io;
mod rate_limiter;
pub mod time;

use std::time::Duration;

use crate::loom::sync::atomic::Ordering::{Relaxed, SeqCst};
use crate::loom::sync::atomic::{AtomicU64, AtomicUsize, fence};
use foreign::ForeignWakes;
use rate_limiter::RateLimiter;

/// No thread is the poller.
const NO_POLLER: usize = usize::MAX;
/// The value of `until` while no sleep in the driver has a published end. Either no thread sleeps there, or
/// the runtime has no timers. A thread that is about to publish an end looks at every wheel first, and once
/// more afterwards.
const AWAKE: u64 = 0;

/// The driver of one runtime, for descriptors and timers.
#[derive(Debug)]
pub struct Driver {
    /// `None` if the runtime has neither I/O nor time.
    io: Option<io::IoDriver>,
    time: Option<time::TimeDriver>,
    /// The poller: a hint for a thread that picks a sleeper.
    poller_index: AtomicUsize,
    /// When the poller's sleep ends, as a deadline of `time`; or [`AWAKE`]. See `scheduler/sleep/park.rs`.
    until: AtomicU64,
    rate_limiter: RateLimiter,
}

impl Driver {
    pub fn new(io: Option<io::IoDriver>, time: Option<time::TimeDriver>) -> Self {
        let io = if time.is_some() { io.map(io::IoDriver::with_alarm) } else { io };
        Self {
            io,
            time,
            poller_index: AtomicUsize::new(NO_POLLER),
            until: AtomicU64::new(AWAKE),
            rate_limiter: RateLimiter::new(),
        }
    }

    pub fn io(&self) -> Option<&io::IoDriver> {
        self.io.as_ref()
    }

    pub fn time(&self) -> Option<&time::TimeDriver> {
        self.time.as_ref()
    }

    /// Makes worker `index` the poller, unless there is one or there is nothing to poll.
    pub fn try_become_poller(&self, index: usize) -> Option<PollerGuard<'_>> {
        let poller = self.io.as_ref()?.try_poller()?;
        // Relaxed: a hint.
        self.poller_index.store(index, Relaxed);
        Some(PollerGuard { driver: self, poller })
    }

    /// Which worker is the poller, if there is one: a hint.
    pub fn poller(&self) -> Option<usize> {
        Some(self.poller_index.load(Relaxed)).filter(|&index| index != NO_POLLER)
    }

    /// Makes the poller return at once; without a poller, the next one.
    pub fn unpark(&self) {
        if let Some(io) = &self.io {
            io.unpark();
        }
    }

    /// Fires the timers that are due. Returns how many fired.
    pub fn fire_timers(&self, foreign: &ForeignWakes) -> usize {
        self.time.as_ref().map_or(0, |time| time.fire_due(foreign))
    }

    /// TokenTimerFence and TokenTimerRead of `scheduler/sleep/park.rs`: how long worker `index` may sleep
    /// outside of the driver because of its own timers. `None` if it has none, or if the poller wakes for
    /// them.
    pub fn own_timeout(&self, index: usize) -> Option<Duration> {
        let time = self.time.as_ref()?;
        let own = time.deadline_of(index);
        if own == time::Deadline::MAX {
            return None;
        }
        fence(SeqCst);
        // Relaxed: ordered by the fences.
        let until = self.until.load(Relaxed);
        let is_covered = until != AWAKE && until <= own;
        if is_covered { None } else { time.until(own) }
    }

    /// TokenTimerFence and TokenTimerRead of `scheduler/sleep/park.rs`, for a thread that is no worker. The
    /// thread has registered a timer that is the earliest of its wheel. Unparks the poller if the poller
    /// would sleep past `deadline`.
    pub fn timer_registered(&self, deadline: time::Deadline) {
        fence(SeqCst);
        // Relaxed: ordered by the fences. It is fine if no thread sleeps: the next poller sees the timer at
        // PollerEarliest or PollerAgain.
        let until = self.until.load(Relaxed);
        if until != AWAKE && until > deadline {
            self.unpark();
        }
    }

    /// The clock was paused, or runs again. The poller may be another thread, and sleep as long as the clock
    /// asked for before. So it has to look at the clock and the timers once more.
    pub fn clock_changed(&self) {
        self.unpark();
    }

    /// Moves a paused clock to the earliest timer. Returns false if there is none or the clock may not move;
    /// see [`TimeDriver::auto_advance`](time::TimeDriver::auto_advance).
    pub fn auto_advance(&self, is_needed: impl FnOnce() -> bool) -> bool {
        self.time.as_ref().is_some_and(|time| time.auto_advance(is_needed))
    }

    /// Wakes every task that waits for a descriptor or a timer, with an error. Refuses new ones from now on.
    /// Returns the foreign wakers.
    pub fn shutdown(&self) -> ForeignWakes {
        let foreign = ForeignWakes::new();
        if let Some(io) = &self.io {
            io.shutdown(&foreign);
        }
        if let Some(time) = &self.time {
            time.shutdown(&foreign);
        }
        foreign
    }
}

/// The right to poll the driver.
#[derive(Debug)]
pub struct PollerGuard<'a> {
    driver: &'a Driver,
    poller: io::Poller<'a>,
}

impl PollerGuard<'_> {
    /// Dispatches the events that are there, without waiting. Returns their number.
    pub fn poll(&mut self, foreign: &ForeignWakes) -> usize {
        self.poller.turn(Some(Duration::ZERO), foreign)
    }

    /// Waits for events or an unpark while the clock is paused. Returns the number of events.
    ///
    /// As [`sleep`](Self::sleep), but at PollerAgain it moves the clock, and returns at once if it did. While
    /// the clock may not move, no timer is due. If another thread registers a timer that is the earliest, or
    /// [changes](Driver::clock_changed) the clock, that thread unparks this one.
    ///
    /// The clock does not move if `is_needed` returns true. Then a thread has unparked this one, or is about
    /// to: the caller's own look, after it was announced as a sleeper, has found nothing.
    pub fn wait(&mut self, foreign: &ForeignWakes, is_needed: impl FnOnce() -> bool) -> usize {
        let Some(time) = &self.driver.time else {
            return self.poller.turn(None, foreign);
        };
        if !time.is_paused() {
            // The unpark of a thread that has let it run on may be used up by now.
            return self.sleep(None, foreign);
        }
        self.driver.until.store(time.earliest(), Relaxed);
        fence(SeqCst);
        let events = if time.auto_advance(is_needed) { 0 } else { self.poller.turn(None, foreign) };
        self.driver.until.store(AWAKE, Relaxed);
        events
    }

    /// PollerEarliest to PollerSleep of `scheduler/sleep/park.rs`: waits until an event comes, the earliest
    /// timer is due, another thread unparks it, or `limit` is over. Returns the number of events.
    ///
    /// If there are many timers, it sleeps a little past the earliest one: see `rate_limiter.rs`. Other
    /// threads are told the timer's own time.
    pub fn sleep(&mut self, limit: Option<Duration>, foreign: &ForeignWakes) -> usize {
        let Some(time) = &self.driver.time else {
            return self.poller.turn(limit, foreign);
        };
        let published = time.earliest();
        self.driver.until.store(published, Relaxed);
        fence(SeqCst);
        let deadline = time.earliest().min(published);
        let events = match deadline {
            time::Deadline::MAX => self.poller.turn(limit, foreign),
            deadline => self.sleep_until(time, deadline, limit, foreign),
        };
        self.driver.until.store(AWAKE, Relaxed);
        events
    }

    /// PollerSleep, with a timer.
    fn sleep_until(
        &mut self,
        time: &time::TimeDriver,
        deadline: time::Deadline,
        limit: Option<Duration>,
        foreign: &ForeignWakes,
    ) -> usize {
        let wake_at = self.driver.rate_limiter.wake_at(deadline);
        if !self.poller.set_alarm(time.system_nanos_at(wake_at)) {
            return self.poller.turn(time.until(deadline).into_iter().chain(limit).min(), foreign);
        }
        let events = self.poller.turn(limit, foreign);
        if events == 0 && !self.poller.is_alarm_set() {
            self.driver.rate_limiter.woke(wake_at);
        }
        events
    }
}

impl Drop for PollerGuard<'_> {
    fn drop(&mut self) {
        self.driver.poller_index.store(NO_POLLER, Relaxed);
    }
}
