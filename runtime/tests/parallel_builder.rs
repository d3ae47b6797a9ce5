//! Building thread pools: settings, how the threads are started, and what happens if that fails.

mod support;

use std::cell::Cell;
use std::error::Error;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;

use parking_lot::Mutex;
use runtime::parallel::{self, ThreadBuilder, ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder, join};
use runtime::sync::oneshot;
use support::{
    Drops, Gate, NEAR_A_BUDGETS_END, in_child, joined_scope, panic_of, short_joins, text_of, until, watchdog,
};

/// A builder whose start and exit handlers count.
struct Counted {
    builder: ThreadPoolBuilder,
    starts: Arc<AtomicUsize>,
    exits: Arc<AtomicUsize>,
}

fn counted(threads: usize) -> Counted {
    let (starts, exits) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (start, exit) = (starts.clone(), exits.clone());
    let builder = ThreadPoolBuilder::new()
        .num_threads(threads)
        .start_handler(move |_| _ = start.fetch_add(1, SeqCst))
        .exit_handler(move |_| _ = exit.fetch_add(1, SeqCst));
    Counted { builder, starts, exits }
}

/// Waits until nothing of the pool is left, and says how many threads it had: they have started and ended.
#[track_caller]
fn ended(starts: &Arc<AtomicUsize>, exits: &Arc<AtomicUsize>) -> usize {
    until("the pool is freed", || Arc::strong_count(starts) == 1 && Arc::strong_count(exits) == 1);
    assert_eq!(starts.load(SeqCst), exits.load(SeqCst));
    exits.load(SeqCst)
}

fn spawn(thread: ThreadBuilder) -> io::Result<()> {
    thread::Builder::new().spawn(|| thread.run())?;
    Ok(())
}

#[test]
fn names_are_visible_on_the_threads() {
    let _watchdog = watchdog();
    let pool = ThreadPoolBuilder::new().num_threads(1).thread_name(|i| format!("pool-{i}")).build().unwrap();
    assert_eq!(pool.install(|| thread::current().name().map(str::to_owned)), Some("pool-0".to_owned()));
    let unnamed = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    assert_eq!(unnamed.install(|| thread::current().name().map(str::to_owned)), None);
}

#[test]
fn a_thread_builder_says_what_was_asked_for() {
    let _watchdog = watchdog();
    let seen = Mutex::new(Vec::new());
    let builder =
        ThreadPoolBuilder::new().num_threads(2).thread_name(|i| format!("t{i}")).stack_size(1 << 20);
    let pool = builder.spawn_handler(|thread| {
        seen.lock().push((thread.index(), thread.name().map(str::to_owned), thread.stack_size()));
        spawn(thread)
    });
    let pool = pool.build().unwrap();
    let expected = |i| (i, Some(format!("t{i}")), Some(1 << 20));
    assert_eq!(*seen.lock(), [expected(0), expected(1)]);
    // The names are for the handler to set.
    assert_eq!(pool.install(|| thread::current().name().map(str::to_owned)), None);
}

#[test]
fn the_stack_size_is_honoured() {
    let _watchdog = watchdog();
    fn deep(kib: usize) -> usize {
        let frame = std::hint::black_box([1_u8; 1024]);
        if kib == 0 { 0 } else { deep(kib - 1) + usize::from(frame[kib % 1024]) }
    }
    let pool = ThreadPoolBuilder::new().num_threads(1).stack_size(64 << 20).build().unwrap();
    // Eight times the default.
    assert_eq!(pool.install(|| deep(16 << 10)), 16 << 10);
}

#[test]
fn stack_sizes_that_cannot_be_are_refused() {
    for size in [isize::MAX as usize, usize::MAX] {
        let Counted { builder, starts, exits } = counted(2);
        let error = builder.stack_size(size).build().unwrap_err();
        assert!(error.to_string().contains(&size.to_string()), "{error}");
        assert_eq!(ended(&starts, &exits), 0);
    }
}

