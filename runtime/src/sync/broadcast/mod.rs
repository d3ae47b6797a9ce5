//! Channels with many senders and many receivers. Each receiver gets every value.
//!
//! A value is stored once. Each [`Receiver`] takes a clone of it, and the last receiver takes the value
//! itself. The value is dropped as soon as no receiver has still to take it. A receiver gets the values that
//! are sent after it was made.
//!
//! # Receivers that are too slow
//! A channel holds as many values as it was made for, rounded up to a power of two. Sending never waits. If
//! the channel is full, the sender overwrites the oldest value, even if some receivers have not taken it. The
//! next call of such a receiver returns [`RecvError::Lagged`](error::RecvError::Lagged) with the number of
//! values that it has missed. The call after that returns the oldest value that is still there. Other
//! receivers do not notice.
//!
//! # The end
//! When the last [`Sender`] is dropped, receivers take the values that are left and then get
//! [`RecvError::Closed`](error::RecvError::Closed). Without a receiver [`send`](Sender::send) fails.
//! [`subscribe`](Sender::subscribe) makes a new receiver.
//!
//! # What a value costs
//! Its sender takes one short lock, and each receiver does one atomic read-modify-write. Nothing is
//! allocated. A clone holds up other receivers of the same value, and no other task unless the senders come
//! round to its slot. So large values should be in an `Arc`. The `clone` of a value must not use the channel
//! that the value is in.
//!
//! # Examples
//! ```
//! # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use runtime::sync::broadcast;
//!
//! let (tx, mut first) = broadcast::channel(16);
//! let mut second = tx.subscribe();
//! let listener = runtime::spawn(async move {
//!     assert_eq!(first.recv().await, Ok(1));
//!     assert_eq!(first.recv().await, Ok(2));
//! });
//! tx.send(1).unwrap();
//! tx.send(2).unwrap();
//! listener.await.unwrap();
//! assert_eq!(second.recv().await, Ok(1));
//! # });
//! ```
//!
//! A receiver that has missed values:
//! ```
//! # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use runtime::sync::broadcast::{self, error::RecvError};
//!
//! let (tx, mut rx) = broadcast::channel(2);
//! for n in 1..=5 {
//!     tx.send(n).unwrap();
//! }
//! assert_eq!(rx.recv().await, Err(RecvError::Lagged(3)));
//! assert_eq!(rx.recv().await, Ok(4));
//! assert_eq!(rx.recv().await, Ok(5));
//! # });
//! ```
//!
//! # Where to begin reading
//! `ring.rs` holds the values. `channel.rs` has the end of the ring and the receivers that wait. `sender.rs`
//! and `receiver.rs` are the public faces.

mod channel;
mod receiver;
mod ring;
mod sender;

pub use self::receiver::Receiver;
pub use self::sender::{Sender, WeakSender};

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

/// The errors of a broadcast channel.
pub mod error {
    use std::fmt;

    /// The error of [`Sender::send`](super::Sender::send): there is no receiver. It has the value.
    #[derive(Debug, PartialEq, Eq)]
    pub struct SendError<T>(pub T);

    /// The error of [`Receiver::recv`](super::Receiver::recv).
    #[derive(Debug, PartialEq, Eq, Clone)]
    pub enum RecvError {
        /// All values were taken, and no sender is left.
        Closed,
        /// The receiver was too slow: the given number of values was overwritten before it took them. The
        /// next call goes on with the oldest value that is left.
        Lagged(u64),
    }

    /// The error of [`Receiver::try_recv`](super::Receiver::try_recv).
    #[derive(Debug, PartialEq, Eq, Clone)]
    pub enum TryRecvError {
        /// All values were taken, and more may come.
        Empty,
        /// All values were taken, and no sender is left.
        Closed,
        /// The receiver was too slow, as in [`RecvError::Lagged`].
        Lagged(u64),
    }

    impl<T> fmt::Display for SendError<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("channel closed")
        }
    }

    impl<T: fmt::Debug> std::error::Error for SendError<T> {}

    impl fmt::Display for RecvError {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match self {
                Self::Closed => f.write_str("channel closed"),
                Self::Lagged(missed) => write!(f, "channel lagged by {missed}"),
            }
        }
    }

    impl std::error::Error for RecvError {}

    impl fmt::Display for TryRecvError {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match self {
                Self::Empty => f.write_str("channel empty"),
                Self::Closed => f.write_str("channel closed"),
                Self::Lagged(missed) => write!(f, "channel lagged by {missed}"),
            }
        }
    }

    impl std::error::Error for TryRecvError {}
}
