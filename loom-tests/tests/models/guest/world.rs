//! The lives of an owner and of guests, and who meets them.

use std::sync::Arc;
use std::sync::Mutex as Notes;

use loom::cell::UnsafeCell;
use loom::sync::atomic::Ordering::{AcqRel, Acquire, Release, SeqCst};
use loom::sync::atomic::{AtomicBool, AtomicUsize, fence};
use loom::thread;
use runtime::internals::queue::Injector;
use runtime::internals::scheduler::{Idle, Jobs, Risen, Work};

use super::super::item::{Item, Items};
use super::Lending;

/// A rule for the callers of the loan that is left out.
#[derive(Clone, Copy, PartialEq)]
pub enum Slip {
    None,
    /// L3.
    LendsBlindly,
    /// L6.
    ReturnsBlindly,
    /// Who sets a latch asks nobody who holds the seat.
    UnparksOwner,
    /// L1.
    NotCounted,
    /// L7 before L5.
    EndsFirst,
}

/// How the owner begins.
#[derive(Clone, Copy, PartialEq)]
pub enum Begin {
    Awake,
    /// Has done everything but park.
    Asleep,
    /// Awake without its seat, which a guest has; a root waits.
    StandingIn,
}

/// What is remembered of the owner from life to life.
#[derive(Clone, Copy)]
struct Owner {
    has_seat: bool,
    is_asleep: bool,
    has_left: bool,
}

/// The piece that a guest has shared.
const NO_PIECE: usize = 0;
const PIECE: usize = 1;
const PIECE_RUNS: usize = 2;

/// States of its latch.
const UNSET: usize = 0;
const SLEEPING: usize = 1;
const SET: usize = 2;

pub struct World<L> {
    loan: L,
    seats: Idle,
    reliefs: Idle,
    jobs: Jobs,
    /// What only the seat's holder touches.
    seat: UnsafeCell<usize>,
    tasks: Injector<Item>,
    roots: Injector<Item>,
    has_begun: AtomicBool,
    /// Set by unparking.
    owner_token: AtomicBool,
    guest_token: AtomicBool,
    piece: AtomicUsize,
    latch: AtomicUsize,
    owner: Notes<Owner>,
    /// A guest sleeps on the latch.
    guest_waits: Notes<bool>,
    taken: Notes<Vec<usize>>,
    items: Items,
    slip: Slip,
}

// SAFETY: to find out whether the accesses of different threads are ordered is what the model is for.
unsafe impl<L: Sync> Sync for World<L> {}
// SAFETY: as above.
unsafe impl<L: Send> Send for World<L> {}

pub type Act<L> = fn(&World<L>);

impl<L: Lending> World<L> {
    pub fn new(loan: L, slip: Slip, items: usize) -> Self {
        Self {
            loan,
            seats: Idle::new(2, 2),
            reliefs: Idle::new(2, 2),
            jobs: Jobs::new(),
            seat: UnsafeCell::new(0),
            tasks: Injector::new(),
            roots: Injector::new(),
            has_begun: AtomicBool::new(false),
            owner_token: AtomicBool::new(false),
            guest_token: AtomicBool::new(false),
            piece: AtomicUsize::new(NO_PIECE),
            latch: AtomicUsize::new(UNSET),
            owner: Notes::new(Owner { has_seat: true, is_asleep: false, has_left: false }),
            guest_waits: Notes::new(false),
            taken: Notes::new(Vec::new()),
            items: Items::new(items),
            slip,
        }
    }

    /// Touches what is the holder's alone.
    fn use_seat(&self) {
        // SAFETY: the cell checks that nobody else is there.
        self.seat.with_mut(|seat| unsafe { *seat += 1 });
    }

    pub fn unpark_owner(&self) {
        self.owner_token.swap(true, AcqRel);
    }

    fn unpark_holder(&self) {
        match self.loan.is_lent() && self.slip != Slip::UnparksOwner {
            true => _ = self.guest_token.swap(true, AcqRel),
            false => self.unpark_owner(),
        }
    }

    pub fn push_task(&self, value: usize) {
        // SAFETY: each value is pushed once, and items live as long as `self`.
        unsafe { self.tasks.push(self.items.make(value)) };
        self.seats.fence_push();
        self.notify(Work::Task);
    }

