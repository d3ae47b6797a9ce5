//! Injected jobs, which come from outside of the workers, and how long the workers stay for them.
//!
//! An *injected job* begins a computation. There are three kinds: `install` (a thread waits for it),
//! `compute` (a task waits for it, or nothing), and `spawn` from a thread without a job processor (nothing
//! waits for it). A thread that waits for a child job may run the first kind but not the others, so the kinds
//! have separate queues.
//!
//! # Closing
//! A job may need every worker (`broadcast`), and a job that is spawned during the shutdown still runs. So
//! the workers leave together (`lifecycle.rs`):
//! ```text
//! live   one word: the number of injected and detached jobs that have not ended, and of threads that count
//!        as one; CLOSING, once the shutdown has begun; CLOSED
//!
//! CountJob      a job is pushed: live += 1, unless CLOSED
//! UncountJob    it has ended: live -= 1; the last one, if CLOSING, unparks all
//! BeginClosing  the shutdown begins: CLOSING, then all are unparked
//! CloseJobs     all workers have arrived: looks at the number; if it is 0, looks whether work is visible;
//!               if none is, 0 → CLOSED (CAS). No worker leaves before one has succeeded
//! ```
//! `CountJob` and `CloseJobs` are read-modify-writes of one word. Either the injected job is counted and
//! `CloseJobs` fails, so all workers stay until `UncountJob`. Or `CountJob` finds CLOSED, and the caller runs
//! the injected job itself, in place, or takes a scope elsewhere (`parallel/enter.rs`). `UncountJob` and
//! `BeginClosing` are read-modify-writes of that word, too. If `BeginClosing` comes first, `UncountJob`
//! unparks all workers. If `UncountJob` comes first, a worker that is unparked behind `BeginClosing` finds
//! nothing counted. (If `BeginClosing` set a flag of its own, `UncountJob` could miss it, and a worker behind
//! `BeginClosing` could miss `UncountJob`.)
//!
//! `CloseJobs` looks whether work is visible *behind* its look at the number. So it sees what was queued by a
//! job, or by a thread that counts as one (`Shared::as_job`), mostly the monitor, before `UncountJob`. The
//! other way round, that thread could claim the tasks of a table, then queue them between the two looks and
//! end, and the workers would leave these tasks to the last of them, which cancels one after the other. If
//! the thread counts itself behind the look at the number, it finds nothing: all workers have arrived, and
//! before that they have claimed all tables and emptied all queues.
//!
//! `inject.rs` queues jobs and wakes workers for them, `run.rs` runs them.

use crate::job::{JobRef, Tag};
use crate::loom::sync::Mutex;
use crate::loom::sync::atomic::AtomicUsize;
use crate::loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::queue::LockedList;
use crate::task::Runnable;

/// The workers take no injected job any more.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// The shutdown has begun.
const CLOSING: usize = CLOSED >> 1;

/// An injected job that no thread waits for.
#[derive(Debug)]
pub enum Injected {
    /// `spawn`.
    Spawn(JobRef),
    /// `compute`.
    Compute(Runnable),
}

/// See the module's docs.
#[derive(Debug)]
pub struct InjectedJobs {
    live: AtomicUsize,
    pub(super) installs: LockedList<JobRef>,
    pub(super) injected: LockedList<Injected>,
    /// Held while the jobs of one broadcast are queued, so that all workers have broadcasts in one order. The
    /// calls of one may wait for each other.
    pub(super) broadcasts: Mutex<()>,
}

impl InjectedJobs {
    pub fn new() -> Self {
        Self {
            live: AtomicUsize::new(0),
            installs: LockedList::new(),
            injected: LockedList::new(),
            broadcasts: Mutex::new(()),
        }
    }

    /// `CountJob`. Returns false once the workers are leaving.
    pub fn try_begin(&self) -> bool {
        // Relaxed: this word guards no other data. The lock of the job's list hands the job over.
        let before = self.live.fetch_add(1, Relaxed);
        if before & CLOSED != 0 {
            self.live.fetch_sub(1, Relaxed);
            return false;
        }
        true
    }

    /// `UncountJob`. Returns true if the caller has to unpark all workers.
    pub fn end(&self) -> bool {
        // Release: pairs with `CloseJobs`, so that a worker that leaves sees what the injected jobs did.
        self.live.fetch_sub(1, Release) == CLOSING | 1
    }

    /// `BeginClosing`. The caller unparks all workers.
    pub fn begin_closing(&self) {
        // Relaxed: one word; the unparks come after it.
        self.live.fetch_or(CLOSING, Relaxed);
    }

    /// `CloseJobs`. Returns whether the workers may leave. Called once the shutdown has begun. `is_idle` says
    /// that no work is visible.
    pub fn try_close(&self, is_idle: impl FnOnce() -> bool) -> bool {
        // Acquire: pairs with `UncountJob`, for `is_idle` and for the worker that leaves.
        let live = self.live.load(Acquire);
        if live != CLOSING || !is_idle() {
            return live & CLOSED != 0;
        }
        match self.live.compare_exchange(CLOSING, CLOSING | CLOSED, Acquire, Acquire) {
            Ok(_) => true,
            Err(actual) => actual & CLOSED != 0,
        }
    }

    /// Whether `CloseJobs` has succeeded: from now on [`try_begin`](Self::try_begin) returns false.
    pub fn is_closed(&self) -> bool {
        // Relaxed: as `CountJob`.
        self.live.load(Relaxed) & CLOSED != 0
    }

    /// The last worker has left; perhaps it never ran. No injected job is taken any more.
    pub fn close(&self) {
        // Relaxed: as `CountJob`.
        self.live.fetch_or(CLOSED, Relaxed);
    }

    /// Whether an injected job or a detached job waits or runs: a hint. Also true once the shutdown has
    /// begun, because CLOSING counts.
    pub fn is_any_live(&self) -> bool {
        // Acquire: if a thread reads 0 behind a fence, its read came before the push of the injected job.
        self.live.load(Acquire) & !CLOSED != 0
    }

    /// Takes an injected job that a waiter of the isolated region `tag` may run.
    pub fn take_install(&self, tag: Tag) -> Option<JobRef> {
        // A job that comes back to this pool by way of another one may be in a region of its own there.
        // SAFETY: (1) a thread runs the job when it has taken it out, under the lock that is held here.
        self.installs.take_first(|job| unsafe { job.is_for(tag) })
    }

    /// Whether [`take_install`](Self::take_install) would find something.
    pub fn has_install(&self, tag: Tag) -> bool {
        // SAFETY: (1) as above.
        self.installs.has(|job| unsafe { job.is_for(tag) })
    }

    pub fn has_installs(&self) -> bool {
        !self.installs.is_empty()
    }

    pub fn has_injected(&self) -> bool {
        !self.injected.is_empty()
    }

    pub(super) fn take_injected(&self) -> Option<Injected> {
        self.injected.pop_front()
    }

    /// Whether an injected job waits: a hint.
    pub fn has_any(&self) -> bool {
        self.has_installs() || self.has_injected()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
