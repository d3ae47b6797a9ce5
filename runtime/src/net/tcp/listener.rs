//! A socket that accepts connections.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use socket2::SockRef;

use super::stream::TcpStream;
use crate::driver::io::{Direction, Interest};
use crate::io::registered::{Registered, WatchMode};
use crate::net::addr::{self, ToSocketAddrs};
use crate::net::face;
use crate::net::face::options::options;
use crate::util::named_error::named;

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 1024;

const WATCH: WatchMode = WatchMode::new("TcpListener", Interest::READABLE);

/// A TCP socket that accepts connections.
///
/// Any number of tasks may [`accept`](Self::accept) from it at once.
///
/// # Out of descriptors
/// When the process has no descriptor left, accepting fails, and the connection stays in the system's queue.
/// The listener lives on. The next call tries again at once. It waits for no event, because none would come:
/// nothing new has happened to the socket. So a loop that only logs the error runs as fast as it can. Other
/// tasks get their turns, but it is better to wait a little:
/// ```no_run
/// # async fn f() -> std::io::Result<()> {
/// # let listener = runtime::net::TcpListener::bind("127.0.0.1:0").await?;
/// loop {
///     match listener.accept().await {
///         Ok((stream, _)) => { runtime::spawn(async move { drop(stream) }); }
///         Err(error) => {
///             eprintln!("{error}");
///             # /*
///             runtime::time::sleep(Duration::from_millis(50)).await;
///             # */
///         }
///     }
/// }
/// # }
/// ```
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use runtime::io::{AsyncReadExt, AsyncWriteExt};
/// use runtime::net::{TcpListener, TcpStream};
///
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// let mut client = TcpStream::connect(listener.local_addr()?).await?;
/// let (mut server, peer) = listener.accept().await?;
/// assert_eq!(peer, client.local_addr()?);
///
/// server.write_all(b"hello").await?;
/// let mut buf = [0; 5];
/// client.read_exact(&mut buf).await?;
/// assert_eq!(&buf, b"hello");
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
pub struct TcpListener {
    io: Registered<mio::net::TcpListener>,
}

impl TcpListener {
    /// Binds to the first of the addresses that can be bound, and listens.
    ///
    /// With port 0 the system chooses a port, which [`local_addr`](Self::local_addr) returns. `SO_REUSEADDR`
    /// is set, so that a server can be restarted at once. At most 1024 connections wait to be accepted, or
    /// fewer if `net.core.somaxconn` is smaller. Clients beyond this number wait for a second or more. Tokio
    /// leaves the number to mio, of which version 1.2 takes 128.
    /// [`TcpSocket::listen`](crate::net::TcpSocket::listen) takes another number.
    ///
    /// # Errors
    /// The error of the last address. Its text names the address: `bind 127.0.0.1:80: Permission denied`.
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if `addr` has no address. The errors of
    /// [`lookup_host`](crate::net::lookup_host).
    ///
    /// # Panics
    /// Outside of a runtime, or if its I/O is not enabled: build it with `enable_io` or `enable_all`.
    ///
    /// # Cancel safety
    /// Safe.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let listener = runtime::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    /// assert_ne!(listener.local_addr().unwrap().port(), 0);
    /// # });
    /// ```
    pub async fn bind<A: ToSocketAddrs>(addr: A) -> io::Result<TcpListener> {
        let mut last_error = None;
        for addr in addr::resolve(addr).await? {
            match Self::listen_at(addr) {
                Ok(listener) => return Self::register(listener),
                Err(error) => last_error = Some(named("bind", addr, error)),
            }
        }
        Err(last_error.unwrap_or_else(addr::no_address))
    }

    fn listen_at(addr: SocketAddr) -> io::Result<mio::net::TcpListener> {
        let listener = mio::net::TcpListener::bind(addr)?;
        // It listens already. A second call sets the number anew.
        SockRef::from(&listener).listen(BACKLOG)?;
        Ok(listener)
    }

    #[track_caller]
    fn register(listener: mio::net::TcpListener) -> io::Result<TcpListener> {
        Ok(TcpListener { io: Registered::new(listener, WATCH)? })
    }

    /// Accepts a connection, and returns it with the peer's address.
    ///
    /// The stream belongs to the runtime of the listener, whichever task accepts it.
    ///
    /// # Errors
    /// The system's errors, unchanged. The listener can still be used: see [above](Self#out-of-descriptors).
    /// Or an error if the listener's runtime was shut down.
    ///
    /// # Cancel safety
    /// Safe: a connection that has not been returned waits for the next call.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let accepted = self.io.async_io(Interest::READABLE, || self.io.accept()).await?;
        self.welcome(accepted)
    }

    /// Polls for a connection to accept. If several tasks poll, only the last task that called is woken.
    ///
    /// # Errors
    /// As for [`accept`](Self::accept).
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        let accepted = ready!(self.io.poll_io(cx, Direction::Read, || self.io.accept()))?;
        Poll::Ready(self.welcome(accepted))
    }

    fn welcome(
        &self,
        (stream, peer): (mio::net::TcpStream, SocketAddr),
    ) -> io::Result<(TcpStream, SocketAddr)> {
        Ok((TcpStream::register_accepted(stream, self.io.handle())?, peer))
    }

    /// Returns the connections as a stream that does not end.
    ///
    /// An error does not end it either: see [above](Self#out-of-descriptors).
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use std::{future::poll_fn, pin::Pin};
    /// use futures_core::Stream;
    /// use runtime::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    /// let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    /// let mut incoming = listener.incoming();
    /// let stream = poll_fn(|cx| Pin::new(&mut incoming).poll_next(cx)).await.unwrap().unwrap();
    /// assert_eq!(stream.peer_addr().unwrap(), client.local_addr().unwrap());
    /// # });
    /// ```
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { listener: self }
    }

    /// Returns the address on which the socket listens.
    ///
    /// # Errors
    /// The system's errors.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    options! {
        /// Sets the time to live of the packets that the socket sends (`IP_TTL`), in hops.
        ttl, set_ttl(ttl: u32) => ttl_v4, set_ttl_v4;
    }
}

face::descriptor::std_socket!(
    TcpListener,
    std::net::TcpListener,
    mio::net::TcpListener,
    "listener",
    "let listener = std::net::TcpListener::bind(\"127.0.0.1:0\")?;"
);

/// The stream of connections that [`TcpListener::incoming`] returns.
#[must_use = "streams do nothing unless polled"]
#[derive(Debug)]
pub struct Incoming<'a> {
    listener: &'a TcpListener,
}

impl futures_core::Stream for Incoming<'_> {
    type Item = io::Result<TcpStream>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.listener.poll_accept(cx).map(|accepted| Some(accepted.map(|(stream, _)| stream)))
    }
}
