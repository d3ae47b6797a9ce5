//! The state that all workers of a runtime share. Each part is a type of its own, which knows no other part.
//! What uses several parts is a step, and stands in the file of its steps: `fetch.rs`, `schedule.rs`,
//! `reference.rs`, `lifecycle.rs`, `away/`, `jobs/`.

use std::num::NonZeroU64;
use std::ptr::{NonNull, null_mut};
// Not of `loom`: no protocol depends on it.
use std::sync::atomic::AtomicPtr;

use super::away::marks::Marks;
use super::away::monitor::Monitor;
use super::away::{Away, Role};
use super::biased_count::BiasedCount;
use super::blocking::Pool;
use super::core::Core;
use super::exit::Lifecycle;
use super::external_indices::External;
use super::hints::samplers::Samplers;
use super::hints::spread::Places;
use super::idle::Idle;
use super::injected::InjectedJobs;
use super::job_processor::JobProcessor;
use super::poll_interval::Splits;
use super::processor::{Processor, Processors};
use crate::config::{Config, Flavor};
use crate::driver::Driver;
use crate::loom::sync::atomic::AtomicU64;
use crate::loom::sync::atomic::Ordering::Relaxed;
use crate::memory::Depot;
use crate::queue::Injector;
use crate::task::{self, Header, Owned};
use crate::util::crowd::Crowd;

/// The shared state of one runtime.
#[derive(Debug)]
pub struct Shared {
    pub config: Config,
    /// Unique in the process.
    pub id: NonZeroU64,
    pub injector: Injector<Header>,
    /// Tasks with long polls, taken from workers that are stuck; see `monitor/mod.rs`.
    pub slow: Injector<Header>,
    pub idle: Idle,
    pub injected_jobs: InjectedJobs,
    pub processors: Processors,
    pub external: External,
    /// The lowest index of a spare worker, and the largest number of spare workers.
    pub first_spare: usize,
    pub max_spares: usize,
    pub owned: Owned,
    pub driver: Driver,
    pub blocking: Pool,
    pub away: Away,
    pub samplers: Samplers,
    pub monitor: Monitor,
    pub splits: Splits,
    pub places: Places,
    pub crowd: Crowd,
    pub marks: Marks,
    pub depot: Depot,
    pub lifecycle: Lifecycle,
    /// The thread that drives a `current_thread` runtime.
    pub core: Core,
    /// Tasks that non-worker threads spawned and the injector refused (the injector counts the others); and
    /// tasks that ended on non-worker threads.
    pub refused_elsewhere: AtomicU64,
    pub ended_elsewhere: AtomicU64,
    /// How long this state lives; see `reference.rs`.
    pub(super) references: BiasedCount,
    /// See [`ptr`](Self::ptr). Written once, before any other thread knows the state.
    this: AtomicPtr<Self>,
}

impl Shared {
    /// Makes the shared state with one reference, which is the caller's, beside BIAS.
    pub fn new(config: Config, driver: Driver) -> NonNull<Self> {
        task::introduce_wakers();
        let workers = config.workers;
        let spares = config.max_spares();
        let externals = if config.takes_external() { workers } else { 0 };
        let first_spare = workers + externals;
        let has_job_processors = config.flavor == Flavor::MultiThread;
        let shared = Self {
            injector: Injector::new(),
            slow: Injector::new(),
            idle: Idle::new(workers, first_spare + spares),
            injected_jobs: InjectedJobs::new(),
            processors: Processors::new(workers, externals, spares, has_job_processors),
            external: External::new(workers, externals),
            first_spare,
            max_spares: spares,
            owned: Owned::new(workers),
            driver,
            blocking: Pool::new(config.max_blocking_threads),
            away: Away::new(first_spare, spares),
            samplers: Samplers::new(),
            monitor: Monitor::default(),
            splits: Splits::new(),
            places: Places::new(config.workers),
            crowd: Crowd::new(),
            marks: Marks::default(),
            depot: Depot::new(),
            lifecycle: Lifecycle::new(config.observer.is_some()),
            core: Core::default(),
            refused_elsewhere: AtomicU64::new(0),
            ended_elsewhere: AtomicU64::new(0),
            references: BiasedCount::new(),
            this: AtomicPtr::new(null_mut()),
            id: next_id(),
            config,
        };
        if shared.config.is_pool {
            // A pool has no tasks that wait.
            // SAFETY: (1) no worker of a pool ever touches a table: neither `Worker::new` nor
            // `take_table_back` gives it one.
            (0..workers).for_each(|job_processor| unsafe { shared.owned.lend(job_processor) });
        }
        let shared = NonNull::from(Box::leak(Box::new(shared)));
        // SAFETY: the state was just made, and only `free_state` ends it.
        let state = unsafe { shared.as_ref() };
        // Relaxed: no other thread knows the state.
        state.this.store(shared.as_ptr(), Relaxed);
        let job_processors = state.processors.permanent().iter().filter_map(|it| it.job_processor.as_ref());
        // SAFETY: (1) the state was just made, so no other thread knows its job processors. (2) It holds
        // them.
        job_processors.for_each(|job_processor| unsafe { job_processor.bind(shared) });
        shared
    }

