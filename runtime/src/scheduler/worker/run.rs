//! The loop.

use super::identity::Worker;
use crate::task::Runnable;

/// The loop, and its end.
impl Worker {
    /// The loop of a worker thread. It ends when the shutdown has begun and all workers leave, or when the
    /// keep-alive time of a spare worker is over. In the latter case this returns false: another thread may
    /// have the worker's index and its processor.
    pub fn run(&self) -> bool {
        while !self.shared().lifecycle.has_begun() {
            self.maintain_at_times();
            if let Some(task) = self.next_task() {
                self.run_task(task);
            } else if self.run_next_job() {
            } else if let Some(task) = self.search() {
                self.run_task(task);
            } else if self.calls_left_wakers()
                || self.run_stolen_job()
                || self.looks_again()
                || self.lingers()
                || self.ends_yields()
            {
            } else if self.rests() {
                if !self.rest() {
                    return false;
                }
            } else {
                self.park();
            }
        }
        self.wind_down();
        true
    }

    /// `WindDown` of a `current_thread` runtime: cancels every task in this worker's queues and
    /// tables, and the tasks that a cancellation wakes.
    pub fn drain(&self) {
        self.processor().polling.clear();
        // In the injector, a `block_on` in a destructor finds the tasks that are left.
        self.queue_idle();
        while let Some(task) = self.own_queues().pop().or_else(|| self.shared().injector.pop_task()) {
            self.cancel_task(task);
        }
        self.lend_table();
    }

    /// Cancels what is left in this worker's own queues, and lends its table for good.
    pub fn leave_queues(&self) {
        while let Some(task) = self.own_queues().pop() {
            self.cancel_task(task);
        }
        self.lend_table();
    }

    /// Cancels a task that is not polled any more, because the shutdown has begun.
    pub fn cancel_task(&self, task: Runnable) {
        self.stop_searching_if_so();
        let _outer = self.processor().polling.begin_cancel(&task);
        task.cancel();
    }
}
