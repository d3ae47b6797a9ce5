//! The calls that wait until a file has reached its device.
//!
//! The system writes a file's data to the device later than the program. It reports an error of such a write
//! to one sync only. The next sync succeeds, although data is lost. So the error must not be lost with the
//! future of a sync. If that future is dropped, its job goes to the file's [`Syncs`]:
//! - The next sync waits for the job, and returns its error instead of making a call of its own. Without the
//!   wait, that call could follow the one that took the error from the system, and would succeed.
//! - A flush returns the error if the job has ended. It does not wait for the device.
//!
//! Several syncs whose futures are there do not wait for each other.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use super::super::backend::{self, Job};
use crate::coop;

type SyncJob = Job<io::Result<()>>;

/// The syncs of a file whose futures were dropped.
#[derive(Debug)]
pub struct Syncs(Mutex<Vec<SyncJob>>);

impl Syncs {
    pub fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Waits for the syncs whose futures were dropped, and makes `call` if they had no error.
    pub async fn sync(&self, call: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<()> {
        let mut under_way = UnderWay { jobs: std::mem::take(&mut *self.0.lock()), of: self };
        while let Some(made) = under_way.next().await {
            // A job that was not made had no error to take. `call` replaces it.
            made.unwrap_or(Ok(()))?;
        }
        match backend::start_lengthy(call) {
            Ok(job) => under_way.jobs.push(job),
            Err(call) => return call(),
        }
        under_way.next().await.expect("the job was pushed")?
    }

    /// Takes an error of a sync whose future was dropped, if that sync has ended.
    pub fn take_error(&mut self) -> io::Result<()> {
        let mut result = Ok(());
        // No task waits for these jobs. The budget is for calls that wait.
        let cx = &mut Context::from_waker(Waker::noop());
        coop::suspended(|| {
            self.0.get_mut().retain_mut(|job| {
                // One error is told at a time.
                match if result.is_ok() { Pin::new(job).poll(cx) } else { Poll::Pending } {
                    Poll::Ready(made) => result = made.unwrap_or(Ok(())),
                    Poll::Pending => return true,
                }
                false
            });
        });
        result
    }
}

/// The jobs for which a sync waits. Those that have not ended go back to the file when this is dropped.
struct UnderWay<'a> {
    jobs: Vec<SyncJob>,
    of: &'a Syncs,
}

impl UnderWay<'_> {
    /// Waits for the end of a job, and returns its result. Returns `None` if there is no job.
    async fn next(&mut self) -> Option<io::Result<io::Result<()>>> {
        let made = self.jobs.last_mut()?.await;
        self.jobs.pop();
        Some(made)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.jobs.is_empty() {
            self.of.0.lock().append(&mut self.jobs);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::pin::pin;
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    use super::*;

    fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    fn broken() -> io::Error {
        io::Error::from_raw_os_error(libc::EIO)
    }

    #[track_caller]
    fn is_broken(result: io::Result<()>) {
        assert_eq!(result.expect_err("the device is broken").raw_os_error(), Some(libc::EIO));
    }

    /// Begins a sync that fails when the sender is dropped, and drops its future.
    fn drop_sync(syncs: &Syncs) -> mpsc::Sender<()> {
        let (end, ended) = mpsc::channel();
        let call = move || {
            _ = ended.recv();
            Err(broken())
        };
        assert!(poll_once(pin!(syncs.sync(call))).is_pending());
        end
    }

    fn block_on(future: impl Future) {
        crate::Builder::new_current_thread().build().unwrap().block_on(future);
    }

    #[test]
    fn a_sync_waits_for_a_dropped_one_and_returns_its_error() {
        block_on(async {
            let syncs = Syncs::new();
            let end = drop_sync(&syncs);
            for _ in 0..2 {
                assert!(poll_once(pin!(syncs.sync(|| Ok(())))).is_pending(), "the first has not ended");
            }
            let mut next = pin!(syncs.sync(|| panic!("there was an error, so this is not made")));
            assert!(poll_once(next.as_mut()).is_pending());
            drop(end);
            is_broken(next.await);
            syncs.sync(|| Ok(())).await.expect("the error is told once");
        });
    }

    #[test]
    fn an_error_of_a_dropped_sync_is_told_once() {
        block_on(async {
            let mut syncs = Syncs::new();
            // The second waits for the first, so its call is not begun.
            let ends = [drop_sync(&syncs), drop_sync(&syncs)];
            syncs.take_error().expect("the first has not ended");
            drop(ends);
            let limit = Instant::now() + Duration::from_secs(60);
            while syncs.take_error().is_ok() {
                assert!(Instant::now() < limit, "the error is lost");
                crate::task::yield_now().await;
            }
            syncs.sync(|| Ok(())).await.expect("the error is told once");
            is_broken(syncs.sync(|| Err(broken())).await);
            syncs.sync(|| Ok(())).await.expect("it was told");
        });
    }

    /// Its runtime ended before it began.
    #[test]
    fn a_dropped_sync_that_was_not_made_is_no_error() {
        let mut syncs = Syncs::new();
        let runtime = crate::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        let (end, ended) = mpsc::channel::<()>();
        runtime.block_on(async {
            drop(crate::task::spawn_blocking(move || _ = ended.recv()));
            assert!(poll_once(pin!(syncs.sync(|| panic!("the thread is taken")))).is_pending());
        });
        runtime.shutdown_background();
        syncs.take_error().unwrap();
        block_on(async { syncs.sync(|| Ok(())).await.unwrap() });
        drop(end);
    }
}
