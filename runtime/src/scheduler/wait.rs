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
//! Nothing found: it looks again a number of times, giving way to other threads in between, gets sleepy and looks once more,
//! then sleeps (`idle.rs`): in the driver if that is free, where it dispatches events; the tasks woken by them
//! go to the injector, and if nobody else is there to poll them, a relief thread is admitted.

use super::idle::Work;
use super::relief;
use super::seat::Seat;
use super::worker::Worker;
use crate::coop;
use crate::job::{CoreLatch, JobRef, Tag};
use crate::loom::thread;

/// What a worker waits for. For that worker alone.
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

impl Worker {
    /// See [`Seat::wait`].
    #[cold]
    pub fn wait(&self, seat: &Seat, awaited: &impl Awaited, floor: u32) {
        // A task whose poll waits here is another matter than the jobs that are run meanwhile.
        coop::suspended(|| {
            self.computing(|| {
                let (mut rounds, mut jobs) = (0, 0_u32);
                while !if rounds == 0 { awaited.is_over_after(jobs) } else { awaited.is_over() } {
                    if let Some(job) = self.find_piece(seat, floor) {
                        (rounds, jobs) = (0, jobs.wrapping_add(1));
                        // SAFETY: this thread is the seat's owner, and has just claimed the job.
                        unsafe { seat.run(job) };
                    } else if rounds < ROUNDS {
                        rounds += 1;
                        thread::yield_now();
                    } else if self.sleep_on(seat, awaited, floor) {
                        (rounds, jobs) = (0, 0);
                    }
                }
            });
        });
    }

    /// See [`Seat::wait_idly`]. What lies in the deque is left to others, and so are tasks: this is a blocked worker. What
    /// nobody else may run is run all the same: the job that is waited for may wait for that.
    pub fn wait_idly(&self, seat: &Seat, latch: &CoreLatch) {
        let wait = || {
            while !latch.is_set() {
                if let Some(job) = seat.take_broadcast(seat.tag()) {
                    // SAFETY: this thread is the seat's owner, and has just claimed the job.
                    unsafe { seat.run(job) };
                } else if latch.fall_asleep() {
                    // A broadcast that comes later leaves a token.
                    if !seat.has_broadcast(seat.tag()) {
                        self.sleep();
                    }
                    latch.wake_up();
                }
            }
        };
        relief::sleep_in_place(self, || self.computing(wait));
    }

    /// Runs the loose pieces of this seat from `floor` on.
    pub fn run_loose(&self, seat: &Seat, floor: u32) {
        coop::suspended(|| {
            self.computing(|| {
                // SAFETY: this thread is the seat's owner; nothing anchored is above `floor`, by the caller's word.
                while let Some(job) = unsafe { seat.pop_loose(floor) } {
                    // SAFETY: as above; the job was just claimed.
                    unsafe { seat.run(job) };
                }
            });
        });
    }

    /// See [`Seat::run_own`].
    pub fn run_own(&self, seat: &Seat, floor: u32, is_done: impl Fn() -> bool) {
        coop::suspended(|| {
            self.computing(|| {
                for round in 0_u32.. {
                    // Not each time: others write there.
                    if round % 32 == 0 && is_done() {
                        break;
                    }
                    // SAFETY: this thread is the seat's owner; nothing anchored is above `floor`, by the caller's word.
                    let Some(job) = (unsafe { seat.pop(floor) }) else { break };
                    // SAFETY: as above; the job was just claimed.
                    unsafe { seat.run(job) };
                }
            });
        });
    }

    /// What a waiter may run; see the module's docs.
    fn find_piece(&self, seat: &Seat, floor: u32) -> Option<JobRef> {
        let tag = seat.tag();
        let shared = self.shared();
        // SAFETY: this thread is the seat's owner; nothing anchored is above `floor`, which the frame that waits vouches for.
        unsafe { seat.pop(floor) }
            .or_else(|| seat.take_broadcast(tag))
            .or_else(|| self.steal_piece(tag))
            .or_else(|| {
                // SAFETY: as above.
                if unsafe { seat.publish_all() } {
                    // Perhaps it may not run them itself.
                    shared.post_piece();
                }
                seat.steal(tag)
            })
            .or_else(|| shared.jobs.take_install(tag))
    }

    /// Sleeps until it is over or there is something to run. May end early. True if it has run something instead.
    fn sleep_on(&self, seat: &Seat, awaited: &impl Awaited, floor: u32) -> bool {
        let shared = self.shared();
        let seen = shared.idle.get_sleepy();
        shared.idle.fence_look();
        if let Some(job) = self.find_piece(seat, floor) {
            // SAFETY: this thread is the seat's owner, and has just claimed the job.
            unsafe { seat.run(job) };
            return true;
        }
        if !awaited.fall_asleep() {
            return false;
        }
        let mut was_notified = false;
        if shared.idle.announce_wait(self.index(), seen) {
            // Behind the fence: what came from outside before anybody could see us here.
            if !shared.jobs.has_install(seat.tag()) && !seat.has_broadcast(seat.tag()) {
                self.leave_tasks();
                self.sleep();
            }
            was_notified = !shared.idle.end_wait(self.index());
            if was_notified || awaited.is_over() {
                self.leave_driver();
            }
        }
        awaited.wake_up();
        was_notified && self.run_errand(seat, awaited, floor)
    }

    /// N of `idle.rs`: this worker was woken for a job. It looks for one, and leaves what it does not take to another.
    fn run_errand(&self, seat: &Seat, awaited: &impl Awaited, floor: u32) -> bool {
        let shared = self.shared();
        let job = if awaited.is_over() { None } else { self.find_piece(seat, floor) };
        let has_job = job.is_some();
        if has_job || awaited.is_over() {
            let leaves_jobs =
                if has_job { shared.jobs.has_installs() } else { shared.has_visible_jobs(self.index()) };
            if leaves_jobs {
                shared.notify_for(Work::Job);
            }
        } else if seat.tag() != Tag::NONE && shared.has_visible_jobs(self.index()) {
            // It may run only its region's.
            shared.pass_errand_on(self.index());
        }
        if let Some(job) = job {
            // SAFETY: this thread is the seat's owner, and has just claimed the job.
            unsafe { seat.run(job) };
        }
        has_job
    }
}
