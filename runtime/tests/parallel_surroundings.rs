//! A job sees the surroundings (current runtime, task-locals) of the call that made the job, never those of
//! the frames below the job on its stack.

mod support;

use std::cell::Cell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, OnceLock, mpsc};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use runtime::parallel::{
    ThreadPool, ThreadPoolBuilder, blocking, in_place_scope, isolated, join, scope, yield_now,
};
use runtime::runtime::EnterGuard;
use runtime::sync::oneshot;
use runtime::task::block_in_place;
use runtime::{Builder, Handle, Runtime};
use support::{until, watchdog};

runtime::task_local! {
    static NUMBER: u32;
}

fn build(workers: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(workers).enable_all().build().unwrap()
}

/// Whether the runtime of `handle` is the current one.
fn is_current(handle: &Handle) -> bool {
    Handle::try_current().is_ok_and(|current| current.id() == handle.id())
}

/// A thread of `pool` waits until something is sent.
fn keep_a_thread(pool: &ThreadPool) -> mpsc::Sender<()> {
    let ((open, opened), (begin, begun)) = (mpsc::channel(), mpsc::channel());
    pool.spawn(move || {
        begin.send(()).unwrap();
        opened.recv().unwrap();
    });
    begun.recv().unwrap();
    open
}

/// Runs jobs of others until one has set `flag`.
fn run_others_until(flag: &AtomicBool) {
    while !flag.load(SeqCst) {
        yield_now();
        thread::yield_now();
    }
}

/// Calls `body` in a computation of `runtime`, whose only worker runs `job`, a foreign job, inside of `body`.
#[track_caller]
fn with_a_stranger(
    runtime: &Runtime,
    job: impl FnOnce() + Send + 'static,
    body: impl FnOnce(&AtomicBool) + Send + 'static,
) {
    let has_ended = Arc::new(AtomicBool::new(false));
    let ended = has_ended.clone();
    let (results, result) = mpsc::channel();
    let computed = runtime.compute(move || {
        runtime::parallel::spawn(move || {
            results.send(catch_unwind(AssertUnwindSafe(job)).is_ok()).unwrap();
            ended.store(true, SeqCst);
        });
        body(&has_ended);
    });
    runtime.block_on(computed).unwrap();
    assert!(result.recv().unwrap(), "the stranger panicked");
}

#[test]
fn a_stranger_sees_its_own_runtime_and_not_the_one_that_the_frame_below_blocks_in() {
    let _watchdog = watchdog();
    let (a, b) = (build(1), build(1));
    let (own, other) = (a.handle().clone(), b.handle().clone());
    let job = {
        let own = own.clone();
        move || assert!(is_current(&own), "the stranger sees the runtime of the frame below")
    };
    let inner = other.clone();
    with_a_stranger(&a, job, move |has_run| {
        inner.block_on(async { run_others_until(has_run) });
    });
    let job = move || assert!(is_current(&own));
    with_a_stranger(&a, job, move |has_run| {
        let _entered = other.enter();
        run_others_until(has_run);
        assert!(is_current(&other));
    });
}

#[test]
fn what_a_stranger_spawns_lives_as_long_as_its_own_runtime() {
    let _watchdog = watchdog();
    let (a, b) = (build(1), build(1));
    let other = b.handle().clone();
    let (sender, receiver) = mpsc::channel();
    let (end, ended) = oneshot::channel::<()>();
    let job = move || sender.send(runtime::spawn(ended)).unwrap();
    with_a_stranger(&a, job, move |has_run| other.block_on(async { run_others_until(has_run) }));
    drop(b);
    end.send(()).expect("its task lives");
    a.block_on(receiver.recv().unwrap()).unwrap().unwrap();
}

