//! What a worker owns and others may steal from: run queue, LIFO slot, jobs, tick.
//!
//! A processor belongs to one thread at a time, its *owner*; a permanent worker owns its processor for good.
//! There are three kinds of indices ([`Processors`]). Below `worker_threads` are the permanent workers; their
//! number is what a program sees as the number of threads. Then come those of external threads, which take
//! part in their own parallel calls (`external.rs`); then those of spare workers (`away.rs`). All kinds are
//! alike, except that an external thread polls no tasks. A processor without an owner is empty.
//!
//! **The LIFO slot** holds the task woken last, to be run next: a message's receiver runs while the message
//! is warm. Only the owner puts a task in; the owner and thieves take one out, each by one read-modify-write.
//! The owner remembers in a plain flag whether it has put one in, so that a push into an empty slot is a
//! store and looking into an empty one costs nothing.
//! ```text
//! owner: push, flag unset: store(task, Release)         L1
//!        push, flag set: swap(task)                     L2
//!        pop, flag set: swap(null)                      L3
//! thief: load, later compare_exchange(task → null)      L4
//! ```
//! A slot that the flag calls empty is null: only the owner makes it otherwise. Each task put in is taken out
//! by exactly one of L2, L3, L4, since they are read-modify-writes of one word. L1's and L2's release pairs
//! with L4's acquire; L2 and L3 need none, since what they take out the owner has put in itself. If L4 meets
//! another task at the same address, it takes that one: a task is a task.
//!
//! **When it may be stolen.** A task in the slot is mostly run at once, and stealing it moves a hot pair of
//! tasks apart. So a thief takes it only after everything else came up empty, and if it saw the same task
//! there twice, at least 20 µs apart, while the owner's tick did not move: that owner is stuck in a poll. If
//! no worker is awake to see that, the monitor does the same, with looks further apart (`monitor.rs`). And a
//! push into the slot notifies no worker. (Tokio 1.51 made the slot stealable with a notification for each
//! push, lost up to 30 % of its throughput, and took it back.)

use std::cell::Cell;
use std::ptr::{NonNull, null_mut};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::away::HERE;
use super::metrics::WorkerMetrics;
use super::park::Parker;
use super::polling::{Polling, Record};
use super::seat::Seat;
use super::shared::Shared;
use super::sites::Sites;
use crate::loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::loom::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicUsize};
use crate::queue::Local;
use crate::task::{Header, Runnable};

/// How long a thief must have seen a task in a LIFO slot before it takes it.
const STALE: Duration = Duration::from_micros(20);

/// See the module's docs. Alone on its cache lines: what thieves look at first comes first.
#[derive(Debug)]
#[repr(align(128))]
pub struct Processor {
    pub lifo: LifoSlot,
    pub ring: Local<Header>,
    /// The owner's jobs; none on `current_thread` runtimes, whose jobs go to the process-wide pool.
    pub seat: Option<Seat>,
    pub parker: Parker,
    /// Where the owner sleeps while it yields to tasks; see `split.rs`.
    pub yield_parker: Parker,
    /// Whether the owner has said that it blocks, and is counted; see `away.rs`.
    pub standing: AtomicU32,
    /// Rounds of the owner's loop until the driver's turn; see `worker.rs`. At least 1 but inside of that.
    pub rounds: AtomicU32,
    pub metrics: WorkerMetrics,
    pub polling: Polling,
    /// Where the owner has marked blocking calls.
    pub sites: Sites,
    /// The owner's thread, as a [`ThreadProbe`](crate::util::thread_probe::ThreadProbe); 0 before there is
    /// one.
    pub thread: AtomicI32,
    /// Marks of the owner that stand. Written under the lock of `deadlock.rs`.
    pub marks: AtomicU32,
}

impl Processor {
    /// Whether the owner has said that it blocks, by a call or by a mark: a hint.
    pub fn may_block(&self) -> bool {
        self.standing.load(Relaxed) != HERE || self.marks.load(Relaxed) > 0
    }

