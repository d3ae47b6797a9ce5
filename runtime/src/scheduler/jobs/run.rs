//! What a worker, or an external thread, runs of the jobs that wait.

use crate::job::{JobRef, Tag};
use crate::scheduler::away::{OnChildJobs, Role};
use crate::scheduler::idle::Work;
use crate::scheduler::injected::Injected;
use crate::scheduler::job_processor::JobProcessor;
use crate::scheduler::owner::OwnJobs;
use crate::scheduler::worker::Worker;

/// The kinds of jobs from other threads.
const KINDS: usize = 3;

impl OwnJobs {
    /// Publishes the child jobs that lie here, and wakes other workers for them, because this thread is about
    /// to block.
    ///
    /// Also wakes workers for child jobs that were public before. A worker that overlooked them relied on
    /// this thread to come back to them; and no worker was woken for child jobs that were published only for
    /// a measurement (`publish.rs`).
    #[cold]
    #[inline(never)]
    pub fn expose_child_jobs(&self) {
        self.publish_all();
        if self.has_public_child_jobs() || !self.detached.is_empty() {
            self.shared().post_strictly(Work::Job);
        }
    }

    /// As [`expose_child_jobs`](Self::expose_child_jobs), on an external thread that blocks until the result
    /// is dropped. It is none of the workers that `away/mod.rs` counts as blocked. So it counts as a thread
    /// that waits on top of child jobs: a spare worker that is there because workers wait for latches would
    /// leave the jobs otherwise.
    pub fn expose_while_blocked(&self) -> OnChildJobs<'_> {
        let on_child_jobs = self.shared().away.wait_on_child_jobs();
        self.publish_all();
        if self.has_public_child_jobs() {
            // Before the post. It may wake a waiter that may not run them, and a worker that is on its way
            // back to its wait is not counted as one that waits. The fence of this pairs with that of
            // `announce_wait`: either `Admit` sees the waiter's bit here, or the waiter sees the count above
            // and the jobs (`leave_for_others`).
            self.shared().fetch_strictly(Work::Task);
        }
        self.expose_child_jobs();
        on_child_jobs
    }

    /// Runs the detached jobs that lie here. Does nothing inside an isolated region, or on an external
    /// thread.
    pub fn run_detached(&self) {
        while self.waits_for() == Tag::NONE && !std::thread::panicking() {
            let Some(job) = self.take_detached() else { break };
            // SAFETY: (1) the job was just claimed.
            self.in_surroundings(|| self.with_worker(|worker| unsafe { worker.run_job(job) }));
        }
    }

    /// As [`Worker::yield_to_job`]. On an external thread, runs only a job of that thread's call. On a stack
    /// that unwinds, runs none and returns false: see `wait.rs`.
    pub fn yield_to_job(&self, is_local: bool) -> bool {
        if std::thread::panicking() {
            return false;
        }
        if !self.is_external() {
            return self.with_worker(|worker| worker.yield_to_job(self, is_local));
        }
        let tag = self.waits_for();
        let local = self.pop_anywhere().or_else(|| self.take_broadcast());
        let job = local.or_else(|| match is_local {
            true => None,
            false => self
                .steal_from_others(0, |victim| victim.steal(tag))
                .or_else(|| self.shared().injected_jobs.take_install(tag)),
        });
        // SAFETY: (1) the job was just claimed.
        job.inspect(|&job| self.in_surroundings(|| unsafe { self.run(job) })).is_some()
    }
}

impl Worker {
    /// Runs a job that this worker need not steal, in this order: jobs that earlier jobs of this worker left
    /// behind, jobs that were spawned here, jobs for this job processor alone, and injected jobs. So a
    /// broadcast comes after the jobs that were spawned before it. Returns whether it ran a job.
    pub fn run_next_job(&self) -> bool {
        let Some(job_processor) = self.job_processor() else { return false };
        self.free_kept_regions(job_processor);
        // SAFETY: (1) the stack of this thread has no frame of a job, so there is no join job.
        let own = unsafe { job_processor.pop(0) }
            .or_else(|| job_processor.take_detached())
            .or_else(|| job_processor.take_overflow());
        match own {
            // SAFETY: (1) the job was just claimed.
            Some(job) => unsafe { self.run_job(job) },
            None => return self.run_job_from_others(),
        }
        true
    }

    /// Frees the regions that guards have left. The worker is outside of all computations.
    #[inline]
    pub fn free_kept_regions(&self, job_processor: &OwnJobs) {
        if job_processor.has_kept_regions() {
            // The drop of hooks is foreign code.
            self.stop_searching_if_so();
            job_processor.free_regions();
        }
    }

    /// Runs a job that came from other threads. Returns whether there was one that this worker may run. The
    /// worker also calls this at each turn: otherwise detached jobs that always spawn another one would
    /// starve such a job.
    pub fn run_job_from_others(&self) -> bool {
        let Some(job_processor) = self.job_processor() else { return false };
        if !self.shared().injected_jobs.has_any() && job_processor.broadcasts.is_empty() {
            return false;
        }
        let is_extra = match self.ask_role() {
            Role::Full | Role::Begins => false,
            Role::Serves => self.shared().is_job_extra(self.index()),
            Role::Surplus => true,
        };
        if is_extra {
            return false;
        }
        // In turns, because no kind may keep the others waiting for ever.
        let first = self.first_kind.get();
        self.first_kind.set((first + 1) % KINDS);
        (first..first + KINDS).any(|kind| self.run_job_of_kind(job_processor, kind % KINDS))
    }

