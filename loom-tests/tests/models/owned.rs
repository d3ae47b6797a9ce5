//! The tables of tasks that wait. One thread at a time uses a worker's table, whichever thread ends its
//! tasks. A thread that looks for tasks follows no pointer to a freed cell. Each task ends once, by its
//! completer or by the thread that looks.
//!
//! Loom's cell finds an access to a table from two threads. Poison finds an access to a freed cell.
//!
//! Bounds: one worker's table, up to four tasks, two threads beside the owner.

mod twin;

use std::sync::Arc;

use runtime::internals::block_on;

use super::once_built::{model, thread};
use super::task::board::{Board, Life, Tables};
use twin::{Fault, Twin};

/// A thread that takes a task of the owner. The task becomes ready, and the thread ends it.
fn end_elsewhere(board: &Arc<Board>, life: &Arc<Life>) -> thread::JoinHandle<()> {
    let (board, life, waker) = (board.clone(), life.clone(), life.waker());
    life.drop_waker();
    thread::spawn(move || {
        life.make_ready_then(|| waker.wake());
        board.run_queued();
    })
}

fn start(board: &Arc<Board>) -> Arc<Life> {
    let (join, life) = board.start();
    drop(join);
    life
}

/// Cancels the tasks that are left, and checks that each has ended once.
fn assert_all_end(board: &Board, lives: &[Arc<Life>]) {
    board.run_queued();
    board.cancel_idle();
    lives.iter().for_each(|life| {
        life.drop_waker();
        life.assert_ended();
    });
    assert_eq!(board.cancel_idle(), 0, "a slot is lost");
    board.assert_freed();
}

/// The owner enters tasks, and looks for those that wait, while another thread ends one of its tasks.
fn a_task_ends_elsewhere<T: Tables + 'static>(make: impl Fn() -> T + Send + Sync + 'static) {
    model(move || {
        let board = Board::with_tables(Box::new(make()));
        board.sit(0);
        let first = start(&board);
        let other = end_elsewhere(&board, &first);
        let second = start(&board);
        board.cancel_idle();
        let third = start(&board);
        other.join().unwrap();
        let fourth = start(&board);
        first.assert_ended();
        second.assert_ended();
        assert_all_end(&board, &[first, second, third, fourth]);
    });
}

/// The owner lends its table and takes it back, while another thread looks for tasks, and a third ends one.
fn a_table_is_lent<T: Tables + 'static>(make: impl Fn() -> T + Send + Sync + 'static) {
    model(move || {
        let board = Board::with_tables(Box::new(make()));
        board.sit(0);
        let first = start(&board);
        let second = start(&board);
        let other = end_elsewhere(&board, &first);
        let looks = thread::spawn({
            let board = board.clone();
            move || _ = board.cancel_idle()
        });
        let seat = board.lend();
        // The owner is asleep here.
        thread::yield_now();
        board.take_back(seat);
        let third = start(&board);
        other.join().unwrap();
        looks.join().unwrap();
        assert_all_end(&board, &[first, second, third]);
    });
}

/// A thread looks for tasks, closes the tables and looks again, while the owner lends its table and enters a
/// task. Each look skips a table that was claimed after the close.
fn a_table_is_claimed_once<T: Tables + 'static>(make: impl Fn() -> T + Send + Sync + 'static) {
    model(move || {
        let board = Board::with_tables(Box::new(make()));
        board.sit(0);
        let first = start(&board);
        let looks = thread::spawn({
            let board = board.clone();
            move || {
                board.cancel_idle();
                board.owned().close();
                board.cancel_idle();
            }
        });
        let seat = board.lend();
        // The owner is asleep here.
        thread::yield_now();
        board.take_back(seat);
        let second = start(&board);
        looks.join().unwrap();
        assert_all_end(&board, &[first, second]);
    });
}

/// A task would wait for the first time after the tables were closed. It is cancelled, once, even if its
/// abort was requested.
#[test]
fn a_task_that_is_refused_is_cancelled_once() {
    model(|| {
        let board = Board::with_seats(1);
        let (task, join, life) = board.newborn_with_handle();
        let abort = join.abort_handle();
        let worker = thread::spawn({
            let board = board.clone();
            move || {
                board.sit(0);
                task.run();
                board.lend();
            }
        });
        let aborting = thread::spawn({
            let board = board.clone();
            move || {
                abort.abort();
                board.run_queued();
            }
        });
        board.owned().close();
        board.cancel_idle();
        worker.join().unwrap();
        aborting.join().unwrap();
        board.cancel_idle();
        life.drop_waker();
        life.assert_ended();
        assert!(block_on(join).is_err_and(|error| error.is_cancelled()));
        board.assert_freed();
    });
}

#[test]
fn an_owner_enters_and_looks_while_a_task_ends_elsewhere() {
    a_task_ends_elsewhere(|| runtime::internals::task::Owned::new(1));
}

#[test]
fn a_lent_table_is_for_the_holder_of_the_lock() {
    a_table_is_lent(|| runtime::internals::task::Owned::new(1));
}

#[test]
fn a_table_that_was_claimed_is_skipped() {
    a_table_is_claimed_once(|| runtime::internals::task::Owned::new(1));
}

#[test]
fn a_twin_without_a_fault_passes() {
    a_task_ends_elsewhere(|| Twin::new(Fault::None));
    a_table_is_lent(|| Twin::new(Fault::None));
    a_table_is_claimed_once(|| Twin::new(Fault::None));
}

/// A twin for each fault.
macro_rules! refused {
    ($($name:ident: $model:ident($fault:expr), $text:literal;)*) => {$(
        #[test]
        #[should_panic(expected = $text)]
        fn $name() {
            $model(|| Twin::new($fault));
        }
    )*};
}

refused! {
    a_task_that_leaves_as_if_it_were_with_the_owner: a_task_ends_elsewhere(Fault::LeavesAsTheOwner),
        "data race on the worker's table";
    a_task_that_leaves_without_a_word: a_task_ends_elsewhere(Fault::LeavesNoWord), "late use of a task";
    an_owner_that_clears_twice: a_task_ends_elsewhere(Fault::ClearsTwice), "the future was never dropped";
    an_owner_that_looks_without_clearing: a_task_ends_elsewhere(Fault::LooksWithoutClearing),
        "late use of a task";
    a_task_that_leaves_a_lent_table_without_the_lock: a_table_is_lent(Fault::LeavesAsTheOwner),
        "data race on the worker's table";
    an_owner_that_goes_on_with_a_lent_table: a_table_is_lent(Fault::TakesBackWithoutLock),
        "data race on the worker's table";
    a_look_into_a_table_that_is_not_lent: a_table_is_lent(Fault::LooksUnlent),
        "data race on the worker's table";
    a_table_that_counts_as_claimed_before_the_close: a_table_is_claimed_once(Fault::ClaimsUnclosed),
        "the future was never dropped";
    a_task_that_enters_a_claimed_table: a_table_is_claimed_once(Fault::EntersClosed),
        "the future was never dropped";
}
