//! What one thread can see of the word and the bits; the protocol itself is checked by `loom-tests`.

use std::sync::Barrier;
use std::sync::atomic::AtomicUsize;

use super::{Idle, Pick, SLEEPING, Work};
use crate::loom::sync::atomic::Ordering::Relaxed;
use crate::util::joined::joined_scope;

const NO_THREAD: Pick = Pick { unparks: None, found_none: true };

/// A worker searches.
const RELIES: Pick = Pick { unparks: None, found_none: false };

fn unparks(index: usize) -> Pick {
    Pick { unparks: Some(index), found_none: false }
}

/// Eight workers; those with the indices `sleepers` sleep.
fn with_sleepers(sleepers: &[usize]) -> Idle {
    let idle = Idle::new(8, 8);
    sleepers.iter().for_each(|&index| idle.announce_sleep(index, false));
    idle
}

#[test]
fn a_post_after_getting_sleepy_refuses_sleep_and_changes_nothing() {
    let idle = Idle::new(4, 4);
    assert!(idle.start_searching());
    let seen = idle.get_sleepy();
    idle.post_job();
    assert!(!idle.announce_sleep_unless(0, true, seen));
    assert_eq!(idle.counts(), (1, 0));
    assert!(!idle.announce_wait(1, seen));
    assert!(!idle.has_waiters());
    let seen = idle.get_sleepy();
    assert!(idle.announce_sleep_unless(0, true, seen));
    assert_eq!(idle.counts(), (0, 1));
    assert!(idle.announce_wait(1, seen));
    assert!(idle.has_waiters());
}

#[test]
fn only_the_first_post_after_somebody_got_sleepy_moves_the_counter() {
    let idle = Idle::new(1, 1);
    let first = idle.get_sleepy();
    assert_eq!(idle.get_sleepy(), first);
    idle.post_job();
    idle.post_job();
    let second = idle.get_sleepy();
    assert_eq!((first.0, second.0), (0, 2));
}

#[test]
fn the_counter_rolls_over_and_the_numbers_do_not_notice() {
    let idle = Idle::with_events(4, 4, u32::MAX - 1);
    assert!(idle.start_searching());
    idle.announce_sleep(2, false);
    idle.post_job();
    assert_eq!(idle.counts(), (1, 1));
    assert_eq!(idle.get_sleepy().0, 0);
    assert_eq!(idle.counts(), (1, 1));
    idle.post_job();
    assert_eq!(idle.get_sleepy().0, 2);
    assert!(idle.end_sleep(2));
    assert!(idle.stop_searching());
    assert_eq!(idle.counts(), (0, 0));
}

#[test]
fn a_job_wakes_a_sleeper_before_a_waiter_and_nobody_beside_a_searcher() {
    let idle = Idle::new(4, 4);
    assert!(idle.announce_wait(0, idle.get_sleepy()));
    idle.announce_sleep(3, false);
    assert_eq!(idle.pick_for(Work::Job, None), unparks(3));
    assert!(!idle.end_sleep(3));
    assert_eq!(idle.pick_for(Work::Job, None), RELIES);
    assert!(idle.stop_searching());
    assert_eq!(idle.pick_for(Work::Job, None), unparks(0));
    assert!(!idle.end_wait(0), "it was notified");
    assert_eq!(idle.pick_for(Work::Job, None), NO_THREAD);
}

#[test]
fn a_waiter_is_not_woken_for_a_task() {
    let idle = Idle::new(4, 4);
    assert!(idle.announce_wait(0, idle.get_sleepy()));
    assert_eq!(idle.pick_for(Work::Task, None), NO_THREAD);
    assert!(idle.end_wait(0), "nobody has notified it");
    assert!(!idle.has_waiters());
}

#[test]
fn an_errand_that_no_waiter_may_run_ends() {
    let idle = Idle::new(200, 200);
    let lie_down = |index| assert!(idle.announce_wait(index, idle.get_sleepy()));
    [63, 64, 5, 199, 130].into_iter().for_each(lie_down);
    assert_eq!((idle.waiters(0..0), idle.waiters(63..130)), (5, 3));
    let mut order = Vec::new();
    let mut pick = idle.pick_for(Work::Job, Some(64));
    while let Some(index) = pick.unparks {
        order.push(index);
        assert!(!idle.end_wait(index));
        pick = idle.pass_errand_on(index, 200, Some(index));
        // It sleeps again, perhaps in the driver, and may be asked for the next one.
        lie_down(index);
    }
    assert_eq!(order, [5, 63, 64, 130, 199]);
    assert_eq!(idle.pick_for(Work::Job, None), unparks(5));
}

