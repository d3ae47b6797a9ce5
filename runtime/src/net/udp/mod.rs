//! UDP: `socket.rs` binds, connects and sends, `peek.rs` looks ahead, `options.rs` is what it says,
//! `sockaddr.rs` reads and writes addresses. Receiving is what all sockets for datagrams have in common:
//! `net/face/datagrams.rs`.

mod options;
mod peek;
mod sockaddr;
mod socket;

pub use socket::UdpSocket;
