//! A copy of the sleep protocol for up to 64 workers, with at most one bug.

use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use loom::sync::atomic::{AtomicU64, fence};

use super::Protocol;

const SEARCHING: u64 = 1;
const SLEEPING: u64 = 1 << 16;

/// The bug that was put back.
#[derive(Clone, Copy, PartialEq)]
pub enum Fault {
    None,
    PushesWithoutFence,
    SleepsWithoutFence,
    /// The sleeper stands in the numbers only after its last look.
    LeavesCountLate,
    /// The last searcher that finds work does not look for more.
    FindsQuietly,
    /// A notifier that found no bit does not look again.
    GivesBackBlindly,
    /// A sleeper that was notified takes itself out of the number, as its notifier has done already.
    CountsOutTwice,
}

pub struct Twin {
    counts: AtomicU64,
    sleepers: AtomicU64,
    workers: u64,
    fault: Fault,
}

impl Twin {
    pub fn new(workers: u64, fault: Fault) -> Self {
        Self { counts: AtomicU64::new(0), sleepers: AtomicU64::new(0), workers, fault }
    }

    fn fence_unless(&self, fault: Fault) {
        if self.fault != fault {
            fence(SeqCst);
        }
    }

    fn take_lowest(&self, mask: u64) -> Option<usize> {
        let mut now = self.sleepers.load(Acquire);
        while now & mask != 0 {
            let lowest = (now & mask).trailing_zeros();
            let before = self.sleepers.fetch_and(!(1 << lowest), AcqRel);
            if before & (1 << lowest) != 0 {
                return Some(lowest as usize);
            }
            now = before;
        }
        None
    }
}

fn searching(counts: u64) -> u64 {
    counts % SLEEPING
}

fn sleeping(counts: u64) -> u64 {
    counts / SLEEPING
}

impl Protocol for Twin {
    fn start_searching(&self) -> bool {
        let is_allowed = 2 * searching(self.counts.load(Relaxed)) < self.workers;
        if is_allowed {
            self.counts.fetch_add(SEARCHING, SeqCst);
        }
        is_allowed
    }

    fn stop_searching(&self) -> bool {
        searching(self.counts.fetch_sub(SEARCHING, SeqCst)) == 1
    }

    fn announce_sleep(&self, index: usize, is_searching: bool) {
        if self.fault == Fault::LeavesCountLate {
            // The caller looks in the queues next, and the numbers follow when the worker is asleep; here:
            // never.
            return;
        }
        let change = if is_searching { SLEEPING - SEARCHING } else { SLEEPING };
        self.counts.fetch_add(change, SeqCst);
        self.sleepers.fetch_or(1 << index, AcqRel);
        self.fence_unless(Fault::SleepsWithoutFence);
    }

    fn cancel_sleep(&self, index: usize) {
        if self.sleepers.fetch_and(!(1 << index), AcqRel) & (1 << index) != 0 {
            self.counts.fetch_sub(SLEEPING - SEARCHING, SeqCst);
        }
    }

    fn end_sleep(&self, index: usize) -> bool {
        let is_own = self.sleepers.fetch_and(!(1 << index), AcqRel) & (1 << index) != 0;
        if is_own || self.fault == Fault::CountsOutTwice {
            self.counts.fetch_sub(SLEEPING, SeqCst);
        }
        is_own
    }

    fn fence_push(&self) {
        self.fence_unless(Fault::PushesWithoutFence);
    }

    fn pick_sleeper(&self, avoided: Option<usize>) -> Option<usize> {
        let mut counts = self.counts.load(Relaxed);
        loop {
            if searching(counts) > 0 || sleeping(counts) == 0 {
                return None;
            }
            if let Err(actual) = self.counts.compare_exchange(counts, counts + SEARCHING, SeqCst, Relaxed) {
                counts = actual;
                continue;
            }
            let avoided = avoided.map_or(0, |index| 1 << index);
            if let Some(index) = self.take_lowest(!avoided).or_else(|| self.take_lowest(avoided)) {
                self.counts.fetch_sub(SLEEPING, SeqCst);
                return Some(index);
            }
            self.counts.fetch_sub(SEARCHING, SeqCst);
            if self.fault == Fault::GivesBackBlindly {
                return None;
            }
            fence(SeqCst);
            loom::hint::spin_loop();
            counts = self.counts.load(Relaxed);
            if self.sleepers.load(Relaxed) == 0 {
                return None;
            }
        }
    }

    fn counts(&self) -> (usize, usize) {
        let counts = self.counts.load(SeqCst);
        (searching(counts) as usize, sleeping(counts) as usize)
    }

    fn looks_again(&self) -> bool {
        self.fault != Fault::FindsQuietly
    }
}
