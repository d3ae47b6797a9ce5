//! The sleep protocol: a task pushed from outside is never left to sleepers, and at rest the counts are
//! exact.
//!
//! A worker that would park ends its thread instead and counts as asleep; after all threads have ended, the
//! unparked workers live on, one after the other. Then no task may be left, although some workers may be
//! *stuck* in the task they took: if a thread relies on a searcher, its task is run even if the searcher
//! finds something else.
//!
//! Actors: threads outside that push into the real injector; workers that run, search and sleep, one of them
//! in the driver (picked only if no other sleeps); a worker that pushes into its own ring. Jobs, workers that
//! wait for latches, and spare workers are in `idle_jobs.rs`.
//!
//! Bounds: up to three threads beside the main one, up to three workers, two tasks, rings of four slots.

mod twin;

use std::sync::Arc;

use loom::sync::atomic::Ordering::{AcqRel, SeqCst};
use loom::sync::atomic::{AtomicBool, fence};
use runtime::internals::queue::{Injector, Local};
use runtime::internals::scheduler::{Idle, Work};

use super::item::{Item, Items};
use super::once_built::{model, thread};
use twin::{Fault, Twin};

/// What the real protocol and its twins have in common.
trait Protocol: Send + Sync + 'static {
    fn start_searching(&self) -> bool;
    fn stop_searching(&self) -> bool;
    fn announce_sleep(&self, index: usize, is_searching: bool);
    fn cancel_sleep(&self, index: usize);
    fn end_sleep(&self, index: usize) -> bool;
    fn fence_push(&self);
    fn pick_sleeper(&self, avoided: Option<usize>) -> Option<usize>;
    fn counts(&self) -> (usize, usize);
    /// SearcherLook.
    fn looks_again(&self) -> bool {
        true
    }
}

macro_rules! forward {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        fn $name(&self, $($argument: $type),*) -> $result {
            Idle::$name(self, $($argument),*)
        }
    )*};
}

impl Protocol for Idle {
    forward! {
        start_searching() -> bool;
        stop_searching() -> bool;
        announce_sleep(index: usize, is_searching: bool) -> ();
        cancel_sleep(index: usize) -> ();
        end_sleep(index: usize) -> bool;
        fence_push() -> ();
        counts() -> (usize, usize);
    }

    fn pick_sleeper(&self, avoided: Option<usize>) -> Option<usize> {
        self.pick_for(Work::Task, avoided).unparks
    }
}

struct World<P> {
    idle: P,
    injector: Injector<Item>,
    rings: Vec<Local<Item>>,
    /// Set by unparking.
    tokens: Vec<AtomicBool>,
    items: Items,
    /// The poller.
    poller: Option<usize>,
    /// SleepLook looks in the rings too, not in the injector alone.
    looks_in_rings: bool,
}

/// How a worker ended.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Asleep,
    Stuck,
}

impl<P: Protocol> World<P> {
    fn new(idle: P, workers: usize, items: usize, poller: Option<usize>) -> Arc<Self> {
        Self::with(idle, workers, items, poller, true)
    }

    fn with(idle: P, workers: usize, items: usize, poller: Option<usize>, looks_in_rings: bool) -> Arc<Self> {
        Arc::new(Self {
            idle,
            injector: Injector::new(),
            rings: (0..workers).map(|_| Local::new()).collect(),
            tokens: (0..workers).map(|_| AtomicBool::new(false)).collect(),
            items: Items::new(items),
            poller,
            looks_in_rings,
        })
    }

    /// PushTask to UnparkSleeper by a thread outside.
    fn inject(&self, value: usize) {
        // SAFETY: each value is pushed once, and items live as long as `self`.
        unsafe { self.injector.push(self.items.make(value)) };
        self.idle.fence_push();
        self.notify();
    }

    fn notify(&self) {
        if let Some(index) = self.idle.pick_sleeper(self.poller) {
            self.tokens[index].swap(true, AcqRel);
        }
    }

    /// The owner of ring `own` pushes.
    fn push(&self, own: usize, value: usize) {
        // SAFETY: one thread at a time is the owner; each value is pushed once, and items live as long as
        // `self`.
        unsafe { self.rings[own].push_back(self.items.make(value), &self.injector) };
    }

