//! The traits that readers and writers implement, and the buffer that they read into.

mod async_buf_read;
mod async_read;
mod async_seek;
mod async_write;
mod forward;
mod read_buf;

pub use async_buf_read::AsyncBufRead;
pub use async_read::AsyncRead;
pub use async_seek::AsyncSeek;
pub use async_write::AsyncWrite;
pub use read_buf::ReadBuf;

pub(super) use forward::forward;
