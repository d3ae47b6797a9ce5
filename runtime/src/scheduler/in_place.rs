//! Calls that block, in the middle of a poll or a job: what a worker does before and after; see `away.rs`.

use std::panic::Location;

use super::shared::Shared;
use super::sites::Site;
use super::worker::Worker;
use crate::{context, coop};

/// Runs `f`, which may block, while other threads take over this worker's part. Nearly free if `f` is short
/// and nothing waits. The call is counted as one at `site`.
pub fn block_in_place<R>(worker: &Worker, site: &'static Location<'static>, f: impl FnOnce() -> R) -> R {
    block(worker, Some(site), f)
}

/// As [`block_in_place`], but `f` surely sleeps, so other workers are asked at once.
pub fn sleep_in_place<R>(worker: &Worker, f: impl FnOnce() -> R) -> R {
    block(worker, None, f)
}

/// `site`: where the user has marked it; none: `f` surely sleeps.
fn block<R>(worker: &Worker, site: Option<&'static Location<'static>>, f: impl FnOnce() -> R) -> R {
    let (shared, is_sleep) = (worker.shared(), site.is_none());
    if worker.seat().is_none() {
        // The thread may hold a seat of another runtime all the same, and work for this runtime on top of
        // that seat's stack.
        context::expose_pieces();
    }
    if shared.is_current_thread() {
        // There are no other workers.
        return coop::suspended(f);
    }
    struct Return<'a> {
        worker: &'a Worker,
        had_table: bool,
        site: Option<&'a Site>,
    }
    impl Drop for Return<'_> {
        fn drop(&mut self) {
            if self.worker.end_blocking(self.had_table) {
                self.site.inspect(|site| site.relieved.add(1));
            }
        }
    }
    // A call inside of another: the thread is away already, and may have got new child jobs and tasks since.
    let _return = (!worker.is_blocked()).then(|| {
        let site = site.map(|site| worker.processor().sites.of(site));
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

/// Has other workers see to what this worker has while it is marked as blocked. `is_first`: it was not marked
/// before, and counts as blocked from now on.
pub fn mark(worker: &Worker, is_first: bool) {
    if is_first {
        worker.shared().marked_blocked();
    }
    leave(worker);
}

fn leave(worker: &Worker) {
    worker.expose();
    if worker.shared().lifecycle.has_begun() {
        cancel_lent(worker.shared());
    }
}

/// Workers that wind down may have looked before the table was lent; and there may be no other worker.
fn cancel_lent(shared: &Shared) {
    // SAFETY: (1) the caller keeps its runtime; no table is claimed as the caller's own.
    unsafe {
        context::in_surroundings(shared.current_on_threads(), || _ = shared.owned.cancel_idle(None));
    }
}
