//! A copy of the sleep protocol with jobs, for up to 64 workers, with at most one bug.

use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use loom::sync::atomic::{AtomicU64, fence};
use runtime::internals::scheduler::{Pick, Work};

use super::Protocol;

/// The bug that was put back.
#[derive(Clone, Copy, PartialEq)]
pub enum Fault {
    None,
    /// PushFence is left out.
    PushesWithoutFence,
    /// SleepFence is left out.
    SleepsWithoutFence,
    /// LatchFence is left out.
    WaitsWithoutFence,
    /// LatchShow comes after LatchFence and LatchReadPosts.
    ShowsBitLate,
    /// LatchReadPosts is left out.
    ComparesNothing,
    /// LatchReadPosts reads the counter without writing to the word.
    ComparesByLoad,
    /// LatchHide leaves the bit where it is.
    KeepsBit,
    /// A sleeper that was notified takes itself out of the number, as its notifier has done already.
    CountsOutTwice,
    /// The events counter is the lowest field of the word, so that its overflow is carried into the others.
    CarriesIntoCounts,
    /// A pusher that found no bit forgets that others relied on it.
    GivesBackSilently,
    /// The glance before CountPost does not see the sleepers.
    GlancesAtCounterAlone,
}

/// One of each field of the word.
struct Units {
    searching: u64,
    sleeping: u64,
    event: u64,
}

pub struct Twin {
    word: AtomicU64,
    sleepers: AtomicU64,
    waiters: AtomicU64,
    units: Units,
    fault: Fault,
}

impl Twin {
    pub fn new(fault: Fault, events: u32) -> Self {
        let units = match fault {
            Fault::CarriesIntoCounts => Units { event: 1, searching: 1 << 32, sleeping: 1 << 48 },
            _ => Units { searching: 1, sleeping: 1 << 16, event: 1 << 32 },
        };
        Self {
            word: AtomicU64::new(u64::from(events) * units.event),
            sleepers: AtomicU64::new(0),
            waiters: AtomicU64::new(0),
            units,
            fault,
        }
    }

    fn fence_unless(&self, fault: Fault) {
        if self.fault != fault {
            fence(SeqCst);
        }
    }

    fn searching(&self, word: u64) -> u64 {
        word / self.units.searching % (1 << 16)
    }

    fn sleeping(&self, word: u64) -> u64 {
        word / self.units.sleeping % (1 << 16)
    }

    fn events(&self, word: u64) -> u64 {
        word / self.units.event % (1 << 32)
    }

    fn sleep_change(&self, is_searching: bool) -> u64 {
        self.units.sleeping - if is_searching { self.units.searching } else { 0 }
    }

    fn pick(&self, work: Work, first: usize) -> Pick {
        let (sleeper, is_left, gave_back) = self.find_sleeper();
        if sleeper.is_some() || is_left {
            return Pick { unparks: sleeper, found_none: false };
        }
        let asks_waiters = gave_back || work == Work::Job;
        let first = if gave_back { 0 } else { first };
        let unparks = if asks_waiters { take_lowest(&self.waiters, first) } else { None };
        Pick { unparks, found_none: gave_back || unparks.is_none() }
    }

    /// Which sleeper ReadCounts to UnparkSleeper found, whether a worker searches, whether other threads may
    /// have relied on this one.
    fn find_sleeper(&self) -> (Option<usize>, bool, bool) {
        let mut gave_back = false;
        let mut word = self.word.load(Relaxed);
        loop {
            if self.searching(word) > 0 {
                return (None, true, gave_back);
            }
            if self.sleeping(word) == 0 {
                return (None, false, gave_back);
            }
            if let Err(actual) =
                self.word.compare_exchange(word, word + self.units.searching, SeqCst, Relaxed)
            {
                word = actual;
                continue;
            }
            if let Some(index) = take_lowest(&self.sleepers, 0) {
                self.word.fetch_sub(self.units.sleeping, SeqCst);
                return (Some(index), false, gave_back);
            }
            self.word.fetch_sub(self.units.searching, SeqCst);
            gave_back = self.fault != Fault::GivesBackSilently;
            fence(SeqCst);
            loom::hint::spin_loop();
            word = self.word.load(Relaxed);
            if self.sleepers.load(Relaxed) == 0 {
                return (None, self.searching(word) > 0, gave_back);
            }
        }
    }
}

/// The lowest bit from `first` on.
fn take_lowest(bits: &AtomicU64, first: usize) -> Option<usize> {
    let mut now = bits.load(Acquire);
    while now >> first != 0 {
        let lowest = (now >> first << first).trailing_zeros();
        let before = bits.fetch_and(!(1 << lowest), AcqRel);
        if before & (1 << lowest) != 0 {
            return Some(lowest as usize);
        }
        now = before;
    }
    None
}

