//! What the models of the sleep protocol with jobs have in common: queues, latches, and the lives of those who sleep.

use std::sync::Arc;

use loom::sync::Mutex;
use loom::sync::atomic::Ordering::{AcqRel, Acquire, SeqCst};
use loom::sync::atomic::{AtomicBool, AtomicUsize, fence};
use loom::thread;
use runtime::internals::queue::Injector;
use runtime::internals::scheduler::Work;

use super::super::item::{Item, Items};
use super::Protocol;

/// A rule for the callers of `Idle` that is left out.
#[derive(Clone, Copy, PartialEq)]
pub enum Slip {
    None,
    /// W4 and L4 look in no queue.
    LooksOnce,
    /// W4 leaves out the deques.
    LooksNotInDeques,
    /// A waiter that was notified, and takes another job or goes, looks for no more.
    PassesNothingOn,
    /// Who pushes a task admits no relief.
    PusherAdmitsNobody,
    /// Who begins to wait for a latch admits no relief.
    WaiterAdmitsNobody,
    /// F2 asks those of its own word alone.
    AsksOwnWord,
    /// F2 looks for jobs only if there are no tasks.
    LooksForTasksFirst,
    /// A relief thread that retires does not look again.
    RetiresQuietly,
    /// Who sets a latch looks at it first.
    SetsAfterALook,
    /// No fence between S1 and S2.
    LooksWithoutFence,
    /// Who made a job does not come back to it.
    LeavesOwnJob,
    /// The glance of a task's pusher does not see the relief threads.
    GlancesPastRelief,
    /// The glance of a task's pusher does not see those who wait for latches.
    GlancesPastWaiters,
    /// The glance of a task's pusher comes before P2.
    GlancesEarly,
    /// Whom the monitor wakes although somebody searches, it wakes only if nobody does.
    ReliesOnStuckSearcher,
    /// The monitor, which nobody was there to be woken by, forgets that others may have relied on it.
    GivesUpQuietly,
    /// So it does if it has woken a relief thread.
    WakesReliefAlone,
    /// A waiter that may not run what it was woken for has any other woken.
    PassesErrandToAll,
}

/// The latch of `job/latch.rs`: one word, one owner.
pub struct Latch(AtomicUsize);

const UNSET: usize = 0;
const SLEEPING: usize = 1;
const SET: usize = 2;

impl Latch {
    pub fn new() -> Self {
        Self(AtomicUsize::new(UNSET))
    }

    pub fn is_set(&self) -> bool {
        self.0.load(Acquire) == SET
    }

    /// The owner is about to sleep. False if the latch is set.
    pub fn begin_sleep(&self) -> bool {
        self.0.compare_exchange(UNSET, SLEEPING, AcqRel, Acquire).is_ok()
    }

    pub fn end_sleep(&self) {
        _ = self.0.compare_exchange(SLEEPING, UNSET, AcqRel, Acquire);
    }

    /// Says whether the owner has to be unparked.
    pub fn set(&self) -> bool {
        self.0.swap(SET, SeqCst) == SLEEPING
    }

    fn set_after_a_look(&self) -> bool {
        match self.0.load(Acquire) {
            UNSET => {
                self.0.swap(SET, SeqCst);
                false
            }
            _ => self.set(),
        }
    }
}

/// What a thread is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    /// Runs anything.
    Seat,
    /// A seat's worker that waits for the latch of its own index.
    Waiter,
    /// Polls tasks.
    Relief,
    /// Is in a computation for good: it has a deque, no thread.
    Busy,
}

/// How a thread begins.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Begin {
    Awake,
    /// Counted as a searcher.
    Searching,
    /// As `Searching`; it has looked everywhere and is one too many.
    Retiring,
    /// Is sleepy and has looked once more.
    LyingDown,
    /// Has looked, and then the counter came back to what it was before.
    RolledOver,
    /// Has done everything but park.
    Asleep,
    /// As `Asleep`, and wakes only after all others have ended, which costs the model less.
    FastAsleep,
    /// A relief thread that is no worker until it is called.
    Resting,
}

