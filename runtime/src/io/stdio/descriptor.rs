//! Reading and writing std's standard streams on a thread that may block.
//!
//! Another process may have made the stream non-blocking, for all processes that share it. std would fail
//! then; these functions wait.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;

/// Reads once, and returns the number of bytes.
pub fn read(stream: &mut (impl Read + AsRawFd), bytes: &mut [u8]) -> io::Result<usize> {
    let fd = stream.as_raw_fd();
    patiently(fd, libc::POLLIN, || stream.read(bytes))
}

/// Writes all of `bytes`, and flushes if `flush` is set. Returns whether the stream holds nothing back now.
pub fn write(stream: &mut (impl Write + AsRawFd), mut bytes: &[u8], flush: bool) -> io::Result<bool> {
    let fd = stream.as_raw_fd();
    // Std's streams hold back the bytes after the last line feed. If the system has taken only a part of the
    // lines, they may also hold back the rest.
    let is_whole = bytes.last() == Some(&b'\n') || fd == libc::STDERR_FILENO;
    while !bytes.is_empty() {
        match patiently(fd, libc::POLLOUT, || stream.write(bytes))? {
            0 => return Err(ErrorKind::WriteZero.into()),
            n => bytes = &bytes[n..],
        }
    }
    let flushes = flush || is_whole;
    if flushes {
        // If nothing is held back, this calls nothing.
        patiently(fd, libc::POLLOUT, || stream.flush())?;
    }
    Ok(flushes)
}

/// Repeats `call` as long as it is interrupted or would block.
fn patiently<T>(fd: i32, events: libc::c_short, mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => wait(fd, events)?,
            result => return result,
        }
    }
}

fn wait(fd: i32, events: libc::c_short) -> io::Result<()> {
    let mut entry = libc::pollfd { fd, events, revents: 0 };
    // SAFETY: the call writes to one entry, which is ours.
    match unsafe { libc::poll(&mut entry, 1, -1) } {
        -1 => Err(io::Error::last_os_error()).or_else(|error| match error.kind() {
            ErrorKind::Interrupted => Ok(()),
            _ => Err(error),
        }),
        _ => Ok(()),
    }
}
