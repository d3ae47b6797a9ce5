//! Runs the two programs by turns, and prints a table.
//!
//! `SECONDS_PER_RUN` (6) and `ROUNDS` (3) are read from the environment, and `LOADS` says which loads to run,
//! by the beginnings of their names. The program that goes first changes with each round. The client of a
//! load is the same program for both, the published one, and so is the backend of the proxy.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;
use std::{env, fs, thread};

use crate::Failure;
use crate::figures::{Requests, Usage};
use crate::load;

pub struct Programs<'a> {
    pub ours: &'a str,
    pub published: &'a str,
}

/// How requests come to a program.
enum Load<'a> {
    /// wrk asks a server for this path, over so many connections.
    Wrk(String, &'static str, u32),
    /// Our client with this name asks a server.
    Client(&'static str, &'static str),
    /// Our client with this name is what is measured, against the server at this address.
    Outside(&'static str, &'a str),
}

struct Row<'a> {
    name: String,
    load: Load<'a>,
    /// What ours and the published program have measured, in each round.
    runs: [Vec<Run>; 2],
}

/// One run: its requests (light and heavy ones for `mixed`), and what the measured process used for them.
struct Run {
    requests: Vec<Requests>,
    usage: Usage,
}

/// Times of a run, in seconds.
#[derive(Clone, Copy)]
struct Times {
    warm_up: u64,
    measured: u64,
}

pub fn run(programs: Programs<'_>, redis: &str, postgres: &str) -> Result<(), Failure> {
    let from_env = |name: &str, default: u64| match env::var(name) {
        Ok(value) => value.parse().map_err(|_| format!("{name} is a number, got `{value}`")),
        Err(_) => Ok(default),
    };
    let times = Times { warm_up: 1, measured: from_env("SECONDS_PER_RUN", 6)? };
    let rounds = from_env("ROUNDS", 3)?;
    let chosen = env::var("LOADS").unwrap_or_default();

    let mut backend = Server::start(programs.published, "web")?;
    let mut rows = rows(&backend.address, redis, postgres);
    rows.retain(|row| chosen.is_empty() || chosen.split(',').any(|chosen| row.name.starts_with(chosen)));
    for round in 0..rounds as usize {
        for row in &mut rows {
            for turn in 0..2 {
                let side = (round + turn) % 2;
                let program = [programs.ours, programs.published][side];
                let run = row.load.run(program, programs.published, times)?;
                let errors: u64 = run.requests.iter().map(|requests| requests.errors).sum();
                if errors > 0 {
                    return Err(format!("{} by {program}: {errors} errors", row.name).into());
                }
                eprintln!("{} by {program}: {:?} {:?}", row.name, run.requests, run.usage);
                row.runs[side].push(run);
            }
        }
    }
    backend.end()?;
    print_table(&rows);
    Ok(())
}

fn rows<'a>(backend: &str, redis: &'a str, postgres: &'a str) -> Vec<Row<'a>> {
    let row = |name: &str, load| Row { name: name.into(), load, runs: [Vec::new(), Vec::new()] };
    let web = |path, connections| Load::Wrk("web".into(), path, connections);
    vec![
        row("axum, text, 50 connections", web("/", 50)),
        row("axum, text, 1000 connections", web("/", 1000)),
        row("axum, JSON, 50 connections", web("/json", 50)),
        row("axum, JSON, 1000 connections", web("/json", 1000)),
        row("tonic, unary, 64 calls at once", Load::Client("rpc", "rpc")),
        row("hyper, reverse proxy, 50 connections", Load::Wrk(format!("proxy={backend}"), "/", 50)),
        row("redis, pipelines of 16, 32 at once", Load::Outside("redis", redis)),
        row("tokio-postgres, selects, 64 tasks", Load::Outside("postgres", postgres)),
        row("mixed, computed in the handler", Load::Client("mixed", "mixed=inline")),
        row("mixed, `spawn_blocking`", Load::Client("mixed", "mixed=blocking")),
        row("mixed, `rayon::spawn`", Load::Client("mixed", "mixed=rayon")),
    ]
}

impl Load<'_> {
    fn run(&self, program: &str, client: &str, times: Times) -> Result<Run, Failure> {
        match self {
            Self::Wrk(service, path, connections) => {
                let mut server = Server::start(program, service)?;
                let url = format!("http://{}{path}", server.address);
                wrk(&url, *connections, times.warm_up)?;
                let before = server.usage()?;
                let (requests, threads) = server.watch(|| wrk(&url, *connections, times.measured))?;
                let now = server.usage()?;
                server.end()?;
                let usage = Usage { cpu: now.cpu - before.cpu, threads, ..now };
                Ok(Run { requests: vec![requests?], usage })
            }
            Self::Client(name, service) => {
                let mut server = Server::start(program, service)?;
                let mut child = Command::new(client)
                    .args(["load", name, &server.address, &times.measured.to_string()])
                    .stdout(Stdio::piped())
                    .spawn()?;
                // The client's own warm-up, and the pause before it.
                thread::sleep(Duration::from_secs(times.warm_up) + load::pause_of(name));
                let before = server.usage()?;
                let (lines, threads) = server.watch(|| lines(&mut child))?;
                let now = server.usage()?;
                server.end()?;
                let requests = lines?.iter().filter_map(|line| line.parse().ok()).collect();
                let usage = Usage { cpu: now.cpu - before.cpu, threads, ..now };
                Ok(Run { requests, usage })
            }
            Self::Outside(load, address) => {
                let mut child = Command::new(program)
                    .args(["load", load, address, &times.measured.to_string()])
                    .stdout(Stdio::piped())
                    .spawn()?;
                let lines = lines(&mut child)?;
                let [requests, usage] = &lines[..] else {
                    return Err(format!("{load} printed {lines:?}").into());
                };
                Ok(Run { requests: vec![requests.parse()?], usage: usage.parse()? })
            }
        }
    }
}

