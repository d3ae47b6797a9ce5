//! A small copy of the run queue, with at most one bug in it.

use std::ptr::NonNull;

use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use loom::sync::atomic::{AtomicU32, AtomicU64};
use runtime::internals::RING_CAPACITY;
use runtime::internals::queue::Injector;

use super::{Item, Ring};
use crate::models::plain::Plain;

const CAPACITY: u32 = RING_CAPACITY as u32;
const ONE: u64 = 1 << 9;
const CLAIMED: u64 = ONE - 1;

/// The bug that was put back.
#[derive(Clone, Copy, PartialEq)]
pub enum Fault {
    LeavesBeforeCopying,
    LeavesRelaxed,
    StoresHead,
    EntersBehindAnother,
    LoadsTailRelaxed,
    LoadsHeadRelaxed,
    MeasuresRoomFromReal,
    PopsRelaxed,
    OverflowsPastThief,
    OverflowsRelaxed,
    RefillsRelaxed,
    RefillStoresTailRelaxed,
}

pub struct Twin {
    head: AtomicU64,
    tail: AtomicU32,
    slots: [Plain<Option<NonNull<Item>>>; RING_CAPACITY],
    fault: Option<Fault>,
}

// SAFETY: the model finds out whether the accesses to the slots are ordered.
unsafe impl Send for Twin {}
// SAFETY: as above.
unsafe impl Sync for Twin {}

fn real(head: u64) -> u32 {
    (head >> 9) as u32
}

fn claimed(head: u64) -> u32 {
    (head & CLAIMED) as u32
}

impl Twin {
    pub fn new(start: u64, fault: Option<Fault>) -> Self {
        Self {
            head: AtomicU64::new(start * ONE),
            tail: AtomicU32::new(start as u32),
            slots: std::array::from_fn(|_| Plain::new("a slot of the ring", None)),
            fault,
        }
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn write(&self, index: u32, item: NonNull<Item>) {
        let slot = &self.slots[(index % CAPACITY) as usize];
        // SAFETY: the cell checks that no other thread is there.
        slot.with_mut(|slot| unsafe { *slot = Some(item) });
    }

    fn read(&self, index: u32) -> NonNull<Item> {
        let slot = &self.slots[(index % CAPACITY) as usize];
        // SAFETY: the cell checks that no thread writes.
        slot.with(|slot| unsafe { *slot }).expect("a taken slot was written")
    }

    fn steal_index(&self, head: u64) -> u32 {
        real(head).wrapping_sub(if self.has(Fault::MeasuresRoomFromReal) { 0 } else { claimed(head) })
    }

    fn load_to_refill(&self) -> u64 {
        self.head.load(if self.has(Fault::RefillsRelaxed) { Relaxed } else { Acquire })
    }

    fn overflow(&self, head: u64, tail: u32, item: NonNull<Item>, injector: &Injector<Item>) -> bool {
        let moved = head + u64::from(CAPACITY) * ONE;
        let release = if self.has(Fault::OverflowsRelaxed) { Relaxed } else { Release };
        if self.has(Fault::OverflowsPastThief) {
            self.head.store(moved, Release);
        } else if self.head.compare_exchange(head, moved, release, Relaxed).is_err() {
            return false;
        }
        self.tail.store(tail.wrapping_add(CAPACITY / 2), Release);
        for index in CAPACITY / 2..CAPACITY {
            // SAFETY: as in `Local`.
            unsafe { injector.push(self.read(real(head).wrapping_add(index))) };
        }
        // SAFETY: as in `Local`.
        unsafe { injector.push(item) };
        true
    }
}

impl Ring for Twin {
    unsafe fn push(&self, item: NonNull<Item>, injector: &Injector<Item>) {
        let tail = self.tail.load(Relaxed);
        loop {
            let head = self.head.load(Acquire);
            if tail.wrapping_sub(self.steal_index(head)) < CAPACITY {
                self.write(tail, item);
                return self.tail.store(tail.wrapping_add(1), Release);
            }
            if claimed(head) != 0 {
                // SAFETY: as in `Local`.
                return unsafe { injector.push(item) };
            }
            if self.overflow(head, tail, item, injector) {
                return;
            }
        }
    }

    unsafe fn pop(&self) -> Option<NonNull<Item>> {
        let tail = self.tail.load(Relaxed);
        let release = if self.has(Fault::PopsRelaxed) { Relaxed } else { Release };
        let mut head = self.head.load(Relaxed);
        while real(head) != tail {
            let popped = head.wrapping_add(ONE + u64::from(claimed(head) != 0));
            match self.head.compare_exchange(head, popped, release, Relaxed) {
                Ok(_) => return Some(self.read(real(head))),
                Err(newer) => head = newer,
            }
        }
        None
    }

    unsafe fn steal_into(&self, into: &Self) -> Option<NonNull<Item>> {
        let acquire = if self.has(Fault::LoadsHeadRelaxed) { Relaxed } else { Acquire };
        let acquire_tail = if self.has(Fault::LoadsTailRelaxed) { Relaxed } else { Acquire };
        let into_tail = into.tail.load(Relaxed);
        let room = CAPACITY + 1 - into_tail.wrapping_sub(into.steal_index(into.load_to_refill()));
        let mut head = self.head.load(acquire);
        let count = loop {
            let waiting = self.tail.load(acquire_tail).wrapping_sub(real(head));
            let closed = claimed(head) != 0 && !self.has(Fault::EntersBehindAnother);
            if closed || waiting == 0 {
                return None;
            }
            let count = waiting.div_ceil(2).min(room);
            let claim = head.wrapping_add(u64::from(count) * ONE + u64::from(count));
            if self.has(Fault::StoresHead) {
                self.head.store(claim, Release);
                break count;
            }
            match self.head.compare_exchange(head, claim, Relaxed, acquire) {
                Ok(_) => break count,
                Err(newer) => head = newer,
            }
        };
        if self.has(Fault::LeavesBeforeCopying) {
            self.head.fetch_and(!CLAIMED, Release);
        }
        let first = self.read(real(head));
        for offset in 1..count {
            into.write(into_tail.wrapping_add(offset - 1), self.read(real(head).wrapping_add(offset)));
        }
        let release = if self.has(Fault::RefillStoresTailRelaxed) { Relaxed } else { Release };
        into.tail.store(into_tail.wrapping_add(count - 1), release);
        if self.has(Fault::LeavesRelaxed) {
            self.head.fetch_and(!CLAIMED, Relaxed);
        } else {
            self.head.fetch_and(!CLAIMED, Release);
        }
        Some(first)
    }
}
