//! A copy of `Yield`, `CallSpare`, `TasksDone` and `WakeYielding` of `split.rs`, and of a spare worker's way
//! to its rest, with at most one bug.

use std::sync::Arc;

use loom::sync::Mutex;
use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use loom::sync::atomic::{AtomicBool, AtomicUsize, fence};

use crate::models::once_built::{model, thread};

/// The bug that was put back.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fault {
    None,
    /// The workers that yield are not counted in `needed`.
    CountsNobody,
    /// `TasksDone` looks at the workers that yield, and takes them out, without the lock.
    TakesOutWithoutLock,
    /// `Yield` after `CallSpare`.
    EntersLate,
    /// `CallSpare` relies on a spare worker that sleeps.
    ReliesOnSleeper,
    /// A spare worker falls asleep beside a worker that yields.
    SleepsBesideYielding,
    /// A spare worker goes to rest without looking again.
    RestsQuietly,
}

/// Where the spare worker is.
#[derive(Clone, Copy, PartialEq, Debug)]
enum End {
    /// As a worker, in its sleep protocol.
    Asleep,
    Resting,
}

struct State {
    active: usize,
    is_resting: bool,
    blocked: usize,
}

struct World {
    state: Mutex<State>,
    /// A bit for each worker. Under the lock, but for the one fault.
    yielding: AtomicUsize,
    tasks: AtomicUsize,
    /// The spare worker stands among the sleepers.
    is_asleep: AtomicBool,
    /// Tokens.
    spare: AtomicBool,
    yield_tokens: [AtomicBool; 2],
    fault: Fault,
}

impl World {
    fn new(fault: Fault, begin: End) -> Arc<Self> {
        let is_resting = begin == End::Resting;
        Arc::new(Self {
            state: Mutex::new(State {
                active: usize::from(!is_resting),
                is_resting,
                blocked: usize::from(!is_resting),
            }),
            yielding: AtomicUsize::new(0),
            tasks: AtomicUsize::new(0),
            is_asleep: AtomicBool::new(!is_resting),
            spare: AtomicBool::new(false),
            yield_tokens: [AtomicBool::new(false), AtomicBool::new(false)],
            fault,
        })
    }

    /// A worker has a task and comes to a split point. Returns whether it yields.
    fn begin_yield(&self, index: usize) -> bool {
        self.tasks.fetch_add(1, AcqRel);
        let relies = {
            let mut state = self.state.lock().unwrap();
            if self.fault != Fault::EntersLate {
                self.enter(index);
            }
            let is_resting = std::mem::take(&mut state.is_resting);
            if is_resting {
                state.active += 1;
                self.spare.swap(true, AcqRel);
            }
            !is_resting
        };
        if self.fault == Fault::EntersLate {
            let _state = self.state.lock().unwrap();
            self.enter(index);
        }
        if relies && self.fault != Fault::ReliesOnSleeper {
            // PushFence to UnparkSleeper.
            fence(SeqCst);
            if self.is_asleep.load(Relaxed) && self.is_asleep.swap(false, AcqRel) {
                self.spare.swap(true, AcqRel);
            }
        }
        true
    }

    fn enter(&self, index: usize) {
        self.yielding.store(self.yielding.load(Relaxed) | 1 << index, Relaxed);
    }

    /// `TasksDone`, `WakeYielding`.
    fn end_all(&self) {
        let yielding = {
            let guard = (self.fault != Fault::TakesOutWithoutLock).then(|| self.state.lock().unwrap());
            let yielding = self.yielding.load(Acquire);
            self.yielding.store(0, Relaxed);
            drop(guard);
            yielding
        };
        for index in (0..2).filter(|index| yielding & 1 << index != 0) {
            self.yield_tokens[index].swap(true, AcqRel);
        }
    }

    fn take_task(&self) -> bool {
        self.tasks.fetch_update(AcqRel, Acquire, |tasks| tasks.checked_sub(1)).is_ok()
    }

    /// Returns whether the spare worker rests.
    fn rests(&self) -> bool {
        {
            let mut state = self.state.lock().unwrap();
            let yielding = self.yielding.load(Relaxed).count_ones() as usize;
            let yielding = if self.fault == Fault::CountsNobody { 0 } else { yielding };
            if state.active <= state.blocked + yielding {
                return false;
            }
            state.active -= 1;
            state.is_resting = true;
        }
        if self.fault != Fault::RestsQuietly && self.tasks.load(Acquire) > 0 {
            let mut state = self.state.lock().unwrap();
            if std::mem::take(&mut state.is_resting) {
                state.active += 1;
                return false;
            }
        }
        true
    }

    /// The spare worker's life, awake or where it ended last.
    fn live(&self, mut end: Option<End>) -> End {
        loop {
            if let Some(asleep) = end.take() {
                if !self.spare.swap(false, AcqRel) {
                    return asleep;
                }
                self.is_asleep.swap(false, AcqRel);
            }
            while self.take_task() {}
            self.end_all();
            if self.rests() {
                end = Some(End::Resting);
                continue;
            }
            // CountSleeper to SleepLook.
            self.is_asleep.swap(true, AcqRel);
            fence(SeqCst);
            let has_yielding = self.yielding.load(Relaxed) != 0 && self.fault != Fault::SleepsBesideYielding;
            if self.tasks.load(Relaxed) > 0 || has_yielding {
                self.is_asleep.swap(false, AcqRel);
            } else {
                end = Some(End::Asleep);
            }
        }
    }
}

/// Both workers yield, once each, to a spare one.
fn two_workers_yield(fault: Fault, begin: End) {
    model(move || {
        let world = World::new(fault, begin);
        let spare = {
            let world = world.clone();
            thread::spawn(move || world.live(Some(begin)))
        };
        let other = {
            let world = world.clone();
            thread::spawn(move || world.begin_yield(1))
        };
        let mut yields = [world.begin_yield(0), false];
        yields[1] = other.join().unwrap();
        let end = spare.join().unwrap();
        world.live(Some(end));
        assert_eq!(world.tasks.load(Acquire), 0, "a task waits, and the spare worker sleeps");
        for (index, token) in world.yield_tokens.iter().enumerate() {
            assert!(!yields[index] || token.load(Acquire), "a worker sleeps for ever");
        }
        let state = world.state.lock().unwrap();
        assert_eq!(state.active + usize::from(state.is_resting), 1, "the spare worker was lost");
    });
}

#[test]
fn a_twin_without_a_fault_passes() {
    two_workers_yield(Fault::None, End::Resting);
    two_workers_yield(Fault::None, End::Asleep);
}

/// A twin for each fault.
macro_rules! refused {
    ($($name:ident: $fault:ident, $begin:ident, $text:literal;)*) => {$(
        #[test]
        #[should_panic(expected = $text)]
        fn $name() {
            two_workers_yield(Fault::$fault, End::$begin);
        }
    )*};
}

refused! {
    workers_that_yield_and_are_not_counted: CountsNobody, Resting, "a worker sleeps for ever";
    workers_taken_out_without_the_lock: TakesOutWithoutLock, Resting, "a worker sleeps for ever";
    a_worker_that_enters_late: EntersLate, Resting, "a worker sleeps for ever";
    a_worker_that_relies_on_a_sleeper: ReliesOnSleeper, Asleep, "a task waits, and the spare worker sleeps";
    a_spare_worker_that_sleeps_beside_others_that_yield: SleepsBesideYielding, Resting,
        "a worker sleeps for ever";
    relief_that_rests_quietly: RestsQuietly, Resting, "a task waits, and the spare worker sleeps";
}
