//! Which task a worker polls. The worker writes a record before each poll, so that other threads can read it
//! when the poll is long.
//!
//! A record is a task's id and the place where the task was spawned. Both outlive the task, so a reader
//! touches no task. A record costs two plain stores for each poll, and is not cleared when the poll has
//! returned. A reader checks the record by the tick, the number of polls that `Processor` counts:
//! ```text
//! owner:  CountPoll    tick += 1
//!         WriteRecord  the record (Release)
//!         RunPoll      the poll
//! reader: TickBefore   tick (some milliseconds ago)
//!         TickNow      tick
//!         ReadRecord   the record (Acquire)
//!         TickAfter    tick
//! ```
//! **If `TickBefore`, `TickNow` and `TickAfter` read the same tick, the record is of that poll**, or of the
//! work that the owner began instead. The record is not of a later poll: if `ReadRecord` saw that poll's
//! `WriteRecord`, then `TickAfter` would see its `CountPoll`. The record is not of an earlier poll:
//! `WriteRecord` follows `CountPoll` by two instructions, and by `TickNow` the milliseconds since
//! `TickBefore` have passed. (There is one gap. If the system stopped the owner's thread for all that time
//! just between `CountPoll` and `WriteRecord`, the record names the task polled before. That costs a wrong
//! name in a report. Closing the gap would cost each poll another store.)
//!
//! **Everything but polls** is rarer. It changes the record between two steps of `changes`, which is odd
//! meanwhile. A computation writes its own record and puts the former one back, because a poll that waits for
//! a latch runs other computations. A job belongs to no task, so it writes an empty record, and so does a
//! worker that sleeps, rests or winds down. So a reader of a record knows one of two things: the owner was
//! inside of that poll or computation, or it had just returned and was about to look for work.
//!
//! As in `metrics.rs`, the counters are not those of `loom/mod.rs`, because only reports and hints
//! (`slow.rs`) depend on them.

use std::panic::Location;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU64, fence};

use crate::loom::sync::Mutex;
use crate::task::{Id, Runnable};

/// The bit that marks the id of a computation. (Ids are handed out in blocks from 1 on, and do not get so
/// far.)
const COMPUTATION: u64 = 1 << 63;

/// The record of one thread; see the module's docs.
#[derive(Debug, Default)]
pub struct Polling {
    /// The task's id, with [`COMPUTATION`], or 0. Only the owner writes this and the other fields.
    id: AtomicU64,
    /// Where the task was spawned: a `&'static Location`, or null.
    spawned_at: AtomicPtr<Location<'static>>,
    /// Twice the number of changes by something other than a poll. Odd during such a change.
    changes: AtomicU64,
}

/// What a thread runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    pub id: Id,
    pub spawned_at: &'static Location<'static>,
    /// The record is of a `compute` call, not of a polled task.
    pub is_computation: bool,
}

impl Polling {
    /// `WriteRecord`: a poll begins. Only the owner calls this and the other functions that write.
    #[inline]
    pub fn begin(&self, task: &Runnable) {
        self.id.store(task.id(), Release);
        self.spawned_at.store(pointer(task.spawned_at()), Release);
    }

    /// A task is about to be dropped before its end, perhaps inside of a poll.
    pub fn begin_cancel(&self, task: &Runnable) -> Outer<'_> {
        self.replace(task.id(), pointer(task.spawned_at()))
    }

    /// A computation begins, perhaps inside of a poll.
    pub fn begin_computation(&self, task: &Runnable) -> Outer<'_> {
        self.replace(task.id() | COMPUTATION, pointer(task.spawned_at()))
    }

    /// A job begins, perhaps inside of a poll.
    pub fn begin_job(&self) -> Outer<'_> {
        self.replace(0, null_mut())
    }

    /// The poll or the job has ended, and the owner may do something else for long.
    pub fn clear(&self) {
        self.write(0, null_mut());
    }

    /// `ReadRecord`: what the owner runs. None if it runs no task or computation, or if the record is just
    /// changing.
    pub fn read(&self) -> Option<Record> {
        // Acquire, and the fence: both pair with the release of `write`. If the record was changed in
        // between, the number has changed.
        let changes = self.changes.load(Acquire);
        let id = self.id.load(Acquire);
        let spawned_at = NonNull::new(self.spawned_at.load(Acquire))?;
        fence(Acquire);
        if id == 0 || changes % 2 == 1 || self.changes.load(Relaxed) != changes {
            return None;
        }
        Some(Record {
            id: Id(id & !COMPUTATION),
            // SAFETY: what is not null is a `&'static Location`.
            spawned_at: unsafe { spawned_at.as_ref() },
            is_computation: id & COMPUTATION != 0,
        })
    }

    fn replace(&self, id: u64, spawned_at: *mut Location<'static>) -> Outer<'_> {
        // Relaxed: written by this thread.
        let outer =
            Outer { polling: self, id: self.id.load(Relaxed), spawned_at: self.spawned_at.load(Relaxed) };
        self.write(id, spawned_at);
        outer
    }

    fn write(&self, id: u64, spawned_at: *mut Location<'static>) {
        // Relaxed: written by this thread.
        let changes = self.changes.load(Relaxed);
        self.changes.store(changes.wrapping_add(1), Relaxed);
        // Release: a reader that sees the stores below sees that the record is changing.
        fence(Release);
        self.id.store(id, Relaxed);
        self.spawned_at.store(spawned_at, Relaxed);
        self.changes.store(changes.wrapping_add(2), Release);
    }
}

