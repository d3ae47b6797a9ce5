//! The sleep protocol with jobs. No injected job, and no child job whose post moved the jobs event counter,
//! is left to sleepers or to workers that wait for a latch. A waiter whose latch is set wakes. No task is
//! left to spare workers that rest. At rest the counts are exact.
//!
//! The models also cover the glance (the cheap look before ReadCounts and CountPost), the errand of a waiter
//! that may not run what it was woken for, and the monitor that wakes a worker although a stuck one searches.
//!
//! As in `idle.rs`, a worker that would park ends its thread instead and counts as asleep; after all threads
//! have ended, the unparked workers live on, one after the other, and then nothing may be left, although some
//! are *stuck* in what they took. In `join.rs` the thread really parks. Spare workers that may not run
//! everything are in `roles.rs`.
//!
//! Actors: threads outside that push tasks and injected jobs; workers with a deque; workers outside of
//! computations; workers that wait for a latch each; spare workers that rest, or are about to.
//!
//! Bounds: up to three threads beside the main one, up to three workers that may sleep, three tasks or jobs.

mod join;
mod roles;
mod twin;
mod world;

use runtime::internals::scheduler::{Idle, JobEvents, Pick, Work};

use twin::{Fault, Twin};
use world::{Begin, Kind, Role, Slip, World, isolated, play, role, stuck};

/// What the real protocol and its twins have in common. No worker is the poller.
trait Protocol: Send + Sync + 'static {
    type Events: Copy;

    fn add_searcher(&self);
    fn stop_searching(&self) -> bool;
    fn get_sleepy(&self) -> Self::Events;
    fn announce_sleep_unless(&self, index: usize, is_searching: bool, seen: Self::Events) -> bool;
    fn cancel_sleep(&self, index: usize);
    fn end_sleep(&self, index: usize) -> bool;
    fn announce_wait(&self, index: usize, seen: Self::Events) -> bool;
    fn end_wait(&self, index: usize) -> bool;
    fn fence_push(&self);
    fn post_job(&self);
    fn pick_for(&self, work: Work) -> Pick;
    fn pick_anyway(&self) -> Option<usize>;
    fn pick_waiter(&self) -> Option<usize>;
    fn pass_errand_on(&self, index: usize) -> Pick;
    fn has_waiters(&self) -> bool;
    fn has_sleepers(&self) -> bool;
    fn is_job_news(&self) -> bool;
    fn counts(&self) -> (usize, usize);
}

macro_rules! forward {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        fn $name(&self, $($argument: $type),*) -> $result {
            Idle::$name(self, $($argument),*)
        }
    )*};
}

impl Protocol for Idle {
    type Events = JobEvents;

    forward! {
        stop_searching() -> bool;
        get_sleepy() -> JobEvents;
        announce_sleep_unless(index: usize, is_searching: bool, seen: JobEvents) -> bool;
        cancel_sleep(index: usize) -> ();
        end_sleep(index: usize) -> bool;
        announce_wait(index: usize, seen: JobEvents) -> bool;
        end_wait(index: usize) -> bool;
        fence_push() -> ();
        post_job() -> ();
        has_waiters() -> bool;
        has_sleepers() -> bool;
        counts() -> (usize, usize);
    }

    fn add_searcher(&self) {
        assert!(self.start_searching());
    }

    fn is_job_news(&self) -> bool {
        Idle::is_job_news(self, || 0)
    }

    fn pick_for(&self, work: Work) -> Pick {
        Idle::pick_for(self, work, None)
    }

    fn pick_anyway(&self) -> Option<usize> {
        Idle::pick_anyway(self, None)
    }

    fn pick_waiter(&self) -> Option<usize> {
        Idle::pick_waiter(self, 0)
    }

    fn pass_errand_on(&self, index: usize) -> Pick {
        Idle::pass_errand_on(self, index, usize::MAX, None)
    }
}

