//! The handles of a set of tasks, and how the set learns which of them have ended.
//!
//! Each task has an *entry* in memory of the set: its handle, and a link. The entry is the data of the task's
//! join waker. The completer of a task wakes the join waker after `DONE`, and thereby pushes the entry to the
//! set's [`Inbox`]: one compare-and-swap, no lock, no allocation. The set takes all ended tasks at once. It
//! wakes up once for all tasks that end while it is awake.
//!
//! Entries lie in segments that double in size, so that ten thousand tasks take some ten allocations.
//!
//! # The life of an entry
//! ```text
//!   free ──insert──▶ out ──push, by the user of the waker──▶ back ──take, by the set──▶ free
//! ```
//! - *Out*: the join waker exists. The set may read and take the handle; no other thread touches it.
//! - *Back*: in the inbox, or in the chain that the set has taken out of it.
//!
//! A join waker is used up once. Either the completer wakes it, or it is dropped, because the task is `DONE`
//! before the waker is set or the handle is dropped before `DONE`. Each of these pushes the entry
//! (`ReturnEntry`). So the set knows the number of entries that are out. If an entry came back, its task is
//! done or its handle is gone.
//!
//! # The end
//! The set drops its handles, which returns most entries, then closes the inbox. Every entry that is still
//! out belongs to a completer between `DONE` and the push. These completers find the inbox closed, and the
//! last of them frees the memory:
//! ```text
//!   set                                            completer
//!   SetClose  close the inbox, count what is out   LateReturn   push is refused: left -= 1;
//!   SetLeave  left += what is out;                              if that makes 0: free
//!             if that makes 0: free
//! ```
//! `left` begins at 0, and a LateReturn before SetLeave makes it less than 0. So exactly one of these changes
//! makes 0, and it is the last one. All are `AcqRel`: the thread that frees has acquired what the others did.
//! A completer whose push succeeds touches nothing afterwards (`queue/inbox.rs`).

use std::fmt;
use std::mem::{self, MaybeUninit};
use std::ptr::NonNull;
use std::task::{RawWaker, RawWakerVTable, Waker};

use crate::loom::cell::UnsafeCell;
use crate::loom::sync::atomic::AtomicUsize;
use crate::loom::sync::atomic::Ordering::AcqRel;
use crate::queue::{Inbox, IntrusiveList, Linked, Next};
use crate::task::JoinHandle;
use crate::util::unwind::abort;

/// The number of entries in the first segment.
const FIRST: usize = 16;
/// The number of segments that a set without tasks keeps.
const KEPT: usize = 4;

/// See the module's docs.
pub struct Entries<T> {
    shared: NonNull<EntriesShared<T>>,
    segments: Segments<T>,
    /// The entries that are back, oldest first.
    back: IntrusiveList<SetEntry<T>>,
    /// The free entries, linked to each other, youngest first.
    free: Option<NonNull<SetEntry<T>>>,
    /// The number of entries that are out or back.
    used: usize,
    /// The number of entries that have a handle.
    len: usize,
}

// SAFETY: the entries hold handles, which are `Send` with `T`. All else is the set's own, or atomic.
unsafe impl<T: Send> Send for Entries<T> {}
// SAFETY: by `&JoinSet`, a program reaches only `len`. The set calls all other methods through `&mut
// JoinSet`, so one thread at a time uses the entries and the owner's side of the inbox.
unsafe impl<T: Send> Sync for Entries<T> {}

/// The part that completers reach.
struct EntriesShared<T> {
    inbox: Inbox<SetEntry<T>>,
    /// See *the end*.
    left: AtomicUsize,
    /// The memory of the entries that are out, once the set is gone.
    segments: UnsafeCell<Segments<T>>,
}

struct SetEntry<T> {
    next: Next<SetEntry<T>>,
    /// The set's. `None` in an entry that is free, or whose task was detached.
    handle: UnsafeCell<Option<JoinHandle<T>>>,
    /// Valid while the entry is out. Never changes.
    shared: NonNull<EntriesShared<T>>,
}

// SAFETY: (1) the link is a field of the entry, always the same one. (2) It lives as long as the entry. (3)
// Only the queues, and the list of free entries through their functions, touch it.
unsafe impl<T> Linked for SetEntry<T> {
    unsafe fn next(item: NonNull<Self>) -> NonNull<Next<Self>> {
        // SAFETY: by (1) `item` is live, so the address of its field is in bounds and not null.
        unsafe { NonNull::new_unchecked(&raw mut (*item.as_ptr()).next) }
    }
}

