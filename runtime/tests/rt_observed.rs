//! Task hooks, poll-time histograms, `unhandled_panic`, `rng_seed`, `disable_lifo_slot`.

use std::collections::HashMap;
use std::future::pending;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use parking_lot::Mutex;
use runtime::runtime::{HistogramConfiguration, LocalOptions, RngSeed, TaskMeta, UnhandledPanic};
use runtime::task::{self, Id, JoinSet, LocalSet, yield_now};
use runtime::{Builder, Runtime};

/// What happened to each task, in order: `s`pawn, `b`efore, `a`fter, `t`erminate.
type Journal = Arc<Mutex<HashMap<Id, String>>>;

fn note(journal: &Journal, what: char) -> impl Fn(&TaskMeta<'_>) + Send + Sync + 'static {
    let journal = journal.clone();
    move |task| {
        assert_eq!(task.spawned_at().file(), file!());
        journal.lock().entry(task.id()).or_default().push(what);
    }
}

fn with_journal(builder: &mut Builder) -> (Runtime, Journal) {
    let journal = Journal::default();
    let runtime = builder
        .on_task_spawn(note(&journal, 's'))
        .on_before_task_poll(note(&journal, 'b'))
        .on_after_task_poll(note(&journal, 'a'))
        .on_task_terminate(note(&journal, 't'))
        .build()
        .unwrap();
    (runtime, journal)
}

fn builders() -> [Builder; 2] {
    let mut many = Builder::new_multi_thread();
    // Only permanent workers are looked at.
    many.worker_threads(2).spare_workers(0);
    [Builder::new_current_thread(), many]
}

#[test]
fn hooks_tell_of_a_task_from_its_spawn_to_its_end() {
    for mut builder in builders() {
        let (runtime, journal) = with_journal(&mut builder);
        let ready = runtime.spawn(async {});
        let yields = runtime.spawn(yield_now());
        let panics = runtime.spawn(async { panic!("a task's panic") });
        let waits = runtime.spawn(pending::<()>());
        let nested = runtime.spawn(async { runtime::spawn(async {}).id() });
        let mut ids = [ready.id(), yields.id(), panics.id(), waits.id(), nested.id()].to_vec();
        runtime.block_on(async {
            ready.await.unwrap();
            yields.await.unwrap();
            assert!(panics.await.unwrap_err().is_panic());
            let detached = nested.await.unwrap();
            ids.push(detached);
            let has_seen = |id, what| journal.lock()[&id] == what;
            while !has_seen(waits.id(), "sba") || !has_seen(detached, "sbta") {
                yield_now().await;
            }
            waits.abort();
            assert!(waits.await.unwrap_err().is_cancelled());
        });
        drop(runtime);
        let journal = journal.lock();
        let what: Vec<_> = ids.iter().map(|id| journal[id].as_str()).collect();
        assert_eq!(what, ["sbta", "sbabta", "sbta", "sbat", "sbta", "sbta"]);
    }
}

#[test]
fn a_task_that_is_cancelled_before_its_first_poll_is_told_of() {
    let (runtime, journal) = with_journal(&mut Builder::new_current_thread());
    let id = runtime.spawn(async {}).id();
    drop(runtime);
    assert_eq!(journal.lock()[&id], "st");
}

#[test]
fn a_panic_in_a_hook_is_not_the_tasks() {
    for mut builder in builders() {
        let runtime = builder
            .on_task_spawn(|_| panic!("in the hook of spawn"))
            .on_before_task_poll(|_| panic!("in the hook before"))
            .on_after_task_poll(|_| panic!("in the hook after"))
            .on_task_terminate(|_| panic!("in the hook of the end"))
            .build()
            .unwrap();
        assert_eq!(runtime.block_on(runtime.spawn(async { 7 })).unwrap(), 7);
    }
}

#[test]
fn a_hook_may_block_and_use_the_runtime() {
    for mut builder in builders() {
        let (sent, received) = mpsc::channel();
        let runtime = builder
            .on_before_task_poll(move |task| {
                // A hook does not spend the task's budget, and is no poll: it may wait.
                let (tx, rx) = runtime::sync::oneshot::channel();
                tx.send(task.id()).unwrap();
                let has_runtime = runtime::runtime::Handle::try_current().is_ok();
                // A panic in a hook would go no further.
                sent.send((rx.blocking_recv().unwrap(), has_runtime)).unwrap();
            })
            .build()
            .unwrap();
        let task = runtime.spawn(async { task::id() });
        let id = runtime.block_on(task).unwrap();
        assert_eq!(received.recv().unwrap(), (id, true));
    }
}

#[test]
fn large_futures_and_sets_of_tasks_are_observed_too() {
    let (runtime, journal) = with_journal(&mut Builder::new_current_thread());
    let large = [1_u8; 100_000];
    runtime.block_on(async {
        let mut set = JoinSet::new();
        set.spawn(async move {
            yield_now().await;
            large.iter().map(|&byte| usize::from(byte)).sum::<usize>()
        });
        set.build_task().name("a name").spawn(async { 1 }).unwrap();
        assert_eq!(set.join_all().await.iter().sum::<usize>(), 100_001);
    });
    let mut what: Vec<_> = journal.lock().values().cloned().collect();
    what.sort();
    assert_eq!(what, ["sbabta", "sbta"]);
}

#[test]
fn polls_are_counted_in_the_histogram_of_their_worker() {
    for mut builder in builders() {
        let runtime = builder
            .enable_metrics_poll_time_histogram()
            .metrics_poll_time_histogram_configuration(HistogramConfiguration::linear(
                Duration::from_millis(20),
                2,
            ))
            .build()
            .unwrap();
        let metrics = runtime.metrics();
        assert!(metrics.poll_time_histogram_enabled());
        assert_eq!(metrics.poll_time_histogram_num_buckets(), 2);
        assert_eq!(metrics.poll_time_histogram_bucket_range(0), Duration::ZERO..Duration::from_millis(20));
        runtime.block_on(async {
            for _ in 0..10 {
                runtime::spawn(yield_now()).await.unwrap();
            }
            runtime::spawn(async { std::thread::sleep(Duration::from_millis(20)) }).await.unwrap();
        });
        let count = |bucket| {
            let of_worker = |worker| metrics.poll_time_histogram_bucket_count(worker, bucket);
            (0..metrics.num_workers()).map(of_worker).sum::<u64>()
        };
        // A task's handle may know of the end before its worker has counted the poll.
        while count(0) + count(1) < 21 {
            std::thread::yield_now();
        }
        assert_eq!(count(0) + count(1), 21);
        assert!(count(1) >= 1);
        // The counts of a worker that was asleep are up to date.
        assert!(
            (0..metrics.num_workers())
                .all(|worker| metrics.worker_mean_poll_time(worker) < Duration::from_secs(60))
        );
    }
    let runtime = Builder::new_current_thread().build().unwrap();
    assert!(!runtime.metrics().poll_time_histogram_enabled());
    assert_eq!(runtime.metrics().poll_time_histogram_num_buckets(), 0);
    assert_eq!(runtime.metrics().poll_time_histogram_bucket_count(0, 0), 0);
}

#[test]
fn a_histogram_without_buckets_is_an_error_of_build() {
    let none = HistogramConfiguration::linear(Duration::from_micros(1), 0);
    let error = Builder::new_current_thread()
        .enable_metrics_poll_time_histogram()
        .metrics_poll_time_histogram_configuration(none)
        .build()
        .unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("got 0"), "{error}");
}

