//! The error of a descriptor that could not be watched.

use std::error::Error;
use std::fmt;
use std::io;

/// An error of [`AsyncFd::register`](super::AsyncFd::register), with the value that was to be watched.
///
/// Its text names the descriptor: `watch descriptor 7: Operation not permitted (os error 1)`.
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use runtime::io::unix::AsyncFd;
///
/// // The system does not tell when a file can be read, because it always can.
/// let file = std::fs::File::open("/proc/self/exe")?;
/// // SAFETY: the file stays open, and has the same descriptor, as long as the `AsyncFd` lives.
/// let error = unsafe { AsyncFd::register(file) }.unwrap_err();
/// let (file, error) = error.into_parts();
/// assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
pub struct AsyncFdRegisterError<T> {
    inner: T,
    cause: io::Error,
}

/// Tokio's old name for [`AsyncFdRegisterError`].
#[deprecated = "use `AsyncFdRegisterError`"]
pub type AsyncFdTryNewError<T> = AsyncFdRegisterError<T>;

impl<T> AsyncFdRegisterError<T> {
    pub(super) fn new(inner: T, cause: io::Error) -> Self {
        Self { inner, cause }
    }

    /// Returns the value that was to be watched, and the reason why it is not.
    pub fn into_parts(self) -> (T, io::Error) {
        (self.inner, self.cause)
    }
}

impl<T> fmt::Display for AsyncFdRegisterError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)
    }
}

impl<T> fmt::Debug for AsyncFdRegisterError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.cause, f)
    }
}

impl<T> Error for AsyncFdRegisterError<T> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.cause)
    }
}

impl<T> From<AsyncFdRegisterError<T>> for io::Error {
    fn from(error: AsyncFdRegisterError<T>) -> Self {
        error.cause
    }
}
