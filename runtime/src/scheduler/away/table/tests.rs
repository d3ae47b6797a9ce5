//! Four permanent workers, and spare workers from index 4 on, unless a test says otherwise.

use std::thread;

use super::Role::{Begins, Full, Serves, Surplus};
use super::{Away, BlockedState, Call, Role, Table};
use crate::loom::sync::atomic::AtomicBool;
use crate::loom::sync::atomic::Ordering::Relaxed;
use crate::util::joined::joined_scope;

const FIRST: usize = 4;

/// For the tests of other modules.
impl Away {
    /// As [`change`](Self::change).
    pub fn set_up<R>(&self, f: impl FnOnce(&mut Table) -> R) -> R {
        self.change(f)
    }

    /// Adds an active spare worker that has started. Returns its index, and the bound of the indices.
    pub fn add_spare(&self) -> (usize, usize) {
        self.change(|table| {
            let Some(Call::Fresh(index)) = table.call_fresh() else { panic!("there is no room") };
            table.has_started(index);
            (index, table.spare_bound())
        })
    }
}

/// With `active` spare workers, whose threads have started.
fn away_with(active: usize, spares: usize) -> Away {
    let away = Away::new(FIRST, spares);
    away.change(|table| {
        for index in FIRST..FIRST + active {
            assert_eq!(table.call_fresh(), Some(Call::Fresh(index)));
            table.has_started(index);
        }
    });
    away
}

/// A table of `away_with`.
fn with_table(active: usize, spares: usize, f: impl FnOnce(&mut Table)) {
    away_with(active, spares).change(f);
}

/// The roles of all active spare workers, while `waiting` workers wait for latches.
fn roles(away: &Away, waiting: (usize, usize)) -> Vec<Role> {
    let active = away.read(|table| table.active().to_vec());
    active.into_iter().map(|index| away.role(index, || waiting)).collect()
}

#[test]
fn a_worker_that_blocks_is_counted_once_and_only_while_it_blocks() {
    let state = BlockedState::default();
    let shown = || (state.is_blocked(), state.is_blocked_in_order(), state.is_uncounted());
    assert_eq!(shown(), (false, false, false));
    assert!(!state.count(), "it is here");
    state.say_blocked();
    assert_eq!(shown(), (true, true, true));
    assert!(state.count());
    assert!(!state.count(), "it is counted");
    assert_eq!(shown(), (true, true, false));
    assert!(state.say_back());
    assert_eq!(shown(), (false, false, false));
    state.say_blocked();
    assert!(!state.say_back(), "it was not counted this time");
    assert!(!state.say_back());
}

#[test]
fn the_hints_follow_the_numbers() {
    let away = away_with(2, 4);
    let hints = || (away.active(), away.blocked(), away.is_any(), away.has_yielding());
    assert_eq!(hints(), (2, 0, false, false));
    assert_eq!(away.change(|table| std::mem::replace(&mut table.blocked, 2)), 0);
    assert_eq!(hints(), (2, 2, true, false));
    away.change(|table| table.stalled = 3);
    assert_eq!(hints(), (2, 5, true, false));
    away.change(|table| {
        (table.blocked, table.stalled) = (0, 0);
        table.yielding.push(1);
    });
    assert_eq!(hints(), (2, 0, true, true));
    away.change(|table| {
        table.yielding.clear();
        table.serving = 1;
    });
    assert_eq!(hints(), (2, 0, true, false));
    away.lent.store(3, Relaxed);
    assert_eq!(away.lent(), 3);
}

#[test]
fn a_spare_worker_serves_if_more_are_active_than_compensate_and_yield() {
    let away = away_with(3, 4);
    away.change(|table| {
        (table.blocked, table.serving) = (2, 1);
        table.yielding.push(1);
    });
    assert!(!away.is_any_serving(), "all three are for others");
    away.change(|table| assert_eq!(table.call_fresh(), Some(Call::Fresh(7))));
    assert!(away.is_any_serving());
    away.change(|table| table.serving = 0);
    assert!(!away.is_any_serving());
}

