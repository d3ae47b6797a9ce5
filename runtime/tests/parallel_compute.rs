//! `compute`: a computation starts at the call, and its handle waits for it, from anywhere.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use runtime::{Builder, Compute, Handle, compute, parallel};
use support::{Drops, Gate, KINDS, LIMIT, build, builder, each_kind, text_of, until, watchdog};

fn fib(n: u32) -> u64 {
    if n < 2 {
        return n.into();
    }
    let (a, b) = parallel::join(|| fib(n - 1), || fib(n - 2));
    a + b
}

#[test]
fn a_computation_yields_its_result_to_a_task_and_to_a_block_on() {
    let _watchdog = watchdog();
    each_kind(|runtime| {
        assert_eq!(runtime.block_on(async { compute(|| fib(16)).await.unwrap() }), 987);
        let task = runtime.spawn(async { compute(|| fib(15)).await.unwrap() });
        assert_eq!(runtime.block_on(task).unwrap(), 610);
        // From a thread that has entered no runtime.
        assert_eq!(runtime.block_on(runtime.compute(|| fib(14))).unwrap(), 377);
    });
}

#[test]
fn another_runtime_may_wait_for_it() {
    let _watchdog = watchdog();
    let (first, second, single) = (build(2), build(1), build(0));
    let computation = first.compute(|| fib(12));
    assert_eq!(second.block_on(second.spawn(computation)).unwrap().unwrap(), 144);
    assert_eq!(single.block_on(first.compute(|| fib(12))).unwrap(), 144);
}

#[test]
fn it_begins_without_being_awaited() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let gate = Gate::default();
    let opener = gate.clone();
    let computation = runtime.compute(move || opener.open());
    gate.wait();
    until("finished", || computation.is_finished());
    runtime.block_on(computation).unwrap();
}

#[test]
fn it_runs_on_a_processor_of_the_runtime_it_was_started_in_on_every_thread() {
    let _watchdog = watchdog();
    let named = |name: &str| Builder::new_multi_thread().worker_threads(2).thread_name(name).build().unwrap();
    let (first, second) = (named("first"), named("second"));
    let name = || std::thread::current().name().map(str::to_owned);
    let is_in = |name: Option<String>, pool: &str| assert!(name.unwrap().starts_with(pool));
    is_in(first.block_on(first.compute(name)).unwrap(), "first");
    // In a task, in a `block_on`, on a blocking thread, behind a guard, inside of another computation.
    is_in(first.block_on(first.spawn(async move { compute(name).await.unwrap() })).unwrap(), "first");
    is_in(first.block_on(async move { compute(name).await.unwrap() }), "first");
    is_in(
        first
            .block_on(first.spawn_blocking(move || compute(name)))
            .map(|c| first.block_on(c))
            .unwrap()
            .unwrap(),
        "first",
    );
    {
        let _guard = second.enter();
        is_in(first.block_on(second.spawn(async move { compute(name).await })).unwrap().unwrap(), "second");
        let computation = compute(name);
        is_in(first.block_on(computation).unwrap(), "second");
    }
    is_in(
        first.block_on(first.compute(move || compute(name))).map(|c| second.block_on(c)).unwrap().unwrap(),
        "first",
    );
    // The current runtime inside is that of the job processor.
    let inside = first.block_on(first.compute(|| Handle::current().id())).unwrap();
    assert_eq!(inside, first.handle().id());
}

#[test]
fn a_spare_worker_starts_it_on_a_processor() {
    let _watchdog = watchdog();
    // One spare worker: a second one could end the computation before its handle is looked at.
    let runtime = Builder::new_multi_thread().worker_threads(1).spare_workers(1).build().unwrap();
    let gate = Gate::default();
    let blocked = runtime.spawn({
        let gate = gate.clone();
        async move { runtime::task::block_in_place(|| gate.wait()) }
    });
    // Polled by the spare worker, which runs the computation when the task waits for it.
    let task = runtime.spawn(async move {
        let computation = compute(parallel::is_cancelled);
        assert!(!computation.is_finished());
        gate.open();
        computation.await.unwrap()
    });
    assert!(!runtime.block_on(task).unwrap());
    runtime.block_on(blocked).unwrap();
}

