//! What the monitor sees of one worker.

use std::time::{Duration, Instant};

use crate::scheduler::processor::{Processor, Sighting};

/// How long a worker must be still to be stuck, if it has not announced a blocking call.
pub const STUCK: Duration = Duration::from_micros(2500);
/// The time between the two looks that find long polls, while all workers are awake.
pub const SAMPLE: Duration = Duration::from_micros(200);
/// The same, while a worker sleeps. After a shorter poll it need not be woken.
pub const LONG: Duration = Duration::from_millis(1);
/// With this much CPU time, a worker that has not moved is stuck, and not merely short of CPU time.
pub const ENOUGH: Duration = Duration::from_millis(10);

/// What the monitor remembers of one worker.
pub struct Watched {
    /// The sum of the worker's polls, begun and ended sleeps, and looks.
    pub moves: u64,
    /// When the monitor first saw the worker at this sum.
    since: Instant,
    /// As `since`, or when the worker was first seen at this sum after an announced blocking call. None while
    /// the worker is in such a call.
    free_since: Option<Instant>,
    /// How many looks found the worker at this sum, while awake.
    pub still: u32,
    pub lifo: Option<Sighting>,
    /// The worker's tick when it was first seen still.
    pub tick: u64,
    /// The worker's CPU time then, or when it was first seen after an announced blocking call.
    cpu_time: Option<Duration>,
    /// At this look the worker was stuck.
    pub is_stuck: bool,
    /// At this look the worker was stuck, and neither in an announced blocking call nor only short of a CPU.
    pub is_held: bool,
    /// At this look the worker was held, and did not compute.
    pub is_off_cpu: bool,
    /// At this look the worker was still for as long as a stuck one, but only because it had no CPU.
    pub is_starved: bool,
    /// The monitor has remembered the task of this poll as slow.
    pub is_remembered: bool,
    /// The stall has been reported.
    pub is_told: bool,
}

/// What the monitor saw of one worker a moment ago.
pub struct Sample {
    pub index: usize,
    pub tick: u64,
    cpu_time: Option<Duration>,
}

impl Sample {
    pub fn begin(index: usize, processor: &Processor) -> Self {
        Self { index, tick: processor.tick(), cpu_time: processor.probe().cpu_time() }
    }

    /// The CPU time that the worker has had since this sample. None if the system does not say.
    pub fn cpu_time_since(&self, processor: &Processor) -> Option<Duration> {
        Some(processor.probe().cpu_time()?.saturating_sub(self.cpu_time?))
    }
}

impl Watched {
    pub fn new(moves: u64, now: Instant) -> Self {
        Self {
            moves,
            since: now,
            free_since: Some(now),
            still: 0,
            lifo: None,
            tick: 0,
            cpu_time: None,
            is_stuck: false,
            is_held: false,
            is_off_cpu: false,
            is_starved: false,
            is_remembered: false,
            is_told: false,
        }
    }

    /// `Observe`.
    pub fn observe(&mut self, processor: &Processor, now: Instant) {
        let moves = moves_of(processor);
        let has_moved = is_asleep(processor) || moves != self.moves;
        if has_moved {
            *self = Self::new(moves, now);
        }
        let may_block = processor.may_block();
        if may_block {
            self.free_since = None;
        } else if self.free_since.is_none() {
            self.free_since = Some(now);
            self.cpu_time = processor.probe().cpu_time();
        }
        if has_moved {
            return;
        }
        self.still += 1;
        if self.still == 1 {
            self.tick = processor.tick();
            self.cpu_time = processor.probe().cpu_time();
        }
        let held_for = self.held_for(now);
        let is_long = self.still >= 2 && now.duration_since(self.since) >= STUCK;
        self.is_starved = is_long && !may_block && self.lacks_cpu(processor, held_for);
        // After such a call the other workers go on to take its work.
        self.is_stuck = self.is_stuck || may_block || is_long && !self.is_starved;
        self.is_held = self.is_stuck && held_for >= STUCK && !self.is_starved;
        self.is_off_cpu = self.is_held && self.is_off_cpu(processor, held_for);
    }

    /// How long the worker has been seen at this sum, without an announced blocking call. Earlier in the same
    /// poll there may have been such a call.
    pub fn held_for(&self, now: Instant) -> Duration {
        self.free_since.map_or(Duration::ZERO, |since| now.duration_since(since))
    }

    /// Whether the worker is in an announced blocking call.
    pub fn is_blocked(&self) -> bool {
        self.free_since.is_none()
    }

    /// Whether the worker is still only because it got no CPU. Another worker would not get one either.
    fn lacks_cpu(&self, processor: &Processor, held_for: Duration) -> bool {
        let had = self.cpu_time_since(processor);
        had.is_some_and(|had| had < ENOUGH && had < held_for / 8) && processor.probe().is_runnable()
    }

    /// Whether the worker waits for something, and does not compute.
    fn is_off_cpu(&self, processor: &Processor, held_for: Duration) -> bool {
        let had = self.cpu_time_since(processor);
        had.is_some_and(|had| had < held_for / 2) && !processor.probe().is_runnable()
    }

    /// The CPU time that the worker has had since it was first seen still, or since such a call.
    fn cpu_time_since(&self, processor: &Processor) -> Option<Duration> {
        Some(processor.probe().cpu_time()?.saturating_sub(self.cpu_time?))
    }
}

/// What samples of the permanent workers have shown.
#[derive(Debug, Default)]
pub struct Counts {
    still: usize,
    long: usize,
    pub computing: usize,
}

impl Counts {
    /// A worker has not moved (`is_still`), was not waiting for the CPU either (`is_long`), and had it
    /// (`computes`).
    pub fn count(&mut self, is_still: bool, is_long: bool, computes: bool) {
        self.still += usize::from(is_still);
        self.long += usize::from(is_long);
        self.computing += usize::from(computes);
    }

    /// Whether none of `workers` workers is left for anything else. If there are more workers than CPUs, some
    /// of them wait for the CPU of those that are in long polls.
    pub fn are_all_busy(&self, workers: usize, cpus: usize) -> bool {
        self.still == workers && self.long >= workers.min(cpus)
    }
}

pub fn moves_of(processor: &Processor) -> u64 {
    let metrics = &processor.metrics;
    metrics.polls.get().wrapping_add(metrics.sleep_changes.get()).wrapping_add(metrics.looks.get())
}

/// Whether the worker is asleep, or woken and without a CPU yet.
pub fn is_asleep(processor: &Processor) -> bool {
    processor.metrics.sleep_changes.get() % 2 == 1
}

#[cfg(all(test, not(loom)))]
mod tests;
