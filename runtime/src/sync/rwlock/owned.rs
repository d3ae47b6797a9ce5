//! Guards of an [`RwLock`] that keep it alive, for tasks and structs that cannot borrow the lock.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::Arc;

use super::lock::RwLock;
use crate::sync::mutex::TryLockError;

/// Locking with guards that keep the lock alive.
impl<T: ?Sized> RwLock<T> {
    /// Locks for reading as [`read`](Self::read) does, with a guard that keeps the lock alive.
    ///
    /// # Cancel safety
    /// As [`read`](Self::read).
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let lock = std::sync::Arc::new(runtime::sync::RwLock::new(1));
    /// let reader = lock.clone().read_owned().await;
    /// runtime::spawn(async move { assert_eq!(*reader, 1) }).await.unwrap();
    /// # });
    /// ```
    pub async fn read_owned(self: Arc<Self>) -> OwnedRwLockReadGuard<T> {
        self.take(1).await;
        OwnedRwLockReadGuard::of_holder(OwnedShare::of_taken(self))
    }

    /// Locks for reading as [`try_read`](Self::try_read) does, with a guard that keeps the lock alive.
    ///
    /// # Errors
    /// As [`try_read`](Self::try_read).
    ///
    /// # Examples
    /// ```
    /// let lock = std::sync::Arc::new(runtime::sync::RwLock::new(1));
    /// assert_eq!(*lock.try_read_owned().unwrap(), 1);
    /// ```
    pub fn try_read_owned(self: Arc<Self>) -> Result<OwnedRwLockReadGuard<T>, TryLockError> {
        self.try_take(1)?;
        Ok(OwnedRwLockReadGuard::of_holder(OwnedShare::of_taken(self)))
    }

    /// Locks for writing as [`write`](Self::write) does, with a guard that keeps the lock alive.
    ///
    /// # Cancel safety
    /// As [`write`](Self::write).
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let lock = std::sync::Arc::new(runtime::sync::RwLock::new(1));
    /// let mut writer = lock.clone().write_owned().await;
    /// runtime::spawn(async move { *writer += 1 }).await.unwrap();
    /// assert_eq!(*lock.read().await, 2);
    /// # });
    /// ```
    pub async fn write_owned(self: Arc<Self>) -> OwnedRwLockWriteGuard<T> {
        self.take(self.max_readers).await;
        OwnedRwLockWriteGuard::of_holder(OwnedWhole::of_taken(self))
    }

    /// Locks for writing as [`try_write`](Self::try_write) does, with a guard that keeps the lock alive.
    ///
    /// # Errors
    /// As [`try_write`](Self::try_write).
    ///
    /// # Examples
    /// ```
    /// let lock = std::sync::Arc::new(runtime::sync::RwLock::new(1));
    /// *lock.clone().try_write_owned().unwrap() += 1;
    /// assert_eq!(*lock.try_read().unwrap(), 2);
    /// ```
    pub fn try_write_owned(self: Arc<Self>) -> Result<OwnedRwLockWriteGuard<T>, TryLockError> {
        self.try_take(self.max_readers)?;
        Ok(OwnedRwLockWriteGuard::of_holder(OwnedWhole::of_taken(self)))
    }
}

/// The hold of a reader: one permit. The drop gives it back.
struct OwnedShare<T: ?Sized>(Arc<RwLock<T>>);

impl<T: ?Sized> OwnedShare<T> {
    /// Makes the hold of a caller that has taken one permit.
    fn of_taken(lock: Arc<RwLock<T>>) -> Self {
        Self(lock)
    }
}

impl<T: ?Sized> Drop for OwnedShare<T> {
    fn drop(&mut self) {
        self.0.permits.give(1);
    }
}

/// The hold of a writer: all permits. The drop gives them back.
struct OwnedWhole<T: ?Sized>(Arc<RwLock<T>>);

impl<T: ?Sized> OwnedWhole<T> {
    /// Makes the hold of a caller that has taken all permits.
    fn of_taken(lock: Arc<RwLock<T>>) -> Self {
        Self(lock)
    }

