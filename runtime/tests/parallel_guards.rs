//! Guards of `Handle::enter` that are dropped out of order, or outside of the computation that made them: jobs
//! find the current runtime, and nothing is kept that the program has dropped.

mod support;

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use runtime::parallel::{ThreadPoolBuilder, broadcast, in_place_scope, join, scope};
use runtime::runtime::EnterGuard;
use runtime::task::block_in_place;
use runtime::{Builder, Handle, Runtime};
use support::{build, builder, until, watchdog};

thread_local! {
    /// A guard that stays on its thread.
    static GUARD: Cell<Option<EnterGuard<'static>>> = const { Cell::new(None) };
}

/// Whether the runtime of `handle` is the current one.
fn is_current(handle: &Handle) -> bool {
    Handle::try_current().is_ok_and(|current| current.id() == handle.id())
}

/// A runtime that lives for ever.
fn other() -> &'static Runtime {
    static OTHER: OnceLock<Runtime> = OnceLock::new();
    OTHER.get_or_init(|| build(1))
}

/// A runtime without workers, whose hook owns `value`.
fn owner_of(value: impl Send + Sync + 'static) -> Runtime {
    Builder::new_current_thread().on_thread_start(move || _ = &value).build().unwrap()
}

/// Makes jobs when only the second of two guards is left.
fn drop_the_first_guard(handle: &Handle) {
    let first = handle.enter();
    let second = handle.enter();
    drop(first);
    assert!(is_current(handle));
    scope(|scope| scope.spawn(|_| assert!(is_current(handle))));
    let is_stolen = AtomicBool::new(false);
    let waits = || block_in_place(|| until("the other half is stolen", || is_stolen.load(SeqCst)));
    let stolen = || {
        is_stolen.store(true, SeqCst);
        assert!(is_current(handle));
    };
    join(waits, stolen);
    drop(second);
    assert!(!is_current(handle));
}

fn drop_the_guard_in_block_on(handle: &Handle) {
    let first = handle.enter();
    let future = async {
        drop(first);
        scope(|scope| scope.spawn(|_| assert!(is_current(handle))));
    };
    block_in_place(|| handle.block_on(future));
}

#[test]
fn the_second_of_two_guards_of_one_runtime_may_be_the_last() {
    let _watchdog = watchdog();
    let (workers, other) = (build(2), build(1));
    let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    for check in [drop_the_first_guard, drop_the_guard_in_block_on] {
        pool.install(|| check(other.handle()));
        let handle = other.handle().clone();
        workers.block_on(workers.spawn(async move { check(&handle) })).unwrap();
    }
}

/// The region of the guard is kept on the job processor that the calling thread has for its call, and holds
/// the runtime until the call has ended. By then nothing else may rely on the thread.
#[test]
fn a_hook_that_a_region_held_may_drop_the_runtime_of_the_call() {
    let _watchdog = watchdog();
    for _ in 0..20 {
        let outer = Arc::new(build(2));
        let handle = outer.handle().clone();
        let inner = owner_of(outer);
        // The calling thread takes part only if the workers sleep.
        thread::sleep(Duration::from_millis(5));
        let _entered = handle.enter();
        let leaves_a_region = || {
            let guard = inner.enter();
            scope(|_| ());
            drop(guard);
            drop(inner);
        };
        join(leaves_a_region, || ());
    }
}

#[test]
fn a_guard_that_leaves_its_computation_keeps_nothing() {
    let _watchdog = watchdog();
    let on_own_thread = || {
        let token = Arc::new(());
        let pool = ThreadPoolBuilder::new().num_threads(2).use_current_thread().build().unwrap();
        let runtime = owner_of(token.clone());
        let mut slot = None;
        in_place_scope(|_| slot = Some(runtime.enter()));
        drop(slot);
        drop(runtime);
        assert_eq!(Arc::strong_count(&token), 1);
        drop(pool);
    };
    thread::spawn(on_own_thread).join().unwrap();
}

