//! Tasks that hold their threads for long, and how late the other tasks are.
//!
//! Eight programs on both runtimes, one after the other. A ping is an echo request over TCP that a thread of
//! this process sends every 10 ms; it runs before all others (`SCHED_FIFO`, where that is allowed), or its
//! own delays would count. A tick is a task's sleep until a time 10 ms after the last. Both count from when
//! they were due, so a stall of a second counts with all the pings that should have been sent in it. The
//! last rows show the cost of a call of `block_in_place` that does not block.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::arguments::{asked_for, is_test};
use crate::loads::files::TemporaryFile;
use crate::network::listener;
use crate::paced::raise_priority;
use crate::peer::{Files, Local, Ours, Peer, Processes, Settings, Tokio, Tunable};
use crate::table::{maximum, median, minimum, quantile};
use crate::usage::Others;

/// Between pings, and between ticks.
const PERIOD: Duration = Duration::from_millis(10);
/// Tasks that tick.
const TICKERS: usize = 4;
/// Children that sleep at the same time.
const CHILDREN: usize = 64;
/// How long the workers get to fall asleep.
const SETTLE: Duration = Duration::from_millis(20);
/// How long a thread that is not needed stays, where the program counts threads.
const KEEP_ALIVE: Duration = Duration::from_millis(200);

/// How long, and how often.
#[derive(Clone, Copy)]
struct Size {
    workers: usize,
    /// Rounds of programs 1 and 2.
    rounds: usize,
    /// How long a task is stuck in programs 1 and 2.
    long: Duration,
    /// Repetitions of programs 3, 4, 6, 7 and 8.
    repetitions: usize,
    /// How often handlers block in program 5.
    blocks: usize,
    /// How long a task is stuck in programs 3 to 7, and a child sleeps in program 8.
    second: Duration,
    /// Calls of `block_in_place` in a round, of which there are several.
    calls: usize,
}

impl Size {
    fn of_this_run() -> Self {
        let workers = crate::workers();
        let milliseconds = Duration::from_millis;
        match is_test() {
            true => {
                let second = milliseconds(30);
                Self { workers, rounds: 1, long: second, repetitions: 1, blocks: 1, second, calls: 100 }
            }
            false => Self {
                workers,
                rounds: crate::from_env("BENCH_ROUNDS", 3),
                long: Duration::from_secs(crate::from_env("BENCH_SECONDS", 10) as u64),
                repetitions: 20,
                blocks: 50,
                second: milliseconds(1000),
                calls: 1_000_000,
            },
        }
    }
}

/// A row of the table: what was late, by how many milliseconds, on ours and on Tokio.
struct Row {
    what: &'static str,
    /// What the 99th percentile of ours should not exceed.
    bound: f64,
    ours: Vec<f64>,
    tokio: Vec<f64>,
}

