//! Fork-join on three pools. See [`benches::fork_join::loads`].
//!
//! `cargo bench -p benches --bench fork_join -- tree scope` runs the loads with one of these in their names.
//! `BENCH_PIN=1` keeps each worker on a processor of its own: see [`benches::pin`].

use std::time::Duration;

use benches::arguments::is_test;
use benches::fork_join::contest::Contest;
use benches::fork_join::loads::{
    EmptyJoins, Fib, Flat, FlatJoins, FlatScope, InstallCold, InstallHot, Quicksort, Shape, Spawns, TreeSum,
    TreeSumAlone,
};
use benches::fork_join::quicksort::shuffled;

fn main() {
    // A test is built without optimization, so that it gets by with less.
    fn sized<T>(size: T, test: T) -> T {
        if is_test() { test } else { size }
    }
    let contest = Contest::new();

    contest.join("fib_32", "join", || Fib { n: sized(32, 12), cut: 1, per_join: true });
    contest.join("fib_36_cut_20", "all", || Fib { n: sized(36, 22), cut: sized(20, 15), per_join: false });
    contest.join("join_empty", "join", || EmptyJoins(sized(1_000_000, 1000)));
    contest.join("tree_15_alone", "node", || TreeSumAlone::new(15, sized(40, 1)));
    contest.join("tree_1000_alone", "node", || TreeSumAlone::new(1000, sized(40, 1)));
    contest.join("tree_2^16", "node", || TreeSum::new(sized(1 << 16, 1 << 8), 20));
    contest.join("tree_2^22", "node", || TreeSum::new(sized(1 << 22, 1 << 8), 1));
    contest.join("quicksort_4M", "element", || Quicksort(shuffled(sized(4_000_000, 4_000))));

    let spawns = |shape, spawns| Spawns { shape, spawns, repetitions: sized(10, 1) };
    contest.scope("scope_10000", "spawn", || spawns(Shape::Scope, 10_000));
    contest.scope("scope_fifo_10000", "spawn", || spawns(Shape::ScopeFifo, 10_000));
    contest.scope("spawn_tree_2^14", "spawn", || spawns(Shape::Tree, (1 << 14) - 1));
    contest.scope("install_hot", "call", || InstallHot(sized(1000, 10)));
    let samples = sized(200, 2);
    contest.scope("install_cold_p50", "call", || InstallCold { samples, part: 0.5 });
    contest.scope("install_cold_p99", "call", || InstallCold { samples, part: 0.99 });

    for (grain, micros, count) in [("1us", 1, 40_000), ("100us", 100, 400), ("10ms", 10_000, 4)] {
        let flat = Flat::new(sized(count, 4), Duration::from_micros(sized(micros, 1)));
        contest.join(&format!("flat_join_{grain}"), "piece", || FlatJoins(&flat));
        contest.scope(&format!("flat_scope_{grain}"), "piece", || FlatScope(&flat));
    }
}
