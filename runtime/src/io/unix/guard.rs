//! Waiting for the readiness of a descriptor, and the readiness itself, which the program keeps or clears.

use std::fmt;
use std::io;
use std::os::fd::AsRawFd;
use std::task::{Context, Poll, ready};

use super::async_fd::AsyncFd;
use crate::driver::io::{Direction, Interest, Ready, ReadyEvent};

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

/// Waiting.
impl<T: AsRawFd> AsyncFd<T> {
    /// Polls until the descriptor is readable. If several tasks poll, only the last task that called this or
    /// [`poll_read_ready_mut`](Self::poll_read_ready_mut) is woken.
    ///
    /// # Errors
    /// If the runtime that watches the descriptor was shut down.
    pub fn poll_read_ready<'a>(&'a self, cx: &mut Context<'_>) -> Poll<io::Result<AsyncFdReadyGuard<'a, T>>> {
        let event = ready!(self.watch.poll_ready(cx, Direction::Read))?;
        Poll::Ready(Ok(AsyncFdReadyGuard::new(self, event)))
    }

    /// Polls as [`poll_read_ready`](Self::poll_read_ready) does, with an exclusive reference in the guard.
    ///
    /// # Errors
    /// As for [`poll_read_ready`](Self::poll_read_ready).
    pub fn poll_read_ready_mut<'a>(
        &'a mut self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyMutGuard<'a, T>>> {
        let event = ready!(self.watch.poll_ready(cx, Direction::Read))?;
        Poll::Ready(Ok(AsyncFdReadyMutGuard::new(self, event)))
    }

    /// Polls until the descriptor is writable. If several tasks poll, only the last task that called this or
    /// [`poll_write_ready_mut`](Self::poll_write_ready_mut) is woken.
    ///
    /// # Errors
    /// If the runtime that watches the descriptor was shut down.
    pub fn poll_write_ready<'a>(
        &'a self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyGuard<'a, T>>> {
        let event = ready!(self.watch.poll_ready(cx, Direction::Write))?;
        Poll::Ready(Ok(AsyncFdReadyGuard::new(self, event)))
    }

    /// Polls as [`poll_write_ready`](Self::poll_write_ready) does, with an exclusive reference in the guard.
    ///
    /// # Errors
    /// As for [`poll_write_ready`](Self::poll_write_ready).
    pub fn poll_write_ready_mut<'a>(
        &'a mut self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyMutGuard<'a, T>>> {
        let event = ready!(self.watch.poll_ready(cx, Direction::Write))?;
        Poll::Ready(Ok(AsyncFdReadyMutGuard::new(self, event)))
    }

    /// Waits until the descriptor is ready for any of `interest`.
    ///
    /// # Errors
    /// If the runtime that watches the descriptor was shut down.
    ///
    /// # Cancel safety
    /// Safe.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let (near, _far) = std::os::unix::net::UnixStream::pair()?;
    /// # near.set_nonblocking(true)?;
    /// use runtime::io::{Interest, Ready, unix::AsyncFd};
    ///
    /// # // SAFETY: the socket stays open, and has the same descriptor, as long as the `AsyncFd` lives.
    /// # let near = unsafe { AsyncFd::register(near)? };
    /// let mut guard = near.ready(Interest::READABLE | Interest::WRITABLE).await?;
    /// assert!(guard.ready().is_writable());
    /// // After a write that would have blocked:
    /// guard.clear_ready_matching(Ready::WRITABLE);
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    pub async fn ready(&self, interest: Interest) -> io::Result<AsyncFdReadyGuard<'_, T>> {
        let event = self.watch.ready(interest).await?;
        Ok(AsyncFdReadyGuard::new(self, event))
    }

    /// Waits as [`ready`](Self::ready) does, with an exclusive reference in the guard.
    ///
    /// # Errors
    /// As for [`ready`](Self::ready).
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn ready_mut(&mut self, interest: Interest) -> io::Result<AsyncFdReadyMutGuard<'_, T>> {
        let event = self.watch.ready(interest).await?;
        Ok(AsyncFdReadyMutGuard::new(self, event))
    }

    /// Waits until the descriptor is readable, as `ready(Interest::READABLE)` does.
    ///
    /// # Errors
    /// As for [`ready`](Self::ready).
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn readable<'a>(&'a self) -> io::Result<AsyncFdReadyGuard<'a, T>> {
        self.ready(Interest::READABLE).await
    }

    /// Waits as [`readable`](Self::readable) does, with an exclusive reference in the guard.
    ///
    /// # Errors
    /// As for [`ready`](Self::ready).
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn readable_mut<'a>(&'a mut self) -> io::Result<AsyncFdReadyMutGuard<'a, T>> {
        self.ready_mut(Interest::READABLE).await
    }

    /// Waits until the descriptor is writable, as `ready(Interest::WRITABLE)` does.
    ///
    /// # Errors
    /// As for [`ready`](Self::ready).
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn writable<'a>(&'a self) -> io::Result<AsyncFdReadyGuard<'a, T>> {
        self.ready(Interest::WRITABLE).await
    }

    /// Waits as [`writable`](Self::writable) does, with an exclusive reference in the guard.
    ///
    /// # Errors
    /// As for [`ready`](Self::ready).
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn writable_mut<'a>(&'a mut self) -> io::Result<AsyncFdReadyMutGuard<'a, T>> {
        self.ready_mut(Interest::WRITABLE).await
    }
}

impl<'a, T: AsRawFd> AsyncFdReadyGuard<'a, T> {
    fn new(async_fd: &'a AsyncFd<T>, event: ReadyEvent) -> Self {
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
    fn new(async_fd: &'a mut AsyncFd<T>, event: ReadyEvent) -> Self {
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
