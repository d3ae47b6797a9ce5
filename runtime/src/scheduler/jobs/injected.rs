//! Injected jobs: they come from outside of the workers. And how long the workers stay for them.
//!
//! An *injected job* begins a computation. There are three kinds: `install` (a thread
//! waits for it), `compute` (a task waits for it, or nothing), and `spawn` from a thread without a job
//! processor (nothing waits for it). A thread that waits for a child job may run the first kind but not the
//! others, so the kinds have separate queues.
//!
//! # Closing
//! A job may need every worker (`broadcast`), and a job that is spawned during the shutdown still runs. So
//! the workers leave together (`lifecycle.rs`):
//! ```text
//! live   one word: the number of injected and detached jobs that have not ended; CLOSING, once the shutdown
//!        has begun; CLOSED
//!
//! CountJob      a job is pushed: live += 1, unless CLOSED
//! UncountJob    it has ended: live -= 1; the last one, if CLOSING, unparks all
//! BeginClosing  the shutdown begins: CLOSING, then all are unparked
//! CloseJobs     all workers have arrived: 0 → CLOSED (CAS); none leaves before one has succeeded
//! ```
//! `CountJob` and `CloseJobs` are read-modify-writes of one word. Either the injected job is counted and
//! `CloseJobs` fails, so all workers stay until `UncountJob`. Or `CountJob` finds CLOSED, and the caller runs
//! the injected job itself, in place. `UncountJob` and `BeginClosing` are read-modify-writes of that word,
//! too. If `BeginClosing` comes first, `UncountJob` unparks all workers. If `UncountJob` comes first, a
//! worker that is unparked behind `BeginClosing` finds nothing counted. (If `BeginClosing` set a flag of its
//! own, `UncountJob` could miss it, and a worker behind `BeginClosing` could miss `UncountJob`.)

use crate::config::{IndexedHook, PanicHandler};
use crate::job::{JobRef, Tag};
use crate::loom::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::loom::sync::atomic::{AtomicUsize, fence};
use crate::queue::LockedList;
use crate::scheduler::away::Role;
use crate::scheduler::idle::Work;
use crate::scheduler::job_processor::{JobProcessor, outside_of_computations};
use crate::scheduler::shared::Shared;
use crate::scheduler::worker::Worker;
use crate::task::Runnable;
use crate::util::unwind::{self, Payload};

/// The workers take no injected job any more.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// The shutdown has begun.
const CLOSING: usize = CLOSED >> 1;

/// An injected job that no thread waits for.
#[derive(Debug)]
pub enum Injected {
    /// `spawn`.
    Spawn(JobRef),
    /// `compute`.
    Compute(Runnable),
}

/// See the module's docs.
#[derive(Debug)]
pub struct InjectedJobs {
    live: AtomicUsize,
    installs: LockedList<JobRef>,
    injected: LockedList<Injected>,
}

impl InjectedJobs {
    pub fn new() -> Self {
        Self { live: AtomicUsize::new(0), installs: LockedList::new(), injected: LockedList::new() }
    }

    /// `CountJob`. Returns false once the workers are leaving.
    pub fn try_begin(&self) -> bool {
        // Relaxed: this word needs no other data. The lock of the job's list hands the job over.
        let before = self.live.fetch_add(1, Relaxed);
        if before & CLOSED != 0 {
            self.live.fetch_sub(1, Relaxed);
            return false;
        }
        true
    }

    /// `UncountJob`. Returns true if the caller has to unpark all workers.
    pub fn end(&self) -> bool {
        // Release: pairs with `CloseJobs`, so that a worker that leaves sees what the injected jobs did.
        self.live.fetch_sub(1, Release) == CLOSING | 1
    }

    /// `BeginClosing`. The caller unparks all workers.
    pub fn begin_closing(&self) {
        // Relaxed: one word; the unparks come after it.
        self.live.fetch_or(CLOSING, Relaxed);
    }