pub struct Role {
    pub kind: Kind,
    pub begin: Begin,
    /// With how much work taken it gets stuck.
    pub most: usize,
    /// It is in an isolated region: roots are not for it.
    pub is_isolated: bool,
}

pub const FOR_EVER: usize = usize::MAX;

pub const fn role(kind: Kind, begin: Begin) -> Role {
    Role { kind, begin, most: FOR_EVER, is_isolated: false }
}

/// Gets stuck in the first that it takes.
pub const fn stuck(kind: Kind, begin: Begin) -> Role {
    Role { most: 1, ..role(kind, begin) }
}

/// Waits in an isolated region.
pub const fn isolated(begin: Begin) -> Role {
    Role { is_isolated: true, ..role(Kind::Waiter, begin) }
}

/// How a thread ended.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum End {
    Asleep,
    Resting,
    Stuck,
    /// Its latch is set.
    Done,
}

pub type Life = (Vec<usize>, End);

pub struct World<P: Protocol> {
    pub seats: P,
    pub reliefs: P,
    pub tasks: Injector<Item>,
    /// The job injector.
    pub roots: Injector<Item>,
    /// Jobs that others may take, a bit each. Changed by read-modify-writes, as the word of a deque is.
    pub deques: Vec<AtomicUsize>,
    pub latches: Vec<Latch>,
    /// The end of job `i` sets this one.
    pub latch_of: Vec<Option<usize>>,
    /// Set by unparking.
    pub tokens: Vec<AtomicBool>,
    pub resting: Mutex<Vec<usize>>,
    pub items: Items,
    pub slip: Slip,
}

impl<P: Protocol> World<P> {
    /// For `threads` threads and `items` tasks and jobs.
    pub fn new(protocol: impl Fn() -> P, slip: Slip, threads: usize, items: usize) -> Self {
        Self {
            seats: protocol(),
            reliefs: protocol(),
            tasks: Injector::new(),
            roots: Injector::new(),
            deques: (0..threads).map(|_| AtomicUsize::new(0)).collect(),
            latches: (0..threads).map(|_| Latch::new()).collect(),
            latch_of: vec![None; items],
            tokens: (0..threads).map(|_| AtomicBool::new(false)).collect(),
            resting: Mutex::new(Vec::new()),
            items: Items::new(items),
            slip,
        }
    }

    /// A thread outside pushes a task.
    pub fn push_task(&self, value: usize) {
        self.push_tasks(&[value]);
    }

    pub fn push_tasks(&self, values: &[usize]) {
        for &value in values {
            // SAFETY: each value is pushed once, and items live as long as `self`.
            unsafe { self.tasks.push(self.items.make(value)) };
        }
        if self.slip == Slip::GlancesEarly && !self.is_anybody_away() {
            return;
        }
        self.seats.fence_push();
        self.notify_for_task();
    }

    /// P3 to P6 for a task, after a glance.
    fn notify_for_task(&self) {
        if self.slip == Slip::GlancesEarly || self.is_anybody_away() {
            self.notify(Work::Task);
        }
    }

    /// The glance of `Shared::notify`.
    fn is_anybody_away(&self) -> bool {
        self.seats.has_sleepers()
            || self.slip != Slip::GlancesPastRelief && self.reliefs.has_sleepers()
            || self.slip != Slip::GlancesPastWaiters && self.seats.has_waiters()
    }

    /// A thread outside pushes into the job injector.
    pub fn push_root(&self, value: usize, work: Work) {
        // SAFETY: as above.
        unsafe { self.roots.push(self.items.make(value)) };
        self.seats.fence_push();
        self.seats.post_job();
        self.notify(work);
    }

    /// A worker shares a job: no fence.
    pub fn push_job(&self, own: usize, value: usize) {
        self.push_short_job(own, value);
        self.notify(Work::Job);
    }

