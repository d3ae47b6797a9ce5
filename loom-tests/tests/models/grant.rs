//! The publish budget of `scheduler/jobs/publish.rs`: the owner counts it down by load and store, and
//! thieves make it zero. The owner may overwrite a zero. Still no budget is longer than it was set. A thief
//! that finds the owner between two pushes ends the budget at once. So a thief that asks again and again is
//! heard.
//!
//! A thread that cancels the computation ends the budget, even a budget that is just being set
//! (`parallel/cancel.rs`).
//!
//! The budget is real in two models. A real deque of a model has space for a budget of one push. The copy,
//! and its twins, have a budget of three pushes.
//!
//! Bounds: one budget, one thief that asks twice, or one thread that cancels. With three preemptions loom
//! lets the owner read a value that the owner itself has overwritten, which Rust's memory model forbids: once
//! another thread has read a store, loom no longer orders it before the later stores of its own thread. So
//! `a_grant_is_no_longer_than_was_granted` holds with two preemptions, and fails with three.

use std::mem::MaybeUninit;
use std::ptr::{NonNull, null};
use std::sync::Arc;

use loom::sync::atomic::Ordering::{Relaxed, SeqCst};
use loom::sync::atomic::{AtomicBool, AtomicI32, fence};
use runtime::internals::job::{Question, Region, SpinLatch, StackJob, Tag};
use runtime::internals::scheduler::{JobProcessor, OwnJobs};
use runtime::internals::task::Runnable;

use super::once_built::{model, thread};
use super::stage::Stage;

/// The bug that was put back.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// The owner looks first, and then counts down by a read-modify-write, perhaps below a thief's zero.
    CountsBlindly,
    /// The owner remembers what is left.
    Remembers,
    /// The thief asks only if it has seen no thread ask.
    AsksOnce,
    /// The thread that cancels ends the budgets first.
    MarksLate,
    /// `CancelFence` is missing.
    EndsUnfenced,
    /// `BudgetFence` is missing.
    GrantsUnfenced,
    /// The owner asks before it sets the budget.
    AsksEarly,
}

const GRANTED: i32 = 3;

struct Grant {
    left: AtomicI32,
    is_cancelled: AtomicBool,
    fault: Fault,
}

/// What the owner has: the budget, and its own memory of it.
struct Owner {
    grant: Arc<Grant>,
    remembered: i32,
}

impl Grant {
    fn new(fault: Fault) -> Arc<Self> {
        Arc::new(Self { left: AtomicI32::new(GRANTED), is_cancelled: AtomicBool::new(false), fault })
    }

    /// `JobProcessor::ask`.
    fn ask(&self, has_asked: bool) {
        if self.fault == Fault::AsksOnce && has_asked {
            return;
        }
        if self.left.load(Relaxed) > 0 {
            self.left.store(0, Relaxed);
        }
    }

    /// `MarkCancelled` to `EndBudgets`.
    fn cancel(&self) {
        if self.fault == Fault::MarksLate {
            self.ask(false);
        }
        self.is_cancelled.store(true, Relaxed);
        if self.fault != Fault::EndsUnfenced {
            fence(SeqCst);
        }
        if self.fault != Fault::MarksLate {
            self.ask(false);
        }
    }

    /// `SetBudget` to `AskAgain`.
    fn grant(&self) {
        let asked_early = self.is_cancelled.load(Relaxed);
        self.left.store(GRANTED, Relaxed);
        if self.fault != Fault::GrantsUnfenced {
            fence(SeqCst);
        }
        let is_marked =
            if self.fault == Fault::AsksEarly { asked_early } else { self.is_cancelled.load(Relaxed) };
        if is_marked {
            self.left.store(0, Relaxed);
        }
    }
}

impl Owner {
    /// `OwnJobs::push_within_budget`. Returns false if the budget has ended.
    fn push(&mut self) -> bool {
        let (left, fault) = (&self.grant.left, self.grant.fault);
        let now = if fault == Fault::Remembers { self.remembered } else { left.load(Relaxed) };
        if now == 0 {
            return false;
        }
        self.remembered = now - 1;
        match fault {
            Fault::CountsBlindly => _ = left.fetch_sub(1, Relaxed),
            _ => left.store(now - 1, Relaxed),
        }
        true
    }

    /// How many pushes the budget lasts, `most` at most.
    fn push_to_its_end(&mut self, most: i32) -> i32 {
        (0..most).take_while(|_| self.push()).count() as i32
    }
}

/// A thief asks while the owner pushes, and once more when it is between two pushes.
fn a_thief_asks(fault: Fault) {
    model(move || {
        let grant = Grant::new(fault);
        let mut owner = Owner { grant: grant.clone(), remembered: GRANTED };
        let thief = {
            let grant = grant.clone();
            thread::spawn(move || grant.ask(false))
        };
        let before = owner.push_to_its_end(2);
        thief.join().unwrap();
        if before == 2 {
            grant.ask(true);
            assert!(!owner.push(), "a thief that asks again is not heard");
        }
    });
}

/// Thieves ask at any time.
fn a_grant_ends(fault: Fault) {
    model(move || {
        let grant = Grant::new(fault);
        let mut owner = Owner { grant: grant.clone(), remembered: GRANTED };
        let thief = {
            let grant = grant.clone();
            thread::spawn(move || {
                grant.ask(false);
                grant.ask(true);
            })
        };
        let pushes = owner.push_to_its_end(GRANTED + 2);
        thief.join().unwrap();
        assert!(pushes <= GRANTED, "a grant was longer than was granted");
    });
}

