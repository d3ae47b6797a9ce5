//! A small copy of the deque, with at most one bug in it.

use std::cell::Cell;

use loom::sync::atomic::Ordering::{self, Acquire, Relaxed, Release};
use loom::sync::atomic::{AtomicPtr, AtomicU64};
use runtime::internals::DEQUE_CAPACITY;

use super::{Item, Jobs};

const CAPACITY: u32 = DEQUE_CAPACITY as u32;
const SPLIT: u64 = 1 << 14;
const VERSION: u64 = 1 << 28;
const JOIN: usize = 1;
const NOTED: usize = 2;

/// The bug that was put back.
#[derive(Clone, Copy, PartialEq)]
pub enum Fault {
    ReclaimsSameVersion,
    RewindsToSameVersion,
    ReadsAfterClaim,
    StoresClaim,
    LooksBeforeItReads,
    ReadsSeveralAfterClaim,
    ClaimsOneOfSeveral,
    StoresReclaim,
    PublishesRelaxed,
    LoadsRelaxed,
    LooksAgainRelaxed,
    ClaimsRelaxed,
    LearnsRelaxed,
    MakesRoomRelaxed,
    RewindsBelowJoinItem,
    RewindsOverPublic,
    FinishesPublished,
    FinishesByPlace,
}

pub struct Twin {
    public: AtomicU64,
    head: Cell<u32>,
    split: Cell<u32>,
    /// The index up to which it takes items for finished, if it has that fault.
    finished: Cell<u32>,
    slots: [AtomicPtr<Item>; DEQUE_CAPACITY],
    fault: Option<Fault>,
}

// SAFETY: the cells are the owner's alone, in the models as in the original.
unsafe impl Send for Twin {}
// SAFETY: as above.
unsafe impl Sync for Twin {}

fn tail(word: u64) -> u32 {
    (word % SPLIT) as u32
}

fn split(word: u64) -> u32 {
    ((word / SPLIT) % SPLIT) as u32
}

impl Twin {
    pub fn new(fault: Option<Fault>) -> Self {
        Self {
            public: AtomicU64::new(0),
            head: Cell::new(0),
            split: Cell::new(0),
            finished: Cell::new(0),
            slots: std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut())),
            fault,
        }
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn unless(&self, fault: Fault, strong: Ordering) -> Ordering {
        if self.has(fault) { Relaxed } else { strong }
    }

    fn slot(&self, index: u32) -> *mut Item {
        self.slots[index as usize].load(Relaxed)
    }

    fn item(&self, index: u32) -> *mut Item {
        self.slot(index).map_addr(|address| address & !(JOIN | NOTED))
    }

    fn put(&self, item: *mut Item) {
        self.slots[self.head.get() as usize].store(item, Relaxed);
        self.head.set(self.head.get() + 1);
    }

    /// `word` with new places, and with the next version unless the twin has `fault`.
    fn moved(&self, word: u64, split: u32, tail: u32, fault: Fault) -> u64 {
        let version = word & !(VERSION - 1);
        let next = if self.has(fault) { version } else { version.wrapping_add(VERSION) };
        next | (u64::from(split) * SPLIT) | u64::from(tail)
    }

    /// Whether the private item at `index` need not be finished.
    fn is_finished(&self, index: u32) -> bool {
        match self.has(Fault::FinishesByPlace) {
            true => index < self.finished.get(),
            false => self.slot(index).addr() & JOIN != 0,
        }
    }

    fn finish(&self, from: u32, finish: &dyn Fn(*mut Item)) {
        for index in (from..self.head.get()).rev().take_while(|&index| !self.is_finished(index)) {
            finish(self.slot(index));
            let item = self.slot(index).map_addr(|address| address | JOIN);
            self.slots[index as usize].store(item, Relaxed);
        }
        self.finished.set(self.head.get());
    }

    fn reclaim(&self, index: u32, floor: u32) -> Option<*mut Item> {
        let acquire = self.unless(Fault::LearnsRelaxed, Acquire);
        let mut word = self.public.load(acquire);
        while tail(word) <= index {
            let reclaimed = self.moved(word, index, tail(word), Fault::ReclaimsSameVersion);
            let outcome = if self.has(Fault::StoresReclaim) {
                self.public.store(reclaimed, Release);
                Ok(word)
            } else {
                self.public.compare_exchange(word, reclaimed, Relaxed, acquire)
            };
            match outcome {
                Ok(_) => {
                    self.split.set(index);
                    self.head.set(index);
                    return Some(self.item(index));
                }
                Err(actual) => word = actual,
            }
        }
        self.rewind(word, if self.has(Fault::RewindsBelowJoinItem) { 0 } else { floor });
        None
    }

    fn rewind(&self, word: u64, floor: u32) {
        self.public.store(self.moved(word, floor, floor, Fault::RewindsToSameVersion), Relaxed);
        self.split.set(floor);
        self.head.set(floor);
    }

    fn make_room(&self) -> bool {
        let word = self.public.load(self.unless(Fault::MakesRoomRelaxed, Acquire));
        if tail(word) != self.head.get() && !self.has(Fault::RewindsOverPublic) {
            return false;
        }
        let join = (0..self.head.get()).rev().find(|&index| self.slot(index).addr() & JOIN != 0);
        let floor = join.map_or(0, |index| index + 1);
        self.rewind(word, if self.has(Fault::RewindsBelowJoinItem) { 0 } else { floor });
        true
    }
}

