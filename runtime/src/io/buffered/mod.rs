//! Buffers between a program and a stream: [`BufReader`], [`BufWriter`], [`BufStream`]. [`Lines`] and
//! [`Split`] read a stream piece by piece.

pub(super) mod buffer;
mod pieces;
mod reader;
mod stream;
mod writer;

pub use pieces::{Lines, Split};
pub use reader::BufReader;
pub use stream::BufStream;
pub use writer::BufWriter;

pub(super) use buffer::Buffer;
