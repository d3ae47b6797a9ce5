//! A descriptor of any kind that the driver watches.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

#[cfg(doc)]
use super::AsyncFdReadyGuard;
use super::register_error::AsyncFdRegisterError;
use super::watched::Watched;
use crate::Handle;
use crate::driver::io::Interest;
use crate::io::registered::{Fd, Registered, WatchMode};
use crate::util::named_error::named;

/// A descriptor of any kind that the driver watches: it tells when the descriptor can be read or written.
///
/// It is for everything that is not a socket or pipe of this crate: devices, `inotify`, `timerfd`, sockets of
/// other families, descriptors of a library in another language. It takes any [`AsRawFd`].
/// [`OwnedFd`](std::os::fd::OwnedFd) is the plainest, and closes the descriptor in the end. `AsyncFd` only
/// waits. Its user reads and writes by the system's calls, in non-blocking mode, which must be set before.
///
/// The kernel tells only of changes. So readiness stays until an operation has found that it is over: see
/// [`AsyncFdReadyGuard`]. [`async_io`](Self::async_io) and [`try_io`](Self::try_io) do this by themselves.
///
/// If several tasks wait through `poll_*` functions, only the last task that polled is woken, in each
/// direction. Any number of tasks may await the async functions.
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use runtime::io::{Interest, unix::AsyncFd};
/// use std::io::{Read, Write};
/// use std::os::unix::net::UnixStream;
///
/// let (near, far) = UnixStream::pair()?;
/// near.set_nonblocking(true)?;
/// // SAFETY: the socket stays open, and has the same descriptor, as long as the `AsyncFd` lives.
/// let near = unsafe { AsyncFd::register(near)? };
///
/// (&far).write_all(b"hello")?;
/// let mut buf = [0; 64];
/// let n = near.async_io(Interest::READABLE, |mut near| near.read(&mut buf)).await?;
/// assert_eq!(&buf[..n], b"hello");
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
pub struct AsyncFd<T: AsRawFd> {
    /// Declared before `inner`, so that the watch ends before the descriptor is closed. It has the
    /// descriptor's number, or a duplicate, so that the watch ends for the descriptor for which it began,
    /// whatever `inner` says then.
    pub(super) watch: Registered<Fd<Watched>>,
    inner: T,
}

/// Beginning and ending a watch.
impl<T: AsRawFd> AsyncFd<T> {
    /// Starts to watch the descriptor of `inner` for reading and writing.
    ///
    /// # Errors
    /// [`AsyncFdRegisterError`], which contains `inner`: for a descriptor that is not open, for most files
    /// and folders, which the system does not watch, for a descriptor that is watched already, and after the
    /// shutdown of the runtime.
    ///
    /// # Panics
    /// Outside of a runtime, or if its I/O is not enabled: call it inside `block_on`, a task, or the scope of
    /// `Handle::enter`, and build the runtime with `enable_io` or `enable_all`.
    ///
    /// # Safety
    /// As long as the `AsyncFd` lives (until it is dropped, or taken apart by
    /// [`into_inner`](Self::into_inner)):
    ///
    /// 1. The descriptor that `inner.as_raw_fd()` returns is open, and refers to the same open file.
    /// 2. `inner.as_raw_fd()` returns the same number each time.
    #[inline]
    #[track_caller]
    pub unsafe fn register(inner: T) -> Result<Self, AsyncFdRegisterError<T>> {
        // SAFETY: (1), (2) are literally the duties of our caller.
        unsafe { Self::register_with_interest(inner, Interest::READABLE | Interest::WRITABLE) }
    }

