//! What is measured, of which contestants, and how long.

use std::time::Duration;

use super::child::EPOLL;
use super::{before, go};
use crate::fork_join::list::{self, Visitor};
use crate::fork_join::loads::{FifoLoad, JoinLoad, ScopeLoad};
use crate::fork_join::peer::{self as pools, ForkJoin};
use crate::mixed;
use crate::peer::{Bare, Ours, Peer, Smol, Tokio};

/// A part of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Tasks, channels, wakes, timers that do not fire, the blocking threads: the time of an operation.
    Tasks,
    /// How late the answers are: quantiles.
    Latency,
    /// Bytes.
    Memory,
    /// Servers, loaded from another process.
    Servers,
    /// Parallel computation.
    ForkJoin,
    /// A server that computes.
    Mixed,
}

impl Section {
    /// In the order of the page.
    pub const ALL: [Self; 6] =
        [Self::Tasks, Self::Latency, Self::Memory, Self::Servers, Self::ForkJoin, Self::Mixed];
}

/// A load, and how it is to be measured.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The load's name.
    pub load: String,
    /// What it does.
    pub about: String,
    /// Where it stands on the page.
    pub section: Section,
    /// The contestants, ours first.
    pub peers: Vec<&'static str>,
    /// Operations of an iteration, or what the load takes for them.
    pub operations: usize,
    /// How long a turn is.
    pub turn: Duration,
    /// With how many threads.
    pub workers: Vec<usize>,
    /// Whether every turn needs a process of its own.
    pub is_fresh: bool,
    /// The operations to count instructions with; 0 if they are not counted.
    pub count: usize,
}

const RUNTIMES: [&str; 3] = [Ours::NAME, Tokio::NAME, Smol::NAME];

/// Every load of the page. If `is_quick`, all is shorter, and with two threads only.
pub fn entries(is_quick: bool) -> Vec<Entry> {
    let mut entries = tasks();
    entries.extend(latencies());
    entries.extend(memory(is_quick));
    entries.extend(servers());
    entries.extend(fork_join());
    entries.extend(mixed_loads());
    for entry in entries.iter_mut().filter(|entry| go::takes_part(&entry.load)) {
        entry.peers.insert(RUNTIMES.len(), go::NAME);
    }
    if before::takes_part() {
        for entry in &mut entries {
            entry.peers = before::PAIR.into();
        }
    }
    if is_quick {
        // The heavier loads are too much for a machine with other work: a server does not get done there.
        entries.retain(|entry| entry.section != Section::Mixed || entry.load.ends_with(mixed::LIGHT.0));
        for entry in &mut entries {
            entry.turn /= 5;
            entry.workers.retain(|workers| *workers == 2);
        }
    }
    entries
}

fn entry(section: Section, load: &str, about: &str, operations: usize) -> Entry {
    Entry {
        load: load.to_owned(),
        about: about.to_owned(),
        section,
        peers: RUNTIMES.into(),
        operations,
        turn: Duration::from_millis(100),
        workers: vec![2],
        is_fresh: false,
        count: 0,
    }
}

