//! Reading and writing without blocking: traits, everyday methods, and what connects readers and writers.
//!
//! - [`AsyncRead`] and [`AsyncWrite`] are what a stream implements, [`ReadBuf`] is what it reads into;
//!   [`AsyncReadExt`] and [`AsyncWriteExt`] are what programs call.
//! - [`copy`], [`copy_bidirectional`], [`split`], [`duplex`], [`empty`], [`sink`], [`repeat`] connect streams.
//! - [`Interest`] and [`Ready`] are for those who call the system themselves, as with
//!   [`TcpStream::try_io`](crate::net::TcpStream::try_io).
//!
//! Names and meaning are Tokio's.

mod adapters;
mod async_read;
mod async_write;
mod copy;
mod duplex;
mod read_buf;
mod read_ext;
mod split;
mod transfer;
mod trivial;
mod write_ext;

pub(crate) mod registered;

pub use adapters::{Chain, Take};
pub use async_read::AsyncRead;
pub use async_write::AsyncWrite;
pub use copy::{copy, copy_bidirectional, copy_bidirectional_with_sizes};
pub use duplex::{DuplexStream, duplex};
pub use read_buf::ReadBuf;
pub use read_ext::AsyncReadExt;
pub use split::{ReadHalf, WriteHalf, split};
pub use trivial::{Empty, Repeat, Sink, empty, repeat, sink};
pub use write_ext::AsyncWriteExt;

pub use crate::driver::io::{Interest, Ready};

#[doc(no_inline)]
pub use std::io::{Error, ErrorKind, Result, SeekFrom};
