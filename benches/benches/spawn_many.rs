//! Tasks spawned from a thread that is no worker. See [`benches::loads::spawn_many`].

use benches::duel::duel;
use benches::loads::spawn_many;
use criterion::{Criterion, criterion_group, criterion_main};

fn bench(criterion: &mut Criterion) {
    duel(criterion, "spawn_many", 10_000, spawn_many, spawn_many);
}

criterion_group!(benches, bench);
criterion_main!(benches);
