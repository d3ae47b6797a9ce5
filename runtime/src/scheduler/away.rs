//! Which workers are away, and which spare workers take their parts.
//!
//! A permanent worker is *away* while it does not come back to its queues soon, so that others have to do its
//! part:
//!
//! | reason | begins | counted by | ends |
//! |---|---|---|---|
//! | blocked | it says so: `block_in_place`, `block_on`, a mark | itself, or the monitor ([`BLOCKED`], `CountBlocked`) | it says so |
//! | stalled | it is off its CPU in the middle of a poll | the monitor | it moves |
//! | waiting | it sleeps until a latch is set | its bit in `idle.rs` | it wakes |
//! | yielding | a split point, while tasks wait (`split.rs`) | itself | its tasks are done, or a time is over |
//!
//! *Spare workers* take the parts of workers that are away. A spare worker is a worker like any other, with a
//! processor of its own. It polls tasks and runs jobs of every kind. What differs is when it comes and when
//! it goes.
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
//! One place decides whether a spare worker is needed: [`Shared::admit`]. A thread that makes work visible
//! comes to it by [`Shared::fetch`](super::shared::Shared::fetch), when no worker sleeps or searches.
//!
//! # What a spare worker takes
//! The active spare workers have ranks, by their indices.
//! - Rank below `full`, [`Role::Full`]: everything. Given if a worker of either kind is blocked or stalled,
//!   if a spare worker waits for a latch, or if a thread waits on top of pieces that it may not run (in an
//!   isolated region).
//! - Rank below `full`, [`Role::Begins`]: everything but pieces of other workers' computations. Given if
//!   permanent workers wait for latches, and nothing else is the reason. The waiting workers are woken for
//!   such pieces themselves, and programs like to find the same few threads in a computation.
//! - Rank below `needed`, [`Role::Serves`]: its own queues, the driver, timers, the injector and injected
//!   jobs, but nothing from other workers, which are there to see to it themselves. So tasks in other rings
//!   that compute for long stay where they are, and the serving worker is soon back.
//! - Other spare workers rest.
//!
//! A spare worker asks for its role when it is out of work.
//!
//! # Why no work waits for a worker that is away
//! Take work that became visible (`Push`, `PushFence` of `idle.rs`). If some thread sleeps or searches,
//! `idle.rs` has the argument. Otherwise the pusher comes to `Admit`, under the lock of this file. With
//! active < needed a spare worker comes, and looks. With active ≥ needed there are as many spare workers as
//! workers are away, and none of them sleeps. Each of them looks again before it sleeps (W4 of `idle.rs`),
//! and when it goes away itself (`Leave`). A spare worker that goes to rest is not needed: there are as many
//! others as are needed. It looks, behind the lock, and has one of the others come for what it sees
//! (`RestLook`): either it sees the work, or `Admit` sees it resting. A worker that goes away does `Leave`:
//! it is counted, or shows its bit; SeqCst fence; it looks, and fetches a worker for what waits. So of a push
//! and a worker that leaves, one sees the other. If the system refuses a thread, the work waits for the other
//! workers, and the next push, or the monitor, tries again.
//!
//! # A call that may block
//! `block_in_place` is mostly short. So it costs only two swaps of the worker's own word, and the worker is
//! counted only if that is worth it. It is counted at once if the call surely sleeps, if the shutdown has
//! begun, or if tasks wait and a spare worker rests. Else it is counted when the monitor finds that something
//! waits for it.
//! ```text
//! Worker                                            Any thread that finds it blocked
//! SayBlocked   HERE → BLOCKED (swap); fence          CountBlocked   lock; BLOCKED → COUNTED (CAS); lend its table;
//! SeeShutdown  has the shutdown begun? count itself                 blocked += 1
//! SayBack      → HERE (swap); it was COUNTED: lock;  CloseFence     the shutdown begins; fence; CountBlocked for each that
//!              blocked -= 1; table back                             is BLOCKED
//! ```
//! *Counted at most once, and uncounted as often*: `CountBlocked` and `SayBack` are read-modify-writes of one
//! word, and `SayBack` that finds COUNTED waits for the lock under which `CountBlocked` is done. *Other
//! threads touch its table only in between*: `CountBlocked` lends it under the lock, and the worker does not
//! use it from `SayBlocked` on; it takes it back behind that lock. *No blocked worker is missed at shutdown*:
//! of `SayBlocked`, fence, `SeeShutdown` and `CloseFence`, one sees the other.
//!
//! # Arrivals at shutdown
//! The workers leave together, when none of them is inside of a poll or a job; see `lifecycle.rs`. A worker
//! that has nothing left to do *arrives*, under this lock, and sleeps as ever. It takes its arrival back,
//! under this lock, before it looks for work again.
//!
//! # The lock
//! All numbers are under one lock: it is taken only when a thread is about to block, to be woken, or to rest.
//! Threads are started and woken without it: starting a thread calls the user's `thread_name_fn`, and a woken
//! thread runs at once. Meanwhile the new worker's own count in `lifecycle.rs`, taken under the lock, keeps
//! the shared state.

