//! The lock itself: a count of permits, and the data. The folder's docs say how the two work together.

use std::cell::UnsafeCell;
use std::fmt;

use super::borrowed::{RwLockReadGuard, RwLockWriteGuard, Share, Whole};
use crate::loom::const_fn;
use crate::sync::mutex::TryLockError;
use crate::sync::permits::Permits;
use crate::util::block_on::{assert_may_block, block_on};

/// The largest number of readers at once.
const MAX_READERS: u32 = u32::MAX >> 3;

/// Gives access to its data to many readers, or to one writer. Waiting for it does not block the thread.
///
/// The wait list is fair: first come, first served. A reader waits behind a writer that waits, so readers
/// cannot keep writers out for ever. For the same reason a task that holds a read guard must not wait for a
/// second one: a writer may stand in between. A panic while a guard is held does not poison the lock.
///
/// # Examples
/// ```
/// use runtime::sync::RwLock;
///
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let lock = RwLock::new(5);
/// {
///     let (first, second) = (lock.read().await, lock.read().await);
///     assert_eq!(*first + *second, 10);
/// }
/// *lock.write().await += 1;
/// assert_eq!(*lock.read().await, 6);
/// # });
/// ```
pub struct RwLock<T: ?Sized> {
    pub(super) permits: Permits,
    /// The number of permits when no task holds any.
    pub(super) max_readers: u32,
    /// Read by the holders of a permit. Written by the holder of all permits, or through `&mut RwLock`.
    pub(super) data: UnsafeCell<T>,
}

// SAFETY: the data moves with the lock.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}
// SAFETY: `&RwLock` gives out `&T` to many threads at once, and `&mut T` to one, which moves the data between
// threads.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

impl<T> RwLock<T> {
    /// Creates an unlocked lock.
    ///
    /// # Examples
    /// ```
    /// let lock = runtime::sync::RwLock::new(5);
    /// assert_eq!(lock.into_inner(), 5);
    /// ```
    pub fn new(value: T) -> Self {
        Self::const_new(value)
    }

    /// Creates an unlocked lock that admits at most `max_readers` readers at once.
    ///
    /// # Panics
    /// If `max_readers` is 0 or above `u32::MAX >> 3`.
    ///
    /// # Examples
    /// ```
    /// let lock = runtime::sync::RwLock::with_max_readers(5, 1);
    /// let reader = lock.try_read().unwrap();
    /// assert!(lock.try_read().is_err());
    /// # drop(reader);
    /// ```
    #[track_caller]
    pub fn with_max_readers(value: T, max_readers: u32) -> Self {
        assert!(
            max_readers <= MAX_READERS,
            "a RwLock may not be created with more than {MAX_READERS} readers, got {max_readers}"
        );
        Self::const_with_max_readers(value, max_readers)
    }

    const_fn! {
        /// Creates an unlocked lock in a constant, for instance in a `static`.
        ///
        /// # Examples
        /// ```
        /// static NAMES: runtime::sync::RwLock<Vec<String>> = runtime::sync::RwLock::const_new(Vec::new());
        /// ```
        pub const fn const_new(value: T) -> Self {
            Self::const_with_max_readers(value, MAX_READERS)
        }
    }

    const_fn! {
        /// Creates a lock as [`with_max_readers`](Self::with_max_readers) does, in a constant.
        ///
        /// # Panics
        /// As [`with_max_readers`](Self::with_max_readers); in a constant that is a compile error.
        ///
        /// # Examples
        /// ```
        /// static LIMIT: runtime::sync::RwLock<u32> = runtime::sync::RwLock::const_with_max_readers(1, 100);
        /// ```
        #[track_caller]
        pub const fn const_with_max_readers(value: T, max_readers: u32) -> Self {
            assert!(
                max_readers != 0,
                "a RwLock may not be created with 0 readers: give the most that may read at once"
            );
            assert!(
                max_readers <= MAX_READERS,
                "a RwLock may not be created with more than `u32::MAX >> 3` readers"
            );
            Self { permits: Permits::new(max_readers as usize), max_readers, data: UnsafeCell::new(value) }
        }
    }

    /// Returns the data.
    ///
    /// # Examples
    /// ```
    /// assert_eq!(runtime::sync::RwLock::new(1).into_inner(), 1);
    /// ```
    pub fn into_inner(self) -> T {
        self.data.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until no task writes and no earlier task waits, then locks for reading.
    ///
    /// # Cancel safety
    /// The future loses its place in the queue. A lock that it was granted meanwhile goes to the next task.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let lock = runtime::sync::RwLock::new(1);
    /// let reader = lock.read().await;
    /// assert_eq!(*reader, 1);
    /// assert!(lock.try_write().is_err());
    /// # });
    /// ```
    pub async fn read(&self) -> RwLockReadGuard<'_, T> {
        self.take(1).await;
        self.reader()
    }