#[test]
fn a_name_with_nul_is_an_error() {
    let _watchdog = watchdog();
    let Counted { builder, starts, exits } = counted(3);
    let name = |i| if i == 2 { "a\0b".to_owned() } else { "fine".to_owned() };
    let error = builder.thread_name(name).build().unwrap_err();
    assert!(error.to_string().contains("a\\0b"), "{error}");
    let source = error.source().unwrap().downcast_ref::<io::Error>().unwrap();
    assert_eq!(source.kind(), io::ErrorKind::InvalidInput);
    assert_eq!(ended(&starts, &exits), 2);
}

#[test]
fn a_naming_function_that_panics_ends_the_threads_that_were_started() {
    let _watchdog = watchdog();
    let Counted { builder, starts, exits } = counted(8);
    let name = |i| if i == 5 { panic!("no name") } else { String::new() };
    assert_eq!(panic_of(|| builder.thread_name(name).build()), "no name");
    assert_eq!(ended(&starts, &exits), 5);
}

#[test]
fn a_refused_thread_ends_those_that_were_started() {
    let _watchdog = watchdog();
    for refused in 0..4 {
        let Counted { builder, starts, exits } = counted(4);
        let builder = builder.spawn_handler(|thread| match thread.index() == refused {
            true => Err(io::Error::new(io::ErrorKind::WouldBlock, "no more threads")),
            false => spawn(thread),
        });
        let error = builder.build().unwrap_err();
        assert_eq!(error.to_string(), "no more threads");
        assert_eq!(
            error.source().unwrap().downcast_ref::<io::Error>().unwrap().kind(),
            io::ErrorKind::WouldBlock
        );
        assert_eq!(ended(&starts, &exits), refused);
    }
}

#[test]
fn a_spawn_handler_that_panics_ends_those_that_were_started() {
    let _watchdog = watchdog();
    for bad in 0..3 {
        let Counted { builder, starts, exits } = counted(3);
        let builder = builder.spawn_handler(|thread| match thread.index() == bad {
            true => panic!("no thread"),
            false => spawn(thread),
        });
        assert_eq!(panic_of(|| builder.build()), "no thread");
        assert_eq!(ended(&starts, &exits), bad);
    }
}

#[test]
fn a_refusal_does_not_wait_for_threads_that_run_later() {
    let _watchdog = watchdog();
    let Counted { builder, starts, exits } = counted(3);
    let mut kept = Vec::new();
    let builder = builder.spawn_handler(|thread| match thread.index() {
        2 => Err(io::Error::other("enough")),
        _ => {
            kept.push(thread);
            Ok(())
        }
    });
    assert!(builder.build().is_err());
    // One runs when the pool has ended, the other never.
    kept.pop().unwrap().run();
    assert_eq!(starts.load(SeqCst), 1);
    drop(kept);
    assert_eq!(ended(&starts, &exits), 1);
}

#[test]
fn threads_that_run_later_than_the_pool_find_its_end() {
    let _watchdog = watchdog();
    let Counted { builder, starts, exits } = counted(2);
    let mut kept = Vec::new();
    let builder = builder.spawn_handler(|thread| {
        kept.push(thread);
        Ok(())
    });
    drop(builder.build().unwrap());
    kept.into_iter().for_each(ThreadBuilder::run);
    assert_eq!(ended(&starts, &exits), 2);
}

#[test]
fn too_many_threads_count_as_the_most() {
    let _watchdog = watchdog();
    let count = Cell::new(0);
    let builder = ThreadPoolBuilder::new().num_threads(usize::MAX).spawn_handler(|_| {
        count.set(count.get() + 1);
        Ok(())
    });
    let pool = builder.build().unwrap();
    assert_eq!((count.get(), pool.current_num_threads()), (4096, 4096));
    // No thread of the pool runs.
    let here = thread::current().id();
    assert_eq!(pool.install(|| thread::current().id()), here);
}