    /// A worker shares a job and will not come back to it soon: J2 to J5, after the glance of `Shared::post_piece`.
    pub fn push_job_and_block(&self, own: usize, value: usize) {
        self.deques[own].fetch_or(1 << value, AcqRel);
        self.seats.fence_push();
        if self.seats.is_job_news() {
            self.seats.post_job();
            self.notify(Work::Job);
        }
    }

    /// The monitor has called somebody for `work`, in vain: `Shared::notify_anyway`.
    pub fn notify_anyway(&self, work: Work) {
        self.seats.fence_push();
        if self.slip == Slip::ReliesOnStuckSearcher {
            return self.notify(work);
        }
        if let Some(seat) = self.seats.pick_anyway() {
            return self.unpark(seat);
        }
        let relief = if work == Work::Task { self.reliefs.pick_anyway() } else { None };
        relief.into_iter().for_each(|index| self.unpark(index));
        if self.slip == Slip::GivesUpQuietly || self.slip == Slip::WakesReliefAlone && relief.is_some() {
            return;
        }
        self.seats.fence_push();
        if relief.is_none() {
            self.notify_for_task();
        }
        match work {
            Work::Job => self.seats.pick_waiter().into_iter().for_each(|index| self.unpark(index)),
            _ => self.notify(Work::Job),
        }
    }

    /// As `push_job`; then the worker looks whether the job is still there, and runs it itself.
    pub fn push_job_and_come_back(&self, own: usize, value: usize) -> Vec<usize> {
        self.push_job(own, value);
        self.take_own_job(own).into_iter().collect()
    }

    /// Whoever made a job comes back to it.
    pub fn take_own_job(&self, own: usize) -> Option<usize> {
        if self.slip == Slip::LeavesOwnJob { None } else { self.take_job(own) }
    }

    /// What a worker does that comes by once.
    pub fn take_and_run_job(&self, deque: usize) -> Option<usize> {
        let job = self.take_job(deque)?;
        self.ran(job);
        Some(job)
    }

    /// As `push_job`, from a region too short to wake anybody for.
    pub fn push_short_job(&self, own: usize, value: usize) {
        self.deques[own].fetch_or(1 << value, AcqRel);
        self.seats.post_job();
    }

    /// P3 to P6, J4, J5: on the seats' word, then on the relief threads', then admission.
    pub fn notify(&self, work: Work) {
        let seat = self.seats.pick_for(work);
        seat.unparks.into_iter().for_each(|index| self.unpark(index));
        if seat.asks_relief {
            self.notify_relief();
        }
    }

    fn notify_relief(&self) {
        let relief = self.reliefs.pick_for(Work::Task);
        relief.unparks.into_iter().for_each(|index| self.unpark(index));
        if relief.asks_relief && self.slip != Slip::PusherAdmitsNobody && self.seats.has_waiters() {
            self.admit();
        }
    }

    pub fn admit(&self) {
        let mut resting = self.resting.lock().unwrap();
        if let Some(index) = resting.pop() {
            self.reliefs.add_searcher();
            self.unpark(index);
        }
    }

    pub fn unpark(&self, index: usize) {
        self.tokens[index].swap(true, AcqRel);
    }

    pub fn set_latch(&self, owner: usize) {
        let latch = &self.latches[owner];
        let is_asleep = match self.slip {
            Slip::SetsAfterALook => latch.set_after_a_look(),
            _ => latch.set(),
        };
        if is_asleep {
            self.unpark(owner);
        }
    }

    /// A job from a deque.
    pub fn take_job(&self, deque: usize) -> Option<usize> {
        let now = self.deques[deque].load(Acquire);
        if now == 0 {
            return None;
        }
        let lowest = now & now.wrapping_neg();
        let is_ours = self.deques[deque].fetch_and(!lowest, AcqRel) & lowest != 0;
        is_ours.then_some(lowest.trailing_zeros() as usize)
    }

