//! Whole programs whose own code runs at a bad moment: a name, a hook or a waker that takes its time, or
//! wakes tasks itself. Each must end.

mod support;

use std::future::poll_fn;
use std::mem::take;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use runtime::parallel::{Deadlock, isolated, join, mark_blocked};
use runtime::sync::Notify;
use runtime::task::LocalSet;
use runtime::{Builder, Handle, Runtime, task, time};
use support::{
    HUGE_STACK, LIMIT, NoThreads, build, builder, has_shadow_memory, in_child, joined_scope, rounds,
    thread_number, until, until_asleep, wait_with, waker, watchdog,
};

/// A waker that says when it is called, and then blocks until the sender is dropped.
fn blocks() -> (Waker, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let ((call, called), (end, ended)) = (mpsc::channel(), mpsc::channel());
    let (call, ended) = (Mutex::new(call), Mutex::new(ended));
    let waker = waker(move || {
        _ = call.lock().unwrap().send(());
        _ = ended.lock().unwrap().recv();
    });
    (waker, called, end)
}

/// A waker that says when it is called.
fn tells() -> (Waker, mpsc::Receiver<()>) {
    let (call, called) = mpsc::channel();
    let call = Mutex::new(call);
    (waker(move || _ = call.lock().unwrap().send(())), called)
}

/// A `join` whose first closure splits until another thread has begun the second one, or `is_over` returns
/// true.
fn join_stolen(is_over: impl Fn() -> bool + Sync, second: impl FnOnce() + Send) {
    let is_stolen = AtomicBool::new(false);
    let first = || {
        while !is_stolen.load(SeqCst) && !is_over() {
            join(|| (), || ());
        }
    };
    let second = || {
        is_stolen.store(true, SeqCst);
        second();
    };
    join(first, second);
}

/// Returns when a task that is spawned now has run.
#[track_caller]
fn a_task_runs(runtime: &Runtime) {
    let (ran, runs) = mpsc::channel();
    runtime.spawn(async move { ran.send(()).unwrap() });
    runs.recv_timeout(LIMIT / 4).expect("a task runs while foreign code blocks");
}

/// The last worker has arrived and sleeps, and a spare worker that was counted on gets no thread.
#[test]
fn a_runtime_ends_if_a_spare_worker_is_refused_after_the_others_have_ended() {
    let _watchdog = watchdog();
    for _ in rounds(10) {
        static ENDS: AtomicBool = AtomicBool::new(false);
        static RELEASED: AtomicBool = AtomicBool::new(false);
        static WORKER: AtomicI32 = AtomicI32::new(0);
        static CALLS: AtomicUsize = AtomicUsize::new(0);
        ENDS.store(false, SeqCst);
        RELEASED.store(false, SeqCst);
        WORKER.store(0, SeqCst);
        CALLS.store(0, SeqCst);
        let name = || {
            let worker = WORKER.load(SeqCst);
            if worker == 0 {
                return "worker".to_owned();
            }
            // The first call comes before the worker is woken for the shutdown.
            if thread_number() != worker && ENDS.load(SeqCst) && CALLS.fetch_add(1, SeqCst) > 0 {
                RELEASED.store(true, SeqCst);
                until_asleep(worker);
            }
            std::panic::resume_unwind(Box::new(()));
        };
        let runtime =
            Builder::new_multi_thread().worker_threads(1).enable_all().thread_name_fn(name).build().unwrap();
        let (begin, begun) = mpsc::channel();
        runtime.spawn(async move {
            WORKER.store(thread_number(), SeqCst);
            task::block_in_place(|| {
                begin.send(()).unwrap();
                let begin = Instant::now();
                // If no thread asks for a spare worker a second time, there is nothing to see.
                while !RELEASED.load(SeqCst) && begin.elapsed() < Duration::from_secs(1) {
                    thread::sleep(Duration::from_millis(1));
                }
            });
        });
        begun.recv_timeout(LIMIT).unwrap();
        ENDS.store(true, SeqCst);
        drop(runtime);
    }
}