#[test]
fn handlers_run_once_on_each_thread_before_and_after_all_jobs() {
    let _watchdog = watchdog();
    let log = Arc::new(Mutex::new(Vec::new()));
    let (start, exit) = (log.clone(), log.clone());
    let pool = ThreadPoolBuilder::new()
        .num_threads(1)
        .start_handler(move |i| start.lock().push(("start", i, thread::current().id())))
        .exit_handler(move |i| exit.lock().push(("exit", i, thread::current().id())))
        .build()
        .unwrap();
    let job = log.clone();
    pool.install(move || job.lock().push(("job", 0, thread::current().id())));
    drop(pool);
    until("the pool is freed", || Arc::strong_count(&log) == 1);
    let log = log.lock();
    assert_eq!(log.iter().map(|entry| entry.0).collect::<Vec<_>>(), ["start", "job", "exit"]);
    assert!(log.iter().all(|&(_, index, thread)| index == 0 && thread == log[0].2));
}

#[test]
fn every_thread_starts_and_ends_although_the_pool_is_dropped_at_once() {
    let _watchdog = watchdog();
    for threads in [1, 2, 8] {
        let Counted { builder, starts, exits } = counted(threads);
        drop(builder.build().unwrap());
        assert_eq!(ended(&starts, &exits), threads);
    }
}

#[test]
fn panics_of_the_handlers_go_to_the_panic_handler() {
    let _watchdog = watchdog();
    let texts = Arc::new(Mutex::new(Vec::new()));
    let handled = texts.clone();
    let pool = ThreadPoolBuilder::new()
        .num_threads(2)
        .start_handler(|_| panic!("at the start"))
        .exit_handler(|_| panic!("at the end"))
        .panic_handler(move |payload| handled.lock().push(text_of(&*payload)))
        .build()
        .unwrap();
    // The threads go on.
    assert_eq!(pool.install(|| 1), 1);
    drop(pool);
    until("the pool is freed", || Arc::strong_count(&texts) == 1);
    let mut texts = texts.lock();
    texts.sort();
    assert_eq!(*texts, ["at the end", "at the end", "at the start", "at the start"]);
}

#[test]
fn panics_of_the_handlers_without_a_panic_handler_leave_the_pool_as_it_is() {
    let _watchdog = watchdog();
    if cfg!(feature = "abort-on-detached-panic") {
        return;
    }
    let builder = ThreadPoolBuilder::new().num_threads(2);
    let builder = builder.start_handler(|_| panic!("at the start")).exit_handler(|_| panic!("at the end"));
    assert_eq!(builder.build().unwrap().install(|| 1), 1);
}

#[test]
fn a_panic_handler_that_panics_aborts() {
    let name = "a_panic_handler_that_panics_aborts";
    if std::env::var_os("RUNTIME_TEST_CHILD").is_some() {
        let builder = ThreadPoolBuilder::new().num_threads(1);
        let builder = builder.start_handler(|_| panic!("first")).panic_handler(|_| panic!("second"));
        builder.build().unwrap().install(|| ());
        std::process::exit(0);
    }
    let output = support::run_child(name, &[]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && text.contains("the panic handler of a thread pool panicked"),
        "{text}"
    );
}

#[test]
fn handlers_may_compute() {
    let _watchdog = watchdog();
    let sum = Arc::new(AtomicUsize::new(0));
    let (at_start, at_end) = (sum.clone(), sum.clone());
    let add = |sum: &AtomicUsize| {
        let here = thread::current().id();
        let (a, b) = parallel::join(|| usize::from(thread::current().id() == here), || 2);
        sum.fetch_add(a + b, SeqCst);
    };
    let pool = ThreadPoolBuilder::new()
        .num_threads(3)
        .start_handler(move |_| add(&at_start))
        .exit_handler(move |_| add(&at_end))
        .build();
    drop(pool.unwrap());
    until("the pool is freed", || Arc::strong_count(&sum) == 1);
    assert_eq!(sum.load(SeqCst), 3 * 3 * 2);
}

