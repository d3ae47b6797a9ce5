//! Deadlines in, wakers out.
//!
//! Read `wheel.rs` (order), `entry.rs` (which thread may touch a timer when), `shard.rs` (the wheel's lock),
//! `clock.rs`.
//!
//! There is a wheel for each worker and one, the last, for all other threads. A timer goes into the wheel of
//! the thread that first polls it and stays there, though its task may migrate: it is taken out, from
//! anywhere, under that wheel's lock. So workers share no lock unless one helps another.
//!
//! # Which thread sleeps until when
//! The thread that parks in the driver sleeps until the earliest deadline of all wheels, then
//! [fires](Driver::fire_due) what is due in any. A worker's own timers wake no thread: it reads its wheel
//! before it parks (`park.rs` says what it does about a sleeper in the driver). A worker that is about to
//! block, or ends up blocked, registers like a thread that is no worker; so does every worker while all are
//! inside of long polls ([`serve_all`](Driver::serve_all)). Such a thread may have to cut a sleep short, for
//! a timer earlier than the sleeper knew:
//! ```text
//!   Register (no worker)                      Park
//!     R1 insert, store next_deadline            S1 publish until when the sleep will last
//!     R2 SeqCst fence                           S2 SeqCst fence
//!     R3 is the sleep longer? end it            S3 read every next_deadline again; sleep no longer than that
//! ```
//! A deadline is missed only if R3 misses S1 and S3 misses R1. SeqCst fences have one total order: with R2
//! first, S3 sees R1; with S2 first, R3 sees S1. A deadline read too early, left behind by a cancelled timer,
//! costs one wake for nothing; one read too late cannot be, by the rule in `shard.rs`.
//!
//! # Time
//! Deadlines are nanoseconds since the driver began. A wheel's tick is an eighth of a millisecond: a timer is
//! rounded up to the next tick, so it fires never early and, for the wheel's part, less than a tick late. How
//! often a thread wakes for timers is the business of `pace.rs`. Once the clock has been paused, whole
//! milliseconds count, as Tokio's do: what a test measures then should not depend on the tick.
//!
//! A sleep that is polled for the first time when its time has passed need not notice, since a look at the
//! clock is most of what it costs. Then it is registered as due: R lowers `next_deadline`, so the thread that
//! drives or is about to sleep fires it at the next turn, without waiting for another timer.
//!
//! Prior art: one wheel for the whole runtime behind one lock (Tokio), where a timer that becomes the
//! earliest writes to the eventfd even though its own worker, which is running, will look before it sleeps;
//! heaps per processor (Go).

pub mod clock;
pub mod entry;
pub mod shard;
pub mod wheel;

use std::task::Waker;
use std::time::{Duration, Instant};

use crate::loom::sync::atomic::Ordering::Relaxed;
use crate::loom::sync::atomic::{AtomicBool, AtomicU64};
use crate::util::pad::CachePadded;

use super::foreign::ForeignWakes;
use clock::{Clock, ClockError};
use entry::Entry;
use shard::{Shard, ShutDown, tick_not_before};

/// Nanoseconds since the driver began; `u64::MAX`: never.
pub type Deadline = u64;

/// A wheel's tick. A millisecond is a whole number of them.
pub const NANOS_PER_TICK: u64 = 125_000;

/// What timers are rounded up to once the clock has been paused.
pub const NANOS_PER_MILLI: u64 = 1_000_000;
const _: () = assert!(NANOS_PER_MILLI % NANOS_PER_TICK == 0);

/// The clock and the wheels of one runtime.
#[derive(Debug)]
pub struct Driver {
    clock: Clock,
    /// One for each worker, the last for all other threads.
    shards: Box<[CachePadded<Shard>]>,
    /// What the clock said when timers were last fired: a hint.
    last_turn: CachePadded<AtomicU64>,
    /// See [`serve_all`](Driver::serve_all).
    are_all_served: AtomicBool,
}

