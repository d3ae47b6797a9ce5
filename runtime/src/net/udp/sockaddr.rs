//! Addresses of the internet families as the system reads and writes them.

use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use crate::io::sockaddr::{Family, Sockaddr};
use crate::io::transfer::{self, Datagrams};

/// A `sockaddr` of either family.
#[derive(Clone, Copy)]
#[repr(C)]
pub union Ip {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

// SAFETY: (1) both are numbers, and arrays of numbers. (2) Both begin with the family, and have its alignment
// or more.
unsafe impl Family for Ip {}

impl Datagrams for mio::net::UdpSocket {
    type Addr = SocketAddr;
    type Family = Ip;

    #[inline]
    fn receive_from(
        &self,
        bytes: &mut [MaybeUninit<u8>],
        flags: libc::c_int,
    ) -> io::Result<(usize, SocketAddr)> {
        let (n, from) = transfer::receive_from::<Ip>(self, bytes, flags)?;
        Ok((n, from.to_addr()?))
    }
}

impl Sockaddr<Ip> {
    pub fn ip(addr: SocketAddr) -> Self {
        match addr {
            SocketAddr::V4(addr) => {
                let v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: addr.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(addr.ip().octets()) },
                    sin_zero: [0; 8],
                };
                // The system does not read the bytes behind the address.
                Self::new(Ip { v4 }, size_of_val(&v4))
            }
            SocketAddr::V6(addr) => {
                let v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: addr.port().to_be(),
                    sin6_flowinfo: addr.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: addr.ip().octets() },
                    sin6_scope_id: addr.scope_id(),
                };
                Self::new(Ip { v6 }, size_of_val(&v6))
            }
        }
    }

    /// Returns the address that the system has written.
    fn to_addr(self) -> io::Result<SocketAddr> {
        // SAFETY: any bytes are a value of `sockaddr_in`, and `empty` and `ip` have initialised as many.
        let v4 = unsafe { &self.storage().v4 };
        if i32::from(v4.sin_family) == libc::AF_INET && self.len() >= size_of_val(v4) {
            let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
            return Ok(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into());
        }
        // SAFETY: any bytes are a value of `sockaddr_in6`. `empty` has initialised all of them, and so has
        // `ip`, because its addresses of the other family have returned above.
        let v6 = unsafe { &self.storage().v6 };
        if i32::from(v6.sin6_family) == libc::AF_INET6 && self.len() >= size_of_val(v6) {
            let (ip, port) = (Ipv6Addr::from(v6.sin6_addr.s6_addr), u16::from_be(v6.sin6_port));
            return Ok(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into());
        }
        Err(io::Error::new(io::ErrorKind::InvalidInput, "the sender has no address of the internet families"))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_the_same_there_and_back() {
        let v6 = SocketAddrV6::new(Ipv6Addr::LOCALHOST, 0xff00, 7, 9);
        for addr in ["1.2.3.4:258".parse().unwrap(), "[1:2::ff]:1".parse().unwrap(), SocketAddr::V6(v6)] {
            assert_eq!(Sockaddr::ip(addr).to_addr().unwrap(), addr);
        }
        assert!(Sockaddr::<Ip>::empty().to_addr().is_err());
    }
}
