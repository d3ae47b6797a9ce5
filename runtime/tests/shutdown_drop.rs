//! A runtime ends wherever it is dropped: no panic, no hang, and every task is dropped.

mod support;

use std::cell::RefCell;
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use runtime::{Handle, Runtime};
use support::{Drops, Gate, KINDS, LIMIT, build, builder, each_kind, panic_of, until, watchdog};

/// A task that waits for ever and whose drop is counted.
fn waiting(handle: &Handle, drops: &Drops) {
    let token = drops.token();
    handle.spawn(async move {
        let _token = token;
        pending::<()>().await;
    });
}

/// A task that is always ready and whose drop is counted.
fn busy(handle: &Handle, drops: &Drops) {
    let token = drops.token();
    handle.spawn(async move {
        let _token = token;
        loop {
            runtime::task::yield_now().await;
        }
    });
}

/// A task that a thread outside wakes all the time.
fn woken(handle: &Handle, drops: &Drops) -> thread::JoinHandle<()> {
    let token = drops.token();
    let (send, receive) = mpsc::channel::<std::task::Waker>();
    handle.spawn(std::future::poll_fn(move |cx| {
        let _keep = &token;
        _ = send.send(cx.waker().clone());
        std::task::Poll::<()>::Pending
    }));
    thread::spawn(move || receive.into_iter().for_each(std::task::Waker::wake))
}

