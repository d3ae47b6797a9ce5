//! Thread pools of one's own: installing, nesting, dropping.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;
use std::thread;

use parking_lot::{Mutex, RwLock};
use runtime::parallel::{self, ThreadPool, ThreadPoolBuilder, Yield};
use support::{Gate, joined_scope, panic_of, until, watchdog};

fn pool(threads: usize) -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
}

/// A pool whose exit handler counts.
struct Counted {
    pool: ThreadPool,
    exits: Arc<AtomicUsize>,
}

fn counted(threads: usize) -> Counted {
    let exits = Arc::new(AtomicUsize::new(0));
    let counter = exits.clone();
    let builder = ThreadPoolBuilder::new().num_threads(threads);
    let pool = builder.exit_handler(move |_| _ = counter.fetch_add(1, SeqCst)).build().unwrap();
    Counted { pool, exits }
}

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = parallel::join(|| fib(n - 1), || fib(n - 2));
    a + b
}

#[test]
fn install_runs_on_the_pools_threads_and_hands_panics_on() {
    let _watchdog = watchdog();
    let pool = pool(2);
    let here = thread::current().id();
    assert_ne!(pool.install(|| thread::current().id()), here);
    assert_eq!(pool.install(|| fib(20)), 6765);
    assert_eq!(pool.join(|| fib(10), || fib(11)), (55, 89));
    assert_eq!(panic_of(|| pool.install(|| panic!("inside"))), "inside");
    assert_eq!(pool.install(|| 1), 1);
}

#[test]
fn install_nests_on_one_worker() {
    let _watchdog = watchdog();
    let pool = pool(1);
    let (outer, inner) =
        pool.install(|| (thread::current().id(), pool.install(|| pool.install(|| thread::current().id()))));
    assert_eq!(outer, inner);
}

#[test]
fn pools_install_into_each_other_and_back() {
    let _watchdog = watchdog();
    let (one, other) = (pool(1), pool(1));
    for _ in 0..100 {
        // The worker of `one` is in `install` when the innermost arrives, and runs it while it waits.
        let (a, b) = one.install(|| {
            let a = thread::current().id();
            (a, other.install(|| one.install(|| thread::current().id())))
        });
        assert_eq!(a, b);
    }
}

#[test]
fn a_dropped_pools_threads_end() {
    let _watchdog = watchdog();
    let Counted { pool, exits } = counted(3);
    drop(pool);
    until("the pool is freed", || Arc::strong_count(&exits) == 1);
    assert_eq!(exits.load(SeqCst), 3);
}

#[test]
fn a_pool_is_dropped_inside_of_itself() {
    let _watchdog = watchdog();
    for threads in [1, 3] {
        let Counted { pool, exits } = counted(threads);
        let pool = Arc::new(pool);
        let (inside, gate) = (pool.clone(), Gate::default());
        let door = gate.clone();
        pool.spawn(move || {
            door.wait();
            // The last reference.
            drop(inside);
            // And the pool is still here.
            assert_eq!(fib(10), 55);
        });
        drop(pool);
        gate.open();
        until("the pool is freed", || Arc::strong_count(&exits) == 1);
        assert_eq!(exits.load(SeqCst), threads);
    }
}

#[test]
fn jobs_of_a_dropped_pool_run_and_those_that_they_spawn() {
    let _watchdog = watchdog();
    for threads in [1, 3] {
        let Counted { pool, exits } = counted(threads);
        let (gate, sum) = (Gate::default(), Arc::new(AtomicUsize::new(0)));
        for _ in 0..10 {
            let (gate, sum) = (gate.clone(), sum.clone());
            pool.spawn(move || {
                gate.wait();
                for _ in 0..10 {
                    let sum = sum.clone();
                    parallel::spawn(move || {
                        let again = sum.clone();
                        parallel::spawn_fifo(move || _ = again.fetch_add(1, SeqCst));
                        let all = sum.clone();
                        parallel::spawn_broadcast(move |_| _ = all.fetch_add(1, SeqCst));
                    });
                }
            });
        }
        // This does not wait.
        drop(pool);
        assert_eq!(exits.load(SeqCst), 0);
        gate.open();
        until("the pool is freed", || Arc::strong_count(&exits) == 1);
        assert_eq!((exits.load(SeqCst), sum.load(SeqCst)), (threads, 100 * (1 + threads)));
    }
}

