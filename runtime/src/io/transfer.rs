//! Reads and writes bytes through a descriptor by plain system calls, and says what a short transfer means.
//!
//! # Why plain system calls
//! The C library's functions are points at which a thread may be cancelled (`pthread_cancel`), and they say
//! so before and after the call. That takes 60 instructions for each call, two of them read-modify-writes. No
//! thread that runs Rust may be cancelled, because Rust's frames do not expect it.
//!
//! # Short transfers
//! A read that leaves room in its buffer has often emptied the descriptor. Then the readiness can be cleared
//! at once, which saves the next read its `WouldBlock`. Whether a short read means this depends on the kind
//! of descriptor ([`ByteStream`]):
//!
//! - **TCP**: a short read has emptied it, a short write has filled it.
//! - **Unix stream**: the same, unless descriptors or credentials came with the bytes. The system ends a read
//!   behind such a message, and says that they were there.
//! - **Pipe**: a short transfer says nothing. In packet mode (`O_DIRECT`, which the writer sets and the
//!   reader cannot see) a read ends behind each packet. A write is short, too, when there is no page for the
//!   rest.
//! - **Datagrams**: a read takes one datagram, however much room there is. A write takes all or nothing.
//!
//! A read from any socket also ends before urgent data. The arrival of urgent data is an event of its own.
//! From the first such event on, no short read of that socket is relied upon
//! ([`has_urgent`](crate::driver::io::Source::has_urgent)).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::ptr;

use bytes::BufMut;

use super::ReadBuf;
use super::sockaddr::{Family, Sockaddr};

/// A descriptor through which bytes pass in order.
pub(crate) trait ByteStream: mio::event::Source + AsRawFd {
    /// Whether a short write has filled the descriptor.
    const SHORT_WRITE_FILLS: bool;

    /// Reads into `bytes`, from the first on.
    fn read(&self, bytes: &mut [MaybeUninit<u8>]) -> io::Result<Read>;

    /// Writes the beginning of `bytes`, and returns the number of bytes.
    fn write(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Writes the beginning of `slices`, one after the other, and returns the number of bytes. Uses at most
    /// the first [`libc::UIO_MAXIOV`] slices.
    fn write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Tells the peer that nothing more will be written.
    fn shutdown_write(&self) -> io::Result<()>;
}

/// The result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Read {
    /// The number of bytes written to the buffer.
    pub count: usize,
    /// Whether nothing was left in the descriptor, if there was room for more.
    pub short_empties: bool,
}

impl ByteStream for mio::net::TcpStream {
    const SHORT_WRITE_FILLS: bool = true;

    #[inline]
    fn read(&self, bytes: &mut [MaybeUninit<u8>]) -> io::Result<Read> {
        Ok(Read { count: receive(self, bytes, 0)?, short_empties: true })
    }

