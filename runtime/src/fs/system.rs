//! System calls on files that std lacks, or whose std functions do more than is needed.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

/// The offset of `preadv2` that stands for the file's position.
const AT_POSITION: i64 = -1;

/// Reads what is in memory into `bytes`, from the first on, at the file's position or at `offset`. Returns
/// the number of bytes. `WouldBlock` says that nothing is in memory.
#[inline]
pub fn read_cached(file: &File, bytes: &mut [MaybeUninit<u8>], offset: Option<u64>) -> io::Result<usize> {
    let offset = offset.map_or(Ok(AT_POSITION), signed)?;
    let slice = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: (1) the slice is `bytes`, which is borrowed exclusively.
    unsafe { preadv2(file, &slice, 1, offset, libc::RWF_NOWAIT) }
}

/// Reads into `bytes`, from the first on, at `offset`. Returns the number of bytes.
#[inline]
pub fn read_at(file: &File, bytes: &mut [MaybeUninit<u8>], offset: u64) -> io::Result<usize> {
    let offset = signed(offset)?;
    let (fd, start, len) = (file.as_raw_fd(), bytes.as_mut_ptr(), bytes.len());
    // SAFETY: the arguments are those of `pread64`. The call writes to `bytes`, which are borrowed
    // exclusively.
    result(unsafe { libc::syscall(libc::SYS_pread64, fd, start, len, offset) })
}

/// Reads into `slices`, at `offset`. Returns the number of bytes. Uses at most [`libc::UIO_MAXIOV`] slices,
/// from the first on that is not empty. `flags` are those of `preadv2`.
pub fn read_vectored_at(
    file: &File,
    slices: &mut [IoSliceMut<'_>],
    offset: u64,
    flags: libc::c_int,
) -> io::Result<usize> {
    // If the call got empty slices alone, it would return 0, which means the end of the file.
    let empty = slices.iter().take_while(|slice| slice.is_empty()).count();
    let slices = &mut slices[empty..];
    let count = slices.len().min(libc::UIO_MAXIOV as usize);
    let slices = slices.as_mut_ptr().cast::<libc::iovec>();
    // SAFETY: (1) an `IoSliceMut` is laid out as an `iovec`, and borrows its bytes exclusively.
    unsafe { preadv2(file, slices, count, signed(offset)?, flags) }
}

/// Writes the beginning of `slices`, at `offset`. Returns the number of bytes. Uses at most
/// [`libc::UIO_MAXIOV`] slices, from the first on that is not empty.
pub fn write_vectored_at(file: &File, slices: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
    // If the call got empty slices alone, it would return 0, which means that the file takes no more.
    let slices = &slices[slices.iter().take_while(|slice| slice.is_empty()).count()..];
    let count = slices.len().min(libc::UIO_MAXIOV as usize);
    let offset = signed(offset)?;
    let (fd, slices) = (file.as_raw_fd(), slices.as_ptr());
    // SAFETY: the arguments are those of `pwritev`, on 64 bits: one word has the offset, and the next word
    // does not count. The call reads the memory that the first `count` slices borrow. An `IoSlice` is laid
    // out as an `iovec`.
    result(unsafe { libc::syscall(libc::SYS_pwritev, fd, slices, count, offset, 0) })
}

/// Calls `preadv2`, or `preadv` if there are no flags.
///
/// # Safety
/// 1. The first `count` slices are `iovec`s whose memory may be written to.
unsafe fn preadv2(
    file: &File,
    slices: *const libc::iovec,
    count: usize,
    offset: i64,
    flags: libc::c_int,
) -> io::Result<usize> {
    let fd = file.as_raw_fd();
    if flags == 0 {
        // A system that lacks `preadv2` has this call.
        // SAFETY: the arguments are those of `preadv`, on 64 bits: one word has the offset, and the next word
        // does not count. The call writes to the memory of (1).
        return result(unsafe { libc::syscall(libc::SYS_preadv, fd, slices, count, offset, 0) });
    }
    // SAFETY: the arguments are those of `preadv2`, with the offset as above. The call writes to the memory
    // of (1).
    result(unsafe { libc::syscall(libc::SYS_preadv2, fd, slices, count, offset, 0, flags) })
}

/// Whether an error of a call with a flag may say that the system does not know the flag, or the call.
///
/// A filter of system calls (seccomp) mostly refuses a call with `EPERM` or `EACCES`. If the file itself is
/// the reason, the call without the flag fails with the same error.
pub fn is_unknown_flag(error: &io::Error) -> bool {
    let unknown = [libc::EOPNOTSUPP, libc::EINVAL, libc::ENOSYS, libc::EPERM, libc::EACCES];
    error.raw_os_error().is_some_and(|number| unknown.contains(&number))
}

/// Whether the running kernel's `RWF_NOWAIT` tells the end of a file from bytes that are not in memory.
pub fn nowait_is_right() -> bool {
    // SAFETY: all zero is a valid value, and the call writes to it.
    let release = unsafe {
        let mut name: libc::utsname = std::mem::zeroed();
        if libc::uname(&mut name) != 0 {
            return false;
        }
        name.release
    };
    // SAFETY: the system ends the name with a zero.
    let release = unsafe { CStr::from_ptr(release.as_ptr()) };
    !is_affected(&release.to_string_lossy())
}

/// Whether a kernel of this release takes bytes that are not in memory for the end of a file.
fn is_affected(release: &str) -> bool {
    ["5.9", "5.10"].iter().any(|affected| {
        release.strip_prefix(affected).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
    })
}

/// `offset` as the system takes it.
fn signed(offset: u64) -> io::Result<i64> {
    i64::try_from(offset).map_err(|_| {
        let text = format!("an offset is below 2^63, got {offset}");
        io::Error::new(io::ErrorKind::InvalidInput, text)
    })
}

/// Turns the result of a system call, a number of bytes or -1, into a `Result`.
fn result(count: libc::c_long) -> io::Result<usize> {
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_kernels_and_no_others_are_affected() {
        for release in ["5.9.0", "5.9", "5.10.0-28-amd64", "5.10", "5.9-rc1"] {
            assert!(is_affected(release), "{release}");
        }
        for release in ["5.1.0", "5.8.18", "5.11.0", "5.100.1", "5.90", "6.1.0", "4.19.0", "6.5.9", "", "x"] {
            assert!(!is_affected(release), "{release}");
        }
    }

    #[test]
    fn an_offset_beyond_what_the_system_takes_is_an_error_and_not_the_position() {
        let error = signed(u64::MAX).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains("18446744073709551615"), "{error}");
        assert_eq!(signed(i64::MAX as u64).unwrap(), i64::MAX);
    }
}
