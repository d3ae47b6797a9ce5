//! A non-blocking descriptor together with its registration. Every type of `net` is made of one.
//!
//! Each operation is the same loop: it waits until the source is ready, and tries. If the system returns
//! `WouldBlock`, it clears the readiness on which it relied, and waits for the next event. The loop is
//! written three times, for the three ways to wait: in a slot ([`poll_io`](Registered::poll_io)), in the list
//! ([`async_io`](Registered::async_io)), not at all ([`try_io`](Registered::try_io)).

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
    self as driver, Direction, Interest, Ready, ReadyEvent, Retracted, Source, SourceKind, WaitReady,
};
use crate::loom::sync::Arc;

/// How the driver watches a descriptor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WatchMode {
    /// The type or function that a panic names when there is no runtime, or no I/O.
    what: &'static str,
    interest: Interest,
    /// What the first operations may try without waiting for an event.
    assumed: Ready,
    kind: SourceKind,
}

impl WatchMode {
    /// Watches a descriptor for `interest`. A direction that was closed stays closed.
    pub(crate) const fn new(what: &'static str, interest: Interest) -> Self {
        Self { what, interest, assumed: Ready::EMPTY, kind: SourceKind::Stream }
    }

    /// Watches a stream socket for reading and writing. It also watches for urgent data, because a read may
    /// come short before urgent data.
    pub(crate) const fn stream(what: &'static str) -> Self {
        Self::new(what, Interest::READABLE.add(Interest::WRITABLE).add(Interest::PRIORITY))
    }

    /// Watches a socket for sending and receiving datagrams. Almost any socket has room, so the first send
    /// need not wait for an event.
    pub(crate) const fn datagrams(what: &'static str) -> Self {
        let interest = Interest::READABLE.add(Interest::WRITABLE);
        Self { kind: SourceKind::Datagrams, assumed: Ready::WRITABLE, ..Self::new(what, interest) }
    }

    /// Watches one end of a pipe.
    pub(crate) const fn pipe(what: &'static str, interest: Interest) -> Self {
        Self { kind: SourceKind::Pipe, ..Self::new(what, interest) }
    }

    /// Lets the first operations try what `assumed` says.
    pub(crate) const fn assuming(self, assumed: Ready) -> Self {
        Self { assumed, ..self }
    }

    /// Returns the current runtime's handle.
    ///
    /// # Panics
    /// If there is no runtime, or it has no I/O. Code that leaves a trace in the system, such as a file at
    /// the path of a socket, calls this first.
    #[track_caller]
    pub(crate) fn current_runtime(self) -> Handle {
        let handle = Handle::current_for(self.what);
        handle.io_driver(self.what);
        handle
    }
}

/// A descriptor that the driver watches.
pub(crate) struct Registered<S: mio::event::Source> {
    /// `None` only while `into_inner` or `drop` takes it out.
    io: Option<S>,
    pub(super) source: Arc<Source>,
    /// Keeps the driver alive.
    handle: Handle,
}

// A panic leaves nothing half done. An operation of the user (`try_io` and the like) is called with no lock
// held and no step of `driver::io` begun. `driver::io` handles a panic in a waker.
impl<S: mio::event::Source> UnwindSafe for Registered<S> {}
impl<S: mio::event::Source> RefUnwindSafe for Registered<S> {}

impl<S: mio::event::Source> Registered<S> {
    /// Registers `io`, which must not block, with the current runtime.
    ///
    /// # Panics
    /// If there is no runtime, or it has no I/O.
    #[track_caller]
    pub(crate) fn new(io: S, watch: WatchMode) -> io::Result<Self> {
        Self::with_handle(io, watch, Handle::current_for(watch.what))
    }

    /// Registers `io` as [`new`](Self::new) does, with the runtime of `handle`.
    #[track_caller]
    pub(crate) fn with_handle(mut io: S, watch: WatchMode, handle: Handle) -> io::Result<Self> {
        let source = Source::new(0, watch.assumed).of_kind(watch.kind);
        let source = handle.io_driver(watch.what).register(&mut io, watch.interest, source)?;
        Ok(Self { io: Some(io), source, handle })
    }

