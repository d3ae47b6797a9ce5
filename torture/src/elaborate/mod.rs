//! From a genome to a program: what each gene stands for where it is, by the [rules](crate::rules).
//!
//! What a gene asks for and the rules do not allow becomes the sequence of its children. That is decided top
//! down, by the [surroundings](Ctx), and once more when the whole tree is known, by [what waits for
//! what](crate::rules): the last operation of a circle *gives way*, and the program is made again.
//!
//! `tables` says which operation a number chooses, `surroundings` what a thread may do and holds where it is;
//! `steps` and `calls` make what is awaited and what is called.

mod barriers;
mod calls;
mod drops;
mod levels;
mod steps;
mod surroundings;
mod tables;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::expect;
use crate::genome::{Gene, Genome};
use crate::kinds::{Kind, Kinds};
use crate::program::*;
use crate::rules::{Of, Set, Wait as Waiting, Waits};
use surroundings::{Ctx, Driver, Place};

/// Threads of the process-wide pool; the child process says so in `RAYON_NUM_THREADS`.
pub const GLOBAL_THREADS: usize = 2;
/// Most copies of one operation at once.
const MOST_TIMES: u32 = 24;
/// Most operations of a program.
const MOST_OPERATIONS: usize = 150;
/// Most runtimes and pools inside of a program.
const MOST_NESTED: usize = 4;

/// Makes the program of a genome.
pub fn elaborate(genome: &Genome, kinds: Kinds) -> Program {
    let mut gave_way = BTreeSet::new();
    loop {
        let (mut program, mut waits) = Maker::new(genome, kinds, &gave_way).program(genome);
        match waits.offender(&counted(&program), kinds.has(Kind::Spares)) {
            Some(gene) => assert!(gave_way.insert(gene), "an operation that gave way does not wait"),
            None => {
                if program.hook == Some(Hook::Forks) && !may_fork_in_hook(&program, &mut waits, kinds) {
                    program.hook = None;
                }
                expect::fill(&mut program);
                return program;
            }
        }
    }
}

/// Whether a hook of the program's runtime may wait for another worker while the runtime ends.
fn may_fork_in_hook(program: &Program, waits: &mut Waits, kinds: Kinds) -> bool {
    let all = [Of::Poll, Of::Root, Of::Help, Of::All];
    let holds = all.into_iter().fold(Set::NONE, |set, of| set | Set::of(RUNTIME, of));
    // The documents do not say that a spare worker comes for it, so it counts as busy.
    let needs = Set::of(RUNTIME, Of::Help);
    waits.push(Waiting { gene: usize::MAX, holds, needs, times: 1, is_busy: true });
    waits.offender(&counted(program), kinds.has(Kind::Spares)).is_none()
}

/// The pools, with the threads that the program may count on: no spare workers if they may be refused.
fn counted(program: &Program) -> Vec<Pool> {
    let mut pools = program.pools.clone();
    if let (Pool::Workers { spares, .. }, true) = (&mut pools[RUNTIME], program.may_refuse()) {
        *spares = 0;
    }
    pools
}

/// A gene and its number.
#[derive(Debug, Clone, Copy)]
struct At<'a> {
    gene: &'a Gene,
    number: usize,
}

impl<'a> At<'a> {
    fn kids(self) -> Vec<At<'a>> {
        let mut number = self.number + 1;
        let numbered = |gene: &'a Gene| {
            let at = At { gene, number };
            number += size(gene);
            at
        };
        self.gene.kids.iter().map(numbered).collect()
    }

    fn a(self) -> u8 {
        self.gene.numbers[0]
    }

    fn b(self) -> u8 {
        self.gene.numbers[1]
    }

    fn c(self) -> u8 {
        self.gene.numbers[2]
    }
}

fn size(gene: &Gene) -> usize {
    1 + gene.kids.iter().map(size).sum::<usize>()
}