    /// `CloseJobs`. Returns whether the workers may leave. Called once the shutdown has begun.
    pub fn try_close(&self) -> bool {
        // Acquire: pairs with `UncountJob`.
        match self.live.compare_exchange(CLOSING, CLOSING | CLOSED, Acquire, Acquire) {
            Ok(_) => true,
            Err(actual) => actual & CLOSED != 0,
        }
    }

    /// Whether `CloseJobs` has succeeded: from now on [`try_begin`](Self::try_begin) returns false.
    pub fn is_closed(&self) -> bool {
        // Relaxed: as `CountJob`.
        self.live.load(Relaxed) & CLOSED != 0
    }

    /// The last worker has left, and perhaps never ran. No injected job is taken any more.
    pub fn close(&self) {
        // Relaxed: as `CountJob`.
        self.live.fetch_or(CLOSED, Relaxed);
    }

    /// Whether an injected job or a detached job waits or runs: a hint.
    pub fn is_any_live(&self) -> bool {
        // Acquire: if a thread reads 0 behind a fence, it came before the push of the injected job.
        self.live.load(Acquire) & !CLOSED != 0
    }

    /// Takes an injected job that a waiter of the isolated region `tag` may run.
    pub fn take_install(&self, tag: Tag) -> Option<JobRef> {
        self.installs.take_first(|job| tag.may_run(job.tag()))
    }

    /// Whether [`take_install`](Self::take_install) would find something.
    pub fn has_install(&self, tag: Tag) -> bool {
        self.installs.has(|job| tag.may_run(job.tag()))
    }

    pub fn has_installs(&self) -> bool {
        !self.installs.is_empty()
    }

    pub fn has_injected(&self) -> bool {
        !self.injected.is_empty()
    }

    fn take_injected(&self) -> Option<Injected> {
        self.injected.pop_front()
    }

    /// Whether an injected job waits: a hint.
    pub fn has_any(&self) -> bool {
        self.has_installs() || self.has_injected()
    }
}

impl Shared {
    /// Queues a job that a thread outside waits for. Returns false if the workers are leaving; then the
    /// caller runs the job in place.
    ///
    /// # Safety
    /// 1. The job lives until it has run.
    pub unsafe fn push_install(&self, job: JobRef) -> bool {
        if !self.injected_jobs.try_begin() {
            return false;
        }
        self.queue_install(job);
        true
    }

    /// The second half of [`push_install`](Self::push_install). The job was counted, or an injected job that
    /// was counted keeps the workers here.
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

    /// The second half of [`push_injected`](Self::push_injected), for an injected job that was counted.
    pub fn queue_injected(&self, injected: Injected) {
        self.injected_jobs.injected.push_back(injected);
        self.post_strictly(Work::DetachedJob);
    }

