//! Waiting for a receiver to which the sender is not connected.
//!
//! A receiver's queue is short (`/proc/sys/net/unix/max_dgram_qlen`: 10 datagrams or some hundred). When the
//! queue is full, the system returns `EAGAIN`, as it does when the sender's own buffer is full. But in the
//! first case the sender's socket is not full. It can send elsewhere, it stays writable, and none of its
//! events tells when the receiver has room. On the contrary: the system frees the refused datagram and
//! reports that as room. So a sender that waits for its own socket tries again at once, over and over, for as
//! long as the receiver does not read.
//!
//! So a sender that is refused asks which of the two is full. If it is the receiver, the sender's socket
//! stays ready, and the sender waits at a [`ReceiverWait`]. This is a socket of its own, which is connected
//! to the receiver only for this wait. A connected socket is writable when its peer has room, and the system
//! tells when it becomes so. If the queue is full again after the wait, the next wait has a new socket, which
//! asks the system anew.
//!
//! Rejected: clearing the readiness of the sender's socket, because that would hold up senders to other
//! receivers as well, behind a receiver that may never read; a timer, which is late or busy.

use std::io;
use std::os::fd::AsRawFd;
use std::task::{Context, Poll};

use crate::Handle;
use crate::driver::io::{Direction, Interest};
use crate::io::registered::{Registered, WatchMode};
use crate::io::sockaddr::Sockaddr;
use crate::io::transfer;

/// The result of an attempt.
pub(super) enum Attempt {
    /// A datagram of this length was sent.
    Sent(usize),
    /// The receiver has no room.
    ReceiverFull,
}

/// Sends `bytes` to `target`. Returns `WouldBlock` only if `socket` itself has no room.
pub(super) fn attempt(
    socket: &mio::net::UnixDatagram,
    bytes: &[u8],
    target: &Sockaddr<libc::sockaddr_un>,
) -> io::Result<Attempt> {
    match transfer::send_to(socket, bytes, target) {
        Ok(n) => Ok(Attempt::Sent(n)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock && has_capacity(socket)? => {
            Ok(Attempt::ReceiverFull)
        }
        Err(error) => Err(error),
    }
}

/// Whether the buffer of `socket` has room for another datagram. The system asks the same before it takes a
/// datagram.
fn has_capacity(socket: &mio::net::UnixDatagram) -> io::Result<bool> {
    let mut used: libc::c_int = 0;
    // SAFETY: the call writes one `c_int` to `used`, which is borrowed exclusively.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut used) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((used as usize) < socket2::SockRef::from(socket).send_buffer_size()?)
}

/// A socket that is connected to a receiver, and is writable when the receiver has room.
#[derive(Debug)]
pub(super) struct ReceiverWait(Registered<mio::net::UnixDatagram>);

impl ReceiverWait {
    /// Connects to `target`.
    ///
    /// # Errors
    /// The system's errors, for instance that the receiver is gone, or that no descriptor is left.
    pub(super) fn at(target: &Sockaddr<libc::sockaddr_un>, handle: &Handle) -> io::Result<ReceiverWait> {
        let socket = mio::net::UnixDatagram::unbound()?;
        let (addr, len) = target.as_ptr();
        // SAFETY: the call reads `target`, which is borrowed.
        if unsafe { libc::connect(socket.as_raw_fd(), addr, len) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let watch = WatchMode::new("UnixDatagram", Interest::WRITABLE);
        Registered::with_handle(socket, watch, handle.clone()).map(ReceiverWait)
    }

    /// Waits until there is room, or was for a moment.
    pub(super) async fn wait(self) -> io::Result<()> {
        self.0.ready(Interest::WRITABLE).await.map(drop)
    }

    pub(super) fn poll_wait(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_ready(cx, Direction::Write).map_ok(drop)
    }
}
