//! How a runtime ends, at any moment, without a panic and with nothing left over.
//!
//! 1. *Begin* ([`Shared::begin_shutdown`]): a spawn gets a handle that says cancelled, and a task that would wait for the
//!    first time is cancelled instead. The blocking pool drops the closures that have not begun. Every worker is unparked.
//!    Wakes go on as before.
//! 2. Each worker sees that it has begun, leaves its loop after the poll it is in, cancels the tasks in its queues and those
//!    in its table that wait for a wake, and leaves. One that is stuck in a poll or in a `block_in_place` does so when that
//!    returns. What it waits for there may be tasks, so somebody stays until no worker is blocked, as a rule the relief
//!    threads: they cancel the tasks that wait for a wake, and from then on every task that they find in a queue.
//! 3. The last to leave *finishes*: it has the injector refuse newborn tasks, whose spawners then cancel them, and cancels
//!    what it holds and every owned task that waits for a wake. A task that is still scheduled now is so by a foreign thread
//!    that has just woken it and will push it into the injector in a moment (all workers have left, so nobody polls it): it
//!    waits for that. So when the last task has been dropped no wake is in flight, and later ones find their task `DONE`.
//! 4. It shuts down the driver, which wakes those who wait for descriptors and timers outside of tasks, and gives up BIAS:
//!    handles, cells that are still referred to, and such futures now keep the shared state, and the last of them frees it.
//!
//! Whoever ended the runtime waits for the threads, if it may wait: [`Exit`]. If some have not gone in time, `unfinished.rs`
//! tells what keeps them.

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::shared::Shared;
use crate::context;
use crate::loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use crate::loom::sync::atomic::{AtomicBool, AtomicUsize, fence};
use crate::loom::sync::{Condvar, Mutex};
use crate::task::Runnable;

/// How far the end has come.
#[derive(Debug)]
pub struct Shutdown {
    has_begun: AtomicBool,
    /// Workers that have not left, and whoever builds the runtime.
    running: AtomicUsize,
    /// Outlives the shared state.
    exit: Arc<Exit>,
}

impl Shutdown {
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
        // Acquire costs nothing, and lets whoever acts on it rely on what came before.
        self.has_begun.load(Acquire)
    }

    pub fn exit(&self) -> Arc<Exit> {
        self.exit.clone()
    }

    /// A thread is about to be started by a thread that counts itself.
    pub fn worker_starts(&self) {
        // Relaxed: the caller's own count keeps the number above zero.
        self.running.fetch_add(1, Relaxed);
        self.exit.enter();
    }
}

impl Shared {
    /// Step 1. Any thread, any number of times.
    pub fn begin_shutdown(&self) {
        // First: whoever sees that the shutdown has begun may rely on it that no task is added.
        self.owned.close();
        self.jobs.begin_closing();
        // SeqCst: before the unparks, which are read-modify-writes; a worker that finds itself unparked sees it.
        if self.shutdown.has_begun.swap(true, SeqCst) {
            return;
        }
        // Before looking which processors have been made: a relief thread that is being started looks at `has_begun` after a
        // fence of its own.
        fence(SeqCst);
        self.end_grants();
        self.register_all_blocked();
        self.monitor.leave(&self.driver);
        if !self.config.is_pool {
            // SAFETY: the caller's reference keeps the state.
            unsafe { context::enter_runtime(NonNull::from(self), || self.blocking.close(self)) };
        }
        self.unpark_all();
    }

    /// Has every worker look whether it must leave.
    pub fn unpark_all(&self) {
        for processor in self.processors.iter() {
            processor.parker.unpark(&self.driver);
        }
    }

    /// Whether worker `index` is to leave: all are at shutdown, but somebody stays while a worker is blocked, since what that
    /// one waits for may be tasks, which somebody has to cancel; see `relief.rs`.
    #[inline]
    pub fn must_leave(&self, index: usize) -> bool {
        self.shutdown.has_begun()
            && self.relief.may_leave(index < self.config.workers)
            && self.jobs.try_close()
    }

    /// Steps 2 to 4: a worker leaves, with its own count of references; see `shared.rs`.
    ///
    /// # Safety
    /// 1. Called once for each worker that was counted, as its last use of `this`. 2. The caller is not in the context of a
    ///    worker of `this` any more, or is not the last.
    pub unsafe fn leave(this: NonNull<Self>, references: i64) {
        // SAFETY: BIAS keeps the state until the last worker gives it up; others do not touch it after `fetch_sub`.
        unsafe {
            this.as_ref().add_references(references);
            // AcqRel: the last sees the counts and queues of all others.
            if this.as_ref().shutdown.running.fetch_sub(1, AcqRel) == 1 {
                // What is dropped now finds the runtime as it did while it ran, and may drop other runtimes.
                context::enter_block_on(|| match this.as_ref().config.is_pool {
                    true => this.as_ref().finish(),
                    false => context::enter_runtime(this, || this.as_ref().finish()),
                });
                Self::give_up_bias(this);
            }
        }
    }

    /// Steps 3 and 4.
    fn finish(&self) {
        self.jobs.close();
        // Ours until BIAS is given up, which is in for them.
        self.add_references(self.injector.close() as i64);
        loop {
            while let Some(task) = self.injector.pop() {
                // SAFETY: what is pushed into the injector is a `Runnable`.
                unsafe { Runnable::from_raw(task) }.cancel();
            }
            // SAFETY: no table is claimed as the caller's own; all are lent.
            if unsafe { self.owned.cancel_idle(None) } == 0 && self.injector.is_empty() {
                break;
            }
            // A destructor has woken a task, or a wake is in flight on another thread, between two instructions.
            crate::loom::thread::yield_now();
        }
        self.driver.shutdown();
    }
}

/// Lets the one who ends a runtime wait for its threads.
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
