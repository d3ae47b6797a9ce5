use std::future::Future;
use std::net::{SocketAddr, TcpStream};
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use super::rest::is_blocked;
use super::seen::{Counts, ENOUGH, Watched};
use super::*;
use crate::loom::sync::atomic::AtomicBool;
use crate::loom::sync::atomic::Ordering::Relaxed;
use crate::parallel::{mark_blocked, mark_unblocked};
use crate::scheduler::context;
use crate::scheduler::processor::Processor;
use crate::util::thread_probe::ThreadProbe;
use crate::{Builder, Handle, Runtime, net, parallel, task};

const LIMIT: Duration = Duration::from_secs(60);

fn build(workers: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(workers).enable_all().build().unwrap()
}

/// Waits until the monitor sleeps for good.
#[track_caller]
fn until_it_rests(runtime: &Runtime) {
    let start = Instant::now();
    let monitor = &runtime.handle().shared().monitor;
    while !(monitor.is_resting.load(Relaxed) && monitor.parker.is_asleep()) {
        assert!(start.elapsed() < LIMIT, "it does not rest");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Makes `workers` workers block until the result is dropped.
fn block(runtime: &Runtime, workers: usize) -> Vec<Sender<()>> {
    let (entered, all) = mpsc::channel();
    let block_one = |_| {
        let (end, ended) = mpsc::channel::<()>();
        let entered = entered.clone();
        runtime.spawn(async move {
            task::block_in_place(|| {
                entered.send(()).unwrap();
                _ = ended.recv();
            });
        });
        end
    };
    let ends = (0..workers).map(block_one).collect();
    (0..workers).for_each(|_| all.recv_timeout(LIMIT).expect("all block"));
    ends
}

#[test]
fn the_time_in_a_call_that_blocks_is_no_part_of_a_stall() {
    let processor = Processor::new(None);
    processor.metrics.thread_begins();
    let start = Instant::now();
    let after = |millis| start + Duration::from_millis(millis);
    let mut watch = Watched::new(1, start);
    let mut observe = |is_blocked, millis| {
        match is_blocked {
            true => processor.blocked_state.say_blocked(),
            false => _ = processor.blocked_state.say_back(),
        }
        watch.observe(&processor, after(millis));
        (watch.is_stuck, watch.is_held, watch.is_blocked(), watch.held_for(after(millis)).as_millis())
    };
    // The first look at a poll may find it in such a call.
    assert_eq!(observe(true, 0), (false, false, true, 0));
    assert_eq!(observe(false, 1), (false, false, false, 0));
    assert_eq!(observe(false, 2), (false, false, false, 1));
    assert_eq!(observe(true, 3), (true, false, true, 0));
    assert_eq!(observe(true, 1000), (true, false, true, 0));
    // The other workers go on to take its work.
    assert_eq!(observe(false, 1005), (true, false, false, 0));
    assert_eq!(observe(false, 1006), (true, false, false, 1));
    assert_eq!(observe(false, 1010), (true, true, false, 5));
}

#[test]
fn all_are_busy_if_all_are_still_and_as_many_as_there_are_cpus_have_long_polls() {
    const LONG: (bool, bool) = (true, true);
    const WITHOUT_CPU: (bool, bool) = (true, false);
    const MOVED: (bool, bool) = (false, false);
    let are_busy = |cpus, workers: &[(bool, bool)]| {
        let mut counts = Counts::default();
        workers.iter().for_each(|&(is_still, is_long)| counts.count(is_still, is_long, is_long));
        counts.are_all_busy(workers.len(), cpus)
    };
    assert!(are_busy(2, &[LONG, LONG]));
    assert!(are_busy(8, &[LONG, LONG]));
    assert!(are_busy(2, &[LONG, WITHOUT_CPU, WITHOUT_CPU, LONG]));
    // Another program has the second CPU.
    assert!(!are_busy(2, &[LONG, WITHOUT_CPU]));
    assert!(!are_busy(2, &[LONG, WITHOUT_CPU, WITHOUT_CPU]));
    assert!(!are_busy(2, &[LONG, LONG, MOVED]));
    // One sleeps.
    let mut counts = Counts::default();
    counts.count(true, true, true);
    assert!(!counts.are_all_busy(2, 1));
}

#[track_caller]
fn assert_answers(runtime: &Runtime) {
    let (send, receive) = mpsc::channel();
    runtime.spawn(async move { send.send(()).unwrap() });
    receive.recv_timeout(LIMIT).expect("a task is run");
}

#[test]
fn it_rests_beside_a_worker_that_blocks_for_ever() {
    let runtime = build(2);
    for _ in 0..3 {
        until_it_rests(&runtime);
        let blocked = block(&runtime, 1);
        until_it_rests(&runtime);
        assert_answers(&runtime);
        until_it_rests(&runtime);
        // And with a spare worker.
        let others = block(&runtime, 1);
        until_it_rests(&runtime);
        assert_answers(&runtime);
        drop((blocked, others));
    }
}

#[test]
fn it_rests_beside_workers_that_all_block_for_ever() {
    for workers in [1, 3] {
        let runtime = build(workers);
        let blocked = block(&runtime, workers);
        until_it_rests(&runtime);
        assert_answers(&runtime);
        drop(blocked);
        until_it_rests(&runtime);
    }
}

/// Holds the calling worker until another worker has run the task in its LIFO slot.
fn be_stuck() {
    let (ran, has_run) = mpsc::channel();
    crate::spawn(async move { ran.send(()).unwrap() });
    has_run.recv_timeout(LIMIT).expect("a spare worker takes the task behind it");
}

#[test]
fn it_watches_a_worker_that_comes_back_from_a_call_that_blocked() {
    let runtime = build(2);
    let (end, ended) = mpsc::channel::<()>();
    let stuck = runtime.spawn(async move {
        task::block_in_place(|| _ = ended.recv());
        be_stuck();
    });
    until_it_rests(&runtime);
    drop(end);
    runtime.block_on(stuck).unwrap();
}

/// A worker that marks itself as blocked and is unmarked by another thread.
#[test]
fn it_rests_beside_a_worker_that_is_marked_and_watches_it_when_it_is_not_any_more() {
    for workers in [1, 2] {
        let runtime = build(workers);
        let (marks, marked) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let stuck = runtime.spawn(async move {
            marks.send(mark_blocked()).unwrap();
            _ = ended.recv();
            be_stuck();
        });
        let mark = marked.recv_timeout(LIMIT).unwrap();
        until_it_rests(&runtime);
        assert_answers(&runtime);
        until_it_rests(&runtime);
        mark_unblocked(mark);
        drop(end);
        runtime.block_on(stuck).unwrap();
    }
}

/// Two workers, both in calls that block. One of them waits there for a job that the other runs, and sits
/// in the driver.
#[test]
fn it_rests_while_a_worker_that_blocks_is_the_poller_and_watches_it_when_it_is_back() {
    // A spare worker may come, and sit there first.
    assert!((0..100).any(|_| a_blocked_worker_is_the_poller()), "no worker that blocks ever sits there");
}

/// Returns whether a blocked worker became the poller.
fn a_blocked_worker_is_the_poller() -> bool {
    let runtime = build(2);
    let (begins, begun) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    let waits = runtime.spawn(async move {
        task::block_in_place(|| {
            parallel::scope(move |scope| {
                scope.spawn(move |_| {
                    task::block_in_place(|| {
                        begins.send(()).unwrap();
                        _ = ended.recv();
                    });
                });
                begun.recv_timeout(LIMIT).expect("another worker steals the job");
            });
            // In the same call: no worker is the poller any more.
            Handle::current().block_on(accept(|address| {
                thread::spawn(move || TcpStream::connect(address).unwrap());
            }));
        });
    });
    let driver = &runtime.handle().shared().driver;
    let is_sitting = || {
        driver
            .poller()
            .is_some_and(|poller| poller < 2 && is_blocked(runtime.handle().shared().processor(poller)))
    };
    until_it_rests(&runtime);
    let sits = is_sitting();
    if sits {
        assert_answers(&runtime);
        until_it_rests(&runtime);
    }
    drop(end);
    runtime.block_on(waits).unwrap();
    sits
}

/// A waker that sends a message.
struct Sends(Sender<()>);

impl Wake for Sends {
    fn wake(self: Arc<Self>) {
        self.0.send(()).unwrap();
    }
}

#[test]
fn a_timer_of_a_worker_that_blocks_is_fired_meanwhile() {
    let runtime = build(2);
    until_it_rests(&runtime);
    let (begin, begun) = mpsc::channel();
    let task = runtime.spawn(async move {
        begin.send(()).unwrap();
        let (send, fired) = mpsc::channel();
        let waker = Waker::from(Arc::new(Sends(send)));
        // On this worker's wheel.
        let mut sleep = pin!(crate::time::sleep(Duration::from_millis(400)));
        assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        task::block_in_place(|| fired.recv_timeout(LIMIT)).expect("it fires");
    });
    begun.recv_timeout(LIMIT).expect("the task begins");
    until_it_rests(&runtime);
    runtime.block_on(task).unwrap();
}

/// Waits for a connection from outside.
async fn accept(address: impl FnOnce(SocketAddr)) {
    let listener = net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    address(listener.local_addr().unwrap());
    listener.accept().await.unwrap();
}

#[test]
fn a_driver_that_was_left_by_a_worker_that_blocks_is_taken_over() {
    let runtime = build(2);
    for _ in 0..3 {
        let (send, address) = mpsc::channel();
        let (entered, blocks) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        runtime.spawn(async move {
            // The worker in the driver polls it next.
            accept(|address| send.send(address).unwrap()).await;
            task::block_in_place(|| {
                entered.send(()).unwrap();
                _ = ended.recv();
            });
        });
        let address = address.recv_timeout(LIMIT).unwrap();
        until_it_rests(&runtime);
        let _connection = TcpStream::connect(address).unwrap();
        blocks.recv_timeout(LIMIT).unwrap();
        until_it_rests(&runtime);
        // The workers are not told of this.
        let (send, accepted) = mpsc::channel();
        let handle = runtime.handle().clone();
        thread::spawn(move || {
            handle.block_on(accept(|address| {
                thread::spawn(move || TcpStream::connect(address).unwrap());
            }));
            send.send(()).unwrap();
        });
        accepted.recv_timeout(LIMIT).expect("a worker is the poller");
        drop(end);
    }
}

/// The CPU time that the calling thread has had.
#[cfg(target_os = "linux")]
fn cpu_time() -> Duration {
    ThreadProbe::current().cpu_time().expect("the system says")
}

/// Until the returned flag is set, the calling thread gets only the CPU time that other threads leave,
/// and these threads want all of it.
#[cfg(target_os = "linux")]
fn starve() -> Arc<AtomicBool> {
    // SAFETY: plain data, for which zero is a value; the pointers are valid for reads and writes of the
    // sizes given, here and below.
    let mut cpus: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    unsafe {
        libc::CPU_SET(libc::sched_getcpu() as usize, &mut cpus);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&cpus), &raw const cpus), 0);
    }
    let is_over = Arc::new(AtomicBool::new(false));
    for _ in 0..4 {
        let is_over = is_over.clone();
        thread::spawn(move || {
            // Inherited: the CPU.
            while !is_over.load(Relaxed) {
                std::hint::spin_loop();
            }
        });
    }
    // SAFETY: as above.
    unsafe {
        let parameter: libc::sched_param = std::mem::zeroed();
        assert_eq!(libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameter), 0);
    }
    is_over
}

