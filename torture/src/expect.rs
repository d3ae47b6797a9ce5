//! The predicted result of a program: each operation's value, the panics in which it may end, and how often
//! it begins.

use crate::program::*;

/// Fills the facts of a program.
pub fn fill(program: &mut Program) {
    let mut facts = std::mem::take(&mut program.facts);
    let mut filler = Filler { facts: &mut facts, lost: Vec::new() };
    filler.step(&program.root, true);
    program.outside.iter().for_each(|call| _ = filler.call(call, true));
    program.facts = facts;
}

/// Whether a call panics if nothing cuts it short. For a tree whose facts are not filled yet.
pub fn panics_of_call(call: &Call) -> bool {
    match &call.op {
        CallOp::Panic => true,
        CallOp::Catch(_) | CallOp::Thread { .. } | CallOp::Detached { .. } | CallOp::Task { .. } => false,
        CallOp::Barriers { .. } | CallOp::Crowd { .. } => false,
        CallOp::Spin(_) | CallOp::Block(_) | CallOp::Yield { .. } => false,
        CallOp::UntilEnd { .. } | CallOp::Close(_) | CallOp::Set { .. } => false,
        CallOp::Seq(calls) => calls.iter().any(panics_of_call),
        CallOp::Join { a, b, .. } => panics_of_call(a) || panics_of_call(b),
        CallOp::Scope { jobs, body, .. } => panics_of_call(body) || jobs.iter().any(|job| panics_of_job(job)),
        CallOp::Guarded { body, .. } => panics_of_call(body),
        CallOp::Guards { jobs, body, .. } => {
            panics_of_call(body) || jobs.iter().any(|job| panics_of_call(job))
        }
        CallOp::Isolated(body) | CallOp::InPlace(body) | CallOp::Blocking(body) => panics_of_call(body),
        CallOp::Local(body) | CallOp::Borrow(body) | CallOp::Locked { body, .. } => panics_of_call(body),
        CallOp::Pause(body) => panics_of_call(body),
        CallOp::Install(_, body) | CallOp::Broadcast { body, .. } => panics_of_call(body),
        CallOp::OwnPool { body, .. } | CallOp::Meet { body, .. } => panics_of_call(body),
        CallOp::BlockOn { body, .. } | CallOp::Levels { body, .. } => panics_of_step(body),
        CallOp::Nested { body, early, .. } => !early && panics_of_step(body),
    }
}

fn panics_of_job(job: &Job) -> bool {
    panics_of_call(&job.body) || job.more.iter().any(|job| panics_of_job(job))
}

fn panics_of_step(step: &Async) -> bool {
    match &step.op {
        AsyncOp::Panic => true,
        AsyncOp::Seq(steps) => steps.iter().any(panics_of_step),
        AsyncOp::Endless { body, .. } => panics_of_step(body),
        AsyncOp::Pause { body, .. } => panics_of_step(body),
        AsyncOp::InPlace(body) | AsyncOp::Here(body) => panics_of_call(body),
        AsyncOp::Hold { body, .. } | AsyncOp::Odd { body, .. } | AsyncOp::Local(body) => panics_of_step(body),
        _ => false,
    }
}

/// What came of an operation: its value, or the panics that it ends in.
type Outcome = (u64, Vec<Id>);

struct Filler<'a> {
    facts: &'a mut Vec<Fact>,
    /// Panics that a `join` may lose: those of its second closure, if its first closure may panic, too. Only
    /// those in the part of the present computation that has been filled so far.
    lost: Vec<Id>,
}

