//! A value that is set once: the common part of [`OnceCell`](super::OnceCell) and
//! [`SetOnce`](super::SetOnce).
//!
//! It is a count of [`permits`](super::permits) and room for the value. The permits are closed when the value
//! is there, and never before: CLOSED in their word says "set". `OnceCell` has one permit, for the task that
//! makes the value. A task that waits for the permit learns that the value is there, or that it may make the
//! value because the maker failed. `SetOnce` has no permit, so a task that waits can only learn that the
//! value is there.
//!
//! # Ordering
//! The first thread to find the permits open writes the value, under the lock of the wait list
//! (`Permits::close_with`), before it sets CLOSED. That store is Release, as is every later change of the
//! word, and `get` reads the word with Acquire.

use std::cell::UnsafeCell;
use std::mem::{ManuallyDrop, MaybeUninit};

use super::permits::Permits;
use crate::loom::const_fn;

/// Room for a value, and the permits.
pub(super) struct Once<T> {
    pub(super) permits: Permits,
    /// Holds a value once the permits are closed. It is written once before that, and later only through
    /// `&mut Once`.
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the value moves with the `Once`.
unsafe impl<T: Send> Send for Once<T> {}
// SAFETY: a value is set from any thread, and read by many.
unsafe impl<T: Send + Sync> Sync for Once<T> {}

impl<T> Once<T> {
    const_fn! {
        /// Creates an empty `Once` with the given number of permits.
        pub(super) const fn new(permits: usize) -> Self {
            Self { permits: Permits::new(permits), value: UnsafeCell::new(MaybeUninit::uninit()) }
        }
    }

    const_fn! {
        pub(super) const fn with(value: T) -> Self {
            Self { permits: Permits::new_closed(), value: UnsafeCell::new(MaybeUninit::new(value)) }
        }
    }

    #[inline]
    pub(super) fn is_set(&self) -> bool {
        self.permits.is_closed()
    }

    #[inline]
    pub(super) fn get(&self) -> Option<&T> {
        // SAFETY: the value is set. From then on it is written only through `&mut self`.
        self.is_set().then(|| unsafe { (*self.value.get()).assume_init_ref() })
    }

    #[inline]
    pub(super) fn get_mut(&mut self) -> Option<&mut T> {
        // SAFETY: the value is set.
        self.is_set().then(|| unsafe { self.value.get_mut().assume_init_mut() })
    }

    /// Sets the value and releases all waiters. If there is a value already, `value` comes back.
    pub(super) fn set(&self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        self.permits.close_with(|| {
            if let Some(value) = value.take() {
                // SAFETY: called once, before the permits are closed, and under the wait list's lock. So no
                // other thread reads or writes.
                unsafe { (*self.value.get()).write(value) };
            }
        });
        value.map_or(Ok(()), Err)
    }

    pub(super) fn into_inner(self) -> Option<T> {
        let this = ManuallyDrop::new(self);
        let is_set = this.is_set();
        // SAFETY: `this` is neither used again nor dropped.
        let (_permits, value) = unsafe { (std::ptr::read(&this.permits), std::ptr::read(&this.value)) };
        // SAFETY: the value is set.
        is_set.then(|| unsafe { value.into_inner().assume_init() })
    }
}

impl<T> Drop for Once<T> {
    fn drop(&mut self) {
        if self.is_set() {
            // SAFETY: the value is set, and no thread reads it any more.
            unsafe { self.value.get_mut().assume_init_drop() };
        }
    }
}

/// Lets a cell print and compare as its value.
macro_rules! act_as_option {
    ($cell:ident) => {
        impl<T> Default for $cell<T> {
            fn default() -> Self {
                Self::new()
            }
        }

        impl<T: Clone> Clone for $cell<T> {
            fn clone(&self) -> Self {
                Self::new_with(self.get().cloned())
            }
        }

        impl<T: PartialEq> PartialEq for $cell<T> {
            fn eq(&self, other: &Self) -> bool {
                self.get() == other.get()
            }
        }

        impl<T: Eq> Eq for $cell<T> {}

        impl<T> From<T> for $cell<T> {
            fn from(value: T) -> Self {
                Self::const_new_with(value)
            }
        }

        impl<T: fmt::Debug> fmt::Debug for $cell<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($cell)).field("value", &self.get()).finish()
            }
        }
    };
}
pub(super) use act_as_option;
