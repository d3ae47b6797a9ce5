//! Sampling: how a worker that would be woken for tiny tasks waits for work that is worth a wake.
//!
//! The awake worker finishes tasks of some ten nanoseconds long before another thread has woken for them, and
//! the wake costs the waker 2 to 15 µs. So a worker without work *samples* if all other awake workers are
//! quick. It neither steals from them nor goes to sleep for good. It parks for a short time, [`SAMPLE_PAUSE`]
//! and then longer, and looks again.
//! ```text
//!             all that are up are quick, nothing is worth it           its pause is over
//!   searching ─────────────────────────────────────────────▶ sampling ──────────────────▶ searching
//! ```
//! For the sleep protocol, a sampling worker is a slow searcher. A push relies on it, and it leaves the
//! searchers as any other searcher does. One worker samples for all. If it finds work that is worth it, it
//! takes the work, and wakes another worker for the rest, like any searcher. A second worker that would
//! sample goes to sleep instead, and leaves the tasks that it sees to the awake workers. The sampler is one
//! of them. The last worker to go to sleep finds no sampler, and leaves no tasks. The sampler's pause ends
//! early in three cases: a job is posted, a worker is about to block, or all others have fallen asleep
//! ([`Samplers`]).
//!
//! *The sampler looks later.* A push may rely on a searcher that then sleeps beside the sampler and looks at no
//! tasks. It asks for the sampler behind its SleepFence (`sleep/idle.rs`), which comes after PushFence. The
//! sampler's end is a write before its own next SleepFence. If the sleeper does not see it, that fence is later
//! than the sleeper's, so the sampler's SleepLook sees PushTask. If the sampler, too, sleeps beside another
//! one, the same holds for that one. If the sampler finds other work instead, it leaves the searchers by
//! UncountSearcher, and the last searcher looks again (SearcherLook). A sleeper that had asked before its
//! fence could rely on a sampler that has slept since. Model: `sampler`.
//!
//! **Which workers are quick** follows from the numbers of their polls, spawns and pushes: by how much these
//! have moved since this worker last looked, and in what time. That time includes all sleep of both workers,
//! so the estimate errs towards slow. Only a worker that was among quick workers when it fell asleep first
//! watches them for a moment when it wakes ([`WATCH`]). This costs the quick workers nothing. If something
//! waits, they also have to move once more before the look ends, because they may have just begun a long
//! poll. A worker that does not move and has nothing waiting is ignored: it may search for work itself, or
//! wait for a CPU.
//!
//! **Which work is worth it**: a queue that takes its owner [`WORTH`] or longer at that pace. So anything
//! behind a poll that turns out long is worth it, and nothing that is [`TINY`] is. A queue that has not been
//! empty for [`PATIENCE`] looks is also worth it, because its owner does not finish its tasks. A worker that
//! works through the injector beside others asks itself the same question every [`SAMPLE`] tasks.
//!
//! **Whether help is of use**: tasks that write to the same memory, or take the same lock, may take several
//! times as long with two workers as with one. They look well worth it then. So a worker remembers how long a
//! poll takes while only one side works. Suppose that it and the others together are not faster than that by
//! a quarter. Then it assumes that the others alone would be as quick as that, and samples if the waiting
//! work is not worth it at that pace. It forgets the figure gradually.
//!
//! No worker samples if that could make events late: if descriptors are registered and no worker sleeps in
//! the driver, a worker without work has to become the poller.
//!
//! Rejected: an estimate by the owner, with a look at the clock every few polls. It, too, knows only the
//! past, and the owner pays for it. Also rejected: a threshold for the length of the ring alone. If no worker
//! looks again, a short queue behind a long poll waits for the monitor. Prior art: none known. Go and Tokio
//! wake one searcher at a time, whatever the tasks cost.

use std::cell::{Cell, RefCell};
use std::mem;
use std::time::{Duration, Instant};

use crate::loom::{SAMPLES, hint};
use crate::scheduler::hints::reinforcement::pace;
use crate::scheduler::hints::samplers::Samplers;
use crate::scheduler::processor::Processor;
use crate::scheduler::shared::Shared;

/// The length of the first timed park. The system adds some 50 µs to each.
const SAMPLE_PAUSE: Duration = Duration::from_micros(80);
/// How many times in a row the next timed park is twice as long.
const DOUBLINGS: u32 = 2;
/// How many timed parks in a row may find nothing.
const MOST_SAMPLES: u32 = 8;
/// If its worker finishes the work in less time, the sampler does not help.
const WORTH: Duration = Duration::from_micros(20);
/// The longest average poll of a quick worker.
const QUICK: Duration = Duration::from_micros(5);
/// How many looks in a row must find a queue non-empty.
const PATIENCE: u32 = 5;
/// If a worker has not looked for longer than this, it has slept, and the others may have slept, too.
const STALE: Duration = Duration::from_micros(500);
/// How long a worker that has slept first watches the others.
const WATCH: Duration = Duration::from_micros(2);
/// Two looks that are closer together than this count as one.
const SHORTEST: Duration = Duration::from_micros(10);
/// If the owner runs a task in less time, another CPU should not fetch it, because the memory that the task
/// touches moves along.
const TINY: Duration = Duration::from_nanos(250);
/// How many tasks a worker runs before it asks itself whether the others need it.
const SAMPLE: u64 = 64;

