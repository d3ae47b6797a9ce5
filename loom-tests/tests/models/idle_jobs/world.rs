//! What the models of the sleep protocol with jobs have in common: queues, latches, and the lives of the
//! sleepers.

use std::sync::Arc;

use loom::sync::Mutex;
use loom::sync::atomic::Ordering::{AcqRel, Acquire, SeqCst};
use loom::sync::atomic::{AtomicBool, AtomicUsize, fence};
use runtime::internals::queue::Injector;
use runtime::internals::scheduler::Work;

use super::super::item::{Item, Items};
use super::Protocol;
use crate::models::once_built::{model, thread};

/// A rule for the callers of `Idle` that is left out.
#[derive(Clone, Copy, PartialEq)]
pub enum Slip {
    None,
    /// SleepLook and LatchLook look in no queue.
    LooksOnce,
    /// SleepLook leaves out the deques.
    LooksNotInDeques,
    /// A waiter that was notified, and takes another job or goes, looks for no more.
    PassesNothingOn,
    /// A thread that pushes a task admits no spare worker.
    PusherAdmitsNobody,
    /// A worker that begins to wait for a latch admits no spare worker.
    WaiterAdmitsNobody,
    /// SearcherLook looks for jobs only if there are no tasks.
    LooksForTasksFirst,
    /// A spare worker that goes to rest does not look again.
    RestsQuietly,
    /// The setter of a latch looks at it first.
    SetsAfterALook,
    /// No fence between GetSleepy and SleepyLook.
    LooksWithoutFence,
    /// The worker that made a job does not come back to it.
    LeavesOwnJob,
    /// The glance of a task's pusher does not see the workers that wait for latches.
    GlancesPastWaiters,
    /// The glance of a task's pusher comes before PushFence.
    GlancesEarly,
    /// The monitor relies on a searcher that is stuck: it wakes a worker only if none searches.
    ReliesOnStuckSearcher,
    /// The monitor, which found no worker to wake, forgets that others may have relied on it.
    GivesUpQuietly,
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

    /// Returns whether the owner has to be unparked.
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
    Worker,
    /// A worker that waits for the latch of its own index.
    Waiter,
    /// Is in a computation for good. It is a deque for others to steal from; no thread of the model plays it.
    Busy,
}

/// How a thread begins.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Begin {
    Awake,
    /// Counted as a searcher.
    Searching,
    /// As `Searching`; it has looked everywhere, and is a spare worker too many.
    Surplus,
    /// Is sleepy and has looked once more.
    FallingAsleep,
    /// Has looked, and then the counter came back to what it was before.
    RolledOver,
    /// Has done everything but park.
    Asleep,
    /// As `Asleep`, and wakes only after all others have ended, which costs the model less.
    FastAsleep,
    /// A spare worker that is no worker until it is called.
    Resting,
}

pub struct Role {
    pub kind: Kind,
    pub begin: Begin,
    /// It gets stuck when it has taken so many tasks and jobs.
    pub most: usize,
    /// It is in an isolated region: injected jobs are not for it.
    pub is_isolated: bool,
}

pub const FOR_EVER: usize = usize::MAX;