    fn has_visible_work(&self, everywhere: bool) -> bool {
        !self.injector.is_empty() || everywhere && self.rings.iter().any(|ring| !ring.is_empty())
    }

    /// The life of a worker: what it took, and how it ended.
    fn live(&self, own: usize, begin: Begin) -> (Vec<usize>, End) {
        let most = match begin {
            Begin::Running(most) | Begin::Searching(most) => most,
            Begin::FallingAsleep | Begin::Asleep => FOR_EVER,
        };
        let mut is_searching = matches!(begin, Begin::Searching(_));
        let mut has_looked = matches!(begin, Begin::FallingAsleep | Begin::Asleep);
        let mut is_announced = matches!(begin, Begin::Asleep);
        let mut taken = Vec::new();
        loop {
            if !std::mem::take(&mut has_looked) {
                if let Some(value) = self.next(own, &mut is_searching) {
                    taken.push(value);
                    if std::mem::take(&mut is_searching) {
                        self.stop_searching();
                    }
                    if taken.len() == most {
                        return (taken, End::Stuck);
                    }
                    continue;
                }
            }
            if !std::mem::take(&mut is_announced) {
                self.idle.announce_sleep(own, std::mem::take(&mut is_searching));
                if self.has_visible_work(self.looks_in_rings) {
                    self.idle.cancel_sleep(own);
                    is_searching = true;
                    continue;
                }
            }
            if !self.tokens[own].swap(false, AcqRel) {
                return (taken, End::Asleep);
            }
            is_searching = !self.idle.end_sleep(own);
        }
    }

    fn stop_searching(&self) {
        if self.idle.stop_searching() && self.idle.looks_again() {
            fence(SeqCst);
            if self.has_visible_work(true) {
                self.notify();
            }
        }
    }

    fn next(&self, own: usize, is_searching: &mut bool) -> Option<usize> {
        // SAFETY: one thread at a time is the owner.
        let local = unsafe { self.rings[own].pop() };
        let found = local.or_else(|| self.injector.pop()).or_else(|| {
            if !*is_searching {
                *is_searching = self.idle.start_searching();
            }
            // SAFETY: as above.
            let steal =
                |victim: &Local<Item>| unsafe { victim.steal_into(&self.rings[own]).map(|(first, _)| first) };
            let others = (0..self.rings.len()).filter(|&victim| victim != own && *is_searching);
            others.map(|victim| &self.rings[victim]).find_map(steal)
        });
        found.map(|item| self.items.take(item))
    }

    /// After all threads have ended: the unparked workers live on, until all sleep or are stuck; then nothing
    /// may be left.
    fn settle(&self, ends: &mut [End], mut taken: Vec<usize>) {
        let mut sleeping = 0;
        while let Some(own) =
            (0..ends.len()).find(|&own| ends[own] == End::Asleep && self.tokens[own].swap(false, AcqRel))
        {
            let begin = match self.idle.end_sleep(own) {
                true => Begin::Running(FOR_EVER),
                false => Begin::Searching(FOR_EVER),
            };
            let (more, end) = self.live(own, begin);
            taken.extend(more);
            ends[own] = end;
        }
        sleeping += ends.iter().filter(|&&end| end == End::Asleep).count();
        if taken.len() < self.items.count() {
            assert!(self.injector.is_empty(), "a task is left in the injector to sleepers");
            assert!(!self.has_visible_work(true), "a task is left in a ring to sleepers");
        }
        self.items.assert_all(taken);
        assert_eq!(self.idle.counts(), (0, sleeping), "the counts are wrong at rest");
    }
}

/// How a worker of a model begins, and with how many tasks taken it gets stuck.
#[derive(Clone, Copy)]
enum Begin {
    Running(usize),
    /// Counted as a searcher.
    Searching(usize),
    /// Has looked everywhere but not begun with CountSleeper.
    FallingAsleep,
    /// Has done everything but SleepPark.
    Asleep,
}

const FOR_EVER: usize = usize::MAX;

