//! A pipe in memory, for both directions. Tests connect a client to a server with it.
//!
//! Each direction is a [`SimplexStream`] behind a lock of its own. No waker is cloned, woken or dropped under
//! the lock: see [`locked`](super::locked).

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use super::locked::poll_locked;
use super::simplex::End;
use super::{AsyncRead, AsyncWrite, ReadBuf, SimplexStream};
use crate::coop;
use crate::loom::sync::Mutex;
use crate::util::unwind::FirstPanic;

/// One end of a pipe in memory. [`duplex`] makes it.
///
/// Each end reads what the other writes. After the drop of an end, the other end reads the bytes that are
/// left and then the end of the stream, and its writes fail with [`BrokenPipe`](io::ErrorKind::BrokenPipe).
/// So do the writes of an end that was [shut down](super::AsyncWriteExt::shutdown).
#[derive(Debug)]
pub struct DuplexStream {
    read: Arc<Mutex<SimplexStream>>,
    write: Arc<Mutex<SimplexStream>>,
}

/// Creates a pipe in memory with two ends, each of which reads what the other writes. Up to `max_buf_size`
/// bytes wait in each direction.
///
/// # Panics
/// If `max_buf_size` is zero, because nothing could ever pass.
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use runtime::io::{AsyncReadExt, AsyncWriteExt};
///
/// let (mut client, mut server) = runtime::io::duplex(64);
/// client.write_all(b"ping").await?;
/// let mut buf = [0; 4];
/// server.read_exact(&mut buf).await?;
/// assert_eq!(&buf, b"ping");
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
#[track_caller]
pub fn duplex(max_buf_size: usize) -> (DuplexStream, DuplexStream) {
    let there = Arc::new(Mutex::new(SimplexStream::new_unsplit(max_buf_size)));
    let back = Arc::new(Mutex::new(SimplexStream::new_unsplit(max_buf_size)));
    let near = DuplexStream { read: back.clone(), write: there.clone() };
    (near, DuplexStream { read: there, write: back })
}

/// Makes an attempt, and lets the caller wait if the attempt finds nothing to do.
#[inline]
fn poll_pipe<T>(
    pipe: &Mutex<SimplexStream>,
    cx: &mut Context<'_>,
    end: End,
    attempt: impl FnMut(&mut SimplexStream) -> Option<(T, Option<Waker>)>,
) -> Poll<T> {
    let coop = ready!(coop::poll_proceed(cx));
    let (result, other) = ready!(poll_locked(pipe, cx, attempt, |pipe| pipe.waiting(end)));
    coop.made_progress();
    wake(other);
    Poll::Ready(result)
}

/// Ends one direction.
fn close(pipe: &Mutex<SimplexStream>, end: End) {
    let (other, own) = pipe.lock().close(end);
    let _own = own;
    wake(other);
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl AsyncRead for DuplexStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        poll_pipe(&self.read, cx, End::Reader, |pipe| pipe.try_read(buf).map(|writer| (Ok(()), writer)))
    }
}

impl AsyncWrite for DuplexStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    /// Does nothing, because written bytes can be read at once.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ends the stream that the other end reads.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        close(&self.write, End::Writer);
        Poll::Ready(Ok(()))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        poll_pipe(&self.write, cx, End::Writer, |pipe| pipe.try_write(bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}

impl Drop for DuplexStream {
    fn drop(&mut self) {
        // The wakers are foreign code. If one panics, the other direction must end all the same.
        let mut panic = FirstPanic::new();
        panic.catch(|| close(&self.write, End::Writer));
        panic.catch(|| close(&self.read, End::Reader));
        panic.resume();
    }
}
