//! External threads: a thread outside of the runtime runs a parallel call on the job processor of a worker
//! that sleeps.

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use runtime::parallel::{
    self, ThreadPoolBuilder, broadcast, current_thread_index, isolated, join, join_context, max_num_threads,
    scope, spawn, yield_now,
};
use runtime::sync::oneshot;
use runtime::{Handle, Runtime};
use support::{
    AssertSend, Gate, LIMIT, NEAR_A_BUDGETS_END, build, builder, joined_scope, panic_of, short_joins,
    thread_number, until, until_asleep, watchdog,
};

fn here() -> ThreadId {
    thread::current().id()
}

/// Calls `f` on this thread, as an external thread. Tries again until a worker sleeps, in whose place this
/// thread can take part.
fn as_external<R: Send>(f: impl Fn() -> R + Sync) -> R {
    let caller = here();
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        let done = scope(|_| if here() == caller { Some(f()) } else { None });
        if let Some(result) = done {
            return result;
        }
        assert!(start.elapsed() < LIMIT, "it never takes part");
        // It was sent to a worker, which looks for more before it sleeps: the next call right away would keep
        // that worker awake. The worker needs a CPU for that, and on a busy machine it gets one late.
        thread::sleep(pause);
        pause = (pause * 2).min(LIMIT / 20);
    }
}

/// Joins them by hand: how a scope waits for its threads is nothing that ThreadSanitizer sees.
fn join_all<'scope>(threads: impl IntoIterator<Item = thread::ScopedJoinHandle<'scope, ()>>) {
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Runs `f` on a thread that has entered the runtime.
fn outside<R: Send>(handle: &Handle, f: impl FnOnce() -> R + Send) -> R {
    joined_scope(|threads| {
        let thread = threads.spawn(|| {
            let _entered = handle.enter();
            f()
        });
        thread.join().unwrap()
    })
}

/// As many external threads as there are workers take part at once: no place was lost.
fn assert_all_can_take_part(runtime: &Runtime) {
    let workers = runtime.metrics().num_workers();
    let inside = AtomicUsize::new(0);
    joined_scope(|threads| {
        let external = || {
            let _entered = runtime.enter();
            as_external(|| {
                inside.fetch_add(1, SeqCst);
                until("all are inside", || inside.load(SeqCst) == workers);
            });
        };
        join_all((0..workers).map(|_| threads.spawn(external)).collect::<Vec<_>>());
    });
}

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = join(|| fib(n - 1), || fib(n - 2));
    a + b
}

#[test]
fn a_call_runs_on_the_calling_thread_while_a_worker_sleeps() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let _entered = runtime.enter();
    let caller = here();
    as_external(|| {
        assert_eq!((current_thread_index(), parallel::current_num_threads()), (None, 2));
        let (a, _) = join_context(|a| (a.migrated(), here()), |_| ());
        assert_eq!(a, (false, caller));
        assert_eq!(fib(16), 987);
    });
    assert_eq!(current_thread_index(), None);
    assert_all_can_take_part(&runtime);
}

#[test]
fn in_the_process_wide_pool_too() {
    let _watchdog = watchdog();
    if parallel::current_num_threads() < 2 {
        return;
    }
    as_external(|| assert_eq!(fib(16), 987));
}

#[test]
fn an_idle_worker_takes_the_other_half() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let _entered = runtime.enter();
    as_external(|| {
        let (first, second) = (Gate::default(), Gate::default());
        // The jobs of a scope are published at once.
        scope(|s| {
            s.spawn(|_| {
                first.open();
                second.wait();
            });
            first.wait();
            second.open();
        });
    });
}

#[test]
fn an_external_thread_sleeps_until_its_last_job_is_done_elsewhere() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let _entered = runtime.enter();
    for _ in 0..20 {
        let ran_on = as_external(|| {
            let taken = Gate::default();
            let mut ran_on = None;
            scope(|s| {
                s.spawn(|_| {
                    taken.open();
                    thread::sleep(Duration::from_millis(3));
                    ran_on = Some(here());
                });
                taken.wait();
            });
            ran_on.unwrap()
        });
        assert_ne!(ran_on, here());
    }
    assert_all_can_take_part(&runtime);
}

