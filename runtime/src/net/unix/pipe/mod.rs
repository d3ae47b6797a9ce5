//! Pipes: those without a name, which [`pipe`] makes, and FIFOs, which are files.
//!
//! A pipe carries bytes one way, from a [`Sender`] to a [`Receiver`]. `mkfifo` makes a FIFO, and
//! [`OpenOptions`] opens it. Any number of processes may open either end of it, and close it again. So a
//! receiver that has read the end of the stream may read on when a process opens the FIFO for writing again.
//! A sender may write again when a process opens it for reading again.

pub(crate) mod end;
mod open_options;
mod receiver;
mod sender;

pub use open_options::OpenOptions;
pub use receiver::Receiver;
pub use sender::Sender;

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Creates a pipe without a name, and returns both of its ends.
///
/// # Errors
/// The system's errors.
///
/// # Panics
/// Outside of a runtime, or if its I/O is not enabled: build it with `enable_io` or `enable_all`.
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use runtime::io::{AsyncReadExt, AsyncWriteExt};
/// use runtime::net::unix::pipe;
///
/// let (mut sender, mut receiver) = pipe::pipe()?;
/// sender.write_all(b"hello").await?;
/// drop(sender);
/// let mut text = String::new();
/// receiver.read_to_string(&mut text).await?;
/// assert_eq!(text, "hello");
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
#[track_caller]
pub fn pipe() -> io::Result<(Sender, Receiver)> {
    let mut ends = [0; 2];
    // SAFETY: the call writes two numbers.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the system has just given these descriptors to us.
    let [receiver, sender] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
    Ok((Sender::new_empty(sender)?, Receiver::register(receiver)?))
}
