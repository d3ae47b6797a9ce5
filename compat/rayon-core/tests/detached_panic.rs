//! What becomes of a panic that no thread waits for. Each case is a test that does nothing unless it is run
//! in a process of its own, by the test that judges it.

use std::env;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

const SIGABRT: i32 = 6;
const CHILD: &str = "DETACHED_PANIC_CHILD";

/// Runs the test `case` of this file in another process.
fn run(case: &str) -> Output {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", case, "--nocapture", "--test-threads=1"])
        .env(CHILD, case)
        .output()
        .unwrap()
}

fn is_child(case: &str) -> bool {
    env::var(CHILD).as_deref() == Ok(case)
}

/// The process ends before this does, or the case has failed.
fn wait_for_the_end() -> ! {
    thread::sleep(Duration::from_secs(60));
    panic!("nothing ended the process");
}

#[track_caller]
fn assert_aborts(case: &str, panicked_with: &str) {
    let output = run(case);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(SIGABRT), "{case}: {}, {stderr}", output.status);
    assert!(stderr.contains(panicked_with), "{case}: {stderr}");
    assert!(stderr.contains("panic handler"), "{case} ended without a word: {stderr}");
}

#[test]
fn a_detached_panic_without_a_handler_aborts() {
    assert_aborts("spawned", "detached 1");
    assert_aborts("spawned_fifo_in_a_pool", "detached 2");
    assert_aborts("broadcast", "detached 3");
    assert_aborts("in_a_start_handler", "detached 4");
    assert_aborts("spawned_by_a_task", "detached 7");
    assert_aborts("spawned_while_there_is_no_pool_yet", "detached 8");
}

#[test]
fn a_panic_of_the_panic_handler_aborts() {
    assert_aborts("in_the_panic_handler", "detached 6");
}

#[test]
fn spawned() {
    if is_child("spawned") {
        rayon_core::spawn(|| panic!("detached 1"));
        wait_for_the_end();
    }
}

#[test]
fn spawned_fifo_in_a_pool() {
    if is_child("spawned_fifo_in_a_pool") {
        let pool = rayon_core::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        pool.spawn_fifo(|| panic!("detached 2"));
        wait_for_the_end();
    }
}

#[test]
fn broadcast() {
    if is_child("broadcast") {
        rayon_core::spawn_broadcast(|context| assert!(context.index() != 0, "detached 3"));
        wait_for_the_end();
    }
}

#[test]
fn in_a_start_handler() {
    if is_child("in_a_start_handler") {
        let builder = rayon_core::ThreadPoolBuilder::new().num_threads(1);
        let _pool = builder.start_handler(|_| panic!("detached 4")).build();
        wait_for_the_end();
    }
}

#[test]
fn spawned_by_a_task() {
    if is_child("spawned_by_a_task") {
        let runtime = runtime::Runtime::new().unwrap();
        let task = runtime.spawn(async { rayon_core::spawn(|| panic!("detached 7")) });
        runtime.block_on(task).unwrap();
        wait_for_the_end();
    }
}

/// The job runs at once, on this thread.
#[test]
fn spawned_while_there_is_no_pool_yet() {
    if is_child("spawned_while_there_is_no_pool_yet") {
        let name = |_| {
            rayon_core::spawn(|| panic!("detached 8"));
            "late".to_owned()
        };
        rayon_core::ThreadPoolBuilder::new().num_threads(1).thread_name(name).build_global().unwrap();
        wait_for_the_end();
    }
}

#[test]
fn in_the_panic_handler() {
    if is_child("in_the_panic_handler") {
        let builder = rayon_core::ThreadPoolBuilder::new().num_threads(1);
        let pool = builder.panic_handler(|_| panic!("detached 6")).build().unwrap();
        pool.spawn(|| panic!("detached 5"));
        wait_for_the_end();
    }
}

#[test]
fn a_panic_handler_gets_what_a_detached_job_panicked_with() {
    let (tx, rx) = channel();
    let pool = rayon_core::ThreadPoolBuilder::new()
        .num_threads(2)
        .panic_handler(move |payload| tx.send(*payload.downcast::<usize>().unwrap()).unwrap())
        .build()
        .unwrap();
    pool.spawn(|| std::panic::panic_any(7_usize));
    assert_eq!(rx.recv(), Ok(7));

    // And the threads have survived it.
    let mut indices = pool.broadcast(|context| context.index());
    indices.sort_unstable();
    assert_eq!(indices, [0, 1]);
}

#[test]
fn a_panic_that_somebody_waits_for_does_not_abort() {
    fn send_and_panic(tx: Sender<()>) {
        tx.send(()).unwrap();
        panic!("awaited");
    }
    let (tx, rx) = channel();
    let in_scope = std::panic::catch_unwind({
        let tx = tx.clone();
        move || rayon_core::scope(|s| s.spawn(move |_| send_and_panic(tx)))
    });
    let in_join = std::panic::catch_unwind(move || rayon_core::join(|| (), move || send_and_panic(tx)));
    assert!(in_scope.is_err() && in_join.is_err());
    assert_eq!(rx.iter().count(), 2);
}
