//! Streams in memory and on this machine: lines, buffered numbers, a relay.

use std::sync::Arc;

use super::{Load, in_task};
use crate::peer::Streams;

/// Lines of a text.
const LINES: usize = 1_000;

/// Bytes of a message through the relay.
const MESSAGE: usize = 1_024;

/// The loads, with the number of operations in one iteration.
pub fn all<P: Streams>() -> [(&'static str, usize, Load<P>); 5] {
    [
        ("lines", 100_000, lines),
        ("lines_pipe", 100_000, lines_pipe),
        ("buffered_numbers", 100_000, buffered_numbers),
        ("copy_bidirectional", 3_000, copy_bidirectional),
        ("copy_bidirectional_tcp", 1_000, copy_bidirectional_tcp),
    ]
}

/// `lines` lines of 10 to 90 bytes, out of memory.
pub fn lines<P: Streams>(peer: &P, lines: usize) {
    let (text, times) = (text(), lines / LINES);
    in_task(peer, async move { assert_eq!(P::lines_of_memory(text, times).await, times * LINES) });
}

/// The same out of a pipe.
pub fn lines_pipe<P: Streams>(peer: &P, lines: usize) {
    let (text, times) = (text(), lines / LINES);
    in_task(peer, async move { assert_eq!(P::lines_of_pipe(text, times).await, times * LINES) });
}

fn text() -> Arc<[u8]> {
    let mut text = String::new();
    for line in 0..LINES {
        text.extend(std::iter::repeat_n('x', 9 + line * 37 % 81));
        text.push('\n');
    }
    text.into_bytes().into()
}

/// `numbers` numbers of four bytes from one task to another, each of which has a buffer.
pub fn buffered_numbers<P: Streams>(peer: &P, numbers: usize) {
    in_task(peer, P::numbers(numbers));
}

/// `messages` messages of 1 KiB that go through a relay to an echo server and come back, one after the other.
pub fn copy_bidirectional<P: Streams>(peer: &P, messages: usize) {
    in_task(peer, P::relay_pipes(messages, MESSAGE));
}

/// The same through TCP connections.
pub fn copy_bidirectional_tcp<P: Streams>(peer: &P, messages: usize) {
    in_task(peer, P::relay_sockets(messages, MESSAGE));
}