/// A time of up to 5 ms, mostly short.
fn micros(n: u8) -> Micros {
    match n {
        0 => 0,
        1..128 => u64::from(n) * 2,
        _ => u64::from(n - 127) * 40,
    }
}

struct Maker<'a> {
    kinds: Kinds,
    gave_way: &'a BTreeSet<usize>,
    pools: Vec<Pool>,
    /// By `current_thread` runtime, the thread that is in its first `block_on`.
    drivers: BTreeMap<PoolId, Driver>,
    facts: Vec<Fact>,
    computations: usize,
    waits: Waits,
    regions: usize,
    nested: usize,
    /// The runtime is ended in the middle.
    ends_early: bool,
    /// By the main thread, after some time.
    ends_by_time: bool,
    /// What threads that block without a word both hold and need; see `blocks_silently`.
    silent: Set,
    /// The workers that destructors may keep, where few spare workers come.
    kept_by_drops: Set,
    has_handler: bool,
    uses_global: Cell<bool>,
    waits_for: Drivers,
    names: Option<Names>,
    has_pauses: bool,
    pauses: usize,
}

/// The program's runtime.
const RUNTIME: PoolId = 0;

impl<'a> Maker<'a> {
    fn new(genome: &Genome, kinds: Kinds, gave_way: &'a BTreeSet<usize>) -> Self {
        let s = &genome.settings;
        let drivers = match s[14] % 16 {
            1 | 2 if kinds.has(Kind::Bare) => Drivers::Idle,
            3 if kinds.has(Kind::Bare) => Drivers::None,
            _ => Drivers::Used,
        };
        let kinds = match drivers {
            Drivers::Used => kinds,
            Drivers::Idle | Drivers::None => kinds.without(Kind::Timers).without(Kind::Tcp),
        };
        let is_single = kinds.has(Kind::Single) && s[0] >= 235;
        let late = 500 + micros(s[16] / 16 * 16);
        let names = match s[16] % 16 {
            _ if !kinds.has(Kind::Names) => None,
            1 => Some(Names { late, refuses: 0 }),
            2 => Some(Names { late: 0, refuses: 1 }),
            3 => Some(Names { late, refuses: 1 }),
            4 => Some(Names { late, refuses: 2 }),
            _ => None,
        };
        // A closure whose thread is refused may never run. If all threads are refused, none is left to cancel
        // a task in the place of one that blocks.
        let kinds = match names {
            Some(Names { refuses: 1, .. }) => kinds.without(Kind::Blocking).without(Kind::Drops),
            Some(Names { refuses: 2.., .. }) => kinds.without(Kind::Blocking),
            _ => kinds,
        };
        let runtime = match is_single {
            true => Pool::Single,
            false => Pool::Workers {
                workers: 1 + usize::from(s[0] % 4),
                spares: match s[1] % 8 {
                    0 if kinds.has(Kind::Relief) => 0,
                    1 if kinds.has(Kind::Relief) => 1,
                    2 if kinds.has(Kind::Relief) => 3,
                    _ => 512,
                },
                blocking: if s[2] % 4 == 3 { 1 + usize::from(s[2] / 4 % 3) } else { 512 },
            },
        };
        let mut pools = vec![runtime, Pool::Global(GLOBAL_THREADS)];
        if kinds.has(Kind::Installs) {
            (0..s[3] % 3).for_each(|i| pools.push(Pool::Threads(1 + usize::from(s[4 + usize::from(i)] % 3))));
        }
        let ends_early = kinds.has(Kind::Shutdown) && s[6] >= 170 && !is_single;
        Self {
            kinds,
            gave_way,
            pools,
            drivers: BTreeMap::new(),
            facts: Vec::new(),
            computations: 0,
            waits: Waits::default(),
            regions: 0,
            nested: 0,
            ends_early,
            ends_by_time: ends_early && s[6] % 4 != 0,
            silent: Set::NONE,
            kept_by_drops: Set::NONE,
            uses_global: Cell::new(false),
            has_handler: kinds.has(Kind::Deadlocks) && s[9] % 4 == 1 && !is_single,
            waits_for: drivers,
            names,
            // Each pause costs as much time as some twenty other programs.
            has_pauses: s[15] % 4 == 0 || drivers != Drivers::Used || kinds.is_dense(),
            pauses: 0,
        }
    }

