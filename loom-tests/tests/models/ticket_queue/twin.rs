//! A small copy of the queue, with at most one bug in it. It has space for two rings, of one slot and of
//! four.

use std::cell::Cell;
use std::ptr::null_mut;

use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use loom::sync::atomic::{AtomicPtr, AtomicUsize};

use super::Queue;

/// The bug that was put back.
pub struct Fault;

impl Fault {
    pub const NONE: u8 = 0;
    pub const CLAIMS_RELAXED: u8 = 1;
    pub const OVERWRITES: u8 = 2;
    pub const FORGETS_OLDER: u8 = 3;
}

pub struct Twin<T, const FAULT: u8> {
    claimed: AtomicUsize,
    pushed: Cell<usize>,
    small: AtomicPtr<T>,
    large: [AtomicPtr<T>; 4],
    /// The number of the large ring's first item; 0 if that ring is not used yet.
    first: AtomicUsize,
}

impl<T, const FAULT: u8> Twin<T, FAULT> {
    fn slot(&self, number: usize, first: usize) -> &AtomicPtr<T> {
        let is_large = first > 0 && (first <= number || FAULT == Fault::FORGETS_OLDER);
        if is_large { &self.large[number % 4] } else { &self.small }
    }
}

impl<T: 'static, const FAULT: u8> Queue<T> for Twin<T, FAULT> {
    fn make() -> Self {
        Self {
            claimed: AtomicUsize::new(0),
            pushed: Cell::new(0),
            small: AtomicPtr::new(null_mut()),
            large: [(); 4].map(|()| AtomicPtr::new(null_mut())),
            first: AtomicUsize::new(0),
        }
    }

    unsafe fn push(&self, item: *mut T) {
        let number = self.pushed.replace(self.pushed.get() + 1);
        let mut slot = self.slot(number, self.first.load(Relaxed));
        if FAULT != Fault::OVERWRITES && !slot.load(Relaxed).is_null() {
            self.first.store(number, Release);
            slot = self.slot(number, number);
        }
        slot.store(item, Relaxed);
    }

    unsafe fn take(&self) -> *mut T {
        let order = if FAULT == Fault::CLAIMS_RELAXED { Relaxed } else { AcqRel };
        let number = self.claimed.fetch_add(1, order);
        let slot = self.slot(number, self.first.load(Acquire));
        let item = slot.load(Relaxed);
        slot.store(null_mut(), Relaxed);
        item
    }
}
