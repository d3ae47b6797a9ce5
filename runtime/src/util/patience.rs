//! Adaptive spinning: waiting awake for what is about to come.
//!
//! To be put to sleep and woken takes 5 to 50 µs ([`WAKE`]), of which 2 to 15 µs are the waker's. So if a
//! thread's last sleep was no longer than its longest wait plus a wake, the thread waits awake the next time.
//! If nothing comes, it goes to sleep. That costs one vain wait after the last short sleep. From then on, the
//! length of its sleeps decides whether it waits awake again.
//!
//! Waiting awake is only for an idle CPU. Once a wait has lasted [`UNASKED`], the thread asks the system
//! whether more threads want to run than there are CPUs. If so, the thread sleeps.
//!
//! Only speed depends on the spinning. A thread that waited awake in vain goes to sleep by the usual
//! protocol, which looks for what has come meanwhile.
//!
//! Prior art: adaptive mutexes, and the spinning of Go's scheduler.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::loom::{WAITS_AWAKE, hint};

/// The longest extra time that a sleep and its wake-up take, compared with spinning.
const WAKE: Duration = Duration::from_micros(50);
/// How long a thread waits awake before it asks whether other threads want to run.
const UNASKED: Duration = Duration::from_micros(2);
/// The number of pause instructions between two looks. Each look takes the cache line of the answer away from
/// the thread that writes it.
const PAUSES: u32 = 8;

/// What a thread remembers of its last wait. Only that thread touches it.
#[derive(Debug)]
pub struct Patience {
    /// The longest time that the thread waits awake.
    longest: Duration,
    was_short: Cell<bool>,
}

impl Patience {
    pub const fn new(longest: Duration) -> Self {
        Self { longest, was_short: Cell::new(false) }
    }

    /// Whether the next wait may be short.
    pub fn is_worth_it(&self) -> bool {
        WAITS_AWAKE && self.was_short.get()
    }

    /// Notes that the thread slept during its last wait, for `time`.
    pub fn slept(&self, time: Duration) {
        self.was_short.set(time <= self.longest + WAKE);
    }

    /// Notes that the last wait says nothing about the next.
    pub fn forget(&self) {
        self.was_short.set(false);
    }

    /// Waits awake until `is_over`, if that is worth it. Returns whether `is_over` became true. `is_crowded`
    /// says whether other threads want this CPU.
    pub fn wait(&self, is_crowded: impl FnOnce() -> bool, mut is_over: impl FnMut() -> bool) -> bool {
        if !self.is_worth_it() {
            return false;
        }
        let start = Instant::now();
        let mut is_crowded = Some(is_crowded);
        let came = loop {
            if is_over() {
                break true;
            }
            (0..PAUSES).for_each(|_| hint::spin_loop());
            let passed = start.elapsed();
            let may_ask = passed >= UNASKED;
            if passed >= self.longest || may_ask && is_crowded.take().is_some_and(|is_crowded| is_crowded()) {
                break false;
            }
        };
        self.was_short.set(came);
        came
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_micros(70);
    const SHORT: Duration = Duration::from_micros(70 + 50);

    #[test]
    fn a_short_sleep_makes_patient_and_a_long_one_does_not() {
        let patience = Patience::new(LONGEST);
        assert!(!patience.wait(|| false, || panic!("it has not waited yet")));
        patience.slept(SHORT);
        assert!(patience.wait(|| false, || true));
        patience.slept(SHORT + Duration::from_nanos(1));
        assert!(!patience.wait(|| false, || panic!("the last wait was long")));
    }

    #[test]
    fn patience_ends_with_a_wait_in_vain() {
        let patience = Patience::new(LONGEST);
        patience.slept(Duration::ZERO);
        let mut looks = 0;
        let start = Instant::now();
        let is_over = || {
            looks += 1;
            false
        };
        assert!(!patience.wait(|| false, is_over));
        assert!(looks > 0 && start.elapsed() >= LONGEST);
        assert!(!patience.is_worth_it());
    }

    #[test]
    fn patience_ends_where_others_want_the_cpu() {
        // Longer than this thread may lose its CPU before it asks.
        let patience = Patience::new(Duration::from_secs(3600));
        patience.slept(Duration::ZERO);
        let mut asked = 0;
        let is_crowded = || {
            asked += 1;
            true
        };
        assert!(!patience.wait(is_crowded, || false));
        assert_eq!((asked, patience.is_worth_it()), (1, false));
    }

    fn waits_for_third_look(patience: &Patience) -> bool {
        patience.slept(Duration::ZERO);
        let mut looks = 0;
        patience.wait(
            || false,
            || {
                looks += 1;
                looks == 3
            },
        )
    }

    #[test]
    fn what_comes_is_seen_and_makes_patient_again() {
        let patience = Patience::new(LONGEST);
        let begin = Instant::now();
        // Three looks may take too long if the system is busy.
        while !waits_for_third_look(&patience) {
            assert!(begin.elapsed() < Duration::from_secs(60), "nothing that comes is seen");
        }
        assert!(patience.is_worth_it());
        patience.forget();
        assert!(!patience.is_worth_it());
    }
}