fn tasks() -> Vec<Entry> {
    let load = |load, about, operations, count| {
        let mut entry = entry(Section::Tasks, load, about, operations);
        entry.workers = vec![1, 2, 4, 8];
        entry.count = count;
        entry
    };
    let with_limit = |mut entry: Entry| {
        entry.peers.push(Bare::NAME);
        entry
    };
    let with_workers = |mut entry: Entry, workers: &[usize]| {
        entry.workers = workers.into();
        entry
    };
    // The others have other traits for it.
    let of_streams =
        |entry: Entry| Entry { peers: vec![Ours::NAME, Tokio::NAME], workers: vec![1, 2], ..entry };
    let (of_channels, of_files, of_sets) = (of_streams, of_streams, of_streams);
    vec![
        with_limit(load("chained_spawn", "a task spawns the next, 1000 deep", 1_000, 1_000)),
        with_limit(load(
            "ping_pong",
            "1000 pairs of tasks exchange two messages over oneshot channels",
            1_000,
            300,
        )),
        with_limit(load("spawn_many", "10,000 tasks spawned by a thread that is no worker", 10_000, 1_000)),
        with_limit(load("spawn_many_worker", "10,000 tasks spawned by a task", 10_000, 1_000)),
        with_limit(load("spawn_await", "a task spawns one and waits for it, again and again", 1_000, 1_000)),
        with_limit(load("yield_many", "200 tasks yield 1000 times each", 200_000, 10_000)),
        with_limit(load("self_wake", "a task wakes itself while it is polled", 100_000, 10_000)),
        with_limit(load(
            "mpsc_ping",
            "two tasks exchange numbers over channels with room for one",
            10_000,
            1_000,
        )),
        with_limit(load("mpsc_stream", "numbers over a channel with room for 128", 100_000, 10_000)),
        with_limit(load("wake_storm_task", "a task wakes 1000 parked tasks", 10_000, 2_000)),
        load("wake_storm_thread", "a thread wakes 1000 parked tasks", 10_000, 0),
        with_workers(
            load("timer_drop", "a million timers, each created, polled, dropped", 1_000_000, 2_000),
            &[1, 2],
        ),
        with_workers(load("timers_pending", "the same with 10,000 pending at once", 10_000, 2_000), &[1, 2]),
        with_workers(
            load("idle_timeout", "10,000 tasks; each message puts a time-out off", 100_000, 20_000),
            &[1, 2],
        ),
        with_workers(
            load("blocking_from_one", "20,000 empty closures for the blocking threads", 20_000, 0),
            &[2],
        ),
        with_workers(load("blocking_from_many", "the same from 16 threads", 16_000, 0), &[2]),
        of_streams(load("lines", "lines of 10 to 90 bytes out of a text in memory", 100_000, 10_000)),
        of_streams(load(
            "copy_bidirectional",
            "messages of 1 KiB through a relay between pipes in memory, and back",
            3_000,
            1_000,
        )),
        of_files(load("file_read_64k", "a file of 64 KiB that is in memory, read whole", 1_000, 100)),
        of_files(load("file_read_cold", "the same, from the disk", 100, 0)),
        of_files(load("file_lines", "lines of 10 to 90 bytes out of a file in memory", 100_000, 10_000)),
        of_files(load("file_read_4k", "pieces of 4 KiB read from a file in memory", 10_000, 1_000)),
        of_files(load("file_write_4k", "pieces of 4 KiB written to a file and flushed", 2_000, 500)),
        of_files(load("file_metadata", "a question for a file's length", 2_000, 500)),
        of_streams(load("child_exit", "16 tasks start a program that does nothing, and wait for it", 64, 0)),
        of_channels(load(
            "broadcast_wake",
            "a task sends another a number when the last was heard",
            10_000,
            2_000,
        )),
        of_channels(load("broadcast_wake_100", "the same to 100 tasks, a number heard", 100_000, 20_000)),
        of_channels(load("broadcast_stream", "a task sends another 128 numbers at a time", 128_000, 12_800)),
        of_channels(load(
            "broadcast_stream_100",
            "the same to 100 tasks, a number heard",
            1_280_000,
            128_000,
        )),
        of_channels(load(
            "watch_wake",
            "a task sees a number of another when that saw the last",
            10_000,
            2_000,
        )),
        of_channels(load("watch_wake_100", "the same for 100 tasks, a number seen", 100_000, 20_000)),
        of_channels(load(
            "watch_send_read",
            "a number that no task waits for, sent and read",
            100_000,
            10_000,
        )),
        of_channels(load("watch_shared", "8 tasks read a watched number", 400_000, 40_000)),
        of_channels(load(
            "rwlock_read_mostly",
            "8 tasks read under a lock, one in 100 writes",
            100_000,
            10_000,
        )),
        of_channels(load("rwlock_contended", "one in 4 writes, and yields meanwhile", 40_000, 8_000)),
        of_sets(load("join_set", "a task spawns 10,000 tasks in a set and joins them", 10_000, 1_000)),
        of_sets(load("local_spawn", "10,000 tasks of a `LocalSet` are spawned and joined", 10_000, 1_000)),
        of_sets(load("local_wake", "pairs of tasks of a `LocalSet` wake each other", 10_000, 2_000)),
    ]
}

