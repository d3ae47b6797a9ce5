//! Calls that block in the middle of a poll or a job: what a worker does before and after them; see
//! `away/mod.rs`.

use std::panic::Location;

use super::spare::Called;
use super::table::Table;
use crate::coop;
use crate::scheduler::call_sites::CallSite;
use crate::scheduler::context;
use crate::scheduler::shared::Shared;
use crate::scheduler::worker::Worker;

/// Runs `f`, which may block, while other threads do this worker's part. Nearly free if `f` is short and no
/// work waits. Counts the call for the call site `site`.
pub fn block_in_place<R>(worker: &Worker, site: &'static Location<'static>, f: impl FnOnce() -> R) -> R {
    block(worker, Some(site), f)
}

/// As [`block_in_place`], but `f` surely sleeps, so other workers are called at once.
pub fn sleep_in_place<R>(worker: &Worker, f: impl FnOnce() -> R) -> R {
    block(worker, None, f)
}

/// `site`: the user's call site. None: `f` surely sleeps.
fn block<R>(worker: &Worker, site: Option<&'static Location<'static>>, f: impl FnOnce() -> R) -> R {
    let (shared, is_sleep) = (worker.shared(), site.is_none());
    if worker.job_processor().is_none() {
        // The thread may still hold a job processor of another runtime, and work for this runtime on top of
        // that job processor's stack.
        context::expose_child_jobs();
    }
    if shared.is_current_thread() {
        // There are no other workers.
        return coop::suspended(f);
    }
    struct Return<'a> {
        worker: &'a Worker,
        had_table: bool,
        site: Option<&'a CallSite>,
    }
    impl Drop for Return<'_> {
        fn drop(&mut self) {
            if self.worker.end_blocking(self.had_table) {
                self.site.inspect(|site| site.compensated.add(1));
            }
        }
    }
    // In a nested call the thread is away already, and may have got new child jobs and tasks since.
    let _return = (!worker.is_blocked()).then(|| {
        let site = site.map(|site| worker.processor().call_sites.of(site));
        site.inspect(|site| site.calls.add(1));
        Return { worker, had_table: worker.begin_blocking(), site }
    });
    // `SeeShutdown`, behind `SayBlocked`.
    if is_sleep || shared.lifecycle.has_begun() {
        shared.count_blocked(worker.index());
        leave(worker);
    } else if worker.holds_work() {
        worker.expose();
        shared.count_blocked_if_one_rests(worker.index());
    }
    coop::suspended(f)
}

/// Makes other workers see to this worker's work while it is marked as blocked. `is_first`: it was not marked
/// before, and counts as blocked from now on.
pub fn mark(worker: &Worker, is_first: bool) {
    if is_first {
        worker.shared().marked_blocked();
    }
    leave(worker);
}

fn leave(worker: &Worker) {
    worker.expose();
    if worker.shared().lifecycle.has_begun() {
        cancel_lent(worker.shared());
    }
}

/// Workers that wind down may have looked before the table was lent. Or there may be no other worker.
fn cancel_lent(shared: &Shared) {
    // SAFETY: (1) the caller keeps its runtime; no table is claimed as the caller's own.
    unsafe {
        context::in_surroundings(shared.current_on_threads(), || _ = shared.owned.cancel_idle(None));
    }
}

/// How blocked workers are counted.
impl Shared {
    /// `CountBlocked`: if worker `index` is in a blocking call and was not counted, counts it and lends its
    /// table. Calls a spare worker if one is needed. Returns whether this counted the worker.
    pub fn count_blocked(&self, index: usize) -> bool {
        let lend = || {
            let has_table = index < self.config.workers && !self.config.is_pool;
            if has_table {
                // SAFETY: the table's worker does not touch it between `SayBlocked` and `SayBack`, and
                // `SayBack` waits for the lock under which this is called.
                unsafe { self.owned.lend(index) };
            }
            has_table
        };
        let blocked_state = &self.processor(index).blocked_state;
        let counted = self.away.count_blocked(blocked_state, lend, |table| self.add_blocked(table));
        let is_counted = counted.is_some();
        self.bring(counted.flatten());
        is_counted
    }

    /// A worker is marked as blocked.
    pub fn marked_blocked(&self) {
        let called = self.away.change(|table| self.add_blocked(table));
        self.bring(called);
    }

    fn add_blocked(&self, table: &mut Table) -> Option<Called> {
        table.blocked += 1;
        self.call_if_lacking(table, 0)
    }

    /// A worker blocks no more.
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

    /// A worker with work is in a call that may be short. This calls a spare worker if one rests, but starts
    /// none.
    #[cold]
    fn count_blocked_if_one_rests(&self, index: usize) {
        let is_anybody_idle = self.idle.has_sleepers() || self.idle.is_anybody_searching();
        if !is_anybody_idle && self.away.read(Table::is_any_resting) {
            self.count_blocked(index);
        }
    }
}