impl<T> Entries<T> {
    pub fn new() -> Self {
        let shared = EntriesShared {
            inbox: Inbox::new(),
            left: AtomicUsize::new(0),
            segments: UnsafeCell::new(Segments::new()),
        };
        Self {
            shared: NonNull::from(Box::leak(Box::new(shared))),
            segments: Segments::new(),
            back: IntrusiveList::new(),
            free: None,
            used: 0,
            len: 0,
        }
    }

    /// The number of tasks in the set.
    pub fn len(&self) -> usize {
        self.len
    }

    fn inbox(&self) -> &Inbox<SetEntry<T>> {
        // SAFETY: the set frees it last of all, or leaves the freeing to a completer when the set is dropped.
        unsafe { &self.shared.as_ref().inbox }
    }

    /// Adds a task by its handle. The handle has not been polled.
    pub fn insert(&mut self, handle: JoinHandle<T>) {
        let entry = self.unused();
        let waker = waker_of(entry);
        self.used += 1;
        self.len += 1;
        // SAFETY: the entry is live, and the handle is the set's.
        let result = unsafe { entry.as_ref() }.handle.with_mut(|slot| unsafe {
            let handle = (*slot).insert(handle);
            handle.set_waker(waker)
        });
        // The task is done already. Dropping the waker returns the entry.
        drop(result);
    }

    /// Takes the handle of a task that has ended, the oldest first.
    pub fn take_ended(&mut self) -> Option<JoinHandle<T>> {
        loop {
            if self.back.is_empty() {
                self.back = self.inbox().take_all();
            }
            let entry = self.back.pop_front()?;
            // SAFETY: the entry is back, so the set's alone.
            let handle = unsafe { entry.as_ref().handle.with_mut(|slot| (*slot).take()) };
            self.release(entry);
            if let Some(handle) = handle {
                self.len -= 1;
                return Some(handle);
            }
            // The task was detached.
        }
    }

    /// Has `waker` woken when the next task ends. Returns false if a task has ended since
    /// [`take_ended`](Self::take_ended) returned `None`.
    pub fn wait(&mut self, waker: &Waker) -> bool {
        self.inbox().wait(waker)
    }

    /// Calls `f` for each handle.
    pub fn for_each(&mut self, mut f: impl FnMut(&JoinHandle<T>)) {
        for entry in self.segments.iter() {
            // SAFETY: entries live as long as the set, and the handle is the set's.
            unsafe { entry.as_ref() }.handle.with(|slot| unsafe { (*slot).as_ref().map(&mut f) });
        }
    }

    /// Takes all handles out, and calls `f` for each.
    pub fn drain(&mut self, mut f: impl FnMut(JoinHandle<T>)) {
        for entry in self.segments.iter() {
            // SAFETY: as in `for_each`.
            let handle = unsafe { entry.as_ref() }.handle.with_mut(|slot| unsafe { (*slot).take() });
            if let Some(handle) = handle {
                self.len -= 1;
                f(handle);
            }
        }
        // Entries that came back are free at once. The others are free when they come back.
        let ended = self.take_ended();
        debug_assert!(ended.is_none(), "no handle is left");
    }

    /// Takes a free entry, or makes one.
    fn unused(&mut self) -> NonNull<SetEntry<T>> {
        match self.free {
            Some(entry) => {
                // SAFETY: (1) free entries are live. (2) The list of free entries is the set's.
                self.free = unsafe { crate::queue::intrusive_list::next(entry) };
                entry
            }
            None => self.segments.add(self.shared),
        }
    }

    /// Frees an entry that is the set's alone, and has no handle.
    fn release(&mut self, entry: NonNull<SetEntry<T>>) {
        self.used -= 1;
        if self.used == 0 {
            // No entry is in use, so the memory for a peak is freed.
            self.free = None;
            self.segments.clear();
            return;
        }
        // SAFETY: (1) the entry is live. (2) It is on its way into the list of free entries, which is the
        // set's.
        unsafe { crate::queue::intrusive_list::set_next(entry, self.free) };
        self.free = Some(entry);
    }
}

impl<T> Drop for Entries<T> {
    fn drop(&mut self) {
        self.drain(drop);
        // SAFETY: the set has not left yet, and a completer frees the memory after SetLeave at the earliest.
        let shared = unsafe { self.shared.as_ref() };
        // SetClose.
        let out = self.used - shared.inbox.close().len();
        let segments = mem::replace(&mut self.segments, Segments::new());
        // SAFETY: only this code touches it, and the thread that frees.
        shared.segments.with_mut(|slot| unsafe { *slot = segments });
        // SetLeave.
        if shared.left.fetch_add(out, AcqRel).wrapping_add(out) == 0 {
            // SAFETY: `Box` made it in `new`. This is the last change of `left` (see *the end*), so no
            // completer uses it any more.
            drop(unsafe { Box::from_raw(self.shared.as_ptr()) });
        }
    }
}

