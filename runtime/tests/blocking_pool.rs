//! `spawn_blocking`: order, bounds, and threads that come and go.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use runtime::task::JoinHandle;
use runtime::{Handle, Runtime};
use support::{
    Gate, HUGE_STACK, KINDS, NoThreads, builder, each_kind, has_shadow_memory, in_child, joined_scope, until,
    watchdog,
};

/// Where a number of closures wait for each other.
#[derive(Clone)]
struct Meeting(Arc<(Mutex<usize>, Condvar)>);

impl Meeting {
    /// Closures for `runtime` that end when all of them run.
    fn begin(runtime: &Runtime, size: usize) -> Vec<JoinHandle<()>> {
        let meeting = Self::of(size);
        (0..size).map(|_| meeting.join(runtime)).collect()
    }

    fn of(size: usize) -> Self {
        Self(Arc::new((Mutex::new(size), Condvar::new())))
    }

    /// Closures that do not run yet.
    fn missing(&self) -> usize {
        *self.0.0.lock()
    }

    fn join(&self, runtime: &Runtime) -> JoinHandle<()> {
        self.join_by(runtime.handle())
    }

    /// One more closure.
    fn join_by(&self, handle: &Handle) -> JoinHandle<()> {
        let Self(inner) = self.clone();
        handle.spawn_blocking(move || {
            let (missing, all_here) = &*inner;
            let mut missing = missing.lock();
            *missing -= 1;
            all_here.notify_all();
            all_here.wait_while(&mut missing, |missing| *missing > 0);
        })
    }
}

fn wait_for(runtime: &Runtime, closures: Vec<JoinHandle<()>>) {
    runtime.block_on(async {
        for closure in closures {
            closure.await.unwrap();
        }
    });
}

#[test]
fn closures_run_in_order_on_one_thread() {
    let _watchdog = watchdog();
    let runtime = builder(0).max_blocking_threads(1).build().unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let closures: Vec<_> = (0..100)
        .map(|i| {
            let order = order.clone();
            runtime.spawn_blocking(move || order.lock().push(i))
        })
        .collect();
    for closure in closures {
        runtime.block_on(closure).unwrap();
    }
    assert_eq!(*order.lock(), (0..100).collect::<Vec<_>>());
    assert_eq!(runtime.metrics().num_blocking_threads(), 1);
}

