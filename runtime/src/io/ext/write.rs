//! The everyday methods of writers, and their operations.

use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Buf;

use super::number::{Number, for_each_number};
use super::operation::{Operation, OperationFuture, uninterrupted};
use crate::io::AsyncWrite;

/// The number of slices that [`AsyncWriteExt::write_all_buf`] passes on at once.
const SLICES: usize = 64;

/// The method that writes a number, and its twin for the other byte order.
macro_rules! write_number_methods {
    ($($ty:ty, $words:literal, $read:ident $read_le:ident, $name:ident $le:ident;)*) => {$(
        write_number_methods!(@method $ty, $name, to_be_bytes, $words, "most");
        write_number_methods!(@method $ty, $le, to_le_bytes, $words, "least");
    )*};
    (@method $ty:ty, $name:ident, $to_bytes:ident, $words:literal, $first:literal) => {
        #[doc = concat!("Writes ", $words, ", ", $first, " significant byte first.")]
        ///
        /// # Errors
        /// As for [`write_all`](Self::write_all).
        ///
        /// # Cancel safety
        /// Not safe: the number of bytes that were written is lost.
        #[inline]
        fn $name(&mut self, number: $ty) -> OperationFuture<WriteNumber<'_, Self, $ty>>
        where
            Self: Unpin,
        {
            WriteNumber::future(self, number.$to_bytes())
        }
    };
}

/// The everyday methods of each [`AsyncWrite`].
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use runtime::io::AsyncWriteExt;
///
/// let mut writer = Vec::new();
/// writer.write_u16(5).await?;
/// writer.write_all(b"hello").await?;
/// assert_eq!(writer, b"\0\x05hello");
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
pub trait AsyncWriteExt: AsyncWrite {
    /// Writes the beginning of `buf`, and waits until there is room. Returns the number of bytes.
    ///
    /// Zero means that the writer takes no more, or that `buf` is empty.
    ///
    /// # Errors
    /// The writer's errors. Nothing was written then.
    ///
    /// # Cancel safety
    /// Safe: bytes that have not been counted have not been written.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use std::io::Cursor;
    /// use runtime::io::AsyncWriteExt;
    ///
    /// let mut room = [0; 4];
    /// let mut writer = Cursor::new(&mut room[..]);
    /// assert_eq!(writer.write(b"hello").await?, 4);
    /// assert_eq!(&room, b"hell");
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    fn write<'a>(&'a mut self, buf: &'a [u8]) -> OperationFuture<Write<'a, Self>>
    where
        Self: Unpin,
    {
        OperationFuture::new(Write { writer: self, buf })
    }

