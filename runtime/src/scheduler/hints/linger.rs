//! Lingering (spin, then park): how a worker without work waits awake for outside threads that keep it busy.
//!
//! A thread that spawns or wakes from outside is about as fast as the worker that runs its tasks. So the
//! worker runs out of work again and again. Each time that the worker then sleeps, the thread pays for the
//! wake, which costs more than 20 tasks. A thread that spawns a task, waits for it in `block_on`, and spawns
//! the next, pays for two wakes each time.
//!
//! **The worker lingers**: it spins (`patience.rs`) before it sleeps, if threads outside soon ended its last
//! sleep, or its last lingering. Meanwhile it is a searcher, like any worker that looks in one queue after
//! the other. Pushers rely on it. It leaves the searchers by finding work (UncountSearcher) or by going to
//! sleep (CountSleeper), and looks again after CountSleeper (SleepLook of `idle.rs`). So no work that relies
//! on it is lost. It looks in every queue again and again, so no work waits until it stops spinning. A worker
//! that may not join the searchers does not linger. No worker lingers if that would make events late, that
//! is, if descriptors are registered and no worker is the poller. (Timers may be late by as long as a worker
//! lingers.)
//!
//! **The worker lets tasks gather** if they come faster than one look takes: [`FLOOD`] batches of fewer than
//! [`SMALL`] tasks. In such a flood, worker and thread compete for the cache line of the injector's lock, and
//! for other data that the tasks share, task by task. So the worker waits until [`MANY`] tasks have come, at
//! most for [`LONGEST_GATHERING`], which is less than a wake takes. If few have come, it was no flood, and
//! the worker assumes one again only after [`VAIN`] more small batches. Any wait in between begins the count
//! anew.
//!
//! Rejected: the worker sleeps on, and the thread counts its pushes and wakes the worker at some number. If
//! the pusher then does something else, no thread sees to the tasks below that number.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::loom::hint;
use crate::scheduler::shared::Shared;
use crate::util::patience::Patience;

/// How long a worker spins at most.
const LONGEST_WAIT: Duration = Duration::from_micros(50);
/// A batch of fewer tasks is small: it is hardly worth the lock.
const SMALL: usize = 8;
/// So many small batches, without a wait for work in between, count as a flood.
const FLOOD: i32 = 4;
/// How many more small batches are needed after a wrong guess.
const VAIN: i32 = 60;
/// How many tasks the worker lets gather.
const MANY: usize = 128;
/// How long the worker lets tasks gather at most.
const LONGEST_GATHERING: Duration = Duration::from_micros(10);
/// Spin pauses between two looks at the number of tasks.
const PAUSES: u32 = 8;

/// What a worker remembers of the work from outside. Only its own thread touches this.
#[derive(Debug)]
pub struct Linger {
    patience: Patience,
    /// The worker's tick when it last lingered. It does not linger again until it has run something.
    tick: Cell<u64>,
    /// Small batches since the last wait for work. Begins at `-VAIN` after a wrong guess.
    small_batches: Cell<i32>,
}

impl Linger {
    pub fn new() -> Self {
        Self { patience: Patience::new(LONGEST_WAIT), tick: Cell::new(u64::MAX), small_batches: Cell::new(0) }
    }

    /// The worker sleeps.
    pub fn sleeps(&self) {
        self.begin_count();
    }

    /// The worker was notified after it had slept for `time`.
    pub fn was_woken(&self, shared: &Shared, time: Duration) {
        match shared.injector.is_empty() {
            true => self.patience.forget(),
            false => self.patience.slept(time),
        }
    }

    /// Waits for work, if some is likely to come soon. Returns whether work has come. Worker `own` searches,
    /// or is the only worker.
    pub fn wait(&self, shared: &Shared, own: usize) -> bool {
        let tick = shared.processor(own).tick();
        if !self.patience.is_worth_it() || self.tick.replace(tick) == tick {
            return false;
        }
        let driver = &shared.driver;
        if driver.io().is_some_and(|io| io.has_sources()) && driver.poller().is_none() {
            return false;
        }
        let mut looks = 0;
        let is_over = || {
            looks += 1;
            shared.has_visible_tasks() || shared.idle.is_job_posted() || shared.lifecycle.has_begun()
        };
        let has_work = self.patience.wait(|| shared.crowd.is_overrun(), is_over);
        if looks > 1 {
            self.begin_count();
        }
        has_work
    }

    fn begin_count(&self) {
        self.small_batches.set(self.small_batches.get().min(0));
    }

    /// Called before the worker takes a batch from the injector: waits for more tasks, if they come quickly.
    /// Returns whether it waited.
    #[inline]
    pub fn gathers(&self, shared: &Shared) -> bool {
        let is_flood = self.small_batches.get() >= FLOOD;
        if is_flood {
            gather(shared);
        }
        is_flood
    }

