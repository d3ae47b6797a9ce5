//! A buffer that makes fewer and larger writes.

use std::fmt;
use std::io::{self, IoSlice, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::buffer::CAPACITY;
use crate::io::ext::poll_write_all;
use crate::io::traits::forward;
use crate::io::{AsyncBufRead, AsyncRead, AsyncSeek, AsyncWrite};

pin_project! {
    /// A writer with a buffer. It writes much at once to the wrapped writer, for programs that write little
    /// at a time.
    ///
    /// The bytes in the buffer reach the wrapped writer when the buffer is full, or with
    /// [`flush`](crate::io::AsyncWriteExt::flush) or [`shutdown`](crate::io::AsyncWriteExt::shutdown). **They
    /// are lost if the writer is dropped before**, because a drop cannot wait. A write of at least the
    /// capacity goes directly to the wrapped writer, after the bytes in the buffer. Reads always go directly
    /// to the wrapped stream.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use runtime::io::{AsyncWriteExt, BufWriter};
    ///
    /// let mut writer = BufWriter::new(Vec::new());
    /// writer.write_all(b"hello").await?;
    /// assert_eq!(writer.get_ref(), b"");
    /// writer.flush().await?;
    /// assert_eq!(writer.get_ref(), b"hello");
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    pub struct BufWriter<W> {
        #[pin]
        pub(super) inner: W,
        // Never grows.
        pub(super) buf: Vec<u8>,
        // The number of bytes of `buf` that the wrapped writer has taken. Zero, unless it took only a part of
        // them and then made `poll_empty` wait.
        pub(super) written: usize,
        pub(super) seeking: Seeking,
    }
}

/// The state of a seek.
#[derive(Debug, Clone, Copy)]
pub(super) enum Seeking {
    No,
    /// The seek has not begun.
    Asked(SeekFrom),
    Moving,
}

impl<W: AsyncWrite> BufWriter<W> {
    /// Gives `inner` a buffer of 8 KiB.
    pub fn new(inner: W) -> Self {
        Self::with_capacity(CAPACITY, inner)
    }

    /// Gives `inner` a buffer of `cap` bytes. With zero, every write goes directly to `inner`.
    pub fn with_capacity(cap: usize, inner: W) -> Self {
        Self { inner, buf: Vec::with_capacity(cap), written: 0, seeking: Seeking::No }
    }

    /// Returns the wrapped writer.
    pub fn get_ref(&self) -> &W {
        &self.inner
    }

    /// Returns the wrapped writer. Bytes that the program writes to it directly come before those in the
    /// buffer.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.inner
    }

    /// Returns the wrapped writer, pinned. Bytes that the program writes to it directly come before those in
    /// the buffer.
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut W> {
        self.project().inner
    }

    /// Returns the wrapped writer. The bytes in the buffer are lost, so flush before.
    pub fn into_inner(self) -> W {
        self.inner
    }

    /// Returns the bytes in the buffer that have not reached the wrapped writer.
    pub fn buffer(&self) -> &[u8] {
        &self.buf[self.written..]
    }

    /// The number of bytes that still fit.
    #[inline]
    fn room(&self) -> usize {
        self.buf.capacity() - self.buf.len()
    }

    /// Empties the buffer into the wrapped writer. After an error the buffer holds the bytes that did not get
    /// there.
    fn poll_empty(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        let result = ready!(poll_write_all(this.inner, cx, this.buf, this.written));
        this.buf.drain(..*this.written);
        *this.written = 0;
        Poll::Ready(result)
    }

    /// Makes room for `len` bytes. If `len` is at least the capacity, the buffer is empty afterwards.
    #[inline]
    fn poll_make_room(self: Pin<&mut Self>, cx: &mut Context<'_>, len: usize) -> Poll<io::Result<()>> {
        if len > self.room() { self.poll_empty(cx) } else { Poll::Ready(Ok(())) }
    }
}

impl<W: AsyncWrite> AsyncWrite for BufWriter<W> {
    #[inline]
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.as_mut().poll_make_room(cx, buf.len()))?;
        let this = self.project();
        if buf.len() >= this.buf.capacity() {
            return this.inner.poll_write(cx, buf);
        }
        this.buf.extend_from_slice(buf);
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut left = bufs.iter().skip_while(|buf| buf.is_empty());
        if self.inner.is_write_vectored() {
            let len = bufs.iter().fold(0_usize, |len, buf| len.saturating_add(buf.len()));
            ready!(self.as_mut().poll_make_room(cx, len))?;
            if len >= self.buf.capacity() {
                return self.project().inner.poll_write_vectored(cx, bufs);
            }
        } else if let Some(first) = left.next() {
            // The wrapped writer would take one slice at a time. So the slices that fit go into the buffer,
            // and the first one goes where it must.
            let n = ready!(self.as_mut().poll_write(cx, first))?;
            if first.len() >= self.buf.capacity() {
                return Poll::Ready(Ok(n));
            }
            let this = self.project();
            let before = this.buf.len();
            for buf in left {
                if buf.len() > this.buf.capacity() - this.buf.len() {
                    break;
                }
                this.buf.extend_from_slice(buf);
            }
            return Poll::Ready(Ok(n + this.buf.len() - before));
        }
        let this = self.project();
        let before = this.buf.len();
        left.for_each(|buf| this.buf.extend_from_slice(buf));
        Poll::Ready(Ok(this.buf.len() - before))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.as_mut().poll_empty(cx))?;
        self.get_pin_mut().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.as_mut().poll_empty(cx))?;
        self.get_pin_mut().poll_shutdown(cx)
    }
}

/// A seek first writes the bytes in the buffer.
impl<W: AsyncWrite + AsyncSeek> AsyncSeek for BufWriter<W> {
    fn start_seek(self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        *self.project().seeking = Seeking::Asked(position);
        Ok(())
    }

    fn poll_complete(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        if !matches!(self.seeking, Seeking::No) {
            ready!(self.as_mut().poll_empty(cx))?;
        }
        let mut this = self.project();
        if let Seeking::Asked(position) = *this.seeking {
            // Completes a seek that a dropped future began.
            ready!(this.inner.as_mut().poll_complete(cx))?;
            *this.seeking = Seeking::No;
            this.inner.as_mut().start_seek(position)?;
            *this.seeking = Seeking::Moving;
        }
        let result = ready!(this.inner.poll_complete(cx));
        *this.seeking = Seeking::No;
        Poll::Ready(result)
    }
}

impl<W: AsyncWrite + AsyncRead> AsyncRead for BufWriter<W> {
    forward!(AsyncRead: self => self.project().inner);
}

impl<W: AsyncWrite + AsyncBufRead> AsyncBufRead for BufWriter<W> {
    forward!(AsyncBufRead: self => self.project().inner);
}

impl<W: fmt::Debug> fmt::Debug for BufWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufWriter")
            .field("writer", &self.inner)
            .field("buffer", &format_args!("{}/{}", self.buf.len() - self.written, self.buf.capacity()))
            .finish()
    }
}