#[test]
fn every_verb_runs_on_the_pools_threads() {
    let _watchdog = watchdog();
    let pool = pool(3);
    let here = thread::current().id();
    let processors = Mutex::new(Vec::new());
    let note = || processors.lock().push(pool.current_thread_index());
    pool.scope(|scope| scope.spawn(|_| note()));
    pool.scope_fifo(|scope| scope.spawn_fifo(|_| note()));
    pool.in_place_scope(|scope| {
        assert_eq!(thread::current().id(), here);
        scope.spawn(|_| note());
    });
    pool.in_place_scope_fifo(|scope| {
        assert_eq!(thread::current().id(), here);
        scope.spawn_fifo(|_| note());
    });
    assert!(processors.lock().iter().all(Option::is_some));
    assert_eq!(processors.lock().len(), 4);
    assert_eq!(pool.broadcast(|context| context.index()), [0, 1, 2]);
    let (sender, results) = mpsc::channel();
    pool.spawn_broadcast(move |context| sender.send(context.index()).unwrap());
    let mut results: Vec<_> = results.iter().collect();
    results.sort();
    assert_eq!(results, [0, 1, 2]);
    let (sender, results) = mpsc::channel();
    let again = sender.clone();
    pool.spawn(move || sender.send(parallel::current_num_threads()).unwrap());
    pool.spawn_fifo(move || again.send(parallel::current_num_threads()).unwrap());
    assert_eq!(results.iter().collect::<Vec<_>>(), [3, 3]);
}

#[test]
fn outside_of_the_pool_there_is_no_index_and_nothing_to_yield_to() {
    let _watchdog = watchdog();
    let (one, other) = (pool(1), pool(1));
    let outside = |pool: &ThreadPool| {
        assert_eq!(pool.current_thread_index(), None);
        assert_eq!(pool.current_thread_has_pending_tasks(), None);
        assert_eq!((pool.yield_now(), pool.yield_local()), (None, None));
    };
    outside(&one);
    other.install(|| outside(&one));
    one.install(|| {
        assert_eq!(
            (one.current_thread_index(), one.current_thread_has_pending_tasks()),
            (Some(0), Some(false))
        );
        assert_eq!((one.yield_now(), one.yield_local()), (Some(Yield::Idle), Some(Yield::Idle)));
        let ran = Arc::new(AtomicUsize::new(0));
        let job = ran.clone();
        one.spawn(move || _ = job.fetch_add(1, SeqCst));
        assert_eq!(one.current_thread_has_pending_tasks(), Some(true));
        assert_eq!((one.yield_local(), ran.load(SeqCst)), (Some(Yield::Executed), 1));
    });
}

#[test]
#[allow(deprecated)]
fn jobs_are_run_in_the_order_that_was_asked_for() {
    let _watchdog = watchdog();
    let order = |builder: ThreadPoolBuilder| {
        let pool = builder.num_threads(1).build().unwrap();
        let (sender, results) = mpsc::channel();
        pool.install(|| {
            (0..5).for_each(|i| {
                let sender = sender.clone();
                parallel::spawn(move || sender.send(i).unwrap());
            });
        });
        drop(sender);
        results.iter().collect::<Vec<_>>()
    };
    assert_eq!(order(ThreadPoolBuilder::new()), [4, 3, 2, 1, 0]);
    assert_eq!(order(ThreadPoolBuilder::new().breadth_first()), [0, 1, 2, 3, 4]);
}

