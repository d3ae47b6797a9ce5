//! Unix sockets before they are registered. They are not blocking, and `exec` closes them.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use socket2::{Domain, SockAddr, Socket, Type};

use super::SocketAddr;

/// Creates a socket without an address.
pub(super) fn new(kind: Type) -> io::Result<Socket> {
    Socket::new(Domain::UNIX, kind.nonblocking().cloexec(), None)
}

/// Creates a socket with the address `addr`.
pub(super) fn bound(kind: Type, addr: &SocketAddr) -> io::Result<Socket> {
    let socket = new(kind)?;
    socket.bind(&raw_addr(addr)?)?;
    Ok(socket)
}

/// The address for `bind` and `connect`. Those of mio cut an abstract name that is empty or begins with
/// another zero byte. (A send takes `Sockaddr::unix`, which allocates nothing.)
pub(super) fn raw_addr(addr: &SocketAddr) -> io::Result<SockAddr> {
    SockAddr::unix(Path::new(OsStr::from_bytes(&addr.to_bytes())))
}