    /// Gives back all permits but one.
    fn downgrade(self) -> OwnedShare<T> {
        let this = ManuallyDrop::new(self);
        // Made first, because a waker that panics must not keep the last permit.
        // SAFETY: `this` is neither used again nor dropped.
        let share = OwnedShare(unsafe { ptr::read(&this.0) });
        share.0.permits.give(share.0.max_readers as usize - 1);
        share
    }
}

impl<T: ?Sized> Drop for OwnedWhole<T> {
    fn drop(&mut self) {
        self.0.permits.give(self.0.max_readers as usize);
    }
}

/// Read access to the data of an [`RwLock`], or to a part of it. It keeps the lock alive, and dropping it
/// unlocks.
#[must_use = "the lock is unlocked when its guard is dropped"]
#[clippy::has_significant_drop]
pub struct OwnedRwLockReadGuard<T: ?Sized, U: ?Sized = T> {
    share: OwnedShare<T>,
    /// Points into the lock's data, which no task writes while there is a share.
    data: *const U,
}

/// Write access to the data of an [`RwLock`]. It keeps the lock alive, and dropping it unlocks.
#[must_use = "the lock is unlocked when its guard is dropped"]
#[clippy::has_significant_drop]
pub struct OwnedRwLockWriteGuard<T: ?Sized> {
    whole: OwnedWhole<T>,
    /// The lock's data, which no other task reads or writes while one task holds the whole.
    data: *mut T,
}

/// Write access to a part of an [`RwLock`]'s data. It keeps the lock alive, and dropping it unlocks.
#[must_use = "the lock is unlocked when its guard is dropped"]
#[clippy::has_significant_drop]
pub struct OwnedRwLockMappedWriteGuard<T: ?Sized, U: ?Sized = T> {
    whole: OwnedWhole<T>,
    /// Points into the lock's data, which no other task reads or writes while one task holds the whole.
    data: *mut U,
}

// SAFETY: the pointer stands for a `&U`. The thread that drops the guard may drop the lock.
unsafe impl<T: ?Sized + Send + Sync, U: ?Sized + Sync> Send for OwnedRwLockReadGuard<T, U> {}
// SAFETY: a shared guard gives out `&U` and the lock. Tokio asks for `U: Send`, too.
unsafe impl<T: ?Sized + Send + Sync, U: ?Sized + Send + Sync> Sync for OwnedRwLockReadGuard<T, U> {}
// SAFETY: the pointer stands for a `&mut T`. The thread that drops the guard may drop the lock.
unsafe impl<T: ?Sized + Send + Sync> Send for OwnedRwLockWriteGuard<T> {}
// SAFETY: a shared guard gives out `&T` and the lock.
unsafe impl<T: ?Sized + Send + Sync> Sync for OwnedRwLockWriteGuard<T> {}
// SAFETY: the pointer stands for a `&mut U`. The thread that drops the guard may drop the lock.
unsafe impl<T: ?Sized + Send + Sync, U: ?Sized + Send + Sync> Send for OwnedRwLockMappedWriteGuard<T, U> {}
// SAFETY: a shared guard gives out `&U` and the lock.
unsafe impl<T: ?Sized + Send + Sync, U: ?Sized + Send + Sync> Sync for OwnedRwLockMappedWriteGuard<T, U> {}

impl<T: ?Sized> OwnedRwLockReadGuard<T> {
    /// Makes the guard of the holder of a `share`.
    fn of_holder(share: OwnedShare<T>) -> Self {
        let data = share.0.data.get();
        Self { share, data }
    }
}

impl<T: ?Sized, U: ?Sized> OwnedRwLockReadGuard<T, U> {
    /// Narrows the guard to a part of the data. This is an associated function:
    /// `OwnedRwLockReadGuard::map(guard, …)`.
    ///
    /// # Examples
    /// ```
    /// use runtime::sync::{OwnedRwLockReadGuard, RwLock};
    ///
    /// let guard = std::sync::Arc::new(RwLock::new((1, "one"))).try_read_owned().unwrap();
    /// assert_eq!(*OwnedRwLockReadGuard::map(guard, |pair| &pair.1), "one");
    /// ```
    pub fn map<F, V: ?Sized>(this: Self, f: F) -> OwnedRwLockReadGuard<T, V>
    where
        F: FnOnce(&U) -> &V,
    {
        let part: *const V = f(&*this);
        OwnedRwLockReadGuard { share: this.share, data: part }
    }

