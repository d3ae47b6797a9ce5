//! A counting semaphore for async code: the public face of [`permits`](super::permits), which holds the
//! protocol.
//!
//! `semaphore_owned.rs` has the guards that own an `Arc` of their semaphore, and the methods that make them.

use std::fmt;

use super::permits::{Closed, Permits, TakeError};
use crate::loom::const_fn;
use crate::util::block_on::{assert_may_block, block_on};

/// Limits how many tasks may do something at the same time.
///
/// A semaphore holds permits. [`acquire`](Self::acquire) waits for a permit and hands it out as a guard.
/// Dropping the guard gives the permit back.
///
/// The wait list is fair: the first request is served first. Later requests for few permits do not overtake a
/// request for many, even if they could be served at once. Free permits are never reserved piece by piece:
/// [`available_permits`](Self::available_permits) counts them until the first waiter can have all it needs.
/// (Tokio's counts them as taken.)
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use runtime::sync::Semaphore;
///
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let at_most_two = Arc::new(Semaphore::new(2));
/// let mut handles = Vec::new();
/// for n in 0..8 {
///     let permit = at_most_two.clone().acquire_owned().await.unwrap();
///     handles.push(runtime::spawn(async move {
///         let _permit = permit;
///         n * n
///     }));
/// }
/// for handle in handles {
///     handle.await.unwrap();
/// }
/// # });
/// ```
#[derive(Debug)]
pub struct Semaphore {
    pub(super) permits: Permits,
}

/// Permits of a [`Semaphore`], mostly one. Dropping the guard gives them back.
#[must_use]
#[clippy::has_significant_drop]
#[derive(Debug)]
pub struct SemaphorePermit<'a> {
    semaphore: &'a Semaphore,
    permits: usize,
}

/// The error of [`Semaphore::acquire`]: the semaphore was closed.
#[derive(Debug)]
pub struct AcquireError(pub(super) ());

/// The error of [`Semaphore::try_acquire`].
#[derive(Debug, PartialEq, Eq)]
pub enum TryAcquireError {
    /// The semaphore was closed.
    Closed,
    /// Too few permits are free, or other tasks wait for them.
    NoPermits,
}

impl Semaphore {
    /// The largest number of permits that a semaphore can hold: 2⁶¹ - 1.
    ///
    /// If more come back, because permits were [added](Self::add_permits) while others were taken, this many
    /// are free.
    pub const MAX_PERMITS: usize = Permits::MAX;

    /// Creates a semaphore with `permits` free permits.
    ///
    /// # Panics
    /// If `permits` is above [`MAX_PERMITS`](Self::MAX_PERMITS).
    ///
    /// # Examples
    /// ```
    /// let semaphore = runtime::sync::Semaphore::new(3);
    /// assert_eq!(semaphore.available_permits(), 3);
    /// ```
    #[track_caller]
    pub fn new(permits: usize) -> Self {
        assert!(
            permits <= Self::MAX_PERMITS,
            "a semaphore holds at most {} permits, not {permits}",
            Self::MAX_PERMITS
        );
        Self { permits: Permits::new(permits) }
    }

    const_fn! {
        /// Creates a semaphore in a constant, for instance in a `static`.
        ///
        /// # Panics
        /// If `permits` is above [`MAX_PERMITS`](Self::MAX_PERMITS); in a constant that is a compile error.
        ///
        /// # Examples
        /// ```
        /// static CONNECTIONS: runtime::sync::Semaphore = runtime::sync::Semaphore::const_new(100);
        /// ```
        #[track_caller]
        pub const fn const_new(permits: usize) -> Self {
            assert!(permits <= Self::MAX_PERMITS, "a semaphore cannot hold more than `MAX_PERMITS`");
            Self { permits: Permits::new(permits) }
        }
    }

    /// Returns the number of permits that are free now.
    ///
    /// # Examples
    /// ```
    /// let semaphore = runtime::sync::Semaphore::new(3);
    /// let _permit = semaphore.try_acquire_many(2).unwrap();
    /// assert_eq!(semaphore.available_permits(), 1);
    /// ```
    pub fn available_permits(&self) -> usize {
        self.permits.free()
    }

    /// Adds `n` permits.
    ///
    /// # Panics
    /// If there would be more than [`MAX_PERMITS`](Self::MAX_PERMITS). Nothing is added then.
    ///
    /// # Examples
    /// ```
    /// let semaphore = runtime::sync::Semaphore::new(0);
    /// semaphore.add_permits(2);
    /// assert_eq!(semaphore.available_permits(), 2);
    /// ```
    pub fn add_permits(&self, n: usize) {
        self.permits.add(n);
    }

