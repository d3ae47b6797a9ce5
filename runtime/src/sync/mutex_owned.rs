//! Guards of a [`Mutex`] that keep it alive, for tasks and structs that cannot borrow the mutex.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::mutex::{Mutex, TryLockError, print_as_data};
use crate::util::block_on::{assert_may_block, block_on};

/// Access to the data of a [`Mutex`]. It keeps the mutex alive, and dropping it unlocks the mutex.
#[must_use = "the mutex is unlocked when its guard is dropped"]
#[clippy::has_significant_drop]
pub struct OwnedMutexGuard<T: ?Sized> {
    /// This guard holds the mutex's permit until it is dropped.
    mutex: Arc<Mutex<T>>,
}

/// Access to a part of a [`Mutex`]'s data. It keeps the mutex alive, and dropping it unlocks the mutex.
#[must_use = "the mutex is unlocked when its guard is dropped"]
#[clippy::has_significant_drop]
pub struct OwnedMappedMutexGuard<T: ?Sized, U: ?Sized = T> {
    /// This guard holds the mutex's permit until it is dropped.
    mutex: Arc<Mutex<T>>,
    /// Points into the mutex's data, where the permit lets no other task in.
    part: *mut U,
}

// SAFETY: a shared guard gives out `&T` and `&Arc<Mutex<T>>`, which need `T: Sync` and `T: Send`. This
// replaces the automatic bound, which would be content with `T: Send`.
unsafe impl<T: ?Sized + Send + Sync> Sync for OwnedMutexGuard<T> {}

// SAFETY: the pointer stands for a `&mut U`. The thread that drops the guard may drop the mutex.
unsafe impl<T: ?Sized + Send, U: ?Sized + Send> Send for OwnedMappedMutexGuard<T, U> {}
// SAFETY: a shared guard gives out `&U` and nothing else. (`T: Sync` is not needed, but Tokio asks for it.)
unsafe impl<T: ?Sized + Send + Sync, U: ?Sized + Send + Sync> Sync for OwnedMappedMutexGuard<T, U> {}

/// Locking with guards that keep the mutex alive.
impl<T: ?Sized> Mutex<T> {
    /// Blocks the thread until it has the mutex, and returns a guard that keeps the mutex alive.
    ///
    /// # Panics
    /// Directly inside a task. Use [`lock_owned`](Self::lock_owned) there.
    ///
    /// # Examples
    /// ```
    /// let mutex = std::sync::Arc::new(runtime::sync::Mutex::new(1));
    /// let guard = mutex.blocking_lock_owned();
    /// assert_eq!(*guard, 1);
    /// ```
    #[track_caller]
    pub fn blocking_lock_owned(self: Arc<Self>) -> OwnedMutexGuard<T> {
        assert_may_block("blocking_lock_owned", "lock_owned().await");
        block_on(self.lock_owned())
    }

    /// Waits for the mutex and locks it with a guard that keeps the mutex alive.
    ///
    /// # Cancel safety
    /// As [`lock`](Self::lock).
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let mutex = std::sync::Arc::new(runtime::sync::Mutex::new(1));
    /// let mut guard = mutex.clone().lock_owned().await;
    /// runtime::spawn(async move { *guard += 1 }).await.unwrap();
    /// assert_eq!(*mutex.lock().await, 2);
    /// # });
    /// ```
    pub async fn lock_owned(self: Arc<Self>) -> OwnedMutexGuard<T> {
        self.wait().await;
        OwnedMutexGuard::of_holder(self)
    }

    /// Locks the mutex as [`try_lock`](Self::try_lock) does, with a guard that keeps the mutex alive.
    ///
    /// # Errors
    /// As [`try_lock`](Self::try_lock).
    ///
    /// # Examples
    /// ```
    /// let mutex = std::sync::Arc::new(runtime::sync::Mutex::new(1));
    /// let guard = mutex.clone().try_lock_owned().unwrap();
    /// assert!(mutex.try_lock_owned().is_err());
    /// # drop(guard);
    /// ```
    pub fn try_lock_owned(self: Arc<Self>) -> Result<OwnedMutexGuard<T>, TryLockError> {
        self.try_wait()?;
        Ok(OwnedMutexGuard::of_holder(self))
    }
}

impl<T: ?Sized> OwnedMutexGuard<T> {
    /// Makes the guard of the caller, which holds the permit.
    fn of_holder(mutex: Arc<Mutex<T>>) -> Self {
        Self { mutex }
    }

    /// Narrows the guard to a part of the data. This is an associated function: `OwnedMutexGuard::map(guard,
    /// …)`.
    ///
    /// # Examples
    /// ```
    /// use runtime::sync::{Mutex, OwnedMutexGuard};
    ///
    /// let mutex = std::sync::Arc::new(Mutex::new((1, "one")));
    /// let guard = mutex.try_lock_owned().unwrap();
    /// assert_eq!(*OwnedMutexGuard::map(guard, |pair| &mut pair.1), "one");
    /// ```
    pub fn map<U, F>(mut this: Self, f: F) -> OwnedMappedMutexGuard<T, U>
    where
        U: ?Sized,
        F: FnOnce(&mut T) -> &mut U,
    {
        // If `f` panics, `this` is dropped, and the drop unlocks.
        let part: *mut U = f(&mut *this);
        OwnedMappedMutexGuard { mutex: this.into_mutex(), part }
    }