/// The spare worker may not run the job either, and leaves it to the first waiter.
#[test]
fn an_errand_does_not_come_back_to_a_spare_worker_that_sleeps() {
    let idle = Idle::new(4, 6);
    [0, 1].into_iter().for_each(|index| assert!(idle.announce_wait(index, idle.get_sleepy())));
    idle.announce_sleep(5, false);
    assert_eq!(idle.pick_for(Work::Job, None), unparks(5));
    assert!(idle.stop_searching() && idle.pick_below(5, None).is_none());
    assert_eq!(idle.pick_waiter(0), Some(0));
    idle.announce_sleep(5, false);
    assert_eq!(idle.pass_errand_on(0, 4, None), unparks(1));
    assert_eq!(idle.pass_errand_on(1, 4, None), NO_THREAD);
    // A permanent worker may run the job.
    idle.announce_sleep(3, false);
    assert_eq!(idle.pass_errand_on(0, 4, None), unparks(3));
    assert_eq!(idle.pass_errand_on(0, 4, None), RELIES);
}

#[test]
fn the_word_and_the_first_bits_share_a_pair_of_cache_lines() {
    let idle = Idle::new(1, 1);
    let line = |address: usize| address / 128;
    let word = std::ptr::from_ref(idle.word()).addr();
    assert_eq!(line(word), line(std::ptr::from_ref(&idle.bits(0).sleepers).addr()));
    assert_eq!(line(word), line(std::ptr::from_ref(&idle.bits(63).waiters).addr()));
}

#[test]
fn half_of_the_workers_may_search_and_the_last_one_is_told_so() {
    let idle = Idle::new(6, 6);
    assert!(!idle.is_any_searching());
    assert_eq!([(); 5].map(|()| idle.start_searching()), [true, true, true, false, false]);
    assert_eq!((idle.counts(), idle.is_any_searching()), ((3, 0), true));
    assert_eq!([(); 3].map(|()| idle.stop_searching()), [false, false, true]);
    assert_eq!(idle.counts(), (0, 0));
}

#[test]
fn a_worker_that_finds_work_before_it_sleeps_searches() {
    let idle = with_sleepers(&[1]);
    assert!(idle.start_searching());
    idle.announce_sleep(2, true);
    assert_eq!(idle.counts(), (0, 2));
    idle.cancel_sleep(1);
    assert_eq!(idle.counts(), (1, 1));
    assert!(!idle.is_sleeper(1) && idle.is_sleeper(2));
    assert!(idle.stop_searching());
    // A notified worker counts as searching already.
    assert_eq!(idle.pick_for(Work::Task, None), unparks(2));
    idle.cancel_sleep(2);
    assert_eq!(idle.counts(), (1, 0));
}

#[test]
fn the_lowest_sleeper_comes_and_the_poller_only_if_there_is_no_other() {
    let idle = Idle::new(200, 200);
    for (poller, order) in [(3, [5, 66, 130, 3]), (66, [3, 5, 130, 66]), (130, [3, 5, 66, 130])] {
        [130, 66, 5, 3].into_iter().for_each(|index| idle.announce_sleep(index, false));
        for index in order {
            assert_eq!(idle.pick_for(Work::Task, Some(poller)), unparks(index));
            assert!(idle.stop_searching());
        }
        assert_eq!(idle.pick_for(Work::Task, Some(poller)), NO_THREAD);
    }
}

#[test]
fn a_spare_worker_that_was_never_covered_has_no_bits_to_look_at() {
    let idle = Idle::new(1, 200);
    idle.cover(64);
    idle.announce_sleep(64, false);
    assert_eq!(idle.sleepers(), 1);
    assert_eq!(idle.pick_for(Work::Task, None), unparks(64));
    let idle = Idle::new(65, 200);
    idle.announce_sleep(64, false);
    assert_eq!(idle.pick_for(Work::Task, None), unparks(64));
}

#[test]
fn a_worker_is_picked_beside_a_searcher_if_that_does_not_come() {
    let idle = with_sleepers(&[2, 4]);
    assert!(idle.start_searching());
    assert_eq!(idle.pick_for(Work::Task, None), RELIES);
    assert_eq!(idle.pick_anyway(Some(2)), Some(4));
    assert_eq!(idle.counts(), (2, 1));
    assert_eq!(idle.pick_anyway(Some(2)), Some(2));
    assert_eq!(idle.pick_anyway(Some(2)), None);
    assert_eq!(idle.counts(), (3, 0));
}

#[test]
fn a_restricted_worker_picks_only_workers_below_its_index() {
    let idle = with_sleepers(&[2, 4]);
    assert_eq!(idle.pick_below(2, None), None);
    assert_eq!(idle.pick_below(4, Some(4)), Some(2));
    assert_eq!(idle.pick_below(4, Some(4)), None, "though the poller sleeps");
    assert_eq!(idle.counts(), (1, 1));
    assert_eq!(idle.pick_below(5, Some(4)), Some(4));
    assert_eq!(idle.counts(), (2, 0));
}

#[test]
fn a_pusher_that_gives_back_asks_a_waiter_and_reports_that_it_found_none() {
    let idle = Idle::new(4, 4);
    // A worker between CountSleeper and ShowSleeper.
    idle.word().fetch_add(SLEEPING, Relaxed);
    assert_eq!(idle.pick_for(Work::Job, None), NO_THREAD);
    assert!(idle.announce_wait(2, idle.get_sleepy()));
    // Others may have relied on it for a job, whatever its own work was.
    assert_eq!(idle.pick_for(Work::Task, None), Pick { unparks: Some(2), found_none: true });
    assert_eq!(idle.counts(), (0, 1));
    idle.show_sleeper(3);
    assert_eq!(idle.pick_for(Work::Task, None), unparks(3));
}