#[test]
fn the_first_of_the_needed_spare_workers_compensate_and_the_others_serve() {
    let away = away_with(5, 5);
    assert_eq!(roles(&away, (0, 0)), [Surplus; 5]);
    away.change(|table| {
        (table.blocked, table.serving) = (1, 1);
        table.yielding.push(0);
    });
    assert_eq!(roles(&away, (0, 0)), [Full, Serves, Serves, Surplus, Surplus]);
    away.change(|table| table.stalled = 1);
    assert_eq!(roles(&away, (2, 0)), [Full, Full, Full, Full, Serves]);
}

#[test]
fn a_spare_worker_that_stands_for_waiting_permanent_workers_takes_no_child_jobs() {
    let away = away_with(3, 3);
    away.change(|table| table.serving = 1);
    assert_eq!(roles(&away, (1, 0)), [Begins, Serves, Surplus]);
    assert_eq!(roles(&away, (1, 1)), [Full, Serves, Surplus], "a spare worker waits, too");
    assert!(!away.are_child_jobs_left());
    {
        let _one = away.wait_on_child_jobs();
        let _other = away.wait_on_child_jobs();
        assert!(away.are_child_jobs_left());
        assert_eq!(roles(&away, (1, 0)), [Full, Serves, Surplus], "a thread waits on top of child jobs");
    }
    assert!(!away.are_child_jobs_left());
    assert_eq!(roles(&away, (1, 0)), [Begins, Serves, Surplus]);
}

#[test]
fn a_worker_polls_any_task_unless_it_serves_or_is_not_needed() {
    assert_eq!([Full, Begins, Serves, Surplus].map(Role::takes_any_task), [true, true, false, false]);
}

#[test]
fn as_many_spare_workers_are_needed_as_workers_are_away_or_served_for() {
    with_table(5, 6, |table| {
        (table.blocked, table.stalled, table.serving) = (2, 3, 5);
        table.yielding.extend([0, 2]);
        assert_eq!((table.full(4), table.needed(4)), (9, 16));
        (table.blocked, table.stalled, table.serving) = (1, 0, 1);
        assert!(!table.lacks_spare(1) && !table.has_surplus(1), "as many as are needed");
        assert!(table.lacks_spare(2) && !table.has_surplus(2));
        assert!(!table.lacks_spare(0) && table.has_surplus(0));
    });
}

#[test]
fn a_spare_worker_that_starts_is_there_but_not_for_the_shutdown() {
    with_table(2, 5, |table| {
        let called = [(); 2].map(|()| table.call_fresh());
        assert_eq!(called, [Some(Call::Fresh(6)), Some(Call::Fresh(7))]);
        assert_eq!([5, 6, 7].map(|index| table.is_starting(index)), [false, true, true]);
        let lacks = |table: &Table, needed| (table.lacks_spare(needed), table.lacks_spare_for_now(needed));
        assert_eq!(lacks(table, 2), (false, false));
        assert_eq!(lacks(table, 3), (false, true));
        assert_eq!(lacks(table, 5), (true, true));
        table.has_started(6);
        assert_eq!([6, 7].map(|index| table.is_starting(index)), [false, true]);
        assert_eq!(lacks(table, 3), (false, false));
        assert_eq!(lacks(table, 4), (false, true));
    });
}

#[test]
fn a_call_takes_a_near_one_of_those_that_rest_or_else_the_last_to_rest() {
    with_table(5, 6, |table| {
        assert!(!table.is_any_resting());
        [5, 7, 6, 8].into_iter().for_each(|index| table.begin_rest(index));
        assert_eq!(table.active(), [4]);
        assert_eq!((table.present(), table.is_any_resting()), (5, true));
        assert_eq!([4, 5].map(|index| table.is_resting(index)), [false, true]);
        assert_eq!(table.call(|index| index < 8), Some(Call::Resting(6)));
        assert_eq!(table.call(|_| false), Some(Call::Resting(8)));
        assert_eq!(table.call(|_| true), Some(Call::Resting(7)));
        assert_eq!(table.active(), [4, 6, 7, 8], "in ascending order");
        assert_eq!((table.present(), table.is_resting(7)), (5, false));
        assert!(!table.is_starting(7), "its thread runs");
        assert_eq!(table.call_fresh(), Some(Call::Fresh(9)), "though one rests");
        assert_eq!(table.call(|_| true), Some(Call::Resting(5)));
        assert_eq!(table.call(|_| true), None, "the limit is reached");
    });
}

