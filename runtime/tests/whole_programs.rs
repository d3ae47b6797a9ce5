//! Small whole programs that hung, each because of how two or more parts of the scheduler meet. Each must
//! end.

mod support;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use runtime::parallel::{self, ThreadPoolBuilder, isolated, join, mark_blocked, scope};
use runtime::{Builder, Handle, net, task, time};
use support::{LIMIT, build, builder, joined_scope, rounds, until, watchdog};

#[test]
fn a_computation_runs_while_every_worker_blocks() {
    let _watchdog = watchdog();
    for (workers, tasks) in [(1, 1), (2, 8)] {
        let runtime = build(workers);
        let wait = || task::block_in_place(|| Handle::current().block_on(runtime::compute(|| 42)).unwrap());
        let tasks: Vec<_> = (0..tasks).map(|_| runtime.spawn(async move { wait() })).collect();
        tasks.into_iter().for_each(|task| assert_eq!(runtime.block_on(task).unwrap(), 42));
    }
}

#[test]
fn a_computation_runs_while_every_worker_is_in_a_call_that_says_nothing() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let (begin, begun) = mpsc::channel();
    let ends: Vec<_> = (0..2)
        .map(|_| {
            let (begin, (end, ended)) = (begin.clone(), mpsc::channel::<()>());
            runtime.spawn(async move {
                begin.send(()).unwrap();
                _ = ended.recv();
            });
            end
        })
        .collect();
    (0..2).for_each(|_| begun.recv_timeout(LIMIT).unwrap());
    let (sender, answer) = mpsc::channel();
    runtime.spawn(async move { sender.send(runtime::compute(|| 42).await.unwrap()).unwrap() });
    assert_eq!(answer.recv_timeout(LIMIT), Ok(42), "it waits for the blocked threads");
    drop(ends);
}

#[test]
fn child_jobs_are_run_by_others_while_every_worker_blocks() {
    let _watchdog = watchdog();
    let runtime = build(1);
    let computed = runtime.compute(|| {
        let (send, receive) = mpsc::channel();
        join(move || task::block_in_place(|| receive.recv().unwrap()), move || send.send(7).unwrap()).0
    });
    assert_eq!(runtime.block_on(computed).unwrap(), 7);
}

/// The last of the computations leaves its second half to a spare worker. That spare worker only serves as
/// long as the monitor does not count the computation's worker as blocked, and the monitor may be about to
/// rest.
#[test]
fn the_child_jobs_of_more_computations_than_workers_are_run_while_these_block() {
    let _watchdog = watchdog();
    let wait_for_second_half = || {
        let (send, receive) = mpsc::channel();
        let tasks = || Handle::current().block_on(async { task::yield_now().await });
        let second = move || {
            tasks();
            send.send(7).unwrap();
        };
        join(move || task::block_in_place(|| receive.recv().unwrap()), second).0
    };
    for round in rounds(12) {
        // A spare worker that only serves does not look again by itself.
        let runtime = builder(1).thread_keep_alive(Duration::from_secs(3600)).build().unwrap();
        // As long as the monitor looks before it rests, and a little more or less.
        thread::sleep(Duration::from_millis(u64::from(round) * 5));
        let compute = || runtime.spawn(async move { runtime::compute(wait_for_second_half).await.unwrap() });
        let computed: Vec<_> = (0..6).map(|_| compute()).collect();
        computed.into_iter().for_each(|task| assert_eq!(runtime.block_on(task).unwrap(), 7));
    }
}

#[test]
fn what_a_deadlock_handler_spawns_and_wakes_is_run() {
    let _watchdog = watchdog();
    for _ in rounds(20) {
        let handle = Arc::new(Mutex::new(None::<Handle>));
        let (spawned, ran) = mpsc::channel();
        let inner = handle.clone();
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .thread_keep_alive(Duration::from_millis(5))
            .deadlock_handler(move |_| {
                let spawned = spawned.clone();
                let handle = inner.lock().unwrap().clone().unwrap();
                handle.spawn(async move { spawned.send(()).unwrap() });
            })
            .build()
            .unwrap();
        *handle.lock().unwrap() = Some(runtime.handle().clone());
        let (end, ended) = mpsc::channel::<()>();
        // A spare worker comes for the task, rests, and is the last to fall asleep.
        let (ready, is_ready) = mpsc::channel();
        runtime.spawn(async move {
            runtime::spawn(async move { ready.send(()).unwrap() });
            let _mark = mark_blocked();
            _ = ended.recv();
        });
        is_ready.recv_timeout(LIMIT).unwrap();
        ran.recv_timeout(LIMIT).expect("the handler's task is run");
        // Otherwise the handle in the runtime's own handler would keep the runtime's state.
        handle.lock().unwrap().take();
        drop(end);
    }
}

