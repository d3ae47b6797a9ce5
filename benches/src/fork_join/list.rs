//! All fork-join loads, by name.

use std::time::Duration;

use super::loads::{
    Branches, CallCold, CallHot, EmptyJoins, Fib, FifoLoad, FifoRow, Flat, FlatJoins, FlatScope, InstallCold,
    InstallHot, JoinLoad, Quicksort, Row, ScopeLoad, Spawns, TreeSum, TreeSumAlone,
};
use super::quicksort::shuffled;

/// A visitor of the loads. It makes the loads that it wants to run.
pub trait Visitor {
    /// A load that needs only `join`. `operation` is what a time is for.
    fn join<L: JoinLoad + 'static>(&mut self, name: &str, operation: &str, make: impl FnOnce() -> L);

    /// A load that needs scopes, or threads that belong to the pool.
    fn scope<L: ScopeLoad + 'static>(&mut self, name: &str, operation: &str, make: impl FnOnce() -> L);

    /// A load that needs scopes whose jobs run in order.
    fn fifo<L: FifoLoad + 'static>(&mut self, name: &str, operation: &str, make: impl FnOnce() -> L);
}

/// Shows `visitor` every load. For a test, which is built without optimization, they are small.
pub fn visit(visitor: &mut impl Visitor, is_test: bool) {
    let size = Size { is_test };
    visitor.join("fib_32", "join", || Fib { n: size.of(32, 12), cut: 1, per_join: true });
    visitor.join("fib_36_cut_20", "all", || Fib {
        n: size.of(36, 22),
        cut: size.of(20, 15),
        per_join: false,
    });
    visitor.join("join_empty", "join", || EmptyJoins(size.of(1_000_000, 1000)));
    visitor.join("tree_15_alone", "node", || TreeSumAlone::new(15, size.of(40, 1)));
    visitor.join("tree_1000_alone", "node", || TreeSumAlone::new(1000, size.of(40, 1)));
    visitor.join("tree_2^16", "node", || TreeSum::new(size.of(1 << 16, 1 << 8), 20));
    visitor.join("tree_2^22", "node", || TreeSum::new(size.of(1 << 22, 1 << 8), 1));
    visitor.join("quicksort_4M", "element", || Quicksort(shuffled(size.of(4_000_000, 4_000))));

    let repetitions = size.of(10, 1);
    visitor.scope("scope_10000", "spawn", || Spawns { shape: Row, spawns: 10_000, repetitions });
    visitor.fifo("scope_fifo_10000", "spawn", || Spawns { shape: FifoRow, spawns: 10_000, repetitions });
    visitor.scope("spawn_tree_2^14", "spawn", || Spawns {
        shape: Branches,
        spawns: (1 << 14) - 1,
        repetitions,
    });
    visitor.scope("install_hot", "call", || InstallHot(size.of(1000, 10)));
    let samples = size.of(200, 2);
    visitor.join("foreign_join_hot", "call", || CallHot(size.of(1000, 10)));
    visitor.join("foreign_join_cold_p50", "call", || CallCold { samples, part: 0.5 });
    visitor.join("foreign_join_cold_p99", "call", || CallCold { samples, part: 0.99 });
    visitor.scope("install_cold_p50", "call", || InstallCold { samples, part: 0.5 });
    visitor.scope("install_cold_p99", "call", || InstallCold { samples, part: 0.99 });

    for (grain, micros, count) in [("1us", 1, 40_000), ("100us", 100, 400), ("10ms", 10_000, 4)] {
        let flat = || Flat::new(size.of(count, 4), Duration::from_micros(size.of(micros, 1)));
        visitor.join(&format!("flat_join_{grain}"), "piece", || FlatJoins(flat()));
        visitor.scope(&format!("flat_scope_{grain}"), "piece", || FlatScope(flat()));
    }
}

struct Size {
    is_test: bool,
}

impl Size {
    fn of<T>(&self, size: T, test: T) -> T {
        if self.is_test { test } else { size }
    }
}
