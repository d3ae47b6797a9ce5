use std::panic::Location;
use std::pin::pin;
use std::sync::mpsc;
use std::task::{Context, Waker};

use super::super::jobs::JOB_WAITS;
use super::*;
use crate::config::Config;
use crate::driver::Driver;
use crate::driver::io::IoDriver;
use crate::driver::time::TimeDriver;
use crate::job::Tag;
use crate::loom::sync::atomic::AtomicBool;
use crate::scheduler::shared::tests::{IdleJob, NoThreads};
use crate::util::joined::joined_scope;
use crate::{Builder, task};

/// Looks at a worker that is inside of `poll`, which gets a function that returns when the looks are
/// over. Returns whether the task is remembered, and whether there are long polls.
fn look_at(poll: impl FnOnce(&dyn Fn()) + Send + 'static) -> (bool, bool) {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (begin, has_begun) = mpsc::channel();
    let (end, has_ended) = mpsc::channel::<()>();
    let task = runtime.spawn(async move {
        poll(&|| {
            begin.send(()).unwrap();
            _ = has_ended.recv();
        });
    });
    has_begun.recv_timeout(Duration::from_secs(60)).expect("the poll begins");
    let shared = runtime.handle().shared();
    // SAFETY: (1) `runtime` has a reference, and outlives the looks.
    let mut looks = unsafe { Looks::new(NonNull::from(shared)) };
    let now = Instant::now();
    looks.observe(now);
    let tick = shared.processor(0).tick();
    looks.remember_slow(0, tick, now);
    looks.remember_slow(0, tick, now);
    let result = (looks.watched[0].is_remembered, now < looks.long_polls_until);
    drop(end);
    runtime.block_on(task).unwrap();
    result
}

#[test]
fn a_poll_that_lasts_is_long() {
    assert_eq!(look_at(|wait| wait()), (true, true));
}

#[test]
fn a_call_that_says_that_it_blocks_is_no_long_poll() {
    assert_eq!(look_at(|wait| task::block_in_place(wait)), (false, false));
}

/// The number of no thread: there are fewer numbers.
const NO_THREAD: i32 = 1 << 23;

/// Two workers that are awake, and `spares` resting spare workers, from index 4 on.
fn world(spares: usize) -> NoThreads {
    world_of(NoThreads::with_spares(2, spares), spares)
}

fn world_of(runtime: NoThreads, spares: usize) -> NoThreads {
    for index in (0..2).chain((0..spares).map(|_| runtime.add_spare())) {
        let processor = runtime.processor(index);
        processor.metrics.thread_begins();
        processor.thread.store(NO_THREAD, Relaxed);
        if index >= runtime.first_spare {
            runtime.away.set_up(|table| table.begin_rest(index));
        } else {
            runtime.away.permanent_comes();
        }
    }
    runtime
}

/// Has the resting spare worker `index` come.
fn call(runtime: &NoThreads, index: usize) {
    runtime.away.set_up(|table| assert!(table.end_rest(index, true)));
}

/// Looks at `runtime`, whose workers have been seen once.
fn looks(runtime: &NoThreads) -> (Looks<'_>, Instant) {
    // SAFETY: (1) the result does not outlive the runtime.
    let mut looks = unsafe { Looks::new(runtime.ptr()) };
    let now = Instant::now();
    (looks.alert_until, looks.long_polls_until, looks.helps_until) = (now, now, now);
    (looks.serves_until, looks.more_serve_until) = (now, now);
    (looks.slow_since, looks.moved_at) = (now, now);
    looks.jobs = WatchedJobs::new(now);
    looks.observe(now);
    (looks, now)
}

/// How many workers are stalled, and how many spare workers are to serve.
fn numbers(runtime: &NoThreads) -> (usize, usize) {
    runtime.away.set_up(|table| (table.stalled, table.serving))
}

fn sleeps(runtime: &NoThreads, index: usize) {
    runtime.idle.announce_sleep(index, false);
}

/// Pushes a task into the ring of worker `index`.
fn fill_ring(runtime: &NoThreads, index: usize) -> u64 {
    let task = runtime.task();
    let id = task.id();
    // SAFETY: (1) this thread plays the owner. (2), (3) a task lives while its `SCHEDULED` is ours.
    assert_eq!(unsafe { runtime.processor(index).ring.push_back(task.into_raw(), &runtime.injector) }, 0);
    id
}

/// Puts a task into the LIFO slot of worker `index`.
fn fill_lifo(runtime: &NoThreads, index: usize) -> u64 {
    let task = runtime.task();
    let id = task.id();
    // SAFETY: (1) this thread plays the owner.
    assert!(unsafe { runtime.processor(index).lifo.push(task) }.is_none());
    id
}

#[test]
fn tasks_in_rings_and_the_injector_wait_and_jobs_count_as_one() {
    let (runtime, job) = (world(0), IdleJob::new());
    let (looks, _) = looks(&runtime);
    assert_eq!(looks.waiting(), 0);
    (0..2).for_each(|_| _ = fill_ring(&runtime, 0));
    fill_ring(&runtime, 1);
    (0..3).for_each(|_| runtime.spawn());
    assert_eq!(looks.waiting(), 6);
    runtime.job_processor(0).detached.push_back(job.tagged(Tag::NONE));
    assert_eq!(looks.waiting(), 7);
    runtime.job_processor(0).detached.pop_front();
    // SAFETY: (1) this thread plays the owner; the tasks were pushed.
    let pop =
        |index: usize| unsafe { runtime.processor(index).ring.pop().map(|task| Runnable::from_raw(task)) };
    [0, 0, 1].into_iter().for_each(|index| pop(index).unwrap().cancel());
}

