//! Starts children, watches them, ends the hanging ones, and names what failed.
//!
//! # When a program hangs
//! A program has a *budget* of time in which it could have run. Time counts as such
//! - as far as the child's threads have run, and
//! - as far as none of them was waiting for a CPU.
//!
//! The system tells both for each thread (`/proc/PID/task/TID/schedstat`, and the state in `stat` for a wait
//! that is not over). So a machine that has much else to do does not look like a hang, and a program that
//! spins for ever does. A child that is stopped or a supervisor that was not run itself count little: no look
//! at the child counts for more than twice the time between two looks. A thread that gets no CPU for very
//! long is named in the end all the same.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child as Process, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::check::process::{self, Usage};
use crate::kinds::Kinds;
use crate::run::lock;

/// How a program failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// It did not end.
    Hang,
    /// Its process ended.
    Crash,
    /// Something was not as it should be.
    Fault,
}

/// A program that failed.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Its seed, or its number among several runs of one program.
    pub name: u64,
    /// How it failed.
    pub class: Class,
    /// What is known, a line each.
    pub text: Vec<String>,
}

/// What children are started with.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    /// The kinds of operation that are on.
    pub kinds: Kinds,
    /// How many CPUs the child may use.
    pub cpus: usize,
    /// The time that a program could have run before it counts as a hang.
    pub budget: Duration,
    /// What its programs do wrong.
    pub sabotage: Option<&'static str>,
}

/// What a child says.
#[derive(Debug)]
enum Said {
    Begin(u64),
    Phase(String),
    End,
    Fault(u64, String),
    Dump(String),
    Dumped,
    Idle,
}

/// A process that runs programs.
#[derive(Debug)]
pub struct Child {
    setup: Setup,
    process: Process,
    orders: ChildStdin,
    said: Receiver<Said>,
    errors: Arc<Mutex<Vec<String>>>,
    /// Programs that ended as they should.
    pub passed: u64,
}

/// Between two looks at a child.
const LOOK: Duration = Duration::from_millis(20);
/// So many budgets by the clock are a hang, whatever the machine does.
const MOST_BUDGETS: u32 = 30;
/// Before the first look at a program.
const GRACE: Duration = Duration::from_millis(100);

