//! The credentials of a peer.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The user, the group and the process at the other end of a Unix stream.
/// [`UnixStream::peer_cred`](crate::net::UnixStream::peer_cred) makes it.
///
/// They are those at the moment of `connect`, `listen` or `socketpair`. The kernel records them, so the peer
/// cannot lie. But the process may have ended since, and its number may belong to another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UCred {
    pid: Option<pid_t>,
    uid: uid_t,
    gid: gid_t,
}

impl UCred {
    /// Returns the number of the user.
    pub fn uid(&self) -> uid_t {
        self.uid
    }

    /// Returns the number of the group.
    pub fn gid(&self) -> gid_t {
        self.gid
    }

    /// Returns the number of the process, which Linux always knows. It is 0 for a process outside of the
    /// caller's PID namespace.
    pub fn pid(&self) -> Option<pid_t> {
        self.pid
    }

    /// Asks the system (`SO_PEERCRED`).
    pub(super) fn of_peer(socket: BorrowedFd<'_>) -> io::Result<UCred> {
        let mut cred = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut len = size_of_val(&cred) as libc::socklen_t;
        // SAFETY: the call writes at most `len` bytes to `cred`, and writes `len` itself.
        let result = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut cred).cast(),
                &mut len,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(UCred { pid: Some(cred.pid), uid: cred.uid, gid: cred.gid })
    }
}

/// The number of a user.
#[allow(non_camel_case_types, reason = "Tokio's name")]
pub type uid_t = u32;

/// The number of a group.
#[allow(non_camel_case_types, reason = "Tokio's name")]
pub type gid_t = u32;

/// The number of a process, or of a group of processes.
#[allow(non_camel_case_types, reason = "Tokio's name")]
pub type pid_t = i32;
