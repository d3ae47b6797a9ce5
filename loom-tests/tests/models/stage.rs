//! The real shared state of a runtime, without threads of its own: the threads of a model are its permanent
//! workers. Spare workers, if some are allowed, are real threads.
//!
//! Spare workers keep their threads for ever, because a model has no time. There is no driver, so no event
//! comes and no timer is due.

use std::future::Future;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use loom::sync::{Condvar, Mutex};
use runtime::internals::driver::Driver;
use runtime::internals::scheduler::{Config, Shared, Worker, WorkerStart, enter_worker};
use runtime::internals::task::{self, Runnable};
use runtime::parallel::Deadlock;

/// Counts as a worker, as the thread that builds a runtime does, until [`end`](Stage::end).
pub struct Stage(NonNull<Shared>);

// SAFETY: the shared state is made for many threads.
unsafe impl Send for Stage {}
// SAFETY: as above.
unsafe impl Sync for Stage {}

impl Stage {
    pub fn new(workers: usize, spares: usize) -> Arc<Self> {
        Self::with(Config { spare_workers: spares, ..Self::config(workers) })
    }

    /// A stage without spare workers, on which deadlocks are searched.
    pub fn with_deadlock_handler(workers: usize, f: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        let handler = move |_: &Deadlock| f();
        Self::with(Config { deadlock_handler: Some(Arc::new(handler)), ..Self::config(workers) })
    }

    fn config(workers: usize) -> Config {
        Config { is_pool: false, thread_keep_alive: Duration::MAX, ..Config::of_pool(workers) }
    }

    fn with(config: Config) -> Arc<Self> {
        Arc::new(Self(Shared::new(config, Driver::new(None, None))))
    }

    pub fn shared(&self) -> &Shared {
        // SAFETY: the reference of `new` is given up in `end`, the last use.
        unsafe { self.0.as_ref() }
    }

    /// Runs `f` as permanent worker `index`, which then leaves.
    pub fn act<R>(&self, index: usize, f: impl FnOnce(&Worker) -> R) -> R {
        // SAFETY: the stage counts as a worker; a model has one thread for each worker.
        let start = unsafe { WorkerStart::new(self.0, index) };
        // SAFETY: as above.
        let worker = unsafe { Worker::new(self.0, index) };
        let processor = worker.processor();
        processor.parker.adopt_current_thread();
        processor.yield_parker.adopt_current_thread();
        processor.metrics.sleep_changes.add(1);
        self.shared().away.permanent_comes();
        self.shared().monitor.worker_woke(&self.shared().driver);
        let result = enter_worker(&worker, || {
            let result = f(&worker);
            worker.leave_queues();
            result
        });
        // For the workers that wind down: this one counts as asleep.
        self.shared().away.arrive(|| false);
        // SAFETY: (1) BIAS keeps the state until the stage leaves. (2) The number is the worker's own count.
        unsafe { self.shared().add_references(worker.take_references()) };
        drop(start);
        result
    }

    /// The whole life of permanent worker `index`.
    pub fn live(&self, index: usize) {
        // SAFETY: as in `act`.
        unsafe { WorkerStart::new(self.0, index) }.run();
    }

    /// A task that is in no queue yet.
    pub fn task(&self, future: impl Future<Output = ()> + 'static) -> Runnable {
        // SAFETY: (1) the stage has the reference of `new`, until `end`.
        unsafe { Shared::retain(self.0) };
        // SAFETY: the reference was just taken; what a model's futures use is made for many threads.
        let (task, join) = unsafe { task::new(future, self.0) };
        drop(join);
        task
    }

    /// PushTask: pushes into the injector, and notifies no worker.
    pub fn push_quietly(&self, task: Runnable) {
        // SAFETY: the runnable owns its task.
        unsafe { self.shared().injector.push(task.into_raw()) };
    }

    /// Shuts the runtime down, and waits for all workers that are left there. Panics if a thread was lost, or
    /// counted twice.
    pub fn end(&self) {
        let shared = self.shared();
        shared.begin_shutdown();
        // SAFETY: the stage's own count as a worker.
        unsafe { Shared::leave(self.0, 0) };
        shared.lifecycle.exit().wait(None);
        let spares = shared.first_spare..shared.first_spare + shared.max_spares;
        let (used, counts) =
            (spares.filter(|&index| !shared.away.is_absent(index)).count(), shared.away.counts());
        // The spare workers that were active when all left.
        assert_eq!((counts.active, counts.resting), (used, 0), "a spare worker was lost, or counted twice");
        assert_eq!(shared.away.blocked(), 0, "a worker is still counted as blocked");
        // SAFETY: the reference of `new`, and the last use.
        unsafe { Shared::release(self.0) };
    }
}

/// Set once; loom's own `Notify` may wake early.
#[derive(Default)]
pub struct Signal {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    pub fn set(&self) {
        *self.is_set.lock().unwrap() = true;
        self.changed.notify_all();
    }

    pub fn wait(&self) {
        let mut is_set = self.is_set.lock().unwrap();
        while !*is_set {
            is_set = self.changed.wait(is_set).unwrap();
        }
    }
}
