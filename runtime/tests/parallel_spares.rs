//! While workers wait for latches, tasks, sockets and timers go on, on spare workers. These end again when
//! they are not needed.

mod support;

use std::io::{Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use runtime::{Handle, Runtime, parallel};
use support::{Gate, LIMIT, build, builder, in_child, thread_number, threads, until, until_asleep, watchdog};

/// Occupies both workers of `runtime` until the result is opened: one is in a long job, which does not split,
/// the other waits for it in its sleep.
fn occupy(runtime: &Runtime) -> (Gate, parallel::Compute<()>) {
    let (begun, wait, end) = (Gate::default(), Gate::default(), Gate::default());
    let (number, numbers) = std::sync::mpsc::channel();
    let task = runtime.compute({
        let (begun, wait, end) = (begun.clone(), wait.clone(), end.clone());
        move || {
            number.send(thread_number()).unwrap();
            parallel::join(
                || wait.wait(),
                || {
                    begun.open();
                    end.wait();
                },
            );
        }
    });
    // Stolen, for the first closure does not return yet: both workers are busy.
    begun.wait();
    wait.open();
    until_asleep(numbers.recv().unwrap());
    (end, task)
}

/// Echoes bytes, each after a millisecond.
fn echo_slowly(runtime: &Runtime) -> std::net::SocketAddr {
    let listener = runtime.block_on(runtime::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            runtime::spawn(async move {
                use runtime::io::{AsyncReadExt, AsyncWriteExt};
                let mut byte = [0];
                while socket.read_exact(&mut byte).await.is_ok() {
                    runtime::time::sleep(Duration::from_millis(1)).await;
                    socket.write_all(&byte).await.unwrap();
                }
            });
        }
    });
    address
}

#[track_caller]
fn assert_echoes(address: std::net::SocketAddr) {
    let mut socket = std::net::TcpStream::connect(address).unwrap();
    for i in 0..20 {
        let mut byte = [0];
        socket.write_all(&[i]).unwrap();
        socket.read_exact(&mut byte).unwrap();
        assert_eq!(byte, [i]);
    }
}

#[test]
fn a_task_from_outside_is_polled_while_one_worker_computes_and_the_other_waits_for_it() {
    let _watchdog = watchdog();
    for _ in 0..10 {
        // Without I/O and time, no worker looks for any other reason.
        let runtime = runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        let (end, task) = occupy(&runtime);
        for _ in 0..10 {
            runtime.block_on(runtime.spawn(async { runtime::task::yield_now().await })).unwrap();
        }
        end.open();
        runtime.block_on(task).unwrap();
    }
}

#[test]
fn a_task_that_a_worker_has_woken_before_it_waits_is_polled() {
    let _watchdog = watchdog();
    for _ in 0..20 {
        let runtime = runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        let (polled, end) = (Gate::default(), Gate::default());
        let task = runtime.spawn({
            let (polled, end) = (polled.clone(), end.clone());
            async move {
                let begun = Gate::default();
                parallel::join(
                    || {
                        begun.wait();
                        // Both workers compute now. This goes into the LIFO slot of one, which is in the poll
                        // of a task.
                        runtime::spawn(async move { polled.open() });
                    },
                    || {
                        begun.open();
                        end.wait();
                    },
                );
            }
        });
        until("the task ran", || polled.is_open());
        end.open();
        runtime.block_on(task).unwrap();
    }
}

#[test]
fn sockets_and_timers_work_while_one_worker_computes_and_the_other_waits_for_it() {
    let _watchdog = watchdog();
    for _ in 0..5 {
        let runtime = build(2);
        let address = echo_slowly(&runtime);
        let (end, task) = occupy(&runtime);
        assert_echoes(address);
        end.open();
        runtime.block_on(task).unwrap();
    }
}

