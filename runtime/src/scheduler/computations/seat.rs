//! A worker's part in computations: its deque of jobs, and how freely it shares them.
//!
//! A *child job* (a *piece* in the code) is a job that a frame on some stack waits for: a half of a `join`
//! (*anchored* in the code), or a job of a scope (*loose*). Child jobs lie in the deque. Scope jobs that do
//! not fit lie in the overflow list. Detached jobs (`spawn`) lie in a list of their own, so that a thread
//! that waits for a child job never gets a detached job on its stack. Injected jobs are in `jobs.rs`.
//!
//! Each worker has a seat, and so has each external thread while it takes part (`external.rs`). This file
//! calls the thread that has a seat its *owner*.
//!
//! # Sharing
//! A child job that is not published costs no read-modify-write, and a thread that is woken for nothing costs
//! 2 to 6 µs. But a child job that is not published while other workers are hungry leaves a core idle. A push
//! applies these rules, in this order:
//! 1. Deep in a recursion ([`EAGER`] child jobs below it), and with something public: the owner does nothing
//!    for as long as that is public. A thief takes the oldest child job, which is the biggest, and the next
//!    push publishes the next one.
//! 2. With something public and no thief hungry: the owner does nothing for a few pushes.
//! 3. A child job that is typically [`SHORT`], by its index, is not worth a theft. So the owner does nothing
//!    for [`PATIENCE`] pushes, and then looks at the clock. It repeats this until the oldest private child
//!    job has proven long.
//! 4. The owner publishes, and wakes a thread (`idle.rs`). While thieves are hungry, it publishes all private
//!    child jobs that are typically long, because the first ones of a recursion are nearly all of its work,
//!    and the owner may be in a long leaf next. Otherwise it publishes one. Then it goes on as in 1, or
//!    applies the rules again at the next push.
//!
//! The owner learns the typical time from published child jobs: the time between publishing one and taking it
//! back measures the other half. Of short child jobs, one in [`PATIENCE`] pushes is published only for this
//! measurement, without a wake. Rule 3 has a price. If child jobs were short at some depth, a long one there
//! is not shared before the owner looks at the clock again, or blocks ([`Seat::expose_pieces`]). A child job
//! that is being timed is noted in its slot, so that another one in its place is not taken for it.
//!
//! Few halves of a `join` are ever published. So a push does not write the fields that only a thief needs
//! (the region, the latch, the tag). The push only *begins* the job. [`Seat::finish`] *finishes* the job
//! before it is published, and before the seat's region changes.
//!
//! These rules hold for halves of a `join`. A scope job is always published when it is pushed, because its
//! pusher may wait for it by other means than its scope.
//!
//! # Tiny child jobs
//! An owner runs a scope job that does next to nothing in 20 ns. A thief needs several times as long, because
//! the job, its memory, and the word of the deque come from the owner's cache. The owner needs these cache
//! lines again, and loses as much. So a thief measures the jobs that it has stolen, and takes several short
//! ones at once ([`BATCH`]). When they were [`TINY`], the thief stays away for a while ([`PAUSE`]). It does
//! not stay away for good, because the pusher of a job may wait for it.
//!
//! # The grant
//! A push that only has to push should cost no more than that. So the owner applies the rules only now and
//! then ([`Seat::push_slowly`]). The rules *grant* a number of pushes for which the owner does nothing else.
//! The grant also ends with the stride of `split.rs`, so one countdown does for both.
//! ```text
//! left     pushes that are left of the grant: the owner counts it down, by load and store; the thread that
//!          makes it zero ends the grant, and the next push goes through the rules
//! ```
//! A grant is never longer than the space for its pushes. Scope jobs leave a part of the deque to halves of a
//! `join` ([`LOOSE_LIMIT`]): `left` + the larger of `head` and this limit never exceeds the capacity.
//!
//! Within a grant, a push does not ask whether its computation was cancelled. So a grant belongs to one
//! computation, and the thread that cancels that computation ends the grant (`parallel/cancel.rs`).
//!
//! A thief makes `left` zero when it has found nothing, or has taken the last public child job
//! ([`Seat::ask`]). The owner makes `left` zero when a grant relies on a public child job (rule 1) and the
//! owner takes that job back. The owner may overwrite a thief's zero. So no grant is longer than [`PATIENCE`]
//! where there are thieves, and a thief that finds nothing again asks again.

