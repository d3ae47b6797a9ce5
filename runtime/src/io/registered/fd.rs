//! A descriptor of any kind, for mio.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};

/// A value with a descriptor. The value may be just the number of a descriptor that belongs to another owner.
#[derive(Debug)]
pub(crate) struct Fd<T>(pub(crate) T);

impl<T: AsRawFd> mio::event::Source for Fd<T> {
    fn register(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        SourceFd(&self.0.as_raw_fd()).register(registry, token, interests)
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        SourceFd(&self.0.as_raw_fd()).reregister(registry, token, interests)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        SourceFd(&self.0.as_raw_fd()).deregister(registry)
    }
}

impl<T: AsRawFd> AsRawFd for Fd<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl<T: AsFd> AsFd for Fd<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
