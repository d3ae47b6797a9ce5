//! Random programs from a seed that judge the scheduler of `runtime`, by its public interface alone.
//!
//! ```sh
//! cargo run --release -p torture -- --seeds 100000      # until one fails
//! cargo run --release -p torture -- --seed 4711         # one seed again, many times
//! cargo run --release -p torture -- --seconds 120       # fresh seeds, as CI does
//! cargo run --release -p torture -- --help
//! ```
//!
//! Each seed makes a tree of operations, from spawned tasks to runtimes inside of jobs, whose end and results
//! follow from the documents: [`rules`] lists which promise each rests on. The program runs in a child
//! process. It fails if it does not end although it could have run; if a result, a panic or its surroundings
//! are not as predicted; if something was dropped twice or never; or if threads, descriptors or memory are
//! not back when the runtime is gone. Then the smallest program that still fails is printed, with the state
//! of each thread, and the status is 1.
//!
//! # It can fail
//! Faults that the scheduler once had were put back, one at a time. Each was found, on two CPUs, after this
//! number of seeds. The last eight were tried while other programs used these CPUs, too.
//!
//! | fault put back | seeds | seconds |
//! |---|---|---|
//! | spare workers run no injected jobs (`run_job_from_others`) | 28 | 6 |
//! | jobs run in the surroundings of the frame below (`OwnJobs::in_surroundings`) | 49 | 1 |
//! | a thief sees the oldest child job of a deque only (`steal_from_below`) | 10,970 | 73 |
//! | no spare worker comes once the shutdown has begun (`Shared::call`) | 591 | 9 |
//! | a thread that unwinds takes any child job while it waits (`OwnJobs::wait`) | 2,182 | 15 |
//! | no worker looks again when a spare worker is refused (`spare_is_refused`) | 7 | 4 |
//! | a worker does not empty its queues before it leaves (`Worker::wind_down`) | 302 | 19 |
//! | the waker of a `LocalSet` is called in a dispatch (`context::wake`) | 200 | 6 |
//! | a wait in `isolated` calls foreign wakers itself (`OwnJobs::calls_foreign`) | 8,724 | 203 |
//! | a foreign waker keeps the others of its turn (`Looks::rescue`) | 75 | 5 |
//! | a blocking call cancels tasks on its own stack (`leave` in `in_place.rs`) | 83 | 3 |
//! | a worker claims all idle tasks, then cancels one after the other (`queue_idle`) | 19 | 2 |
//! | a worker arrives before it calls its park hook (`Worker::wind_down`) | 8 | 3 |
//!
//! One more fault needs programs that are made for it. If `queue_broadcast` takes no lock, threads begin
//! broadcasts in several orders. That was found after 618 seeds of
//! `--only barriers,installs,threads,unmarked,in-place,scopes,compute`.
//!
//! # How the parts meet
//! `genome` draws a tree of numbers from a seed, by proptest, and shrinks it. `elaborate` makes a `program`
//! of it, by the `rules`; `expect` foretells what it comes to, `show` prints it. `child` runs programs, with
//! `run` and `check`; `supervisor` watches the child, and `shrink` looks for the smallest program.

mod check;
mod child;
mod cli;
mod elaborate;
mod expect;
mod genome;
mod kinds;
mod program;
mod rules;
mod run;
mod show;
mod shrink;
mod supervisor;

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cli::Options;
use genome::Genome;
use kinds::Kinds;
use supervisor::{Child, Failure, Setup};

#[global_allocator]
static ALLOCATOR: check::allocator::Counting = check::allocator::Counting;

/// Seeds for a child before the next one is started.
const BATCH: u64 = 500;

