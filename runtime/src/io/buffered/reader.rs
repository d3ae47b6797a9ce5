//! A buffer that makes fewer and larger reads.

use std::fmt;
use std::io::{self, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::buffer::{Buffer, CAPACITY};
use crate::io::traits::forward;
use crate::io::{AsyncBufRead, AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};

pin_project! {
    /// A reader with a buffer. It reads much at once from the wrapped reader, for programs that read little
    /// at a time.
    ///
    /// If the buffer is empty, a read of at least the capacity goes directly to the wrapped reader. Writes
    /// always do. Dropping the reader loses the bytes in its buffer, so the rest of the stream must be read
    /// through this reader. A buffer only helps with many small reads of a socket or file.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use runtime::io::{AsyncBufReadExt, BufReader};
    ///
    /// let mut reader = BufReader::new(&b"first\nsecond\n"[..]);
    /// let mut line = String::new();
    /// reader.read_line(&mut line).await?;
    /// assert_eq!(line, "first\n");
    /// assert_eq!(reader.buffer(), b"second\n");
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    pub struct BufReader<R> {
        #[pin]
        pub(super) inner: R,
        pub(super) buffer: Buffer,
        pub(super) seeking: Seeking,
    }
}

/// The state of a seek.
#[derive(Debug, Clone, Copy)]
pub(super) enum Seeking {
    No,
    /// The seek has not begun.
    Asked(SeekFrom),
    /// The wrapped reader seeks back to the position that the program sees. From there it seeks on by this
    /// offset.
    MovingBack(i64),
    Moving,
}

impl<R: AsyncRead> BufReader<R> {
    /// Gives `inner` a buffer of 8 KiB.
    pub fn new(inner: R) -> Self {
        Self::with_capacity(CAPACITY, inner)
    }

    /// Gives `inner` a buffer of `capacity` bytes.
    ///
    /// # Panics
    /// If `capacity` is zero, because nothing could ever be read.
    #[track_caller]
    pub fn with_capacity(capacity: usize, inner: R) -> Self {
        assert!(capacity > 0, "capacity must be greater than zero: a buffer of 0 bytes reads nothing");
        Self { inner, buffer: Buffer::new(capacity), seeking: Seeking::No }
    }

    /// Returns the wrapped reader.
    pub fn get_ref(&self) -> &R {
        &self.inner
    }

    /// Returns the wrapped reader. Bytes that the program reads from it directly come after those in the
    /// buffer.
    pub fn get_mut(&mut self) -> &mut R {
        &mut self.inner
    }

    /// Returns the wrapped reader, pinned. Bytes that the program reads from it directly come after those in
    /// the buffer.
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut R> {
        self.project().inner
    }

    /// Returns the wrapped reader. The bytes in the buffer are lost.
    pub fn into_inner(self) -> R {
        self.inner
    }

    /// Returns the bytes in the buffer, without reading more.
    pub fn buffer(&self) -> &[u8] {
        self.buffer.filled()
    }
}

impl<R: AsyncRead> AsyncRead for BufReader<R> {
    #[inline]
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        if this.buffer.is_empty() {
            if buf.remaining() >= this.buffer.capacity() {
                return this.inner.poll_read(cx, buf);
            }
            ready!(this.buffer.poll_fill(cx, this.inner))?;
        }
        this.buffer.drain_into(buf);
        Poll::Ready(Ok(()))
    }
}

impl<R: AsyncRead> AsyncBufRead for BufReader<R> {
    #[inline]
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.project();
        if this.buffer.is_empty() {
            ready!(this.buffer.poll_fill(cx, this.inner))?;
        }
        Poll::Ready(Ok(this.buffer.filled()))
    }

    #[inline]
    fn consume(self: Pin<&mut Self>, amt: usize) {
        self.project().buffer.consume(amt);
    }
}

/// A successful seek empties the buffer. The program's position is that of the wrapped reader minus the
/// number of bytes in the buffer.
impl<R: AsyncRead + AsyncSeek> AsyncSeek for BufReader<R> {
    fn start_seek(self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        *self.project().seeking = Seeking::Asked(position);
        Ok(())
    }

    fn poll_complete(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        let mut this = self.project();
        loop {
            let position = match *this.seeking {
                Seeking::No => return this.inner.poll_complete(cx),
                Seeking::Asked(position) => position,
                Seeking::MovingBack(_) | Seeking::Moving => {
                    let result = ready!(this.inner.as_mut().poll_complete(cx));
                    let before = std::mem::replace(this.seeking, Seeking::No);
                    if result.is_ok() {
                        this.buffer.clear();
                    }
                    match (before, &result) {
                        (Seeking::MovingBack(offset), Ok(_)) => SeekFrom::Current(offset),
                        _ => return Poll::Ready(result),
                    }
                }
            };
            // If `start_seek` fails, no seek is under way.
            *this.seeking = Seeking::No;
            // No allocation is larger than `i64::MAX`.
            let ahead = this.buffer.filled().len() as i64;
            let (position, next) = match position {
                SeekFrom::Current(offset) => match offset.checked_sub(ahead) {
                    Some(offset) => (SeekFrom::Current(offset), Seeking::Moving),
                    None => (SeekFrom::Current(-ahead), Seeking::MovingBack(offset)),
                },
                position => (position, Seeking::Moving),
            };
            this.inner.as_mut().start_seek(position)?;
            *this.seeking = next;
        }
    }
}

impl<R: AsyncRead + AsyncWrite> AsyncWrite for BufReader<R> {
    forward!(AsyncWrite: self => self.project().inner, self.inner);
}

impl<R: fmt::Debug> fmt::Debug for BufReader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufReader").field("reader", &self.inner).field("buffer", &self.buffer).finish()
    }
}
