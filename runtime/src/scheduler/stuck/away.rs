//! Which workers are away, and which spare workers compensate for them.
//!
//! A permanent worker is *away* while it does not come back to its queues soon, so that other workers have to
//! do its part:
//!
//! | reason | begins | counted by | ends |
//! |---|---|---|---|
//! | blocked | it says so: `block_in_place`, `block_on`, a mark | itself, or the monitor ([`BLOCKED`], `CountBlocked`) | it says so |
//! | stalled | it is off its CPU in the middle of a poll | the monitor | it moves |
//! | waiting | it sleeps until a latch is set | its bit in `idle.rs` | it wakes |
//! | yielding | a split point, while tasks wait (`split.rs`) | itself | its tasks are done, or a time is over |
//!
//! *Spare workers* compensate for the workers that are away. A spare worker is a worker like any other, with
//! a processor of its own. It polls tasks and runs jobs of every kind. Only its start and its end differ.
//!
//! ```text
//! full    = blocked + stalled + waiting
//! needed  = full + yielding + 1 while every worker is inside of long polls (`monitor.rs`)
//! active  = spare workers that run, search, sleep or are away as workers do
//!
//!          admitted: active < needed, work waits, and no worker is idle       out of work, and active > needed
//!   free ───────────────────────────────────────────────────────────▶ active ─────────────────────────────────▶ resting
//!    ▲                                                                   ▲        admitted, as beside              │ │
//!    │                                                                   └─────────────────────────────────────────┘ │
//!    └───────────────────────────────────────────────────────────────────────────────────────── keep-alive is over ──┘
//! ```
//! One function decides whether a spare worker is needed: [`Shared::admit`]. A thread that makes work visible
//! calls it by [`Shared::fetch`](super::shared::Shared::fetch), when no worker sleeps or searches.
//!
//! # What a spare worker takes
//! The active spare workers have ranks, by their indices.
//! - Rank below `full`, [`Role::Full`]: everything. A spare worker gets this role in three cases: a worker of
//!   either kind is blocked or stalled; a spare worker waits for a latch; or a thread waits on top of child
//!   jobs that it may not run (in an isolated region).
//! - Rank below `full`, [`Role::Begins`]: everything but child jobs of other workers' computations. A spare
//!   worker gets this role if the only reason is that permanent workers wait for latches. The waiting workers
//!   are woken for such child jobs themselves, and programs like to find the same few threads in a
//!   computation.
//! - Rank below `needed`, [`Role::Serves`]: its own queues, the driver, timers, the injector and injected
//!   jobs, but nothing from other workers, because these workers are there to do it themselves. So tasks in
//!   other rings that compute for long stay there, and the serving worker is soon back.
//! - Other spare workers rest.
//!
//! A spare worker asks for its role when it is out of work.
//!
//! # Why no work waits for a worker that is away
//! Consider work that became visible (P1, P2 of `idle.rs`). If some thread sleeps or searches,
//! `idle.rs` has the argument. Otherwise the pusher comes to `Admit`, under the lock of this file.
//! - If active < needed, a spare worker comes, and looks.
//! - If active ≥ needed, there are as many spare workers as workers that are away, and none of the spare
//!   workers sleeps. Each of them looks again before it sleeps (W4 of `idle.rs`), and when it goes away
//!   itself (`Leave`).
//! - A spare worker that goes to rest is not needed, because there are as many others as are needed. It looks
//!   behind the lock, and has one of the others come for the work that it sees (`RestLook`). So either it
//!   sees the work, or `Admit` sees it resting.
//! - A worker that goes away does `Leave`. First it is counted, or shows its bit. A SeqCst fence follows.
//!   Then it looks, and fetches a worker for the work that waits. So of a push and a worker that leaves, one
//!   sees the other.
//! - If the system refuses a thread, the work waits for the other workers. The next push, or the monitor,
//!   tries again.
//!
//! # A call that may block
//! `block_in_place` is mostly short. So it costs only two swaps of the worker's own word. The worker is
//! counted at once if the call surely sleeps, if the shutdown has begun, or if tasks wait and a spare worker
//! rests. Otherwise the monitor counts the worker when it finds that something waits for it.
//! ```text
//! Worker                                            Any thread that finds it blocked
//! SayBlocked   HERE → BLOCKED (swap); fence          CountBlocked   lock; BLOCKED → COUNTED (CAS); lend its table;
//! SeeShutdown  has the shutdown begun? count itself                 blocked += 1
//! SayBack      → HERE (swap); it was COUNTED: lock;  CloseFence     the shutdown begins; fence; CountBlocked for each that
//!              blocked -= 1; table back                             is BLOCKED
//! ```
//! *Counted at most once, and uncounted as often*: `CountBlocked` and `SayBack` are read-modify-writes of one
//! word. A `SayBack` that finds COUNTED waits for the lock under which `CountBlocked` is done.
//!
//! *Other threads touch its table only in between*: `CountBlocked` lends the table under the lock. The worker
//! does not use the table from `SayBlocked` on, and takes it back behind that lock.
//!
//! *No blocked worker is missed at shutdown*: either `SeeShutdown` sees the shutdown, or the look after
//! `CloseFence` sees `SayBlocked`, because a fence stands between the two steps on each side.
//!
//! # Arrivals at shutdown
//! The workers leave together, when none of them is inside of a poll or a job; see `lifecycle.rs`. A worker
//! that has nothing left to do *arrives*, under this lock, and sleeps as usual. Before it looks for work
//! again, it takes its arrival back, under this lock.
//!
//! # The lock
//! One lock guards all numbers. A thread takes the lock only when it is about to block, to be woken, or to
//! rest. Threads are started and woken without the lock: starting a thread calls the user's `thread_name_fn`,
//! and a woken thread runs at once. Meanwhile the new worker's own count in `lifecycle.rs`, taken under the
//! lock, keeps the shared state alive.

