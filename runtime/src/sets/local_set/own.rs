//! The half of a set's state that only the thread touches that made the set; see `scheduler.rs`.

use super::calls::Calls;
use crate::queue::IntrusiveList;
use crate::task::Header;
use crate::util::slots::Slots;

/// The part that only the owner touches.
pub(super) struct Own {
    /// The tasks that are to be polled, oldest first.
    pub(super) queue: IntrusiveList<Header>,
    /// The tasks that have waited.
    pub(super) tasks: Slots<Header>,
    /// The number of tasks whose futures are not gone.
    pub(super) live: usize,
    /// The number of these that are being polled or cancelled on the stack of this thread.
    pub(super) running: usize,
    /// Whether the task that was begun last on this stack is not counted in `running` any more. Its future is
    /// gone, or it is in the run queue again. What is left of its run may be foreign code.
    pub(super) is_uncounted: bool,
    /// The number of tasks that were taken from the queues.
    pub(super) ticks: u32,
    /// The references of the set, of guards and of cells, until the set is gone.
    pub(super) references: usize,
    /// Whether a poll of the set has begun on this thread, and no other has ended since. An outer poll, in
    /// which one has ended, may be in a `block_on` that waits for the tasks.
    pub(super) is_polled: bool,
    /// The calls of `run_until` that go on.
    pub(super) calls: Calls,
    /// Whether the set's drop has begun.
    pub(super) is_closed: bool,
    /// Whether `references` was added to `left`.
    pub(super) is_left: bool,
    /// Whether a task's panic ends the set; see `LocalSet::unhandled_panic`.
    pub(super) ends_by_panic: bool,
    /// Whether a panic has ended the set.
    pub(super) has_panicked: bool,
}

impl Own {
    /// With a reference for the set.
    pub(super) fn new() -> Self {
        Self {
            queue: IntrusiveList::new(),
            tasks: Slots::new(),
            live: 0,
            running: 0,
            is_uncounted: false,
            ticks: 0,
            references: 1,
            is_polled: false,
            calls: Calls::new(),
            is_closed: false,
            is_left: false,
            ends_by_panic: false,
            has_panicked: false,
        }
    }

    /// The task that was begun last does not run any more.
    pub(super) fn uncount(&mut self) {
        self.running -= 1;
        self.is_uncounted = true;
    }
}
