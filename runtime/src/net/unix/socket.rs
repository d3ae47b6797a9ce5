//! A Unix socket before it listens, connects or sends.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::path::Path;

use socket2::{Socket, Type};

use super::SocketAddr;
use super::datagram::UnixDatagram;
use super::listener::UnixListener;
use super::raw;
use super::stream::UnixStream;

/// A Unix socket that neither listens nor is connected yet.
///
/// [`UnixListener::bind`], [`UnixStream::connect`] and [`UnixDatagram::bind`] are for most programs. This
/// type is for programs that want a shorter queue, or bind before they connect.
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let name = format!("\0runtime-socket-{}", std::process::id());
/// use runtime::net::UnixSocket;
///
/// let socket = UnixSocket::new_stream()?;
/// socket.bind(&name)?;
/// let listener = socket.listen(16)?;
/// let stream = UnixSocket::new_stream()?.connect(&name).await?;
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct UnixSocket {
    inner: Socket,
}

impl UnixSocket {
    /// Creates a socket for datagrams.
    ///
    /// # Errors
    /// The system's errors.
    pub fn new_datagram() -> io::Result<UnixSocket> {
        Self::new(Type::DGRAM)
    }

    /// Creates a socket for streams.
    ///
    /// # Errors
    /// The system's errors.
    pub fn new_stream() -> io::Result<UnixSocket> {
        Self::new(Type::STREAM)
    }

    fn new(kind: Type) -> io::Result<UnixSocket> {
        raw::new(kind).map(|inner| UnixSocket { inner })
    }

    /// Binds to a path, or to an abstract name if `path` begins with a zero byte.
    ///
    /// # Errors
    /// As for [`UnixListener::bind`].
    pub fn bind(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let addr = SocketAddr::of_path("bind", path.as_ref())?;
        addr.add_to("bind", self.inner.bind(&raw::raw_addr(&addr)?))
    }

    /// Listens. At most `backlog` connections wait to be accepted.
    ///
    /// # Errors
    /// The system's errors, or an error if it is a socket for datagrams. The socket is closed then.
    ///
    /// # Panics
    /// Outside of a runtime, or if its I/O is not enabled: as [`UnixListener::from_std`].
    #[track_caller]
    pub fn listen(self, backlog: u32) -> io::Result<UnixListener> {
        self.refuse(Type::DGRAM, "listen cannot be called on a datagram socket")?;
        self.inner.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
        UnixListener::from_std(self.inner.into())
    }

    /// Connects to the socket at `path`, or to an abstract name if `path` begins with a zero byte.
    ///
    /// # Errors
    /// As for [`UnixStream::connect`], or an error if it is a socket for datagrams. The socket is closed
    /// then.
    ///
    /// # Panics
    /// Outside of a runtime, or if its I/O is not enabled: as [`UnixStream::connect`].
    ///
    /// # Cancel safety
    /// Safe: the socket is closed.
    pub async fn connect(self, path: impl AsRef<Path>) -> io::Result<UnixStream> {
        self.refuse(Type::DGRAM, "connect cannot be called on a datagram socket")?;
        let addr = SocketAddr::of_path("connect", path.as_ref())?;
        // Not kept while waiting, so that the future's size does not depend on it.
        drop(path);
        // The socket may come from outside, and may be blocking.
        addr.add_to("connect", self.inner.set_nonblocking(true))?;
        addr.add_to("connect", UnixStream::connect_socket(self.inner, &addr).await)
    }

    /// Turns it into a socket that sends and receives.
    ///
    /// # Errors
    /// The error that is pending on the socket, an error of the system, or an error if it is a socket for
    /// streams. The socket is closed then.
    ///
    /// # Panics
    /// Outside of a runtime, or if its I/O is not enabled: as [`UnixDatagram::from_std`].
    #[track_caller]
    pub fn datagram(self) -> io::Result<UnixDatagram> {
        self.refuse(Type::STREAM, "datagram cannot be called on a stream socket")?;
        match self.inner.take_error()? {
            Some(error) => Err(error),
            None => UnixDatagram::from_std(self.inner.into()),
        }
    }

    fn refuse(&self, kind: Type, why: &'static str) -> io::Result<()> {
        if self.inner.r#type()? == kind { Err(io::Error::other(why)) } else { Ok(()) }
    }
}

impl AsRawFd for UnixSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.inner.as_raw_fd()
    }
}

impl AsFd for UnixSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

impl IntoRawFd for UnixSocket {
    fn into_raw_fd(self) -> RawFd {
        self.inner.into_raw_fd()
    }
}

impl FromRawFd for UnixSocket {
    unsafe fn from_raw_fd(fd: RawFd) -> Self {
        // SAFETY: the caller vouches that `fd` is open and owned by no other value, which is also this call's
        // duty.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Self { inner: fd.into() }
    }
}