fn clear(bits: &AtomicU64, index: usize) -> bool {
    bits.fetch_and(!(1 << index), AcqRel) & (1 << index) != 0
}

impl Protocol for Twin {
    type Events = u64;

    fn add_searcher(&self) {
        self.word.fetch_add(self.units.searching, SeqCst);
    }

    fn stop_searching(&self) -> bool {
        self.searching(self.word.fetch_sub(self.units.searching, SeqCst)) == 1
    }

    fn get_sleepy(&self) -> u64 {
        let mut word = self.word.load(Acquire);
        while self.events(word) % 2 == 1 {
            let even = word.wrapping_add(self.units.event);
            match self.word.compare_exchange(word, even, SeqCst, Acquire) {
                Ok(_) => return self.events(even),
                Err(actual) => word = actual,
            }
        }
        self.events(word)
    }

    fn announce_sleep_unless(&self, index: usize, is_searching: bool, seen: u64) -> bool {
        let mut word = self.word.load(Acquire);
        while self.events(word) == seen {
            let change = self.sleep_change(is_searching);
            match self.word.compare_exchange(word, word.wrapping_add(change), SeqCst, Acquire) {
                Ok(_) => {
                    self.sleepers.fetch_or(1 << index, AcqRel);
                    self.fence_unless(Fault::SleepsWithoutFence);
                    return true;
                }
                Err(actual) => word = actual,
            }
        }
        false
    }

    fn cancel_sleep(&self, index: usize) {
        if clear(&self.sleepers, index) {
            self.word.fetch_sub(self.sleep_change(true), SeqCst);
        }
    }

    fn end_sleep(&self, index: usize) -> bool {
        let is_own = clear(&self.sleepers, index);
        if is_own || self.fault == Fault::CountsOutTwice {
            self.word.fetch_sub(self.units.sleeping, SeqCst);
        }
        is_own
    }

    fn announce_wait(&self, index: usize, seen: u64) -> bool {
        let is_late = self.fault == Fault::ShowsBitLate;
        if !is_late {
            self.waiters.fetch_or(1 << index, AcqRel);
        }
        self.fence_unless(Fault::WaitsWithoutFence);
        let now = match self.fault {
            Fault::ComparesNothing => seen,
            Fault::ComparesByLoad => self.events(self.word.load(SeqCst)),
            _ => self.events(self.word.fetch_add(0, SeqCst)),
        };
        if is_late {
            self.waiters.fetch_or(1 << index, AcqRel);
        }
        now == seen || !self.end_wait(index)
    }

    fn end_wait(&self, index: usize) -> bool {
        self.fault != Fault::KeepsBit && clear(&self.waiters, index)
    }

    fn fence_push(&self) {
        self.fence_unless(Fault::PushesWithoutFence);
    }

    fn post_job(&self) {
        let mut word = self.word.load(Relaxed);
        while self.events(word) % 2 == 0 {
            match self.word.compare_exchange(word, word.wrapping_add(self.units.event), SeqCst, Relaxed) {
                Ok(_) => return,
                Err(actual) => word = actual,
            }
        }
    }

    fn pick_for(&self, work: Work) -> Pick {
        self.pick(work, 0)
    }

    fn pick_anyway(&self) -> Option<usize> {
        self.add_searcher();
        let picked = take_lowest(&self.sleepers, 0);
        let change = if picked.is_some() { self.units.sleeping } else { self.units.searching };
        self.word.fetch_sub(change, SeqCst);
        picked
    }

    fn pick_waiter(&self) -> Option<usize> {
        take_lowest(&self.waiters, 0)
    }

    fn pass_errand_on(&self, index: usize) -> Pick {
        self.pick(Work::Job, index + 1)
    }

    fn has_sleepers(&self) -> bool {
        self.sleeping(self.word.load(Relaxed)) > 0
    }

    fn is_job_news(&self) -> bool {
        let word = self.word.load(Relaxed);
        let is_anybody_asleep = self.sleeping(word) > 0 || self.waiters.load(Relaxed) != 0;
        let sees_sleepers = self.fault != Fault::GlancesAtCounterAlone;
        self.events(word) % 2 == 0 || sees_sleepers && self.searching(word) == 0 && is_anybody_asleep
    }

    fn has_waiters(&self) -> bool {
        self.waiters.load(Relaxed) != 0
    }

    fn counts(&self) -> (usize, usize) {
        let word = self.word.load(SeqCst);
        (self.searching(word) as usize, self.sleeping(word) as usize)
    }
}
