//! Standard output: why the bytes that were written come out, in order, and every flush learns when.
//!
//! A write appends to a buffer, and no task waits for the system. A *drain*, a closure for the blocking pool,
//! empties the buffer and ends. While a drain works no other is started, so many small writes make few system
//! calls and wake few threads.
//!
//! # States
//! All state is under one lock. Bytes are counted from the first ever written. `accepted` is the end of the
//! buffer. The bytes below `flushed` have left the process. A handle wants all bytes below `flush_to` to
//! leave it. A runtime is *draining* if its blocking pool has a drain that will look once more before it
//! ends. *Writing*: a drain is between `TakeBatch` and `Report`.
//!
//! # Steps
//! ```text
//! Write, Flush (a handle)                    Drain (a thread of the pool)
//!   Accept     append; or wait for room; or    AwaitTurn  until no drain is writing
//!              want what was appended flushed  EndDrain   nothing to do: this runtime is not draining
//!   StartDrain if this runtime is not                     any more; gone
//!              draining: it is; unlock;        TakeBatch  the whole buffer; writing
//!              push a drain                    WriteBatch without the lock
//!                                              Report     how far it came; errors to the handles
//!                                                         whose bytes they concern; not writing; take
//!                                                         all wakers; unlock; wake
//! ```
//! Foreign wakers are called on threads of their own (`locked.rs`): a waker that blocks would keep the drain
//! from the next batch.
//!
//! # Nothing stays behind
//! **While there is something to do, a drain exists that has `EndDrain` still before it.** `StartDrain` makes
//! it so in the step of `Accept`. `EndDrain` finds nothing to do under the same lock. If two runtimes write
//! at once, each starts a drain. The end of each runtime waits for its own drain, and that drain waits for
//! its turn. So the bytes written on a runtime are out when it ends, whichever drain wrote them. Batches are
//! written in the order in which they were taken, because there is one turn.
//!
//! **Each runtime has one drain at most.** So output that does not get on, such as a full pipe, holds one
//! thread of each blocking pool.
//!
//! **A write that waits for room starts a drain, too.** The drain that is there may be another runtime's, and
//! may never begin, because all threads of that runtime's pool are stuck.
//!
//! **A drain that never begins**, because its runtime ends before, runs on a thread of its own when it is
//! dropped. The end of the runtime waits for that thread as for its other threads. A drain without a runtime
//! runs on a thread of its own, too; no runtime waits for that thread.
//!
//! # Rejected
//! - *A buffer and a closure for each handle*, as Tokio's: a write waits for the thread of the last one, and
//!   the output of two handles changes places.
//! - *Writing on the calling thread while `poll` says that there is room*: a thread that blocks may hold
//!   std's lock.

use std::io;
use std::mem;
use std::task::{Context, Poll, ready};

use crate::coop;
use crate::io::locked::{Users, poll_locked, wake_all};
use crate::loom::sync::{Condvar, Mutex};
use crate::runtime::handle::Handle;
use crate::scheduler::context;
use crate::scheduler::elsewhere::call_beside;
use crate::util::unwind::FirstPanic;

/// A write waits while the buffer has at least this number of bytes.
const FULL: usize = 64 << 10;

/// The largest number of bytes that a write takes at once, which is Tokio's.
const MOST: usize = 2 << 20;

/// The size of the memory that is kept for the next batch.
const KEPT: usize = 128 << 10;

/// An output that closures of the blocking pool write for all handles.
#[derive(Debug, Default)]
pub struct Output {
    state: Mutex<OutputState>,
    /// Notified when a drain stops writing.
    turn: Condvar,
}

#[derive(Debug, Default)]
struct OutputState {
    /// The bytes that were accepted and are in no batch.
    buffer: Vec<u8>,
    accepted: u64,
    flushed: u64,
    flush_to: u64,
    /// The runtimes that are draining: few.
    draining: Vec<Owner>,
    is_writing: bool,
    handles: Users<Written>,
}

/// A runtime, by its address; 0 for none.
pub type Owner = usize;

/// The current runtime.
pub fn owner() -> Owner {
    context::current().map_or(0, |shared| shared.as_ptr() as usize)
}

/// The bytes that a handle has written and that may not have left the process: some of `begin..end`.
#[derive(Debug, Default)]
struct Written {
    begin: u64,
    end: u64,
    error: Option<io::Error>,
}

impl OutputState {
    fn accept(&mut self, handle: usize, bytes: &[u8]) {
        let flushed = self.flushed;
        let written = self.handles.own(handle);
        if written.end <= flushed {
            written.begin = self.accepted;
        }
        self.buffer.extend_from_slice(bytes);
        self.accepted += bytes.len() as u64;
        written.end = self.accepted;
    }

    fn has_work(&self) -> bool {
        !self.buffer.is_empty() || self.flush_to > self.flushed
    }

    /// `StartDrain`. Returns whether the caller must push a drain.
    fn start_drain(&mut self, owner: Owner) -> bool {
        let must_start = !self.draining.contains(&owner);
        if must_start {
            self.draining.push(owner);
        }
        must_start
    }

    /// `EndDrain`.
    fn end_drain(&mut self, owner: Owner) {
        self.draining.retain(|&other| other != owner);
    }

    /// Notes that all bytes up to `end` have left the process, or are lost with an error. The error goes to
    /// the handles whose bytes it may concern.
    fn report(&mut self, end: u64, error: Option<io::Error>) {
        for written in self.handles.all() {
            if let Some(error) = &error {
                if written.begin < end && written.end > self.flushed {
                    written.error.get_or_insert_with(|| copy_of(error));
                }
            }
        }
        self.flushed = end;
    }
}

