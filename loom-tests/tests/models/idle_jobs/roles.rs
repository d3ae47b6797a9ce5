//! Spare workers that may not run everything: no child job is left to them while a worker that may run it
//! sleeps, and none is left to a spare worker whose role became wider while it fell asleep.
//!
//! All real but the jobs, the roles and the parker: [`Idle`] is called as `Worker::park`,
//! `Worker::leave_rest_to_others`, `Shared::leave_to_lower` and `Shared::post_child_job` call it. As in the
//! other stories, a worker that would park ends its thread instead.
//!
//! Actors: workers that may run everything, one of which is the poller; spare workers that may run no
//! job of others; a worker that shares jobs and blocks; a waiter that makes the spare workers' role wider.
//!
//! Bounds: three workers, one job, two threads beside the main one.

use std::sync::Arc;

use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use loom::sync::atomic::{AtomicBool, AtomicUsize, fence};
use runtime::internals::scheduler::{Idle, Work};

use crate::models::once_built::{model, thread};

/// The bug that was put back.
#[derive(Clone, Copy, PartialEq)]
enum Slip {
    None,
    /// A spare worker with a narrow role goes to sleep as a searcher: no UncountSearcher, no SearcherLook.
    SleepsAsSearcher,
    /// At SearcherLook it wakes any other worker.
    WakesAny,
    /// It asks for its role before CountSleeper only.
    AsksBeforehand,
    /// The thread that makes the role wider fetches a worker without a fence.
    WidensWithoutFence,
}

#[derive(Clone, Copy, PartialEq)]
enum Role {
    /// Takes any job: `Role::Full` of `away/mod.rs`.
    Wide,
    /// Takes no job of others: `Role::Serves`.
    Narrow,
}

/// How a worker begins.
#[derive(Clone, Copy, PartialEq)]
enum Begin {
    Awake,
    Searching,
    /// Has done everything but park.
    Asleep,
    /// As `Asleep`, and wakes only after all threads have ended.
    FastAsleep,
}

struct World {
    idle: Idle,
    /// Child jobs that lie on another's job processor, a bit each.
    jobs: AtomicUsize,
    /// The counter of `Away::wait_on_child_jobs`: above 0, every role is wide.
    on_child_jobs: AtomicUsize,
    /// Set by unparking.
    tokens: Vec<AtomicBool>,
    /// The workers below this index are permanent: their role is always wide.
    permanent: usize,
    /// The poller.
    poller: Option<usize>,
    slip: Slip,
}

impl World {
    fn role(&self, own: usize) -> Role {
        match own < self.permanent || self.on_child_jobs.load(Relaxed) > 0 {
            true => Role::Wide,
            false => Role::Narrow,
        }
    }

    fn has_jobs(&self) -> bool {
        self.jobs.load(Acquire) != 0
    }

    fn take_job(&self) -> bool {
        let now = self.jobs.load(Acquire);
        let lowest = now & now.wrapping_neg();
        now != 0 && self.jobs.fetch_and(!lowest, AcqRel) & lowest != 0
    }

    fn unpark(&self, picked: Option<usize>) {
        picked.into_iter().for_each(|index| _ = self.tokens[index].swap(true, AcqRel));
    }

    fn fetch(&self, work: Work) {
        self.unpark(self.idle.pick_for(work, self.poller).unparks);
    }

    /// PublishJob to WakeForJob of a worker that blocks afterwards.
    fn push_and_block(&self, job: usize) {
        self.jobs.fetch_or(1 << job, AcqRel);
        self.idle.fence_push();
        if self.idle.is_job_news(|| 0) {
            self.idle.post_job();
            self.fetch(Work::Job);
        }
    }

    /// A job lies on the job processor of a thread that begins to wait and may not run it.
    fn wait_on_child_jobs(&self) {
        self.on_child_jobs.fetch_add(1, Relaxed);
        if self.slip != Slip::WidensWithoutFence {
            self.idle.fence_push();
        }
        self.fetch(Work::Task);
    }

    /// UncountSearcher, SearcherLook of a worker that found a job.
    fn stop_searching(&self) {
        if self.idle.stop_searching() {
            fence(SeqCst);
            if self.has_jobs() {
                self.fetch(Work::Job);
            }
        }
    }

    /// UncountSearcher, SearcherLook of a worker with a narrow role.
    fn leave_rest_to_others(&self, own: usize) {
        if self.idle.stop_searching() {
            fence(SeqCst);
            if self.has_jobs() {
                self.leave_to_lower(own);
            }
        }
    }

    /// No worker waits for a latch or rests, so `pick_below` is all of it.
    fn leave_to_lower(&self, own: usize) {
        let end = if self.slip == Slip::WakesAny { usize::MAX } else { own };
        self.unpark(self.idle.pick_below(end, self.poller));
    }

    /// SleepLook.
    fn has_work(&self, own: usize, asked: Role) -> bool {
        let role = if self.slip == Slip::AsksBeforehand { asked } else { self.role(own) };
        role == Role::Wide && self.has_jobs()
    }

    /// The life of worker `own` until it parks.
    fn live(&self, own: usize, begin: Begin) {
        let mut is_asleep = begin == Begin::Asleep;
        let mut is_searching = begin == Begin::Searching;
        loop {
            if !std::mem::take(&mut is_asleep) && !self.falls_asleep(own, &mut is_searching) {
                continue;
            }
            if !self.tokens[own].swap(false, AcqRel) {
                return;
            }
            is_searching = !self.idle.end_sleep(own);
        }
    }

