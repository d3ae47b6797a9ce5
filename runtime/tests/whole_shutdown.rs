//! Whole programs with a destructor, a hook or a waker that runs while their runtime ends, and needs
//! something that the runtime still has to do. Each must end.

mod support;

use std::future::pending;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use runtime::net::TcpListener;
use runtime::parallel::{ThreadPoolBuilder, isolated, join, scope};
use runtime::runtime::{LocalOptions, UnhandledPanic};
use runtime::sync::oneshot;
use runtime::task::block_in_place;
use runtime::{Handle, Runtime, task, time};
use support::{
    Gate, HUGE_STACK, KINDS, LIMIT, NoThreads, build, builder, has_shadow_memory, in_child, panic_of, rounds,
    until, wait_with, watchdog,
};

/// Calls a closure when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A thread for blocking closures waits until the other end of `released` is gone.
fn keep_a_blocking_thread(handle: &Handle, released: mpsc::Receiver<()>) {
    let (begin, begun) = mpsc::channel();
    handle.spawn_blocking(move || {
        begin.send(()).unwrap();
        _ = released.recv();
    });
    begun.recv_timeout(LIMIT).unwrap();
}

/// Spawns a task that waits for ever and keeps `value`. Returns when it has waited once: a task that would
/// wait for the first time during the shutdown is dropped at the end of its poll.
fn keep(runtime: &Runtime, value: impl Send + 'static) {
    let (begin, begun) = oneshot::channel();
    runtime.spawn(async move {
        let _value = value;
        time::sleep(Duration::from_millis(1)).await;
        begin.send(()).unwrap();
        pending::<()>().await
    });
    runtime.block_on(begun).unwrap();
}

fn until_shutdown(handle: &Handle) {
    until("the shutdown has begun", || handle.spawn(pending::<()>()).is_finished());
}

/// Ends `runtime` while a task is in its poll, and calls `f` there once the shutdown has begun.
fn end_beside(runtime: Runtime, f: impl FnOnce() + Send + 'static) {
    let (begin, begun) = mpsc::channel();
    runtime.spawn(async move {
        begin.send(()).unwrap();
        until_shutdown(&Handle::current());
        f();
    });
    begun.recv_timeout(LIMIT).unwrap();
    drop(runtime);
}

#[test]
fn a_call_that_blocks_runs_no_destructor_of_another_task() {
    let _watchdog = watchdog();
    for spares in [0, 512] {
        let runtime = builder(1).spare_workers(spares).build().unwrap();
        let lock = Arc::new(Mutex::new(()));
        let locks = lock.clone();
        keep(&runtime, OnDrop(move || drop(locks.lock().unwrap())));
        end_beside(runtime, move || {
            let _guard = lock.lock().unwrap();
            task::block_in_place(|| ());
        });
    }
}

#[test]
fn a_call_that_blocks_may_wait_for_the_end_of_another_task() {
    let _watchdog = watchdog();
    for spares in [0, 512] {
        let runtime = builder(1).spare_workers(spares).build().unwrap();
        let (end, ended) = mpsc::channel::<()>();
        keep(&runtime, end);
        end_beside(runtime, move || _ = task::block_in_place(|| ended.recv().unwrap_err()));
    }
}

#[test]
fn a_stack_that_unwinds_runs_no_destructor_of_another_task() {
    let _watchdog = watchdog();
    for _ in rounds(10) {
        let runtime = build(2);
        let was_panicking = Arc::new(AtomicBool::new(false));
        for _ in 0..4 {
            let was_panicking = was_panicking.clone();
            let looks = move || {
                was_panicking.fetch_or(thread::panicking(), SeqCst);
            };
            keep(&runtime, OnDrop(looks));
        }
        let (begin, begun) = mpsc::channel();
        let handle = runtime.handle().clone();
        runtime
            .compute(move || {
                let is_begun = AtomicBool::new(false);
                let first = || {
                    until("another thread has begun the second closure", || is_begun.load(SeqCst));
                    begin.send(()).unwrap();
                    until_shutdown(&handle);
                    std::panic::resume_unwind(Box::new(()));
                };
                let second = || {
                    is_begun.store(true, SeqCst);
                    until_shutdown(&handle);
                    // The first closure's stack waits meanwhile.
                    thread::sleep(Duration::from_millis(5));
                };
                join(first, second)
            })
            .detach();
        begun.recv_timeout(LIMIT).unwrap();
        drop(runtime);
        assert!(!was_panicking.load(SeqCst), "a task was dropped on a stack that unwinds");
    }
}

