//! Threads that poll tasks while workers are blocked or stuck, or compute.
//!
//! A relief thread is a worker like the others, with a processor, but without a seat: it steals from the others and takes part in a sleep
//! protocol of its own (`Shared::relief_idle`), which a task push asks when no seat is to be had. There is one awake for each worker
//! that is *counted*: as blocked, by its own word; as stuck, by the monitor's; as giving way, see `split.rs`. When fewer are counted,
//! the next relief thread that runs out of work goes to rest, and for good after some idle time.
//!
//! **A call that may block** (`block_in_place`) is mostly short, so it costs two swaps of one word, the worker's own, and counts only
//! if that is worth it: at once if the shutdown has begun, if the call is known to sleep, or if tasks wait and a relief thread rests;
//! else when the monitor finds that something waits for it.
//! ```text
//! Worker                                          Anybody who finds it blocked (the monitor, who begins the shutdown, itself)
//! B1 FREE → BLOCKED (swap); fence                 B3 lock; BLOCKED → RELIEVED (CAS); lend its table; blocked += 1; call
//! B2 has the shutdown begun? count itself (B3)
//! B4 → FREE (swap); it was RELIEVED: lock;        C0 the shutdown begins; fence; every one that is BLOCKED: B3
//!    blocked -= 1; table back
//! ```
//! *Counted at most once, and let go as often*: B3 and B4 are read-modify-writes of one word, and B4 that finds RELIEVED waits for the
//! lock under which B3 is done. *Its table is touched by others only in between*: B3 lends it under the lock, and the worker, which
//! does not use it from B1 on, takes it back behind that lock. *None is missed at shutdown*: of B1, fence, B2 and C0, fence, scan one
//! sees the other.
//!
//! A worker that waits for a latch polls no tasks, but may be back in a moment. So nobody comes for it as such; but **when
//! a task waits** and no seat searches or sleeps, no relief thread either, and a worker sleeps on a latch, one is *admitted*.
//! ```text
//! needed = blocked + stuck + givers + workers asleep on a latch (their bits in `idle.rs`)
//!          + 1 while every seat computes and passes no split points                active: relief threads that do not rest
//!
//! Push                                        Wait for a latch                  Retire (relief, out of work)
//! P1, P2 of `idle.rs`                         L1, L2 of `idle.rs`: bit, fence   R1 lock; active > needed: active -= 1, rests
//! P3 nobody searches or sleeps, seat          L3 own tasks to the injector;     R2 a task is visible: lock; unless somebody has
//!    or relief; a bit is set: A1                 a task is visible: as P3          called it, active += 1, and on
//! A1 lock; active < needed: active += 1       L4 sleep                          R3 rest until called
//! A2 call one that rests, or start one
//! ```
//! **No task is left while a worker sleeps on a latch** and a relief thread can be had. Take a task that was pushed (P1). By the
//! fences P2 and L2, either P3 sees the waiter's bit, or L3 sees the task. So somebody gets to P3 behind both. If P3 relies on
//! a searcher or sleeper, see `idle.rs`: that one looks again, and if it finds something else to do, it gets here by F2. Else A1:
//! with active < needed a thread comes, and looks. Otherwise `active` relief threads, as many as workers are away, are at it:
//! each runs a task and will search before it sleeps (W4) or rests (R2, behind the lock, so that it sees P1 or A1 sees R1). And
//! one that blocks counts itself as blocked, then looks by its own expose. If the system refuses a thread, tasks wait for the
//! others, and who pushes next tries again.
//!
//! **While every seat computes**, none sleeping and none searching, and roots are under way, and no split point was passed a moment ago,
//! one relief thread more is needed: it polls tasks and sits in the driver, and the kernel shares the cores out. A worker that
//! begins a job looks whether tasks or the driver are left alone (A1). So a task can end a computation, by dropping its handle,
//! whatever the seats do. Where split points are passed, they see to it (`split.rs`).
//!
//! **They come down again.** A relief thread does not rest while it is needed, or it would be called for each task. When the
//! waiters are gone nobody tells it, since a latch is waited for every few microseconds. But its sleep as a worker lasts
//! no longer than the keep-alive time; then it finds that there are too many, rests, and ends after that time once more.
//!
//! **The driver.** One who waits for a latch may sit in it. When it goes on with its computation, and others wait on their own
//! tokens, it has another look for work, who finds the seat free: at worst a relief thread, which stays there
//! for as long as nothing else is to do.
//!
//! **Threads are started and woken without the lock.** Starting calls the user's `thread_name_fn`; and one that is woken on the CPU of
//! who calls it runs at once, its slices being shorter (`slices.rs`), and would only wait for the lock. What keeps the state meanwhile
//! is the new worker's own count in `shutdown.rs`, taken under the lock. A worker leaves only once the shutdown has begun, and
//! behind this lock; so whoever finds under it that the shutdown has not begun, finds all workers counted.
//!
//! **At shutdown** what a blocked worker waits for may be tasks, which somebody has to cancel. Those that wait for a wake it
//! cancels itself, if it blocks after the shutdown has begun; for the others, while anybody is blocked, somebody who is not
//! stays: a relief thread, or a worker with a seat if all relief threads are blocked. Whether one may leave, and whether there
//! is one, is decided under the lock. Nobody is admitted for waiters any more: while jobs live, no worker leaves, and those who
//! have nothing to do cancel tasks.
//!
//! All numbers are under one lock: blocking costs a thread wake anyway, and a wait that is not over soon as well.

