//! `std` or `loom`: the one door to atomics, cells, locks and threads, and the one switch between the two.
//!
//! Protocol code imports from here and holds no conditional compilation of its own. Under `cfg(loom)` the
//! same names lead to loom's checked versions; sizes that a model must shrink are constants below.

/// Slots of a processor's run queue; a power of two.
#[cfg(not(loom))]
pub const RING_CAPACITY: usize = 256;
/// Slots of a processor's run queue: small enough for a model to fill.
#[cfg(loom)]
pub const RING_CAPACITY: usize = 4;

/// Slots of a worker's deque of jobs.
#[cfg(not(loom))]
pub const DEQUE_CAPACITY: usize = 12 << 10;
/// Slots of a worker's deque of jobs: small enough for a model to fill.
#[cfg(loom)]
pub const DEQUE_CAPACITY: usize = 4;

/// Slots of the first ring of a FIFO scope's queue; a power of two.
#[cfg(not(loom))]
pub const LINE_CAPACITY: usize = 256;
/// Slots of the first ring of a FIFO scope's queue: few enough for a model to need a second ring.
#[cfg(loom)]
pub const LINE_CAPACITY: usize = 1;

/// References that a task's polls take from its word at once, for the wakers that they clone.
#[cfg(not(loom))]
pub const WAKER_STOCK: u16 = 32;
/// References that a task's polls take from its word at once: few enough for a model to run out of them.
#[cfg(loom)]
pub const WAKER_STOCK: u16 = 1;

/// How often a thread that is no worker looks at its latch before it sleeps: a few microseconds.
#[cfg(not(loom))]
pub const LATCH_SPINS: u32 = 100;
/// How often a thread that is no worker looks at its latch before it sleeps: in a model it is to sleep.
#[cfg(loom)]
pub const LATCH_SPINS: u32 = 1;

/// Positions a block of an mpsc channel stands for; it holds one value less.
#[cfg(not(loom))]
pub const MPSC_LAP: usize = 32;
/// Positions a block of an mpsc channel stands for: few enough for a model to change blocks.
#[cfg(loom)]
pub const MPSC_LAP: usize = 3;

/// Slots of a watch channel whose value many threads read at once; a power of two.
#[cfg(not(loom))]
pub const READER_SLOTS: usize = 16;
/// Slots of a watch channel whose value many threads read at once: few enough for a model to scan.
#[cfg(loom)]
pub const READER_SLOTS: usize = 2;

/// The longest time for which a computation yields to tasks at once, in microseconds.
#[cfg(not(loom))]
pub const YIELD_MICROS: u64 = 500;
/// The longest time for which a computation yields to tasks at once: in a model for ever, unless it is told
/// to go on.
#[cfg(loom)]
pub const YIELD_MICROS: u64 = 1 << 40;

/// Whether a runtime has a monitor. Not in models, whose threads know no time.
pub const HAS_MONITOR: bool = cfg!(not(loom));

/// Whether the system is asked how busy the machine is. Not in models, which must be the same each time.
pub const ASKS_THE_SYSTEM: bool = cfg!(not(loom));

/// Whether workers sample (`hints/sampling.rs`). Not in models either.
pub const SAMPLES: bool = cfg!(not(loom));

/// Whether threads wait awake at times (`patience.rs`). Not in models either.
pub const WAITS_AWAKE: bool = cfg!(not(loom));

/// Whether memory of ended tasks is kept for the next ones. Not under AddressSanitizer (`--cfg asan`), which
/// would take a late use of a task's memory for one of the next task.
pub const KEEPS_MEMORY: bool = cfg!(not(asan));

/// Whether threads that are no workers keep some, too. Not in models, whose threads are one thread to
/// thread-locals.
pub const KEEPS_MEMORY_OUTSIDE: bool = cfg!(not(loom));

#[cfg(not(loom))]
pub use real::*;

#[cfg(loom)]
pub use model::*;

#[cfg(not(loom))]
mod real {
    pub mod sync {
        pub use crate::util::byte_lock::{ByteGuard as ShortGuard, ByteLock as ShortLock};
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
}

#[cfg(loom)]
mod model {
    pub mod sync {
        pub use loom::sync::Arc;

        use std::ops::{Deref, DerefMut};
        use std::time::Instant;

        pub mod atomic {
            pub use loom::sync::atomic::*;
            pub use std::sync::atomic::Ordering;
        }

        const NO_POISON: &str = "a model does not poison its locks";

        /// loom's mutex with parking_lot's face: no poisoning.
        #[derive(Debug)]
        pub struct Mutex<T>(loom::sync::Mutex<T>);

        impl<T> Mutex<T> {
            pub fn new(value: T) -> Self {
                Self(loom::sync::Mutex::new(value))
            }

            pub fn lock(&self) -> MutexGuard<'_, T> {
                MutexGuard { guard: Some(self.0.lock().expect(NO_POISON)), mutex: self }
            }

            pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
                Some(MutexGuard { guard: Some(self.0.try_lock().ok()?), mutex: self })
            }

            pub fn into_inner(self) -> T {
                self.0.into_inner().expect(NO_POISON)
            }
        }

        pub use Mutex as ShortLock;
        pub use MutexGuard as ShortGuard;

        impl<T: Default> Default for Mutex<T> {
            fn default() -> Self {
                Self::new(T::default())
            }
        }

