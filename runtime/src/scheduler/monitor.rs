//! Finds the stuck: one thread that looks now and then whether work waits behind a worker that does not move.
//!
//! A task that computes for long, waits for a lock or calls what blocks keeps its worker, and with it the worker's queue, its LIFO
//! slot, its timers, and the driver if it came from there. Nothing in a poll tells so. But everything that a worker holds can
//! be taken by others, so somebody only has to notice, and to see to it that others are there.
//!
//! # What it sees
//! Each worker counts its polls, the beginnings and ends of its sleeps, and the looks at its computation's split points. A worker
//! whose sum did not change between two looks of the monitor is *still*; one that is still for [`STUCK`], or for two looks in a call
//! that it has announced as blocking, is *stuck*. A worker that sleeps, or was woken and has no CPU yet, is neither: the number of
//! its naps is odd. Nor is one that could run and has had next to no CPU time meanwhile: the machine is busy with something else.
//! But who has had [`ENOUGH`] is stuck, however small its share: if those who keep a machine busy are themselves stuck, none of
//! them ever gets more.
//!
//! # What it does
//! ```text
//! M1 observe every worker
//! M2 timers that are overdue, on any wheel: fire them
//! M3 nobody sits in the driver, and nobody has looked in since the last time: look in, and have somebody sit who sleeps
//! M4 the LIFO slot and ring of a stuck worker, or of one that gets no CPU while a seat sleeps, whose CPU may be free: into the
//!    injector
//! M5 tasks wait, and somebody is stuck: wake a seat or a relief thread that sleeps, the second time also if somebody searches,
//!    who may be stuck in a hook; if none sleeps, relief (`relief.rs`): one thread for each stuck worker, as many as tasks wait
//!    at most
//! M6 jobs that anybody could run, and somebody sleeps or waits for a latch: wake it, the second time also if somebody searches
//! M7 fewer are stuck than before: a relief thread that sleeps is woken, to retire
//! ```
//! What M2 and M3 wake goes to the injector with the strict rule, as from any thread outside. M4 steals like other thieves: the
//! ring by its protocol, the slot by L4 of `processor.rs`. So whatever a worker does meanwhile, also if it was not stuck after all,
//! each task is taken once: **the monitor may be wrong about everything and only costs a wake**.
//!
//! **How soon.** It looks every [`WATCH`] while work is about; every [`PRESS`] while something waits behind a still worker;
//! every [`URGENT`] for a while after it had to act. A stuck worker is thus found after at most `2 WATCH + PRESS`.
//!
//! # It sleeps for good while the runtime is idle
//! ```text
//! Monitor                                        A worker whose sleep ends
//! Q1 is_resting = true                           A1 clear its sleeper's bit (or see that its notifier did)
//! Q2 SeqCst fence                                A2 SeqCst fence
//! Q3 each worker shows its bit, or is in a       A3 is_resting: swap it to false, unpark the monitor
//!    blocking call, or marked; those who are
//!    left nothing to nobody; else                A worker that blocks no more, or whose last mark is taken back
//!    is_resting = false, on                      A1 B4 of `relief.rs`, or the mark leaves the number; A3
//! Q4 sleep until unparked
//!                                                A worker that blocks, and sleeps on a latch meanwhile
//!                                                A1 it leaves the driver's seat; A2, A3
//! ```
//! SeqCst fences have one total order: with A2 first, Q3 sees A1 and the monitor goes on; with Q2 first, A3 sees Q1. Of one that
//! blocks or is marked, Q3 and A1 are read-modify-writes of one word: with A1 first, Q3 sees it; with Q3 first, A1 acquires Q1. So
//! while anybody is awake, the monitor is. It costs a worker a fence and a load for each sleep, and one unpark for each time of idleness
//! that is longer than a few looks.
//!
//! **Beside workers that block**, perhaps for ever, others have to see to everything without the monitor:
//! - *Tasks that come.* Somebody sleeps, so that a push wakes him, and he the monitor. If all others block as well, relief is
//!   called for them, once that has been so for [`LONG_LOOKS`]. What was in a blocked worker's queues it has given away, before
//!   it blocked; and nothing comes into them meanwhile.
//! - *Events.* Who sits in the driver is one of the sleepers, or one of those who block, in a latch's wait: then it does A2 and A3 when it
//!   leaves the seat. If nobody sits there, a sleeper is woken, and finds the seat free.
//! - *Timers* on the wheel of a blocked worker: it might have woken for them itself, so the one in the driver is told of them,
//!   as by T2 and T3 of `park.rs`. What is registered later goes to the wheel of foreign threads.
//!
//! **Why a thread**, and not the workers themselves: if all are stuck there is nobody. Why no signal that interrupts
//! the stuck one: what it runs is foreign code, in which nothing can be done from a signal handler.
//!
//! Prior art: Go's `sysmon`, which hands the processor of a thread in a system call to another, and preempts long runs. Here a
//! processor stays with its thread, and what it holds can be stolen; so the owner need not agree, nor be told.