/// Runs the programs that the command line asks for, and prints a table.
///
/// `BENCH_ROUNDS` (3) is how often tasks are stuck for `BENCH_SECONDS` (10) in the first two programs. Under
/// `cargo test` everything is short, to see that it works.
pub fn compare() {
    let size = Size::of_this_run();
    let others = Others::watch();
    let mut rows = Vec::new();
    let mut notes = Vec::new();

    for (name, stuck, bound, whats) in [
        (
            "others_stuck",
            size.workers - 1,
            15.0,
            ["all workers but one are stuck: pings", "all workers but one are stuck: ticks"],
        ),
        ("all_stuck", size.workers, 25.0, ["all workers are stuck: pings", "all workers are stuck: ticks"]),
    ] {
        if !asked_for(name) {
            continue;
        }
        let ([ours_pings, ours_ticks], [tokio_pings, tokio_ticks]) =
            (hold_workers::<Ours>(size, stuck), hold_workers::<Tokio>(size, stuck));
        rows.push(Row { what: whats[0], bound, ours: ours_pings, tokio: tokio_pings });
        rows.push(Row { what: whats[1], bound, ours: ours_ticks, tokio: tokio_ticks });
    }
    if asked_for("lifo") {
        let (ours, tokio) = (wake_and_hold::<Ours>(size), wake_and_hold::<Tokio>(size));
        rows.push(Row { what: "a task wakes another and is stuck: the woken one", bound: 20.0, ours, tokio });
    }
    if asked_for("driver") {
        let (ours, tokio) = (hold_driver::<Ours>(size), hold_driver::<Tokio>(size));
        let what = "the worker that had the driver is stuck: the next packet";
        rows.push(Row { what, bound: 20.0, ours, tokio });
    }
    if asked_for("blocking") {
        let (ours, tokio) = (block_handlers::<Ours>(size), block_handlers::<Tokio>(size));
        for (name, threads) in [(Ours::NAME, ours.1), (Tokio::NAME, tokio.1)] {
            let [before, most, after] = threads;
            notes.push(format!(
                "Threads of {name} while handlers block: {before} before, {most} at most, {after} after."
            ));
        }
        let what = "twice as many handlers block as there are workers: pings";
        rows.push(Row { what, bound: 25.0, ours: ours.0, tokio: tokio.0 });
    }

    if asked_for("files") {
        if let (Some(ours), Some(tokio)) = (hang_in_files::<Ours>(size), hang_in_files::<Tokio>(size)) {
            let what = "as many tasks hang in the open of a file as there are workers: pings";
            rows.push(Row { what, bound: 25.0, ours, tokio });
        } else {
            notes.push(
                "This file system has no leases, so no open of a file could be made to hang.".to_owned(),
            );
        }
    }

    if asked_for("local") {
        let (ours, tokio) = (hold_local_set::<Ours>(size), hold_local_set::<Tokio>(size));
        rows.push(Row { what: "a task of a `LocalSet` is stuck: pings", bound: 15.0, ours, tokio });
    }
    if asked_for("children") {
        let (ours, tokio) = (wait_for_children::<Ours>(size), wait_for_children::<Tokio>(size));
        rows.push(Row { what: "64 tasks wait for a child that sleeps: pings", bound: 15.0, ours, tokio });
    }

    if !rows.is_empty() {
        println!("{} workers; how late, in milliseconds", size.workers);
        println!("| | at most | {0} p50 | p99 | max | {1} p50 | p99 | max |", Ours::NAME, Tokio::NAME);
        println!("|---|---|---|---|---|---|---|---|");
    }
    for mut row in rows {
        print!("| {} | {:.0} ", row.what, row.bound);
        for times in [&mut row.ours, &mut row.tokio] {
            let (p50, p99) = (quantile(times, 0.5), quantile(times, 0.99));
            print!("| {p50:.2} | {p99:.1} | {:.1} ", maximum(times));
        }
        println!("|");
    }
    notes.iter().for_each(|note| println!("{note}"));
    if asked_for("block_in_place") {
        compare_calls(size);
    }
    println!("Other processes had {:.2} cores.", others.cores());
}

/// Holds the thread by computing.
fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// A connection to an echo server.
struct Pinger(TcpStream);

impl Pinger {
    /// Connects, and waits for a first answer.
    fn connect(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).expect("the server listens");
        stream.set_nodelay(true).expect("a socket takes the option");
        let mut pinger = Self(stream);
        pinger.ask(PING);
        pinger
    }

    /// Sends a byte.
    fn send(&mut self, byte: u8) {
        self.0.write_all(&[byte]).expect("the server stays");
    }

    /// Waits for an answer.
    fn receive(&mut self) {
        self.0.read_exact(&mut [0]).expect("the server stays");
    }

    fn ask(&mut self, byte: u8) {
        self.send(byte);
        self.receive();
    }

    /// How late the answer comes to a ping that is due at `due`.
    fn ping(&mut self, due: Instant) -> f64 {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        self.ask(PING);
        milliseconds(due.elapsed())
    }
}

/// A request that is answered at once.
const PING: u8 = b'p';
/// One whose handler is stuck first.
const HOLD: u8 = b'h';

/// Runs `f` on a thread that goes before all others.
fn promptly<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    let run = || {
        if let Err(error) = raise_priority(true).or_else(|_| raise_priority(false)) {
            eprintln!(
                "the pings are sent at normal priority ({error}): their own delays count as the runtime's"
            );
        }
        f()
    };
    thread::scope(|scope| scope.spawn(run).join().expect("a pinger does not panic"))
}

