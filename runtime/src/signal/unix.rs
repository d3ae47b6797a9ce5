//! Unix signals as a stream of events.
//!
//! # How a signal travels
//! A signal handler may do next to nothing: no lock, no allocation, so it cannot wake a task. It can write to
//! a descriptor, and descriptors are what the driver watches. So each [`Signal`] has a socket pair of its
//! own: the handler, shared through `signal-hook-registry` with all other listeners of this process, writes
//! one byte into one end; the other end is an ordinary source. When the pair is full, the byte is dropped:
//! there are events to be seen already, and signals of one kind merge anyway.
//!
//! Rejected: one pair for the process and a table of listeners (Tokio), which ties every listener to the
//! runtime that happened to be first to read, and needs a broadcast; `signalfd`, which needs the signal
//! blocked in every thread.

use std::ffi::c_int;
use std::fmt;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::task::{Context, Poll, ready};

use mio::net::UnixStream;
use signal_hook_registry::SigId;

use crate::driver::io::{Direction, Interest};
use crate::handle::Handle;
use crate::io::registered::{Registered, Watch};

/// Bytes read at once: more than a socket pair holds of one-byte writes, so that one read takes all.
const DRAIN: usize = 1024;

/// A signal's number.
///
/// # Examples
/// ```
/// use runtime::signal::unix::SignalKind;
///
/// assert_eq!(SignalKind::interrupt(), SignalKind::from_raw(2));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SignalKind(c_int);

impl SignalKind {
    /// Any signal, by its number; real-time signals have no names.
    pub const fn from_raw(number: c_int) -> Self {
        Self(number)
    }

    /// Returns the number.
    pub const fn as_raw_value(&self) -> c_int {
        self.0
    }

    /// `SIGALRM`: a timer of the system went off.
    pub const fn alarm() -> Self {
        Self(libc::SIGALRM)
    }

    /// `SIGCHLD`: a child process stopped or ended.
    pub const fn child() -> Self {
        Self(libc::SIGCHLD)
    }

    /// `SIGHUP`: the terminal went away; for servers, usually the wish to read their configuration again.
    pub const fn hangup() -> Self {
        Self(libc::SIGHUP)
    }

    /// `SIGINT`: Ctrl-C.
    pub const fn interrupt() -> Self {
        Self(libc::SIGINT)
    }

    /// `SIGIO`: a descriptor is ready.
    pub const fn io() -> Self {
        Self(libc::SIGIO)
    }

    /// `SIGPIPE`: something was written that no process will read.
    pub const fn pipe() -> Self {
        Self(libc::SIGPIPE)
    }

    /// `SIGQUIT`: Ctrl-\.
    pub const fn quit() -> Self {
        Self(libc::SIGQUIT)
    }

    /// `SIGTERM`: please end.
    pub const fn terminate() -> Self {
        Self(libc::SIGTERM)
    }

    /// `SIGUSR1`: whatever the program makes of it.
    pub const fn user_defined1() -> Self {
        Self(libc::SIGUSR1)
    }

    /// `SIGUSR2`: whatever the program makes of it.
    pub const fn user_defined2() -> Self {
        Self(libc::SIGUSR2)
    }

    /// `SIGWINCH`: the terminal has another size.
    pub const fn window_change() -> Self {
        Self(libc::SIGWINCH)
    }
}

impl From<c_int> for SignalKind {
    fn from(number: c_int) -> Self {
        Self::from_raw(number)
    }
}

impl From<SignalKind> for c_int {
    fn from(kind: SignalKind) -> Self {
        kind.as_raw_value()
    }
}

/// Listens to signals of one kind, from this call on.
///
/// From the first call on, the signal no longer does to the process what it would by default (mostly, end
/// it), also after the last listener is gone.
///
/// # Errors
/// With the number in the text: if the signal cannot be caught (`SIGKILL`, `SIGSTOP`) or must not be
/// (`SIGILL`, `SIGFPE`, `SIGSEGV`), if there is no such signal, or what the system says when it has no
/// descriptors left.
///
/// # Panics
/// Outside of a runtime, or if its I/O is not enabled: build it with `enable_io` or `enable_all`.
///
/// # Examples
/// ```no_run
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use runtime::signal::unix::{SignalKind, signal};
///
/// let mut hangups = signal(SignalKind::hangup())?;
/// while let Some(()) = hangups.recv().await {
///     println!("reading the configuration again");
/// }
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
#[track_caller]
pub fn signal(kind: SignalKind) -> io::Result<Signal> {
    // First, as in Tokio: that there is no driver is a mistake in the program, whatever the number.
    Handle::current_for("signal").io_driver("signal");
    let number = kind.as_raw_value();
    if number <= 0 || signal_hook_registry::FORBIDDEN.contains(&number) {
        return Err(io::Error::other(format!("signal {number} cannot be listened to")));
    }
    let (receiver, sender) = UnixStream::pair()?;
    let receiver = Registered::new(receiver, Watch::new("signal", Interest::READABLE))?;
    // SAFETY: the handler only calls `send` and puts `errno` back: neither locks nor allocates.
    let registered = unsafe { signal_hook_registry::register(number, move || notify(&sender)) };
    let id = registered.map_err(|error| io::Error::new(error.kind(), format!("signal {number}: {error}")))?;
    Ok(Signal { _handler: Handler(id), receiver, kind })
}

/// What the signal handler does.
fn notify(sender: &UnixStream) {
    // SAFETY: returns a pointer to the calling thread's `errno`.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: this thread's own.
    let saved = unsafe { *errno };
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: one byte is read from a static. A full pair is fine: see the module's documentation.
    unsafe { libc::send(sender.as_raw_fd(), b"!".as_ptr().cast(), 1, flags) };
    // SAFETY: this thread's own. The interrupted code must find its error number as it was.
    unsafe { *errno = saved };
}

/// A listener to signals of one kind, made by [`signal`].
///
/// Signals that come before it is looked at merge into one, as the system merges them too.
#[must_use = "a listener does nothing unless asked"]
pub struct Signal {
    /// First, so that no handler writes to a pair that has lost its other end.
    _handler: Handler,
    receiver: Registered<UnixStream>,
    kind: SignalKind,
}

/// Our part of the process's signal handler.
struct Handler(SigId);

impl Drop for Handler {
    fn drop(&mut self) {
        signal_hook_registry::unregister(self.0);
    }
}

impl Signal {
    /// The runtime that watches for it.
    #[cfg(all(feature = "process", not(loom)))]
    pub(crate) fn handle(&self) -> &Handle {
        self.receiver.handle()
    }

    /// Waits for the next signal: for any that came since the last one was returned, or since the listener
    /// was made.
    ///
    /// `None` means that the runtime was shut down, so none will be seen any more.
    ///
    /// # Cancel safety
    /// Safe: a signal that has not been returned is there for the next call.
    pub async fn recv(&mut self) -> Option<()> {
        std::future::poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Polls for the next signal, as [`recv`](Self::recv) waits for it.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<()>> {
        let mut bytes = [0; DRAIN];
        let read = self.receiver.poll_io(cx, Direction::Read, || (&*self.receiver).read(&mut bytes));
        match ready!(read) {
            Ok(n) => {
                debug_assert_ne!(n, 0, "the other end lives in the handler, which we unregister");
                Poll::Ready(Some(()))
            }
            Err(_) => Poll::Ready(None),
        }
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signal").field("kind", &self.kind).finish_non_exhaustive()
    }
}
