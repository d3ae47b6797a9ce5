//! A job processor without thieves: budgets, estimates, regions. The last test has a second worker, which
//! sleeps while a child job is published without a wake.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::owner::OwnJobs;
use super::publish::SCOPE_LIMIT;
use super::steal::{PAUSE, TINY};
use crate::Builder;
use crate::job::Tag;
use crate::loom::DEQUE_CAPACITY;
use crate::loom::sync::atomic::AtomicI32;
use crate::loom::sync::atomic::Ordering::Relaxed;
use crate::parallel::{ThreadPoolBuilder, isolated, join, scope};
use crate::scheduler::{JobProcessor, context};

/// How long a test waits for what another thread has to do.
const LIMIT: Duration = Duration::from_secs(60);

impl JobProcessor {
    /// What is left of the publish budget, for the tests of other modules.
    pub fn budget_left(&self) -> &AtomicI32 {
        &self.left
    }
}

/// Calls `f` in a computation of a runtime with one worker. So no thief takes its child jobs.
fn on_a_processor(f: fn(&OwnJobs)) {
    let runtime = Builder::new_multi_thread().worker_threads(1).spare_workers(0).build().unwrap();
    let computation = runtime.handle().compute(move || with_own(f));
    runtime.block_on(computation).unwrap();
}

/// Calls `f` with the calling thread's job processor, in a computation.
fn with_own<R>(f: impl FnOnce(&OwnJobs) -> R) -> R {
    // SAFETY: (1) the thread holds the job processor for the whole computation, and so until `f` returns.
    f(unsafe { context::job_processor() }.unwrap())
}

fn youngest(job_processor: &OwnJobs) -> u32 {
    job_processor.head() - 1
}

/// A `join` whose first closure calls `f` with the calling thread's job processor. The first closure of a
/// `join` stays on its thread, but the view of the frame around is not `Send`.
fn join_and(f: impl FnOnce(&OwnJobs) + Send) {
    join(|| with_own(f), || ());
}

#[test]
fn a_child_job_is_not_taken_for_the_one_that_was_timed_in_its_place() {
    on_a_processor(|job_processor| {
        job_processor.left.store(100, Relaxed);
        join_and(|job_processor| {
            let index = youngest(job_processor);
            job_processor.finish();
            // SAFETY: (1) the view is the owner's. (2) The item is the second half of a `join`, nothing was
            // published, and `finish` has just finished it.
            unsafe { job_processor.deque.note(index) };
            job_processor.estimates.at(index).begin(index);
            assert!(job_processor.known_for(index).is_some());
            join_and(|job_processor| assert_eq!(job_processor.known_for(youngest(job_processor)), None));
        });
        join_and(|job_processor| assert_eq!(job_processor.known_for(youngest(job_processor)), None));
    });
}

#[test]
fn a_child_job_is_of_the_region_in_which_it_was_pushed() {
    on_a_processor(|job_processor| {
        let outer = (job_processor.region().addr(), job_processor.tag());
        join_and(|job_processor| {
            isolated(|| {
                let inner = (job_processor.region().addr(), job_processor.tag());
                join_and(|job_processor| {
                    assert!(job_processor.publish_all());
                    let stolen = [(); 2].map(|()| job_processor.steal(Tag::NONE).unwrap());
                    // SAFETY: `steal` has claimed the jobs for this thread, and none was run yet.
                    let regions = stolen.map(|job| (unsafe { job.region() }.addr(), job.tag()));
                    // SAFETY: (1) as above.
                    stolen.iter().for_each(|&job| unsafe { job_processor.run(job) });
                    assert_eq!(regions, [outer, inner]);
                });
                assert!(inner.0 != 0 && inner.1 != outer.1);
            });
        });
    });
}