/// One of the two pairs is in the order in which the one that waits is cancelled first.
#[test]
fn the_destructor_of_a_task_may_wait_for_another_task() {
    let _watchdog = watchdog();
    for workers in [1, 2] {
        for marks in [true, false] {
            let runtime = build(workers);
            let waits = |ended: mpsc::Receiver<()>| {
                OnDrop(move || match marks {
                    true => task::block_in_place(|| _ = ended.recv()),
                    false => _ = ended.recv(),
                })
            };
            let (first, second) = (mpsc::channel::<()>(), mpsc::channel::<()>());
            keep(&runtime, waits(first.1));
            keep(&runtime, first.0);
            keep(&runtime, second.0);
            keep(&runtime, waits(second.1));
            drop(runtime);
        }
    }
}

/// A chain of destructors, each of which waits for the next task's.
#[test]
fn the_destructors_of_tasks_may_wait_for_each_other_in_a_chain() {
    let _watchdog = watchdog();
    for spares in [0, 512] {
        let runtime = builder(1).spare_workers(spares).build().unwrap();
        keep_chain(&runtime, 4);
        drop(runtime);
    }
}

/// Keeps tasks whose destructors wait for the next task's end, in the order in which they are cancelled.
fn keep_chain(runtime: &Runtime, length: usize) {
    let links: Vec<_> = (0..length).map(|_| mpsc::channel::<()>()).collect();
    let (mut ends, waits): (Vec<_>, Vec<_>) =
        links.into_iter().map(|(end, ended)| (Some(end), ended)).unzip();
    let after = |ended: mpsc::Receiver<()>| OnDrop(move || task::block_in_place(|| _ = ended.recv()));
    // The task that waits for link `i` ends link `i - 1`.
    let mut waits: Vec<_> = waits.into_iter().map(|ended| Some(after(ended))).collect();
    for i in 0..length {
        // Fields are dropped in order: it waits first.
        keep(runtime, (waits[i].take(), (i > 0).then(|| ends[i - 1].take())));
    }
    keep(runtime, ends[length - 1].take());
}

/// All workers are blocked before the shutdown begins, and no spare worker can come.
#[test]
fn a_call_that_blocks_when_the_shutdown_begins_may_wait_for_the_end_of_a_task() {
    let _watchdog = watchdog();
    for spares in [0, 512] {
        let runtime = builder(1).spare_workers(spares).build().unwrap();
        let (end, ended) = mpsc::channel::<()>();
        keep(&runtime, end);
        block_with(&runtime, &Arc::default(), ended);
        drop(runtime);
    }
}

/// Has a task block, announced, until the sender of `ended` is dropped, and hold `lock` meanwhile. Returns
/// when it blocks.
fn block_with(runtime: &Runtime, lock: &Arc<Mutex<()>>, ended: mpsc::Receiver<()>) {
    let (begin, begun) = mpsc::channel();
    let lock = lock.clone();
    runtime.spawn(async move {
        let _guard = lock.lock().unwrap();
        task::block_in_place(|| {
            begin.send(()).unwrap();
            _ = ended.recv();
        });
    });
    begun.recv_timeout(LIMIT).unwrap();
}

/// The only spare worker is in a poll when the shutdown begins. Then it waits, without a word, for a lock
/// that the blocked call holds.
#[test]
fn a_call_that_blocks_beside_a_spare_worker_may_wait_for_the_end_of_a_task() {
    let _watchdog = watchdog();
    for spares in [1, 512] {
        let runtime = builder(1).spare_workers(spares).build().unwrap();
        let (end, ended) = mpsc::channel::<()>();
        keep(&runtime, end);
        let lock = Arc::new(Mutex::new(()));
        block_with(&runtime, &lock, ended);
        end_beside(runtime, move || drop(lock.lock().unwrap()));
    }
}

