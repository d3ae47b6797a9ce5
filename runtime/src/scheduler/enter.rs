//! A thread becomes a worker, or an external thread: in the thread-local, and for calls that block.

use std::ptr;

use crate::scheduler::{OwnJobs, Worker, context, in_place};
use crate::util::block_on::{Blocker, replace_blocker};

/// Makes this thread the worker `worker` while `f` runs.
pub fn enter_worker<R>(worker: &Worker, f: impl FnOnce() -> R) -> R {
    struct Restore(*const Worker, *const OwnJobs, Option<Blocker>);
    impl Drop for Restore {
        fn drop(&mut self) {
            replace_blocker(self.2);
            // SAFETY: (1) these pointers were there before, so a frame further out keeps them.
            unsafe { context::replace_worker(self.0, Some(self.1)) };
        }
    }
    let own = worker.job_processor().map(ptr::from_ref);
    // SAFETY: (1) `worker` is borrowed for this call, so it is this thread's and keeps its job processor.
    // `Restore` puts the former pointers back.
    let (outer, job_processor) = unsafe { context::replace_worker(worker, own) };
    worker.set_outer(outer);
    let _restore = Restore(outer, job_processor, replace_blocker(Some(announce_blocking)));
    f()
}

/// Runs `f` on the calling thread, which is no worker, as the holder of `job_processor`.
pub fn enter_job_processor<R>(job_processor: &OwnJobs, f: impl FnOnce() -> R) -> R {
    struct Restore(*const OwnJobs, Option<Blocker>);
    impl Drop for Restore {
        fn drop(&mut self) {
            replace_blocker(self.1);
            // SAFETY: (1) this pointer was there before, so a frame further out keeps it.
            unsafe { context::replace_job_processor(self.0) };
        }
    }
    // SAFETY: (1) the view is borrowed for this call. `Restore` puts the former value back.
    let outer = unsafe { context::replace_job_processor(job_processor) };
    let _restore = Restore(outer, replace_blocker(Some(announce_blocking)));
    // The end of a runtime may wait for the job processor.
    context::enter_block_on(f)
}

/// The step of `block_on` before it sleeps, on the thread of a worker or on an external thread. Other threads
/// get the worker's tasks, and the jobs that it has kept private.
fn announce_blocking(f: &mut dyn FnMut()) {
    // SAFETY: (1) the frame that has made this thread the holder is below this one.
    let _on_child_jobs = unsafe { context::expose_while_blocked() };
    context::with_worker(|worker| match worker {
        Some(worker) => in_place::sleep_in_place(worker, f),
        None => f(),
    });
}

/// Makes this thread the worker `worker` for good. It was no worker before. It holds the worker's job
/// processor during its computations: see [`idle_for_good`](context::idle_for_good).
pub fn become_worker(worker: &'static Worker) {
    context::set_worker_for_good(worker);
    replace_blocker(Some(announce_blocking));
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::task::{Wake, Waker};

    use super::*;
    use crate::config::{Config, Flavor};
    use crate::driver::Driver;
    use crate::scheduler::shared::tests::NoThreads;

    struct Foreign;

    impl Wake for Foreign {
        fn wake(self: Arc<Self>) {}
    }

    #[test]
    fn a_dispatch_below_the_newest_worker_keeps_foreign_code() {
        let config = Config { flavor: Flavor::CurrentThread, is_pool: false, ..Config::of_pool(1) };
        let (outer, inner) = (NoThreads::new(1), NoThreads::of(config, Driver::new(None, None)));
        let (worker, newest) = (outer.worker(0), inner.worker(0));
        let foreign = Arc::new(Foreign);
        let left = || Arc::strong_count(&foreign) - 1;
        let leave_foreign_code = || {
            context::wake(Waker::from(foreign.clone()));
            context::drop_foreign(foreign.clone());
        };
        enter_worker(&worker, || {
            enter_worker(&newest, || {
                leave_foreign_code();
                assert_eq!(left(), 0);
                worker.dispatch(|_| leave_foreign_code());
                assert_eq!(left(), 2);
                worker.call_foreign();
                assert_eq!(left(), 0);
            });
        });
    }
}
