//! A timer, shared by the future that waits and the wheel that fires it.
//!
//! The entry lies inside its future, so that waiting allocates nothing. The wheel holds a pointer to it. The
//! entry's state says which thread may touch it:
//! ```text
//!                TimerRegister (owner, lock)
//!      idle ─────────────────────────────────▶ registered        idle, fired, shut down: the owner alone
//!       ▲ ▲      TimerCancel (owner, lock)        │ │            registered: the holder of the wheel's lock
//!       │ └───────────────────────────────────────┘ │
//!       │ owner, no lock                            │ TimerFire, or shut down (the driving thread, lock)
//!   fired, shut down ◀──────────────────────────────┘
//! ```
//! The *owner* is the thread that has exclusive access to the future (`Pin<&mut Sleep>`, or its drop), one
//! thread at a time.
//!
//! - TimerRegister, under the lock: write tick, due tick and waker, link, store `registered`.
//! - TimerCancel, under the lock: look at the state again; if still `registered`, unlink, take the waker,
//!   store `idle`.
//! - TimerFire, under the lock: read the due tick. If it is later than the tick, it becomes the tick, and the
//!   entry is linked again. Otherwise unlink, copy the waker out, and *as the last access to the entry* store
//!   `fired`. The waker is called after the lock is released; it no longer needs the entry.
//! - TimerCompare, the owner, without the lock: see `registered`, compare the waker with another. Every write
//!   to the waker is the owner's; TimerFire only reads it.
//! - TimerPutOff, by the owner, without the lock: store a due tick that is not before the last one.
//!
//! # The races
//! *Fired while dropped.* A timer fires on one thread while its future is dropped on another. The owner may
//! see `fired` before the lock is released, and free the memory at once. That is sound, because TimerFire
//! does not touch the entry after its store, and the unlock touches only the wheel. If the owner sees
//! `registered` instead, it takes the lock. Either the entry is still linked, and the owner unlinks it; or a
//! TimerFire that has ended changed the state.
//!
//! *Fired while put off.* Either TimerFire reads the new due tick and links the entry again, or it fires for
//! the old due tick. In the latter case the owner finds `fired` with a tick before the one that it stored. So
//! the timer is not over. The task was woken, and registers the timer again at its next poll. Due ticks only
//! grow while the entry is registered. So the wheel never holds the entry under a tick later than the owner
//! wants, in whatever order the stores become visible.
//!
//! *Fired while compared.* At TimerCompare the registered waker is still alive, because it is woken or
//! dropped only after TimerFire's store. So if its two words equal those of the poll's waker, both stand for
//! one task. That task will be woken, or is about to be.
//!
//! # Ordering
//! TimerFire's store is a Release and the owner's look an Acquire. So TimerFire's accesses to links and waker
//! happen before the owner's next accesses, including the freeing. `registered` and `idle` are stored by the
//! owner, which reads its own stores. Under the lock, the lock orders the rest. The due tick publishes
//! nothing else: Relaxed.
//!
//! # Rejected
//! - A waker slot with a protocol of its own (`AtomicWaker`): it costs two read-modify-writes for each change
//!   and each take. The wheel's lock, which linking needs anyway, does the same for nothing.
//! - An entry with a reference count: the race would be harmless, but each timer would allocate.

use std::fmt;
use std::marker::PhantomPinned;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::task::Waker;

use crate::loom::cell::UnsafeCell;
use crate::loom::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use crate::util::list::{Link, Links};

use super::slot::{NEVER, SlotId, Tick};

/// The state of a timer between its future and the wheel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum TimerState {
    /// In no wheel.
    Idle,
    /// In a wheel. The wheel's lock guards everything but the state and the due tick.
    Registered,
    /// The timer fired; the wheel does not point to it any more.
    Fired,
    /// The driver ended first; the wheel does not point to it any more.
    ShutDown,
}

/// A timer's place in a wheel, its waker, and its state.
pub struct TimerEntry {
    links: Links<TimerEntry>,
    /// There is one while the entry is registered. The owner writes it, under the lock. TimerCancel and
    /// TimerFire move it out, and leave its words behind.
    waker: UnsafeCell<MaybeUninit<Waker>>,
    /// The tick under which the wheel holds the entry, or held it last: not after the due tick. Belongs to
    /// the wheel's lock while registered, otherwise to the owner.
    tick: UnsafeCell<Tick>,
    /// The tick at which the timer shall fire. Written by the owner.
    due: AtomicU64,
    /// The slot of the wheel that holds the entry, or held it last. Belongs to the lock while registered.
    slot: UnsafeCell<SlotId>,
    /// A [`TimerState`]. Only the steps above change it.
    state: AtomicU8,
    /// A wheel points here while the entry is registered.
    _pinned: PhantomPinned,
}