/// The system refuses the threads of spare workers.
#[test]
fn a_call_that_blocks_may_wait_for_the_end_of_a_task_while_threads_are_refused() {
    let _watchdog = watchdog();
    let name = "a_call_that_blocks_may_wait_for_the_end_of_a_task_while_threads_are_refused";
    if has_shadow_memory() || !in_child(name, &[]) {
        return;
    }
    let runtime = builder(1).thread_stack_size(HUGE_STACK).build().unwrap();
    let (end, ended) = mpsc::channel::<()>();
    keep(&runtime, end);
    let _refused = NoThreads::begin();
    end_beside(runtime, move || _ = task::block_in_place(|| ended.recv().unwrap_err()));
}

/// Both workers are blocked when the shutdown begins. One of them comes back at once, before a spare worker
/// has come, and waits, without a word, for a lock that the other one holds.
#[test]
fn a_call_that_blocks_may_wait_for_a_task_of_a_worker_that_is_back() {
    let _watchdog = watchdog();
    for spares in [0, 512] {
        let (runtime, late) = with_late_threads(spares);
        let (begin, begun) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let (end, is_over) = mpsc::channel::<()>();
        let lock = Arc::new(Mutex::new(()));
        let (needed, back) = (lock.clone(), late.clone());
        runtime.spawn(async move {
            let ended = wait_here(&Handle::current()).await;
            task::block_in_place(|| {
                begin.send(ended.into_inner().unwrap()).unwrap();
                _ = released.recv();
            });
            back.end();
            drop(needed.lock().unwrap());
            drop(end);
        });
        block_with(&runtime, &lock, begun.recv_timeout(LIMIT).unwrap());
        late.has_begun.store(true, SeqCst);
        runtime.shutdown_background();
        drop(release);
        assert_eq!(is_over.recv_timeout(LIMIT), Err(mpsc::RecvTimeoutError::Disconnected));
    }
}

/// The same, with a latch in the place of the call that blocks.
#[test]
fn a_call_that_blocks_may_wait_for_a_task_of_a_worker_that_is_back_from_a_latch() {
    let _watchdog = watchdog();
    for spares in [0, 512] {
        let (runtime, late) = with_late_threads(spares);
        let pool = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let (begin, begun) = mpsc::channel();
        let is_released = Arc::new(AtomicBool::new(false));
        let (end, is_over) = mpsc::channel::<()>();
        let lock = Arc::new(Mutex::new(()));
        let (needed, back, release) = (lock.clone(), late.clone(), is_released.clone());
        runtime.spawn(async move {
            let ended = wait_here(&Handle::current()).await;
            pool.install(|| {
                begin.send(ended.into_inner().unwrap()).unwrap();
                // Awake, so that the latch is set before the worker notices the shutdown.
                while !is_released.load(SeqCst) {
                    thread::yield_now();
                }
            });
            back.end();
            drop(needed.lock().unwrap());
            drop(end);
        });
        block_with(&runtime, &lock, begun.recv_timeout(LIMIT).unwrap());
        let metrics = runtime.metrics();
        // The other one blocks, and does not sleep.
        until("a worker sleeps on the latch", || {
            (0..2).any(|i| metrics.worker_park_unpark_count(i) % 2 == 1)
        });
        late.has_begun.store(true, SeqCst);
        runtime.shutdown_background();
        release.store(true, SeqCst);
        assert_eq!(is_over.recv_timeout(LIMIT), Err(mpsc::RecvTimeoutError::Disconnected));
    }
}

