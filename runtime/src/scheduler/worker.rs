//! The loop: next work, run, search, sleep.
//!
//! A [`Worker`] is the part of a processor that only the worker's own thread touches. It lives on that
//! thread's stack. The thread's context points to it, so that spawns and wakes from tasks find its queues.
//!
//! Order of work:
//! 1. now and then, the injector;
//! 2. the LIFO slot (a limited number of times in a row), the ring, a batch from the injector;
//! 3. jobs that the worker need not steal;
//! 4. other workers' rings, and the LIFO slot of a stuck worker;
//! 5. other workers' jobs (`next_work.rs`).
//!
//! **Time decides when a turn comes.** The driver, the timers, the injector and injected jobs have their turn
//! about every [`TURN`]. To read the clock at each poll would cost more than most polls. So the worker counts
//! down a *stride* of polls, and reads the clock at the end of the stride. Then it makes the next stride
//! longer or shorter, as a computation does with its splits (`split.rs`). A stride has at most
//! `event_interval` polls. If one poll takes as long as a turn, a turn follows each poll.
//!
//! The monitor ends a stride early if a poll takes long (`monitor.rs`): it can write the countdown. The owner
//! may overwrite the monitor's write; then the monitor writes again.

use std::cell::{Cell, RefCell};
use std::ptr::{NonNull, null};
use std::time::{Duration, Instant};

use super::away::Role;
use super::away::marks::Report;
use super::hints::linger::Linger;
use super::hints::reinforcement::Reinforcement;
use super::hints::sampling::Sampling;
use super::idle::{Idle, Work};
use super::job_processor::{JobProcessor, outside_of_computations};
use super::processor::{Processor, Sighting};
use super::shared::Shared;
use super::wait;
use crate::driver::foreign::ForeignWakes;
use crate::driver::time::Deadline;
use crate::loom::MEASURES_POLLS;
use crate::loom::sync::atomic::Ordering::{Acquire, Relaxed};
use crate::memory::Magazine;
use crate::task::Runnable;
use crate::util::rand::FastRand;

/// The longest time between two turns of the driver and the injector, about.
pub const TURN: Duration = Duration::from_micros(200);

/// The thread is inside of a `block_in_place`.
const BLOCKED: u8 = 1;
/// The thread runs jobs.
const COMPUTING: u8 = 2;
/// The thread was marked as blocked. Another thread may have unmarked it since.
const MARKED: u8 = 4;

