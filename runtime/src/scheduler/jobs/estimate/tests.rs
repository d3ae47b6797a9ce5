use std::time::{Duration, Instant};

use super::{EAGER, Estimates, LONG, SHORT, Theft};

#[test]
fn a_child_job_counts_as_long_until_some_were_short() {
    let estimates = Estimates::new();
    let estimate = estimates.at(0);
    assert!(!estimate.is_short());
    let mut short = 0;
    while !estimate.is_short() {
        estimate.learn(0, 0);
        short += 1;
    }
    assert_eq!(short, 4, "half of what is known is forgotten each time");
    estimate.set_long();
    assert!(!estimate.is_short(), "it takes as long as is worth a theft");
    estimate.learn(0, SHORT - 1);
    assert!(estimate.is_short());
    estimate.learn(0, LONG);
    assert!(!estimate.is_short());
}

#[test]
fn the_oldest_indices_have_estimates_of_their_own_and_the_others_share_one() {
    let estimates = Estimates::new();
    (0..8).for_each(|_| estimates.at(EAGER).learn(EAGER, 0));
    let short: Vec<_> = (0..EAGER + 3).filter(|&index| estimates.at(index).is_short()).collect();
    assert_eq!(short, [EAGER, EAGER + 1, EAGER + 2]);
    (0..8).for_each(|_| estimates.at(1).learn(1, 0));
    assert!(estimates.at(1).is_short() && !estimates.at(0).is_short());
}

#[test]
fn a_child_job_is_known_for_the_time_since_it_was_noted() {
    let estimates = Estimates::new();
    let estimate = estimates.at(9);
    assert_eq!(estimate.known_for(9, || true), None, "it is not timed");
    let began = Instant::now();
    estimate.begin(9);
    while began.elapsed() < Duration::from_micros(10) {
        std::hint::spin_loop();
    }
    assert_eq!(estimate.known_for(10, || unreachable!("another one is timed")), None);
    assert_eq!(estimate.known_for(9, || false), None, "another one is in its place");
    let first = estimate.known_for(9, || true).unwrap();
    assert!(first > 1_000 && first <= LONG, "{first}");
    while began.elapsed() < 2 * Duration::from_nanos(u64::from(LONG)) {
        std::hint::spin_loop();
    }
    assert_eq!(estimate.known_for(9, || true), Some(LONG), "it counts for no more");
    estimate.learn(9, SHORT);
    assert_eq!(estimate.known_for(9, || true), None, "it was taken back");
}

#[test]
fn a_theft_is_told_once_with_the_average_time_of_its_jobs() {
    let theft = Theft::new();
    assert!(theft.end().is_none());
    let began = Instant::now() - Duration::from_secs(8);
    theft.begin(4, began);
    let (at, average) = theft.end().unwrap();
    let longest = began.elapsed().as_nanos() / 4;
    assert!(at == began && (2_000_000_000..=longest).contains(&average), "{average}");
    assert!(theft.end().is_none());
}
