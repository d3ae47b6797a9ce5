//! Tasks, with the real cell, state word, harness, wakers and handles, on a scheduler that is a locked queue.
//!
//! Wakes, polls, abort, joining, dropping handle and wakers may all happen at once. A wake is followed by a
//! poll that sees what the waker wrote, or the task is done. One thread at a time polls. Future and output
//! are dropped once. A task that waits for the output is woken. The cell is freed once, and not touched
//! afterwards (freed memory is poisoned).
//!
//! Bounds: one or two tasks of a few polls, two threads beside the one that makes them.

pub mod board;

use std::future::Future;
use std::sync::Arc;
use std::task::Context;

use runtime::internals::block_on;
use runtime::task::JoinHandle;

use board::{Alarm, Board, Life, Output, Schedules};

use super::once_built::{model, thread};

/// Runs the tasks that are queued beside the threads, and after them. Then the task has finished, and is
/// gone.
fn finish_beside(threads: [thread::JoinHandle<()>; 2], board: &Board, life: &Life) {
    board.run_queued();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    board.run_queued();
    life.assert_finished();
    board.assert_freed();
}

/// Two wakes, one of each kind, while a worker polls.
#[test]
fn a_wake_is_followed_by_a_poll_that_sees_it() {
    model(|| {
        let board = Board::new();
        let (join, life) = board.start();
        drop(join);
        let [first, second] = [life.waker(), life.waker()];
        life.drop_waker();
        let wakers = [
            thread::spawn({
                let life = life.clone();
                move || life.make_ready_then(|| first.wake())
            }),
            thread::spawn({
                let board = board.clone();
                move || {
                    second.wake_by_ref();
                    board.run_queued();
                    drop(second);
                }
            }),
        ];
        finish_beside(wakers, &board, &life);
    });
}

/// A thread of the scheduler wakes, which drops the waker in the same step, while another thread polls.
#[test]
fn a_wake_by_an_own_thread_may_drop_the_last_reference() {
    model(|| {
        let board = Board::with(Schedules { all_threads_own: true });
        let (join, life) = board.start();
        drop(join);
        let [first, second] = [life.waker(), life.waker()];
        life.drop_waker();
        let wakers = [first, second].map(|waker| {
            let life = life.clone();
            thread::spawn(move || life.make_ready_then(|| waker.wake()))
        });
        finish_beside(wakers, &board, &life);
    });
}

/// A task wakes itself in its poll while another thread wakes it, and a third runs what is queued.
#[test]
fn a_wake_of_oneself_keeps_those_of_others() {
    model(|| {
        let board = Board::new();
        let (join, life) = board.start();
        drop(join);
        life.wake_itself();
        let [first, second] = [life.waker(), life.waker()];
        life.drop_waker();
        first.wake();
        let threads = [
            thread::spawn({
                let life = life.clone();
                move || life.make_ready_then(|| second.wake_by_ref())
            }),
            thread::spawn({
                let board = board.clone();
                move || board.run_queued()
            }),
        ];
        finish_beside(threads, &board, &life);
    });
}

/// A poll drops the waker that an earlier poll cloned, which goes into the reserve, and ends the task.
/// Meanwhile other threads drop their wakers.
fn a_poll_drops_a_waker_while_others_go_elsewhere(schedules: Schedules) {
    model(move || {
        let board = Board::with(schedules);
        let (join, life) = board.start();
        drop(join);
        let [first, second] = [life.waker(), life.waker()];
        let wakers = [
            thread::spawn({
                let life = life.clone();
                move || life.make_ready_then(|| first.wake())
            }),
            thread::spawn(move || drop(second)),
        ];
        finish_beside(wakers, &board, &life);
    });
}

#[test]
fn the_reserve_ends_with_the_task_and_frees_nothing_too_early() {
    a_poll_drops_a_waker_while_others_go_elsewhere(Schedules::default());
}

#[test]
fn the_reserve_ends_with_the_task_on_threads_of_its_own() {
    a_poll_drops_a_waker_while_others_go_elsewhere(Schedules { all_threads_own: true });
}

/// Abort against a wake and the poll it causes.
#[test]
fn an_abort_ends_the_task_once() {
    model(|| {
        let board = Board::new();
        let (join, life) = board.start();
        let (abort, waker) = (join.abort_handle(), life.waker());
        life.drop_waker();
        let threads = [
            thread::spawn({
                let board = board.clone();
                move || {
                    abort.abort();
                    board.run_queued();
                }
            }),
            thread::spawn({
                let life = life.clone();
                move || life.make_ready_then(|| waker.wake())
            }),
        ];
        board.run_queued();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        board.run_queued();
        life.assert_ended();
        // The task either completed first or was cancelled.
        if let Ok(output) = block_on(join) {
            output.check();
        }
        life.assert_outputs_dropped();
        board.assert_freed();
    });
}

