use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread;

use super::*;
use crate::{Builder, Runtime};

/// Much less than the monitor needs to find a worker stuck.
const SOON: Duration = Duration::from_micros(1500);
/// After how long a test that has shown nothing ends. With ThreadSanitizer, none ever shows anything.
const TIME_TO_SHOW_IT: Duration = Duration::from_secs(if cfg!(tsan) { 1 } else { 20 });

fn two_workers() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Keeps the calling worker at tiny tasks until the other worker samples. Returns false if that takes
/// long.
async fn be_quick(shared: &Shared) -> bool {
    let start = Instant::now();
    while shared.samplers.sampler().is_none() {
        if start.elapsed() > Duration::from_millis(20) {
            return false;
        }
        for _ in 0..20 {
            crate::spawn(async { black_box(()) }).await.unwrap();
        }
    }
    true
}

/// `push` pushes a task that sets the flag it is given, behind a poll that does not return before the
/// flag is set. Returns after how long the flag was set. None if no worker sampled when the task was
/// pushed.
fn delay_behind_a_long_poll(
    runtime: &Runtime,
    push: impl FnOnce(Arc<AtomicBool>) + Send + 'static,
) -> Option<Duration> {
    let handle = runtime.handle().clone();
    let poll = runtime.spawn(async move {
        let shared = handle.shared();
        let did_sample = be_quick(shared).await;
        let has_run = Arc::new(AtomicBool::new(false));
        let start = Instant::now();
        push(has_run.clone());
        // The pusher has relied on the sampler.
        let is_sampling = did_sample && shared.samplers.sampler().is_some();
        while !has_run.load(Acquire) {
            thread::yield_now();
        }
        is_sampling.then(|| start.elapsed())
    });
    runtime.block_on(poll).unwrap()
}

/// It need not hold each time, because the machine may have other work. If there is so much that no
/// worker samples, this shows nothing.
#[track_caller]
fn assert_is_soon(delay: impl Fn() -> Option<Duration>) {
    let (start, mut soon, mut late) = (Instant::now(), 0, Vec::new());
    while soon < 20 && start.elapsed() < TIME_TO_SHOW_IT / 4 {
        match delay() {
            Some(delay) if delay < SOON => soon += 1,
            Some(delay) => late.push(delay),
            None => {}
        }
        assert!(late.len() < 100, "soon: {soon}; late: {late:?}");
    }
}

#[test]
fn no_worker_samples_while_descriptors_are_registered_and_no_worker_sleeps_in_the_driver() {
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).spare_workers(0).enable_all().build().unwrap();
    let would_sample = |shared: &Shared| {
        let sampling = Sampling::new();
        sampling.is_hurried.set(true);
        sampling.would_sample(shared)
    };
    let shared = runtime.handle().shared();
    assert!(would_sample(shared), "there are no events");
    let _listener = runtime.block_on(async { crate::net::TcpListener::bind("127.0.0.1:0").await }).unwrap();
    let begin = Instant::now();
    while !would_sample(shared) {
        assert!(begin.elapsed() < Duration::from_secs(60), "a worker sleeps in the driver");
        thread::yield_now();
    }
    let handle = runtime.handle().clone();
    let task = runtime.spawn(async move {
        let shared = handle.shared();
        assert!(!would_sample(shared), "no worker is in the driver");
        let _sitting = shared.driver.try_become_poller(0).unwrap();
        assert!(!would_sample(shared), "the worker in the driver does not sleep");
    });
    runtime.block_on(task).unwrap();
}

#[test]
fn a_task_behind_a_poll_that_turns_out_long_is_taken_soon_by_the_sampler() {
    let runtime = two_workers();
    for to_be_queued in [2, 3, 100] {
        assert_is_soon(|| {
            delay_behind_a_long_poll(&runtime, move |has_run| {
                crate::spawn(async move { has_run.store(true, Release) });
                // Each task displaces the one before from the LIFO slot.
                for _ in 1..to_be_queued {
                    crate::spawn(async { black_box(()) });
                }
            })
        });
    }
}

#[test]
fn a_queue_is_worth_it_if_it_is_long_or_its_owner_slow_or_it_stays() {
    let quick = Some(Duration::from_nanos(300));
    let mut queue = Queue::default();
    queue.look(10, quick);
    assert!(!queue.is_worth);
    queue.look(100, quick);
    assert!(queue.is_worth);
    queue.look(0, quick);
    queue.look(1000, Some(TINY));
    assert!(!queue.is_worth, "they are tiny");
    queue.look(0, None);
    assert!(!queue.is_worth);
    queue.look(1, None);
    assert!(queue.is_worth, "its owner does not move");
    queue.look(0, quick);
    (1..PATIENCE).for_each(|_| queue.look(1, quick));
    assert!(!queue.is_worth);
    queue.look(1, quick);
    assert!(queue.is_worth, "its owner does not get it done");
}

