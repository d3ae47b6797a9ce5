//! Detached jobs: order, panics, and the end of their pool.

mod support;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread;

use runtime::parallel::{ThreadPool, ThreadPoolBuilder, scope, spawn, spawn_broadcast, spawn_fifo};
use runtime::sync::oneshot;
use runtime::{Builder, Runtime};
use support::{LIMIT, until, watchdog};

runtime::task_local! {
    static NUMBER: u32;
}

fn pool(threads: usize) -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
}

/// Runs `f` on a pool of one thread. Returns what was sent, when all senders are gone.
fn sent(f: impl FnOnce(Sender<i32>) + Send) -> Vec<i32> {
    let (tx, rx) = mpsc::channel();
    pool(1).install(|| f(tx));
    rx.into_iter().collect()
}

#[test]
fn detached_jobs_run_last_in_first_out_and_fifo_ones_first_in_first_out() {
    let _watchdog = watchdog();
    let lifo = sent(|tx| {
        for i in 0..100 {
            let tx = tx.clone();
            spawn(move || tx.send(i).unwrap());
        }
    });
    assert_eq!(lifo, (0..100).rev().collect::<Vec<_>>());
    let fifo = sent(|tx| {
        for i in 0..100 {
            let tx = tx.clone();
            spawn_fifo(move || tx.send(i).unwrap());
        }
    });
    assert_eq!(fifo, (0..100).collect::<Vec<_>>());
}

#[test]
fn detached_jobs_of_both_kinds_mix_as_their_places_do() {
    let _watchdog = watchdog();
    let send = |tx: &Sender<i32>, i| {
        let tx = tx.clone();
        move || tx.send(i).unwrap()
    };
    let lifo_fifo = sent(move |tx| {
        spawn(move || {
            spawn(send(&tx, 0));
            spawn_fifo(send(&tx, -1));
            spawn(send(&tx, 1));
            spawn_fifo(send(&tx, -2));
            spawn(send(&tx, 2));
            spawn_fifo(send(&tx, -3));
            spawn(send(&tx, 3));
        });
    });
    assert_eq!(lifo_fifo, [3, -1, 2, -2, 1, -3, 0]);
    let fifo_lifo = sent(move |tx| {
        spawn_fifo(move || {
            spawn_fifo(send(&tx, 0));
            spawn(send(&tx, -1));
            spawn_fifo(send(&tx, 1));
            spawn(send(&tx, -2));
            spawn_fifo(send(&tx, 2));
            spawn(send(&tx, -3));
            spawn_fifo(send(&tx, 3));
        });
    });
    assert_eq!(fifo_lifo, [0, -3, 1, -2, 2, -1, 3]);
}

#[test]
fn a_job_spawned_from_outside_runs_on_the_runtimes_worker() {
    let _watchdog = watchdog();
    let runtime = support::build(2);
    let _entered = runtime.enter();
    let (tx, rx) = mpsc::channel();
    for job in 0..100 {
        let tx = tx.clone();
        let send = move || tx.send((job, thread::current().id())).unwrap();
        if job % 2 == 0 { spawn(send) } else { spawn_fifo(send) }
    }
    drop(tx);
    let here = thread::current().id();
    let mut jobs: Vec<_> = rx.into_iter().inspect(|(_, thread)| assert_ne!(*thread, here)).collect();
    jobs.sort_by_key(|(job, _)| *job);
    assert!(jobs.iter().map(|(job, _)| *job).eq(0..100));
}

#[test]
fn a_scope_does_not_wait_for_detached_jobs_nor_run_them() {
    let _watchdog = watchdog();
    let (tx, rx) = mpsc::channel::<()>();
    pool(1).install(|| {
        scope(|s| {
            spawn(move || assert!(rx.recv().is_err()));
            s.spawn(|_| ());
        });
        // If the scope ran the detached job, the scope would wait for this.
        drop(tx);
    });
}

#[test]
fn a_dropped_pool_runs_what_was_spawned_and_what_that_spawns() {
    let _watchdog = watchdog();
    for _ in 0..50 {
        let pool = pool(2);
        let (tx, rx) = mpsc::channel();
        let (go, gone) = mpsc::channel::<()>();
        pool.install(|| {
            spawn(move || {
                assert!(gone.recv().is_err());
                let tx_of_inner = tx.clone();
                spawn(move || spawn_fifo(move || tx_of_inner.send(2).unwrap()));
                spawn_broadcast(move |context| tx.send(10 + context.index()).unwrap());
            });
        });
        drop(pool);
        drop(go);
        let mut all: Vec<_> = rx.into_iter().collect();
        all.sort();
        assert_eq!(all, [2, 10, 11]);
    }
}

