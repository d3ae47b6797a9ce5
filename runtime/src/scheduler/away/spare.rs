//! Spare workers: when one comes, how it rests, and when its thread ends; see `away/mod.rs`.

use std::time::{Duration, Instant};

use super::Role;
use super::table::{Call, Table};
use crate::scheduler::WorkerStart;
use crate::scheduler::idle::Work;
use crate::scheduler::shared::Shared;
use crate::scheduler::worker::Worker;

/// A spare worker that counts as active. The caller has yet to [wake or start](Shared::bring) it, without the
/// lock.
#[must_use]
pub(super) enum Called {
    /// The spare worker was resting.
    Resting(usize),
    Fresh(WorkerStart),
}

/// Where spare workers come from.
impl Shared {
    /// `Admit`: work waits, and no worker is idle. Wakes or starts a spare worker if one is needed.
    /// Returns whether a spare worker comes.
    #[cold]
    pub fn admit(&self) -> bool {
        if self.max_spares == 0 {
            return false;
        }
        let called = self.away.change(|table| self.call_if_lacking(table, self.waiting()));
        self.bring(called)
    }

    /// Whether fewer spare workers take work than are needed, while `waiting` workers wait for latches.
    pub fn lacks_spare_for_now(&self, waiting: usize) -> bool {
        self.away.read(|table| table.lacks_spare_for_now(waiting))
    }

    /// Whether spare worker `index` was called, and takes no work yet.
    pub fn is_spare_starting(&self, index: usize) -> bool {
        self.away.read(|table| table.is_starting(index))
    }

    /// Spare worker `index` is about to take work.
    pub fn spare_has_started(&self, index: usize) {
        self.away.change(|table| table.has_started(index));
    }

    /// Calls a spare worker if one is needed, while `waiting` workers wait for latches.
    pub(super) fn call_if_lacking(&self, table: &mut Table, waiting: usize) -> Option<Called> {
        if self.max_spares > 0 && table.lacks_spare(waiting) { self.call(table, None) } else { None }
    }

    /// Takes a resting spare worker, or starts to make a new one. None if the limit is reached, or if all
    /// workers leave.
    ///
    /// Spare worker `i` belongs to worker `i % workers`: if threads are kept on CPUs, both have the same CPU.
    /// So this prefers a spare worker that belongs to `near`. Without `near`, it prefers one that belongs to
    /// a worker that waits for a latch.
    fn call(&self, table: &mut Table, near: Option<usize>) -> Option<Called> {
        let call = table.call(|spare| match near {
            Some(worker) => self.worker_of_spare(spare) == worker,
            None => self.idle.is_waiter(self.worker_of_spare(spare)),
        })?;
        Some(self.prepare(table, call))
    }

    fn prepare(&self, table: &Table, call: Call) -> Called {
        let index = match call {
            Call::Resting(index) => return Called::Resting(index),
            Call::Fresh(index) => index,
        };
        let shared = self.ptr();
        self.idle.cover(index);
        // SAFETY: (1) `make` shows the job processor to other threads only after this. (2) The shared state
        // owns it.
        self.processors.make(index, |job_processor| unsafe { job_processor.bind(shared) });
        self.processors.set_spare(table.spare_bound());
        // SAFETY: (1) workers leave only once the table is closed. `Table::call` found it open, and the
        // caller holds its lock. (2) `Table::call` found the index free, and has marked it as used. Only
        // `Table::end_rest` frees it, when the worker leaves its loop and has done all that it does with the
        // processor, or `Table::refused`.
        Called::Fresh(unsafe { WorkerStart::new(shared, index) })
    }

    /// Wakes or starts the spare worker that was called, if one was. Returns whether it comes. If the system
    /// refuses the thread, the next push tries again.
    pub(super) fn bring(&self, called: Option<Called>) -> bool {
        let start = match called {
            None => return false,
            // The spare worker may be up already, if its rest was just over. Then it finds a token at its
            // next sleep.
            Some(Called::Resting(index)) => {
                self.unpark_picked(Some(index));
                return true;
            }
            Some(Called::Fresh(start)) => start,
        };
        let index = start.index();
        if !self.config.thread_name.is_made() {
            return self.start_spare(start);
        }
        // The function that makes the name is foreign code, and this thread may be the monitor, or in a
        // dispatch.
        let is_started = self.run_apart(move |shared| _ = shared.start_spare(start)).is_ok();
        if !is_started {
            self.spare_is_refused(index);
        }
        is_started
    }