#[test]
fn workers_poll_tasks_and_compute_while_external_threads_take_part_in_their_places() {
    let _watchdog = watchdog();
    let runtime = build(2);
    in_both_places(&runtime, || {
        // Several in a row: the workers sleep in between.
        for _ in 0..20 {
            let task = runtime.spawn(async {
                runtime::task::yield_now().await;
                (here(), current_thread_index(), fib(8))
            });
            let (poller, index, sum) = runtime.block_on(task).unwrap();
            assert_ne!(poller, here());
            assert!(index.is_some_and(|index| index < max_num_threads()));
            assert_eq!((sum, runtime.block_on(runtime.compute(|| fib(8))).unwrap()), (21, 21));
        }
    });
    assert_all_can_take_part(&runtime);
}

#[test]
fn an_external_thread_that_waits_runs_no_strangers_call() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let (taken, release, has_come) = (Gate::default(), Gate::default(), Gate::default());
    joined_scope(|threads| {
        let external = threads.spawn(|| {
            let _entered = runtime.enter();
            as_external(|| {
                scope(|s| {
                    s.spawn(|_| {
                        taken.open();
                        release.wait();
                    });
                    taken.wait();
                });
                here()
            })
        });
        taken.wait();
        let stranger = threads.spawn(|| {
            let _entered = runtime.enter();
            has_come.open();
            // One worker computes, and in the place of the other one an external thread takes part.
            join(here, || ()).0
        });
        has_come.wait();
        thread::sleep(Duration::from_millis(20));
        release.open();
        assert_ne!(stranger.join().unwrap(), external.join().unwrap());
    });
}

#[test]
fn a_panic_gives_the_place_back_when_all_jobs_have_ended() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let _entered = runtime.enter();
    let ended = AtomicUsize::new(0);
    for _ in 0..20 {
        let message = panic_of(|| {
            as_external(|| {
                scope(|s| {
                    let taken = Arc::new(Gate::default());
                    s.spawn({
                        let taken = taken.clone();
                        |_| {
                            let taken = taken;
                            taken.open();
                            thread::yield_now();
                            ended.fetch_add(1, SeqCst);
                        }
                    });
                    taken.wait();
                    join(|| panic!("boom"), || ended.fetch_add(1, SeqCst));
                });
            });
        });
        assert_eq!(message, "boom");
    }
    assert_eq!(ended.load(SeqCst), 40);
    assert_eq!(current_thread_index(), None);
    assert_all_can_take_part(&runtime);
}

#[test]
fn what_an_external_thread_spawns_is_run_without_it() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let _entered = runtime.enter();
    let ran = Arc::new(AtomicUsize::new(0));
    as_external(|| {
        for _ in 0..10 {
            let ran = ran.clone();
            spawn(move || _ = ran.fetch_add(1, SeqCst));
        }
    });
    until("all have run", || ran.load(SeqCst) == 10);
}

#[test]
fn a_job_that_an_external_thread_spawns_into_a_scope_around_is_run() {
    let _watchdog = watchdog();
    let runtime = build(3);
    for _ in 0..50 {
        let ran = AtomicUsize::new(0);
        let computation = || {
            scope(|s| {
                outside(runtime.handle(), || {
                    as_external(|| s.spawn(|_| _ = ran.fetch_add(1, SeqCst)));
                });
            });
        };
        outside(runtime.handle(), || as_external(computation));
        assert_eq!(ran.load(SeqCst), 1);
    }
}

#[test]
fn broadcasts_reach_every_worker_from_an_external_thread_and_beside_one() {
    let _watchdog = watchdog();
    let runtime = build(3);
    let _entered = runtime.enter();
    for _ in 0..50 {
        let all = as_external(|| broadcast(|thread| (thread.index(), current_thread_index())));
        assert_eq!(all, [(0, Some(0)), (1, Some(1)), (2, Some(2))]);
    }
    let (inside, release) = (Gate::default(), Gate::default());
    joined_scope(|threads| {
        threads.spawn(|| {
            let _entered = runtime.enter();
            as_external(|| {
                inside.open();
                release.wait();
            });
        });
        inside.wait();
        let sum = Arc::new(AtomicUsize::new(0));
        parallel::spawn_broadcast({
            let sum = sum.clone();
            move |thread| _ = sum.fetch_add(1 + thread.index(), SeqCst)
        });
        thread::sleep(Duration::from_millis(5));
        release.open();
        until("all have run", || sum.load(SeqCst) == 1 + 2 + 3);
    });
}