    /// A look for a job, and CountSleeper to SleepLook. False if the worker has to look again.
    fn falls_asleep(&self, own: usize, is_searching: &mut bool) -> bool {
        let role = self.role(own);
        if role == Role::Wide && self.take_job() {
            if std::mem::take(is_searching) {
                self.stop_searching();
            }
            return false;
        }
        let does_searcher_look = role == Role::Narrow && self.slip != Slip::SleepsAsSearcher;
        if does_searcher_look && std::mem::take(is_searching) {
            self.leave_rest_to_others(own);
        }
        if self.idle.is_job_posted() {
            self.idle.get_sleepy();
            return false;
        }
        let seen = self.idle.get_sleepy();
        if !self.idle.announce_sleep_unless(own, *is_searching, seen) {
            return false;
        }
        *is_searching = self.has_work(own, role);
        if *is_searching {
            self.idle.cancel_sleep(own);
        }
        !*is_searching
    }

    fn set_up(&self, cast: &[Begin]) {
        for (own, begin) in cast.iter().enumerate() {
            match begin {
                Begin::Awake => {}
                Begin::Searching => assert!(self.idle.start_searching()),
                Begin::Asleep | Begin::FastAsleep => {
                    assert!(self.idle.announce_sleep_unless(own, false, self.idle.get_sleepy()));
                }
            }
        }
    }

    /// The workers that were unparked live on, until all sleep; then no job may be left.
    fn settle(&self) {
        let mut wakes = 0;
        while let Some(own) = self.tokens.iter().position(|token| token.load(Acquire)) {
            wakes += 1;
            assert!(
                wakes <= 2 * self.tokens.len(),
                "workers that may not run a job wake each other for ever"
            );
            self.live(own, Begin::Asleep);
        }
        assert!(!self.has_jobs(), "a job is left although a worker that may run it sleeps");
        assert_eq!(self.idle.counts(), (0, self.tokens.len()), "the counts are wrong at rest");
    }
}

/// A story: the workers, all of which sleep in the end, and what the main thread does meanwhile.
struct Story {
    permanent: usize,
    poller: Option<usize>,
    cast: &'static [Begin],
    /// Jobs that are there in the beginning.
    jobs: usize,
    act: fn(&World),
}

impl Story {
    fn tell(&'static self, slip: Slip) {
        model(move || {
            let workers = self.cast.len();
            let world = Arc::new(World {
                idle: Idle::new(workers, workers),
                jobs: AtomicUsize::new(self.jobs),
                on_child_jobs: AtomicUsize::new(0),
                tokens: (0..workers).map(|_| AtomicBool::new(false)).collect(),
                permanent: self.permanent,
                poller: self.poller,
                slip,
            });
            world.set_up(self.cast);
            let has_thread = |&own: &usize| self.cast[own] != Begin::FastAsleep;
            let threads: Vec<_> = (0..workers)
                .filter(has_thread)
                .map(|own| {
                    let world = world.clone();
                    thread::spawn(move || world.live(own, self.cast[own]))
                })
                .collect();
            (self.act)(&world);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            world.settle();
        });
    }
}

const fn pushes(cast: &'static [Begin]) -> Story {
    Story { permanent: 1, poller: Some(0), cast, jobs: 0, act: |world| world.push_and_block(0) }
}

const fn widens(cast: &'static [Begin]) -> Story {
    Story { permanent: 0, poller: None, cast, jobs: 1, act: World::wait_on_child_jobs }
}

/// A child job comes. A worker that may run it is the poller. Of two spare workers that may not, one is
/// about to sleep, and the other sleeps.
const JOB_BESIDE_POLLER: Story = pushes(&[Begin::FastAsleep, Begin::Awake, Begin::FastAsleep]);
/// A child job comes while the worker that may run it falls asleep; the spare worker that may not sleeps.
const JOB_BESIDE_ONE_ABOUT_TO_SIT: Story = pushes(&[Begin::Awake, Begin::Asleep]);
/// The role of a spare worker that falls asleep becomes wider.
const WIDER_ROLE: Story = widens(&[Begin::Awake]);
/// The role of a spare worker becomes wider while it searches.
const WIDER_ROLE_OF_SEARCHER: Story = widens(&[Begin::Searching]);

macro_rules! passes {
    ($($name:ident: $story:ident;)*) => {$(
        #[test]
        fn $name() {
            $story.tell(Slip::None);
        }
    )*};
}

passes! {
    a_job_is_not_left_to_spare_workers_that_may_not_run_it: JOB_BESIDE_POLLER;
    a_job_is_not_missed_by_one_about_to_sit_in_the_driver: JOB_BESIDE_ONE_ABOUT_TO_SIT;
    a_wider_role_is_not_missed_by_a_spare_worker_that_falls_asleep: WIDER_ROLE;
    a_wider_role_is_not_missed_by_a_spare_worker_that_searches: WIDER_ROLE_OF_SEARCHER;
}

macro_rules! refused {
    ($($name:ident: $story:ident($slip:ident), $text:literal;)*) => {$(
        #[test]
        #[should_panic(expected = $text)]
        fn $name() {
            $story.tell(Slip::$slip);
        }
    )*};
}

refused! {
    a_spare_worker_that_sleeps_as_a_searcher: JOB_BESIDE_POLLER(SleepsAsSearcher),
        "a job is left although a worker that may run it sleeps";
    a_spare_worker_that_leaves_a_job_to_any_other: JOB_BESIDE_POLLER(WakesAny),
        "workers that may not run a job wake each other for ever";
    a_spare_worker_that_asks_for_its_role_beforehand: WIDER_ROLE(AsksBeforehand),
        "a job is left although a worker that may run it sleeps";
    a_spare_worker_that_searches_and_asks_for_its_role_beforehand: WIDER_ROLE_OF_SEARCHER(AsksBeforehand),
        "a job is left although a worker that may run it sleeps";
    a_role_made_wider_without_a_fence: WIDER_ROLE(WidensWithoutFence),
        "a job is left although a worker that may run it sleeps";
}
