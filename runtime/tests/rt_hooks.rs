//! Thread names and hooks.

mod support;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use parking_lot::Mutex;
use runtime::parallel::{ThreadPoolBuilder, join, scope};
use support::{Gate, KINDS, builder, until, watchdog};

fn thread_name() -> String {
    std::thread::current().name().unwrap_or_default().to_owned()
}

#[test]
fn threads_bear_the_name_that_was_set() {
    let runtime = builder(1).build().unwrap();
    assert_eq!(runtime.block_on(runtime.spawn(async { thread_name() })).unwrap(), "runtime-worker");
    let runtime = builder(1).thread_name("mine").build().unwrap();
    assert_eq!(runtime.block_on(runtime.spawn(async { thread_name() })).unwrap(), "mine");
    assert_eq!(runtime.block_on(runtime.spawn_blocking(thread_name)).unwrap(), "mine");
}

#[test]
fn a_naming_function_is_asked_once_a_thread() {
    let _watchdog = watchdog();
    let count = Arc::new(AtomicUsize::new(0));
    let next = count.clone();
    let names = Arc::new(Mutex::new(HashSet::new()));
    let seen = names.clone();
    let runtime = builder(3)
        .spare_workers(0)
        .thread_name_fn(move || format!("mine-{}", next.fetch_add(1, SeqCst)))
        .on_thread_start(move || assert!(seen.lock().insert(thread_name())))
        .build()
        .unwrap();
    runtime.block_on(runtime.spawn_blocking(|| {})).unwrap();
    drop(runtime);
    assert_eq!(count.load(SeqCst), 4);
    assert_eq!(*names.lock(), (0..4).map(|i| format!("mine-{i}")).collect());
}

#[test]
fn start_and_stop_are_called_on_each_thread() {
    let _watchdog = watchdog();
    for workers in KINDS {
        let alive = Arc::new(Mutex::new(HashSet::new()));
        let (start, stop) = (alive.clone(), alive.clone());
        let calls = Arc::new(AtomicUsize::new(0));
        let (started, stopped) = (calls.clone(), calls.clone());
        let runtime = builder(workers)
            .spare_workers(0)
            .on_thread_start(move || {
                started.fetch_add(1, SeqCst);
                assert!(start.lock().insert(std::thread::current().id()));
            })
            .on_thread_stop(move || {
                stopped.fetch_add(1, SeqCst);
                assert!(stop.lock().remove(&std::thread::current().id()));
            })
            .build()
            .unwrap();
        runtime.block_on(runtime.spawn_blocking(|| {})).unwrap();
        until("all have started", || alive.lock().len() == workers + 1);
        drop(runtime);
        assert!(alive.lock().is_empty());
        assert_eq!(calls.load(SeqCst), 2 * (workers + 1));
    }
}

#[test]
fn park_and_unpark_are_called_around_each_sleep() {
    let _watchdog = watchdog();
    for workers in KINDS {
        let (parks, unparks) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (park, unpark) = (parks.clone(), unparks.clone());
        let runtime = builder(workers)
            .on_thread_park(move || _ = park.fetch_add(1, SeqCst))
            .on_thread_unpark(move || _ = unpark.fetch_add(1, SeqCst))
            .build()
            .unwrap();
        until("a thread has slept", || {
            let sleeper = runtime.spawn(async { runtime::time::sleep(Duration::from_millis(5)).await });
            runtime.block_on(sleeper).unwrap();
            parks.load(SeqCst) >= 1
        });
        drop(runtime);
        assert_eq!(parks.load(SeqCst), unparks.load(SeqCst));
    }
}

#[test]
fn a_park_hook_that_wakes_the_block_on_each_time_does_not_stop_timers() {
    let _watchdog = watchdog();
    let notify = Arc::new(runtime::sync::Notify::new());
    let hook = {
        let notify = notify.clone();
        move || notify.notify_waiters()
    };
    let runtime = builder(0).on_thread_park(hook).build().unwrap();
    let sleeper = runtime.spawn(runtime_sleep());
    // Each `block_on` is over at its first park.
    until("the timer fires", || {
        runtime.block_on(notify.notified());
        sleeper.is_finished()
    });
}

async fn runtime_sleep() {
    runtime::time::sleep(Duration::from_millis(1)).await;
}

