//! Deadlines in, wakers out.
//!
//! Read `wheel.rs` (order), `entry.rs` (which thread may touch a timer when), `shard.rs` (the wheel's lock),
//! `clock.rs`.
//!
//! Each worker has a wheel, and the last wheel belongs to all other threads. A timer goes into the wheel of
//! the thread that first polls it. It stays there, even if its task migrates: any thread can take it out,
//! under that wheel's lock. So workers share no lock unless one helps another.
//!
//! # Which thread sleeps until when
//! The poller sleeps until the earliest deadline of all wheels, then [fires](TimeDriver::fire_due) what is
//! due in any wheel. A worker's own timers wake no thread: the worker reads its wheel before it parks
//! (`scheduler/sleep/park.rs` has its part beside a poller that sleeps). A worker that is about to block, or
//! ends up blocked, registers like a thread that is no worker. So does every worker while all workers are
//! inside of long polls ([`serve_all`](TimeDriver::serve_all)). Such a thread may have to cut a sleep short,
//! if its timer is earlier than the sleeper knew:
//! ```text
//!   Register (no worker)
//!     TimerInsert      insert, store next_deadline
//!     TimerFence       SeqCst fence
//!     TimerCutShort    is the sleep longer? end it
//!   Park
//!     TimerPublish     publish until when the sleep will last
//!     TimerSleepFence  SeqCst fence
//!     TimerReadAgain   read every next_deadline again; sleep no longer than that
//! ```
//! A deadline is missed only if TimerCutShort misses TimerPublish and TimerReadAgain misses TimerInsert.
//! SeqCst fences have one total order. If TimerFence is first, TimerReadAgain sees TimerInsert; if
//! TimerSleepFence is first, TimerCutShort sees TimerPublish. A cancelled timer may leave a deadline behind
//! that is too early. It costs one wake for nothing. By the rule in `shard.rs`, no deadline is too late.
//!
//! # Time
//! Deadlines are nanoseconds since the driver began. A wheel's tick is an eighth of a millisecond. A timer is
//! rounded up to the next tick: the wheel never fires it early, and fires it less than a tick late.
//! `rate_limiter.rs` decides how often a thread wakes for timers. Once the clock has been paused, timers are
//! rounded up to whole milliseconds, as in Tokio, so that what a test measures does not depend on the tick.
//!
//! A sleep may be polled for the first time after its deadline. It need not notice, because a look at the
//! clock is most of what a sleep costs. The timer is then registered as due, and TimerRegister lowers
//! `next_deadline`. So the thread that drives, or is about to sleep, fires it at the next turn, without
//! waiting for another timer.
//!
//! # Prior art
//! - One wheel for the whole runtime behind one lock (Tokio): a timer that becomes the earliest writes to the
//!   eventfd, although its own worker runs and will look before it sleeps.
//! - Heaps per processor (Go).

pub mod clock;
pub mod deadline;
pub mod entry;
pub mod shard;
mod slot;
pub mod wheel;

use std::task::Waker;
use std::time::{Duration, Instant};

use crate::loom::sync::atomic::Ordering::Relaxed;
use crate::loom::sync::atomic::{AtomicBool, AtomicU64};
use crate::util::pad::CachePadded;

use super::foreign::ForeignWakes;
pub use deadline::{Deadline, NANOS_PER_MILLI};

use clock::{Clock, ClockError};
use entry::TimerEntry;
use shard::{Shard, ShutDown, tick_not_before};

/// The clock and the wheels of one runtime.
#[derive(Debug)]
pub struct TimeDriver {
    clock: Clock,
    /// One for each worker; the last is for all other threads.
    shards: Box<[CachePadded<Shard>]>,
    /// The clock's reading when timers were last fired: a hint.
    last_turn: CachePadded<AtomicU64>,
    /// See [`serve_all`](TimeDriver::serve_all).
    are_all_served: AtomicBool,
}

impl TimeDriver {
    /// Makes a driver with `wheels` wheels: one for each processor, the last for threads that are no workers.
    /// `start_paused`: see `Builder`.
    pub fn new(wheels: usize, start_paused: bool) -> TimeDriver {
        TimeDriver {
            clock: Clock::new(start_paused),
            shards: (0..wheels).map(|_| CachePadded::new(Shard::new())).collect(),
            last_turn: CachePadded::new(AtomicU64::new(0)),
            are_all_served: AtomicBool::new(false),
        }
    }

    /// Allows `time::pause` to stop the clock: for runtimes with one thread.
    pub fn allow_pausing(&mut self) {
        self.clock.allow_pausing();
    }