#[test]
fn workers_and_spare_workers_that_are_awake_are_up() {
    let runtime = world(2);
    let (mut looks, now) = looks(&runtime);
    let up = |looks: &Looks<'_>| looks.up().collect::<Vec<_>>();
    assert_eq!(up(&looks), [0, 1, 4, 5]);
    runtime.processor(0).metrics.sleep_changes.add(1);
    runtime.processor(5).metrics.sleep_changes.add(1);
    assert_eq!((up(&looks), looks.are_all_up()), (vec![1, 4], false));
    runtime.processor(0).metrics.sleep_changes.add(1);
    assert!(looks.are_all_up());
    // An external thread and a spare worker that were not observed yet.
    assert!(runtime.take_external().is_none());
    looks.watched.truncate(5);
    runtime.processor(5).metrics.sleep_changes.add(1);
    assert_eq!(up(&looks), [0, 1, 4]);
    looks.observe(now);
    assert_eq!(up(&looks), [0, 1, 4, 5]);
}

#[test]
fn a_sleeper_that_takes_everything_is_as_good_as_a_worker_that_is_not_up() {
    let runtime = world(1);
    let (looks, _) = looks(&runtime);
    call(&runtime, 4);
    sleeps(&runtime, 4);
    assert!(looks.are_all_up(), "it serves");
    runtime.away.set_up(|table| table.blocked = 1);
    assert!(!looks.are_all_up(), "it compensates");
}

#[test]
fn a_sleeper_is_woken_for_what_waits_behind_a_worker_that_is_stuck() {
    let runtime = world(0);
    let (mut looks, now) = looks(&runtime);
    sleeps(&runtime, 1);
    assert!(!looks.relieve(now, 1, false), "none is stuck");
    looks.watched[0].is_stuck = true;
    assert!(!looks.relieve(now, 0, false), "nothing waits");
    assert_eq!((runtime.unparked(), looks.has_called), (vec![], false));
    assert!(looks.relieve(now, 1, false));
    assert_eq!((runtime.unparked(), looks.has_called), (vec![1], true));
    // It does not come. Another one sleeps.
    sleeps(&runtime, 1);
    assert!(looks.relieve(now, 1, false));
    assert_eq!(runtime.unparked(), [1], "though one searches");
    assert_eq!(numbers(&runtime), (0, 0));
}

#[test]
fn blocked_workers_are_counted_if_work_waits_for_them_and_none_sleeps() {
    let runtime = world(1);
    let (mut looks, now) = looks(&runtime);
    runtime.processor(0).blocked_state.say_blocked();
    looks.watched[0].is_stuck = true;
    assert!(!looks.relieve(now, 0, false));
    assert_eq!(runtime.away.blocked(), 0);
    // A sleeper was called at the last look, and there is none now.
    looks.has_called = true;
    assert!(looks.relieve(now, 1, false) && !looks.has_called);
    assert_eq!((runtime.away.blocked(), runtime.unparked()), (1, vec![4]));
}

#[test]
fn blocked_workers_are_counted_if_none_sees_to_the_driver_or_slow_tasks_wait() {
    for is_deserted in [true, false] {
        let runtime = world(1);
        let (mut looks, now) = looks(&runtime);
        runtime.processor(0).blocked_state.say_blocked();
        looks.watched[0].is_stuck = true;
        if !is_deserted {
            runtime.slow.push_task(runtime.task());
        }
        sleeps(&runtime, 4);
        looks.relieve(now, 0, is_deserted);
        assert_eq!(runtime.away.blocked(), 0, "a worker sleeps");
        runtime.idle.end_sleep(4);
        looks.relieve(now, 0, is_deserted);
        assert_eq!(runtime.away.blocked(), 1);
    }
}

#[test]
fn a_surplus_sleeper_comes_for_what_is_in_the_injector() {
    let runtime = world(1);
    let (mut looks, now) = looks(&runtime);
    call(&runtime, 4);
    looks.watched[0].is_stuck = true;
    sleeps(&runtime, 4);
    assert!(looks.relieve(now, 1, false));
    assert_eq!(runtime.unparked(), [], "what waits is in a ring");
    assert!(runtime.idle.end_sleep(4));
    runtime.spawn();
    sleeps(&runtime, 4);
    assert!(looks.relieve(now, 1, false));
    assert_eq!(runtime.unparked(), [4]);
}

#[test]
fn workers_off_their_cpus_are_stalled_and_starting_ones_count_as_one() {
    let runtime = NoThreads::with_spares(4, 3);
    (0..4).for_each(|index| runtime.processor(index).metrics.thread_begins());
    let spares = [(); 3].map(|()| runtime.add_spare());
    let (mut looks, now) = looks(&runtime);
    for index in [0, 1] {
        (looks.watched[index].is_stuck, looks.watched[index].is_off_cpu) = (true, true);
    }
    looks.watched[2].is_stuck = true;
    assert!(!looks.relieve(now, 0, false));
    assert_eq!(numbers(&runtime), (2, 0), "worker 2 computes");
    runtime.away.set_up(|table| {
        for spare in spares {
            table.begin_rest(spare);
            assert!(table.end_rest(spare, false));
        }
        (0..3).for_each(|_| _ = table.call_fresh());
        table.has_started(spares[2]);
    });
    spares.into_iter().for_each(|spare| looks.watched[spare].is_stuck = true);
    looks.relieve(now, 0, false);
    assert_eq!(numbers(&runtime), (3, 0));
    // At the shutdown, one is enough while any goes on.
    assert!(runtime.lifecycle.begin());
    looks.relieve(now, 0, false);
    assert_eq!(numbers(&runtime), (1, 0));
    looks.watched[3].is_stuck = true;
    looks.relieve(now, 0, false);
    assert_eq!(numbers(&runtime), (3, 0));
}