    /// Queues a detached job, which was counted, on the job processor where it was spawned. For the owner of
    /// `job_processor`.
    pub fn queue_detached(&self, job_processor: &JobProcessor, job: JobRef) {
        job_processor.detached.push_back(job);
        // Strictly, although this thread has a job processor: it may not come back to its queues, see
        // `use_current_thread`.
        self.post_strictly(Work::DetachedJob);
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

    /// Queues one job for each job processor, in the order of the job processors. Only that job processor may
    /// run it. The jobs were counted.
    pub fn queue_broadcast(&self, jobs: impl Iterator<Item = JobRef>) {
        for (index, job) in (0..self.config.workers).zip(jobs) {
            self.job_processor(index).broadcasts.push_back(job);
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
            self.idle.post_job();
            if !self.fetch(Work::Job) {
                self.samplers.wake(self);
            }
        }
    }

    /// Makes each job processor apply the rules of `publish.rs` at its next push. There the job
    /// processor asks whether its computation was cancelled. Any thread may call this after it has marked the
    /// computation: `CancelFence` and `EndBudgets` of `parallel/cancel.rs`.
    pub fn end_budgets(&self) {
        // SeqCst: pairs with the fence of `JobProcessor::set_budget`.
        fence(SeqCst);
        self.job_processors().for_each(JobProcessor::ask);
    }

    /// Whether there is a job that worker `index` could run, if it has no work and has this role.
    pub fn has_jobs_for(&self, index: usize, role: Role) -> bool {
        let has_jobs = |job_processor: &JobProcessor| {
            job_processor.has_public_child_jobs() || !job_processor.detached.is_empty()
        };
        let own = || self.job_processors().find(|job_processor| job_processor.index() == index);
        match role {
            Role::Full => {
                self.injected_jobs.has_any()
                    || self.job_processors().any(has_jobs)
                    || own().is_some_and(JobProcessor::has_broadcast)
            }
            Role::Begins => {
                let has_detached =
                    self.job_processors().any(|job_processor| !job_processor.detached.is_empty());
                self.injected_jobs.has_any() || has_detached || own().is_some_and(has_jobs)
            }
            Role::Serves => {
                self.injected_jobs.has_any() && !self.splits.are_passed_by_others_than(index)
                    || own().is_some_and(has_jobs)
            }
            Role::Surplus => own().is_some_and(has_jobs),
        }
    }
}

/// Methods for the holder of the job processor.
impl JobProcessor {
    /// Publishes the child jobs that lie here, and wakes other workers for them, because this thread is about
    /// to block.
    ///
    /// Also wakes workers for child jobs that were public before. A worker that overlooked them relied on
    /// this thread to come back to them; and no worker was woken for the jobs of a region too short to share.
    ///
    /// # Safety
    /// 1. The calling thread is the owner.
    #[cold]
    #[inline(never)]
    pub unsafe fn expose_child_jobs(&self) {
        // SAFETY: (1).
        unsafe { self.publish_all() };
        if self.has_public_child_jobs() || !self.detached.is_empty() {
            self.shared().post_strictly(Work::Job);
        }
    }

    /// Runs the detached jobs that lie here. Does nothing inside an isolated region, or on an external
    /// thread.
    pub fn run_detached(&self) {
        while self.waits_for() == Tag::NONE && !std::thread::panicking() {
            let Some(job) = self.take_detached() else { break };
            self.in_surroundings(|| self.with_worker(|worker| worker.run_job(job)));
        }
    }

    /// As [`Worker::yield_to_job`]. On an external thread, runs only a job of that thread's call. On a stack
    /// that unwinds, runs none: see `wait.rs`.
    pub fn yield_to_job(&self, is_local: bool) -> bool {
        if std::thread::panicking() {
            return false;
        }
        if !self.is_external() {
            return self.with_worker(|worker| worker.yield_to_job(self, is_local));
        }
        let tag = self.waits_for();
        // SAFETY: the calling thread holds the job processor.
        let local = unsafe { self.pop_anywhere() }.or_else(|| self.take_broadcast());
        let job = local.or_else(|| match is_local {
            true => None,
            false => self
                .steal_from_others(0, |victim| victim.steal(tag))
                .or_else(|| self.shared().injected_jobs.take_install(tag)),
        });
        // SAFETY: as above; the job was claimed.
        job.inspect(|&job| self.in_surroundings(|| unsafe { self.run(job) })).is_some()
    }
}

impl Worker {
    /// Runs a job that this worker need not steal, in this order: jobs that earlier jobs of this worker left
    /// behind, jobs that were spawned here, jobs for this job processor alone, and injected jobs. So a
    /// broadcast comes after the jobs that were spawned before it.
    pub fn run_next_job(&self) -> bool {
        let Some(job_processor) = self.job_processor() else { return false };
        // SAFETY: this thread is the job processor's owner; its stack has no frame of a job, so there is no
        // join job.
        let own = unsafe { job_processor.pop(0) }
            .or_else(|| job_processor.take_detached())
            .or_else(|| job_processor.take_overflow());
        match own {
            Some(job) => self.run_job(job),
            None => return self.run_job_from_others(),
        }
        true
    }

