//! Which task the calling thread runs.

use std::cell::Cell;

use super::cell::Header;
use super::id::Id;
use crate::coop;
use crate::loom::thread_cell;
use crate::util::surroundings::surroundings;

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