impl Filler<'_> {
    /// Stores an operation's outcome in its fact, and returns it.
    fn note(&mut self, id: Id, is_reached: bool, outcome: Outcome, any_panics: Vec<Id>) -> Outcome {
        let fact = &mut self.facts[id];
        (fact.value, fact.panics) = outcome.clone();
        fact.any_panics = any_panics;
        fact.least = if fact.certain && is_reached { fact.most } else { 0 };
        if !is_reached {
            fact.most = 0;
        }
        outcome
    }

    fn any(&self, ids: impl IntoIterator<Item = Id>) -> Vec<Id> {
        let mut all: Vec<_> = ids.into_iter().flat_map(|id| self.facts[id].any_panics.clone()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Mixes into `value` the outcome of a part whose panic is caught where the part is awaited.
    fn caught(&self, id: Id, value: u64, outcome: &Outcome) -> u64 {
        let own = if outcome.1.is_empty() { outcome.0 } else { 1 };
        mix(mix(id as u64, value), own)
    }

    /// Calls `fill`, which fills a part outside of the present computation. Returns the panics that it may
    /// lose.
    fn apart(&mut self, fill: impl FnOnce(&mut Self)) -> Vec<Id> {
        let around = std::mem::take(&mut self.lost);
        fill(self);
        std::mem::replace(&mut self.lost, around)
    }

    fn steps(&mut self, id: Id, steps: &[Async], mut is_reached: bool) -> Outcome {
        let (mut value, mut panics) = (id as u64, Vec::new());
        for step in steps {
            let outcome = self.step(step, is_reached);
            if is_reached {
                value = mix(value, outcome.0);
                if !outcome.1.is_empty() {
                    panics = outcome.1;
                    is_reached = false;
                }
            }
        }
        (value, panics)
    }

    fn step(&mut self, step: &Async, is_reached: bool) -> Outcome {
        let id = step.id;
        let value = id as u64;
        let plain = (value, Vec::new());
        let mut any = Vec::new();
        let outcome = match &step.op {
            AsyncOp::Seq(steps) => {
                let outcome = self.steps(id, steps, is_reached);
                any = self.any(steps.iter().map(|step| step.id));
                outcome
            }
            AsyncOp::Panic => {
                any = vec![id];
                (value, vec![id])
            }
            AsyncOp::Yield(_) | AsyncOp::Sleep(_) | AsyncOp::Spin(_) | AsyncOp::Block(_) => plain,
            AsyncOp::Echo { .. } | AsyncOp::Foreign { .. } | AsyncOp::Close(_) => plain,
            AsyncOp::UntilEnd | AsyncOp::Deadlock | AsyncOp::Twins { .. } | AsyncOp::Drops { .. } => plain,
            AsyncOp::Spawn { body, .. } | AsyncOp::Many { body, .. } => {
                self.apart(|filler| _ = filler.step(body, is_reached));
                plain
            }
            AsyncOp::Blocking { body, .. } => {
                self.apart(|filler| _ = filler.call(body, is_reached));
                plain
            }
            AsyncOp::Compute { body, .. } => {
                let lost = self.apart(|filler| _ = filler.call(body, is_reached));
                self.facts[body.id].lost_panics = lost;
                plain
            }
            AsyncOp::Nested { body, .. } | AsyncOp::Pipe { body, .. } => {
                self.apart(|filler| _ = filler.step(body, is_reached));
                plain
            }
            AsyncOp::Timeout(_, body) => {
                self.step(body, is_reached);
                plain
            }
            AsyncOp::Both(branches) => {
                let mut value = value;
                for branch in branches {
                    let outcome = self.step(branch, is_reached);
                    value = self.caught(id, value, &outcome);
                }
                (value, Vec::new())
            }
            AsyncOp::Select(branches) => {
                branches.iter().for_each(|branch| _ = self.step(branch, is_reached));
                plain
            }
            AsyncOp::Gate { opener, waiter, .. } => {
                self.apart(|filler| _ = filler.step(opener, is_reached));
                let lost = self.apart(|filler| _ = filler.step(waiter, is_reached));
                self.facts[waiter.id].lost_panics = lost;
                plain
            }
            // Its body lies in another kind of pointer than those below.
            AsyncOp::Endless { body, .. } => {
                let (inner, panics) = self.step(body, is_reached);
                any = self.any([body.id]);
                (mix(value, inner), panics)
            }
            AsyncOp::Hold { body, .. }
            | AsyncOp::Odd { body, .. }
            | AsyncOp::Local(body)
            | AsyncOp::Pause { body, .. } => {
                let (inner, panics) = self.step(body, is_reached);
                any = self.any([body.id]);
                (mix(value, inner), panics)
            }
            AsyncOp::InPlace(body) | AsyncOp::Here(body) => {
                let (inner, panics) = self.call(body, is_reached);
                any = self.any([body.id]);
                (mix(value, inner), panics)
            }
        };
        self.note(id, is_reached, outcome, any)
    }

    fn job(&mut self, job: &Job, is_reached: bool, panics: &mut Vec<Id>, any: &mut Vec<Id>) {
        panics.extend(self.call(&job.body, is_reached).1);
        any.extend(self.facts[job.body.id].any_panics.clone());
        job.more.iter().for_each(|job| self.job(job, is_reached, panics, any));
    }

    fn call(&mut self, call: &Call, is_reached: bool) -> Outcome {
        let id = call.id;
        let value = id as u64;
        let plain = (value, Vec::new());
        let mut any = Vec::new();
        let outcome = match &call.op {
            CallOp::Seq(calls) => {
                let (mut value, mut panics, mut is_reached) = (value, Vec::new(), is_reached);
                for call in calls {
                    let outcome = self.call(call, is_reached);
                    if is_reached {
                        value = mix(value, outcome.0);
                        if !outcome.1.is_empty() {
                            panics = outcome.1;
                            is_reached = false;
                        }
                    }
                }
                any = self.any(calls.iter().map(|call| call.id));
                (value, panics)
            }
            CallOp::Panic => {
                any = vec![id];
                (value, vec![id])
            }
            CallOp::Spin(_) | CallOp::Block(_) | CallOp::Yield { .. } => plain,
            CallOp::UntilEnd { .. } | CallOp::Close(_) | CallOp::Set { .. } => plain,
            CallOp::Catch(body) => {
                let outcome = self.call(body, is_reached);
                (self.caught(id, value, &outcome), Vec::new())
            }
            CallOp::Thread { body, .. } | CallOp::Detached { body, .. } | CallOp::Barriers { body, .. } => {
                self.apart(|filler| _ = filler.call(body, is_reached));
                plain
            }
            CallOp::Task { body, .. } | CallOp::Crowd { body, .. } => {
                self.apart(|filler| _ = filler.step(body, is_reached));
                plain
            }
            CallOp::Join { a, b, .. } => {
                let (value_a, panics_a) = self.call(a, is_reached);
                let (value_b, panics_b) = self.call(b, is_reached);
                any = self.any([a.id, b.id]);
                if !self.facts[a.id].any_panics.is_empty() {
                    self.lost.extend(self.any([b.id]));
                }
                let panics = if panics_a.is_empty() { panics_b } else { panics_a };
                (mix(mix(value, value_a), value_b), panics)
            }
            CallOp::Scope { jobs, body, .. } => {
                let (inner, mut panics) = self.call(body, is_reached);
                any = self.any([body.id]);
                jobs.iter().for_each(|job| self.job(job, is_reached, &mut panics, &mut any));
                (mix(value, inner), panics)
            }
            CallOp::Guarded { body, end } => {
                let outcome = self.through(id, body, is_reached, &mut any);
                self.call(end, is_reached);
                outcome
            }
            CallOp::Guards { jobs, body, .. } => {
                let (inner, mut panics) = self.call(body, is_reached);
                for job in jobs {
                    panics.extend(self.call(job, is_reached).1);
                }
                any = self.any(jobs.iter().chain([body]).map(|call| call.id));
                (mix(value, inner), panics)
            }
            CallOp::Isolated(body) | CallOp::InPlace(body) | CallOp::Blocking(body) => {
                self.through(id, body, is_reached, &mut any)
            }
            CallOp::Local(body) | CallOp::Borrow(body) | CallOp::Locked { body, .. } => {
                self.through(id, body, is_reached, &mut any)
            }
            CallOp::Install(_, body) | CallOp::Broadcast { body, .. } => {
                self.through(id, body, is_reached, &mut any)
            }
            CallOp::Pause(body) => self.through(id, body, is_reached, &mut any),
            CallOp::OwnPool { body, .. } | CallOp::Meet { body, .. } => {
                self.through(id, body, is_reached, &mut any)
            }
            CallOp::BlockOn { body, .. } | CallOp::Levels { body, .. } => {
                let (inner, panics) = self.step(body, is_reached);
                any = self.any([body.id]);
                (mix(value, inner), panics)
            }
            CallOp::Nested { body, early, .. } => {
                let (inner, panics) = self.step(body, is_reached);
                if *early {
                    plain
                } else {
                    any = self.any([body.id]);
                    (mix(value, inner), panics)
                }
            }
        };
        self.note(id, is_reached, outcome, any)
    }

    /// Fills a call whose outcome is its body's: the same panics, and the body's value mixed with its own id.
    fn through(&mut self, id: Id, body: &Call, is_reached: bool, any: &mut Vec<Id>) -> Outcome {
        let (inner, panics) = self.call(body, is_reached);
        *any = self.any([body.id]);
        (mix(id as u64, inner), panics)
    }
}
