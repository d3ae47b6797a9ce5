//! The fork-join loads. Each runs on one pool, and adds nanoseconds an operation to a list.
//!
//! The worker reads the clock, so the way into the pool is not measured, except in the loads that are about
//! it. The result is checked after the measurement.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::peer::{FifoScopes, ForkJoin, Scopes};
use super::quicksort::quicksort;
use crate::loads::Load;
use crate::table::{minimum, quantile};

/// A load that needs only `join`.
pub trait JoinLoad: Sync {
    /// One turn on `peer`.
    fn turn<P: ForkJoin>(&self, peer: &P, times: &mut Vec<f64>);
}

/// A load that needs scopes, or threads that belong to the pool.
pub trait ScopeLoad: Sync {
    /// One turn on `peer`.
    fn turn<P: Scopes>(&self, peer: &P, times: &mut Vec<f64>);
}

/// A load that needs scopes whose jobs run in order.
pub trait FifoLoad: Sync {
    /// One turn on `peer`.
    fn turn<P: FifoScopes>(&self, peer: &P, times: &mut Vec<f64>);
}

/// Runs `work`, which makes `operations` operations.
fn timed<R>(operations: usize, times: &mut Vec<f64>, work: impl FnOnce() -> R) -> R {
    let start = Instant::now();
    let result = work();
    times.push(start.elapsed().as_nanos() as f64 / operations as f64);
    result
}

/// Fibonacci numbers with a `join` at every call above `cut`.
#[derive(Clone, Copy, Debug)]
pub struct Fib {
    /// The number's index.
    pub n: u32,
    /// From this index down there is no `join`. With 1, every call is a `join`.
    pub cut: u32,
    /// Whether a time is that of one `join`, and not of the whole call.
    pub per_join: bool,
}

impl JoinLoad for Fib {
    fn turn<P: ForkJoin>(&self, peer: &P, times: &mut Vec<f64>) {
        let operations = if self.per_join { fib_joins(self.n) } else { 1 };
        let value = peer.run(|here| {
            timed(operations, times, || match self.cut {
                // Without a cut the test for it is left out.
                1 => fib::<P>(here, black_box(self.n)),
                cut => fib_cut::<P>(here, black_box(self.n), cut),
            })
        });
        assert_eq!(value, FIB[self.n as usize]);
    }
}

const FIB: [u64; 64] = {
    let mut numbers = [1; 64];
    numbers[0] = 0;
    let mut n = 2;
    while n < 64 {
        numbers[n] = numbers[n - 1] + numbers[n - 2];
        n += 1;
    }
    numbers
};

/// How often [`fib`] calls `join`.
pub fn fib_joins(n: u32) -> usize {
    (FIB[n as usize + 1] - 1) as usize
}

/// The `n`th Fibonacci number.
pub fn fib<P: ForkJoin>(here: &mut P::Here<'_>, n: u32) -> u64 {
    if n < 2 {
        return n.into();
    }
    let (a, b) = P::join(here, |here| fib::<P>(here, n - 1), |here| fib::<P>(here, n - 2));
    a + b
}

/// The same, with plain calls from the `cut`th number down.
pub fn fib_cut<P: ForkJoin>(here: &mut P::Here<'_>, n: u32, cut: u32) -> u64 {
    if n <= cut {
        return fib_plain(n);
    }
    let (a, b) = P::join(here, |here| fib_cut::<P>(here, n - 1, cut), |here| fib_cut::<P>(here, n - 2, cut));
    a + b
}

/// The same by plain calls.
pub fn fib_plain(n: u32) -> u64 {
    if n < 2 { n.into() } else { fib_plain(n - 1) + fib_plain(n - 2) }
}

/// A binary tree, every node in a box of its own. In memory a node comes before its first branch, and that
/// before the second: the order in which [`tree_sum`] walks if nothing is stolen.
#[derive(Debug)]
pub struct Tree {
    value: u64,
    branches: [Option<Box<Tree>>; 2],
}

impl Tree {
    /// A balanced tree of `nodes` nodes, at least one.
    pub fn new(nodes: usize) -> Box<Self> {
        let mut tree = Box::new(Self { value: 1, branches: [None, None] });
        let first = nodes / 2;
        let sizes = [first, nodes - 1 - first];
        tree.branches = sizes.map(|nodes| (nodes > 0).then(|| Self::new(nodes)));
        tree
    }

    /// The sum of the values, by plain calls.
    pub fn sum(&self) -> u64 {
        self.value + self.branches.iter().flatten().map(|branch| branch.sum()).sum::<u64>()
    }
}