use std::ptr::NonNull;
use std::time::{Duration, Instant};

use super::idle::Work;
use super::metrics::Counter;
use super::park::Parker;
use super::processor::{Processor, Sighting};
use super::relief;
use super::shared::Shared;
use crate::driver::{Driver, time};
use crate::loom::sync::atomic::Ordering::{AcqRel, Relaxed, SeqCst};
use crate::loom::sync::atomic::{AtomicBool, fence};
use crate::queue::{Chain, Local};
use crate::stall::Stall;
use crate::task::Header;
use crate::util::thread_probe::ThreadProbe;

/// Between two looks while work is about.
const WATCH: Duration = Duration::from_millis(5);
/// While something waits behind a worker that is still.
const PRESS: Duration = Duration::from_micros(2500);
/// For a while after it had to act: one who blocks mostly blocks again.
const URGENT: Duration = Duration::from_millis(1);
/// That while.
const ALERT: Duration = Duration::from_millis(100);
/// How many looks at which all were asleep come before it sleeps for good.
const DROWSY_LOOKS: u32 = 10;
/// How many such looks there are, with all workers in calls that block, before threads are started for them, so that it can.
const LONG_LOOKS: u32 = 200;
/// How long a worker must have been still, without having said that it may block.
const STUCK: Duration = Duration::from_micros(2500);
/// Who has had so much CPU time without moving is not still for want of it.
const ENOUGH: Duration = Duration::from_millis(10);
/// No threads are kept in reserve that end sooner: they would be started again and again.
const RESERVE_KEEP_ALIVE: Duration = Duration::from_secs(1);
/// How late a timer may be, in nanoseconds, before the monitor fires it: those who should have time to.
const OVERDUE: u64 = time::NANOS_PER_MILLI;

/// What others see of the monitor.
#[derive(Debug)]
pub struct Monitor {
    pub parker: Parker,
    /// It sleeps for good, until somebody wakes.
    is_resting: AtomicBool,
    /// Workers found stuck with work behind them.
    pub stalls: Counter,
    /// Tasks taken from the LIFO slots of stuck workers.
    pub rescued_tasks: Counter,
    /// Times that it looked into the driver for a stuck worker, and something was there.
    pub rescued_events: Counter,
}

impl Monitor {
    pub fn new() -> Self {
        Self {
            parker: Parker::new(),
            is_resting: AtomicBool::new(false),
            stalls: Counter::default(),
            rescued_tasks: Counter::default(),
            rescued_events: Counter::default(),
        }
    }

    /// A2, A3: a worker's sleep has ended.
    #[inline]
    pub fn somebody_woke(&self, driver: &Driver) {
        fence(SeqCst);
        self.somebody_returned(driver);
    }

    /// A3 of a worker that blocks no more, behind its B4.
    #[inline]
    pub fn somebody_returned(&self, driver: &Driver) {
        // Relaxed: ordered by the fences, or B4 has acquired Q1, if Q3 saw the worker block.
        if self.is_resting.load(Relaxed) && self.is_resting.swap(false, Relaxed) {
            self.parker.unpark(driver);
        }
    }

    /// The shutdown has begun.
    pub fn leave(&self, driver: &Driver) {
        self.parker.unpark(driver);
    }
}

/// The monitor's life, on its own thread.
///
/// # Safety
/// 1. The caller counts as a worker of `shared` until this returns.
pub unsafe fn watch(shared: NonNull<Shared>) {
    // SAFETY: (1).
    let state = unsafe { shared.as_ref() };
    let monitor = &state.monitor;
    monitor.parker.adopt_current_thread();
    let mut round = Round {
        shared,
        state,
        watches: Vec::new(),
        turns: 0,
        stuck: 0,
        alert_until: Instant::now(),
        has_called: false,
        has_called_for_jobs: false,
        hands: Local::new(),
    };
    let mut drowsy = 0;
    while !state.shutdown.has_begun() {
        drowsy = if all_asleep(state) { drowsy + 1 } else { 0 };
        if drowsy > DROWSY_LOOKS && rest(state) {
            drowsy = 0;
            continue;
        }
        if drowsy > DROWSY_LOOKS {
            // SAFETY: (1).
            unsafe { stand_in(shared, drowsy) };
        }
        let next = round.look(Instant::now());
        monitor.parker.park(Some(next));
    }
}

