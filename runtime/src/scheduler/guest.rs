//! Guests: a thread that is no worker runs a parallel call itself, on the seat of a worker that sleeps.
//!
//! A `join` or `scope` on a thread outside could be sent to a worker, and awaited: two wakes of a thread, some microseconds, for
//! what may take nanoseconds. But while a worker sleeps outside of computations, its seat (`seat.rs`: the deque and what goes with
//! it) is of no use to anybody. So the thread borrows it, as the seat's *guest*, runs the call on its own stack, and shares pieces
//! as the owner would. Only the seat is lent: the ring, the timers, the place in the driver stay the owner's, who wakes
//! for tasks as ever, and stands in as a relief thread does until the seat is back. Then its own parallel calls run in place.
//!
//! # States
//! ```text
//!           lies down             guest takes it
//!   KEPT ──────────────▶ OFFERED ────────────────▶ ASLEEP ◀────────┐
//!    ▲ ▲ ◀────────────── │     ◀────────────────── │  │            │
//!    │ │       rises          guest gives it back  │  │ rises      │ lies down
//!    │ │                                           │  ▼            │
//!    │ └─── rises ─────── RETURNED ◀───────────────┼─ AWAKE ───────┘
//!    └─────── notices ────┘  ▲  guest gives it back│
//!                            └─────────────────────┘ the same, but the owner was notified
//! ```
//! In KEPT and OFFERED a sleeping owner is in the seats' instance of `idle.rs`, which wakes it for anything; in ASLEEP in that of the relief
//! threads, which wakes it for tasks only: nobody relies on it with a job that it could not run. ASLEEP and AWAKE are *lent*.
//!
//! # Steps
//! ```text
//! Owner                                           Guest
//! O1 W1 to W4 of `idle.rs`, in its instance       L1 count a root (R1 of `jobs.rs`): the seats stay
//! O2 forget the seat, lie down:                   L2 OFFERED, and its bit among the seats' sleepers is set:
//!      KEPT → OFFERED, AWAKE → ASLEEP;               clear it, as its owner would; W1 to W3 in the other
//!      RETURNED: do not sleep                        instance; → ASLEEP; else leave it
//! O3 sleep                                        L3 W4 for it: tasks wait, so notify (P3)
//! O4 rise: OFFERED → KEPT, ASLEEP → AWAKE,        L4 the call
//!      RETURNED → KEPT                            L5 ASLEEP, and its bit among the other sleepers is set: clear it,
//! O5 L6 of `idle.rs` in its instance: as O4 says     W1 to W3 in the seats' instance; → OFFERED; else → RETURNED
//! O6 AWAKE, and about to look for jobs, as it     L6 → OFFERED: W4 for it: notify for what waits; a broadcast
//!      is every so many tasks: RETURNED → KEPT,      for this seat: unpark the owner. → RETURNED: J2 to J5 for
//!      leave the searchers of the one instance       pieces that are left
//!      (F1, F2), then look                        L7 the root has ended (R2 of `jobs.rs`)
//! ```
//! O2, O4, O6, L2 and L5 are under the loan's lock, which is held for a few instructions.
//!
//! # Why it is right
//! - *One holder.* What is the owner's alone in a seat is touched by the owner in KEPT, by the guest in lent states, by nobody else. The
//!   lock orders the two. The owner forgets the seat before OFFERED, and finds it again behind O4 or O6: what runs on its thread in
//!   between (wakers while it wakes, tasks) finds none.
//! - *The owner is in one instance at a time*, the one that the state says. L2 and L5 move it there and back only if they clear its bit:
//!   then no notifier has, nor will, and it is in no number of searchers. A notifier that was first has made a searcher of it: at L2
//!   the guest leaves the seat alone; at L5 it only says RETURNED, and the owner, who wakes, leaves the searchers by F1 and F2, like any
//!   that finds other things to do.
//! - *No work from outside is missed while it is moved.* The guest does for the owner what one does who wakes by itself, and lies down in
//!   the other instance: so the proof of `idle.rs` holds word for word, with L3 and L6 for its W4. A push of a task that sees it in
//!   neither has done P2 before that W3, and is seen by L3 or L6; and L6 looks for jobs, which nobody left to it since L2.
//! - *Naps* (`nap.rs`) are in KEPT: the seat of who naps is not to be had, and who stands in does not nap.
//! - *The seats stay*: L1 before L2, L7 behind L5. So the owner does not leave while its seat is lent.
//! - *Latches* of a guest's pieces unpark whoever holds the seat ([`Loan::is_lent`]). Who sets one got its job from the guest, so it reads
//!   LENT for as long as the guest waits for it, and what it reads later does not matter: then it unparks somebody for nothing.
//!   The guest's parker is the loan's, not in its frame: S3 of `job/latch.rs` comes when the guest may be gone. So for the bits of waiters:
//!   whoever clears one has acquired what came before it was set.
//!
//! # What a guest runs
//! Only what its own call has split off: it is a stranger's thread, which may hold locks, and wants its result. A guest's
//! jobs carry a tag (`job/region.rs`) that holds back its waits, and nobody else's: workers that take some of them go on as ever.
//! But while it waits it runs every broadcast that is meant for its seat, as workers do: nobody else can, and who waits for
//! that may be waited for itself, if only by another guest that broadcasts. What a broadcast splits off here is the guest's.
//!
//! It gives way to nobody, for it keeps no worker from its tasks: its stride ends in a look for hungry workers only.
//! Whoever waits in the middle of its call, or unwinds, sleeps on the loan's parker. It counts as a thread inside of the
//! runtime (`context::is_inside_runtime`): what it does there must not wait for the runtime's end, which waits for it.
//!
//! **No guests** are taken by fewer than two seats, for nobody could help; by runtimes with a deadlock handler, which have to know
//! who is awake; where threads were given something that a stranger's lacks: a stack size, or a hook or handler that calls them in. Nor
//! with all seats awake: then a call goes the old way, to whoever comes for it first.
//!
//! # Rejected
//! Seats of their own for guests: one more thread computes than there are cores, and two threads of one index, or one beyond the
//! number of threads. A sleeper whose seat is lent left in its instance: every job posted wakes it, for nothing. An
//! atomic word instead of the lock: between L2's two instances the owner has to wait anyway.