use std::ptr::NonNull;
use std::time::{Duration, Instant};

use crate::loom::sync::Mutex;
use crate::loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use crate::loom::sync::atomic::{AtomicBool, AtomicUsize};
use crate::scheduler::WorkerStart;
use crate::scheduler::idle::Work;
use crate::scheduler::shared::Shared;
use crate::scheduler::worker::Worker;

/// The values of a worker's word. `HERE`: as far as is known, the worker comes back to its queues.
pub const HERE: u32 = 0;
/// The worker is in a call that may block, and is not counted.
pub const BLOCKED: u32 = 1;
/// The worker is in such a call, and is counted.
const COUNTED: u32 = 2;

/// See the module's docs.
#[derive(Debug)]
pub struct Away {
    state: Mutex<State>,
    /// The number of active spare workers, and of workers that are blocked or stalled: hints.
    active: AtomicUsize,
    blocked: AtomicUsize,
    /// Whether some worker is away for a reason other than waiting for a latch.
    is_any: AtomicBool,
    /// Whether some worker yields: a hint, but see `split.rs`.
    has_yielding: AtomicBool,
    /// How many tables were lent for workers that others counted as blocked.
    lent: AtomicUsize,
    /// Whether a spare worker serves: a hint.
    is_any_serving: AtomicBool,
    /// The number of threads that wait for latches, and may not run the child jobs on their own seats.
    on_pieces: AtomicUsize,
}

/// What a spare worker that is out of tasks may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The spare worker compensates for a worker that is away, and may do everything.
    Full,
    /// As `Full`, but it takes no child jobs of other workers. For workers that are away only because they
    /// wait for latches.
    Begins,
    /// The spare worker sees to the driver, to timers, and to work from outside.
    Serves,
    /// The spare worker is not needed.
    Surplus,
}

/// Counts of spare workers since the runtime was built, and the present numbers of active and resting ones.
#[derive(Debug, Clone, Copy, Default)]
pub struct SpareCounts {
    pub active: usize,
    pub resting: usize,
    pub started: u64,
    pub refused: u64,
    pub capped: u64,
}

/// A spare worker that counts as active. The caller has yet to [wake or start](Shared::bring) it, without the
/// lock.
#[must_use]
enum Called {
    /// The spare worker was resting.
    Resting(usize),
    Fresh(WorkerStart),
}

#[derive(Debug)]
struct State {
    /// Workers that are marked, or are counted as inside of a blocking call.
    blocked: usize,
    /// Workers that the monitor found off their CPUs.
    stalled: usize,
    /// How many spare workers have to serve. Not 0 while the monitor finds every worker inside of a long
    /// poll.
    serving: usize,
    /// Workers that yield to tasks.
    yielding: Vec<usize>,
    /// Indices of active spare workers, in ascending order.
    active: Vec<usize>,
    /// Indices of the resting spare workers; the last to rest is last.
    resting: Vec<usize>,
    /// Which indices of spare workers have a thread: `used[i]` stands for index `first + i`.
    used: Vec<bool>,
    first: usize,
    /// Permanent workers whose threads have begun, and workers of all kinds that have arrived.
    permanent: usize,
    arrived: usize,
    /// All workers have arrived. They all leave, and no spare worker is admitted.
    is_closed: bool,
    counts: SpareCounts,
}

