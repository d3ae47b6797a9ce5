//! What is measured of a process and its requests.

use std::str::FromStr;
use std::time::Duration;
use std::{fmt, fs};

use crate::Failure;

/// The kernel's unit of CPU time.
const TICK: Duration = Duration::from_millis(10);

/// Requests of one run. One line of text carries them from a client to `compare`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Requests {
    pub count: u64,
    pub microseconds: u64,
    /// Microseconds.
    pub p50: u64,
    pub p99: u64,
    pub p999: u64,
    pub errors: u64,
}

impl Requests {
    /// Sums up what took `time`. The latencies are in microseconds.
    pub fn new(time: Duration, mut latencies: Vec<u32>, errors: u64) -> Self {
        latencies.sort_unstable();
        let quantile = |part: f64| {
            let index = (latencies.len().saturating_sub(1) as f64 * part) as usize;
            latencies.get(index).copied().unwrap_or_default().into()
        };
        Self {
            count: latencies.len() as u64,
            microseconds: time.as_micros() as u64,
            p50: quantile(0.5),
            p99: quantile(0.99),
            p999: quantile(0.999),
            errors,
        }
    }
}

impl fmt::Display for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, microseconds, p50, p99, p999, errors } = self;
        write!(f, "figures {count} {microseconds} {p50} {p99} {p999} {errors}")
    }
}

impl FromStr for Requests {
    type Err = Failure;

    fn from_str(line: &str) -> Result<Self, Failure> {
        let numbers = line.strip_prefix("figures ").ok_or_else(|| format!("`{line}` has no figures"))?;
        let numbers: Vec<u64> = numbers.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        let [count, microseconds, p50, p99, p999, errors] = numbers[..] else {
            return Err(format!("`{line}` has other than six figures").into());
        };
        Ok(Self { count, microseconds, p50, p99, p999, errors })
    }
}

/// What a process has used. One line of text carries it, too.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    pub cpu: Duration,
    /// The most memory that it had at any time.
    pub peak_kib: u64,
    pub threads: u64,
}

impl Usage {
    /// Looks at a process by its id, or at `self`.
    pub fn of(process: &str) -> Result<Self, Failure> {
        let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
        // The name may hold spaces. User and system time are the 12th and 13th field behind it.
        let (_, fields) = stat.rsplit_once(") ").ok_or("`stat` has no name")?;
        let ticks: u32 = fields.split(' ').skip(11).take(2).map(|field| field.parse().unwrap_or(0)).sum();
        let status = fs::read_to_string(format!("/proc/{process}/status"))?;
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.split_whitespace().next()?.parse().ok())
                .ok_or_else(|| format!("`status` has no {name}"))
        };
        Ok(Self { cpu: TICK * ticks, peak_kib: number("VmHWM:")?, threads: number("Threads:")? })
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "usage {} {} {}", self.cpu.as_micros(), self.peak_kib, self.threads)
    }
}

impl FromStr for Usage {
    type Err = Failure;

    fn from_str(line: &str) -> Result<Self, Failure> {
        let numbers = line.strip_prefix("usage ").ok_or_else(|| format!("`{line}` has no usage"))?;
        let numbers: Vec<u64> = numbers.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        let [cpu, peak_kib, threads] = numbers[..] else {
            return Err(format!("`{line}` has other than three numbers").into());
        };
        Ok(Self { cpu: Duration::from_micros(cpu), peak_kib, threads })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_sorted_latencies() {
        let requests = Requests::new(Duration::from_secs(1), (0..1001).rev().collect(), 2);
        let expected =
            Requests { count: 1001, microseconds: 1_000_000, p50: 500, p99: 990, p999: 999, errors: 2 };
        assert_eq!(requests, expected);
    }

    #[test]
    fn a_line_carries_all_figures() {
        let requests = Requests { count: 1, microseconds: 2, p50: 3, p99: 4, p999: 5, errors: 6 };
        assert_eq!(requests.to_string().parse::<Requests>().unwrap(), requests);
        let usage = Usage { cpu: Duration::from_millis(20), peak_kib: 7, threads: 8 };
        assert_eq!(usage.to_string().parse::<Usage>().unwrap(), usage);
    }

    #[test]
    fn a_process_has_a_thread_and_memory() {
        let usage = Usage::of("self").unwrap();
        assert!(usage.threads > 0 && usage.peak_kib > 0, "{usage:?}");
    }
}
