//! The everyday methods of readers, and their operations.

use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::BufMut;

use super::number::{Number, for_each_number};
use super::operation::{Operation, OperationFuture, uninterrupted};
use super::text::{Kept, PartialText};
use crate::io::{AsyncRead, Chain, ReadBuf, Take};

/// The smallest room that [`AsyncReadExt::read_to_end`] makes at once, in bytes.
const PROBE: usize = 32;

/// The method that reads a number, and its twin for the other byte order.
macro_rules! read_number_methods {
    ($($ty:ty, $words:literal, $name:ident $le:ident, $write:ident $write_le:ident;)*) => {$(
        read_number_methods!(@method $ty, $name, false, $words, "most");
        read_number_methods!(@method $ty, $le, true, $words, "least");
    )*};
    (@method $ty:ty, $name:ident, $is_le:literal, $words:literal, $first:literal) => {
        #[doc = concat!("Reads ", $words, ", ", $first, " significant byte first.")]
        ///
        /// # Errors
        /// As for [`read_exact`](Self::read_exact).
        ///
        /// # Cancel safety
        /// Not safe: bytes read so far are lost.
        #[inline]
        fn $name(&mut self) -> OperationFuture<ReadNumber<'_, Self, $ty, $is_le>>
        where
            Self: Unpin,
        {
            ReadNumber::future(self)
        }
    };
}

