//! Jobs are queued, and workers are woken for them; see `injected.rs`.

use crate::config::{IndexedHook, PanicHandler};
use crate::job::JobRef;
use crate::loom::sync::atomic::Ordering::SeqCst;
use crate::loom::sync::atomic::fence;
use crate::scheduler::away::Role;
use crate::scheduler::idle::Work;
use crate::scheduler::injected::Injected;
use crate::scheduler::job_processor::JobProcessor;
use crate::scheduler::owner::OwnJobs;
use crate::scheduler::shared::Shared;
use crate::util::unwind::{self, Payload};

impl Shared {
    /// Queues a job that a thread outside waits for. The job was counted, or an injected job that was counted
    /// keeps the workers here.
    ///
    /// No memory depends on the count. If the job is not counted, the workers may leave without it, and then
    /// it never runs. A thread that runs it keeps the shared state by other means, as a worker does by BIAS.
    /// The job itself stays until it has run, by duty 1 of [`JobRef::new`].
    pub fn queue_install(&self, job: JobRef) {
        self.injected_jobs.installs.push_back(job);
        self.post_strictly(Work::Job);
    }

    /// Queues an injected job that no thread on a job processor waits for. Gives it back if the workers are
    /// leaving.
    pub fn push_injected(&self, injected: Injected) -> Result<(), Injected> {
        if !self.injected_jobs.try_begin() {
            return Err(injected);
        }
        self.queue_injected(injected);
        Ok(())
    }

    /// The second half of [`push_injected`](Self::push_injected), for an injected job that was counted. The
    /// count matters as in [`queue_install`](Self::queue_install).
    pub fn queue_injected(&self, injected: Injected) {
        self.injected_jobs.injected.push_back(injected);
        self.post_strictly(Work::Task);
    }

    /// Queues a detached job, which was counted, on the job processor where it was spawned.
    pub fn queue_detached(&self, job_processor: &OwnJobs, job: JobRef) {
        job_processor.detached.push_back(job);
        // Strictly, although this thread has a job processor: it may not come back to its queues, see
        // `use_current_thread`.
        self.post_strictly(Work::Task);
    }

    /// JobFence to ClearWaiter of `idle.rs`, without a test whether they would change anything, because the
    /// pusher of `work` does not come back for it.
    pub fn post_strictly(&self, work: Work) {
        self.idle.fence_push();
        self.idle.post_job();
        self.fetch(work);
    }

    /// Counts `count` jobs, or none of them once the workers are leaving.
    pub fn try_begin_many(&self, count: usize) -> bool {
        // Once the first job is counted, the workers stay.
        (0..count).all(|_| self.injected_jobs.try_begin())
    }

    /// Queues one job for each permanent worker, in the order of their indices. Only that worker's job
    /// processor may run it. The jobs were counted.
    pub fn queue_broadcast(&self, jobs: impl Iterator<Item = JobRef>) {
        {
            let _order = self.injected_jobs.broadcasts.lock();
            for (index, job) in (0..self.config.workers).zip(jobs) {
                self.job_processor(index).broadcasts.push_back(job);
            }
        }
        // SeqCst: between the pushes and the reads that follow the unparks. The next sleep sees a token that
        // is left.
        self.idle.fence_push();
        self.unpark_all();
    }

    /// `UncountJob`: an injected job or a detached job has ended.
    pub fn job_ended(&self) {
        if self.injected_jobs.end() {
            self.unpark_all();
        }
    }

    /// Calls a pool's handler on the thread of job processor `index`. A panic of the handler is treated like
    /// that of a detached job.
    pub fn call_handler(&self, handler: &Option<IndexedHook>, index: usize) {
        if let Some(handler) = handler {
            if let Err(payload) = unwind::catch(|| handler(index)) {
                self.detached_panicked(payload);
            }
        }
    }

    /// A detached job has panicked. (The panic hook has already printed the message.)
    pub fn detached_panicked(&self, payload: Payload) {
        detached_panicked(self.config.panic_handler.as_ref(), payload);
    }

    /// There is a child job that other workers could run. Its pusher comes back for it.
    #[inline]
    pub fn post_child_job(&self) {
        // Mostly all workers are busy, and have seen a post already.
        if self.idle.is_job_news(|| self.extra()) {
            self.post_job_news();
        }
    }

    #[cold]
    #[inline(never)]
    fn post_job_news(&self) {
        self.idle.post_job();
        if !self.fetch(Work::Job) {
            self.samplers.wake(self);
        }
    }

    /// Makes each job processor apply the rules of `publish.rs` at its next push. There the job
    /// processor asks whether its computation was cancelled. Any thread may call this after it has marked the
    /// computation: `CancelFence` and `EndBudgets` of `parallel/cancel.rs`.
    pub fn end_budgets(&self) {
        // SeqCst: pairs with the fence of `OwnJobs::set_budget`.
        fence(SeqCst);
        self.job_processors().for_each(JobProcessor::ask);
    }

    /// Whether spare worker `index`, which serves, leaves injected jobs to the others: a hint. One more
    /// computation would only take a CPU from those that pass split points, or from as many spare workers as
    /// there are workers.
    pub fn is_job_extra(&self, index: usize) -> bool {
        self.splits.are_passed_by_others_than(index) || self.leaves_jobs()
    }

    /// Whether so many spare workers compute that those that serve leave injected jobs to the others: a hint.
    pub fn leaves_jobs(&self) -> bool {
        // After the shutdown has begun, `compute` jobs are only cancelled.
        self.monitor.leaves_jobs() && !self.lifecycle.has_begun()
    }

    /// Whether there is a job that a worker with this role could run, if it has no work. `own` is its job
    /// processor. Without `own`, jobs that only one job processor may run do not count.
    pub fn has_jobs_for(&self, own: Option<&OwnJobs>, role: Role) -> bool {
        let has_jobs = |job_processor: &JobProcessor| {
            job_processor.has_public_child_jobs() || !job_processor.detached.is_empty()
        };
        match role {
            Role::Full => {
                self.injected_jobs.has_any()
                    || self.job_processors().any(has_jobs)
                    || own.is_some_and(OwnJobs::has_broadcast)
            }
            Role::Begins => {
                let has_detached =
                    self.job_processors().any(|job_processor| !job_processor.detached.is_empty());
                self.injected_jobs.has_any() || has_detached || own.is_some_and(|own| has_jobs(own))
            }
            Role::Serves => {
                let index = own.map_or(usize::MAX, |own| own.index());
                self.injected_jobs.has_any() && !self.is_job_extra(index)
                    || own.is_some_and(|own| has_jobs(own))
            }
            Role::Surplus => own.is_some_and(|own| has_jobs(own)),
        }
    }
}

/// A detached job has panicked. `handler` is the panic handler of its pool, if there is one.
pub fn detached_panicked(handler: Option<&PanicHandler>, payload: Payload) {
    match handler {
        // A panic in the handler has nowhere to go; Rayon aborts.
        Some(handler) => {
            if unwind::catch(|| handler(payload)).is_err() {
                unwind::abort("the panic handler of a thread pool panicked");
            }
        }
        None if cfg!(feature = "abort-on-detached-panic") => {
            unwind::abort("a detached job panicked, and there is no panic handler")
        }
        None => unwind::drop_quietly(payload),
    }
}
