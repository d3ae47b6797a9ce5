//! Strides of polls, and the turns of the driver between them.

use std::io;
use std::task::Waker;
use std::time::{Duration, Instant};

use super::identity::{COMPUTING, PushTo, TURNS_TO_JOB, Worker};
use super::poll_begin::PollBegin;
use crate::driver::foreign::ForeignWakes;
use crate::loom::MEASURES_POLLS;
use crate::loom::sync::atomic::Ordering::Relaxed;
use crate::scheduler::away::marks::Report;
use crate::scheduler::owner::OwnJobs;
use crate::task::Runnable;
use crate::util::unwind;

/// The time that a stride should take: about so far apart are two turns of the driver and the injector. A
/// poll that takes longer delays the next turn.
pub const TURN: Duration = Duration::from_micros(200);

/// The time between two threads that are started for the wakers of a worker.
const HELPER_INTERVAL: Duration = Duration::from_millis(5);
/// How many foreign wakers of a turn may be on one stack, each inside of a `block_on` of the one below. The
/// others then wait for these.
const MOST_NESTED_WAKERS: u32 = 64;

/// Polls, and what happens between two polls.
impl Worker {
    /// Polls a task once.
    #[inline(always)]
    pub fn run_task(&self, task: Runnable) {
        if self.is_searching.get() {
            self.stop_searching();
        }
        let processor = self.processor();
        processor.metrics.polls.add(1);
        processor.polling.begin(&task);
        task.run();
    }

    /// At the end of a stride, looks at the driver and the timers.
    #[inline(always)]
    pub fn maintain_at_times(&self) {
        let rounds = &self.processor().rounds;
        // Relaxed: a number by itself. The monitor's write may be lost; see `worker.rs`.
        let left = rounds.load(Relaxed) - 1;
        rounds.store(left, Relaxed);
        if left == 0 {
            self.rounds_are_over();
        }
    }

    /// Either the driver has its turn, or the worker looks whether a task has yielded, or it asks for help
    /// again; see `hints/reinforcement.rs`.
    #[inline(never)]
    fn rounds_are_over(&self) {
        let left = self.rounds_put_off.take();
        let looks_at_yields = self.looks_at_yields.get().is_some();
        let is_early = looks_at_yields && self.has_yielded.replace(false);
        // The monitor ends a stride early, too.
        let is_told = self.processor().was_told_long();
        if left > 0 && !is_early && !is_told {
            if looks_at_yields {
                return self.set_next_look(left);
            }
            self.set_rounds(left);
            return self.share_ring();
        }
        let now = Instant::now();
        self.end_measurement(now);
        if is_early {
            // Too few polls for an estimate.
            self.time_stride(now);
            self.set_rounds(self.stride.get());
        } else {
            self.begin_stride(now);
        }
        if looks_at_yields {
            self.set_next_look(self.rounds());
        }
        self.maintain();
        // The turn of the driver, and a job that ran in it, are not part of the next poll.
        self.measure_next_poll();
    }

    pub(in crate::scheduler) fn set_rounds(&self, rounds: u32) {
        self.processor().rounds.store(rounds, Relaxed);
    }

    pub(in crate::scheduler) fn rounds(&self) -> u32 {
        self.processor().rounds.load(Relaxed)
    }

    /// Ends one stride and begins the next. The next stride is to take one [`TURN`], estimated from the last
    /// stride.
    fn begin_stride(&self, now: Instant) {
        let config = &self.shared().config;
        let began = self.stride_began.get();
        self.time_stride(now);
        // Half a turn changes nothing.
        let taken = if MEASURES_POLLS { now.saturating_duration_since(began) } else { TURN / 2 };
        let stride = self.stride.get();
        if taken > TURN / 2 {
            // The injector has its turn, too. It is not the very next one, because the tasks in the ring wait
            // as well.
            self.tasks_to_injector.set(self.tasks_to_injector.get().min(2));
        }
        let next = if taken > 2 * TURN {
            (u128::from(stride) * TURN.as_nanos() / taken.as_nanos()).max(1) as u32
        } else if taken < TURN / 4 {
            stride.saturating_mul(2)
        } else {
            stride
        };
        self.stride.set(next.min(config.event_interval));
        self.set_rounds(self.stride.get());
    }

    /// The time of a stride begins now.
    #[inline]
    pub(super) fn time_stride(&self, now: Instant) {
        self.stride_began.set(now);
    }