#[test]
fn the_driver_is_handed_on_when_its_poller_computes_again() {
    let _watchdog = watchdog();
    for _ in 0..5 {
        let runtime = build(4);
        let address = echo_slowly(&runtime);
        let (a_number, a_numbers) = std::sync::mpsc::channel();
        let (b_number, b_numbers) = std::sync::mpsc::channel();
        let [q, q_end, b, b_join, b_wait, p1, p1_end, p2, a_wait, end] =
            std::array::from_fn(|_| Gate::default());
        // C waits for q, which another worker has stolen.
        let c = runtime.compute({
            let (q, q_end, end) = (q.clone(), q_end.clone(), end.clone());
            move || {
                let begun = q.clone();
                parallel::join(
                    || begun.wait(),
                    || {
                        q.open();
                        q_end.wait();
                    },
                );
                end.wait();
            }
        });
        q.wait();
        // B is busy.
        let b_task = runtime.compute({
            let (b, b_join, b_wait, p2, end) =
                (b.clone(), b_join.clone(), b_wait.clone(), p2.clone(), end.clone());
            move || {
                b_number.send(thread_number()).unwrap();
                b.open();
                b_join.wait();
                parallel::join(
                    || b_wait.wait(),
                    || {
                        p2.open();
                        end.wait();
                    },
                );
            }
        });
        b.wait();
        // So A's child job is stolen by another worker.
        let a = runtime.compute({
            let (p1, p1_end, a_wait, end) = (p1.clone(), p1_end.clone(), a_wait.clone(), end.clone());
            move || {
                a_number.send(thread_number()).unwrap();
                parallel::join(
                    || a_wait.wait(),
                    || {
                        p1.open();
                        p1_end.wait();
                    },
                );
                end.wait();
            }
        });
        p1.wait();
        // The worker that ends q steals B's child job.
        b_join.open();
        q_end.open();
        p2.wait();
        // One waits in the driver, the others on their tokens.
        a_wait.open();
        until_asleep(a_numbers.recv().unwrap());
        b_wait.open();
        until_asleep(b_numbers.recv().unwrap());
        // A goes on, and computes.
        p1_end.open();
        assert_echoes(address);
        end.open();
        for task in [a, b_task, c] {
            runtime.block_on(task).unwrap();
        }
    }
}

#[test]
fn a_task_that_blocks_a_spare_worker_brings_another_one() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let (end, task) = occupy(&runtime);
    let gate = Gate::default();
    let blocked: Vec<_> = (0..4)
        .map(|_| {
            let gate = gate.clone();
            runtime.spawn(async move { runtime::task::block_in_place(|| gate.wait()) })
        })
        .collect();
    runtime.block_on(runtime.spawn(async move { gate.open() })).unwrap();
    for blocked in blocked {
        runtime.block_on(blocked).unwrap();
    }
    end.open();
    runtime.block_on(task).unwrap();
}

#[test]
fn spare_workers_do_not_spin_while_they_are_not_needed() {
    let _watchdog = watchdog();
    if in_child("spare_workers_do_not_spin_while_they_are_not_needed", &[]) {
        let runtime = build(2);
        let (end, task) = occupy(&runtime);
        runtime.block_on(runtime.spawn(async {})).unwrap();
        // A thread that spins uses all the time that there is, every time.
        until("all threads wait without using the CPU", || {
            let before = cpu_time();
            thread::sleep(Duration::from_millis(100));
            cpu_time() - before < Duration::from_millis(50)
        });
        end.open();
        runtime.block_on(task).unwrap();
    }
}

#[test]
fn the_timers_of_a_worker_that_begins_a_job_are_left_to_the_poller() {
    let _watchdog = watchdog();
    let runtime = build(2);
    for _ in 0..6 {
        let (armed, rung) = (Gate::default(), Gate::default());
        runtime.spawn({
            let (armed, rung) = (armed.clone(), rung.clone());
            async move {
                let sleep = runtime::time::sleep(Duration::from_millis(50));
                armed.open();
                sleep.await;
                rung.open();
            }
        });
        armed.wait();
        // Both fall asleep again, one in the driver. The timer may be the other worker's, and the other
        // worker may be woken for the job.
        thread::sleep(Duration::from_millis(10));
        runtime.block_on(runtime.compute(move || rung.wait())).unwrap();
    }
}

