//! Bounds what the hot operations cost: `cargo run --release -p gates [OPERATION]`.
//!
//! Each operation runs on one worker under `valgrind --tool=callgrind`, twice: a number of times, and three
//! times as often. The difference of the two counts is divided by the difference in operations. So start,
//! stop and everything else that does not grow with the operations drops out. Two things happen by time, and
//! therefore more often on a slower machine: the turns of the driver between polls, which have a gate of
//! their own, and the looks of a computation. Neither is counted. So the counts hardly depend on the machine,
//! and not at all on its load.
//!
//! The program ends with status 1 in three cases: a count exceeds its bound; an operation that has been
//! warmed up allocates; or it makes one read-modify-write more than it should. The read-modify-writes of a
//! task are on its own state word and on the worker's own queues. One on a line that the whole runtime shares
//! would be one more.
//!
//! Where a bound is above the aim, the operation has not reached the aim. The bound is then today's cost and
//! some percent, because compilers differ a little. A change that makes the operation cheaper also lowers the
//! bound.
//!
//! With `OPERATION TIMES` the program runs one operation that many times, and as often before to warm up, for
//! `callgrind_annotate` and other tools.

mod loads;
mod memory;

use std::process::{Command, ExitCode, Stdio};

use loads::LOADS;

/// An operation whose cost has a bound.
struct Gate {
    name: &'static str,
    /// The load of [`LOADS`] that runs it.
    load: &'static str,
    /// The aim: how many instructions it should cost.
    aim: f64,
    /// How many instructions it may cost.
    bound: f64,
    /// How many atomic read-modify-writes it makes, rounded.
    updates: f64,
    /// A load whose instructions are subtracted, because they are not the operation's own.
    less: Option<&'static str>,
    /// Which part of the load is counted.
    part: Part,
}

/// A part of what a load does.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// All but what happens by time.
    NotByTime,
    /// The functions of this name.
    Inside(&'static str),
}

/// The function that a worker calls when a stride of polls ends.
const TURN: &str = "*rounds_are_over*";
/// The function that a computation calls when a poll interval ends. It makes no turn.
const LOOK: &str = "*OwnJobs>::look";

/// How often an operation is measured at most, if it costs too much.
const TRIES: usize = 5;

const GATES: [Gate; 10] = [
    gate("spawn and run, next", "spawn_chain", 170.0, 231.0, 3.0),
    gate("spawn and run, queued", "spawn_batch", 170.0, 251.0, 4.0),
    gate("spawn and await", "spawn_await", 350.0, 502.0, 7.0),
    gate("yield", "yield", 100.0, 150.0, 1.0),
    gate("self-wake and poll", "self_wake", 120.0, 151.0, 1.0),
    gate("timer insert and cancel, less the clock", "timer", 130.0, 279.0, 2.0).less("clock"),
    gate("event dispatch and wake", "event", 160.0, 163.0, 3.0).inside("*dispatch_events*"),
    gate("turn of the driver", "turns", 300.0, 570.0, 8.0).inside(TURN),
    gate("join, less plain calls", "join", 35.0, 31.0, 0.0).less("calls"),
    gate("scope spawn and run", "scope_spawn", 110.0, 116.0, 2.0),
];

const fn gate(name: &'static str, load: &'static str, aim: f64, bound: f64, updates: f64) -> Gate {
    Gate { name, load, aim, bound, updates, less: None, part: Part::NotByTime }
}

impl Gate {
    const fn less(mut self, load: &'static str) -> Self {
        self.less = Some(load);
        self
    }

    const fn inside(mut self, function: &'static str) -> Self {
        self.part = Part::Inside(function);
        self
    }

    fn measure(&self) -> Cost {
        let mut cost = measure(self.load, self.part);
        if let Some(less) = self.less {
            let less = measure(less, Part::NotByTime);
            cost.instructions -= less.instructions;
            cost.updates -= less.updates;
        }
        cost
    }

    fn allows(&self, cost: &Cost) -> bool {
        cost.instructions <= self.bound && cost.updates < self.updates + 0.5 && cost.allocations == 0
    }
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => check(None),
        [wanted] => check(Some(wanted)),
        [load, times] => {
            loads::run(load, times.parse().expect("the times are a number"));
            ExitCode::SUCCESS
        }
        _ => panic!("nothing, OPERATION, or OPERATION TIMES expected, got {arguments:?}"),
    }
}

