//! A non-blocking descriptor together with its registration: what every type of `net` is made of.
//!
//! Each operation is the same loop: see that the source is ready, try, and if the system answers `WouldBlock`, clear
//! the readiness relied upon and wait for the next event. It is written out three times, for the three ways to wait:
//! in a slot ([`poll_io`](Registered::poll_io)), in the list ([`async_io`](Registered::async_io)), not at all
//! ([`try_io`](Registered::try_io)).

use std::fmt;
use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice};
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::task::{Context, Poll, ready};

use crate::Handle;
use crate::coop;
use crate::driver::io::{self as driver, Direction, Interest, Ready, ReadyEvent, Source};
use crate::io::ReadBuf;
use crate::io::transfer::{receive, send, send_vectored};
use crate::loom::sync::Arc;

/// A descriptor that the driver watches.
pub(crate) struct Registered<S: mio::event::Source> {
    /// `None` only while it is being taken out.
    io: Option<S>,
    source: Arc<Source>,
    /// Keeps the driver alive.
    handle: Handle,
}

impl<S: mio::event::Source> Registered<S> {
    /// Registers `io`, which must not block, with the current runtime on behalf of `what`, the type or function that
    /// the panic names when there is no runtime or no I/O.
    #[track_caller]
    pub(crate) fn new(io: S, interest: Interest, assumed: Ready, what: &str) -> io::Result<Self> {
        Self::with_handle(io, interest, assumed, Handle::current_for(what), what)
    }

    /// As [`new`](Self::new), with the runtime of `handle`.
    #[track_caller]
    pub(crate) fn with_handle(
        mut io: S,
        interest: Interest,
        assumed: Ready,
        handle: Handle,
        what: &str,
    ) -> io::Result<Self> {
        let source = handle.io_driver(what).register(&mut io, interest, assumed)?;
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

    /// Tries `f` whenever `direction` is ready, until it answers anything but `WouldBlock`. Waits in the slot.
    pub(crate) fn poll_io<R>(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
        mut f: impl FnMut() -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        loop {
            let event = ready!(self.poll_ready(cx, direction))?;
            match f() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => ready!(self.retract(cx, event)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => return Poll::Ready(result),
            }
        }
    }

    /// After a `WouldBlock`: clears what `event` promised. If that is for ever, as with a closed direction, there is
    /// no event to wait for, and the caller has to come back after others had their turn.
    fn retract(&self, cx: &mut Context<'_>, event: ReadyEvent) -> Poll<()> {
        self.source.clear(event);
        if (event.ready & Ready::FINAL).is_empty() {
            return Poll::Ready(());
        }
        coop::yield_to_others(cx.waker());
        Poll::Pending
    }

    /// Waits in the list.
    pub(crate) async fn ready(&self, interest: Interest) -> io::Result<ReadyEvent> {
        let coop = poll_fn(coop::poll_proceed).await;
        coop.made_progress();
        alive(self.source.ready(interest.mask()).await)
    }

    /// Tries `f` whenever the source is ready for `interest`, until it answers anything but `WouldBlock`. Waits in
    /// the list.
    pub(crate) async fn async_io<R>(
        &self,
        interest: Interest,
        mut f: impl FnMut() -> io::Result<R>,
    ) -> io::Result<R> {
        loop {
            let event = self.ready(interest).await?;
            match f() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let mut has_yielded = false;
                    poll_fn(|cx| match std::mem::replace(&mut has_yielded, true) {
                        false => self.retract(cx, event),
                        true => Poll::Ready(()),
                    })
                    .await;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    /// Tries `f` once, if the source is ready for `interest`, and else answers `WouldBlock`.
    pub(crate) fn try_io<R>(&self, interest: Interest, f: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        let Some(event) = self.source.event(interest.mask()) else {
            return Err(ErrorKind::WouldBlock.into());
        };
        let event = alive(event)?;
        let result = f();
        if result.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
            self.source.clear(event);
        }
        result
    }

    /// Reads into the unfilled part of `buf`.
    ///
    /// A read that came short has emptied the socket, so it clears the readiness and saves the next read its
    /// `WouldBlock`. What arrives after the read is a new edge; the end of the stream, which may have been there
    /// already, is a bit that stays.
    pub(crate) fn poll_read(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>>
    where
        S: AsRawFd,
    {
        loop {
            let event = ready!(self.poll_ready(cx, Direction::Read))?;
            // SAFETY: nothing uninitialised is written to it, but what was received.
            let unfilled = unsafe { buf.unfilled_mut() };
            let len = unfilled.len();
            match receive(self.io(), unfilled) {
                Ok(n) => {
                    if 0 < n && n < len {
                        self.source.clear(event);
                    }
                    // SAFETY: `receive` has written the first `n` bytes.
                    unsafe { buf.assume_init(n) };
                    buf.advance(n);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => ready!(self.retract(cx, event)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Writes the beginning of `buf`. A write that came short has filled the socket: as with [`poll_read`](Self::poll_read).
    pub(crate) fn poll_write(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>>
    where
        S: AsRawFd,
    {
        self.poll_write_with(cx, buf.len(), |io| send(io, buf))
    }

    /// Writes the beginning of `bufs`, likewise.
    pub(crate) fn poll_write_vectored(
        &self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>>
    where
        S: AsRawFd,
    {
        let len = bufs.iter().map(|buf| buf.len()).sum();
        // The system takes so many slices at most; with more, a short write proves nothing.
        let len = if bufs.len() > libc::UIO_MAXIOV as usize { 0 } else { len };
        self.poll_write_with(cx, len, |io| send_vectored(io, bufs))
    }

    fn poll_write_with(
        &self,
        cx: &mut Context<'_>,
        len: usize,
        write: impl Fn(&S) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let event = ready!(self.poll_ready(cx, Direction::Write))?;
            match write(self.io()) {
                Ok(n) => {
                    if 0 < n && n < len {
                        self.source.clear(event);
                    }
                    return Poll::Ready(Ok(n));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => ready!(self.retract(cx, event)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

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
            // If it fails, the driver keeps the source, and nobody is left to be told.
            let _ = self.deregister(&mut io);
        }
    }
}

impl<S: mio::event::Source + fmt::Debug> fmt::Debug for Registered<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.io().fmt(f)
    }
}

fn alive(event: ReadyEvent) -> io::Result<ReadyEvent> {
    if event.is_shutdown { Err(driver::shut_down_error()) } else { Ok(event) }
}
