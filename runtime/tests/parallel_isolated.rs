//! `isolated`: a thread that waits inside of it runs nothing foreign.

mod support;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use runtime::parallel::{self, ThreadPoolBuilder, isolated, join, scope, yield_now};
use runtime::sync::oneshot;
use support::{Gate, NEAR_A_BUDGETS_END, build, joined_scope, short_joins, watchdog};

/// As `join`, but the calling worker runs nothing until another thread has begun the second closure. A `join`
/// shares its second half only if that seems worth it.
fn join_stolen<A: Send, B: Send>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
    let gate = Gate::default();
    let mut second = None;
    let first = scope(|s| {
        s.spawn(|_| {
            gate.open();
            second = Some(b());
        });
        gate.wait();
        a()
    });
    (first, second.unwrap())
}

/// Holds the lock while it splits, and lets a job come that wants it. `enter` leads to the workers.
fn hold_and_split(
    lock: &Mutex<()>,
    held: &Gate,
    foreign_comes: &Gate,
    enter: impl FnOnce(&(dyn Fn() + Sync)),
) {
    let _held = lock.lock();
    let other_half = || {
        held.open();
        foreign_comes.wait();
        // The waiting worker looks for work again and again, and must find only what is split off here.
        for _ in 0..50 {
            (0..20).for_each(|_| thread::yield_now());
            join_stolen(|| (), || ());
        }
    };
    isolated(|| enter(&|| _ = join_stolen(|| (), other_half)));
}

#[test]
fn a_thread_that_holds_a_lock_does_not_begin_foreign_work_that_wants_it() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let (lock, held, foreign_comes) = (Arc::new(Mutex::new(())), Gate::default(), Gate::default());
    let computation = runtime.compute({
        let (lock, held, foreign_comes) = (lock.clone(), held.clone(), foreign_comes.clone());
        move || hold_and_split(&lock, &held, &foreign_comes, |split| split())
    });
    held.wait();
    let foreign = thread::spawn({
        let (handle, lock) = (runtime.handle().clone(), lock.clone());
        move || {
            let _entered = handle.enter();
            foreign_comes.open();
            // Its pusher waits for it, so a waiting worker takes it if it may.
            join(|| drop(lock.lock()), || ())
        }
    });
    runtime.block_on(computation).unwrap();
    foreign.join().unwrap();
}

#[test]
fn nor_do_workers_for_a_thread_outside_that_holds_it() {
    let _watchdog = watchdog();
    let pool = Arc::new(ThreadPoolBuilder::new().num_threads(2).build().unwrap());
    let (lock, held, foreign_comes) = (Arc::new(Mutex::new(())), Gate::default(), Gate::default());
    let holder = thread::spawn({
        let (pool, lock, held, foreign_comes) =
            (pool.clone(), lock.clone(), held.clone(), foreign_comes.clone());
        move || hold_and_split(&lock, &held, &foreign_comes, |split| pool.install(split))
    });
    held.wait();
    foreign_comes.open();
    pool.join(|| drop(lock.lock()), || ());
    holder.join().unwrap();
}

/// Every leaf locks, and splits while it holds the lock.
fn tree(lock: &Mutex<u64>, depth: u32) {
    if depth > 0 {
        join(|| tree(lock, depth - 1), || tree(lock, depth - 1));
        return;
    }
    let mut sum = lock.lock();
    let work = || (0..50_u64).map(std::hint::black_box).sum::<u64>();
    let (a, b) = isolated(|| join(|| join(work, work), || join(work, work)));
    *sum += a.0 + a.1 + b.0 + b.1;
}

#[test]
fn many_parts_of_one_computation_may_split_under_one_lock() {
    let _watchdog = watchdog();
    for workers in [1, 2, 3] {
        let runtime = build(workers);
        for _ in 0..5 {
            let lock = Arc::new(Mutex::new(0));
            let shared = lock.clone();
            runtime.block_on(runtime.compute(move || tree(&shared, 8))).unwrap();
            assert_eq!(*lock.lock(), 256 * 4 * 1225);
        }
    }
}

