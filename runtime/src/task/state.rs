//! The state word of a task: which thread may poll it, which may touch its output, and when its memory is
//! freed.
//!
//! ```text
//!                wake, abort                 Pending
//!   IDLE ───────────────────▶ SCHEDULED ───────────────▶ IDLE
//!                              │  ▲   │
//!          NOTIFIED or yielded └──┘   │ Ready, panic, cancel
//!            while it was polled      ▼
//!                                    DONE
//! ```
//! - `SCHEDULED`: a queue or a thread owns the right to poll. The task is in exactly one queue or is being
//!   polled. A newborn task is `SCHEDULED`, so its first poll needs no transition.
//! - `NOTIFIED`: woken while `SCHEDULED`, but not by its own poll. The thread that takes the task from a
//!   queue clears it; the end of a poll looks at it.
//! - `CANCELLED`: the task is to be dropped instead of polled, at the next occasion.
//! - `DONE`: the future is gone; the output is there or was dropped. Set once, by the owner of `SCHEDULED`.
//! - `JOIN`: a `JoinHandle` exists; the output belongs to it once `DONE` is set.
//! - `JOIN_WAKER`: the join waker is set and, until `DONE`, untouched; with `DONE` it belongs to the
//!   completer.
//! - The rest of the word counts references: one for the life of the task (dropped with `DONE`), one for the
//!   handle, one for each `Waker` and `AbortHandle`, and the task's [reserved references](super::reserved).
//!
//! **Queues hold no reference.** A cell lives at least until `DONE`. Only the owner of `SCHEDULED` sets
//! `DONE`, and a queue owns `SCHEDULED` of its tasks. So a queued pointer is valid. The thread that pushed it
//! must not touch the cell afterwards, because the task may have been polled and freed.
//!
//! **Every wake happens before the poll it causes.** A wake is a read-modify-write (TaskWake), even if it
//! changes nothing: a load would not order the waker's earlier writes before the poll. The poll that follows
//! begins with TaskPollStart (the queue's acquire, then a load or read-modify-write of the word) and ends
//! with TaskPollEnd (a compare-and-swap). If TaskWake comes before TaskPollEnd in the word's modification
//! order, TaskPollEnd fails or sees `NOTIFIED`, and the task is polled again after acquiring TaskWake's
//! release. If TaskWake comes after TaskPollEnd, TaskWake finds `IDLE`, and its thread becomes the owner and
//! pushes. Then the queue's release and acquire order TaskWake before the next TaskPollStart. One wake needs
//! no TaskWake: a wake by reference of the task that the calling thread is polling. Its poll ends with a
//! requeue, as for a task that yields, and the queue orders what the poll wrote.
//!
//! **The output** is written before the release of `DONE` and read after an acquire of it. **Freeing**: each
//! reference is dropped with a release, and the thread that drops the last one acquires. So all uses happen
//! before the memory is freed.
//!
//! Source: the design of 2019's Tokio scheduler, less the reference that a queue entry held there.

use std::fmt;

use crate::loom::sync::atomic::AtomicUsize;
use crate::loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use crate::util::unwind::abort;

const SCHEDULED: usize = 1 << 0;
const NOTIFIED: usize = 1 << 1;
const DONE: usize = 1 << 2;
const CANCELLED: usize = 1 << 3;
const JOIN: usize = 1 << 4;
const JOIN_WAKER: usize = 1 << 5;
const REFERENCE: usize = 1 << 6;

/// The state of a newborn task: its spawner is about to queue it, and gets the handle.
const INITIAL: usize = SCHEDULED | JOIN | (2 * REFERENCE);

/// The state word. Only its methods change it.
pub struct State(AtomicUsize);

/// One value of the state word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Snapshot(usize);

/// What the owner of `SCHEDULED` does with a task that it took from a queue.
#[derive(Debug, PartialEq, Eq)]
pub enum Start {
    Poll,
    Cancel,
}

/// What becomes of a task whose poll returned `Pending`.
#[derive(Debug, PartialEq, Eq)]
pub enum AfterPoll {
    /// It waits for a wake. The caller must not touch the cell any more.
    Idle,
    /// It was woken meanwhile: it is still `SCHEDULED`, and the caller queues it.
    Requeue,
    /// It was cancelled meanwhile: it is still `SCHEDULED`, and the caller drops it.
    Cancel,
}

/// What a wake leaves to its caller, after it has given up its reference.
#[derive(Debug, PartialEq, Eq)]
pub enum AfterWake {
    Nothing,
    /// The caller owns `SCHEDULED` and must queue the task.
    Schedule,
    /// The reference was the last one.
    Free,
}

