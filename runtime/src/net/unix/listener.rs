//! A Unix socket that accepts connections.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::Path;
use std::task::{Context, Poll, ready};

use socket2::Type;

use super::SocketAddr;
use super::raw;
use super::stream::UnixStream;
use crate::driver::io::{Direction, Interest};
use crate::io::registered::{Registered, WatchMode};
use crate::net::face;
use crate::net::face::options::take_error;

const WATCH: WatchMode = WatchMode::new("UnixListener", Interest::READABLE);

/// A Unix socket that accepts connections.
///
/// Any number of tasks may [`accept`](Self::accept) from it at once.
/// [`TcpListener`](crate::net::TcpListener#out-of-descriptors) says what happens when the process has no
/// descriptor left.
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let name = format!("\0runtime-listener-{}", std::process::id());
/// use runtime::io::{AsyncReadExt, AsyncWriteExt};
/// use runtime::net::{UnixListener, UnixStream};
///
/// let listener = UnixListener::bind(&name)?;
/// let mut client = UnixStream::connect(&name).await?;
/// let (mut server, _) = listener.accept().await?;
///
/// server.write_all(b"hello").await?;
/// let mut buf = [0; 5];
/// client.read_exact(&mut buf).await?;
/// assert_eq!(&buf, b"hello");
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
pub struct UnixListener {
    io: Registered<mio::net::UnixListener>,
}

impl UnixListener {
    /// Creates a socket at `path` and listens. If `path` begins with a zero byte, it is an abstract name.
    ///
    /// The file at `path` stays when the listener is dropped. As many connections wait to be accepted as the
    /// system allows (`/proc/sys/net/core/somaxconn`).
    ///
    /// # Errors
    /// The system's errors, with the path in the text: `bind /run/server: Address already in use` if there is
    /// a file, whether a socket listens there or not. [`InvalidInput`](io::ErrorKind::InvalidInput) if `path`
    /// is longer than the 107 bytes of an address, or has a zero byte inside.
    ///
    /// # Panics
    /// Outside of a runtime, or if its I/O is not enabled: build it with `enable_io` or `enable_all`. No file
    /// is made then.
    #[track_caller]
    pub fn bind<P>(path: P) -> io::Result<UnixListener>
    where
        P: AsRef<Path>,
    {
        Self::bind_addr(&SocketAddr::of_path("bind", path.as_ref())?)
    }

    /// Creates a socket with this address and listens.
    ///
    /// # Errors
    /// As for [`bind`](Self::bind).
    ///
    /// # Panics
    /// As for [`bind`](Self::bind).
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let name = format!("runtime-bind-addr-{}", std::process::id());
    /// use std::os::{linux::net::SocketAddrExt, unix::net::SocketAddr};
    ///
    /// let addr = SocketAddr::from_abstract_name(name)?;
    /// let listener = runtime::net::UnixListener::bind_addr(&addr.into())?;
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    #[track_caller]
    pub fn bind_addr(socket_addr: &SocketAddr) -> io::Result<UnixListener> {
        let handle = WATCH.current_runtime();
        let listener = socket_addr.add_to("bind", listen(socket_addr))?;
        Ok(UnixListener { io: Registered::with_handle(listener, WATCH, handle)? })
    }

    #[track_caller]
    fn register(listener: mio::net::UnixListener) -> io::Result<UnixListener> {
        Ok(UnixListener { io: Registered::new(listener, WATCH)? })
    }

    /// Accepts a connection, and returns it with the peer's address, which is mostly unnamed.
    ///
    /// The stream belongs to the runtime of the listener, whichever task accepts it.
    ///
    /// # Errors
    /// The system's errors, unchanged. The listener can still be used. Or an error if the listener's runtime
    /// was shut down.
    ///
    /// # Cancel safety
    /// Safe: a connection that has not been returned waits for the next call.
    pub async fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        let accepted = self.io.async_io(Interest::READABLE, || accept(&self.io)).await?;
        self.welcome(accepted)
    }

    /// Polls for a connection to accept. If several tasks poll, only the last task that called is woken.
    ///
    /// # Errors
    /// As for [`accept`](Self::accept).
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(UnixStream, SocketAddr)>> {
        let accepted = ready!(self.io.poll_io(cx, Direction::Read, || accept(&self.io)))?;
        Poll::Ready(self.welcome(accepted))
    }

    fn welcome(&self, accepted: Accepted) -> io::Result<(UnixStream, SocketAddr)> {
        let Accepted { stream, is_named } = accepted;
        let peer = if is_named { SocketAddr(stream.peer_addr()?) } else { SocketAddr::unnamed() };
        Ok((UnixStream::register_accepted(stream, self.io.handle())?, peer))
    }

    /// Returns the address on which the socket listens.
    ///
    /// # Errors
    /// The system's errors.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr().map(SocketAddr)
    }

    take_error!();
}

face::descriptor::std_socket!(
    UnixListener,
    std::os::unix::net::UnixListener,
    mio::net::UnixListener,
    "listener",
    "# use std::os::linux::net::SocketAddrExt;
# let name = format!(\"runtime-std-listener-{}-{}\", line!(), std::process::id());
# let addr = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
let listener = std::os::unix::net::UnixListener::bind_addr(&addr)?;"
);

/// Creates a socket that listens, with the longest queue that the system allows.
fn listen(addr: &SocketAddr) -> io::Result<mio::net::UnixListener> {
    let socket = raw::bound(Type::STREAM, addr)?;
    socket.listen(-1)?;
    Ok(mio::net::UnixListener::from_std(socket.into()))
}

/// A connection that is not registered yet.
struct Accepted {
    stream: mio::net::UnixStream,
    /// The peer has an address.
    is_named: bool,
}

/// Accepts as mio's function does, which reports an abstract name as no address. This call asks only for the
/// length of the address, because clients seldom have one.
fn accept(listener: &mio::net::UnixListener) -> io::Result<Accepted> {
    const UNNAMED: libc::socklen_t = size_of::<libc::sa_family_t>() as libc::socklen_t;
    let (mut family, mut len): (libc::sa_family_t, _) = (0, UNNAMED);
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: the call writes to `family` as many bytes as `len` says, and to `len` the length of the
    // address.
    let number = unsafe { libc::accept4(listener.as_raw_fd(), (&raw mut family).cast(), &mut len, flags) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the system has just given this descriptor to us.
    let stream = unsafe { mio::net::UnixStream::from_raw_fd(number) };
    Ok(Accepted { stream, is_named: len > UNNAMED })
}
