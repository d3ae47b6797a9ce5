//! Runtimes without threads: the test plays all threads, and looks for deadlocks.

use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use super::*;
use crate::config::{Config, Flavor};
use crate::driver::Driver;
use crate::driver::foreign::ForeignWakes;
use crate::driver::time::TimeDriver;
use crate::job::Tag;
use crate::scheduler::blocking::queue::{Next, PoolThread};
use crate::scheduler::enter;
use crate::scheduler::idle::Work;
use crate::scheduler::injected::Injected;
use crate::scheduler::shared::tests::{IdleJob, NoThreads};
use crate::util::joined::joined_scope;

/// The lines and workers of the marks in a report.
type Reported = Vec<(u32, Option<usize>)>;

/// A runtime without threads, and what was reported.
struct World {
    runtime: NoThreads,
    reports: Arc<Mutex<Vec<Reported>>>,
}

impl World {
    fn new(workers: usize) -> Self {
        Self::of(Config::of_pool(workers), Driver::new(None, None))
    }

    fn current_thread() -> Self {
        let config = Config { flavor: Flavor::CurrentThread, ..Config::of_pool(1) };
        Self::of(config, Driver::new(None, None))
    }

    fn of(config: Config, driver: Driver) -> Self {
        let reports = Arc::new(Mutex::new(Vec::new()));
        let to = reports.clone();
        let handler = move |deadlock: &Deadlock| {
            let marks =
                deadlock.blocked().iter().map(|blocked| (blocked.location().line(), blocked.worker()));
            to.lock().unwrap().push(marks.collect());
        };
        let config = Config { is_pool: false, deadlock_handler: Some(Arc::new(handler)), ..config };
        Self { runtime: NoThreads::of(config, driver), reports }
    }

    /// Marks the calling thread as `marked_as`. Returns the number of the mark.
    #[track_caller]
    fn mark(&self, marked_as: MarkedAs) -> u64 {
        let number = self.runtime.begin_mark(marked_as, false, Location::caller()).0;
        self.runtime.announce(number);
        number
    }

    /// As [`mark`](Self::mark), on another thread.
    fn mark_elsewhere(&self, marked_as: MarkedAs) {
        joined_scope(|scope| _ = scope.spawn(|| self.mark(marked_as)));
    }

    fn unmark(&self, number: u64) {
        self.runtime.end_marks(|entry| entry.number == number);
    }

    /// How often a deadlock was reported.
    fn reported(&self) -> usize {
        self.reports.lock().unwrap().len()
    }

    /// Whether a look finds a deadlock that was not reported, while worker 1 sleeps.
    fn finds_one(&self) -> bool {
        self.runtime.while_asleep(&[1], || self.runtime.find_deadlock()).is_some()
    }
}

/// Two workers: worker 0 is marked, worker 1 is to sleep.
fn one_of_two_is_marked() -> World {
    let world = World::new(2);
    world.mark(MarkedAs::Worker(0));
    assert_eq!(world.reported(), 0, "worker 1 is awake");
    world
}

#[test]
fn a_deadlock_is_reported_once_by_the_last_thread_that_is_marked() {
    let world = World::new(2);
    let line = line!();
    let first = world.mark(MarkedAs::Worker(0));
    let second = world.mark(MarkedAs::Worker(1));
    assert_eq!(*world.reports.lock().unwrap(), [[(line + 1, Some(0)), (line + 2, Some(1))]]);
    world.runtime.report_deadlock();
    assert_eq!(world.reported(), 1, "nothing has changed");
    world.unmark(first);
    world.runtime.report_deadlock();
    assert_eq!(world.reported(), 1, "worker 0 is awake");
    world.mark(MarkedAs::Worker(1));
    world.mark(MarkedAs::Worker(0));
    let lines = [(line + 2, Some(1)), (line + 9, Some(1)), (line + 10, Some(0))];
    assert_eq!(world.reports.lock().unwrap()[1], lines, "the oldest mark comes first");
    world.unmark(second);
    world.runtime.report_deadlock();
    assert_eq!(world.reported(), 3, "a mark has gone, and the worker has another one");
}

#[test]
fn a_worker_that_sleeps_is_as_good_as_one_that_is_marked() {
    let world = one_of_two_is_marked();
    world.runtime.report_deadlock();
    assert_eq!(world.reported(), 0);
    world.runtime.while_asleep(&[1], || {
        world.runtime.report_deadlock();
        assert_eq!(world.reported(), 1);
        world.runtime.report_deadlock();
        assert_eq!(world.reported(), 1);
    });
}

