//! One load on both runtimes, in turns.

use std::time::{Duration, Instant};

use criterion::{Criterion, SamplingMode, Throughput};

use crate::loads::Load;
use crate::peer::{Ours, Peer, Tokio};
use crate::table::{median, minimum};

/// Samples for each runtime. A sample is one turn of each.
const SAMPLES: usize = 50;

/// Measures a load, with `operations` an iteration, through criterion, and prints minimum, median and ratio.
///
/// Criterion measures one function after the other, and a machine may slow down in between. Here each of its
/// samples runs both runtimes, one turn each, and reports to criterion only the runtime that it has asked
/// for. The table has both.
pub fn duel(criterion: &mut Criterion, name: &str, operations: usize, ours: Load<Ours>, tokio: Load<Tokio>) {
    let workers = crate::workers();
    let mut rounds = Rounds {
        ours: Side { peer: Ours::start(workers), load: ours, operations, times: Vec::new() },
        tokio: Side { peer: Tokio::start(workers), load: tokio, operations, times: Vec::new() },
        tokio_begins: false,
    };

    let mut group = criterion.benchmark_group(name);
    group
        .sampling_mode(SamplingMode::Flat)
        .sample_size(SAMPLES)
        .throughput(Throughput::Elements(operations as u64));
    group.bench_function(Ours::NAME, |bencher| bencher.iter_custom(|count| rounds.turn(count).0));
    group.bench_function(Tokio::NAME, |bencher| bencher.iter_custom(|count| rounds.turn(count).1));
    group.finish();

    rounds.print(name, workers);
}

struct Rounds {
    ours: Side<Ours>,
    tokio: Side<Tokio>,
    /// The side that goes first changes with each round, so that neither always finds what the other left in
    /// the caches.
    tokio_begins: bool,
}

impl Rounds {
    /// Runs `count` iterations on each runtime; gives the time of ours and of Tokio.
    fn turn(&mut self, count: u64) -> (Duration, Duration) {
        self.tokio_begins = !self.tokio_begins;
        if self.tokio_begins {
            let tokio = self.tokio.turn(count);
            (self.ours.turn(count), tokio)
        } else {
            let ours = self.ours.turn(count);
            (ours, self.tokio.turn(count))
        }
    }

    /// Prints nothing if a filter left this group out.
    fn print(&mut self, name: &str, workers: usize) {
        let (ours, tokio) = (&mut self.ours.times, &mut self.tokio.times);
        if ours.is_empty() {
            return;
        }
        println!("| {name}, {workers} workers | minimum ns/op | median ns/op |");
        println!("|---|---|---|");
        println!("| {} | {:.1} | {:.1} |", Ours::NAME, minimum(ours), median(ours));
        println!("| {} | {:.1} | {:.1} |", Tokio::NAME, minimum(tokio), median(tokio));
        println!(
            "| {} / {} | ×{:.2} | ×{:.2} |\n",
            Tokio::NAME,
            Ours::NAME,
            minimum(tokio) / minimum(ours),
            median(tokio) / median(ours)
        );
    }
}

struct Side<P: Peer> {
    peer: P,
    load: Load<P>,
    operations: usize,
    /// Nanoseconds an operation, one entry for each iteration.
    times: Vec<f64>,
}

impl<P: Peer> Side<P> {
    fn turn(&mut self, count: u64) -> Duration {
        let mut total = Duration::ZERO;
        for _ in 0..count {
            let start = Instant::now();
            (self.load)(&self.peer, self.operations);
            let time = start.elapsed();
            self.times.push(time.as_nanos() as f64 / self.operations as f64);
            total += time;
        }
        total
    }
}
