//! Sets of tasks, and tasks that stay on a thread. See [`benches::loads::sets`].

use benches::duel::duel;
use benches::loads::sets::{ours, tokio};
use criterion::{Criterion, criterion_group, criterion_main};

fn bench(criterion: &mut Criterion) {
    for ((name, operations, ours), (.., tokio)) in ours::all().into_iter().zip(tokio::all()) {
        duel(criterion, name, operations, ours, tokio);
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