#[test]
fn sleepers_alone_are_no_deadlock() {
    let world = World::new(2);
    world.runtime.while_asleep(&[0, 1], || {
        assert!(world.runtime.find_deadlock().is_none());
        let mark = world.mark(MarkedAs::Worker(0));
        assert_eq!(world.reported(), 1);
        world.unmark(mark);
        assert!(world.runtime.look_for_deadlock().is_none());
        // It has not exposed its queues.
        world.runtime.begin_mark(MarkedAs::Worker(0), false, Location::caller());
        assert!(world.runtime.look_for_deadlock().is_none());
    });
}

#[test]
fn without_a_handler_nothing_is_found() {
    let runtime = NoThreads::new(1);
    let number = runtime.begin_mark(MarkedAs::Worker(0), false, Location::caller()).0;
    runtime.announce(number);
    assert_eq!(runtime.marks.announced.load(Relaxed), 0);
    assert!(runtime.find_deadlock().is_none() && runtime.look_for_deadlock().is_none());
    assert!(runtime.enter_block_on().is_none() && runtime.expect().is_none());
    assert!(Expecting::of(&runtime).is_none());
    runtime.while_asleep(&[0], || assert!(runtime.as_what_it_blocks().is_none()));
}

#[test]
fn a_spare_worker_counts_from_its_call_to_the_end_of_its_thread() {
    let config = Config { spare_workers: 2, ..Config::of_pool(1) };
    let world = World::of(config, Driver::new(None, None));
    let runtime = &world.runtime;
    assert_eq!((runtime.first_spare, runtime.max_spares), (1, 2));
    runtime.away.change(|table| [(); 2].map(|()| table.call_fresh()));
    [1, 2].into_iter().for_each(|index| {
        // SAFETY: (1) no other thread knows it. (2) The runtime holds it.
        runtime.processors.make(index, |job_processor| unsafe { job_processor.bind(runtime.ptr()) });
    });
    runtime.processors.set_spare(2);
    let line = line!();
    world.mark(MarkedAs::Worker(0));
    world.mark(MarkedAs::Worker(1));
    assert_eq!(world.reported(), 0, "a spare worker is awake");
    runtime.while_asleep(&[2], || runtime.report_deadlock());
    assert_eq!(*world.reports.lock().unwrap(), [[(line + 1, Some(0)), (line + 2, None)]]);
    world.mark(MarkedAs::Worker(0));
    assert_eq!(world.reported(), 1);
    runtime.away.change(|table| {
        table.begin_rest(2);
        assert!(table.end_rest(2, false));
    });
    world.mark(MarkedAs::Worker(0));
    assert_eq!(world.reported(), 2, "the other one is absent");
}

#[test]
fn tasks_in_any_queue_will_wake_a_sleeper() {
    let world = one_of_two_is_marked();
    world.runtime.spawn();
    assert!(!world.finds_one(), "the injector has a task");
    let worker = world.runtime.worker(1);
    let task = world.runtime.injector.pop_task().unwrap();
    assert_eq!(worker.own_queues().push_back(task, &world.runtime.injector), 0);
    assert!(!world.finds_one(), "a ring has a task");
    let task = worker.own_queues().pop_front().unwrap();
    assert!(worker.own_queues().push_next(task).is_none());
    assert!(!world.finds_one(), "a LIFO slot has a task");
    worker.own_queues().pop_next().unwrap().cancel();
    assert!(world.finds_one());
}

#[test]
fn foreign_wakers_that_are_about_to_be_called_may_wake_a_sleeper() {
    let world = one_of_two_is_marked();
    let foreign = ForeignWakes::new();
    foreign.keep_call(Box::new(|| ()));
    let waking = &world.runtime.processor(0).waking;
    waking.add(&foreign);
    assert!(!world.finds_one());
    waking.wake_rest();
    assert!(world.finds_one());
}

