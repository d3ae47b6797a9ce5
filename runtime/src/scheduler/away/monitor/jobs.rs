//! Whether spare workers that serve leave injected jobs to the others; see *Long polls* in `monitor/mod.rs`.

use std::time::{Duration, Instant};

use crate::scheduler::shared::Shared;

/// How long injected jobs wait while as many spare workers compute as there are workers. Then one spare
/// worker more takes a job. The wait doubles with each, up to [`LONGEST_WAIT`].
pub const JOB_WAITS: Duration = Duration::from_millis(100);
/// The longest such wait.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// What the monitor remembers of injected jobs from one look to the next.
pub struct WatchedJobs {
    /// How many workers had taken at the last look.
    taken: u64,
    /// Since when they have taken none, while some wait and serving workers leave these to the others.
    since: Instant,
    /// How many spare workers may compute beside as many as there are workers.
    more: usize,
    /// How often one more was allowed.
    steps: u32,
}

impl WatchedJobs {
    pub fn new(now: Instant) -> Self {
        Self { taken: 0, since: now, more: 0, steps: 0 }
    }

    /// Decides whether serving workers leave injected jobs to the others. `computing` counts the spare
    /// workers that compute, and is none if no injected job waits.
    pub fn see_to(&mut self, state: &Shared, now: Instant, computing: Option<usize>) {
        let Some(computing) = computing else {
            (self.since, self.more, self.steps) = (now, 0, 0);
            return state.monitor.set_leaves_jobs(false);
        };
        let beyond = computing.checked_sub(state.config.workers);
        let taken = state.processors.iter().map(|processor| processor.metrics.injected_jobs.get());
        let taken = taken.fold(0, u64::wrapping_add);
        let leaves = |more| beyond.is_some_and(|beyond| beyond >= more);
        if !leaves(self.more) || taken != self.taken {
            (self.taken, self.since) = (taken, now);
        }
        // Jobs may spin until others have run, and the next one may be short.
        let limit = LONGEST_WAIT.min(JOB_WAITS.saturating_mul(1 << self.steps.min(16)));
        if now.duration_since(self.since) >= limit {
            self.since = now;
            self.steps += 1;
            // One more than compute now: they may be more than were allowed, because of an earlier load.
            self.more = beyond.unwrap_or(0) + 1;
        }
        state.monitor.set_leaves_jobs(leaves(self.more));
    }
}