/// Runs `test` on a thread of its own, which may get a job processor for good.
fn on_a_thread<R: Send>(test: impl FnOnce() -> R + Send) -> R {
    joined_scope(|scope| {
        scope.spawn(test).join().unwrap_or_else(|payload| std::panic::resume_unwind(payload))
    })
}

/// Builds a pool that has the calling thread for one of its own, and is therefore never given back.
/// `.ci/lsan.supp` names this.
#[inline(never)]
fn build_for_good(build: impl FnOnce() -> Built) -> Built {
    build()
}

type Built = Result<ThreadPool, ThreadPoolBuildError>;

/// Such a pool, with so many threads.
fn pool_for_good(threads: usize) -> Built {
    build_for_good(|| ThreadPoolBuilder::new().num_threads(threads).use_current_thread().build())
}

#[test]
fn the_building_thread_may_be_one_of_the_pools() {
    let _watchdog = watchdog();
    on_a_thread(|| {
        let names = Arc::new(AtomicUsize::new(0));
        let (spawned, named) = (Cell::new(0), names.clone());
        let Counted { builder, starts, exits } = counted(2);
        let name = move |i| {
            named.fetch_add(1, SeqCst);
            format!("n{i}")
        };
        let builder = builder.use_current_thread().thread_name(name).spawn_handler(|thread| {
            assert_eq!((thread.index(), thread.name()), (1, Some("n1")));
            spawned.set(spawned.get() + 1);
            spawn(thread)
        });
        let pool = build_for_good(|| builder.build()).unwrap();
        assert_eq!((spawned.get(), names.load(SeqCst)), (1, 2));
        assert_eq!((pool.current_num_threads(), pool.current_thread_index()), (2, Some(0)));
        let here = thread::current().id();
        assert_eq!(pool.install(|| thread::current().id()), here);
        // Both halves at once: one on each thread.
        let meet = std::sync::Barrier::new(2);
        let (a, b) = parallel::join(
            || {
                meet.wait();
                thread::current().id()
            },
            || {
                meet.wait();
                thread::current().id()
            },
        );
        assert_eq!(a, here);
        assert_ne!(b, here);
        drop(pool);
        // The other thread ends, although this one stays, and works on.
        until("the other thread has ended", || exits.load(SeqCst) == 1);
        assert_eq!(starts.load(SeqCst), 1);
        assert_eq!(parallel::join(|| 1, || 2), (1, 2));
    });
}

#[test]
fn others_run_what_a_thread_with_a_processor_for_good_has_spawned() {
    let _watchdog = watchdog();
    on_a_thread(|| {
        let Counted { builder, starts: _, exits } = counted(2);
        let pool = build_for_good(|| builder.use_current_thread().build()).unwrap();
        let (gate, here) = (Gate::default(), thread::current().id());
        let door = gate.clone();
        // This thread does not come back to its queues before the job has run.
        pool.spawn(move || {
            assert_ne!(thread::current().id(), here);
            door.open();
        });
        gate.wait();
        // And no job that is left when the pool is dropped is lost.
        let ran = Arc::new(AtomicUsize::new(0));
        for _ in 0..100 {
            let ran = ran.clone();
            parallel::spawn(move || {
                parallel::spawn(move || _ = ran.fetch_add(1, SeqCst));
            });
        }
        drop(pool);
        until("all jobs have run", || ran.load(SeqCst) == 100);
        until("the other thread has ended", || exits.load(SeqCst) == 1);
        // From now on, in place.
        let late = ran.clone();
        parallel::spawn(move || _ = late.fetch_add(1, SeqCst));
        assert_eq!(ran.load(SeqCst), 101);
        parallel::scope(|scope| scope.spawn(|_| _ = ran.fetch_add(1, SeqCst)));
        assert_eq!(parallel::broadcast(|_| ran.load(SeqCst))[0], 102);
    });
}

