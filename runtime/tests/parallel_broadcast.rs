//! Broadcasts: on each thread, in the order of the calls, after what was there before.

mod support;

use std::cell::Cell;
use std::panic::panic_any;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;

use parking_lot::Mutex;
use runtime::parallel::{
    self, BroadcastContext, Scope, ThreadPool, ThreadPoolBuilder, broadcast, spawn, spawn_broadcast,
};
use support::{joined_scope, panic_of, rounds, watchdog};

fn pool(threads: usize) -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
}

#[test]
fn a_broadcast_runs_on_every_thread_at_once_and_returns_by_index() {
    let _watchdog = watchdog();
    let pool = pool(4);
    for _ in 0..200 {
        let barrier = Barrier::new(4);
        let indices = pool.install(|| {
            broadcast(|context| {
                barrier.wait();
                assert_eq!(parallel::current_thread_index(), Some(context.index()));
                (context.index(), context.num_threads())
            })
        });
        assert_eq!(indices, [(0, 4), (1, 4), (2, 4), (3, 4)]);
    }
}

#[test]
fn a_broadcast_from_outside_runs_on_the_runtimes_workers() {
    let _watchdog = watchdog();
    let runtime = support::build(3);
    let _entered = runtime.enter();
    for _ in 0..50 {
        let mut threads = broadcast(|_| thread::current().id());
        threads.push(thread::current().id());
        let distinct: std::collections::HashSet<_> = threads.iter().collect();
        assert_eq!(distinct.len(), 4);
    }
}

#[test]
fn a_broadcast_comes_after_what_its_thread_spawned_before() {
    let _watchdog = watchdog();
    for _ in 0..50 {
        let pool = pool(1);
        let count = Arc::new(AtomicUsize::new(0));
        // From outside, and then by the thread itself.
        let theirs = count.clone();
        pool.install(|| spawn(move || _ = theirs.fetch_add(1, SeqCst)));
        let theirs = count.clone();
        pool.install(move || {
            broadcast(|_| ());
            assert_eq!(theirs.load(SeqCst), 1);
            let ours = theirs.clone();
            spawn(move || _ = ours.fetch_add(1, SeqCst));
            broadcast(|_| assert_eq!(theirs.load(SeqCst), 2));
        });
    }
}

#[test]
fn broadcasts_run_in_the_order_of_their_calls_on_each_thread() {
    let _watchdog = watchdog();
    let pool = pool(3);
    let logs: Arc<[Mutex<Vec<usize>>]> = (0..3).map(|_| Mutex::new(Vec::new())).collect();
    pool.install(|| {
        for round in 0..100 {
            let logs = logs.clone();
            spawn_broadcast(move |context| logs[context.index()].lock().push(round));
        }
        broadcast(|context| {
            let log = logs[context.index()].lock();
            assert!(log.iter().copied().eq(0..100), "{log:?}");
        });
    });
}

/// All workers have the broadcasts in the same order, so the calls of the first one meet.
#[test]
fn broadcasts_that_begin_at_once_may_wait_for_their_own_calls() {
    let _watchdog = watchdog();
    let pool = pool(4);
    joined_scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in rounds(2000) {
                    let barrier = Barrier::new(4);
                    pool.broadcast(|_| _ = barrier.wait());
                }
            });
        }
    });
}

#[test]
fn a_spawned_broadcast_runs_on_every_thread_and_drops_its_closure_behind_the_last() {
    let _watchdog = watchdog();
    let pool = pool(3);
    let (tx, rx) = mpsc::channel();
    pool.install(|| spawn_broadcast(move |context| tx.send(context.index()).unwrap()));
    drop(pool);
    let mut indices: Vec<_> = rx.into_iter().collect();
    indices.sort();
    assert_eq!(indices, [0, 1, 2]);
}

#[test]
fn the_panic_of_the_lowest_index_wins_when_all_have_run() {
    let _watchdog = watchdog();
    let pool = pool(4);
    let count = AtomicUsize::new(0);
    let text = panic_of(|| {
        pool.install(|| {
            broadcast(|context| {
                count.fetch_add(1, SeqCst);
                assert!(context.index() % 2 == 0, "index {}", context.index());
            })
        })
    });
    assert_eq!((text.as_str(), count.into_inner()), ("index 1", 4));
}

#[test]
fn pools_broadcast_into_each_other() {
    let _watchdog = watchdog();
    let (a, b) = (pool(2), pool(3));
    for _ in 0..50 {
        let count = AtomicUsize::new(0);
        a.install(|| {
            broadcast(|_| {
                b.install(|| broadcast(|_| _ = count.fetch_add(1, SeqCst)));
            })
        });
        assert_eq!(count.into_inner(), 6);
    }
}

#[test]
fn broadcasts_inside_of_scopes_and_joins_end() {
    let _watchdog = watchdog();
    let pool = pool(3);
    let count = AtomicUsize::new(0);
    for _ in 0..100 {
        pool.install(|| {
            parallel::scope(|s| {
                for _ in 0..4 {
                    s.spawn(|_| {
                        let add = |_: BroadcastContext<'_>| _ = count.fetch_add(1, SeqCst);
                        parallel::join(|| broadcast(add), || broadcast(add));
                    });
                }
            });
        });
    }
    assert_eq!(count.into_inner(), 100 * 4 * 2 * 3);
}

#[test]
fn a_broadcast_into_a_runtime_that_has_ended_runs_once_in_place() {
    let _watchdog = watchdog();
    let runtime = support::build(2);
    let handle = runtime.handle().clone();
    drop(runtime);
    let _entered = handle.enter();
    assert_eq!(broadcast(|context| (context.index(), context.num_threads())), [(0, 1)]);
}

#[test]
fn a_context_prints_itself() {
    let _watchdog = watchdog();
    let texts = pool(1).install(|| broadcast(|context| format!("{context:?}")));
    assert_eq!(texts, ["BroadcastContext { index: 0, num_threads: 1, .. }"]);
}

/// Its destructor panics.
struct Bomb(&'static str);

impl Drop for Bomb {
    fn drop(&mut self) {
        panic_any(self.0);
    }
}

#[test]
fn destructors_do_not_replace_the_panic_of_the_lowest_index() {
    let _watchdog = watchdog();
    let pool = ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    let panics_first = |thread: BroadcastContext<'_>| match thread.index() {
        0 => panic_any("first"),
        1 => Bomb("result"),
        _ => panic_any(Bomb("payload")),
    };
    assert_eq!(panic_of(|| pool.broadcast(panics_first)), "first");
    let panics_last = |thread: BroadcastContext<'_>| match thread.index() {
        2 => panic_any("last"),
        _ => Bomb("result"),
    };
    assert_eq!(panic_of(|| pool.broadcast(panics_last)), "last");
}

/// All runs may have ended before the call returns, and drops the closure.
#[test]
fn the_call_that_spawns_a_broadcast_into_a_scope_never_panics() {
    let _watchdog = watchdog();
    let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    for _ in 0..200 {
        let has_returned = Cell::new(false);
        let body = |scope: &Scope<'_>| {
            let bomb = Bomb("closure");
            scope.spawn_broadcast(move |_, _| _ = &bomb);
            has_returned.set(true);
        };
        assert_eq!(panic_of(|| pool.in_place_scope(body)), "closure");
        assert!(has_returned.get());
    }
}
