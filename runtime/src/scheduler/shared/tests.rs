use std::ops::Deref;
use std::ptr::{NonNull, null};
use std::time::{Duration, Instant};

use crate::config::Config;
use crate::driver::Driver;
use crate::job::{JobHeader, JobRef, Region, Tag};
use crate::scheduler::park::Parker;
use crate::scheduler::reference::Reference;
use crate::scheduler::{Shared, Worker};
use crate::task::Runnable;
use crate::{Builder, Handle, Runtime};

/// A runtime without threads: the test plays its workers.
pub struct NoThreads(Reference);

impl NoThreads {
    /// A runtime with `workers` workers, without spare workers and without a driver.
    pub fn new(workers: usize) -> Self {
        Self::of(Config { is_pool: false, ..Config::of_pool(workers) }, Driver::new(None, None))
    }

    pub fn of(config: Config, driver: Driver) -> Self {
        // SAFETY: (1) `Shared::new` returns the caller's reference.
        Self(unsafe { Reference::adopt(Shared::new(config, driver)) })
    }

    /// As [`new`](Self::new), with room for `spares` spare workers. None is there, and none may be started:
    /// a test calls those that it has [added](Self::add_spare).
    pub fn with_spares(workers: usize, spares: usize) -> Self {
        let config = Config { is_pool: false, spare_workers: spares, ..Config::of_pool(workers) };
        Self::of(config, Driver::new(None, None))
    }

    /// Adds an active spare worker without a thread. Returns its index.
    pub fn add_spare(&self) -> usize {
        let (index, bound) = self.away.add_spare();
        self.idle.cover(index);
        // SAFETY: (1) no other thread knows it. (2) The state holds it.
        self.processors.make(index, |job_processor| unsafe { job_processor.bind(self.ptr()) });
        self.processors.set_spare(bound);
        index
    }

    /// Worker `index`, for the calling thread. There is one for an index at a time.
    pub fn worker(&self, index: usize) -> OwnWorker<'_> {
        // SAFETY: (1) the result does not outlive the runtime. (2) See above.
        OwnWorker { runtime: self, worker: unsafe { Worker::new(self.ptr(), index) } }
    }

    /// A new task, which is in no queue.
    pub fn task(&self) -> Runnable {
        let others = self.injector.len();
        self.spawn();
        let pop = || self.injector.pop_task().expect("the tasks are there");
        (0..others).for_each(|_| self.injector.push_task(pop()));
        pop()
    }

    pub fn handle(&self) -> Handle {
        // SAFETY: (1) this reference keeps the state.
        unsafe { Handle::from_shared(self.0.shared_ptr()) }
    }

    /// Spawns a task, which lands in the injector.
    pub fn spawn(&self) {
        drop(self.handle().spawn(async {}));
    }

    /// Calls `f` while the workers with these indices sleep. Clears their unparks from before.
    pub fn while_asleep<R>(&self, workers: &[usize], f: impl FnOnce() -> R) -> R {
        let Some((&first, others)) = workers.split_first() else {
            return f();
        };
        let (mut f, mut result) = (Some(f), None);
        while let Some(f_left) = f.take() {
            let mut left = Some(f_left);
            self.processor(first).parker.park_if(None, || {
                result = left.take().map(|f| self.while_asleep(others, f));
                false
            });
            f = left;
        }
        result.expect("`f` was called")
    }

    /// The workers that were unparked since the last call. None of them sleeps.
    pub fn unparked(&self) -> Vec<usize> {
        self.processors.indices().filter(|&index| was_unparked(&self.processor(index).parker)).collect()
    }
}

/// A worker that the calling thread plays.
pub struct OwnWorker<'a> {
    runtime: &'a NoThreads,
    worker: Worker,
}

impl Deref for OwnWorker<'_> {
    type Target = Worker;

    fn deref(&self) -> &Worker {
        &self.worker
    }
}

