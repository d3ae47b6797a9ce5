//! Parking and sleeping.

use std::time::{Duration, Instant};

use super::identity::Worker;
use crate::driver::foreign::ForeignWakes;
use crate::scheduler::away::Role;
use crate::scheduler::away::spare::LONGEST_SLEEP;

/// How long a pool's worker sleeps before it looks for jobs that it may have overlooked, and how long a spare
/// worker sleeps at least before it asks whether it is needed. The sleep is so long that the look costs
/// nothing.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// Sleep.
impl Worker {
    /// Whether a worker that found nothing tries again. If so, it has yielded its CPU to other threads first.
    pub(super) fn looks_again(&self) -> bool {
        let left = self.rounds_left.get();
        if left == 0 {
            return false;
        }
        self.rounds_left.set(left - 1);
        crate::loom::thread::yield_now();
        true
    }

    /// Whether the worker spun for a while, and work came from outside; see `hints/linger.rs`.
    pub(super) fn lingers(&self) -> bool {
        let shared = self.shared();
        let is_relied_upon = self.is_searching.get() || shared.processors.len() == 1;
        self.is_permanent() && is_relied_upon && self.linger.wait(shared, self.index)
    }

    /// Sleeps until there is something to do.
    pub(super) fn park(&self) {
        if self.begins_park() {
            let has_slept = self.sleeps_if_idle();
            self.end_park(has_slept);
        }
    }

    /// Calls the park hook. Returns false if the hook made work for this worker.
    pub(in crate::scheduler) fn begins_park(&self) -> bool {
        if self.is_notified.replace(false) {
            self.processor().metrics.noops.add(1);
        }
        self.end_slices();
        self.processor().polling.clear();
        self.shared().void_marks_of(self.index);
        self.run_park_hook()
    }

    /// CountSleeper to SleepPark of `idle.rs`: sleeps unless there is something to do. Runs no foreign code.
    /// Returns whether it slept as a sleeper.
    pub(in crate::scheduler) fn sleeps_if_idle(&self) -> bool {
        let shared = self.shared();
        let role = self.ask_role();
        if self.samples() {
            return false;
        }
        let would_sample = self.would_sample();
        if role != Role::Full {
            self.leave_rest_to_others();
        }
        let idle = self.idle();
        if idle.is_job_posted() {
            // GetSleepy: the worker is sleepy now, and looks for work once more.
            idle.get_sleepy();
            return false;
        }
        let seen = idle.get_sleepy();
        if !idle.announce_sleep_unless(self.index, self.is_searching.get(), seen) {
            return false;
        }
        self.is_searching.set(false);
        // The role is asked for again, behind SleepFence. A thread that widens the role of a spare worker
        // fetches a worker afterwards.
        let sleeps = !self.has_work(self.ask_role(), would_sample);
        if sleeps {
            shared.samplers.wake_if_alone(shared);
            self.sleep();
            if !idle.end_sleep(self.index) {
                self.is_searching.set(true);
                self.is_notified.set(true);
                self.linger.was_woken(shared, self.slept.get());
            }
        } else {
            idle.cancel_sleep(self.index);
            self.is_searching.set(true);
        }
        // After the end of the sleep, also if the worker did not sleep after all. Before foreign code: if that
        // blocks, only the monitor finds it.
        shared.monitor.worker_woke(&shared.driver);
        sleeps
    }

    /// The worker goes on: calls what is foreign, and the unpark hook.
    pub(in crate::scheduler) fn end_park(&self, has_slept: bool) {
        self.queue_if_ending();
        self.call_foreign();
        if has_slept {
            if !self.is_permanent() {
                self.sort_ring();
            }
            self.share_ring();
            self.hand_driver_on();
        }
        self.run_unpark_hook();
    }