    #[inline]
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        send(self, bytes)
    }

    fn write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        send_vectored(self, slices)
    }

    fn shutdown_write(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

impl ByteStream for mio::net::UnixStream {
    const SHORT_WRITE_FILLS: bool = true;

    #[inline]
    fn read(&self, bytes: &mut [MaybeUninit<u8>]) -> io::Result<Read> {
        let (count, flags) = receive_message(self, bytes)?;
        // No room was given for descriptors or credentials, so the flag says whether some came.
        Ok(Read { count, short_empties: flags & libc::MSG_CTRUNC == 0 })
    }

    #[inline]
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        send(self, bytes)
    }

    fn write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        send_vectored(self, slices)
    }

    fn shutdown_write(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

/// A socket for datagrams.
pub(crate) trait Datagrams: mio::event::Source + AsRawFd {
    /// The address from which a datagram has come.
    type Addr;

    /// A `sockaddr` of the socket's family.
    type Family: Family;

    /// Receives a datagram into `bytes`, as far as there is room, and returns how many bytes were written,
    /// from the first on. `flags` are those of [`receive`].
    fn receive_from(
        &self,
        bytes: &mut [MaybeUninit<u8>],
        flags: libc::c_int,
    ) -> io::Result<(usize, Self::Addr)>;
}

/// Receives into `bytes`, and returns how many bytes were written, from the first on. `flags` are those of
/// `recv`, except `MSG_TRUNC`, with which the system may return a larger number.
#[inline]
pub(crate) fn receive(
    socket: &impl AsRawFd,
    bytes: &mut [MaybeUninit<u8>],
    flags: libc::c_int,
) -> io::Result<usize> {
    let nowhere = ptr::null_mut::<libc::c_void>();
    let (fd, start, len) = (socket.as_raw_fd(), bytes.as_mut_ptr(), bytes.len());
    // SAFETY: the arguments are those of `recvfrom`. The call writes to `bytes`, which are borrowed
    // exclusively, and to nothing else, because it is not asked for the sender's address.
    let count = unsafe { libc::syscall(libc::SYS_recvfrom, fd, start, len, flags, nowhere, nowhere) };
    result(count)
}

/// Receives as [`receive`] does, and returns the address from which the datagram has come.
#[inline]
pub(crate) fn receive_from<T: Family>(
    socket: &impl AsRawFd,
    bytes: &mut [MaybeUninit<u8>],
    flags: libc::c_int,
) -> io::Result<(usize, Sockaddr<T>)> {
    let mut from = Sockaddr::empty();
    let (addr, addr_len) = from.as_mut_ptr();
    let (fd, start, len) = (socket.as_raw_fd(), bytes.as_mut_ptr(), bytes.len());
    // SAFETY: the arguments are those of `recvfrom`. The call writes to `bytes` and to `from`, which are
    // borrowed exclusively.
    let count = unsafe { libc::syscall(libc::SYS_recvfrom, fd, start, len, flags, addr, addr_len) };
    Ok((result(count)?, from))
}

/// Receives as [`receive`] does, and returns the flags of the message, too (`MSG_CTRUNC` and so on). It
/// receives only bytes.
#[inline]
fn receive_message(socket: &impl AsRawFd, bytes: &mut [MaybeUninit<u8>]) -> io::Result<(usize, libc::c_int)> {
    let mut slice = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: all zero is a valid value: no address, no slices, no control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut slice, 1);
    // SAFETY: the arguments are those of `recvmsg`. The call writes to `message`, and to `bytes`, which are
    // borrowed exclusively. `message` has no room for anything else.
    let count = unsafe { libc::syscall(libc::SYS_recvmsg, socket.as_raw_fd(), &raw mut message, 0) };
    Ok((result(count)?, message.msg_flags))
}

/// Reads into `bytes` from any descriptor, and returns how many bytes were written, from the first on.
#[inline]
pub(crate) fn read(io: &impl AsRawFd, bytes: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
    // SAFETY: the arguments are those of `read`. The call writes to `bytes`, which are borrowed exclusively.
    let count = unsafe { libc::syscall(libc::SYS_read, io.as_raw_fd(), bytes.as_mut_ptr(), bytes.len()) };
    result(count)
}

/// Writes the beginning of `bytes` to any descriptor, and returns the number of bytes.
#[inline]
pub(crate) fn write(io: &impl AsRawFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the arguments are those of `write`. The call reads `bytes`, which are borrowed.
    let count = unsafe { libc::syscall(libc::SYS_write, io.as_raw_fd(), bytes.as_ptr(), bytes.len()) };
    result(count)
}

/// Sends the beginning of `bytes`, and returns the number of bytes. If the peer is gone, no signal is raised
/// (`SIGPIPE`).
#[inline]
pub(crate) fn send(socket: &impl AsRawFd, bytes: &[u8]) -> io::Result<usize> {
    let nowhere = ptr::null_mut::<libc::c_void>();
    let (fd, start, len) = (socket.as_raw_fd(), bytes.as_ptr(), bytes.len());
    // SAFETY: the arguments are those of `sendto`. The call reads `bytes`, which are borrowed, and no
    // address, because the address has length zero.
    let count =
        unsafe { libc::syscall(libc::SYS_sendto, fd, start, len, libc::MSG_NOSIGNAL, nowhere, 0_usize) };
    result(count)
}

/// Sends the beginning of `slices`, one after the other, as [`send`] does. Uses at most the first
/// [`libc::UIO_MAXIOV`] slices.
fn send_vectored(socket: &impl AsRawFd, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    // SAFETY: all zero is a valid value: no address, no slices, no control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = slices.as_ptr().cast_mut().cast();
    // The number's type depends on the C library.
    message.msg_iovlen = slices.len().min(libc::UIO_MAXIOV as usize) as _;
    let (fd, message) = (socket.as_raw_fd(), &raw const message);
    // SAFETY: the arguments are those of `sendmsg`, because an `IoSlice` is laid out as an `iovec`. The call
    // reads `message` and the memory that the first slices borrow, and writes nothing.
    let count = unsafe { libc::syscall(libc::SYS_sendmsg, fd, message, libc::MSG_NOSIGNAL) };
    result(count)
}

