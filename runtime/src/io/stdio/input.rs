//! Standard input: which thread reads it, and why no byte is lost and no read forgotten.
//!
//! A thread reads when a handle asks for bytes and none are there. It leaves the bytes where every handle
//! finds them. So the read may take for ever, and the handles that asked may go.
//!
//! # States
//! All state is under one lock:
//! - the bytes that were read and not yet taken, or how the last read ended, if it brought none;
//! - whether bytes are *wanted*, and how many;
//! - whether there is a *thread*;
//! - the handles with their wakers.
//!
//! # Steps
//! ```text
//! Poll (a handle)                            Read (the thread)
//!   TakeBytes  bytes or an end are there:      AwaitDemand  wait until bytes are wanted; leave after some
//!              take them, Ready                             seconds: no thread
//!   Demand     if bytes are not wanted yet:    ReadBytes    without the lock
//!              they are; wake the thread; if   Deposit      the bytes or the end are there; none are wanted;
//!              there is none, start one                     take all wakers; unlock; wake
//!   Register   the handle's waker; Pending
//! ```
//! Foreign wakers are called on threads of their own (`locked.rs`): a waker that blocks would keep the thread
//! from the next demand.
//!
//! # No handle waits in vain
//! **While a handle waits, bytes are wanted, and there is a thread on its way to `Deposit`.** `Demand` makes
//! both true, in the step in which the handle begins to wait (`locked.rs`). Only `Deposit` ends the first.
//! Only `AwaitDemand` ends the second, and it looks for a demand under the same lock. `Deposit` wakes all
//! handles. A handle that finds nothing left demands again. A thread that the system refuses counts as gone:
//! the demand is taken back, all handles are woken, and each gets the error of its own try.
//!
//! **No byte is lost**: bytes are only wanted when none are there, so `Deposit` overwrites nothing.

use std::io;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use crate::coop;
use crate::io::ReadBuf;
use crate::io::locked::{Users, poll_locked, wake_all};
use crate::loom::sync::{Condvar, Mutex};
use crate::util::unwind::FirstPanic;

/// How long the thread stays when no bytes are wanted.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The largest number of bytes of one read, which is Tokio's.
const MOST: usize = 2 << 20;

/// The size of the memory that is kept for the next read.
const KEPT: usize = 64 << 10;

/// An input that a thread reads for all handles.
#[derive(Debug, Default)]
pub struct Input {
    state: Mutex<InputState>,
    wanted: Condvar,
}

#[derive(Debug, Default)]
struct InputState {
    /// The bytes that were read. Those from `start` on have not been taken.
    bytes: Vec<u8>,
    start: usize,
    /// How a read ended that brought no bytes: at the end, or with an error. The next handle takes it.
    end: Option<io::Result<()>>,
    /// The number of bytes that are wanted, or zero.
    wanted: usize,
    has_thread: bool,
    handles: Users<()>,
}

impl InputState {
    /// Takes bytes, or the end of a read, if there are any.
    fn take(&mut self, buf: &mut ReadBuf<'_>) -> Option<io::Result<()>> {
        let bytes = &self.bytes[self.start..];
        if bytes.is_empty() && buf.remaining() > 0 {
            return self.end.take();
        }
        let n = bytes.len().min(buf.remaining());
        buf.put_slice(&bytes[..n]);
        self.start += n;
        Some(Ok(()))
    }
}

impl Input {
    /// Creates an input that no thread reads yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a handle, and returns its number.
    pub fn enter(&self) -> usize {
        self.state.lock().handles.enter(())
    }

    /// Removes a handle.
    pub fn leave(&self, handle: usize) {
        let left = self.state.lock().handles.leave(handle);
        drop(left);
    }

    /// Reads for a handle. `start` must start a thread that calls [`run`](Self::run).
    pub fn poll_read(
        &self,
        cx: &mut Context<'_>,
        handle: usize,
        buf: &mut ReadBuf<'_>,
        start: impl FnOnce() -> io::Result<()>,
    ) -> Poll<io::Result<()>> {
        let coop = ready!(coop::poll_proceed(cx));
        let mut must_start = false;
        let attempt = |state: &mut InputState| {
            let result = state.take(buf);
            if result.is_none() && state.wanted == 0 {
                state.wanted = buf.remaining().min(MOST);
                must_start = !state.has_thread;
                state.has_thread = true;
                self.wanted.notify_one();
            }
            result
        };
        let mut panic = FirstPanic::new();
        let result =
            panic.catch(|| poll_locked(&self.state, cx, attempt, |state| state.handles.waker(handle)));
        // This also happens if a result came in between, or if the waker's `clone` panicked, because other
        // handles rely on the thread.
        let refused = if must_start { start().inspect_err(|_| self.refused()).err() } else { None };
        panic.resume();
        if let Some(error) = refused {
            return Poll::Ready(Err(error));
        }
        let result = ready!(result.expect("a panic would have been resumed"));
        coop.made_progress();
        Poll::Ready(result)
    }

    /// Notes that there is no thread after all.
    #[cold]
    fn refused(&self) {
        let mut state = self.state.lock();
        state.has_thread = false;
        state.wanted = 0;
        let wakers = state.handles.take_wakers();
        drop(state);
        wake_all(wakers);
    }

    /// The life of the thread: calls `read` for bytes that are wanted, until none have been wanted for some
    /// seconds.
    pub fn run(&self, mut read: impl FnMut(&mut [u8]) -> io::Result<usize>) {
        // May be longer than the wanted number, so that each byte is cleared once.
        let mut bytes: Vec<u8> = Vec::new();
        while let Some(wanted) = self.await_demand() {
            if bytes.len() < wanted {
                bytes.resize(wanted, 0);
            }
            let result = read(&mut bytes[..wanted]);
            let mut state = self.state.lock();
            state.wanted = 0;
            match result {
                Ok(0) => state.end = Some(Ok(())),
                Ok(n) => {
                    state.start = 0;
                    state.bytes.clear();
                    state.bytes.extend_from_slice(&bytes[..n]);
                }
                Err(error) => state.end = Some(Err(error)),
            }
            let wakers = state.handles.take_wakers();
            drop(state);
            wake_all(wakers);
            if bytes.len() > KEPT {
                bytes = Vec::new();
            }
        }
    }

    /// Waits for a demand, and returns the number of wanted bytes. `None` if the thread must leave.
    fn await_demand(&self) -> Option<usize> {
        let deadline = Instant::now() + KEEP_ALIVE;
        let mut state = self.state.lock();
        let mut is_over = false;
        while state.wanted == 0 {
            if is_over {
                state.has_thread = false;
                return None;
            }
            is_over = self.wanted.wait_until(&mut state, deadline).timed_out();
        }
        Some(state.wanted)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
