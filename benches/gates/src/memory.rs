//! An allocator that counts its calls.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Calls so far. Each thread counts its own, because the monitor's thread may begin at any time.
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

/// How often this thread has allocated, resized or freed memory so far.
pub fn calls() -> usize {
    CALLS.get()
}

fn count() {
    CALLS.set(CALLS.get() + 1);
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call goes to the system's allocator unchanged, and its result comes back unchanged, so the
// promises of an allocator are the system's. `count` neither unwinds nor allocates: the thread-local that it
// touches begins as a constant and has no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's duties are the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count();
        // SAFETY: as in `alloc`.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as in `alloc`.
        unsafe { System.realloc(memory, layout, size) }
    }
}