    /// Writes the beginning of `bufs`, one after the other, and returns the number of bytes.
    ///
    /// Zero means that the writer takes no more, or that all of `bufs` are empty.
    ///
    /// # Errors
    /// The writer's errors. Nothing was written then.
    ///
    /// # Cancel safety
    /// Safe: bytes that have not been counted have not been written.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use std::io::IoSlice;
    /// use runtime::io::AsyncWriteExt;
    ///
    /// let mut writer = Vec::new();
    /// let bufs = [IoSlice::new(b"hel"), IoSlice::new(b"lo")];
    /// assert_eq!(writer.write_vectored(&bufs).await?, 5);
    /// assert_eq!(writer, b"hello");
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    fn write_vectored<'a, 'b>(
        &'a mut self,
        bufs: &'a [IoSlice<'b>],
    ) -> OperationFuture<WriteVectored<'a, 'b, Self>>
    where
        Self: Unpin,
    {
        OperationFuture::new(WriteVectored { writer: self, bufs })
    }

    /// Writes the beginning of `buf`, advances `buf`, and returns the number of bytes.
    ///
    /// Zero means that the writer takes no more, or that `buf` is empty.
    ///
    /// # Errors
    /// The writer's errors. Nothing was written then.
    ///
    /// # Cancel safety
    /// Safe: `buf` is advanced by the bytes that were written.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use std::io::Cursor;
    /// use runtime::io::AsyncWriteExt;
    ///
    /// let mut room = [0; 4];
    /// let mut writer = Cursor::new(&mut room[..]);
    /// let mut buf = &b"hello"[..];
    /// assert_eq!(writer.write_buf(&mut buf).await?, 4);
    /// assert_eq!(buf, b"o");
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    fn write_buf<'a, B: Buf>(&'a mut self, buf: &'a mut B) -> OperationFuture<WriteBuf<'a, Self, B>>
    where
        Self: Unpin,
    {
        OperationFuture::new(WriteBuf { writer: self, buf })
    }

    /// Writes all of `buf`.
    ///
    /// # Errors
    /// [`WriteZero`](io::ErrorKind::WriteZero) if the writer takes no more, or the writer's errors, except
    /// [`Interrupted`](io::ErrorKind::Interrupted), after which it tries again. The beginning of `buf` may
    /// have been written then.
    ///
    /// # Cancel safety
    /// Not safe: the number of bytes that were written is lost.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use runtime::io::{AsyncReadExt, AsyncWriteExt};
    ///
    /// let (mut near, mut far) = runtime::io::duplex(2);
    /// let writing = async {
    ///     near.write_all(b"hello").await?;
    ///     near.shutdown().await
    /// };
    /// let mut text = String::new();
    /// let (written, read) = runtime::join!(writing, far.read_to_string(&mut text));
    /// written?;
    /// read?;
    /// assert_eq!(text, "hello");
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    fn write_all<'a>(&'a mut self, buf: &'a [u8]) -> OperationFuture<WriteAll<'a, Self>>
    where
        Self: Unpin,
    {
        OperationFuture::new(WriteAll { writer: self, buf, written: 0 })
    }

    /// Writes all of `buf`, and advances it.
    ///
    /// # Errors
    /// [`WriteZero`](io::ErrorKind::WriteZero) if the writer takes no more, or the writer's errors, except
    /// [`Interrupted`](io::ErrorKind::Interrupted), after which it tries again. `buf` is advanced by the
    /// bytes that were written until then.
    ///
    /// # Cancel safety
    /// Safe, if the caller goes on with the same `buf`: it is advanced by the bytes that were written.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use std::io::Cursor;
    /// use runtime::io::{AsyncWriteExt, ErrorKind};
    ///
    /// let mut room = [0; 4];
    /// let mut writer = Cursor::new(&mut room[..]);
    /// let mut buf = &b"hello"[..];
    /// let error = writer.write_all_buf(&mut buf).await.unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::WriteZero);
    /// assert_eq!(buf, b"o");
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    fn write_all_buf<'a, B: Buf>(&'a mut self, buf: &'a mut B) -> OperationFuture<WriteAllBuf<'a, Self, B>>
    where
        Self: Unpin,
    {
        OperationFuture::new(WriteAllBuf { writer: self, buf })
    }

    /// Passes on all buffered bytes.
    ///
    /// # Errors
    /// The writer's errors.
    ///
    /// # Cancel safety
    /// Safe.
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
    fn flush(&mut self) -> OperationFuture<Flush<'_, Self>>
    where
        Self: Unpin,
    {
        OperationFuture::new(Flush { writer: self })
    }

    /// Flushes and ends the stream. A TCP stream tells its peer that nothing more will come.
    ///
    /// # Errors
    /// The writer's errors.
    ///
    /// # Cancel safety
    /// Safe: call it again.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use runtime::io::{AsyncReadExt, AsyncWriteExt};
    ///
    /// let (mut near, mut far) = runtime::io::duplex(64);
    /// near.shutdown().await?;
    /// assert_eq!(far.read(&mut [0; 8]).await?, 0);
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    fn shutdown(&mut self) -> OperationFuture<Shutdown<'_, Self>>
    where
        Self: Unpin,
    {
        OperationFuture::new(Shutdown { writer: self })
    }

    /// Writes one byte.
    ///
    /// # Errors
    /// As for [`write_all`](Self::write_all).
    ///
    /// # Cancel safety
    /// Safe.
    #[inline]
    fn write_u8(&mut self, number: u8) -> OperationFuture<WriteNumber<'_, Self, u8>>
    where
        Self: Unpin,
    {
        WriteNumber::future(self, number.to_be_bytes())
    }

    /// Writes a signed number of one byte.
    ///
    /// # Errors
    /// As for [`write_all`](Self::write_all).
    ///
    /// # Cancel safety
    /// Safe.
    #[inline]
    fn write_i8(&mut self, number: i8) -> OperationFuture<WriteNumber<'_, Self, i8>>
    where
        Self: Unpin,
    {
        WriteNumber::future(self, number.to_be_bytes())
    }

    for_each_number!(write_number_methods);
}

impl<W: AsyncWrite + ?Sized> AsyncWriteExt for W {}

/// The operation of [`AsyncWriteExt::write`].
#[derive(Debug)]
pub struct Write<'a, W: ?Sized> {
    writer: &'a mut W,
    buf: &'a [u8],
}

impl<W: AsyncWrite + Unpin + ?Sized> Operation for Write<'_, W> {
    type Output = io::Result<usize>;

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.writer).poll_write(cx, self.buf)
    }
}

/// The operation of [`AsyncWriteExt::write_vectored`].
#[derive(Debug)]
pub struct WriteVectored<'a, 'b, W: ?Sized> {
    writer: &'a mut W,
    bufs: &'a [IoSlice<'b>],
}

impl<W: AsyncWrite + Unpin + ?Sized> Operation for WriteVectored<'_, '_, W> {
    type Output = io::Result<usize>;

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.writer).poll_write_vectored(cx, self.bufs)
    }
}

