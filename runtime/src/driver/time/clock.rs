//! The clock of a driver: the system's monotonic clock, until a test pauses it.
//!
//! std gives the time as an `Instant`. Its nanoseconds can be had only as the difference to another
//! `Instant`, which costs three times what reading the clock costs. So the clock asks the system itself, and
//! counts from `zero`. `start` is an `Instant` of the same moment, or later by at most `doubt`. Deadlines are
//! put off by `doubt`, so that the deadline of an instant does not come before the instant.

use std::fmt;
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicBool as StaticAtomicBool;
use std::time::{Duration, Instant};

use crate::loom::sync::Mutex;
use crate::loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::deadline::{Deadline, NANOS_PER_MILLI};

/// Whether any clock of this process was ever paused. While it is false, `time::Instant::now` need not look
/// for a runtime.
///
/// loom's atomics cannot be in a static, so this is std's. Relaxed suffices: the thread that pauses reads its
/// own store. A thread that learns from it that time stands still learns of the store too.
static WAS_EVER_PAUSED: StaticAtomicBool = StaticAtomicBool::new(false);

/// Says whether any clock of this process was ever paused.
#[inline]
pub fn was_ever_paused() -> bool {
    WAS_EVER_PAUSED.load(Ordering::Relaxed)
}

/// The reason why a clock refused to be paused, resumed or advanced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockError {
    /// The runtime has several threads.
    CannotPause,
    AlreadyPaused,
    NotPaused,
}

impl fmt::Display for ClockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CannotPause => {
                "time cannot be paused on a multi-thread runtime, where other threads run meanwhile: \
                 build it with `Builder::new_current_thread`"
            }
            Self::AlreadyPaused => "time is already paused: call `time::resume` first",
            Self::NotPaused => {
                "time is not paused: call `time::pause` first, or build the runtime with `start_paused(true)`"
            }
        })
    }
}

/// The clock of one driver.
#[derive(Debug)]
pub struct Clock {
    /// The moment from which deadlines count, in nanoseconds of the system's clock.
    zero: u64,
    /// The same moment, or later by at most `doubt`.
    start: Instant,
    /// How much later `start` may be than `zero`, in nanoseconds.
    doubt: u64,
    /// `doubt` less `zero`, wrapping.
    lead: u64,
    can_pause: bool,
    /// Whether `state` says what time it is. Before the first pause, the system's clock does.
    was_paused: AtomicBool,
    state: Mutex<ClockState>,
    /// The number of requests that a paused clock does not advance by itself.
    inhibitors: AtomicUsize,
}

#[derive(Debug)]
struct ClockState {
    /// The reading when the clock was last paused, resumed or advanced.
    base: Deadline,
    /// The moment since which it runs from `base`; `None` while paused.
    resumed: Option<Instant>,
}

impl Clock {
    /// Makes a clock that stands at zero and may be resumed, or a clock that runs and cannot be paused.
    pub fn new(start_paused: bool) -> Self {
        let (zero, start, doubt) = both_clocks();
        if start_paused {
            WAS_EVER_PAUSED.store(true, Ordering::Relaxed);
        }
        Self {
            zero,
            start,
            doubt,
            lead: doubt.wrapping_sub(zero),
            can_pause: start_paused,
            was_paused: AtomicBool::new(start_paused),
            state: Mutex::new(ClockState { base: 0, resumed: (!start_paused).then_some(start) }),
            inhibitors: AtomicUsize::new(0),
        }
    }

    /// Allows `pause` to stop the clock.
    pub fn allow_pausing(&mut self) {
        self.can_pause = true;
    }

    /// Nanoseconds since the driver began.
    #[inline]
    pub fn now(&self) -> Deadline {
        if self.was_paused() { self.state.lock().now() } else { system_nanos().saturating_sub(self.zero) }
    }

    /// Whether the clock was ever paused.
    #[inline]
    pub fn was_paused(&self) -> bool {
        // Relaxed, for the reason given at `WAS_EVER_PAUSED`.
        self.was_paused.load(Ordering::Relaxed)
    }

    /// The reading of the system's clock at `deadline`. Not while the clock is paused.
    pub fn system_nanos_at(&self, deadline: Deadline) -> u64 {
        match self.was_paused() {
            false => self.zero.saturating_add(deadline),
            true => system_nanos().saturating_add(deadline.saturating_sub(self.now())),
        }
    }

    /// The deadline of a timer that starts now and lasts `nanos`, less than 140 years. Only if the clock was
    /// never paused.
    #[inline]
    pub fn deadline_after(&self, nanos: u64) -> Deadline {
        // Nothing overflows: the system's clock is never before `zero`, and it counts from the system's
        // start.
        system_nanos().wrapping_add(nanos).wrapping_add(self.lead)
    }