use std::sync::OnceLock;

use super::idle::{Idle, Work};
use super::park::Parker;
use super::seat::Seat;
use super::shared::Shared;
use super::worker::Worker;
use crate::context;
use crate::job::Tag;
use crate::loom::sync::Mutex;
use crate::loom::sync::atomic::AtomicBool;
use crate::loom::sync::atomic::Ordering::Relaxed;
use crate::util::numbers::{Number, Numbers};

/// See the module's docs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Kept,
    Offered,
    Asleep,
    Awake,
    Returned,
}

/// What an owner finds when it rises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Risen {
    /// It has its seat, and is in the seats' instance.
    Kept,
    /// It has not, and is in the relief threads'.
    Lent,
    /// It has its seat again, but is in the relief threads' instance: a searcher, whom a notifier has picked.
    Returned,
}

/// How a seat stands between its owner and its guest. See the module's docs.
#[derive(Debug)]
pub struct Loan {
    state: Mutex<State>,
    /// The state is lent.
    is_lent: AtomicBool,
    /// The state is RETURNED: a hint for the owner, who comes again.
    is_returned: AtomicBool,
    /// The guest's place to sleep.
    pub parker: Parker,
}

impl Loan {
    pub fn new() -> Self {
        Self {
            state: Mutex::new(State::Kept),
            is_lent: AtomicBool::new(false),
            is_returned: AtomicBool::new(false),
            parker: Parker::new(),
        }
    }

    /// Whether a guest holds the seat: for who unparks its holder.
    pub fn is_lent(&self) -> bool {
        // Relaxed: see the module's docs.
        self.is_lent.load(Relaxed)
    }

    /// O2. False if the seat is back, which the owner has to notice first.
    pub fn lie_down(&self) -> bool {
        let mut state = self.state.lock();
        *state = match *state {
            State::Kept => State::Offered,
            State::Awake => State::Asleep,
            State::Returned => return false,
            State::Offered | State::Asleep => unreachable!("an owner lies down once"),
        };
        true
    }

    /// O4.
    pub fn rise(&self) -> Risen {
        let mut state = self.state.lock();
        let (next, risen) = match *state {
            State::Offered => (State::Kept, Risen::Kept),
            State::Asleep => (State::Awake, Risen::Lent),
            State::Returned => (State::Kept, Risen::Returned),
            State::Kept | State::Awake => unreachable!("an owner rises once"),
        };
        self.is_returned.store(false, Relaxed);
        *state = next;
        risen
    }

    /// O6. True if the owner, awake without its seat, has it again.
    pub fn notice(&self) -> bool {
        // Relaxed: the lock orders the rest.
        if !self.is_returned.load(Relaxed) {
            return false;
        }
        let mut state = self.state.lock();
        assert_eq!(*state, State::Returned);
        self.is_returned.store(false, Relaxed);
        *state = State::Kept;
        true
    }

    /// L2: takes seat `index`. The caller does L3.
    pub fn lend(&self, seats: &Idle, reliefs: &Idle, index: usize) -> bool {
        let mut state = self.state.lock();
        if *state != State::Offered || !seats.end_sleep(index) {
            return false;
        }
        reliefs.announce_sleep(index, false);
        *state = State::Asleep;
        // Relaxed: see the module's docs.
        self.is_lent.store(true, Relaxed);
        true
    }

