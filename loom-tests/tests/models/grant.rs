//! The countdown of a grant in `seat.rs`: the owner counts by load and store, thieves make it zero. What must
//! hold though a zero may be overwritten: no grant is longer than was granted; and a thief that finds the
//! owner between two pushes ends it at once, which is why a thief that asks again and again is heard.
//!
//! The countdown is a copy of a few lines: it is inlined where the owner pushes.
//!
//! And the thread that cancels the computation between two countdowns ends the grant, even a grant that is
//! just being given (`parallel/cancel.rs`).
//!
//! Bounds: one grant of three pushes, one thief that asks twice, or one thread that cancels.

use std::sync::Arc;

use loom::sync::atomic::Ordering::{Relaxed, SeqCst};
use loom::sync::atomic::{AtomicBool, AtomicI32, fence};
use loom::thread;

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
    /// The thread that cancels ends the grants first.
    MarksLate,
    /// K2 is missing.
    EndsUnfenced,
    /// A3 is missing.
    GrantsUnfenced,
    /// The owner asks before it grants.
    AsksEarly,
}

const GRANTED: i32 = 3;

struct Grant {
    left: AtomicI32,
    is_cancelled: AtomicBool,
    fault: Fault,
}

/// The owner's.
struct Owner {
    grant: Arc<Grant>,
    remembered: i32,
}

impl Grant {
    fn new(fault: Fault) -> Arc<Self> {
        Arc::new(Self { left: AtomicI32::new(GRANTED), is_cancelled: AtomicBool::new(false), fault })
    }

    /// `Seat::ask`.
    fn ask(&self, has_asked: bool) {
        if self.fault == Fault::AsksOnce && has_asked {
            return;
        }
        if self.left.load(Relaxed) > 0 {
            self.left.store(0, Relaxed);
        }
    }

    /// K1 to K3.
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

    /// A2 to A4: `Seat::grant`.
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
    /// `Seat::push_anchored`. False: the grant has ended, and the rules are gone through.
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

    /// How many pushes the grant lasts, `most` at most.
    fn push_to_its_end(&mut self, most: i32) -> i32 {
        (0..most).take_while(|_| self.push()).count() as i32
    }
}

/// A thief asks while the owner pushes, and once more when it is between two pushes.
fn a_thief_asks(fault: Fault) {
    loom::model(move || {
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
    loom::model(move || {
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

/// A thread cancels while a grant is given.
fn a_grant_is_given(fault: Fault) {
    loom::model(move || {
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

#[test]
fn who_cancels_is_heard() {
    a_grant_is_given(Fault::None);
}

#[test]
#[should_panic(expected = "does not ask")]
fn who_cancels_says_so_too_late() {
    a_grant_is_given(Fault::MarksLate);
}

#[test]
#[should_panic(expected = "does not ask")]
fn who_cancels_looks_too_early() {
    a_grant_is_given(Fault::EndsUnfenced);
}

#[test]
#[should_panic(expected = "does not ask")]
fn an_owner_that_looks_too_early() {
    a_grant_is_given(Fault::GrantsUnfenced);
}

#[test]
#[should_panic(expected = "does not ask")]
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
#[should_panic(expected = "is not heard")]
fn an_owner_that_remembers_what_is_left() {
    a_thief_asks(Fault::Remembers);
}

#[test]
#[should_panic(expected = "is not heard")]
fn a_thief_that_asks_once() {
    a_thief_asks(Fault::AsksOnce);
}

#[test]
#[should_panic(expected = "longer than was granted")]
fn an_owner_that_counts_below_zero() {
    a_grant_ends(Fault::CountsBlindly);
}