/// A worker sleeps when the shutdown begins, with a task in its table. Its unpark hook needs a lock, without
/// a word, and the call that holds the lock waits for the end of that task.
#[test]
fn a_call_that_blocks_may_wait_for_a_task_of_a_worker_inside_of_its_unpark_hook() {
    let _watchdog = watchdog();
    for spares in [0, 512] {
        let (late, lock) = (Arc::new(Late::default()), Arc::new(Mutex::new(())));
        let (starts, wakes, needed) = (late.clone(), late.clone(), lock.clone());
        let unpark = move || {
            if wakes.has_begun.load(SeqCst) && has_shutdown_begun() {
                wakes.end();
                drop(needed.lock().unwrap());
            }
        };
        let mut builder = builder(2);
        builder.spare_workers(spares).on_thread_start(move || starts.pass()).on_thread_unpark(unpark);
        let runtime = builder.build().unwrap();
        let (here, place) = mpsc::channel();
        runtime.spawn(async move {
            let ended = wait_here(&Handle::current()).await.into_inner().unwrap();
            here.send((thread::current().id(), ended)).unwrap();
        });
        let (owner, ended) = place.recv_timeout(LIMIT).unwrap();
        let (end, is_over) = mpsc::channel::<()>();
        let value = Arc::new(Mutex::new(Some((ended, end))));
        let is_blocked = Arc::new(AtomicBool::new(false));
        until("a task runs on the other worker", || {
            let (taken, lock, is_blocked) = (value.clone(), lock.clone(), is_blocked.clone());
            runtime.spawn(async move {
                if thread::current().id() == owner {
                    return;
                }
                let Some((ended, end)) = taken.lock().unwrap().take() else { return };
                let _guard = lock.lock().unwrap();
                task::block_in_place(|| {
                    is_blocked.store(true, SeqCst);
                    _ = ended.recv();
                });
                drop(end);
            });
            thread::yield_now();
            value.lock().unwrap().is_none()
        });
        until("it blocks", || is_blocked.load(SeqCst));
        let metrics = runtime.metrics();
        // Otherwise the owner may wake for one of them, and come to its hook just before the shutdown begins.
        until("the tasks that came too late have ended", || metrics.num_alive_tasks() == 2);
        // A wake that was meant for one of them may still be on its way to the owner.
        let sleeps = || [0, 1].map(|i| metrics.worker_park_unpark_count(i));
        until("the owner goes on sleeping", || {
            let before = sleeps();
            thread::sleep(Duration::from_millis(20));
            before == sleeps() && before.iter().any(|count| count % 2 == 1)
        });
        late.has_begun.store(true, SeqCst);
        runtime.shutdown_background();
        assert_eq!(is_over.recv_timeout(LIMIT), Err(mpsc::RecvTimeoutError::Disconnected));
    }
}

/// The threads of the spare workers have no name before the task has ended for which a call waits.
#[test]
fn a_call_that_blocks_may_wait_for_the_end_of_a_task_while_threads_wait_for_their_names() {
    let _watchdog = watchdog();
    let names = Arc::new(Mutex::new(()));
    let held = names.clone();
    let name = move || {
        drop(held.lock().unwrap());
        "named".to_owned()
    };
    let runtime = builder(1).thread_name_fn(name).build().unwrap();
    let (end, ended) = mpsc::channel::<()>();
    keep(&runtime, end);
    block_with(&runtime, &names, ended);
    drop(runtime);
}

/// Each new spare worker would come to the same hook.
#[test]
fn a_hook_that_holds_up_spare_workers_brings_no_more_of_them() {
    let _watchdog = watchdog();
    let starts = Arc::new(AtomicUsize::new(0));
    let (late, count) = (Arc::new(Late::default()), starts.clone());
    let hook = late.clone();
    let start = move || {
        count.fetch_add(1, SeqCst);
        hook.pass();
    };
    let runtime = builder(1).on_thread_start(start).build().unwrap();
    // Behind its hook.
    runtime.block_on(runtime.spawn(async {})).unwrap();
    late.has_begun.store(true, SeqCst);
    let (end, ended) = mpsc::channel::<()>();
    block_with(&runtime, &Arc::default(), ended);
    // As many looks of the monitor as brought some ten of them.
    thread::sleep(Duration::from_millis(200));
    let most = starts.load(SeqCst);
    late.end();
    drop(end);
    drop(runtime);
    assert!(most <= 4, "{most} threads started");
}

