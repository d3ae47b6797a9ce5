//! Options of a UDP socket.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::UdpSocket;
use crate::net::face::options::{deprecated_tos, device, options, take_error};

/// Options.
impl UdpSocket {
    options! {
        /// Allows sending to a broadcast address (`SO_BROADCAST`).
        broadcast, set_broadcast(on: bool) => broadcast, set_broadcast;
        /// Makes the datagrams that the socket sends to an IPv4 group come back to members on this machine
        /// (`IP_MULTICAST_LOOP`).
        multicast_loop_v4, set_multicast_loop_v4(on: bool) => multicast_loop_v4, set_multicast_loop_v4;
        /// Sets how many hops a packet to an IPv4 group may take (`IP_MULTICAST_TTL`). The default is 1,
        /// which is the local network.
        multicast_ttl_v4, set_multicast_ttl_v4(ttl: u32) => multicast_ttl_v4, set_multicast_ttl_v4;
        /// Makes the datagrams that the socket sends to an IPv6 group come back to members on this machine
        /// (`IPV6_MULTICAST_LOOP`).
        multicast_loop_v6, set_multicast_loop_v6(on: bool) => multicast_loop_v6, set_multicast_loop_v6;
        /// Sets the traffic class of the socket's IPv6 packets (`IPV6_TCLASS`).
        tclass_v6, set_tclass_v6(tclass: u32) => tclass_v6, set_tclass_v6;
        /// Sets the time to live of the packets that the socket sends (`IP_TTL`), in hops.
        ttl, set_ttl(ttl: u32) => ttl_v4, set_ttl_v4;
        /// Sets the type of service of the socket's IPv4 packets (`IP_TOS`).
        tos_v4, set_tos_v4(tos: u32) => tos_v4, set_tos_v4;
    }

    deprecated_tos!();
    device!();

    /// Joins an IPv4 group (`IP_ADD_MEMBERSHIP`), on the interface that has the address `interface`. If that
    /// is 0.0.0.0, the system chooses the interface.
    ///
    /// # Errors
    /// The system's errors.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn f() -> std::io::Result<()> {
    /// use std::net::Ipv4Addr;
    ///
    /// let socket = runtime::net::UdpSocket::bind("0.0.0.0:5353").await?;
    /// socket.join_multicast_v4(Ipv4Addr::new(224, 0, 0, 251), Ipv4Addr::UNSPECIFIED)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn join_multicast_v4(&self, multiaddr: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        self.io().join_multicast_v4(&multiaddr, &interface)
    }

    /// Joins an IPv6 group (`IPV6_ADD_MEMBERSHIP`), on the interface with the index `interface`. If that is
    /// 0, the system chooses the interface.
    ///
    /// # Errors
    /// The system's errors.
    pub fn join_multicast_v6(&self, multiaddr: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.io().join_multicast_v6(multiaddr, interface)
    }

    /// Leaves a group that was joined by [`join_multicast_v4`](Self::join_multicast_v4).
    ///
    /// # Errors
    /// The system's errors.
    pub fn leave_multicast_v4(&self, multiaddr: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        self.io().leave_multicast_v4(&multiaddr, &interface)
    }

    /// Leaves a group that was joined by [`join_multicast_v6`](Self::join_multicast_v6).
    ///
    /// # Errors
    /// The system's errors.
    pub fn leave_multicast_v6(&self, multiaddr: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.io().leave_multicast_v6(multiaddr, interface)
    }

    take_error!();
}
