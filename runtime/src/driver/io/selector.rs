//! What the poller sleeps on: the system's selector and an alarm clock; in a model, a token.

use std::io;
#[cfg(not(loom))]
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

#[cfg(not(loom))]
use mio::unix::SourceFd;
#[cfg(not(loom))]
pub use mio::{Poll, Waker};
use mio::{Registry, Token};

#[cfg(not(loom))]
use super::interest::Ready;

#[cfg(loom)]
pub use model::{Alarm, NonblockingPoll, Poll, Waker};

/// Opens a selector. Returns it with its registry, and with a waker that ends its wait by an event of
/// `token`.
#[cfg(not(loom))]
pub fn open(token: Token) -> io::Result<(Poll, Registry, Waker)> {
    let poll = Poll::new()?;
    let registry = poll.registry().try_clone()?;
    let waker = Waker::new(&registry, token)?;
    Ok((poll, registry, waker))
}

/// A `timerfd`. It ends a wait to the microsecond, while epoll counts milliseconds and lets a long wait last
/// a thousandth longer.
#[cfg(not(loom))]
#[derive(Debug)]
pub struct Alarm(OwnedFd);

#[cfg(not(loom))]
impl Alarm {
    /// Opens an alarm whose event has `token`. Returns `None` if the system refuses, as a sandbox may. Then
    /// waits are limited in milliseconds.
    pub fn open(registry: &Registry, token: Token) -> Option<Alarm> {
        // SAFETY: no memory is passed.
        let fd =
            unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) };
        if fd < 0 {
            return None;
        }
        // SAFETY: the call has just returned the descriptor to us.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        registry.register(&mut SourceFd(&fd.as_raw_fd()), token, mio::Interest::READABLE).ok()?;
        Some(Alarm(fd))
    }

    /// Has the alarm go off once, when the monotonic clock says `nanos`; at once if that time has passed.
    /// This voids the former setting, and its event if no thread has taken it.
    pub fn set(&self, nanos: u64) {
        const SECOND: u64 = 1_000_000_000;
        let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // Neither cast truncates, because a `time_t` holds more seconds than `nanos` can. An all-zero time
        // would disarm the timer, but no caller asks for it: the monotonic clock was 0 only at the system's
        // start.
        let at = libc::timespec { tv_sec: (nanos / SECOND) as libc::time_t, tv_nsec: (nanos % SECOND) as _ };
        let setting = libc::itimerspec { it_interval: zero, it_value: at };
        let (fd, flags) = (self.0.as_raw_fd(), libc::TFD_TIMER_ABSTIME);
        // SAFETY: the descriptor is a timer and ours, the setting lives during the call, and with a null
        // pointer the system writes no old setting.
        while unsafe { libc::timerfd_settime(fd, flags, &setting, std::ptr::null_mut()) } != 0 {
            let error = io::Error::last_os_error();
            // Only a sandbox that supervises calls interrupts this call, which does not wait.
            assert_eq!(error.kind(), io::ErrorKind::Interrupted, "cannot set the alarm: {error}");
        }
    }
}

/// The buffer of a non-blocking poll beside the poller.
#[cfg(not(loom))]
pub struct NonblockingPoll {
    events: [libc::epoll_event; 64],
    /// How many of the events one call may fill.
    most: usize,
}

#[cfg(not(loom))]
impl NonblockingPoll {
    /// Makes a buffer for up to `most` events, and for no more than it has space for.
    pub fn new(most: usize) -> Self {
        let events = [libc::epoll_event { events: 0, u64: 0 }; 64];
        Self { most: most.min(events.len()), events }
    }

    /// Takes what is ready now, without waiting. Calls `f` with each token and its readiness, first with the
    /// tokens up to `first`.
    pub fn take(&mut self, registry: &Registry, first: Token, mut f: impl FnMut(Token, Ready)) {
        let room = self.most as libc::c_int;
        // SAFETY: the buffer is ours. It has space for `most` events, because `new` limits `most` to its
        // length.
        let found = unsafe { libc::epoll_wait(registry.as_raw_fd(), self.events.as_mut_ptr(), room, 0) };
        // An error leaves the buffer as it is. The poller will meet the error, too.
        let found = &mut self.events[..found.max(0) as usize];
        found.sort_unstable_by_key(|event| event.u64 > first.0 as u64);
        for event in found {
            f(Token(event.u64 as usize), Ready::from_epoll(event.events));
        }
    }
}

#[cfg(loom)]
pub fn open(_: Token) -> io::Result<(Poll, Registry, Waker)> {
    let real = mio::Poll::new()?;
    let registry = real.registry().try_clone()?;
    let token = std::sync::Arc::new(crate::loom::Token::default());
    Ok((Poll { _real: real, token: token.clone() }, registry, Waker(token)))
}

/// No event comes from the system. A wait ends only by the waker or a short limit.
#[cfg(loom)]
mod model {
    use std::io;
    use std::sync::Arc;
    use std::time::Duration;

    use super::super::interest::Ready;
    use crate::loom::Token;

    #[derive(Debug)]
    pub struct Poll {
        pub(super) _real: mio::Poll,
        pub(super) token: Arc<Token>,
    }

    impl Poll {
        pub fn poll(&mut self, _: &mut mio::Events, limit: Option<Duration>) -> io::Result<()> {
            self.token.wait(limit);
            Ok(())
        }
    }

    /// There is no alarm: the limit of a wait does the same.
    #[derive(Debug)]
    pub enum Alarm {}

    impl Alarm {
        pub fn open(_: &mio::Registry, _: mio::Token) -> Option<Alarm> {
            None
        }

        pub fn set(&self, _: u64) {
            match *self {}
        }
    }

    pub struct NonblockingPoll;

    impl NonblockingPoll {
        pub fn new(_: usize) -> Self {
            Self
        }

        pub fn take(&mut self, _: &mio::Registry, _: mio::Token, _: impl FnMut(mio::Token, Ready)) {}
    }

    #[derive(Debug)]
    pub struct Waker(pub(super) Arc<Token>);

    impl Waker {
        pub fn wake(&self) -> io::Result<()> {
            self.0.set();
            Ok(())
        }
    }
}
