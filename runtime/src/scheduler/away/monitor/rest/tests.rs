use super::*;
use crate::config::Config;
use crate::driver::Driver;
use crate::driver::io::IoDriver;
use crate::job::Tag;
use crate::scheduler::shared::tests::{IdleJob, NoThreads};

/// Two workers, which have begun.
fn two_workers(io: Option<IoDriver>) -> NoThreads {
    let config = Config { is_pool: false, ..Config::of_pool(2) };
    let runtime = NoThreads::of(config, Driver::new(io, None));
    (0..2).for_each(|_| runtime.away.permanent_comes());
    runtime
}

fn with_io() -> NoThreads {
    two_workers(Some(IoDriver::new(16, None).unwrap()))
}

/// Whether the monitor would sleep. It has been unparked, so it does not.
fn would_rest(runtime: &NoThreads) -> bool {
    runtime.monitor.parker.unpark(&runtime.driver);
    rest(runtime)
}

#[test]
fn a_worker_is_blocked_if_it_has_said_so_or_is_marked() {
    let runtime = two_workers(None);
    let processor = runtime.processor(0);
    assert!(!is_blocked(processor));
    processor.marks.store(1, Relaxed);
    assert!(is_blocked(processor));
    processor.marks.store(0, Relaxed);
    processor.blocked_state.say_blocked();
    assert!(is_blocked(processor));
    assert_eq!(blocked(&runtime).collect::<Vec<_>>(), [0]);
}

#[test]
fn it_rests_only_while_all_workers_sleep_or_block() {
    let runtime = two_workers(None);
    assert!(!all_asleep(&runtime) && !would_rest(&runtime));
    runtime.idle.announce_sleep(0, false);
    assert!(!all_asleep(&runtime) && !would_rest(&runtime));
    runtime.idle.announce_sleep(1, false);
    assert!(all_asleep(&runtime) && would_rest(&runtime));
    assert!(runtime.idle.end_sleep(1));
    runtime.processor(1).blocked_state.say_blocked();
    assert!(all_asleep(&runtime) && would_rest(&runtime));
    assert!(!runtime.monitor.is_resting.load(Relaxed), "it is up again");
}

/// A wake was lost, and `Net` makes up for it.
#[test]
fn it_does_not_rest_while_all_sleep_beside_a_task() {
    let runtime = two_workers(None);
    runtime.spawn();
    (0..2).for_each(|index| runtime.idle.announce_sleep(index, false));
    assert!(all_asleep(&runtime) && !would_rest(&runtime));
    runtime.injector.pop_task().unwrap().cancel();
    assert!(would_rest(&runtime));
}

#[test]
fn it_does_not_rest_while_wakers_wait_or_after_the_end() {
    let runtime = two_workers(None);
    (0..2).for_each(|index| runtime.idle.announce_sleep(index, false));
    let foreign = crate::driver::foreign::ForeignWakes::new();
    foreign.keep_call(Box::new(|| ()));
    runtime.processor(0).waking.add(&foreign);
    assert!(!would_rest(&runtime));
    runtime.processor(0).waking.wake_rest();
    assert!(would_rest(&runtime));
    assert!(!runtime.away.arrive(|| false) && runtime.away.arrive(|| true));
    assert!(!would_rest(&runtime));
}

#[test]
fn while_none_blocks_one_of_the_sleepers_has_to_be_the_poller() {
    assert!(do_others_see_to_all(&two_workers(None)), "there is nothing to poll");
    let runtime = with_io();
    assert!(!do_others_see_to_all(&runtime));
    let _poller = runtime.driver.try_become_poller(0).unwrap();
    assert!(do_others_see_to_all(&runtime));
}

#[test]
fn beside_a_worker_that_blocks_a_sleeper_sees_to_all_if_nothing_waits() {
    let (runtime, job) = (two_workers(None), IdleJob::new());
    runtime.processor(0).blocked_state.say_blocked();
    assert!(!do_others_see_to_all(&runtime), "none sleeps");
    runtime.idle.announce_sleep(1, false);
    assert!(do_others_see_to_all(&runtime));
    runtime.job_processor(0).detached.push_back(job.tagged(Tag::NONE));
    assert!(!do_others_see_to_all(&runtime), "a job waits");
    runtime.job_processor(0).detached.pop_front();
    assert!(do_others_see_to_all(&runtime));
    runtime.spawn();
    assert!(!do_others_see_to_all(&runtime), "a task waits");
}

#[test]
fn beside_a_worker_that_blocks_the_poller_has_to_tell_when_it_wakes() {
    let runtime = with_io();
    runtime.processor(0).blocked_state.say_blocked();
    runtime.idle.announce_sleep(1, false);
    assert!(!do_others_see_to_all(&runtime), "none is the poller");
    let poller = runtime.driver.try_become_poller(1).unwrap();
    assert!(do_others_see_to_all(&runtime), "it sleeps");
    drop(poller);
    let poller = runtime.driver.try_become_poller(0).unwrap();
    assert!(do_others_see_to_all(&runtime), "it blocks");
    runtime.processor(0).blocked_state.say_back();
    runtime.processor(1).marks.store(1, Relaxed);
    assert!(!do_others_see_to_all(&runtime), "it is awake");
    drop(poller);
}

#[test]
fn a_sleeper_becomes_the_poller_if_there_is_none() {
    let runtime = with_io();
    runtime.idle.announce_sleep(1, false);
    let poller = runtime.driver.try_become_poller(0).unwrap();
    see_to_blocked(&runtime, LONG_LOOKS);
    assert_eq!(runtime.unparked(), [], "there is one");
    drop(poller);
    see_to_blocked(&runtime, 1);
    assert_eq!(runtime.unparked(), [1]);
}

#[test]
fn workers_that_all_block_for_long_are_counted() {
    let runtime = two_workers(None);
    (0..2).for_each(|index| runtime.processor(index).blocked_state.say_blocked());
    runtime.idle.announce_sleep(1, false);
    see_to_blocked(&runtime, LONG_LOOKS);
    assert_eq!(runtime.away.blocked(), 0, "one sleeps");
    assert!(!runtime.idle.end_sleep(1) || runtime.idle.counts() == (0, 0));
    [1, LONG_LOOKS - 1, LONG_LOOKS + 1].into_iter().for_each(|looks| see_to_blocked(&runtime, looks));
    assert_eq!(runtime.away.blocked(), 0, "not for long");
    see_to_blocked(&runtime, 3 * LONG_LOOKS);
    assert_eq!(runtime.away.blocked(), 2);
}