/// A server on `peer` with a handler that is stuck for a while if it is asked to.
fn serve<P: Tunable>(peer: &P, hold: Duration) -> SocketAddr {
    let listener = listener();
    let addr = listener.local_addr().expect("it is bound");
    peer.serve_echo_after(listener, move |request| {
        if request.contains(&HOLD) {
            spin(hold);
        }
    });
    addr
}

/// Programs 1 and 2: so many tasks are `stuck`; how late pings and ticks are.
fn hold_workers<P: Tunable>(size: Size, stuck: usize) -> [Vec<f64>; 2] {
    let (mut pings, ticks) = (Vec::new(), Arc::new(Mutex::new(Vec::new())));
    for _ in 0..size.rounds {
        let peer = P::start(size.workers);
        let addr = serve(&peer, Duration::ZERO);
        promptly(|| {
            let mut pinger = Pinger::connect(addr);
            let begun = Arc::new(AtomicUsize::new(0));
            peer.block_on(async {
                for _ in 0..stuck {
                    let begun = begun.clone();
                    P::spawn(async move {
                        begun.fetch_add(1, Ordering::Relaxed);
                        spin(size.long);
                    });
                }
            });
            let start = Instant::now();
            while begun.load(Ordering::Relaxed) < stuck {
                thread::sleep(Duration::from_micros(100));
            }
            let end = start + size.long;
            peer.block_on(async {
                for _ in 0..TICKERS {
                    P::spawn(tick::<P>(start..end, ticks.clone()));
                }
            });
            let mut due = start + PERIOD;
            while due < end {
                pings.push(pinger.ping(due));
                due += PERIOD;
            }
        });
        // The last ticks may come only after the stuck tasks.
        while Arc::strong_count(&ticks) > 1 {
            thread::sleep(Duration::from_millis(1));
        }
    }
    let ticks = std::mem::take(&mut *ticks.lock().expect("no thread panics with the lock"));
    [pings, ticks]
}

/// Notes how late each tick is that is due in `time`.
async fn tick<P: Tunable>(time: Range<Instant>, ticks: Arc<Mutex<Vec<f64>>>) {
    let mut due = time.start + PERIOD;
    let mut late = Vec::new();
    while due < time.end {
        _ = P::sleep_until(due).await;
        late.push(milliseconds(due.elapsed()));
        due += PERIOD;
    }
    ticks.lock().expect("no thread panics with the lock").append(&mut late);
}

/// Program 3: a task wakes another, which is then to be run next, and is stuck.
fn wake_and_hold<P: Tunable>(size: Size) -> Vec<f64> {
    let peer = P::start(size.workers);
    let wake = |_| {
        let (late, woken_at) = std::sync::mpsc::channel();
        peer.block_on(async {
            let (done, is_done) = P::oneshot();
            P::spawn(async move {
                let (wake, woken) = P::oneshot();
                let (waits, is_waiting) = P::oneshot();
                let (tell_when, when) = std::sync::mpsc::channel::<Instant>();
                P::spawn(async move {
                    P::send(waits);
                    woken.await.expect("it is sent");
                    let now = Instant::now();
                    let start = when.recv().expect("it was sent before the wake");
                    late.send(milliseconds(now - start)).expect("the receiver waits");
                });
                is_waiting.await.expect("it is sent");
                // It waits by now, wherever it has run; and all other threads sleep.
                _ = P::sleep_until(Instant::now() + SETTLE).await;
                tell_when.send(Instant::now()).expect("the receiver waits");
                P::send(wake);
                spin(size.second);
                P::send(done);
            });
            is_done.await.expect("it is sent");
        });
        woken_at.recv().expect("it ran")
    };
    (0..size.repetitions).map(wake).collect()
}

/// Program 4: a handler is stuck on the worker that took its request from the driver; another request comes 5
/// ms later.
fn hold_driver<P: Tunable>(size: Size) -> Vec<f64> {
    let peer = P::start(size.workers);
    let addr = serve(&peer, size.second);
    promptly(|| {
        let (mut holder, mut pinger) = (Pinger::connect(addr), Pinger::connect(addr));
        let ping = |_| {
            thread::sleep(SETTLE);
            holder.send(HOLD);
            let late = pinger.ping(Instant::now() + Duration::from_millis(5));
            holder.receive();
            late
        };
        (0..size.repetitions).map(ping).collect()
    })
}

