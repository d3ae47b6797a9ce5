//! A seat's time slices: short while its worker polls tasks, long while it computes.
//!
//! A split point lets others have the CPU, but a computation may take a millisecond from one to the next: the first partition of a sort
//! does. Who is woken on its CPU meanwhile, a relief thread or the client of an echo server, should not wait for that; and
//! the kernel lets it go first if it asks for shorter slices than the thread that runs (`time_slice.rs`). So a worker that
//! computes asks for long ones, and for short ones again when it is back at its tasks, where it is the one to be let go first.
//! The sort then keeps its whole share of the CPU, in longer pieces.
//!
//! Asking costs two system calls. So a worker asks once it has computed for [`LONG_AFTER_NANOS`], as its looks tell; and at the very
//! beginning if its last computation took as long. Short ones do not pay for it.
//!
//! Measured beside a parallel sort every 12 ms, p99 of echo requests with pinned workers: 0.9 to 1.5 ms with the kernel's slices for
//! all or with short ones for all, 0.4 ms with long ones for computations. The computation gets no less: with the latter, looks twice
//! as far apart are enough.

use std::cell::Cell;

use super::split::INTERVAL_NANOS;
use crate::util::time_slice::{self, LONG_NANOS, SHORT_NANOS};

/// A computation that takes as long is worth two system calls.
const LONG_AFTER_NANOS: u64 = INTERVAL_NANOS;

/// The owner's alone.
#[derive(Debug, Default)]
pub struct Slices {
    /// When the computation that is under way first looked at the clock.
    began: Cell<Option<u64>>,
    are_long: Cell<bool>,
    /// The last computation took long, or the one under way has taken long already.
    computes_long: Cell<bool>,
}

impl Slices {
    /// Part of a computation begins.
    pub fn begin(&self) {
        if self.computes_long.get() {
            self.lengthen();
        }
    }

    /// A computation is still under way `now`.
    pub fn go_on(&self, now: u64) {
        match self.began.get() {
            None => self.began.set(Some(now)),
            Some(began) if now.saturating_sub(began) >= LONG_AFTER_NANOS => {
                self.computes_long.set(true);
                self.lengthen();
            }
            Some(_) => {}
        }
    }

    /// The worker is back at its tasks, or about to sleep at the latest: `now` only if it is asked for.
    pub fn end(&self, now: impl FnOnce() -> u64) {
        let began = self.began.take();
        if began.is_none() && !self.are_long.get() {
            return;
        }
        self.computes_long.set(began.is_some_and(|began| now().saturating_sub(began) >= LONG_AFTER_NANOS));
        if self.are_long.replace(false) {
            time_slice::ask(SHORT_NANOS);
        }
    }

    fn lengthen(&self) {
        if !self.are_long.replace(true) {
            time_slice::ask(LONG_NANOS);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::util::time_slice::current_nanos;

    /// Whether `slices` and the kernel agree that this thread has long ones; the kernel is not asked if it does not say.
    fn are_long(slices: &Slices) -> bool {
        let are_long = slices.are_long.get();
        if let Some(nanos) = current_nanos() {
            assert_eq!(nanos == LONG_NANOS, are_long);
        }
        are_long
    }

    #[test]
    fn a_computation_has_long_slices_once_it_has_taken_long_and_the_next_from_its_beginning() {
        std::thread::spawn(|| {
            let slices = Slices::default();
            slices.begin();
            slices.go_on(5);
            slices.go_on(4 + LONG_AFTER_NANOS);
            assert!(!are_long(&slices));
            slices.go_on(5 + LONG_AFTER_NANOS);
            assert!(are_long(&slices));
            slices.end(|| 5 + LONG_AFTER_NANOS);
            assert!(!are_long(&slices));

            slices.begin();
            assert!(are_long(&slices));
            slices.go_on(5);
            slices.end(|| 6);
            slices.begin();
            assert!(!are_long(&slices), "the last one was short");

            slices.computes_long.set(true);
            slices.begin();
            slices.end(|| unreachable!("nothing looked at the clock"));
            assert!(!are_long(&slices));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_worker_computes_in_long_slices_and_polls_tasks_in_short_ones() {
        let runtime = crate::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let usual = current_nanos();
        let computed = runtime.handle().compute(|| {
            // Passes split points for as long as it takes; what is not known here is whether the kernel says anything.
            let start = std::time::Instant::now();
            while current_nanos() != Some(LONG_NANOS) && start.elapsed().as_millis() < 1000 {
                crate::parallel::join(|| (), || ());
            }
            current_nanos()
        });
        let computed = runtime.block_on(computed).unwrap();
        if usual.is_some() {
            assert_eq!(computed, Some(LONG_NANOS));
        }
        // Its next park, or the next look at the driver, ends it.
        let polls = || runtime.block_on(runtime.spawn(async { current_nanos() })).unwrap();
        while polls() == Some(LONG_NANOS) {}
        if usual.is_some() {
            assert_eq!(polls(), Some(SHORT_NANOS));
        }
    }
}
