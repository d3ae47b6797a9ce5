//! Asking for memory ahead of its use.

use std::ptr::NonNull;

/// A cache line.
const LINE: usize = 64;

/// Asks for the cache line of `place`, to be written soon: if another core wrote it last, it is on its way
/// here meanwhile.
///
/// Only a hint, so any pointer will do, also one to memory that has been freed.
#[inline(always)]
pub fn to_write<T>(place: NonNull<T>) {
    // SAFETY: changes no memory and no register, at whatever address; a processor that does not know it does
    // nothing.
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) place.as_ptr(), options(nostack, preserves_flags, readonly));
    }
    // SAFETY: as above.
    #[cfg(all(target_arch = "aarch64", not(loom)))]
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{}]", in(reg) place.as_ptr(), options(nostack, preserves_flags, readonly));
    }
    #[cfg(any(loom, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = place;
}

/// The same for `size` bytes at `place`.
#[inline(always)]
pub fn all_to_write(place: NonNull<u8>, size: usize) {
    // One line more, since it need not begin with one.
    let lines = size.div_ceil(LINE) + 1;
    (0..lines).for_each(|line| to_write(place.map_addr(|addr| addr.saturating_add(line * LINE))));
}
