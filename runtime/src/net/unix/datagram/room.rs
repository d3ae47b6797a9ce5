//! Room at a receiver that the sender is not connected to.
//!
//! A receiver's queue is short (`/proc/sys/net/unix/max_dgram_qlen`: 10 datagrams or some hundred). When it
//! is full, the system answers `EAGAIN`, as it does when the sender's own buffer is full. But what is full
//! then is not the sender's socket: that can send elsewhere, stays writable, and no event of it tells when
//! the receiver has room. On the contrary: the refused datagram is freed, which the system reports as room,
//! so a sender that waits for its own socket tries again at once, again and again, for as long as the
//! receiver does not read.
//!
//! So a sender that is refused asks which of the two is full. If it is the receiver, the sender's socket
//! stays ready, and the sender waits at a [`Room`]: a socket of its own, that is connected to the receiver
//! for nothing but this. A connected socket is writable when its peer has room, and the system tells when it
//! becomes so. A room is used for one wait; when it is over, and the queue is full again, the next room asks
//! the system anew.
//!
//! Rejected: to clear the readiness of the sender's socket, which would hold up senders to other receivers as
//! well, behind a receiver that may never read; a timer, which is late or busy.

use std::io;
use std::os::fd::AsRawFd;
use std::task::{Context, Poll};

use crate::Handle;
use crate::driver::io::{Direction, Interest};
use crate::io::registered::{Registered, Watch};
use crate::io::sockaddr::Sockaddr;
use crate::io::transfer;

/// What came of an attempt.
pub(super) enum Attempt {
    /// A datagram of this length was sent.
    Sent(usize),
    /// There is no room at the receiver.
    NoRoom,
}

/// Sends `bytes` to `target`; returns `WouldBlock` only if it is `socket` that has no room.
pub(super) fn attempt(
    socket: &mio::net::UnixDatagram,
    bytes: &[u8],
    target: &Sockaddr<libc::sockaddr_un>,
) -> io::Result<Attempt> {
    match transfer::send_to(socket, bytes, target) {
        Ok(n) => Ok(Attempt::Sent(n)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock && has_room(socket)? => Ok(Attempt::NoRoom),
        Err(error) => Err(error),
    }
}

/// Whether the buffer of `socket` has room for another datagram: the system's own question before it takes
/// one.
fn has_room(socket: &mio::net::UnixDatagram) -> io::Result<bool> {
    let mut used: libc::c_int = 0;
    // SAFETY: writes a number.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut used) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((used as usize) < socket2::SockRef::from(socket).send_buffer_size()?)
}

/// A socket that is connected to a receiver, and writable when that has room.
#[derive(Debug)]
pub(super) struct Room(Registered<mio::net::UnixDatagram>);

impl Room {
    /// # Errors
    /// The system's errors: that there is no receiver any more, or no descriptor left.
    pub(super) fn at(target: &Sockaddr<libc::sockaddr_un>, handle: &Handle) -> io::Result<Room> {
        let socket = mio::net::UnixDatagram::unbound()?;
        let (addr, len) = target.as_ptr();
        // SAFETY: reads `target`, which is borrowed.
        if unsafe { libc::connect(socket.as_raw_fd(), addr, len) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let watch = Watch::new("UnixDatagram", Interest::WRITABLE);
        Registered::with_handle(socket, watch, handle.clone()).map(Room)
    }

    /// Waits until there is room, or was for a moment.
    pub(super) async fn wait(self) -> io::Result<()> {
        self.0.ready(Interest::WRITABLE).await.map(drop)
    }

    pub(super) fn poll_wait(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_ready(cx, Direction::Write).map_ok(drop)
    }
}