fn latencies() -> Vec<Entry> {
    let mut wake = entry(
        Section::Latency,
        "remote_wake",
        "a thread wakes a task of an idle runtime: from the wake to the task's next step",
        100,
    );
    wake.workers = vec![1, 2, 8];
    let fire = entry(
        Section::Latency,
        "timer_fire",
        "100,000 timers, each in a task of its own, fire within half a second: how late, and the CPU \
         time of each with its task",
        100_000,
    );
    let few = entry(
        Section::Latency,
        "timer_fire_few",
        "the same with 300 timers: less than one in a millisecond",
        300,
    );
    vec![wake, fire, few]
}

fn memory(is_quick: bool) -> Vec<Entry> {
    let tasks = if is_quick { 100_000 } else { 1_000_000 };
    let load = |load, about, tasks| Entry { is_fresh: true, ..entry(Section::Memory, load, about, tasks) };
    vec![
        load("memory_16", "a parked task whose future has 16 bytes", tasks),
        load("memory_1k", "the same with 1040 bytes", tasks / 5),
    ]
}

fn servers() -> Vec<Entry> {
    let echo = |load, about, connections| {
        let mut entry = entry(Section::Servers, load, about, connections);
        entry.turn = Duration::from_millis(500);
        entry.workers = vec![1, 2];
        entry.peers.push(EPOLL);
        entry
    };
    let mut http = echo("http_hello", "hyper says hello over 50 connections", 50);
    // The others have other types for it.
    let of_sockets = |entry: Entry| Entry { peers: vec![Ours::NAME, Tokio::NAME], ..entry };
    http.turn = Duration::from_secs(1);
    http.peers = RUNTIMES.into();
    vec![
        echo("tcp_echo_1", "1 connection, 64 bytes there and back", 1),
        echo("tcp_echo_64", "the same over 64 connections", 64),
        echo("tcp_echo_1000", "the same over 1000 connections", 1000),
        of_sockets(echo("unix_echo_64", "the same over 64 Unix streams", 64)),
        of_sockets(echo("udp_echo_64", "the same from 64 UDP sockets to one, which a task reads", 64)),
        http,
    ]
}

/// The fork-join loads for which instructions are counted.
pub const COUNTED_JOINS: [&str; 3] = ["fib", "tree_sum", "join_empty"];
/// The same with scopes.
pub const COUNTED_SCOPES: [&str; 2] = ["scope_spawn", "spawn_tree"];

/// The contestants in loads that need only `join`.
pub const POOLS: [&str; 5] =
    [pools::Ours::NAME, pools::Rayon::NAME, pools::Chili::NAME, pools::Forte::NAME, pools::Plain::NAME];
/// The contestants with scopes.
pub const SCOPES: [&str; 3] = [pools::Ours::NAME, pools::Rayon::NAME, pools::Forte::NAME];
/// The contestants with scopes that run jobs in order.
const FIFOS: [&str; 2] = [pools::Ours::NAME, pools::Rayon::NAME];

