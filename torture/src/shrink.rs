//! The smallest program that still fails, by proptest's shrinking of its genome.
//!
//! Programs fail only now and then. So a smaller one counts as failing if one of many runs fails. The number
//! of runs is three times as high as the first program needed. Each failing run costs a process, and each
//! hang its budget. So the search has a limit of time.

use std::time::{Duration, Instant};

use proptest::strategy::ValueTree;

use crate::genome::Genome;
use crate::supervisor::{Child, Class, Failure, Setup};

/// Most runs of one program.
const MOST_RUNS: u32 = 400;

/// A program that fails, and how it did when it was run last.
#[derive(Debug)]
pub struct Shrunk {
    /// The program.
    pub genome: Genome,
    /// Its failure.
    pub failure: Failure,
    /// How many programs were tried.
    pub tried: u32,
}

/// Runs a genome in `child` as often as `runs` says, or until it fails. Starts a child if there is none, and
/// keeps it if all runs passed; the result is then `None`.
///
/// # Errors
/// What the system says if it refuses a process.
pub fn try_genome(
    child: &mut Option<Child>,
    setup: Setup,
    genome: &Genome,
    runs: u32,
) -> std::io::Result<Option<Failure>> {
    let mut current = match child.take() {
        Some(child) => child,
        None => Child::start(setup)?,
    };
    let failure = current.program(&genome.to_string(), runs);
    if failure.is_none() {
        *child = Some(current);
    }
    Ok(failure)
}

/// Shrinks a genome with a program that fails as `first` did, until no smaller one does or `limit` is over. A
/// try that has begun then ends first. If the program does not fail again, the result is the genome as it
/// was, and the failure's text says so.
///
/// # Errors
/// What the system says if it refuses a process.
pub fn shrink(
    mut tree: Box<dyn ValueTree<Value = Genome>>,
    first: Failure,
    setup: Setup,
    limit: Duration,
) -> std::io::Result<Shrunk> {
    let start = Instant::now();
    let mut child = None;
    let mut best = Shrunk { genome: tree.current(), failure: first, tried: 0 };
    let class = best.failure.class;
    let Some(runs) = runs_needed(&mut child, setup, &best.genome, class, limit / 3)? else {
        best.failure.text.insert(0, "it did not fail again by itself".to_owned());
        return Ok(best);
    };
    while start.elapsed() < limit {
        // One step down; a step that loses the failure is taken back, and the next one tried.
        if !tree.simplify() {
            break;
        }
        loop {
            let genome = tree.current();
            best.tried += 1;
            let failure = try_genome(&mut child, setup, &genome, runs)?;
            match failure.filter(|failure| failure.class == class) {
                Some(failure) => {
                    (best.genome, best.failure) = (genome, failure);
                    break;
                }
                None if start.elapsed() > limit || !tree.complicate() => return Ok(best),
                None => {}
            }
        }
    }
    Ok(best)
}

/// How many runs show the failure nearly always; `None` if it does not show again.
fn runs_needed(
    child: &mut Option<Child>,
    setup: Setup,
    genome: &Genome,
    class: Class,
    limit: Duration,
) -> std::io::Result<Option<u32>> {
    let start = Instant::now();
    let (mut most, mut seen) = (0, 0);
    while seen < 3 && start.elapsed() < limit {
        let failure = try_genome(child, setup, genome, MOST_RUNS)?;
        match failure {
            Some(failure) if failure.class == class => {
                seen += 1;
                most = most.max(failure.name as u32 + 1);
            }
            Some(_) => {}
            None => break,
        }
    }
    Ok((seen > 0).then(|| (most * 3).clamp(10, MOST_RUNS)))
}
