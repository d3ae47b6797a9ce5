//! A server some of whose requests compute in their handler, and how late the other requests are.
//!
//! Each connection sends a request at fixed times, and every tenth request computes for 5 ms. So each of the
//! server's tasks is mostly quick and sometimes slow, and one turn of the driver may bring both kinds. The
//! workers' CPUs are not busy, but now and then all workers compute at the same time.
//!
//! A latency counts from the time when the request was sent. The client has a thread for each connection.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::arguments::is_test;
use crate::from_env;
use crate::network::listener;
use crate::paced::raise_priority;
use crate::peer::{Ours, Peer, Tokio, Tunable};
use crate::table::quantile;
use crate::usage::Others;

const CONNECTIONS: u32 = 64;
/// Between two requests of a connection.
const PERIOD: Duration = Duration::from_millis(33);
/// One request in so many computes.
const LIGHT_PER_HEAVY: u32 = 10;
/// How long it computes.
const COMPUTES: Duration = Duration::from_millis(5);
/// The time in which a runtime notices the load. It is not measured.
const WARM_UP: Duration = Duration::from_secs(1);

const LIGHT: u8 = b'l';
const HEAVY: u8 = b'h';

/// In milliseconds.
#[derive(Default)]
struct Latencies {
    light: Vec<f64>,
    heavy: Vec<f64>,
}

/// Prints a table. `BENCH_SECONDS` (4) is how long each load runs, and `BENCH_ROUNDS` (3) how often.
pub fn compare() {
    let others = Others::watch();
    let workers: &[usize] = if is_test() { &[1] } else { &[1, 2, 4] };
    let rounds = if is_test() { 1 } else { from_env("BENCH_ROUNDS", 3) };
    println!("Latency in milliseconds: p50 / p99");
    println!("| workers | light: {0} | {1} | heavy: {0} | {1} |", Ours::NAME, Tokio::NAME);
    println!("|---|---|---|---|---|");
    for &workers in workers {
        for _ in 0..rounds {
            let (mut ours, mut tokio) = (run::<Ours>(workers), run::<Tokio>(workers));
            println!(
                "| {workers} | {} | {} | {} | {} |",
                of(&mut ours.light),
                of(&mut tokio.light),
                of(&mut ours.heavy),
                of(&mut tokio.heavy)
            );
        }
    }
    println!("Other processes had {:.2} cores.", others.cores());
}

fn of(latencies: &mut [f64]) -> String {
    format!("{:.2} / {:.2}", quantile(latencies, 0.5), quantile(latencies, 0.99))
}

fn run<P: Tunable>(workers: usize) -> Latencies {
    let (warm_up, time) = match is_test() {
        true => (Duration::ZERO, 20 * PERIOD),
        false => (WARM_UP, Duration::from_secs(from_env("BENCH_SECONDS", 4) as u64)),
    };
    let peer = P::start(workers);
    let listener = listener();
    let addr = listener.local_addr().expect("it is bound");
    peer.serve_echo_after(listener, handle);
    // All connections are there before the first request is due.
    let start = Instant::now() + Duration::from_millis(200);
    let (begin, end) = (start + warm_up, start + warm_up + time);
    thread::scope(|scope| {
        let clients = (0..CONNECTIONS).map(|nth| {
            let first = start + PERIOD * nth / CONNECTIONS;
            scope.spawn(move || connection(addr, nth, first, begin, end))
        });
        let clients: Vec<_> = clients.collect();
        let mut all = Latencies::default();
        for client in clients {
            let of_client = client.join().expect("a client does not panic");
            all.light.extend(of_client.light);
            all.heavy.extend(of_client.heavy);
        }
        all
    })
}

fn handle(request: &[u8]) {
    let start = Instant::now();
    while request.first() == Some(&HEAVY) && start.elapsed() < COMPUTES {
        std::hint::spin_loop();
    }
}

/// The client's thread for connection `nth`, whose first request is due at `due`. What is due before `begin`
/// is not counted.
fn connection(addr: SocketAddr, nth: u32, mut due: Instant, begin: Instant, end: Instant) -> Latencies {
    // Its own delays would count as the server's. A client at normal priority still compares.
    _ = raise_priority(true).or_else(|_| raise_priority(false));
    let mut stream = TcpStream::connect(addr).expect("the server listens");
    stream.set_nodelay(true).expect("a socket takes the option");
    let (mut latencies, mut requests) = (Latencies::default(), nth);
    while due < end {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let is_heavy = requests.is_multiple_of(LIGHT_PER_HEAVY);
        let sent = Instant::now();
        stream.write_all(&[if is_heavy { HEAVY } else { LIGHT }]).expect("the server stays");
        stream.read_exact(&mut [0]).expect("the server stays");
        if due >= begin {
            let kind = if is_heavy { &mut latencies.heavy } else { &mut latencies.light };
            kind.push(sent.elapsed().as_secs_f64() * 1e3);
        }
        due += PERIOD;
        requests += 1;
    }
    latencies
}
