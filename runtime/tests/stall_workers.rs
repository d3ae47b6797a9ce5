//! Workers that are stuck in a poll: the other tasks, the sockets and the timers go on, on the other workers
//! or on spare workers.

mod stall_support;
mod support;

use std::time::Duration;

use stall_support::{Client, Ticker, Trap, WAYS, Way, assert_prompt, serve, stick, try_to_stick};
use support::{Gate, build, until, watchdog};

/// Pings and ticks while `stuck` of `workers` are stuck.
fn goes_on(workers: usize, stuck: usize, way: Way) {
    let runtime = build(workers);
    let address = serve(&runtime, &Trap::default(), way);
    let mut client = Client::connect(address);
    let ticker = Ticker::start(&runtime);
    for _ in 0..3 {
        let stuck = stick(&runtime, stuck, way);
        let pings = client.pings(20);
        let ticks = ticker.ticks(20);
        let mut newcomer = Client::connect(address);
        newcomer.ping();
        stuck.end(&runtime);
        assert_prompt("pings", pings);
        assert_prompt("ticks", ticks);
    }
}

#[test]
fn sockets_and_timers_go_on_while_all_workers_but_one_spin() {
    let _watchdog = watchdog();
    goes_on(2, 1, Way::Spins);
    goes_on(3, 2, Way::Spins);
}

#[test]
fn sockets_and_timers_go_on_while_all_workers_but_one_block() {
    let _watchdog = watchdog();
    goes_on(4, 3, Way::Blocks);
}

#[test]
fn sockets_and_timers_go_on_while_all_workers_spin() {
    let _watchdog = watchdog();
    goes_on(1, 1, Way::Spins);
    goes_on(2, 2, Way::Spins);
}

#[test]
fn sockets_and_timers_go_on_while_all_workers_block() {
    let _watchdog = watchdog();
    goes_on(4, 4, Way::Blocks);
}

#[test]
fn tasks_from_outside_are_polled_while_all_workers_are_stuck() {
    let _watchdog = watchdog();
    for way in WAYS {
        // Without I/O and time, no worker looks for any other reason.
        let runtime = runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        let stuck = stick(&runtime, 2, way);
        for _ in 0..20 {
            runtime.block_on(runtime.spawn(async { runtime::task::yield_now().await })).unwrap();
        }
        stuck.end(&runtime);
    }
}

#[test]
fn what_a_stuck_worker_has_spawned_runs() {
    let _watchdog = watchdog();
    for way in WAYS {
        for workers in [1, 2] {
            let runtime = runtime::Builder::new_multi_thread().worker_threads(workers).build().unwrap();
            let (trap, all) = (Trap::default(), 300);
            let (send, ran) = std::sync::mpsc::channel();
            let stuck = runtime.spawn({
                let trap = trap.clone();
                async move {
                    // More than the ring holds: the LIFO slot, the ring and the injector have some.
                    for i in 0..all {
                        let send = send.clone();
                        runtime::spawn(async move { send.send(i).unwrap() });
                    }
                    drop(send);
                    trap.enter(way);
                }
            });
            let mut seen: Vec<_> = ran.iter().collect();
            trap.release();
            seen.sort();
            assert!(seen.into_iter().eq(0..all));
            runtime.block_on(stuck).unwrap();
        }
    }
}

#[test]
fn a_stuck_task_behind_a_stuck_task_does_not_end_the_rescue() {
    let _watchdog = watchdog();
    for way in WAYS {
        let runtime = build(1);
        let mut client = Client::connect(serve(&runtime, &Trap::default(), way));
        // The first holds the worker, the others one spare worker after the other.
        let stuck = try_to_stick(&runtime, 4, way);
        until("all are stuck", || stuck.trap.count() == 4);
        client.pings(5);
        stuck.end(&runtime);
    }
}

#[test]
fn stuck_tasks_come_and_go_while_others_work() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let mut client = Client::connect(serve(&runtime, &Trap::default(), Way::Spins));
    let end = Gate::default();
    // Each is stuck for about as long as it takes to be found so.
    let comers: Vec<_> = (0..3)
        .map(|i| {
            let end = end.clone();
            runtime.spawn(async move {
                for round in 0.. {
                    if end.is_open() {
                        break;
                    }
                    std::thread::sleep(Duration::from_millis((7 * i + 3 * round) % 17));
                    runtime::time::sleep(Duration::from_millis((5 * i + round) % 7)).await;
                }
            })
        })
        .collect();
    assert_prompt("pings", client.pings(100));
    end.open();
    for comer in comers {
        runtime.block_on(comer).unwrap();
    }
}
