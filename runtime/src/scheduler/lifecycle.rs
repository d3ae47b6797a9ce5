//! How a runtime ends, at any moment, without a panic and with nothing left over.
//!
//! 1. `BeginShutdown` ([`Shared::begin_shutdown`]): a spawn returns a handle that says cancelled. A task that
//!    would wait for the first time is cancelled instead. All workers are unparked. Wakes go on as before.
//!    The caller drops the closures that no thread of the blocking pool is about to run.
//! 2. `WindDown` ([`Worker::wind_down`]): a worker that returns from its poll or job leaves the usual loop.
//!    It queues the tasks in its table that wait for a wake, cancels the tasks in all queues, and runs the
//!    jobs that are left. When it has nothing to do it *arrives*, and sleeps as usual. It is woken as usual,
//!    and takes its arrival back before it looks for work.
//! 3. `CloseAll`: the last worker to arrive finds that nothing is visible and that no job is live. It refuses
//!    all later jobs (`injected.rs`), and all workers leave.
//! 4. `FinishTasks`: the last worker to leave makes the injector refuse newborn tasks, and their spawners
//!    then cancel them. It cancels its own tasks, and every owned task that waits for a wake. A task that is
//!    still scheduled now was woken a moment ago by a foreign thread, which is about to push it into the
//!    injector: all workers have left, so no worker polls the task. The last worker waits for that push. So
//!    no wake is in flight when the last task has been dropped, and later wakes find their task `DONE`.
//! 5. `ShutDriver`: before it cancels the tasks, the last worker shuts down the driver. This wakes the
//!    futures that wait for descriptors and timers outside of tasks, and ends the waits of destructors and of
//!    the last hooks, which no worker would end. In the end the last worker gives up BIAS. Handles, cells
//!    that are still referred to, such futures, and workers inside of the last hooks (`start.rs`) now keep
//!    the shared state, and the last of them frees it.
//!
//! # No worker leaves while another is inside of a poll or a job
//! Code in a poll or a job may need the other workers: it may wait for a scope's jobs, for a task to be
//! cancelled, or for a computation. A worker that polls, runs a job, blocks, or waits for a latch has not
//! arrived. So the other workers stay, asleep, and come for the work that it makes visible. If there is no
//! other worker, a spare worker comes (`away/mod.rs`), also during the shutdown. External threads count as
//! live jobs. So do a thread that cancels tasks for a worker ([`Shared::cancel_apart`]), and the monitor
//! while it holds tasks that it has taken from a queue or a table ([`Shared::as_job`]). A worker
//! arrives behind its park hook, and takes its arrival back before it calls the unpark hook and foreign
//! wakers, because these, too, may need the others. Once all is closed, it calls the unpark hook outside of
//! its context, as `on_thread_stop`, and leaves the wakers to the last worker.
//!
//! *No task waits for a thread that cancels another.* The destructor of a task may wait for the end of
//! another task, or need a lock that a poll further down on the stack holds. So the tasks that wait for a
//! wake go into the injector, where every worker finds them, and a worker that blocks in a poll or a job
//! cancels none. If a worker is lacking for them, because no spare worker can come or none has come yet, the
//! monitor queues those of the lent tables, and has a thread cancel what is queued, and the next one if that
//! thread is stuck in a destructor (`away/monitor/cancels.rs`). If the system refuses the thread, too, the
//! tasks wait, and the monitor tries again. Rejected: to claim a whole table and cancel one task after the
//! other, because no other thread can cancel those that come behind the first; and to cancel tasks on the
//! stack that blocks.
//!
//! Two cases are left:
//! - A worker that blocks without a word keeps its own table, because it works there without a lock. So a
//!   destructor that waits for another task has to announce it (`block_in_place`). A worker that has
//!   not been away since the shutdown began keeps the tasks in its table while it blocks without a word.
//! - The tasks of `FinishTasks` are cancelled one after the other. Foreign threads have woken them when all
//!   workers had arrived.
//!
//! *All workers leave in the end.* They arrive under one lock, so one of them is the last. The last one
//! closes, unless something is visible or a job is live. If something is visible, the last worker sees to it
//! itself. The end of the last job unparks all workers (`UncountJob` of `injected.rs`), and the last worker
//! to arrive again looks again. A spare worker that was called counts until its thread is refused; then it
//! can arrive no more, and all workers are unparked, too.
//!
//! *Nothing is left.* The last worker to arrive has seen everything that was visible before. A worker that
//! takes work takes its arrival back first, so it has not arrived. Later only outside threads push: tasks,
//! which `FinishTasks` handles, and jobs, which are refused; and the events of a worker's last sleep. What
//! these wake goes into the worker's own queues, which that worker empties before it leaves. Wakers that are
//! left with a worker are called at the end.
//!
//! # A thread that never leaves
//! A thread may keep its job processor for good (`use_current_thread`). It runs no loop, so it never arrives,
//! and the other workers do not wait for it. Code in its computations may need them all the same. So it
//! counts each outermost computation as an injected job (`CountJob` of `injected.rs`), before it pushes the
//! first child job, and `UncountJob` follows when the computation has ended. Outside of computations it does
//! not hold its job processor (`parallel/enter.rs`).
//!
//! *The forsaken thread.* The pool is dropped while the thread is outside of computations. All workers arrive
//! and leave. A task's poll on this thread then makes a scope, and blocks for a job of that scope. The job
//! lies on the job processor of this thread, which no other thread looks at any more. `CountJob` prevents
//! this:
//! - It comes before `CloseJobs`: that fails until `UncountJob`. So the workers stay, asleep, and are woken
//!   for the child jobs as before.
//! - It comes after `CloseJobs`: it finds CLOSED. The thread does not take its job processor. The call goes
//!   to the runtime that the thread has entered, or to the process-wide pool, like that of a non-worker
//!   thread.
//!
//! A detached job of a closed pool is run in place, because nothing waits for it.
//!
//! A table that is lent while a worker blocks or waits for a latch (`owned.rs`) may hold tasks that have to
//! be cancelled. So a worker that lends the table after the shutdown has begun queues those tasks for others
//! ([`Shared::queue_lent`]). If the table was lent before, a worker that winds down does it. If a worker is
//! lacking for that, the thread that begins the shutdown does it, or later the monitor. The worker that comes
//! back does it, too, before it runs foreign code ([`Worker::queue_if_ending`]): a spare worker may still be
//! on its way, or inside of a hook.
//!
//! The thread that ended the runtime waits for the other threads, if it may wait: [`Exit`]. If some threads
//! have not gone in time, `unfinished.rs` reports what keeps them.

