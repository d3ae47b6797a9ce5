//! Datagrams: sending and receiving on a [`Registered`].
//!
//! Only a transfer that would block clears the readiness. A receive takes one datagram, whatever the room,
//! and does not say how many more there are.
//!
//! An error is a message of its own. The system reports it as an event (mostly because an earlier datagram
//! found no receiver). The next operation returns the error, and then it is gone. So an error ends the waits
//! for something to read ([`SourceKind::Datagrams`]).
//!
//! [`SourceKind::Datagrams`]: crate::driver::io::SourceKind::Datagrams

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::task::{Context, Poll};

use ::bytes::BufMut;

use super::registration::Registered;
use crate::driver::io::{Direction, Interest};
use crate::io::ReadBuf;
use crate::io::sockaddr::Sockaddr;
use crate::io::transfer::{self, Datagrams};

/// Operations of any socket.
impl<S: mio::event::Source + AsRawFd> Registered<S> {
    /// Receives one datagram or, from a stream socket, the bytes that are there. `flags` are those of `recv`,
    /// here and below.
    pub(crate) async fn recv(&self, buf: &mut [u8], flags: libc::c_int) -> io::Result<usize> {
        // SAFETY: (1) only the system writes to the bytes, and it writes only initialised ones.
        let buf = unsafe { transfer::as_uninit(buf) };
        self.async_io(Interest::READABLE, || transfer::receive(self.io(), buf, flags)).await
    }

    pub(crate) fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
        flags: libc::c_int,
    ) -> Poll<io::Result<()>> {
        let receive = |room: &mut [MaybeUninit<u8>]| Ok((transfer::receive(self.io(), room, flags)?, ()));
        // SAFETY: (1) the system returns how many bytes it has written, from the first on. (2) Nothing but
        // the system writes to the room, and it writes only initialised bytes.
        self.poll_io(cx, Direction::Read, || unsafe { transfer::fill(buf, receive) })
    }

    pub(crate) fn try_recv(&self, buf: &mut [u8], flags: libc::c_int) -> io::Result<usize> {
        // SAFETY: (1) only the system writes to the bytes, and it writes only initialised ones.
        let buf = unsafe { transfer::as_uninit(buf) };
        self.try_io(Interest::READABLE, || transfer::receive(self.io(), buf, flags))
    }
}

impl<S: Datagrams> Registered<S> {
    pub(crate) async fn send(&self, buf: &[u8]) -> io::Result<usize> {
        self.async_io(Interest::WRITABLE, || transfer::send(self.io(), buf)).await
    }

    pub(crate) fn poll_send(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_io(cx, Direction::Write, || transfer::send(self.io(), buf))
    }

    pub(crate) fn try_send(&self, buf: &[u8]) -> io::Result<usize> {
        self.try_io(Interest::WRITABLE, || transfer::send(self.io(), buf))
    }

    pub(crate) async fn recv_buf(&self, buf: &mut impl BufMut) -> io::Result<usize> {
        self.async_io(Interest::READABLE, || self.fill_buf(buf)).await
    }

    pub(crate) fn try_recv_buf(&self, buf: &mut impl BufMut) -> io::Result<usize> {
        self.try_io(Interest::READABLE, || self.fill_buf(buf))
    }

    fn fill_buf(&self, buf: &mut impl BufMut) -> io::Result<usize> {
        let receive = |room: &mut [MaybeUninit<u8>]| Ok((transfer::receive(self.io(), room, 0)?, ()));
        // SAFETY: (1) the system returns how many bytes it has written, from the first on. (2) Nothing but
        // the system writes to the room, and it writes only initialised bytes.
        let (n, ()) = unsafe { transfer::fill_buf(buf, receive) }?;
        Ok(n)
    }

    pub(crate) async fn recv_from(&self, buf: &mut [u8], flags: libc::c_int) -> io::Result<(usize, S::Addr)> {
        // SAFETY: (1) only the system writes to the bytes, and it writes only initialised ones.
        let buf = unsafe { transfer::as_uninit(buf) };
        self.async_io(Interest::READABLE, || self.io().receive_from(buf, flags)).await
    }

    pub(crate) fn poll_recv_from(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
        flags: libc::c_int,
    ) -> Poll<io::Result<S::Addr>> {
        let receive = |room: &mut [MaybeUninit<u8>]| self.io().receive_from(room, flags);
        // SAFETY: (1) the system returns how many bytes it has written, from the first on. (2) Nothing but
        // the system writes to the room, and it writes only initialised bytes.
        self.poll_io(cx, Direction::Read, || unsafe { transfer::fill(buf, receive) })
    }

    pub(crate) fn try_recv_from(&self, buf: &mut [u8], flags: libc::c_int) -> io::Result<(usize, S::Addr)> {
        // SAFETY: (1) only the system writes to the bytes, and it writes only initialised ones.
        let buf = unsafe { transfer::as_uninit(buf) };
        self.try_io(Interest::READABLE, || self.io().receive_from(buf, flags))
    }

    pub(crate) async fn recv_buf_from(&self, buf: &mut impl BufMut) -> io::Result<(usize, S::Addr)> {
        self.async_io(Interest::READABLE, || self.fill_buf_from(buf)).await
    }

    pub(crate) fn try_recv_buf_from(&self, buf: &mut impl BufMut) -> io::Result<(usize, S::Addr)> {
        self.try_io(Interest::READABLE, || self.fill_buf_from(buf))
    }

    fn fill_buf_from(&self, buf: &mut impl BufMut) -> io::Result<(usize, S::Addr)> {
        let receive = |room: &mut [MaybeUninit<u8>]| self.io().receive_from(room, 0);
        // SAFETY: (1) the system returns how many bytes it has written, from the first on. (2) Nothing but
        // the system writes to the room, and it writes only initialised bytes.
        unsafe { transfer::fill_buf(buf, receive) }
    }

    pub(crate) async fn send_to(&self, buf: &[u8], target: &Sockaddr<S::Family>) -> io::Result<usize> {
        self.async_io(Interest::WRITABLE, || transfer::send_to(self.io(), buf, target)).await
    }

    pub(crate) fn poll_send_to(
        &self,
        cx: &mut Context<'_>,
        buf: &[u8],
        target: &Sockaddr<S::Family>,
    ) -> Poll<io::Result<usize>> {
        self.poll_io(cx, Direction::Write, || transfer::send_to(self.io(), buf, target))
    }

    pub(crate) fn try_send_to(&self, buf: &[u8], target: &Sockaddr<S::Family>) -> io::Result<usize> {
        self.try_io(Interest::WRITABLE, || transfer::send_to(self.io(), buf, target))
    }
}
