//! A copy of the queue, with at most one bug.

use std::collections::VecDeque;

use loom::sync::Mutex;

use super::{Next, PendingWake, Protocol, Refused};

/// The bug that was put back.
#[derive(Clone, Copy, PartialEq)]
pub enum Fault {
    None,
    /// `TakeClosure` without `Choose`: the chain of wakes is broken.
    FetchesNobody,
    /// `LeavePool` for a thread that counts as coming.
    LeavesThoughChosen,
    /// `TakeLock` leaves the thread among the idle ones.
    LeavesItsPlace,
    /// The lock is released and taken again just before `BecomeIdle`.
    SleepsLate,
    /// `TakeLock` leaves the mark of the coming thread if no closure is there.
    ComesForEver,
    /// `StartRefused` without `IdleInstead`.
    RefusedQuietly,
    /// `StartRefused` leaves the mark of the coming thread.
    RefusedForEver,
    /// `NewArrives` takes a closure.
    TakesToHook,
    /// `ChooseIdle` wakes no thread while as many threads are starting as closures wait.
    ReliesOnHook,
    /// `StartRefused` of a helper leaves the number of starting threads.
    StartsForEver,
}

pub struct Twin {
    state: Mutex<PoolState>,
    fault: Fault,
}

struct PoolState {
    closures: VecDeque<usize>,
    most: usize,
    threads: usize,
    starting: usize,
    idle: Vec<usize>,
    is_coming: bool,
    /// Whether each thread was chosen and has not come.
    chosen: Vec<bool>,
    /// Whether each thread has been to `TakeLock`.
    has_begun: Vec<bool>,
    /// The closures that threads took along to the hook.
    held: Vec<usize>,
    relies_on_hook: bool,
}

impl Twin {
    pub fn new(most: usize, fault: Fault) -> Self {
        let state = PoolState {
            closures: VecDeque::new(),
            most,
            threads: 0,
            starting: 0,
            idle: Vec::new(),
            is_coming: false,
            chosen: vec![false; most + 1],
            has_begun: vec![false; most + 1],
            held: Vec::new(),
            relies_on_hook: fault == Fault::ReliesOnHook,
        };
        Self { state: Mutex::new(state), fault }
    }

    fn take(&self, state: &mut PoolState) -> Option<(usize, PendingWake)> {
        let closure = state.closures.pop_front()?;
        let pending = match self.fault {
            Fault::FetchesNobody => PendingWake::Nothing,
            _ => state.choose(),
        };
        Some((closure, pending))
    }

    fn came(&self, state: &mut PoolState) {
        if self.fault != Fault::ComesForEver || !state.closures.is_empty() {
            state.is_coming = false;
        }
    }
}

impl PoolState {
    fn choose(&mut self) -> PendingWake {
        if self.is_coming || self.closures.is_empty() {
            return PendingWake::Nothing;
        }
        let has_enough = self.closures.len() <= self.starting;
        if self.relies_on_hook && has_enough {
            return PendingWake::Nothing;
        }
        if let Some(index) = self.idle.pop() {
            self.chosen[index] = true;
            self.is_coming = true;
            return PendingWake::Wake(index);
        }
        if !has_enough && self.threads < self.most {
            self.threads += 1;
            self.is_coming = true;
            return PendingWake::Start;
        }
        PendingWake::Nothing
    }
}

impl Protocol for Twin {
    fn submit(&self, closure: usize) -> PendingWake {
        let mut state = self.state.lock().unwrap();
        state.closures.push_back(closure);
        state.choose()
    }

    fn arrive(&self) -> PendingWake {
        let mut state = self.state.lock().unwrap();
        self.came(&mut state);
        state.starting += 1;
        if self.fault == Fault::TakesToHook {
            let held = state.closures.pop_front();
            state.held.extend(held);
        }
        state.choose()
    }

    fn next(&self, own: usize, is_overdue: bool) -> Next {
        let mut state = self.state.lock().unwrap();
        if self.fault == Fault::LeavesThoughChosen && is_overdue {
            state.idle.retain(|&other| other != own);
            state.threads -= 1;
            return Next::Leave;
        }
        if !std::mem::replace(&mut state.has_begun[own], true) {
            state.starting -= 1;
            if let Some(closure) = state.held.pop() {
                return Next::Run(closure, state.choose());
            }
        }
        let was_idle = state.idle.contains(&own);
        if std::mem::take(&mut state.chosen[own]) {
            self.came(&mut state);
        }
        if self.fault != Fault::LeavesItsPlace {
            state.idle.retain(|&other| other != own);
        }
        if let Some((closure, pending)) = self.take(&mut state) {
            return Next::Run(closure, pending);
        }
        if is_overdue && was_idle {
            state.threads -= 1;
            return Next::Leave;
        }
        if self.fault == Fault::SleepsLate {
            drop(state);
            state = self.state.lock().unwrap();
        }
        state.idle.push(own);
        Next::Sleep
    }

    fn refused(&self, refused: Refused) -> (PendingWake, Vec<usize>) {
        let mut state = self.state.lock().unwrap();
        match refused {
            Refused::Coming => state.is_coming = self.fault == Fault::RefusedForEver,
            Refused::Starting => state.starting -= usize::from(self.fault != Fault::StartsForEver),
        }
        state.threads -= 1;
        if state.threads == 0 {
            return (PendingWake::Nothing, state.closures.drain(..).collect());
        }
        let most = std::mem::replace(&mut state.most, 0);
        let pending = match self.fault {
            Fault::RefusedQuietly => PendingWake::Nothing,
            _ => state.choose(),
        };
        state.most = most;
        (pending, Vec::new())
    }

    fn counts(&self) -> (usize, usize, usize) {
        let state = self.state.lock().unwrap();
        (state.threads, state.idle.len(), state.closures.len())
    }
}
