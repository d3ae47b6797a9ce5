//! How far the end of a runtime has come, and which of its threads are left; see `lifecycle.rs`.

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use crate::loom::sync::atomic::{AtomicBool, AtomicUsize};
use crate::loom::sync::{Condvar, Mutex};

/// How far the end has come.
#[derive(Debug)]
pub struct Lifecycle {
    has_begun: AtomicBool,
    /// The shutdown has begun, or begins with the next step, or the runtime observes its tasks: one test for
    /// a spawn.
    spawns_slowly: AtomicBool,
    /// The workers and the monitor that have not left, and the thread that builds the runtime.
    running: AtomicUsize,
    /// The `Exit` outlives the shared state.
    exit: Arc<Exit>,
}

impl Lifecycle {
    /// The builder counts as a worker.
    pub fn new(is_observed: bool) -> Self {
        Self {
            has_begun: AtomicBool::new(false),
            spawns_slowly: AtomicBool::new(is_observed),
            running: AtomicUsize::new(1),
            exit: Arc::new(Exit::default()),
        }
    }

    /// Whether a spawner has to look further: the shutdown may have begun, or the tasks are observed.
    #[inline]
    pub fn spawns_slowly(&self) -> bool {
        // Acquire: as in `has_begun`.
        self.spawns_slowly.load(Acquire)
    }

    #[inline]
    pub fn has_begun(&self) -> bool {
        // Acquire costs nothing. A caller that acts on the answer can then rely on what came before.
        self.has_begun.load(Acquire)
    }

    /// Where [`has_begun`](Self::has_begun) looks.
    pub fn has_begun_flag(&self) -> NonNull<AtomicBool> {
        NonNull::from(&self.has_begun)
    }

    pub fn exit(&self) -> Arc<Exit> {
        self.exit.clone()
    }

    /// The calling thread, which counts itself, is about to start a thread.
    pub fn thread_starts(&self) {
        // Relaxed: the caller's own count keeps the number above zero.
        self.running.fetch_add(1, Relaxed);
        self.exit.enter();
    }

    /// The shutdown begins. Returns false if it had begun before.
    pub fn begin(&self) -> bool {
        // A spawner that misses this is a worker that drains its queues later, or a thread that finds the
        // injector closed or sees the beginning.
        self.spawns_slowly.store(true, Release);
        // SeqCst: before the unparks, which are read-modify-writes. So a worker that finds itself unparked
        // sees this.
        !self.has_begun.swap(true, SeqCst)
    }

    /// A thread that was counted leaves. Returns whether it was the last.
    pub fn thread_leaves(&self) -> bool {
        // AcqRel: the last worker sees the counts and queues of all others.
        self.running.fetch_sub(1, AcqRel) == 1
    }
}

/// Lets the thread that ends a runtime wait for the runtime's threads.
#[derive(Debug, Default)]
pub struct Exit {
    threads: Mutex<usize>,
    all_gone: Condvar,
}

impl Exit {
    /// The caller is about to start a thread.
    pub fn enter(&self) {
        *self.threads.lock() += 1;
    }

    /// The calling thread does nothing more for the runtime.
    pub fn leave(&self) {
        let mut threads = self.threads.lock();
        *threads -= 1;
        if *threads == 0 {
            self.all_gone.notify_all();
        }
    }

    /// The number of threads that have not called `leave`.
    pub fn threads(&self) -> usize {
        *self.threads.lock()
    }

    /// Waits until all threads have gone, at most for `limit`; `None` is no limit. Returns whether they have.
    pub fn wait(&self, limit: Option<Duration>) -> bool {
        // A limit beyond the clock's range counts as no limit.
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

#[cfg(all(test, not(loom)))]
mod tests;
