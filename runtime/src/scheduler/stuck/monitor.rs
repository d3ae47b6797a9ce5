//! The monitor: a thread that looks now and then whether work waits behind workers that do not move.
//!
//! A task that computes for long, waits for a lock or makes a blocking call holds up its worker. It also
//! holds up the worker's queue, its LIFO slot, its timers, and the driver if the worker came from there.
//! Nothing inside a poll reports this. But other workers can take everything that a worker holds. So the
//! monitor only has to notice, and to make sure that other workers are there.
//!
//! **It runs nothing itself**: no task, no job, no turn of the driver, no hook. So nothing that it calls can
//! hold it up.
//!
//! # What it sees
//! Each worker counts its polls, the beginnings and ends of its sleeps, and the looks at its computation's
//! split points. A worker whose sum did not change between two looks of the monitor is *still*. A worker is
//! *stuck* if it is still for [`STUCK`], or for two looks in a call that it has announced as blocking. Two
//! kinds of workers are neither still nor stuck:
//! - A worker that sleeps, or was woken and has no CPU yet. Its count of sleep beginnings and ends (`naps`)
//!   is odd.
//! - A runnable worker that has had next to no CPU time meanwhile, because the machine is busy with something
//!   else. But a worker that has had [`ENOUGH`] CPU time is stuck, however small its share.
//!
//! A stuck worker either computes, or is off its CPU: it waits for a lock, sleeps, or is in a system call. A
//! worker that is off its CPU is *stalled*, and a spare worker takes its whole part (`away.rs`). A worker
//! that computes leaves no CPU for another worker. So one spare worker serves for all that compute.
//!
//! # Long polls
//! A worker in a poll of some hundred microseconds to some milliseconds is not stuck. But while *every*
//! worker is inside of such a poll, no worker looks at the driver, the timers and the injector. So if all
//! workers are awake, the monitor looks again [`SAMPLE`] later. If no worker has moved in between, a spare
//! worker serves from now on, until [`SERVES`] after the monitor last saw this. The serving worker sleeps in
//! the driver, and is woken for work from outside. The workers themselves run the tasks that their own polls
//! wake.
//!
//! The monitor remembers the names of tasks that it found computing for long ([`SlowTasks`]). It moves such a
//! task from the queue of a stuck worker into the queue of slow tasks. A serving spare worker does the same
//! with its own ring at each of its turns, and the other workers leave it the tasks that are not slow
//! (`sort_ring` in `next_work.rs`). Only workers that may take long take from the queue of slow tasks. So as
//! many slow tasks compute as there are workers, and the serving worker is free for other tasks. It can be
//! held up by a slow task that is not known yet, and by one that its own polls wake before its next turn.
//!
//! All workers that may take long may be in a computation, or in one poll, for seconds. So if none of them
//! has taken a slow task for [`SLOW_WAITS`], one more spare worker helps with slow tasks, as if a worker were
//! away. It helps until no slow task has waited, and no spare worker has computed, for [`HELPS`]. If not even
//! this worker takes a slow task for [`HELP_WAITS`], another one comes. When no spare worker serves any more,
//! the monitor forgets all names. Rejected: having the serving worker run the task that has waited. Sockets
//! and timers then waited behind it (`docs/performance/tried.md`).
//!
//! # What it does
//! ```text
//! Observe      every worker; a worker in a long poll ends its stride of polls early (`worker.rs`)
//! Driver       no worker sits in the driver, and none has polled it since the last look; or timers are overdue:
//!              wake a worker that sleeps, or else have a spare one serve
//! Rescue       the LIFO slot and ring of a stuck worker, or of a worker that gets no CPU while another sleeps
//!              (whose CPU may be free): into the injector, or the queue of slow tasks. If no worker takes slow
//!              tasks: one more spare worker is needed
//! Relieve      tasks wait, and a worker is stuck: wake a worker that sleeps, the second time also if a worker
//!              searches; if none sleeps, tell `away.rs` which workers are away, and admit as many spare workers
//!              as are needed and as tasks wait
//! ShareJobs    jobs that any worker could run, and a worker sleeps or waits for a latch: the same
//! Dismiss      a spare worker is not needed, and sleeps: it is woken, to rest
//! Net          a task or root is visible, a worker sleeps that could run it, none searches, and nothing has
//!              moved for [`MISSED`]: a wake was lost. It is made up for, and counted
//!              ([`Monitor::missed_wakes`])
//! ```
//! `Rescue` steals like other thieves: from the ring by its protocol, from the slot by L4 of `processor.rs`.
//! So each task is taken once, whatever the worker does meanwhile, also if it was not stuck after all. **The
//! monitor may be wrong about everything, and an error only costs a wake.** `Net` guards against errors in
//! the arguments of the other files. By these arguments it finds nothing, and tests assert that it has not.
//!
//! **How soon.** The monitor looks every [`WATCH`] while there is work, and every [`PRESS`] while work waits
//! behind a still worker. After it had to act, it looks every [`URGENT`] for a while ([`ALERT`]). So it finds
//! a stuck worker after at most `2 WATCH + PRESS`.
//!
//! # It sleeps for good while the runtime is idle
//! ```text
//! Monitor                                        A worker whose sleep ends
//! Q1 is_resting = true                           A1 clear its sleeper's bit (or see that its notifier did)
//! Q2 SeqCst fence                                A2 SeqCst fence
//! Q3 each worker shows its bit, or is in a       A3 is_resting: swap it to false, unpark the monitor
//!    blocking call, or marked; a worker sleeps
//!    in the driver, and no work is visible;      A worker that blocks no more, or whose last mark is taken back
//!    else is_resting = false, on                 A1 `SayBack` of `away.rs`, or the mark leaves the number; A3
//! Q4 sleep until unparked
//!                                                A worker that blocks, and sleeps on a latch meanwhile
//!                                                A1 it leaves the driver's seat; A2, A3
//!
//!                                                A thread that begins as a worker
//!                                                A1 it was counted; A2, A3
//! ```
//! SeqCst fences have one total order. If A2 comes first, Q3 sees A1 and the monitor goes on. If Q2 comes
//! first, A3 sees Q1. For a worker that blocks or is marked, Q3 and A1 are read-modify-writes of one word. If
//! A1 comes first, Q3 sees it. If Q3 comes first, A1 acquires Q1. So the monitor is awake while any worker is
//! awake. This costs a worker a fence and a load for each sleep, and one unpark for each idle period that is
//! longer than a few looks.
//!
//! **Beside workers that block**, perhaps for ever, the other workers have to see to everything without the
//! monitor:
//! - *Work that comes.* Some worker sleeps, so a push wakes that worker, and the worker wakes the monitor. If
//!   all others block as well, spare workers are called for them, once this has lasted for [`LONG_LOOKS`].
//! - *Work that was there.* A blocked worker has given away the work in its queues before it blocked, and
//!   nothing comes into them meanwhile. But the worker that sleeps may be a spare one that only serves. It
//!   may not run that work as long as the blocked worker is not counted. So Q3 looks for visible work. Work
//!   that was visible before Q3 keeps the monitor awake, and the monitor counts the worker (`Relieve`). Work
//!   that became visible later was pushed, and is the case above.
//! - *Events.* The worker that sits in the driver sleeps, or it blocks and waits for a latch there. In the
//!   second case it does A2 and A3 when it leaves the driver. If no worker sits in the driver, a sleeper is
//!   woken, and finds the driver free.
//! - *Timers* on the wheel of a blocked worker: without the call, that worker might have woken for them. So
//!   the worker in the driver is told of these timers, as by T2 and T3 of `park.rs`. Timers that are
//!   registered later go to the wheel of foreign threads.
//!
//! **Why a thread**, and not the workers themselves: if all workers are stuck, no worker can look. Why no
//! signal interrupts the stuck worker: the worker runs foreign code, in which a signal handler can do
//! nothing.
//!
//! Prior art: Go's `sysmon` hands the processor of a thread in a system call to another thread, and preempts
//! long runs. Here a processor stays with its thread, and others can steal from it. So the owner need neither
//! agree nor be told.

