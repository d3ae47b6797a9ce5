//! The bounded channel. Sending waits for room, first come, first served.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::channel::{Channel, Rx, Tx, WeakTx};
use super::error::{SendError, SendTimeoutError, TryRecvError, TrySendError};
use super::permit::{OwnedPermit, Permit, PermitIterator};
use crate::coop;
use crate::loom::sync::Arc;
use crate::sync::permits::{Permits, Take, TakeError};
// The one import of `time` by `sync`, for Tokio's `send_timeout`.
use crate::time::{Duration, timeout};
use crate::util::block_on::{assert_may_block, block_on};

/// Creates a channel that holds at most `buffer` values. If it is full, sending waits until a value is
/// received.
///
/// # Panics
/// If `buffer` is zero, or above [`Semaphore::MAX_PERMITS`](crate::sync::Semaphore::MAX_PERMITS).
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let (tx, mut rx) = runtime::sync::mpsc::channel(2);
/// runtime::spawn(async move {
///     for n in 0..10 {
///         tx.send(n).await.unwrap();
///     }
/// });
/// for n in 0..10 {
///     assert_eq!(rx.recv().await, Some(n));
/// }
/// assert_eq!(rx.recv().await, None);
/// # });
/// ```
#[track_caller]
pub fn channel<T>(buffer: usize) -> (Sender<T>, Receiver<T>) {
    assert!(
        (1..=Permits::MAX).contains(&buffer),
        "the buffer of a channel must be between 1 and {}, not {buffer}: for a rendezvous, send a oneshot along",
        Permits::MAX
    );
    let (tx, rx) = Channel::open(Some(buffer));
    (Sender { tx }, Receiver { rx })
}

/// A sending side of a bounded channel. The channel ends when all senders are dropped.
pub struct Sender<T> {
    tx: Tx<T>,
}

impl<T> Sender<T> {
    pub(super) fn of(tx: Tx<T>) -> Self {
        Self { tx }
    }

    pub(super) fn channel(&self) -> &Arc<Channel<T>> {
        &self.tx.channel
    }

    /// Waits for room and sends `value`.
    ///
    /// `Ok` does not mean that the value was received. The receiver may still be dropped with the value
    /// unseen.
    ///
    /// # Errors
    /// The value, if the receiver is closed or dropped, also while waiting.
    ///
    /// # Cancel safety
    /// If the future is dropped, the value was not sent and is dropped too, and the future loses its place in
    /// line. To keep the value, call [`reserve`](Self::reserve) first.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let (tx, mut rx) = runtime::sync::mpsc::channel(1);
    /// tx.send(1).await.unwrap();
    /// assert_eq!(rx.recv().await, Some(1));
    /// # });
    /// ```
    pub async fn send(&self, value: T) -> Result<(), SendError<T>> {
        let mut value = value;
        if coop::has_budget_remaining() {
            // Mostly there is room.
            match self.tx.channel.try_push(value) {
                Ok(()) => {
                    coop::spend();
                    return Ok(());
                }
                Err(unsent) => value = unsent,
            }
        }
        match self.take(1).await {
            Ok(()) => self.tx.channel.push(value),
            Err(SendError(())) => Err(SendError(value)),
        }
    }

