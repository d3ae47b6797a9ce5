//! Datagrams between processes of one machine. `socket.rs` binds, connects and sends. `receiver.rs` waits for
//! room at a receiver. Receiving is common to all sockets for datagrams: `net/face/datagrams.rs`.

mod receiver;
mod socket;

pub use socket::UnixDatagram;
