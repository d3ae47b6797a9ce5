//! How blocked workers are counted, and spare workers called for them; see `away/mod.rs`.

use super::spare::Called;
use super::table::Table;
use crate::loom::sync::atomic::Ordering::Release;
use crate::scheduler::shared::Shared;

/// How blocked workers are counted.
impl Shared {
    /// `CountBlocked`: if worker `index` is in a blocking call and was not counted, counts it and lends its
    /// table. Calls a spare worker if one is needed. Returns whether this counted the worker.
    pub fn count_blocked(&self, index: usize) -> bool {
        let has_table = index < self.config.workers && !self.config.is_pool;
        let counted = self.away.change(|table| {
            if !self.processor(index).blocked_state.count() {
                return None;
            }
            if has_table {
                // SAFETY: (1) the worker said `SayBlocked`, and touches its table only after `SayBack`, which
                // waits for the lock under which this is called. If it was marked before, the table is lent
                // already.
                unsafe { self.owned.lend(index) };
                // Release: pairs with `Away::lent`. The thread that reads this number sees the table lent.
                self.away.lent.fetch_add(1, Release);
            }
            Some(self.add_blocked(table))
        });
        let is_counted = counted.is_some();
        self.bring(counted.flatten());
        is_counted
    }

    /// Counts a worker that was marked as blocked, and calls a spare worker if one is needed.
    pub fn marked_blocked(&self) {
        let called = self.away.change(|table| self.add_blocked(table));
        self.bring(called);
    }

    fn add_blocked(&self, table: &mut Table) -> Option<Called> {
        table.blocked += 1;
        // 0: a spare worker for a worker that waits for a latch comes when work does (`admit`).
        self.call_if_lacking(table, 0)
    }

    /// Takes a worker that blocks no more out of the count.
    pub fn one_less_blocked(&self) {
        self.away.change(|table| table.blocked -= 1);
    }

    /// `CountBlocked` for each worker that is blocked, once the shutdown has begun. A worker that blocks
    /// later counts itself.
    pub fn count_all_blocked(&self) {
        for index in self.processors.indices() {
            // If this misses a worker's `SayBlocked`, that worker sees that the shutdown has begun.
            if self.processor(index).blocked_state.is_uncounted() {
                self.count_blocked(index);
            }
        }
    }

    /// A worker with work is in a call that may be short. If no worker is idle and a spare worker rests, this
    /// counts the worker, so that the spare worker is called.
    #[cold]
    pub(super) fn count_blocked_if_one_rests(&self, index: usize) {
        let is_any_idle = self.idle.has_sleepers() || self.idle.is_any_searching();
        if !is_any_idle && self.away.read(Table::is_any_resting) {
            self.count_blocked(index);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
