//! A connection.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BufMut;
use socket2::SockRef;

use super::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, WriteHalf, split, split_owned};
use crate::Handle;
use crate::driver::io::{Direction, Interest, Ready};
use crate::io::registered::Registered;
use crate::io::{AsyncRead, AsyncWrite, ReadBuf};
use crate::net::addr::{self, ToSocketAddrs};
use crate::net::addr_error::with_addr;

/// A TCP connection.
///
/// Read and written by the methods of [`AsyncReadExt`](crate::io::AsyncReadExt) and
/// [`AsyncWriteExt`](crate::io::AsyncWriteExt). [`split`](Self::split) and [`into_split`](Self::into_split) divide it
/// between who reads and who writes. Dropping it closes the connection;
/// [`shutdown`](crate::io::AsyncWriteExt::shutdown) closes only the writing side.
///
/// Of several tasks that read at once through `poll_*` functions or `AsyncRead`, only the last one that polled is
/// woken; likewise for writing. [`readable`](Self::readable), [`writable`](Self::writable), [`ready`](Self::ready) and
/// [`async_io`](Self::async_io) can be awaited by any number of tasks.
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
    /// Connects to the first of the addresses for which it works, trying one after the other.
    ///
    /// # Errors
    /// Those of the last address, which the text names: `connect 127.0.0.1:1: Connection refused`.
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
                Err(error) => last_error = Some(with_addr("connect", addr, error)),
            }
        }
        Err(last_error.unwrap_or_else(addr::no_address))
    }

    async fn connect_to(addr: SocketAddr) -> io::Result<TcpStream> {
        Self::finish_connect(mio::net::TcpStream::connect(addr)?).await
    }

    /// Registers a socket that has begun to connect, and waits until it has ended.
    pub(super) async fn finish_connect(connecting: mio::net::TcpStream) -> io::Result<TcpStream> {
        let stream = Self::register(connecting, Ready::EMPTY)?;
        stream
            .io
            .async_io(Interest::WRITABLE, || {
                if let Some(error) = stream.io.take_error()? {
                    return Err(error);
                }
                // Writable without a peer: the event was about something else, and the connection is under way.
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

    /// Takes over a stream of the standard library.
    ///
    /// It is set to non-blocking mode here. (Tokio leaves that to the caller, and blocks a worker if it was forgotten.)
    ///
    /// # Errors
    /// Those of the system; the stream is closed then.
    ///
    /// # Panics
    /// Outside of a runtime, or if its I/O is not enabled: call it inside `block_on`, a task, or the scope of
    /// `Handle::enter`, and build the runtime with `enable_io` or `enable_all`.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    /// let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    /// let stream = runtime::net::TcpStream::from_std(stream).unwrap();
    /// # });
    /// ```
    #[track_caller]
    pub fn from_std(stream: std::net::TcpStream) -> io::Result<TcpStream> {
        stream.set_nonblocking(true)?;
        Self::register(mio::net::TcpStream::from_std(stream), Ready::EMPTY)
    }

    /// Gives the socket back as a stream of the standard library, still in non-blocking mode.
    ///
    /// # Errors
    /// Those of the system; the connection is closed then.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    /// # let addr = listener.local_addr().unwrap();
    /// let stream = runtime::net::TcpStream::connect(addr).await.unwrap();
    /// stream.into_std().unwrap().set_nonblocking(false).unwrap();
    /// # });
    /// ```
    pub fn into_std(self) -> io::Result<std::net::TcpStream> {
        self.io.into_inner().map(Into::into)
    }

    #[track_caller]
    fn register(stream: mio::net::TcpStream, assumed: Ready) -> io::Result<TcpStream> {
        let io = Registered::new(stream, Interest::READABLE | Interest::WRITABLE, assumed, "TcpStream")?;
        Ok(TcpStream { io })
    }

    /// An accepted connection is writable, and often the request has come with it: both are tried without waiting
    /// for the first event.
    pub(super) fn register_accepted(stream: mio::net::TcpStream, handle: &Handle) -> io::Result<TcpStream> {
        let assumed = Ready::READABLE | Ready::WRITABLE;
        let interest = Interest::READABLE | Interest::WRITABLE;
        let io = Registered::with_handle(stream, interest, assumed, handle.clone(), "TcpStream")?;
        Ok(TcpStream { io })
    }
}

/// Waiting, and trying without waiting.
impl TcpStream {
    /// Waits until the stream is ready for any of `interest`, and says for what.
    ///
    /// Readiness stays until an operation finds that it is over, so follow it by [`try_read`](Self::try_read) and the
    /// like, which tell the stream; otherwise this returns at once for ever.
    ///
    /// # Errors
    /// If the runtime that watches the stream was shut down.
    ///
    /// # Cancel safety
    /// Safe.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let listener = runtime::net::TcpListener::bind("127.0.0.1:0").await?;
    /// # let stream = runtime::net::TcpStream::connect(listener.local_addr()?).await?;
    /// use runtime::io::Interest;
    ///
    /// let ready = stream.ready(Interest::READABLE | Interest::WRITABLE).await?;
    /// assert!(ready.is_writable());
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        Ok(self.io.ready(interest).await?.ready)
    }

    /// Waits until the stream is readable: `ready(Interest::READABLE)`.
    ///
    /// # Errors
    /// As for [`ready`](Self::ready).
    ///
    /// # Cancel safety
    /// Safe.
    ///
    /// # Examples
    /// ```
    /// # async fn f(stream: runtime::net::TcpStream) -> std::io::Result<usize> {
    /// let mut buf = [0; 1024];
    /// loop {
    ///     stream.readable().await?;
    ///     match stream.try_read(&mut buf) {
    ///         Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
    ///         result => return result,
    ///     }
    /// }
    /// # }
    /// ```
    pub async fn readable(&self) -> io::Result<()> {
        self.ready(Interest::READABLE).await.map(drop)
    }

    /// Waits until the stream is writable: `ready(Interest::WRITABLE)`.
    ///
    /// # Errors
    /// As for [`ready`](Self::ready).
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn writable(&self) -> io::Result<()> {
        self.ready(Interest::WRITABLE).await.map(drop)
    }

    /// Polls until the stream is readable; of several tasks, only the last one that called is woken.
    ///
    /// # Errors
    /// As for [`ready`](Self::ready).
    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_ready(cx, Direction::Read).map_ok(drop)
    }

    /// Polls until the stream is writable; of several tasks, only the last one that called is woken.
    ///
    /// # Errors
    /// As for [`ready`](Self::ready).
    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_ready(cx, Direction::Write).map_ok(drop)
    }

    /// Reads what is there into `buf`, without waiting.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is nothing, or those of the system.
    pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.io.try_io(Interest::READABLE, || (&*self.io).read(buf))
    }

    /// Reads what is there into `bufs`, one after the other, without waiting.
    ///
    /// # Errors
    /// As for [`try_read`](Self::try_read).
    pub fn try_read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.io.try_io(Interest::READABLE, || (&*self.io).read_vectored(bufs))
    }

    /// Reads what is there into the room that `buf` has, without waiting, and advances it.
    ///
    /// # Errors
    /// As for [`try_read`](Self::try_read).
    pub fn try_read_buf<B: BufMut>(&self, buf: &mut B) -> io::Result<usize> {
        self.io.try_io(Interest::READABLE, || {
            let room = buf.chunk_mut();
            // SAFETY: `recv` only writes the bytes it is given, and no more than `room` has.
            let bytes = unsafe { std::slice::from_raw_parts_mut(room.as_mut_ptr(), room.len()) };
            let n = (&*self.io).read(bytes)?;
            // SAFETY: `recv` has written the first `n` bytes.
            unsafe { buf.advance_mut(n) };
            Ok(n)
        })
    }

    /// Writes the beginning of `buf`, as far as there is room, without waiting.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is none, or those of the system.
    pub fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        self.io.try_io(Interest::WRITABLE, || (&*self.io).write(buf))
    }

    /// Writes the beginning of `bufs`, one after the other, without waiting.
    ///
    /// # Errors
    /// As for [`try_write`](Self::try_write).
    pub fn try_write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.io.try_io(Interest::WRITABLE, || (&*self.io).write_vectored(bufs))
    }

    /// Calls `f`, an operation on this socket, if the stream is ready for `interest`; clears that readiness if it
    /// answers [`WouldBlock`](io::ErrorKind::WouldBlock).
    ///
    /// `f` must answer so only because the socket did: a readiness cleared without reason comes back with the next
    /// event at best.
    ///
    /// # Errors
    /// `WouldBlock` if the stream is not ready, or those of `f`.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let listener = runtime::net::TcpListener::bind("127.0.0.1:0").await?;
    /// # let stream = runtime::net::TcpStream::connect(listener.local_addr()?).await?;
    /// use runtime::io::Interest;
    /// use std::{io, os::fd::AsRawFd};
    ///
    /// let fd = stream.as_raw_fd();
    /// let error = stream.try_io(Interest::READABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into())).unwrap_err();
    /// assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    pub fn try_io<R>(&self, interest: Interest, f: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        self.io.try_io(interest, f)
    }

    /// Calls `f`, an operation on this socket, whenever the stream is ready for `interest`, until it answers anything
    /// but [`WouldBlock`](io::ErrorKind::WouldBlock).
    ///
    /// As for [`try_io`](Self::try_io), `f` must answer so only because the socket did.
    ///
    /// # Errors
    /// Those of `f`, or if the runtime that watches the stream was shut down.
    ///
    /// # Cancel safety
    /// Safe: `f` is not interrupted.
    pub async fn async_io<R>(&self, interest: Interest, f: impl FnMut() -> io::Result<R>) -> io::Result<R> {
        self.io.async_io(interest, f).await
    }

    /// Reads into `buf` without taking the bytes from the stream, and says how many.
    ///
    /// # Errors
    /// Those of the system.
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
        self.io.async_io(Interest::READABLE, || self.io.peek(buf)).await
    }

    /// Polls for bytes to look at, without taking them, and says how many have been put into `buf`. Of several tasks,
    /// only the last one that called is woken.
    ///
    /// # Errors
    /// Those of the system.
    pub fn poll_peek(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<usize>> {
        let bytes = buf.initialize_unfilled();
        let n = ready!(self.io.poll_io(cx, Direction::Read, || self.io.peek(bytes)))?;
        buf.advance(n);
        Poll::Ready(Ok(n))
    }

    pub(super) fn poll_read_shared(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.io.poll_read(cx, buf)
    }

    pub(super) fn poll_write_shared(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.io.poll_write(cx, buf)
    }

    pub(super) fn poll_write_vectored_shared(
        &self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.io.poll_write_vectored(cx, bufs)
    }

    pub(super) fn shutdown_write(&self) -> io::Result<()> {
        self.io.shutdown(Shutdown::Write)
    }
}