    fn program(mut self, genome: &Genome) -> (Program, Waits) {
        let s = &genome.settings;
        let is_single = self.pools[RUNTIME] == Pool::Single;
        let in_block_on = is_single || s[8] % 2 == 1;
        let thread_pools = (2..self.pools.len()).collect::<Vec<_>>();
        let outside = Ctx {
            place: Place::Outside,
            in_poll: false,
            is_inside: false,
            current: None,
            poller: Set::NONE,
            driver: Set::NONE,
            drives: Set::NONE,
            driven_by: None,
            runtimes: if is_single { vec![] } else { vec![RUNTIME] },
            threads: thread_pools.clone(),
            certain: !self.ends_early,
            times: 1,
            unwinding: false,
            computation: 0,
            cancellable: false,
            borrowed: false,
            pure: false,
            stealable: false,
            alone: true,
            region: None,
            outer: Vec::new(),
            home_waits: false,
            no_close: false,
            guest: false,
            maybe_in_place: false,
            quiet: false,
        };
        let root_at = At { gene: &genome.root, number: 0 };
        let root_ctx = match in_block_on {
            true => self.in_block_on(&outside, RUNTIME),
            false => Ctx { quiet: true, ..self.task(&outside, RUNTIME) },
        };
        let (root, _) = self.step(root_at, &root_ctx);
        let mut number = size(&genome.root);
        let mut threads = Vec::new();
        for gene in &genome.outside {
            let at = At { gene, number };
            number += size(gene);
            if self.on(Kind::Threads) && self.facts.len() < MOST_OPERATIONS {
                threads.push(Arc::new(self.call(at, &outside).0));
            }
        }
        let kinds = self.kinds;
        let program = Program {
            pools: self.pools,
            thread_pools,
            in_block_on,
            root: Arc::new(root),
            outside: threads,
            when: match self.ends_by_time {
                true => When::After(micros(s[7])),
                false => When::Last,
            },
            close: close(s[10]),
            checks_surroundings: kinds.has(Kind::Surroundings),
            uses_global: self.uses_global.get(),
            is_awaited: !kinds.has(Kind::Shutdown),
            has_handler: self.has_handler,
            hook: match s[11] % 16 {
                _ if !kinds.has(Kind::Hooks) => None,
                1 => Some(Hook::Spins),
                2 => Some(Hook::Spawns),
                3 if kinds.has(Kind::Panics) => Some(Hook::Panics),
                4 => Some(Hook::Wakes),
                5 => Some(Hook::Naps),
                6 if kinds.has(Kind::Scopes) && kinds.has(Kind::InPlace) => Some(Hook::Forks),
                7 => Some(Hook::Waits),
                _ => None,
            },
            names: self.names,
            is_pinned: s[12] % 8 == 1,
            interval: if s[13] % 4 == 1 { 1 } else { 61 },
            drivers: self.waits_for,
            // Ends within a pause, or just when the program goes on.
            keep_alive: (self.pauses > 0).then_some(if s[15] / 4 % 4 == 1 { PAUSE } else { PAUSE / 4 }),
            facts: unwinding_together(self.facts),
        };
        (program, self.waits)
    }
}

/// R8: if a thread may unwind while it waits, it may run every child job of the same computation.
fn unwinding_together(mut facts: Vec<Fact>) -> Vec<Fact> {
    let unwinding: BTreeSet<_> =
        facts.iter().filter(|fact| fact.unwinding).map(|fact| fact.computation).collect();
    let is_with_one = |fact: &Fact| fact.is_child && unwinding.contains(&fact.computation);
    facts.iter_mut().for_each(|fact| fact.unwinding |= is_with_one(fact));
    facts
}

