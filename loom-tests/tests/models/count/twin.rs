//! A small copy of the count, with at most one bug in it. Its owner does not sleep: it yields until the latch
//! is set.

use std::cell::Cell;

use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use loom::sync::atomic::{AtomicBool, AtomicI64};

use super::Count;
use crate::models::once_built::thread;
use crate::models::poison::name_late_uses;

/// How often the owner looks at the latch until it counts as asleep for ever.
const LOOKS: usize = 8;

/// The bug that was put back.
pub struct Fault;

impl Fault {
    pub const NONE: u8 = 0;
    pub const NO_BIAS: u8 = 1;
    pub const FOLDS_BY_STORE: u8 = 2;
    pub const ENDS_RELAXED: u8 = 3;
    pub const LOOKS_RELAXED: u8 = 4;
    pub const UNFOLDS_BY_STORE: u8 = 5;
    pub const UNFOLDS_ZERO: u8 = 6;
    pub const COUNTS_IN_ITS_SLEEP: u8 = 7;
}

pub struct Twin<const FAULT: u8> {
    own: Cell<i64>,
    is_folded: Cell<bool>,
    others: AtomicI64,
    owner: AtomicBool,
    is_set: AtomicBool,
}

impl<const FAULT: u8> Twin<FAULT> {
    /// The twin without a bias begins `others` at 1, and the fold takes this 1 away.
    const BIAS: i64 = if FAULT == Fault::NO_BIAS { 1 } else { 1 << 62 };

    fn counts_in_cell(&self, is_owner: bool) -> bool {
        is_owner && (FAULT == Fault::COUNTS_IN_ITS_SLEEP || !self.is_folded.get())
    }
}

impl<const FAULT: u8> Drop for Twin<FAULT> {
    fn drop(&mut self) {
        // This stands for another use of the freed memory. Loom watches what several threads do to one
        // atomic, so it also tries the order in which a late read of `owner` follows.
        self.owner.store(false, Relaxed);
    }
}

impl<const FAULT: u8> Count for Twin<FAULT> {
    fn make() -> Self {
        Self {
            own: Cell::new(0),
            is_folded: Cell::new(false),
            others: AtomicI64::new(Self::BIAS),
            owner: AtomicBool::new(true),
            is_set: AtomicBool::new(false),
        }
    }

    unsafe fn increment(&self, is_owner: bool) {
        if self.counts_in_cell(is_owner) {
            self.own.set(self.own.get() + 1);
        } else {
            self.others.fetch_add(1, Relaxed);
        }
    }

    unsafe fn decrement(this: *const Self, is_owner: bool) {
        let order = if FAULT == Fault::ENDS_RELAXED { Relaxed } else { AcqRel };
        // SAFETY: live until the count is zero, or the latch set.
        name_late_uses("the count", || unsafe {
            if (*this).counts_in_cell(is_owner) {
                (*this).own.set((*this).own.get() - 1);
            } else if (*this).others.fetch_sub(1, order) == 1 {
                // Which thread to wake.
                _ = (*this).owner.load(Relaxed);
                (*this).is_set.store(true, Release);
            }
        });
    }

    unsafe fn is_done(&self) -> bool {
        let order = if FAULT == Fault::LOOKS_RELAXED { Relaxed } else { Acquire };
        self.own.get() + self.others.load(order) == Self::BIAS
    }

    unsafe fn fold(&self) -> bool {
        let change = self.own.take() - Self::BIAS;
        let left = match FAULT {
            Fault::FOLDS_BY_STORE => {
                let left = self.others.load(Acquire) + change;
                self.others.store(left, Release);
                left
            }
            _ => self.others.fetch_add(change, AcqRel) + change,
        };
        self.is_folded.set(left != 0);
        if left == 0 {
            self.others.store(Self::BIAS, Relaxed);
        }
        left != 0
    }

    unsafe fn unfold(&self) -> bool {
        let is_unfolded = match FAULT {
            Fault::UNFOLDS_BY_STORE => {
                let left = self.others.load(Relaxed);
                self.others.store(if left == 0 { 0 } else { left + Self::BIAS }, Relaxed);
                left != 0
            }
            Fault::UNFOLDS_ZERO => {
                self.others.fetch_add(Self::BIAS, Relaxed);
                true
            }
            _ => {
                let is_left = |others| if others == 0 { None } else { Some(others + Self::BIAS) };
                self.others.fetch_update(Relaxed, Relaxed, is_left).is_ok()
            }
        };
        self.is_folded.set(!is_unfolded);
        is_unfolded
    }

    fn wait(&self) {
        // A thread that yields goes on when all others have ended, or yield too. So a look after that sees a
        // latch that was set.
        for _ in 0..LOOKS {
            if self.is_set.load(Acquire) {
                return;
            }
            thread::yield_now();
        }
        panic!("the owner sleeps for ever");
    }
}