#[test]
fn a_timer_will_wake_a_sleeper() {
    let driver = Driver::new(None, Some(TimeDriver::new(3, false)));
    let world = World::of(Config::of_pool(2), driver);
    world.mark(MarkedAs::Worker(0));
    let handle = world.runtime.handle();
    let _entered = handle.enter();
    let mut sleep = Box::pin(crate::time::sleep(std::time::Duration::from_secs(1000)));
    assert!(sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert!(!world.finds_one());
    drop(sleep);
    assert!(world.finds_one());
}

/// Submits a task in the place of a closure. No thread is started for it.
fn submit(world: &World) {
    let closure = world.runtime.task().into_raw();
    // SAFETY: (1) a task lives while its `SCHEDULED` is ours, (2) and it is in no queue.
    drop(unsafe { world.runtime.blocking.queue.submit(closure) });
}

/// `thread` takes the closure that was submitted.
fn runs(world: &World, thread: &Arc<PoolThread>) {
    match world.runtime.blocking.queue.next(thread, false) {
        // SAFETY: its `SCHEDULED` was submitted with it.
        Next::Run(task, _) => unsafe { crate::task::Runnable::from_raw(task) }.cancel(),
        other => panic!("{other:?}"),
    }
}

fn with_blocking_threads(most: usize) -> World {
    let config = Config { max_blocking_threads: most, ..Config::of_pool(2) };
    let world = World::of(config, Driver::new(None, None));
    world.mark(MarkedAs::Worker(0));
    world
}

#[test]
fn closures_that_run_without_a_mark_may_wake_a_sleeper() {
    let world = with_blocking_threads(2);
    let queue = &world.runtime.blocking.queue;
    submit(&world);
    assert!(!world.finds_one(), "a thread is coming");
    drop(queue.arrive());
    let first = PoolThread::new();
    runs(&world, &first);
    assert!(!world.finds_one(), "a closure runs");
    let mark = world.mark(MarkedAs::Closure);
    assert!(world.finds_one());
    submit(&world);
    drop(queue.arrive());
    let second = PoolThread::new();
    runs(&world, &second);
    world.unmark(mark);
    world.mark(MarkedAs::Closure);
    assert!(!world.finds_one(), "another closure runs");
    assert!(matches!(queue.next(&second, false), Next::Sleep));
    assert!(world.finds_one(), "the other thread of the pool is idle");
}

#[test]
fn a_closure_that_waits_may_wake_a_sleeper() {
    let world = with_blocking_threads(1);
    submit(&world);
    drop(world.runtime.blocking.queue.arrive());
    let thread = PoolThread::new();
    runs(&world, &thread);
    submit(&world);
    world.mark(MarkedAs::Closure);
    assert!(!world.finds_one());
    runs(&world, &thread);
    assert!(world.finds_one());
}

#[test]
fn a_job_that_a_sleeper_could_run_will_wake_it() {
    let (world, job) = (World::new(2), IdleJob::new());
    let runtime = &world.runtime;
    let install = || runtime.queue_install(job.tagged(Tag::NONE));
    install();
    let mark = world.mark(MarkedAs::Worker(0));
    assert!(!world.finds_one());
    assert!(runtime.injected_jobs.take_install(Tag::NONE).is_some());
    assert!(world.finds_one());

    // SAFETY: (1) this thread plays the owner.
    let own = unsafe { runtime.job_processor(0).by_owner() };
    // SAFETY: (1) it lives until it was taken out.
    unsafe { own.push(job.tagged(Tag::NONE)) };
    world.mark(MarkedAs::Worker(0));
    assert!(!world.finds_one(), "worker 1 could steal it");
    assert!(own.pop_anywhere().is_some());
    assert!(world.finds_one());

    install();
    world.mark(MarkedAs::Worker(1));
    assert_eq!(world.reported(), 1, "no worker can run it");
    assert!(runtime.injected_jobs.take_install(Tag::NONE).is_some());
    world.unmark(mark);
}

#[test]
fn a_detached_job_will_wake_a_sleeper_that_waits_for_no_latch() {
    for injected in [true, false] {
        let (world, job) = (one_of_two_is_marked(), IdleJob::new());
        let runtime = &world.runtime;
        let detached = &runtime.job_processor(0).detached;
        match injected {
            true => runtime.queue_injected(Injected::Spawn(job.tagged(Tag::NONE))),
            false => detached.push_back(job.tagged(Tag::NONE)),
        }
        assert!(!world.finds_one());
        assert!(runtime.idle.announce_wait(1, runtime.idle.get_sleepy()));
        assert!(world.finds_one(), "a waiter does not run it");
        assert!(runtime.idle.end_wait(1));
        world.mark(MarkedAs::Worker(1));
        assert_eq!(world.reported(), 1, "no worker can run it");
        detached.pop_front();
    }
}

#[test]
fn a_broadcast_will_wake_the_worker_that_it_is_for() {
    let (world, job) = (one_of_two_is_marked(), IdleJob::new());
    let broadcasts = |index| &world.runtime.job_processor(index).broadcasts;
    broadcasts(1).push_back(job.tagged(Tag::NONE));
    assert!(!world.finds_one());
    assert!(broadcasts(1).pop_front().is_some());
    broadcasts(0).push_back(job.tagged(Tag::NONE));
    assert!(world.finds_one(), "the worker that it is for is blocked");
    assert!(broadcasts(0).pop_front().is_some());
}

#[test]
fn a_thread_in_a_block_on_is_awake_unless_it_is_marked() {
    let world = World::new(1);
    world.mark_elsewhere(MarkedAs::Worker(0));
    assert_eq!(world.reported(), 1);
    assert!(world.runtime.as_what_it_blocks().is_none());
    let outer = world.runtime.enter_block_on().unwrap();
    assert!(matches!(world.runtime.as_what_it_blocks(), Some(MarkedAs::BlockOn)));
    world.mark_elsewhere(MarkedAs::Worker(0));
    assert_eq!(world.reported(), 1, "any thread may wake its future");
    world.mark(MarkedAs::BlockOn);
    assert_eq!(world.reported(), 2);
    let inner = world.runtime.enter_block_on().unwrap();
    drop(inner);
    let marks = || world.runtime.marks.state.lock().marks.len();
    assert_eq!(marks(), 3, "the thread is still in the outer one");
    drop(outer);
    assert_eq!(marks(), 2, "a mark in a `block_on` ends with it, and no other");
    assert_eq!(world.reported(), 3, "the end of a `block_on` looks");
}

#[test]
fn each_thread_in_a_block_on_has_to_be_marked() {
    let world = World::new(1);
    let _here = world.runtime.enter_block_on().unwrap();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let there = world.runtime.enter_block_on().unwrap();
            world.mark(MarkedAs::Worker(0));
            world.mark(MarkedAs::BlockOn);
            assert_eq!(world.reported(), 0, "the other thread is awake");
            drop(there);
        });
        other.join().unwrap();
    });
    assert_eq!(world.runtime.marks.state.lock().block_ons.len(), 1);
    world.mark(MarkedAs::BlockOn);
    assert_eq!(world.reported(), 1);
}