use std::panic::Location;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use crate::config::Stall;
use crate::driver::{Driver, time};
use crate::loom::SLOW_TASKS;
use crate::loom::sync::atomic::Ordering::{AcqRel, Relaxed, SeqCst};
use crate::loom::sync::atomic::{AtomicBool, AtomicU64, fence};
use crate::queue::{Chain, Local};
use crate::scheduler::away::{self, Role};
use crate::scheduler::blocking;
use crate::scheduler::idle::Work;
use crate::scheduler::metrics::Counter;
use crate::scheduler::park::Parker;
use crate::scheduler::processor::{Processor, Sighting};
use crate::scheduler::reference::Reference;
use crate::scheduler::shared::Shared;
use crate::task::{Header, Runnable};
use crate::util::thread_probe::ThreadProbe;

/// The time between two looks while there is work.
const WATCH: Duration = Duration::from_millis(5);
/// The time between two looks while work waits behind a still worker.
const PRESS: Duration = Duration::from_micros(2500);
/// The time between two looks for a while after the monitor had to act: a worker that blocked mostly blocks
/// again.
const URGENT: Duration = Duration::from_millis(1);
/// How long the monitor looks every [`URGENT`] after it had to act.
const ALERT: Duration = Duration::from_millis(100);
/// The time between the two looks that find long polls.
const SAMPLE: Duration = Duration::from_micros(200);
/// How long slow tasks wait for a worker that takes long. Then a spare worker helps.
const SLOW_WAITS: Duration = Duration::from_millis(20);
/// How long a spare worker helps after a slow task last waited, or the spare worker last ran one.
const HELPS: Duration = Duration::from_millis(100);
/// How long slow tasks wait although a spare worker helps. Then one more helps. It is this long because each
/// takes the CPU from the others.
const HELP_WAITS: Duration = Duration::from_secs(5);
/// How long a spare worker serves after every worker was found inside of a long poll.
const SERVES: Duration = Duration::from_secs(1);
/// How many successive looks find all workers asleep before the monitor sleeps for good.
const DROWSY_LOOKS: u32 = 10;
/// How many looks in a row find all workers in blocking calls before spare workers are started for them. Then
/// the monitor can rest.
const LONG_LOOKS: u32 = 200;
/// How long a worker must be still to be stuck, if it has not announced a blocking call.
const STUCK: Duration = Duration::from_micros(2500);
/// With this much CPU time, a worker that has not moved is stuck, and not merely short of CPU time.
const ENOUGH: Duration = Duration::from_millis(10);
/// With a shorter keep-alive, no threads are kept in reserve, because they would be started again and again.
const RESERVE_KEEP_ALIVE: Duration = Duration::from_secs(1);
/// How late a timer may be, in nanoseconds, before the monitor makes a worker look at it.
const OVERDUE: u64 = time::NANOS_PER_MILLI;
/// How long work must wait beside a sleeper before a wake counts as lost. It is this long because a pusher
/// may lose its CPU before it wakes the sleeper.
const MISSED: Duration = Duration::from_millis(250);

