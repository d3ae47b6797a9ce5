//! Streams that need no memory: [`empty`], [`sink`], [`repeat`].

use std::fmt;
use std::io::{self, IoSlice, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::{AsyncBufRead, AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};
use crate::coop;

/// A stream that is at its end when read, and discards what is written. [`empty`] makes it.
#[derive(Clone, Copy, Default)]
pub struct Empty(());

/// Returns a stream that is at its end when read, and discards what is written.
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use runtime::io::AsyncReadExt;
///
/// let mut buf = Vec::new();
/// assert_eq!(runtime::io::empty().read_to_end(&mut buf).await.unwrap(), 0);
/// # });
/// ```
pub fn empty() -> Empty {
    Empty(())
}

/// A writer that takes everything and discards it. [`sink`] makes it.
#[derive(Clone, Copy, Default)]
pub struct Sink(());

/// Returns a writer that takes everything and discards it.
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let n = runtime::io::copy(&mut &b"hello"[..], &mut runtime::io::sink()).await.unwrap();
/// assert_eq!(n, 5);
/// # });
/// ```
pub fn sink() -> Sink {
    Sink(())
}

/// A stream of one byte, repeated for ever. [`repeat`] makes it.
#[derive(Debug, Clone, Copy)]
pub struct Repeat(u8);

/// Returns a stream of `byte`, repeated for ever, that never ends.
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use runtime::io::AsyncReadExt;
///
/// let mut buf = [0; 3];
/// runtime::io::repeat(b'x').read_exact(&mut buf).await.unwrap();
/// assert_eq!(&buf, b"xxx");
/// # });
/// ```
pub fn repeat(byte: u8) -> Repeat {
    Repeat(byte)
}

/// Takes one operation from the budget, for streams that never wait.
#[inline]
fn poll_spend(cx: &mut Context<'_>) -> Poll<()> {
    ready!(coop::poll_proceed(cx)).made_progress();
    Poll::Ready(())
}

impl AsyncRead for Empty {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        ready!(poll_spend(cx));
        Poll::Ready(Ok(()))
    }
}

impl AsyncBufRead for Empty {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        ready!(poll_spend(cx));
        Poll::Ready(Ok(&[]))
    }

    fn consume(self: Pin<&mut Self>, _: usize) {}
}

/// Every seek ends at position 0.
impl AsyncSeek for Empty {
    fn start_seek(self: Pin<&mut Self>, _: SeekFrom) -> io::Result<()> {
        Ok(())
    }

    fn poll_complete(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        ready!(poll_spend(cx));
        Poll::Ready(Ok(0))
    }
}

impl AsyncRead for Repeat {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        ready!(poll_spend(cx));
        let n = buf.remaining();
        // SAFETY: (1) only initialised bytes are written.
        unsafe { buf.unfilled_mut() }.fill(std::mem::MaybeUninit::new(self.0));
        // SAFETY: (1) all of the unfilled part has just been written.
        unsafe { buf.assume_init(n) };
        buf.advance(n);
        Poll::Ready(Ok(()))
    }
}

macro_rules! takes_everything {
    ($($ty:ty)*) => {$(
        impl AsyncWrite for $ty {
            fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
                ready!(poll_spend(cx));
                Poll::Ready(Ok(buf.len()))
            }

            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                ready!(poll_spend(cx));
                Poll::Ready(Ok(()))
            }

            fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.poll_flush(cx)
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                ready!(poll_spend(cx));
                Poll::Ready(Ok(bufs.iter().map(|buf| buf.len()).sum()))
            }

            fn is_write_vectored(&self) -> bool {
                true
            }
        }

        impl fmt::Debug for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($ty)).finish_non_exhaustive()
            }
        }
    )*};
}

takes_everything!(Empty Sink);
