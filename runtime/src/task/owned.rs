//! All tasks of a runtime that wait for a wake, so that shutdown finds them. Every other task is in a queue,
//! or is being polled.
//!
//! A task is entered when it is about to wait for the first time, in the table of the worker that has polled
//! it. It leaves when it is about to be `DONE`. So a task that never waits costs nothing here. There are
//! tables rather than linked lists, because links would write to the neighbours' cells, which are on another
//! core or cold.
//!
//! **A worker's table is its own.** Entering and leaving on that worker is plain code, without a
//! lock. A task that ends on another thread leaves its number in `returned`, under a lock. The owner clears
//! these slots before it enters the next task. Until then such a slot has a pointer to a cell that may be
//! gone. No thread follows that pointer before the owner has cleared the slots.
//!
//! A worker that sleeps, blocks, or has left its loop, *lends* its table under the same lock, and does not
//! touch it until it has taken it back. Meanwhile the holder of the lock may change the table and follow its
//! pointers: a task in it ends only after its completer has passed through that lock. Threads without a
//! table, and workers that block, share a few tables, each under a lock.
//!
//! **Nothing slips through.** Once the shutdown has begun, a task that would wait is refused and cancelled
//! instead. The lock of a shared table separates the tasks that were entered before the close, which
//! [`cancel_idle`](Owned::cancel_idle) sees, from the tasks that are refused. A worker that has not seen
//! `is_closed` may still enter tasks. It does so before it lends its table, and the last worker to leave
//! looks at the tables after that.
//!
//! **A table is claimed once.** A thread that has seen `is_closed` claims all tasks that wait in a table, and
//! marks the others, which are cancelled by the owners of their `SCHEDULED`. From then on no task in this
//! table begins to wait, and none is entered: its worker would first take the table back, and behind that
//! lock it sees `is_closed`, too. So later threads skip the table (`is_claimed`). With a million slots each
//! of them would lose a tenth of a second. A thread gives the lock back after each [`PIECE`], because threads
//! that end tasks of the table wait for it. The monitor would take them for stuck, and have spare workers
//! come, which would wait for the same lock.

use std::ptr::NonNull;

use super::cell::Header;
use super::raw::Runnable;
use crate::loom::cell::UnsafeCell;
use crate::loom::sync::Mutex;
use crate::loom::sync::atomic::AtomicBool;
use crate::loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::queue::IntrusiveList;
use crate::util::pad::CachePadded;
use crate::util::rand::thread_below;
use crate::util::slots::Slots;

/// The number of tables for threads that have no table of their own, or have lent it.
const SHARED: u32 = 4;
/// How many slots a thread looks at before it gives the lock back.
const PIECE: u32 = 1024;
/// The most numbers for which a `returned` keeps memory.
const MOST_KEPT: usize = 1024;

/// The tables.
#[derive(Debug)]
pub struct Owned {
    own: Box<[CachePadded<WorkerTable>]>,
    shared: Box<[CachePadded<Mutex<SharedTable>>]>,
    is_closed: AtomicBool,
}

/// The table of one worker.
#[derive(Debug)]
struct WorkerTable {
    /// The worker's alone. While the table is lent, it belongs to the holder of the lock of `side`.
    tasks: UnsafeCell<Slots<Header>>,
    side: Mutex<Side>,
    /// Whether `returned` has numbers: a hint for the owner. Written under the lock.
    has_returned: AtomicBool,
}

/// The part that other threads may touch.
#[derive(Debug)]
struct Side {
    /// Numbers of tasks that ended on other threads while the table was not lent.
    returned: Vec<u32>,
    is_lent: bool,
    /// No task waits in the table any more, and none is entered.
    is_claimed: bool,
}

// SAFETY: one thread at a time touches `tasks`: the owner while it is not lent (duty 1 of `enter` and
// `leave`), and the holder of the lock while it is lent.
unsafe impl Sync for WorkerTable {}

#[derive(Debug)]
struct SharedTable {
    tasks: Slots<Header>,
    is_closed: bool,
    /// As that of [`Side`].
    is_claimed: bool,
}

impl Owned {
    /// Makes a table for each of `workers` workers, and the shared ones. In all they are fewer than
    /// `u16::MAX` (`runtime/builder/build.rs`).
    pub fn new(workers: usize) -> Self {
        assert!(workers + (SHARED as usize) < usize::from(u16::MAX), "{workers} workers");
        let own = || WorkerTable {
            tasks: UnsafeCell::new(Slots::new()),
            side: Mutex::new(Side { returned: Vec::new(), is_lent: false, is_claimed: false }),
            has_returned: AtomicBool::new(false),
        };
        let shared = || SharedTable { tasks: Slots::new(), is_closed: false, is_claimed: false };
        Self {
            own: (0..workers).map(|_| CachePadded::new(own())).collect(),
            shared: (0..SHARED).map(|_| CachePadded::new(Mutex::new(shared()))).collect(),
            is_closed: AtomicBool::new(false),
        }
    }

