//! The loop on one screen: next work, run, search, park.
//!
//! A [`Worker`] is the thread's own half of a processor: what only its thread touches. It lives on that thread's stack and
//! stands in its context, so that spawns and wakes from tasks find the way to its queues.
//!
//! Order of work: every 61st time the injector first; then the LIFO slot (a limited number of times in a row), the ring, a
//! batch of the injector, other workers' rings, and a LIFO slot whose owner is stuck. Every 61 polls a look at the driver
//! and the timers.

use std::cell::{Cell, RefCell};
use std::iter;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use super::magazine::Magazine;
use super::processor::{Processor, Sighting};
use super::relief;
use super::shared::Shared;
use crate::loom::sync::atomic::Ordering::SeqCst;
use crate::loom::sync::atomic::fence;
use crate::queue::Chain;
use crate::task::Runnable;
use crate::util::rand::FastRand;

/// How many tasks in a row may come from the LIFO slot before the ring has its turn.
const LIFO_STREAK: u32 = 16;

/// After what time an idle worker looks again at a task that it saw in another's LIFO slot.
const SECOND_LOOK: Duration = Duration::from_millis(1);

/// What only the worker's own thread touches.
#[derive(Debug)]
pub struct Worker {
    shared: NonNull<Shared>,
    index: usize,
    /// Processor `index` of `shared`.
    processor: NonNull<Processor>,
    /// Rounds of the loop until the driver is looked at.
    rounds_to_events: Cell<u32>,
    /// Tasks until the injector is looked at first.
    tasks_to_injector: Cell<u32>,
    /// Tasks in a row that came from the LIFO slot.
    lifo_streak: Cell<u32>,
    /// Counted among the searchers of `idle.rs`.
    is_searching: Cell<bool>,
    /// Unparked for work that it has not found yet.
    is_notified: Cell<bool>,
    /// Inside a `block_in_place`: others see to the queues, so what this thread wakes goes to the injector.
    is_blocked: Cell<bool>,
    /// `index`, unless this is a relief thread or the table is lent.
    seat: Cell<Option<usize>>,
    /// What is woken is queued in order, without a notification: always on `current_thread` runtimes, as in Tokio, and else
    /// while events and timers are dispatched, with one notification at the end.
    is_fifo: Cell<bool>,
    /// References to the shared state taken less dropped by this thread; see `shared.rs`.
    references: Cell<i64>,
    /// A task seen in another worker's LIFO slot.
    sighting: Cell<Option<(usize, Sighting)>>,
    /// The next sleep is to be this short, for a second look at it.
    second_look: Cell<Option<Duration>>,
    rand: RefCell<FastRand>,
    magazine: Magazine,
    /// The worker of another runtime that this thread is, too; see `context.rs`.
    outer: Cell<*const Worker>,
    /// When the last sleep ended.
    awake_since: Cell<Instant>,
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
            tasks_to_injector: Cell::new(state.config.global_queue_interval),
            lifo_streak: Cell::new(0),
            is_searching: Cell::new(false),
            is_notified: Cell::new(false),
            is_blocked: Cell::new(false),
            seat: Cell::new(Some(index).filter(|&index| index < state.config.workers)),
            is_fifo: Cell::new(state.is_current_thread()),
            references: Cell::new(0),
            sighting: Cell::new(None),
            second_look: Cell::new(None),
            rand: RefCell::new(FastRand::new()),
            magazine: Magazine::new(),
            outer: Cell::new(std::ptr::null()),
            awake_since: Cell::new(Instant::now()),
        }
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

    #[inline]
    pub fn is_blocked(&self) -> bool {
        self.is_blocked.get()
    }

    /// This thread is about to block: others see to what it has.
    pub fn begin_blocking(&self) {
        self.is_blocked.set(true);
        self.lend_table();
    }

    /// It blocks no more.
    pub fn end_blocking(&self) {
        self.take_table_back();
        self.is_blocked.set(false);
    }

    /// While this thread sleeps or blocks, and after it has left: others see to its table of `owned.rs`.
    fn lend_table(&self) {
        if let Some(seat) = self.seat.take() {
            // SAFETY: this thread is the seat's worker, and had not lent it.
            unsafe { self.shared().owned.lend(seat) };
        }
    }

    fn take_table_back(&self) {
        if self.has_seat() {
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
        let mut has_cancelled = false;
        loop {
            if self.shared().must_leave(self.index) {
                self.drain();
                if self.shared().relief.try_leave(self.has_seat(), self.index) {
                    return;
                }
                // Somebody has blocked meanwhile.
                self.take_table_back();
                has_cancelled = false;
            }
            if !has_cancelled && self.shared().shutdown.has_begun() {
                // This one stays: see `shutdown.rs`.
                has_cancelled = true;
                // SAFETY: this thread is the worker of its seat.
                unsafe { self.shared().owned.cancel_idle(self.seat()) };
            }
            self.maintain_at_times();
            match self.next_task().or_else(|| self.search()) {
                Some(task) if has_cancelled => self.cancel_task(task),
                Some(task) => self.run_task(task),
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
        self.processor().metrics.polls.add(1);
        task.run();
    }

    /// Cancels a task instead, once the shutdown has begun.
    pub fn cancel_task(&self, task: Runnable) {
        if self.is_searching.get() {
            self.stop_searching();
        }
        task.cancel();
    }

    /// The next task that needs no search.
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
        // SAFETY: this thread is the owner of its ring; what is pushed into the injector is a `Runnable`.
        let (task, count) = unsafe {
            let (task, count) = self.shared().injector.pop_batch_into(&self.processor().ring)?;
            (Runnable::from_raw(task), count)
        };
        if count > 1 {
            // Who pushed them saw to it that somebody is awake for them. This thread is, but may be long at the first.
            self.shared().notify_strictly();
        }
        Some(task)
    }

    /// A task from another worker, if few search already. Stays a searcher if it finds none.
    fn search(&self) -> Option<Runnable> {
        let shared = self.shared();
        let processors = shared.processors.len();
        if processors == 1 {
            return None;
        }
        if !self.is_searching.get() {
            if !shared.idle.start_searching() {
                return None;
            }
            self.is_searching.set(true);
        }
        let metrics = &self.processor().metrics;
        metrics.searches.add(1);
        let start = self.rand.borrow_mut().below(processors as u32) as usize;
        let others = (0..processors).map(|i| (start + i) % processors).filter(|&i| i != self.index);
        for victim in others {
            // SAFETY: this thread is the owner of its ring; what is in rings is `Runnable`s.
            unsafe {
                let own = &self.processor().ring;
                if let Some((task, stolen)) = shared.processor(victim).ring.steal_into(own) {
                    metrics.steals.add(1);
                    metrics.stolen.add(stolen as u64);
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
                if self.sighting.replace(Some((victim, now))).is_none() {
                    // Once for each time of idleness: a slot that is in use looks like this, too.
                    self.second_look.set(Some(SECOND_LOOK));
                }
                None
            }
        }
    }

    /// F1, F2 of `idle.rs`: this worker has found work.
    pub fn stop_searching(&self) {
        self.is_searching.set(false);
        self.is_notified.set(false);
        let shared = self.shared();
        if shared.idle.stop_searching() {
            fence(SeqCst);
            if shared.has_visible_work() {
                self.notify();
            }
        }
    }

    /// Queues a task that was woken or spawned by this thread, to run next.
    #[inline]
    pub fn push(&self, task: Runnable) {
        if self.is_fifo.get() {
            return self.push_to_ring(task);
        }
        // SAFETY: this thread is the owner.
        if let Some(displaced) = unsafe { self.processor().lifo.push(task) } {
            self.push_to_ring(displaced);
            self.notify_if_worth();
        }
    }

    /// Before this thread blocks: has others see to its tasks, its timers, and the driver.
    ///
    /// The tasks go to the injector, from where others take them in batches.
    pub fn expose(&self) {
        let shared = self.shared();
        let processor = self.processor();
        let mut batch = Chain::new();
        // SAFETY: this thread is the owner, and the tasks it takes out are in no queue then.
        unsafe {
            let next = || processor.lifo.pop().map(Runnable::into_raw).or_else(|| processor.ring.pop());
            iter::from_fn(next).for_each(|task| batch.push_back(task));
        }
        shared.injector.push_batch(batch);
        if let Some(time) = shared.driver.time() {
            shared.driver.timer_registered(time.deadline_of(shared.wheel(self.index)));
        }
        // Also with an empty ring: if this thread last sat in the driver, another has to.
        shared.notify_strictly();
    }

    /// Queues a task that gave way, behind the others.
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
            self.processor().metrics.overflows.add(1);
            shared.notify_strictly();
        }
    }

    fn notify_if_worth(&self) {
        if self.shared().idle.is_worth_notifying() {
            self.notify();
        }
    }

    fn notify(&self) {
        if self.shared().notify() {
            self.processor().metrics.notifies.add(1);
        }
    }

    /// Every so many rounds, looks at the driver and the timers.
    pub fn maintain_at_times(&self) {
        let left = self.rounds_to_events.get() - 1;
        self.rounds_to_events.set(left);
        if left == 0 {
            self.rounds_to_events.set(self.shared().config.event_interval);
            self.maintain();
        }
    }

    /// Dispatches what has come in, without waiting.
    pub fn maintain(&self) {
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
    }

    /// Runs `f`, which wakes tasks in bulk: they are queued in order, without a notification each.
    fn dispatch<R>(&self, f: impl FnOnce() -> R) -> R {
        let was_fifo = self.is_fifo.replace(true);
        let result = f();
        self.is_fifo.set(was_fifo);
        result
    }

    /// Decides once, after a dispatch, whether others should help with what it woke.
    fn share_ring(&self) {
        if self.processor().ring.len() >= 2 {
            self.notify_if_worth();
        }
    }

    /// W1 to W5 of `idle.rs`: sleeps until there is something to do.
    fn park(&self) {
        let shared = self.shared();
        if self.is_notified.replace(false) {
            self.processor().metrics.noops.add(1);
        }
        if !self.run_park_hook() {
            return;
        }
        shared.idle.announce_sleep(self.index, self.is_searching.replace(false));
        if shared.has_visible_work() || shared.must_leave(self.index) {
            shared.idle.cancel_sleep(self.index);
            self.is_searching.set(true);
        } else {
            self.sleep();
            if !shared.idle.end_sleep(self.index) {
                self.is_searching.set(true);
                self.is_notified.set(true);
            }
            self.share_ring();
        }
        shared.config.hooks.on_unpark();
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

    /// Sleeps in the driver if it is free, else on the token; then dispatches.
    pub fn sleep(&self) {
        let shared = self.shared();
        let parker = &self.processor().parker;
        let second_look = self.second_look.take();
        self.sleeping(|| match shared.driver.try_sit(self.index) {
            Some(mut sitting) => _ = parker.park_in_driver(|| sitting.sleep(second_look)),
            None => {
                let own = shared.driver.own_timeout(shared.wheel(self.index));
                parker.park(own.into_iter().chain(second_look).min());
            }
        });
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
        let busy = self.awake_since.get().elapsed();
        metrics.busy_ns.add(busy.as_nanos() as u64);
        self.lend_table();
        self.dispatch(|| {
            sleep();
            self.awake_since.set(Instant::now());
            self.shared().driver.fire_timers();
        });
        self.take_table_back();
    }

    /// Whether this is a relief thread that is not needed any more; then it is no worker until it is called.
    fn retires(&self) -> bool {
        let shared = self.shared();
        if self.has_seat() || !shared.relief.try_retire(self.index) {
            return false;
        }
        if self.is_searching.get() {
            self.stop_searching();
        }
        // If this thread last sat in the driver, another has to: one that sleeps gave way to it.
        shared.notify_strictly();
        true
    }

    /// Step 2 of the shutdown: cancels every task in this worker's queues and tables, and those that this wakes.
    pub fn drain(&self) {
        let processor = self.processor();
        let mut has_looked = false;
        loop {
            // SAFETY: this thread is the owner; what is in the ring is `Runnable`s.
            let task = unsafe {
                processor.lifo.pop().or_else(|| processor.ring.pop().map(|task| Runnable::from_raw(task)))
            };
            match task {
                Some(task) => task.cancel(),
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
            self.shared().idle.stop_searching();
        }
    }
}
