//! UDP. `socket.rs` binds, connects and sends. `peek.rs` looks at datagrams without taking them. `options.rs`
//! has the options. `sockaddr.rs` reads and writes addresses. Receiving is common to all sockets for
//! datagrams: `net/face/datagrams.rs`.

mod options;
mod peek;
mod sockaddr;
mod socket;

pub use socket::UdpSocket;
