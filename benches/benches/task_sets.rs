//! Sets of tasks, and tasks that stay on a thread. See [`benches::loads::sets`].

use benches::duel::duel;
use benches::loads::sets::{ours, tokio};
use criterion::{Criterion, criterion_group, criterion_main};

fn bench(criterion: &mut Criterion) {
    duel(criterion, "join_set", 10_000, ours::join_set, tokio::join_set);
    duel(criterion, "local_spawn", 10_000, ours::local_spawn, tokio::local_spawn);
    duel(criterion, "local_wake", 10_000, ours::local_wake, tokio::local_wake);
}

criterion_group!(benches, bench);
criterion_main!(benches);
