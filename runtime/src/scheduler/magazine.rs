//! Memory of ended tasks and jobs, kept for the next ones.
//!
//! A list of free blocks is several times cheaper than any general allocator, and even more so if another
//! thread frees the memory. Each worker has a [`Magazine`]. For each size it holds two batches of free
//! blocks: one in use, and one full or absent. When both are full, it gives one to the [`Depot`] of the
//! runtime; when both are empty, it takes one. So it goes to the depot at most once in 64 tasks, for a few
//! instructions under a lock. By this exchange, the memory of tasks that one thread spawns comes back to it
//! from the workers that end these tasks. A seat has a magazine, too, for jobs: a thread that spawns or ends
//! a job has looked up its seat anyway. That thread may be an external thread, which is no worker.
//!
//! A non-worker thread also has a magazine, one for all runtimes that it spawns on, because all blocks come
//! from the same allocator. The magazine keeps two batches of each size that was needed, and ends with the
//! thread. What the thread spawns or frees in its last destructors uses the allocator directly.
//!
//! Blocks are sorted into classes 16 bytes apart. Their sizes are those that glibc's malloc hands out anyway
//! (16 n + 8). Blocks beyond the depot's limit go back to the allocator, and so do all blocks when the worker
//! or the runtime ends.
//!
//! Sources: magazines and depot are those of Bonwick and Adams, "Magazines and Vmem" (2001).

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::fmt;
use std::ptr::NonNull;

use crate::job::Memory;
use crate::loom::sync::Mutex;
use crate::loom::sync::atomic::AtomicU32;
use crate::loom::sync::atomic::Ordering::Relaxed;
use crate::loom::{KEEPS_MEMORY, KEEPS_MEMORY_OUTSIDE};
use crate::scheduler::context;
use crate::util::prefetch;

/// The number of classes. The allocator handles larger blocks, and those of unusual alignment.
const CLASSES: usize = 64;
/// Blocks in a full batch.
const BATCH: u32 = 64;
/// The most bytes in the depot: enough for some ten thousand small tasks.
const MOST_KEPT: usize = 2 << 20;
/// The alignment of malloc's blocks.
const ALIGN: usize = 16;

/// How many blocks before its turn a block is prefetched. To fetch a block from another core's cache takes as
/// long as some spawns.
const AHEAD: usize = 3;
/// How many batches are linked ahead after a non-worker thread has needed one.
const LINKED: u32 = 4;

/// A free block. Its memory belongs to the owner of the list that it is in.
struct Block {
    next: Option<NonNull<Block>>,
    /// In the first block of a batch in the depot: the next batch. In another block of a batch that is or was
    /// in the depot and was linked ahead: the block that is [`AHEAD`] further on. That address is only used
    /// to prefetch, because it may be out of date, as in the first block of a batch that was taken out. Else
    /// none.
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
        // SAFETY: a block in the list is the list's, and begins with its link.
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

    /// Gives all blocks back to the allocator.
    fn release(mut self, class: usize) {
        while let Some(block) = self.pop() {
            // SAFETY: ours, and allocated for its class.
            unsafe { dealloc(block.as_ptr().cast(), layout_of(class)) };
        }
    }
}

/// The free blocks of a worker, of a seat, or of a non-worker thread.
pub struct Magazine {
    classes: [Class; CLASSES],
}

struct Class {
    /// The first block of the batch in use.
    first: Cell<Option<NonNull<Block>>>,
    /// How many more blocks the batch in use can take.
    room: Cell<i32>,
    /// The second batch, full or empty.
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
            depot.give(class, full);
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
    /// The magazine of a non-worker thread.
    static OUTSIDE: Magazine = const { Magazine::new() };
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

/// Memory for jobs. It comes from the magazine of the calling thread's seat, or of its worker, and goes back
/// into the magazine of the thread that runs the job.
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
    /// How many more batches are worth linking ahead: a hint.
    to_link: AtomicU32,
}

struct Shelves {
    /// Full batches by class. The first block of each batch links to the next batch.
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
    /// Takes a full batch, or returns an empty one if there is none.
    fn take(&mut self, class: usize) -> Batch {
        let Some(first) = self.full[class] else { return Batch::EMPTY };
        // SAFETY: a block on the shelf is ours, and the first of a batch.
        self.full[class] = unsafe { first.as_ref() }.far;
        self.kept -= bytes_of_batch(class);
        Batch { first: Some(first), count: BATCH }
    }

    /// Keeps a full batch. Returns false if the depot has enough.
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
        // As if a thread outside had taken blocks.
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
