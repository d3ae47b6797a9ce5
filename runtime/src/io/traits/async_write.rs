//! Writing bytes without blocking.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use super::forward::{forward, forward_pointers};

/// Writes bytes to a sink that may have no room yet.
///
/// It is to async writers what `std::io::Write` is to blocking ones. Programs use the methods of
/// [`AsyncWriteExt`](crate::io::AsyncWriteExt). This trait is for code that implements a writer. It is the
/// same as Tokio's.
pub trait AsyncWrite {
    /// Writes the beginning of `buf` and returns the number of bytes.
    ///
    /// Zero means that the sink takes no more, or that `buf` is empty. `Pending` means that nothing was
    /// written, and that the task will be woken when another try is worthwhile. Only the last task that
    /// called is woken.
    ///
    /// # Errors
    /// The sink's errors. Nothing was written then.
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>>;

    /// Passes on all buffered bytes.
    ///
    /// `Pending` means that bytes are left, and that the task will be woken when another try is worthwhile.
    ///
    /// # Errors
    /// The sink's errors.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Flushes and ends the stream, if it has an end. A TCP stream tells its peer that nothing more will
    /// come.
    ///
    /// `Pending` means that this is not done, and that the task will be woken when another try is worthwhile.
    ///
    /// # Errors
    /// The sink's errors.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Writes the beginning of `bufs`, one after the other, as [`poll_write`](Self::poll_write) does.
    ///
    /// By default it writes only the first slice that is not empty.
    ///
    /// # Errors
    /// The sink's errors. Nothing was written then.
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let first = bufs.iter().find(|buf| !buf.is_empty()).map_or(&[][..], |buf| buf);
        self.poll_write(cx, first)
    }

    /// Returns whether [`poll_write_vectored`](Self::poll_write_vectored) is better than copying into one
    /// buffer.
    fn is_write_vectored(&self) -> bool {
        false
    }
}

forward_pointers!(AsyncWrite);

/// Implements a writer that has all it needs in memory, where `std::io::Write` never blocks.
macro_rules! write_in_memory {
    () => {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(io::Write::write(&mut *self, buf))
        }

        fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(io::Write::flush(&mut *self))
        }

        fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.poll_flush(cx)
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bufs: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            Poll::Ready(io::Write::write_vectored(&mut *self, bufs))
        }

        fn is_write_vectored(&self) -> bool {
            true
        }
    };
}

impl AsyncWrite for Vec<u8> {
    write_in_memory!();
}

impl AsyncWrite for io::Cursor<&mut [u8]> {
    write_in_memory!();
}

impl AsyncWrite for io::Cursor<&mut Vec<u8>> {
    write_in_memory!();
}

impl AsyncWrite for io::Cursor<Vec<u8>> {
    write_in_memory!();
}

impl AsyncWrite for io::Cursor<Box<[u8]>> {
    write_in_memory!();
}