/// The worker never comes to the place in its loop where it is out of tasks.
#[test]
fn a_worker_that_always_has_tasks_does_not_keep_the_runtimes_of_guards() {
    let _watchdog = watchdog();
    let runtime = builder(1).spare_workers(0).build().unwrap();
    let token = Arc::new(());
    let other = owner_of(token.clone());
    let yielding = runtime.spawn(async {
        loop {
            runtime::task::yield_now().await;
        }
    });
    let leaves_a_region = runtime.spawn(async move {
        let guard = other.enter();
        scope(|scope| scope.spawn(|_| ()));
        drop(guard);
        drop(other);
    });
    until("the guard is gone", || leaves_a_region.is_finished());
    until("the runtime is freed", || Arc::strong_count(&token) == 1);
    yielding.abort();
}

/// The next worker of that index has no part in it.
#[test]
fn a_guard_may_be_left_on_the_thread_of_a_spare_worker() {
    let _watchdog = watchdog();
    let other = other();
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .thread_keep_alive(Duration::ZERO)
        .enable_all()
        .build()
        .unwrap();
    let leave_guard = || {
        let sees_others = AtomicBool::new(false);
        scope(|scope| scope.spawn(|_| sees_others.store(is_current(other.handle()), SeqCst)));
        GUARD.set(Some(other.enter()));
        (thread::current().id(), sees_others.into_inner())
    };
    let mut threads = HashSet::new();
    while threads.len() < 5 {
        let handle = runtime.handle().clone();
        let on_a_spare_worker = move || handle.block_on(handle.spawn(async move { leave_guard() }));
        let task = runtime.spawn(async move { block_in_place(on_a_spare_worker).unwrap() });
        let (thread, sees_others) = runtime.block_on(task).unwrap();
        assert!(!threads.insert(thread) || !sees_others, "another thread has left its guard here");
    }
}

/// The worker's job processor has a region that holds the worker's own runtime, and the guard around it is
/// never dropped before the thread ends.
#[test]
fn a_region_that_holds_its_own_runtime_is_freed_with_the_worker() {
    let _watchdog = watchdog();
    let other = other();
    let token = Arc::new(());
    for _ in 0..5 {
        let owned = token.clone();
        let runtime =
            Builder::new_multi_thread().worker_threads(1).on_thread_stop(move || _ = &owned).build().unwrap();
        let handle = runtime.handle().clone();
        let leaves_regions = async move {
            GUARD.set(Some(other.enter()));
            let guard = handle.enter();
            scope(|_| ());
            drop(guard);
        };
        runtime.block_on(runtime.spawn(leaves_regions)).unwrap();
    }
    until("the runtimes are freed", || Arc::strong_count(&token) == 1);
}

#[test]
fn a_guard_of_the_start_handler_lasts_until_the_exit_handler() {
    let _watchdog = watchdog();
    let other = other();
    let (results, seen) = std::sync::mpsc::channel();
    let check = move |_| {
        scope(|scope| scope.spawn(|_| results.send(is_current(other.handle())).unwrap()));
        drop(GUARD.take());
    };
    let pool = ThreadPoolBuilder::new()
        .num_threads(1)
        .start_handler(|_| GUARD.set(Some(other.enter())))
        .exit_handler(check)
        .build()
        .unwrap();
    drop(pool);
    assert!(seen.recv().unwrap());
}

/// Whether `handle`'s runtime is the current one in each kind of job of the pool on which this is called.
fn is_current_in_jobs(handle: &Handle) -> bool {
    let is_lost = AtomicBool::new(!is_current(handle));
    let look = || is_lost.fetch_or(!is_current(handle), SeqCst);
    let look_in_scope = || scope(|scope| scope.spawn(|_| _ = look()));
    look_in_scope();
    join(thread::yield_now, look);
    broadcast(|_| look());
    // Inside of a guard for the same runtime, and after it.
    let guard = handle.enter();
    look_in_scope();
    drop(guard);
    look_in_scope();
    !is_lost.into_inner()
}

