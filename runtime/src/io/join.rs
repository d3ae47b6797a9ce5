//! A stream made of a reader and a writer.

use std::pin::Pin;

use pin_project_lite::pin_project;

use super::traits::forward;
use super::{AsyncBufRead, AsyncRead, AsyncWrite};

/// Makes one stream of a reader and a writer, the reverse of [`split`](super::split).
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use runtime::io::{AsyncReadExt, AsyncWriteExt};
///
/// let mut stream = runtime::io::join(&b"question"[..], Vec::new());
/// let mut question = String::new();
/// stream.read_to_string(&mut question).await?;
/// stream.write_all(b"answer").await?;
/// assert_eq!((question.as_str(), &stream.writer()[..]), ("question", &b"answer"[..]));
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
pub fn join<R: AsyncRead, W: AsyncWrite>(reader: R, writer: W) -> Join<R, W> {
    Join { reader, writer }
}

pin_project! {
    /// A stream made of a reader and a writer. [`join`] makes it.
    #[derive(Debug)]
    pub struct Join<R, W> {
        #[pin]
        reader: R,
        #[pin]
        writer: W,
    }
}

impl<R: AsyncRead, W: AsyncWrite> Join<R, W> {
    /// Returns the reader and the writer.
    pub fn into_inner(self) -> (R, W) {
        (self.reader, self.writer)
    }

    /// Returns the reader.
    pub fn reader(&self) -> &R {
        &self.reader
    }

    /// Returns the writer.
    pub fn writer(&self) -> &W {
        &self.writer
    }

    /// Returns the reader, for changes.
    pub fn reader_mut(&mut self) -> &mut R {
        &mut self.reader
    }

    /// Returns the writer, for changes.
    pub fn writer_mut(&mut self) -> &mut W {
        &mut self.writer
    }

    /// Returns the reader, pinned.
    pub fn reader_pin_mut(self: Pin<&mut Self>) -> Pin<&mut R> {
        self.project().reader
    }

    /// Returns the writer, pinned.
    pub fn writer_pin_mut(self: Pin<&mut Self>) -> Pin<&mut W> {
        self.project().writer
    }
}

impl<R: AsyncRead, W> AsyncRead for Join<R, W> {
    forward!(AsyncRead: self => self.project().reader);
}

impl<R: AsyncBufRead, W> AsyncBufRead for Join<R, W> {
    forward!(AsyncBufRead: self => self.project().reader);
}

impl<R, W: AsyncWrite> AsyncWrite for Join<R, W> {
    forward!(AsyncWrite: self => self.project().writer, self.writer);
}