/// The text with which `f` panics.
#[track_caller]
fn panic_of(f: impl FnOnce()) -> String {
    let payload = panic::catch_unwind(AssertUnwindSafe(f)).expect_err("it panics");
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).expect("a text").to_owned()
}

const ENDED: &str = "a spawned task panicked and the runtime is configured to shut down on unhandled panic";

const SET_ENDED: &str =
    "a spawned task panicked and the LocalSet is configured to shutdown on unhandled panic";

fn ends_by_panic() -> Builder {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().unhandled_panic(UnhandledPanic::ShutdownRuntime);
    builder
}

#[test]
fn a_panic_ends_a_runtime_that_was_built_so() {
    let runtime = ends_by_panic().build().unwrap();
    let dropped = Arc::new(());
    let kept = dropped.clone();
    let waits = runtime.spawn(async move {
        pending::<()>().await;
        drop(kept);
    });
    let panics = runtime.spawn(async { panic!("a task's panic") });
    // Its handle is awaited, and yet `block_on` does not return.
    assert_eq!(panic_of(|| _ = runtime.block_on(panics)), ENDED);
    assert_eq!(Arc::strong_count(&dropped), 1);
    assert!(waits.is_finished());
    assert_eq!(panic_of(|| runtime.block_on(async {})), ENDED);
    assert!(runtime.spawn(async {}).is_finished());
}