#[test]
fn jobs_see_the_runtime_in_which_their_call_blocks_on_every_thread() {
    let _watchdog = watchdog();
    let (a, b) = (build(2), build(1));
    let other = b.handle().clone();
    let computed = a.compute(move || {
        other.block_on(async {
            let (first, second) = (AtomicBool::new(false), AtomicBool::new(false));
            // Each waits for the other, so one of them is stolen.
            let meet = |own: &AtomicBool, others: &AtomicBool| {
                assert!(is_current(&other));
                own.store(true, SeqCst);
                while !others.load(SeqCst) {
                    thread::yield_now();
                }
            };
            scope(|scope| {
                scope.spawn(|_| meet(&first, &second));
                scope.spawn(|_| meet(&second, &first));
            });
            let seen = join(
                || is_current(&other),
                || isolated(|| join(|| is_current(&other), || is_current(&other))),
            );
            assert_eq!(seen, (true, (true, true)));
        });
    });
    a.block_on(computed).unwrap();
}

#[test]
fn a_call_into_a_pool_takes_the_current_runtime_along() {
    let _watchdog = watchdog();
    let runtime = build(1);
    let handle = runtime.handle().clone();
    let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    assert!(
        pool.install(|| Handle::try_current().is_err()),
        "a thread without a runtime has none to take along"
    );
    let in_pool = || pool.install(|| join(|| is_current(&handle), || is_current(&handle)));
    let entered = runtime.enter();
    assert_eq!(in_pool(), (true, true));
    assert!(pool.broadcast(|_| is_current(&handle)).into_iter().all(|is_so| is_so));
    pool.in_place_scope(|scope| scope.spawn(|_| assert!(is_current(&handle))));
    in_place_scope(|scope| scope.spawn(|_| assert!(is_current(&handle))));
    drop(entered);
    assert!(pool.install(|| Handle::try_current().is_err()));
}

#[test]
fn a_guard_that_is_dropped_out_of_order_leaves_the_runtime_that_was_current_before() {
    let _watchdog = watchdog();
    let (a, b, c) = (build(1), build(1), build(1));
    let (own, second, third) = (a.handle().clone(), b.handle().clone(), c.handle().clone());
    let computed = a.compute(move || {
        let sees = |handle: &Handle| {
            assert!(is_current(handle));
            scope(|scope| scope.spawn(|_| assert!(is_current(handle))));
        };
        let outer = second.enter();
        sees(&second);
        let inner = third.enter();
        drop(outer);
        sees(&third);
        drop(inner);
        sees(&own);
        let outer = second.enter();
        isolated(|| {
            drop(outer);
            sees(&own);
        });
        sees(&own);
    });
    a.block_on(computed).unwrap();
}

/// The jobs of the scope, and the second half of the join, were made where the guard's runtime was current.
#[test]
fn a_guard_may_be_dropped_inside_of_a_scope_and_of_a_join() {
    static HANDLE: OnceLock<Handle> = OnceLock::new();
    thread_local! {
        static GUARD: Cell<Option<EnterGuard<'static>>> = const { Cell::new(None) };
    }
    /// Memory of the size of what was freed.
    fn others() -> Vec<Vec<u8>> {
        (0..8).map(|_| vec![1; 96]).collect()
    }
    let _watchdog = watchdog();
    let (runtime, other) = (build(1), build(1));
    HANDLE.set(runtime.handle().clone()).unwrap();
    let enter = || HANDLE.get().unwrap().enter();
    let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    for round in 0..100 {
        pool.install(|| {
            let (outer, guard) = (enter(), other.enter());
            in_place_scope(|s| {
                if round % 2 == 0 {
                    s.spawn(|_| drop(Handle::try_current()));
                }
                drop(guard);
                // No scope has begun in its region, but the one around is in that.
                drop(outer);
                let others = others();
                s.spawn(move |_| assert!(Handle::try_current().is_err() && others.len() == 8));
            });
            assert!(Handle::try_current().is_err());
            GUARD.set(Some(enter()));
            let stolen = AtomicBool::new(false);
            let first = || {
                drop(GUARD.take());
                let _others = others();
                while !stolen.load(SeqCst) {
                    thread::yield_now();
                }
            };
            let second = || {
                drop(Handle::try_current());
                stolen.store(true, SeqCst);
            };
            block_in_place(|| join(first, second));
        });
    }
}

