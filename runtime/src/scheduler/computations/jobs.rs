//! Jobs that come from outside of the seats, and how long the workers stay for them.
//!
//! An *injected job* (a *root* in the code) begins a computation. There are three kinds: `install` (a thread
//! waits for it), `compute` (a task waits for it, or nothing), and `spawn` from a thread without a seat
//! (nothing waits for it). A thread that waits for a child job may run the first kind but not the others, so
//! the kinds have separate queues.
//!
//! # Closing
//! A job may need every worker (`broadcast`), and a job that is spawned during the shutdown still runs. So
//! the workers leave together (`lifecycle.rs`):
//! ```text
//! live   one word: the number of roots and detached jobs that have not ended; CLOSING, once the shutdown has
//!        begun; CLOSED
//! R1 a root is pushed: live += 1, unless CLOSED      C0 the shutdown begins: CLOSING, then all are unparked
//! R2 it has ended: live -= 1; the last one, if       C1 all workers have arrived: 0 → CLOSED (CAS); none
//!    CLOSING, unparks all                               leaves before one has succeeded
//! ```
//! R1 and C1 are read-modify-writes of one word. Either the root is counted and C1 fails, so all workers stay
//! until R2. Or R1 finds CLOSED, and the caller runs the root itself, in place. R2 and C0 are
//! read-modify-writes of that word, too. If C0 comes first, R2 unparks all workers. If R2 comes first, a
//! worker that is unparked behind C0 finds nothing counted. (If C0 set a flag of its own, R2 could miss it,
//! and a worker behind C0 could miss R2.)

use crate::config::{IndexedHook, PanicHandler};
use crate::job::{JobRef, Tag};
use crate::loom::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::loom::sync::atomic::{AtomicUsize, fence};
use crate::queue::Shelf;
use crate::scheduler::away::Role;
use crate::scheduler::idle::Work;
use crate::scheduler::seat::{Seat, may_run, outside_of_computations};
use crate::scheduler::shared::Shared;
use crate::scheduler::worker::Worker;
use crate::task::Runnable;
use crate::util::unwind::{self, Payload};

/// The workers take no root any more.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// The shutdown has begun.
const CLOSING: usize = CLOSED >> 1;

/// A job that no thread on a seat waits for.
#[derive(Debug)]
pub enum Root {
    /// `spawn`.
    Job(JobRef),
    /// `compute`.
    Task(Runnable),
}

/// See the module's docs.
#[derive(Debug)]
pub struct Jobs {
    live: AtomicUsize,
    installs: Shelf<JobRef>,
    roots: Shelf<Root>,
}

impl Jobs {
    pub fn new() -> Self {
        Self { live: AtomicUsize::new(0), installs: Shelf::new(), roots: Shelf::new() }
    }

    /// R1. Returns false once the workers are leaving.
    pub fn try_begin(&self) -> bool {
        // Relaxed: this word needs no other data. The lock of the root's list hands the root over.
        let before = self.live.fetch_add(1, Relaxed);
        if before & CLOSED != 0 {
            self.live.fetch_sub(1, Relaxed);
            return false;
        }
        true
    }

    /// R2. Returns true if the caller has to unpark all workers.
    pub fn end(&self) -> bool {
        // Release: pairs with C1, so that a worker that leaves sees what the roots did.
        self.live.fetch_sub(1, Release) == CLOSING | 1
    }

    /// C0. The caller unparks all workers.
    pub fn begin_closing(&self) {
        // Relaxed: one word; the unparks come after it.
        self.live.fetch_or(CLOSING, Relaxed);
    }

    /// C1. Returns whether the workers may leave. Called once the shutdown has begun.
    pub fn try_close(&self) -> bool {
        // Acquire: pairs with R2.
        match self.live.compare_exchange(CLOSING, CLOSING | CLOSED, Acquire, Acquire) {
            Ok(_) => true,
            Err(actual) => actual & CLOSED != 0,
        }
    }