/// The part of the monitor that other threads see.
#[derive(Debug)]
pub struct Monitor {
    pub parker: Parker,
    /// The monitor sleeps for good, until a worker wakes.
    is_resting: AtomicBool,
    pub slow_tasks: SlowTasks,
    /// How many tasks workers have taken from the queue of slow tasks.
    pub slow_taken: AtomicU64,
    /// How many workers were found stuck with work behind them.
    pub stalls: Counter,
    /// Tasks taken from the LIFO slots of stuck workers.
    pub rescued_tasks: Counter,
    /// How many times the monitor made a worker see to the driver.
    pub rescued_driver: Counter,
    /// Wakes that were lost.
    pub missed_wakes: Counter,
}

impl Monitor {
    pub fn new() -> Self {
        Self {
            parker: Parker::new(),
            is_resting: AtomicBool::new(false),
            slow_tasks: SlowTasks::new(),
            slow_taken: AtomicU64::new(0),
            stalls: Counter::default(),
            rescued_tasks: Counter::default(),
            rescued_driver: Counter::default(),
            missed_wakes: Counter::default(),
        }
    }

    /// Remembers that the task which the worker polls computes for long, if the worker's tick is still
    /// `tick`.
    fn remember_slow(&self, processor: &Processor, tick: u64) {
        // An announced blocking call inside of the poll is no computation.
        let record = processor.at_since(tick).filter(|_| !processor.may_block());
        record.filter(|record| !record.is_computation).inspect(|record| self.slow_tasks.insert(record.id.0));
    }

    /// A2, A3: a worker's sleep has ended.
    #[inline]
    pub fn somebody_woke(&self, driver: &Driver) {
        fence(SeqCst);
        self.somebody_returned(driver);
    }

    /// A3 of a worker that blocks no more, behind its `SayBack`.
    #[inline]
    pub fn somebody_returned(&self, driver: &Driver) {
        // Relaxed: either the fences order this, or `SayBack` has acquired Q1, if Q3 saw the worker block.
        if self.is_resting.load(Relaxed) && self.is_resting.swap(false, Relaxed) {
            self.parker.unpark(driver);
        }
    }
}

/// The names of tasks that were found to compute for long. Only the monitor writes them; for all others they
/// are hints. If many tasks are slow, some names are lost, because each name has one place.
#[derive(Debug)]
pub struct SlowTasks {
    names: Box<[AtomicU64]>,
}