/// Whether the current runtime takes no more tasks.
fn has_shutdown_begun() -> bool {
    let probe = task::spawn(pending::<()>());
    let is_refused = probe.is_finished();
    probe.abort();
    is_refused
}

/// A runtime of two workers whose other threads may start late.
fn with_late_threads(spares: usize) -> (Runtime, Arc<Late>) {
    let late = Arc::new(Late::default());
    let hook = late.clone();
    let mut builder = builder(2);
    (builder.spare_workers(spares).on_thread_start(move || hook.pass()).build().unwrap(), late)
}

/// Threads that start late: once it has begun, until it is over.
#[derive(Default)]
struct Late {
    has_begun: AtomicBool,
    is_over: Gate,
}

impl Late {
    fn pass(&self) {
        if self.has_begun.load(SeqCst) {
            self.is_over.wait();
        }
    }

    fn end(&self) {
        self.is_over.open();
    }
}

/// A worker waits for a latch, and the other one blocks for the end of a task in the first one's table.
#[test]
fn a_call_that_blocks_beside_a_latch_may_wait_for_the_end_of_another_task() {
    let _watchdog = watchdog();
    for spares in [0, 512] {
        for _ in 0..4 {
            let runtime = builder(2).spare_workers(spares).build().unwrap();
            let (begin, begun) = mpsc::channel();
            let handle = runtime.handle().clone();
            runtime.spawn(async move {
                let ended = wait_here(&Handle::current()).await;
                let is_begun = AtomicBool::new(false);
                let first = || {
                    until("another thread has begun the second closure", || is_begun.load(SeqCst));
                    begin.send(()).unwrap();
                    until_shutdown(&handle);
                    // The second closure blocks meanwhile.
                    thread::sleep(Duration::from_millis(50));
                };
                let second = || {
                    is_begun.store(true, SeqCst);
                    until_shutdown(&handle);
                    task::block_in_place(|| _ = ended.lock().unwrap().recv());
                };
                join(first, second);
            });
            begun.recv_timeout(LIMIT).unwrap();
            drop(runtime);
        }
    }
}

/// The only worker waits for another pool, in which a call waits for the end of a task.
#[test]
fn a_call_that_blocks_in_a_pool_may_wait_for_the_end_of_a_task() {
    let _watchdog = watchdog();
    for spares in [0, 512] {
        let pool = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let runtime = builder(1).spare_workers(spares).build().unwrap();
        let (begin, begun) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        keep(&runtime, end);
        runtime.spawn(async move {
            let ended = Mutex::new(ended);
            let handle = Handle::current();
            pool.install(|| {
                begin.send(()).unwrap();
                until_shutdown(&handle);
                _ = ended.lock().unwrap().recv();
            });
        });
        begun.recv_timeout(LIMIT).unwrap();
        drop(runtime);
    }
}

/// Has a task wait in the table of the calling worker. The end of the task ends the channel.
async fn wait_here(handle: &Handle) -> Mutex<mpsc::Receiver<()>> {
    loop {
        let ((at, mut place), (end, ended)) = (oneshot::channel(), mpsc::channel::<()>());
        let task = handle.spawn(async move {
            at.send(thread::current().id()).unwrap();
            pending::<()>().await;
            drop(end);
        });
        let place = loop {
            match place.try_recv() {
                Ok(place) => break place,
                Err(_) => task::yield_now().await,
            }
        };
        if place == thread::current().id() {
            return Mutex::new(ended);
        }
        task.abort();
    }
}

