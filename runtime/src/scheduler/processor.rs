//! The parts of a worker that others may read or steal from: run queue, LIFO slot, jobs, tick.
//!
//! A processor belongs to one thread at a time, its *owner*. A permanent worker owns its processor for good.
//! There are three kinds of indices ([`Processors`]), in this order: those of permanent workers, below
//! `worker_threads`, the number that a program sees as the number of threads; those of external threads,
//! which take part in their own parallel calls (`external.rs`); and those of spare workers (`away/mod.rs`).
//! All kinds are alike, except that an external thread polls no tasks. A processor without an owner is empty.
//! The owner pushes and pops tasks by way of `own_queues.rs`.
//!
//! **The LIFO slot** holds the task that was woken last and runs next, so that a message's receiver runs
//! while the message is warm in the cache. Only the owner puts a task in. The owner and thieves take a task
//! out, each by one read-modify-write. The owner remembers in a plain flag whether it has put a task in. So a
//! push into an empty slot is one store, and a look into an empty slot costs nothing.
//! ```text
//! owner: push, flag unset: store(task, Release)         LifoStore
//!        push, flag set: swap(task)                     LifoSwap
//!        pop, flag set: swap(null)                      LifoPop
//! thief: load, later compare_exchange(task → null)      LifoSteal
//! ```
//! If the flag is unset, the slot is null, because only the owner makes it non-null. Exactly one of
//! `LifoSwap`, `LifoPop`, `LifoSteal` takes out each task, because they are read-modify-writes of one word.
//! `LifoStore`'s and `LifoSwap`'s release pairs with `LifoSteal`'s acquire. `LifoSwap` and `LifoPop` need no
//! acquire, because the owner itself has put in the task that they take out. If `LifoSteal` meets another
//! task at the same address, it takes that task, which is just as good.
//!
//! **When a thief may take the task.** A task in the slot mostly runs at once, and a theft moves a hot pair
//! of tasks apart. So a thief takes it only after everything else was empty, and only if it saw the same task
//! twice, at least 20 µs apart, while the owner's tick did not move. Such an owner is stuck in a poll. If no
//! worker is awake to see this, the monitor does the same, with looks further apart (`monitor/mod.rs`). A
//! push into the slot notifies no worker. (Tokio 1.51 made the slot stealable with a notification for each
//! push, lost up to 30 % of its throughput, and took it back.)

use std::cell::Cell;
use std::ptr::{NonNull, null_mut};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::away::BlockedState;
use super::call_sites::CallSites;
use super::job_processor::JobProcessor;
use super::metrics::WorkerMetrics;
use super::park::Parker;
use super::polling::{Polling, Record};
use crate::driver::foreign::Waking;
use crate::loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::loom::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicUsize};
use crate::queue::Local;
use crate::task::{Header, Runnable};
use crate::util::thread_probe::ThreadProbe;

/// How long a task must stay in a LIFO slot before a thief takes it.
const STALE: Duration = Duration::from_micros(20);

/// See the module's docs. Alone on its cache lines. The fields that thieves read first come first.
#[derive(Debug)]
#[repr(align(128))]
pub struct Processor {
    pub lifo: LifoSlot,
    pub ring: Local<Header>,
    /// The owner's jobs. None on `current_thread` runtimes: their jobs go to the process-wide pool.
    pub job_processor: Option<JobProcessor>,
    pub parker: Parker,
    /// Where the owner sleeps while it yields to tasks; see `split.rs`.
    pub yield_parker: Parker,
    /// Whether the owner is in a call that may block, and whether it is counted; see `away/mod.rs`.
    pub blocked_state: BlockedState,
    /// Rounds of the owner's loop until the driver's turn; see `worker/turns.rs`. At least 1, except during
    /// that turn.
    pub rounds: AtomicU32,
    /// The monitor has found the owner in a long poll, and the driver's turn is to be the next thing.
    takes_long: AtomicBool,
    pub metrics: WorkerMetrics,
    pub polling: Polling,
    /// The foreign wakers that the owner is about to wake.
    pub waking: Waking,
    /// The call sites of the owner's marked blocking calls.
    pub call_sites: CallSites,
    /// The owner's thread, as a [`ThreadProbe`]; 0 before there is a thread.
    pub thread: AtomicI32,
    /// The number of the owner's marks that stand. Written under the lock of `deadlock.rs`.
    pub marks: AtomicU32,
}

