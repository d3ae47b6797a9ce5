//! The everyday methods of readers with a buffer, and their operations.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::operation::{Operation, OperationFuture};
use super::text::{Kept, PartialText};
use super::until::poll_read_until;
use crate::io::AsyncBufRead;
use crate::io::buffered::{Lines, Split};

/// The everyday methods of each [`AsyncBufRead`].
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use runtime::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
///
/// let (mut client, server) = runtime::io::duplex(64);
/// client.write_all(b"HELO there\r\nQUIT\r\n").await?;
/// drop(client);
///
/// let mut reader = BufReader::new(server);
/// let mut verb = Vec::new();
/// reader.read_until(b' ', &mut verb).await?;
/// assert_eq!(verb, b"HELO ");
/// let mut lines = reader.lines();
/// assert_eq!(lines.next_line().await?.as_deref(), Some("there"));
/// assert_eq!(lines.next_line().await?.as_deref(), Some("QUIT"));
/// assert_eq!(lines.next_line().await?, None);
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
pub trait AsyncBufReadExt: AsyncBufRead {
    /// Reads up to and including the first `byte`, or to the end, and appends the bytes to `buf`. Returns the
    /// number of bytes.
    ///
    /// Zero means the end. There is no limit; [`take`](crate::io::AsyncReadExt::take) sets one.
    ///
    /// # Errors
    /// The reader's errors, except [`Interrupted`](io::ErrorKind::Interrupted), after which it tries again.
    /// The bytes that were read until then are in `buf`.
    ///
    /// # Cancel safety
    /// Safe, if the caller goes on with the same `buf`: the bytes read so far are in it. The returned number
    /// counts from the last call.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use runtime::io::AsyncBufReadExt;
    ///
    /// let mut reader = &b"key=value"[..];
    /// let mut key = Vec::new();
    /// assert_eq!(reader.read_until(b'=', &mut key).await?, 4);
    /// assert_eq!(key, b"key=");
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    fn read_until<'a>(&'a mut self, byte: u8, buf: &'a mut Vec<u8>) -> OperationFuture<ReadUntil<'a, Self>>
    where
        Self: Unpin,
    {
        OperationFuture::new(ReadUntil { reader: self, delimiter: byte, start: buf.len(), buf })
    }

    /// Reads up to and including the first line feed, or to the end, and appends the text to `buf`. Returns
    /// the number of bytes.
    ///
    /// Zero means the end. There is no limit; [`take`](crate::io::AsyncReadExt::take) sets one.
    ///
    /// # Errors
    /// [`InvalidData`](io::ErrorKind::InvalidData) if the line is not UTF-8. The line is lost then, and
    /// nothing of it is in `buf`. Or the reader's errors, except [`Interrupted`](io::ErrorKind::Interrupted),
    /// after which it tries again. The bytes that were read until then are in `buf`, if they are UTF-8.
    ///
    /// # Cancel safety
    /// Not safe: the bytes read so far are in `buf`, but they are lost if they end inside of a character.
    /// (Tokio leaves `buf` empty.) [`Lines::next_line`] and [`read_until`](Self::read_until) are safe.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use runtime::io::AsyncBufReadExt;
    ///
    /// let mut reader = &b"one\ntwo"[..];
    /// let mut line = String::new();
    /// while reader.read_line(&mut line).await? != 0 {
    ///     println!("{}", line.trim_end());
    ///     line.clear();
    /// }
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    fn read_line<'a>(&'a mut self, buf: &'a mut String) -> OperationFuture<ReadLine<'a, Self>>
    where
        Self: Unpin,
    {
        OperationFuture::new(ReadLine { reader: self, text: PartialText::new(buf, Kept::Whole) })
    }

    /// Makes a stream of the pieces between the bytes `byte`, without these bytes.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use runtime::io::{AsyncBufReadExt, BufReader};
    ///
    /// let mut pieces = BufReader::new(&b"one,two"[..]).split(b',');
    /// assert_eq!(pieces.next_segment().await?.as_deref(), Some(&b"one"[..]));
    /// assert_eq!(pieces.next_segment().await?.as_deref(), Some(&b"two"[..]));
    /// assert_eq!(pieces.next_segment().await?, None);
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    fn split(self, byte: u8) -> Split<Self>
    where
        Self: Sized + Unpin,
    {
        Split::new(self, byte)
    }