    pub fn new(seat: Option<Seat>) -> Self {
        Self {
            lifo: LifoSlot::new(),
            ring: Local::new(),
            seat,
            parker: Parker::new(),
            yield_parker: Parker::new(),
            standing: AtomicU32::new(HERE),
            rounds: AtomicU32::new(1),
            metrics: WorkerMetrics::new(),
            polling: Polling::new(),
            sites: Sites::default(),
            thread: AtomicI32::new(0),
            marks: AtomicU32::new(0),
        }
    }

    /// The owner's tick: the number of its polls. Says to others whether it moves.
    pub fn tick(&self) -> u64 {
        self.metrics.polls.get()
    }

    /// R2 to R4 of `polling.rs`: what the owner is at, if its tick is still what it was some milliseconds
    /// ago.
    pub fn at_since(&self, tick: u64) -> Option<Record> {
        if self.tick() != tick {
            return None;
        }
        let record = self.polling.read();
        record.filter(|_| self.tick() == tick)
    }

    /// What a thief sees in the LIFO slot: a task, and how far its owner is.
    pub fn sight(&self) -> Option<Sighting> {
        // Relaxed: the task is not followed, and a tick from before its push only delays the theft.
        let task = NonNull::new(self.lifo.slot.load(Relaxed))?;
        Some(Sighting { task, tick: self.tick(), at: Instant::now() })
    }

    /// Takes the task of the LIFO slot, if it is what was seen long enough ago and the owner has not moved
    /// since.
    pub fn steal_lifo(&self, seen: &Sighting) -> Option<Runnable> {
        if self.tick() != seen.tick || seen.at.elapsed() < STALE {
            return None;
        }
        self.lifo.steal(seen.task)
    }
}

/// A task seen in a LIFO slot by a thief.
#[derive(Debug, Clone, Copy)]
pub struct Sighting {
    /// Only compared, never followed.
    task: NonNull<Header>,
    tick: u64,
    at: Instant,
}

impl Sighting {
    /// Whether both are of one task, with an owner that did not move in between.
    pub fn is_same(&self, other: &Self) -> bool {
        self.task == other.task && self.tick == other.tick
    }
}

/// One task that its owner runs next; see the module's docs.
#[derive(Debug)]
pub struct LifoSlot {
    slot: AtomicPtr<Header>,
    /// The owner put a task in and has not taken one out since. The owner's alone.
    is_set: Cell<bool>,
}

// SAFETY: `is_set` is touched only by the methods whose callers promise to be the owner.
unsafe impl Sync for LifoSlot {}

impl LifoSlot {
    pub fn new() -> Self {
        Self { slot: AtomicPtr::new(null_mut()), is_set: Cell::new(false) }
    }

    /// L1, L2: puts a task in; returns the former one.
    ///
    /// # Safety
    /// 1. The caller is the owner.
    #[inline]
    pub unsafe fn push(&self, task: Runnable) -> Option<Runnable> {
        let task = task.into_raw().as_ptr();
        if !self.is_set.replace(true) {
            self.slot.store(task, Release);
            return None;
        }
        // Release: publishes the new task; the old one is our own.
        from_slot(self.slot.swap(task, Release))
    }

    /// L3: takes the task out.
    ///
    /// # Safety
    /// 1. The caller is the owner.
    #[inline]
    pub unsafe fn pop(&self) -> Option<Runnable> {
        if !self.is_set.replace(false) {
            return None;
        }
        // Relaxed: a thief never writes a task, so it is our own.
        from_slot(self.slot.swap(null_mut(), Relaxed))
    }

    /// L4: takes `task` out, if it is there.
    pub fn steal(&self, task: NonNull<Header>) -> Option<Runnable> {
        // Acquire: the task's contents, from L1 or L2.
        let taken = self.slot.compare_exchange(task.as_ptr(), null_mut(), Acquire, Relaxed).ok()?;
        from_slot(taken)
    }

