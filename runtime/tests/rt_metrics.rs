//! The numbers a runtime keeps: plausible, and never falling.

mod support;

use std::sync::mpsc;
use std::time::Duration;

use runtime::Builder;
use runtime::runtime::{RuntimeFlavor, RuntimeMetrics};
use runtime::task::block_in_place;
use support::{KINDS, build, builder, until, watchdog};

/// Everything that only counts up.
fn counters(metrics: &RuntimeMetrics) -> Vec<u64> {
    let mut all =
        vec![metrics.spawned_tasks_count(), metrics.driver_turn_count(), metrics.driver_event_count()];
    for worker in 0..metrics.num_workers() {
        all.extend([
            metrics.worker_poll_count(worker),
            metrics.worker_lifo_poll_count(worker),
            metrics.worker_steal_count(worker),
            metrics.worker_steal_operations(worker),
            metrics.worker_search_count(worker),
            metrics.worker_notify_count(worker),
            metrics.worker_noop_count(worker),
            metrics.worker_park_count(worker),
            metrics.worker_park_unpark_count(worker),
            metrics.worker_overflow_count(worker),
            metrics.worker_total_busy_duration(worker).as_nanos() as u64,
        ]);
    }
    all
}

#[test]
fn counters_never_fall_and_add_up() {
    let _watchdog = watchdog();
    for workers in KINDS {
        // What spare workers poll is not counted here.
        let runtime = builder(workers).spare_workers(0).build().unwrap();
        let metrics = runtime.metrics();
        let mut before = counters(&metrics);
        for _ in 0..20 {
            runtime.block_on(async {
                let tasks: Vec<_> =
                    (0..100).map(|_| runtime::spawn(async { runtime::task::yield_now().await })).collect();
                for task in tasks {
                    task.await.unwrap();
                }
                runtime::time::sleep(Duration::from_micros(200)).await;
            });
            let now = counters(&metrics);
            assert!(before.iter().zip(&now).all(|(before, now)| before <= now), "{before:?} {now:?}");
            before = now;
        }
        assert_eq!(metrics.spawned_tasks_count(), 2000);
        assert_eq!(metrics.num_alive_tasks(), 0);
        let polls = |count: fn(&RuntimeMetrics, usize) -> u64| {
            (0..metrics.num_workers()).map(|worker| count(&metrics, worker)).sum::<u64>()
        };
        assert_eq!(polls(RuntimeMetrics::worker_poll_count), 4000);
        assert!(polls(RuntimeMetrics::worker_lifo_poll_count) <= 4000);
        let (stolen, steals) =
            (polls(RuntimeMetrics::worker_steal_count), polls(RuntimeMetrics::worker_steal_operations));
        assert!(stolen >= steals);
        assert!(polls(RuntimeMetrics::worker_park_count) > 0);
        assert!(metrics.driver_turn_count() > 0);
    }
}

#[test]
fn queues_and_live_tasks_are_seen() {
    let runtime = build(0);
    let metrics = runtime.metrics();
    assert_eq!(runtime.handle().runtime_flavor(), RuntimeFlavor::CurrentThread);
    assert_eq!((metrics.num_workers(), metrics.global_queue_depth()), (1, 0));
    let tasks: Vec<_> = (0..10).map(|_| runtime.spawn(std::future::pending::<()>())).collect();
    assert_eq!((metrics.num_alive_tasks(), metrics.global_queue_depth()), (10, 10));
    runtime.block_on(runtime::task::yield_now());
    runtime.block_on(async {
        while metrics.global_queue_depth() > 0 || metrics.worker_local_queue_depth(0) > 0 {
            runtime::task::yield_now().await;
        }
    });
    assert_eq!(metrics.num_alive_tasks(), 10);
    tasks.iter().for_each(|task| task.abort());
    runtime.block_on(async {
        for task in tasks {
            assert!(task.await.unwrap_err().is_cancelled());
        }
    });
    assert_eq!(metrics.num_alive_tasks(), 0);
    let text = support::panic_of(|| metrics.worker_poll_count(1));
    assert!(text.contains("1 workers") && text.contains("number 1"), "{text}");
    drop(runtime);
    assert_eq!(metrics.num_alive_tasks(), 0, "a view may outlive its runtime");
}

#[test]
fn the_count_of_parks_and_unparks_is_odd_while_a_worker_sleeps() {
    let _watchdog = watchdog();
    for workers in KINDS {
        let runtime = builder(workers).spare_workers(0).build().unwrap();
        let metrics = runtime.metrics();
        let counts = || (0..metrics.num_workers()).map(|worker| metrics.worker_park_unpark_count(worker));
        if workers > 0 {
            until("all sleep", || counts().all(|count| count % 2 == 1));
        } else {
            assert_eq!(counts().sum::<u64>(), 0);
        }
        let view = metrics.clone();
        let own = async move { view.worker_park_unpark_count(runtime::runtime::worker_index().unwrap()) };
        assert_eq!(runtime.block_on(runtime.spawn(own)).unwrap() % 2, 0);
        until("a thread has slept", || {
            runtime.block_on(async { runtime::time::sleep(Duration::from_millis(1)).await });
            counts().sum::<u64>() > 0
        });
        drop(runtime);
        assert!(counts().all(|count| count % 2 == 0 && count > 0), "{:?}", counts().collect::<Vec<_>>());
        let parks = (0..metrics.num_workers()).map(|worker| metrics.worker_park_count(worker));
        assert!(counts().eq(parks.map(|parks| 2 * parks)));
    }
}

