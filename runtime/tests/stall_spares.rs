//! How many spare workers there are: none where they are turned off, no more than are allowed, counted, and
//! gone when they are not needed.

mod stall_support;
mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;
use std::time::{Duration, Instant};

use runtime::Runtime;
use runtime::runtime::RuntimeMetrics;
use stall_support::{Client, PING, Trap, WAYS, Way, assert_prompt, serve, stick, try_to_stick};
use support::{
    Gate, builder, in_child, panic_of, text_of, thread_number, threads, until, until_asleep, watchdog,
};

#[test]
fn without_spare_workers_a_worker_that_sleeps_takes_over() {
    let _watchdog = watchdog();
    for way in WAYS {
        let runtime = builder(3).spare_workers(0).build().unwrap();
        let trap = Trap::default();
        let address = serve(&runtime, &trap, way);
        let (mut sticky, mut client) = (Client::connect(address), Client::connect(address));
        // One worker, then a second, is stuck over what it took from the driver; the third is left.
        for count in 1..=2 {
            thread::sleep(Duration::from_millis(20));
            sticky.send(b's');
            until("the handler is stuck", || trap.count() == count);
            assert_prompt("pings", client.pings(10));
            sticky = Client::connect(address);
        }
        trap.release();
        assert_eq!((runtime.metrics().spare_started_count(), runtime.metrics().num_spare_workers()), (0, 0));
    }
}

#[test]
fn without_spare_workers_everything_goes_on_when_the_stuck_return() {
    let _watchdog = watchdog();
    for way in WAYS {
        let runtime = builder(2).spare_workers(0).build().unwrap();
        let mut client = Client::connect(serve(&runtime, &Trap::default(), way));
        for _ in 0..5 {
            let stuck = stick(&runtime, 2, way);
            client.send(PING);
            let task = runtime.spawn(async {
                runtime::time::sleep(Duration::from_millis(1)).await;
                runtime::task::block_in_place(|| 1)
            });
            // The monitor has looked a few times.
            thread::sleep(Duration::from_millis(50));
            assert!(!task.is_finished());
            stuck.end(&runtime);
            assert_eq!(client.receive(), PING);
            assert_eq!(runtime.block_on(task).unwrap(), 1);
        }
        assert_eq!((runtime.metrics().spare_started_count(), runtime.metrics().num_spare_workers()), (0, 0));
    }
}

#[test]
fn the_cap_on_spare_workers_is_kept_and_counted() {
    let _watchdog = watchdog();
    for way in WAYS {
        let runtime = builder(1).spare_workers(1).build().unwrap();
        let metrics = runtime.metrics();
        for _ in 0..3 {
            let before = metrics.spare_capped_count();
            let stuck = try_to_stick(&runtime, 3, way);
            // The worker and its one spare worker; no thread is left for the third.
            until("it is counted", || stuck.trap.count() == 2 && metrics.spare_capped_count() > before);
            assert_eq!(metrics.num_spare_workers(), 1);
            stuck.end(&runtime);
        }
    }
}

#[test]
fn a_stuck_task_that_panics_when_it_returns_ends_as_any_other() {
    let _watchdog = watchdog();
    for way in WAYS {
        let keep_alive = Duration::from_millis(50);
        let runtime = builder(1).thread_keep_alive(keep_alive).build().unwrap();
        let metrics = runtime.metrics();
        for _ in 0..5 {
            let trap = Trap::default();
            let task = runtime.spawn({
                let trap = trap.clone();
                async move {
                    trap.enter(way);
                    std::panic::resume_unwind(Box::new("returned"));
                }
            });
            until("it is stuck", || trap.count() == 1);
            // Others are served meanwhile, by a spare worker.
            runtime.block_on(runtime.spawn(async { runtime::task::yield_now().await })).unwrap();
            trap.release();
            let error = runtime.block_on(task).unwrap_err();
            assert_eq!(text_of(&*error.into_panic()), "returned");
            // The worker lives.
            runtime.block_on(runtime.spawn(async { runtime::task::yield_now().await })).unwrap();
        }
        assert!(metrics.spare_started_count() > 0);
        until("relief has left", || metrics.num_spare_workers() == 0);
        // And the worker is not taken for stuck any more.
        let before = metrics.stall_count();
        thread::sleep(2 * keep_alive);
        assert_eq!((metrics.stall_count(), metrics.num_spare_workers()), (before, 0));
    }
}