/// The hook wakes a task, which goes to the LIFO slot of a worker that takes part in the shutdown no more.
#[test]
fn a_runtime_ends_if_a_hook_wakes_a_task_when_its_worker_has_ended() {
    let _watchdog = watchdog();
    for _ in rounds(20) {
        static WAKER: Mutex<Option<Waker>> = Mutex::new(None);
        static ENDS: AtomicBool = AtomicBool::new(false);
        static WOKEN: AtomicBool = AtomicBool::new(false);
        ENDS.store(false, SeqCst);
        WOKEN.store(false, SeqCst);
        let hook = || {
            let waker = if ENDS.load(SeqCst) { WAKER.lock().unwrap().take() } else { None };
            if let Some(waker) = waker {
                waker.wake();
                WOKEN.store(true, SeqCst);
                // Meanwhile the other worker ends.
                thread::sleep(Duration::from_millis(1));
            }
        };
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .spare_workers(0)
            .on_thread_park(hook)
            .build()
            .unwrap();
        let (begin, begun) = mpsc::channel();
        let mut is_first = true;
        runtime.spawn(poll_fn(move |cx| {
            *WAKER.lock().unwrap() = Some(cx.waker().clone());
            if take(&mut is_first) {
                let begin = begin.clone();
                runtime::spawn(async move {
                    begin.send(()).unwrap();
                    let begin = Instant::now();
                    while !WOKEN.load(SeqCst) && begin.elapsed() < Duration::from_secs(1) {
                        std::hint::spin_loop();
                    }
                });
            }
            Poll::<()>::Pending
        }));
        begun.recv_timeout(LIMIT).unwrap();
        thread::sleep(Duration::from_millis(5));
        ENDS.store(true, SeqCst);
        drop(runtime);
        WAKER.lock().unwrap().take();
    }
}

/// The waker that polled the set is called when a timer of a task in the set fires.
#[test]
fn a_waker_of_a_local_set_may_block_while_a_worker_sleeps_in_the_driver() {
    let _watchdog = watchdog();
    let runtime = build(1);
    let _context = runtime.enter();
    let (blocks, called, end) = blocks();
    let mut set = LocalSet::new();
    // Long enough that the monitor rests when the timer fires.
    set.spawn_local(time::sleep(Duration::from_millis(200)));
    wait_with(&blocks, Pin::new(&mut set));
    called.recv_timeout(LIMIT).unwrap();
    a_task_runs(&runtime);
    drop(end);
}

/// The same, if the waker panics.
#[test]
fn a_waker_of_a_local_set_may_panic_while_a_worker_sleeps_in_the_driver() {
    let _watchdog = watchdog();
    let runtime = build(1);
    let _context = runtime.enter();
    let mut set = LocalSet::new();
    set.spawn_local(time::sleep(Duration::from_millis(20)));
    let (called, calls) = mpsc::channel();
    let called = Mutex::new(called);
    let panics = waker(move || {
        called.lock().unwrap().send(()).unwrap();
        std::panic::resume_unwind(Box::new(()));
    });
    wait_with(&panics, Pin::new(&mut set));
    calls.recv_timeout(LIMIT).unwrap();
    runtime.block_on(runtime.spawn(async {})).unwrap();
}

/// A worker that waits for a child job sees to timers. The waker of one takes a lock that the computation
/// holds.
#[test]
fn a_foreign_waker_may_take_a_lock_that_a_computation_holds_across_a_join() {
    let _watchdog = watchdog();
    for workers in [1, 2] {
        static LOCK: Mutex<()> = Mutex::new(());
        // A spare worker would call the waker.
        let runtime = builder(workers).spare_workers(0).build().unwrap();
        let _context = runtime.enter();
        let woken = Arc::new(AtomicBool::new(false));
        let wakes = woken.clone();
        let locks = waker(move || {
            drop(LOCK.lock().unwrap());
            wakes.store(true, SeqCst);
        });
        let mut sleep = pin!(time::sleep(Duration::from_millis(50)));
        wait_with(&locks, sleep.as_mut());
        let computed = runtime.compute(move || {
            let _guard = LOCK.lock().unwrap();
            let begin = Instant::now();
            let is_short = || begin.elapsed() < Duration::from_millis(200);
            isolated(|| join_stolen(|| !is_short(), || until("it was long", || !is_short())));
        });
        runtime.block_on(computed).unwrap();
        until("the waker was called", || woken.load(SeqCst));
    }
}

