//! Copying from readers to writers: [`copy`] and [`copy_buf`] one way, [`copy_bidirectional`] both.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::buffered::Buffer;
use super::buffered::buffer::CAPACITY;
use super::ext::operation::uninterrupted;
use super::{AsyncBufRead, AsyncRead, AsyncWrite};
use crate::coop;

/// Copies everything from `reader` to `writer`, flushes, and returns the number of bytes.
///
/// Up to 8 KiB are on the way. Each part is written as soon as the writer takes it. When `reader` makes the
/// copy wait, `writer` is flushed. `writer` is not shut down at the end.
///
/// # Errors
/// The errors of either side, or [`WriteZero`](io::ErrorKind::WriteZero) if `writer` takes no more. A read or
/// write that fails with [`Interrupted`](io::ErrorKind::Interrupted) is repeated.
///
/// # Cancel safety
/// Not safe: bytes that were read and not written are lost.
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
    let mut transfer = Transfer::new(CAPACITY);
    poll_fn(|cx| transfer.poll(cx, reader, writer)).await
}

/// Copies everything from `reader` to `writer`, out of the reader's own buffer, flushes, and returns the
/// number of bytes.
///
/// It works as [`copy`], without a buffer in between, and loses no bytes: those that the writer has not taken
/// stay in the reader.
///
/// # Errors
/// As for [`copy`].
///
/// # Cancel safety
/// Safe, except that the number of bytes is lost: bytes that have not been written have not been read.
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let mut reader = runtime::io::BufReader::new(&b"hello"[..]);
/// let mut writer = Vec::new();
/// assert_eq!(runtime::io::copy_buf(&mut reader, &mut writer).await.unwrap(), 5);
/// assert_eq!(writer, b"hello");
/// # });
/// ```
pub async fn copy_buf<R, W>(reader: &mut R, writer: &mut W) -> io::Result<u64>
where
    R: AsyncBufRead + Unpin + ?Sized,
    W: AsyncWrite + Unpin + ?Sized,
{
    let (mut copied, mut needs_flush) = (0, false);
    poll_fn(|cx| {
        loop {
            let coop = ready!(coop::poll_proceed(cx));
            let bytes = match Pin::new(&mut *reader).poll_fill_buf(cx) {
                Poll::Ready(Ok(bytes)) => bytes,
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::Interrupted => continue,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return poll_idle(writer, cx, &mut needs_flush),
            };
            if bytes.is_empty() {
                ready!(Pin::new(&mut *writer).poll_flush(cx))?;
                coop.made_progress();
                return Poll::Ready(Ok(copied));
            }
            let n = ready!(poll_write_some(writer, cx, bytes, copied))?;
            Pin::new(&mut *reader).consume(n);
            copied += n as u64;
            needs_flush = true;
            coop.made_progress();
        }
    })
    .await
}

/// Copies from `a` to `b` and from `b` to `a` at once, and returns the number of bytes each way.
///
/// When one side ends, the writing side of the other is shut down. The copy goes on until both have ended.
///
/// # Errors
/// The first error of either direction, as for [`copy`], or of a shutdown. The other direction stops then,
/// too.
///
/// # Cancel safety
/// Not safe: bytes that were read and not written are lost.
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
    copy_bidirectional_with_sizes(a, b, CAPACITY, CAPACITY).await
}