impl SlowTasks {
    fn new() -> Self {
        Self { names: (0..SLOW_TASKS).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Threads hand out names one by one, from blocks of their own. The upper bits of this product depend on
    /// all bits of the name.
    fn place(&self, name: u64) -> &AtomicU64 {
        let mixed = name.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.names[mixed as usize % SLOW_TASKS]
    }

    pub fn contains(&self, name: u64) -> bool {
        // Relaxed, here and below: hints.
        self.place(name).load(Relaxed) == name
    }

    fn insert(&self, name: u64) {
        self.place(name).store(name, Relaxed);
    }

    fn clear(&self) {
        self.names.iter().for_each(|name| name.store(0, Relaxed));
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
    let now = Instant::now();
    let mut round = Round {
        shared,
        state,
        watches: Vec::new(),
        turns: 0,
        alert_until: now,
        serves_until: now,
        has_served: false,
        slow_taken: 0,
        slow_since: now,
        helpers: 0,
        helps_until: now,
        has_called: false,
        has_called_for_jobs: false,
        moves: 0,
        moved_at: now,
        hands: Local::new(),
        samples: Vec::new(),
    };
    let mut drowsy = 0;
    while !state.is_closed() {
        drowsy = if all_asleep(state) { drowsy + 1 } else { 0 };
        if drowsy > DROWSY_LOOKS && rest(state) {
            drowsy = 0;
            continue;
        }
        if drowsy > DROWSY_LOOKS {
            stand_in(state, drowsy);
        }
        let next = round.look(Instant::now());
        monitor.parker.park(Some(next));
    }
}

/// Q1 to Q4. Returns whether the monitor came to Q4.
pub fn rest(state: &Shared) -> bool {
    let monitor = &state.monitor;
    monitor.is_resting.store(true, Relaxed);
    fence(SeqCst);
    let rests = all_asleep(state) && do_others_see_to_all(state) && !state.is_closed();
    if rests {
        monitor.parker.park(None);
    }
    monitor.is_resting.store(false, Relaxed);
    rests
}

/// Q3: whether every worker sleeps or blocks, and no woken worker is about to be awake.
///
/// A worker that returns from a blocking call and then sleeps may be counted twice. But then it does A3 in
/// between.
fn all_asleep(state: &Shared) -> bool {
    let asleep = state.processors.indices().filter(|&index| state.idle.is_sleeper(index)).count();
    asleep + blocked(state).count() == state.away.workers()
}

/// The workers that are in an announced blocking call, or marked.
fn blocked(state: &Shared) -> impl Iterator<Item = usize> {
    state.processors.indices().filter(|&index| is_blocked(state.processor(index)))
}

fn is_blocked(processor: &Processor) -> bool {
    // Read-modify-writes that change nothing. A later `SayBack`, or a later end of the last mark, acquires
    // what was done before this. Acquire: pairs with `SayBlocked`.
    processor.standing.fetch_add(0, AcqRel) != away::HERE || processor.marks.fetch_add(0, AcqRel) > 0
}

/// Q3: whether the sleeping workers see to everything while the others block.
fn do_others_see_to_all(state: &Shared) -> bool {
    let mut blocked = blocked(state).peekable();
    if blocked.peek().is_none() {
        return !state.has_no_poller();
    }
    if state.has_visible_tasks() || state.has_jobs_for(usize::MAX, Role::Full) {
        return false;
    }
    let driver = &state.driver;
    if let Some(time) = driver.time() {
        let deadlines = blocked.map(|index| time.deadline_of(state.wheel(index)));
        deadlines
            .filter(|&deadline| deadline != time::Deadline::MAX)
            .for_each(|deadline| driver.timer_registered(deadline));
    }
    state.idle.sleepers() > 0
        && (driver.io().is_none() || driver.sitter().is_some_and(|poller| tells_when_it_wakes(state, poller)))
}

/// Whether worker `index`, which sits in the driver, does A2 and A3 when it leaves, because it sleeps or
/// blocks there.
fn tells_when_it_wakes(state: &Shared, index: usize) -> bool {
    state.idle.is_sleeper(index) || is_blocked(state.processor(index))
}

/// The monitor cannot rest, although all workers sleep or block. If some sleep, it makes one of them sit in
/// the driver. If all have blocked for long, it calls spare workers.
fn stand_in(state: &Shared, drowsy: u32) {
    if state.idle.sleepers() > 0 {
        if state.driver.sitter().is_none() {
            state.fetch_strictly(Work::Task);
        }
    } else if drowsy % LONG_LOOKS == 0 {
        let blocked: Vec<_> = blocked(state).collect();
        blocked.into_iter().for_each(|index| _ = state.count_blocked(index));
    }
}

/// What the monitor remembers from one look to the next.
struct Round<'a> {
    shared: NonNull<Shared>,
    state: &'a Shared,
    /// One for each worker, by its index.
    watches: Vec<Watch>,
    /// Turns of the driver at the last look.
    turns: u64,
    alert_until: Instant,
    /// The end of the time in which a spare worker serves.
    serves_until: Instant,
    /// Whether a spare worker was to serve at the last look.
    has_served: bool,
    /// How many slow tasks workers had taken at the last look, and since when they have taken none though some
    /// wait.
    slow_taken: u64,
    slow_since: Instant,
    /// How many spare workers help with slow tasks.
    helpers: usize,
    helps_until: Instant,
    /// Whether the last look saw tasks behind a stuck worker, and called a sleeping worker unless a worker
    /// searched.
    has_called: bool,
    /// The same, for jobs.
    has_called_for_jobs: bool,
    /// The sum of all workers' moves, and since when it has not changed while a worker slept.
    moves: u64,
    moved_at: Instant,
    /// The queue through which stolen tasks pass.
    hands: Local<Header>,
    /// Scratch memory of `sample`; empty outside of it.
    samples: Vec<Sample>,
}

/// What the monitor remembers of one worker.
struct Watch {
    /// The sum of the worker's polls, naps and looks.
    moves: u64,
    /// When the monitor first saw the worker at this sum.
    since: Instant,
    /// As `since`, or when the worker was first seen at this sum after an announced blocking call. None while
    /// the worker is in such a call.
    free_since: Option<Instant>,
    /// How many looks found the worker at this sum, while awake.
    still: u32,
    lifo: Option<Sighting>,
    /// The worker's tick and CPU time when it was first seen still.
    tick: u64,
    cpu_time: Option<Duration>,
    /// At this look the worker was stuck, and did not compute.
    is_stuck: bool,
    is_off_cpu: bool,
    /// At this look the worker was still for as long as a stuck one, but only because it had no CPU.
    is_starved: bool,
    /// The stall has been reported.
    is_told: bool,
}

/// What the monitor saw of one worker [`SAMPLE`] ago.
struct Sample {
    index: usize,
    tick: u64,
    cpu_time: Option<Duration>,
}

impl Sample {
    fn begin(index: usize, processor: &Processor) -> Self {
        Self { index, tick: processor.tick(), cpu_time: probe(processor).cpu_time() }
    }

    /// The CPU time that the worker has had since this sample.
    fn cpu_time_since(&self, processor: &Processor) -> Option<Duration> {
        Some(probe(processor).cpu_time()?.saturating_sub(self.cpu_time?))
    }
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
            is_off_cpu: false,
            is_starved: false,
            is_told: false,
        }
    }