#[test]
fn a_worker_is_in_no_block_on_unless_it_is_the_only_thread() {
    let world = World::new(2);
    let worker = world.runtime.worker(0);
    enter::enter_worker(&worker, || {
        assert!(world.runtime.enter_block_on().is_none());
        assert!(World::new(1).runtime.enter_block_on().is_some(), "it is no worker of another runtime");
    });
    let world = World::current_thread();
    let worker = world.runtime.worker(0);
    enter::enter_worker(&worker, || assert!(world.runtime.enter_block_on().is_some()));
}

#[test]
fn the_marks_of_the_only_thread_end_with_its_block_on() {
    let world = World::current_thread();
    assert_eq!(world.runtime.sleeps(&world.runtime.marks.state.lock()), Some(Vec::new()));
    let block_on = world.runtime.enter_block_on().unwrap();
    world.mark(MarkedAs::Worker(0));
    assert_eq!(world.reported(), 1);
    drop(block_on);
    assert!(world.runtime.marks.state.lock().marks.is_empty());
}

#[test]
fn nothing_is_found_while_something_outside_goes_on() {
    let world = one_of_two_is_marked();
    let first = world.runtime.expect().unwrap();
    std::mem::forget(world.runtime.expect().unwrap());
    assert!(!world.finds_one());
    assert!(first.end().is_none());
    assert!(!world.finds_one());
    let second = Expecting::of(&world.runtime).unwrap();
    world.runtime.while_asleep(&[1], || assert!(second.end().is_some(), "the caller has to report it"));
    assert_eq!(world.reported(), 0);
    let third = world.runtime.expect().unwrap();
    world.mark(MarkedAs::Worker(0));
    world.runtime.while_asleep(&[1], || drop(third));
    assert_eq!(world.reported(), 1);
}