/// A thread cancels while a budget is set.
fn a_grant_is_given(fault: Fault) {
    model(move || {
        let grant = Grant::new(fault);
        grant.left.store(0, Relaxed);
        let mut owner = Owner { grant: grant.clone(), remembered: 0 };
        let canceller = {
            let grant = grant.clone();
            thread::spawn(move || grant.cancel())
        };
        grant.grant();
        canceller.join().unwrap();
        assert!(!owner.push(), "a push does not ask");
        assert!(grant.is_cancelled.load(Relaxed));
    });
}

/// All real: a thread cancels a computation while its owner sets a budget. The next push asks.
#[test]
fn a_computation_that_is_cancelled_is_asked_at_its_next_push() {
    model(|| {
        let stage = Stage::new(2, 0);
        let is_cancelled = Arc::new(AtomicBool::new(false));
        stage.act(0, |worker| {
            let processor = worker.job_processor().expect("a processor");
            let task = stage.task(async {}).into_raw();
            let pool = processor.shared_ptr().cast();
            // SAFETY: (1) the question is asked only while the region is the processor's. The task and the
            // flag outlive that: the flag is an `Arc` of this frame, and the task is cancelled at the end.
            let question = unsafe { Question::new(task, pool, NonNull::from(&*is_cancelled)) };
            let region = Region::cancellable(question);
            // SAFETY: (1) the region lives in this frame, and is replaced below.
            unsafe { processor.replace_region(&region, Tag::NONE) };
            let canceller = {
                let (stage, is_cancelled) = (stage.clone(), is_cancelled.clone());
                thread::spawn(move || {
                    // MarkCancelled.
                    is_cancelled.store(true, Relaxed);
                    stage.shared().end_budgets();
                })
            };
            processor.set_budget(1);
            canceller.join().unwrap();
            assert!(push(processor).is_none(), "the next push does not ask");
            assert!(processor.is_to_end());
            // SAFETY: (1) no region.
            unsafe { processor.replace_region(null(), Tag::NONE) };
            // SAFETY: this thread owns the task, and gives it to no other thread.
            unsafe { Runnable::from_raw(task) }.cancel();
        });
        stage.end();
    });
}

/// All real: a thief asks twice while the owner pushes. The budget is no longer than it was set.
#[test]
fn a_real_budget_is_no_longer_than_it_was_set() {
    model(|| {
        let stage = Stage::new(2, 0);
        stage.act(0, |worker| {
            let processor = worker.job_processor().expect("a processor");
            processor.set_budget(1);
            let thief = {
                let stage = stage.clone();
                thread::spawn(move || (0..2).for_each(|_| stage.shared().job_processor(0).ask()))
            };
            let first = push(processor);
            assert!(first.is_none() || push(processor).is_none(), "a budget is longer than it was set");
            thief.join().unwrap();
            assert!(push(processor).is_none(), "a budget goes on after its end");
            if let Some(index) = first {
                // SAFETY: (1) this thread has pushed the job there, and nothing afterwards.
                assert!(unsafe { processor.take_back_private(index) });
            }
        });
        stage.end();
    });
}

/// Pushes a job that is begun, if the budget goes on. The job is leaked: its owner may fail to take it back.
fn push(processor: &OwnJobs) -> Option<u32> {
    let place = Box::leak(Box::new(MaybeUninit::uninit()));
    let job = StackJob::<SpinLatch<JobProcessor>, _, ()>::begin(place, |_: bool| ());
    // SAFETY: (1) the job is begun, and leaked.
    unsafe { processor.push_within_budget(job.cast()) }
}

#[test]
fn a_canceller_is_heard() {
    a_grant_is_given(Fault::None);
}

#[test]
#[should_panic(expected = "a push does not ask")]
fn a_canceller_that_says_so_too_late() {
    a_grant_is_given(Fault::MarksLate);
}

#[test]
#[should_panic(expected = "a push does not ask")]
fn a_canceller_that_looks_too_early() {
    a_grant_is_given(Fault::EndsUnfenced);
}

#[test]
#[should_panic(expected = "a push does not ask")]
fn an_owner_that_looks_too_early() {
    a_grant_is_given(Fault::GrantsUnfenced);
}

#[test]
#[should_panic(expected = "a push does not ask")]
fn an_owner_that_asks_before_it_grants() {
    a_grant_is_given(Fault::AsksEarly);
}

#[test]
fn a_thief_that_asks_again_is_heard() {
    a_thief_asks(Fault::None);
}

#[test]
fn a_grant_is_no_longer_than_was_granted() {
    a_grant_ends(Fault::None);
}

#[test]
#[should_panic(expected = "a thief that asks again is not heard")]
fn an_owner_that_remembers_what_is_left() {
    a_thief_asks(Fault::Remembers);
}

#[test]
#[should_panic(expected = "a thief that asks again is not heard")]
fn a_thief_that_asks_once() {
    a_thief_asks(Fault::AsksOnce);
}

#[test]
#[should_panic(expected = "a grant was longer than was granted")]
fn an_owner_that_counts_below_zero() {
    a_grant_ends(Fault::CountsBlindly);
}
