//! Buffers between a program and a stream: [`BufReader`], [`BufWriter`], [`BufStream`]; and readers of one
//! piece after the other: [`Lines`], [`Split`].

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
