//! A small copy of the word of injected jobs, with at most one bug in it.

use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

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
    /// `CloseJobs` looks whether work is visible before it looks at the number.
    LooksAtTheQueueFirst,
    /// `CloseJobs` does not look whether work is visible.
    LooksAtNoQueue,
    /// The look at the number orders nothing.
    LooksRelaxed,
    /// `CountJob` and `UncountJob` do nothing.
    CountsNothing,
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
        if self.fault == Some(Fault::CountsNothing) {
            return self.live.load(Acquire) & CLOSED == 0;
        }
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
        if self.fault == Some(Fault::CountsNothing) {
            return true;
        }
        let release = if self.fault == Some(Fault::EndsRelaxed) { Relaxed } else { Release };
        let before = self.live.fetch_sub(1, release);
        match self.fault {
            Some(Fault::WakesNobody) => false,
            Some(Fault::AsksElsewhere) => before == 1 && self.has_begun.load(Acquire),
            _ => before == CLOSING | 1,
        }
    }

    fn try_close(&self, is_idle: impl FnOnce() -> bool) -> bool {
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
            Some(Fault::LooksAtTheQueueFirst) => is_idle() && self.close(),
            Some(Fault::LooksAtNoQueue) => self.close(),
            Some(Fault::ClosesRelaxed) => self.close_in_order([Relaxed; 2], is_idle),
            Some(Fault::LooksRelaxed) => self.close_in_order([Relaxed, Acquire], is_idle),
            _ => self.close_in_order([Acquire; 2], is_idle),
        }
    }
}

impl Twin {
    /// `CloseJobs` in the right order.
    fn close_in_order(&self, [look, close]: [Ordering; 2], is_idle: impl FnOnce() -> bool) -> bool {
        let now = self.live.load(look);
        if now != self.closing() || !is_idle() {
            return now & CLOSED != 0;
        }
        self.close_with(close)
    }

    fn close(&self) -> bool {
        self.close_with(Acquire)
    }

    fn close_with(&self, acquire: Ordering) -> bool {
        let (open, closed) = (self.closing(), self.closing() | CLOSED);
        match self.live.compare_exchange(open, closed, acquire, acquire) {
            Ok(_) => true,
            Err(actual) => actual & CLOSED != 0,
        }
    }
}
