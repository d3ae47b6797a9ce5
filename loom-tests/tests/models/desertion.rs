//! The driver is not left to nobody when a worker lies down while the monitor looks in: M3 of `monitor.rs`, against W1 to W5 of `idle.rs`.
//!
//! The sleep protocol is real; the driver's seat and the monitor's look are copies of a few lines. A worker that would sleep outside of the
//! driver ends its thread; if it was unparked it tries again, after all threads have ended. Then somebody must sit in the driver.
//!
//! Bounds: one or two workers that lie down once, one look of the monitor.

use std::sync::Arc;

use loom::sync::atomic::AtomicBool;
use loom::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use loom::thread;
use runtime::internals::scheduler::{Idle, Work};

/// The bug that was put back.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// The monitor does not look who sleeps.
    LeavesQuietly,
    /// It looks before it leaves the seat.
    LooksBeforeItLeaves,
    /// It looks without a fence.
    LooksWithoutFence,
}

struct World {
    /// Somebody sits in the driver.
    seat: AtomicBool,
    idle: Idle,
    tokens: Vec<AtomicBool>,
    fault: Fault,
}

impl World {
    fn new(workers: usize, fault: Fault) -> Arc<Self> {
        Arc::new(Self {
            seat: AtomicBool::new(false),
            idle: Idle::new(workers, workers),
            tokens: (0..workers).map(|_| AtomicBool::new(false)).collect(),
            fault,
        })
    }

    fn try_sit(&self) -> bool {
        self.seat.compare_exchange(false, true, AcqRel, Relaxed).is_ok()
    }

    /// Says whether the worker sits in the driver, for good; else it sleeps on its token.
    fn lie_down(&self, index: usize) -> bool {
        loop {
            self.idle.announce_sleep(index, false);
            if self.try_sit() {
                return true;
            }
            if !self.tokens[index].swap(false, AcqRel) {
                return false;
            }
            self.wake_up(index);
        }
    }

    /// The worker was notified, and finds no work.
    fn wake_up(&self, index: usize) {
        if !self.idle.end_sleep(index) {
            self.idle.stop_searching();
        }
    }

    fn notify(&self) {
        let picked = self.idle.pick_for(Work::Task, None).unparks;
        picked.into_iter().for_each(|index| _ = self.tokens[index].swap(true, AcqRel));
    }

    /// The monitor's look.
    fn look_in(&self) {
        if !self.try_sit() {
            return;
        }
        let saw_sleepers = self.idle.has_sleepers();
        self.seat.store(false, Release);
        if self.fault != Fault::LooksWithoutFence {
            self.idle.fence_push();
        }
        let sees_sleepers = match self.fault {
            Fault::LeavesQuietly => false,
            Fault::LooksBeforeItLeaves => saw_sleepers,
            _ => self.idle.has_sleepers(),
        };
        if !self.seat.load(Relaxed) && sees_sleepers {
            self.notify();
        }
    }
}

fn workers_lie_down(workers: usize, fault: Fault) {
    loom::model(move || {
        let world = World::new(workers, fault);
        let threads: Vec<_> = (0..workers)
            .map(|index| {
                let world = world.clone();
                thread::spawn(move || world.lie_down(index))
            })
            .collect();
        world.look_in();
        let mut sits: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        for (index, sits) in sits.iter_mut().enumerate() {
            if world.tokens[index].swap(false, AcqRel) {
                if *sits {
                    world.seat.store(false, Release);
                }
                world.wake_up(index);
                *sits = world.lie_down(index);
            }
        }
        assert_eq!(sits.iter().filter(|&&sits| sits).count(), 1, "nobody sits in the driver");
        assert_eq!(world.idle.counts(), (0, workers), "the counts are wrong at rest");
    });
}

#[test]
fn a_worker_that_lies_down_meanwhile_sits_in_the_driver() {
    workers_lie_down(1, Fault::None);
}

#[test]
fn one_of_two_workers_sits_in_the_driver() {
    workers_lie_down(2, Fault::None);
}

#[test]
#[should_panic(expected = "nobody sits")]
fn a_monitor_that_leaves_quietly() {
    workers_lie_down(1, Fault::LeavesQuietly);
}

#[test]
#[should_panic(expected = "nobody sits")]
fn a_monitor_that_looks_before_it_leaves() {
    workers_lie_down(1, Fault::LooksBeforeItLeaves);
}

#[test]
#[should_panic(expected = "nobody sits")]
fn a_monitor_that_looks_without_a_fence() {
    workers_lie_down(1, Fault::LooksWithoutFence);
}