#[test]
fn tasks_go_on_while_the_only_worker_waits_for_a_computation_of_its_own() {
    let _watchdog = watchdog();
    let runtime = build(1);
    let task = runtime.spawn(async {
        let mut computation = compute(|| fib(10));
        let ticks = Arc::new(AtomicUsize::new(0));
        let other = {
            let ticks = ticks.clone();
            runtime::spawn(async move { ticks.fetch_add(1, SeqCst) })
        };
        let value = (&mut computation).await.unwrap();
        other.await.unwrap();
        (value, ticks.load(SeqCst))
    });
    assert_eq!(runtime.block_on(task).unwrap(), (55, 1));
}

#[test]
fn a_panic_comes_out_of_the_handle_wherever_it_was() {
    let _watchdog = watchdog();
    each_kind(|runtime| {
        let panics: [fn() -> ((), ()); 3] = [
            || panic!("in front"),
            || parallel::join(|| panic!("in front"), || ()),
            || parallel::join(|| (), || panic!("in front")),
        ];
        for f in panics {
            let error = runtime.block_on(runtime.compute(f)).unwrap_err();
            assert!(error.is_panic() && !error.is_cancelled());
            assert!(error.to_string().contains("parallel_compute.rs"), "{error}");
            assert_eq!(text_of(&*error.into_panic()), "in front");
        }
        // The workers are as good as before.
        assert_eq!(runtime.block_on(runtime.compute(|| fib(10))).unwrap(), 55);
    });
}

#[test]
fn what_it_holds_is_dropped_once_however_it_ends() {
    let _watchdog = watchdog();
    each_kind(|runtime| {
        let drops = Drops::default();
        let result = runtime.block_on(runtime.compute({
            let token = drops.token();
            move || token
        }));
        assert_eq!(drops.count(), 0);
        drop(result.unwrap());
        assert_eq!(drops.count(), 1);
        let token = drops.token();
        _ = runtime.block_on(runtime.compute(move || {
            let _token = token;
            panic!("with a token");
        }));
        assert_eq!(drops.count(), 2);
        // A result that is never taken, and a result that comes after the handle went.
        let computation = runtime.compute({
            let token = drops.token();
            move || token
        });
        until("finished", || computation.is_finished());
        drop(computation);
        assert_eq!(drops.count(), 3);
        let token = drops.token();
        runtime.compute(move || token).detach();
        until("dropped", || drops.count() == 4);
    });
}

#[test]
fn a_detached_computation_runs_to_its_end() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let (gate, done) = (Gate::default(), Gate::default());
    let (wait, open) = (gate.clone(), done.clone());
    runtime
        .compute(move || {
            wait.wait();
            fib(10);
            assert!(!parallel::is_cancelled());
            open.open();
        })
        .detach();
    gate.open();
    done.wait();
}

#[test]
fn computations_beyond_number_run() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let sum = runtime.block_on(async {
        let computations: Vec<_> = (0..10_000_u64).map(|n| compute(move || n)).collect();
        let mut sum = 0;
        for computation in computations {
            sum += computation.await.unwrap();
        }
        sum
    });
    assert_eq!(sum, 49_995_000);
}

#[test]
fn a_computation_may_start_others_which_tasks_await() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let sum = runtime.block_on(async {
        let parts: Vec<Compute<u64>> =
            compute(|| (0..10).map(|n| compute(move || fib(n))).collect()).await.unwrap();
        let mut sum = 0;
        for part in parts {
            sum += part.await.unwrap();
        }
        sum
    });
    assert_eq!(sum, 88);
    // A computation may also block for another one, as long as another worker is free.
    let waits = || Handle::current().block_on(compute(|| fib(10))).unwrap();
    assert_eq!(runtime.block_on(runtime.compute(waits)).unwrap(), 55);
}