    /// SleepLook of `idle.rs`. `would_sample`: this worker leaves tasks to the one that samples, if there is
    /// one now, behind SleepFence; see *The sampler looks later* in `hints/sampling.rs`.
    fn has_work(&self, role: Role, would_sample: bool) -> bool {
        let shared = self.shared();
        let leaves_tasks = would_sample && shared.samplers.sampler().is_some();
        // For `lifecycle.rs`: the worker has to wind down, or to cancel the tasks of another table.
        let is_ending = || shared.lifecycle.has_begun() && self.seen_lent.get() != Some(shared.away.lent());
        !leaves_tasks && shared.has_tasks_for(role)
            || shared.has_jobs_for(self.job_processor(), role)
            || !self.is_permanent() && shared.away.has_yielding()
            || is_ending()
    }

    /// Calls the user's hook. Returns false if the hook made work for this worker.
    pub fn run_park_hook(&self) -> bool {
        let hooks = &self.shared().config.hooks;
        if hooks.has_park() {
            // Foreign code: no other thread may rely on this one.
            self.stop_searching_if_so();
        }
        hooks.on_park();
        let is_idle = !self.has_own_tasks();
        if !is_idle {
            self.run_unpark_hook();
        }
        is_idle
    }

    pub(in crate::scheduler) fn run_unpark_hook(&self) {
        let hooks = &self.shared().config.hooks;
        if hooks.has_unpark() {
            self.stop_searching_if_so();
        }
        hooks.on_unpark();
    }

    /// Sleeps in the driver if it is free, else on the token; then dispatches. The last worker to go to sleep
    /// looks for a deadlock. Foreign code is kept for [`call_foreign`](Self::call_foreign).
    pub fn sleep(&self) {
        let shared = self.shared();
        let parker = &self.processor().parker;
        let limit = self.longest_sleep();
        let mut report = None;
        let mut may_sleep = || {
            report = shared.find_deadlock();
            report.is_none()
        };
        self.sleeping(|foreign| match shared.driver.try_become_poller(self.index) {
            Some(mut poller) => {
                _ = parker.park_in_driver(|| may_sleep() && poller.sleep(limit, foreign) > 0);
            }
            None => {
                let own = shared.driver.own_timeout(shared.wheel(self.index));
                parker.park_if(own.into_iter().chain(limit).min(), may_sleep);
            }
        });
        self.keep_report(report);
    }

    /// How long the worker sleeps at most.
    fn longest_sleep(&self) -> Option<Duration> {
        match self.is_permanent() {
            true => self.shared().config.is_pool.then(|| self.time_to_look_again()),
            // Then the spare worker asks again whether it is needed. If not, the monitor wakes it before
            // (`dismiss_surplus`). With a keep-alive time of zero and no least sleep, it would spin.
            false => Some(self.shared().config.thread_keep_alive.clamp(LOOK_AGAIN, LONGEST_SLEEP)),
        }
    }

    /// A pool has no monitor, and a worker may overlook a job (`idle.rs`). So the worker looks for jobs once
    /// more after [`LOOK_AGAIN`]. As long as no other thread wakes it, each sleep is twice as long as the one
    /// before, so that an idle pool rests.
    fn time_to_look_again(&self) -> Duration {
        let last = self.look_again.get();
        let has_looked = self.slept.get() >= last;
        let next =
            if has_looked { last.saturating_mul(2).clamp(LOOK_AGAIN, LONGEST_SLEEP) } else { LOOK_AGAIN };
        self.look_again.set(next);
        next
    }

    /// Sleeps on the token for at most `limit`.
    pub(in crate::scheduler) fn sleep_on_token(&self, limit: Duration) {
        let shared = self.shared();
        let own = shared.driver.own_timeout(shared.wheel(self.index));
        let limit = own.map_or(limit, |own| own.min(limit));
        self.sleeping(|_| self.processor().parker.park(Some(limit)));
    }