#[test]
fn spare_workers_serve_for_a_while_after_all_were_busy() {
    let runtime = world(4);
    let (mut looks, now) = looks(&runtime);
    let later = now + SERVES;
    (looks.serves_until, looks.more_serve_until) = (later, now);
    assert!(looks.relieve(now, 0, false));
    assert_eq!((numbers(&runtime), runtime.unparked()), ((0, 1), vec![7]));
    looks.more_serve_until = later;
    assert!(looks.relieve(now, 0, false));
    assert_eq!((numbers(&runtime), runtime.unparked()), ((0, 2), vec![6]), "workers compute");
    // One of them computes, too, and not in the place of a slow task.
    for index in [6, 7] {
        (looks.watched[index].is_stuck, looks.watched[index].is_held) = (true, true);
    }
    looks.watched[6].is_off_cpu = true;
    looks.relieve(now, 0, false);
    assert_eq!(numbers(&runtime), (1, 3));
    looks.more_serve_until = now;
    looks.relieve(now, 0, false);
    assert_eq!(numbers(&runtime), (1, 2));
    looks.more_serve_until = later;
    runtime.slow.push_task(runtime.task());
    looks.helpers = 1;
    looks.relieve(now, 0, false);
    assert_eq!(numbers(&runtime), (2, 2));
    assert!(!looks.relieve(later, 0, false));
    assert_eq!((numbers(&runtime), looks.helpers), ((2, 0), 1), "slow tasks wait");
    runtime.slow.pop_task().unwrap().cancel();
    looks.relieve(later, 0, false);
    assert_eq!((numbers(&runtime), looks.helpers), ((1, 0), 0));
}

#[test]
fn at_least_one_serves_and_at_the_shutdown_no_more_than_there_are_workers_beside() {
    let runtime = world(4);
    let (mut looks, now) = looks(&runtime);
    (looks.serves_until, looks.more_serve_until) = (now + SERVES, now + SERVES);
    (4..8).for_each(|index| call(&runtime, index));
    for index in [0, 1, 4, 5] {
        (looks.watched[index].is_stuck, looks.watched[index].is_off_cpu) = (true, true);
    }
    looks.relieve(now, 0, false);
    assert_eq!(numbers(&runtime), (4, 1), "the limit");
    for index in [4, 5, 6, 7] {
        (looks.watched[index].is_stuck, looks.watched[index].is_off_cpu) = (true, false);
        looks.watched[index].is_held = true;
    }
    looks.relieve(now, 0, false);
    assert_eq!(numbers(&runtime), (2, 6));
    assert!(runtime.lifecycle.begin());
    looks.relieve(now, 0, false);
    assert_eq!(numbers(&runtime), (2, 3));
}

#[test]
fn none_serves_while_all_sleep() {
    let runtime = world(1);
    let (mut looks, now) = looks(&runtime);
    looks.serves_until = now + SERVES;
    [0, 1, 4].into_iter().for_each(|index| runtime.processor(index).metrics.sleep_changes.add(1));
    assert!(!looks.relieve(now, 0, false));
    assert_eq!(numbers(&runtime), (0, 0));
}

#[test]
fn slow_tasks_are_forgotten_when_none_serves_any_more() {
    let runtime = world(1);
    let (mut looks, now) = looks(&runtime);
    let remember = || (0..2).for_each(|_| runtime.monitor.slow_tasks.insert(7, Location::caller()));
    remember();
    looks.relieve(now, 0, false);
    assert!(runtime.monitor.slow_tasks.is_slow(7), "none has served");
    looks.serves_until = now + SERVES;
    looks.relieve(now, 0, false);
    assert!(looks.has_served && runtime.monitor.slow_tasks.is_slow(7));
    looks.relieve(now + SERVES, 0, false);
    assert!(!looks.has_served && !runtime.monitor.slow_tasks.is_slow(7));
}

#[test]
fn one_serves_while_all_are_stuck_and_work_waits() {
    let runtime = world(2);
    let (mut looks, now) = looks(&runtime);
    [0, 1].into_iter().for_each(|index| looks.watched[index].is_stuck = true);
    looks.watched[4].is_stuck = true;
    looks.watched[5].is_stuck = true;
    assert!(looks.relieve(now, 2, false));
    assert_eq!((numbers(&runtime), runtime.unparked()), ((0, 1), vec![5]));
    looks.watched[1].is_stuck = false;
    assert!(looks.relieve(now, 1, false));
    assert_eq!(numbers(&runtime), (0, 0), "one goes on");
}

#[test]
fn a_stall_is_counted_once_and_only_of_a_poll_that_does_not_block() {
    let runtime = world(1);
    let (mut looks, now) = looks(&runtime);
    let task = runtime.task();
    let stalls = || runtime.monitor.stalls.get();
    runtime.processor(0).polling.begin(&task);
    looks.tell_stall(0, now);
    assert_eq!(stalls(), 0, "it is not held");
    looks.watched[0].is_held = true;
    runtime.processor(0).marks.store(1, Relaxed);
    looks.tell_stall(0, now);
    assert_eq!(stalls(), 0, "it is marked");
    runtime.processor(0).marks.store(0, Relaxed);
    looks.watched[0].is_stuck = true;
    looks.relieve(now, 0, false);
    assert_eq!(stalls(), 0, "nothing waits, and no spare worker is there");
    call(&runtime, 4);
    looks.relieve(now, 0, false);
    looks.relieve(now, 0, false);
    assert_eq!(stalls(), 1);
    // Another worker, which computes.
    let _computation = runtime.processor(1).polling.begin_computation(&task);
    looks.watched[1].is_held = true;
    looks.tell_stall(1, now);
    assert_eq!((stalls(), looks.watched[1].is_told), (1, true));
    drop(_computation);
    task.cancel();
}

#[test]
fn jobs_wait_while_a_worker_is_stuck() {
    let (runtime, job) = (world(0), IdleJob::new());
    let (mut looks, _) = looks(&runtime);
    let detached = &runtime.job_processor(1).detached;
    detached.push_back(job.tagged(Tag::NONE));
    looks.share_jobs(false);
    assert!(!runtime.monitor.do_jobs_wait(), "none is stuck");
    looks.watched[0].is_stuck = true;
    looks.share_jobs(false);
    assert!(runtime.monitor.do_jobs_wait());
    detached.pop_front();
    looks.share_jobs(false);
    assert!(!runtime.monitor.do_jobs_wait());
}