    /// Locks for reading as [`read`](Self::read) does, but blocks the thread.
    ///
    /// # Panics
    /// Directly inside a task. Use [`read`](Self::read) there.
    ///
    /// # Examples
    /// ```
    /// let lock = runtime::sync::RwLock::new(1);
    /// assert_eq!(*lock.blocking_read(), 1);
    /// ```
    #[track_caller]
    pub fn blocking_read(&self) -> RwLockReadGuard<'_, T> {
        assert_may_block("blocking_read", "read().await");
        block_on(self.read())
    }

    /// Locks for reading, if no task writes or waits.
    ///
    /// # Errors
    /// [`TryLockError`] otherwise, or if the largest number of readers is reached.
    ///
    /// # Examples
    /// ```
    /// let lock = runtime::sync::RwLock::new(1);
    /// let writer = lock.try_write().unwrap();
    /// assert!(lock.try_read().is_err());
    /// # drop(writer);
    /// ```
    pub fn try_read(&self) -> Result<RwLockReadGuard<'_, T>, TryLockError> {
        self.try_take(1)?;
        Ok(self.reader())
    }

    /// Waits until no task reads or writes and no earlier task waits, then locks for writing.
    ///
    /// # Cancel safety
    /// The future loses its place in the queue. A lock that it was granted meanwhile goes to the next task,
    /// and readers behind it may go on.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let lock = runtime::sync::RwLock::new(1);
    /// *lock.write().await += 1;
    /// assert_eq!(*lock.read().await, 2);
    /// # });
    /// ```
    pub async fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.take(self.max_readers).await;
        self.writer()
    }

    /// Locks for writing as [`write`](Self::write) does, but blocks the thread.
    ///
    /// # Panics
    /// Directly inside a task. Use [`write`](Self::write) there.
    ///
    /// # Examples
    /// ```
    /// let lock = runtime::sync::RwLock::new(1);
    /// *lock.blocking_write() += 1;
    /// # assert_eq!(lock.into_inner(), 2);
    /// ```
    #[track_caller]
    pub fn blocking_write(&self) -> RwLockWriteGuard<'_, T> {
        assert_may_block("blocking_write", "write().await");
        block_on(self.write())
    }

    /// Locks for writing, if no task reads, writes or waits.
    ///
    /// # Errors
    /// [`TryLockError`] otherwise.
    ///
    /// # Examples
    /// ```
    /// let lock = runtime::sync::RwLock::new(1);
    /// let reader = lock.try_read().unwrap();
    /// assert!(lock.try_write().is_err());
    /// # drop(reader);
    /// ```
    pub fn try_write(&self) -> Result<RwLockWriteGuard<'_, T>, TryLockError> {
        self.try_take(self.max_readers)?;
        Ok(self.writer())
    }

    /// Returns the data without locking, because a `&mut RwLock` excludes all guards.
    ///
    /// # Examples
    /// ```
    /// let mut lock = runtime::sync::RwLock::new(1);
    /// *lock.get_mut() += 1;
    /// assert_eq!(lock.into_inner(), 2);
    /// ```
    pub fn get_mut(&mut self) -> &mut T {
        self.data.get_mut()
    }

    pub(super) async fn take(&self, permits: u32) {
        self.permits.take(permits as usize).await.expect("the permits of a lock are never closed");
    }

    pub(super) fn try_take(&self, permits: u32) -> Result<(), TryLockError> {
        self.permits.try_take(permits as usize).map_err(|_| TryLockError::new())
    }

    /// Makes the guard of a caller that has taken one permit.
    #[inline]
    fn reader(&self) -> RwLockReadGuard<'_, T> {
        RwLockReadGuard::of_holder(Share::of_taken(&self.permits), self.data.get())
    }

    /// Makes the guard of a caller that has taken all permits.
    #[inline]
    fn writer(&self) -> RwLockWriteGuard<'_, T> {
        RwLockWriteGuard::of_holder(Whole::of_taken(&self.permits, self.max_readers), self.data.get())
    }
}

impl<T> From<T> for RwLock<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_read() {
            Ok(data) => f.debug_struct("RwLock").field("data", &&*data).finish(),
            Err(_) => f.debug_struct("RwLock").field("data", &format_args!("<locked>")).finish(),
        }
    }
}