#[test]
fn all_threads_that_wait_in_block_on_are_told() {
    let runtime = Arc::new(ends_by_panic().build().unwrap());
    let in_block_on = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (runtime, in_block_on) = (runtime.clone(), in_block_on.clone());
            std::thread::spawn(move || {
                panic_of(|| {
                    runtime.block_on(async {
                        in_block_on.fetch_add(1, SeqCst);
                        pending::<()>().await;
                    });
                })
            })
        })
        .collect();
    while in_block_on.load(SeqCst) < 4 {
        std::thread::yield_now();
    }
    runtime.spawn(async { panic!("a task's panic") });
    for thread in threads {
        assert_eq!(thread.join().unwrap(), ENDED);
    }
}

#[test]
fn a_nested_block_on_is_told() {
    let runtime = ends_by_panic().build().unwrap();
    let handle = runtime.handle().clone();
    let text = panic_of(|| {
        runtime.block_on(async {
            handle.spawn(async { panic!("a task's panic") });
            assert_eq!(panic_of(|| handle.block_on(pending::<()>())), ENDED);
            pending::<()>().await;
        });
    });
    assert_eq!(text, ENDED);
}

#[test]
fn a_panic_of_a_blocking_closure_and_of_the_root_are_nobodys_end() {
    let runtime = ends_by_panic().build().unwrap();
    assert_eq!(panic_of(|| runtime.block_on(async { panic!("the root's") })), "the root's");
    runtime.block_on(async {
        assert!(task::spawn_blocking(|| panic!("a closure's")).await.unwrap_err().is_panic());
    });
}

#[test]
fn a_panic_in_the_destructor_of_a_task_that_was_cancelled_does_not_end_a_runtime() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("a destructor's panic");
        }
    }
    let runtime = ends_by_panic().build().unwrap();
    runtime.block_on(async {
        let bomb = Bomb;
        let task = runtime::spawn(async move {
            let _bomb = bomb;
            pending::<()>().await;
        });
        task::yield_now().await;
        task.abort();
        assert!(task.await.unwrap_err().is_panic());
    });
    runtime.block_on(async {});
}

#[test]
fn several_workers_cannot_end_by_a_panic() {
    let mut builder = Builder::new_multi_thread();
    let error = builder.unhandled_panic(UnhandledPanic::ShutdownRuntime).build().unwrap_err();
    assert_eq!(error.to_string(), "unhandled_panic needs a current_thread runtime unless it is `Ignore`");
    builder.unhandled_panic(UnhandledPanic::Ignore).build().unwrap();
}

#[test]
fn a_panic_ends_a_set_of_local_tasks_that_was_told_so() {
    let runtime = Builder::new_current_thread().build().unwrap();
    let mut set = LocalSet::new();
    set.unhandled_panic(UnhandledPanic::ShutdownRuntime);
    let waits = set.spawn_local(pending::<()>());
    set.spawn_local(async { panic!("a task's panic") });
    assert_eq!(panic_of(|| set.block_on(&runtime, pending::<()>())), SET_ENDED);
    assert!(waits.is_finished());
    assert!(set.spawn_local(pending::<()>()).is_finished());
    assert_eq!(panic_of(|| set.block_on(&runtime, pending::<()>())), SET_ENDED);
}

#[test]
fn a_panic_of_a_task_of_either_kind_ends_a_local_runtime_as_a_whole() {
    for is_local in [false, true] {
        let local = ends_by_panic().build_local(LocalOptions::default()).unwrap();
        let (waits, stays) = (local.handle().spawn(pending::<()>()), local.spawn_local(pending::<()>()));
        let (handle, has_ended) = (local.handle().clone(), waits.abort_handle());
        let other = std::thread::spawn(move || panic_of(|| _ = handle.block_on(waits)));
        let panics = async { panic!("a task's panic") };
        drop(if is_local { local.spawn_local(panics) } else { local.handle().spawn(panics) });
        let text = panic_of(|| local.block_on(pending::<()>()));
        assert_eq!(text, if is_local { SET_ENDED } else { ENDED });
        assert!(has_ended.is_finished() && stays.is_finished());
        assert!(local.spawn_local(pending::<()>()).is_finished());
        assert!(local.handle().spawn(pending::<()>()).is_finished());
        assert_eq!(other.join().unwrap(), ENDED);
    }
}

