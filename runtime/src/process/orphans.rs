//! Children that were still running when their handle was dropped.
//!
//! An orphan that is not reaped stays in the system's table as long as this process lives. Two places reap
//! orphans, and neither is a thread:
//! - **A task** of the runtime that watches the child waits for the exit, as the program would have. It reaps
//!   at once, costs nothing meanwhile, and looks at no other child.
//! - **A list** of the process takes the children that no runtime watches any more. The next [`sweep`] reaps
//!   those that have ended. A sweep comes with the next spawn of a child, and when the next child joins the
//!   list.
//!
//! The list cannot be the only place: a server that starts a child a day would keep a zombie for a day. The
//! task cannot be the only place, because a runtime may be dropped while its children run.
//!
//! Rejected: sweeping in the driver's turn, or at each `SIGCHLD` (Tokio), because a sweep asks the system
//! about each orphan, and because the driver would have to know of processes.

use std::future::Future;
use std::pin::Pin;
use std::process::Child as StdChild;
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;

use super::exit::{Process, kill_by_number};

/// Children that no runtime watches. The lock is held for a few system calls, none of which waits.
static LIST: Mutex<Vec<StdChild>> = Mutex::new(Vec::new());

/// Takes over a child that no handle waits for any more.
pub(super) fn adopt(mut process: Process) {
    if !matches!(process.try_wait(), Ok(None)) {
        return;
    }
    // The handle is cloned, because the process moves into the task.
    let handle = process.handle().cloned();
    let orphan = Orphan(Some(process));
    if let Some(handle) = handle {
        // A runtime that was shut down drops the future, and the drop puts the child on the list.
        drop(handle.spawn(orphan));
    }
}

/// Kills a child that could not be handed to the caller, and takes over the child.
pub(super) fn kill(mut child: StdChild) {
    // There is no caller to tell of an error.
    let _ = kill_by_number(&mut child);
    enlist(child);
}

/// Reaps the children on the list that have ended.
pub(super) fn sweep() {
    reap_all(&mut LIST.lock());
}

fn enlist(child: StdChild) {
    let mut list = LIST.lock();
    list.push(child);
    reap_all(&mut list);
}

/// Reaps, and keeps the children that still run. An error says that other code in this process has reaped the
/// child.
fn reap_all(list: &mut Vec<StdChild>) {
    list.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
}

/// The task that waits for an orphan. `None` after its end.
struct Orphan(Option<Process>);

impl Future for Orphan {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(process) = &mut self.0 else { return Poll::Ready(()) };
        if ready!(process.poll_wait(cx)).is_ok() || process.id().is_none() {
            self.0 = None;
        }
        // After another error, the drop puts the child on the list.
        Poll::Ready(())
    }
}

impl Drop for Orphan {
    fn drop(&mut self) {
        if let Some(process) = self.0.take() {
            enlist(process.into_std());
        }
    }
}
