use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;

use super::*;
use crate::util::joined::joined_scope;

/// Waits until `condition` holds.
fn until(condition: impl Fn() -> bool) {
    while !condition() {
        thread::yield_now();
    }
}

/// Runs a writer, and calls `meanwhile` as soon as the writer sleeps until readers leave. Asserts that the
/// lock is free afterwards. `meanwhile` may ask whether the writer still waits.
fn beside_a_writer_that_waits(lock: &BigReaderLock, meanwhile: impl FnOnce(&dyn Fn() -> bool)) {
    joined_scope(|scope| {
        let writer = scope.spawn(|| drop(lock.write()));
        until(|| lock.word.load(SeqCst) & DRAINING != 0 || writer.is_finished());
        meanwhile(&|| !writer.is_finished());
    });
    assert_eq!((lock.word.load(SeqCst), lock.unnumbered.load(SeqCst)), (0, 0));
    assert!(lock.slots().all(|slot| slot.load(SeqCst) == 0));
}

#[test]
fn a_writer_waits_for_a_reader_that_found_no_slot() {
    let lock = BigReaderLock::new();
    let Table(slots) = lock.make_table();
    // No thread has this number.
    slots.iter().for_each(|slot| slot.store(!DEPTH | 1, SeqCst));
    let (reading, _) = lock.read();
    assert!(reading.slot.is_none());
    slots.iter().for_each(|slot| slot.store(0, SeqCst));
    beside_a_writer_that_waits(&lock, |waits| {
        assert!(waits() && lock.try_read().is_none());
        drop(reading);
    });
    assert!(lock.read().0.slot.is_some(), "a slot is free again");
}

#[test]
fn a_writer_waits_for_each_of_two_threads_that_read_at_once() {
    let lock = BigReaderLock::new();
    let has_entered = AtomicBool::new(false);
    let may_leave = AtomicBool::new(false);
    joined_scope(|scope| {
        let mine = lock.read().0;
        scope.spawn(|| {
            let _theirs = lock.read().0;
            has_entered.store(true, SeqCst);
            until(|| may_leave.load(SeqCst));
        });
        until(|| has_entered.load(SeqCst));
        let used: Vec<_> = lock.slots().map(|slot| slot.load(SeqCst)).filter(|&held| held != 0).collect();
        assert_eq!(used.len(), 2);
        assert!(used.contains(&(stamp() | 1)) && used.iter().all(|held| held & DEPTH == 1));
        drop(mine);
        beside_a_writer_that_waits(&lock, |waits| {
            assert!(waits(), "the other thread still reads");
            may_leave.store(true, SeqCst);
        });
    });
}

#[test]
fn a_thread_that_reads_again_stays_until_it_has_left_as_often() {
    let lock = BigReaderLock::new();
    let (first, second) = (lock.read().0, lock.read().0);
    let third = lock.try_read().unwrap();
    assert_eq!(lock.slots().map(|slot| slot.load(SeqCst)).collect::<Vec<_>>(), [stamp() | 3]);
    beside_a_writer_that_waits(&lock, |waits| {
        let fourth = lock.read().0;
        drop((first, third));
        drop(fourth);
        assert!(waits());
        drop(second);
    });
}

#[test]
fn a_thread_that_reads_more_often_than_a_slot_counts_is_known_to_read() {
    let lock = BigReaderLock::new();
    for count in [DEPTH, DEPTH + 1, DEPTH + 2] {
        let readings: Vec<_> = (0..count).map(|_| lock.read().0).collect();
        assert!(lock.slots().all(|slot| [0, stamp()].contains(&(slot.load(SeqCst) & !DEPTH))));
        assert!(catch_unwind(AssertUnwindSafe(|| drop(lock.write()))).is_err(), "it would wait for itself");
        drop(readings);
        drop(lock.write());
    }
}

#[test]
fn a_lock_that_one_thread_reads_has_no_table() {
    let lock = BigReaderLock::new();
    drop(lock.read());
    drop(lock.try_read().unwrap());
    let _both = (lock.read(), lock.try_read().unwrap());
    assert!(lock.table().is_none());
}