    /// `Observe`.
    fn observe(&mut self, processor: &Processor, now: Instant) {
        let moves = moves_of(processor);
        if is_asleep(processor) || moves != self.moves {
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
        self.is_off_cpu = self.is_stuck && !may_block && self.is_off_cpu(processor, now);
    }

    /// Whether the worker is still only because it got no CPU. Another worker would not get one either.
    fn lacks_cpu(&self, processor: &Processor, now: Instant) -> bool {
        let had = self.cpu_time_since(processor);
        had.is_some_and(|had| had < ENOUGH && had < now.duration_since(self.since) / 8)
            && probe(processor).is_runnable()
    }

    /// Whether the worker waits for something, and does not compute.
    fn is_off_cpu(&self, processor: &Processor, now: Instant) -> bool {
        let had = self.cpu_time_since(processor);
        had.is_some_and(|had| had < now.duration_since(self.since) / 2) && !probe(processor).is_runnable()
    }

    /// The CPU time that the worker has had since it was first seen still.
    fn cpu_time_since(&self, processor: &Processor) -> Option<Duration> {
        Some(probe(processor).cpu_time()?.saturating_sub(self.cpu_time?))
    }
}

fn moves_of(processor: &Processor) -> u64 {
    let metrics = &processor.metrics;
    metrics.polls.get().wrapping_add(metrics.naps.get()).wrapping_add(metrics.looks.get())
}

/// Whether the worker is asleep, or woken and without a CPU yet.
fn is_asleep(processor: &Processor) -> bool {
    processor.metrics.naps.get() % 2 == 1
}

fn probe(processor: &Processor) -> ThreadProbe {
    // Relaxed: a number. A worker that has moved has stored it.
    ThreadProbe::from_raw(processor.thread.load(Relaxed))
}

impl Round<'_> {
    /// Looks once. Returns the time until the next look.
    fn look(&mut self, now: Instant) -> Duration {
        // Tasks that this thread has stolen, and not pushed yet, are in no queue.
        let expecting = self.state.expect();
        let next = self.see_to_all(now);
        if let Some(report) = expecting.end() {
            self.call_elsewhere(move || report.deliver());
        }
        next
    }

