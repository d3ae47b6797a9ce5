//! How one thread sleeps: in the driver if it is free, else on its own token.
//!
//! ```text
//!            park              unpark
//!   EMPTY ──────────▶ PARKED ──────────▶ NOTIFIED ──▶ EMPTY (the sleep ends)
//!     │  └──────▶ IN_DRIVER ───────────────▲  ▲
//!     └────────────────────────────────────┼──┘ unpark before park: the next sleep ends at once
//! ```
//! - K1 the sleeper moves EMPTY to PARKED or IN_DRIVER; if it finds NOTIFIED instead, it goes on with K3 and
//!   does not sleep.
//! - K2 it sleeps: on its thread's token, or in the poll.
//! - K3 it swaps EMPTY in.
//! - U1 the unparker swaps NOTIFIED in. U2 if it found PARKED, it unparks the thread; IN_DRIVER, it wakes the
//!   driver.
//!
//! **No lost unpark.** K1, K3 and U1 are read-modify-writes of one word. U1 before K1: K1 finds NOTIFIED. U1
//! after K1: it finds where the sleeper is, and U2 leaves a token there (the thread's, or the event
//! descriptor's count), which ends K2 whether it has begun or not. A token left after K3 makes one later
//! sleep end early, which sleepers have to bear anyway. U1's release and K3's acquire order what came before
//! the unpark before what follows the sleep. K1's release and U1's acquire have the unparker find the thread
//! that sleeps here now, where that changes.
//!
//! # Timers
//! The worker in the driver sleeps no longer than until the earliest deadline on any wheel. A worker that
//! finds the driver taken sleeps untimed if the worker in the driver wakes early enough for its timers, else
//! no longer than until the earliest deadline on its own wheel. So a worker's timer wakes no other thread,
//! and one timer mostly wakes one thread (spare workers share a wheel).
//! ```text
//! In the driver                            On the token, or registering on the wheel of foreign threads
//! D1 until = earliest of all wheels        T1 the deadline is in the wheel
//! D2 publish `until`                       T2 SeqCst fence
//! D3 SeqCst fence                          T3 read `until`: later than the deadline, so sleep timed / unpark
//! D4 earliest again: sooner, so sleep less
//! D5 sleep; then publish NOBODY
//! ```
//! If T3 reads an `until` that a sleeper will outlive, D2 or D5 of that sleeper came before T3. What matters
//! is a later sleeper: if its D3 is after T2, its D4 sees T1; if before, T3 would have read its `until` or a
//! later one.
//!
//! A worker that leaves the driver for a task still answers for the timers that other workers left to it. It
//! fires what is due on any wheel every few dozen tasks, and before it sleeps. If one poll takes long, these
//! timers are late, and so are events, until the monitor sees to them (`monitor.rs`). A worker that leaves
//! the driver for good, because it blocks or retires, has another worker look for work. That worker finds the
//! driver free before it sleeps.
//!
//! Sources: the token parker is the one of `std::thread::park`; the pair of places to sleep is the 2019 Tokio
//! scheduler's.

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

/// One worker's place to sleep.
#[derive(Debug)]
pub struct Parker {
    state: AtomicU32,
    /// The thread that sleeps here. Set before it first sleeps; changes only on `current_thread` runtimes,
    /// and from one external thread to the next.
    thread: Mutex<Option<Thread>>,
}

impl Parker {
    pub fn new() -> Self {
        Self { state: AtomicU32::new(EMPTY), thread: Mutex::new(None) }
    }

    /// Makes this the calling thread's place to sleep.
    pub fn adopt_current_thread(&self) {
        *self.thread.lock() = Some(thread::current());
    }

    /// The name of the thread that sleeps here, once there is one.
    #[cfg(not(loom))]
    pub fn thread_id(&self) -> Option<std::thread::ThreadId> {
        self.thread.lock().as_ref().map(Thread::id)
    }

    /// Sleeps until unparked, on the thread's token, at most for `timeout`. May end early.
    pub fn park(&self, timeout: Option<Duration>) {
        self.park_if(timeout, || true);
    }

    /// As [`park`](Self::park), unless `may_sleep` says no. It is asked when others already see this thread
    /// asleep.
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
    /// A read-modify-write, so it is true of the moment at which it is made, and the owner's next K1 acquires
    /// what came before it. Sees all that the owner did before its sleep.
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

    /// Ends one sleep, the present one or else the next.
    pub fn unpark(&self, driver: &Driver) {
        match self.state.swap(NOTIFIED, AcqRel) {
            PARKED => {
                let thread = self.thread.lock().clone();
                thread.expect("whoever sleeps has said who it is").unpark();
            }
            IN_DRIVER => driver.unpark(),
            _ => {}
        }
    }

    /// K1. False if an unpark came first, which is then used up.
    fn begin(&self, place: u32) -> bool {
        // Release: the unparker that finds `place` sees our thread. Acquire: what came before an `is_asleep`
        // that did not see this is seen by what follows. Relaxed if it fails: K3 acquires.
        match self.state.compare_exchange(EMPTY, place, AcqRel, Relaxed) {
            Ok(_) => true,
            Err(_) => {
                // Only NOTIFIED can be here: one thread sleeps.
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
