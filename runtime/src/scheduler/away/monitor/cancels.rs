//! Threads that cancel queued tasks during the shutdown, in the place of workers that are away; see
//! `lifecycle.rs`.

use crate::scheduler::shared::Shared;

/// What the monitor remembers of such threads.
#[derive(Debug, Default)]
pub struct WatchedCancellers {
    started: u64,
    /// How many tasks they had taken at the last look.
    taken: u64,
    /// How many looks found that no thread goes on.
    still: u64,
}

impl WatchedCancellers {
    /// Looks once. If tasks are to be cancelled, a worker is lacking for them, and no thread goes on, has a
    /// thread cancel them. `is_any_going_on`: a worker does. If the thread is stuck in a destructor, the next
    /// one comes: each a look later than the one before, because all may wait for the same lock.
    pub fn see_to(&mut self, state: &Shared, is_any_going_on: bool) {
        let is_any_queued = || !state.injector.is_empty() || !state.slow.is_empty();
        if !state.lifecycle.has_begun() || !is_any_queued() || !state.lacks_spare(state.waiting()) {
            return;
        }
        let [begun, taken, ended] = state.monitor.cancellers.counts();
        if is_any_going_on || self.started != begun || self.taken != taken {
            self.still = 0;
        } else {
            self.still += 1;
        }
        self.taken = taken;
        let live = self.started - ended;
        // If the system refuses the thread, the next look tries again.
        if self.still > live && matches!(state.cancel_apart(), Ok(true)) {
            self.started += 1;
        }
    }
}