    fn next_job(&self, own: usize, is_isolated: bool) -> Option<usize> {
        let others = (0..self.deques.len()).filter(|&deque| deque != own);
        let from_deque =
            self.take_own_job(own).or_else(|| others.into_iter().find_map(|deque| self.take_job(deque)));
        let root = || if is_isolated { None } else { self.roots.pop() };
        from_deque.or_else(|| root().map(|root| self.items.take(root)))
    }

    fn next(&self, own: usize, kind: Kind) -> Option<usize> {
        let task = || self.tasks.pop().map(|task| self.items.take(task));
        match kind {
            Kind::Relief => task(),
            _ => task().or_else(|| self.next_job(own, false)),
        }
    }

    /// What work means to those who are there when it has been run.
    fn ran(&self, value: usize) {
        if let Some(owner) = self.latch_of[value] {
            self.set_latch(owner);
        }
    }

    fn has_job_in_deques(&self) -> bool {
        self.deques.iter().any(|deque| deque.load(Acquire) != 0)
    }

    /// What W4 looks at.
    fn has_visible_work(&self, kind: Kind) -> bool {
        let in_deques = || self.slip != Slip::LooksNotInDeques && self.has_job_in_deques();
        let has_job = || kind == Kind::Seat && (!self.roots.is_empty() || in_deques());
        self.slip != Slip::LooksOnce && (!self.tasks.is_empty() || has_job())
    }

    /// F1, F2.
    pub fn stop_searching(&self, kind: Kind) {
        let idle = if kind == Kind::Relief { &self.reliefs } else { &self.seats };
        if idle.stop_searching() {
            fence(SeqCst);
            self.notify_if_visible(kind);
        }
    }

    fn notify_if_visible(&self, kind: Kind) {
        if !self.tasks.is_empty() {
            match (self.slip, kind) {
                (Slip::AsksOwnWord, Kind::Relief) => self.notify_relief(),
                (Slip::AsksOwnWord, _) => {
                    let own = self.seats.pick_for(Work::DetachedRoot);
                    own.unparks.into_iter().for_each(|index| self.unpark(index));
                }
                _ => self.notify_for_task(),
            }
        }
        let is_enough = self.slip == Slip::LooksForTasksFirst && !self.tasks.is_empty();
        if !is_enough && (!self.roots.is_empty() || self.has_job_in_deques()) {
            self.notify(Work::Job);
        }
    }

    /// The life of a seat's worker outside of computations, or of a relief thread.
    pub fn live(&self, own: usize, role: &Role) -> Life {
        let kind = role.kind;
        let idle = if kind == Kind::Relief { &self.reliefs } else { &self.seats };
        let mut is_searching = matches!(role.begin, Begin::Searching | Begin::Retiring);
        let mut is_asleep = role.begin == Begin::Asleep;
        let mut has_looked = role.begin == Begin::LyingDown;
        let mut taken = Vec::new();
        if role.begin == Begin::Retiring {
            return self.retire(own);
        }
        loop {
            if !std::mem::take(&mut is_asleep) {
                let seen = idle.get_sleepy();
                if !std::mem::take(&mut has_looked) {
                    if let Some(value) = self.next(own, kind) {
                        taken.push(value);
                        if std::mem::take(&mut is_searching) {
                            self.stop_searching(kind);
                        }
                        self.ran(value);
                        if taken.len() == role.most {
                            return (taken, End::Stuck);
                        }
                        continue;
                    }
                }
                if !idle.announce_sleep_unless(own, is_searching, seen) {
                    continue;
                }
                if self.has_visible_work(kind) {
                    idle.cancel_sleep(own);
                    is_searching = true;
                    continue;
                }
            }
            if !self.tokens[own].swap(false, AcqRel) {
                return (taken, End::Asleep);
            }
            is_searching = !idle.end_sleep(own);
        }
    }

