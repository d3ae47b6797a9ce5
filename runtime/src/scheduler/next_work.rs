//! The tasks in and out of a worker's queues: where the next task comes from, and where a woken task goes.

use std::iter;
use std::time::Instant;

use super::away::Role;
use super::idle::Work;
use super::slow;
use super::worker::{PushTo, Worker};
use crate::loom::RING_CAPACITY;
use crate::loom::sync::atomic::Ordering::{Relaxed, SeqCst};
use crate::loom::sync::atomic::fence;
use crate::queue::IntrusiveList;
use crate::task::{Header, Runnable};

/// How many tasks in a row may come from the LIFO slot before the ring has its turn.
const LIFO_STREAK: u32 = 16;
/// While so many tasks wait in the injector, the tasks that a dispatch wakes queue behind them. In the ring
/// they would be polled first, and with many ready sockets the ring is never empty. Fewer tasks are soon
/// taken, one at each turn of the injector.
const BACKLOG: usize = RING_CAPACITY.div_ceil(32);
/// A dispatch gives so many tasks at once to the injector, as many as a ring that overflows.
const BEHIND: usize = RING_CAPACITY / 2;

/// Tasks out of the queues.
impl Worker {
    /// The next task that needs no search.
    #[inline(always)]
    pub fn next_task(&self) -> Option<Runnable> {
        let left = self.tasks_to_injector.get() - 1;
        self.tasks_to_injector.set(left);
        if left > 0 {
            return self.next_local_task().or_else(|| self.next_injected_task());
        }
        self.tasks_to_injector.set(self.shared().config.global_queue_interval);
        // Alternately, because neither queue may keep the other waiting for ever.
        let is_slow_first = !self.was_slow_first.get();
        self.was_slow_first.set(is_slow_first);
        let first = if is_slow_first { self.next_slow_task() } else { None };
        let injected = || self.shared().injector.pop_task().and_then(|task| self.unless_slow(task));
        let others = || injected().or_else(|| self.next_slow_task());
        first.or_else(others).or_else(|| self.next_local_task())
    }

    #[inline(always)]
    fn next_local_task(&self) -> Option<Runnable> {
        let own = self.own_queues();
        if let Some(task) = own.pop_next() {
            let streak = self.lifo_streak.get() + 1;
            if streak <= LIFO_STREAK {
                self.lifo_streak.set(streak);
                self.processor().metrics.lifo_polls.add(1);
                return Some(task);
            }
            // Two tasks that keep waking each other must not starve the ring.
            self.push_to_ring(task);
        }
        self.lifo_streak.set(0);
        own.pop_front()
    }

    /// Takes a batch from the injector: one task to run, the others into the ring.
    fn next_injected_task(&self) -> Option<Runnable> {
        let shared = self.shared();
        if shared.injector.is_empty()
            || self.sampling.leaves_it_to_others(shared, self.index(), self.is_searching.get())
        {
            return None;
        }
        let has_waited = self.linger.gathers(shared);
        let (task, count) = self.own_queues().take_batch(&shared.injector)?;
        self.linger.took(count, has_waited);
        self.sampling.took();
        if count > 1 {
            // The pusher relied on an awake worker for all of these tasks. This worker is awake, but its
            // first task may take long.
            self.share_if_worth();
        }
        self.unless_slow(task)
    }

    /// Returns `task`, which was injected. A worker that serves leaves the task to the others if it is known
    /// to compute for long, and takes the next task of its ring instead.
    #[inline]
    fn unless_slow(&self, task: Runnable) -> Option<Runnable> {
        match self.role() {
            Role::Serves => self.sort_in(task),
            _ => Some(task),
        }
    }

    #[cold]
    #[inline(never)]
    fn sort_in(&self, task: Runnable) -> Option<Runnable> {
        self.push_to_ring(task);
        self.sort_ring();
        self.own_queues().pop_front()
    }

    /// Whether a worker that serves leaves the task to others, because it is likely to compute for long.
    fn leaves_to_others(&self, task: &Runnable) -> bool {
        let slow_tasks = &self.shared().monitor.slow_tasks;
        slow_tasks.is_slow(task.id()) || slow_tasks.contains_site(task) && self.random_below(slow::PROBE) > 0
    }

    /// A task that is known to compute for long, if this worker may take long, or probes it.
    fn next_slow_task(&self) -> Option<Runnable> {
        if self.shared().slow.is_empty() { None } else { self.take_slow_task() }
    }

