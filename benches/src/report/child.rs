//! The process that is one peer with one load.

use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::order::{Metric, Numbers, Order, Turn, to_line};
use crate::client::{self, Protocol};
use crate::fork_join::list::{self, Visitor};
use crate::fork_join::loads::{FifoLoad, JoinLoad, ScopeLoad, counted_fifos, counted_joins, counted_scopes};
use crate::fork_join::peer::{self as pools, FifoScopes, ForkJoin, Scopes};
use crate::fork_join::quicksort::shuffled;
use crate::loads::{self, Load};
use crate::memory::bytes_per_task;
use crate::mixed::{self, Sorts};
use crate::network;
use crate::peer::{Bare, Channels, Files, Ours, Peer, Processes, Service, Smol, Sockets, Streams, Tokio};
use crate::table::{median, minimum, quantile};
use crate::usage::Usage;
use crate::{echo_loop, wrk};

/// Set in such a process; holds its order.
pub const VARIABLE: &str = "BENCH_CONTESTANT";

/// What such a process says when its runtime has been started.
pub const READY: &str = "ready";

/// The peer that is neither a runtime nor a pool.
pub const EPOLL: &str = "epoll";

/// Runs the process if this is one, and never returns then. For each line from its input, a [`Turn`], it
/// takes a turn and writes a line of numbers.
pub fn run_if_asked() {
    let Ok(order) = std::env::var(VARIABLE) else {
        return;
    };
    let order = order.parse().expect("the order is understood");
    let mut contestant = start(&order).unwrap_or_else(|| panic!("no contestant can do {order}"));
    let mut output = io::stdout();
    writeln!(output, "{READY}").expect("the parent listens");
    for line in io::stdin().lock().lines() {
        let turn = line.expect("the parent speaks").parse().expect("the turn is understood");
        let numbers = contestant(turn);
        writeln!(output, "{}", to_line(&numbers)).expect("the parent listens");
    }
    std::process::exit(0);
}

/// Takes a turn.
type Contestant = Box<dyn FnMut(Turn) -> Numbers>;

fn start(order: &Order) -> Option<Contestant> {
    if let Some(contestant) = mixed(order) {
        return Some(contestant);
    }
    match order.peer.as_str() {
        Ours::NAME => with_files::<Ours>(order)
            .or_else(|| of(order, loads::sets::ours::all(), Ours::start))
            .or_else(|| all_pools::<pools::Ours>(order)),
        Tokio::NAME => {
            with_files::<Tokio>(order).or_else(|| of(order, loads::sets::tokio::all(), Tokio::start))
        }
        Smol::NAME => service::<Smol>(order),
        Bare::NAME => tasks::<Bare>(order),
        pools::Rayon::NAME => all_pools::<pools::Rayon>(order),
        pools::Chili::NAME => joins::<pools::Chili>(order),
        pools::Forte::NAME => joins::<pools::Forte>(order).or_else(|| scopes::<pools::Forte>(order)),
        pools::Plain::NAME => joins::<pools::Plain>(order),
        EPOLL => {
            let connections = order.load.strip_prefix(ECHO).map(|_| order.operations)?;
            Some(server(echo_loop::serve, move |addr, time| {
                client::measure(addr, Protocol::Echo, connections, time)
            }))
        }
        _ => None,
    }
}

/// Loads that need no more than tasks. Here and below, `None` means that the order names another load.
fn tasks<P: Peer>(order: &Order) -> Option<Contestant> {
    let start = || P::start(order.workers);
    let operations = order.operations;
    if let Some((.., load)) = loads::all::<P>().into_iter().find(|(name, ..)| *name == order.load) {
        return Some(iterations(start(), load, operations));
    }
    match order.load.as_str() {
        "wake_storm_of" => Some(iterations(start(), loads::storm::of_many, operations)),
        "remote_wake" => {
            let peer = start();
            Some(Box::new(move |_| latencies(loads::latency::remote_wake(&peer, operations))))
        }
        "memory_16" => Some(memory::<P, 2>(start(), operations)),
        "memory_1k" => Some(memory::<P, 130>(start(), operations)),
        _ => None,
    }
}