/// What only the worker's own thread touches.
#[derive(Debug)]
pub struct Worker {
    shared: NonNull<Shared>,
    index: usize,
    /// Processor `index` of `shared`.
    processor: NonNull<Processor>,
    /// The number of polls in the stride, and when the stride began.
    stride: Cell<u32>,
    stride_began: Cell<Instant>,
    /// Rounds of the stride beyond those that are counted down now. 0, unless the worker has something to do
    /// before the end of the stride: to look whether a task has yielded, or to ask for help.
    pub(super) rounds_put_off: Cell<u32>,
    /// How many times since its sleep the worker has looked whether a task has yielded. None if it slept too
    /// long ago, or pauses before it asks for help again.
    pub(super) looks_at_yields: Cell<Option<u32>>,
    /// Whether a task has yielded since the last look.
    pub(super) has_yielded: Cell<bool>,
    /// Tasks to run before the injector is looked at first.
    pub(super) tasks_to_injector: Cell<u32>,
    /// Whether a slow task went before the injector the last time.
    pub(super) was_slow_first: Cell<bool>,
    /// How many tasks in a row came from the LIFO slot.
    pub(super) lifo_streak: Cell<u32>,
    /// Whether `idle.rs` counts this worker as a searcher.
    pub(super) is_searching: Cell<bool>,
    /// Whether this worker was unparked for work that it has not found yet.
    pub(super) is_notified: Cell<bool>,
    /// The reasons why this thread does not come back to its queues soon: [`BLOCKED`], [`COMPUTING`],
    /// [`MARKED`], several of them, or 0. While there is a reason, the tasks that it wakes go to the
    /// injector.
    away: Cell<u8>,
    /// How many more times the worker looks for work before it sleeps. Not 0 after a job: the computation may
    /// need this worker again.
    rounds_left: Cell<u32>,
    /// The work that this worker may take. A permanent worker always takes everything.
    role: Cell<Role>,
    /// The worker's table of `owned.rs`: `index`. `None` for a spare worker, for a worker of a pool of jobs,
    /// and while the table is lent.
    table: Cell<Option<usize>>,
    /// Whether the thread keeps its processor for good, and never runs the loop.
    is_for_good: bool,
    /// Whether woken tasks are queued in order, without a notification. This is always so on `current_thread`
    /// runtimes, as in Tokio. On others it is so while the worker dispatches events and timers; one
    /// notification follows at the end.
    pub(super) is_fifo: Cell<bool>,
    /// The references to the shared state that this thread has taken, less those that it has dropped; see
    /// `reference.rs`.
    references: Cell<i64>,
    /// The task that was last seen in another worker's LIFO slot.
    pub(super) sighting: Cell<Option<(usize, Sighting)>>,
    /// Foreign wakers, and a deadlock's report. The worker keeps them until no other thread relies on this
    /// worker.
    foreign: RefCell<ForeignWakes>,
    /// Once the shutdown has begun: how many tables had been lent when this worker last cancelled the tasks
    /// in them.
    pub(super) seen_lent: Cell<Option<usize>>,
    report: RefCell<Option<Report>>,
    /// Speed hints.
    pub(super) sampling: Sampling,
    pub(super) linger: Linger,
    pub(super) reinforcement: Reinforcement,
    pub(super) rand: RefCell<FastRand>,
    magazine: Magazine,
    /// A worker of another runtime on the same thread; see `context.rs`.
    outer: Cell<*const Worker>,
    /// When the last sleep ended, and how long it was.
    awake_since: Cell<Instant>,
    slept: Cell<Duration>,
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
        Self {
            shared,
            index,
            processor: NonNull::from(processor),
            stride: Cell::new(state.config.event_interval),
            stride_began: Cell::new(now),
            rounds_put_off: Cell::new(state.config.event_interval - 1),
            looks_at_yields: Cell::new(Some(1)),
            has_yielded: Cell::new(false),
            tasks_to_injector: Cell::new(state.config.global_queue_interval),
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
            is_fifo: Cell::new(state.is_current_thread() || !state.config.has_lifo_slot),
            references: Cell::new(0),
            sighting: Cell::new(None),
            foreign: RefCell::new(ForeignWakes::new()),
            seen_lent: Cell::new(None),
            report: RefCell::new(None),
            sampling: Sampling::new(),
            linger: Linger::new(),
            reinforcement: Reinforcement::new(),
            rand: RefCell::new(rand),
            magazine: Magazine::new(),
            outer: Cell::new(null()),
            awake_since: Cell::new(now),
            slept: Cell::default(),
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

    /// The loop of a worker thread. It ends when the shutdown begins, or when a spare worker retires.
    pub fn run(&self) {
        while !self.shared().lifecycle.has_begun() {
            self.maintain_at_times();
            if let Some(task) = self.next_task() {
                self.run_task(task);
            } else if self.run_next_job() {
            } else if let Some(task) = self.search() {
                self.run_task(task);
            } else if self.run_stolen_job() || self.looks_again() || self.lingers() || self.ends_yields() {
            } else if self.rests() {
                if !self.rest() {
                    return;
                }
            } else {
                self.park();
            }
        }
        self.wind_down();
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
    pub fn job_processor(&self) -> Option<&JobProcessor> {
        self.processor().job_processor.as_ref()
    }

    /// The table of `owned.rs` that this worker may use. None while the table is lent, and none for spare
    /// workers.
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

    pub(super) fn idle(&self) -> &Idle {
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

    /// What this worker may do, as of the last time that it asked.
    pub fn role(&self) -> Role {
        self.role.get()
    }

    /// Asks what this worker, which is out of work, may do.
    #[inline]
    pub(super) fn ask_role(&self) -> Role {
        if !self.is_permanent() {
            self.role.set(self.shared().role(self.index));
        }
        self.role.get()
    }
}

/// Whether the worker is in its loop, away or blocked.
impl Worker {
    /// Whether this thread comes back to its queues soon.
    #[inline]
    pub fn takes_tasks(&self) -> bool {
        self.is_here() || self.is_unmarked()
    }

    /// As [`takes_tasks`](Self::takes_tasks), where no other thread can have unmarked this one.
    #[inline]
    pub fn is_here(&self) -> bool {
        self.away.get() == 0
    }

    /// Whether marks were the only reason why this thread was away, and the thread that unblocked it has
    /// taken them back.
    #[cold]
    fn is_unmarked(&self) -> bool {
        // Acquire: pairs with the release of the thread that took the last mark back.
        if self.away.get() != MARKED || self.processor().marks.load(Acquire) > 0 {
            return false;
        }
        self.away.set(0);
        self.take_table_back();
        true
    }

    /// Whether this thread is marked as blocked, and no thread has unmarked it. If so, its table stays lent.
    fn is_marked(&self) -> bool {
        // Acquire: as in `is_unmarked`.
        self.away.get() & MARKED != 0 && self.processor().marks.load(Acquire) > 0
    }

    #[inline]
    pub fn is_blocked(&self) -> bool {
        self.away.get() & BLOCKED != 0
    }

    /// `SayBlocked` of `away/mod.rs`. Returns whether the worker had its table. No thread may use that table
    /// until the worker is counted as blocked or is back.
    pub fn begin_blocking(&self) -> bool {
        self.away.set(self.away.get() | BLOCKED);
        let has_table = self.table.take().is_some();
        self.processor().blocked_state.say_blocked();
        has_table
    }

    /// `SayBack`. `had_table` is the result of [`begin_blocking`](Self::begin_blocking). Returns whether the
    /// worker was counted as blocked.
    pub fn end_blocking(&self, had_table: bool) -> bool {
        let is_counted = self.processor().blocked_state.say_back();
        let shared = self.shared();
        shared.monitor.worker_returned(&shared.driver);
        if is_counted {
            // The lock orders the thread that has counted this worker before what follows.
            shared.one_less_blocked();
        }
        if had_table && !is_counted {
            self.table.set(Some(self.index));
        } else if !self.is_marked() {
            self.take_table_back();
        }
        self.away.set(self.away.get() & !BLOCKED);
        is_counted
    }

    /// As [`begin_blocking`](Self::begin_blocking). It lasts until this thread finds that it was unmarked.
    pub fn begin_marked(&self) {
        self.away.set(self.away.get() | MARKED);
        self.lend_table();
    }

    /// Runs `f`. `f` runs jobs and does not unwind.
    pub fn computing<R>(&self, f: impl FnOnce() -> R) -> R {
        let before = self.away.replace(self.away.get() | COMPUTING);
        let result = f();
        self.away.set(before);
        result
    }

    /// Lends this worker's table of `owned.rs`. Other workers see to the table while this thread sleeps or
    /// blocks, and after it has left.
    pub(super) fn lend_table(&self) {
        if let Some(table) = self.table.take() {
            // SAFETY: this thread is the table's worker, and had not lent it.
            unsafe { self.shared().owned.lend(table) };
        }
    }

    pub(super) fn take_table_back(&self) {
        if self.is_permanent() && !self.shared().config.is_pool {
            self.shared().owned.take_back(self.index);
            self.table.set(Some(self.index));
        }
    }

    /// Whether work waits that this thread should give to others before it blocks.
    pub fn holds_work(&self) -> bool {
        let has_jobs = |job_processor: &JobProcessor| {
            job_processor.has_child_jobs() || !job_processor.detached.is_empty()
        };
        self.has_own_tasks()
            || !self.shared().injector.is_empty()
            || self.job_processor().is_some_and(has_jobs)
    }

    pub(super) fn has_own_tasks(&self) -> bool {
        let processor = self.processor();
        !processor.ring.is_empty() || processor.lifo.is_occupied()
    }

    /// `Leave` of `away/mod.rs`, before this thread blocks. Other workers then see to its tasks, its jobs,
    /// its timers, and the driver.
    ///
    /// The tasks go to the injector, from where other workers take them in batches.
    #[inline(never)]
    pub fn expose(&self) {
        let shared = self.shared();
        self.move_tasks_to_injector();
        self.leave_timers();
        if let Some(job_processor) = self.job_processor() {
            // SAFETY: this thread is the job processor's owner.
            unsafe { job_processor.expose_child_jobs() };
        }
        // Also with an empty ring: if this thread was the last to be the poller, another worker has to
        // sit there now.
        shared.fetch_strictly(Work::Task);
        shared.samplers.wake(shared);
    }

    /// This worker begins a job. It will not come back to its tasks and to the driver soon.
    pub fn begin_job(&self) {
        self.stop_searching_if_so();
        self.rounds_left.set(wait::ROUNDS);
        let driver = &self.shared().driver;
        let has_tasks = self.has_own_tasks() || !self.shared().injector.is_empty();
        if has_tasks || driver.io().is_some() && driver.poller().is_none() {
            self.expose();
        } else {
            self.leave_timers();
        }
    }

    /// Gives this worker's timers to the poller. That worker may have relied on this
    /// one for them.
    fn leave_timers(&self) {
        let driver = &self.shared().driver;
        let Some(time) = driver.time() else { return };
        let deadline = time.deadline_of(self.shared().wheel(self.index));
        if deadline != Deadline::MAX {
            driver.timer_registered(deadline);
        }
    }
}

/// Polls, and what happens between two polls.
impl Worker {
    /// Polls a task once.
    pub fn run_task(&self, task: Runnable) {
        if self.is_searching.get() {
            self.stop_searching();
        }
        let processor = self.processor();
        processor.metrics.polls.add(1);
        processor.polling.begin(&task);
        task.run();
    }

    /// Cancels a task that is not polled any more, because the shutdown has begun.
    pub fn cancel_task(&self, task: Runnable) {
        self.stop_searching_if_so();
        let _outer = self.processor().polling.begin_cancel(&task);
        task.cancel();
    }

    /// At the end of a stride, looks at the driver and the timers.
    #[inline(always)]
    pub fn maintain_at_times(&self) {
        let rounds = &self.processor().rounds;
        // Relaxed: a number by itself. The monitor's write may be lost; see the module's docs.
        let left = rounds.load(Relaxed) - 1;
        rounds.store(left, Relaxed);
        if left == 0 {
            self.rounds_are_over();
        }
    }

    /// Either the driver has its turn, or the worker looks whether a task has yielded, or it asks for help
    /// again; see `hints/reinforcement.rs`.
    #[inline(never)]
    fn rounds_are_over(&self) {
        let left = self.rounds_put_off.take();
        let looks_at_yields = self.looks_at_yields.get().is_some();
        let is_early = looks_at_yields && self.has_yielded.replace(false);
        // The monitor ends a stride early, too.
        let is_told = self.processor().was_told_long();
        if left > 0 && !is_early && !is_told {
            if looks_at_yields {
                return self.set_next_look(left);
            }
            self.set_rounds(left);
            return self.share_ring();
        }
        if is_early {
            // Too few polls for an estimate.
            self.stride_began.set(Instant::now());
            self.set_rounds(self.stride.get());
        } else {
            self.begin_stride();
        }
        if looks_at_yields {
            self.set_next_look(self.rounds());
        }
        self.maintain();
    }

    pub(super) fn set_rounds(&self, rounds: u32) {
        self.processor().rounds.store(rounds, Relaxed);
    }

    pub(super) fn rounds(&self) -> u32 {
        self.processor().rounds.load(Relaxed)
    }

    /// Ends one stride and begins the next. The next stride is to take one [`TURN`], estimated from the last
    /// stride.
    fn begin_stride(&self) {
        let config = &self.shared().config;
        let now = Instant::now();
        let began = self.stride_began.replace(now);
        // Half a turn changes nothing.
        let taken = if MEASURES_POLLS { now.saturating_duration_since(began) } else { TURN / 2 };
        let stride = self.stride.get();
        if taken > TURN / 2 {
            // The injector has its turn, too. It is not the very next one, because the tasks in the ring wait
            // as well.
            self.tasks_to_injector.set(self.tasks_to_injector.get().min(2));
        }
        let next = if taken > 2 * TURN {
            (u128::from(stride) * TURN.as_nanos() / taken.as_nanos()).max(1) as u32
        } else if taken < TURN / 4 {
            stride.saturating_mul(2)
        } else {
            stride
        };
        self.stride.set(next.min(config.event_interval));
        self.set_rounds(self.stride.get());
    }

    /// A sleep has ended. From now on the worker looks whether a task has yielded: after one round and one
    /// more, then after two and two, four and four, and so on. If so, the driver has its turn.
    ///
    /// Programs yield some times so that what they have sent arrives. They rely on it that the driver is
    /// polled meanwhile, as by Tokio's `yield_now`. A task that yields for longer has to wait for the end of
    /// the stride, because a turn costs as much as dozens of yields.
    fn begin_looks_at_yields(&self) {
        self.looks_at_yields.set(Some(0));
        self.has_yielded.set(false);
        self.set_next_look(self.rounds() + self.rounds_put_off.get());
    }

    /// Splits `rounds`, the rest of the stride, behind the next look.
    fn set_next_look(&self, rounds: u32) {
        let looks = self.looks_at_yields.get().unwrap_or(0);
        let length = 1 << (looks / 2).min(31);
        self.looks_at_yields.set(Some(looks + 1).filter(|_| length < self.stride.get()));
        let next = rounds.min(length);
        self.set_rounds(next);
        self.rounds_put_off.set(rounds - next);
    }

    /// The stride ends with the next poll.
    pub(super) fn end_stride(&self) {
        self.rounds_put_off.set(0);
        self.set_rounds(1);
    }

    /// Whether a poll took as long as a turn in the last stride.
    pub(super) fn has_long_polls(&self) -> bool {
        self.stride.get() == 1
    }

    /// Dispatches the events and timers that are due, without waiting.
    #[inline(never)]
    pub fn maintain(&self) {
        self.end_slices();
        let driver = &self.shared().driver;
        self.dispatch(|foreign| {
            if driver.io().is_some_and(|io| io.has_sources()) {
                if let Some(mut poller) = driver.try_become_poller(self.index) {
                    poller.poll(foreign);
                }
            }
            driver.fire_timers(foreign);
        });
        self.call_foreign();
        self.sort_ring();
        self.share_ring();
        if self.takes_tasks() {
            self.run_job_from_others();
        }
    }

    /// This worker is back from a computation; see `hints/slices.rs`.
    fn end_slices(&self) {
        if let Some(job_processor) = self.job_processor() {
            job_processor.slices.end(|| self.shared().splits.now());
        }
    }

    /// For a worker in the middle of a computation. It polls the driver, and moves the tasks that wake there,
    /// and those in its own queues, to where any thread finds them. Notifies no worker.
    pub fn collect_tasks(&self, job_processor: &JobProcessor) {
        let driver = &self.shared().driver;
        let collect = || {
            self.dispatch(|foreign| {
                if let Some(io) = driver.io().filter(|io| io.has_sources()) {
                    match driver.try_become_poller(self.index) {
                        Some(mut poller) => _ = poller.poll(foreign),
                        // The worker that sits there may be woken already, but wait for a CPU.
                        None => io.poll_nonblocking(foreign),
                    }
                }
                driver.fire_timers(foreign);
            });
            self.call_foreign();
        };
        // Run as if outside of the computation: foreign wakers are then collected first, instead of called
        // here. But a blocking call inside of another blocking call stays inside of the outer one.
        let computing = self.away.get() & COMPUTING;
        self.away.set(self.away.get() & !COMPUTING);
        outside_of_computations(|| job_processor.in_surroundings(collect));
        self.away.set(self.away.get() | computing);
        self.move_tasks_to_injector();
    }

    /// Runs `f`, which wakes many tasks. The tasks are queued in order, without a notification for each.
    /// Foreign wakers are kept for [`call_foreign`](Self::call_foreign).
    pub(super) fn dispatch<R>(&self, f: impl FnOnce(&mut ForeignWakes) -> R) -> R {
        let was_fifo = self.is_fifo.replace(true);
        let result = f(&mut self.foreign.borrow_mut());
        self.is_fifo.set(was_fifo);
        result
    }

    pub(super) fn keep_report(&self, report: Option<Report>) {
        if report.is_some() {
            *self.report.borrow_mut() = report;
        }
    }

    /// Whether foreign code is kept to be called.
    #[inline]
    pub(super) fn has_foreign(&self) -> bool {
        !self.foreign.borrow().is_empty() || self.report.borrow().is_some()
    }

    /// Calls the foreign wakers that were kept, and the deadlock handler if it has to be told. No other
    /// thread may rely on this worker meanwhile: it is in no number of `idle.rs`, holds no lock, and does not
    /// be the poller.
    #[inline]
    pub(super) fn call_foreign(&self) {
        if self.has_foreign() {
            self.call_what_is_foreign();
        }
    }

    #[cold]
    fn call_what_is_foreign(&self) {
        self.stop_searching_if_so();
        let foreign = self.foreign.borrow_mut().take();
        let was_fifo = self.is_fifo.replace(true);
        foreign.wake_all();
        self.is_fifo.set(was_fifo);
        let report = self.report.borrow_mut().take();
        report.into_iter().for_each(Report::deliver);
    }
}

/// Sleep.
impl Worker {
    /// Whether a worker that found nothing tries again. If so, it has yielded its CPU to other threads first.
    fn looks_again(&self) -> bool {
        let left = self.rounds_left.get();
        if left == 0 {
            return false;
        }
        self.rounds_left.set(left - 1);
        crate::loom::thread::yield_now();
        true
    }

    /// Whether the worker spun for a while, and work came from outside; see `hints/linger.rs`.
    fn lingers(&self) -> bool {
        let shared = self.shared();
        let is_relied_upon = self.is_searching.get() || shared.processors.len() == 1;
        self.is_permanent() && is_relied_upon && self.linger.wait(shared, self.index)
    }

    /// CountSleeper to SleepPark of `idle.rs`: sleeps until there is something to do.
    pub(super) fn park(&self) {
        let shared = self.shared();
        if self.is_notified.replace(false) {
            self.processor().metrics.noops.add(1);
        }
        self.end_slices();
        self.processor().polling.clear();
        shared.void_marks_of(self.index);
        let role = self.ask_role();
        if !self.run_park_hook() {
            return;
        }
        if self.samples() {
            return self.run_unpark_hook();
        }
        let is_beside_sampler = self.sleeps_beside_sampler();
        if role != Role::Full {
            self.leave_rest_to_others();
        }
        let idle = self.idle();
        if idle.is_job_posted() {
            // GetSleepy: the worker is sleepy now, and looks for work once more.
            idle.get_sleepy();
            return self.run_unpark_hook();
        }
        let seen = idle.get_sleepy();
        if !idle.announce_sleep_unless(self.index, self.is_searching.get(), seen) {
            return self.run_unpark_hook();
        }
        self.is_searching.set(false);
        // The role is asked for again, behind SleepFence. A thread that widens the role of a spare worker
        // fetches a worker afterwards.
        if self.has_work(self.ask_role(), is_beside_sampler) {
            idle.cancel_sleep(self.index);
            self.is_searching.set(true);
        } else {
            shared.samplers.wake_if_alone(shared);
            self.sleep();
            if !idle.end_sleep(self.index) {
                self.is_searching.set(true);
                self.is_notified.set(true);
                self.linger.was_woken(shared, self.slept.get());
            }
            self.call_foreign();
            if !self.is_permanent() {
                self.sort_ring();
            }
            self.share_ring();
        }
        // After the end of the sleep, also if the worker did not sleep after all.
        shared.monitor.worker_woke(&shared.driver);
        self.run_unpark_hook();
    }

    /// SleepLook of `idle.rs`. `leaves_tasks`: another thread is about to look at the tasks; see
    /// `hints/sampling.rs`.
    fn has_work(&self, role: Role, leaves_tasks: bool) -> bool {
        let shared = self.shared();
        // For `lifecycle.rs`: the worker has to wind down, or to cancel the tasks of another table.
        let is_ending = || shared.lifecycle.has_begun() && self.seen_lent.get() != Some(shared.away.lent());
        !leaves_tasks && shared.has_tasks_for(role)
            || shared.has_jobs_for(self.index, role)
            || !self.is_permanent() && shared.away.has_yielding()
            || is_ending()
    }

    /// Calls the user's hook. Returns false if the hook made work for this worker.
    pub fn run_park_hook(&self) -> bool {
        let hooks = &self.shared().config.hooks;
        if hooks.has_park() {
            // Foreign code: no other thread may rely on this one.
            self.stop_searching_if_so();
        }
        hooks.on_park();
        let is_idle = !self.has_own_tasks();
        if !is_idle {
            self.run_unpark_hook();
        }
        is_idle
    }

    pub(super) fn run_unpark_hook(&self) {
        let hooks = &self.shared().config.hooks;
        if hooks.has_unpark() {
            self.stop_searching_if_so();
        }
        hooks.on_unpark();
    }

    /// Sleeps in the driver if it is free, else on the token; then dispatches. The last worker to go to sleep
    /// looks for a deadlock. Foreign code is kept for [`call_foreign`](Self::call_foreign).
    pub fn sleep(&self) {
        let shared = self.shared();
        let parker = &self.processor().parker;
        let limit = self.longest_sleep();
        let mut report = None;
        let mut may_sleep = || {
            report = shared.find_deadlock();
            report.is_none()
        };
        self.sleeping(|foreign| match shared.driver.try_become_poller(self.index) {
            Some(mut poller) => {
                _ = parker.park_in_driver(|| may_sleep() && poller.sleep(limit, foreign) > 0);
            }
            None => {
                let own = shared.driver.own_timeout(shared.wheel(self.index));
                parker.park_if(own.into_iter().chain(limit).min(), may_sleep);
            }
        });
        self.keep_report(report);
    }

    /// Sleeps on the token for at most `limit`.
    pub(super) fn sleep_on_token(&self, limit: Duration) {
        let shared = self.shared();
        let own = shared.driver.own_timeout(shared.wheel(self.index));
        let limit = own.map_or(limit, |own| own.min(limit));
        self.sleeping(|_| self.processor().parker.park(Some(limit)));
    }

    /// Sleeps while the clock is paused. When no other work is left, the clock moves to the next timer.
    pub fn sleep_with_paused_clock(&self, is_needed: impl Fn() -> bool) {
        let shared = self.shared();
        let processor = self.processor();
        self.sleeping(|foreign| {
            let Some(mut poller) = shared.driver.try_become_poller(self.index) else {
                return processor.parker.park(None);
            };
            poller.poll(foreign);
            shared.driver.fire_timers(foreign);
            let is_idle = processor.ring.is_empty() && foreign.is_empty() && !is_needed();
            if is_idle && !shared.driver.auto_advance() {
                processor.parker.park_in_driver(|| poller.wait(foreign));
            }
        });
    }

    /// Counts the time since the last sleep as busy. Returns the present time, and how long the worker was
    /// busy.
    pub(super) fn count_busy(&self) -> (Instant, Duration) {
        let now = Instant::now();
        let busy = now.saturating_duration_since(self.awake_since.replace(now));
        self.processor().metrics.busy_ns.add(busy.as_nanos() as u64);
        (now, busy)
    }

    /// Counts `sleep` as time asleep, and dispatches the tasks that `sleep` and the timers wake.
    fn sleeping(&self, sleep: impl FnOnce(&mut ForeignWakes)) {
        let metrics = &self.processor().metrics;
        metrics.parks.add(1);
        let (start, busy) = self.count_busy();
        self.linger.sleeps();
        self.reinforcement.sleeps(self.processor().tick(), busy);
        self.lend_table();
        self.dispatch(|foreign| {
            metrics.naps.add(1);
            sleep(foreign);
            metrics.naps.add(1);
            let end = Instant::now();
            self.awake_since.set(end);
            self.stride_began.set(end);
            self.begin_looks_at_yields();
            self.slept.set(end.saturating_duration_since(start));
            self.shared().driver.fire_timers(foreign);
        });
        if self.is_blocked() || self.is_marked() {
            // This worker may have been the poller, and the monitor may rest because of that.
            self.shared().monitor.worker_woke(&self.shared().driver);
        } else {
            self.take_table_back();
        }
    }

    /// `TasksDone` of `split.rs`. Other workers may have yielded to this spare worker, and it has found no
    /// more tasks. It polls the driver once more. If that brings no tasks either, it lets the yielding
    /// workers go on. Returns whether there are tasks.
    fn ends_yields(&self) -> bool {
        if self.is_permanent() || !self.shared().away.has_yielding() {
            return false;
        }
        self.maintain();
        let has_tasks = self.has_own_tasks();
        if !has_tasks {
            self.shared().end_all_yields();
        }
        has_tasks
    }

    /// `WindDown` of a `current_thread` runtime: cancels every task in this worker's queues and
    /// tables, and the tasks that a cancellation wakes.
    pub fn drain(&self) {
        let processor = self.processor();
        processor.polling.clear();
        let mut has_looked = false;
        loop {
            // SAFETY: this thread is the owner; what is in the ring is `Runnable`s.
            let task = unsafe {
                processor.lifo.pop().or_else(|| processor.ring.pop().map(|task| Runnable::from_raw(task)))
            };
            match task {
                Some(task) => self.cancel_task(task),
                None if has_looked => break,
                None => {
                    has_looked = true;
                    // SAFETY: this thread is the worker of its table.
                    unsafe { self.shared().owned.cancel_idle(self.table()) };
                }
            }
        }
        self.lend_table();
    }
}
