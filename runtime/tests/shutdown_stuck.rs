//! A runtime that is shut down while its threads are stuck returns by its deadline, and says what they are
//! stuck in.

mod support;

use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use runtime::parallel::{mark_blocked, mark_unblocked};
use runtime::runtime::{Unfinished, UnfinishedKind, UnfinishedTask};
use runtime::task::block_in_place;
use runtime::{Handle, Runtime};
use support::{Drops, Gate, KINDS, LIMIT, build, builder, text_of, until, watchdog};

/// Long enough to see that it is waited for.
const SHORT: Duration = Duration::from_millis(10);

/// Shuts down, in time.
#[track_caller]
fn shut_down(runtime: Runtime) -> Unfinished {
    let start = Instant::now();
    let unfinished = runtime.shutdown_report(SHORT);
    assert!(start.elapsed() >= SHORT && start.elapsed() < LIMIT);
    assert!(!unfinished.is_empty());
    unfinished
}

/// The only task of a report.
#[track_caller]
fn only(unfinished: &Unfinished) -> &UnfinishedTask {
    match unfinished.tasks() {
        [task] => task,
        tasks => panic!("one task expected, got {tasks:?}"),
    }
}

fn is_in_this_file(place: &Location<'_>, line: u32) -> bool {
    place.file() == file!() && place.line() == line
}

/// Counts the threads of a runtime that have ended.
fn ends(settings: &mut runtime::Builder) -> Arc<AtomicUsize> {
    let ended = Arc::new(AtomicUsize::new(0));
    let counted = ended.clone();
    settings.on_thread_stop(move || _ = counted.fetch_add(1, SeqCst));
    ended
}

/// A poll that spins until `gate` is open.
async fn stuck(gate: Gate, begun: mpsc::Sender<()>) {
    begun.send(()).unwrap();
    while !gate.is_open() {
        thread::yield_now();
    }
}

/// Shuts down a runtime of one worker while `task` is held by the gate that it was given. Returns what is
/// listed then.
fn listed<F: Future<Output = ()> + Send + 'static>(task: impl FnOnce(Hold) -> F) -> UnfinishedTask {
    let runtime = build(1);
    let gate = Gate::default();
    let (begun, has_begun) = mpsc::channel();
    let task = runtime.spawn(task(Hold { gate: gate.clone(), begun }));
    has_begun.recv().unwrap();
    let unfinished = shut_down(runtime);
    let listed = only(&unfinished).clone();
    assert_eq!((listed.id(), listed.kind()), (task.id(), UnfinishedKind::Task));
    gate.open();
    until("the task ends", || task.is_finished());
    listed
}

/// A gate for one task, which says that it has come there.
struct Hold {
    gate: Gate,
    begun: mpsc::Sender<()>,
}

impl Hold {
    fn enter(self) {
        self.begun.send(()).unwrap();
        self.gate.wait();
    }
}

#[test]
fn stuck_tasks_are_listed_with_the_places_where_they_were_spawned() {
    const WORKERS: usize = 3;
    let _watchdog = watchdog();
    let mut settings = builder(WORKERS);
    // Otherwise one of the three gets onto a spare worker, if the last worker takes long to wake.
    settings.spare_workers(0);
    let ended = ends(&mut settings);
    let runtime = settings.build().unwrap();
    let gate = Gate::default();
    let (begun, has_begun) = mpsc::channel();
    let new = || stuck(gate.clone(), begun.clone());
    let (first, first_line) = (runtime.spawn(new()), line!());
    let (second, second_line) = (runtime.spawn(new()), line!());
    let (third, third_line) = (runtime.handle().spawn(new()), line!());
    // Sent from outside, and each poll holds its worker: so each worker gets one.
    (0..WORKERS).for_each(|_| has_begun.recv().unwrap());
    // A task that waits in a queue is not listed: no worker is stuck in it.
    let drops = Drops::default();
    let token = drops.token();
    runtime.spawn(async move { drop(token) });

    let unfinished = shut_down(runtime);
    assert!(unfinished.threads() >= WORKERS);
    let mut workers: Vec<_> = unfinished.tasks().iter().map(|task| task.worker().unwrap()).collect();
    workers.sort_unstable();
    assert_eq!(workers, [0, 1, 2]);
    for (id, line) in [(first.id(), first_line), (second.id(), second_line), (third.id(), third_line)] {
        let task = unfinished.tasks().iter().find(|task| task.id() == id).unwrap();
        assert!(is_in_this_file(task.spawned_at(), line), "{task:?}, but spawned in line {line}");
        assert_eq!((task.kind(), task.is_blocked()), (UnfinishedKind::Task, false));
        let text = format!("worker {}: task {id}, spawned at {}:{line}:", task.worker().unwrap(), file!());
        assert!(unfinished.to_string().lines().any(|line| line.starts_with(&text)), "{unfinished}");
    }
    let text = unfinished.to_string();
    assert_eq!(text.lines().filter(|line| line.starts_with("worker ")).count(), WORKERS, "{text}");

    gate.open();
    until("all workers leave", || ended.load(SeqCst) >= WORKERS);
    until("the task in the queue is dropped", || drops.count() == 1);
    assert!(first.is_finished() && second.is_finished() && third.is_finished());
}