/// Q1 to Q4. Says whether it came to Q4.
pub fn rest(state: &Shared) -> bool {
    let monitor = &state.monitor;
    monitor.is_resting.store(true, Relaxed);
    fence(SeqCst);
    let rests = all_asleep(state) && do_others_see_to_all(state) && !state.shutdown.has_begun();
    if rests {
        monitor.parker.park(None);
    }
    monitor.is_resting.store(false, Relaxed);
    rests
}

/// Q3: whether no worker is awake but for those that block, and none that was woken is about to be.
///
/// One that returns from a call that blocks and lies down may be taken for two; but then it does A3 in between.
fn all_asleep(state: &Shared) -> bool {
    let workers = state.config.workers;
    // Each seat by itself: one that is lent sleeps in the other instance, and may change over between two looks.
    let mut seats = (0..workers).filter(|&index| is_asleep(state, index)).count();
    let mut reliefs = state.relief_idle.sleepers_from(workers);
    for index in blocked(state) {
        match index < workers {
            true => seats += 1,
            false => reliefs += 1,
        }
    }
    seats == workers && reliefs == state.relief.counts().active
}

/// The workers that are in a call that blocks, as they announced, or marked.
fn blocked(state: &Shared) -> impl Iterator<Item = usize> {
    let processors = state.processors.iter().enumerate();
    processors.filter(|(_, processor)| is_blocked(processor)).map(|(index, _)| index)
}

fn is_blocked(processor: &Processor) -> bool {
    // Read-modify-writes, though of nothing new: B4, or the end of the last mark, that comes later acquires what was done before this.
    // Acquire: pairs with B1.
    processor.standing.fetch_add(0, AcqRel) != relief::FREE || processor.marks.fetch_add(0, AcqRel) > 0
}

/// Q3: whether those who block have left nothing to nobody.
fn do_others_see_to_all(state: &Shared) -> bool {
    let mut blocked = blocked(state).peekable();
    if blocked.peek().is_none() {
        return true;
    }
    let driver = &state.driver;
    if let Some(time) = driver.time() {
        let deadlines = blocked.map(|index| time.deadline_of(state.wheel(index)));
        deadlines
            .filter(|&deadline| deadline != time::Deadline::MAX)
            .for_each(|deadline| driver.timer_registered(deadline));
    }
    has_sleepers(state)
        && (driver.io().is_none() || driver.sitter().is_some_and(|sitter| tells_when_it_wakes(state, sitter)))
}

/// Whether worker `index`, which sits in the driver, sleeps or blocks there, and does A2 and A3 when it leaves.
fn tells_when_it_wakes(state: &Shared, index: usize) -> bool {
    is_asleep(state, index) || is_blocked(state.processor(index))
}

/// Whether worker `index` sleeps, in whichever instance.
fn is_asleep(state: &Shared, index: usize) -> bool {
    index < state.config.workers && state.idle.is_sleeper(index) || state.relief_idle.is_sleeper(index)
}

/// Whether a push will find somebody asleep.
fn has_sleepers(state: &Shared) -> bool {
    state.idle.sleepers() + state.relief_idle.sleepers() > 0
}

/// It cannot rest, though all are asleep or block: has somebody sit in the driver; or if all block, and have for long, calls relief.
///
/// # Safety
/// 1. As [`watch`].
unsafe fn stand_in(shared: NonNull<Shared>, drowsy: u32) {
    // SAFETY: (1).
    let state = unsafe { shared.as_ref() };
    if has_sleepers(state) {
        if state.driver.sitter().is_none() {
            state.notify_strictly();
        }
    } else if drowsy % LONG_LOOKS == 0 {
        for index in blocked(state) {
            // SAFETY: (1).
            unsafe { Shared::register_blocked(shared, index) };
        }
    }
}