impl Away {
    /// Spare workers have the indices `first..first + spares`.
    pub fn new(first: usize, spares: usize) -> Self {
        let state = State {
            blocked: 0,
            stalled: 0,
            serving: 0,
            yielding: Vec::new(),
            active: Vec::new(),
            resting: Vec::new(),
            used: vec![false; spares],
            first,
            permanent: 0,
            arrived: 0,
            is_closed: false,
            counts: SpareCounts::default(),
        };
        Self {
            state: Mutex::new(state),
            active: AtomicUsize::new(0),
            blocked: AtomicUsize::new(0),
            is_any: AtomicBool::new(false),
            has_yielding: AtomicBool::new(false),
            lent: AtomicUsize::new(0),
            is_any_serving: AtomicBool::new(false),
            on_pieces: AtomicUsize::new(0),
        }
    }

    /// Until the result is dropped, the caller waits on top of child jobs that it may not run. Afterwards,
    /// behind a fence, the caller fetches another worker for these jobs.
    pub fn wait_on_pieces(&self) -> OnPieces<'_> {
        // Relaxed: the fence orders this before the caller's look at the sleepers' bits. A spare worker whose
        // W3 of `idle.rs` comes later asks for its role after that W3.
        self.on_pieces.fetch_add(1, Relaxed);
        OnPieces(self)
    }

    /// Whether a spare worker is active: a hint.
    pub fn is_any_spare_active(&self) -> bool {
        self.active.load(Relaxed) > 0
    }

    /// Whether some worker yields. A hint, unless the caller is behind W3 of `idle.rs`: a worker that yields
    /// and relies on the caller does the fence behind `Yield`.
    pub fn has_yielding(&self) -> bool {
        self.has_yielding.load(Relaxed)
    }

    /// How many tables were lent so far for workers that other threads counted as blocked.
    pub fn lent(&self) -> usize {
        // Acquire: pairs with `CountBlocked`, which lends the table first.
        self.lent.load(Acquire)
    }

    /// How many workers are blocked or stalled. A hint, but exact while no worker changes state.
    pub fn blocked(&self) -> usize {
        self.blocked.load(Relaxed)
    }

    pub fn counts(&self) -> SpareCounts {
        let state = self.state.lock();
        SpareCounts { active: state.active.len(), resting: state.resting.len(), ..state.counts }
    }

    /// Whether no thread has worker index `index`.
    pub fn is_absent(&self, index: usize) -> bool {
        let state = self.state.lock();
        index >= state.first && !state.used[index - state.first]
    }

    /// How many workers can be awake: permanent workers and active spare workers.
    pub fn workers(&self) -> usize {
        let state = self.state.lock();
        state.permanent + state.active.len()
    }

    /// Takes the lock and gives it back. The caller sees what earlier holders did, and later holders see what
    /// the caller did.
    pub fn pass(&self) {
        drop(self.state.lock());
    }

    /// A permanent worker's thread has begun. (Before this, the worker is in no poll. If it begins late, all
    /// others may have left.)
    pub fn permanent_comes(&self) {
        self.state.lock().permanent += 1;
    }
}

/// See [`Away::wait_on_pieces`].
#[derive(Debug)]
pub struct OnPieces<'a>(&'a Away);

impl Drop for OnPieces<'_> {
    fn drop(&mut self) {
        // Relaxed: a spare worker that takes one child job too many does no harm.
        self.0.on_pieces.fetch_sub(1, Relaxed);
    }
}

impl Role {
    /// Whether a worker with this role polls any task.
    pub fn takes_any_task(self) -> bool {
        matches!(self, Self::Full | Self::Begins)
    }
}

impl State {
    fn full(&self, waiting: usize) -> usize {
        self.blocked + self.stalled + waiting
    }

    fn needed(&self, waiting: usize) -> usize {
        self.full(waiting) + self.yielding.len() + self.serving
    }

    fn remove_active(&mut self, index: usize) {
        self.active.retain(|&active| active != index);
    }

