//! Prefetching: asking the processor for memory ahead of its use.

use std::ptr::NonNull;

/// The size of a cache line.
const LINE: usize = 64;

/// Prefetches the cache line of `place` for a write that follows soon. If another core wrote the line last,
/// the line travels to this core meanwhile.
///
/// This is only a hint, so any pointer is allowed, even a pointer to freed memory.
#[inline(always)]
pub fn to_write<T>(place: NonNull<T>) {
    // SAFETY: the instruction changes no memory and no register, at any address. A processor that does not
    // know it does nothing.
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    unsafe {
        std::arch::asm!(
            "prefetchw [{}]",
            in(reg) place.as_ptr(),
            options(nostack, preserves_flags, readonly)
        );
    }
    // SAFETY: as above.
    #[cfg(all(target_arch = "aarch64", not(loom)))]
    unsafe {
        std::arch::asm!(
            "prfm pstl1keep, [{}]",
            in(reg) place.as_ptr(),
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(any(loom, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = place;
}

/// Prefetches the cache lines of `size` bytes at `place`, for writes.
#[inline(always)]
pub fn all_to_write(place: NonNull<u8>, size: usize) {
    // One line more, because the bytes need not begin at the start of a line.
    let lines = size.div_ceil(LINE) + 1;
    (0..lines).for_each(|line| to_write(place.map_addr(|addr| addr.saturating_add(line * LINE))));
}
