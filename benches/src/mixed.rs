//! A server that computes: echo requests at a fixed pace, and beside them numbers to sort now and then, or a
//! computation that never ends.
//!
//! The set-ups are Tokio with Rayon, Tokio with `spawn_blocking`, and this runtime. Each is measured as it
//! is, and with each of its threads kept on one CPU. Each has its own echo server, and they take turns. The
//! client is another process, and sends at a fixed rate to the set-up that has its turn.
//!
//! **Sorts** are started at fixed times by a task on the server. A sort's time counts from when it was due,
//! so it includes the lateness of the timer: up to a millisecond with Tokio, and an eighth of one here.
//!
//! **Saturated**: as many tasks as workers compute one Fibonacci number after the other. Their rate is
//! compared with
//! ```text
//! allowed = rate without echo and client
//!           · (CPUs − cores of the client − cores of the echo server) / CPUs
//! ```
//! where the client's cores are what its process used in the same turn, and the echo server's are what the
//! server uses in a turn without computation. That is what a computation would get if the echo cost it
//! nothing but the CPU time it takes.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::arguments::{asked_for, is_test};
use crate::client::{self, Outcome};
use crate::fork_join::loads::{fib_cut, fib_plain};
use crate::fork_join::ours::compute;
use crate::fork_join::peer as pools;
use crate::fork_join::quicksort::{quicksort, sequential, shuffled};
use crate::peer::{Ours, Peer, Service, Tokio};
use crate::pin;
use crate::table::{maximum, median, minimum, quantile};
use crate::usage::{Others, Usage};

const CONNECTIONS: usize = 64;
/// Requests a second on each.
const RATE: usize = 200;
/// Fibonacci numbers up to this one are computed without `join`, which takes about 10 µs.
const CUT: u32 = 18;

/// A server that can compute.
trait SetUp: Send + Sync + Sized + 'static {
    const NAME: &'static str;

    /// Runs the echo server, and the tasks that wait for computations.
    type Peer: Service;

    fn start(workers: usize) -> Self;

    fn peer(&self) -> &Self::Peer;

    /// Sorts a copy of `input`, which is made where it is sorted.
    fn sort(&self, input: Arc<Vec<u32>>) -> impl Future<Output = Vec<u32>> + Send;

    /// The `n`th Fibonacci number.
    fn fib(&self, n: u32) -> impl Future<Output = u64> + Send;
}

/// One set of workers for everything.
struct OneSet<const IS_PINNED: bool>(Ours);

impl<const IS_PINNED: bool> SetUp for OneSet<IS_PINNED> {
    const NAME: &'static str = if IS_PINNED { "runtime, pinned" } else { "runtime" };

    type Peer = Ours;

    fn start(workers: usize) -> Self {
        Self(if IS_PINNED { Ours::start_pinned(workers) } else { Ours::start(workers) })
    }

    fn peer(&self) -> &Ours {
        &self.0
    }

    async fn sort(&self, input: Arc<Vec<u32>>) -> Vec<u32> {
        compute(move || {
            let mut data = input.to_vec();
            quicksort::<pools::Ours>(&mut (), &mut data);
            data
        })
        .await
    }

    async fn fib(&self, n: u32) -> u64 {
        compute(move || fib_cut::<pools::Ours>(&mut (), n, CUT)).await
    }
}

/// Tokio, and a pool of Rayon's with as many threads again.
struct TokioAndRayon<const IS_PINNED: bool>(Tokio, rayon::ThreadPool);

impl<const IS_PINNED: bool> TokioAndRayon<IS_PINNED> {
    async fn compute<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let (sender, result) = tokio::sync::oneshot::channel();
        self.1.spawn(move || _ = sender.send(work()));
        result.await.expect("a computation does not panic")
    }
}

impl<const IS_PINNED: bool> SetUp for TokioAndRayon<IS_PINNED> {
    const NAME: &'static str = if IS_PINNED { "tokio + rayon, pinned" } else { "tokio + rayon" };

    type Peer = Tokio;

    fn start(workers: usize) -> Self {
        let mut pool = rayon::ThreadPoolBuilder::new().num_threads(workers);
        if IS_PINNED {
            pool = pool.start_handler(pin::keep_on);
        }
        let tokio = if IS_PINNED { Tokio::start_pinned(workers) } else { Tokio::start(workers) };
        Self(tokio, pool.build().expect("a pool starts"))
    }

    fn peer(&self) -> &Tokio {
        &self.0
    }