    fn add_active(&mut self, index: usize) {
        let place = self.active.partition_point(|&active| active < index);
        self.active.insert(place, index);
    }

    /// Takes the lowest index that no spare worker has.
    fn take_free(&mut self) -> Option<usize> {
        let place = self.used.iter().position(|is_used| !is_used)?;
        self.used[place] = true;
        Some(self.first + place)
    }

    fn give_back(&mut self, index: usize) {
        self.used[index - self.first] = false;
    }

    /// The number of spare indices up to the highest that is in use.
    fn spare_bound(&self) -> usize {
        self.used.iter().rposition(|&is_used| is_used).map_or(0, |place| place + 1)
    }
}

/// Where spare workers come from.
impl Shared {
    /// `Admit`: work waits, and no worker is idle. Wakes or starts a spare worker if one is needed,
    /// preferably one that belongs to worker `near`.
    #[cold]
    pub fn admit(&self, near: Option<usize>) -> bool {
        if self.max_spares == 0 {
            return false;
        }
        let called = {
            let mut state = self.away.state.lock();
            let is_needed = state.active.len() < state.needed(self.waiting());
            let called = if is_needed { self.call(&mut state, near) } else { None };
            self.update_hints(&state);
            called
        };
        let is_called = called.is_some();
        self.bring(called);
        is_called
    }

    /// How many workers sleep until a latch is set: a hint, unless the caller is behind a fence.
    pub fn waiting(&self) -> usize {
        self.idle.waiters(self.config.workers..self.first_spare)
    }

    /// Whether some worker may be away, so that a spare worker could come for it: a hint.
    pub fn is_anybody_away(&self) -> bool {
        // Relaxed: behind the fence of the push, or of the worker that leaves.
        self.away.is_any.load(Relaxed) || self.idle.has_waiters()
    }

    /// Whether a spare worker serves, because all workers are inside of long polls: a hint.
    pub fn is_any_serving(&self) -> bool {
        self.away.is_any_serving.load(Relaxed)
    }

    /// How many more spare workers and external threads take part than are needed: a hint. As many sleepers
    /// are not woken for work that can wait.
    pub fn extra(&self) -> usize {
        // Relaxed, all of them: hints.
        let active = self.away.active.load(Relaxed);
        let spares = match active {
            0 => 0,
            _ => active.saturating_sub(self.away.blocked() + self.waiting()),
        };
        spares + self.external.count()
    }

    fn update_hints(&self, state: &State) {
        // Relaxed: hints. But `is_any` is written before the fence of the worker that leaves, and read behind
        // the fence of a push.
        self.away.active.store(state.active.len(), Relaxed);
        self.away.blocked.store(state.full(0), Relaxed);
        self.away.is_any.store(state.needed(0) > 0, Relaxed);
        let for_others = state.full(0) + state.yielding.len();
        self.away.is_any_serving.store(state.serving > 0 && state.active.len() > for_others, Relaxed);
    }

    /// Takes a resting spare worker, or an index for a new one. None if the limit is reached, or if all
    /// workers leave.
    ///
    /// Spare worker `i` belongs to worker `i % workers`: if threads are kept on CPUs, both have the same CPU.
    /// So this prefers a spare worker that belongs to `near`, or else to a worker that waits for a latch.
    fn call(&self, state: &mut State, near: Option<usize>) -> Option<Called> {
        if state.is_closed {
            return None;
        }
        let is_near = |spare: &usize| match near {
            Some(worker) => self.worker_of_spare(*spare) == worker,
            None => self.idle.is_waiter(self.worker_of_spare(*spare)),
        };
        let best = state.resting.iter().rposition(is_near);
        let Some(place) = best.or_else(|| state.resting.len().checked_sub(1)) else {
            return self.call_fresh(state);
        };
        let index = state.resting.remove(place);
        state.add_active(index);
        Some(Called::Resting(index))
    }

    fn call_fresh(&self, state: &mut State) -> Option<Called> {
        let Some(index) = state.take_free() else {
            state.counts.capped += 1;
            return None;
        };
        state.add_active(index);
        state.counts.started += 1;
        let shared = NonNull::from(self);
        self.idle.cover(index);
        self.processors.make(index, shared);
        self.processors.set_spare(state.spare_bound());
        // SAFETY: (1) the workers leave behind the lock, and only once `is_closed` is set; (2) the index was
        // free.
        Some(Called::Fresh(unsafe { WorkerStart::new(shared, index) }))
    }