// SAFETY: the links, the waker, the tick and the slot are touched as the state says (see the module's docs).
// Only a waker moves between threads with them, and `Waker` is `Send`.
unsafe impl Send for TimerEntry {}
// SAFETY: the safe methods that take `&self` read only atomics, and the tick while only the owner may write
// it. The owner needs more than `&self` to write.
unsafe impl Sync for TimerEntry {}

impl TimerEntry {
    pub fn new() -> Self {
        Self {
            links: Links::new(),
            waker: UnsafeCell::new(MaybeUninit::uninit()),
            tick: UnsafeCell::new(0),
            due: AtomicU64::new(0),
            slot: UnsafeCell::new(SlotId::NONE),
            state: AtomicU8::new(TimerState::Idle as u8),
            _pinned: PhantomPinned,
        }
    }

    /// The state. If it is not `Registered`, the entry is the owner's alone from now on.
    #[inline]
    pub fn state(&self) -> TimerState {
        // Acquire pairs with the Release in `release`.
        match self.state.load(Ordering::Acquire) {
            0 => TimerState::Idle,
            1 => TimerState::Registered,
            2 => TimerState::Fired,
            _ => TimerState::ShutDown,
        }
    }

    /// Whether the time came for which the owner waits, and not only a time from which the timer was put off.
    pub fn is_over(&self) -> bool {
        if self.state() != TimerState::Fired {
            return false;
        }
        // SAFETY: once fired, only the owner writes the tick, and it needs more than `&self` for that.
        let fired = self.tick.with(|tick| unsafe { *tick });
        fired >= self.due()
    }

    /// Sets the state of an entry that is in no wheel.
    ///
    /// # Safety
    /// 1. The caller is the owner. 2. The entry is not registered, and `state` is not `Registered`.
    pub unsafe fn set_by_owner(&self, state: TimerState) {
        // SAFETY: by (1) and (2), no other thread touches the tick.
        self.tick.with_mut(|tick| unsafe { *tick = NEVER });
        // Relaxed: only the owner reads it, until a lock passes the entry on.
        self.state.store(state as u8, Ordering::Relaxed);
    }

    /// TimerRegister, without the linking: fills in the entry.
    ///
    /// # Safety
    /// 1. The caller is the owner. 2. The entry is not registered. 3. The caller holds the lock of the wheel
    ///    that it links the entry into.
    #[inline]
    pub unsafe fn begin(&self, tick: Tick, waker: Waker) {
        // SAFETY: by (1) and (2), no other thread touches the entry, which holds no waker.
        unsafe {
            self.tick.with_mut(|cell| *cell = tick);
            self.waker.with_mut(|slot| _ = (*slot).write(waker));
        }
        // Relaxed, both: other threads read them under the lock.
        self.due.store(tick, Ordering::Relaxed);
        self.state.store(TimerState::Registered as u8, Ordering::Relaxed);
    }

    /// TimerPutOff: has the timer fire at `tick` instead, unless it is firing now. Returns false, and does
    /// nothing, if `tick` is before the due tick.
    ///
    /// # Safety
    /// 1. The caller is the owner.
    pub unsafe fn put_off(&self, tick: Tick) -> bool {
        let is_later = tick >= self.due();
        if is_later {
            // Relaxed: see the module's docs.
            self.due.store(tick, Ordering::Relaxed);
        }
        is_later
    }

    /// TimerCompare: whether `waker` is the registered one. Also false if the entry is not registered any
    /// more.
    ///
    /// # Safety
    /// 1. The caller is the owner.
    #[inline]
    pub unsafe fn will_wake(&self, waker: &Waker) -> bool {
        // SAFETY: by (1) no thread writes the slot meanwhile. It was written, because the entry is
        // registered. TimerFire may have moved the waker out, but TimerFire's store comes later, and only the
        // words are compared: nothing is called.
        self.state() == TimerState::Registered
            && self.waker.with(|slot| unsafe { (*slot).assume_init_ref() }.will_wake(waker))
    }

    /// Replaces the registered waker by `waker`, and returns the old one.
    ///
    /// # Safety
    /// 1. The caller is the owner. 2. The entry is registered. 3. The caller holds the lock of its wheel.
    pub unsafe fn replace_waker(&self, waker: Waker) -> Waker {
        // SAFETY: by (2) and (3) the entry is the caller's, and there is a waker.
        self.waker.with_mut(|slot| unsafe { std::mem::replace((*slot).assume_init_mut(), waker) })
    }

