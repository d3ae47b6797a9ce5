//! A socket for datagrams of the Unix family.

use std::io;
use std::net::Shutdown;
use std::panic::RefUnwindSafe;
use std::path::Path;
use std::task::{Context, Poll, Waker, ready};

use socket2::{SockRef, Type};

use super::receiver::{Attempt, ReceiverWait, attempt};
use crate::Handle;
use crate::driver::io::{Direction, Interest};
use crate::io::registered::{Registered, WatchMode};
use crate::io::sockaddr::Sockaddr;
use crate::loom::sync::Mutex;
use crate::net::face;
use crate::net::face::options::take_error;
use crate::net::unix::SocketAddr;
use crate::net::unix::raw;

const WATCH: WatchMode = WatchMode::datagrams("UnixDatagram");

/// A socket for datagrams between processes of one machine.
///
/// No datagram is lost on the way: a sender waits until the receiver has room.
///
/// A socket that [`bind`](Self::bind) has bound to a path receives from all. After [`connect`](Self::connect)
/// it may [`send`](Self::send). The sockets of a [`pair`](Self::pair) are connected to each other. All
/// methods take a shared reference, so several tasks may share the socket in an `Arc`. Each argument that is
/// a path may begin with a zero byte. It is then a name in Linux's abstract namespace.
///
/// If several tasks wait through `poll_*` functions, only the last task that polled is woken, in each
/// direction. Any number of tasks may await the async functions.
///
/// `recvmsg` in [`async_io`](Self::async_io) receives descriptors and credentials that come along. Other
/// receives drop them.
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let name = format!("\0runtime-datagram-{}", std::process::id());
/// use runtime::net::UnixDatagram;
///
/// let server = UnixDatagram::bind(&name)?;
/// let client = UnixDatagram::unbound()?;
/// client.send_to(b"hello", &name).await?;
/// let mut buf = [0; 16];
/// let (n, client) = server.recv_from(&mut buf).await?;
/// assert_eq!(&buf[..n], b"hello");
/// assert!(client.is_unnamed(), "so it cannot be answered");
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
pub struct UnixDatagram {
    io: Registered<mio::net::UnixDatagram>,
    /// The wait of the task that was the last to wait for a receiver in
    /// [`poll_send_to`](Self::poll_send_to), until that task calls again.
    receiver_wait: Mutex<Option<PolledWait>>,
}

/// A wait between two calls of [`UnixDatagram::poll_send_to`].
struct PolledWait {
    _wait: ReceiverWait,
    /// The waker of the task that waits.
    waker: Waker,
}

// A panic leaves nothing half done, as in `Registered`. No foreign code is called under the lock.
impl RefUnwindSafe for UnixDatagram {}

/// A new socket, and addresses.
impl UnixDatagram {
    /// Creates a socket at `path`.
    ///
    /// The file at `path` stays when the socket is dropped.
    ///
    /// # Errors
    /// The system's errors, with the path in the text: `bind /run/server: Address already in use` if there is
    /// a file. [`InvalidInput`](io::ErrorKind::InvalidInput) if `path` is longer than the 107 bytes of an
    /// address, or has a zero byte inside.
    ///
    /// # Panics
    /// Outside of a runtime, or if its I/O is not enabled: build it with `enable_io` or `enable_all`. No file
    /// is made then.
    #[track_caller]
    pub fn bind<P>(path: P) -> io::Result<UnixDatagram>
    where
        P: AsRef<Path>,
    {
        let addr = SocketAddr::of_path("bind", path.as_ref())?;
        let handle = WATCH.current_runtime();
        let socket = addr.add_to("bind", raw::bound(Type::DGRAM, &addr))?;
        Self::with_handle(mio::net::UnixDatagram::from_std(socket.into()), handle)
    }

    /// Creates a socket without an address. It can send, but the receiver cannot answer until the socket is
    /// connected.
    ///
    /// # Errors
    /// The system's errors.
    ///
    /// # Panics
    /// Outside of a runtime, or if its I/O is not enabled: build it with `enable_io` or `enable_all`.
    #[track_caller]
    pub fn unbound() -> io::Result<UnixDatagram> {
        Self::register(mio::net::UnixDatagram::unbound()?)
    }

    /// Creates two sockets that are connected to each other, without an address.
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
    /// let (near, far) = runtime::net::UnixDatagram::pair()?;
    /// near.send(b"hello").await?;
    /// assert_eq!(far.recv(&mut [0; 16]).await?, 5);
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    #[track_caller]
    pub fn pair() -> io::Result<(UnixDatagram, UnixDatagram)> {
        let (near, far) = mio::net::UnixDatagram::pair()?;
        Ok((Self::register(near)?, Self::register(far)?))
    }

