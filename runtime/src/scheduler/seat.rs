//! A worker's place in computations: its deque of jobs, and how freely it shares what is in it.
//!
//! A *piece* is a job that somebody waits for: a half of a `join`, a job of a scope. Pieces lie in the deque; loose ones that do
//! not fit, on the overflow shelf. A detached job (`spawn`) lies on a shelf of its own, so that whoever waits for a piece
//! never gets one on its stack. Roots from outside are in `jobs.rs`.
//!
//! # Sharing
//! A piece that is not published costs no read-modify-write, and a thread that is woken for nothing costs 2 to 6 µs. A piece
//! that is not published while others are hungry costs a core. Rules, in the order in which a push applies them:
//! 1. Deep in a recursion ([`EAGER`] pieces below it) and with something public: nothing to do. A thief takes the oldest piece,
//!    the biggest, and the next push publishes the next.
//! 2. *Patience*: for so many pushes nothing is done. Thieves that find nothing end it ([`Seat::ask`]).
//! 3. With something public and nobody hungry: nothing to do, and patience.
//! 4. Pieces that are typically [`SHORT`], by their index, are not worth a thief's way. So patience, until the oldest private
//!    one has proven long by the clock, which is looked at every [`PATIENCE`] pushes.
//! 5. Publish: while others are hungry, all private pieces that are typically long (the first of a recursion are nearly all of
//!    its work, and the owner may be in a long leaf next); else one. Wake a thread, see `idle.rs`.
//!
//! What is typical is learned from the published pieces: from publishing one to taking it back, its twin was run. Of
//! short ones, one in [`PATIENCE`] pushes is published for this alone, without a wake. So a long piece at a depth where they
//! were short is not shared before the clock is looked at again: the price of rule 4.
//!
//! All this is for halves of a `join`. A loose piece is published when it is pushed, always: whoever pushed it may wait for it
//! by other means than its scope.

use std::array;
use std::cell::Cell;
use std::fmt;
use std::ptr::{NonNull, null};
use std::time::Instant;

use super::shared::Shared;
use super::split::Stride;
use super::worker::Worker;
use crate::context;
use crate::job::{CoreLatch, Fifo, JobHeader, JobRef, Owner, Region, Tag};
use crate::loom::sync::atomic::AtomicU32;
use crate::loom::sync::atomic::Ordering::Relaxed;
use crate::queue::{Deque, Shelf, Taken};

/// The oldest so many pieces of a recursion are published while others are hungry.
const EAGER: u32 = 8;

/// Pushes between two looks at the clock.
const PATIENCE: u32 = 64;

/// Nanoseconds of work that are not worth a thief's way, or a wake.
const SHORT: u32 = 5_000;

/// Nanoseconds of work that a thief takes at once: several short loose pieces, or one.
const BATCH: u128 = 2_000;

/// No piece counts as longer, so that a few short ones are enough to learn from.
const LONG: u32 = 8 * SHORT;

/// See the module's docs. Alone on its cache lines.
#[repr(align(128))]
pub struct Seat {
    deque: Deque<JobHeader>,
    /// Pushes for which nothing is published; thieves set it to zero. The owner writes it by load and store.
    patience: AtomicU32,
    /// The region of the job that the owner runs, or null. The owner's alone, as all cells here.
    region: Cell<*const Region>,
    /// That region's tag.
    tag: Cell<Tag>,
    /// For each of the oldest indices, and one for all others.
    habits: [Habit; EAGER as usize + 1],
    /// To the next look at the clock; see `split.rs`.
    pub stride: Stride,
    /// How many pieces were stolen last, and when.
    batch: Cell<u32>,
    batch_began: Cell<Option<Instant>>,
    index: usize,
    /// Set before any thread knows the seat.
    shared: Cell<*const Shared>,
    /// Loose pieces that did not fit into the deque.
    pub overflow: Shelf<JobRef>,
    /// Detached jobs spawned here.
    pub detached: Shelf<JobRef>,
    /// What only this seat may run.
    pub broadcasts: Shelf<JobRef>,
    /// For `spawn_fifo`.
    pub fifo: Fifo,
}

/// What is known of the pieces at one index. The owner's alone.
struct Habit {
    /// How many were pushed.
    pushes: Cell<u32>,
    /// Nanoseconds that one takes typically, a moving average.
    typical: Cell<u32>,
    /// The number of the piece that is being timed, and since when.
    timed: Cell<u32>,
    since: Cell<Option<Instant>>,
}

