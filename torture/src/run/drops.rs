//! Tasks and closures whose destructors block at the end of the runtime, and tasks that wait for them.

use std::future::pending;
use std::ops::Range;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use runtime::Handle;
use runtime::parallel::join;
use runtime::sync::Notify;
use runtime::task::{block_in_place, yield_now};

use super::{Cx, OnDrop, World, lock, micros, spin};
use crate::check::token::Token;
use crate::program::*;

/// How long the lock is held in `block_in_place`, and how long a holder sleeps until it looks again whether
/// the shutdown has begun.
const TICK: Duration = Duration::from_micros(50);
/// How often the operation yields at most until its tasks wait.
const YIELDS: usize = 10;
/// How long the first closure of a `join` waits at most until another worker has stolen the second.
const THEFT: Duration = Duration::from_millis(1);

/// What the tasks and closures of one operation share.
struct Group {
    lock: Mutex<()>,
    /// How many tasks there are.
    tasks: usize,
    /// By part, whether it has ended. The parts are the tasks, the queued closures and the sleepers, in this
    /// order. A task has ended when its destructor has run.
    ended: Mutex<Vec<bool>>,
    /// For threads that wait.
    has_ended: Condvar,
    /// For futures that wait.
    ends: Notify,
    begun: AtomicUsize,
}

impl Group {
    fn end(&self, part: usize) {
        lock(&self.ended)[part] = true;
        self.has_ended.notify_all();
        self.ends.notify_waiters();
    }

    /// Blocks until a part has ended.
    fn wait(&self, part: usize) {
        self.wait_all(part..part + 1);
    }

    /// Blocks until these parts have ended.
    fn wait_all(&self, parts: Range<usize>) {
        let ended = lock(&self.ended);
        let waits = self.has_ended.wait_while(ended, |ended| ended[parts.clone()].contains(&false));
        drop(waits.unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits until the destructor of `task` has run.
    async fn after(&self, task: usize) {
        loop {
            // It notices what is told from here on.
            let told = self.ends.notified();
            if lock(&self.ended)[task] {
                return;
            }
            told.await;
        }
    }
}

/// How deep a destructor forks.
const DEPTH: u32 = 3;

/// A value whose destructor calls `join`, once it is armed. Before, it may be dropped on a stack that others
/// need.
pub struct Forks {
    w: Arc<World>,
    is_armed: bool,
}

impl Forks {
    /// A value that is not armed.
    pub fn new(cx: &Cx) -> Self {
        Self { w: cx.w.clone(), is_armed: false }
    }

    /// Has the destructor fork.
    pub fn arm(&mut self) {
        self.is_armed = true;
    }
}

impl Drop for Forks {
    fn drop(&mut self) {
        if self.is_armed && leaves(DEPTH) != 1 << DEPTH {
            self.w.fault("a join in a destructor came to something else");
        }
    }
}

fn leaves(depth: u32) -> u32 {
    if depth == 0 {
        spin(2);
        return 1;
    }
    let (a, b) = join(|| leaves(depth - 1), || leaves(depth - 1));
    a + b
}

/// The value of a task that waits for ever.
struct Kept {
    group: Arc<Group>,
    task: usize,
    kind: DropKind,
    /// The task has been polled. Before that, the spawner may drop it, on a stack that others need.
    is_polled: bool,
    handle: Handle,
    /// The sleepers among the parts.
    sleepers: Range<usize>,
    forks: Forks,
    _token: Token,
}

impl Drop for Kept {
    fn drop(&mut self) {
        let group = &self.group;
        match self.kind {
            _ if !self.is_polled => {}
            // The latter: when its fields are dropped.
            DropKind::Plain | DropKind::Joins => {}
            DropKind::Locks => drop(lock(&group.lock)),
            DropKind::Holds => {
                let _guard = lock(&group.lock);
                block_in_place(|| thread::sleep(TICK));
            }
            DropKind::Waits { other } => block_in_place(|| group.wait(other)),
            DropKind::Drives { other } => block_in_place(|| self.handle.block_on(group.after(other))),
            DropKind::AfterClosure { closure } => block_in_place(|| group.wait(group.tasks + closure)),
            DropKind::AfterSleepers => block_in_place(|| group.wait_all(self.sleepers.clone())),
        }
        group.end(self.task);
    }
}

/// The value of a closure that waits for a thread of the blocking pool.
struct Queued {
    group: Arc<Group>,
    /// Its place among the parts.
    part: usize,
    kind: QueuedKind,
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
            match self.kind {
                QueuedKind::Locks => drop(lock(&self.group.lock)),
                QueuedKind::Waits { other } => block_in_place(|| self.group.wait(other)),
            }
        }
        self.group.end(self.part);
    }
}

