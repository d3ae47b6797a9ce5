//! How the crate notices the exit of a child: by a pidfd, or by `SIGCHLD`.
//!
//! # Pidfd
//! `pidfd_open` is called after the child was started. The number cannot belong to another process by then.
//! The system keeps it until the child has been reaped, and only this file and `orphans.rs` reap. The
//! descriptor becomes readable at the exit. mio reports this edge even if the exit was before the
//! registration.
//!
//! A debugger that traces the child learns of the exit first. The descriptor is readable then, while
//! `waitpid` still says that the child runs. So that answer clears the readiness, as `WouldBlock` does. The
//! system reports the next edge when the debugger lets go.
//!
//! # Signal
//! `pidfd_open` fails with `ENOSYS` before Linux 5.3, and with `EPERM` or `ENOSYS` in sandboxes. The child
//! then has a listener to `SIGCHLD`, and asks the system again at each signal. The listener begins before the
//! first question, so no exit between the question and the wait is missed.
//!
//! Rejected: signals only, because each exit then makes each waiting task ask the system, and because the
//! handler stays in the process for good.
//!
//! # Gone
//! Other code of this process may reap the child: it calls `waitpid(-1, …)`, or makes the system ignore
//! `SIGCHLD`. The number may then belong to another process. `waitpid` tells, by `ECHILD`. From then on the
//! child is *gone*: it has no number, and is not killed. Before that, a kill goes through the pidfd, which
//! never means another process. Without a pidfd, a kill first asks the system whether the child exists. Other
//! code may still reap it between the two calls.
//!
//! # Another runtime
//! A `Child` may outlive the runtime that watched it, and may be waited for in a runtime that does not watch
//! it yet: see `io/registered/watches.rs`.

use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Child as StdChild, ExitStatus};
use std::task::{Context, Poll, ready};

use crate::Handle;
use crate::driver::io::{Direction, Interest, shut_down_error};
use crate::io::registered::{Fd, Registered, Watch, WatchMode, Watches};
use crate::signal::unix::{Signal, SignalKind, signal};

/// The pidfd is watched as the end of a pipe. After the exit it counts as closed. If [`Notice::poll`] then
/// finds that the child still runs, its `WouldBlock` clears that, too.
const WATCH: WatchMode = WatchMode::pipe("Command::spawn", Interest::READABLE);

/// Makes sure that the current runtime can watch a child.
///
/// # Panics
/// Outside of a runtime, or if its I/O is not enabled.
#[track_caller]
pub(super) fn require_runtime() {
    WATCH.current_runtime();
}

/// A child that has not been reaped, and the means by which its exit is noticed.
#[derive(Debug)]
pub(super) struct Process {
    child: StdChild,
    notices: Watches<Notice>,
}

/// The means by which the exit is noticed.
#[derive(Debug)]
pub(super) enum Notice {
    Pidfd(Registered<Fd<OwnedFd>>),
    Signal(Signal),
    /// Other code, or the system, has reaped the child. Its number may belong to another process.
    Gone,
}

impl Process {
    /// Watches `child` with the current runtime.
    ///
    /// # Errors
    /// With the child: the system's errors, or if the runtime was shut down.
    pub fn watch(child: StdChild) -> Result<Self, (StdChild, io::Error)> {
        match Notice::of(child.id()) {
            Ok(notice) => Ok(Self { child, notices: Watches::new(notice) }),
            Err(error) => Err((child, error)),
        }
    }

    /// The number of the process. `None` if the child is gone.
    pub fn id(&self) -> Option<u32> {
        (!matches!(self.notices.newest(), Notice::Gone)).then(|| self.child.id())
    }

    /// The status, if the child was waited for before it was watched.
    pub fn earlier_status(&mut self) -> Option<ExitStatus> {
        match self.notices.newest() {
            Notice::Gone => self.child.try_wait().ok().flatten(),
            _ => None,
        }
    }

    /// The child of the standard library. It has the pipes until they are taken out.
    pub fn std_mut(&mut self) -> &mut StdChild {
        &mut self.child
    }

    /// The child, and its newest watch alone.
    pub fn into_parts(mut self) -> (StdChild, Notice) {
        if let Notice::Signal(signal) = self.notices.newest_mut() {
            signal.keep_newest_watch();
        }
        (self.child, self.notices.into_newest())
    }

    /// Sends `SIGKILL`, unless the child has been reaped.
    pub fn kill(&mut self) -> io::Result<()> {
        match self.notices.newest() {
            Notice::Pidfd(pidfd) => kill_by_pidfd(&pidfd.0, &mut self.child),
            Notice::Signal(_) => kill_by_number(&mut self.child),
            Notice::Gone => Ok(()),
        }
    }

