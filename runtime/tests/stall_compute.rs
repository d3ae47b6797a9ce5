//! Computations that take all workers: sockets and timers are served meanwhile, whether they pass split
//! points or not, and the computations go on.

mod stall_support;
mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use runtime::Runtime;
use runtime::parallel::{Compute, join};
use stall_support::{Client, Ticker, Trap, Way, assert_prompt, serve};
use support::{build, until, watchdog};

/// Computations on all workers, until they are told to end.
struct Load {
    ends: Arc<AtomicBool>,
    /// Parts that have been computed.
    parts: Arc<AtomicU64>,
    computations: Vec<Compute<()>>,
}

impl Load {
    fn start(runtime: &Runtime, workers: usize, part: fn()) -> Self {
        let (ends, parts) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let computations = (0..workers).map(|_| {
            let (ends, parts) = (ends.clone(), parts.clone());
            runtime.handle().compute(move || {
                while !ends.load(Relaxed) {
                    part();
                    parts.fetch_add(1, Relaxed);
                }
            })
        });
        let load = Self { computations: computations.collect(), ends, parts };
        load.goes_on(workers as u64);
        load
    }

    /// Waits for so many more parts.
    #[track_caller]
    fn goes_on(&self, parts: u64) {
        let enough = self.parts.load(Relaxed) + parts;
        until("the computations go on", || self.parts.load(Relaxed) >= enough);
    }

    fn end(self, runtime: &Runtime) {
        self.ends.store(true, Relaxed);
        for computation in self.computations {
            runtime.block_on(computation).unwrap();
        }
    }
}

/// Pings and ticks while all workers compute, and the computations go on meanwhile.
fn goes_on(workers: usize, part: fn()) {
    let runtime = build(workers);
    let address = serve(&runtime, &Trap::default(), Way::Spins);
    let mut client = Client::connect(address);
    let ticker = Ticker::start(&runtime);
    let load = Load::start(&runtime, workers, part);
    let pings = client.pings(20);
    load.goes_on(1);
    let ticks = ticker.ticks(20);
    load.goes_on(1);
    let mut newcomer = Client::connect(address);
    newcomer.ping();
    load.end(&runtime);
    assert_prompt("pings", pings);
    assert_prompt("ticks", ticks);
}

/// Some milliseconds of joins.
fn split() {
    fn split_in(depth: u32) {
        if depth > 0 {
            join(|| split_in(depth - 1), || split_in(depth - 1));
        }
    }
    split_in(12);
}

/// Some milliseconds without a split point.
fn spin() {
    (0..100_000_u32).for_each(|i| _ = std::hint::black_box(i));
}

#[test]
fn sockets_and_timers_go_on_while_all_workers_compute() {
    let _watchdog = watchdog();
    for workers in [1, 2] {
        goes_on(workers, split);
    }
}

#[test]
fn sockets_and_timers_go_on_while_all_workers_compute_without_split_points() {
    let _watchdog = watchdog();
    for workers in [1, 2] {
        goes_on(workers, spin);
    }
}
