use crate::config::Config;
use crate::driver::Driver;
use crate::scheduler::shared::tests::NoThreads;

/// The number of blocked workers, and of tables that were lent for them.
fn counts(runtime: &NoThreads) -> (usize, usize) {
    (runtime.away.blocked(), runtime.away.lent())
}

#[test]
fn a_worker_that_blocks_is_counted_once_and_its_table_is_lent() {
    let runtime = NoThreads::new(2);
    assert!(!runtime.count_blocked(1), "it is here");
    assert_eq!(counts(&runtime), (0, 0));
    runtime.processor(1).blocked_state.say_blocked();
    assert!(runtime.count_blocked(1));
    assert!(!runtime.count_blocked(1));
    assert_eq!(counts(&runtime), (1, 1));
    assert!(runtime.processor(1).blocked_state.say_back());
    runtime.one_less_blocked();
    assert_eq!(counts(&runtime), (0, 1));
}

#[test]
fn spare_workers_and_those_of_pools_have_no_table_to_lend() {
    let runtime = NoThreads::with_spares(1, 1);
    let spare = runtime.add_spare();
    assert_eq!(spare, 1);
    runtime.processor(spare).blocked_state.say_blocked();
    assert!(runtime.count_blocked(spare));
    assert_eq!(counts(&runtime), (1, 0));

    let pool = NoThreads::of(Config::of_pool(2), Driver::new(None, None));
    pool.processor(0).blocked_state.say_blocked();
    assert!(pool.count_blocked(0));
    assert_eq!(counts(&pool), (1, 0));
}

#[test]
fn a_spare_worker_is_called_for_a_worker_that_is_counted_or_marked() {
    let runtime = NoThreads::with_spares(2, 2);
    let spares = [(); 2].map(|()| runtime.add_spare());
    runtime.away.change(|table| spares.into_iter().for_each(|spare| table.begin_rest(spare)));
    runtime.processor(0).blocked_state.say_blocked();
    assert!(runtime.count_blocked(0));
    assert_eq!(runtime.unparked(), [spares[1]], "the last to rest");
    runtime.marked_blocked();
    assert_eq!(runtime.unparked(), [spares[0]]);
    assert_eq!(counts(&runtime), (2, 1));
    runtime.one_less_blocked();
    assert_eq!(counts(&runtime), (1, 1));
}

#[test]
fn at_the_shutdown_all_that_block_are_counted() {
    let runtime = NoThreads::new(4);
    [0, 1, 3].into_iter().for_each(|index| runtime.processor(index).blocked_state.say_blocked());
    assert!(runtime.count_blocked(1));
    runtime.count_all_blocked();
    assert_eq!(counts(&runtime), (3, 3));
}

#[test]
fn a_call_with_work_is_counted_if_a_spare_worker_rests_and_no_worker_is_idle() {
    let runtime = NoThreads::with_spares(2, 1);
    let spare = runtime.add_spare();
    runtime.processor(0).blocked_state.say_blocked();
    let is_counted = || {
        runtime.count_blocked_if_one_rests(0);
        runtime.away.blocked() == 1
    };
    assert!(!is_counted(), "no spare worker rests");
    runtime.away.change(|table| table.begin_rest(spare));
    runtime.idle.announce_sleep(1, false);
    assert!(!is_counted(), "a worker sleeps");
    assert!(runtime.idle.end_sleep(1));
    assert!(runtime.idle.start_searching());
    assert!(!is_counted(), "a worker searches");
    assert!(runtime.idle.stop_searching());
    assert!(is_counted());
    assert_eq!(runtime.unparked(), [spare]);
}