use std::ptr::NonNull;
use std::time::{Duration, Instant};

use super::WorkerStart;
use super::idle::Work;
use super::shared::Shared;
use super::worker::Worker;
use crate::loom::sync::Mutex;
use crate::loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use crate::loom::sync::atomic::{AtomicBool, AtomicUsize};

/// A worker's word: as far as is known it comes back to its queues.
pub const HERE: u32 = 0;
/// It is in a call that may block, and is not counted.
pub const BLOCKED: u32 = 1;
/// It is in such a call, and counted.
const COUNTED: u32 = 2;

/// See the module's docs.
#[derive(Debug)]
pub struct Away {
    state: Mutex<State>,
    /// How many spare workers are active, and how many workers are blocked or stalled: hints.
    active: AtomicUsize,
    blocked: AtomicUsize,
    /// Some worker is away other than waiting for a latch.
    is_any: AtomicBool,
    /// Some worker yields: a hint, but see `split.rs`.
    has_yielding: AtomicBool,
    /// How many tables were lent for workers that others counted as blocked.
    lent: AtomicUsize,
    /// A spare worker serves: a hint.
    is_any_serving: AtomicBool,
    /// Threads that wait for latches, and may not run the pieces that lie on their own seats.
    on_pieces: AtomicUsize,
}

/// What a spare worker that is out of tasks may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It takes the part of a worker that is away.
    Full,
    /// The same, where workers are away only because they wait for latches: it takes no pieces of other
    /// workers.
    Begins,
    /// It sees to the driver, timers, and what comes from outside.
    Serves,
    /// It is not needed.
    Surplus,
}

/// Counts of spare workers since the runtime was built, and their present number.
#[derive(Debug, Clone, Copy, Default)]
pub struct SpareCounts {
    pub active: usize,
    pub resting: usize,
    pub started: u64,
    pub refused: u64,
    pub capped: u64,
}

/// A spare worker that counts as active, and is to be [woken or started](Shared::bring) without the lock.
#[must_use]
enum Called {
    /// It rested.
    Resting(usize),
    Fresh(WorkerStart),
}

#[derive(Debug)]
struct State {
    /// Workers that are inside of a blocking call and counted, or marked.
    blocked: usize,
    /// Workers that the monitor found off their CPUs.
    stalled: usize,
    /// How many spare workers are needed to serve, for the monitor found every worker inside of a long poll.
    serving: usize,
    /// Workers that yield to tasks.
    yielding: Vec<usize>,
    /// Indices of active spare workers, in their order.
    active: Vec<usize>,
    /// Indices of the resting spare workers; the last to rest is last.
    resting: Vec<usize>,
    /// Places of spare workers that no thread has: `used[i]` is that of index `first + i`.
    used: Vec<bool>,
    first: usize,
    /// Permanent workers whose threads have begun, and workers of all kinds that have arrived.
    permanent: usize,
    arrived: usize,
    /// All workers have arrived: all leave, and no spare worker is admitted.
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

