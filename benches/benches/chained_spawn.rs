//! A chain of tasks, each of which spawns the next. See [`benches::loads::chained_spawn`].

use benches::duel::duel;
use benches::loads::chained_spawn;
use criterion::{Criterion, criterion_group, criterion_main};

fn bench(criterion: &mut Criterion) {
    duel(criterion, "chained_spawn", 1_000, chained_spawn, chained_spawn);
}

criterion_group!(benches, bench);
criterion_main!(benches);
