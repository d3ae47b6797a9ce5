//! The job processors leave together: an injected job that comes while they try to is run by one of them or
//! refused, and none leaves while an injected job has not ended. A thread outside that queues the tasks of a
//! lent table counts as such a job (`Shared::as_job`): none leaves these tasks behind.
//!
//! The word is real; the workers are copies that take injected jobs from a locked queue. They do not sleep;
//! they say where they would. At the end of a model the workers that could be woken go on, one after the
//! other, and have to leave.
//!
//! Bounds: two workers, a thread outside that pushes one or two injected jobs, and the shutdown, which begins
//! at any moment. For the table: one worker, and the thread outside, after the shutdown has begun.

mod twin;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize as Count;

use loom::sync::Mutex;
use loom::sync::atomic::AtomicBool;
use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use runtime::internals::scheduler::InjectedJobs;

use super::once_built::{model, thread};
use super::plain::Plain;
use twin::{Fault, Twin};

/// What the real word and its twins have in common.
trait Word: Send + Sync + 'static {
    /// Before any other thread is told.
    fn begin_closing(&self);
    /// `CountJob`.
    fn try_begin(&self) -> bool;
    /// `UncountJob`, without the wake, which is the caller's if this is true.
    fn end(&self) -> bool;
    /// `CloseJobs`.
    fn try_close(&self, is_idle: impl FnOnce() -> bool) -> bool;
}

impl Word for InjectedJobs {
    fn begin_closing(&self) {
        self.begin_closing();
    }

    fn try_begin(&self) -> bool {
        self.try_begin()
    }

    fn end(&self) -> bool {
        self.end()
    }

    fn try_close(&self, is_idle: impl FnOnce() -> bool) -> bool {
        self.try_close(is_idle)
    }
}

struct Pool<W> {
    word: W,
    /// What the injected jobs do. A worker that leaves after them sees it.
    deeds: [Plain<bool>; 2],
    /// Injected jobs that wait, by number.
    jobs: Mutex<VecDeque<usize>>,
    tasks: Option<Tasks>,
    /// `Lifecycle::has_begun`.
    has_begun: AtomicBool,
    /// The workers sleep on these. They order what came before an unpark, as parkers do.
    tokens: [AtomicBool; 2],
    /// Injected jobs that were taken and have not ended; those that have; those that were refused.
    open: Count,
    ended: Count,
    refused: Count,
}

/// Tasks that have to be cancelled.
#[derive(Default)]
struct Tasks {
    /// A lent table has one. Under a lock, as the table.
    is_lent: Mutex<bool>,
    /// As the length of the injector, which is read without its lock.
    is_queued: AtomicBool,
}

impl Tasks {
    /// `Shared::queue_lent`.
    fn queue_lent(&self) {
        let is_claimed = std::mem::take(&mut *self.is_lent.lock().unwrap());
        if is_claimed {
            self.is_queued.store(true, Relaxed);
        }
    }

    /// A worker cancels what is queued.
    fn cancel(&self) {
        self.is_queued.swap(false, Relaxed);
    }

    fn is_any_queued(&self) -> bool {
        self.is_queued.load(Relaxed)
    }
}

// SAFETY: to find out whether the accesses of different threads are ordered is what the model is for.
unsafe impl<W: Sync> Sync for Pool<W> {}

impl<W: Word> Pool<W> {
    fn new(word: W) -> Self {
        Self {
            word,
            deeds: [
                Plain::new("what an injected job did", false),
                Plain::new("what an injected job did", false),
            ],
            jobs: Mutex::new(VecDeque::new()),
            tasks: None,
            has_begun: AtomicBool::new(false),
            tokens: [AtomicBool::new(false), AtomicBool::new(false)],
            open: Count::new(0),
            ended: Count::new(0),
            refused: Count::new(0),
        }
    }

    fn unpark_all(&self) {
        for token in &self.tokens {
            token.swap(true, AcqRel);
        }
    }

    fn shut_down(&self) {
        self.word.begin_closing();
        self.has_begun.store(true, Release);
        self.unpark_all();
    }

