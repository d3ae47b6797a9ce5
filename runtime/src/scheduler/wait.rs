//! Waiting for a latch: what a waiter runs meanwhile, and what may wake it.
//!
//! A worker that waits for a piece of its computation is in the middle of a stack, perhaps inside the poll of a task, so
//! it **never polls a task**: the stack would grow without bound, the task could need a lock that a frame below holds, and
//! budget and task-locals would be another's. In this order it runs
//! 1. its own pieces, youngest first: they are what it waits for;
//! 2. a job that is meant for this seat alone (`broadcast`): somebody may wait for it who has what this one waits for;
//! 3. the oldest piece of another seat, mostly descending from what it waits for, if that was stolen;
//! 4. its own older pieces: somebody further out on its stack will need them;
//! 5. roots that a thread outside waits for (`install`).
//!
//! Never a detached job or a `compute` root: they may take for ever, and nobody waits for them here. Inside an isolated region
//! it runs only jobs of that region, told by their tags.
//!
//! A guest (`guest.rs`) runs 1 to 4, but only pieces of its own call, told by their tag.
//!
//! Nothing found: it looks again a number of times, giving way to other threads in between, gets sleepy and looks once more,
//! then sleeps (`idle.rs`): in the driver if that is free, where it dispatches events; the tasks woken by them
//! go to the injector, and if nobody else is there to poll them, a relief thread is admitted. A guest sleeps on its own token.

use super::idle::Work;
use super::relief;
use super::seat::Seat;
use super::worker::Worker;
use crate::coop;
use crate::job::{CoreLatch, JobRef, Tag};
use crate::loom::thread;

/// What a thread waits for on its seat. For that thread alone.
pub trait Awaited {
    /// Whether it is over.
    fn is_over(&self) -> bool;

    /// The same, asked after each of `jobs` jobs that it runs meanwhile: may say no if the question would be in somebody's way.
    fn is_over_after(&self, jobs: u32) -> bool;

    /// O1 of `job/latch.rs`: whoever ends it unparks the worker from now on. False if it is over.
    fn fall_asleep(&self) -> bool;

    /// O4.
    fn wake_up(&self);
}

impl Awaited for CoreLatch {
    fn is_over(&self) -> bool {
        self.is_set()
    }

    fn is_over_after(&self, _jobs: u32) -> bool {
        self.is_set()
    }

    fn fall_asleep(&self) -> bool {
        self.fall_asleep()
    }

    fn wake_up(&self) {
        self.wake_up();
    }
}

/// How often a waiter looks for work before it gets sleepy.
pub const ROUNDS: u32 = 32;

/// Who waits, on the seat that it holds: the owner, or a guest.
#[derive(Clone, Copy)]
enum Host<'a> {
    Owner(&'a Worker),
    Guest,
}

impl Host<'_> {
    /// Calls `f`, which runs jobs. A task whose poll waits here is another matter than those.
    fn engaged<R>(self, f: impl FnOnce() -> R) -> R {
        coop::suspended(|| match self {
            Host::Owner(worker) => worker.computing(f),
            Host::Guest => f(),
        })
    }

    /// At which seat it begins to look for a victim.
    fn start(self, seat: &Seat) -> usize {
        match self {
            Host::Owner(worker) => worker.random_below(seat.shared().seats.len()),
            Host::Guest => seat.index() + 1,
        }
    }
}

