//! `sync::RwLock`, by its public interface.

mod support;
mod sync_support;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;

use runtime::sync::*;
use support::joined_scope;
use sync_support::*;

static SHARED: RwLock<Vec<u32>> = RwLock::const_new(Vec::new());
static NARROW: RwLock<u32> = RwLock::const_with_max_readers(1, 2);

#[test]
fn readers_share_and_a_writer_is_alone() {
    let lock = RwLock::new(1);
    let readers = [lock.try_read().unwrap(), lock.try_read().unwrap()];
    assert!(lock.try_write().is_err());
    drop(readers);
    let mut writer = lock.try_write().unwrap();
    *writer += 1;
    assert!(lock.try_read().is_err() && lock.try_write().is_err());
    drop(writer);
    assert_eq!(*lock.try_read().unwrap(), 2);
}

#[test]
fn locks_may_be_static() {
    block_on(async {
        SHARED.write().await.push(1);
        assert_eq!(*SHARED.read().await, [1]);
    });
    let both = [NARROW.try_read().unwrap(), NARROW.try_read().unwrap()];
    assert!(NARROW.try_read().is_err());
    drop(both);
}

#[test]
fn a_reader_waits_behind_a_writer_that_waits() {
    let lock = RwLock::new(0);
    let first = lock.try_read().unwrap();
    let (writes, reads) = (Counter::new(), [Counter::new(), Counter::new()]);
    let mut write = pin!(lock.write());
    let mut late = [Box::pin(lock.read()), Box::pin(lock.read())];
    assert!(poll(write.as_mut(), &writes).is_pending());
    for (read, counter) in late.iter_mut().zip(&reads) {
        assert!(poll(read.as_mut(), counter).is_pending());
    }
    assert!(lock.try_read().is_err());
    drop(first);
    assert_eq!(writes.wakes(), 1);
    let Poll::Ready(mut writer) = poll_once(write.as_mut()) else { panic!("it is the writer's turn") };
    *writer = 7;
    assert!(reads.iter().all(|counter| counter.wakes() == 0));
    drop(writer);
    assert!(reads.iter().all(|counter| counter.wakes() == 1));
    for mut read in late {
        assert!(matches!(poll_once(read.as_mut()), Poll::Ready(reader) if *reader == 7));
    }
}

#[test]
fn a_writer_that_gives_up_lets_the_readers_behind_it_in() {
    let lock = RwLock::new(0);
    let _first = lock.try_read().unwrap();
    let mut write = Box::pin(lock.write());
    assert!(poll_once(write.as_mut()).is_pending());
    let counter = Counter::new();
    let mut read = pin!(lock.read());
    assert!(poll(read.as_mut(), &counter).is_pending());
    drop(write);
    assert_eq!(counter.wakes(), 1);
    assert!(poll_once(read.as_mut()).is_ready());
}

