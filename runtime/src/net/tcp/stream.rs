//! A TCP connection.

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::SockRef;

use super::example::setup;
use crate::Handle;
use crate::driver::io::{Interest, Ready};
use crate::io::ReadBuf;
use crate::io::registered::{Registered, WatchMode};
use crate::net::addr::{self, ToSocketAddrs};
use crate::net::face;
use crate::net::face::options::{options, take_error};
use crate::util::named_error::named;

const WATCH: WatchMode = WatchMode::stream("TcpStream");

/// A TCP connection.
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
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let listener = runtime::net::TcpListener::bind("127.0.0.1:0").await?;
/// # let addr = listener.local_addr()?;
/// use runtime::io::{AsyncReadExt, AsyncWriteExt};
/// use runtime::net::TcpStream;
///
/// let mut stream = TcpStream::connect(addr).await?;
/// stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
/// # drop(listener.accept().await?);
/// let mut answer = Vec::new();
/// # let _ =
/// stream.read_to_end(&mut answer).await
/// # ;
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
pub struct TcpStream {
    io: Registered<mio::net::TcpStream>,
}

/// A new connection.
impl TcpStream {
    /// Connects to the first of the addresses that accepts, trying one after the other.
    ///
    /// # Errors
    /// The error of the last address. Its text names the address: `connect 127.0.0.1:1: Connection refused`.
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if `addr` has no address. The errors of
    /// [`lookup_host`](crate::net::lookup_host).
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
    /// let stream = runtime::net::TcpStream::connect("example.com:80").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect<A: ToSocketAddrs>(addr: A) -> io::Result<TcpStream> {
        let mut last_error = None;
        for addr in addr::resolve(addr).await? {
            match Self::connect_to(addr).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last_error = Some(named("connect", addr, error)),
            }
        }
        Err(last_error.unwrap_or_else(addr::no_address))
    }

    async fn connect_to(addr: SocketAddr) -> io::Result<TcpStream> {
        Self::finish_connect(mio::net::TcpStream::connect(addr)?).await
    }

    /// Registers a socket that has begun to connect, and waits until the attempt has ended.
    pub(super) async fn finish_connect(connecting: mio::net::TcpStream) -> io::Result<TcpStream> {
        let stream = Self::register(connecting)?;
        stream
            .io
            .async_io(Interest::WRITABLE, || {
                if let Some(error) = stream.io.take_error()? {
                    return Err(error);
                }
                // The socket is writable without a peer: the event was about something else, and the
                // connection is under way.
                match stream.io.peer_addr() {
                    Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                        Err(io::ErrorKind::WouldBlock.into())
                    }
                    result => result.map(drop),
                }
            })
            .await?;
        Ok(stream)
    }

    #[track_caller]
    pub(super) fn register(stream: mio::net::TcpStream) -> io::Result<TcpStream> {
        Ok(TcpStream { io: Registered::new(stream, WATCH)? })
    }

    /// Registers an accepted connection. It is writable, and often the request has come with it. So the first
    /// read and the first write do not wait for an event.
    pub(super) fn register_accepted(stream: mio::net::TcpStream, handle: &Handle) -> io::Result<TcpStream> {
        let watch = WATCH.assuming(Ready::READABLE | Ready::WRITABLE);
        Ok(TcpStream { io: Registered::with_handle(stream, watch, handle.clone())? })
    }
}

/// Looking ahead.
impl TcpStream {
    /// Reads into `buf` without taking the bytes from the stream, and returns their number.
    ///
    /// Zero means the end of the stream, or that `buf` is empty.
    ///
    /// # Errors
    /// The system's errors.
    ///
    /// # Cancel safety
    /// Safe: nothing is taken.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # use runtime::io::{AsyncReadExt, AsyncWriteExt};
    /// # let listener = runtime::net::TcpListener::bind("127.0.0.1:0").await?;
    /// # let mut client = runtime::net::TcpStream::connect(listener.local_addr()?).await?;
    /// # let (mut stream, _) = listener.accept().await?;
    /// # client.write_all(b"x").await?;
    /// let mut buf = [0; 8];
    /// let n = stream.peek(&mut buf).await?;
    /// assert_eq!(stream.read(&mut buf).await?, n);
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    pub async fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.io.recv(buf, libc::MSG_PEEK).await
    }

    /// Polls for bytes to look at, without taking them, and returns how many were put into `buf`. If several
    /// tasks poll, only the last task that called is woken.
    ///
    /// # Errors
    /// The system's errors.
    pub fn poll_peek(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<usize>> {
        let before = buf.filled().len();
        self.io.poll_recv(cx, buf, libc::MSG_PEEK).map_ok(|()| buf.filled().len() - before)
    }
}

/// Addresses and options.
impl TcpStream {
    /// Returns the address of this end.
    ///
    /// # Errors
    /// The system's errors.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    /// Returns the address of the other end.
    ///
    /// # Errors
    /// The system's errors, for instance that the stream is not connected any more.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.io.peer_addr()
    }

    take_error!();

    options! {
        /// Makes the system send small writes at once instead of gathering them (`TCP_NODELAY`).
        nodelay, set_nodelay(nodelay: bool) => tcp_nodelay, set_tcp_nodelay;
        /// Makes the system acknowledge at once what arrives (`TCP_QUICKACK`). The system may turn this off
        /// by itself.
        quickack, set_quickack(quickack: bool) => tcp_quickack, set_tcp_quickack;
        /// Sets the time to live of the packets that the socket sends (`IP_TTL`), in hops.
        ttl, set_ttl(ttl: u32) => ttl_v4, set_ttl_v4;
        /// Sets how long closing waits for unsent bytes (`SO_LINGER`), in whole seconds.
        ///
        /// With a time, dropping the stream blocks its thread until the bytes are acknowledged or the time is
        /// over. With zero, the drop discards the bytes and resets the connection at once, as
        /// [`set_zero_linger`](Self::set_zero_linger).
        #[deprecated = "dropping a stream that lingers blocks its thread; use `set_zero_linger`"]
        linger, set_linger(limit: Option<Duration>) => linger, set_linger;
    }

    /// Makes closing reset the connection, and drops the bytes that are not sent.
    ///
    /// # Errors
    /// The system's errors.
    pub fn set_zero_linger(&self) -> io::Result<()> {
        SockRef::from(&*self.io).set_linger(Some(Duration::ZERO))
    }
}

face::bytes::stream_socket!(TcpStream, mio::net::TcpStream, setup!());
face::descriptor::std_socket!(
    TcpStream,
    std::net::TcpStream,
    mio::net::TcpStream,
    "stream",
    "# let listener = std::net::TcpListener::bind(\"127.0.0.1:0\")?;
let stream = std::net::TcpStream::connect(listener.local_addr()?)?;"
);

impl AsRef<TcpStream> for TcpStream {
    fn as_ref(&self) -> &TcpStream {
        self
    }
}
