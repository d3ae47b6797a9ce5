//! Waiting for the first of several things: `select!`, time-outs, intervals.
//!
//! ```text
//! cargo run --release --example select
//! ```

use std::future::pending;
use std::time::Duration;

use runtime::sync::mpsc;
use runtime::time::{MissedTickBehavior, interval, sleep, timeout};

/// A batch is sent when it has this many items …
const BATCH: usize = 4;

/// … or when so much time has passed.
const FLUSH: Duration = Duration::from_millis(50);

#[runtime::main]
async fn main() {
    first_of_two().await;
    time_out().await;
    ticks().await;
    batches().await;
}

/// The first branch that is ready wins; the futures of the others are dropped.
async fn first_of_two() {
    let winner = runtime::select! {
        () = sleep(Duration::from_millis(10)) => "the hare",
        () = sleep(Duration::from_millis(500)) => "the tortoise",
    };
    println!("select: {winner} is first");
}

/// `timeout` is a `select!` with a sleep. The future is dropped when the time is up.
async fn time_out() {
    match timeout(Duration::from_millis(10), pending::<()>()).await {
        Ok(()) => println!("timeout: in time"),
        Err(elapsed) => println!("timeout: {elapsed}"),
    }
}

/// An interval keeps its rhythm. What happens to ticks that were missed is a setting.
async fn ticks() {
    let mut interval = interval(Duration::from_millis(10));
    interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    // The first tick is at once.
    let start = interval.tick().await;
    // Misses the ticks at 10 and 20 ms.
    sleep(Duration::from_millis(25)).await;
    let late = interval.tick().await - start;
    let next = interval.tick().await - start;
    println!("interval: a late tick of {} ms, then one of {} ms", late.as_millis(), next.as_millis());
}

/// A loop over several sources: items come from a channel, and a batch waits no longer than [`FLUSH`].
async fn batches() {
    let (sender, mut items) = mpsc::channel(16);
    runtime::spawn(async move {
        for item in 1..=6 {
            sender.send(item).await.expect("the receiver lives");
        }
        // Longer than a batch waits.
        sleep(4 * FLUSH).await;
        sender.send(7).await.expect("the receiver lives");
    });

    let mut batch = Vec::new();
    // Made before the loop: each round goes on with the same deadline.
    let deadline = sleep(FLUSH);
    runtime::pin!(deadline);
    loop {
        runtime::select! {
            // `recv` may be dropped and called again without a loss, as its documentation says.
            item = items.recv() => match item {
                Some(item) => batch.push(item),
                None => break,
            },
            // A batch that is empty is not sent, so there is no deadline.
            () = &mut deadline, if !batch.is_empty() => {
                println!("batch: {batch:?} by time");
                batch.clear();
            }
        }
        if batch.len() == BATCH {
            println!("batch: {batch:?} by size");
            batch.clear();
        }
        if batch.len() == 1 {
            deadline.as_mut().reset(runtime::time::Instant::now() + FLUSH);
        }
    }
    println!("batch: {batch:?} at the end");
}
