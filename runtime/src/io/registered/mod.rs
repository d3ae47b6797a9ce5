//! A non-blocking descriptor together with its registration: what every type of `net` is made of.
//!
//! Each operation is the same loop: see that the source is ready, try, and if the system answers
//! `WouldBlock`, clear the readiness relied upon and wait for the next event. It is written out three times,
//! for the three ways to wait: in a slot ([`poll_io`](Registered::poll_io)), in the list
//! ([`async_io`](Registered::async_io)), not at all ([`try_io`](Registered::try_io)). `bytes.rs` has what
//! byte streams do on top, `datagrams.rs` what sockets for datagrams do.

mod bytes;
mod datagrams;
mod fd;

use std::fmt;
use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind};
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use crate::Handle;
use crate::coop;
use crate::driver::io::{
    self as driver, Direction, Interest, Kind, Ready, ReadyEvent, Retracted, Source, WaitReady,
};
use crate::loom::sync::Arc;

pub(crate) use fd::Fd;

/// How a descriptor is to be watched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watch {
    /// The type or function that a panic names when there is no runtime, or no I/O.
    what: &'static str,
    interest: Interest,
    /// What the first operations may try without waiting for an event.
    assumed: Ready,
    kind: Kind,
}

impl Watch {
    /// For `interest`, in something that is never opened again once it was closed.
    pub(crate) const fn new(what: &'static str, interest: Interest) -> Self {
        Self { what, interest, assumed: Ready::EMPTY, kind: Kind::Stream }
    }

    /// For reading and writing a stream socket; and for urgent data, so that no read relies on coming short
    /// before it.
    pub(crate) const fn stream(what: &'static str) -> Self {
        Self::new(what, Interest::READABLE.add(Interest::WRITABLE).add(Interest::PRIORITY))
    }

    /// For sending and receiving datagrams. There is room in mostly any socket, so the first send need not
    /// wait for an event.
    pub(crate) const fn datagrams(what: &'static str) -> Self {
        let interest = Interest::READABLE.add(Interest::WRITABLE);
        Self { kind: Kind::Datagrams, assumed: Ready::WRITABLE, ..Self::new(what, interest) }
    }

    /// For one end of a pipe.
    pub(crate) const fn pipe(what: &'static str, interest: Interest) -> Self {
        Self { kind: Kind::Pipe, ..Self::new(what, interest) }
    }

    /// The same, where the first operations may try what `assumed` says.
    pub(crate) const fn assuming(self, assumed: Ready) -> Self {
        Self { assumed, ..self }
    }

    /// The current runtime's handle.
    ///
    /// # Panics
    /// If there is no runtime, or it has no I/O. So whatever would leave a trace in the system asks first.
    #[track_caller]
    pub(crate) fn current_runtime(self) -> Handle {
        let handle = Handle::current_for(self.what);
        handle.io_driver(self.what);
        handle
    }
}

/// A descriptor that the driver watches.
pub(crate) struct Registered<S: mio::event::Source> {
    /// `None` only while it is being taken out.
    io: Option<S>,
    source: Arc<Source>,
    /// Keeps the driver alive.
    handle: Handle,
}

// A panic leaves nothing half done: an operation of the user's (`try_io` and the like) is called with no lock
// held and no step of `driver::io` begun, and what panics in a waker is dealt with there.
impl<S: mio::event::Source> UnwindSafe for Registered<S> {}
impl<S: mio::event::Source> RefUnwindSafe for Registered<S> {}

impl<S: mio::event::Source> Registered<S> {
    /// Registers `io`, which must not block, with the current runtime.
    ///
    /// # Panics
    /// If there is no runtime, or it has no I/O.
    #[track_caller]
    pub(crate) fn new(io: S, watch: Watch) -> io::Result<Self> {
        Self::with_handle(io, watch, Handle::current_for(watch.what))
    }

    /// As [`new`](Self::new), with the runtime of `handle`.
    #[track_caller]
    pub(crate) fn with_handle(mut io: S, watch: Watch, handle: Handle) -> io::Result<Self> {
        let source = Source::new(0, watch.assumed).of_kind(watch.kind);
        let source = handle.io_driver(watch.what).register(&mut io, watch.interest, source)?;
        Ok(Self { io: Some(io), source, handle })
    }

    /// The runtime whose driver watches the descriptor.
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Ends the watch and gives the descriptor back.
    pub(crate) fn into_inner(mut self) -> io::Result<S> {
        let mut io = self.io.take().expect("taken out only here and in `drop`");
        self.deregister(&mut io)?;
        Ok(io)
    }

    fn deregister(&self, io: &mut S) -> io::Result<()> {
        let result = self.handle.io_driver("a registered descriptor").deregister(&self.source, io);
        self.handle.shared().report_deadlock();
        result
    }

