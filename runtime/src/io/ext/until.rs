//! Reading up to a byte.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::io::AsyncBufRead;

/// Appends to `buf`, up to and including the first `delimiter`, or to the end.
#[inline]
pub(in crate::io) fn poll_read_until<R: AsyncBufRead + ?Sized>(
    mut reader: Pin<&mut R>,
    cx: &mut Context<'_>,
    delimiter: u8,
    buf: &mut Vec<u8>,
) -> Poll<io::Result<()>> {
    loop {
        let (used, is_last) = {
            // Not `uninterrupted`: the returned bytes borrow from the reader, so the loop cannot be inside of
            // a closure.
            let bytes = match ready!(reader.as_mut().poll_fill_buf(cx)) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Poll::Ready(Err(error)),
            };
            let found = find(delimiter, bytes);
            let used = found.map_or(bytes.len(), |index| index + 1);
            buf.extend_from_slice(&bytes[..used]);
            (used, found.is_some() || used == 0)
        };
        reader.as_mut().consume(used);
        if is_last {
            return Poll::Ready(Ok(()));
        }
    }
}

/// Returns the index of the first `byte` in `bytes`.
///
/// This is the search of the C library, which uses the machine's widest registers. A crate for it would be
/// one more crate to build.
#[inline]
fn find(byte: u8, bytes: &[u8]) -> Option<usize> {
    let start = bytes.as_ptr();
    // SAFETY: the call reads these bytes, up to the first that it finds.
    let found = unsafe { libc::memchr(start.cast(), byte.into(), bytes.len()) };
    (!found.is_null()).then(|| found as usize - start as usize)
}