    /// Runs a job that came from other threads. Otherwise detached jobs that always spawn another one would
    /// starve it.
    pub fn run_job_from_others(&self) -> bool {
        let Some(job_processor) = self.job_processor() else { return false };
        if !self.shared().injected_jobs.has_any() && job_processor.broadcasts.is_empty() {
            return false;
        }
        // Where computations pass split points, one more computation would only take a CPU from them.
        let is_extra = match self.ask_role() {
            Role::Full | Role::Begins => false,
            Role::Serves => self.shared().splits.are_passed_by_others_than(self.index()),
            Role::Surplus => true,
        };
        if is_extra {
            return false;
        }
        let shared = self.shared();
        if let Some(job) = job_processor.broadcasts.pop_front() {
            self.run_job(job);
        } else if let Some(job) = shared.injected_jobs.take_install(Tag::NONE) {
            self.run_job(job);
        } else if let Some(injected) = shared.injected_jobs.take_injected() {
            self.run_injected(injected);
        } else {
            return false;
        }
        true
    }

    fn run_injected(&self, injected: Injected) {
        match injected {
            Injected::Spawn(job) => self.run_job(job),
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
            self.computing(|| job_processor.pass_split());
        }
    }

    /// Runs a job on a fresh stack.
    pub fn run_job(&self, job: JobRef) {
        let job_processor = self.job_processor().expect("only runtimes with workers have jobs");
        self.begin_job();
        let _outer = self.processor().polling.begin_job();
        // SAFETY: this thread is the job processor's owner; the job was taken from a queue.
        self.computing(|| unsafe { job_processor.run(job) });
    }

    /// The first job that `steal` takes from another job processor. Asks each job processor without a public
    /// job to publish one.
    fn steal_by(&self, steal: impl Fn(&JobProcessor) -> Option<JobRef>) -> Option<JobRef> {
        self.job_processor()?.steal_from_others(self.random_below(self.shared().processors.len()), steal)
    }

    /// Takes a job from another job processor, for a worker without any work. If it takes several, the others
    /// go to the worker's own job processor.
    pub fn steal_job(&self) -> Option<JobRef> {
        let own = self.job_processor()?;
        if self.role() == Role::Begins {
            return self.steal_detached(own);
        }
        let most = own.end_batch();
        // SAFETY: this thread is the job processor's owner.
        self.steal_by(|victim| unsafe { own.steal_several(victim, most) })
            .or_else(|| self.steal_detached(own))
    }

    fn steal_detached(&self, own: &JobProcessor) -> Option<JobRef> {
        let mut job_processors =
            self.shared().job_processors().filter(|job_processor| job_processor.index() != own.index());
        // Takes the oldest job. The owner takes the youngest, if its order is last in, first out.
        job_processors.find_map(|job_processor| job_processor.detached.pop_front())
    }

    /// Runs a job in the middle of another job, or of a task's poll, which asked for this. With `is_local`,
    /// runs only a job of this job processor. In an isolated region, runs only child jobs of that region. For
    /// the owner of `job_processor`.
    pub fn yield_to_job(&self, job_processor: &JobProcessor, is_local: bool) -> bool {
        let tag = job_processor.waits_for();
        let is_free = tag == Tag::NONE;
        // SAFETY: this thread is the job processor's owner.
        let local = unsafe { job_processor.pop_anywhere() }
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
            job_processor.in_surroundings(|| self.run_job(job));
            return true;
        }
        let injected = if is_local || !is_free { None } else { jobs.take_injected() };
        let has_injected = injected.is_some();
        if let Some(injected) = injected {
            outside_of_computations(|| job_processor.in_surroundings(|| self.run_injected(injected)));
        }
        has_injected
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