#[test]
fn a_stuck_task_may_panic_when_it_returns() {
    let _watchdog = watchdog();
    let mut settings = builder(1);
    let ended = ends(&mut settings);
    let runtime = settings.build().unwrap();
    let gate = Gate::default();
    let (begun, has_begun) = mpsc::channel();
    let spin = stuck(gate.clone(), begun);
    let task = runtime.spawn(async {
        spin.await;
        panic!("stuck no more");
    });
    has_begun.recv().unwrap();
    let unfinished = shut_down(runtime);
    assert_eq!(only(&unfinished).id(), task.id());
    gate.open();
    until("the worker leaves", || ended.load(SeqCst) >= 1);
    let error = build(0).block_on(task).unwrap_err();
    assert_eq!(text_of(&*error.into_panic()), "stuck no more");
}

#[test]
fn a_stuck_computation_is_told_from_a_task() {
    let _watchdog = watchdog();
    let mut settings = builder(1);
    let ended = ends(&mut settings);
    let runtime = settings.build().unwrap();
    let gate = Gate::default();
    let (begun, has_begun) = mpsc::channel();
    let (computation, line) = {
        let _enter = runtime.enter();
        let stuck = gate.clone();
        let f = move || {
            begun.send(()).unwrap();
            // Without a split point: it does not see that it is to end.
            stuck.wait();
            7
        };
        (runtime::compute(f), line!())
    };
    has_begun.recv().unwrap();
    let unfinished = shut_down(runtime);
    let task = only(&unfinished);
    assert_eq!((task.id(), task.kind()), (computation.id(), UnfinishedKind::Computation));
    assert_eq!((task.worker(), task.is_blocked()), (Some(0), false));
    assert!(is_in_this_file(task.spawned_at(), line));
    assert!(unfinished.to_string().starts_with(&format!("worker 0: computation {}, ", task.id())));
    gate.open();
    until("all threads leave", || ended.load(SeqCst) >= 1 && computation.is_finished());
    assert_eq!(build(0).block_on(computation).unwrap(), 7);
}

#[test]
fn a_task_is_still_named_after_it_took_part_in_a_computation() {
    let _watchdog = watchdog();
    listed(|hold| async move {
        assert_eq!(runtime::parallel::join(|| 1, || 2), (1, 2));
        hold.enter();
    });
}

#[test]
fn a_task_is_not_blamed_for_a_job_that_came_after_it() {
    let _watchdog = watchdog();
    let runtime = build(1);
    let gate = Gate::default();
    let (begun, has_begun) = mpsc::channel();
    let stuck = gate.clone();
    runtime.spawn(async move {
        // No thread waits for the job, and it has no name.
        runtime::parallel::spawn(move || {
            begun.send(()).unwrap();
            stuck.wait();
        });
    });
    has_begun.recv().unwrap();
    let unfinished = shut_down(runtime);
    assert_eq!(unfinished.tasks(), []);
    let text = match unfinished.threads() {
        1 => "1 thread has not ended".to_owned(),
        threads => format!("{threads} threads have not ended"),
    };
    assert_eq!(unfinished.to_string(), text);
    gate.open();
}

#[test]
fn a_task_that_blocks_is_listed_as_blocked() {
    let _watchdog = watchdog();
    let runtime = build(1);
    let gate = Gate::default();
    let (begun, has_begun) = mpsc::channel();
    let stuck = gate.clone();
    let future = async move {
        // A call of the past: it says nothing of what comes after it.
        block_in_place(|| ());
        block_in_place(|| {
            begun.send(()).unwrap();
            stuck.wait();
        });
    };
    let (task, line) = (runtime.spawn(future), line!());
    has_begun.recv().unwrap();
    let unfinished = shut_down(runtime);
    let blocked = only(&unfinished);
    assert_eq!((blocked.id(), blocked.kind()), (task.id(), UnfinishedKind::Task));
    assert!(blocked.is_blocked() && is_in_this_file(blocked.spawned_at(), line), "{blocked:?}");
    assert!(unfinished.to_string().contains(", blocked"), "{unfinished}");
    gate.open();
    until("the task ends", || task.is_finished());
}