use std::io;
use std::ptr::NonNull;
use std::sync::mpsc;

use super::away::Role;
use super::blocking;
use super::idle::Work;
use super::reference::Reference;
use super::shared::Shared;
use super::worker::Worker;
use crate::driver::foreign::Waking;
use crate::loom::sync::atomic::Ordering::SeqCst;
use crate::loom::sync::atomic::fence;
use crate::queue::IntrusiveList;
use crate::scheduler::context;
use crate::task::Header;
use crate::util::either_thread::called_once;

impl Shared {
    /// `BeginShutdown`. Any thread may call this, any number of times.
    pub fn begin_shutdown(&self) {
        let closures = self.begin_shutdown_keeping_closures();
        self.drop_closures(closures);
    }

    /// `BeginShutdown` up to the closures that are not run. Returns these.
    #[must_use = "they have to be dropped"]
    pub fn begin_shutdown_keeping_closures(&self) -> IntrusiveList<Header> {
        // First: a thread that sees the beginning of the shutdown may rely on it that no task is added any
        // more.
        self.owned.close();
        self.injected_jobs.begin_closing();
        if !self.lifecycle.begin() {
            return IntrusiveList::new();
        }
        // `CloseFence` of `away/mod.rs`. A spare worker that is started sees the flag, or is seen below.
        fence(SeqCst);
        self.away.pass();
        self.end_budgets();
        self.count_all_blocked();
        self.unpark_all();
        // If all workers are away, a spare worker has to cancel the tasks that they wait for. If none is
        // there yet, the tasks are queued here.
        self.fetch_strictly(Work::Task);
        if self.lacks_spare_for_now(0) {
            self.as_job(|| self.queue_lent());
        }
        if self.config.is_pool { IntrusiveList::new() } else { blocking::close(self) }
    }

