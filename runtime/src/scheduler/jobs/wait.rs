//! Waiting for a latch: what a waiter runs meanwhile, and what may wake it.
//!
//! A worker that waits for a child job is in the middle of a stack, perhaps inside the poll of a task. So it
//! **never polls a task**. The stack would grow without bound, the task could need a lock that a frame below
//! holds, and the budget and the task-locals would be another task's. The worker runs jobs, in this order:
//! 1. its own child jobs, youngest first: it waits for them;
//! 2. a job that is meant for this job processor alone (`broadcast`): the worker that waits for that job may
//!    hold what this waiter waits for;
//! 3. the oldest child job of another job processor: if the awaited job was stolen, that job mostly descends
//!    from it;
//! 4. its own older child jobs: a frame further out on its stack will need them;
//! 5. injected jobs that a thread outside waits for (`install`).
//!
//! Before 3 the worker publishes its own older child jobs, because the job of another job processor may take
//! long, or block.
//!
//! On top of several waits the worker takes no child job of another job processor (3): each would bring its
//! own waits, and the stack has an end. It takes its own older child jobs (4) at any depth, because another
//! thread may wait for them. So a scope of very many jobs, each of which waits for another pool, may exhaust
//! the stack, as in Rayon.
//!
//! A waiter never runs a detached job or an injected `compute` job. Such a job may take for ever, and no
//! frame on this stack waits for it. Inside an isolated region the waiter runs only jobs of that region,
//! which carry its tag. A deque shows only its oldest child job. So before the thread sleeps, it moves older
//! child jobs with other tags to their job processor's overflow list, which can be searched by tag. It leaves
//! the child jobs on its own job processor to free workers, or to a spare worker.
//!
//! An external thread (`external.rs`) runs 1 to 4, but only child jobs of its own call, which carry its tag.
//! It moves jobs only while the monitor sees jobs that wait and a worker that is stuck, so never in a pool:
//! what lies in an overflow list is run by workers on top of their waits, and external threads, which wait
//! often, would make these stacks deep.
//!
//! A thread that waits on a stack that unwinds runs only 1 and 2, and what of its own computation is in its
//! overflow list (4), for instance because a thief has moved it there. In all other respects it is blocked. A
//! job of another computation could not be cancelled there, and would find that its thread is panicking. Jobs
//! outside of `compute` count as one computation: they cannot be cancelled. A pool has no spare workers. If
//! all its threads block or wait on stacks that unwind, a job that a thread outside spawns in one of their
//! scopes is not run.
//!
//! A waiter that finds nothing looks again a number of times, and yields its CPU to other threads in between.
//! Then it gets sleepy, looks once more, and sleeps (`idle.rs`). It sleeps in the driver if the driver is
//! free. There it dispatches events, and the tasks that these wake go to the injector. If no other worker is
//! there to poll the tasks, a spare worker is admitted. An external thread sleeps on its own token.

use crate::driver::time::Deadline;
use crate::job::{CoreLatch, JobRef, Tag};
use crate::loom::thread;
use crate::scheduler::away::Role;
use crate::scheduler::idle::Work;
use crate::scheduler::in_place;
use crate::scheduler::job_processor::{BREADTH_FIRST, JobProcessor, OVERFLOWED};
use crate::scheduler::owner::OwnJobs;
use crate::scheduler::shared::Shared;
use crate::scheduler::worker::Worker;

/// With more waits than this on one stack, a waiter takes no more child jobs of other job processors.
const DEEPEST: u32 = 128;

/// How many of its own jobs a waiter runs at most before it asks again whether the wait is over.
const UNASKED: u32 = 32;

/// What a thread waits for on its job processor. Only that thread calls these methods.
pub trait Awaited {
    /// Whether other threads write the answer of [`is_over`](Self::is_over) often while the wait goes on, so
    /// that each question disturbs them.
    const IS_SHARED: bool;

    /// Whether the wait is over.
    fn is_over(&self) -> bool;

    /// `LatchSleep` of `job/latch.rs`: from now on the thread that ends the wait unparks the worker. Returns
    /// false if the wait is over.
    fn fall_asleep(&self) -> bool;

    /// `LatchWake`.
    ///
    /// # Safety
    /// 1. [`fall_asleep`](Self::fall_asleep) has returned true, and this is called once afterwards.
    unsafe fn wake_up(&self);
}