    fn push(&self, job: usize) {
        if !self.word.try_begin() {
            self.refused.fetch_add(1, Relaxed);
            return;
        }
        self.open.fetch_add(1, Relaxed);
        self.jobs.lock().unwrap().push_back(job);
        self.unpark_all();
    }

    /// The loop of a worker, until it leaves (true) or sleeps.
    fn work(&self, index: usize) -> bool {
        let is_idle = || self.tasks.as_ref().is_none_or(|tasks| !tasks.is_any_queued());
        loop {
            if let Some(tasks) = &self.tasks {
                tasks.queue_lent();
                tasks.cancel();
            }
            if self.has_begun.load(Acquire) && self.word.try_close(is_idle) {
                assert_eq!(self.open.load(Relaxed), 0, "a worker leaves before the last job has ended");
                // SAFETY: the cells check that no thread writes.
                let done = self.deeds.iter().filter(|deed| deed.with(|deed| unsafe { *deed })).count();
                assert_eq!(done, self.ended.load(Relaxed));
                return true;
            }
            let job = self.jobs.lock().unwrap().pop_front();
            if let Some(job) = job {
                // SAFETY: the cell checks that no other thread is there.
                self.deeds[job].with_mut(|deed| unsafe { *deed = true });
                self.open.fetch_sub(1, Relaxed);
                self.ended.fetch_add(1, Relaxed);
                if self.word.end() {
                    self.unpark_all();
                }
            } else if !self.tokens[index].swap(false, AcqRel) {
                return false;
            }
        }
    }

    /// `Shared::queue_lent`, in `Shared::as_job`.
    fn queue_lent(&self, tasks: &Tasks) {
        if self.word.try_begin() {
            tasks.queue_lent();
            if self.word.end() {
                self.unpark_all();
            }
        }
    }

    /// After every other thread: workers that sleep and have been unparked go on.
    fn finish(&self, mut has_left: [bool; 2], pushed: usize) {
        for index in [0, 1, 0, 1] {
            has_left[index] = has_left[index] || self.tokens[index].swap(false, AcqRel) && self.work(index);
        }
        assert_eq!(has_left, [true; 2], "a worker sleeps for ever");
        assert!(self.jobs.lock().unwrap().is_empty(), "a job was left");
        if let Some(tasks) = &self.tasks {
            assert!(!*tasks.is_lent.lock().unwrap() && !tasks.is_any_queued(), "a task was left");
        }
        assert_eq!(self.ended.load(Relaxed) + self.refused.load(Relaxed), pushed);
    }
}

/// Explores `f`, which is told whether the shutdown comes late in the first schedule: loom remembers only the
/// last access to an atomic, so that from one end it does not find everything.
fn explore(f: impl Fn(bool) + Send + Sync + Copy + 'static) {
    [false, true].into_iter().for_each(|is_late| model(move || f(is_late)));
}

fn yield_if(is_late: bool) {
    if is_late {
        thread::yield_now();
    }
}

/// Two workers try to leave while `jobs` injected jobs come.
fn jobs_while_the_workers_leave<W: Word>(make: impl Fn() -> W + Send + Sync + Copy + 'static, jobs: usize) {
    explore(move |is_late| {
        let pool = Arc::new(Pool::new(make()));
        let workers = [0, 1].map(|index| {
            let pool = pool.clone();
            thread::spawn(move || pool.work(index))
        });
        let outside = thread::spawn({
            let pool = pool.clone();
            move || (0..jobs).for_each(|job| pool.push(job))
        });
        yield_if(is_late);
        pool.shut_down();
        outside.join().unwrap();
        pool.finish(workers.map(|worker| worker.join().unwrap()), jobs);
    });
}

/// As above; the first injected job is there before, and no injected job comes from outside: an injected job
/// ends while the shutdown begins.
fn an_injected_job_ends_while_the_shutdown_begins<W: Word>(
    make: impl Fn() -> W + Send + Sync + Copy + 'static,
) {
    explore(move |is_late| {
        let pool = Arc::new(Pool::new(make()));
        pool.push(0);
        let workers = [0, 1].map(|index| {
            let pool = pool.clone();
            thread::spawn(move || pool.work(index))
        });
        yield_if(is_late);
        pool.shut_down();
        pool.finish(workers.map(|worker| worker.join().unwrap()), 1);
    });
}