    /// Takes up to `n` free permits away for good, and returns how many.
    ///
    /// # Examples
    /// ```
    /// let semaphore = runtime::sync::Semaphore::new(3);
    /// assert_eq!(semaphore.forget_permits(5), 3);
    /// ```
    pub fn forget_permits(&self, n: usize) -> usize {
        self.permits.forget(n)
    }

    /// Waits for a permit.
    ///
    /// # Errors
    /// [`AcquireError`] if the semaphore is closed, also while waiting.
    ///
    /// # Cancel safety
    /// The future loses its place in the queue. A permit that it was granted meanwhile goes to the next task.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let semaphore = runtime::sync::Semaphore::new(1);
    /// let permit = semaphore.acquire().await.unwrap();
    /// assert_eq!(semaphore.available_permits(), 0);
    /// drop(permit);
    /// assert_eq!(semaphore.available_permits(), 1);
    /// # });
    /// ```
    pub async fn acquire(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.acquire_many(1).await
    }

    /// Waits until `n` permits are free, and takes them all at once.
    ///
    /// If the semaphore never has `n` free permits at once, it waits until the semaphore is closed. With 0 it
    /// does not wait for other requests.
    ///
    /// # Errors
    /// [`AcquireError`] if the semaphore is closed, also while waiting.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let semaphore = runtime::sync::Semaphore::new(5);
    /// let permit = semaphore.acquire_many(3).await.unwrap();
    /// assert_eq!(permit.num_permits(), 3);
    /// # });
    /// ```
    pub async fn acquire_many(&self, n: u32) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.permits.take(n as usize).await?;
        Ok(SemaphorePermit { semaphore: self, permits: n as usize })
    }

    /// Takes a permit if one is free and no task waits.
    ///
    /// # Errors
    /// [`TryAcquireError::Closed`] or [`TryAcquireError::NoPermits`].
    ///
    /// # Examples
    /// ```
    /// use runtime::sync::{Semaphore, TryAcquireError};
    ///
    /// let semaphore = Semaphore::new(1);
    /// let permit = semaphore.try_acquire().unwrap();
    /// assert_eq!(semaphore.try_acquire().unwrap_err(), TryAcquireError::NoPermits);
    /// # drop(permit);
    /// ```
    pub fn try_acquire(&self) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.try_acquire_many(1)
    }

    /// Takes `n` permits if so many are free and no task waits. With 0 it succeeds also if a task waits.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire).
    ///
    /// # Examples
    /// ```
    /// let semaphore = runtime::sync::Semaphore::new(4);
    /// assert!(semaphore.try_acquire_many(5).is_err());
    /// ```
    pub fn try_acquire_many(&self, n: u32) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.permits.try_take(n as usize)?;
        Ok(SemaphorePermit { semaphore: self, permits: n as usize })
    }

    /// Blocks the thread until there is a permit.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Panics
    /// Directly inside a task. Use [`acquire`](Self::acquire) there.
    ///
    /// # Examples
    /// ```
    /// let semaphore = runtime::sync::Semaphore::new(1);
    /// let permit = semaphore.blocking_acquire().unwrap();
    /// # drop(permit);
    /// ```
    #[track_caller]
    pub fn blocking_acquire(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        assert_may_block("blocking_acquire", "acquire().await");
        block_on(self.acquire())
    }

    /// Blocks the thread until there are `n` permits.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Panics
    /// Directly inside a task. Use [`acquire_many`](Self::acquire_many) there.
    ///
    /// # Examples
    /// ```
    /// let semaphore = runtime::sync::Semaphore::new(2);
    /// let permit = semaphore.blocking_acquire_many(2).unwrap();
    /// # drop(permit);
    /// ```
    #[track_caller]
    pub fn blocking_acquire_many(&self, n: u32) -> Result<SemaphorePermit<'_>, AcquireError> {
        assert_may_block("blocking_acquire_many", "acquire_many().await");
        block_on(self.acquire_many(n))
    }

    /// Closes the semaphore: waiting and later requests get an error. Permits that tasks hold stay valid.
    ///
    /// # Examples
    /// ```
    /// let semaphore = runtime::sync::Semaphore::new(1);
    /// semaphore.close();
    /// assert!(semaphore.try_acquire().is_err());
    /// ```
    pub fn close(&self) {
        self.permits.close();
    }

    /// Returns whether [`close`](Self::close) was called.
    ///
    /// # Examples
    /// ```
    /// let semaphore = runtime::sync::Semaphore::new(1);
    /// assert!(!semaphore.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.permits.is_closed()
    }
}

