//! A copy of the crew, with at most one bug.

use std::collections::VecDeque;

use loom::sync::Mutex;

use super::{Errand, Next, Protocol};

/// The bug that was put back.
#[derive(Clone, Copy, PartialEq)]
pub enum Fault {
    None,
    /// T2 without C: the chain of wakes is broken.
    FetchesNobody,
    /// T4 for a thread that counts as coming.
    LeavesThoughChosen,
    /// T1 leaves the thread among the idle ones.
    LeavesItsPlace,
    /// The lock is released and taken again just before T5.
    LiesDownLate,
    /// T1 leaves the mark of the coming thread if no closure is there.
    ComesForEver,
    /// R1 without R3.
    RefusedQuietly,
    /// R1 leaves the mark of the coming thread.
    RefusedForEver,
    /// N1 takes a closure.
    TakesToHook,
    /// C2 wakes no thread while as many threads are starting as closures wait.
    ReliesOnHook,
}

pub struct Twin {
    state: Mutex<State>,
    fault: Fault,
}

struct State {
    closures: VecDeque<usize>,
    most: usize,
    threads: usize,
    starting: usize,
    idle: Vec<usize>,
    is_coming: bool,
    /// Whether each thread was chosen and has not come.
    chosen: Vec<bool>,
    /// Whether each thread has been to T1.
    has_begun: Vec<bool>,
    /// The closures that threads took along to the hook.
    held: Vec<usize>,
    relies_on_hook: bool,
}

impl Twin {
    pub fn new(most: usize, fault: Fault) -> Self {
        let state = State {
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

    fn take(&self, state: &mut State) -> Option<(usize, Errand)> {
        let closure = state.closures.pop_front()?;
        let errand = match self.fault {
            Fault::FetchesNobody => Errand::Nothing,
            _ => state.choose(),
        };
        Some((closure, errand))
    }

    fn came(&self, state: &mut State) {
        if self.fault != Fault::ComesForEver || !state.closures.is_empty() {
            state.is_coming = false;
        }
    }
}

impl State {
    fn choose(&mut self) -> Errand {
        if self.is_coming || self.closures.is_empty() {
            return Errand::Nothing;
        }
        let has_enough = self.closures.len() <= self.starting;
        if self.relies_on_hook && has_enough {
            return Errand::Nothing;
        }
        if let Some(index) = self.idle.pop() {
            self.chosen[index] = true;
            self.is_coming = true;
            return Errand::Wake(index);
        }
        if !has_enough && self.threads < self.most {
            self.threads += 1;
            self.is_coming = true;
            return Errand::Start;
        }
        Errand::Nothing
    }
}

impl Protocol for Twin {
    fn submit(&self, closure: usize) -> Errand {
        let mut state = self.state.lock().unwrap();
        state.closures.push_back(closure);
        state.choose()
    }

    fn arrive(&self) -> Errand {
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
        if let Some((closure, errand)) = self.take(&mut state) {
            return Next::Run(closure, errand);
        }
        if is_overdue && was_idle {
            state.threads -= 1;
            return Next::Leave;
        }
        if self.fault == Fault::LiesDownLate {
            drop(state);
            state = self.state.lock().unwrap();
        }
        state.idle.push(own);
        Next::Sleep
    }

    fn refused(&self) -> (Errand, Vec<usize>) {
        let mut state = self.state.lock().unwrap();
        state.is_coming = self.fault == Fault::RefusedForEver;
        state.threads -= 1;
        if state.threads == 0 {
            return (Errand::Nothing, state.closures.drain(..).collect());
        }
        let most = std::mem::replace(&mut state.most, 0);
        let errand = match self.fault {
            Fault::RefusedQuietly => Errand::Nothing,
            _ => state.choose(),
        };
        state.most = most;
        (errand, Vec::new())
    }

    fn counts(&self) -> (usize, usize, usize) {
        let state = self.state.lock().unwrap();
        (state.threads, state.idle.len(), state.closures.len())
    }
}
