//! A copy of the monitor's `Relieve` and `Dismiss` (`monitor/mod.rs`), of `Admit`, and of a spare worker's
//! way to its rest (`away/mod.rs`), with at most one bug.
//!
//! Bounds: one stalled worker, one spare worker, two tasks, two looks of the monitor and two at the end.

use std::sync::Arc;

use loom::sync::Mutex;
use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use loom::sync::atomic::{AtomicBool, AtomicUsize, fence};

use crate::models::once_built::{model, thread};

/// The bug that was put back.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fault {
    None,
    /// Stalled workers are not counted in `needed`.
    CountsNoStalled,
    /// A thread counts itself as active when it begins; its starter does not count it.
    CountsLate,
    /// A resting spare worker is unparked first, and taken out of the list then.
    UnparksEarly,
    /// `Dismiss` is left out.
    DismissesNobody,
    /// A spare worker that goes to rest is not counted out.
    RestsCounted,
}

/// Where the spare worker is.
#[derive(Clone, Copy, PartialEq, Debug)]
enum End {
    NotStarted,
    /// As a worker, in its sleep protocol.
    Asleep,
    Resting,
}

#[derive(Default)]
struct State {
    stalled: usize,
    active: usize,
    is_resting: bool,
    started: usize,
}

struct World {
    state: Mutex<State>,
    tasks: AtomicUsize,
    /// The spare worker stands among the sleepers.
    is_asleep: AtomicBool,
    token: AtomicBool,
    fault: Fault,
}

impl World {
    fn new(fault: Fault, begin: End) -> Arc<Self> {
        let state = State {
            is_resting: begin == End::Resting,
            started: usize::from(begin == End::Resting),
            ..State::default()
        };
        Arc::new(Self {
            state: Mutex::new(state),
            tasks: AtomicUsize::new(1),
            is_asleep: AtomicBool::new(false),
            token: AtomicBool::new(false),
            fault,
        })
    }

    fn needed(&self, state: &State) -> usize {
        if self.fault == Fault::CountsNoStalled { 0 } else { state.stalled }
    }

    /// `Relieve`: as many workers as `stalled` are stalled now. Returns whether a thread has to be started.
    fn relieve(&self, stalled: usize) -> bool {
        let is_waiting = self.tasks.load(Acquire) > 0;
        if stalled > 0 && is_waiting && self.is_asleep.load(Relaxed) {
            self.notify();
            return false;
        }
        let mut state = self.state.lock().unwrap();
        state.stalled = stalled;
        let is_called = is_waiting && state.active < self.needed(&state);
        if is_called && state.is_resting {
            if self.fault == Fault::UnparksEarly {
                self.token.swap(true, AcqRel);
                drop(state);
                thread::yield_now();
                state = self.state.lock().unwrap();
            }
            state.is_resting = false;
            state.active += 1;
            if self.fault != Fault::UnparksEarly {
                self.token.swap(true, AcqRel);
            }
            return false;
        }
        if is_called {
            state.started += 1;
            state.active += usize::from(self.fault != Fault::CountsLate);
        }
        is_called
    }

    /// `Dismiss`.
    fn dismiss(&self) {
        if self.fault == Fault::DismissesNobody {
            return;
        }
        if self.is_asleep.load(Relaxed) {
            let is_surplus = {
                let state = self.state.lock().unwrap();
                state.active > self.needed(&state)
            };
            if is_surplus {
                self.notify();
            }
        }
    }

    /// PushFence to UnparkSleeper.
    fn notify(&self) {
        fence(SeqCst);
        if self.is_asleep.load(Relaxed) && self.is_asleep.swap(false, AcqRel) {
            self.token.swap(true, AcqRel);
        }
    }

    fn push(&self) {
        self.tasks.fetch_add(1, AcqRel);
        self.notify();
    }

    fn take_task(&self) -> bool {
        self.tasks.fetch_update(AcqRel, Acquire, |tasks| tasks.checked_sub(1)).is_ok()
    }

