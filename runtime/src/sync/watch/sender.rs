//! The sending side of a watch channel.

use std::fmt;
use std::mem;

use super::channel::Channel;
use super::error::SendError;
use super::receiver::{Receiver, Ref};
use crate::coop::cooperative;
use crate::loom::sync::Arc;
use crate::loom::sync::atomic::Ordering::{Acquire, Relaxed};

/// Creates a channel that holds `init`, with one sender and one receiver. The receiver has seen `init`.
///
/// # Examples
/// ```
/// let (tx, mut rx) = runtime::sync::watch::channel(1);
/// tx.send(2).unwrap();
/// assert_eq!(*rx.borrow_and_update(), 2);
/// ```
pub fn channel<T>(init: T) -> (Sender<T>, Receiver<T>) {
    let channel = Arc::new(Channel::new(init, 1));
    let seen = channel.version();
    (Sender::of(channel.clone()), Receiver::of_counted(channel, seen))
}

/// A sending side of a watch channel. It replaces the value. Receivers learn when the last sender is dropped.
pub struct Sender<T> {
    channel: Arc<Channel<T>>,
}

impl<T> Sender<T> {
    /// Makes the first sender of a channel.
    pub(super) fn of(channel: Arc<Channel<T>>) -> Self {
        Self { channel }
    }

    /// Creates a channel that holds `init` and has no receiver yet. [`subscribe`](Self::subscribe) makes
    /// receivers.
    ///
    /// # Examples
    /// ```
    /// let tx = runtime::sync::watch::Sender::new(1);
    /// assert!(tx.is_closed());
    /// assert_eq!(*tx.subscribe().borrow(), 1);
    /// ```
    pub fn new(init: T) -> Self {
        Self::of(Arc::new(Channel::new(init, 0)))
    }

