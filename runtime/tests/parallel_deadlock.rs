//! Each deadlock of marked threads is reported once, and nothing else is reported.

mod support;

use std::future::Future;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use runtime::parallel::{Deadlock, Mark, ThreadPool, ThreadPoolBuilder, mark_blocked, mark_unblocked};
use runtime::{Builder, Runtime};
use support::{Gate, builder, joined_scope, rounds, thread_number, until, until_asleep, watchdog};

/// What the handler was told.
#[derive(Clone, Default)]
struct Reports(Arc<Mutex<Vec<Deadlock>>>);

impl Reports {
    fn handler(&self) -> impl Fn(&Deadlock) + Send + Sync + 'static {
        let reports = self.0.clone();
        move |deadlock| reports.lock().push(deadlock.clone())
    }

    fn count(&self) -> usize {
        self.0.lock().len()
    }

    #[track_caller]
    fn expect(&self, count: usize) {
        until("the handler was called", || self.count() >= count);
        self.settles_at(count);
    }

    /// Asserts that the handler is not called any more. (This can miss a call, but invents none.)
    #[track_caller]
    fn settles_at(&self, count: usize) {
        for _ in 0..20 {
            assert_eq!(self.count(), count);
            thread::sleep(Duration::from_millis(1));
        }
    }
}

fn pool(threads: usize) -> (ThreadPool, Reports) {
    let reports = Reports::default();
    let builder = ThreadPoolBuilder::new().num_threads(threads).thread_name(|i| format!("worker-{i}"));
    (builder.deadlock_handler(reports.handler()).build().unwrap(), reports)
}

fn runtime_of(mut builder: Builder) -> (Runtime, Reports) {
    let reports = Reports::default();
    (builder.deadlock_handler(reports.handler()).build().unwrap(), reports)
}

/// Marks the calling thread, sends the mark, and waits until `gate` is open.
fn block_on_gate(gate: &Gate, marks: &mpsc::Sender<Mark>) {
    marks.send(mark_blocked()).unwrap();
    gate.wait();
}

/// Spawns a task that blocks, marked, until the gate is opened; returns what unmarks it.
fn block_a_task(runtime: &Runtime) -> (Gate, Mark) {
    let gate = Gate::default();
    let (marks, mark) = mpsc::channel();
    runtime.spawn({
        let gate = gate.clone();
        async move { block_on_gate(&gate, &marks) }
    });
    (gate, mark.recv().unwrap())
}

fn release(gate: &Gate, mark: Mark) {
    mark_unblocked(mark);
    gate.open();
}

#[test]
fn a_pool_whose_thread_waits_for_a_thread_that_waits_for_it_is_reported_once() {
    let _watchdog = watchdog();
    for threads in [1, 2, 4] {
        let (pool, reports) = pool(threads);
        let gate = Gate::default();
        let (marks, mark) = mpsc::channel();
        let outside = thread::spawn({
            let gate = gate.clone();
            move || pool.install(|| pool.join(|| (), || block_on_gate(&gate, &marks)))
        });
        let mark = mark.recv().unwrap();
        reports.expect(1);
        {
            let reports = reports.0.lock();
            let [blocked] = reports[0].blocked() else { panic!("one thread is blocked: {}", reports[0]) };
            let worker = blocked.worker().unwrap();
            assert_eq!(blocked.thread_name(), Some(&*format!("worker-{worker}")));
            assert!(blocked.location().file().ends_with("parallel_deadlock.rs"), "{blocked}");
            assert!(reports[0].to_string().contains(&format!("worker-{worker}")), "{}", reports[0]);
        }
        release(&gate, mark);
        outside.join().unwrap();
        reports.settles_at(1);
    }
}

#[test]
fn it_is_reported_again_after_something_moved() {
    let _watchdog = watchdog();
    let (pool, reports) = pool(2);
    for round in 1..=5 {
        let gate = Gate::default();
        let (marks, mark) = mpsc::channel();
        joined_scope(|scope| {
            let outside = scope.spawn(|| pool.install(|| block_on_gate(&gate, &marks)));
            let mark = mark.recv().unwrap();
            reports.expect(round);
            release(&gate, mark);
            outside.join().unwrap();
        });
    }
}