/// The sum of the values, with a `join` at every node.
pub fn tree_sum<P: ForkJoin>(here: &mut P::Here<'_>, tree: &Tree) -> u64 {
    let [first, second] = &tree.branches;
    let (a, b) = P::join(
        here,
        |here| first.as_ref().map_or(0, |first| tree_sum::<P>(here, first)),
        |here| second.as_ref().map_or(0, |second| tree_sum::<P>(here, second)),
    );
    tree.value + a + b
}

/// The sum of a tree, a number of times.
#[derive(Debug)]
pub struct TreeSum {
    tree: Box<Tree>,
    nodes: usize,
    repetitions: usize,
}

impl TreeSum {
    /// Of a tree with so many `nodes`.
    pub fn new(nodes: usize, repetitions: usize) -> Self {
        Self { tree: Tree::new(nodes), nodes, repetitions }
    }
}

impl JoinLoad for TreeSum {
    fn turn<P: ForkJoin>(&self, peer: &P, times: &mut Vec<f64>) {
        peer.run(|here| {
            for _ in 0..self.repetitions {
                let sum = timed(self.nodes, times, || tree_sum::<P>(here, black_box(&self.tree)));
                assert_eq!(sum, self.nodes as u64);
            }
        });
    }
}

/// Single sums of a small tree on a worker, while all others sleep: they should be left to sleep.
#[derive(Debug)]
pub struct TreeSumAlone {
    tree: Box<Tree>,
    nodes: usize,
    samples: usize,
    clock: f64,
}

/// Long enough for every thread of every pool to fall asleep.
const UNTIL_ASLEEP: Duration = Duration::from_millis(2);

impl TreeSumAlone {
    /// So many `samples` in a turn.
    pub fn new(nodes: usize, samples: usize) -> Self {
        let mut clock = Vec::new();
        for _ in 0..1000 {
            timed(1, &mut clock, || ());
        }
        Self { tree: Tree::new(nodes), nodes, samples, clock: minimum(&clock) }
    }
}

impl JoinLoad for TreeSumAlone {
    fn turn<P: ForkJoin>(&self, peer: &P, times: &mut Vec<f64>) {
        let mut whole = Vec::new();
        peer.run(|here| {
            for _ in 0..self.samples {
                sleep(UNTIL_ASLEEP);
                // The tree is in the cache then, and no worker has been woken.
                black_box(self.tree.sum());
                let sum = timed(1, &mut whole, || tree_sum::<P>(here, black_box(&self.tree)));
                assert_eq!(sum, self.nodes as u64);
            }
        });
        times.extend(whole.iter().map(|whole| (whole - self.clock).max(0.0) / self.nodes as f64));
    }
}

/// A quicksort of these numbers.
#[derive(Debug)]
pub struct Quicksort(pub Vec<u32>);

impl JoinLoad for Quicksort {
    fn turn<P: ForkJoin>(&self, peer: &P, times: &mut Vec<f64>) {
        let mut data = self.0.clone();
        peer.run(|here| timed(data.len(), times, || quicksort::<P>(here, &mut data)));
        assert!(data.is_sorted(), "{} sorts", P::NAME);
    }
}

/// So many `join`s of nothing with nothing, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct EmptyJoins(pub usize);

impl JoinLoad for EmptyJoins {
    fn turn<P: ForkJoin>(&self, peer: &P, times: &mut Vec<f64>) {
        peer.run(|here| timed(self.0, times, || empty_joins::<P>(here, self.0)));
    }
}

/// So many `join`s of nothing with nothing.
pub fn empty_joins<P: ForkJoin>(here: &mut P::Here<'_>, joins: usize) {
    for _ in 0..joins {
        P::join(here, |_| black_box(()), |_| black_box(()));
    }
}

/// Pieces of work of one length that need nothing from each other.
#[derive(Debug)]
pub struct Flat {
    /// Rounds of [`spin`] in a piece.
    spins: u64,
    /// Where each piece leaves its result.
    results: Vec<AtomicU64>,
}

impl Flat {
    /// `count` pieces that take about `grain` each.
    pub fn new(count: usize, grain: Duration) -> Self {
        const TRIAL: u64 = 100_000;
        let mut trials = Vec::new();
        for _ in 0..50 {
            timed(TRIAL as usize, &mut trials, || spin(TRIAL));
        }
        let spins = grain.as_nanos() as f64 / minimum(&trials);
        Self {
            spins: spins as u64,
            results: std::iter::repeat_with(AtomicU64::default).take(count).collect(),
        }
    }

