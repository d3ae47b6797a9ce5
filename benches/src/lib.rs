//! Benchmarks of `runtime` beside Tokio, Rayon and others: one allocator, one worker count, turn by turn.
//!
//! - [`peer`]: what a load needs from a runtime, so that each load is written once;
//! - [`loads`]: the scheduler loads, by name;
//! - [`duel`]: runs a load on both in turns, through criterion, and prints the ratio;
//! - [`network`]: the same for servers; their client runs in a process of its own ([`client`],
//!   [`transport`]);
//! - [`fork_join`]: parallel computation, with loads, peers and rounds of its own;
//! - [`mixed`]: a server that computes at the same time;
//! - [`fairness`]: how late a ticker is beside a task that is always ready;
//! - [`long_polls`]: how late the other tasks are beside polls of microseconds to a second;
//! - [`heavy_requests`]: how late the other requests are beside some that compute in their handler;
//! - [`queries`]: how late a service is beside queries that compute in tasks of their own;
//! - [`stall`]: tasks that are stuck, and what others notice of it;
//! - [`report`]: all of these and more peers, on one page.
//!
//! The benchmarks are in `benches/benches`, one file each. Three programs in `src/bin` measure what a clock
//! does not show: `instructions`, `memory`, `idle`; and `report` writes the page.
//!
//! # How to read a result
//!
//! Ratios travel, nanoseconds do not: both sides of a ratio were measured within milliseconds of each other.
//! The minimum says what the code costs, the median what this machine made of it meanwhile.

pub mod arguments;
pub mod client;
pub mod duel;
pub mod echo_loop;
pub mod fairness;
pub mod fork_join;
pub mod heavy_requests;
pub mod loads;
pub mod long_polls;
pub mod memory;
pub mod mixed;
pub mod network;
pub mod paced;
pub mod peer;
pub mod pin;
pub mod queries;
pub mod report;
pub mod stall;
pub mod table;
pub mod transport;
pub mod usage;
pub mod wrk;

/// Worker threads of each runtime: `BENCH_WORKERS`, by default 2.
///
/// # Panics
///
/// If the variable is not a number of at least 1.
pub fn workers() -> usize {
    from_env("BENCH_WORKERS", 2)
}

/// The number in the environment variable `name`, or `default` if it is not set.
///
/// # Panics
///
/// If the variable is set to anything but a number of at least 1.
pub fn from_env(name: &str, default: usize) -> usize {
    let Some(text) = std::env::var_os(name) else {
        return default;
    };
    match text.to_str().and_then(|text| text.parse().ok()) {
        Some(number @ 1..) => number,
        _ => panic!("{name} must be a number of at least 1, got {text:?}"),
    }
}