    /// Narrows the guard as [`map`](Self::map) does if `f` finds the part, and otherwise returns the guard.
    ///
    /// # Errors
    /// The guard itself, if `f` returns `None`.
    ///
    /// # Examples
    /// ```
    /// use runtime::sync::{Mutex, OwnedMutexGuard};
    ///
    /// let mutex = std::sync::Arc::new(Mutex::new(vec![1, 2]));
    /// let guard = mutex.try_lock_owned().unwrap();
    /// assert!(OwnedMutexGuard::try_map(guard, |list| list.get_mut(2)).is_err());
    /// ```
    pub fn try_map<U, F>(mut this: Self, f: F) -> Result<OwnedMappedMutexGuard<T, U>, Self>
    where
        U: ?Sized,
        F: FnOnce(&mut T) -> Option<&mut U>,
    {
        let Some(part) = f(&mut *this).map(|part| part as *mut U) else { return Err(this) };
        Ok(OwnedMappedMutexGuard { mutex: this.into_mutex(), part })
    }

    /// Returns the mutex that `this` locks.
    ///
    /// # Examples
    /// ```
    /// use runtime::sync::{Mutex, OwnedMutexGuard};
    ///
    /// let guard = std::sync::Arc::new(Mutex::new(1)).try_lock_owned().unwrap();
    /// assert!(OwnedMutexGuard::mutex(&guard).try_lock().is_err());
    /// ```
    pub fn mutex(this: &Self) -> &Arc<Mutex<T>> {
        &this.mutex
    }

    /// Returns the mutex, still locked.
    fn into_mutex(self) -> Arc<Mutex<T>> {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is neither used again nor dropped.
        unsafe { std::ptr::read(&this.mutex) }
    }
}

impl<T: ?Sized> Drop for OwnedMutexGuard<T> {
    fn drop(&mut self) {
        self.mutex.unlock();
    }
}

impl<T: ?Sized> Deref for OwnedMutexGuard<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard holds the permit; the borrow of the guard excludes writes through it.
        unsafe { &*self.mutex.data() }
    }
}

impl<T: ?Sized> DerefMut for OwnedMutexGuard<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the permit, and is borrowed mutably.
        unsafe { &mut *self.mutex.data() }
    }
}

impl<T: ?Sized, U: ?Sized> OwnedMappedMutexGuard<T, U> {
    /// Narrows the guard further. This is an associated function: `OwnedMappedMutexGuard::map(guard, …)`.
    ///
    /// # Examples
    /// ```
    /// use runtime::sync::{Mutex, OwnedMappedMutexGuard, OwnedMutexGuard};
    ///
    /// let guard = std::sync::Arc::new(Mutex::new(((1, 2), 3))).try_lock_owned().unwrap();
    /// let pair = OwnedMutexGuard::map(guard, |data| &mut data.0);
    /// assert_eq!(*OwnedMappedMutexGuard::map(pair, |pair| &mut pair.1), 2);
    /// ```
    pub fn map<V, F>(mut this: Self, f: F) -> OwnedMappedMutexGuard<T, V>
    where
        V: ?Sized,
        F: FnOnce(&mut U) -> &mut V,
    {
        let part: *mut V = f(&mut *this);
        OwnedMappedMutexGuard { mutex: this.into_mutex(), part }
    }

    /// Narrows the guard as [`map`](Self::map) does if `f` finds the part, and otherwise returns the guard.
    ///
    /// # Errors
    /// The guard itself, if `f` returns `None`.
    ///
    /// # Examples
    /// ```
    /// use runtime::sync::{Mutex, OwnedMappedMutexGuard, OwnedMutexGuard};
    ///
    /// let guard = std::sync::Arc::new(Mutex::new((vec![1], 2))).try_lock_owned().unwrap();
    /// let list = OwnedMutexGuard::map(guard, |data| &mut data.0);
    /// assert!(OwnedMappedMutexGuard::try_map(list, |list| list.get_mut(1)).is_err());
    /// ```
    pub fn try_map<V, F>(mut this: Self, f: F) -> Result<OwnedMappedMutexGuard<T, V>, Self>
    where
        V: ?Sized,
        F: FnOnce(&mut U) -> Option<&mut V>,
    {
        let Some(part) = f(&mut *this).map(|part| part as *mut V) else { return Err(this) };
        Ok(OwnedMappedMutexGuard { mutex: this.into_mutex(), part })
    }

    /// Returns the mutex, still locked.
    fn into_mutex(self) -> Arc<Mutex<T>> {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is neither used again nor dropped.
        unsafe { std::ptr::read(&this.mutex) }
    }
}

impl<T: ?Sized, U: ?Sized> Drop for OwnedMappedMutexGuard<T, U> {
    fn drop(&mut self) {
        self.mutex.unlock();
    }
}

impl<T: ?Sized, U: ?Sized> Deref for OwnedMappedMutexGuard<T, U> {
    type Target = U;

    fn deref(&self) -> &U {
        // SAFETY: the guard holds the permit, so the part is in place and ours. The borrow of the guard
        // excludes writes through it.
        unsafe { &*self.part }
    }
}

impl<T: ?Sized, U: ?Sized> DerefMut for OwnedMappedMutexGuard<T, U> {
    fn deref_mut(&mut self) -> &mut U {
        // SAFETY: the guard holds the permit, so the part is in place and ours. The guard is borrowed
        // mutably.
        unsafe { &mut *self.part }
    }
}

print_as_data!(OwnedMutexGuard<T>, T);

impl<T: ?Sized, U: ?Sized + fmt::Debug> fmt::Debug for OwnedMappedMutexGuard<T, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized, U: ?Sized + fmt::Display> fmt::Display for OwnedMappedMutexGuard<T, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
