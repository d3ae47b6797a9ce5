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
        let mut has_looked = false;
        loop {
            match self.own_queues().pop() {
                Some(task) => self.cancel_task(task),
                None if has_looked => break,
                None => {
                    has_looked = true;
                    self.cancel_idle();
                }
            }
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
