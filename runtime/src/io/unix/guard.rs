//! A promise of the system that its user keeps up or takes back.

use std::fmt;
use std::io;
use std::os::fd::AsRawFd;

use super::AsyncFd;
use crate::driver::io::{Ready, ReadyEvent};

/// That a descriptor is ready, as [`AsyncFd`] has found it.
///
/// Readiness stays until it is cleared; the next wait is then for the next event. Code that tries to read or
/// write and finds that the system would block clears it: [`try_io`](Self::try_io) does so by itself,
/// [`clear_ready`](Self::clear_ready) at the user's word. Code that finds the descriptor still ready does
/// nothing, or calls [`retain_ready`](Self::retain_ready) so that a reader of the code sees it.
#[must_use = "say whether the descriptor is still ready: use `try_io`, `clear_ready` or `retain_ready`"]
pub struct AsyncFdReadyGuard<'a, T: AsRawFd> {
    async_fd: &'a AsyncFd<T>,
    event: Option<ReadyEvent>,
}

/// The same as [`AsyncFdReadyGuard`], with an exclusive reference.
#[must_use = "say whether the descriptor is still ready: use `try_io`, `clear_ready` or `retain_ready`"]
pub struct AsyncFdReadyMutGuard<'a, T: AsRawFd> {
    async_fd: &'a mut AsyncFd<T>,
    event: Option<ReadyEvent>,
}

/// An operation that would have blocked: see [`AsyncFdReadyGuard::try_io`].
#[derive(Debug)]
pub struct TryIoError(());

/// What both guards have in common.
macro_rules! guard {
    ($guard:ident, $name:literal) => {
        impl<'a, T: AsRawFd> $guard<'a, T> {
            /// Says that the descriptor is no longer ready for anything this guard was made for.
            ///
            /// To be called when an operation was seen to block, and only then: not because it succeeded. An
            /// event that came since this guard was made is not taken back.
            pub fn clear_ready(&mut self) {
                if let Some(event) = self.event.take() {
                    self.async_fd.watch.clear(event);
                }
            }

            /// Says that the descriptor is no longer ready for `ready`, as [`clear_ready`](Self::clear_ready)
            /// does for all.
            ///
            /// For guards of a wait for several things, of which one operation has tried one.
            pub fn clear_ready_matching(&mut self, ready: Ready) {
                if let Some(mut event) = self.event {
                    let left = event.ready - ready;
                    event.ready = ready;
                    self.async_fd.watch.clear(event);
                    event.ready = left;
                    self.event = Some(event).filter(|event| !event.ready.is_empty());
                }
            }

            /// Does nothing; says to a reader that the descriptor is still ready.
            pub fn retain_ready(&mut self) {}

            /// The result of an operation; the readiness is cleared if it would have blocked.
            fn checked<R>(&mut self, result: io::Result<R>) -> Result<io::Result<R>, TryIoError> {
                match result {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        self.clear_ready();
                        Err(TryIoError(()))
                    }
                    result => Ok(result),
                }
            }

            /// Returns what the descriptor is ready for, of what was waited for and has not been cleared.
            pub fn ready(&self) -> Ready {
                self.event.map_or(Ready::EMPTY, |event| event.ready)
            }
        }

        impl<T: fmt::Debug + AsRawFd> fmt::Debug for $guard<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct($name).field("async_fd", &self.async_fd).field("ready", &self.ready()).finish()
            }
        }
    };
}

guard!(AsyncFdReadyGuard, "AsyncFdReadyGuard");
guard!(AsyncFdReadyMutGuard, "AsyncFdReadyMutGuard");

impl<'a, T: AsRawFd> AsyncFdReadyGuard<'a, T> {
    pub(super) fn new(async_fd: &'a AsyncFd<T>, event: ReadyEvent) -> Self {
        Self { async_fd, event: Some(event) }
    }

    /// Calls `f`, and [clears](Self::clear_ready) the readiness if it returns
    /// [`WouldBlock`](io::ErrorKind::WouldBlock).
    ///
    /// `f` must return `WouldBlock` only because the descriptor did, in what this guard was made for.
    ///
    /// # Errors
    /// [`TryIoError`] if `f` returned `WouldBlock`: then wait again. The result inside is that of `f`.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let (near, far) = std::os::unix::net::UnixStream::pair()?;
    /// # near.set_nonblocking(true)?;
    /// # let _ = std::io::Write::write(&mut &far, b"hello")?;
    /// use runtime::io::unix::AsyncFd;
    /// use std::io::Read;
    ///
    /// // SAFETY: the socket stays open, and has the same descriptor, as long as the `AsyncFd` lives.
    /// let near = unsafe { AsyncFd::register(near)? };
    /// let mut buf = [0; 64];
    /// let n = loop {
    ///     let mut guard = near.readable().await?;
    ///     match guard.try_io(|near| near.get_ref().read(&mut buf)) {
    ///         Ok(result) => break result?,
    ///         Err(_would_block) => continue,
    ///     }
    /// };
    /// assert_eq!(&buf[..n], b"hello");
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    pub fn try_io<R>(
        &mut self,
        f: impl FnOnce(&'a AsyncFd<T>) -> io::Result<R>,
    ) -> Result<io::Result<R>, TryIoError> {
        let result = f(self.async_fd);
        self.checked(result)
    }

    /// Returns the [`AsyncFd`] that this guard is of.
    pub fn get_ref(&self) -> &'a AsyncFd<T> {
        self.async_fd
    }

    /// Returns what is inside of the [`AsyncFd`].
    pub fn get_inner(&self) -> &'a T {
        self.async_fd.get_ref()
    }
}

impl<'a, T: AsRawFd> AsyncFdReadyMutGuard<'a, T> {
    pub(super) fn new(async_fd: &'a mut AsyncFd<T>, event: ReadyEvent) -> Self {
        Self { async_fd, event: Some(event) }
    }

    /// Calls `f`, and [clears](Self::clear_ready) the readiness if it returns
    /// [`WouldBlock`](io::ErrorKind::WouldBlock): as [`AsyncFdReadyGuard::try_io`].
    ///
    /// # Errors
    /// [`TryIoError`] if `f` returned `WouldBlock`: then wait again. The result inside is that of `f`.
    pub fn try_io<R>(
        &mut self,
        f: impl FnOnce(&mut AsyncFd<T>) -> io::Result<R>,
    ) -> Result<io::Result<R>, TryIoError> {
        let result = f(self.async_fd);
        self.checked(result)
    }

    /// Returns the [`AsyncFd`] that this guard is of.
    pub fn get_ref(&self) -> &AsyncFd<T> {
        self.async_fd
    }

    /// Returns the [`AsyncFd`] that this guard is of.
    pub fn get_mut(&mut self) -> &mut AsyncFd<T> {
        self.async_fd
    }

    /// Returns what is inside of the [`AsyncFd`].
    pub fn get_inner(&self) -> &T {
        self.async_fd.get_ref()
    }

    /// Returns what is inside of the [`AsyncFd`]; see [`AsyncFd::get_mut`] for what must not be done with it.
    pub fn get_inner_mut(&mut self) -> &mut T {
        self.async_fd.get_mut()
    }
}