/// Two timers fire in the same turn of the driver.
#[test]
fn a_foreign_waker_that_blocks_keeps_no_other_waker_of_its_turn() {
    let _watchdog = watchdog();
    for workers in [1, 2] {
        let runtime = build(workers);
        let _context = runtime.enter();
        let at = time::Instant::now() + Duration::from_millis(300);
        let ((blocks, _called, end), (tells, told)) = (blocks(), tells());
        let (mut first, mut second) = (pin!(time::sleep_until(at)), pin!(time::sleep_until(at)));
        wait_with(&blocks, first.as_mut());
        wait_with(&tells, second.as_mut());
        told.recv_timeout(LIMIT).unwrap();
        drop(end);
    }
}

/// The monitor, which is to find the stuck worker, starts a spare worker.
#[test]
fn a_name_that_takes_its_time_does_not_keep_the_monitor() {
    let _watchdog = watchdog();
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let (end, ended) = mpsc::channel::<()>();
    let ended = Mutex::new(ended);
    let runtime = builder(2)
        .thread_name_fn(move || {
            if ASKED.fetch_add(1, SeqCst) >= 2 {
                _ = ended.lock().unwrap().recv();
            }
            "worker".to_owned()
        })
        .build()
        .unwrap();
    // Both workers are stuck, and a task waits.
    let (release, released) = mpsc::channel::<()>();
    let released = Arc::new(Mutex::new(released));
    let threads = [(); 2].map(|()| {
        let (released, (begin, begun)) = (released.clone(), mpsc::channel());
        runtime.spawn(async move {
            begin.send(thread_number()).unwrap();
            _ = released.lock().unwrap().recv();
        });
        begun.recv_timeout(LIMIT).unwrap()
    });
    runtime.spawn(async {});
    until("a spare worker is to be named", || ASKED.load(SeqCst) > 2);
    drop(release);
    threads.into_iter().for_each(until_asleep);
    // The child is in the LIFO slot of a stuck worker, beside a worker that sleeps.
    let ran = Arc::new(AtomicBool::new(false));
    let runs = ran.clone();
    let task = runtime.spawn(async move {
        runtime::spawn(async move { runs.store(true, SeqCst) });
        until("the child has run", || ran.load(SeqCst));
    });
    runtime.block_on(task).unwrap();
    drop(end);
}

/// The only thread for blocking closures waits for the waker that waits its turn.
#[test]
fn a_foreign_waker_does_not_wait_for_a_thread_that_waits_for_it() {
    let _watchdog = watchdog();
    let runtime = builder(1).max_blocking_threads(1).build().unwrap();
    let _context = runtime.enter();
    let at = time::Instant::now() + Duration::from_millis(300);
    let ((blocks, _called, end), (tells, told)) = (blocks(), tells());
    let (mut first, mut second) = (pin!(time::sleep_until(at)), pin!(time::sleep_until(at)));
    wait_with(&blocks, first.as_mut());
    wait_with(&tells, second.as_mut());
    let closure = runtime.spawn_blocking(move || told.recv_timeout(LIMIT));
    runtime.block_on(closure).unwrap().unwrap();
    drop(end);
}

