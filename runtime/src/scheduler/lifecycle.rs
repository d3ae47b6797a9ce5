//! How a runtime ends, at any moment, without a panic and with nothing left over.
//!
//! 1. *Begin* ([`Shared::begin_shutdown`]): a spawn gets a handle that says cancelled, and a task that would
//!    wait for the first time is cancelled instead. The blocking pool drops the closures that no thread
//!    is on its way for. All workers are unparked. Wakes go on as before.
//! 2. *Wind down* ([`Worker::wind_down`]): a worker that is back from its poll or job leaves the usual loop.
//!    It cancels the tasks in all queues, and those in its table that wait for a wake, and runs the jobs that
//!    are left. With nothing to do it *arrives*, and sleeps as ever. It is woken as ever, and takes its
//!    arrival back before it looks for work.
//! 3. *Close*: the last worker to arrive finds that nothing is visible and that no job lives. It closes the
//!    door to jobs (`jobs.rs`), and all workers leave.
//! 4. The last worker to leave *finishes*: it has the injector refuse newborn tasks, whose spawners then
//!    cancel them, and cancels what it holds and every owned task that waits for a wake. A task that is still
//!    scheduled now was woken a moment ago by a foreign thread, which is about to push it into the injector:
//!    all workers have left, so no worker polls it. The last worker waits for that push. So when the last
//!    task has been dropped no wake is in flight, and later ones find their task `DONE`.
//! 5. The last worker shuts down the driver, which wakes the futures that wait for descriptors and timers
//!    outside of tasks. It gives up BIAS: handles, cells that are still referred to, and such futures now
//!    keep the shared state, and the last of them frees it.
//!
//! # No worker leaves while another is inside of a poll or a job
//! Code in a poll or a job may need the other workers: a scope's jobs, a task to be cancelled, a computation.
//! A worker that polls, runs a job, blocks, or waits for a latch has not arrived. So the other workers stay,
//! asleep, and come for what it makes visible. If there is no other, a spare worker comes (`away.rs`), also
//! now. External threads count as jobs that live.
//!
//! *All workers leave in the end.* They arrive under one lock, so one of them is the last. It closes unless
//! something is visible, which it then sees to itself, or a job lives. The end of the last job unparks all
//! (`RootEnds` of `jobs.rs`), and the last to arrive again looks again. *Nothing is left*: what was visible
//! before the last arrival was seen by it, because a worker that takes work has taken its arrival back first,
//! and so has not arrived. Later only outside threads push: tasks, for step 4, and jobs, which the door
//! refuses.
//!
//! A table that is lent while a worker blocks or waits for a latch (`owned.rs`) may hold tasks that have to
//! be cancelled: the worker that lends it fetches another worker, as for a task.
//!
//! The thread that ended the runtime waits for the others, if it may wait: [`Exit`]. If some threads have not
//! gone in time, `unfinished.rs` tells what keeps them.

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::away::Role;
use super::idle::Work;
use super::shared::Shared;
use super::worker::Worker;
use crate::context;
use crate::loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use crate::loom::sync::atomic::{AtomicBool, AtomicUsize, fence};
use crate::loom::sync::{Condvar, Mutex};
use crate::task::Runnable;

/// How far the end has come.
#[derive(Debug)]
pub struct Lifecycle {
    has_begun: AtomicBool,
    /// Workers that have not left, and the thread that builds the runtime.
    running: AtomicUsize,
    /// Outlives the shared state.
    exit: Arc<Exit>,
}

impl Lifecycle {
    /// The builder counts as a worker.
    pub fn new() -> Self {
        Self {
            has_begun: AtomicBool::new(false),
            running: AtomicUsize::new(1),
            exit: Arc::new(Exit::default()),
        }
    }

    #[inline]
    pub fn has_begun(&self) -> bool {
        // Acquire costs nothing, and lets a caller that acts on it rely on what came before.
        self.has_begun.load(Acquire)
    }

    pub fn exit(&self) -> Arc<Exit> {
        self.exit.clone()
    }

    /// A thread is about to be started by a thread that counts itself.
    pub fn thread_starts(&self) {
        // Relaxed: the caller's own count keeps the number above zero.
        self.running.fetch_add(1, Relaxed);
        self.exit.enter();
    }
}

impl Shared {
    /// Step 1. Any thread, any number of times.
    pub fn begin_shutdown(&self) {
        // First: a thread that sees that the shutdown has begun may rely on it that no task is added.
        self.owned.close();
        self.jobs.begin_closing();
        // SeqCst: before the unparks, which are read-modify-writes; a worker that finds itself unparked sees
        // it.
        if self.lifecycle.has_begun.swap(true, SeqCst) {
            return;
        }
        // `CloseFence` of `away.rs`; and each spare worker that is started sees it, or is seen below.
        fence(SeqCst);
        self.away.pass();
        self.end_grants();
        self.count_all_blocked();
        if !self.config.is_pool {
            // SAFETY: the caller's reference keeps the state.
            unsafe { context::enter_runtime(NonNull::from(self), || self.blocking.close(self)) };
        }
        self.unpark_all();
        // If all workers are away, a spare one has to cancel what they wait for.
        self.fetch_strictly(Work::Task);
    }