    /// Sends `value` if there is room and no task waits for it.
    ///
    /// # Errors
    /// [`TrySendError::Full`] or [`TrySendError::Closed`], with the value.
    ///
    /// # Examples
    /// ```
    /// use runtime::sync::mpsc::{self, error::TrySendError};
    ///
    /// let (tx, rx) = mpsc::channel(1);
    /// tx.try_send(1).unwrap();
    /// assert_eq!(tx.try_send(2), Err(TrySendError::Full(2)));
    /// drop(rx);
    /// assert_eq!(tx.try_send(3), Err(TrySendError::Closed(3)));
    /// ```
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        let Err(value) = self.tx.channel.try_push(value) else { return Ok(()) };
        match self.try_take(1) {
            Ok(()) => Ok(self.tx.channel.push(value)?),
            Err(error) => Err(try_send_error(error, value)),
        }
    }

    /// Sends `value` if there is room within `limit`.
    ///
    /// # Errors
    /// The value comes back: [`Timeout`](SendTimeoutError::Timeout) if the channel stayed full,
    /// [`Closed`](SendTimeoutError::Closed) if the receiver is closed or dropped.
    ///
    /// # Panics
    /// If the channel is full and there is no runtime with time enabled.
    ///
    /// # Cancel safety
    /// As [`send`](Self::send).
    ///
    /// # Examples
    /// ```
    /// use runtime::sync::mpsc::{self, error::SendTimeoutError};
    /// use runtime::time::Duration;
    /// # runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
    /// let (tx, _rx) = mpsc::channel(1);
    /// tx.send_timeout(1, Duration::from_secs(1)).await.unwrap();
    /// assert_eq!(tx.send_timeout(2, Duration::from_secs(1)).await, Err(SendTimeoutError::Timeout(2)));
    /// # });
    /// ```
    pub async fn send_timeout(&self, value: T, limit: Duration) -> Result<(), SendTimeoutError<T>> {
        // A channel with room needs no timer, nor a runtime.
        let is_taken = match coop::has_budget_remaining() && self.try_take(1).is_ok() {
            true => {
                coop::spend();
                Ok(())
            }
            false => match timeout(limit, self.take(1)).await {
                Ok(taken) => taken,
                Err(_) => return Err(SendTimeoutError::Timeout(value)),
            },
        };
        match is_taken {
            Ok(()) => self.tx.channel.push(value).map_err(|SendError(value)| SendTimeoutError::Closed(value)),
            Err(SendError(())) => Err(SendTimeoutError::Closed(value)),
        }
    }

    /// Sends as [`send`](Self::send) does, but blocks the thread.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    ///
    /// # Panics
    /// Directly inside a task. Use [`send`](Self::send) there.
    ///
    /// # Examples
    /// ```
    /// let (tx, mut rx) = runtime::sync::mpsc::channel(1);
    /// std::thread::spawn(move || tx.blocking_send(1).unwrap());
    /// assert_eq!(rx.blocking_recv(), Some(1));
    /// ```
    #[track_caller]
    pub fn blocking_send(&self, value: T) -> Result<(), SendError<T>> {
        assert_may_block("blocking_send", "send().await");
        block_on(self.send(value))
    }

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

    /// Waits for room for `n` values at once.
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

    /// Takes room for `n` values if there is enough and no task waits for it.
    ///
    /// # Errors
    /// [`TrySendError::Full`] or [`TrySendError::Closed`].
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

    /// Returns the number of values that can be sent without waiting.
    ///
    /// # Examples
    /// ```
    /// let (tx, _rx) = runtime::sync::mpsc::channel(2);
    /// tx.try_send(1).unwrap();
    /// assert_eq!(tx.capacity(), 1);
    /// ```
    pub fn capacity(&self) -> usize {
        self.tx.channel.permits().free()
    }

    /// Returns the number of values for which the channel was made.
    ///
    /// # Examples
    /// ```
    /// let (tx, _rx) = runtime::sync::mpsc::channel(2);
    /// tx.try_send(1).unwrap();
    /// assert_eq!(tx.max_capacity(), 2);
    /// ```
    pub fn max_capacity(&self) -> usize {
        self.tx.channel.max()
    }

    /// Waits for `n` permits.
    async fn take(&self, n: usize) -> Result<(), SendError<()>> {
        if n > self.tx.channel.max() {
            coop::consume_budget().await;
            return Err(SendError(()));
        }
        Take::new(self.tx.channel.permits(), n).await.map_err(|_| SendError(()))
    }

    fn try_take(&self, n: usize) -> Result<(), TakeError> {
        self.tx.channel.permits().try_take(n)
    }

    /// Waits until the receiver is closed or dropped.
    ///
    /// # Cancel safety
    /// Safe.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let (tx, rx) = runtime::sync::mpsc::channel::<i32>(10);
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
    /// let (tx, rx) = runtime::sync::mpsc::channel::<i32>(10);
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
    /// let (tx, _rx) = runtime::sync::mpsc::channel::<i32>(10);
    /// assert!(tx.same_channel(&tx.clone()));
    /// ```
    pub fn same_channel(&self, other: &Self) -> bool {
        self.tx.same_channel(&other.tx)
    }

    /// Creates a sender that does not keep the channel open.
    ///
    /// # Examples
    /// ```
    /// let (tx, mut rx) = runtime::sync::mpsc::channel::<i32>(10);
    /// let weak = tx.downgrade();
    /// drop(tx);
    /// assert_eq!(rx.blocking_recv(), None);
    /// # drop(weak);
    /// ```
    #[must_use]
    pub fn downgrade(&self) -> WeakSender<T> {
        WeakSender { tx: self.tx.downgrade() }
    }

    /// Counts the senders.
    ///
    /// # Examples
    /// ```
    /// let (tx, _rx) = runtime::sync::mpsc::channel::<i32>(10);
    /// assert_eq!(tx.strong_count(), 1);
    /// ```
    pub fn strong_count(&self) -> usize {
        self.tx.strong_count()
    }

    /// Counts the weak senders.
    ///
    /// # Examples
    /// ```
    /// let (tx, _rx) = runtime::sync::mpsc::channel::<i32>(10);
    /// assert_eq!(tx.weak_count(), 0);
    /// ```
    pub fn weak_count(&self) -> usize {
        self.tx.weak_count()
    }
}

fn try_send_error<T>(error: TakeError, value: T) -> TrySendError<T> {
    match error {
        TakeError::TooFew => TrySendError::Full(value),
        TakeError::Closed => TrySendError::Closed(value),
    }
}

/// A [`Sender`] that does not keep the channel open. [`Sender::downgrade`] makes it.
pub struct WeakSender<T> {
    tx: WeakTx<T>,
}

impl<T> WeakSender<T> {
    /// Creates a sender, or returns `None` if all senders are gone.
    ///
    /// # Examples
    /// ```
    /// let (tx, _rx) = runtime::sync::mpsc::channel::<i32>(10);
    /// let weak = tx.downgrade();
    /// assert!(weak.upgrade().is_some());
    /// drop(tx);
    /// assert!(weak.upgrade().is_none());
    /// ```
    pub fn upgrade(&self) -> Option<Sender<T>> {
        Some(Sender { tx: self.tx.upgrade()? })
    }

