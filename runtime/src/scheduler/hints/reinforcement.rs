//! The wake throttle: whether to wake another worker for the tasks that a turn of the driver has woken.
//!
//! A turn may bring dozens of tasks, and a sleeping worker could take half of them. If a CPU is idle, it
//! should. If no CPU is idle, the running threads are mostly the clients that have sent the events and wait
//! for the answers. A second worker only hinders them. It pushes them off their CPU, and takes events that
//! the first worker would have taken in bulk. From then on each worker finds one event at a time, and sleeps
//! and wakes for each. (64 echoing connections of a client on the same two CPUs: 150 sleeps for 1000 requests
//! instead of 1, a sixth fewer requests, the latency at p99 doubled.)
//!
//! So the worker asks the system for an idle CPU before it wakes another worker. The answer holds for one
//! moment, and a client that waits for its first answer leaves a CPU idle for a few microseconds. So after
//! the system had no idle CPU, the worker has to see one [`LOOKS`] times in a row, [`SHORT`] apart. A worker
//! that got no help goes on with its tasks, and asks again between two of them. While there is no idle CPU,
//! looks become rarer ([`LONG`] apart in the end), because each is a system call. So where help makes sense,
//! it comes after at most `LONG + LOOKS * SHORT` and a few polls.
//!
//! **Which work is worth a wake.** A turn of timers may bring dozens of tasks that end before another thread
//! is awake, and the wake costs as much as dozens of such tasks. So a worker estimates its poll time from
//! recent polls, and remembers long polls longest. It wakes no other worker for less work than [`WORTH`]. It
//! asks again after a few tasks, as above, and knows better then. If a task turns out long, help for the
//! tasks behind it comes when that task ends.
//!
//! **Not beside long polls.** While the monitor has found a worker inside of a long poll within the last
//! second, a worker wakes another one without asking (`next_work.rs`). One turn may bring a request that
//! computes for milliseconds and, behind it, requests that do not. The worker would ask again only when the
//! computation is over, and the monitor comes to the rest after 2.5 ms at the earliest.
//!
//! Beside long polls a worker also wakes another one if it comes from the driver with a single task, and no
//! worker is the poller. If that task computes, events and timers would wait for its end although another
//! worker sleeps. Without long polls this wake would be a waste: a worker is back at the driver before the
//! other one is awake.
//!
//! (64 connections, every tenth request computes for 5 ms, two workers on two CPUs: the others had a p50 and
//! p99 of 5 and 11 to 14 ms; with the first rule 0.07 and 4.6; with both 0.07 and 0.6 to 1.3. Tokio: 0.5 and
//! 4.8.)
//!
//! Only speed depends on the answer. The tasks are in the worker's own ring, to which it comes back. If it
//! does not, because of a long poll, the monitor sees it.
//!
//! # Rejected
//! - Asking how long the worker itself waits for CPUs: the client waits, not the worker.
//! - Comparing the turn's work with the cost of a wake: the turns are worth 100 µs and more, with idle CPUs
//!   and without.
//! - Never waking another worker: where a request takes 100 µs of computing, one worker does half as much as
//!   two.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// How many looks in a row must find an idle CPU, after a look found none.
const LOOKS: u32 = 3;
/// How long a look stays valid that found an idle CPU, or that is the first to find none.
const SHORT: Duration = Duration::from_micros(50);
/// How long a look stays valid at most.
const LONG: Duration = Duration::from_micros(200);
/// If the worker finishes the work in less time, it wakes no other worker.
const WORTH: Duration = Duration::from_micros(30);
/// The assumed time of a poll before any was measured.
const UNKNOWN: Duration = Duration::from_millis(1);
/// Tasks between two questions, if the tasks are short.
const PAUSE: u32 = 4;
/// The time that [`PAUSE`] short tasks take at most.
const SHORT_TASKS: Duration = Duration::from_micros(20);

/// What one worker knows of the load on the CPUs.
#[derive(Debug)]
pub struct Reinforcement {
    /// When the worker asked last, and when it looked last.
    asked_at: Cell<Option<Instant>>,
    looked_at: Cell<Option<Instant>>,
    /// How long that look stays valid.
    is_good_for: Cell<Duration>,
    /// How many looks have to find an idle CPU before the worker believes them.
    doubts: Cell<u32>,
    /// Tasks until the worker asks again.
    pause: Cell<u32>,
    /// The estimated time of a poll, from recent measurements.
    pace: Cell<Duration>,
    /// The tick at the last sleep.
    slept_at: Cell<u64>,
    /// Since when, and since which tick, tasks wait that were not worth a wake.
    began: Cell<Option<(Instant, u64)>>,
}