    /// Starts the thread of a spare worker. If the system refuses the thread, this returns false, and `start`
    /// is dropped, which may be the last worker to leave.
    fn start_spare(&self, start: WorkerStart) -> bool {
        let index = start.index();
        let is_started = self.config.start_thread(move || start.run()).is_ok();
        if !is_started {
            self.spare_is_refused(index);
        }
        is_started
    }

    fn spare_is_refused(&self, index: usize) {
        self.away.change(|table| table.refused(index));
        if self.lifecycle.has_begun() {
            // All others may be blocked, and wait for tasks.
            self.as_job(|| self.queue_lent());
            // The others may all have arrived, and wait for this worker. One of them has to look again.
            self.unpark_all();
        }
    }

    /// Starts a spare worker that rests at once, unless there are `least` already. Computations will yield to
    /// it.
    pub fn keep_in_reserve(&self, least: usize) {
        let called = self.away.change(|table| {
            let call = if table.present() < least { table.call_fresh() } else { None };
            call.map(|call| self.prepare(table, call))
        });
        self.bring(called);
    }

    /// Stores what the monitor found: how many workers are stalled or have a helper, and how many
    /// spare workers are to serve.
    pub fn set_away(&self, stalled: usize, serving: usize) {
        if self.away.read(|table| (table.stalled, table.serving)) == (stalled, serving) {
            return;
        }
        // Only the monitor writes these numbers.
        self.away.change(|table| {
            let begins = table.serving == 0 && serving > 0;
            (table.stalled, table.serving) = (stalled, serving);
            self.driver.time().inspect(|time| time.serve_all(serving > 0));
            if begins {
                // The thread in the driver looks at all wheels again.
                self.driver.unpark();
            }
        });
    }

    /// Wakes a spare worker that takes slow tasks and injected jobs in any case, if one sleeps.
    pub fn wake_full_spare(&self) {
        let sleeper = self.away.read(|table| {
            let full = table.active().iter().take(table.full(self.waiting()));
            full.copied().find(|&index| self.idle.is_sleeper(index))
        });
        self.unpark_picked(sleeper);
    }

    /// The serving spare worker that can probe a slow task. It sleeps, and another serving one that sleeps is
    /// left for the driver.
    pub fn sleeping_prober(&self) -> Option<usize> {
        let poller = self.driver.poller();
        self.away.read(|table| {
            let serving = table.active().iter().copied().skip(table.full(self.waiting()));
            let asleep = serving.filter(|&index| self.idle.is_sleeper(index));
            let mut others = asleep.clone().filter(|&index| Some(index) != poller);
            if asleep.count() >= 2 { others.next() } else { None }
        })
    }

    /// If more spare workers are active than are needed, and one of them sleeps, wakes it so that it rests.
    pub fn dismiss_surplus(&self) {
        if self.lifecycle.has_begun() {
            return;
        }
        let surplus = self.away.read(|table| {
            let is_surplus = table.has_surplus(self.waiting());
            table.active().iter().rev().copied().find(|&index| is_surplus && self.idle.is_sleeper(index))
        });
        self.unpark_picked(surplus);
    }

    /// The role of spare worker `index`, which is active. At the shutdown none rests, and each has a part.
    pub fn role(&self, index: usize) -> Role {
        match self.away.role(index, || (self.waiting(), self.idle.waiters(0..self.first_spare))) {
            Role::Surplus if self.lifecycle.has_begun() => Role::Serves,
            role => role,
        }
    }

    /// Lists spare worker `index` as resting: from now on it is no worker, until it is called. The worker has
    /// nothing to do and holds no work. Returns false if it is needed.
    fn begin_rest(&self, index: usize) -> bool {
        self.away.change(|table| {
            let rests = table.has_surplus(self.waiting()) && !self.lifecycle.has_begun();
            if rests {
                table.begin_rest(index);
            }
            rests
        })
    }
}

/// The rest of a spare worker.
impl Worker {
    /// Whether this is a spare worker that is not needed. If so, it is listed as resting, and the caller
    /// calls [`rest`](Self::rest).
    pub fn rests(&self) -> bool {
        let shared = self.shared();
        debug_assert!(!self.has_foreign(), "a thread rests with foreign code left to call");
        if self.is_permanent() || self.holds_work() || !shared.begin_rest(self.index()) {
            return false;
        }
        self.end_slices();
        self.processor().polling.clear();
        shared.void_marks_of(self.index());
        self.stop_searching_if_so();
        // `RestLook`: behind the lock. Everything that relies on this thread is given to other workers. This
        // includes the driver, even if nothing waits there yet: the workers that sleep may all have gone to
        // sleep while this thread was the poller, and later timers and sockets unpark the poller alone.
        shared.idle.fence_push();
        if shared.has_visible_tasks() || shared.has_no_poller() {
            shared.fetch(Work::Task);
        }
        if shared.has_jobs_for(None, Role::Full) {
            shared.fetch(Work::Job);
        }
        true
    }

