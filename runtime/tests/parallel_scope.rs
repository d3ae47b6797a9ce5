//! Scopes: order, borrowing, panics, and spawns from everywhere.

mod support;

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use runtime::parallel::{
    self, BroadcastContext, Scope, ScopeFifo, ThreadPool, ThreadPoolBuilder, Yield, in_place_scope,
    in_place_scope_fifo, scope, scope_fifo,
};
use support::{joined_scope, panic_of, until, watchdog};

fn pool(threads: usize) -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
}

/// Runs `f` on a pool of one thread, with a log; returns what was logged.
fn logged(f: impl FnOnce(&Mutex<Vec<i32>>) + Send) -> Vec<i32> {
    let log = Mutex::new(Vec::new());
    pool(1).install(|| f(&log));
    log.into_inner()
}

#[test]
fn a_scope_runs_its_jobs_last_in_first_out_on_one_thread() {
    let _watchdog = watchdog();
    let log = logged(|log| {
        scope(|s| (0..100).for_each(|i| s.spawn(move |_| log.lock().push(i))));
    });
    assert_eq!(log, (0..100).rev().collect::<Vec<_>>());
}

#[test]
fn a_fifo_scope_runs_its_jobs_first_in_first_out_on_one_thread() {
    let _watchdog = watchdog();
    let log = logged(|log| {
        scope_fifo(|s| (0..100).for_each(|i| s.spawn_fifo(move |_| log.lock().push(i))));
    });
    assert_eq!(log, (0..100).collect::<Vec<_>>());
}

#[test]
fn a_fifo_scope_keeps_its_order_beyond_what_the_deque_holds() {
    let _watchdog = watchdog();
    let log = logged(|log| {
        scope_fifo(|s| (0..20_000).for_each(|i| s.spawn_fifo(move |_| log.lock().push(i))));
    });
    assert_eq!(log, (0..20_000).collect::<Vec<_>>());
}

/// The jobs that the deque does not hold do not run on top of each other, although each waits for a scope of
/// its own: the stack would not hold that.
#[test]
fn scopes_in_the_jobs_of_a_scope_do_not_nest_beyond_what_the_deque_holds() {
    let _watchdog = watchdog();
    for threads in [1, 2] {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let count = AtomicUsize::new(0);
        pool.install(|| {
            scope(|outer| {
                for _ in 0..20_000 {
                    outer.spawn(|_| scope(|inner| inner.spawn(|_| _ = count.fetch_add(1, SeqCst))));
                }
            });
        });
        assert_eq!(count.into_inner(), 20_000);
    }
}

#[test]
fn nested_scopes_of_both_kinds_keep_each_its_order() {
    let _watchdog = watchdog();
    let inner_fifo = logged(|log| {
        scope(|outer| {
            for i in 0..10 {
                outer.spawn(move |_| {
                    scope_fifo(|inner| {
                        (0..10).for_each(|j| inner.spawn_fifo(move |_| log.lock().push(10 * i + j)));
                    });
                });
            }
        });
    });
    let expected: Vec<_> = (0..10).rev().flat_map(|i| (0..10).map(move |j| 10 * i + j)).collect();
    assert_eq!(inner_fifo, expected);
    let inner_lifo = logged(|log| {
        scope_fifo(|outer| {
            for i in 0..10 {
                outer.spawn_fifo(move |_| {
                    scope(|inner| (0..10).for_each(|j| inner.spawn(move |_| log.lock().push(10 * i + j))));
                });
            }
        });
    });
    let expected: Vec<_> = (0..10).flat_map(|i| (0..10).rev().map(move |j| 10 * i + j)).collect();
    assert_eq!(inner_lifo, expected);
}