/// Whether another worker takes the task behind a worker that gets next to no CPU time, before that worker
/// has had so much that it counts as stuck, and not starved any more.
#[cfg(target_os = "linux")]
fn is_taken_in_time() -> bool {
    let runtime = build(2);
    let task = runtime.spawn(async {
        let is_over = starve();
        let (ran, has_run) = mpsc::channel();
        crate::spawn(async move { _ = ran.send(()) });
        let before = cpu_time();
        let mut is_taken = false;
        while !is_taken && cpu_time() - before < ENOUGH / 2 {
            is_taken = has_run.try_recv().is_ok();
        }
        is_over.store(true, Relaxed);
        is_taken
    });
    runtime.block_on(task).unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn what_waits_behind_a_worker_that_gets_no_cpu_goes_to_one_that_sleeps() {
    // On a loaded machine the starved worker may get its CPU time before the monitor and the other worker
    // get theirs.
    let is_taken = (0..20).any(|_| is_taken_in_time());
    assert!(is_taken, "it waits until the worker has had some CPU time");
}

/// No spare worker may come for the slow task, and the injector is never empty.
#[test]
fn a_slow_task_has_its_turn_beside_an_injector_that_is_never_empty() {
    const BEHIND: usize = 4096;
    let runtime = Builder::new_multi_thread().worker_threads(1).spare_workers(0).build().unwrap();
    let shared = runtime.handle().shared();
    let ends = block(&runtime, 1);
    let spawn_short = || {
        drop(runtime.spawn(async {
            let start = Instant::now();
            while start.elapsed() < Duration::from_micros(20) {
                std::hint::spin_loop();
            }
        }));
    };
    let (tell, told) = mpsc::channel();
    runtime.spawn(async move { tell.send(()).unwrap() });
    let slow = shared.injector.pop().expect("the worker blocks");
    (0..BEHIND).for_each(|_| spawn_short());
    // SAFETY: (1) the task lives while its `SCHEDULED` is in the queue. (2) It was popped, so it is in no
    // queue, and its `SCHEDULED` is ours.
    unsafe { shared.slow.push(slow) };
    drop(ends);
    let start = Instant::now();
    while told.try_recv().is_err() {
        assert!(start.elapsed() < LIMIT, "the slow task waits");
        if shared.injector.len() < BEHIND {
            spawn_short();
        }
    }
}

fn spin() {
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(1) {
        std::hint::spin_loop();
    }
}

/// Whether a task with this poll is ever taken for slow. The only worker has a turn between two polls.
fn becomes_slow(runtime: &Runtime, poll: fn()) -> bool {
    let handle = runtime.handle().clone();
    let task = runtime.spawn(async move {
        let monitor = &handle.shared().monitor;
        let mut was_slow = false;
        for _ in 0..200 {
            monitor.set_saw_long_polls(true);
            poll();
            task::yield_now().await;
            was_slow |= monitor.slow_tasks.is_slow(task::id().0);
        }
        was_slow
    });
    runtime.block_on(task).unwrap()
}

#[test]
fn polls_that_compute_make_their_task_slow_but_not_calls_that_say_that_they_block() {
    let runtime = Builder::new_multi_thread().worker_threads(1).spare_workers(0).build().unwrap();
    assert!(becomes_slow(&runtime, spin));
    assert!(!becomes_slow(&runtime, || task::block_in_place(spin)));
}

#[test]
fn computations_between_the_polls_of_a_task_do_not_make_it_slow() {
    let runtime = Builder::new_multi_thread().worker_threads(1).spare_workers(0).build().unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        // Several, so that each turn finds one.
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    runtime.block_on(runtime.compute(spin)).unwrap();
                }
            });
        }
        let is_slow = becomes_slow(&runtime, || ());
        is_over.store(true, Relaxed);
        assert!(!is_slow);
    });
}

/// The monitor may have found this worker in the driver, and rest because of that.
#[test]
fn a_blocked_worker_that_looks_in_the_driver_tells_the_monitor() {
    let runtime = build(1);
    let blocks = async {
        let _source = net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        task::block_in_place(|| {
            // SAFETY: (1) used in this call only.
            let job_processor = unsafe { context::job_processor() }.unwrap();
            let monitor = &job_processor.shared().monitor;
            let is_told = |looks: bool| {
                monitor.is_resting.store(true, Relaxed);
                if looks {
                    job_processor.with_worker(|worker| worker.collect_tasks(job_processor, false));
                }
                !monitor.is_resting.swap(false, Relaxed)
            };
            // The monitor itself writes there when it comes from its rest, and may do so in between.
            (0..100).filter(|_| is_told(true) && !is_told(false)).count()
        })
    };
    assert!(runtime.block_on(runtime.spawn(blocks)).unwrap() > 50);
}