#[test]
fn a_runtime_whose_task_is_marked_is_reported_once() {
    let _watchdog = watchdog();
    for workers in [1, 3] {
        let (runtime, reports) = runtime_of(builder(workers));
        let (gate, mark) = block_a_task(&runtime);
        reports.expect(1);
        release(&gate, mark);
        drop(runtime);
        reports.settles_at(1);
    }
}

#[test]
fn all_marked_threads_are_in_the_report() {
    let _watchdog = watchdog();
    let (runtime, reports) = runtime_of(builder(2));
    let blocked: Vec<_> = (0..5).map(|_| block_a_task(&runtime)).collect();
    // More than there are workers: spare workers are marked, too. Each new mark is a new deadlock.
    until("all are reported", || reports.0.lock().last().is_some_and(|last| last.blocked().len() == 5));
    let workers = reports
        .0
        .lock()
        .last()
        .unwrap()
        .blocked()
        .iter()
        .filter(|blocked| blocked.worker().is_some())
        .count();
    assert!(workers <= 2, "{workers}");
    blocked.into_iter().for_each(|(gate, mark)| release(&gate, mark));
}

#[test]
fn an_armed_timer_is_something_to_wait_for() {
    let _watchdog = watchdog();
    let (runtime, reports) = runtime_of(builder(2));
    let armed = Gate::default();
    let (cancel, cancelled) = runtime::sync::oneshot::channel::<()>();
    runtime.spawn({
        let armed = armed.clone();
        async move {
            let mut sleep = std::pin::pin!(runtime::time::sleep(Duration::from_secs(3600)));
            std::future::poll_fn(|cx| {
                assert!(sleep.as_mut().poll(cx).is_pending());
                armed.open();
                std::task::Poll::Ready(())
            })
            .await;
            _ = cancelled.await;
        }
    });
    armed.wait();
    let (gate, mark) = block_a_task(&runtime);
    reports.settles_at(0);
    // The task ends, and its timer with it.
    cancel.send(()).unwrap();
    reports.expect(1);
    release(&gate, mark);
}

#[test]
fn it_is_reported_when_the_last_timer_has_fired() {
    let _watchdog = watchdog();
    let (runtime, reports) = runtime_of(builder(1));
    runtime.spawn(async { runtime::time::sleep(Duration::from_millis(30)).await });
    let (gate, mark) = block_a_task(&runtime);
    reports.expect(1);
    release(&gate, mark);
}

