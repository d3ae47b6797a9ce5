//! The table of workers that are away and of the spare workers: its numbers, and the rules that follow from
//! them. It knows no runtime: the caller tells it what it has to know of sleeping workers.

use crate::loom::sync::Mutex;
use crate::loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use crate::loom::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, fence};

/// As far as is known, the worker comes back to its queues. The default.
const HERE: u32 = 0;
/// The worker is in a call that may block, and is not counted.
const BLOCKED: u32 = 1;
/// The worker is in such a call, and is counted.
const COUNTED: u32 = 2;

/// Whether a worker is in a call that may block, and whether it is counted; see `away/mod.rs`.
#[derive(Debug, Default)]
pub struct BlockedState(AtomicU32);

impl BlockedState {
    /// `SayBlocked`, by the worker.
    pub fn say_blocked(&self) {
        // SeqCst: pairs with `CloseFence`. Release: the thread that counts this worker may use its table.
        self.0.swap(BLOCKED, SeqCst);
        fence(SeqCst);
    }

    /// The swap of `SayBack`, by the worker. Returns whether the worker was counted.
    pub fn say_back(&self) -> bool {
        // Acquire: `RestLooks` of `monitor/mod.rs`. The lock orders the thread that counted the worker before
        // the worker, which takes its table back behind that lock.
        self.0.swap(HERE, AcqRel) == COUNTED
    }

    /// The compare-and-swap of `CountBlocked`, under the table's lock. Returns whether this counted the
    /// worker.
    pub(super) fn count(&self) -> bool {
        // Acquire: what the worker did before `SayBlocked`. The lock makes sure that the worker finds its
        // table lent.
        self.0.compare_exchange(BLOCKED, COUNTED, AcqRel, Relaxed).is_ok()
    }

    /// Whether the worker is in such a call and is not counted. SeqCst: behind `CloseFence`.
    pub fn is_uncounted(&self) -> bool {
        self.0.load(SeqCst) == BLOCKED
    }

    /// Whether the worker is in such a call: a hint.
    pub fn is_blocked(&self) -> bool {
        self.0.load(Relaxed) != HERE
    }

    /// Whether the worker is in such a call, for `RestLooks` of `monitor/mod.rs`. If it is, its `SayBack`
    /// acquires what the caller did before.
    pub fn is_blocked_in_order(&self) -> bool {
        // A read-modify-write that changes nothing. Acquire: pairs with `SayBlocked`.
        self.0.fetch_add(0, AcqRel) != HERE
    }
}

/// Which workers are away, and which spare workers are there; see `away/mod.rs`.
#[derive(Debug, Default)]
pub struct Away {
    table: Mutex<Table>,
    /// The number of active spare workers, and of workers that are blocked or stalled: hints.
    active: AtomicUsize,
    blocked: AtomicUsize,
    /// Whether some worker is away for a reason other than waiting for a latch.
    is_any: AtomicBool,
    /// Whether some worker yields: a hint, but see `split.rs`.
    has_yielding: AtomicBool,
    /// Whether any spare worker serves: a hint.
    is_any_serving: AtomicBool,
    /// How many tables were lent for workers that others counted as blocked.
    pub(super) lent: AtomicUsize,
    /// The number of threads that wait for latches, and may not run the child jobs on their own job
    /// processors, and of external threads that block.
    on_child_jobs: AtomicUsize,
}

/// What a spare worker that is out of tasks may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The spare worker compensates for a worker that is away, and may do everything.
    Full,
    /// As `Full`, but it takes no child jobs of other workers. For workers that are away only because they
    /// wait for latches.
    Begins,
    /// A spare worker that sees to the driver, to timers, and to work from outside.
    Serves,
    /// The spare worker is not needed.
    Surplus,
}

impl Role {
    /// Whether a worker with this role polls any task.
    pub fn takes_any_task(self) -> bool {
        matches!(self, Self::Full | Self::Begins)
    }
}