    /// Until the result is dropped, the caller waits on top of pieces that it may not run. It fetches another
    /// worker for them afterwards, behind a fence.
    pub fn wait_on_pieces(&self) -> OnPieces<'_> {
        // Relaxed: the fence orders it before the sleepers' bits. A spare worker whose W3 of `idle.rs` comes
        // later asks for its role after that.
        self.on_pieces.fetch_add(1, Relaxed);
        OnPieces(self)
    }

    /// Whether a spare worker is active: a hint.
    pub fn is_any_spare_active(&self) -> bool {
        self.active.load(Relaxed) > 0
    }

    /// Whether some worker yields: a hint, unless the caller is behind W3 of `idle.rs`, because a worker that
    /// relies on it does the fence behind `Yield`.
    pub fn has_yielding(&self) -> bool {
        self.has_yielding.load(Relaxed)
    }

    /// How many tables were lent for workers that others counted as blocked, so far.
    pub fn lent(&self) -> usize {
        // Acquire: pairs with `CountBlocked`; the table is lent by then.
        self.lent.load(Acquire)
    }

    /// How many workers are blocked or stalled: a hint, but exact when no worker changes state.
    pub fn blocked(&self) -> usize {
        self.blocked.load(Relaxed)
    }

    pub fn counts(&self) -> SpareCounts {
        let state = self.state.lock();
        SpareCounts { active: state.active.len(), resting: state.resting.len(), ..state.counts }
    }

    /// Whether no thread has `index`, which is that of a worker.
    pub fn is_absent(&self, index: usize) -> bool {
        let state = self.state.lock();
        index >= state.first && !state.used[index - state.first]
    }

    /// How many workers there are that can be awake: permanent ones, and active spare ones.
    pub fn workers(&self) -> usize {
        let state = self.state.lock();
        state.permanent + state.active.len()
    }

    /// The caller sees what was done under the lock before; later holders of the lock see what the caller has
    /// done.
    pub fn pass(&self) {
        drop(self.state.lock());
    }

    /// A permanent worker's thread has begun. (Before, it is in no poll, and if it comes later, all may have
    /// left.)
    pub fn permanent_comes(&self) {
        self.state.lock().permanent += 1;
    }
}

/// See [`Away::wait_on_pieces`].
#[derive(Debug)]
pub struct OnPieces<'a>(&'a Away);

impl Drop for OnPieces<'_> {
    fn drop(&mut self) {
        // Relaxed: a spare worker that takes a piece too many does no harm.
        self.0.on_pieces.fetch_sub(1, Relaxed);
    }
}

impl Role {
    /// Whether it polls all that there is to poll.
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

    /// The lowest index that no spare worker has.
    fn take_free(&mut self) -> Option<usize> {
        let place = self.used.iter().position(|is_used| !is_used)?;
        self.used[place] = true;
        Some(self.first + place)
    }

    fn give_back(&mut self, index: usize) {
        self.used[index - self.first] = false;
    }

    /// Up to which place spare workers have indices.
    fn spare_bound(&self) -> usize {
        self.used.iter().rposition(|&is_used| is_used).map_or(0, |place| place + 1)
    }
}

/// Where spare workers come from.
impl Shared {
    /// `Admit`: work waits, and no worker is idle. Has a spare worker come, if one is needed; preferably one
    /// that belongs to worker `near`.
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

    /// Whether some worker may be away, so that a spare one could come for it: a hint.
    pub fn is_anybody_away(&self) -> bool {
        // Relaxed: behind the fence of the push, or of the worker that leaves.
        self.away.is_any.load(Relaxed) || self.idle.has_waiters()
    }

