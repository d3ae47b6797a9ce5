//! Unix signals as a stream of events.
//!
//! # How a signal travels
//! A signal handler may do very little: it may not lock or allocate, so it cannot wake a task. It can write
//! to a descriptor, and the driver watches descriptors. So each [`Signal`] has a socket pair of its own. The
//! handler is shared with all other listeners of this process through `signal-hook-registry`. It writes one
//! byte into one end of the pair. The other end is an ordinary source. If the pair is full, the byte is
//! dropped: there are events to be seen already, and signals of one kind merge anyway.
//!
//! Rejected: one pair for the process and a table of listeners (Tokio), which ties every listener to the
//! runtime that read first, and needs a broadcast; `signalfd`, which needs the signal blocked in every
//! thread.

use std::ffi::c_int;
use std::fmt;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::task::{Context, Poll, ready};

use mio::net::UnixStream;
use signal_hook_registry::SigId;

use crate::driver::io::{Direction, Interest};
use crate::io::registered::{Registered, Watch, WatchMode, Watches};
use crate::runtime::handle::Handle;
use crate::util::named_error::named;

/// The number of bytes that one read takes. A pair may hold more, up to some thousand: that is a setting of
/// the system (`net.core.wmem_default`).
const DRAIN: usize = 64;

const WATCH: WatchMode = WatchMode::new("signal", Interest::READABLE);

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
    /// Makes the kind of any signal from its number. Real-time signals have no names.
    pub const fn from_raw(number: c_int) -> Self {
        Self(number)
    }

    /// Returns the signal's number.
    pub const fn as_raw_value(&self) -> c_int {
        self.0
    }

    /// Returns `SIGALRM`: a timer of the system went off.
    pub const fn alarm() -> Self {
        Self(libc::SIGALRM)
    }

    /// Returns `SIGCHLD`: a child process stopped or ended.
    pub const fn child() -> Self {
        Self(libc::SIGCHLD)
    }

    /// Returns `SIGHUP`: the terminal went away. Servers usually read their configuration again.
    pub const fn hangup() -> Self {
        Self(libc::SIGHUP)
    }

    /// Returns `SIGINT`: Ctrl-C.
    pub const fn interrupt() -> Self {
        Self(libc::SIGINT)
    }

    /// Returns `SIGIO`: a descriptor is ready.
    pub const fn io() -> Self {
        Self(libc::SIGIO)
    }

    /// Returns `SIGPIPE`: the process wrote to a pipe or socket that has no reader.
    pub const fn pipe() -> Self {
        Self(libc::SIGPIPE)
    }

    /// Returns `SIGQUIT`: Ctrl-\.
    pub const fn quit() -> Self {
        Self(libc::SIGQUIT)
    }

    /// Returns `SIGTERM`: a request to end.
    pub const fn terminate() -> Self {
        Self(libc::SIGTERM)
    }

    /// Returns `SIGUSR1`, whose meaning the program defines.
    pub const fn user_defined1() -> Self {
        Self(libc::SIGUSR1)
    }

    /// Returns `SIGUSR2`, whose meaning the program defines.
    pub const fn user_defined2() -> Self {
        Self(libc::SIGUSR2)
    }

    /// Returns `SIGWINCH`: the terminal has another size.
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
/// From the first call on, the signal does not have its default effect on the process any more (mostly, to
/// end it), even after the last listener is gone.
///
/// # Errors
/// With the number in the text: if the signal cannot be caught (`SIGKILL`, `SIGSTOP`) or must not be
/// (`SIGILL`, `SIGFPE`, `SIGSEGV`), or if there is no such signal. Also the system's error if it refuses a
/// descriptor, or an error if the runtime was shut down.
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
    // This comes first, as in Tokio: a missing driver is a mistake in the program, whatever the number.
    Handle::current_for("signal").io_driver("signal");
    let number = kind.as_raw_value();
    if number <= 0 || signal_hook_registry::FORBIDDEN.contains(&number) {
        return Err(io::Error::other(format!("signal {number} cannot be listened to")));
    }
    let named = |error| named("signal", number, error);
    let (receiver, sender) = UnixStream::pair().map_err(named)?;
    let receiver = Registered::new(receiver, WATCH).map_err(named)?;
    // SAFETY: the handler only calls `send` and puts `errno` back. It neither locks nor allocates.
    let registered = unsafe { signal_hook_registry::register(number, move || notify(&sender)) };
    let id = registered.map_err(named)?;
    Ok(Signal { _handler: Handler(id), receivers: Watches::new(receiver), kind })
}