#[test]
fn jobs_beside_a_worker_that_is_still_bring_a_sleeper_or_a_waiter() {
    let (runtime, job) = (world(0), IdleJob::new());
    let (mut looks, _) = looks(&runtime);
    sleeps(&runtime, 1);
    looks.share_jobs(true);
    assert_eq!((runtime.unparked(), looks.has_called_for_jobs), (vec![], false), "there is no job");
    runtime.job_processor(0).detached.push_back(job.tagged(Tag::NONE));
    looks.share_jobs(false);
    assert_eq!((runtime.unparked(), looks.has_called_for_jobs), (vec![], false), "all move");
    looks.share_jobs(true);
    assert_eq!((runtime.unparked(), looks.has_called_for_jobs), (vec![1], true));
    sleeps(&runtime, 1);
    looks.share_jobs(true);
    assert_eq!(runtime.unparked(), [1], "though one searches");
    looks.share_jobs(true);
    assert_eq!((runtime.unparked(), looks.has_called_for_jobs), (vec![], false), "none is idle");
    (0..2).for_each(|_| _ = runtime.idle.stop_searching());
    assert!(runtime.idle.announce_wait(1, runtime.idle.get_sleepy()));
    looks.share_jobs(true);
    assert_eq!(runtime.unparked(), [1]);
}

/// Whether the monitor keeps threads in reserve. All indices are in use, so a call is counted as capped.
fn keeps_reserve(config: Config, waiting: usize, set_up: impl FnOnce(&NoThreads)) -> bool {
    let config = Config { is_pool: false, ..config };
    let spares = config.spare_workers;
    let runtime = NoThreads::of(config, Driver::new(None, None));
    (0..spares).for_each(|_| _ = runtime.add_spare());
    set_up(&runtime);
    let (looks, _) = looks(&runtime);
    looks.keep_reserve(waiting);
    runtime.away.counts().capped > 0
}

#[test]
fn threads_are_kept_in_reserve_while_tasks_wait_beside_a_computation() {
    let config =
        |spare_workers, thread_keep_alive| Config { spare_workers, thread_keep_alive, ..Config::of_pool(2) };
    let computes = |runtime: &NoThreads| assert!(runtime.injected_jobs.try_begin());
    let usual = || config(1, RESERVE_KEEP_ALIVE);
    assert!(keeps_reserve(usual(), 1, computes));
    assert!(!keeps_reserve(usual(), 0, computes), "nothing waits");
    assert!(!keeps_reserve(usual(), 1, |_| ()), "none computes");
    assert!(!keeps_reserve(config(1, RESERVE_KEEP_ALIVE / 2), 1, computes), "they would not stay");
    assert!(!keeps_reserve(config(0, RESERVE_KEEP_ALIVE), 1, computes), "there are none");
    let ends = |runtime: &NoThreads| {
        computes(runtime);
        assert!(runtime.lifecycle.begin());
    };
    assert!(!keeps_reserve(usual(), 1, ends), "no worker yields any more");
}

#[test]
fn a_wake_is_missed_if_work_waits_for_long_beside_a_sleeper_and_nothing_moves() {
    let runtime = world(0);
    let (mut looks, now) = looks(&runtime);
    looks.make_up_for_missed_wakes(now);
    let missed = || runtime.monitor.missed_wakes.get();
    runtime.spawn();
    sleeps(&runtime, 1);
    looks.make_up_for_missed_wakes(now + MISSED - Duration::from_nanos(1));
    assert_eq!(missed(), 0, "not for long");
    looks.make_up_for_missed_wakes(now + MISSED);
    assert_eq!((missed(), runtime.unparked()), (1, vec![1]));
    // It is a searcher now, and comes.
    looks.make_up_for_missed_wakes(now + 2 * MISSED);
    assert!(runtime.idle.stop_searching());
    looks.make_up_for_missed_wakes(now + 4 * MISSED);
    assert_eq!(missed(), 1, "none sleeps");
    sleeps(&runtime, 1);
    runtime.processor(0).metrics.polls.add(1);
    looks.make_up_for_missed_wakes(now + 6 * MISSED);
    assert_eq!(missed(), 1, "a worker moves");
    looks.make_up_for_missed_wakes(now + 7 * MISSED);
    assert_eq!(missed(), 2);
    runtime.injector.pop_task().unwrap().cancel();
}

#[test]
fn jobs_that_no_surplus_sleeper_takes_are_no_missed_wake() {
    let (runtime, job) = (world(1), IdleJob::new());
    let (mut looks, now) = looks(&runtime);
    looks.make_up_for_missed_wakes(now);
    call(&runtime, 4);
    runtime.queue_install(job.tagged(Tag::NONE));
    sleeps(&runtime, 4);
    looks.make_up_for_missed_wakes(now + MISSED);
    assert_eq!(runtime.monitor.missed_wakes.get(), 0);
    sleeps(&runtime, 1);
    looks.make_up_for_missed_wakes(now + 2 * MISSED);
    assert_eq!(runtime.monitor.missed_wakes.get(), 1);
}

/// Has the monitor see all workers still for so long that they are stuck.
fn all_stuck(looks: &mut Looks<'_>, now: Instant) -> Instant {
    looks.watched.iter_mut().for_each(|watch| {
        (watch.still, watch.is_stuck) = (2, true);
    });
    now
}

#[test]
fn tasks_behind_a_worker_that_is_stuck_are_taken_and_those_behind_others_are_not() {
    let runtime = world(0);
    let (mut looks, now) = looks(&runtime);
    let first = fill_ring(&runtime, 0);
    looks.watched.iter_mut().for_each(|watch| watch.still = 0);
    assert!(!looks.rescue(now), "it moves");
    looks.watched[0].still = 1;
    looks.watched[1].still = 1;
    assert!(looks.rescue(now), "a task is behind a worker that is still");
    assert!(runtime.injector.is_empty());
    looks.watched[0].is_starved = true;
    looks.rescue(now);
    assert!(runtime.injector.is_empty(), "none sleeps that could run it");
    looks.watched[0].is_stuck = true;
    looks.rescue(now);
    assert_eq!(runtime.injector.len(), 1);
    let task = runtime.injector.pop_task().unwrap();
    assert_eq!(task.id(), first);
    task.cancel();
    assert!(!looks.rescue(now), "nothing is left");
}

