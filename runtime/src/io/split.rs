//! Splitting any stream into a half that reads and a half that writes.

use std::fmt;
use std::io::{self, IoSlice};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::{AsyncRead, AsyncWrite, ReadBuf};
use crate::loom::sync::Mutex;

/// Splits `stream` into a half that reads and a half that writes. Each half may live on its own.
///
/// The halves take turns on a lock, for the time of one poll. Streams that can be read and written at once
/// have a better way: [`TcpStream::into_split`](crate::net::TcpStream::into_split). Dropping the writing half
/// does not shut the stream down.
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use runtime::io::{AsyncReadExt, AsyncWriteExt};
///
/// let (stream, mut peer) = runtime::io::duplex(64);
/// let (mut reader, mut writer) = runtime::io::split(stream);
/// writer.write_all(b"ping").await?;
/// let mut buf = [0; 4];
/// peer.read_exact(&mut buf).await?;
/// peer.write_all(b"pong").await?;
/// reader.read_exact(&mut buf).await?;
/// let stream = reader.unsplit(writer);
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
pub fn split<T: AsyncRead + AsyncWrite>(stream: T) -> (ReadHalf<T>, WriteHalf<T>) {
    let is_write_vectored = stream.is_write_vectored();
    let shared = Arc::new(SharedStream { stream: Mutex::new(stream), is_write_vectored });
    (ReadHalf { shared: shared.clone() }, WriteHalf { shared })
}

/// The reading half of a stream. [`split`] makes it.
pub struct ReadHalf<T> {
    shared: Arc<SharedStream<T>>,
}

/// The writing half of a stream. [`split`] makes it.
pub struct WriteHalf<T> {
    shared: Arc<SharedStream<T>>,
}

struct SharedStream<T> {
    /// Pinned. It leaves its place only if it is `Unpin`, in [`ReadHalf::unsplit`].
    stream: Mutex<T>,
    /// What the stream said when it was split, so that a half can tell without the lock.
    is_write_vectored: bool,
}

impl<T> SharedStream<T> {
    fn with<R>(&self, f: impl FnOnce(Pin<&mut T>) -> R) -> R {
        let mut stream = self.stream.lock();
        // SAFETY: the stream is pinned, by the rule at the field.
        f(unsafe { Pin::new_unchecked(&mut *stream) })
    }
}

impl<T> ReadHalf<T> {
    /// Returns whether both are halves of the same stream.
    pub fn is_pair_of(&self, other: &WriteHalf<T>) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Joins the two halves again.
    ///
    /// # Panics
    /// If they are not halves of the same stream; see [`is_pair_of`](Self::is_pair_of).
    #[track_caller]
    pub fn unsplit(self, write: WriteHalf<T>) -> T
    where
        T: Unpin,
    {
        assert!(
            self.is_pair_of(&write),
            "`unsplit` needs the two halves of one stream: ask `is_pair_of` before"
        );
        drop(write);
        let shared =
            Arc::into_inner(self.shared).expect("a stream has two halves, and the other one is gone");
        shared.stream.into_inner()
    }
}

impl<T> WriteHalf<T> {
    /// Returns whether both are halves of the same stream.
    pub fn is_pair_of(&self, other: &ReadHalf<T>) -> bool {
        other.is_pair_of(self)
    }
}

impl<T: AsyncRead> AsyncRead for ReadHalf<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.shared.with(|stream| stream.poll_read(cx, buf))
    }
}

impl<T: AsyncWrite> AsyncWrite for WriteHalf<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.shared.with(|stream| stream.poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shared.with(|stream| stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shared.with(|stream| stream.poll_shutdown(cx))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.shared.with(|stream| stream.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        self.shared.is_write_vectored
    }
}

// As Tokio's. The stream is responsible for a panic in it.
impl<T> UnwindSafe for ReadHalf<T> {}
impl<T> RefUnwindSafe for ReadHalf<T> {}
impl<T> UnwindSafe for WriteHalf<T> {}
impl<T> RefUnwindSafe for WriteHalf<T> {}

impl<T> fmt::Debug for ReadHalf<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadHalf").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for WriteHalf<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteHalf").finish_non_exhaustive()
    }
}