#[test]
fn a_task_that_is_marked_is_listed_as_blocked() {
    let _watchdog = watchdog();
    let task = listed(|hold| async move {
        let mark = mark_blocked();
        hold.enter();
        mark_unblocked(mark);
    });
    assert!(task.is_blocked());
}

#[test]
fn a_task_that_has_blocked_before_is_not_listed_as_blocked() {
    let _watchdog = watchdog();
    let task = listed(|hold| async {
        block_in_place(|| ());
        stuck(hold.gate, hold.begun).await;
    });
    assert!(!task.is_blocked());
}

#[test]
fn blocking_closures_are_listed() {
    let _watchdog = watchdog();
    for workers in KINDS {
        let runtime = build(workers);
        let gate = Gate::default();
        let (begun, has_begun) = mpsc::channel();
        let new = || {
            let (stuck, begun) = (gate.clone(), begun.clone());
            move || {
                begun.send(()).unwrap();
                stuck.wait();
            }
        };
        let (first, first_line) = (runtime.spawn_blocking(new()), line!());
        let (second, second_line) = (runtime.spawn_blocking(new()), line!());
        // Their threads may have run others before, and others have ended.
        let third = runtime.spawn_blocking(|| ());
        runtime.block_on(third).unwrap();
        (0..2).for_each(|_| has_begun.recv().unwrap());
        let unfinished = shut_down(runtime);
        assert!(unfinished.threads() >= 2);
        for (id, line) in [(first.id(), first_line), (second.id(), second_line)] {
            let task = unfinished.tasks().iter().find(|task| task.id() == id).unwrap();
            assert!(is_in_this_file(task.spawned_at(), line));
            assert_eq!((task.kind(), task.worker()), (UnfinishedKind::BlockingClosure, None));
        }
        let text = unfinished.to_string();
        assert_eq!(text.matches("blocking thread: closure ").count(), 2, "{text}");
        gate.open();
        until("the closures end", || first.is_finished() && second.is_finished());
    }
}

#[test]
fn nothing_is_listed_when_everything_has_ended() {
    let _watchdog = watchdog();
    for workers in KINDS {
        let runtime = build(workers);
        runtime.spawn(std::future::pending::<()>());
        runtime.spawn_blocking(|| ());
        runtime.block_on(runtime.spawn(async { block_in_place(|| ()) })).unwrap();
        let unfinished = runtime.shutdown_report(Duration::MAX);
        assert!(unfinished.is_empty() && unfinished.tasks().is_empty(), "{unfinished:?}");
        assert_eq!((unfinished.threads(), unfinished.to_string().as_str()), (0, "everything has ended"));
    }
}

/// The last worker may leave at any moment while the report is made.
#[test]
fn what_ends_while_it_is_listed_is_listed_right_or_not_at_all() {
    let _watchdog = watchdog();
    for _ in 0..200 {
        let runtime = build(2);
        let gate = Gate::default();
        let (begun, has_begun) = mpsc::channel();
        let spawn = |handle: &Handle| handle.spawn(stuck(gate.clone(), begun.clone())).id();
        let ids = [spawn(runtime.handle()), spawn(runtime.handle())];
        (0..2).for_each(|_| has_begun.recv().unwrap());
        let opener = thread::spawn(move || gate.open());
        let unfinished = runtime.shutdown_report(Duration::ZERO);
        opener.join().unwrap();
        for task in unfinished.tasks() {
            assert!(ids.contains(&task.id()) && task.spawned_at().file() == file!(), "{task:?}");
        }
        assert!(unfinished.tasks().is_empty() || unfinished.threads() > 0, "{unfinished:?}");
    }
}

#[test]
fn a_marked_worker_that_was_in_block_in_place_gets_the_end_of_its_own_tasks() {
    let _watchdog = watchdog();
    for workers in [1, 2] {
        let runtime = build(workers);
        let (send, dropped) = mpsc::channel::<()>();
        let waits = Gate::default();
        runtime.spawn({
            let waits = waits.clone();
            async move {
                // Waits in the table of this worker, until it is cancelled.
                let task = runtime::spawn(async move {
                    let _send = send;
                    std::future::pending::<()>().await;
                });
                while runtime::Handle::current().metrics().num_alive_tasks() < 2 {
                    runtime::task::yield_now().await;
                }
                runtime::task::yield_now().await;
                let mark = mark_blocked();
                block_in_place(|| ());
                waits.open();
                _ = dropped.recv();
                drop((mark, task));
            }
        });
        waits.wait();
        let unfinished = runtime.shutdown_report(LIMIT / 4);
        assert!(unfinished.is_empty(), "{unfinished}");
    }
}
