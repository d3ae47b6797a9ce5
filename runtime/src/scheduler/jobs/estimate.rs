//! How long the child jobs of one job processor take. Only the owner touches these values.

use std::array;
use std::cell::Cell;
use std::time::Instant;

/// While thieves are hungry, the owner publishes this many of the oldest child jobs of a recursion. Each of
/// their indices has an estimate of its own.
pub const EAGER: u32 = 8;

/// Nanoseconds of work that are not worth a theft, or a wake.
pub const SHORT: u32 = 5_000;

/// The longest time that one child job counts for, so that the owner learns from a few short ones.
const LONG: u32 = 8 * SHORT;

/// One estimate for each of the oldest indices, and one for all others.
pub struct Estimates([DurationEstimate; EAGER as usize + 1]);

impl Estimates {
    pub fn new() -> Self {
        Self(array::from_fn(|_| DurationEstimate { typical: Cell::new(LONG), timed: Cell::new((0, None)) }))
    }

    #[inline(always)]
    pub fn at(&self, index: u32) -> &DurationEstimate {
        &self.0[index.min(EAGER) as usize]
    }
}

/// What the owner knows of the child jobs at one index.
pub struct DurationEstimate {
    /// The typical time of a child job in nanoseconds, a moving average.
    typical: Cell<u32>,
    /// The index of the child job that is being timed, and since when. It counts only if the same job is
    /// still noted there.
    timed: Cell<(u32, Option<Instant>)>,
}

impl DurationEstimate {
    pub fn is_short(&self) -> bool {
        self.typical.get() < SHORT
    }

    /// A child job has taken [`SHORT`] or longer.
    pub fn set_long(&self) {
        self.typical.set(SHORT);
    }

    /// The child job at `index` is timed from now on.
    pub fn begin(&self, index: u32) {
        self.timed.set((index, Some(Instant::now())));
    }

    /// For how many nanoseconds, at most [`LONG`], the child job at `index` has been there. `None` if it is
    /// not being timed. `is_noted` says whether it is the job that was noted at this index.
    pub fn known_for(&self, index: u32, is_noted: impl FnOnce() -> bool) -> Option<u32> {
        let (timed, since) = self.timed.get();
        let since = since.filter(|_| timed == index && is_noted())?;
        Some(since.elapsed().as_nanos().min(u128::from(LONG)) as u32)
    }

    /// The child job at `index`, which was timed, has taken this long.
    pub fn learn(&self, index: u32, nanos: u32) {
        self.typical.set(self.typical.get().midpoint(nanos));
        self.timed.set((index, None));
    }
}

/// The owner's last theft.
pub struct Theft {
    jobs: Cell<u32>,
    began: Cell<Option<Instant>>,
}

impl Theft {
    pub fn new() -> Self {
        Self { jobs: Cell::new(1), began: Cell::new(None) }
    }

    /// The owner has stolen this many jobs, at `began`.
    pub fn begin(&self, jobs: u32, began: Instant) {
        self.jobs.set(jobs);
        self.began.set(Some(began));
    }

    /// The stolen jobs have been run. Returns when the theft was, and the average time of a job in
    /// nanoseconds. `None` if there was no theft since the last call.
    pub fn end(&self) -> Option<(Instant, u128)> {
        let began = self.began.take()?;
        Some((began, began.elapsed().as_nanos() / u128::from(self.jobs.get())))
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
