//! Measures the cost of a runtime that has nothing to do: `cargo run --release -p benches --bin idle`.
//!
//! Each runtime works a little first, gets time to fall asleep, and is then watched for three seconds. One
//! voluntary switch belongs to the thread that watches.

use std::time::Duration;

use benches::loads;
use benches::peer::{Ours, Peer, Tokio};
use benches::usage::Usage;

const SETTLE: Duration = Duration::from_millis(500);
const WATCH: Duration = Duration::from_secs(3);

fn main() {
    println!(
        "| idle for {} s, {} workers | CPU µs | voluntary switches |",
        WATCH.as_secs(),
        benches::workers()
    );
    println!("|---|---|---|");
    watch::<Ours>();
    watch::<Tokio>();
}

fn watch<P: Peer>() {
    let peer = P::start(benches::workers());
    loads::spawn_many(&peer, 10_000);
    std::thread::sleep(SETTLE);
    let before = Usage::now();
    std::thread::sleep(WATCH);
    let used = Usage::now().since(before);
    println!("| {} | {} | {} |", P::NAME, used.cpu.as_micros(), used.voluntary_switches);
}