    fn see_to_all(&mut self, now: Instant) -> Duration {
        let state = self.state;
        self.observe(now);
        self.sample();
        let is_any_still = self.watches.iter().any(|watch| watch.still > 0);
        let is_deserted = self.see_to_driver();
        let held = self.rescue(now);
        let waiting = self.waiting();
        let has_acted = self.relieve(now, waiting);
        self.keep_reserve(waiting);
        self.share_jobs(is_any_still);
        self.make_up_for_missed_wakes(now);
        state.dismiss_surplus();
        if has_acted {
            self.alert_until = now + ALERT;
        }
        match is_any_still && (held || waiting > 0 || is_deserted) {
            _ if is_any_still && now < self.alert_until => URGENT,
            true => PRESS,
            false => WATCH,
        }
    }

    /// `Observe`.
    fn observe(&mut self, now: Instant) {
        for index in self.state.processors.indices() {
            if index >= self.watches.len() {
                self.watches.resize_with(index + 1, || Watch::new(0, now));
            }
            self.watches[index].observe(self.state.processor(index), now);
        }
    }

    /// The indices that were observed at this look.
    fn observed(&self) -> impl Iterator<Item = usize> + use<> {
        let observed = self.watches.len();
        self.state.processors.indices().filter(move |&index| index < observed)
    }

    /// The observed workers that are awake now.
    fn up(&self) -> impl Iterator<Item = usize> {
        let state = self.state;
        self.observed().filter(move |&index| {
            (index < state.config.workers || index >= state.first_spare) && !is_asleep(state.processor(index))
        })
    }

    /// Runs a moment after the look: finds which workers are inside of long polls, and whether all are.
    fn sample(&mut self) {
        let state = self.state;
        let permanent = self.up().filter(|&index| index < state.config.workers).count();
        if permanent < state.config.workers || state.idle.is_anybody_searching() {
            return;
        }
        let mut samples = std::mem::take(&mut self.samples);
        samples.extend(self.up().map(|index| Sample::begin(index, state.processor(index))));
        state.monitor.parker.park(Some(SAMPLE));
        let mut are_all_long = true;
        for sample in samples.drain(..) {
            let processor = state.processor(sample.index);
            let had = sample.cpu_time_since(processor);
            // A worker that has lost its CPU does not count as in a long poll.
            let is_at_it = had.is_none_or(|had| had >= SAMPLE / 2) || !probe(processor).is_runnable();
            let has_not_moved = moves_of(processor) == self.watches[sample.index].moves;
            let is_long = has_not_moved && !is_asleep(processor) && is_at_it;
            are_all_long &= is_long;
            if is_long {
                processor.tell_long();
            }
            if is_long && had.is_some_and(|had| had >= SAMPLE / 2) {
                state.monitor.remember_slow(processor, sample.tick);
            }
        }
        self.samples = samples;
        // (A worker that has woken meanwhile does not count as in a long poll.)
        let are_still_up = self.up().filter(|&index| index < state.config.workers).count() == permanent;
        if are_all_long && are_still_up {
            self.serves_until = Instant::now() + SERVES;
        }
    }

    /// `Driver`. Returns whether no worker sees to the driver.
    fn see_to_driver(&mut self) -> bool {
        let state = self.state;
        let driver = &state.driver;
        let Some(io) = driver.io() else { return false };
        let is_overdue = driver.time().is_some_and(|time| {
            let earliest = time.earliest();
            earliest != time::Deadline::MAX && earliest.saturating_add(OVERDUE) <= time.now()
        });
        let is_unseen = io.turns() == self.turns && driver.sitter().is_none() && state.is_driver_deserted();
        self.turns = io.turns();
        if is_unseen || is_overdue {
            state.monitor.rescued_driver.add(1);
            if !state.fetch_strictly(Work::Task) && !state.idle.is_anybody_searching() {
                self.serves_until = Instant::now() + SERVES;
            }
        }
        is_unseen || is_overdue
    }

    /// `Rescue`. Returns whether there was work behind a worker that is still.
    fn rescue(&mut self, now: Instant) -> bool {
        let mut is_any_held = false;
        for index in self.observed() {
            let Watch { still, is_stuck, is_starved, is_off_cpu, tick, .. } = self.watches[index];
            if still == 0 {
                continue;
            }
            let processor = self.state.processor(index);
            is_any_held |= processor.lifo.is_occupied() || !processor.ring.is_empty();
            if is_stuck && !is_off_cpu {
                self.state.monitor.remember_slow(processor, tick);
            }
            let is_abandoned = is_stuck || is_starved && self.state.idle.has_sleepers();
            if is_abandoned && self.empty_ring(processor) | self.empty_lifo(index) && is_stuck {
                self.tell_stall(index, now);
            }
            self.watches[index].lifo = processor.sight();
        }
        self.see_to_slow(now);
        is_any_held
    }

