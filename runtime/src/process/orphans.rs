//! Children that were still running when their handle was dropped.
//!
//! An orphan that is not reaped stays in the system's table as long as this process lives. Two places reap
//! orphans, and neither is a thread:
//! - **A task** of the runtime that watches the child waits for the exit, as the program would have. It reaps
//!   at once, costs nothing meanwhile, and looks at no other child.
//! - **A list** of the process has the children that no runtime watches any more, and those that a
//!   `current_thread` runtime watches. The task of such a runtime does not run while no thread is in its
//!   `block_on`. The next [`sweep`] reaps those that have ended. A sweep comes with the next spawn of a
//!   child, and when the next child joins the list after its runtime has ended.
//!
//! A child may have both a task and a place on the list. The first of them that finds its end reaps it, and
//! empties the [`Slot`] that they share. So the other one does not ask about the number, which may belong to
//! another process by then.
//!
//! The list cannot be the only place: a server that starts a child a day would keep a zombie for a day. The
//! task cannot be the only place, because a runtime may be dropped while its children run.
//!
//! Rejected: sweeping in the driver's turn, or at each `SIGCHLD` (Tokio), because a sweep asks the system
//! about each orphan, and because the driver would have to know of processes.

use std::future::Future;
use std::pin::Pin;
use std::process::Child as StdChild;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;

use super::exit::{Notice, Process, kill_by_number};

/// Children that may have no task that runs. The lock is held for a few system calls for each child, none of
/// which waits. A slot is locked inside of it.
static LIST: Mutex<Vec<Arc<Slot>>> = Mutex::new(Vec::new());

/// An orphan, until it has been reaped.
struct Slot(Mutex<Option<StdChild>>);

impl Slot {
    fn new(child: StdChild) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Some(child))))
    }

    /// Reaps the child if it has ended. Returns whether it is reaped. An error says that other code in this
    /// process has reaped it.
    fn is_reaped(&self) -> bool {
        let mut child = self.0.lock();
        if child.as_mut().is_some_and(|child| !matches!(child.try_wait(), Ok(None))) {
            *child = None;
        }
        child.is_none()
    }
}

/// Takes over a child that no handle waits for any more.
pub(super) fn adopt(mut process: Process) {
    if !matches!(process.try_wait(), Ok(None)) {
        return;
    }
    let (mut child, notice) = process.into_parts();
    close_pipes(&mut child);
    let slot = Slot::new(child);
    // The handle is cloned, because the notice moves into the task.
    let Some(handle) = notice.handle().cloned() else { return };
    let is_listed = handle.shared().is_current_thread();
    if is_listed {
        LIST.lock().push(slot.clone());
    }
    // A runtime that was shut down drops the future, and the drop puts the child on the list.
    drop(handle.spawn(Orphan { slot, notice, is_listed }));
}

/// Kills a child that could not be handed to the caller, and takes over the child.
pub(super) fn kill(mut child: StdChild) {
    // There is no caller to tell of an error.
    let _ = kill_by_number(&mut child);
    close_pipes(&mut child);
    enlist(Slot::new(child));
}

/// Closes the pipes that were not taken out, because the child could not be handed to the caller.
fn close_pipes(child: &mut StdChild) {
    drop((child.stdin.take(), child.stdout.take(), child.stderr.take()));
}

/// Reaps the children on the list that have ended.
pub(super) fn sweep() {
    reap_all(&mut LIST.lock());
}

fn enlist(slot: Arc<Slot>) {
    let mut list = LIST.lock();
    list.push(slot);
    reap_all(&mut list);
}

/// Reaps, and keeps the children that still run.
fn reap_all(list: &mut Vec<Arc<Slot>>) {
    list.retain(|slot| !slot.is_reaped());
}

/// The task that waits for an orphan.
struct Orphan {
    slot: Arc<Slot>,
    notice: Notice,
    /// The child is on the list, too.
    is_listed: bool,
}

impl Future for Orphan {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { slot, notice, .. } = self.get_mut();
        // The error is that the runtime was shut down. Then the drop puts the child on the list.
        let _ = ready!(notice.poll(cx, || Ok(slot.is_reaped().then_some(()))));
        Poll::Ready(())
    }
}

impl Drop for Orphan {
    fn drop(&mut self) {
        if !self.is_listed && !self.slot.is_reaped() {
            enlist(self.slot.clone());
        }
    }
}