#[test]
fn a_spare_worker_that_waits_for_a_pool_is_relieved() {
    let _watchdog = watchdog();
    let pool = parallel::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let runtime = build(1);
    let (blocked, end) = (Gate::default(), Gate::default());
    let blocker = runtime.spawn({
        let (blocked, end) = (blocked.clone(), end.clone());
        async move {
            runtime::task::block_in_place(|| {
                blocked.open();
                end.wait();
            });
        }
    });
    blocked.wait();
    let handle = runtime.handle().clone();
    let asks = move || handle.block_on(handle.spawn(async { 1 })).unwrap();
    let asker = runtime.spawn(async move {
        let installed = pool.install(&asks);
        let broadcast: i32 = pool.broadcast(|_| asks()).iter().sum();
        let scoped = std::sync::atomic::AtomicI32::new(0);
        pool.in_place_scope(|s| s.spawn(|_| scoped.store(asks(), std::sync::atomic::Ordering::Relaxed)));
        installed + broadcast + scoped.into_inner()
    });
    assert_eq!(runtime.block_on(asker).unwrap(), 3);
    end.open();
    runtime.block_on(blocker).unwrap();
}

#[test]
fn spare_workers_come_down_again() {
    let _watchdog = watchdog();
    if in_child("spare_workers_come_down_again", &[]) {
        let keep_alive = Duration::from_millis(50);
        let runtime = builder(2).thread_keep_alive(keep_alive).build().unwrap();
        let before = threads();
        let (end, task) = occupy(&runtime);
        runtime.block_on(runtime.spawn(async {})).unwrap();
        // One spare worker, or more where the machine is so slow that the spare worker is taken for stuck.
        assert!(threads() > before);
        // One stays for as long as it is needed.
        thread::sleep(4 * keep_alive);
        assert!(threads() > before);
        end.open();
        runtime.block_on(task).unwrap();
        until("they leave", || threads() == before);
    }
}

#[test]
fn a_runtime_is_dropped_while_workers_wait_and_a_spare_one_is_awake() {
    let _watchdog = watchdog();
    for _ in 0..20 {
        let runtime = build(2);
        let (end, task) = occupy(&runtime);
        let handle: Handle = runtime.handle().clone();
        runtime.spawn(async { std::future::pending::<()>().await });
        let dropper = thread::spawn(move || drop(runtime));
        let start = Instant::now();
        // Pushes race with the shutdown.
        while !task.is_finished() {
            handle.spawn(async { runtime::task::yield_now().await });
            if start.elapsed() > Duration::from_millis(3) {
                end.open();
            }
            assert!(start.elapsed() < LIMIT);
        }
        dropper.join().unwrap();
    }
}

/// CPU time of this process.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = stat.rsplit(')').next().unwrap();
    let fields: Vec<_> = after_name.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(10 * ticks)
}

#[test]
fn a_fifo_scope_on_the_last_spare_worker_ends_while_its_thread_unwinds() {
    let _watchdog = watchdog();
    let runtime = runtime::Builder::new_multi_thread().worker_threads(1).spare_workers(1).build().unwrap();
    let handle = runtime.handle().clone();
    let order = std::sync::Mutex::new(Vec::new());
    let computation = move || {
        let jobs = || {
            parallel::scope_fifo(|scope| {
                for number in 0..3 {
                    let order = &order;
                    scope.spawn_fifo(move |_| order.lock().unwrap().push(number));
                }
            });
        };
        let both = || parallel::join(|| std::panic::resume_unwind(Box::new(())), jobs);
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(both)).is_err());
        (parallel::current_thread_index(), order.into_inner().unwrap())
    };
    // The only permanent worker waits for the computation.
    let wait = move || handle.block_on(handle.compute(computation));
    let waits = async { (runtime::runtime::worker_index(), runtime::task::block_in_place(wait)) };
    let (waiting, computed) = runtime.block_on(runtime.spawn(waits)).unwrap();
    let (index, order) = computed.unwrap();
    assert_eq!(order, [0, 1, 2]);
    // On a busy machine the spare worker may have come before, and may be the one that waits.
    let other = if waiting == Some(0) { 1 } else { 0 };
    assert_eq!(index, Some(other), "{waiting:?} waits");
}