#[test]
fn company_is_of_no_use_if_two_are_hardly_faster_than_one() {
    const LOOK: Duration = Duration::from_micros(100);
    let (company, ticks) = (Company::default(), Cell::new(0));
    let look = |own, others| {
        ticks.set(ticks.get() + own + others);
        company.look(own, ticks.get(), LOOK)
    };
    assert_eq!(look(100, 100), None, "nothing is known");
    assert_eq!(look(0, 1000), None, "it does nothing");
    let alone = Some(Duration::from_nanos(100));
    assert_eq!(look(600, 600), alone);
    assert_eq!(look(700, 700), None, "a gain");
    assert_eq!(look(0, 0), None, "no worker does anything");
    assert_eq!(look(100, 100), alone);
    assert_eq!(look(900, 0), None, "the others do nothing");
    assert_eq!(look(100, 100), Some(LOOK / 900));
}

#[test]
fn what_a_poll_took_alone_is_forgotten() {
    let (company, ticks) = (Company::default(), Cell::new(0));
    let look = |own, others| {
        ticks.set(ticks.get() + own + others);
        company.look(own, ticks.get(), Duration::from_micros(100))
    };
    look(0, 1000);
    // The tasks take 1 µs now. A worker beside another gets some done, samples, and comes again.
    let in_vain = (0..100).take_while(|_| {
        look(0, 100);
        look(100, 100).is_some()
    });
    assert!((2..10).contains(&in_vain.count()));
}

#[test]
fn spawns_and_pushes_are_moves_as_polls_are() {
    let before = Moves { polls: 5, spawned: u64::MAX, pushes: u32::MAX };
    assert_eq!(before.since(before).most(), 0);
    assert_eq!(Moves { polls: 8, ..before }.since(before).most(), 3);
    assert_eq!(Moves { spawned: 1, ..before }.since(before).most(), 2);
    assert_eq!(Moves { pushes: 6, polls: 8, ..before }.since(before).most(), 7);
}

#[test]
fn pauses_become_longer_until_something_is_taken() {
    let sampling = Sampling::new();
    let pauses = || {
        [(); 4]
            .map(|()| sampling.begin_sample() / SAMPLE_PAUSE.as_micros() as u32)
            .map(|pause| pause.as_micros())
    };
    assert_eq!(pauses(), [1, 2, 4, 4]);
    sampling.took();
    assert_eq!(pauses(), [1, 2, 4, 4]);
}

/// What is known of a backlog's tasks.
#[derive(Default)]
struct Backlog {
    begun: AtomicUsize,
    busy: AtomicUsize,
    /// How many had begun when four workers ran tasks for the first time.
    begun_until_four: AtomicUsize,
}

impl Backlog {
    fn work_for(&self, time: Duration) {
        let begun = self.begun.fetch_add(1, Relaxed) + 1;
        if self.busy.fetch_add(1, Relaxed) + 1 == 4 {
            let first = &self.begun_until_four;
            _ = first.compare_exchange(0, begun, Relaxed, Relaxed);
        }
        let start = Instant::now();
        while start.elapsed() < time {
            thread::yield_now();
        }
        self.busy.fetch_sub(1, Relaxed);
    }
}

#[test]
fn a_backlog_that_is_worth_it_gets_all_workers_soon() {
    const SOON: usize = 60;
    let runtime = Builder::new_multi_thread().worker_threads(4).build().unwrap();
    let (start, mut in_vain) = (Instant::now(), 0);
    // If the machine has so much other work that no worker samples, this shows nothing.
    while start.elapsed() < TIME_TO_SHOW_IT {
        let handle = runtime.handle().clone();
        let backlog = Arc::new(Backlog::default());
        let spawner = backlog.clone();
        let spawned = runtime.spawn(async move {
            // The others sleep or sample, because nothing was worth it before.
            let is_sampling = be_quick(handle.shared()).await;
            let work = |_| {
                let backlog = spawner.clone();
                crate::spawn(async move { backlog.work_for(Duration::from_micros(50)) })
            };
            let tasks: Vec<_> = (0..200).map(work).collect();
            for task in tasks {
                task.await.unwrap();
            }
            is_sampling
        });
        let is_sampling = runtime.block_on(spawned).unwrap();
        let begun = backlog.begun_until_four.load(Relaxed);
        if is_sampling && (1..=SOON).contains(&begun) {
            return;
        }
        in_vain += u32::from(is_sampling);
        assert!(in_vain < 500, "{begun} had begun until four were at work");
    }
}

#[test]
fn a_worker_that_does_not_move_has_no_pace() {
    assert_eq!(pace(0, Duration::from_secs(1)), None);
    assert_eq!(pace(100, Duration::from_micros(100)), Some(Duration::from_micros(1)));
    assert_eq!(pace(u64::MAX, Duration::from_micros(1)), Some(Duration::ZERO));
}
