//! One of two workers computes, and the test plays the thieves.

use std::ptr::NonNull;

use super::*;
use crate::job::{Question, Region, Tag};
use crate::loom::sync::atomic::AtomicBool;
use crate::parallel::join;
use crate::scheduler::shared::tests::NoThreads;
use crate::scheduler::{context, enter};

/// Calls `f` in the first half of a `join`, with the job processor of worker 0.
fn in_join(f: impl FnOnce(&OwnJobs) + Send) {
    // SAFETY: (1) the thread holds it until the `join` has ended.
    join(|| f(unsafe { context::job_processor() }.unwrap()), || ());
}

/// Calls `f` on worker 0 of `workers`, in a long poll interval.
fn on_a_worker(workers: usize, f: impl FnOnce(&NoThreads, &OwnJobs)) {
    let runtime = NoThreads::new(workers);
    let worker = runtime.worker(0);
    enter::enter_worker(&worker, || {
        let own = worker.job_processor().unwrap();
        own.poll_interval.left.set(1 << 20);
        f(&runtime, own);
    });
}

/// Makes the child jobs at all indices short.
fn all_are_short(own: &OwnJobs) {
    (0..=EAGER).for_each(|index| (0..8).for_each(|_| own.estimates.at(index).learn(index, 0)));
}

fn left(own: &OwnJobs) -> u32 {
    own.left.load(Relaxed) as u32
}

#[test]
fn the_first_child_job_is_public_and_a_sleeper_comes() {
    on_a_worker(2, |runtime, own| {
        runtime.idle.announce_sleep(1, false);
        in_join(|own| {
            assert!(!own.deque.is_nothing_public());
            assert_eq!(left(own), 0, "the next one applies the rules, too");
        });
        assert_eq!(runtime.unparked(), [1]);
        assert_eq!(own.poll_interval.left(), (1 << 20) - 1, "it is a split point");
    });
}

#[test]
fn with_something_public_and_no_thief_the_owner_goes_on_for_some_pushes() {
    on_a_worker(2, |_, _| {
        in_join(|_| in_join(|own| assert_eq!(left(own), 2 * EAGER)));
    });
}

#[test]
fn while_a_thief_is_hungry_the_first_child_jobs_are_published_one_by_one() {
    on_a_worker(2, |runtime, _| {
        // A searcher counts as hungry.
        assert!(runtime.idle.start_searching());
        in_join(|_| {
            in_join(|own| {
                assert_eq!(left(own), 0);
                // SAFETY: (1) the view is the owner's.
                assert_eq!(unsafe { own.deque.first_private() }, own.head());
            });
        });
    });
}

/// Calls `f` below `depth` joins.
fn below(depth: u32, f: &mut (dyn FnMut(&OwnJobs) + Send)) {
    in_join(|own| if depth == 1 { f(own) } else { below(depth - 1, f) });
}

#[test]
fn deep_in_a_recursion_the_owner_relies_on_what_is_public() {
    on_a_worker(2, |runtime, _| {
        let budget = |own: &OwnJobs| {
            assert!(own.has_flag(RELIES_ON_PUBLIC));
            left(own)
        };
        // The rules are applied at each push, except within a budget.
        let ends = |depth, f: &mut (dyn FnMut(&OwnJobs) + Send)| below(depth, f);
        ends(EAGER, &mut |own| {
            own.end_budget();
            in_join(|own| assert_eq!(budget(own), PATIENCE));
        });
        assert!(runtime.idle.start_searching());
        ends(EAGER, &mut |own| {
            own.end_budget();
            in_join(|own| assert_eq!(budget(own), 2 * EAGER, "near the root they are for thieves"));
        });
    });
}

#[test]
fn the_eighth_child_job_that_is_published_is_relied_on() {
    on_a_worker(2, |runtime, _| {
        assert!(runtime.idle.start_searching());
        below(EAGER - 1, &mut |own| {
            assert_eq!(left(own), 0);
            in_join(|own| assert_eq!(left(own), 2 * EAGER));
        });
    });
}

#[test]
fn a_short_child_job_is_published_for_a_measurement_without_a_wake() {
    on_a_worker(2, |runtime, own| {
        all_are_short(own);
        runtime.idle.announce_sleep(1, false);
        in_join(|own| {
            assert!(!own.deque.is_nothing_public() && own.known_for(0).is_some());
            assert_eq!(left(own), PATIENCE);
        });
        assert_eq!(runtime.unparked(), []);
    });
}

