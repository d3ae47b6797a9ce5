//! A TCP socket before it listens or connects, for options that must be set by then.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use super::listener::TcpListener;
use super::stream::TcpStream;
use crate::net::face::options::{deprecated_tos, device, options, take_error};
use crate::util::named_error::named;

/// A TCP socket that neither listens nor is connected yet.
///
/// [`TcpListener::bind`] and [`TcpStream::connect`] choose the options that most programs want. This type is
/// for the other programs.
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use runtime::net::TcpSocket;
///
/// let socket = TcpSocket::new_v4()?;
/// socket.set_reuseaddr(true)?;
/// socket.set_reuseport(true)?;
/// socket.bind("127.0.0.1:0".parse().unwrap())?;
/// let listener = socket.listen(4096)?;
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
pub struct TcpSocket {
    inner: Socket,
}

/// Sizes of buffers in bytes. The system counts them in more bits.
macro_rules! sizes {
    ($($what:literal, $get:ident, $set:ident => $inner_get:ident, $inner_set:ident;)*) => {$(
        #[doc = concat!("Returns the size of the ", $what, " buffer, in bytes: about twice what was set.")]
        ///
        /// # Errors
        /// The system's errors.
        pub fn $get(&self) -> io::Result<u32> {
            self.inner.$inner_get().map(|size| u32::try_from(size).unwrap_or(u32::MAX))
        }

        #[doc = concat!("Sets the size of the ", $what, " buffer, in bytes. The system has a limit,")]
        /// and doubles the size.
        ///
        /// # Errors
        /// The system's errors.
        pub fn $set(&self, size: u32) -> io::Result<()> {
            self.inner.$inner_set(size as usize)
        }
    )*};
}

impl TcpSocket {
    /// Creates a socket for IPv4.
    ///
    /// # Errors
    /// The system's errors.
    pub fn new_v4() -> io::Result<TcpSocket> {
        Self::new(Domain::IPV4)
    }

    /// Creates a socket for IPv6.
    ///
    /// # Errors
    /// The system's errors.
    pub fn new_v6() -> io::Result<TcpSocket> {
        Self::new(Domain::IPV6)
    }

    fn new(domain: Domain) -> io::Result<TcpSocket> {
        let inner = Socket::new(domain, Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP))?;
        Ok(TcpSocket { inner })
    }

    /// Takes over a socket of the standard library that is not connected. Other crates make such sockets.
    pub fn from_std_stream(stream: std::net::TcpStream) -> TcpSocket {
        TcpSocket { inner: stream.into() }
    }

    options! {
        /// Makes the system probe a silent peer from time to time (`SO_KEEPALIVE`).
        keepalive, set_keepalive(keepalive: bool) => keepalive, set_keepalive;
        /// Allows binding an address whose old connections have not ended completely (`SO_REUSEADDR`).
        reuseaddr, set_reuseaddr(reuseaddr: bool) => reuse_address, set_reuse_address;
        /// Allows several sockets to bind one address and share its connections (`SO_REUSEPORT`).
        reuseport, set_reuseport(reuseport: bool) => reuse_port, set_reuse_port;
        /// Makes the system send small writes at once instead of gathering them (`TCP_NODELAY`).
        nodelay, set_nodelay(nodelay: bool) => tcp_nodelay, set_tcp_nodelay;
        /// Sets how long closing waits for unsent bytes (`SO_LINGER`), in whole seconds: see
        /// [`TcpStream::set_linger`].
        #[deprecated = "dropping a socket that lingers blocks its thread; use `set_zero_linger`"]
        linger, set_linger(limit: Option<Duration>) => linger, set_linger;
        /// Sets the type of service of the socket's IPv4 packets (`IP_TOS`).
        tos_v4, set_tos_v4(tos: u32) => tos_v4, set_tos_v4;
        /// Sets the traffic class of the socket's IPv6 packets (`IPV6_TCLASS`).
        tclass_v6, set_tclass_v6(tclass: u32) => tclass_v6, set_tclass_v6;
    }

    deprecated_tos!();
    device!();

    sizes! {
        "send", send_buffer_size, set_send_buffer_size => send_buffer_size, set_send_buffer_size;
        "receive", recv_buffer_size, set_recv_buffer_size => recv_buffer_size, set_recv_buffer_size;
    }

    /// Makes closing reset the connection, and drops the bytes that are not sent.
    ///
    /// # Errors
    /// The system's errors.
    pub fn set_zero_linger(&self) -> io::Result<()> {
        self.inner.set_linger(Some(Duration::ZERO))
    }

    /// Returns the address to which the socket is bound.
    ///
    /// # Errors
    /// The system's errors.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let addr = self.inner.local_addr()?;
        addr.as_socket().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not an IP socket"))
    }

    take_error!();

    /// Binds to an address. With port 0, the system chooses the port.
    ///
    /// # Errors
    /// The system's errors, with the address in the text.
    pub fn bind(&self, addr: SocketAddr) -> io::Result<()> {
        self.inner.bind(&addr.into()).map_err(|error| named("bind", addr, error))
    }

    /// Listens. At most `backlog` connections wait to be accepted.
    ///
    /// # Errors
    /// The system's errors. The socket is closed then.
    ///
    /// # Panics
    /// Outside of a runtime, or if its I/O is not enabled: as [`TcpListener::from_std`].
    #[track_caller]
    pub fn listen(self, backlog: u32) -> io::Result<TcpListener> {
        self.inner.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
        TcpListener::from_std(self.inner.into())
    }

    /// Connects to `addr`.
    ///
    /// If the socket has the option `TCP_FASTOPEN_CONNECT`, the system may put off the connection until the
    /// first write. This call then returns at once, and reads and writes return the errors of the attempt.
    ///
    /// # Errors
    /// The system's errors, with the address in the text. The socket is closed then.
    ///
    /// # Panics
    /// Outside of a runtime, or if its I/O is not enabled: as [`TcpStream::connect`].
    ///
    /// # Cancel safety
    /// Safe: the socket is closed.
    pub async fn connect(self, addr: SocketAddr) -> io::Result<TcpStream> {
        self.connect_to(addr).await.map_err(|error| named("connect", addr, error))
    }

    async fn connect_to(self, addr: SocketAddr) -> io::Result<TcpStream> {
        // The socket may come from outside, and may be blocking.
        self.inner.set_nonblocking(true)?;
        let result = self.inner.connect(&addr.into());
        let stream = mio::net::TcpStream::from_std(self.inner.into());
        match result {
            // With `TCP_FASTOPEN_CONNECT`, the first write opens the connection. There is nothing to wait for
            // before the first write.
            Ok(()) => TcpStream::register(stream),
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {
                TcpStream::finish_connect(stream).await
            }
            Err(error) => Err(error),
        }
    }
}

impl fmt::Debug for TcpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl AsRawFd for TcpSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.inner.as_raw_fd()
    }
}

impl AsFd for TcpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

impl IntoRawFd for TcpSocket {
    fn into_raw_fd(self) -> RawFd {
        self.inner.into_raw_fd()
    }
}

impl FromRawFd for TcpSocket {
    unsafe fn from_raw_fd(fd: RawFd) -> Self {
        // SAFETY: the caller vouches that `fd` is open and owned by no other value, which is also this call's
        // duty.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Self { inner: fd.into() }
    }
}