    /// TimerCancel or TimerFire, after the unlinking: takes the waker and stores `state`. The store hands the
    /// entry back to its owner, which may free the entry before this returns. Takes a pointer, because a
    /// reference would promise more.
    ///
    /// # Safety
    /// 1. The entry is live and was registered. 2. The caller holds the lock of the wheel that it was
    ///    in. 3. The caller does not use `entry` again, unless it is the owner.
    #[inline]
    pub unsafe fn release(entry: NonNull<TimerEntry>, state: TimerState) -> Waker {
        let entry = entry.as_ptr();
        // SAFETY: the entry is live by (1), and ours until the store by (2). The waker is there by (1). It is
        // read once, because the entry is not registered any more after the store.
        let (waker, place) =
            unsafe { ((*entry).waker.with(|slot| (*slot).assume_init_read()), &raw const (*entry).state) };
        // SAFETY: the entry is live until the store takes effect. Release: pairs with the Acquire in `state`.
        unsafe { (*place).store(state as u8, Ordering::Release) };
        waker
    }

    /// The tick that the wheel knows.
    ///
    /// # Safety
    /// 1. The entry is live. 2. The caller holds the lock of its wheel.
    #[inline]
    pub unsafe fn tick(entry: NonNull<TimerEntry>) -> Tick {
        // SAFETY: the entry is live by (1), and the tick is ours by (2).
        unsafe { (*entry.as_ptr()).tick.with(|tick| *tick) }
    }

    /// TimerFire: tells the wheel the due tick. Returns whether it is later than the tick that the wheel
    /// knew.
    ///
    /// # Safety
    /// As [`tick`](Self::tick); besides, 3. the entry is not linked.
    #[inline]
    pub unsafe fn learn_tick(entry: NonNull<TimerEntry>) -> bool {
        // SAFETY: the entry is live by (1), the due tick is atomic, and the tick is ours by (2).
        unsafe {
            let due = (*entry.as_ptr()).due();
            (*entry.as_ptr()).tick.with_mut(|tick| std::mem::replace(&mut *tick, due) < due)
        }
    }

    /// Whether the owner has put it off since the wheel looked.
    ///
    /// # Safety
    /// As [`tick`](Self::tick).
    pub unsafe fn is_put_off(entry: NonNull<TimerEntry>) -> bool {
        // SAFETY: the caller guarantees the same as `tick` asks; the due tick is atomic.
        unsafe { (*entry.as_ptr()).due() > Self::tick(entry) }
    }

    /// The slot that holds the entry.
    ///
    /// # Safety
    /// As [`tick`](Self::tick).
    #[inline]
    pub unsafe fn slot(entry: NonNull<TimerEntry>) -> SlotId {
        // SAFETY: the entry is live, and the caller holds the lock, as `tick` asks.
        unsafe { (*entry.as_ptr()).slot.with(|slot| *slot) }
    }

    /// Notes the slot that holds the entry.
    ///
    /// # Safety
    /// As [`tick`](Self::tick).
    #[inline]
    pub unsafe fn set_slot(entry: NonNull<TimerEntry>, slot: SlotId) {
        // SAFETY: the entry is live, and the caller holds the lock, as `tick` asks.
        unsafe { (*entry.as_ptr()).slot.with_mut(|cell| *cell = slot) }
    }

    fn due(&self) -> Tick {
        // Relaxed: see the module's docs.
        self.due.load(Ordering::Relaxed)
    }
}

impl Drop for TimerEntry {
    #[inline]
    fn drop(&mut self) {
        // The owner cancels first. If an entry were freed while a wheel points to it, memory would be
        // corrupted later and elsewhere.
        if self.state() == TimerState::Registered {
            crate::util::unwind::abort("a timer was freed while a wheel pointed to it");
        }
        // These accesses let a model see that no other thread uses the entry any more.
        self.tick.with_mut(|_| ());
        self.slot.with_mut(|_| ());
        self.waker.with_mut(|_| ());
    }
}

impl fmt::Debug for TimerEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerEntry").field("state", &self.state()).finish_non_exhaustive()
    }
}

// SAFETY: (1) and (2): the links are always the same field of the entry.
unsafe impl Link for TimerEntry {
    type Node = TimerEntry;

    unsafe fn links(node: NonNull<TimerEntry>) -> NonNull<Links<TimerEntry>> {
        // SAFETY: by (1) `node` is live, so the address of its field may be computed, and is not null.
        unsafe { NonNull::new_unchecked(&raw mut (*node.as_ptr()).links) }
    }
}