/// Outer jobs are 0 to 3, inner ones -1 to -3. The inner scope's body spawns the outer jobs 1 and 2.
macro_rules! mixed {
    ($outer:ident . $outer_spawn:ident, $inner:ident . $inner_spawn:ident) => {
        logged(|log| {
            $outer(|outer| {
                let note = |i| move |log: &Mutex<Vec<i32>>| log.lock().push(i);
                outer.$outer_spawn(move |_| note(0)(log));
                $inner(|inner| {
                    inner.$inner_spawn(move |_| note(-1)(log));
                    outer.$outer_spawn(move |_| note(1)(log));
                    inner.$inner_spawn(move |_| note(-2)(log));
                    outer.$outer_spawn(move |_| note(2)(log));
                    inner.$inner_spawn(move |_| note(-3)(log));
                });
                outer.$outer_spawn(move |_| note(3)(log));
            });
        })
    };
}

#[test]
fn jobs_of_two_scopes_mix_as_their_places_in_the_deque_do() {
    let _watchdog = watchdog();
    assert_eq!(mixed!(scope.spawn, scope.spawn), [-3, 2, -2, 1, -1, 3, 0]);
    assert_eq!(mixed!(scope_fifo.spawn_fifo, scope_fifo.spawn_fifo), [-1, 0, -2, 1, -3, 2, 3]);
    assert_eq!(mixed!(scope.spawn, scope_fifo.spawn_fifo), [-1, 2, -2, 1, -3, 3, 0]);
    assert_eq!(mixed!(scope_fifo.spawn_fifo, scope.spawn), [-3, 0, -2, 1, -1, 2, 3]);
}

#[test]
fn a_join_in_a_fifo_scope_in_a_scope_runs_before_what_was_spawned_around_it() {
    let _watchdog = watchdog();
    let log = logged(|log| {
        scope(|outer| {
            outer.spawn(|_| log.lock().push(1));
            outer.spawn(|_| log.lock().push(2));
            scope_fifo(|inner| {
                inner.spawn_fifo(|_| log.lock().push(3));
                inner.spawn_fifo(|_| log.lock().push(4));
                parallel::join(|| log.lock().push(5), || log.lock().push(6));
            });
        });
    });
    assert_eq!(log, [5, 6, 3, 4, 2, 1]);
}

#[test]
#[allow(deprecated)]
fn a_breadth_first_pool_runs_a_scopes_jobs_in_the_order_of_their_spawns() {
    let _watchdog = watchdog();
    let log = Mutex::new(Vec::new());
    let pool = ThreadPoolBuilder::new().num_threads(1).breadth_first().build().unwrap();
    pool.install(|| {
        scope(|s| {
            (0..100).for_each(|i| {
                s.spawn({
                    let log = &log;
                    move |_| log.lock().push(i)
                })
            })
        })
    });
    assert_eq!(log.into_inner(), (0..100).collect::<Vec<_>>());
}

#[test]
fn a_scope_waits_for_a_whole_tree_of_spawns() {
    let _watchdog = watchdog();
    fn grow<'a>(s: &Scope<'a>, depth: usize, leaves: &'a AtomicUsize) {
        if depth == 0 {
            leaves.fetch_add(1, SeqCst);
            return;
        }
        s.spawn(move |s| grow(s, depth - 1, leaves));
        s.spawn(move |s| grow(s, depth - 1, leaves));
    }
    fn grow_fifo<'a>(s: &ScopeFifo<'a>, depth: usize, leaves: &'a AtomicUsize) {
        if depth == 0 {
            leaves.fetch_add(1, SeqCst);
            return;
        }
        s.spawn_fifo(move |s| grow_fifo(s, depth - 1, leaves));
        s.spawn_fifo(move |s| grow_fifo(s, depth - 1, leaves));
    }
    for threads in [1, 2, 4] {
        let pool = pool(threads);
        for _ in 0..20 {
            let leaves = AtomicUsize::new(0);
            pool.install(|| scope(|s| grow(s, 10, &leaves)));
            assert_eq!(leaves.swap(0, SeqCst), 1024);
            pool.install(|| scope_fifo(|s| grow_fifo(s, 10, &leaves)));
            assert_eq!(leaves.into_inner(), 1024);
        }
    }
}

