//! What one thread can see of the word and the bits; the protocol itself is checked by `loom-tests`.

use super::{Idle, Pick, Work};

const NO_THREAD: Pick = Pick { unparks: None, found_none: true };

/// A worker searches.
const RELIES: Pick = Pick { unparks: None, found_none: false };

fn unparks(index: usize) -> Pick {
    Pick { unparks: Some(index), found_none: false }
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
fn a_waiter_is_not_woken_for_a_task_nor_for_a_detached_injected_job() {
    let idle = Idle::new(4, 4);
    assert!(idle.announce_wait(0, idle.get_sleepy()));
    assert_eq!(idle.pick_for(Work::Task, None), NO_THREAD);
    assert_eq!(idle.pick_for(Work::DetachedJob, None), NO_THREAD);
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