impl Jobs for Twin {
    unsafe fn push_join_item(&self, item: *mut Item) -> Option<u32> {
        let index = self.head.get();
        self.put(item.map_addr(|address| address | JOIN));
        Some(index)
    }

    unsafe fn begin_join_item(&self, item: *mut Item) -> u32 {
        let index = self.head.get();
        self.put(item);
        index
    }

    unsafe fn finish_and_publish(&self, n: u32, finish: &dyn Fn(*mut Item)) -> u32 {
        let from = self.split.get();
        // SAFETY: the caller guarantees the same.
        let publish = || unsafe { self.publish(n) };
        if self.has(Fault::FinishesPublished) {
            let n = publish();
            self.finish(from, finish);
            return n;
        }
        self.finish(from, finish);
        publish()
    }

    unsafe fn push(&self, item: *mut Item) -> bool {
        if self.head.get() == CAPACITY && !self.make_room() {
            return false;
        }
        self.put(item);
        true
    }

    unsafe fn publish(&self, n: u32) -> u32 {
        let n = n.min(self.head.get() - self.split.get());
        if n > 0 {
            self.public.fetch_add(u64::from(n) * SPLIT, self.unless(Fault::PublishesRelaxed, Release));
            self.split.set(self.split.get() + n);
        }
        n
    }

    unsafe fn note(&self, index: u32) {
        let noted = self.slot(index).map_addr(|address| address | NOTED);
        self.slots[index as usize].store(noted, Relaxed);
    }

    unsafe fn take_back(&self, index: u32) -> bool {
        if index < self.split.get() {
            return self.reclaim(index, index).is_some();
        }
        self.head.set(index);
        true
    }

    unsafe fn pop(&self, floor: u32) -> Option<*mut Item> {
        let index = self.head.get().checked_sub(1).filter(|&index| index >= floor)?;
        if index < self.split.get() {
            return self.reclaim(index, floor);
        }
        self.head.set(index);
        Some(self.item(index))
    }

    fn steal(&self, is_wanted: &dyn Fn(*mut Item) -> bool) -> Option<*mut Item> {
        let mut word = self.public.load(self.unless(Fault::LoadsRelaxed, Acquire));
        let again = self.unless(Fault::LooksAgainRelaxed, Acquire);
        let claim = self.unless(Fault::ClaimsRelaxed, Release);
        loop {
            if tail(word) == split(word) {
                return None;
            }
            let mut item = self.item(tail(word));
            if !is_wanted(item) {
                return None;
            }
            if self.has(Fault::LooksBeforeItReads) {
                word = self.public.load(Acquire);
                if tail(word) == split(word) {
                    return None;
                }
                item = self.item(tail(word));
            }
            if self.has(Fault::StoresClaim) {
                self.public.store(word + 1, Release);
                return Some(item);
            }
            match self.public.compare_exchange(word, word + 1, claim, again) {
                Ok(_) if self.has(Fault::ReadsAfterClaim) => return Some(self.item(tail(word))),
                Ok(_) => return Some(item),
                Err(actual) => word = actual,
            }
        }
    }

    fn steal_several(&self, most: u32) -> Vec<*mut Item> {
        let mut word = self.public.load(Acquire);
        loop {
            let (from, public) = (tail(word), split(word) - tail(word));
            let n = public.div_ceil(2).min(most);
            if n == 0 {
                return Vec::new();
            }
            let read = || (from..from + n).map(|index| self.item(index)).collect();
            let before: Vec<_> = read();
            let claimed = if self.has(Fault::ClaimsOneOfSeveral) { 1 } else { u64::from(n) };
            match self.public.compare_exchange(word, word + claimed, Release, Acquire) {
                Ok(_) if self.has(Fault::ReadsSeveralAfterClaim) => return read(),
                Ok(_) => return before,
                Err(actual) => word = actual,
            }
        }
    }
}
