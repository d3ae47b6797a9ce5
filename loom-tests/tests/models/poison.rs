//! An allocator that overwrites what is freed and keeps it for a while: an access to it then finds no atomic
//! of loom's, or a wild pointer, instead of yesterday's values.
//!
//! A twin that touches freed memory says what it touched, by [`name_late_uses`].

use std::alloc::{GlobalAlloc, Layout, System};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;

use super::plain::text_of;

/// Blocks that are kept.
const KEPT: usize = 1 << 10;
/// What freed memory is filled with.
pub const FREED: u8 = 0xdd;
/// Larger blocks are none of the models'.
const LARGEST: usize = 1 << 12;

pub struct Poison(Mutex<Ring>);

struct Ring {
    blocks: [Option<(usize, Layout)>; KEPT],
    next: usize,
}

impl Poison {
    pub const fn new() -> Self {
        Self(Mutex::new(Ring { blocks: [None; KEPT], next: 0 }))
    }
}

// SAFETY: the blocks are the system allocator's. A freed block goes back to it once, immediately or later.
unsafe impl GlobalAlloc for Poison {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller guarantees the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if layout.size() > LARGEST {
            // SAFETY: the caller guarantees the same.
            return unsafe { System.dealloc(block, layout) };
        }
        // SAFETY: the block was allocated with this layout, and is not used any more.
        unsafe { block.write_bytes(FREED, layout.size()) };
        let oldest = {
            let mut ring = self.0.lock().unwrap();
            let next = ring.next;
            ring.next = (next + 1) % KEPT;
            ring.blocks[next].replace((block.expose_provenance(), layout))
        };
        if let Some((block, layout)) = oldest {
            // SAFETY: freed by its owner, and by no other thread since.
            unsafe { System.dealloc(std::ptr::with_exposed_provenance_mut(block), layout) };
        }
    }
}

/// Calls `f`. If `f` touches an atomic, cell or lock in freed memory, fails with "late use of WHAT".
pub fn name_late_uses<R>(what: &str, f: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| {
        // What loom looks up by a number that it finds in the memory.
        let lookup = format!("the index is {}", usize::from_ne_bytes([FREED; size_of::<usize>()]));
        if text_of(&*panic).contains(&lookup) {
            panic!("late use of {what}");
        }
        resume_unwind(panic)
    })
}
