//! What a deadlock handler gets.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Instant;

/// The handler that is called with a deadlock.
pub type DeadlockHandler = Arc<dyn Fn(&Deadlock) + Send + Sync>;

/// A deadlock, as passed to a [`deadlock_handler`](crate::Builder::deadlock_handler).
///
/// Its `Display` is a line for each blocked thread.
#[derive(Debug, Clone)]
pub struct Deadlock {
    pub(crate) blocked: Vec<Blocked>,
}

impl Deadlock {
    /// Returns the blocked threads, once for each mark that was not taken back. The oldest mark comes first.
    /// There is at least one.
    pub fn blocked(&self) -> &[Blocked] {
        &self.blocked
    }
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "every thread of the runtime is asleep or blocked, and nothing is left to wake one")?;
        self.blocked.iter().try_for_each(|blocked| write!(f, "\n{blocked}"))
    }
}

/// A thread that [`mark_blocked`](crate::parallel::mark_blocked) has marked and that was not unmarked.
#[derive(Debug, Clone)]
pub struct Blocked {
    pub(crate) thread_name: Option<String>,
    pub(crate) worker: Option<usize>,
    pub(crate) location: &'static Location<'static>,
    pub(crate) since: Instant,
}

impl Blocked {
    /// Returns the name of the thread, if it has one.
    pub fn thread_name(&self) -> Option<&str> {
        self.thread_name.as_deref()
    }

    /// Returns the worker's index. `None` for a spare worker, and for a thread in a `block_on` or a blocking
    /// closure.
    pub fn worker(&self) -> Option<usize> {
        self.worker
    }

    /// Returns where `mark_blocked` was called.
    pub fn location(&self) -> &'static Location<'static> {
        self.location
    }

    /// Returns when `mark_blocked` was called.
    pub fn since(&self) -> Instant {
        self.since
    }
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { worker, location, since, .. } = self;
        write!(f, "thread {}", self.thread_name().unwrap_or("without a name"))?;
        worker.iter().try_for_each(|worker| write!(f, " on worker {worker}"))?;
        write!(f, ", blocked at {location} for {:.1?}", since.elapsed())
    }
}
