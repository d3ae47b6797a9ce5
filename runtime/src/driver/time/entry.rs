//! A timer shared by the future that waits and the wheel that fires it.
//!
//! The entry lives inside its future, so that waiting allocates nothing; the wheel holds a pointer to it. Who may touch
//! it is said by its state:
//! ```text
//!                 R: register (owner, lock)
//!      idle ─────────────────────────────────▶ registered        idle, fired, shut down: the owner alone
//!       ▲ ▲      C: cancel (owner, lock)          │ │            registered: whoever holds the wheel's lock
//!       │ └───────────────────────────────────────┘ │
//!       │ owner, no lock                            │ F: fire, or shut down (whoever drives, lock)
//!   fired, shut down ◀──────────────────────────────┘
//! ```
//! The *owner* is whoever has the future exclusively (`Pin<&mut Sleep>`, or its drop), one thread at a time.
//!
//! - R, under the lock: write tick and waker, link, store `registered`.
//! - C, under the lock: look at the state again; if still `registered`, unlink, take the waker, store `idle`.
//! - F, under the lock: unlink, take the waker, and *as the last access to the entry* store `fired`. The waker is called
//!   after the lock is released; it no longer needs the entry.
//!
//! # The race
//! A timer fires on one thread while its future is dropped on another. The owner may see `fired` before the lock is
//! released and free the memory at once. That is sound because F touches nothing of the entry after its store, and the
//! unlock touches only the wheel. If instead the owner sees `registered`, it takes the lock, and finds either the entry
//! still linked, and unlinks it, or the state changed by an F that has ended.
//!
//! # Ordering
//! F's store is a Release and the owner's look an Acquire: what F read and wrote (links, waker) happens before what the
//! owner does next, including freeing. `registered` and `idle` are stored by the owner, who reads its own stores; under
//! the lock, the lock orders the rest.
//!
//! # Rejected
//! A waker slot with a protocol of its own (`AtomicWaker`) costs two read-modify-writes for each change and each take;
//! the wheel's lock, which linking needs anyway, does the same for nothing. An entry with a reference count would make
//! the race harmless at the price of an allocation.

use std::fmt;
use std::marker::PhantomPinned;
use std::ptr::NonNull;
use std::task::Waker;

use crate::loom::cell::UnsafeCell;
use crate::loom::sync::atomic::{AtomicU8, Ordering};
use crate::util::list::{Link, Links};

use super::wheel::{SlotId, Tick};

/// Where a timer is between its future and the wheel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// In no wheel.
    Idle,
    /// In a wheel, whose lock guards everything but the state.
    Registered,
    /// Time came; the wheel has let go.
    Fired,
    /// The driver ended first; the wheel has let go.
    ShutDown,
}

/// A timer's place in a wheel, its waker, and its state.
pub struct Entry {
    links: Links<Entry>,
    inner: UnsafeCell<Inner>,
    /// A [`State`]. Changed only by the steps above.
    state: AtomicU8,
    /// A wheel points here while the entry is registered.
    _pinned: PhantomPinned,
}

/// Belongs to the owner, or while registered to the wheel's lock.
struct Inner {
    waker: Option<Waker>,
    tick: Tick,
    slot: SlotId,
}

// SAFETY: the links and `inner` are touched by one thread at a time, as the state says (see the module's docs); what
// moves between threads with them is a waker, which is `Send`.
unsafe impl Send for Entry {}
// SAFETY: the one safe method that takes `&self` reads the atomic state.
unsafe impl Sync for Entry {}

impl Entry {
    pub fn new() -> Self {
        Self {
            links: Links::new(),
            inner: UnsafeCell::new(Inner { waker: None, tick: 0, slot: SlotId::NONE }),
            state: AtomicU8::new(State::Idle as u8),
            _pinned: PhantomPinned,
        }
    }

    /// The state. If it is not `Registered`, the owner may from now on do with the entry as it likes.
    pub fn state(&self) -> State {
        // Acquire pairs with the Release in `release`.
        match self.state.load(Ordering::Acquire) {
            0 => State::Idle,
            1 => State::Registered,
            2 => State::Fired,
            _ => State::ShutDown,
        }
    }