fn close(n: u8) -> Close {
    match n % 4 {
        1 => Close::Timeout(micros(n)),
        2 => Close::Background,
        _ => Close::Drop,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::genome::{genomes, tree};
    use crate::show::show;

    fn programs(kinds: Kinds, seeds: u64) -> impl Iterator<Item = Program> {
        let strategy = genomes();
        (0..seeds).map(move |seed| elaborate(&tree(&strategy, seed).current(), kinds))
    }

    fn text(program: &Program) -> String {
        show(program, &|_| String::new())
    }

    #[test]
    fn every_genome_makes_a_program_in_which_nobody_waits_in_a_circle() {
        // `elaborate` goes on until there is no circle; here it must come to an end.
        let sizes: Vec<_> = programs(Kinds::ALL, 500).map(|program| program.facts.len()).collect();
        assert!(sizes.iter().all(|&size| size < 2 * MOST_OPERATIONS), "{sizes:?}");
        assert!(sizes.iter().sum::<usize>() > 10 * sizes.len(), "{sizes:?}");
    }

    #[test]
    fn each_operation_is_made() {
        let all: String = programs(Kinds::ALL, 3000).map(|program| text(&program)).collect();
        let operations = [
            "yield_now, ",
            "sleep(",
            "spin ",
            "std::thread::sleep",
            "panic",
            ": spawn, ",
            ": handle.spawn, ",
            "await all",
            "spawn_blocking, Await",
            "spawn_blocking, Abort",
            "compute, Await",
            "compute, Drop",
            "compute(loop join)",
            "block_in_place",
            "in the poll",
            "join!",
            "select!",
            "timeout(",
            "waits: Notify",
            "waits: Closure",
            "waits: Computation",
            "mpsc None",
            "mpsc Some",
            "holding mutex",
            "holding semaphore",
            "TCP echo",
            "woken by a thread",
            "waker that Blocks",
            "waker that Panics",
            "waker that Joins",
            "waker that Spawns",
            "waker that Locks",
            "twin: Same",
            "twin: Task",
            "twin: Thread",
            "whose waker Blocks",
            "whose waker Locks",
            "whose waker Spawns",
            "whose waker Panics",
            "local block_on: Set on runtime",
            "local block_on: Own on pool",
            ", task, sleeps",
            "; Set on",
            "; Own on",
            "; Again on runtime",
            "block_on on threads: 1 polls that wait for this, 0 others",
            "block_on on threads: 3 polls that wait for this, 2 others",
            "enter runtime, in_place_scope, drop the guards",
            "in_place_scope, drop the guards in isolated",
            ", the oldest first",
            "a value with a destructor",
            "compute(loop join), whose destructor joins",
            "destructor of 0: Joins",
            "KEY.scope",
            "KEY.sync_scope",
            "KEY.with",
            "end the runtime: Drop",
            "spawn there, awaited",
            "block_on there",
            "loop yield_now",
            "deadlock handler",
            "destructor of 0: Plain",
            "destructor of 1: Locks",
            "destructor of 1: Holds",
            "destructor of 1: Waits { other: 0 }",
            "destructor of 0: Waits { other: 1 }",
            "destructor of 4: Waits { other: 5 }",
            "destructor of 0: Drives { other: 1 }",
            "destructor of 2: Drives { other: 1 }",
            "waits for destructor 0: InPlace",
            "waits for destructor 1: Join",
            "waits for destructor 1: Early",
            "InPlace, and holds the lock",
            "Early, and holds the lock",
            "waits for destructor 0: Install(",
            "destructor of queued closure 0: Locks",
            "destructor of queued closure 0: Waits",
            "destructor of queued closure 1: Waits",
            "closures that wait for destructor",
            ": AfterClosure { closure: 0 }",
            ": AfterClosure { closure: 1 }",
            ": AfterSleepers",
            "a holder of the lock",
            "blocks until the shutdown has begun, then takes the lock",
            "catch_unwind",
            "pool2.join",
            "scope_fifo",
            "in_place_scope",
            "isolated",
            ".install",
            "broadcast on",
            "2 broadcasts with a barrier, Threads",
            "3 broadcasts with a barrier, Threads, marked",
            "2 broadcasts with a barrier, Scope",
            "3 broadcasts with a barrier, Scope, marked",
            "wait: Marked",
            "wait: Channel",
            "wait: Unmarked",
            "Broadcast, ",
            ".block_on",
            "parallel::blocking",
            "join(blocking_recv",
            "join(block_in_place(recv)",
            ".install(recv)",
            "parallel::yield_now",
            "yield_local",
            "detached",
            "std::thread::spawn, join",
            "install, drop it",
            "holding lock",
            "a timer's waker takes it",
            "is ok",
            "current_thread",
            "spare_workers(0)",
            "max_blocking_threads",
            "a thread outside",
            "runtime.block_on:",
            "runtime.spawn:",
            "Timeout(",
            "Background",
            "hooks: Spawns",
            "hooks: Wakes",
            "hooks: Naps",
            "hooks: Forks",
            "hooks: Waits",
            "refuses: 0",
            "refuses: 1",
            "refuses: 2",
            "pin_workers",
            "deadlock_handler",
            "intervals 1",
            "neither timers nor sockets",
            "no drivers",
            "a thread pauses, then Wakes",
            "a thread pauses, then Spawns",
            "a thread pauses, then Computes",
            "a thread pauses, then Sends",
            "the thread pauses",
            "thread_keep_alive(50000",
            "thread_keep_alive(200000",
        ];
        let missing: Vec<_> = operations.iter().filter(|&&operation| !all.contains(operation)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn what_is_switched_off_is_not_made() {
        let kinds: Kinds = "timers".parse().unwrap();
        for program in programs(kinds, 200) {
            let text = text(&program);
            for operation in
                ["compute", "install", "block_on there", "isolated", "panic", "scope", "spawn_blocking"]
            {
                assert!(!text.contains(operation), "{operation} is in {text}");
            }
        }
    }

    #[test]
    fn a_program_without_drivers_has_neither_timers_nor_sockets() {
        let is_bare = |program: &Program| program.drivers != Drivers::Used;
        let bare: Vec<_> = programs(Kinds::ALL, 1000).filter(is_bare).collect();
        assert!(bare.len() > 100);
        for program in &bare {
            let text = text(program);
            for line in text.lines() {
                let is_used = ["] sleep(", "] timeout(", "TCP"].iter().any(|used| line.contains(used));
                // After no time it is a `yield_now`.
                let is_timed = [", Abort(", ", Drop("].iter().any(|end| line.contains(end));
                assert!(!is_used && (!is_timed || line.ends_with("(0)")), "{line} is in {text}");
            }
        }
    }

    #[test]
    fn a_program_pauses_twice_at_most() {
        let pauses = |program: Program| text(&program).matches("pauses").count();
        let counts: Vec<_> = programs(Kinds::ALL, 3000).map(pauses).collect();
        let paused = counts.iter().filter(|&&count| count > 0).count();
        assert!(counts.iter().all(|&count| count <= MOST_PAUSES), "{counts:?}");
        // So that they do not take most of the time.
        assert!((20..180).contains(&paused), "{paused}");
    }

    #[test]
    fn a_seed_makes_the_same_program_each_time() {
        for (one, other) in programs(Kinds::ALL, 100).zip(programs(Kinds::ALL, 100)) {
            assert_eq!(text(&one), text(&other));
            assert_eq!(one.facts, other.facts);
        }
    }
}