    /// A deadline that is not after the earliest timer of `wheel`. It is that timer's own deadline if no
    /// timer was cancelled or put off lately.
    ///
    /// Reads one word, without a lock. The module's docs say what a reader must do so that it misses nothing.
    pub fn deadline_of(&self, wheel: usize) -> Deadline {
        self.shards[wheel].next_deadline()
    }

    /// The earliest [deadline](Self::deadline_of) of all wheels.
    pub fn earliest(&self) -> Deadline {
        self.shards.iter().map(|shard| shard.next_deadline()).min().unwrap_or(Deadline::MAX)
    }

    /// The time from now until `deadline`; zero if past, `None` if never.
    ///
    /// While the clock is paused, this is the clock's own time, which does not pass: use
    /// [`auto_advance`](Self::auto_advance).
    pub fn until(&self, deadline: Deadline) -> Option<Duration> {
        (deadline != Deadline::MAX).then(|| Duration::from_nanos(deadline.saturating_sub(self.now())))
    }

    /// Fires what is due on all wheels, and wakes outside of their locks. Returns how many timers fired.
    ///
    /// Reads the clock once, or not at all if there is no timer.
    pub fn fire_due(&self, foreign: &ForeignWakes) -> usize {
        let earliest = self.earliest();
        if earliest == Deadline::MAX {
            return 0;
        }
        let now = self.now();
        // Relaxed: a number by itself, and not later than the present time.
        self.last_turn.store(now, Relaxed);
        if earliest > now {
            return 0;
        }
        let is_due = |shard: &&CachePadded<Shard>| shard.next_deadline() <= now;
        self.shards.iter().filter(is_due).map(|shard| shard.fire(now, foreign)).sum()
    }

    /// Wakes all waiters. From now on, [`register`](Self::register) returns [`ShutDown`].
    pub fn shutdown(&self, foreign: &ForeignWakes) {
        for shard in &self.shards {
            shard.shut_down(foreign);
        }
    }
}

/// The part that timers' futures call.
impl TimeDriver {
    /// The reading of the system's monotonic clock at `deadline`, in nanoseconds.
    ///
    /// Not while the clock is paused.
    pub fn system_nanos_at(&self, deadline: Deadline) -> u64 {
        self.clock.system_nanos_at(deadline)
    }

    /// Nanoseconds since the driver began.
    #[inline]
    pub fn now(&self) -> Deadline {
        self.clock.now()
    }

    /// The result of `time::Instant::now` in this runtime.
    pub fn now_instant(&self) -> Instant {
        self.clock.instant_at(self.clock.now())
    }

    /// `instant` as a deadline; `Deadline::MAX` if it is too far to count.
    pub fn deadline_at(&self, instant: Instant) -> Deadline {
        self.clock.deadline_at(instant)
    }

    /// Whether the clock was ever paused.
    #[inline]
    pub fn was_paused(&self) -> bool {
        self.clock.was_paused()
    }

    /// The deadline of a timer that starts now and lasts `nanos`, less than 140 years. Only if the clock was
    /// never paused.
    #[inline]
    pub fn deadline_after(&self, nanos: u64) -> Deadline {
        self.clock.deadline_after(nanos)
    }

    /// The instant of `deadline`.
    pub fn instant_at(&self, deadline: Deadline) -> Instant {
        self.clock.instant_at(deadline)
    }

    /// Whether `deadline` had passed when timers were last fired. Does not read the clock.
    #[inline]
    pub fn had_passed(&self, deadline: Deadline) -> bool {
        deadline <= self.last_turn.load(Relaxed)
    }

    /// `deadline`, rounded up if the clock was ever paused.
    #[inline]
    fn rounded(&self, deadline: Deadline) -> Deadline {
        match self.clock.was_paused() {
            false => deadline,
            true => deadline.checked_next_multiple_of(NANOS_PER_MILLI).unwrap_or(Deadline::MAX),
        }
    }

    /// Registers `entry` in `shard`, the calling thread's. Returns whether the poller must be unparked, as
    /// the module's docs say. Then TimerInsert is done, and the caller does TimerFence and TimerCutShort.
    ///
    /// # Safety
    /// 1. The caller is the owner of `entry`, which is not registered. 2. The entry stays live and at its
    ///    place until its state is no longer `Registered`.
    pub unsafe fn register(
        &self,
        entry: &TimerEntry,
        shard: &Shard,
        deadline: Deadline,
        waker: Waker,
    ) -> Result<bool, ShutDown> {
        // SAFETY: (1) and (2) are the caller's.
        let is_earliest = unsafe { shard.register(entry, self.rounded(deadline), waker) }?;
        Ok(is_earliest && self.must_unpark_for(shard))
    }