/// The only worker leaves while a thread outside queues the task of a lent table.
fn a_table_is_queued_while_the_worker_leaves<W: Word>(make: impl Fn() -> W + Send + Sync + Copy + 'static) {
    explore(move |is_late| {
        let tasks = Tasks { is_lent: Mutex::new(true), ..Tasks::default() };
        let pool = Arc::new(Pool { tasks: Some(tasks), ..Pool::new(make()) });
        pool.shut_down();
        let worker = thread::spawn({
            let pool = pool.clone();
            move || pool.work(0)
        });
        yield_if(is_late);
        pool.queue_lent(pool.tasks.as_ref().unwrap());
        pool.finish([worker.join().unwrap(), true], 0);
    });
}

#[test]
fn a_task_of_a_table_that_is_queued_from_outside_is_cancelled() {
    a_table_is_queued_while_the_worker_leaves(InjectedJobs::new);
}

#[test]
fn a_root_is_run_or_refused_while_the_workers_leave() {
    jobs_while_the_workers_leave(InjectedJobs::new, 1);
}

#[test]
fn two_roots_are_run_or_refused_while_the_workers_leave() {
    jobs_while_the_workers_leave(InjectedJobs::new, 2);
}

#[test]
fn the_workers_leave_after_a_root_that_ends_during_the_shutdown() {
    an_injected_job_ends_while_the_shutdown_begins(InjectedJobs::new);
}

#[test]
fn a_twin_without_a_fault_passes() {
    jobs_while_the_workers_leave(|| Twin::new(None), 1);
    an_injected_job_ends_while_the_shutdown_begins(|| Twin::new(None));
    a_table_is_queued_while_the_worker_leaves(|| Twin::new(None));
}

/// A twin for each fault, and the model that must refuse it.
macro_rules! refused {
    ($($name:ident: $model:ident($fault:ident $(, $n:literal)?), $text:literal;)*) => {$(
        #[test]
        #[should_panic(expected = $text)]
        fn $name() {
            $model(|| Twin::new(Some(Fault::$fault)) $(, $n)?);
        }
    )*};
}

refused! {
    workers_that_load_and_store_when_they_leave: jobs_while_the_workers_leave(ClosesByStore, 1),
        "a worker leaves before the last job has ended";
    workers_that_leave_whatever_has_begun: an_injected_job_ends_while_the_shutdown_begins(ClosesOverJobs),
        "data race on what an injected job did";
    an_injected_job_that_looks_before_it_counts_itself: jobs_while_the_workers_leave(BeginsByLoad, 1),
        "a job was left";
    an_injected_job_that_ends_without_release: an_injected_job_ends_while_the_shutdown_begins(EndsRelaxed),
        "data race on what an injected job did";
    workers_that_leave_without_acquire: an_injected_job_ends_while_the_shutdown_begins(ClosesRelaxed),
        "data race on what an injected job did";
    a_last_injected_job_that_wakes_nobody: an_injected_job_ends_while_the_shutdown_begins(WakesNobody),
        "a worker sleeps for ever";
    a_last_job_that_asks_elsewhere_whether_to_wake:
        an_injected_job_ends_while_the_shutdown_begins(AsksElsewhere),
        "a worker sleeps for ever";
    workers_that_look_at_the_queue_before_the_number:
        a_table_is_queued_while_the_worker_leaves(LooksAtTheQueueFirst),
        "a task was left";
    workers_that_close_without_a_look_at_the_queue:
        a_table_is_queued_while_the_worker_leaves(LooksAtNoQueue),
        "a task was left";
    workers_that_look_at_the_number_without_acquire:
        a_table_is_queued_while_the_worker_leaves(LooksRelaxed),
        "a task was left";
    a_thread_that_queues_tasks_uncounted: a_table_is_queued_while_the_worker_leaves(CountsNothing),
        "a task was left";
}
