//! The rounds.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use super::catalog::{self, Entry, Growth, Section};
use super::contestant::Contestant;
use super::order::{Metric, Order, Turn};
use super::results::{Contest, Curve, Results, Side};
use super::{before, building, count, machine};
use crate::usage::Others;

/// What the command line says.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether it should take no longer than two minutes.
    pub is_quick: bool,
    /// Parts of the names of the loads that are wanted; all, if there is none.
    pub filters: Vec<String>,
}

impl Options {
    fn wants(&self, name: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| name.contains(filter.as_str()))
    }
}

/// Rounds of each contest.
const ROUNDS: usize = 7;
/// Rounds of each contest in a quick run.
const QUICK_ROUNDS: usize = 1;
/// Rounds of the longest contests: servers that compute.
const MIXED_ROUNDS: usize = 5;
/// Rounds of contests that start a process for each turn, and of the points of a curve.
const FEW_ROUNDS: usize = 3;

/// After this time nothing new is begun: a run that takes too long leaves the rest out, and says so.
const LIMIT: Duration = Duration::from_secs(24 * 60);
/// The same in a quick run.
const QUICK_LIMIT: Duration = Duration::from_secs(105);

/// Measures everything that is wanted, and tells on the standard error how far it is.
pub fn run(options: &Options) -> Results {
    let (start, others) = (Instant::now(), Others::watch());
    let entries = catalog::entries(options.is_quick).into_iter().filter(|entry| options.wants(&entry.load));
    let entries: Vec<_> = entries.collect();
    let growths = catalog::growths(options.is_quick).into_iter().filter(|growth| options.wants(growth.name));
    let growths: Vec<_> = growths.collect();
    let contests: usize = entries.iter().map(|entry| entry.workers.len()).sum();
    let counted = count::wanted(&entries, options.is_quick);

    let wants_builds = !options.is_quick && !before::takes_part() && options.wants(building::NAME);
    let steps = contests + growths.len() + counted.len() + usize::from(wants_builds);

    let limit = if options.is_quick { QUICK_LIMIT } else { LIMIT };
    let mut progress = Progress { start, limit, done: 0, all: steps, late: Vec::new() };
    let mut results = Results {
        head: machine::describe(),
        is_quick: options.is_quick,
        rounds: if options.is_quick { QUICK_ROUNDS } else { ROUNDS },
        ..Results::default()
    };
    for entry in &entries {
        for &workers in &entry.workers {
            if progress.may_begin(&format!("{}, {workers} workers", entry.load)) {
                let contest = contest(entry, workers, &mut results);
                results.contests.push(contest);
            }
        }
    }
    for growth in &growths {
        if progress.may_begin(&format!("growth: {}", growth.name)) {
            let curve = curve(growth, &mut results);
            results.curves.push(curve);
        }
    }
    for counted in &counted {
        if progress.may_begin(&format!("counting: {}", counted.load)) {
            results.counts.push(count::count(counted));
        }
    }

    if wants_builds && progress.may_begin(building::NAME) {
        match building::measure() {
            Ok(seconds) => results.builds = seconds,
            Err(error) => results.left_out.push(format!("`{}`: {error}", building::NAME)),
        }
    }

    if !options.filters.is_empty() {
        results
            .left_out
            .push(format!("All loads but those with {:?} in their names: asked for.", options.filters));
    }
    if let Some(program) = before::PROGRAM.get() {
        let text = format!("All peers: `{}` is `{}`.", before::NAME, program.display());
        results.left_out.push(text);
    }
    if options.is_quick {
        results.left_out.push(
            "A quick run: turns of a fifth, one round, two workers only, three points a curve, few counts, a \
             light load only where a server computes."
                .to_owned(),
        );
    }
    if !progress.late.is_empty() {
        let late = progress.late.join("; ");
        results.left_out.push(format!("For lack of time, since {} s were over: {late}.", limit.as_secs()));
    }
    results.left_out.extend(machine::left_out());
    results.took = start.elapsed();
    results.others = others.cores();
    progress.tell("done");
    results
}

/// Says what is going on, and when it is enough.
struct Progress {
    start: Instant,
    limit: Duration,
    done: usize,
    all: usize,
    /// What there was no time for.
    late: Vec<String>,
}

impl Progress {
    /// Whether there is time for something more.
    fn may_begin(&mut self, what: &str) -> bool {
        let may = self.start.elapsed() < self.limit;
        self.tell(if may { what } else { "no time left" });
        if !may {
            self.late.push(what.to_owned());
        }
        self.done += 1;
        may
    }

