//! Reading and writing without blocking: traits, everyday methods, and functions that connect readers and
//! writers.
//!
//! - A stream implements [`AsyncRead`] and [`AsyncWrite`], and reads into a [`ReadBuf`]. Programs call
//!   [`AsyncReadExt`] and [`AsyncWriteExt`]. Readers with a buffer of their own implement [`AsyncBufRead`],
//!   and streams with positions [`AsyncSeek`]. Programs call [`AsyncBufReadExt`] and [`AsyncSeekExt`].
//! - [`BufReader`], [`BufWriter`], [`BufStream`] give a stream buffers. [`Lines`] and [`Split`] read piece by
//!   piece.
//! - [`copy`], [`copy_buf`], [`copy_bidirectional`], [`split`], [`duplex`], [`empty`], [`sink`], [`repeat`]
//!   connect streams.
//! - [`stdin`], [`stdout`], [`stderr`] are those of the process.
//! - [`Interest`] and [`Ready`] are for programs that call the system themselves, as with
//!   [`TcpStream::try_io`](crate::net::TcpStream::try_io). [`unix::AsyncFd`] watches any descriptor for such
//!   programs.
//!
//! Names and meaning are Tokio's.

mod adapters;
mod buffered;
mod copy;
mod duplex;
mod ext;
mod join;
mod locked;
mod simplex;
mod split;
pub(crate) mod stdio;
mod traits;
mod trivial;
pub mod unix;

pub(crate) mod registered;
pub(crate) mod sockaddr;
pub(crate) mod transfer;

pub use adapters::{Chain, Take};
pub use buffered::{BufReader, BufStream, BufWriter, Lines, Split};
pub use copy::{copy, copy_bidirectional, copy_bidirectional_with_sizes, copy_buf};
pub use duplex::{DuplexStream, duplex};
pub use ext::{AsyncBufReadExt, AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
pub use join::{Join, join};
pub use simplex::{SimplexStream, simplex};
pub use split::{ReadHalf, WriteHalf, split};
pub use stdio::{Stderr, Stdin, Stdout, stderr, stdin, stdout};
pub use traits::{AsyncBufRead, AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};
pub use trivial::{Empty, Repeat, Sink, empty, repeat, sink};

pub use crate::driver::io::{Interest, Ready};

#[doc(no_inline)]
pub use std::io::{Error, ErrorKind, Result, SeekFrom};