/// How deep the stack is while the last of a chain of jobs runs. AddressSanitizer has variables elsewhere, so
/// there it says nothing.
fn depth_of_chain(length: usize) -> usize {
    fn link<'a>(s: &Scope<'a>, left: usize, end: &'a AtomicUsize) {
        if left == 0 {
            let here = 0_u8;
            end.store(std::hint::black_box(&raw const here).addr(), SeqCst);
        } else {
            s.spawn(move |s| link(s, left - 1, end));
        }
    }
    pool(1).install(|| {
        let here = 0_u8;
        let end = AtomicUsize::new(0);
        scope(|s| link(s, length, &end));
        std::hint::black_box(&raw const here).addr().abs_diff(end.load(SeqCst))
    })
}

#[test]
fn a_job_does_not_run_on_top_of_its_spawner() {
    let _watchdog = watchdog();
    let (short, long) = (depth_of_chain(5), depth_of_chain(500));
    assert!(short == long || cfg!(asan), "{short} bytes for a short chain, {long} for a long one");
}

#[test]
fn a_job_borrows_what_is_outside_and_the_scope_returns_what_its_body_does() {
    let _watchdog = watchdog();
    let pool = pool(2);
    let mut data = vec![1; 1000];
    let length = pool.install(|| {
        scope(|s| {
            let length = data.len();
            data.chunks_mut(10).for_each(|chunk| s.spawn(move |_| chunk.iter_mut().for_each(|x| *x += 1)));
            length
        })
    });
    assert_eq!(length, 1000);
    assert!(data.iter().all(|x| *x == 2), "{data:?}");
}

#[test]
fn each_closure_is_dropped_once() {
    let _watchdog = watchdog();
    let token = Arc::new(());
    let pool = pool(2);
    pool.install(|| {
        scope(|s| {
            for _ in 0..1000 {
                let token = token.clone();
                s.spawn(move |_| drop(token));
            }
            let token = token.clone();
            s.spawn_broadcast(move |_, _| _ = &token);
        });
    });
    assert_eq!(Arc::strong_count(&token), 1);
}

#[test]
fn a_panic_of_the_body_or_of_a_job_comes_out_when_all_jobs_have_ended() {
    let _watchdog = watchdog();
    for threads in [1, 3] {
        let pool = pool(threads);
        let ended = AtomicUsize::new(0);
        let end = |_: &Scope<'_>| _ = ended.fetch_add(1, SeqCst);
        let text = panic_of(|| {
            pool.install(|| {
                scope(|s| {
                    (0..20).for_each(|_| s.spawn(end));
                    panic!("body");
                })
            })
        });
        assert_eq!((text.as_str(), ended.swap(0, SeqCst)), ("body", 20));
        let text = panic_of(|| {
            pool.install(|| {
                scope(|s| {
                    (0..10).for_each(|_| s.spawn(end));
                    s.spawn(|_| panic!("job"));
                    (0..10).for_each(|_| s.spawn(end));
                })
            })
        });
        assert_eq!((text.as_str(), ended.swap(0, SeqCst)), ("job", 20));
        let text = panic_of(|| {
            pool.install(|| scope(|s| s.spawn(|s| s.spawn(|_| scope(|s| s.spawn(|_| panic!("deep")))))))
        });
        assert_eq!(text, "deep");
        let text = panic_of(|| pool.install(|| scope_fifo(|s| s.spawn_fifo(|_| panic!("fifo")))));
        assert_eq!(text, "fifo");
        // The pool is none the worse.
        assert_eq!(pool.install(|| scope(|_| 1)), 1);
    }
}

#[test]
fn the_first_of_many_panics_wins_and_a_payload_that_panics_when_dropped_does_no_harm() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("a payload");
        }
    }
    let _watchdog = watchdog();
    let text = panic_of(|| {
        pool(1).install(|| {
            scope(|s| {
                s.spawn(|_| std::panic::panic_any(Bomb));
                s.spawn(|_| panic!("first"));
            })
        })
    });
    assert_eq!(text, "first");
}

