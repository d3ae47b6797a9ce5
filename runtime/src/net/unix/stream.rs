//! A connection between two sockets of one machine.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use socket2::{Socket, Type};

use super::example::setup;
use super::raw;
use super::{SocketAddr, UCred};
use crate::Handle;
use crate::driver::io::{Interest, Ready};
use crate::io::registered::{Registered, WatchMode};
use crate::net::face;
use crate::net::face::options::take_error;

const WATCH: WatchMode = WatchMode::stream("UnixStream");

/// A connection of the Unix family: a stream of bytes between two sockets of one machine.
///
/// The methods of [`AsyncReadExt`](crate::io::AsyncReadExt) and [`AsyncWriteExt`](crate::io::AsyncWriteExt)
/// read and write it. [`split`](Self::split) and [`into_split`](Self::into_split) split it into a half that
/// reads and a half that writes. Dropping it closes the connection;
/// [`shutdown`](crate::io::AsyncWriteExt::shutdown) closes only the writing side.
///
/// If several tasks read at once through `poll_*` functions or `AsyncRead`, only the last task that polled is
/// woken. The same holds for writing. Any number of tasks may await [`readable`](Self::readable),
/// [`writable`](Self::writable), [`ready`](Self::ready) and [`async_io`](Self::async_io).
///
/// `recvmsg` in [`async_io`](Self::async_io) receives descriptors and credentials that come with the bytes.
/// Other reads drop them.
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use runtime::io::{AsyncReadExt, AsyncWriteExt};
/// use runtime::net::UnixStream;
///
/// let (mut near, mut far) = UnixStream::pair()?;
/// near.write_all(b"hello").await?;
/// near.shutdown().await?;
/// let mut text = String::new();
/// far.read_to_string(&mut text).await?;
/// assert_eq!(text, "hello");
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
pub struct UnixStream {
    io: Registered<mio::net::UnixStream>,
}

/// A new connection.
impl UnixStream {
    /// Connects to the socket at `path`, or to an abstract name if `path` begins with a zero byte.
    ///
    /// # Errors
    /// The system's errors, with the path in the text: `connect /run/server: Connection refused`. One of them
    /// is [`WouldBlock`](io::ErrorKind::WouldBlock): as many connections wait to be accepted as the listener
    /// allows, and the system does not tell when that changes. [`InvalidInput`](io::ErrorKind::InvalidInput)
    /// if `path` is longer than the 107 bytes of an address, or has a zero byte inside.
    ///
    /// # Panics
    /// Outside of a runtime, or if its I/O is not enabled: build it with `enable_io` or `enable_all`.
    ///
    /// # Cancel safety
    /// Safe: a connection that has not been returned is closed.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn f() -> std::io::Result<()> {
    /// let stream = runtime::net::UnixStream::connect("/run/server").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect<P>(path: P) -> io::Result<UnixStream>
    where
        P: AsRef<Path>,
    {
        let addr = SocketAddr::of_path("connect", path.as_ref())?;
        // Not kept while waiting, so that the future's size does not depend on it.
        drop(path);
        Self::connect_addr(&addr).await
    }

    /// Connects to the socket with this address.
    ///
    /// # Errors
    /// As for [`connect`](Self::connect).
    ///
    /// # Panics
    /// As for [`connect`](Self::connect).
    ///
    /// # Cancel safety
    /// Safe: a connection that has not been returned is closed.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let name = format!("\0runtime-connect-addr-{}", std::process::id());
    /// let listener = runtime::net::UnixListener::bind(name)?;
    /// let stream = runtime::net::UnixStream::connect_addr(&listener.local_addr()?).await?;
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    pub async fn connect_addr(socket_addr: &SocketAddr) -> io::Result<UnixStream> {
        WATCH.current_runtime();
        let socket = socket_addr.add_to("connect", raw::new(Type::STREAM))?;
        socket_addr.add_to("connect", Self::connect_socket(socket, socket_addr).await)
    }

    /// Connects `socket`, which is not blocking, and registers it. The first event tells whether the listener
    /// has gone without accepting the connection.
    pub(super) async fn connect_socket(socket: Socket, addr: &SocketAddr) -> io::Result<UnixStream> {
        socket.connect(&raw::raw_addr(addr)?)?;
        let stream = Self::register(mio::net::UnixStream::from_std(socket.into()))?;
        let check = || stream.io.take_error()?.map_or(Ok(()), Err);
        stream.io.async_io(Interest::WRITABLE, check).await?;
        Ok(stream)
    }

    #[track_caller]
    fn register(stream: mio::net::UnixStream) -> io::Result<UnixStream> {
        Ok(UnixStream { io: Registered::new(stream, WATCH)? })
    }

    /// Creates two streams that are connected to each other, without an address.
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
    /// let (near, far) = runtime::net::UnixStream::pair()?;
    /// assert_eq!(near.try_write(b"hello")?, 5);
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    #[track_caller]
    pub fn pair() -> io::Result<(UnixStream, UnixStream)> {
        let handle = WATCH.current_runtime();
        let (near, far) = mio::net::UnixStream::pair()?;
        Ok((Self::assuming(Ready::WRITABLE, near, &handle)?, Self::assuming(Ready::WRITABLE, far, &handle)?))
    }

    /// Registers an accepted connection. It is writable, and often the request has come with it. So the first
    /// read and the first write do not wait for an event.
    pub(super) fn register_accepted(stream: mio::net::UnixStream, handle: &Handle) -> io::Result<UnixStream> {
        Self::assuming(Ready::READABLE | Ready::WRITABLE, stream, handle)
    }

    fn assuming(assumed: Ready, stream: mio::net::UnixStream, handle: &Handle) -> io::Result<UnixStream> {
        Ok(UnixStream { io: Registered::with_handle(stream, WATCH.assuming(assumed), handle.clone())? })
    }
}

/// Addresses and options.
impl UnixStream {
    /// Returns the address of this end.
    ///
    /// # Errors
    /// The system's errors.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr().map(SocketAddr)
    }

    /// Returns the address of the other end.
    ///
    /// # Errors
    /// The system's errors.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.io.peer_addr().map(SocketAddr)
    }

    /// Returns the credentials of the process that called `connect`, `listen` or `pair` at the other end.
    ///
    /// # Errors
    /// The system's errors.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let (stream, _peer) = runtime::net::UnixStream::pair()?;
    /// assert_eq!(stream.peer_cred()?.pid(), Some(std::process::id() as i32));
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    pub fn peer_cred(&self) -> io::Result<UCred> {
        UCred::of_peer(self.as_fd())
    }

    take_error!();
}

face::bytes::stream_socket!(UnixStream, mio::net::UnixStream, setup!());
face::descriptor::std_socket!(
    UnixStream,
    std::os::unix::net::UnixStream,
    mio::net::UnixStream,
    "stream",
    "let (stream, _peer) = std::os::unix::net::UnixStream::pair()?;"
);

impl AsRef<UnixStream> for UnixStream {
    fn as_ref(&self) -> &UnixStream {
        self
    }
}