#[test]
fn an_external_thread_may_yield_to_jobs_of_its_own_call() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let _entered = runtime.enter();
    as_external(|| {
        let done = AtomicUsize::new(0);
        scope(|s| {
            s.spawn(|_| _ = done.fetch_add(1, SeqCst));
            while done.load(SeqCst) == 0 {
                yield_now();
                thread::yield_now();
            }
        });
    });
}

#[test]
fn isolated_parts_and_pools_inside_of_an_external_threads_call() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let pool = parallel::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let _entered = runtime.enter();
    for _ in 0..50 {
        let sum = as_external(|| {
            let inner = isolated(|| join(|| fib(8), || fib(9)));
            let other = pool.install(|| join(|| fib(8), || fib(9)));
            let back = pool.install(|| outside(runtime.handle(), || fib(8)));
            inner.0 + inner.1 + other.0 + other.1 + back
        });
        assert_eq!(sum, 2 * (21 + 34) + 21);
    }
    assert_all_can_take_part(&runtime);
}

#[test]
fn an_external_thread_that_blocks_shares_its_jobs_first() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let _entered = runtime.enter();
    for shorts in NEAR_A_BUDGETS_END {
        as_external(|| {
            wait_for_a_child_job(shorts, |rx, _| runtime::task::block_in_place(|| rx.recv().unwrap()));
            wait_for_a_child_job(shorts, |_, rx| runtime.block_on(rx).unwrap());
            wait_for_a_child_job(shorts, |rx, _| {
                let _mark = parallel::mark_blocked();
                rx.recv().unwrap()
            });
        });
    }
}

/// The workers wait in isolated parts, so they may not take it.
#[test]
fn a_spare_worker_takes_the_job_that_a_blocked_external_thread_needs() {
    fn in_place(gate: &Gate) {
        runtime::task::block_in_place(|| gate.wait());
    }
    fn marked(gate: &Gate) {
        let _mark = parallel::mark_blocked();
        gate.wait();
    }
    fn for_a_scoped_pool(gate: &Gate) {
        let gate = gate.clone();
        let builder = ThreadPoolBuilder::new().num_threads(1);
        builder.build_scoped(|thread| thread.run(), |pool| pool.spawn(move || gate.wait())).unwrap();
    }
    let _watchdog = watchdog();
    let waits: [fn(&Gate); 3] = [in_place, marked, for_a_scoped_pool];
    for wait in waits {
        let (runtime, other) = (build(2), Arc::new(ThreadPoolBuilder::new().num_threads(2).build().unwrap()));
        let _entered = runtime.enter();
        as_external(|| {
            let (workers, waiting) = mpsc::channel();
            let (gate, done) = (Gate::default(), Gate::default());
            let computations = [(); 2].map(|()| {
                let (other, workers, gate) = (other.clone(), workers.clone(), gate.clone());
                runtime.handle().compute(move || {
                    workers.send(thread_number()).unwrap();
                    isolated(|| other.install(move || gate.wait()));
                })
            });
            waiting.iter().take(2).for_each(until_asleep);
            let open = || {
                gate.open();
                done.open();
            };
            join(|| wait(&done), open);
            computations.into_iter().for_each(|computation| runtime.block_on(computation).unwrap());
        });
    }
}

#[test]
fn an_external_thread_whose_stack_unwinds_shares_its_jobs_before_it_waits() {
    let _watchdog = watchdog();
    let (runtime, other) = (build(2), ThreadPoolBuilder::new().num_threads(1).build().unwrap());
    let _entered = runtime.enter();
    let was_unwinding = AtomicUsize::new(0);
    for shorts in NEAR_A_BUDGETS_END {
        as_external(|| {
            let second = || {
                was_unwinding.fetch_add(usize::from(thread::panicking()), SeqCst);
                wait_for_a_child_job(shorts, |rx, _| other.install(move || rx.recv().unwrap()));
            };
            panic_of(|| join(|| resume_unwind(Box::new("of the first closure")), second));
        });
    }
    assert!(was_unwinding.load(SeqCst) > 0, "the second closure was always stolen");
}