#[test]
fn a_timer_and_a_descriptor_given_up_outside_are_noticed() {
    let _watchdog = watchdog();
    let (runtime, reports) = runtime_of(builder(2));
    let _entered = runtime.enter();
    let mut sleep = Box::pin(runtime::time::sleep(Duration::from_secs(3600)));
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(sleep.as_mut().poll(&mut cx).is_pending());
    let socket = runtime.block_on(runtime::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let (gate, mark) = block_a_task(&runtime);
    reports.settles_at(0);
    drop(sleep);
    reports.settles_at(0);
    drop(socket);
    reports.expect(1);
    release(&gate, mark);
}

#[test]
fn a_block_on_is_something_to_wait_for_unless_it_is_marked() {
    let _watchdog = watchdog();
    let (runtime, reports) = runtime_of(builder(2));
    let (gate, mark) = runtime.block_on(async {
        let (gate, mark) = block_a_task(&runtime);
        reports.settles_at(0);
        let own = mark_blocked();
        reports.expect(1);
        mark_unblocked(own);
        (gate, mark)
    });
    // The mark has gone, so this is another deadlock.
    reports.expect(2);
    release(&gate, mark);
}

#[test]
fn a_blocking_closure_is_something_to_wait_for_unless_it_is_marked() {
    let _watchdog = watchdog();
    let (runtime, reports) = runtime_of(builder(2));
    let (closure_gate, begun) = (Gate::default(), Gate::default());
    runtime.spawn_blocking({
        let (gate, begun) = (closure_gate.clone(), begun.clone());
        move || {
            begun.open();
            gate.wait();
        }
    });
    begun.wait();
    let (gate, mark) = block_a_task(&runtime);
    reports.settles_at(0);
    closure_gate.open();
    reports.expect(1);
    // A closure that is marked does not hide it.
    let (closure_gate, marks) = (Gate::default(), mpsc::channel());
    runtime.spawn_blocking({
        let (gate, marks) = (closure_gate.clone(), marks.0);
        move || block_on_gate(&gate, &marks)
    });
    let closure = marks.1.recv().unwrap();
    reports.expect(2);
    assert_eq!(reports.0.lock()[1].blocked().len(), 2);
    release(&gate, mark);
    // Now only the closure is marked.
    reports.expect(3);
    release(&closure_gate, closure);
}

#[test]
fn a_closure_that_is_marked_in_a_block_on_hides_no_deadlock() {
    let _watchdog = watchdog();
    let mut single = Builder::new_current_thread();
    single.enable_all();
    for builder in [builder(1), single] {
        let (runtime, reports) = runtime_of(builder);
        let (gate, marks) = (Gate::default(), mpsc::channel());
        runtime.spawn_blocking({
            let (gate, marks, handle) = (gate.clone(), marks.0, runtime.handle().clone());
            move || handle.block_on(async { block_on_gate(&gate, &marks) })
        });
        let mark = marks.1.recv().unwrap();
        reports.expect(1);
        release(&gate, mark);
    }
}

/// The spare worker that came for the task is dismissed when the task's worker is back, and may be the last
/// thread to sleep.
#[test]
fn one_that_a_spare_worker_finds_on_its_way_to_rest_is_reported() {
    let _watchdog = watchdog();
    let (runtime, reports) = runtime_of(builder(2));
    let (closure_gate, marks) = (Gate::default(), mpsc::channel());
    runtime.spawn_blocking({
        let (gate, marks) = (closure_gate.clone(), marks.0);
        move || block_on_gate(&gate, &marks)
    });
    let closure = marks.1.recv().unwrap();
    reports.expect(1);
    for round in rounds(50) {
        let round = round as usize;
        let (gate, mark) = block_a_task(&runtime);
        let reported = || reports.count() >= 2 + 2 * round;
        until("both are reported", reported);
        release(&gate, mark);
        until("the closure is reported again", || reports.count() >= 3 + 2 * round);
    }
    release(&closure_gate, closure);
}

#[test]
fn a_runnable_task_is_something_to_wait_for() {
    let _watchdog = watchdog();
    let (runtime, reports) = runtime_of(builder(1));
    let (stop, stopped) = (Gate::default(), Gate::default());
    runtime.spawn({
        let (stop, stopped) = (stop.clone(), stopped.clone());
        async move {
            while !stop.is_open() {
                runtime::task::yield_now().await;
            }
            stopped.open();
        }
    });
    let (gate, mark) = block_a_task(&runtime);
    reports.settles_at(0);
    stop.open();
    stopped.wait();
    reports.expect(1);
    release(&gate, mark);
}

#[test]
fn nothing_is_reported_while_somebody_waits_for_what_the_runtime_does_not_know() {
    let _watchdog = watchdog();
    let (runtime, reports) = runtime_of(builder(2));
    let (inside, outside) = (Gate::default(), Gate::default());
    let begun = Gate::default();
    runtime.spawn({
        let (gate, begun) = (inside.clone(), begun.clone());
        async move {
            runtime::parallel::blocking(|| {
                begun.open();
                gate.wait();
            })
        }
    });
    begun.wait();
    let (gate, mark) = block_a_task(&runtime);
    reports.settles_at(0);
    let _entered = runtime.enter();
    runtime::parallel::blocking(|| {
        inside.open();
        reports.settles_at(0);
        outside.open();
    });
    outside.wait();
    reports.expect(1);
    release(&gate, mark);
}

#[test]
fn a_pool_that_waits_for_another_pool_is_not_deadlocked() {
    let _watchdog = watchdog();
    a_pool_waits_for_another(|other, job| other.install(job));
    a_pool_waits_for_another(|other, job| _ = other.broadcast(|_| job()));
    a_pool_waits_for_another(|other, job| other.in_place_scope(|s| s.spawn(|_| job())));
    a_pool_waits_for_another(|other, job| other.in_place_scope_fifo(|s| s.spawn_fifo(|_| job())));
}

/// `wait_for` has its second argument run in its first.
fn a_pool_waits_for_another(wait_for: fn(&ThreadPool, &(dyn Fn() + Sync))) {
    let (one, reports) = pool(2);
    let (other, other_reports) = pool(1);
    let [gate, has_job_processor, may_mark, begun, go_on] = std::array::from_fn(|_| Gate::default());
    joined_scope(|scope| {
        let (one, other, gate, begun, go_on) = (&one, &other, &gate, &begun, &go_on);
        let (has_job_processor, may_mark) = (&has_job_processor, &may_mark);
        let (marks, mark) = mpsc::channel();
        // This job comes first. Otherwise the thread of the other job would run it while it waits.
        let marked = scope.spawn(move || {
            one.install(|| {
                has_job_processor.open();
                may_mark.wait();
                block_on_gate(gate, &marks);
            });
        });
        has_job_processor.wait();
        let waiter = scope.spawn(move || {
            one.install(|| {
                wait_for(other, &|| {
                    begun.open();
                    go_on.wait();
                });
            });
        });
        begun.wait();
        may_mark.open();
        let mark = mark.recv().unwrap();
        reports.settles_at(0);
        go_on.open();
        waiter.join().unwrap();
        reports.expect(1);
        release(gate, mark);
        marked.join().unwrap();
    });
    assert_eq!(other_reports.count(), 0);
}

#[test]
fn a_worker_whose_latch_was_set_is_awake_though_it_has_not_woken_yet() {
    let _watchdog = watchdog();
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2);
    let (runtime, reports) = runtime_of(builder);
    for _ in rounds(300) {
        let (number, numbers) = mpsc::channel();
        let (stolen, wait, end, blocked) =
            (Gate::default(), Gate::default(), Gate::default(), Gate::default());
        let (marks, mark) = mpsc::channel();
        let first = runtime.compute({
            let (stolen, wait, end, blocked) = (stolen.clone(), wait.clone(), end.clone(), blocked.clone());
            move || {
                number.send(thread_number()).unwrap();
                // Not `join`: its second half may stay private if it was short before.
                runtime::parallel::scope(|s| {
                    s.spawn(|_| {
                        stolen.open();
                        end.wait();
                    });
                    wait.wait();
                });
                // The worker goes on, and releases the second computation: that was no deadlock.
                release(&blocked, mark.recv().unwrap());
            }
        });
        stolen.wait();
        wait.open();
        until_asleep(numbers.recv().unwrap());
        // No waiter takes an injected job.
        let second = runtime.compute(move || block_on_gate(&blocked, &marks));
        end.open();
        // Not in a `block_on`, which would be something to wait for.
        until("both have ended", || first.is_finished() && second.is_finished());
        assert_eq!(reports.count(), 0);
    }
}

