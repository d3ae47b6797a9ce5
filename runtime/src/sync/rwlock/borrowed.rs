//! Guards that borrow their [`RwLock`](super::RwLock).

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

use crate::sync::mutex::print_as_data;
use crate::sync::permits::Permits;

/// The hold of a reader: one permit. The drop gives it back.
pub(super) struct Share<'a>(&'a Permits);

impl<'a> Share<'a> {
    /// Makes the hold of a caller that has taken one permit.
    #[inline]
    pub(super) fn of_taken(permits: &'a Permits) -> Self {
        Self(permits)
    }
}

impl Drop for Share<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.give(1);
    }
}

/// The hold of a writer: all permits. The drop gives them back.
pub(super) struct Whole<'a> {
    permits: &'a Permits,
    count: u32,
}

impl<'a> Whole<'a> {
    /// Makes the hold of a caller that has taken all `count` permits.
    #[inline]
    pub(super) fn of_taken(permits: &'a Permits, count: u32) -> Self {
        Self { permits, count }
    }

    /// Gives back all permits but one.
    fn downgrade(self) -> Share<'a> {
        let this = ManuallyDrop::new(self);
        // Made first, because a waker that panics must not keep the last permit.
        let share = Share(this.permits);
        this.permits.give(this.count as usize - 1);
        share
    }
}

impl Drop for Whole<'_> {
    #[inline]
    fn drop(&mut self) {
        self.permits.give(self.count as usize);
    }
}

/// Read access to the data of an [`RwLock`](super::RwLock), or to a part of it. Dropping it unlocks.
#[must_use = "the lock is unlocked when its guard is dropped"]
#[clippy::has_significant_drop]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    share: Share<'a>,
    /// Points into the lock's data, which no task writes while there is a share.
    data: *const T,
    _data: PhantomData<&'a T>,
}

/// Write access to the data of an [`RwLock`](super::RwLock). Dropping it unlocks.
#[must_use = "the lock is unlocked when its guard is dropped"]
#[clippy::has_significant_drop]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    whole: Whole<'a>,
    /// The lock's data, which no other task reads or writes while one task holds the whole.
    data: *mut T,
    _data: PhantomData<&'a mut T>,
}

/// Write access to a part of an [`RwLock`](super::RwLock)'s data. Dropping it unlocks.
#[must_use = "the lock is unlocked when its guard is dropped"]
#[clippy::has_significant_drop]
pub struct RwLockMappedWriteGuard<'a, T: ?Sized> {
    whole: Whole<'a>,
    /// Points into the lock's data, which no other task reads or writes while one task holds the whole.
    data: *mut T,
    _data: PhantomData<&'a mut T>,
}

// SAFETY: the pointer stands for a `&T`, and permits may be given back from any thread.
unsafe impl<T: ?Sized + Sync> Send for RwLockReadGuard<'_, T> {}
// SAFETY: a shared guard gives out `&T`. Tokio asks for `Send`, too.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLockReadGuard<'_, T> {}
// SAFETY: the pointer stands for a `&mut T`, which becomes a `&T` when the guard is downgraded.
unsafe impl<T: ?Sized + Send + Sync> Send for RwLockWriteGuard<'_, T> {}
// SAFETY: a shared guard gives out `&T`.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLockWriteGuard<'_, T> {}
// SAFETY: the pointer stands for a `&mut T`.
unsafe impl<T: ?Sized + Send + Sync> Send for RwLockMappedWriteGuard<'_, T> {}
// SAFETY: a shared guard gives out `&T`.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLockMappedWriteGuard<'_, T> {}

impl<'a, T: ?Sized> RwLockReadGuard<'a, T> {
    /// Makes the guard of the holder of a `share`. `data` is in the lock of that share.
    #[inline]
    pub(super) fn of_holder(share: Share<'a>, data: *const T) -> Self {
        Self { share, data, _data: PhantomData }
    }

    /// Narrows the guard to a part of the data. This is an associated function: `RwLockReadGuard::map(guard,
    /// …)`.
    ///
    /// # Examples
    /// ```
    /// use runtime::sync::{RwLock, RwLockReadGuard};
    ///
    /// let lock = RwLock::new((1, "one"));
    /// let name = RwLockReadGuard::map(lock.try_read().unwrap(), |pair| &pair.1);
    /// assert_eq!(*name, "one");
    /// ```
    pub fn map<F, U: ?Sized>(this: Self, f: F) -> RwLockReadGuard<'a, U>
    where
        F: FnOnce(&T) -> &U,
    {
        let part: *const U = f(&*this);
        RwLockReadGuard::of_holder(this.share, part)
    }