use std::panic::Location;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use super::WorkerStart;
use super::idle::Work;
use super::shared::Shared;
use super::sites::Site;
use super::worker::Worker;
use crate::driver::time::Deadline;
use crate::loom::sync::Mutex;
use crate::loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use crate::loom::sync::atomic::{AtomicBool, AtomicUsize};
use crate::{context, coop};

/// How a worker's thread stands to the others: it comes back to its queues, as far as is known.
pub const FREE: u32 = 0;
/// It is in a call that may block, and nobody has been asked to stand in for it.
pub const BLOCKED: u32 = 1;
/// It is in such a call, and counted.
const RELIEVED: u32 = 2;

/// No sleep needs to be longer, and the system's calls take it.
const LONGEST_SLEEP: Duration = Duration::from_secs(1 << 20);

/// The relief threads of a runtime.
#[derive(Debug)]
pub struct Relief {
    state: Mutex<State>,
    /// More relief threads than blocked and stuck workers: a hint, so that idle relief threads need not take the lock.
    has_surplus: AtomicBool,
    /// Somebody gives way: a hint.
    has_givers: AtomicBool,
    /// How many tables were lent for workers that others found blocked.
    lent: AtomicUsize,
}

/// What is counted of relief threads since the runtime was built, and how many there are.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReliefCounts {
    pub active: usize,
    pub resting: usize,
    pub started: u64,
    pub refused: u64,
    pub capped: u64,
}

/// A relief thread that counts as awake, and is to be [woken or started](Shared::bring) without the lock.
#[must_use]
enum Called {
    /// It rested.
    Resting(usize),
    Fresh(WorkerStart),
}

#[derive(Debug)]
struct State {
    /// Workers that are inside a blocking call and counted.
    blocked: usize,
    /// How many of these are relief threads.
    blocked_reliefs: usize,
    /// Workers that the monitor holds for stuck.
    stuck: usize,
    /// Seats that give way to tasks.
    givers: Vec<usize>,
    /// Relief threads that run, search, sleep or block as workers.
    active: usize,
    /// Indices of relief threads that rest, the last to lie down last.
    resting: Vec<usize>,
    /// Indices that no thread has.
    free: Vec<usize>,
    /// Threads that the system gave, and refused; calls for one when all were in use.
    started: u64,
    refused: u64,
    capped: u64,
}

