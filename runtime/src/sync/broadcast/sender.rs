//! The sending side of a broadcast channel.

use std::fmt;

use super::channel::Channel;
use super::error::SendError;
use super::receiver::Receiver;
use super::ring::Ring;
use crate::coop::cooperative;
use crate::loom::sync::Arc;

/// Creates a channel for at least `capacity` values, with one sender and one receiver.
///
/// # Panics
/// If `capacity` is 0 or above `usize::MAX / 2`, or there is no memory for so many values.
///
/// # Examples
/// ```
/// let (tx, mut rx) = runtime::sync::broadcast::channel(16);
/// assert_eq!(tx.send("hello"), Ok(1));
/// assert_eq!(rx.try_recv(), Ok("hello"));
/// ```
#[track_caller]
pub fn channel<T: Clone>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let sender = Sender::with_receivers(capacity, 1);
    let receiver = Receiver::of_counted(sender.channel().clone(), 0);
    (sender, receiver)
}

/// A sending side of a broadcast channel. The channel ends when all senders are dropped.
pub struct Sender<T> {
    channel: Arc<Channel<T>>,
}

impl<T> Sender<T> {
    /// Creates a channel for at least `capacity` values that has no receiver yet.
    /// [`subscribe`](Self::subscribe) makes receivers.
    ///
    /// # Panics
    /// As [`channel`](super::channel()).
    ///
    /// # Examples
    /// ```
    /// let tx = runtime::sync::broadcast::Sender::new(16);
    /// assert!(tx.send(1).is_err());
    /// let mut rx = tx.subscribe();
    /// tx.send(2).unwrap();
    /// assert_eq!(rx.try_recv(), Ok(2));
    /// ```
    #[track_caller]
    pub fn new(capacity: usize) -> Self {
        Self::with_receivers(capacity, 0)
    }

    /// Creates a channel with the given number of receivers, which begin at position 0.
    #[track_caller]
    pub(super) fn with_receivers(capacity: usize, receivers: usize) -> Self {
        let most = Ring::<T>::MAX;
        assert!(
            (1..=most).contains(&capacity),
            "the capacity of a broadcast channel must be between 1 and {most}, not {capacity}"
        );
        let channel = Channel::new(capacity, receivers);
        let channel =
            channel.unwrap_or_else(|| panic!("no memory for a broadcast channel of {capacity} values"));
        Self { channel: Arc::new(channel) }
    }

    pub(super) fn channel(&self) -> &Arc<Channel<T>> {
        &self.channel
    }

    /// Sends `value` to all receivers that exist, wakes those that wait, and returns how many receivers
    /// exist. It never waits for room: if the channel is full, it overwrites the oldest value.
    ///
    /// `Ok` does not mean that the value is received. The receivers may be dropped, or be too slow, before
    /// that.
    ///
    /// # Errors
    /// The value, if there is no receiver.
    ///
    /// # Examples
    /// ```
    /// let (tx, rx) = runtime::sync::broadcast::channel(16);
    /// let more = tx.subscribe();
    /// assert_eq!(tx.send(1), Ok(2));
    /// drop((rx, more));
    /// assert_eq!(tx.send(2).unwrap_err().0, 2);
    /// ```
    pub fn send(&self, value: T) -> Result<usize, SendError<T>> {
        self.channel.send(value).map_err(SendError)
    }