    /// A relief thread that searches and is one too many rests, and sees to what was left to it.
    fn retire(&self, own: usize) -> Life {
        self.resting.lock().unwrap().push(own);
        let was_last = self.reliefs.stop_searching();
        if was_last && self.slip != Slip::RetiresQuietly {
            fence(SeqCst);
            self.notify_if_visible(Kind::Relief);
        }
        (Vec::new(), End::Resting)
    }

    /// The life of a worker that waits for its latch.
    pub fn wait(&self, own: usize, role: &Role) -> Life {
        let latch = &self.latches[own];
        let mut is_asleep = role.begin == Begin::Asleep;
        let mut has_looked = role.begin == Begin::LyingDown;
        let mut has_rolled_over = role.begin == Begin::RolledOver;
        let mut is_notified = false;
        let mut taken = Vec::new();
        loop {
            if !std::mem::take(&mut is_asleep) {
                if latch.is_set() {
                    self.pass_on(is_notified);
                    return (taken, End::Done);
                }
                let mut seen = self.seats.get_sleepy();
                if self.slip != Slip::LooksWithoutFence {
                    // S2.
                    fence(SeqCst);
                }
                if !std::mem::take(&mut has_looked) {
                    if let Some(value) = self.next_job(own, role.is_isolated) {
                        taken.push(value);
                        self.pass_on(std::mem::take(&mut is_notified));
                        self.ran(value);
                        if taken.len() == role.most {
                            return (taken, End::Stuck);
                        }
                        continue;
                    }
                }
                if std::mem::take(&mut has_rolled_over) {
                    seen = self.seats.get_sleepy();
                }
                if std::mem::take(&mut is_notified) && role.is_isolated {
                    self.pass_errand_on(own);
                }
                if !latch.begin_sleep() {
                    continue;
                }
                if !self.seats.announce_wait(own, seen) {
                    latch.end_sleep();
                    continue;
                }
                let sees_root = !role.is_isolated && !self.roots.is_empty();
                if latch.is_set() || self.slip != Slip::LooksOnce && sees_root {
                    is_notified = !self.seats.end_wait(own);
                    latch.end_sleep();
                    continue;
                }
                if self.slip != Slip::WaiterAdmitsNobody && !self.tasks.is_empty() {
                    self.admit();
                }
            }
            if !self.tokens[own].swap(false, AcqRel) {
                return (taken, End::Asleep);
            }
            is_notified = !self.seats.end_wait(own);
            latch.end_sleep();
        }
    }

    /// N.
    fn pass_on(&self, is_notified: bool) {
        if is_notified && self.slip != Slip::PassesNothingOn && !self.roots.is_empty() {
            self.notify(Work::Job);
        }
    }

    /// This waiter may not run what it was woken for.
    fn pass_errand_on(&self, own: usize) {
        if self.roots.is_empty() {
            return;
        }
        match self.slip {
            Slip::PassesNothingOn => {}
            Slip::PassesErrandToAll => self.notify(Work::Job),
            _ => self.seats.pass_errand_on(own).unparks.into_iter().for_each(|index| self.unpark(index)),
        }
    }

    fn play(&self, own: usize, role: &Role) -> Life {
        match role.kind {
            Kind::Waiter => self.wait(own, role),
            Kind::Seat | Kind::Relief => self.live(own, role),
            Kind::Busy => (Vec::new(), End::Stuck),
        }
    }

    /// Puts the cast where it begins.
    fn set_up(&self, cast: &[Role]) {
        for (own, role) in cast.iter().enumerate() {
            let idle = if role.kind == Kind::Relief { &self.reliefs } else { &self.seats };
            match (role.kind, role.begin) {
                (_, Begin::Searching | Begin::Retiring) => idle.add_searcher(),
                (_, Begin::Resting) => self.resting.lock().unwrap().push(own),
                (Kind::Waiter, Begin::Asleep | Begin::FastAsleep) => {
                    assert!(self.latches[own].begin_sleep());
                    assert!(idle.announce_wait(own, idle.get_sleepy()));
                }
                (_, Begin::Asleep | Begin::FastAsleep) => {
                    assert!(idle.announce_sleep_unless(own, false, idle.get_sleepy()))
                }
                _ => {}
            }
        }
    }