#[test]
fn a_worker_that_does_not_sleep_for_a_job_has_been_unparked_too() {
    let _watchdog = watchdog();
    let (parks, unparks) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (park, unpark) = (parks.clone(), unparks.clone());
    let runtime = builder(2)
        .on_thread_park(move || _ = park.fetch_add(1, SeqCst))
        .on_thread_unpark(move || _ = unpark.fetch_add(1, SeqCst))
        .build()
        .unwrap();
    for _ in 0..2000 {
        runtime.block_on(runtime.handle().compute(|| runtime::parallel::join(|| (), || ()))).unwrap();
    }
    drop(runtime);
    assert_eq!(parks.load(SeqCst), unparks.load(SeqCst));
}

#[test]
fn a_task_spawned_or_woken_by_a_hook_runs() {
    let _watchdog = watchdog();
    // Each hook in turn spawns one task, once the runtime is told to.
    for workers in [1, 3] {
        for which in 0..4 {
            let (ran, armed) = (Gate::default(), Arc::new(AtomicUsize::new(0)));
            let hook = |i: usize| {
                let (ran, armed) = (ran.clone(), armed.clone());
                move || {
                    if i == which && armed.fetch_add(1, SeqCst) == 0 {
                        let ran = ran.clone();
                        drop(runtime::spawn(async move { ran.open() }));
                    }
                }
            };
            let runtime = builder(workers)
                .on_thread_start(hook(0))
                .on_thread_park(hook(1))
                .on_thread_unpark(hook(2))
                .on_thread_stop(hook(3))
                .build()
                .unwrap();
            match which {
                // A worker that has not slept yet is not unparked.
                2 => until("it ran", || {
                    runtime.block_on(runtime.spawn(async {})).unwrap();
                    ran.is_open()
                }),
                3 => {}
                _ => ran.wait(),
            }
            drop(runtime);
        }
    }
}

#[test]
fn a_runtime_may_be_dropped_by_the_hook_of_a_thread_that_took_over() {
    let _watchdog = watchdog();
    let place = Arc::new(Mutex::new(None));
    let dropped = Gate::default();
    let mut builder = builder(1);
    builder.thread_keep_alive(Duration::from_millis(1)).on_thread_stop({
        let (place, dropped) = (place.clone(), dropped.clone());
        move || {
            let runtime: Option<runtime::Runtime> = place.lock().take();
            if runtime.is_some() {
                drop(runtime);
                dropped.open();
            }
        }
    });
    let runtime = builder.build().unwrap();
    let handle = runtime.handle().clone();
    *place.lock() = Some(runtime);
    until("the runtime has been dropped", || {
        if handle.metrics().num_alive_tasks() == 0 {
            // Stuck, so that a thread takes over, which ends when this is over.
            handle.spawn(async { std::thread::sleep(Duration::from_millis(20)) });
            handle.spawn(async {});
        }
        dropped.is_open()
    });
}

#[test]
fn parallel_calls_in_the_start_hook_wait_for_no_worker() {
    let _watchdog = watchdog();
    for workers in [1, 2] {
        let calls = Arc::new(AtomicUsize::new(0));
        let count = calls.clone();
        let hook = move || {
            let (one, two) = join(|| 1, || 2);
            scope(|s| s.spawn(|_| _ = count.fetch_add(one + two, SeqCst)));
        };
        let runtime = builder(workers).on_thread_start(hook).build().unwrap();
        assert_eq!(runtime.block_on(runtime.spawn(async { join(|| 1, || 2).1 })).unwrap(), 2);
        drop(runtime);
        assert!(calls.load(SeqCst) >= 3 * workers);
    }
}

/// The threads of another pool are there for its jobs, also while the body waits for them.
#[test]
fn a_scope_of_another_pool_in_the_start_hook_uses_that_pool() {
    let _watchdog = watchdog();
    let pool = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let hook = move || {
        pool.in_place_scope(|scope| {
            let (send, receive) = std::sync::mpsc::channel();
            scope.spawn(move |_| send.send(()).unwrap());
            receive.recv().unwrap();
        });
    };
    let runtime = builder(2).on_thread_start(hook).build().unwrap();
    runtime.block_on(runtime.spawn(async {})).unwrap();
}