impl Relief {
    /// Relief threads have the indices `workers..workers + reliefs`.
    pub fn new(workers: usize, reliefs: usize) -> Self {
        let free = (workers..workers + reliefs).rev().collect();
        let state = State {
            blocked: 0,
            blocked_reliefs: 0,
            stuck: 0,
            givers: Vec::new(),
            active: 0,
            resting: Vec::new(),
            free,
            started: 0,
            refused: 0,
            capped: 0,
        };
        Self {
            state: Mutex::new(state),
            has_surplus: AtomicBool::new(false),
            has_givers: AtomicBool::new(false),
            lent: AtomicUsize::new(0),
        }
    }

    /// R1: a relief thread without work asks whether it may rest, while `waiters` workers sleep on latches. If so, it is no
    /// worker until it is called.
    pub fn try_retire(&self, index: usize, away: usize) -> bool {
        // Relaxed: seen at the next idle moment if not now.
        if !self.has_surplus.load(Relaxed) {
            return false;
        }
        let mut state = self.state.lock();
        if state.active <= state.needed(away) {
            return false;
        }
        state.active -= 1;
        state.resting.push(index);
        self.update_hint(&state);
        true
    }

    /// R2: a relief thread that has just retired found a task. False if it was called meanwhile: then its rest ends at once.
    pub fn call_back(&self, index: usize) -> bool {
        let mut state = self.state.lock();
        let place = state.resting.iter().position(|&resting| resting == index);
        if let Some(place) = place {
            state.resting.remove(place);
            state.active += 1;
            self.update_hint(&state);
        }
        place.is_some()
    }

    /// Indices that no thread has.
    pub fn absent(&self) -> Vec<usize> {
        self.state.lock().free.clone()
    }

    /// Whether a worker may leave once the shutdown has begun.
    pub fn may_leave(&self, has_seat: bool) -> bool {
        self.state.lock().may_leave(has_seat)
    }

    /// A worker with empty queues leaves for good, if it still may; a relief thread gives its `index` back.
    pub fn try_leave(&self, has_seat: bool, index: usize) -> bool {
        let mut state = self.state.lock();
        let may_leave = state.may_leave(has_seat);
        if may_leave && !has_seat {
            state.active -= 1;
            state.free.push(index);
        }
        may_leave
    }

    /// Whether somebody gives way: a hint, but for who is behind W3 of `idle.rs`, since who relies on it does P2 behind G1.
    pub fn has_givers(&self) -> bool {
        self.has_givers.load(Relaxed)
    }

    /// How many tables were lent for workers that others found blocked, so far.
    pub fn lent(&self) -> usize {
        // Acquire: pairs with the registration; the table is lent by then.
        self.lent.load(Acquire)
    }

    pub fn counts(&self) -> ReliefCounts {
        let state = self.state.lock();
        ReliefCounts {
            active: state.active,
            resting: state.resting.len(),
            started: state.started,
            refused: state.refused,
            capped: state.capped,
        }
    }

    fn update_hint(&self, state: &State) {
        self.has_surplus.store(state.active > state.blocked + state.stuck, Relaxed);
    }
}

impl State {
    /// How many relief threads are to be awake, while `away` seats are in computations; see [`Shared::away`].
    fn needed(&self, away: usize) -> usize {
        self.blocked + self.stuck + self.givers.len() + away
    }

    fn may_leave(&self, has_seat: bool) -> bool {
        self.blocked == 0 || has_seat && !self.is_deserted()
    }

    /// Every relief thread is blocked: at shutdown there may be nobody else. (Or so it may seem: one that is marked and inside
    /// of a blocking call counts twice.)
    fn is_deserted(&self) -> bool {
        self.active <= self.blocked_reliefs
    }
}

/// Runs `f`, which may block, while other threads take over this worker's tasks. Nearly free if `f` is short and nothing waits.
/// The call is counted as one at `site`.
pub fn block_in_place<R>(worker: &Worker, site: &'static Location<'static>, f: impl FnOnce() -> R) -> R {
    block(worker, Some(site), f)
}

/// As [`block_in_place`]; `f` surely sleeps, so that others are asked at once.
pub fn sleep_in_place<R>(worker: &Worker, f: impl FnOnce() -> R) -> R {
    block(worker, None, f)
}