#[test]
fn an_old_child_job_that_has_proven_long_is_shared() {
    on_a_worker(2, |runtime, own| {
        all_are_short(own);
        runtime.idle.announce_sleep(1, false);
        own.left.store(1, Relaxed);
        below(2, &mut |own| {
            // The second push has looked at the clock for the first one, which is private and short.
            assert!(own.deque.is_nothing_public() && own.known_for(0).is_some());
            while own.known_for(0).is_some_and(|nanos| nanos <= SHORT) {
                std::hint::spin_loop();
            }
            own.end_budget();
            in_join(|own| {
                // SAFETY: (1) the view is the owner's.
                assert_eq!(unsafe { own.deque.first_private() }, 1);
            });
        });
        assert_eq!(runtime.unparked(), [1]);
    });
}

#[test]
fn while_a_thief_is_hungry_all_that_are_long_are_published() {
    on_a_worker(2, |runtime, own| {
        // Nothing is public within this budget.
        own.left.store(3, Relaxed);
        below(3, &mut |own| {
            assert!(own.deque.is_nothing_public());
            assert!(runtime.idle.start_searching());
            (0..8).for_each(|_| own.estimates.at(2).learn(2, 0));
            in_join(|own| {
                // SAFETY: (1) the view is the owner's.
                assert_eq!(unsafe { own.deque.first_private() }, 2, "the third one is short");
            });
        });
    });
}

#[test]
fn without_thieves_a_budget_is_as_long_as_there_is_room() {
    on_a_worker(1, |_, own| {
        own.poll_interval.left.set(u32::MAX);
        in_join(|own| assert_eq!(left(own), DEQUE_CAPACITY as u32 - SCOPE_LIMIT));
        own.end_budget();
        own.poll_interval.left.set(100);
        in_join(|own| assert!(left(own) < 100, "it ends with the poll interval"));
    });
}

#[test]
fn a_thief_ends_a_budget() {
    on_a_worker(2, |_, own| {
        own.left.store(5, Relaxed);
        own.ask();
        assert_eq!(left(own), 0);
        own.left.store(5, Relaxed);
        own.ask_if_empty();
        assert_eq!(left(own), 0, "nothing is public");
    });
}

#[test]
fn a_budget_ends_only_with_the_public_job_that_it_relies_on() {
    on_a_worker(2, |_, own| {
        own.left.store(5, Relaxed);
        own.rely_no_more();
        assert_eq!(left(own), 5, "it relies on none");
        assert_eq!((own.rely_on_public(false), own.rely_on_public(true)), (PATIENCE, 2 * EAGER));
        own.rely_no_more();
        assert_eq!((left(own), own.has_flag(RELIES_ON_PUBLIC)), (0, false));
    });
}

#[test]
fn a_computation_of_another_pool_has_short_budgets_and_a_cancelled_one_none() {
    let runtime = NoThreads::new(2);
    // SAFETY: (1) no other thread knows the runtime.
    let own = unsafe { runtime.job_processor(0).by_owner() };
    let (task, has_begun) = (runtime.task(), AtomicBool::new(false));
    for (pool, budget) in [(runtime.ptr().cast(), 50), (NonNull::<u64>::dangling().cast(), FOREIGN)] {
        has_begun.store(false, Relaxed);
        // SAFETY: (1) both outlive the region.
        let question = unsafe { Question::new(task.header(), pool, NonNull::from(&has_begun)) };
        let region = Region::cancellable(question);
        // SAFETY: (1) the region is live until it is replaced below.
        unsafe { own.replace_region(&raw const region, Tag::NONE) };
        own.set_budget(50);
        assert_eq!(left(own), budget);
        has_begun.store(true, Relaxed);
        own.set_budget(50);
        assert_eq!(left(own), 0, "the shutdown cancels it");
        // SAFETY: (1) no region.
        unsafe { own.replace_region(std::ptr::null(), Tag::NONE) };
    }
    task.cancel();
}

#[test]
fn all_private_child_jobs_are_published_before_their_owner_blocks() {
    on_a_worker(2, |_, own| {
        own.left.store(2, Relaxed);
        below(2, &mut |own| {
            assert!(own.deque.is_nothing_public());
            assert!(own.publish_all() && !own.deque.is_nothing_public());
            assert!(!own.publish_all(), "none is left");
        });
    });
}