/// Measures every gate, or the `wanted` one, and prints a table.
fn check(wanted: Option<&str>) -> ExitCode {
    let mut gates = GATES.iter().filter(|gate| wanted.is_none_or(|wanted| wanted == gate.load)).peekable();
    assert!(gates.peek().is_some(), "no operation {wanted:?}, only {:?}", GATES.map(|gate| gate.load));
    println!(
        "| instructions of | aim | bound | measured | read-modify-writes | allocations |\n\
         |---|---|---|---|---|---|"
    );
    let mut failures = 0;
    for gate in gates {
        let mut cost = gate.measure();
        // If a thread got no CPU for long, the runtime may have started another one. That is rare, and not
        // part of the cost.
        for _ in 1..TRIES {
            if !gate.allows(&cost) {
                cost = cost.min(gate.measure());
            }
        }
        let Cost { instructions, updates, allocations } = cost;
        let is_allowed = gate.allows(&cost);
        failures += usize::from(!is_allowed);
        let mark = if is_allowed { "" } else { " **fails**" };
        let Gate { name, aim, bound, .. } = gate;
        println!("| {name} | {aim} | {bound} | {instructions:.1}{mark} | {updates:.1} | {allocations} |");
    }
    if failures > 0 {
        eprintln!("{failures} operations cost more than they may");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

impl Part {
    /// Valgrind's options.
    fn options(self) -> Vec<String> {
        let (functions, is_on_at_first) = match self {
            Part::NotByTime => (vec![TURN, LOOK], "yes"),
            Part::Inside(function) => (vec![function], "no"),
        };
        let mut options: Vec<_> =
            functions.into_iter().map(|function| format!("--toggle-collect={function}")).collect();
        // After the others, which switch it off.
        options.push(format!("--collect-atstart={is_on_at_first}"));
        options
    }
}

struct Cost {
    /// Instructions of one operation.
    instructions: f64,
    /// Atomic read-modify-writes of one operation.
    updates: f64,
    /// Allocations of all operations after the warm-up, on the worker's thread. The smaller number of the two
    /// runs, because the runtime allocates now and then if a thread gets no CPU.
    allocations: usize,
}

impl Cost {
    fn min(self, other: Cost) -> Cost {
        Cost {
            instructions: self.instructions.min(other.instructions),
            updates: self.updates.min(other.updates),
            allocations: self.allocations.min(other.allocations),
        }
    }
}

fn measure(load: &str, part: Part) -> Cost {
    let few = LOADS.iter().find(|(name, ..)| *name == load).expect("a gate's load is one of the loads").1;
    // Each run makes as many again to warm up.
    let more_operations = (4 * few) as f64;
    let [less, more] = [few, 3 * few].map(|times| count(load, times, part));
    assert!(more.instructions > less.instructions, "{load} has no instructions {part:?}");
    Cost {
        instructions: (more.instructions - less.instructions) / more_operations,
        updates: (more.updates - less.updates) / more_operations,
        allocations: more.allocations.min(less.allocations),
    }
}

/// What this program costs as a whole when it runs one load, and the allocations that it prints.
fn count(load: &str, times: usize, part: Part) -> Cost {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-bus=yes", "--callgrind-out-file=/dev/null"])
        .args(part.options())
        .arg(std::env::current_exe().expect("a program knows where it is"))
        .args([load, &times.to_string()])
        .stdin(Stdio::null())
        .output()
        .expect("valgrind is needed: apt-get install valgrind");
    let (text, told) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{load} failed: {text}");
    // The line is "Collected : ", the instructions, and the bus events if there were any.
    let collected = text.lines().find_map(|line| line.split_once("Collected :"));
    let (_, collected) = collected.unwrap_or_else(|| panic!("no counts in {text}"));
    let mut counts = collected.split_whitespace().map(|count| count.parse().expect("counts are numbers"));
    let instructions = counts.next().unwrap_or_else(|| panic!("no count in {text}"));
    let updates = counts.next().unwrap_or(0.0);
    let allocations = told.trim().parse();
    let allocations = allocations.unwrap_or_else(|_| panic!("{load} tells no allocations, but {told:?}"));
    Cost { instructions, updates, allocations }
}
