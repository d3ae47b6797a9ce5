//! `on_stall` names the task that holds its worker, once for each time, and harms no task.

mod stall_support;
mod support;

use std::panic::Location;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use runtime::runtime::Stall;
use runtime::task::Id;
use runtime::{Builder, Runtime};
use stall_support::{Trap, WAYS, Way, try_to_stick};
use support::{builder, until, watchdog};

/// What was told.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<Stall>>>);

impl Told {
    fn note(&self, builder: &mut Builder) {
        let told = self.clone();
        builder.on_stall(move |stall| told.0.lock().push(stall.clone()));
    }

    /// What was told of the task. A busy machine may make others look stuck, too.
    fn of(&self, task: Id) -> Vec<Stall> {
        self.0.lock().iter().filter(|stall| stall.task_id() == task).cloned().collect()
    }
}

/// With one spare worker at most, so that something waits while that and the workers are held.
fn build(workers: usize) -> (Runtime, Told) {
    let told = Told::default();
    let mut builder = builder(workers);
    told.note(builder.spare_workers(1));
    (builder.build().unwrap(), told)
}

/// A task that sleeps again and again, without end. A task that holds a worker holds up this one.
fn bystander(runtime: &Runtime) -> runtime::task::AbortHandle {
    let task = runtime.spawn(async {
        loop {
            runtime::time::sleep(Duration::from_millis(1)).await;
        }
    });
    task.abort_handle()
}

#[test]
fn the_hook_names_the_task_that_is_stuck_and_where_it_was_spawned() {
    let _watchdog = watchdog();
    let mut tries = 0;
    let mut ways = WAYS.iter().copied().peekable();
    while let Some(&way) = ways.peek() {
        let (runtime, told) = build(1);
        bystander(&runtime);
        let trap = Trap::default();
        let enter = |trap: Trap| async move { trap.enter(way) };
        let line = Location::caller().line() + 1;
        let task = runtime.spawn(enter(trap.clone()));
        let id = task.id();
        until("it is told", || !told.of(id).is_empty());
        // Once, for as long as this poll may take.
        thread::sleep(Duration::from_millis(50));
        let all = told.of(id);
        trap.release();
        runtime.block_on(task).unwrap();
        assert_eq!(all.len(), 1, "{all:?}");
        let stall = &all[0];
        tries += 1;
        if trap.workers() == 0 && tries < 10 {
            // The only worker had no CPU for a while, and a spare worker served.
            continue;
        }
        ways.next();
        assert_eq!((stall.worker(), stall.is_spare()), (0, false));
        assert_eq!((stall.spawned_at().file(), stall.spawned_at().line()), (file!(), line));
        assert!(stall.held_for() >= Duration::from_millis(1), "{stall}");
        assert!(runtime.metrics().stall_count() >= 1);
        assert!(stall.to_string().contains(&format!("task {id}, spawned at {}:{line}", file!())), "{stall}");
    }
}

#[test]
fn a_task_is_told_of_for_each_poll_in_which_it_is_stuck_and_also_on_a_spare_worker() {
    let _watchdog = watchdog();
    let (runtime, told) = build(1);
    bystander(&runtime);
    let traps = [Trap::default(), Trap::default()];
    let task = |traps: [Trap; 2]| async move {
        for trap in traps {
            trap.enter(Way::Blocks);
            runtime::task::yield_now().await;
        }
    };
    let tasks = [runtime.spawn(task(traps.clone())), runtime.spawn(task(traps.clone()))];
    for (times, trap) in (1..).zip(&traps) {
        until("both are stuck", || trap.count() == 2);
        until("both are told of", || tasks.iter().all(|task| told.of(task.id()).len() == times));
        trap.release();
    }
    let all: Vec<_> = tasks.iter().flat_map(|task| told.of(task.id())).collect();
    // At least one of the two had to be on a spare worker, both times.
    assert!(all.iter().filter(|stall| stall.is_spare()).count() >= 2, "{all:?}");
    assert!(all.iter().all(|stall| stall.is_spare() == (stall.worker() >= 1)), "{all:?}");
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
}

#[test]
fn a_hook_that_panics_harms_nobody() {
    let _watchdog = watchdog();
    for way in WAYS {
        let told = Arc::new(Mutex::new(0));
        let count = told.clone();
        let runtime = builder(1)
            .on_stall(move |_| {
                *count.lock() += 1;
                std::panic::resume_unwind(Box::new("the hook panics"));
            })
            .build()
            .unwrap();
        let stuck = try_to_stick(&runtime, 3, way);
        // Each stuck task brings one more spare worker, the last one too, whatever the hook does.
        until("all are stuck", || stuck.trap.count() == 3);
        runtime.block_on(runtime.spawn(async { runtime::task::yield_now().await })).unwrap();
        until("it is told", || *told.lock() >= 1);
        stuck.end(&runtime);
    }
}

#[test]
fn tasks_that_said_that_they_take_long_are_not_told_of() {
    let _watchdog = watchdog();
    let (runtime, told) = build(3);
    bystander(&runtime);
    let trap = Trap::default();
    let in_place = runtime.spawn({
        let trap = trap.clone();
        async move { runtime::task::block_in_place(|| trap.enter(Way::Blocks)) }
    });
    let computing = runtime.spawn({
        let trap = trap.clone();
        async move { runtime::compute(move || trap.enter(Way::Spins)).await.unwrap() }
    });
    let marked = runtime.spawn({
        let trap = trap.clone();
        async move {
            let mark = runtime::parallel::mark_blocked();
            trap.enter(Way::Blocks);
            drop(mark);
        }
    });
    until("all are at it", || trap.count() == 3);
    // The monitor looks meanwhile, and tells of a task that is really stuck.
    let stuck = Trap::default();
    let culprit = runtime.spawn({
        let stuck = stuck.clone();
        async move { stuck.enter(Way::Blocks) }
    });
    until("the other is told of", || !told.of(culprit.id()).is_empty());
    for task in [&in_place, &computing, &marked] {
        assert!(told.of(task.id()).is_empty(), "{:?}", told.of(task.id()));
    }
    stuck.release();
    trap.release();
    for task in [culprit, in_place, computing, marked] {
        runtime.block_on(task).unwrap();
    }
}

#[test]
fn the_hook_may_spawn() {
    let _watchdog = watchdog();
    let (send, spawned) = std::sync::mpsc::channel();
    let mut builder = builder(1);
    builder.on_stall(move |_| {
        let send = send.clone();
        runtime::spawn(async move { _ = send.send(()) });
    });
    let runtime = builder.build().unwrap();
    let trap = Trap::default();
    let stuck = runtime.spawn({
        let trap = trap.clone();
        async move { trap.enter(Way::Blocks) }
    });
    bystander(&runtime);
    spawned.recv().unwrap();
    trap.release();
    runtime.block_on(stuck).unwrap();
}
