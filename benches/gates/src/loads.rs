//! What is measured: each load makes one operation a number of times, on a worker.

use std::future::{Future, poll_fn};
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use runtime::io::AsyncReadExt;
use runtime::sync::Notify;
use runtime::{parallel, task};

use crate::memory;

/// A load's name, the smaller number of operations, and the function that runs it.
pub type Load = (&'static str, usize, fn(usize));

/// Every load.
pub const LOADS: &[Load] = &[
    ("spawn_chain", 3_000, |times| on_task(move || spawn_chain(times))),
    ("spawn_batch", 3_200, |times| on_task(move || spawn_batch(times))),
    ("spawn_await", 3_000, |times| on_task(move || spawn_await(times))),
    ("yield", 5_000, |times| on_task(move || yield_to_nobody(times))),
    ("turns", 5_000, turns),
    ("self_wake", 5_000, |times| on_task(move || SelfWake(times))),
    ("timer", 3_000, |times| on_task(move || timer(times))),
    ("clock", 3_000, |times| on_task(move || clock(times))),
    ("event", 640, event),
    // So many operations that the looks at the clock, which happen by time, do not matter.
    ("join", 30_000, |times| {
        on_job(move || _ = (0..times.div_ceil(JOINS)).map(|_| joins(black_box(N))).sum::<u64>())
    }),
    ("calls", 3_000, |times| {
        on_job(move || _ = (0..times.div_ceil(JOINS)).map(|_| calls(black_box(N))).sum::<u64>())
    }),
    ("scope_spawn", 3_000, |times| on_job(move || scope_spawn(times))),
];

/// Runs a load, and prints the allocations that it made.
pub fn run(name: &str, times: usize) {
    let load = LOADS.iter().find(|load| load.0 == name);
    let (.., load) = load.unwrap_or_else(|| panic!("no load {name:?}"));
    load(times);
}

/// Runs the future that `load` makes in a task, twice: once to warm up.
fn on_task<F: Future<Output = ()> + Send + 'static>(load: impl Fn() -> F + Send + 'static) {
    measured(async move {
        runtime::spawn(load()).await.expect("a load does not panic");
        let before = memory::calls();
        runtime::spawn(load()).await.expect("a load does not panic");
        memory::calls() - before
    });
}

/// Runs `load` as a computation, twice: once to warm up.
fn on_job(load: impl Fn() + Send + 'static) {
    measured(async move {
        let computation = runtime::compute(move || {
            load();
            let before = memory::calls();
            load();
            memory::calls() - before
        });
        computation.await.expect("a load does not panic")
    });
}

/// Runs `load` on the one worker of a runtime, and prints the allocations that it returns.
///
/// Without spare workers: valgrind makes every poll a long one, and a spare worker that serves beside it
/// would take some of the events and tasks in turns of its own.
fn measured(load: impl Future<Output = usize> + Send + 'static) {
    measured_on(&mut runtime::Builder::new_multi_thread(), load);
}

fn measured_on(builder: &mut runtime::Builder, load: impl Future<Output = usize> + Send + 'static) {
    let runtime = builder.worker_threads(1).spare_workers(0).enable_all().build();
    let runtime = runtime.expect("a runtime starts");
    let allocations = runtime.block_on(runtime.spawn(load)).expect("a load does not panic");
    println!("{allocations}");
}

/// Each task spawns one, which is the next to run.
async fn spawn_chain(times: usize) {
    fn link(left: usize, done: &'static Notify) {
        drop(runtime::spawn(async move {
            match left {
                0 => done.notify_one(),
                _ => link(left - 1, done),
            }
        }));
    }

    static DONE: Notify = Notify::const_new();
    link(times, &DONE);
    DONE.notified().await;
}

/// A task spawns some tasks, which all go to the ring but the last, and lets them run.
async fn spawn_batch(times: usize) {
    const BATCH: usize = 64;
    for _ in 0..times / BATCH {
        for _ in 0..BATCH {
            drop(runtime::spawn(async { black_box(()) }));
        }
        task::yield_now().await;
    }
}

