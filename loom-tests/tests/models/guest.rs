//! A seat that is lent: one thread at a time holds it; no task and no root is left to an owner who sleeps, whichever instance of
//! the sleep protocol it is in, and the counts of both are exact at rest; a guest whose piece is done wakes; and no
//! owner leaves while its seat is lent.
//!
//! As in `idle_jobs.rs`, who would park ends its thread instead and counts as asleep; after all threads have ended, those
//! that were unparked live on, until nobody is.
//!
//! The loan, the sleep protocol and the word of roots are real; the lives are copies, but for the last model, where all is real.
//!
//! Bounds: one seat and its owner, who sleeps or is about to; a guest, once or twice; a thread outside that pushes, wakes the
//! owner, sets the guest's latch, or shuts down.

mod twin;
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use loom::thread;
use runtime::internals::scheduler::{Idle, Loan, Risen};

use super::stage::{Signal, Stage};
use twin::{Fault, Twin};
use world::{Act, Begin, Slip, World, play};

/// What the real loan and its twins have in common.
trait Lending: Send + Sync + 'static {
    fn is_lent(&self) -> bool;
    fn lie_down(&self) -> bool;
    fn rise(&self) -> Risen;
    fn notice(&self) -> bool;
    fn lend(&self, seats: &Idle, reliefs: &Idle) -> bool;
    fn give_back(&self, seats: &Idle, reliefs: &Idle) -> bool;
}

impl Lending for Loan {
    fn is_lent(&self) -> bool {
        Loan::is_lent(self)
    }

    fn lie_down(&self) -> bool {
        Loan::lie_down(self)
    }

    fn rise(&self) -> Risen {
        Loan::rise(self)
    }

    fn notice(&self) -> bool {
        Loan::notice(self)
    }

    fn lend(&self, seats: &Idle, reliefs: &Idle) -> bool {
        Loan::lend(self, seats, reliefs, 0)
    }

    fn give_back(&self, seats: &Idle, reliefs: &Idle) -> bool {
        Loan::give_back(self, seats, reliefs, 0)
    }
}

