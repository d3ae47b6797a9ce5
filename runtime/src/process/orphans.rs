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
//! another process by then. The watch is in the slot, too. So a sweep closes its descriptor, although the
//! task may never run again.
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
use std::task::{Context, Poll, Waker, ready};

use parking_lot::Mutex;

use super::exit::{Notice, Process, kill_by_number};

/// Children that may have no task that runs. The lock is held for a few system calls for each child, none of
/// which waits. A slot is locked inside of it.
static LIST: Mutex<Vec<Arc<Slot>>> = Mutex::new(Vec::new());

/// An orphan, until it has been reaped.
struct Slot(Mutex<Option<Watched>>);

/// A child, and the watch of the runtime whose task waits for it.
struct Watched {
    child: StdChild,
    notice: Option<Notice>,
    /// The task's. The end of a watch wakes no task.
    waker: Option<Waker>,
}

/// Reaps the child if it has ended. Returns whether it is reaped. An error says that other code in this
/// process has reaped it.
fn is_reaped(child: &mut StdChild) -> bool {
    !matches!(child.try_wait(), Ok(None))
}

impl Slot {
    fn new(child: StdChild, notice: Option<Notice>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Some(Watched { child, notice, waker: None }))))
    }

    /// Reaps the child if it has ended. Returns whether it is reaped. The caller hands what is left of it,
    /// `gone`, to [`end`] outside of all locks.
    fn is_reaped(&self, gone: &mut Vec<Watched>) -> bool {
        let mut slot = self.0.lock();
        if slot.as_mut().is_some_and(|watched| is_reaped(&mut watched.child)) {
            gone.extend(slot.take());
        }
        slot.is_none()
    }

    /// Waits until the child is reaped, or its runtime is shut down. Returns what is left of the child if
    /// this call reaped it. No foreign code runs under the lock: the waker is that of a task of this crate.
    fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<Watched>> {
        let mut slot = self.0.lock();
        let Some(watched) = &mut *slot else { return Poll::Ready(None) };
        let Watched { child, notice: Some(notice), waker } = watched else { return Poll::Ready(None) };
        match notice.poll(cx, || Ok(is_reaped(child).then_some(()))) {
            Poll::Ready(Ok(())) => Poll::Ready(slot.take()),
            // The runtime was shut down. Then the drop of the task puts the child on the list.
            Poll::Ready(Err(_)) => Poll::Ready(None),
            Poll::Pending => {
                waker.get_or_insert_with(|| cx.waker().clone()).clone_from(cx.waker());
                Poll::Pending
            }
        }
    }

    /// Ends the watch. Its runtime is not kept by a child on the list.
    fn end_watch(&self) {
        let ended = self.0.lock().as_mut().map(|watched| (watched.notice.take(), watched.waker.take()));
        drop(ended);
    }
}

/// Takes over a child that no handle waits for any more.
pub(super) fn adopt(mut process: Process) {
    if !matches!(process.try_wait(), Ok(None)) {
        return;
    }
    let (mut child, notice) = process.into_parts();
    close_pipes(&mut child);
    // The handle is cloned, because the notice moves into the slot.
    let Some(handle) = notice.handle().cloned() else { return };
    let slot = Slot::new(child, Some(notice));
    let is_listed = handle.shared().is_current_thread();
    if is_listed {
        LIST.lock().push(slot.clone());
    }
    // A runtime that was shut down drops the future, and the drop puts the child on the list.
    drop(handle.spawn(Orphan { slot, is_listed }));
}

/// Kills a child that could not be handed to the caller, and takes over the child.
pub(super) fn kill(mut child: StdChild) {
    // There is no caller to tell of an error.
    let _ = kill_by_number(&mut child);
    close_pipes(&mut child);
    enlist(Slot::new(child, None));
}

/// Closes the pipes that were not taken out, because the child could not be handed to the caller.
fn close_pipes(child: &mut StdChild) {
    drop((child.stdin.take(), child.stdout.take(), child.stderr.take()));
}

/// Ends the watches of children that were reaped, and wakes the tasks that wait for them. Not under a lock:
/// the end of a watch may call a deadlock handler.
fn end(gone: impl IntoIterator<Item = Watched>) {
    for Watched { notice, waker, .. } in gone {
        drop(notice);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Reaps the children on the list that have ended.
pub(super) fn sweep() {
    let gone = reap_all(&mut LIST.lock());
    end(gone);
}

fn enlist(slot: Arc<Slot>) {
    let mut list = LIST.lock();
    list.push(slot);
    let gone = reap_all(&mut list);
    drop(list);
    end(gone);
}

/// Reaps, and keeps the children that still run. Returns what is left of the others, as `is_reaped` does.
fn reap_all(list: &mut Vec<Arc<Slot>>) -> Vec<Watched> {
    let mut gone = Vec::new();
    list.retain(|slot| !slot.is_reaped(&mut gone));
    gone
}

/// The task that waits for an orphan.
struct Orphan {
    slot: Arc<Slot>,
    /// The child is on the list, too.
    is_listed: bool,
}

impl Future for Orphan {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let reaped = ready!(self.slot.poll(cx));
        drop(reaped);
        Poll::Ready(())
    }
}

impl Drop for Orphan {
    fn drop(&mut self) {
        self.slot.end_watch();
        if !self.is_listed && !self.slot.is_reaped(&mut Vec::new()) {
            enlist(self.slot.clone());
        }
    }
}