    /// Sleeps while the clock is paused. When no other work is left, the clock moves to the next timer.
    ///
    /// The first look at `is_needed` finds work that was queued before this worker was announced as a
    /// sleeper. The looks of `auto_advance` and `wait` find the work of threads that inhibited the clock
    /// until then.
    pub fn sleep_with_paused_clock(&self, is_needed: impl Fn() -> bool) {
        let shared = self.shared();
        let processor = self.processor();
        self.sleeping(|foreign| {
            let Some(mut poller) = shared.driver.try_become_poller(self.index) else {
                return processor.parker.park(None);
            };
            poller.poll(foreign);
            shared.driver.fire_timers(foreign);
            let has_wakers = !foreign.is_empty() || self.may_call_next_waker();
            let is_idle = processor.ring.is_empty() && !has_wakers && !is_needed();
            if is_idle && !shared.driver.auto_advance(&is_needed) {
                processor.parker.park_in_driver(|| poller.wait(foreign, &is_needed));
            }
        });
    }

    /// The worker is not busy any more. Returns the present time, and how long the worker was busy.
    pub(in crate::scheduler) fn end_busy(&self) -> (Instant, Duration) {
        let now = Instant::now();
        self.processor().metrics.busy.end(now);
        (now, now.saturating_duration_since(self.awake_since.get()))
    }

    /// The worker is busy since `now`.
    pub(in crate::scheduler) fn begin_busy(&self, now: Instant) {
        self.awake_since.set(now);
        self.processor().metrics.busy.begin(now);
    }

    /// The last that a worker's thread does with the worker's counters.
    pub(in crate::scheduler) fn end_counters(&self) {
        self.end_busy();
        self.processor().metrics.thread_ends();
    }

    /// Counts `sleep` as time asleep, and dispatches the tasks that `sleep` and the timers wake.
    fn sleeping(&self, sleep: impl FnOnce(&ForeignWakes)) {
        let metrics = &self.processor().metrics;
        metrics.parks.add(1);
        let (start, busy) = self.end_busy();
        self.linger.sleeps();
        self.reinforcement.sleeps(self.processor().tick(), busy);
        self.lend_table();
        self.dispatch(|foreign| {
            metrics.sleep_changes.add(1);
            sleep(foreign);
            metrics.sleep_changes.add(1);
            let end = Instant::now();
            self.begin_busy(end);
            self.time_stride(end);
            self.begin_looks_at_yields();
            self.slept.set(end.saturating_duration_since(start));
            self.shared().driver.fire_timers(foreign);
        });
        if !self.tells_monitor() {
            self.take_table_back();
        }
    }

    /// `TasksDone` of `split.rs`. Other workers may have yielded to this spare worker, and it has found no
    /// more tasks. It polls the driver once more. If that brings no tasks either, it lets the yielding
    /// workers go on. Returns whether there are tasks.
    pub(super) fn ends_yields(&self) -> bool {
        if self.is_permanent() || !self.shared().away.has_yielding() {
            return false;
        }
        self.maintain();
        // It may have given them to the injector (`sort_ring`).
        let has_tasks = self.has_own_tasks() || !self.shared().injector.is_empty();
        if !has_tasks {
            self.shared().end_all_yields();
        }
        has_tasks
    }

    /// Samples if it should. Returns whether it did: it has then parked for a short time, and is still a
    /// searcher.
    fn samples(&self) -> bool {
        let shared = self.shared();
        let is_searcher = self.is_permanent() && self.is_searching.get();
        if !is_searcher || !self.sampling.would_sample(shared) || !shared.samplers.begin(self.index()) {
            return false;
        }
        self.sleep_on_token(self.sampling.begin_sample());
        shared.samplers.end();
        shared.monitor.worker_woke(&shared.driver);
        true
    }

    /// Whether this worker leaves waiting tasks to the worker that samples, and sleeps.
    fn would_sample(&self) -> bool {
        let would_sample = self.is_permanent() && self.sampling.would_sample(self.shared());
        self.sampling.reset();
        would_sample
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
