//! Split points as safe points: how a computation lets sockets, timers and tasks have their turn.
//!
//! A worker that computes does not come back to its loop for long. But it calls `join` or `scope` all the
//! time, or takes the next job. There it may safely see to sockets, timers and tasks, because the computation
//! holds nothing there that it does not hold across any call. (In an isolated region the computation may hold
//! more, so the worker does none of this there.)
//!
//! **The look.** To read the clock at every split would cost more than the split. So a job processor counts
//! down a *poll interval* of splits, and adapts its length so that a poll interval takes about
//! [`POLL_INTERVAL_NANOS`]. A single slow poll interval brings the length down to 1. Other work does so, too,
//! because an injected or a stolen job mostly begins with long parts. At the end of a poll interval the
//! worker reads the clock. The first worker that does so [`INTERVAL_NANOS`] after the last look of any job
//! processor looks:
//! 1. in the driver, without waiting. If another worker is the poller, this worker takes events beside it (a
//!    non-blocking poll), because the poller may have been woken already, but still wait for a CPU.
//! 2. for tasks that wait. If a worker is idle, this worker wakes it. If all workers compute, this worker
//!    *yields*. It also yields if the worker that was woken at the last look has not taken the tasks, because
//!    something else has its CPU.
//! 3. In all other cases it yields its CPU to other threads of the system (`sched_yield`). Without this, the
//!    kernel lets a thread that computes run on until the next tick, up to 4 ms, even if another thread was
//!    woken on its CPU. Each worker does so every now and then ([`YIELD_NANOS`]), also while other workers
//!    look, because it concerns the worker's own CPU. So it gives away the tasks in its own queues then, into
//!    which the others do not look.
//!
//! **Yielding.** Tasks are never polled on the stack of a computation: a task could need a lock that the
//! computation holds, and wait for ever; and its stack would grow on top of the computation's. So the worker
//! calls a spare worker that rests. It sleeps until the spare worker has run out of tasks, or for [`LIMIT`].
//! ```text
//! Worker that computes                             Spare worker
//! Yield      lock; enter among those that yield    TasksDone    its search found nothing, nor does the
//! CallSpare  call the spare worker of this CPU,                 driver bring anything: lock; take out all
//!            or another that rests; none: rely on               that yield
//!            one that is active beyond what is     WakeYielding unpark each on its own token
//!            needed, and fetch (`PushFence` to                  (`yield_parker`), then it rests: active >
//!            `UnparkSleeper` of `idle.rs`)                      needed, which counts those that yield
//! YieldSleep sleep on `yield_parker`, at most LIMIT
//! YieldOver  lock; leave those that yield if still there
//! ```
//! *No computation hangs*: `YieldSleep` is limited, so a task that needs a lock of the computation is
//! delayed, not in a deadlock.
//!
//! *A spare worker that computes is not relied on for ever*: a yield to an active spare worker that lasts as
//! long as [`LIMIT`], while no spare worker polls a task, shows that the spare worker does not take tasks.
//! From then on the worker does not count as moving, and the monitor has another thread come.
//!
//! *No thread is started here*: the monitor starts threads, so a look never costs a thread start. If no spare
//! worker rests and none is active beyond what is needed, the worker does not count as moving any more. So
//! the monitor takes it for stuck.
//!
//! *No unpark is lost*: `Yield` and `TasksDone` are under one lock. If `Yield` comes first, `TasksDone` finds
//! the worker, and `WakeYielding` leaves a token that ends `YieldSleep`, whether that has begun or not. If
//! `TasksDone` comes first, the spare worker may have gone to rest under the same lock, and `CallSpare` calls
//! it back. Or the spare worker is active for other reasons. Then, by the fences of `CallSpare` and
//! SleepFence, either `CallSpare` finds it asleep and wakes it, or its SleepLook sees that a worker yields
//! (or a task). In the latter case it gets to `TasksDone` again.
//!
//! *No wake for another purpose is used up*: `yield_parker` is used for yielding only, and a poll of the
//! driver does not drain it.
//!
//! **Its fair share.** After it has yielded to tasks, a worker does not yield to tasks again until it has
//! computed for as long. The same holds for yielding its CPU. So the worker gets at least half of its CPU
//! under a load of tasks that never ends. It also does so beside another process that computes, where each
//! `sched_yield` would cost it a whole time slice. The two limits are separate: a worker that lost its CPU to
//! other threads looks at once for the events that these threads have made meanwhile. Most hand-overs are
//! short, and do not delay the next one.
//!
//! At the end of a look the worker makes sure that it computes on a CPU of its own (`spread.rs`).
//!
//! Whether split points *are passed* tells the monitor that the looks happen. The monitor sees to a
//! computation without splits.
//!
//! A prototype compared this with kernel time slices, priorities, and flags. Only acting at split points
//! brought the tail of echo requests below a millisecond beside a parallel sort.