    /// Whether the poller must be unparked for a timer that became the earliest of `shard`.
    pub fn must_unpark_for(&self, shard: &Shard) -> bool {
        // Relaxed: a hint.
        std::ptr::eq(self.last_shard(), shard) || self.are_all_served.load(Relaxed)
    }

    /// Whether timers on all wheels, not only on the last wheel, end the poller's sleep. It is set while all
    /// workers are inside of long polls, because they look at their own wheels too late.
    pub fn serve_all(&self, are_all_served: bool) {
        self.are_all_served.store(are_all_served, Relaxed);
    }

    /// TimerPutOff of `entry.rs`: has `entry`, which may be registered, fire at `deadline` instead. Returns
    /// false, and does nothing, if that is before the present deadline.
    ///
    /// # Safety
    /// 1. The caller is the owner of `entry`.
    pub unsafe fn put_off(&self, entry: &TimerEntry, deadline: Deadline) -> bool {
        // SAFETY: (1).
        unsafe { entry.put_off(tick_not_before(self.rounded(deadline))) }
    }

    /// The wheel of worker `index`; if there is no such worker, the wheel of all other threads. It stays at
    /// its place as long as the driver lives.
    #[inline]
    pub fn shard(&self, index: usize) -> &Shard {
        match self.shards.get(index) {
            Some(shard) => shard,
            None => self.last_shard(),
        }
    }

    #[cold]
    #[inline(never)]
    fn last_shard(&self) -> &Shard {
        self.shards.last().expect("a driver has a wheel")
    }
}

impl TimeDriver {
    /// Whether a timer is registered. It is exact, so it may look at many timers.
    pub fn has_timers(&self) -> bool {
        self.shards.iter().any(|shard| shard.exact_deadline() != Deadline::MAX)
    }
}

/// The paused clock.
impl TimeDriver {
    /// Whether the clock is paused (`time::pause`).
    pub fn is_paused(&self) -> bool {
        self.clock.is_paused()
    }

    /// Stops the clock.
    pub fn pause(&self) -> Result<(), ClockError> {
        self.clock.pause()
    }

    /// Lets the clock run on from its present reading.
    pub fn resume(&self) -> Result<(), ClockError> {
        self.clock.resume()
    }

    /// Advances a paused clock, and fires what is due then.
    pub fn advance(&self, duration: Duration) -> Result<(), ClockError> {
        self.clock.advance(duration)?;
        let foreign = ForeignWakes::new();
        self.fire_due(&foreign);
        foreign.wake_all();
        Ok(())
    }

    /// Moves a paused clock to the earliest deadline, rounded up to a millisecond, if there is one, nothing
    /// inhibits it and `is_needed` returns false. Returns whether the clock moved. Then a timer is due, and
    /// the caller fires it.
    ///
    /// While the clock is paused, a park must not sleep for timers. It calls this instead, once nothing else
    /// is runnable. `is_needed` says whether something is runnable now:
    /// ```text
    ///   Thread that works for the runtime            Thread that drives the clock
    ///     AdvanceWork   queue a task, or mark the      AdvanceRead  read the counter (Acquire): it is zero
    ///                   root future as woken           AdvanceLook  is something runnable?
    ///     AdvanceAllow  decrement the counter          AdvanceMove  move the clock
    ///                   (Release)
    /// ```
    /// **Time does not pass a task that was woken.** If AdvanceRead does not see AdvanceAllow, the counter is
    /// not zero: the driving thread itself has counted the work before. If AdvanceRead sees AdvanceAllow,
    /// AdvanceLook sees AdvanceWork, unless the task has run. A look before AdvanceRead is not enough,
    /// because AdvanceWork and AdvanceAllow may both come between the two.
    pub fn auto_advance(&self, is_needed: impl FnOnce() -> bool) -> bool {
        if !self.clock.can_auto_advance() || is_needed() {
            return false;
        }
        // Exact, because time must not move for a timer that was cancelled.
        let earliest = self.shards.iter().map(|shard| shard.exact_deadline()).min().unwrap_or(Deadline::MAX);
        if earliest == Deadline::MAX {
            return false;
        }
        // A timer from before the pause may be due between two milliseconds.
        self.clock.advance_to(self.rounded(earliest));
        true
    }

    /// Keeps a paused clock from advancing by itself while another thread works for the runtime. Ended by
    /// [`allow_auto_advance`](Self::allow_auto_advance). Calls are counted.
    pub fn inhibit_auto_advance(&self) {
        self.clock.inhibit_auto_advance();
    }

    /// Ends one [`inhibit_auto_advance`](Self::inhibit_auto_advance). The caller then unparks the driver,
    /// which may sleep without a limit.
    pub fn allow_auto_advance(&self) {
        self.clock.allow_auto_advance();
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