/// `block_on` in the destructor drives the runtime on, and finds the tasks that were not cancelled so far.
#[test]
fn the_destructor_of_a_task_of_a_current_thread_runtime_may_wait_for_another_task() {
    let _watchdog = watchdog();
    for has_polled in [true, false] {
        for is_first in [true, false] {
            let runtime = build(0);
            let (end, ended) = oneshot::channel::<()>();
            let handle = runtime.handle().clone();
            let waits = move |ended: oneshot::Receiver<()>| {
                let mut ended = Some(ended);
                OnDrop(move || {
                    let ended = ended.take().unwrap();
                    task::block_in_place(|| handle.block_on(ended).unwrap_err());
                })
            };
            let keeps = |value: Box<dyn Send>| match has_polled {
                true => keep(&runtime, value),
                false => drop(runtime.spawn(async move {
                    let _value = value;
                    pending::<()>().await
                })),
            };
            let mut values: [Box<dyn Send>; 2] = [Box::new(waits(ended)), Box::new(end)];
            if !is_first {
                values.reverse();
            }
            values.into_iter().for_each(keeps);
            drop(runtime);
        }
    }
}

/// The destructor waits for a closure that waits in the driver, which ends with the workers.
#[test]
fn the_destructor_of_a_closure_that_is_not_run_may_wait_for_the_end_of_the_workers() {
    let _watchdog = watchdog();
    let runtime = builder(2).max_blocking_threads(1).build().unwrap();
    let ((begin, begun), (end, ended)) = (mpsc::channel(), mpsc::channel::<()>());
    let handle = runtime.handle().clone();
    runtime.spawn_blocking(move || {
        begin.send(()).unwrap();
        let sleep = std::panic::AssertUnwindSafe(|| handle.block_on(time::sleep(Duration::from_secs(3600))));
        // The sleep may panic because its runtime is gone.
        _ = std::panic::catch_unwind(sleep);
        drop(end);
    });
    begun.recv_timeout(LIMIT).unwrap();
    let waits = OnDrop(move || _ = ended.recv());
    runtime.spawn_blocking(move || drop(waits));
    drop(runtime);
}

#[test]
fn the_destructor_of_a_closure_that_is_not_run_may_wait_for_a_task() {
    let _watchdog = watchdog();
    for workers in KINDS {
        let runtime = builder(workers).max_blocking_threads(1).build().unwrap();
        let ((end, ended), (release, released)) = (mpsc::channel::<()>(), mpsc::channel::<()>());
        keep(&runtime, (end, release));
        keep_a_blocking_thread(runtime.handle(), released);
        let waits = OnDrop(move || _ = ended.recv());
        runtime.spawn_blocking(move || drop(waits));
        drop(runtime);
    }
}

/// The closure waits for the end of the task that ends the runtime.
#[test]
fn the_destructor_of_a_closure_that_is_not_run_may_wait_for_the_task_that_ends_the_runtime() {
    let _watchdog = watchdog();
    for workers in KINDS {
        let runtime = builder(workers).max_blocking_threads(1).build().unwrap();
        let handle = runtime.handle().clone();
        let (release, released) = mpsc::channel::<()>();
        keep_a_blocking_thread(&handle, released);
        let (end, ended) = mpsc::channel::<()>();
        let waits = OnDrop(move || _ = ended.recv());
        runtime.spawn_blocking(move || drop(waits));
        let task = handle.spawn(async move {
            let _end = (end, release);
            drop(runtime);
        });
        _ = handle.block_on(task);
    }
}

#[test]
fn the_destructor_of_a_task_may_wait_for_a_closure_that_is_not_run() {
    let _watchdog = watchdog();
    for workers in KINDS {
        let runtime = builder(workers).max_blocking_threads(1).build().unwrap();
        let (release, released) = mpsc::channel::<()>();
        keep_a_blocking_thread(runtime.handle(), released);
        let (end, ended) = mpsc::channel::<()>();
        runtime.spawn_blocking(move || drop(end));
        let ended = Mutex::new(ended);
        let waits = OnDrop(move || _ = block_in_place(|| ended.lock().unwrap().recv()));
        keep(&runtime, (waits, release));
        drop(runtime);
    }
}