#[test]
fn panics_of_detached_jobs_go_to_the_panic_handler() {
    let _watchdog = watchdog();
    let texts = Arc::new(Mutex::new(Vec::new()));
    let handled = texts.clone();
    let handler =
        move |payload: Box<dyn std::any::Any + Send>| handled.lock().push(support::text_of(&*payload));
    let pool = ThreadPoolBuilder::new().num_threads(2).panic_handler(handler).build().unwrap();
    pool.spawn(|| panic!("a job"));
    pool.spawn_fifo(|| panic!("a job in order"));
    pool.spawn_broadcast(|context| panic!("thread {}", context.index()));
    pool.spawn(|| parallel::spawn(|| panic!("inside")));
    // Not the panics of jobs that a thread waits for.
    assert_eq!(panic_of(|| pool.install(|| panic!("waited for"))), "waited for");
    drop(pool);
    until("the pool is freed", || Arc::strong_count(&texts) == 1);
    let mut texts = texts.lock();
    texts.sort();
    assert_eq!(*texts, ["a job", "a job in order", "inside", "thread 0", "thread 1"]);
}

#[test]
fn panics_of_detached_jobs_without_a_handler_leave_the_pool_as_it_is() {
    let _watchdog = watchdog();
    if cfg!(feature = "abort-on-detached-panic") {
        return;
    }
    let pool = pool(1);
    pool.spawn(|| panic!("a job"));
    assert_eq!(pool.install(|| fib(10)), 55);
}

#[test]
fn many_threads_install_at_once() {
    let _watchdog = watchdog();
    let pool = pool(2);
    joined_scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|i| {
                let pool = &pool;
                scope.spawn(move || (0..100).for_each(|n| assert_eq!(pool.install(|| n * i), n * i)))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_panic_comes_back_through_two_pools() {
    let _watchdog = watchdog();
    let (one, other) = (pool(1), pool(1));
    let text = panic_of(|| one.install(|| other.install(|| one.install(|| panic!("far away")))));
    assert_eq!(text, "far away");
    assert_eq!((one.install(|| 1), other.install(|| 2)), (1, 2));
}

#[test]
fn a_pool_is_no_runtime() {
    let _watchdog = watchdog();
    let pool = pool(1);
    pool.install(|| assert!(runtime::Handle::try_current().is_err()));
    // But a runtime may be used there as anywhere.
    let sum = pool.install(|| {
        let runtime = support::build(2);
        runtime.block_on(async { runtime.spawn(async { fib(10) }).await.unwrap() })
    });
    assert_eq!(sum, 55);
}

#[test]
fn a_task_installs_into_a_pool() {
    let _watchdog = watchdog();
    for workers in support::KINDS {
        let runtime = support::builder(workers).thread_name("mine").build().unwrap();
        let pool = Arc::new(pool(1));
        let task = runtime.spawn(async move { pool.install(|| (pool.current_thread_index(), fib(10))) });
        assert_eq!(runtime.block_on(task).unwrap(), (Some(0), 55));
    }
}

/// A pool that the last of its users drops. (An `Arc` alone orders its last drop by a fence, which
/// ThreadSanitizer does not see.)
struct DroppedByTheLast {
    pool: RwLock<Option<ThreadPool>>,
    users: AtomicUsize,
}

impl DroppedByTheLast {
    fn use_once<R>(&self, f: impl FnOnce(&ThreadPool) -> R) -> R {
        let result = f(self.pool.read().as_ref().unwrap());
        if self.users.fetch_sub(1, SeqCst) == 1 {
            drop(self.pool.write().take());
        }
        result
    }
}

#[test]
fn pools_come_and_go() {
    let _watchdog = watchdog();
    for round in 0..200_usize {
        let pool = Arc::new(DroppedByTheLast {
            pool: RwLock::new(Some(pool(1 + round % 3))),
            users: AtomicUsize::new(3),
        });
        let (a, b) = (pool.clone(), pool.clone());
        let threads = [
            thread::spawn(move || a.use_once(|pool| pool.install(|| fib(8)))),
            thread::spawn(move || b.use_once(|pool| pool.join(|| fib(7), || fib(6)).0)),
        ];
        // Perhaps while its threads have hardly begun.
        pool.use_once(|_| ());
        let results = threads.map(|thread| thread.join().unwrap());
        assert_eq!(results, [21, 13]);
    }
}
