//! Guests: a thread that is no worker runs a parallel call on the seat of one that sleeps.

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use runtime::parallel::{
    self, ThreadPoolBuilder, broadcast, current_thread_index, isolated, join, join_context, scope, spawn,
    yield_now,
};
use runtime::sync::oneshot;
use runtime::{Handle, Runtime};
use support::{
    AssertSend, Gate, LIMIT, NEAR_A_GRANTS_END, build, builder, panic_of, short_joins, until, watchdog,
};

fn here() -> ThreadId {
    thread::current().id()
}

/// Calls `f` as a guest: again until a worker sleeps whose seat is to be had.
fn as_guest<R: Send>(f: impl Fn() -> R + Sync) -> R {
    let caller = here();
    let start = Instant::now();
    loop {
        let done = scope(|_| if here() == caller { Some(f()) } else { None });
        if let Some(result) = done {
            return result;
        }
        assert!(start.elapsed() < LIMIT, "there never is a seat to be had");
        // It was sent to a worker, who looks for more before it sleeps: the next call right away would keep it up.
        thread::sleep(Duration::from_millis(1));
    }
}

/// Joins them by hand: how a scope waits for its threads is nothing that ThreadSanitizer sees.
fn join_all<'scope>(threads: impl IntoIterator<Item = thread::ScopedJoinHandle<'scope, ()>>) {
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Runs `f` on a thread that has entered the runtime.
fn outside<R: Send>(handle: &Handle, f: impl FnOnce() -> R + Send) -> R {
    thread::scope(|threads| {
        let thread = threads.spawn(|| {
            let _entered = handle.enter();
            f()
        });
        thread.join().unwrap()
    })
}

/// All seats of the runtime are to be had at once: none was lost.
fn assert_all_seats_can_be_had(runtime: &Runtime) {
    let workers = runtime.metrics().num_workers();
    let (inside, indices) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|threads| {
        let guest = || {
            let _entered = runtime.enter();
            as_guest(|| {
                inside.fetch_add(1, SeqCst);
                indices.lock().push(current_thread_index().unwrap());
                until("all are inside", || inside.load(SeqCst) == workers);
            });
        };
        join_all((0..workers).map(|_| threads.spawn(guest)).collect::<Vec<_>>());
    });
    let mut indices = indices.into_inner();
    indices.sort_unstable();
    assert_eq!(indices, (0..workers).collect::<Vec<_>>(), "no two threads have the same index");
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
    as_guest(|| {
        assert!(current_thread_index().is_some_and(|index| index < 2));
        let (a, _) = join_context(|a| (a.migrated(), here()), |_| ());
        assert_eq!(a, (false, caller));
        assert_eq!(fib(16), 987);
    });
    assert_eq!(current_thread_index(), None);
    assert_all_seats_can_be_had(&runtime);
}

#[test]
fn in_the_process_wide_pool_too() {
    let _watchdog = watchdog();
    if parallel::current_num_threads() < 2 {
        return;
    }
    as_guest(|| assert_eq!(fib(16), 987));
}

#[test]
fn an_idle_worker_takes_the_other_half() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let _entered = runtime.enter();
    as_guest(|| {
        let (first, second) = (Gate::default(), Gate::default());
        // The jobs of a scope are offered at once.
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
fn a_guest_sleeps_until_its_last_piece_is_done_elsewhere() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let _entered = runtime.enter();
    for _ in 0..20 {
        let ran_on = as_guest(|| {
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
    assert_all_seats_can_be_had(&runtime);
}

#[test]
fn workers_whose_seats_are_lent_poll_tasks_and_run_their_calls_in_place() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let inside = AtomicUsize::new(0);
    thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                let _entered = runtime.enter();
                as_guest(|| {
                    inside.fetch_add(1, SeqCst);
                    until("no seat is left", || inside.load(SeqCst) >= 2);
                    // Several in a row: the workers sleep in between.
                    for _ in 0..20 {
                        let task = runtime.spawn(async {
                            let index = current_thread_index();
                            let poller = here();
                            runtime::task::yield_now().await;
                            (index, join(here, here) == (here(), here()), poller)
                        });
                        let (index, is_in_place, poller) = runtime.block_on(task).unwrap();
                        assert_eq!((index, is_in_place), (None, true));
                        assert_ne!(poller, here());
                    }
                    inside.fetch_add(1, SeqCst);
                    until("both are done", || inside.load(SeqCst) == 4);
                });
            });
        }
    });
    let computation = runtime.compute(current_thread_index);
    assert!(runtime.block_on(computation).unwrap().is_some(), "the seats are back");
    assert_all_seats_can_be_had(&runtime);
}