/// Counts of spare workers since the runtime was built, and the present numbers of active and resting ones.
#[derive(Debug, Clone, Copy, Default)]
pub struct SpareCounts {
    pub active: usize,
    pub resting: usize,
    /// Threads that have come as far as to take work.
    pub started: u64,
    /// Threads that the system has refused.
    pub refused: u64,
    /// Calls for a new spare worker that found the limit reached.
    pub capped: u64,
}

/// The numbers under the lock.
#[derive(Debug, Default)]
pub struct Table {
    /// Workers that are marked, or are counted as inside of a blocking call.
    pub blocked: usize,
    /// Workers that the monitor found off their CPUs, and spare workers that it wants to help with slow
    /// tasks.
    pub stalled: usize,
    /// How many spare workers have to serve; see `away/mod.rs`.
    pub serving: usize,
    /// Workers that yield to tasks.
    pub yielding: Vec<usize>,
    /// Indices of active spare workers, in ascending order.
    active: Vec<usize>,
    /// Those of them whose threads have not begun, or are inside of the hook for their start. They take no
    /// work yet, and a name or a hook of the user may keep them for long.
    starting: Vec<usize>,
    /// Indices of the resting spare workers; the last to rest is last.
    resting: Vec<usize>,
    /// Which indices of spare workers are in use: `used[i]` stands for index `first + i`. The thread of a
    /// spare worker that ends may still run the user's hooks when its index is free again.
    used: Vec<bool>,
    first: usize,
    /// Permanent workers whose threads have begun, and workers of all kinds that have arrived.
    permanent: usize,
    arrived: usize,
    /// All workers have arrived. They all leave, and no spare worker is admitted.
    is_closed: bool,
    counts: SpareCounts,
}

/// Which spare worker a [call](Table::call) found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// It was resting.
    Resting(usize),
    /// It has no thread yet.
    Fresh(usize),
}

impl Away {
    /// Spare workers have the indices `first..first + spares`.
    pub fn new(first: usize, spares: usize) -> Self {
        let table = Table { used: vec![false; spares], first, ..Table::default() };
        Self { table: Mutex::new(table), ..Self::default() }
    }

    /// Calls `f` with the table, under the lock.
    pub(super) fn read<R>(&self, f: impl FnOnce(&Table) -> R) -> R {
        f(&self.table.lock())
    }

    /// Calls `f` with the table, under the lock, and adapts the hints to what `f` has changed.
    pub(super) fn change<R>(&self, f: impl FnOnce(&mut Table) -> R) -> R {
        let mut table = self.table.lock();
        let result = f(&mut table);
        // Relaxed: hints. But `is_any` is written before the fence of the worker that leaves, and read behind
        // the fence of a push; for `has_yielding` see `split.rs`.
        self.active.store(table.active.len(), Relaxed);
        self.blocked.store(table.full(0), Relaxed);
        self.is_any.store(table.needed(0) > 0, Relaxed);
        self.has_yielding.store(!table.yielding.is_empty(), Relaxed);
        let for_others = table.full(0) + table.yielding.len();
        self.is_any_serving.store(table.serving > 0 && table.active.len() > for_others, Relaxed);
        result
    }

    /// How many spare workers are active: a hint.
    pub fn active(&self) -> usize {
        self.active.load(Relaxed)
    }

    /// Whether some worker is away for a reason other than waiting for a latch: a hint.
    pub fn is_any(&self) -> bool {
        // Relaxed: behind the fence of the push, or of the worker that leaves.
        self.is_any.load(Relaxed)
    }

    /// Whether some worker yields. A hint, unless the caller is behind SleepFence of `idle.rs`: a worker that
    /// yields and relies on the caller does the fence behind `Yield`.
    pub fn has_yielding(&self) -> bool {
        self.has_yielding.load(Relaxed)
    }

    /// Whether any spare worker serves, because all workers are inside of long polls: a hint.
    pub fn is_any_serving(&self) -> bool {
        self.is_any_serving.load(Relaxed)
    }

    /// How many workers are blocked or stalled. A hint, but exact while no worker changes state.
    pub fn blocked(&self) -> usize {
        self.blocked.load(Relaxed)
    }