    /// Drops the closures that are not run. Their destructors may wait for the tasks and the driver of the
    /// runtime, which end meanwhile. The caller has a reference.
    pub fn drop_closures(&self, closures: IntrusiveList<Header>) {
        if closures.is_empty() {
            return;
        }
        let drop_all = self.dropping(closures);
        // A worker is needed: destructors may wait for the task that it is in, for those in its table, or, in
        // a `current_thread` runtime, for all.
        let is_needed = context::with_worker_of(self.ptr(), |own| own.is_some());
        let here = drop_all();
        if !is_needed || self.run_apart(move |_| drop_all()()).is_err() {
            here();
        }
    }

    /// As [`drop_closures`](Self::drop_closures), while the calling thread does `f`, which ends the tasks.
    /// The destructors of tasks may wait for the closures, and those of the closures for the tasks.
    pub fn drop_closures_beside(&self, closures: IntrusiveList<Header>, f: impl FnOnce()) {
        if closures.is_empty() {
            return f();
        }
        let drop_all = self.dropping(closures);
        let (ended, end) = mpsc::channel::<()>();
        let apart = drop_all();
        let run = move |_: &Self| {
            apart();
            drop(ended);
        };
        // If the system refuses the thread, the closures come behind the tasks.
        _ = self.run_apart(run);
        f();
        drop_all()();
        _ = end.recv();
    }

    /// The call that drops `closures`, for whichever thread is the first.
    fn dropping(&self, closures: IntrusiveList<Header>) -> impl Fn() -> Box<dyn FnOnce() + Send> + use<> {
        // SAFETY: (1) the caller's reference keeps the state until this returns.
        let handle = unsafe { Reference::new(self.ptr()) };
        called_once(move || {
            let drop_all = || blocking::cancel(handle.shared(), closures);
            // SAFETY: `handle` keeps the state.
            unsafe { context::enter_runtime(handle.shared_ptr(), drop_all) };
        })
    }

    /// Queues `tasks`, for any worker that winds down, which cancels them.
    pub fn queue_to_cancel(&self, tasks: IntrusiveList<Header>) {
        if !tasks.is_empty() {
            self.injector.push_batch(tasks);
            self.fetch_strictly(Work::Task);
        }
    }

    /// Queues the tasks of the lent tables that wait for a wake, for any worker that winds down. The shutdown
    /// has begun. The workers may have looked before a table was lent. Runs no foreign code.
    ///
    /// The caller is a worker that has not arrived, or counts as a job. Otherwise the workers might leave
    /// before the tasks are queued.
    pub fn queue_lent(&self) {
        // SAFETY: (1) no table is claimed as the caller's own.
        let (idle, _) = unsafe { self.owned.claim_idle(None) };
        self.queue_to_cancel(idle);
    }

    /// Runs `f`, which moves tasks, on a thread that is no worker. It counts as a job meanwhile: no worker
    /// leaves before the tasks are visible again. Does nothing if all workers leave.
    pub fn as_job<R>(&self, f: impl FnOnce() -> R) -> Option<R> {
        let result = self.injected_jobs.try_begin().then(f);
        // As `job_ended`, but the monitor, which may be the caller, need not look again.
        if result.is_some() && self.injected_jobs.end() {
            self.unpark_workers();
        }
        result
    }

    /// Cancels the queued tasks on a thread of its own. It counts as an injected job, so that the workers
    /// stay as they would beside a worker that cancels tasks. Returns false if all workers leave.
    ///
    /// # Errors
    /// The system's error if it refuses the thread.
    pub fn cancel_apart(&self) -> io::Result<bool> {
        if !self.injected_jobs.try_begin() {
            return Ok(false);
        }
        let cancel = |shared: &Self| {
            shared.monitor.cancellers.begins();
            shared.cancel_injected();
            shared.monitor.cancellers.ends();
            shared.job_ended();
        };
        self.run_apart(cancel).inspect_err(|_| self.job_ended()).map(|()| true)
    }

    fn cancel_injected(&self) {
        for injector in [&self.injector, &self.slow] {
            while let Some(task) = injector.pop_task() {
                self.monitor.cancellers.takes_task();
                task.cancel();
            }
        }
    }

