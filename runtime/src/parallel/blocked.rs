//! Saying that a thread blocks: so that a spare worker comes, and for finding deadlocks.

use std::panic::Location;

use crate::handle::Handle;
use crate::scheduler::deadlock::{self, Standing};

/// A thread's word that it is blocked, made by [`mark_blocked`].
///
/// The thread that unblocks it takes the mark back, by [`mark_unblocked`] or by dropping it, before the
/// blocked thread goes on.
///
/// A mark that is forgotten leaves its thread marked until the thread has no more work, or its `block_on` or
/// blocking closure ends; until then a deadlock may be reported that is none.
#[derive(Debug)]
#[must_use = "the thread counts as blocked until the mark is dropped"]
pub struct Mark {
    /// None if no runtime knows the thread.
    _standing: Option<Standing>,
}

/// Marks the calling thread as blocked: it is about to wait for something that another thread will do.
///
/// - Tasks and jobs that wait in this worker's queues, and its share in the driver, go to others; on a
///   multi-thread runtime a spare thread takes over, as in [`block_in_place`](crate::task::block_in_place).
///   (A `ThreadPool` has no spare threads.)
/// - If the runtime or pool has a [`deadlock_handler`](crate::Builder::deadlock_handler), it is told when
///   nothing is left that could unblock the thread.
///
/// Until another call takes the mark back, the thread should only block. The mark may be sent to the thread
/// that will unblock this one, which calls [`mark_unblocked`] first: were the blocked thread to do that when
/// it has woken, it would for a moment be marked while nothing keeps it. If only one thread is at hand, as
/// when the wait is for a pipe or another process, use [`blocking`].
///
/// A thread may be marked several times; it is blocked until the last mark is gone. A thread that is no
/// worker counts if it is inside of a `block_on` or a blocking closure of the current runtime, which has a
/// deadlock handler; else its mark only leaves to others what a parallel call there has split off. On a
/// thread that works for several runtimes at once, it is the current one's mark: for the others, the thread
/// is awake.
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
/// Prior art: `rayon_core::mark_blocked` of Rayon's older sleep module, as rustc has it; there the second
/// call names a registry.
#[track_caller]
pub fn mark_blocked() -> Mark {
    Mark { _standing: deadlock::mark(Location::caller()) }
}

/// Takes a mark back: its thread is about to go on. Called before it does, on any thread; as dropping the
/// mark.
pub fn mark_unblocked(mark: Mark) {
    drop(mark);
}

/// Runs `f`, which waits for something that the runtime does not know, such as a pipe or another process,
/// while other threads take over this worker's tasks.
///
/// As [`block_in_place`](crate::task::block_in_place); and while `f` runs, on any thread that has entered a
/// runtime, nothing counts as a deadlock there. So it is also for a thread outside that is going to unblock
/// another thread.
///
/// This takes a closure, where a guard could be forgotten, and detection would be off for good, or be dropped
/// on another thread than the one that blocks.
///
/// # Examples
/// ```
/// let output = runtime::parallel::blocking(|| std::process::Command::new("true").output());
/// assert!(output.unwrap().status.success());
/// ```
#[track_caller]
pub fn blocking<R>(f: impl FnOnce() -> R) -> R {
    let handle = Handle::try_current().ok();
    let _expecting = handle.as_ref().map(|handle| handle.shared().expect());
    // A thread of a pool is awake for it anyway: a pool is no thread's current runtime.
    crate::task::block_in_place(f)
}
