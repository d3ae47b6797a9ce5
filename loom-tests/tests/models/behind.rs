//! Tasks that queue behind those in the injector, `push_behind` of `scheduler/next_work.rs`, all real: each
//! is run, also if the worker that has woken them does not come back for long.
//!
//! A task that is not run is a deadlock, which loom reports.
//!
//! The twins do not sleep; they say which task was left.
//!
//! Bounds: one dispatch, with three tasks: two are given to the injector at once, and the third one at the
//! end. One task waits there already. Another worker runs, sleeps, or is about to.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize as Count;

use loom::sync::Mutex;
use loom::sync::atomic::Ordering::{AcqRel, Relaxed, SeqCst};
use loom::sync::atomic::{AtomicBool, AtomicUsize, fence};

use super::once_built::{model, thread};
use super::stage::{Signal, Stage};

#[test]
fn tasks_that_queue_behind_others_are_run_while_their_worker_is_stuck() {
    model(|| {
        let stage = Stage::new(2, 0);
        let all_run = Arc::new(Signal::default());
        // The model does not see this number.
        let ran = Arc::new(Count::new(0));
        let tasks = [(); 4].map(|()| {
            let (ran, all_run) = (ran.clone(), all_run.clone());
            stage.task(async move {
                if ran.fetch_add(1, Relaxed) == 3 {
                    all_run.set();
                }
            })
        });
        let [waits, tasks @ ..] = tasks;
        stage.push_quietly(waits);
        let other = {
            let stage = stage.clone();
            thread::spawn(move || stage.live(1))
        };
        stage.act(0, |worker| {
            worker.dispatch(|_| tasks.into_iter().for_each(|task| worker.push(task)));
            // If the other worker has taken the task that waited, some of the others are in the ring. There
            // the monitor would find them.
            while !worker.processor().ring.is_empty()
                && let Some(task) = worker.next_task()
            {
                task.run();
            }
            all_run.wait();
        });
        stage.shared().begin_shutdown();
        other.join().unwrap();
        stage.end();
    });
}

/// The bug that was put back.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// The end of the dispatch does not give what is left.
    KeepsTheRest,
    /// A full list is given and not emptied.
    GivesTwice,
    /// The sleepers are read before the tasks are given.
    NotifiesEarly,
    /// There is no fence between the two.
    NotifiesWithoutFence,
    /// The tasks that are given replace those in the injector.
    GivesOver,
}

/// A copy of the dispatch and of the other worker's way to its sleep.
struct World {
    /// The tasks in the injector, and how many there are for threads that do not lock.
    injector: Mutex<Vec<usize>>,
    len: AtomicUsize,
    is_sleeper: AtomicBool,
    is_unparked: AtomicBool,
    fault: Fault,
}

impl World {
    fn give(&self, batch: &mut Vec<usize>) {
        if self.fault == Fault::NotifiesEarly {
            self.notify();
        }
        let mut injector = self.injector.lock().unwrap();
        if self.fault == Fault::GivesOver {
            injector.clear();
        }
        injector.extend(&*batch);
        self.len.store(injector.len(), Relaxed);
        drop(injector);
        if self.fault != Fault::GivesTwice {
            batch.clear();
        }
        if !matches!(self.fault, Fault::NotifiesWithoutFence | Fault::NotifiesEarly) {
            fence(SeqCst);
        }
        if self.fault != Fault::NotifiesEarly {
            self.notify();
        }
    }

    fn notify(&self) {
        if self.is_sleeper.load(Relaxed) && self.is_sleeper.swap(false, AcqRel) {
            self.is_unparked.store(true, Relaxed);
        }
    }

    fn dispatch(&self) {
        let mut behind = Vec::new();
        for task in [1, 2, 3] {
            behind.push(task);
            if behind.len() >= 2 {
                self.give(&mut behind);
            }
        }
        if self.fault != Fault::KeepsTheRest {
            self.give(&mut behind);
        }
    }

    /// Takes all that is there.
    fn take(&self) -> Vec<usize> {
        let mut injector = self.injector.lock().unwrap();
        self.len.store(0, Relaxed);
        std::mem::take(&mut injector)
    }

    /// The other worker takes what it sees, until it sleeps. Returns the tasks.
    fn live(&self) -> Vec<usize> {
        let mut taken = Vec::new();
        loop {
            if self.len.load(Relaxed) > 0 {
                taken.append(&mut self.take());
            }
            self.is_sleeper.swap(true, AcqRel);
            fence(SeqCst);
            if self.len.load(Relaxed) == 0 {
                return taken;
            }
            self.is_sleeper.swap(false, AcqRel);
        }
    }
}

/// The worker that dispatches is stuck afterwards.
fn tasks_behind_others(fault: Fault) {
    model(move || {
        let world = Arc::new(World {
            injector: Mutex::new(vec![0]),
            len: AtomicUsize::new(1),
            is_sleeper: AtomicBool::new(false),
            is_unparked: AtomicBool::new(false),
            fault,
        });
        let other = {
            let world = world.clone();
            thread::spawn(move || world.live())
        };
        world.dispatch();
        let mut taken = other.join().unwrap();
        if world.is_unparked.load(Relaxed) {
            taken.append(&mut world.take());
        }
        for task in 0..4 {
            let times = taken.iter().filter(|&&other| other == task).count();
            assert!(times > 0, "task {task} is left");
            assert!(times == 1, "task {task} is taken twice");
        }
    });
}

#[test]
fn a_twin_without_a_fault_passes() {
    tasks_behind_others(Fault::None);
}

/// A twin for each fault, and what the model says.
macro_rules! refused {
    ($($name:ident: $fault:ident, $text:literal;)*) => {$(
        #[test]
        #[should_panic(expected = $text)]
        fn $name() {
            tasks_behind_others(Fault::$fault);
        }
    )*};
}

refused! {
    a_dispatch_that_keeps_the_rest: KeepsTheRest, "task 3 is left";
    a_list_that_is_given_twice: GivesTwice, "task 1 is taken twice";
    a_list_that_replaces_those_that_wait: GivesOver, "task 0 is left";
    a_worker_that_notifies_before_it_gives: NotifiesEarly, "task 3 is left";
    a_worker_that_notifies_without_a_fence: NotifiesWithoutFence, "task 3 is left";
}
