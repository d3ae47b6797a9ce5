//! The readiness of a descriptor, which the program keeps or clears.

use std::fmt;
use std::io;
use std::os::fd::AsRawFd;

use super::AsyncFd;
use crate::driver::io::{Ready, ReadyEvent};

/// The readiness of a descriptor, as [`AsyncFd`] has found it.
///
/// Readiness stays until it is cleared. The next wait is then for the next event. Code that tries to read or
/// write and finds that the system would block clears the readiness: [`try_io`](Self::try_io) does so by
/// itself, [`clear_ready`](Self::clear_ready) explicitly. Code that finds the descriptor still ready does
/// nothing, or calls [`retain_ready`](Self::retain_ready) so that a reader of the code sees it.
#[must_use = "say whether the descriptor is still ready: use `try_io`, `clear_ready` or `retain_ready`"]
pub struct AsyncFdReadyGuard<'a, T: AsRawFd> {
    async_fd: &'a AsyncFd<T>,
    event: Option<ReadyEvent>,
}

/// The readiness of a descriptor, as [`AsyncFdReadyGuard`], with an exclusive reference.
#[must_use = "say whether the descriptor is still ready: use `try_io`, `clear_ready` or `retain_ready`"]
pub struct AsyncFdReadyMutGuard<'a, T: AsRawFd> {
    async_fd: &'a mut AsyncFd<T>,
    event: Option<ReadyEvent>,
}

/// The error of an operation that would have blocked: see [`AsyncFdReadyGuard::try_io`].
#[derive(Debug)]
pub struct TryIoError(());

/// The common part of both guards.
macro_rules! guard {
    ($guard:ident, $name:literal) => {
        impl<'a, T: AsRawFd> $guard<'a, T> {
            /// Clears the readiness for which this guard was made.
            ///
            /// Call it when an operation would have blocked, and only then, not because it succeeded. An
            /// event that came since this guard was made is not cleared.
            pub fn clear_ready(&mut self) {
                if let Some(event) = self.event.take() {
                    self.async_fd.watch.clear(event);
                }
            }

            /// Clears the readiness for `ready`, as [`clear_ready`](Self::clear_ready) does for all.
            ///
            /// It is for the guard of a wait for several things, when one operation has tried one of them.
            pub fn clear_ready_matching(&mut self, ready: Ready) {
                if let Some(mut event) = self.event {
                    let left = event.ready - ready;
                    event.ready = ready;
                    self.async_fd.watch.clear(event);
                    event.ready = left;
                    self.event = Some(event).filter(|event| !event.ready.is_empty());
                }
            }

            /// Does nothing. It tells a reader of the code that the descriptor is still ready.
            pub fn retain_ready(&mut self) {}

            /// Returns the result of an operation. If the operation would have blocked, clears the readiness.
            fn checked<R>(&mut self, result: io::Result<R>) -> Result<io::Result<R>, TryIoError> {
                match result {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        self.clear_ready();
                        Err(TryIoError(()))
                    }
                    result => Ok(result),
                }
            }

            /// Returns the readiness for which this guard was made and that was not cleared.
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
    /// `f` must return `WouldBlock` only if the descriptor would block, in the direction for which this guard
    /// was made.
    ///
    /// # Errors
    /// [`TryIoError`] if `f` returned `WouldBlock`. Wait again then. The result inside is that of `f`.
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

    /// Returns the [`AsyncFd`] of this guard.
    pub fn get_ref(&self) -> &'a AsyncFd<T> {
        self.async_fd
    }

    /// Returns the wrapped value of the [`AsyncFd`].
    pub fn get_inner(&self) -> &'a T {
        self.async_fd.get_ref()
    }
}

impl<'a, T: AsRawFd> AsyncFdReadyMutGuard<'a, T> {
    pub(super) fn new(async_fd: &'a mut AsyncFd<T>, event: ReadyEvent) -> Self {
        Self { async_fd, event: Some(event) }
    }

    /// Calls `f`, and [clears](Self::clear_ready) the readiness if it returns
    /// [`WouldBlock`](io::ErrorKind::WouldBlock), as [`AsyncFdReadyGuard::try_io`] does.
    ///
    /// # Errors
    /// [`TryIoError`] if `f` returned `WouldBlock`. Wait again then. The result inside is that of `f`.
    pub fn try_io<R>(
        &mut self,
        f: impl FnOnce(&mut AsyncFd<T>) -> io::Result<R>,
    ) -> Result<io::Result<R>, TryIoError> {
        let result = f(self.async_fd);
        self.checked(result)
    }

    /// Returns the [`AsyncFd`] of this guard.
    pub fn get_ref(&self) -> &AsyncFd<T> {
        self.async_fd
    }

    /// Returns the [`AsyncFd`] of this guard.
    pub fn get_mut(&mut self) -> &mut AsyncFd<T> {
        self.async_fd
    }

    /// Returns the wrapped value of the [`AsyncFd`].
    pub fn get_inner(&self) -> &T {
        self.async_fd.get_ref()
    }

    /// Returns the wrapped value of the [`AsyncFd`]. [`AsyncFd::get_mut`] says what the caller must not do
    /// with it.
    pub fn get_inner_mut(&mut self) -> &mut T {
        self.async_fd.get_mut()
    }
}