    /// Wakes or starts the spare worker that was called. If the system refuses the thread, the next push
    /// tries again.
    fn bring(&self, called: Option<Called>) {
        let start = match called {
            None => return,
            // The spare worker may be up already, if its rest was just over. Then it finds a token at its
            // next sleep.
            Some(Called::Resting(index)) => return self.processor(index).parker.unpark(&self.driver),
            Some(Called::Fresh(start)) => start,
        };
        let index = start.index();
        // If the system refuses the thread, `start` is dropped, and that may be the last worker to leave.
        if self.config.start_thread(move || start.run()).is_err() {
            let mut state = self.away.state.lock();
            state.counts.started -= 1;
            state.counts.refused += 1;
            state.remove_active(index);
            state.give_back(index);
            self.update_hints(&state);
        }
    }

    /// Starts a spare worker that rests at once, unless there are `least` already. Computations will yield to
    /// it.
    pub fn keep_in_reserve(&self, least: usize) {
        let called = {
            let mut state = self.away.state.lock();
            if state.active.len() + state.resting.len() >= least || state.is_closed {
                return;
            }
            self.call_fresh(&mut state)
        };
        self.bring(called);
    }

    /// Stores what the monitor found: how many workers are stalled, and how many spare ones are to serve.
    pub fn set_away(&self, stalled: usize, serving: usize) {
        let mut state = self.away.state.lock();
        if (state.stalled, state.serving) != (stalled, serving) {
            let begins = state.serving == 0 && serving > 0;
            (state.stalled, state.serving) = (stalled, serving);
            self.update_hints(&state);
            self.driver.time().inspect(|time| time.serve_all(serving > 0));
            if begins {
                // The thread in the driver looks at all wheels again.
                self.driver.unpark();
            }
        }
    }

    /// Wakes a spare worker that takes slow tasks, if one sleeps.
    pub fn wake_full_spare(&self) {
        let sleeper = {
            let state = self.away.state.lock();
            let full = state.active.iter().take(state.full(self.waiting()));
            full.copied().find(|&index| self.idle.is_sleeper(index))
        };
        self.unpark_picked(sleeper);
    }

    /// If more spare workers are active than are needed, and one of them sleeps, wakes it so that it rests.
    pub fn dismiss_surplus(&self) {
        let surplus = {
            let state = self.away.state.lock();
            let is_surplus = state.active.len() > state.needed(self.waiting());
            state.active.iter().rev().copied().find(|&index| is_surplus && self.idle.is_sleeper(index))
        };
        self.unpark_picked(surplus);
    }
}

/// The role of a spare worker, and its rest.
impl Shared {
    /// The role of spare worker `index`, which is active.
    pub fn role(&self, index: usize) -> Role {
        let state = self.away.state.lock();
        let rank = state.active.iter().take_while(|&&active| active < index).count();
        let waiting = self.waiting();
        // Relaxed: see `wait_on_pieces`.
        let are_pieces_left =
            state.full(self.idle.waiters(0..self.first_spare)) > 0 || self.away.on_pieces.load(Relaxed) > 0;
        if rank < state.full(waiting) {
            if are_pieces_left { Role::Full } else { Role::Begins }
        } else if rank < state.needed(waiting) {
            Role::Serves
        } else {
            Role::Surplus
        }
    }

    /// Lists spare worker `index` as resting: from now on it is no worker, until it is called. The worker has
    /// nothing to do and holds no work. Returns false if it is needed.
    fn begin_rest(&self, index: usize) -> bool {
        let mut state = self.away.state.lock();
        if state.active.len() <= state.needed(self.waiting()) || self.lifecycle.has_begun() {
            return false;
        }
        state.remove_active(index);
        state.resting.push(index);
        self.update_hints(&state);
        true
    }

    /// Ends the rest of spare worker `index`, because it has something to do, or because its thread ends.
    /// Returns false if it was called meanwhile.
    fn end_rest(&self, index: usize, is_to_end: bool) -> bool {
        let mut state = self.away.state.lock();
        let Some(place) = state.resting.iter().position(|&resting| resting == index) else {
            return false;
        };
        state.resting.remove(place);
        match is_to_end {
            true => {
                state.give_back(index);
                self.processors.set_spare(state.spare_bound());
            }
            false => state.add_active(index),
        }
        self.update_hints(&state);
        true
    }
}