    /// The last worker has left, and perhaps never ran. No root is taken any more.
    pub fn close(&self) {
        // Relaxed: as R1.
        self.live.fetch_or(CLOSED, Relaxed);
    }

    /// Whether a root or a detached job waits or runs: a hint.
    pub fn is_any_live(&self) -> bool {
        // Acquire: if a thread reads 0 behind a fence, it came before the push of the root.
        self.live.load(Acquire) & !CLOSED != 0
    }

    /// Takes a root that a waiter of the isolated region `tag` may run.
    pub fn take_install(&self, tag: Tag) -> Option<JobRef> {
        self.installs.take_first(|job| may_run(tag, job.tag()))
    }

    /// Whether [`take_install`](Self::take_install) would find something.
    pub fn has_install(&self, tag: Tag) -> bool {
        self.installs.has(|job| may_run(tag, job.tag()))
    }

    pub fn has_installs(&self) -> bool {
        !self.installs.is_empty()
    }

    pub fn has_roots(&self) -> bool {
        !self.roots.is_empty()
    }

    fn take_root(&self) -> Option<Root> {
        self.roots.pop_front()
    }

    /// Whether a root waits: a hint.
    pub fn has_any(&self) -> bool {
        self.has_installs() || self.has_roots()
    }
}

impl Shared {
    /// Queues a job that a thread outside waits for. Returns false if the workers are leaving; then the
    /// caller runs the job in place.
    ///
    /// # Safety
    /// 1. The job lives until it has run.
    pub unsafe fn push_install(&self, job: JobRef) -> bool {
        if !self.jobs.try_begin() {
            return false;
        }
        self.queue_install(job);
        true
    }

    /// The second half of [`push_install`](Self::push_install). The job was counted, or a root that was
    /// counted keeps the workers here.
    pub fn queue_install(&self, job: JobRef) {
        self.jobs.installs.push_back(job);
        self.post_strictly(Work::Job);
    }

    /// Queues a root that no thread on a seat waits for. Gives it back if the workers are leaving.
    pub fn push_root(&self, root: Root) -> Result<(), Root> {
        if !self.jobs.try_begin() {
            return Err(root);
        }
        self.queue_root(root);
        Ok(())
    }

    /// The second half of [`push_root`](Self::push_root), for a root that was counted.
    pub fn queue_root(&self, root: Root) {
        self.jobs.roots.push_back(root);
        self.post_strictly(Work::DetachedRoot);
    }

    /// Queues a detached job, which was counted, on the seat where it was spawned. For the owner of `seat`.
    pub fn queue_detached(&self, seat: &Seat, job: JobRef) {
        seat.detached.push_back(job);
        // Strictly, although this thread has a seat: it may not come back to its queues, see
        // `use_current_thread`.
        self.post_strictly(Work::DetachedRoot);
    }

    /// J2 to J5 of `idle.rs`, without a test whether they would change anything, because the pusher of `work`
    /// does not come back for it.
    pub fn post_strictly(&self, work: Work) {
        self.idle.fence_push();
        self.idle.post_job();
        self.fetch(work);
    }

    /// Counts `count` jobs, or none of them once the workers are leaving.
    pub fn try_begin_many(&self, count: usize) -> bool {
        // Once the first job is counted, the workers stay.
        (0..count).all(|_| self.jobs.try_begin())
    }

    /// Queues one job for each seat, in the order of the seats. Only that seat may run it. The jobs were
    /// counted.
    pub fn queue_broadcast(&self, jobs: impl Iterator<Item = JobRef>) {
        for (index, job) in (0..self.config.workers).zip(jobs) {
            self.seat(index).broadcasts.push_back(job);
        }
        // SeqCst: between the pushes and the reads that follow the unparks. The next sleep sees a token that
        // is left.
        self.idle.fence_push();
        self.unpark_all();
    }

    /// R2: a root or a detached job has ended.
    pub fn root_ended(&self) {
        if self.jobs.end() {
            self.unpark_all();
        }
    }