#[test]
fn as_many_run_at_once_as_the_bound_allows_and_no_more() {
    let _watchdog = watchdog();
    let runtime = builder(1).max_blocking_threads(3).build().unwrap();
    let (gate, running, most) =
        (Gate::default(), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let closures: Vec<_> = (0..10)
        .map(|_| {
            let (gate, running, most) = (gate.clone(), running.clone(), most.clone());
            runtime.spawn_blocking(move || {
                most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
                gate.wait();
                running.fetch_sub(1, SeqCst);
            })
        })
        .collect();
    until("three run", || running.load(SeqCst) == 3);
    assert_eq!(runtime.metrics().blocking_queue_depth(), 7);
    gate.open();
    for closure in closures {
        runtime.block_on(closure).unwrap();
    }
    assert_eq!(most.load(SeqCst), 3);
}

#[test]
fn threads_leave_after_the_keep_alive_time_and_come_again() {
    let _watchdog = watchdog();
    let runtime = builder(0).thread_keep_alive(Duration::from_millis(10)).build().unwrap();
    for _ in 0..3 {
        assert_eq!(runtime.block_on(runtime.spawn_blocking(|| 1)).unwrap(), 1);
        until("the thread leaves", || runtime.metrics().num_blocking_threads() == 0);
        assert_eq!(runtime.metrics().num_idle_blocking_threads(), 0);
    }
}

#[test]
fn no_closure_is_lost_while_threads_leave() {
    let _watchdog = watchdog();
    let runtime = builder(0).thread_keep_alive(Duration::from_micros(50)).build().unwrap();
    for i in 0..1000 {
        assert_eq!(runtime.block_on(runtime.spawn_blocking(move || i)).unwrap(), i);
        if i % 3 == 0 {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

#[test]
fn a_closure_finds_its_runtime() {
    each_kind(|runtime| {
        let closure = runtime.spawn_blocking(|| {
            let task = runtime::spawn(async { 1 });
            runtime::Handle::current().block_on(task).unwrap()
        });
        assert_eq!(runtime.block_on(closure).unwrap(), 1);
    });
}

#[test]
fn a_closure_knows_its_name_and_what_it_waits_for_has_names_of_its_own() {
    each_kind(|runtime| {
        let handle = runtime.handle().clone();
        let closure = runtime.spawn_blocking(move || {
            let own = runtime::task::id();
            // On this thread, if it drives the runtime.
            let task = handle.spawn(async { runtime::task::id() });
            let id = task.id();
            assert_eq!(handle.block_on(task).unwrap(), id);
            assert_eq!(handle.block_on(async { runtime::task::try_id() }), Some(own));
            let caught = std::panic::catch_unwind(|| handle.block_on(async { panic!("on purpose") }));
            assert!(caught.is_err());
            assert_eq!(runtime::task::try_id(), Some(own));
            own
        });
        let id = closure.id();
        assert_eq!(runtime.block_on(closure).unwrap(), id);
        // On the same thread.
        let name = runtime.spawn_blocking(|| runtime::spawn(async {}).abort_handle());
        assert_ne!(runtime.block_on(name).unwrap().id(), id);
        assert_eq!(runtime::task::try_id(), None);
    });
}

#[test]
fn a_job_that_a_waiting_closure_runs_does_not_have_its_name() {
    let _watchdog = watchdog();
    let runtime = builder(2).build().unwrap();
    let closure = runtime.spawn_blocking(|| {
        let own = runtime::task::try_id();
        let scope = runtime::parallel::scope(|scope| {
            let (sender, receiver) = std::sync::mpsc::channel();
            for _ in 0..64 {
                let sender = sender.clone();
                scope.spawn(move |_| sender.send(runtime::task::try_id()).unwrap());
            }
            receiver
        });
        assert_eq!(runtime::task::try_id(), own);
        (own, scope.into_iter().collect::<Vec<_>>())
    });
    let (own, of_jobs) = runtime.block_on(closure).unwrap();
    assert!(own.is_some());
    assert!(of_jobs.iter().all(|id| id.is_none()), "{of_jobs:?}");
}

#[test]
fn a_paused_clock_waits_for_closures() {
    let _watchdog = watchdog();
    let runtime = builder(0).start_paused(true).build().unwrap();
    // Also in the moment between a closure's end and the wake of the task that waits for it.
    runtime.block_on(async {
        for _ in 0..2000 {
            let closure = runtime::task::spawn_blocking(|| {});
            runtime::time::timeout(Duration::from_secs(3600), closure).await.unwrap().unwrap();
        }
    });
    runtime.block_on(async {
        let gate = Gate::default();
        let inside = gate.clone();
        let closure = runtime::task::spawn_blocking(move || inside.wait());
        let begin = runtime::time::Instant::now();
        let opener = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            gate.open();
        });
        let timeout = runtime::time::timeout(Duration::from_secs(3600), closure).await;
        timeout.expect("the clock stands while the closure runs").unwrap();
        assert_eq!(begin.elapsed(), Duration::ZERO);
        opener.join().unwrap();
    });
}

#[test]
fn as_many_closures_as_threads_may_wait_for_each_other() {
    const MOST: usize = 40;
    let _watchdog = watchdog();
    for workers in [0, 1] {
        let runtime = builder(workers).max_blocking_threads(MOST).build().unwrap();
        // On new threads; on those and more; on idle ones; on some of the idle ones.
        for size in [5, MOST, MOST, 2] {
            wait_for(&runtime, Meeting::begin(&runtime, size));
        }
        until("all are idle", || runtime.metrics().num_idle_blocking_threads() == MOST);
        // From inside of the pool.
        let closures = runtime.block_on(async {
            let handle = Handle::current();
            let meeting = Meeting::of(MOST - 1);
            let inner = runtime.spawn_blocking({
                let meeting = meeting.clone();
                move || (0..MOST - 1).map(|_| meeting.join_by(&handle)).collect::<Vec<_>>()
            });
            inner.await.unwrap()
        });
        wait_for(&runtime, closures);
        assert_eq!(runtime.metrics().num_blocking_threads(), MOST);
    }
}

#[test]
fn closures_that_wait_for_each_other_run_while_threads_leave() {
    let _watchdog = watchdog();
    // A thread's keep-alive time may end at any moment: before, while and after the thread is chosen.
    for keep_alive in [0, 20, 100] {
        let runtime = builder(0)
            .max_blocking_threads(3)
            .thread_keep_alive(Duration::from_micros(keep_alive))
            .build()
            .unwrap();
        for i in 0..500 {
            wait_for(&runtime, Meeting::begin(&runtime, 1 + i % 3));
            if i % 5 == 0 {
                std::thread::sleep(Duration::from_micros(keep_alive));
            }
        }
    }
}

#[test]
fn submitters_do_not_wake_a_thread_for_each_closure() {
    const THREADS: usize = 16;
    const EACH: usize = 1000;
    let _watchdog = watchdog();
    let runtime = builder(1).max_blocking_threads(8).thread_keep_alive(support::LIMIT).build().unwrap();
    wait_for(&runtime, Meeting::begin(&runtime, 8));
    let count = Arc::new(AtomicUsize::new(0));
    joined_scope(|scope| {
        let submitters: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    let submit = |_| {
                        let count = count.clone();
                        runtime.spawn_blocking(move || _ = count.fetch_add(1, SeqCst))
                    };
                    let closures: Vec<_> = (0..EACH).map(submit).collect();
                    wait_for(&runtime, closures);
                })
            })
            .collect();
        submitters.into_iter().for_each(|submitter| submitter.join().unwrap());
    });
    assert_eq!(count.load(SeqCst), THREADS * EACH);
    let metrics = runtime.metrics();
    assert!(metrics.blocking_wake_count() < (THREADS * EACH / 2) as u64, "{}", metrics.blocking_wake_count());
    assert_eq!(metrics.blocking_start_count(), 8);
    assert_eq!(metrics.blocking_queue_depth(), 0);
}