    fn piece(&self, result: &AtomicU64) {
        // Relaxed: the end of the parallel call hands the results over.
        result.store(spin(self.spins), Ordering::Relaxed);
    }

    /// Every piece must have run since the last check.
    fn check(&self) {
        for result in &self.results {
            assert_ne!(result.swap(0, Ordering::Relaxed), 0);
        }
    }
}

/// A chain of additions and multiplications, each of which needs the one before. Never 0.
fn spin(rounds: u64) -> u64 {
    let mut value = black_box(1_u64);
    for _ in 0..rounds {
        value = value.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
    }
    black_box(value) | 1
}

/// The pieces by halving.
#[derive(Debug)]
pub struct FlatJoins(pub Flat);

impl JoinLoad for FlatJoins {
    fn turn<P: ForkJoin>(&self, peer: &P, times: &mut Vec<f64>) {
        fn halve<P: ForkJoin>(here: &mut P::Here<'_>, flat: &Flat, results: &[AtomicU64]) {
            if let [result] = results {
                return flat.piece(result);
            }
            let (low, high) = results.split_at(results.len() / 2);
            P::join(here, |here| halve::<P>(here, flat, low), |here| halve::<P>(here, flat, high));
        }

        let results = &self.0.results;
        peer.run(|here| timed(results.len(), times, || halve::<P>(here, &self.0, results)));
        self.0.check();
    }
}

/// The pieces by spawning each in one scope.
#[derive(Debug)]
pub struct FlatScope(pub Flat);

impl ScopeLoad for FlatScope {
    fn turn<P: Scopes>(&self, peer: &P, times: &mut Vec<f64>) {
        let (flat, results) = (&self.0, &self.0.results);
        peer.run(|_| {
            timed(results.len(), times, || {
                P::scope(|scope| results.iter().for_each(|result| P::spawn(scope, |_| flat.piece(result))));
            });
        });
        flat.check();
    }
}

/// How the jobs of [`Spawns`] come about in the scopes of `P`.
pub trait Shape<P>: Copy + Sync {
    /// Runs `job` a number of times. Called on a worker.
    fn spawn(self, spawns: usize, job: &(impl Fn() + Sync));
}

/// One after the other in a `scope`.
#[derive(Clone, Copy, Debug)]
pub struct Row;

impl<P: Scopes> Shape<P> for Row {
    fn spawn(self, spawns: usize, job: &(impl Fn() + Sync)) {
        P::scope(|scope| (0..spawns).for_each(|_| P::spawn(scope, |_| job())));
    }
}

/// One after the other in a `scope_fifo`.
#[derive(Clone, Copy, Debug)]
pub struct FifoRow;

impl<P: FifoScopes> Shape<P> for FifoRow {
    fn spawn(self, spawns: usize, job: &(impl Fn() + Sync)) {
        P::scope_fifo(|scope| (0..spawns).for_each(|_| P::spawn_fifo(scope, |_| job())));
    }
}

/// A job spawns two, and so on, all in one `scope`.
#[derive(Clone, Copy, Debug)]
pub struct Branches;

impl<P: Scopes> Shape<P> for Branches {
    fn spawn(self, spawns: usize, job: &(impl Fn() + Sync)) {
        P::scope(|scope| spawn_tree::<P, _>(scope, spawns, job));
    }
}

/// So many jobs in one scope that do nothing.
#[derive(Clone, Copy, Debug)]
pub struct Spawns<S> {
    /// How they come about.
    pub shape: S,
    /// How many; a power of two less one for a tree.
    pub spawns: usize,
    /// How often in a turn.
    pub repetitions: usize,
}

impl ScopeLoad for Spawns<Row> {
    fn turn<P: Scopes>(&self, peer: &P, times: &mut Vec<f64>) {
        self.turn_on(peer, times);
    }
}

impl ScopeLoad for Spawns<Branches> {
    fn turn<P: Scopes>(&self, peer: &P, times: &mut Vec<f64>) {
        self.turn_on(peer, times);
    }
}

impl FifoLoad for Spawns<FifoRow> {
    fn turn<P: FifoScopes>(&self, peer: &P, times: &mut Vec<f64>) {
        self.turn_on(peer, times);
    }
}

impl<S> Spawns<S> {
    fn turn_on<P: ForkJoin>(&self, peer: &P, times: &mut Vec<f64>)
    where
        S: Shape<P>,
    {
        // Not timed: each job counts here, which takes longer than the jobs themselves.
        let ran = AtomicU64::new(0);
        peer.run(|_| {
            self.shape.spawn(self.spawns, &|| {
                ran.fetch_add(1, Ordering::Relaxed);
            });
        });
        assert_eq!(ran.into_inner(), self.spawns as u64, "{} runs each job once", P::NAME);

        peer.run(|_| {
            for _ in 0..self.repetitions {
                timed(self.spawns, times, || self.shape.spawn(self.spawns, &|| black_box(())));
            }
        });
    }
}

