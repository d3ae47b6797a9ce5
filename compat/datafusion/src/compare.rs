//! Rounds of several servers by turns, and a table of what they achieve.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use crate::client::{self, Schedule};
use crate::setup::{Layout, Service};
use crate::{Failure, queries};

/// How long the client sends before requests and queries are counted.
const WARM_UP: Duration = Duration::from_secs(2);
/// Between two looks at how many threads the server has.
const LOOK: Duration = Duration::from_millis(200);

/// The unit of the kernel's CPU times. Linux has promised it to programs.
const TICKS_PER_SECOND: f64 = 100.0;

/// A program and where it runs its queries.
struct Contestant<'a> {
    name: &'static str,
    program: &'a str,
    layout: Layout,
    rounds: Vec<Round>,
}

/// What one server achieved in one round.
struct Round {
    p50: f64,
    p99: f64,
    p999: f64,
    queries_per_second: f64,
    /// CPUs that the server used.
    cpus: f64,
    /// The greatest number of threads in the server.
    threads: f64,
}

/// Prints each round, then the table. It is an error if two servers answer a query differently.
pub fn run(folder: &str, service: Service, ours: &str, published: &str) -> Result<(), Failure> {
    let time = Duration::from_secs(from_env("SECONDS_PER_ROUND", 10)?);
    let rounds = from_env("ROUNDS", 5)?;
    let contestant = |name, program, layout| Contestant { name, program, layout, rounds: Vec::new() };
    let mut contestants = [
        contestant("`runtime`, one runtime", ours, Layout::One),
        contestant("Tokio, one runtime", published, Layout::One),
        contestant("Tokio, two runtimes", published, Layout::Two),
        contestant("`runtime`, no queries", ours, Layout::Idle),
        contestant("Tokio, no queries", published, Layout::Idle),
    ];

    let mut answers = None;
    for round in 0..rounds as usize {
        for turn in 0..contestants.len() {
            // The first of a round may be at an advantage, so it changes.
            let index = (round + turn) % contestants.len();
            let contestant = &mut contestants[index];
            let mut server = Server::start(contestant.program, folder, service, contestant.layout)?;
            let answers = answers.get_or_insert_with(|| server.answers.clone());
            if *answers != server.answers {
                return Err(format!("{answers:?} became {:?} by {}", server.answers, contestant.name).into());
            }
            let (measured, others) = server.measure(service, time)?;
            server.stop()?;
            println!(
                "{}: p50 {:.2} ms, p99 {:.2} ms, p99.9 {:.2} ms, {:.1} queries/s, {:.2} CPUs, {} threads; \
                 other programs had {others:.2} CPUs",
                contestant.name,
                measured.p50,
                measured.p99,
                measured.p999,
                measured.queries_per_second,
                measured.cpus,
                measured.threads
            );
            contestant.rounds.push(measured);
        }
    }
    for answer in answers.unwrap_or_default() {
        println!("{answer}, everywhere");
    }
    print_table(service, &contestants);
    Ok(())
}

fn from_env(name: &str, default: u64) -> Result<u64, Failure> {
    match env::var(name) {
        Ok(value) => Ok(value.parse().map_err(|_| format!("{name} is a number, got `{value}`"))?),
        Err(_) => Ok(default),
    }
}

fn print_table(service: Service, contestants: &[Contestant<'_>]) {
    println!();
    println!(
        "| {service:?}: median (minimum) | p50, ms | p99, ms | p99.9, ms | queries/s | CPUs | threads |"
    );
    println!("|---|---|---|---|---|---|---|");
    for Contestant { name, rounds, .. } in contestants {
        let cell = |value: fn(&Round) -> f64, decimals| {
            let mut values: Vec<f64> = rounds.iter().map(value).collect();
            values.sort_by(f64::total_cmp);
            let least = values.first().copied().unwrap_or(f64::NAN);
            format!("{:.decimals$} ({least:.decimals$})", quantile(&values, 0.5))
        };
        println!(
            "| {name} | {} | {} | {} | {} | {} | {} |",
            cell(|round| round.p50, 2),
            cell(|round| round.p99, 2),
            cell(|round| round.p999, 2),
            cell(|round| round.queries_per_second, 1),
            cell(|round| round.cpus, 2),
            cell(|round| round.threads, 0),
        );
    }
}

/// The quantile `part`, from 0 to 1, of `sorted`: its place is rounded down. NaN if there is none.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * part) as usize).copied().unwrap_or(f64::NAN)
}