    /// Runs a job from other threads: 0 a broadcast, 1 an `install`, 2 another injected job. Returns whether
    /// there was one.
    fn run_job_of_kind(&self, job_processor: &OwnJobs, kind: usize) -> bool {
        let injected_jobs = &self.shared().injected_jobs;
        let job = match kind {
            0 => job_processor.broadcasts.pop_front(),
            1 => injected_jobs.take_install(Tag::NONE).inspect(|_| self.took_injected_job()),
            _ => {
                let injected = injected_jobs.take_injected().inspect(|_| self.took_injected_job());
                return injected.map(|injected| self.run_injected(injected)).is_some();
            }
        };
        // SAFETY: (1) the job was just claimed.
        job.map(|job| unsafe { self.run_job(job) }).is_some()
    }

    fn took_injected_job(&self) {
        self.processor().metrics.injected_jobs.add(1);
    }

    fn run_injected(&self, injected: Injected) {
        match injected {
            // SAFETY: (1) the job was claimed: an `Injected` belongs to the thread that takes it.
            Injected::Spawn(job) => unsafe { self.run_job(job) },
            Injected::Compute(task) => {
                self.begin_job();
                let _outer = self.processor().polling.begin_computation(&task);
                let is_over = self.shared().lifecycle.has_begun();
                self.see_to_others_first();
                self.computing(|| if is_over { task.cancel() } else { task.run() });
                self.shared().job_ended();
            }
        }
    }

    /// An injected job begins. Its first part may be long, so this is a split point and the end of a poll
    /// interval.
    fn see_to_others_first(&self) {
        if let Some(job_processor) = self.job_processor() {
            job_processor.restart_poll_interval();
            self.computing(|| job_processor.pass_split(false));
        }
    }

    /// Runs a job on this thread, from the loop or in the middle of a poll or another job. Other threads can
    /// take the worker's tasks meanwhile.
    ///
    /// # Safety
    /// 1. The job was claimed for this thread, and has not run.
    pub unsafe fn run_job(&self, job: JobRef) {
        let job_processor = self.job_processor().expect("only runtimes with workers have jobs");
        self.begin_job();
        let _outer = self.processor().polling.begin_job();
        // SAFETY: (1).
        self.computing(|| unsafe { job_processor.run(job) });
    }

    /// The first job that `steal` takes from another job processor. Asks each job processor without a public
    /// job to publish one.
    fn steal_by(&self, steal: impl Fn(&JobProcessor) -> Option<JobRef>) -> Option<JobRef> {
        self.job_processor()?.steal_from_others(self.random_below(self.shared().processors.len()), steal)
    }

    /// Takes a job from another job processor, for a worker without any work. If it takes several, the others
    /// go to the worker's own job processor.
    ///
    /// # Safety
    /// 1. The worker is in no job.
    pub unsafe fn steal_job(&self) -> Option<JobRef> {
        let own = self.job_processor()?;
        if self.role() == Role::Begins {
            return self.steal_detached(own);
        }
        let most = own.end_batch();
        // SAFETY: (1).
        self.steal_by(|victim| unsafe { own.steal_several(victim, most) })
            .or_else(|| self.steal_detached(own))
    }

    fn steal_detached(&self, own: &OwnJobs) -> Option<JobRef> {
        let mut job_processors =
            self.shared().job_processors().filter(|job_processor| job_processor.index() != own.index());
        // Takes the oldest job. The owner takes the youngest, if its order is last in, first out.
        job_processors.find_map(|job_processor| job_processor.detached.pop_front())
    }

    /// Runs a job in the middle of another job, or of a task's poll, which asked for this. With `is_local`,
    /// runs only a job of this job processor. In an isolated region, runs only child jobs of that region.
    /// Returns whether it ran one.
    pub fn yield_to_job(&self, job_processor: &OwnJobs, is_local: bool) -> bool {
        let tag = job_processor.waits_for();
        let is_free = tag == Tag::NONE;
        let local = job_processor
            .pop_anywhere()
            .or_else(|| if is_free { job_processor.take_detached() } else { None })
            .or_else(|| job_processor.take_broadcast());
        let jobs = &self.shared().injected_jobs;
        let job = local.or_else(|| match is_local {
            true => None,
            false => self
                .steal_by(|victim| victim.steal(tag))
                .or_else(|| if is_free { self.steal_detached(job_processor) } else { None })
                .or_else(|| jobs.take_install(tag)),
        });
        if let Some(job) = job {
            // SAFETY: (1) the job was just claimed.
            job_processor.in_surroundings(|| unsafe { self.run_job(job) });
            return true;
        }
        let injected = if is_local || !is_free { None } else { jobs.take_injected() };
        let has_injected = injected.is_some();
        if let Some(injected) = injected {
            job_processor.run_apart(|| self.run_injected(injected));
        }
        has_injected
    }
}
