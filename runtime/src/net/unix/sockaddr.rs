//! Addresses of the Unix family as the system reads and writes them.

use std::io;
use std::mem::{MaybeUninit, offset_of};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net as std_net;
use std::path::Path;

use super::SocketAddr;
use crate::io::sockaddr::{Family, Sockaddr};
use crate::io::transfer::{self, Datagrams};

/// The offset of the path.
const PATH: usize = offset_of!(libc::sockaddr_un, sun_path);

// SAFETY: (1) it is numbers, and an array of numbers. (2) It begins with the family, and has the same
// alignment.
unsafe impl Family for libc::sockaddr_un {}

impl Datagrams for mio::net::UnixDatagram {
    type Addr = SocketAddr;
    type Family = libc::sockaddr_un;

    #[inline]
    fn receive_from(
        &self,
        bytes: &mut [MaybeUninit<u8>],
        flags: libc::c_int,
    ) -> io::Result<(usize, SocketAddr)> {
        let (n, from) = transfer::receive_from::<libc::sockaddr_un>(self, bytes, flags)?;
        Ok((n, from.to_addr()))
    }
}

impl Sockaddr<libc::sockaddr_un> {
    pub(super) fn unix(addr: &SocketAddr) -> Self {
        let mut storage = *Self::empty().storage();
        storage.sun_family = libc::AF_UNIX as libc::sa_family_t;
        // A path ends with a zero byte, and an abstract name begins with one. The storage has zeros already,
        // so neither is copied.
        let (start, bytes, end) = match (addr.as_pathname(), addr.as_abstract_name()) {
            (Some(path), _) => (0, path.as_os_str().as_bytes(), 1),
            (_, Some(name)) => (1, name, 0),
            _ => (0, &[][..], 0),
        };
        for (to, &from) in storage.sun_path[start..].iter_mut().zip(bytes) {
            *to = from as libc::c_char;
        }
        Self::new(storage, PATH + start + bytes.len() + end)
    }

    /// Returns the address that the system has written.
    fn to_addr(self) -> SocketAddr {
        let path = &self.storage().sun_path;
        // The zero byte behind the longest path has no room, and the system counts it all the same.
        let len = self.len().clamp(PATH, size_of::<libc::sockaddr_un>()) - PATH;
        let path: Vec<u8> = path[..len].iter().map(|&byte| byte as u8).collect();
        let addr = match &path[..] {
            [] => return SocketAddr::unnamed(),
            [0, name @ ..] => std_net::SocketAddr::from_abstract_name(name),
            path => {
                let end = path.iter().position(|&byte| byte == 0).unwrap_or(path.len());
                std_net::SocketAddr::from_pathname(Path::new(std::ffi::OsStr::from_bytes(&path[..end])))
            }
        };
        // A path of 108 bytes, which std cannot hold. The datagram is more important than its sender's
        // address.
        addr.map_or_else(|_| SocketAddr::unnamed(), SocketAddr)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_the_same_there_and_back() {
        let long = format!("/{}", "x".repeat(106));
        for path in
            ["/a/path", "relative", "\0name", "\0", "\0with\0zeros\0", "", &long, &format!("\0{long}")]
        {
            let addr = SocketAddr::of_path("test", Path::new(path)).unwrap();
            let back = Sockaddr::unix(&addr).to_addr();
            assert_eq!(format!("{addr:?}"), format!("{back:?}"), "{path:?}");
        }
    }

    #[test]
    fn an_address_that_std_cannot_hold_is_unnamed() {
        let mut storage = *Sockaddr::<libc::sockaddr_un>::empty().storage();
        storage.sun_path.fill(b'x' as libc::c_char);
        let mut longest = Sockaddr::new(storage, size_of::<libc::sockaddr_un>());
        assert!(longest.to_addr().is_unnamed());
        // SAFETY: this writes the length that the system would report: one more than there is room for.
        unsafe { *longest.as_mut_ptr().1 += 1 };
        assert!(longest.to_addr().is_unnamed());
        assert!(Sockaddr::new(storage, 0).to_addr().is_unnamed());
    }
}
