//! Tasks that block their threads: what the others notice of it, and what you see.
//!
//! ```text
//! cargo run --release --example stalls
//! ```

use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use runtime::task::{JoinSet, block_in_place, spawn_blocking};
use runtime::time::{Instant, interval, sleep};
use runtime::{Builder, Stall};

/// As many tasks block as there are workers.
const WORKERS: usize = 2;

/// How long they block.
const BLOCKED: Duration = Duration::from_millis(300);

/// Meanwhile a task looks at its clock, with this pause between two looks.
const TICK: Duration = Duration::from_millis(10);

fn main() -> io::Result<()> {
    let (reports, reported) = mpsc::channel();
    let runtime = Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        // Is called once for each stall, and should be short: a line in a log, or a number.
        .on_stall(move |stall: &Stall| _ = reports.send(stall.clone()))
        .build()?;

    // The mistake: a call that blocks in a task. The workers are stuck, and spare workers take over.
    let late = runtime.block_on(beside(|| thread::sleep(BLOCKED)));
    println!("without a mark: ticks were up to {late:.1?} late, and the hook was told:");
    for stall in reported.try_iter() {
        println!("  {stall}");
    }

    // A mark says that the call may take long. So it is no stall.
    let late = runtime.block_on(beside(|| block_in_place(|| thread::sleep(BLOCKED))));
    println!("block_in_place: ticks were up to {late:.1?} late; {} reports", reported.try_iter().count());

    // A thread for what blocks. No worker is held.
    let late = runtime.block_on(beside(|| _ = spawn_blocking(|| thread::sleep(BLOCKED))));
    println!("spawn_blocking: ticks were up to {late:.1?} late; {} reports", reported.try_iter().count());

    let metrics = runtime.metrics();
    println!("stalls: {}", metrics.stall_count());
    println!("spare workers started: {}", metrics.spare_started_count());
    Ok(())
}

/// Runs a task that ticks beside tasks that `block`; returns by how much the worst tick was late.
async fn beside(block: fn()) -> Duration {
    let ticker = runtime::spawn(async {
        let mut interval = interval(TICK);
        let mut worst = Duration::ZERO;
        for _ in 0..50 {
            let due = interval.tick().await;
            worst = worst.max(Instant::now() - due);
        }
        worst
    });
    let mut blocking = JoinSet::new();
    for _ in 0..WORKERS {
        blocking.spawn(async move {
            sleep(5 * TICK).await;
            block();
        });
    }
    blocking.join_all().await;
    ticker.await.expect("the task does not panic")
}