#[test]
fn a_broadcast_job_of_a_scope_runs_on_every_thread_at_once() {
    let _watchdog = watchdog();
    let pool = pool(4);
    let (sum, barrier) = (AtomicUsize::new(0), Barrier::new(4));
    let count = |context: runtime::parallel::BroadcastContext<'_>| {
        barrier.wait();
        assert_eq!(context.num_threads(), 4);
        sum.fetch_add(context.index() + 1, SeqCst);
    };
    pool.install(|| scope(|s| s.spawn_broadcast(|_, context| count(context))));
    assert_eq!(sum.swap(0, SeqCst), 10);
    pool.install(|| scope_fifo(|s| s.spawn_broadcast(|_, context| count(context))));
    assert_eq!(sum.swap(0, SeqCst), 10);
    // Jobs spawned by a broadcast job, and one that panics.
    let text = panic_of(|| {
        pool.install(|| {
            scope(|s| {
                s.spawn_broadcast(|s, context| {
                    s.spawn(|_| _ = sum.fetch_add(1, SeqCst));
                    assert!(context.index() != 2, "third");
                });
            })
        })
    });
    assert_eq!((text.as_str(), sum.into_inner()), ("third", 4));
}

#[test]
fn an_in_place_scopes_body_runs_here_and_its_jobs_in_the_pool() {
    let _watchdog = watchdog();
    let runtime = support::build(2);
    let _entered = runtime.enter();
    let here = thread::current().id();
    let jobs = Mutex::new(Vec::new());
    in_place_scope(|s| {
        assert_eq!(thread::current().id(), here);
        // The body waits for its job, so that is not run by its thread.
        let (tx, rx) = mpsc::channel();
        let jobs = &jobs;
        s.spawn(move |s| {
            jobs.lock().push(thread::current().id());
            s.spawn(|_| jobs.lock().push(thread::current().id()));
            tx.send(()).unwrap();
        });
        rx.recv().unwrap();
    });
    in_place_scope_fifo(|s| s.spawn_fifo(|_| jobs.lock().push(thread::current().id())));
    let jobs = jobs.into_inner();
    assert_eq!(jobs.len(), 3);
    assert!(!jobs.contains(&here));
    assert_eq!(panic_of(|| in_place_scope(|s| s.spawn(|_| panic!("there")))), "there");
    assert_eq!(panic_of(|| in_place_scope(|_| panic!("here"))), "here");
}

#[test]
fn a_runtime_that_is_shut_down_meanwhile_runs_the_jobs_of_an_in_place_scope() {
    let _watchdog = watchdog();
    for _ in 0..20 {
        let runtime = support::build(2);
        let handle = runtime.handle().clone();
        let ran = AtomicUsize::new(0);
        joined_scope(|threads| {
            let _entered = handle.enter();
            let ending = in_place_scope(|s| {
                // The drop waits for the workers, which wait for the scope.
                let ending = threads.spawn(|| drop(runtime));
                for _ in 0..100 {
                    s.spawn(|s| {
                        s.spawn(|_| _ = ran.fetch_add(1, SeqCst));
                        ran.fetch_add(1, SeqCst);
                    });
                    thread::yield_now();
                }
                ending
            });
            ending.join().unwrap();
            assert_eq!(ran.swap(0, SeqCst), 200);
            // The workers have left: the same, in the process-wide pool.
            let ran = &ran;
            in_place_scope(|s| {
                s.spawn(|s| {
                    s.spawn(|_| _ = ran.fetch_add(1, SeqCst));
                    let is_first = |context: BroadcastContext<'_>| usize::from(context.index() == 0);
                    s.spawn_broadcast(move |_, context| _ = ran.fetch_add(is_first(context), SeqCst));
                });
            });
            scope_fifo(|s| s.spawn_fifo(|_| _ = ran.fetch_add(1, SeqCst)));
            assert_eq!(ran.load(SeqCst), 3);
        });
    }
}

