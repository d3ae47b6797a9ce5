//! What the poller sleeps on: the system's selector, or a token while a model runs.

use std::io;
#[cfg(not(loom))]
use std::os::fd::AsRawFd;

#[cfg(not(loom))]
pub use mio::{Poll, Waker};
use mio::{Registry, Token};

#[cfg(not(loom))]
use super::interest::Ready;

#[cfg(loom)]
pub use model::{Glance, Poll, Waker};

/// A selector, the way to register with it, and a waker that ends its wait with an event of `token`.
#[cfg(not(loom))]
pub fn open(token: Token) -> io::Result<(Poll, Registry, Waker)> {
    let poll = Poll::new()?;
    let registry = poll.registry().try_clone()?;
    let waker = Waker::new(&registry, token)?;
    Ok((poll, registry, waker))
}

/// What one look beside the poller takes from the system.
#[cfg(not(loom))]
pub struct Glance([libc::epoll_event; 64]);

#[cfg(not(loom))]
impl Glance {
    pub fn new() -> Self {
        Self([libc::epoll_event { events: 0, u64: 0 }; 64])
    }

    /// Takes what is ready now, without waiting, and calls `f` with each token and what it is ready for; with `first` before the others.
    pub fn take(&mut self, registry: &Registry, first: Token, mut f: impl FnMut(Token, Ready)) {
        let room = self.0.len() as libc::c_int;
        // SAFETY: the buffer is ours, and has that much room. An error leaves it as it is: the poller will meet it, too.
        let found = unsafe { libc::epoll_wait(registry.as_raw_fd(), self.0.as_mut_ptr(), room, 0) };
        let found = &mut self.0[..found.max(0) as usize];
        found.sort_unstable_by_key(|event| event.u64 != first.0 as u64);
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

/// No event comes from the system, so all that ends a wait is the waker, or a short limit.
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

    pub struct Glance;

    impl Glance {
        pub fn new() -> Self {
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
