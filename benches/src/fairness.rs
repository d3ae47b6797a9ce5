//! A ticker of one millisecond shares its only worker with a task that is always ready: it sends itself
//! messages over a channel, and only the budget makes it yield.
//!
//! The third row is a thread that only looks at the clock. It shows what the machine takes from any thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::arguments::is_test;
use crate::peer::{Ours, Peer, Service, Tokio};
use crate::table::{maximum, median, minimum, quantile, readable};

const PERIOD: Duration = Duration::from_millis(1);

/// Measures both runtimes in turns, and prints how late the ticks were and what the other task did meanwhile.
pub fn compare() {
    let (rounds, ticks) = if is_test() { (1, 20) } else { (5, 1000) };
    let (mut ours, mut tokio, mut clock) = (Side::default(), Side::default(), Side::default());
    for _ in 0..rounds {
        ours.turn::<Ours>(ticks);
        tokio.turn::<Tokio>(ticks);
        clock.look_at_the_clock(ticks);
    }
    println!("| lateness of {} ticks, 1 worker | p50 | p99 | worst | messages a second |", rounds * ticks);
    println!("|---|---|---|---|---|");
    ours.print(Ours::NAME);
    tokio.print(Tokio::NAME);
    clock.print("the clock alone");
}

#[derive(Default)]
struct Side {
    /// Nanoseconds after the time that each tick was due.
    late: Vec<f64>,
    /// Messages a second, one entry for each round.
    rates: Vec<f64>,
}

impl Side {
    fn turn<P: Service>(&mut self, ticks: u32) {
        let peer = P::start(1);
        let messages = Arc::new(AtomicU64::new(0));
        let (done, ended) = P::oneshot();
        let late = Arc::new(std::sync::Mutex::new(Vec::new()));
        let (count, lates) = (messages.clone(), late.clone());
        let start = Instant::now();
        peer.block_on(async {
            P::spawn(talk_to_oneself::<P>(count));
            P::spawn(async move {
                let start = Instant::now();
                let mut late = Vec::new();
                for tick in 1..=ticks {
                    // A tick that was missed is due all the same, as for a ticker that others rely on.
                    let due = start + tick * PERIOD;
                    _ = P::sleep_until(due).await;
                    late.push(due.elapsed().as_nanos() as f64);
                }
                *lates.lock().expect("no thread panics with the lock") = late;
                P::send(done);
            });
            ended.await.expect("the ticker sends");
        });
        self.rates.push(messages.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64());
        self.late.append(&mut late.lock().expect("no thread panics with the lock"));
    }

    fn look_at_the_clock(&mut self, ticks: u32) {
        let start = Instant::now();
        for tick in 1..=ticks {
            let due = start + tick * PERIOD;
            while Instant::now() < due {}
            self.late.push(due.elapsed().as_nanos() as f64);
        }
    }

    fn print(&mut self, name: &str) {
        let [half, most] = [0.5, 0.99].map(|part| readable(quantile(&mut self.late, part)));
        let worst = readable(maximum(&self.late));
        let rate = match self.rates.is_empty() {
            true => String::new(),
            false => {
                let rates = [median(&mut self.rates), minimum(&self.rates), maximum(&self.rates)];
                let [middle, least, greatest] = rates.map(|rate| rate / 1e6);
                format!("{middle:.1} M [{least:.1}, {greatest:.1}]")
            }
        };
        println!("| {name} | {half} | {most} | {worst} | {rate} |");
    }
}

/// Sends itself one message after the other over the crate's bounded channel, for ever; counts them.
async fn talk_to_oneself<P: Peer>(count: Arc<AtomicU64>) {
    let (outbox, mut inbox) = P::channel(1);
    loop {
        P::post(&outbox, 1).await;
        P::take(&mut inbox).await;
        // Relaxed: a number by itself.
        count.fetch_add(1, Ordering::Relaxed);
    }
}