/// As above, while the runtime ends: then there are no threads for blocking closures.
#[test]
fn a_foreign_waker_may_take_a_lock_of_a_computation_during_the_shutdown() {
    let _watchdog = watchdog();
    static LOCK: Mutex<()> = Mutex::new(());
    let runtime = builder(2).spare_workers(0).build().unwrap();
    let locks = waker(|| drop(LOCK.lock().unwrap()));
    let mut sleep = {
        let _context = runtime.enter();
        Box::pin(time::sleep(Duration::from_millis(50)))
    };
    wait_with(&locks, sleep.as_mut());
    let (begin, begun) = mpsc::channel();
    let computed = runtime.compute(move || {
        let _guard = LOCK.lock().unwrap();
        let start = Instant::now();
        let is_short = || start.elapsed() < Duration::from_millis(200);
        let second = || {
            begin.send(()).unwrap();
            until("it was long", || !is_short());
        };
        isolated(|| join_stolen(|| !is_short(), second));
    });
    begun.recv_timeout(LIMIT).unwrap();
    drop(runtime);
    drop(computed);
}

/// The thread that makes names does not wait for itself.
#[test]
fn a_runtime_may_be_dropped_by_the_function_that_makes_its_names() {
    let _watchdog = watchdog();
    static RUNTIME: Mutex<Option<Runtime>> = Mutex::new(None);
    static DROPPED: AtomicBool = AtomicBool::new(false);
    let runtime = builder(1)
        .thread_name_fn(|| {
            let runtime = RUNTIME.lock().unwrap().take();
            if runtime.is_some() {
                drop(runtime);
                DROPPED.store(true, SeqCst);
            }
            "worker".to_owned()
        })
        .build()
        .unwrap();
    let (end, ended) = mpsc::channel::<()>();
    let handle = runtime.handle().clone();
    *RUNTIME.lock().unwrap() = Some(runtime);
    handle.spawn(async move { task::block_in_place(|| _ = ended.recv()) });
    handle.spawn(async {});
    until("the runtime was dropped", || DROPPED.load(SeqCst));
    drop(end);
}

/// A waker waits for a child job, and that job for another waker of the same turn.
#[test]
fn a_foreign_waker_may_wait_for_another_one_of_its_turn() {
    let _watchdog = watchdog();
    let runtime = builder(2).spare_workers(0).build().unwrap();
    let _context = runtime.enter();
    let at = time::Instant::now() + Duration::from_millis(300);
    let (open, opened) = mpsc::channel();
    let (end, ended) = mpsc::channel();
    let (open, opened, end) = (Mutex::new(open), Mutex::new(opened), Mutex::new(end));
    let forks = waker(move || {
        join_stolen(|| false, || opened.lock().unwrap().recv().unwrap());
        end.lock().unwrap().send(()).unwrap();
    });
    let opens = waker(move || open.lock().unwrap().send(()).unwrap());
    let (mut first, mut second) = (pin!(time::sleep_until(at)), pin!(time::sleep_until(at)));
    wait_with(&forks, first.as_mut());
    wait_with(&opens, second.as_mut());
    ended.recv_timeout(LIMIT).unwrap();
}

/// The waker of a task keeps the state of the task's runtime. It is the last to do so, and is used up when a
/// timer of another runtime fires.
#[test]
fn a_destructor_of_another_runtime_may_block_while_a_worker_sleeps_in_the_driver() {
    struct Blocks(Mutex<mpsc::Receiver<()>>);

    impl Drop for Blocks {
        fn drop(&mut self) {
            _ = self.0.lock().unwrap().recv();
        }
    }

    let _watchdog = watchdog();
    let runtime = build(1);
    let sleep = {
        let _context = runtime.enter();
        // Long enough that the monitor rests when the timer fires.
        Arc::new(Mutex::new(Box::pin(time::sleep(Duration::from_millis(200)))))
    };
    let (end, ended) = mpsc::channel();
    let (begin, begun) = mpsc::channel();
    let blocks = Blocks(Mutex::new(ended));
    let mut other = builder(1);
    other.on_thread_start(move || _ = &blocks);
    let built = other.build().unwrap();
    drop(other);
    let shared = sleep.clone();
    drop(built.spawn(poll_fn(move |cx| {
        assert!(shared.lock().unwrap().as_mut().poll(cx).is_pending());
        begin.send(()).unwrap();
        Poll::<()>::Pending
    })));
    begun.recv_timeout(LIMIT).unwrap();
    drop(built);
    until("the timer has fired", || sleep.lock().unwrap().is_elapsed());
    a_task_runs(&runtime);
    drop(end);
}

