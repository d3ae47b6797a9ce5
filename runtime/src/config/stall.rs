//! What [`Builder::on_stall`](crate::Builder::on_stall) gets.

use std::fmt;
use std::panic::Location;
use std::time::Duration;

use crate::task::Id;

/// A worker that was found stuck in one poll of a task; the argument of
/// [`Builder::on_stall`](crate::Builder::on_stall).
///
/// Its `Display` is one line with all that is known.
#[derive(Clone)]
pub struct Stall {
    worker: usize,
    is_spare: bool,
    id: Id,
    spawned_at: &'static Location<'static>,
    held_for: Duration,
}

impl Stall {
    pub(crate) fn new(
        worker: usize,
        is_spare: bool,
        id: Id,
        spawned_at: &'static Location<'static>,
        held_for: Duration,
    ) -> Self {
        Self { worker, is_spare, id, spawned_at, held_for }
    }

    /// Returns the index of the worker. That of a spare worker is not below the number of workers.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// Returns whether the worker is a spare worker, which polls tasks while other workers
    /// block, compute or are stuck.
    pub fn is_spare(&self) -> bool {
        self.is_spare
    }

    /// Returns the id of the task that is being polled.
    pub fn task_id(&self) -> Id {
        self.id
    }

    /// Returns the line that spawned that task.
    pub fn spawned_at(&self) -> &'static Location<'static> {
        self.spawned_at
    }

    /// Returns for how long the worker has been seen in this poll.
    ///
    /// The time is a lower bound. The poll began up to one look of the monitor (5 ms) before the monitor
    /// first saw it.
    pub fn held_for(&self) -> Duration {
        self.held_for
    }
}

impl fmt::Debug for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stall")
            .field("worker", &self.worker)
            .field("is_spare", &self.is_spare)
            .field("task_id", &self.id)
            .field("spawned_at", &format_args!("{}", self.spawned_at))
            .field("held_for", &self.held_for)
            .finish()
    }
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { worker, id, spawned_at, held_for, .. } = self;
        let kind = if self.is_spare { "spare worker" } else { "worker" };
        write!(f, "{kind} {worker} is stuck in task {id}, spawned at {spawned_at}, for {held_for:.1?}")
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_stall_is_one_line() {
        let here = Location::caller();
        let stall = Stall::new(3, false, Id(7), here, Duration::from_micros(20_040));
        let text = format!("worker 3 is stuck in task 7, spawned at {here}, for 20.0ms");
        assert_eq!(stall.to_string(), text);
        let text = format!(
            "Stall {{ worker: 3, is_spare: false, task_id: Id(7), spawned_at: {here}, held_for: 20.04ms }}"
        );
        assert_eq!(format!("{stall:?}"), text);
        let spare = Stall { is_spare: true, ..stall };
        assert!(spare.to_string().starts_with("spare worker 3 is stuck in task 7, spawned at "));
    }
}