    /// The instant of `deadline`.
    pub fn instant_at(&self, deadline: Deadline) -> Instant {
        let nanos = if self.was_paused() { deadline } else { deadline.saturating_sub(self.doubt) };
        // A `u64` of nanoseconds is at most 584 years, so the addition does not fail.
        self.start.checked_add(Duration::from_nanos(nanos)).unwrap_or(self.start)
    }

    /// `instant` in nanoseconds since the driver began: zero if before, `Deadline::MAX` if too many to count.
    pub fn deadline_at(&self, instant: Instant) -> Deadline {
        let nanos = nanos(instant.saturating_duration_since(self.start));
        // Once the clock has been paused, all deadlines come from instants, so there is no doubt.
        if self.was_paused() { nanos } else { nanos.saturating_add(self.doubt) }
    }

    /// Stops the clock at a whole millisecond. Timers are rounded up to a millisecond then, so they take
    /// exactly as long as asked.
    pub fn pause(&self) -> Result<(), ClockError> {
        if !self.can_pause {
            return Err(ClockError::CannotPause);
        }
        let mut state = self.state.lock();
        if state.resumed.is_none() {
            return Err(ClockError::AlreadyPaused);
        }
        let now = if self.was_paused() { state.now() } else { system_nanos().saturating_sub(self.zero) };
        state.base = now.checked_next_multiple_of(NANOS_PER_MILLI).unwrap_or(now);
        state.resumed = None;
        self.was_paused.store(true, Ordering::Relaxed);
        WAS_EVER_PAUSED.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Lets the clock run on from its present reading.
    pub fn resume(&self) -> Result<(), ClockError> {
        let mut state = self.state.lock();
        if state.resumed.is_some() {
            return Err(ClockError::NotPaused);
        }
        state.resumed = Some(Instant::now());
        Ok(())
    }

    pub fn advance(&self, duration: Duration) -> Result<(), ClockError> {
        let mut state = self.state.lock();
        if state.resumed.is_some() {
            return Err(ClockError::NotPaused);
        }
        state.base = state.base.saturating_add(nanos(duration));
        Ok(())
    }

    /// Moves a paused clock to `deadline`, unless it is there or beyond.
    pub fn advance_to(&self, deadline: Deadline) {
        let mut state = self.state.lock();
        if state.resumed.is_none() {
            state.base = state.base.max(deadline);
        }
    }

    pub fn is_paused(&self) -> bool {
        self.was_paused() && self.state.lock().resumed.is_none()
    }

    pub fn inhibit_auto_advance(&self) {
        // Relaxed: a counter. The thread that drives the clock counts the work that it hands to other threads
        // itself, before it hands the work over.
        self.inhibitors.fetch_add(1, Ordering::Relaxed);
    }

    pub fn allow_auto_advance(&self) {
        // Release: pairs with the Acquire in `can_auto_advance`; see `TimeDriver::auto_advance`.
        let before = self.inhibitors.fetch_sub(1, Ordering::Release);
        debug_assert!(before > 0, "allowed once for each time inhibited");
    }

    /// Whether the clock is paused and nothing inhibits it. If so, the caller sees what other threads did
    /// before they allowed the clock to advance.
    pub fn can_auto_advance(&self) -> bool {
        // Acquire: pairs with the Release in `allow_auto_advance`. Each such Release is seen, not only the
        // last one, because the counter is changed by read-modify-writes only.
        self.inhibitors.load(Ordering::Acquire) == 0 && self.is_paused()
    }
}

impl ClockState {
    fn now(&self) -> Deadline {
        let ran = self.resumed.map_or(Duration::ZERO, |resumed| resumed.elapsed());
        self.base.saturating_add(nanos(ran))
    }
}

/// The reading of the system's monotonic clock, in nanoseconds.
#[inline]
fn system_nanos() -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the pointer is valid for a write of a `timespec`.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, time.as_mut_ptr()) };
    assert!(result == 0, "cannot read the monotonic clock: {}", std::io::Error::last_os_error());
    // SAFETY: the call succeeded, so it wrote the whole `timespec`.
    let time = unsafe { time.assume_init() };
    // The clock counts from the system's start, and its nanoseconds stay below a second.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The system's clock, std's clock not before that, and how much later std's may be.
fn both_clocks() -> (u64, Instant, u64) {
    let look = || {
        let zero = system_nanos();
        let start = Instant::now();
        (zero, start, system_nanos() - zero)
    };
    // Several looks, because a look may be interrupted.
    (0..8).map(|_| look()).min_by_key(|&(.., doubt)| doubt).expect("there are some")
}

/// The duration in nanoseconds, at most `u64::MAX`, which is 584 years.
#[inline]
fn nanos(duration: Duration) -> u64 {
    let whole = duration.as_secs().checked_mul(1_000_000_000);
    whole.and_then(|whole| whole.checked_add(duration.subsec_nanos().into())).unwrap_or(u64::MAX)
}