impl Reinforcement {
    pub fn new() -> Self {
        Self {
            asked_at: Cell::new(None),
            looked_at: Cell::new(None),
            is_good_for: Cell::new(SHORT),
            doubts: Cell::new(0),
            pause: Cell::new(1),
            pace: Cell::new(UNKNOWN),
            slept_at: Cell::new(0),
            began: Cell::new(None),
        }
    }

    /// The worker, at tick `tick`, is about to sleep, after having been busy for `busy`.
    pub fn sleeps(&self, tick: u64, busy: Duration) {
        self.began.set(None);
        if let Some(sample) = pace(tick.wrapping_sub(self.slept_at.replace(tick)), busy) {
            self.pace.set(sample.max(self.pace.get() - self.pace.get() / 8));
        }
    }

    /// Whether `waiting` tasks are enough to wake another worker for, at `now`, with the worker's tick at
    /// `tick`.
    pub fn is_worth(&self, now: Instant, tick: u64, waiting: usize) -> bool {
        if let Some((began, first)) = self.began.get() {
            let sample = pace(tick.wrapping_sub(first), now.saturating_duration_since(began));
            self.pace.set(self.pace.get().max(sample.unwrap_or_default()));
        }
        let is_worth = self.pace.get().saturating_mul(waiting as u32) >= WORTH;
        if !is_worth {
            self.began.set(Some((now, tick)));
        }
        is_worth
    }

    /// The worker asks for help at `now`. This decides the [`pause`](Self::pause) before it asks again.
    pub fn ask(&self, now: Instant) {
        self.pause.set(if is_within(&self.asked_at, now, SHORT_TASKS) { PAUSE } else { 1 });
        self.asked_at.set(Some(now));
    }

    /// Whether there is an idle CPU for another worker at `now`. Calls `has_room`, unless its last answer is
    /// still valid.
    pub fn is_welcome(&self, now: Instant, has_room: impl FnOnce() -> bool) -> bool {
        if !is_within(&self.looked_at, now, self.is_good_for.get()) {
            self.looked_at.set(Some(now));
            self.note(has_room());
        }
        self.doubts.get() == 0
    }

    fn note(&self, has_room: bool) {
        let doubts = self.doubts.get();
        if has_room {
            self.doubts.set(doubts.saturating_sub(1));
            self.is_good_for.set(SHORT);
        } else {
            self.doubts.set(LOOKS);
            self.is_good_for.set(if doubts == LOOKS { LONG.min(self.is_good_for.get() * 2) } else { SHORT });
        }
    }

    /// The number of tasks after which the worker should ask again.
    pub fn pause(&self) -> u32 {
        self.pause.get()
    }
}

/// Whether `at` was less than `limit` before `now`.
fn is_within(at: &Cell<Option<Instant>>, now: Instant, limit: Duration) -> bool {
    at.get().is_some_and(|at| now.saturating_duration_since(at) < limit)
}