/// The everyday methods of each [`AsyncRead`].
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
    /// Reads the bytes that are there into `buf`, and waits until there are some. Returns the number of
    /// bytes.
    ///
    /// Zero means the end, or that `buf` is empty.
    ///
    /// # Errors
    /// The reader's errors. Nothing was read then.
    ///
    /// # Cancel safety
    /// Safe: bytes that have not been returned have not been read.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use runtime::io::AsyncReadExt;
    ///
    /// let mut reader = &b"hello"[..];
    /// let mut room = [0; 4];
    /// assert_eq!(reader.read(&mut room).await?, 4);
    /// assert_eq!(&room, b"hell");
    /// assert_eq!(reader.read(&mut room).await?, 1);
    /// assert_eq!(room[0], b'o');
    /// assert_eq!(reader.read(&mut room).await?, 0);
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    fn read<'a>(&'a mut self, buf: &'a mut [u8]) -> OperationFuture<Read<'a, Self>>
    where
        Self: Unpin,
    {
        OperationFuture::new(Read { reader: self, buf })
    }

    /// Reads into the room of `buf`, advances `buf`, and returns the number of bytes. A `Vec` or `BytesMut`
    /// grows.
    ///
    /// Zero means the end, or that there is no room.
    ///
    /// # Errors
    /// The reader's errors. Nothing was read then.
    ///
    /// # Cancel safety
    /// Safe: bytes that are not in `buf` have not been read.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use runtime::io::AsyncReadExt;
    ///
    /// let mut reader = &b"hello"[..];
    /// let mut bytes = Vec::new();
    /// while reader.read_buf(&mut bytes).await? != 0 {}
    /// assert_eq!(bytes, b"hello");
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    fn read_buf<'a, B: BufMut + ?Sized>(
        &'a mut self,
        buf: &'a mut B,
    ) -> OperationFuture<ReadToBuf<'a, Self, B>>
    where
        Self: Unpin,
    {
        OperationFuture::new(ReadToBuf { reader: self, buf })
    }

    /// Reads until `buf` is full, and returns the length of `buf`.
    ///
    /// # Errors
    /// [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) if the stream ends before, or the reader's errors,
    /// except [`Interrupted`](io::ErrorKind::Interrupted), after which it tries again. The bytes that were
    /// read until then are in `buf`.
    ///
    /// # Cancel safety
    /// Not safe: the bytes read so far are in `buf`, but their number is lost.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use runtime::io::{AsyncReadExt, ErrorKind};
    ///
    /// let mut reader = &b"hello"[..];
    /// let mut word = [0; 4];
    /// reader.read_exact(&mut word).await?;
    /// assert_eq!(&word, b"hell");
    /// let error = reader.read_exact(&mut word).await.unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    fn read_exact<'a>(&'a mut self, buf: &'a mut [u8]) -> OperationFuture<ReadExact<'a, Self>>
    where
        Self: Unpin,
    {
        OperationFuture::new(ReadExact { reader: self, buf, filled: 0 })
    }

    /// Reads to the end, and appends the bytes to `buf`. Returns the number of bytes.
    ///
    /// There is no limit; [`take`](Self::take) sets one.
    ///
    /// # Errors
    /// The reader's errors, except [`Interrupted`](io::ErrorKind::Interrupted), after which it tries again.
    /// The bytes that were read until then are in `buf`.
    ///
    /// # Cancel safety
    /// Not safe, unless the caller goes on with the same `buf`: the bytes read so far are in it.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use runtime::io::AsyncReadExt;
    ///
    /// let mut bytes = b"say ".to_vec();
    /// assert_eq!((&b"hello"[..]).read_to_end(&mut bytes).await?, 5);
    /// assert_eq!(bytes, b"say hello");
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    fn read_to_end<'a>(&'a mut self, buf: &'a mut Vec<u8>) -> OperationFuture<ReadToEnd<'a, Self>>
    where
        Self: Unpin,
    {
        OperationFuture::new(ReadToEnd { reader: self, start: buf.len(), known: SpareCapacity::of(buf), buf })
    }

    /// Reads to the end, and appends the text to `buf`. Returns the number of bytes.
    ///
    /// # Errors
    /// [`InvalidData`](io::ErrorKind::InvalidData) if the text is not UTF-8, or the reader's errors, except
    /// [`Interrupted`](io::ErrorKind::Interrupted), after which it tries again. `buf` is as before then, and
    /// the bytes that were read are lost.
    ///
    /// # Cancel safety
    /// Not safe: `buf` is as before, and the bytes read so far are lost.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use runtime::io::{AsyncReadExt, ErrorKind};
    ///
    /// let mut text = String::from("say ");
    /// assert_eq!((&b"hello"[..]).read_to_string(&mut text).await?, 5);
    /// assert_eq!(text, "say hello");
    ///
    /// let error = (&b"\xff"[..]).read_to_string(&mut text).await.unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::InvalidData);
    /// assert_eq!(text, "say hello");
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    fn read_to_string<'a>(&'a mut self, buf: &'a mut String) -> OperationFuture<ReadToString<'a, Self>>
    where
        Self: Unpin,
    {
        let mut text = PartialText::new(buf, Kept::Nothing);
        OperationFuture::new(ReadToString { reader: self, known: SpareCapacity::of(text.bytes_mut()), text })
    }

    /// Makes a reader that ends after at most `limit` bytes.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use runtime::io::AsyncReadExt;
    ///
    /// let mut text = String::new();
    /// (&b"hello"[..]).take(4).read_to_string(&mut text).await?;
    /// assert_eq!(text, "hell");
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    fn take(self, limit: u64) -> Take<Self>
    where
        Self: Sized,
    {
        Take::new(self, limit)
    }

    /// Makes a reader that continues with `next` when this reader ends.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use runtime::io::AsyncReadExt;
    ///
    /// let mut text = String::new();
    /// (&b"hel"[..]).chain(&b"lo"[..]).read_to_string(&mut text).await?;
    /// assert_eq!(text, "hello");
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    fn chain<R: AsyncRead>(self, next: R) -> Chain<Self, R>
    where
        Self: Sized,
    {
        Chain::new(self, next)
    }

    /// Reads one byte.
    ///
    /// # Errors
    /// As for [`read_exact`](Self::read_exact).
    ///
    /// # Cancel safety
    /// Safe.
    #[inline]
    fn read_u8(&mut self) -> OperationFuture<ReadNumber<'_, Self, u8, false>>
    where
        Self: Unpin,
    {
        ReadNumber::future(self)
    }

    /// Reads one byte as a signed number.
    ///
    /// # Errors
    /// As for [`read_exact`](Self::read_exact).
    ///
    /// # Cancel safety
    /// Safe.
    #[inline]
    fn read_i8(&mut self) -> OperationFuture<ReadNumber<'_, Self, i8, false>>
    where
        Self: Unpin,
    {
        ReadNumber::future(self)
    }

    for_each_number!(read_number_methods);
}

impl<R: AsyncRead + ?Sized> AsyncReadExt for R {}

/// The operation of [`AsyncReadExt::read`].
#[derive(Debug)]
pub struct Read<'a, R: ?Sized> {
    reader: &'a mut R,
    buf: &'a mut [u8],
}

impl<R: AsyncRead + Unpin + ?Sized> Operation for Read<'_, R> {
    type Output = io::Result<usize>;

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        poll_read_some(Pin::new(&mut *self.reader), cx, self.buf)
    }
}