    /// This state, by the pointer by which it may also be freed. A pointer made of `self` would only do to
    /// read.
    #[inline]
    pub fn ptr(&self) -> NonNull<Self> {
        // SAFETY: `new` has stored the state's address, and nothing else is stored.
        unsafe { NonNull::new_unchecked(self.this.load(Relaxed)) }
    }

    /// Whether the runtime has one worker, the thread that is in `block_on`.
    pub fn is_current_thread(&self) -> bool {
        self.config.flavor == Flavor::CurrentThread
    }

    /// The runtime that is current on all threads of this one. A pool of jobs is never the current runtime.
    pub fn current_on_threads(&self) -> Option<NonNull<Self>> {
        (!self.config.is_pool).then(|| self.ptr())
    }

    /// The wheel on which worker `index` registers timers. Spare workers share one wheel with non-worker
    /// threads.
    pub fn wheel(&self, index: usize) -> usize {
        index.min(self.config.workers)
    }

    #[inline]
    pub fn processor(&self, index: usize) -> &Processor {
        self.processors.get(index)
    }

    /// The job processor of the worker or external thread `index`.
    pub fn job_processor(&self, index: usize) -> &JobProcessor {
        self.processor(index).job_processor.as_ref().expect("only runtimes with workers have jobs")
    }

    /// The jobs of all workers and external threads. Empty if the runtime has no jobs.
    pub fn job_processors(&self) -> impl Iterator<Item = &JobProcessor> {
        self.processors.iter().filter_map(|processor| processor.job_processor.as_ref())
    }

    /// The permanent worker that spare worker `index` belongs to. Where threads are kept on CPUs, both have
    /// the same CPU.
    pub fn worker_of_spare(&self, index: usize) -> usize {
        index % self.config.workers
    }

    /// How many workers sleep until a latch is set: a hint, unless the caller is behind a fence.
    pub fn waiting(&self) -> usize {
        self.idle.waiters(self.config.workers..self.first_spare)
    }

    /// Whether some worker may be away, so that a spare worker could come for it: a hint.
    pub fn is_any_away(&self) -> bool {
        self.away.is_any() || self.idle.has_waiters()
    }

    /// Whether a thread may not come back to its child jobs, so that a worker that has other work takes them,
    /// too: a hint. In a pool always, because no monitor finds a worker that blocks there.
    pub fn are_child_jobs_left(&self) -> bool {
        self.config.is_pool
            || self.away.is_any()
            || self.away.are_child_jobs_left()
            || self.monitor.do_jobs_wait()
            || self.external.count() > 0
    }

    /// How many sleepers are left asleep for work that can wait: a hint. They are spare workers and external
    /// threads, as many as take part without being needed. A permanent worker is not among them, even if all
    /// spare workers are awake.
    pub fn extra(&self) -> usize {
        let spares = match self.away.active() {
            0 => 0,
            active => active.saturating_sub(self.away.blocked() + self.waiting()),
        };
        match spares + self.external.count() {
            0 => 0,
            extra => extra.min(self.idle.sleepers_in(self.config.workers..usize::MAX)),
        }
    }

    /// Whether a worker, awake or not, has no work: a hint.
    pub fn is_hungry(&self) -> bool {
        self.idle.is_any_idle(|| self.extra())
    }

    /// Whether there is a task in a queue that any worker may take from: SearcherLook and SleepLook of
    /// `idle.rs`.
    pub fn has_visible_tasks(&self) -> bool {
        let has_ring = || self.processors.iter().any(|processor| !processor.ring.is_empty());
        !self.injector.is_empty() || !self.slow.is_empty() || has_ring()
    }

    /// As [`has_visible_tasks`](Self::has_visible_tasks), for the queues that a worker with this role may
    /// take from.
    pub fn has_tasks_for(&self, role: Role) -> bool {
        match role {
            Role::Full | Role::Begins => self.has_visible_tasks(),
            Role::Serves | Role::Surplus => !self.injector.is_empty(),
        }
    }
}

/// A number that is unique among all runtimes and local sets of the process.
pub fn next_id() -> NonZeroU64 {
    // Not of `loom`: no order depends on it.
    static LAST: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    // Relaxed: a number by itself.
    NonZeroU64::new(LAST.fetch_add(1, Relaxed) + 1).expect("2^64 runtimes are not made")
}

#[cfg(all(test, not(loom)))]
pub mod tests;