    /// Whether a spare worker serves, because all workers are inside of long polls: a hint.
    pub fn is_any_serving(&self) -> bool {
        self.away.is_any_serving.load(Relaxed)
    }

    /// How many more threads take part than are needed, spare workers and external threads. That many
    /// sleepers are not woken for work that can wait. A hint.
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
        // Relaxed: hints; but `is_any` is read behind the fence of a push, and written before that of the
        // worker that leaves.
        self.away.active.store(state.active.len(), Relaxed);
        self.away.blocked.store(state.full(0), Relaxed);
        self.away.is_any.store(state.needed(0) > 0, Relaxed);
        self.away.is_any_serving.store(state.serving > 0, Relaxed);
    }

    /// Takes a resting spare worker, or an index for a new one; none if there are as many as there may be, or
    /// if all workers leave.
    ///
    /// Spare worker `i` belongs to worker `i % workers`: if threads are kept on CPUs, it has that worker's
    /// CPU. So a spare worker is preferred that belongs to `near`, or else to a worker that waits for a
    /// latch.
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
        // SAFETY: (1) the workers leave behind the lock, and only when `is_closed` is set; (2) the index was
        // free.
        Some(Called::Fresh(unsafe { WorkerStart::new(shared, index) }))
    }

    /// Wakes or starts the spare worker that was called. If the system refuses the thread, the next push
    /// tries again.
    fn bring(&self, called: Option<Called>) {
        let start = match called {
            None => return,
            // It may be up already, if its rest was over just now: then it finds a token at its next sleep.
            Some(Called::Resting(index)) => return self.processor(index).parker.unpark(&self.driver),
            Some(Called::Fresh(start)) => start,
        };
        let index = start.index();
        // If it is refused, `start` is dropped, and may be the last worker to leave.
        if self.config.start_thread(move || start.run()).is_err() {
            let mut state = self.away.state.lock();
            state.counts.started -= 1;
            state.counts.refused += 1;
            state.remove_active(index);
            state.give_back(index);
            self.update_hints(&state);
        }
    }

    /// Starts a spare worker that rests at once, unless there are `least` already: computations will yield to
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
            (state.stalled, state.serving) = (stalled, serving);
            self.update_hints(&state);
            self.driver.time().inspect(|time| time.serve_all(serving > 0));
        }
    }

    /// More spare workers are active than are needed, and one sleeps: it is woken, and rests.
    pub fn dismiss_surplus(&self) {
        let surplus = {
            let state = self.away.state.lock();
            let is_surplus = state.active.len() > state.needed(self.waiting());
            state.active.iter().rev().copied().find(|&index| is_surplus && self.idle.is_sleeper(index))
        };
        self.unpark_picked(surplus);
    }
}

/// What a spare worker is for, and its rest.
impl Shared {
    /// What spare worker `index`, which is active, may do.
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

    /// Spare worker `index`, which has nothing to do and holds nothing, is no worker until it is called.
    /// False if it is needed.
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

    /// Spare worker `index` rests no more: it has something to do, or is to end. False if it was called
    /// meanwhile.
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
    /// Whether this is a spare worker that is not needed. It has rested then: see [`rest`](Self::rest).
    pub fn rests(&self) -> bool {
        let shared = self.shared();
        debug_assert!(!self.has_foreign(), "a thread rests with foreign code left to call");
        if self.is_permanent() || self.holds_work() || !shared.begin_rest(self.index()) {
            return false;
        }
        self.processor().polling.clear();
        shared.void_marks_of(self.index());
        self.stop_searching_if_so();
        // `RestLook`: behind the lock. All that is left to this thread, the driver too, is left to others.
        shared.idle.fence_push();
        if shared.has_visible_tasks() || shared.is_driver_deserted() {
            shared.fetch(Work::Task);
        }
        if shared.has_jobs_for(usize::MAX, Role::Full) {
            shared.fetch(Work::Job);
        }
        true
    }

