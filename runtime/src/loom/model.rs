//! A model's build: the same names from loom.

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
        pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, deadline: Instant) -> WaitTimeoutResult {
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