#[test]
fn the_same_seed_gives_the_same_choices() {
    let choices = |seed: &[u8]| -> Vec<u32> {
        let runtime = Builder::new_current_thread().rng_seed(RngSeed::from_bytes(seed)).build().unwrap();
        let choose = || async {
            runtime::select! {
                () = async {} => 0,
                () = async {} => 1,
                () = async {} => 2,
            }
        };
        let mut choices: Vec<_> = (0..20).map(|_| runtime.block_on(choose())).collect();
        choices.extend(runtime.block_on(async {
            let mut more = Vec::new();
            for _ in 0..20 {
                more.push(choose().await);
            }
            more
        }));
        choices
    };
    assert_eq!(choices(b"one"), choices(b"one"));
    assert_ne!(choices(b"one"), choices(b"two"));
    assert!((0..3).all(|branch| choices(b"one").contains(&branch)));
}

#[test]
fn without_the_slot_a_worker_runs_tasks_in_the_order_of_their_spawns() {
    let runtime =
        Builder::new_multi_thread().worker_threads(1).spare_workers(0).disable_lifo_slot().build().unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let seen = order.clone();
    runtime
        .block_on(runtime.spawn(async move {
            let tasks: Vec<_> = (0..10)
                .map(|number| {
                    let seen = seen.clone();
                    runtime::spawn(async move { seen.lock().push(number) })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        }))
        .unwrap();
    assert_eq!(*order.lock(), (0..10).collect::<Vec<_>>());
    assert_eq!(runtime.metrics().worker_lifo_poll_count(0), 0);
}

#[test]
fn a_set_notices_a_panic_in_the_last_poll_of_its_turn() {
    let runtime = Builder::new_current_thread().build().unwrap();
    // A turn has 61 polls; whatever it has, the panic comes last in one of these.
    for yields in 0..130 {
        let mut set = LocalSet::new();
        set.unhandled_panic(UnhandledPanic::ShutdownRuntime);
        set.spawn_local(async move {
            for _ in 0..yields {
                yield_now().await;
            }
            panic!("a task's panic");
        });
        panic_of(|| set.block_on(&runtime, pending::<()>()));
    }
}

#[test]
fn a_thread_that_unwinds_may_still_wait_for_what_is_ready() {
    struct Waits<'a>(&'a Runtime);
    impl Drop for Waits<'_> {
        fn drop(&mut self) {
            assert_eq!(self.0.block_on(async { 7 }), 7);
        }
    }
    let runtime = ends_by_panic().build().unwrap();
    let text = panic_of(|| {
        let _waits = Waits(&runtime);
        runtime.spawn(async { panic!("a task's panic") });
        runtime.block_on(pending::<()>());
    });
    assert_eq!(text, ENDED);
}

#[test]
fn no_task_is_polled_after_the_one_that_ended_the_runtime() {
    let runtime = ends_by_panic().build().unwrap();
    runtime.spawn(async { panic!("a task's panic") });
    let polled = Arc::new(AtomicUsize::new(0));
    let count = polled.clone();
    runtime.spawn(async move { count.fetch_add(1, SeqCst) });
    assert_eq!(panic_of(|| runtime.block_on(pending::<()>())), ENDED);
    assert_eq!(polled.load(SeqCst), 0);
}

#[test]
fn a_hook_that_replaces_each_task_that_ends_does_not_keep_the_runtime_from_its_end() {
    for mut builder in builders() {
        let ended = Arc::new(AtomicUsize::new(0));
        let count = ended.clone();
        let runtime = builder
            .on_task_terminate(move |_| {
                count.fetch_add(1, SeqCst);
                runtime::spawn(yield_now());
            })
            .build()
            .unwrap();
        runtime.spawn(yield_now());
        runtime.block_on(async {
            while ended.load(SeqCst) < 10 {
                yield_now().await;
            }
        });
        drop(runtime);
    }
}
