//! The sending side of a bounded channel. It waits for room, first come, first served.

use std::fmt;

use super::channel::{Channel, Tx, WeakTx};
use super::error::{SendError, SendTimeoutError, TrySendError};
use super::receiver::Receiver;
use crate::coop;
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
        "the buffer of a channel must be between 1 and {}, not {buffer}: for a rendezvous, send a oneshot \
         along",
        Permits::MAX
    );
    let (tx, rx) = Channel::open(Some(buffer));
    (Sender { tx }, Receiver::of(rx))
}

/// A sending side of a bounded channel. The channel ends when all senders are dropped.
pub struct Sender<T> {
    pub(super) tx: Tx<T>,
}

impl<T> Sender<T> {
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
    /// The value comes back: [`Timeout`](SendTimeoutError::Timeout) if the sender got no room within `limit`,
    /// [`Closed`](SendTimeoutError::Closed) if the receiver is closed or dropped.
    ///
    /// # Panics
    /// If the call has to wait, and there is no runtime with time enabled.
    ///
    /// # Cancel safety
    /// As [`send`](Self::send).
    ///
    /// # Examples
    /// ```
    /// use runtime::sync::mpsc::{self, error::SendTimeoutError};
    /// use runtime::time::Duration;
    /// # let mut builder = runtime::Builder::new_current_thread();
    /// # builder.enable_all().start_paused(true).build().unwrap().block_on(async {
    /// let (tx, _rx) = mpsc::channel(1);
    /// tx.send_timeout(1, Duration::from_secs(1)).await.unwrap();
    /// assert_eq!(tx.send_timeout(2, Duration::from_secs(1)).await, Err(SendTimeoutError::Timeout(2)));
    /// # });
    /// ```
    pub async fn send_timeout(&self, value: T, limit: Duration) -> Result<(), SendTimeoutError<T>> {
        // A channel that has room or is closed needs no timer, nor a runtime.
        let at_once = coop::has_budget_remaining().then(|| self.try_take(1));
        let is_taken = match at_once {
            Some(Ok(())) => Ok(()),
            Some(Err(TakeError::Closed)) => Err(SendError(())),
            Some(Err(TakeError::TooFew)) | None => match timeout(limit, self.take(1)).await {
                Ok(taken) => return self.push_or_return(taken, value),
                Err(_) => return Err(SendTimeoutError::Timeout(value)),
            },
        };
        coop::spend();
        self.push_or_return(is_taken, value)
    }

    fn push_or_return(
        &self,
        is_taken: Result<(), SendError<()>>,
        value: T,
    ) -> Result<(), SendTimeoutError<T>> {
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
    pub(super) async fn take(&self, n: usize) -> Result<(), SendError<()>> {
        if n > self.tx.channel.max() {
            coop::consume_budget().await;
            return Err(SendError(()));
        }
        Take::new(self.tx.channel.permits(), n).await.map_err(|_| SendError(()))
    }

    pub(super) fn try_take(&self, n: usize) -> Result<(), TakeError> {
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

pub(super) fn try_send_error<T>(error: TakeError, value: T) -> TrySendError<T> {
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

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self { tx: self.tx.clone() }
    }
}

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
