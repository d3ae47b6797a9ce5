//! The watches of several runtimes for one thing.
//!
//! A value may be polled inside of another runtime than the one that watches for it. That one may be a
//! `current_thread` runtime and idle: its driver runs only while a thread is in its `block_on`. So such a
//! poll has the current runtime watch, too. Both watches stay, because the current runtime may be idle as
//! well, and the wait ends when either reports. A runtime with workers drives itself, so its watch is enough.
//!
//! If the runtime that watches was shut down, the current runtime watches from then on.

use std::io;
use std::task::{Context, Poll, ready};

use crate::driver::io::is_shut_down_error;
use crate::runtime::handle::Handle;

/// A runtime's watch for something.
pub(crate) trait Watch: Sized {
    /// Whether a poll fails if the system refuses the current runtime a watch. If not, it relies on the other
    /// runtimes then.
    const IS_NEEDED_HERE: bool;

    /// The runtime that watches. None if no other runtime has to watch, too.
    fn watcher(&self) -> Option<&Handle>;

    /// Has the current runtime watch for the same.
    fn anew(&self) -> io::Result<Self>;
}

/// One or several watches for the same.
#[derive(Debug)]
pub(crate) struct Watches<W> {
    newest: W,
    /// Those of other `current_thread` runtimes, from earlier polls.
    others: Vec<W>,
}

impl<W: Watch> Watches<W> {
    pub(crate) fn new(watch: W) -> Self {
        Self { newest: watch, others: Vec::new() }
    }

    /// Polls all watches by `poll` until one is ready.
    ///
    /// # Errors
    /// Those of `poll`. If the current runtime has to watch ([`IS_NEEDED_HERE`](Watch::IS_NEEDED_HERE), or the
    /// runtime that watches was shut down), the errors of that. If there is no current runtime with I/O then,
    /// an error for which [`is_shut_down_error`] is true.
    pub(crate) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut poll: impl FnMut(&mut W, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        loop {
            let watches_here = self.watch_here();
            let mut result = self.poll_others(cx, &mut poll);
            if result.is_pending() {
                result = poll(&mut self.newest, cx);
            }
            if result.is_pending() && W::IS_NEEDED_HERE {
                // The other runtimes might never report.
                watches_here?;
            }
            match ready!(result) {
                Err(error) if is_shut_down_error(&error) => {
                    self.newest = match self.others.pop() {
                        Some(other) => other,
                        None if current_with_io().is_none() => return Poll::Ready(Err(error)),
                        None => self.newest.anew()?,
                    };
                }
                result => return Poll::Ready(result),
            }
        }
    }

    /// Watches with the current runtime, too, if all others that do may be idle.
    fn watch_here(&mut self) -> io::Result<()> {
        if self.may_be_idle_elsewhere() {
            match self.newest.anew() {
                Ok(watch) => self.others.push(std::mem::replace(&mut self.newest, watch)),
                Err(error) if is_shut_down_error(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Polls the watches of other runtimes, and ends those of runtimes that were shut down.
    fn poll_others<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: &mut impl FnMut(&mut W, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let mut result = Poll::Pending;
        self.others.retain_mut(|watch| {
            // What one poll has taken is not there for the next.
            if result.is_pending() {
                result = poll(watch, cx);
            }
            let is_over = matches!(&result, Poll::Ready(Err(error)) if is_shut_down_error(error));
            if is_over {
                result = Poll::Pending;
            }
            !is_over
        });
        result
    }

    /// Whether all runtimes that watch may be idle, and another one is current that can watch.
    fn may_be_idle_elsewhere(&self) -> bool {
        self.newest.watcher().is_some_and(|watcher| {
            watcher.shared().is_current_thread()
                && current_with_io().is_some_and(|current| {
                    let is_it = |watch: &W| watch.watcher().is_some_and(|it| it.id() == current.id());
                    !is_it(&self.newest) && !self.others.iter().any(is_it)
                })
        })
    }
}

/// What child processes need.
#[cfg(all(feature = "process", not(loom)))]
impl<W> Watches<W> {
    pub(crate) fn newest(&self) -> &W {
        &self.newest
    }

    pub(crate) fn newest_mut(&mut self) -> &mut W {
        &mut self.newest
    }

    /// Ends all watches but the newest.
    pub(crate) fn keep_newest(&mut self) {
        self.others.clear();
    }

    pub(crate) fn into_newest(self) -> W {
        self.newest
    }
}

/// The current runtime, if it has I/O.
fn current_with_io() -> Option<Handle> {
    Handle::try_current().ok().filter(|current| current.shared().config.has_io)
}
