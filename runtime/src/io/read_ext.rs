//! The everyday methods of readers, and their futures.

use std::future::Future;
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::BufMut;

use super::{AsyncRead, Chain, ReadBuf, Take};

/// Room that [`AsyncReadExt::read_to_end`] makes at once, at least.
const PROBE: usize = 32;

/// Reads a number of the given type, byte order by name.
macro_rules! read_number_methods {
    ($($name:ident, $le:ident: $ty:ty, $words:literal;)*) => {$(
        #[doc = concat!("Reads ", $words, ", most significant byte first.")]
        ///
        /// # Errors
        /// [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) if the stream ends before, or those of the reader.
        ///
        /// # Cancel safety
        /// Not safe: bytes read so far are lost.
        fn $name(&mut self) -> ReadNumber<'_, Self, $ty>
        where
            Self: Unpin,
        {
            ReadNumber::new(self, <$ty>::from_be_bytes)
        }

        #[doc = concat!("Reads ", $words, ", least significant byte first.")]
        ///
        /// # Errors
        /// [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) if the stream ends before, or those of the reader.
        ///
        /// # Cancel safety
        /// Not safe: bytes read so far are lost.
        fn $le(&mut self) -> ReadNumber<'_, Self, $ty>
        where
            Self: Unpin,
        {
            ReadNumber::new(self, <$ty>::from_le_bytes)
        }
    )*};
}

/// The everyday methods of everything that is [`AsyncRead`].
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use runtime::io::AsyncReadExt;
///
/// let mut reader = &b"\0\x05hello, world"[..];
/// let len = reader.read_u16().await?;
/// let mut word = vec![0; len.into()];
/// reader.read_exact(&mut word).await?;
/// assert_eq!(word, b"hello");
///
/// let mut rest = String::new();
/// reader.read_to_string(&mut rest).await?;
/// assert_eq!(rest, ", world");
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
pub trait AsyncReadExt: AsyncRead {
    /// Reads what is there into `buf`, waiting until there is something, and says how many bytes.
    ///
    /// Zero means the end, or that `buf` is empty.
    ///
    /// # Errors
    /// Those of the reader; nothing was read then.
    ///
    /// # Cancel safety
    /// Safe: bytes that have not been returned have not been read.
    fn read<'a>(&'a mut self, buf: &'a mut [u8]) -> Read<'a, Self>
    where
        Self: Unpin,
    {
        Read { reader: self, buf }
    }

    /// Reads into the room that `buf` has, advances it, and says by how many bytes. A `Vec` or `BytesMut` grows.
    ///
    /// Zero means the end, or that there is no room.
    ///
    /// # Errors
    /// Those of the reader; nothing was read then.
    ///
    /// # Cancel safety
    /// Safe: bytes that are not in `buf` have not been read.
    fn read_buf<'a, B: BufMut + ?Sized>(&'a mut self, buf: &'a mut B) -> ReadToBuf<'a, Self, B>
    where
        Self: Unpin,
    {
        ReadToBuf { reader: self, buf }
    }

    /// Reads until `buf` is full, and says how long it is.
    ///
    /// # Errors
    /// [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) if the stream ends before, or those of the reader. What was
    /// read until then is in `buf`.
    ///
    /// # Cancel safety
    /// Not safe: bytes read so far are in `buf`, but nobody knows how many.
    fn read_exact<'a>(&'a mut self, buf: &'a mut [u8]) -> ReadExact<'a, Self>
    where
        Self: Unpin,
    {
        ReadExact { reader: self, buf: ReadBuf::new(buf) }
    }

    /// Reads to the end, appends it to `buf`, and says how many bytes.
    ///
    /// There is no limit: [`take`](Self::take) sets one.
    ///
    /// # Errors
    /// Those of the reader. What was read until then is in `buf`.
    ///
    /// # Cancel safety
    /// Not safe, unless the caller goes on with the same `buf`: what was read so far is in it.
    fn read_to_end<'a>(&'a mut self, buf: &'a mut Vec<u8>) -> ReadToEnd<'a, Self>
    where
        Self: Unpin,
    {
        ReadToEnd { reader: self, start: buf.len(), buf }
    }

    /// Reads to the end, appends it to `buf`, and says how many bytes.
    ///
    /// # Errors
    /// [`InvalidData`](io::ErrorKind::InvalidData) if it is not UTF-8, or those of the reader; `buf` is then as
    /// before, and what was read is lost.
    ///
    /// # Cancel safety
    /// Not safe: what was read so far is lost.
    fn read_to_string<'a>(&'a mut self, buf: &'a mut String) -> ReadToString<'a, Self>
    where
        Self: Unpin,
    {
        ReadToString { reader: self, bytes: Vec::new(), buf }
    }

    /// Ends the stream after at most `limit` bytes.
    fn take(self, limit: u64) -> Take<Self>
    where
        Self: Sized,
    {
        Take::new(self, limit)
    }