/// The names of all echo loads over TCP begin with this.
const ECHO: &str = "tcp_echo";

fn service<P: Service>(order: &Order) -> Option<Contestant> {
    let start = || P::start(order.workers);
    let operations = order.operations;
    if let Some(contestant) = tasks::<P>(order) {
        return Some(contestant);
    }
    if let Some((.., load)) = loads::service::<P>().into_iter().find(|(name, ..)| *name == order.load) {
        return Some(iterations(start(), load, operations));
    }
    match order.load.as_str() {
        "timer_fire" | "timer_fire_few" => {
            let peer = start();
            Some(Box::new(move |_| {
                let before = Usage::now();
                let mut numbers = latencies(loads::timers::fire(&peer, operations));
                let cpu = Usage::now().since(before).cpu.as_nanos() as f64 / operations as f64;
                // The cost of a timer is its CPU time; how late it is says nothing of the cost.
                numbers.retain(|(metric, _)| !matches!(metric, Metric::Best | Metric::Time));
                numbers.extend([(Metric::Best, cpu), (Metric::Time, cpu)]);
                numbers
            }))
        }
        "http_hello" => Some(serve(start(), P::serve_http, wrk::measure)),
        load if load.starts_with(ECHO) => Some(serve(start(), P::serve_echo, move |addr, time| {
            client::measure(addr, Protocol::Echo, operations, time)
        })),
        _ => None,
    }
}

/// The same, and loads that need streams, channels and child processes as Tokio has them.
fn with_all<P: Streams + Channels + Processes>(order: &Order) -> Option<Contestant> {
    service::<P>(order).or_else(|| {
        let loads = loads::streams::all::<P>().into_iter().chain(loads::channels::all());
        let mut loads = loads.chain(loads::processes::all());
        let (.., load) = loads.find(|(name, ..)| *name == order.load)?;
        Some(iterations(P::start(order.workers), load, order.operations))
    })
}

/// The same, and loads that need files as Tokio has them.
fn with_files<P: Sockets + Channels + Processes + Files>(order: &Order) -> Option<Contestant> {
    let (.., load) = match loads::files::all::<P>().into_iter().find(|(name, ..)| *name == order.load) {
        Some(load) => load,
        None => return with_sockets::<P>(order),
    };
    Some(iterations(P::start(order.workers), load, order.operations))
}

/// The same, and loads that need sockets as Tokio has them.
fn with_sockets<P: Sockets + Channels + Processes>(order: &Order) -> Option<Contestant> {
    if let Some(contestant) = with_all::<P>(order) {
        return Some(contestant);
    }
    let connections = order.operations;
    let start = || P::start(order.workers);
    let (peer, addr) = match order.load.as_str() {
        "unix_echo_64" => {
            let (listener, addr) = network::unix_listener();
            let peer = start();
            peer.serve_unix_echo(listener);
            (peer, addr)
        }
        "udp_echo_64" => {
            let (socket, addr) = network::udp_socket();
            let peer = start();
            peer.serve_udp_echo(socket);
            (peer, addr)
        }
        load => {
            let (.., load) = loads::sockets::all::<P>().into_iter().find(|(name, ..)| *name == load)?;
            return Some(iterations(start(), load, connections));
        }
    };
    let mut turn = client_of(move |time| client::measure_at(&addr, Protocol::Echo, connections, time));
    Some(Box::new(move |time| {
        // The server lives as long as its runtime.
        _ = &peer;
        turn(time)
    }))
}

/// Runs `load` again and again.
fn iterations<P: 'static>(peer: P, load: Load<P>, operations: usize) -> Contestant {
    Box::new(move |turn| {
        let before = Usage::now();
        let mut times = Vec::new();
        repeat(turn, || {
            let start = Instant::now();
            load(&peer, operations);
            times.push(start.elapsed().as_nanos() as f64 / operations as f64);
        });
        let used = Usage::now().since(before);
        let done = (times.len() * operations) as f64;
        vec![
            (Metric::Best, minimum(&times)),
            (Metric::Time, median(&mut times)),
            (Metric::Cpu, used.cpu.as_nanos() as f64 / done),
            (Metric::Sleeps, used.voluntary_switches as f64 * 1000.0 / done),
        ]
    })
}