    /// Connects to the socket at `path`. From now on [`send`](Self::send) sends there, and the socket
    /// receives nothing from others.
    ///
    /// It may be called again, for another path.
    ///
    /// # Errors
    /// The system's errors, with the path in the text. [`InvalidInput`](io::ErrorKind::InvalidInput) as for
    /// [`bind`](Self::bind).
    pub fn connect<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        let addr = SocketAddr::of_path("connect", path.as_ref())?;
        addr.add_to("connect", SockRef::from(&*self.io).connect(&raw::raw_addr(&addr)?))
    }

    /// Returns the address of this socket.
    ///
    /// # Errors
    /// The system's errors.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr().map(SocketAddr)
    }

    /// Returns the address of the socket to which this one is connected.
    ///
    /// # Errors
    /// The system's errors, for instance that the socket is not connected.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.io.peer_addr().map(SocketAddr)
    }

    take_error!();

    /// Closes the reading side, the writing side, or both.
    ///
    /// After the reading side is closed, a receive that finds no datagram left fails with
    /// [`UnexpectedEof`](io::ErrorKind::UnexpectedEof). After the writing side is closed, a send fails with
    /// [`BrokenPipe`](io::ErrorKind::BrokenPipe). So does a send of the peer after the reading side is
    /// closed.
    ///
    /// # Errors
    /// The system's errors.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let (near, far) = runtime::net::UnixDatagram::pair()?;
    /// near.shutdown(std::net::Shutdown::Both)?;
    /// assert!(near.recv(&mut [0; 16]).await.is_err());
    /// assert!(far.send(b"hello").await.is_err());
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.io.shutdown(how)
    }

    #[track_caller]
    fn register(socket: mio::net::UnixDatagram) -> io::Result<UnixDatagram> {
        Self::with_handle(socket, WATCH.current_runtime())
    }

    #[track_caller]
    fn with_handle(socket: mio::net::UnixDatagram, handle: Handle) -> io::Result<UnixDatagram> {
        let io = Registered::with_handle(socket, WATCH, handle)?;
        Ok(UnixDatagram { io, receiver_wait: Mutex::new(None) })
    }
}

/// Sending to any address.
impl UnixDatagram {
    /// Sends `buf` as one datagram to the socket at `target`, and returns its length. Waits while that socket
    /// has no room.
    ///
    /// # Errors
    /// The system's errors, for instance that there is no such socket, or that the datagram is too long.
    /// While it waits for room at a receiver, also that no descriptor is left.
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) as for [`bind`](Self::bind).
    ///
    /// # Cancel safety
    /// Safe: if the future is dropped before it is ready, the datagram was not sent.
    pub async fn send_to<P>(&self, buf: &[u8], target: P) -> io::Result<usize>
    where
        P: AsRef<Path>,
    {
        let target = Sockaddr::unix(&SocketAddr::of_path("send to", target.as_ref())?);
        loop {
            match self.io.async_io(Interest::WRITABLE, || attempt(&self.io, buf, &target)).await? {
                Attempt::Sent(n) => return Ok(n),
                Attempt::ReceiverFull => {
                    if let Some(wait) = ReceiverWait::at(&target, self.io.handle())? {
                        wait.wait().await?;
                    }
                }
            }
        }
    }

    /// Polls until `buf` is sent as one datagram to the socket at `target`. If several tasks poll, only the
    /// last task that called is woken.
    ///
    /// # Errors
    /// As for [`send_to`](Self::send_to).
    pub fn poll_send_to<P>(&self, cx: &mut Context<'_>, buf: &[u8], target: P) -> Poll<io::Result<usize>>
    where
        P: AsRef<Path>,
    {
        self.end_wait_of(cx.waker());
        let target = Sockaddr::unix(&SocketAddr::of_path("send to", target.as_ref())?);
        loop {
            let attempt = || attempt(&self.io, buf, &target);
            match ready!(self.io.poll_io(cx, Direction::Write, attempt))? {
                Attempt::Sent(n) => return Poll::Ready(Ok(n)),
                Attempt::ReceiverFull => {}
            }
            let Some(wait) = ReceiverWait::at(&target, self.io.handle())? else { continue };
            if wait.poll_wait(cx)?.is_pending() {
                let polled = PolledWait { _wait: wait, waker: cx.waker().clone() };
                let previous = self.receiver_wait.lock().replace(polled);
                drop(previous);
                return Poll::Pending;
            }
        }
    }

    /// Ends the wait of an earlier call, if `waker` belongs to the same task. The wait holds a descriptor and
    /// a waker, which would stay as long as this socket. The wait of another task goes on.
    fn end_wait_of(&self, waker: &Waker) {
        let own = self.receiver_wait.lock().take_if(|polled| polled.waker.will_wake(waker));
        // After the lock, because the drop of a waker may call foreign code.
        drop(own);
    }

    /// Sends `buf` as one datagram to the socket at `target` without waiting, and returns its length.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if this socket or the receiver has no room, or as for
    /// [`send_to`](Self::send_to). This socket stays writable if only the receiver has no room.
    /// [`send_to`](Self::send_to) waits for room at the receiver.
    pub fn try_send_to<P>(&self, buf: &[u8], target: P) -> io::Result<usize>
    where
        P: AsRef<Path>,
    {
        let target = Sockaddr::unix(&SocketAddr::of_path("send to", target.as_ref())?);
        match self.io.try_io(Interest::WRITABLE, || attempt(&self.io, buf, &target))? {
            Attempt::Sent(n) => Ok(n),
            Attempt::ReceiverFull => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

face::datagrams::datagram_socket!(
    UnixDatagram,
    mio::net::UnixDatagram,
    SocketAddr,
    "# let (socket, peer) = runtime::net::UnixDatagram::pair()?;
# peer.send(b\"hello\").await?;"
);
face::descriptor::std_socket!(
    UnixDatagram,
    std::os::unix::net::UnixDatagram,
    mio::net::UnixDatagram,
    "socket",
    "let (socket, _peer) = std::os::unix::net::UnixDatagram::pair()?;"
);
