//! Yielding to jobs, and what a thread is told about its pool.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use runtime::parallel::{
    ThreadPool, ThreadPoolBuilder, Yield, current_num_threads, current_thread_has_pending_tasks,
    current_thread_index, join, max_num_threads, scope, spawn, spawn_broadcast, yield_local, yield_now,
};
use support::{until, watchdog};

fn pool(threads: usize) -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
}

#[test]
fn outside_of_pools_there_is_nothing_to_give_way_to() {
    assert_eq!(yield_now(), None);
    assert_eq!(yield_local(), None);
    assert_eq!(current_thread_index(), None);
    assert_eq!(current_thread_has_pending_tasks(), None);
    assert!(max_num_threads() >= 1024);
}

#[test]
fn a_yield_runs_one_job_at_a_time_the_youngest_first() {
    let _watchdog = watchdog();
    for give_way in [yield_now, yield_local] {
        pool(1).install(|| {
            let count = Arc::new(AtomicUsize::new(0));
            scope(|s| {
                assert_eq!(give_way(), Some(Yield::Idle));
                assert_eq!(current_thread_has_pending_tasks(), Some(false));
                let theirs = count.clone();
                spawn(move || theirs.store(1, SeqCst));
                s.spawn(|_| count.store(2, SeqCst));
                s.spawn(|_| count.store(3, SeqCst));
                assert_eq!(current_thread_has_pending_tasks(), Some(true));
                for expected in [3, 2, 1] {
                    assert_eq!(give_way(), Some(Yield::Executed));
                    assert_eq!(count.load(SeqCst), expected);
                }
                assert_eq!(current_thread_has_pending_tasks(), Some(false));
                assert_eq!(give_way(), Some(Yield::Idle));
            });
        });
    }
}

#[test]
fn a_yield_may_run_the_other_half_of_a_join_that_has_not_got_to_it() {
    let _watchdog = watchdog();
    pool(1).install(|| {
        let count = AtomicUsize::new(0);
        join(
            || {
                assert_eq!(yield_local(), Some(Yield::Executed));
                assert_eq!(count.load(SeqCst), 1);
            },
            || _ = count.fetch_add(1, SeqCst),
        );
        assert_eq!(count.into_inner(), 1);
    });
}

#[test]
fn a_yield_runs_a_broadcast_of_this_thread() {
    let _watchdog = watchdog();
    pool(1).install(|| {
        let count = Arc::new(AtomicUsize::new(0));
        let theirs = count.clone();
        spawn_broadcast(move |_| _ = theirs.fetch_add(1, SeqCst));
        assert_eq!(yield_local(), Some(Yield::Executed));
        assert_eq!(count.load(SeqCst), 1);
    });
}

#[test]
fn only_yield_now_runs_what_came_from_outside() {
    let _watchdog = watchdog();
    // A spare worker would run the job while the worker waits for the spawner.
    let runtime = runtime::Builder::new_multi_thread().worker_threads(1).spare_workers(0).build().unwrap();
    let handle = runtime.handle();
    let count = Arc::new(AtomicUsize::new(0));
    let _entered = handle.enter();
    let theirs = count.clone();
    join(
        move || {
            let spawner = {
                let count = theirs.clone();
                let handle = runtime::Handle::current();
                thread::spawn(move || {
                    let _entered = handle.enter();
                    spawn(move || _ = count.fetch_add(1, SeqCst));
                })
            };
            spawner.join().unwrap();
            while yield_local() == Some(Yield::Executed) {}
            assert_eq!(theirs.load(SeqCst), 0);
            assert_eq!(yield_now(), Some(Yield::Executed));
            assert_eq!(theirs.load(SeqCst), 1);
        },
        || (),
    );
}

#[test]
fn yield_now_takes_from_other_threads() {
    let _watchdog = watchdog();
    let pool = pool(2);
    pool.install(|| {
        let ran_on = AtomicUsize::new(usize::MAX);
        let own = current_thread_index().unwrap();
        let ready = AtomicUsize::new(0);
        // The other thread has a job in its deque, and waits until another thread has run it.
        scope(|s| {
            s.spawn(|_| {
                scope(|s| {
                    let spawner = current_thread_index().unwrap();
                    s.spawn(|_| ran_on.store(current_thread_index().unwrap(), SeqCst));
                    ready.store(1, SeqCst);
                    if spawner != own {
                        until("the job is taken", || ran_on.load(SeqCst) != usize::MAX);
                    }
                });
            });
            until("a thread has the first job", || ready.load(SeqCst) == 1);
            while ran_on.load(SeqCst) == usize::MAX {
                assert!(yield_now().is_some());
            }
        });
        assert_eq!(ran_on.into_inner(), own);
    });
}

#[test]
fn a_thread_knows_its_index_and_the_number_of_its_pools_threads() {
    let _watchdog = watchdog();
    let pool = pool(3);
    for _ in 0..20 {
        let (index, threads) = pool.install(|| (current_thread_index(), current_num_threads()));
        assert!(index.is_some_and(|index| index < 3), "{index:?}");
        assert_eq!(threads, 3);
    }
    let runtime = support::build(2);
    let _entered = runtime.enter();
    assert_eq!(current_num_threads(), 2);
    assert_eq!(current_thread_index(), None);
    let task = runtime.spawn(async { (current_thread_index().is_some(), current_num_threads()) });
    assert_eq!(runtime.block_on(task).unwrap(), (true, 2));
}