    /// How many tables were lent so far for workers that other threads counted as blocked.
    pub fn lent(&self) -> usize {
        // Acquire: pairs with `CountBlocked`, which lends the table first.
        self.lent.load(Acquire)
    }

    /// Until the result is dropped, the caller waits on top of child jobs that it may not run. After this
    /// call, and behind a fence, the caller fetches another worker for these jobs.
    pub fn wait_on_child_jobs(&self) -> OnChildJobs<'_> {
        // Relaxed: the fence orders this before the caller's look at the sleepers' bits. A spare worker whose
        // SleepFence of `idle.rs` comes later asks for its role after that SleepFence.
        self.on_child_jobs.fetch_add(1, Relaxed);
        OnChildJobs(self)
    }

    /// Whether some thread [waits on top of child jobs](Self::wait_on_child_jobs): a hint.
    pub fn are_child_jobs_left(&self) -> bool {
        // Relaxed: see `wait_on_child_jobs`.
        self.on_child_jobs.load(Relaxed) > 0
    }

    pub fn counts(&self) -> SpareCounts {
        self.read(|table| SpareCounts {
            active: table.active.len(),
            resting: table.resting.len(),
            ..table.counts
        })
    }

    /// Whether worker index `index` is free.
    pub fn is_absent(&self, index: usize) -> bool {
        self.read(|table| index >= table.first && !table.used[index - table.first])
    }

    /// How many workers can be awake: permanent workers and active spare workers.
    pub fn workers(&self) -> usize {
        self.read(|table| table.permanent + table.active.len())
    }

    /// Takes the lock and gives it back. The caller sees what earlier holders did, and later holders see what
    /// the caller did.
    pub fn pass(&self) {
        drop(self.table.lock());
    }

    /// A permanent worker's thread has begun. (Before this, the worker is in no poll. If it begins late, all
    /// others may have left.)
    pub fn permanent_comes(&self) {
        self.table.lock().permanent += 1;
    }

    /// The role of spare worker `index`, which is active. `waiting` says how many workers wait for latches,
    /// and how many of these are spare workers.
    pub(super) fn role(&self, index: usize, waiting: impl FnOnce() -> (usize, usize)) -> Role {
        self.read(|table| {
            let rank = table.active.iter().take_while(|&&active| active < index).count();
            let (waiting, waiting_spares) = waiting();
            let are_child_jobs_left = table.full(waiting_spares) > 0 || self.are_child_jobs_left();
            if rank < table.full(waiting) {
                if are_child_jobs_left { Role::Full } else { Role::Begins }
            } else if rank < table.needed(waiting) {
                Role::Serves
            } else {
                Role::Surplus
            }
        })
    }
}

/// The end: see `lifecycle.rs`.
impl Away {
    /// The calling worker, permanent or spare, has nothing left to do after the shutdown has begun. If it is
    /// the last to arrive and `may_close` returns true, this closes everything. Returns whether everything is
    /// closed.
    pub fn arrive(&self, may_close: impl FnOnce() -> bool) -> bool {
        let mut table = self.table.lock();
        table.arrived += 1;
        if !table.is_closed && table.arrived == table.permanent + table.active.len() && may_close() {
            table.is_closed = true;
        }
        table.is_closed
    }

    /// The calling worker had arrived, and is about to look for work again. Returns false if everything is
    /// closed.
    pub fn depart(&self) -> bool {
        let mut table = self.table.lock();
        if !table.is_closed {
            table.arrived -= 1;
        }
        !table.is_closed
    }

    pub fn is_closed(&self) -> bool {
        self.read(|table| table.is_closed)
    }
}

/// See [`Away::wait_on_child_jobs`].
#[derive(Debug)]
pub struct OnChildJobs<'a>(&'a Away);

impl<'a> OnChildJobs<'a> {
    /// Takes over a result of [`Away::wait_on_child_jobs`] that was forgotten.
    pub fn of(away: &'a Away) -> Self {
        Self(away)
    }
}

impl Drop for OnChildJobs<'_> {
    fn drop(&mut self) {
        // Relaxed: a spare worker that takes one child job too many does no harm.
        self.0.on_child_jobs.fetch_sub(1, Relaxed);
    }
}

