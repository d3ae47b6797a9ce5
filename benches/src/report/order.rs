//! What the program tells the processes that it starts, and what they tell it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// What a process is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The contestant that has the turn.
    pub peer: String,
    /// What is to be done.
    pub load: String,
    /// With how many threads.
    pub workers: usize,
    /// How many operations, connections or samples an iteration has.
    pub operations: usize,
}

/// Names contain spaces.
const SEPARATOR: char = ';';

impl fmt::Display for Order {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { peer, load, workers, operations } = self;
        write!(formatter, "{peer}{SEPARATOR}{load}{SEPARATOR}{workers}{SEPARATOR}{operations}")
    }
}

impl FromStr for Order {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let malformed = || format!("four words expected, got {text:?}");
        let words: Vec<_> = text.split(SEPARATOR).collect();
        let [peer, load, workers, operations] = words[..] else {
            return Err(malformed());
        };
        Ok(Self {
            peer: peer.to_owned(),
            load: load.to_owned(),
            workers: workers.parse().map_err(|_| malformed())?,
            operations: operations.parse().map_err(|_| malformed())?,
        })
    }
}

/// How long a turn is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Iterations for so long, and at least one.
    For(Duration),
    /// So many iterations.
    Times(usize),
}

impl Turn {
    /// For a load that has no iterations: how long it runs.
    pub fn time(self) -> Duration {
        match self {
            Self::For(time) => time,
            Self::Times(times) => Duration::from_millis(100) * times as u32,
        }
    }
}

impl fmt::Display for Turn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::For(time) => write!(formatter, "for {}", time.as_millis()),
            Self::Times(times) => write!(formatter, "times {times}"),
        }
    }
}

impl FromStr for Turn {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let malformed = || format!("a turn expected, got {text:?}");
        let (kind, number) = text.split_once(' ').ok_or_else(malformed)?;
        let number = number.parse().map_err(|_| malformed())?;
        match kind {
            "for" => Ok(Self::For(Duration::from_millis(number))),
            "times" => Ok(Self::Times(number as usize)),
            _ => Err(malformed()),
        }
    }
}

/// What a number says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// Of one operation, the best of the turn. Nanoseconds; bytes, where memory is measured.
    Best,
    /// Of one operation, the middle of the turn.
    Time,
    /// Nanoseconds of CPU time of one operation.
    Cpu,
    /// How often a thread fell asleep, in a thousand operations.
    Sleeps,
    /// Requests a second.
    Rate,
    /// Microseconds; half of the requests or samples were faster.
    P50,
    /// 99 of 100 were faster.
    P99,
    /// 999 of 1000 were faster.
    P999,
    /// Jobs a second.
    JobRate,
    /// Milliseconds; half of the jobs were faster.
    JobP50,
    /// 99 of 100 jobs were faster.
    JobP99,
    /// CPUs used.
    Cores,
    /// The rate of a computation over that which serving would leave to it: see [`mixed`](crate::mixed).
    Share,
}

impl Metric {
    const ALL: [(Self, &str); 13] = [
        (Self::Best, "best"),
        (Self::Time, "time"),
        (Self::Cpu, "cpu"),
        (Self::Sleeps, "sleeps"),
        (Self::Rate, "rate"),
        (Self::P50, "p50"),
        (Self::P99, "p99"),
        (Self::P999, "p999"),
        (Self::JobRate, "job-rate"),
        (Self::JobP50, "job-p50"),
        (Self::JobP99, "job-p99"),
        (Self::Cores, "cores"),
        (Self::Share, "share"),
    ];
}

/// What one turn gave.
pub type Numbers = Vec<(Metric, f64)>;

/// The line that a process answers with.
pub fn to_line(numbers: &[(Metric, f64)]) -> String {
    let name =
        |metric| Metric::ALL.iter().find(|(other, _)| *other == metric).expect("every metric has a name").1;
    numbers.iter().map(|(metric, value)| format!("{}={value}", name(*metric))).collect::<Vec<_>>().join(" ")
}

/// Reads such a line; nothing if it is none.
pub fn from_line(line: &str) -> Option<Numbers> {
    line.split_whitespace()
        .map(|word| {
            let (name, value) = word.split_once('=')?;
            let metric = Metric::ALL.iter().find(|(_, other)| *other == name)?.0;
            Some((metric, value.parse().ok()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_understood_as_it_was_meant() {
        let order =
            Order { peer: "tokio + rayon".to_owned(), load: "light".to_owned(), workers: 2, operations: 7 };
        assert_eq!(order.to_string().parse(), Ok(order));
        assert!("tokio;light;two;7".parse::<Order>().is_err());
        for turn in [Turn::For(Duration::from_millis(150)), Turn::Times(3)] {
            assert_eq!(turn.to_string().parse(), Ok(turn));
        }
    }

    #[test]
    fn every_number_comes_back() {
        let numbers: Numbers =
            Metric::ALL.iter().zip(1..).map(|((metric, _), n)| (*metric, f64::from(n) / 3.0)).collect();
        assert_eq!(from_line(&to_line(&numbers)), Some(numbers));
        assert_eq!(from_line("thread 'main' panicked"), None);
    }
}
