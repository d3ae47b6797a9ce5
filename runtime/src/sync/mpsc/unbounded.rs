//! The sending side of an unbounded channel. It never waits.

use std::fmt;

use super::channel::{Channel, Tx, WeakTx};
use super::error::SendError;
use super::receiver::UnboundedReceiver;

/// Creates a channel without a bound. Sending never waits, and the memory for values that were not received
/// grows without limit.
///
/// If the senders may be faster than the receiver for long, use [`channel`](super::channel()).
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let (tx, mut rx) = runtime::sync::mpsc::unbounded_channel();
/// tx.send("hello").unwrap();
/// assert_eq!(rx.recv().await, Some("hello"));
/// # });
/// ```
pub fn unbounded_channel<T>() -> (UnboundedSender<T>, UnboundedReceiver<T>) {
    let (tx, rx) = Channel::open(None);
    (UnboundedSender { tx }, UnboundedReceiver::of(rx))
}

/// A sending side of a channel without a bound. The channel ends when all senders are dropped.
pub struct UnboundedSender<T> {
    tx: Tx<T>,
}

impl<T> UnboundedSender<T> {
    /// Sends `value`. It never waits.
    ///
    /// # Errors
    /// The value, if the receiver was closed or dropped.
    ///
    /// # Examples
    /// ```
    /// let (tx, rx) = runtime::sync::mpsc::unbounded_channel();
    /// drop(rx);
    /// assert_eq!(tx.send(1).unwrap_err().0, 1);
    /// ```
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        self.tx.channel.push(value)
    }

    /// Waits until the receiver is closed or dropped.
    ///
    /// # Cancel safety
    /// Safe.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let (tx, rx) = runtime::sync::mpsc::unbounded_channel::<i32>();
    /// runtime::spawn(async move { drop(rx) });
    /// tx.closed().await;
    /// # });
    /// ```
    pub async fn closed(&self) {
        self.tx.channel.closed().await;
    }

    /// Returns whether the receiver was closed or dropped.
    ///
    /// # Examples
    /// ```
    /// let (tx, rx) = runtime::sync::mpsc::unbounded_channel::<i32>();
    /// drop(rx);
    /// assert!(tx.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.tx.channel.is_closed()
    }

    /// Returns whether both senders are for the same channel.
    ///
    /// # Examples
    /// ```
    /// let (tx, _rx) = runtime::sync::mpsc::unbounded_channel::<i32>();
    /// assert!(tx.same_channel(&tx.clone()));
    /// ```
    pub fn same_channel(&self, other: &Self) -> bool {
        self.tx.same_channel(&other.tx)
    }

    /// Creates a sender that does not keep the channel open.
    ///
    /// # Examples
    /// ```
    /// let (tx, mut rx) = runtime::sync::mpsc::unbounded_channel::<i32>();
    /// let weak = tx.downgrade();
    /// drop(tx);
    /// assert_eq!(rx.blocking_recv(), None);
    /// # drop(weak);
    /// ```
    #[must_use]
    pub fn downgrade(&self) -> WeakUnboundedSender<T> {
        WeakUnboundedSender { tx: self.tx.downgrade() }
    }

    /// Counts the senders.
    ///
    /// # Examples
    /// ```
    /// let (tx, _rx) = runtime::sync::mpsc::unbounded_channel::<i32>();
    /// assert_eq!(tx.strong_count(), 1);
    /// ```
    pub fn strong_count(&self) -> usize {
        self.tx.strong_count()
    }

    /// Counts the weak senders.
    ///
    /// # Examples
    /// ```
    /// let (tx, _rx) = runtime::sync::mpsc::unbounded_channel::<i32>();
    /// assert_eq!(tx.weak_count(), 0);
    /// ```
    pub fn weak_count(&self) -> usize {
        self.tx.weak_count()
    }
}

/// An [`UnboundedSender`] that does not keep the channel open. [`UnboundedSender::downgrade`] makes it.
pub struct WeakUnboundedSender<T> {
    tx: WeakTx<T>,
}

impl<T> WeakUnboundedSender<T> {
    /// Creates a sender, or returns `None` if all senders are gone.
    ///
    /// # Examples
    /// ```
    /// let (tx, _rx) = runtime::sync::mpsc::unbounded_channel::<i32>();
    /// let weak = tx.downgrade();
    /// assert!(weak.upgrade().is_some());
    /// drop(tx);
    /// assert!(weak.upgrade().is_none());
    /// ```
    pub fn upgrade(&self) -> Option<UnboundedSender<T>> {
        Some(UnboundedSender { tx: self.tx.upgrade()? })
    }

    /// Counts the senders.
    ///
    /// # Examples
    /// ```
    /// let (tx, _rx) = runtime::sync::mpsc::unbounded_channel::<i32>();
    /// assert_eq!(tx.downgrade().strong_count(), 1);
    /// ```
    pub fn strong_count(&self) -> usize {
        self.tx.strong_count()
    }

    /// Counts the weak senders.
    ///
    /// # Examples
    /// ```
    /// let (tx, _rx) = runtime::sync::mpsc::unbounded_channel::<i32>();
    /// assert_eq!(tx.downgrade().weak_count(), 1);
    /// ```
    pub fn weak_count(&self) -> usize {
        self.tx.weak_count()
    }
}

impl<T> Clone for WeakUnboundedSender<T> {
    fn clone(&self) -> Self {
        Self { tx: self.tx.clone() }
    }
}

impl<T> Clone for UnboundedSender<T> {
    fn clone(&self) -> Self {
        Self { tx: self.tx.clone() }
    }
}

impl<T> fmt::Debug for UnboundedSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnboundedSender").field("is_closed", &self.is_closed()).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for WeakUnboundedSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakUnboundedSender")
            .field("strong_count", &self.strong_count())
            .finish_non_exhaustive()
    }
}
