//! A timer shared by the future that waits and the wheel that fires it.
//!
//! The entry lives inside its future, so that waiting allocates nothing; the wheel holds a pointer to it. Its
//! state says which thread may touch it:
//! ```text
//!                 R: register (owner, lock)
//!      idle ─────────────────────────────────▶ registered        idle, fired, shut down: the owner alone
//!       ▲ ▲      C: cancel (owner, lock)          │ │            registered: the holder of the wheel's lock
//!       │ └───────────────────────────────────────┘ │
//!       │ owner, no lock                            │ F: fire, or shut down (the driving thread, lock)
//!   fired, shut down ◀──────────────────────────────┘
//! ```
//! The *owner* is the thread that has the future exclusively (`Pin<&mut Sleep>`, or its drop), one thread at
//! a time.
//!
//! - R, under the lock: write tick, due tick and waker, link, store `registered`.
//! - C, under the lock: look at the state again; if still `registered`, unlink, take the waker, store `idle`.
//! - F, under the lock: read the due tick. If it is later than the tick, that becomes the tick, and the entry
//!   is linked again. Else unlink, copy the waker out, and *as the last access to the entry* store `fired`.
//!   The waker is called after the lock is released; it no longer needs the entry.
//! - W, the owner, without the lock: see `registered`, compare the waker with another. Every write to the
//!   waker is the owner's; F only reads it.
//! - P, put off, by the owner, without the lock: store a due tick that is not before the last one.
//!
//! # The race
//! A timer fires on one thread while its future is dropped on another. The owner may see `fired` before the
//! lock is released and free the memory at once. That is sound because F touches nothing of the entry after
//! its store, and the unlock touches only the wheel. If instead the owner sees `registered`, it takes the
//! lock, and finds either the entry still linked, and unlinks it, or the state changed by an F that has
//! ended.
//!
//! A timer is put off while it fires. Either F reads the new due tick, and links the entry again; or it fires
//! for the old one. The owner finds `fired` then, with a tick before the one that it stored: the timer is not
//! over, and the task, which was woken, registers it again at its next poll. Since due ticks only grow while
//! the entry is registered, the wheel never holds it under a tick later than what the owner wants, in
//! whatever order the stores become visible.
//!
//! At W the waker that was registered lives still, as it is woken or dropped only after F's store; so if its
//! two words are those of the waker of the poll, both are of one thing, and that will be woken, or is about
//! to be.
//!
//! # Ordering
//! F's store is a Release and the owner's look an Acquire: what F read and wrote (links, waker) happens
//! before what the owner does next, including freeing. `registered` and `idle` are stored by the owner, which
//! reads its own stores; under the lock, the lock orders the rest. The due tick is a number by itself:
//! Relaxed.
//!
//! # Rejected
//! A waker slot with a protocol of its own (`AtomicWaker`) costs two read-modify-writes for each change and
//! each take; the wheel's lock, which linking needs anyway, does the same for nothing. An entry with a
//! reference count would make the race harmless at the price of an allocation.

use std::fmt;
use std::marker::PhantomPinned;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::task::Waker;

use crate::loom::cell::UnsafeCell;
use crate::loom::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use crate::util::list::{Link, Links};

use super::wheel::{NEVER, SlotId, Tick};

/// Where a timer is between its future and the wheel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// In no wheel.
    Idle,
    /// In a wheel. The wheel's lock guards everything but the state and the due tick.
    Registered,
    /// Time came; the wheel has let go.
    Fired,
    /// The driver ended first; the wheel has let go.
    ShutDown,
}

/// A timer's place in a wheel, its waker, and its state.
pub struct Entry {
    links: Links<Entry>,
    /// There is one while the entry is registered. Written by the owner, with the lock; moved out at C and F,
    /// which leave the words behind.
    waker: UnsafeCell<MaybeUninit<Waker>>,
    /// The tick under which the wheel holds it, or held it last: not after the one that is due. Belongs to
    /// the owner, or while registered to the wheel's lock.
    tick: UnsafeCell<Tick>,
    /// The tick at which it shall fire. Written by the owner.
    due: AtomicU64,
    /// Where in the wheel it is, or was last. Belongs to the lock, as long as it is registered.
    slot: UnsafeCell<SlotId>,
    /// A [`State`]. Changed only by the steps above.
    state: AtomicU8,
    /// A wheel points here while the entry is registered.
    _pinned: PhantomPinned,
}

// SAFETY: the links, the waker, the tick and the slot are touched as the state says (see the module's docs);
// what moves between threads with them is a waker, which is `Send`.
unsafe impl Send for Entry {}
// SAFETY: the safe methods that take `&self` read atomics, and the tick when no thread may write it but the
// owner, which needs more than `&self`.
unsafe impl Sync for Entry {}

impl Entry {
    pub fn new() -> Self {
        Self {
            links: Links::new(),
            waker: UnsafeCell::new(MaybeUninit::uninit()),
            tick: UnsafeCell::new(0),
            due: AtomicU64::new(0),
            slot: UnsafeCell::new(SlotId::NONE),
            state: AtomicU8::new(State::Idle as u8),
            _pinned: PhantomPinned,
        }
    }

    /// The state. If it is not `Registered`, the owner may from now on do with the entry as it likes.
    #[inline]
    pub fn state(&self) -> State {
        // Acquire pairs with the Release in `release`.
        match self.state.load(Ordering::Acquire) {
            0 => State::Idle,
            1 => State::Registered,
            2 => State::Fired,
            _ => State::ShutDown,
        }
    }

    /// Whether the time came that the owner waits for, and not only one from which it was put off.
    pub fn is_over(&self) -> bool {
        if self.state() != State::Fired {
            return false;
        }
        // SAFETY: once fired, the tick is written only by the owner, for which it needs more than `&self`.
        let fired = self.tick.with(|tick| unsafe { *tick });
        fired >= self.due()
    }

