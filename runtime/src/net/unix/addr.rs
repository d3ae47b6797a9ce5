//! Addresses of Unix sockets.

use std::fmt;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net as std_net;
use std::path::Path;

use crate::util::named_error::named;

/// The address of a Unix socket: a path, a name in Linux's abstract namespace, or nothing.
///
/// [`From`] converts it from and to the address of the standard library.
///
/// # Examples
/// ```
/// use runtime::net::unix::SocketAddr;
/// use std::os::{linux::net::SocketAddrExt, unix::net};
///
/// let addr = SocketAddr::from(net::SocketAddr::from_abstract_name("name")?);
/// assert_eq!(addr.as_abstract_name(), Some(&b"name"[..]));
/// assert!(addr.as_pathname().is_none() && !addr.is_unnamed());
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone)]
pub struct SocketAddr(pub(super) std_net::SocketAddr);

impl SocketAddr {
    /// Returns whether the socket has no address. Sockets of clients mostly have none.
    pub fn is_unnamed(&self) -> bool {
        self.0.is_unnamed()
    }

    /// Returns the path, if the address is a path.
    pub fn as_pathname(&self) -> Option<&Path> {
        self.0.as_pathname()
    }

    /// Returns the name, without the leading zero byte, if the address is in the abstract namespace.
    pub fn as_abstract_name(&self) -> Option<&[u8]> {
        self.0.as_abstract_name()
    }

    pub(super) fn unnamed() -> Self {
        Self(std_net::SocketAddr::from_pathname("").expect("an empty path is no address"))
    }

    /// Returns the address of `path`, as an argument of `what`. It is an abstract name if it begins with a
    /// zero byte.
    pub(super) fn of_path(what: &'static str, path: &Path) -> io::Result<Self> {
        let addr = match path.as_os_str().as_bytes() {
            [0, name @ ..] => std_net::SocketAddr::from_abstract_name(name),
            _ => std_net::SocketAddr::from_pathname(path),
        };
        addr.map(Self).map_err(|error| named(what, shown(path.as_os_str().as_bytes()), error))
    }

    /// Adds the address to the error of a call.
    pub(super) fn add_to<R>(&self, what: &'static str, result: io::Result<R>) -> io::Result<R> {
        result.map_err(|error| named(what, shown(&self.to_bytes()), error))
    }

    /// The address as in a path: an abstract name follows a zero byte.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        match (self.0.as_pathname(), self.0.as_abstract_name()) {
            (Some(path), _) => path.as_os_str().as_bytes().to_owned(),
            (_, Some(name)) => [&[0], name].concat(),
            _ => Vec::new(),
        }
    }
}

/// Prints a path as it is, and an abstract name with the `@` that system tools put before it.
fn shown(path: &[u8]) -> String {
    match path {
        [0, name @ ..] => format!("@{}", name.escape_ascii()),
        path => String::from_utf8_lossy(path).into_owned(),
    }
}

impl fmt::Debug for SocketAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<std_net::SocketAddr> for SocketAddr {
    fn from(addr: std_net::SocketAddr) -> Self {
        Self(addr)
    }
}

impl From<SocketAddr> for std_net::SocketAddr {
    fn from(addr: SocketAddr) -> Self {
        addr.0
    }
}
