//! A worker's place in computations: its deque of jobs, and how freely it shares what is in it.
//!
//! A *piece* is a job that a frame on some stack waits for: a half of a `join`, a job of a scope. Pieces lie
//! in the deque; loose ones that do not fit lie on the overflow shelf. Detached jobs (`spawn`) lie on a shelf
//! of their own, so that a thread that waits for a piece never gets a detached job on its stack. Roots from
//! outside are in `jobs.rs`.
//!
//! Each worker has a seat, and so has each external thread while it takes part (`external.rs`). That thread
//! is called the *owner* here.
//!
//! # Sharing
//! A piece that is not published costs no read-modify-write, and a thread that is woken for nothing costs 2
//! to 6 µs. But a piece that is not published while other workers are hungry leaves a core idle. Rules, in
//! the order in which a push applies them:
//! 1. Deep in a recursion ([`EAGER`] pieces below it) and with something public: nothing to do for as long as
//!    that is public. A thief takes the oldest piece, the biggest, and the next push publishes the next.
//! 2. With something public and no thief hungry: nothing to do for a few pushes.
//! 3. Pieces that are typically [`SHORT`], by their index, are not worth a thief's way. So there is nothing
//!    to do for [`PATIENCE`] pushes. Then the owner looks at the clock, and goes on so until the oldest
//!    private piece has proven long.
//! 4. Publish. While thieves are hungry: all private pieces that are typically long (the first of a recursion
//!    are nearly all of its work, and the owner may be in a long leaf next). Else: one piece. Wake a thread,
//!    see `idle.rs`. Then as 1, or again at the next push.
//!
//! The typical time is learned from the published pieces: the time between publishing a piece and taking it
//! back measures the other half. Of short pieces, one in [`PATIENCE`] pushes is published only for this
//! measurement, without a wake. Rule 3 has a price: a long piece at a depth where pieces were short is not
//! shared before the owner looks at the clock again, or blocks ([`Seat::expose_pieces`]). A piece that is
//! being timed is noted in its slot, so that another piece in its place is not taken for it.
//!
//! Few halves of a `join` are ever published. So what only a thief needs of one (its region, its latch, its
//! tag) is not written when it is pushed: it is *begun*, and finished, by [`Seat::finish`], before it is
//! published, and before the seat's region changes.
//!
//! All this is for halves of a `join`. A loose piece is always published when it is pushed: its pusher may
//! wait for it by other means than its scope.
//!
//! # Tiny pieces
//! A loose piece that does next to nothing is run by its owner in 20 ns. A thief needs several times that,
//! because the piece, its memory, and the word of the deque come from the owner's cache. The owner needs the
//! lines again, and loses as much. So a thief measures what it has stolen, and takes several short pieces at
//! once ([`BATCH`]). When they were [`TINY`], it stays away for a while ([`PAUSE`]). It does not stay away
//! for good, because the pusher of a piece may wait for it.
//!
//! # The grant
//! A push that has nothing to do but to push should cost no more than that. So the owner goes through the
//! rules only now and then ([`Seat::push_slowly`]). They *grant* a number of pushes for which nothing is
//! done. The grant also ends with the stride of `split.rs`, so that one countdown does for both.
//! ```text
//! left     pushes that are left of the grant: the owner counts it down, by load and store; the thread that
//!          makes it zero ends the grant, and the next push goes through the rules
//! ```
//! No grant is longer than there is room for its pushes. Loose pieces leave a part of the deque to halves of
//! a `join` ([`LOOSE_LIMIT`]): `left` + the larger of `head` and this limit never exceeds the capacity.
//!
//! Within a grant, a push does not ask whether its computation was cancelled. So a grant is for one
//! computation, and the thread that cancels the computation ends the grant (`parallel/cancel.rs`).
//!
//! A thief makes `left` zero when it has found nothing, or has taken the last public piece ([`Seat::ask`]).
//! The owner makes it zero when a grant relies on a public piece (rule 1) and the owner takes that back. The
//! owner may overwrite a thief's zero, so no grant is longer than [`PATIENCE`] where there are thieves; and a
//! thief that finds nothing again asks again.

use std::alloc::Layout;
use std::array;
use std::cell::Cell;
use std::fmt;
use std::ptr::{NonNull, null};
use std::time::{Duration, Instant};

use super::external::ExternalTag;
use super::hints::slices::Slices;
use super::magazine::Magazine;
use super::shared::Shared;
use super::split::Stride;
use super::worker::Worker;
use crate::context;
use crate::job::region::Current;
use crate::job::stack::StackHead;
use crate::job::{Fifo, JobHeader, JobRef, Owner, Question, Region, SpinLatch, Tag};
use crate::loom::sync::atomic::Ordering::{Relaxed, SeqCst};
use crate::loom::sync::atomic::{AtomicI32, fence};
use crate::loom::{DEQUE_CAPACITY, hint};
use crate::queue::{Deque, Shelf, Taken};

/// This many of the oldest pieces of a recursion are published while thieves are hungry.
const EAGER: u32 = 8;

/// The longest grant where there are thieves.
const PATIENCE: u32 = 64;

/// The longest grant for a computation that began in another pool, because the thread that cancels the
/// computation does not end such a grant.
const FOREIGN: u32 = 16;

/// Indices below which loose pieces may lie.
const LOOSE_LIMIT: u32 = (DEQUE_CAPACITY - if DEQUE_CAPACITY > 4096 { 1024 } else { 1 }) as u32;

/// Nanoseconds of work that are not worth a thief's way, or a wake.
const SHORT: u32 = 5_000;

