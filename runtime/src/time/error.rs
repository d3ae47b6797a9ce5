//! The errors of [`time`](super).
//!
//! Nothing of this crate fails with [`Error`]. It is for programs and libraries written for Tokio that have
//! it among their own errors.

use std::fmt;
use std::io;

/// The error of [`timeout`](super::timeout()) and [`timeout_at`](super::timeout_at) when time has run out.
///
/// # Examples
/// ```
/// use runtime::time::{Duration, timeout};
/// # runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
/// let elapsed = timeout(Duration::from_secs(1), std::future::pending::<()>()).await.unwrap_err();
/// assert_eq!(std::io::Error::from(elapsed).kind(), std::io::ErrorKind::TimedOut);
/// # });
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct Elapsed(());

impl Elapsed {
    pub(super) fn new() -> Self {
        Self(())
    }
}

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("deadline has elapsed")
    }
}

impl std::error::Error for Elapsed {}

impl From<Elapsed> for io::Error {
    fn from(_: Elapsed) -> io::Error {
        io::ErrorKind::TimedOut.into()
    }
}

/// The reason why a timer cannot work.
///
/// # Examples
/// ```
/// use runtime::time::error::Error;
///
/// let error = Error::at_capacity();
/// assert!(error.is_at_capacity() && !error.is_shutdown());
/// assert_eq!(error.to_string(), "no room for another timer");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Error(Reason);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    Shutdown,
    AtCapacity,
    Invalid,
}

impl Error {
    /// Makes the error of a timer whose runtime was shut down.
    pub fn shutdown() -> Self {
        Self(Reason::Shutdown)
    }

    /// Returns whether it is the error of a timer whose runtime was [shut down](Self::shutdown).
    pub fn is_shutdown(&self) -> bool {
        self.0 == Reason::Shutdown
    }

    /// Makes the error of a timer for which there is no space.
    pub fn at_capacity() -> Self {
        Self(Reason::AtCapacity)
    }

    /// Returns whether it is the error of a timer for which there is [no space](Self::at_capacity).
    pub fn is_at_capacity(&self) -> bool {
        self.0 == Reason::AtCapacity
    }

    /// Makes the error of a timer that lasts longer than can be counted.
    pub fn invalid() -> Self {
        Self(Reason::Invalid)
    }

    /// Returns whether it is the error of a timer that lasts [too long](Self::invalid).
    pub fn is_invalid(&self) -> bool {
        self.0 == Reason::Invalid
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Reason::Shutdown => "the runtime that the timer belongs to was shut down",
            Reason::AtCapacity => "no room for another timer",
            Reason::Invalid => "the duration is longer than a timer can last",
        })
    }
}

impl std::error::Error for Error {}