/// What the monitor remembers from look to look.
struct Round<'a> {
    shared: NonNull<Shared>,
    state: &'a Shared,
    /// By the index of the worker.
    watches: Vec<Watch>,
    /// Turns of the driver at the last look.
    turns: u64,
    /// How many workers were stuck, as `relief.rs` was told.
    stuck: usize,
    alert_until: Instant,
    /// At the last look somebody who sleeps was called, unless somebody searched.
    has_called: bool,
    /// The same, for jobs.
    has_called_for_jobs: bool,
    /// Through which stolen tasks pass.
    hands: Local<Header>,
}

/// What is remembered of one worker.
struct Watch {
    /// Its polls, naps and looks.
    moves: u64,
    /// When it was first seen there.
    since: Instant,
    /// The same, or when it was first seen there after a call that blocks, as it announced; none while it is in one.
    free_since: Option<Instant>,
    /// How many looks it has been there, while awake.
    still: u32,
    lifo: Option<Sighting>,
    /// Its tick and CPU time when it was first seen still.
    tick: u64,
    cpu_time: Option<Duration>,
    /// It was stuck at this look.
    is_stuck: bool,
    /// It was still for as long at this look, for want of a CPU.
    is_starved: bool,
    /// The stall has been told of.
    is_told: bool,
}

impl Watch {
    fn new(moves: u64, now: Instant) -> Self {
        Self {
            moves,
            since: now,
            free_since: Some(now),
            still: 0,
            lifo: None,
            tick: 0,
            cpu_time: None,
            is_stuck: false,
            is_starved: false,
            is_told: false,
        }
    }

    /// M1.
    fn observe(&mut self, processor: &Processor, now: Instant) {
        let metrics = &processor.metrics;
        let naps = metrics.naps.get();
        let moves = metrics.polls.get().wrapping_add(naps).wrapping_add(metrics.looks.get());
        if naps % 2 == 1 || moves != self.moves {
            *self = Self::new(moves, now);
            return;
        }
        self.still += 1;
        if self.still == 1 {
            self.tick = processor.tick();
            self.cpu_time = probe(processor).cpu_time();
        }
        let may_block = processor.may_block();
        self.free_since = if may_block { None } else { self.free_since.or(Some(now)) };
        let is_long = self.still >= 2 && now.duration_since(self.since) >= STUCK;
        let is_known = self.is_stuck || may_block;
        self.is_starved = !is_known && is_long && self.lacks_cpu(processor, now);
        self.is_stuck = is_known || is_long && !self.is_starved;
    }

    /// Whether the worker is still only because it got no CPU: relief threads would not get one either.
    fn lacks_cpu(&self, processor: &Processor, now: Instant) -> bool {
        let thread = probe(processor);
        let (Some(before), Some(after)) = (self.cpu_time, thread.cpu_time()) else {
            return false;
        };
        let had = after.saturating_sub(before);
        had < ENOUGH && had < now.duration_since(self.since) / 8 && thread.is_runnable()
    }
}

fn probe(processor: &Processor) -> ThreadProbe {
    // Relaxed: a number. Whoever has moved has stored it.
    ThreadProbe::from_raw(processor.thread.load(Relaxed))
}