/// Sends `bytes` to `target` as a datagram.
#[inline]
pub(crate) fn send_to<T: Family>(
    socket: &impl AsRawFd,
    bytes: &[u8],
    target: &Sockaddr<T>,
) -> io::Result<usize> {
    let (addr, addr_len) = target.as_ptr();
    let (fd, start, len) = (socket.as_raw_fd(), bytes.as_ptr(), bytes.len());
    // SAFETY: the arguments are those of `sendto`. The call reads `bytes` and `target`, which are borrowed.
    let count =
        unsafe { libc::syscall(libc::SYS_sendto, fd, start, len, libc::MSG_NOSIGNAL, addr, addr_len) };
    result(count)
}

/// Reads into `slices`, one after the other, and returns the number of bytes. Uses at most the first
/// [`libc::UIO_MAXIOV`] slices.
#[inline]
pub(crate) fn read_vectored(io: &impl AsRawFd, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    let count = slices.len().min(libc::UIO_MAXIOV as usize);
    // SAFETY: the arguments are those of `readv`, because an `IoSliceMut` is laid out as an `iovec`. The call
    // writes to the memory that the first `count` slices borrow exclusively.
    let count = unsafe { libc::syscall(libc::SYS_readv, io.as_raw_fd(), slices.as_mut_ptr(), count) };
    result(count)
}

/// Writes the beginning of `slices` to any descriptor, one after the other, and returns the number of bytes.
/// Uses at most the first [`libc::UIO_MAXIOV`] slices. If it is a socket or a pipe and the peer is gone, a
/// signal is raised (`SIGPIPE`).
#[inline]
pub(crate) fn write_vectored(io: &impl AsRawFd, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    let count = slices.len().min(libc::UIO_MAXIOV as usize);
    // SAFETY: the arguments are those of `writev`, because an `IoSlice` is laid out as an `iovec`. The call
    // reads the memory that the first `count` slices borrow.
    let count = unsafe { libc::syscall(libc::SYS_writev, io.as_raw_fd(), slices.as_ptr(), count) };
    result(count)
}

/// Lets `read` write to the room of `buf`, and advances `buf`. `read` returns how many bytes it has written,
/// and one more result.
///
/// # Safety
/// 1. `read` initialises as many bytes as it says, from the first on. 2. It makes no initialised byte
///    uninitialised.
#[inline]
pub(crate) unsafe fn fill<R>(
    buf: &mut ReadBuf<'_>,
    read: impl FnOnce(&mut [MaybeUninit<u8>]) -> io::Result<(usize, R)>,
) -> io::Result<R> {
    // SAFETY: (1) by our (2), nothing uninitialised is written over an initialised byte.
    let (n, rest) = read(unsafe { buf.unfilled_mut() })?;
    // SAFETY: (1) by our (1), `read` has initialised the first `n` bytes of the unfilled part.
    unsafe { buf.assume_init(n) };
    buf.advance(n);
    Ok(rest)
}

/// Works as [`fill`], with the room that [`BufMut::chunk_mut`] returns. Also returns the number of bytes.
///
/// # Safety
/// 1. 2. As for [`fill`].
#[inline]
pub(crate) unsafe fn fill_buf<R>(
    buf: &mut impl BufMut,
    read: impl FnOnce(&mut [MaybeUninit<u8>]) -> io::Result<(usize, R)>,
) -> io::Result<(usize, R)> {
    // SAFETY: a system call does not read the room, and by (2) nothing uninitialised is written over an
    // initialised byte.
    let (n, rest) = read(unsafe { buf.chunk_mut().as_uninit_slice_mut() })?;
    // SAFETY: by (1), `read` has initialised the first `n` bytes of the chunk.
    unsafe { buf.advance_mut(n) };
    Ok((n, rest))
}

/// `bytes` as bytes that are not read before they are written.
///
/// # Safety
/// 1. No byte of the result is made uninitialised.
#[inline]
pub(crate) unsafe fn as_uninit(bytes: &mut [u8]) -> &mut [MaybeUninit<u8>] {
    // SAFETY: the layout is the same. By (1) the bytes are initialised when the borrow ends.
    unsafe { &mut *(ptr::from_mut(bytes) as *mut [MaybeUninit<u8>]) }
}

