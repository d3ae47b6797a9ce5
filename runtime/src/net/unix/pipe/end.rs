//! The common part of both ends of a pipe.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::io::registered::Fd;
use crate::io::transfer::{self, ByteStream, Read};

/// One end of a pipe, registered.
pub(crate) type End = Fd<OwnedFd>;

impl ByteStream for End {
    const SHORT_WRITE_FILLS: bool = false;

    #[inline]
    fn read(&self, bytes: &mut [MaybeUninit<u8>]) -> io::Result<Read> {
        Ok(Read { count: transfer::read(self, bytes)?, short_empties: false })
    }

    #[inline]
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        transfer::write(self, bytes)
    }

    fn write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        transfer::write_vectored(self, slices)
    }

    /// Does nothing, because only closing ends a pipe.
    fn shutdown_write(&self) -> io::Result<()> {
        Ok(())
    }
}

/// The access that a sender or a receiver needs of a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// Makes sure that `fd` is a pipe with this access.
pub(super) fn check(fd: BorrowedFd<'_>, access: Access) -> io::Result<()> {
    check_is_pipe(fd)?;
    let (wanted, names) = match access {
        Access::Read => (libc::O_RDONLY, "O_RDONLY or O_RDWR"),
        Access::Write => (libc::O_WRONLY, "O_WRONLY or O_RDWR"),
    };
    let mode = flags(fd)? & libc::O_ACCMODE;
    if mode != wanted && mode != libc::O_RDWR {
        return Err(invalid(fd, &format!("not in {names} access mode")));
    }
    Ok(())
}

pub(super) fn check_is_pipe(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: all zero is a valid value.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the call writes to `stat`.
    if unsafe { libc::fstat(fd.as_raw_fd(), &mut stat) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if stat.st_mode & libc::S_IFMT != libc::S_IFIFO {
        return Err(invalid(fd, "not a pipe"));
    }
    Ok(())
}

fn invalid(fd: BorrowedFd<'_>, what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("descriptor {}: {what}", fd.as_raw_fd()))
}

/// Sets or clears `O_NONBLOCK`, for all descriptors of the same open file.
pub(crate) fn set_nonblocking(fd: &OwnedFd, nonblocking: bool) -> io::Result<()> {
    let before = flags(fd.as_fd())?;
    let after = if nonblocking { before | libc::O_NONBLOCK } else { before & !libc::O_NONBLOCK };
    // SAFETY: the call sets flags of an open descriptor.
    if after != before && unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, after) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn flags(fd: BorrowedFd<'_>) -> io::Result<libc::c_int> {
    // SAFETY: the call reads flags of an open descriptor.
    match unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) } {
        flags if flags < 0 => Err(io::Error::last_os_error()),
        flags => Ok(flags),
    }
}

/// The conversions into an end and out of it, for a type that has the registration in its field `io`.
macro_rules! end {
    ($type:ident, $access:ident, $noun:literal, $example:literal) => {
        /// Conversions from and to files and descriptors.
        impl $type {
            #[doc = concat!("Takes over a file as the ", $noun, " of a pipe: see")]
            /// [`from_owned_fd`](Self::from_owned_fd).
            ///
            /// # Errors
            /// As for [`from_owned_fd`](Self::from_owned_fd). The file is closed then.
            ///
            /// # Panics
            /// As for [`from_owned_fd`](Self::from_owned_fd).
            #[track_caller]
            pub fn from_file(file: std::fs::File) -> std::io::Result<$type> {
                Self::from_owned_fd(file.into())
            }

            #[doc = concat!("Takes over a descriptor as the ", $noun, " of a pipe.")]
            ///
            /// This sets the descriptor to non-blocking mode, and with it every other descriptor of the same
            /// open file, even in other processes.
            ///
            /// # Errors
            /// [`InvalidInput`](std::io::ErrorKind::InvalidInput) if the descriptor is not a pipe or was
            /// opened for the other direction (the text has its number); or the system's errors. The
            /// descriptor is closed then.
            ///
            /// # Panics
            /// Outside of a runtime, or if its I/O is not enabled: call it inside `block_on`, a task, or the
            /// scope of `Handle::enter`, and build the runtime with `enable_io` or `enable_all`.
            ///
            /// # Examples
            /// ```no_run
            /// # async fn f() -> std::io::Result<()> {
            #[doc = $example]
            /// # Ok(())
            /// # }
            /// ```
            #[track_caller]
            pub fn from_owned_fd(owned_fd: std::os::fd::OwnedFd) -> std::io::Result<$type> {
                end::check(std::os::fd::AsFd::as_fd(&owned_fd), end::Access::$access)?;
                Self::from_owned_fd_unchecked(owned_fd)
            }

            /// Takes over a file, whether it is a pipe or not.
            ///
            /// # Errors
            /// As for [`from_owned_fd_unchecked`](Self::from_owned_fd_unchecked).
            ///
            /// # Panics
            /// As for [`from_owned_fd`](Self::from_owned_fd).
            #[track_caller]
            pub fn from_file_unchecked(file: std::fs::File) -> std::io::Result<$type> {
                Self::from_owned_fd_unchecked(file.into())
            }

            /// Takes over a descriptor, whether it is a pipe or not (a terminal, for instance, or a device).
            /// This sets it to non-blocking mode. (Tokio leaves that to the caller.)
            ///
            /// # Errors
            /// The system's errors, for instance for a file, which the system does not watch. The descriptor
            /// is closed then.
            ///
            /// # Panics
            /// As for [`from_owned_fd`](Self::from_owned_fd).
            #[track_caller]
            pub fn from_owned_fd_unchecked(owned_fd: std::os::fd::OwnedFd) -> std::io::Result<$type> {
                end::set_nonblocking(&owned_fd, true)?;
                Self::register(owned_fd)
            }

            /// Returns the descriptor in blocking mode.
            ///
            /// # Errors
            /// The system's errors. The descriptor is closed then.
            pub fn into_blocking_fd(self) -> std::io::Result<std::os::fd::OwnedFd> {
                let fd = self.into_nonblocking_fd()?;
                end::set_nonblocking(&fd, false)?;
                Ok(fd)
            }

            /// Returns the descriptor, still in non-blocking mode.
            ///
            /// # Errors
            /// The system's errors. The descriptor is closed then.
            pub fn into_nonblocking_fd(self) -> std::io::Result<std::os::fd::OwnedFd> {
                self.io.into_inner().map(|end| end.0)
            }
        }

        impl $crate::net::face::Face for $type {
            type Io = end::End;

            fn registered(&self) -> &$crate::io::registered::Registered<end::End> {
                &self.io
            }
        }

        $crate::net::face::descriptor::descriptor!($type, io);
    };
}

/// `try_io` of an end, which has only one direction.
macro_rules! try_io {
    ($noun:literal, $interest:ident) => {
        #[doc = concat!("Calls `f`, an operation on this ", $noun, ", if it is ready.")]
        ///
        /// If `f` returns [`WouldBlock`](std::io::ErrorKind::WouldBlock), the readiness is cleared. So `f`
        /// must return `WouldBlock` only if the system did.
        ///
        /// # Errors
        /// `WouldBlock` if it is not ready, or if the driver has not noticed that it is. The errors of `f`,
        /// or an error if the runtime that watches the descriptor was shut down.
        pub fn try_io<R>(&self, f: impl FnOnce() -> std::io::Result<R>) -> std::io::Result<R> {
            self.io.try_io($crate::io::Interest::$interest, f)
        }
    };
}

pub(super) use {end, try_io};