    /// Goes on with `next` when this reader ends.
    fn chain<R: AsyncRead>(self, next: R) -> Chain<Self, R>
    where
        Self: Sized,
    {
        Chain::new(self, next)
    }

    /// Reads one byte.
    ///
    /// # Errors
    /// [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) at the end, or those of the reader.
    ///
    /// # Cancel safety
    /// Safe.
    fn read_u8(&mut self) -> ReadNumber<'_, Self, u8>
    where
        Self: Unpin,
    {
        ReadNumber::new(self, u8::from_be_bytes)
    }

    /// Reads one byte as a signed number.
    ///
    /// # Errors
    /// [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) at the end, or those of the reader.
    ///
    /// # Cancel safety
    /// Safe.
    fn read_i8(&mut self) -> ReadNumber<'_, Self, i8>
    where
        Self: Unpin,
    {
        ReadNumber::new(self, i8::from_be_bytes)
    }

    read_number_methods! {
        read_u16, read_u16_le: u16, "an unsigned number of 16 bits";
        read_i16, read_i16_le: i16, "a signed number of 16 bits";
        read_u32, read_u32_le: u32, "an unsigned number of 32 bits";
        read_i32, read_i32_le: i32, "a signed number of 32 bits";
        read_u64, read_u64_le: u64, "an unsigned number of 64 bits";
        read_i64, read_i64_le: i64, "a signed number of 64 bits";
        read_u128, read_u128_le: u128, "an unsigned number of 128 bits";
        read_i128, read_i128_le: i128, "a signed number of 128 bits";
        read_f32, read_f32_le: f32, "a floating-point number of 32 bits";
        read_f64, read_f64_le: f64, "a floating-point number of 64 bits";
    }
}

impl<R: AsyncRead + ?Sized> AsyncReadExt for R {}

/// The future of [`AsyncReadExt::read`].
#[must_use = "futures do nothing unless awaited"]
#[derive(Debug)]
pub struct Read<'a, R: ?Sized> {
    reader: &'a mut R,
    buf: &'a mut [u8],
}

impl<R: AsyncRead + Unpin + ?Sized> Future for Read<'_, R> {
    type Output = io::Result<usize>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let mut buf = ReadBuf::new(this.buf);
        ready!(Pin::new(&mut *this.reader).poll_read(cx, &mut buf))?;
        Poll::Ready(Ok(buf.filled().len()))
    }
}

/// The future of [`AsyncReadExt::read_buf`].
#[must_use = "futures do nothing unless awaited"]
#[derive(Debug)]
pub struct ReadToBuf<'a, R: ?Sized, B: ?Sized> {
    reader: &'a mut R,
    buf: &'a mut B,
}

impl<R: AsyncRead + Unpin + ?Sized, B: BufMut + ?Sized> Future for ReadToBuf<'_, R, B> {
    type Output = io::Result<usize>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if !this.buf.has_remaining_mut() {
            return Poll::Ready(Ok(0));
        }
        let room = this.buf.chunk_mut();
        // SAFETY: a `ReadBuf` does not let anybody write uninitialised bytes.
        let room = unsafe { room.as_uninit_slice_mut() };
        let n = ready!(poll_read_into(Pin::new(&mut *this.reader), cx, room))?;
        // SAFETY: `poll_read_into` has counted bytes of this room that were written.
        unsafe { this.buf.advance_mut(n) };
        Poll::Ready(Ok(n))
    }
}

/// Reads into `room`, and says how many bytes of it, from the beginning, are now filled.
fn poll_read_into<R: AsyncRead + ?Sized>(
    reader: Pin<&mut R>,
    cx: &mut Context<'_>,
    room: &mut [MaybeUninit<u8>],
) -> Poll<io::Result<usize>> {
    let mut buf = ReadBuf::uninit(room);
    let start = buf.filled().as_ptr();
    ready!(reader.poll_read(cx, &mut buf))?;
    // A reader may put another buffer in its place, which would make the count a lie.
    assert_eq!(buf.filled().as_ptr(), start, "`poll_read` must read into the buffer it was given");
    Poll::Ready(Ok(buf.filled().len()))
}

/// The future of [`AsyncReadExt::read_exact`].
#[must_use = "futures do nothing unless awaited"]
#[derive(Debug)]
pub struct ReadExact<'a, R: ?Sized> {
    reader: &'a mut R,
    buf: ReadBuf<'a>,
}

impl<R: AsyncRead + Unpin + ?Sized> Future for ReadExact<'_, R> {
    type Output = io::Result<usize>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        while this.buf.remaining() > 0 {
            let before = this.buf.remaining();
            ready!(Pin::new(&mut *this.reader).poll_read(cx, &mut this.buf))?;
            if this.buf.remaining() == before {
                return Poll::Ready(Err(ended_early(this.buf.filled().len(), this.buf.capacity())));
            }
        }
        Poll::Ready(Ok(this.buf.capacity()))
    }
}

fn ended_early(read: usize, wanted: usize) -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, format!("the stream ended after {read} of {wanted} bytes"))
}