#[test]
fn dropping_a_runtime_drops_every_task() {
    let _watchdog = watchdog();
    each_kind(|runtime| {
        let drops = Drops::default();
        let mut wakers = Vec::new();
        for _ in 0..50 {
            waiting(runtime.handle(), &drops);
            busy(runtime.handle(), &drops);
            wakers.push(woken(runtime.handle(), &drops));
        }
        runtime.block_on(async {
            for _ in 0..100 {
                runtime::task::yield_now().await;
            }
        });
        drop(runtime);
        assert_eq!(drops.count(), 150);
        wakers.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_runtime_may_be_dropped_inside_of_its_own_task() {
    let _watchdog = watchdog();
    for workers in KINDS {
        let runtime = build(workers);
        let handle = runtime.handle().clone();
        let drops = Drops::default();
        waiting(&handle, &drops);
        let after = Arc::new(AtomicBool::new(false));
        let passed = after.clone();
        let task = handle.spawn(async move {
            drop(runtime);
            passed.store(true, SeqCst);
            pending::<()>().await;
        });
        assert!(handle.block_on(task).unwrap_err().is_cancelled());
        assert!(after.load(SeqCst), "the drop returned without a panic");
        until("the other task is dropped", || drops.count() == 1);
    }
}

#[test]
fn a_task_may_own_the_last_reference_to_its_runtime() {
    let _watchdog = watchdog();
    for workers in KINDS {
        let runtime = Arc::new(build(workers));
        let handle = runtime.handle().clone();
        let drops = Drops::default();
        waiting(&handle, &drops);
        let owner = runtime.clone();
        let task = handle.spawn(async move {
            until("it is the last", || Arc::strong_count(&owner) == 1);
            drop(owner);
        });
        drop(runtime);
        handle.block_on(task).unwrap();
        // On `current_thread` the task's thread sees to the end before its `block_on` returns.
        until("the other task is dropped", || drops.count() == 1);
    }
}

#[test]
fn a_runtime_may_be_dropped_inside_of_another() {
    let _watchdog = watchdog();
    for outer in KINDS {
        for inner in KINDS {
            let (outer, drops) = (build(outer), Drops::default());
            let inner = [build(inner), build(inner)];
            inner.iter().for_each(|inner| waiting(inner.handle(), &drops));
            let [first, second] = inner;
            // In a task, and in a `block_on`.
            outer.block_on(outer.spawn(async move { drop(first) })).unwrap();
            outer.block_on(async move { drop(second) });
            until("the tasks are dropped", || drops.count() == 2);
        }
    }
}

#[test]
fn a_runtime_may_be_dropped_on_its_own_blocking_thread_and_anothers() {
    let _watchdog = watchdog();
    for workers in KINDS {
        let (own, other) = (build(workers), build(1));
        let third = build(workers);
        let drops = Drops::default();
        waiting(own.handle(), &drops);
        waiting(third.handle(), &drops);
        let handle = own.handle().clone();
        let closure = handle.spawn_blocking(move || {
            drop(own);
            1
        });
        assert_eq!(handle.block_on(closure).unwrap(), 1);
        let closure = other.spawn_blocking(move || {
            drop(third);
            1
        });
        assert_eq!(other.block_on(closure).unwrap(), 1);
        until("the tasks are dropped", || drops.count() == 2);
    }
}

#[test]
fn a_runtime_may_be_dropped_in_block_in_place() {
    let _watchdog = watchdog();
    for workers in KINDS {
        let runtime = build(workers);
        let handle = runtime.handle().clone();
        let drops = Drops::default();
        waiting(&handle, &drops);
        let task = handle.spawn(async move { runtime::task::block_in_place(|| drop(runtime)) });
        // It ended before its worker saw the end, or is cancelled at its end: either way, no panic.
        assert!(handle.block_on(task).map_or_else(|error| error.is_cancelled(), |()| true));
        until("the other task is dropped", || drops.count() == 1);
    }
}

#[test]
fn a_runtime_may_be_dropped_while_unwinding() {
    let _watchdog = watchdog();
    each_kind(|runtime| {
        let drops = Drops::default();
        waiting(runtime.handle(), &drops);
        busy(runtime.handle(), &drops);
        let text = panic_of(move || {
            let _runtime = runtime;
            panic!("unwinding");
        });
        assert_eq!(text, "unwinding");
        assert_eq!(drops.count(), 2);
    });
    each_kind(|runtime| {
        let drops = Drops::default();
        waiting(runtime.handle(), &drops);
        panic_of(move || {
            let handle = runtime.handle().clone();
            handle.block_on(async move {
                let _runtime = runtime;
                panic!("unwinding");
            })
        });
        until("the task is dropped", || drops.count() == 1);
    });
}

#[test]
fn two_threads_may_drop_the_last_references_at_once() {
    let _watchdog = watchdog();
    for workers in KINDS {
        for _ in 0..50 {
            let runtime = Arc::new(build(workers));
            let drops = Drops::default();
            waiting(runtime.handle(), &drops);
            let barrier = Arc::new(std::sync::Barrier::new(2));
            let threads = [0, 1].map(|_| {
                let (runtime, barrier) = (runtime.clone(), barrier.clone());
                thread::spawn(move || {
                    barrier.wait();
                    drop(runtime);
                })
            });
            drop(runtime);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(drops.count(), 1);
        }
    }
}

#[test]
fn a_runtime_may_be_dropped_while_it_is_entered() {
    let _watchdog = watchdog();
    each_kind(|runtime| {
        let handle = runtime.handle().clone();
        let _guard = handle.enter();
        let drops = Drops::default();
        waiting(&handle, &drops);
        drop(runtime);
        assert_eq!(drops.count(), 1);
        // Still current, but over.
        assert!(handle.block_on(runtime::spawn(async {})).unwrap_err().is_cancelled());
    });
}

#[test]
fn a_runtime_in_a_thread_local_ends_with_its_thread() {
    let _watchdog = watchdog();
    thread_local! {
        static RUNTIME: RefCell<Option<Runtime>> = const { RefCell::new(None) };
    }
    for workers in KINDS {
        let drops = Drops::default();
        let inside = drops.clone();
        thread::spawn(move || {
            RUNTIME.with_borrow_mut(|slot| *slot = Some(build(workers)));
            RUNTIME.with_borrow(|runtime| {
                let runtime = runtime.as_ref().unwrap();
                waiting(runtime.handle(), &inside);
                runtime.block_on(runtime.spawn_blocking(|| {})).unwrap();
            });
        })
        .join()
        .unwrap();
        assert_eq!(drops.count(), 1);
    }
}

#[test]
fn the_last_handle_may_be_dropped_anywhere() {
    let _watchdog = watchdog();
    struct HoldsHandle(Handle);
    impl Drop for HoldsHandle {
        fn drop(&mut self) {
            assert!(self.0.metrics().num_workers() > 0);
        }
    }
    for workers in KINDS {
        let runtime = build(workers);
        // In a task's destructor, at shutdown.
        let holds = HoldsHandle(runtime.handle().clone());
        runtime.spawn(async move {
            let _holds = holds;
            pending::<()>().await;
        });
        // In an output that is never taken.
        let holds = HoldsHandle(runtime.handle().clone());
        drop(runtime.spawn(async move { holds }));
        // In an output that is taken after the end.
        let holds = HoldsHandle(runtime.handle().clone());
        let task = runtime.spawn(async move { holds });
        runtime.block_on(async {
            while !task.is_finished() {
                runtime::task::yield_now().await;
            }
        });
        drop(runtime);
        drop(task);
    }
}

/// Does what destructors should not, when it is dropped.
struct Mischief {
    handle: Handle,
    waker: Arc<Mutex<Option<std::task::Waker>>>,
    drops: Drops,
}

impl Drop for Mischief {
    fn drop(&mut self) {
        let waker = self.waker.lock().take();
        if let Some(waker) = waker {
            waker.wake();
        }
        let token = self.drops.token();
        drop(self.handle.spawn(async move { drop(token) }));
        let token = self.drops.token();
        drop(runtime::spawn(async move { drop(token) }));
        let token = self.drops.token();
        drop(runtime::task::spawn_blocking(move || drop(token)));
        // A destructor is a part of its task's poll, so not directly.
        let one = runtime::task::block_in_place(|| self.handle.block_on(async { 1 }));
        assert_eq!(one, 1);
        drop(self.drops.token());
    }
}

#[test]
fn destructors_may_wake_spawn_and_block_at_shutdown() {
    let _watchdog = watchdog();
    for workers in KINDS {
        for is_busy in [false, true] {
            let runtime = build(workers);
            let drops = Drops::default();
            let wakers: Vec<_> = (0..20).map(|_| Arc::new(Mutex::new(None))).collect();
            for i in 0..20 {
                // Each wakes its neighbour when it is dropped.
                let (own, other) = (wakers[i].clone(), wakers[(i + 1) % 20].clone());
                let mischief =
                    Mischief { handle: runtime.handle().clone(), waker: other, drops: drops.clone() };
                runtime.spawn(std::future::poll_fn(move |cx| {
                    let _keep = &mischief;
                    *own.lock() = Some(cx.waker().clone());
                    if is_busy {
                        cx.waker().wake_by_ref();
                    }
                    std::task::Poll::<()>::Pending
                }));
            }
            runtime.block_on(async {
                for _ in 0..50 {
                    runtime::task::yield_now().await;
                }
            });
            drop(runtime);
            assert_eq!(drops.count(), 80, "{workers} workers, busy: {is_busy}");
        }
    }
}

#[test]
fn destructors_that_panic_at_shutdown_do_not_keep_others_from_being_dropped() {
    let _watchdog = watchdog();
    struct Panics(Drops);
    impl Drop for Panics {
        fn drop(&mut self) {
            drop(self.0.token());
            std::panic::resume_unwind(Box::new("in a destructor"));
        }
    }
    each_kind(|runtime| {
        let drops = Drops::default();
        for i in 0..40 {
            let panics = Panics(drops.clone());
            runtime.spawn(async move {
                let _panics = panics;
                if i % 2 == 0 {
                    loop {
                        runtime::task::yield_now().await;
                    }
                }
                pending::<()>().await;
            });
        }
        drop(runtime);
        assert_eq!(drops.count(), 40);
    });
}

/// The socket keeps the waker that waits for it, and the waker keeps the socket: the runtime's end takes them
/// apart.
#[test]
fn a_waker_that_owns_the_socket_it_waits_for_is_dropped_at_shutdown() {
    struct Owner {
        _listener: Arc<runtime::net::TcpListener>,
        dropped: Arc<AtomicBool>,
    }
    impl std::task::Wake for Owner {
        fn wake(self: Arc<Self>) {}
    }
    impl Drop for Owner {
        fn drop(&mut self) {
            self.dropped.store(true, SeqCst);
        }
    }
    each_kind(|runtime| {
        let listener =
            runtime.block_on(async { runtime::net::TcpListener::bind("127.0.0.1:0").await }).unwrap();
        let (listener, dropped) = (Arc::new(listener), Arc::new(AtomicBool::new(false)));
        let owner = Owner { _listener: listener.clone(), dropped: dropped.clone() };
        let waker = std::task::Waker::from(Arc::new(owner));
        assert!(listener.poll_accept(&mut std::task::Context::from_waker(&waker)).is_pending());
        drop((listener, waker));
        assert!(!dropped.load(SeqCst));
        drop(runtime);
        assert!(dropped.load(SeqCst));
    });
}

#[test]
fn shutdown_returns_in_time_though_a_task_is_stuck() {
    let _watchdog = watchdog();
    for workers in [1, 3] {
        for limit in [Duration::ZERO, Duration::from_millis(30)] {
            let runtime = build(workers);
            let (gate, drops) = (Gate::default(), Drops::default());
            let (begun, has_begun) = mpsc::channel();
            let (stuck, token) = (gate.clone(), drops.token());
            runtime.spawn(async move {
                let _token = token;
                begun.send(()).unwrap();
                stuck.wait();
                pending::<()>().await;
            });
            waiting(runtime.handle(), &drops);
            has_begun.recv().unwrap();
            let start = Instant::now();
            runtime.shutdown_timeout(limit);
            assert!(start.elapsed() >= limit && start.elapsed() < LIMIT);
            gate.open();
            until("the stuck task is dropped when it returns", || drops.count() == 2);
        }
    }
}

#[test]
fn shutdown_returns_in_time_though_a_blocking_closure_is_stuck() {
    let _watchdog = watchdog();
    for workers in KINDS {
        for in_background in [false, true] {
            let runtime = build(workers);
            let (gate, drops) = (Gate::default(), Drops::default());
            let (begun, has_begun) = mpsc::channel();
            let stuck = gate.clone();
            let closure = runtime.spawn_blocking(move || {
                begun.send(()).unwrap();
                stuck.wait();
                7
            });
            waiting(runtime.handle(), &drops);
            has_begun.recv().unwrap();
            let handle = runtime.handle().clone();
            match in_background {
                true => runtime.shutdown_background(),
                false => runtime.shutdown_timeout(Duration::from_millis(10)),
            }
            until("the task is dropped", || drops.count() == 1);
            assert!(!closure.is_finished());
            gate.open();
            // What has begun ends, and its output is not lost.
            assert_eq!(handle.block_on(closure).unwrap(), 7);
        }
    }
}

#[test]
fn dropping_a_runtime_waits_for_blocking_closures_that_have_begun_and_drops_the_others() {
    let _watchdog = watchdog();
    for workers in KINDS {
        let runtime = builder(workers).max_blocking_threads(1).build().unwrap();
        let (gate, drops) = (Gate::default(), Drops::default());
        let (begun, has_begun) = mpsc::channel();
        let (stuck, token) = (gate.clone(), drops.token());
        let running = runtime.spawn_blocking(move || {
            let _token = token;
            begun.send(()).unwrap();
            stuck.wait();
        });
        has_begun.recv().unwrap();
        let token = drops.token();
        let queued = runtime.spawn_blocking(move || drop(token));
        let handle = runtime.handle().clone();
        let dropper = thread::spawn(move || drop(runtime));
        until("the queued one is dropped", || drops.count() == 1);
        assert!(handle.block_on(queued).unwrap_err().is_cancelled());
        assert!(!dropper.is_finished());
        gate.open();
        dropper.join().unwrap();
        assert_eq!(drops.count(), 2);
        assert!(running.is_finished());
    }
}

#[test]
fn a_closure_whose_thread_is_on_its_way_runs_though_the_runtime_ends() {
    let _watchdog = watchdog();
    for workers in KINDS {
        let (gate, is_armed) = (Gate::default(), Arc::new(AtomicBool::new(false)));
        let hook = {
            let (gate, is_armed) = (gate.clone(), is_armed.clone());
            move || {
                if is_armed.load(SeqCst) {
                    gate.wait();
                }
            }
        };
        let runtime = builder(workers).max_blocking_threads(1).on_thread_start(hook).build().unwrap();
        until("the workers are past the hook", || {
            let metrics = runtime.metrics();
            (0..workers).all(|worker| metrics.worker_park_count(worker) > 0)
        });
        is_armed.store(true, SeqCst);
        let first = runtime.spawn_blocking(|| 7);
        let second = runtime.spawn_blocking(|| 8);
        let handle = runtime.handle().clone();
        let dropper = thread::spawn(move || drop(runtime));
        until("the pool is closed", || handle.spawn_blocking(|| ()).is_finished());
        assert!(!first.is_finished() && !dropper.is_finished());
        gate.open();
        assert_eq!(handle.block_on(first).unwrap(), 7);
        assert!(handle.block_on(second).unwrap_err().is_cancelled(), "no thread was on its way for it");
        dropper.join().unwrap();
    }
}

#[test]
fn a_block_on_in_a_blocking_closure_learns_that_the_runtime_ends() {
    let _watchdog = watchdog();
    for workers in KINDS {
        let runtime = build(workers);
        let handle = runtime.handle().clone();
        let (begun, has_begun) = mpsc::channel();
        let closure = runtime.spawn_blocking(move || {
            let task = handle.spawn(pending::<()>());
            begun.send(()).unwrap();
            handle.block_on(task).unwrap_err().is_cancelled()
        });
        has_begun.recv().unwrap();
        let handle = runtime.handle().clone();
        drop(runtime);
        assert!(handle.block_on(closure).unwrap());
    }
}

#[test]
fn a_block_on_in_block_in_place_learns_that_the_runtime_ends() {
    let _watchdog = watchdog();
    for workers in [1, 3] {
        // The task that it waits for is asleep, or in a queue, or asleep beside a task that is woken from
        // outside.
        for kind in 0..3 {
            let runtime = build(workers);
            let handle = runtime.handle().clone();
            let drops = Drops::default();
            let (begun, has_begun) = mpsc::channel();
            let (told, tell) = mpsc::channel();
            let inside = drops.clone();
            runtime.spawn(async move {
                let task = runtime::spawn(async move {
                    if kind == 1 {
                        loop {
                            runtime::task::yield_now().await;
                        }
                    }
                    pending::<()>().await;
                });
                if kind == 2 {
                    _ = woken(&handle, &inside);
                }
                begun.send(()).unwrap();
                let error = runtime::task::block_in_place(|| handle.block_on(task)).unwrap_err();
                told.send(error.is_cancelled()).unwrap();
            });
            has_begun.recv().unwrap();
            drop(runtime);
            assert!(tell.recv().unwrap());
        }
    }
}

#[test]
fn spawns_that_race_with_shutdown_run_or_are_dropped() {
    let _watchdog = watchdog();
    for workers in KINDS {
        for _ in 0..100 {
            let runtime = build(workers);
            let handle = runtime.handle().clone();
            let drops = Drops::default();
            let inside = drops.clone();
            let spawner = thread::spawn(move || {
                for _ in 0..100 {
                    let token = inside.token();
                    let task = handle.spawn(async move {
                        let _token = token;
                        runtime::task::yield_now().await;
                    });
                    drop(task);
                }
            });
            drop(runtime);
            spawner.join().unwrap();
            assert_eq!(drops.count(), 100);
        }
    }
}

/// A worker that blocks after the spare workers of the shutdown have gone gets one of its own.
#[test]
fn a_worker_may_block_long_after_the_shutdown_has_begun() {
    let _watchdog = watchdog();
    for _ in 0..10 {
        let runtime = build(2);
        let (release_first, first_released) = mpsc::channel();
        let (release_second, second_released) = mpsc::channel();
        let (begun, has_begun) = mpsc::channel();
        let (told, tell) = mpsc::channel();
        // One worker is stuck in a poll, with a task that waits. It blocks for that task when all others have
        // nothing left to do.
        let second_begun = begun.clone();
        let handle = runtime.handle().clone();
        runtime.spawn(async move {
            let task = loop {
                let (at, place) = mpsc::channel();
                let task = runtime::spawn(async move {
                    at.send(thread::current().id()).unwrap();
                    pending::<()>().await;
                });
                let place = loop {
                    match place.try_recv() {
                        Ok(place) => break place,
                        Err(_) => runtime::task::yield_now().await,
                    }
                };
                if place == thread::current().id() {
                    break task;
                }
                task.abort();
            };
            second_begun.send(()).unwrap();
            second_released.recv().unwrap();
            let error = runtime::task::block_in_place(|| handle.block_on(task)).unwrap_err();
            told.send(error.is_cancelled()).unwrap();
        });
        has_begun.recv().unwrap();
        // The other blocks, so there is a spare worker.
        let first = runtime.spawn(async move {
            runtime::task::block_in_place(|| {
                begun.send(()).unwrap();
                first_released.recv().unwrap();
            });
        });
        has_begun.recv().unwrap();
        runtime.shutdown_background();
        release_first.send(()).unwrap();
        until("the other is back", || first.is_finished());
        release_second.send(()).unwrap();
        assert_eq!(tell.recv_timeout(LIMIT), Ok(true));
    }
}

/// A spare worker blocks, for a task that no thread has taken, when the only permanent worker is about to
/// leave.
#[test]
fn a_spare_thread_may_block_while_the_shutdown_begins() {
    let _watchdog = watchdog();
    for _ in 0..10 {
        let runtime = build(1);
        let handle = runtime.handle().clone();
        let (unblock_worker, worker_unblocked) = mpsc::channel();
        let (release_worker, worker_released) = mpsc::channel();
        let (release_spare, spare_released) = mpsc::channel();
        let (here, has_come) = mpsc::channel();
        let (told, tell) = mpsc::channel();
        let worker_here = here.clone();
        runtime.spawn(async move {
            runtime::task::block_in_place(|| {
                worker_here.send(()).unwrap();
                worker_unblocked.recv().unwrap();
            });
            worker_here.send(()).unwrap();
            // Stuck in its poll.
            worker_released.recv().unwrap();
        });
        has_come.recv().unwrap();
        runtime.spawn(async move {
            here.send(()).unwrap();
            spare_released.recv().unwrap();
            let task = runtime::spawn(pending::<()>());
            let error = runtime::task::block_in_place(|| {
                here.send(()).unwrap();
                handle.block_on(task)
            });
            told.send(error.unwrap_err().is_cancelled()).unwrap();
        });
        has_come.recv().unwrap();
        unblock_worker.send(()).unwrap();
        has_come.recv().unwrap();
        release_spare.send(()).unwrap();
        has_come.recv().unwrap();
        runtime.shutdown_background();
        release_worker.send(()).unwrap();
        assert_eq!(tell.recv_timeout(LIMIT), Ok(true));
    }
}
