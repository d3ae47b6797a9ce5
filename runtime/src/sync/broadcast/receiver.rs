//! The receiving side of a broadcast channel.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::channel::{Channel, Nothing};
use super::error::{RecvError, TryRecvError};
use crate::coop::{self, cooperative};
use crate::loom::sync::Arc;
use crate::sync::backoff::Backoff;
use crate::sync::wait_list::Waiter;
use crate::util::block_on::{assert_may_block, block_on};

/// A receiving side of a broadcast channel. It gets every value that is sent while it exists.
///
/// Dropping it counts as taking the values that it has not taken. If another receiver is cloning one of them,
/// the drop blocks the thread until the clone is made. Other workers take over the thread's tasks meanwhile.
pub struct Receiver<T> {
    channel: Arc<Channel<T>>,
    /// The position of the value to take next. The values from here on are counted for this receiver.
    next: usize,
}

impl<T> Receiver<T> {
    /// Makes a receiver that is counted from position `next` on.
    pub(super) fn of_counted(channel: Arc<Channel<T>>, next: usize) -> Self {
        Self { channel, next }
    }

    pub(super) fn of(channel: Arc<Channel<T>>) -> Self {
        let next = channel.subscribe();
        Self::of_counted(channel, next)
    }

    /// Counts the values that this receiver has still to take. A number above the channel's capacity means
    /// that it has missed some.
    ///
    /// # Examples
    /// ```
    /// let (tx, rx) = runtime::sync::broadcast::channel(16);
    /// tx.send(1).unwrap();
    /// assert_eq!(rx.len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        self.channel.end() - self.next
    }

    /// Returns whether this receiver has taken all values.
    ///
    /// # Examples
    /// ```
    /// let (_tx, rx) = runtime::sync::broadcast::channel::<i32>(16);
    /// assert!(rx.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether both receivers are for the same channel.
    ///
    /// # Examples
    /// ```
    /// let (tx, rx) = runtime::sync::broadcast::channel::<i32>(16);
    /// assert!(rx.same_channel(&tx.subscribe()));
    /// ```
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.channel, &other.channel)
    }

    /// Counts the senders.
    ///
    /// # Examples
    /// ```
    /// let (_tx, rx) = runtime::sync::broadcast::channel::<i32>(16);
    /// assert_eq!(rx.sender_strong_count(), 1);
    /// ```
    pub fn sender_strong_count(&self) -> usize {
        self.channel.senders.strong()
    }

    /// Counts the weak senders.
    ///
    /// # Examples
    /// ```
    /// let (_tx, rx) = runtime::sync::broadcast::channel::<i32>(16);
    /// assert_eq!(rx.sender_weak_count(), 0);
    /// ```
    pub fn sender_weak_count(&self) -> usize {
        self.channel.senders.weak()
    }

    /// Returns whether no sender is left. There may still be values to take.
    ///
    /// # Examples
    /// ```
    /// let (tx, rx) = runtime::sync::broadcast::channel::<i32>(16);
    /// drop(tx);
    /// assert!(rx.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.channel.senders.strong() == 0
    }
}

impl<T: Clone> Receiver<T> {
    /// Creates another receiver, which gets the values that are sent from now on.
    ///
    /// # Examples
    /// ```
    /// let (tx, rx) = runtime::sync::broadcast::channel(16);
    /// tx.send(1).unwrap();
    /// let mut other = rx.resubscribe();
    /// tx.send(2).unwrap();
    /// assert_eq!(other.try_recv(), Ok(2));
    /// ```
    pub fn resubscribe(&self) -> Self {
        Self::of(self.channel.clone())
    }

    /// Waits for the next value.
    ///
    /// # Errors
    /// [`RecvError::Closed`] if all values were taken and no sender is left. [`RecvError::Lagged`] if values
    /// were overwritten that this receiver had not taken.
    ///
    /// # Panics
    /// If the value's `clone` panics. The value then counts as received.
    ///
    /// # Cancel safety
    /// Safe: a value is either returned or still there.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let (tx, mut rx) = runtime::sync::broadcast::channel(16);
    /// runtime::spawn(async move { tx.send(1).unwrap() });
    /// assert_eq!(rx.recv().await, Ok(1));
    /// assert!(rx.recv().await.is_err());
    /// # });
    /// ```
    pub async fn recv(&mut self) -> Result<T, RecvError> {
        if coop::has_budget_remaining() {
            // If there is a value or an error, no waiter is needed.
            match self.take().map_err(RecvError::try_from) {
                Ok(value) => {
                    coop::spend();
                    return Ok(value);
                }
                Err(Ok(error)) => {
                    coop::spend();
                    return Err(error);
                }
                Err(Err(_)) => {}
            }
        }
        cooperative(Recv::new(self)).await
    }

