//! Capacity in a bounded channel, reserved before there is a value to send.

use std::fmt;
use std::iter::FusedIterator;
use std::mem::ManuallyDrop;

use super::channel::{Channel, Tx};
use super::error::{SendError, TrySendError};
use super::sender::{Sender, try_send_error};
use crate::loom::sync::Arc;

/// Capacity for one value. [`Sender::reserve`] or [`Sender::try_reserve`] makes it. Dropping it gives the
/// room back.
#[must_use]
pub struct Permit<'a, T> {
    channel: &'a Channel<T>,
}

/// Capacity for one value, and the sender that reserved it. [`Sender::reserve_owned`] or
/// [`Sender::try_reserve_owned`] makes it. Dropping it gives the room back.
#[must_use]
pub struct OwnedPermit<T> {
    tx: Tx<T>,
}

/// Capacity for several values. [`Sender::reserve_many`] or [`Sender::try_reserve_many`] makes it. Dropping
/// it gives back the room that is left.
#[must_use]
pub struct PermitIterator<'a, T> {
    channel: &'a Channel<T>,
    left: usize,
}

/// Reserving capacity.
impl<T> Sender<T> {
    /// Waits for room for one value, which can be sent later without waiting.
    ///
    /// # Errors
    /// [`SendError`], if the receiver is closed or dropped, also while waiting.
    ///
    /// # Cancel safety
    /// The future loses its place in the queue. Room that it was granted meanwhile goes to the next task.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let (tx, mut rx) = runtime::sync::mpsc::channel(1);
    /// let permit = tx.reserve().await.unwrap();
    /// assert!(tx.try_send(1).is_err());
    /// permit.send(2);
    /// assert_eq!(rx.recv().await, Some(2));
    /// # });
    /// ```
    pub async fn reserve(&self) -> Result<Permit<'_, T>, SendError<()>> {
        self.take(1).await?;
        Ok(Permit::of_taken(&self.tx.channel))
    }

    /// Waits for room for `n` values at once. With 0 it does not wait for other requests.
    ///
    /// # Errors
    /// [`SendError`], if the receiver is closed or dropped, also while waiting, or if `n` is above
    /// [`max_capacity`](Self::max_capacity).
    ///
    /// # Cancel safety
    /// As [`reserve`](Self::reserve).
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let (tx, mut rx) = runtime::sync::mpsc::channel(2);
    /// for (n, permit) in tx.reserve_many(2).await.unwrap().enumerate() {
    ///     permit.send(n);
    /// }
    /// assert_eq!(rx.recv().await, Some(0));
    /// assert!(tx.reserve_many(3).await.is_err());
    /// # });
    /// ```
    pub async fn reserve_many(&self, n: usize) -> Result<PermitIterator<'_, T>, SendError<()>> {
        self.take(n).await?;
        Ok(PermitIterator::of_taken(&self.tx.channel, n))
    }

    /// Waits for room as [`reserve`](Self::reserve) does, and returns a permit that keeps the sender.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve); the sender is dropped.
    ///
    /// # Cancel safety
    /// As [`reserve`](Self::reserve); the sender is dropped.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let (tx, mut rx) = runtime::sync::mpsc::channel(1);
    /// let permit = tx.reserve_owned().await.unwrap();
    /// runtime::spawn(async move { permit.send(1) });
    /// assert_eq!(rx.recv().await, Some(1));
    /// # });
    /// ```
    pub async fn reserve_owned(self) -> Result<OwnedPermit<T>, SendError<()>> {
        self.take(1).await?;
        Ok(OwnedPermit::of_taken(self.tx))
    }

    /// Takes room for one value if there is room and no task waits for it.
    ///
    /// # Errors
    /// [`TrySendError::Full`] or [`TrySendError::Closed`].
    ///
    /// # Examples
    /// ```
    /// let (tx, _rx) = runtime::sync::mpsc::channel(1);
    /// let permit = tx.try_reserve().unwrap();
    /// assert!(tx.try_reserve().is_err());
    /// permit.send(1);
    /// ```
    pub fn try_reserve(&self) -> Result<Permit<'_, T>, TrySendError<()>> {
        self.try_take(1).map_err(|error| try_send_error(error, ()))?;
        Ok(Permit::of_taken(&self.tx.channel))
    }

    /// Takes room for `n` values if there is enough and no task waits for it. With 0 it succeeds also if a
    /// task waits.
    ///
    /// # Errors
    /// [`TrySendError::Full`], also if `n` is above [`max_capacity`](Self::max_capacity), or
    /// [`TrySendError::Closed`].
    ///
    /// # Examples
    /// ```
    /// let (tx, _rx) = runtime::sync::mpsc::channel::<i32>(2);
    /// assert!(tx.try_reserve_many(3).is_err());
    /// assert_eq!(tx.try_reserve_many(2).unwrap().len(), 2);
    /// ```
    pub fn try_reserve_many(&self, n: usize) -> Result<PermitIterator<'_, T>, TrySendError<()>> {
        self.try_take(n).map_err(|error| try_send_error(error, ()))?;
        Ok(PermitIterator::of_taken(&self.tx.channel, n))
    }

    /// Takes room as [`try_reserve`](Self::try_reserve) does, with a permit that keeps the sender.
    ///
    /// # Errors
    /// As [`try_reserve`](Self::try_reserve), with the sender.
    ///
    /// # Examples
    /// ```
    /// let (tx, mut rx) = runtime::sync::mpsc::channel(1);
    /// let tx = tx.try_reserve_owned().unwrap().send(1);
    /// let tx = tx.try_reserve_owned().unwrap_err().into_inner();
    /// assert_eq!(rx.try_recv(), Ok(1));
    /// # drop(tx);
    /// ```
    pub fn try_reserve_owned(self) -> Result<OwnedPermit<T>, TrySendError<Self>> {
        match self.try_take(1) {
            Ok(()) => Ok(OwnedPermit::of_taken(self.tx)),
            Err(error) => Err(try_send_error(error, self)),
        }
    }
}