#[test]
fn an_isolated_part_of_an_external_thread_shares_what_is_not_its_own_before_it_waits() {
    let _watchdog = watchdog();
    let (runtime, other) = (build(3), ThreadPoolBuilder::new().num_threads(1).build().unwrap());
    let _entered = runtime.enter();
    for shorts in NEAR_A_BUDGETS_END {
        as_external(|| {
            let (tx, rx) = mpsc::channel();
            // The workers go to sleep.
            thread::sleep(Duration::from_millis(3));
            short_joins(shorts);
            let wait = || isolated(|| other.install(move || rx.recv().unwrap()));
            assert_eq!(join(wait, move || tx.send(7).unwrap()).0, 7);
        });
    }
}

/// A `join` whose first closure waits for the second, by either channel, after so many short ones.
fn wait_for_a_child_job(
    shorts: usize,
    wait: impl FnOnce(mpsc::Receiver<i32>, oneshot::Receiver<i32>) -> i32,
) {
    let (tx, rx) = mpsc::channel();
    let (async_tx, async_rx) = oneshot::channel();
    short_joins(shorts);
    // What the callers' closures use need not be `Send`.
    let wait = AssertSend::new(|| wait(rx, async_rx));
    let send = || {
        // The second send may fail: the receiver that is not waited for may be gone.
        let _ = (tx.send(7), async_tx.send(7));
    };
    assert_eq!(join(move || wait.call(), send).0, 7);
}

#[test]
fn a_runtime_that_ends_waits_for_the_external_thread() {
    let _watchdog = watchdog();
    for _ in 0..20 {
        let runtime = build(2);
        let handle = runtime.handle().clone();
        let (inside, ends) = (Gate::default(), Gate::default());
        joined_scope(|threads| {
            threads.spawn(|| {
                let _entered = handle.enter();
                as_external(|| {
                    inside.open();
                    ends.wait();
                    assert_eq!(fib(10), 55);
                    let ran = AtomicUsize::new(0);
                    scope(|s| (0..10).for_each(|_| s.spawn(|_| _ = ran.fetch_add(1, SeqCst))));
                    assert_eq!(ran.load(SeqCst), 10);
                });
                // The workers have left, or are about to leave: this runs in place.
                assert_eq!(fib(10), 55);
            });
            inside.wait();
            threads.spawn(move || {
                let runtime = runtime;
                drop(runtime);
            });
            thread::yield_now();
            ends.open();
        });
    }
}

#[test]
fn a_runtime_that_is_dropped_by_an_external_thread_does_not_wait_for_it() {
    let _watchdog = watchdog();
    let runtime = Mutex::new(Some(build(2)));
    let handle = runtime.lock().as_ref().unwrap().handle().clone();
    let _entered = handle.enter();
    as_external(|| {
        drop(runtime.lock().take());
        assert_eq!(fib(10), 55);
    });
}

#[test]
fn runtimes_with_special_threads_take_no_external_ones() {
    let _watchdog = watchdog();
    let with_stack = builder(2).thread_stack_size(1 << 20).build().unwrap();
    let with_hook = builder(2).on_thread_start(|| ()).build().unwrap();
    let of_one = build(1);
    for runtime in [with_stack, with_hook, of_one] {
        let _entered = runtime.enter();
        for _ in 0..50 {
            assert_ne!(join(here, || ()).0, here());
        }
    }
}