    /// Narrows the guard as [`map`](Self::map) does if `f` finds the part, and otherwise returns the guard.
    ///
    /// # Errors
    /// The guard itself, if `f` returns `None`.
    ///
    /// # Examples
    /// ```
    /// use runtime::sync::{OwnedRwLockReadGuard, RwLock};
    ///
    /// let guard = std::sync::Arc::new(RwLock::new(vec![1, 2])).try_read_owned().unwrap();
    /// assert!(OwnedRwLockReadGuard::try_map(guard, |list| list.get(2)).is_err());
    /// ```
    pub fn try_map<F, V: ?Sized>(this: Self, f: F) -> Result<OwnedRwLockReadGuard<T, V>, Self>
    where
        F: FnOnce(&U) -> Option<&V>,
    {
        match f(&*this).map(|part| part as *const V) {
            Some(part) => Ok(OwnedRwLockReadGuard { share: this.share, data: part }),
            None => Err(this),
        }
    }

    /// Returns the lock that `this` holds.
    ///
    /// # Examples
    /// ```
    /// use runtime::sync::{OwnedRwLockReadGuard, RwLock};
    ///
    /// let guard = std::sync::Arc::new(RwLock::new(1)).try_read_owned().unwrap();
    /// assert!(OwnedRwLockReadGuard::rwlock(&guard).try_write().is_err());
    /// ```
    pub fn rwlock(this: &Self) -> &Arc<RwLock<T>> {
        &this.share.0
    }
}

impl<T: ?Sized> OwnedRwLockWriteGuard<T> {
    /// Makes the guard of the holder of the `whole`.
    fn of_holder(whole: OwnedWhole<T>) -> Self {
        let data = whole.0.data.get();
        Self { whole, data }
    }

    /// Narrows the guard to a part of the data. This is an associated function:
    /// `OwnedRwLockWriteGuard::map(guard, …)`.
    ///
    /// # Examples
    /// ```
    /// use runtime::sync::{OwnedRwLockWriteGuard, RwLock};
    ///
    /// let guard = std::sync::Arc::new(RwLock::new((1, "one"))).try_write_owned().unwrap();
    /// *OwnedRwLockWriteGuard::map(guard, |pair| &mut pair.0) = 2;
    /// ```
    pub fn map<F, U: ?Sized>(mut this: Self, f: F) -> OwnedRwLockMappedWriteGuard<T, U>
    where
        F: FnOnce(&mut T) -> &mut U,
    {
        let part: *mut U = f(&mut *this);
        OwnedRwLockMappedWriteGuard { whole: this.whole, data: part }
    }

    /// Narrows the guard as [`map`](Self::map) does if `f` finds the part, and otherwise returns the guard.
    ///
    /// # Errors
    /// The guard itself, if `f` returns `None`.
    ///
    /// # Examples
    /// ```
    /// use runtime::sync::{OwnedRwLockWriteGuard, RwLock};
    ///
    /// let guard = std::sync::Arc::new(RwLock::new(vec![1, 2])).try_write_owned().unwrap();
    /// assert!(OwnedRwLockWriteGuard::try_map(guard, |list| list.get_mut(2)).is_err());
    /// ```
    pub fn try_map<F, U: ?Sized>(mut this: Self, f: F) -> Result<OwnedRwLockMappedWriteGuard<T, U>, Self>
    where
        F: FnOnce(&mut T) -> Option<&mut U>,
    {
        match f(&mut *this).map(|part| part as *mut U) {
            Some(part) => Ok(OwnedRwLockMappedWriteGuard { whole: this.whole, data: part }),
            None => Err(this),
        }
    }