    async fn sort(&self, input: Arc<Vec<u32>>) -> Vec<u32> {
        self.compute(move || {
            let mut data = input.to_vec();
            quicksort::<pools::Rayon>(&mut (), &mut data);
            data
        })
        .await
    }

    async fn fib(&self, n: u32) -> u64 {
        self.compute(move || fib_cut::<pools::Rayon>(&mut (), n, CUT)).await
    }
}

/// Tokio, with each computation on one thread of its blocking pool.
struct TokioBlocking<const IS_PINNED: bool>(Tokio);

impl<const IS_PINNED: bool> SetUp for TokioBlocking<IS_PINNED> {
    const NAME: &'static str =
        if IS_PINNED { "tokio + spawn_blocking, pinned" } else { "tokio + spawn_blocking" };

    type Peer = Tokio;

    fn start(workers: usize) -> Self {
        Self(if IS_PINNED { Tokio::start_pinned(workers) } else { Tokio::start(workers) })
    }

    fn peer(&self) -> &Tokio {
        &self.0
    }

    async fn sort(&self, input: Arc<Vec<u32>>) -> Vec<u32> {
        let sorted = tokio::task::spawn_blocking(move || {
            let mut data = input.to_vec();
            sequential(&mut data);
            data
        });
        sorted.await.expect("a sort does not panic")
    }

    async fn fib(&self, n: u32) -> u64 {
        tokio::task::spawn_blocking(move || fib_plain(n)).await.expect("a computation does not panic")
    }
}

/// Measures every set-up with a sort every 30 ms (`light`), every 12 ms (`heavy`), and with an endless
/// computation (`saturate`), and prints a table for each.
///
/// `BENCH_ROUNDS` (5) is how often each gets its turn, `BENCH_SECONDS` (2) how long a turn is. Under
/// `cargo test` each gets one short turn, to see that it works.
pub fn compare() {
    let rounds = if is_test() { 1 } else { crate::from_env("BENCH_ROUNDS", 5) };
    let time = match is_test() {
        true => Duration::from_millis(50),
        false => Duration::from_secs(crate::from_env("BENCH_SECONDS", 2) as u64),
    };
    let input = Arc::new(shuffled(if is_test() { 2_800 } else { 280_000 }));
    let (workers, processors) = (crate::workers(), pin::processors());
    let alone = readable_alone(&input);

    let mut sides = set_ups().map(|(_, start)| start(workers));
    for (name, period) in [LIGHT, HEAVY] {
        if !asked_for(name) {
            continue;
        }
        println!(
            "{name}: {workers} workers, {} requests/s, {} numbers ({alone}) every {period} ms",
            CONNECTIONS * RATE,
            input.len()
        );
        println!(
            "| set-up | echo p50 µs | p99 µs | p99.9 µs | jobs/s | job p50 ms | job p99 ms | server cores |"
        );
        let sorts = Sorts { input: &input, period: Duration::from_millis(period), time };
        in_turns(&mut sides, rounds, time, [0, 0, 0, 1, 1, 1, 2], |side| side.sort(&sorts));
    }
    if asked_for("saturate") {
        let n = if is_test() { 22 } else { 32 };
        println!(
            "saturate: {workers} workers on {processors} CPUs, {} requests/s, \
             {workers} times fib({n}) all the time",
            CONNECTIONS * RATE
        );
        println!(
            "| set-up | echo p50 µs | p99 µs | p99.9 µs | computations/s | of what is allowed \
             | client cores | echo cores |"
        );
        in_turns(&mut sides, rounds, time, [0, 0, 0, 1, 3, 2, 2], |side| side.saturate(n, time));
    }
}

/// A load with sorts, and the milliseconds between them.
pub const LIGHT: (&str, u64) = ("light", 30);
/// The same with more of them.
pub const HEAVY: (&str, u64) = ("heavy", 12);

/// Starts a set-up with so many workers.
pub type Start = fn(usize) -> Box<dyn Turns>;