/// The thread that waits in an isolated region has both wakers called elsewhere. The first to be called waits
/// for the second.
#[test]
fn wakers_of_a_thread_that_waits_in_a_region_do_not_wait_for_each_other() {
    let _watchdog = watchdog();
    let runtime = builder(2).spare_workers(0).build().unwrap();
    let _context = runtime.enter();
    let called = Arc::new(AtomicUsize::new(0));
    let meets = {
        let called = called.clone();
        waker(move || {
            called.fetch_add(1, SeqCst);
            until("both are called", || called.load(SeqCst) == 2);
        })
    };
    let at = time::Instant::now() + Duration::from_millis(300);
    let (mut first, mut second) = (pin!(time::sleep_until(at)), pin!(time::sleep_until(at)));
    wait_with(&meets, first.as_mut());
    wait_with(&meets, second.as_mut());
    let computed = runtime.compute(move || {
        let are_called = || called.load(SeqCst) == 2;
        isolated(|| join_stolen(are_called, || until("both are called", are_called)));
    });
    runtime.block_on(computed).unwrap();
}

/// The only thread for blocking closures takes part in the deadlock.
#[test]
fn a_deadlock_handler_does_not_wait_for_a_thread_of_the_deadlock() {
    let _watchdog = watchdog();
    let (end, ended) = mpsc::channel::<()>();
    let end = Mutex::new(Some(end));
    let runtime = builder(2)
        .spare_workers(0)
        .max_blocking_threads(1)
        .deadlock_handler(move |_| drop(end.lock().unwrap().take()))
        .build()
        .unwrap();
    let ended = Arc::new(Mutex::new(ended));
    let marked = Arc::new(AtomicUsize::new(0));
    let waits = || {
        let (ended, marked) = (ended.clone(), marked.clone());
        move || {
            let _mark = mark_blocked();
            marked.fetch_add(1, SeqCst);
            _ = ended.lock().unwrap().recv();
        }
    };
    let closure = runtime.spawn_blocking(waits());
    let second = waits();
    let compute = move || {
        let first = || {
            while marked.load(SeqCst) < 2 {
                join(|| (), || ());
            }
        };
        isolated(|| join(first, second));
    };
    let (done, is_done) = mpsc::channel();
    // The task begins the computation, so that it waits before both workers are in there.
    runtime.spawn(async move {
        let computed = runtime::compute(compute);
        done.send((closure.await, computed.await)).unwrap();
    });
    // This thread is in no `block_on`, which would count as a thread that may go on.
    let (closure, computed) = is_done.recv_timeout(LIMIT).unwrap();
    closure.unwrap();
    computed.unwrap();
}

/// As at the end of any other wait: a waker that panics does not keep the runtime from ending.
#[test]
fn a_waker_of_a_local_set_may_panic_at_the_end_of_a_runtime() {
    let _watchdog = watchdog();
    let runtime = build(1);
    let handle = runtime.handle().clone();
    let mut set = LocalSet::new();
    {
        let _context = runtime.enter();
        set.spawn_local(time::sleep(Duration::from_secs(3600)));
        let panics = waker(|| std::panic::resume_unwind(Box::new(())));
        wait_with(&panics, Pin::new(&mut set));
    }
    let (begin, begun) = mpsc::channel();
    let waits = thread::spawn(move || {
        handle.block_on(async {
            begin.send(()).unwrap();
            time::sleep(Duration::from_secs(3600)).await;
        });
    });
    begun.recv_timeout(LIMIT).unwrap();
    thread::sleep(Duration::from_millis(20));
    drop(runtime);
    // Its sleep panics, because the runtime has ended.
    assert!(waits.join().is_err());
}

