//! How one thread sleeps: in the driver if it is free, else on its own token.
//!
//! ```text
//!            park              unpark
//!   EMPTY ──────────▶ PARKED ──────────▶ NOTIFIED ──▶ EMPTY (the sleep ends)
//!     │  └──────▶ IN_DRIVER ───────────────▲  ▲
//!     └────────────────────────────────────┼──┘ unpark before park: the next sleep ends at once
//! ```
//! - ParkShow: the sleeper moves EMPTY to PARKED or IN_DRIVER. If it finds NOTIFIED instead, it does not
//!   sleep, and goes on with ParkTake.
//! - ParkSleep: the sleeper sleeps on its thread's token, or in the driver's poll.
//! - ParkTake: the sleeper swaps EMPTY in.
//! - UnparkSwap: the unparker swaps NOTIFIED in.
//! - UnparkTell: if UnparkSwap found PARKED, the unparker unparks the thread. If UnparkSwap found IN_DRIVER,
//!   it wakes the driver.
//!
//! **No lost unpark.** ParkShow, ParkTake and UnparkSwap are read-modify-writes of one word. If UnparkSwap
//! comes before ParkShow, ParkShow finds NOTIFIED. If UnparkSwap comes after ParkShow, UnparkSwap finds where
//! the sleeper is, and UnparkTell leaves a token there: the thread's token, or the event descriptor's count.
//! The token ends ParkSleep, whether ParkSleep has begun or not. A token that is left after ParkTake ends one
//! later sleep early, and every sleeper has to allow for that anyway.
//!
//! UnparkSwap's release and ParkTake's acquire order what came before the unpark before what follows the
//! sleep. The sleeping thread may change. ParkShow's release and UnparkSwap's acquire make sure that the
//! unparker finds the present one.
//!
//! # Timers
//! The worker in the driver sleeps at most until the earliest deadline on any wheel. A worker that finds the
//! driver taken looks at the earliest deadline on its own wheel. It sleeps untimed if the worker in the
//! driver wakes early enough for that deadline, else until that deadline. So a worker's timer wakes no other
//! thread, and one timer mostly wakes one thread (spare workers share a wheel).
//! ```text
//! In the driver                               On the token, or registering on the wheel of other threads
//! PollerEarliest  until = earliest of all     TokenTimerSet    the deadline is in the wheel
//!                 wheels                      TokenTimerFence  SeqCst fence
//! PollerPublish   publish `until`             TokenTimerRead   read `until`: later than the deadline, so
//! PollerFence     SeqCst fence                                 sleep timed / unpark
//! PollerAgain     earliest again: sooner,
//!                 so sleep less
//! PollerSleep     sleep; then publish AWAKE
//! ```
//! Suppose TokenTimerRead reads a value that poller A has published, at PollerPublish or PollerSleep. A
//! itself sleeps no longer than that value says, so only a later poller B could sleep past the deadline. If
//! B's PollerFence is after TokenTimerFence, B's PollerAgain sees TokenTimerSet. If B's PollerFence is before
//! TokenTimerFence, TokenTimerRead reads B's `until` or a later one.
//!
//! A worker that leaves the driver for a task still answers for the timers that other workers left to it. It
//! fires the due timers of all wheels at each turn (`worker/turns.rs`) and at each sleep. If one of its polls
//! takes long, these timers and the events are late, until the monitor sees to them (`monitor/mod.rs`). A
//! worker that blocks or retires leaves the driver for good. Then it has another worker look for work, and
//! that worker finds the driver free before it sleeps.
//!
//! Sources: the token parker follows `std::thread::park`; the two places to sleep follow the 2019 Tokio
//! scheduler.

use std::time::Duration;

use crate::driver::Driver;
use crate::loom::sync::Mutex;
use crate::loom::sync::atomic::AtomicU32;
use crate::loom::sync::atomic::Ordering::{AcqRel, Relaxed};
use crate::loom::thread::{self, Thread};

/// The default.
const EMPTY: u32 = 0;
const PARKED: u32 = 1;
const IN_DRIVER: u32 = 2;
const NOTIFIED: u32 = 3;

/// The place where one worker sleeps.
#[derive(Debug, Default)]
pub struct Parker {
    state: AtomicU32,
    /// The thread that sleeps here, set before its first sleep. It changes only on `current_thread` runtimes,
    /// and when a processor goes from one external thread to the next.
    thread: Mutex<Option<Thread>>,
}

impl Parker {
    /// Makes the calling thread the one that sleeps here.
    pub fn adopt_current_thread(&self) {
        *self.thread.lock() = Some(thread::current());
    }

    /// The id of the thread that sleeps here. `None` before there is one.
    #[cfg(not(loom))]
    pub fn thread_id(&self) -> Option<std::thread::ThreadId> {
        self.thread.lock().as_ref().map(Thread::id)
    }

    /// Sleeps until unparked, on the thread's token, at most for `timeout`; `None` is no limit. May end
    /// early.
    pub fn park(&self, timeout: Option<Duration>) {
        self.park_if(timeout, || true);
    }

    /// As [`park`](Self::park), but does not sleep if `may_sleep` returns false. When `may_sleep` is called,
    /// others already see this thread asleep.
    pub fn park_if(&self, timeout: Option<Duration>, may_sleep: impl FnOnce() -> bool) {
        if !self.begin(PARKED) {
            return;
        }
        if may_sleep() {
            match timeout {
                None => thread::park(),
                Some(timeout) => thread::park_timeout(timeout),
            }
        }
        self.end();
    }

    /// Whether the owner sleeps, and no thread has ended its sleep: it is after ParkShow, and before both
    /// UnparkSwap and ParkTake.
    ///
    /// This is a read-modify-write, so the answer is exact at that moment, and the owner's next ParkShow
    /// acquires what the caller did before. The caller sees all that the owner did before its sleep.
    pub fn is_asleep(&self) -> bool {
        matches!(self.state.fetch_add(0, AcqRel), PARKED | IN_DRIVER)
    }

    /// Sleeps by calling `sleep`, which waits in the driver. An unpark wakes the driver, so that `sleep`
    /// returns. Returns `None`, without a call of `sleep`, if an unpark came first.
    pub fn park_in_driver<R>(&self, sleep: impl FnOnce() -> R) -> Option<R> {
        if !self.begin(IN_DRIVER) {
            return None;
        }
        let result = sleep();
        self.end();
        Some(result)
    }

    /// Ends one sleep: the present one, or else the next.
    pub fn unpark(&self, driver: &Driver) {
        match self.state.swap(NOTIFIED, AcqRel) {
            PARKED => {
                let thread = self.thread.lock().clone();
                thread.expect("a thread that sleeps has stored its handle").unpark();
            }
            IN_DRIVER => driver.unpark(),
            _ => {}
        }
    }

    /// ParkShow. Returns false if an unpark came first; that unpark is used up then.
    fn begin(&self, place: u32) -> bool {
        // Release: the unparker that finds `place` sees our thread. Acquire: if an `is_asleep` came too early
        // to see this, what came before that `is_asleep` is visible to what follows. Relaxed if it fails:
        // ParkTake acquires.
        match self.state.compare_exchange(EMPTY, place, AcqRel, Relaxed) {
            Ok(_) => true,
            Err(_) => {
                // Only NOTIFIED can be here, because only one thread sleeps here.
                self.end();
                false
            }
        }
    }

    /// ParkTake.
    fn end(&self) {
        self.state.swap(EMPTY, AcqRel);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
