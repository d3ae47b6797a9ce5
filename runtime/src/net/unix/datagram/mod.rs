//! Datagrams between processes of one machine. `socket.rs` binds, connects and sends. `room.rs` waits for
//! room at a receiver. Receiving is common to all sockets for datagrams: `net/face/datagrams.rs`.

mod room;
mod socket;

pub use socket::UnixDatagram;
