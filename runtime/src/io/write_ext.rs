//! The everyday methods of writers, and their futures.

use std::future::Future;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Buf;

use super::AsyncWrite;
use super::read_ext::Number;

/// Slices that [`AsyncWriteExt::write_all_buf`] passes on at once.
const SLICES: usize = 64;

macro_rules! write_number_methods {
    ($($name:ident, $le:ident: $ty:ty, $words:literal;)*) => {$(
        #[doc = concat!("Writes ", $words, ", most significant byte first.")]
        ///
        /// # Errors
        /// As for [`write_all`](Self::write_all).
        ///
        /// # Cancel safety
        /// Not safe: nobody knows how many bytes were written.
        fn $name(&mut self, number: $ty) -> WriteNumber<'_, Self, $ty>
        where
            Self: Unpin,
        {
            WriteNumber { writer: self, bytes: number.to_be_bytes(), written: 0 }
        }

        #[doc = concat!("Writes ", $words, ", least significant byte first.")]
        ///
        /// # Errors
        /// As for [`write_all`](Self::write_all).
        ///
        /// # Cancel safety
        /// Not safe: nobody knows how many bytes were written.
        fn $le(&mut self, number: $ty) -> WriteNumber<'_, Self, $ty>
        where
            Self: Unpin,
        {
            WriteNumber { writer: self, bytes: number.to_le_bytes(), written: 0 }
        }
    )*};
}

/// The everyday methods of everything that is [`AsyncWrite`].
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
    /// Writes the beginning of `buf`, waiting until there is room, and says how many bytes.
    ///
    /// # Errors
    /// Those of the writer; nothing was written then.
    ///
    /// # Cancel safety
    /// Safe: bytes that have not been counted have not been written.
    fn write<'a>(&'a mut self, buf: &'a [u8]) -> Write<'a, Self>
    where
        Self: Unpin,
    {
        Write { writer: self, buf }
    }

    /// Writes the beginning of `bufs`, one after the other, and says how many bytes.
    ///
    /// # Errors
    /// Those of the writer; nothing was written then.
    ///
    /// # Cancel safety
    /// Safe: bytes that have not been counted have not been written.
    fn write_vectored<'a, 'b>(&'a mut self, bufs: &'a [IoSlice<'b>]) -> WriteVectored<'a, 'b, Self>
    where
        Self: Unpin,
    {
        WriteVectored { writer: self, bufs }
    }

    /// Writes the beginning of `buf`, advances it, and says by how many bytes.
    ///
    /// # Errors
    /// Those of the writer; nothing was written then.
    ///
    /// # Cancel safety
    /// Safe: `buf` is advanced by what was written.
    fn write_buf<'a, B: Buf>(&'a mut self, buf: &'a mut B) -> WriteBuf<'a, Self, B>
    where
        Self: Unpin,
    {
        WriteBuf { writer: self, buf }
    }

    /// Writes all of `buf`.
    ///
    /// # Errors
    /// [`WriteZero`](io::ErrorKind::WriteZero) if the writer takes no more, or those of the writer.
    ///
    /// # Cancel safety
    /// Not safe: nobody knows how many bytes were written.
    fn write_all<'a>(&'a mut self, buf: &'a [u8]) -> WriteAll<'a, Self>
    where
        Self: Unpin,
    {
        WriteAll { writer: self, buf }
    }

    /// Writes all of `buf`, advancing it.
    ///
    /// # Errors
    /// [`WriteZero`](io::ErrorKind::WriteZero) if the writer takes no more, or those of the writer.
    ///
    /// # Cancel safety
    /// Safe, if the caller goes on with the same `buf`: it is advanced by what was written.
    fn write_all_buf<'a, B: Buf>(&'a mut self, buf: &'a mut B) -> WriteAllBuf<'a, Self, B>
    where
        Self: Unpin,
    {
        WriteAllBuf { writer: self, buf }
    }

    /// Passes on what is buffered.
    ///
    /// # Errors
    /// Those of the writer.
    ///
    /// # Cancel safety
    /// Safe.
    fn flush(&mut self) -> Flush<'_, Self>
    where
        Self: Unpin,
    {
        Flush { writer: self }
    }

    /// Flushes and ends the stream; a TCP stream tells its peer that nothing more will come.
    ///
    /// # Errors
    /// Those of the writer.
    ///
    /// # Cancel safety
    /// Safe: call it again.
    fn shutdown(&mut self) -> Shutdown<'_, Self>
    where
        Self: Unpin,
    {
        Shutdown { writer: self }
    }

    /// Writes one byte.
    ///
    /// # Errors
    /// As for [`write_all`](Self::write_all).
    ///
    /// # Cancel safety
    /// Safe.
    fn write_u8(&mut self, number: u8) -> WriteNumber<'_, Self, u8>
    where
        Self: Unpin,
    {
        WriteNumber { writer: self, bytes: number.to_be_bytes(), written: 0 }
    }

    /// Writes a signed number of one byte.
    ///
    /// # Errors
    /// As for [`write_all`](Self::write_all).
    ///
    /// # Cancel safety
    /// Safe.
    fn write_i8(&mut self, number: i8) -> WriteNumber<'_, Self, i8>
    where
        Self: Unpin,
    {
        WriteNumber { writer: self, bytes: number.to_be_bytes(), written: 0 }
    }

    write_number_methods! {
        write_u16, write_u16_le: u16, "an unsigned number of 16 bits";
        write_i16, write_i16_le: i16, "a signed number of 16 bits";
        write_u32, write_u32_le: u32, "an unsigned number of 32 bits";
        write_i32, write_i32_le: i32, "a signed number of 32 bits";
        write_u64, write_u64_le: u64, "an unsigned number of 64 bits";
        write_i64, write_i64_le: i64, "a signed number of 64 bits";
        write_u128, write_u128_le: u128, "an unsigned number of 128 bits";
        write_i128, write_i128_le: i128, "a signed number of 128 bits";
        write_f32, write_f32_le: f32, "a floating-point number of 32 bits";
        write_f64, write_f64_le: f64, "a floating-point number of 64 bits";
    }
}

impl<W: AsyncWrite + ?Sized> AsyncWriteExt for W {}

/// The future of [`AsyncWriteExt::write`].
#[must_use = "futures do nothing unless awaited"]
#[derive(Debug)]
pub struct Write<'a, W: ?Sized> {
    writer: &'a mut W,
    buf: &'a [u8],
}

