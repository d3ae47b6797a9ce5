//! How one thread sleeps: in the driver if it is free, else on its own token.
//!
//! ```text
//!            park              unpark
//!   EMPTY ──────────▶ PARKED ──────────▶ NOTIFIED ──▶ EMPTY (the sleep ends)
//!     │  └──────▶ IN_DRIVER ───────────────▲  ▲
//!     └────────────────────────────────────┼──┘ unpark before park: the next sleep ends at once
//! ```
//! - K1: the sleeper moves EMPTY to PARKED or IN_DRIVER. If it finds NOTIFIED instead, it does not sleep, and
//!   goes on with K3.
//! - K2: the sleeper sleeps on its thread's token, or in the driver's poll.
//! - K3: the sleeper swaps EMPTY in.
//! - U1: the unparker swaps NOTIFIED in.
//! - U2: if U1 found PARKED, the unparker unparks the thread. If U1 found IN_DRIVER, it wakes the driver.
//!
//! **No lost unpark.** K1, K3 and U1 are read-modify-writes of one word. If U1 comes before K1, K1 finds
//! NOTIFIED. If U1 comes after K1, U1 finds where the sleeper is, and U2 leaves a token there: the thread's
//! token, or the event descriptor's count. The token ends K2, whether K2 has begun or not. A token that is
//! left after K3 ends one later sleep early, and every sleeper has to allow for that anyway.
//!
//! U1's release and K3's acquire order what came before the unpark before what follows the sleep. The
//! sleeping thread may change. K1's release and U1's acquire make sure that the unparker finds the present
//! one.
//!
//! # Timers
//! The worker in the driver sleeps at most until the earliest deadline on any wheel. A worker that finds the
//! driver taken looks at the earliest deadline on its own wheel. It sleeps untimed if the worker in the
//! driver wakes early enough for that deadline, else until that deadline. So a worker's timer wakes no other
//! thread, and one timer mostly wakes one thread (spare workers share a wheel).
//! ```text
//! In the driver                            On the token, or registering on the wheel of foreign threads
//! D1 until = earliest of all wheels        T1 the deadline is in the wheel
//! D2 publish `until`                       T2 SeqCst fence
//! D3 SeqCst fence                          T3 read `until`: later than the deadline, so sleep timed / unpark
//! D4 earliest again: sooner, so sleep less
//! D5 sleep; then publish AWAKE
//! ```
//! Suppose T3 reads an `until` that a sleeper will outlive. Then D2 or D5 of that sleeper came before T3, and
//! only a later sleeper matters. If the later sleeper's D3 is after T2, its D4 sees T1. If its D3 is before
//! T2, T3 reads its `until` or a later one.
//!
//! A worker that leaves the driver for a task still answers for the timers that other workers left to it. It
//! fires the due timers of all wheels every few dozen tasks, and before it sleeps. If one of its polls takes
//! long, these timers and the events are late, until the monitor sees to them (`monitor.rs`). A worker that
//! blocks or retires leaves the driver for good. Then it has another worker look for work, and that worker
//! finds the driver free before it sleeps.
//!
//! Sources: the token parker follows `std::thread::park`; the two places to sleep follow the 2019 Tokio
//! scheduler.

use std::time::Duration;

use crate::driver::Driver;
use crate::loom::sync::Mutex;
use crate::loom::sync::atomic::AtomicU32;
use crate::loom::sync::atomic::Ordering::{AcqRel, Relaxed};
use crate::loom::thread::{self, Thread};

const EMPTY: u32 = 0;
const PARKED: u32 = 1;
const IN_DRIVER: u32 = 2;
const NOTIFIED: u32 = 3;

/// The place where one worker sleeps.
#[derive(Debug)]
pub struct Parker {
    state: AtomicU32,
    /// The thread that sleeps here, set before its first sleep. It changes only on `current_thread` runtimes,
    /// and when a processor goes from one external thread to the next.
    thread: Mutex<Option<Thread>>,
}

impl Parker {
    pub fn new() -> Self {
        Self { state: AtomicU32::new(EMPTY), thread: Mutex::new(None) }
    }

    /// Makes the calling thread the one that sleeps here.
    pub fn adopt_current_thread(&self) {
        *self.thread.lock() = Some(thread::current());
    }

    /// The id of the thread that sleeps here. `None` before there is one.
    #[cfg(not(loom))]
    pub fn thread_id(&self) -> Option<std::thread::ThreadId> {
        self.thread.lock().as_ref().map(Thread::id)
    }

    /// Sleeps until unparked, on the thread's token, at most for `timeout`. May end early.
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

    /// Whether the owner sleeps, and no thread has ended its sleep: it is after K1, and before both U1 and
    /// K3.
    ///
    /// This is a read-modify-write, so the answer is exact at that moment, and the owner's next K1 acquires
    /// what the caller did before. The caller sees all that the owner did before its sleep.
    pub fn is_asleep(&self) -> bool {
        matches!(self.state.fetch_add(0, AcqRel), PARKED | IN_DRIVER)
    }

    /// Sleeps until unparked or until `sleep`, which waits in the driver, returns.
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

    /// K1. Returns false if an unpark came first; that unpark is used up then.
    fn begin(&self, place: u32) -> bool {
        // Release: the unparker that finds `place` sees our thread. Acquire: if an `is_asleep` came too early
        // to see this, what came before that `is_asleep` is visible to what follows. Relaxed if it fails: K3
        // acquires.
        match self.state.compare_exchange(EMPTY, place, AcqRel, Relaxed) {
            Ok(_) => true,
            Err(_) => {
                // Only NOTIFIED can be here, because only one thread sleeps here.
                self.end();
                false
            }
        }
    }

    /// K3.
    fn end(&self) {
        self.state.swap(EMPTY, AcqRel);
    }
}
