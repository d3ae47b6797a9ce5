//! Sockets of the Unix family: between processes of one machine.
//!
//! [`UnixListener`](super::UnixListener) and [`UnixStream`](super::UnixStream) are in [`net`](super). This
//! module has what belongs to them: [`SocketAddr`], the credentials of a peer ([`UCred`]), the halves of a
//! stream. It also has [pipes](pipe).
//!
//! An address is a path, and `bind` makes a file there. The file stays when the socket is dropped, and `bind`
//! fails as long as it is there. So remove it before or after. A path that begins with a zero byte is a name
//! in Linux's abstract namespace instead, which leaves no file behind.

mod addr;
pub(super) mod datagram;
mod example;
mod halves;
pub(super) mod listener;
pub mod pipe;
mod raw;
mod sockaddr;
pub(super) mod socket;
pub(super) mod stream;
mod ucred;

pub use addr::SocketAddr;
pub use halves::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
pub use ucred::{UCred, gid_t, pid_t, uid_t};