async fn spawn_await(times: usize) {
    for _ in 0..times {
        runtime::spawn(async { black_box(()) }).await.expect("the task does nothing");
    }
}

async fn yield_to_nobody(times: usize) {
    for _ in 0..times {
        task::yield_now().await;
    }
}

/// Yields on a worker whose driver has a socket, with a turn of the driver after each poll.
fn turns(times: usize) {
    measured_on(runtime::Builder::new_multi_thread().event_interval(1), async move {
        let listener = runtime::net::TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("the loopback has free ports");
        yield_to_nobody(times).await;
        let before = memory::calls();
        yield_to_nobody(times).await;
        let calls = memory::calls() - before;
        drop(listener);
        calls
    });
}

/// A future that wakes itself in each poll, a number of times.
struct SelfWake(usize);

impl Future for SelfWake {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.0 == 0 {
            return Poll::Ready(());
        }
        self.0 -= 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// A timer that is dropped long before it is due.
async fn timer(times: usize) {
    for time in 0..times {
        breathe(time).await;
        let mut sleep = pin!(runtime::time::sleep(Duration::from_secs(60)));
        poll_fn(|cx| {
            assert!(sleep.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
    }
}

/// Ends the poll now and then. Otherwise the runtime would take the task for stuck, and start a thread.
async fn breathe(time: usize) {
    if time.is_multiple_of(256) {
        task::yield_now().await;
    }
}

/// The one look at the clock that each timer needs.
async fn clock(times: usize) {
    for time in 0..times {
        breathe(time).await;
        black_box(Instant::now());
    }
}

/// Bytes arrive on many sockets at a time, and wake the tasks that read them.
fn event(times: usize) {
    const SOCKETS: usize = 64;
    measured(async move {
        let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback has free ports");
        let address = listener.local_addr().expect("a listener has an address");
        let mut writers = Vec::new();
        for _ in 0..SOCKETS {
            let mut writer = TcpStream::connect(address).expect("a listener accepts");
            let (mut peer, _) = listener.accept().expect("a listener accepts");
            writer.set_nodelay(true).expect("a socket takes the option");
            // This byte has arrived, so that none of the bytes that count goes by another way.
            writer.write_all(&[0]).expect("a socket takes a byte");
            peer.read_exact(&mut [0]).expect("a byte arrives");
            peer.set_nonblocking(true).expect("a socket takes the option");
            let mut reader = runtime::net::TcpStream::from_std(peer).expect("a socket can be registered");
            writers.push(writer);
            runtime::spawn(async move { while let Ok(1..) = reader.read(&mut [0; 8]).await {} });
        }
        let mut rounds = async |rounds: usize| {
            for _ in 0..rounds {
                for writer in &mut writers {
                    writer.write_all(&[0]).expect("a socket takes a byte");
                }
                // Until the worker has looked at its sockets, which it does when nothing is left to run.
                runtime::time::sleep(Duration::from_millis(1)).await;
            }
        };
        rounds(times / SOCKETS).await;
        let before = memory::calls();
        rounds(times / SOCKETS).await;
        memory::calls() - before
    });
}

/// Which Fibonacci number is computed, and how many joins that takes.
const N: u32 = 14;
const JOINS: usize = 609;

fn joins(n: u32) -> u64 {
    if n < 2 {
        return n.into();
    }
    let (a, b) = parallel::join(|| joins(n - 1), || joins(n - 2));
    a + b
}

fn calls(n: u32) -> u64 {
    if n < 2 { n.into() } else { calls(n - 1) + calls(n - 2) }
}

/// Many jobs in each scope, but always the same number: more jobs at once would need more memory.
fn scope_spawn(times: usize) {
    const JOBS: usize = 1_000;
    for _ in 0..times / JOBS {
        parallel::scope(|scope| (0..JOBS).for_each(|_| scope.spawn(|_| black_box(()))));
    }
}