#[test]
fn a_marked_worker_is_relieved_and_takes_tasks_again() {
    let _watchdog = watchdog();
    let (runtime, _) = runtime_of(builder(1));
    for _ in 0..50 {
        let (gate, mark) = block_a_task(&runtime);
        // Another thread sees to these.
        runtime.block_on(runtime.spawn(async { runtime::spawn(async {}).await })).unwrap().unwrap();
        release(&gate, mark);
        runtime.block_on(runtime.spawn(async { runtime::spawn(async {}).await })).unwrap().unwrap();
    }
}

#[test]
fn without_a_handler_marks_only_bring_spare_workers() {
    let _watchdog = watchdog();
    let runtime = builder(1).build().unwrap();
    let (gate, mark) = block_a_task(&runtime);
    runtime.block_on(runtime.spawn(async {})).unwrap();
    release(&gate, mark);
    // And on a thread that belongs to no runtime they mean nothing.
    mark_unblocked(mark_blocked());
}

#[test]
fn marks_nest_and_end_in_any_order() {
    let _watchdog = watchdog();
    let (runtime, reports) = runtime_of(builder(1));
    let gate = Gate::default();
    let (marks, mark) = mpsc::channel();
    runtime.spawn({
        let gate = gate.clone();
        async move {
            marks.send((mark_blocked(), mark_blocked())).unwrap();
            gate.wait();
        }
    });
    let (outer, inner) = mark.recv().unwrap();
    // The first mark may be reported by itself before.
    until("both are reported", || reports.0.lock().last().is_some_and(|report| report.blocked().len() == 2));
    let before = reports.count();
    drop(outer);
    // The thread is still marked. A mark that was taken back counts as a move, and the next look for a
    // deadlock comes with a new mark, or with a worker that falls asleep before that.
    let (other_gate, other) = block_a_task(&runtime);
    let blocked = || reports.0.lock()[before..].last().map_or(0, |report| report.blocked().len());
    until("the new mark is reported beside the old one", || blocked() == 2);
    let count = reports.count();
    assert!(count <= before + 2, "{count} reports, and {before} before");
    reports.settles_at(count);
    release(&other_gate, other);
    release(&gate, inner);
    runtime.block_on(runtime.spawn(async {})).unwrap();
}

