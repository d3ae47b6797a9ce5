//! Blocks of free memory, their batches, and the classes into which they are sorted by size.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use crate::loom::KEEPS_MEMORY;

/// The number of classes. The allocator handles larger blocks, and those of unusual alignment.
pub const CLASSES: usize = 64;
/// Blocks in a full batch.
pub const BATCH: u32 = 64;
/// The alignment of malloc's blocks.
const ALIGN: usize = 16;

/// How many blocks before its turn a block is prefetched. To fetch a block from another core's cache takes as
/// long as some spawns.
pub const AHEAD: usize = 3;

/// A free block. Its memory belongs to the owner of the list that it is in.
pub struct Block {
    pub next: Option<NonNull<Block>>,
    /// In the first block of a batch in the depot: the next batch. In another block of a batch that is or was
    /// in the depot and was linked ahead: the block that is [`AHEAD`] further on. That address is only used
    /// to prefetch, because it may be out of date, as in the first block of a batch that was taken out. Else
    /// none.
    pub far: Option<NonNull<Block>>,
}

/// Free blocks of one class, which belong to the batch.
pub struct Batch {
    pub first: Option<NonNull<Block>>,
    pub count: u32,
}

impl Batch {
    pub const EMPTY: Self = Self { first: None, count: 0 };

    #[inline]
    pub fn pop(&mut self) -> Option<NonNull<Block>> {
        let first = self.first?;
        // SAFETY: a block in the list is the list's, and begins with its link.
        self.first = unsafe { first.as_ref() }.next;
        self.count -= 1;
        Some(first)
    }

    /// # Safety
    /// 1. The block is free memory of the batch's class, and belongs to the caller alone.
    #[inline]
    pub unsafe fn push(&mut self, block: NonNull<Block>) {
        // SAFETY: by (1) ours; a class is large and aligned enough for a link.
        unsafe { block.write(Block { next: self.first, far: None }) };
        self.first = Some(block);
        self.count += 1;
    }

    /// Links each block to the block that is [`AHEAD`] further on.
    pub fn link_ahead(&mut self) {
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
    ///
    /// # Safety
    /// 1. `class` is the class of the batch.
    pub unsafe fn release(mut self, class: usize) {
        while let Some(block) = self.pop() {
            // SAFETY: the block was the batch's, and by (1) it was allocated with this layout.
            unsafe { dealloc(block.as_ptr().cast(), layout_of(class)) };
        }
    }
}

/// Memory for `layout`, which is not empty, from the allocator; uninitialised.
#[cold]
pub fn allocate(layout: Layout) -> NonNull<u8> {
    assert!(layout.size() > 0, "an empty layout needs no memory: {layout:?}");
    let layout = class_of(layout).map_or(layout, layout_of);
    // SAFETY: the layout is not empty, and that of its class is no smaller.
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
pub fn class_of(layout: Layout) -> Option<usize> {
    let class = layout.size().saturating_sub(8).div_ceil(16);
    let fits = class < CLASSES && layout.align() <= ALIGN && layout.size() >= size_of::<Block>();
    (KEEPS_MEMORY && fits).then_some(class)
}

#[inline(always)]
pub fn layout_of(class: usize) -> Layout {
    // SAFETY: `ALIGN` is a power of two. A class is below `CLASSES`, so the size is about 1 KiB at most.
    unsafe { Layout::from_size_align_unchecked(16 * class + 8, ALIGN) }
}

pub fn bytes_of_batch(class: usize) -> usize {
    BATCH as usize * layout_of(class).size()
}
