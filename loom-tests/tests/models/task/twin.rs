//! The state word and a copy of it with at most one bug, behind one interface.

use loom::sync::atomic::AtomicUsize;
use loom::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed};
use runtime::internals::task::{AfterDetach, AfterPoll, AfterWake, Start, State};

/// The outcome of completing a task.
pub struct Completed {
    pub has_join_waker: bool,
    pub was_last: bool,
}

pub trait Word: Send + Sync + 'static {
    fn start_poll(&self) -> Start;
    fn finish_pending(&self) -> AfterPoll;
    fn wake(&self) -> bool;
    /// Wakes, and drops the waker's reference in the same step.
    fn wake_by_value(&self) -> AfterWake;
    fn cancel(&self) -> bool;
    /// `place` puts the output in its place, or drops it if there is no handle.
    fn complete(&self, place: impl FnMut(bool)) -> Completed;
    fn set_join_waker(&self) -> bool;
    fn detach(&self) -> AfterDetach;
    fn add_reference(&self);
    fn drop_reference(&self) -> bool;
}

impl Word for State {
    fn start_poll(&self) -> Start {
        State::start_poll(self)
    }

    fn finish_pending(&self) -> AfterPoll {
        State::finish_pending(self)
    }

    fn wake(&self) -> bool {
        self.wake_by_ref()
    }

    fn wake_by_value(&self) -> AfterWake {
        State::wake_by_value(self)
    }

    fn cancel(&self) -> bool {
        State::cancel(self)
    }

    fn complete(&self, mut place: impl FnMut(bool)) -> Completed {
        let mut now = self.load();
        loop {
            place(now.has_join());
            match self.try_complete(now, 0) {
                Ok(was_last) => return Completed { has_join_waker: now.has_join_waker(), was_last },
                Err(actual) => now = actual,
            }
        }
    }

    fn set_join_waker(&self) -> bool {
        State::set_join_waker(self)
    }

    fn detach(&self) -> AfterDetach {
        State::detach(self)
    }

    fn add_reference(&self) {
        State::add_reference(self);
    }

    fn drop_reference(&self) -> bool {
        State::drop_reference(self)
    }
}

/// The bug that was put back.
#[derive(Clone, Copy, PartialEq)]
pub enum Fault {
    None,
    WakeForgetsScheduled,
    WakeOnlyLooks,
    WakeIsRelaxed,
    StartIsRelaxed,
    PendingStores,
    PendingIsRelaxed,
    CancelTakesScheduled,
    CompletesBlindly,
    CompletesRelaxed,
    DetachesBlindly,
    DropIsRelaxed,
    /// A wake by value does not see that the task is being polled.
    ByValueForgetsScheduled,
    ByValueIsRelaxed,
    /// A wake by value that drops the last reference frees nothing.
    ByValueForgetsLast,
}

const SCHEDULED: usize = 1 << 0;
const NOTIFIED: usize = 1 << 1;
const DONE: usize = 1 << 2;
const CANCELLED: usize = 1 << 3;
const JOIN: usize = 1 << 4;
const JOIN_WAKER: usize = 1 << 5;
const REFERENCE: usize = 1 << 6;

pub struct Twin {
    word: AtomicUsize,
    fault: Fault,
}

impl Twin {
    pub fn new(fault: Fault) -> Self {
        Self { word: AtomicUsize::new(SCHEDULED | JOIN | (2 * REFERENCE)), fault }
    }

    /// `weak` if the bug is `fault`, else `strong`.
    fn unless(&self, fault: Fault, strong: Ordering, weak: Ordering) -> Ordering {
        if self.fault == fault { weak } else { strong }
    }

    fn update<R>(&self, success: Ordering, mut f: impl FnMut(usize) -> Option<(usize, R)>) -> Option<R> {
        let mut now = self.word.load(Acquire);
        loop {
            let (next, result) = f(now)?;
            match self.word.compare_exchange(now, next, success, Acquire) {
                Ok(_) => return Some(result),
                Err(actual) => now = actual,
            }
        }
    }
}

impl Word for Twin {
    fn start_poll(&self) -> Start {
        let mut now = self.word.load(self.unless(Fault::StartIsRelaxed, Acquire, Relaxed));
        if now & NOTIFIED != 0 {
            now = self.word.fetch_and(!NOTIFIED, self.unless(Fault::StartIsRelaxed, AcqRel, Relaxed));
        }
        if now & CANCELLED != 0 { Start::Cancel } else { Start::Poll }
    }

