//! The process that runs programs, one after the other, and reports its progress to the supervisor over its
//! standard output.
//!
//! Each line of the protocol begins with `@`. The supervisor may ask on the standard input, at any time, for
//! the state of the program (`dump`). A separate thread answers, and waits for nothing that a program may
//! hold.

use std::io::{BufRead, Write};
use std::panic;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, Weak};

use proptest::strategy::BoxedStrategy;
use runtime::Handle;

use crate::check::{allocator, process};
use crate::cli::Sabotage;
use crate::elaborate::{GLOBAL_THREADS, elaborate};
use crate::genome::{Genome, genomes, tree};
use crate::kinds::Kinds;
use crate::run::whole::{self, AtRest};
use crate::run::{Boom, World, lock};
use crate::show::show;

/// What all programs have in common.
#[derive(Debug, Clone, Copy)]
struct Setup {
    kinds: Kinds,
    sabotage: Option<Sabotage>,
}

/// What the supervisor wants.
enum Order {
    /// Programs of so many seeds, from the first on.
    Seeds(u64, u64),
    /// A program, so many times.
    Program(Box<Genome>, u32),
}

/// The program that runs, and its runtime, for the thread that answers.
static WORLD: Mutex<Option<Weak<World>>> = Mutex::new(None);
static HANDLE: Mutex<Option<Handle>> = Mutex::new(None);
/// Panics that belong to no program.
static STRAYS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Notes something that has no program to be told to.
pub fn stray(text: impl Into<String>) {
    let mut strays = lock(&STRAYS);
    if strays.len() < 10 {
        strays.push(text.into());
    }
}

/// The runtime that reports its metrics when the supervisor asks.
pub fn watch(handle: &Handle) {
    *lock(&HANDLE) = Some(handle.clone());
}

/// No runtime reports its metrics any more.
pub fn unwatch() {
    lock(&HANDLE).take();
}

/// Runs what the supervisor asks for, until it closes the pipe.
pub fn main(kinds: Kinds, cpus: usize, sabotage: Option<Sabotage>) {
    process::pin(cpus);
    // SAFETY: no other thread is there yet.
    unsafe { std::env::set_var("RAYON_NUM_THREADS", GLOBAL_THREADS.to_string()) };
    panic::set_hook(Box::new(|info| {
        if info.payload().is::<Boom>() {
            return;
        }
        let thread = std::thread::current();
        let text = format!("thread {:?}: {info}", thread.name().unwrap_or("?"));
        // What a timer says when it is polled behind the end of its runtime; the operation knows whether it
        // may.
        if !text.contains("was shut down") {
            stray(text);
        }
    }));
    let (send, receive) = channel();
    let listener = std::thread::Builder::new().name("listener".into()).spawn(move || listen(&send));
    if listener.is_ok() {
        obey(&receive, Setup { kinds, sabotage });
    }
}

fn listen(orders: &Sender<Order>) {
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let mut words = line.splitn(3, ' ');
        let order = match (words.next(), words.next(), words.next()) {
            (Some("dump"), ..) => {
                dump();
                continue;
            }
            (Some("seeds"), Some(from), Some(count)) => {
                from.parse().ok().zip(count.parse().ok()).map(|(from, count)| Order::Seeds(from, count))
            }
            (Some("program"), Some(times), Some(genome)) => Genome::parse(genome)
                .zip(times.parse().ok())
                .map(|(genome, times)| Order::Program(Box::new(genome), times)),
            _ => None,
        };
        match order {
            Some(order) => _ = orders.send(order),
            None => tell(&format!("@error {line}")),
        }
    }
}

fn obey(orders: &Receiver<Order>, setup: Setup) {
    let strategy = genomes();
    // The process-wide pool stays for good: it is there before anything is counted.
    runtime::parallel::join(|| (), || ());
    // This thread, the listener, and those.
    let threads = 2 + GLOBAL_THREADS;
    while process::threads() != threads {
        std::thread::yield_now();
    }
    let mut memory = Memory { bytes: 0, at_rest: AtRest { threads, descriptors: process::descriptors() } };
    while let Ok(order) = orders.recv() {
        match order {
            Order::Seeds(from, count) => {
                for seed in from..from + count {
                    one_seed(&strategy, seed, setup, &mut memory);
                }
            }
            Order::Program(genome, times) => {
                for time in 0..times {
                    judge(&genome, &time.to_string(), setup, &mut memory);
                }
            }
        }
        tell("@idle");
    }
}

fn one_seed(strategy: &BoxedStrategy<Genome>, seed: u64, setup: Setup, memory: &mut Memory) {
    let genome = tree(strategy, seed).current();
    judge(&genome, &seed.to_string(), setup, memory);
}