    /// Calls a pool's handler on the thread of seat `index`. A panic of the handler is treated like that of a
    /// detached job.
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
    pub fn post_piece(&self) {
        // Mostly all workers are busy, and have seen a post already.
        if self.idle.is_job_news(|| self.extra()) {
            self.idle.post_job();
            if !self.fetch(Work::Job) {
                self.samplers.wake(self);
            }
        }
    }

    /// Makes each seat apply the rules of `seat.rs` at its next push. There the seat asks whether its
    /// computation was cancelled. Any thread may call this after it has marked the computation: K2 and K3 of
    /// `parallel/cancel.rs`.
    pub fn end_grants(&self) {
        // SeqCst: pairs with the fence of `Seat::grant`.
        fence(SeqCst);
        self.seats().for_each(Seat::ask);
    }

    /// Whether there is a job that worker `index` could run, if it has no work and has this role.
    pub fn has_jobs_for(&self, index: usize, role: Role) -> bool {
        let has_jobs = |seat: &Seat| seat.has_public_pieces() || !seat.detached.is_empty();
        let own = || self.seats().find(|seat| seat.index() == index);
        match role {
            Role::Full => {
                self.jobs.has_any() || self.seats().any(has_jobs) || own().is_some_and(Seat::has_broadcast)
            }
            Role::Begins => {
                let has_detached = self.seats().any(|seat| !seat.detached.is_empty());
                self.jobs.has_any() || has_detached || own().is_some_and(has_jobs)
            }
            Role::Serves => {
                self.jobs.has_any() && !self.splits.are_passed_by_others_than(index)
                    || own().is_some_and(has_jobs)
            }
            Role::Surplus => own().is_some_and(has_jobs),
        }
    }
}

impl Seat {
    /// The first job that `steal` takes from another seat, beginning at `start`. Asks each seat without a
    /// public job to publish one. For the holder of this seat.
    pub fn steal_from_others(&self, start: usize, steal: impl Fn(&Seat) -> Option<JobRef>) -> Option<JobRef> {
        let others = self.shared().processors.iter_from(start).filter(|&(index, _)| index != self.index());
        others.filter_map(|(_, processor)| processor.seat.as_ref()).find_map(|victim| {
            let job = steal(victim);
            match job {
                Some(_) => self.restart_stride(),
                None => victim.ask(),
            }
            job
        })
    }
}

/// Methods for the holder of the seat.
impl Seat {
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
    pub unsafe fn expose_pieces(&self) {
        // SAFETY: (1).
        unsafe { self.publish_all() };
        if self.has_public_pieces() || !self.detached.is_empty() {
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
        // SAFETY: the calling thread holds the seat.
        let local = unsafe { self.pop_anywhere() }.or_else(|| self.take_broadcast());
        let job = local.or_else(|| match is_local {
            true => None,
            false => self
                .steal_from_others(0, |victim| victim.steal(tag))
                .or_else(|| self.shared().jobs.take_install(tag)),
        });
        // SAFETY: as above; the job was claimed.
        job.inspect(|&job| self.in_surroundings(|| unsafe { self.run(job) })).is_some()
    }
}

impl Worker {
    /// Runs a job that this worker need not steal, in this order: jobs that earlier jobs of this worker left
    /// behind, jobs that were spawned here, jobs for this seat alone, and roots. So a broadcast comes after
    /// the jobs that were spawned before it.
    pub fn run_next_job(&self) -> bool {
        let Some(seat) = self.seat() else { return false };
        // SAFETY: this thread is the seat's owner; its stack has no frame of a job, so nothing is anchored.
        let own = unsafe { seat.pop(0) }.or_else(|| seat.take_detached()).or_else(|| seat.take_overflow());
        match own {
            Some(job) => self.run_job(job),
            None => return self.run_job_from_others(),
        }
        true
    }