/// The future of [`AsyncReadExt::read_to_end`].
#[must_use = "futures do nothing unless awaited"]
#[derive(Debug)]
pub struct ReadToEnd<'a, R: ?Sized> {
    reader: &'a mut R,
    buf: &'a mut Vec<u8>,
    /// Length of `buf` at the beginning.
    start: usize,
}

impl<R: AsyncRead + Unpin + ?Sized> Future for ReadToEnd<'_, R> {
    type Output = io::Result<usize>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        ready!(poll_read_to_end(&mut *this.reader, cx, this.buf))?;
        Poll::Ready(Ok(this.buf.len() - this.start))
    }
}

/// Appends to `buf` until the end. `Vec` doubles as it grows, so the number of copies does not depend on the pieces.
fn poll_read_to_end<R: AsyncRead + Unpin + ?Sized>(
    reader: &mut R,
    cx: &mut Context<'_>,
    buf: &mut Vec<u8>,
) -> Poll<io::Result<()>> {
    loop {
        if buf.capacity() - buf.len() < PROBE {
            // A `Vec` of exactly the right size is not doubled only to find the end.
            let mut probe = [MaybeUninit::uninit(); PROBE];
            let n = ready!(poll_read_into(Pin::new(&mut *reader), cx, &mut probe))?;
            if n == 0 {
                return Poll::Ready(Ok(()));
            }
            // SAFETY: `poll_read_into` has counted bytes that were written.
            buf.extend(probe[..n].iter().map(|byte| unsafe { byte.assume_init() }));
            continue;
        }
        let n = ready!(poll_read_into(Pin::new(&mut *reader), cx, buf.spare_capacity_mut()))?;
        if n == 0 {
            return Poll::Ready(Ok(()));
        }
        // SAFETY: `poll_read_into` has counted bytes of the spare room that were written.
        unsafe { buf.set_len(buf.len() + n) };
    }
}

/// The future of [`AsyncReadExt::read_to_string`].
#[must_use = "futures do nothing unless awaited"]
#[derive(Debug)]
pub struct ReadToString<'a, R: ?Sized> {
    reader: &'a mut R,
    /// What was read so far: not in `buf` before it is known to be UTF-8.
    bytes: Vec<u8>,
    buf: &'a mut String,
}

impl<R: AsyncRead + Unpin + ?Sized> Future for ReadToString<'_, R> {
    type Output = io::Result<usize>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        ready!(poll_read_to_end(&mut *this.reader, cx, &mut this.bytes))?;
        let text = String::from_utf8(std::mem::take(&mut this.bytes))
            .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        let len = text.len();
        if this.buf.is_empty() {
            *this.buf = text;
        } else {
            this.buf.push_str(&text);
        }
        Poll::Ready(Ok(len))
    }
}

/// The future of the methods of [`AsyncReadExt`] that read a number.
#[must_use = "futures do nothing unless awaited"]
#[derive(Debug)]
pub struct ReadNumber<'a, R: ?Sized, N: Number> {
    reader: &'a mut R,
    bytes: N::Bytes,
    filled: usize,
    from_bytes: fn(N::Bytes) -> N,
}

impl<'a, R: ?Sized, N: Number> ReadNumber<'a, R, N> {
    fn new(reader: &'a mut R, from_bytes: fn(N::Bytes) -> N) -> Self {
        Self { reader, bytes: N::ZERO, filled: 0, from_bytes }
    }
}

impl<R: ?Sized, N: Number> Unpin for ReadNumber<'_, R, N> {}

impl<R: AsyncRead + Unpin + ?Sized, N: Number> Future for ReadNumber<'_, R, N> {
    type Output = io::Result<N>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<N>> {
        let this = &mut *self;
        let bytes = this.bytes.as_mut();
        let wanted = bytes.len();
        while this.filled < wanted {
            let mut buf = ReadBuf::new(&mut bytes[this.filled..]);
            ready!(Pin::new(&mut *this.reader).poll_read(cx, &mut buf))?;
            let n = buf.filled().len();
            if n == 0 {
                return Poll::Ready(Err(ended_early(this.filled, wanted)));
            }
            this.filled += n;
        }
        Poll::Ready(Ok((this.from_bytes)(this.bytes)))
    }
}

/// A number of so many bytes. Public because the futures that read and write numbers are; it has no use elsewhere.
pub trait Number: Copy {
    /// An array of that length.
    type Bytes: AsRef<[u8]> + AsMut<[u8]> + Copy + std::fmt::Debug;
    /// All zero.
    const ZERO: Self::Bytes;
}

macro_rules! number {
    ($($ty:ty)*) => {$(
        impl Number for $ty {
            type Bytes = [u8; size_of::<$ty>()];
            const ZERO: Self::Bytes = [0; size_of::<$ty>()];
        }
    )*};
}

number!(u8 i8 u16 i16 u32 i32 u64 i64 u128 i128 f32 f64);