/// The work of the signal handler.
fn notify(sender: &UnixStream) {
    // SAFETY: returns a pointer to the calling thread's `errno`.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the pointer is to this thread's own `errno`.
    let saved = unsafe { *errno };
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the call reads one byte of a static. A full pair is fine: see the module's documentation.
    unsafe { libc::send(sender.as_raw_fd(), b"!".as_ptr().cast(), 1, flags) };
    // SAFETY: as above. The interrupted code must find its error number as it was.
    unsafe { *errno = saved };
}

/// A listener to signals of one kind. [`signal`] makes it.
///
/// Signals that come before the program looks at the listener merge into one, as the system merges them too.
#[must_use = "a listener does nothing unless asked"]
pub struct Signal {
    /// Dropped first, so that no handler writes to a pair that has lost its other end.
    _handler: Handler,
    receivers: Watches<Registered<UnixStream>>,
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
    /// The runtime that watches the listener.
    #[cfg(all(feature = "process", not(loom)))]
    pub(crate) fn handle(&self) -> &Handle {
        self.receivers.newest().handle()
    }

    /// Ends the watches in other runtimes than that of [`handle`](Self::handle).
    #[cfg(all(feature = "process", not(loom)))]
    pub(crate) fn keep_newest_watch(&mut self) {
        self.receivers.keep_newest();
    }

    /// Waits for the next signal. It returns at once if a signal came since it last returned, or since the
    /// listener was made.
    ///
    /// It may be called in another runtime with I/O than the one in which the listener was made. Outside of
    /// all, a listener of a `current_thread` runtime hears only while a thread is in that runtime's `block_on`;
    /// so it does if the system refuses a descriptor for the other runtime.
    ///
    /// `None` means that the runtime was shut down, and that no other runtime with I/O is current, or the
    /// system refuses a descriptor for that one.
    ///
    /// # Cancel safety
    /// Safe: a signal that has not been returned is there for the next call.
    pub async fn recv(&mut self) -> Option<()> {
        std::future::poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Polls for the next signal, as [`recv`](Self::recv) does.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<()>> {
        let take = |receiver: &mut Registered<UnixStream>, cx: &mut Context<'_>| {
            receiver.poll_io(cx, Direction::Read, || take_all(receiver))
        };
        Poll::Ready(ready!(self.receivers.poll(cx, take)).ok())
    }
}

impl Watch for Registered<UnixStream> {
    const IS_NEEDED_HERE: bool = false;

    fn watcher(&self) -> Option<&Handle> {
        Some(self.handle())
    }

    fn anew(&self) -> io::Result<Self> {
        let receiver = StdUnixStream::from(self.as_fd().try_clone_to_owned()?);
        Self::new(UnixStream::from_std(receiver), WATCH)
    }
}

/// Takes all bytes out of a pair, so that the signals before this call make one event.
fn take_all(mut receiver: &UnixStream) -> io::Result<()> {
    let mut bytes = [0; DRAIN];
    let mut count = receiver.read(&mut bytes)?;
    debug_assert_ne!(count, 0, "the other end lives in the handler, which we unregister");
    // A read that is not full, or fails because nothing is left, has found the end.
    while count == DRAIN {
        count = receiver.read(&mut bytes).unwrap_or(0);
    }
    Ok(())
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signal").field("kind", &self.kind).finish_non_exhaustive()
    }
}