/// An idle thread ends at once. A spare worker does not while a worker blocks, and sleeps meanwhile.
#[test]
fn a_spare_worker_that_is_needed_and_idle_sleeps_if_the_keep_alive_time_is_zero() {
    let _watchdog = watchdog();
    let parks = Arc::new(AtomicU64::new(0));
    let mut builder = builder(1);
    builder.thread_keep_alive(Duration::ZERO).on_thread_park({
        let parks = parks.clone();
        move || _ = parks.fetch_add(1, SeqCst)
    });
    let runtime = builder.build().unwrap();
    let stuck = stick(&runtime, 1, Way::Blocks);
    // The spare worker runs it, and has nothing to do then.
    let number = runtime.block_on(runtime.spawn(async { thread_number() })).unwrap();
    until_asleep(number);
    let (before, start) = (parks.load(SeqCst), Instant::now());
    thread::sleep(Duration::from_millis(50));
    let parks = parks.load(SeqCst) - before;
    assert!(parks < 5 + start.elapsed().as_millis() as u64 / 50, "{parks} sleeps in {:?}", start.elapsed());
    stuck.end(&runtime);
    until("the spare worker has left", || runtime.metrics().num_spare_workers() == 0);
}

#[test]
fn spare_workers_end_and_new_ones_come() {
    let _watchdog = watchdog();
    if in_child("spare_workers_end_and_new_ones_come", &[]) {
        let runtime = builder(2).thread_keep_alive(Duration::from_millis(50)).build().unwrap();
        let metrics = runtime.metrics();
        let mut client = Client::connect(serve(&runtime, &Trap::default(), Way::Blocks));
        let before = threads();
        let mut started = 0;
        for _ in 0..3 {
            let stuck = stick(&runtime, 2, Way::Blocks);
            client.pings(5);
            assert!(metrics.num_spare_workers() > 0);
            stuck.end(&runtime);
            assert!(metrics.spare_started_count() > started, "those of the last time had left");
            started = metrics.spare_started_count();
            until("relief has left", || metrics.num_spare_workers() == 0 && threads() <= before);
        }
        assert_eq!(metrics.num_idle_spare_workers(), 0);
    }
}

/// The user's hook keeps the thread of a spare worker that has ended. Meanwhile another thread has its index,
/// and the monitor must see that thread's sleeps.
#[test]
fn a_spare_worker_may_come_while_the_last_one_of_its_index_ends() {
    let _watchdog = watchdog();
    let (is_first, ended, may_end) = (AtomicBool::new(true), Gate::default(), Gate::default());
    let hook = {
        let (ended, may_end) = (ended.clone(), may_end.clone());
        move || {
            if is_first.swap(false, SeqCst) {
                ended.open();
                may_end.wait();
            }
        }
    };
    let runtime =
        builder(1).thread_keep_alive(Duration::from_millis(20)).on_thread_stop(hook).build().unwrap();
    let mut client = Client::connect(serve(&runtime, &Trap::default(), Way::Blocks));
    let stuck = stick(&runtime, 1, Way::Blocks);
    client.ping();
    stuck.end(&runtime);
    until("all spare workers have ended, the first of them in its hook", || {
        // A spare worker that sleeps asks whether it is needed when there is something to do.
        _ = runtime.block_on(runtime.spawn(async {}));
        ended.is_open() && runtime.metrics().num_spare_workers() == 0
    });
    let stuck = stick(&runtime, 1, Way::Blocks);
    // The monitor takes from each of these what it has spawned.
    let trap = Trap::default();
    let tasks: [_; 3] = std::array::from_fn(|_| {
        let (trap, ran) = (trap.clone(), Gate::default());
        let has_run = ran.clone();
        let task = async move {
            runtime::spawn(async move { ran.open() });
            trap.enter(Way::Blocks);
        };
        (runtime.spawn(task), has_run)
    });
    tasks.iter().for_each(|(_, has_run)| has_run.wait());
    trap.release();
    tasks.into_iter().for_each(|(task, _)| runtime.block_on(task).unwrap());
    stuck.end(&runtime);
    may_end.open();
}

#[test]
fn a_spare_worker_that_rests_is_called_again() {
    let _watchdog = watchdog();
    let runtime = builder(1).thread_keep_alive(Duration::from_secs(1000)).build().unwrap();
    let metrics = runtime.metrics();
    let mut client = Client::connect(serve(&runtime, &Trap::default(), Way::Blocks));
    for _ in 0..10 {
        let stuck = stick(&runtime, 1, Way::Blocks);
        client.ping();
        stuck.end(&runtime);
        until("it rests", || metrics.num_idle_spare_workers() == metrics.num_spare_workers());
    }
    // More than one only where the machine was so slow that a spare worker itself was taken for stuck.
    assert!((1..5).contains(&metrics.spare_started_count()), "{}", metrics.spare_started_count());
}

/// Repeats `f` with new runtimes until `count` has counted something: on a busy machine another thread may
/// come first.
fn is_counted(workers: usize, count: fn(&RuntimeMetrics) -> u64, f: impl Fn(&Runtime)) {
    let is_counted = || {
        let runtime = builder(workers).build().unwrap();
        f(&runtime);
        count(&runtime.metrics()) > 0
    };
    until("it is counted", is_counted);
}