/// External threads come and go, tasks are spawned and block, computations run, all on few workers; and
/// nothing is lost.
#[test]
fn external_threads_come_and_go_beside_tasks_and_computations() {
    let _watchdog = watchdog();
    let rounds = if cfg!(any(asan, tsan)) { 60 } else { 400 };
    for workers in [2, 3] {
        let runtime = build(workers);
        let (tasks, sum) = (Arc::new(AtomicUsize::new(0)), AtomicU64::new(0));
        joined_scope(|threads| {
            let visitors = (0..4_usize).map(|kind| {
                let (runtime, tasks, sum) = (&runtime, &tasks, &sum);
                threads.spawn(move || {
                    let _entered = runtime.enter();
                    for round in 0..rounds {
                        match (kind + round) % 4 {
                            0 => _ = sum.fetch_add(fib(12), SeqCst),
                            1 => {
                                let jobs = AtomicU64::new(0);
                                scope(|s| {
                                    for _ in 0..24 {
                                        s.spawn(|s| {
                                            jobs.fetch_add(1, SeqCst);
                                            s.spawn(|_| _ = jobs.fetch_add(2, SeqCst));
                                        });
                                    }
                                });
                                assert_eq!(jobs.into_inner(), 72);
                                sum.fetch_add(144, SeqCst);
                            }
                            2 => {
                                let caught = catch_unwind(AssertUnwindSafe(|| {
                                    join(|| fib(5), || if round % 8 == 2 { panic!("boom") } else { fib(5) })
                                }));
                                assert_eq!(caught.is_err(), round % 8 == 2);
                                sum.fetch_add(144, SeqCst);
                            }
                            _ => {
                                let computation = runtime.compute(|| fib(12));
                                sum.fetch_add(runtime.block_on(computation).unwrap(), SeqCst);
                            }
                        }
                        let tasks = tasks.clone();
                        runtime.spawn(async move {
                            if round % 16 == 0 {
                                runtime::task::block_in_place(thread::yield_now);
                            }
                            runtime::task::yield_now().await;
                            assert_eq!(fib(4), 3);
                            tasks.fetch_add(1, SeqCst);
                        });
                        if round % 32 == 0 {
                            // The workers fall asleep.
                            thread::sleep(Duration::from_micros(300));
                        }
                    }
                })
            });
            join_all(visitors.collect::<Vec<_>>());
        });
        assert_eq!(sum.into_inner(), 4 * rounds as u64 * 144);
        until("all tasks have run", || tasks.load(SeqCst) == 4 * rounds);
        assert_all_can_take_part(&runtime);
    }
}

/// Two external threads take part while both run `f`.
fn in_both_places(runtime: &Runtime, f: impl Fn() + Sync) {
    let inside = AtomicUsize::new(0);
    joined_scope(|threads| {
        let external = || {
            let _entered = runtime.enter();
            as_external(|| {
                inside.fetch_add(1, SeqCst);
                until("both are inside", || inside.load(SeqCst) == 2);
                f();
            });
        };
        join_all([threads.spawn(external), threads.spawn(external)]);
    });
}

#[test]
fn workers_that_never_run_out_of_tasks_compute_all_the_same() {
    let _watchdog = watchdog();
    // No spare workers, which would take tasks away from them.
    let runtime = builder(2).spare_workers(0).build().unwrap();
    let (polled, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let tasks = Mutex::new(Vec::new());
    in_both_places(&runtime, || {
        let (is_polled, ends) = (polled.clone(), is_over.clone());
        tasks.lock().push(runtime.spawn(async move {
            is_polled.fetch_add(1, SeqCst);
            // So that each worker has one.
            while is_polled.load(SeqCst) < 2 {
                thread::yield_now();
            }
            while ends.load(SeqCst) == 0 {
                runtime::task::yield_now().await;
            }
        }));
        until("both workers have a task", || polled.load(SeqCst) == 2);
    });
    let computation = runtime.compute(|| ());
    runtime.block_on(computation).unwrap();
    let _entered = runtime.enter();
    assert_eq!(broadcast(|thread| thread.index()), [0, 1]);
    is_over.store(1, SeqCst);
    tasks.into_inner().into_iter().for_each(|task| runtime.block_on(task).unwrap());
    assert_all_can_take_part(&runtime);
}

#[test]
fn external_threads_that_broadcast_do_not_wait_for_each_other() {
    let _watchdog = watchdog();
    let runtime = build(2);
    for _ in 0..20 {
        in_both_places(&runtime, || assert_eq!(broadcast(|thread| thread.index()), [0, 1]));
    }
}

/// It has a job processor already, which the pool's calls would take for their own.
#[test]
fn an_external_thread_cannot_become_a_thread_of_a_pool() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let _entered = runtime.enter();
    as_external(|| {
        let build = || ThreadPoolBuilder::new().num_threads(1).use_current_thread().build();
        assert!(build().is_err());
        assert!(isolated(build).is_err());
    });
}