use std::alloc::Layout;
use std::array;
use std::cell::Cell;
use std::fmt;
use std::ptr::{NonNull, null};
use std::time::{Duration, Instant};

use crate::job::region::Current;
use crate::job::stack::StackHead;
use crate::job::{Fifo, JobHeader, JobRef, Owner, Question, Region, SpinLatch, Tag};
use crate::loom::sync::atomic::Ordering::{Relaxed, SeqCst};
use crate::loom::sync::atomic::{AtomicI32, fence};
use crate::loom::{DEQUE_CAPACITY, hint};
use crate::queue::{Deque, Shelf, Taken};
use crate::scheduler::context;
use crate::scheduler::external::ExternalTag;
use crate::scheduler::hints::slices::Slices;
use crate::scheduler::magazine::Magazine;
use crate::scheduler::shared::Shared;
use crate::scheduler::split::Stride;
use crate::scheduler::worker::Worker;

/// While thieves are hungry, the owner publishes this many of the oldest child jobs of a recursion.
const EAGER: u32 = 8;

/// The longest grant where there are thieves.
const PATIENCE: u32 = 64;

/// The longest grant for a computation that began in another pool. The thread that cancels such a computation
/// does not end the grant.
const FOREIGN: u32 = 16;

/// Scope jobs lie only below this index.
const LOOSE_LIMIT: u32 = (DEQUE_CAPACITY - if DEQUE_CAPACITY > 4096 { 1024 } else { 1 }) as u32;

/// Nanoseconds of work that are not worth a theft, or a wake.
const SHORT: u32 = 5_000;

/// Nanoseconds of work that a thief takes at once: several short scope jobs, or one job.
const BATCH: u128 = 2_000;

/// Nanoseconds of work, the theft included, below which a scope job is hardly worth a theft. A full batch of
/// longer jobs takes as long as [`PAUSE`].
const TINY: u128 = 250;

/// How long a thief stays away after it has stolen tiny child jobs.
const PAUSE: Duration = Duration::from_micros(8);

/// The longest time that one child job counts for, so that the owner learns from a few short ones.
const LONG: u32 = 8 * SHORT;

/// The owner takes the oldest job first.
const BREADTH_FIRST: u32 = 1;
/// The owner has put a job into the overflow list, and has not found the list empty since.
const OVERFLOWED: u32 = 2;
/// [`Seat::waits_for`] is a tag.
const HELD: u32 = 4;
/// The grant follows from rule 1.
const RELIES_ON_PUBLIC: u32 = 8;

/// See the module's docs. Alone on its cache lines.
#[repr(align(128))]
pub struct Seat {
    deque: Deque<JobHeader>,
    /// The pushes that are left of the grant, never negative; see the module's docs.
    left: AtomicI32,
    /// The length of the grant. Only the owner touches this and all other cells here.
    granted: Cell<u32>,
    /// The reasons why a [`pop`](Self::pop) takes the slow path: [`BREADTH_FIRST`] and the like. Mostly zero.
    peculiar: Cell<u32>,
    /// The region of the job that the owner runs, or null.
    region: Cell<*const Region>,
    /// That region's tag, or that of an external thread's jobs.
    tag: Cell<Tag>,
    /// The flags that the region's split points read, or null.
    question: Cell<*const Question>,
    /// Whether the seat is for external threads. Written like `shared`.
    is_external: Cell<bool>,
    /// One for each of the oldest indices, and one for all others.
    habits: [Habit; EAGER as usize + 1],
    /// The countdown to the next look at the clock; see `split.rs`.
    pub stride: Stride,
    pub slices: Slices,
    /// How many jobs were stolen last, and when.
    batch: Cell<u32>,
    batch_began: Cell<Option<Instant>>,
    index: usize,
    /// Set before any other thread knows the seat.
    shared: Cell<*const Shared>,
    /// Scope jobs that did not fit into the deque.
    pub overflow: Shelf<JobRef>,
    /// Detached jobs spawned here.
    pub detached: Shelf<JobRef>,
    /// Jobs that only this seat may run.
    pub broadcasts: Shelf<JobRef>,
    /// For `spawn_fifo`.
    pub fifo: Fifo<Shelf<JobRef>>,
    pub external_tag: ExternalTag,
    /// How many waits for latches lie on the owner's stack.
    pub waits: Cell<u32>,
    /// Memory for jobs.
    magazine: Magazine,
}