    fn tell(&self, what: &str) {
        let seconds = self.start.elapsed().as_secs();
        eprintln!("[{:>3}/{}] {:>2}:{:02}  {what}", self.done, self.all, seconds / 60, seconds % 60);
    }
}

/// The rounds of one load. A contestant that fails takes no further part, and the page says so.
fn contest(entry: &Entry, workers: usize, results: &mut Results) -> Contest {
    let rounds = match entry.section {
        _ if results.is_quick => results.rounds,
        _ if entry.is_fresh => FEW_ROUNDS,
        Section::Mixed => MIXED_ROUNDS,
        _ => results.rounds,
    };
    let sides = rounds_of(entry, workers, rounds, &mut results.left_out);
    Contest { load: entry.load.clone(), about: entry.about.clone(), section: entry.section, workers, sides }
}

fn rounds_of(entry: &Entry, workers: usize, rounds: usize, left_out: &mut Vec<String>) -> Vec<Side> {
    let mut sides: Vec<_> = entry
        .peers
        .iter()
        // A peer with one thread needs no second row.
        .filter(|peer| workers == 1 || ![BARE, EPOLL].contains(peer) || !entry.workers.contains(&1))
        .map(|peer| Entrant {
            order: Order {
                peer: (*peer).to_owned(),
                load: entry.load.clone(),
                workers,
                operations: entry.operations,
            },
            process: None,
            is_out: false,
            numbers: BTreeMap::new(),
        })
        .collect();
    let turn = Turn::For(entry.turn);
    // A process that has one turn in its life has no other to warm up with; a client warms its server up
    // itself.
    let is_warmed_up = entry.is_fresh || matches!(entry.section, Section::Servers | Section::Mixed);
    let warm_up = usize::from(!is_warmed_up);
    for round in 0..rounds + warm_up {
        for index in 0..sides.len() {
            // The contestant that goes first changes with each round.
            let index = (round + index) % sides.len();
            let side = &mut sides[index];
            if side.is_out {
                continue;
            }
            if let Err(error) = side.turn(turn, round >= warm_up) {
                left_out.push(format!(
                    "{} with {} workers on {}: {error}.",
                    entry.load, workers, side.order.peer
                ));
                side.is_out = true;
            }
            if entry.is_fresh {
                side.process = None;
            }
        }
    }
    let sides = sides.into_iter().filter(|side| !side.numbers.is_empty());
    sides.map(|side| Side { peer: side.order.peer, numbers: side.numbers }).collect()
}

const BARE: &str = <crate::peer::Bare as crate::peer::Peer>::NAME;
const EPOLL: &str = super::child::EPOLL;

/// A peer in a contest.
struct Entrant {
    order: Order,
    process: Option<Contestant>,
    /// Whether it has failed.
    is_out: bool,
    numbers: BTreeMap<Metric, Vec<f64>>,
}

impl Entrant {
    fn turn(&mut self, turn: Turn, counts: bool) -> io::Result<()> {
        let process = match &mut self.process {
            Some(process) => process,
            none => none.insert(Contestant::start(&self.order)?),
        };
        let numbers = process.turn(turn)?;
        if counts {
            for (metric, value) in numbers {
                self.numbers.entry(metric).or_default().push(value);
            }
        }
        Ok(())
    }
}

/// The points of one curve, each a contest with fewer rounds.
fn curve(growth: &Growth, results: &mut Results) -> Curve {
    let rounds = if results.is_quick { QUICK_ROUNDS } else { FEW_ROUNDS };
    let mut series: Vec<_> = growth.peers.iter().map(|peer| ((*peer).to_owned(), Vec::new())).collect();
    for &point in &growth.points {
        let (workers, operations) = match growth.operations {
            Some(operations) => (point, operations),
            None => (2, point),
        };
        let entry = Entry {
            load: growth.load.to_owned(),
            about: String::new(),
            section: Section::Tasks,
            peers: growth.peers.into(),
            operations,
            turn: growth.turn,
            workers: Vec::new(),
            is_fresh: false,
            count: 0,
        };
        for side in rounds_of(&entry, workers, rounds, &mut results.left_out) {
            let points = series.iter_mut().find(|(peer, _)| *peer == side.peer);
            points.expect("it takes part").1.push((point as f64, side.median(Metric::Time)));
        }
    }
    series.retain(|(_, points)| !points.is_empty());
    Curve {
        name: growth.name.to_owned(),
        title: growth.title.to_owned(),
        axis: growth.axis.to_owned(),
        series,
    }
}