/// Turns the result of a system call, a number of bytes or -1, into a `Result`.
#[inline]
fn result(count: libc::c_long) -> io::Result<usize> {
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::io::ErrorKind;
    use std::os::fd::{FromRawFd, OwnedFd};
    use std::os::unix::net::UnixStream;

    use super::*;

    fn receive_into(socket: &impl AsRawFd, bytes: &mut [u8]) -> io::Result<usize> {
        // SAFETY: (1) only the system writes to the bytes, and it writes only initialised ones.
        receive(socket, unsafe { as_uninit(bytes) }, 0)
    }

    fn read_into(stream: &impl ByteStream, bytes: &mut [u8]) -> io::Result<Read> {
        // SAFETY: (1) as in `receive_into`.
        stream.read(unsafe { as_uninit(bytes) })
    }

    #[test]
    fn what_is_sent_is_received_and_nothing_else_is_written() {
        let (one, other) = UnixStream::pair().unwrap();
        assert_eq!(send(&one, b"hello").unwrap(), 5);
        let mut bytes = *b"........";
        assert_eq!(receive_into(&other, &mut bytes).unwrap(), 5);
        assert_eq!(&bytes, b"hello...");
        let slices = vec![IoSlice::new(b"a"); 2 * libc::UIO_MAXIOV as usize];
        assert_eq!(send_vectored(&one, &slices).unwrap(), libc::UIO_MAXIOV as usize);
        assert_eq!(send_vectored(&one, &[]).unwrap(), 0);
        assert_eq!(receive_into(&other, &mut bytes).unwrap(), 8);
        assert_eq!(write_vectored(&one, &slices[..8]).unwrap(), 8);
        assert_eq!(write_vectored(&one, &[]).unwrap(), 0);
        let mut ones = [[b'.'; 1]; 2 * libc::UIO_MAXIOV as usize];
        let mut slices: Vec<_> = ones.iter_mut().map(|one| IoSliceMut::new(one)).collect();
        assert_eq!(read_vectored(&other, &mut slices[..5]).unwrap(), 5);
        drop(one);
        let rest =
            std::iter::from_fn(|| Some(read_vectored(&other, &mut slices).unwrap()).filter(|&n| n > 0));
        assert_eq!(rest.sum::<usize>(), libc::UIO_MAXIOV as usize - 5, "and the end");
        assert_eq!(ones.iter().filter(|one| **one == *b"a").count(), libc::UIO_MAXIOV as usize - 5);
    }

    #[test]
    fn errors_are_those_of_the_system() {
        let (one, other) = UnixStream::pair().unwrap();
        one.set_nonblocking(true).unwrap();
        let nothing = receive(&one, &mut [MaybeUninit::uninit()], 0).unwrap_err();
        assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
        assert_eq!(receive_message(&one, &mut []).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(other);
        // And the call sends no signal, which would end the process.
        assert_eq!(send(&one, b"?").unwrap_err().kind(), ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_read_from_a_unix_stream_says_if_it_has_ended_behind_a_descriptor() {
        let (one, other) = UnixStream::pair().unwrap();
        let other = mio::net::UnixStream::from_std(other);
        send(&one, b"plain, ").unwrap();
        send_with_descriptor(&one, b"with a descriptor");
        send(&one, b"behind it").unwrap();
        let mut bytes = [0; 64];
        let read = read_into(&other, &mut bytes).unwrap();
        assert_eq!(&bytes[..read.count], b"plain, with a descriptor");
        assert!(!read.short_empties);
        let read = read_into(&other, &mut bytes).unwrap();
        assert_eq!(&bytes[..read.count], b"behind it");
        assert!(read.short_empties);
    }

    fn send_with_descriptor(socket: &UnixStream, bytes: &[u8]) {
        // SAFETY: the call returns a new descriptor.
        let passed = unsafe { OwnedFd::from_raw_fd(libc::dup(socket.as_raw_fd())) };
        let mut slice = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let mut control = [0_u64; 3];
        // SAFETY: all zero is a valid value.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = (&raw mut slice, 1);
        (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), size_of_val(&control));
        // SAFETY: the buffer has room for one header and one number, and is aligned for the header.
        unsafe {
            let header = &mut *libc::CMSG_FIRSTHDR(&message);
            header.cmsg_level = libc::SOL_SOCKET;
            header.cmsg_type = libc::SCM_RIGHTS;
            header.cmsg_len = libc::CMSG_LEN(4) as usize;
            libc::CMSG_DATA(header).cast::<libc::c_int>().write_unaligned(passed.as_raw_fd());
            assert_eq!(libc::sendmsg(socket.as_raw_fd(), &message, 0), bytes.len() as isize);
        }
    }
}