fn pointer(spawned_at: &'static Location<'static>) -> *mut Location<'static> {
    (&raw const *spawned_at).cast_mut()
}

/// The thread's former record, put back when this is dropped.
#[derive(Debug)]
#[must_use = "what the thread was at before is put back when this is dropped"]
pub struct Outer<'a> {
    polling: &'a Polling,
    id: u64,
    spawned_at: *mut Location<'static>,
}

impl Drop for Outer<'_> {
    fn drop(&mut self) {
        self.polling.write(self.id, self.spawned_at);
    }
}

/// The records of threads that come and go.
#[derive(Debug, Default)]
pub struct Records(Mutex<Vec<Arc<Polling>>>);

impl Records {
    /// A record for a thread that has just begun.
    pub fn enter(&self) -> Arc<Polling> {
        let record = Arc::new(Polling::default());
        self.0.lock().push(record.clone());
        record
    }

    /// The thread of this record is about to end.
    pub fn leave(&self, record: &Arc<Polling>) {
        self.0.lock().retain(|other| !Arc::ptr_eq(record, other));
    }

    pub fn read_all(&self) -> Vec<Record> {
        self.0.lock().iter().filter_map(|record| record.read()).collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::util::joined::joined_scope;

    #[test]
    fn what_was_begun_inside_of_something_else_puts_it_back() {
        let here = Location::caller();
        let polling = Polling::default();
        assert_eq!(polling.read(), None);
        polling.id.store(7, Relaxed);
        polling.spawned_at.store(pointer(here), Relaxed);
        let record = polling.read().unwrap();
        assert_eq!((record.id, record.spawned_at), (Id(7), here));
        let outer = polling.begin_job();
        assert_eq!(polling.read(), None);
        {
            let there = Location::caller();
            let _outer = polling.replace(9 | COMPUTATION, pointer(there));
            let record = polling.read().unwrap();
            assert_eq!((record.id, record.spawned_at), (Id(9), there));
            assert!(record.is_computation);
        }
        assert_eq!(polling.read(), None);
        drop(outer);
        assert_eq!(polling.read(), Some(record));
        polling.clear();
        assert_eq!(polling.read(), None);
    }

    #[test]
    fn a_name_is_never_read_with_the_place_of_another() {
        let places = [Location::caller(), Location::caller()];
        let polling = Polling::default();
        let is_over = AtomicBool::new(false);
        joined_scope(|scope| {
            let writer = scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    (1..).zip(places).for_each(|(id, place)| polling.write(id, pointer(place)));
                }
            });
            let mut seen = [0; 2];
            let mut mixed = None;
            while mixed.is_none() && seen.iter().any(|&times| times < 100_000) {
                let Some(record) = polling.read() else { continue };
                let number = record.id.0 as usize - 1;
                seen[number] += 1;
                mixed = (record.spawned_at != places[number]).then_some(record);
            }
            is_over.store(true, Relaxed);
            writer.join().unwrap();
            assert_eq!(mixed, None);
        });
    }

    #[test]
    fn a_record_that_is_changing_is_not_read() {
        let polling = Polling::default();
        polling.write(7, pointer(Location::caller()));
        assert!(polling.read().is_some());
        polling.changes.store(5, Relaxed);
        assert_eq!(polling.read(), None);
    }
}