/// What a worker remembers of the other workers from one look to the next. Only its own thread touches this.
#[derive(Debug)]
pub struct Sampling {
    looked_at: Cell<Instant>,
    /// One for each permanent worker, by index.
    others: RefCell<Vec<Other>>,
    injector: Cell<Queue>,
    /// Whether a worker is awake, and all awake workers are quick.
    is_hurried: Cell<bool>,
    /// Whether all workers that were awake at the last look at them were quick.
    was_hurried: Cell<bool>,
    /// The tick of this worker at its last look.
    own_tick: Cell<u64>,
    company: Company,
    samples_left: Cell<u32>,
}

#[derive(Debug, Clone, Default)]
struct Other {
    moves: Moves,
    /// A hint.
    ring: Queue,
}

/// What a worker has done, in counts that wrap around.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Moves {
    polls: u64,
    spawned: u64,
    /// Pushes into the worker's ring. So one poll that wakes a thousand tasks counts as moving, too.
    pushes: u32,
}

/// What is known of a queue.
#[derive(Debug, Clone, Copy, Default)]
struct Queue {
    /// In how many looks in a row the queue was not empty.
    looks: u32,
    is_worth: bool,
}

impl Queue {
    /// At this look, the queue has `len` tasks, and the workers that run them take `pace` for one task.
    /// `None`: they do not move.
    fn look(&mut self, len: usize, pace: Option<Duration>) {
        self.looks = if len > 0 { self.looks + 1 } else { 0 };
        let is_long = || pace.is_none_or(|pace| pace > TINY && pace.saturating_mul(len as u32) >= WORTH);
        self.is_worth = len > 0 && (self.looks >= PATIENCE || is_long());
    }
}

/// Whether this worker and the others together get more done than one side while the other does nothing.
#[derive(Debug, Default)]
struct Company {
    /// The sum of all workers' ticks at the last look.
    ticks: Cell<u64>,
    /// How long a poll recently took while one side did nothing.
    alone: Cell<Option<Duration>>,
}

impl Company {
    /// At this look the sum of all ticks is `ticks`, and this worker has made `own_polls` polls since the
    /// last look. If both sides have worked and it was of no use, returns how long a poll takes one side
    /// alone.
    fn look(&self, own_polls: u64, ticks: u64, passed: Duration) -> Option<Duration> {
        let polls = ticks.wrapping_sub(self.ticks.replace(ticks));
        let pace = pace(polls, passed)?;
        if own_polls == 0 || own_polls == polls {
            // Part of the time may belong to one long poll, so the shortest recent time counts.
            self.alone.set(Some(self.alone.get().map_or(pace, |alone| pace.min(alone + alone / 2))));
            return None;
        }
        self.alone.get().filter(|&alone| pace * 5 > alone * 4)
    }
}

impl Sampling {
    pub fn new() -> Self {
        Self {
            looked_at: Cell::new(Instant::now()),
            others: RefCell::default(),
            injector: Cell::default(),
            is_hurried: Cell::new(false),
            was_hurried: Cell::new(false),
            own_tick: Cell::new(0),
            company: Company::default(),
            samples_left: Cell::new(MOST_SAMPLES),
        }
    }

    /// Looks at all workers. Worker `own` has found nothing of its own.
    pub fn look(&self, shared: &Shared, own: usize) {
        let workers = shared.config.workers;
        if !SAMPLES || own >= workers {
            return;
        }
        if shared.idle.sleepers() + 1 >= workers {
            // No other worker is awake: there is nothing to look at, and there are no cache lines to fetch.
            return self.is_hurried.set(false);
        }
        let mut passed = self.looked_at.get().elapsed();
        if passed < SHORTEST {
            return;
        }
        let mut others = self.others.borrow_mut();
        others.resize(workers, Other::default());
        if passed > STALE && self.was_hurried.get() {
            passed = self.watch(shared, own, &mut others);
        }
        self.looked_at.set(Instant::now());
        let ticks = ticks(shared);
        let tick = shared.processor(own).tick();
        let own_polls = tick.wrapping_sub(self.own_tick.replace(tick));
        let undisturbed = self.company.look(own_polls, ticks, passed);
        let mut quickest = None;
        let mut are_quick = true;
        for (index, other) in others.iter_mut().enumerate().filter(|&(index, _)| index != own) {
            let processor = shared.processor(index);
            let moves = Moves::of(processor);
            let since = moves.since(mem::replace(&mut other.moves, moves));
            let pace = pace(since.most(), passed);
            let mut pace = pace.map(|pace| pace.min(undisturbed.unwrap_or(pace)));
            let is_up = !shared.idle.is_sleeper(index);
            let waiting = processor.ring.len();
            if is_up && waiting + shared.injector.len() > 0 {
                pace = pace.filter(|&pace| goes_on(processor, moves, pace));
            }
            other.ring.look(waiting, pace);
            if is_up {
                // A worker that has nothing waiting may search, or it was woken and waits for a CPU.
                are_quick &= pace.map_or(waiting == 0, |pace| pace <= QUICK);
                quickest = quickest.into_iter().chain(pace).min();
            }
        }
        let mut injector = self.injector.get();
        injector.look(shared.injector.len(), quickest);
        self.injector.set(injector);
        self.is_hurried.set(are_quick && quickest.is_some());
        self.was_hurried.set(self.is_hurried.get());
    }