#[test]
fn a_runtime_that_the_threads_of_a_pool_have_entered_is_current_in_all_jobs() {
    let _watchdog = watchdog();
    let handle = other().handle();
    for threads in 1..3 {
        let builder = || ThreadPoolBuilder::new().num_threads(threads);
        let in_handler = builder().start_handler(|_| GUARD.set(Some(handle.enter()))).build().unwrap();
        let around = builder().spawn_handler(|pool_thread| {
            thread::spawn(move || {
                let _guard = handle.enter();
                pool_thread.run();
            });
            Ok(())
        });
        let in_closures = builder().spawn_handler(|thread| {
            handle.spawn_blocking(|| thread.run());
            Ok(())
        });
        let pools = [in_handler, around.build().unwrap(), in_closures.build().unwrap()];
        for (number, pool) in pools.iter().enumerate() {
            assert!(pool.install(|| is_current_in_jobs(handle)), "pool {number} of {threads} threads");
            let (results, seen) = std::sync::mpsc::channel();
            pool.spawn(move || results.send(is_current(handle)).unwrap());
            assert!(seen.recv().unwrap(), "a detached job of pool {number} of {threads} threads");
            // The runtime of the call comes before that of the thread.
            let runtime = build(1);
            let _guard = runtime.enter();
            assert!(pool.install(|| is_current_in_jobs(runtime.handle())), "pool {number}, from a runtime");
        }
    }
}

/// Thread 0 has entered nothing. What thread 1 does in a guard does not depend on where it is run.
#[test]
fn a_guard_for_the_runtime_that_the_thread_has_entered_holds_for_jobs_on_other_threads() {
    let _watchdog = watchdog();
    let handle = other().handle();
    let start = |index| GUARD.set((index == 1).then(|| other().enter()));
    let pool = ThreadPoolBuilder::new().num_threads(2).start_handler(start).build().unwrap();
    let was_seen = AtomicBool::new(false);
    pool.broadcast(|thread| {
        if thread.index() == 1 {
            let _guard = handle.enter();
            let is_stolen = AtomicBool::new(false);
            let stolen = || {
                is_stolen.store(true, SeqCst);
                was_seen.store(is_current(handle), SeqCst);
            };
            join(|| block_in_place(|| until("it is stolen", || is_stolen.load(SeqCst))), stolen);
        }
    });
    assert!(was_seen.into_inner());
}

#[test]
fn the_runtime_of_the_start_handler_stays_for_jobs_when_one_of_them_drops_the_guard() {
    let _watchdog = watchdog();
    let handle = other().handle();
    let (results, seen) = std::sync::mpsc::channel();
    let pool = ThreadPoolBuilder::new()
        .num_threads(1)
        .start_handler(|_| GUARD.set(Some(other().enter())))
        .exit_handler(move |_| results.send(is_current(handle)).unwrap())
        .build()
        .unwrap();
    pool.install(|| drop(GUARD.take()));
    assert!(pool.install(|| is_current_in_jobs(handle)));
    let guard = handle.enter();
    assert!(pool.install(|| is_current_in_jobs(handle)));
    drop((guard, pool));
    assert!(seen.recv().unwrap());
}

#[test]
fn a_task_local_around_a_pools_thread_has_no_value_in_jobs() {
    runtime::task_local! {
        static VALUE: u32;
    }
    let _watchdog = watchdog();
    for enters in [false, true] {
        let builder = ThreadPoolBuilder::new().num_threads(1).spawn_handler(|pool_thread| {
            thread::spawn(move || {
                let _guard = enters.then(|| other().enter());
                VALUE.sync_scope(1, || pool_thread.run());
            });
            Ok(())
        });
        let pool = builder.build().unwrap();
        assert!(pool.install(|| VALUE.try_with(|_| ()).is_err()));
        assert!(pool.install(|| join(|| (), || VALUE.try_with(|_| ()).is_err()).1));
    }
}
