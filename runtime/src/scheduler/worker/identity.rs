//! The worker: what only its own thread touches.

use std::cell::{Cell, RefCell};
use std::ptr::{NonNull, null};
use std::time::{Duration, Instant};

use super::poll_begin::PollBegin;
use crate::driver::foreign::ForeignWakes;
use crate::loom::sync::atomic::Ordering::Relaxed;
use crate::memory::Magazine;
use crate::queue::IntrusiveList;
use crate::scheduler::away::Role;
use crate::scheduler::away::marks::Report;
use crate::scheduler::hints::linger::Linger;
use crate::scheduler::hints::reinforcement::Reinforcement;
use crate::scheduler::hints::sampling::Sampling;
use crate::scheduler::idle::Idle;
use crate::scheduler::jobs::kept::Kept;
use crate::scheduler::owner::OwnJobs;
use crate::scheduler::processor::{Processor, Sighting};
use crate::scheduler::shared::Shared;
use crate::task::Header;
use crate::util::rand::FastRand;

/// The thread is in a `block_in_place`, or in a call that sleeps, such as `block_on`.
pub(super) const BLOCKED: u8 = 1;
/// The thread runs jobs.
pub(super) const COMPUTING: u8 = 2;
/// The thread was marked as blocked. Another thread may have unmarked it since.
pub(super) const MARKED: u8 = 4;

/// After so many turns a worker that always has tasks runs a job: after some milliseconds. Jobs may be long.
pub(super) const TURNS_TO_JOB: u32 = 16;

/// Where a worker queues the tasks that it wakes and spawns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PushTo {
    /// The LIFO slot: the task is polled next.
    LifoSlot,
    /// The ring, in order: the runtime has no LIFO slots, or the worker calls foreign wakers.
    Ring,
    /// The ring, in order: the worker dispatches events and timers, or sleeps until there are some.
    RingInDispatch,
    /// As above, but some tasks of this dispatch have to queue in the injector, behind older ones.
    BehindInDispatch,
}

/// What only the worker's own thread touches. The pointers make it neither `Send` nor `Sync`, so it stays on
/// the thread that made it.
#[derive(Debug)]
pub struct Worker {
    shared: NonNull<Shared>,
    pub(super) index: usize,
    /// Processor `index` of `shared`.
    processor: NonNull<Processor>,
    /// The number of polls in the stride, and when the stride began.
    pub(super) stride: Cell<u32>,
    pub(super) stride_began: Cell<Instant>,
    /// When the poll that is measured began, or begins with the next task. None if none is measured.
    pub(super) measured: Cell<Option<PollBegin>>,
    /// Rounds of the stride beyond those that are counted down now. 0, unless the worker has something to do
    /// before the end of the stride: to look whether a task has yielded, or to ask for help.
    pub(in crate::scheduler) rounds_put_off: Cell<u32>,
    /// How many times since its sleep the worker has looked whether a task has yielded. None if it slept too
    /// long ago, or pauses before it asks for help again.
    pub(in crate::scheduler) looks_at_yields: Cell<Option<u32>>,
    /// Whether a task has yielded since the last look.
    pub(in crate::scheduler) has_yielded: Cell<bool>,
    /// Turns of the driver until a job goes before the tasks that wait.
    pub(super) turns_to_job: Cell<u32>,
    /// Tasks to run before the injector is looked at first.
    pub(in crate::scheduler) tasks_to_injector: Cell<u32>,
    /// Which kind of jobs from other threads goes first the next time; see `jobs/run.rs`.
    pub(in crate::scheduler) first_kind: Cell<usize>,
    /// Whether a slow task went before the injector the last time.
    pub(in crate::scheduler) was_slow_first: Cell<bool>,
    /// How many tasks in a row came from the LIFO slot.
    pub(in crate::scheduler) lifo_streak: Cell<u32>,
    /// Whether `idle.rs` counts this worker as a searcher.
    pub(in crate::scheduler) is_searching: Cell<bool>,
    /// Whether this worker was unparked for work that it has not found yet.
    pub(in crate::scheduler) is_notified: Cell<bool>,
    /// The reasons why this thread does not come back to its queues soon: [`BLOCKED`], [`COMPUTING`],
    /// [`MARKED`], several of them, or 0. While there is a reason, the tasks that it wakes go to the
    /// injector.
    pub(super) away: Cell<u8>,
    /// How many more times the worker looks for work before it sleeps. Not 0 after a job: the computation may
    /// need this worker again.
    pub(super) rounds_left: Cell<u32>,
    /// The work that this worker may take. A permanent worker always takes everything.
    role: Cell<Role>,
    /// The worker's table of `owned.rs`: `index`. `None` for a spare worker, for a worker of a pool of jobs,
    /// and while the table is lent.
    pub(super) table: Cell<Option<usize>>,
    /// Whether the thread keeps its processor for good, and never runs the loop.
    is_for_good: bool,
    /// Where woken tasks go. On `current_thread` runtimes they are always queued in order, as in Tokio.
    pub(in crate::scheduler) push_to: Cell<PushTo>,
    /// The tasks of this dispatch that have to queue in the injector; see `push_in_order`.
    pub(in crate::scheduler) behind: RefCell<IntrusiveList<Header>>,
    /// The references to the shared state that this thread has taken, less those that it has dropped; see
    /// `reference.rs`.
    references: Cell<i64>,
    /// The task that was last seen in another worker's LIFO slot.
    pub(in crate::scheduler) sighting: Cell<Option<(usize, Sighting)>>,
    /// Foreign wakers, and a deadlock's report. The worker keeps them until no other thread relies on this
    /// worker.
    pub(super) foreign: ForeignWakes,
    /// Whether some were left for later, unless another thread has called them meanwhile.
    pub(super) has_left_wakers: Cell<bool>,
    /// Until when no thread is started for such wakers.
    pub(super) no_helper_before: Cell<Option<Instant>>,
    /// Whether the thread is inside of such a waker.
    pub(super) is_calling: Cell<bool>,
    /// How many wakers this thread is inside of that a `block_on` of another waker has called.
    pub(super) nested_wakers: Cell<u32>,
    /// Once the shutdown has begun: how many tables had been lent when this worker last cancelled the tasks
    /// in them.
    pub(in crate::scheduler) seen_lent: Cell<Option<usize>>,
    pub(super) report: RefCell<Option<Report>>,
    /// Speed hints.
    pub(in crate::scheduler) sampling: Sampling,
    pub(in crate::scheduler) linger: Linger,
    pub(in crate::scheduler) reinforcement: Reinforcement,
    pub(in crate::scheduler) rand: RefCell<FastRand>,
    magazine: Magazine,
    /// What was kept on the job processor when this thread left it. The drop may run foreign code.
    kept: RefCell<Vec<Kept>>,
    /// A worker of another runtime on the same thread; see `context.rs`.
    outer: Cell<*const Worker>,
    /// When the last sleep ended, and how long it was.
    pub(super) awake_since: Cell<Instant>,
    pub(super) slept: Cell<Duration>,
    /// In a pool: how long the last sleep could be.
    pub(super) look_again: Cell<Duration>,
}