    /// Sets the state of an entry that is in no wheel.
    ///
    /// # Safety
    /// 1. The caller is the owner. 2. The entry is not registered, and `state` is not `Registered`.
    pub unsafe fn set_by_owner(&self, state: State) {
        // Relaxed: only the owner reads it, until a lock hands the entry over.
        self.state.store(state as u8, Ordering::Relaxed);
    }

    /// R, without the linking: fills the entry in.
    ///
    /// # Safety
    /// 1. The caller is the owner. 2. The entry is not registered. 3. The caller holds the lock of the wheel that it
    ///    links the entry into.
    pub unsafe fn begin(&self, tick: Tick, waker: Waker) {
        // SAFETY: by (1) and (2), nobody else touches the entry.
        let old = self.inner.with_mut(|inner| unsafe {
            (*inner).tick = tick;
            (*inner).waker.replace(waker)
        });
        debug_assert!(old.is_none(), "an entry that is in no wheel holds no waker");
        // Relaxed: others read it under the lock.
        self.state.store(State::Registered as u8, Ordering::Relaxed);
    }

    /// The waker, while registered.
    ///
    /// # Safety
    /// 1. The entry is registered. 2. The caller holds the lock of its wheel.
    pub unsafe fn with_waker<R>(&self, f: impl FnOnce(&mut Option<Waker>) -> R) -> R {
        // SAFETY: by (1) and (2) the entry is the caller's.
        self.inner.with_mut(|inner| f(unsafe { &mut (*inner).waker }))
    }

    /// C or F, after the unlinking: takes the waker, stores `state` and thereby hands the entry back to its owner, who
    /// may free it before this returns. Takes a pointer because a reference would promise more.
    ///
    /// # Safety
    /// 1. The entry is live and was registered. 2. The caller holds the lock of the wheel that it was in. 3. The caller
    ///    does not use `entry` again, unless it is the owner.
    pub unsafe fn release(entry: NonNull<Entry>, state: State) -> Option<Waker> {
        let entry = entry.as_ptr();
        // SAFETY: by (1) live, by (2) ours until the store.
        let (waker, place) =
            unsafe { ((*entry).inner.with_mut(|inner| (*inner).waker.take()), &raw const (*entry).state) };
        // SAFETY: live until the store takes effect; Release pairs with the Acquire in `state`.
        unsafe { (*place).store(state as u8, Ordering::Release) };
        waker
    }

    /// When it is due.
    ///
    /// # Safety
    /// 1. The entry is live. 2. The caller holds the lock of its wheel.
    pub unsafe fn tick(entry: NonNull<Entry>) -> Tick {
        // SAFETY: by (1) and (2).
        unsafe { (*entry.as_ptr()).inner.with(|inner| (*inner).tick) }
    }

    /// Which slot it is in.
    ///
    /// # Safety
    /// As [`tick`](Self::tick).
    pub unsafe fn slot(entry: NonNull<Entry>) -> SlotId {
        // SAFETY: by the caller's word.
        unsafe { (*entry.as_ptr()).inner.with(|inner| (*inner).slot) }
    }

    /// Notes which slot it is in.
    ///
    /// # Safety
    /// As [`tick`](Self::tick).
    pub unsafe fn set_slot(entry: NonNull<Entry>, slot: SlotId) {
        // SAFETY: by the caller's word.
        unsafe { (*entry.as_ptr()).inner.with_mut(|inner| (*inner).slot = slot) }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        // The owner cancels first. Freeing an entry that a wheel points to would corrupt memory later and elsewhere.
        if self.state() == State::Registered {
            crate::util::unwind::abort("a timer was freed while a wheel pointed to it");
        }
        // Lets a model see that nobody else is at the entry any more.
        self.inner.with_mut(|_| ());
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("state", &self.state()).finish_non_exhaustive()
    }
}

// SAFETY: the links are a field of the entry.
unsafe impl Link for Entry {
    type Node = Entry;

    unsafe fn links(node: NonNull<Entry>) -> NonNull<Links<Entry>> {
        // SAFETY: `node` is live, by the caller's word.
        unsafe { NonNull::new_unchecked(&raw mut (*node.as_ptr()).links) }
    }
}
