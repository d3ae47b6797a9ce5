//! The pieces of a reader between delimiters, one after the other.

use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use pin_project_lite::pin_project;

use crate::io::AsyncBufRead;
use crate::io::ext::poll_read_until;

pin_project! {
    /// The lines of a reader. [`AsyncBufReadExt::lines`](crate::io::AsyncBufReadExt::lines) makes it.
    ///
    /// A line ends with a line feed or at the end of the stream. The returned line has neither the line feed
    /// nor a carriage return before it. A line may be as long as memory allows. So use this on trusted input,
    /// or on a [`Take`](crate::io::Take).
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use runtime::io::AsyncBufReadExt;
    ///
    /// let mut lines = (&b"first\r\nsecond"[..]).lines();
    /// while let Some(line) = lines.next_line().await? {
    ///     println!("{line}");
    /// }
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    #[must_use = "streams do nothing unless polled"]
    #[derive(Debug)]
    pub struct Lines<R> {
        #[pin]
        reader: R,
        // The beginning of the next line.
        buf: Vec<u8>,
    }
}

impl<R> Lines<R> {
    pub(in crate::io) fn new(reader: R) -> Self {
        Self { reader, buf: Vec::new() }
    }

    /// Returns the wrapped reader.
    pub fn get_ref(&self) -> &R {
        &self.reader
    }

    /// Returns the wrapped reader. Bytes that the program reads from it directly are in no line.
    pub fn get_mut(&mut self) -> &mut R {
        &mut self.reader
    }

    /// Returns the wrapped reader. The beginning of a line that has not been returned yet is lost.
    pub fn into_inner(self) -> R {
        self.reader
    }
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    /// Returns the next line, or `None` at the end.
    ///
    /// # Errors
    /// [`InvalidData`](io::ErrorKind::InvalidData) if the line is not UTF-8. The next call then goes on
    /// behind that line. Or the reader's errors. The next call then goes on with the same line.
    ///
    /// # Cancel safety
    /// Safe: the beginning of a line is kept for the next call.
    pub async fn next_line(&mut self) -> io::Result<Option<String>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next_line(cx)).await
    }
}

impl<R: AsyncBufRead> Lines<R> {
    /// Returns the next line, or `None` at the end; see [`next_line`](Lines::next_line).
    ///
    /// `Pending` means that the task will be woken when another try is worthwhile. Only the last task that
    /// called is woken.
    ///
    /// # Errors
    /// As for [`next_line`](Lines::next_line).
    pub fn poll_next_line(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<Option<String>>> {
        let this = self.project();
        let Some(mut line) = ready!(poll_next_piece(this.reader, cx, b'\n', this.buf))? else {
            return Poll::Ready(Ok(None));
        };
        if pop_if_last(&mut line, b'\n') {
            pop_if_last(&mut line, b'\r');
        }
        let line = String::from_utf8(line).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        Poll::Ready(Ok(Some(line)))
    }
}

impl<R: AsyncBufRead> Stream for Lines<R> {
    type Item = io::Result<String>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<String>>> {
        self.poll_next_line(cx).map(Result::transpose)
    }
}

pin_project! {
    /// The pieces of a reader between delimiters.
    /// [`AsyncBufReadExt::split`](crate::io::AsyncBufReadExt::split) makes it.
    ///
    /// A piece may be as long as memory allows. So use this on trusted input, or on a
    /// [`Take`](crate::io::Take).
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use runtime::io::{AsyncBufReadExt, BufReader};
    ///
    /// let mut fields = BufReader::new(&b"a,bc,"[..]).split(b',');
    /// assert_eq!(fields.next_segment().await?.as_deref(), Some(&b"a"[..]));
    /// assert_eq!(fields.next_segment().await?.as_deref(), Some(&b"bc"[..]));
    /// assert_eq!(fields.next_segment().await?, None);
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    #[must_use = "streams do nothing unless polled"]
    #[derive(Debug)]
    pub struct Split<R> {
        #[pin]
        reader: R,
        // The beginning of the next piece.
        buf: Vec<u8>,
        delimiter: u8,
    }
}

impl<R> Split<R> {
    pub(in crate::io) fn new(reader: R, delimiter: u8) -> Self {
        Self { reader, buf: Vec::new(), delimiter }
    }
}

impl<R: AsyncBufRead + Unpin> Split<R> {
    /// Returns the next piece, or `None` at the end.
    ///
    /// # Errors
    /// The reader's errors. The next call goes on with the same piece.
    ///
    /// # Cancel safety
    /// Safe: the beginning of a piece is kept for the next call.
    pub async fn next_segment(&mut self) -> io::Result<Option<Vec<u8>>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next_segment(cx)).await
    }
}

impl<R: AsyncBufRead> Split<R> {
    /// Returns the next piece, or `None` at the end; see [`next_segment`](Split::next_segment).
    ///
    /// `Pending` means that the task will be woken when another try is worthwhile. Only the last task that
    /// called is woken.
    ///
    /// # Errors
    /// As for [`next_segment`](Split::next_segment).
    pub fn poll_next_segment(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Option<Vec<u8>>>> {
        let this = self.project();
        let mut piece = ready!(poll_next_piece(this.reader, cx, *this.delimiter, this.buf))?;
        if let Some(piece) = &mut piece {
            pop_if_last(piece, *this.delimiter);
        }
        Poll::Ready(Ok(piece))
    }
}

impl<R: AsyncBufRead> Stream for Split<R> {
    type Item = io::Result<Vec<u8>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Vec<u8>>>> {
        self.poll_next_segment(cx).map(Result::transpose)
    }
}

/// Reads the next piece, with its delimiter unless the stream ended before it. `None` at the end. `buf` keeps
/// the beginning of a piece while the reader waits.
#[inline]
fn poll_next_piece<R: AsyncBufRead>(
    reader: Pin<&mut R>,
    cx: &mut Context<'_>,
    delimiter: u8,
    buf: &mut Vec<u8>,
) -> Poll<io::Result<Option<Vec<u8>>>> {
    ready!(poll_read_until(reader, cx, delimiter, buf))?;
    Poll::Ready(Ok((!buf.is_empty()).then(|| mem::take(buf))))
}

/// Removes the last byte if it is `byte`, and returns whether it was.
#[inline]
fn pop_if_last(bytes: &mut Vec<u8>, byte: u8) -> bool {
    let is_last = bytes.last() == Some(&byte);
    if is_last {
        bytes.pop();
    }
    is_last
}
