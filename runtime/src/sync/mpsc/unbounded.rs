//! The unbounded channel.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::channel::{Channel, Rx, Tx, WeakTx};
use super::error::{SendError, TryRecvError};
use crate::util::block_on::{assert_may_block, block_on};

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
    (UnboundedSender { tx }, UnboundedReceiver { rx })
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

/// The receiving side of an unbounded channel. Each channel has one.
///
/// Dropping it closes the channel and drops the values in it.
pub struct UnboundedReceiver<T> {
    rx: Rx<T>,
}

impl<T> UnboundedReceiver<T> {
    /// Waits for the next value. Returns `None` if no value will come: the channel is empty, and is closed or
    /// has no senders.
    ///
    /// # Cancel safety
    /// Safe: a value is either returned or still in the channel.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let (tx, mut rx) = runtime::sync::mpsc::unbounded_channel();
    /// tx.send(1).unwrap();
    /// drop(tx);
    /// assert_eq!(rx.recv().await, Some(1));
    /// assert_eq!(rx.recv().await, None);
    /// # });
    /// ```
    pub async fn recv(&mut self) -> Option<T> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Waits for a value, and appends it and the values behind it that are there already to `buffer`, at most
    /// `limit` in all. Returns how many it appended. Returns 0 if no value will come, or if `limit` is 0.
    ///
    /// # Cancel safety
    /// Safe: if the future is dropped, nothing was received.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let (tx, mut rx) = runtime::sync::mpsc::unbounded_channel();
    /// tx.send(1).unwrap();
    /// let mut buffer = Vec::new();
    /// assert_eq!(rx.recv_many(&mut buffer, 10).await, 1);
    /// assert_eq!(buffer, [1]);
    /// # });
    /// ```
    pub async fn recv_many(&mut self, buffer: &mut Vec<T>, limit: usize) -> usize {
        poll_fn(|cx| self.poll_recv_many(cx, buffer, limit)).await
    }

    /// Takes the next value if it is there.
    ///
    /// # Errors
    /// [`TryRecvError::Empty`] if the value may still come, [`TryRecvError::Disconnected`] if not.
    ///
    /// # Examples
    /// ```
    /// use runtime::sync::mpsc::{self, error::TryRecvError};
    ///
    /// let (tx, mut rx) = mpsc::unbounded_channel();
    /// assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    /// tx.send(1).unwrap();
    /// drop(tx);
    /// assert_eq!(rx.try_recv(), Ok(1));
    /// assert_eq!(rx.try_recv(), Err(TryRecvError::Disconnected));
    /// ```
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        self.rx.try_recv()
    }

    /// Waits for the next value as [`recv`](Self::recv) does, but blocks the thread.
    ///
    /// # Panics
    /// Directly inside a task. Use [`recv`](Self::recv) there.
    ///
    /// # Examples
    /// ```
    /// let (tx, mut rx) = runtime::sync::mpsc::unbounded_channel();
    /// std::thread::spawn(move || tx.send(1).unwrap());
    /// assert_eq!(rx.blocking_recv(), Some(1));
    /// assert_eq!(rx.blocking_recv(), None);
    /// ```
    #[track_caller]
    pub fn blocking_recv(&mut self) -> Option<T> {
        assert_may_block("blocking_recv", "recv().await");
        block_on(self.recv())
    }

    /// Waits for values as [`recv_many`](Self::recv_many) does, but blocks the thread.
    ///
    /// # Panics
    /// Directly inside a task. Use [`recv_many`](Self::recv_many) there.
    ///
    /// # Examples
    /// ```
    /// let (tx, mut rx) = runtime::sync::mpsc::unbounded_channel();
    /// tx.send(1).unwrap();
    /// let mut buffer = Vec::new();
    /// assert_eq!(rx.blocking_recv_many(&mut buffer, 10), 1);
    /// ```
    #[track_caller]
    pub fn blocking_recv_many(&mut self, buffer: &mut Vec<T>, limit: usize) -> usize {
        assert_may_block("blocking_recv_many", "recv_many().await");
        block_on(self.recv_many(buffer, limit))
    }

    /// Closes the channel to new values. The values in the channel can still be received.
    ///
    /// # Examples
    /// ```
    /// let (tx, mut rx) = runtime::sync::mpsc::unbounded_channel::<i32>();
    /// rx.close();
    /// assert!(tx.is_closed());
    /// assert_eq!(rx.blocking_recv(), None);
    /// ```
    pub fn close(&mut self) {
        self.rx.close();
    }

    /// Returns whether the channel is closed to senders, or has no senders left.
    ///
    /// # Examples
    /// ```
    /// let (tx, rx) = runtime::sync::mpsc::unbounded_channel::<i32>();
    /// assert!(!rx.is_closed());
    /// drop(tx);
    /// assert!(rx.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.rx.channel.is_closed() || self.rx.strong_count() == 0
    }

    /// Returns whether the channel holds no value.
    ///
    /// # Examples
    /// ```
    /// let (_tx, rx) = runtime::sync::mpsc::unbounded_channel::<i32>();
    /// assert!(rx.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts the values in the channel.
    ///
    /// # Examples
    /// ```
    /// let (tx, rx) = runtime::sync::mpsc::unbounded_channel();
    /// tx.send(1).unwrap();
    /// assert_eq!(rx.len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        self.rx.len()
    }

    /// Polls as [`recv`](Self::recv) does, for hand-written futures. Only the waker of the last call is
    /// woken.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let (tx, mut rx) = runtime::sync::mpsc::unbounded_channel();
    /// tx.send(1).unwrap();
    /// assert_eq!(std::future::poll_fn(|cx| rx.poll_recv(cx)).await, Some(1));
    /// # });
    /// ```
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.rx.poll_recv(cx)
    }

    /// Polls as [`recv_many`](Self::recv_many) does, for hand-written futures. Only the waker of the last
    /// call is woken.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let (tx, mut rx) = runtime::sync::mpsc::unbounded_channel();
    /// tx.send(1).unwrap();
    /// let mut buffer = Vec::new();
    /// assert_eq!(std::future::poll_fn(|cx| rx.poll_recv_many(cx, &mut buffer, 10)).await, 1);
    /// # });
    /// ```
    pub fn poll_recv_many(&mut self, cx: &mut Context<'_>, buffer: &mut Vec<T>, limit: usize) -> Poll<usize> {
        self.rx.poll_recv_many(cx, buffer, limit)
    }

    /// Counts the senders.
    ///
    /// # Examples
    /// ```
    /// let (_tx, rx) = runtime::sync::mpsc::unbounded_channel::<i32>();
    /// assert_eq!(rx.sender_strong_count(), 1);
    /// ```
    pub fn sender_strong_count(&self) -> usize {
        self.rx.strong_count()
    }

    /// Counts the weak senders.
    ///
    /// # Examples
    /// ```
    /// let (_tx, rx) = runtime::sync::mpsc::unbounded_channel::<i32>();
    /// assert_eq!(rx.sender_weak_count(), 0);
    /// ```
    pub fn sender_weak_count(&self) -> usize {
        self.rx.weak_count()
    }
}

impl<T> Clone for UnboundedSender<T> {
    fn clone(&self) -> Self {
        Self { tx: self.tx.clone() }
    }
}

impl<T> Stream for UnboundedReceiver<T> {
    type Item = T;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.get_mut().poll_recv(cx)
    }
}

impl<T> Unpin for UnboundedReceiver<T> {}

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

impl<T> fmt::Debug for UnboundedReceiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnboundedReceiver")
            .field("len", &self.len())
            .field("is_closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}
