//! The worker that holds the driver, or a timer, is stuck: another thread sees to them.

mod stall_support;
mod support;

use std::time::Duration;

use stall_support::{Client, Trap, WAYS, assert_prompt, serve};
use support::{Gate, build, builder, until, watchdog};

#[test]
fn packets_are_served_when_the_worker_that_took_the_last_one_is_stuck_over_it() {
    let _watchdog = watchdog();
    for way in WAYS {
        for workers in [1, 2, 4] {
            let runtime = build(workers);
            let mut times = Vec::new();
            for _ in 0..5 {
                let trap = Trap::default();
                let address = serve(&runtime, &trap, way);
                let (mut sticky, mut client) = (Client::connect(address), Client::connect(address));
                // All sleep, one of them in the driver, and that worker gets the byte.
                std::thread::sleep(Duration::from_millis(20));
                sticky.send(b's');
                until("the handler is stuck", || trap.count() == 1);
                times.push(client.ping());
                client.pings(5);
                trap.release();
                assert_eq!(sticky.receive(), b's');
            }
            assert_prompt("the next packet", times);
        }
    }
}

#[test]
fn a_timer_rings_when_the_worker_that_the_last_one_woke_is_stuck() {
    let _watchdog = watchdog();
    for way in WAYS {
        for workers in [1, 2, 4] {
            let runtime = build(workers);
            for _ in 0..5 {
                let (trap, rung) = (Trap::default(), Gate::default());
                let sleeper = runtime.spawn({
                    let rung = rung.clone();
                    async move {
                        runtime::time::sleep(Duration::from_millis(40)).await;
                        rung.open();
                    }
                });
                let stuck = runtime.spawn({
                    let trap = trap.clone();
                    async move {
                        runtime::time::sleep(Duration::from_millis(10)).await;
                        trap.enter(way);
                    }
                });
                rung.wait();
                trap.release();
                runtime.block_on(sleeper).unwrap();
                runtime.block_on(stuck).unwrap();
            }
        }
    }
}

#[test]
fn a_timer_in_the_wheel_of_a_stuck_worker_rings() {
    let _watchdog = watchdog();
    for way in WAYS {
        // A timer that is due while others sleep, and a timer that becomes due when all the others are stuck,
        // too.
        for workers in [1, 2] {
            let runtime = build(workers);
            let trap = Trap::default();
            let stuck: Vec<_> = (0..workers)
                .map(|_| {
                    let trap = trap.clone();
                    runtime.spawn(async move {
                        let (armed, rung) = (Gate::default(), Gate::default());
                        let sleeper = runtime::spawn({
                            let (armed, rung) = (armed.clone(), rung.clone());
                            async move {
                                let sleep = runtime::time::sleep(Duration::from_millis(20));
                                armed.open();
                                sleep.await;
                                rung.open();
                            }
                        });
                        while !armed.is_open() {
                            runtime::task::yield_now().await;
                        }
                        trap.enter(way);
                        // It rang long ago.
                        assert!(rung.is_open());
                        sleeper.await.unwrap();
                    })
                })
                .collect();
            until("all are stuck", || trap.count() == workers);
            let metrics = runtime.metrics();
            until("the sleepers have ended", || metrics.num_alive_tasks() == workers);
            trap.release();
            for task in stuck {
                runtime.block_on(task).unwrap();
            }
        }
    }
}

#[test]
fn a_timer_armed_elsewhere_rings_while_all_workers_are_stuck() {
    let _watchdog = watchdog();
    for way in WAYS {
        let runtime = build(2);
        let stuck = stall_support::stick(&runtime, 2, way);
        for _ in 0..5 {
            // Earlier than any other timer; this thread is no worker.
            runtime.block_on(async { runtime::time::sleep(Duration::from_millis(5)).await });
        }
        stuck.end(&runtime);
    }
}

#[test]
fn timers_and_sockets_are_seen_to_after_the_spare_workers_have_gone_to_rest() {
    let _watchdog = watchdog();
    for way in WAYS {
        for workers in [1, 2] {
            // Longer than the watchdog waits: no spare worker ends its rest in time.
            let runtime = builder(workers).thread_keep_alive(Duration::from_secs(600)).build().unwrap();
            let metrics = runtime.metrics();
            let trap = Trap::default();
            // What waits behind each stuck task has a spare worker come, which becomes the poller while there
            // is nothing to poll for.
            for _ in 0..workers {
                let trap = trap.clone();
                runtime.spawn(async move {
                    runtime::spawn(async {});
                    trap.enter(way);
                });
            }
            until("all workers are stuck", || trap.count() == workers && metrics.num_spare_workers() > 0);
            std::thread::sleep(Duration::from_millis(20));
            trap.release();
            until("the spare workers rest", || {
                metrics.num_idle_spare_workers() == metrics.num_spare_workers()
            });
            // The monitor would help, so it has to rest, too.
            std::thread::sleep(Duration::from_millis(200));
            runtime.block_on(async {
                runtime::time::sleep(Duration::from_millis(10)).await;
                let listener = runtime::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                let address = listener.local_addr().unwrap();
                let client = std::thread::spawn(move || std::net::TcpStream::connect(address));
                listener.accept().await.unwrap();
                client.join().unwrap().unwrap();
            });
        }
    }
}