/// The task is made ready and run by another thread while this one waits for its output.
#[test]
fn a_task_that_waits_for_the_output_is_woken_and_gets_it() {
    model(|| {
        let board = Board::new();
        let (join, life) = board.start();
        let waker = life.waker();
        life.drop_waker();
        let worker = thread::spawn({
            let (board, life) = (board.clone(), life.clone());
            move || {
                life.make_ready_then(|| waker.wake());
                board.run_queued();
            }
        });
        block_on(join).expect("the task is not cancelled").check();
        worker.join().unwrap();
        life.assert_finished();
        life.assert_outputs_dropped();
        board.assert_freed();
    });
}

/// The handle is polled with one waker, then with another, while the task completes; then it is dropped, or
/// awaited.
fn a_second_join_waker(is_awaited: bool) {
    model(move || {
        let board = Board::new();
        let (mut join, life) = board.start();
        let waker = life.waker();
        life.drop_waker();
        let [first, second] = [Alarm::new(), Alarm::new()];
        let is_done = |join: &mut JoinHandle<Output>, alarm: &Arc<Alarm>| {
            std::pin::Pin::new(join).poll(&mut Context::from_waker(&alarm.clone().into())).is_ready()
        };
        assert!(!is_done(&mut join, &first));
        let worker = thread::spawn({
            let (board, life) = (board.clone(), life.clone());
            move || {
                life.make_ready_then(|| waker.wake());
                board.run_queued();
            }
        });
        let mut has_output = is_done(&mut join, &second);
        if !is_awaited {
            drop(join);
            worker.join().unwrap();
        } else {
            worker.join().unwrap();
            if !has_output {
                assert!(second.has_rung(), "the newest join waker is not woken");
                has_output = is_done(&mut join, &second);
            }
            assert!(has_output);
            drop(join);
        }
        life.assert_finished();
        life.assert_outputs_dropped();
        assert!(first.is_forgotten() && second.is_forgotten(), "a join waker leaks");
        board.assert_freed();
    });
}

#[test]
fn a_join_waker_can_be_replaced() {
    a_second_join_waker(true);
}

#[test]
fn a_handle_with_a_join_waker_can_be_dropped() {
    a_second_join_waker(false);
}

/// The last waker, an abort handle and the join handle go on three threads, while the task, which is aborted,
/// is dropped.
#[test]
fn the_last_reference_may_go_anywhere() {
    model(|| {
        let board = Board::new();
        let (join, life) = board.start();
        let (abort, waker) = (join.abort_handle(), life.waker());
        life.drop_waker();
        let threads = [thread::spawn(move || drop(waker)), thread::spawn(move || abort.abort())];
        drop(join);
        board.run_queued();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        board.run_queued();
        life.assert_ended();
        board.assert_freed();
    });
}

/// A thread outside wakes a task. A worker runs the task, which frees the cell, and gives up the scheduler.
/// The scheduler would end while the thread outside is still inside of it, unless that thread keeps the cell.
fn the_scheduler_ends_behind_a_foreign_wake(schedules: Schedules) {
    model(move || {
        let board = Board::with(schedules);
        let (join, life) = board.start();
        drop(join);
        let waker = life.waker();
        life.drop_waker();
        let foreign = thread::spawn({
            let life = life.clone();
            move || life.make_ready_then(|| waker.wake())
        });
        while !life.has_ended() {
            board.run_queued();
            thread::yield_now();
        }
        let counts = board.leave();
        foreign.join().unwrap();
        counts.assert_ended();
    });
}

#[test]
fn a_foreign_wake_keeps_the_scheduler() {
    the_scheduler_ends_behind_a_foreign_wake(Schedules::default());
}

#[test]
#[should_panic(expected = "data race on the scheduler")]
fn a_foreign_wake_that_takes_itself_for_an_own() {
    the_scheduler_ends_behind_a_foreign_wake(Schedules { all_threads_own: true });
}

/// One thread polls a newborn task, one completes an older task, one closes the tables and cancels the tasks
/// that wait. In any order every task ends once: by its own thread, by the thread that closes, or because it
/// was refused.
fn a_first_wait_against_close(is_closed: bool) {
    model(move || {
        let board = Board::with_seats(0);
        let (older, older_life) = board.start();
        drop(older);
        let waker = older_life.waker();
        older_life.drop_waker();
        let starting = thread::spawn({
            let board = board.clone();
            move || {
                let (join, life) = board.start();
                drop(join);
                life.drop_waker();
                life
            }
        });
        let waking = thread::spawn({
            let (board, life) = (board.clone(), older_life.clone());
            move || {
                life.make_ready_then(|| waker.wake());
                board.run_queued();
            }
        });
        if is_closed {
            board.owned().close();
        }
        board.cancel_idle();
        let newer_life = starting.join().unwrap();
        waking.join().unwrap();
        board.run_queued();
        // A second walk finds a task that was polled during the first walk. It does not find a task that was
        // entered behind it.
        if is_closed {
            assert_eq!(board.cancel_idle(), 0);
        }
        older_life.assert_ended();
        newer_life.assert_ended();
        board.assert_freed();
    });
}

#[test]
fn closing_the_tables_leaves_no_task_behind() {
    a_first_wait_against_close(true);
}

#[test]
#[should_panic(expected = "the future was never dropped")]
fn a_walk_without_closing() {
    a_first_wait_against_close(false);
}