use std::time::Duration;

use crate::job::Tag;
use crate::loom::YIELD_MICROS;
use crate::loom::sync::atomic::Ordering::Relaxed;
use crate::loom::thread;
use crate::scheduler::away::spare::YieldsTo;
use crate::scheduler::hints::slices::INTERVAL_NANOS;
use crate::scheduler::idle::Work;
use crate::scheduler::owner::OwnJobs;
#[cfg(doc)]
use crate::scheduler::poll_interval::POLL_INTERVAL_NANOS;
use crate::scheduler::worker::Worker;

/// The time after which a worker yields its CPU again, also while other workers look.
const YIELD_NANOS: u64 = 2 * INTERVAL_NANOS;

/// The longest time for which a worker yields to tasks at one time.
const LIMIT: Duration = Duration::from_micros(YIELD_MICROS);

/// A worker that was away for longer does not have to compute for as long, because the process was stopped,
/// or the machine overloaded.
const LONGEST_STAY_NANOS: u64 = 100_000_000;

impl OwnJobs {
    /// The end of a poll interval of splits. `has_job`: the owner has claimed a job that it has not begun.
    #[cold]
    #[inline(never)]
    pub fn look(&self, has_job: bool) {
        let shared = self.shared();
        if shared.config.is_pool {
            return self.poll_interval.end();
        }
        let now = shared.splits.now();
        self.poll_interval.adapt(now);
        if self.is_external() {
            return self.share_if_hungry();
        }
        self.with_worker(|worker| {
            let may_look =
                self.waits_for() == Tag::NONE && !std::thread::panicking() && shared.max_spares > 0;
            if !may_look {
                return;
            }
            self.slices.go_on(now);
            if !shared.splits.is_pressed.load(Relaxed) {
                // Tells the monitor that this worker is not stuck.
                worker.processor().metrics.looks.add(1);
            }
            if shared.splits.claim(self.index(), now) {
                worker.see_to_tasks(self, now, has_job);
            } else if now.saturating_sub(self.poll_interval.yielded.get()) >= YIELD_NANOS {
                worker.leave_own_tasks();
                self.yield_cpu(now);
            } else {
                return;
            }
            self.keep_to_own_cpu();
        });
    }

    /// Shares child jobs that seemed too short, if other workers have no work.
    fn share_if_hungry(&self) {
        let shared = self.shared();
        if shared.is_hungry() && self.publish_all() {
            shared.post_child_job();
        }
    }

    /// Yields the CPU to other threads of the system, unless it is too soon `now`.
    fn yield_cpu(&self, now: u64) {
        if now >= self.poll_interval.yields_cpu_from.get() {
            let stays_until = self.absent(thread::yield_now);
            self.poll_interval.yields_cpu_from.set(stays_until);
        }
    }

    /// Calls `f`, in which other threads have the CPU. Returns until when the job processor must not yield
    /// again: for as long as `f` took.
    fn absent(&self, f: impl FnOnce()) -> u64 {
        let splits = &self.shared().splits;
        let began = splits.now();
        f();
        let ended = splits.now();
        self.poll_interval.began.set(ended);
        self.poll_interval.yielded.set(ended);
        ended + ended.saturating_sub(began).min(LONGEST_STAY_NANOS)
    }
}

impl Worker {
    /// Gives the tasks in this worker's queues to any worker.
    fn leave_own_tasks(&self) {
        if self.has_own_tasks() {
            self.move_tasks_to_injector();
            self.shared().fetch_strictly(Work::Task);
        }
    }

    /// 1 to 3 of the module's docs.
    pub fn see_to_tasks(&self, job_processor: &OwnJobs, now: u64, has_job: bool) {
        let shared = self.shared();
        self.collect_tasks(job_processor, has_job);
        job_processor.share_if_hungry();
        // Relaxed, as all of them: hints.
        let (has_asked, is_pressed) = (&shared.splits.has_asked, &shared.splits.is_pressed);
        if !shared.has_visible_tasks() {
            has_asked.store(false, Relaxed);
            is_pressed.store(false, Relaxed);
        } else if shared.is_hungry() && !has_asked.swap(true, Relaxed) {
            // This wakes a sleeper, or brings a spare worker while another worker sleeps on a latch. In both
            // cases a CPU should be free.
            shared.fetch_strictly(Work::Task);
        } else {
            let has_had_its_share = now >= job_processor.poll_interval.yields_to_tasks_from.get();
            let yields_to = if has_had_its_share { shared.begin_yield(self.index()) } else { None };
            if let Some(yields_to) = yields_to {
                return self.yield_to_tasks(job_processor, yields_to);
            }
            // A worker may have fallen asleep since the first look.
            shared.fetch_strictly(Work::Task);
            is_pressed.fetch_or(has_had_its_share, Relaxed);
        }
        job_processor.yield_cpu(now);
    }

