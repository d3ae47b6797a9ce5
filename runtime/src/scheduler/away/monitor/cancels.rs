//! Threads that cancel queued tasks during the shutdown, in the place of workers that are away; see
//! `lifecycle.rs`.

use crate::scheduler::shared::Shared;

/// How many such threads the monitor has started, and how many tasks they had taken at the last look.
#[derive(Debug, Default)]
pub struct WatchedCancellers {
    started: u64,
    taken: u64,
}

impl WatchedCancellers {
    /// Looks once. If tasks are to be cancelled, and a worker is lacking for them, has a thread cancel them,
    /// unless there is one that is about to begin, or has taken a task since the last look. So if that thread
    /// blocks in a destructor, the next one comes.
    pub fn see_to(&mut self, state: &Shared) {
        let is_any_queued = || !state.injector.is_empty() || !state.slow.is_empty();
        if !state.lifecycle.has_begun() || !is_any_queued() || !state.lacks_worker() {
            return;
        }
        let (begun, taken) = state.monitor.cancellers.counts();
        let is_any_moving = self.started != begun || self.taken != taken;
        self.taken = taken;
        // If the system refuses the thread, the next look tries again.
        if !is_any_moving && state.cancel_apart().is_ok_and(|is_started| is_started) {
            self.started += 1;
        }
    }
}