#[test]
fn tasks_behind_a_starved_worker_are_taken_if_another_sleeps() {
    let runtime = world(0);
    let (mut looks, now) = looks(&runtime);
    fill_ring(&runtime, 0);
    looks.watched.iter_mut().for_each(|watch| (watch.still, watch.is_starved) = (2, true));
    sleeps(&runtime, 1);
    assert!(looks.rescue(now));
    assert_eq!((runtime.injector.len(), runtime.unparked()), (1, vec![1]));
}

#[test]
fn slow_tasks_behind_a_stuck_worker_go_to_their_own_queue() {
    let runtime = world(0);
    let (mut looks, now) = looks(&runtime);
    let slow = fill_ring(&runtime, 0);
    (0..2).for_each(|_| runtime.monitor.slow_tasks.insert(slow, Location::caller()));
    let now = all_stuck(&mut looks, now);
    assert!(looks.rescue(now));
    assert_eq!((runtime.injector.len(), runtime.slow.len()), (0, 1));
    fill_ring(&runtime, 0);
    looks.rescue(now);
    assert_eq!((runtime.injector.len(), runtime.slow.len()), (1, 1));
}

#[test]
fn the_task_in_the_lifo_slot_of_a_stuck_worker_is_taken_at_the_second_look() {
    let runtime = world(0);
    let (mut looks, now) = looks(&runtime);
    let task = fill_lifo(&runtime, 0);
    let now = all_stuck(&mut looks, now);
    assert!(looks.rescue(now), "it is seen");
    assert!(runtime.injector.is_empty() && looks.watched[0].lifo.is_some());
    while runtime.injector.is_empty() {
        looks.rescue(now);
    }
    assert_eq!(runtime.monitor.rescued_tasks.get(), 1);
    let taken = runtime.injector.pop_task().unwrap();
    assert_eq!(taken.id(), task);
    taken.cancel();
    let slow = fill_lifo(&runtime, 0);
    (0..2).for_each(|_| runtime.monitor.slow_tasks.insert(slow, Location::caller()));
    while runtime.slow.is_empty() {
        looks.rescue(now);
    }
    assert_eq!((runtime.monitor.rescued_tasks.get(), runtime.injector.len()), (2, 0));
}

#[test]
fn a_stall_is_told_when_tasks_were_taken_from_a_stuck_worker() {
    let runtime = world(0);
    let (mut looks, now) = looks(&runtime);
    let task = runtime.task();
    runtime.processor(0).polling.begin(&task);
    let now = all_stuck(&mut looks, now);
    looks.watched[0].is_held = true;
    looks.rescue(now);
    assert_eq!(runtime.monitor.stalls.get(), 0, "nothing waits behind it");
    fill_ring(&runtime, 0);
    looks.rescue(now);
    assert_eq!(runtime.monitor.stalls.get(), 1);
    task.cancel();
}

#[test]
fn a_poll_that_holds_its_worker_is_long_unless_it_waits() {
    let runtime = world(0);
    let (mut looks, now) = looks(&runtime);
    let task = runtime.task();
    runtime.processor(0).polling.begin(&task);
    let now = all_stuck(&mut looks, now);
    let is_remembered = |looks: &mut Looks<'_>| {
        looks.rescue(now);
        looks.watched[0].is_remembered
    };
    assert!(!is_remembered(&mut looks), "it is not held");
    (looks.watched[0].is_held, looks.watched[0].is_off_cpu) = (true, true);
    assert!(!is_remembered(&mut looks), "it waits");
    looks.watched[0].is_off_cpu = false;
    assert!(is_remembered(&mut looks));
    assert_eq!(looks.long_polls_until, now + LONG_POLLS);
    task.cancel();
}

#[test]
fn a_spare_worker_helps_when_slow_tasks_have_waited_for_long_and_another_one_much_later() {
    let runtime = world(2);
    let (mut looks, now) = looks(&runtime);
    looks.see_to_slow(now);
    runtime.slow.push_task(runtime.task());
    let mut helpers_after = |time| {
        looks.see_to_slow(now + time);
        looks.helpers
    };
    assert_eq!(helpers_after(SLOW_WAITS - Duration::from_nanos(1)), 0);
    assert_eq!(helpers_after(SLOW_WAITS), 1);
    assert_eq!(helpers_after(SLOW_WAITS + HELP_WAITS - Duration::from_nanos(1)), 1);
    assert_eq!(helpers_after(SLOW_WAITS + HELP_WAITS), 2);
    // One was taken.
    runtime.monitor.slow_taken.fetch_add(1, Relaxed);
    assert_eq!(helpers_after(2 * HELP_WAITS), 2);
    assert_eq!(helpers_after(3 * HELP_WAITS - Duration::from_nanos(1)), 2);
    runtime.slow.pop_task().unwrap().cancel();
    assert_eq!(helpers_after(3 * HELP_WAITS), 2, "they stay for a while");
    assert_eq!(helpers_after(3 * HELP_WAITS + HELPS), 0);
}

#[test]
fn the_last_spare_worker_that_serves_helps_much_later_unless_the_runtime_ends() {
    let helps_after = |runtime: &NoThreads, time| {
        let (mut looks, now) = looks(runtime);
        looks.see_to_slow(now + time);
        looks.helpers == 1
    };
    let with_slow_task = |spares| {
        let runtime = world(spares);
        runtime.slow.push_task(runtime.task());
        runtime
    };
    let runtime = with_slow_task(1);
    assert!(!helps_after(&runtime, HELP_WAITS - Duration::from_nanos(1)), "sockets would wait for it");
    assert!(helps_after(&runtime, HELP_WAITS), "the workers may spin until the task has run");
    assert!(runtime.lifecycle.begin());
    assert!(helps_after(&runtime, SLOW_WAITS));
    runtime.slow.pop_task().unwrap().cancel();

    let runtime = with_slow_task(3);
    runtime.away.set_up(|table| table.blocked = 1);
    assert!(helps_after(&runtime, SLOW_WAITS), "one serves, one helps");
    runtime.away.set_up(|table| table.blocked = 2);
    assert!(!helps_after(&runtime, SLOW_WAITS), "the others compensate");
    runtime.slow.pop_task().unwrap().cancel();
}