    /// Runs a job that came from other threads. Otherwise detached jobs that always spawn another one would
    /// starve it.
    pub fn run_job_from_others(&self) -> bool {
        let Some(seat) = self.seat() else { return false };
        if !self.shared().jobs.has_any() && seat.broadcasts.is_empty() {
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
        if let Some(job) = seat.broadcasts.pop_front() {
            self.run_job(job);
        } else if let Some(job) = shared.jobs.take_install(Tag::NONE) {
            self.run_job(job);
        } else if let Some(root) = shared.jobs.take_root() {
            self.run_root(root);
        } else {
            return false;
        }
        true
    }

    fn run_root(&self, root: Root) {
        match root {
            Root::Job(job) => self.run_job(job),
            Root::Task(task) => {
                self.begin_job();
                let _outer = self.processor().polling.begin_computation(&task);
                let is_over = self.shared().lifecycle.has_begun();
                self.see_to_others_first();
                self.computing(|| if is_over { task.cancel() } else { task.run() });
                self.shared().root_ended();
            }
        }
    }

    /// A root begins. Its first part may be long, so this is a split point and the end of a stride.
    fn see_to_others_first(&self) {
        if let Some(seat) = self.seat() {
            seat.restart_stride();
            self.computing(|| seat.pass_split());
        }
    }

    /// Runs a job on a fresh stack.
    pub fn run_job(&self, job: JobRef) {
        let seat = self.seat().expect("only runtimes with workers have jobs");
        self.begin_job();
        let _outer = self.processor().polling.begin_job();
        // SAFETY: this thread is the seat's owner; the job was taken from a queue.
        self.computing(|| unsafe { seat.run(job) });
    }

    /// The first job that `steal` takes from another seat. Asks each seat without a public job to publish
    /// one.
    fn steal_by(&self, steal: impl Fn(&Seat) -> Option<JobRef>) -> Option<JobRef> {
        self.seat()?.steal_from_others(self.random_below(self.shared().processors.len()), steal)
    }

    /// Takes a job from another seat, for a worker without any work. If it takes several, the others go to
    /// the worker's own seat.
    pub fn steal_job(&self) -> Option<JobRef> {
        let own = self.seat()?;
        if self.role() == Role::Begins {
            return self.steal_detached(own);
        }
        let most = own.end_batch();
        // SAFETY: this thread is the seat's owner.
        self.steal_by(|victim| unsafe { own.steal_several(victim, most) })
            .or_else(|| self.steal_detached(own))
    }

    fn steal_detached(&self, own: &Seat) -> Option<JobRef> {
        let mut seats = self.shared().seats().filter(|seat| seat.index() != own.index());
        // Takes the oldest job. The owner takes the youngest, if its order is last in, first out.
        seats.find_map(|seat| seat.detached.pop_front())
    }

    /// Runs a job in the middle of another job, or of a task's poll, which asked for this. With `is_local`,
    /// runs only a job of this seat. In an isolated region, runs only child jobs of that region. For the
    /// owner of `seat`.
    pub fn yield_to_job(&self, seat: &Seat, is_local: bool) -> bool {
        let tag = seat.waits_for();
        let is_free = tag == Tag::NONE;
        // SAFETY: this thread is the seat's owner.
        let local = unsafe { seat.pop_anywhere() }
            .or_else(|| if is_free { seat.take_detached() } else { None })
            .or_else(|| seat.take_broadcast());
        let jobs = &self.shared().jobs;
        let job = local.or_else(|| match is_local {
            true => None,
            false => self
                .steal_by(|victim| victim.steal(tag))
                .or_else(|| if is_free { self.steal_detached(seat) } else { None })
                .or_else(|| jobs.take_install(tag)),
        });
        if let Some(job) = job {
            seat.in_surroundings(|| self.run_job(job));
            return true;
        }
        let root = if is_local || !is_free { None } else { jobs.take_root() };
        let has_root = root.is_some();
        if let Some(root) = root {
            outside_of_computations(|| seat.in_surroundings(|| self.run_root(root)));
        }
        has_root
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