    /// Counts the senders.
    ///
    /// # Examples
    /// ```
    /// let (tx, _rx) = runtime::sync::mpsc::channel::<i32>(10);
    /// assert_eq!(tx.downgrade().strong_count(), 1);
    /// ```
    pub fn strong_count(&self) -> usize {
        self.tx.strong_count()
    }

    /// Counts the weak senders.
    ///
    /// # Examples
    /// ```
    /// let (tx, _rx) = runtime::sync::mpsc::channel::<i32>(10);
    /// assert_eq!(tx.downgrade().weak_count(), 1);
    /// ```
    pub fn weak_count(&self) -> usize {
        self.tx.weak_count()
    }
}

impl<T> Clone for WeakSender<T> {
    fn clone(&self) -> Self {
        Self { tx: self.tx.clone() }
    }
}

/// The receiving side of a bounded channel. Each channel has one.
///
/// Dropping it closes the channel and drops the values in it.
pub struct Receiver<T> {
    rx: Rx<T>,
}

impl<T> Receiver<T> {
    /// Waits for the next value. Returns `None` if no value will come: the channel is empty, and is closed or
    /// has no senders.
    ///
    /// # Cancel safety
    /// Safe: a value is either returned or still in the channel.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let (tx, mut rx) = runtime::sync::mpsc::channel(10);
    /// tx.send(1).await.unwrap();
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
    /// let (tx, mut rx) = runtime::sync::mpsc::channel(10);
    /// tx.send(1).await.unwrap();
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
    /// let (tx, mut rx) = mpsc::channel(10);
    /// assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    /// tx.try_send(1).unwrap();
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
    /// let (tx, mut rx) = runtime::sync::mpsc::channel(10);
    /// std::thread::spawn(move || tx.blocking_send(1).unwrap());
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
    /// let (tx, mut rx) = runtime::sync::mpsc::channel(10);
    /// tx.blocking_send(1).unwrap();
    /// let mut buffer = Vec::new();
    /// assert_eq!(rx.blocking_recv_many(&mut buffer, 10), 1);
    /// ```
    #[track_caller]
    pub fn blocking_recv_many(&mut self, buffer: &mut Vec<T>, limit: usize) -> usize {
        assert_may_block("blocking_recv_many", "recv_many().await");
        block_on(self.recv_many(buffer, limit))
    }

    /// Closes the channel to new values. The values in the channel, and those of permits that senders hold,
    /// can still be received.
    ///
    /// # Examples
    /// ```
    /// let (tx, mut rx) = runtime::sync::mpsc::channel::<i32>(10);
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
    /// let (tx, rx) = runtime::sync::mpsc::channel::<i32>(10);
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
    /// let (_tx, rx) = runtime::sync::mpsc::channel::<i32>(10);
    /// assert!(rx.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts the values in the channel.
    ///
    /// # Examples
    /// ```
    /// let (tx, rx) = runtime::sync::mpsc::channel(10);
    /// tx.try_send(1).unwrap();
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
    /// let (tx, mut rx) = runtime::sync::mpsc::channel(10);
    /// tx.send(1).await.unwrap();
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
    /// let (tx, mut rx) = runtime::sync::mpsc::channel(10);
    /// tx.send(1).await.unwrap();
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
    /// let (_tx, rx) = runtime::sync::mpsc::channel::<i32>(10);
    /// assert_eq!(rx.sender_strong_count(), 1);
    /// ```
    pub fn sender_strong_count(&self) -> usize {
        self.rx.strong_count()
    }

    /// Counts the weak senders.
    ///
    /// # Examples
    /// ```
    /// let (_tx, rx) = runtime::sync::mpsc::channel::<i32>(10);
    /// assert_eq!(rx.sender_weak_count(), 0);
    /// ```
    pub fn sender_weak_count(&self) -> usize {
        self.rx.weak_count()
    }

    /// Returns the number of values that can be sent without waiting.
    ///
    /// # Examples
    /// ```
    /// let (_tx, rx) = runtime::sync::mpsc::channel::<i32>(2);
    /// assert_eq!(rx.capacity(), 2);
    /// ```
    pub fn capacity(&self) -> usize {
        self.rx.channel.permits().free()
    }

    /// Returns the number of values for which the channel was made.
    ///
    /// # Examples
    /// ```
    /// let (_tx, rx) = runtime::sync::mpsc::channel::<i32>(2);
    /// assert_eq!(rx.max_capacity(), 2);
    /// ```
    pub fn max_capacity(&self) -> usize {
        self.rx.channel.max()
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self { tx: self.tx.clone() }
    }
}

impl<T> Stream for Receiver<T> {
    type Item = T;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.get_mut().poll_recv(cx)
    }
}

impl<T> Unpin for Receiver<T> {}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("capacity", &self.capacity())
            .field("is_closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for WeakSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakSender").field("strong_count", &self.strong_count()).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("len", &self.len())
            .field("is_closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}