    /// Starts to watch the descriptor of `inner` for `interest`, and nothing else. A wait for another
    /// interest does not end.
    ///
    /// # Errors
    /// As for [`register`](Self::register).
    ///
    /// # Panics
    /// As for [`register`](Self::register).
    ///
    /// # Safety
    /// As for [`register`](Self::register).
    #[track_caller]
    pub unsafe fn register_with_interest(
        inner: T,
        interest: Interest,
    ) -> Result<Self, AsyncFdRegisterError<T>> {
        // SAFETY: (1) by (1) and (2) of our caller, because `inner` lives as long as the watch, and after it.
        // A number that is not open is refused, so there is no `AsyncFd` that could be borrowed.
        let watched = unsafe { Watched::lent(inner.as_raw_fd()) };
        Self::with_watched(inner, Ok(watched), interest)
    }

    #[track_caller]
    fn with_watched(
        inner: T,
        watched: io::Result<Watched>,
        interest: Interest,
    ) -> Result<Self, AsyncFdRegisterError<T>> {
        let handle = Handle::current_for("AsyncFd");
        // No closure: a panic names the caller's place.
        let watch = match watched {
            Ok(watched) => Registered::with_handle(Fd(watched), WatchMode::new("AsyncFd", interest), handle),
            Err(error) => Err(error),
        };
        match watch {
            Ok(watch) => Ok(Self { watch, inner }),
            Err(error) => {
                let cause = named("watch", format_args!("descriptor {}", inner.as_raw_fd()), error);
                Err(AsyncFdRegisterError::new(inner, cause))
            }
        }
    }

    /// Works as [`register`](Self::register), but its caller promises nothing. So it watches a duplicate of
    /// its own, which is also what [`AsFd`] returns. A pipe or socket whose descriptor is closed early stays
    /// open until the `AsyncFd` is dropped. A descriptor may be watched twice.
    ///
    /// # Errors
    /// As for [`register`](Self::register), without `inner`; and if the system gives no duplicate.
    #[doc(hidden)]
    #[deprecated = "it needs a second descriptor; use `AsyncFd::register`"]
    #[track_caller]
    pub fn new(inner: T) -> io::Result<Self> {
        #[allow(deprecated, reason = "they share the watch of a duplicate")]
        Ok(Self::try_new(inner)?)
    }

    /// Works as [`new`](Self::new), and watches for `interest` only.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    #[doc(hidden)]
    #[deprecated = "it needs a second descriptor; use `AsyncFd::register_with_interest`"]
    #[track_caller]
    pub fn with_interest(inner: T, interest: Interest) -> io::Result<Self> {
        #[allow(deprecated, reason = "they share the watch of a duplicate")]
        Ok(Self::try_with_interest(inner, interest)?)
    }

    /// Works as [`new`](Self::new).
    ///
    /// # Errors
    /// As for [`new`](Self::new), with `inner`.
    #[doc(hidden)]
    #[deprecated = "it needs a second descriptor; use `AsyncFd::register`"]
    #[track_caller]
    pub fn try_new(inner: T) -> Result<Self, AsyncFdRegisterError<T>> {
        #[allow(deprecated, reason = "they share the watch of a duplicate")]
        Self::try_with_interest(inner, Interest::READABLE | Interest::WRITABLE)
    }

    /// Works as [`with_interest`](Self::with_interest).
    ///
    /// # Errors
    /// As for [`new`](Self::new), with `inner`.
    #[doc(hidden)]
    #[deprecated = "it needs a second descriptor; use `AsyncFd::register_with_interest`"]
    #[track_caller]
    pub fn try_with_interest(inner: T, interest: Interest) -> Result<Self, AsyncFdRegisterError<T>> {
        let watched = Watched::duplicate(inner.as_raw_fd());
        Self::with_watched(inner, watched, interest)
    }

    /// Returns the wrapped value.
    #[inline]
    pub fn get_ref(&self) -> &T {
        &self.inner
    }

    /// Returns the wrapped value. The caller must not replace it by a value with another descriptor, because
    /// that would break the promise that was made to [`register`](Self::register).
    #[inline]
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.inner
    }

    /// Ends the watch, and returns the wrapped value.
    pub fn into_inner(self) -> T {
        drop(self.watch);
        self.inner
    }
}

