//! All workers are inside of long polls: which thread runs what. How late the others are is measured by the
//! bench `long_polls`.

mod support;

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use runtime::runtime::worker_index;
use runtime::{Builder, Runtime, task};
use support::until;

/// A poll is this long: longer than a turn, shorter than what counts as a stall.
const POLL: Duration = Duration::from_millis(2);

fn build() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// Two tasks that spin and yield for ever. Returns how many of their polls in a row the only worker made.
fn spin(runtime: &Runtime) -> Arc<AtomicU32> {
    let on_worker: Arc<AtomicU32> = Arc::default();
    for _ in 0..2 {
        let on_worker = on_worker.clone();
        runtime.spawn(async move {
            loop {
                let start = Instant::now();
                while start.elapsed() < POLL {
                    std::hint::spin_loop();
                }
                match worker_index() {
                    Some(_) => _ = on_worker.fetch_add(1, Relaxed),
                    None => on_worker.store(0, Relaxed),
                }
                task::yield_now().await;
            }
        });
    }
    on_worker
}

#[test]
fn tasks_that_compute_for_long_go_back_to_the_worker() {
    let runtime = build();
    // A blocked worker has a spare one take all its tasks.
    let release = runtime.spawn(async {
        let (tell, told) = mpsc::channel::<()>();
        task::block_in_place(|| {
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(50));
                drop(tell);
            });
            _ = told.recv();
        });
    });
    let on_worker = spin(&runtime);
    runtime.block_on(release).unwrap();
    until("the worker makes all polls", || on_worker.load(Relaxed) > 50);
    runtime.shutdown_background();
}