    /// `YieldSleep`, `YieldOver`.
    fn yield_to_tasks(&self, job_processor: &OwnJobs, yields_to: YieldsTo) {
        let splits = &self.shared().splits;
        splits.has_asked.store(false, Relaxed);
        if yields_to == YieldsTo::Called {
            splits.is_pressed.store(false, Relaxed);
        }
        self.processor().metrics.yields.add(1);
        let polls_before = self.shared().polls_of_spares();
        let stays_until = job_processor.absent(|| self.processor().yield_parker.park(Some(LIMIT)));
        job_processor.poll_interval.yields_to_tasks_from.set(stays_until);
        let are_tasks_done = self.shared().end_yield(self.index());
        let is_in_vain = || self.shared().polls_of_spares() == polls_before;
        if !are_tasks_done && yields_to == YieldsTo::Active && is_in_vain() {
            // The spare worker that this worker relied on computes itself.
            splits.is_pressed.store(true, Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Builder;
    use crate::scheduler::context;
    use crate::scheduler::poll_interval::{LONGEST_POLL_INTERVAL, PollInterval};

    #[test]
    fn an_interval_ends_after_so_many_splits_one_by_one_or_at_once() {
        let poll_interval = PollInterval::new();
        poll_interval.left.set(10);
        assert!(!poll_interval.pass() && !poll_interval.pass_many(7));
        assert_eq!(poll_interval.left(), 2);
        assert!(!poll_interval.pass() && poll_interval.pass());
        poll_interval.left.set(10);
        assert!(
            poll_interval.pass_many(11),
            "a publish budget may be longer than the rest of the poll interval"
        );
    }

    #[test]
    fn a_processor_that_was_stopped_for_long_does_not_stay_for_as_long() {
        let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (ended, stays_until) = in_pool(&runtime, |job_processor| {
            let stays_until =
                job_processor.absent(|| std::thread::sleep(Duration::from_nanos(2 * LONGEST_STAY_NANOS)));
            (job_processor.poll_interval.yielded.get(), stays_until)
        });
        assert_eq!(stays_until, ended + LONGEST_STAY_NANOS);
    }

    /// Returns what `f` returns for the job processor of the only worker, in a computation.
    fn in_pool<T: Send + 'static>(
        runtime: &crate::Runtime,
        f: impl FnOnce(&OwnJobs) -> T + Send + 'static,
    ) -> T {
        // SAFETY: (1) used in this call only.
        let computation = runtime.handle().compute(|| f(unsafe { context::job_processor() }.unwrap()));
        runtime.block_on(computation).unwrap()
    }

    #[test]
    fn an_injected_job_is_looked_at_early_whatever_was_before() {
        let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        in_pool(&runtime, |job_processor| job_processor.poll_interval.length.set(LONGEST_POLL_INTERVAL));
        let length = in_pool(&runtime, |job_processor| job_processor.poll_interval.length.get());
        assert!(length <= 2, "{length}");
    }

    /// Another worker claims each look, and does not see into this worker's queues.
    #[test]
    fn a_worker_that_does_not_look_gives_its_own_tasks_away() {
        let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let polls = async {
            let tasks = [(); 2].map(|()| crate::spawn(async {}));
            // SAFETY: (1) used in this call only.
            let job_processor = unsafe { context::job_processor() }.unwrap();
            let has_own_tasks = || job_processor.with_worker(Worker::has_own_tasks);
            let before = has_own_tasks();
            let splits = &job_processor.shared().splits;
            while splits.now() < YIELD_NANOS {
                std::hint::spin_loop();
            }
            job_processor.poll_interval.yielded.set(0);
            splits.last.store(u64::MAX, Relaxed);
            job_processor.look(false);
            splits.last.store(0, Relaxed);
            (before, has_own_tasks(), tasks)
        };
        let (before, after, tasks) = runtime.block_on(runtime.spawn(polls)).unwrap();
        assert_eq!((before, after), (true, false));
        tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
    }

    #[test]
    fn a_processor_that_was_away_for_others_looks_at_once() {
        let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let has_looked = in_pool(&runtime, |job_processor| {
            let splits = &job_processor.shared().splits;
            job_processor.poll_interval.yields_cpu_from.set(u64::MAX);
            // The interval since the beginning counts, too.
            while splits.now() < INTERVAL_NANOS {
                std::hint::spin_loop();
            }
            splits.last.store(0, Relaxed);
            job_processor.look(false);
            splits.last.load(Relaxed) != 0
        });
        assert!(has_looked);
    }
}
