//! The reading end of a pipe.

use std::io;
use std::os::fd::OwnedFd;

use super::end::{self, End, try_io};
use crate::io::Interest;
use crate::io::registered::{Fd, Registered, WatchMode};
use crate::net::face;

const WATCH: WatchMode = WatchMode::pipe("pipe::Receiver", Interest::READABLE);

/// A receiver with something to read.
macro_rules! setup {
    () => {
        "# let (sender, receiver) = runtime::net::unix::pipe::pipe()?;
# assert_eq!(sender.try_write(b\"hello\")?, 5);"
    };
}

/// The reading end of a pipe.
///
/// The methods of [`AsyncReadExt`](crate::io::AsyncReadExt) read from it.
///
/// When all senders are closed, it reads the bytes that are left, and then the end of the stream. If a
/// process opens the FIFO for writing again, the receiver can read on. A receiver that is opened for both
/// directions ([`read_write`](super::OpenOptions::read_write)) is a sender itself, and never finds the end.
///
/// # Examples
/// ```no_run
/// # async fn f() -> std::io::Result<()> {
/// use runtime::io::AsyncReadExt;
/// use runtime::net::unix::pipe;
///
/// let mut receiver = pipe::OpenOptions::new().read_write(true).open_receiver("/run/fifo")?;
/// let mut buf = [0; 1024];
/// loop {
///     let n = receiver.read(&mut buf).await?;
///     println!("{:?}", &buf[..n]);
/// }
/// # }
/// ```
pub struct Receiver {
    io: Registered<End>,
}

impl Receiver {
    #[track_caller]
    pub(super) fn register(fd: OwnedFd) -> io::Result<Receiver> {
        Ok(Receiver { io: Registered::new(Fd(fd), WATCH)? })
    }
}

/// Waiting, and trying without waiting.
impl Receiver {
    face::readiness::ready!("receiver", setup!(), READABLE, is_readable);
    face::readiness::readable!("receiver", setup!(), try_read);
    face::readiness::poll_ready!("receiver", poll_read_ready, Read, "readable");
    face::bytes::try_read!("receiver", setup!());
    try_io!("receiver", READABLE);
}

face::bytes::async_read!(Receiver);
end::end!(
    Receiver,
    Read,
    "receiver",
    "let stdin = std::os::fd::AsFd::as_fd(&std::io::stdin()).try_clone_to_owned()?;
let receiver = runtime::net::unix::pipe::Receiver::from_owned_fd(stdin)?;"
);