    pub fn push_root(&self, value: usize) {
        assert!(self.jobs.try_begin());
        // SAFETY: as above.
        unsafe { self.roots.push(self.items.make(value)) };
        self.seats.fence_push();
        self.seats.post_job();
        self.notify(Work::DetachedRoot);
    }

    fn notify(&self, work: Work) {
        let pick = self.seats.pick_for(work, None);
        if pick.unparks.is_some() {
            self.unpark_holder();
        }
        if pick.asks_relief && self.reliefs.pick_for(Work::Task, None).unparks.is_some() {
            self.unpark_owner();
        }
    }

    fn notify_for_what_waits(&self, has_roots: bool) {
        if !self.tasks.is_empty() {
            self.notify(Work::Task);
        }
        if has_roots && !self.roots.is_empty() {
            self.notify(Work::DetachedRoot);
        }
    }

    /// L1 to L3.
    fn begin_visit(&self) -> bool {
        if self.slip != Slip::NotCounted && !self.jobs.try_begin() {
            return false;
        }
        if !self.loan.lend(&self.seats, &self.reliefs) {
            self.end_root();
            return false;
        }
        if self.slip != Slip::LendsBlindly {
            self.notify_for_what_waits(false);
        }
        true
    }

    /// L5 to L7.
    pub fn end_visit(&self) {
        if self.slip == Slip::EndsFirst {
            self.end_root();
        }
        self.use_seat();
        if self.loan.give_back(&self.seats, &self.reliefs) && self.slip != Slip::ReturnsBlindly {
            self.notify_for_what_waits(true);
        }
        if self.slip != Slip::EndsFirst {
            self.end_root();
        }
    }

    fn end_root(&self) {
        if self.slip != Slip::NotCounted && self.jobs.end() {
            self.unpark_owner();
        }
    }

    /// A guest comes, if there is a seat to be had, and goes.
    pub fn visit(&self) {
        if self.begin_visit() {
            self.use_seat();
            self.end_visit();
        }
    }

    /// A guest comes, and is busy for ever.
    pub fn visit_for_good(&self) {
        if self.begin_visit() {
            self.use_seat();
        }
    }

    /// A guest shares a piece, and waits until a thief has run it.
    pub fn visit_and_share(&self) {
        if self.begin_visit() {
            self.use_seat();
            self.piece.store(PIECE, Release);
            self.wait_for_piece();
        }
    }

    fn wait_for_piece(&self) {
        let is_asleep = self.latch.compare_exchange(UNSET, SLEEPING, AcqRel, Acquire).is_ok();
        if is_asleep && !self.guest_token.swap(false, AcqRel) {
            *self.guest_waits.lock().unwrap() = true;
            return;
        }
        if is_asleep {
            _ = self.latch.compare_exchange(SLEEPING, UNSET, AcqRel, Acquire);
            return self.wait_for_piece();
        }
        self.end_visit();
    }

    /// A thief runs the guest's piece, if it is there.
    pub fn run_piece(&self) {
        if self.piece.compare_exchange(PIECE, PIECE_RUNS, AcqRel, Acquire).is_ok()
            && self.latch.swap(SET, AcqRel) == SLEEPING
        {
            self.unpark_holder();
        }
    }

    pub fn shut_down(&self) {
        self.jobs.begin_closing();
        self.has_begun.store(true, Release);
        self.unpark_owner();
    }

    fn stop_searching(&self, has_seat: bool) {
        let idle = if has_seat { &self.seats } else { &self.reliefs };
        if idle.stop_searching() {
            fence(SeqCst);
            self.notify_for_what_waits(has_seat);
        }
    }

    fn next(&self, has_seat: bool) -> Option<usize> {
        let task = self.tasks.pop();
        let item = task.or_else(|| {
            if !has_seat {
                return None;
            }
            self.use_seat();
            let root = self.roots.pop()?;
            self.jobs.end();
            Some(root)
        });
        item.map(|item| self.items.take(item))
    }