/// Every set-up, by name.
pub fn set_ups() -> [(&'static str, Start); 6] {
    fn set_up<S: SetUp>() -> (&'static str, Start) {
        (S::NAME, Side::<S>::start)
    }
    [
        set_up::<OneSet<false>>(),
        set_up::<OneSet<true>>(),
        set_up::<TokioAndRayon<false>>(),
        set_up::<TokioAndRayon<true>>(),
        set_up::<TokioBlocking<false>>(),
        set_up::<TokioBlocking<true>>(),
    ]
}

/// Measures each of `sides` once a round. Prints the rows of a table, with so many `decimals` in each column.
/// The caller has printed the head.
fn in_turns(
    sides: &mut [Box<dyn Turns>],
    rounds: usize,
    time: Duration,
    decimals: Columns<usize>,
    turn: impl Fn(&dyn Turns) -> Columns<f64>,
) {
    let others = Others::watch();
    let mut columns = vec![Columns::<Vec<f64>>::default(); sides.len()];
    for round in 0..rounds {
        // The side that goes first changes with each round.
        for index in 0..sides.len() {
            let side = (round + index) % sides.len();
            for (column, value) in columns[side].iter_mut().zip(turn(&*sides[side])) {
                column.push(value);
            }
        }
    }

    let others = others.cores();
    println!("|---|---|---|---|---|---|---|---|");
    for (side, columns) in sides.iter().zip(&mut columns) {
        print!("| {:<30} ", side.name());
        for (column, decimals) in columns.iter_mut().zip(decimals) {
            let (least, greatest, middle) = (minimum(column), maximum(column), median(column));
            print!("| {middle:.decimals$} [{least:.decimals$}–{greatest:.decimals$}] ");
        }
        println!("|");
    }
    println!("A number is the median of {rounds} rounds of {} s [least–greatest].", time.as_secs_f64());
    println!("Other processes, without the client, had {others:.2} cores.\n");
}

/// How long a sort takes on one thread.
fn readable_alone(input: &[u32]) -> String {
    let times: Vec<_> = (0..5)
        .map(|_| {
            let start = Instant::now();
            let mut data = input.to_vec();
            sequential(&mut data);
            start.elapsed().as_nanos() as f64
        })
        .collect();
    crate::table::readable(minimum(&times))
}

/// One `T` for each column of a table.
pub type Columns<T> = [T; 7];

/// What a turn with sorts consists of.
#[derive(Debug)]
pub struct Sorts<'a> {
    /// What is sorted.
    pub input: &'a Arc<Vec<u32>>,
    /// The time between the starts of two sorts.
    pub period: Duration,
    /// How long the turn is.
    pub time: Duration,
}

/// A set-up that takes its turns.
pub trait Turns {
    /// The set-up's name, for tables and command lines.
    fn name(&self) -> &'static str;

    /// A turn with sorts: the echo's p50, p99 and p99.9 in microseconds, jobs a second, their p50 and p99 in
    /// milliseconds, the server's cores.
    fn sort(&self, sorts: &Sorts<'_>) -> Columns<f64>;

    /// A turn with an endless computation of the `n`th Fibonacci number, and two shorter ones for comparison.
    fn saturate(&self, n: u32, time: Duration) -> Columns<f64>;
}

/// One set-up, and its server.
struct Side<S> {
    set_up: Arc<S>,
    addr: SocketAddr,
    workers: usize,
}

impl<S: SetUp> Side<S> {
    fn start(workers: usize) -> Box<dyn Turns> {
        let set_up = Arc::new(S::start(workers));
        let listener = crate::network::listener();
        let addr = listener.local_addr().expect("it is bound");
        set_up.peer().serve_echo(listener);
        Box::new(Self { set_up, addr, workers })
    }

    fn echo(&self, time: Duration) -> Outcome {
        let echo = client::measure_paced(self.addr, CONNECTIONS, RATE, time);
        assert!(echo.requests > 0, "nothing was answered");
        echo
    }
}

impl<S: SetUp> Turns for Side<S> {
    fn name(&self) -> &'static str {
        S::NAME
    }

    fn sort(&self, sorts: &Sorts<'_>) -> Columns<f64> {
        let jobs = Arc::new(Jobs { unfinished: AtomicUsize::new(1), ..Jobs::default() });
        let before = Usage::now();
        let start = Instant::now();
        self.set_up.peer().block_on(async {
            S::Peer::spawn(start_jobs(self.set_up.clone(), jobs.clone(), sorts.input.clone(), sorts.period));
        });
        let echo = self.echo(sorts.time);
        let (end, used) = (Instant::now(), Usage::now().since(before));

        // A sort that ends after the turn counts in the latencies, but not in the rate.
        jobs.are_over.store(true, Ordering::Relaxed);
        while jobs.unfinished.load(Ordering::Acquire) > 0 {
            thread::sleep(Duration::from_millis(1));
        }
        let done = jobs.done.lock().expect("no thread panics with the lock");
        assert!(
            done.sorted.len() == sorts.input.len() && done.sorted.is_sorted(),
            "{}: wrong order",
            S::NAME
        );
        let in_time = done.times.iter().filter(|(_, at)| *at <= end).count();
        let mut latencies: Vec<_> =
            done.times.iter().map(|(due, at)| (*at - *due).as_secs_f64() * 1e3).collect();

        let seconds = (end - start).as_secs_f64();
        [
            echo.p50,
            echo.p99,
            echo.p999,
            in_time as f64 / seconds,
            quantile(&mut latencies, 0.5),
            quantile(&mut latencies, 0.99),
            used.cpu.as_secs_f64() / seconds,
        ]
    }