    #[cold]
    #[inline(never)]
    fn take_slow_task(&self) -> Option<Runnable> {
        let shared = self.shared();
        let task = if self.may_take_long() {
            let task = shared.slow.pop_task()?;
            // Relaxed: a number.
            shared.monitor.slow_taken.fetch_add(1, Relaxed);
            task
        } else if shared.monitor.begins_probe(self.index()) {
            let Some(task) = self.probe_slow_task() else {
                shared.monitor.probe_was_fruitless();
                return None;
            };
            task
        } else {
            return None;
        };
        self.time_next_poll();
        if !self.is_permanent() {
            // This worker may have been the poller, and another worker has to become it.
            self.stop_searching_if_so();
            shared.fetch_strictly(Work::Task);
        }
        Some(task)
    }

    /// The first of the slow tasks that waits there because of its place alone, if there is one among the
    /// first [`PROBE`](slow::PROBE). It may be quick. The tasks before it go to the end of the queue.
    fn probe_slow_task(&self) -> Option<Runnable> {
        let shared = self.shared();
        let mut passed = IntrusiveList::new();
        let mut tasks = iter::from_fn(|| shared.slow.pop_task()).take(slow::PROBE);
        let probed = tasks.find_map(|task| {
            if !shared.monitor.slow_tasks.is_slow(task.id()) {
                return Some(task);
            }
            passed.push_task(task);
            None
        });
        if !passed.is_empty() {
            self.leave_slow(passed);
        }
        probed
    }

    /// Leaves slow tasks to workers that may take long.
    fn leave_slow(&self, tasks: IntrusiveList<Header>) {
        self.shared().slow.push_batch(tasks);
        // PushFence of `idle.rs`.
        fence(SeqCst);
        self.shared().leave_to_lower(self.index());
    }

    /// Whether the worker takes slow tasks: its role takes any task, or it runs tasks in the place of
    /// computations that yield.
    fn may_take_long(&self) -> bool {
        self.role().takes_any_task() || self.shared().away.has_yielding()
    }

    /// Takes a task from another worker, unless enough workers search already. If it finds none, the worker
    /// stays a searcher.
    pub(super) fn search(&self) -> Option<Runnable> {
        let shared = self.shared();
        let processors = shared.processors.len();
        if processors == 1 || !self.ask_role().takes_any_task() {
            return self.next_slow_task();
        }
        if !self.is_searching.get() {
            if !self.idle().start_searching() {
                return None;
            }
            self.is_searching.set(true);
        }
        let metrics = &self.processor().metrics;
        metrics.searches.add(1);
        self.sampling.look(shared, self.index());
        let is_choosy = self.sampling.would_sample(shared);
        let others = || shared.processors.iter_from(self.random_below(processors));
        for (index, victim) in others().filter(|&(index, _)| index != self.index()) {
            if is_choosy && !self.sampling.is_ring_worth(index) {
                continue;
            }
            if let Some((task, stolen)) = self.own_queues().steal_from(&victim.ring) {
                metrics.steals.add(1);
                metrics.stolen.add(stolen as u64);
                self.sampling.took();
                return Some(task);
            }
        }
        let injected = self.next_injected_task().or_else(|| self.next_slow_task());
        injected.or_else(|| self.steal_lifo_task())
    }

    /// A task from the LIFO slot of a worker that is stuck in a poll; see `processor.rs`.
    fn steal_lifo_task(&self) -> Option<Runnable> {
        let shared = self.shared();
        let sees = |(index, processor): (usize, &super::processor::Processor)| {
            processor.sight().filter(|_| index != self.index()).map(|sighting| (index, sighting))
        };
        let Some((victim, now)) = shared.processors.iter_from(0).find_map(sees) else {
            self.sighting.set(None);
            return None;
        };
        match self.sighting.get() {
            Some((seen_victim, seen)) if seen_victim == victim && seen.is_same(&now) => {
                let task = shared.processor(victim).steal_lifo(&seen)?;
                let metrics = &self.processor().metrics;
                metrics.steals.add(1);
                metrics.stolen.add(1);
                Some(task)
            }
            _ => {
                self.sighting.set(Some((victim, now)));
                None
            }
        }
    }

    #[inline]
    pub(super) fn stop_searching_if_so(&self) {
        if self.is_searching.get() {
            self.stop_searching();
        }
    }

    /// UncountSearcher and SearcherLook of `idle.rs`: this worker has found work.
    pub fn stop_searching(&self) {
        self.is_searching.set(false);
        self.is_notified.set(false);
        let shared = self.shared();
        if self.idle().stop_searching() {
            fence(SeqCst);
            if shared.has_visible_tasks() {
                self.notify();
            }
            // Also if there are tasks: a job may need a latch waiter, and a pusher of tasks wakes no waiter.
            if shared.has_jobs_for(self.job_processor(), Role::Full) {
                shared.fetch(Work::Job);
            }
        }
    }