    /// Reaps the child if it has ended.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        if let Notice::Gone = self.notices.newest() {
            return Err(gone());
        }
        let result = self.child.try_wait();
        self.note(&result);
        result
    }

    /// Records it if `waitpid` says that the child is gone.
    fn note<T>(&mut self, result: &io::Result<T>) {
        if result.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::ECHILD)) {
            self.notices = Watches::new(Notice::Gone);
        }
    }

    /// Waits for the exit, and reaps the child.
    ///
    /// # Errors
    /// The errors of `waitpid`: `ECHILD` if other code in this process has reaped the child. If the current
    /// runtime begins to watch, the errors of a watch, such as too many descriptors. If the runtime was shut
    /// down, the child still runs, and no runtime with I/O is current, an error for which
    /// `is_shut_down_error` is true.
    pub fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<ExitStatus>> {
        let Self { child, notices } = self;
        let ended = ready!(notices.poll(cx, |notice, cx| notice.poll(cx, || child.try_wait())));
        self.note(&ended);
        Poll::Ready(match ended {
            // The child may have ended all the same.
            Err(error) => self.try_wait()?.ok_or(error),
            status => status,
        })
    }
}

impl Watch for Notice {
    const IS_NEEDED_HERE: bool = true;

    /// A listener to signals sees to this itself.
    fn watcher(&self) -> Option<&Handle> {
        match self {
            Self::Pidfd(pidfd) => Some(pidfd.handle()),
            Self::Signal(_) | Self::Gone => None,
        }
    }

    /// A pidfd is kept, because the number may belong to another process by now.
    fn anew(&self) -> io::Result<Self> {
        match self {
            Self::Pidfd(pidfd) => Registered::new(Fd(pidfd.0.try_clone()?), WATCH).map(Self::Pidfd),
            Self::Signal(_) => signal(SignalKind::child()).map(Self::Signal),
            Self::Gone => Ok(Self::Gone),
        }
    }
}

impl Notice {
    /// The runtime that watches the child, if one does.
    pub fn handle(&self) -> Option<&Handle> {
        match self {
            Self::Pidfd(pidfd) => Some(pidfd.handle()),
            Self::Signal(signal) => Some(signal.handle()),
            Self::Gone => None,
        }
    }

    /// Waits for the exit. `try_wait` reaps the child, or returns `None` while it runs.
    ///
    /// # Errors
    /// The errors of `try_wait`. If the runtime that watches the child was shut down, an error for which
    /// `is_shut_down_error` is true. `ECHILD` if the child is gone.
    pub fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut try_wait: impl FnMut() -> io::Result<Option<T>>,
    ) -> Poll<io::Result<T>> {
        let mut reap = || try_wait()?.ok_or_else(|| ErrorKind::WouldBlock.into());
        match self {
            Self::Gone => Poll::Ready(Err(gone())),
            Self::Pidfd(pidfd) => pidfd.poll_io(cx, Direction::Read, reap),
            Self::Signal(signal) => loop {
                match reap() {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    result => return Poll::Ready(result),
                }
                if ready!(signal.poll_recv(cx)).is_none() {
                    return Poll::Ready(Err(shut_down_error()));
                }
            },
        }
    }

    /// Watches for the exit of the child with this number.
    fn of(id: u32) -> io::Result<Self> {
        if is_reaped(id) {
            // Its number may belong to another process.
            return Ok(Self::Gone);
        }
        match open(id) {
            Ok(pidfd) => Registered::new(Fd(pidfd), WATCH).map(Self::Pidfd),
            Err(error) => match error.raw_os_error() {
                Some(libc::ENOSYS | libc::EPERM) => signal(SignalKind::child()).map(Self::Signal),
                // `SIGCHLD` is ignored in this process, so the system reaps children itself.
                Some(libc::ESRCH) => Ok(Self::Gone),
                _ => Err(error),
            },
        }
    }
}

/// Opens a pidfd, which `exec` closes.
fn open(id: u32) -> io::Result<OwnedFd> {
    // SAFETY: the call takes a process's number and flags, here none, and accesses no memory of ours.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, id as libc::pid_t, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the system has just given this descriptor to us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

/// The error of a wait for a child that is gone.
fn gone() -> io::Error {
    io::Error::from_raw_os_error(libc::ECHILD)
}

/// Sends `SIGKILL` to the child whose pidfd this is. Does nothing if it has been reaped.
fn kill_by_pidfd(pidfd: &OwnedFd, child: &mut StdChild) -> io::Result<()> {
    let no_info = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: the call takes a descriptor, a signal's number and flags, here none. The null pointer says that
    // the system makes the signal's information, so no memory of ours is accessed.
    let result =
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), libc::SIGKILL, no_info, 0) };
    if result == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ESRCH) => Ok(()),
        // A sandbox may forbid this call, and allow `kill`. If the process is another user's, both fail.
        Some(libc::ENOSYS | libc::EPERM) => kill_by_number(child),
        _ => Err(error),
    }
}

/// Sends `SIGKILL` to the child by its number. Does nothing if it has been reaped.
pub(super) fn kill_by_number(child: &mut StdChild) -> io::Result<()> {
    if is_reaped(child.id()) { Ok(()) } else { child.kill() }
}

/// Returns whether this process has no child with this number, not even a zombie.
fn is_reaped(id: u32) -> bool {
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the call takes numbers and flags, and a null pointer says that no information is wanted.
    let result = unsafe { libc::waitid(libc::P_PID, id, std::ptr::null_mut(), flags) };
    result != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ECHILD)
}