/// The operation of [`AsyncWriteExt::write_buf`].
#[derive(Debug)]
pub struct WriteBuf<'a, W: ?Sized, B> {
    writer: &'a mut W,
    buf: &'a mut B,
}

impl<W: AsyncWrite + Unpin + ?Sized, B: Buf> Operation for WriteBuf<'_, W, B> {
    type Output = io::Result<usize>;

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if !self.buf.has_remaining() {
            return Poll::Ready(Ok(0));
        }
        poll_write_some(self.writer, cx, self.buf)
    }
}

/// Writes once from `buf`, which is not empty, and advances it.
fn poll_write_some<W: AsyncWrite + Unpin + ?Sized>(
    writer: &mut W,
    cx: &mut Context<'_>,
    buf: &mut impl Buf,
) -> Poll<io::Result<usize>> {
    let n = if writer.is_write_vectored() {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let count = buf.chunks_vectored(&mut slices);
        ready!(Pin::new(&mut *writer).poll_write_vectored(cx, &slices[..count]))?
    } else {
        ready!(Pin::new(&mut *writer).poll_write(cx, buf.chunk()))?
    };
    buf.advance(n);
    Poll::Ready(Ok(n))
}

/// The operation of [`AsyncWriteExt::write_all_buf`].
#[derive(Debug)]
pub struct WriteAllBuf<'a, W: ?Sized, B> {
    writer: &'a mut W,
    buf: &'a mut B,
}

impl<W: AsyncWrite + Unpin + ?Sized, B: Buf> Operation for WriteAllBuf<'_, W, B> {
    type Output = io::Result<()>;

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.buf.has_remaining() {
            if ready!(uninterrupted(|| poll_write_some(self.writer, cx, self.buf)))? == 0 {
                return Poll::Ready(Err(takes_no_more(self.buf.remaining())));
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// The operation of [`AsyncWriteExt::write_all`].
#[derive(Debug)]
pub struct WriteAll<'a, W: ?Sized> {
    writer: &'a mut W,
    buf: &'a [u8],
    written: usize,
}

impl<W: AsyncWrite + Unpin + ?Sized> Operation for WriteAll<'_, W> {
    type Output = io::Result<()>;

    #[inline]
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        poll_write_all(Pin::new(&mut *self.writer), cx, self.buf, &mut self.written)
    }
}

/// Writes all of `buf`. The first `written` bytes have been written already.
#[inline]
pub(in crate::io) fn poll_write_all<W: AsyncWrite + ?Sized>(
    mut writer: Pin<&mut W>,
    cx: &mut Context<'_>,
    buf: &[u8],
    written: &mut usize,
) -> Poll<io::Result<()>> {
    while *written < buf.len() {
        let left = &buf[*written..];
        let n = ready!(uninterrupted(|| writer.as_mut().poll_write(cx, left)))?;
        if n == 0 {
            return Poll::Ready(Err(takes_no_more(left.len())));
        }
        *written += n;
    }
    Poll::Ready(Ok(()))
}

#[cold]
fn takes_no_more(left: usize) -> io::Error {
    io::Error::new(ErrorKind::WriteZero, format!("the writer takes no more, with {left} bytes left"))
}

/// The operation of [`AsyncWriteExt::flush`].
#[derive(Debug)]
pub struct Flush<'a, W: ?Sized> {
    writer: &'a mut W,
}

impl<W: AsyncWrite + Unpin + ?Sized> Operation for Flush<'_, W> {
    type Output = io::Result<()>;

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.writer).poll_flush(cx)
    }
}

/// The operation of [`AsyncWriteExt::shutdown`].
#[derive(Debug)]
pub struct Shutdown<'a, W: ?Sized> {
    writer: &'a mut W,
}

impl<W: AsyncWrite + Unpin + ?Sized> Operation for Shutdown<'_, W> {
    type Output = io::Result<()>;

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.writer).poll_shutdown(cx)
    }
}

/// The operation of the methods of [`AsyncWriteExt`] that write a number.
#[derive(Debug)]
pub struct WriteNumber<'a, W: ?Sized, N: Number> {
    writer: &'a mut W,
    bytes: N::Bytes,
    written: usize,
}

impl<'a, W: ?Sized, N: Number> WriteNumber<'a, W, N> {
    #[inline]
    fn future(writer: &'a mut W, bytes: N::Bytes) -> OperationFuture<Self> {
        OperationFuture::new(Self { writer, bytes, written: 0 })
    }
}

impl<W: AsyncWrite + Unpin + ?Sized, N: Number> Operation for WriteNumber<'_, W, N> {
    type Output = io::Result<()>;

    #[inline]
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        poll_write_all(Pin::new(&mut *self.writer), cx, self.bytes.as_ref(), &mut self.written)
    }
}