    /// Rests until called (true) or until the thread is to end (false).
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
                // The handler is foreign code, which no thread calls at rest: this is a worker again.
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
    /// `CountBlocked`: counts worker `index`, if it is in a blocking call and was not counted, and lends its
    /// table. A spare worker comes if one is needed. Says whether it was counted.
    pub fn count_blocked(&self, index: usize) -> bool {
        let called = {
            let mut state = self.away.state.lock();
            // Acquire: what the worker did before `SayBlocked`. It finds the table lent by the lock.
            let standing = &self.processor(index).standing;
            if standing.compare_exchange(BLOCKED, COUNTED, AcqRel, Relaxed).is_err() {
                return false;
            }
            if index < self.config.workers && !self.config.is_pool {
                // SAFETY: its worker does not touch the table between `SayBlocked` and `SayBack`, which waits
                // for our lock.
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

    /// `CountBlocked` for each worker that is blocked, once the shutdown has begun: a worker that blocks
    /// later counts itself.
    pub fn count_all_blocked(&self) {
        for index in self.processors.indices() {
            // SeqCst: behind `CloseFence`; a worker whose `SayBlocked` is missed here sees that the shutdown
            // has begun.
            if self.processor(index).standing.load(SeqCst) == BLOCKED {
                self.count_blocked(index);
            }
        }
    }

    /// A worker with work is in a call that may be short: a spare worker that rests is called, but none is
    /// started.
    #[cold]
    pub fn count_blocked_if_one_rests(&self, index: usize) {
        let is_anybody_idle = self.idle.has_sleepers() || self.idle.is_anybody_searching();
        if !is_anybody_idle && !self.away.state.lock().resting.is_empty() {
            self.count_blocked(index);
        }
    }
}

/// Computations that yield to tasks: see `split.rs`.
impl Shared {
    /// `Yield`, `CallSpare`: worker `index` yields. False if no spare worker is there to take the tasks.
    pub fn begin_yield(&self, index: usize) -> bool {
        let mut state = self.away.state.lock();
        if self.lifecycle.has_begun() || state.yielding.contains(&index) {
            return false;
        }
        let is_any_free = state.active.len() > state.full(self.waiting());
        let called = match state.resting.is_empty() {
            false => self.call(&mut state, Some(index)),
            true if is_any_free => None,
            true => return false,
        };
        state.yielding.push(index);
        self.away.has_yielding.store(true, Relaxed);
        self.update_hints(&state);
        drop(state);
        match called.is_some() {
            true => self.bring(called),
            // The active spare worker may be about to sleep, or asleep.
            false => _ = self.fetch_strictly(Work::Task),
        }
        true
    }

    /// `YieldOver`: worker `index` goes on. False if its tasks were not done before.
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

    /// `TasksDone`, `WakeYielding`: a spare worker found no more tasks, so all that yield go on.
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
    /// The calling worker, of whatever kind, has nothing to do once the shutdown has begun. If it is the last
    /// to arrive and `may_close`, everything is closed. Says whether it is.
    pub fn arrive(&self, may_close: impl FnOnce() -> bool) -> bool {
        let mut state = self.away.state.lock();
        state.arrived += 1;
        if !state.is_closed && state.arrived == state.permanent + state.active.len() && may_close() {
            state.is_closed = true;
        }
        state.is_closed
    }

    /// The calling worker, which has arrived, is about to look for work again. False if everything is closed.
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

/// No sleep needs to be longer, and the system's calls take it.
const LONGEST_SLEEP: Duration = Duration::from_secs(1 << 20);

/// How long a spare worker sleeps before it asks again whether it is needed.
pub fn longest_sleep(worker: &Worker) -> Option<Duration> {
    (!worker.is_permanent()).then(|| worker.shared().config.thread_keep_alive.min(LONGEST_SLEEP))
}