/// Addresses and options.
impl TcpStream {
    /// Returns the address of this end.
    ///
    /// # Errors
    /// Those of the system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    /// Returns the address of the other end.
    ///
    /// # Errors
    /// Those of the system, such as that there is none any more.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.io.peer_addr()
    }

    /// Takes the error that waits on the socket (`SO_ERROR`), if there is one.
    ///
    /// # Errors
    /// Those of the system.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.io.take_error()
    }

    /// Says whether small writes are sent at once instead of being gathered (`TCP_NODELAY`).
    ///
    /// # Errors
    /// Those of the system.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.io.nodelay()
    }

    /// Has small writes sent at once instead of gathered (`TCP_NODELAY`).
    ///
    /// # Errors
    /// Those of the system.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.io.set_nodelay(nodelay)
    }

    /// Says whether what arrives is acknowledged at once (`TCP_QUICKACK`).
    ///
    /// # Errors
    /// Those of the system.
    pub fn quickack(&self) -> io::Result<bool> {
        SockRef::from(&*self.io).tcp_quickack()
    }

    /// Has what arrives acknowledged at once (`TCP_QUICKACK`); the system may take it back by itself.
    ///
    /// # Errors
    /// Those of the system.
    pub fn set_quickack(&self, quickack: bool) -> io::Result<()> {
        SockRef::from(&*self.io).set_tcp_quickack(quickack)
    }

    /// Returns for how long closing waits for unsent bytes (`SO_LINGER`), in seconds; `None` if it does not.
    ///
    /// # Errors
    /// Those of the system.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        SockRef::from(&*self.io).linger()
    }

    /// Sets for how long closing waits for unsent bytes (`SO_LINGER`), in whole seconds.
    ///
    /// With a time, dropping the stream blocks its thread until the bytes are acknowledged or the time is over. With
    /// zero it drops them and resets the connection at once: [`set_zero_linger`](Self::set_zero_linger).
    ///
    /// # Errors
    /// Those of the system.
    pub fn set_linger(&self, limit: Option<Duration>) -> io::Result<()> {
        SockRef::from(&*self.io).set_linger(limit)
    }

    /// Has closing reset the connection instead of sending what is left.
    ///
    /// # Errors
    /// Those of the system.
    pub fn set_zero_linger(&self) -> io::Result<()> {
        self.set_linger(Some(Duration::ZERO))
    }

    /// Returns the time to live of the packets it sends (`IP_TTL`), in hops.
    ///
    /// # Errors
    /// Those of the system.
    pub fn ttl(&self) -> io::Result<u32> {
        self.io.ttl()
    }

    /// Sets the time to live of the packets it sends (`IP_TTL`), in hops.
    ///
    /// # Errors
    /// Those of the system.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.io.set_ttl(ttl)
    }
}

