//! Streams that behave badly in ways that a seed decides, for std's readers and writers and for ours alike.
#![allow(dead_code)]

use std::collections::HashSet;
use std::future::poll_fn;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use runtime::io::{AsyncBufRead, AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};

pub fn block_on<F: Future>(future: F) -> F::Output {
    runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Polls a future once, with a waker that does nothing.
pub fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls a future until it is ready. It must not wait for another task or thread.
pub fn finish<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = poll_once(future.as_mut()) {
            return output;
        }
    }
}

/// Runs a future of `make`, and now and then drops it where it waits and makes another one.
pub fn cancelled_at_times<T>(random: &mut Random, mut make: impl AsyncFnMut() -> T) -> T {
    loop {
        let mut future = pin!(make());
        for _ in 0..=random.below(4) {
            if let Poll::Ready(output) = poll_once(future.as_mut()) {
                return output;
            }
        }
    }
}

/// Simple random numbers (xorshift).
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % n
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Text with short lines, wide characters, carriage returns, and at times bytes that are no text.
    pub fn text(&mut self, len: usize, is_always_utf8: bool) -> Vec<u8> {
        let pieces: &[&[u8]] =
            &[b"a", b"b", b",", b"\n", b"\r\n", b"\r", "é".as_bytes(), "😀".as_bytes(), b"word", b"\xff"];
        let kinds = pieces.len() - usize::from(is_always_utf8);
        let mut text = Vec::new();
        while text.len() < len {
            text.extend(pieces[self.below(kinds)]);
        }
        text
    }
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Faults {
    /// Short reads and writes, and interruptions.
    Interruptions,
    /// Interruptions, and errors of other kinds.
    Errors,
    /// All of these, and reads and writes of 0 bytes.
    Zeroes,
}

/// What goes wrong where: decided by the position in the stream, so that it is the same however a program
/// comes there.
#[derive(Clone)]
pub struct Terrain {
    seed: u64,
    faults: Faults,
    /// The positions that have gone wrong. None goes wrong a second time.
    visited: HashSet<u64>,
}

impl Terrain {
    pub fn new(seed: u64, faults: Faults) -> Self {
        Self { seed, faults, visited: HashSet::new() }
    }

    /// How many bytes may pass at this position; 0 or an error if it goes wrong.
    fn pass(&mut self, position: u64) -> io::Result<usize> {
        let mut random = Random::new(self.seed ^ position.wrapping_mul(0x2545_f491_4f6c_dd1d));
        random.below(2);
        let kind = random.below(20);
        if kind < 5 && self.visited.insert(position) {
            match kind {
                0 if self.faults != Faults::Interruptions => return Err(ErrorKind::ConnectionReset.into()),
                1 if self.faults != Faults::Interruptions => return Err(io::Error::other("told to")),
                2 if self.faults == Faults::Zeroes => return Ok(0),
                _ => return Err(ErrorKind::Interrupted.into()),
            }
        }
        Ok(1 + random.below(9))
    }
}

/// A stream in memory over rough terrain, for std.
#[derive(Clone)]
pub struct Rough {
    pub stream: io::Cursor<Vec<u8>>,
    terrain: Terrain,
}

impl Rough {
    pub fn new(bytes: Vec<u8>, terrain: Terrain) -> Self {
        Self { stream: io::Cursor::new(bytes), terrain }
    }

    pub fn faults(&self) -> Faults {
        self.terrain.faults
    }
}

impl Read for Rough {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = buf.len().min(self.terrain.pass(self.stream.position())?);
        self.stream.read(&mut buf[..n])
    }
}

impl Write for Rough {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let n = buf.len().min(self.terrain.pass(self.stream.position())?);
        self.stream.write(&buf[..n])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Rough {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.stream.seek(position)
    }
}

/// A stream of std's for us, which makes its callers wait now and then.
pub struct Waiting<T> {
    pub inner: T,
    random: Random,
    seeking: Option<SeekFrom>,
}

impl<T> Waiting<T> {
    pub fn new(inner: T, seed: u64) -> Self {
        Self { inner, random: Random::new(seed), seeking: None }
    }

    fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.random.one_in(3) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    }
}

impl<T: Read + Unpin> AsyncRead for Waiting<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        std::task::ready!(self.poll_wait(cx));
        let result = self.inner.read(buf.initialize_unfilled());
        Poll::Ready(result.map(|n| buf.advance(n)))
    }
}

impl<T: Write + Unpin> AsyncWrite for Waiting<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        std::task::ready!(self.poll_wait(cx));
        Poll::Ready(self.inner.write(buf))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(self.poll_wait(cx));
        Poll::Ready(self.inner.flush())
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

/// As a file: a move that has begun must complete before the next one begins.
impl<T: Seek + Unpin> AsyncSeek for Waiting<T> {
    fn start_seek(mut self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        if self.seeking.is_some() {
            return Err(io::Error::other("another move has not completed"));
        }
        self.seeking = Some(position);
        Ok(())
    }

    fn poll_complete(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        std::task::ready!(self.poll_wait(cx));
        match self.seeking.take() {
            Some(position) => Poll::Ready(self.inner.seek(position)),
            None => Poll::Ready(self.inner.stream_position()),
        }
    }
}

/// What a result is, for comparing: errors by their kind.
pub fn outcome<T>(result: io::Result<T>) -> Result<T, ErrorKind> {
    result.map_err(|error| error.kind())
}

/// What the reader's buffer holds, filled if it was empty.
pub async fn filled<R: AsyncBufRead + Unpin + ?Sized>(reader: &mut R) -> Vec<u8> {
    poll_fn(|cx| Pin::new(&mut *reader).poll_fill_buf(cx).map_ok(<[u8]>::to_vec)).await.unwrap()
}
