//! What the monitor decides at a look, and what it does.

use std::num::NonZero;
use std::ptr::NonNull;
use std::thread;
use std::time::{Duration, Instant};

use super::jobs::WatchedJobs;
use super::seen::{Counts, LONG, SAMPLE, Sample, Watched, is_asleep, moves_of};
use super::{WatchedCancellers, WatchedWakers};
use crate::config::Stall;
use crate::driver::time;
use crate::loom::sync::atomic::Ordering::Relaxed;
use crate::queue::{IntrusiveList, Local};
use crate::scheduler::away::Role;
use crate::scheduler::idle::Work;
use crate::scheduler::processor::Processor;
use crate::scheduler::shared::Shared;
use crate::task::{Header, Runnable};

/// The time between two looks while there is work.
const WATCH: Duration = Duration::from_millis(5);
/// The time between two looks while work waits behind a still worker.
const PRESS: Duration = Duration::from_micros(2500);
/// The time between two looks for a while after the monitor had to act: a worker that blocked mostly blocks
/// again.
const URGENT: Duration = Duration::from_millis(1);
/// How long the monitor looks every [`URGENT`] after it had to act.
const ALERT: Duration = Duration::from_millis(100);
/// How long slow tasks wait for a worker that takes long. Then a spare worker helps, unless it is the last
/// one that serves.
const SLOW_WAITS: Duration = Duration::from_millis(20);
/// How long a spare worker helps after a slow task last waited, or the spare worker last ran one.
const HELPS: Duration = Duration::from_millis(100);
/// How long slow tasks wait although a spare worker helps, or because only one serves. Then one more helps.
/// It is this long because each takes the CPU from the others, and the last one lets sockets and timers wait.
const HELP_WAITS: Duration = Duration::from_secs(5);
/// How long slow tasks wait until a serving spare worker probes them one by one.
const PROBE_WAITS: Duration = Duration::from_millis(100);
/// How many spare workers serve while every worker is inside of long polls, and some of them compute there.
/// While one spare worker polls a task that is not known to compute for long, the other one waits in the
/// driver.
const SERVING: usize = 2;
/// How long they serve after every worker was found inside of a long poll.
const SERVES: Duration = Duration::from_secs(1);
/// How long other workers act as beside long polls after one was found.
const LONG_POLLS: Duration = Duration::from_secs(1);
/// With a shorter keep-alive, no threads are kept in reserve, because they would be started again and again.
const RESERVE_KEEP_ALIVE: Duration = Duration::from_secs(1);
/// How late a timer may be, in nanoseconds, before the monitor makes a worker look at it.
const OVERDUE: u64 = time::NANOS_PER_MILLI;
/// How long work must wait beside a sleeper before a wake counts as lost. It is this long because a pusher
/// may lose its CPU before it wakes the sleeper.
const MISSED: Duration = Duration::from_millis(250);

/// What the monitor remembers from one look to the next.
pub struct Looks<'a> {
    state: &'a Shared,
    /// One for each worker, by its index.
    watched: Vec<Watched>,
    /// Turns of the driver at the last look.
    turns: u64,
    alert_until: Instant,
    /// The end of the time that counts as beside long polls.
    long_polls_until: Instant,
    /// The end of the time in which a spare worker serves, and of the time in which [`SERVING`] do.
    serves_until: Instant,
    more_serve_until: Instant,
    /// Whether spare workers were to serve at the last look.
    has_served: bool,
    /// How many slow tasks workers had taken at the last look, and since when they have taken none though
    /// some wait.
    slow_taken: u64,
    slow_since: Instant,
    /// How many spare workers help with slow tasks.
    helpers: usize,
    helps_until: Instant,
    no_probe_before: Instant,
    jobs: WatchedJobs,
    wakers: WatchedWakers,
    cancellers: WatchedCancellers,
    /// Whether the last look saw tasks behind a stuck worker, and called a sleeping worker unless a worker
    /// searched.
    has_called: bool,
    /// The same, for jobs.
    has_called_for_jobs: bool,
    /// The sum of all workers' moves, and since when it has not changed while a worker slept.
    moves: u64,
    moved_at: Instant,
    /// The queue through which stolen tasks pass.
    scratch: Local<Header>,
    /// How many threads run at the same time.
    cpus: usize,
    /// Scratch memory of `sample`; empty outside of it.
    samples: Vec<Sample>,
}