    /// UncountSearcher and SearcherLook for a worker that may not run everything, and is about to sleep: see
    /// *the restricted worker* in `idle.rs`.
    pub(super) fn leave_rest_to_others(&self) {
        if !self.is_searching.replace(false) {
            return;
        }
        let shared = self.shared();
        if self.idle().stop_searching() {
            fence(SeqCst);
            if shared.has_visible_tasks() || shared.has_jobs_for(None, Role::Full) {
                shared.leave_to_lower(self.index());
            }
        }
    }

    /// Runs a job of another worker, if this worker may search.
    pub(super) fn run_stolen_job(&self) -> bool {
        if !self.is_searching.get() || !self.role().takes_any_task() {
            return false;
        }
        // SAFETY: (1) the run loop calls this between two jobs.
        let Some(job) = (unsafe { self.steal_job() }) else {
            return false;
        };
        // SAFETY: (1) the job was just claimed.
        unsafe { self.run_job(job) };
        true
    }
}

/// Tasks into the queues.
impl Worker {
    /// Queues a task that this thread has woken or spawned, to run next.
    #[inline]
    pub fn push(&self, task: Runnable) {
        if self.push_to.get() != PushTo::LifoSlot {
            return self.push_in_order(task);
        }
        if let Some(displaced) = self.own_queues().push_next(task) {
            self.push_displaced(displaced);
        }
    }

    /// Queues a task behind the others. This notifies no worker: the caller notifies once for many tasks, or
    /// there is no other worker. But in a runtime without LIFO slots, this is like
    /// [`push_back`](Self::push_back).
    fn push_in_order(&self, task: Runnable) {
        if self.is_dispatching() && self.shared().injector.len() >= BACKLOG {
            return self.push_behind(task);
        }
        match self.shared().config.has_lifo_slot {
            true => self.push_to_ring(task),
            false => self.push_back(task),
        }
    }

    /// Queues a task in the injector, together with others, at the end of the dispatch or before. As after an
    /// overflow of the ring, this worker is awake and comes to the injector itself.
    #[cold]
    #[inline(never)]
    fn push_behind(&self, task: Runnable) {
        self.push_to.set(PushTo::BehindInDispatch);
        self.behind.borrow_mut().push_task(task);
        if self.behind.borrow().len() >= BEHIND {
            self.give_behind();
        }
    }

    /// Gives the injector the tasks that have to queue there.
    #[cold]
    pub(super) fn give_behind(&self) {
        self.shared().injector.push_batch(self.behind.replace(IntrusiveList::new()));
        self.share_if_worth();
    }

    #[inline(never)]
    fn push_displaced(&self, task: Runnable) {
        self.push_to_ring(task);
        self.notify_if_worth();
    }

    /// Queues a task that has yielded, behind the others.
    #[inline]
    pub fn requeue(&self, task: Runnable) {
        self.has_yielded.set(true);
        self.push_back(task);
    }

    /// Queues a task behind the others.
    #[inline]
    pub fn push_back(&self, task: Runnable) {
        self.push_to_ring(task);
        // A task that yields and is alone in the ring needs no help.
        if self.processor().ring.len() >= 2 {
            self.notify_if_worth();
        }
    }

    fn push_to_ring(&self, task: Runnable) {
        if self.own_queues().push_back(task, &self.shared().injector) > 0 {
            self.ring_overflowed();
        }
    }

    #[cold]
    #[inline(never)]
    fn ring_overflowed(&self) {
        self.processor().metrics.overflows.add(1);
        self.share_if_worth();
    }

    /// Has another worker come for tasks that this worker could also run later, unless all sleepers are
    /// [extra](Shared::extra). Mostly they are spare workers that serve. If a worker with many short tasks
    /// shared them with such a spare worker, it would be slower: the spare worker looks at the driver after
    /// each poll, and both touch the same memory.
    fn share_if_worth(&self) {
        let shared = self.shared();
        shared.idle.fence_push();
        let sleepers = shared.idle.sleepers();
        if sleepers == 0 || sleepers > shared.extra() {
            shared.fetch(Work::Task);
        }
    }

    /// Sorts the ring while all workers are inside of long polls. A worker that takes slow tasks keeps these,
    /// and gives the others to the spare workers that serve. A serving worker does the opposite, and so does
    /// a spare worker that is not needed. Without the sorting, a task on the wrong worker would stay there,
    /// because a task that a worker polls and wakes goes to that worker's own ring.
    #[inline]
    pub(super) fn sort_ring(&self) {
        if !self.is_permanent() || self.shared().away.is_any_serving() {
            self.sort_ring_beside_long_polls();
        }
    }