impl Awaited for CoreLatch {
    const IS_SHARED: bool = false;

    fn is_over(&self) -> bool {
        self.is_set()
    }

    fn fall_asleep(&self) -> bool {
        self.fall_asleep()
    }

    unsafe fn wake_up(&self) {
        self.wake_up();
    }
}

/// How many times a waiter looks for work before it gets sleepy.
pub const ROUNDS: u32 = 32;

/// The thread that waits on the job processor that it holds: a worker, or an external thread.
#[derive(Clone, Copy)]
pub enum Host<'a> {
    Owner(&'a Worker),
    External,
}

impl Host<'_> {
    /// Calls `f`, which runs jobs. The jobs do not see what the frames below have set up.
    fn engaged<R>(self, job_processor: &OwnJobs, f: impl FnOnce() -> R) -> R {
        job_processor.in_surroundings(|| match self {
            Host::Owner(worker) => worker.computing(f),
            Host::External => f(),
        })
    }

    /// Whether the host takes child jobs of other workers: see *What a spare worker takes* in `away/mod.rs`.
    fn takes_child_jobs(self) -> bool {
        match self {
            Host::Owner(worker) => worker.ask_role() == Role::Full,
            Host::External => true,
        }
    }

    /// The job processor at which the host begins to look for a victim.
    fn start(self, job_processor: &OwnJobs) -> usize {
        match self {
            Host::Owner(worker) => worker.random_below(job_processor.shared().processors.len()),
            Host::External => 0,
        }
    }
}