    /// Has every worker look whether there is something to do at the end.
    pub fn unpark_all(&self) {
        for processor in self.processors.iter() {
            processor.parker.unpark(&self.driver);
        }
        self.monitor.parker.unpark(&self.driver);
    }

    /// Steps 4 and 5: a worker leaves, with its own count of references; see `shared.rs`.
    ///
    /// # Safety
    /// 1. Called once for each worker that was counted, as its last use of `this`. 2. The caller is not in
    ///    the context of a worker of `this` any more, or is not the last.
    pub unsafe fn leave(this: NonNull<Self>, references: i64) {
        // SAFETY: BIAS keeps the state until the last worker gives it up; others do not touch it after
        // `fetch_sub`.
        unsafe {
            this.as_ref().add_references(references);
            // AcqRel: the last sees the counts and queues of all others.
            if this.as_ref().lifecycle.running.fetch_sub(1, AcqRel) == 1 {
                // What is dropped now finds the runtime as it did while it ran, and may drop other runtimes.
                context::enter_block_on(|| match this.as_ref().config.is_pool {
                    true => this.as_ref().finish(),
                    false => context::enter_runtime(this, || this.as_ref().finish()),
                });
                Self::give_up_bias(this);
            }
        }
    }

    fn finish(&self) {
        self.jobs.close();
        // Ours until BIAS is given up, which counts for them.
        self.add_references(self.injector.close() as i64);
        loop {
            for injector in [&self.injector, &self.slow] {
                while let Some(task) = injector.pop() {
                    // SAFETY: what is pushed into the injector is a `Runnable`.
                    unsafe { Runnable::from_raw(task) }.cancel();
                }
            }
            // SAFETY: no table is claimed as the caller's own; all are lent.
            if unsafe { self.owned.cancel_idle(None) } == 0 && self.injector.is_empty() {
                break;
            }
            // A destructor has woken a task, or a wake is in flight on another thread, between two
            // instructions.
            crate::loom::thread::yield_now();
        }
        self.driver.shutdown();
    }

    /// Whether the worker that arrives last may close: nothing is left to do. Under the lock of `away.rs`.
    fn may_close(&self) -> bool {
        !self.has_visible_tasks() && !self.has_jobs_for(usize::MAX, Role::Full) && self.jobs.try_close()
    }
}

impl Worker {
    /// Steps 2 and 3: the shutdown has begun. Returns when all workers leave.
    pub fn wind_down(&self) {
        let shared = self.shared();
        loop {
            let lent = shared.away.lent();
            self.stop_searching_if_so();
            self.processor().polling.clear();
            if self.seen_lent.replace(Some(lent)) != Some(lent) {
                // SAFETY: this thread is the worker of its table.
                unsafe { shared.owned.cancel_idle(self.table()) };
            }
            if self.cancels_or_computes() {
                continue;
            }
            // A forgotten mark would keep this worker from being found idle.
            shared.void_marks_of(self.index());
            self.lend_table();
            if shared.arrive(|| shared.may_close()) {
                break;
            }
            self.park();
            if !shared.depart() {
                break;
            }
            self.take_table_back();
        }
        // For step 4. Its sleep has taken it back.
        self.lend_table();
        shared.unpark_all();
    }

    /// Cancels a task, or runs a job. False if there was none.
    fn cancels_or_computes(&self) -> bool {
        self.maintain_at_times();
        match self.next_task().or_else(|| self.search()) {
            Some(task) => self.cancel_task(task),
            None => return self.run_next_job() || self.run_stolen_job(),
        }
        true
    }
}

/// Lets the thread that ends a runtime wait for the runtime's threads.
#[derive(Debug, Default)]
pub struct Exit {
    threads: Mutex<usize>,
    all_gone: Condvar,
}

impl Exit {
    /// A thread is about to be started.
    pub fn enter(&self) {
        *self.threads.lock() += 1;
    }

    /// A thread has done its last.
    pub fn leave(&self) {
        let mut threads = self.threads.lock();
        *threads -= 1;
        if *threads == 0 {
            self.all_gone.notify_all();
        }
    }

    /// Threads that have not done their last.
    pub fn threads(&self) -> usize {
        *self.threads.lock()
    }

    /// Waits until all threads have gone, or for `limit`. Says whether they have.
    pub fn wait(&self, limit: Option<Duration>) -> bool {
        // A limit too far for the clock is none.
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut threads = self.threads.lock();
        while *threads > 0 {
            match deadline {
                None => self.all_gone.wait(&mut threads),
                Some(deadline) if self.all_gone.wait_until(&mut threads, deadline).timed_out() => break,
                Some(_) => {}
            }
        }
        *threads == 0
    }
}