    /// Returns whether the spare worker rests.
    fn rests(&self) -> bool {
        {
            let mut state = self.state.lock().unwrap();
            if state.active <= self.needed(&state) {
                return false;
            }
            state.active -= usize::from(self.fault != Fault::RestsCounted);
            state.is_resting = true;
        }
        if self.tasks.load(Acquire) > 0 {
            let mut state = self.state.lock().unwrap();
            if std::mem::take(&mut state.is_resting) {
                state.active += 1;
                return false;
            }
        }
        true
    }

    /// The spare worker's life, from where it was last.
    fn live(&self, begin: End) -> End {
        let mut end = Some(begin);
        loop {
            match end.take() {
                Some(End::NotStarted) if self.fault == Fault::CountsLate => {
                    self.state.lock().unwrap().active += 1;
                }
                Some(End::NotStarted) | None => {}
                Some(asleep) if !self.token.swap(false, AcqRel) => return asleep,
                Some(End::Resting) if self.state.lock().unwrap().is_resting => {
                    end = Some(End::Resting);
                    continue;
                }
                Some(_) => _ = self.is_asleep.swap(false, AcqRel),
            }
            while self.take_task() {}
            if self.rests() {
                end = Some(End::Resting);
                continue;
            }
            // CountSleeper to SleepLook.
            self.is_asleep.swap(true, AcqRel);
            fence(SeqCst);
            if self.tasks.load(Relaxed) > 0 {
                self.is_asleep.swap(false, AcqRel);
            } else {
                end = Some(End::Asleep);
            }
        }
    }
}

/// A worker is stalled with a task behind it, another task comes, and the monitor looks. At last the worker
/// is back. By then the spare worker has run both tasks; afterwards it rests.
fn a_worker_is_stalled(fault: Fault, begin: End) {
    model(move || {
        let world = World::new(fault, begin);
        let live = |begin: End| {
            let world = world.clone();
            thread::spawn(move || world.live(begin))
        };
        let mut spare = (begin == End::Resting).then(|| live(begin));
        let outside = {
            let world = world.clone();
            thread::spawn(move || world.push())
        };
        for _ in 0..2 {
            if world.relieve(1) && spare.is_none() {
                spare = Some(live(End::NotStarted));
            }
        }
        outside.join().unwrap();
        assert!(world.state.lock().unwrap().started <= 1, "more threads were started than are needed");
        let mut end = spare.expect("a thread is started for a stalled worker").join().unwrap();
        // The next look, while the worker is stalled.
        world.relieve(1);
        end = world.live(end);
        assert_eq!(world.tasks.load(Acquire), 0, "a task waits behind a stalled worker");
        // And when it is back.
        world.relieve(0);
        world.dismiss();
        end = world.live(end);
        let state = world.state.lock().unwrap();
        assert_eq!(end, End::Resting, "the spare worker does not rest");
        assert_eq!((state.active, state.is_resting), (0, true), "the spare worker was lost");
    });
}

#[test]
fn a_twin_without_a_fault_passes() {
    a_worker_is_stalled(Fault::None, End::NotStarted);
    a_worker_is_stalled(Fault::None, End::Resting);
}

/// A twin for each fault, and what the model says of it.
macro_rules! refused {
    ($($name:ident: $fault:ident, $begin:ident, $text:literal;)*) => {$(
        #[test]
        #[should_panic(expected = $text)]
        fn $name() {
            a_worker_is_stalled(Fault::$fault, End::$begin);
        }
    )*};
}

refused! {
    stalled_workers_that_are_not_counted: CountsNoStalled, NotStarted,
        "a thread is started for a stalled worker";
    a_thread_that_counts_itself: CountsLate, NotStarted, "more threads were started than are needed";
    a_call_that_unparks_early: UnparksEarly, Resting, "a task waits behind a stalled worker";
    a_surplus_that_is_not_dismissed: DismissesNobody, NotStarted, "the spare worker does not rest";
    a_thread_that_rests_and_is_counted: RestsCounted, NotStarted, "the spare worker was lost";
}