#[test]
fn each_kind_of_rescue_is_counted() {
    let _watchdog = watchdog();
    for way in WAYS {
        let from_slot = |runtime: &Runtime| {
            let (trap, ran) = (Trap::default(), Gate::default());
            let stuck = runtime.spawn({
                let (trap, ran) = (trap.clone(), ran.clone());
                async move {
                    runtime::spawn(async move { ran.open() });
                    trap.enter(way);
                }
            });
            ran.wait();
            trap.release();
            runtime.block_on(stuck).unwrap();
        };
        is_counted(1, RuntimeMetrics::rescued_task_count, from_slot);

        let from_queue = |runtime: &Runtime| {
            let stuck = stick(runtime, 1, way);
            runtime.block_on(runtime.spawn(async {})).unwrap();
            stuck.end(runtime);
        };
        is_counted(1, RuntimeMetrics::spare_started_count, from_queue);
        // Others may be served before the worker counts as stuck.
        let for_long = |runtime: &Runtime| {
            let stuck = stick(runtime, 1, way);
            runtime.block_on(runtime.spawn(async {})).unwrap();
            until("it counts as stuck", || runtime.metrics().stall_count() > 0);
            stuck.end(runtime);
        };
        is_counted(1, RuntimeMetrics::stall_count, for_long);

        // The second worker sleeps on its token while the first is stuck over what it took from the driver.
        let from_driver = |runtime: &Runtime| {
            let trap = Trap::default();
            let address = serve(runtime, &trap, way);
            let (mut sticky, mut client) = (Client::connect(address), Client::connect(address));
            thread::sleep(Duration::from_millis(20));
            sticky.send(b's');
            until("the handler is stuck", || trap.count() == 1);
            client.ping();
            trap.release();
            sticky.receive();
        };
        is_counted(2, RuntimeMetrics::rescued_driver_count, from_driver);
    }
}

#[test]
fn a_current_thread_runtime_has_no_spare_workers_and_says_so() {
    let runtime = builder(0).build().unwrap();
    let metrics = runtime.metrics();
    runtime.block_on(async {
        let task = runtime::spawn(async { 1 });
        thread::sleep(Duration::from_millis(30));
        assert!(!task.is_finished());
        assert_eq!(task.await.unwrap(), 1);
    });
    let numbers = [
        metrics.spare_started_count(),
        metrics.spare_refused_count(),
        metrics.spare_capped_count(),
        metrics.stall_count(),
        metrics.rescued_task_count(),
        metrics.rescued_driver_count(),
    ];
    assert_eq!((numbers, metrics.num_spare_workers()), ([0; 6], 0));
}

#[test]
fn short_blocking_calls_start_no_thread() {
    let _watchdog = watchdog();
    let runtime = builder(2).build().unwrap();
    let metrics = runtime.metrics();
    let task = runtime.spawn(async {
        let microsecond = || {
            let start = Instant::now();
            while start.elapsed() < Duration::from_micros(1) {}
        };
        for _ in 0..20_000 {
            runtime::task::block_in_place(|| ());
            runtime::task::block_in_place(microsecond);
        }
        // Nested, and with a panic.
        runtime::task::block_in_place(|| runtime::task::block_in_place(microsecond));
        panic_of(|| runtime::task::block_in_place(|| std::panic::resume_unwind(Box::new(()))));
    });
    runtime.block_on(task).unwrap();
    // Nothing waited meanwhile.
    assert_eq!((metrics.spare_started_count(), metrics.num_spare_workers()), (0, 0));
}

#[test]
fn a_call_that_has_become_long_is_relieved() {
    let _watchdog = watchdog();
    for workers in [1, 2] {
        let runtime = builder(workers).build().unwrap();
        let mut client = Client::connect(serve(&runtime, &Trap::default(), Way::Blocks));
        for _ in 0..5 {
            let trap = Trap::default();
            let tasks: Vec<_> = (0..2 * workers)
                .map(|_| {
                    let trap = trap.clone();
                    runtime.spawn(async move {
                        // Short ones first.
                        (0..100).for_each(|_| runtime::task::block_in_place(|| ()));
                        let (ran, seen) = (Gate::default(), Gate::default());
                        let opens = ran.clone();
                        runtime::spawn(async move { opens.open() });
                        runtime::task::block_in_place(|| {
                            ran.wait();
                            seen.open();
                            trap.enter(Way::Blocks);
                        });
                    })
                })
                .collect();
            until("all block", || trap.count() == 2 * workers);
            assert_prompt("pings", client.pings(5));
            trap.release();
            for task in tasks {
                runtime.block_on(task).unwrap();
            }
        }
    }
}