    /// L5. True if the owner sleeps: the caller does L6.
    pub fn give_back(&self, seats: &Idle, reliefs: &Idle, index: usize) -> bool {
        let mut state = self.state.lock();
        self.is_lent.store(false, Relaxed);
        if *state == State::Asleep && reliefs.end_sleep(index) {
            seats.announce_sleep(index, false);
            *state = State::Offered;
            return true;
        }
        *state = State::Returned;
        self.is_returned.store(true, Relaxed);
        false
    }
}

/// The numbers of guests' tags, process-wide: pools share jobs. Of 0 there is none, so that a tag is seen to be one.
static NUMBERS: Numbers = Numbers::below(u16::MAX);

/// A seat's tag for what its guests split off, once it had one.
#[derive(Debug, Default)]
pub struct GuestTag(OnceLock<Option<Number>>);

impl GuestTag {
    /// None if all numbers are taken.
    fn get(&self) -> Option<Tag> {
        let number = self.0.get_or_init(|| NUMBERS.take());
        number.as_ref().map(|number| Tag::of_guest(number.get()))
    }
}

impl Shared {
    /// L2 and L3: lends the calling thread, which is no worker and has counted a root, the seat of a worker that sleeps. Says
    /// the tag of its jobs.
    ///
    /// The one in the driver first: it stays there, and the others are woken by cheaper means.
    pub fn lend_seat(&self) -> Option<(&Seat, Tag)> {
        if !self.takes_guests || !self.idle.has_sleepers() {
            return None;
        }
        let sitter = self.driver.sitter().filter(|&index| index < self.seats.len());
        let others = (0..self.seats.len()).rev();
        let index = sitter.into_iter().chain(others).find(|&index| {
            self.idle.is_sleeper(index) && self.seats[index].loan.lend(&self.idle, &self.relief_idle, index)
        })?;
        if self.has_visible_tasks() {
            self.notify();
        }
        let seat = &self.seats[index];
        let Some(tag) = seat.guest_tag.get() else {
            self.take_seat_back(seat);
            return None;
        };
        Some((seat, tag))
    }

    /// L5 and L6.
    pub fn take_seat_back(&self, seat: &Seat) {
        let index = seat.index();
        if !seat.loan.give_back(&self.idle, &self.relief_idle, index) {
            if seat.has_public_pieces() {
                // Of scopes around the call. The owner may be long at a task, and others have overlooked them: J2 to J5.
                self.idle.fence_push();
                self.post_piece();
            }
            return;
        }
        if !seat.broadcasts.is_empty() {
            self.unpark_picked(Some(index));
        }
        if self.has_visible_tasks() {
            self.notify();
        }
        if self.has_visible_jobs(index) {
            self.notify_for(Work::Job);
        }
    }
}

impl Worker {
    /// The loan of this worker's seat, if it takes guests.
    fn loan(&self) -> Option<&Loan> {
        let shared = self.shared();
        if shared.takes_guests { shared.seats.get(self.index()).map(|seat| &seat.loan) } else { None }
    }

    /// O2: the seat is anybody's while this worker sleeps. False if it must not.
    pub fn offer_seat(&self) -> bool {
        let Some(loan) = self.loan() else { return true };
        self.forget_seat();
        let may_sleep = loan.lie_down();
        if !may_sleep {
            // Noticed in the loop.
            self.stand_in(true);
        }
        may_sleep
    }

    /// O4: this worker has slept.
    pub fn rise(&self) -> Risen {
        let Some(loan) = self.loan() else { return Risen::Kept };
        let risen = loan.rise();
        match risen {
            Risen::Kept => self.find_seat(),
            Risen::Lent | Risen::Returned => self.stand_in(true),
        }
        risen
    }

    /// O6. Says whether this worker, which had none, has its seat again.
    #[cold]
    pub fn notice_seat(&self) -> bool {
        let is_back = self.stands_in() && self.loan().is_some_and(Loan::notice);
        if is_back {
            self.have_seat_again();
        }
        is_back
    }

    /// The seat is this worker's again, who stands in as a relief thread.
    pub fn have_seat_again(&self) {
        if self.is_searching() {
            self.stop_searching();
        }
        self.find_seat();
    }

    fn find_seat(&self) {
        self.stand_in(false);
        self.set_job_seat(self.shared().seats.get(self.index()));
        context::replace_seat(self.job_seat().map_or(std::ptr::null(), |seat| seat));
    }

    fn forget_seat(&self) {
        self.set_job_seat(None);
        context::replace_seat(std::ptr::null());
    }
}