fn repeat(turn: Turn, mut iteration: impl FnMut()) {
    match turn {
        Turn::Times(times) => (0..times).for_each(|_| iteration()),
        Turn::For(time) => {
            let start = Instant::now();
            loop {
                iteration();
                if start.elapsed() >= time {
                    break;
                }
            }
        }
    }
}

fn latencies(mut nanoseconds: Vec<f64>) -> Numbers {
    let [p50, p99] = [0.5, 0.99].map(|part| quantile(&mut nanoseconds, part));
    vec![(Metric::Best, p50), (Metric::Time, p50), (Metric::P50, p50 / 1000.0), (Metric::P99, p99 / 1000.0)]
}

fn memory<P: Peer, const WORDS: usize>(peer: P, tasks: usize) -> Contestant {
    Box::new(move |_| {
        let bytes = bytes_per_task::<P, WORDS>(&peer, tasks);
        vec![(Metric::Best, bytes), (Metric::Time, bytes)]
    })
}

fn serve<P: Service>(
    peer: P,
    serve: network::Serve<P>,
    load: impl Fn(std::net::SocketAddr, Duration) -> client::Outcome + 'static,
) -> Contestant {
    let mut turn = server(|listener| serve(&peer, listener), load);
    Box::new(move |time| {
        // The server lives as long as its runtime.
        _ = &peer;
        turn(time)
    })
}

fn server(
    serve: impl FnOnce(std::net::TcpListener),
    load: impl Fn(std::net::SocketAddr, Duration) -> client::Outcome + 'static,
) -> Contestant {
    let listener = network::listener();
    let addr = listener.local_addr().expect("it is bound");
    serve(listener);
    client_of(move |time| load(addr, time))
}

/// Lets a client load a server that has been started.
fn client_of(load: impl Fn(Duration) -> client::Outcome + 'static) -> Contestant {
    Box::new(move |turn| {
        let [rate, p50, p99, p999, cpu] = network::turn(|| load(turn.time()));
        let time = 1e9 / rate;
        let mut numbers = vec![
            (Metric::Best, time),
            (Metric::Time, time),
            (Metric::Rate, rate),
            (Metric::P50, p50),
            (Metric::P99, p99),
            (Metric::P999, p999),
            (Metric::Cpu, cpu),
        ];
        numbers.retain(|(_, value)| value.is_finite());
        numbers
    })
}

fn mixed(order: &Order) -> Option<Contestant> {
    let load = order.load.strip_prefix("mixed_")?;
    let (_, start) = mixed::set_ups().into_iter().find(|(name, _)| *name == order.peer)?;
    let side = start(order.workers);
    let input = Arc::new(shuffled(order.operations));
    let Some((_, period)) = [mixed::LIGHT, mixed::HEAVY].into_iter().find(|(name, _)| *name == load) else {
        return Some(Box::new(move |turn| {
            let [p50, p99, p999, rate, share, ..] = side.saturate(32, turn.time());
            vec![
                (Metric::P50, p50),
                (Metric::P99, p99),
                (Metric::P999, p999),
                (Metric::JobRate, rate),
                (Metric::Share, share),
            ]
        }));
    };
    Some(Box::new(move |turn| {
        let sorts = Sorts { input: &input, period: Duration::from_millis(period), time: turn.time() };
        let [p50, p99, p999, rate, job_p50, job_p99, cores] = side.sort(&sorts);
        vec![
            (Metric::P50, p50),
            (Metric::P99, p99),
            (Metric::P999, p999),
            (Metric::JobRate, rate),
            (Metric::JobP50, job_p50),
            (Metric::JobP99, job_p99),
            (Metric::Cores, cores),
        ]
    }))
}

fn all_pools<P: FifoScopes>(order: &Order) -> Option<Contestant> {
    joins::<P>(order).or_else(|| scopes::<P>(order)).or_else(|| fifos::<P>(order))
}