#[test]
fn a_guest_that_waits_runs_no_strangers_call() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let (taken, release, has_come) = (Gate::default(), Gate::default(), Gate::default());
    thread::scope(|threads| {
        let guest = threads.spawn(|| {
            let _entered = runtime.enter();
            as_guest(|| {
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
            // There is no seat left: one computes, and one is lent.
            join(here, || ()).0
        });
        has_come.wait();
        thread::sleep(Duration::from_millis(20));
        release.open();
        assert_ne!(stranger.join().unwrap(), guest.join().unwrap());
    });
}

#[test]
fn a_panic_gives_the_seat_back_when_all_pieces_have_ended() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let _entered = runtime.enter();
    let ended = AtomicUsize::new(0);
    for _ in 0..20 {
        let message = panic_of(|| {
            as_guest(|| {
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
    assert_all_seats_can_be_had(&runtime);
}

#[test]
fn what_a_guest_spawns_is_run_without_it() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let _entered = runtime.enter();
    let ran = Arc::new(AtomicUsize::new(0));
    as_guest(|| {
        for _ in 0..10 {
            let ran = ran.clone();
            spawn(move || _ = ran.fetch_add(1, SeqCst));
        }
    });
    until("all have run", || ran.load(SeqCst) == 10);
}

#[test]
fn a_job_that_a_guest_spawns_into_a_scope_around_is_run() {
    let _watchdog = watchdog();
    let runtime = build(3);
    for _ in 0..50 {
        let ran = AtomicUsize::new(0);
        let computation = || {
            scope(|s| {
                outside(runtime.handle(), || {
                    as_guest(|| s.spawn(|_| _ = ran.fetch_add(1, SeqCst)));
                });
            });
        };
        outside(runtime.handle(), || as_guest(computation));
        assert_eq!(ran.load(SeqCst), 1);
    }
}

#[test]
fn broadcasts_reach_every_seat_from_a_guest_and_beside_one() {
    let _watchdog = watchdog();
    let runtime = build(3);
    let _entered = runtime.enter();
    for _ in 0..50 {
        let all = as_guest(|| broadcast(|thread| (thread.index(), current_thread_index())));
        assert_eq!(all, [(0, Some(0)), (1, Some(1)), (2, Some(2))]);
    }
    let (inside, release) = (Gate::default(), Gate::default());
    thread::scope(|threads| {
        threads.spawn(|| {
            let _entered = runtime.enter();
            as_guest(|| {
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
        // The seat that is lent has its part when it is back.
        thread::sleep(Duration::from_millis(5));
        release.open();
        until("all have run", || sum.load(SeqCst) == 1 + 2 + 3);
    });
}

#[test]
fn a_guest_may_give_way_to_jobs_of_its_own_call() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let _entered = runtime.enter();
    as_guest(|| {
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
fn isolated_parts_and_pools_inside_of_a_guests_call() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let pool = parallel::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let _entered = runtime.enter();
    for _ in 0..50 {
        let sum = as_guest(|| {
            let inner = isolated(|| join(|| fib(8), || fib(9)));
            let other = pool.install(|| join(|| fib(8), || fib(9)));
            let back = pool.install(|| outside(runtime.handle(), || fib(8)));
            inner.0 + inner.1 + other.0 + other.1 + back
        });
        assert_eq!(sum, 2 * (21 + 34) + 21);
    }
    assert_all_seats_can_be_had(&runtime);
}

#[test]
fn a_guest_that_blocks_shares_its_pieces_first() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let _entered = runtime.enter();
    for shorts in NEAR_A_GRANTS_END {
        as_guest(|| {
            wait_for_a_piece(shorts, |rx, _| runtime::task::block_in_place(|| rx.recv().unwrap()));
            wait_for_a_piece(shorts, |_, rx| runtime.block_on(rx).unwrap());
            wait_for_a_piece(shorts, |rx, _| {
                let _mark = parallel::mark_blocked();
                rx.recv().unwrap()
            });
        });
    }
}

#[test]
fn an_isolated_part_of_a_guest_shares_what_is_not_its_own_before_it_waits() {
    let _watchdog = watchdog();
    let (runtime, other) = (build(3), ThreadPoolBuilder::new().num_threads(1).build().unwrap());
    let _entered = runtime.enter();
    for shorts in NEAR_A_GRANTS_END {
        as_guest(|| {
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
fn wait_for_a_piece(shorts: usize, wait: impl FnOnce(mpsc::Receiver<i32>, oneshot::Receiver<i32>) -> i32) {
    let (tx, rx) = mpsc::channel();
    let (async_tx, async_rx) = oneshot::channel();
    short_joins(shorts);
    // What they use need not be `Send`.
    let wait = AssertSend::new(|| wait(rx, async_rx));
    let send = || {
        // Nobody receives it, if the other is waited for.
        let _ = (tx.send(7), async_tx.send(7));
    };
    assert_eq!(join(move || wait.call(), send).0, 7);
}

#[test]
fn a_runtime_that_ends_while_its_seat_is_lent_waits_for_the_guest() {
    let _watchdog = watchdog();
    for _ in 0..20 {
        let runtime = build(2);
        let handle = runtime.handle().clone();
        let (inside, ends) = (Gate::default(), Gate::default());
        thread::scope(|threads| {
            threads.spawn(|| {
                let _entered = handle.enter();
                as_guest(|| {
                    inside.open();
                    ends.wait();
                    assert_eq!(fib(10), 55);
                    let ran = AtomicUsize::new(0);
                    scope(|s| (0..10).for_each(|_| s.spawn(|_| _ = ran.fetch_add(1, SeqCst))));
                    assert_eq!(ran.load(SeqCst), 10);
                });
                // Its seats have left, or are about to: in place.
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
fn a_runtime_that_is_dropped_by_its_guest_does_not_wait_for_it() {
    let _watchdog = watchdog();
    let runtime = Mutex::new(Some(build(2)));
    let handle = runtime.lock().as_ref().unwrap().handle().clone();
    let _entered = handle.enter();
    as_guest(|| {
        drop(runtime.lock().take());
        assert_eq!(fib(10), 55);
    });
}

#[test]
fn threads_that_were_made_special_have_no_guests() {
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

/// Guests come and go, tasks are spawned and block, computations run, all on few seats; and nothing is lost.
#[test]
fn guests_come_and_go_beside_tasks_and_computations() {
    let _watchdog = watchdog();
    let rounds = if cfg!(any(asan, tsan)) { 60 } else { 400 };
    for workers in [2, 3] {
        let runtime = build(workers);
        let (tasks, sum) = (Arc::new(AtomicUsize::new(0)), AtomicU64::new(0));
        thread::scope(|threads| {
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
        assert_all_seats_can_be_had(&runtime);
    }
}

/// Both seats of `runtime` are lent while `f` runs on both guests.
fn on_both_seats(runtime: &Runtime, f: impl Fn() + Sync) {
    let inside = AtomicUsize::new(0);
    thread::scope(|threads| {
        let guest = || {
            let _entered = runtime.enter();
            as_guest(|| {
                inside.fetch_add(1, SeqCst);
                until("no seat is left", || inside.load(SeqCst) == 2);
                f();
            });
        };
        join_all([threads.spawn(guest), threads.spawn(guest)]);
    });
}

#[test]
fn a_worker_that_never_runs_out_of_tasks_has_its_seat_again() {
    let _watchdog = watchdog();
    // No relief threads, that would take tasks away from them.
    let runtime = builder(2).relief_workers(0).build().unwrap();
    let (polled, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let tasks = Mutex::new(Vec::new());
    on_both_seats(&runtime, || {
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
    assert_all_seats_can_be_had(&runtime);
}

#[test]
fn guests_that_broadcast_do_not_wait_for_each_other() {
    let _watchdog = watchdog();
    let runtime = build(2);
    for _ in 0..20 {
        on_both_seats(&runtime, || assert_eq!(broadcast(|thread| thread.index()), [0, 1]));
    }
}

#[test]
fn a_guest_that_waits_runs_the_broadcasts_of_others() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let _entered = runtime.enter();
    as_guest(|| {
        let (here, lent) = (here(), current_thread_index().unwrap());
        let taken = Gate::default();
        scope(|s| {
            s.spawn(|_| {
                taken.open();
                let ran_on = Arc::new(Mutex::new(None));
                outside(runtime.handle(), || {
                    let ran_on = ran_on.clone();
                    parallel::spawn_broadcast(move |thread| {
                        if thread.index() == lent {
                            // What it splits off comes back to the guest.
                            assert_eq!(join(|| fib(8), || fib(9)), (21, 34));
                            *ran_on.lock() = Some(thread::current().id());
                        }
                    });
                });
                until("the guest has run its part", || ran_on.lock().is_some());
                assert_eq!(*ran_on.lock(), Some(here));
            });
            taken.wait();
        });
    });
    assert_all_seats_can_be_had(&runtime);
}