fn fork_join() -> Vec<Entry> {
    struct Collector(Vec<Entry>);

    impl Collector {
        fn add(&mut self, name: &str, operation: &str, peers: &[&'static str]) {
            // Those for which the number of threads matters most.
            let workers = if ["fib_32", "join_empty"].contains(&name) { vec![1, 2, 4, 8] } else { vec![2] };
            let about = format!("the time of one {operation}").replace("one all", "all");
            let peers = peers.to_vec();
            self.0.push(Entry { peers, workers, ..entry(Section::ForkJoin, name, &about, 1) });
        }
    }

    impl Visitor for Collector {
        fn join<L: JoinLoad>(&mut self, name: &str, operation: &str, _: impl FnOnce() -> L) {
            self.add(name, operation, &POOLS);
        }

        fn scope<L: ScopeLoad>(&mut self, name: &str, operation: &str, _: impl FnOnce() -> L) {
            self.add(name, operation, &SCOPES);
        }

        fn fifo<L: FifoLoad>(&mut self, name: &str, operation: &str, _: impl FnOnce() -> L) {
            self.add(name, operation, &FIFOS);
        }
    }

    let mut collector = Collector(Vec::new());
    list::visit(&mut collector, false);
    collector.0
}

fn mixed_loads() -> Vec<Entry> {
    let load = |load: &str, about| Entry {
        peers: mixed::set_ups().map(|(name, _)| name).into(),
        turn: Duration::from_millis(1000),
        ..entry(Section::Mixed, &format!("mixed_{load}"), about, 280_000)
    };
    vec![
        load(
            mixed::LIGHT.0,
            "64 connections with 200 requests a second each; every 30 ms a sort of 280,000 numbers",
        ),
        load(mixed::HEAVY.0, "the same with a sort every 12 ms"),
        load("saturate", "the same with two computations that never end"),
    ]
}

/// What a curve shows.
#[derive(Clone, Debug)]
pub struct Growth {
    /// For the file.
    pub name: &'static str,
    /// For the reader.
    pub title: &'static str,
    /// What grows.
    pub axis: &'static str,
    /// The load.
    pub load: &'static str,
    /// The contestants.
    pub peers: &'static [&'static str],
    /// How much of what grows.
    pub points: Vec<usize>,
    /// Operations, if it is the threads that grow.
    pub operations: Option<usize>,
    /// How long a turn is.
    pub turn: Duration,
}

/// Every curve. If `is_quick`, each has its first three points only.
pub fn growths(is_quick: bool) -> Vec<Growth> {
    let growth = |name, title, axis, load, points: &[usize]| Growth {
        name,
        title,
        axis,
        load,
        peers: &RUNTIMES,
        points: points.into(),
        operations: None,
        turn: Duration::from_millis(100),
    };
    let threads = |name, title, load, operations| Growth {
        operations: Some(operations),
        ..growth(name, title, "worker threads", load, &[1, 2, 4, 8, 16, 32, 64])
    };
    let tasks = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];
    let mut growths = vec![
        growth("tasks-spawned", "Spawning tasks, ns a task", "tasks", "spawn_many_worker", &tasks),
        growth(
            "tasks-parked",
            "Spawning, parking and waking tasks, ns a task",
            "tasks",
            "wake_storm_of",
            &tasks[..4],
        ),
        growth(
            "timers",
            "Timers created, pending together, dropped; ns a timer",
            "pending timers",
            "timers_pending",
            &[100, 1_000, 10_000, 100_000, 1_000_000],
        ),
        Growth {
            peers: &[Ours::NAME, Tokio::NAME, Smol::NAME, EPOLL],
            turn: Duration::from_millis(300),
            ..growth(
                "connections",
                "TCP echo, ns a request",
                "connections",
                "tcp_echo",
                &[10, 100, 1_000, 8_000],
            )
        },
        threads("workers-chained-spawn", "chained_spawn, ns a task", "chained_spawn", 1_000),
        threads("workers-ping-pong", "ping_pong, ns a pair", "ping_pong", 1_000),
        threads("workers-spawn-many", "spawn_many, ns a task", "spawn_many", 10_000),
        threads("workers-yield-many", "yield_many, ns a yield", "yield_many", 200_000),
    ];
    if before::takes_part() {
        for growth in &mut growths {
            growth.peers = &before::PAIR;
        }
    }
    if is_quick {
        for growth in &mut growths {
            growth.points.truncate(3);
            growth.turn /= 5;
        }
    }
    growths
}
