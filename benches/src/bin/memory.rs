//! Measures the memory of a parked task: `cargo run --release -p benches --bin memory [TASKS]`.
//!
//! A million tasks, or as many as asked for, each with a future of 16 bytes that has been polled once and waits for
//! ever. Each runtime runs in a process of its own, so that one does not live off what the other has freed.

use std::pin::Pin;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use benches::peer::{Ours, Peer, Tokio};
use benches::usage::resident_bytes;

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

/// How many of the tasks have been polled.
static POLLED: AtomicUsize = AtomicUsize::new(0);

/// Waits for ever.
struct Parked([u64; 2]);

impl Future for Parked {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        // The values are used, so that nothing can leave them out.
        let [one, zero] = std::hint::black_box(self.0);
        POLLED.fetch_add((one - zero) as usize, Ordering::Relaxed);
        Poll::Pending
    }
}

fn measure<P: Peer>(tasks: &str) {
    let tasks = tasks.parse().expect("the tasks are a number");
    let peer = P::start(benches::workers());
    let before = resident_bytes();
    peer.block_on(async {
        for _ in 0..tasks {
            P::spawn(Parked([1, 0]));
        }
    });
    while POLLED.load(Ordering::Relaxed) < tasks {
        std::thread::sleep(Duration::from_millis(1));
    }
    println!("{:.1}", (resident_bytes() - before) as f64 / tasks as f64);
    // The tasks end with the process; dropping them is not what is measured.
    std::process::exit(0);
}