impl Habit {
    fn new() -> Self {
        Self { pushes: Cell::new(0), typical: Cell::new(LONG), timed: Cell::new(0), since: Cell::new(None) }
    }

    /// Times the piece that was pushed last.
    fn begin_timing(&self) {
        self.timed.set(self.pushes.get());
        self.since.set(Some(Instant::now()));
    }

    /// For how many nanoseconds the piece that was pushed last is known to be there, if it is being timed.
    fn known_for(&self) -> Option<u32> {
        let since = self.since.get().filter(|_| self.timed.get() == self.pushes.get())?;
        Some(since.elapsed().as_nanos().min(u128::from(LONG)) as u32)
    }
}

// SAFETY: the cells are touched only by the methods whose callers are the owner, see `context::seat`; `shared` is not
// written once others know the seat. What lies in the queues may be sent.
unsafe impl Send for Seat {}
// SAFETY: as above.
unsafe impl Sync for Seat {}

impl Seat {
    pub fn new(index: usize) -> Self {
        Self {
            deque: Deque::new(),
            patience: AtomicU32::new(0),
            region: Cell::new(null()),
            tag: Cell::new(Tag::NONE),
            habits: array::from_fn(|_| Habit::new()),
            stride: Stride::new(),
            batch: Cell::new(1),
            batch_began: Cell::new(None),
            index,
            shared: Cell::new(null()),
            overflow: Shelf::new(),
            detached: Shelf::new(),
            broadcasts: Shelf::new(),
            fifo: Fifo::new(null()),
        }
    }

    /// Tells the seat where it belongs.
    ///
    /// # Safety
    /// 1. No other thread knows the seat yet. 2. `shared` outlives it.
    pub unsafe fn bind(&self, shared: NonNull<Shared>) {
        self.shared.set(shared.as_ptr());
    }

    pub fn index(&self) -> usize {
        self.index
    }

    #[inline]
    pub fn shared_ptr(&self) -> NonNull<Shared> {
        // SAFETY: bound, as soon as anybody can call this.
        unsafe { NonNull::new_unchecked(self.shared.get().cast_mut()) }
    }

    #[inline]
    pub fn shared(&self) -> &Shared {
        // SAFETY: the shared state has the seat.
        unsafe { self.shared_ptr().as_ref() }
    }

    /// Calls `f` with the owner's worker. For the owner.
    pub fn with_worker<R>(&self, f: impl FnOnce(&Worker) -> R) -> R {
        context::with_worker_of(self.shared_ptr(), |worker| f(worker.expect("a seat's owner is its worker")))
    }

    #[inline(always)]
    pub fn region(&self) -> *const Region {
        self.region.get()
    }

    #[inline(always)]
    pub fn tag(&self) -> Tag {
        self.tag.get()
    }

    /// A split point; see `split.rs`.
    #[inline(always)]
    pub fn pass_split(&self) {
        if self.stride.pass() {
            self.look();
        }
    }

    /// Makes `region`, with its tag, the one in which the owner works; returns what was.
    pub fn replace_region(&self, region: *const Region, tag: Tag) -> (*const Region, Tag) {
        (self.region.replace(region), self.tag.replace(tag))
    }

    /// The index that the next piece gets.
    #[inline(always)]
    pub fn head(&self) -> u32 {
        // SAFETY: the caller is the owner.
        unsafe { self.deque.head() }
    }

    /// Pushes a piece whose pusher takes it back by [`take_back`](Self::take_back); says at which index, or none if there is
    /// no room.
    ///
    /// # Safety
    /// 1. The calling thread is the owner. 2. The job lives until it has run or was taken back.
    #[inline(always)]
    pub unsafe fn push_anchored(&self, job: JobRef) -> Option<u32> {
        // SAFETY: (1) and (2).
        unsafe {
            let index = self.deque.head();
            if !self.deque.push_anchored(job.into_raw()) {
                return None;
            }
            // Rules 1 and 2.
            if index < EAGER || self.deque.is_nothing_public() {
                self.count_push(index);
            }
            Some(index)
        }
    }