/// A process that serves. It is killed when this is dropped.
struct Server {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    answers: Vec<String>,
    address: SocketAddr,
}

impl Server {
    fn start(program: &str, folder: &str, service: Service, layout: Layout) -> Result<Self, Failure> {
        let mut child = Command::new(program)
            .args(["serve", folder, service.name(), layout.name()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{program}: {error}"))?;
        let input = child.stdin.take();
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = || next_line(&mut output);
        let answers = (0..queries::COUNT).map(|_| line()).collect::<Result<_, _>>()?;
        let address = line()?.parse()?;
        Ok(Self { child, input, output, answers, address })
    }

    /// Returns also how many CPUs were used by programs other than the server and the client.
    fn measure(&mut self, service: Service, time: Duration) -> Result<(Round, f64), Failure> {
        let start = Instant::now();
        let begin = start + WARM_UP;
        let schedule = Schedule { start, begin, end: begin + time };
        let address = self.address;
        let client = thread::spawn(move || client::run(address, service, schedule));

        thread::sleep(begin.saturating_duration_since(Instant::now()));
        let first = self.look()?;
        let mut threads = 0;
        while Instant::now() < schedule.end {
            threads = threads.max(fs::read_dir(format!("/proc/{}/task", self.child.id()))?.count());
            thread::sleep(LOOK.min(schedule.end.saturating_duration_since(Instant::now())));
        }
        let last = self.look()?;
        let latencies = client.join().expect("the client does not panic")?;

        let seconds = (last.at - first.at).as_secs_f64();
        let per_second = |first: u64, last: u64| (last - first) as f64 / seconds;
        let round = Round {
            p50: quantile(&latencies, 0.5),
            p99: quantile(&latencies, 0.99),
            p999: quantile(&latencies, 0.999),
            queries_per_second: per_second(first.queries, last.queries),
            cpus: per_second(first.server_ticks, last.server_ticks) / TICKS_PER_SECOND,
            threads: threads as f64,
        };
        let others = per_second(first.all_ticks, last.all_ticks)
            - per_second(first.server_ticks, last.server_ticks)
            - per_second(first.client_ticks, last.client_ticks);
        Ok((round, others / TICKS_PER_SECOND))
    }

    fn look(&mut self) -> Result<Look, Failure> {
        self.input.as_mut().ok_or("the server was stopped")?.write_all(b"\n")?;
        let queries = next_line(&mut self.output)?.parse()?;
        Ok(Look {
            at: Instant::now(),
            queries,
            server_ticks: ticks(&self.child.id().to_string())?,
            client_ticks: ticks("self")?,
            all_ticks: all_ticks()?,
        })
    }

    /// Waits until the server has ended by itself.
    fn stop(mut self) -> Result<(), Failure> {
        self.input = None;
        let status = self.child.wait()?;
        if status.success() { Ok(()) } else { Err(format!("the server ended with {status}").into()) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended; then there is nothing to do.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn next_line(output: &mut impl BufRead) -> Result<String, Failure> {
    let mut line = String::new();
    if output.read_line(&mut line)? == 0 {
        return Err("the server has ended".into());
    }
    Ok(line.trim_end().to_owned())
}

struct Look {
    at: Instant,
    queries: u64,
    server_ticks: u64,
    client_ticks: u64,
    all_ticks: u64,
}

/// The CPU time that a process has used, in the kernel's ticks.
fn ticks(process: &str) -> Result<u64, Failure> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name may hold spaces. User and system time are the 12th and 13th field behind it.
    let (_, fields) = stat.rsplit_once(") ").ok_or("`stat` has no name")?;
    let mut times = fields.split(' ').skip(11).map(str::parse::<u64>);
    let mut next = || times.next().ok_or("`stat` is too short");
    Ok(next()?? + next()??)
}

/// The CPU time that all processes have used, in the kernel's ticks.
fn all_ticks() -> Result<u64, Failure> {
    let stat = fs::read_to_string("/proc/stat")?;
    let line = stat.lines().next().ok_or("`/proc/stat` is empty")?;
    // user, nice, system, idle, iowait, irq, softirq
    let times = line.split_whitespace().skip(1).map(str::parse).collect::<Result<Vec<u64>, _>>()?;
    Ok([0, 1, 2, 5, 6].iter().filter_map(|&index| times.get(index)).sum())
}
