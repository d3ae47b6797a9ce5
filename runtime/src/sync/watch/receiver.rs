//! The receiving side of a watch channel, and a reference to its value.

use std::fmt;
use std::ops::Deref;

use super::big_reader_lock::Reading;
use super::channel::{Changed, Channel, Closed, Version};
use super::error::RecvError;
use crate::coop::{self, cooperative};
use crate::loom::sync::Arc;

/// A receiving side of a watch channel. It reads the value, and waits until the value changes.
///
/// A clone has seen what the original has seen. Later each remembers for itself what it has seen.
pub struct Receiver<T> {
    channel: Arc<Channel<T>>,
    seen: Version,
}

impl<T> Receiver<T> {
    /// Makes a receiver that is counted already.
    pub(super) fn of_counted(channel: Arc<Channel<T>>, seen: Version) -> Self {
        Self { channel, seen }
    }

    pub(super) fn of(channel: Arc<Channel<T>>, seen: Version) -> Self {
        channel.add_receiver();
        Self::of_counted(channel, seen)
    }

    /// Reads the value in place, and does not mark it as seen. Blocks the thread while a sender replaces the
    /// value.
    ///
    /// # Panics
    /// If the calling thread is inside of a closure that changes the value.
    ///
    /// # Examples
    /// ```
    /// let (_tx, rx) = runtime::sync::watch::channel("hello");
    /// assert_eq!(*rx.borrow(), "hello");
    /// ```
    #[inline]
    #[track_caller]
    pub fn borrow(&self) -> Ref<'_, T> {
        let (reading, version) = self.channel.read();
        Ref::new(&self.channel, reading, version != self.seen)
    }

    /// Reads the value in place and marks it as seen. Blocks the thread while a sender replaces the value.
    ///
    /// # Panics
    /// As [`borrow`](Self::borrow).
    ///
    /// # Examples
    /// ```
    /// let (tx, mut rx) = runtime::sync::watch::channel(1);
    /// tx.send(2).unwrap();
    /// assert_eq!(*rx.borrow_and_update(), 2);
    /// assert!(!rx.has_changed().unwrap());
    /// ```
    #[inline]
    #[track_caller]
    pub fn borrow_and_update(&mut self) -> Ref<'_, T> {
        let (reading, version) = self.channel.read();
        let has_changed = version != self.seen;
        self.seen = version;
        Ref::new(&self.channel, reading, has_changed)
    }

    /// Returns whether there is a value that was not marked as seen. It does not compare values.
    ///
    /// # Errors
    /// [`RecvError`] if no sender is left, even if the last value was not seen.
    ///
    /// # Examples
    /// ```
    /// let (tx, rx) = runtime::sync::watch::channel(1);
    /// tx.send(1).unwrap();
    /// assert!(rx.has_changed().unwrap());
    /// drop(tx);
    /// assert!(rx.has_changed().is_err());
    /// ```
    pub fn has_changed(&self) -> Result<bool, RecvError> {
        self.channel.has_unseen(self.seen).map_err(RecvError::from)
    }

    /// Returns whether no sender is left.
    ///
    /// # Examples
    /// ```
    /// let (tx, rx) = runtime::sync::watch::channel(());
    /// assert!(!rx.is_closed());
    /// drop(tx);
    /// assert!(rx.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.channel.is_closed()
    }

    /// Marks the value as not seen, so that the next [`changed`](Self::changed) does not wait.
    ///
    /// # Examples
    /// ```
    /// let (_tx, mut rx) = runtime::sync::watch::channel(());
    /// rx.mark_changed();
    /// assert!(rx.has_changed().unwrap());
    /// ```
    pub fn mark_changed(&mut self) {
        self.seen = self.seen.before();
    }

    /// Marks the value as seen, without reading it.
    ///
    /// # Examples
    /// ```
    /// let (tx, mut rx) = runtime::sync::watch::channel(1);
    /// tx.send(2).unwrap();
    /// rx.mark_unchanged();
    /// assert!(!rx.has_changed().unwrap());
    /// ```
    pub fn mark_unchanged(&mut self) {
        self.seen = self.channel.version();
    }

    /// Waits until there is a value that was not seen, and marks it as seen. It does not wait if there is one
    /// already.
    ///
    /// # Errors
    /// [`RecvError`] if no sender is left and the last value was seen.
    ///
    /// # Cancel safety
    /// Safe: if the future is dropped, nothing was marked as seen.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let (tx, mut rx) = runtime::sync::watch::channel(1);
    /// runtime::spawn(async move { tx.send(2).unwrap() });
    /// rx.changed().await.unwrap();
    /// assert_eq!(*rx.borrow_and_update(), 2);
    /// assert!(rx.changed().await.is_err());
    /// # });
    /// ```
    pub async fn changed(&mut self) -> Result<(), RecvError> {
        if coop::has_budget_remaining() {
            // If there is something to see, no waiter is needed.
            if let Some(result) = self.channel.look(&mut self.seen) {
                coop::spend();
                return Ok(result?);
            }
        }
        Ok(cooperative(Changed::new(&self.channel, &mut self.seen)).await?)
    }

    /// Waits until `f` returns `true` for the value, marks that value as seen, and returns access to it.
    ///
    /// `f` is called for the current value, even if that was seen, and for each value that this receiver
    /// finds later. Values that are replaced before the receiver looks are skipped.
    ///
    /// # Errors
    /// [`RecvError`] if no sender is left. `f` has returned `false` for the last value.
    ///
    /// # Panics
    /// If `f` panics. The channel goes on.
    ///
    /// # Cancel safety
    /// Safe: only values for which `f` returned `false` were marked as seen.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let (tx, mut rx) = runtime::sync::watch::channel(0);
    /// runtime::spawn(async move {
    ///     for n in 1..=3 {
    ///         tx.send(n).unwrap();
    ///     }
    /// });
    /// assert_eq!(*rx.wait_for(|&n| n >= 3).await.unwrap(), 3);
    /// # });
    /// ```
    pub async fn wait_for(&mut self, f: impl FnMut(&T) -> bool) -> Result<Ref<'_, T>, RecvError> {
        cooperative(wait_for(&self.channel, &mut self.seen, f)).await
    }

    /// Returns whether both receivers are for the same channel.
    ///
    /// # Examples
    /// ```
    /// let (_tx, rx) = runtime::sync::watch::channel(());
    /// assert!(rx.same_channel(&rx.clone()));
    /// ```
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.channel, &other.channel)
    }
}