#[test]
fn a_guard_may_outlive_the_call_in_which_it_was_made() {
    thread_local! {
        static GUARD: Cell<Option<EnterGuard<'static>>> = const { Cell::new(None) };
    }
    static HANDLE: OnceLock<Handle> = OnceLock::new();
    static OTHER: OnceLock<Handle> = OnceLock::new();
    let _watchdog = watchdog();
    let (runtime, other) = (build(1), build(1));
    HANDLE.set(runtime.handle().clone()).unwrap();
    OTHER.set(other.handle().clone()).unwrap();
    let enter = || GUARD.set(Some(HANDLE.get().unwrap().enter()));
    let leave = || drop(GUARD.take());
    let pool = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let _entered = other.enter();
    for _ in 0..20 {
        pool.install(enter);
        pool.install(leave);
        pool.install(|| {
            isolated(enter);
            let _frames = std::hint::black_box([1_u8; 512]);
            leave();
            assert!(is_current(other.handle()));
            join(|| isolated(enter), leave);
            // A scope in a region of a guard, and a guard inside of a job of that scope.
            let outer = HANDLE.get().unwrap().enter();
            isolated(|| scope(|scope| scope.spawn(|_| GUARD.set(Some(OTHER.get().unwrap().enter())))));
            drop(outer);
            leave();
        });
        assert!(is_current(other.handle()));
    }
}

/// The guard is dropped where as many halves wait as when it was made; but these are others, which were made
/// in its region.
#[test]
fn a_guard_may_be_dropped_inside_of_a_later_join_as_deep_as_the_one_that_made_it() {
    thread_local! {
        static GUARD: Cell<Option<EnterGuard<'static>>> = const { Cell::new(None) };
    }
    static HANDLE: OnceLock<Handle> = OnceLock::new();
    let _watchdog = watchdog();
    let runtime = build(1);
    HANDLE.set(runtime.handle().clone()).unwrap();
    let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    for _ in 0..100 {
        pool.install(|| {
            let enter = || GUARD.set(Some(HANDLE.get().unwrap().enter()));
            join(|| join(enter, || ()), || ());
            let stolen = AtomicBool::new(false);
            let leave = || {
                drop(GUARD.take());
                let _others: Vec<Vec<u8>> = (0..8).map(|_| vec![1; 96]).collect();
                block_in_place(|| {
                    while !stolen.load(SeqCst) {
                        thread::yield_now();
                    }
                });
            };
            let second = || {
                drop(Handle::try_current());
                stolen.store(true, SeqCst);
            };
            join(|| join(leave, || ()), second);
        });
    }
}

/// A call makes a region of its own, and frees it. That of the guard stays for the jobs of the scope.
#[test]
fn a_runtime_may_be_entered_again_in_a_scope_in_which_its_guard_was_dropped() {
    let _watchdog = watchdog();
    let runtime = build(1);
    let handle = runtime.handle();
    let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    for _ in 0..50 {
        pool.install(|| {
            let guard = handle.enter();
            in_place_scope(|scope| {
                let spawn = || scope.spawn(|_| drop(Handle::try_current()));
                spawn();
                drop(guard);
                handle.block_on(async {});
                let _others: Vec<Vec<u8>> = (0..8).map(|_| vec![1; 80]).collect();
                spawn();
                drop(handle.enter());
                spawn();
            });
        });
    }
}