    /// Enters a task that is about to wait, in the table of `worker`. That is the calling thread's, if it
    /// has one and has not lent it. Returns false if the tables are closed.
    ///
    /// # Safety
    /// 1. The caller is worker `worker`, and has not lent its table. 2. The caller owns the task's
    ///    `SCHEDULED`. 3. The task was not entered before.
    #[inline]
    pub unsafe fn enter(&self, task: NonNull<Header>, worker: Option<usize>) -> bool {
        let Some(index) = worker else {
            // SAFETY: (2) and (3).
            return unsafe { self.enter_shared(task) };
        };
        // Acquire: a caller that is refused may rely on what came before the shutdown.
        if self.is_closed.load(Acquire) {
            return false;
        }
        let own = &self.own[index];
        // Relaxed: it is seen the next time if not now; the lock orders the rest.
        if own.has_returned.load(Relaxed) {
            // SAFETY: (1): the caller is the owner, and has not lent the table.
            unsafe { own.clear_returned(&mut own.side.lock(), usize::MAX) };
        }
        // SAFETY: (2) keeps the cell live.
        let header = unsafe { task.as_ref() };
        header.table.set(index as u16);
        // SAFETY: by (1) the table is ours.
        header.slot.set(own.tasks.with_mut(|tasks| unsafe { (*tasks).insert(task) }));
        true
    }

    /// # Safety
    /// 2. and 3. of [`enter`](Self::enter).
    #[cold]
    unsafe fn enter_shared(&self, task: NonNull<Header>) -> bool {
        let number = thread_below(SHARED);
        let mut table = self.shared[number as usize].lock();
        if !table.is_closed {
            // SAFETY: (2) keeps the cell live.
            let header = unsafe { task.as_ref() };
            header.table.set(self.own.len() as u16 + number as u16);
            header.slot.set(table.tasks.insert(task));
        }
        !table.is_closed
    }

    /// Forgets a task that is about to be `DONE`. `worker` is the calling thread's, if it has one and has
    /// not lent it.
    ///
    /// # Safety
    /// 1. The caller is worker `worker`, and has not lent its table. 2. It owns the task's `SCHEDULED`.
    ///    3. The task was entered.
    #[inline(never)]
    pub unsafe fn leave(&self, task: NonNull<Header>, worker: Option<usize>) {
        // SAFETY: (2) keeps the cell live, and no thread changes the slot any more.
        let header = unsafe { task.as_ref() };
        let (table, slot) = (header.table.get() as usize, header.slot.get());
        match self.own.get(table) {
            Some(own) if worker == Some(table) => {
                // SAFETY: by (1) the table is ours.
                own.tasks.with_mut(|tasks| unsafe { (*tasks).remove(slot) });
            }
            Some(other) => {
                let mut side = other.side.lock();
                if side.is_lent {
                    // SAFETY: the table is lent, and the lock is held.
                    other.tasks.with_mut(|tasks| unsafe { (*tasks).remove(slot) });
                } else {
                    side.returned.push(slot);
                    // Relaxed: a hint.
                    other.has_returned.store(true, Relaxed);
                }
            }
            None => self.shared[table - self.own.len()].lock().tasks.remove(slot),
        }
    }

    /// Refuses tasks from now on.
    pub fn close(&self) {
        self.is_closed.store(true, Release);
        for table in &self.shared {
            table.lock().is_closed = true;
        }
    }

    /// Lends the table of `worker` to any thread that looks for tasks. The worker does not touch it until
    /// [`take_back`](Self::take_back).
    ///
    /// # Safety
    /// 1. Worker `worker` does not touch its table until `take_back`. A lent table may be lent again.
    pub unsafe fn lend(&self, worker: usize) {
        let own = &self.own[worker];
        loop {
            let mut side = own.side.lock();
            // SAFETY: (1) by our (1) the worker does not touch the table. Other threads touch it only under
            // the lock, which is held here.
            unsafe { own.clear_returned(&mut side, PIECE as usize) };
            side.is_lent = side.returned.is_empty();
            if side.is_lent {
                break;
            }
        }
    }

    /// Ends [`lend`](Self::lend).
    pub fn take_back(&self, worker: usize) {
        self.own[worker].side.lock().is_lent = false;
    }

    /// Cancels every task that waits for a wake, in the shared tables, the lent tables, and `own`. Marks the
    /// other tasks there, so that the owner of their `SCHEDULED` cancels them. Returns the number of these
    /// others.
    ///
    /// # Safety
    /// 1. The caller is the worker of `own`.
    pub unsafe fn cancel_idle(&self, own: Option<usize>) -> usize {
        // SAFETY: (1).
        let (mut claimed, left) = unsafe { self.claim_idle(own) };
        while let Some(task) = claimed.pop_task() {
            task.cancel();
        }
        left
    }