impl Worker {
    /// Whether this is a spare worker that is not needed. If so, it is listed as resting, and the caller
    /// calls [`rest`](Self::rest).
    pub fn rests(&self) -> bool {
        let shared = self.shared();
        debug_assert!(!self.has_foreign(), "a thread rests with foreign code left to call");
        if self.is_permanent() || self.holds_work() || !shared.begin_rest(self.index()) {
            return false;
        }
        self.processor().polling.clear();
        shared.void_marks_of(self.index());
        self.stop_searching_if_so();
        // `RestLook`: behind the lock. Everything that relies on this thread is given to other workers. That is
        // the driver, too, even if nothing waits there yet: the workers that sleep may all have gone to sleep
        // while this thread was the poller, and later timers and sockets unpark the poller alone.
        shared.idle.fence_push();
        if shared.has_visible_tasks() || shared.has_no_poller() {
            shared.fetch(Work::Task);
        }
        if shared.has_jobs_for(usize::MAX, Role::Full) {
            shared.fetch(Work::Job);
        }
        true
    }

    /// Rests. Returns true when the worker is called, and false when its thread is to end.
    pub fn rest(&self) -> bool {
        let shared = self.shared();
        let give_up = Instant::now().checked_add(shared.config.thread_keep_alive);
        loop {
            let timeout = give_up.map(|give_up| give_up.saturating_duration_since(Instant::now()));
            let metrics = &self.processor().metrics;
            metrics.parks.add(1);
            metrics.naps.add(1);
            let mut report = None;
            self.processor().parker.park_if(timeout, || {
                report = shared.find_deadlock();
                report.is_none()
            });
            metrics.naps.add(1);
            shared.monitor.somebody_woke(&shared.driver);
            if report.is_some() {
                // The handler is foreign code, and no thread may call foreign code while it rests. So this
                // thread is a worker again.
                shared.end_rest(self.index(), false);
                self.keep_report(report);
                self.call_foreign();
                return true;
            }
            let is_over =
                shared.lifecycle.has_begun() || give_up.is_some_and(|give_up| Instant::now() >= give_up);
            if !self.is_resting() {
                return true;
            }
            if is_over && shared.end_rest(self.index(), true) {
                return false;
            }
        }
    }

    fn is_resting(&self) -> bool {
        self.shared().away.state.lock().resting.contains(&self.index())
    }
}

/// Calls that block.
impl Shared {
    /// `CountBlocked`: if worker `index` is in a blocking call and was not counted, counts it and lends its
    /// table. Calls a spare worker if one is needed. Returns whether this counted the worker.
    pub fn count_blocked(&self, index: usize) -> bool {
        let called = {
            let mut state = self.away.state.lock();
            // Acquire: what the worker did before `SayBlocked`. The lock makes sure that the worker finds its
            // table lent.
            let standing = &self.processor(index).standing;
            if standing.compare_exchange(BLOCKED, COUNTED, AcqRel, Relaxed).is_err() {
                return false;
            }
            if index < self.config.workers && !self.config.is_pool {
                // SAFETY: the table's worker does not touch it between `SayBlocked` and `SayBack`, and
                // `SayBack` waits for our lock.
                unsafe { self.owned.lend(index) };
                self.away.lent.fetch_add(1, Release);
            }
            self.one_more_blocked(&mut state)
        };
        self.bring(called);
        true
    }

    /// A worker is marked as blocked.
    pub fn marked_blocked(&self) {
        let called = self.one_more_blocked(&mut self.away.state.lock());
        self.bring(called);
    }

    fn one_more_blocked(&self, state: &mut State) -> Option<Called> {
        state.blocked += 1;
        let is_needed = state.active.len() < state.full(0);
        let called = if is_needed && self.max_spares > 0 { self.call(state, None) } else { None };
        self.update_hints(state);
        called
    }

    /// A worker blocks no more.
    pub fn one_less_blocked(&self) {
        let mut state = self.away.state.lock();
        state.blocked -= 1;
        self.update_hints(&state);
    }

    /// `CountBlocked` for each worker that is blocked, once the shutdown has begun. A worker that blocks
    /// later counts itself.
    pub fn count_all_blocked(&self) {
        for index in self.processors.indices() {
            // SeqCst: behind `CloseFence`. If this misses a worker's `SayBlocked`, that worker sees that the
            // shutdown has begun.
            if self.processor(index).standing.load(SeqCst) == BLOCKED {
                self.count_blocked(index);
            }
        }
    }

