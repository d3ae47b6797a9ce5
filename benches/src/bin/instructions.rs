//! Counts the instructions of one operation: `cargo run --release -p benches --bin instructions [LOAD]`.
//!
//! Each load runs twice under `valgrind --tool=callgrind`, with one worker: once with a number of operations,
//! once with three times as many. The difference of the two counts is divided by the difference in
//! operations, so start, stop and everything else that does not grow with the operations drops out. The
//! counts are nearly the same in every run and on every machine, so a change of some percent is real. But an
//! instruction that misses the cache counts no more than another.
//!
//! The loads are those of [`loads`] beside Tokio, and those of [`benches::fork_join::loads`] beside Rayon and
//! chili. With `RUNTIME LOAD OPERATIONS` it runs that load and nothing else, for `callgrind_annotate` and
//! other tools.

use std::process::{Command, Stdio};

use benches::fork_join::loads::{counted_fifos, counted_joins, counted_scopes};
use benches::fork_join::peer::{self as pools, FifoScopes, ForkJoin};
use benches::loads;
use benches::peer::{Channels, Files, Ours, Peer, Sockets, Tokio};

/// A load's name, the smaller number of operations, and the function that runs a number of them.
type Load = (&'static str, usize, Box<dyn Fn(usize)>);

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => compare_all(None),
        [load] => compare_all(Some(load)),
        [peer, load, operations] => run(peer, load, operations.parse().expect("the operations are a number")),
        _ => panic!("nothing, LOAD, or RUNTIME LOAD OPERATIONS expected, got {arguments:?}"),
    }
}

fn compare_all(wanted: Option<&str>) {
    let found = [
        compare(wanted, tasks::<Ours>(), &[Ours::NAME, Tokio::NAME]),
        compare(wanted, joins::<pools::Ours>(), &[Ours::NAME, pools::Rayon::NAME, pools::Chili::NAME]),
        compare(wanted, scopes::<pools::Ours>(), &[Ours::NAME, pools::Rayon::NAME]),
    ];
    assert!(found.contains(&true), "no load {wanted:?}");
}

fn tasks<P: Sockets + Channels + Files>() -> Vec<Load> {
    let mut all = with_one_worker(loads::all(), P::start);
    all.extend(with_one_worker(loads::streams::all(), P::start));
    all.extend(with_one_worker(loads::channels::all(), P::start));
    all.extend(with_one_worker(loads::sockets::all(), P::start));
    all.extend(with_one_worker(loads::files::all(), P::start));
    all
}

fn joins<P: ForkJoin>() -> Vec<Load> {
    with_one_worker(counted_joins(), P::start)
}

fn scopes<P: FifoScopes>() -> Vec<Load> {
    let mut loads = with_one_worker(counted_scopes(), P::start);
    loads.extend(with_one_worker(counted_fifos(), P::start));
    loads
}

fn with_one_worker<P: 'static, const LOADS: usize>(
    loads: [(&'static str, usize, loads::Load<P>); LOADS],
    start: fn(usize) -> P,
) -> Vec<Load> {
    let load = |(name, few, load): (_, _, loads::Load<P>)| {
        let load: Box<dyn Fn(usize)> = Box::new(move |operations| load(&start(1), operations));
        (name, few, load)
    };
    loads.map(load).into()
}

/// Prints a table of the `wanted` one of the `loads`, or of all; false if it is none of them. The first of
/// `peers` is ours.
fn compare(wanted: Option<&str>, loads: Vec<Load>, peers: &[&str]) -> bool {
    let mut loads =
        loads.into_iter().filter(|(name, ..)| wanted.is_none() || wanted == Some(*name)).peekable();
    if loads.peek().is_none() {
        return false;
    }
    let ratios: Vec<_> = peers[1..].iter().map(|peer| format!("{peer} / {}", peers[0])).collect();
    println!("| instructions/op, 1 worker | {} | {} |", peers.join(" | "), ratios.join(" | "));
    println!("|---|{}", "---|".repeat(peers.len() + ratios.len()));
    for (name, few, _) in loads {
        let many = 3 * few;
        let counts =
            peers.iter().map(|peer| (count(peer, name, many) - count(peer, name, few)) / (many - few) as f64);
        let counts: Vec<_> = counts.collect();
        print!("| {name} |");
        counts.iter().for_each(|count| print!(" {count:.0} |"));
        counts[1..].iter().for_each(|count| print!(" ×{:.2} |", count / counts[0]));
        println!();
    }
    println!();
    true
}

/// The instructions of this program when it runs one load.
fn count(peer: &str, load: &str, operations: usize) -> f64 {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe().expect("a program knows where it is"))
        .args([peer, load, &operations.to_string()])
        .stdin(Stdio::null())
        .output()
        .expect("valgrind is needed: apt-get install valgrind");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{peer} {load} failed: {text}");
    let collected = text.lines().find_map(|line| line.split_once("Collected :"));
    collected
        .and_then(|(_, number)| number.trim().parse().ok())
        .unwrap_or_else(|| panic!("no count in {text}"))
}

fn run(peer: &str, load: &str, operations: usize) {
    let loads = match peer {
        Ours::NAME => {
            [tasks::<Ours>(), joins::<pools::Ours>(), scopes::<pools::Ours>()].into_iter().flatten().collect()
        }
        Tokio::NAME => tasks::<Tokio>(),
        pools::Rayon::NAME => {
            [joins::<pools::Rayon>(), scopes::<pools::Rayon>()].into_iter().flatten().collect()
        }
        pools::Chili::NAME => joins::<pools::Chili>(),
        _ => panic!("no peer {peer:?}"),
    };
    let Some((.., load)) = loads.iter().find(|(name, ..)| *name == load) else {
        panic!("no load {load:?}, only {:?}", loads.iter().map(|(name, ..)| name).collect::<Vec<_>>());
    };
    load(operations);
}