#[test]
fn a_helper_stays_while_it_computes() {
    let runtime = world(1);
    let (mut looks, now) = looks(&runtime);
    looks.helpers = 1;
    looks.watched[4].is_held = true;
    looks.see_to_slow(now + HELPS);
    assert_eq!((looks.helpers, looks.helps_until), (1, now + 2 * HELPS));
    looks.watched[4].is_off_cpu = true;
    looks.see_to_slow(now + 3 * HELPS);
    assert_eq!(looks.helpers, 0);
}

#[test]
fn a_sleeper_that_takes_slow_tasks_is_woken_for_one() {
    let runtime = world(1);
    let (mut looks, now) = looks(&runtime);
    call(&runtime, 4);
    sleeps(&runtime, 4);
    runtime.slow.push_task(runtime.task());
    if !runtime.unparked().is_empty() {
        assert!(runtime.idle.stop_searching());
        sleeps(&runtime, 4);
    }
    looks.see_to_slow(now);
    assert_eq!(runtime.unparked(), [], "it serves");
    runtime.away.set_up(|table| table.stalled = 1);
    looks.see_to_slow(now);
    assert_eq!(runtime.unparked(), [4], "it helps");
    assert!(runtime.idle.stop_searching());
    sleeps(&runtime, 0);
    looks.see_to_slow(now);
    assert_eq!(runtime.unparked(), [0]);
}

#[test]
fn a_spare_worker_that_serves_probes_slow_tasks_that_have_waited_while_another_sleeps() {
    let runtime = world(3);
    let (mut looks, now) = looks(&runtime);
    [4, 5, 6].into_iter().for_each(|index| call(&runtime, index));
    runtime.away.set_up(|table| (table.stalled, table.serving) = (1, 2));
    looks.helpers = 1;
    // The helper is inside of the first slow task.
    looks.watched[4].is_held = true;
    runtime.slow.push_task(runtime.task());
    sleeps(&runtime, 5);
    sleeps(&runtime, 6);
    let soon = now + PROBE_WAITS - Duration::from_nanos(1);
    let prober = || [4, 5, 6].into_iter().find(|&index| runtime.monitor.begins_probe(index));
    let mut prober_after = |time| {
        looks.see_to_slow(time);
        (runtime.unparked(), prober())
    };
    assert_eq!(prober_after(soon), (vec![], None));
    assert_eq!(prober_after(now + PROBE_WAITS), (vec![5], Some(5)));
    assert_eq!(prober_after(now + PROBE_WAITS), (vec![5], Some(5)), "the task was quick");
    assert!(runtime.idle.end_sleep(5));
    assert_eq!(prober_after(now + PROBE_WAITS), (vec![], None), "the last one stays in the driver");
    sleeps(&runtime, 5);
    looks.watched[5].is_held = true;
    looks.see_to_slow(now + PROBE_WAITS);
    assert_eq!((runtime.unparked(), prober()), (vec![], None), "the probe computes");
    looks.watched[5].is_held = false;
    runtime.monitor.probe_was_fruitless();
    looks.see_to_slow(now + PROBE_WAITS);
    looks.see_to_slow(now + 2 * PROBE_WAITS - Duration::from_nanos(1));
    assert_eq!((runtime.unparked(), prober()), (vec![], None), "all that waited was slow");
    looks.see_to_slow(now + 2 * PROBE_WAITS);
    assert_eq!(runtime.unparked(), [5]);
    runtime.slow.pop_task().unwrap().cancel();
    looks.see_to_slow(now + 2 * PROBE_WAITS);
    assert_eq!((runtime.unparked(), prober()), (vec![], None), "no slow task is left");
}

#[test]
#[cfg(target_os = "linux")]
fn serving_workers_leave_injected_jobs_to_the_others_while_as_many_compute_as_there_are_workers() {
    let (runtime, job) = (world(4), IdleJob::new());
    let (mut looks, now) = looks(&runtime);
    (4..8).for_each(|index| call(&runtime, index));
    runtime.away.set_up(|table| table.serving = 4);
    runtime.queue_install(job.tagged(Tag::NONE));
    // They run jobs, and have the CPU as this thread has.
    let this_thread = crate::util::thread_probe::ThreadProbe::current().to_raw();
    for index in [4, 5] {
        looks.watched[index].is_held = true;
        runtime.processor(index).thread.store(this_thread, Relaxed);
    }
    sleeps(&runtime, 6);
    let leaves_after = |looks: &mut Looks<'_>, time| {
        looks.see_to_jobs(now + time);
        assert_eq!(runtime.monitor.leaves_jobs(), runtime.is_job_extra(6));
        assert_eq!(runtime.monitor.leaves_jobs(), !runtime.has_jobs_for(None, Role::Serves));
        runtime.monitor.leaves_jobs()
    };
    looks.watched[5].is_held = false;
    assert!(!leaves_after(&mut looks, Duration::ZERO), "one computes");
    looks.watched[5].is_held = true;
    assert!(leaves_after(&mut looks, Duration::ZERO));
    looks.share_jobs(true);
    assert_eq!(runtime.unparked(), [], "it would leave the job");
    runtime.away.set_up(|table| table.stalled = 3);
    looks.share_jobs(true);
    assert_eq!(runtime.unparked(), [6], "it takes the part of a worker that blocks");
    sleeps(&runtime, 6);
    runtime.away.set_up(|table| table.stalled = 0);
    runtime.processor(5).thread.store(NO_THREAD, Relaxed);
    assert!(!leaves_after(&mut looks, Duration::ZERO), "one blocks");
    looks.share_jobs(true);
    assert_eq!(runtime.unparked(), [6]);
    runtime.processor(5).thread.store(this_thread, Relaxed);
    let nanosecond = Duration::from_nanos(1);
    assert!(leaves_after(&mut looks, JOB_WAITS - nanosecond));
    // A worker takes another job.
    runtime.processor(0).metrics.injected_jobs.add(1);
    assert!(leaves_after(&mut looks, JOB_WAITS));
    assert!(leaves_after(&mut looks, 2 * JOB_WAITS - nanosecond));
    assert!(!leaves_after(&mut looks, 2 * JOB_WAITS), "the jobs may spin until it has run");
    looks.watched[7].is_held = true;
    runtime.processor(7).thread.store(this_thread, Relaxed);
    assert!(leaves_after(&mut looks, 2 * JOB_WAITS));
    assert!(leaves_after(&mut looks, 4 * JOB_WAITS - nanosecond));
    assert!(!leaves_after(&mut looks, 4 * JOB_WAITS), "twice as long");
    // More compute than were allowed, because of what came before.
    looks.jobs.see_to(&runtime, now + 4 * JOB_WAITS, None);
    looks.jobs.see_to(&runtime, now + 4 * JOB_WAITS, Some(9));
    assert!(runtime.monitor.leaves_jobs());
    looks.jobs.see_to(&runtime, now + 5 * JOB_WAITS, Some(9));
    assert!(!runtime.monitor.leaves_jobs(), "it waits as long as if few computed");
    looks.jobs.see_to(&runtime, now + 5 * JOB_WAITS, Some(10));
    assert!(runtime.monitor.leaves_jobs());
    assert!(runtime.lifecycle.begin() && !runtime.is_job_extra(6), "no job waits for it");
    assert!(runtime.injected_jobs.take_install(Tag::NONE).is_some());
    looks.see_to_jobs(now);
    assert!(!runtime.monitor.leaves_jobs(), "none waits");
}

