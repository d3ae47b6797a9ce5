//! Lingering: how a worker that runs dry waits awake for outside threads that keep it busy.
//!
//! A thread that spawns or wakes from outside is about as fast as a worker that runs what it pushes. So the
//! worker runs dry again and again. Each time that it then sleeps, the thread pays for the wake: more than
//! for 20 tasks. And a thread that waits in `block_on` for what it has spawned, and spawns the next, pays for
//! two wakes each time.
//!
//! **It lingers**: it waits awake (`patience.rs`) before it sleeps, if threads outside ended its last sleep
//! soon, or the last time it lingered. Meanwhile it is a searcher, like any worker that looks in one queue
//! after the other. Pushers rely on it, and it leaves the searchers by finding work (F1) or by going to sleep
//! (W1), behind which it looks again (W4 of `idle.rs`). So no work that relies on it is lost. As it looks in
//! every queue again and again, no work waits for the end of its patience. A worker that may not join the
//! searchers does not linger. No worker lingers where that would make events late: if descriptors are
//! registered and no worker sits in the driver. (Timers may be late by as much as a worker lingers.)
//!
//! **It lets tasks gather** where they come faster than one look takes: [`SMALL`] batches, [`FLOOD`] in a
//! row. Worker and thread then fight for the line of the injector's lock, and for whatever the tasks have in
//! common, task by task. The worker lets [`MANY`] come together, for [`LONGEST_GATHERING`] at most, which is
//! less than a wake would take. If few have come, it was no flood, and it takes [`VAIN`] more small batches
//! until the worker assumes a flood again. Any wait in between begins the count anew.
//!
//! Rejected: the worker sleeps on, and the thread counts what it has pushed and wakes the worker at some
//! number. No thread would answer for the tasks below that number if the pusher goes on to something else.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::loom::hint;
use crate::scheduler::shared::Shared;
use crate::util::patience::Patience;

/// How long a worker waits awake at most.
const LONGEST_WAIT: Duration = Duration::from_micros(50);
/// Tasks in a batch that is hardly worth the lock.
const SMALL: usize = 8;
/// So many small batches in a row are a flood.
const FLOOD: i32 = 4;
/// How many more small batches it takes after a wrong guess.
const VAIN: i32 = 60;
/// How many tasks are let gather.
const MANY: usize = 128;
/// How long tasks are let gather at most.
const LONGEST_GATHERING: Duration = Duration::from_micros(10);
/// Pauses between two looks at how many there are.
const PAUSES: u32 = 8;

/// What a worker remembers of the work from outside. Its thread's alone.
#[derive(Debug)]
pub struct Linger {
    patience: Patience,
    /// The worker's tick when it last lingered: it does not linger again until it has run something.
    tick: Cell<u64>,
    /// Small batches in a row; begins at `-VAIN` after a wrong guess.
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

    /// Waits for work, if some is likely to come soon. Says whether it has come. Worker `own` searches, or is
    /// the only worker.
    pub fn wait(&self, shared: &Shared, own: usize) -> bool {
        let tick = shared.processor(own).tick();
        if !self.patience.is_worth_it() || self.tick.replace(tick) == tick {
            return false;
        }
        let driver = &shared.driver;
        if driver.io().is_some_and(|io| io.has_sources()) && driver.sitter().is_none() {
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

    /// Before the worker takes a batch from the injector: lets more come, if they do quickly. Says whether it
    /// waited.
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
            // On a machine with other things to do the answers may be late for a while.
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

    /// Far less than what the monitor needs to find a worker stuck.
    const SOON: Duration = Duration::from_micros(1500);

    /// How long the first of two tasks from outside waits for the other, behind a flood of tiny ones: each
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
