use super::BiasedCount;

#[test]
fn only_the_last_of_all_references_and_the_bias_is_the_last() {
    let count = BiasedCount::new();
    count.add(1);
    assert!(!count.release());
    assert!(!count.release(), "the workers are there");
    count.add(1);
    assert!(!count.end_bias(), "one reference is left");
    assert!(count.release());
}

#[test]
fn the_bias_may_be_the_last_to_go() {
    let count = BiasedCount::new();
    assert!(!count.release());
    assert!(count.end_bias());
}

#[test]
fn a_negative_count_takes_away_what_a_worker_has_used() {
    let count = BiasedCount::new();
    count.add(2);
    count.add(-2);
    assert!(!count.release());
    assert!(count.end_bias());
}
