//! The loop on one screen: next work, run, search, park.
//!
//! A [`Worker`] is the thread's own half of a processor: what only its thread touches. It lives on that thread's stack and
//! stands in its context, so that spawns and wakes from tasks find the way to its queues.
//!
//! Order of work: every 61st time the injector first; then the LIFO slot (a limited number of times in a row), the ring, a
//! batch of the injector; then jobs that need no theft; then other workers' rings, and a LIFO slot whose owner is stuck; and at
//! last other seats' jobs. Every 61 polls a look at the driver, the timers, and the jobs.

use std::cell::{Cell, RefCell};
use std::iter;
use std::ptr::{NonNull, null};
use std::time::{Duration, Instant};

use super::guest::Risen;
use super::idle::{Idle, JobEvents, Work};
use super::linger::Linger;
use super::magazine::Magazine;
use super::nap::Lookout;
use super::processor::{Processor, Sighting};
use super::reinforcement::Reinforcement;
use super::relief;
use super::seat::{Seat, outside_of_computations};
use super::shared::Shared;
use super::wait;
use crate::coop;
use crate::driver::time::Deadline;
use crate::loom::sync::atomic::Ordering::{AcqRel, Acquire, SeqCst};
use crate::loom::sync::atomic::fence;
use crate::queue::Chain;
use crate::task::Runnable;
use crate::util::rand::FastRand;

/// How many tasks in a row may come from the LIFO slot before the ring has its turn.
const LIFO_STREAK: u32 = 16;

/// A thread that is in a `block_in_place`.
const BLOCKED: u8 = 1;
/// A thread that runs jobs.
const COMPUTING: u8 = 2;
/// A thread that was marked as blocked, and that may have been unmarked by another one since.
const MARKED: u8 = 4;

/// What only the worker's own thread touches.
#[derive(Debug)]
pub struct Worker {
    shared: NonNull<Shared>,
    index: usize,
    /// Processor `index` of `shared`.
    processor: NonNull<Processor>,
    /// Rounds of the loop until the driver is looked at.
    rounds_to_events: Cell<u32>,
    /// How many more, since `rounds_to_events` are those until help is asked for again; else 0.
    rounds_put_off: Cell<u32>,
    reinforcement: Reinforcement,
    /// Tasks until the injector is looked at first.
    tasks_to_injector: Cell<u32>,
    /// Tasks in a row that came from the LIFO slot.
    lifo_streak: Cell<u32>,
    /// Counted among the searchers of `idle.rs`.
    is_searching: Cell<bool>,
    /// Unparked for work that it has not found yet.
    is_notified: Cell<bool>,
    /// Why this thread does not come back to its queues soon, so that what it wakes goes to the injector: [`BLOCKED`],
    /// [`COMPUTING`], [`MARKED`], several of them, or 0.
    away: Cell<u8>,
    /// How many more times it looks for work before it sleeps: it may be needed in a computation that it took part in.
    rounds_left: Cell<u32>,
    /// The seat, unless this is a relief thread or the runtime has no jobs of its own; or the seat is lent, see `guest.rs`.
    job_seat: Cell<*const Seat>,
    /// The seat is lent while this thread is awake: it is counted with the relief threads.
    stands_in: Cell<bool>,
    /// `index`, unless this is a relief thread, or one of a pool of jobs, or the table is lent.
    seat: Cell<Option<usize>>,
    /// The thread has the seat for good, and never runs the loop.
    is_permanent: bool,
    /// What is woken is queued in order, without a notification: always on `current_thread` runtimes, as in Tokio, and else
    /// while events and timers are dispatched, with one notification at the end.
    is_fifo: Cell<bool>,
    /// References to the shared state taken less dropped by this thread; see `shared.rs`.
    references: Cell<i64>,
    /// A task seen in another worker's LIFO slot.
    sighting: Cell<Option<(usize, Sighting)>>,
    /// What it remembers of the others.
    lookout: Lookout,
    /// What it remembers of the work from outside.
    linger: Linger,
    rand: RefCell<FastRand>,
    magazine: Magazine,
    /// The worker of another runtime that this thread is, too; see `context.rs`.
    outer: Cell<*const Worker>,
    /// When the last sleep ended.
    awake_since: Cell<Instant>,
    /// How long that was.
    slept: Cell<Duration>,
}