/// The task's panic ends the runtime, on the only thread that can cancel the other task.
#[test]
fn the_destructor_of_a_closure_that_is_not_run_may_wait_for_a_task_if_a_panic_ends_the_runtime() {
    let _watchdog = watchdog();
    let runtime =
        builder(0).max_blocking_threads(1).unhandled_panic(UnhandledPanic::ShutdownRuntime).build().unwrap();
    let ((end, ended), (release, released)) = (mpsc::channel::<()>(), mpsc::channel::<()>());
    keep(&runtime, (end, release));
    keep_a_blocking_thread(runtime.handle(), released);
    let waits = OnDrop(move || _ = ended.recv());
    runtime.spawn_blocking(move || drop(waits));
    let text = panic_of(|| runtime.block_on(async { _ = task::spawn(async { panic!("ends it") }).await }));
    assert!(text.contains("shut down on unhandled panic"), "{text}");
}

/// As above, when the panic is that of a local task.
#[test]
fn the_destructor_of_a_closure_that_is_not_run_may_wait_for_a_task_if_a_panic_ends_a_local_runtime() {
    let _watchdog = watchdog();
    let mut builder = builder(0);
    builder.max_blocking_threads(1).unhandled_panic(UnhandledPanic::ShutdownRuntime);
    let runtime = builder.build_local(LocalOptions::default()).unwrap();
    let ((end, ended), (release, released)) = (mpsc::channel::<()>(), mpsc::channel::<()>());
    keep_a_blocking_thread(runtime.handle(), released);
    let waits = OnDrop(move || _ = ended.recv());
    runtime.spawn_blocking(move || drop(waits));
    runtime.handle().spawn(async move {
        let _ends = (end, release);
        pending::<()>().await
    });
    runtime.spawn_local(async { panic!("ends it") });
    let text = panic_of(|| runtime.block_on(pending::<()>()));
    assert!(text.contains("shutdown on unhandled panic"), "{text}");
}

/// A scope whose body blocks for one of its jobs.
fn wait_for_own_job() {
    scope(|scope| {
        let (send, receive) = mpsc::channel();
        scope.spawn(move |_| send.send(()).unwrap());
        task::block_in_place(|| receive.recv().unwrap());
    });
}

#[test]
fn the_destructor_of_a_closure_that_is_not_run_finds_workers() {
    let _watchdog = watchdog();
    let runtime = builder(2).max_blocking_threads(1).build().unwrap();
    let (release, released) = mpsc::channel::<()>();
    keep_a_blocking_thread(runtime.handle(), released);
    let handle = runtime.handle().clone();
    let needs = OnDrop(move || {
        until_shutdown(&handle);
        // Meanwhile the workers have nothing to do.
        thread::sleep(Duration::from_millis(50));
        wait_for_own_job();
    });
    runtime.spawn_blocking(move || drop(needs));
    drop(release);
    drop(runtime);
}

/// The call that blocks leaves the other task to another thread. The worker has nothing left to do when the
/// destructor needs it.
#[test]
fn the_destructor_of_a_task_beside_a_call_that_blocks_finds_a_worker() {
    let _watchdog = watchdog();
    // Mostly the worker is quicker than the other thread.
    for _ in rounds(10) {
        let runtime = builder(1).spare_workers(0).thread_name("own").build().unwrap();
        let (send, name) = mpsc::channel();
        let needs = move || {
            thread::sleep(Duration::from_millis(100));
            send.send(scope(|_| thread::current().name().map(str::to_owned))).unwrap();
        };
        keep(&runtime, OnDrop(needs));
        end_beside(runtime, || task::block_in_place(|| ()));
        assert_eq!(name.recv().unwrap().as_deref(), Some("own"), "the worker has left");
    }
}

#[test]
fn a_closure_that_outlives_the_workers_may_wait_for_jobs_of_its_own() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let (begin, begun) = mpsc::channel();
    let handle = runtime.handle().clone();
    runtime.spawn_blocking(move || {
        begin.send(()).unwrap();
        until_shutdown(&handle);
        thread::sleep(Duration::from_millis(50));
        wait_for_own_job();
    });
    begun.recv_timeout(LIMIT).unwrap();
    drop(runtime);
}