    #[inline(always)]
    fn count_push(&self, index: u32) {
        let pushes = &self.habit(index).pushes;
        pushes.set(pushes.get().wrapping_add(1));
        // Relaxed: a hint; a thief's zero may be overwritten, it will ask again.
        match self.patience.load(Relaxed) {
            0 => self.share(index),
            patience => self.patience.store(patience - 1, Relaxed),
        }
    }

    #[inline(always)]
    fn habit(&self, index: u32) -> &Habit {
        &self.habits[index.min(EAGER) as usize]
    }

    /// Pushes a piece that nobody comes back for, and publishes it.
    ///
    /// # Safety
    /// 1. The calling thread is the owner. 2. The job lives until it has run.
    #[inline]
    pub unsafe fn push(&self, job: JobRef) {
        // SAFETY: (1) and (2).
        unsafe {
            if self.deque.push(job.into_raw()) {
                self.deque.publish(u32::MAX);
            } else {
                self.overflow.push_back(job);
            }
        }
        self.shared().post_piece();
    }

    /// Takes back the piece at `index`, the youngest; `Stolen` if a thief has it.
    ///
    /// # Safety
    /// 1. The calling thread is the owner, has pushed it there and taken out all that came afterwards.
    #[inline(always)]
    pub unsafe fn take_back(&self, index: u32) -> Taken<JobHeader> {
        // SAFETY: (1).
        unsafe {
            let is_public = self.deque.is_public(index);
            let taken = self.deque.take_back(index);
            if is_public {
                self.learn(index, matches!(taken, Taken::Stolen));
            }
            taken
        }
    }

    /// The youngest loose piece at `floor` or above, or from the overflow shelf.
    ///
    /// # Safety
    /// 1. The calling thread is the owner. 2. Nothing anchored is at `floor` or above.
    pub unsafe fn pop(&self, floor: u32) -> Option<JobRef> {
        let tag = self.tag();
        // Breadth first takes the oldest; but none that is not the caller's.
        if self.shared().config.is_breadth_first {
            // SAFETY: (1).
            unsafe { self.deque.publish(u32::MAX) };
            return self.steal(tag);
        }
        // SAFETY: (1), (2).
        self.overflow.take_last(|job| may_run(tag, job.tag())).or_else(|| unsafe { self.pop_loose(floor) })
    }

    /// The youngest loose piece of the deque that is at `floor` or above, and that may be run here: others, made in an isolated
    /// region for a scope around it, go to the overflow shelf. If there is none, the next piece gets index `floor`, or a lower
    /// one.
    ///
    /// # Safety
    /// 1. As [`pop`](Self::pop).
    pub unsafe fn pop_loose(&self, floor: u32) -> Option<JobRef> {
        let tag = self.tag();
        loop {
            // SAFETY: (1).
            let job = unsafe { self.deque.pop(floor) }.map(JobRef::from_raw)?;
            if may_run(tag, job.tag()) {
                return Some(job);
            }
            self.overflow.push_back(job);
            self.shared().post_piece();
        }
    }

    /// A piece of this seat: the youngest if nobody comes back for that one, else the oldest.
    ///
    /// # Safety
    /// 1. The calling thread is the owner.
    pub unsafe fn pop_anywhere(&self) -> Option<JobRef> {
        let tag = self.tag();
        // An isolated region asks each piece for its tag, which can be done at the old end.
        let is_lifo = tag == Tag::NONE && !self.shared().config.is_breadth_first;
        // SAFETY: (1).
        let youngest = if is_lifo { unsafe { self.deque.pop_if_loose() } } else { None };
        youngest.map(JobRef::from_raw).or_else(|| {
            // SAFETY: (1).
            unsafe { self.deque.publish(u32::MAX) };
            self.steal(tag)
        })
    }

    /// A detached job of this seat, in the owner's order.
    pub fn take_detached(&self) -> Option<JobRef> {
        match self.shared().config.is_breadth_first {
            true => self.detached.pop_front(),
            false => self.detached.pop_back(),
        }
    }

    /// Puts the loose pieces from `floor` on where others find them and this thread is not in their way.
    ///
    /// # Safety
    /// 1. As [`pop`](Self::pop).
    pub unsafe fn spill(&self, floor: u32) {
        // SAFETY: (1).
        while let Some(job) = unsafe { self.pop_loose(floor) } {
            self.overflow.push_back(job);
            self.shared().post_piece();
        }
    }

