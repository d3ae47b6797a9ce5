//! Marking a thread as blocked, so that a spare worker comes, and so that deadlocks are found.

use std::panic::Location;

use crate::runtime::handle::Handle;
use crate::scheduler::deadlock::{self, AnnouncedMark, ExternalMark};

/// A thread's statement that it is blocked, made by [`mark_blocked`].
///
/// Before the blocked thread goes on, the thread that unblocks it takes the mark back, by [`mark_unblocked`]
/// or by dropping the mark.
///
/// If a mark is forgotten, its thread stays marked until the thread has no more work, or until its `block_on`
/// or blocking closure ends. Until then, a deadlock may be reported where there is none. A forgotten mark of a
/// thread that runs its own parallel call, see [`join`](super::join), counts for good.
#[derive(Debug)]
#[must_use = "the thread counts as blocked until the mark is dropped"]
pub struct Mark {
    _external: Option<ExternalMark>,
    /// None if no runtime knows the thread.
    _mark: Option<AnnouncedMark>,
}

/// Marks the calling thread as blocked: it is about to wait for something that another thread will do.
///
/// - Tasks and jobs in this worker's queues, and its part in the driver, go to other workers. On a
///   multi-thread runtime a spare worker compensates for it, as in
///   [`block_in_place`](crate::task::block_in_place). (A `ThreadPool` has no spare workers.)
/// - If the runtime or pool has a [`deadlock_handler`](crate::Builder::deadlock_handler), the handler is
///   called when nothing is left that could unblock the thread.
///
/// Until another call takes the mark back, the thread should only block. The mark may be sent to the thread
/// that will unblock this one, which calls [`mark_unblocked`] first. If the blocked thread called it after it
/// has woken, it would be marked for a moment while nothing blocks it. If there is no other thread to do so,
/// for example because the wait is for a pipe or another process, use [`blocking`].
///
/// A thread may be marked several times. It is blocked until the last mark is gone. A non-worker thread
/// counts if it is inside of a `block_on` or a blocking closure of the current runtime, and that runtime has
/// a deadlock handler. Otherwise its mark only lets other threads take what a parallel call there has split
/// off. On a thread that works for several runtimes at once, the mark belongs to the current runtime. For the
/// others, the thread is awake.
///
/// # Examples
/// A job waits for a value that a thread outside provides:
/// ```
/// use runtime::parallel::{Mark, mark_blocked, mark_unblocked};
/// use std::sync::mpsc::{Sender, channel};
///
/// let (marks, waiting) = channel::<(Mark, Sender<i32>)>();
/// let provider = std::thread::spawn(move || {
///     let (mark, answer) = waiting.recv().unwrap();
///     mark_unblocked(mark);
///     answer.send(7).unwrap();
/// });
/// let runtime = runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
/// let task = runtime.spawn(async move {
///     let (answer, get) = channel();
///     marks.send((mark_blocked(), answer)).unwrap();
///     get.recv().unwrap()
/// });
/// assert_eq!(runtime.block_on(task).unwrap(), 7);
/// provider.join().unwrap();
/// ```
///
/// Prior art: `rayon_core::mark_blocked` of Rayon's older sleep module, as in rustc's copy. There the second
/// call names a registry.
#[track_caller]
pub fn mark_blocked() -> Mark {
    // First: it shares the thread's child jobs.
    let external = ExternalMark::begin();
    Mark { _external: external, _mark: deadlock::mark(Location::caller()) }
}

/// Takes a mark back, because its thread is about to go on. Call it before the thread goes on. Any thread may
/// call it, and dropping the mark does the same.
pub fn mark_unblocked(mark: Mark) {
    drop(mark);
}

/// Runs `f`, which waits for something that the runtime does not know, such as a pipe or another process.
/// Meanwhile other threads take over this worker's tasks.
///
/// As [`block_in_place`](crate::task::block_in_place). In addition, nothing counts as a deadlock in a runtime
/// while `f` runs on a thread that has entered the runtime. So it is also for a thread outside that is going
/// to unblock another thread.
///
/// This takes a closure, because a guard could be forgotten, so that detection would be off for good, or
/// dropped on another thread than the one that blocks.
///
/// # Examples
/// ```
/// let output = runtime::parallel::blocking(|| std::process::Command::new("true").output());
/// assert!(output.unwrap().status.success());
/// ```
#[track_caller]
pub fn blocking<R>(f: impl FnOnce() -> R) -> R {
    let handle = Handle::try_current().ok();
    let _expecting = handle.as_ref().and_then(|handle| handle.shared().expect());
    // A pool is no thread's current runtime, so `_expecting` is not for pools. But a pool's thread counts as
    // awake while it runs `f`.
    crate::task::block_in_place(f)
}
