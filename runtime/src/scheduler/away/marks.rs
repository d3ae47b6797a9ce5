//! The marks of threads that block, and the report of a deadlock among them; see `deadlock.rs`.

use std::fmt;

use crate::config::{Blocked, Deadlock, DeadlockHandler};
use crate::coop;
use crate::loom::sync::Mutex;
use crate::loom::sync::atomic::AtomicUsize;
use crate::util::unwind;

/// The marks of one runtime or pool; see the module's docs.
#[derive(Debug, Default)]
pub struct Marks {
    /// The number of marks that stand. 0 without a handler.
    pub(super) announced: AtomicUsize,
    pub(super) state: Mutex<MarkTable>,
}

#[derive(Debug, Default)]
pub(super) struct MarkTable {
    pub(super) marks: Vec<Marked>,
    /// The number of marks made so far.
    pub(super) made: u64,
    /// The threads in a `block_on`, one entry for each call. Only with a handler.
    pub(super) block_ons: Vec<ThreadToken>,
    /// The number of open [`expect`](crate::scheduler::Shared::expect) calls. Each says that something
    /// outside is under way.
    pub(super) expecting: usize,
    /// Whether nothing was marked or unmarked since the last report.
    pub(super) is_reported: bool,
}

#[derive(Debug)]
pub(super) struct Marked {
    pub(super) number: u64,
    pub(super) marked_as: MarkedAs,
    pub(super) thread: ThreadToken,
    /// Whether the thread runs a blocking closure, perhaps one that is in a `block_on`.
    pub(super) is_in_closure: bool,
    /// Whether the thread has exposed its queues, so that it counts as blocked.
    pub(super) is_announced: bool,
    /// Whether `away/mod.rs` counts the worker as blocked, once for all its marks of this kind.
    pub(super) is_compensated: bool,
    pub(super) blocked: Blocked,
}

/// The role in which a thread is marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MarkedAs {
    Worker(usize),
    BlockOn,
    Closure,
}

/// Identifies a live thread.
pub(super) type ThreadToken = usize;

impl MarkTable {
    pub(super) fn is_worker_marked(&self, index: usize) -> bool {
        self.marks.iter().any(|entry| entry.is_announced && entry.marked_as == MarkedAs::Worker(index))
    }

    /// How many threads that run blocking closures are marked.
    pub(super) fn marked_closures(&self) -> usize {
        let is_meant = |entry: &&Marked| entry.is_announced && entry.is_in_closure;
        let mut threads: Vec<_> = self.marks.iter().filter(is_meant).map(|entry| entry.thread).collect();
        threads.sort_unstable();
        threads.dedup();
        threads.len()
    }
}

/// A deadlock that the handler has yet to be told of.
#[must_use = "it counts as reported"]
pub struct Report {
    pub(super) handler: DeadlockHandler,
    pub(super) deadlock: Deadlock,
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Report").field("deadlock", &self.deadlock).finish_non_exhaustive()
    }
}

impl Report {
    /// Calls the handler on this thread. The thread holds no lock.
    pub fn deliver(self) {
        let Self { handler, deadlock } = self;
        // As for a hook: the panic hook has reported a panic already.
        unwind::drop_quietly(unwind::catch(|| coop::suspended(|| handler(&deadlock))));
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