#[test]
fn marks_are_void_when_their_worker_or_closure_goes_on() {
    let world = World::new(2);
    let here = MarkedAs::Closure;
    let kinds = [MarkedAs::Worker(0), MarkedAs::Worker(1), MarkedAs::Worker(0), here, here];
    kinds.into_iter().for_each(|kind| _ = world.mark(kind));
    world.mark_elsewhere(MarkedAs::Closure);
    let left =
        || world.runtime.marks.state.lock().marks.iter().map(|entry| entry.marked_as).collect::<Vec<_>>();
    let marks_of = |index| world.runtime.processor(index).marks.load(Relaxed);
    assert_eq!([marks_of(0), marks_of(1)], [2, 1]);
    world.runtime.void_marks_of(0);
    assert_eq!([marks_of(0), marks_of(1)], [0, 1]);
    assert!(!left().contains(&MarkedAs::Worker(0)) && left().contains(&MarkedAs::Worker(1)));
    world.runtime.closure_ended();
    assert_eq!(left().iter().filter(|&&kind| kind == MarkedAs::Closure).count(), 1, "another thread's");
    assert!(left().contains(&MarkedAs::Worker(1)));
    assert_eq!(world.runtime.marks.announced.load(Relaxed), 2);
}

#[test]
fn a_worker_counts_as_blocked_once_for_all_its_marks() {
    let world = World::new(2);
    let runtime = &world.runtime;
    let begin = |index, is_compensated| {
        runtime.begin_mark(MarkedAs::Worker(index), is_compensated, Location::caller())
    };
    let uncompensated = begin(0, false);
    let [first, second, other] = [begin(0, true), begin(0, true), begin(1, true)];
    let is_first = [uncompensated, first, second, other].map(|(_, is_first)| is_first);
    assert_eq!(is_first, [false, true, false, true]);
    assert_eq!([uncompensated, first, second, other].map(|(number, _)| number), [0, 1, 2, 3]);
    [0, 1].into_iter().for_each(|_| runtime.marked_blocked());
    let blocked_after = |number: u64| {
        runtime.end_marks(|entry| entry.number == number);
        runtime.away.blocked()
    };
    assert_eq!([first.0, uncompensated.0, second.0, other.0].map(blocked_after), [2, 2, 1, 0]);
}

#[test]
fn a_thread_is_marked_as_what_it_is() {
    assert!(mark(Location::caller()).is_none(), "no runtime knows it");
    let world = World::new(2);
    let handle = world.runtime.handle();
    let kinds =
        || world.runtime.marks.state.lock().marks.iter().map(|entry| entry.marked_as).collect::<Vec<_>>();
    {
        let _entered = handle.enter();
        assert!(mark(Location::caller()).is_none(), "it only holds a handle");
        let _block_on = world.runtime.enter_block_on();
        let _mark = mark(Location::caller()).unwrap();
        assert_eq!(kinds(), [MarkedAs::BlockOn]);
    }
    assert_eq!(kinds(), []);
    joined_scope(|scope| {
        scope.spawn(|| {
            context::become_blocking(world.runtime.ptr());
            let _entered = handle.enter();
            let mark = mark(Location::caller()).unwrap();
            assert_eq!(kinds(), [MarkedAs::Closure]);
            drop(mark);
        });
    });
    assert_eq!(kinds(), []);
    let worker = world.runtime.worker(1);
    enter::enter_worker(&worker, || {
        let marks = [(); 2].map(|()| mark(Location::caller()).unwrap());
        assert_eq!((kinds(), world.runtime.away.blocked()), (vec![MarkedAs::Worker(1); 2], 1));
        let [first, second] = marks;
        drop(first);
        assert_eq!((kinds().len(), world.runtime.away.blocked()), (1, 1));
        drop(second);
        assert_eq!((kinds().len(), world.runtime.away.blocked()), (0, 0));
        // In a call that blocks it is counted for that call, which is no short one.
        let had_table = worker.begin_blocking();
        let mark = mark(Location::caller()).unwrap();
        assert_eq!((kinds().len(), world.runtime.away.blocked()), (1, 1));
        drop(mark);
        assert_eq!((kinds().len(), world.runtime.away.blocked()), (0, 1));
        worker.end_blocking(had_table);
    });
    world.runtime.fetch(Work::Task);
}