#[test]
fn a_thread_outside_may_hold_the_lock() {
    let _watchdog = watchdog();
    // Three, for two of them may wait for the lock in the other thread's work.
    let pool = ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    let lock = Mutex::new(0);
    // Two threads that are no workers, whose work waits in the pool's threads.
    joined_scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..300 {
                        let mut sum = lock.lock();
                        let work = thread::yield_now;
                        isolated(|| pool.join(|| join(work, work), || join(work, work)));
                        *sum += 1;
                        drop(sum);
                        pool.join(|| *lock.lock() += 1, || *lock.lock() += 1);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    assert_eq!(*lock.lock(), 2 * 300 * 3);
}

#[test]
fn an_inner_part_does_not_run_work_of_the_outer_one() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let computation = runtime.compute(|| {
        let lock = Mutex::new(0_u32);
        let add = || *lock.lock() += 1;
        isolated(|| {
            for _ in 0..200 {
                let inner = || {
                    let mut held = lock.lock();
                    isolated(|| join(thread::yield_now, thread::yield_now));
                    *held += 1;
                };
                join(|| join(inner, add), || join(add, add));
            }
        });
        lock.into_inner()
    });
    assert_eq!(runtime.block_on(computation).unwrap(), 800);
}

#[test]
fn its_parts_run_in_parallel_and_its_result_comes_out() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let on_two = || isolated(|| join_stolen(|| thread::current().id(), || thread::current().id()));
    let (a, b) = runtime.block_on(runtime.compute(on_two)).unwrap();
    assert_ne!(a, b);
    // In a task, outside of everything, and nested by the thousand.
    assert_eq!(runtime.block_on(runtime.spawn(async { isolated(|| join(|| 1, || 2)) })).unwrap(), (1, 2));
    fn deep(depth: u32) -> u32 {
        isolated(|| if depth == 0 { 0 } else { join(|| deep(depth - 1), || 1).0 + 1 })
    }
    assert_eq!(runtime.block_on(runtime.compute(|| deep(500))).unwrap(), 500);
    assert_eq!(deep(3), 3);
}

#[test]
fn a_panic_leaves_the_thread_as_it_was() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let lock = Arc::new(Mutex::new(0));
    let shared = lock.clone();
    let computation = runtime.compute(move || {
        let panics = || isolated(|| join(|| (), || panic!("inside")));
        assert!(std::panic::catch_unwind(panics).is_err());
        // No region is left over: foreign work is run, and splits may be cancelled.
        tree(&shared, 4);
    });
    runtime.block_on(computation).unwrap();
    assert_eq!(*lock.lock(), 16 * 4 * 1225);
}

#[test]
fn a_cancellation_waits_for_its_end() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let (started, gate) = (Gate::default(), Gate::default());
    let (open, wait) = (started.clone(), gate.clone());
    let passed = Arc::new(AtomicUsize::new(0));
    let count = passed.clone();
    let computation = runtime.compute(move || {
        open.open();
        wait.wait();
        isolated(|| {
            join(|| isolated(|| join(|| (), || ())), || ());
            assert!(parallel::is_cancelled());
            count.fetch_add(1, SeqCst);
        });
        join(|| (), || ());
        count.fetch_add(1, SeqCst);
    });
    started.wait();
    computation.abort();
    gate.open();
    assert!(runtime.block_on(computation).unwrap_err().is_cancelled());
    assert_eq!(passed.load(SeqCst), 1);
}

/// A thief that may not run the job has moved it to the overflow list of the thread that unwinds.
#[test]
fn a_scope_on_a_stack_that_unwinds_finds_its_job_where_a_thief_has_moved_it() {
    struct Spawns<'a>(&'a AtomicBool);
    impl Drop for Spawns<'_> {
        fn drop(&mut self) {
            scope(|s| {
                s.spawn(|_| ());
                self.0.store(true, SeqCst);
                // The thief falls asleep meanwhile.
                thread::sleep(Duration::from_millis(20));
            });
        }
    }
    let _watchdog = watchdog();
    let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    for _ in 0..5 {
        let has_spawned = AtomicBool::new(false);
        let wait = || {
            while !has_spawned.load(SeqCst) {
                thread::yield_now();
            }
        };
        let unwind = || {
            let spawn_while_unwinding = || {
                let _spawns = Spawns(&has_spawned);
                std::panic::resume_unwind(Box::new(()));
            };
            let unwound = std::panic::catch_unwind(|| isolated(spawn_while_unwinding));
            unwound.unwrap_err();
        };
        pool.install(|| isolated(|| join_stolen(wait, unwind)));
    }
}

/// So many parts may be isolated at once.
const TAGS: u32 = 65_534;

/// Calls `f` inside of so many parts.
fn descend(depth: u32, f: &mut dyn FnMut()) {
    match depth {
        0 => f(),
        _ => isolated(|| descend(depth - 1, f)),
    }
}