/// What the drop of the `JoinHandle` has to do.
#[derive(Debug, PartialEq, Eq)]
pub enum AfterDetach {
    Nothing,
    /// The waker is the handle's again: drop it, then the reference.
    DropWaker,
    /// The output is the handle's: drop it, then the reference.
    DropOutput,
}

impl State {
    /// The state of a newborn task, with `more` references besides those for its life and its handle.
    pub fn with_references(more: usize) -> Self {
        Self(AtomicUsize::new(INITIAL + more * REFERENCE))
    }

    /// `Acquire`: a thread that sees `DONE` may read the output.
    #[inline]
    pub fn load(&self) -> Snapshot {
        Snapshot(self.0.load(Acquire))
    }

    /// TaskPollStart: the owner of `SCHEDULED` begins a poll.
    #[inline]
    pub fn start_poll(&self) -> Start {
        let mut now = self.load();
        debug_assert!(now.is_scheduled() && !now.is_done(), "polled a task that was not scheduled: {now:?}");
        if now.0 & NOTIFIED != 0 {
            // AcqRel: acquires the wakes since the task was queued; they need no poll of their own.
            now = Snapshot(self.0.fetch_and(!NOTIFIED, AcqRel));
        }
        if now.is_cancelled() { Start::Cancel } else { Start::Poll }
    }

    /// TaskPollEnd: the poll returned `Pending`.
    #[inline]
    pub fn finish_pending(&self) -> AfterPoll {
        let mut now = self.load();
        loop {
            if now.is_cancelled() {
                return AfterPoll::Cancel;
            }
            if now.0 & NOTIFIED != 0 {
                return AfterPoll::Requeue;
            }
            // Release: the next poller, by way of a wake, sees what this poll wrote. Acquire if it fails, as
            // in `load`: the future's destructor sees what came before an abort. (The next poll acquires the
            // wakes itself.)
            match self.0.compare_exchange(now.0, now.0 & !SCHEDULED, AcqRel, Acquire) {
                Ok(_) => return AfterPoll::Idle,
                Err(actual) => now = Snapshot(actual),
            }
        }
    }

    /// TaskWake: returns true if the caller became the owner of `SCHEDULED`; then it must queue the task.
    #[inline]
    pub fn wake_by_ref(&self) -> bool {
        self.update(|now| match () {
            _ if now.is_done() => None,
            _ if now.is_scheduled() => Some((now.0 | NOTIFIED, false)),
            _ => Some((now.0 | SCHEDULED, true)),
        })
        .unwrap_or(false)
    }

    /// TaskWake, and drops the waker's reference in the same step. For the runtime's own threads. After this,
    /// the cell is guaranteed to live only while the caller owns `SCHEDULED`, and so is what the cell keeps
    /// alive.
    #[inline]
    pub fn wake_by_value(&self) -> AfterWake {
        self.update(|now| {
            let less = now.0 - REFERENCE;
            Some(match () {
                _ if now.is_done() && less < REFERENCE => (less, AfterWake::Free),
                _ if now.is_done() => (less, AfterWake::Nothing),
                _ if now.is_scheduled() => (less | NOTIFIED, AfterWake::Nothing),
                _ => (less | SCHEDULED, AfterWake::Schedule),
            })
        })
        .expect("the update always has a next value")
    }

    /// Asks for cancellation. Returns true if the task waited for a wake: then the caller became the owner of
    /// `SCHEDULED`, and must queue or cancel the task. The owner of any other task cancels it.
    pub fn cancel(&self) -> bool {
        self.update(|now| match () {
            _ if now.is_done() || now.is_cancelled() => None,
            _ if now.is_scheduled() => Some((now.0 | CANCELLED, false)),
            _ => Some((now.0 | CANCELLED | SCHEDULED, true)),
        })
        .unwrap_or(false)
    }

    /// The owner of `SCHEDULED` ends the task. The output is in place, or is gone if `seen` has no `JOIN`.
    ///
    /// `reserved` references are dropped in the same step. So is the life's reference, unless `JOIN_WAKER` is
    /// set. `Ok` says whether the last reference was dropped. `Err` carries the value that differs from
    /// `seen`, and the caller decides again.
    #[inline]
    pub fn try_complete(&self, seen: Snapshot, reserved: usize) -> Result<bool, Snapshot> {
        debug_assert!(seen.is_scheduled() && !seen.is_done(), "completed twice: {seen:?}");
        debug_assert!(seen.references() > reserved, "{reserved} reserved: {seen:?}");
        let mut next = ((seen.0 & !(SCHEDULED | NOTIFIED)) | DONE) - reserved * REFERENCE;
        if !seen.has_join_waker() {
            next -= REFERENCE;
        }
        // Release: publishes the output. Acquire: the join waker; and all uses of the cell, if this drops the
        // last reference. Relaxed if it fails: the thread that gave its handle up left nothing to read, and
        // the attempt that succeeds acquires the rest.
        match self.0.compare_exchange(seen.0, next, AcqRel, Relaxed) {
            Ok(_) => Ok(next < REFERENCE),
            Err(actual) => Err(Snapshot(actual)),
        }
    }

