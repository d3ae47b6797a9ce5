//! A region on the heap.

use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;

use super::Region;

/// Owns a region. Unlike `Box`, it may be moved while other threads refer to the region: a `Box` says with
/// each move that nothing else does.
pub struct HeapRegion(NonNull<Region>);

impl HeapRegion {
    pub fn new(region: Region) -> Self {
        Self(NonNull::from(Box::leak(Box::new(region))))
    }

    pub fn as_ptr(&self) -> *const Region {
        self.0.as_ptr()
    }

    /// The region stays for good.
    pub fn leak(self) -> &'static Region {
        let region = self.0;
        std::mem::forget(self);
        // SAFETY: the region is not freed any more, and is only shared.
        unsafe { region.as_ref() }
    }
}

impl Deref for HeapRegion {
    type Target = Region;

    fn deref(&self) -> &Region {
        // SAFETY: the region lives as long as `self`, and is only shared.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for HeapRegion {
    fn drop(&mut self) {
        // SAFETY: the pointer is from a box, and `self` is the only owner. A region is dropped only
        // when no job and no thread refers to it any more.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl fmt::Debug for HeapRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