/// No monitor looks any more when the last timers are woken.
#[test]
fn wakers_at_the_end_of_a_runtime_do_not_wait_for_each_other() {
    let _watchdog = watchdog();
    for workers in [0, 1, 2] {
        let runtime = build(workers);
        let called = Arc::new(AtomicUsize::new(0));
        let meets = {
            let called = called.clone();
            waker(move || {
                called.fetch_add(1, SeqCst);
                until("all are called", || called.load(SeqCst) == 3);
            })
        };
        let mut sleeps = {
            let _context = runtime.enter();
            [(); 3].map(|()| Box::pin(time::sleep(Duration::from_secs(3600))))
        };
        for sleep in &mut sleeps {
            wait_with(&meets, sleep.as_mut());
        }
        drop(runtime);
        assert_eq!(called.load(SeqCst), 3);
    }
}

/// The idle thread takes the first closure, and has a thread come for the second one. The name of that thread
/// waits for the first closure.
#[test]
fn a_name_does_not_wait_for_a_closure_that_has_its_thread() {
    let _watchdog = watchdog();
    for _ in rounds(50) {
        static IS_ARMED: AtomicBool = AtomicBool::new(false);
        static IS_DONE: AtomicBool = AtomicBool::new(false);
        IS_ARMED.store(false, SeqCst);
        IS_DONE.store(false, SeqCst);
        let name = || {
            until("the first closure runs", || !IS_ARMED.load(SeqCst) || IS_DONE.load(SeqCst));
            "worker".to_owned()
        };
        let runtime = builder(1).thread_name_fn(name).build().unwrap();
        let metrics = runtime.metrics();
        runtime.block_on(runtime.spawn_blocking(|| ())).unwrap();
        until("the thread is idle", || metrics.num_idle_blocking_threads() == 1);
        IS_ARMED.store(true, SeqCst);
        let (ran, runs) = mpsc::channel();
        runtime.spawn_blocking(move || {
            IS_DONE.store(true, SeqCst);
            ran.send(()).unwrap();
        });
        let second = runtime.spawn_blocking(|| ());
        runs.recv_timeout(LIMIT / 4).expect("the idle thread runs the first closure");
        runtime.block_on(second).unwrap();
    }
}

/// While a thread is named, a closure comes that an idle thread could run.
#[test]
fn a_name_that_takes_its_time_keeps_no_closure_from_an_idle_thread() {
    let _watchdog = watchdog();
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let (end, ended) = mpsc::channel::<()>();
    let ended = Mutex::new(ended);
    // The worker and the first thread for closures have their names at once.
    let name = move || {
        if ASKED.fetch_add(1, SeqCst) >= 2 {
            _ = ended.lock().unwrap().recv();
        }
        "worker".to_owned()
    };
    let runtime = builder(1).thread_name_fn(name).build().unwrap();
    let (release, released) = mpsc::channel::<()>();
    let (begin, begun) = mpsc::channel();
    let first = runtime.spawn_blocking(move || {
        begin.send(()).unwrap();
        _ = released.recv();
    });
    begun.recv_timeout(LIMIT).unwrap();
    joined_scope(|scope| {
        // A thread of its own, which may not be kept by the name, either.
        let second = scope.spawn(|| runtime.spawn_blocking(|| ()));
        until("the second thread is to be named", || ASKED.load(SeqCst) > 2);
        drop(release);
        runtime.block_on(first).unwrap();
        let metrics = runtime.metrics();
        until("the first thread is idle", || metrics.num_idle_blocking_threads() == 1);
        let (ran, runs) = mpsc::channel();
        runtime.spawn_blocking(move || ran.send(()).unwrap());
        runs.recv_timeout(LIMIT / 4).expect("the idle thread runs the closure");
        until("the caller does not wait for the name", || second.is_finished());
        drop(end);
        runtime.block_on(second.join().unwrap()).unwrap();
    });
}