impl Table {
    pub fn full(&self, waiting: usize) -> usize {
        self.blocked + self.stalled + waiting
    }

    fn needed(&self, waiting: usize) -> usize {
        self.full(waiting) + self.yielding.len() + self.serving
    }

    /// Whether a spare worker is needed that is not there. `waiting` workers wait for latches.
    pub fn lacks_spare(&self, waiting: usize) -> bool {
        self.active.len() < self.needed(waiting)
    }

    /// As [`lacks_spare`](Self::lacks_spare), but a spare worker that is starting does not count as there.
    pub fn lacks_spare_for_now(&self, waiting: usize) -> bool {
        self.active.len() - self.starting.len() < self.needed(waiting)
    }

    pub fn is_starting(&self, index: usize) -> bool {
        self.starting.contains(&index)
    }

    /// Spare worker `index`, which was called, is about to take work.
    pub fn has_started(&mut self, index: usize) {
        self.starting.retain(|&starting| starting != index);
        self.counts.started += 1;
    }

    /// Whether more spare workers are active than are needed.
    pub fn has_surplus(&self, waiting: usize) -> bool {
        self.active.len() > self.needed(waiting)
    }

    /// The active spare workers, in ascending order.
    pub fn active(&self) -> &[usize] {
        &self.active
    }

    pub fn is_any_resting(&self) -> bool {
        !self.resting.is_empty()
    }

    pub fn is_resting(&self, index: usize) -> bool {
        self.resting.contains(&index)
    }

    /// How many spare workers are active or rest.
    pub fn present(&self) -> usize {
        self.active.len() + self.resting.len()
    }

    /// Takes a resting spare worker, or an index for a new one. Prefers the youngest resting one for which
    /// `is_near` returns true. None if the limit is reached, or if all workers leave.
    pub fn call(&mut self, is_near: impl Fn(usize) -> bool) -> Option<Call> {
        if self.is_closed {
            return None;
        }
        let best = self.resting.iter().rposition(|&spare| is_near(spare));
        let Some(place) = best.or_else(|| self.resting.len().checked_sub(1)) else {
            return self.call_fresh();
        };
        let index = self.resting.remove(place);
        self.add_active(index);
        Some(Call::Resting(index))
    }

    /// As [`call`](Self::call), but takes no resting one.
    pub fn call_fresh(&mut self) -> Option<Call> {
        if self.is_closed {
            return None;
        }
        let Some(place) = self.used.iter().position(|is_used| !is_used) else {
            self.counts.capped += 1;
            return None;
        };
        self.used[place] = true;
        self.add_active(self.first + place);
        self.starting.push(self.first + place);
        Some(Call::Fresh(self.first + place))
    }

    /// The system has refused the thread of spare worker `index`, which was called.
    pub fn refused(&mut self, index: usize) {
        self.counts.refused += 1;
        self.starting.retain(|&starting| starting != index);
        self.remove_active(index);
        self.used[index - self.first] = false;
    }

    /// Spare worker `index`, which was active, rests.
    pub fn begin_rest(&mut self, index: usize) {
        self.remove_active(index);
        self.resting.push(index);
    }

    /// Spare worker `index` rests no more: its thread ends, and the index is free, or it `goes_on` as a
    /// worker. Returns false if it was called meanwhile.
    pub fn end_rest(&mut self, index: usize, goes_on: bool) -> bool {
        let Some(place) = self.resting.iter().position(|&resting| resting == index) else {
            return false;
        };
        self.resting.remove(place);
        match goes_on {
            true => self.add_active(index),
            false => self.used[index - self.first] = false,
        }
        true
    }

    fn remove_active(&mut self, index: usize) {
        self.active.retain(|&active| active != index);
    }

    fn add_active(&mut self, index: usize) {
        let place = self.active.partition_point(|&active| active < index);
        self.active.insert(place, index);
    }

    /// The number of spare indices up to the highest that is in use.
    pub fn spare_bound(&self) -> usize {
        self.used.iter().rposition(|&is_used| is_used).map_or(0, |place| place + 1)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
