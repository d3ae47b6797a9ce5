//! A worker whose tick stands still does not count as stuck because the process was stopped or the workers
//! wait for their only CPU. A worker that is stuck counts as stuck also if it gets little of a CPU.

mod stall_support;
mod support;

use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use runtime::Runtime;
use stall_support::{Trap, Way};
use support::{Gate, builder, finish_child, in_child, is_child, start_child, until, use_one_cpu, watchdog};

/// One at a time: each wants the CPUs for itself.
static CPUS: Mutex<()> = Mutex::new(());

/// Tasks that do a little all the time, until the result is opened.
fn load(runtime: &Runtime, tasks: usize, is_busy: bool) -> Gate {
    let end = Gate::default();
    for _ in 0..tasks {
        let end = end.clone();
        runtime.spawn(async move {
            while !end.is_open() {
                let start = Instant::now();
                while start.elapsed() < Duration::from_micros(20) {}
                match is_busy {
                    true => runtime::task::yield_now().await,
                    false => runtime::time::sleep(Duration::from_millis(1)).await,
                }
            }
        });
    }
    end
}

/// The stalls counted in 200 ms of ordinary load, at best of several times: the machine may be busy with
/// something else.
fn fewest_stalls(workers: usize) -> u64 {
    let rounds = (0..10).map(|_| {
        let runtime = builder(workers).build().unwrap();
        let end = load(&runtime, 4 * workers, true);
        thread::sleep(Duration::from_millis(200));
        let stalls = runtime.metrics().stall_count();
        end.open();
        stalls
    });
    rounds.min().unwrap()
}

#[test]
fn ordinary_load_is_not_taken_for_a_stall() {
    let (_watchdog, _cpus) = (watchdog(), CPUS.lock());
    let stalls = fewest_stalls(2);
    assert!(stalls <= 3, "{stalls} stalls");
}

#[test]
fn on_one_cpu_workers_that_wait_for_it_are_not_taken_for_stuck_in_a_row() {
    let (_watchdog, _cpus) = (watchdog(), CPUS.lock());
    if in_child("on_one_cpu_workers_that_wait_for_it_are_not_taken_for_stuck_in_a_row", &[]) {
        use_one_cpu();
        let stalls = fewest_stalls(4);
        // Of about 40 looks of the monitor.
        assert!(stalls <= 8, "{stalls} stalls");
    }
}

/// The worker was taken for a worker that waits for the CPU, for as long as its share was below an eighth:
/// for ever if the threads that had the rest were stuck, too.
#[test]
fn a_worker_that_gets_little_of_a_cpu_is_stuck_all_the_same() {
    let (_watchdog, _cpus) = (watchdog(), CPUS.lock());
    if in_child("a_worker_that_gets_little_of_a_cpu_is_stuck_all_the_same", &[]) {
        use_one_cpu();
        let runtime = builder(1).build().unwrap();
        let (trap, end) = (Trap::default(), Gate::default());
        let stuck = runtime.spawn({
            let trap = trap.clone();
            async move {
                // One part in seventy, beside a thread that computes without being nice.
                // SAFETY: touches no memory.
                assert_eq!(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) }, 0);
                trap.enter(Way::Spins);
            }
        });
        until("it is stuck", || trap.count() == 1);
        let rival = thread::spawn({
            let end = end.clone();
            move || while !end.is_open() {}
        });
        runtime.block_on(runtime.spawn(async {})).unwrap();
        trap.release();
        end.open();
        rival.join().unwrap();
        runtime.block_on(stuck).unwrap();
    }
}

/// How often the process is stopped.
const STOPS: u64 = 5;
/// For how long.
const STOP: Duration = Duration::from_millis(150);

#[test]
fn a_process_that_is_stopped_and_continued_sees_no_storm_of_spare_workers() {
    let (_watchdog, _cpus) = (watchdog(), CPUS.lock());
    let name = "a_process_that_is_stopped_and_continued_sees_no_storm_of_spare_workers";
    if is_child(name) {
        return be_stopped();
    }
    let mut child = start_child(name, &[]);
    let pid = child.id() as libc::pid_t;
    let signal = |number| {
        // SAFETY: touches no memory; the child has not been waited for, so the number is still its own.
        assert_eq!(unsafe { libc::kill(pid, number) }, 0);
    };
    while child.try_wait().unwrap().is_none() {
        thread::sleep(Duration::from_millis(50));
        signal(libc::SIGSTOP);
        thread::sleep(STOP);
        signal(libc::SIGCONT);
    }
    let output = finish_child(child);
    assert!(output.status.success(), "{output:?}");
}

/// What the child does, until it has been stopped a few times.
fn be_stopped() {
    let runtime = builder(2).build().unwrap();
    let end = load(&runtime, 4, false);
    let metrics = runtime.metrics();
    let mut stops = 0;
    while stops < STOPS {
        let start = Instant::now();
        thread::sleep(Duration::from_millis(1));
        stops += u64::from(start.elapsed() > STOP / 2);
    }
    // At a stop each worker may have been at a poll with a task behind it.
    let (stalls, started) = (metrics.stall_count(), metrics.spare_started_count());
    assert!(stalls <= 2 * STOPS && started <= 2, "{stalls} stalls, {started} threads");
    end.open();
}