    #[cold]
    #[inline(never)]
    fn sort_ring_beside_long_polls(&self) {
        let serves_only = !self.is_permanent() && self.serves_only();
        if !serves_only && !self.gives_quick_tasks() || self.processor().ring.is_empty() {
            return;
        }
        let shared = self.shared();
        let others = self.take_out(|task| match serves_only {
            true => self.leaves_to_others(task),
            false => !shared.monitor.slow_tasks.contains(task),
        });
        if others.is_empty() {
        } else if serves_only {
            self.leave_slow(others);
        } else {
            shared.injector.push_batch(others);
            shared.fetch_strictly(Work::Task);
        }
    }

    /// Whether this worker, whose polls are long, gives its other tasks to those that serve. The injector may
    /// already have some, as from threads outside, but what is given away must not pile up there.
    fn gives_quick_tasks(&self) -> bool {
        let shared = self.shared();
        let has_server = shared.away.is_any_serving() && self.role().takes_any_task();
        has_server && self.has_long_polls() && shared.injector.len() < BACKLOG
    }

    /// Whether this spare worker may not take long. If so, its next turn comes after one poll, and the task
    /// that its last poll woke is among those to be sorted.
    fn serves_only(&self) -> bool {
        self.ask_role();
        let serves_only = !self.may_take_long();
        if serves_only {
            self.end_stride();
            if let Some(task) = self.own_queues().pop_next() {
                self.push_to_ring(task);
            }
        }
        serves_only
    }

    /// Takes the tasks for which `is_wanted` returns true out of the ring.
    fn take_out(&self, is_wanted: impl Fn(&Runnable) -> bool) -> IntrusiveList<Header> {
        let mut taken = IntrusiveList::new();
        for _ in 0..self.processor().ring.len() {
            let Some(task) = self.own_queues().pop_front() else { break };
            match is_wanted(&task) {
                true => taken.push_task(task),
                false => self.push_to_ring(task),
            }
        }
        taken
    }

    pub(super) fn move_tasks_to_injector(&self) {
        if !self.has_own_tasks() {
            return;
        }
        let own = self.own_queues();
        self.shared().injector.push_batch(iter::from_fn(|| own.pop()).collect());
    }

    #[inline(always)]
    fn notify_if_worth(&self) {
        // Mostly no worker sleeps, and this costs a load and a branch.
        if self.shared().idle.has_sleepers() {
            self.notify_beside_sleepers();
        }
    }

    #[inline(never)]
    fn notify_beside_sleepers(&self) {
        if self.idle().is_worth_notifying(|| self.shared().extra()) {
            self.notify();
        }
    }

    fn notify(&self) {
        if self.shared().fetch(Work::Task) {
            self.processor().metrics.notifies.add(1);
        }
    }

    /// Decides, after a dispatch, whether other workers should help with the woken tasks. If not, the worker
    /// asks again soon.
    ///
    /// Beside long polls it does not ask; see `hints/reinforcement.rs`.
    pub(super) fn share_ring(&self) {
        let shared = self.shared();
        let waiting = self.processor().ring.len();
        if waiting < 2 || !shared.idle.has_sleepers() {
            return;
        }
        let now = Instant::now();
        if shared.monitor.saw_long_polls() || self.is_help_welcome(now, waiting) {
            self.notify_if_worth();
        } else {
            let rounds = self.rounds() + self.rounds_put_off.get();
            let pause = self.reinforcement.pause().min(rounds);
            self.set_rounds(pause);
            self.rounds_put_off.set(rounds - pause);
            self.looks_at_yields.set(None);
        }
    }

    /// The worker comes from the driver with tasks. Beside long polls it has another worker take its place
    /// there; see `hints/reinforcement.rs`.
    #[inline]
    pub(super) fn hand_driver_on(&self) {
        if self.shared().monitor.saw_long_polls() {
            self.hand_driver_on_beside_long_polls();
        }
    }

    #[cold]
    #[inline(never)]
    fn hand_driver_on_beside_long_polls(&self) {
        if self.shared().has_no_poller() && self.has_own_tasks() {
            self.stop_searching_if_so();
            self.notify();
        }
    }

    /// Whether another worker should be woken for `waiting` tasks; see `hints/reinforcement.rs`.
    fn is_help_welcome(&self, now: Instant, waiting: usize) -> bool {
        self.reinforcement.ask(now);
        self.reinforcement.is_worth(now, self.processor().tick(), waiting)
            && self.reinforcement.is_welcome(now, || self.shared().crowd.has_room())
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