    fn saturate(&self, n: u32, time: Duration) -> Columns<f64> {
        let cores = |used: Usage, since: Instant| used.cpu.as_secs_f64() / since.elapsed().as_secs_f64();
        let processors = pin::processors() as f64;

        let (before, start) = (Usage::now(), Instant::now());
        self.echo(time / 2);
        let echo_cores = cores(Usage::now().since(before), start);

        let computing = Computing::start(&self.set_up, self.workers, n);
        let alone = computing.rate_while(|| thread::sleep(time / 2)).1;

        let (before, start) = (Usage::of_children(), Instant::now());
        let (echo, rate) = computing.rate_while(|| self.echo(time));
        let client_cores = cores(Usage::of_children().since(before), start);
        computing.end();

        let allowed = alone * (processors - client_cores - echo_cores) / processors;
        [echo.p50, echo.p99, echo.p999, rate, rate / allowed, client_cores, echo_cores]
    }
}

/// Tasks that compute without end.
struct Computing(Arc<Progress>);

#[derive(Default)]
struct Progress {
    is_over: AtomicBool,
    done: AtomicUsize,
}

/// How long a computation that never ends runs before it counts.
const RUN_UP: Duration = Duration::from_millis(50);

impl Computing {
    fn start<S: SetUp>(set_up: &Arc<S>, tasks: usize, n: u32) -> Self {
        let progress = Arc::new(Progress::default());
        let right = fib_plain(n);
        set_up.peer().block_on(async {
            for _ in 0..tasks {
                let (set_up, progress) = (set_up.clone(), progress.clone());
                S::Peer::spawn(async move {
                    while !progress.is_over.load(Ordering::Relaxed) {
                        assert_eq!(set_up.fib(n).await, right);
                        progress.done.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        thread::sleep(RUN_UP);
        Self(progress)
    }

    /// How many computations were done in a second while `f` ran.
    fn rate_while<R>(&self, f: impl FnOnce() -> R) -> (R, f64) {
        let done = || self.0.done.load(Ordering::Relaxed);
        let (before, start) = (done(), Instant::now());
        let result = f();
        (result, (done() - before) as f64 / start.elapsed().as_secs_f64())
    }

    fn end(self) {
        self.0.is_over.store(true, Ordering::Relaxed);
        // Each task drops its reference when it ends.
        while Arc::strong_count(&self.0) > 1 {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The sorts of one turn.
#[derive(Default)]
struct Jobs {
    /// Set when no more are to be started.
    are_over: AtomicBool,
    /// How many have been started and are not done, and one for the task that starts them.
    unfinished: AtomicUsize,
    done: Mutex<Done>,
}

#[derive(Default)]
struct Done {
    /// When a sort was due, and when it was done.
    times: Vec<(Instant, Instant)>,
    /// The result of the last, to be looked at when there is time.
    sorted: Vec<u32>,
}

/// Starts a sort every `period`, whether the one before is done or not.
async fn start_jobs<S: SetUp>(set_up: Arc<S>, jobs: Arc<Jobs>, input: Arc<Vec<u32>>, period: Duration) {
    let mut due = Instant::now();
    while !jobs.are_over.load(Ordering::Relaxed) {
        let (set_up, of_job, input) = (set_up.clone(), jobs.clone(), input.clone());
        jobs.unfinished.fetch_add(1, Ordering::Relaxed);
        S::Peer::spawn(async move {
            let sorted = set_up.sort(input).await;
            of_job.finish(due, sorted);
        });
        due += period;
        _ = S::Peer::sleep_until(due).await;
    }
    jobs.unfinished.fetch_sub(1, Ordering::Release);
}

impl Jobs {
    fn finish(&self, due: Instant, sorted: Vec<u32>) {
        let now = Instant::now();
        let old = {
            let mut done = self.done.lock().expect("no thread panics with the lock");
            done.times.push((due, now));
            std::mem::replace(&mut done.sorted, sorted)
        };
        drop(old);
        self.unfinished.fetch_sub(1, Ordering::Release);
    }
}