/// `site`: where the user has marked it; none: `f` surely sleeps.
fn block<R>(worker: &Worker, site: Option<&'static Location<'static>>, f: impl FnOnce() -> R) -> R {
    let (shared, is_sleep) = (worker.shared(), site.is_none());
    if worker.job_seat().is_none() {
        // The thread may hold one all the same, on whose stack it works for this runtime.
        context::expose_pieces();
    }
    if shared.is_current_thread() {
        // There are no others.
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
    // A call inside of another: the thread is away already, and may have got new pieces and tasks since.
    let _return = (!worker.is_blocked()).then(|| {
        let site = site.map(|site| worker.processor().sites.of(site));
        site.inspect(|site| site.calls.add(1));
        Return { worker, had_table: worker.begin_blocking(), site }
    });
    // Behind B1. SeqCst: pairs with C0 of the shutdown.
    if is_sleep || shared.shutdown.has_begun() {
        relieve_blocked(worker);
    } else if worker.holds_work() {
        worker.expose();
        shared.relieve_if_resting(worker.index());
    }
    coop::suspended(f)
}

/// Has others see to what this worker has, while it is inside a blocking call that is not counted yet.
fn relieve_blocked(worker: &Worker) {
    let shared = worker.shared();
    // SAFETY: this thread is a worker that has not left.
    unsafe { Shared::register_blocked(worker.shared_ptr(), worker.index()) };
    worker.expose();
    if shared.shutdown.has_begun() {
        cancel_lent(worker);
    }
}

/// Has others see to what this worker has, while it is marked as blocked; `is_first`: it was not before, and counts from now on.
pub fn relieve(worker: &Worker, is_first: bool) {
    if is_first {
        // SAFETY: this thread is a worker that has not left.
        unsafe { worker_blocks(worker.shared_ptr(), worker.has_seat()) };
    }
    worker.expose();
    if worker.shared().shutdown.has_begun() {
        cancel_lent(worker);
    }
}

/// Those who stay may have looked before the table was lent.
fn cancel_lent(worker: &Worker) {
    // SAFETY: no table is claimed as the caller's own.
    coop::suspended(|| unsafe { worker.shared().owned.cancel_idle(None) });
}

/// Counts a blocked worker and sees to it that a relief thread is awake for it.
///
/// # Safety
/// 1. The caller is a worker that has not left.
unsafe fn worker_blocks(shared: NonNull<Shared>, has_seat: bool) {
    // SAFETY: (1).
    let this = unsafe { shared.as_ref() };
    let called = {
        let mut state = this.relief.state.lock();
        // SAFETY: (1).
        unsafe { Shared::count_blocked(shared, &mut state, has_seat) }
    };
    this.bring(called);
}

impl Shared {
    /// B3: counts worker `index`, if it is in a blocking call and was not counted, and lends its table. Says whether it did.
    ///
    /// # Safety
    /// 1. The caller is a worker of `shared` that has not left, or counts as one.
    pub unsafe fn register_blocked(shared: NonNull<Self>, index: usize) -> bool {
        // SAFETY: (1).
        let this = unsafe { shared.as_ref() };
        let called = {
            let mut state = this.relief.state.lock();
            // Acquire: what the worker did before B1. It finds the table lent by the lock.
            let standing = &this.processor(index).standing;
            if standing.compare_exchange(BLOCKED, RELIEVED, AcqRel, Relaxed).is_err() {
                return false;
            }
            let has_seat = index < this.config.workers;
            if has_seat && !this.config.is_pool {
                // SAFETY: its worker does not touch the table between B1 and B4, which waits for our lock.
                unsafe { this.owned.lend(index) };
                this.relief.lent.fetch_add(1, Release);
            }
            // SAFETY: (1).
            unsafe { Self::count_blocked(shared, &mut state, has_seat) }
        };
        this.bring(called);
        true
    }

    /// B3 for all, once the shutdown has begun: from now on whoever blocks counts itself.
    ///
    /// # Safety
    /// 1. As [`register_blocked`](Self::register_blocked), or the caller holds a reference and no worker has left.
    pub fn register_all_blocked(&self) {
        for (index, processor) in self.processors.iter().enumerate() {
            // SeqCst: behind C0; a worker whose B1 is missed here sees C0.
            if processor.standing.load(SeqCst) == BLOCKED {
                // SAFETY: a worker that is blocked has not left; if it is not any more, nothing is done.
                unsafe { Self::register_blocked(NonNull::from(self), index) };
            }
        }
    }

    /// A worker with tasks is in a call that may be short: a relief thread that rests is called; none is started.
    #[cold]
    fn relieve_if_resting(&self, index: usize) {
        if self.idle.has_sleepers() || self.idle.is_anybody_searching() {
            // Was woken for the tasks, or is about to find them.
            return;
        }
        if self.relief.state.lock().resting.is_empty() {
            // The monitor's.
            return;
        }
        let Some(seat) = self.seats.first() else { return };
        // SAFETY: the caller is a worker that has not left.
        unsafe { Self::register_blocked(seat.shared_ptr(), index) };
    }

    /// A worker counts as blocked from now on.
    ///
    /// # Safety
    /// 1. As [`call`](Self::call).
    unsafe fn count_blocked(shared: NonNull<Self>, state: &mut State, has_seat: bool) -> Option<Called> {
        // SAFETY: (1).
        let this = unsafe { shared.as_ref() };
        state.blocked += 1;
        state.blocked_reliefs += usize::from(!has_seat);
        let is_needed = state.active < state.needed(0) || this.shutdown.has_begun() && state.is_deserted();
        if is_needed {
            // SAFETY: (1).
            return unsafe { Self::call(shared, state, None) };
        }
        this.relief.update_hint(state);
        None
    }

    /// M of the module's docs: `stuck` workers are held for stuck, `waiting` tasks wait, and no seat is idle.
    ///
    /// # Safety
    /// 1. The caller counts as a worker of `shared`.
    pub unsafe fn relieve_stuck(shared: NonNull<Self>, stuck: usize, waiting: usize) -> usize {
        // SAFETY: (1).
        let this = unsafe { shared.as_ref() };
        let mut called = Vec::new();
        {
            let mut state = this.relief.state.lock();
            state.stuck = stuck;
            this.relief.update_hint(&state);
            let away = this.away();
            while called.len() < waiting && state.active < state.needed(away) {
                // SAFETY: (1).
                let Some(one) = (unsafe { Self::call(shared, &mut state, None) }) else {
                    break;
                };
                called.push(one);
            }
        }
        let count = called.len();
        called.into_iter().for_each(|one| this.bring(Some(one)));
        count
    }

    /// Starts relief threads until there are `least`, for computations that will give way to them. Those rest at once.
    ///
    /// # Safety
    /// 1. The caller counts as a worker of `shared`.
    pub unsafe fn keep_in_reserve(shared: NonNull<Self>, least: usize) {
        // SAFETY: (1).
        let this = unsafe { shared.as_ref() };
        let called = {
            let mut state = this.relief.state.lock();
            if state.active + state.resting.len() >= least || state.free.is_empty() {
                return;
            }
            // SAFETY: (1).
            unsafe { Self::call_fresh(shared, &mut state) }
        };
        this.bring(called);
    }

    /// There are more relief threads than are needed, asleep: one is woken, and retires.
    pub fn dismiss_relief(&self) {
        if self.relief.has_surplus.load(Relaxed) && self.relief_idle.has_sleepers() {
            let is_surplus = {
                let state = self.relief.state.lock();
                state.active > state.needed(self.away())
            };
            if is_surplus {
                let pick = self.relief_idle.pick_for(Work::Task, None);
                self.unpark_picked(pick.unparks);
            }
        }
    }

    /// G1, G2 of `split.rs`: seat `index` gives way. False if no relief thread is there to take it.
    pub fn begin_giving_way(&self, index: usize) -> bool {
        let Some(seat) = self.seats.first() else { return false };
        let mut state = self.relief.state.lock();
        if self.shutdown.has_begun() || state.givers.contains(&index) {
            return false;
        }
        let called = if !state.resting.is_empty() {
            // SAFETY: the caller is a worker that has not left; one rests, so none is started.
            unsafe { Self::call(seat.shared_ptr(), &mut state, Some(index)) }
        } else if state.active > state.blocked_reliefs + state.stuck {
            None
        } else {
            return false;
        };
        state.givers.push(index);
        self.relief.has_givers.store(true, Relaxed);
        drop(state);
        if called.is_some() {
            self.bring(called);
        } else {
            // Who is awake may be about to sleep, or asleep, as one that stands in for somebody who is away.
            self.notify_strictly();
        }
        true
    }

    /// G4: seat `index` goes on. False if the tasks were not drained before.
    pub fn end_giving_way(&self, index: usize) -> bool {
        let mut state = self.relief.state.lock();
        let place = state.givers.iter().position(|&giver| giver == index);
        if let Some(place) = place {
            state.givers.swap_remove(place);
            self.relief.has_givers.store(!state.givers.is_empty(), Relaxed);
        }
        place.is_none()
    }

    /// D: a relief thread found nothing more to do: whoever gave way goes on.
    pub fn end_all_giving_way(&self) {
        // Relaxed: who was called for them took the lock behind their G1.
        if !self.relief.has_givers.load(Relaxed) {
            return;
        }
        let givers = {
            let mut state = self.relief.state.lock();
            self.relief.has_givers.store(false, Relaxed);
            std::mem::take(&mut state.givers)
        };
        for index in givers {
            self.processor(index).way.unpark(&self.driver);
        }
    }

    /// L3: before this worker sleeps on a latch, tasks that wait must not wait for it.
    fn admit_relief_if_tasks_wait(&self) {
        if self.has_visible_tasks() {
            self.notify();
        }
    }

    /// How many relief threads are needed for workers that compute: one for each that sleeps on a latch, and one if all
    /// compute and pass no split points.
    pub fn away(&self) -> usize {
        self.idle.waiters() + usize::from(self.is_computing() && !self.splits.are_passed())
    }

    /// Whether no seat is idle, and computations are under way: a hint.
    pub fn is_computing(&self) -> bool {
        self.jobs.is_any_live() && !self.is_hungry() && !self.config.is_pool
    }

    /// A1, A2: has a relief thread see to tasks while workers that wait for latches are asleep, one for each.
    #[cold]
    pub fn admit_relief(&self) {
        let Some(seat) = self.seats.first() else {
            return;
        };
        let called = {
            let mut state = self.relief.state.lock();
            if self.shutdown.has_begun() || state.active >= state.needed(self.away()) {
                return;
            }
            if !self.has_visible_tasks() && !self.is_driver_deserted() {
                return;
            }
            // SAFETY: under the lock: a worker leaves behind it, once the shutdown has begun.
            unsafe { Self::call(seat.shared_ptr(), &mut state, None) }
        };
        self.bring(called);
    }

    /// A2: calls a relief thread that rests, or else a new one; none if there are as many as there may be.
    ///
    /// Relief thread `i` belongs to seat `i % workers`: if threads are kept on CPUs, it has the seat's. So one is preferred that
    /// belongs to `near`, or else to a seat that sleeps on a latch.
    ///
    /// # Safety
    /// 1. A worker of `shared` has not left, and does not before this returns.
    unsafe fn call(shared: NonNull<Self>, state: &mut State, near: Option<usize>) -> Option<Called> {
        // SAFETY: (1).
        let this = unsafe { shared.as_ref() };
        let seat_of = |relief: &usize| relief % this.config.workers;
        let is_near = |relief: &usize| match near {
            Some(seat) => seat_of(relief) == seat,
            None => this.idle.is_waiter(seat_of(relief)),
        };
        let best = state.resting.iter().rposition(is_near);
        let Some(place) = best.or_else(|| state.resting.len().checked_sub(1)) else {
            // SAFETY: (1).
            return unsafe { Self::call_fresh(shared, state) };
        };
        let index = state.resting.remove(place);
        state.active += 1;
        this.relief.update_hint(state);
        Some(Called::Resting(index))
    }

    /// A2: takes a free index for a thread to be started.
    ///
    /// # Safety
    /// 1. As [`call`](Self::call).
    unsafe fn call_fresh(shared: NonNull<Self>, state: &mut State) -> Option<Called> {
        // SAFETY: (1).
        let this = unsafe { shared.as_ref() };
        let Some(index) = state.free.pop() else {
            state.capped += 1;
            this.relief.update_hint(state);
            return None;
        };
        state.active += 1;
        state.started += 1;
        // Made here, so that those that have been made are the first ones, and nobody's search ends before one.
        this.processor(index);
        this.relief.update_hint(state);
        // SAFETY: (1); the index was free, so its processor has no owner.
        Some(Called::Fresh(unsafe { WorkerStart::new(shared, index) }))
    }

    /// A2: wakes or starts who was called. If the system refuses the thread, whoever blocks or pushes next tries again.
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
            let mut state = self.relief.state.lock();
            state.active -= 1;
            state.started -= 1;
            state.refused += 1;
            state.free.push(index);
            self.relief.update_hint(&state);
        }
    }

    /// Whether events or timers may come, and nobody sits in the driver: a hint.
    pub fn is_driver_deserted(&self) -> bool {
        let driver = &self.driver;
        let has_sources = || driver.io().is_some_and(|io| io.has_sources());
        let has_timers = || driver.time().is_some_and(|time| time.earliest() != Deadline::MAX);
        driver.sitter().is_none() && (has_sources() || has_timers())
    }

    /// A worker is not blocked any more.
    pub fn worker_returned(&self, has_seat: bool) {
        let mut state = self.relief.state.lock();
        state.blocked -= 1;
        state.blocked_reliefs -= usize::from(!has_seat);
        self.relief.update_hint(&state);
        drop(state);
        if self.shutdown.has_begun() {
            // Others stayed for this worker.
            self.unpark_all();
        }
    }
}