impl Drop for OwnWorker<'_> {
    /// As a worker that leaves.
    fn drop(&mut self) {
        self.worker.move_tasks_to_injector();
        // SAFETY: (1) the runtime has a reference. (2) The number is the worker's own count.
        unsafe { self.runtime.add_references(self.worker.take_references()) };
    }
}

impl Deref for NoThreads {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        self.0.shared()
    }
}

impl Drop for NoThreads {
    /// The end of the last worker cancels the tasks that are left. The builder counts as a worker.
    fn drop(&mut self) {
        if !self.config.is_pool {
            // SAFETY: (1) no worker touches its table any more.
            (0..self.config.workers).for_each(|worker| unsafe { self.owned.lend(worker) });
        }
        self.owned.close();
        // SAFETY: (1) called once, and this reference keeps the state. (2) No worker is entered any more.
        unsafe { Shared::leave(self.0.shared_ptr(), 0) };
    }
}

/// Whether `parker`, in which no thread sleeps, was unparked. It is as new afterwards.
pub fn was_unparked(parker: &Parker) -> bool {
    let mut was_unparked = true;
    parker.park_if(None, || {
        was_unparked = false;
        false
    });
    was_unparked
}

/// A job that does nothing. The test does not run it after its end.
pub struct IdleJob(JobHeader);

impl IdleJob {
    pub fn new() -> Self {
        Self::of(null())
    }

    pub fn of(region: *const Region) -> Self {
        Self(JobHeader::new(|_| (), region))
    }

    pub fn header(&self) -> NonNull<JobHeader> {
        NonNull::from(&self.0)
    }

    pub fn tagged(&self, tag: Tag) -> JobRef {
        // SAFETY: (1) see the type. (2) It may be run any number of times.
        unsafe { JobRef::new(self.header(), tag) }
    }
}

/// Waits until `runtime` counts `sleeping` sleepers and no searcher.
#[track_caller]
fn assert_rests(runtime: &Runtime, sleeping: usize) {
    let begin = Instant::now();
    // How often in a row the counts were so. A worker that loses its CPU before it searches is in none of
    // them, and may come later. A sleeping worker that is counted twice is so for good.
    let mut times = 0;
    while times < 3 {
        let counts = runtime.handle().shared().idle.counts();
        times = if counts == (0, sleeping) { times + 1 } else { 0 };
        assert!(begin.elapsed() < Duration::from_secs(20), "searching and sleeping: {counts:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn the_counts_of_searching_and_sleeping_workers_are_exact_at_rest() {
    // A spare worker, which may come on a busy machine, would be counted, too.
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.worker_threads(4).spare_workers(0).enable_all().build().unwrap();
    for round in 0..200_u64 {
        let tasks: Vec<_> = (0..round % 17)
            .map(|i| {
                runtime.spawn(async move {
                    if i % 5 == 0 {
                        crate::time::sleep(Duration::from_micros(10 * i)).await;
                    }
                    crate::task::yield_now().await;
                })
            })
            .collect();
        for task in tasks {
            runtime.block_on(task).unwrap();
        }
        if round % 10 == 0 {
            assert_rests(&runtime, 4);
        }
    }
    assert_rests(&runtime, 4);
}

#[test]
fn the_counts_are_exact_after_workers_were_blocked() {
    let runtime = Builder::new_multi_thread().worker_threads(2).build().unwrap();
    for _ in 0..20 {
        let tasks: Vec<_> = (0..6)
            .map(|_| {
                runtime.spawn(async {
                    crate::task::block_in_place(|| std::thread::sleep(Duration::from_micros(100)));
                })
            })
            .collect();
        for task in tasks {
            runtime.block_on(task).unwrap();
        }
    }
    assert_rests(&runtime, 2);
}

#[test]
fn a_current_thread_runtime_counts_nobody_outside_of_block_on() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    for _ in 0..10 {
        runtime.block_on(async {
            crate::spawn(async { crate::time::sleep(Duration::from_millis(1)).await }).await.unwrap();
        });
        assert_eq!(runtime.handle().shared().idle.counts(), (0, 0));
    }
}