/// Blocks until the gate is open.
struct BlockingWaker {
    is_entered: AtomicBool,
    is_open: Arc<AtomicBool>,
}

impl Wake for BlockingWaker {
    fn wake(self: Arc<Self>) {
        self.is_entered.store(true, SeqCst);
        while !self.is_open.load(SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn a_foreign_waker_that_blocks_holds_up_nobody_else() {
    let _watchdog = watchdog();
    for workers in [1, 2, 4] {
        let runtime = build(workers);
        let is_open = Arc::new(AtomicBool::new(false));
        let blocking =
            Arc::new(BlockingWaker { is_entered: AtomicBool::new(false), is_open: is_open.clone() });
        let waker = Waker::from(blocking.clone());
        // A timer that a worker fires, with a foreign waker. By then the monitor rests.
        let entered = runtime.enter();
        let mut sleep = pin!(time::sleep(Duration::from_millis(200)));
        drop(entered);
        assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        until("a worker is in the waker", || blocking.is_entered.load(SeqCst));
        for _ in 0..20 {
            let (send, receive) = mpsc::channel();
            runtime.spawn(async move {
                task::yield_now().await;
                time::sleep(Duration::from_millis(1)).await;
                send.send(()).unwrap();
            });
            receive.recv_timeout(LIMIT).expect("a task is run");
        }
        assert_eq!(runtime.block_on(runtime.compute(|| 42)).unwrap(), 42);
        runtime.block_on(async {
            let listener = net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let connect = runtime::spawn(async move { net::TcpStream::connect(address).await.map(drop) });
            listener.accept().await.unwrap();
            connect.await.unwrap().unwrap();
        });
        is_open.store(true, SeqCst);
    }
}

#[test]
fn a_child_job_behind_an_older_one_of_another_region_is_found() {
    let _watchdog = watchdog();
    let runtime = build(1);
    let other = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let computed = runtime.compute(move || {
        let (tx, rx) = mpsc::channel();
        let inner = || join(|| other.install(move || rx.recv().unwrap()), move || tx.send(7).unwrap()).0;
        join(|| isolated(inner), || ()).0
    });
    assert_eq!(runtime.block_on(computed).unwrap(), 7);
}

#[test]
fn a_child_job_of_a_thread_outside_behind_an_older_one_of_a_worker_is_found() {
    let _watchdog = watchdog();
    let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    for _ in rounds(50) {
        let sum = pool.install(|| {
            let part = |n: u64| isolated(|| join(|| join(|| n, || n).0, || join(|| n, || n).1));
            join(|| part(1), || join(|| part(2), || part(3)))
        });
        assert_eq!(sum, ((1, 1), ((2, 2), (3, 3))));
    }
}

/// The worker waits inside of the region for the pool's thread, which waits for a child job below.
#[test]
fn a_child_job_below_a_wait_in_a_region_is_run_by_a_spare_worker() {
    let _watchdog = watchdog();
    let runtime = build(1);
    let pool = Arc::new(ThreadPoolBuilder::new().num_threads(1).build().unwrap());
    let computed = runtime.compute(move || {
        let (send, receive) = mpsc::channel();
        scope(|scope| {
            scope.spawn(|_| isolated(|| pool.install(|| ())));
            join(|| pool.install(move || receive.recv().unwrap()), move || send.send(7).unwrap()).0
        })
    });
    assert_eq!(runtime.block_on(computed).unwrap(), 7);
}

#[test]
fn a_poll_that_splits_after_the_shutdown_has_begun_finds_help() {
    let _watchdog = watchdog();
    for workers in [1, 2] {
        let runtime = build(workers);
        let (begin, begun) = mpsc::channel();
        let (go_on, goes_on) = mpsc::channel::<()>();
        let (end, ended) = mpsc::channel();
        runtime.spawn(async move {
            begin.send(()).unwrap();
            _ = goes_on.recv();
            scope(|scope| {
                let (send, receive) = mpsc::channel();
                scope.spawn(move |_| send.send(1).unwrap());
                task::block_in_place(|| receive.recv().unwrap());
            });
            let (send, receive) = mpsc::channel();
            join(move || task::block_in_place(|| receive.recv().unwrap()), move || send.send(1).unwrap());
            end.send(()).unwrap();
        });
        begun.recv_timeout(LIMIT).unwrap();
        let dropped = thread::spawn(move || drop(runtime));
        // By now the shutdown should have begun.
        thread::sleep(Duration::from_millis(20));
        drop(go_on);
        ended.recv_timeout(LIMIT).expect("the poll ends");
        dropped.join().unwrap();
    }
}

#[test]
fn a_scope_whose_body_blocks_for_one_of_its_jobs_ends_on_every_kind_of_worker() {
    let _watchdog = watchdog();
    let runtime = build(1);
    let (end, ended) = mpsc::channel::<()>();
    let (begin, begun) = mpsc::channel();
    runtime.spawn(async move {
        begin.send(()).unwrap();
        task::block_in_place(|| _ = ended.recv());
    });
    begun.recv_timeout(LIMIT).unwrap();
    // On a spare worker.
    let waits = runtime.spawn(async {
        scope(|scope| {
            let (send, receive) = mpsc::channel();
            scope.spawn(move |_| send.send(1).unwrap());
            task::block_in_place(|| receive.recv().unwrap())
        })
    });
    let yields = runtime.spawn(async {
        let ran = AtomicBool::new(false);
        scope(|scope| {
            scope.spawn(|_| ran.store(true, SeqCst));
            while !ran.load(SeqCst) {
                parallel::yield_now();
            }
        });
    });
    assert_eq!(runtime.block_on(waits).unwrap(), 1);
    runtime.block_on(yields).unwrap();
    drop(end);
}

#[test]
fn a_runtime_ends_while_its_worker_waits_in_a_pool_for_a_thread_that_waits_for_its_tasks() {
    let _watchdog = watchdog();
    for round in rounds(300) {
        let runtime = build(1);
        let pool = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let handle = runtime.handle().clone();
        let (begin, begun) = mpsc::channel();
        runtime
            .compute(move || {
                pool.install(|| {
                    begin.send(()).unwrap();
                    while handle.block_on(handle.spawn(task::yield_now())).is_ok() {}
                });
            })
            .detach();
        begun.recv_timeout(LIMIT).unwrap();
        (0..50 * (round % 20)).for_each(|_| std::hint::spin_loop());
        drop(runtime);
    }
}

#[test]
fn a_stack_that_unwinds_runs_no_child_job_of_another_computation() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let pool = Arc::new(ThreadPoolBuilder::new().num_threads(1).build().unwrap());
    let seen = Arc::new(AtomicUsize::new(0));
    let (end, ended) = mpsc::channel::<()>();
    let (wait, waits) = mpsc::channel();
    let unwinding = runtime.compute(move || {
        let second = || {
            pool.install(move || {
                wait.send(()).unwrap();
                _ = ended.recv();
            });
        };
        _ = catch_unwind(AssertUnwindSafe(|| join(|| std::panic::resume_unwind(Box::new(1)), second)));
    });
    waits.recv_timeout(LIMIT).unwrap();
    let saw = seen.clone();
    let endless = move || {
        let begin = std::time::Instant::now();
        loop {
            saw.fetch_add(usize::from(thread::panicking()), SeqCst);
            join(|| (), || ());
            // Long enough to be shared.
            while begin.elapsed() < Duration::from_millis(2) {
                std::hint::spin_loop();
            }
        }
    };
    let innocent = runtime.compute(move || {
        join(&endless, &endless);
    });
    thread::sleep(Duration::from_millis(50));
    innocent.abort();
    assert!(runtime.block_on(innocent).unwrap_err().is_cancelled());
    assert_eq!(seen.load(SeqCst), 0, "a child job ran on a stack that unwinds");
    drop(end);
    runtime.block_on(unwinding).unwrap();
}

/// A scope in a destructor has only its own jobs run there, in a pool that goes breadth first, too.
#[test]
#[allow(deprecated)]
fn a_stack_that_unwinds_runs_no_older_job_of_a_breadth_first_pool() {
    struct ScopeInDrop;
    impl Drop for ScopeInDrop {
        fn drop(&mut self) {
            scope(|scope| scope.spawn(|_| ()));
        }
    }
    let _watchdog = watchdog();
    let pool = ThreadPoolBuilder::new().num_threads(1).breadth_first().build().unwrap();
    let unwinds = || {
        let _scope = ScopeInDrop;
        std::panic::resume_unwind(Box::new(1));
    };
    let (caught, saw) = pool.install(|| join(|| catch_unwind(unwinds), thread::panicking));
    assert!(caught.is_err() && !saw);
}

/// Another executor, in the poll of a task, whose budget it uses up. It calls `before_poll` before each poll.
fn receive_by_another_executor(before_poll: impl Fn() + Send + 'static) {
    let runtime = builder(1).build().unwrap();
    let task = runtime.spawn(async move {
        let (sender, mut receiver) = runtime::sync::mpsc::unbounded_channel();
        (0..1000).for_each(|n| sender.send(n).unwrap());
        let (mut polls, mut received) = (0, 0);
        while received < 1000 {
            before_poll();
            polls += 1;
            assert!(polls < 10_000, "it spins");
            let recv = pin!(receiver.recv());
            received += usize::from(recv.poll(&mut Context::from_waker(Waker::noop())).is_ready());
        }
    });
    runtime.block_on(task).unwrap();
}

#[test]
fn a_poll_after_poll_loop_of_another_executor_is_not_starved_of_its_budget() {
    let _watchdog = watchdog();
    receive_by_another_executor(|| ());
}

/// As above, with a `block_on` before each poll that uses up its own budget.
#[test]
fn another_executor_beside_a_nested_block_on_is_not_starved_of_its_budget() {
    let _watchdog = watchdog();
    receive_by_another_executor(|| {
        task::block_in_place(|| {
            Handle::current().block_on(async {
                for _ in 0..200 {
                    task::consume_budget().await;
                }
            });
        });
    });
}

/// Another executor with a waker for each of several futures.
#[test]
fn another_executor_with_several_wakers_is_not_starved_of_its_budget() {
    struct Own;
    impl Wake for Own {
        fn wake(self: Arc<Self>) {}
    }
    let _watchdog = watchdog();
    let runtime = builder(1).build().unwrap();
    let task = runtime.spawn(async {
        let wakers = [(); 3].map(|()| Waker::from(Arc::new(Own)));
        let (mut done, mut polls) = (0, 0);
        while done < 1000 {
            polls += 1;
            assert!(polls < 100_000, "it spins");
            let mut consumes = pin!(task::consume_budget());
            let mut context = Context::from_waker(&wakers[polls % 3]);
            done += usize::from(consumes.as_mut().poll(&mut context).is_ready());
        }
    });
    runtime.block_on(task).unwrap();
}

#[test]
fn a_job_runs_beside_a_task_that_is_always_ready() {
    let _watchdog = watchdog();
    for workers in [1, 2] {
        let runtime = build(workers);
        let tasks = (0..workers).map(|_| {
            runtime.spawn(async {
                let has_run = Arc::new(AtomicBool::new(false));
                let runs = has_run.clone();
                parallel::spawn(move || runs.store(true, SeqCst));
                while !has_run.load(SeqCst) {
                    task::yield_now().await;
                }
            })
        });
        let tasks: Vec<_> = tasks.collect();
        tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
    }
}

#[test]
fn a_child_job_of_a_worker_that_blocks_runs_beside_a_task_that_is_always_ready() {
    let _watchdog = watchdog();
    for workers in [1, 2] {
        let runtime = build(workers);
        for _ in 0..2 * workers {
            runtime.spawn(async {
                loop {
                    task::yield_now().await;
                }
            });
        }
        let waits = runtime.spawn(async {
            scope(|scope| {
                let (send, receive) = mpsc::channel();
                scope.spawn(move |_| send.send(7).unwrap());
                task::block_in_place(|| receive.recv().unwrap())
            })
        });
        assert_eq!(runtime.block_on(waits).unwrap(), 7);
    }
}

/// Keeps a CPU for 1 ms.
fn spin() {
    let begin = std::time::Instant::now();
    while begin.elapsed() < Duration::from_millis(1) {
        std::hint::spin_loop();
    }
}

/// Runs `f` while more threads than there are workers make `call` without a pause.
fn beside_calls(call: impl Fn() + Sync, f: impl FnOnce()) {
    let (is_over, begun) = (AtomicBool::new(false), AtomicUsize::new(0));
    joined_scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                while !is_over.load(SeqCst) {
                    call();
                    begun.fetch_add(1, SeqCst);
                }
            });
        }
        until("the calls are under way", || begun.load(SeqCst) > 100);
        f();
        is_over.store(true, SeqCst);
    });
}

