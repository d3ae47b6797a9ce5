//! Broadcast and watch channels, and locks for readers and writers. See [`benches::loads::channels`].

use benches::duel::duel;
use benches::loads::channels;
use criterion::{Criterion, criterion_group, criterion_main};

fn bench(criterion: &mut Criterion) {
    for ((name, operations, ours), (.., tokio)) in channels::all().into_iter().zip(channels::all()) {
        duel(criterion, name, operations, ours, tokio);
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
