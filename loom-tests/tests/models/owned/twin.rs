//! A small copy of the tables of `owned.rs`, with one worker's table and no shared tables, and with at most
//! one bug.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::Mutex as StdMutex;

use loom::sync::Mutex;
use loom::sync::atomic::AtomicBool;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use runtime::internals::task::{Header, Runnable};

use crate::models::plain::Plain;
use crate::models::poison::name_late_uses;
use crate::models::task::board::Tables;

/// The bug that was put back.
#[derive(Clone, Copy, PartialEq)]
pub enum Fault {
    None,
    /// A task that ends on another thread clears its slot there and then.
    LeavesAsTheOwner,
    /// A task that ends on another thread leaves no number.
    LeavesNoWord,
    /// Numbers stay in `returned` after their slots have been cleared.
    ClearsTwice,
    /// A thread that looks through the owner's table takes every task in it for live.
    LooksWithoutClearing,
    /// The owner takes its table back without the lock, so the table still counts as lent.
    TakesBackWithoutLock,
    /// A thread that looks for tasks does not ask whether the table is lent.
    LooksUnlent,
    /// A table counts as claimed though the thread that has claimed it had not seen the close.
    ClaimsUnclosed,
    /// The owner does not ask whether the tables are closed.
    EntersClosed,
}

pub struct Twin {
    tasks: Plain<Slots>,
    side: Mutex<Side>,
    has_returned: AtomicBool,
    is_closed: AtomicBool,
    /// The slot of each task that was entered, as its cell would say.
    places: StdMutex<HashMap<NonNull<Header>, usize>>,
    fault: Fault,
}

struct Side {
    returned: Vec<usize>,
    is_lent: bool,
    is_claimed: bool,
}

// SAFETY: the models watch the one cell. Pointers to tasks are followed as the protocol says.
unsafe impl Send for Twin {}
// SAFETY: as above.
unsafe impl Sync for Twin {}

impl Twin {
    pub fn new(fault: Fault) -> Self {
        Self {
            tasks: Plain::new("the worker's table", Slots::default()),
            side: Mutex::new(Side { returned: Vec::new(), is_lent: false, is_claimed: false }),
            has_returned: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            places: StdMutex::default(),
            fault,
        }
    }

    /// The table, for a caller that holds it for its own.
    fn with_tasks<R>(&self, f: impl FnOnce(&mut Slots) -> R) -> R {
        // SAFETY: the cell checks that no other thread accesses it.
        self.tasks.with_mut(|tasks| f(unsafe { &mut *tasks }))
    }

    fn clear_returned(&self, side: &mut Side) {
        if side.returned.is_empty() {
            return;
        }
        self.with_tasks(|tasks| side.returned.iter().for_each(|&slot| tasks.remove(slot)));
        if self.fault != Fault::ClearsTwice {
            side.returned.clear();
            self.has_returned.store(false, Relaxed);
        }
    }
}

impl Tables for Twin {
    unsafe fn enter(&self, task: NonNull<Header>, seat: Option<usize>) -> bool {
        if self.places.lock().unwrap().contains_key(&task) {
            // Here the cell does not tell, unlike with the real tables.
            return true;
        }
        assert_eq!(seat, Some(0), "the twin has no shared tables");
        if self.fault != Fault::EntersClosed && self.is_closed.load(Acquire) {
            return false;
        }
        if self.has_returned.load(Relaxed) {
            self.clear_returned(&mut self.side.lock().unwrap());
        }
        let slot = self.with_tasks(|tasks| tasks.insert(task));
        self.places.lock().unwrap().insert(task, slot);
        true
    }

    unsafe fn leave(&self, task: NonNull<Header>, seat: Option<usize>) {
        let Some(slot) = self.places.lock().unwrap().remove(&task) else { return };
        if seat.is_some() || self.fault == Fault::LeavesAsTheOwner {
            return self.with_tasks(|tasks| tasks.remove(slot));
        }
        if self.fault == Fault::LeavesNoWord {
            return;
        }
        let mut side = self.side.lock().unwrap();
        if side.is_lent {
            self.with_tasks(|tasks| tasks.remove(slot));
        } else {
            side.returned.push(slot);
            self.has_returned.store(true, Relaxed);
        }
    }

    unsafe fn lend(&self, _: usize) {
        let mut side = self.side.lock().unwrap();
        self.clear_returned(&mut side);
        side.is_lent = true;
    }

    fn take_back(&self, _: usize) {
        if self.fault != Fault::TakesBackWithoutLock {
            self.side.lock().unwrap().is_lent = false;
        }
    }

    fn close(&self) {
        self.is_closed.store(true, Release);
    }

    unsafe fn cancel_idle(&self, own: Option<usize>) -> usize {
        let is_closed = self.is_closed.load(Acquire) || self.fault == Fault::ClaimsUnclosed;
        let mut side = self.side.lock().unwrap();
        if !side.is_lent && own.is_none() && self.fault != Fault::LooksUnlent {
            return 0;
        }
        if self.fault != Fault::LooksWithoutClearing {
            self.clear_returned(&mut side);
        }
        // SAFETY: the cell checks that no thread writes.
        let tasks = self.tasks.with(|tasks| unsafe { (*tasks).all() });
        if side.is_claimed {
            return tasks.len();
        }
        side.is_claimed = is_closed;
        // SAFETY: the model checks whether the task is live.
        let claim =
            |task: &NonNull<Header>| name_late_uses("a task", || unsafe { Runnable::claim_idle(*task) });
        let claimed: Vec<_> = tasks.iter().filter_map(claim).collect();
        drop(side);
        let left = tasks.len() - claimed.len();
        claimed.into_iter().for_each(Runnable::cancel);
        left
    }
}

/// A table that checks how its slots are used.
#[derive(Default)]
struct Slots {
    slots: Vec<Option<NonNull<Header>>>,
    free: Vec<usize>,
}

impl Slots {
    fn insert(&mut self, task: NonNull<Header>) -> usize {
        let slot = self.free.pop().unwrap_or(self.slots.len());
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[slot] = Some(task);
        slot
    }

    fn remove(&mut self, slot: usize) {
        assert!(self.slots[slot].take().is_some(), "a slot is cleared twice");
        self.free.push(slot);
    }

    fn all(&self) -> Vec<NonNull<Header>> {
        self.slots.iter().copied().flatten().collect()
    }
}
