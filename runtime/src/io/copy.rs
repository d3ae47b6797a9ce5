//! Passing on what is read: [`copy`] one way, [`copy_bidirectional`] both.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::{AsyncRead, AsyncWrite, ReadBuf};
use crate::coop;

/// Bytes on the way at most, per direction, unless said otherwise.
const BUFFER: usize = 8 * 1024;

/// Copies everything from `reader` to `writer`, flushes, and says how many bytes.
///
/// Up to 8 KiB are on the way. What has been read is written as soon as the writer takes it; while the reader has
/// nothing more, the writer is flushed. `writer` is not shut down at the end.
///
/// # Errors
/// Those of either side, or [`WriteZero`](io::ErrorKind::WriteZero) if `writer` takes no more.
///
/// # Cancel safety
/// Not safe: what has been read but not written is lost.
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let mut writer = Vec::new();
/// assert_eq!(runtime::io::copy(&mut &b"hello"[..], &mut writer).await.unwrap(), 5);
/// assert_eq!(writer, b"hello");
/// # });
/// ```
pub async fn copy<R, W>(reader: &mut R, writer: &mut W) -> io::Result<u64>
where
    R: AsyncRead + Unpin + ?Sized,
    W: AsyncWrite + Unpin + ?Sized,
{
    let mut transfer = Transfer::new(BUFFER);
    poll_fn(|cx| transfer.poll(cx, reader, writer)).await
}

/// Copies from `a` to `b` and from `b` to `a` at once, and says how many bytes each way.
///
/// When one side ends, the other one's writing side is shut down; it goes on until both have ended.
///
/// # Errors
/// The first of either side, as for [`copy`]; the other direction stops then too.
///
/// # Cancel safety
/// Not safe: what has been read but not written is lost.
///
/// # Examples
/// ```no_run
/// # async fn f() -> std::io::Result<()> {
/// # let (mut client, mut server) = runtime::io::duplex(64);
/// let (up, down) = runtime::io::copy_bidirectional(&mut client, &mut server).await?;
/// println!("{up} bytes up, {down} bytes down");
/// # Ok(())
/// # }
/// ```
pub async fn copy_bidirectional<A, B>(a: &mut A, b: &mut B) -> io::Result<(u64, u64)>
where
    A: AsyncRead + AsyncWrite + Unpin + ?Sized,
    B: AsyncRead + AsyncWrite + Unpin + ?Sized,
{
    copy_bidirectional_with_sizes(a, b, BUFFER, BUFFER).await
}

/// As [`copy_bidirectional`], with up to so many bytes on the way from `a` to `b` and from `b` to `a`.
///
/// # Errors
/// As there.
///
/// # Panics
/// If a size is zero.
///
/// # Cancel safety
/// Not safe: what has been read but not written is lost.
pub async fn copy_bidirectional_with_sizes<A, B>(
    a: &mut A,
    b: &mut B,
    a_to_b_buf_size: usize,
    b_to_a_buf_size: usize,
) -> io::Result<(u64, u64)>
where
    A: AsyncRead + AsyncWrite + Unpin + ?Sized,
    B: AsyncRead + AsyncWrite + Unpin + ?Sized,
{
    let mut up = Way::Copying(Transfer::new(a_to_b_buf_size));
    let mut down = Way::Copying(Transfer::new(b_to_a_buf_size));
    poll_fn(|cx| {
        let up = up.poll(cx, a, b)?;
        let down = down.poll(cx, b, a)?;
        Poll::Ready(Ok((ready!(up), ready!(down))))
    })
    .await
}

/// One direction of two.
enum Way {
    Copying(Transfer),
    ShuttingDown(u64),
    Done(u64),
}

impl Way {
    fn poll<R, W>(&mut self, cx: &mut Context<'_>, reader: &mut R, writer: &mut W) -> Poll<io::Result<u64>>
    where
        R: AsyncRead + Unpin + ?Sized,
        W: AsyncWrite + Unpin + ?Sized,
    {
        loop {
            *self = match self {
                Way::Copying(transfer) => Way::ShuttingDown(ready!(transfer.poll(cx, reader, writer))?),
                Way::ShuttingDown(n) => {
                    ready!(Pin::new(&mut *writer).poll_shutdown(cx))?;
                    Way::Done(*n)
                }
                Way::Done(n) => return Poll::Ready(Ok(*n)),
            };
        }
    }
}

/// A buffer on its way: `buf[start..end]` has been read and not yet written.
struct Transfer {
    buf: Box<[u8]>,
    start: usize,
    end: usize,
    copied: u64,
    has_reader_ended: bool,
    needs_flush: bool,
}

impl Transfer {
    fn new(size: usize) -> Self {
        assert!(size > 0, "a buffer of 0 bytes copies nothing: give it at least 1");
        Self {
            buf: vec![0; size].into_boxed_slice(),
            start: 0,
            end: 0,
            copied: 0,
            has_reader_ended: false,
            needs_flush: false,
        }
    }

    fn poll<R, W>(&mut self, cx: &mut Context<'_>, reader: &mut R, writer: &mut W) -> Poll<io::Result<u64>>
    where
        R: AsyncRead + Unpin + ?Sized,
        W: AsyncWrite + Unpin + ?Sized,
    {
        loop {
            // Streams of foreign crates may not take part in the budget: each round does.
            let coop = ready!(coop::poll_proceed(cx));
            let read = self.poll_fill(cx, reader)?;
            if self.start < self.end {
                ready!(self.poll_drain(cx, writer))?;
                coop.made_progress();
            } else if self.has_reader_ended {
                ready!(Pin::new(&mut *writer).poll_flush(cx))?;
                coop.made_progress();
                return Poll::Ready(Ok(self.copied));
            } else if read.is_pending() {
                // Nothing to write, so the time is good for what the writer holds back.
                if self.needs_flush {
                    ready!(Pin::new(&mut *writer).poll_flush(cx))?;
                    self.needs_flush = false;
                }
                return Poll::Pending;
            }
        }
    }

    /// Reads into the free end of the buffer, if there is one.
    fn poll_fill<R>(&mut self, cx: &mut Context<'_>, reader: &mut R) -> Poll<io::Result<()>>
    where
        R: AsyncRead + Unpin + ?Sized,
    {
        if self.has_reader_ended || self.end == self.buf.len() {
            return Poll::Ready(Ok(()));
        }
        let mut buf = ReadBuf::new(&mut self.buf[self.end..]);
        ready!(Pin::new(reader).poll_read(cx, &mut buf))?;
        let n = buf.filled().len();
        self.has_reader_ended = n == 0;
        self.end += n;
        Poll::Ready(Ok(()))
    }

    /// Writes what is in the buffer, once.
    fn poll_drain<W>(&mut self, cx: &mut Context<'_>, writer: &mut W) -> Poll<io::Result<()>>
    where
        W: AsyncWrite + Unpin + ?Sized,
    {
        let n = ready!(Pin::new(writer).poll_write(cx, &self.buf[self.start..self.end]))?;
        if n == 0 {
            return Poll::Ready(Err(io::Error::new(
                io::ErrorKind::WriteZero,
                format!("the writer takes no more, after {} bytes", self.copied),
            )));
        }
        self.start += n;
        self.copied += n as u64;
        self.needs_flush = true;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        Poll::Ready(Ok(()))
    }
}