impl Worker {
    /// L3: this worker is about to sleep on a latch: what it has is not to wait for it.
    pub fn leave_tasks(&self) {
        let processor = self.processor();
        if !processor.ring.is_empty() || processor.lifo.is_occupied() {
            self.expose();
        } else {
            self.shared().admit_relief_if_tasks_wait();
        }
    }

    /// This worker slept on a latch, and goes on with its computation: if nobody sits in the driver, somebody who sleeps has to.
    pub fn leave_driver(&self) {
        let shared = self.shared();
        // Behind the fence: whoever has found the seat taken shows its bit.
        shared.idle.fence_push();
        if shared.idle.has_waiters() && shared.is_driver_deserted() {
            shared.notify();
        }
    }
}

/// How long a relief thread sleeps as a worker before it asks again whether it is needed.
pub fn longest_sleep(worker: &Worker) -> Option<Duration> {
    (!worker.has_seat()).then(|| worker.shared().config.thread_keep_alive.min(LONGEST_SLEEP))
}

/// Rests until called (true) or until the thread is to end (false).
pub fn rest(worker: &Worker) -> bool {
    let shared = worker.shared();
    let index = worker.index();
    let give_up = Instant::now().checked_add(shared.config.thread_keep_alive);
    loop {
        let timeout = give_up.map(|give_up| give_up.saturating_duration_since(Instant::now()));
        worker.processor().metrics.parks.add(1);
        worker.processor().metrics.naps.add(1);
        let mut report = None;
        worker.processor().parker.park_if(timeout, || {
            report = shared.find_deadlock();
            report.is_none()
        });
        worker.processor().metrics.naps.add(1);
        shared.monitor.somebody_woke(&shared.driver);
        if let Some(report) = report {
            report.deliver();
        }
        let mut state = shared.relief.state.lock();
        let Some(place) = state.resting.iter().position(|&resting| resting == index) else {
            return true;
        };
        if shared.shutdown.has_begun() || give_up.is_some_and(|give_up| Instant::now() >= give_up) {
            state.resting.remove(place);
            state.free.push(index);
            return false;
        }
    }
}
