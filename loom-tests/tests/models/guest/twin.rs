//! A small copy of the loan, with at most one bug in it.

use loom::sync::Mutex;
use loom::sync::atomic::AtomicBool;
use loom::sync::atomic::Ordering::Relaxed;
use loom::thread;
use runtime::internals::scheduler::{Idle, Risen};

use super::Lending;

/// The bug that was put back.
#[derive(Clone, Copy, PartialEq)]
pub enum Fault {
    None,
    /// L2 takes the seat also if a notifier has cleared the owner's bit.
    LendsWhoWasNotified,
    /// L2 lets the lock go between the instances.
    LendsWithoutLock,
    /// O4 takes the seat whoever has it.
    RisesWithSeat,
    /// L5 says OFFERED also if a notifier has cleared the owner's bit.
    ReturnsWhoWasNotified,
    /// O6 does not take the lock.
    NoticesByHint,
    /// O2 sleeps on in the other instance though the seat is back.
    LiesDownReturned,
    /// L2 and L5 leave the owner where it is.
    StaysInInstance,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Kept,
    Offered,
    Asleep,
    Awake,
    Returned,
}

pub struct Twin {
    state: Mutex<State>,
    is_lent: AtomicBool,
    is_returned: AtomicBool,
    fault: Fault,
}

impl Twin {
    pub fn new(fault: Fault) -> Self {
        Self {
            state: Mutex::new(State::Kept),
            is_lent: AtomicBool::new(false),
            is_returned: AtomicBool::new(false),
            fault,
        }
    }
}

impl Lending for Twin {
    fn is_lent(&self) -> bool {
        self.is_lent.load(Relaxed)
    }

    fn lie_down(&self) -> bool {
        let mut state = self.state.lock().unwrap();
        *state = match *state {
            State::Awake => State::Asleep,
            State::Returned if self.fault == Fault::LiesDownReturned => State::Offered,
            State::Returned => return false,
            _ => State::Offered,
        };
        true
    }

    fn rise(&self) -> Risen {
        let mut state = self.state.lock().unwrap();
        let (next, risen) = match *state {
            State::Asleep if self.fault == Fault::RisesWithSeat => (State::Kept, Risen::Kept),
            State::Asleep => (State::Awake, Risen::Lent),
            State::Returned => (State::Kept, Risen::Returned),
            _ => (State::Kept, Risen::Kept),
        };
        self.is_returned.store(false, Relaxed);
        *state = next;
        risen
    }

    fn notice(&self) -> bool {
        if !self.is_returned.load(Relaxed) {
            return false;
        }
        self.is_returned.store(false, Relaxed);
        if self.fault != Fault::NoticesByHint {
            *self.state.lock().unwrap() = State::Kept;
        }
        true
    }

    fn lend(&self, seats: &Idle, reliefs: &Idle) -> bool {
        let mut state = self.state.lock().unwrap();
        if *state != State::Offered {
            return false;
        }
        if self.fault != Fault::StaysInInstance {
            let was_asleep = seats.end_sleep(0);
            if !was_asleep && self.fault != Fault::LendsWhoWasNotified {
                return false;
            }
            if self.fault == Fault::LendsWithoutLock {
                *state = State::Asleep;
                drop(state);
                thread::yield_now();
                reliefs.announce_sleep(0, false);
                self.is_lent.store(true, Relaxed);
                return true;
            }
            reliefs.announce_sleep(0, false);
        }
        *state = State::Asleep;
        self.is_lent.store(true, Relaxed);
        true
    }

    fn give_back(&self, seats: &Idle, reliefs: &Idle) -> bool {
        let mut state = self.state.lock().unwrap();
        self.is_lent.store(false, Relaxed);
        if *state == State::Asleep {
            if self.fault == Fault::StaysInInstance {
                *state = State::Offered;
                return true;
            }
            if reliefs.end_sleep(0) || self.fault == Fault::ReturnsWhoWasNotified {
                seats.announce_sleep(0, false);
                *state = State::Offered;
                return true;
            }
        }
        *state = State::Returned;
        self.is_returned.store(true, Relaxed);
        false
    }
}