#[test]
fn more_parts_at_once_than_there_are_tags_run_sequentially() {
    let _watchdog = watchdog();
    // The tags are the process's. ThreadSanitizer's own stack has 65,536 frames.
    if cfg!(tsan) || !support::in_child("more_parts_at_once_than_there_are_tags_run_sequentially", &[]) {
        return;
    }
    fn nested<R>(depth: u32, f: impl FnOnce() -> R) -> R {
        match depth {
            0 => f(),
            _ => isolated(|| nested_dyn(depth - 1, f)),
        }
    }
    fn nested_dyn<R>(depth: u32, f: impl FnOnce() -> R) -> R {
        let mut f = Some(f);
        let mut result = None;
        descend(depth, &mut || result = f.take().map(|f| f()));
        result.unwrap()
    }
    let work = || {
        let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        let id = || thread::current().id();
        let here = id();
        nested(TAGS + 1, || {
            assert_eq!(join(id, id), (here, here));
            assert_eq!(pool.install(id), here);
            isolated(|| assert_eq!(join(id, id), (here, here)));
        });
        // All tags have been given back.
        nested(TAGS, || assert_ne!(pool.install(id), here));
        // A thread of a pool waits for no part that only itself could run.
        let pool = ThreadPoolBuilder::new().num_threads(1).stack_size(512 << 20).build().unwrap();
        pool.install(|| {
            nested(TAGS + 1, || {
                assert_eq!(pool.broadcast(|_| id()), [id()]);
                pool.in_place_scope(|scope| scope.spawn(|_| ()));
                pool.in_place_scope_fifo(|scope| scope.spawn_fifo(|_| ()));
            });
        });
    };
    let thread = thread::Builder::new().stack_size(512 << 20).spawn(work).unwrap();
    thread.join().unwrap();
    // And on a worker.
    let runtime =
        runtime::Builder::new_multi_thread().worker_threads(2).thread_stack_size(512 << 20).build().unwrap();
    let computation = runtime.compute(|| {
        let here = thread::current().id();
        nested(TAGS + 1, || assert_eq!(join(|| (), || thread::current().id()).1, here));
        join_stolen(|| (), || thread::current().id()).1 != here
    });
    assert!(runtime.block_on(computation).unwrap());
}

/// Calls `f` inside of a part that got no tag, when there is a tag again. Another thread holds all tags but
/// one.
fn without_tag_beside_a_free_one<R>(f: impl FnOnce() -> R) -> R {
    let (held, end) = (Gate::default(), Gate::default());
    let (is_held, ends) = (held.clone(), end.clone());
    let holder = thread::spawn(move || {
        isolated(|| {
            is_held.open();
            ends.wait();
        });
    });
    held.wait();
    isolated(|| {
        end.open();
        holder.join().unwrap();
        f()
    })
}

/// The inner part got the tag. A thread that keeps its job processor for good then took itself to be outside
/// of its computation, began another one, and forgot the region around at its end.
#[test]
fn a_part_inside_of_one_without_a_tag_runs_sequentially_too() {
    let _watchdog = watchdog();
    // As in the test of more parts than there are tags.
    let name = "a_part_inside_of_one_without_a_tag_runs_sequentially_too";
    if cfg!(tsan) || !support::in_child(name, &[]) {
        return;
    }
    let (held, end) = (Gate::default(), Gate::default());
    let (are_held, ends) = (held.clone(), end.clone());
    let holder = thread::Builder::new().stack_size(1 << 30).spawn(move || {
        descend(TAGS - 1, &mut || {
            are_held.open();
            ends.wait();
        });
    });
    held.wait();
    let id = || thread::current().id();
    let parts = move || without_tag_beside_a_free_one(|| isolated(|| (join(id, id), scope(|_| id()))));

    let runtime = runtime::Builder::new_multi_thread().worker_threads(1).spare_workers(0).build().unwrap();
    let on_worker = runtime.compute(move || {
        let here = id();
        assert_eq!(parts(), ((here, here), here));
    });
    runtime.block_on(on_worker).unwrap();

    let for_good = thread::spawn(move || {
        let pool = ThreadPoolBuilder::new().num_threads(2).use_current_thread().build().unwrap();
        let here = id();
        let _entered = runtime.enter();
        let is_entered = || runtime::Handle::try_current().is_ok();
        pool.install(|| {
            assert!(join_stolen(|| (), is_entered).1);
            assert_eq!(parts(), ((here, here), here));
            assert!(join_stolen(|| (), is_entered).1, "a job belongs to the runtime around it");
        });
    });
    for_good.join().unwrap();
    end.open();
    holder.unwrap().join().unwrap();
}