/// Copies an error of a write. It has a number of the system, or only a kind.
fn copy_of(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => error.kind().into(),
    }
}

impl Output {
    /// Creates an output without a write so far.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a handle, and returns its number.
    pub fn enter(&self) -> usize {
        self.state.lock().handles.enter(Written::default())
    }

    /// Removes a handle. The bytes that it has written stay.
    pub fn leave(&self, handle: usize) {
        let left = self.state.lock().handles.leave(handle);
        drop(left);
    }

    /// Writes for a handle. `start` must push a drain on the runtime `owner`.
    pub fn poll_write(
        &self,
        cx: &mut Context<'_>,
        (handle, owner): (usize, Owner),
        buf: &[u8],
        start: impl FnOnce(),
    ) -> Poll<io::Result<usize>> {
        let bytes = &buf[..whole_characters(buf, MOST)];
        self.poll(cx, (handle, owner), start, |state| {
            if bytes.is_empty() {
                return (Some(0), false);
            }
            if state.buffer.len() >= FULL {
                // The drain of another runtime may never begin.
                return (None, true);
            }
            state.accept(handle, bytes);
            (Some(bytes.len()), true)
        })
    }

    /// Flushes for a handle. `start` must push a drain on the runtime `owner`.
    pub fn poll_flush(
        &self,
        cx: &mut Context<'_>,
        (handle, owner): (usize, Owner),
        start: impl FnOnce(),
    ) -> Poll<io::Result<()>> {
        self.poll(cx, (handle, owner), start, |state| {
            let end = state.handles.own(handle).end;
            if end <= state.flushed {
                return (Some(()), false);
            }
            state.flush_to = state.flush_to.max(end);
            (None, true)
        })
    }

    /// The common part of writes and flushes. `attempt` returns the result, and whether a drain has something
    /// to do.
    fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        (handle, owner): (usize, Owner),
        start: impl FnOnce(),
        mut attempt: impl FnMut(&mut OutputState) -> (Option<T>, bool),
    ) -> Poll<io::Result<T>> {
        let coop = ready!(coop::poll_proceed(cx));
        let mut must_start = false;
        let attempt = |state: &mut OutputState| {
            if let Some(error) = state.handles.own(handle).error.take() {
                return Some(Err(error));
            }
            let (result, needs_drain) = attempt(state);
            must_start |= needs_drain && state.start_drain(owner);
            result.map(Ok)
        };
        let mut panic = FirstPanic::new();
        let result =
            panic.catch(|| poll_locked(&self.state, cx, attempt, |state| state.handles.waker(handle)));
        // Also if the waker's `clone` panicked, because other handles rely on the drain.
        if must_start {
            start();
        }
        panic.resume();
        let result = result.expect("a panic would have been resumed");
        if result.is_ready() {
            coop.made_progress();
        }
        result
    }

    /// The work of a drain of `owner`. `write` gets a batch and whether to flush, and returns whether the
    /// stream holds nothing back.
    pub fn drain(&self, owner: Owner, mut write: impl FnMut(&[u8], bool) -> io::Result<bool>) {
        let mut batch = Vec::new();
        loop {
            let mut state = self.state.lock();
            while state.is_writing {
                self.turn.wait(&mut state);
            }
            if !state.has_work() {
                state.end_drain(owner);
                return;
            }
            state.is_writing = true;
            mem::swap(&mut state.buffer, &mut batch);
            let (end, flush) = (state.accepted, state.flush_to > state.flushed);
            drop(state);
            let result = write(&batch, flush);
            let mut state = self.state.lock();
            match result {
                Ok(true) => state.report(end, None),
                Ok(false) => {}
                Err(error) => state.report(end, Some(error)),
            }
            state.is_writing = false;
            self.turn.notify_all();
            let wakers = state.handles.take_wakers();
            drop(state);
            batch.clear();
            if batch.capacity() > KEPT {
                batch = Vec::new();
            }
            wake_all(wakers);
        }
    }
}

/// The number of bytes to take, at most `most`. If it is not all, no character is cut.
fn whole_characters(bytes: &[u8], most: usize) -> usize {
    if bytes.len() <= most {
        return bytes.len();
    }
    // A character has up to three bytes after its first.
    let is_first = |index: &usize| bytes[*index] & 0b1100_0000 != 0b1000_0000;
    (most - 3..=most).rev().find(is_first).unwrap_or(most)
}

/// Writes a batch; see [`Output::drain`].
pub type Write = fn(&[u8], bool) -> io::Result<bool>;

/// A drain that has been pushed and has not begun. Its drop runs it all the same.
pub struct Drain {
    output: &'static Output,
    owner: Owner,
    /// There until the drain begins.
    write: Option<Write>,
    /// Kept, so that no other runtime gets its address.
    runtime: Option<Handle>,
}

impl Drain {
    /// Pushes a drain on the current runtime, which is the `owner`.
    pub fn start(owner: Owner, output: &'static Output, write: Write) {
        match Handle::try_current() {
            Ok(handle) => {
                let drain = Self { output, owner, write: Some(write), runtime: Some(handle.clone()) };
                drop(handle.spawn_blocking(move || drain.run()));
            }
            // The drop runs the drain.
            Err(_) => drop(Self { output, owner, write: Some(write), runtime: None }),
        }
    }

    fn run(mut self) {
        if let Some(write) = self.write.take() {
            self.output.drain(self.owner, write);
        }
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        let Some(write) = self.write.take() else {
            return;
        };
        let (output, owner) = (self.output, self.owner);
        let runtime = self.runtime.as_ref().map(|runtime| runtime.reference().clone());
        call_beside(runtime, move || output.drain(owner, write));
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
