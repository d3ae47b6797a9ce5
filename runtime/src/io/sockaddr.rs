//! Addresses of sockets as the system reads and writes them.

use std::mem;

/// An address in memory: a `sockaddr` of the family of `T`, and the number of its bytes that are used.
#[derive(Clone, Copy)]
pub(crate) struct Sockaddr<T> {
    storage: T,
    len: libc::socklen_t,
}

/// A `sockaddr` of some family.
///
/// # Safety
/// 1. It is made of numbers: any bytes are a value, and zeros are one. 2. It is aligned for a `sockaddr`, and
///    begins with the family.
pub(crate) unsafe trait Family: Copy {}

impl<T: Family> Sockaddr<T> {
    /// An address that is all zero, for the system to write.
    pub(crate) fn empty() -> Self {
        // SAFETY: (1) of `Family`.
        Self { storage: unsafe { mem::zeroed() }, len: size_of::<T>() as libc::socklen_t }
    }

    /// The first `len` bytes of `storage`, for the system to read.
    pub(crate) fn new(storage: T, len: usize) -> Self {
        assert!(len <= size_of::<T>(), "an address lies within its storage");
        Self { storage, len: len as libc::socklen_t }
    }

    pub(crate) fn storage(&self) -> &T {
        &self.storage
    }

    /// The number of bytes of the address. The system returns it even if it had no room for all of them.
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// Pointer and length for a system call that reads the address.
    pub(crate) fn as_ptr(&self) -> (*const libc::sockaddr, libc::socklen_t) {
        ((&raw const self.storage).cast(), self.len)
    }

    /// Pointers for a system call that writes the address. The second points to the number of bytes that the
    /// call may write, and the call writes the length of the address there.
    pub(crate) fn as_mut_ptr(&mut self) -> (*mut libc::sockaddr, *mut libc::socklen_t) {
        self.len = size_of::<T>() as libc::socklen_t;
        ((&raw mut self.storage).cast(), &raw mut self.len)
    }
}
