//! The writing end of a pipe.

use std::io;
use std::os::fd::OwnedFd;

use super::end::{self, End, try_io};
use crate::driver::io::Ready;
use crate::io::Interest;
use crate::io::registered::{Fd, Registered, WatchMode};
use crate::net::face;

const WATCH: WatchMode = WatchMode::pipe("pipe::Sender", Interest::WRITABLE);

/// A sender with room.
macro_rules! setup {
    () => {
        "# let (sender, _receiver) = runtime::net::unix::pipe::pipe()?;"
    };
}

/// The writing end of a pipe.
///
/// The methods of [`AsyncWriteExt`](crate::io::AsyncWriteExt) write to it. Dropping it closes this end. When
/// all senders are closed, the receiver finds the end of the stream. `shutdown` does nothing.
///
/// A write fails with [`BrokenPipe`](io::ErrorKind::BrokenPipe) when all receivers are closed. If a process
/// opens the FIFO for reading again, writes succeed again.
///
/// # Examples
/// Waits until a process reads from a FIFO:
/// ```no_run
/// # async fn f() -> std::io::Result<()> {
/// use runtime::io::AsyncWriteExt;
/// use runtime::net::unix::pipe;
/// use std::time::Duration;
///
/// let mut sender = loop {
///     match pipe::OpenOptions::new().open_sender("/run/fifo") {
///         Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {
///             runtime::time::sleep(Duration::from_millis(50)).await;
///         }
///         result => break result?,
///     }
/// };
/// sender.write_all(b"hello").await?;
/// # Ok(())
/// # }
/// ```
pub struct Sender {
    io: Registered<End>,
}

impl Sender {
    #[track_caller]
    pub(super) fn register(fd: OwnedFd) -> io::Result<Sender> {
        Ok(Sender { io: Registered::new(Fd(fd), WATCH)? })
    }

    /// Registers the sender of a new pipe. It has room, so the first write need not wait for an event.
    #[track_caller]
    pub(super) fn new_empty(fd: OwnedFd) -> io::Result<Sender> {
        Ok(Sender { io: Registered::new(Fd(fd), WATCH.assuming(Ready::WRITABLE))? })
    }
}

/// Waiting, and trying without waiting.
impl Sender {
    face::readiness::ready!("sender", setup!(), WRITABLE, is_writable);
    face::readiness::writable!("sender", setup!(), try_write);
    face::readiness::poll_ready!("sender", poll_write_ready, Write, "writable");
    face::bytes::try_write!("sender", setup!());
    try_io!("sender", WRITABLE);
}

face::bytes::async_write!(Sender, self => self.io.shutdown_write());
end::end!(
    Sender,
    Write,
    "sender",
    "let stdout = std::os::fd::AsFd::as_fd(&std::io::stdout()).try_clone_to_owned()?;
let sender = runtime::net::unix::pipe::Sender::from_owned_fd(stdout)?;"
);