/// Copies as [`copy_bidirectional`] does, with up to `a_to_b_buf_size` bytes on the way from `a` to `b`, and
/// up to `b_to_a_buf_size` bytes from `b` to `a`.
///
/// # Errors
/// As for [`copy_bidirectional`].
///
/// # Panics
/// If a size is zero.
///
/// # Cancel safety
/// Not safe: bytes that were read and not written are lost.
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use runtime::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional_with_sizes};
///
/// let (mut client, mut near) = runtime::io::duplex(64);
/// let (mut far, mut server) = runtime::io::duplex(64);
/// client.write_all(b"ping").await?;
/// server.write_all(b"welcome").await?;
/// client.shutdown().await?;
/// server.shutdown().await?;
///
/// let copied = copy_bidirectional_with_sizes(&mut near, &mut far, 1024, 16).await?;
/// assert_eq!(copied, (4, 7));
/// let mut received = String::new();
/// client.read_to_string(&mut received).await?;
/// assert_eq!(received, "welcome");
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
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
    for (name, size) in [("a_to_b_buf_size", a_to_b_buf_size), ("b_to_a_buf_size", b_to_a_buf_size)] {
        assert!(size > 0, "`{name}` must be greater than 0: a buffer of 0 bytes copies nothing");
    }
    let mut up = Way::Copying(Transfer::new(a_to_b_buf_size));
    let mut down = Way::Copying(Transfer::new(b_to_a_buf_size));
    let mut is_up_first = false;
    poll_fn(|cx| {
        // By turns, because the first one may use up the budget of each poll.
        is_up_first = !is_up_first;
        let (mut sent, mut received) = (Poll::Pending, Poll::Pending);
        for is_up in [is_up_first, !is_up_first] {
            match is_up {
                true => sent = up.poll(cx, a, b)?,
                false => received = down.poll(cx, b, a)?,
            }
        }
        Poll::Ready(Ok((ready!(sent), ready!(received))))
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

/// Bytes on their way from a reader to a writer.
struct Transfer {
    buffer: Buffer,
    copied: u64,
    has_reader_ended: bool,
    needs_flush: bool,
}

impl Transfer {
    /// `size` must not be zero.
    fn new(size: usize) -> Self {
        Self { buffer: Buffer::new(size), copied: 0, has_reader_ended: false, needs_flush: false }
    }

    fn poll<R, W>(&mut self, cx: &mut Context<'_>, reader: &mut R, writer: &mut W) -> Poll<io::Result<u64>>
    where
        R: AsyncRead + Unpin + ?Sized,
        W: AsyncWrite + Unpin + ?Sized,
    {
        loop {
            // A stream of another crate may not spend budget, so each round spends some here.
            let coop = ready!(coop::poll_proceed(cx));
            // What was read is written before the next read, which may fail.
            let read = if self.buffer.is_empty() { self.poll_fill(cx, reader)? } else { Poll::Ready(()) };
            if !self.buffer.is_empty() {
                let Poll::Ready(n) = poll_write_some(writer, cx, self.buffer.filled(), self.copied)? else {
                    // The copy waits for the reader, too. Else it would not notice that the reader fails.
                    ready!(self.poll_fill_up(cx, reader))?;
                    return Poll::Pending;
                };
                self.buffer.consume(n);
                self.copied += n as u64;
                self.needs_flush = true;
                coop.made_progress();
            } else if self.has_reader_ended {
                ready!(Pin::new(&mut *writer).poll_flush(cx))?;
                coop.made_progress();
                return Poll::Ready(Ok(self.copied));
            } else if read.is_pending() {
                return poll_idle(writer, cx, &mut self.needs_flush);
            }
        }
    }

    /// Reads until the buffer has no more room, or the reader has ended.
    fn poll_fill_up<R>(&mut self, cx: &mut Context<'_>, reader: &mut R) -> Poll<io::Result<()>>
    where
        R: AsyncRead + Unpin + ?Sized,
    {
        while self.can_fill() {
            ready!(self.poll_fill(cx, reader))?;
        }
        Poll::Ready(Ok(()))
    }

    fn can_fill(&self) -> bool {
        !self.has_reader_ended && !self.buffer.is_at_end()
    }

    /// Reads into the room of the buffer, if it has room.
    fn poll_fill<R>(&mut self, cx: &mut Context<'_>, reader: &mut R) -> Poll<io::Result<()>>
    where
        R: AsyncRead + Unpin + ?Sized,
    {
        if !self.can_fill() {
            return Poll::Ready(Ok(()));
        }
        let n = ready!(uninterrupted(|| self.buffer.poll_fill(cx, Pin::new(&mut *reader))))?;
        self.has_reader_ended = n == 0;
        Poll::Ready(Ok(()))
    }
}

/// Writes the beginning of `bytes`, after `copied` earlier bytes.
fn poll_write_some<W>(
    writer: &mut W,
    cx: &mut Context<'_>,
    bytes: &[u8],
    copied: u64,
) -> Poll<io::Result<usize>>
where
    W: AsyncWrite + Unpin + ?Sized,
{
    let n = ready!(uninterrupted(|| Pin::new(&mut *writer).poll_write(cx, bytes)))?;
    if n == 0 {
        let message = format!("the writer takes no more, after {copied} bytes");
        return Poll::Ready(Err(io::Error::new(io::ErrorKind::WriteZero, message)));
    }
    Poll::Ready(Ok(n))
}

/// Flushes the writer while the reader has nothing. The reader may even wait for the bytes that the writer
/// holds back.
fn poll_idle<W>(writer: &mut W, cx: &mut Context<'_>, needs_flush: &mut bool) -> Poll<io::Result<u64>>
where
    W: AsyncWrite + Unpin + ?Sized,
{
    if *needs_flush {
        ready!(Pin::new(writer).poll_flush(cx))?;
        *needs_flush = false;
    }
    Poll::Pending
}
