//! A small copy of the word of injected jobs, with at most one bug in it.

use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use loom::sync::atomic::{AtomicBool, AtomicUsize};

use super::Word;

const CLOSED: usize = 1 << 63;
const CLOSING: usize = 1 << 62;

/// The bug that was put back.
#[derive(Clone, Copy, PartialEq)]
pub enum Fault {
    /// `CloseJobs` is a load and a store.
    ClosesByStore,
    /// `CloseJobs` does not look at the number.
    ClosesOverJobs,
    /// `CountJob` is a load and an addition.
    BeginsByLoad,
    EndsRelaxed,
    ClosesRelaxed,
    WakesNobody,
    /// `BeginClosing` is in another word, where `UncountJob` looks afterwards.
    AsksElsewhere,
}

pub struct Twin {
    live: AtomicUsize,
    has_begun: AtomicBool,
    fault: Option<Fault>,
}

impl Twin {
    pub fn new(fault: Option<Fault>) -> Self {
        Self { live: AtomicUsize::new(0), has_begun: AtomicBool::new(false), fault }
    }

    fn closing(&self) -> usize {
        if self.fault == Some(Fault::AsksElsewhere) { 0 } else { CLOSING }
    }
}

impl Word for Twin {
    fn begin_closing(&self) {
        self.has_begun.store(true, Release);
        if self.closing() != 0 {
            self.live.fetch_or(CLOSING, Relaxed);
        }
    }

    fn try_begin(&self) -> bool {
        if self.fault == Some(Fault::BeginsByLoad) {
            let is_open = self.live.load(Acquire) & CLOSED == 0;
            if is_open {
                self.live.fetch_add(1, Relaxed);
            }
            return is_open;
        }
        let is_open = self.live.fetch_add(1, Relaxed) & CLOSED == 0;
        if !is_open {
            self.live.fetch_sub(1, Relaxed);
        }
        is_open
    }

    fn end(&self) -> bool {
        let release = if self.fault == Some(Fault::EndsRelaxed) { Relaxed } else { Release };
        let before = self.live.fetch_sub(1, release);
        match self.fault {
            Some(Fault::WakesNobody) => false,
            Some(Fault::AsksElsewhere) => before == 1 && self.has_begun.load(Acquire),
            _ => before == CLOSING | 1,
        }
    }

    fn try_close(&self) -> bool {
        match self.fault {
            Some(Fault::ClosesByStore) => {
                let now = self.live.load(Acquire);
                if now == CLOSING {
                    self.live.store(CLOSING | CLOSED, Release);
                }
                now == CLOSING || now & CLOSED != 0
            }
            Some(Fault::ClosesOverJobs) => {
                self.live.fetch_or(CLOSED, Acquire);
                true
            }
            _ => {
                let acquire = if self.fault == Some(Fault::ClosesRelaxed) { Relaxed } else { Acquire };
                let (open, closed) = (self.closing(), self.closing() | CLOSED);
                match self.live.compare_exchange(open, closed, acquire, acquire) {
                    Ok(_) => true,
                    Err(actual) => actual & CLOSED != 0,
                }
            }
        }
    }
}