    /// As [`cancel_idle`](Self::cancel_idle), but leaves it to the caller to cancel the tasks that wait for a
    /// wake. Returns those, and the number of the others.
    ///
    /// # Safety
    /// 1. The caller is the worker of `own`.
    pub unsafe fn claim_idle(&self, own: Option<usize>) -> (IntrusiveList<Header>, usize) {
        // Acquire: the worker of a table sees it, too, once it has taken the table back.
        let is_closed = self.is_closed.load(Acquire);
        let (mut claimed, mut left) = (IntrusiveList::new(), 0);
        for (i, table) in self.own.iter().enumerate() {
            // SAFETY: (1) by our (1).
            left += unsafe { table.claim_idle(own == Some(i), is_closed, &mut claimed) };
        }
        left += self.shared.iter().map(|table| claim_idle_shared(table, &mut claimed)).sum::<usize>();
        (claimed, left)
    }
}

/// [`Owned::claim_idle`] for a shared table.
fn claim_idle_shared(table: &Mutex<SharedTable>, claimed: &mut IntrusiveList<Header>) -> usize {
    let mut walk = Walk::new(claimed);
    loop {
        let mut table = table.lock();
        // SAFETY: (1) tasks in the table are live while the lock is held.
        if unsafe { walk.go_on(&table.tasks, table.is_claimed) } {
            table.is_claimed |= table.is_closed;
            return walk.left;
        }
    }
}

impl WorkerTable {
    /// [`Owned::claim_idle`] for this table. Does nothing if it is neither lent nor the caller's.
    ///
    /// # Safety
    /// 1. If the table `is_own`, the caller is its worker.
    unsafe fn claim_idle(&self, is_own: bool, is_closed: bool, claimed: &mut IntrusiveList<Header>) -> usize {
        let mut walk = Walk::new(claimed);
        loop {
            let mut side = self.side.lock();
            if !side.is_lent && !is_own {
                return 0;
            }
            // SAFETY: `clear_returned`: (1) the table is the caller's by our (1), or it is lent, and the lock
            // is held. `go_on`: (1) the slots of ended tasks are cleared; all other tasks are live, because
            // their completers wait for the lock.
            let is_over = unsafe {
                self.clear_returned(&mut side, usize::MAX);
                self.tasks.with(|tasks| walk.go_on(&*tasks, side.is_claimed))
            };
            if is_over {
                side.is_claimed |= is_closed;
                return walk.left;
            }
        }
    }

    /// Clears the slots of tasks that ended on other threads, of up to `most` of them.
    ///
    /// # Safety
    /// 1. The table is the caller's: the caller is the owner and has not lent it, or it is lent. `side` is
    ///    this table's.
    #[cold]
    unsafe fn clear_returned(&self, side: &mut Side, most: usize) {
        if side.returned.is_empty() {
            return;
        }
        let kept = side.returned.len().saturating_sub(most);
        // SAFETY: (1).
        self.tasks
            .with_mut(|tasks| side.returned.drain(kept..).for_each(|slot| unsafe { (*tasks).remove(slot) }));
        if kept == 0 {
            if side.returned.capacity() > MOST_KEPT {
                side.returned = Vec::new();
            }
            self.has_returned.store(false, Relaxed);
        }
    }
}

/// A thread's way through a table, in pieces.
struct Walk<'a> {
    /// Gets the tasks that wait for a wake.
    claimed: &'a mut IntrusiveList<Header>,
    /// How many tasks others have claimed already, or own.
    left: usize,
    next: u32,
}

impl<'a> Walk<'a> {
    fn new(claimed: &'a mut IntrusiveList<Header>) -> Self {
        Self { claimed, left: 0, next: 0 }
    }

    /// Claims the tasks of the next piece that wait for a wake, and marks the others there. Only counts the
    /// tasks if the table `is_claimed`. Returns whether the walk is over.
    ///
    /// # Safety
    /// 1. The tasks are live.
    unsafe fn go_on(&mut self, tasks: &Slots<Header>, is_claimed: bool) -> bool {
        if is_claimed {
            self.left = tasks.len();
            return true;
        }
        let begin = self.next;
        self.next = begin.saturating_add(PIECE).min(tasks.end());
        for task in tasks.range(begin..self.next) {
            // SAFETY: (1).
            match unsafe { Runnable::claim_idle(task) } {
                Some(task) => self.claimed.push_task(task),
                None => self.left += 1,
            }
        }
        self.next == tasks.end()
    }
}