/// What the owner knows of the child jobs at one index. Only the owner touches this.
struct Habit {
    /// The typical time of a child job in nanoseconds, a moving average.
    typical: Cell<u32>,
    /// The index of the child job that is being timed, and since when. It counts only if the same job is
    /// still noted there.
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

    /// The number that a program sees. It is below the number of threads for permanent workers. Spare workers
    /// have higher numbers, because programs take the number for that of a slot which no other thread uses
    /// meanwhile. External threads have none.
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

    /// The tag that restricts the owner's waits: inside of an isolated region, or on an external thread.
    /// Otherwise none.
    #[inline]
    pub fn waits_for(&self) -> Tag {
        self.held_to(self.tag())
    }

    /// As [`waits_for`](Self::waits_for), when the owner works for `tag`. An external thread's tag restricts
    /// only that thread.
    fn held_to(&self, tag: Tag) -> Tag {
        if self.is_external() { tag } else { tag.without_external() }
    }

    /// The tag of the jobs that a job with this tag makes here. On an external thread it is the thread's own
    /// tag, also in a broadcast from another computation.
    fn tag_inside(&self, tag: Tag) -> Tag {
        if self.is_external() && tag.without_external() == Tag::NONE { self.tag() } else { tag }
    }

    /// Whether the seat is for external threads.
    pub fn is_external(&self) -> bool {
        self.is_external.get()
    }

    /// From now on the calling thread holds the seat as an external thread. Its jobs get this tag.
    ///
    /// # Safety
    /// 1. `region` is null, or live until [`end_external`](Self::end_external). 2. The calling thread has
    ///    taken the seat, which is one of an external thread.
    pub unsafe fn begin_external(&self, region: *const Region, tag: Tag) {
        // SAFETY: (1) live until `end_external` replaces it; (2).
        unsafe { self.replace_region(region, tag) };
    }

    /// `ExternalLeaves` of `external.rs`: moves the jobs that are left for scopes around the call to a
    /// worker's overflow list. Returns whether there were any.
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

    /// Other work begins, so its first split ends the stride. For the owner.
    pub fn restart_stride(&self) {
        self.stride.restart();
        if !self.is_external() {
            self.slices.begin();
        }
        self.end_grant();
    }

    /// The runtime that is current for jobs of `region` on this seat. A pool of jobs is never current.
    pub fn current_of(&self, region: *const Region) -> Option<NonNull<Shared>> {
        // SAFETY: the region of the owner, or of a job that it has claimed.
        match unsafe { Region::current_of(region) } {
            Current::OfThread => self.shared().current_on_threads(),
            Current::Is(current) => current.map(NonNull::cast),
        }
    }

    /// Runs `f` in surroundings of its own. `f` runs jobs of the owner's region, or of none. For the owner.
    pub fn in_surroundings<R>(&self, f: impl FnOnce() -> R) -> R {
        // SAFETY: the runtime of the owner's region is valid as long as that region is set. The seat's own
        // pool is valid as long as the owner holds the seat.
        unsafe { context::in_surroundings(self.current_of(self.region()), f) }
    }

    /// Makes `region`, with its tag, the region in which the owner works; returns the former one.
    ///
    /// # Safety
    /// 1. `region` is null, or live until it is replaced. 2. The calling thread is the owner.
    pub unsafe fn replace_region(&self, region: *const Region, tag: Tag) -> (*const Region, Tag) {
        // The child jobs that are only begun belong to the former region.
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

    /// The index that the next child job gets.
    #[inline(always)]
    pub fn head(&self) -> u32 {
        // SAFETY: the caller is the owner.
        unsafe { self.deque.head() }
    }

    /// Pushes a child job that its pusher takes back by [`take_back`](Self::take_back), and returns its
    /// index. Returns `None` at the end of a grant; the caller then pushes the job by
    /// [`push_slowly`](Self::push_slowly). (Two calls, so that the fast path has no second test.)
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
        // Relaxed: this may overwrite a thief's zero; see the module's docs.
        self.left.store(left, Relaxed);
        // SAFETY: (1); the deque has space for every push of a grant; (2), and every function that publishes
        // the job finishes it first.
        Some(unsafe { self.deque.begin_anchored(job.as_ptr().cast()) })
    }