impl Worker {
    /// # Safety
    /// 1. `shared` is valid for as long as the worker lives. 2. Nobody else is the owner of processor `index` meanwhile.
    pub unsafe fn new(shared: NonNull<Shared>, index: usize) -> Self {
        // SAFETY: (1).
        let state = unsafe { shared.as_ref() };
        Self {
            shared,
            index,
            processor: NonNull::from(state.processor(index)),
            rounds_to_events: Cell::new(state.config.event_interval),
            rounds_put_off: Cell::new(0),
            reinforcement: Reinforcement::new(),
            tasks_to_injector: Cell::new(state.config.global_queue_interval),
            lifo_streak: Cell::new(0),
            is_searching: Cell::new(false),
            is_notified: Cell::new(false),
            away: Cell::new(0),
            rounds_left: Cell::new(0),
            job_seat: Cell::new(state.seats.get(index).map_or(null(), |seat| seat)),
            stands_in: Cell::new(index >= state.config.workers),
            seat: Cell::new(
                Some(index).filter(|&index| index < state.config.workers && !state.config.is_pool),
            ),
            is_permanent: false,
            is_fifo: Cell::new(state.is_current_thread()),
            references: Cell::new(0),
            sighting: Cell::new(None),
            lookout: Lookout::new(),
            linger: Linger::new(),
            rand: RefCell::new(FastRand::new()),
            magazine: Magazine::new(),
            outer: Cell::new(null()),
            awake_since: Cell::new(Instant::now()),
            slept: Cell::default(),
        }
    }

    /// The worker of a thread that keeps its seat for good.
    ///
    /// # Safety
    /// As [`new`](Self::new).
    pub unsafe fn new_permanent(shared: NonNull<Shared>, index: usize) -> Self {
        // SAFETY: (1), (2).
        Self { is_permanent: true, ..unsafe { Self::new(shared, index) } }
    }