/// As above, but a closure wants the name.
#[test]
fn a_runtime_may_be_dropped_by_the_name_of_a_thread_for_blocking_closures() {
    let _watchdog = watchdog();
    static RUNTIME: Mutex<Option<Runtime>> = Mutex::new(None);
    for workers in [0, 1] {
        let name = || {
            let runtime = RUNTIME.lock().unwrap().take();
            drop(runtime);
            "worker".to_owned()
        };
        let runtime = builder(workers).thread_name_fn(name).build().unwrap();
        let handle = runtime.handle().clone();
        *RUNTIME.lock().unwrap() = Some(runtime);
        let (ran, runs) = mpsc::channel();
        handle.spawn_blocking(move || ran.send(()).unwrap());
        runs.recv_timeout(LIMIT).expect("its thread was on its way when the runtime was dropped");
    }
}

/// The last thread to fall asleep has run a blocking closure. The handler waits for another closure.
#[test]
fn a_deadlock_handler_may_wait_for_a_blocking_closure() {
    let _watchdog = watchdog();
    static HANDLE: OnceLock<Handle> = OnceLock::new();
    let (end, ended) = mpsc::channel::<()>();
    let end = Mutex::new(Some(end));
    let handler = move |_: &Deadlock| {
        let (ran, runs) = mpsc::channel();
        HANDLE.get().unwrap().spawn_blocking(move || ran.send(()).unwrap());
        runs.recv_timeout(LIMIT).expect("a thread runs the closure");
        drop(end.lock().unwrap().take());
    };
    let runtime = builder(1).spare_workers(0).deadlock_handler(handler).build().unwrap();
    HANDLE.set(runtime.handle().clone()).unwrap();
    let worker = Arc::new(AtomicI32::new(0));
    let marked = worker.clone();
    let (begin, begun) = mpsc::channel();
    runtime.spawn_blocking(move || {
        begin.send(()).unwrap();
        until("the task is marked", || worker.load(SeqCst) > 0);
        until_asleep(worker.load(SeqCst));
    });
    begun.recv_timeout(LIMIT).unwrap();
    let (done, is_done) = mpsc::channel();
    runtime.spawn(async move {
        let _mark = mark_blocked();
        marked.store(thread_number(), SeqCst);
        _ = ended.recv();
        done.send(()).unwrap();
    });
    // This thread is in no `block_on`, which would count as a thread that may go on.
    is_done.recv_timeout(LIMIT).unwrap();
}

/// The hook for stalls wants a thread, and so do closures of the program. The system refuses all of these.
#[test]
fn the_monitor_drops_no_closure_of_the_program() {
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    static BY_MONITOR: AtomicUsize = AtomicUsize::new(0);

    struct Looks;

    impl Drop for Looks {
        fn drop(&mut self) {
            let is_monitor = thread::current().name() == Some("runtime-monitor");
            DROPPED.fetch_add(1, SeqCst);
            BY_MONITOR.fetch_add(is_monitor.into(), SeqCst);
        }
    }

    let _watchdog = watchdog();
    if has_shadow_memory() || !in_child("the_monitor_drops_no_closure_of_the_program", &[]) {
        return;
    }
    let runtime = builder(1)
        .spare_workers(0)
        .thread_stack_size(HUGE_STACK)
        .on_stall(|_| unreachable!("no thread runs it"))
        .build()
        .unwrap();
    let _refused = NoThreads::begin();
    let is_over = AtomicBool::new(false);
    joined_scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(SeqCst) {
                let looks = Looks;
                drop(runtime.spawn_blocking(move || drop(looks)));
            }
        });
        let metrics = runtime.metrics();
        for _ in rounds(100) {
            let (stalls, (end, ended)) = (metrics.stall_count(), mpsc::channel::<()>());
            let stuck = runtime.spawn(async move { _ = ended.recv() });
            let waits = runtime.spawn(async {});
            until("the monitor tells the stall", || metrics.stall_count() > stalls);
            let dropped = DROPPED.load(SeqCst);
            until("closures come meanwhile", || DROPPED.load(SeqCst) > dropped + 100);
            drop(end);
            runtime.block_on(async { (stuck.await.unwrap(), waits.await.unwrap()) });
        }
        is_over.store(true, SeqCst);
    });
    assert_eq!(BY_MONITOR.load(SeqCst), 0);
}