    /// The runtime whose driver watches the descriptor.
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Ends the watch and returns the descriptor.
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

    /// Clears the readiness of `event`, unless another event has come since.
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

    /// Tries `f`, a call of the system, whenever `direction` is ready, until `f` returns anything but
    /// `WouldBlock` or `Interrupted`. Waits in the slot.
    pub(crate) fn poll_io<R>(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
        mut f: impl FnMut() -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.poll_io_with(cx, direction, |_| f())
    }

    /// Works as [`poll_io`](Self::poll_io). `f` gets the event on which it may rely.
    #[inline]
    pub(super) fn poll_io_with<R>(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
        mut f: impl FnMut(ReadyEvent) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        loop {
            let event = ready!(self.poll_ready(cx, direction))?;
            match f(event) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    ready!(self.retract(cx, event, direction.mask()))?;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => return Poll::Ready(result),
            }
        }
    }

    /// Called after a `WouldBlock`. Clears the readiness of `event`. A closed direction, for instance, stays
    /// ready for ever. Then there is no event to wait for, so the caller comes back after other tasks had
    /// their turn.
    fn retract(&self, cx: &mut Context<'_>, event: ReadyEvent, mask: Ready) -> Poll<io::Result<()>> {
        match self.source.retract(event, mask) {
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

    /// Tries `f`, a call of the system, whenever the source is ready for `interest`, until `f` returns
    /// anything but `WouldBlock` or `Interrupted`. Waits in the list.
    pub(crate) fn async_io<R>(
        &self,
        interest: Interest,
        mut f: impl FnMut() -> io::Result<R>,
    ) -> impl Future<Output = io::Result<R>> {
        self.async_user_io(interest, move || {
            loop {
                match f() {
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    result => return result,
                }
            }
        })
    }

    /// Tries `f`, an operation of the user, whenever the source is ready for `interest`, until `f` returns
    /// anything but `WouldBlock`. Waits in the list. As in Tokio, `f` is not repeated after `Interrupted`,
    /// because it may return that for reasons of its own.
    pub(crate) async fn async_user_io<R>(
        &self,
        interest: Interest,
        mut f: impl FnMut() -> io::Result<R>,
    ) -> io::Result<R> {
        let mut wait = pin!(self.source.ready(interest.mask()));
        poll_fn(|cx| {
            loop {
                let event = ready!(poll_wait(wait.as_mut(), cx))?;
                match f() {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        ready!(self.retract(cx, event, interest.mask()))?;
                    }
                    result => return Poll::Ready(result),
                }
            }
        })
        .await
    }

    /// Tries `f` once if the source is ready for `interest`, and otherwise returns `WouldBlock`.
    pub(crate) fn try_io<R>(&self, interest: Interest, f: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        let Some(event) = self.source.event(interest.mask()) else {
            return Err(ErrorKind::WouldBlock.into());
        };
        let event = alive(event)?;
        let result = f();
        let would_block = result.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        match would_block.then(|| self.source.retract(event, interest.mask())) {
            Some(Retracted::Ended) => Err(ended()),
            _ => result,
        }
    }

    #[inline]
    pub(super) fn io(&self) -> &S {
        self.io.as_ref().expect("taken out only by its owner")
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
            // If the deregistration fails, the driver keeps the source. There is no caller to tell.
            let _ = self.deregister(&mut io);
        }
    }
}

impl<S: mio::event::Source + fmt::Debug> fmt::Debug for Registered<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.io().fmt(f)
    }
}

/// The error of a receive that would wait for ever. (A blocking receive returns an empty datagram.)
#[cold]
fn ended() -> io::Error {
    io::Error::new(
        ErrorKind::UnexpectedEof,
        "the socket was shut down for reading, and there is no datagram left",
    )
}

/// Polls a wait in the list. The wait may be polled again after it has ended. It then begins anew.
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