#[test]
fn a_worker_inside_of_a_long_poll_is_busy() {
    let _watchdog = watchdog();
    for workers in KINDS {
        // The time of a spare worker has no number.
        let runtime = builder(workers).spare_workers(0).build().unwrap();
        let metrics = runtime.metrics();
        let task = runtime.spawn(async move {
            let worker = runtime::runtime::worker_index().unwrap();
            let busy = || metrics.worker_total_busy_duration(worker);
            let before = busy();
            until("the poll is counted", || busy() > before + Duration::from_millis(2));
        });
        runtime.block_on(task).unwrap();
    }
}

#[test]
fn time_after_the_last_sleep_is_counted_as_busy_at_the_end() {
    let _watchdog = watchdog();
    for workers in KINDS {
        let runtime = build(workers);
        let metrics = runtime.metrics();
        // A `current_thread` runtime does not sleep for this.
        runtime.block_on(runtime.spawn(async {})).unwrap();
        drop(runtime);
        for worker in 0..metrics.num_workers() {
            assert!(metrics.worker_total_busy_duration(worker) > Duration::ZERO, "{workers}: {worker}");
        }
    }
}

#[test]
fn workers_are_known_by_their_threads() {
    let _watchdog = watchdog();
    for workers in KINDS {
        let runtime =
            if workers == 0 { build(0) } else { builder(workers).spare_workers(0).build().unwrap() };
        let metrics = runtime.metrics();
        if workers == 0 {
            assert_eq!(metrics.worker_thread_id(0), None, "no thread drives it yet");
        }
        for _ in 0..20 {
            let own = async {
                let index = runtime::runtime::worker_index().unwrap();
                (index, std::thread::current().id())
            };
            let (index, thread) = runtime.block_on(runtime.spawn(own)).unwrap();
            assert_eq!(metrics.worker_thread_id(index), Some(thread));
        }
    }
}

#[test]
fn descriptors_that_come_and_go_are_counted() {
    let runtime = build(0);
    let metrics = runtime.metrics();
    let counts = || (metrics.io_driver_fd_registered_count(), metrics.io_driver_fd_deregistered_count());
    let before = counts();
    let pairs = runtime.block_on(async { [(); 3].map(|()| runtime::net::UnixStream::pair().unwrap()) });
    assert_eq!(counts(), (before.0 + 6, before.1));
    drop(pairs);
    assert_eq!(counts(), (before.0 + 6, before.1 + 6));
    // A file cannot be watched.
    let file = std::fs::File::open("/proc/self/status").unwrap();
    // SAFETY: (1), (2) the `AsyncFd` owns the file, whose number does not change, and gives the file to no
    // other code.
    let refused = runtime.block_on(async { unsafe { runtime::io::unix::AsyncFd::register(file) }.is_err() });
    assert!(refused);
    assert_eq!(counts(), (before.0 + 6, before.1 + 6), "a refused one was not registered");
    let without = runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(without.metrics().io_driver_fd_registered_count(), 0);
}

#[test]
fn an_idle_runtime_stops_counting() {
    let _watchdog = watchdog();
    for workers in [1, 3] {
        let runtime = build(workers);
        let metrics = runtime.metrics();
        runtime.block_on(runtime.spawn(async {})).unwrap();
        // At rest: the same numbers twice, some time apart.
        until("the runtime rests", || {
            let before = counters(&metrics);
            std::thread::sleep(Duration::from_millis(20));
            before == counters(&metrics)
        });
    }
}

#[test]
fn counts_outlive_the_spare_workers_that_made_them() {
    let _watchdog = watchdog();
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .thread_keep_alive(Duration::from_millis(1))
        .build()
        .unwrap();
    let ((begin, begun), (end, ended)) = (mpsc::channel(), mpsc::channel::<()>());
    let blocks = runtime.spawn(async move {
        block_in_place(|| {
            begin.send(()).unwrap();
            _ = ended.recv();
        });
    });
    begun.recv().unwrap();
    (0..10).for_each(|_| runtime.block_on(runtime.spawn(async {})).unwrap());
    drop(end);
    runtime.block_on(blocks).unwrap();
    let metrics = runtime.metrics();
    until("the spare worker has ended", || metrics.num_spare_workers() == 0);
    until("no task is left", || metrics.num_alive_tasks() == 0);
    assert_eq!((metrics.spawned_tasks_count(), metrics.num_alive_tasks()), (11, 0));
}