    /// Those who were unparked live on, until all sleep, rest, or are stuck or done.
    fn settle(&self, cast: &[Role], ends: &mut [End], taken: &mut Vec<usize>) {
        let is_up = |own: usize, end: End| {
            matches!(end, End::Asleep | End::Resting) && self.tokens[own].load(Acquire)
        };
        while let Some(own) = (0..cast.len()).find(|&own| is_up(own, ends[own])) {
            let begin = match ends[own] {
                End::Resting => {
                    self.tokens[own].store(false, SeqCst);
                    Begin::Searching
                }
                _ => Begin::Asleep,
            };
            let (more, end) = self.play(own, &Role { begin, ..cast[own] });
            taken.extend(more);
            ends[own] = end;
        }
        let asleep = |is_relief: bool| {
            let of_word = |role: &Role| (role.kind == Kind::Relief) == is_relief && role.kind != Kind::Waiter;
            cast.iter().zip(&*ends).filter(|(role, end)| of_word(role) && **end == End::Asleep).count()
        };
        let is_stuck_searcher = |role: &&Role| role.kind == Kind::Busy && role.begin == Begin::Searching;
        let searching = cast.iter().filter(is_stuck_searcher).count();
        assert_eq!(self.seats.counts(), (searching, asleep(false)), "the counts are wrong at rest");
        assert_eq!(self.reliefs.counts(), (0, asleep(true)), "the relief threads' counts are wrong at rest");
        let waits =
            cast.iter().zip(&*ends).any(|(role, end)| role.kind == Kind::Waiter && *end == End::Asleep);
        assert!(!self.seats.has_waiters() || waits, "a bit was left set");
        for (own, role) in cast.iter().enumerate() {
            if role.kind == Kind::Waiter && ends[own] == End::Asleep {
                assert!(!self.latches[own].is_set(), "a waiter sleeps although its latch is set");
            }
        }
    }
}

/// What a thread that is no sleeper does; says what it ran itself.
pub type Act<P> = fn(&World<P>) -> Vec<usize>;

/// Each of the `cast` and all `acts` but the last, which is the main thread's, on a thread each; in the end, all of `items`
/// must have been run, but for those `left` to whoever is stuck.
pub fn play<P: Protocol>(
    world: impl Fn() -> World<P> + Send + Sync + 'static,
    cast: &'static [Role],
    acts: &'static [Act<P>],
    left: &'static [usize],
) {
    loom::model(move || {
        let world = Arc::new(world());
        world.set_up(cast);
        let has_thread = |role: &Role| {
            role.kind != Kind::Busy && !matches!(role.begin, Begin::Resting | Begin::FastAsleep)
        };
        let threads: Vec<_> = (0..cast.len())
            .filter(|&own| has_thread(&cast[own]))
            .map(|own| {
                let world = world.clone();
                (own, thread::spawn(move || world.play(own, &cast[own])))
            })
            .collect();
        let (last, others) = acts.split_last().unwrap();
        let others: Vec<_> = others
            .iter()
            .map(|act| {
                let world = world.clone();
                thread::spawn(move || act(&world))
            })
            .collect();
        let mut taken = last(&world);
        others.into_iter().for_each(|thread| taken.extend(thread.join().unwrap()));
        let end = |role: &Role| match (role.kind, role.begin) {
            (Kind::Busy, _) => End::Stuck,
            (_, Begin::Resting) => End::Resting,
            _ => End::Asleep,
        };
        let mut ends: Vec<_> = cast.iter().map(end).collect();
        for (own, thread) in threads {
            let (values, end) = thread.join().unwrap();
            taken.extend(values);
            ends[own] = end;
        }
        world.settle(cast, &mut ends, &mut taken);
        taken.extend(left.iter().filter(|value| !taken.contains(value)).collect::<Vec<_>>());
        world.items.assert_all(taken);
    });
}