impl<'a, T> Permit<'a, T> {
    /// Makes the permit of a caller that has taken one permit of `channel`.
    fn of_taken(channel: &'a Channel<T>) -> Self {
        Self { channel }
    }

    /// Sends `value`. It never waits. If the receiver was dropped meanwhile, the value is dropped too.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let (tx, mut rx) = runtime::sync::mpsc::channel(1);
    /// tx.reserve().await.unwrap().send(3);
    /// assert_eq!(rx.recv().await, Some(3));
    /// # });
    /// ```
    pub fn send(self, value: T) {
        // The value carries the permit from here on.
        let this = ManuallyDrop::new(self);
        drop(this.channel.push(value));
    }
}

impl<T> Drop for Permit<'_, T> {
    fn drop(&mut self) {
        self.channel.permits().drop_permits(1);
    }
}

impl<T> OwnedPermit<T> {
    /// Makes the permit of a caller that has taken one permit of the channel.
    fn of_taken(tx: Tx<T>) -> Self {
        Self { tx }
    }

    /// Sends `value` and returns the sender. It never waits. If the receiver was dropped meanwhile, the value
    /// is dropped too.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let (tx, mut rx) = runtime::sync::mpsc::channel(1);
    /// let tx = tx.reserve_owned().await.unwrap().send(3);
    /// assert_eq!(rx.recv().await, Some(3));
    /// # drop(tx);
    /// # });
    /// ```
    pub fn send(self, value: T) -> Sender<T> {
        let tx = self.into_tx();
        drop(tx.channel.push(value));
        Sender { tx }
    }

    /// Gives the room back and returns the sender.
    ///
    /// # Examples
    /// ```
    /// let (tx, _rx) = runtime::sync::mpsc::channel::<i32>(1);
    /// let tx = tx.try_reserve_owned().unwrap().release();
    /// assert_eq!(tx.capacity(), 1);
    /// ```
    pub fn release(self) -> Sender<T> {
        let tx = self.into_tx();
        tx.channel.permits().drop_permits(1);
        Sender { tx }
    }

    /// Returns whether both permits are for the same channel.
    ///
    /// # Examples
    /// ```
    /// let (tx, _rx) = runtime::sync::mpsc::channel::<i32>(2);
    /// let (one, two) = (tx.clone().try_reserve_owned().unwrap(), tx.try_reserve_owned().unwrap());
    /// assert!(one.same_channel(&two));
    /// ```
    pub fn same_channel(&self, other: &Self) -> bool {
        self.tx.same_channel(&other.tx)
    }

    /// Returns whether `sender` is for the same channel.
    ///
    /// # Examples
    /// ```
    /// let (tx, _rx) = runtime::sync::mpsc::channel::<i32>(1);
    /// assert!(tx.clone().try_reserve_owned().unwrap().same_channel_as_sender(&tx));
    /// ```
    pub fn same_channel_as_sender(&self, sender: &Sender<T>) -> bool {
        Arc::ptr_eq(&self.tx.channel, &sender.tx.channel)
    }

    /// Returns the sender's handle, and does not give the permit back.
    fn into_tx(self) -> Tx<T> {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is neither used again nor dropped.
        unsafe { std::ptr::read(&this.tx) }
    }
}

impl<T> Drop for OwnedPermit<T> {
    fn drop(&mut self) {
        self.tx.channel.permits().drop_permits(1);
    }
}

impl<'a, T> PermitIterator<'a, T> {
    /// Makes the iterator of a caller that has taken `left` permits of `channel`.
    fn of_taken(channel: &'a Channel<T>, left: usize) -> Self {
        Self { channel, left }
    }
}

impl<'a, T> Iterator for PermitIterator<'a, T> {
    type Item = Permit<'a, T>;

    fn next(&mut self) -> Option<Permit<'a, T>> {
        self.left = self.left.checked_sub(1)?;
        Some(Permit { channel: self.channel })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<T> ExactSizeIterator for PermitIterator<'_, T> {}
impl<T> FusedIterator for PermitIterator<'_, T> {}

impl<T> Drop for PermitIterator<'_, T> {
    fn drop(&mut self) {
        if self.left > 0 {
            self.channel.permits().drop_permits(self.left);
        }
    }
}

impl<T> fmt::Debug for Permit<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for OwnedPermit<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedPermit").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for PermitIterator<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PermitIterator").field("left", &self.left).finish_non_exhaustive()
    }
}