/// Reads into `room`, once, and returns the number of bytes.
#[inline]
pub(in crate::io) fn poll_read_some<R: AsyncRead + ?Sized>(
    reader: Pin<&mut R>,
    cx: &mut Context<'_>,
    room: &mut [u8],
) -> Poll<io::Result<usize>> {
    let mut buf = ReadBuf::new(room);
    ready!(reader.poll_read(cx, &mut buf))?;
    Poll::Ready(Ok(buf.filled().len()))
}

/// The operation of [`AsyncReadExt::read_buf`].
#[derive(Debug)]
pub struct ReadToBuf<'a, R: ?Sized, B: ?Sized> {
    reader: &'a mut R,
    buf: &'a mut B,
}

impl<R: AsyncRead + Unpin + ?Sized, B: BufMut + ?Sized> Operation for ReadToBuf<'_, R, B> {
    type Output = io::Result<usize>;

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if !self.buf.has_remaining_mut() {
            return Poll::Ready(Ok(0));
        }
        let room = self.buf.chunk_mut();
        // SAFETY: the slice is only used through a `ReadBuf`. Its safe methods write only bytes, and read
        // only what it counts as initialised. The callers of its unsafe methods leave initialised bytes so,
        // by (1) there.
        let room = unsafe { room.as_uninit_slice_mut() };
        let reader = Pin::new(&mut *self.reader);
        // SAFETY: (1) no byte is claimed to be initialised.
        let n = ready!(unsafe { poll_read_into(reader, cx, room, &mut 0) })?;
        // SAFETY: `poll_read_into` says that the first `n` bytes of this room are filled.
        unsafe { self.buf.advance_mut(n) };
        Poll::Ready(Ok(n))
    }
}

/// Reads into `room`, and returns how many bytes of it, from the beginning, are now filled.
///
/// `initialized` is the number of initialised bytes of `room`, from the beginning. It is right before and
/// after the call, whatever the call returns. A reader that wants initialised bytes clears the rest, and need
/// not do so again.
///
/// # Safety
/// 1. The first `initialized` bytes of `room` are initialised.
#[inline]
unsafe fn poll_read_into<R: AsyncRead + ?Sized>(
    reader: Pin<&mut R>,
    cx: &mut Context<'_>,
    room: &mut [MaybeUninit<u8>],
    initialized: &mut usize,
) -> Poll<io::Result<usize>> {
    let mut buf = ReadBuf::uninit(room);
    // SAFETY: (1).
    unsafe { buf.assume_init(*initialized) };
    let place = buf.place();
    let result = reader.poll_read(cx, &mut buf);
    buf.assert_at(place);
    *initialized = buf.initialized().len();
    ready!(result)?;
    Poll::Ready(Ok(buf.filled().len()))
}

/// The operation of [`AsyncReadExt::read_exact`].
#[derive(Debug)]
pub struct ReadExact<'a, R: ?Sized> {
    reader: &'a mut R,
    buf: &'a mut [u8],
    filled: usize,
}

impl<R: AsyncRead + Unpin + ?Sized> Operation for ReadExact<'_, R> {
    type Output = io::Result<usize>;

    #[inline]
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        ready!(poll_fill(self.reader, cx, self.buf, &mut self.filled))?;
        Poll::Ready(Ok(self.buf.len()))
    }
}

/// Reads until `buf` is full. The first `filled` bytes are filled already.
#[inline]
fn poll_fill<R: AsyncRead + Unpin + ?Sized>(
    reader: &mut R,
    cx: &mut Context<'_>,
    buf: &mut [u8],
    filled: &mut usize,
) -> Poll<io::Result<()>> {
    while *filled < buf.len() {
        let room = &mut buf[*filled..];
        let n = ready!(uninterrupted(|| poll_read_some(Pin::new(&mut *reader), cx, room)))?;
        if n == 0 {
            return Poll::Ready(Err(ended_early(*filled, buf.len())));
        }
        *filled += n;
    }
    Poll::Ready(Ok(()))
}

#[cold]
fn ended_early(read: usize, wanted: usize) -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, format!("the stream ended after {read} of {wanted} bytes"))
}

/// The operation of [`AsyncReadExt::read_to_end`].
#[derive(Debug)]
pub struct ReadToEnd<'a, R: ?Sized> {
    reader: &'a mut R,
    buf: &'a mut Vec<u8>,
    /// The length of `buf` at the beginning.
    start: usize,
    known: SpareCapacity,
}

