//! Measures the memory of a parked task: `cargo run --release -p benches --bin memory [TASKS]`.
//!
//! Spawns a million tasks, or the number given. Each has a future of 16 bytes that has been polled once and
//! waits for ever. Each runtime runs in a process of its own, so that none uses memory that the other has
//! freed.

use std::process::{Command, Stdio};

use benches::memory::bytes_per_task;
use benches::peer::{Ours, Peer, Tokio};

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => compare("1000000"),
        [tasks] => compare(tasks),
        [Ours::NAME, tasks] => measure::<Ours>(tasks),
        [Tokio::NAME, tasks] => measure::<Tokio>(tasks),
        _ => panic!("a number of tasks expected, got {arguments:?}"),
    }
}

fn compare(tasks: &str) {
    println!("| {tasks} parked tasks of 16 bytes | resident bytes/task |\n|---|---|");
    for peer in [Ours::NAME, Tokio::NAME] {
        let program = std::env::current_exe().expect("a program knows where it is");
        let output = Command::new(program).args([peer, tasks]).stderr(Stdio::inherit()).output();
        let output = output.expect("this program starts again");
        assert!(output.status.success(), "{peer} failed: {}", output.status);
        println!("| {peer} | {} |", String::from_utf8_lossy(&output.stdout).trim());
    }
}

fn measure<P: Peer>(tasks: &str) {
    let tasks = tasks.parse().expect("the tasks are a number");
    let peer = P::start(benches::workers());
    println!("{:.1}", bytes_per_task::<P, 2>(&peer, tasks));
    // The tasks end with the process; dropping them is not what is measured.
    std::process::exit(0);
}