    /// Replaces the value and wakes the receivers that wait. It never waits for receivers, but it blocks the
    /// thread while other threads hold a [`Ref`] of the old value.
    ///
    /// `Ok` does not mean that the value is seen. It may be replaced, or the receivers may be dropped, before
    /// that.
    ///
    /// # Errors
    /// The value, if there is no receiver. The channel then keeps the old value.
    /// [`send_replace`](Self::send_replace) replaces the value all the same.
    ///
    /// # Panics
    /// If the calling thread holds a [`Ref`] of this channel, or is inside of a closure that changes its
    /// value.
    ///
    /// # Examples
    /// ```
    /// let (tx, rx) = runtime::sync::watch::channel(1);
    /// tx.send(2).unwrap();
    /// assert_eq!(*rx.borrow(), 2);
    /// drop(rx);
    /// assert_eq!(tx.send(3).unwrap_err().0, 3);
    /// assert_eq!(*tx.borrow(), 2);
    /// ```
    #[track_caller]
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        if self.is_closed() {
            return Err(SendError(value));
        }
        self.send_replace(value);
        Ok(())
    }

    /// Changes the value in place and wakes the receivers that wait. It works without receivers, too.
    ///
    /// If `modify` panics, the value stays as `modify` left it, no receiver learns of the change, and the
    /// channel goes on.
    ///
    /// # Panics
    /// As [`send`](Self::send), and if `modify` panics.
    ///
    /// # Examples
    /// ```
    /// let (tx, rx) = runtime::sync::watch::channel(vec![1]);
    /// tx.send_modify(|list| list.push(2));
    /// assert_eq!(*rx.borrow(), [1, 2]);
    /// ```
    #[track_caller]
    pub fn send_modify<F>(&self, modify: F)
    where
        F: FnOnce(&mut T),
    {
        self.channel.modify(|value| {
            modify(value);
            true
        });
    }

    /// Changes the value as [`send_modify`](Self::send_modify) does, but the receivers learn of it only if
    /// `modify` returns `true`. Returns the result of `modify`.
    ///
    /// # Panics
    /// As [`send_modify`](Self::send_modify).
    ///
    /// # Examples
    /// ```
    /// let (tx, rx) = runtime::sync::watch::channel(3);
    /// let raise = |floor: i32| tx.send_if_modified(|value| {
    ///     let is_below = *value < floor;
    ///     *value = floor.max(*value);
    ///     is_below
    /// });
    /// assert!(!raise(2));
    /// assert!(!rx.has_changed().unwrap());
    /// assert!(raise(4));
    /// assert!(rx.has_changed().unwrap());
    /// ```
    #[track_caller]
    pub fn send_if_modified<F>(&self, modify: F) -> bool
    where
        F: FnOnce(&mut T) -> bool,
    {
        self.channel.modify(modify)
    }

    /// Replaces the value, wakes the receivers that wait, and returns the old value. It works without
    /// receivers, too.
    ///
    /// # Panics
    /// As [`send`](Self::send).
    ///
    /// # Examples
    /// ```
    /// let tx = runtime::sync::watch::Sender::new(1);
    /// assert_eq!(tx.send_replace(2), 1);
    /// assert_eq!(tx.send_replace(3), 2);
    /// ```
    #[track_caller]
    pub fn send_replace(&self, mut value: T) -> T {
        self.channel.modify(|old| {
            mem::swap(old, &mut value);
            true
        });
        value
    }

    /// Reads the value in place. A sender has always seen it. Blocks the thread while another sender replaces
    /// the value.
    ///
    /// # Panics
    /// If the calling thread is inside of a closure that changes the value.
    ///
    /// # Examples
    /// ```
    /// let tx = runtime::sync::watch::Sender::new("hello");
    /// assert_eq!(*tx.borrow(), "hello");
    /// ```
    #[track_caller]
    pub fn borrow(&self) -> Ref<'_, T> {
        let (reading, _) = self.channel.read();
        Ref::new(&self.channel, reading, false)
    }

    /// Returns whether there is no receiver. [`subscribe`](Self::subscribe) may make one again.
    ///
    /// # Examples
    /// ```
    /// let (tx, rx) = runtime::sync::watch::channel(());
    /// assert!(!tx.is_closed());
    /// drop(rx);
    /// assert!(tx.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.receiver_count() == 0
    }

    /// Waits until there is no receiver.
    ///
    /// # Cancel safety
    /// Safe.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let (tx, rx) = runtime::sync::watch::channel(());
    /// runtime::spawn(async move { drop(rx) });
    /// tx.closed().await;
    /// # });
    /// ```
    pub async fn closed(&self) {
        cooperative(self.channel.abandoned()).await;
    }

    /// Creates a receiver that has seen the current value.
    ///
    /// # Examples
    /// ```
    /// let tx = runtime::sync::watch::Sender::new(1);
    /// tx.send_replace(2);
    /// let rx = tx.subscribe();
    /// assert!(!rx.has_changed().unwrap());
    /// assert_eq!(*rx.borrow(), 2);
    /// ```
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver::of(self.channel.clone(), self.channel.version())
    }

    /// Counts the receivers.
    ///
    /// # Examples
    /// ```
    /// let (tx, rx) = runtime::sync::watch::channel(());
    /// let more = rx.clone();
    /// assert_eq!(tx.receiver_count(), 2);
    /// # drop(more);
    /// ```
    pub fn receiver_count(&self) -> usize {
        self.channel.receiver_count()
    }

    /// Counts the senders.
    ///
    /// # Examples
    /// ```
    /// let (tx, _rx) = runtime::sync::watch::channel(());
    /// let more = tx.clone();
    /// assert_eq!(tx.sender_count(), 2);
    /// # drop(more);
    /// ```
    pub fn sender_count(&self) -> usize {
        self.channel.senders.load(Acquire)
    }

    /// Returns whether both senders are for the same channel.
    ///
    /// # Examples
    /// ```
    /// let (tx, _rx) = runtime::sync::watch::channel(());
    /// assert!(tx.same_channel(&tx.clone()));
    /// ```
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.channel, &other.channel)
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        // The `Arc` comes first, because it aborts before any count can overflow.
        let channel = self.channel.clone();
        // Relaxed: `self` is counted, so the count is not zero meanwhile.
        channel.senders.fetch_add(1, Relaxed);
        Self { channel }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.channel.remove_sender();
    }
}

impl<T: Default> Default for Sender<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: fmt::Debug> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("channel", &self.channel).finish()
    }
}
