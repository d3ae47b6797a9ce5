//! The errors of a oneshot channel.

use std::fmt;

/// The error of awaiting a receiver: the sender was dropped without sending, or the receiver was closed
/// before.
#[derive(Debug, PartialEq, Eq, Clone)]
pub struct RecvError(pub(super) ());

/// The error of [`Receiver::try_recv`](super::Receiver::try_recv).
#[derive(Debug, PartialEq, Eq, Clone)]
pub enum TryRecvError {
    /// The value was not sent yet.
    Empty,
    /// The value will not come, or was taken.
    Closed,
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("channel closed")
    }
}

impl std::error::Error for RecvError {}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "channel empty",
            Self::Closed => "channel closed",
        })
    }
}

impl std::error::Error for TryRecvError {}
