//! Buffers between a program and a stream: [`BufReader`], [`BufWriter`], [`BufStream`], and what is read
//! piece by piece: [`Lines`], [`Split`].

mod buffer;
mod pieces;
mod reader;
mod stream;
mod writer;

pub use pieces::{Lines, Split};
pub use reader::BufReader;
pub use stream::BufStream;
pub use writer::BufWriter;

pub(super) use buffer::Buffer;

/// Capacity unless said otherwise, in bytes: that of std's.
pub(super) const CAPACITY: usize = 8 * 1024;