    /// The stride is one poll, and begins now.
    pub(in crate::scheduler) fn time_next_poll(&self) {
        self.end_stride();
        self.time_stride(Instant::now());
        self.measure_next_poll();
    }

    /// Beside long polls, measures the next poll if the stride ends with it.
    #[inline]
    fn measure_next_poll(&self) {
        if MEASURES_POLLS && self.shared().monitor.saw_long_polls() && self.rounds() == 1 {
            self.begin_measurement();
        }
    }

    #[cold]
    #[inline(never)]
    fn begin_measurement(&self) {
        self.measured.set(Some(PollBegin::now(self.processor())));
    }

    /// If a poll was measured, `slow.rs` learns how long polls of that task take.
    #[inline]
    fn end_measurement(&self, now: Instant) {
        if let Some(begin) = self.measured.take() {
            self.note_poll(begin, now);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_poll(&self, begin: PollBegin, now: Instant) {
        let processor = self.processor();
        let record = processor.polling.read().filter(|record| !record.is_computation);
        if let Some((record, (taken, computed))) = record.zip(begin.end(processor, now)) {
            self.shared().monitor.slow_tasks.was_polled(record.id.0, record.spawned_at, taken, computed);
        }
    }

    /// The poll that is measured announces that it blocks, so its length says nothing.
    pub(super) fn drop_measurement(&self) {
        self.measured.set(None);
    }

    /// A sleep has ended. From now on the worker looks whether a task has yielded: after one round and one
    /// more, then after two and two, four and four, and so on. If a task has yielded, the driver has its
    /// turn.
    ///
    /// Some programs yield a few times so that what they have sent arrives. They rely on it that the driver
    /// is polled meanwhile, as by Tokio's `yield_now`. A task that yields for longer has to wait for the end
    /// of the stride, because a turn costs as much as dozens of yields.
    pub(super) fn begin_looks_at_yields(&self) {
        self.looks_at_yields.set(Some(0));
        self.has_yielded.set(false);
        self.set_next_look(self.rounds() + self.rounds_put_off.get());
    }

    /// Splits `rounds`, the rest of the stride, at the next look. Puts off the rounds behind that look.
    fn set_next_look(&self, rounds: u32) {
        let looks = self.looks_at_yields.get().unwrap_or(0);
        let length = 1 << (looks / 2).min(31);
        self.looks_at_yields.set(Some(looks + 1).filter(|_| length < self.stride.get()));
        let next = rounds.min(length);
        self.set_rounds(next);
        self.rounds_put_off.set(rounds - next);
    }

    /// The stride ends with the next poll.
    pub(in crate::scheduler) fn end_stride(&self) {
        self.rounds_put_off.set(0);
        self.set_rounds(1);
    }

    /// Whether a poll took as long as a turn in the last stride.
    pub(in crate::scheduler) fn has_long_polls(&self) -> bool {
        self.stride.get() == 1
    }

    /// Dispatches the events and timers that are due, without waiting.
    #[inline(never)]
    pub fn maintain(&self) {
        self.end_slices();
        let driver = &self.shared().driver;
        self.dispatch(|foreign| {
            if driver.io().is_some_and(|io| io.has_sources()) {
                if let Some(mut poller) = driver.try_become_poller(self.index) {
                    poller.poll(foreign);
                }
            }
            driver.fire_timers(foreign);
        });
        self.call_foreign();
        self.sort_ring();
        self.share_ring();
        self.hand_driver_on();
        if self.takes_tasks() {
            self.run_job_from_others();
            let turns = self.turns_to_job.get() - 1;
            self.turns_to_job.set(turns);
            if turns == 0 {
                self.run_job_that_waits();
            }
        }
    }

    /// Runs a job that the loop comes to only when nothing else is ready: one of this worker, or a child job
    /// of a thread that may not come back to it. Without this, tasks that are always ready would starve jobs,
    /// and injected jobs without a pause would starve child jobs.
    #[cold]
    #[inline(never)]
    fn run_job_that_waits(&self) {
        self.turns_to_job.set(TURNS_TO_JOB);
        self.calls_left_wakers();
        if self.run_oldest_job() {
            let began = Instant::now();
            while began.elapsed() < TURN && self.run_oldest_job() {}
        }
    }

    /// Runs a job that this worker or another thread has left for long. Returns whether there was one.
    fn run_oldest_job(&self) -> bool {
        let Some(job_processor) = self.job_processor() else { return false };
        self.free_kept_regions(job_processor);
        let detached =
            || if job_processor.detached.is_empty() { None } else { job_processor.detached.pop_front() };
        let steals = || self.shared().are_child_jobs_left() && self.ask_role().takes_any_task();
        // SAFETY: (1) the turns come between two polls, outside of jobs: the stack has no frame of a job, and
        // so there is no join job.
        let own = || unsafe { job_processor.pop(0) };
        // SAFETY: (1) as above.
        let steal = || unsafe { self.steal_job() };
        let job = job_processor
            .take_overflow()
            .or_else(detached)
            .or_else(own)
            .or_else(|| if steals() { steal() } else { None });
        // SAFETY: (1) the job was just claimed.
        job.map(|job| unsafe { self.run_job(job) }).is_some()
    }

    /// This is a spare worker that begins; see `hints/slices.rs`.
    pub(in crate::scheduler) fn begin_short_slices(&self) {
        self.job_processor().inspect(|job_processor| job_processor.begin_short_slices());
    }

    /// This worker is back from a computation; see `hints/slices.rs`.
    pub(in crate::scheduler) fn end_slices(&self) {
        if let Some(job_processor) = self.job_processor() {
            job_processor.end_slices(|| self.shared().splits.now());
        }
    }

    /// For a worker in the middle of a computation. It polls the driver, and moves the tasks that wake there,
    /// and those in its own queues, to where any thread finds them. Notifies no worker.
    ///
    /// `has_job`: the worker has claimed a job that it has not begun.
    pub fn collect_tasks(&self, job_processor: &OwnJobs, has_job: bool) {
        let driver = &self.shared().driver;
        let collect = || {
            self.dispatch(|foreign| {
                if let Some(io) = driver.io().filter(|io| io.has_sources()) {
                    match driver.try_become_poller(self.index) {
                        Some(mut poller) => _ = poller.poll(foreign),
                        // The poller may have been woken already, but still wait for a CPU.
                        None => io.poll_nonblocking(foreign),
                    }
                }
                driver.fire_timers(foreign);
            });
            _ = self.tells_monitor();
            match has_job {
                false => self.call_foreign(),
                true => self.leave_foreign(),
            }
        };
        // Run as if outside of the computation: foreign wakers are then collected first, instead of called
        // here. But a blocking call inside of another blocking call stays inside of the outer one.
        let computing = self.away.get() & COMPUTING;
        self.away.set(self.away.get() & !COMPUTING);
        job_processor.run_apart(collect);
        self.away.set(self.away.get() | computing);
        self.move_tasks_to_injector();
    }

    /// Runs `f`, which wakes many tasks. The tasks are queued in order, without a notification for each.
    /// Foreign wakers are kept for [`call_foreign`](Self::call_foreign).
    pub fn dispatch<R>(&self, f: impl FnOnce(&ForeignWakes) -> R) -> R {
        let before = self.push_to.replace(PushTo::RingInDispatch);
        let result = f(&self.foreign);
        if self.push_to.replace(before) == PushTo::BehindInDispatch {
            self.give_behind();
        }
        result
    }

    pub(in crate::scheduler) fn keep_report(&self, report: Option<Report>) {
        if report.is_some() {
            *self.report.borrow_mut() = report;
        }
    }

    /// Whether foreign code is kept to be called.
    #[inline]
    pub(in crate::scheduler) fn has_foreign(&self) -> bool {
        !self.foreign.is_empty() || self.report.borrow().is_some()
    }

    /// Calls the foreign wakers that were kept, and the deadlock handler if it has to be told. No other
    /// thread may rely on this worker meanwhile: it is in no number of `idle.rs`, holds no lock, and is not
    /// the poller.
    #[inline]
    pub fn call_foreign(&self) {
        if self.has_foreign() {
            self.call_what_is_foreign();
        }
    }

    /// As [`call_foreign`](Self::call_foreign), for a thread that may run nothing but its own computation.
    /// Has the foreign code called elsewhere. Only if the system refuses a thread, this thread calls the
    /// wakers.
    #[cold]
    pub(in crate::scheduler) fn call_foreign_elsewhere(&self) {
        self.stop_searching_if_so();
        self.deliver_elsewhere();
        self.show_wakers();
        // If that helper is inside of one for long, and for those that come before the next helper: this
        // thread calls what is left when it is back in its loop, and until then the monitor sees to them.
        self.has_left_wakers.set(!self.processor().waking.is_empty());
        if self.has_left_wakers.get() {
            self.start_helper_at_times().unwrap_or_else(|_| self.call_wakers());
        }
    }

    /// Has the wakers called elsewhere, unless another thread was started for some a moment ago.
    fn start_helper_at_times(&self) -> io::Result<()> {
        let now = Instant::now();
        if self.no_helper_before.get().is_some_and(|until| now < until) {
            return Ok(());
        }
        self.no_helper_before.set(Some(now + HELPER_INTERVAL));
        self.shared().wake_apart(self.index)
    }

    fn deliver_elsewhere(&self) {
        let report = self.report.borrow_mut().take();
        self.keep_report(report.and_then(|report| self.shared().deliver_apart(report)));
    }

    /// As [`call_foreign`](Self::call_foreign), for a thread that has claimed a job, for which others may
    /// wait: leaves the wakers for later, or for the monitor.
    #[cold]
    fn leave_foreign(&self) {
        self.deliver_elsewhere();
        if !self.foreign.is_empty() {
            self.show_wakers();
            self.has_left_wakers.set(true);
        }
    }

    /// All workers leave: leaves the wakers to the last one (`Shared::finish`).
    pub(in crate::scheduler) fn leave_last_foreign(&self) {
        self.deliver_elsewhere();
        self.show_wakers();
    }

    /// Calls what [`leave_foreign`](Self::leave_foreign) has left. Returns whether there was something.
    pub(in crate::scheduler) fn calls_left_wakers(&self) -> bool {
        let has_left = self.has_left_wakers.get();
        if has_left {
            self.call_what_is_foreign();
        }
        has_left
    }

    /// Inside of a foreign waker, calls the next one of its turn. Returns whether there was one.
    pub(in crate::scheduler) fn calls_next_waker(&self) -> bool {
        if !self.may_call_next_waker() {
            return false;
        }
        let Some(next) = self.processor().waking.next() else { return false };
        let depth = self.nested_wakers.get();
        self.nested_wakers.set(depth + 1);
        next.wake();
        self.nested_wakers.set(depth);
        true
    }

    /// Whether [`calls_next_waker`](Self::calls_next_waker) would call one.
    pub(super) fn may_call_next_waker(&self) -> bool {
        self.is_calling.get()
            && self.nested_wakers.get() < MOST_NESTED_WAKERS
            && !self.processor().waking.is_empty()
    }

    /// Before the thread sleeps inside of a foreign waker, or of a job for which it has left some: has the
    /// others called elsewhere.
    #[inline]
    pub(in crate::scheduler) fn leave_wakers(&self) {
        let (is_calling, has_left) = (self.is_calling.get(), self.has_left_wakers.get());
        if !is_calling && !has_left || self.processor().waking.is_empty() {
            return;
        }
        // If the system refuses the thread, they wait for this one.
        _ = match is_calling {
            true => self.shared().wake_apart(self.index),
            // The monitor sees to the rest.
            false => self.start_helper_at_times(),
        };
    }

    /// Wakes `waker`. A panic goes no further. In a dispatch a foreign waker is [kept](Self::call_foreign)
    /// instead.
    pub fn wake(&self, waker: Waker) {
        match self.is_dispatching() {
            true => self.foreign.wake(waker),
            false => unwind::run_quietly(|| waker.wake()),
        }
    }

    /// Keeps foreign code until the end of the dispatch.
    pub fn keep_call(&self, f: impl FnOnce() + Send + 'static) {
        self.foreign.keep_call(Box::new(f));
    }

    #[inline]
    pub fn is_dispatching(&self) -> bool {
        matches!(self.push_to.get(), PushTo::RingInDispatch | PushTo::BehindInDispatch)
    }

    #[cold]
    fn call_what_is_foreign(&self) {
        self.stop_searching_if_so();
        self.show_wakers();
        self.call_wakers();
        let report = self.report.borrow_mut().take();
        report.into_iter().for_each(Report::deliver);
    }

    /// Puts the wakers that were kept where other threads see them.
    fn show_wakers(&self) {
        self.processor().waking.add(&self.foreign);
        _ = self.tells_monitor();
    }

    fn call_wakers(&self) {
        self.has_left_wakers.set(false);
        let (push_to, was_calling) = (self.push_to.replace(PushTo::Ring), self.is_calling.replace(true));
        let waking = &self.processor().waking;
        match self.shared().lifecycle.has_begun() {
            false => waking.wake_rest(),
            // The monitor may end at any time.
            true => self.shared().wake_at_the_end(waking.take()),
        }
        self.push_to.set(push_to);
        self.is_calling.set(was_calling);
    }
}