/// Nanoseconds of work that a thief takes at once: several short loose pieces, or one.
const BATCH: u128 = 2_000;

/// Nanoseconds of work, the way to the thief included, below which a loose piece is hardly worth that way. Of
/// longer ones a full batch takes as long as [`PAUSE`].
const TINY: u128 = 250;

/// How long a thief stays away after it has stolen tiny pieces.
const PAUSE: Duration = Duration::from_micros(8);

/// No piece counts as longer, so that a few short ones are enough to learn from.
const LONG: u32 = 8 * SHORT;

/// The oldest goes first.
const BREADTH_FIRST: u32 = 1;
/// The owner has put something on the overflow shelf, and not found it empty since.
const OVERFLOWED: u32 = 2;
/// [`Seat::waits_for`] is a tag.
const HELD: u32 = 4;
/// The grant is by rule 1.
const RELIES_ON_PUBLIC: u32 = 8;

/// See the module's docs. Alone on its cache lines.
#[repr(align(128))]
pub struct Seat {
    deque: Deque<JobHeader>,
    /// The pushes that are left of the grant, not negative; see the module's docs.
    left: AtomicI32,
    /// The grant. The owner's alone, as all cells here.
    granted: Cell<u32>,
    /// What makes a [`pop`](Self::pop) more than that: [`BREADTH_FIRST`] and the like. Mostly zero.
    peculiar: Cell<u32>,
    /// The region of the job that the owner runs, or null.
    region: Cell<*const Region>,
    /// That region's tag, or that of an external thread's jobs.
    tag: Cell<Tag>,
    /// What that region's split points ask, or null.
    question: Cell<*const Question>,
    /// It is for external threads. Written as `shared`.
    is_external: Cell<bool>,
    /// For each of the oldest indices, and one for all others.
    habits: [Habit; EAGER as usize + 1],
    /// To the next look at the clock; see `split.rs`.
    pub stride: Stride,
    pub slices: Slices,
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
    pub fifo: Fifo<Shelf<JobRef>>,
    pub external_tag: ExternalTag,
    /// How many waits for latches lie on the owner's stack.
    pub waits: Cell<u32>,
    /// For jobs.
    magazine: Magazine,
}

/// What the owner knows of the pieces at one index. Only the owner touches it.
struct Habit {
    /// Nanoseconds that one takes typically, a moving average.
    typical: Cell<u32>,
    /// The index of the piece that is being timed, if the same piece is still noted there, and since when.
    timed: Cell<(u32, Option<Instant>)>,
}

impl Habit {
    fn new() -> Self {
        Self { typical: Cell::new(LONG), timed: Cell::new((0, None)) }
    }
}

// SAFETY: the cells are touched only by the methods whose callers are the owner, see `context::seat`;
// `shared` is not written once others know the seat. What lies in the queues may be sent.
unsafe impl Send for Seat {}
// SAFETY: as above.
unsafe impl Sync for Seat {}

impl Seat {
    pub fn new(index: usize) -> Self {
        Self {
            deque: Deque::new(),
            left: AtomicI32::new(0),
            granted: Cell::new(0),
            peculiar: Cell::new(0),
            region: Cell::new(null()),
            tag: Cell::new(Tag::NONE),
            question: Cell::new(null()),
            is_external: Cell::new(false),
            habits: array::from_fn(|_| Habit::new()),
            stride: Stride::new(),
            slices: Slices::default(),
            batch: Cell::new(1),
            batch_began: Cell::new(None),
            index,
            shared: Cell::new(null()),
            overflow: Shelf::new(),
            detached: Shelf::new(),
            broadcasts: Shelf::new(),
            fifo: Fifo::new(null()),
            external_tag: ExternalTag::default(),
            waits: Cell::new(0),
            magazine: Magazine::new(),
        }
    }

    /// Tells the seat where it belongs.
    ///
    /// # Safety
    /// 1. No other thread knows the seat yet. 2. `shared` outlives it.
    pub unsafe fn bind(&self, shared: NonNull<Shared>) {
        self.shared.set(shared.as_ptr());
        // SAFETY: (2).
        let state = unsafe { shared.as_ref() };
        self.set_peculiar(BREADTH_FIRST, state.config.is_breadth_first);
        self.is_external.set((state.config.workers..state.first_spare).contains(&self.index));
    }

    #[inline]
    fn set_peculiar(&self, what: u32, is_so: bool) {
        let others = self.peculiar.get() & !what;
        self.peculiar.set(if is_so { others | what } else { others });
    }

    #[inline]
    fn is_peculiar(&self, what: u32) -> bool {
        self.peculiar.get() & what != 0
    }

    pub fn index(&self) -> usize {
        self.index
    }

    /// The number that a program sees: below the number of threads for permanent workers, and from there on
    /// for spare ones, since programs take it for the number of a slot that no other thread uses meanwhile.
    /// External threads have none.
    #[inline]
    pub fn thread_index(&self) -> Option<usize> {
        let shared = self.shared();
        match self.index < shared.config.workers {
            true => Some(self.index),
            false => self.index.checked_sub(shared.first_spare).map(|place| shared.config.workers + place),
        }
    }

    #[inline]
    pub fn shared_ptr(&self) -> NonNull<Shared> {
        // SAFETY: bound, before any caller can have the seat.
        unsafe { NonNull::new_unchecked(self.shared.get().cast_mut()) }
    }

    #[inline]
    pub fn shared(&self) -> &Shared {
        // SAFETY: the shared state has the seat.
        unsafe { self.shared_ptr().as_ref() }
    }