/// Reading and writing at the same time.
impl TcpStream {
    /// Divides the borrowed stream between who reads and who writes, at no cost; both stay in this task.
    ///
    /// # Examples
    /// ```
    /// # async fn f(mut stream: runtime::net::TcpStream) -> std::io::Result<()> {
    /// let (mut reader, mut writer) = stream.split();
    /// runtime::io::copy(&mut reader, &mut writer).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn split(&mut self) -> (ReadHalf<'_>, WriteHalf<'_>) {
        split::split(self)
    }

    /// Divides the stream between who reads and who writes, each with a life of its own.
    ///
    /// Dropping the writing half closes the writing side; [`forget`](OwnedWriteHalf::forget) drops it without.
    /// [`reunite`](OwnedReadHalf::reunite) puts both together again.
    ///
    /// # Examples
    /// ```
    /// # async fn f(stream: runtime::net::TcpStream) -> std::io::Result<()> {
    /// let (mut reader, mut writer) = stream.into_split();
    /// runtime::spawn(async move { runtime::io::copy(&mut reader, &mut writer).await });
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        split_owned::split(self)
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.poll_read_shared(cx, buf)
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_shared(cx, buf)
    }

    /// Does nothing: the system holds what was written.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Closes the writing side.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.shutdown_write())
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored_shared(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}

impl TryFrom<std::net::TcpStream> for TcpStream {
    type Error = io::Error;

    /// The same as [`TcpStream::from_std`].
    #[track_caller]
    fn try_from(stream: std::net::TcpStream) -> io::Result<Self> {
        Self::from_std(stream)
    }
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.io.fmt(f)
    }
}

impl AsRef<TcpStream> for TcpStream {
    fn as_ref(&self) -> &TcpStream {
        self
    }
}

impl AsRawFd for TcpStream {
    fn as_raw_fd(&self) -> RawFd {
        self.io.as_raw_fd()
    }
}

impl AsFd for TcpStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }
}
