//! Byte streams: reading and writing a [`Registered`].
//!
//! A transfer that came short may have emptied or filled the descriptor. `io/transfer.rs` says when that is
//! so. A `poll_*` method then clears the readiness, and saves the next transfer its `WouldBlock`. (A `try_*`
//! method clears it only after a `WouldBlock`.) Each later change of the descriptor is a new edge. The end of
//! the stream may have come before the transfer. It is not lost, because clearing leaves its bit set.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::task::{Context, Poll};

use ::bytes::BufMut;

use super::registration::Registered;
use crate::driver::io::{Direction, Interest, ReadyEvent};
use crate::io::ReadBuf;
use crate::io::transfer::{self, ByteStream};

impl<S: ByteStream> Registered<S> {
    /// Reads into the unfilled part of `buf`.
    #[inline]
    pub(crate) fn poll_read(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.poll_io_with(cx, Direction::Read, |event| {
            let read = |room: &mut [MaybeUninit<u8>]| {
                let len = room.len();
                let read = self.io().read(room)?;
                if 0 < read.count && read.count < len && read.short_empties && !self.source.has_urgent() {
                    self.source.clear(event);
                }
                Ok((read.count, ()))
            };
            // SAFETY: (1) the system returns how many bytes it has written, from the first on. (2) Nothing
            // but the system writes to the room, and it writes only initialised bytes.
            unsafe { transfer::fill(buf, read) }
        })
    }

    /// Writes the beginning of `buf`.
    #[inline]
    pub(crate) fn poll_write(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_io_with(cx, Direction::Write, |event| {
            Ok(self.written(event, self.io().write(buf)?, buf.len()))
        })
    }

    /// Writes the beginning of `bufs`, one after the other.
    pub(crate) fn poll_write_vectored(
        &self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let len = bufs.iter().map(|buf| buf.len()).sum();
        // The system takes no more slices than this. With more slices, a short write proves nothing.
        let len = if bufs.len() > libc::UIO_MAXIOV as usize { 0 } else { len };
        self.poll_io_with(cx, Direction::Write, |event| {
            Ok(self.written(event, self.io().write_vectored(bufs)?, len))
        })
    }

    /// Clears the readiness of `event` if a write of `n` out of `len` bytes has filled the descriptor.
    /// Returns `n`.
    #[inline]
    fn written(&self, event: ReadyEvent, n: usize, len: usize) -> usize {
        if S::SHORT_WRITE_FILLS && 0 < n && n < len {
            self.source.clear(event);
        }
        n
    }

    pub(crate) fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        // SAFETY: (1) only the system writes to the bytes, and it writes only initialised ones.
        let room = unsafe { transfer::as_uninit(buf) };
        self.try_io(Interest::READABLE, || self.read_uninit(room))
    }

    pub(crate) fn try_read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.try_io(Interest::READABLE, || transfer::read_vectored(self.io(), bufs))
    }

    pub(crate) fn try_read_buf(&self, buf: &mut impl BufMut) -> io::Result<usize> {
        let read = |room: &mut [MaybeUninit<u8>]| Ok((self.read_uninit(room)?, ()));
        // SAFETY: (1) the system returns how many bytes it has written, from the first on. (2) Nothing but
        // the system writes to the room, and it writes only initialised bytes.
        let (n, ()) = self.try_io(Interest::READABLE, || unsafe { transfer::fill_buf(buf, read) })?;
        Ok(n)
    }

    pub(crate) fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        self.try_io(Interest::WRITABLE, || self.io().write(buf))
    }

    pub(crate) fn try_write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.try_io(Interest::WRITABLE, || self.io().write_vectored(bufs))
    }

    /// Tells the peer that nothing more will be written. It is no error if the connection is gone.
    pub(crate) fn shutdown_write(&self) -> io::Result<()> {
        match self.io().shutdown_write() {
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
            result => result,
        }
    }

    fn read_uninit(&self, bytes: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
        Ok(self.io().read(bytes)?.count)
    }
}
