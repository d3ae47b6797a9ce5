//! Memory of ended tasks and jobs, kept for the next ones.
//!
//! A list of free blocks is several times cheaper than any general allocator, all the more if memory is freed
//! by another thread than took it. Each worker has a [`Magazine`]: for each size two batches of free blocks,
//! one in use and one full or absent. When both are full it gives one to the [`Depot`] of the runtime, when
//! both are empty it takes one, so it goes there once in 64 tasks at most, for a few instructions under a
//! lock. So the memory of tasks that one thread spawns comes back to it from the workers that end these. A
//! seat has a magazine, too, for jobs: a thread that spawns or ends a job has looked up its seat anyway. The
//! thread may be an external one, which is no worker.
//!
//! A thread that is no worker has a magazine, too, one for all runtimes that it spawns on: the blocks are all
//! the allocator's. It keeps two batches of each size that was needed, and goes with the thread; what a
//! thread spawns or frees in its last destructors is the allocator's business.
//!
//! Blocks are sorted into classes 16 bytes apart, whose sizes are those that glibc's malloc hands out anyway
//! (16 n + 8). What the depot does not keep goes back to the allocator, and so does everything when worker or
//! runtime end.
//!
//! Sources: magazines and depot are those of Bonwick and Adams, "Magazines and Vmem" (2001).

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::fmt;
use std::ptr::NonNull;

use crate::context;
use crate::job::Memory;
use crate::loom::sync::Mutex;
use crate::loom::sync::atomic::AtomicU32;
use crate::loom::sync::atomic::Ordering::Relaxed;
use crate::loom::{KEEPS_MEMORY, KEEPS_MEMORY_OUTSIDE};
use crate::util::prefetch;

/// Classes; larger blocks, and those of unusual alignment, are the allocator's business.
const CLASSES: usize = 64;
/// Blocks in a full batch.
const BATCH: u32 = 64;
/// Most bytes in the depot: room for some ten thousand small tasks.
const MOST_KEPT: usize = 2 << 20;
/// What malloc aligns to.
const ALIGN: usize = 16;

/// How many blocks before its turn a block is asked for: one comes from another core's cache in the time of
/// some spawns.
const AHEAD: usize = 3;
/// How many batches are linked ahead after a thread outside has needed one.
const LINKED: u32 = 4;

/// A free block. The memory belongs to the owner of the list it is in.
struct Block {
    next: Option<NonNull<Block>>,
    /// In the first block of a batch in the depot: the next batch. In any other that is, or was, there, and
    /// was linked ahead: the block that is [`AHEAD`] further on, for nothing but to ask for its memory: an
    /// address may be out of date, as that in the first block of a batch that was taken out is. Else none.
    far: Option<NonNull<Block>>,
}

/// Free blocks of one class.
#[derive(Clone, Copy)]
struct Batch {
    first: Option<NonNull<Block>>,
    count: u32,
}

impl Batch {
    const EMPTY: Self = Self { first: None, count: 0 };

    #[inline]
    fn pop(&mut self) -> Option<NonNull<Block>> {
        let first = self.first?;
        // SAFETY: a block in the list is ours, and begins with its link.
        self.first = unsafe { first.as_ref() }.next;
        self.count -= 1;
        Some(first)
    }

    /// # Safety
    /// 1. The block is free memory of the batch's class, and belongs to the caller alone.
    #[inline]
    unsafe fn push(&mut self, block: NonNull<Block>) {
        // SAFETY: by (1) ours; a class is large and aligned enough for a link.
        unsafe { block.write(Block { next: self.first, far: None }) };
        self.first = Some(block);
        self.count += 1;
    }

    /// Links each block to the block that is [`AHEAD`] further on.
    fn link_ahead(&mut self) {
        let mut last = [None; AHEAD];
        let mut next = self.first;
        while let Some(mut block) = next {
            last.rotate_left(1);
            if let Some(mut before) = last[AHEAD - 1].replace(block) {
                // SAFETY: a block in the list is ours.
                unsafe { before.as_mut() }.far = Some(block);
            }
            // SAFETY: as above.
            next = unsafe { block.as_mut() }.next;
        }
    }