#[test]
fn a_job_spawned_into_a_runtime_that_has_ended_runs_in_place_and_its_panic_stays_there() {
    let _watchdog = watchdog();
    let runtime = support::build(2);
    let handle = runtime.handle().clone();
    drop(runtime);
    let _entered = handle.enter();
    let count = Arc::new(AtomicUsize::new(0));
    let theirs = count.clone();
    spawn(move || {
        theirs.fetch_add(1, SeqCst);
        panic!("quiet");
    });
    let theirs = count.clone();
    spawn_broadcast(move |context| _ = theirs.fetch_add(10 * context.num_threads(), SeqCst));
    assert_eq!(count.load(SeqCst), 11);
}

#[test]
fn a_panic_reaches_the_pools_handler_and_harms_nothing_else() {
    let _watchdog = watchdog();
    let (tx, rx) = mpsc::channel();
    let tx = parking_lot::Mutex::new(tx);
    let pool = ThreadPoolBuilder::new()
        .num_threads(2)
        .panic_handler(move |payload| tx.lock().send(*payload.downcast::<&str>().unwrap()).unwrap())
        .build()
        .unwrap();
    pool.install(|| {
        spawn(|| panic!("one"));
        spawn(|| spawn_fifo(|| panic!("two")));
        spawn_broadcast(|_| panic!("each"));
    });
    drop(pool);
    let mut texts: Vec<_> = rx.into_iter().collect();
    texts.sort();
    assert_eq!(texts, ["each", "each", "one", "two"]);
}

#[test]
fn a_runtimes_worker_survives_the_panic_of_a_detached_job() {
    let _watchdog = watchdog();
    let runtime = support::build(1);
    let _entered = runtime.enter();
    let count = Arc::new(AtomicUsize::new(0));
    for _ in 0..10 {
        let count = count.clone();
        spawn(move || {
            count.fetch_add(1, SeqCst);
            panic!("detached");
        });
    }
    until("all jobs have run", || count.load(SeqCst) == 10);
    assert_eq!(runtime.block_on(runtime.spawn(async { 5 })).unwrap(), 5);
}

#[test]
fn jobs_that_spawn_the_next_for_ever_starve_nothing_from_outside() {
    fn chain(goes_on: Arc<AtomicBool>) {
        if goes_on.load(SeqCst) {
            spawn(move || chain(goes_on));
        }
    }
    fn broadcasts(goes_on: Arc<AtomicBool>) {
        if goes_on.load(SeqCst) {
            spawn_broadcast(move |_| broadcasts(goes_on.clone()));
        }
    }
    let _watchdog = watchdog();
    for begin in [chain, broadcasts] {
        let pool = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let goes_on = Arc::new(AtomicBool::new(true));
        let first = goes_on.clone();
        pool.spawn(move || begin(first));
        for i in 0..10 {
            let (tx, rx) = mpsc::channel();
            pool.spawn(move || tx.send(i).unwrap());
            assert_eq!(rx.recv_timeout(LIMIT).unwrap(), i);
            assert_eq!(pool.install(|| i), i);
            assert_eq!(pool.broadcast(|_| i), [i]);
        }
        goes_on.store(false, SeqCst);
    }
}

type AnyJob = Box<dyn Fn() + Send + Sync>;

/// The runtime to which the call belongs has ended.
#[test]
fn a_job_that_runs_in_place_is_no_part_of_the_poll_that_spawns_it() {
    let _watchdog = watchdog();
    let ended = Runtime::new().unwrap();
    let handle = ended.handle().clone();
    drop(ended);
    let runtime = Builder::new_current_thread().build().unwrap();
    let task = runtime.spawn(NUMBER.scope(1, async move {
        let _entered = handle.enter();
        let (tx, rx) = mpsc::channel();
        for spawn in [|job: AnyJob| spawn(job), |job: AnyJob| spawn_broadcast(move |_| job())] {
            let (value, seen) = oneshot::channel();
            value.send(2).unwrap();
            let (seen, tx) = (Mutex::new(Some(seen)), tx.clone());
            spawn(Box::new(move || {
                let value = seen.lock().unwrap().take().unwrap().blocking_recv();
                tx.send((value, NUMBER.try_with(|_| ()).is_err())).unwrap();
            }));
        }
        drop(tx);
        rx.into_iter().collect::<Vec<_>>()
    }));
    assert_eq!(runtime.block_on(task).unwrap(), [(Ok(2), true), (Ok(2), true)]);
}
