//! The errors of an mpsc channel.

use std::error::Error;
use std::fmt;

/// The error of a send, with the value, or of a wait for room, with `()`: the receiver was closed or dropped.
/// [`reserve_many`](super::Sender::reserve_many) also returns it for more values than the channel can hold.
#[derive(PartialEq, Eq, Clone, Copy)]
pub struct SendError<T>(pub T);

/// The error of [`Sender::try_send`](super::Sender::try_send), with the value. It is also the error of
/// [`try_reserve`](super::Sender::try_reserve) and its variants, with `()` or with the sender.
#[derive(PartialEq, Eq, Clone, Copy)]
pub enum TrySendError<T> {
    /// The channel has no capacity left, or other tasks wait for it.
    Full(T),
    /// The receiver was closed or dropped.
    Closed(T),
}

/// The error of [`Sender::send_timeout`](super::Sender::send_timeout). It has the value.
#[derive(PartialEq, Eq, Clone, Copy)]
pub enum SendTimeoutError<T> {
    /// The time was over before the sender got room.
    Timeout(T),
    /// The receiver was closed or dropped.
    Closed(T),
}

/// The error of [`Receiver::try_recv`](super::Receiver::try_recv).
#[derive(PartialEq, Eq, Clone, Copy, Debug)]
pub enum TryRecvError {
    /// No value is in the channel, and more may come.
    Empty,
    /// No value is in the channel, and none will come.
    Disconnected,
}

/// Never made, because `recv` returns an `Option`. Tokio has it, and some programs name it.
#[doc(hidden)]
#[deprecated = "`recv` returns an `Option`"]
#[derive(Debug, Clone)]
pub struct RecvError(());

impl<T> TrySendError<T> {
    /// Returns the value that was not sent.
    ///
    /// # Examples
    /// ```
    /// let (tx, _rx) = runtime::sync::mpsc::channel(1);
    /// tx.try_send(1).unwrap();
    /// assert_eq!(tx.try_send(2).unwrap_err().into_inner(), 2);
    /// ```
    pub fn into_inner(self) -> T {
        match self {
            Self::Full(value) | Self::Closed(value) => value,
        }
    }
}

impl<T> SendTimeoutError<T> {
    /// Returns the value that was not sent.
    ///
    /// # Examples
    /// ```
    /// use runtime::sync::mpsc::error::SendTimeoutError;
    ///
    /// assert_eq!(SendTimeoutError::Timeout(2).into_inner(), 2);
    /// ```
    pub fn into_inner(self) -> T {
        match self {
            Self::Timeout(value) | Self::Closed(value) => value,
        }
    }
}

impl<T> From<SendError<T>> for TrySendError<T> {
    fn from(error: SendError<T>) -> Self {
        Self::Closed(error.0)
    }
}

// The values need not implement `Debug`.
impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendError").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "Full(..)",
            Self::Closed(_) => "Closed(..)",
        })
    }
}

impl<T> fmt::Debug for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Timeout(_) => "Timeout(..)",
            Self::Closed(_) => "Closed(..)",
        })
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("channel closed")
    }
}

impl<T> fmt::Display for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "no available capacity",
            Self::Closed(_) => "channel closed",
        })
    }
}

impl<T> fmt::Display for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Timeout(_) => "timed out waiting on send operation",
            Self::Closed(_) => "channel closed",
        })
    }
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "receiving on an empty channel",
            Self::Disconnected => "receiving on a closed channel",
        })
    }
}

#[allow(deprecated)]
impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("channel closed")
    }
}

#[allow(deprecated)]
impl Error for RecvError {}
impl<T> Error for SendError<T> {}
impl<T> Error for TrySendError<T> {}
impl<T> Error for SendTimeoutError<T> {}
impl Error for TryRecvError {}
