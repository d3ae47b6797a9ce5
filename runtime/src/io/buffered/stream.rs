//! A stream with a buffer for each direction.

use std::pin::Pin;

use pin_project_lite::pin_project;

use super::{BufReader, BufWriter};
use crate::io::traits::forward;
use crate::io::{AsyncBufRead, AsyncRead, AsyncSeek, AsyncWrite};

pin_project! {
    /// A stream with a buffer for reading and one for writing: a [`BufReader`] around a [`BufWriter`].
    ///
    /// Dropping the stream loses bytes that were written and not flushed.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use runtime::io::{AsyncBufReadExt, AsyncWriteExt, BufStream};
    ///
    /// let (client, server) = runtime::io::duplex(64);
    /// let (mut client, mut server) = (BufStream::new(client), BufStream::new(server));
    /// client.write_all(b"ping\n").await?;
    /// client.flush().await?;
    /// let mut line = String::new();
    /// server.read_line(&mut line).await?;
    /// assert_eq!(line, "ping\n");
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    #[derive(Debug)]
    pub struct BufStream<RW> {
        #[pin]
        inner: BufReader<BufWriter<RW>>,
    }
}

impl<RW: AsyncRead + AsyncWrite> BufStream<RW> {
    /// Gives `stream` two buffers of 8 KiB.
    pub fn new(stream: RW) -> BufStream<RW> {
        BufReader::new(BufWriter::new(stream)).into()
    }

    /// Gives `stream` buffers of the given capacities in bytes. With a `writer_capacity` of zero, every write
    /// goes directly to `stream`.
    ///
    /// # Panics
    /// If `reader_capacity` is zero, because nothing could ever be read.
    #[track_caller]
    pub fn with_capacity(reader_capacity: usize, writer_capacity: usize, stream: RW) -> BufStream<RW> {
        BufReader::with_capacity(reader_capacity, BufWriter::with_capacity(writer_capacity, stream)).into()
    }

    /// Returns the wrapped stream.
    pub fn get_ref(&self) -> &RW {
        self.inner.get_ref().get_ref()
    }

    /// Returns the wrapped stream. Direct reads and writes there bypass the buffers.
    pub fn get_mut(&mut self) -> &mut RW {
        self.inner.get_mut().get_mut()
    }

    /// Returns the wrapped stream, pinned. Direct reads and writes there bypass the buffers.
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut RW> {
        self.project().inner.get_pin_mut().get_pin_mut()
    }

    /// Returns the wrapped stream. The bytes in the buffers are lost, so flush before.
    pub fn into_inner(self) -> RW {
        self.inner.into_inner().into_inner()
    }
}

impl<RW> From<BufReader<BufWriter<RW>>> for BufStream<RW> {
    fn from(inner: BufReader<BufWriter<RW>>) -> Self {
        BufStream { inner }
    }
}

/// The two wrappers change places, each with its buffer.
impl<RW> From<BufWriter<BufReader<RW>>> for BufStream<RW> {
    fn from(outer: BufWriter<BufReader<RW>>) -> Self {
        let BufWriter { inner: BufReader { inner, buffer, seeking: reader_seeking }, buf, written, seeking } =
            outer;
        let inner = BufWriter { inner, buf, written, seeking };
        BufReader { inner, buffer, seeking: reader_seeking }.into()
    }
}

impl<RW: AsyncRead + AsyncWrite> AsyncRead for BufStream<RW> {
    forward!(AsyncRead: self => self.project().inner);
}

impl<RW: AsyncRead + AsyncWrite> AsyncBufRead for BufStream<RW> {
    forward!(AsyncBufRead: self => self.project().inner);
}

impl<RW: AsyncRead + AsyncWrite + AsyncSeek> AsyncSeek for BufStream<RW> {
    forward!(AsyncSeek: self => self.project().inner);
}

impl<RW: AsyncRead + AsyncWrite> AsyncWrite for BufStream<RW> {
    forward!(AsyncWrite: self => self.project().inner, self.inner);
}