#[test]
fn a_pool_that_ends_inside_of_a_scope_on_a_processor_for_good_loses_none_of_its_jobs() {
    let _watchdog = watchdog();
    for round in 0..100 {
        on_a_thread(|| {
            let pool = pool_for_good(3).unwrap();
            let ran = AtomicUsize::new(0);
            parallel::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|scope| {
                        for _ in 0..4 {
                            scope.spawn(|_| _ = ran.fetch_add(1, SeqCst));
                        }
                    });
                }
                if round % 2 == 0 {
                    thread::yield_now();
                }
                drop(pool);
            });
            assert_eq!(ran.load(SeqCst), 16);
        });
    }
}

/// Blocks, announced, until another job of the computation has sent.
fn receive(results: std::sync::mpsc::Receiver<u32>) -> u32 {
    parallel::blocking(|| results.recv().unwrap())
}

/// A scope, a scope in place, and a `join`, each of which blocks for one of its own jobs.
fn block_for_own_jobs() {
    let channel = std::sync::mpsc::channel;
    parallel::scope(|scope| {
        let (sender, results) = channel();
        scope.spawn(move |_| sender.send(1).unwrap());
        assert_eq!(receive(results), 1);
    });
    parallel::in_place_scope_fifo(|scope| {
        let (sender, results) = channel();
        scope.spawn_fifo(move |_| sender.send(2).unwrap());
        assert_eq!(receive(results), 2);
    });
    let (sender, results) = channel();
    assert_eq!(join(move || receive(results), move || sender.send(3).unwrap()), (3, ()));
}

#[test]
fn a_thread_whose_pool_is_gone_may_block_for_its_own_jobs() {
    let _watchdog = watchdog();
    on_a_thread(|| {
        let Counted { builder, starts: _, exits } = counted(2);
        let pool = build_for_good(|| builder.use_current_thread().build()).unwrap();
        block_for_own_jobs();
        drop(pool);
        until("the other thread has ended", || exits.load(SeqCst) == 1);
        block_for_own_jobs();
        assert_eq!(parallel::current_thread_index(), Some(0));
        // Also in the polls of tasks, which a runtime without threads has on this thread.
        for workers in support::KINDS {
            let runtime = support::build(workers);
            let task = runtime.spawn(async { block_for_own_jobs() });
            runtime.block_on(async {
                task.await.unwrap();
                block_for_own_jobs();
            });
        }
    });
}

#[test]
fn a_pool_that_is_dropped_inside_of_a_computation_for_good_stays_until_its_end() {
    let _watchdog = watchdog();
    for _ in 0..20 {
        on_a_thread(|| {
            let Counted { builder, starts, exits } = counted(2);
            let pool = build_for_good(|| builder.use_current_thread().build()).unwrap();
            until("the other thread has begun", || starts.load(SeqCst) == 1);
            parallel::scope(|_| {
                drop(pool);
                // Time for the other thread to leave, if it were to leave.
                thread::sleep(std::time::Duration::from_millis(2));
                assert_eq!(exits.load(SeqCst), 0);
                block_for_own_jobs();
            });
            until("the other thread has ended", || exits.load(SeqCst) == 1);
        });
    }
}

#[test]
fn a_processor_for_good_takes_part_in_broadcasts() {
    let _watchdog = watchdog();
    on_a_thread(|| {
        let pool = pool_for_good(3).unwrap();
        let here = thread::current().id();
        let threads = pool.broadcast(|_| thread::current().id());
        assert_eq!((threads.len(), threads[0]), (3, here));
        assert!(!threads[1..].contains(&here));
        // A broadcast that no thread waits for: this thread's part waits until this thread yields.
        let (sender, results) = std::sync::mpsc::channel();
        pool.spawn_broadcast(move |context| sender.send(context.index()).unwrap());
        let mut seen = vec![results.recv().unwrap(), results.recv().unwrap()];
        seen.sort();
        assert_eq!(seen, [1, 2]);
        assert_eq!(pool.yield_local(), Some(parallel::Yield::Executed));
        assert_eq!(results.recv(), Ok(0));
    });
}