    /// A worker with work is in a call that may be short. This calls a spare worker if one rests, but starts
    /// none.
    #[cold]
    pub fn count_blocked_if_one_rests(&self, index: usize) {
        let is_anybody_idle = self.idle.has_sleepers() || self.idle.is_anybody_searching();
        if !is_anybody_idle && !self.away.state.lock().resting.is_empty() {
            self.count_blocked(index);
        }
    }
}

/// Which spare worker takes the tasks that a computation yields to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum YieldsTo {
    /// It rested, and was called.
    Called,
    /// One that is active beyond what is needed. It may be computing itself.
    Active,
}

/// Computations that yield to tasks: see `split.rs`.
impl Shared {
    /// How many polls spare workers have begun: a hint.
    pub fn polls_of_spares(&self) -> u64 {
        let spares = self.processors.indices().filter(|&index| index >= self.first_spare);
        spares.map(|index| self.processor(index).metrics.polls.get()).fold(0, u64::wrapping_add)
    }

    /// `Yield`, `CallSpare`: worker `index` yields. Returns none if there is no spare worker to take the tasks.
    pub fn begin_yield(&self, index: usize) -> Option<YieldsTo> {
        let mut state = self.away.state.lock();
        if self.lifecycle.has_begun() || state.yielding.contains(&index) {
            return None;
        }
        let is_any_free = state.active.len() > state.full(self.waiting());
        let called = match state.resting.is_empty() {
            false => self.call(&mut state, Some(index)),
            true if is_any_free => None,
            true => return None,
        };
        state.yielding.push(index);
        self.away.has_yielding.store(true, Relaxed);
        self.update_hints(&state);
        drop(state);
        match called.is_some() {
            true => {
                self.bring(called);
                Some(YieldsTo::Called)
            }
            // The active spare worker may be asleep, or about to sleep.
            false => {
                self.fetch_strictly(Work::Task);
                Some(YieldsTo::Active)
            }
        }
    }

    /// `YieldOver`: worker `index` goes on. Returns false if its tasks were not done before.
    pub fn end_yield(&self, index: usize) -> bool {
        let mut state = self.away.state.lock();
        let place = state.yielding.iter().position(|&yielding| yielding == index);
        if let Some(place) = place {
            state.yielding.swap_remove(place);
            self.away.has_yielding.store(!state.yielding.is_empty(), Relaxed);
            self.update_hints(&state);
        }
        place.is_none()
    }

    /// `TasksDone`, `WakeYielding`: a spare worker found no more tasks, so all workers that yield go on.
    pub fn end_all_yields(&self) {
        let yielding = {
            let mut state = self.away.state.lock();
            self.away.has_yielding.store(false, Relaxed);
            let yielding = std::mem::take(&mut state.yielding);
            self.update_hints(&state);
            yielding
        };
        for index in yielding {
            self.processor(index).yield_parker.unpark(&self.driver);
        }
    }
}

/// The end: see `lifecycle.rs`.
impl Shared {
    /// The calling worker, permanent or spare, has nothing left to do after the shutdown has begun. If it is
    /// the last to arrive and `may_close` returns true, this closes everything. Returns whether everything is
    /// closed.
    pub fn arrive(&self, may_close: impl FnOnce() -> bool) -> bool {
        let mut state = self.away.state.lock();
        state.arrived += 1;
        if !state.is_closed && state.arrived == state.permanent + state.active.len() && may_close() {
            state.is_closed = true;
        }
        state.is_closed
    }

    /// The calling worker had arrived, and is about to look for work again. Returns false if everything is
    /// closed.
    pub fn depart(&self) -> bool {
        let mut state = self.away.state.lock();
        if !state.is_closed {
            state.arrived -= 1;
        }
        !state.is_closed
    }

    pub fn is_closed(&self) -> bool {
        self.away.state.lock().is_closed
    }
}

/// The longest timeout of a sleep. The system's calls accept it.
const LONGEST_SLEEP: Duration = Duration::from_secs(1 << 20);

/// How long a spare worker sleeps at most before it asks again whether it is needed.
pub fn longest_sleep(worker: &Worker) -> Option<Duration> {
    (!worker.is_permanent()).then(|| worker.shared().config.thread_keep_alive.min(LONGEST_SLEEP))
}
