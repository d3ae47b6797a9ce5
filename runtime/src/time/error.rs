//! What can go wrong in [`time`](super).

use std::error::Error;
use std::fmt;
use std::io;

/// Time ran out: what [`timeout`](super::timeout()) and [`timeout_at`](super::timeout_at) return then.
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

impl Error for Elapsed {}

impl From<Elapsed> for io::Error {
    fn from(_: Elapsed) -> io::Error {
        io::ErrorKind::TimedOut.into()
    }
}