#[test]
fn a_thread_outside_installs_into_the_pool_of_one_thread_that_waits() {
    let _watchdog = watchdog();
    on_a_thread(|| {
        let pool = pool_for_good(1).unwrap();
        let here = thread::current().id();
        let other = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        // While this thread waits for the other pool, the other pool's thread installs back into this one.
        assert_eq!(other.install(|| pool.install(|| thread::current().id())), here);
    });
}

#[test]
fn a_thread_cannot_be_in_two_pools() {
    let _watchdog = watchdog();
    let build = || pool_for_good(2);
    let text = "The current thread is already part of another thread pool.";
    let assert_refused = |result: Result<ThreadPool, ThreadPoolBuildError>| {
        let error = result.unwrap_err();
        assert_eq!(error.to_string(), text);
        assert!(error.source().is_none());
    };
    on_a_thread(|| {
        let pool = build().unwrap();
        assert_refused(build());
        drop(pool);
        // It is for good.
        assert_refused(build());
    });
    let pool = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    assert_refused(pool.install(build));
    for workers in [1, 0] {
        let runtime = support::build(workers);
        assert_refused(runtime.block_on(async { runtime.spawn(async move { build() }).await.unwrap() }));
    }
}

#[test]
fn a_refused_thread_leaves_the_building_thread_free() {
    let _watchdog = watchdog();
    on_a_thread(|| {
        let builder = ThreadPoolBuilder::new().num_threads(2).use_current_thread();
        assert!(builder.spawn_handler(|_| Err(io::Error::other("none"))).build().is_err());
        let pool = pool_for_good(1).unwrap();
        assert_eq!(pool.current_thread_index(), Some(0));
    });
}

#[test]
fn a_thread_that_joins_another_pool_meanwhile_is_refused() {
    let _watchdog = watchdog();
    on_a_thread(|| {
        let inner = Cell::new(None);
        let builder = ThreadPoolBuilder::new().num_threads(2).use_current_thread();
        let outer = builder.spawn_handler(|thread| {
            inner.set(Some(pool_for_good(1).unwrap()));
            spawn(thread)
        });
        let error = outer.build().unwrap_err().to_string();
        assert!(error.contains("already part of another thread pool"), "{error}");
        assert_eq!(inner.take().unwrap().install(|| parallel::join(|| 1, || 2)), (1, 2));
    });
}

#[test]
fn a_thread_with_a_processor_for_good_may_block_on_runtimes_and_drop_them() {
    let _watchdog = watchdog();
    on_a_thread(|| {
        let pool = pool_for_good(2).unwrap();
        for workers in support::KINDS {
            let runtime = support::build(workers);
            let (index, sum) = runtime.block_on(async {
                let sum = runtime::spawn(async { parallel::join(|| 1, || 2) }).await.unwrap();
                (pool.current_thread_index(), sum)
            });
            assert_eq!((index, sum), (Some(0), (1, 2)));
            let drops = Drops::default();
            let (gate, token) = (Gate::default(), drops.token());
            let door = gate.clone();
            _ = runtime.spawn_blocking(move || {
                let _token = token;
                door.open();
                thread::sleep(std::time::Duration::from_millis(20));
            });
            gate.wait();
            drop(runtime);
            // The drop has waited, as on any thread that is no worker's.
            assert_eq!(drops.count(), 1);
        }
        assert_eq!(pool.current_thread_index(), Some(0));
    });
}