#[test]
fn it_is_no_task() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let (id, seen) = runtime.block_on(async {
        let computation = compute(runtime::task::try_id);
        (computation.id(), computation.await.unwrap())
    });
    assert_eq!(seen, None);
    assert_ne!(runtime.block_on(async { compute(|| ()).id() }), id);
}

#[test]
fn after_the_shutdown_it_is_cancelled_unrun() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let handle = runtime.handle().clone();
    drop(runtime);
    let drops = Drops::default();
    let token = drops.token();
    let ran = Arc::new(AtomicBool::new(false));
    let has_run = ran.clone();
    let computation = handle.compute(move || {
        has_run.store(true, SeqCst);
        drop(token);
    });
    assert!(computation.is_finished());
    assert!(build(0).block_on(computation).unwrap_err().is_cancelled());
    assert_eq!((drops.count(), ran.load(SeqCst)), (1, false));
}

#[test]
fn a_shutdown_ends_computations_that_run_and_those_that_wait() {
    let _watchdog = watchdog();
    let runtime = builder(2).spare_workers(0).build().unwrap();
    let drops = Drops::default();
    let started = Arc::new(AtomicUsize::new(0));
    let computations: Vec<_> = (0..10)
        .map(|_| {
            let (token, started) = (drops.token(), started.clone());
            runtime.compute(move || {
                let _token = token;
                started.fetch_add(1, SeqCst);
                loop {
                    parallel::join(std::thread::yield_now, || ());
                }
            })
        })
        .collect();
    until("both processors compute", || started.load(SeqCst) == 2);
    drop(runtime);
    assert_eq!(started.load(SeqCst), 2);
    assert_eq!(drops.count(), 10);
    for computation in computations {
        assert!(build(0).block_on(computation).unwrap_err().is_cancelled());
    }
}

#[test]
fn a_shutdown_waits_for_one_that_never_splits_and_it_can_ask() {
    let _watchdog = watchdog();
    let runtime = build(1);
    let gate = Gate::default();
    let started = gate.clone();
    let computation = runtime.compute(move || {
        started.open();
        while !parallel::is_cancelled() {
            std::thread::yield_now();
        }
        7
    });
    gate.wait();
    drop(runtime);
    assert_eq!(build(0).block_on(computation).unwrap(), 7);
}

#[test]
fn a_runtime_dropped_inside_of_its_own_computation_ends() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let handle = runtime.handle().clone();
    let computation = handle.compute(move || drop(runtime));
    build(0).block_on(computation).unwrap();
}

#[test]
fn the_last_handle_may_go_inside_of_a_computation_or_long_after_the_runtime() {
    let _watchdog = watchdog();
    for _ in 0..20 {
        let runtime = build(2);
        let handle = runtime.handle().clone();
        let computation = runtime.compute(move || handle);
        until("finished", || computation.is_finished());
        drop(runtime);
        // The shared state now hangs by the handle in the result.
        drop(computation);
    }
}

#[test]
fn it_works_on_every_kind_of_runtime_inside_of_select_and_timeout() {
    let _watchdog = watchdog();
    for workers in KINDS {
        build(workers).block_on(async {
            let value = runtime::time::timeout(LIMIT, compute(|| fib(5))).await;
            assert_eq!(value.unwrap().unwrap(), 5);
            let mut computation = compute(|| 1);
            let value = loop {
                runtime::select! {
                    value = &mut computation => break value,
                    () = runtime::time::sleep(Duration::from_millis(1)) => {}
                }
            };
            assert_eq!(value.unwrap(), 1);
        });
    }
}

#[test]
fn the_handle_is_send_sync_unpin_and_says_its_name() {
    fn check<T: Send + Sync + Unpin + std::fmt::Debug + 'static>(_: &T) {}
    let runtime = build(1);
    let computation: Compute<std::cell::Cell<u32>> = runtime.compute(|| std::cell::Cell::new(1));
    check(&runtime.compute(|| 1));
    assert_eq!(format!("{computation:?}"), format!("Compute {{ id: {:?} }}", computation.id()));
    drop(runtime);
}