#[test]
fn a_computation_begins_beside_calls_that_threads_outside_make_without_a_pause() {
    let _watchdog = watchdog();
    // One worker: no thread outside runs its own calls. No spare worker, which would take the computation.
    let runtime = builder(1).spare_workers(0).build().unwrap();
    let call = || {
        let _context = runtime.enter();
        join(spin, spin);
    };
    beside_calls(call, || assert_eq!(runtime.block_on(runtime.compute(|| 7)).unwrap(), 7));
}

/// A scope whose body blocks until a job of the scope has run.
fn wait_for_scope_job() {
    scope(|scope| {
        let (send, receive) = mpsc::channel();
        scope.spawn(move |_| send.send(()).unwrap());
        receive.recv().unwrap();
    });
}

#[test]
fn a_child_job_of_a_thread_that_blocks_runs_beside_calls_of_install_without_a_pause() {
    let _watchdog = watchdog();
    let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    beside_calls(|| pool.install(spin), || pool.install(wait_for_scope_job));
}

#[test]
fn the_oldest_job_runs_beside_tasks_and_younger_jobs_that_are_always_ready() {
    let _watchdog = watchdog();
    // A spare worker would take the oldest job.
    let runtime = builder(1).spare_workers(0).build().unwrap();
    let (run, ran) = mpsc::channel();
    let is_over = Arc::new(AtomicBool::new(false));
    let ends = is_over.clone();
    let task = runtime.spawn(async move {
        parallel::spawn(move || run.send(()).unwrap());
        while !ends.load(SeqCst) {
            parallel::spawn(|| ());
            let begin = std::time::Instant::now();
            while begin.elapsed() < Duration::from_micros(100) {
                std::hint::spin_loop();
            }
            task::yield_now().await;
        }
    });
    ran.recv_timeout(LIMIT).unwrap();
    is_over.store(true, SeqCst);
    runtime.block_on(task).unwrap();
}

