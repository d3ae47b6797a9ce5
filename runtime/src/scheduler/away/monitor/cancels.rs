//! What the monitor does during the shutdown in the place of workers that are away: it queues the tasks of
//! their tables, and starts threads that cancel queued tasks. See `lifecycle.rs`.

use crate::scheduler::shared::Shared;

/// What the monitor remembers of the lent tables and of these threads.
#[derive(Debug, Default)]
pub struct WatchedCancellers {
    /// `Shared::away.lent()` when it last queued the tasks of lent tables.
    seen_lent: Option<usize>,
    started: u64,
    /// How many tasks they had taken at the last look.
    taken: u64,
    /// How many looks found that no thread goes on.
    still: u64,
}

impl WatchedCancellers {
    /// Looks once. If a worker is lacking, queues the tasks of the lent tables. If then no thread goes on,
    /// has a thread cancel what is queued. `is_any_going_on`: a worker does. If the thread is stuck in a
    /// destructor, the next one comes: each a look later than the one before, because all may wait for the
    /// same lock.
    pub fn see_to(&mut self, state: &Shared, is_any_going_on: bool) {
        if !state.lifecycle.has_begun() || !state.lacks_spare_for_now(state.waiting()) {
            return;
        }
        // When the shutdown began, a spare worker may have been there, and may have got stuck since. Then no
        // worker has looked into the tables that were lent before.
        let lent = state.away.lent();
        if self.seen_lent.replace(lent) != Some(lent) {
            state.as_job(|| state.queue_lent());
        }
        if state.injector.is_empty() && state.slow.is_empty() {
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

#[cfg(all(test, not(loom)))]
mod tests;
