//! Many sockets that are ready again and again, beside tasks that were queued before.

mod support;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use runtime::io::{AsyncReadExt, AsyncWriteExt};
use runtime::net::UnixStream;
use support::{builder, watchdog};

/// Pairs of sockets that pass a byte to and fro. One socket of each pair is ready at any time: more than are
/// polled between two turns of the driver.
const PAIRS: usize = 200;
const QUEUED: usize = 150;

/// Passes a byte to and fro until the other end is gone. Counts each time in `polls`.
async fn pass(mut socket: UnixStream, is_first: bool, polls: Arc<AtomicUsize>) {
    let mut byte = [0];
    let mut has_byte = is_first;
    while has_byte || socket.read_exact(&mut byte).await.is_ok() {
        has_byte = false;
        polls.fetch_add(1, SeqCst);
        if socket.write_all(&byte).await.is_err() {
            break;
        }
    }
}

#[test]
fn sockets_that_become_ready_queue_behind_tasks_that_wait() {
    let _watchdog = watchdog();
    for workers in [1, 0] {
        let runtime = builder(workers).spare_workers(0).build().unwrap();
        let polls = Arc::new(AtomicUsize::new(0));
        let counted = polls.clone();
        let handle = runtime.handle().clone();
        let task = runtime.spawn(async move {
            for _ in 0..PAIRS {
                let (near, far) = UnixStream::pair().unwrap();
                runtime::spawn(pass(near, true, counted.clone()));
                runtime::spawn(pass(far, false, counted.clone()));
            }
            while counted.load(SeqCst) < 10 * PAIRS {
                runtime::task::yield_now().await;
            }
            // Another thread's tasks go into the queue that all workers share, at once.
            let spawn = move || (0..QUEUED).map(|_| handle.spawn(async {})).collect::<Vec<_>>();
            let queued = std::thread::spawn(spawn).join().unwrap();
            let before = counted.load(SeqCst);
            for task in queued {
                task.await.unwrap();
            }
            counted.load(SeqCst) - before
        });
        let meanwhile = runtime.block_on(task).unwrap();
        assert!(meanwhile < 15 * PAIRS, "{workers} workers: {meanwhile} polls of sockets came first");
    }
}
