//! A set of tasks. All is real but the scheduler. Each result is taken once, by a set that is woken for it.
//! Tasks that end while the set is dropped, or lets them go, leave nothing behind: no task, no waker, and no
//! memory that is used after it was freed.
//!
//! Bounds: two tasks, a thread that ends each of them, and the set's thread.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use runtime::internals::task::insert;
use runtime::task::JoinSet;

use super::flag::Flag;
use super::once_built::{model, thread};
use super::task::board::{Board, Life, Output};

/// A set of `count` tasks. A thread of its own ends each task, at once.
struct Running {
    board: Arc<Board>,
    set: JoinSet<Output>,
    lives: Vec<Arc<Life>>,
    threads: Vec<thread::JoinHandle<()>>,
}

fn start(count: usize) -> Running {
    let (board, mut set, mut lives, mut threads) = (Board::new(), JoinSet::new(), Vec::new(), Vec::new());
    for _ in 0..count {
        let (task, join, life) = board.newborn_with_handle();
        life.make_ready_then(|| ());
        // The task may end before it is in the set.
        threads.push(thread::spawn(move || task.run()));
        drop(insert(&mut set, join));
        lives.push(life);
    }
    Running { board, set, lives, threads }
}

impl Running {
    fn finish(self) {
        let Self { board, set, lives, threads } = self;
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        drop(set);
        lives.iter().for_each(|life| life.assert_ended());
        board.assert_freed();
        lives.iter().for_each(|life| life.assert_outputs_dropped());
    }
}

fn poll(set: &mut JoinSet<Output>, flag: &Arc<Flag>) -> Poll<Option<()>> {
    set.poll_join_next(&mut Context::from_waker(&Waker::from(flag.clone())))
        .map(|result| result.map(|result| result.expect("it is not aborted").check()))
}

#[test]
fn a_set_that_waits_is_woken_and_gets_each_result_once() {
    model(|| {
        let mut running = start(2);
        let flag = Flag::new();
        let poll = poll(&mut running.set, &flag);
        let mut joined = usize::from(poll.is_ready());
        running.threads.drain(..).for_each(|thread| thread.join().unwrap());
        assert!(poll.is_ready() || flag.is_set(), "lost wake");
        while let Some(result) = running.set.try_join_next() {
            result.expect("it is not aborted").check();
            joined += 1;
        }
        assert_eq!(joined, 2);
        running.finish();
        assert_eq!(Arc::strong_count(&flag), 1, "leaked waker");
    });
}

/// The set is polled again, with another waker, while its task ends.
#[test]
fn a_set_that_waits_wakes_the_last_waker() {
    model(|| {
        let mut running = start(1);
        let flags = [Flag::new(), Flag::new()];
        let polls = flags.each_ref().map(|flag| poll(&mut running.set, flag));
        let is_waiting = polls.iter().all(|poll| poll.is_pending());
        running.threads.drain(..).for_each(|thread| thread.join().unwrap());
        assert!(!is_waiting || flags[1].is_set(), "lost wake");
        assert_eq!(is_waiting, running.set.try_join_next().is_some());
        running.finish();
        assert!(flags.iter().all(|flag| Arc::strong_count(flag) == 1), "leaked waker");
    });
}

/// The set waits in one task, and another task adds to it.
#[test]
fn a_set_that_waits_is_woken_for_a_task_that_comes_later() {
    model(|| {
        let mut running = start(0);
        let (first, join, first_life) = running.board.newborn_with_handle();
        drop(insert(&mut running.set, join));
        let flag = Flag::new();
        assert!(poll(&mut running.set, &flag).is_pending());
        let (second, join, second_life) = running.board.newborn_with_handle();
        running.lives.extend([first_life, second_life]);
        running.lives.iter().for_each(|life| life.make_ready_then(|| ()));
        running.threads.push(thread::spawn(move || second.run()));
        drop(insert(&mut running.set, join));
        running.threads.drain(..).for_each(|thread| thread.join().unwrap());
        assert!(flag.is_set(), "lost wake");
        first.run();
        running.finish();
    });
}

/// One task ends meanwhile. Another has ended, or ends later. (Two at once are two pushers of an inbox that
/// is closed: see `inbox.rs`.)
fn a_task_ends_while_the_set_is_dropped(other_has_ended: bool) {
    model(move || {
        let mut running = start(1);
        let (task, join, life) = running.board.newborn_with_handle();
        life.make_ready_then(|| ());
        running.lives.push(life);
        drop(insert(&mut running.set, join));
        let mut other = Some(task);
        let mut end_other = || other.take().into_iter().for_each(|task| task.run());
        let flag = Flag::new();
        let _ = poll(&mut running.set, &flag);
        if other_has_ended {
            end_other();
        }
        drop(std::mem::take(&mut running.set));
        end_other();
        running.finish();
        assert_eq!(Arc::strong_count(&flag), 1, "leaked waker");
    });
}

#[test]
fn a_task_ends_while_the_set_is_dropped_with_another_that_has_ended() {
    a_task_ends_while_the_set_is_dropped(true);
}

#[test]
fn a_task_ends_while_the_set_is_dropped_with_another_that_ends_later() {
    a_task_ends_while_the_set_is_dropped(false);
}

#[test]
fn tasks_end_while_they_are_detached_and_their_places_are_used_again() {
    model(|| {
        let mut running = start(1);
        running.set.detach_all();
        let (task, join, life) = running.board.newborn_with_handle();
        life.make_ready_then(|| ());
        drop(insert(&mut running.set, join));
        running.lives.push(life);
        assert!(running.set.try_join_next().is_none(), "the other was detached");
        task.run();
        running.set.try_join_next().expect("it has ended").expect("it is not aborted").check();
        running.finish();
    });
}