#[test]
fn a_writer_is_alone_and_changes_the_owners_bits_as_it_leaves() {
    const OWNERS: usize = 1 << OWNERS_SHIFT;
    let lock = BigReaderLock::new();
    lock.word().store(5 * OWNERS, SeqCst);
    let (reading, word) = lock.read();
    assert_eq!(word, 5 * OWNERS);
    drop(reading);
    let writing = lock.write();
    assert!(lock.try_read().is_none());
    assert_eq!(lock.word.load(SeqCst), (5 * OWNERS) | WRITER);
    assert_eq!(writing.finish(2 * OWNERS) & !(OWNERS - 1), 5 * OWNERS, "the word before");
    assert_eq!(lock.read().1, 7 * OWNERS);
    // Without a change, as after a panic.
    drop(lock.write());
    assert_eq!(lock.read().1, 7 * OWNERS);
}

#[test]
fn threads_that_wait_for_a_writer_are_woken_and_see_what_it_wrote() {
    const OWNERS: usize = 1 << OWNERS_SHIFT;
    let lock = BigReaderLock::new();
    joined_scope(|scope| {
        let writing = lock.write();
        let reader = scope.spawn(|| lock.read().1);
        until(|| lock.word.load(SeqCst) & BLOCKED != 0);
        writing.finish(3 * OWNERS);
        assert_eq!(reader.join().unwrap(), 3 * OWNERS);
        let writing = lock.write();
        let writer = scope.spawn(|| lock.write().finish(OWNERS));
        until(|| lock.word.load(SeqCst) & BLOCKED != 0);
        writing.finish(3 * OWNERS);
        assert_eq!(writer.join().unwrap() & !(OWNERS - 1), 6 * OWNERS);
    });
    assert_eq!(lock.word.load(SeqCst), 7 * OWNERS);
}

#[test]
fn neighbouring_threads_have_places_of_their_own() {
    for first in [1, 5, 1000] {
        let mut places: Vec<_> = (first..first + READER_SLOTS).map(|n| place(n << DEPTH_BITS)).collect();
        places.sort_unstable();
        assert!(places.into_iter().eq(0..READER_SLOTS));
    }
    assert_eq!((stamp() >> DEPTH_BITS, stamp() & DEPTH), (thread::number(), 0));
}

#[test]
fn a_condition_that_soon_holds_is_waited_for_awake() {
    let looks = Cell::new(0);
    let look_until = |enough| {
        looks.set(0);
        wait_awake(|| looks.replace(looks.get() + 1) >= enough)
    };
    assert!(look_until(0));
    assert_eq!(looks.get(), 1, "it returns at once");
    // As many looks as a writer with a short change takes.
    assert!(look_until(SPINS) && look_until(SPINS + YIELDS - 1));
    assert!(!look_until(u32::MAX));
    assert!(looks.get() < 1000, "then it sleeps");
}

#[test]
fn neither_readers_nor_writers_take_a_lock_while_no_thread_sleeps() {
    let lock = BigReaderLock::new();
    // A call that took it would wait for this thread.
    let _sleepers = lock.sleepers.lock();
    drop(lock.read());
    drop((lock.read(), lock.try_read()));
    lock.write().finish(1 << OWNERS_SHIFT);
    drop(lock.write());
    drop(lock.read());
}

/// The writer also looks by itself, so another thread sleeps in its place.
#[test]
fn a_reader_that_leaves_wakes_the_writer_that_sleeps() {
    let lock = BigReaderLock::new();
    let sleeps = AtomicBool::new(false);
    joined_scope(|scope| {
        let reading = lock.read().0;
        lock.word.fetch_or(DRAINING, SeqCst);
        scope.spawn(|| {
            let mut sleepers = lock.sleepers.lock();
            sleeps.store(true, SeqCst);
            lock.changed.wait(&mut sleepers);
        });
        until(|| sleeps.load(SeqCst));
        // It has the lock until it sleeps.
        drop(reading);
    });
}