    /// Whether the thread is busy with work of the pool or runtime that it is a worker of, as far as is known. One that has its
    /// seat for good is so while it runs others' jobs.
    pub fn is_engaged(&self) -> bool {
        !self.is_permanent || self.away.get() != 0
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

    #[inline]
    pub fn processor(&self) -> &Processor {
        // SAFETY: processors live as long as the shared state: duty 1 of `new`.
        unsafe { self.processor.as_ref() }
    }

    /// Whether this is one of the workers made at build, not a relief thread.
    pub fn has_seat(&self) -> bool {
        self.index < self.shared().config.workers
    }

    /// The seat whose table of `owned.rs` is this worker's to use: none while it is lent, and none for relief threads.
    #[inline]
    pub fn seat(&self) -> Option<usize> {
        self.seat.get()
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

    /// The seat whose owner this is, if it is one that runs jobs.
    #[inline]
    pub fn job_seat(&self) -> Option<&Seat> {
        // SAFETY: the shared state has its seats: duty 1 of `new`.
        unsafe { self.job_seat.get().as_ref() }
    }

    pub fn set_job_seat(&self, seat: Option<&Seat>) {
        self.job_seat.set(seat.map_or(null(), |seat| seat));
    }

    /// Whether this thread polls tasks and runs no jobs: a relief thread, or one whose seat is lent.
    pub fn stands_in(&self) -> bool {
        self.stands_in.get()
    }

    #[cfg(all(test, not(loom)))]
    pub fn reinforcement(&self) -> &Reinforcement {
        &self.reinforcement
    }

    /// Makes a worker that has a seat one that stands in, or no more.
    pub fn stand_in(&self, stands_in: bool) {
        self.stands_in.set(stands_in);
    }

    pub fn is_searching(&self) -> bool {
        self.is_searching.get()
    }

    /// The sleep protocol's instance that counts this worker.
    fn idle(&self) -> &Idle {
        match self.stands_in() {
            false => &self.shared().idle,
            true => &self.shared().relief_idle,
        }
    }

    pub fn random_below(&self, n: usize) -> usize {
        self.rand.borrow_mut().below(n as u32) as usize
    }

    /// Whether this thread comes back to its queues soon.
    #[inline]
    pub fn takes_tasks(&self) -> bool {
        self.is_here() || self.is_unmarked()
    }

    /// As [`takes_tasks`](Self::takes_tasks), if nobody may have unmarked this thread.
    #[inline]
    pub fn is_here(&self) -> bool {
        self.away.get() == 0
    }

    /// Whether this thread was away only because of marks, and those have been taken back by whoever unblocked it.
    #[cold]
    fn is_unmarked(&self) -> bool {
        // Acquire: pairs with the release of who took the last one back.
        if self.away.get() != MARKED || self.processor().marks.load(Acquire) > 0 {
            return false;
        }
        self.away.set(0);
        self.take_table_back();
        true
    }

    /// Whether this thread is marked as blocked, and nobody has unmarked it: its table stays lent.
    fn is_marked(&self) -> bool {
        // Acquire: as in `is_unmarked`.
        self.away.get() & MARKED != 0 && self.processor().marks.load(Acquire) > 0
    }

    #[inline]
    pub fn is_blocked(&self) -> bool {
        self.away.get() & BLOCKED != 0
    }

    /// B1: this thread is about to block. Says whether its table is still its own, though nobody's to use meanwhile.
    pub fn begin_blocking(&self) -> bool {
        self.away.set(self.away.get() | BLOCKED);
        let has_table = self.seat.take().is_some();
        // SeqCst: pairs with C0 of the shutdown. Release: who counts this worker may use its table.
        self.processor().standing.swap(relief::BLOCKED, SeqCst);
        fence(SeqCst);
        has_table
    }

    /// B4: it blocks no more. `had_table` is what [`begin_blocking`](Self::begin_blocking) said. Says whether it was counted.
    pub fn end_blocking(&self, had_table: bool) -> bool {
        // Whoever has counted this worker is ordered by the lock that `worker_returned` takes.
        let is_counted = self.processor().standing.swap(relief::FREE, AcqRel) != relief::BLOCKED;
        let shared = self.shared();
        shared.monitor.somebody_returned(&shared.driver);
        if is_counted {
            shared.worker_returned(self.has_seat());
        }
        if had_table && !is_counted {
            self.seat.set(Some(self.index));
        } else if !self.is_marked() {
            self.take_table_back();
        }
        self.away.set(self.away.get() & !BLOCKED);
        is_counted
    }

    /// Whether something waits that this thread should not keep while it blocks.
    pub fn holds_work(&self) -> bool {
        let processor = self.processor();
        !processor.ring.is_empty()
            || processor.lifo.is_occupied()
            || !self.shared().injector.is_empty()
            || self.job_seat().is_some_and(Seat::has_pieces)
    }

    /// As [`begin_blocking`](Self::begin_blocking), until this thread finds that it was unmarked.
    pub fn begin_marked(&self) {
        self.away.set(self.away.get() | MARKED);
        self.lend_table();
    }

    /// Runs `f`, which runs jobs and does not unwind.
    pub fn computing<R>(&self, f: impl FnOnce() -> R) -> R {
        let before = self.away.replace(self.away.get() | COMPUTING);
        let result = f();
        self.away.set(before);
        result
    }

    /// This worker begins a job, and will not come back to its tasks and to the driver soon.
    pub fn begin_job(&self) {
        if self.is_searching.get() {
            self.stop_searching();
        }
        self.rounds_left.set(wait::ROUNDS);
        let processor = self.processor();
        let driver = &self.shared().driver;
        let has_tasks =
            !processor.ring.is_empty() || processor.lifo.is_occupied() || !self.shared().injector.is_empty();
        if has_tasks || driver.io().is_some() && driver.sitter().is_none() {
            self.expose();
        } else {
            self.leave_timers();
        }
    }

    /// Has whoever sits in the driver answer for this worker's timers, which it may have left to this worker.
    fn leave_timers(&self) {
        let driver = &self.shared().driver;
        let Some(time) = driver.time() else { return };
        let deadline = time.deadline_of(self.shared().wheel(self.index));
        if deadline != Deadline::MAX {
            driver.timer_registered(deadline);
        }
    }

    /// While this thread sleeps or blocks, and after it has left: others see to its table of `owned.rs`.
    fn lend_table(&self) {
        if let Some(seat) = self.seat.take() {
            // SAFETY: this thread is the seat's worker, and had not lent it.
            unsafe { self.shared().owned.lend(seat) };
        }
    }

    fn take_table_back(&self) {
        if self.has_seat() && !self.shared().config.is_pool {
            self.shared().owned.take_back(self.index);
            self.seat.set(Some(self.index));
        }
    }

    #[inline]
    pub fn count_references(&self, n: i64) {
        self.references.set(self.references.get() + n);
    }

    pub fn take_references(&self) -> i64 {
        self.references.take()
    }

    /// The loop of a worker thread, until the runtime is shut down.
    pub fn run(&self) {
        // How many tables had been lent when this worker cancelled what was in them.
        let mut cancelled: Option<usize> = None;
        loop {
            let is_ending = self.shared().shutdown.has_begun();
            if is_ending && self.shared().must_leave(self.index) {
                // Nobody is counted who runs jobs, but for a thread that keeps its seat for good. What its jobs have left with this
                // worker nobody else might be woken for.
                while self.run_next_job() {}
                self.drain();
                // A forgotten one would keep the relief threads, which stay while a worker is blocked.
                self.shared().void_marks_of(self.index);
                if self.shared().relief.try_leave(self.has_seat(), self.index) {
                    return;
                }
                // Somebody has blocked meanwhile.
                self.take_table_back();
                cancelled = None;
            }
            if is_ending && cancelled != Some(self.shared().relief.lent()) {
                // This one stays: see `shutdown.rs`.
                cancelled = Some(self.shared().relief.lent());
                self.processor().polling.clear();
                // SAFETY: this thread is the worker of its seat.
                unsafe { self.shared().owned.cancel_idle(self.seat()) };
            }
            self.maintain_at_times();
            let next = self.next_task();
            if next.is_none() && self.run_next_job() {
                continue;
            }
            match next.or_else(|| self.search()) {
                Some(task) if cancelled.is_some() => self.cancel_task(task),
                Some(task) => self.run_task(task),
                None if self.run_stolen_job() || self.looks_again() => {}
                None if self.lingers() => {}
                None if self.serves_givers() => {}
                None if !self.retires() => self.park(),
                None if relief::rest(self) => {}
                // The processor has been given back, with empty queues.
                None => return,
            }
        }
    }

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

    /// Cancels a task instead, once the shutdown has begun.
    pub fn cancel_task(&self, task: Runnable) {
        if self.is_searching.get() {
            self.stop_searching();
        }
        let _outer = self.processor().polling.begin_cancel(&task);
        task.cancel();
    }

    /// The next task that needs no search.
    #[inline(always)]
    pub fn next_task(&self) -> Option<Runnable> {
        let left = self.tasks_to_injector.get() - 1;
        self.tasks_to_injector.set(left);
        if left > 0 {
            return self.next_local_task().or_else(|| self.next_injected_task());
        }
        self.tasks_to_injector.set(self.shared().config.global_queue_interval);
        // SAFETY: what is pushed into the injector is a `Runnable`.
        let injected = self.shared().injector.pop().map(|task| unsafe { Runnable::from_raw(task) });
        injected.or_else(|| self.next_local_task())
    }

    #[inline(always)]
    fn next_local_task(&self) -> Option<Runnable> {
        let processor = self.processor();
        // SAFETY: this thread is the owner (duty 2 of `new`).
        if let Some(task) = unsafe { processor.lifo.pop() } {
            let streak = self.lifo_streak.get() + 1;
            if streak <= LIFO_STREAK {
                self.lifo_streak.set(streak);
                processor.metrics.lifo_polls.add(1);
                return Some(task);
            }
            // Two tasks that keep waking each other must not starve the ring.
            self.push_to_ring(task);
        }
        self.lifo_streak.set(0);
        // SAFETY: this thread is the owner; what is pushed into the ring is a `Runnable`.
        unsafe { processor.ring.pop().map(|task| Runnable::from_raw(task)) }
    }

    /// Takes a batch from the injector: one task to run, the others into the ring.
    fn next_injected_task(&self) -> Option<Runnable> {
        let shared = self.shared();
        if shared.injector.is_empty() || self.leaves_it_to_others() {
            return None;
        }
        let has_waited = self.linger.gathers(shared);
        // SAFETY: this thread is the owner of its ring; what is pushed into the injector is a `Runnable`.
        let (task, count) = unsafe {
            let (task, count) = shared.injector.pop_batch_into(&self.processor().ring)?;
            (Runnable::from_raw(task), count)
        };
        self.linger.took(count, has_waited);
        self.lookout.took();
        if count > 1 {
            // Who pushed them saw to it that somebody is awake for them. This thread is, but may be long at the first.
            shared.notify_strictly();
        }
        Some(task)
    }

    #[inline]
    fn leaves_it_to_others(&self) -> bool {
        !self.stands_in()
            && self.lookout.leaves_it_to_others(self.shared(), self.index, self.is_searching.get())
    }

    /// A task from another worker, if few search already. Stays a searcher if it finds none.
    fn search(&self) -> Option<Runnable> {
        let shared = self.shared();
        let processors = shared.processors.len();
        if processors == 1 {
            return None;
        }
        if !self.is_searching.get() {
            if !self.idle().start_searching() {
                return None;
            }
            self.is_searching.set(true);
        }
        let metrics = &self.processor().metrics;
        metrics.searches.add(1);
        self.lookout.look(shared, self.index);
        let is_choosy = !self.stands_in() && self.lookout.would_nap(shared);
        let start = self.rand.borrow_mut().below(processors as u32) as usize;
        let others = (0..processors).map(|i| (start + i) % processors).filter(|&i| i != self.index);
        for victim in others.filter(|&i| !is_choosy || self.lookout.is_ring_worth(i)) {
            // SAFETY: this thread is the owner of its ring; what is in rings is `Runnable`s.
            unsafe {
                let own = &self.processor().ring;
                if let Some((task, stolen)) = shared.processor(victim).ring.steal_into(own) {
                    metrics.steals.add(1);
                    metrics.stolen.add(stolen as u64);
                    self.lookout.took();
                    return Some(Runnable::from_raw(task));
                }
            }
        }
        self.next_injected_task().or_else(|| self.steal_lifo_task(processors))
    }

    /// A task from the LIFO slot of a worker that is stuck in a poll; see `processor.rs`.
    fn steal_lifo_task(&self, processors: usize) -> Option<Runnable> {
        let shared = self.shared();
        let mut sightings = (0..processors)
            .filter(|&victim| victim != self.index)
            .filter_map(|victim| shared.processor(victim).sight().map(|sighting| (victim, sighting)));
        let Some((victim, now)) = sightings.next() else {
            self.sighting.set(None);
            return None;
        };
        match self.sighting.get() {
            Some((seen_victim, seen)) if seen_victim == victim && seen.is_same(&now) => {
                let task = shared.processor(victim).steal_lifo(&seen)?;
                let metrics = &self.processor().metrics;
                metrics.steals.add(1);
                metrics.stolen.add(1);
                Some(task)
            }
            _ => {
                self.sighting.set(Some((victim, now)));
                None
            }
        }
    }

    /// F1, F2 of `idle.rs`: this worker has found work.
    pub fn stop_searching(&self) {
        self.is_searching.set(false);
        self.is_notified.set(false);
        let shared = self.shared();
        if self.idle().stop_searching() {
            fence(SeqCst);
            if shared.has_visible_tasks() {
                self.notify();
            }
            // Also if there are tasks: a waiter may be needed, which nobody wakes for those.
            if !self.stands_in() && shared.has_visible_jobs(self.index) {
                shared.notify_for(Work::Job);
            }
        }
    }

    /// Runs a job of another seat, if this worker may search.
    fn run_stolen_job(&self) -> bool {
        if !self.is_searching.get() {
            return false;
        }
        let Some(job) = self.steal_job() else {
            return false;
        };
        self.run_job(job);
        true
    }

    /// Whether a worker that found nothing tries again, after it has given way to other threads.
    fn looks_again(&self) -> bool {
        let left = self.rounds_left.get();
        if left == 0 {
            return false;
        }
        self.rounds_left.set(left - 1);
        crate::loom::thread::yield_now();
        true
    }

    /// Whether waiting for work from outside brought some; see `linger.rs`.
    fn lingers(&self) -> bool {
        let shared = self.shared();
        let is_relied_upon = self.is_searching.get() || shared.processors.len() == 1;
        !self.stands_in() && is_relied_upon && self.linger.wait(shared, self.index)
    }

    /// Queues a task that was woken or spawned by this thread, to run next.
    #[inline]
    pub fn push(&self, task: Runnable) {
        if self.is_fifo.get() {
            return self.push_to_ring(task);
        }
        // SAFETY: this thread is the owner.
        if let Some(displaced) = unsafe { self.processor().lifo.push(task) } {
            self.push_displaced(displaced);
        }
    }

    #[inline(never)]
    fn push_displaced(&self, task: Runnable) {
        self.push_to_ring(task);
        self.notify_if_worth();
    }

    /// Before this thread blocks: has others see to its tasks, its timers, and the driver.
    ///
    /// The tasks go to the injector, from where others take them in batches.
    #[inline(never)]
    pub fn expose(&self) {
        let shared = self.shared();
        self.move_tasks_to_injector();
        self.leave_timers();
        if let Some(seat) = self.job_seat() {
            // SAFETY: this thread is the seat's owner.
            unsafe { seat.expose_pieces() };
        }
        // Also with an empty ring: if this thread last sat in the driver, another has to. Who naps would come too late.
        shared.idle.fence_push();
        match shared.idle.is_anybody_napping() {
            true => shared.notify_anyway(Work::Task),
            false => _ = shared.notify(),
        }
    }

    fn move_tasks_to_injector(&self) {
        let processor = self.processor();
        if processor.ring.is_empty() && !processor.lifo.is_occupied() {
            return;
        }
        let mut batch = Chain::new();
        // SAFETY: this thread is the owner, and the tasks it takes out are in no queue then.
        unsafe {
            let next = || processor.lifo.pop().map(Runnable::into_raw).or_else(|| processor.ring.pop());
            iter::from_fn(next).for_each(|task| batch.push_back(task));
        }
        self.shared().injector.push_batch(batch);
    }

    /// Queues a task that gave way, behind the others.
    #[inline]
    pub fn push_back(&self, task: Runnable) {
        self.push_to_ring(task);
        // One task that yields to itself needs no help.
        if self.processor().ring.len() >= 2 {
            self.notify_if_worth();
        }
    }

    fn push_to_ring(&self, task: Runnable) {
        let shared = self.shared();
        // SAFETY: this thread is the owner; the runnable owns its task, so its link is free.
        let overflowed = unsafe { self.processor().ring.push_back(task.into_raw(), &shared.injector) };
        if overflowed > 0 {
            self.ring_overflowed();
        }
    }

    #[cold]
    #[inline(never)]
    fn ring_overflowed(&self) {
        self.processor().metrics.overflows.add(1);
        self.shared().notify_strictly();
    }

    fn notify_if_worth(&self) {
        let shared = self.shared();
        // Mostly nobody sleeps: two loads and a branch.
        if shared.idle.has_sleepers() | shared.relief_idle.has_sleepers() && shared.is_worth_notifying() {
            self.notify();
        }
    }

    #[inline(never)]
    fn notify(&self) {
        if self.shared().notify() {
            self.processor().metrics.notifies.add(1);
        }
    }

    /// Every so many rounds, looks at the driver and the timers.
    #[inline(always)]
    pub fn maintain_at_times(&self) {
        let left = self.rounds_to_events.get() - 1;
        self.rounds_to_events.set(left);
        if left == 0 {
            self.rounds_are_over();
        }
    }

    /// The driver's turn has come, or the time to ask again for help; see `reinforcement.rs`.
    #[inline(never)]
    fn rounds_are_over(&self) {
        let left = self.rounds_put_off.take();
        if left > 0 {
            self.rounds_to_events.set(left);
            return self.share_ring();
        }
        self.rounds_to_events.set(self.shared().config.event_interval);
        self.maintain();
    }

    /// Dispatches what has come in, without waiting.
    #[inline(never)]
    pub fn maintain(&self) {
        self.end_slices();
        let driver = &self.shared().driver;
        self.dispatch(|| {
            if driver.io().is_some_and(|io| io.has_sources()) {
                if let Some(mut sitting) = driver.try_sit(self.index) {
                    sitting.poll();
                }
            }
            driver.fire_timers();
        });
        self.share_ring();
        if self.takes_tasks() {
            self.run_job_from_others();
        }
    }

    /// Back from a computation; see `slices.rs`.
    fn end_slices(&self) {
        if let Some(seat) = self.job_seat() {
            seat.slices.end(|| self.shared().splits.now());
        }
    }

    /// For a worker in the middle of a computation: looks at the driver, and puts what wakes there, and the tasks that waited in this
    /// worker's queues, where any thread finds them. Notifies nobody.
    pub fn collect_tasks(&self) {
        let driver = &self.shared().driver;
        let collect = || {
            self.dispatch(|| {
                if let Some(io) = driver.io().filter(|io| io.has_sources()) {
                    match driver.try_sit(self.index) {
                        Some(mut sitting) => _ = sitting.poll(),
                        // Who sits there may have been woken, and get no CPU.
                        None => io.glance(),
                    }
                }
                driver.fire_timers();
            });
        };
        // As if outside of the computation, so that they are collected first; and wakers are foreign code. But one that blocks
        // inside of a blocking call is inside of that.
        let computing = self.away.get() & COMPUTING;
        self.away.set(self.away.get() & !COMPUTING);
        coop::suspended(|| outside_of_computations(collect));
        self.away.set(self.away.get() | computing);
        self.move_tasks_to_injector();
    }

    /// Runs `f`, which wakes tasks in bulk: they are queued in order, without a notification each.
    pub(super) fn dispatch<R>(&self, f: impl FnOnce() -> R) -> R {
        let was_fifo = self.is_fifo.replace(true);
        let result = f();
        self.is_fifo.set(was_fifo);
        result
    }

    /// Decides, after a dispatch, whether others should help with what it woke. If they should not now, asks again soon.
    pub(super) fn share_ring(&self) {
        let shared = self.shared();
        let has_sleepers = shared.idle.has_sleepers() | shared.relief_idle.has_sleepers();
        let waiting = self.processor().ring.len();
        if waiting < 2 || !has_sleepers {
            return;
        }
        let now = Instant::now();
        self.reinforcement.ask(now);
        let is_worth = self.reinforcement.is_worth(now, self.processor().tick(), waiting);
        if is_worth && self.reinforcement.is_welcome(now, || shared.crowd.has_room()) {
            self.notify_if_worth();
        } else {
            let rounds = self.rounds_to_events.get() + self.rounds_put_off.get();
            let pause = self.reinforcement.pause().min(rounds);
            self.rounds_to_events.set(pause);
            self.rounds_put_off.set(rounds - pause);
        }
    }

    /// W1 to W5, or R3 and W5, of `idle.rs`: sleeps until there is something to do.
    fn park(&self) {
        let shared = self.shared();
        if self.is_notified.replace(false) {
            self.processor().metrics.noops.add(1);
        }
        self.end_slices();
        if !self.run_park_hook() {
            return;
        }
        let idle = self.idle();
        if idle.is_job_posted() {
            // Sleepy: it looks once more.
            idle.get_sleepy();
            return shared.config.hooks.on_unpark();
        }
        let would_nap = !self.stands_in() && self.lookout.would_nap(shared);
        if would_nap && self.naps() {
            return;
        }
        let seen = idle.get_sleepy();
        let is_beside_nap = would_nap && self.lies_down_beside_nap(seen);
        if !is_beside_nap && !idle.announce_sleep_unless(self.index, self.is_searching.get(), seen) {
            return shared.config.hooks.on_unpark();
        }
        self.is_searching.set(false);
        let has_work = !is_beside_nap && shared.has_visible_tasks()
            || !self.stands_in() && shared.has_visible_jobs(self.index)
            || self.stands_in() && shared.relief.has_givers();
        if has_work || shared.must_leave(self.index) || !self.offer_seat() {
            idle.cancel_sleep(self.index);
            self.is_searching.set(true);
        } else {
            self.lookout.reset();
            self.sleep();
            let risen = self.rise();
            if !self.idle().end_sleep(self.index) {
                self.is_searching.set(true);
                self.is_notified.set(true);
                self.linger.was_woken(shared, self.slept.get());
            }
            if risen == Risen::Returned {
                self.have_seat_again();
            }
            self.share_ring();
        }
        // Behind the end of the sleep, or of what would have been one.
        shared.monitor.somebody_woke(&shared.driver);
        shared.config.hooks.on_unpark();
    }

    /// R3 of `idle.rs`. If that is refused, this worker takes for once what it finds.
    fn lies_down_beside_nap(&self, seen: JobEvents) -> bool {
        let lies = self.idle().announce_sleep_beside_nap(self.index, self.is_searching.get(), seen);
        if !lies {
            self.lookout.give_up();
        }
        lies
    }

    /// R1 and R2 of `idle.rs`: sleeps a short time, on the token, and searches again. False if a job was posted or somebody naps.
    fn naps(&self) -> bool {
        let shared = self.shared();
        let idle = self.idle();
        if !idle.announce_nap_unless(self.index, self.is_searching.get(), idle.get_sleepy()) {
            return false;
        }
        if !shared.has_visible_jobs(self.index) && !shared.must_leave(self.index) {
            let nap = self.lookout.begin_nap();
            let own = shared.driver.own_timeout(shared.wheel(self.index));
            let limit = own.map_or(nap, |own| own.min(nap));
            self.sleeping(|| self.processor().parker.park(Some(limit)));
        }
        self.is_notified.set(!idle.end_nap(self.index));
        self.is_searching.set(true);
        shared.monitor.somebody_woke(&shared.driver);
        shared.config.hooks.on_unpark();
        true
    }

    /// Calls the user's hook. False if it made work for this worker.
    pub fn run_park_hook(&self) -> bool {
        let shared = self.shared();
        shared.config.hooks.on_park();
        let processor = self.processor();
        let is_idle = processor.ring.is_empty() && !processor.lifo.is_occupied();
        if !is_idle {
            shared.config.hooks.on_unpark();
        }
        is_idle
    }

    /// Sleeps in the driver if it is free, else on the token; then dispatches. The last to fall asleep looks for a deadlock.
    pub fn sleep(&self) {
        let shared = self.shared();
        let parker = &self.processor().parker;
        let limit = relief::longest_sleep(self);
        let mut report = None;
        let mut may_sleep = || {
            report = shared.find_deadlock();
            report.is_none()
        };
        self.sleeping(|| match shared.driver.try_sit(self.index) {
            Some(mut sitting) => _ = parker.park_in_driver(|| may_sleep() && sitting.sleep(limit) > 0),
            None => {
                let own = shared.driver.own_timeout(shared.wheel(self.index));
                parker.park_if(own.into_iter().chain(limit).min(), may_sleep);
            }
        });
        if let Some(report) = report {
            report.deliver();
        }
    }

    /// Sleeps while the clock stands still: when nothing else is left to do, the clock moves to the next timer.
    pub fn sleep_with_paused_clock(&self, is_needed: impl Fn() -> bool) {
        let shared = self.shared();
        let processor = self.processor();
        self.sleeping(|| {
            let Some(mut sitting) = shared.driver.try_sit(self.index) else {
                return processor.parker.park(None);
            };
            sitting.poll();
            shared.driver.fire_timers();
            let is_idle = processor.ring.is_empty() && !is_needed();
            if is_idle && !shared.driver.auto_advance() {
                processor.parker.park_in_driver(|| sitting.wait());
            }
        });
    }

    /// Counts `sleep` as time asleep, and dispatches what it and the timers wake.
    fn sleeping(&self, sleep: impl FnOnce()) {
        let metrics = &self.processor().metrics;
        metrics.parks.add(1);
        let start = Instant::now();
        let busy = start.saturating_duration_since(self.awake_since.get());
        metrics.busy_ns.add(busy.as_nanos() as u64);
        self.linger.sleeps();
        self.reinforcement.sleeps(self.processor().tick(), busy);
        self.lend_table();
        self.dispatch(|| {
            metrics.naps.add(1);
            sleep();
            metrics.naps.add(1);
            let end = Instant::now();
            self.awake_since.set(end);
            self.slept.set(end.saturating_duration_since(start));
            self.shared().driver.fire_timers();
        });
        if self.is_blocked() || self.is_marked() {
            // It may have been the one in the driver, and the monitor at rest for that.
            self.shared().monitor.somebody_woke(&self.shared().driver);
        } else {
            self.take_table_back();
        }
    }

    /// Whether this is a relief thread that is not needed any more; then it is no worker until it is called.
    fn retires(&self) -> bool {
        let shared = self.shared();
        self.processor().polling.clear();
        shared.void_marks_of(self.index);
        if self.has_seat() || !shared.relief.try_retire(self.index, shared.away()) {
            return false;
        }
        if self.is_searching.get() {
            self.stop_searching();
        }
        if shared.has_visible_tasks() && shared.relief.call_back(self.index) {
            return false;
        }
        // If this thread last sat in the driver, another has to: one that sleeps gave way to it.
        shared.notify_strictly();
        true
    }

    /// D of `split.rs`: if seats gave way to this relief thread, which found no more tasks, it looks at the driver, and calls them back
    /// if that has brought none either. Says whether it has.
    fn serves_givers(&self) -> bool {
        if !self.stands_in() || !self.shared().relief.has_givers() {
            return false;
        }
        self.maintain();
        let processor = self.processor();
        let has_tasks = !processor.ring.is_empty() || processor.lifo.is_occupied();
        if !has_tasks {
            self.shared().end_all_giving_way();
        }
        has_tasks
    }

    /// Step 2 of the shutdown: cancels every task in this worker's queues and tables, and those that this wakes.
    pub fn drain(&self) {
        let processor = self.processor();
        let mut has_looked = false;
        processor.polling.clear();
        loop {
            // SAFETY: this thread is the owner; what is in the ring is `Runnable`s.
            let task = unsafe {
                processor.lifo.pop().or_else(|| processor.ring.pop().map(|task| Runnable::from_raw(task)))
            };
            match task {
                Some(task) => {
                    let _outer = processor.polling.begin_cancel(&task);
                    task.cancel();
                }
                None if has_looked => break,
                None => {
                    // Whoever blocks until one of these has ended must not wait for the last worker to leave.
                    has_looked = true;
                    // SAFETY: this thread is the worker of its seat.
                    unsafe { self.shared().owned.cancel_idle(self.seat()) };
                }
            }
        }
        self.lend_table();
        if self.is_searching.replace(false) {
            self.idle().stop_searching();
        }
    }
}