/// Both timers of a runtime with one thread fire in one turn, and the waker that is called first runs the
/// runtime until the other one is called.
#[test]
fn a_foreign_waker_may_drive_its_runtime_until_another_one_of_its_turn_is_called() {
    let _watchdog = watchdog();
    for (is_paused, is_reversed, is_busy) in
        [(false, false, false), (false, true, true), (false, false, true), (true, false, false)]
    {
        let mut builder = Builder::new_current_thread();
        let runtime = Arc::new(builder.enable_all().start_paused(is_paused).build().unwrap());
        let notify = Arc::new(Notify::new());
        let drives = {
            let (handle, notify) = (runtime.handle().clone(), notify.clone());
            waker(move || handle.block_on(notify.notified()))
        };
        let notifies = {
            let notify = notify.clone();
            waker(move || notify.notify_one())
        };
        runtime.block_on(async {
            let at = time::Instant::now() + Duration::from_millis(20);
            let mut sleeps = [(); 2].map(|()| Box::pin(time::sleep_until(at)));
            let wakers = if is_reversed { [&notifies, &drives] } else { [&drives, &notifies] };
            sleeps.iter_mut().zip(wakers).for_each(|(sleep, waker)| wait_with(waker, sleep.as_mut()));
            if is_busy {
                runtime::spawn(async {
                    loop {
                        task::yield_now().await;
                    }
                });
            }
            time::sleep_until(at + Duration::from_millis(1)).await;
        });
    }
}

#[test]
fn foreign_wakers_that_drive_their_runtime_do_not_use_up_the_stack() {
    let _watchdog = watchdog();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let handle = runtime.handle().clone();
    let called = Arc::new(AtomicUsize::new(0));
    let drives = {
        let called = called.clone();
        waker(move || {
            handle.block_on(task::yield_now());
            called.fetch_add(1, SeqCst);
        })
    };
    const TIMERS: usize = 20_000;
    runtime.block_on(async {
        let at = time::Instant::now() + Duration::from_millis(100);
        let mut sleeps: Vec<_> = (0..TIMERS).map(|_| Box::pin(time::sleep_until(at))).collect();
        sleeps.iter_mut().for_each(|sleep| wait_with(&drives, sleep.as_mut()));
        while called.load(SeqCst) < TIMERS {
            time::sleep(Duration::from_millis(1)).await;
        }
    });
}

/// More of them than may nest. The deepest waits for the clock, which has to move although wakers are left.
#[test]
fn foreign_wakers_that_wait_for_a_paused_clock_do_not_keep_it() {
    let _watchdog = watchdog();
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let handle = runtime.handle().clone();
    let called = Arc::new(AtomicUsize::new(0));
    let waits = {
        let called = called.clone();
        waker(move || {
            handle.block_on(time::sleep(Duration::from_millis(1)));
            called.fetch_add(1, SeqCst);
        })
    };
    const TIMERS: usize = 200;
    runtime.block_on(async {
        let at = time::Instant::now() + Duration::from_millis(100);
        let mut sleeps: Vec<_> = (0..TIMERS).map(|_| Box::pin(time::sleep_until(at))).collect();
        sleeps.iter_mut().for_each(|sleep| wait_with(&waits, sleep.as_mut()));
        while called.load(SeqCst) < TIMERS {
            time::sleep(Duration::from_millis(1)).await;
        }
    });
}