    /// Publishes everything: the owner will not come back soon.
    ///
    /// # Safety
    /// 1. The calling thread is the owner.
    pub unsafe fn publish_all(&self) -> bool {
        // SAFETY: (1).
        unsafe { self.deque.publish(u32::MAX) > 0 }
    }

    /// The oldest public piece that a thread inside the isolated region `tag` may run. Any thread.
    pub fn steal(&self, tag: Tag) -> Option<JobRef> {
        let is_wanted = |job| may_run(tag, JobRef::from_raw(job).tag());
        let stolen = self.deque.steal(is_wanted).map(JobRef::from_raw);
        stolen.or_else(|| self.overflow.take_first(|job| may_run(tag, job.tag())))
    }

    /// Takes pieces from `victim`: returns the oldest and pushes the others, at most `most` in all.
    ///
    /// # Safety
    /// 1. The calling thread is the owner of this seat, and in no job.
    pub unsafe fn steal_several(&self, victim: &Seat, most: u32) -> Option<JobRef> {
        let taken = Cell::new(1);
        let put = |job| {
            taken.set(taken.get() + 1);
            // SAFETY: (1). Whoever pushed the job there vouched for it.
            if !unsafe { self.deque.push(job) } {
                self.overflow.push_back(JobRef::from_raw(job));
            }
        };
        // Those of isolated regions one by one: in the deque of a thread that blocks, others could hide them.
        let is_open = |job| JobRef::from_raw(job).tag() == Tag::NONE;
        let job = match victim.deque.steal_several(most, is_open, put) {
            Some(job) => JobRef::from_raw(job),
            None => victim.steal(Tag::NONE)?,
        };
        self.batch.set(taken.get());
        self.batch_began.set(Some(Instant::now()));
        // Others find them here.
        // SAFETY: (1).
        if unsafe { self.deque.publish(u32::MAX) } > 0 {
            self.shared().post_piece();
        }
        Some(job)
    }

    /// How many pieces the owner should steal at once: as many as take about [`BATCH`], going by the last ones.
    pub fn end_batch(&self) -> u32 {
        let Some(began) = self.batch_began.take() else {
            return 1;
        };
        let each = began.elapsed().as_nanos() / u128::from(self.batch.get());
        (BATCH / each.max(1)).clamp(1, 32) as u32
    }

    /// What only this seat may run, if a thread that waits inside the isolated region `tag` may.
    pub fn take_broadcast(&self, tag: Tag) -> Option<JobRef> {
        self.broadcasts.take_first(|job| may_run(tag, job.tag()))
    }

    /// Whether [`take_broadcast`](Self::take_broadcast) would find something.
    pub fn has_broadcast(&self, tag: Tag) -> bool {
        self.broadcasts.has(|job| may_run(tag, job.tag()))
    }

    /// Whether thieves find a piece here: a hint.
    pub fn has_public_pieces(&self) -> bool {
        !self.deque.is_nothing_public() || !self.overflow.is_empty()
    }

    /// A thief would like to have something.
    pub fn ask(&self) {
        if self.patience.load(Relaxed) > 0 {
            self.patience.store(0, Relaxed);
        }
    }

    /// Whether pieces lie here. For the owner.
    pub fn has_pieces(&self) -> bool {
        // SAFETY: the caller is the owner.
        unsafe { self.deque.has_items() || !self.overflow.is_empty() }
    }

    /// Whether jobs that were pushed here wait. For the owner.
    pub fn has_pending_jobs(&self) -> bool {
        self.has_pieces() || !self.detached.is_empty()
    }

    /// Rules 3 to 5.
    #[cold]
    #[inline(never)]
    fn share(&self, index: u32) {
        let shared = self.shared();
        if shared.config.workers == 1 {
            return self.patience.store(u32::MAX, Relaxed);
        }
        // SAFETY: the caller is the owner.
        let oldest = unsafe { self.deque.first_private() };
        let is_hungry = shared.is_hungry();
        if !is_hungry && !self.deque.is_nothing_public() {
            return self.patience.store(2 * EAGER, Relaxed);
        }
        let habit = self.habit(oldest);
        let known_for = habit.known_for();
        if habit.typical.get() < SHORT {
            if known_for.is_none_or(|nanos| nanos < SHORT) {
                if known_for.is_none() {
                    habit.begin_timing();
                }
                if oldest == index {
                    // SAFETY: as above.
                    unsafe { self.deque.publish(1) };
                }
                return self.patience.store(PATIENCE, Relaxed);
            }
            habit.typical.set(SHORT);
        }
        let long = (oldest..=index).take_while(|&index| self.habit(index).typical.get() >= SHORT).count();
        // SAFETY: as above.
        unsafe { self.deque.publish(if is_hungry { long as u32 } else { 1 }) };
        shared.post_piece();
        if known_for.is_none() {
            // Behind the wake, which takes microseconds.
            habit.begin_timing();
        }
    }

