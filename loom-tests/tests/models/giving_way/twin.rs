//! A copy of G1 to G4 and D1 to D3, and of a relief thread's way to its rest, with at most one bug.

use std::sync::Arc;

use loom::sync::Mutex;
use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use loom::sync::atomic::{AtomicBool, AtomicUsize, fence};
use loom::thread;

/// The bug that was put back.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fault {
    None,
    /// Givers are not counted in `needed`.
    CountsNoGivers,
    /// D1 looks at the givers, and takes them out, without the lock.
    TakesOutWithoutLock,
    /// G1 after G2.
    EntersLate,
    /// G2 relies on a relief thread that sleeps.
    ReliesOnSleeper,
    /// A relief thread falls asleep beside one that gives way.
    SleepsBesideGivers,
    /// A relief thread retires without looking again.
    RetiresQuietly,
}

/// Where the relief thread is.
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
    /// A bit for each seat. Under the lock, but for the one fault.
    givers: AtomicUsize,
    tasks: AtomicUsize,
    /// The relief thread stands among the sleepers.
    is_asleep: AtomicBool,
    /// Tokens.
    relief: AtomicBool,
    ways: [AtomicBool; 2],
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
            givers: AtomicUsize::new(0),
            tasks: AtomicUsize::new(0),
            is_asleep: AtomicBool::new(!is_resting),
            relief: AtomicBool::new(false),
            ways: [AtomicBool::new(false), AtomicBool::new(false)],
            fault,
        })
    }

    /// A seat has a task and comes to a split point. Says whether it gives way.
    fn give_way(&self, index: usize) -> bool {
        self.tasks.fetch_add(1, AcqRel);
        let relies = {
            let mut state = self.state.lock().unwrap();
            if self.fault != Fault::EntersLate {
                self.enter(index);
            }
            let is_resting = std::mem::take(&mut state.is_resting);
            if is_resting {
                state.active += 1;
                self.relief.swap(true, AcqRel);
            }
            !is_resting
        };
        if self.fault == Fault::EntersLate {
            let _state = self.state.lock().unwrap();
            self.enter(index);
        }
        if relies && self.fault != Fault::ReliesOnSleeper {
            // P2 to P6.
            fence(SeqCst);
            if self.is_asleep.load(Relaxed) && self.is_asleep.swap(false, AcqRel) {
                self.relief.swap(true, AcqRel);
            }
        }
        true
    }

    fn enter(&self, index: usize) {
        self.givers.store(self.givers.load(Relaxed) | 1 << index, Relaxed);
    }

    /// D1, D2.
    fn end_all(&self) {
        let givers = {
            let guard = (self.fault != Fault::TakesOutWithoutLock).then(|| self.state.lock().unwrap());
            let givers = self.givers.load(Acquire);
            self.givers.store(0, Relaxed);
            drop(guard);
            givers
        };
        for index in (0..2).filter(|index| givers & 1 << index != 0) {
            self.ways[index].swap(true, AcqRel);
        }
    }

    fn take_task(&self) -> bool {
        self.tasks.fetch_update(AcqRel, Acquire, |tasks| tasks.checked_sub(1)).is_ok()
    }

    /// D3: says whether the relief thread rests.
    fn retires(&self) -> bool {
        {
            let mut state = self.state.lock().unwrap();
            let givers = self.givers.load(Relaxed).count_ones() as usize;
            let givers = if self.fault == Fault::CountsNoGivers { 0 } else { givers };
            if state.active <= state.blocked + givers {
                return false;
            }
            state.active -= 1;
            state.is_resting = true;
        }
        if self.fault != Fault::RetiresQuietly && self.tasks.load(Acquire) > 0 {
            let mut state = self.state.lock().unwrap();
            if std::mem::take(&mut state.is_resting) {
                state.active += 1;
                return false;
            }
        }
        true
    }

    /// The relief thread's life, awake or where it ended last.
    fn live(&self, mut end: Option<End>) -> End {
        loop {
            if let Some(asleep) = end.take() {
                if !self.relief.swap(false, AcqRel) {
                    return asleep;
                }
                self.is_asleep.swap(false, AcqRel);
            }
            while self.take_task() {}
            self.end_all();
            if self.retires() {
                end = Some(End::Resting);
                continue;
            }
            // W1 to W4.
            self.is_asleep.swap(true, AcqRel);
            fence(SeqCst);
            let has_givers = self.givers.load(Relaxed) != 0 && self.fault != Fault::SleepsBesideGivers;
            if self.tasks.load(Relaxed) > 0 || has_givers {
                self.is_asleep.swap(false, AcqRel);
            } else {
                end = Some(End::Asleep);
            }
        }
    }
}

/// Both seats give way, once each, to a relief thread.
fn two_seats_give_way(fault: Fault, begin: End) {
    loom::model(move || {
        let world = World::new(fault, begin);
        let relief = {
            let world = world.clone();
            thread::spawn(move || world.live(Some(begin)))
        };
        let other = {
            let world = world.clone();
            thread::spawn(move || world.give_way(1))
        };
        let mut gives_way = [world.give_way(0), false];
        gives_way[1] = other.join().unwrap();
        let end = relief.join().unwrap();
        world.live(Some(end));
        assert_eq!(world.tasks.load(Acquire), 0, "a task waits, and the relief thread sleeps");
        for (index, way) in world.ways.iter().enumerate() {
            assert!(!gives_way[index] || way.load(Acquire), "a seat sleeps for ever");
        }
        let state = world.state.lock().unwrap();
        assert_eq!(state.active + usize::from(state.is_resting), 1, "the relief thread was lost");
    });
}

#[test]
fn a_twin_without_a_fault_passes() {
    two_seats_give_way(Fault::None, End::Resting);
    two_seats_give_way(Fault::None, End::Asleep);
}

/// A twin for each fault.
macro_rules! refused {
    ($($name:ident: $fault:ident, $begin:ident;)*) => {$(
        #[test]
        #[should_panic]
        fn $name() {
            two_seats_give_way(Fault::$fault, End::$begin);
        }
    )*};
}

refused! {
    givers_that_are_not_counted: CountsNoGivers, Resting;
    givers_taken_out_without_the_lock: TakesOutWithoutLock, Resting;
    a_giver_that_enters_late: EntersLate, Resting;
    a_giver_that_relies_on_a_sleeper: ReliesOnSleeper, Asleep;
    relief_that_sleeps_beside_givers: SleepsBesideGivers, Resting;
    relief_that_retires_quietly: RetiresQuietly, Resting;
}