    /// Takes back what `event` had promised, unless another event has come since.
    pub(crate) fn clear(&self, event: ReadyEvent) {
        self.source.clear(event);
    }

    /// Waits in the slot of `direction`.
    #[inline]
    pub(crate) fn poll_ready(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
    ) -> Poll<io::Result<ReadyEvent>> {
        ready!(coop::poll_has_budget(cx));
        let event = ready!(self.source.poll_ready(cx, direction));
        coop::spend();
        Poll::Ready(alive(event))
    }

    /// Tries `f` whenever `direction` is ready, until it returns anything but `WouldBlock`. Waits in the
    /// slot.
    pub(crate) fn poll_io<R>(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
        mut f: impl FnMut() -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.poll_io_with(cx, direction, |_| f())
    }

    /// As [`poll_io`](Self::poll_io); `f` is told the event that it may rely on.
    #[inline]
    fn poll_io_with<R>(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
        mut f: impl FnMut(ReadyEvent) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        loop {
            let event = ready!(self.poll_ready(cx, direction))?;
            match f(event) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => ready!(self.retract(cx, event))?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => return Poll::Ready(result),
            }
        }
    }

    /// After a `WouldBlock`: clears what `event` promised. If that is for ever, as with a closed direction,
    /// there is no event to wait for, and the caller has to come back after others had their turn.
    fn retract(&self, cx: &mut Context<'_>, event: ReadyEvent) -> Poll<io::Result<()>> {
        match self.source.retract(event) {
            Retracted::Cleared => Poll::Ready(Ok(())),
            Retracted::Stays => {
                coop::yield_to_others(cx.waker());
                Poll::Pending
            }
            Retracted::Ended => Poll::Ready(Err(ended())),
        }
    }

    /// Waits in the list.
    pub(crate) async fn ready(&self, interest: Interest) -> io::Result<ReadyEvent> {
        let mut wait = pin!(self.source.ready(interest.mask()));
        poll_fn(|cx| poll_wait(wait.as_mut(), cx)).await
    }

    /// Tries `f` whenever the source is ready for `interest`, until it returns anything but `WouldBlock`.
    /// Waits in the list.
    pub(crate) async fn async_io<R>(
        &self,
        interest: Interest,
        mut f: impl FnMut() -> io::Result<R>,
    ) -> io::Result<R> {
        let mut wait = pin!(self.source.ready(interest.mask()));
        poll_fn(|cx| {
            loop {
                let event = ready!(poll_wait(wait.as_mut(), cx))?;
                match f() {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => ready!(self.retract(cx, event))?,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    result => return Poll::Ready(result),
                }
            }
        })
        .await
    }

    /// Tries `f` once, if the source is ready for `interest`, and else returns `WouldBlock`.
    pub(crate) fn try_io<R>(&self, interest: Interest, f: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        let Some(event) = self.source.event(interest.mask()) else {
            return Err(ErrorKind::WouldBlock.into());
        };
        let event = alive(event)?;
        let result = f();
        let would_block = result.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        match would_block.then(|| self.source.retract(event)) {
            Some(Retracted::Ended) => Err(ended()),
            _ => result,
        }
    }

    #[inline]
    fn io(&self) -> &S {
        self.io.as_ref().expect("taken out only by who owns it")
    }
}

impl<S: mio::event::Source> Deref for Registered<S> {
    type Target = S;

    fn deref(&self) -> &S {
        self.io()
    }
}

impl<S: mio::event::Source> Drop for Registered<S> {
    fn drop(&mut self) {
        if let Some(mut io) = self.io.take() {
            // If it fails, the driver keeps the source, and no caller is left to be told.
            let _ = self.deregister(&mut io);
        }
    }
}

impl<S: mio::event::Source + fmt::Debug> fmt::Debug for Registered<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.io().fmt(f)
    }
}

/// What a receive fails with that would wait for ever. (A blocking one returns an empty datagram.)
#[cold]
fn ended() -> io::Error {
    io::Error::new(
        ErrorKind::UnexpectedEof,
        "the socket was shut down for reading, and there is no datagram left",
    )
}

/// Polls a wait in the list. The wait may be polled again after it has ended, and then begins anew.
#[inline]
fn poll_wait(wait: Pin<&mut WaitReady<'_>>, cx: &mut Context<'_>) -> Poll<io::Result<ReadyEvent>> {
    ready!(coop::poll_has_budget(cx));
    let event = ready!(wait.poll(cx));
    coop::spend();
    Poll::Ready(alive(event))
}

#[inline]
fn alive(event: ReadyEvent) -> io::Result<ReadyEvent> {
    if event.is_shutdown { Err(driver::shut_down_error()) } else { Ok(event) }
}