fn spawn_tree<'s, P: Scopes, F: Fn() + Sync>(scope: &P::Scope<'s>, spawns: usize, job: &'s F) {
    if spawns == 0 {
        return;
    }
    let below = (spawns - 1) / 2;
    P::spawn(scope, move |scope| {
        job();
        spawn_tree::<P, F>(scope, below, job);
        spawn_tree::<P, F>(scope, below, job);
    });
}

/// Calls the pool with an empty closure from a thread outside, a number of times without a pause.
#[derive(Clone, Copy, Debug)]
pub struct InstallHot(pub usize);

impl ScopeLoad for InstallHot {
    fn turn<P: Scopes>(&self, peer: &P, times: &mut Vec<f64>) {
        timed(self.0, times, || {
            for _ in 0..self.0 {
                peer.run(|_| black_box(()));
            }
        });
    }
}

/// The same with the pool asleep; a turn gives one quantile of its samples.
#[derive(Clone, Copy, Debug)]
pub struct InstallCold {
    /// How many samples in a turn.
    pub samples: usize,
    /// Which quantile.
    pub part: f64,
}

impl ScopeLoad for InstallCold {
    fn turn<P: Scopes>(&self, peer: &P, times: &mut Vec<f64>) {
        let mut samples = Vec::new();
        for _ in 0..self.samples {
            sleep(UNTIL_ASLEEP);
            timed(1, &mut samples, || peer.run(|_| black_box(())));
        }
        times.push(quantile(&mut samples, self.part));
    }
}

/// A small parallel call on a thread outside, a number of times without a pause.
#[derive(Clone, Copy, Debug)]
pub struct CallHot(pub usize);

impl JoinLoad for CallHot {
    fn turn<P: ForkJoin>(&self, peer: &P, times: &mut Vec<f64>) {
        timed(self.0, times, || {
            for _ in 0..self.0 {
                peer.call(|| black_box(()));
            }
        });
    }
}

/// The same with the pool asleep; a turn gives one quantile of its samples.
#[derive(Clone, Copy, Debug)]
pub struct CallCold {
    /// How many samples in a turn.
    pub samples: usize,
    /// Which quantile.
    pub part: f64,
}

impl JoinLoad for CallCold {
    fn turn<P: ForkJoin>(&self, peer: &P, times: &mut Vec<f64>) {
        let mut samples = Vec::new();
        for _ in 0..self.samples {
            sleep(UNTIL_ASLEEP);
            timed(1, &mut samples, || peer.call(|| black_box(())));
        }
        times.push(quantile(&mut samples, self.part));
    }
}

/// The loads with `join` for which instructions are counted, with the operations to begin with.
pub fn counted_joins<P: ForkJoin>() -> [(&'static str, usize, Load<P>); 3] {
    [
        ("fib", 10_000, |peer, joins| {
            let once = fib_joins(14);
            peer.run(|here| (0..joins.div_ceil(once)).for_each(|_| _ = fib::<P>(here, black_box(14))));
        }),
        ("tree_sum", 10_000, |peer, joins| {
            let tree = Tree::new(1000);
            peer.run(|here| {
                (0..joins.div_ceil(1000)).for_each(|_| _ = tree_sum::<P>(here, black_box(&tree)))
            });
        }),
        ("join_empty", 10_000, |peer, joins| peer.run(|here| empty_joins::<P>(here, joins))),
    ]
}

/// The loads with scopes for which instructions are counted.
pub fn counted_scopes<P: Scopes>() -> [(&'static str, usize, Load<P>); 2] {
    [
        ("scope_spawn", 10_000, |peer, spawns| peer.run(|_| spawn_empty::<P>(Row, spawns))),
        ("spawn_tree", (1 << 12) - 1, |peer, spawns| peer.run(|_| spawn_empty::<P>(Branches, spawns))),
    ]
}

/// The same with scopes whose jobs run in order.
pub fn counted_fifos<P: FifoScopes>() -> [(&'static str, usize, Load<P>); 1] {
    [("scope_fifo", 10_000, |peer, spawns| peer.run(|_| spawn_empty::<P>(FifoRow, spawns)))]
}

fn spawn_empty<P>(shape: impl Shape<P>, spawns: usize) {
    shape.spawn(spawns, &|| black_box(()));
}
