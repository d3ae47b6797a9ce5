//! The free blocks that one thread keeps.

use std::alloc::Layout;
use std::cell::Cell;
use std::fmt;
use std::ptr::NonNull;

use super::block::{BATCH, Batch, Block, CLASSES, allocate, class_of, free, layout_of};
use super::depot::Depot;
use crate::loom::KEEPS_MEMORY_OUTSIDE;
use crate::util::prefetch;

/// The free blocks of a worker, of a job processor, or of a non-worker thread.
pub struct Magazine {
    /// The blocks at index `n` are of class `n`.
    pub(super) classes: [Class; CLASSES],
}

pub(super) struct Class {
    /// The first block of the batch in use.
    first: Cell<Option<NonNull<Block>>>,
    /// How many more blocks the batch in use can take.
    room: Cell<i32>,
    /// The second batch, full or empty.
    pub(super) spare: Cell<Batch>,
}

impl Class {
    const fn new() -> Self {
        Self { first: Cell::new(None), room: Cell::new(BATCH as i32), spare: Cell::new(Batch::EMPTY) }
    }

    fn set_in_use(&self, batch: Batch) {
        self.first.set(batch.first);
        self.room.set((BATCH - batch.count) as i32);
    }

    pub(super) fn count_in_use(&self) -> u32 {
        BATCH - self.room.get() as u32
    }

    /// Takes the batch in use out.
    fn take_in_use(&self) -> Batch {
        let batch = Batch { first: self.first.take(), count: self.count_in_use() };
        self.room.set(BATCH as i32);
        batch
    }
}

impl Magazine {
    pub const fn new() -> Self {
        Self { classes: [const { Class::new() }; CLASSES] }
    }

    /// Memory for `layout`, uninitialised.
    #[inline]
    pub fn allocate(&self, layout: Layout, depot: &Depot) -> NonNull<u8> {
        let Some(class) = class_of(layout) else { return allocate(layout) };
        let Class { first, room, .. } = &self.classes[class];
        let Some(block) = first.get() else { return self.allocate_from_spare(class, depot) };
        // SAFETY: a block in the list is ours, and begins with its link.
        first.set(unsafe { block.as_ref() }.next);
        room.set(room.get() + 1);
        block.cast()
    }

    #[cold]
    #[inline(never)]
    fn allocate_from_spare(&self, class: usize, depot: &Depot) -> NonNull<u8> {
        let mut batch = self.classes[class].spare.replace(Batch::EMPTY);
        if batch.first.is_none() {
            batch = depot.take(class);
        }
        let block = batch.pop();
        self.classes[class].set_in_use(batch);
        block.map_or_else(|| allocate(layout_of(class)), NonNull::cast)
    }

    /// Takes memory back.
    ///
    /// # Safety
    /// 1. `memory` comes from [`allocate`], a magazine's or a depot's, for the same layout, and is not used
    ///    any more.
    #[inline(always)]
    pub unsafe fn free(&self, memory: NonNull<u8>, layout: Layout, depot: &Depot) {
        // SAFETY: (1).
        unsafe { self.free_by(memory, layout, || depot) };
    }

    /// As [`free`](Self::free). `depot` returns the depot.
    ///
    /// # Safety
    /// 1. As [`free`](Self::free).
    #[inline(always)]
    pub unsafe fn free_by<'a>(&self, memory: NonNull<u8>, layout: Layout, depot: impl FnOnce() -> &'a Depot) {
        let Some(class) = class_of(layout) else {
            // SAFETY: (1).
            return unsafe { free(memory, layout) };
        };
        let Class { first, room, .. } = &self.classes[class];
        let left = room.get() - 1;
        room.set(left);
        if left < 0 {
            // SAFETY: (1).
            return unsafe { self.free_into_next(memory.cast(), class, depot()) };
        }
        // SAFETY: (1): ours; a class is large and aligned enough for a link.
        unsafe { memory.cast().write(Block { next: first.get(), far: None }) };
        first.set(Some(memory.cast()));
    }

    /// [`free`](Self::free) when the batch in use is full, and its count is one too high.
    ///
    /// # Safety
    /// 1. As [`free`](Self::free).
    #[cold]
    #[inline(never)]
    unsafe fn free_into_next(&self, block: NonNull<Block>, class: usize, depot: &Depot) {
        let in_use = &self.classes[class];
        in_use.room.set(0);
        let full = in_use.spare.replace(in_use.take_in_use());
        if full.first.is_some() {
            // SAFETY: (1) `full` is from `classes[class]`.
            unsafe { depot.give(class, full) };
        }
        let mut batch = Batch::EMPTY;
        // SAFETY: (1).
        unsafe { batch.push(block) };
        in_use.set_in_use(batch);
    }

    /// For a non-worker thread: prefetches a block that is soon needed for `layout`, if another thread wrote
    /// it last.
    #[inline]
    fn ask_for_later(&self, layout: Layout, depot: &Depot) {
        let Some(class) = class_of(layout) else { return };
        match self.classes[class].first.get() {
            Some(first) => {
                // SAFETY: a block in the list is ours.
                if let Some(far) = unsafe { first.as_ref() }.far {
                    prefetch::all_to_write(far.cast(), layout.size());
                }
            }
            None => depot.ask_to_link(),
        }
    }
}

impl Drop for Magazine {
    fn drop(&mut self) {
        for (number, class) in self.classes.iter().enumerate() {
            // SAFETY: (1) both are from `classes[number]`.
            unsafe {
                class.take_in_use().release(number);
                class.spare.replace(Batch::EMPTY).release(number);
            }
        }
    }
}

impl fmt::Debug for Magazine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Magazine").finish_non_exhaustive()
    }
}

thread_local! {
    /// The magazine of a non-worker thread.
    pub(super) static OUTSIDE: Magazine = const { Magazine::new() };
}

/// Memory for `layout`, uninitialised, on a thread that is no worker of the depot's runtime.
#[inline]
pub fn allocate_outside(layout: Layout, depot: &Depot) -> NonNull<u8> {
    let kept = |magazine: &Magazine| {
        magazine.ask_for_later(layout, depot);
        magazine.allocate(layout, depot)
    };
    match KEEPS_MEMORY_OUTSIDE {
        true => OUTSIDE.try_with(kept).unwrap_or_else(|_| allocate(layout)),
        false => allocate(layout),
    }
}

/// Takes memory back on a thread that is no worker of the depot's runtime.
///
/// # Safety
/// As [`Magazine::free`].
#[inline]
pub unsafe fn free_outside(memory: NonNull<u8>, layout: Layout, depot: &Depot) {
    // SAFETY: (1).
    let kept = |magazine: &Magazine| unsafe { magazine.free(memory, layout, depot) };
    if !KEEPS_MEMORY_OUTSIDE || OUTSIDE.try_with(kept).is_err() {
        // SAFETY: (1).
        unsafe { free(memory, layout) };
    }
}