#[test]
fn counts_tell_started_refused_and_capped_calls() {
    let away = away_with(1, 4);
    away.change(|table| {
        assert_eq!(table.call(|_| true), Some(Call::Fresh(5)));
        assert_eq!(table.call(|_| true), Some(Call::Fresh(6)));
        assert_eq!(table.call(|_| true), Some(Call::Fresh(7)));
        assert_eq!((table.call(|_| true), table.call_fresh()), (None, None));
        table.refused(6);
        assert_eq!(table.active(), [4, 5, 7]);
        assert!(!table.is_starting(6) && table.is_starting(5));
        assert_eq!(table.counts.started, 1, "those that were called may still be refused");
        table.has_started(5);
        table.has_started(7);
        table.begin_rest(4);
    });
    let counts = away.counts();
    assert_eq!((counts.active, counts.resting), (2, 1));
    assert_eq!((counts.started, counts.refused, counts.capped), (3, 1, 2));
    assert_eq!([3, 4, 5, 6, 7].map(|index| away.is_absent(index)), [false, false, false, true, false]);
    away.change(|table| assert_eq!(table.call_fresh(), Some(Call::Fresh(6)), "the index is free again"));
}

#[test]
fn a_rest_ends_with_a_free_index_or_with_work_or_not_if_the_worker_was_called() {
    let away = away_with(4, 5);
    away.change(|table| {
        [4, 5, 7].into_iter().for_each(|index| table.begin_rest(index));
        assert!(!table.end_rest(6, false), "it does not rest");
        assert!(table.end_rest(7, false));
        assert!(!table.is_resting(7) && table.is_resting(5) && table.is_resting(4));
        assert!(table.end_rest(5, true));
        assert!(!table.is_resting(5));
        assert_eq!(table.active(), [5, 6]);
        assert!(!table.end_rest(7, false), "its thread has ended");
    });
    assert_eq!([4, 5, 7, 8].map(|index| away.is_absent(index)), [false, false, true, true]);
}

#[test]
fn the_bound_of_spare_indices_is_behind_the_highest_in_use() {
    with_table(0, 3, |table| assert_eq!(table.spare_bound(), 0));
    with_table(4, 5, |table| {
        assert_eq!(table.spare_bound(), 4);
        [5, 7].into_iter().for_each(|index| table.begin_rest(index));
        assert!(table.end_rest(5, false) && table.end_rest(7, false));
        assert_eq!(table.spare_bound(), 3);
    });
}

#[test]
fn permanent_and_active_spare_workers_can_be_awake() {
    let away = away_with(3, 4);
    assert_eq!(away.workers(), 3);
    away.permanent_comes();
    away.permanent_comes();
    assert_eq!(away.workers(), 5);
    away.change(|table| table.begin_rest(5));
    assert_eq!(away.workers(), 4);
}

#[test]
fn all_is_closed_when_the_last_of_all_workers_arrives_and_may_close() {
    let away = away_with(1, 3);
    away.permanent_comes();
    away.permanent_comes();
    assert!(!away.arrive(|| true));
    assert!(away.depart(), "it looks for work again");
    assert!(!away.arrive(|| true));
    assert!(!away.arrive(|| true));
    assert!(!away.arrive(|| false), "work is left");
    assert!(away.depart() && !away.is_closed());
    assert!(away.arrive(|| true) && away.is_closed());
    assert!(!away.depart(), "they leave");
    assert!(away.arrive(|| unreachable!("it is closed")));
    assert!(away.change(|table| table.call(|_| true).is_none() && table.call_fresh().is_none()));
}

#[test]
fn a_thread_that_passes_the_lock_sees_what_its_holder_did() {
    let away = Away::new(1, 0);
    let [is_held, is_done] = [(); 2].map(|()| AtomicBool::new(false));
    joined_scope(|scope| {
        scope.spawn(|| {
            away.read(|_| {
                is_held.store(true, Relaxed);
                (0..1_000).for_each(|_| thread::yield_now());
                is_done.store(true, Relaxed);
            });
        });
        while !is_held.load(Relaxed) {
            thread::yield_now();
        }
        away.pass();
        assert!(is_done.load(Relaxed));
    });
}