/// Reading, writing, and the other calls of the system.
impl<T: AsRawFd> AsyncFd<T> {
    /// Calls `f` whenever the descriptor is ready for `interest`, until `f` returns anything but
    /// [`WouldBlock`](io::ErrorKind::WouldBlock).
    ///
    /// `f` must return `WouldBlock` only if the descriptor would block. A readiness that is cleared without
    /// reason comes back only with the next event.
    ///
    /// # Errors
    /// The other errors of `f`, or an error if the runtime that watches the descriptor was shut down.
    ///
    /// # Cancel safety
    /// Safe: `f` is not interrupted.
    ///
    /// # Examples
    /// An `eventfd`, through which another thread wakes a task:
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use runtime::io::{Interest, unix::AsyncFd};
    /// use std::fs::File;
    /// use std::io::{Read, Write};
    /// use std::os::fd::FromRawFd;
    ///
    /// // SAFETY: gives a new descriptor, or -1.
    /// let number = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
    /// assert!(number >= 0, "{}", std::io::Error::last_os_error());
    /// // SAFETY: it is ours.
    /// let event = unsafe { File::from_raw_fd(number) };
    /// let mut writer = event.try_clone()?;
    /// // SAFETY: the file stays open, and has the same descriptor, as long as the `AsyncFd` lives.
    /// let event = unsafe { AsyncFd::register_with_interest(event, Interest::READABLE)? };
    ///
    /// std::thread::spawn(move || writer.write_all(&7_u64.to_ne_bytes()));
    /// let mut count = [0; 8];
    /// event.async_io(Interest::READABLE, |mut event| event.read_exact(&mut count)).await?;
    /// assert_eq!(u64::from_ne_bytes(count), 7);
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    pub async fn async_io<R>(
        &self,
        interest: Interest,
        mut f: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        self.watch.async_user_io(interest, || f(&self.inner)).await
    }

    /// Works as [`async_io`](Self::async_io), with an exclusive reference.
    ///
    /// # Errors
    /// As for [`async_io`](Self::async_io).
    ///
    /// # Cancel safety
    /// Safe: `f` is not interrupted.
    pub async fn async_io_mut<R>(
        &mut self,
        interest: Interest,
        mut f: impl FnMut(&mut T) -> io::Result<R>,
    ) -> io::Result<R> {
        let Self { watch, inner } = self;
        watch.async_user_io(interest, || f(inner)).await
    }

    /// Calls `f` if the descriptor is ready for `interest`. If `f` returns
    /// [`WouldBlock`](io::ErrorKind::WouldBlock), the readiness is cleared. `f` must return `WouldBlock` only
    /// if the descriptor would block.
    ///
    /// # Errors
    /// `WouldBlock` if the descriptor is not ready, or if the driver has not noticed that it is. The errors
    /// of `f`, or an error if the runtime that watches the descriptor was shut down.
    pub fn try_io<R>(&self, interest: Interest, f: impl FnOnce(&T) -> io::Result<R>) -> io::Result<R> {
        self.watch.try_io(interest, || f(&self.inner))
    }

    /// Works as [`try_io`](Self::try_io), with an exclusive reference.
    ///
    /// # Errors
    /// As for [`try_io`](Self::try_io).
    pub fn try_io_mut<R>(
        &mut self,
        interest: Interest,
        f: impl FnOnce(&mut T) -> io::Result<R>,
    ) -> io::Result<R> {
        let Self { watch, inner } = self;
        watch.try_io(interest, || f(inner))
    }
}

impl<T: AsRawFd + fmt::Debug> fmt::Debug for AsyncFd<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncFd").field("inner", &self.inner).finish()
    }
}

impl<T: AsRawFd> AsRawFd for AsyncFd<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.inner.as_raw_fd()
    }
}

impl<T: AsRawFd> AsFd for AsyncFd<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}