#[test]
fn a_forgotten_mark_does_not_keep_the_runtime() {
    let _watchdog = watchdog();
    let (runtime, _) = runtime_of(builder(1));
    let task = runtime.spawn(async { std::mem::forget(mark_blocked()) });
    runtime.block_on(task).unwrap();
    drop(runtime);
}

#[test]
fn a_panic_of_the_handler_harms_nobody() {
    let _watchdog = watchdog();
    let called = Gate::default();
    let mut builder = builder(1);
    let gate = called.clone();
    builder.deadlock_handler(move |_| {
        gate.open();
        std::panic::resume_unwind(Box::new("handler"));
    });
    let runtime = builder.build().unwrap();
    let (gate, mark) = block_a_task(&runtime);
    called.wait();
    release(&gate, mark);
    runtime.block_on(runtime.spawn(async {})).unwrap();
}

#[test]
fn the_handler_may_end_the_deadlock_itself() {
    let _watchdog = watchdog();
    let lent: Arc<Mutex<Option<(Gate, Mark)>>> = Arc::default();
    let (rescue, rescued) = mpsc::channel();
    let mut builder = builder(2);
    builder.deadlock_handler({
        let lent = lent.clone();
        move |_| {
            // No lock is held: marks can be taken back here, and tasks spawned.
            if let Some((gate, mark)) = lent.lock().take() {
                release(&gate, mark);
                let rescue = rescue.clone();
                runtime::spawn(async move { rescue.send(()).unwrap() });
            }
        }
    });
    let runtime = builder.build().unwrap();
    *lent.lock() = Some(block_a_task(&runtime));
    // The first report may have come before the mark was lent. This is another one.
    let (gate, mark) = block_a_task(&runtime);
    rescued.recv().unwrap();
    release(&gate, mark);
}

#[test]
fn the_handler_of_a_pool_finds_no_runtime_also_if_the_last_worker_sleeps_in_an_isolated_call() {
    let _watchdog = watchdog();
    let (found, finds) = mpsc::channel();
    let builder = ThreadPoolBuilder::new().num_threads(2);
    let handler = move |_: &Deadlock| found.send(runtime::Handle::try_current().is_ok()).unwrap();
    let pool = builder.deadlock_handler(handler).build().unwrap();
    let (gate, is_marked) = (Gate::default(), Gate::default());
    let (marks, mark) = mpsc::channel();
    let found = joined_scope(|threads| {
        let waiter = threads.spawn(|| {
            pool.install(|| {
                runtime::parallel::isolated(|| {
                    runtime::parallel::scope(|s| {
                        s.spawn(|_| block_on_gate(&gate, &marks));
                        // The other worker has the job, so this one waits for it.
                        is_marked.wait();
                    });
                });
            });
        });
        let mark = mark.recv().unwrap();
        is_marked.open();
        let found = finds.recv().unwrap();
        release(&gate, mark);
        waiter.join().unwrap();
        found
    });
    assert!(!found);
}