#[test]
fn a_lock_that_was_granted_and_not_seen_goes_on() {
    let lock = RwLock::new(0);
    let writer = lock.try_write().unwrap();
    let mut leaving: [std::pin::Pin<Box<dyn Future<Output = ()> + '_>>; 2] =
        [Box::pin(async { drop(lock.read().await) }), Box::pin(async { drop(lock.read().await) })];
    for future in &mut leaving {
        assert!(poll_once(future.as_mut()).is_pending());
    }
    let counter = Counter::new();
    let mut staying = pin!(lock.write());
    assert!(poll(staying.as_mut(), &counter).is_pending());
    drop(writer);
    assert_eq!(counter.wakes(), 0);
    drop(leaving);
    assert_eq!(counter.wakes(), 1);
    assert!(poll_once(staying.as_mut()).is_ready());
    assert!(lock.try_write().is_ok());
}

#[test]
fn a_downgrade_lets_readers_in_up_to_the_next_writer() {
    let lock = RwLock::new(1);
    let writer = lock.try_write().unwrap();
    let counters = [Counter::new(), Counter::new(), Counter::new()];
    let mut first = pin!(lock.read());
    let mut next = pin!(lock.write());
    let mut last = pin!(lock.read());
    assert!(poll(first.as_mut(), &counters[0]).is_pending());
    assert!(poll(next.as_mut(), &counters[1]).is_pending());
    assert!(poll(last.as_mut(), &counters[2]).is_pending());
    let reader = writer.downgrade();
    assert_eq!(counters.each_ref().map(|counter| counter.wakes()), [1, 0, 0]);
    let Poll::Ready(beside) = poll_once(first.as_mut()) else { panic!("readers share") };
    assert_eq!(*reader + *beside, 2);
    drop((reader, beside));
    assert_eq!(counters.each_ref().map(|counter| counter.wakes()), [1, 1, 0]);
}

#[test]
fn a_downgraded_guard_keeps_one_share_and_no_more() {
    for max_readers in [1, 2, 5] {
        let lock = Arc::new(RwLock::with_max_readers(1, max_readers));
        let writer = || lock.try_write().unwrap();
        let owned = || lock.clone().try_write_owned().unwrap();
        let check = |_reader: &dyn std::ops::Deref<Target = i32>| {
            assert!(lock.try_write().is_err());
            let readers: Vec<_> = std::iter::from_fn(|| lock.try_read().ok()).collect();
            assert_eq!(readers.len() as u32, max_readers - 1);
        };
        check(&writer().downgrade());
        check(&RwLockWriteGuard::downgrade_map(writer(), |value| value));
        check(&RwLockWriteGuard::try_downgrade_map(writer(), |value| Some(value)).unwrap());
        check(&owned().downgrade());
        check(&OwnedRwLockWriteGuard::downgrade_map(owned(), |value| value));
        check(&OwnedRwLockWriteGuard::try_downgrade_map(owned(), |value| Some(value)).unwrap());
        let readers: Vec<_> = std::iter::from_fn(|| lock.clone().try_read_owned().ok()).collect();
        assert_eq!(readers.len() as u32, max_readers, "all shares came back, once");
    }
}

#[test]
fn owned_guards_wait_as_borrowed_ones_do() {
    let lock = Arc::new(RwLock::new(1));
    let reader = block_on(lock.clone().read_owned());
    assert!(lock.clone().try_write_owned().is_err() && lock.clone().try_read_owned().is_ok());
    let mut write = pin!(lock.clone().write_owned());
    let mut read = pin!(lock.clone().read_owned());
    assert!(poll_once(write.as_mut()).is_pending() && poll_once(read.as_mut()).is_pending());
    assert!(lock.clone().try_read_owned().is_err(), "a writer waits");
    drop(reader);
    let Poll::Ready(mut writer) = poll_once(write.as_mut()) else { panic!("it is the writer's turn") };
    *writer = 7;
    assert!(poll_once(read.as_mut()).is_pending() && lock.clone().try_read_owned().is_err());
    drop(writer);
    assert!(matches!(poll_once(read.as_mut()), Poll::Ready(reader) if *reader == 7));
    assert!(lock.clone().try_write_owned().is_ok());
}

#[test]
fn no_more_readers_than_were_allowed() {
    let lock = RwLock::with_max_readers(1, 3);
    let mut readers: Vec<_> = (0..3).map(|_| lock.try_read().unwrap()).collect();
    assert!(lock.try_read().is_err());
    let counter = Counter::new();
    let mut fourth = pin!(lock.read());
    assert!(poll(fourth.as_mut(), &counter).is_pending());
    readers.pop();
    assert_eq!(counter.wakes(), 1);
    assert!(poll_once(fourth.as_mut()).is_ready());
    readers.clear();
    let one = RwLock::with_max_readers(1, 1);
    drop(one.try_write().unwrap().downgrade());
    assert!(one.try_write().is_ok());
    drop(RwLock::with_max_readers((), u32::MAX >> 3).try_write().unwrap());
}

#[test]
fn numbers_of_readers_are_checked() {
    let text = panic_text(|| RwLock::with_max_readers((), 0));
    assert!(text.contains("with 0 readers"), "{text}");
    for readers in [(u32::MAX >> 3) + 1, u32::MAX] {
        let text = panic_text(|| RwLock::with_max_readers((), readers));
        assert!(text.contains(&format!("got {readers}")), "{text}");
        panic_text(|| RwLock::const_with_max_readers((), readers));
    }
}

#[test]
fn borrowed_guards_can_be_narrowed_and_turned() {
    let lock = RwLock::new((1, vec![2, 3]));
    let reader = RwLockReadGuard::map(lock.try_read().unwrap(), |data| &data.1);
    let reader = RwLockReadGuard::try_map(reader, |list| list.get(9)).unwrap_err();
    let reader = RwLockReadGuard::try_map(reader, |list| list.get(1)).unwrap();
    assert_eq!((*reader, lock.try_write().is_err()), (3, true));
    drop(reader);
    let writer = RwLockWriteGuard::try_map(lock.try_write().unwrap(), |_| None::<&mut u8>).unwrap_err();
    let writer = RwLockWriteGuard::try_map(writer, |data| Some(&mut data.1)).unwrap();
    let writer = RwLockMappedWriteGuard::try_map(writer, |list| list.get_mut(9)).unwrap_err();
    let mut writer = RwLockMappedWriteGuard::map(writer, |list| &mut list[0]);
    *writer = 5;
    assert!(lock.try_read().is_err());
    drop(writer);
    let mut writer = RwLockWriteGuard::into_mapped(lock.try_write().unwrap());
    writer.0 = 4;
    drop(writer);
    let writer = lock.try_write().unwrap();
    let writer = RwLockWriteGuard::try_downgrade_map(writer, |_| None::<&u8>).unwrap_err();
    assert!(lock.try_read().is_err(), "still a writer");
    let reader = RwLockWriteGuard::try_downgrade_map(writer, |data| Some(&data.0)).unwrap();
    assert_eq!(*reader + lock.try_read().unwrap().0, 8);
    drop(reader);
    let reader = RwLockWriteGuard::downgrade_map(lock.try_write().unwrap(), |data| &data.1);
    assert_eq!(*reader, lock.try_read().unwrap().1);
    drop(reader);
    assert_eq!(lock.into_inner(), (4, vec![5, 3]));
}

#[test]
fn owned_guards_can_be_narrowed_and_turned() {
    let lock = Arc::new(RwLock::with_max_readers((1, vec![2, 3]), 2));
    let reader = OwnedRwLockReadGuard::map(lock.clone().try_read_owned().unwrap(), |data| &data.1);
    let reader = OwnedRwLockReadGuard::try_map(reader, |list| list.get(9)).unwrap_err();
    let reader = OwnedRwLockReadGuard::try_map(reader, |list| list.get(1)).unwrap();
    assert!(Arc::ptr_eq(OwnedRwLockReadGuard::rwlock(&reader), &lock));
    assert_eq!((*reader, lock.try_write().is_err()), (3, true));
    drop(reader);
    let writer = lock.clone().try_write_owned().unwrap();
    assert!(Arc::ptr_eq(OwnedRwLockWriteGuard::rwlock(&writer), &lock));
    let writer = OwnedRwLockWriteGuard::try_map(writer, |_| None::<&mut u8>).unwrap_err();
    let writer = OwnedRwLockWriteGuard::try_map(writer, |data| Some(&mut data.1)).unwrap();
    let writer = OwnedRwLockMappedWriteGuard::try_map(writer, |list| list.get_mut(9)).unwrap_err();
    let mut writer = OwnedRwLockMappedWriteGuard::map(writer, |list| &mut list[0]);
    assert!(Arc::ptr_eq(OwnedRwLockMappedWriteGuard::rwlock(&writer), &lock));
    *writer = 5;
    assert!(lock.try_read().is_err());
    drop(writer);
    let mut writer = OwnedRwLockWriteGuard::into_mapped(lock.clone().try_write_owned().unwrap());
    writer.0 = 4;
    drop(writer);
    let writer = lock.clone().try_write_owned().unwrap();
    let writer = OwnedRwLockWriteGuard::try_downgrade_map(writer, |_| None::<&u8>).unwrap_err();
    assert!(lock.try_read().is_err(), "still a writer");
    let reader = OwnedRwLockWriteGuard::try_downgrade_map(writer, |data| Some(&data.0)).unwrap();
    assert_eq!(*reader + lock.try_read().unwrap().0, 8);
    drop(reader);
    let reader =
        OwnedRwLockWriteGuard::downgrade_map(lock.clone().try_write_owned().unwrap(), |data| &data.1);
    assert_eq!(*reader, lock.try_read().unwrap().1);
    drop(reader);
    drop(lock.clone().try_write_owned().unwrap().downgrade());
    assert_eq!(Arc::into_inner(lock).unwrap().into_inner(), (4, vec![5, 3]));
}

#[test]
fn an_owned_guard_keeps_the_lock_and_drops_it_last() {
    let drops = Drops::default();
    let lock = Arc::new(RwLock::new(drops.item()));
    let reader = lock.clone().try_read_owned().unwrap();
    let more = OwnedRwLockReadGuard::map(lock.try_read_owned().unwrap(), |item| item);
    drop(reader);
    assert_eq!(drops.count(), 0);
    drop(more);
    assert_eq!(drops.count(), 1);
}

#[test]
fn a_panic_in_a_closure_or_under_a_guard_unlocks() {
    let lock = Arc::new(RwLock::new(1));
    panic_text(|| RwLockReadGuard::map(lock.try_read().unwrap(), |_| -> &u8 { panic!("a closure panics") }));
    panic_text(|| {
        RwLockWriteGuard::map(lock.try_write().unwrap(), |_| -> &mut u8 { panic!("a closure panics") })
    });
    panic_text(|| {
        RwLockWriteGuard::downgrade_map(lock.try_write().unwrap(), |_| -> &u8 { panic!("a closure panics") })
    });
    let owned = || lock.clone().try_write_owned().unwrap();
    panic_text(|| OwnedRwLockWriteGuard::map(owned(), |_| -> &mut u8 { panic!("a closure panics") }));
    panic_text(|| OwnedRwLockWriteGuard::downgrade_map(owned(), |_| -> &u8 { panic!("a closure panics") }));
    panic_text(|| {
        let mut writer = lock.try_write().unwrap();
        *writer = 2;
        panic!("a holder panics");
    });
    assert_eq!(*lock.try_write().unwrap(), 2);
}

#[test]
fn a_waker_that_panics_keeps_no_permit() {
    let lock = Arc::new(RwLock::new(1));
    for is_downgrade in [false, true] {
        let writer = lock.clone().try_write_owned().unwrap();
        let counters = [Counter::panicking(), Counter::new()];
        let mut reads = [Box::pin(lock.read()), Box::pin(lock.read())];
        for (read, counter) in reads.iter_mut().zip(&counters) {
            assert!(poll(read.as_mut(), counter).is_pending());
        }
        let text = match is_downgrade {
            true => panic_text(|| writer.downgrade()),
            false => panic_text(|| drop(writer)),
        };
        assert_eq!(text, "this waker panics");
        assert_eq!(counters[1].wakes(), 1);
        assert!(reads.iter_mut().all(|read| poll_once(read.as_mut()).is_ready()));
        drop(reads);
        assert!(lock.try_write().is_ok());
    }
}

#[test]
fn blocking_calls_work_on_threads_and_panic_in_tasks() {
    let lock = Arc::new(RwLock::new(0));
    joined_scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..1000 {
                    *lock.blocking_write() += 1;
                    assert!(*lock.blocking_read() > 0);
                }
            });
        }
    });
    assert_eq!(*lock.blocking_read(), 4000);
    let rt = support::build(1);
    let theirs = lock.clone();
    rt.block_on(rt.spawn(async move {
        let text = panic_text(|| *theirs.blocking_read());
        assert!(text.contains("`read().await`"), "{text}");
        let text = panic_text(|| *theirs.blocking_write());
        assert!(text.contains("`write().await`"), "{text}");
    }))
    .unwrap();
}

