//! Whether the worker is in its loop, away or blocked, and what it leaves to others before it goes.

use super::identity::{BLOCKED, COMPUTING, MARKED, Worker};
use crate::driver::time::Deadline;
use crate::loom::sync::atomic::Ordering::Acquire;
use crate::scheduler::idle::Work;
use crate::scheduler::owner::OwnJobs;
use crate::scheduler::wait;

/// Whether the worker is in its loop, away or blocked.
impl Worker {
    /// Whether this thread comes back to its queues soon.
    #[inline]
    pub fn takes_tasks(&self) -> bool {
        self.is_here() || self.is_unmarked()
    }

    /// As [`takes_tasks`](Self::takes_tasks), where no other thread can have unmarked this one.
    #[inline]
    pub fn is_here(&self) -> bool {
        self.away.get() == 0
    }

    /// Whether marks were the only reason why this thread was away, and the thread that unblocked it has
    /// taken them back.
    #[cold]
    fn is_unmarked(&self) -> bool {
        // Acquire: pairs with the release of the thread that took the last mark back.
        if self.away.get() != MARKED || self.processor().marks.load(Acquire) > 0 {
            return false;
        }
        self.away.set(0);
        self.take_table_back();
        self.queue_if_ending();
        true
    }

    /// Whether this thread is marked as blocked, and no thread has unmarked it. If so, its table stays lent.
    pub(super) fn is_marked(&self) -> bool {
        // Acquire: as in `is_unmarked`.
        self.away.get() & MARKED != 0 && self.processor().marks.load(Acquire) > 0
    }

    #[inline]
    pub fn is_blocked(&self) -> bool {
        self.away.get() & BLOCKED != 0
    }

    /// `AwakeFence` and `AwakeWakes` of `away/monitor/mod.rs`, if this worker blocks or is marked: it leaves
    /// the driver, or has put foreign wakers there, and the monitor may rest beside it. Returns whether it
    /// does.
    pub(super) fn tells_monitor(&self) -> bool {
        let is_away = self.is_blocked() || self.is_marked();
        if is_away {
            self.shared().monitor.worker_woke(&self.shared().driver);
        }
        is_away
    }

    /// `SayBlocked` of `away/mod.rs`. Returns whether the worker had its table. No thread may use that table
    /// until the worker is counted as blocked or is back.
    pub fn begin_blocking(&self) -> bool {
        self.away.set(self.away.get() | BLOCKED);
        self.drop_measurement();
        let has_table = self.table.take().is_some();
        self.processor().blocked_state.say_blocked();
        has_table
    }

    /// `SayBack`. `had_table` is the result of [`begin_blocking`](Self::begin_blocking). Returns whether the
    /// worker was counted as blocked.
    pub fn end_blocking(&self, had_table: bool) -> bool {
        let is_counted = self.processor().blocked_state.say_back();
        let shared = self.shared();
        shared.monitor.worker_returned(&shared.driver);
        if is_counted {
            // The lock orders the thread that has counted this worker before what follows.
            shared.one_less_blocked();
        }
        if had_table && !is_counted {
            self.table.set(Some(self.index));
        } else if !self.is_marked() {
            self.take_table_back();
        }
        self.queue_if_ending();
        self.away.set(self.away.get() & !BLOCKED);
        is_counted
    }

    /// The thread is marked as blocked: it counts as away, and its table is lent. This lasts until the thread
    /// finds that it was unmarked. Unlike [`begin_blocking`](Self::begin_blocking), this is not `SayBlocked`.
    pub fn begin_marked(&self) {
        self.away.set(self.away.get() | MARKED);
        self.lend_table();
    }

    /// Runs `f`, which runs jobs and does not unwind. Meanwhile this thread counts as away from its queues.
    pub fn computing<R>(&self, f: impl FnOnce() -> R) -> R {
        let before = self.away.replace(self.away.get() | COMPUTING);
        let result = f();
        self.away.set(before);
        result
    }

    /// Lends this worker's table of `owned.rs`. Other workers see to the table while this thread sleeps or
    /// blocks, and after it has left.
    pub(in crate::scheduler) fn lend_table(&self) {
        if let Some(table) = self.table.take() {
            // SAFETY: (1) this thread is the table's worker, and uses the table only while `self.table` has
            // its index.
            unsafe { self.shared().owned.lend(table) };
        }
    }

    /// Queues the tasks that wait for a wake, in all tables that this thread may use: its own, the lent ones
    /// and the shared ones. The shutdown has begun, so they are cancelled when they leave the queue. Marks
    /// the other tasks there, so that the owner of their `SCHEDULED` cancels them.
    ///
    /// Any worker may take them, because the destructor of one may wait for the end of another.
    pub(in crate::scheduler) fn queue_idle(&self) {
        // SAFETY: (1) this thread is the worker of its table, and `table` is `None` while the table is lent.
        let (idle, _) = unsafe { self.shared().owned.claim_idle(self.table()) };
        self.shared().queue_to_cancel(idle);
    }

    /// The worker was away, and is about to run foreign code, which may block without a word. If the shutdown
    /// has begun meanwhile, queues what waits in the worker's table: the others may not have looked while it
    /// was lent. The worker has not left, so at the latest `FinishTasks` cancels them.
    pub(in crate::scheduler) fn queue_if_ending(&self) {
        if self.table().is_some() && self.shared().lifecycle.has_begun() {
            self.queue_idle();
        }
    }

    pub(in crate::scheduler) fn take_table_back(&self) {
        if self.is_permanent() && !self.shared().config.is_pool {
            self.shared().owned.take_back(self.index);
            self.table.set(Some(self.index));
        }
    }

    /// Whether work waits that this thread should give to others before it blocks.
    pub fn holds_work(&self) -> bool {
        self.has_own_tasks()
            || !self.shared().injector.is_empty()
            || self.job_processor().is_some_and(OwnJobs::has_pending_jobs)
    }

    pub(in crate::scheduler) fn has_own_tasks(&self) -> bool {
        let processor = self.processor();
        !processor.ring.is_empty() || processor.lifo.is_occupied()
    }

    /// `Leave` of `away/mod.rs`, before this thread blocks. Other workers then see to its tasks, its jobs,
    /// its timers, and the driver.
    ///
    /// The tasks go to the injector, from where other workers take them in batches.
    #[inline(never)]
    pub fn expose(&self) {
        let shared = self.shared();
        self.move_tasks_to_injector();
        self.leave_timers();
        if let Some(job_processor) = self.job_processor() {
            job_processor.expose_child_jobs();
        }
        // Also with an empty ring: if this thread was the last to be the poller, another worker has to become
        // the poller now.
        shared.fetch_strictly(Work::Task);
        shared.samplers.wake(shared);
    }

    /// This worker begins a job. It will not come back to its tasks and to the driver soon.
    pub fn begin_job(&self) {
        self.stop_searching_if_so();
        self.rounds_left.set(wait::ROUNDS);
        let driver = &self.shared().driver;
        let has_tasks = self.has_own_tasks() || !self.shared().injector.is_empty();
        if has_tasks || driver.io().is_some() && driver.poller().is_none() {
            self.expose();
        } else {
            self.leave_timers();
        }
    }

    /// Tells the poller of this worker's timers, because the poller may have relied on this worker for them.
    fn leave_timers(&self) {
        let driver = &self.shared().driver;
        let Some(time) = driver.time() else { return };
        let deadline = time.deadline_of(self.shared().wheel(self.index));
        if deadline != Deadline::MAX {
            driver.timer_registered(deadline);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