    /// Takes the next value if it is there.
    ///
    /// # Errors
    /// [`TryRecvError::Empty`] if the value may still come, otherwise as [`recv`](Self::recv).
    ///
    /// # Panics
    /// As [`recv`](Self::recv).
    ///
    /// # Examples
    /// ```
    /// use runtime::sync::broadcast::{self, error::TryRecvError};
    ///
    /// let (tx, mut rx) = broadcast::channel(16);
    /// assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    /// tx.send(1).unwrap();
    /// drop(tx);
    /// assert_eq!(rx.try_recv(), Ok(1));
    /// assert_eq!(rx.try_recv(), Err(TryRecvError::Closed));
    /// ```
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        let mut backoff = Backoff::new();
        loop {
            return match self.take() {
                Ok(value) => Ok(value),
                Err(Nothing::Empty) => Err(TryRecvError::Empty),
                Err(Nothing::Closed) => Err(TryRecvError::Closed),
                Err(Nothing::Lagged { missed, .. }) => Err(TryRecvError::Lagged(missed as u64)),
                Err(Nothing::Busy) => {
                    backoff.snooze();
                    continue;
                }
            };
        }
    }

    /// Waits for the next value as [`recv`](Self::recv) does, but blocks the thread.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    ///
    /// # Panics
    /// Directly inside a task: use [`recv`](Self::recv) there. Also as [`recv`](Self::recv).
    ///
    /// # Examples
    /// ```
    /// let (tx, mut rx) = runtime::sync::broadcast::channel(16);
    /// std::thread::spawn(move || tx.send(1).unwrap());
    /// assert_eq!(rx.blocking_recv(), Ok(1));
    /// ```
    #[track_caller]
    pub fn blocking_recv(&mut self) -> Result<T, RecvError> {
        assert_may_block("blocking_recv", "recv().await");
        block_on(self.recv())
    }

    /// Takes the next value, or moves on behind the values that were missed.
    #[inline]
    fn take(&mut self) -> Result<T, Nothing> {
        match self.channel.ring.lock(self.next) {
            Ok(locked) => {
                // This comes first, so that the value counts as taken if the clone panics.
                self.next += 1;
                Ok(locked.copy())
            }
            Err(missing) => {
                let nothing = self.channel.explain(self.next, missing);
                if let Nothing::Lagged { oldest, .. } = nothing {
                    self.next = oldest;
                }
                Err(nothing)
            }
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.channel.unsubscribe(self.next);
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

impl TryFrom<Nothing> for RecvError {
    type Error = Nothing;

    /// Returns the errors that end the wait.
    fn try_from(nothing: Nothing) -> Result<Self, Nothing> {
        match nothing {
            Nothing::Closed => Ok(Self::Closed),
            Nothing::Lagged { missed, .. } => Ok(Self::Lagged(missed as u64)),
            Nothing::Empty | Nothing::Busy => Err(nothing),
        }
    }
}

/// The state of a [`Recv`].
#[derive(Debug)]
enum RecvState {
    Apart,
    /// In the list, or released and not polled since.
    Queued,
    /// Released.
    Released,
}

/// Waits for the next value. It takes no part in the budget.
struct Recv<'a, T> {
    receiver: &'a mut Receiver<T>,
    /// Its key is the position that it waits for.
    waiter: Waiter,
    state: RecvState,
}

impl<'a, T> Recv<'a, T> {
    fn new(receiver: &'a mut Receiver<T>) -> Self {
        let waiter = Waiter::new(receiver.next);
        Self { receiver, waiter, state: RecvState::Apart }
    }
}

impl<T: Clone> Future for Recv<'_, T> {
    type Output = Result<T, RecvError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the waiter is not moved out of. The other fields are not pinned.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: the waiter is a field of a pinned struct, and never moved.
        let waiter = unsafe { Pin::new_unchecked(&this.waiter) };
        if let RecvState::Queued = this.state {
            // SAFETY: (1) the state is `Queued`: the waiter has joined this list, and leaves only in `drop`.
            ready!(unsafe { waiter.poll_outcome(&this.receiver.channel.waiters, cx) });
            this.state = RecvState::Released;
        }
        let mut backoff = Backoff::new();
        loop {
            let nothing = match this.receiver.take() {
                Ok(value) => return Poll::Ready(Ok(value)),
                Err(nothing) => nothing,
            };
            match RecvError::try_from(nothing) {
                Ok(error) => return Poll::Ready(Err(error)),
                Err(Nothing::Empty) if matches!(this.state, RecvState::Apart) => {
                    // A clone is foreign code. So it is made before the lock, and dropped after the lock if
                    // it is not needed.
                    let mut waker = Some(cx.waker().clone());
                    let Some(mut waiters) = this.receiver.channel.waiters_for(waiter.key()) else { continue };
                    // JoinWaiters. SAFETY: (1) the state is `Apart`, so the waiter has never joined. (2) From
                    // here on the state is `Queued`, so `drop` calls `leave`.
                    unsafe { waiters.join(waiter, waker.take()) };
                    this.state = RecvState::Queued;
                    return Poll::Pending;
                }
                // Another receiver's clone takes its time, so this lets other tasks run.
                Err(_) if backoff.is_spent() => {
                    coop::yield_to_others(cx.waker());
                    return Poll::Pending;
                }
                Err(_) => backoff.snooze(),
            }
        }
    }
}

impl<T> Drop for Recv<'_, T> {
    fn drop(&mut self) {
        let RecvState::Queued = self.state else { return };
        // SAFETY: a pinned future is dropped where it is.
        let waiter = unsafe { Pin::new_unchecked(&self.waiter) };
        // SAFETY: (1) the state says that it has joined, and it leaves only here. The waker is dropped last,
        // because its drop may panic.
        let (_outcome, _waker) = unsafe { self.receiver.channel.waiters.lock().leave(waiter) };
    }
}
