//! A mutex whose guard may be held across an `.await`: one permit of [`permits`](super::permits) and the data
//! that the permit guards.
//!
//! The holder of the permit may use the data. The permit's Acquire and Release order one holder after the
//! other. A guard *is* the permit: each kind of guard gives it back when dropped, and the mapping of one
//! guard into another hands it over.
//!
//! `mutex_owned.rs` has the guards that own an `Arc` of their mutex, and the methods that make them.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

use super::permits::Permits;
use crate::loom::const_fn;
use crate::util::block_on::{assert_may_block, block_on};

/// Gives access to its data to one task at a time. Waiting for it does not block the thread.
///
/// The wait list is fair: first come, first served. A panic while the guard is held does not poison the
/// mutex: the guard is dropped, and the next task sees the data as they are.
///
/// `std::sync::Mutex` is faster for data that is only touched between two `.await`s. This mutex is for guards
/// that live across an `.await`.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use runtime::sync::Mutex;
///
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let log = Arc::new(Mutex::new(Vec::new()));
/// let theirs = log.clone();
/// runtime::spawn(async move { theirs.lock().await.push("task") }).await.unwrap();
/// log.lock().await.push("main");
/// assert_eq!(*log.lock().await, ["task", "main"]);
/// # });
/// ```
pub struct Mutex<T: ?Sized> {
    permit: Permits,
    /// Touched only by the holder of the permit, or through `&mut Mutex`.
    data: UnsafeCell<T>,
}

// SAFETY: moving the mutex moves the data.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: `&Mutex` gives out `&mut T` to one thread at a time. That moves the data between threads, and no
// more.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

/// Access to the data of a [`Mutex`]. Dropping it unlocks the mutex.
#[must_use = "the mutex is unlocked when its guard is dropped"]
#[clippy::has_significant_drop]
pub struct MutexGuard<'a, T: ?Sized> {
    /// This guard holds the mutex's permit until it is dropped.
    mutex: &'a Mutex<T>,
    /// Access to the data is access through `&mut T`, so `Send` and `Sync` are those of `&mut T`.
    _data: PhantomData<&'a mut T>,
}

/// Access to a part of a [`Mutex`]'s data. Dropping it unlocks the mutex.
#[must_use = "the mutex is unlocked when its guard is dropped"]
#[clippy::has_significant_drop]
pub struct MappedMutexGuard<'a, T: ?Sized> {
    /// This guard holds the permit until it is dropped.
    permit: &'a Permits,
    /// Points into the mutex's data, where the permit lets no other task in.
    part: *mut T,
    _data: PhantomData<&'a mut T>,
}

// SAFETY: the pointer stands for a `&mut T`, and permits may be given back from any thread.
unsafe impl<T: ?Sized + Send> Send for MappedMutexGuard<'_, T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Sync> Sync for MappedMutexGuard<'_, T> {}

/// The error of [`Mutex::try_lock`]: another task holds the mutex, or waits for it.
#[derive(Debug)]
pub struct TryLockError(());

impl TryLockError {
    pub(super) fn new() -> Self {
        Self(())
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Creates an unlocked mutex.
    ///
    /// # Examples
    /// ```
    /// let mutex = runtime::sync::Mutex::new(5);
    /// assert_eq!(mutex.into_inner(), 5);
    /// ```
    pub fn new(value: T) -> Self
    where
        T: Sized,
    {
        Self { permit: Permits::new(1), data: UnsafeCell::new(value) }
    }

    /// Waits for the mutex and locks it.
    ///
    /// # Cancel safety
    /// The future loses its place in the queue. A lock that it was granted meanwhile goes to the next task.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let mutex = runtime::sync::Mutex::new(1);
    /// *mutex.lock().await += 1;
    /// assert_eq!(*mutex.lock().await, 2);
    /// # });
    /// ```
    pub async fn lock(&self) -> MutexGuard<'_, T> {
        self.wait().await;
        self.guard()
    }