/// Tasks `0..pushed` come from outside, one from the main thread and the others from a thread each; `before`
/// are there when the workers begin.
fn pushes_from_outside<P: Protocol, const N: usize>(
    protocol: impl Fn() -> P + Send + Sync + 'static,
    begins: [Begin; N],
    poller: Option<usize>,
    before: usize,
    pushed: usize,
) {
    model(move || {
        let world = World::new(protocol(), N, before + pushed, poller);
        for (index, begin) in begins.iter().enumerate() {
            match begin {
                Begin::Running(_) | Begin::FallingAsleep => {}
                Begin::Searching(_) => assert!(world.idle.start_searching()),
                Begin::Asleep => world.idle.announce_sleep(index, false),
            }
        }
        for value in 0..before {
            // SAFETY: as in `inject`.
            unsafe { world.injector.push(world.items.make(value)) };
        }
        let workers: Vec<_> = begins
            .iter()
            .copied()
            .enumerate()
            .map(|(own, begin)| {
                let world = world.clone();
                thread::spawn(move || world.live(own, begin))
            })
            .collect();
        let others: Vec<_> = (before + 1..before + pushed)
            .map(|value| {
                let world = world.clone();
                thread::spawn(move || world.inject(value))
            })
            .collect();
        world.inject(before);
        others.into_iter().for_each(|thread| thread.join().unwrap());
        let (mut taken, mut ends) = (Vec::new(), Vec::new());
        for worker in workers {
            let (values, end) = worker.join().unwrap();
            taken.extend(values);
            ends.push(end);
        }
        world.settle(&mut ends, taken);
    });
}

/// One worker falls asleep.
fn a_worker_falls_asleep<P: Protocol>(protocol: impl Fn() -> P + Send + Sync + 'static) {
    pushes_from_outside(protocol, [Begin::Running(FOR_EVER)], None, 0, 1);
}

/// One worker searches and falls asleep, and one sleeps already, in the driver.
fn a_searcher_and_a_sleeper<P: Protocol>(protocol: impl Fn() -> P + Send + Sync + 'static) {
    pushes_from_outside(protocol, [Begin::Asleep, Begin::Searching(FOR_EVER)], Some(0), 0, 1);
}

/// One worker searches and gets stuck in what it finds; the other sleeps.
fn a_searcher_finds_other_work<P: Protocol>(protocol: impl Fn() -> P + Send + Sync + 'static) {
    pushes_from_outside(protocol, [Begin::Searching(1), Begin::Asleep], None, 1, 1);
}

/// Two threads push while one worker falls asleep. The second pusher is itself a worker: it takes the first
/// task that it meets, pushes, and is stuck.
fn two_push_to_one_that_falls_asleep<P: Protocol>(protocol: impl Fn() -> P + Send + Sync + 'static) {
    model(move || {
        let world = World::new(protocol(), 2, 2, None);
        let sleepy = {
            let world = world.clone();
            thread::spawn(move || world.live(0, Begin::FallingAsleep))
        };
        let pusher = {
            let world = world.clone();
            thread::spawn(move || world.inject(0))
        };
        let stuck = {
            let world = world.clone();
            thread::spawn(move || {
                let taken = world.injector.pop().map(|item| world.items.take(item));
                // Costs no preemption.
                thread::yield_now();
                world.inject(1);
                taken
            })
        };
        pusher.join().unwrap();
        let mut taken: Vec<_> = stuck.join().unwrap().into_iter().collect();
        let (values, end) = sleepy.join().unwrap();
        taken.extend(values);
        world.settle(&mut [end], taken);
    });
}

/// A worker pushes into its own ring and notifies as for any local push; another searches, steals or sleeps.
/// The worker comes back to its ring itself; the counts are what may go wrong.
fn a_worker_shares<P: Protocol>(protocol: impl Fn() -> P + Send + Sync + 'static) {
    model(move || {
        let world = World::new(protocol(), 2, 2, Some(1));
        let helper = {
            let world = world.clone();
            thread::spawn(move || world.live(1, Begin::Running(FOR_EVER)))
        };
        world.push(0, 0);
        world.push(0, 1);
        world.notify();
        let (mut taken, end) = world.live(0, Begin::Running(FOR_EVER));
        let (values, other_end) = helper.join().unwrap();
        taken.extend(values);
        world.settle(&mut [end, other_end], taken);
    });
}