/// A runtime with a driver.
fn world_with_driver() -> NoThreads {
    let config = Config { is_pool: false, ..Config::of_pool(2) };
    let driver = Driver::new(Some(IoDriver::new(16, None).unwrap()), Some(TimeDriver::new(3, false)));
    world_of(NoThreads::of(config, driver), 0)
}

/// Calls `f` while a timer is registered that fires after `time`.
fn with_timer<R>(runtime: &NoThreads, time: Duration, f: impl FnOnce() -> R) -> R {
    let handle = runtime.handle();
    let _entered = handle.enter();
    let mut sleep = pin!(crate::time::sleep(time));
    assert!(sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    f()
}

const LONG_TIMER: Duration = Duration::from_secs(1000);

#[test]
fn a_driver_that_no_worker_polls_is_seen_to() {
    let runtime = world_with_driver();
    let (mut looks, _) = looks(&runtime);
    let rescued = || runtime.monitor.rescued_driver.get();
    looks.turns = runtime.driver.io().unwrap().turns();
    assert!(!looks.see_to_driver(), "there is nothing to wait for");
    with_timer(&runtime, LONG_TIMER, || {
        looks.turns = looks.turns.wrapping_sub(1);
        assert!(!looks.see_to_driver(), "a worker had its turn");
        let before = looks.serves_until;
        sleeps(&runtime, 1);
        assert!(looks.see_to_driver());
        assert_eq!((rescued(), runtime.unparked()), (1, vec![1]));
        assert_eq!(looks.serves_until, before, "a worker comes");
        assert!(looks.see_to_driver() && looks.serves_until == before, "it is on its way");
        assert!(runtime.idle.stop_searching());
        assert!(looks.see_to_driver() && looks.serves_until > before, "a spare worker has to come");
        let _poller = runtime.driver.try_become_poller(0).unwrap();
        assert!(!looks.see_to_driver());
        assert_eq!(rescued(), 3);
    });
}

#[test]
fn a_timer_that_is_late_is_seen_to_although_a_worker_polls() {
    let runtime = world_with_driver();
    let (mut looks, _) = looks(&runtime);
    let _poller = runtime.driver.try_become_poller(0).unwrap();
    with_timer(&runtime, LONG_TIMER, || assert!(!looks.see_to_driver()));
    with_timer(&runtime, Duration::from_millis(1), || {
        while !looks.see_to_driver() {
            thread::yield_now();
        }
        let time = runtime.driver.time().unwrap();
        assert!(time.earliest() + OVERDUE <= time.now());
    });
}

#[test]
fn a_look_comes_back_sooner_while_work_waits_behind_a_worker_that_is_still() {
    let runtime = world(0);
    let (mut looks, now) = looks(&runtime);
    runtime.processor(1).metrics.polls.add(1);
    // A searcher, so that no time is spent on samples.
    assert!(runtime.idle.start_searching());
    let after = |millis| now + Duration::from_millis(millis);
    let moves = || [0, 1].into_iter().for_each(|index| runtime.processor(index).metrics.polls.add(1));
    moves();
    assert_eq!(looks.look(after(0)), WATCH);
    assert_eq!(looks.look(after(1)), WATCH, "nothing waits");
    runtime.spawn();
    assert_eq!(looks.look(after(2)), PRESS);
    assert_eq!(looks.look(after(20)), URGENT, "it is stuck");
    moves();
    assert_eq!(looks.look(after(21)), WATCH, "it moves");
    runtime.injector.pop_task().unwrap().cancel();
    assert_eq!(looks.look(after(22)), URGENT, "it may be stuck again");
    moves();
    assert_eq!(looks.look(after(120)), WATCH);
    assert_eq!(looks.look(after(121)), WATCH);
}

#[test]
fn beside_long_polls_is_a_hint_for_a_while() {
    let runtime = world(0);
    let (mut looks, now) = looks(&runtime);
    assert!(runtime.idle.start_searching());
    looks.long_polls_until = now + LONG_POLLS;
    looks.look(now);
    assert!(runtime.monitor.saw_long_polls());
    looks.look(now + LONG_POLLS);
    assert!(!runtime.monitor.saw_long_polls());
}

#[test]
fn workers_in_long_polls_are_told_and_spare_workers_serve_if_all_are() {
    let runtime = world(0);
    let (mut looks, now) = looks(&runtime);
    looks.cpus = 2;
    let told = || [0, 1].map(|index| runtime.processor(index).was_told_long());
    // A searcher sees to the rest.
    assert!(runtime.idle.start_searching());
    looks.sample();
    assert_eq!(told(), [false, false]);
    assert!(runtime.idle.stop_searching());
    looks.sample();
    assert_eq!(told(), [true, true]);
    assert!(looks.serves_until > now && looks.more_serve_until == now, "none is known to compute");
    looks.serves_until = now;
    runtime.processor(1).metrics.polls.add(1);
    looks.sample();
    assert_eq!((told(), looks.serves_until), ([true, false], now), "worker 1 moves");
    runtime.processor(1).metrics.sleep_changes.add(1);
    looks.sample();
    assert_eq!(told(), [false, false], "worker 1 sleeps");
}

#[test]
#[cfg(target_os = "linux")]
fn more_spare_workers_serve_if_a_worker_computes() {
    let (runtime, is_over) = (world(0), AtomicBool::new(false));
    joined_scope(|scope| {
        let (begins, has_begun) = mpsc::channel();
        let (processor, is_over) = (runtime.processor(0), &is_over);
        scope.spawn(move || {
            begins.send(crate::util::thread_probe::ThreadProbe::current().to_raw()).unwrap();
            while !is_over.load(Relaxed) {
                std::hint::spin_loop();
            }
        });
        processor.thread.store(has_begun.recv().unwrap(), Relaxed);
        let task = runtime.task();
        processor.polling.begin(&task);
        let (mut looks, now) = looks(&runtime);
        looks.cpus = 2;
        // On a busy machine it gets its CPU later.
        while looks.more_serve_until == now {
            looks.sample();
        }
        is_over.store(true, Relaxed);
        assert!(looks.more_serve_until == looks.serves_until && looks.watched[0].is_remembered);
        task.cancel();
    });
}

#[test]
fn the_task_of_a_worker_that_has_moved_is_not_remembered() {
    let runtime = world(0);
    let (mut looks, now) = looks(&runtime);
    let task = runtime.task();
    runtime.processor(0).polling.begin(&task);
    looks.remember_slow(0, 1, now);
    assert!(!looks.watched[0].is_remembered && looks.long_polls_until == now);
    looks.remember_slow(0, 0, now);
    assert!(looks.watched[0].is_remembered && looks.long_polls_until == now + LONG_POLLS);
    task.cancel();
}

#[test]
fn a_spare_worker_comes_to_help_with_slow_tasks() {
    let runtime = world(1);
    let (mut looks, now) = looks(&runtime);
    runtime.slow.push_task(runtime.task());
    looks.helpers = 1;
    assert!(!looks.relieve(now, 0, false));
    assert_eq!((numbers(&runtime), runtime.unparked()), ((1, 0), vec![4]));
}

#[test]
fn external_threads_are_not_among_the_workers_that_are_up() {
    let runtime = world(0);
    [0, 1].into_iter().for_each(|index| sleeps(&runtime, index));
    let (external, _) = runtime.take_external().unwrap();
    assert_eq!(external.index(), 2);
    runtime.processor(2).metrics.thread_begins();
    let (looks, _) = looks(&runtime);
    assert_eq!((looks.watched.len(), looks.up().collect::<Vec<_>>()), (3, vec![0, 1]));
    // SAFETY: (1) its last use.
    unsafe { runtime.give_external_back(external, false) };
}

#[test]
fn spare_workers_that_are_up_do_not_count_as_permanent_ones() {
    let runtime = NoThreads::with_spares(1, 1);
    let spare = runtime.add_spare();
    [0, spare].into_iter().for_each(|index| {
        runtime.processor(index).metrics.thread_begins();
        runtime.processor(index).thread.store(NO_THREAD, Relaxed);
    });
    let (mut looks, now) = looks(&runtime);
    looks.cpus = 1;
    assert!(looks.are_all_up());
    looks.sample();
    assert!(looks.serves_until > now, "all permanent workers are in long polls");
}

#[test]
fn a_stall_is_told_when_tasks_were_taken_from_the_ring_and_from_the_lifo_slot() {
    let runtime = world(0);
    let (mut looks, now) = looks(&runtime);
    let task = runtime.task();
    runtime.processor(0).polling.begin(&task);
    let now = all_stuck(&mut looks, now);
    looks.watched[0].is_held = true;
    fill_lifo(&runtime, 0);
    looks.rescue(now);
    let seen = Instant::now();
    while seen.elapsed() < Duration::from_micros(100) {
        std::hint::spin_loop();
    }
    fill_ring(&runtime, 0);
    looks.rescue(now);
    assert_eq!((runtime.injector.len(), runtime.monitor.stalls.get()), (2, 1));
    task.cancel();
}

#[test]
fn a_spare_worker_comes_for_work_behind_a_stuck_worker_only_if_none_sleeps() {
    let runtime = world(1);
    let (mut looks, now) = looks(&runtime);
    runtime.away.set_up(|table| table.blocked = 1);
    assert!(!looks.relieve(now, 0, false));
    assert_eq!(runtime.unparked(), [], "nothing waits");
    looks.watched[0].is_stuck = true;
    sleeps(&runtime, 1);
    assert!(looks.relieve(now, 1, false));
    assert_eq!(runtime.unparked(), [1]);
    assert!(runtime.idle.stop_searching());
    assert!(looks.relieve(now, 1, false));
    assert_eq!(runtime.unparked(), [4]);
}

#[test]
fn at_the_first_look_a_searcher_is_relied_on_for_jobs() {
    let (runtime, job) = (world(0), IdleJob::new());
    let (mut looks, _) = looks(&runtime);
    assert!(runtime.idle.start_searching());
    sleeps(&runtime, 1);
    runtime.job_processor(0).detached.push_back(job.tagged(Tag::NONE));
    looks.share_jobs(true);
    assert_eq!(runtime.unparked(), []);
    looks.share_jobs(true);
    assert_eq!(runtime.unparked(), [1], "it has not come");
}