impl<T> fmt::Debug for Entries<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entries").field("len", &self.len).finish_non_exhaustive()
    }
}

/// Memory for entries, at places that do not change.
struct Segments<T> {
    /// Each segment but the second is twice as long as the one before.
    segments: Vec<Box<[MaybeUninit<SetEntry<T>>]>>,
    /// The number of entries that were made, from the first on; the others are uninitialised. No entry has a
    /// handle when it is dropped.
    made: usize,
    /// The segment of the next entry, and its place there.
    next: (usize, usize),
}

impl<T> Segments<T> {
    const fn new() -> Self {
        Self { segments: Vec::new(), made: 0, next: (0, 0) }
    }

    /// Makes another entry.
    fn add(&mut self, shared: NonNull<EntriesShared<T>>) -> NonNull<SetEntry<T>> {
        let (segment, place) = self.next;
        if segment == self.segments.len() {
            self.segments.push(Box::new_uninit_slice(self.made.max(FIRST)));
        }
        let segment_len = self.segments[segment].len();
        self.made += 1;
        self.next = if place + 1 == segment_len { (segment + 1, 0) } else { (segment, place + 1) };
        let entry = SetEntry { next: Next::new(), handle: UnsafeCell::new(None), shared };
        NonNull::from(self.segments[segment][place].write(entry))
    }

    /// Forgets all entries, and frees most of the memory. No entry is in use or has a handle.
    fn clear(&mut self) {
        self.segments.truncate(KEPT);
        self.made = 0;
        self.next = (0, 0);
    }

    /// All entries that were made.
    fn iter(&self) -> impl Iterator<Item = NonNull<SetEntry<T>>> + use<T> {
        let slices: Vec<_> = self.segments.iter().map(|segment| (segment.as_ptr(), segment.len())).collect();
        slices
            .into_iter()
            // SAFETY: the place is within the segment.
            .flat_map(|(first, len)| (0..len).map(move |place| unsafe { first.add(place) }))
            .take(self.made)
            // SAFETY: a place in a segment is not null.
            .map(|entry| unsafe { NonNull::new_unchecked(entry.cast_mut().cast()) })
    }
}

fn waker_of<T>(entry: NonNull<SetEntry<T>>) -> Waker {
    let raw = RawWaker::new(entry.as_ptr().cast_const().cast(), VTable::<T>::OF);
    // SAFETY: the functions may be called on any thread; the entry lives until the waker is used up.
    unsafe { Waker::from_raw(raw) }
}

struct VTable<T>(T);

impl<T> VTable<T> {
    const OF: &'static RawWakerVTable = &RawWakerVTable::new(
        // The waker lies in the task's cell, and there it is only woken or dropped.
        |_| abort("the join waker of a set is cloned"),
        // SAFETY: (1) the data comes from `waker_of`, and a wake by value uses the waker up.
        |entry| unsafe { give_back::<T>(entry) },
        |_| {},
        // SAFETY: (1) the data comes from `waker_of`, and a drop uses the waker up. A drop wakes the set's
        // task, too, because that task may be asleep: another task may spawn into the set, and the new task
        // may be `DONE` before its waker is set.
        |entry| unsafe { give_back::<T>(entry) },
    );
}

/// `ReturnEntry`: pushes the entry, and wakes the set if it waits.
///
/// # Safety
/// 1. `data` is that of a waker of [`waker_of`], which is used up.
unsafe fn give_back<T>(data: *const ()) {
    // SAFETY: by (1) the entry is out. So the entry and the completers' part are live until the set has taken
    // the entry back, or until LateReturn. `Inbox::push`: (1) and (2) follow from that. (3) An entry that is
    // out is in no queue, and its right came with the waker. `Box::from_raw`: `Box` made the part in
    // `Entries::new`, and this is the last change of `left`; see *the end*.
    unsafe {
        let entry = NonNull::new_unchecked(data.cast_mut().cast::<SetEntry<T>>());
        let shared = entry.as_ref().shared;
        let inbox = NonNull::new_unchecked(&raw mut (*shared.as_ptr()).inbox);
        if Inbox::push(inbox, entry, Waker::wake).is_err() {
            // LateReturn.
            if shared.as_ref().left.fetch_sub(1, AcqRel) == 1 {
                drop(Box::from_raw(shared.as_ptr()));
            }
        }
    }
}