/// The hook takes so long that the other worker has nothing left to do meanwhile.
#[test]
fn a_hook_that_runs_while_the_other_workers_end_finds_help() {
    static ENDS: AtomicBool = AtomicBool::new(false);
    let hook = || {
        if ENDS.swap(false, SeqCst) {
            thread::sleep(Duration::from_millis(50));
            wait_for_own_job();
        }
    };
    let _watchdog = watchdog();
    for is_park in [true, false] {
        let mut builder = builder(2);
        match is_park {
            true => builder.on_thread_park(hook),
            false => builder.on_thread_unpark(hook),
        };
        for is_last in [false, true] {
            let runtime = builder.build().unwrap();
            if is_last {
                // While this is dropped, the other worker has nothing left to do.
                keep(
                    &runtime,
                    OnDrop(|| {
                        thread::sleep(Duration::from_millis(50));
                        ENDS.store(true, SeqCst);
                    }),
                );
            } else {
                keep(&runtime, ());
                ENDS.store(true, SeqCst);
            }
            drop(runtime);
        }
    }
}

/// The last hook of a worker waits for what no worker looks after any more. The end of the runtime ends the
/// wait.
#[test]
fn the_last_hook_may_begin_a_wait_for_its_own_runtime() {
    let _watchdog = watchdog();
    let waits: [fn(&Handle); 3] = [
        |handle| _ = handle.block_on(handle.spawn(async {})),
        |handle| handle.block_on(time::sleep(Duration::from_millis(20))),
        |handle| {
            handle
                .block_on(async {
                    let listener = TcpListener::bind("127.0.0.1:0").await?;
                    listener.accept().await.map(drop)
                })
                .unwrap_err();
        },
    ];
    for (wait, workers) in waits.into_iter().zip([1, 2, 3]) {
        let ends = Arc::new(AtomicBool::new(false));
        let has_ended = ends.clone();
        let runtime = builder(workers)
            .on_thread_stop(move || {
                if has_ended.load(SeqCst) {
                    wait(&Handle::current());
                }
            })
            .build()
            .unwrap();
        runtime.block_on(runtime.spawn_blocking(|| {})).unwrap();
        // While this is dropped, the other workers have nothing left to do.
        keep(
            &runtime,
            OnDrop(move || {
                thread::sleep(Duration::from_millis(20));
                ends.store(true, SeqCst);
            }),
        );
        drop(runtime);
    }
}

/// Two timers of a worker that waits in an isolated region fire one after the other. The second waker waits
/// for the next helper, and the runtime ends before that.
#[test]
fn wakers_that_a_region_has_left_are_called_at_the_end() {
    let _watchdog = watchdog();
    for gap in [Duration::ZERO, Duration::from_millis(3)] {
        for _ in rounds(5) {
            let runtime = builder(2).spare_workers(0).build().unwrap();
            let context = runtime.enter();
            let called = Arc::new(AtomicUsize::new(0));
            let waker = |waits: bool| {
                let called = called.clone();
                let call = move || {
                    called.fetch_add(1, SeqCst);
                    if waits {
                        until("both are called", || called.load(SeqCst) == 2);
                    }
                };
                support::waker(call)
            };
            let at = time::Instant::now() + Duration::from_millis(50);
            let mut first = pin!(time::sleep_until(at));
            let mut second = pin!(time::sleep_until(at + gap));
            wait_with(&waker(gap.is_zero()), first.as_mut());
            wait_with(&waker(false), second.as_mut());
            let begins = called.clone();
            let computed = runtime.compute(move || {
                let is_begun = AtomicBool::new(false);
                let first = || {
                    while !is_begun.load(SeqCst) {
                        join(|| (), || ());
                    }
                };
                let second = || {
                    is_begun.store(true, SeqCst);
                    until("the first waker is called", || begins.load(SeqCst) > 0);
                    let end = at + gap + Duration::from_micros(500);
                    while gap > Duration::ZERO && time::Instant::now() < end {}
                };
                isolated(|| join(first, second));
            });
            runtime.block_on(computed).unwrap();
            drop(context);
            drop(runtime);
            // A helper may have been started before the end.
            until("both are called", || called.load(SeqCst) == 2);
        }
    }
}