impl Processor {
    /// Whether the owner has announced that it may block, by a call or by a mark: a hint.
    pub fn may_block(&self) -> bool {
        self.blocked_state.is_blocked() || self.marks.load(Relaxed) > 0
    }

    /// The monitor has found the owner in a long poll.
    pub fn tell_long(&self) {
        // Relaxed, here and in `was_told_long`: both are hints, and the owner may overwrite `rounds`.
        self.takes_long.store(true, Relaxed);
        self.rounds.store(1, Relaxed);
    }

    /// Whether [`tell_long`](Self::tell_long) was called since the last call of this method. For the owner.
    pub fn was_told_long(&self) -> bool {
        let was_told = self.takes_long.load(Relaxed);
        if was_told {
            self.takes_long.store(false, Relaxed);
        }
        was_told
    }

    pub fn new(job_processor: Option<JobProcessor>) -> Self {
        Self {
            lifo: LifoSlot::new(),
            ring: Local::new(),
            job_processor,
            parker: Parker::default(),
            yield_parker: Parker::default(),
            blocked_state: BlockedState::default(),
            rounds: AtomicU32::new(1),
            takes_long: AtomicBool::new(false),
            metrics: WorkerMetrics::new(),
            polling: Polling::default(),
            waking: Waking::default(),
            call_sites: CallSites::default(),
            thread: AtomicI32::new(0),
            marks: AtomicU32::new(0),
        }
    }

    /// The owner's thread.
    pub fn probe(&self) -> ThreadProbe {
        // Relaxed: a number by itself. The thread of a worker stores it before its first poll.
        ThreadProbe::from_raw(self.thread.load(Relaxed))
    }

    /// The owner's tick: the number of its polls. It shows to other threads whether the owner moves.
    pub fn tick(&self) -> u64 {
        self.metrics.polls.get()
    }

    /// `TickNow` to `TickAfter` of `polling.rs`: what the owner runs, if its tick is still the `tick` of some
    /// milliseconds ago.
    pub fn at_since(&self, tick: u64) -> Option<Record> {
        if self.tick() != tick {
            return None;
        }
        let record = self.polling.read();
        record.filter(|_| self.tick() == tick)
    }

    /// What a thief sees in the LIFO slot: a task, and the owner's tick.
    pub fn sight(&self) -> Option<Sighting> {
        // Relaxed: the pointer is not followed, and a tick from before the task's push only delays the theft.
        let task = NonNull::new(self.lifo.slot.load(Relaxed))?;
        Some(Sighting { task, tick: self.tick(), at: Instant::now() })
    }

    /// Takes the task of the LIFO slot, if `seen` is old enough, the task is still there, and the owner has
    /// not moved since.
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
    /// Whether both sightings are of one task, and the owner did not move in between.
    pub fn is_same(&self, other: &Self) -> bool {
        self.task == other.task && self.tick == other.tick
    }
}

/// The one task that its owner runs next; see the module's docs.
#[derive(Debug)]
pub struct LifoSlot {
    slot: AtomicPtr<Header>,
    /// The owner put a task in and has not taken one out since. Only the owner touches this.
    is_set: Cell<bool>,
}

// SAFETY: `is_set` is touched only by the methods whose callers promise to be the owner (`own_queues.rs`).
unsafe impl Sync for LifoSlot {}

impl LifoSlot {
    pub fn new() -> Self {
        Self { slot: AtomicPtr::new(null_mut()), is_set: Cell::new(false) }
    }

    /// `LifoStore`, `LifoSwap`: puts a task in, and returns the former one.
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
        // Release: publishes the new task. The old task is the owner's.
        from_slot(self.slot.swap(task, Release))
    }

    /// `LifoPop`: takes the task out.
    ///
    /// # Safety
    /// 1. The caller is the owner.
    #[inline]
    pub unsafe fn pop(&self) -> Option<Runnable> {
        if !self.is_set.replace(false) {
            return None;
        }
        // Relaxed: a thief never writes a task, so the task is the owner's.
        from_slot(self.slot.swap(null_mut(), Relaxed))
    }

    /// `LifoSteal`: takes `task` out, if it is there.
    pub fn steal(&self, task: NonNull<Header>) -> Option<Runnable> {
        // Acquire: the task's contents, from `LifoStore` or `LifoSwap`.
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
    // SAFETY: every task that is put into the slot is a `Runnable`, and only the caller's read-modify-write
    // took this one out.
    NonNull::new(task).map(|task| unsafe { Runnable::from_raw(task) })
}

