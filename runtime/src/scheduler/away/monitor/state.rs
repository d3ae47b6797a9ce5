//! The part of the monitor that other threads see.

use crate::driver::Driver;
use crate::loom::sync::atomic::Ordering::{Relaxed, SeqCst};
use crate::loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, fence};
use crate::scheduler::away::slow::SlowTasks;
use crate::scheduler::metrics::Counter;
use crate::scheduler::park::Parker;
use crate::scheduler::processor::Processor;

/// No worker probes: the last one has found no task that may be quick.
const FRUITLESS: usize = usize::MAX;

/// The part of the monitor that other threads see.
#[derive(Debug, Default)]
pub struct Monitor {
    pub parker: Parker,
    /// The monitor sleeps for good, until a worker wakes.
    pub(super) is_resting: AtomicBool,
    /// Whether a worker was found inside of a long poll within the last second: a hint.
    saw_long_polls: AtomicBool,
    /// Whether jobs wait while a worker is stuck: a hint.
    jobs_wait: AtomicBool,
    /// Whether so many spare workers compute that those that serve take no injected job: a hint.
    leaves_jobs: AtomicBool,
    pub slow_tasks: SlowTasks,
    pub cancellers: Cancellers,
    /// How many tasks workers have taken from the queue of slow tasks.
    pub slow_taken: AtomicU64,
    /// The index of the serving spare worker that may probe one slow task. 0 if there is none, because
    /// worker 0 is a permanent one; or [`FRUITLESS`].
    prober: AtomicUsize,
    /// How often a worker was found stuck in a task's poll while work waited or spare workers were active.
    pub stalls: Counter,
    /// Tasks taken from the LIFO slots of workers that were stuck or got no CPU.
    pub rescued_tasks: Counter,
    /// How many times the monitor made a worker see to the driver.
    pub rescued_driver: Counter,
    /// Wakes that were lost.
    pub missed_wakes: Counter,
}

impl Monitor {
    /// Whether jobs wait while a worker is stuck, perhaps jobs of that worker: a hint.
    pub fn do_jobs_wait(&self) -> bool {
        // Relaxed: a hint.
        self.jobs_wait.load(Relaxed)
    }

    pub(in crate::scheduler) fn set_jobs_wait(&self, do_wait: bool) {
        if self.do_jobs_wait() != do_wait {
            self.jobs_wait.store(do_wait, Relaxed);
        }
    }

    /// Whether so many spare workers compute that those that serve take no injected job: a hint.
    pub fn leaves_jobs(&self) -> bool {
        // Relaxed: a hint.
        self.leaves_jobs.load(Relaxed)
    }

    pub(in crate::scheduler) fn set_leaves_jobs(&self, leaves: bool) {
        if self.leaves_jobs() != leaves {
            self.leaves_jobs.store(leaves, Relaxed);
        }
    }

    /// Whether a worker was found inside of a long poll within the last second: a hint.
    #[inline]
    pub fn saw_long_polls(&self) -> bool {
        // Relaxed: a hint.
        self.saw_long_polls.load(Relaxed)
    }

    pub(in crate::scheduler) fn set_saw_long_polls(&self, saw: bool) {
        // Mostly it is so already, and the workers read this line.
        if self.saw_long_polls() != saw {
            self.saw_long_polls.store(saw, Relaxed);
        }
    }

    /// From now on only spare worker `prober` may probe a slow task.
    pub(in crate::scheduler) fn set_prober(&self, prober: Option<usize>) {
        // Relaxed: a hint. The worker that is unparked behind this sees it.
        self.prober.store(prober.unwrap_or(0), Relaxed);
    }

    /// A probe has found no task that may be quick.
    pub fn probe_was_fruitless(&self) {
        // Relaxed: a hint. If the monitor lets another worker probe meanwhile, that one does.
        _ = self.prober.compare_exchange(0, FRUITLESS, Relaxed, Relaxed);
    }

    /// Whether the last probe was fruitless. Says so once.
    pub(in crate::scheduler) fn takes_fruitless_probe(&self) -> bool {
        self.prober.compare_exchange(FRUITLESS, 0, Relaxed, Relaxed).is_ok()
    }

    /// Whether spare worker `index` may probe a slow task. It may do so once.
    pub fn begins_probe(&self, index: usize) -> bool {
        // Relaxed: a hint. If the monitor lets another worker probe meanwhile, this fails.
        index > 0 && self.prober.compare_exchange(index, 0, Relaxed, Relaxed).is_ok()
    }

    /// Remembers that the task which the worker polls computes for long, if the worker's tick is still
    /// `tick`. Returns false if the worker does something else.
    pub(super) fn remember_slow(&self, processor: &Processor, tick: u64) -> bool {
        // An announced blocking call inside of the poll is no computation.
        let record = processor.at_since(tick).filter(|_| !processor.may_block());
        let record = record.filter(|record| !record.is_computation);
        record.inspect(|record| self.slow_tasks.insert(record.id.0, record.spawned_at)).is_some()
    }

    /// `AwakeFence`, `AwakeWakes`: a worker's sleep has ended.
    #[inline]
    pub fn worker_woke(&self, driver: &Driver) {
        fence(SeqCst);
        self.worker_returned(driver);
    }

    /// `AwakeWakes` of a worker that blocks no more, behind its `SayBack`.
    #[inline]
    pub fn worker_returned(&self, driver: &Driver) {
        // Relaxed: either the fences order this, or `SayBack` has acquired `RestShow`, if `RestLooks` saw the
        // worker block.
        if self.is_resting.load(Relaxed) && self.is_resting.swap(false, Relaxed) {
            self.parker.unpark(driver);
        }
    }
}

/// What the threads that cancel tasks during the shutdown tell the monitor; see `cancels.rs`. Hints: one
/// thread too many does no harm.
#[derive(Debug, Default)]
pub struct Cancellers {
    /// How many of them have begun.
    begun: AtomicU64,
    /// How many tasks they have taken.
    taken: AtomicU64,
    ended: AtomicU64,
}

impl Cancellers {
    pub fn begins(&self) {
        self.begun.fetch_add(1, Relaxed);
    }

    pub fn takes_task(&self) {
        self.taken.fetch_add(1, Relaxed);
    }

    pub fn ends(&self) {
        self.ended.fetch_add(1, Relaxed);
    }

    /// How many have begun, how many tasks they have taken, and how many have ended.
    pub(super) fn counts(&self) -> [u64; 3] {
        [&self.begun, &self.taken, &self.ended].map(|count| count.load(Relaxed))
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