impl<W: AsyncWrite + Unpin + ?Sized> Future for Write<'_, W> {
    type Output = io::Result<usize>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        Pin::new(&mut *this.writer).poll_write(cx, this.buf)
    }
}

/// The future of [`AsyncWriteExt::write_vectored`].
#[must_use = "futures do nothing unless awaited"]
#[derive(Debug)]
pub struct WriteVectored<'a, 'b, W: ?Sized> {
    writer: &'a mut W,
    bufs: &'a [IoSlice<'b>],
}

impl<W: AsyncWrite + Unpin + ?Sized> Future for WriteVectored<'_, '_, W> {
    type Output = io::Result<usize>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        Pin::new(&mut *this.writer).poll_write_vectored(cx, this.bufs)
    }
}

/// The future of [`AsyncWriteExt::write_buf`].
#[must_use = "futures do nothing unless awaited"]
#[derive(Debug)]
pub struct WriteBuf<'a, W: ?Sized, B> {
    writer: &'a mut W,
    buf: &'a mut B,
}

impl<W: AsyncWrite + Unpin + ?Sized, B: Buf> Future for WriteBuf<'_, W, B> {
    type Output = io::Result<usize>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if !this.buf.has_remaining() {
            return Poll::Ready(Ok(0));
        }
        poll_write_some(this.writer, cx, this.buf)
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

/// The future of [`AsyncWriteExt::write_all_buf`].
#[must_use = "futures do nothing unless awaited"]
#[derive(Debug)]
pub struct WriteAllBuf<'a, W: ?Sized, B> {
    writer: &'a mut W,
    buf: &'a mut B,
}

impl<W: AsyncWrite + Unpin + ?Sized, B: Buf> Future for WriteAllBuf<'_, W, B> {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.buf.has_remaining() {
            if ready!(poll_write_some(this.writer, cx, this.buf))? == 0 {
                return Poll::Ready(Err(takes_no_more(this.buf.remaining())));
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// The future of [`AsyncWriteExt::write_all`].
#[must_use = "futures do nothing unless awaited"]
#[derive(Debug)]
pub struct WriteAll<'a, W: ?Sized> {
    writer: &'a mut W,
    /// What is left.
    buf: &'a [u8],
}

impl<W: AsyncWrite + Unpin + ?Sized> Future for WriteAll<'_, W> {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while !this.buf.is_empty() {
            let n = ready!(Pin::new(&mut *this.writer).poll_write(cx, this.buf))?;
            if n == 0 {
                return Poll::Ready(Err(takes_no_more(this.buf.len())));
            }
            this.buf = &this.buf[n..];
        }
        Poll::Ready(Ok(()))
    }
}

fn takes_no_more(left: usize) -> io::Error {
    io::Error::new(ErrorKind::WriteZero, format!("the writer takes no more, with {left} bytes left"))
}

/// The future of [`AsyncWriteExt::flush`].
#[must_use = "futures do nothing unless awaited"]
#[derive(Debug)]
pub struct Flush<'a, W: ?Sized> {
    writer: &'a mut W,
}

impl<W: AsyncWrite + Unpin + ?Sized> Future for Flush<'_, W> {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.writer).poll_flush(cx)
    }
}

/// The future of [`AsyncWriteExt::shutdown`].
#[must_use = "futures do nothing unless awaited"]
#[derive(Debug)]
pub struct Shutdown<'a, W: ?Sized> {
    writer: &'a mut W,
}

impl<W: AsyncWrite + Unpin + ?Sized> Future for Shutdown<'_, W> {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.writer).poll_shutdown(cx)
    }
}

/// The future of the methods of [`AsyncWriteExt`] that write a number.
#[must_use = "futures do nothing unless awaited"]
#[derive(Debug)]
pub struct WriteNumber<'a, W: ?Sized, N: Number> {
    writer: &'a mut W,
    bytes: N::Bytes,
    written: usize,
}

impl<W: ?Sized, N: Number> Unpin for WriteNumber<'_, W, N> {}

impl<W: AsyncWrite + Unpin + ?Sized, N: Number> Future for WriteNumber<'_, W, N> {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let bytes = this.bytes.as_ref();
        while this.written < bytes.len() {
            let left = &bytes[this.written..];
            let n = ready!(Pin::new(&mut *this.writer).poll_write(cx, left))?;
            if n == 0 {
                return Poll::Ready(Err(takes_no_more(left.len())));
            }
            this.written += n;
        }
        Poll::Ready(Ok(()))
    }
}
