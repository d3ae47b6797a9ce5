//! `worker_index`: which worker the calling thread is, and that it is none elsewhere.

mod support;

use std::sync::Arc;

use runtime::runtime::{LocalRuntime, worker_index};
use runtime::sync::oneshot;
use runtime::task::block_in_place;
use runtime::{Handle, parallel};
use support::{Gate, build, builder, each_kind, until, watchdog};

#[test]
fn there_is_none_outside_of_workers() {
    let _watchdog = watchdog();
    assert_eq!(worker_index(), None);
    each_kind(|runtime| {
        let _guard = runtime.enter();
        assert_eq!(worker_index(), None, "a runtime that was entered makes no worker");
        assert_eq!(runtime.block_on(runtime.spawn_blocking(worker_index)).unwrap(), None);
    });
    assert_eq!(build(2).block_on(async { worker_index() }), None);
    let pool = parallel::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    assert_eq!(pool.install(worker_index), None, "a pool of jobs is no runtime");
}

#[test]
fn tasks_find_the_worker_that_polls_them() {
    const WORKERS: usize = 3;
    let _watchdog = watchdog();
    let runtime = builder(WORKERS).spare_workers(0).build().unwrap();
    let gate = Gate::default();
    let (sender, receiver) = std::sync::mpsc::channel();
    // All at once, so that each is on a worker of its own.
    for _ in 0..WORKERS {
        let (gate, sender) = (gate.clone(), sender.clone());
        runtime.spawn(async move {
            let index = worker_index().expect("tasks are polled by workers");
            assert_eq!(block_in_place(worker_index), Some(index));
            assert_eq!(parallel::join(worker_index, || ()).0, Some(index));
            sender.send((index, runtime_polls(index))).unwrap();
            gate.wait();
        });
    }
    let mut found: Vec<_> = (0..WORKERS).map(|_| receiver.recv_timeout(support::LIMIT).unwrap()).collect();
    gate.open();
    found.sort();
    assert!(found.iter().map(|(index, _)| *index).eq(0..WORKERS), "{found:?}");
    assert!(found.iter().all(|(_, polls)| *polls > 0), "it is the metrics' index: {found:?}");
}

/// Polls of the worker `index` of the current runtime.
fn runtime_polls(index: usize) -> u64 {
    Handle::current().metrics().worker_poll_count(index)
}

#[test]
fn the_thread_that_drives_is_the_worker_and_one_beside_it_is_not() {
    let _watchdog = watchdog();
    assert_eq!(LocalRuntime::new().unwrap().block_on(async { worker_index() }), Some(0));
    let runtime = Arc::new(build(0));
    assert_eq!(runtime.handle().block_on(async { worker_index() }), Some(0));
    let (sender, receiver) = oneshot::channel();
    let is_inside = Gate::default();
    let driving = std::thread::spawn({
        let (runtime, is_inside) = (runtime.clone(), is_inside.clone());
        move || {
            runtime.block_on(async move {
                is_inside.open();
                receiver.await.unwrap();
                worker_index()
            })
        }
    });
    until("it drives", || is_inside.is_open());
    assert_eq!(runtime.block_on(async { worker_index() }), None);
    sender.send(()).unwrap();
    assert_eq!(driving.join().unwrap(), Some(0));
}
