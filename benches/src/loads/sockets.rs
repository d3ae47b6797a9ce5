//! Messages to another task and back, over sockets of this machine.

use super::{Load, in_task};
use crate::peer::Sockets;

/// Bytes of a message.
const MESSAGE: usize = 64;

/// The loads, with the number of messages in one iteration.
pub fn all<P: Sockets>() -> [(&'static str, usize, Load<P>); 3] {
    [("echo_tcp", 3_000, echo_tcp), ("echo_unix", 3_000, echo_unix), ("echo_udp", 3_000, echo_udp)]
}

/// Over a TCP connection.
pub fn echo_tcp<P: Sockets>(peer: &P, messages: usize) {
    in_task(peer, P::echo_tcp(messages, MESSAGE));
}

/// Over a Unix stream.
pub fn echo_unix<P: Sockets>(peer: &P, messages: usize) {
    in_task(peer, P::echo_unix(messages, MESSAGE));
}

/// Over UDP, with the address of each sender.
pub fn echo_udp<P: Sockets>(peer: &P, messages: usize) {
    in_task(peer, P::echo_udp(messages, MESSAGE));
}