impl Round<'_> {
    /// M1 to M7. Says when to look next.
    fn look(&mut self, now: Instant) -> Duration {
        let state = self.state;
        // What this thread has in its hands is in no queue.
        let _expecting = state.expect();
        self.observe(now);
        let is_any_still = self.watches.iter().any(|watch| watch.still > 0);
        if is_any_still {
            self.fire_overdue();
        }
        let is_deserted = self.look_into_driver();
        let held = self.empty_queues(now);
        let waiting = self.waiting();
        let has_acted = self.relieve(now, waiting);
        self.keep_reserve(waiting);
        self.share_jobs(is_any_still);
        state.dismiss_relief();
        if has_acted {
            self.alert_until = now + ALERT;
        }
        match is_any_still && (held || waiting > 0 || is_deserted) {
            _ if is_any_still && now < self.alert_until => URGENT,
            true => PRESS,
            false => WATCH,
        }
    }

    /// M1.
    fn observe(&mut self, now: Instant) {
        for index in 0..self.state.processors.len() {
            let processor = self.state.processor(index);
            match self.watches.get_mut(index) {
                Some(watch) => watch.observe(processor, now),
                None => self.watches.push(Watch::new(0, now)),
            }
        }
    }

    /// M2.
    fn fire_overdue(&self) {
        let Some(time) = self.state.driver.time() else { return };
        let earliest = time.earliest();
        if earliest != time::Deadline::MAX && earliest.saturating_add(OVERDUE) <= time.now() {
            time.fire_due();
        }
    }

    /// M3. Says whether nobody else sees to the driver.
    fn look_into_driver(&mut self) -> bool {
        let driver = &self.state.driver;
        let Some(io) = driver.io().filter(|io| io.has_sources()) else {
            return false;
        };
        let turns = io.turns();
        let is_deserted = turns == self.turns && driver.sitter().is_none();
        if is_deserted {
            self.poll_driver();
        }
        self.turns = io.turns();
        is_deserted
    }

    fn poll_driver(&self) {
        let state = self.state;
        if let Some(mut sitting) = state.driver.try_sit(usize::MAX) {
            if sitting.poll() > 0 {
                state.monitor.rescued_events.add(1);
            }
        }
        // Whoever sleeps outside of the driver may have found the seat taken by us: behind the fence its bit is seen.
        state.idle.fence_push();
        if state.driver.sitter().is_none() && (state.idle.has_sleepers() || state.relief_idle.has_sleepers())
        {
            state.notify();
        }
    }

    /// M4. Says whether anything was there behind a worker that is still.
    fn empty_queues(&mut self, now: Instant) -> bool {
        let mut is_any_held = false;
        for index in 0..self.watches.len() {
            if self.watches[index].still == 0 {
                continue;
            }
            let processor = self.state.processor(index);
            is_any_held |= processor.lifo.is_occupied() || !processor.ring.is_empty();
            let Watch { is_stuck, is_starved, .. } = self.watches[index];
            let is_abandoned = is_stuck || is_starved && self.state.idle.has_sleepers();
            if is_abandoned && self.empty_ring(processor) | self.empty_lifo(index) && is_stuck {
                self.tell_stall(index, now);
            }
            self.watches[index].lifo = processor.sight();
        }
        is_any_held
    }

    /// Takes the task of the LIFO slot of a worker that is stuck or gets no CPU, if it was there at the look before.
    fn empty_lifo(&self, index: usize) -> bool {
        let taken = self.watches[index].lifo.and_then(|seen| self.state.processor(index).steal_lifo(&seen));
        let is_taken = taken.is_some();
        if let Some(task) = taken {
            self.state.monitor.rescued_tasks.add(1);
            self.state.inject(task);
        }
        is_taken
    }

    fn empty_ring(&self, processor: &Processor) -> bool {
        let mut batch = Chain::new();
        // SAFETY: `hands` is this thread's own, and no worker's; what is stolen is in no queue when it is pushed.
        unsafe {
            while let Some((task, _)) = processor.ring.steal_into(&self.hands) {
                batch.push_back(task);
                while let Some(task) = self.hands.pop() {
                    batch.push_back(task);
                }
            }
        }
        let is_any = !batch.is_empty();
        if is_any {
            self.state.injector.push_batch(batch);
            self.state.notify_strictly();
        }
        is_any
    }

    /// How many tasks wait in queues that any worker may take from.
    fn waiting(&self) -> usize {
        let in_rings: usize = self.state.processors.iter().map(|processor| processor.ring.len()).sum();
        in_rings + self.state.injector.len()
    }

    /// M5. Says whether it did something.
    fn relieve(&mut self, now: Instant, waiting: usize) -> bool {
        let state = self.state;
        let (mut stuck, mut is_anybody_held) = (0, false);
        for index in 0..self.watches.len() {
            let processor = state.processor(index);
            if !self.watches[index].is_stuck {
                continue;
            }
            is_anybody_held = true;
            // Those who are marked, and those who were found blocked, are counted as such.
            stuck += usize::from(!processor.may_block());
        }
        let is_pressing = is_anybody_held && waiting > 0;
        let has_helper = state.idle.has_sleepers() || state.relief_idle.has_sleepers();
        if is_pressing {
            for index in 0..self.watches.len() {
                if self.watches[index].is_stuck {
                    self.tell_stall(index, now);
                }
            }
            if has_helper && self.has_called {
                state.notify_anyway(Work::Task);
            } else if has_helper {
                state.notify_strictly();
            } else {
                self.count_blocked();
            }
        }
        self.has_called = is_pressing && has_helper;
        let wanted = if is_pressing && !has_helper { waiting } else { 0 };
        if stuck != self.stuck || wanted > 0 {
            self.stuck = stuck;
            // SAFETY: duty 1 of `watch`.
            unsafe { Shared::relieve_stuck(self.shared, stuck, wanted) };
        }
        is_pressing
    }

    /// Those who are in a call that blocks, as they announced, and were not counted, are from now on.
    fn count_blocked(&self) {
        for (index, watch) in self.watches.iter().enumerate() {
            let processor = self.state.processor(index);
            if processor.standing.load(Relaxed) == relief::BLOCKED && watch.is_stuck {
                // SAFETY: duty 1 of `watch`.
                unsafe { Shared::register_blocked(self.shared, index) };
            }
        }
    }

    /// Counts a stall, and tells the user's hook, once for each: unless the worker has said that it may block, or computes.
    fn tell_stall(&mut self, index: usize, now: Instant) {
        let state = self.state;
        let processor = state.processor(index);
        let watch = &mut self.watches[index];
        // It may be the same poll in which it was blocked for long: that is no stall, nor a part of one that comes then.
        let held_for = watch.free_since.map_or(Duration::ZERO, |since| now.duration_since(since));
        if watch.is_told || held_for < STUCK || processor.may_block() {
            return;
        }
        watch.is_told = true;
        let Some(record) = processor.at_since(watch.tick).filter(|record| !record.is_computation) else {
            return;
        };
        state.monitor.stalls.add(1);
        let is_relief = index >= state.config.workers;
        state.config.hooks.on_stall(&Stall::new(index, is_relief, record.id, record.spawned_at, held_for));
    }

    /// M6.
    fn share_jobs(&mut self, is_any_still: bool) {
        let state = self.state;
        let is_any_asleep = || state.idle.has_sleepers() || state.idle.has_waiters();
        let are_left = is_any_still && is_any_asleep() && state.has_visible_jobs(usize::MAX);
        match are_left {
            true if self.has_called_for_jobs => state.notify_anyway(Work::Job),
            true => state.notify_for(Work::Job),
            false => {}
        }
        self.has_called_for_jobs = are_left;
    }

    /// Computations give way to relief threads that are there; see `split.rs`.
    fn keep_reserve(&self, waiting: usize) {
        let state = self.state;
        let has_io = || state.driver.io().is_some_and(|io| io.has_sources());
        let is_computing = state.jobs.is_any_live() || state.splits.are_passed();
        let lasts = state.config.thread_keep_alive >= RESERVE_KEEP_ALIVE;
        if lasts && is_computing && state.has_relief() && (waiting > 0 || has_io()) {
            // SAFETY: duty 1 of `watch`.
            unsafe { Shared::keep_in_reserve(self.shared, state.config.workers) };
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::future::Future;
    use std::net::{SocketAddr, TcpStream};
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::mpsc::{self, Sender};
    use std::task::{Context, Wake, Waker};
    use std::thread;

    use super::*;
    use crate::parallel::{mark_blocked, mark_unblocked};
    use crate::{Builder, Handle, Runtime, net, parallel, task};

    const LIMIT: Duration = Duration::from_secs(60);

    fn build(workers: usize) -> Runtime {
        Builder::new_multi_thread().worker_threads(workers).enable_all().build().unwrap()
    }

    /// Waits until the monitor sleeps for good.
    #[track_caller]
    fn until_it_rests(runtime: &Runtime) {
        let start = Instant::now();
        let monitor = &runtime.handle().shared().monitor;
        while !(monitor.is_resting.load(Relaxed) && monitor.parker.is_asleep()) {
            assert!(start.elapsed() < LIMIT, "it does not rest");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Has `workers` workers block until what is returned is dropped.
    fn block(runtime: &Runtime, workers: usize) -> Vec<Sender<()>> {
        let (entered, all) = mpsc::channel();
        let block_one = |_| {
            let (end, ended) = mpsc::channel::<()>();
            let entered = entered.clone();
            runtime.spawn(async move {
                task::block_in_place(|| {
                    entered.send(()).unwrap();
                    _ = ended.recv();
                });
            });
            end
        };
        let ends = (0..workers).map(block_one).collect();
        (0..workers).for_each(|_| all.recv_timeout(LIMIT).expect("all block"));
        ends
    }

    #[test]
    fn the_time_in_a_call_that_blocks_is_no_part_of_a_stall() {
        let processor = Processor::new();
        // Its thread is there.
        processor.metrics.naps.add(1);
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        let mut watch = Watch::new(1, start);
        let mut observe = |standing, millis| {
            processor.standing.store(standing, Relaxed);
            watch.observe(&processor, after(millis));
            (watch.is_stuck, watch.free_since)
        };
        observe(relief::FREE, 0);
        let (_, since) = observe(relief::FREE, 1);
        assert_eq!(since, Some(start));
        assert_eq!(observe(relief::BLOCKED, 2), (true, None));
        assert_eq!(observe(relief::BLOCKED, 1000), (true, None));
        // Others go on to see to what it holds.
        assert_eq!(observe(relief::FREE, 1005), (true, Some(after(1005))));
        assert_eq!(observe(relief::FREE, 1010), (true, Some(after(1005))));
    }

    #[track_caller]
    fn assert_answers(runtime: &Runtime) {
        let (send, receive) = mpsc::channel();
        runtime.spawn(async move { send.send(()).unwrap() });
        receive.recv_timeout(LIMIT).expect("a task is run");
    }

    #[test]
    fn it_rests_beside_a_worker_that_blocks_for_ever() {
        let runtime = build(2);
        for _ in 0..3 {
            until_it_rests(&runtime);
            let blocked = block(&runtime, 1);
            until_it_rests(&runtime);
            assert_answers(&runtime);
            until_it_rests(&runtime);
            // And with a relief thread.
            let others = block(&runtime, 1);
            until_it_rests(&runtime);
            assert_answers(&runtime);
            drop((blocked, others));
        }
    }

    #[test]
    fn it_rests_beside_workers_that_all_block_for_ever() {
        for workers in [1, 3] {
            let runtime = build(workers);
            let blocked = block(&runtime, workers);
            until_it_rests(&runtime);
            assert_answers(&runtime);
            drop(blocked);
            until_it_rests(&runtime);
        }
    }

    /// Holds the worker that it is called on until a task that is in its LIFO slot was run by another.
    fn be_stuck() {
        let (ran, has_run) = mpsc::channel();
        crate::spawn(async move { ran.send(()).unwrap() });
        has_run.recv_timeout(LIMIT).expect("somebody takes the task behind it");
    }

    #[test]
    fn it_watches_who_comes_back_from_a_call_that_blocked() {
        let runtime = build(2);
        let (end, ended) = mpsc::channel::<()>();
        let stuck = runtime.spawn(async move {
            task::block_in_place(|| _ = ended.recv());
            be_stuck();
        });
        until_it_rests(&runtime);
        drop(end);
        runtime.block_on(stuck).unwrap();
    }

    /// A worker that marks itself as blocked and is unmarked by another thread.
    #[test]
    fn it_rests_beside_a_worker_that_is_marked_and_watches_it_when_it_is_not_any_more() {
        for workers in [1, 2] {
            let runtime = build(workers);
            let (marks, marked) = mpsc::channel();
            let (end, ended) = mpsc::channel::<()>();
            let stuck = runtime.spawn(async move {
                marks.send(mark_blocked()).unwrap();
                _ = ended.recv();
                be_stuck();
            });
            let mark = marked.recv_timeout(LIMIT).unwrap();
            until_it_rests(&runtime);
            assert_answers(&runtime);
            until_it_rests(&runtime);
            mark_unblocked(mark);
            drop(end);
            runtime.block_on(stuck).unwrap();
        }
    }

    /// Two workers, both in calls that block. One of them waits there for a job that the other runs, and sits in the driver.
    #[test]
    fn it_rests_while_who_blocks_sits_in_the_driver_and_watches_it_when_it_is_back() {
        let runtime = build(2);
        let (begins, begun) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let waits = runtime.spawn(async move {
            task::block_in_place(|| {
                parallel::scope(move |scope| {
                    scope.spawn(move |_| {
                        task::block_in_place(|| {
                            begins.send(()).unwrap();
                            _ = ended.recv();
                        });
                    });
                    begun.recv_timeout(LIMIT).expect("another worker steals the job");
                });
                // In the same call: nobody sits in the driver any more.
                Handle::current().block_on(accept(|address| {
                    thread::spawn(move || TcpStream::connect(address).unwrap());
                }));
            });
        });
        let driver = &runtime.handle().shared().driver;
        let start = Instant::now();
        while driver.sitter().is_none_or(|sitter| sitter > 1) {
            assert!(start.elapsed() < LIMIT, "the one that waits does not sit in the driver");
            thread::sleep(Duration::from_millis(1));
        }
        until_it_rests(&runtime);
        assert_eq!(driver.sitter().map(|sitter| sitter > 1), Some(false));
        assert_answers(&runtime);
        until_it_rests(&runtime);
        drop(end);
        runtime.block_on(waits).unwrap();
    }

    /// Its timer sends.
    struct Sends(Sender<()>);

    impl Wake for Sends {
        fn wake(self: Arc<Self>) {
            self.0.send(()).unwrap();
        }
    }

    #[test]
    fn a_timer_of_a_worker_that_blocks_is_fired_meanwhile() {
        let runtime = build(2);
        until_it_rests(&runtime);
        let task = runtime.spawn(async {
            let (send, fired) = mpsc::channel();
            let waker = Waker::from(Arc::new(Sends(send)));
            // On this worker's wheel.
            let mut sleep = pin!(crate::time::sleep(Duration::from_millis(400)));
            assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            task::block_in_place(|| fired.recv_timeout(LIMIT)).expect("it fires");
        });
        until_it_rests(&runtime);
        runtime.block_on(task).unwrap();
    }

    /// Waits for a connection from outside.
    async fn accept(address: impl FnOnce(SocketAddr)) {
        let listener = net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        address(listener.local_addr().unwrap());
        listener.accept().await.unwrap();
    }

    #[test]
    fn a_driver_that_was_left_by_a_worker_that_blocks_is_taken_over() {
        let runtime = build(2);
        for _ in 0..3 {
            let (send, address) = mpsc::channel();
            let (entered, blocks) = mpsc::channel();
            let (end, ended) = mpsc::channel::<()>();
            runtime.spawn(async move {
                // Who is in the driver polls it next.
                accept(|address| send.send(address).unwrap()).await;
                task::block_in_place(|| {
                    entered.send(()).unwrap();
                    _ = ended.recv();
                });
            });
            let address = address.recv().unwrap();
            until_it_rests(&runtime);
            let _connection = TcpStream::connect(address).unwrap();
            blocks.recv_timeout(LIMIT).unwrap();
            until_it_rests(&runtime);
            // The workers are not told of this.
            let (send, accepted) = mpsc::channel();
            let handle = runtime.handle().clone();
            thread::spawn(move || {
                handle.block_on(accept(|address| {
                    thread::spawn(move || TcpStream::connect(address).unwrap());
                }));
                send.send(()).unwrap();
            });
            accepted.recv_timeout(LIMIT).expect("somebody sits in the driver");
            drop(end);
        }
    }

    /// What the calling thread has had of a CPU.
    #[cfg(target_os = "linux")]
    fn cpu_time() -> Duration {
        ThreadProbe::current().cpu_time().expect("the system says")
    }

    /// The calling thread has only what nobody else wants of a CPU that other threads want all of, until what is returned is set.
    #[cfg(target_os = "linux")]
    fn starve() -> Arc<AtomicBool> {
        // SAFETY: plain data, for which zero is a value; the pointers are valid for reads and writes of the sizes given, here and below.
        let mut cpus: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        unsafe {
            libc::CPU_SET(libc::sched_getcpu() as usize, &mut cpus);
            assert_eq!(libc::sched_setaffinity(0, size_of_val(&cpus), &raw const cpus), 0);
        }
        let is_over = Arc::new(AtomicBool::new(false));
        for _ in 0..4 {
            let is_over = is_over.clone();
            thread::spawn(move || {
                // Inherited: the CPU.
                while !is_over.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        // SAFETY: as above.
        unsafe {
            let parameter: libc::sched_param = std::mem::zeroed();
            assert_eq!(libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameter), 0);
        }
        is_over
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_waits_behind_a_worker_that_gets_no_cpu_goes_to_one_that_sleeps() {
        let runtime = build(2);
        let task = runtime.spawn(async {
            let is_over = starve();
            let (ran, has_run) = mpsc::channel();
            crate::spawn(async move { ran.send(()).unwrap() });
            let before = cpu_time();
            // Who has had as much is not starved any more, but stuck.
            let mut is_taken = false;
            while !is_taken && cpu_time() - before < ENOUGH / 2 {
                is_taken = has_run.try_recv().is_ok();
            }
            is_over.store(true, Relaxed);
            is_taken
        });
        assert!(runtime.block_on(task).unwrap(), "it waits until the worker has had some CPU time");
    }
}