/// How often workers are woken at the end of a model. A worker is woken for each item, and once or twice for
/// nothing.
const MOST_WAKES: usize = 16;

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
    pub idle: P,
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
            idle: protocol(),
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
        self.idle.fence_push();
        self.notify_for_task();
    }

    /// ReadCounts to UnparkSleeper for a task, after a glance.
    fn notify_for_task(&self) {
        if self.slip == Slip::GlancesEarly || self.is_anybody_away() {
            self.notify(Work::Task);
        }
    }

    /// The glance of `Shared::fetch`.
    fn is_anybody_away(&self) -> bool {
        self.idle.has_sleepers() || self.slip != Slip::GlancesPastWaiters && self.idle.has_waiters()
    }

    /// A thread outside pushes into the job injector.
    pub fn push_injected(&self, value: usize, work: Work) {
        // SAFETY: as in `push_tasks`.
        unsafe { self.roots.push(self.items.make(value)) };
        self.idle.fence_push();
        self.idle.post_job();
        self.notify(work);
    }

    /// A worker shares a job: no fence.
    pub fn push_job(&self, own: usize, value: usize) {
        self.push_short_job(own, value);
        self.notify(Work::Job);
    }

    /// A worker shares a job and will not come back to it soon: JobFence to ClearWaiter, after the glance of
    /// `Shared::post_child_job`.
    pub fn push_job_and_block(&self, own: usize, value: usize) {
        self.deques[own].fetch_or(1 << value, AcqRel);
        self.idle.fence_push();
        if self.idle.is_job_news() {
            self.idle.post_job();
            self.notify(Work::Job);
        }
    }

    /// The monitor has called a worker, in vain: `Shared::fetch_anyway`.
    pub fn notify_anyway(&self) {
        self.idle.fence_push();
        if self.slip == Slip::ReliesOnStuckSearcher {
            return self.notify(Work::Job);
        }
        if let Some(index) = self.idle.pick_anyway() {
            return self.unpark(index);
        }
        if self.slip != Slip::GivesUpQuietly {
            self.idle.fence_push();
            self.idle.pick_waiter().into_iter().for_each(|index| self.unpark(index));
            self.notify_for_task();
        }
    }

    /// As `push_job`; then the worker looks whether the job is still there, and runs it itself.
    pub fn push_job_and_come_back(&self, own: usize, value: usize) -> Vec<usize> {
        self.push_job(own, value);
        self.take_own_job(own).into_iter().collect()
    }

    /// The worker that made a job comes back to it.
    pub fn take_own_job(&self, own: usize) -> Option<usize> {
        if self.slip == Slip::LeavesOwnJob { None } else { self.take_job(own) }
    }

    /// A worker comes by once: it takes a job from `deque`, if there is one, and runs it.
    pub fn take_and_run_job(&self, deque: usize) -> Option<usize> {
        let job = self.take_job(deque)?;
        self.ran(job);
        Some(job)
    }

    /// As `push_job`, for a job too short to wake a worker for.
    pub fn push_short_job(&self, own: usize, value: usize) {
        self.deques[own].fetch_or(1 << value, AcqRel);
        self.idle.post_job();
    }

    /// ReadCounts to UnparkSleeper, WakeForJob, ClearWaiter, and admission.
    pub fn notify(&self, work: Work) {
        let pick = self.idle.pick_for(work);
        pick.unparks.into_iter().for_each(|index| self.unpark(index));
        if pick.found_none && self.slip != Slip::PusherAdmitsNobody && self.idle.has_waiters() {
            self.admit();
        }
    }

    /// `Admit`: a spare worker is needed as long as a worker waits.
    pub fn admit(&self) {
        let called = self.resting.lock().unwrap().pop();
        called.into_iter().for_each(|index| self.unpark(index));
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

    fn next(&self, own: usize) -> Option<usize> {
        let task = self.tasks.pop().map(|task| self.items.take(task));
        task.or_else(|| self.next_job(own, false))
    }

    /// `value` has been run: sets the latch that its end sets, if there is one.
    fn ran(&self, value: usize) {
        if let Some(owner) = self.latch_of[value] {
            self.set_latch(owner);
        }
    }

    fn has_job_in_deques(&self) -> bool {
        self.deques.iter().any(|deque| deque.load(Acquire) != 0)
    }

    /// What SleepLook looks at.
    fn has_visible_work(&self) -> bool {
        let in_deques = || self.slip != Slip::LooksNotInDeques && self.has_job_in_deques();
        self.slip != Slip::LooksOnce && (!self.tasks.is_empty() || !self.roots.is_empty() || in_deques())
    }

    /// UncountSearcher, SearcherLook.
    pub fn stop_searching(&self) {
        if self.idle.stop_searching() {
            fence(SeqCst);
            if !self.tasks.is_empty() {
                self.notify_for_task();
            }
            let is_enough = self.slip == Slip::LooksForTasksFirst && !self.tasks.is_empty();
            if !is_enough && (!self.roots.is_empty() || self.has_job_in_deques()) {
                self.notify(Work::Job);
            }
        }
    }

    /// The life of a worker outside of computations.
    pub fn live(&self, own: usize, role: &Role) -> Life {
        let mut is_searching = role.begin == Begin::Searching;
        let mut is_asleep = role.begin == Begin::Asleep;
        let mut has_looked = role.begin == Begin::FallingAsleep;
        let mut taken = Vec::new();
        if role.begin == Begin::Surplus {
            return self.rest(own);
        }
        loop {
            if !std::mem::take(&mut is_asleep) {
                let seen = self.idle.get_sleepy();
                if !std::mem::take(&mut has_looked) {
                    if let Some(value) = self.next(own) {
                        taken.push(value);
                        if std::mem::take(&mut is_searching) {
                            self.stop_searching();
                        }
                        self.ran(value);
                        if taken.len() == role.most {
                            return (taken, End::Stuck);
                        }
                        continue;
                    }
                }
                if !self.idle.announce_sleep_unless(own, is_searching, seen) {
                    continue;
                }
                if self.has_visible_work() {
                    self.idle.cancel_sleep(own);
                    is_searching = true;
                    continue;
                }
            }
            if !self.tokens[own].swap(false, AcqRel) {
                return (taken, End::Asleep);
            }
            is_searching = !self.idle.end_sleep(own);
        }
    }

    /// A spare worker that searches, and is one too many, rests: `RestLook` of `away/mod.rs`.
    fn rest(&self, own: usize) -> Life {
        self.resting.lock().unwrap().push(own);
        if self.slip == Slip::RestsQuietly {
            self.idle.stop_searching();
            return (Vec::new(), End::Resting);
        }
        self.stop_searching();
        self.idle.fence_push();
        if !self.tasks.is_empty() {
            self.notify_for_task();
        }
        if !self.roots.is_empty() || self.has_job_in_deques() {
            self.notify(Work::Job);
        }
        (Vec::new(), End::Resting)
    }

    /// The life of a worker that waits for its latch.
    pub fn wait(&self, own: usize, role: &Role) -> Life {
        let latch = &self.latches[own];
        let mut is_asleep = role.begin == Begin::Asleep;
        let mut has_looked = role.begin == Begin::FallingAsleep;
        let mut has_rolled_over = role.begin == Begin::RolledOver;
        let mut is_notified = false;
        let mut taken = Vec::new();
        loop {
            if !std::mem::take(&mut is_asleep) {
                if latch.is_set() {
                    self.pass_on(is_notified);
                    return (taken, End::Done);
                }
                let mut seen = self.idle.get_sleepy();
                if self.slip != Slip::LooksWithoutFence {
                    // SleepyLook.
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
                    seen = self.idle.get_sleepy();
                }
                if std::mem::take(&mut is_notified) && role.is_isolated {
                    self.pass_errand_on(own);
                }
                if !latch.begin_sleep() {
                    continue;
                }
                if !self.idle.announce_wait(own, seen) {
                    latch.end_sleep();
                    continue;
                }
                let sees_injected = !role.is_isolated && !self.roots.is_empty();
                if latch.is_set() || self.slip != Slip::LooksOnce && sees_injected {
                    is_notified = !self.idle.end_wait(own);
                    latch.end_sleep();
                    continue;
                }
                if self.slip != Slip::WaiterAdmitsNobody && !self.tasks.is_empty() {
                    self.notify_for_task();
                }
            }
            if !self.tokens[own].swap(false, AcqRel) {
                return (taken, End::Asleep);
            }
            is_notified = !self.idle.end_wait(own);
            latch.end_sleep();
        }
    }

    /// NotifiedLook.
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
            _ => self.idle.pass_errand_on(own).unparks.into_iter().for_each(|index| self.unpark(index)),
        }
    }

    fn play(&self, own: usize, role: &Role) -> Life {
        match role.kind {
            Kind::Waiter => self.wait(own, role),
            Kind::Worker => self.live(own, role),
            Kind::Busy => (Vec::new(), End::Stuck),
        }
    }

    /// Puts the cast where it begins.
    fn set_up(&self, cast: &[Role]) {
        for (own, role) in cast.iter().enumerate() {
            let idle = &self.idle;
            match (role.kind, role.begin) {
                (_, Begin::Searching | Begin::Surplus) => idle.add_searcher(),
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

    /// The unparked workers live on, until all sleep, rest, or are stuck or done.
    fn settle(&self, cast: &[Role], ends: &mut [End], taken: &mut Vec<usize>) {
        let is_up = |own: usize, end: End| {
            matches!(end, End::Asleep | End::Resting) && self.tokens[own].load(Acquire)
        };
        let mut wakes = 0..MOST_WAKES;
        while let Some(own) = (0..cast.len()).find(|&own| is_up(own, ends[own])) {
            assert!(wakes.next().is_some(), "workers that may not run a job wake each other for ever");
            let begin = match ends[own] {
                End::Resting => {
                    self.tokens[own].store(false, SeqCst);
                    Begin::Awake
                }
                _ => Begin::Asleep,
            };
            let (more, end) = self.play(own, &Role { begin, ..cast[own] });
            taken.extend(more);
            ends[own] = end;
        }
        let is_asleep = |(role, end): &(&Role, &End)| role.kind != Kind::Waiter && **end == End::Asleep;
        let asleep = cast.iter().zip(&*ends).filter(is_asleep).count();
        let is_stuck_searcher = |role: &&Role| role.kind == Kind::Busy && role.begin == Begin::Searching;
        let searching = cast.iter().filter(is_stuck_searcher).count();
        assert_eq!(self.idle.counts(), (searching, asleep), "the counts are wrong at rest");
        let waits =
            cast.iter().zip(&*ends).any(|(role, end)| role.kind == Kind::Waiter && *end == End::Asleep);
        assert!(!self.idle.has_waiters() || waits, "a bit was left set");
        for (own, role) in cast.iter().enumerate() {
            if role.kind == Kind::Waiter && ends[own] == End::Asleep {
                assert!(!self.latches[own].is_set(), "a waiter sleeps although its latch is set");
            }
        }
    }
}

/// What a thread that is no sleeper does. It returns what it ran itself.
pub type Act<P> = fn(&World<P>) -> Vec<usize>;

/// Plays the `cast` and the `acts`, each on a thread of its own, but the last act on the main thread. In the
/// end all items must have been run, except those that may be `left` to a stuck worker.
pub fn play<P: Protocol>(
    world: impl Fn() -> World<P> + Send + Sync + 'static,
    cast: &'static [Role],
    acts: &'static [Act<P>],
    left: &'static [usize],
) {
    model(move || {
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
        let is_left = taken.len() < world.items.count();
        assert!(!is_left || world.tasks.is_empty(), "a task is left to sleepers");
        assert!(!is_left || world.roots.is_empty(), "an injected job is left to sleepers");
        assert!(!is_left || !world.has_job_in_deques(), "a child job is left to sleepers");
        world.items.assert_all(taken);
    });
}