#[test]
fn a_scoped_pool_borrows_and_has_ended_when_it_returns() {
    let _watchdog = watchdog();
    let (begun, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let wrapper = |thread: ThreadBuilder| {
        begun.fetch_add(1, SeqCst);
        thread.run();
        ended.fetch_add(1, SeqCst);
    };
    let builder = ThreadPoolBuilder::new().num_threads(3).thread_name(|i| format!("scoped-{i}"));
    let name =
        builder.build_scoped(wrapper, |pool| pool.install(|| thread::current().name().unwrap().to_owned()));
    assert!(name.unwrap().starts_with("scoped-"));
    // Not `into_inner`: how std's scope waits is nothing that ThreadSanitizer sees.
    assert_eq!((begun.load(SeqCst), ended.load(SeqCst)), (3, 3));
}

#[test]
fn a_scoped_pool_whose_caller_panics_waits_for_its_threads_and_shares_its_jobs() {
    let _watchdog = watchdog();
    let outer = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    for shorts in NEAR_A_BUDGETS_END {
        let (tx, rx) = mpsc::channel();
        let panics = move |pool: &ThreadPool| {
            pool.spawn(move || rx.recv().unwrap());
            panic!("of the caller")
        };
        let build = || ThreadPoolBuilder::new().num_threads(1).build_scoped(ThreadBuilder::run, panics);
        outer.install(|| {
            short_joins(shorts);
            let text = panic_of(|| join(move || build().unwrap(), move || tx.send(()).unwrap()));
            assert_eq!(text, "of the caller");
        });
    }
}

#[test]
fn a_scoped_pool_ends_after_panics_and_errors() {
    let _watchdog = watchdog();
    let ended = AtomicUsize::new(0);
    let wrapper = |thread: ThreadBuilder| {
        thread.run();
        ended.fetch_add(1, SeqCst);
    };
    let three = || ThreadPoolBuilder::new().num_threads(3);
    assert_eq!(panic_of(|| three().build_scoped(wrapper, |_| panic!("inside"))), "inside");
    assert_eq!(ended.swap(0, SeqCst), 3);
    let name = |i| if i == 2 { "\0".to_owned() } else { String::new() };
    let result = three().thread_name(name).build_scoped(wrapper, |_| ());
    // First of all: how a scope waits for its threads is nothing that ThreadSanitizer sees.
    assert_eq!(ended.swap(0, SeqCst), 2);
    assert!(result.is_err());
    // A wrapper that panics without having run the thread: the pool has none.
    let text = panic_of(|| three().build_scoped(|_| panic!("no thread"), |_| ()));
    assert_eq!(text, "a scoped thread panicked");
}

#[test]
fn the_variables_are_read_as_rayon_reads_them() {
    let name = "the_variables_are_read_as_rayon_reads_them";
    if let Some(expected) = std::env::var_os("EXPECTED") {
        let cpus = thread::available_parallelism().unwrap().get();
        let expected = expected.to_str().unwrap().parse().unwrap_or(cpus);
        for builder in [ThreadPoolBuilder::new(), ThreadPoolBuilder::new().num_threads(0)] {
            assert_eq!(builder.build().unwrap().current_num_threads(), expected);
        }
        let three = ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        assert_eq!(three.current_num_threads(), 3);
        return;
    }
    let (new, old) = ("RAYON_NUM_THREADS", "RAYON_RS_NUM_CPUS");
    let cases: [(&[(&str, &str)], &str); 8] = [
        (&[], "cpus"),
        (&[(new, "7")], "7"),
        (&[(new, "7"), (old, "5")], "7"),
        (&[(old, "5")], "5"),
        (&[(new, " 7"), (old, "5")], "5"),
        (&[(new, "0"), (old, "5")], "cpus"),
        (&[(old, "0")], "cpus"),
        (&[(new, "-1"), (old, "many")], "cpus"),
    ];
    for (variables, expected) in cases {
        let variables = [variables, &[("EXPECTED", expected)]].concat();
        let output = support::run_child(name, &variables);
        assert!(output.status.success(), "{variables:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn debug_forms_tell_the_settings() {
    let _watchdog = watchdog();
    let text = format!("{:?}", ThreadPoolBuilder::new().num_threads(4).panic_handler(drop));
    assert!(text.starts_with("ThreadPoolBuilder { num_threads: 4, use_current_thread: false"), "{text}");
    assert!(text.contains("panic_handler: Some(<closure>)") && text.contains("stack_size: None"), "{text}");
    let text = Mutex::new(String::new());
    let builder = ThreadPoolBuilder::new().num_threads(1).spawn_handler(|thread| {
        *text.lock() = format!("{thread:?}");
        spawn(thread)
    });
    let pool = builder.build().unwrap();
    let text = text.lock();
    assert!(
        text.starts_with("ThreadBuilder {") && text.contains("index: 0, name: None, stack_size: None"),
        "{text}"
    );
    assert!(format!("{pool:?}").starts_with("ThreadPool { num_threads: 1"), "{pool:?}");
}

#[test]
#[allow(deprecated)]
fn the_older_names_still_work() {
    let _watchdog = watchdog();
    let configuration = || {
        parallel::Configuration::new()
            .num_threads(1)
            .thread_name(|_| "old".to_owned())
            .stack_size(4_000_000)
            .breadth_first()
            .panic_handler(drop)
            .start_handler(drop)
            .exit_handler(drop)
    };
    let name = || thread::current().name().map(str::to_owned);
    assert_eq!(configuration().build().unwrap().install(name), Some("old".to_owned()));
    assert_eq!(ThreadPool::new(configuration()).unwrap().install(name), Some("old".to_owned()));
    if in_child("the_older_names_still_work", &[]) {
        parallel::initialize(configuration()).unwrap();
        assert_eq!(parallel::join(name, || ()).0, Some("old".to_owned()));
        assert!(parallel::initialize(configuration()).is_err());
    }
}

#[test]
fn the_error_may_be_sent_and_shared() {
    fn assert_auto<T: Send + Sync + 'static>() {}
    assert_auto::<ThreadPoolBuildError>();
    fn assert_send<T: Send>() {}
    assert_send::<ThreadBuilder>();
    fn assert_pool<T: Send + Sync>() {}
    assert_pool::<ThreadPool>();
}

#[test]
fn a_thread_of_the_pool_that_blocks_shares_its_child_jobs_first() {
    let _watchdog = watchdog();
    on_a_thread(|| {
        let _pool = pool_for_good(3).unwrap();
        for shorts in NEAR_A_BUDGETS_END {
            short_joins(shorts);
            let (tx, rx) = oneshot::channel();
            assert_eq!(join(|| rx.blocking_recv().unwrap(), || tx.send(7).unwrap()).0, 7);
        }
        for shorts in NEAR_A_BUDGETS_END.step_by(5) {
            let (tx, rx) = std::sync::mpsc::channel();
            let (runtime, begun) = (support::build(1), Gate::default());
            let begins = begun.clone();
            drop(runtime.spawn_blocking(move || {
                begins.open();
                rx.recv().unwrap()
            }));
            begun.wait();
            short_joins(shorts);
            join(move || drop(runtime), move || tx.send(()).unwrap());
        }
    });
}

#[test]
fn a_thread_that_waits_for_a_scoped_pool_shares_its_child_jobs_first() {
    let _watchdog = watchdog();
    let runtime = support::build(3);
    for shorts in NEAR_A_BUDGETS_END {
        let computation = runtime.compute(move || {
            short_joins(shorts);
            let (tx, rx) = std::sync::mpsc::channel();
            let with_pool = move |pool: &ThreadPool| pool.spawn(move || rx.recv().unwrap());
            let wait = || {
                let pool = ThreadPoolBuilder::new().num_threads(1);
                pool.build_scoped(|thread| thread.run(), with_pool).unwrap();
            };
            join(wait, move || tx.send(()).unwrap());
        });
        runtime.block_on(computation).unwrap();
    }
}