impl Worker {
    /// # Safety
    /// 1. `shared` is valid for as long as the worker lives. 2. No other thread is the owner of processor
    ///    `index` meanwhile.
    pub unsafe fn new(shared: NonNull<Shared>, index: usize) -> Self {
        // SAFETY: (1).
        let state = unsafe { shared.as_ref() };
        let processor = state.processor(index);
        // Relaxed: this number is the owner's, and the monitor's writes are hints.
        processor.rounds.store(1, Relaxed);
        let rand = match &state.config.rng_seed {
            Some(seed) => FastRand::from_seed(seed.of(index as u64)),
            None => FastRand::new(),
        };
        let now = Instant::now();
        processor.metrics.busy.begin(now);
        Self {
            shared,
            index,
            processor: NonNull::from(processor),
            stride: Cell::new(state.config.event_interval),
            stride_began: Cell::new(now),
            measured: Cell::new(None),
            rounds_put_off: Cell::new(state.config.event_interval - 1),
            looks_at_yields: Cell::new(Some(1)),
            has_yielded: Cell::new(false),
            turns_to_job: Cell::new(TURNS_TO_JOB),
            tasks_to_injector: Cell::new(state.config.global_queue_interval),
            first_kind: Cell::new(0),
            was_slow_first: Cell::new(false),
            lifo_streak: Cell::new(0),
            is_searching: Cell::new(false),
            is_notified: Cell::new(false),
            away: Cell::new(0),
            rounds_left: Cell::new(0),
            role: Cell::new(Role::Full),
            table: Cell::new(
                Some(index).filter(|&index| index < state.config.workers && !state.config.is_pool),
            ),
            is_for_good: false,
            push_to: Cell::new(match state.is_current_thread() || !state.config.has_lifo_slot {
                true => PushTo::Ring,
                false => PushTo::LifoSlot,
            }),
            behind: RefCell::new(IntrusiveList::new()),
            references: Cell::new(0),
            sighting: Cell::new(None),
            foreign: ForeignWakes::new(),
            has_left_wakers: Cell::new(false),
            no_helper_before: Cell::new(None),
            is_calling: Cell::new(false),
            nested_wakers: Cell::new(0),
            seen_lent: Cell::new(None),
            report: RefCell::new(None),
            sampling: Sampling::new(),
            linger: Linger::new(),
            reinforcement: Reinforcement::new(),
            rand: RefCell::new(rand),
            magazine: Magazine::new(),
            kept: RefCell::default(),
            outer: Cell::new(null()),
            awake_since: Cell::new(now),
            slept: Cell::default(),
            look_again: Cell::default(),
        }
    }

