//! A small copy of the inbox, with at most one fault.

use std::mem;
use std::ptr::{self, NonNull};
use std::task::Waker;

use loom::sync::Mutex;
use loom::sync::atomic::AtomicPtr;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use runtime::internals::queue::{IntrusiveList, set_next};

use super::Queue;
use crate::models::item::Item;
use crate::models::plain::{Plain, name_races};

#[derive(Clone, Copy, PartialEq)]
pub enum Fault {
    None,
    /// The owner sets the mark without looking whether there is an item.
    WaitsWithoutLook,
    /// One wait has the same mark as the next.
    CountsNoWaits,
    /// A pusher drops the waker of an earlier wait before it pushes.
    DropsBeforePush,
    /// A pusher uses the inbox after its push.
    TakesAfterPush,
    /// The pusher's writes are not published.
    PushesRelaxed,
}

pub struct Twin {
    head: AtomicPtr<Item>,
    waker: Mutex<(Option<Waker>, usize)>,
    /// Each thread inside reads it, and `free` writes it, so a race is a use after free. Freed memory is
    /// leaked.
    is_alive: Plain<bool>,
    fault: Fault,
}

// SAFETY: the one cell is what the models watch.
unsafe impl Send for Twin {}
// SAFETY: as above.
unsafe impl Sync for Twin {}

impl Twin {
    pub fn new(fault: Fault) -> Self {
        Self {
            head: AtomicPtr::new(ptr::null_mut()),
            waker: Mutex::new((None, 0)),
            is_alive: Plain::new("the inbox", true),
            fault,
        }
    }

    fn take_waker(&self) -> Option<Waker> {
        // SAFETY: the cell checks that no other thread writes.
        assert!(self.is_alive.with(|is_alive| unsafe { *is_alive }));
        self.waker.lock().unwrap().0.take()
    }
}

fn is_mark(head: *mut Item) -> bool {
    head.addr() & 1 != 0
}

fn is_item(head: *mut Item) -> bool {
    !head.is_null() && !is_mark(head)
}

impl Queue for Twin {
    unsafe fn push(this: NonNull<Self>, item: NonNull<Item>, wake: impl FnOnce(Waker)) {
        // SAFETY: the caller guarantees that it is valid, except for the fault.
        let twin = unsafe { this.as_ref() };
        let fault = twin.fault;
        let (mut taken, mut older) = (None, None);
        let mut now = twin.head.load(Acquire);
        loop {
            if is_mark(now) && fault != Fault::TakesAfterPush {
                let newer = twin.take_waker();
                if newer.is_some() {
                    older = mem::replace(&mut taken, newer);
                }
                if fault == Fault::DropsBeforePush {
                    drop(older.take());
                }
            }
            // SAFETY: the item is live, and on its way into this queue.
            unsafe { set_next(item, is_item(now).then(|| NonNull::new_unchecked(now))) };
            let order = if fault == Fault::PushesRelaxed { Relaxed } else { Release };
            match twin.head.compare_exchange(now, item.as_ptr(), order, Acquire) {
                Ok(_) => break,
                Err(actual) => now = actual,
            }
        }
        if is_mark(now) && fault == Fault::TakesAfterPush {
            taken = twin.take_waker();
        }
        taken.map(wake);
        drop(older);
    }

    fn take_all(&self) -> IntrusiveList<Item> {
        if !is_item(self.head.load(Relaxed)) {
            return IntrusiveList::new();
        }
        let youngest = self.head.swap(ptr::null_mut(), Acquire);
        // SAFETY: the items were pushed, and the first was linked to none.
        name_races("an item's link", || unsafe {
            IntrusiveList::from_stack(NonNull::new_unchecked(youngest))
        })
    }

    fn wait(&self, waker: &Waker) -> bool {
        let now = self.head.load(Relaxed);
        if is_item(now) {
            return false;
        }
        let mut left = self.waker.lock().unwrap();
        if self.fault != Fault::CountsNoWaits {
            left.1 += 1;
        }
        let next = ptr::without_provenance_mut(left.1 << 1 | 1);
        left.0 = Some(waker.clone());
        drop(left);
        if self.fault == Fault::WaitsWithoutLook {
            self.head.store(next, Release);
            return true;
        }
        self.head.compare_exchange(now, next, Release, Relaxed).is_ok()
    }

    unsafe fn free(this: NonNull<Self>) {
        // SAFETY: it is leaked, so it is valid. The cell checks that no other thread is inside.
        unsafe { this.as_ref().is_alive.with_mut(|is_alive| *is_alive = false) };
    }
}