    /// Writes the missing fields of the child jobs that are only begun. For the owner.
    #[inline]
    fn finish(&self) {
        let finish = |job: *mut JobHeader| {
            // SAFETY: a job that is begun is valid, and no other thread knows it yet. It was pushed in the
            // present region, because `replace_region` comes here first.
            unsafe {
                let job = NonNull::new_unchecked(job.cast());
                StackHead::<SpinLatch<Self>>::finish(job, self.region.get(), SpinLatch::new(self));
                JobRef::new(job.cast(), self.tag.get()).into_raw()
            }
        };
        // SAFETY: the caller is the owner.
        unsafe { self.deque.finish(finish) };
    }

    /// Publishes the oldest `n` private child jobs. Returns how many there were.
    ///
    /// # Safety
    /// 1. The calling thread is the owner.
    #[inline]
    unsafe fn publish(&self, n: u32) -> u32 {
        self.finish();
        // SAFETY: (1); just finished.
        unsafe { self.deque.publish(n) }
    }

    /// A push at the end of a grant. It is also a split point, and perhaps the end of a stride. Returns
    /// `None` if the deque is full.
    ///
    /// # Safety
    /// 1. and 2. As [`push_granted`](Self::push_granted).
    #[cold]
    #[inline(never)]
    pub unsafe fn push_slowly(&self, job: NonNull<StackHead<SpinLatch<Self>>>) -> Option<u32> {
        // Counts the whole grant, also if a thief has ended it early: a stride that is too short does no
        // harm.
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

    /// Grants this many pushes, if the computation goes on: A2 to A4 of `parallel/cancel.rs`.
    fn grant(&self, pushes: u32) {
        // SAFETY: it is a part of the seat's region, which is live.
        let question = unsafe { self.question.get().as_ref() };
        let is_foreign = question.is_some_and(|question| !question.is_of(self.shared_ptr().cast()));
        let pushes = if is_foreign { pushes.min(FOREIGN) } else { pushes };
        // The pushes of the grant write without a test of the capacity.
        assert!(
            pushes + LOOSE_LIMIT.max(self.head()) <= DEQUE_CAPACITY as u32,
            "a grant is longer than there is room"
        );
        self.granted.set(pushes);
        self.left.store(pushes as i32, Relaxed);
        if question.is_some() {
            // SeqCst: pairs with the fence of `end_grants`. Either `end_grants` finds the grant, or this
            // finds the mark.
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

    /// The owner has taken back a job that was public, so a grant by rule 1 ends.
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

    /// Pushes a child job that its pusher does not take back, and publishes it.
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

    /// [`push`](Self::push) above private jobs, or into a full deque.
    ///
    /// # Safety
    /// As [`push`](Self::push).
    #[cold]
    #[inline(never)]
    unsafe fn push_behind_private(&self, job: JobRef) {
        // Finishes the jobs below, before a scope job lies above them.
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

    /// Takes back the child job at `index`, if it is private. A private one is the youngest, because the push
    /// of a scope job above it would have published it. Otherwise see [`take_back`](Self::take_back).
    ///
    /// # Safety
    /// 1. The calling thread is the owner, has pushed it there and taken out all anchored ones that came
    ///    afterwards.
    #[inline(always)]
    pub unsafe fn take_back_private(&self, index: u32) -> bool {
        // SAFETY: (1).
        unsafe { self.deque.take_back_private(index) }
    }

    /// Takes back the child job at `index`, the youngest one. Returns `Stolen` if a thief has it.
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

    /// Takes the youngest scope job at `floor` or above, or one from the overflow list.
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

    /// [`pop`](Self::pop) in the rarer cases: the overflow list has a job; the owner goes breadth first, and
    /// takes the oldest job if it is the caller's; a grant may rely on the job that is taken; or the caller
    /// may run only jobs with its tag.
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
            // A thief (`steal_from_below`) or an external thread (`end_external`) may put a child job there
            // at any time, and does not set the flag. This function may then overlook that job. `steal` and
            // `take_overflow` do not overlook it, because they ask the list and not the flag.
            self.set_peculiar(OVERFLOWED, !self.overflow.is_empty());
            if job.is_some() {
                return job;
            }
        }
        // SAFETY: (1).
        unsafe { self.pop_loose(floor) }
    }

    /// Takes the youngest scope job of the deque at `floor` or above that may be run here. Jobs that may not
    /// be run here, made in an isolated region for a scope around it, go to the overflow list. If there is no
    /// job left, the next push gets index `floor` or a lower one.
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

    /// Puts a child job that this thread may not run into the overflow list, where other threads find it.
    #[cold]
    fn leave_to_others(&self, job: JobRef) {
        self.push_overflow(job);
        self.shared().post_piece();
    }

    /// Takes a child job of this seat: the youngest if it is a scope job, else the oldest.
    ///
    /// # Safety
    /// 1. The calling thread is the owner.
    pub unsafe fn pop_anywhere(&self) -> Option<JobRef> {
        let tag = self.waits_for();
        // An isolated region tests the tag of each job, and can do so only at the old end.
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

    /// Takes a detached job of this seat, in the owner's order.
    pub fn take_detached(&self) -> Option<JobRef> {
        match self.is_peculiar(BREADTH_FIRST) {
            true => self.detached.pop_front(),
            false => self.detached.pop_back(),
        }
    }

    /// Takes a job from the overflow list, where thieves put some.
    pub fn take_overflow(&self) -> Option<JobRef> {
        if self.overflow.is_empty() { None } else { self.overflow.pop_front() }
    }

    /// Moves the scope jobs from `floor` on into the overflow list. Other threads find them there, and they
    /// do not hinder this thread.
    ///
    /// # Safety
    /// 1. As [`pop`](Self::pop).
    pub unsafe fn spill(&self, floor: u32) {
        // SAFETY: (1).
        while let Some(job) = unsafe { self.pop_loose(floor) } {
            self.leave_to_others(job);
        }
    }

    /// Publishes all child jobs, because the owner will not come back soon.
    ///
    /// # Safety
    /// 1. The calling thread is the owner.
    pub unsafe fn publish_all(&self) -> bool {
        // SAFETY: (1).
        unsafe { self.publish(u32::MAX) > 0 }
    }

    /// Steals the oldest public child job that a thread inside the isolated region `tag` may run. Any thread
    /// may call this.
    pub fn steal(&self, tag: Tag) -> Option<JobRef> {
        let is_wanted = |job| may_run(tag, JobRef::from_raw(job).tag());
        let stolen = self.deque.steal(is_wanted).map(JobRef::from_raw);
        if stolen.is_some() {
            self.ask_if_empty();
        }
        stolen.or_else(|| self.overflow.take_first(|job| may_run(tag, job.tag())))
    }

    /// As [`steal`](Self::steal), but also looks behind older child jobs. Older ones that may not be run here
    /// go to the overflow list, which can be searched by tag. Their owner finds them there as if they were
    /// stolen. So this is for threads that would sleep otherwise.
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

    /// Wakes threads for child jobs that were moved to the overflow list. During the move no thread could see
    /// them; and their pusher may wait for one that only the pusher may run now (see
    /// [`take_moved`](Self::take_moved)).
    fn tell_of_moved(&self) {
        let shared = self.shared();
        shared.idle.fence_push();
        shared.post_piece();
        shared.unpark_picked(Some(self.index));
    }

    /// Takes the job that `header` begins from the overflow list, if a thief has moved it there. For the
    /// owner.
    pub fn take_moved(&self, header: NonNull<JobHeader>) -> bool {
        self.overflow.take_first(|job| job.is(header)).is_some()
    }

    /// Takes at most `most` child jobs from `victim`. Returns the oldest and pushes the others here.
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
        // Child jobs of isolated regions are taken one by one. In the deque of a thread that blocks, other
        // jobs could hide them.
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
        // Publishes them, so that other threads find them here. SAFETY: (1).
        if unsafe { self.publish(u32::MAX) } > 0 {
            self.shared().post_piece();
        }
        Some(job)
    }

    /// How many child jobs the owner should steal at once, for about [`BATCH`] of work. Estimated from the
    /// last theft. If the last jobs were tiny, this pauses first.
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

    /// Leaves the other seats alone until then. It ends early if work has come from outside, because the
    /// work's pusher may rely on this thread.
    #[cold]
    fn pause_until(&self, end: Instant) {
        let shared = self.shared();
        while Instant::now() < end && shared.injector.is_empty() && !shared.jobs.has_any() {
            hint::spin_loop();
        }
    }

    /// Takes a job that only this seat may run, if the waiting holder may run it.
    pub fn take_broadcast(&self) -> Option<JobRef> {
        let tag = self.waits_for().without_external();
        self.broadcasts.take_first(|job| may_run(tag, job.tag()))
    }

    /// Whether [`take_broadcast`](Self::take_broadcast) would find something.
    pub fn has_broadcast(&self) -> bool {
        let tag = self.waits_for().without_external();
        self.broadcasts.has(|job| may_run(tag, job.tag()))
    }

    /// Whether thieves find a child job here: a hint.
    pub fn has_public_pieces(&self) -> bool {
        !self.deque.is_nothing_public() || !self.overflow.is_empty()
    }

    /// A thief wants a job, so the next push applies the rules.
    pub fn ask(&self) {
        if self.left.load(Relaxed) > 0 {
            self.left.store(0, Relaxed);
        }
    }

    /// A thief has taken a job. If it was the last public one, the owner may have relied on it.
    fn ask_if_empty(&self) {
        if self.deque.is_nothing_public() {
            self.ask();
        }
    }

    /// Whether child jobs lie here. For the owner.
    pub fn has_pieces(&self) -> bool {
        // SAFETY: the caller is the owner.
        unsafe { self.deque.has_items() || !self.overflow.is_empty() }
    }

    /// Whether jobs that were pushed here wait. For the owner.
    pub fn has_pending_jobs(&self) -> bool {
        self.has_pieces() || !self.detached.is_empty()
    }

    /// Applies the rules to the push at `index`, and returns the grant.
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
            // SAFETY: as above. There is a private job at this index: the one that was just pushed, or an
            // older one. Scope jobs are public, so it is a join job.
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
            // After the wake, which takes microseconds.
            habit.timed.set((oldest, Some(Instant::now())));
        }
        if index + 1 < EAGER { 0 } else { self.rely_on_public(is_hungry) }
    }

