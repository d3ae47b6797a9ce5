//! The real build: std's atomics and threads, parking_lot's locks.

pub mod sync {
    pub use crate::loom::byte_lock::{ByteGuard as ShortGuard, ByteLock as ShortLock};
    pub use parking_lot::{Condvar, Mutex, MutexGuard};
    pub use std::sync::Arc;
    pub use std::sync::atomic;
}

pub mod cell {
    /// A cell whose accesses a model can check; in a real build, nothing but `std::cell::UnsafeCell`.
    #[derive(Debug)]
    #[repr(transparent)]
    pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        /// Calls `f` with a pointer that may be read through while nothing writes.
        #[inline(always)]
        pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }

        /// Calls `f` with a pointer that may be written through while nothing else reads or writes.
        #[inline(always)]
        pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }
}

pub mod hint {
    pub use std::hint::spin_loop;
}

pub mod thread {
    pub use std::thread::{Builder, JoinHandle, Thread, current, park, park_timeout, yield_now};

    /// Sleeps without using the thread's token.
    pub fn nap(micros: u64) {
        std::thread::sleep(std::time::Duration::from_micros(micros));
    }

    /// A number from 1 on that no other thread has or had.
    #[inline]
    pub fn number() -> usize {
        use std::cell::Cell;
        use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

        thread_local! {
            static NUMBER: Cell<usize> = const { Cell::new(0) };
        }
        static LAST: AtomicUsize = AtomicUsize::new(0);

        NUMBER.with(|number| {
            if number.get() == 0 {
                // Relaxed: only the numbers differ, nothing else is passed on.
                number.set(LAST.fetch_add(1, Relaxed) + 1);
            }
            number.get()
        })
    }
}

/// Nothing. In a model, a `SeqCst` fence beside `SeqCst` accesses, which loom takes for `AcqRel` ones.
#[inline(always)]
pub fn model_fence() {}

/// `n` null pointers, on pages that are not touched before they are used, if the allocator can do that.
pub fn null_pointers<T>(n: usize) -> Box<[std::sync::atomic::AtomicPtr<T>]> {
    let layout = std::alloc::Layout::array::<std::sync::atomic::AtomicPtr<T>>(n).expect("small");
    assert!(n > 0);
    // SAFETY: the size is not zero.
    let memory = unsafe { std::alloc::alloc_zeroed(layout) };
    if memory.is_null() {
        std::alloc::handle_alloc_error(layout);
    }
    // SAFETY: zeros are null pointers; the memory is of a boxed slice's layout, and ours.
    unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(memory.cast(), n)) }
}

/// A number that differs between calls: `RandomState` is std's only source of randomness.
pub fn random_seed() -> u64 {
    std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0)
}

/// Declares a `const fn`; in a model, whose atomics have no constant constructor, a plain one.
macro_rules! const_fn {
    ($(#[$meta:meta])* $vis:vis const fn $($rest:tt)*) => { $(#[$meta])* $vis const fn $($rest)* };
}
pub(crate) use const_fn;

/// Declares a thread-local without a destructor; reading it is one instruction.
macro_rules! thread_cell {
    ($(#[$meta:meta])* $vis:vis static $name:ident: $ty:ty = $init:expr;) => {
        thread_local! { $(#[$meta])* $vis static $name: $ty = const { $init } }
    };
}
pub(crate) use thread_cell;
