//! Guards of a [`Semaphore`] that keep it alive, for tasks and structs that cannot borrow the semaphore.

use std::sync::Arc;

#[cfg(doc)]
use super::semaphore::SemaphorePermit;
use super::semaphore::{AcquireError, Semaphore, TryAcquireError, merged};
use crate::util::block_on::{assert_may_block, block_on};

/// Permits of a [`Semaphore`], as [`SemaphorePermit`]. It keeps the semaphore alive instead of
/// borrowing it.
#[must_use]
#[clippy::has_significant_drop]
#[derive(Debug)]
pub struct OwnedSemaphorePermit {
    semaphore: Arc<Semaphore>,
    permits: usize,
}

/// Acquiring with guards that keep the semaphore alive.
impl Semaphore {
    /// Waits for a permit, and returns a guard that keeps the semaphore alive.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let semaphore = std::sync::Arc::new(runtime::sync::Semaphore::new(1));
    /// let permit = semaphore.clone().acquire_owned().await.unwrap();
    /// runtime::spawn(async move { drop(permit) }).await.unwrap();
    /// assert_eq!(semaphore.available_permits(), 1);
    /// # });
    /// ```
    pub async fn acquire_owned(self: Arc<Self>) -> Result<OwnedSemaphorePermit, AcquireError> {
        self.acquire_many_owned(1).await
    }

    /// Waits for `n` permits, and returns a guard that keeps the semaphore alive.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let semaphore = std::sync::Arc::new(runtime::sync::Semaphore::new(3));
    /// let permit = semaphore.acquire_many_owned(2).await.unwrap();
    /// assert_eq!(permit.num_permits(), 2);
    /// # });
    /// ```
    pub async fn acquire_many_owned(self: Arc<Self>, n: u32) -> Result<OwnedSemaphorePermit, AcquireError> {
        self.permits.take(n as usize).await?;
        Ok(OwnedSemaphorePermit { semaphore: self, permits: n as usize })
    }

    /// Takes a permit as [`try_acquire`](Self::try_acquire) does, with a guard that keeps the semaphore
    /// alive.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire).
    ///
    /// # Examples
    /// ```
    /// let semaphore = std::sync::Arc::new(runtime::sync::Semaphore::new(1));
    /// let permit = semaphore.try_acquire_owned().unwrap();
    /// # drop(permit);
    /// ```
    pub fn try_acquire_owned(self: Arc<Self>) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        self.try_acquire_many_owned(1)
    }

    /// Takes permits as [`try_acquire_many`](Self::try_acquire_many) does, with a guard that keeps the
    /// semaphore alive.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire).
    ///
    /// # Examples
    /// ```
    /// let semaphore = std::sync::Arc::new(runtime::sync::Semaphore::new(2));
    /// let permit = semaphore.try_acquire_many_owned(2).unwrap();
    /// # drop(permit);
    /// ```
    pub fn try_acquire_many_owned(self: Arc<Self>, n: u32) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        self.permits.try_take(n as usize)?;
        Ok(OwnedSemaphorePermit { semaphore: self, permits: n as usize })
    }

    /// Blocks as [`blocking_acquire`](Self::blocking_acquire) does, and returns a guard that keeps the
    /// semaphore alive.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Panics
    /// Directly inside a task. Use [`acquire_owned`](Self::acquire_owned) there.
    ///
    /// # Examples
    /// ```
    /// let semaphore = std::sync::Arc::new(runtime::sync::Semaphore::new(1));
    /// let permit = semaphore.blocking_acquire_owned().unwrap();
    /// # drop(permit);
    /// ```
    #[track_caller]
    pub fn blocking_acquire_owned(self: Arc<Self>) -> Result<OwnedSemaphorePermit, AcquireError> {
        assert_may_block("blocking_acquire_owned", "acquire_owned().await");
        block_on(self.acquire_owned())
    }

    /// Blocks as [`blocking_acquire_many`](Self::blocking_acquire_many) does, and returns a guard that keeps
    /// the semaphore alive.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Panics
    /// Directly inside a task. Use [`acquire_many_owned`](Self::acquire_many_owned) there.
    ///
    /// # Examples
    /// ```
    /// let semaphore = std::sync::Arc::new(runtime::sync::Semaphore::new(2));
    /// let permit = semaphore.blocking_acquire_many_owned(2).unwrap();
    /// # drop(permit);
    /// ```
    #[track_caller]
    pub fn blocking_acquire_many_owned(
        self: Arc<Self>,
        n: u32,
    ) -> Result<OwnedSemaphorePermit, AcquireError> {
        assert_may_block("blocking_acquire_many_owned", "acquire_many_owned().await");
        block_on(self.acquire_many_owned(n))
    }
}

impl OwnedSemaphorePermit {
    /// Drops the guard without giving its permits back. The semaphore has fewer permits from now on.
    ///
    /// # Examples
    /// ```
    /// let semaphore = std::sync::Arc::new(runtime::sync::Semaphore::new(2));
    /// semaphore.clone().try_acquire_owned().unwrap().forget();
    /// assert_eq!(semaphore.available_permits(), 1);
    /// ```
    pub fn forget(mut self) {
        self.permits = 0;
    }

    /// Takes over the permits of `other`.
    ///
    /// # Panics
    /// If `other` is a permit of another semaphore, or if both together are more than
    /// [`Semaphore::MAX_PERMITS`].
    ///
    /// # Examples
    /// ```
    /// let semaphore = std::sync::Arc::new(runtime::sync::Semaphore::new(2));
    /// let mut permit = semaphore.clone().try_acquire_owned().unwrap();
    /// permit.merge(semaphore.try_acquire_owned().unwrap());
    /// assert_eq!(permit.num_permits(), 2);
    /// ```
    #[track_caller]
    pub fn merge(&mut self, mut other: Self) {
        assert!(
            Arc::ptr_eq(&self.semaphore, &other.semaphore),
            "permits of two semaphores cannot be merged: keep them apart"
        );
        self.permits = merged(self.permits, other.permits);
        other.permits = 0;
    }

    /// Splits `n` permits off. Returns `None` if the guard holds fewer than `n`.
    ///
    /// # Examples
    /// ```
    /// let semaphore = std::sync::Arc::new(runtime::sync::Semaphore::new(3));
    /// let mut permit = semaphore.try_acquire_many_owned(3).unwrap();
    /// assert!(permit.split(4).is_none());
    /// ```
    pub fn split(&mut self, n: usize) -> Option<Self> {
        self.permits = self.permits.checked_sub(n)?;
        Some(Self { semaphore: self.semaphore.clone(), permits: n })
    }

    /// Returns the semaphore that the permits belong to.
    ///
    /// # Examples
    /// ```
    /// let semaphore = std::sync::Arc::new(runtime::sync::Semaphore::new(1));
    /// assert!(!semaphore.try_acquire_owned().unwrap().semaphore().is_closed());
    /// ```
    pub fn semaphore(&self) -> &Arc<Semaphore> {
        &self.semaphore
    }

    /// Returns the number of permits that this guard holds.
    ///
    /// # Examples
    /// ```
    /// let semaphore = std::sync::Arc::new(runtime::sync::Semaphore::new(3));
    /// assert_eq!(semaphore.try_acquire_many_owned(2).unwrap().num_permits(), 2);
    /// ```
    pub fn num_permits(&self) -> usize {
        self.permits
    }
}

impl Drop for OwnedSemaphorePermit {
    fn drop(&mut self) {
        if self.permits > 0 {
            self.semaphore.permits.give(self.permits);
        }
    }
}