    /// Blocks the thread until it has the mutex.
    ///
    /// # Panics
    /// Directly inside a task. Use [`lock`](Self::lock) there.
    ///
    /// # Examples
    /// ```
    /// let mutex = runtime::sync::Mutex::new(1);
    /// *mutex.blocking_lock() += 1;
    /// # assert_eq!(mutex.into_inner(), 2);
    /// ```
    #[track_caller]
    pub fn blocking_lock(&self) -> MutexGuard<'_, T> {
        assert_may_block("blocking_lock", "lock().await");
        block_on(self.lock())
    }

    /// Locks the mutex if it is free and no task waits.
    ///
    /// # Errors
    /// [`TryLockError`] otherwise.
    ///
    /// # Examples
    /// ```
    /// let mutex = runtime::sync::Mutex::new(1);
    /// let guard = mutex.try_lock().unwrap();
    /// assert!(mutex.try_lock().is_err());
    /// # drop(guard);
    /// ```
    pub fn try_lock(&self) -> Result<MutexGuard<'_, T>, TryLockError> {
        self.try_wait()?;
        Ok(self.guard())
    }

    /// Returns the data without locking, because a `&mut Mutex` excludes all guards.
    ///
    /// # Examples
    /// ```
    /// let mut mutex = runtime::sync::Mutex::new(1);
    /// *mutex.get_mut() += 1;
    /// assert_eq!(mutex.into_inner(), 2);
    /// ```
    pub fn get_mut(&mut self) -> &mut T {
        self.data.get_mut()
    }

    /// Returns the data.
    ///
    /// # Examples
    /// ```
    /// assert_eq!(runtime::sync::Mutex::new(1).into_inner(), 1);
    /// ```
    pub fn into_inner(self) -> T
    where
        T: Sized,
    {
        self.data.into_inner()
    }

    /// Waits for the permit and takes it. The caller makes a guard of it.
    pub(super) async fn wait(&self) {
        self.permit.take(1).await.expect("the permits of a mutex are never closed");
    }

    /// Takes the permit, as [`wait`](Self::wait) does, if it is free and no task waits.
    pub(super) fn try_wait(&self) -> Result<(), TryLockError> {
        self.permit.try_take(1).map_err(|_| TryLockError::new())
    }

    /// Makes the guard of the caller, which holds the permit.
    fn guard(&self) -> MutexGuard<'_, T> {
        MutexGuard { mutex: self, _data: PhantomData }
    }

    /// The address of the data, for guards, which hold the permit.
    pub(super) fn data(&self) -> *mut T {
        self.data.get()
    }

    /// Gives the permit back, for guards.
    pub(super) fn unlock(&self) {
        self.permit.give(1);
    }
}

impl<T> Mutex<T> {
    const_fn! {
        /// Creates an unlocked mutex in a constant, for instance in a `static`.
        ///
        /// # Examples
        /// ```
        /// static NAMES: runtime::sync::Mutex<Vec<String>> = runtime::sync::Mutex::const_new(Vec::new());
        /// ```
        pub const fn const_new(value: T) -> Self {
            Self { permit: Permits::new(1), data: UnsafeCell::new(value) }
        }
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_lock() {
            Ok(data) => f.debug_struct("Mutex").field("data", &&*data).finish(),
            Err(_) => f.debug_struct("Mutex").field("data", &format_args!("<locked>")).finish(),
        }
    }
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// Narrows the guard to a part of the data. This is an associated function: `MutexGuard::map(guard, …)`.
    ///
    /// # Examples
    /// ```
    /// use runtime::sync::{Mutex, MutexGuard};
    ///
    /// let mutex = Mutex::new((1, "one"));
    /// *MutexGuard::map(mutex.try_lock().unwrap(), |pair| &mut pair.0) = 2;
    /// assert_eq!(mutex.into_inner(), (2, "one"));
    /// ```
    pub fn map<U, F>(mut this: Self, f: F) -> MappedMutexGuard<'a, U>
    where
        U: ?Sized,
        F: FnOnce(&mut T) -> &mut U,
    {
        // If `f` panics, `this` is dropped, and the drop unlocks.
        let part: *mut U = f(&mut *this);
        let this = ManuallyDrop::new(this);
        MappedMutexGuard { permit: &this.mutex.permit, part, _data: PhantomData }
    }

    /// Narrows the guard as [`map`](Self::map) does if `f` finds the part, and otherwise returns the guard.
    ///
    /// # Errors
    /// The guard itself, if `f` returns `None`.
    ///
    /// # Examples
    /// ```
    /// use runtime::sync::{Mutex, MutexGuard};
    ///
    /// let mutex = Mutex::new(vec![1, 2]);
    /// assert!(MutexGuard::try_map(mutex.try_lock().unwrap(), |list| list.get_mut(2)).is_err());
    /// ```
    pub fn try_map<U, F>(mut this: Self, f: F) -> Result<MappedMutexGuard<'a, U>, Self>
    where
        U: ?Sized,
        F: FnOnce(&mut T) -> Option<&mut U>,
    {
        let Some(part) = f(&mut *this).map(|part| part as *mut U) else { return Err(this) };
        let this = ManuallyDrop::new(this);
        Ok(MappedMutexGuard { permit: &this.mutex.permit, part, _data: PhantomData })
    }