    /// Has a worker come for slow tasks, if one sleeps that takes them. Decides how many spare workers help
    /// with them.
    fn see_to_slow(&mut self, now: Instant) {
        let state = self.state;
        // Relaxed: a number.
        let taken = state.monitor.slow_taken.load(Relaxed);
        if state.slow.is_empty() || taken != self.slow_taken {
            (self.slow_taken, self.slow_since) = (taken, now);
        }
        let is_spare_computing =
            || self.observed().any(|index| self.watches[index].is_stuck && self.is_computing_spare(index));
        if !state.slow.is_empty() || self.helpers > 0 && is_spare_computing() {
            self.helps_until = now + HELPS;
        } else if now >= self.helps_until {
            self.helpers = 0;
        }
        if state.slow.is_empty() {
            return;
        }
        let limit = if self.helpers == 0 { SLOW_WAITS } else { HELP_WAITS };
        if now.duration_since(self.slow_since) >= limit {
            self.slow_since = now;
            self.helpers += 1;
        }
        let is_any_free = (0..state.config.workers).any(|index| state.idle.is_sleeper(index));
        if is_any_free || state.idle.sleepers() > state.extra() {
            state.fetch_strictly(Work::Task);
        }
        state.wake_full_spare();
    }

    /// Takes the task from the LIFO slot of a worker that is stuck or gets no CPU, if the last look saw that
    /// task there.
    fn empty_lifo(&self, index: usize) -> bool {
        let taken = self.watches[index].lifo.and_then(|seen| self.state.processor(index).steal_lifo(&seen));
        let is_taken = taken.is_some();
        if let Some(task) = taken {
            let state = self.state;
            state.monitor.rescued_tasks.add(1);
            match state.monitor.slow_tasks.contains(task.id()) {
                // SAFETY: it was taken from the slot, so it is in no queue.
                true => unsafe { state.slow.push(task.into_raw()) },
                false => state.inject(task),
            }
        }
        is_taken
    }

    /// Returns whether the ring held a task that is not known to be slow.
    fn empty_ring(&self, processor: &Processor) -> bool {
        let state = self.state;
        let (mut batch, mut slow) = (Chain::new(), Chain::new());
        // SAFETY: `hands` is this thread's own, and no worker's; what is stolen is in no queue when it is
        // pushed, and a `Runnable`.
        unsafe {
            while let Some((task, _)) = processor.ring.steal_into(&self.hands) {
                let mut next = Some(task);
                while let Some(task) = next {
                    let task = Runnable::from_raw(task);
                    let is_slow = state.monitor.slow_tasks.contains(task.id());
                    if is_slow {
                        slow.push_back(task.into_raw())
                    } else {
                        batch.push_back(task.into_raw())
                    }
                    next = self.hands.pop();
                }
            }
        }
        let is_any = !batch.is_empty();
        if !slow.is_empty() {
            state.slow.push_batch(slow);
        }
        if is_any {
            state.injector.push_batch(batch);
            state.fetch_strictly(Work::Task);
        }
        is_any
    }

    /// How many tasks wait in queues that any worker may take from, plus one if jobs wait.
    fn waiting(&self) -> usize {
        let state = self.state;
        let in_rings: usize = state.processors.iter().map(|processor| processor.ring.len()).sum();
        in_rings + state.injector.len() + usize::from(state.has_jobs_for(usize::MAX, Role::Full))
    }