/// More child jobs than a deque holds lie between two of the outer scope. A wait inside looked at the first
/// and the last job, and took these two for all jobs.
#[test]
fn a_wait_inside_finds_its_child_jobs_among_those_of_a_scope_around() {
    const MANY: usize = 13_000;
    let _watchdog = watchdog();
    let pool = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let (inside, around) = (AtomicUsize::new(0), AtomicUsize::new(0));
    pool.install(|| {
        parallel::scope(|outer| {
            isolated(|| {
                outer.spawn(|_| _ = around.fetch_add(1, SeqCst));
                parallel::scope(|inner| {
                    (0..MANY).for_each(|_| inner.spawn(|_| _ = inside.fetch_add(1, SeqCst)));
                    outer.spawn(|_| _ = around.fetch_add(1, SeqCst));
                });
                assert_eq!((inside.load(SeqCst), around.load(SeqCst)), (MANY, 0));
            });
        });
    });
    assert_eq!(around.load(SeqCst), 2);
}

#[test]
fn what_an_isolated_job_leaves_on_another_thread_is_found_behind_foreign_child_jobs() {
    let _watchdog = watchdog();
    let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let other = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let [locked, stolen, finish, latch_is_set] = std::array::from_fn(|_| Gate::default());
    let mutex = Mutex::new(());
    pool.scope(|s| {
        s.spawn(|_| {
            // Stolen, for the other thread waits until the lock is held.
            let _held = mutex.lock();
            locked.open();
            isolated(|| {
                scope(|inner| {
                    inner.spawn(|inner| {
                        stolen.open();
                        inner.spawn(|_| ());
                        finish.open();
                        // The other pool has one thread, so that thread has reported the end of its last job.
                        let after = latch_is_set.clone();
                        other.spawn(move || after.open());
                        latch_is_set.wait();
                    });
                    stolen.wait();
                });
            });
        });
        locked.wait();
        join(
            || {
                // While it waits here, this thread runs the job above, and nothing after it.
                other.install(|| finish.wait());
                drop(mutex.lock());
            },
            || (),
        );
    });
}

#[test]
fn what_is_not_its_own_is_shared_before_it_waits() {
    let _watchdog = watchdog();
    let runtime = build(3);
    let other = Arc::new(ThreadPoolBuilder::new().num_threads(1).build().unwrap());
    for shorts in NEAR_A_BUDGETS_END {
        let other = other.clone();
        let computation = runtime.compute(move || {
            short_joins(shorts);
            let (tx, rx) = mpsc::channel();
            join(|| isolated(|| other.install(move || rx.recv().unwrap())), move || tx.send(7).unwrap()).0
        });
        assert_eq!(runtime.block_on(computation).unwrap(), 7);
    }
}

#[test]
fn what_is_not_its_own_is_shared_when_it_yields() {
    let _watchdog = watchdog();
    let pool = ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    for shorts in NEAR_A_BUDGETS_END {
        pool.install(move || {
            // The others go to sleep.
            thread::sleep(Duration::from_millis(3));
            short_joins(shorts);
            let is_done = AtomicBool::new(false);
            let wait = || {
                while !is_done.load(SeqCst) {
                    yield_now();
                    thread::yield_now();
                }
            };
            join(|| isolated(wait), || is_done.store(true, SeqCst));
        });
    }
}

#[test]
fn an_external_thread_that_blocks_in_a_part_that_runs_sequentially_shares_its_child_jobs_first() {
    let _watchdog = watchdog();
    // As in the test of more parts than there are tags.
    let name = "an_external_thread_that_blocks_in_a_part_that_runs_sequentially_shares_its_child_jobs_first";
    if cfg!(tsan) || !support::in_child(name, &[]) {
        return;
    }
    let runtime = build(3);
    // As many parts as there may be.
    let (all_open, end) = (Gate::default(), Gate::default());
    let (are_open, ends) = (all_open.clone(), end.clone());
    let holder = thread::Builder::new().stack_size(1 << 30).spawn(move || {
        descend(TAGS, &mut || {
            are_open.open();
            ends.wait();
        });
    });
    all_open.wait();
    let _entered = runtime.enter();
    for shorts in NEAR_A_BUDGETS_END {
        // As an external thread, if a processor is free.
        scope(|_| {
            short_joins(shorts);
            let (tx, rx) = oneshot::channel();
            let wait = || isolated(|| rx.blocking_recv().unwrap());
            assert_eq!(join(wait, || tx.send(7).unwrap()).0, 7);
        });
    }
    end.open();
    holder.unwrap().join().unwrap();
}