    /// As [`unpark_workers`](Self::unpark_workers), and unparks the monitor.
    pub fn unpark_all(&self) {
        self.unpark_workers();
        self.monitor.parker.unpark(&self.driver);
    }

    /// Unparks every worker, so that it looks whether there is something left to do.
    fn unpark_workers(&self) {
        for processor in self.processors.iter() {
            processor.parker.unpark(&self.driver);
        }
    }

    /// `FinishTasks`, `ShutDriver`: a worker leaves, with its own count of references; see `reference.rs`.
    ///
    /// # Safety
    /// 1. Called once for each worker that was counted. A caller that uses `this` afterwards has a reference.
    ///    2. The caller is not in the context of a worker of `this` any more, or is not the last.
    pub unsafe fn leave(this: NonNull<Self>, references: i64) {
        // SAFETY: BIAS keeps the state until the last worker gives it up. Here the other workers do not touch
        // the state after `thread_leaves`. `add_references`: (1) BIAS; (2) the number is the worker's own
        // count.
        unsafe {
            this.as_ref().add_references(references);
            if this.as_ref().lifecycle.thread_leaves() {
                // The destructors that run now find the runtime as it was while it ran, and may drop other
                // runtimes.
                context::enter_block_on(|| match this.as_ref().config.is_pool {
                    true => this.as_ref().finish(),
                    false => context::enter_runtime(this, || this.as_ref().finish()),
                });
                Self::give_up_bias(this);
            }
        }
    }

    fn finish(&self) {
        self.injected_jobs.close();
        // The injector has counted these references, those of newborn tasks from outside.
        // SAFETY: (1) BIAS keeps the state meanwhile. (2) The number is not negative.
        unsafe { self.add_references(self.injector.close() as i64) };
        let last = Waking::default();
        last.add(&self.driver.shutdown());
        loop {
            self.cancel_injected();
            // SAFETY: no table is claimed as the caller's own, because all tables are lent.
            if unsafe { self.owned.cancel_idle(None) } == 0 && self.injector.is_empty() {
                break;
            }
            // A destructor has woken a task, or another thread is between the two instructions of a wake.
            crate::loom::thread::yield_now();
        }
        self.processors.iter().for_each(|processor| processor.waking.move_to(&last));
        self.wake_at_the_end(last);
    }

    /// Whether nothing is left to do, so that the last worker to arrive may close. Called under the lock of
    /// `away/mod.rs`.
    fn may_close(&self) -> bool {
        self.injected_jobs.try_close(|| !self.has_visible_tasks() && !self.has_jobs_for(None, Role::Full))
    }
}

impl Worker {
    /// `WindDown` and `CloseAll`, once the shutdown has begun. Returns when all workers leave.
    pub fn wind_down(&self) {
        let shared = self.shared();
        loop {
            let lent = shared.away.lent();
            self.stop_searching_if_so();
            self.processor().polling.clear();
            if self.seen_lent.replace(Some(lent)) != Some(lent) {
                self.queue_idle();
            }
            if self.cancels_or_computes() || self.calls_left_wakers() {
                continue;
            }
            // Foreign code needs the other workers, so this worker has not arrived while it runs any.
            if !self.begins_park() {
                continue;
            }
            self.lend_table();
            if shared.away.arrive(|| shared.may_close()) {
                break;
            }
            let has_slept = self.sleeps_if_idle();
            if !shared.away.depart() {
                break self.leave_last_foreign();
            }
            self.take_table_back();
            self.end_park(has_slept);
        }
        // An event of the last sleep may have woken tasks. No other thread looks into this worker's queues
        // any more. The end of its sleep has taken the table back.
        self.leave_queues();
        shared.unpark_all();
    }

    /// Cancels a task, or runs a job. Returns false if there was none.
    fn cancels_or_computes(&self) -> bool {
        // A cancellation is no poll. For the monitor, this worker would stand still.
        self.processor().metrics.looks.add(1);
        self.maintain_at_times();
        match self.next_task().or_else(|| self.search()) {
            Some(task) => self.cancel_task(task),
            None => return self.run_next_job() || self.run_stolen_job(),
        }
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
