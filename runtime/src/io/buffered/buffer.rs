//! Bytes that have been read and wait to be used.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::io::ext::poll_read_some;
use crate::io::{AsyncRead, ReadBuf};

/// The default capacity, in bytes, which is that of std.
pub const CAPACITY: usize = 8 * 1024;

/// A piece of memory with the bytes that have been read and not yet used.
///
/// ```text
/// [ used |     filled     |    room    ]
///        start            end
/// ```
pub struct Buffer {
    bytes: Box<[u8]>,
    /// At most `end`.
    start: usize,
    /// At most `bytes.len()`.
    end: usize,
}

impl Buffer {
    /// Creates a cleared buffer, because some readers count bytes as read that they did not write.
    pub fn new(capacity: usize) -> Self {
        Self { bytes: vec![0; capacity].into_boxed_slice(), start: 0, end: 0 }
    }

    pub fn capacity(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Whether no room is left behind the filled bytes.
    #[inline]
    pub fn is_at_end(&self) -> bool {
        self.end == self.bytes.len() && !self.is_empty()
    }

    #[inline]
    pub fn filled(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Uses the first `n` filled bytes, or all if there are fewer. An empty buffer then has room for its
    /// whole capacity.
    #[inline]
    pub fn consume(&mut self, n: usize) {
        self.start += n.min(self.end - self.start);
        if self.is_empty() {
            self.clear();
        }
    }

    /// Moves filled bytes into `buf`, as many as fit.
    #[inline]
    pub fn drain_into(&mut self, buf: &mut ReadBuf<'_>) {
        let bytes = self.filled();
        let n = bytes.len().min(buf.remaining());
        buf.put_slice(&bytes[..n]);
        self.start += n;
    }

    /// Uses all filled bytes.
    #[inline]
    pub fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    /// Reads into the room, once, and returns the number of bytes. An empty buffer has room for its whole
    /// capacity.
    #[inline]
    pub fn poll_fill<R: AsyncRead + ?Sized>(
        &mut self,
        cx: &mut Context<'_>,
        reader: Pin<&mut R>,
    ) -> Poll<io::Result<usize>> {
        if self.is_empty() {
            self.clear();
        }
        let n = ready!(poll_read_some(reader, cx, &mut self.bytes[self.end..]))?;
        self.end += n;
        Poll::Ready(Ok(n))
    }
}

/// Prints as `filled/capacity`.
impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.end - self.start, self.bytes.len())
    }
}
