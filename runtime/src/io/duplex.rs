//! A pipe in memory, for both directions: what tests connect a client to a server with.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use super::{AsyncRead, AsyncWrite, ReadBuf};
use crate::coop;
use crate::loom::sync::Mutex;

/// One end of a pipe in memory, made by [`duplex`].
///
/// What one end writes, the other reads. Dropping an end ends what the other reads, and fails what it writes, with
/// [`BrokenPipe`](io::ErrorKind::BrokenPipe).
#[derive(Debug)]
pub struct DuplexStream {
    read: Arc<Mutex<Pipe>>,
    write: Arc<Mutex<Pipe>>,
}

/// Creates a pipe in memory, with two ends, each of which reads what the other writes; up to `max_buf_size` bytes
/// wait in each direction.
///
/// # Panics
/// If `max_buf_size` is zero: nothing could ever pass.
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
    assert!(max_buf_size > 0, "`duplex` needs room for at least 1 byte, got 0");
    let pipe = || Arc::new(Mutex::new(Pipe::new(max_buf_size)));
    let (there, back) = (pipe(), pipe());
    let near = DuplexStream { read: back.clone(), write: there.clone() };
    (near, DuplexStream { read: there, write: back })
}

/// One direction.
#[derive(Debug)]
struct Pipe {
    /// At most `capacity` bytes, so it does not grow without bound.
    bytes: VecDeque<u8>,
    capacity: usize,
    /// Nothing more will be written.
    is_closed: bool,
    /// Nothing more will be read.
    is_abandoned: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Pipe {
    fn new(capacity: usize) -> Self {
        Self {
            bytes: VecDeque::new(),
            capacity,
            is_closed: false,
            is_abandoned: false,
            reader: None,
            writer: None,
        }
    }
}

/// Wakes who waits at the other side. The lock is free by then.
fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl AsyncRead for DuplexStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let coop = ready!(coop::poll_proceed(cx));
        // Cloned before and dropped after the lock.
        let mut waker = Some(cx.waker().clone());
        let mut pipe = self.read.lock();
        if pipe.bytes.is_empty() && !pipe.is_closed && buf.remaining() > 0 {
            std::mem::swap(&mut pipe.reader, &mut waker);
            drop(pipe);
            return Poll::Pending;
        }
        let n = pipe.bytes.len().min(buf.remaining());
        let (front, back) = pipe.bytes.as_slices();
        let from_front = front.len().min(n);
        buf.put_slice(&front[..from_front]);
        buf.put_slice(&back[..n - from_front]);
        pipe.bytes.drain(..n);
        let writer = if n > 0 { pipe.writer.take() } else { None };
        drop(pipe);
        wake(writer);
        coop.made_progress();
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for DuplexStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let coop = ready!(coop::poll_proceed(cx));
        // Cloned before and dropped after the lock.
        let mut waker = Some(cx.waker().clone());
        let mut pipe = self.write.lock();
        if pipe.is_closed || pipe.is_abandoned {
            coop.made_progress();
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let n = (pipe.capacity - pipe.bytes.len()).min(buf.len());
        if n == 0 && !buf.is_empty() {
            std::mem::swap(&mut pipe.writer, &mut waker);
            drop(pipe);
            return Poll::Pending;
        }
        pipe.bytes.extend(&buf[..n]);
        let reader = if n > 0 { pipe.reader.take() } else { None };
        drop(pipe);
        wake(reader);
        coop.made_progress();
        Poll::Ready(Ok(n))
    }

    /// Does nothing: what is written can be read at once.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ends what the other end reads.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let reader = {
            let mut pipe = self.write.lock();
            pipe.is_closed = true;
            pipe.reader.take()
        };
        wake(reader);
        Poll::Ready(Ok(()))
    }
}

impl Drop for DuplexStream {
    fn drop(&mut self) {
        let (reader, own_writer) = {
            let mut pipe = self.write.lock();
            pipe.is_closed = true;
            (pipe.reader.take(), pipe.writer.take())
        };
        let (writer, own_reader) = {
            let mut pipe = self.read.lock();
            pipe.is_abandoned = true;
            (pipe.writer.take(), pipe.reader.take())
        };
        drop((own_writer, own_reader));
        wake(reader);
        wake(writer);
    }
}