/// A story: how the owner begins, and what the others do meanwhile.
trait Story {
    fn tell<L: Lending>(loan: impl Fn() -> L + Send + Sync + 'static, slip: Slip);
}

/// `name: items, owner, [acts]`.
macro_rules! stories {
    ($($(#[$meta:meta])* $name:ident: $items:literal, $begin:expr, [$($act:expr),*];)*) => {$(
        $(#[$meta])*
        struct $name;

        impl Story for $name {
            fn tell<L: Lending>(loan: impl Fn() -> L + Send + Sync + 'static, slip: Slip) {
                let acts: &'static [Act<L>] = &[$($act),*];
                play(move || World::new(loan(), slip, $items), $begin, acts);
            }
        }
    )*};
}

stories! {
    /// The owner wakes by itself while a guest comes and goes.
    WakesByItself: 0, Begin::Asleep, [|w| w.visit(), |w| w.unpark_owner()];
    /// ... and another guest comes.
    TwoGuests: 0, Begin::Asleep, [|w| w.visit(), |w| w.visit(), |w| w.unpark_owner()];
    /// The owner falls asleep while a guest comes and goes, and wakes.
    FallsAsleep: 0, Begin::Awake, [|w| w.visit(), |w| w.unpark_owner()];
    /// A task comes.
    Task: 1, Begin::Asleep, [|w| w.visit(), |w| w.push_task(0)];
    /// ... and the guest stays.
    TaskBesideGuest: 1, Begin::Asleep, [|w| w.visit_for_good(), |w| w.push_task(0)];
    /// ... while the owner wakes by itself, so that it may lie down without its seat.
    TaskAndWake: 1, Begin::Asleep, [|w| w.visit(), |w| w.unpark_owner(), |w| w.push_task(0)];
    /// A root comes.
    Root: 1, Begin::Asleep, [|w| w.visit(), |w| w.push_root(0)];
    /// ... while the owner wakes by itself.
    RootAndWake: 1, Begin::Asleep, [|w| w.visit(), |w| w.unpark_owner(), |w| w.push_root(0)];
    /// The seat comes back while its owner lies down without it, and a root waits.
    ComesBack: 1, Begin::StandingIn, [|w| w.end_visit()];
    /// Both.
    TaskAndRoot: 2, Begin::Asleep, [|w| w.visit(), |w| w.push_task(0), |w| w.push_root(1)];
    /// A thief has the guest's piece, and the owner wakes by itself.
    Piece: 0, Begin::Asleep, [|w| w.visit_and_share(), |w| w.run_piece(), |w| w.unpark_owner()];
    /// The runtime ends.
    Shutdown: 0, Begin::Asleep, [|w| w.visit(), |w| w.shut_down()];
}

macro_rules! passes {
    ($($name:ident: $story:ident;)*) => {$(
        #[test]
        fn $name() {
            $story::tell(Loan::new, Slip::None);
            $story::tell(|| Twin::new(Fault::None), Slip::None);
        }
    )*};
}

passes! {
    an_owner_that_wakes_by_itself_leaves_its_seat_to_the_guest: WakesByItself;
    two_guests_have_the_seat_one_after_the_other: TwoGuests;
    an_owner_that_falls_asleep_lends_its_seat: FallsAsleep;
    a_task_reaches_an_owner_whose_seat_is_lent: Task;
    a_task_reaches_an_owner_that_lies_down_without_its_seat: TaskAndWake;
    a_task_reaches_an_owner_whose_seat_is_kept_by_a_guest: TaskBesideGuest;
    a_root_is_run_when_the_seat_is_back: Root;
    a_root_is_run_by_an_owner_that_lies_down_while_its_seat_comes_back: ComesBack;
    a_root_is_run_when_the_owner_has_noticed_that_its_seat_is_back: RootAndWake;
    a_task_and_a_root_are_run_around_a_guest: TaskAndRoot;
    a_guest_wakes_when_its_piece_is_done: Piece;
    an_owner_does_not_leave_while_its_seat_is_lent: Shutdown;
}

/// A twin for each fault, and the story that must refuse it.
macro_rules! refused {
    ($($name:ident: $story:ident($fault:ident, $slip:ident);)*) => {$(
        #[test]
        #[should_panic]
        fn $name() {
            $story::tell(|| Twin::new(Fault::$fault), Slip::$slip);
        }
    )*};
}

refused! {
    a_loan_whose_owner_was_notified: Root(LendsWhoWasNotified, None);
    a_loan_that_is_not_locked: WakesByItself(LendsWithoutLock, None);
    an_owner_that_rises_with_its_seat: WakesByItself(RisesWithSeat, None);
    an_owner_that_is_back_in_the_seats_instance_though_it_was_notified: Task(ReturnsWhoWasNotified, None);
    an_owner_that_notices_by_the_hint_alone: WakesByItself(NoticesByHint, None);
    an_owner_that_lies_down_beside_its_seat: ComesBack(LiesDownReturned, None);
    an_owner_left_in_the_seats_instance: RootAndWake(StaysInInstance, None);
    a_guest_that_does_not_look_for_tasks: TaskBesideGuest(None, LendsBlindly);
    a_guest_that_does_not_look_for_roots: Root(None, ReturnsBlindly);
    a_guest_that_does_not_look_for_tasks_when_it_goes: Task(None, ReturnsBlindly);
    a_thief_that_unparks_the_owner: Piece(None, UnparksOwner);
    a_guest_that_is_not_counted: Shutdown(None, NotCounted);
    a_guest_whose_root_ends_first: Shutdown(None, EndsFirst);
}

/// All real: a worker lives, a guest takes its seat and gives it back, and a task comes from outside. If that is not run, or the
/// worker does not leave, loom reports a deadlock.
#[test]
fn a_worker_runs_a_task_and_leaves_around_a_guest() {
    static LOANS: AtomicUsize = AtomicUsize::new(0);
    loom::model(|| {
        // A runtime with one seat takes no guests; the other's worker never comes.
        let stage = Stage::new(2, 0);
        let has_run = Arc::new(Signal::default());
        let worker = {
            let stage = stage.clone();
            thread::spawn(move || stage.live(0))
        };
        let guest = {
            let stage = stage.clone();
            thread::spawn(move || {
                let shared = stage.shared();
                assert!(shared.jobs.try_begin());
                if let Some((seat, _)) = shared.lend_seat() {
                    LOANS.fetch_add(1, Relaxed);
                    shared.take_seat_back(seat);
                }
                shared.root_ended();
            })
        };
        let task = {
            let has_run = has_run.clone();
            stage.task(async move { has_run.set() })
        };
        stage.shared().inject(task);
        has_run.wait();
        guest.join().unwrap();
        stage.shared().begin_shutdown();
        worker.join().unwrap();
        stage.end();
    });
    assert!(LOANS.load(Relaxed) > 0, "the seat was never to be had");
}