fn wrk(url: &str, connections: u32, seconds: u64) -> Result<Requests, Failure> {
    let script = env::temp_dir().join(format!("side-by-side-{}.lua", std::process::id()));
    fs::write(&script, include_str!("wrk.lua"))?;
    let mut child = Command::new("wrk")
        .args(["--threads", "1", "--timeout", "60s", "--connections", &connections.to_string()])
        .args(["--duration", &format!("{seconds}s"), "--script"])
        .arg(&script)
        .arg(url)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("wrk: {error}"))?;
    let lines = lines(&mut child)?;
    fs::remove_file(script)?;
    lines.iter().find_map(|line| line.parse().ok()).ok_or_else(|| format!("wrk printed {lines:?}").into())
}

/// Waits for the end of a process, which must be a success, and returns what it printed.
fn lines(child: &mut Child) -> Result<Vec<String>, Failure> {
    let mut text = String::new();
    child.stdout.take().expect("it is piped").read_to_string(&mut text)?;
    let status = child.wait()?;
    if !status.success() {
        return Err(format!("a client ended with {status}: {text}").into());
    }
    Ok(text.lines().map(str::to_owned).collect())
}

/// A process that serves. It is killed when this is dropped.
struct Server {
    child: Child,
    input: Option<ChildStdin>,
    /// Kept open, so that the server can print.
    _output: BufReader<ChildStdout>,
    address: String,
}

impl Server {
    fn start(program: &str, service: &str) -> Result<Self, Failure> {
        let mut child = Command::new(program)
            .args(["serve", service])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{program}: {error}"))?;
        let input = child.stdin.take();
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut address = String::new();
        output.read_line(&mut address)?;
        Ok(Self { child, input, _output: output, address: address.trim_end().into() })
    }

    fn usage(&self) -> Result<Usage, Failure> {
        Usage::of(&self.child.id().to_string())
    }

    /// Runs `work`. Returns its result, and the greatest number of threads that the server had meanwhile.
    fn watch<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<(T, u64), Failure> {
        thread::scope(|scope| {
            let work = scope.spawn(work);
            let mut threads = 0;
            while !work.is_finished() {
                threads = threads.max(self.usage()?.threads);
                thread::sleep(Duration::from_millis(20));
            }
            Ok((work.join().expect("it does not panic"), threads))
        })
    }

    /// Waits until the server has ended by itself.
    fn end(&mut self) -> Result<(), Failure> {
        self.input = None;
        let status = self.child.wait()?;
        if status.success() { Ok(()) } else { Err(format!("a server ended with {status}").into()) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended; then there is nothing to do.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn print_table(rows: &[Row<'_>]) {
    println!(
        "| load | on | requests/s | p50, ms | p99, ms | p99.9, ms \
         | CPU/request, µs | memory, MiB | threads |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for Row { name, runs, .. } in rows {
        let kinds = runs[0].first().map_or(0, |run| run.requests.len());
        for kind in 0..kinds {
            let name = match (kinds, kind) {
                (1, _) => name.clone(),
                (_, 0) => format!("{name}: light requests"),
                _ => format!("{name}: heavy requests"),
            };
            for (on, runs) in ["`runtime`", "Tokio"].into_iter().zip(runs) {
                let median = |value: &dyn Fn(&Run) -> f64| {
                    let mut values: Vec<f64> = runs.iter().map(value).collect();
                    values.sort_by(f64::total_cmp);
                    values[values.len() / 2]
                };
                let of_kind = |value: fn(&Requests) -> f64| median(&|run| value(&run.requests[kind]));
                let all = |run: &Run| run.requests.iter().map(|requests| requests.count).sum::<u64>() as f64;
                println!(
                    "| {name} | {on} | {:.0} | {:.2} | {:.2} | {:.2} | {:.1} | {:.1} | {:.0} |",
                    of_kind(|requests| requests.count as f64 / requests.microseconds as f64 * 1e6),
                    of_kind(|requests| requests.p50 as f64 / 1e3),
                    of_kind(|requests| requests.p99 as f64 / 1e3),
                    of_kind(|requests| requests.p999 as f64 / 1e3),
                    median(&|run| run.usage.cpu.as_micros() as f64 / all(run)),
                    median(&|run| run.usage.peak_kib as f64 / 1024.0),
                    median(&|run| run.usage.threads as f64),
                );
            }
        }
    }
}
