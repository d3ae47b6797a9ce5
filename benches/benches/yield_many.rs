//! Many tasks that yield many times. See [`benches::loads::yield_many`].

use benches::duel::duel;
use benches::loads::yield_many;
use criterion::{Criterion, criterion_group, criterion_main};

fn bench(criterion: &mut Criterion) {
    duel(criterion, "yield_many", 200_000, yield_many, yield_many);
}

criterion_group!(benches, bench);
criterion_main!(benches);