/// A job is made where two guards were dropped, the older one first. The runtime is entered again before the
/// job begins on another thread.
#[test]
fn a_job_does_not_see_a_runtime_that_its_call_enters_later() {
    let _watchdog = watchdog();
    let runtime = &build(1);
    let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    for is_isolated in [false, true] {
        // The other thread comes only when the runtime has been entered again.
        let open = keep_a_thread(&pool);
        pool.install(|| {
            let (outer, inner) = (runtime.enter(), runtime.enter());
            in_place_scope(|scope| {
                scope.spawn(|_| ());
                let drops = || drop((outer, inner));
                if is_isolated {
                    isolated(drops)
                } else {
                    drops()
                }
                let (tell, told) = mpsc::channel();
                join(
                    move || {
                        let _again = runtime.enter();
                        open.send(()).unwrap();
                        blocking(|| told.recv().unwrap());
                    },
                    move || {
                        assert!(Handle::try_current().is_err());
                        tell.send(()).unwrap();
                    },
                );
            });
        });
    }
}

/// As above, in a job of a scope in which the guard was dropped.
#[test]
fn a_job_whose_guard_was_dropped_makes_jobs_in_no_runtime() {
    let _watchdog = watchdog();
    let runtime = &build(1);
    let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let open = keep_a_thread(&pool);
    pool.install(|| {
        let guard = runtime.enter();
        in_place_scope(|scope| {
            scope.spawn(|_| {
                let (tell, told) = mpsc::channel::<bool>();
                let again = move || {
                    let _again = runtime.enter();
                    open.send(()).unwrap();
                    assert!(blocking(|| told.recv().unwrap()));
                };
                join(again, move || tell.send(Handle::try_current().is_err()).unwrap());
            });
            drop(guard);
        });
    });
}

/// The job on top enters a runtime from outside of all regions, as the first guard did.
#[test]
fn a_job_on_top_of_guards_out_of_order_may_enter_the_runtime_of_the_first() {
    let _watchdog = watchdog();
    let (first, second) = (build(1), build(1));
    let pool = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let enter = |handle: &Handle| {
        drop(handle.enter());
        std::hint::black_box(vec![1_u8; 72]);
    };
    for _ in 0..20 {
        pool.install(|| {
            scope(|scope| {
                let outer = first.handle().enter();
                let inner = second.handle().enter();
                drop(outer);
                scope.spawn(|_| enter(first.handle()));
                yield_now();
                drop(inner);
                let handle = first.handle().clone();
                runtime::parallel::spawn(move || enter(&handle));
                yield_now();
                isolated(|| drop(first.handle().enter()));
            });
        });
    }
}