    /// Gives every block back to the allocator.
    fn release(mut self, class: usize) {
        while let Some(block) = self.pop() {
            // SAFETY: ours, and allocated for its class.
            unsafe { dealloc(block.as_ptr().cast(), layout_of(class)) };
        }
    }
}

/// The free blocks of a worker, of a seat, or of a thread that is no worker.
pub struct Magazine {
    classes: [Class; CLASSES],
}

struct Class {
    /// Of the batch in use.
    first: Cell<Option<NonNull<Block>>>,
    /// How many blocks more there is room for in the batch in use.
    room: Cell<i32>,
    /// Full, or empty.
    spare: Cell<Batch>,
}

impl Class {
    const fn new() -> Self {
        Self { first: Cell::new(None), room: Cell::new(BATCH as i32), spare: Cell::new(Batch::EMPTY) }
    }

    fn set_in_use(&self, batch: Batch) {
        self.first.set(batch.first);
        self.room.set((BATCH - batch.count) as i32);
    }

    fn count_in_use(&self) -> u32 {
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

    /// As [`free`](Self::free), with the way to the depot.
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

    /// [`free`](Self::free) where the batch in use is full, and one too many has been counted.
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
            depot.give(class, full);
        }
        let mut batch = Batch::EMPTY;
        // SAFETY: (1).
        unsafe { batch.push(block) };
        in_use.set_in_use(batch);
    }

    /// For a thread outside: asks for a block that is soon needed for `layout`, if it was last written by
    /// another thread.
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
            // Relaxed: a hint.
            None => depot.to_link.store(LINKED, Relaxed),
        }
    }
}

impl Drop for Magazine {
    fn drop(&mut self) {
        for (number, class) in self.classes.iter().enumerate() {
            class.take_in_use().release(number);
            class.spare.get().release(number);
        }
    }
}

impl fmt::Debug for Magazine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Magazine").finish_non_exhaustive()
    }
}

thread_local! {
    /// Of a thread that is no worker.
    static OUTSIDE: Magazine = const { Magazine::new() };
}

/// Memory for `layout`, uninitialised, for a thread that is no worker of the depot's runtime.
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

/// Memory for jobs: from the magazine of the calling thread's seat, or its worker's, and back into the
/// magazine of the thread that runs the job.
#[derive(Debug)]
pub struct JobMemory;

// SAFETY: (1) is `allocate`'s; (2) all magazines and depots have their blocks from one allocator.
unsafe impl Memory for JobMemory {
    #[inline]
    fn allocate(layout: Layout) -> NonNull<u8> {
        // SAFETY: used in this call only.
        if let Some(seat) = unsafe { context::seat() } {
            return seat.allocate(layout);
        }
        context::with_worker(|worker| match worker {
            Some(worker) => worker.magazine().allocate(layout, &worker.shared().depot),
            None => allocate(layout),
        })
    }

    #[inline]
    unsafe fn free(memory: NonNull<u8>, layout: Layout) {
        // SAFETY: used in this call only; (1).
        unsafe {
            if let Some(seat) = context::seat() {
                return seat.free(memory, layout);
            }
        }
        context::with_worker(|worker| {
            // SAFETY: (1).
            unsafe {
                match worker {
                    Some(worker) => worker.magazine().free(memory, layout, &worker.shared().depot),
                    None => free(memory, layout),
                }
            }
        });
    }
}

/// Batches of free blocks that all threads of a runtime share.
pub struct Depot {
    shelves: Mutex<Shelves>,
    /// How many batches it pays to link ahead: a hint.
    to_link: AtomicU32,
}

struct Shelves {
    /// By class, full batches, each linked to the next by its first block.
    full: [Option<NonNull<Block>>; CLASSES],
    /// Bytes in `full`.
    kept: usize,
}

// SAFETY: blocks are memory that belongs to their list alone.
unsafe impl Send for Shelves {}

impl Depot {
    pub fn new() -> Self {
        let shelves = Shelves { full: [None; CLASSES], kept: 0 };
        Self { shelves: Mutex::new(shelves), to_link: AtomicU32::new(0) }
    }

    fn take(&self, class: usize) -> Batch {
        self.shelves.lock().take(class)
    }