    fn finish_pending(&self) -> AfterPoll {
        if self.fault == Fault::PendingStores {
            let now = self.word.load(Acquire);
            if now & NOTIFIED == 0 {
                self.word.store(now & !SCHEDULED, Ordering::Release);
                return AfterPoll::Idle;
            }
        }
        let success = self.unless(Fault::PendingIsRelaxed, AcqRel, Relaxed);
        self.update(success, |now| match () {
            _ if now & (CANCELLED | NOTIFIED) != 0 => None,
            _ => Some((now & !SCHEDULED, AfterPoll::Idle)),
        })
        .unwrap_or_else(|| match self.word.load(Acquire) & CANCELLED {
            0 => AfterPoll::Requeue,
            _ => AfterPoll::Cancel,
        })
    }

    fn wake(&self) -> bool {
        let success = self.unless(Fault::WakeIsRelaxed, AcqRel, Relaxed);
        self.update(success, |now| match () {
            _ if now & DONE != 0 => None,
            _ if now & SCHEDULED != 0 && self.fault == Fault::WakeForgetsScheduled => None,
            _ if now & NOTIFIED != 0 && self.fault == Fault::WakeOnlyLooks => None,
            _ if now & SCHEDULED != 0 => Some((now | NOTIFIED, false)),
            _ => Some((now | SCHEDULED, true)),
        })
        .unwrap_or(false)
    }

    fn wake_by_value(&self) -> AfterWake {
        let success = self.unless(Fault::ByValueIsRelaxed, AcqRel, Relaxed);
        self.update(success, |now| {
            let less = now - REFERENCE;
            let is_last = less < REFERENCE && self.fault != Fault::ByValueForgetsLast;
            let notified = if self.fault == Fault::ByValueForgetsScheduled { 0 } else { NOTIFIED };
            Some(match () {
                _ if now & DONE != 0 && is_last => (less, AfterWake::Free),
                _ if now & DONE != 0 => (less, AfterWake::Nothing),
                _ if now & SCHEDULED != 0 => (less | notified, AfterWake::Nothing),
                _ => (less | SCHEDULED, AfterWake::Schedule),
            })
        })
        .expect("the update always has a next value")
    }

    fn cancel(&self) -> bool {
        self.update(AcqRel, |now| match () {
            _ if now & (DONE | CANCELLED) != 0 => None,
            _ if self.fault == Fault::CancelTakesScheduled => Some((now | CANCELLED | SCHEDULED, true)),
            _ => Some((now | CANCELLED | SCHEDULED, now & SCHEDULED == 0)),
        })
        .unwrap_or(false)
    }

    fn complete(&self, mut place: impl FnMut(bool)) -> Completed {
        let mut now = self.word.load(Acquire);
        loop {
            place(now & JOIN != 0);
            let has_join_waker = now & JOIN_WAKER != 0;
            let next = |now: usize| {
                (now & !(SCHEDULED | NOTIFIED) | DONE) - if has_join_waker { 0 } else { REFERENCE }
            };
            let success = self.unless(Fault::CompletesRelaxed, AcqRel, Relaxed);
            if self.fault == Fault::CompletesBlindly {
                let after = self.update(success, |now| Some((next(now), next(now)))).unwrap();
                return Completed { has_join_waker, was_last: after < REFERENCE };
            }
            match self.word.compare_exchange(now, next(now), success, Acquire) {
                Ok(_) => return Completed { has_join_waker, was_last: next(now) < REFERENCE },
                Err(actual) => now = actual,
            }
        }
    }

    fn set_join_waker(&self) -> bool {
        self.update(AcqRel, |now| (now & DONE == 0).then_some((now | JOIN_WAKER, ()))).is_some()
    }

    fn detach(&self) -> AfterDetach {
        self.update(AcqRel, |now| {
            if now & DONE != 0 && self.fault != Fault::DetachesBlindly {
                return None;
            }
            let next = now & !(JOIN | JOIN_WAKER);
            Some(match now & JOIN_WAKER {
                0 => (next - REFERENCE, AfterDetach::Nothing),
                _ => (next, AfterDetach::DropWaker),
            })
        })
        .unwrap_or(AfterDetach::DropOutput)
    }

    fn add_reference(&self) {
        self.word.fetch_add(REFERENCE, Relaxed);
    }

    fn drop_reference(&self) -> bool {
        let order = self.unless(Fault::DropIsRelaxed, AcqRel, Relaxed);
        self.word.fetch_sub(REFERENCE, order) < 2 * REFERENCE
    }
}