/// For the holder.
impl Seat {
    fn with_host<R>(&self, f: impl FnOnce(Host<'_>) -> R) -> R {
        match self.is_guests() {
            true => f(Host::Guest),
            false => self.with_worker(|worker| f(Host::Owner(worker))),
        }
    }

    /// Waits until `awaited` is over; see the module's docs. `floor`: what is the caller's own in the deque begins there.
    #[inline]
    pub fn wait(&self, awaited: &impl Awaited, floor: u32) {
        if !awaited.is_over() {
            self.with_host(|host| self.wait_as(host, awaited, floor));
        }
    }

    #[cold]
    fn wait_as(&self, host: Host<'_>, awaited: &impl Awaited, floor: u32) {
        host.engaged(|| {
            let (mut rounds, mut jobs) = (0, 0_u32);
            // Of what lies here it may run only a part.
            let mut is_to_expose = self.waits_for() != Tag::NONE;
            while !if rounds == 0 { awaited.is_over_after(jobs) } else { awaited.is_over() } {
                if let Some(job) = self.find_piece(host, floor) {
                    (rounds, jobs) = (0, jobs.wrapping_add(1));
                    // SAFETY: this thread holds the seat, and has just claimed the job.
                    unsafe { self.run(job) };
                } else if rounds < ROUNDS {
                    rounds += 1;
                    thread::yield_now();
                } else if std::mem::take(&mut is_to_expose) {
                    // Once, and before it is sleepy: its own post would wake it.
                    // SAFETY: this thread holds the seat.
                    unsafe { self.expose_pieces() };
                } else if self.sleep_on(host, awaited, floor) {
                    (rounds, jobs) = (0, 0);
                }
            }
        });
    }

    /// Waits until `latch` is set: this stack unwinds. What lies in the deque is left to others, and so are tasks: this is a blocked
    /// worker. What nobody else may run is run all the same: the job that is waited for may wait for that.
    pub fn wait_idly(&self, latch: &CoreLatch) {
        if latch.is_set() {
            return;
        }
        self.with_host(|host| {
            let wait = || {
                while !latch.is_set() {
                    if let Some(job) = self.take_broadcast() {
                        // SAFETY: this thread holds the seat, and has just claimed the job.
                        unsafe { self.run(job) };
                    } else if latch.fall_asleep() {
                        // A broadcast that comes later leaves a token.
                        self.sleep_if(host, || !self.has_broadcast());
                        latch.wake_up();
                    }
                }
            };
            match host {
                Host::Owner(worker) => relief::sleep_in_place(worker, || host.engaged(wait)),
                Host::Guest => host.engaged(wait),
            }
        });
    }

    /// Runs the loose pieces of this seat from `floor` on. Nothing anchored is there.
    pub fn run_loose(&self, floor: u32) {
        self.with_host(|host| {
            host.engaged(|| {
                // SAFETY: this thread holds the seat; nothing anchored is above `floor`, by the caller's word.
                while let Some(job) = unsafe { self.pop_loose(floor) } {
                    // SAFETY: as above; the job was just claimed.
                    unsafe { self.run(job) };
                }
            });
        });
    }

    /// Runs the pieces of this seat from `floor` on, until there are none or `is_done`. As [`wait`](Self::wait).
    #[inline]
    pub fn run_own(&self, floor: u32, is_done: impl Fn() -> bool) {
        if !is_done() {
            self.with_host(|host| self.run_own_as(host, floor, is_done));
        }
    }

    fn run_own_as(&self, host: Host<'_>, floor: u32, is_done: impl Fn() -> bool) {
        host.engaged(move || {
            // Not asked each time: others write there.
            while !is_done() {
                let mut left = 32;
                while left > 0 {
                    // SAFETY: this thread holds the seat; nothing anchored is above `floor`, by the caller's word.
                    let Some(job) = (unsafe { self.pop(floor) }) else { return };
                    // SAFETY: as above; the job was just claimed.
                    unsafe { self.run(job) };
                    left -= 1;
                }
            }
        });
    }

    /// What a waiter may run; see the module's docs.
    fn find_piece(&self, host: Host<'_>, floor: u32) -> Option<JobRef> {
        let tag = self.waits_for();
        let shared = self.shared();
        // SAFETY: this thread holds the seat; nothing anchored is above `floor`, which the frame that waits vouches for.
        unsafe { self.pop(floor) }
            .or_else(|| self.take_broadcast())
            .or_else(|| self.steal_from_others(host.start(self), |victim| victim.steal(tag)))
            .or_else(|| {
                // SAFETY: as above.
                if unsafe { self.publish_all() } {
                    // Perhaps it may not run them itself.
                    shared.post_piece();
                }
                self.steal(tag)
            })
            .or_else(|| shared.jobs.take_install(tag))
    }

    /// Sleeps until it is over or there is something to run. May end early. True if it has run something instead.
    fn sleep_on(&self, host: Host<'_>, awaited: &impl Awaited, floor: u32) -> bool {
        let shared = self.shared();
        let seen = shared.idle.get_sleepy();
        shared.idle.fence_look();
        if let Some(job) = self.find_piece(host, floor) {
            // SAFETY: this thread holds the seat, and has just claimed the job.
            unsafe { self.run(job) };
            return true;
        }
        if !awaited.fall_asleep() {
            return false;
        }
        let mut was_notified = false;
        if shared.idle.announce_wait(self.index(), seen) {
            // Behind the fence: what came from outside before anybody could see us here.
            let tag = self.waits_for();
            self.sleep_if(host, || {
                let may_sleep = !shared.jobs.has_install(tag) && !self.has_broadcast();
                if let (true, Host::Owner(worker)) = (may_sleep, host) {
                    worker.leave_tasks();
                }
                may_sleep
            });
            was_notified = !shared.idle.end_wait(self.index());
            if let (true, Host::Owner(worker)) = (was_notified || awaited.is_over(), host) {
                worker.leave_driver();
            }
        }
        awaited.wake_up();
        was_notified && self.run_errand(host, awaited, floor)
    }

    fn sleep_if(&self, host: Host<'_>, may_sleep: impl FnOnce() -> bool) {
        match host {
            Host::Owner(worker) => {
                if may_sleep() {
                    worker.sleep();
                }
            }
            Host::Guest => {
                self.loan.parker.adopt_current_thread();
                if may_sleep() {
                    self.loan.parker.park(None);
                }
            }
        }
    }

    /// N of `idle.rs`: this thread was woken for a job. It looks for one, and leaves what it does not take to another.
    fn run_errand(&self, host: Host<'_>, awaited: &impl Awaited, floor: u32) -> bool {
        let shared = self.shared();
        let job = if awaited.is_over() { None } else { self.find_piece(host, floor) };
        let has_job = job.is_some();
        if has_job || awaited.is_over() {
            // Whoever called it may block for one that it did not take.
            if shared.has_visible_jobs(self.index()) {
                shared.notify_for(Work::Job);
            }
        } else if self.waits_for() != Tag::NONE && shared.has_visible_jobs(self.index()) {
            // It may run only its region's.
            shared.pass_errand_on(self.index());
        }
        if let Some(job) = job {
            // SAFETY: this thread holds the seat, and has just claimed the job.
            unsafe { self.run(job) };
        }
        has_job
    }
}