impl Driver {
    /// `wheels`: one for each processor, the last for threads that are no worker. `start_paused`: see
    /// `Builder`.
    pub fn new(wheels: usize, start_paused: bool) -> Driver {
        Driver {
            clock: Clock::new(start_paused),
            shards: (0..wheels).map(|_| CachePadded::new(Shard::new())).collect(),
            last_turn: CachePadded::new(AtomicU64::new(0)),
            are_all_served: AtomicBool::new(false),
        }
    }

    /// Lets `time::pause` stop the clock: for runtimes with one thread.
    pub fn allow_pausing(&mut self) {
        self.clock.allow_pausing();
    }

    /// A deadline that no timer on wheel `i` comes before; the earliest timer's own, if none was cancelled
    /// lately.
    ///
    /// Reads one word, without a lock. See the module's docs for what a reader must do so that it misses
    /// nothing.
    pub fn deadline_of(&self, wheel: usize) -> Deadline {
        self.shards[wheel].next_deadline()
    }

    /// Earliest [deadline](Self::deadline_of) of all wheels.
    pub fn earliest(&self) -> Deadline {
        self.shards.iter().map(|shard| shard.next_deadline()).min().unwrap_or(Deadline::MAX)
    }

    /// Time from now until `deadline`; zero if past, `None` if never.
    ///
    /// While the clock is paused this is its own time, which does not pass: use
    /// [`auto_advance`](Self::auto_advance).
    pub fn until(&self, deadline: Deadline) -> Option<Duration> {
        (deadline != Deadline::MAX).then(|| Duration::from_nanos(deadline.saturating_sub(self.now())))
    }

    /// Fires what is due on all wheels, waking outside of their locks. Says how many fired.
    ///
    /// Reads the clock once, and not at all if there is no timer.
    pub fn fire_due(&self, foreign: &mut ForeignWakes) -> usize {
        let earliest = self.earliest();
        if earliest == Deadline::MAX {
            return 0;
        }
        let now = self.now();
        // Relaxed: a number by itself, and no later than now.
        self.last_turn.store(now, Relaxed);
        if earliest > now {
            return 0;
        }
        let is_due = |shard: &&CachePadded<Shard>| shard.next_deadline() <= now;
        self.shards.iter().filter(is_due).map(|shard| shard.fire(now, foreign)).sum()
    }

    /// Wakes all waiters; from now on registering panics with a text that says the runtime was shut down.
    pub fn shutdown(&self, foreign: &mut ForeignWakes) {
        for shard in &self.shards {
            shard.shut_down(foreign);
        }
    }
}

/// What a timer's future calls.
impl Driver {
    /// The system's monotonic clock at `deadline`, in nanoseconds.
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

    /// What `time::Instant::now` says in this runtime.
    pub fn now_instant(&self) -> Instant {
        self.clock.instant_at(self.clock.now())
    }

    /// `instant` as a deadline; past all others if too far to count.
    pub fn deadline_at(&self, instant: Instant) -> Deadline {
        self.clock.deadline_at(instant)
    }

    /// Whether the clock was ever paused.
    #[inline]
    pub fn was_paused(&self) -> bool {
        self.clock.was_paused()
    }

    /// The deadline of a timer that lasts so long from now, less than 140 years. Not once the clock has been
    /// paused.
    #[inline]
    pub fn deadline_after(&self, nanos: u64) -> Deadline {
        self.clock.deadline_after(nanos)
    }

    /// The instant of this deadline.
    pub fn instant_at(&self, deadline: Deadline) -> Instant {
        self.clock.instant_at(deadline)
    }

    /// Whether `deadline` had passed when timers were last fired. Does not look at the clock.
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