#[test]
fn a_worker_with_much_work_asks_for_help_if_more_than_the_surplus_sleep_and_no_worker_searches() {
    let idle = with_sleepers(&[]);
    assert!(!idle.is_worth_notifying(|| 0) && !idle.has_sleepers());
    assert!(!idle.is_any_idle(|| 0));
    assert!(idle.start_searching());
    assert!(!idle.is_worth_notifying(|| 0) && !idle.has_sleepers());
    assert!(idle.is_any_idle(|| 0), "a searcher is idle");
    assert!(idle.stop_searching());
    [1, 3].into_iter().for_each(|index| idle.announce_sleep(index, false));
    assert!(idle.has_sleepers());
    assert_eq!([0, 1, 2, 3].map(|extra| idle.is_worth_notifying(|| extra)), [true, true, false, false]);
    assert_eq!([0, 1, 2, 3].map(|extra| idle.is_any_idle(|| extra)), [true, true, false, false]);
    assert!(idle.announce_wait(0, idle.get_sleepy()));
    assert!(idle.is_any_idle(|| 2), "a waiter is idle");
    assert!(idle.start_searching());
    assert!(!idle.is_worth_notifying(|| 0));
}

#[test]
fn a_job_is_news_if_none_was_posted_or_a_waiter_or_sleeper_can_come() {
    let idle = with_sleepers(&[]);
    assert!(idle.is_job_news(|| 0) && !idle.is_job_posted());
    idle.post_job();
    assert!(!idle.is_job_news(|| 0) && idle.is_job_posted());
    [1, 3].into_iter().for_each(|index| idle.announce_sleep(index, false));
    assert_eq!([0, 1, 2, 3].map(|extra| idle.is_job_news(|| extra)), [true, true, false, false]);
    assert!(idle.start_searching());
    assert!(!idle.is_job_news(|| 0), "a worker searches");
    assert!(idle.stop_searching());
    assert!(idle.announce_wait(0, idle.get_sleepy()));
    assert!(idle.is_job_news(|| 2), "no job was posted since");
    idle.post_job();
    assert!(idle.is_job_news(|| 2), "a waiter can come");
    assert!(idle.start_searching());
    assert!(!idle.is_job_news(|| 0), "a worker searches");

    let idle = with_sleepers(&[]);
    assert!(idle.announce_wait(0, idle.get_sleepy()));
    idle.post_job();
    assert!(idle.is_job_news(|| 0), "only a waiter can come");

    let idle = Idle::new(65, 65);
    assert!(idle.announce_wait(64, idle.get_sleepy()));
    idle.post_job();
    assert!(idle.is_job_news(|| 0), "a waiter with a high index can come");
}

#[test]
fn sleepers_and_waiters_are_counted_by_their_indices() {
    let idle = Idle::new(200, 200);
    [0, 63, 64, 127, 130].into_iter().for_each(|index| idle.announce_sleep(index, false));
    let seen = idle.get_sleepy();
    [1, 65, 128].into_iter().for_each(|index| assert!(idle.announce_wait(index, seen)));
    assert_eq!((idle.sleepers(), idle.sleepers_in(0..0)), (5, 0));
    assert_eq!(
        [0..64, 63..65, 1..63, 64..128, 65..200].map(|range| idle.sleepers_in(range)),
        [2, 2, 0, 2, 2]
    );
    assert_eq!([0..0, 0..64, 65..128, 1..129].map(|but| idle.waiters(but)), [3, 2, 2, 0]);
    assert_eq!(
        [0, 1, 63, 64, 65, 66].map(|index| idle.is_sleeper(index)),
        [true, false, true, true, false, false]
    );
    assert_eq!([0, 1, 64, 65, 66].map(|index| idle.is_waiter(index)), [false, true, false, true, false]);
    assert_eq!(idle.pick_waiter(2), Some(65));
    assert!(!idle.is_waiter(65));
}

#[test]
fn no_waiter_is_picked_by_two_threads() {
    const ROUNDS: usize = 200;
    let idle = Idle::new(64, 64);
    let (start, picked) = (Barrier::new(2), AtomicUsize::new(0));
    let pick = |own: usize| {
        for _ in 0..ROUNDS {
            if own == 0 {
                let seen = idle.get_sleepy();
                (0..64).for_each(|index| assert!(idle.announce_wait(index, seen)));
            }
            start.wait();
            while idle.pick_waiter(0).is_some() {
                picked.fetch_add(1, Relaxed);
            }
            start.wait();
        }
    };
    joined_scope(|scope| {
        scope.spawn(|| pick(1));
        pick(0);
    });
    assert_eq!(picked.load(Relaxed), 64 * ROUNDS);
}