    /// The handle has written its waker. Fails if the task is `DONE`.
    #[inline]
    pub fn set_join_waker(&self) -> bool {
        self.update(|now| {
            debug_assert!(!now.has_join_waker());
            (!now.is_done()).then_some((now.0 | JOIN_WAKER, true))
        })
        .unwrap_or(false)
    }

    /// The handle wants its waker back. Fails if the task is `DONE`: then the waker is the completer's.
    pub fn unset_join_waker(&self) -> bool {
        self.update(|now| (!now.is_done()).then_some((now.0 & !JOIN_WAKER, true))).unwrap_or(false)
    }

    /// The handle goes. If the answer is `Nothing`, its reference is dropped here; otherwise the caller drops
    /// it afterwards.
    ///
    /// While `DONE` is unset, the life's reference keeps the cell, so `Nothing` never means "last".
    #[inline]
    pub fn detach(&self) -> AfterDetach {
        self.update(|now| {
            if now.is_done() {
                return None;
            }
            let next = now.0 & !(JOIN | JOIN_WAKER);
            Some(match now.has_join_waker() {
                true => (next, AfterDetach::DropWaker),
                false => (next - REFERENCE, AfterDetach::Nothing),
            })
        })
        .unwrap_or(AfterDetach::DropOutput)
    }

    /// Takes another reference; the caller has one.
    #[inline]
    pub fn add_reference(&self) {
        self.add_references(1);
    }

    /// Takes `count` references; the caller has one.
    #[inline]
    pub fn add_references(&self, count: usize) {
        // Relaxed: the caller's own reference keeps the cell, and passing the new references on orders their
        // uses.
        let before = self.0.fetch_add(count * REFERENCE, Relaxed);
        if before > usize::MAX / 2 {
            abort("more than 2^57 references to one task");
        }
    }

    /// Drops `count` references; the caller has one more.
    pub fn drop_references(&self, count: usize) {
        if count > 0 {
            // AcqRel: as in `drop_reference`.
            let before = self.0.fetch_sub(count * REFERENCE, AcqRel);
            debug_assert!(before / REFERENCE > count, "the caller's own reference stays");
        }
    }

    /// Drops a reference. Returns true if it was the last; then the caller frees the cell.
    #[inline]
    pub fn drop_reference(&self) -> bool {
        // The sole owner needs no read-modify-write, because no other thread can change the word. Acquire:
        // all uses of the cell.
        if self.0.load(Acquire) < 2 * REFERENCE {
            return true;
        }
        self.0.fetch_sub(REFERENCE, AcqRel) < 2 * REFERENCE
    }

    /// Replaces the word by the result of `f`, unless that is `None`. AcqRel: every transition publishes what
    /// came before it, and sees what came before the transitions that it follows. Acquire also if the result
    /// is `None`: the handle may find `DONE` here, and touch the output.
    #[inline]
    fn update<R>(&self, mut f: impl FnMut(Snapshot) -> Option<(usize, R)>) -> Option<R> {
        let mut now = self.load();
        loop {
            let (next, result) = f(now)?;
            match self.0.compare_exchange(now.0, next, AcqRel, Acquire) {
                Ok(_) => return Some(result),
                Err(actual) => now = Snapshot(actual),
            }
        }
    }
}

impl Snapshot {
    pub fn is_scheduled(self) -> bool {
        self.0 & SCHEDULED != 0
    }

    pub fn is_done(self) -> bool {
        self.0 & DONE != 0
    }

    #[inline]
    pub fn is_cancelled(self) -> bool {
        self.0 & CANCELLED != 0
    }

    pub fn has_join(self) -> bool {
        self.0 & JOIN != 0
    }

    pub fn has_join_waker(self) -> bool {
        self.0 & JOIN_WAKER != 0
    }

    pub fn references(self) -> usize {
        self.0 / REFERENCE
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 6] = ["SCHEDULED", "NOTIFIED", "DONE", "CANCELLED", "JOIN", "JOIN_WAKER"];
        for (bit, name) in NAMES.iter().enumerate() {
            if self.0 & (1 << bit) != 0 {
                write!(f, "{name} ")?;
            }
        }
        write!(f, "references={}", self.references())
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Snapshot(self.0.load(Relaxed)).fmt(f)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
