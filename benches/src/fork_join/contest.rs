//! One load on all pools, in turns.

use std::thread::sleep;
use std::time::Duration;

use super::list::Visitor;
use super::loads::{FifoLoad, JoinLoad, ScopeLoad};
use super::peer::{Chili, ForkJoin, Ours, Rayon};
use crate::arguments::{asked_for, is_test};
use crate::table::{median, minimum, readable};
use crate::usage::Others;

/// The pause between two turns, in which the pools fall asleep.
const SETTLE: Duration = Duration::from_millis(1);

/// The pools. They end when this is dropped.
#[derive(Debug)]
pub struct Contest {
    ours: Ours,
    rayon: Rayon,
    chili: Chili,
    rounds: usize,
}

/// One turn of one pool: adds nanoseconds an operation.
type Turn<'a> = &'a mut dyn FnMut(&mut Vec<f64>);

impl Contest {
    /// Starts the pools and prints the head of the table.
    ///
    /// `BENCH_ROUNDS` (15) is the number of turns of each pool at each load. Under `cargo test` it is one, to
    /// see that it works.
    #[allow(clippy::new_without_default, reason = "it starts threads and prints")]
    pub fn new() -> Self {
        let workers = crate::workers();
        let rounds = if is_test() { 1 } else { crate::from_env("BENCH_ROUNDS", 15) };
        let [ours, rayon, chili] = [Ours::NAME, Rayon::NAME, Chili::NAME];
        println!("{workers} workers, {rounds} rounds; minimum, median; chili counts its caller as a worker.");
        println!(
            "`others` is how many cores other processes had meanwhile: where it is not near 0, measure again."
        );
        println!(
            "| {:<17} | {:<7} | {ours:<18} | {rayon:<18} | {chili:<18} | {:<16} | {:<16} | others |",
            "load",
            "a time",
            format!("{rayon} / {ours}"),
            format!("{chili} / {ours}"),
        );
        println!("|---|---|---|---|---|---|---|---|");
        Self {
            ours: Ours::start(workers),
            rayon: Rayon::start(workers),
            chili: Chili::start(workers),
            rounds,
        }
    }

    /// Ours comes first in `turns`.
    fn rounds<const PEERS: usize>(&self, name: &str, operation: &str, turns: [Turn<'_>; PEERS]) {
        let others = Others::watch();
        let mut times = [const { Vec::new() }; PEERS];
        for round in 0..=self.rounds {
            if round == 1 {
                // The first was for warming up.
                times.iter_mut().for_each(Vec::clear);
            }
            for turn in 0..PEERS {
                // The side that goes first changes with each round.
                let side = (round + turn) % PEERS;
                sleep(SETTLE);
                turns[side](&mut times[side]);
            }
        }

        let numbers = times.map(|mut times| [minimum(&times), median(&mut times)]);
        print!("| {name:<17} | {operation:<7} |");
        for side in 0..3 {
            match numbers.get(side) {
                Some(times) => print!(" {:>8}, {:>8} |", readable(times[0]), readable(times[1])),
                None => print!(" {:>18} |", "–"),
            }
        }
        for side in 1..3 {
            match numbers.get(side) {
                Some(times) => {
                    let [minimum, median] = [0, 1].map(|column| times[column] / numbers[0][column]);
                    print!(" {:>7}, {:>7} |", format!("×{minimum:.2}"), format!("×{median:.2}"));
                }
                None => print!(" {:>16} |", "–"),
            }
        }
        println!(" {:>6.2} |", others.cores());
    }
}

impl Visitor for Contest {
    /// Measures a load on all pools, if the command line asks for it.
    fn join<L: JoinLoad + 'static>(&mut self, name: &str, operation: &str, make: impl FnOnce() -> L) {
        if !asked_for(name) {
            return;
        }
        let load = make();
        self.rounds(
            name,
            operation,
            [
                &mut |times| load.turn(&self.ours, times),
                &mut |times| load.turn(&self.rayon, times),
                &mut |times| load.turn(&self.chili, times),
            ],
        );
    }

    /// Measures a load that chili has no verbs for.
    fn scope<L: ScopeLoad + 'static>(&mut self, name: &str, operation: &str, make: impl FnOnce() -> L) {
        if !asked_for(name) {
            return;
        }
        let load = make();
        self.rounds(
            name,
            operation,
            [&mut |times| load.turn(&self.ours, times), &mut |times| load.turn(&self.rayon, times)],
        );
    }

    /// Measures a load that neither chili nor forte has verbs for.
    fn fifo<L: FifoLoad + 'static>(&mut self, name: &str, operation: &str, make: impl FnOnce() -> L) {
        if !asked_for(name) {
            return;
        }
        let load = make();
        self.rounds(
            name,
            operation,
            [&mut |times| load.turn(&self.ours, times), &mut |times| load.turn(&self.rayon, times)],
        );
    }
}