    /// Turns the guard into a mapped guard of all data.
    ///
    /// # Examples
    /// ```
    /// use runtime::sync::{OwnedRwLockMappedWriteGuard, OwnedRwLockWriteGuard, RwLock};
    ///
    /// let guard = std::sync::Arc::new(RwLock::new(1)).try_write_owned().unwrap();
    /// let guard: OwnedRwLockMappedWriteGuard<i32> = OwnedRwLockWriteGuard::into_mapped(guard);
    /// # drop(guard);
    /// ```
    pub fn into_mapped(this: Self) -> OwnedRwLockMappedWriteGuard<T> {
        OwnedRwLockMappedWriteGuard { whole: this.whole, data: this.data }
    }

    /// Turns the guard into a read guard. Other readers may enter, and no writer comes in between.
    ///
    /// # Examples
    /// ```
    /// let lock = std::sync::Arc::new(runtime::sync::RwLock::new(1));
    /// let reader = lock.clone().try_write_owned().unwrap().downgrade();
    /// assert_eq!(*reader, *lock.try_read().unwrap());
    /// ```
    pub fn downgrade(self) -> OwnedRwLockReadGuard<T> {
        OwnedRwLockReadGuard { share: self.whole.downgrade(), data: self.data }
    }

    /// Turns the guard into a read guard for a part of the data, as [`downgrade`](Self::downgrade) does for
    /// all data. This is an associated function: `OwnedRwLockWriteGuard::downgrade_map(guard, …)`.
    ///
    /// # Examples
    /// ```
    /// use runtime::sync::{OwnedRwLockWriteGuard, RwLock};
    ///
    /// let guard = std::sync::Arc::new(RwLock::new((1, "one"))).try_write_owned().unwrap();
    /// assert_eq!(*OwnedRwLockWriteGuard::downgrade_map(guard, |pair| &pair.1), "one");
    /// ```
    pub fn downgrade_map<F, U: ?Sized>(this: Self, f: F) -> OwnedRwLockReadGuard<T, U>
    where
        F: FnOnce(&T) -> &U,
    {
        let part: *const U = f(&*this);
        OwnedRwLockReadGuard { share: this.whole.downgrade(), data: part }
    }

    /// Turns the guard into a read guard as [`downgrade_map`](Self::downgrade_map) does if `f` finds the
    /// part, and otherwise returns the guard.
    ///
    /// # Errors
    /// The guard itself, still for writing, if `f` returns `None`.
    ///
    /// # Examples
    /// ```
    /// use runtime::sync::{OwnedRwLockWriteGuard, RwLock};
    ///
    /// let guard = std::sync::Arc::new(RwLock::new(vec![1, 2])).try_write_owned().unwrap();
    /// let guard = OwnedRwLockWriteGuard::try_downgrade_map(guard, |list| list.get(2));
    /// guard.unwrap_err().push(3);
    /// ```
    pub fn try_downgrade_map<F, U: ?Sized>(this: Self, f: F) -> Result<OwnedRwLockReadGuard<T, U>, Self>
    where
        F: FnOnce(&T) -> Option<&U>,
    {
        match f(&*this).map(|part| part as *const U) {
            Some(part) => Ok(OwnedRwLockReadGuard { share: this.whole.downgrade(), data: part }),
            None => Err(this),
        }
    }

    /// Returns the lock that `this` holds.
    ///
    /// # Examples
    /// ```
    /// use runtime::sync::{OwnedRwLockWriteGuard, RwLock};
    ///
    /// let guard = std::sync::Arc::new(RwLock::new(1)).try_write_owned().unwrap();
    /// assert!(OwnedRwLockWriteGuard::rwlock(&guard).try_read().is_err());
    /// ```
    pub fn rwlock(this: &Self) -> &Arc<RwLock<T>> {
        &this.whole.0
    }
}