    /// A published piece was taken back, or stolen.
    #[cold]
    fn learn(&self, index: u32, is_stolen: bool) {
        let habit = self.habit(index);
        if let Some(nanos) = habit.known_for() {
            habit.typical.set(habit.typical.get().midpoint(nanos));
            habit.since.set(None);
        }
        if is_stolen {
            self.patience.store(0, Relaxed);
        }
    }

    /// Runs a job as the owner, in the job's region.
    ///
    /// # Safety
    /// 1. The calling thread is the owner, and has claimed the job.
    pub unsafe fn run(&self, job: JobRef) {
        self.pass_split();
        // SAFETY: (1). Jobs do not unwind.
        unsafe {
            let (region, tag) = self.replace_region(job.region(), job.tag());
            let (is_foreign, floor) = (job.tag() != tag, self.head());
            job.run();
            if is_foreign && self.head() > floor {
                // What is left is of an isolated region, which waits for it, and sees of a deque the oldest piece only; this
                // thread may not come to it before it needs what the region holds.
                self.spill(floor);
                self.shared().idle.fence_push();
                self.shared().post_piece();
            }
            self.replace_region(region, tag);
        }
    }

    /// Runs the pieces of this seat from `floor` on, until there are none or `is_done`. As [`wait`](Self::wait).
    #[inline]
    pub fn run_own(&self, floor: u32, is_done: impl Fn() -> bool) {
        if !is_done() {
            self.with_worker(|worker| worker.run_own(self, floor, is_done));
        }
    }

    /// Waits until `latch` is set; see `wait.rs`. `floor`: what is the caller's own in the deque begins there.
    #[inline]
    pub fn wait(&self, latch: &CoreLatch, floor: u32) {
        if !latch.is_set() {
            self.with_worker(|worker| worker.wait(self, latch, floor));
        }
    }

    /// Waits until `latch` is set and runs nothing meanwhile: this stack unwinds.
    pub fn wait_idly(&self, latch: &CoreLatch) {
        if !latch.is_set() {
            self.with_worker(|worker| worker.wait_idly(self, latch));
        }
    }
}

/// Runs `f`, which polls tasks that are no part of the computation on whose stack they are polled, and does not unwind. An
/// isolated region around counts: what it holds is held.
pub fn outside_of_computations<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: used in this call only.
    let Some(seat) = (unsafe { context::seat() }) else {
        return f();
    };
    let (region, tag) = seat.replace_region(null(), seat.tag());
    let result = f();
    seat.replace_region(region, tag);
    result
}

/// Whether a thread that waits inside the isolated region `waiter` (or in none) may run a job of `job`.
pub fn may_run(waiter: Tag, job: Tag) -> bool {
    waiter == Tag::NONE || waiter == job
}

// SAFETY: (1) a seat's parker is its processor's, which lives as long as the shared state; (2) `Hold` is a reference to that.
unsafe impl Owner for Seat {
    type Hold = Hold;

    unsafe fn hold(owner: NonNull<Self>) -> Hold {
        // SAFETY: (1): the seat's pool is kept by the caller.
        unsafe { Hold::new(owner.as_ref().shared_ptr()) }
    }

    unsafe fn unpark(owner: NonNull<Self>) {
        // SAFETY: (1).
        let seat = unsafe { owner.as_ref() };
        let shared = seat.shared();
        shared.processor(seat.index).parker.unpark(&shared.driver);
    }
}

/// A reference to a pool's shared state.
#[derive(Debug)]
pub struct Hold(NonNull<Shared>);

impl Hold {
    /// # Safety
    /// 1. `shared` is valid.
    pub unsafe fn new(shared: NonNull<Shared>) -> Self {
        Shared::retain(shared);
        Self(shared)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // SAFETY: our reference.
        unsafe { Shared::release(self.0) };
    }
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat").field("index", &self.index).field("deque", &self.deque).finish_non_exhaustive()
    }
}
