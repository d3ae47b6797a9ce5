//! Capacity in a bounded channel, reserved before there is a value to send.

use std::fmt;
use std::iter::FusedIterator;
use std::mem::ManuallyDrop;

use super::bounded::Sender;
use super::channel::{Channel, Tx};
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

impl<'a, T> Permit<'a, T> {
    /// Makes the permit of a caller that has taken one permit of `channel`.
    pub(super) fn of_taken(channel: &'a Channel<T>) -> Self {
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
    pub(super) fn of_taken(tx: Tx<T>) -> Self {
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
        Sender::of(tx)
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
        Sender::of(tx)
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
        Arc::ptr_eq(&self.tx.channel, sender.channel())
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
    pub(super) fn of_taken(channel: &'a Channel<T>, left: usize) -> Self {
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
