//! What came out, before it is put on the page.

use std::collections::BTreeMap;
use std::time::Duration;

use super::building;
use super::catalog::Section;
use super::order::Metric;
use crate::table::{median, minimum};

/// Everything that the page shows.
#[derive(Debug, Default)]
pub struct Results {
    /// The machine and the versions of the peers: what it is, and its value.
    pub head: Vec<(String, String)>,
    /// Rounds of each contest.
    pub rounds: usize,
    /// Whether the run was a short one.
    pub is_quick: bool,
    /// One load on all its peers, in the order of the page.
    pub contests: Vec<Contest>,
    /// What other tools have counted.
    pub counts: Vec<Counts>,
    /// What a build takes.
    pub builds: building::Seconds,
    /// How costs grow.
    pub curves: Vec<Curve>,
    /// What is missing, and why.
    pub left_out: Vec<String>,
    /// How long it took.
    pub took: Duration,
    /// How many CPUs other programs had meanwhile.
    pub others: f64,
}

/// One load on all its peers.
#[derive(Debug)]
pub struct Contest {
    /// The load's name.
    pub load: String,
    /// What it does.
    pub about: String,
    /// Where it stands.
    pub section: Section,
    /// Threads of each.
    pub workers: usize,
    /// The contestants that took part, ours first.
    pub sides: Vec<Side>,
}

/// What the turns of one peer gave.
#[derive(Debug)]
pub struct Side {
    /// Its name.
    pub peer: String,
    /// One value for each turn.
    pub numbers: BTreeMap<Metric, Vec<f64>>,
}

impl Side {
    /// The middle of the turns; NaN if it has none.
    pub fn median(&self, metric: Metric) -> f64 {
        self.numbers.get(&metric).map_or(f64::NAN, |values| median(&mut values.clone()))
    }

    /// The least of the turns; NaN if it has none.
    pub fn minimum(&self, metric: Metric) -> f64 {
        self.numbers.get(&metric).map_or(f64::NAN, |values| minimum(values))
    }
}

impl Contest {
    /// That peer's side.
    pub fn side(&self, peer: &str) -> Option<&Side> {
        self.sides.iter().find(|side| side.peer == peer)
    }

    /// That peer's time over ours: of the minimums, and of the medians.
    pub fn ratio(&self, peer: &str) -> Option<[f64; 2]> {
        let (ours, peer) = (self.sides.first()?, self.side(peer)?);
        let ratios = [
            peer.minimum(Metric::Best) / ours.minimum(Metric::Best),
            peer.median(Metric::Time) / ours.median(Metric::Time),
        ];
        ratios.iter().all(|ratio| ratio.is_finite()).then_some(ratios)
    }
}

/// What one operation of a load takes, as other tools count it.
#[derive(Debug)]
pub struct Counts {
    /// The load's name.
    pub load: String,
    /// For each peer: its name, instructions with one worker, system calls and wakes in a thousand operations
    /// with two; NaN where they could not be counted.
    pub peers: Vec<(String, [f64; 3])>,
}

/// How the cost of an operation grows with something.
#[derive(Debug)]
pub struct Curve {
    /// For the file.
    pub name: String,
    /// What is measured.
    pub title: String,
    /// What grows.
    pub axis: String,
    /// For each peer: how much of it there was, and nanoseconds an operation.
    pub series: Vec<(String, Vec<(f64, f64)>)>,
}

impl Curve {
    /// How many times the least cost the greatest is, for the first series, which is ours.
    pub fn spread(&self) -> f64 {
        let costs = || self.series.first().into_iter().flat_map(|(_, points)| points).map(|point| point.1);
        costs().fold(f64::NAN, f64::max) / costs().fold(f64::NAN, f64::min)
    }
}
