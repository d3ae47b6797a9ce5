//! The descriptor that the driver watches for an `AsyncFd`.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// A descriptor that stays open as long as this lives. So its number is not given to another open file, for
/// which the driver would end the watch instead.
#[derive(Debug)]
pub enum Watched {
    /// It belongs to another owner.
    Lent(RawFd),
    /// A duplicate of one that its owner may close at any time.
    Own(OwnedFd),
}

impl Watched {
    /// A descriptor that belongs to another owner.
    ///
    /// # Safety
    /// 1. If `number` is the number of an open file, it stays the number of that file until the result is
    ///    dropped. If it is not, [`as_fd`](AsFd::as_fd) of the result is not called.
    pub unsafe fn lent(number: RawFd) -> Self {
        Self::Lent(number)
    }

    /// A duplicate of descriptor `number`, which another program does not inherit.
    ///
    /// # Errors
    /// The system's error, for a number that is not open, at the limit of open descriptors, and for a file
    /// that it does not watch. Of such a file there is no duplicate, because its end would end this process's
    /// record locks on the file.
    pub fn duplicate(number: RawFd) -> io::Result<Self> {
        if is_file(number)? {
            try_to_watch(number)?;
        }
        // SAFETY: gives a new descriptor, or an error.
        let duplicate = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0) };
        if duplicate < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it is new, so it is ours.
        Ok(Self::Own(unsafe { OwnedFd::from_raw_fd(duplicate) }))
    }
}

/// Whether this is a regular file. The system watches some of these, for instance in `/proc`.
fn is_file(number: RawFd) -> io::Result<bool> {
    let mut about = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: writes one `stat`, or gives an error.
    if unsafe { libc::fstat(number, about.as_mut_ptr()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fstat` has succeeded, so it has written all of it.
    let about = unsafe { about.assume_init() };
    Ok(about.st_mode & libc::S_IFMT == libc::S_IFREG)
}

/// # Errors
/// The system's error if it does not watch this descriptor.
fn try_to_watch(number: RawFd) -> io::Result<()> {
    // SAFETY: gives a new descriptor, or an error.
    let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    if epoll < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is new, so it is ours.
    let epoll = unsafe { OwnedFd::from_raw_fd(epoll) };
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    // SAFETY: reads one `epoll_event`. `epoll` is closed here, and no events are taken from it.
    match unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, number, &mut event) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl AsRawFd for Watched {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Self::Lent(number) => *number,
            Self::Own(duplicate) => duplicate.as_raw_fd(),
        }
    }
}

impl AsFd for Watched {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: a duplicate is open until `self` is dropped. By (1) of `lent`, so is a lent descriptor.
        unsafe { BorrowedFd::borrow_raw(self.as_raw_fd()) }
    }
}