/// A story: which workers there are, what happens, and what must have been run in the end.
trait Story {
    fn tell<P: Protocol>(protocol: impl Fn() -> P + Send + Sync + 'static, slip: Slip);
}

/// `name: items, [cast], [acts], [work that may be left]`.
macro_rules! stories {
    ($(
        $(#[$meta:meta])*
        $name:ident: $items:literal, [$($role:expr),*], [$($act:expr),*], [$($left:literal),*];
    )*) => {$(
        $(#[$meta])*
        struct $name;

        impl Story for $name {
            fn tell<P: Protocol>(protocol: impl Fn() -> P + Send + Sync + 'static, slip: Slip) {
                const CAST: &[Role] = &[$($role),*];
                let world = move || World::new(&protocol, slip, CAST.len(), $items);
                play(world, CAST, &[$($act),*], &[$($left),*]);
            }
        }
    )*};
}

/// What an act returns if it runs nothing itself.
const NOTHING: Vec<usize> = Vec::new();

stories! {
    /// An injected job comes from outside while the only worker falls asleep.
    InjectedAgainstSleeper: 1,
        [role(Kind::Worker, Begin::Awake)], [|w| { w.push_injected(0, Work::Job); NOTHING }], [];
    /// An injected job comes from outside while one worker falls asleep and another waits for a latch.
    InjectedAgainstSleeperAndWaiter: 1,
        [role(Kind::Worker, Begin::FallingAsleep), role(Kind::Waiter, Begin::Asleep)],
        [|w| { w.push_injected(0, Work::Job); NOTHING }], [];
    /// An injected job comes from outside while the only worker is about to wait for a latch.
    InjectedAgainstWaiter: 1,
        [role(Kind::Waiter, Begin::Awake)], [|w| { w.push_injected(0, Work::Job); NOTHING }], [];
    /// An injected job comes from outside, and 2^32 posts go by since the waiter remembered the counter.
    InjectedAgainstRolledOverWaiter: 1,
        [role(Kind::Waiter, Begin::RolledOver)], [|w| { w.push_injected(0, Work::Job); NOTHING }], [];
    /// Two injected jobs come, and the waiters are stuck in what they find.
    TwoInjectedForTwoWaiters: 2,
        [stuck(Kind::Waiter, Begin::FallingAsleep), stuck(Kind::Waiter, Begin::Asleep)],
        [|w| { w.push_injected(0, Work::Job); NOTHING }, |w| { w.push_injected(1, Work::Job); NOTHING }], [];
    /// A worker shares a job and is then busy for ever; the other is about to wait for a latch.
    JobAgainstWaiter: 1,
        [role(Kind::Busy, Begin::Awake), role(Kind::Waiter, Begin::Awake)],
        [|w| { w.push_job(0, 0); NOTHING }], [];
    /// A worker shares a job and is then busy for ever; the other is about to fall asleep.
    JobAgainstSleeper: 1,
        [role(Kind::Busy, Begin::Awake), role(Kind::Worker, Begin::FallingAsleep)],
        [|w| { w.push_job(0, 0); NOTHING }], [];
    /// A worker shares a job and then comes back to it; the other is about to wait for a latch, and may
    /// overlook the job.
    JobOfReturningWorker: 1,
        [role(Kind::Busy, Begin::Awake), role(Kind::Waiter, Begin::Awake)],
        [|w| w.push_job_and_come_back(0, 0)], [];
    /// A worker shares a job and will not come back to it; the other is about to wait for a latch.
    JobOfBlockingWorker: 1,
        [role(Kind::Busy, Begin::Awake), role(Kind::Waiter, Begin::Awake)],
        [|w| { w.push_job_and_block(0, 0); NOTHING }], [];
    /// A worker shares a job and will not come back to it; the other is about to fall asleep.
    JobOfBlockingWorkerAgainstSleeper: 1,
        [role(Kind::Busy, Begin::Awake), role(Kind::Worker, Begin::FallingAsleep)],
        [|w| { w.push_job_and_block(0, 0); NOTHING }], [];
    /// A worker shares a job and will not come back to it. It has posted another job before, for which it
    /// woke no worker. The other worker sleeps.
    JobsOfBlockingWorker: 2,
        [role(Kind::Busy, Begin::Awake), role(Kind::Worker, Begin::FastAsleep)],
        [|w| { w.push_short_job(0, 1); w.push_job_and_block(0, 0); NOTHING }], [];
    /// A worker shares a job and is then busy for ever; the other searches, and is stuck in a task that it
    /// finds; a third waits for a latch.
    JobAgainstSearcherAndWaiter: 2,
        [role(Kind::Busy, Begin::Awake), stuck(Kind::Worker, Begin::Searching),
            role(Kind::Waiter, Begin::Asleep)],
        [|w| { w.push_task(1); NOTHING }, |w| { w.push_job(0, 0); NOTHING }], [1];
    /// A worker searches and is stuck in one of two tasks, and an injected job comes from outside; another
    /// worker waits.
    TasksAndInjectedAgainstSearcher: 3,
        [stuck(Kind::Worker, Begin::Searching), role(Kind::Waiter, Begin::Asleep)],
        [|w| { w.push_tasks(&[1, 2]); NOTHING }, |w| { w.push_injected(0, Work::Job); NOTHING }], [1, 2];
    /// An injected job's push has picked a waiter, and its latch is set; another waiter sleeps.
    NotifiedAndSet: 1,
        [role(Kind::Waiter, Begin::Asleep), role(Kind::Waiter, Begin::Asleep)],
        [|w| { w.set_latch(0); NOTHING }, |w| { w.push_injected(0, Work::Job); NOTHING }], [];
    /// An injected job's push has picked a waiter, which is stuck in another job; another waiter sleeps.
    NotifiedAndTempted: 2,
        [stuck(Kind::Waiter, Begin::FallingAsleep), role(Kind::Waiter, Begin::FastAsleep),
            role(Kind::Busy, Begin::Awake)],
        [|w| { w.push_short_job(2, 1); NOTHING }, |w| { w.push_injected(0, Work::Job); NOTHING }], [1];
    /// An injected job's push has picked a waiter that may not run it; another may.
    ErrandOfAnother: 1,
        [isolated(Begin::Asleep), role(Kind::Waiter, Begin::FastAsleep)],
        [|w| { w.push_injected(0, Work::Job); NOTHING }], [];
    /// An injected job's push has picked a waiter that may not run it; another, whose index is lower, is
    /// about to wait for a latch.
    ErrandOfOneBefore: 1,
        [role(Kind::Waiter, Begin::Awake), isolated(Begin::Asleep)],
        [|w| { w.push_injected(0, Work::Job); NOTHING }], [];
    /// An injected job's push has picked a waiter that may not run it, and no other waiter may. The job is
    /// left to a worker that has no time now.
    ErrandOfNobody: 1,
        [isolated(Begin::FastAsleep), isolated(Begin::FastAsleep)],
        [|w| { w.push_injected(0, Work::Job); NOTHING }], [0];
    /// A latch is set while its owner falls asleep, and an injected job takes the owner's bit.
    LatchAgainstOwner: 1,
        [role(Kind::Waiter, Begin::Awake)],
        [|w| { w.set_latch(0); NOTHING }, |w| { w.push_injected(0, Work::Job); NOTHING }], [0];
    /// No thread pushes, but the latch is set.
    LatchAlone: 0, [role(Kind::Waiter, Begin::Awake)], [|w| { w.set_latch(0); NOTHING }], [];
    /// A task comes from outside while the only worker is about to wait for a latch, and a spare one rests.
    TaskAgainstWaiter: 1,
        [role(Kind::Waiter, Begin::Awake), role(Kind::Worker, Begin::Resting)],
        [|w| { w.push_task(0); NOTHING }], [];
    /// A task comes from outside while one worker falls asleep and the other is busy for ever.
    TaskAgainstSleeper: 1,
        [role(Kind::Busy, Begin::Awake), role(Kind::Worker, Begin::Awake)],
        [|w| { w.push_task(0); NOTHING }], [];
    /// A task comes from outside while a spare worker that searches is one too many, and the only other
    /// worker waits for a latch.
    TaskAgainstSurplus: 1,
        [role(Kind::Waiter, Begin::Asleep), role(Kind::Worker, Begin::Surplus)],
        [|w| { w.push_task(0); NOTHING }], [];
    /// A worker wakes by itself and is stuck at once. An injected job's pusher finds this worker counted but
    /// without a bit. Meanwhile a task's pusher relies on the job's pusher. Two workers wait for latches, and
    /// a spare one rests.
    TaskLeftToAPusher: 2,
        [role(Kind::Busy, Begin::Asleep), stuck(Kind::Waiter, Begin::FastAsleep),
            role(Kind::Waiter, Begin::FastAsleep), role(Kind::Worker, Begin::Resting)],
        [|w| wake_by_itself(w), |w| { w.push_task(0); NOTHING },
            |w| { w.push_injected(1, Work::Job); NOTHING }], [1];
    /// A worker wakes by itself and is stuck at once. A task's pusher finds this worker counted but without a
    /// bit. Meanwhile an injected job's pusher relies on the task's pusher. Another worker waits for a latch.
    JobLeftToAPusher: 2,
        [role(Kind::Busy, Begin::Asleep), role(Kind::Waiter, Begin::FastAsleep)],
        [|w| wake_by_itself(w), |w| { w.push_injected(0, Work::Job); NOTHING },
            |w| { w.push_task(1); NOTHING }], [1];
    /// A task comes, and the worker that searches is stuck: the monitor looks again.
    TaskLeftToStuckSearcher: 1,
        [role(Kind::Busy, Begin::Searching), role(Kind::Worker, Begin::Asleep)],
        [|w| { w.push_task(0); w.notify_anyway(); NOTHING }], [];
    /// An injected job comes, and the worker that searches is stuck: the monitor looks again.
    InjectedLeftToStuckSearcher: 1,
        [role(Kind::Busy, Begin::Searching), role(Kind::Waiter, Begin::Asleep)],
        [|w| { w.push_injected(0, Work::Job); w.notify_anyway(); NOTHING }], [];
    /// A task comes while the monitor looks for a worker to wake, and finds none: a spare worker rests.
    TaskLeftToTheMonitor: 1,
        [role(Kind::Waiter, Begin::FastAsleep), role(Kind::Worker, Begin::Resting)],
        [|w| { w.notify_anyway(); NOTHING }, |w| { w.push_task(0); NOTHING }], [];
    /// An injected job comes while the monitor looks for a worker to wake, and finds none.
    InjectedLeftToTheMonitor: 1,
        [role(Kind::Waiter, Begin::FastAsleep), role(Kind::Worker, Begin::Resting)],
        [|w| { w.notify_anyway(); NOTHING }, |w| { w.push_injected(0, Work::Job); NOTHING }], [];
}

fn wake_by_itself<P: Protocol>(world: &World<P>) -> Vec<usize> {
    if !world.idle.end_sleep(0) {
        world.stop_searching();
    }
    Vec::new()
}

/// A thread has posted since the last worker got sleepy, so the next post may be one load.
const ODD: u32 = 1;
/// The last even number before the roll-over, and the odd one.
const LAST_EVEN: u32 = u32::MAX - 1;
const LAST: u32 = u32::MAX;

/// The real protocol passes, and so does the twin without a fault.
macro_rules! passes {
    ($($name:ident: $story:ident from $events:expr;)*) => {$(
        #[test]
        fn $name() {
            $story::tell(|| Idle::with_events(2, 4, $events), Slip::None);
            $story::tell(|| Twin::new(Fault::None, $events), Slip::None);
        }
    )*};
}

passes! {
    a_job_is_not_missed_by_a_worker_that_falls_asleep: InjectedAgainstSleeper from ODD;
    an_injected_job_is_not_left_to_a_sleeper_and_a_waiter: InjectedAgainstSleeperAndWaiter from 0;
    a_job_is_not_missed_by_a_worker_that_begins_to_wait: InjectedAgainstWaiter from ODD;
    a_job_is_not_missed_by_a_sleeper_when_its_post_moves_the_counter: InjectedAgainstSleeper from 0;
    an_injected_job_is_not_missed_after_the_counter_has_rolled_over: InjectedAgainstRolledOverWaiter from ODD;
    two_injected_jobs_find_two_waiters: TwoInjectedForTwoWaiters from 0;
    a_posted_job_is_not_missed_by_a_worker_that_begins_to_wait: JobAgainstWaiter from 0;
    a_posted_job_is_not_missed_by_a_worker_that_falls_asleep: JobAgainstSleeper from 0;
    a_job_that_may_be_overlooked_is_run_by_its_maker: JobOfReturningWorker from ODD;
    a_posted_job_is_not_left_to_a_searcher_that_finds_other_work: JobAgainstSearcherAndWaiter from 0;
    a_searcher_that_finds_a_task_sees_to_jobs_too: TasksAndInjectedAgainstSearcher from 0;
    a_waiter_whose_latch_is_set_passes_an_injected_job_on: NotifiedAndSet from 0;
    a_waiter_that_takes_another_job_passes_an_injected_job_on: NotifiedAndTempted from 0;
    a_latch_wakes_its_owner_whichever_thread_takes_its_bit: LatchAgainstOwner from 0;
    a_latch_wakes_its_owner: LatchAlone from 0;
    a_task_reaches_a_spare_worker_while_the_only_one_waits: TaskAgainstWaiter from 0;
    a_task_is_not_missed_by_a_worker_that_falls_asleep: TaskAgainstSleeper from 0;
    a_task_left_to_a_spare_worker_that_goes_to_rest_is_found: TaskAgainstSurplus from 0;
    a_task_left_to_a_pusher_reaches_a_spare_worker: TaskLeftToAPusher from 0;
    a_job_left_to_a_pusher_reaches_a_waiter: JobLeftToAPusher from 0;
    a_job_of_a_worker_that_blocks_is_not_missed_by_one_that_begins_to_wait: JobOfBlockingWorker from ODD;
    a_job_of_a_worker_that_blocks_is_not_missed_whatever_the_counter: JobOfBlockingWorker from 0;
    a_job_of_a_worker_that_blocks_is_not_missed_by_a_sleeper: JobOfBlockingWorkerAgainstSleeper from ODD;
    jobs_of_a_worker_that_blocks_wake_a_sleeper: JobsOfBlockingWorker from 0;
    a_waiter_that_may_not_run_an_injected_job_leaves_it_to_another: ErrandOfAnother from 0;
    an_errand_is_not_missed_by_one_before: ErrandOfOneBefore from ODD;
    an_errand_that_nobody_may_run_ends: ErrandOfNobody from 0;
    a_task_left_to_a_stuck_searcher_is_found: TaskLeftToStuckSearcher from 0;
    an_injected_job_left_to_a_stuck_searcher_reaches_a_waiter: InjectedLeftToStuckSearcher from 0;
    a_task_left_to_the_monitor_reaches_a_spare_worker: TaskLeftToTheMonitor from 0;
    an_injected_job_left_to_the_monitor_reaches_a_waiter: InjectedLeftToTheMonitor from 0;
    the_counter_rolls_over_under_a_sleeper: InjectedAgainstSleeper from LAST;
    the_counter_rolls_over_under_a_waiter: InjectedAgainstWaiter from LAST;
    the_counter_becomes_odd_for_the_last_time: JobAgainstWaiter from LAST_EVEN;
    the_counter_rolls_over_under_a_sleeper_and_a_waiter: InjectedAgainstSleeperAndWaiter from LAST;
}

/// A twin for each fault, and the story that must refuse it.
macro_rules! refused {
    ($($name:ident: $story:ident($fault:ident, $slip:ident) from $events:expr, $text:literal;)*) => {$(
        #[test]
        #[should_panic(expected = $text)]
        fn $name() {
            $story::tell(|| Twin::new(Fault::$fault, $events), Slip::$slip);
        }
    )*};
}

refused! {
    a_job_pushed_without_a_fence_to_a_sleeper: InjectedAgainstSleeper(PushesWithoutFence, None) from ODD,
        "an injected job is left to sleepers";
    a_job_pushed_without_a_fence_to_a_waiter: InjectedAgainstWaiter(PushesWithoutFence, None) from ODD,
        "an injected job is left to sleepers";
    a_sleeper_without_a_fence: InjectedAgainstSleeper(SleepsWithoutFence, None) from ODD,
        "an injected job is left to sleepers";
    a_waiter_without_a_fence: TaskAgainstWaiter(WaitsWithoutFence, None) from 0, "a task is left to sleepers";
    a_sleeper_that_looks_once: InjectedAgainstSleeper(None, LooksOnce) from ODD,
        "an injected job is left to sleepers";
    a_waiter_that_looks_once_when_the_counter_has_rolled_over:
        InjectedAgainstRolledOverWaiter(None, LooksOnce) from ODD,
        "an injected job is left to sleepers";
    a_sleeper_that_leaves_out_the_deques: JobAgainstSleeper(None, LooksNotInDeques) from 0,
        "a child job is left to sleepers";
    a_job_whose_post_finds_the_counter_odd: JobAgainstWaiter(None, None) from ODD,
        "a child job is left to sleepers";
    a_waiter_that_compares_nothing: JobAgainstWaiter(ComparesNothing, None) from 0,
        "a child job is left to sleepers";
    a_waiter_that_compares_without_writing: JobAgainstWaiter(ComparesByLoad, None) from 0,
        "a child job is left to sleepers";
    a_waiter_that_shows_its_bit_late: JobAgainstWaiter(ShowsBitLate, None) from 0,
        "a child job is left to sleepers";
    a_waiter_that_keeps_its_bit: LatchAlone(KeepsBit, None) from 0, "a bit was left set";
    a_sleeper_that_is_counted_out_twice: InjectedAgainstSleeper(CountsOutTwice, None) from 0,
        "the counts are wrong at rest";
    a_waiter_whose_latch_is_set_and_that_tells_no_thread: NotifiedAndSet(None, PassesNothingOn) from 0,
        "an injected job is left to sleepers";
    a_waiter_that_takes_another_job_and_tells_nobody: NotifiedAndTempted(None, PassesNothingOn) from 0,
        "an injected job is left to sleepers";
    a_latch_set_after_a_look: LatchAlone(None, SetsAfterALook) from 0,
        "a waiter sleeps although its latch is set";
    a_task_whose_pusher_admits_nobody: TaskAgainstWaiter(None, PusherAdmitsNobody) from 0,
        "a task is left to sleepers";
    a_waiter_that_admits_nobody: TaskAgainstWaiter(None, WaiterAdmitsNobody) from 0,
        "a task is left to sleepers";
    a_task_pushed_without_a_fence: TaskAgainstSleeper(PushesWithoutFence, None) from 0,
        "a task is left to sleepers";
    a_searcher_that_looks_for_tasks_first: TasksAndInjectedAgainstSearcher(None, LooksForTasksFirst) from 0,
        "a task is left to sleepers";
    a_spare_worker_that_rests_quietly: TaskAgainstSurplus(None, RestsQuietly) from 0,
        "a task is left to sleepers";
    a_pusher_that_forgets_a_task_left_to_it: TaskLeftToAPusher(GivesBackSilently, None) from 0,
        "a task is left to sleepers";
    a_pusher_that_forgets_a_job_left_to_it: JobLeftToAPusher(GivesBackSilently, None) from 0,
        "a task is left to sleepers";
    a_job_of_a_worker_that_blocks_without_a_fence: JobOfBlockingWorker(PushesWithoutFence, None) from ODD,
        "a child job is left to sleepers";
    a_waiter_that_gets_sleepy_without_a_fence: JobOfBlockingWorker(None, LooksWithoutFence) from ODD,
        "a child job is left to sleepers";
    a_glance_at_the_counter_alone: JobsOfBlockingWorker(GlancesAtCounterAlone, None) from 0,
        "a child job is left to sleepers";
    a_glance_past_waiters: TaskAgainstWaiter(None, GlancesPastWaiters) from 0, "a task is left to sleepers";
    a_glance_before_the_fence: TaskAgainstSleeper(None, GlancesEarly) from 0, "a task is left to sleepers";
    a_waiter_that_may_not_run_an_injected_job_and_tells_nobody: ErrandOfAnother(None, PassesNothingOn) from 0,
        "an injected job is left to sleepers";
    an_errand_without_end: ErrandOfNobody(None, PassesErrandToAll) from 0,
        "workers that may not run a job wake each other for ever";
    a_task_whose_monitor_relies_on_a_stuck_searcher:
        TaskLeftToStuckSearcher(None, ReliesOnStuckSearcher) from 0,
        "a task is left to sleepers";
    an_injected_job_whose_monitor_relies_on_a_stuck_searcher:
        InjectedLeftToStuckSearcher(None, ReliesOnStuckSearcher) from 0,
        "an injected job is left to sleepers";
    a_monitor_that_forgets_a_task_left_to_it: TaskLeftToTheMonitor(None, GivesUpQuietly) from 0,
        "a task is left to sleepers";
    a_monitor_that_forgets_an_injected_job_left_to_it: InjectedLeftToTheMonitor(None, GivesUpQuietly) from 0,
        "an injected job is left to sleepers";
    a_counter_that_is_carried_into_the_counts: InjectedAgainstSleeper(CarriesIntoCounts, None) from LAST,
        "the counts are wrong at rest";
}