    /// Returns the bytes in the buffer, after filling it if it is empty. An empty slice means the end.
    ///
    /// The bytes stay in the buffer until [`consume`](Self::consume) removes them.
    ///
    /// # Errors
    /// The reader's errors. Nothing was read then.
    ///
    /// # Cancel safety
    /// Safe: bytes that have not been returned have not been read.
    ///
    /// # Panics
    /// If the future is polled again after it was ready.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use runtime::io::{AsyncBufReadExt, BufReader};
    ///
    /// let mut reader = BufReader::new(&b"hello"[..]);
    /// assert_eq!(reader.fill_buf().await?, b"hello");
    /// reader.consume(4);
    /// assert_eq!(reader.fill_buf().await?, b"o");
    /// reader.consume(1);
    /// assert_eq!(reader.fill_buf().await?, b"");
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    fn fill_buf(&mut self) -> OperationFuture<FillBuf<'_, Self>>
    where
        Self: Unpin,
    {
        OperationFuture::new(FillBuf { reader: Some(self) })
    }

    /// Removes `amt` bytes from the buffer, at most as many as [`fill_buf`](Self::fill_buf) returned.
    fn consume(&mut self, amt: usize)
    where
        Self: Unpin,
    {
        Pin::new(self).consume(amt);
    }

    /// Makes a stream of the lines, without their line feeds, and without a carriage return before a line
    /// feed.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use runtime::io::AsyncBufReadExt;
    ///
    /// let mut lines = (&b"one\r\ntwo"[..]).lines();
    /// assert_eq!(lines.next_line().await?.as_deref(), Some("one"));
    /// assert_eq!(lines.next_line().await?.as_deref(), Some("two"));
    /// assert_eq!(lines.next_line().await?, None);
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    fn lines(self) -> Lines<Self>
    where
        Self: Sized,
    {
        Lines::new(self)
    }
}

impl<R: AsyncBufRead + ?Sized> AsyncBufReadExt for R {}

/// The operation of [`AsyncBufReadExt::read_until`].
#[derive(Debug)]
pub struct ReadUntil<'a, R: ?Sized> {
    reader: &'a mut R,
    delimiter: u8,
    buf: &'a mut Vec<u8>,
    /// The length of `buf` at the beginning.
    start: usize,
}

impl<R: AsyncBufRead + Unpin + ?Sized> Operation for ReadUntil<'_, R> {
    type Output = io::Result<usize>;

    #[inline]
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        ready!(poll_read_until(Pin::new(&mut *self.reader), cx, self.delimiter, self.buf))?;
        Poll::Ready(Ok(self.buf.len() - self.start))
    }
}

/// The operation of [`AsyncBufReadExt::read_line`].
#[derive(Debug)]
pub struct ReadLine<'a, R: ?Sized> {
    reader: &'a mut R,
    text: PartialText<'a>,
}

impl<R: AsyncBufRead + Unpin + ?Sized> Operation for ReadLine<'_, R> {
    type Output = io::Result<usize>;

    #[inline]
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let result = ready!(poll_read_until(Pin::new(&mut *self.reader), cx, b'\n', self.text.bytes_mut()));
        Poll::Ready(self.text.finish(result))
    }
}

/// The operation of [`AsyncBufReadExt::fill_buf`].
#[derive(Debug)]
pub struct FillBuf<'a, R: ?Sized> {
    /// `None` once its bytes have been returned, because they borrow from it.
    reader: Option<&'a mut R>,
}

impl<'a, R: AsyncBufRead + Unpin + ?Sized> Operation for FillBuf<'a, R> {
    type Output = io::Result<&'a [u8]>;

    #[inline]
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<&'a [u8]>> {
        let reader: *mut R = self.reader.take().expect("`fill_buf` was polled after it was ready");
        // SAFETY: the pointer comes from a reference that lives as long. The borrow made here ends when
        // `poll_fill_buf` returns `Pending`. Or it is returned, and then the pointer is not used again.
        match unsafe { Pin::new(&mut *reader) }.poll_fill_buf(cx) {
            Poll::Ready(result) => Poll::Ready(result),
            Poll::Pending => {
                // SAFETY: as above.
                self.reader = Some(unsafe { &mut *reader });
                Poll::Pending
            }
        }
    }
}
