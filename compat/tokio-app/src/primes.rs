//! The computation that clients ask for, and how many of them there are.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use rayon::prelude::*;
use runtime::Compute;

/// Numbers between two split points, at most. A computation that is cancelled ends within this many. They
/// take less than the 2.5 ms after which a computation without split points counts as stuck.
const BLOCK: i64 = 1000;

/// The ranges that [`count`] and [`list`] work through, one after the other.
pub fn blocks(below: i64) -> impl Iterator<Item = (i64, i64)> {
    (2..below).step_by(BLOCK as usize).map(move |from| (from, below.min(from + BLOCK)))
}

/// Counts the primes below a number. With a large number this takes for ever.
pub fn count(below: i64) -> i64 {
    blocks(below)
        .map(|(from, to)| (from..to).into_par_iter().filter(|&number| is_prime(number)).count() as i64)
        .sum()
}

/// Lists the primes of a block.
pub fn list((from, to): (i64, i64)) -> Vec<i64> {
    let numbers: Vec<_> = (from..to).collect();
    numbers.par_iter().copied().filter(|&number| is_prime(number)).collect()
}

fn is_prime(number: i64) -> bool {
    number >= 2 && (2..).take_while(|divisor| divisor * divisor <= number).all(|d| number % d != 0)
}

/// Counts computations.
#[derive(Clone, Default)]
pub struct Computations(Arc<Counts>);

#[derive(Default)]
pub struct Counts {
    /// All that were asked for.
    pub asked: AtomicU64,
    /// Those that have begun.
    pub begun: AtomicU64,
    /// Those that have returned.
    pub finished: AtomicU64,
    /// Those that have ended otherwise, whether or not they had begun.
    pub cancelled: AtomicU64,
}

impl Computations {
    /// Starts `f` on the workers. The computation is cancelled when the handle is dropped.
    pub fn start<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> Compute<T> {
        self.0.asked.fetch_add(1, Relaxed);
        let computation = Computation { counts: self.0.clone(), finished: false };
        runtime::compute(move || computation.run(f))
    }

    pub fn counts(&self) -> &Counts {
        &self.0
    }
}

/// Counts a computation. It is dropped when the computation ends or is unwound, or with a closure that never
/// begins.
struct Computation {
    counts: Arc<Counts>,
    finished: bool,
}

impl Computation {
    fn run<T>(mut self, f: impl FnOnce() -> T) -> T {
        self.counts.begun.fetch_add(1, Relaxed);
        let value = f();
        self.finished = true;
        value
    }
}

impl Drop for Computation {
    fn drop(&mut self) {
        let count = if self.finished { &self.counts.finished } else { &self.counts.cancelled };
        count.fetch_add(1, Relaxed);
    }
}
