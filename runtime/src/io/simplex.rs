//! A pipe in memory, for one direction: [`SimplexStream`], and [`simplex`], which splits it.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use super::{AsyncRead, AsyncWrite, ReadBuf, ReadHalf, WriteHalf, split};
use crate::coop;

/// Creates a pipe in memory. One half reads what the other writes. Up to `max_buf_size` bytes wait in it.
///
/// The halves are those of [`split`]. Dropping a half does not end the pipe, so the writer must shut it down.
/// A pipe made by [`duplex`](super::duplex()) ends when one of its ends is dropped.
///
/// # Panics
/// If `max_buf_size` is zero, because nothing could ever pass.
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use runtime::io::{AsyncReadExt, AsyncWriteExt};
///
/// let (mut reader, mut writer) = runtime::io::simplex(64);
/// writer.write_all(b"hello").await?;
/// writer.shutdown().await?;
/// let mut text = String::new();
/// reader.read_to_string(&mut text).await?;
/// assert_eq!(text, "hello");
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
#[track_caller]
pub fn simplex(max_buf_size: usize) -> (ReadHalf<SimplexStream>, WriteHalf<SimplexStream>) {
    split(SimplexStream::new_unsplit(max_buf_size))
}

/// A pipe in memory: bytes that are written to it can be read from it.
///
/// It is one value that is both ends. [`simplex`] splits it into two halves. After a
/// [`shutdown`](super::AsyncWriteExt::shutdown), writes fail with [`BrokenPipe`](io::ErrorKind::BrokenPipe).
#[derive(Debug)]
pub struct SimplexStream {
    /// At most `capacity` bytes, so it does not grow without bound.
    bytes: VecDeque<u8>,
    capacity: usize,
    /// No byte will be written, or read, any more.
    is_closed: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// One end of a pipe.
#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    Reader,
    Writer,
}

impl SimplexStream {
    /// Creates a pipe in memory that holds up to `max_buf_size` bytes.
    ///
    /// # Panics
    /// If `max_buf_size` is zero, because nothing could ever pass.
    #[track_caller]
    pub fn new_unsplit(max_buf_size: usize) -> SimplexStream {
        assert!(max_buf_size > 0, "a pipe needs room for at least 1 byte, got 0");
        Self { bytes: VecDeque::new(), capacity: max_buf_size, is_closed: false, reader: None, writer: None }
    }

    /// Reads the bytes that are there, or the end, and returns the writer to wake. `None` if the reader must
    /// wait.
    #[inline]
    pub(super) fn try_read(&mut self, buf: &mut ReadBuf<'_>) -> Option<Option<Waker>> {
        if buf.remaining() == 0 {
            return Some(None);
        }
        if self.bytes.is_empty() {
            return self.is_closed.then_some(None);
        }
        let n = self.bytes.len().min(buf.remaining());
        let (front, back) = self.bytes.as_slices();
        let from_front = front.len().min(n);
        buf.put_slice(&front[..from_front]);
        buf.put_slice(&back[..n - from_front]);
        self.bytes.drain(..n);
        Some(self.writer.take())
    }

    /// Writes as many bytes as fit, one slice after the other. Returns their number, and the reader to wake.
    /// `None` if the writer must wait.
    #[inline]
    pub(super) fn try_write(&mut self, bufs: &[IoSlice<'_>]) -> Option<(io::Result<usize>, Option<Waker>)> {
        if self.is_closed {
            return Some((Err(io::ErrorKind::BrokenPipe.into()), None));
        }
        let room = self.capacity - self.bytes.len();
        let mut left = room;
        for buf in bufs {
            let n = buf.len().min(left);
            self.bytes.extend(&buf[..n]);
            left -= n;
        }
        if left < room {
            return Some((Ok(room - left), self.reader.take()));
        }
        bufs.iter().all(|buf| buf.is_empty()).then_some((Ok(0), None))
    }

    /// Ends the pipe. Returns the wakers of the task that waits at the other end, and of the task that waits
    /// at `end`.
    pub(super) fn close(&mut self, end: End) -> (Option<Waker>, Option<Waker>) {
        self.is_closed = true;
        let wakers = (self.reader.take(), self.writer.take());
        match end {
            End::Writer => wakers,
            End::Reader => (wakers.1, wakers.0),
        }
    }

    /// The waker of the task that waits at an end.
    #[inline]
    pub(super) fn waiting(&mut self, end: End) -> &mut Option<Waker> {
        match end {
            End::Reader => &mut self.reader,
            End::Writer => &mut self.writer,
        }
    }

    /// Makes an attempt, and lets the caller wait if the attempt finds nothing to do.
    fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        end: End,
        attempt: impl FnOnce(&mut Self) -> Option<(T, Option<Waker>)>,
    ) -> Poll<T> {
        let coop = ready!(coop::poll_proceed(cx));
        match attempt(self) {
            Some((result, other)) => {
                coop.made_progress();
                other.into_iter().for_each(Waker::wake);
                Poll::Ready(result)
            }
            None => {
                let waiting = self.waiting(end);
                if !waiting.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                    *waiting = Some(cx.waker().clone());
                }
                Poll::Pending
            }
        }
    }
}

impl AsyncRead for SimplexStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll(cx, End::Reader, |pipe| pipe.try_read(buf).map(|writer| (Ok(()), writer)))
    }
}

impl AsyncWrite for SimplexStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    /// Does nothing, because written bytes can be read at once.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ends the pipe. The bytes in it can still be read, and then comes the end.
    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (reader, _) = self.close(End::Writer);
        reader.into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll(cx, End::Writer, |pipe| pipe.try_write(bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}