/// The time of one poll, if `polls` polls took `passed`. `None` if there was no poll.
pub(super) fn pace(polls: u64, passed: Duration) -> Option<Duration> {
    passed.checked_div(u32::try_from(polls).unwrap_or(u32::MAX))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::iter;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::scheduler::context;
    use crate::scheduler::worker::Worker;
    use crate::{Builder, Runtime, time};

    /// The answers, one interval after the other, if the looks find `looks`.
    fn answers<const N: usize>(looks: [bool; N]) -> Vec<bool> {
        let reinforcement = Reinforcement::new();
        let start = Instant::now();
        let ask = |(number, has_room)| reinforcement.is_welcome(start + LONG * number, || has_room);
        (0..).zip(looks).map(ask).collect()
    }

    #[test]
    fn room_is_believed_at_once_unless_it_was_crowded() {
        assert_eq!(answers([true, false, true, true, true]), [true, false, false, false, true]);
    }

    #[test]
    fn a_crowd_in_between_starts_the_count_anew() {
        let looks = [false, true, true, false, true, true, true];
        assert_eq!(answers(looks), [false, false, false, false, false, false, true]);
    }

    #[test]
    fn looks_become_rarer_while_it_is_crowded() {
        let reinforcement = Reinforcement::new();
        let start = Instant::now();
        let looks_at = |times: [u32; 8], has_room| {
            times.map(|micros| {
                let mut has_looked = false;
                reinforcement.is_welcome(start + Duration::from_micros(micros.into()), || {
                    has_looked = true;
                    has_room
                });
                has_looked
            })
        };
        let crowded = looks_at([0, 49, 50, 149, 150, 349, 350, 549], false);
        assert_eq!(crowded, [true, false, true, false, true, false, true, false]);
        let roomy = looks_at([550, 599, 600, 649, 650, 699, 700, 749], true);
        assert_eq!(roomy, [true, false, true, false, true, false, true, false]);
    }

    #[test]
    fn long_tasks_make_it_ask_after_each() {
        let reinforcement = Reinforcement::new();
        let mut now = Instant::now();
        let pauses = [0, 3, 19, 20, 1_000, 3].map(|micros| {
            now += Duration::from_micros(micros);
            reinforcement.ask(now);
            reinforcement.pause()
        });
        assert_eq!(pauses, [1, 4, 4, 1, 1, 4]);
    }

    #[test]
    fn many_short_tasks_and_few_long_ones_are_worth_it() {
        let reinforcement = Reinforcement::new();
        let now = Instant::now();
        assert!(reinforcement.is_worth(now, 0, 2), "nothing is known");
        let mut tick = 0;
        let mut sleeps = |polls, each| {
            tick += u64::from(polls);
            reinforcement.sleeps(tick, Duration::from_nanos(each) * polls);
        };
        (0..100).for_each(|_| sleeps(10, 300));
        assert!(!reinforcement.is_worth(now, 1_000, 99));
        assert!(reinforcement.is_worth(now, 1_000, 100));
        // One poll in ten takes 40 µs: the estimate does not forget that for some time.
        sleeps(10, 4_300);
        (0..5).for_each(|_| sleeps(10, 300));
        assert!(reinforcement.is_worth(now, 1_060, 20));
        (0..20).for_each(|_| sleeps(10, 300));
        assert!(!reinforcement.is_worth(now, 1_260, 20));
    }

    #[test]
    fn a_task_that_turns_out_long_makes_those_behind_it_worth_it() {
        let reinforcement = Reinforcement::new();
        (1..100).for_each(|turn| reinforcement.sleeps(turn * 10, Duration::from_micros(3)));
        let start = Instant::now();
        assert!(!reinforcement.is_worth(start, 990, 20));
        assert!(!reinforcement.is_worth(start + Duration::from_micros(1), 994, 16));
        assert!(reinforcement.is_worth(start + Duration::from_micros(16), 995, 15));
    }

    /// Two workers that look at the driver only when they run out of work.
    fn two_workers() -> Runtime {
        Builder::new_multi_thread().worker_threads(2).enable_all().event_interval(10_000).build().unwrap()
    }

    /// Makes one turn of the driver wake 40 tasks. Each task does `work` with its place in the order. Returns
    /// how often a worker has woken another one.
    fn turn(runtime: &Runtime, work: impl Fn(usize) + Send + Sync + 'static) -> u64 {
        let shared = runtime.handle().shared();
        let work = Arc::new((work, AtomicUsize::new(0)));
        let deadline = time::Instant::now() + Duration::from_millis(30);
        let tasks = iter::repeat_with(|| {
            let work = work.clone();
            runtime.spawn(async move {
                time::sleep_until(deadline).await;
                (work.0)(work.1.fetch_add(1, Relaxed));
            })
        });
        let tasks: Vec<_> = tasks.take(40).collect();
        let began = Instant::now();
        while shared.idle.counts() != (0, 2) {
            assert!(began.elapsed() < Duration::from_secs(60), "{:?}", shared.idle.counts());
            std::thread::yield_now();
        }
        let notifies = || (0..2).map(|worker| shared.processor(worker).metrics.notifies.get()).sum::<u64>();
        let before = notifies();
        tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
        notifies() - before
    }

    fn spin_for(time: Duration) {
        let start = Instant::now();
        while start.elapsed() < time {
            std::hint::spin_loop();
        }
    }

    /// How many other workers a worker wakes for 40 tasks from one turn of the driver, if the machine has
    /// `cpus` CPUs, and each of the worker's last polls took `pace`. None if the monitor has seen a long
    /// poll: then the worker asks neither question.
    fn wakes(cpus: usize, pace: Duration) -> Option<u64> {
        let runtime = two_workers();
        let handle = runtime.handle().clone();
        handle.shared().crowd.pretend_cpus(cpus);
        let turn = move |worker: &Worker| {
            let begin = Instant::now();
            while !handle.shared().idle.has_sleepers() {
                assert!(begin.elapsed() < Duration::from_secs(60), "the other worker does not sleep");
                std::thread::yield_now();
            }
            // So many that the estimate has forgotten all earlier polls.
            let tick = worker.processor().tick();
            (1..=100).for_each(|poll| worker.reinforcement.sleeps(tick + poll, pace));
            worker.dispatch(|_| (0..40).for_each(|_| _ = crate::spawn(async {})));
            let notifies = || worker.processor().metrics.notifies.get();
            let before = notifies();
            worker.share_ring();
            (!handle.shared().monitor.saw_long_polls()).then(|| notifies() - before)
        };
        let task = async move { context::with_worker(|worker| turn(worker.unwrap())) };
        runtime.block_on(runtime.spawn(task)).unwrap()
    }

    #[test]
    fn nobody_is_woken_for_a_turn_that_is_not_worth_it() {
        assert_somebody_can_be_woken();
        assert_nobody_is_woken(usize::MAX, Duration::ZERO);
    }

    #[test]
    fn nobody_is_woken_for_a_turn_while_no_cpu_is_idle() {
        assert_somebody_can_be_woken();
        assert_nobody_is_woken(0, WORTH);
    }

    fn assert_nobody_is_woken(cpus: usize, pace: Duration) {
        let counts: Vec<_> = (0..100).filter_map(|_| wakes(cpus, pace)).take(20).collect();
        assert!(!counts.is_empty(), "each time the monitor saw a long poll");
        assert!(counts.iter().all(|&count| count == 0), "{counts:?}");
    }

    fn assert_somebody_can_be_woken() {
        // The other worker may be awake by itself.
        let start = Instant::now();
        while wakes(usize::MAX, WORTH).is_none_or(|count| count == 0) {
            assert!(start.elapsed() < Duration::from_secs(60), "no thread is ever woken");
        }
    }

    #[test]
    fn another_worker_is_woken_for_a_turn_while_a_cpu_is_idle() {
        let runtime = two_workers();
        runtime.handle().shared().crowd.pretend_cpus(usize::MAX);
        // Both workers may be awake by themselves, if the system is slow to put one to sleep.
        let start = Instant::now();
        while turn(&runtime, |_| spin_for(WORTH)) == 0 {
            assert!(start.elapsed() < Duration::from_secs(60), "no thread is ever woken");
        }
    }

    #[test]
    fn beside_long_polls_a_worker_wakes_another_for_its_place_in_the_driver() {
        let runtime = two_workers();
        // How often a worker has woken another one when it came from the driver with one task.
        let wakes = || {
            let handle = runtime.handle().clone();
            let task = runtime.spawn(async move {
                let shared = handle.shared();
                let notifies =
                    || (0..2).map(|worker| shared.processor(worker).metrics.notifies.get()).sum::<u64>();
                let before = notifies();
                // The monitor may take it back, if it looks meanwhile.
                shared.monitor.set_saw_long_polls(true);
                time::sleep(Duration::from_millis(1)).await;
                notifies() - before
            });
            runtime.block_on(task).unwrap()
        };
        let start = Instant::now();
        while wakes() == 0 {
            assert!(start.elapsed() < Duration::from_secs(60), "no thread is ever woken");
        }
    }

    #[test]
    fn a_worker_that_got_no_help_asks_again_between_two_tasks() {
        let runtime = two_workers();
        let handle = runtime.handle().clone();
        let work = move |place: usize| {
            handle.shared().crowd.pretend_cpus(if place < 5 { 0 } else { usize::MAX });
            spin_for(LONG);
        };
        // As above: in some turns both workers may be awake anyway.
        let has_asked = (0..100).any(|_| {
            runtime.handle().shared().crowd.pretend_cpus(0);
            turn(&runtime, work.clone()) > 0
        });
        assert!(has_asked);
    }
}
