//! Many jobs, of which only a few run at once: a `JoinSet` with a `Semaphore`.
//!
//! ```text
//! cargo run --release --example worker_pool
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use runtime::sync::Semaphore;
use runtime::task::JoinSet;

/// How many jobs there are.
const JOBS: u64 = 20;

/// How many of them run at once. A server bounds what it asks of a database in this way.
const AT_ONCE: usize = 4;

/// The most jobs that ran at once, as the jobs count it.
#[derive(Default)]
struct Peak {
    now: AtomicUsize,
    most: AtomicUsize,
}

#[runtime::main]
async fn main() {
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    let peak = Arc::new(Peak::default());
    let mut jobs = JoinSet::new();
    for number in 1..=JOBS {
        // Waits here, so that no more than `AT_ONCE` tasks exist. Inside of the task it would bound only what
        // runs at once.
        let permit = permits.clone().acquire_owned().await.expect("the semaphore is not closed");
        let peak = peak.clone();
        jobs.spawn(async move {
            let square = job(number, &peak).await;
            // Makes room for the next job; a panic would have done so, too.
            drop(permit);
            square
        });
    }

    // In the order in which the jobs end.
    let (mut sum, mut failed) = (0, 0);
    while let Some(result) = jobs.join_next().await {
        match result {
            Ok(square) => sum += square,
            Err(error) => {
                println!("{error}");
                failed += 1;
            }
        }
    }
    println!("{} jobs done, {failed} failed, the sum is {sum}", JOBS - failed);
    println!("at most {} of {AT_ONCE} ran at once", peak.most.load(Ordering::Relaxed));
}

/// A job that waits for something, such as an answer of another server.
async fn job(number: u64, peak: &Peak) -> u64 {
    let now = peak.now.fetch_add(1, Ordering::Relaxed) + 1;
    peak.most.fetch_max(now, Ordering::Relaxed);
    runtime::time::sleep(Duration::from_millis(10)).await;
    peak.now.fetch_sub(1, Ordering::Relaxed);
    number * number
}