/// The loads with `join`, by their names and by those under which their instructions are counted.
fn joins<P: ForkJoin>(order: &Order) -> Option<Contestant> {
    let mut finder = Joins::<P> { order, found: None };
    list::visit(&mut finder, false);
    of(order, counted_joins::<P>(), P::start).or_else(|| named(order, finder.found))
}

/// The loads with scopes, by both names.
fn scopes<P: Scopes>(order: &Order) -> Option<Contestant> {
    let mut finder = ForScopes::<P> { order, found: None };
    list::visit(&mut finder, false);
    of(order, counted_scopes::<P>(), P::start).or_else(|| named(order, finder.found))
}

/// The loads with scopes whose jobs run in order, by both names.
fn fifos<P: FifoScopes>(order: &Order) -> Option<Contestant> {
    let mut finder = Fifos::<P> { order, found: None };
    list::visit(&mut finder, false);
    of(order, counted_fifos::<P>(), P::start).or_else(|| named(order, finder.found))
}

/// One of `loads`, if the order names it.
fn of<P: 'static, const LOADS: usize>(
    order: &Order,
    loads: [(&str, usize, Load<P>); LOADS],
    start: fn(usize) -> P,
) -> Option<Contestant> {
    let (.., load) = loads.into_iter().find(|(name, ..)| *name == order.load)?;
    Some(iterations(start(order.workers), load, order.operations))
}

fn named<P: ForkJoin>(order: &Order, turn: Option<OnPool<P>>) -> Option<Contestant> {
    turn.map(|turn| pool(P::start(order.workers), turn))
}

/// One turn on a pool, which adds nanoseconds an operation.
type OnPool<P> = Box<dyn FnMut(&P, &mut Vec<f64>)>;

fn pool<P: 'static>(peer: P, mut load: OnPool<P>) -> Contestant {
    Box::new(move |turn| {
        let mut times = Vec::new();
        repeat(turn, || load(&peer, &mut times));
        vec![(Metric::Best, minimum(&times)), (Metric::Time, median(&mut times))]
    })
}

struct Joins<'a, P> {
    order: &'a Order,
    found: Option<OnPool<P>>,
}

impl<P: ForkJoin> Visitor for Joins<'_, P> {
    fn join<L: JoinLoad + 'static>(&mut self, name: &str, _: &str, make: impl FnOnce() -> L) {
        if self.order.load == name {
            let load = make();
            self.found = Some(Box::new(move |peer, times| load.turn(peer, times)));
        }
    }

    fn scope<L: ScopeLoad + 'static>(&mut self, _: &str, _: &str, _: impl FnOnce() -> L) {}

    fn fifo<L: FifoLoad + 'static>(&mut self, _: &str, _: &str, _: impl FnOnce() -> L) {}
}

struct ForScopes<'a, P> {
    order: &'a Order,
    found: Option<OnPool<P>>,
}

impl<P: Scopes> Visitor for ForScopes<'_, P> {
    fn join<L: JoinLoad + 'static>(&mut self, _: &str, _: &str, _: impl FnOnce() -> L) {}

    fn scope<L: ScopeLoad + 'static>(&mut self, name: &str, _: &str, make: impl FnOnce() -> L) {
        if self.order.load == name {
            let load = make();
            self.found = Some(Box::new(move |peer, times| load.turn(peer, times)));
        }
    }

    fn fifo<L: FifoLoad + 'static>(&mut self, _: &str, _: &str, _: impl FnOnce() -> L) {}
}

struct Fifos<'a, P> {
    order: &'a Order,
    found: Option<OnPool<P>>,
}

impl<P: FifoScopes> Visitor for Fifos<'_, P> {
    fn join<L: JoinLoad + 'static>(&mut self, _: &str, _: &str, _: impl FnOnce() -> L) {}

    fn scope<L: ScopeLoad + 'static>(&mut self, _: &str, _: &str, _: impl FnOnce() -> L) {}

    fn fifo<L: FifoLoad + 'static>(&mut self, name: &str, _: &str, make: impl FnOnce() -> L) {
        if self.order.load == name {
            let load = make();
            self.found = Some(Box::new(move |peer, times| load.turn(peer, times)));
        }
    }
}
