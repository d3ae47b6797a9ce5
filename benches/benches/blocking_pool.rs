//! Closures for the threads that may block. See [`benches::loads::blocking_from_one`] and
//! [`benches::loads::blocking_from_many`].

use benches::duel::duel;
use benches::loads::{Load, blocking_from_many, blocking_from_one};
use benches::peer::{Ours, Peer};
use criterion::{Criterion, criterion_group, criterion_main};

const FROM_ONE: usize = 20_000;
const FROM_MANY: usize = 16 * 10_000;

fn bench(criterion: &mut Criterion) {
    duel(criterion, "blocking_from_one", FROM_ONE, blocking_from_one, blocking_from_one);
    duel(criterion, "blocking_from_many", FROM_MANY, blocking_from_many, blocking_from_many);
    println!("| {} | wakes a closure | starts a closure | threads |", Ours::NAME);
    println!("|---|---|---|---|");
    print_wakes("blocking_from_one", FROM_ONE, blocking_from_one);
    print_wakes("blocking_from_many", FROM_MANY, blocking_from_many);
}

/// How often a thread was woken or started for a closure, over some rounds.
fn print_wakes(name: &str, closures: usize, load: Load<Ours>) {
    const ROUNDS: usize = 10;
    let ours = Ours::start(benches::workers());
    for _ in 0..ROUNDS {
        load(&ours, closures);
    }
    let metrics = ours.metrics();
    let each = |count: u64| count as f64 / (ROUNDS * closures) as f64;
    println!(
        "| {name} | {:.4} | {:.6} | {} |",
        each(metrics.blocking_wake_count()),
        each(metrics.blocking_start_count()),
        metrics.num_blocking_threads(),
    );
}

criterion_group!(benches, bench);
criterion_main!(benches);