impl<T: ?Sized, U: ?Sized> OwnedRwLockMappedWriteGuard<T, U> {
    /// Narrows the guard further. This is an associated function: `OwnedRwLockMappedWriteGuard::map(guard,
    /// …)`.
    ///
    /// # Examples
    /// ```
    /// use runtime::sync::{OwnedRwLockMappedWriteGuard, OwnedRwLockWriteGuard, RwLock};
    ///
    /// let guard = std::sync::Arc::new(RwLock::new(((1, 2), 3))).try_write_owned().unwrap();
    /// let pair = OwnedRwLockWriteGuard::map(guard, |data| &mut data.0);
    /// assert_eq!(*OwnedRwLockMappedWriteGuard::map(pair, |pair| &mut pair.1), 2);
    /// ```
    pub fn map<F, V: ?Sized>(mut this: Self, f: F) -> OwnedRwLockMappedWriteGuard<T, V>
    where
        F: FnOnce(&mut U) -> &mut V,
    {
        let part: *mut V = f(&mut *this);
        OwnedRwLockMappedWriteGuard { whole: this.whole, data: part }
    }

    /// Narrows the guard as [`map`](Self::map) does if `f` finds the part, and otherwise returns the guard.
    ///
    /// # Errors
    /// The guard itself, if `f` returns `None`.
    ///
    /// # Examples
    /// ```
    /// use runtime::sync::{OwnedRwLockMappedWriteGuard, OwnedRwLockWriteGuard, RwLock};
    ///
    /// let guard = std::sync::Arc::new(RwLock::new((vec![1], 2))).try_write_owned().unwrap();
    /// let list = OwnedRwLockWriteGuard::map(guard, |data| &mut data.0);
    /// assert!(OwnedRwLockMappedWriteGuard::try_map(list, |list| list.get_mut(1)).is_err());
    /// ```
    pub fn try_map<F, V: ?Sized>(mut this: Self, f: F) -> Result<OwnedRwLockMappedWriteGuard<T, V>, Self>
    where
        F: FnOnce(&mut U) -> Option<&mut V>,
    {
        match f(&mut *this).map(|part| part as *mut V) {
            Some(part) => Ok(OwnedRwLockMappedWriteGuard { whole: this.whole, data: part }),
            None => Err(this),
        }
    }

    /// Returns the lock that `this` holds.
    ///
    /// # Examples
    /// ```
    /// use runtime::sync::{OwnedRwLockMappedWriteGuard, OwnedRwLockWriteGuard, RwLock};
    ///
    /// let guard = std::sync::Arc::new(RwLock::new(1)).try_write_owned().unwrap();
    /// let guard = OwnedRwLockWriteGuard::into_mapped(guard);
    /// assert!(OwnedRwLockMappedWriteGuard::rwlock(&guard).try_read().is_err());
    /// ```
    pub fn rwlock(this: &Self) -> &Arc<RwLock<T>> {
        &this.whole.0
    }
}

/// Implements the access through a guard of `$generics` to data of type `$data`.
macro_rules! access_data {
    ($guard:ty, $data:ident, $($generics:ident),+) => {
        impl<$($generics: ?Sized),+> Deref for $guard {
            type Target = $data;

            fn deref(&self) -> &$data {
                // SAFETY: the guard holds the permits that it needs to read. The borrow of the guard excludes
                // writes through it.
                unsafe { &*self.data }
            }
        }

        impl<$($generics: ?Sized),+> fmt::Debug for $guard
        where
            $data: fmt::Debug,
        {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }

        impl<$($generics: ?Sized),+> fmt::Display for $guard
        where
            $data: fmt::Display,
        {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }
    };
    (mut $guard:ty, $data:ident, $($generics:ident),+) => {
        access_data!($guard, $data, $($generics),+);

        impl<$($generics: ?Sized),+> DerefMut for $guard {
            fn deref_mut(&mut self) -> &mut $data {
                // SAFETY: the guard holds the whole, and is borrowed mutably.
                unsafe { &mut *self.data }
            }
        }
    };
}

access_data!(OwnedRwLockReadGuard<T, U>, U, T, U);
access_data!(mut OwnedRwLockWriteGuard<T>, T, T);
access_data!(mut OwnedRwLockMappedWriteGuard<T, U>, U, T, U);