    /// The worker took a batch of `count` tasks. `has_waited`: it let tasks gather before.
    pub fn took(&self, count: usize, has_waited: bool) {
        if count < SMALL {
            self.small_batches.set(if has_waited { -VAIN } else { self.small_batches.get() + 1 });
        }
    }
}

#[cold]
fn gather(shared: &Shared) {
    let start = Instant::now();
    while shared.injector.len() < MANY && start.elapsed() < LONGEST_GATHERING {
        (0..PAUSES).for_each(|_| hint::spin_loop());
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::{AcqRel, Acquire};

    use super::*;
    use crate::{Builder, Runtime};

    fn one_worker() -> Runtime {
        Builder::new_multi_thread().worker_threads(1).build().unwrap()
    }

    #[test]
    fn a_worker_that_is_asked_again_and_again_does_not_sleep_in_between() {
        const ROUNDS: u64 = 200;
        if std::thread::available_parallelism().unwrap().get() == 1 {
            // The thread that asks cannot run while the worker waits for it.
            return;
        }
        let runtime = one_worker();
        let shared = runtime.handle().shared();
        shared.crowd.pretend_cpus(usize::MAX);
        let parks = || shared.processor(0).metrics.parks.get();
        let begin = Instant::now();
        loop {
            let before = parks();
            for _ in 0..ROUNDS {
                runtime.block_on(runtime.spawn(async {})).unwrap();
            }
            // On a machine with other work the answers may be late for a while.
            if parks() - before < ROUNDS / 2 {
                return;
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "it sleeps after each task");
        }
    }

    #[test]
    fn a_worker_that_nobody_asks_any_more_sleeps() {
        let runtime = one_worker();
        let shared = runtime.handle().shared();
        for _ in 0..200 {
            runtime.block_on(runtime.spawn(async {})).unwrap();
        }
        let begin = Instant::now();
        while shared.idle.counts() != (0, 1) {
            assert!(begin.elapsed() < Duration::from_secs(60), "it waits for ever");
            std::thread::yield_now();
        }
    }

    #[test]
    fn small_batches_in_a_row_are_a_flood_until_waiting_brings_no_more() {
        let runtime = one_worker();
        let shared = runtime.handle().shared();
        let linger = Linger::new();
        for _ in 0..FLOOD {
            assert!(!linger.gathers(shared));
            linger.took(SMALL - 1, false);
        }
        assert!(linger.gathers(shared));
        linger.took(SMALL, true);
        assert!(linger.gathers(shared));
        linger.took(SMALL - 1, true);
        for _ in 0..VAIN + FLOOD {
            assert!(!linger.gathers(shared), "it was wrong");
            linger.took(1, false);
        }
        assert!(linger.gathers(shared));
    }

    #[test]
    fn small_batches_with_a_sleep_in_between_are_no_flood() {
        let runtime = one_worker();
        let shared = runtime.handle().shared();
        let linger = Linger::new();
        for _ in 0..3 * FLOOD {
            linger.sleeps();
            assert!(!linger.gathers(shared));
            linger.took(1, false);
        }
    }

    /// Much less than the monitor needs to find a worker stuck.
    const SOON: Duration = Duration::from_micros(1500);

    /// How long the first of two tasks from outside waits for the other, behind a flood of tiny ones. Each
    /// keeps its worker until both run.
    fn time_to_meet(runtime: &Runtime) -> Duration {
        let flood: Vec<_> = (0..2000).map(|_| runtime.spawn(async {})).collect();
        let started = Arc::new(AtomicUsize::new(0));
        let pair = [(); 2].map(|()| {
            let started = started.clone();
            runtime.spawn(async move {
                let begin = Instant::now();
                started.fetch_add(1, AcqRel);
                while started.load(Acquire) < 2 {
                    std::thread::yield_now();
                }
                begin.elapsed()
            })
        });
        let times = pair.map(|task| runtime.block_on(task).unwrap());
        flood.into_iter().for_each(|task| runtime.block_on(task).unwrap());
        times[0].max(times[1])
    }

    #[test]
    fn tasks_from_outside_that_turn_out_long_get_both_workers_at_once() {
        let runtime = Builder::new_multi_thread().worker_threads(2).build().unwrap();
        let (begin, mut soon, mut late) = (Instant::now(), 0, Vec::new());
        while soon < 20 {
            match time_to_meet(&runtime) {
                time if time < SOON => soon += 1,
                // The machine has other work.
                _ if runtime.handle().shared().crowd.is_overrun() => {}
                time => late.push(time),
            }
            assert!(
                late.len() < 200 && begin.elapsed() < Duration::from_secs(120),
                "soon: {soon}; late: {late:?}"
            );
        }
    }
}
