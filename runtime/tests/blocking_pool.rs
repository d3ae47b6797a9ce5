//! `spawn_blocking`: order, bounds, and threads that come and go.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use parking_lot::Mutex;
use support::{Gate, builder, each_kind, until, watchdog};

#[test]
fn closures_run_in_order_on_one_thread() {
    let _watchdog = watchdog();
    let runtime = builder(0).max_blocking_threads(1).build().unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let closures: Vec<_> = (0..100)
        .map(|i| {
            let order = order.clone();
            runtime.spawn_blocking(move || order.lock().push(i))
        })
        .collect();
    for closure in closures {
        runtime.block_on(closure).unwrap();
    }
    assert_eq!(*order.lock(), (0..100).collect::<Vec<_>>());
    assert_eq!(runtime.metrics().num_blocking_threads(), 1);
}

#[test]
fn as_many_run_at_once_as_the_bound_allows_and_no_more() {
    let _watchdog = watchdog();
    let runtime = builder(1).max_blocking_threads(3).build().unwrap();
    let (gate, running, most) =
        (Gate::default(), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let closures: Vec<_> = (0..10)
        .map(|_| {
            let (gate, running, most) = (gate.clone(), running.clone(), most.clone());
            runtime.spawn_blocking(move || {
                most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
                gate.wait();
                running.fetch_sub(1, SeqCst);
            })
        })
        .collect();
    until("three run", || running.load(SeqCst) == 3);
    assert_eq!(runtime.metrics().blocking_queue_depth(), 7);
    gate.open();
    for closure in closures {
        runtime.block_on(closure).unwrap();
    }
    assert_eq!(most.load(SeqCst), 3);
}

#[test]
fn threads_leave_after_the_keep_alive_time_and_come_again() {
    let _watchdog = watchdog();
    let runtime = builder(0).thread_keep_alive(Duration::from_millis(10)).build().unwrap();
    for _ in 0..3 {
        assert_eq!(runtime.block_on(runtime.spawn_blocking(|| 1)).unwrap(), 1);
        until("the thread leaves", || runtime.metrics().num_blocking_threads() == 0);
        assert_eq!(runtime.metrics().num_idle_blocking_threads(), 0);
    }
}

#[test]
fn no_closure_is_lost_while_threads_leave() {
    let _watchdog = watchdog();
    let runtime = builder(0).thread_keep_alive(Duration::from_micros(50)).build().unwrap();
    for i in 0..1000 {
        assert_eq!(runtime.block_on(runtime.spawn_blocking(move || i)).unwrap(), i);
        if i % 3 == 0 {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

#[test]
fn a_closure_finds_its_runtime_and_no_task() {
    each_kind(|runtime| {
        let closure = runtime.spawn_blocking(|| {
            assert!(runtime::task::try_id().is_none());
            let task = runtime::spawn(async { 1 });
            runtime::Handle::current().block_on(task).unwrap()
        });
        assert_eq!(runtime.block_on(closure).unwrap(), 1);
    });
}

#[test]
fn a_paused_clock_waits_for_closures() {
    let _watchdog = watchdog();
    let runtime = builder(0).start_paused(true).build().unwrap();
    // Also in the moment between a closure's end and the wake of whoever waits for it.
    runtime.block_on(async {
        for _ in 0..2000 {
            let closure = runtime::task::spawn_blocking(|| {});
            runtime::time::timeout(Duration::from_secs(3600), closure).await.unwrap().unwrap();
        }
    });
    runtime.block_on(async {
        let gate = Gate::default();
        let inside = gate.clone();
        let closure = runtime::task::spawn_blocking(move || inside.wait());
        let begin = runtime::time::Instant::now();
        let opener = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            gate.open();
        });
        let timeout = runtime::time::timeout(Duration::from_secs(3600), closure).await;
        timeout.expect("the clock stands while the closure runs").unwrap();
        assert_eq!(begin.elapsed(), Duration::ZERO);
        opener.join().unwrap();
    });
}
