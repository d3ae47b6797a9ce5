//! Any descriptor: [`AsyncFd`] tells when it can be read or written.

mod async_fd;
mod guard;
mod register_error;
mod watched;

pub use async_fd::AsyncFd;
pub use guard::{AsyncFdReadyGuard, AsyncFdReadyMutGuard, TryIoError};
pub use register_error::AsyncFdRegisterError;
#[doc(hidden)]
#[allow(deprecated, reason = "Tokio's name of old")]
pub use register_error::AsyncFdTryNewError;
