//! Corners of the monitor. While it looks, the driver keeps a poller. It notices a worker that computes in a
//! poll. Its hook may drop the runtime. It keeps spare workers in reserve. A searcher that is stuck in a hook
//! is not relied upon.

mod stall_support;
mod support;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use runtime::parallel::{isolated, join};
use runtime::{Builder, Runtime};
use stall_support::{Client, TOO_LONG, Trap, Way, serve, stick};
use support::{Gate, build, builder, until, watchdog};

/// A waker that stops the thread that calls it.
#[derive(Clone, Default)]
struct Door {
    /// A thread has called the waker.
    entered: Gate,
    opened: Gate,
}

impl Wake for Door {
    fn wake(self: Arc<Self>) {
        self.entered.open();
        self.opened.wait();
    }
}

#[test]
fn the_driver_has_a_poller_when_a_worker_goes_to_sleep_while_the_monitor_looks() {
    let _watchdog = watchdog();
    let runtime = build(1);
    let trap = Trap::default();
    let mut client = Client::connect(serve(&runtime, &trap, Way::Spins));
    let listener = runtime.block_on(runtime::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let door = Arc::new(Door::default());
    let waker = Waker::from(door.clone());
    let mut accept = pin!(listener.accept());
    runtime.block_on(std::future::poll_fn(|_| {
        assert!(accept.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        Poll::Ready(())
    }));
    thread::sleep(Duration::from_millis(20));
    let stuck = stick(&runtime, 1, Way::Spins);
    let _connection = std::net::TcpStream::connect(address).unwrap();
    door.entered.wait();
    // The monitor is in the driver, and the only worker goes to sleep beside it.
    let parks = runtime.metrics().worker_park_count(0);
    stuck.trap.release();
    until("the worker sleeps", || runtime.metrics().worker_park_count(0) > parks);
    thread::sleep(Duration::from_millis(20));
    door.opened.open();
    // Long enough for the monitor to rest.
    thread::sleep(Duration::from_millis(200));
    let (send, answered) = mpsc::channel();
    thread::spawn(move || send.send(client.ping()).unwrap());
    assert!(answered.recv_timeout(TOO_LONG).is_ok(), "no worker is the poller");
}

fn split(until: Instant, depth: u32) {
    if depth == 0 {
        let end = Instant::now() + Duration::from_micros(5);
        while Instant::now() < end {}
        return;
    }
    if Instant::now() < until {
        join(|| split(until, depth - 1), || split(until, depth - 1));
    }
}

fn compute_until(until: Instant) {
    while Instant::now() < until {
        split(until, 8);
    }
}

/// How long a task that a computing poll has woken waits.
fn waits_beside(runtime: &Runtime, polls: usize, compute: fn(Instant)) -> Duration {
    let end = Instant::now() + Duration::from_secs(2);
    let (send, ran) = mpsc::channel();
    let begun = Instant::now();
    let tasks: Vec<_> = (0..polls)
        .map(|_| {
            let send = send.clone();
            runtime.spawn(async move {
                runtime::spawn(async move { send.send(begun.elapsed()).unwrap() });
                compute(end);
            })
        })
        .collect();
    let times: Vec<_> = (0..polls).map(|_| ran.recv().unwrap()).collect();
    tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
    times.into_iter().max().unwrap()
}

#[test]
fn tasks_run_beside_polls_that_join() {
    let _watchdog = watchdog();
    for workers in [1, 2] {
        let runtime = build(workers);
        let waited = waits_beside(&runtime, workers, compute_until);
        assert!(waited < Duration::from_secs(1), "{workers} workers: {waited:?}");
    }
}

#[test]
fn tasks_run_beside_polls_that_join_in_isolated_regions() {
    let _watchdog = watchdog();
    for workers in [1, 2] {
        let runtime = build(workers);
        let waited = waits_beside(&runtime, 1, |end| isolated(|| compute_until(end)));
        assert!(waited < Duration::from_secs(1), "{workers} workers: {waited:?}");
    }
}

#[test]
fn a_runtime_dropped_by_its_stall_hook_ends() {
    let _watchdog = watchdog();
    let place = Arc::new(Mutex::new(None::<Runtime>));
    let (hooks, dropped) = (place.clone(), Gate::default());
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .on_stall({
            let dropped = dropped.clone();
            move |_| {
                drop(hooks.lock().take());
                dropped.open();
            }
        })
        .build()
        .unwrap();
    let trap = Trap::default();
    runtime.spawn({
        let trap = trap.clone();
        async move { trap.enter(Way::Spins) }
    });
    until("it is stuck", || trap.count() == 1);
    runtime.spawn(async {});
    *place.lock() = Some(runtime);
    let start = Instant::now();
    while !dropped.is_open() {
        assert!(start.elapsed() < TOO_LONG / 2, "the hook waits for its own thread");
        thread::sleep(Duration::from_millis(1));
    }
    trap.release();
}

#[test]
fn threads_kept_in_reserve_are_not_started_again_and_again() {
    let _watchdog = watchdog();
    let runtime = builder(1).thread_keep_alive(Duration::ZERO).build().unwrap();
    let _listener = runtime.block_on(runtime::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let end = Instant::now() + Duration::from_secs(1);
    runtime.block_on(runtime.handle().compute(move || compute_until(end))).unwrap();
    let started = runtime.metrics().spare_started_count();
    assert!(started < 20, "{started} threads in a second");
}

/// A waker that blocks, as the destructor of a future that a waker drops might.
struct Blocks(Mutex<u32>);

impl Wake for Blocks {
    fn wake(self: Arc<Self>) {
        runtime::task::block_in_place(|| *self.0.lock() += 1);
    }
}

#[test]
fn a_waker_may_block_when_a_computation_inside_of_block_in_place_looks_at_the_driver() {
    let _watchdog = watchdog();
    let runtime = build(1);
    let task = runtime.spawn(async {
        let blocks = Arc::new(Blocks(Mutex::new(0)));
        let waker = Waker::from(blocks.clone());
        let mut sleep = pin!(runtime::time::sleep(Duration::from_millis(100)));
        assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        runtime::task::block_in_place(|| {
            until("the timer rang", || {
                compute_until(Instant::now() + Duration::from_millis(2));
                *blocks.0.lock() > 0
            });
        });
    });
    runtime.block_on(task).unwrap();
}

/// A worker is woken for work from outside, and gets stuck in its hook: another worker does the work. `spawn`
/// gives it the sender by which it says that it is done.
fn is_done_beside_a_stuck_hook(workers: &[usize], spawn: fn(&Runtime, mpsc::Sender<()>)) {
    for &workers in workers {
        let (stuck, entered, opened) = (Arc::new(Mutex::new(false)), Gate::default(), Gate::default());
        let hook = {
            let (stuck, entered, opened) = (stuck.clone(), entered.clone(), opened.clone());
            move || {
                if std::mem::take(&mut *stuck.lock()) {
                    entered.open();
                    opened.wait();
                }
            }
        };
        let runtime = builder(workers).on_thread_unpark(hook).build().unwrap();
        thread::sleep(Duration::from_millis(50));
        *stuck.lock() = true;
        let (send, ran) = mpsc::channel();
        spawn(&runtime, send);
        entered.wait();
        let has_run = ran.recv_timeout(TOO_LONG / 4).is_ok();
        opened.open();
        assert!(has_run, "{workers} workers: what was spawned waits for the worker in the hook");
    }
}

#[test]
fn a_searcher_that_is_stuck_in_a_hook_is_not_relied_upon_for_ever() {
    let _watchdog = watchdog();
    is_done_beside_a_stuck_hook(&[1, 2, 3], |runtime, done| {
        runtime.spawn(async move { done.send(()).unwrap() });
    });
}

/// The work is an injected job.
#[test]
fn a_searcher_that_is_stuck_in_a_hook_is_not_relied_upon_for_jobs() {
    let _watchdog = watchdog();
    is_done_beside_a_stuck_hook(&[2, 3], |runtime, done| {
        runtime.handle().compute(move || done.send(()).unwrap()).detach();
    });
}
