//! The halves of a stream, each with a life of its own.

use std::error::Error;
use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::split::{half_methods, read_half_methods, write_half_methods};
use super::stream::TcpStream;
use crate::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The reading half of a stream, made by [`TcpStream::into_split`].
///
/// [`as_ref`](AsRef::as_ref) leads to what else a stream can do.
#[derive(Debug)]
pub struct OwnedReadHalf(Arc<TcpStream>);

/// The writing half of a stream, made by [`TcpStream::into_split`].
///
/// Dropping it closes the writing side. [`as_ref`](AsRef::as_ref) leads to what else a stream can do.
#[derive(Debug)]
pub struct OwnedWriteHalf(Shared);

/// The stream, and whether dropping this half of it has anything left to close. A type of its own so that the half
/// has no destructor and can be taken apart.
#[derive(Debug)]
struct Shared {
    stream: Arc<TcpStream>,
    shuts_down: bool,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.shuts_down {
            // The peer may be gone already, and nobody is left to be told.
            let _ = self.stream.shutdown_write();
        }
    }
}

impl std::ops::Deref for Shared {
    type Target = TcpStream;

    fn deref(&self) -> &TcpStream {
        &self.stream
    }
}

pub(super) fn split(stream: TcpStream) -> (OwnedReadHalf, OwnedWriteHalf) {
    let stream = Arc::new(stream);
    let read = OwnedReadHalf(stream.clone());
    (read, OwnedWriteHalf(Shared { stream, shuts_down: true }))
}

fn reunite(read: OwnedReadHalf, write: OwnedWriteHalf) -> Result<TcpStream, ReuniteError> {
    if !Arc::ptr_eq(&read.0, &write.0.stream) {
        return Err(ReuniteError(read, write));
    }
    write.forget();
    Ok(Arc::into_inner(read.0).expect("a stream has two halves, and the other one is gone"))
}

read_half_methods!(OwnedReadHalf);
write_half_methods!(OwnedWriteHalf);

impl OwnedReadHalf {
    /// Puts the two halves together again.
    ///
    /// # Errors
    /// [`ReuniteError`], with both halves in it, if they are not of the same stream.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let listener = runtime::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    /// # let stream = runtime::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    /// let (reader, writer) = stream.into_split();
    /// let stream = reader.reunite(writer).unwrap();
    /// # });
    /// ```
    pub fn reunite(self, other: OwnedWriteHalf) -> Result<TcpStream, ReuniteError> {
        reunite(self, other)
    }
}

impl OwnedWriteHalf {
    /// Puts the two halves together again.
    ///
    /// # Errors
    /// [`ReuniteError`], with both halves in it, if they are not of the same stream.
    pub fn reunite(self, other: OwnedReadHalf) -> Result<TcpStream, ReuniteError> {
        reunite(other, self)
    }

    /// Drops this half without closing the writing side.
    pub fn forget(mut self) {
        self.0.shuts_down = false;
    }
}

impl AsyncWrite for OwnedWriteHalf {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll_write_shared(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = self.0.shutdown_write();
        if result.is_ok() {
            self.0.shuts_down = false;
        }
        Poll::Ready(result)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_write_vectored_shared(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}

/// Two halves that do not belong together; both are given back.
#[derive(Debug)]
pub struct ReuniteError(pub OwnedReadHalf, pub OwnedWriteHalf);

impl fmt::Display for ReuniteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the two halves are not of the same stream")
    }
}

impl Error for ReuniteError {}
