//! A counted reference to the shared state of a runtime: what a handle holds.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;

use super::shared::Shared;

/// A reference to the shared state; see `shared.rs`.
#[derive(Debug)]
pub struct Reference {
    shared: NonNull<Shared>,
}

// SAFETY: the shared state is made to be used from all threads, and counted.
unsafe impl Send for Reference {}
// SAFETY: as above.
unsafe impl Sync for Reference {}
impl UnwindSafe for Reference {}
impl RefUnwindSafe for Reference {}

impl Reference {
    /// # Safety
    /// 1. `shared` is valid now.
    #[inline]
    pub unsafe fn new(shared: NonNull<Shared>) -> Self {
        Shared::retain(shared);
        Self { shared }
    }

    /// Takes over the reference that [`Shared::new`] returns.
    ///
    /// # Safety
    /// 1. The caller has a reference, and gives it up.
    #[inline]
    pub unsafe fn adopt(shared: NonNull<Shared>) -> Self {
        Self { shared }
    }

    #[inline]
    pub fn shared(&self) -> &Shared {
        // SAFETY: our reference keeps it.
        unsafe { self.shared.as_ref() }
    }

    #[inline]
    pub fn shared_ptr(&self) -> NonNull<Shared> {
        self.shared
    }
}

impl Clone for Reference {
    #[inline]
    fn clone(&self) -> Self {
        Shared::retain(self.shared);
        Self { shared: self.shared }
    }
}

impl Drop for Reference {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: our reference is given up here.
        unsafe { Shared::release(self.shared) }
    }
}