#[test]
#[cfg_attr(tsan, ignore = "ThreadSanitizer's own stack of calls is too short for so many")]
fn no_budget_is_longer_than_there_is_room() {
    fn descend(depth: u32) -> u32 {
        let (left, head) = with_own(|own| (own.left.load(Relaxed) as u32, own.head()));
        assert!(left + head.max(SCOPE_LIMIT) <= DEQUE_CAPACITY as u32, "{left} at {head}");
        match depth {
            0 => 1,
            _ => join(|| descend(depth - 1), || 1).0 + 1,
        }
    }

    let pool = ThreadPoolBuilder::new().num_threads(1).stack_size(256 << 20).build().unwrap();
    pool.install(|| {
        let depth = DEQUE_CAPACITY as u32 + 2_000;
        assert_eq!(descend(depth), depth + 1);
        scope(|scope| {
            for _ in 0..DEQUE_CAPACITY {
                scope.spawn(|_| ());
            }
            assert_eq!(with_own(OwnJobs::head), SCOPE_LIMIT);
            assert_eq!(descend(depth), depth + 1);
        });
    });
}

#[test]
fn a_thief_of_tiny_jobs_stays_away_for_a_while() {
    on_a_processor(|job_processor| {
        let began = Instant::now();
        job_processor.theft.begin(1, began - Duration::from_secs(1));
        assert_eq!(job_processor.end_batch(), 1, "jobs of a second are stolen one by one");
        assert!(job_processor.theft.end().is_none());
        job_processor.theft.begin(32, began);
        job_processor.end_batch();
        assert!(job_processor.theft.end().is_none());
        // If this thread was so slow that the jobs did not count as tiny, as much time has passed.
        assert_eq!(32 * TINY, PAUSE.as_nanos());
        assert!(began.elapsed() >= PAUSE, "{:?}", began.elapsed());
    });
}

#[test]
fn a_budget_ends_with_the_work_that_it_was_for() {
    on_a_processor(|job_processor| {
        job_processor.left.store(100, Relaxed);
        job_processor.restart_poll_interval();
        assert_eq!((job_processor.left.load(Relaxed), job_processor.poll_interval.left()), (0, 1));
    });
}

#[test]
fn a_budget_that_relies_on_a_public_child_job_ends_when_that_is_taken_back() {
    on_a_processor(|job_processor| {
        join_and(|job_processor| {
            assert!(job_processor.publish_all());
            job_processor.rely_on_public(false);
            job_processor.left.store(100, Relaxed);
            join_and(|_| ());
            assert_eq!(job_processor.left.load(Relaxed), 99);
        });
        assert_eq!(job_processor.left.load(Relaxed), 0);
    });
}

#[test]
fn a_thief_that_takes_the_last_public_child_job_ends_the_budget() {
    on_a_processor(|_| {
        join_and(|_| {
            join_and(|job_processor| {
                assert!(job_processor.publish_all());
                job_processor.left.store(100, Relaxed);
                let stolen = [(); 2].map(|()| {
                    (job_processor.steal(job_processor.tag()).unwrap(), job_processor.left.load(Relaxed))
                });
                // SAFETY: (1) `steal` has claimed the jobs for this thread.
                stolen.iter().for_each(|&(job, _)| unsafe { job_processor.run(job) });
                assert_eq!(stolen.map(|(_, left)| left), [100, 0]);
            });
        });
    });
}

#[test]
fn a_sleeper_of_a_pool_finds_a_child_job_that_it_has_overlooked() {
    let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    pool.install(|| {
        let began = Instant::now();
        while !with_own(|own| own.shared().idle.has_sleepers()) {
            assert!(began.elapsed() < LIMIT, "the other worker goes to sleep");
            std::thread::yield_now();
        }
        let (tx, rx) = mpsc::channel();
        with_own(|own| own.left.store(100, Relaxed));
        let wait = move || {
            // Without CountPost.
            assert!(with_own(OwnJobs::publish_all));
            rx.recv_timeout(LIMIT).expect("the other worker looks again")
        };
        join(wait, move || tx.send(()).unwrap());
    });
}