#[test]
fn a_scope_in_a_tasks_poll_ends_although_the_runtime_is_shut_down() {
    let _watchdog = watchdog();
    for _ in 0..20 {
        let runtime = support::build(2);
        let ran = Arc::new(AtomicUsize::new(0));
        let (tx, rx) = mpsc::channel();
        let theirs = ran.clone();
        drop(runtime.spawn(async move {
            tx.send(()).unwrap();
            for _ in 0..50 {
                scope(|s| {
                    for _ in 0..10 {
                        s.spawn(|s| s.spawn(|_| _ = theirs.fetch_add(1, SeqCst)));
                    }
                    // From a thread without a job processor, whether the pool takes it or not.
                    joined_scope(|threads| {
                        let thread = threads.spawn(|| s.spawn(|_| _ = theirs.fetch_add(1, SeqCst)));
                        thread.join().unwrap();
                    });
                });
            }
        }));
        rx.recv().unwrap();
        drop(runtime);
        assert_eq!(ran.load(SeqCst), 550);
    }
}

#[test]
fn scopes_of_several_pools_take_jobs_from_each_others_threads() {
    let _watchdog = watchdog();
    let (a, b) = (pool(1), pool(1));
    let count = AtomicUsize::new(0);
    let on = |pool: &ThreadPool| pool.install(|| thread::current().id());
    let (on_a, on_b) = (on(&a), on(&b));
    for _ in 0..100 {
        a.install(|| {
            scope(|of_a| {
                b.install(|| {
                    scope_fifo(|of_b| {
                        of_a.spawn(|_| {
                            assert_eq!(thread::current().id(), on_a);
                            count.fetch_add(1, SeqCst);
                        });
                        of_b.spawn_fifo(|_| {
                            assert_eq!(thread::current().id(), on_b);
                            count.fetch_add(1, SeqCst);
                        });
                    });
                });
            });
        });
    }
    assert_eq!(count.into_inner(), 200);
}

#[test]
fn an_in_place_scope_of_a_current_thread_runtime_ends() {
    let _watchdog = watchdog();
    let runtime = support::build(0);
    let count = AtomicUsize::new(0);
    runtime.block_on(async {
        in_place_scope(|s| s.spawn(|s| s.spawn(|_| _ = count.fetch_add(1, SeqCst))));
        scope(|s| s.spawn(|s| s.spawn(|_| _ = count.fetch_add(1, SeqCst))));
    });
    assert_eq!(count.into_inner(), 2);
}

#[test]
fn a_static_scopes_body_may_still_borrow() {
    let _watchdog = watchdog();
    let pool = pool(1);
    let mut sum = 0;
    let range = &[1, 2, 3];
    pool.install(|| {
        scope::<'static, _, _>(|s: &Scope<'static>| {
            for i in range {
                sum += i;
                s.spawn(|_| ());
            }
        })
    });
    assert_eq!(sum, 6);
}

#[test]
fn scopes_print_themselves() {
    let _watchdog = watchdog();
    pool(1).install(|| {
        scope(|s| assert!(format!("{s:?}").starts_with("Scope {"), "{s:?}"));
        scope_fifo(|s| assert!(format!("{s:?}").starts_with("ScopeFifo { num_fifos: 1"), "{s:?}"));
    });
}

/// What each type promises at compile time.
#[test]
fn scopes_are_send_and_sync_and_do_not_pass_for_unwind_safe() {
    fn send_and_sync<T: Send + Sync + Unpin>() {}
    send_and_sync::<Scope<'static>>();
    send_and_sync::<ScopeFifo<'static>>();
}

#[test]
fn jobs_of_a_cancelled_computation_that_have_not_begun_are_dropped() {
    let _watchdog = watchdog();
    // No spare worker: it would run jobs while the only worker waits.
    let runtime = support::builder(1).spare_workers(0).build().unwrap();
    let _entered = runtime.enter();
    for is_isolated in [false, true] {
        let (ran, returned) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (of_jobs, of_scope) = (ran.clone(), returned.clone());
        let (tx, rx) = mpsc::channel();
        let computation = runtime::compute(move || {
            let split = || {
                scope(|s| {
                    for _ in 0..10 {
                        let ran = of_jobs.clone();
                        s.spawn(move |_| _ = ran.fetch_add(1, SeqCst));
                    }
                    tx.send(()).unwrap();
                    until("it is cancelled", parallel::is_cancelled);
                });
                of_scope.fetch_add(1, SeqCst);
            };
            if is_isolated { parallel::isolated(split) } else { split() }
        });
        rx.recv().unwrap();
        drop(computation);
        until("the computation has ended", || Arc::strong_count(&ran) == 1);
        let expected = if is_isolated { (10, 1) } else { (0, 0) };
        assert_eq!((ran.load(SeqCst), returned.load(SeqCst)), expected, "is_isolated: {is_isolated}");
    }
}

