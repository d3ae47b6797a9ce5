//! Tasks that block without saying so: a health check is answered, and the threads that helped out leave
//! again.

mod stall_support;
mod support;

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use runtime::sync::broadcast;
use runtime::task::block_in_place;
use runtime::time;
use stall_support::{Client, TOO_LONG, Trap, Way, assert_prompt, serve, try_to_stick};
use support::{builder, in_child, threads, until, watchdog};

#[test]
fn a_health_check_is_answered_while_twice_as_many_handlers_block_as_there_are_workers() {
    let _watchdog = watchdog();
    if in_child("a_health_check_is_answered_while_twice_as_many_handlers_block_as_there_are_workers", &[]) {
        let runtime = builder(2).thread_keep_alive(Duration::from_millis(100)).build().unwrap();
        let trap = Trap::default();
        let mut health = Client::connect(serve(&runtime, &trap, Way::Blocks));
        let before = threads();
        for _ in 0..3 {
            let trap = Trap::default();
            let address = serve(&runtime, &trap, Way::Blocks);
            let mut handlers: Vec<_> = (0..4).map(|_| Client::connect(address)).collect();
            handlers.iter_mut().for_each(|handler| handler.send(b's'));
            until("all block", || trap.count() == 4);
            assert_prompt("health checks", health.pings(20));
            trap.release();
            handlers.iter_mut().for_each(|handler| assert_eq!(handler.receive(), b's'));
        }
        until("the threads that helped have left", || threads() <= before);
        health.ping();
    }
}

#[test]
fn handlers_that_sleep_do_not_delay_a_health_check() {
    let _watchdog = watchdog();
    let runtime = builder(2).build().unwrap();
    let mut health = Client::connect(serve(&runtime, &Trap::default(), Way::Blocks));
    for _ in 0..3 {
        let handlers = try_to_stick(&runtime, 4, Way::Blocks);
        until("all handlers block", || handlers.trap.count() == 4);
        health.pings(5);
        handlers.end(&runtime);
    }
}

#[test]
fn what_all_workers_block_for_may_be_done_by_a_task_in_their_queues() {
    let _watchdog = watchdog();
    for workers in [1, 2] {
        let runtime = runtime::Builder::new_multi_thread().worker_threads(workers).build().unwrap();
        for _ in 0..3 {
            let (trap, all) = (Trap::default(), 3 * workers);
            let blocked: Vec<_> = (0..all)
                .map(|_| {
                    let trap = trap.clone();
                    runtime.spawn(async move { trap.enter(Way::Blocks) })
                })
                .collect();
            let releaser = runtime.spawn(async move {
                while trap.count() < all {
                    runtime::task::yield_now().await;
                }
                trap.release();
            });
            runtime.block_on(releaser).unwrap();
            for task in blocked {
                runtime.block_on(task).unwrap();
            }
        }
    }
}

/// One after the other, each thread that serves fires the timer of a task that then blocks in an announced
/// call. What all of them wait for comes by one more timer, and nothing else is left to do.
#[test]
fn a_timer_fires_while_the_threads_that_serve_are_in_announced_calls() {
    let _watchdog = watchdog();
    for is_first_marked in [false, true] {
        let runtime = builder(1).build().unwrap();
        let (ends, waits): (Vec<_>, Vec<_>) = (0..5).map(|_| mpsc::channel::<()>()).unzip();
        let tasks: Vec<_> = waits
            .into_iter()
            .enumerate()
            .map(|(i, wait)| {
                runtime.spawn(async move {
                    time::sleep(Duration::from_millis(50 * i as u64)).await;
                    match i == 0 && !is_first_marked {
                        true => wait.recv().unwrap(),
                        false => block_in_place(|| wait.recv().unwrap()),
                    }
                })
            })
            .collect();
        runtime.spawn(async move {
            time::sleep(Duration::from_millis(400)).await;
            ends.into_iter().for_each(|end| end.send(()).unwrap());
        });
        tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
    }
}

#[test]
fn tasks_wait_for_a_lock_that_a_thread_outside_holds_and_others_go_on() {
    let _watchdog = watchdog();
    let runtime = builder(2).build().unwrap();
    let mut client = Client::connect(serve(&runtime, &Trap::default(), Way::Blocks));
    let lock = Arc::new(parking_lot::Mutex::new(0));
    let guard = lock.lock();
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let lock = lock.clone();
            runtime.spawn(async move {
                let mut count = lock.try_lock_for(TOO_LONG).expect("no request was served meanwhile");
                *count += 1;
            })
        })
        .collect();
    assert_prompt("pings", client.pings(20));
    drop(guard);
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
    assert_eq!(*lock.lock(), 4);
}

/// A drop of a receiver waits for the clone. Other threads do the worker's part from the beginning, so no
/// task is told to be stuck. On a busy machine the worker may lose its CPU just before, so it has some tries.
#[test]
fn a_receiver_that_is_dropped_while_its_value_is_cloned_says_that_it_blocks() {
    struct Slow(Trap);
    impl Clone for Slow {
        fn clone(&self) -> Self {
            self.0.enter(Way::Blocks);
            Self(self.0.clone())
        }
    }
    let _watchdog = watchdog();
    let told = Arc::new(Mutex::new(Vec::new()));
    let hook = told.clone();
    let runtime = builder(1).on_stall(move |stall| hook.lock().push(stall.task_id())).build().unwrap();
    let is_prompt = |_| {
        let (tx, mut cloning) = broadcast::channel(1);
        let (dropped, trap) = (tx.subscribe(), Trap::default());
        assert!(tx.send(Slow(trap.clone())).is_ok());
        let clone = thread::spawn(move || assert!(cloning.try_recv().is_ok()));
        until("it is being cloned", || trap.count() == 1);
        let (begin, begun) = mpsc::channel();
        let task = runtime.spawn(async move {
            begin.send(()).unwrap();
            drop(dropped);
        });
        begun.recv().unwrap();
        for _ in 0..30 {
            runtime.block_on(runtime.spawn(async { time::sleep(Duration::from_millis(1)).await })).unwrap();
        }
        assert!(!task.is_finished());
        trap.release();
        clone.join().unwrap();
        let id = task.id();
        runtime.block_on(task).unwrap();
        assert!(tx.is_empty());
        !told.lock().contains(&id)
    };
    assert!((0..10).any(is_prompt));
}
