//! Reading bytes out of the reader's own buffer.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::AsyncRead;
use super::forward::{forward, forward_pointers};

/// Reads bytes that the reader holds in a buffer of its own.
///
/// It is to async readers what `std::io::BufRead` is to blocking ones. Programs use the methods of
/// [`AsyncBufReadExt`](crate::io::AsyncBufReadExt). This trait is for code that implements a reader. It is
/// the same as Tokio's.
///
/// # Examples
/// ```
/// use std::{future::poll_fn, io, pin::Pin};
/// use runtime::io::AsyncBufRead;
///
/// async fn first_byte<R: AsyncBufRead + Unpin>(reader: &mut R) -> io::Result<Option<u8>> {
///     let byte = poll_fn(|cx| {
///         Pin::new(&mut *reader).poll_fill_buf(cx).map_ok(|bytes| bytes.first().copied())
///     })
///     .await?;
///     if byte.is_some() {
///         Pin::new(reader).consume(1);
///     }
///     Ok(byte)
/// }
///
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let mut reader = &b"hello"[..];
/// assert_eq!(first_byte(&mut reader).await.unwrap(), Some(b'h'));
/// assert_eq!(reader, b"ello");
/// # });
/// ```
pub trait AsyncBufRead: AsyncRead {
    /// Returns the bytes in the buffer, after filling it if it is empty.
    ///
    /// An empty slice means the end. The bytes stay in the buffer until [`consume`](Self::consume) removes
    /// them. `Pending` means that the buffer is empty, and that the task will be woken when another try is
    /// worthwhile. Only the last task that called is woken.
    ///
    /// # Errors
    /// The source's errors. Nothing was read then.
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>>;

    /// Removes `amt` bytes from the buffer, so that they are not read again.
    ///
    /// `amt` is at most the length of the bytes that [`poll_fill_buf`](Self::poll_fill_buf) returned. For a
    /// larger `amt` the reader defines the effect.
    fn consume(self: Pin<&mut Self>, amt: usize);
}

forward_pointers!(AsyncBufRead);

impl AsyncBufRead for &[u8] {
    #[inline]
    fn poll_fill_buf(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        Poll::Ready(Ok(*self))
    }

    #[inline]
    fn consume(mut self: Pin<&mut Self>, amt: usize) {
        *self = &self[amt..];
    }
}

impl<T: AsRef<[u8]> + Unpin> AsyncBufRead for io::Cursor<T> {
    #[inline]
    fn poll_fill_buf(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        Poll::Ready(io::BufRead::fill_buf(self.get_mut()))
    }

    #[inline]
    fn consume(self: Pin<&mut Self>, amt: usize) {
        io::BufRead::consume(self.get_mut(), amt);
    }
}
