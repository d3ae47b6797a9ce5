//! A database in the process of a service: how late an echo is while queries run.
//!
//! Two loops run query after query. As in a query engine, each query spawns a task for each part of its data,
//! so the tasks are new each time. A task waits for a closure on a blocking thread, as for a piece of a file,
//! then computes on the piece, and so on. So the tasks are woken from outside of the workers, most of their
//! polls are long, and some are short. All are spawned in one place.
//!
//! Beside the queries, a client in a process of its own sends echo requests at fixed times.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use crate::arguments::is_test;
use crate::client::{Outcome, measure_paced};
use crate::from_env;
use crate::network::listener;
use crate::peer::{Ours, Peer, Tokio, Tunable};
use crate::usage::Others;

/// Loops that run queries.
const LOOPS: usize = 2;
/// Tasks of a query.
const PARTS: u64 = 4;
/// Pieces of each part.
const PIECES: u64 = 6;
/// How long a task computes on a piece, in microseconds.
const COMPUTES: [u64; 8] = [50, 300, 1_000, 1_500, 2_000, 2_500, 3_000, 6_000];
const CONNECTIONS: usize = 16;
/// Requests of each connection in a second.
const RATE: usize = 100;

/// What one runtime made of it.
struct Result {
    echo: Outcome,
    /// A task computes until a time has passed, with a CPU or without. So three threads on two CPUs make as
    /// many queries as on three.
    queries_per_second: f64,
}

/// Prints a table. `BENCH_SECONDS` (4) is how long each side runs, and `BENCH_ROUNDS` (3) how often.
/// `BENCH_WORKERS` (2) is the number of workers.
pub fn compare() {
    let others = Others::watch();
    let rounds = if is_test() { 1 } else { from_env("BENCH_ROUNDS", 3) };
    println!("Echo in milliseconds: p50 / p99 / p99.9");
    println!("| echo: {0} | {1} | queries/s: {0} | {1} |", Ours::NAME, Tokio::NAME);
    println!("|---|---|---|---|");
    for _ in 0..rounds {
        let (ours, tokio) = (run::<Ours>(), run::<Tokio>());
        println!(
            "| {} | {} | {:.1} | {:.1} |",
            of(&ours.echo),
            of(&tokio.echo),
            ours.queries_per_second,
            tokio.queries_per_second
        );
    }
    println!("Other processes had {:.2} cores.", others.cores());
}

fn of(echo: &Outcome) -> String {
    format!("{:.2} / {:.2} / {:.2}", echo.p50 / 1e3, echo.p99 / 1e3, echo.p999 / 1e3)
}

fn run<P: Tunable>() -> Result {
    let time = match is_test() {
        true => Duration::from_millis(100),
        false => Duration::from_secs(from_env("BENCH_SECONDS", 4) as u64),
    };
    let peer = Arc::new(P::start(crate::workers()));
    let listener = listener();
    let addr = listener.local_addr().expect("it is bound");
    peer.serve_echo(listener);

    let (is_over, queries) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (tell_end, end) = mpsc::channel();
    peer.block_on(async {
        for _ in 0..LOOPS {
            P::spawn(run_queries(peer.clone(), is_over.clone(), queries.clone(), tell_end.clone()));
        }
    });
    let (before, start) = (queries.load(Ordering::Relaxed), Instant::now());
    let echo = measure_paced(addr, CONNECTIONS, RATE, time);
    let done = queries.load(Ordering::Relaxed) - before;
    let queries_per_second = done as f64 / start.elapsed().as_secs_f64();
    is_over.store(true, Ordering::Relaxed);
    (0..LOOPS).for_each(|_| end.recv().expect("a loop ends"));
    Result { echo, queries_per_second }
}

async fn run_queries<P: Tunable>(
    peer: Arc<P>,
    is_over: Arc<AtomicBool>,
    queries: Arc<AtomicU64>,
    tell_end: mpsc::Sender<()>,
) {
    while !is_over.load(Ordering::Relaxed) {
        let nth = queries.fetch_add(1, Ordering::Relaxed);
        let parts = (0..PARTS).map(|part| P::spawn_and_wait(run_part(peer.clone(), nth * PARTS + part)));
        for part in parts.collect::<Vec<_>>() {
            part.await;
        }
    }
    // The main thread drops the runtime.
    drop(peer);
    tell_end.send(()).expect("the main thread waits");
}

async fn run_part<P: Tunable>(peer: Arc<P>, part: u64) {
    for piece in 0..PIECES {
        peer.spawn_blocking().await;
        let (start, time) = (Instant::now(), computes(part * PIECES + piece));
        while start.elapsed() < time {
            std::hint::spin_loop();
        }
    }
}

/// How long a task computes on a piece: by chance, and the same for each runtime.
fn computes(piece: u64) -> Duration {
    let mixed = piece.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    Duration::from_micros(COMPUTES[mixed as usize % COMPUTES.len()])
}
