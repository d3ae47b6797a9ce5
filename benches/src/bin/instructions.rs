//! Counts the instructions of one operation: `cargo run --release -p benches --bin instructions`.
//!
//! Each load runs twice under `valgrind --tool=callgrind`, with one worker: once with a number of operations, once
//! with three times as many. The difference, divided by the operations it has more, leaves out starting, stopping and
//! all else that does not grow. Instructions are nearly the same in every run and on every machine, so a change of
//! some percent is real; but a cache miss counts as one like any other.
//!
//! With `RUNTIME LOAD OPERATIONS` it runs that load and nothing else, for `callgrind_annotate` and other tools.

use std::process::{Command, Stdio};

use benches::loads;
use benches::peer::{Ours, Peer, Tokio};

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => compare(),
        [Ours::NAME, load, operations] => run::<Ours>(load, operations),
        [Tokio::NAME, load, operations] => run::<Tokio>(load, operations),
        _ => panic!("nothing, or {}|{} LOAD OPERATIONS expected, got {arguments:?}", Ours::NAME, Tokio::NAME),
    }
}

fn compare() {
    println!("| instructions/op, 1 worker | {} | {} | {1} / {0} |", Ours::NAME, Tokio::NAME);
    println!("|---|---|---|---|");
    for (name, operations, _) in loads::all::<Ours>() {
        let [ours, tokio] = [Ours::NAME, Tokio::NAME].map(|peer| {
            let (few, many) = (operations, 3 * operations);
            (count(peer, name, many) - count(peer, name, few)) / (many - few) as f64
        });
        println!("| {name} | {ours:.0} | {tokio:.0} | ×{:.2} |", tokio / ours);
    }
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

fn run<P: Peer>(load: &str, operations: &str) {
    let operations = operations.parse().expect("the operations are a number");
    let all = loads::all::<P>();
    let Some((.., load)) = all.iter().find(|(name, ..)| *name == load) else {
        panic!("no load {load:?}, only {:?}", all.map(|(name, ..)| name));
    };
    load(&P::start(1), operations);
}