/// Waits as [`Receiver::wait_for`] does, and takes no part in the budget.
async fn wait_for<'a, T>(
    channel: &'a Channel<T>,
    seen: &mut Version,
    mut f: impl FnMut(&T) -> bool,
) -> Result<Ref<'a, T>, RecvError> {
    let mut result = Ok(());
    loop {
        {
            let (reading, version) = channel.read();
            let value = Ref::new(channel, reading, version != *seen);
            *seen = version;
            // `f` is not called twice for the last value.
            if (result.is_ok() || value.has_changed()) && f(&value) {
                return Ok(value);
            }
        }
        result?;
        result = Changed::new(channel, seen).await;
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self::of(self.channel.clone(), self.seen)
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.channel.remove_receiver();
    }
}

impl<T: fmt::Debug> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("channel", &self.channel).field("seen", &self.seen).finish()
    }
}

impl From<Closed> for RecvError {
    fn from(_: Closed) -> Self {
        Self(())
    }
}

/// A reference to the value of a watch channel. While there is one, a sender blocks its thread.
///
/// It belongs to the thread that made it, and should not live across an `.await`.
pub struct Ref<'a, T> {
    channel: &'a Channel<T>,
    reading: Reading<'a>,
    has_changed: bool,
}

impl<'a, T> Ref<'a, T> {
    #[inline]
    pub(super) fn new(channel: &'a Channel<T>, reading: Reading<'a>, has_changed: bool) -> Self {
        Self { channel, reading, has_changed }
    }

    /// Returns whether the receiver had not seen this value before. It is `false` for a sender's reference.
    ///
    /// # Examples
    /// ```
    /// let (tx, mut rx) = runtime::sync::watch::channel(1);
    /// tx.send(2).unwrap();
    /// assert!(rx.borrow_and_update().has_changed());
    /// assert!(!rx.borrow().has_changed());
    /// ```
    pub fn has_changed(&self) -> bool {
        self.has_changed
    }
}

impl<T> Deref for Ref<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: (1) the result borrows `self`, which keeps `reading`, a reading of this channel.
        unsafe { self.channel.value(&self.reading) }
    }
}

impl<T: fmt::Debug> fmt::Debug for Ref<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ref").field("value", &**self).field("has_changed", &self.has_changed).finish()
    }
}