/// Spawns all of `drops` on a runtime, and waits a moment until the tasks wait.
pub async fn spawn(cx: &Cx, handle: &Handle, drops: &Drops) {
    let count = drops.kept.len();
    let sleepers = count + drops.closures.len()..count + drops.closures.len() + drops.sleepers;
    let group = Arc::new(Group {
        lock: Mutex::new(()),
        tasks: count,
        ended: Mutex::new(vec![false; sleepers.end]),
        has_ended: Condvar::new(),
        ends: Notify::new(),
        begun: AtomicUsize::new(0),
    });
    for (task, &kind) in drops.kept.iter().enumerate() {
        let mut value = Kept {
            group: group.clone(),
            task,
            kind,
            is_polled: false,
            handle: handle.clone(),
            sleepers: sleepers.clone(),
            forks: Forks::new(cx),
            _token: cx.token(),
        };
        drop(handle.spawn(async move {
            value.is_polled = true;
            if value.kind == DropKind::Joins {
                value.forks.arm();
            }
            value.group.begun.fetch_add(1, SeqCst);
            pending::<()>().await;
            drop(value);
        }));
    }
    for part in sleepers {
        let (time, token, awaited, inner) = (micros(drops.time), cx.token(), drops.awaited, group.clone());
        // Also if the closure is not run.
        let ended = OnDrop::new({
            let group = group.clone();
            move || group.end(part)
        });
        drop(handle.spawn_blocking(move || {
            let _kept = (token, ended);
            match awaited {
                Some(task) => inner.wait(task),
                None => thread::sleep(time),
            }
        }));
    }
    for (closure, &kind) in drops.closures.iter().enumerate() {
        let (part, state) = (count + closure, Arc::new(AtomicUsize::new(0)));
        let value = Queued { group: group.clone(), part, kind, state: state.clone(), _token: cx.token() };
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
        let (inner, time, token, group) = (handle.clone(), micros(drops.time), cx.token(), group.clone());
        drop(handle.spawn(async move {
            let _token = token;
            hold(&group, &inner, time);
        }));
    }
    for &waiter in &drops.waiters {
        let (cx, inner, time, group) = (cx.clone(), handle.clone(), micros(drops.time), group.clone());
        let token = cx.token();
        drop(handle.spawn(async move {
            let _token = token;
            if waiter.kind == WaiterKind::Early || sees_shutdown(&inner, time) {
                let _guard = waiter.holds_lock.then(|| lock(&group.lock));
                wait_for(&cx, &group, waiter);
            }
        }));
    }
    if drops.has_returner {
        let (inner, time, token, group) = (handle.clone(), micros(drops.time), cx.token(), group.clone());
        drop(handle.spawn(async move {
            let _token = token;
            if block_in_place(|| sees_shutdown(&inner, time)) {
                drop(lock(&group.lock));
            }
        }));
    }
}

/// Blocks until the shutdown has begun, but no longer than `limit`, and returns whether it has.
fn sees_shutdown(handle: &Handle, limit: Duration) -> bool {
    let end = Instant::now() + limit;
    loop {
        // Such a task is finished only if it is cancelled.
        let probe = handle.spawn(pending::<()>());
        if probe.is_finished() {
            return true;
        }
        probe.abort();
        if Instant::now() >= end {
            return false;
        }
        thread::sleep(TICK);
    }
}

/// Holds the lock in a poll until the shutdown has begun, but no longer than `limit`, and then across a
/// blocking call. It does not wait for the lock: one that holds it may wait for a destructor, and a worker
/// that blocks without a word keeps the tasks in its table.
fn hold(group: &Group, handle: &Handle, limit: Duration) {
    let Ok(_guard) = group.lock.try_lock() else { return };
    sees_shutdown(handle, limit);
    block_in_place(|| thread::sleep(TICK));
}

/// Waits in a poll for the destructor of a task, which runs while the runtime ends.
fn wait_for(cx: &Cx, group: &Group, waiter: Waiter) {
    let wait = || group.wait(waiter.other);
    match waiter.kind {
        WaiterKind::InPlace | WaiterKind::Early => block_in_place(wait),
        WaiterKind::Install(pool) => cx.threads(pool).install(wait),
        WaiterKind::Join => {
            let is_begun = AtomicBool::new(false);
            let first = || {
                let end = Instant::now() + THEFT;
                while Instant::now() < end && !is_begun.load(SeqCst) {
                    thread::sleep(TICK);
                }
            };
            let second = || {
                is_begun.store(true, SeqCst);
                block_in_place(wait);
            };
            _ = join(first, second);
        }
    }
}
