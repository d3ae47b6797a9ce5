//! What the poller sleeps on: the system's selector, or a token while a model runs.

use std::io;

#[cfg(not(loom))]
pub use mio::{Poll, Waker};
use mio::{Registry, Token};

#[cfg(loom)]
pub use model::{Poll, Waker};

/// A selector, the way to register with it, and a waker that ends its wait with an event of `token`.
#[cfg(not(loom))]
pub fn open(token: Token) -> io::Result<(Poll, Registry, Waker)> {
    let poll = Poll::new()?;
    let registry = poll.registry().try_clone()?;
    let waker = Waker::new(&registry, token)?;
    Ok((poll, registry, waker))
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

    #[derive(Debug)]
    pub struct Waker(pub(super) Arc<Token>);

    impl Waker {
        pub fn wake(&self) -> io::Result<()> {
            self.0.set();
            Ok(())
        }
    }
}