    /// Memory for a job. For the owner.
    #[inline(always)]
    pub fn allocate(&self, layout: Layout) -> NonNull<u8> {
        self.magazine.allocate(layout, &self.shared().depot)
    }

    /// Takes a job's memory back. For the owner.
    ///
    /// # Safety
    /// 1. As [`Memory::free`](crate::job::Memory::free).
    #[inline(always)]
    pub unsafe fn free(&self, memory: NonNull<u8>, layout: Layout) {
        // SAFETY: (1).
        unsafe { self.magazine.free_by(memory, layout, || &self.shared().depot) };
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

    /// The tag of the jobs to which the owner's waits are held, inside of an isolated region, or as an
    /// external thread; else none.
    #[inline]
    pub fn waits_for(&self) -> Tag {
        self.held_to(self.tag())
    }

    /// As [`waits_for`](Self::waits_for), when the owner works for `tag`: an external thread's tag restricts
    /// that thread only.
    fn held_to(&self, tag: Tag) -> Tag {
        if self.is_external() { tag } else { tag.without_external() }
    }

    /// The tag of the jobs that a job with this tag makes here: an external thread's own tag, also in a
    /// broadcast from another computation.
    fn tag_inside(&self, tag: Tag) -> Tag {
        if self.is_external() && tag.without_external() == Tag::NONE { self.tag() } else { tag }
    }

    /// Whether it is for external threads.
    pub fn is_external(&self) -> bool {
        self.is_external.get()
    }

    /// The calling thread holds the seat as an external thread from now on, whose jobs get this tag.
    ///
    /// # Safety
    /// 1. `region` is null, or live until [`end_external`](Self::end_external). 2. The calling thread has
    ///    taken the seat, which is one of an external thread.
    pub unsafe fn begin_external(&self, region: *const Region, tag: Tag) {
        // SAFETY: (1) live until `end_external` replaces it; (2).
        unsafe { self.replace_region(region, tag) };
    }

    /// `ExternalLeaves` of `external.rs`: what is left for scopes around the call goes to a worker's overflow
    /// shelf. Says whether there was something.
    ///
    /// # Safety
    /// 1. The calling thread has called [`begin_external`](Self::begin_external), and holds the seat still.
    pub unsafe fn end_external(&self) -> bool {
        let others = &self.shared().seat(0).overflow;
        let mut has_moved = false;
        // SAFETY: (1) the caller holds the seat; its call has ended, so nothing is anchored.
        let next =
            || unsafe { self.deque.pop(0) }.map(JobRef::from_raw).or_else(|| self.overflow.pop_front());
        while let Some(job) = next() {
            has_moved = true;
            others.push_back(job);
        }
        self.set_peculiar(OVERFLOWED, false);
        // SAFETY: (1) no region; (2) as above.
        unsafe { self.replace_region(null(), Tag::NONE) };
        self.restart_stride();
        has_moved
    }

    /// A split point; see `split.rs`.
    #[inline(always)]
    pub fn pass_split(&self) {
        if self.stride.pass() {
            self.look();
        }
    }

    /// Other work begins: its first split is looked at. For the owner.
    pub fn restart_stride(&self) {
        self.stride.restart();
        if !self.is_external() {
            self.slices.begin();
        }
        self.end_grant();
    }

    /// Which runtime is current for jobs of `region` that the owner runs: a pool of jobs is never current.
    pub fn current_of(&self, region: *const Region) -> Option<NonNull<Shared>> {
        // SAFETY: the region of the owner, or of a job that it has claimed.
        match unsafe { Region::current_of(region) } {
            Current::OfThread => self.shared().current_on_threads(),
            Current::Is(current) => current,
        }
    }

    /// Runs `f`, which runs jobs of the owner's region, or of none, in surroundings of their own. For the
    /// owner.
    pub fn in_surroundings<R>(&self, f: impl FnOnce() -> R) -> R {
        // SAFETY: the runtime of the owner's region is valid while that is the region, and its own pool is
        // while it holds the seat.
        unsafe { context::in_surroundings(self.current_of(self.region()), f) }
    }

    /// Makes `region`, with its tag, the region in which the owner works; returns the former one.
    ///
    /// # Safety
    /// 1. `region` is null, or live until it is replaced. 2. The calling thread is the owner.
    pub unsafe fn replace_region(&self, region: *const Region, tag: Tag) -> (*const Region, Tag) {
        // The pieces that are only begun belong to the former region.
        self.finish();
        // SAFETY: (1).
        self.question.set(unsafe { region.as_ref() }.map_or(null(), Region::asked_at_splits));
        self.end_grant();
        let before = (self.region.replace(region), self.tag.replace(tag));
        self.set_peculiar(HELD, self.waits_for() != Tag::NONE);
        before
    }

    /// Whether the owner works in a computation that was cancelled, and that may be ended by unwinding.
    #[inline(always)]
    pub fn is_to_end(&self) -> bool {
        // SAFETY: it is a part of the seat's region, which is live.
        unsafe { self.question.get().as_ref() }.is_some_and(Question::is_cancelled)
    }

    /// The index that the next piece gets.
    #[inline(always)]
    pub fn head(&self) -> u32 {
        // SAFETY: the caller is the owner.
        unsafe { self.deque.head() }
    }

    /// Pushes a piece whose pusher takes it back by [`take_back`](Self::take_back); says at which index. None
    /// at the end of a grant: then it is pushed by [`push_slowly`](Self::push_slowly). (Two calls, so that
    /// the usual way has no second question.)
    ///
    /// # Safety
    /// 1. The calling thread is the owner. 2. The job is begun
    ///    ([`StackJob::begin`](crate::job::StackJob::begin)), and lives until it has run or was taken back.
    #[inline(always)]
    pub unsafe fn push_granted(&self, job: NonNull<StackHead<SpinLatch<Self>>>) -> Option<u32> {
        // Relaxed: a hint.
        let left = self.left.load(Relaxed) - 1;
        if left < 0 {
            return None;
        }
        // Relaxed: a thief's zero may be overwritten, see the module's docs.
        self.left.store(left, Relaxed);
        // SAFETY: (1); a grant is no longer than there is room; (2), and all that publishes finishes it.
        Some(unsafe { self.deque.begin_anchored(job.as_ptr().cast()) })
    }

    /// Writes what is missing of the pieces that are only begun. For the owner.
    #[inline]
    fn finish(&self) {
        let finish = |job: *mut JobHeader| {
            // SAFETY: a piece that is begun is one, and no other thread knows it yet. The region is that in
            // which it was pushed, since `replace_region` comes here first.
            unsafe {
                let job = NonNull::new_unchecked(job.cast());
                StackHead::<SpinLatch<Self>>::finish(job, self.region.get(), SpinLatch::new(self));
                JobRef::new(job.cast(), self.tag.get()).into_raw()
            }
        };
        // SAFETY: the caller is the owner.
        unsafe { self.deque.finish(finish) };
    }

    /// Publishes the oldest `n` private pieces; says how many there were.
    ///
    /// # Safety
    /// 1. The calling thread is the owner.
    #[inline]
    unsafe fn publish(&self, n: u32) -> u32 {
        self.finish();
        // SAFETY: (1); just finished.
        unsafe { self.deque.publish(n) }
    }

    /// A push at the end of a grant: a split point, too, and perhaps the end of a stride. None if there is no
    /// room.
    ///
    /// # Safety
    /// 1. and 2. As [`push_granted`](Self::push_granted).
    #[cold]
    #[inline(never)]
    pub unsafe fn push_slowly(&self, job: NonNull<StackHead<SpinLatch<Self>>>) -> Option<u32> {
        // The whole grant, also if a thief has ended it: a stride too short does no harm.
        if self.stride.pass_many(self.granted.take() + 1) {
            self.look();
        }
        // SAFETY: (1).
        if unsafe { self.deque.head() } == DEQUE_CAPACITY as u32 {
            return None;
        }
        // SAFETY: (1), (2); there is room.
        let index = unsafe { self.deque.begin_anchored(job.as_ptr().cast()) };
        self.set_peculiar(RELIES_ON_PUBLIC, false);
        let room = DEQUE_CAPACITY as u32 - LOOSE_LIMIT.max(index + 1);
        let granted = self.share(index).min(self.stride.left()).min(room);
        self.grant(granted);
        Some(index)
    }

    /// For so many pushes nothing is done, if the computation goes on: A2 to A4 of `parallel/cancel.rs`.
    fn grant(&self, pushes: u32) {
        // SAFETY: it is a part of the seat's region, which is live.
        let question = unsafe { self.question.get().as_ref() };
        let is_foreign = question.is_some_and(|question| !question.is_of(self.shared_ptr()));
        let pushes = if is_foreign { pushes.min(FOREIGN) } else { pushes };
        // The pushes of the grant write without a look at the capacity.
        assert!(
            pushes + LOOSE_LIMIT.max(self.head()) <= DEQUE_CAPACITY as u32,
            "a grant is longer than there is room"
        );
        self.granted.set(pushes);
        self.left.store(pushes as i32, Relaxed);
        if question.is_some() {
            // SeqCst: with the fence of `end_grants`: that finds the grant, or this the mark.
            fence(SeqCst);
            if self.is_to_end() {
                self.end_grant();
            }
        }
    }

    /// The owner ends the grant.
    fn end_grant(&self) {
        self.left.store(0, Relaxed);
    }

    /// The owner has taken something that was public: it ends a grant by rule 1.
    #[inline]
    fn rely_no_more(&self) {
        if self.is_peculiar(RELIES_ON_PUBLIC) {
            self.set_peculiar(RELIES_ON_PUBLIC, false);
            self.end_grant();
        }
    }

    #[inline(always)]
    fn habit(&self, index: u32) -> &Habit {
        &self.habits[index.min(EAGER) as usize]
    }

    /// Pushes a piece that its pusher does not take back, and publishes it.
    ///
    /// # Safety
    /// 1. The calling thread is the owner. 2. The job lives until it has run.
    #[inline(always)]
    pub unsafe fn push(&self, job: JobRef) {
        // SAFETY: (1) and (2).
        if !unsafe { self.deque.push_public(job.into_raw(), LOOSE_LIMIT) } {
            // SAFETY: as above.
            unsafe { self.push_behind_private(job) };
        }
        self.shared().post_piece();
    }

    /// [`push`](Self::push) above what is private, or where the deque is full.
    ///
    /// # Safety
    /// As [`push`](Self::push).
    #[cold]
    #[inline(never)]
    unsafe fn push_behind_private(&self, job: JobRef) {
        // Before a loose piece lies above.
        self.finish();
        // SAFETY: (1) and (2); what is below is finished.
        unsafe {
            if self.deque.push(job.into_raw(), LOOSE_LIMIT) {
                self.deque.publish(u32::MAX);
            } else {
                self.push_overflow(job);
            }
        }
    }

    fn push_overflow(&self, job: JobRef) {
        self.set_peculiar(OVERFLOWED, true);
        self.overflow.push_back(job);
    }

    /// Takes back the piece at `index`, if it is private: then it is the youngest, for a loose piece above
    /// would have been published as it was pushed, and `index` with it. Else see
    /// [`take_back`](Self::take_back).
    ///
    /// # Safety
    /// 1. The calling thread is the owner, has pushed it there and taken out all anchored ones that came
    ///    afterwards.
    #[inline(always)]
    pub unsafe fn take_back_private(&self, index: u32) -> bool {
        // SAFETY: (1).
        unsafe { self.deque.take_back_private(index) }
    }

    /// Takes back the piece at `index`, the youngest; `Stolen` if a thief has it.
    ///
    /// # Safety
    /// 1. The calling thread is the owner, has pushed it there and taken out all that came afterwards.
    pub unsafe fn take_back(&self, index: u32) -> Taken {
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
    #[inline(always)]
    pub unsafe fn pop(&self, floor: u32) -> Option<JobRef> {
        Some(match self.peculiar.get() {
            // SAFETY: (1), (2).
            0 => JobRef::from_raw(unsafe { self.deque.pop(floor) }?),
            // SAFETY: as above.
            _ => unsafe { self.pop_peculiarly(floor) }?,
        })
    }

    /// [`pop`](Self::pop) in the rarer cases: something is on the overflow shelf; it goes breadth first, and
    /// takes the oldest piece, if that is the caller's; a grant may rely on what is taken; or the caller may
    /// run only what has its tag.
    ///
    /// # Safety
    /// 1. As [`pop`](Self::pop).
    #[inline(never)]
    unsafe fn pop_peculiarly(&self, floor: u32) -> Option<JobRef> {
        let tag = self.waits_for();
        if self.is_peculiar(BREADTH_FIRST) {
            // SAFETY: (1).
            unsafe { self.publish(u32::MAX) };
            return self.steal(tag);
        }
        if self.is_peculiar(OVERFLOWED) {
            let job = self.overflow.take_last(|job| may_run(tag, job.tag()));
            // A thief (`steal_from_below`) or an external thread (`end_external`) may put a piece there at
            // any time, and does not set the flag. This function may then overlook that piece. `steal` and
            // `take_overflow` do not: they ask the shelf, not the flag.
            self.set_peculiar(OVERFLOWED, !self.overflow.is_empty());
            if job.is_some() {
                return job;
            }
        }
        // SAFETY: (1).
        unsafe { self.pop_loose(floor) }
    }

    /// The youngest loose piece of the deque that is at `floor` or above, and that may be run here: others,
    /// made in an isolated region for a scope around it, go to the overflow shelf. If there is none, the next
    /// piece gets index `floor`, or a lower one.
    ///
    /// # Safety
    /// 1. As [`pop`](Self::pop).
    #[inline]
    pub unsafe fn pop_loose(&self, floor: u32) -> Option<JobRef> {
        let tag = self.waits_for();
        loop {
            // SAFETY: (1).
            let job = unsafe { self.deque.pop(floor) }.map(JobRef::from_raw)?;
            self.rely_no_more();
            if may_run(tag, job.tag()) {
                return Some(job);
            }
            self.leave_to_others(job);
        }
    }

    /// Puts a piece that this thread may not run where other threads find it.
    #[cold]
    fn leave_to_others(&self, job: JobRef) {
        self.push_overflow(job);
        self.shared().post_piece();
    }

    /// A piece of this seat: the youngest if it is loose, else the oldest.
    ///
    /// # Safety
    /// 1. The calling thread is the owner.
    pub unsafe fn pop_anywhere(&self) -> Option<JobRef> {
        let tag = self.waits_for();
        // An isolated region asks each piece for its tag, which can be done at the old end.
        let is_lifo = tag == Tag::NONE && !self.is_peculiar(BREADTH_FIRST);
        // SAFETY: (1).
        let youngest = if is_lifo { unsafe { self.deque.pop_if_loose() } } else { None };
        self.rely_no_more();
        youngest.map(JobRef::from_raw).or_else(|| {
            // SAFETY: (1).
            unsafe { self.publish(u32::MAX) };
            self.steal(tag)
        })
    }

    /// A detached job of this seat, in the owner's order.
    pub fn take_detached(&self) -> Option<JobRef> {
        match self.is_peculiar(BREADTH_FIRST) {
            true => self.detached.pop_front(),
            false => self.detached.pop_back(),
        }
    }

    /// A job of the overflow shelf, where thieves put some.
    pub fn take_overflow(&self) -> Option<JobRef> {
        if self.overflow.is_empty() { None } else { self.overflow.pop_front() }
    }

    /// Puts the loose pieces from `floor` on where other threads find them, and this thread is not in their
    /// way.
    ///
    /// # Safety
    /// 1. As [`pop`](Self::pop).
    pub unsafe fn spill(&self, floor: u32) {
        // SAFETY: (1).
        while let Some(job) = unsafe { self.pop_loose(floor) } {
            self.leave_to_others(job);
        }
    }

    /// Publishes everything: the owner will not come back soon.
    ///
    /// # Safety
    /// 1. The calling thread is the owner.
    pub unsafe fn publish_all(&self) -> bool {
        // SAFETY: (1).
        unsafe { self.publish(u32::MAX) > 0 }
    }

    /// The oldest public piece that a thread inside the isolated region `tag` may run. Any thread.
    pub fn steal(&self, tag: Tag) -> Option<JobRef> {
        let is_wanted = |job| may_run(tag, JobRef::from_raw(job).tag());
        let stolen = self.deque.steal(is_wanted).map(JobRef::from_raw);
        if stolen.is_some() {
            self.ask_if_empty();
        }
        stolen.or_else(|| self.overflow.take_first(|job| may_run(tag, job.tag())))
    }

    /// As [`steal`](Self::steal), and behind older pieces, too. Pieces that may not be run here go to the
    /// overflow shelf, which is searched by tag. Their owner finds them there as if they were stolen, so this
    /// is for threads that would sleep otherwise.
    pub fn steal_from_below(&self, tag: Tag) -> Option<JobRef> {
        let mut has_moved = false;
        let stolen = loop {
            match self.deque.steal(|_| true).map(JobRef::from_raw) {
                Some(job) if !may_run(tag, job.tag()) => self.overflow.push_back(job),
                stolen => break stolen,
            }
            has_moved = true;
        };
        self.ask_if_empty();
        if has_moved {
            self.tell_of_moved();
        }
        stolen.or_else(|| self.overflow.take_first(|job| may_run(tag, job.tag())))
    }

    /// Pieces were moved to the overflow shelf. During the move no thread could see them, and their pusher
    /// may wait for a piece that only the pusher may run now (see [`take_moved`](Self::take_moved)).
    fn tell_of_moved(&self) {
        let shared = self.shared();
        shared.idle.fence_push();
        shared.post_piece();
        shared.unpark_picked(Some(self.index));
    }

    /// Takes the job that `header` begins from the overflow shelf, if a thief has moved it there. For the
    /// owner.
    pub fn take_moved(&self, header: NonNull<JobHeader>) -> bool {
        self.overflow.take_first(|job| job.is(header)).is_some()
    }

    /// Takes pieces from `victim`: returns the oldest and pushes the others, at most `most` in all.
    ///
    /// # Safety
    /// 1. The calling thread is the owner of this seat, and in no job.
    pub unsafe fn steal_several(&self, victim: &Seat, most: u32) -> Option<JobRef> {
        let taken = Cell::new(1);
        let put = |job| {
            taken.set(taken.get() + 1);
            // SAFETY: (1). The job's pusher vouched for it.
            if !unsafe { self.deque.push(job, LOOSE_LIMIT) } {
                self.push_overflow(JobRef::from_raw(job));
            }
        };
        // Pieces of isolated regions are taken one by one: in the deque of a thread that blocks, other pieces
        // could hide them.
        let is_open = |job| {
            let tag = JobRef::from_raw(job).tag();
            tag == Tag::NONE || tag.is_external()
        };
        let job = match victim.deque.steal_several(most, is_open, put) {
            Some(job) => {
                victim.ask_if_empty();
                JobRef::from_raw(job)
            }
            None => victim.steal(Tag::NONE)?,
        };
        self.batch.set(taken.get());
        self.batch_began.set(Some(Instant::now()));
        // Other threads find them here. SAFETY: (1).
        if unsafe { self.publish(u32::MAX) } > 0 {
            self.shared().post_piece();
        }
        Some(job)
    }

    /// How many pieces the owner should steal at once: as many as take about [`BATCH`], estimated from the
    /// last theft. If the last pieces were tiny, this pauses first.
    pub fn end_batch(&self) -> u32 {
        let Some(began) = self.batch_began.take() else {
            return 1;
        };
        let each = began.elapsed().as_nanos() / u128::from(self.batch.get());
        if each < TINY {
            self.pause_until(began + PAUSE);
        }
        (BATCH / each.max(1)).clamp(1, 32) as u32
    }

    /// Leaves the other seats alone until then, unless work has come from outside: its pusher may rely on
    /// this thread.
    #[cold]
    fn pause_until(&self, end: Instant) {
        let shared = self.shared();
        while Instant::now() < end && shared.injector.is_empty() && !shared.jobs.has_any() {
            hint::spin_loop();
        }
    }

    /// A job that only this seat may run, if its waiting holder may run it.
    pub fn take_broadcast(&self) -> Option<JobRef> {
        let tag = self.waits_for().without_external();
        self.broadcasts.take_first(|job| may_run(tag, job.tag()))
    }

    /// Whether [`take_broadcast`](Self::take_broadcast) would find something.
    pub fn has_broadcast(&self) -> bool {
        let tag = self.waits_for().without_external();
        self.broadcasts.has(|job| may_run(tag, job.tag()))
    }

    /// Whether thieves find a piece here: a hint.
    pub fn has_public_pieces(&self) -> bool {
        !self.deque.is_nothing_public() || !self.overflow.is_empty()
    }

    /// A thief would like to have something.
    pub fn ask(&self) {
        if self.left.load(Relaxed) > 0 {
            self.left.store(0, Relaxed);
        }
    }

    /// A thief has taken something; if it was the last public piece, the owner may have relied on it.
    fn ask_if_empty(&self) {
        if self.deque.is_nothing_public() {
            self.ask();
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

    /// The rules, at the push at `index`: returns what they grant.
    fn share(&self, index: u32) -> u32 {
        let shared = self.shared();
        if shared.config.workers == 1 {
            return u32::MAX;
        }
        let is_hungry = shared.is_hungry();
        if !self.deque.is_nothing_public() {
            if index >= EAGER {
                return self.rely_on_public(is_hungry);
            }
            if !is_hungry {
                return 2 * EAGER;
            }
        }
        // SAFETY: the caller is the owner.
        let oldest = unsafe { self.deque.first_private() };
        let habit = self.habit(oldest);
        let known_for = self.known_for(oldest);
        if known_for.is_none() {
            self.finish();
            // SAFETY: as above; it is private, or the next, of which there is one: what was pushed. So it is
            // anchored.
            unsafe { self.deque.note(oldest) };
        }
        if habit.typical.get() < SHORT {
            if known_for.is_none_or(|nanos| nanos < SHORT) {
                if known_for.is_none() {
                    habit.timed.set((oldest, Some(Instant::now())));
                }
                if oldest == index {
                    // SAFETY: as above.
                    unsafe { self.publish(1) };
                }
                return PATIENCE;
            }
            habit.typical.set(SHORT);
        }
        let long = (oldest..=index).take_while(|&index| self.habit(index).typical.get() >= SHORT).count();
        // SAFETY: as above.
        unsafe { self.publish(if is_hungry { long as u32 } else { 1 }) };
        shared.post_piece();
        if known_for.is_none() {
            // Behind the wake, which takes microseconds.
            habit.timed.set((oldest, Some(Instant::now())));
        }
        if index + 1 < EAGER { 0 } else { self.rely_on_public(is_hungry) }
    }

    /// The grant of rule 1. While thieves are hungry, the next pieces near the root are for them.
    fn rely_on_public(&self, is_hungry: bool) -> u32 {
        self.set_peculiar(RELIES_ON_PUBLIC, true);
        if is_hungry { 2 * EAGER } else { PATIENCE }
    }

    /// For how many nanoseconds the piece at `index` is known to be there, if it is being timed.
    fn known_for(&self, index: u32) -> Option<u32> {
        let (timed, since) = self.habit(index).timed.get();
        // SAFETY: the caller is the owner.
        let since = since.filter(|_| timed == index && unsafe { self.deque.is_noted(index) })?;
        Some(since.elapsed().as_nanos().min(u128::from(LONG)) as u32)
    }

    /// A published piece was taken back, or stolen.
    fn learn(&self, index: u32, is_stolen: bool) {
        let habit = self.habit(index);
        if let Some(nanos) = self.known_for(index) {
            habit.typical.set(habit.typical.get().midpoint(nanos));
            habit.timed.set((index, None));
        }
        if is_stolen {
            self.end_grant();
        }
        self.rely_no_more();
    }

    /// Runs a job as the owner, in the job's region.
    ///
    /// # Safety
    /// 1. The calling thread is the owner, and has claimed the job.
    #[inline]
    pub unsafe fn run(&self, job: JobRef) {
        self.pass_split();
        // SAFETY: (1).
        unsafe {
            // Mostly the job belongs to the computation that this thread works for.
            if !job.run_inside(self.region(), self.tag()) {
                self.run_elsewhere(job);
            }
        }
    }

    /// Runs a job of another region than the owner's.
    ///
    /// # Safety
    /// 1. As [`run`](Self::run).
    #[inline(never)]
    unsafe fn run_elsewhere(&self, job: JobRef) {
        // SAFETY: (1). Jobs do not unwind.
        unsafe {
            let inside = self.tag_inside(job.tag());
            let (region, tag) = self.replace_region(job.region(), inside);
            let (is_foreign, floor) = (self.held_to(inside) != self.held_to(tag), self.head());
            match self.current_of(self.region()) == self.current_of(region) {
                true => job.run(),
                false => self.in_surroundings(|| job.run()),
            }
            if is_foreign && self.head() > floor {
                // What is left belongs to an isolated region, which waits for it and sees only the oldest
                // piece of a deque. This thread may not come to it before it needs what the region holds.
                self.spill(floor);
                self.shared().idle.fence_push();
                self.shared().post_piece();
            }
            self.replace_region(region, tag);
        }
    }
}

/// Runs `f`, which polls tasks that are no part of the computation on whose stack they are polled, and does
/// not unwind. An isolated region around counts: what it holds is held.
pub fn outside_of_computations<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: used in this call only.
    let Some(seat) = (unsafe { context::seat() }) else {
        return f();
    };
    // SAFETY: this thread is the seat's owner; the region that comes back is around this call.
    unsafe {
        let (region, tag) = seat.replace_region(null(), seat.tag());
        let result = f();
        seat.replace_region(region, tag);
        result
    }
}

/// Whether a thread that waits inside the isolated region `waiter` (or in none) may run a job of `job`.
#[inline]
pub fn may_run(waiter: Tag, job: Tag) -> bool {
    waiter == Tag::NONE || waiter == job
}

// SAFETY: (1) a seat's parker is its processor's, which lives as long as the shared state; (2) `Hold` is a
// reference to that.
unsafe impl Owner for Seat {
    type Hold = Hold;

    unsafe fn hold(owner: NonNull<Self>) -> Hold {
        // SAFETY: (1): the seat's pool is kept by the caller.
        unsafe { Hold::new(owner.as_ref().shared_ptr()) }
    }

    unsafe fn unpark(owner: NonNull<Self>) {
        // SAFETY: (1).
        let seat = unsafe { owner.as_ref() };
        seat.shared().unpark_picked(Some(seat.index));
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Builder;
    #[cfg(not(tsan))]
    use crate::parallel::{ThreadPoolBuilder, scope};
    use crate::parallel::{isolated, join};

    /// Calls `f` in a computation on the only seat of a runtime, which has no thieves.
    fn on_a_seat(f: fn(&Seat)) {
        let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let computation = runtime.handle().compute(move || {
            // SAFETY: used in this call only.
            f(unsafe { context::seat() }.unwrap());
        });
        runtime.block_on(computation).unwrap();
    }

    fn youngest(seat: &Seat) -> u32 {
        seat.head() - 1
    }

    /// A `join` whose first closure looks at `seat`.
    fn join_and(seat: &Seat, f: impl Fn(&Seat) + Sync) {
        join(|| f(seat), || ());
    }

    #[test]
    fn a_piece_is_not_taken_for_the_one_that_was_timed_in_its_place() {
        on_a_seat(|seat| {
            seat.left.store(100, Relaxed);
            join_and(seat, |seat| {
                let index = youngest(seat);
                seat.finish();
                // SAFETY: this thread is the owner; nothing was published, and just finished.
                unsafe { seat.deque.note(index) };
                seat.habit(index).timed.set((index, Some(Instant::now())));
                assert!(seat.known_for(index).is_some());
                join_and(seat, |seat| assert_eq!(seat.known_for(youngest(seat)), None));
            });
            join_and(seat, |seat| assert_eq!(seat.known_for(youngest(seat)), None));
        });
    }

    #[test]
    fn a_piece_is_of_the_region_in_which_it_was_pushed() {
        on_a_seat(|seat| {
            let outer = (seat.region().addr(), seat.tag());
            join_and(seat, |seat| {
                isolated(|| {
                    let inner = (seat.region().addr(), seat.tag());
                    join_and(seat, |seat| {
                        // SAFETY: this thread is the owner.
                        assert!(unsafe { seat.publish_all() });
                        let stolen = [(); 2].map(|()| seat.steal(Tag::NONE).unwrap());
                        // SAFETY: claimed.
                        let regions = stolen.map(|job| (unsafe { job.region() }.addr(), job.tag()));
                        // SAFETY: as above, and this thread is the owner.
                        stolen.iter().for_each(|&job| unsafe { seat.run(job) });
                        assert_eq!(regions, [outer, inner]);
                    });
                    assert!(inner.0 != 0 && inner.1 != outer.1);
                });
            });
        });
    }

    // ThreadSanitizer keeps no stack of so many calls.
    #[test]
    #[cfg(not(tsan))]
    fn no_grant_is_longer_than_there_is_room() {
        fn descend(depth: u32) -> u32 {
            // SAFETY: used in this call only.
            let seat = unsafe { context::seat() }.unwrap();
            let left = seat.left.load(Relaxed) as u32;
            assert!(
                left + seat.head().max(LOOSE_LIMIT) <= DEQUE_CAPACITY as u32,
                "{left} at {}",
                seat.head()
            );
            match depth {
                0 => 1,
                _ => join(|| descend(depth - 1), || 1).0 + 1,
            }
        }

        let pool = ThreadPoolBuilder::new().num_threads(1).stack_size(256 << 20).build().unwrap();
        pool.install(|| {
            let depth = DEQUE_CAPACITY as u32 + 2_000;
            assert_eq!(descend(depth), depth + 1);
            scope(|scope| {
                for _ in 0..DEQUE_CAPACITY {
                    scope.spawn(|_| ());
                }
                // SAFETY: used in this call only.
                assert_eq!(unsafe { context::seat() }.unwrap().head(), LOOSE_LIMIT);
                assert_eq!(descend(depth), depth + 1);
            });
        });
    }

    #[test]
    fn who_stole_tiny_pieces_stays_away_for_a_while() {
        on_a_seat(|seat| {
            let began = Instant::now();
            for (pieces, began) in [(1, began - Duration::from_secs(1)), (32, began)] {
                seat.batch.set(pieces);
                seat.batch_began.set(Some(began));
                assert!((1..=32).contains(&seat.end_batch()));
                assert!(seat.batch_began.take().is_none());
            }
            // Not that it began after the pieces turned out to be less than tiny.
            let each = began.elapsed() / 32;
            assert!(began.elapsed() >= PAUSE || each.as_nanos() >= TINY, "{each:?}");
        });
    }

    #[test]
    fn a_grant_ends_with_the_work_that_it_was_for() {
        on_a_seat(|seat| {
            seat.left.store(100, Relaxed);
            seat.restart_stride();
            assert_eq!((seat.left.load(Relaxed), seat.stride.left()), (0, 1));
        });
    }

    #[test]
    fn a_grant_that_relies_on_a_public_piece_ends_when_that_is_taken_back() {
        on_a_seat(|seat| {
            join_and(seat, |seat| {
                // SAFETY: this thread is the owner.
                assert!(unsafe { seat.publish_all() });
                seat.rely_on_public(false);
                seat.left.store(100, Relaxed);
                join_and(seat, |_| ());
                assert_eq!(seat.left.load(Relaxed), 99);
            });
            assert_eq!(seat.left.load(Relaxed), 0);
        });
    }

    #[test]
    fn a_thief_that_takes_the_last_public_piece_ends_the_grant() {
        on_a_seat(|seat| {
            join_and(seat, |seat| {
                join_and(seat, |seat| {
                    // SAFETY: this thread is the owner.
                    assert!(unsafe { seat.publish_all() });
                    seat.left.store(100, Relaxed);
                    let stolen = [(); 2].map(|()| (seat.steal(seat.tag()).unwrap(), seat.left.load(Relaxed)));
                    // SAFETY: claimed, and this thread is the owner.
                    stolen.iter().for_each(|&(job, _)| unsafe { seat.run(job) });
                    assert_eq!(stolen.map(|(_, left)| left), [100, 0]);
                });
            });
        });
    }
}
