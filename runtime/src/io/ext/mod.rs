//! The everyday methods of readers and writers, which programs call.
//!
//! Each method returns an [`OperationFuture`](operation::OperationFuture) of its
//! [`Operation`](operation::Operation), so their common part is written once.

mod buf_read;
mod number;
pub(super) mod operation;
mod read;
mod seek;
mod text;
mod until;
mod write;

pub use buf_read::AsyncBufReadExt;
pub use read::AsyncReadExt;
pub use seek::AsyncSeekExt;
pub use write::AsyncWriteExt;

pub(super) use read::poll_read_some;
pub(super) use until::poll_read_until;
pub(super) use write::poll_write_all;