impl OwnJobs {
    fn with_host<R>(&self, f: impl FnOnce(Host<'_>) -> R) -> R {
        match self.is_external() {
            true => f(Host::External),
            false => self.with_worker(|worker| f(Host::Owner(worker))),
        }
    }

    /// Waits until `awaited` is over; see the module's docs. `floor` is the lowest index in the deque that
    /// belongs to the caller.
    ///
    /// # Safety
    /// 1. No join job is at `floor` or above. (The jobs that run meanwhile leave none there.)
    #[inline]
    pub unsafe fn wait(&self, awaited: &impl Awaited, floor: u32) {
        if awaited.is_over() {
            return;
        }
        match std::thread::panicking() {
            // SAFETY: (1).
            true => _ = unsafe { self.wait_unwinding(awaited, floor, || false) },
            // SAFETY: (1).
            false => self.with_host(|host| unsafe { self.wait_as(host, awaited, floor) }),
        }
    }

    /// # Safety
    /// 1. As [`wait`](Self::wait).
    #[cold]
    unsafe fn wait_as<A: Awaited>(&self, host: Host<'_>, awaited: &A, floor: u32) {
        // Nothing unwinds through here.
        self.waits.set(self.waits.get() + 1);
        host.engaged(self, || {
            let mut rounds = 0;
            // The holder may run only a part of the jobs that lie here, and of those that its jobs make.
            let is_held = self.waits_for() != Tag::NONE;
            let mut is_to_expose = is_held;
            while !awaited.is_over() {
                // SAFETY: (1).
                if let Some(job) = unsafe { self.find_child_job(host, floor, JobProcessor::steal) } {
                    (rounds, is_to_expose) = (0, is_held);
                    // SAFETY: (1) the job was just claimed.
                    unsafe { self.run(job) };
                    if A::IS_SHARED {
                        // SAFETY: (1).
                        unsafe { self.run_own_until(floor, || awaited.is_over()) };
                    }
                } else if rounds < ROUNDS {
                    rounds += 1;
                    thread::yield_now();
                } else if std::mem::take(&mut is_to_expose) {
                    // Done once after each job, and before this thread is sleepy, because its own post would
                    // wake it.
                    self.expose_child_jobs();
                } else {
                    // SAFETY: (1).
                    let has_run = unsafe { self.sleep_on(host, awaited, floor) };
                    if has_run {
                        (rounds, is_to_expose) = (0, is_held);
                    }
                }
            }
        });
        self.waits.set(self.waits.get() - 1);
        // Also if this thread did not sleep: the shutdown may have begun while it waited.
        if let Host::Owner(worker) = host {
            worker.queue_if_ending();
        }
    }

    /// Whether a waiter on this job processor takes child jobs of other workers. It does not on top of
    /// [`DEEPEST`] waits, nor in some roles of a spare worker.
    fn takes_child_jobs(&self, host: Host<'_>) -> bool {
        self.waits.get() <= DEEPEST && host.takes_child_jobs()
    }

    /// Waits until `awaited` is over, or `is_back` returns true, on a stack that unwinds. Returns false if
    /// `awaited` is over, and true if `is_back` ended the wait first. The awaited job may wait for a job that
    /// no other thread runs, or has the time to run. So this runs the caller's own child jobs from `floor`
    /// on, jobs that only this thread may run, and those of its computation in the overflow list. In all
    /// other respects the thread is a blocked worker.
    ///
    /// # Safety
    /// 1. As [`wait`](Self::wait).
    pub unsafe fn wait_unwinding(
        &self,
        awaited: &impl Awaited,
        floor: u32,
        is_back: impl Fn() -> bool,
    ) -> bool {
        self.with_host(|host| {
            while !awaited.is_over() {
                if is_back() {
                    return true;
                }
                // SAFETY: (1).
                let job = unsafe { self.pop(floor) }.or_else(|| self.take_broadcast());
                match job.or_else(|| self.take_from_overflow()) {
                    // SAFETY: (1) the job was just claimed.
                    Some(job) => host.engaged(self, || unsafe { self.run(job) }),
                    None => self.sleep_unwinding(host, awaited),
                }
            }
            false
        })
    }

    /// Sleeps until the wait may be over, or a broadcast may have come. A broadcast leaves a token, and so
    /// does the event that makes `is_back` true.
    fn sleep_unwinding(&self, host: Host<'_>, awaited: &impl Awaited) {
        let sleep = || {
            if awaited.fall_asleep() {
                self.sleep_if(host, || !self.has_broadcast());
                // SAFETY: (1) `fall_asleep` has just returned true.
                unsafe { awaited.wake_up() };
            }
            if let Host::Owner(worker) = host {
                // If no thread can be started, they run here.
                self.run_apart(|| worker.call_foreign_elsewhere());
            }
        };
        match host {
            Host::Owner(worker) => in_place::sleep_in_place(worker, || host.engaged(self, sleep)),
            Host::External => {
                // As `sleep_in_place` does: what this thread waits for may wait for a job below the floor.
                let _on_child_jobs = self.expose_while_blocked();
                host.engaged(self, sleep);
            }
        }
    }

    /// Runs the scope jobs of this job processor from `floor` on.
    ///
    /// # Safety
    /// 1. As [`wait`](Self::wait).
    pub unsafe fn run_scope_jobs(&self, floor: u32) {
        self.with_host(|host| {
            host.engaged(self, || {
                // SAFETY: (1).
                while let Some(job) = unsafe { self.pop_scope_job(floor) } {
                    // SAFETY: (1) the job was just claimed.
                    unsafe { self.run(job) };
                }
            });
        });
    }

    /// Runs the child jobs of this job processor from `floor` on, until there are none or `is_done` returns
    /// true.
    ///
    /// # Safety
    /// 1. As [`wait`](Self::wait).
    #[inline]
    pub unsafe fn run_own(&self, floor: u32, is_done: impl Fn() -> bool) {
        if !is_done() {
            // SAFETY: (1).
            self.with_host(|host| host.engaged(self, || unsafe { self.run_own_until(floor, is_done) }));
        }
    }

    /// As [`run_own`](Self::run_own), inside of [`Host::engaged`].
    ///
    /// It does not ask `is_done` after each job, because other threads write the answer. The jobs may be a
    /// stranger's, and take long. So it asks after 1, 2, 4 jobs and so on, up to [`UNASKED`]. At most as many
    /// jobs run after the end as before it. A job of the overflow list, or the oldest job, may be one of a
    /// scope around, and would run on top of this one. So it asks before each of those.
    ///
    /// # Safety
    /// 1. As [`wait`](Self::wait).
    #[inline]
    unsafe fn run_own_until(&self, floor: u32, is_done: impl Fn() -> bool) {
        let mut unasked = 1;
        while !is_done() {
            for _ in 0..unasked {
                // Mostly no flag is set; `pop` asks the same.
                if self.flags.get() != 0 && self.has_flag(OVERFLOWED | BREADTH_FIRST) && is_done() {
                    return;
                }
                // SAFETY: (1).
                let Some(job) = (unsafe { self.pop(floor) }) else { return };
                // SAFETY: (1) the job was just claimed.
                unsafe { self.run(job) };
            }
            unasked = (2 * unasked).min(UNASKED);
        }
    }

    /// A job that a waiter may run; see the module's docs. `steal` takes a job from a job processor.
    ///
    /// # Safety
    /// 1. As [`wait`](Self::wait).
    unsafe fn find_child_job(
        &self,
        host: Host<'_>,
        floor: u32,
        steal: fn(&JobProcessor, Tag) -> Option<JobRef>,
    ) -> Option<JobRef> {
        let tag = self.waits_for();
        let shared = self.shared();
        // SAFETY: (1).
        let own = unsafe { self.pop(floor) }.or_else(|| self.take_broadcast());
        if own.is_some() {
            return own;
        }
        // A job of another job processor may keep this thread for long, and this thread may be unable to run
        // its own jobs.
        if self.publish_all() {
            shared.post_child_job();
        }
        let stolen = match self.takes_child_jobs(host) {
            true => self.steal_from_others(host.start(self), |victim| steal(victim, tag)),
            false => None,
        };
        stolen.or_else(|| steal(self, tag)).or_else(|| shared.injected_jobs.take_install(tag))
    }

    /// The last look before a sleep. It also looks below child jobs that this thread may not run.
    ///
    /// # Safety
    /// 1. As [`wait`](Self::wait).
    unsafe fn find_child_job_anywhere(&self, host: Host<'_>, floor: u32) -> Option<JobRef> {
        let tag = self.waits_for();
        let sees_oldest = match tag.is_external() {
            true => !self.shared().monitor.do_jobs_wait(),
            false => tag == Tag::NONE,
        };
        let steal = if sees_oldest { JobProcessor::steal } else { JobProcessor::steal_from_below };
        // SAFETY: (1).
        unsafe { self.find_child_job(host, floor, steal) }
    }

    /// Sleeps until the wait is over or there is a job to run. May end early. Returns whether it has run a
    /// job: one that it found before the sleep, or one for which it was woken.
    ///
    /// # Safety
    /// 1. As [`wait`](Self::wait).
    pub unsafe fn sleep_on(&self, host: Host<'_>, awaited: &impl Awaited, floor: u32) -> bool {
        let shared = self.shared();
        let seen = shared.idle.get_sleepy();
        shared.idle.fence_look();
        // SAFETY: (1).
        if let Some(job) = unsafe { self.find_child_job_anywhere(host, floor) } {
            // SAFETY: (1) the job was just claimed.
            unsafe { self.run(job) };
            return true;
        }
        if let Host::Owner(worker) = host {
            worker.leave_wakers();
        }
        if !awaited.fall_asleep() {
            return false;
        }
        let mut was_notified = false;
        if shared.idle.announce_wait(self.index(), seen) {
            // Behind the fence: looks for injected work that came before other threads could see this waiter.
            let tag = self.waits_for();
            // What the look above has left here, this thread may not run. Or it is an external thread, and
            // does not see it below an older one.
            let leaves_child_jobs = tag != Tag::NONE && self.has_public_child_jobs();
            let _on_child_jobs = leaves_child_jobs.then(|| shared.away.wait_on_child_jobs());
            self.sleep_if(host, || {
                if leaves_child_jobs {
                    // Wakes a sleeper and no waiter, because a waiter might leave the jobs to this thread
                    // again.
                    shared.fetch_strictly(Work::Task);
                }
                let may_sleep = !shared.injected_jobs.has_install(tag) && !self.has_broadcast();
                if let (true, Host::Owner(worker)) = (may_sleep, host) {
                    worker.leave_for_others();
                }
                may_sleep
            });
            was_notified = !shared.idle.end_wait(self.index());
            if let (true, Host::Owner(worker)) = (was_notified || awaited.is_over(), host) {
                worker.leave_driver();
            }
        }
        // SAFETY: (1) `fall_asleep` has returned true above.
        unsafe { awaited.wake_up() };
        if let Host::Owner(worker) = host {
            worker.queue_if_ending();
            was_notified &= !self.calls_foreign(worker);
        }
        // SAFETY: (1).
        was_notified && unsafe { self.run_errand(host, awaited, floor) }
    }

    fn sleep_if(&self, host: Host<'_>, may_sleep: impl FnOnce() -> bool) {
        match host {
            Host::Owner(worker) => {
                if may_sleep() {
                    worker.sleep();
                }
            }
            Host::External => {
                let parker = &self.shared().processor(self.index()).parker;
                parker.adopt_current_thread();
                if may_sleep() {
                    parker.park(None);
                }
            }
        }
    }

    /// Calls foreign wakers that a turn of the driver has left. If this thread was woken for a job, it passes
    /// the wake on first, because the wakers may take long. Returns whether there were any.
    fn calls_foreign(&self, worker: &Worker) -> bool {
        let has_foreign = worker.has_foreign();
        if has_foreign {
            if self.shared().has_jobs_for(Some(self), Role::Full) {
                self.shared().fetch(Work::Job);
            }
            let call = || match self.waits_for() {
                Tag::NONE => worker.call_foreign(),
                _ => worker.call_foreign_elsewhere(),
            };
            self.run_apart(call);
        }
        has_foreign
    }

    /// NotifiedLook of `idle.rs`: this thread was woken for a job. It looks for a job, and leaves the jobs
    /// that it does not take to another thread. Returns whether it has run a job.
    ///
    /// # Safety
    /// 1. As [`wait`](Self::wait).
    unsafe fn run_errand(&self, host: Host<'_>, awaited: &impl Awaited, floor: u32) -> bool {
        let shared = self.shared();
        let job = match awaited.is_over() {
            true => None,
            // SAFETY: (1).
            false => unsafe { self.find_child_job_anywhere(host, floor) },
        };
        let has_job = job.is_some();
        if has_job || awaited.is_over() {
            // The worker that woke this thread may block on a job that this thread did not take.
            if shared.has_jobs_for(Some(self), Role::Full) {
                shared.fetch(Work::Job);
            }
        } else if (self.waits_for() != Tag::NONE || !self.takes_child_jobs(host))
            && shared.has_jobs_for(Some(self), Role::Full)
        {
            // This thread may run only some of the jobs.
            shared.pass_errand_on(self.index());
        }
        if let Some(job) = job {
            // SAFETY: (1) the job was just claimed.
            unsafe { self.run(job) };
        }
        has_job
    }
}

/// Before and after a sleep on a latch.
impl Worker {
    /// LatchLook of `idle.rs`, `Leave` of `away/mod.rs`: the work that this worker holds, or that other
    /// workers left to it, must not wait for its latch.
    fn leave_for_others(&self) {
        let shared = self.shared();
        if self.has_own_tasks() {
            self.expose();
        } else if shared.has_visible_tasks() {
            shared.fetch(Work::Task);
        }
        if shared.lifecycle.has_begun() {
            // A worker may block for the end of a task in the table of this one.
            self.lend_table();
            shared.queue_lent();
        }
        // Behind the fence of `announce_wait`; see `expose_while_blocked`.
        let are_left = || shared.away.are_child_jobs_left() && shared.has_jobs_for(None, Role::Full);
        if shared.injected_jobs.has_any() || are_left() {
            // Perhaps no waiter may run these jobs.
            shared.fetch(Work::Task);
        }
    }

    /// This worker slept on a latch, and goes on with its computation. If no worker is the poller, this
    /// wakes a sleeping worker to do so.
    fn leave_driver(&self) {
        let shared = self.shared();
        // Behind the fence: a worker that found the driver taken shows its bit.
        shared.idle.fence_push();
        if shared.idle.has_waiters() && shared.is_driver_deserted() {
            shared.fetch(Work::Task);
        }
    }
}

impl Shared {
    /// Whether no worker is the poller: a hint.
    pub fn has_no_poller(&self) -> bool {
        self.driver.io().is_some() && self.driver.poller().is_none()
    }

    /// Whether events or timers may come, and no worker is the poller: a hint.
    pub fn is_driver_deserted(&self) -> bool {
        let driver = &self.driver;
        let has_sources = || driver.io().is_some_and(|io| io.has_sources());
        let has_timers = || driver.time().is_some_and(|time| time.earliest() != Deadline::MAX);
        driver.poller().is_none() && (has_sources() || has_timers())
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