    /// The grant of rule 1. While thieves are hungry, the next child jobs near the root are for them.
    fn rely_on_public(&self, is_hungry: bool) -> u32 {
        self.set_peculiar(RELIES_ON_PUBLIC, true);
        if is_hungry { 2 * EAGER } else { PATIENCE }
    }

    /// For how many nanoseconds the child job at `index` has been there, if it is being timed.
    fn known_for(&self, index: u32) -> Option<u32> {
        let (timed, since) = self.habit(index).timed.get();
        // SAFETY: the caller is the owner.
        let since = since.filter(|_| timed == index && unsafe { self.deque.is_noted(index) })?;
        Some(since.elapsed().as_nanos().min(u128::from(LONG)) as u32)
    }

    /// Learns from a published child job that was taken back, or stolen.
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
            // Mostly the job belongs to the computation that this thread works for already.
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
                // The jobs that are left belong to an isolated region, which waits for them and sees only the
                // oldest job of a deque. This thread may need what the region holds before it comes to these
                // jobs.
                self.spill(floor);
                self.shared().idle.fence_push();
                self.shared().post_piece();
            }
            self.replace_region(region, tag);
        }
    }
}

/// Runs `f`. `f` polls tasks, which are no part of the computation below on the stack, and does not unwind.
/// An isolated region around still counts, because what it holds is still held.
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
mod tests;