#[test]
fn a_wake_and_a_start_are_counted() {
    let _watchdog = watchdog();
    let runtime = builder(0).build().unwrap();
    let metrics = runtime.metrics();
    for wakes in 0..3 {
        wait_for(&runtime, vec![runtime.spawn_blocking(|| {})]);
        assert_eq!((metrics.blocking_start_count(), metrics.blocking_wake_count()), (1, wakes));
        until("the thread is idle", || metrics.num_idle_blocking_threads() == 1);
    }
}

#[test]
fn closures_that_come_one_by_one_leave_the_other_threads_to_their_sleep() {
    let _watchdog = watchdog();
    let runtime = builder(0).thread_keep_alive(support::LIMIT).build().unwrap();
    wait_for(&runtime, Meeting::begin(&runtime, 4));
    // If the threads took turns, none would ever be idle for its keep-alive time.
    let mut last = None;
    for _ in 0..100 {
        until("all are idle", || runtime.metrics().num_idle_blocking_threads() == 4);
        let thread = runtime.block_on(runtime.spawn_blocking(|| std::thread::current().id())).unwrap();
        assert!(last.is_none_or(|last| last == thread));
        last = Some(thread);
    }
}

#[test]
fn a_start_hook_that_waits_holds_no_other_closure() {
    let _watchdog = watchdog();
    let (gate, inside) = (Gate::default(), Arc::new(AtomicUsize::new(0)));
    let hook = {
        let (gate, inside) = (gate.clone(), inside.clone());
        move || {
            inside.fetch_add(1, SeqCst);
            gate.wait();
        }
    };
    let runtime = builder(0).max_blocking_threads(3).on_thread_start(hook).build().unwrap();
    let closures = Meeting::begin(&runtime, 3);
    until("all three begin", || inside.load(SeqCst) == 3);
    gate.open();
    wait_for(&runtime, closures);
}

#[test]
fn a_closure_does_not_wait_for_a_start_hook_while_a_thread_is_free() {
    let _watchdog = watchdog();
    let (gate, inside) = (Gate::default(), Arc::new(AtomicUsize::new(0)));
    let hook = {
        let (gate, inside) = (gate.clone(), inside.clone());
        move || {
            // The second.
            if inside.fetch_add(1, SeqCst) == 1 {
                gate.wait();
            }
        }
    };
    let runtime = builder(0).max_blocking_threads(2).on_thread_start(hook).build().unwrap();
    let (working, busy) = (Gate::default(), Gate::default());
    let first = runtime.spawn_blocking({
        let (working, busy) = (working.clone(), busy.clone());
        move || {
            working.open();
            busy.wait();
        }
    });
    working.wait();
    let second = runtime.spawn_blocking(|| ());
    until("a thread comes for it", || inside.load(SeqCst) == 2);
    busy.open();
    until("both have ended", || first.is_finished() && second.is_finished());
    // And so does a closure that comes when that thread is idle.
    runtime.block_on(runtime.spawn_blocking(|| ())).unwrap();
    gate.open();
}

#[test]
fn closures_that_wait_for_each_other_run_though_threads_were_refused_midway() {
    let _watchdog = watchdog();
    let name = "closures_that_wait_for_each_other_run_though_threads_were_refused_midway";
    if has_shadow_memory() || !in_child(name, &[]) {
        return;
    }
    let runtime = builder(0).max_blocking_threads(6).thread_stack_size(HUGE_STACK).build().unwrap();
    // The first submitter after the refusal has the missing threads started.
    let meeting = Meeting::of(5);
    let mut closures = vec![meeting.join(&runtime), meeting.join(&runtime)];
    until("two run", || meeting.missing() == 3);
    let refused = NoThreads::begin();
    closures.extend([meeting.join(&runtime), meeting.join(&runtime)]);
    assert_eq!((runtime.metrics().blocking_queue_depth(), runtime.metrics().num_blocking_threads()), (2, 2));
    drop(refused);
    closures.push(meeting.join(&runtime));
    wait_for(&runtime, closures);
    assert_eq!(runtime.metrics().num_blocking_threads(), 5);

    // So does a thread that ends a closure and leaves others behind.
    let runtime = builder(0).max_blocking_threads(3).thread_stack_size(HUGE_STACK).build().unwrap();
    let (gate, inside) = (Gate::default(), Gate::default());
    let first = runtime.spawn_blocking({
        let (gate, inside) = (gate.clone(), inside.clone());
        move || {
            inside.open();
            gate.wait();
        }
    });
    inside.wait();
    let refused = NoThreads::begin();
    let closures = Meeting::begin(&runtime, 3);
    assert_eq!(runtime.metrics().blocking_queue_depth(), 3);
    drop(refused);
    gate.open();
    wait_for(&runtime, closures);
    wait_for(&runtime, vec![first]);
}