    /// Watches the others for a moment, as if the last look had been before that moment. Returns how long it
    /// watched.
    fn watch(&self, shared: &Shared, own: usize, others: &mut [Other]) -> Duration {
        for (index, other) in others.iter_mut().enumerate() {
            other.moves = Moves::of(shared.processor(index));
        }
        self.own_tick.set(shared.processor(own).tick());
        self.company.ticks.set(ticks(shared));
        let start = Instant::now();
        loop {
            hint::spin_loop();
            let passed = start.elapsed();
            if passed >= WATCH {
                return passed;
            }
        }
    }

    /// Whether this worker leaves alone the work that is not worth it, and samples.
    pub fn would_sample(&self, shared: &Shared) -> bool {
        let has_driver = || {
            let driver = &shared.driver;
            // Not a worker that only polls the driver once, and goes on with its tasks.
            let sleeps = |poller| shared.idle.is_sleeper(poller);
            driver.io().is_none_or(|io| !io.has_sources()) || driver.poller().is_some_and(sleeps)
        };
        SAMPLES && self.is_hurried.get() && self.samples_left.get() > 0 && has_driver()
    }

    /// Whether worker `own`, which could take tasks from the injector, leaves them to the others and samples.
    /// `has_slept`: it has run nothing since it slept.
    #[inline]
    pub fn leaves_it_to_others(&self, shared: &Shared, own: usize, has_slept: bool) -> bool {
        let polls = shared.processor(own).tick().wrapping_sub(self.own_tick.get());
        shared.config.workers > 1 && (has_slept || polls >= SAMPLE) && self.weighs(shared, own)
    }

    #[cold]
    #[inline(never)]
    fn weighs(&self, shared: &Shared, own: usize) -> bool {
        self.look(shared, own);
        self.would_sample(shared) && !self.is_injector_worth()
    }

    /// Whether the ring of worker `victim` is worth a theft.
    pub fn is_ring_worth(&self, victim: usize) -> bool {
        self.others.borrow().get(victim).is_none_or(|other| other.ring.is_worth)
    }

    pub fn is_injector_worth(&self) -> bool {
        self.injector.get().is_worth
    }

    /// This worker took work, so its patience begins anew.
    pub fn took(&self) {
        self.samples_left.set(MOST_SAMPLES);
        self.injector.take();
        self.others.borrow_mut().iter_mut().for_each(|other| other.ring = Queue::default());
    }

    /// A timed park begins. Returns its length.
    pub fn begin_sample(&self) -> Duration {
        let left = self.samples_left.get();
        self.samples_left.set(left.saturating_sub(1));
        SAMPLE_PAUSE * (1 << (MOST_SAMPLES - left).min(DOUBLINGS))
    }

    /// A real sleep begins.
    pub fn reset(&self) {
        self.samples_left.set(MOST_SAMPLES);
    }
}

impl Samplers {
    /// Ends the pause of the worker that samples.
    #[inline]
    pub fn wake(&self, shared: &Shared) {
        shared.unpark_picked(self.sampler());
    }

    /// As [`wake`](Self::wake), if all other workers sleep.
    pub fn wake_if_alone(&self, shared: &Shared) {
        if shared.idle.sleepers() + 1 >= shared.config.workers {
            self.wake(shared);
        }
    }
}

impl Moves {
    fn of(processor: &Processor) -> Self {
        Self {
            polls: processor.tick(),
            spawned: processor.metrics.spawned.get(),
            pushes: processor.ring.pushes(),
        }
    }

    fn since(self, before: Self) -> Self {
        Self {
            polls: self.polls.wrapping_sub(before.polls),
            spawned: self.spawned.wrapping_sub(before.spawned),
            pushes: self.pushes.wrapping_sub(before.pushes),
        }
    }

    /// At least so many tasks were run, spawned or woken.
    fn most(self) -> u64 {
        self.polls.max(self.spawned).max(self.pushes.into())
    }
}

/// The sum of all workers' ticks.
fn ticks(shared: &Shared) -> u64 {
    (0..shared.config.workers).map(|index| shared.processor(index).tick()).fold(0, u64::wrapping_add)
}

/// Whether the owner, which had made `before` moves, makes another move in the time of an average move. If
/// not, its present poll may have just become long.
fn goes_on(processor: &Processor, before: Moves, pace: Duration) -> bool {
    const SPINS: u32 = 16;
    let limit = Duration::from_micros(1) + 4 * pace.min(QUICK);
    let start = Instant::now();
    loop {
        for _ in 0..SPINS {
            if Moves::of(processor) != before {
                return true;
            }
            hint::spin_loop();
        }
        if start.elapsed() >= limit {
            return false;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
