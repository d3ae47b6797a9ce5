//! What other tools count: instructions by `valgrind --tool=callgrind`, system calls and wakes by `perf`.
//!
//! Each load runs twice, and the difference leaves out starting, stopping and all else that does not grow.
//! Instructions are counted with one worker, and hardly depend on the machine; Go's threads do not run under
//! valgrind. Calls and wakes are counted with two.

use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use super::catalog::{COUNTED_JOINS, COUNTED_SCOPES, Entry, POOLS, SCOPES, Section};
use super::contestant::command;
use super::order::{Order, Turn};
use super::results::Counts;
use super::{before, go};

/// What is to be counted.
#[derive(Clone, Debug)]
pub struct Counted {
    /// The load's name.
    pub load: String,
    peers: Vec<&'static str>,
    /// Operations to count instructions with, and three times as many; 0 if none are counted.
    few: usize,
    /// Operations of an iteration for calls and wakes; 0 if none are counted.
    iteration: usize,
}

/// Counted in a quick run.
const QUICK: [&str; 1] = ["chained_spawn"];

/// How many iterations the longer run of a load has beyond the shorter one, where calls are counted.
const ITERATIONS: usize = 10;

/// Valgrind, and the words that it needs.
const VALGRIND: [&str; 3] = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"];

/// `perf`, with what a system call and a wake are to it.
const PERF: [&str; 5] = ["perf", "stat", "-x,", "-e", "raw_syscalls:sys_enter,sched:sched_wakeup"];

/// Whether instructions can be counted.
pub static HAS_VALGRIND: LazyLock<bool> = LazyLock::new(|| works(&["valgrind", "--version"]));
/// Whether system calls can be counted.
pub static HAS_PERF: LazyLock<bool> = LazyLock::new(|| {
    let mut words = PERF.to_vec();
    words.push("true");
    works(&words)
});

fn works(words: &[&str]) -> bool {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// What is to be counted for `entries`.
pub fn wanted(entries: &[Entry], is_quick: bool) -> Vec<Counted> {
    let mut wanted: Vec<_> = entries
        .iter()
        .filter(|entry| entry.section == Section::Tasks)
        .map(|entry| Counted {
            load: entry.load.clone(),
            peers: entry.peers.clone(),
            few: entry.count,
            iteration: entry.operations,
        })
        .collect();
    if entries.iter().any(|entry| entry.section == Section::ForkJoin) {
        let counted = |load: &str, peers: &[&'static str]| Counted {
            load: load.to_owned(),
            peers: peers.into(),
            few: 10_000,
            iteration: 0,
        };
        wanted.extend(COUNTED_JOINS.map(|load| counted(load, &POOLS)));
        wanted.extend(COUNTED_SCOPES.map(|load| counted(load, &SCOPES)));
    }
    if before::takes_part() {
        for counted in &mut wanted {
            counted.peers = before::PAIR.into();
        }
    }
    if is_quick {
        wanted.retain(|counted| QUICK.contains(&counted.load.as_str()));
    }
    wanted
}

/// Counts, for each peer.
pub fn count(counted: &Counted) -> Counts {
    let one = |peer: &&'static str| {
        let instructions = match *HAS_VALGRIND && counted.few > 0 && *peer != go::NAME {
            true => instructions(counted, peer).unwrap_or(f64::NAN),
            false => f64::NAN,
        };
        let [calls, wakes] = match *HAS_PERF && counted.iteration > 0 {
            true => calls_and_wakes(counted, peer).unwrap_or([f64::NAN; 2]),
            false => [f64::NAN; 2],
        };
        ((*peer).to_owned(), [instructions, calls, wakes])
    };
    Counts { load: counted.load.clone(), peers: counted.peers.iter().map(one).collect() }
}

fn instructions(counted: &Counted, peer: &str) -> io::Result<f64> {
    let (few, many) = (counted.few, 3 * counted.few);
    let run = |operations| {
        let order = Order { peer: peer.to_owned(), load: counted.load.clone(), workers: 1, operations };
        let text = under(&VALGRIND, &order, 1)?;
        let line = text.lines().find_map(|line| line.split_once("Collected :"));
        let number = line.and_then(|(_, number)| number.trim().parse::<f64>().ok());
        number.ok_or_else(|| io::Error::other(format!("no count in {text}")))
    };
    Ok((run(many)? - run(few)?) / (many - few) as f64)
}

/// System calls and wakes in a thousand operations.
fn calls_and_wakes(counted: &Counted, peer: &str) -> io::Result<[f64; 2]> {
    let order = Order {
        peer: peer.to_owned(),
        load: counted.load.clone(),
        workers: 2,
        operations: counted.iteration,
    };
    let run = |times| {
        let text = under(&PERF, &order, times)?;
        let number = |event: &str| {
            let line = text.lines().find(|line| line.contains(event));
            let number = line.and_then(|line| line.split(',').next()?.parse::<f64>().ok());
            number.ok_or_else(|| io::Error::other(format!("no {event} in {text}")))
        };
        Ok::<_, io::Error>([number("sys_enter")?, number("sched_wakeup")?])
    };
    let (few, many) = (run(1)?, run(1 + ITERATIONS)?);
    let thousands = (ITERATIONS * counted.iteration) as f64 / 1000.0;
    Ok([0, 1].map(|index| ((many[index] - few[index]) / thousands).max(0.0)))
}

/// Runs a turn of so many iterations under a tool; gives what the tool says.
fn under(tool: &[&str], order: &Order, iterations: usize) -> io::Result<String> {
    let mut command = command(order, tool)?;
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let mut input = process.stdin.take().expect("it was asked for");
    writeln!(input, "{}", Turn::Times(iterations))?;
    drop(input);
    let output = process.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(text) } else { Err(io::Error::other(text)) }
}
