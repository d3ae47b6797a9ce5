//! Readers made of readers: [`Take`] and [`Chain`].

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::{AsyncBufRead, AsyncRead, ReadBuf};

pin_project! {
    /// A reader that ends after a given number of bytes. [`AsyncReadExt::take`](super::AsyncReadExt::take)
    /// makes it.
    #[must_use = "readers do nothing unless read"]
    #[derive(Debug)]
    pub struct Take<R> {
        #[pin]
        inner: R,
        limit: u64,
    }
}

impl<R> Take<R> {
    pub(super) fn new(inner: R, limit: u64) -> Self {
        Self { inner, limit }
    }

    /// Returns how many bytes may still be read.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Sets how many bytes may be read from now on.
    pub fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
    }

    /// Returns the wrapped reader.
    pub fn get_ref(&self) -> &R {
        &self.inner
    }

    /// Returns the wrapped reader. Bytes that the program reads from it directly do not count.
    pub fn get_mut(&mut self) -> &mut R {
        &mut self.inner
    }

    /// Returns the wrapped reader, pinned. Bytes that the program reads from it directly do not count.
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut R> {
        self.project().inner
    }

    /// Returns the wrapped reader.
    pub fn into_inner(self) -> R {
        self.inner
    }
}

impl<R: AsyncRead> AsyncRead for Take<R> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.limit == 0 {
            return Poll::Ready(Ok(()));
        }
        let this = self.project();
        let mut part = buf.take(usize::try_from(*this.limit).unwrap_or(usize::MAX));
        let place = part.place();
        ready!(this.inner.poll_read(cx, &mut part))?;
        part.assert_at(place);
        let n = part.filled().len();
        // SAFETY: the first `n` bytes of the part are filled, and so initialised. They are the next `n` bytes
        // of `buf`.
        unsafe { buf.assume_init(n) };
        buf.advance(n);
        *this.limit -= n as u64;
        Poll::Ready(Ok(()))
    }
}

impl<R: AsyncBufRead> AsyncBufRead for Take<R> {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        // At the limit the reader is not polled, because it might wait for bytes that the caller may not
        // have.
        if self.limit == 0 {
            return Poll::Ready(Ok(&[]));
        }
        let this = self.project();
        let bytes = ready!(this.inner.poll_fill_buf(cx))?;
        let n = usize::try_from(*this.limit).unwrap_or(usize::MAX).min(bytes.len());
        Poll::Ready(Ok(&bytes[..n]))
    }

    fn consume(self: Pin<&mut Self>, amt: usize) {
        let this = self.project();
        // Bytes beyond the limit were never returned, so the reader keeps them.
        let amt = usize::try_from(*this.limit).unwrap_or(usize::MAX).min(amt);
        *this.limit -= amt as u64;
        this.inner.consume(amt);
    }
}

pin_project! {
    /// A reader that continues with another reader. [`AsyncReadExt::chain`](super::AsyncReadExt::chain) makes
    /// it.
    #[must_use = "readers do nothing unless read"]
    #[derive(Debug)]
    pub struct Chain<A, B> {
        #[pin]
        first: A,
        #[pin]
        second: B,
        has_first_ended: bool,
    }
}

impl<A, B> Chain<A, B> {
    pub(super) fn new(first: A, second: B) -> Self {
        Self { first, second, has_first_ended: false }
    }

    /// Returns the wrapped readers.
    pub fn get_ref(&self) -> (&A, &B) {
        (&self.first, &self.second)
    }

    /// Returns the wrapped readers.
    pub fn get_mut(&mut self) -> (&mut A, &mut B) {
        (&mut self.first, &mut self.second)
    }

    /// Returns the wrapped readers, pinned.
    pub fn get_pin_mut(self: Pin<&mut Self>) -> (Pin<&mut A>, Pin<&mut B>) {
        let this = self.project();
        (this.first, this.second)
    }

    /// Returns the wrapped readers.
    pub fn into_inner(self) -> (A, B) {
        (self.first, self.second)
    }
}

impl<A: AsyncRead, B: AsyncRead> AsyncRead for Chain<A, B> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        if !*this.has_first_ended {
            let before = buf.remaining();
            ready!(this.first.poll_read(cx, buf))?;
            // A read into no room says nothing about the end.
            if buf.remaining() < before || before == 0 {
                return Poll::Ready(Ok(()));
            }
            *this.has_first_ended = true;
        }
        this.second.poll_read(cx, buf)
    }
}

impl<A: AsyncBufRead, B: AsyncBufRead> AsyncBufRead for Chain<A, B> {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.project();
        if !*this.has_first_ended {
            let bytes = ready!(this.first.poll_fill_buf(cx))?;
            if !bytes.is_empty() {
                return Poll::Ready(Ok(bytes));
            }
            *this.has_first_ended = true;
        }
        this.second.poll_fill_buf(cx)
    }

    fn consume(self: Pin<&mut Self>, amt: usize) {
        let this = self.project();
        if *this.has_first_ended { this.second.consume(amt) } else { this.first.consume(amt) }
    }
}