    /// Narrows the guard as [`map`](Self::map) does if `f` finds the part, and otherwise returns the guard.
    ///
    /// # Errors
    /// The guard itself, if `f` returns `None`.
    ///
    /// # Examples
    /// ```
    /// use runtime::sync::{RwLock, RwLockReadGuard};
    ///
    /// let lock = RwLock::new(vec![1, 2]);
    /// assert!(RwLockReadGuard::try_map(lock.try_read().unwrap(), |list| list.get(2)).is_err());
    /// ```
    pub fn try_map<F, U: ?Sized>(this: Self, f: F) -> Result<RwLockReadGuard<'a, U>, Self>
    where
        F: FnOnce(&T) -> Option<&U>,
    {
        match f(&*this).map(|part| part as *const U) {
            Some(part) => Ok(RwLockReadGuard::of_holder(this.share, part)),
            None => Err(this),
        }
    }
}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// Makes the guard of the holder of the `whole` of the lock. Its data is at `data`.
    #[inline]
    pub(super) fn of_holder(whole: Whole<'a>, data: *mut T) -> Self {
        Self { whole, data, _data: PhantomData }
    }

    /// Narrows the guard to a part of the data. This is an associated function: `RwLockWriteGuard::map(guard,
    /// …)`.
    ///
    /// # Examples
    /// ```
    /// use runtime::sync::{RwLock, RwLockWriteGuard};
    ///
    /// let lock = RwLock::new((1, "one"));
    /// *RwLockWriteGuard::map(lock.try_write().unwrap(), |pair| &mut pair.0) = 2;
    /// assert_eq!(lock.into_inner(), (2, "one"));
    /// ```
    pub fn map<F, U: ?Sized>(mut this: Self, f: F) -> RwLockMappedWriteGuard<'a, U>
    where
        F: FnOnce(&mut T) -> &mut U,
    {
        let part: *mut U = f(&mut *this);
        RwLockMappedWriteGuard { whole: this.whole, data: part, _data: PhantomData }
    }

    /// Narrows the guard as [`map`](Self::map) does if `f` finds the part, and otherwise returns the guard.
    ///
    /// # Errors
    /// The guard itself, if `f` returns `None`.
    ///
    /// # Examples
    /// ```
    /// use runtime::sync::{RwLock, RwLockWriteGuard};
    ///
    /// let lock = RwLock::new(vec![1, 2]);
    /// assert!(RwLockWriteGuard::try_map(lock.try_write().unwrap(), |list| list.get_mut(2)).is_err());
    /// ```
    pub fn try_map<F, U: ?Sized>(mut this: Self, f: F) -> Result<RwLockMappedWriteGuard<'a, U>, Self>
    where
        F: FnOnce(&mut T) -> Option<&mut U>,
    {
        match f(&mut *this).map(|part| part as *mut U) {
            Some(part) => Ok(RwLockMappedWriteGuard { whole: this.whole, data: part, _data: PhantomData }),
            None => Err(this),
        }
    }

    /// Turns the guard into a mapped guard of all data.
    ///
    /// # Examples
    /// ```
    /// use runtime::sync::{RwLock, RwLockMappedWriteGuard, RwLockWriteGuard};
    ///
    /// let lock = RwLock::new(1);
    /// let guard: RwLockMappedWriteGuard<'_, i32> = RwLockWriteGuard::into_mapped(lock.try_write().unwrap());
    /// # drop(guard);
    /// ```
    pub fn into_mapped(this: Self) -> RwLockMappedWriteGuard<'a, T> {
        RwLockMappedWriteGuard { whole: this.whole, data: this.data, _data: PhantomData }
    }

    /// Turns the guard into a read guard. Other readers may enter, and no writer comes in between.
    ///
    /// # Examples
    /// ```
    /// let lock = runtime::sync::RwLock::new(1);
    /// let mut writer = lock.try_write().unwrap();
    /// *writer += 1;
    /// let reader = writer.downgrade();
    /// assert_eq!(*reader + *lock.try_read().unwrap(), 4);
    /// ```
    pub fn downgrade(self) -> RwLockReadGuard<'a, T> {
        RwLockReadGuard::of_holder(self.whole.downgrade(), self.data)
    }

    /// Turns the guard into a read guard for a part of the data, as [`downgrade`](Self::downgrade) does for
    /// all data. This is an associated function: `RwLockWriteGuard::downgrade_map(guard, …)`.
    ///
    /// # Examples
    /// ```
    /// use runtime::sync::{RwLock, RwLockWriteGuard};
    ///
    /// let lock = RwLock::new((1, "one"));
    /// let name = RwLockWriteGuard::downgrade_map(lock.try_write().unwrap(), |pair| &pair.1);
    /// assert_eq!(*name, lock.try_read().unwrap().1);
    /// ```
    pub fn downgrade_map<F, U: ?Sized>(this: Self, f: F) -> RwLockReadGuard<'a, U>
    where
        F: FnOnce(&T) -> &U,
    {
        let part: *const U = f(&*this);
        RwLockReadGuard::of_holder(this.whole.downgrade(), part)
    }

    /// Turns the guard into a read guard as [`downgrade_map`](Self::downgrade_map) does if `f` finds the
    /// part, and otherwise returns the guard.
    ///
    /// # Errors
    /// The guard itself, still for writing, if `f` returns `None`.
    ///
    /// # Examples
    /// ```
    /// use runtime::sync::{RwLock, RwLockWriteGuard};
    ///
    /// let lock = RwLock::new(vec![1, 2]);
    /// let guard = RwLockWriteGuard::try_downgrade_map(lock.try_write().unwrap(), |list| list.get(2));
    /// guard.unwrap_err().push(3);
    /// ```
    pub fn try_downgrade_map<F, U: ?Sized>(this: Self, f: F) -> Result<RwLockReadGuard<'a, U>, Self>
    where
        F: FnOnce(&T) -> Option<&U>,
    {
        match f(&*this).map(|part| part as *const U) {
            Some(part) => Ok(RwLockReadGuard::of_holder(this.whole.downgrade(), part)),
            None => Err(this),
        }
    }
}