#[test]
fn a_job_that_panics_wins_over_the_cancellation_of_its_computation() {
    let _watchdog = watchdog();
    let runtime = support::build(1);
    let _entered = runtime.enter();
    let (tx, rx) = mpsc::channel();
    let computation = runtime::compute(move || {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            scope(|s| {
                s.spawn(|_| ());
                tx.send("begun").unwrap();
                until("it is cancelled", parallel::is_cancelled);
                panic!("body");
            })
        }));
        let text = *result.unwrap_err().downcast::<&str>().unwrap();
        tx.send(text).unwrap();
    });
    assert_eq!(rx.recv(), Ok("begun"));
    drop(computation);
    assert_eq!(rx.recv(), Ok("body"));
}

#[test]
fn an_isolated_part_does_not_run_what_it_spawns_into_a_scope_around_it() {
    let _watchdog = watchdog();
    let log = logged(|log| {
        scope(|outer| {
            parallel::isolated(|| {
                scope(|inner| {
                    inner.spawn(|_| log.lock().push(1));
                    outer.spawn(|_| log.lock().push(3));
                    inner.spawn(|_| log.lock().push(2));
                });
                log.lock().push(0);
            });
        });
    });
    assert_eq!(log, [2, 1, 0, 3]);
}

/// A waker that runs a job of the pool.
#[derive(Default)]
struct RunsJob {
    has_begun: AtomicBool,
    job_has_run: AtomicBool,
}

impl Wake for RunsJob {
    fn wake(self: Arc<Self>) {
        self.has_begun.store(true, SeqCst);
        while !self.job_has_run.load(SeqCst) && parallel::yield_now() == Some(Yield::Idle) {
            thread::yield_now();
        }
    }
}

/// While the scope's owner, a worker, sleeps in the driver, a timer fires there, whose waker runs a job of
/// the scope. Says whether it did so on that thread.
fn runs_a_job_in_its_owners_sleep() -> bool {
    let wakes = Arc::new(RunsJob::default());
    let waker = Waker::from(wakes.clone());
    let (owner, ran_on) = (thread::current().id(), Mutex::new(None));
    let stolen = AtomicBool::new(false);
    let mut sleep = Box::pin(runtime::time::sleep(Duration::from_millis(2)));
    let (wakes, ran_on_in_job, is_stolen) = (&wakes, &ran_on, &stolen);
    scope(|s| {
        s.spawn(move |s| {
            is_stolen.store(true, SeqCst);
            until("the waker is called", || wakes.has_begun.load(SeqCst));
            s.spawn(move |s| {
                *ran_on_in_job.lock() = Some(thread::current().id());
                // For other threads, which may be at it when this job has ended.
                s.spawn(|_| ());
                wakes.job_has_run.store(true, SeqCst);
            });
            until("the job has run", || wakes.job_has_run.load(SeqCst));
        });
        until("the other worker has the first job", || is_stolen.load(SeqCst));
        assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    });
    let ran_on = ran_on.into_inner();
    ran_on == Some(owner)
}

#[test]
fn jobs_that_a_waker_runs_in_the_sleep_of_their_scopes_owner_are_waited_for() {
    let _watchdog = watchdog();
    let runtime = support::builder(2).spare_workers(0).build().unwrap();
    // Not each time: it may be another thread that has the timers.
    let has_run = (0..100).any(|_| {
        let _entered = runtime.enter();
        runtime.block_on(runtime::compute(runs_a_job_in_its_owners_sleep)).unwrap()
    });
    assert!(has_run, "a waker was called in an owner's sleep");
}
