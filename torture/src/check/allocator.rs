//! An allocator that counts live blocks.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::AtomicIsize;
use std::sync::atomic::Ordering::Relaxed;

/// The system's, and counts.
#[derive(Debug)]
pub struct Counting;

static BLOCKS: AtomicIsize = AtomicIsize::new(0);
static BYTES: AtomicIsize = AtomicIsize::new(0);

/// Live memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Blocks that were allocated and not freed.
    pub blocks: isize,
    /// Their bytes.
    pub bytes: isize,
}

/// What lives now.
pub fn memory() -> Memory {
    Memory { blocks: BLOCKS.load(Relaxed), bytes: BYTES.load(Relaxed) }
}

fn count(blocks: isize, bytes: usize) {
    // Relaxed: read when the threads that count have ended, or as an estimate.
    BLOCKS.fetch_add(blocks, Relaxed);
    BYTES.fetch_add(blocks.signum() * bytes as isize, Relaxed);
}

// SAFETY: each call is handed to the system's allocator as it is, and its result is returned as it is.
// `count` neither unwinds nor allocates: it adds to two statics, and no layout exceeds `isize::MAX` bytes.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size());
        // SAFETY: the caller's duties are the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-1, layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        BYTES.fetch_add(size as isize - layout.size() as isize, Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_counted_until_it_is_freed() {
        // Other tests allocate, too, but no block of this size.
        let before = memory();
        let large = vec![0_u8; 64 << 20];
        assert!(memory().bytes - before.bytes > 32 << 20);
        drop(large);
        assert!(memory().bytes - before.bytes < 32 << 20);
    }
}