    /// Returns the mutex that `this` locks.
    ///
    /// # Examples
    /// ```
    /// use runtime::sync::{Mutex, MutexGuard};
    ///
    /// let mutex = Mutex::new(1);
    /// let guard = mutex.try_lock().unwrap();
    /// assert!(MutexGuard::mutex(&guard).try_lock().is_err());
    /// ```
    pub fn mutex(this: &Self) -> &'a Mutex<T> {
        this.mutex
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.mutex.unlock();
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard holds the permit; the borrow of the guard excludes writes through it.
        unsafe { &*self.mutex.data() }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the permit, and is borrowed mutably.
        unsafe { &mut *self.mutex.data() }
    }
}

impl<'a, T: ?Sized> MappedMutexGuard<'a, T> {
    /// Narrows the guard further. This is an associated function: `MappedMutexGuard::map(guard, …)`.
    ///
    /// # Examples
    /// ```
    /// use runtime::sync::{MappedMutexGuard, Mutex, MutexGuard};
    ///
    /// let mutex = Mutex::new(((1, 2), 3));
    /// let pair = MutexGuard::map(mutex.try_lock().unwrap(), |data| &mut data.0);
    /// assert_eq!(*MappedMutexGuard::map(pair, |pair| &mut pair.1), 2);
    /// ```
    pub fn map<U, F>(mut this: Self, f: F) -> MappedMutexGuard<'a, U>
    where
        U: ?Sized,
        F: FnOnce(&mut T) -> &mut U,
    {
        let part: *mut U = f(&mut *this);
        let this = ManuallyDrop::new(this);
        MappedMutexGuard { permit: this.permit, part, _data: PhantomData }
    }

    /// Narrows the guard as [`map`](Self::map) does if `f` finds the part, and otherwise returns the guard.
    ///
    /// # Errors
    /// The guard itself, if `f` returns `None`.
    ///
    /// # Examples
    /// ```
    /// use runtime::sync::{MappedMutexGuard, Mutex, MutexGuard};
    ///
    /// let mutex = Mutex::new((vec![1], 2));
    /// let list = MutexGuard::map(mutex.try_lock().unwrap(), |data| &mut data.0);
    /// assert!(MappedMutexGuard::try_map(list, |list| list.get_mut(1)).is_err());
    /// ```
    pub fn try_map<U, F>(mut this: Self, f: F) -> Result<MappedMutexGuard<'a, U>, Self>
    where
        U: ?Sized,
        F: FnOnce(&mut T) -> Option<&mut U>,
    {
        let Some(part) = f(&mut *this).map(|part| part as *mut U) else { return Err(this) };
        let this = ManuallyDrop::new(this);
        Ok(MappedMutexGuard { permit: this.permit, part, _data: PhantomData })
    }
}

impl<T: ?Sized> Drop for MappedMutexGuard<'_, T> {
    fn drop(&mut self) {
        self.permit.give(1);
    }
}

impl<T: ?Sized> Deref for MappedMutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard holds the permit, so the part is in place and ours. The borrow of the guard
        // excludes writes through it.
        unsafe { &*self.part }
    }
}

impl<T: ?Sized> DerefMut for MappedMutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the permit, so the part is in place and ours. The guard is borrowed
        // mutably.
        unsafe { &mut *self.part }
    }
}

impl fmt::Display for TryLockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("operation would block")
    }
}

impl std::error::Error for TryLockError {}

/// Lets a guard print as its data.
macro_rules! print_as_data {
    ($guard:ty, $($generic:tt)*) => {
        impl<$($generic)*: ?Sized + fmt::Debug> fmt::Debug for $guard {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }

        impl<$($generic)*: ?Sized + fmt::Display> fmt::Display for $guard {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }
    };
}
pub(super) use print_as_data;

print_as_data!(MutexGuard<'_, T>, T);
print_as_data!(MappedMutexGuard<'_, T>, T);
