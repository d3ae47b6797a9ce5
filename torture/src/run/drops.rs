//! Tasks and closures whose destructors block at the end of the runtime.

use std::future::pending;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use runtime::Handle;
use runtime::task::{block_in_place, yield_now};

use super::{Cx, lock, micros};
use crate::check::token::Token;
use crate::program::*;

/// How long the lock is held in `block_in_place`, and how long a holder sleeps until it looks again whether
/// the shutdown has begun.
const TICK: Duration = Duration::from_micros(50);
/// How often the operation yields at most until its tasks wait.
const YIELDS: usize = 10;

/// What the tasks and closures of one operation share.
struct Group {
    lock: Mutex<()>,
    /// By task, whether its destructor has run.
    ended: Mutex<Vec<bool>>,
    has_ended: Condvar,
    begun: AtomicUsize,
}

impl Group {
    fn end(&self, task: usize) {
        lock(&self.ended)[task] = true;
        self.has_ended.notify_all();
    }

    /// Blocks until the destructor of `task` has run.
    fn wait(&self, task: usize) {
        let ended = lock(&self.ended);
        let waits = self.has_ended.wait_while(ended, |ended| !ended[task]);
        drop(waits.unwrap_or_else(PoisonError::into_inner));
    }
}

/// The value of a task that waits for ever.
struct Kept {
    group: Arc<Group>,
    task: usize,
    kind: DropKind,
    /// The task has been polled. Before that, the spawner may drop it, on a stack that others need.
    is_polled: bool,
    _token: Token,
}

impl Drop for Kept {
    fn drop(&mut self) {
        let group = &self.group;
        match self.kind {
            _ if !self.is_polled => {}
            DropKind::Plain => {}
            DropKind::Locks => drop(lock(&group.lock)),
            DropKind::Holds => {
                let _guard = lock(&group.lock);
                block_in_place(|| thread::sleep(TICK));
            }
            DropKind::Waits { other } => block_in_place(|| group.wait(other)),
        }
        group.end(self.task);
    }
}

/// The value of a closure that waits for a thread of the blocking pool.
struct Queued {
    group: Arc<Group>,
    /// [`IN_QUEUE`] once the closure was queued, [`HAS_RUN`] once it has run.
    state: Arc<AtomicUsize>,
    _token: Token,
}

const IN_QUEUE: usize = 1;
const HAS_RUN: usize = 2;

impl Drop for Queued {
    fn drop(&mut self) {
        // A closure that is refused is dropped by its spawner, on a stack that others need.
        if self.state.load(SeqCst) == IN_QUEUE {
            drop(lock(&self.group.lock));
        }
    }
}

/// Spawns all of `drops` on a runtime, and waits a moment until the tasks wait.
pub async fn spawn(cx: &Cx, handle: &Handle, drops: &Drops) {
    let count = drops.kept.len();
    let group = Arc::new(Group {
        lock: Mutex::new(()),
        ended: Mutex::new(vec![false; count]),
        has_ended: Condvar::new(),
        begun: AtomicUsize::new(0),
    });
    for (task, &kind) in drops.kept.iter().enumerate() {
        let group = group.clone();
        let mut value = Kept { group, task, kind, is_polled: false, _token: cx.token() };
        drop(handle.spawn(async move {
            value.is_polled = true;
            value.group.begun.fetch_add(1, SeqCst);
            pending::<()>().await;
            drop(value);
        }));
    }
    for _ in 0..drops.sleepers {
        let (time, token) = (micros(drops.time), cx.token());
        drop(handle.spawn_blocking(move || {
            thread::sleep(time);
            drop(token);
        }));
    }
    for _ in 0..drops.closures {
        let state = Arc::new(AtomicUsize::new(0));
        let value = Queued { group: group.clone(), state: state.clone(), _token: cx.token() };
        drop(handle.spawn_blocking(move || {
            value.state.fetch_or(HAS_RUN, SeqCst);
            drop(value);
        }));
        state.fetch_or(IN_QUEUE, SeqCst);
    }
    for _ in 0..YIELDS {
        if group.begun.load(SeqCst) == count {
            break;
        }
        yield_now().await;
    }
    if drops.has_holder {
        let (inner, time, token) = (handle.clone(), micros(drops.time), cx.token());
        drop(handle.spawn(async move {
            let _token = token;
            hold(&group, &inner, time);
        }));
    }
}

/// Holds the lock in a poll until the shutdown has begun, but no longer than `limit`, and then across a
/// blocking call.
fn hold(group: &Group, handle: &Handle, limit: Duration) {
    let _guard = lock(&group.lock);
    let end = Instant::now() + limit;
    // A task that is finished at once was cancelled. If another worker was as fast, no harm is done.
    while Instant::now() < end && !handle.spawn(async {}).is_finished() {
        thread::sleep(TICK);
    }
    block_in_place(|| thread::sleep(TICK));
}