    /// The worker of a thread that keeps its processor for good.
    ///
    /// # Safety
    /// As [`new`](Self::new).
    pub unsafe fn new_for_good(shared: NonNull<Shared>, index: usize) -> Self {
        // SAFETY: (1), (2).
        Self { is_for_good: true, ..unsafe { Self::new(shared, index) } }
    }
}

/// The worker's identity.
impl Worker {
    /// Whether the thread is busy with work of its own pool or runtime, as far as is known. A worker that has
    /// its processor for good is busy only while it runs others' jobs.
    pub fn is_engaged(&self) -> bool {
        !self.is_for_good || self.away.get() != 0
    }

    #[inline]
    pub fn shared(&self) -> &Shared {
        // SAFETY: duty 1 of `new`.
        unsafe { self.shared.as_ref() }
    }

    #[inline]
    pub fn shared_ptr(&self) -> NonNull<Shared> {
        self.shared
    }

    #[inline]
    pub fn index(&self) -> usize {
        self.index
    }

    /// The number by which users know this worker. None for a spare worker and for a worker of a pool of
    /// jobs.
    pub fn public_index(&self) -> Option<usize> {
        (self.is_permanent() && !self.shared().config.is_pool).then_some(self.index)
    }

    #[inline]
    pub fn processor(&self) -> &Processor {
        // SAFETY: processors live as long as the shared state: duty 1 of `new`.
        unsafe { self.processor.as_ref() }
    }

    /// Whether this is one of the workers made at build, not a spare one.
    pub fn is_permanent(&self) -> bool {
        self.index < self.shared().config.workers
    }

    /// The worker's jobs. None on a `current_thread` runtime.
    #[inline]
    pub fn job_processor(&self) -> Option<&OwnJobs> {
        let job_processor = self.processor().job_processor.as_ref();
        // SAFETY: (1) the worker is neither `Send` nor `Sync`, so the calling thread is the thread that made
        // it. By duty 2 of `new` no other thread is the owner while the worker lives, and the view lives no
        // longer.
        job_processor.map(|job_processor| unsafe { job_processor.by_owner() })
    }

    /// The table of `owned.rs` that this worker may use. None while the table is lent, for a spare worker,
    /// and for a worker of a pool of jobs.
    #[inline]
    pub fn table(&self) -> Option<usize> {
        self.table.get()
    }

    pub fn outer(&self) -> *const Worker {
        self.outer.get()
    }

    pub fn set_outer(&self, outer: *const Worker) {
        self.outer.set(outer);
    }

    #[inline]
    pub fn magazine(&self) -> &Magazine {
        &self.magazine
    }

    pub(in crate::scheduler) fn idle(&self) -> &Idle {
        &self.shared().idle
    }

    pub fn random_below(&self, n: usize) -> usize {
        self.rand.borrow_mut().below(n as u32) as usize
    }

    #[inline]
    pub fn count_references(&self, n: i64) {
        self.references.set(self.references.get() + n);
    }

    pub fn take_references(&self) -> i64 {
        self.references.take()
    }

    /// Leaves the regions of guards that tasks and jobs have left on this thread, because the thread leaves
    /// its job processor for good.
    pub fn leave_regions(&self) {
        if let Some(job_processor) = self.job_processor() {
            job_processor.leave_regions();
            self.kept.borrow_mut().extend(job_processor.take_kept_regions());
        }
    }

    /// What [`leave_regions`](Self::leave_regions) has found. The caller drops it when the worker has left.
    #[must_use]
    pub fn take_kept_regions(&self) -> Vec<Kept> {
        self.kept.take()
    }

    /// What this worker may do, as of the last time that it asked.
    pub fn role(&self) -> Role {
        self.role.get()
    }

    /// Asks what this worker, which is out of work, may do.
    #[inline]
    pub(in crate::scheduler) fn ask_role(&self) -> Role {
        if !self.is_permanent() {
            self.role.set(self.shared().role(self.index));
        }
        self.role.get()
    }
}
