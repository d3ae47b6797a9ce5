//! A server on both runtimes, loaded in turns.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use crate::arguments::{asked_for, is_test};
use crate::client::Outcome;
use crate::peer::{Ours, Peer, Tokio};
use crate::table::{maximum, median, minimum};
use crate::transport::{Address, unix_address};
use crate::usage::Usage;

/// Starts a server on a listener and returns at once.
pub type Serve<P> = fn(&P, TcpListener);

/// Measures a server on both runtimes and prints the result.
///
/// `serve` starts the server on a listener, once for each runtime; `load` runs a client against it for a
/// time. `BENCH_ROUNDS` (5) is how often each gets its turn, `BENCH_SECONDS` (2) how long a turn is. Under
/// `cargo test` each gets one short turn, to see that it works.
pub fn compare(
    name: &str,
    serve: (Serve<Ours>, Serve<Tokio>),
    load: impl Fn(SocketAddr, Duration) -> Outcome,
) {
    if !asked_for(name) {
        return;
    }
    let rounds = if is_test() { 1 } else { crate::from_env("BENCH_ROUNDS", 5) };
    let seconds = if is_test() { 1 } else { crate::from_env("BENCH_SECONDS", 2) };
    let time = Duration::from_secs(seconds as u64);

    let workers = crate::workers();
    let (ours, tokio) = (Ours::start(workers), Tokio::start(workers));
    let (to_ours, to_tokio) = (listener(), listener());
    let addrs = [&to_ours, &to_tokio].map(|listener| listener.local_addr().expect("it is bound"));
    serve.0(&ours, to_ours);
    serve.1(&tokio, to_tokio);

    let mut results = [Results::default(), Results::default()];
    for round in 0..rounds {
        // The side that goes first changes with each round.
        for turn in 0..2 {
            let side = (round + turn) % 2;
            results[side].add(|| load(addrs[side], time));
        }
    }

    let [ours, tokio] = &mut results;
    println!("| {name}, {workers} workers | req/s | p50 µs | p99 µs | p99.9 µs | server CPU ns/req |");
    println!("|---|---|---|---|---|---|");
    ours.print(Ours::NAME);
    tokio.print(Tokio::NAME);
    println!("A number is the median of {rounds} rounds of {seconds} s [worst and best].");
    println!("| {} is better by | req/s | p50 | p99 | p99.9 | server CPU |", Ours::NAME);
    println!("|---|---|---|---|---|---|");
    print_ratio(
        "minimum",
        ours,
        tokio,
        |values, more_is_better| {
            if more_is_better { maximum(values) } else { minimum(values) }
        },
    );
    print_ratio("median", ours, tokio, |values, _| median(values));
    println!();
}

/// What a turn of a server of this process gives, while `load` runs a client: requests a second, p50, p99 and
/// p99.9 in microseconds, and nanoseconds of CPU time a request.
pub fn turn(load: impl FnOnce() -> Outcome) -> [f64; 5] {
    let before = Usage::now();
    let outcome = load();
    assert!(outcome.requests > 0, "nothing was answered");
    let cpu = Usage::now().since(before).cpu;
    [outcome.rate, outcome.p50, outcome.p99, outcome.p999, cpu.as_nanos() as f64 / outcome.requests as f64]
}

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 4096;

/// A listener on a free port that a runtime can take over.
pub fn listener() -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.set_nonblocking(true).expect("a socket takes the option");
    // The standard library's queue is short: a client of many connections would find it full, and try again a
    // second later.
    // SAFETY: touches no memory. The socket is open; a second `listen` only changes how many may wait.
    let result = unsafe { libc::listen(listener.as_raw_fd(), BACKLOG) };
    assert_eq!(result, 0, "a listener may listen");
    listener
}

/// A listener for Unix streams that a runtime can take over, and where it is.
pub fn unix_listener() -> (UnixListener, Address) {
    let name = format!("runtime-bench-{}", std::process::id());
    let addr = unix_address(&name).expect("the name is short");
    let listener = UnixListener::bind_addr(&addr).expect("the name is free");
    listener.set_nonblocking(true).expect("a socket takes the option");
    (listener, Address::Unix(name))
}

/// A UDP socket that a runtime can take over, and where it is.
pub fn udp_socket() -> (UdpSocket, Address) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.set_nonblocking(true).expect("a socket takes the option");
    let addr = socket.local_addr().expect("it is bound");
    (socket, Address::Udp(addr))
}

/// One value a round in each column.
#[derive(Default)]
struct Results {
    columns: [Vec<f64>; 5],
}

/// The first column is a rate, the others are costs.
const MORE_IS_BETTER: [bool; 5] = [true, false, false, false, false];

impl Results {
    fn add(&mut self, load: impl FnOnce() -> Outcome) {
        for (column, value) in self.columns.iter_mut().zip(turn(load)) {
            column.push(value);
        }
    }

    fn print(&mut self, name: &str) {
        print!("| {name} ");
        for (column, more_is_better) in self.columns.iter_mut().zip(MORE_IS_BETTER) {
            let (low, high) = (minimum(column), maximum(column));
            let (worst, best) = if more_is_better { (low, high) } else { (high, low) };
            match median(column) {
                middle if middle.is_nan() => print!("| – "),
                middle => print!("| {middle:.0} [{worst:.0}, {best:.0}] "),
            }
        }
        println!("|");
    }
}

fn print_ratio(name: &str, ours: &mut Results, tokio: &mut Results, pick: impl Fn(&mut [f64], bool) -> f64) {
    print!("| {name} ");
    for ((ours, tokio), more_is_better) in ours.columns.iter_mut().zip(&mut tokio.columns).zip(MORE_IS_BETTER)
    {
        let (ours, tokio) = (pick(ours, more_is_better), pick(tokio, more_is_better));
        match if more_is_better { ours / tokio } else { tokio / ours } {
            ratio if ratio.is_nan() => print!("| – "),
            ratio => print!("| ×{ratio:.2} "),
        }
    }
    println!("|");
}