/// Runs a program once, and tells what was wrong.
fn judge(genome: &Genome, name: &str, setup: Setup, memory: &mut Memory) {
    tell(&format!("@begin {name}"));
    let at_rest = memory.at_rest;
    let (mut faults, kept) = run_once(genome, setup, memory.at_rest);
    if faults.is_empty() {
        faults = memory.check(&kept, || {
            // Each run has a budget of its own.
            tell(&format!("@begin {name}"));
            run_once(genome, setup, at_rest)
        });
    }
    match faults.is_empty() {
        true => tell(&format!("@end {name}")),
        false => tell(&format!("@fault {name} {}", faults.join(" | ").replace('\n', " / "))),
    }
}

/// What a program has left in memory.
struct Kept {
    blocks: isize,
    bytes: isize,
    uses_global: bool,
}

fn run_once(genome: &Genome, setup: Setup, at_rest: AtRest) -> (Vec<String>, Kept) {
    let before = allocator::memory();
    let w = Arc::new(World::new(elaborate(genome, setup.kinds), setup.sabotage));
    *lock(&WORLD) = Some(Arc::downgrade(&w));
    whole::run(&w, at_rest, &mut |phase| tell(&format!("@phase {phase}")));
    let mut faults = w.faults();
    faults.append(&mut lock(&STRAYS));
    *lock(&WORLD) = None;
    let uses_global = w.program.uses_global;
    drop(w);
    let after = allocator::memory();
    let kept = Kept { blocks: after.blocks - before.blocks, bytes: after.bytes - before.bytes, uses_global };
    (faults, kept)
}

/// Memory that programs leave behind. Two caches outlive a runtime, both documented (`runtime/src/memory`): a
/// thread keeps two batches of each size of task that it has spawned, and the process-wide pool up to 2 MiB
/// for jobs. So a program is guilty only if it leaves more each time that it runs, and in all more than the
/// first cache holds. All programs together are guilty if they leave more than the second cache holds.
#[derive(Debug)]
struct Memory {
    bytes: isize,
    at_rest: AtRest,
}

/// Blocks that a program may leave behind without a question.
const KEPT_BLOCKS: isize = 8;
/// A program is guilty if each of so many runs leaves something behind. Together they then leave at least so
/// many blocks, which is more than two batches.
const TRIES: isize = 160;
/// Bytes that all programs of a child may leave behind.
const KEPT_BYTES: isize = 5 << 20;

impl Memory {
    fn check(&mut self, kept: &Kept, mut again: impl FnMut() -> (Vec<String>, Kept)) -> Vec<String> {
        self.bytes += kept.bytes;
        if self.bytes > KEPT_BYTES {
            return vec![format!("all programs have left {} bytes behind", self.bytes)];
        }
        if kept.blocks <= KEPT_BLOCKS || kept.uses_global {
            return Vec::new();
        }
        let (mut blocks, mut bytes) = (0, 0);
        for _ in 0..TRIES {
            let (faults, kept) = again();
            if !faults.is_empty() || kept.blocks <= 0 {
                return faults;
            }
            blocks += kept.blocks;
            bytes += kept.bytes;
        }
        vec![format!("memory is left behind each time: {blocks} blocks, {bytes} bytes in {TRIES} runs")]
    }
}

fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    // A supervisor that is gone closes the input, too.
    _ = writeln!(out, "{line}");
    _ = out.flush();
}

/// Tells the program with the state of each operation, what was noted, and the metrics.
fn dump() {
    let w = lock(&WORLD).as_ref().and_then(Weak::upgrade);
    let mut lines = Vec::new();
    if let Some(w) = w {
        lines.extend(show(&w.program, &|id| w.state(id)).lines().map(str::to_owned));
        lines.extend(w.faults().into_iter().map(|fault| format!("noted: {fault}")));
        lines.push(format!("tokens that live: {}", w.tokens.live()));
    }
    let handle = lock(&HANDLE).clone();
    if let Some(handle) = handle {
        lines.extend(metrics(&handle));
    }
    lines.iter().for_each(|line| tell(&format!("@dump {line}")));
    tell("@dumped");
}

fn metrics(handle: &Handle) -> Vec<String> {
    let m = handle.metrics();
    let mut lines = vec![format!(
        "runtime: {} tasks alive, injector {}, blocking threads {} ({} idle), queued closures {}, \
         spare workers {} ({} idle, {} capped), stalls {}, rescued {}, driver turns {}, gave way {}",
        m.num_alive_tasks(),
        m.global_queue_depth(),
        m.num_blocking_threads(),
        m.num_idle_blocking_threads(),
        m.blocking_queue_depth(),
        m.num_spare_workers(),
        m.num_idle_spare_workers(),
        m.spare_capped_count(),
        m.stall_count(),
        m.rescued_task_count(),
        m.driver_turn_count(),
        m.computation_yield_count(),
    )];
    for worker in 0..m.num_workers() {
        lines.push(format!(
            "worker {worker}: queue {}, polls {}, parks {}, searches {}, notifies {}, woken for nothing {}",
            m.worker_local_queue_depth(worker),
            m.worker_poll_count(worker),
            m.worker_park_count(worker),
            m.worker_search_count(worker),
            m.worker_notify_count(worker),
            m.worker_noop_count(worker),
        ));
    }
    lines
}
