//! Pairs of tasks that exchange two messages over oneshot channels. See [`benches::loads::ping_pong`].

use benches::duel::duel;
use benches::loads::ping_pong;
use criterion::{Criterion, criterion_group, criterion_main};

fn bench(criterion: &mut Criterion) {
    duel(criterion, "ping_pong", 1_000, ping_pong, ping_pong);
}

criterion_group!(benches, bench);
criterion_main!(benches);
