//! A small copy of the count, with at most one bug in it. Its owner does not sleep: it gives way until the latch is set.

use std::cell::Cell;

use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use loom::sync::atomic::{AtomicBool, AtomicI64};
use loom::thread;

use super::Count;

/// The bug that was put back.
pub struct Fault;

impl Fault {
    pub const NONE: u8 = 0;
    pub const NO_BIAS: u8 = 1;
    pub const FOLDS_BY_STORE: u8 = 2;
    pub const ENDS_RELAXED: u8 = 3;
    pub const LOOKS_RELAXED: u8 = 4;
}

pub struct Twin<const FAULT: u8> {
    own: Cell<i64>,
    is_folded: Cell<bool>,
    others: AtomicI64,
    is_set: AtomicBool,
}

impl<const FAULT: u8> Twin<FAULT> {
    /// Without it the owner's jobs are counted at once, as one that is there from the beginning less one at the fold.
    const BIAS: i64 = if FAULT == Fault::NO_BIAS { 1 } else { 1 << 62 };
}

impl<const FAULT: u8> Count for Twin<FAULT> {
    fn make() -> Self {
        Self {
            own: Cell::new(0),
            is_folded: Cell::new(false),
            others: AtomicI64::new(Self::BIAS),
            is_set: AtomicBool::new(false),
        }
    }

    unsafe fn increment(&self, is_owner: bool) {
        if is_owner && !self.is_folded.get() {
            self.own.set(self.own.get() + 1);
        } else {
            self.others.fetch_add(1, Relaxed);
        }
    }

    unsafe fn decrement(this: *const Self, is_owner: bool) {
        let order = if FAULT == Fault::ENDS_RELAXED { Relaxed } else { AcqRel };
        // SAFETY: live until the count is zero, or the latch set.
        unsafe {
            if is_owner && !(*this).is_folded.get() {
                (*this).own.set((*this).own.get() - 1);
            } else if (*this).others.fetch_sub(1, order) == 1 {
                (*this).is_set.store(true, Release);
            }
        }
    }

    fn is_done(&self) -> bool {
        let order = if FAULT == Fault::LOOKS_RELAXED { Relaxed } else { Acquire };
        self.own.get() + self.others.load(order) == Self::BIAS
    }

    fn fold_and_wait(&self) {
        self.is_folded.set(true);
        let own = self.own.take() - Self::BIAS;
        let left = match FAULT {
            Fault::FOLDS_BY_STORE => {
                let left = self.others.load(Acquire) + own;
                self.others.store(left, Release);
                left
            }
            _ => self.others.fetch_add(own, AcqRel) + own,
        };
        if left != 0 {
            while !self.is_set.load(Acquire) {
                thread::yield_now();
            }
        }
    }
}
