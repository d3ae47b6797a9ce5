//! A runtime with nothing to do makes no system call: none of its threads wakes up, the monitor's included;
//! and so it is beside workers that block for ever.

mod support;

use std::ffi::OsString;
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use runtime::Runtime;
use support::{LIMIT, build, in_child, watchdog};

/// How often each of the runtime's threads has gone to sleep.
fn sleeps() -> Vec<(OsString, String)> {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().map(Result::unwrap);
    threads
        .filter_map(|thread| {
            let status = std::fs::read_to_string(thread.path().join("status")).ok()?;
            let line = |start| status.lines().find(|line| line.starts_with(start)).map(str::to_owned);
            // Not this one, nor those of the harness or a sanitizer.
            line("Name:")?.contains("runtime-").then_some(())?;
            Some((thread.file_name(), line("voluntary_ctxt_switches:")?))
        })
        .collect()
}

/// Waits for half a second in which no thread goes to sleep, and so no thread was awake. Some half seconds
/// are not like that: threads that have nothing to do end after a while.
#[track_caller]
fn assert_rests(when: &str) {
    let mut before = sleeps();
    let rests = |_| {
        std::thread::sleep(Duration::from_millis(500));
        let now = sleeps();
        std::mem::replace(&mut before, now.clone()) == now
    };
    assert!((0..40).any(rests), "{when}: a thread is always awake");
    assert!(before.len() >= 4, "three workers and the monitor: {before:?}");
}

/// Tasks, timers, a socket, a computation, a blocking closure and a call that blocks.
fn work(runtime: &Runtime) {
    runtime.block_on(async {
        let listener = runtime::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = runtime::spawn(runtime::net::TcpStream::connect(listener.local_addr().unwrap()));
        let server = listener.accept().await.unwrap();
        let client = client.await.unwrap().unwrap();
        runtime::spawn(async { runtime::time::sleep(Duration::from_millis(5)).await }).await.unwrap();
        runtime::task::spawn_blocking(|| ()).await.unwrap();
        runtime::compute(|| runtime::parallel::join(|| (), || ())).await.unwrap();
        let blocks = || runtime::task::block_in_place(|| std::thread::sleep(Duration::from_millis(20)));
        runtime::spawn(async move { blocks() }).await.unwrap();
        drop((server, client));
    });
}

/// Has a worker block until what is returned is dropped.
fn block(runtime: &Runtime, how: fn(&dyn Fn())) -> Sender<()> {
    let (entered, begun) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    runtime.spawn(async move {
        how(&|| {
            entered.send(()).unwrap();
            _ = ended.recv();
        });
    });
    begun.recv_timeout(LIMIT).unwrap();
    end
}

#[test]
fn an_idle_runtime_sleeps_and_so_it_does_beside_workers_that_block() {
    let _watchdog = watchdog();
    if in_child("an_idle_runtime_sleeps_and_so_it_does_beside_workers_that_block", &[]) {
        // Two of them will block, and one is left.
        let runtime = build(3);
        assert_rests("before it has worked");
        work(&runtime);
        assert_rests("after it has worked");
        let in_place = block(&runtime, |f| runtime::task::block_in_place(f));
        work(&runtime);
        assert_rests("beside a worker in `block_in_place`");
        let marked = block(&runtime, |f| {
            let mark = runtime::parallel::mark_blocked();
            f();
            drop(mark);
        });
        work(&runtime);
        assert_rests("beside two workers, one of them marked");
        drop((in_place, marked));
        work(&runtime);
        assert_rests("after they are back");
    }
}
