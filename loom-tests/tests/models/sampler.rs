//! A worker that falls asleep beside a sampler looks at no tasks (`scheduler/hints/sampling.rs`). A task from
//! outside is not left to sleepers for that.
//!
//! The workers of this model find no task before they sleep: what is worth a wake is a guess, which may
//! always be wrong. So only the looks of the sleep protocol count. A worker that takes a task is stuck in it.
//! After all threads have ended, the unparked workers look once more.
//!
//! Actors: one thread outside that pushes; a sampler at the end of its pause; workers that sample in turn or
//! sleep beside the sampler, searchers or not.
//!
//! Bounds: up to three threads beside the main one, two tasks, two pauses for each worker.

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
}

/// How a worker begins. The number says how many times it may still sample. A worker that may sample once
/// more, and cannot because another one does, falls asleep and leaves the tasks to that one.
#[derive(Clone, Copy, PartialEq)]
enum Begin {
    /// It is the sampler, at the end of a pause.
    Pausing(u32),
    Searching(u32),
    /// No searcher, because there are enough of them. It leaves the tasks to the sampler, too.
    Running,
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

    /// The life of worker `own`: `Worker::sleeps_if_idle`. Returns the task that it took, or `None` if it
    /// sleeps.
    fn live(&self, own: usize, begin: Begin) -> Option<usize> {
        let (mut left, is_searching) = match begin {
            Begin::Pausing(left) => {
                self.end_pause(left);
                (left, true)
            }
            Begin::Searching(left) => (left, true),
            Begin::Running => (1, false),
            Begin::Asleep => return None,
        };
        while is_searching && left > 0 && self.samplers.begin(own) {
            left -= 1;
            self.end_pause(left);
        }
        let taken = self.sleep(own, is_searching, left > 0);
        if self.fault == Fault::EndsLate && left == 0 {
            self.samplers.end();
        }
        taken
    }

    /// A pause is over. With the bug, the last pause of a worker is over only after its SleepLook.
    fn end_pause(&self, left: u32) {
        if self.fault != Fault::EndsLate || left > 0 {
            self.samplers.end();
        }
    }

    /// CountSleeper to SleepLook.
    fn sleep(&self, own: usize, is_searching: bool, would_sample: bool) -> Option<usize> {
        let is_beside_sampler = || would_sample && self.samplers.sampler().is_some();
        let early = is_beside_sampler();
        self.idle.announce_sleep(own, is_searching);
        let leaves_tasks = if self.fault == Fault::AsksEarly { early } else { is_beside_sampler() };
        if leaves_tasks || self.injector.is_empty() {
            return None;
        }
        self.idle.cancel_sleep(own);
        self.take()
    }

    /// A searcher takes a task.
    fn take(&self) -> Option<usize> {
        let taken = self.injector.pop().map(|item| self.items.take(item));
        if self.idle.stop_searching() {
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
            assert!(!self.idle.end_sleep(own), "a worker was unparked, and had not been picked");
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
                Begin::Running => {}
                Begin::Pausing(_) => assert!(world.idle.start_searching() && world.samplers.begin(index)),
                Begin::Searching(_) => assert!(world.idle.start_searching()),
            }
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

const TWO: [Begin; 2] = [Begin::Pausing(0), Begin::Searching(1)];

#[test]
fn a_push_is_not_left_to_a_worker_that_sleeps_beside_the_sampler() {
    a_push_beside_a_sampler(Fault::None, TWO, 0);
}

#[test]
fn a_push_is_not_left_to_a_worker_that_was_no_searcher() {
    a_push_beside_a_sampler(Fault::None, [Begin::Pausing(0), Begin::Running, Begin::Searching(0)], 0);
}

#[test]
fn a_push_is_not_left_to_two_that_sample_in_turn() {
    a_push_beside_a_sampler(Fault::None, [Begin::Pausing(2), Begin::Searching(2)], 0);
}

#[test]
fn a_push_is_not_left_to_three_that_sample_in_turn() {
    a_push_beside_a_sampler(Fault::None, [Begin::Pausing(0), Begin::Searching(1), Begin::Searching(1)], 0);
}

#[test]
fn a_push_is_not_left_to_a_sampler_that_finds_other_work() {
    a_push_beside_a_sampler(Fault::None, [Begin::Pausing(0), Begin::Searching(1), Begin::Asleep], 1);
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