#[test]
fn data_may_be_unsized_and_are_printed() {
    let lock: Box<RwLock<[i32]>> = Box::new(RwLock::new([1, 2, 3]));
    assert_eq!(lock.try_read().unwrap().len(), 3);
    assert_eq!(format!("{lock:?}"), "RwLock { data: [1, 2, 3] }");
    let mut writer = lock.try_write().unwrap();
    writer[0] = 4;
    assert_eq!(
        (format!("{lock:?}"), format!("{writer:?}")),
        ("RwLock { data: <locked> }".into(), "[4, 2, 3]".into())
    );
    drop(writer);
    let shown: Arc<RwLock<dyn std::fmt::Display>> = Arc::new(RwLock::new(5));
    assert_eq!(format!("{}", shown.try_read_owned().unwrap()), "5");
    let mut both = RwLock::<(i32, i32)>::default();
    both.get_mut().1 = 2;
    assert_eq!(RwLock::from(both.into_inner()).into_inner(), (0, 2));
}

#[test]
fn a_lock_that_is_always_free_lets_other_tasks_run() {
    let rt = support::build(0);
    rt.block_on(async {
        let turns = Arc::new(AtomicUsize::new(0));
        let theirs = turns.clone();
        let task = runtime::spawn(async move {
            let lock = RwLock::new(());
            loop {
                drop(lock.read().await);
                drop(lock.write().await);
                theirs.fetch_add(1, SeqCst);
            }
        });
        while turns.load(SeqCst) == 0 {
            runtime::task::yield_now().await;
        }
        task.abort();
    });
}

#[test]
fn tasks_on_many_threads_see_whole_data() {
    let _watchdog = support::watchdog();
    support::each_kind(|rt| {
        let lock = Arc::new(RwLock::with_max_readers((0_u64, 0_u64), 3));
        rt.block_on(async {
            let tasks: Vec<_> = (0..16)
                .map(|task| {
                    let lock = lock.clone();
                    runtime::spawn(async move {
                        for round in 0..500 {
                            if (task + round) % 4 == 0 {
                                let mut pair = lock.write().await;
                                pair.0 += 1;
                                runtime::task::yield_now().await;
                                pair.1 += 1;
                                let pair = pair.downgrade();
                                assert_eq!(pair.0, pair.1);
                            } else {
                                let pair = lock.read().await;
                                assert_eq!(pair.0, pair.1);
                                if round % 7 == 0 {
                                    runtime::task::yield_now().await;
                                }
                            }
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
        assert_eq!(*lock.try_read().unwrap(), (2000, 2000));
        assert!(lock.try_write().is_ok());
    });
}
