use super::{INTERVAL_NANOS, LONGEST_POLL_INTERVAL, POLL_INTERVAL_NANOS, PollInterval, RECENT_NANOS, Splits};
use crate::loom::sync::atomic::Ordering::Relaxed;

/// An interval of `length` splits that began at 0.
fn interval(length: u32) -> PollInterval {
    let interval = PollInterval::new();
    interval.left.set(length);
    interval.length.set(length);
    interval
}

/// The length after an interval of `length` splits has taken `nanos`.
fn next_length(length: u32, nanos: u64) -> u32 {
    let interval = interval(length);
    interval.began.set(7);
    interval.adapt(7 + nanos);
    assert_eq!((interval.left(), interval.began.get()), (interval.length.get(), 7 + nanos));
    interval.length.get()
}

#[test]
fn an_interval_becomes_longer_if_its_splits_are_short() {
    assert_eq!(next_length(1, 0), 2);
    assert_eq!(next_length(7, POLL_INTERVAL_NANOS / 2 - 1), 14);
    assert_eq!(next_length(7, POLL_INTERVAL_NANOS / 2), 7);
    assert_eq!(next_length(LONGEST_POLL_INTERVAL - 1, 0), LONGEST_POLL_INTERVAL);
    assert_eq!(next_length(LONGEST_POLL_INTERVAL, 0), LONGEST_POLL_INTERVAL);
}

#[test]
fn an_interval_becomes_shorter_if_its_splits_are_long() {
    assert_eq!(next_length(100, 2 * POLL_INTERVAL_NANOS), 100);
    assert_eq!(next_length(100, 2 * POLL_INTERVAL_NANOS + 1), 49);
    assert_eq!(next_length(100, 4 * POLL_INTERVAL_NANOS), 25);
    assert_eq!(next_length(100, 1000 * POLL_INTERVAL_NANOS), 1);
    assert_eq!(next_length(1, 3 * POLL_INTERVAL_NANOS), 1);
}

#[test]
fn splits_are_passed_one_by_one_or_many_at_once() {
    let interval = interval(3);
    assert_eq!([(); 3].map(|()| interval.pass()), [false, false, true]);
    interval.left.set(5);
    assert!(!interval.pass_many(3));
    assert_eq!(interval.left(), 2);
    assert!(interval.pass_many(3), "more than are left");
    assert_eq!(interval.left(), 0);
    interval.left.set(2);
    assert!(interval.pass_many(2));
}

#[test]
fn other_work_begins_with_an_interval_of_one_split_unless_there_is_nothing_to_look_for() {
    let interval = interval(9);
    interval.restart();
    assert_eq!((interval.left(), interval.length.get()), (1, 1));
    interval.end();
    interval.restart();
    assert_eq!((interval.left(), interval.length.get()), (u32::MAX, u32::MAX));
}

/// Splits whose runtime was made a second ago.
fn splits() -> Splits {
    let mut splits = Splits::new();
    splits.base -= std::time::Duration::from_secs(1);
    splits
}

#[test]
fn splits_are_passed_if_a_worker_has_looked_recently() {
    let splits = splits();
    assert!(splits.now() >= 1_000_000_000);
    assert!(!splits.are_passed(), "no worker has looked yet");
    let now = splits.now();
    assert!(splits.claim(3, now));
    // A busy machine may stop this thread for longer than the time that counts as recent.
    let is_recent = |passed: bool| passed || splits.now() - now >= RECENT_NANOS;
    assert!(is_recent(splits.are_passed()));
    assert!(is_recent(splits.are_passed_by_others_than(2)));
    assert!(!splits.are_passed_by_others_than(3));
    splits.last.store(now - RECENT_NANOS, Relaxed);
    assert!(!splits.are_passed() && !splits.are_passed_by_others_than(2));
    splits.last.store(u64::MAX, Relaxed);
    assert!(splits.are_passed(), "the clock of another worker may be ahead");
}

#[test]
fn one_worker_looks_in_each_interval() {
    let splits = splits();
    let now = splits.now();
    assert!(splits.claim(1, now));
    assert!(!splits.claim(2, now + INTERVAL_NANOS - 1));
    assert!(splits.claim(2, now + INTERVAL_NANOS));
    assert!(!splits.claim(1, now + INTERVAL_NANOS), "another was first");
    assert!(!splits.claim(1, now), "its clock is behind");
    assert_eq!((splits.last.load(Relaxed), splits.last_by.load(Relaxed)), (now + INTERVAL_NANOS, 2));
}
