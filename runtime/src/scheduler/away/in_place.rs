//! Calls that block in the middle of a poll or a job: what a worker does before and after them; see
//! `away/mod.rs`.

use std::panic::Location;

use crate::coop;
use crate::scheduler::call_sites::CallSite;
use crate::scheduler::context;
use crate::scheduler::worker::Worker;

/// Runs `f`, which may block, while other threads do this worker's part. Nearly free if `f` is short and no
/// work waits. Counts the call for the call site `site`.
pub fn block_in_place<R>(worker: &Worker, site: &'static Location<'static>, f: impl FnOnce() -> R) -> R {
    block(worker, Some(site), f)
}

/// As [`block_in_place`], but `f` surely sleeps, so other workers are called at once.
pub fn sleep_in_place<R>(worker: &Worker, f: impl FnOnce() -> R) -> R {
    block(worker, None, f)
}

/// `site`: the user's call site. None: `f` surely sleeps.
fn block<R>(worker: &Worker, site: Option<&'static Location<'static>>, f: impl FnOnce() -> R) -> R {
    let (shared, is_sleep) = (worker.shared(), site.is_none());
    if worker.job_processor().is_none() {
        // This thread may own a job processor of another runtime, below this call on its stack. Other threads
        // must be able to take the child jobs there.
        context::expose_child_jobs();
    }
    if shared.is_current_thread() {
        // There are no other workers.
        return coop::suspended(f);
    }
    struct Return<'a> {
        worker: &'a Worker,
        had_table: bool,
        site: Option<&'a CallSite>,
    }
    impl Drop for Return<'_> {
        fn drop(&mut self) {
            if self.worker.end_blocking(self.had_table) {
                self.site.inspect(|site| site.compensated.add(1));
            }
        }
    }
    // In a nested call the thread is away already, and may have got new child jobs and tasks since.
    let _return = (!worker.is_blocked()).then(|| {
        let site = site.map(|site| worker.processor().call_sites.of(site));
        site.inspect(|site| site.calls.add(1));
        Return { worker, had_table: worker.begin_blocking(), site }
    });
    // `SeeShutdown`, behind `SayBlocked`.
    if is_sleep || shared.lifecycle.has_begun() {
        shared.count_blocked(worker.index());
        leave(worker);
    } else if worker.holds_work() {
        worker.expose();
        shared.count_blocked_if_one_rests(worker.index());
    }
    coop::suspended(f)
}

/// Makes other workers see to this worker's work while it is marked as blocked. `is_first`: it was not marked
/// before, and counts as blocked from now on.
pub fn mark(worker: &Worker, is_first: bool) {
    if is_first {
        worker.shared().marked_blocked();
    }
    leave(worker);
}

fn leave(worker: &Worker) {
    worker.leave_wakers();
    worker.expose();
    if worker.shared().lifecycle.has_begun() {
        worker.shared().queue_lent();
    }
}