impl Child {
    /// Starts a child.
    ///
    /// # Errors
    /// What the system says if it refuses.
    pub fn start(setup: Setup) -> std::io::Result<Self> {
        let sabotage = setup.sabotage.iter().flat_map(|name| ["--sabotage", name]);
        let mut process = Command::new(std::env::current_exe()?)
            .arg("--child")
            .args(sabotage)
            .args(["--kinds", &setup.kinds.to_string(), "--cpus", &setup.cpus.to_string()])
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let orders = process.stdin.take().expect("it was piped");
        let stdout = process.stdout.take().expect("it was piped");
        let stderr = process.stderr.take().expect("it was piped");
        let (send, said) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if let Some(said) = parse(&line) {
                    if send.send(said).is_err() {
                        break;
                    }
                }
            }
        });
        let errors = Arc::new(Mutex::new(Vec::new()));
        let tail = errors.clone();
        thread::spawn(move || keep_tail(stderr, &tail));
        Ok(Self { setup, process, orders, said, errors, passed: 0 })
    }

    /// Runs in the child the programs of `count` seeds, from `from` on, until one fails. Returns that
    /// failure, or `None` if all programs passed. A child that has failed is to be dropped.
    pub fn seeds(&mut self, from: u64, count: u64) -> Option<Failure> {
        self.order(&format!("seeds {from} {count}"), from)
    }

    /// Runs a program in the child as often as `times` says, until it fails; see [`seeds`](Self::seeds).
    pub fn program(&mut self, genome: &str, times: u32) -> Option<Failure> {
        self.order(&format!("program {times} {genome}"), 0)
    }

    /// `first` is the program that the child begins with.
    fn order(&mut self, order: &str, first: u64) -> Option<Failure> {
        // A child that is gone is noticed below.
        _ = writeln!(self.orders, "{order}");
        let (mut name, mut phase) = (first, "start".to_owned());
        let mut watch = Watch::new(self.process.id());
        loop {
            match self.said.recv_timeout(watch.wait()) {
                Ok(Said::Begin(begun)) => {
                    (name, phase) = (begun, "begin".to_owned());
                    watch = Watch::new(self.process.id());
                }
                Ok(Said::Phase(next)) => phase = next,
                Ok(Said::End) => self.passed += 1,
                Ok(Said::Idle) => return None,
                Ok(Said::Fault(name, text)) => {
                    let text = text.split(" | ").map(str::to_owned).collect();
                    return Some(Failure { name, class: Class::Fault, text });
                }
                Ok(Said::Dump(_) | Said::Dumped) => {}
                Err(RecvTimeoutError::Timeout) => {
                    if watch.look() >= self.setup.budget
                        || watch.began.elapsed() > MOST_BUDGETS * self.setup.budget
                    {
                        let text = self.describe(&phase, &watch);
                        return Some(Failure { name, class: Class::Hang, text });
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status = self.process.wait();
                    let mut text = vec![format!("the process ended in phase \"{phase}\": {status:?}")];
                    // What it wrote last may still be on its way.
                    thread::sleep(Duration::from_millis(50));
                    text.extend(lock(&self.errors).iter().cloned());
                    return Some(Failure { name, class: Class::Crash, text });
                }
            }
        }
    }

    /// All that is known of a child that hangs.
    fn describe(&mut self, phase: &str, watch: &Watch) -> Vec<String> {
        let Watch { credit, began, .. } = watch;
        let mut text = vec![format!(
            "no end in phase \"{phase}\": {credit:.1?} in which it could have run, of {:.1?}",
            began.elapsed()
        )];
        text.extend(process::describe_threads(self.process.id()));
        _ = writeln!(self.orders, "dump");
        while let Ok(said) = self.said.recv_timeout(Duration::from_secs(2)) {
            match said {
                Said::Dump(line) => text.push(line),
                Said::Dumped => break,
                _ => {}
            }
        }
        text.extend(stacks(self.process.id()));
        text
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

/// The stacks of a process, if a debugger is there and `TORTURE_GDB` is set.
fn stacks(process: u32) -> Vec<String> {
    if std::env::var_os("TORTURE_GDB").is_none() {
        return Vec::new();
    }
    let output = Command::new("gdb")
        .args(["-p", &process.to_string(), "-batch", "-ex", "thread apply all backtrace 60"])
        .stdin(Stdio::null())
        .output();
    let Ok(output) = output else { return Vec::new() };
    [output.stdout, output.stderr]
        .iter()
        .flat_map(|out| String::from_utf8_lossy(out).lines().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

/// What a program has had of its budget.
#[derive(Debug)]
struct Watch {
    process: u32,
    began: Instant,
    looked: Instant,
    usage: Option<Usage>,
    credit: Duration,
}

impl Watch {
    fn new(process: u32) -> Self {
        let now = Instant::now();
        Self { process, began: now, looked: now, usage: None, credit: Duration::ZERO }
    }

    fn wait(&self) -> Duration {
        if self.usage.is_none() { GRACE } else { LOOK }
    }

    /// Looks, and returns the time that counts.
    fn look(&mut self) -> Duration {
        let now = process::usage(self.process);
        let elapsed = self.looked.elapsed().min(2 * LOOK);
        if let Some(before) = self.usage {
            self.credit += credit(before, now, elapsed);
        }
        (self.usage, self.looked) = (Some(now), Instant::now());
        self.credit
    }
}

/// How much of `elapsed` a process could have run.
fn credit(before: Usage, now: Usage, elapsed: Duration) -> Duration {
    // Threads that have ended take their numbers with them.
    let ran = Duration::from_nanos(now.ran.saturating_sub(before.ran));
    let waited = Duration::from_nanos(now.waited.saturating_sub(before.waited));
    let idle = if now.is_runnable { Duration::ZERO } else { elapsed.saturating_sub(waited) };
    ran.min(elapsed).max(idle)
}

fn parse(line: &str) -> Option<Said> {
    let line = line.strip_prefix('@')?;
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    Some(match word {
        "begin" => Said::Begin(rest.parse().ok()?),
        "phase" => Said::Phase(rest.to_owned()),
        "end" => Said::End,
        "fault" => {
            let (name, text) = rest.split_once(' ')?;
            Said::Fault(name.parse().ok()?, text.to_owned())
        }
        "dump" => Said::Dump(rest.to_owned()),
        "dumped" => Said::Dumped,
        "idle" => Said::Idle,
        _ => return None,
    })
}

/// Keeps the last lines that a child writes.
fn keep_tail(pipe: impl Read, tail: &Mutex<Vec<String>>) {
    for line in BufReader::new(pipe).lines().map_while(Result::ok) {
        let mut tail = lock(tail);
        tail.push(line);
        if tail.len() > 40 {
            tail.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOKED: Duration = Duration::from_millis(20);

    fn after(ran: u64, waited: u64) -> Duration {
        let start = Usage { ran: 50, waited: 70, is_runnable: false };
        let now = Usage { ran: 50 + ran * 1_000_000, waited: 70 + waited * 1_000_000, is_runnable: false };
        credit(start, now, LOOKED)
    }

    #[test]
    fn a_process_with_a_thread_that_still_waits_for_a_cpu_could_not_have_run() {
        let start = Usage::default();
        let waits = Usage { is_runnable: true, ..start };
        assert_eq!(credit(start, waits, LOOKED), Duration::ZERO);
        assert_eq!(credit(start, Usage { ran: 20_000_000, ..waits }, LOOKED), LOOKED);
    }

    #[test]
    fn a_process_that_sleeps_could_have_run() {
        assert_eq!(after(0, 0), LOOKED);
    }

    #[test]
    fn a_process_that_spins_has_run_also_if_its_threads_wait_for_each_other() {
        assert_eq!(after(20, 60), LOOKED);
        assert_eq!(after(80, 0), LOOKED);
    }

    #[test]
    fn a_process_that_others_keep_off_the_cpus_could_not_have_run() {
        assert_eq!(after(0, 20), Duration::ZERO);
        assert_eq!(after(5, 20), LOOKED / 4);
        // More threads than one.
        assert_eq!(after(0, 200), Duration::ZERO);
    }

    #[test]
    fn lines_of_the_protocol_are_read_and_others_are_not() {
        assert!(matches!(parse("@begin 7"), Some(Said::Begin(7))));
        assert!(matches!(parse("@fault 7 a | b"), Some(Said::Fault(7, text)) if text == "a | b"));
        assert!(matches!(parse("@idle"), Some(Said::Idle)));
        assert!(parse("begin 7").is_none() && parse("@begin x").is_none());
    }
}