    fn give(&self, class: usize, mut batch: Batch) {
        // Relaxed: a hint.
        let to_link = self.to_link.load(Relaxed);
        if to_link > 0 {
            self.to_link.store(to_link - 1, Relaxed);
            batch.link_ahead();
        }
        if !self.shelves.lock().put(class, batch) {
            batch.release(class);
        }
    }
}

impl Shelves {
    /// A full batch, or an empty one if there is none.
    fn take(&mut self, class: usize) -> Batch {
        let Some(first) = self.full[class] else { return Batch::EMPTY };
        // SAFETY: a block on the shelf is ours, and the first of a batch.
        self.full[class] = unsafe { first.as_ref() }.far;
        self.kept -= bytes_of_batch(class);
        Batch { first: Some(first), count: BATCH }
    }

    /// Keeps a full batch; false if there are enough.
    fn put(&mut self, class: usize, batch: Batch) -> bool {
        debug_assert_eq!(batch.count, BATCH);
        let Some(mut first) = batch.first else { return true };
        if self.kept + bytes_of_batch(class) > MOST_KEPT {
            return false;
        }
        // SAFETY: the batch is ours.
        unsafe { first.as_mut() }.far = self.full[class].replace(first);
        self.kept += bytes_of_batch(class);
        true
    }
}

impl Drop for Shelves {
    fn drop(&mut self) {
        for class in 0..CLASSES {
            while self.full[class].is_some() {
                self.take(class).release(class);
            }
        }
    }
}

impl fmt::Debug for Depot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Depot").finish_non_exhaustive()
    }
}

