//! All workers are inside of long polls: which thread runs what. How late the others are is measured by the
//! bench `long_polls`.

mod support;

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use runtime::runtime::worker_index;
use runtime::{Builder, Runtime, parallel, task};
use support::{in_child, until, use_one_cpu};

/// A poll is this long: longer than a turn, shorter than what counts as a stall.
const POLL: Duration = Duration::from_millis(2);

fn build() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// Uses so much CPU time. By the clock it would compute less on a busy machine, and be no long poll.
fn compute(time: Duration) {
    let end = cpu_time() + time;
    while cpu_time() < end {
        (0..1000).for_each(|_| std::hint::spin_loop());
    }
}

/// The CPU time of the calling thread.
fn cpu_time() -> Duration {
    // SAFETY: a struct of numbers, for which zero is a value.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is valid for a write.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Two tasks that spin and yield for ever. Returns how many of their polls in a row the only worker made.
fn spin(runtime: &Runtime) -> Arc<AtomicU32> {
    let on_worker: Arc<AtomicU32> = Arc::default();
    for _ in 0..2 {
        let on_worker = on_worker.clone();
        runtime.spawn(async move {
            loop {
                compute(POLL);
                match worker_index() {
                    Some(_) => _ = on_worker.fetch_add(1, Relaxed),
                    None => on_worker.store(0, Relaxed),
                }
                task::yield_now().await;
            }
        });
    }
    on_worker
}

#[test]
fn tasks_that_compute_for_long_go_back_to_the_worker() {
    let runtime = build();
    // A blocked worker has a spare one take all its tasks.
    let release = runtime.spawn(async {
        let (tell, told) = mpsc::channel::<()>();
        task::block_in_place(|| {
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(50));
                drop(tell);
            });
            _ = told.recv();
        });
    });
    let on_worker = spin(&runtime);
    runtime.block_on(release).unwrap();
    until("the worker makes all polls", || on_worker.load(Relaxed) > 50);
    runtime.shutdown_background();
}

/// Computes for [`POLL`], time after time.
async fn spin_and_yield(polls: &AtomicU32) {
    loop {
        compute(POLL);
        polls.fetch_add(1, Relaxed);
        task::yield_now().await;
    }
}

#[test]
fn without_spare_workers_quick_tasks_have_their_turns_beside_slow_ones() {
    static POLLS: AtomicU32 = AtomicU32::new(0);
    const TASKS: u32 = 100;
    let runtime =
        Builder::new_multi_thread().worker_threads(1).spare_workers(0).enable_all().build().unwrap();
    for _ in 0..2 {
        runtime.spawn(spin_and_yield(&POLLS));
    }
    until("the monitor has seen long polls", || POLLS.load(Relaxed) > 50);
    let before = POLLS.load(Relaxed);
    let all = runtime.spawn(async {
        let mut quick = task::JoinSet::new();
        for _ in 0..TASKS {
            quick.spawn(async {
                for _ in 0..3 {
                    task::yield_now().await;
                }
            });
        }
        quick.join_all().await;
    });
    runtime.block_on(all).unwrap();
    // The ring goes round once for each of their polls: fewer than 20 on a quiet machine. Were the quick
    // tasks given away each time, it would be twice as many as there are tasks.
    let polls = POLLS.load(Relaxed) - before;
    assert!(polls < TASKS * 3 / 2, "{TASKS} quick tasks took {polls} polls of the slow ones");
    runtime.shutdown_background();
}

#[test]
fn slow_tasks_go_on_while_the_worker_blocks_or_computes() {
    static POLLS: AtomicU32 = AtomicU32::new(0);
    fn wait_for_polls() {
        let before = POLLS.load(Relaxed);
        until("the slow task goes on", || POLLS.load(Relaxed) > before + 10);
    }
    let runtime = build();
    runtime.spawn(spin_and_yield(&POLLS));
    let ways: [fn(); 3] = [
        || task::block_in_place(wait_for_polls),
        || _ = parallel::join(wait_for_polls, || ()),
        // A poll that does not say what it does.
        wait_for_polls,
    ];
    for way in ways {
        let other = runtime.spawn(async move {
            for _ in 0..20 {
                compute(2 * POLL);
                task::yield_now().await;
            }
            way();
        });
        runtime.block_on(other).unwrap();
    }
    runtime.shutdown_background();
}

#[test]
fn two_spare_workers_serve_or_one_if_there_may_be_one() {
    let runtime = build();
    spin(&runtime);
    until("two spare workers serve", || runtime.metrics().num_spare_workers() >= 2);
    runtime.shutdown_background();

    let runtime =
        Builder::new_multi_thread().worker_threads(1).spare_workers(1).enable_all().build().unwrap();
    let on_worker = spin(&runtime);
    until("one spare worker serves", || runtime.metrics().num_spare_workers() == 1);
    until("the worker makes all polls", || on_worker.load(Relaxed) > 50);
    runtime.shutdown_background();
}

/// Only the worker that has the CPU is known to compute. The others get none until it is over.
#[test]
fn more_workers_than_cpus_are_in_long_polls_together() {
    static POLLS: AtomicU32 = AtomicU32::new(0);
    const WORKERS: usize = 4;
    if in_child("more_workers_than_cpus_are_in_long_polls_together", &[]) {
        use_one_cpu();
        let runtime = Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build().unwrap();
        for _ in 0..2 * WORKERS {
            runtime.spawn(spin_and_yield(&POLLS));
        }
        until("two spare workers serve", || {
            let metrics = runtime.metrics();
            metrics.num_spare_workers() >= metrics.num_idle_spare_workers() + 2
        });
        runtime.shutdown_background();
    }
}

#[test]
fn new_tasks_of_a_place_whose_tasks_compute_are_left_to_the_worker() {
    static ON_WORKER: AtomicU32 = AtomicU32::new(0);
    const WINDOW: u32 = 20;
    let runtime = build();
    spin(&runtime);
    until("a spare worker serves", || runtime.metrics().num_spare_workers() > 0);
    // Some parts go to a spare worker all the same.
    until("most parts compute on the worker", || {
        ON_WORKER.store(0, Relaxed);
        for _ in 0..WINDOW {
            // The first poll is short, and comes from outside, so a spare worker makes it.
            let part = runtime.spawn(async {
                task::yield_now().await;
                compute(POLL);
                if worker_index().is_some() {
                    ON_WORKER.fetch_add(1, Relaxed);
                }
            });
            runtime.block_on(part).unwrap();
        }
        ON_WORKER.load(Relaxed) > WINDOW * 4 / 5
    });
    runtime.shutdown_background();
}