/// The body of a scope in place may drop a guard, and all that keeps its runtime.
#[test]
fn a_runtime_that_was_current_for_a_scope_may_be_dropped_inside() {
    let _watchdog = watchdog();
    for _ in 0..20 {
        let mut entered = Box::pin(async {
            let runtime = Builder::new_current_thread().build().unwrap();
            let _entered = runtime.enter();
            std::future::pending::<()>().await;
        });
        assert!(entered.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        in_place_scope(|scope| {
            drop(entered);
            scope.spawn(|_| drop(Handle::try_current()));
        });
    }
}

/// The region of the second guard was left inside of a part, and that of the first one is around it.
#[test]
fn a_scope_keeps_the_regions_of_guards_that_were_dropped_inside_of_parts() {
    let _watchdog = watchdog();
    let (first, second) = (build(1), build(1));
    let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    for _ in 0..20 {
        pool.install(|| {
            let (outer, inner) = (first.handle().enter(), second.handle().enter());
            in_place_scope(|scope| {
                isolated(|| drop(inner));
                drop(outer);
                std::hint::black_box(vec![1_u8; 72]);
                scope.spawn(|_| drop(Handle::try_current()));
            });
        });
    }
}

thread_local! {
    /// A future that has entered a runtime which it owns.
    static HELD: Cell<Option<Pin<Box<dyn Future<Output = ()>>>>> = const { Cell::new(None) };
}

/// Enters a runtime, which [`let_go`] leaves and drops.
fn hold(runtime: Runtime) {
    hold_by(async move {
        let _entered = runtime.enter();
        std::future::pending::<()>().await;
    });
}

fn hold_by(future: impl Future<Output = ()> + 'static) {
    let mut future: Pin<Box<dyn Future<Output = ()>>> = Box::pin(future);
    assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    HELD.set(Some(future));
}

fn let_go() {
    drop(HELD.take());
}

#[test]
fn a_hook_may_drop_the_runtime_that_is_current_for_the_spawn() {
    let _watchdog = watchdog();
    for workers in [0, 1] {
        let mut builder = match workers {
            0 => Builder::new_current_thread(),
            _ => Builder::new_multi_thread(),
        };
        hold(builder.worker_threads(1).on_task_spawn(|_| let_go()).build().unwrap());
        drop(runtime::spawn(async {}));
        assert!(Handle::try_current().is_err());
    }
}

#[test]
fn a_detached_job_that_runs_in_place_may_drop_the_pool_that_was_meant() {
    let _watchdog = watchdog();
    let enter_a_closed_one = || {
        hold_by(async {
            let runtime = build(1);
            let handle = runtime.handle().clone();
            let _entered = handle.enter();
            drop(runtime);
            std::future::pending::<()>().await;
        });
    };
    // Its panic is for the pool's panic handler, if it has one.
    let let_go_and_panic = || {
        let_go();
        std::panic::resume_unwind(Box::new(()));
    };
    enter_a_closed_one();
    runtime::parallel::spawn(let_go_and_panic);
    enter_a_closed_one();
    runtime::parallel::spawn_broadcast(move |_| let_go_and_panic());
}

/// In the hook, parallel calls run in place.
#[test]
fn a_job_of_a_scope_that_runs_in_place_may_drop_the_current_runtime() {
    let _watchdog = watchdog();
    let start = || {
        hold(Builder::new_current_thread().build().unwrap());
        scope(|scope| {
            scope.spawn(|_| {
                let_go();
                drop(Handle::try_current());
            });
        });
    };
    drop(Builder::new_multi_thread().worker_threads(1).on_thread_start(start).build().unwrap());
}

/// In a long computation, and out of order on a worker.
#[test]
fn guards_keep_no_runtime_beyond_the_computation() {
    let _watchdog = watchdog();
    let pool = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let token = Arc::new(());
    let runtime = || {
        let token = token.clone();
        Builder::new_multi_thread().worker_threads(1).on_thread_stop(move || _ = &token).build().unwrap()
    };
    let enter = |runtime: &Runtime| {
        let _entered = runtime.enter();
        scope(|scope| scope.spawn(|_| assert!(is_current(runtime.handle()))));
    };
    pool.install(|| {
        let _entered = runtime().enter();
        join(|| (0..3).for_each(|_| enter(&runtime())), || ());
    });
    let out_of_order = || {
        let (first, second) = (runtime(), runtime());
        let (outer, _inner) = (first.enter(), second.enter());
        drop(outer);
    };
    pool.install(out_of_order);
    // In a detached job, around which no call puts a region back.
    pool.scope(|scope| scope.spawn(|_| out_of_order()));
    pool.install(|| isolated(out_of_order));
    pool.install(|| ());
    pool.install(|| ());
    until("the runtimes are freed", || Arc::strong_count(&token) == 1);
}

#[test]
fn a_stranger_finds_no_task_local_of_the_frame_below_and_may_set_one() {
    let _watchdog = watchdog();
    let runtime = build(1);
    let job = || {
        assert!(NUMBER.try_get().is_err(), "it sees the value of the frame below");
        NUMBER.sync_scope(2, || assert_eq!(NUMBER.get(), 2));
    };
    with_a_stranger(&runtime, job, |has_run| {
        NUMBER.sync_scope(1, || {
            NUMBER.with(|number| {
                run_others_until(has_run);
                assert_eq!((*number, NUMBER.get()), (1, 1));
            });
        });
    });
}

#[test]
fn jobs_find_no_task_local_of_their_call_on_any_thread() {
    let _watchdog = watchdog();
    for workers in [1, 2] {
        let runtime = build(workers);
        let computed = runtime.compute(|| {
            NUMBER.sync_scope(1, || {
                scope(|scope| (0..20).for_each(|_| scope.spawn(|_| assert!(NUMBER.try_get().is_err()))));
                assert_eq!(NUMBER.get(), 1);
            });
        });
        runtime.block_on(computed).unwrap();
    }
}

#[test]
fn a_nested_runtime_polls_its_tasks_without_the_task_locals_of_the_frame_below() {
    let _watchdog = watchdog();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    NUMBER.sync_scope(1, || {
        runtime.block_on(async {
            assert_eq!(NUMBER.get(), 1, "the future of `block_on` is the caller's");
            assert!(runtime::spawn(async { NUMBER.try_get().is_err() }).await.unwrap());
            runtime::time::sleep(Duration::from_millis(1)).await;
        });
    });
}

/// What a computation of a task of a new `current_thread` runtime, which the calling thread drives, sees: the
/// name of its thread, and the current runtime.
fn seen_by_a_computation_of_a_nested_task() -> (String, Option<runtime::runtime::Id>) {
    let seen = || {
        let name = thread::current().name().unwrap_or_default().to_owned();
        (name, Handle::try_current().ok().map(|current| current.id()))
    };
    let nested = Builder::new_current_thread().build().unwrap();
    let task = nested.spawn(async move { runtime::compute(seen).await.unwrap() });
    nested.block_on(task).unwrap()
}

#[test]
fn a_task_of_a_nested_runtime_computes_where_the_thread_that_drives_it_does() {
    let _watchdog = watchdog();
    let runtime = Builder::new_multi_thread().worker_threads(2).thread_name("outer").build().unwrap();
    let of_runtime = ("outer".to_owned(), Some(runtime.handle().id()));
    let computed = || runtime.block_on(runtime.compute(seen_by_a_computation_of_a_nested_task)).unwrap();
    assert_eq!(computed(), of_runtime);
    let isolated = runtime.compute(|| isolated(seen_by_a_computation_of_a_nested_task));
    assert_eq!(runtime.block_on(isolated).unwrap(), of_runtime);
    let pool = ThreadPoolBuilder::new().num_threads(2).thread_name(|_| "pool".to_owned()).build().unwrap();
    assert_eq!(pool.install(seen_by_a_computation_of_a_nested_task), ("pool".to_owned(), None));
    // On a thread of no pool, also inside of a runtime's `block_on`.
    for name in [
        seen_by_a_computation_of_a_nested_task().0,
        runtime.block_on(async { runtime::task::block_in_place(seen_by_a_computation_of_a_nested_task).0 }),
    ] {
        assert!(name.starts_with("runtime-pool"), "{name}");
    }
}

#[test]
fn jobs_of_a_scope_on_a_stack_that_unwinds_see_the_runtime_that_was_entered() {
    let _watchdog = watchdog();
    struct OnDrop<F: FnMut()>(F);
    impl<F: FnMut()> Drop for OnDrop<F> {
        fn drop(&mut self) {
            (self.0)();
        }
    }
    let (pool, own, other) = (ThreadPoolBuilder::new().num_threads(1).build().unwrap(), build(1), build(1));
    let see = |handle: &Handle| {
        let seen = AtomicBool::new(false);
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let _entered = handle.enter();
            let _scope = OnDrop(|| {
                scope(|scope| scope.spawn(|_| seen.store(is_current(handle), SeqCst)));
            });
            std::panic::resume_unwind(Box::new(()));
        }));
        assert!(unwound.is_err());
        seen.into_inner()
    };
    assert!(pool.install(|| see(other.handle())));
    let other = other.handle().clone();
    assert!(own.block_on(own.compute(move || see(&other))).unwrap());
}