impl<'a> Looks<'a> {
    /// Begins to look at the runtime `shared`.
    ///
    /// # Safety
    /// 1. `shared` is valid until the last use of the result: until then the caller counts as a worker, or
    ///    has a reference.
    pub unsafe fn new(shared: NonNull<Shared>) -> Self {
        let now = Instant::now();
        // SAFETY: (1).
        let state = unsafe { shared.as_ref() };
        Self {
            state,
            watched: Vec::new(),
            turns: 0,
            alert_until: now,
            long_polls_until: now,
            serves_until: now,
            more_serve_until: now,
            has_served: false,
            slow_taken: 0,
            slow_since: now,
            helpers: 0,
            helps_until: now,
            no_probe_before: now,
            jobs: WatchedJobs::new(now),
            wakers: WatchedWakers::default(),
            cancellers: WatchedCancellers::default(),
            has_called: false,
            has_called_for_jobs: false,
            moves: 0,
            moved_at: now,
            scratch: Local::new(),
            cpus: thread::available_parallelism().map_or(1, NonZero::get),
            samples: Vec::new(),
        }
    }
}

impl Looks<'_> {
    /// Looks once. Returns the time until the next look.
    pub fn look(&mut self, now: Instant) -> Duration {
        // Tasks that this thread has stolen, and not pushed yet, are in no queue.
        let expecting = self.state.expect();
        let next = self.see_to_all(now);
        if let Some(report) = expecting.and_then(|expecting| expecting.end()) {
            self.state.deliver_elsewhere(report);
        }
        next
    }

    fn see_to_all(&mut self, now: Instant) -> Duration {
        let state = self.state;
        self.observe(now);
        self.sample();
        let is_any_still = self.watched.iter().any(|watch| watch.still > 0);
        let is_deserted = self.see_to_driver();
        let held = self.rescue(now);
        self.see_to_jobs(now);
        self.wakers.see_to(state);
        let waiting = self.waiting();
        let has_acted = self.relieve(now, waiting, is_deserted);
        let is_any_going_on = self.up().any(|index| !self.watched[index].is_stuck);
        self.cancellers.see_to(state, is_any_going_on);
        self.keep_reserve(waiting);
        self.share_jobs(is_any_still);
        self.make_up_for_missed_wakes(now);
        state.monitor.set_saw_long_polls(now < self.long_polls_until);
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
            if index >= self.watched.len() {
                self.watched.resize_with(index + 1, || Watched::new(0, now));
            }
            self.watched[index].observe(self.state.processor(index), now);
        }
    }

    /// The indices that were observed at this look.
    fn observed(&self) -> impl Iterator<Item = usize> + use<> {
        let observed = self.watched.len();
        self.state.processors.indices().filter(move |&index| index < observed)
    }

    /// The observed workers that are awake now.
    fn up(&self) -> impl Iterator<Item = usize> {
        let state = self.state;
        self.observed().filter(move |&index| {
            (index < state.config.workers || index >= state.first_spare) && !is_asleep(state.processor(index))
        })
    }

    /// Looks again a moment later, if all permanent workers are awake and no sleeper could do their part, or
    /// if none is the poller: finds which workers are inside of long polls, and whether any is left for the
    /// rest.
    fn sample(&mut self) {
        let state = self.state;
        let are_all_up = self.are_all_up();
        if !are_all_up && !state.is_driver_deserted() || state.idle.is_any_searching() {
            return;
        }
        let interval = if are_all_up { SAMPLE } else { LONG };
        let mut samples = std::mem::take(&mut self.samples);
        samples.extend(self.up().map(|index| Sample::begin(index, state.processor(index))));
        state.monitor.parker.park(Some(interval));
        let mut permanent = Counts::default();
        for sample in samples.drain(..) {
            let processor = state.processor(sample.index);
            let had = sample.cpu_time_since(processor);
            // The poll of a worker that has lost its CPU is not known to be long.
            let is_at_it = had.is_none_or(|had| had >= interval / 2) || !processor.probe().is_runnable();
            let watch = &self.watched[sample.index];
            let is_still = moves_of(processor) == watch.moves && !is_asleep(processor);
            let is_long = is_still && is_at_it;
            let computes = is_long && !watch.is_blocked() && had.is_some_and(|had| had >= interval / 2);
            if is_long {
                processor.tell_long();
            }
            if computes {
                self.remember_slow(sample.index, sample.tick, Instant::now());
            }
            // Spare workers that serve may be busy with what they are there for.
            if sample.index < state.first_spare {
                permanent.count(is_still, is_long, computes);
            }
        }
        self.samples = samples;
        if are_all_up && self.are_all_up() && permanent.are_all_busy(state.config.workers, self.cpus) {
            self.serves_until = Instant::now() + SERVES;
            if permanent.computing > 0 {
                self.more_serve_until = self.serves_until;
            }
        }
    }

    /// Whether all permanent workers are awake, and no spare worker that takes everything sleeps.
    fn are_all_up(&self) -> bool {
        let state = self.state;
        let permanent = self.up().filter(|&index| index < state.config.workers).count();
        permanent == state.config.workers && state.idle.sleepers() <= state.extra()
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
        let is_unseen = io.turns() == self.turns && driver.poller().is_none() && state.is_driver_deserted();
        self.turns = io.turns();
        if is_unseen || is_overdue {
            state.monitor.rescued_driver.add(1);
            if !state.fetch_strictly(Work::Task) && !state.idle.is_any_searching() {
                self.serves_until = Instant::now() + SERVES;
            }
        }
        is_unseen || is_overdue
    }

    /// `Rescue`. Returns whether there was work behind a worker that is still.
    fn rescue(&mut self, now: Instant) -> bool {
        let mut is_any_held = false;
        for index in self.observed() {
            let Watched { still, is_stuck, is_held, is_starved, is_off_cpu, tick, .. } = self.watched[index];
            if still == 0 {
                continue;
            }
            let processor = self.state.processor(index);
            is_any_held |= processor.lifo.is_occupied() || !processor.ring.is_empty();
            if is_held && !is_off_cpu {
                self.remember_slow(index, tick, now);
            }
            let is_abandoned = is_stuck || is_starved && self.state.idle.has_sleepers();
            if is_abandoned && self.empty_queues(index) && is_stuck {
                self.tell_stall(index, now);
            }
            self.watched[index].lifo = processor.sight();
        }
        self.see_to_slow(now);
        is_any_held
    }

    /// Worker `index` has been still for long. If it polls a task, and its tick is still `tick`, this
    /// remembers the task, once for each poll, and that there are long polls.
    fn remember_slow(&mut self, index: usize, tick: u64, now: Instant) {
        let state = self.state;
        let watch = &mut self.watched[index];
        watch.is_remembered =
            watch.is_remembered || state.monitor.remember_slow(state.processor(index), tick);
        if watch.is_remembered {
            self.long_polls_until = now + LONG_POLLS;
        }
    }

    /// Has a worker come for slow tasks, if one sleeps that takes them. Decides how many spare workers help
    /// with them, and whether one probes them.
    fn see_to_slow(&mut self, now: Instant) {
        let state = self.state;
        // Relaxed: a number.
        let taken = state.monitor.slow_taken.load(Relaxed);
        if state.slow.is_empty() || taken != self.slow_taken {
            (self.slow_taken, self.slow_since) = (taken, now);
        }
        let computing = self.observed().filter(|&index| self.is_computing_spare(index)).count();
        if !state.slow.is_empty() || self.helpers > 0 && computing > 0 {
            self.helps_until = now + HELPS;
        } else if now >= self.helps_until {
            self.helpers = 0;
        }
        if state.slow.is_empty() {
            return state.monitor.set_prober(None);
        }
        // At the shutdown no spare worker rests, and all serve.
        let is_last = self.leaves_one_server() && !state.lifecycle.has_begun();
        let limit = if self.helpers == 0 && !is_last { SLOW_WAITS } else { HELP_WAITS };
        if now.duration_since(self.slow_since) >= limit {
            self.slow_since = now;
            self.helpers += 1;
        }
        let is_any_free = (0..state.config.workers).any(|index| state.idle.is_sleeper(index));
        if is_any_free || state.idle.sleepers() > state.extra() {
            state.fetch_strictly(Work::Task);
        }
        state.wake_full_spare();
        if state.monitor.takes_fruitless_probe() {
            self.no_probe_before = now + PROBE_WAITS;
        }
        let has_waited = now.duration_since(self.slow_since) >= PROBE_WAITS && now >= self.no_probe_before;
        // While a probe computes, no other one begins: each takes the CPU from the others.
        let may_probe = computing <= self.helpers && has_waited;
        let prober = if may_probe { state.sleeping_prober() } else { None };
        state.monitor.set_prober(prober);
        state.unpark_picked(prober);
    }

    /// Decides whether spare workers that serve leave injected jobs to the others.
    fn see_to_jobs(&mut self, now: Instant) {
        let state = self.state;
        // A spare worker whose job has begun to block just now does not count.
        let computes =
            |&index: &usize| self.is_computing_spare(index) && state.processor(index).probe().is_runnable();
        let computing = || self.observed().filter(computes).count().saturating_sub(self.helpers);
        let computing = state.injected_jobs.has_any().then(computing);
        self.jobs.see_to(state, now, computing);
    }

    /// Whether the limit of spare workers allows at most one that serves.
    fn leaves_one_server(&self) -> bool {
        let state = self.state;
        state.away.blocked() + state.waiting() + 1 >= state.max_spares
    }

    /// Empties the queues of a worker that is stuck or gets no CPU. Returns whether it took a task for any
    /// worker.
    fn empty_queues(&self, index: usize) -> bool {
        let (state, processor) = (self.state, self.state.processor(index));
        if processor.ring.is_empty() && self.watched[index].lifo.is_none() {
            return false;
        }
        state.as_job(|| self.empty_ring(processor) | self.empty_lifo(index)).unwrap_or(false)
    }

    /// Takes the task from the LIFO slot of a worker that is stuck or gets no CPU, if the last look saw that
    /// task there.
    fn empty_lifo(&self, index: usize) -> bool {
        let taken = self.watched[index].lifo.and_then(|seen| self.state.processor(index).steal_lifo(&seen));
        let is_taken = taken.is_some();
        if let Some(task) = taken {
            let state = self.state;
            state.monitor.rescued_tasks.add(1);
            match state.monitor.slow_tasks.contains(&task) {
                // SAFETY: (1) the task lives while its `SCHEDULED` is in the queue. (2) It was taken from the
                // slot, so it is in no queue, and its `SCHEDULED` is ours.
                true => unsafe { state.slow.push(task.into_raw()) },
                false => state.inject(task),
            }
        }
        is_taken
    }

    /// Moves the tasks of a ring into the injector or into the queue of slow tasks. Returns whether any went
    /// into the injector.
    fn empty_ring(&self, processor: &Processor) -> bool {
        let state = self.state;
        let (mut batch, mut slow) = (IntrusiveList::new(), IntrusiveList::new());
        // SAFETY: `steal_into`, `pop`: (1) `scratch` is this thread's own, and no worker's. `from_raw`: (1)
        // the task's `SCHEDULED` was pushed into the ring with it. `push_back`: (1) the task lives while its
        // `SCHEDULED` is in a list. (2) It was stolen, so it is in no queue, and its `SCHEDULED` is ours.
        unsafe {
            while let Some((task, _)) = processor.ring.steal_into(&self.scratch) {
                let mut next = Some(task);
                while let Some(task) = next {
                    let task = Runnable::from_raw(task);
                    let is_slow = state.monitor.slow_tasks.contains(&task);
                    if is_slow {
                        slow.push_back(task.into_raw())
                    } else {
                        batch.push_back(task.into_raw())
                    }
                    next = self.scratch.pop();
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
        in_rings + state.injector.len() + usize::from(state.has_jobs_for(None, Role::Full))
    }

    /// `Relieve`. `is_deserted`: no worker sees to the driver. Returns whether it did something.
    fn relieve(&mut self, now: Instant, waiting: usize, is_deserted: bool) -> bool {
        let state = self.state;
        let stuck: Vec<_> = self.observed().filter(|&index| self.watched[index].is_stuck).collect();
        let is_pressing = !stuck.is_empty() && waiting > 0;
        let has_helper = state.idle.sleepers() > state.extra();
        if is_pressing || (state.away.active() > 0) {
            stuck.iter().for_each(|&index| self.tell_stall(index, now));
        }
        if is_pressing {
            if has_helper && self.has_called {
                state.fetch_anyway();
            } else if has_helper {
                state.fetch_strictly(Work::Task);
            } else {
                self.count_blocked(&stuck);
                if !state.injector.is_empty() {
                    // All sleepers are extra, so a worker that filled the injector may have woken none of
                    // them (`share_if_worth`), and computes now. They may take from the injector.
                    state.fetch_strictly(Work::Task);
                }
            }
        }
        if !is_pressing && !has_helper && (is_deserted || !state.slow.is_empty()) {
            self.count_blocked(&stuck);
        }
        self.has_called = is_pressing && has_helper;
        // Those inside of the user's hook for their start count as one: the next would come to the same hook.
        let (starting, stuck): (Vec<_>, Vec<_>) =
            stuck.into_iter().partition(|&index| state.is_spare_starting(index));
        let computing = stuck.iter().filter(|&&index| self.is_computing_spare(index)).count();
        let are_all_stuck = self.up().all(|index| self.watched[index].is_stuck);
        let off_cpu = stuck.iter().filter(|&&index| self.watched[index].is_off_cpu).count();
        let mut stalled = off_cpu + starting.len().min(1);
        if state.lifecycle.has_begun() && !are_all_stuck {
            // No spare worker rests any more, and all cancel tasks. They wait for the same locks, so each
            // that came for such a wait would bring the next. One is enough while any worker goes on.
            stalled = stalled.min(1);
        }
        let serves = now < self.serves_until && self.up().next().is_some() || is_pressing && are_all_stuck;
        if !serves && state.slow.is_empty() {
            self.helpers = 0;
        }
        let computing = computing.saturating_sub(self.helpers);
        let away = stalled + self.helpers;
        let wanted = if state.lifecycle.has_begun() {
            // All workers cancel tasks, and many spare workers would wait for the same locks.
            1 + computing.min(state.config.workers)
        } else if now < self.more_serve_until {
            SERVING.min(state.max_spares.saturating_sub(away).max(1)) + computing
        } else {
            1 + computing
        };
        state.set_away(away, if serves { wanted } else { 0 });
        if self.has_served && !serves {
            // A task that was slow then may be quick now.
            state.monitor.slow_tasks.clear();
        }
        self.has_served = serves;
        if serves || self.helpers > 0 || is_pressing && !has_helper {
            let wanted = waiting.max(1);
            _ = (0..wanted).take_while(|_| state.admit()).count();
        }
        is_pressing || serves
    }

    /// Workers in an announced blocking call that were not counted are counted from now on.
    fn count_blocked(&self, stuck: &[usize]) {
        stuck.iter().for_each(|&index| _ = self.state.count_blocked(index));
    }

    /// Whether this is a spare worker that should serve, but computes.
    fn is_computing_spare(&self, index: usize) -> bool {
        let watch = &self.watched[index];
        index >= self.state.first_spare && watch.is_held && !watch.is_off_cpu
    }

    /// Counts a stall and calls the user's hook, once for each stall. Does neither if the worker computes, or
    /// has announced that it may block.
    fn tell_stall(&mut self, index: usize, now: Instant) {
        let state = self.state;
        let processor = state.processor(index);
        let watch = &mut self.watched[index];
        if watch.is_told || !watch.is_held || processor.may_block() {
            return;
        }
        watch.is_told = true;
        let Some(record) = processor.at_since(watch.tick).filter(|record| !record.is_computation) else {
            return;
        };
        state.monitor.stalls.add(1);
        if state.config.hooks.has_stall() {
            let is_spare = index >= state.config.workers;
            let stall = Stall::new(index, is_spare, record.id, record.spawned_at, watch.held_for(now));
            let hooks = state.config.hooks.clone();
            // The hook is foreign code, so it does not run on this thread.
            state.call_elsewhere(move || hooks.on_stall(&stall));
        }
    }

    /// `ShareJobs`.
    fn share_jobs(&mut self, is_any_still: bool) {
        let state = self.state;
        let is_any_stuck = self.observed().any(|index| self.watched[index].is_stuck);
        state.monitor.set_jobs_wait(is_any_stuck && state.has_jobs_for(None, Role::Full));
        let is_any_asleep = || state.idle.has_sleepers() || state.idle.has_waiters();
        let are_left = is_any_still && is_any_asleep() && state.has_jobs_for(None, Role::Full);
        let may_others_take = || state.idle.has_waiters() || state.idle.sleepers() > state.extra();
        match are_left {
            // Serving workers would only sleep again.
            true if state.leaves_jobs() && state.external.count() == 0 && !may_others_take() => {
                state.wake_full_spare()
            }
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
        let is_computing = state.injected_jobs.is_any_live() || state.splits.are_passed();
        // After the shutdown has begun, no worker yields.
        let lasts = state.config.thread_keep_alive >= RESERVE_KEEP_ALIVE && !state.lifecycle.has_begun();
        if lasts && is_computing && state.max_spares > 0 && (waiting > 0 || has_io()) {
            state.keep_in_reserve(state.config.workers);
        }
    }

    /// `Net`.
    fn make_up_for_missed_wakes(&mut self, now: Instant) {
        let state = self.state;
        let moves = state.processors.iter().map(moves_of).fold(0, u64::wrapping_add);
        // A surplus sleeper may leave jobs to the other workers.
        let has_jobs = || state.injected_jobs.has_any() && state.idle.sleepers() > state.extra();
        let is_work_left = !state.injector.is_empty() || has_jobs();
        let is_missed = is_work_left && state.idle.has_sleepers() && !state.idle.is_any_searching();
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