    /// The owner's loop, until it sleeps or has left.
    fn live(&self) {
        let Owner { mut has_seat, mut is_asleep, .. } = *self.owner.lock().unwrap();
        let mut is_searching = false;
        loop {
            let idle = if has_seat { &self.seats } else { &self.reliefs };
            if !std::mem::take(&mut is_asleep) {
                if self.has_begun.load(Acquire) && self.jobs.try_close() {
                    // What its jobs have left there.
                    self.use_seat();
                    if is_searching {
                        idle.stop_searching();
                    }
                    *self.owner.lock().unwrap() = Owner { has_seat, is_asleep: false, has_left: true };
                    return;
                }
                if !has_seat && self.loan.notice() {
                    if std::mem::take(&mut is_searching) {
                        self.stop_searching(false);
                    }
                    has_seat = true;
                    continue;
                }
                let seen = idle.get_sleepy();
                if let Some(value) = self.next(has_seat) {
                    self.taken.lock().unwrap().push(value);
                    if std::mem::take(&mut is_searching) {
                        self.stop_searching(has_seat);
                    }
                    continue;
                }
                if !idle.announce_sleep_unless(0, is_searching, seen) {
                    continue;
                }
                let has_work = !self.tasks.is_empty() || has_seat && !self.roots.is_empty();
                let must_leave = self.has_begun.load(Acquire) && self.jobs.try_close();
                if has_work || must_leave || !self.loan.lie_down() {
                    idle.cancel_sleep(0);
                    is_searching = true;
                    continue;
                }
            }
            if !self.owner_token.swap(false, AcqRel) {
                *self.owner.lock().unwrap() = Owner { has_seat, is_asleep: true, has_left: false };
                return;
            }
            let risen = self.loan.rise();
            has_seat = risen == Risen::Kept;
            let idle = if has_seat { &self.seats } else { &self.reliefs };
            is_searching = !idle.end_sleep(0);
            if risen == Risen::Returned {
                if std::mem::take(&mut is_searching) {
                    self.stop_searching(false);
                }
                has_seat = true;
            }
        }
    }

    /// Those who were unparked live on; then nothing may be left, and nobody counted who is not there.
    fn settle(&self) {
        loop {
            let has_left = self.owner.lock().unwrap().has_left;
            if !has_left && self.owner_token.load(Acquire) {
                self.live();
            } else if self.guest_token.load(Acquire) && std::mem::take(&mut *self.guest_waits.lock().unwrap())
            {
                self.wait_for_piece();
            } else {
                break;
            }
        }
        let owner = *self.owner.lock().unwrap();
        let piece = self.piece.load(Acquire);
        let waits = *self.guest_waits.lock().unwrap();
        if waits && piece == PIECE {
            // The thief came too early.
            self.run_piece();
            return self.settle();
        }
        assert!(!waits, "a guest sleeps although its latch is set");
        assert_eq!(owner.has_left, self.has_begun.load(Acquire), "a worker does not leave");
        self.items.assert_all(self.taken.lock().unwrap().clone());
        if !owner.has_left {
            let lent = usize::from(self.loan.is_lent());
            assert_eq!(self.seats.counts(), (0, 1 - lent), "the counts are wrong at rest");
            assert_eq!(
                self.reliefs.counts(),
                (0, lent),
                "the counts of those who stand in are wrong at rest"
            );
        }
    }
}

/// The owner and all `acts` but the last, which is the main thread's, on a thread each.
pub fn play<L: Lending>(
    world: impl Fn() -> World<L> + Send + Sync + 'static,
    begin: Begin,
    acts: &'static [Act<L>],
) {
    loom::model(move || {
        let world = Arc::new(world());
        if begin != Begin::Awake {
            assert!(world.seats.announce_sleep_unless(0, false, world.seats.get_sleepy()));
            assert!(world.loan.lie_down());
            world.owner.lock().unwrap().is_asleep = true;
        }
        if begin == Begin::StandingIn {
            assert!(world.begin_visit() && world.loan.rise() == Risen::Lent && world.reliefs.end_sleep(0));
            *world.owner.lock().unwrap() = Owner { has_seat: false, is_asleep: false, has_left: false };
            world.push_root(0);
        }
        let owner = {
            let world = world.clone();
            thread::spawn(move || world.live())
        };
        let (last, others) = acts.split_last().unwrap();
        let others: Vec<_> = others
            .iter()
            .map(|act| {
                let world = world.clone();
                thread::spawn(move || act(&world))
            })
            .collect();
        last(&world);
        others.into_iter().for_each(|thread| thread.join().unwrap());
        owner.join().unwrap();
        world.settle();
    });
}
