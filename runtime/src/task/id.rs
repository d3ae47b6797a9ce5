//! Ids of tasks.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::cell::Header;
use crate::coop;
use crate::loom::thread_cell;
use crate::util::surroundings::surroundings;

/// The id of a task, unique among all tasks of the process, including ended ones.
///
/// Prior art: `tokio::task::Id`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(pub(crate) u64);

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({})", self.0)
    }
}

/// Returns the id of the task that this thread polls, or of the closure of
/// [`spawn_blocking`](crate::task::spawn_blocking) that it runs.
///
/// # Panics
/// Outside of a task; see [`try_id`].
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let handle = runtime::spawn(async { runtime::task::id() });
/// let id = handle.id();
/// assert_eq!(handle.await.unwrap(), id);
/// # });
/// ```
#[track_caller]
pub fn id() -> Id {
    try_id().expect("`task::id` needs a task: call it in a spawned future, or use `task::try_id`")
}

/// Returns the id of the task that this thread polls, or of the closure of
/// [`spawn_blocking`](crate::task::spawn_blocking) that it runs; `None` outside of both.
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// assert_eq!(runtime::task::try_id(), None, "the future of a `block_on` is no task");
/// let closure = runtime::task::spawn_blocking(runtime::task::try_id);
/// let id = closure.id();
/// assert_eq!(closure.await.unwrap(), Some(id));
/// # });
/// ```
pub fn try_id() -> Option<Id> {
    let header = coop::current_task_data().cast::<Header>();
    // SAFETY: the pointer is null, or the task that this thread is polling. The cell of such a task is live,
    // and its id never changes.
    let polled = unsafe { header.as_ref() }.map(|header| Id(header.id));
    polled.or_else(outside_of_polls)
}

thread_cell! {
    /// The id of code outside of polls, and the surroundings in which the code has it.
    static OUTSIDE_OF_POLLS: Cell<Option<(Id, u64)>> = Cell::new(None);
}

/// The id that [`with_id`] gave to the code that this thread runs.
fn outside_of_polls() -> Option<Id> {
    let (id, number) = OUTSIDE_OF_POLLS.with(Cell::get)?;
    // A job that this thread runs while the code waits is not a part of the code.
    (number == surroundings()).then_some(id)
}

/// Runs `f`, which is not a poll, with `id` as the id of its task. A task that is polled inside of `f` has
/// its own.
pub fn with_id<R>(id: Option<Id>, f: impl FnOnce() -> R) -> R {
    struct Restore(Option<(Id, u64)>);
    impl Drop for Restore {
        fn drop(&mut self) {
            OUTSIDE_OF_POLLS.with(|current| current.set(self.0));
        }
    }
    let _restore = Restore(replace(id));
    f()
}

fn replace(id: Option<Id>) -> Option<(Id, u64)> {
    let new = id.map(|id| (id, surroundings()));
    OUTSIDE_OF_POLLS.with(|current| current.replace(new))
}

/// The number of ids that a thread takes at a time, so that spawning writes no cache line that other threads
/// write.
const BLOCK: u64 = 1 << 16;

static NEXT_BLOCK: AtomicU64 = AtomicU64::new(0);

thread_cell! {
    /// This thread's next id; a multiple of [`BLOCK`] if its block is used up.
    static NEXT: Cell<u64> = Cell::new(0);
}

/// Makes a new id.
#[inline]
pub fn next() -> u64 {
    NEXT.with(|names| {
        let next = match names.get() {
            used_up if used_up % BLOCK == 0 => first_of_block(),
            next => next,
        };
        names.set(next + 1);
        next
    })
}

/// The first id of a new block. The multiple of [`BLOCK`] itself is left out, because it means that a block
/// is used up.
#[cold]
#[inline(never)]
fn first_of_block() -> u64 {
    // Relaxed: only uniqueness matters.
    NEXT_BLOCK.fetch_add(BLOCK, Relaxed) + 1
}