impl<'a> SemaphorePermit<'a> {
    /// Drops the guard without giving its permits back. The semaphore has fewer permits from now on.
    ///
    /// # Examples
    /// ```
    /// let semaphore = runtime::sync::Semaphore::new(2);
    /// semaphore.try_acquire().unwrap().forget();
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
    /// let semaphore = runtime::sync::Semaphore::new(2);
    /// let mut permit = semaphore.try_acquire().unwrap();
    /// permit.merge(semaphore.try_acquire().unwrap());
    /// assert_eq!(permit.num_permits(), 2);
    /// ```
    #[track_caller]
    pub fn merge(&mut self, mut other: Self) {
        assert!(
            std::ptr::eq(self.semaphore, other.semaphore),
            "permits of two semaphores cannot be merged: keep them apart"
        );
        self.permits = merged(self.permits, other.permits);
        other.permits = 0;
    }

    /// Splits `n` permits off. Returns `None` if the guard holds fewer than `n`.
    ///
    /// # Examples
    /// ```
    /// let semaphore = runtime::sync::Semaphore::new(3);
    /// let mut permit = semaphore.try_acquire_many(3).unwrap();
    /// let one = permit.split(1).unwrap();
    /// assert_eq!((one.num_permits(), permit.num_permits()), (1, 2));
    /// ```
    pub fn split(&mut self, n: usize) -> Option<Self> {
        self.permits = self.permits.checked_sub(n)?;
        Some(Self { semaphore: self.semaphore, permits: n })
    }

    /// Returns the semaphore that the permits belong to.
    ///
    /// # Examples
    /// ```
    /// let semaphore = runtime::sync::Semaphore::new(1);
    /// assert!(!semaphore.try_acquire().unwrap().semaphore().is_closed());
    /// ```
    pub fn semaphore(&self) -> &'a Semaphore {
        self.semaphore
    }

    /// Returns the number of permits that this guard holds.
    ///
    /// # Examples
    /// ```
    /// let semaphore = runtime::sync::Semaphore::new(3);
    /// assert_eq!(semaphore.try_acquire_many(2).unwrap().num_permits(), 2);
    /// ```
    pub fn num_permits(&self) -> usize {
        self.permits
    }
}

impl Drop for SemaphorePermit<'_> {
    fn drop(&mut self) {
        if self.permits > 0 {
            self.semaphore.permits.give(self.permits);
        }
    }
}

/// The number of permits of two guards that are merged. No guard holds more than the semaphore could.
#[track_caller]
pub(super) fn merged(permits: usize, others: usize) -> usize {
    let sum = permits.saturating_add(others);
    let max = Semaphore::MAX_PERMITS;
    assert!(sum <= max, "a permit cannot stand for more than {max} permits: keep the two apart");
    sum
}

impl From<Closed> for AcquireError {
    fn from(_: Closed) -> Self {
        Self(())
    }
}

impl From<TakeError> for TryAcquireError {
    fn from(error: TakeError) -> Self {
        match error {
            TakeError::Closed => Self::Closed,
            TakeError::TooFew => Self::NoPermits,
        }
    }
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("semaphore closed")
    }
}

impl std::error::Error for AcquireError {}

impl fmt::Display for TryAcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "semaphore closed",
            Self::NoPermits => "no permits available",
        })
    }
}

impl std::error::Error for TryAcquireError {}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// To acquire as many takes too long for a test.
    #[test]
    fn no_guard_holds_more_permits_than_a_semaphore() {
        let semaphore = Semaphore::new(0);
        let guard = |permits| SemaphorePermit { semaphore: &semaphore, permits };
        let mut first = guard(Semaphore::MAX_PERMITS - 1);
        first.merge(guard(1));
        let merge = std::panic::AssertUnwindSafe(|| first.merge(guard(3)));
        assert!(std::panic::catch_unwind(merge).is_err());
        assert_eq!((first.num_permits(), semaphore.available_permits()), (Semaphore::MAX_PERMITS, 3));
        drop(first);
        assert_eq!(semaphore.available_permits(), Semaphore::MAX_PERMITS);
    }
}