/// All processors. Those of permanent workers are made at once, the others when they are first needed.
#[derive(Debug)]
pub struct Processors {
    permanent: Box<[Processor]>,
    /// The processors with indices from `permanent.len()` on: external threads, then spare workers.
    others: Box<[OnceLock<Box<Processor>>]>,
    /// How many processors of external threads have been made, and how many indices from `first_spare` on
    /// spare workers may have. All other processors are empty.
    external: AtomicUsize,
    spare: AtomicUsize,
    first_spare: usize,
    has_job_processors: bool,
}

impl Processors {
    /// Makes the processors of `permanent` workers. Reserves indices for `external` external threads and
    /// `spare` spare workers.
    pub fn new(permanent: usize, external: usize, spare: usize, has_job_processors: bool) -> Self {
        let job_processor = |index| has_job_processors.then(|| JobProcessor::new(index));
        Self {
            permanent: (0..permanent).map(|index| Processor::new(job_processor(index))).collect(),
            others: (0..external + spare).map(|_| OnceLock::new()).collect(),
            external: AtomicUsize::new(0),
            spare: AtomicUsize::new(0),
            first_spare: permanent + external,
            has_job_processors,
        }
    }

    /// The permanent workers' processors, for the thread that makes the shared state.
    pub fn permanent(&self) -> &[Processor] {
        &self.permanent
    }

    /// Makes processor `index`, if it is not there yet. `bind` tells its job processor where it belongs.
    pub fn make(&self, index: usize, bind: impl FnOnce(&JobProcessor)) {
        self.others[index - self.permanent.len()].get_or_init(|| {
            let processor =
                Box::new(Processor::new(self.has_job_processors.then(|| JobProcessor::new(index))));
            if let Some(job_processor) = &processor.job_processor {
                bind(job_processor);
            }
            processor
        });
    }

    /// Processor `index`, which has been made.
    #[inline]
    pub fn get(&self, index: usize) -> &Processor {
        match self.permanent.get(index) {
            Some(processor) => processor,
            None => self.others[index - self.permanent.len()].get().expect("its processor has been made"),
        }
    }

    /// The first `count` processors of external threads have been made.
    pub fn set_external(&self, count: usize) {
        // Release: pairs with `indices`.
        self.external.fetch_max(count, Release);
    }

    /// Spare workers have indices below `first + count` from now on, where `first` is the first spare index.
    /// Called before a spare worker gets a higher index, and again once it has gone.
    pub fn set_spare(&self, count: usize) {
        // Release: pairs with `indices`.
        self.spare.store(count, Release);
    }

    /// The indices of all processors that may hold work.
    pub fn indices(&self) -> Indices {
        // Acquire: pairs with the release of the thread that made the processors.
        let (external, spare) = (self.external.load(Acquire), self.spare.load(Acquire));
        let front = self.permanent.len() + external;
        Indices { place: 0, left: front + spare, front, spare, first_spare: self.first_spare }
    }

    /// How many processors may hold work.
    pub fn len(&self) -> usize {
        // Relaxed: a hint.
        self.permanent.len() + self.external.load(Relaxed) + self.spare.load(Relaxed)
    }

    /// All processors that were made, also those whose spare worker has ended.
    pub fn made(&self) -> impl Iterator<Item = &Processor> {
        self.permanent.iter().chain(self.others.iter().filter_map(|other| other.get().map(|other| &**other)))
    }

    /// The processors that may hold work.
    pub fn iter(&self) -> impl Iterator<Item = &Processor> {
        self.indices().map(|index| self.get(index))
    }

    /// As [`iter`](Self::iter), with the indices, and beginning with the one at place `start` of them.
    pub fn iter_from(&self, start: usize) -> impl Iterator<Item = (usize, &Processor)> {
        self.indices().from(start).map(|index| (index, self.get(index)))
    }
}

/// The indices of the processors that may hold work, each once: permanent workers and external threads in
/// front, then spare workers. A type of its own, because a chain of ranges is compiled anew for each loop.
#[derive(Debug)]
pub struct Indices {
    /// The place of the next index among all.
    place: usize,
    left: usize,
    front: usize,
    spare: usize,
    first_spare: usize,
}

impl Indices {
    /// Begins with the index at place `start`, or at 0 if there are not so many, and goes around.
    fn from(self, start: usize) -> Self {
        Self { place: if start < self.left { start } else { 0 }, ..self }
    }
}

impl Iterator for Indices {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        let place = self.place;
        self.place = if place + 1 < self.front + self.spare { place + 1 } else { 0 };
        Some(if place < self.front { place } else { self.first_spare + place - self.front })
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
