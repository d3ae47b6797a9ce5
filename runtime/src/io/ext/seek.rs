//! The everyday methods of streams with positions, and their operations.

use std::io::{self, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::operation::{Operation, OperationFuture};
use crate::io::AsyncSeek;

/// The everyday methods of each [`AsyncSeek`].
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::io::Cursor;
/// use runtime::io::{AsyncReadExt, AsyncSeekExt, SeekFrom};
///
/// let mut cursor = Cursor::new(b"hello, world");
/// assert_eq!(cursor.seek(SeekFrom::End(-5)).await?, 7);
/// let mut word = String::new();
/// cursor.read_to_string(&mut word).await?;
/// assert_eq!(word, "world");
/// assert_eq!(cursor.stream_position().await?, 12);
/// cursor.rewind().await?;
/// assert_eq!(cursor.read_u8().await?, b'h');
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
pub trait AsyncSeekExt: AsyncSeek {
    /// Moves to `position`, and returns the new position, in bytes from the start.
    ///
    /// A seek that an earlier, dropped future began is completed first.
    ///
    /// # Errors
    /// The stream's errors, for instance for a position before the start.
    ///
    /// # Cancel safety
    /// Not safe: the stream may or may not have moved.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use std::io::Cursor;
    /// use runtime::io::{AsyncReadExt, AsyncSeekExt, SeekFrom};
    ///
    /// let mut cursor = Cursor::new(b"hello");
    /// assert_eq!(cursor.seek(SeekFrom::End(-1)).await?, 4);
    /// assert_eq!(cursor.read_u8().await?, b'o');
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    fn seek(&mut self, position: SeekFrom) -> OperationFuture<Seek<'_, Self>>
    where
        Self: Unpin,
    {
        OperationFuture::new(Seek { stream: self, position: Some(position) })
    }

    /// Moves to the start, and returns 0.
    ///
    /// # Errors
    /// As for [`seek`](Self::seek).
    ///
    /// # Cancel safety
    /// As for [`seek`](Self::seek).
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use std::io::Cursor;
    /// use runtime::io::{AsyncReadExt, AsyncSeekExt};
    ///
    /// let mut cursor = Cursor::new(b"hello");
    /// assert_eq!(cursor.read_u8().await?, b'h');
    /// cursor.rewind().await?;
    /// assert_eq!(cursor.read_u8().await?, b'h');
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    fn rewind(&mut self) -> OperationFuture<Seek<'_, Self>>
    where
        Self: Unpin,
    {
        self.seek(SeekFrom::Start(0))
    }

    /// Returns the position, in bytes from the start.
    ///
    /// # Errors
    /// As for [`seek`](Self::seek).
    ///
    /// # Cancel safety
    /// Safe: the stream stays where it is.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use std::io::Cursor;
    /// use runtime::io::{AsyncReadExt, AsyncSeekExt};
    ///
    /// let mut cursor = Cursor::new(b"hello");
    /// cursor.read_u8().await?;
    /// assert_eq!(cursor.stream_position().await?, 1);
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    fn stream_position(&mut self) -> OperationFuture<Seek<'_, Self>>
    where
        Self: Unpin,
    {
        self.seek(SeekFrom::Current(0))
    }
}

impl<S: AsyncSeek + ?Sized> AsyncSeekExt for S {}

/// The operation of [`AsyncSeekExt::seek`].
#[derive(Debug)]
pub struct Seek<'a, S: ?Sized> {
    stream: &'a mut S,
    /// The target, until the seek has begun.
    position: Option<SeekFrom>,
}

impl<S: AsyncSeek + Unpin + ?Sized> Operation for Seek<'_, S> {
    type Output = io::Result<u64>;

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        let mut stream = Pin::new(&mut *self.stream);
        if let Some(position) = self.position {
            ready!(stream.as_mut().poll_complete(cx))?;
            stream.as_mut().start_seek(position)?;
            self.position = None;
        }
        stream.poll_complete(cx)
    }
}