    /// Sets the state of an entry that is in no wheel.
    ///
    /// # Safety
    /// 1. The caller is the owner. 2. The entry is not registered, and `state` is not `Registered`.
    pub unsafe fn set_by_owner(&self, state: State) {
        // SAFETY: by (1) and (2), no other thread touches the tick.
        self.tick.with_mut(|tick| unsafe { *tick = NEVER });
        // Relaxed: only the owner reads it, until a lock hands the entry over.
        self.state.store(state as u8, Ordering::Relaxed);
    }

    /// R, without the linking: fills the entry in.
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
        // Relaxed, both: others read them under the lock.
        self.due.store(tick, Ordering::Relaxed);
        self.state.store(State::Registered as u8, Ordering::Relaxed);
    }

    /// P: has it fire at `tick` instead, if it does not fire just now. False if that is sooner than before,
    /// and nothing was done.
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

    /// W: whether `waker` is the one that is registered. If false, that may be because it is not registered
    /// any more.
    ///
    /// # Safety
    /// 1. The caller is the owner.
    #[inline]
    pub unsafe fn will_wake(&self, waker: &Waker) -> bool {
        // SAFETY: by (1) no thread writes the slot meanwhile, and it was written, since the entry is
        // registered. The waker may have been moved out by F, whose store comes later: its words are
        // compared, and nothing is called.
        self.state() == State::Registered
            && self.waker.with(|slot| unsafe { (*slot).assume_init_ref() }.will_wake(waker))
    }

    /// Puts `waker` in the place of the registered one, and returns the latter.
    ///
    /// # Safety
    /// 1. The caller is the owner. 2. The entry is registered. 3. The caller holds the lock of its wheel.
    pub unsafe fn replace_waker(&self, waker: Waker) -> Waker {
        // SAFETY: by (2) and (3) the entry is the caller's, and there is a waker.
        self.waker.with_mut(|slot| unsafe { std::mem::replace((*slot).assume_init_mut(), waker) })
    }

    /// C or F, after the unlinking: takes the waker, stores `state` and thereby hands the entry back to its
    /// owner, which may free it before this returns. Takes a pointer because a reference would promise more.
    ///
    /// # Safety
    /// 1. The entry is live and was registered. 2. The caller holds the lock of the wheel that it was
    ///    in. 3. The caller does not use `entry` again, unless it is the owner.
    #[inline]
    pub unsafe fn release(entry: NonNull<Entry>, state: State) -> Waker {
        let entry = entry.as_ptr();
        // SAFETY: by (1) live, by (2) ours until the store. The waker is there by (1), and read once, since
        // by the store the entry is not registered any more.
        let (waker, place) =
            unsafe { ((*entry).waker.with(|slot| (*slot).assume_init_read()), &raw const (*entry).state) };
        // SAFETY: live until the store takes effect; Release pairs with the Acquire in `state`.
        unsafe { (*place).store(state as u8, Ordering::Release) };
        waker
    }

    /// When it is due, as far as the wheel knows.
    ///
    /// # Safety
    /// 1. The entry is live. 2. The caller holds the lock of its wheel.
    #[inline]
    pub unsafe fn tick(entry: NonNull<Entry>) -> Tick {
        // SAFETY: by (1) and (2).
        unsafe { (*entry.as_ptr()).tick.with(|tick| *tick) }
    }

    /// F: lets the wheel know when it is due by now. Says whether that is later than before.
    ///
    /// # Safety
    /// As [`tick`](Self::tick); besides, 3. the entry is not linked.
    #[inline]
    pub unsafe fn learn_tick(entry: NonNull<Entry>) -> bool {
        // SAFETY: by (1) live; the due tick is atomic, and the tick ours by (2).
        unsafe {
            let due = (*entry.as_ptr()).due();
            (*entry.as_ptr()).tick.with_mut(|tick| std::mem::replace(&mut *tick, due) < due)
        }
    }

    /// Whether it was put off since the wheel looked.
    ///
    /// # Safety
    /// As [`tick`](Self::tick).
    pub unsafe fn is_put_off(entry: NonNull<Entry>) -> bool {
        // SAFETY: by the caller's word; the due tick is atomic.
        unsafe { (*entry.as_ptr()).due() > Self::tick(entry) }
    }

    /// Which slot it is in.
    ///
    /// # Safety
    /// As [`tick`](Self::tick).
    #[inline]
    pub unsafe fn slot(entry: NonNull<Entry>) -> SlotId {
        // SAFETY: by the caller's word.
        unsafe { (*entry.as_ptr()).slot.with(|slot| *slot) }
    }

    /// Notes which slot it is in.
    ///
    /// # Safety
    /// As [`tick`](Self::tick).
    #[inline]
    pub unsafe fn set_slot(entry: NonNull<Entry>, slot: SlotId) {
        // SAFETY: by the caller's word.
        unsafe { (*entry.as_ptr()).slot.with_mut(|cell| *cell = slot) }
    }

    fn due(&self) -> Tick {
        // Relaxed: see the module's docs.
        self.due.load(Ordering::Relaxed)
    }
}

impl Drop for Entry {
    #[inline]
    fn drop(&mut self) {
        // The owner cancels first. Freeing an entry that a wheel points to would corrupt memory later and
        // elsewhere.
        if self.state() == State::Registered {
            crate::util::unwind::abort("a timer was freed while a wheel pointed to it");
        }
        // Lets a model see that no other thread is at the entry any more.
        self.tick.with_mut(|_| ());
        self.slot.with_mut(|_| ());
        self.waker.with_mut(|_| ());
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