    /// Registers `entry` in `shard`, the calling thread's. Returns whether the thread that sleeps in the
    /// driver must be unparked, as the module's docs tell: then R1 is done, R2 and R3 are the caller's.
    ///
    /// # Safety
    /// 1. The caller is the owner of `entry`, which is not registered. 2. The entry stays live and at its
    ///    place until its state is no longer `Registered`.
    pub unsafe fn register(
        &self,
        entry: &Entry,
        shard: &Shard,
        deadline: Deadline,
        waker: Waker,
    ) -> Result<bool, ShutDown> {
        // SAFETY: both are the caller's.
        let is_earliest = unsafe { shard.register(entry, self.rounded(deadline), waker) }?;
        Ok(is_earliest && self.must_unpark_for(shard))
    }

    /// Whether the thread that sleeps in the driver must be unparked for a timer that became the earliest of
    /// `shard`.
    pub fn must_unpark_for(&self, shard: &Shard) -> bool {
        // Relaxed: a hint.
        std::ptr::eq(self.last_shard(), shard) || self.are_all_served.load(Relaxed)
    }

    /// Whether timers on all wheels end the sleep of the thread in the driver, not only those on the last
    /// wheel: the workers are inside of long polls, and look at their own wheels too late.
    pub fn serve_all(&self, are_all_served: bool) {
        self.are_all_served.store(are_all_served, Relaxed);
    }

    /// P of `entry.rs`: has `entry`, which may be registered, fire at `deadline` instead. False if that is
    /// sooner than before, and nothing was done.
    ///
    /// # Safety
    /// 1. The caller is the owner of `entry`.
    pub unsafe fn put_off(&self, entry: &Entry, deadline: Deadline) -> bool {
        // SAFETY: the caller's.
        unsafe { entry.put_off(tick_not_before(self.rounded(deadline))) }
    }

    /// The wheel of worker `index`; that of all other threads if there is no such worker. It stays where it
    /// is for as long as the driver lives.
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

impl Driver {
    /// Whether a timer is registered. Exact, so it may look at many.
    pub fn has_timers(&self) -> bool {
        self.shards.iter().any(|shard| shard.exact_deadline() != Deadline::MAX)
    }
}

/// The paused clock.
impl Driver {
    /// Whether the clock is paused (`time::pause`).
    pub fn is_paused(&self) -> bool {
        self.clock.is_paused()
    }

    /// Stops the clock.
    pub fn pause(&self) -> Result<(), ClockError> {
        self.clock.pause()
    }

    /// Lets it run on from where it stands.
    pub fn resume(&self) -> Result<(), ClockError> {
        self.clock.resume()
    }

    /// Moves a paused clock on, and fires what is due then.
    pub fn advance(&self, duration: Duration) -> Result<(), ClockError> {
        self.clock.advance(duration)?;
        let mut foreign = ForeignWakes::new();
        self.fire_due(&mut foreign);
        foreign.wake_all();
        Ok(())
    }

    /// If the clock is paused, a park must not sleep for timers: it calls this instead, once nothing else is
    /// runnable. Moves the clock to the earliest deadline if there is one and nothing inhibits it; says
    /// whether it did.
    ///
    /// Then something is due: the caller fires it.
    pub fn auto_advance(&self) -> bool {
        if !self.clock.can_auto_advance() {
            return false;
        }
        // Exact, or time would move for a timer that was cancelled.
        let earliest = self.shards.iter().map(|shard| shard.exact_deadline()).min().unwrap_or(Deadline::MAX);
        if earliest == Deadline::MAX {
            return false;
        }
        self.clock.advance_to(earliest);
        true
    }

    /// Keeps a paused clock from advancing by itself while another thread works for the runtime; ended by
    /// [`allow_auto_advance`](Self::allow_auto_advance). Calls are counted.
    pub fn inhibit_auto_advance(&self) {
        self.clock.inhibit_auto_advance();
    }

    /// Ends one [`inhibit_auto_advance`](Self::inhibit_auto_advance). The caller then unparks the driver,
    /// which may have gone to sleep without a limit.
    pub fn allow_auto_advance(&self) {
        self.clock.allow_auto_advance();
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