impl<'a, T: ?Sized> RwLockMappedWriteGuard<'a, T> {
    /// Narrows the guard further. This is an associated function: `RwLockMappedWriteGuard::map(guard, …)`.
    ///
    /// # Examples
    /// ```
    /// use runtime::sync::{RwLock, RwLockMappedWriteGuard, RwLockWriteGuard};
    ///
    /// let lock = RwLock::new(((1, 2), 3));
    /// let pair = RwLockWriteGuard::map(lock.try_write().unwrap(), |data| &mut data.0);
    /// assert_eq!(*RwLockMappedWriteGuard::map(pair, |pair| &mut pair.1), 2);
    /// ```
    pub fn map<F, U: ?Sized>(mut this: Self, f: F) -> RwLockMappedWriteGuard<'a, U>
    where
        F: FnOnce(&mut T) -> &mut U,
    {
        let part: *mut U = f(&mut *this);
        RwLockMappedWriteGuard { whole: this.whole, data: part, _data: PhantomData }
    }

    /// Narrows the guard as [`map`](Self::map) does if `f` finds the part, and otherwise returns the guard.
    ///
    /// # Errors
    /// The guard itself, if `f` returns `None`.
    ///
    /// # Examples
    /// ```
    /// use runtime::sync::{RwLock, RwLockMappedWriteGuard, RwLockWriteGuard};
    ///
    /// let lock = RwLock::new((vec![1], 2));
    /// let list = RwLockWriteGuard::map(lock.try_write().unwrap(), |data| &mut data.0);
    /// assert!(RwLockMappedWriteGuard::try_map(list, |list| list.get_mut(1)).is_err());
    /// ```
    pub fn try_map<F, U: ?Sized>(mut this: Self, f: F) -> Result<RwLockMappedWriteGuard<'a, U>, Self>
    where
        F: FnOnce(&mut T) -> Option<&mut U>,
    {
        match f(&mut *this).map(|part| part as *mut U) {
            Some(part) => Ok(RwLockMappedWriteGuard { whole: this.whole, data: part, _data: PhantomData }),
            None => Err(this),
        }
    }
}

/// Implements the access through a guard.
macro_rules! access_data {
    ($guard:ty) => {
        impl<T: ?Sized> Deref for $guard {
            type Target = T;

            #[inline]
            fn deref(&self) -> &T {
                // SAFETY: the guard holds the permits that it needs to read. The borrow of the guard excludes
                // writes through it.
                unsafe { &*self.data }
            }
        }
    };
    (mut $guard:ty) => {
        access_data!($guard);

        impl<T: ?Sized> DerefMut for $guard {
            #[inline]
            fn deref_mut(&mut self) -> &mut T {
                // SAFETY: the guard holds the whole, and is borrowed mutably.
                unsafe { &mut *self.data }
            }
        }
    };
}

access_data!(RwLockReadGuard<'_, T>);
access_data!(mut RwLockWriteGuard<'_, T>);
access_data!(mut RwLockMappedWriteGuard<'_, T>);

print_as_data!(RwLockReadGuard<'_, T>, T);
print_as_data!(RwLockWriteGuard<'_, T>, T);
print_as_data!(RwLockMappedWriteGuard<'_, T>, T);