        #[derive(Debug)]
        pub struct MutexGuard<'a, T> {
            /// Out only while a condition variable has it.
            guard: Option<loom::sync::MutexGuard<'a, T>>,
            mutex: &'a Mutex<T>,
        }

        impl<T> Deref for MutexGuard<'_, T> {
            type Target = T;

            fn deref(&self) -> &T {
                self.guard.as_ref().expect("the lock is held")
            }
        }

        impl<T> DerefMut for MutexGuard<'_, T> {
            fn deref_mut(&mut self) -> &mut T {
                self.guard.as_mut().expect("the lock is held")
            }
        }

        /// loom's condition variable with parking_lot's face.
        #[derive(Debug, Default)]
        pub struct Condvar(loom::sync::Condvar);

        impl Condvar {
            pub fn new() -> Self {
                Self(loom::sync::Condvar::new())
            }

            pub fn notify_one(&self) -> bool {
                self.0.notify_one();
                true
            }

            pub fn notify_all(&self) -> usize {
                self.0.notify_all();
                0
            }

            pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
                guard.guard = guard.guard.take().map(|guard| self.0.wait(guard).expect(NO_POISON));
            }

            /// A soon deadline passes at once, a late one never; see [`is_soon`](super::is_soon).
            pub fn wait_until<T>(
                &self,
                guard: &mut MutexGuard<'_, T>,
                deadline: Instant,
            ) -> WaitTimeoutResult {
                let is_soon = super::is_soon(deadline.saturating_duration_since(Instant::now()));
                if is_soon {
                    guard.guard = None;
                    loom::thread::yield_now();
                    guard.guard = Some(guard.mutex.0.lock().expect(NO_POISON));
                } else {
                    self.wait(guard);
                }
                WaitTimeoutResult(is_soon)
            }
        }

        pub struct WaitTimeoutResult(bool);

        impl WaitTimeoutResult {
            pub fn timed_out(&self) -> bool {
                self.0
            }
        }
    }

    /// A model has no time: a limit below an hour is over at once, a longer one never.
    fn is_soon(limit: std::time::Duration) -> bool {
        limit.as_secs() < 3600
    }

    /// What a thread sleeps on, the poller of the driver too: set from anywhere, used up by one wait.
    #[derive(Debug, Default)]
    pub struct Token {
        is_set: sync::Mutex<bool>,
        changed: sync::Condvar,
    }

    impl Token {
        pub fn set(&self) {
            *self.is_set.lock() = true;
            self.changed.notify_one();
        }

        pub fn wait(&self, limit: Option<std::time::Duration>) {
            let is_soon = limit.is_some_and(is_soon);
            let mut is_set = self.is_set.lock();
            while !*is_set && !is_soon {
                self.changed.wait(&mut is_set);
            }
            let was_set = std::mem::take(&mut *is_set);
            drop(is_set);
            if !was_set && limit.is_some_and(|limit| !limit.is_zero()) {
                loom::thread::yield_now();
            }
        }
    }

    pub mod cell {
        pub use loom::cell::UnsafeCell;
    }

    pub mod hint {
        pub use loom::hint::spin_loop;
    }

    pub mod thread {
        use std::sync::Arc;
        use std::time::Duration;

        pub use loom::thread::{Builder, JoinHandle, yield_now};

        use super::Token;

        /// A thread that can be unparked. Not loom's, whose unpark ends any wait, also one for a lock.
        #[derive(Debug, Clone, Default)]
        pub struct Thread(Arc<Token>);

        impl Thread {
            pub fn unpark(&self) {
                self.0.set();
            }

            pub fn id(&self) -> *const Token {
                Arc::as_ptr(&self.0)
            }
        }

        loom::thread_local! {
            static CURRENT: Thread = Thread::default();
        }

        pub fn current() -> Thread {
            CURRENT.with(Thread::clone)
        }

        pub fn park() {
            current().0.wait(None);
        }

        /// A model has no time: others may go on.
        pub fn nap(_micros: u64) {
            yield_now();
        }

        /// A number from 1 on that no other thread of the execution has.
        pub fn number() -> usize {
            // loom shows its number in no other way: `ThreadId(0)` is the first thread.
            let id = format!("{:?}", loom::thread::current().id());
            let digits: String = id.chars().filter(char::is_ascii_digit).collect();
            digits.parse::<usize>().expect("a thread of a model has a number") + 1
        }

        pub fn park_timeout(limit: Duration) {
            current().0.wait(Some(limit));
        }
    }

    /// A `SeqCst` fence beside `SeqCst` accesses, which loom takes for `AcqRel` ones.
    pub fn model_fence() {
        sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    }

    pub fn null_pointers<T>(n: usize) -> Box<[sync::atomic::AtomicPtr<T>]> {
        (0..n).map(|_| sync::atomic::AtomicPtr::new(std::ptr::null_mut())).collect()
    }

    /// A model must do the same in each run.
    pub fn random_seed() -> u64 {
        7
    }

    /// Declares a function that is `const` in a real build.
    macro_rules! const_fn {
        ($(#[$meta:meta])* $vis:vis const fn $($rest:tt)*) => { $(#[$meta])* $vis fn $($rest)* };
    }
    pub(crate) use const_fn;

    /// Declares a thread-local of the model's threads.
    macro_rules! thread_cell {
        ($(#[$meta:meta])* $vis:vis static $name:ident: $ty:ty = $init:expr;) => {
            loom::thread_local! { $(#[$meta])* $vis static $name: $ty = $init }
        };
    }
    pub(crate) use thread_cell;
}