impl<R: AsyncRead + Unpin + ?Sized> Operation for ReadToEnd<'_, R> {
    type Output = io::Result<usize>;

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        // SAFETY: (1) `buf` is borrowed since `known` was made of it.
        ready!(unsafe { poll_read_to_end(self.reader, cx, self.buf, &mut self.known) })?;
        Poll::Ready(Ok(self.buf.len() - self.start))
    }
}

/// Knowledge about the room behind the end of a `Vec`.
#[derive(Debug)]
struct SpareCapacity {
    /// The number of initialised bytes, from the end of the `Vec` on.
    initialized: usize,
    /// The capacity of the `Vec` at the beginning.
    first_capacity: usize,
}

impl SpareCapacity {
    fn of(buf: &Vec<u8>) -> Self {
        Self { initialized: 0, first_capacity: buf.capacity() }
    }
}

/// Appends to `buf` until the end. `Vec` doubles as it grows, so the number of copies does not depend on the
/// sizes of the reads.
///
/// # Safety
/// 1. `known` was made of `buf`, and only this function has touched either since.
unsafe fn poll_read_to_end<R: AsyncRead + Unpin + ?Sized>(
    reader: &mut R,
    cx: &mut Context<'_>,
    buf: &mut Vec<u8>,
    known: &mut SpareCapacity,
) -> Poll<io::Result<()>> {
    loop {
        let is_full = buf.capacity() - buf.len() < PROBE;
        if is_full && buf.capacity() == known.first_capacity && known.first_capacity >= PROBE {
            // A `Vec` of exactly the right size is not doubled only to find the end.
            let mut probe = [MaybeUninit::uninit(); PROBE];
            let mut read = ReadBuf::uninit(&mut probe);
            ready!(uninterrupted(|| Pin::new(&mut *reader).poll_read(cx, &mut read)))?;
            if read.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            buf.extend_from_slice(read.filled());
            known.initialized = 0;
            continue;
        }
        if is_full {
            buf.reserve(PROBE);
            known.initialized = 0;
        }
        let n = ready!(uninterrupted(|| {
            let (reader, spare) = (Pin::new(&mut *reader), buf.spare_capacity_mut());
            // SAFETY: (1) by our (1), because each change of the end of `buf` is counted here.
            unsafe { poll_read_into(reader, cx, spare, &mut known.initialized) }
        }))?;
        if n == 0 {
            return Poll::Ready(Ok(()));
        }
        known.initialized -= n;
        // SAFETY: `poll_read_into` says that the first `n` bytes of the spare capacity are filled, and so
        // initialised.
        unsafe { buf.set_len(buf.len() + n) };
    }
}

/// The operation of [`AsyncReadExt::read_to_string`].
#[derive(Debug)]
pub struct ReadToString<'a, R: ?Sized> {
    reader: &'a mut R,
    text: PartialText<'a>,
    known: SpareCapacity,
}

impl<R: AsyncRead + Unpin + ?Sized> Operation for ReadToString<'_, R> {
    type Output = io::Result<usize>;

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let bytes = self.text.bytes_mut();
        // SAFETY: (1) `known` was made of these bytes, and nothing else touches them before `finish`.
        // `finish` leaves a `Vec` without capacity, for which `known` is not used.
        let result = ready!(unsafe { poll_read_to_end(self.reader, cx, bytes, &mut self.known) });
        Poll::Ready(self.text.finish(result))
    }
}

/// The operation of the methods of [`AsyncReadExt`] that read a number.
#[derive(Debug)]
pub struct ReadNumber<'a, R: ?Sized, N: Number, const IS_LITTLE_ENDIAN: bool> {
    reader: &'a mut R,
    bytes: N::Bytes,
    filled: usize,
}

impl<'a, R: ?Sized, N: Number, const LE: bool> ReadNumber<'a, R, N, LE> {
    #[inline]
    fn future(reader: &'a mut R) -> OperationFuture<Self> {
        OperationFuture::new(Self { reader, bytes: N::ZERO, filled: 0 })
    }
}

impl<R: AsyncRead + Unpin + ?Sized, N: Number, const LE: bool> Operation for ReadNumber<'_, R, N, LE> {
    type Output = io::Result<N>;

    #[inline]
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<N>> {
        ready!(poll_fill(self.reader, cx, self.bytes.as_mut(), &mut self.filled))?;
        Poll::Ready(Ok(if LE { N::from_le(self.bytes) } else { N::from_be(self.bytes) }))
    }
}
