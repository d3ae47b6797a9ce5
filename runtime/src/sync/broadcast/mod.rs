//! Channels with many senders and many receivers, each of which gets every value.
//!
//! A value is stored once; each [`Receiver`] takes a clone of it, and the last one takes the value itself. It
//! is dropped as soon as no receiver has still to take it. A receiver gets the values that are sent after it
//! was made.
//!
//! # Receivers that are too slow
//! A channel holds so many values as it was made for, rounded up to a power of two. Sending never waits: with
//! that many values in the channel it overwrites the oldest, even if there are receivers that have not taken
//! it. Each of those gets [`RecvError::Lagged`](error::RecvError::Lagged) the next time, with the number of
//! values it has missed, and after that the oldest value that is still there. It goes on from there, or
//! stops; the others do not notice.
//!
//! # The end
//! When the last [`Sender`] is dropped, receivers take what is there and then get
//! [`RecvError::Closed`](error::RecvError::Closed). Without a receiver there is nothing to send for, and
//! [`send`](Sender::send) fails; [`subscribe`](Sender::subscribe) makes a new one.
//!
//! # What a value costs
//! Its sender takes one short lock, and each receiver one atomic read-modify-write. Nothing is allocated. A
//! clone holds up receivers of the same value, and no other task unless the senders come round to it; so what
//! is large should be in an `Arc`. The `clone` of a value must not use the channel that the value is in.
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
//! A receiver that missed values:
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
//! # In which order to read
//! `ring.rs` holds the values; `channel.rs` has the end of the ring and the receivers that wait; `sender.rs`
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

/// What can go wrong on a broadcast channel.
pub mod error {
    use std::fmt;

    /// There is no receiver; the value comes back.
    #[derive(Debug, PartialEq, Eq)]
    pub struct SendError<T>(pub T);

    /// Why there is no value.
    #[derive(Debug, PartialEq, Eq, Clone)]
    pub enum RecvError {
        /// All were taken, and no sender is left.
        Closed,
        /// The receiver was too slow: so many values were overwritten that it had not taken. The next call
        /// goes on with the oldest that is left.
        Lagged(u64),
    }

    /// Why there is no value at once.
    #[derive(Debug, PartialEq, Eq, Clone)]
    pub enum TryRecvError {
        /// All were taken, and more may come.
        Empty,
        /// All were taken, and no sender is left.
        Closed,
        /// As [`RecvError::Lagged`].
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