/// Program 5: twice as many handlers as there are workers block for a second each, again and again. How late
/// pings are, and the process's threads before, meanwhile, and at the end.
fn block_handlers<P: Tunable>(size: Size) -> (Vec<f64>, [usize; 3]) {
    let peer = P::start_with(size.workers, Settings { keep_alive: Some(KEEP_ALIVE), ..Settings::default() });
    let addr = serve(&peer, Duration::ZERO);
    let (mut pings, mut most) = (Vec::new(), 0);
    let before = promptly(|| {
        let mut pinger = Pinger::connect(addr);
        let before = threads();
        for _ in 0..size.blocks {
            let blocked = Arc::new(());
            peer.block_on(async {
                for _ in 0..2 * size.workers {
                    let blocked = blocked.clone();
                    P::spawn(async move {
                        thread::sleep(size.second);
                        drop(blocked);
                    });
                }
            });
            let mut due = Instant::now() + PERIOD;
            while Arc::strong_count(&blocked) > 1 {
                pings.push(pinger.ping(due));
                due += PERIOD;
                most = most.max(threads());
            }
        }
        // The pinger's own thread is gone at the end.
        before - 1
    });
    let start = Instant::now();
    while threads() > before && start.elapsed() < 10 * KEEP_ALIVE {
        thread::sleep(Duration::from_millis(1));
    }
    (pings, [before, most - 1, threads()])
}

/// Program 6: as many tasks open a file as there are workers, and the open hangs, again and again. How late
/// pings are; nothing where a file cannot be made so slow.
fn hang_in_files<P: Tunable + Files>(size: Size) -> Option<Vec<f64>> {
    let peer = P::start(size.workers);
    let addr = serve(&peer, Duration::ZERO);
    let file = Arc::new(TemporaryFile::new("slow", b"late"));
    promptly(|| {
        let mut pinger = Pinger::connect(addr);
        let mut pings = Vec::new();
        for _ in 0..size.repetitions {
            let lease = Lease::take(&file)?;
            peer.block_on(async {
                for _ in 0..size.workers {
                    let file = file.clone();
                    P::spawn(async move { assert_eq!(P::read_whole(&file.0, 1).await, 4) });
                }
            });
            let end = Instant::now() + size.second;
            let mut due = Instant::now() + PERIOD;
            while due < end {
                pings.push(pinger.ping(due));
                due += PERIOD;
            }
            drop(lease);
            while Arc::strong_count(&file) > 1 {
                thread::sleep(Duration::from_millis(1));
            }
        }
        Some(pings)
    })
}

/// Program 7: a thread outside runs a set of local tasks, one of which is stuck. How late pings are.
fn hold_local_set<P: Tunable + Local>(size: Size) -> Vec<f64> {
    let peer = P::start(size.workers);
    let addr = serve(&peer, Duration::ZERO);
    promptly(|| {
        let mut pinger = Pinger::connect(addr);
        let mut pings = Vec::new();
        for _ in 0..size.repetitions {
            thread::scope(|scope| {
                let stuck = scope.spawn(|| peer.run_local(move || spin(size.second)));
                ping_until(&mut pinger, &mut pings, || stuck.is_finished());
            });
        }
        pings
    })
}

/// Program 8: many tasks wait for the output and the exit of a child that sleeps. How late pings are;
/// starting the children counts.
fn wait_for_children<P: Tunable + Processes>(size: Size) -> Vec<f64> {
    let peer = P::start(size.workers);
    let addr = serve(&peer, Duration::ZERO);
    promptly(|| {
        let mut pinger = Pinger::connect(addr);
        let mut pings = Vec::new();
        for _ in 0..size.repetitions {
            let running = Arc::new(());
            peer.block_on(async {
                for _ in 0..CHILDREN {
                    let running = running.clone();
                    P::spawn(async move {
                        P::run_sleeper(size.second.as_secs_f64()).await;
                        drop(running);
                    });
                }
            });
            ping_until(&mut pinger, &mut pings, || Arc::strong_count(&running) == 1);
        }
        pings
    })
}

