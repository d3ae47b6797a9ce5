//! `recv`, `send` and `writev` on a stream socket, as plain system calls. On a descriptor that is none, the system says so.
//!
//! The C library's functions are points at which a thread may be cancelled (`pthread_cancel`), and say so before the call and after
//! it: 60 instructions, two of them read-modify-writes, for each. No thread may be cancelled that runs Rust, whose frames do not
//! expect it.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::ptr;

/// Receives into `bytes`, and says how many it has written, from the first on.
#[inline]
pub(crate) fn receive(socket: &impl AsRawFd, bytes: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
    let nowhere = ptr::null_mut::<libc::c_void>();
    let (start, len) = (bytes.as_mut_ptr(), bytes.len());
    // SAFETY: the arguments are those of `recvfrom`. It writes to `bytes`, which are borrowed exclusively, and to nothing else, as
    // nobody wants to know who sent.
    let count =
        unsafe { libc::syscall(libc::SYS_recvfrom, socket.as_raw_fd(), start, len, 0, nowhere, nowhere) };
    result(count)
}

/// Sends the beginning of `bytes`, and says how many of them.
#[inline]
pub(crate) fn send(socket: &impl AsRawFd, bytes: &[u8]) -> io::Result<usize> {
    let nowhere = ptr::null_mut::<libc::c_void>();
    let (fd, start, len) = (socket.as_raw_fd(), bytes.as_ptr(), bytes.len());
    // SAFETY: the arguments are those of `sendto`. It reads `bytes`, which are borrowed, and no address, as the length of that is zero.
    let count =
        unsafe { libc::syscall(libc::SYS_sendto, fd, start, len, libc::MSG_NOSIGNAL, nowhere, 0_usize) };
    result(count)
}

/// Sends the beginning of `slices`, one after the other, and says how many bytes: of the first [`libc::UIO_MAXIOV`] at most.
#[inline]
pub(crate) fn send_vectored(socket: &impl AsRawFd, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    let count = slices.len().min(libc::UIO_MAXIOV as usize);
    // SAFETY: the arguments are those of `writev`, since an `IoSlice` is laid out as an `iovec`. It reads what the first `count` of them
    // borrow.
    let count = unsafe { libc::syscall(libc::SYS_writev, socket.as_raw_fd(), slices.as_ptr(), count) };
    result(count)
}

/// What a system call returned: how many bytes, or -1.
#[inline]
fn result(count: libc::c_long) -> io::Result<usize> {
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::io::ErrorKind;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn what_is_sent_is_received_and_nothing_else_is_written() {
        let (one, other) = UnixStream::pair().unwrap();
        assert_eq!(send(&one, b"hello").unwrap(), 5);
        let mut bytes = [MaybeUninit::new(b'.'); 8];
        assert_eq!(receive(&other, &mut bytes).unwrap(), 5);
        // SAFETY: all were initialized.
        assert_eq!(&bytes.map(|byte| unsafe { byte.assume_init() }), b"hello...");
        let slices = vec![IoSlice::new(b"a"); 2 * libc::UIO_MAXIOV as usize];
        assert_eq!(send_vectored(&one, &slices).unwrap(), libc::UIO_MAXIOV as usize);
        assert_eq!(send_vectored(&one, &[]).unwrap(), 0);
        assert_eq!(receive(&other, &mut bytes).unwrap(), 8);
        drop(one);
        let rest = std::iter::from_fn(|| Some(receive(&other, &mut bytes).unwrap()).filter(|&n| n > 0));
        assert_eq!(rest.sum::<usize>(), libc::UIO_MAXIOV as usize - 8, "and the end");
    }

    #[test]
    fn errors_are_those_of_the_system() {
        let (one, other) = UnixStream::pair().unwrap();
        one.set_nonblocking(true).unwrap();
        let nothing = receive(&one, &mut [MaybeUninit::uninit()]).unwrap_err();
        assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
        drop(other);
        // And no signal, which would end the process.
        assert_eq!(send(&one, b"?").unwrap_err().kind(), ErrorKind::BrokenPipe);
    }
}
