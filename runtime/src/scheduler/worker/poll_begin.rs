//! The beginning of a poll that a worker measures.

use std::time::{Duration, Instant};

use crate::scheduler::processor::Processor;

#[derive(Debug, Clone, Copy)]
pub struct PollBegin {
    at: Instant,
    /// The thread's CPU time.
    cpu_time: Option<Duration>,
    /// The poll is the next one after this tick.
    tick: u64,
}

impl PollBegin {
    /// The owner of `processor` is about to poll a task.
    pub fn now(processor: &Processor) -> Self {
        Self { at: Instant::now(), cpu_time: processor.probe().cpu_time(), tick: processor.tick() }
    }

    /// How long the poll has taken, and how much CPU time it had. None if there was not just one poll.
    pub fn end(self, processor: &Processor, now: Instant) -> Option<(Duration, Duration)> {
        if processor.tick() != self.tick + 1 {
            return None;
        }
        let taken = now.saturating_duration_since(self.at);
        let had = processor.probe().cpu_time().zip(self.cpu_time);
        let computed = had.map_or(taken, |(now, before)| now.saturating_sub(before).min(taken));
        Some((taken, computed))
    }
}