/// Sends pings until `is_over`.
fn ping_until(pinger: &mut Pinger, pings: &mut Vec<f64>, is_over: impl Fn() -> bool) {
    let mut due = Instant::now() + PERIOD;
    while !is_over() {
        pings.push(pinger.ping(due));
        due += PERIOD;
    }
}

/// The right to be asked before others open a file. They hang in the call until this is dropped.
struct Lease {
    _file: std::fs::File,
}

impl Lease {
    /// Nothing if the file system has no leases.
    fn take(file: &TemporaryFile) -> Option<Self> {
        let file = std::fs::File::options().write(true).open(&file.0).expect("the file is there");
        // The system's question is a signal, which would end the process.
        // SAFETY: the calls have no effect on memory.
        let result = unsafe {
            libc::signal(libc::SIGIO, libc::SIG_IGN);
            libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK)
        };
        (result == 0).then_some(Self { _file: file })
    }
}

/// Threads of this process.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("Linux tells a process its threads").count()
}

/// Threads that were started by the runtime that is measured.
static STARTED: AtomicUsize = AtomicUsize::new(0);

/// Rounds of [`compare_calls`].
const CALL_ROUNDS: usize = 5;

/// What `block_in_place` costs: around nothing; around a microsecond of work; around nothing, once in each
/// poll of a task. (A runtime that gives the whole worker away at the first call has nothing left to do at
/// the others of the same poll.)
fn compare_calls(size: Size) {
    println!(
        "| {} calls of block_in_place, minimum, median ns | empty | 1 µs, less that | threads started \
         | one a poll | threads started |",
        size.calls
    );
    println!("|---|---|---|---|---|---|");
    call::<Ours>(size);
    call::<Tokio>(size);
}

fn call<P: Tunable>(size: Size) {
    let settings = Settings {
        on_thread_start: Some(|| _ = STARTED.fetch_add(1, Ordering::Relaxed)),
        ..Settings::default()
    };
    let peer = P::start_with(size.workers, settings);
    while STARTED.load(Ordering::Relaxed) < size.workers {
        thread::sleep(Duration::from_millis(1));
    }
    STARTED.store(0, Ordering::Relaxed);
    let mut columns = [const { Vec::new() }; 3];
    let mut started = [0; 2];
    for _ in 0..if is_test() { 1 } else { CALL_ROUNDS } {
        let [empty, plain, marked] = in_task(&peer, async move {
            const MICROSECOND: Duration = Duration::from_micros(1);
            [
                time_of(size.calls, || P::block_in_place(|| ())),
                time_of(size.calls, || spin(MICROSECOND)),
                time_of(size.calls, || P::block_in_place(|| spin(MICROSECOND))),
            ]
        });
        started[0] += STARTED.swap(0, Ordering::Relaxed);
        // A tenth, since some take long.
        let calls = size.calls / 10;
        let [yields, yields_and_calls] = in_task(&peer, async move {
            let start = Instant::now();
            for _ in 0..calls {
                P::yield_now().await;
            }
            let middle = Instant::now();
            for _ in 0..calls {
                P::block_in_place(|| ());
                P::yield_now().await;
            }
            [middle - start, middle.elapsed()].map(|time| time.as_nanos() as f64 / calls as f64)
        });
        started[1] += STARTED.swap(0, Ordering::Relaxed);
        for (column, value) in columns.iter_mut().zip([empty, marked - plain, yields_and_calls - yields]) {
            column.push(value);
        }
    }
    let [empty, short, polls] =
        columns.map(|mut times| format!("{:.0}, {:.0}", minimum(&times), median(&mut times)));
    println!("| {} | {empty} | {short} | {} | {polls} | {} |", P::NAME, started[0], started[1]);
}

/// What `future` gives as a task of `peer`.
fn in_task<P: Tunable, T: Send + 'static>(peer: &P, future: impl Future<Output = T> + Send + 'static) -> T {
    let (sender, result) = std::sync::mpsc::channel();
    peer.block_on(async {
        P::spawn(async move { sender.send(future.await).expect("the caller waits for it") });
    });
    result.recv().expect("the task does not panic")
}

/// Nanoseconds a call.
fn time_of(calls: usize, f: impl Fn()) -> f64 {
    let start = Instant::now();
    (0..calls).for_each(|_| f());
    start.elapsed().as_nanos() as f64 / calls as f64
}