    /// Rests. Returns true when the worker is called, and false when its thread is to end. Then another
    /// thread may have its index and its processor.
    pub fn rest(&self) -> bool {
        let shared = self.shared();
        let give_up = Instant::now().checked_add(shared.config.thread_keep_alive);
        loop {
            let timeout = give_up.map(|give_up| give_up.saturating_duration_since(Instant::now()));
            let metrics = &self.processor().metrics;
            self.end_busy();
            metrics.parks.add(1);
            metrics.sleep_changes.add(1);
            let mut report = None;
            self.processor().parker.park_if(timeout, || {
                report = shared.find_deadlock();
                report.is_none()
            });
            metrics.sleep_changes.add(1);
            self.begin_busy(Instant::now());
            shared.monitor.worker_woke(&shared.driver);
            if report.is_some() {
                // The handler is foreign code, and no thread may call foreign code while it rests. So this
                // thread is a worker again.
                shared.away.change(|table| table.end_rest(self.index(), true));
                self.keep_report(report);
                self.call_foreign();
                return true;
            }
            let is_over =
                shared.lifecycle.has_begun() || give_up.is_some_and(|give_up| Instant::now() >= give_up);
            if !shared.away.read(|table| table.is_resting(self.index())) {
                return true;
            }
            if is_over && self.gives_up_index() {
                return false;
            }
        }
    }

    /// Ends the rest of this spare worker for good, unless it was called meanwhile. Returns whether it did.
    /// If so, another thread may have the index as soon as the table's lock is released, so the counters are
    /// ended before that, and the region of a guard that a task has left on this thread is left.
    fn gives_up_index(&self) -> bool {
        let shared = self.shared();
        shared.away.change(|table| {
            let has_ended = table.end_rest(self.index(), false);
            if has_ended {
                self.leave_regions();
                self.end_counters();
                shared.processors.set_spare(table.spare_bound());
            }
            has_ended
        })
    }
}

/// The longest timeout of a sleep. The system's calls accept it.
pub const LONGEST_SLEEP: Duration = Duration::from_secs(1 << 20);

/// Which spare worker takes the tasks that a computation yields to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum YieldsTo {
    /// It rested, and was called.
    Called,
    /// A spare worker that is active beyond the workers that are blocked, stalled or waiting. It may compute
    /// itself.
    Active,
}

/// Computations that yield to tasks: see `split.rs`.
impl Shared {
    /// How many polls spare workers have begun: a hint.
    pub fn polls_of_spares(&self) -> u64 {
        let spares = self.processors.indices().filter(|&index| index >= self.first_spare);
        spares.map(|index| self.processor(index).metrics.polls.get()).fold(0, u64::wrapping_add)
    }

    /// `Yield`, `CallSpare`: worker `index` yields. Returns none if there is no spare worker to take the
    /// tasks, if the shutdown has begun, or if the worker yields already.
    pub fn begin_yield(&self, index: usize) -> Option<YieldsTo> {
        let called = self.away.change(|table| {
            if self.lifecycle.has_begun() || table.yielding.contains(&index) {
                return None;
            }
            let called = match table.is_any_resting() {
                true => self.call(table, Some(index)),
                false if table.active().len() > table.full(self.waiting()) => None,
                false => return None,
            };
            table.yielding.push(index);
            Some(called)
        })?;
        if called.is_some() {
            self.bring(called);
            return Some(YieldsTo::Called);
        }
        // The active spare worker may be asleep, or about to sleep.
        self.fetch_strictly(Work::Task);
        Some(YieldsTo::Active)
    }

    /// `YieldOver`: worker `index` goes on. Returns whether its tasks were done before.
    pub fn end_yield(&self, index: usize) -> bool {
        self.away.change(|table| {
            let place = table.yielding.iter().position(|&yielding| yielding == index);
            place.inspect(|&place| _ = table.yielding.swap_remove(place)).is_none()
        })
    }

    /// `TasksDone`, `WakeYielding`: a spare worker found no more tasks, so all workers that yield go on.
    pub fn end_all_yields(&self) {
        for index in self.away.change(|table| std::mem::take(&mut table.yielding)) {
            self.processor(index).yield_parker.unpark(&self.driver);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
