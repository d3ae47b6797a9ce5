//! Guards what the hot operations cost: `cargo run --release -p gates [OPERATION]`.
//!
//! Each operation runs under `valgrind --tool=callgrind`, with one worker: once so often, once three times as
//! often. The difference, divided by the operations it has more, leaves out starting, stopping and all else
//! that does not grow. Two things come by time, and so more often the slower the machine is: the turns of the
//! driver between polls, which have a gate of their own, and the looks of a computation. They are not
//! counted. Then the counts hardly depend on the machine and not at all on what else it does. A count that
//! exceeds its bound ends the program with status 1. So does an allocation once an operation has been warmed
//! up, or one read-modify-write more than there should be: those of tasks are of the task's own state word
//! and of the worker's own queues, so one of a line that the whole runtime shares would be one more.
//!
//! Where the bound is above the aim, the operation is not there yet, and the bound is what it costs today and
//! some percent: a change that makes it cheaper lowers the bound. Compilers differ a little, which is what
//! the percents are for.
//!
//! With `OPERATION TIMES` the program runs it so often (and as often before, to warm up) and nothing else,
//! for `callgrind_annotate` and other tools.

mod loads;
mod memory;

use std::process::{Command, ExitCode, Stdio};

use loads::LOADS;

/// An operation that is guarded.
struct Gate {
    name: &'static str,
    /// Of [`LOADS`]: what runs it.
    load: &'static str,
    /// What it should cost.
    aim: f64,
    /// What it may cost.
    bound: f64,
    /// How many atomic read-modify-writes it takes, rounded.
    updates: f64,
    /// What is not the operation's and is subtracted: that load's instructions.
    less: Option<&'static str>,
    /// What is counted.
    part: Part,
}

/// A part of what a load does.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// All but what comes by time.
    NotByTime,
    /// What happens in functions of this name.
    Inside(&'static str),
}

/// The function that a worker calls when a stride of polls ends.
const TURN: &str = "*rounds_are_over*";
/// The function that a computation calls when a poll interval ends. It makes no turn.
const LOOK: &str = "*JobProcessor>::look";

/// How often an operation that costs too much is measured in all.
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
        "| instructions of | aim | bound | measured | read-modify-writes | allocations |\n|---|---|---|---|---|---|"
    );
    let mut failures = 0;
    for gate in gates {
        let mut cost = gate.measure();
        // A thread that got no processor for long may have had the runtime start another: rare, and not what
        // it costs.
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
        // Behind the others, which switch it off.
        options.push(format!("--collect-atstart={is_on_at_first}"));
        options
    }
}

struct Cost {
    /// Of one operation.
    instructions: f64,
    /// Of one operation: atomic read-modify-writes.
    updates: f64,
    /// Of all operations once they were warm, on the worker's thread. What the runtime allocates now and
    /// then, when a thread gets no processor, is not in both runs.
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
    // Each run has as many to warm up.
    let more_operations = (4 * few) as f64;
    let [less, more] = [few, 3 * few].map(|times| count(load, times, part));
    assert!(more.instructions > less.instructions, "{load} has no instructions {part:?}");
    Cost {
        instructions: (more.instructions - less.instructions) / more_operations,
        updates: (more.updates - less.updates) / more_operations,
        allocations: more.allocations.min(less.allocations),
    }
}

/// What this program costs as a whole when it runs one load, and the allocations that it tells of.
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
    // "Collected : " and the instructions, and then the bus events, if there were any.
    let collected = text.lines().find_map(|line| line.split_once("Collected :"));
    let (_, collected) = collected.unwrap_or_else(|| panic!("no counts in {text}"));
    let mut counts = collected.split_whitespace().map(|count| count.parse().expect("counts are numbers"));
    let instructions = counts.next().unwrap_or_else(|| panic!("no count in {text}"));
    let updates = counts.next().unwrap_or(0.0);
    let allocations = told.trim().parse();
    let allocations = allocations.unwrap_or_else(|_| panic!("{load} tells no allocations, but {told:?}"));
    Cost { instructions, updates, allocations }
}