#[test]
fn a_job_of_a_worker_that_spins_for_it_runs_beside_tasks_that_are_always_ready() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let is_over = Arc::new(AtomicBool::new(false));
    let ends = is_over.clone();
    let busy = runtime.spawn(async move {
        while !ends.load(SeqCst) {
            task::yield_now().await;
        }
    });
    let spins = runtime.spawn(async {
        let has_run = Arc::new(AtomicBool::new(false));
        let runs = has_run.clone();
        parallel::spawn(move || runs.store(true, SeqCst));
        while !has_run.load(SeqCst) {
            std::hint::spin_loop();
        }
    });
    runtime.block_on(spins).unwrap();
    is_over.store(true, SeqCst);
    runtime.block_on(busy).unwrap();
}

#[test]
fn a_child_job_of_a_thread_outside_that_blocks_runs_beside_tasks_that_are_always_ready() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let _context = runtime.enter();
    let polls = Arc::new(AtomicUsize::new(0));
    scope(|_| {
        for _ in 0..4 {
            let polls = polls.clone();
            runtime.spawn(async move {
                loop {
                    polls.fetch_add(1, SeqCst);
                    task::yield_now().await;
                }
            });
        }
        until("the workers are busy", || polls.load(SeqCst) > 100);
        wait_for_scope_job();
    });
}

#[test]
fn a_child_job_that_a_waiter_in_a_region_leaves_runs_beside_tasks_that_are_always_ready() {
    let _watchdog = watchdog();
    let runtime = builder(2).spare_workers(0).build().unwrap();
    let computed = runtime.compute(|| {
        for _ in 0..4 {
            runtime::spawn(async {
                loop {
                    task::yield_now().await;
                }
            });
        }
        let other = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let (send, receive) = mpsc::channel();
        scope(|scope| {
            scope.spawn(move |_| send.send(()).unwrap());
            isolated(|| other.install(move || receive.recv().unwrap()));
        });
    });
    runtime.block_on(computed).unwrap();
}

#[test]
fn a_call_comes_back_to_a_pool_from_a_region_in_another_one() {
    let _watchdog = watchdog();
    let build = || ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let (near, far) = (build(), build());
    let back = || isolated(|| near.install(|| 7));
    assert_eq!(near.install(|| isolated(|| far.install(back))), 7);
}