    /// Whether a task is there: a hint.
    pub fn is_occupied(&self) -> bool {
        !self.slot.load(Relaxed).is_null()
    }
}

/// A pointer that a read-modify-write has taken out of the slot.
#[inline]
fn from_slot(task: *mut Header) -> Option<Runnable> {
    // SAFETY: what is put into the slot is a `Runnable`, and the caller's read-modify-write was the only one
    // to take it out.
    NonNull::new(task).map(|task| unsafe { Runnable::from_raw(task) })
}

/// All processors: those of the permanent workers, made at once, and the others, made when they are first
/// needed.
#[derive(Debug)]
pub struct Processors {
    permanent: Box<[Processor]>,
    /// The indices from `permanent.len()` on: external threads, then spare workers.
    others: Box<[OnceLock<Box<Processor>>]>,
    /// How many processors of external threads have been made, and up to which place spare workers have one:
    /// all others are empty.
    external: AtomicUsize,
    spare: AtomicUsize,
    first_spare: usize,
    has_seats: bool,
}

impl Processors {
    /// As many for external threads as for permanent workers, if there are to be any.
    pub fn new(permanent: usize, external: usize, spare: usize, has_seats: bool) -> Self {
        let seat = |index| has_seats.then(|| Seat::new(index));
        Self {
            permanent: (0..permanent).map(|index| Processor::new(seat(index))).collect(),
            others: (0..external + spare).map(|_| OnceLock::new()).collect(),
            external: AtomicUsize::new(0),
            spare: AtomicUsize::new(0),
            first_spare: permanent + external,
            has_seats,
        }
    }

    /// The permanent workers' processors, for the thread that makes the shared state.
    pub fn permanent(&self) -> &[Processor] {
        &self.permanent
    }

    /// Makes processor `index`, if it is not there yet.
    pub fn make(&self, index: usize, shared: NonNull<Shared>) {
        self.others[index - self.permanent.len()].get_or_init(|| {
            let processor = Box::new(Processor::new(self.has_seats.then(|| Seat::new(index))));
            // SAFETY: no other thread knows the seat; the shared state has it.
            processor.seat.iter().for_each(|seat| unsafe { seat.bind(shared) });
            processor
        });
    }

    /// The processor `index`, which has been made.
    #[inline]
    pub fn get(&self, index: usize) -> &Processor {
        match self.permanent.get(index) {
            Some(processor) => processor,
            None => self.others[index - self.permanent.len()].get().expect("its processor has been made"),
        }
    }

    /// From now on so many processors of external threads, the first ones, have been made.
    pub fn set_external(&self, count: usize) {
        // Release: pairs with `indices`.
        self.external.fetch_max(count, Release);
    }

    /// From now on spare workers have indices below `first + count` at most, where `first` is the first spare
    /// index. Called before a spare worker gets a higher index, and again once it has gone.
    pub fn set_spare(&self, count: usize) {
        // Release: pairs with `indices`.
        self.spare.store(count, Release);
    }

    /// The indices of all processors that may hold something.
    pub fn indices(&self) -> impl Iterator<Item = usize> + use<> {
        // Acquire: pairs with the release of the thread that made them.
        let (external, spare) = (self.external.load(Acquire), self.spare.load(Acquire));
        (0..self.permanent.len() + external).chain(self.first_spare..self.first_spare + spare)
    }

    /// How many there are of them.
    pub fn len(&self) -> usize {
        // Relaxed: a hint.
        self.permanent.len() + self.external.load(Relaxed) + self.spare.load(Relaxed)
    }

    /// The processors that may hold something.
    pub fn iter(&self) -> impl Iterator<Item = &Processor> {
        self.indices().map(|index| self.get(index))
    }

    /// The same from a random place on.
    pub fn iter_from(&self, start: usize) -> impl Iterator<Item = (usize, &Processor)> {
        let all = || self.indices().map(|index| (index, self.get(index)));
        all().skip(start).chain(all().take(start))
    }
}
