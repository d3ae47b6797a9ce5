//! The command line.

use std::time::Duration;

use crate::kinds::{Kind, Kinds};

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Run programs and tell the supervisor.
    pub is_child: bool,
    /// How many seeds, unless `seconds` is set.
    pub seeds: u64,
    /// The first seed; `None` for fresh seeds.
    pub from: Option<u64>,
    /// Run this seed only.
    pub seed: Option<u64>,
    /// Run this program only, written as a failure prints it.
    pub genome: Option<String>,
    /// How often `seed` or `genome` is run.
    pub times: u32,
    /// CPUs of a child; one and two by turns if this is `None`.
    pub cpus: Option<usize>,
    /// For how many seconds seeds are run.
    pub seconds: Option<u64>,
    /// Child processes at once.
    pub jobs: usize,
    /// The kinds of operation that are on.
    pub kinds: Kinds,
    /// The time that a program could have run before it counts as a hang.
    pub budget: Duration,
    /// Time for the search of the smallest program; zero for no search.
    pub shrink: Duration,
    /// Go on after a failure.
    pub keep_going: bool,
    /// Print the program and do not run it.
    pub is_shown: bool,
    /// What every program does wrong, for the tests of the checks.
    pub sabotage: Option<Sabotage>,
}

/// Something wrong that a program does, to see that it is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// A token is never dropped.
    Token,
    /// A token is dropped twice.
    Twice,
    /// A part comes to another value.
    Value,
    /// A part ends in a panic that is not its own.
    Panic,
    /// A part is begun once more than it should be.
    Count,
    /// A thread panics that belongs to no part.
    Stray,
    /// The program sleeps for ever.
    Sleep,
    /// The program spins for ever.
    Spin,
    /// The process ends.
    Crash,
    /// A thread stays.
    Thread,
    /// A descriptor stays open.
    Descriptor,
    /// Memory stays.
    Memory,
    /// A wake is missed.
    Wake,
    /// Every program with a computation in it is wrong.
    Compute,
}

/// What can go wrong, by name.
pub const SABOTAGE: &[(&str, Sabotage)] = &[
    ("token", Sabotage::Token),
    ("twice", Sabotage::Twice),
    ("value", Sabotage::Value),
    ("panic", Sabotage::Panic),
    ("count", Sabotage::Count),
    ("stray", Sabotage::Stray),
    ("sleep", Sabotage::Sleep),
    ("spin", Sabotage::Spin),
    ("crash", Sabotage::Crash),
    ("thread", Sabotage::Thread),
    ("descriptor", Sabotage::Descriptor),
    ("memory", Sabotage::Memory),
    ("wake", Sabotage::Wake),
    ("compute", Sabotage::Compute),
];

/// What `--help` prints, less the list of kinds.
pub const HELP: &str = "\
torture: random programs that judge the scheduler

    --seeds N          so many seeds (10000)
    --from N           from this one on (fresh)
    --seed N           this one only
    --genome TEXT      this program only, as a failure prints it
    --times N          runs of that one (100)
    --seconds S        for so long, fresh seeds unless --from is given
    --cpus 1|2         CPUs of the programs (both by turns)
    --jobs K           processes at once (1)
    --without A,B      switches kinds of operation off
    --only A,B         switches the others off, and makes these frequent
    --kinds A,B        the kinds of a failure, as it prints them
    --budget MS        time that a program could have run before it counts as a hang (4000)
    --shrink S         seconds for the search of the smallest program (120); 0: none
    --keep-going       goes on after a failure
    --show             prints the program of --seed or --genome, and does not run it

Kinds of operation:
";

impl Default for Options {
    fn default() -> Self {
        Self {
            is_child: false,
            seeds: 10_000,
            from: None,
            seed: None,
            genome: None,
            times: 100,
            cpus: None,
            seconds: None,
            jobs: 1,
            kinds: Kinds::ALL,
            budget: Duration::from_secs(4),
            shrink: Duration::from_secs(120),
            keep_going: false,
            is_shown: false,
            sabotage: None,
        }
    }
}

/// The list of kinds, a line each.
pub fn list_of_kinds() -> String {
    Kind::ALL.iter().map(|kind| format!("    {:<12} {}\n", kind.name(), kind.text())).collect()
}

/// Reads the arguments.
///
/// # Errors
/// What is wrong with them; an empty text if help is wanted.
pub fn parse(arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options::default();
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} wants a value"));
        match argument.as_str() {
            "--child" => options.is_child = true,
            "--seeds" => options.seeds = number(&value()?)?,
            "--from" => options.from = Some(number(&value()?)?),
            "--seed" => options.seed = Some(number(&value()?)?),
            "--genome" => options.genome = Some(value()?),
            "--times" => options.times = number(&value()?)?,
            "--cpus" => options.cpus = Some(number(&value()?)?),
            "--seconds" => options.seconds = Some(number(&value()?)?),
            "--jobs" => options.jobs = number(&value()?)?,
            "--kinds" => options.kinds = value()?.parse()?,
            "--only" => options.kinds = value()?.parse::<Kinds>()?.dense(),
            "--without" => {
                let without: Kinds = value()?.parse()?;
                let left_out = Kind::ALL.iter().filter(|&&kind| without.has(kind));
                options.kinds = left_out.fold(options.kinds, |kinds, &kind| kinds.without(kind));
            }
            "--budget" => options.budget = Duration::from_millis(number(&value()?)?),
            "--shrink" => options.shrink = Duration::from_secs(number(&value()?)?),
            "--keep-going" => options.keep_going = true,
            "--show" => options.is_shown = true,
            // Not in the help: for `tests/checks.rs`.
            "--sabotage" => {
                let name = value()?;
                let found = SABOTAGE.iter().find(|entry| entry.0 == name);
                options.sabotage = Some(found.ok_or_else(|| format!("there is no sabotage {name}"))?.1);
            }
            "--help" | "-h" => return Err(String::new()),
            other => return Err(format!("there is no option {other}")),
        }
    }
    Ok(options)
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("\"{text}\" is no number that fits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn kinds_are_switched_off_by_name() {
        let options = read("--without installs,shutdown --seed 7").unwrap();
        assert_eq!(options.kinds.missing(), ["shutdown", "installs"]);
        assert_eq!(options.seed, Some(7));
        assert!(read("--without nothing").unwrap_err().contains("\"nothing\""));
        assert!(read("--seeds many").unwrap_err().contains("\"many\""));
        assert!(read("--seeds").unwrap_err().contains("wants a value"));
    }
}