fn main() -> ExitCode {
    let options = match cli::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(text) => {
            eprintln!("{text}\n{}{}", cli::HELP, cli::list_of_kinds());
            return ExitCode::from(2);
        }
    };
    if options.is_child {
        child::main(options.kinds, options.cpus.unwrap_or(2), options.sabotage);
        return ExitCode::SUCCESS;
    }
    let result = match one(&options) {
        Some(genome) if options.is_shown => {
            print(&genome, &options);
            Ok(true)
        }
        Some(genome) => again(&options, &genome),
        None => many(&options),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("torture: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The program that the command line names.
fn one(options: &Options) -> Option<Genome> {
    match (&options.genome, options.seed) {
        (Some(text), _) => Some(Genome::parse(text).expect("--genome takes what a failure prints")),
        (None, Some(seed)) => Some(genome::tree(&genome::genomes(), seed).current()),
        (None, None) => None,
    }
}

fn setups(options: &Options) -> Vec<Setup> {
    let cpus = options.cpus.map_or_else(|| vec![1, 2], |cpus| vec![cpus]);
    let named = |sabotage| cli::SABOTAGE.iter().find(|entry| entry.1 == sabotage).map(|entry| entry.0);
    let sabotage = options.sabotage.and_then(named);
    cpus.into_iter()
        .map(|cpus| Setup { kinds: options.kinds, cpus, budget: options.budget, sabotage })
        .collect()
}

fn print(genome: &Genome, options: &Options) {
    let program = elaborate::elaborate(genome, options.kinds);
    println!("{}", show::show(&program, &|_| String::new()));
}

/// Runs one program many times.
fn again(options: &Options, genome: &Genome) -> std::io::Result<bool> {
    print(genome, options);
    for setup in setups(options) {
        let mut child = None;
        let start = Instant::now();
        match shrink::try_genome(&mut child, setup, genome, options.times)? {
            Some(failure) => {
                println!("on {} CPUs, in run {}: {:?}", setup.cpus, failure.name, failure.class);
                failure.text.iter().for_each(|line| println!("  {line}"));
                return Ok(false);
            }
            None => {
                println!("on {} CPUs: {} runs passed in {:.1?}", setup.cpus, options.times, start.elapsed());
            }
        }
    }
    Ok(true)
}

/// What the threads that supervise share.
struct Run<'a> {
    options: &'a Options,
    next: AtomicU64,
    last: u64,
    until: Option<Instant>,
    passed: AtomicU64,
    failed: AtomicU64,
    is_over: AtomicBool,
    print: Mutex<()>,
}

/// Runs many seeds.
fn many(options: &Options) -> std::io::Result<bool> {
    let from = options.from.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.as_secs() % 1_000_000_000 * 1_000_000
    });
    let start = Instant::now();
    let off = options.kinds.missing();
    let without = if off.is_empty() { String::new() } else { format!(", without {}", off.join(",")) };
    println!("torture: seeds from {from} on{without}");
    let run = Run {
        options,
        next: AtomicU64::new(from),
        last: if options.seconds.is_some() { u64::MAX } else { from + options.seeds },
        until: options.seconds.map(|seconds| start + Duration::from_secs(seconds)),
        passed: AtomicU64::new(0),
        failed: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
        print: Mutex::new(()),
    };
    let results = std::thread::scope(|threads| {
        let started: Vec<_> = (0..options.jobs.max(1))
            .map(|job| {
                threads.spawn({
                    let run = &run;
                    move || run.supervise(job)
                })
            })
            .collect();
        started.into_iter().map(|thread| thread.join().expect("it has no panic")).collect::<Vec<_>>()
    });
    results.into_iter().collect::<std::io::Result<Vec<()>>>()?;
    let (passed, failed) = (run.passed.into_inner(), run.failed.into_inner());
    let rate = passed as f64 / start.elapsed().as_secs_f64() * 60.0;
    println!("torture: {:.0?}, {rate:.0} seeds a minute", start.elapsed());
    println!("{passed} passed, {failed} failed");
    Ok(failed == 0)
}

impl Run<'_> {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst) || self.until.is_some_and(|until| Instant::now() > until)
    }

    /// One thread's part: a child at a time.
    fn supervise(&self, job: usize) -> std::io::Result<()> {
        let setups = setups(self.options);
        let mut turn = job;
        while !self.is_over() {
            let size = if self.until.is_some() { BATCH / 5 } else { BATCH };
            let from = self.next.fetch_add(size, Ordering::SeqCst);
            if from >= self.last {
                return Ok(());
            }
            let mut count = size.min(self.last - from);
            let mut from = from;
            let setup = setups[turn % setups.len()];
            turn += 1;
            while count > 0 && !self.is_over() {
                let mut child = Child::start(setup)?;
                let failure = child.seeds(from, count);
                self.passed.fetch_add(child.passed, Ordering::SeqCst);
                let Some(failure) = failure else { break };
                let next = failure.name + 1;
                (count, from) = ((from + count).saturating_sub(next), next);
                drop(child);
                self.report(failure, setup)?;
            }
        }
        Ok(())
    }

    /// Shrinks a failure, and prints it.
    fn report(&self, failure: Failure, setup: Setup) -> std::io::Result<()> {
        let _one_at_a_time = run::lock(&self.print);
        self.failed.fetch_add(1, Ordering::SeqCst);
        if !self.options.keep_going && self.is_over.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        let seed = failure.name;
        println!("\nseed {seed} failed on {} CPUs: {:?}", setup.cpus, failure.class);
        failure.text.iter().for_each(|line| println!("  {line}"));
        if self.options.shrink.is_zero() {
            return Ok(());
        }
        let tree = genome::tree(&genome::genomes(), seed);
        let shrunk = shrink::shrink(tree, failure, setup, self.options.shrink)?;
        println!("\nseed {seed}: the smallest of {} programs that failed:", shrunk.tried);
        print(&shrunk.genome, self.options);
        shrunk.failure.text.iter().for_each(|line| println!("  {line}"));
        let kinds = match self.options.kinds {
            Kinds::ALL => String::new(),
            kinds => format!(" --kinds {kinds}"),
        };
        println!("again: --genome '{}' --cpus {}{kinds}", shrunk.genome, setup.cpus);
        Ok(())
    }
}