/// A worker makes a task visible and blocks, or is long at another task, so that it is like a thread outside.
/// No worker overlooks the task, neither in the injector nor in the worker's ring, unless SleepLook leaves
/// out the rings.
fn a_worker_blocks<P: Protocol>(
    protocol: impl Fn() -> P + Send + Sync + 'static,
    is_in_ring: bool,
    looks_in_rings: bool,
) {
    model(move || {
        let world = World::with(protocol(), 3, 2, None, looks_in_rings);
        assert!(world.idle.start_searching());
        // SAFETY: as in `inject`.
        unsafe { world.injector.push(world.items.make(0)) };
        let searcher = {
            let world = world.clone();
            thread::spawn(move || world.live(1, Begin::Searching(1)))
        };
        let other = {
            let world = world.clone();
            thread::spawn(move || world.live(2, Begin::Running(FOR_EVER)))
        };
        if is_in_ring {
            world.push(0, 1);
            world.idle.fence_push();
            world.notify();
        } else {
            world.inject(1);
        }
        let (mut taken, mut ends) = (Vec::new(), vec![End::Stuck]);
        for worker in [searcher, other] {
            let (values, end) = worker.join().unwrap();
            taken.extend(values);
            ends.push(end);
        }
        world.settle(&mut ends, taken);
    });
}

#[test]
fn a_push_is_not_missed_by_a_worker_that_falls_asleep() {
    a_worker_falls_asleep(|| Idle::new(1, 1));
}

#[test]
fn a_push_is_not_left_to_a_searcher_that_falls_asleep() {
    a_searcher_and_a_sleeper(|| Idle::new(2, 2));
}

#[test]
fn a_push_is_not_left_to_a_searcher_that_finds_other_work() {
    a_searcher_finds_other_work(|| Idle::new(2, 2));
}

#[test]
fn a_push_is_not_left_to_a_notifier_that_finds_no_sleeper() {
    two_push_to_one_that_falls_asleep(|| Idle::new(2, 2));
}

#[test]
fn two_workers_share_and_rest() {
    a_worker_shares(|| Idle::new(2, 2));
}

#[test]
fn what_a_blocked_worker_leaves_in_the_injector_is_found() {
    a_worker_blocks(|| Idle::new(2, 3), false, true);
}

#[test]
fn what_a_blocked_worker_leaves_in_its_ring_is_found() {
    a_worker_blocks(|| Idle::new(2, 3), true, true);
}

#[test]
#[should_panic(expected = "a task is left in a ring to sleepers")]
fn a_sleeper_that_looks_in_the_injector_alone() {
    a_worker_blocks(|| Idle::new(2, 3), true, false);
}

#[test]
fn a_twin_without_a_fault_passes() {
    a_worker_falls_asleep(|| Twin::new(1, Fault::None));
    a_searcher_and_a_sleeper(|| Twin::new(2, Fault::None));
    a_searcher_finds_other_work(|| Twin::new(2, Fault::None));
    two_push_to_one_that_falls_asleep(|| Twin::new(2, Fault::None));
    a_worker_shares(|| Twin::new(2, Fault::None));
}

/// A twin for each fault, and the model that must refuse it.
macro_rules! refused {
    ($($name:ident: $model:ident($workers:literal, $fault:ident), $text:literal;)*) => {$(
        #[test]
        #[should_panic(expected = $text)]
        fn $name() {
            $model(|| Twin::new($workers, Fault::$fault));
        }
    )*};
}

refused! {
    a_push_without_a_fence: a_worker_falls_asleep(1, PushesWithoutFence),
        "a task is left in the injector to sleepers";
    a_sleeper_without_a_fence: a_worker_falls_asleep(1, SleepsWithoutFence),
        "a task is left in the injector to sleepers";
    a_sleeper_that_looks_before_it_announces: a_worker_falls_asleep(1, LeavesCountLate),
        "a task is left in the injector to sleepers";
    a_searcher_that_finds_work_and_tells_nobody: a_searcher_finds_other_work(2, FindsQuietly),
        "a task is left in the injector to sleepers";
    a_notifier_that_gives_back_blindly: two_push_to_one_that_falls_asleep(2, GivesBackBlindly),
        "a task is left in the injector to sleepers";
    a_sleeper_that_is_counted_out_twice: a_searcher_and_a_sleeper(2, CountsOutTwice),
        "the counts are wrong at rest";
}
