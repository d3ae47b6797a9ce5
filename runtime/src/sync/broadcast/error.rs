//! The errors of a broadcast channel.

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