    /// `Relieve`. Returns whether it did something.
    fn relieve(&mut self, now: Instant, waiting: usize) -> bool {
        let state = self.state;
        let stuck: Vec<_> = self.observed().filter(|&index| self.watches[index].is_stuck).collect();
        let is_pressing = !stuck.is_empty() && waiting > 0;
        let has_helper = state.idle.sleepers() > state.extra();
        if is_pressing || state.away.is_any_spare_active() {
            stuck.iter().for_each(|&index| self.tell_stall(index, now));
        }
        if is_pressing {
            if has_helper && self.has_called {
                state.fetch_anyway();
            } else if has_helper {
                state.fetch_strictly(Work::Task);
            } else {
                // Workers in an announced blocking call that were not counted are counted from now on.
                stuck.iter().for_each(|&index| _ = state.count_blocked(index));
            }
        }
        self.has_called = is_pressing && has_helper;
        let stalled = stuck.iter().filter(|&&index| self.watches[index].is_off_cpu).count();
        let computing = stuck.iter().filter(|&&index| self.is_computing_spare(index)).count();
        let are_all_stuck = self.up().all(|index| self.watches[index].is_stuck);
        let serves = now < self.serves_until && self.up().next().is_some() || is_pressing && are_all_stuck;
        if !serves && state.slow.is_empty() {
            self.helpers = 0;
        }
        let computing = computing.saturating_sub(self.helpers);
        state.set_away(stalled + self.helpers, if serves { 1 + computing } else { 0 });
        if self.has_served && !serves {
            // A task that was slow then may be quick now.
            state.monitor.slow_tasks.clear();
        }
        self.has_served = serves;
        if serves || self.helpers > 0 || is_pressing && !has_helper {
            let wanted = waiting.max(1);
            _ = (0..wanted).take_while(|_| state.admit(None)).count();
        }
        is_pressing || serves
    }

    /// Whether this is a spare worker that should serve, but computes.
    fn is_computing_spare(&self, index: usize) -> bool {
        index >= self.state.first_spare
            && !self.watches[index].is_off_cpu
            && !self.state.processor(index).may_block()
    }

    /// Counts a stall and calls the user's hook, once for each stall. Does neither if the worker computes, or
    /// has announced that it may block.
    fn tell_stall(&mut self, index: usize, now: Instant) {
        let state = self.state;
        let processor = state.processor(index);
        let watch = &mut self.watches[index];
        // Earlier in this poll the worker may have been in a long blocking call. That time is no stall, nor
        // part of a later stall.
        let held_for = watch.free_since.map_or(Duration::ZERO, |since| now.duration_since(since));
        if watch.is_told || held_for < STUCK || processor.may_block() {
            return;
        }
        watch.is_told = true;
        let Some(record) = processor.at_since(watch.tick).filter(|record| !record.is_computation) else {
            return;
        };
        state.monitor.stalls.add(1);
        if state.config.hooks.has_stall() {
            let is_spare = index >= state.config.workers;
            let stall = Stall::new(index, is_spare, record.id, record.spawned_at, held_for);
            let hooks = state.config.hooks.clone();
            // The hook is foreign code, so it does not run on this thread.
            self.call_elsewhere(move || hooks.on_stall(&stall));
        }
    }

    /// Calls foreign code on a thread that runs blocking closures.
    fn call_elsewhere(&self, f: impl FnOnce() + Send + 'static) {
        // SAFETY: duty 1 of `watch`.
        let handle = unsafe { Reference::new(self.shared) };
        drop(blocking::spawn_on(&handle, f, Location::caller()));
    }

    /// `ShareJobs`.
    fn share_jobs(&mut self, is_any_still: bool) {
        let state = self.state;
        let is_any_asleep = || state.idle.has_sleepers() || state.idle.has_waiters();
        let are_left = is_any_still && is_any_asleep() && state.has_jobs_for(usize::MAX, Role::Full);
        match are_left {
            true if self.has_called_for_jobs => state.fetch_anyway(),
            true => _ = state.fetch(Work::Job),
            false => {}
        }
        self.has_called_for_jobs = are_left;
    }

    /// Computations yield to spare workers that are there; see `split.rs`.
    fn keep_reserve(&self, waiting: usize) {
        let state = self.state;
        let has_io = || state.driver.io().is_some_and(|io| io.has_sources());
        let is_computing = state.jobs.is_any_live() || state.splits.are_passed();
        let lasts = state.config.thread_keep_alive >= RESERVE_KEEP_ALIVE;
        if lasts && is_computing && state.max_spares > 0 && (waiting > 0 || has_io()) {
            state.keep_in_reserve(state.config.workers);
        }
    }

    /// `Net`.
    fn make_up_for_missed_wakes(&mut self, now: Instant) {
        let state = self.state;
        let moves = state.processors.iter().map(moves_of).fold(0, u64::wrapping_add);
        // A surplus sleeper may leave jobs to the other workers.
        let has_jobs = || state.jobs.has_any() && state.idle.sleepers() > state.extra();
        let is_work_left = !state.injector.is_empty() || has_jobs();
        let is_missed = is_work_left && state.idle.has_sleepers() && !state.idle.is_anybody_searching();
        if moves != self.moves || !is_missed {
            (self.moves, self.moved_at) = (moves, now);
        } else if now.duration_since(self.moved_at) >= MISSED {
            self.moved_at = now;
            state.monitor.missed_wakes.add(1);
            state.fetch_anyway();
            state.fetch(Work::Job);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