/// Memory for `layout`, from the allocator; uninitialised.
#[cold]
fn allocate(layout: Layout) -> NonNull<u8> {
    let layout = class_of(layout).map_or(layout, layout_of);
    // SAFETY: no layout of a task is empty: it has a header.
    NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

/// Gives memory back to the allocator.
///
/// # Safety
/// 1. `memory` comes from [`allocate`], a magazine's or a depot's, for the same layout, and is not used any
///    more.
pub unsafe fn free(memory: NonNull<u8>, layout: Layout) {
    let layout = class_of(layout).map_or(layout, layout_of);
    // SAFETY: (1): it was allocated with this layout.
    unsafe { dealloc(memory.as_ptr(), layout) }
}

/// The class of a block, if it has one. A constant where the layout is.
#[inline(always)]
fn class_of(layout: Layout) -> Option<usize> {
    let class = layout.size().saturating_sub(8).div_ceil(16);
    let fits = class < CLASSES && layout.align() <= ALIGN && layout.size() >= size_of::<Block>();
    (KEEPS_MEMORY && fits).then_some(class)
}

#[inline(always)]
fn layout_of(class: usize) -> Layout {
    // SAFETY: a power of two, and small.
    unsafe { Layout::from_size_align_unchecked(16 * class + 8, ALIGN) }
}

fn bytes_of_batch(class: usize) -> usize {
    BATCH as usize * layout_of(class).size()
}

#[cfg(all(test, not(loom), not(asan)))]
mod tests {
    use super::*;

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).unwrap()
    }

    #[test]
    fn a_freed_block_is_used_again_for_its_class_only() {
        let (magazine, depot) = (Magazine::new(), Depot::new());
        let (small, large) = (layout(104, 8), layout(105, 8));
        let block = magazine.allocate(small, &depot);
        // SAFETY: each block is freed once, with its layout.
        unsafe {
            magazine.free(block, small, &depot);
            let larger = magazine.allocate(large, &depot);
            assert_ne!(larger, block);
            assert_eq!(magazine.allocate(small, &depot), block);
            magazine.free(block, small, &depot);
            magazine.free(larger, large, &depot);
        }
    }

    #[test]
    fn blocks_go_round_by_way_of_the_depot() {
        let (magazine, other, depot) = (Magazine::new(), Magazine::new(), Depot::new());
        let layout = layout(104, 8);
        let mut blocks: Vec<_> = (0..1000).map(|_| magazine.allocate(layout, &depot)).collect();
        blocks.sort();
        for &block in &blocks {
            // SAFETY: each block is freed once, with its layout.
            unsafe { magazine.free(block, layout, &depot) };
        }
        let kept = depot.shelves.lock().kept;
        assert_eq!(kept / bytes_of_batch(class_of(layout).unwrap()), 1000 / BATCH as usize - 1);
        let mut again: Vec<_> = (0..600).map(|_| other.allocate(layout, &depot)).collect();
        again.extend((0..250).map(|_| allocate_outside(layout, &depot)));
        let known = again.iter().filter(|block| blocks.binary_search(block).is_ok()).count();
        assert!(known >= 840, "{known} of 850 blocks came from the depot");
        again.sort();
        again.dedup();
        assert_eq!(again.len(), 850);
        for block in again {
            // SAFETY: each block is freed once, with its layout.
            unsafe { other.free(block, layout, &depot) };
        }
    }

    #[test]
    fn a_thread_outside_gets_what_workers_gave_up_and_what_it_freed() {
        let (magazine, depot) = (Magazine::new(), Depot::new());
        let layout = layout(520, 8);
        let mut known: Vec<_> = (0..4 * BATCH).map(|_| magazine.allocate(layout, &depot)).collect();
        // SAFETY: each block is freed once, with its layout.
        known.iter().for_each(|&block| unsafe { magazine.free(block, layout, &depot) });
        known.sort();
        let count_kept = || {
            let count = |class: &Class| class.count_in_use() + class.spare.get().count;
            OUTSIDE.with(|magazine| count(&magazine.classes[class_of(layout).unwrap()]))
        };
        for _ in 0..2 {
            let blocks: Vec<_> = (0..2 * BATCH).map(|_| allocate_outside(layout, &depot)).collect();
            assert!(blocks.iter().all(|block| known.binary_search(block).is_ok()));
            assert_eq!((count_kept(), depot.shelves.lock().kept), (0, 0));
            // SAFETY: each block is freed once, with its layout.
            blocks.iter().for_each(|&block| unsafe { free_outside(block, layout, &depot) });
            assert_eq!(count_kept(), 2 * BATCH);
        }
    }

    #[test]
    fn a_batch_of_the_depot_knows_what_is_further_on() {
        let (magazine, depot) = (Magazine::new(), Depot::new());
        let layout = layout(104, 8);
        // As a thread that has taken blocks.
        depot.to_link.store(LINKED, Relaxed);
        let blocks: Vec<_> = (0..4 * BATCH).map(|_| magazine.allocate(layout, &depot)).collect();
        // SAFETY: each block is freed once, with its layout.
        blocks.iter().for_each(|&block| unsafe { magazine.free(block, layout, &depot) });
        let mut batch = depot.take(class_of(layout).unwrap());
        let mut list = Vec::new();
        while let Some(block) = batch.pop() {
            // SAFETY: it is ours, and begins with its links.
            list.push((block, unsafe { block.as_ref() }.far));
        }
        assert_eq!(list.len(), BATCH as usize);
        for (place, &(_, far)) in list.iter().enumerate().skip(1) {
            assert_eq!(far, list.get(place + AHEAD).map(|&(block, _)| block), "at {place}");
        }
        assert_eq!(depot.to_link.load(Relaxed), LINKED - 2);
        for (block, _) in list {
            // SAFETY: each block is freed once, with its layout.
            unsafe { magazine.free(block.cast(), layout, &depot) };
        }
    }

    #[test]
    fn a_depot_keeps_a_bounded_number_of_bytes() {
        let (magazine, depot) = (Magazine::new(), Depot::new());
        let layout = layout(1000, 8);
        let blocks: Vec<_> = (0..2 * MOST_KEPT / 1000).map(|_| magazine.allocate(layout, &depot)).collect();
        for block in blocks {
            // SAFETY: each block is freed once, with its layout.
            unsafe { magazine.free(block, layout, &depot) };
        }
        let kept = depot.shelves.lock().kept;
        assert!(kept <= MOST_KEPT && kept > MOST_KEPT / 2, "{kept} bytes are kept");
    }

    #[test]
    fn large_and_aligned_blocks_pass_through() {
        let (magazine, depot) = (Magazine::new(), Depot::new());
        for layout in [layout(4096, 8), layout(64, 64)] {
            for block in [magazine.allocate(layout, &depot), allocate_outside(layout, &depot)] {
                assert_eq!(block.as_ptr() as usize % layout.align(), 0);
                // SAFETY: freed once, with its layout.
                unsafe { magazine.free(block, layout, &depot) };
            }
        }
    }
}
