//! A worker that falls asleep beside a sampler looks at no tasks (`scheduler/hints/sampling.rs`). A task from
//! outside is not left to sleepers for that.
//!
//! The searchers of this model find no task before they sleep: what is worth a wake is a guess, which may
//! always be wrong. So only the looks of the sleep protocol count. A worker whose task is taken is stuck in
//! it. After all threads have ended, the unparked workers look once more.
//!
//! Actors: one thread outside that pushes; a sampler at the end of its pause; workers that sample in turn or
//! sleep beside the sampler.
//!
//! Bounds: up to three threads beside the main one, two tasks, one pause for each worker.

use std::sync::Arc;

use loom::sync::atomic::Ordering::{AcqRel, SeqCst};
use loom::sync::atomic::{AtomicBool, fence};
use runtime::internals::queue::Injector;
use runtime::internals::scheduler::{Idle, Samplers, Work};

use super::item::{Item, Items};
use super::once_built::{model, thread};

/// The bug that was put back into the order of the steps.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// A worker asks for the sampler before SleepFence.
    AsksEarly,
    /// The sampler ends its pause only after its own SleepLook.
    EndsLate,
    /// The sampler takes a task, and does not look for more.
    FindsQuietly,
}

/// How a worker begins.
#[derive(Clone, Copy, PartialEq)]
enum Begin {
    /// It is the sampler, at the end of its last pause, and looks at all tasks when it sleeps.
    Pausing,
    /// It searches, and would sample once.
    Searching,
    Asleep,
}

struct World {
    idle: Idle,
    samplers: Samplers,
    injector: Injector<Item>,
    /// Set by unparking.
    tokens: Vec<AtomicBool>,
    items: Items,
    fault: Fault,
}

impl World {
    /// PushTask to UnparkSleeper.
    fn inject(&self, value: usize) {
        self.push(value);
        self.idle.fence_push();
        self.notify();
    }

    fn push(&self, value: usize) {
        // SAFETY: each value is pushed once, and items live as long as `self`.
        unsafe { self.injector.push(self.items.make(value)) };
    }

    fn notify(&self) {
        if let Some(index) = self.idle.pick_for(Work::Task, None).unparks {
            self.tokens[index].swap(true, AcqRel);
        }
    }

    /// The life of worker `own`, which is a searcher: `Worker::sleeps_if_idle`. Returns the task that it
    /// took, or `None` if it sleeps.
    fn live(&self, own: usize, begin: Begin) -> Option<usize> {
        let would_sample = begin == Begin::Searching;
        match begin {
            Begin::Pausing => self.end_pause(Fault::None),
            Begin::Searching if self.samplers.begin(own) => {
                self.end_pause(Fault::None);
                return self.live_on(own, false);
            }
            Begin::Searching | Begin::Asleep => {}
        }
        self.live_on(own, would_sample)
    }

    /// The pause is over, unless `late` is the bug.
    fn end_pause(&self, late: Fault) {
        if (self.fault == Fault::EndsLate) == (late == Fault::EndsLate) {
            self.samplers.end();
        }
    }

    fn live_on(&self, own: usize, would_sample: bool) -> Option<usize> {
        let is_beside = || would_sample && self.samplers.sampler().is_some();
        let early = is_beside();
        self.idle.announce_sleep(own, true);
        let leaves_tasks = if self.fault == Fault::AsksEarly { early } else { is_beside() };
        let taken = if leaves_tasks || self.injector.is_empty() {
            None
        } else {
            self.idle.cancel_sleep(own);
            self.take()
        };
        if !would_sample {
            self.end_pause(Fault::EndsLate);
        }
        taken
    }

    /// A searcher takes a task.
    fn take(&self) -> Option<usize> {
        let taken = self.injector.pop().map(|item| self.items.take(item));
        if self.idle.stop_searching() && self.fault != Fault::FindsQuietly {
            fence(SeqCst);
            if !self.injector.is_empty() {
                self.notify();
            }
        }
        taken
    }

    /// After all threads have ended: the unparked workers take tasks. Then nothing may be left.
    fn settle(&self, mut taken: Vec<usize>) {
        while let Some(own) = (0..self.tokens.len()).find(|&own| self.tokens[own].swap(false, AcqRel)) {
            assert!(!self.idle.end_sleep(own), "a worker was unparked, and nobody had picked it");
            taken.extend(self.take());
        }
        assert!(self.injector.is_empty(), "a task is left to sleepers");
        self.items.assert_all(taken);
    }
}

/// `before` tasks are there when the workers begin, and one is pushed.
fn a_push_beside_a_sampler<const N: usize>(fault: Fault, begins: [Begin; N], before: usize) {
    model(move || {
        let world = Arc::new(World {
            idle: Idle::new(2 * N, 2 * N),
            samplers: Samplers::new(),
            injector: Injector::new(),
            tokens: (0..N).map(|_| AtomicBool::new(false)).collect(),
            items: Items::new(before + 1),
            fault,
        });
        for (index, begin) in begins.iter().enumerate() {
            match begin {
                Begin::Asleep => world.idle.announce_sleep(index, false),
                _ => assert!(world.idle.start_searching()),
            }
            assert!(*begin != Begin::Pausing || world.samplers.begin(index));
        }
        (0..before).for_each(|value| world.push(value));
        let awake = begins.iter().copied().enumerate().filter(|(_, begin)| *begin != Begin::Asleep);
        let workers: Vec<_> = awake
            .map(|(own, begin)| {
                let world = world.clone();
                thread::spawn(move || world.live(own, begin))
            })
            .collect();
        world.inject(before);
        let taken = workers.into_iter().filter_map(|worker| worker.join().unwrap()).collect();
        world.settle(taken);
    });
}

const TWO: [Begin; 2] = [Begin::Pausing, Begin::Searching];

#[test]
fn a_push_is_not_left_to_a_worker_that_sleeps_beside_the_sampler() {
    a_push_beside_a_sampler(Fault::None, TWO, 0);
}

#[test]
fn a_push_is_not_left_to_workers_that_sample_in_turn() {
    a_push_beside_a_sampler(Fault::None, [Begin::Pausing, Begin::Searching, Begin::Searching], 0);
}

#[test]
fn a_push_is_not_left_to_a_sampler_that_finds_other_work() {
    a_push_beside_a_sampler(Fault::None, [Begin::Pausing, Begin::Searching, Begin::Asleep], 1);
}

#[test]
#[should_panic(expected = "a task is left to sleepers")]
fn a_sleeper_that_asks_for_the_sampler_before_its_fence() {
    a_push_beside_a_sampler(Fault::AsksEarly, TWO, 0);
}

#[test]
#[should_panic(expected = "a task is left to sleepers")]
fn a_sampler_that_ends_its_pause_after_its_look() {
    a_push_beside_a_sampler(Fault::EndsLate, TWO, 0);
}

#[test]
#[should_panic(expected = "a task is left to sleepers")]
fn a_sampler_that_finds_other_work_and_tells_nobody() {
    a_push_beside_a_sampler(Fault::FindsQuietly, [Begin::Pausing, Begin::Searching, Begin::Asleep], 1);
}
