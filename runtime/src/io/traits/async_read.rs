//! Reading bytes without blocking.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::ReadBuf;
use super::forward::{forward, forward_pointers};

/// Reads bytes from a source that may not have any yet.
///
/// It is to async readers what `std::io::Read` is to blocking ones. Programs use the methods of
/// [`AsyncReadExt`](crate::io::AsyncReadExt). This trait is for code that implements a reader. It is the same
/// as Tokio's.
///
/// # Examples
/// A reader that counts what passes through it:
/// ```
/// use std::{io, pin::Pin, task::{Context, Poll}};
/// use runtime::io::{AsyncRead, AsyncReadExt, ReadBuf};
///
/// struct Counted<R> { inner: R, count: usize }
///
/// impl<R: AsyncRead + Unpin> AsyncRead for Counted<R> {
///     fn poll_read(
///         mut self: Pin<&mut Self>,
///         cx: &mut Context<'_>,
///         buf: &mut ReadBuf<'_>,
///     ) -> Poll<io::Result<()>> {
///         let before = buf.filled().len();
///         let result = Pin::new(&mut self.inner).poll_read(cx, buf);
///         self.count += buf.filled().len() - before;
///         result
///     }
/// }
///
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let mut reader = Counted { inner: &b"hello"[..], count: 0 };
/// reader.read_to_end(&mut Vec::new()).await.unwrap();
/// assert_eq!(reader.count, 5);
/// # });
/// ```
pub trait AsyncRead {
    /// Reads into the unfilled part of `buf`.
    ///
    /// `Ready(Ok(()))` with nothing filled means the end, unless `buf` had no room. `Pending` means that
    /// nothing was read, and that the task will be woken when another try is worthwhile. Only the last task
    /// that called is woken.
    ///
    /// # Errors
    /// The source's errors. Nothing was read then.
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>>;
}

forward_pointers!(AsyncRead);

impl AsyncRead for &[u8] {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (now, later) = self.split_at(self.len().min(buf.remaining()));
        buf.put_slice(now);
        *self = later;
        Poll::Ready(Ok(()))
    }
}

impl<T: AsRef<[u8]> + Unpin> AsyncRead for io::Cursor<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let bytes = self.get_ref().as_ref();
        // The position of a cursor may lie anywhere beyond its end.
        let start = usize::try_from(self.position()).unwrap_or(usize::MAX).min(bytes.len());
        let n = (bytes.len() - start).min(buf.remaining());
        buf.put_slice(&bytes[start..start + n]);
        let position = self.position() + n as u64;
        self.set_position(position);
        Poll::Ready(Ok(()))
    }
}