#[test]
fn many_closures_run_on_the_one_thread_that_the_system_allows() {
    let _watchdog = watchdog();
    let name = "many_closures_run_on_the_one_thread_that_the_system_allows";
    if has_shadow_memory() || !in_child(name, &[]) {
        return;
    }
    let runtime = builder(0).thread_stack_size(HUGE_STACK).build().unwrap();
    wait_for(&runtime, vec![runtime.spawn_blocking(|| {})]);
    let _refused = NoThreads::begin();
    let closures: Vec<_> = (0..1000).map(|_| runtime.spawn_blocking(|| {})).collect();
    wait_for(&runtime, closures);
    assert_eq!(runtime.metrics().num_blocking_threads(), 1);
}

/// Code that waits when it is dropped, and says whether it was allowed to.
struct WaitsOnDrop {
    /// A runtime that does not end meanwhile.
    other: Handle,
    was_allowed: std::sync::mpsc::Sender<bool>,
}

impl Drop for WaitsOnDrop {
    fn drop(&mut self) {
        let (sender, receiver) = runtime::sync::oneshot::channel();
        sender.send(()).unwrap();
        let wait = || {
            receiver.blocking_recv().unwrap();
            self.other.block_on(async {});
        };
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(wait));
        self.was_allowed.send(result.is_ok()).unwrap();
    }
}

/// Calls `test` for a runtime with one thread for closures, and a closure on that thread that ends when the
/// gate is open. What `test` drops must be allowed to wait.
#[track_caller]
fn what_is_dropped_may_wait(test: impl Fn(Runtime, WaitsOnDrop, Gate)) {
    let _watchdog = watchdog();
    let other = builder(1).build().unwrap();
    for workers in KINDS {
        let runtime = builder(workers).max_blocking_threads(1).build().unwrap();
        let (gate, has_begun) = (Gate::default(), Gate::default());
        let (inside, begins) = (gate.clone(), has_begun.clone());
        runtime.spawn_blocking(move || {
            begins.open();
            inside.wait();
        });
        has_begun.wait();
        let (was_allowed, allowed) = std::sync::mpsc::channel();
        test(runtime, WaitsOnDrop { other: other.handle().clone(), was_allowed }, gate);
        assert_eq!(allowed.recv(), Ok(true), "{workers} workers");
    }
}

#[test]
fn the_result_of_a_closure_without_a_handle_may_wait_when_it_is_dropped() {
    what_is_dropped_may_wait(|runtime, waits, gate| {
        drop(runtime.spawn_blocking(|| waits));
        let last = runtime.spawn_blocking(|| {});
        gate.open();
        runtime.block_on(last).unwrap();
    });
}

#[test]
fn an_aborted_closure_may_wait_when_it_is_dropped() {
    what_is_dropped_may_wait(|runtime, waits, gate| {
        let closure = runtime.spawn_blocking(move || drop(waits));
        closure.abort();
        gate.open();
        assert!(runtime.block_on(closure).unwrap_err().is_cancelled());
    });
}

#[test]
fn a_closure_that_the_end_of_the_runtime_drops_may_wait() {
    what_is_dropped_may_wait(|runtime, waits, gate| {
        runtime.spawn_blocking(move || {
            let _waits = waits;
            unreachable!("the runtime ends before");
        });
        runtime.shutdown_background();
        gate.open();
    });
}

#[test]
fn a_closure_that_is_refused_inside_of_a_task_may_not_wait_there() {
    let _watchdog = watchdog();
    let (ended, runtime) = (builder(1).build().unwrap(), builder(1).build().unwrap());
    let closed = ended.handle().clone();
    drop(ended);
    let (was_allowed, allowed) = std::sync::mpsc::channel();
    let waits = WaitsOnDrop { other: runtime.handle().clone(), was_allowed };
    let task = runtime.spawn(async move { drop(closed.spawn_blocking(move || drop(waits))) });
    runtime.block_on(task).unwrap();
    assert_eq!(allowed.recv(), Ok(false));
}
