//! Tasks whose polls take from some microseconds to a second, and how late the other tasks are.
//!
//! Twice as many tasks as there are workers spin for a time, yield, and spin again. Beside them come, each
//! every 5 ms: an echo request over TCP, a task that a thread outside spawns, and a task's timer. Lateness
//! counts from when each was due. What the spinning tasks got done is compared, too, and how many threads of
//! the process wanted a CPU, on average.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::arguments::is_test;
use crate::from_env;
use crate::network::listener;
use crate::paced::raise_priority;
use crate::peer::{Ours, Peer, Tokio, Tunable};
use crate::table::quantile;
use crate::usage::Others;

/// Between requests, between spawns, and between timers.
const PERIOD: Duration = Duration::from_millis(5);
/// How long a poll takes, in microseconds.
const POLLS: [u64; 8] = [50, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 1_000_000];
/// Between two looks at which threads want a CPU.
const LOOK: Duration = Duration::from_millis(3);

/// What one runtime made of one load.
struct Result {
    echoes: Vec<f64>,
    spawns: Vec<f64>,
    timers: Vec<f64>,
    /// Polls that the spinning tasks got done, in a second.
    polls: f64,
    /// Threads that wanted a CPU, on average.
    runnable: f64,
}

/// Prints a table. `BENCH_SECONDS` (2) is how long each load runs, or five polls, if those take longer.
/// `BENCH_POLL_MICROS` and `BENCH_WORKERS` choose the rows of one length of polls and one number of workers.
pub fn compare() {
    let others = Others::watch();
    let workers: &[usize] = if is_test() { &[1] } else { &[1, 2, 4] };
    let polls = if is_test() { &POLLS[..1] } else { &POLLS[..] };
    let (only_workers, only_poll) = (from_env("BENCH_WORKERS", 0), from_env("BENCH_POLL_MICROS", 0));
    let is_chosen = |only: usize, row: usize| only == 0 || only == row;
    println!("How late, in milliseconds: p50 / p99");
    println!(
        "| workers | a poll | echo: {0} | {1} | spawn from outside: {0} | {1} | timer: {0} | {1} \
         | polls, of {1} | threads that want a CPU: {0} | {1} |",
        Ours::NAME,
        Tokio::NAME
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for &workers in workers.iter().filter(|&&workers| is_chosen(only_workers, workers)) {
        let polls = polls.iter().filter(|&&micros| is_chosen(only_poll, micros as usize));
        for poll in polls.map(|&micros| Duration::from_micros(micros)) {
            let mut ours = run::<Ours>(workers, poll);
            let mut tokio = run::<Tokio>(workers, poll);
            let done = ours.polls / tokio.polls;
            print!("| {workers} | {poll:?} ");
            for (ours, tokio) in [
                (&mut ours.echoes, &mut tokio.echoes),
                (&mut ours.spawns, &mut tokio.spawns),
                (&mut ours.timers, &mut tokio.timers),
            ] {
                print!("| {} | {} ", of(ours), of(tokio));
            }
            println!("| {done:.2} | {:.1} | {:.1} |", ours.runnable, tokio.runnable);
        }
    }
    println!("Other processes had {:.2} cores.", others.cores());
}

fn of(late: &mut [f64]) -> String {
    format!("{:.2} / {:.2}", quantile(late, 0.5), quantile(late, 0.99))
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn run<P: Tunable>(workers: usize, poll: Duration) -> Result {
    let time = match is_test() {
        true => Duration::from_millis(50),
        false => Duration::from_secs(from_env("BENCH_SECONDS", 2) as u64).max(5 * poll),
    };
    let peer = P::start(workers);
    let listener = listener();
    let addr = listener.local_addr().expect("it is bound");
    peer.serve_echo(listener);
    let mut stream = TcpStream::connect(addr).expect("the server listens");
    stream.set_nodelay(true).expect("a socket takes the option");
    ask(&mut stream);

    let (is_over, polls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    peer.block_on(async {
        for _ in 0..2 * workers {
            P::spawn(spin_and_yield::<P>(poll, is_over.clone(), polls.clone()));
        }
    });
    // The first polls, and what a runtime needs to notice.
    thread::sleep((2 * poll).max(Duration::from_millis(20)));

    let span = Instant::now()..Instant::now() + time;
    let (polls_before, counted_from) = (polls.load(Ordering::Relaxed), Instant::now());
    let (tell_timers, timers) = mpsc::channel();
    peer.block_on(async { P::spawn(tick::<P>(span.clone(), tell_timers)) });
    let (echoes, spawns, runnable) = thread::scope(|scope| {
        let echoes = scope.spawn(|| promptly(|| every_period(&span, |_| ask(&mut stream))));
        let spawns = scope.spawn(|| promptly(|| spawn_from_outside(&peer, &span)));
        let runnable = scope.spawn(|| promptly(|| threads_that_want_a_cpu(&span)));
        (join(echoes), join(spawns), join(runnable))
    });
    let polls_done = polls.load(Ordering::Relaxed) - polls_before;
    // Longer than the span, if the last ones were late.
    let polls = polls_done as f64 / counted_from.elapsed().as_secs_f64();
    is_over.store(true, Ordering::Relaxed);
    let timers = timers.recv().expect("the ticker ends");
    Result { echoes, spawns, timers, polls, runnable }
}

fn join<R>(thread: thread::ScopedJoinHandle<'_, R>) -> R {
    thread.join().expect("it does not panic")
}

async fn spin_and_yield<P: Peer>(poll: Duration, is_over: Arc<AtomicBool>, polls: Arc<AtomicU64>) {
    while !is_over.load(Ordering::Relaxed) {
        let start = Instant::now();
        while start.elapsed() < poll {
            std::hint::spin_loop();
        }
        polls.fetch_add(1, Ordering::Relaxed);
        P::yield_now().await;
    }
}

async fn tick<P: Tunable>(span: Range<Instant>, late: mpsc::Sender<Vec<f64>>) {
    let mut times = Vec::new();
    let mut due = span.start + PERIOD;
    while due < span.end {
        if Instant::now() < given_up(&span) {
            _ = P::sleep_until(due).await;
        }
        times.push(milliseconds(due.elapsed()));
        // Those that were due meanwhile were as late.
        due += PERIOD;
    }
    _ = late.send(times);
}

/// A runtime that falls behind is asked no more from then on. What is still due counts as late as it is then.
fn given_up(span: &Range<Instant>) -> Instant {
    span.end + (span.end - span.start)
}

/// Calls `f` whenever it is due; says how late each call ended.
fn every_period(span: &Range<Instant>, mut f: impl FnMut(Instant)) -> Vec<f64> {
    let mut late = Vec::new();
    let mut due = span.start + PERIOD;
    while due < span.end {
        if Instant::now() < given_up(span) {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            f(due);
        }
        late.push(milliseconds(due.elapsed()));
        due += PERIOD;
    }
    late
}

fn ask(stream: &mut TcpStream) {
    stream.write_all(b"p").expect("the server stays");
    stream.read_exact(&mut [0]).expect("the server stays");
}

/// How late the tasks begin.
fn spawn_from_outside<P: Peer>(peer: &P, span: &Range<Instant>) -> Vec<f64> {
    let (tell, begun) = mpsc::channel();
    every_period(span, |due| {
        let tell = tell.clone();
        peer.block_on(async { P::spawn(async move { _ = tell.send(milliseconds(due.elapsed())) }) });
    });
    drop(tell);
    begun.iter().collect()
}

/// How many threads of this process run or could run, on average, without this one.
fn threads_that_want_a_cpu(span: &Range<Instant>) -> f64 {
    let (mut looks, mut found) = (0, 0);
    while Instant::now() < span.end {
        thread::sleep(LOOK);
        let tasks = std::fs::read_dir("/proc/self/task").expect("Linux lists a process's threads");
        let is_runnable =
            |stat: &String| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R'));
        let stats = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("stat")).ok());
        // This thread runs.
        found += stats.filter(is_runnable).count() - 1;
        looks += 1;
    }
    found as f64 / f64::from(looks.max(1))
}

/// Runs `f` before all other threads, where that is allowed: its own delays would count.
fn promptly<R>(f: impl FnOnce() -> R) -> R {
    if let Err(error) = raise_priority(true).or_else(|_| raise_priority(false)) {
        eprintln!("what is due is begun at normal priority ({error}): its own delays count as the runtime's");
    }
    f()
}