    /// Creates a receiver, which gets the values that are sent from now on.
    ///
    /// # Examples
    /// ```
    /// let (tx, _rx) = runtime::sync::broadcast::channel(16);
    /// tx.send(1).unwrap();
    /// let mut rx = tx.subscribe();
    /// tx.send(2).unwrap();
    /// assert_eq!(rx.try_recv(), Ok(2));
    /// ```
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver::of(self.channel.clone())
    }

    /// Creates a sender that does not keep the channel open.
    ///
    /// # Examples
    /// ```
    /// let (tx, mut rx) = runtime::sync::broadcast::channel::<i32>(16);
    /// let weak = tx.downgrade();
    /// drop(tx);
    /// assert!(weak.upgrade().is_none());
    /// assert!(rx.blocking_recv().is_err());
    /// ```
    #[must_use]
    pub fn downgrade(&self) -> WeakSender<T> {
        WeakSender::of(&self.channel)
    }

    /// Counts the values that at least one receiver has still to take.
    ///
    /// # Examples
    /// ```
    /// let (tx, mut first) = runtime::sync::broadcast::channel(16);
    /// let second = tx.subscribe();
    /// tx.send(1).unwrap();
    /// tx.send(2).unwrap();
    /// first.try_recv().unwrap();
    /// assert_eq!(tx.len(), 2);
    /// drop(second);
    /// assert_eq!(tx.len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        self.channel.len()
    }

    /// Returns whether all receivers have taken all values.
    ///
    /// # Examples
    /// ```
    /// let (tx, mut rx) = runtime::sync::broadcast::channel(16);
    /// tx.send(1).unwrap();
    /// assert!(!tx.is_empty());
    /// rx.try_recv().unwrap();
    /// assert!(tx.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts the receivers.
    ///
    /// # Examples
    /// ```
    /// let (tx, _rx) = runtime::sync::broadcast::channel::<i32>(16);
    /// assert_eq!(tx.receiver_count(), 1);
    /// ```
    pub fn receiver_count(&self) -> usize {
        self.channel.receivers()
    }

    /// Returns whether both senders are for the same channel.
    ///
    /// # Examples
    /// ```
    /// let (tx, _rx) = runtime::sync::broadcast::channel::<i32>(16);
    /// assert!(tx.same_channel(&tx.clone()));
    /// ```
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.channel, &other.channel)
    }

    /// Waits until there is no receiver.
    ///
    /// # Cancel safety
    /// Safe.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let (tx, rx) = runtime::sync::broadcast::channel::<i32>(16);
    /// runtime::spawn(async move { drop(rx) });
    /// tx.closed().await;
    /// # });
    /// ```
    pub async fn closed(&self) {
        cooperative(self.channel.abandoned()).await;
    }

    /// Counts the senders.
    ///
    /// # Examples
    /// ```
    /// let (tx, _rx) = runtime::sync::broadcast::channel::<i32>(16);
    /// assert_eq!(tx.strong_count(), 1);
    /// ```
    pub fn strong_count(&self) -> usize {
        self.channel.senders.strong()
    }

    /// Counts the weak senders.
    ///
    /// # Examples
    /// ```
    /// let (tx, _rx) = runtime::sync::broadcast::channel::<i32>(16);
    /// assert_eq!(tx.weak_count(), 0);
    /// ```
    pub fn weak_count(&self) -> usize {
        self.channel.senders.weak()
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        // The `Arc` comes first, because it aborts before any count can overflow.
        let channel = self.channel.clone();
        channel.senders.add();
        Self { channel }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.channel.senders.remove() {
            self.channel.close();
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("len", &self.len())
            .field("receiver_count", &self.receiver_count())
            .finish_non_exhaustive()
    }
}

/// A [`Sender`] that does not keep the channel open. [`Sender::downgrade`] makes it.
pub struct WeakSender<T> {
    channel: Arc<Channel<T>>,
}

impl<T> WeakSender<T> {
    fn of(channel: &Arc<Channel<T>>) -> Self {
        let channel = channel.clone();
        channel.senders.add_weak();
        Self { channel }
    }

    /// Creates a sender, or returns `None` if all senders are gone.
    ///
    /// # Examples
    /// ```
    /// let (tx, _rx) = runtime::sync::broadcast::channel::<i32>(16);
    /// let weak = tx.downgrade();
    /// assert!(weak.upgrade().is_some());
    /// drop(tx);
    /// assert!(weak.upgrade().is_none());
    /// ```
    #[must_use]
    pub fn upgrade(&self) -> Option<Sender<T>> {
        self.channel.senders.try_add().then(|| Sender { channel: self.channel.clone() })
    }

    /// Counts the senders.
    ///
    /// # Examples
    /// ```
    /// let (tx, _rx) = runtime::sync::broadcast::channel::<i32>(16);
    /// assert_eq!(tx.downgrade().strong_count(), 1);
    /// ```
    pub fn strong_count(&self) -> usize {
        self.channel.senders.strong()
    }

    /// Counts the weak senders.
    ///
    /// # Examples
    /// ```
    /// let (tx, _rx) = runtime::sync::broadcast::channel::<i32>(16);
    /// assert_eq!(tx.downgrade().weak_count(), 1);
    /// ```
    pub fn weak_count(&self) -> usize {
        self.channel.senders.weak()
    }
}

impl<T> Clone for WeakSender<T> {
    fn clone(&self) -> Self {
        Self::of(&self.channel)
    }
}

impl<T> Drop for WeakSender<T> {
    fn drop(&mut self) {
        self.channel.senders.remove_weak();
    }
}

impl<T> fmt::Debug for WeakSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakSender").field("strong_count", &self.strong_count()).finish_non_exhaustive()
    }
}
