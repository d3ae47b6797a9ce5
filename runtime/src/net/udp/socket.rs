//! A UDP socket.

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use crate::io::registered::{Registered, WatchMode};
use crate::io::sockaddr::Sockaddr;
use crate::net::addr::{self, ToSocketAddrs};
use crate::net::face;
use crate::util::named_error::named;

const WATCH: WatchMode = WatchMode::datagrams("UdpSocket");

/// A UDP socket.
///
/// A socket that [`bind`](Self::bind) has bound receives from all addresses and sends to any:
/// [`recv_from`](Self::recv_from), [`send_to`](Self::send_to). After [`connect`](Self::connect) it receives
/// from one address only, and [`recv`](Self::recv) and [`send`](Self::send) are enough. All methods take a
/// shared reference, so several tasks may share the socket in an `Arc`.
///
/// If several tasks wait through `poll_*` functions, only the last task that polled is woken, in each
/// direction. Any number of tasks may await the async functions.
///
/// [`try_io`](Self::try_io) and [`async_io`](Self::async_io) call other operations of the system: many
/// datagrams at once, segmentation offload, control messages.
///
/// # Examples
/// Sends back what comes:
/// ```no_run
/// # async fn f() -> std::io::Result<()> {
/// let socket = runtime::net::UdpSocket::bind("0.0.0.0:8080").await?;
/// let mut buf = [0; 1500];
/// loop {
///     let (n, sender) = socket.recv_from(&mut buf).await?;
///     socket.send_to(&buf[..n], sender).await?;
/// }
/// # }
/// ```
pub struct UdpSocket {
    io: Registered<mio::net::UdpSocket>,
}

/// A new socket, and addresses.
impl UdpSocket {
    /// Binds to the first of the addresses that can be bound.
    ///
    /// With port 0 the system chooses a port, which [`local_addr`](Self::local_addr) returns.
    ///
    /// # Errors
    /// The error of the last address. Its text names the address: `bind 127.0.0.1:53: Permission denied`.
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if `addr` has no address. The errors of
    /// [`lookup_host`](crate::net::lookup_host).
    ///
    /// # Panics
    /// Outside of a runtime, or if its I/O is not enabled: build it with `enable_io` or `enable_all`.
    ///
    /// # Cancel safety
    /// Safe: a socket that has not been returned is closed.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let socket = runtime::net::UdpSocket::bind("127.0.0.1:0").await?;
    /// assert_ne!(socket.local_addr()?.port(), 0);
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    pub async fn bind<A: ToSocketAddrs>(addr: A) -> io::Result<UdpSocket> {
        let mut last_error = None;
        for addr in addr::resolve(addr).await? {
            match mio::net::UdpSocket::bind(addr) {
                Ok(socket) => return Self::register(socket),
                Err(error) => last_error = Some(named("bind", addr, error)),
            }
        }
        Err(last_error.unwrap_or_else(addr::no_address))
    }

    /// Connects to the first of the addresses for which that works. From now on the socket receives only from
    /// there, and [`send`](Self::send) sends there.
    ///
    /// This sends nothing. It may be called again, for another address.
    ///
    /// # Errors
    /// The error of the last address. Its text names the address.
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if `addr` has no address. The errors of
    /// [`lookup_host`](crate::net::lookup_host).
    ///
    /// # Panics
    /// Outside of a runtime, if `addr` is a name that has to be resolved.
    ///
    /// # Cancel safety
    /// Safe: the socket is connected, or it is not.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let server = runtime::net::UdpSocket::bind("127.0.0.1:0").await?;
    /// # let addr = server.local_addr()?;
    /// let socket = runtime::net::UdpSocket::bind("127.0.0.1:0").await?;
    /// socket.connect(addr).await?;
    /// assert_eq!(socket.peer_addr()?, addr);
    /// socket.send(b"question").await?;
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    pub async fn connect<A: ToSocketAddrs>(&self, addr: A) -> io::Result<()> {
        let mut last_error = None;
        for addr in addr::resolve(addr).await? {
            match self.io.connect(addr) {
                Ok(()) => return Ok(()),
                Err(error) => last_error = Some(named("connect", addr, error)),
            }
        }
        Err(last_error.unwrap_or_else(addr::no_address))
    }

    /// Returns the address of this socket.
    ///
    /// # Errors
    /// The system's errors.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    /// Returns the address to which the socket is connected.
    ///
    /// # Errors
    /// The system's errors, for instance that the socket is not connected.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.io.peer_addr()
    }

    #[track_caller]
    fn register(socket: mio::net::UdpSocket) -> io::Result<UdpSocket> {
        Ok(UdpSocket { io: Registered::new(socket, WATCH)? })
    }

    pub(super) fn io(&self) -> &mio::net::UdpSocket {
        &self.io
    }
}

/// Sending to any address.
impl UdpSocket {
    /// Sends `buf` as one datagram to `addr`, or to the first of several, and returns its length.
    ///
    /// # Errors
    /// The system's errors, for instance that the datagram is too long, or that there is no route. On Linux
    /// an unconnected socket does not learn that no socket receives there.
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if `addr` has no address. The errors of
    /// [`lookup_host`](crate::net::lookup_host).
    ///
    /// # Panics
    /// Outside of a runtime, if `addr` is a name that has to be resolved.
    ///
    /// # Cancel safety
    /// Safe: if the future is dropped before it is ready, the datagram was not sent.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let receiver = runtime::net::UdpSocket::bind("127.0.0.1:0").await?;
    /// # let addr = receiver.local_addr()?;
    /// let socket = runtime::net::UdpSocket::bind("127.0.0.1:0").await?;
    /// assert_eq!(socket.send_to(b"hello", addr).await?, 5);
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    pub async fn send_to<A: ToSocketAddrs>(&self, buf: &[u8], addr: A) -> io::Result<usize> {
        let target = addr::resolve_first(addr).await?;
        self.io.send_to(buf, &Sockaddr::ip(target)).await
    }

    /// Polls until `buf` is sent as one datagram to `target`. If several tasks poll, only the last task that
    /// called is woken.
    ///
    /// # Errors
    /// As for [`send_to`](Self::send_to).
    pub fn poll_send_to(
        &self,
        cx: &mut Context<'_>,
        buf: &[u8],
        target: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        self.io.poll_send_to(cx, buf, &Sockaddr::ip(target))
    }

    /// Sends `buf` as one datagram to `target` without waiting, and returns its length.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is no room, or if the driver has not noticed it
    /// yet. Otherwise as for [`send_to`](Self::send_to).
    pub fn try_send_to(&self, buf: &[u8], target: SocketAddr) -> io::Result<usize> {
        self.io.try_send_to(buf, &Sockaddr::ip(target))
    }
}

face::datagrams::datagram_socket!(
    UdpSocket,
    mio::net::UdpSocket,
    SocketAddr,
    "# let socket = runtime::net::UdpSocket::bind(\"127.0.0.1:0\").await?;
# let peer = runtime::net::UdpSocket::bind(\"127.0.0.1:0\").await?;
# socket.connect(peer.local_addr()?).await?;
# peer.connect(socket.local_addr()?).await?;
# peer.send(b\"hello\").await?;"
);
face::descriptor::std_socket!(
    UdpSocket,
    std::net::UdpSocket,
    mio::net::UdpSocket,
    "socket",
    "let socket = std::net::UdpSocket::bind(\"127.0.0.1:0\")?;"
);
