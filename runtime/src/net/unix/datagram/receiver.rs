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
//! A receiver that is connected to a peer takes datagrams from that peer alone, and refuses a connection from
//! any other socket (`EPERM`). The system does not limit that peer by the receiver's queue. A sender that is
//! the peer can get here all the same. The sender asks what is full after the system has refused the
//! datagram, and room in its own buffer may appear in between. Or the receiver connects to the sender only
//! then. So after `EPERM` there is no wait, and the sender tries again. The next answer of the system is the
//! right one: the datagram is sent, the sender's own buffer is full, or the sender is not the peer (`EPERM`).
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
    /// Connects to `target`. Returns `None` if `target` is connected to a peer. Then the caller tries to send
    /// again, which costs budget.
    ///
    /// # Errors
    /// The system's errors, for instance that the receiver is gone, or that no descriptor is left.
    pub(super) fn at(
        target: &Sockaddr<libc::sockaddr_un>,
        handle: &Handle,
    ) -> io::Result<Option<ReceiverWait>> {
        let socket = mio::net::UnixDatagram::unbound()?;
        let (addr, len) = target.as_ptr();
        // SAFETY: the call reads `target`, which is borrowed.
        if unsafe { libc::connect(socket.as_raw_fd(), addr, len) } != 0 {
            let error = io::Error::last_os_error();
            return if error.raw_os_error() == Some(libc::EPERM) { Ok(None) } else { Err(error) };
        }
        let watch = WatchMode::new("UnixDatagram", Interest::WRITABLE);
        Registered::with_handle(socket, watch, handle.clone()).map(|socket| Some(ReceiverWait(socket)))
    }

    /// Waits until there is room, or was for a moment.
    pub(super) async fn wait(self) -> io::Result<()> {
        self.0.ready(Interest::WRITABLE).await.map(drop)
    }

    pub(super) fn poll_wait(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_ready(cx, Direction::Write).map_ok(drop)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::net::unix::SocketAddr;

    #[test]
    fn there_is_no_wait_at_a_receiver_that_has_a_peer() {
        let name = |side| format!("\0runtime-receiver-wait-{side}-{}", std::process::id());
        let addr = |side| SocketAddr::of_path("bind to", name(side).as_ref()).unwrap();
        let runtime = crate::Builder::new_current_thread().enable_io().build().unwrap();
        let _guard = runtime.enter();
        let far = crate::net::UnixDatagram::bind(name("far")).unwrap();
        let near = crate::net::UnixDatagram::bind(name("near")).unwrap();
        let far_addr = Sockaddr::unix(&addr("far"));
        assert!(ReceiverWait::at(&far_addr, runtime.handle()).unwrap().is_some());
        far.connect(name("near")).unwrap();
        assert!(ReceiverWait::at(&far_addr, runtime.handle()).unwrap().is_none());
        drop(near);
        drop(far);
        let gone = ReceiverWait::at(&far_addr, runtime.handle()).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::ConnectionRefused);
    }
}
