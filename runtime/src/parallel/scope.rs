//! Scopes: any number of jobs that may borrow data from outside, because all of them have ended when the
//! scope returns.
//!
//! A scope lives in the frame of the call that made it, on its *owner's* stack. Jobs are heap jobs that point
//! at the scope. Whatever panics, the owner does not leave the frame before the count of unfinished jobs is
//! zero (`job/count.rs`).
//!
//! # Where a job goes
//! | spawned on                            | it is pushed                                               |
//! | a seat of the scope's pool            | there, as a scope job, published at once                   |
//! | another thread                        | as an injected job of the scope's pool                     |
//! | the same, but that pool's seats leave | nowhere: it is run in place                                |
//! | any thread, and the scope has no pool | in the scope's own list: its owner runs it after the body  |
//!
//! `in_place_scope` on a thread without a seat of the pool counts as one of the pool's injected jobs. The
//! workers stay until it has ended, so the third row does not occur for its jobs.
//!
//! # First in, first out
//! A FIFO scope has one `Fifo` for each seat (`job/heap.rs`), and the seat's deque gets its tokens. So the
//! jobs that one seat runs, run in the order of their spawns. Tokens mix with other child jobs as these do
//! among themselves.
//!
//! Seats of spare workers and external threads have no `Fifo`, except the owner's seat. Their jobs go to the
//! pool's queue, which is first in, first out, too. The owner's jobs must lie on its own seat: an owner that
//! unwinds runs nothing from anywhere else, and the other workers may all be blocked.
//!
//! # Panics and cancellation
//! The first panic wins, whether of the body or of a job. The scope goes on with it when all jobs have ended.
//! Jobs of a cancelled computation that have not begun are dropped instead of run. Then the scope goes on
//! with the cancellation, unless something has panicked.

use std::alloc::Layout;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::{self, NonNull, null, null_mut};
use std::sync::{Arc, OnceLock};

use super::broadcast::BroadcastContext;
use super::cancel;
use super::enter::{self, CallRegion, Outside, OwnerLatch, Place, RootEnd};
use crate::job::{
    CoreLatch, CountLatch, Fifo, HeapJob, JobHeader, JobRef, Memory, Question, Region, Spot, Tag,
};
use crate::loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use crate::loom::sync::atomic::{AtomicBool, AtomicPtr};
use crate::queue::{Line, Shelf};
use crate::scheduler::context;
use crate::scheduler::magazine::JobMemory;
use crate::scheduler::wait::Awaited;
use crate::scheduler::{Hold, Seat, Shared};
use crate::util::unwind::Cancelled;
use crate::util::unwind::{self, Payload};

/// Spawns jobs that end before the scope does; see [`scope`].
pub struct Scope<'scope> {
    base: Base<'scope>,
}

/// Spawns jobs that end before the scope does, first in, first out; see [`scope_fifo`].
pub struct ScopeFifo<'scope> {
    base: Base<'scope>,
    fifos: Fifos,
}

/// Runs a closure that can spawn jobs, and returns when all of them have ended.
///
/// So the jobs may borrow data that lives longer than the scope. They run in any order and on any thread of
/// the pool, perhaps while the closure still runs, and perhaps only after it has ended: on a spare worker,
/// there is no thread to share with. So the closure must not wait for a job except by ending. Jobs can spawn
/// more jobs into the same scope. A thread runs its own youngest job first, and other threads take the
/// oldest. [`scope_fifo`] is the other way round. A spawn costs an allocation, and a [`join`](super::join)
/// does not.
///
/// On a thread of a runtime or a [`ThreadPool`](super::ThreadPool), the closure runs on that thread.
/// Elsewhere it runs on the calling thread if that thread can take a sleeping worker's place, as in
/// [`join`](super::join). Otherwise the closure runs on a thread of the pool that the call belongs to, and
/// the caller waits. Use [`in_place_scope`] for a closure that always stays on the calling thread.
///
/// # Panics
/// If the closure or one of the jobs panics, with the payload of the first panic. The other jobs still run,
/// and the scope waits for them.
///
/// # Examples
/// ```
/// use runtime::parallel::scope;
///
/// let mut numbers: Vec<u64> = (0..10_000).collect();
/// scope(|s| {
///     for chunk in numbers.chunks_mut(1000) {
///         s.spawn(move |_| chunk.iter_mut().for_each(|n| *n *= 2));
///     }
/// });
/// assert_eq!(numbers[5000], 10_000);
/// ```
/// A job cannot borrow what the scope's closure owns, because that is gone when the closure returns:
/// ```compile_fail,E0373
/// runtime::parallel::scope(|s| {
///     let local = vec![1, 2, 3];
///     s.spawn(|_| println!("{}", local.len()));
/// });
/// ```
/// nor can a borrow leave the scope through the arguments of a job:
/// ```compile_fail,E0521
/// use std::cell::Cell;
/// use runtime::parallel::{Scope, scope};
///
/// fn smuggle<'a>(s: &Scope<'a>, text: &str) {
///     s.spawn(|_| println!("{text}"));
/// }
/// ```
/// Data that goes to another thread has to be `Send`:
/// ```compile_fail,E0277
/// let count = std::rc::Rc::new(1);
/// runtime::parallel::scope(|s| s.spawn(move |_| println!("{count}")));
/// ```
/// and two jobs cannot write the same thing:
/// ```compile_fail,E0499
/// let mut count = 0;
/// runtime::parallel::scope(|s| {
///     s.spawn(|_| count += 1);
///     s.spawn(|_| count += 1);
/// });
/// ```
///
/// Prior art: `rayon::scope`, `std::thread::scope`.
pub fn scope<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&Scope<'scope>) -> R + Send,
    R: Send,
{
    enter::on_seat(Outside::Visits, |seat, _| Scope::run(Base::on(seat), op))
}

/// As [`scope`], but on a non-worker thread the closure is sent to a worker.
pub fn scope_sent<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&Scope<'scope>) -> R + Send,
    R: Send,
{
    enter::on_seat(Outside::Sends, |seat, _| Scope::run(Base::on(seat), op))
}

/// Runs a closure that can spawn jobs, which each thread runs in the order in which it spawned them.
///
/// Otherwise as [`scope`]. The order holds for each thread. If another thread has taken a job, the job runs
/// there. The jobs that it spawns come after those that its new thread has spawned into this scope before.
/// Scopes of both kinds and `join` can be nested, and each keeps its order.
///
/// # Panics
/// As [`scope`].
///
/// # Examples
/// ```
/// use runtime::parallel::{ThreadPoolBuilder, scope_fifo};
/// use std::sync::Mutex;
///
/// let order = Mutex::new(Vec::new());
/// let one_thread = ThreadPoolBuilder::new().num_threads(1).build()?;
/// one_thread.install(|| {
///     scope_fifo(|s| {
///         for i in 0..5 {
///             let order = &order;
///             s.spawn_fifo(move |_| order.lock().unwrap().push(i));
///         }
///     });
/// });
/// assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4]);
/// # Ok::<(), runtime::parallel::ThreadPoolBuildError>(())
/// ```
/// The closure's own variables are out of reach, as in `scope`:
/// ```compile_fail,E0373
/// runtime::parallel::scope_fifo(|s| {
///     let local = vec![1, 2, 3];
///     s.spawn_fifo(|_| println!("{}", local.len()));
/// });
/// ```
///
/// Prior art: `rayon::scope_fifo`.
pub fn scope_fifo<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&ScopeFifo<'scope>) -> R + Send,
    R: Send,
{
    enter::on_seat(Outside::Visits, |seat, _| ScopeFifo::run(Base::on(seat), op))
}

/// As [`scope_fifo`], but on a non-worker thread the closure is sent to a worker.
pub fn scope_fifo_sent<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&ScopeFifo<'scope>) -> R + Send,
    R: Send,
{
    enter::on_seat(Outside::Sends, |seat, _| ScopeFifo::run(Base::on(seat), op))
}

/// Runs a closure on the calling thread that can spawn jobs into the pool, and returns when all of them have
/// ended.
///
/// As [`scope`], but the closure stays on the calling thread, so it need not be `Send`. Afterwards a thread
/// of a pool runs jobs until those of the scope have ended. Any other thread blocks.
///
/// A runtime or pool that is shut down meanwhile stays until the scope has ended. So the closure must not
/// wait for the end of the runtime or pool that its jobs run on. Dropping a [`Runtime`](crate::Runtime) is
/// such a wait.
///
/// # Panics
/// As [`scope`].
///
/// # Examples
/// ```
/// use runtime::parallel::in_place_scope;
/// use std::rc::Rc;
///
/// let squares: Vec<std::sync::OnceLock<u64>> = (0..10).map(|_| Default::default()).collect();
/// let here = Rc::new(3);
/// in_place_scope(|s| {
///     for (i, square) in squares.iter().enumerate().skip(*here) {
///         s.spawn(move |_| square.set(i as u64 * i as u64).unwrap());
///     }
/// });
/// assert_eq!((squares[2].get(), squares[9].get()), (None, Some(&81)));
/// ```
///
/// Prior art: `rayon::in_place_scope`.
pub fn in_place_scope<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&Scope<'scope>) -> R,
{
    // SAFETY: a place is valid now.
    unsafe { in_place_scope_in(current_pool(), op) }
}

/// Runs a closure on the calling thread that can spawn jobs, which each thread runs in the order in which it
/// spawned them.
///
/// It is to [`scope_fifo`] what [`in_place_scope`] is to [`scope`].
///
/// # Panics
/// As [`scope`].
///
/// # Examples
/// ```
/// use runtime::parallel::in_place_scope_fifo;
/// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
///
/// let sum = AtomicU32::new(0);
/// in_place_scope_fifo(|s| {
///     for i in 0..10 {
///         let sum = &sum;
///         s.spawn_fifo(move |_| _ = sum.fetch_add(i, Relaxed));
///     }
/// });
/// assert_eq!(sum.into_inner(), 45);
/// ```
///
/// Prior art: `rayon::in_place_scope_fifo`.
pub fn in_place_scope_fifo<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&ScopeFifo<'scope>) -> R,
{
    // SAFETY: a place is valid now.
    unsafe { in_place_scope_fifo_in(current_pool(), op) }
}

fn current_pool() -> Option<NonNull<Shared>> {
    match enter::place() {
        Place::Seat(seat) => Some(seat.shared_ptr()),
        Place::Pool(shared) => Some(shared),
        Place::Here => None,
    }
}

/// [`scope`] in the pool `shared`.
///
/// # Safety
/// 1. `shared` is valid until this returns.
pub(super) unsafe fn scope_in<'scope, OP, R>(shared: NonNull<Shared>, op: OP) -> R
where
    OP: FnOnce(&Scope<'scope>) -> R + Send,
    R: Send,
{
    // SAFETY: (1).
    unsafe { enter::install(shared, |seat, _| Scope::run(Base::on(seat), op)) }
}

/// [`scope_fifo`] in the pool `shared`.
///
/// # Safety
/// 1. `shared` is valid until this returns.
pub(super) unsafe fn scope_fifo_in<'scope, OP, R>(shared: NonNull<Shared>, op: OP) -> R
where
    OP: FnOnce(&ScopeFifo<'scope>) -> R + Send,
    R: Send,
{
    // SAFETY: (1).
    unsafe { enter::install(shared, |seat, _| ScopeFifo::run(Base::on(seat), op)) }
}

/// [`in_place_scope`] with the jobs in `pool`, if there is one.
///
/// # Safety
/// 1. The pool is valid now.
pub(super) unsafe fn in_place_scope_in<'scope, OP, R>(pool: Option<NonNull<Shared>>, op: OP) -> R
where
    OP: FnOnce(&Scope<'scope>) -> R,
{
    // SAFETY: (1).
    let (base, _stay) = unsafe { Base::in_place(pool) };
    Scope::run(base, op)
}

/// [`in_place_scope_fifo`] with the jobs in `pool`, if there is one.
///
/// # Safety
/// 1. The pool is valid now.
pub(super) unsafe fn in_place_scope_fifo_in<'scope, OP, R>(pool: Option<NonNull<Shared>>, op: OP) -> R
where
    OP: FnOnce(&ScopeFifo<'scope>) -> R,
{
    // SAFETY: (1).
    let (base, _stay) = unsafe { Base::in_place(pool) };
    ScopeFifo::run(base, op)
}

impl<'scope> Scope<'scope> {
    #[inline]
    fn run<R>(base: Base<'scope>, op: impl FnOnce(&Self) -> R) -> R {
        let scope = Self { base };
        let result = scope.base.run_body(|| op(&scope));
        scope.base.end();
        result.expect("a panic has gone on")
    }

    /// Spawns a job into the scope, which runs at some time before the scope ends.
    ///
    /// The job gets the scope, to spawn more. It runs in the scope's pool, whichever thread spawns it. On the
    /// thread that spawned it, younger jobs run before it.
    ///
    /// If a [`compute`](crate::compute) was cancelled, those of its jobs that have not begun are dropped.
    /// Then the scope does not return, but goes on with the cancellation.
    ///
    /// # Panics
    /// Never itself. A panic of the job goes on where the scope was made.
    ///
    /// # Examples
    /// ```
    /// use runtime::parallel::scope;
    ///
    /// let (mut left, mut right) = (0, 0);
    /// scope(|s| {
    ///     s.spawn(|_| left = 1);
    ///     s.spawn(|s| s.spawn(|_| right = 2));
    /// });
    /// assert_eq!((left, right), (1, 2));
    /// ```
    pub fn spawn<BODY>(&self, body: BODY)
    where
        BODY: FnOnce(&Scope<'scope>) + Send + 'scope,
    {
        spawn(self, None, body);
    }

    /// Spawns a job into the scope that runs once on each thread of the pool, before the scope ends.
    ///
    /// As [`broadcast`](super::broadcast()), without waiting here. In a scope without threads, because its
    /// pool is gone, it runs once.
    ///
    /// # Panics
    /// Never itself. The first panic goes on where the scope was made.
    ///
    /// # Examples
    /// ```
    /// use runtime::parallel::{ThreadPoolBuilder, scope};
    /// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    ///
    /// let sum = AtomicUsize::new(0);
    /// let pool = ThreadPoolBuilder::new().num_threads(3).build()?;
    /// pool.install(|| {
    ///     scope(|s| s.spawn_broadcast(|_, thread| _ = sum.fetch_add(thread.index(), Relaxed)));
    /// });
    /// assert_eq!(sum.into_inner(), 0 + 1 + 2);
    /// # Ok::<(), runtime::parallel::ThreadPoolBuildError>(())
    /// ```
    pub fn spawn_broadcast<BODY>(&self, body: BODY)
    where
        BODY: Fn(&Scope<'scope>, BroadcastContext<'_>) + Send + Sync + 'scope,
    {
        spawn_broadcast(self, body);
    }
}

impl<'scope> Kind<'scope> for Scope<'scope> {
    #[inline(always)]
    fn base(&self) -> &Base<'scope> {
        &self.base
    }
}

impl<'scope> ScopeFifo<'scope> {
    #[inline]
    fn run<R>(base: Base<'scope>, op: impl FnOnce(&Self) -> R) -> R {
        // SAFETY: a scope's pool is valid.
        let seats = base.pool.map_or(0, |pool| unsafe { pool.as_ref() }.config.workers);
        let of_seats = (0..seats).map(|_| OnceLock::new()).collect();
        let scope = Self { base, fifos: Fifos { of_seats, of_owner: OnceLock::new() } };
        let result = scope.base.run_body(|| op(&scope));
        scope.base.end();
        result.expect("a panic has gone on")
    }

    /// Spawns a job into the scope, which runs at some time before the scope ends.
    ///
    /// The job gets the scope, to spawn more. It runs in the scope's pool, whichever thread spawns it. On the
    /// thread that spawned it, older jobs of this scope run before it.
    ///
    /// If a [`compute`](crate::compute) was cancelled, those of its jobs that have not begun are dropped.
    /// Then the scope does not return, but goes on with the cancellation.
    ///
    /// # Panics
    /// Never itself. A panic of the job goes on where the scope was made.
    ///
    /// # Examples
    /// ```
    /// use runtime::parallel::scope_fifo;
    ///
    /// let (mut left, mut right) = (0, 0);
    /// scope_fifo(|s| {
    ///     s.spawn_fifo(|_| left = 1);
    ///     s.spawn_fifo(|s| s.spawn_fifo(|_| right = 2));
    /// });
    /// assert_eq!((left, right), (1, 2));
    /// ```
    pub fn spawn_fifo<BODY>(&self, body: BODY)
    where
        BODY: FnOnce(&ScopeFifo<'scope>) + Send + 'scope,
    {
        spawn(self, Some(&self.fifos), body);
    }

    /// Spawns a job into the scope that runs once on each thread of the pool, before the scope ends.
    ///
    /// As [`broadcast`](super::broadcast()), without waiting here. In a scope without threads, because its
    /// pool is gone, it runs once.
    ///
    /// # Panics
    /// Never itself. The first panic goes on where the scope was made.
    ///
    /// # Examples
    /// ```
    /// use runtime::parallel::{ThreadPoolBuilder, scope_fifo};
    /// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    ///
    /// let sum = AtomicUsize::new(0);
    /// let pool = ThreadPoolBuilder::new().num_threads(3).build()?;
    /// pool.install(|| {
    ///     scope_fifo(|s| s.spawn_broadcast(|_, thread| _ = sum.fetch_add(thread.index(), Relaxed)));
    /// });
    /// assert_eq!(sum.into_inner(), 0 + 1 + 2);
    /// # Ok::<(), runtime::parallel::ThreadPoolBuildError>(())
    /// ```
    pub fn spawn_broadcast<BODY>(&self, body: BODY)
    where
        BODY: Fn(&ScopeFifo<'scope>, BroadcastContext<'_>) + Send + Sync + 'scope,
    {
        spawn_broadcast(self, body);
    }
}

impl<'scope> Kind<'scope> for ScopeFifo<'scope> {
    #[inline(always)]
    fn base(&self) -> &Base<'scope> {
        &self.base
    }
}

/// One of the two kinds of scope.
trait Kind<'scope>: Sync {
    fn base(&self) -> &Base<'scope>;
}

/// One seat's jobs of a FIFO scope.
type ScopedFifo = Fifo<Line<JobHeader>>;

/// The jobs of a FIFO scope.
struct Fifos {
    /// One for each permanent worker's seat.
    of_seats: Box<[OnceLock<ScopedFifo>]>,
    /// The jobs of the scope's owner, if it is at home on another kind of seat.
    of_owner: OnceLock<ScopedFifo>,
}

impl Fifos {
    /// The queue of the calling thread, which holds `seat`. `is_home`: the thread is the scope's owner, at
    /// home.
    fn at(&self, seat: &Seat, is_home: bool) -> Option<&OnceLock<ScopedFifo>> {
        self.of_seats.get(seat.index()).or(is_home.then_some(&self.of_owner))
    }
}

/// A scope's address, for its jobs.
struct Pointer<T>(*const T);

// SAFETY: scopes are `Sync`.
unsafe impl<T: Sync> Send for Pointer<T> {}

impl<T> Pointer<T> {
    /// A method, so that a closure captures the whole struct. The field alone is not `Send`.
    #[inline(always)]
    fn get(self) -> *const T {
        self.0
    }
}

/// An address that no seat has.
const NOBODY: *mut Seat = ptr::dangling_mut();

/// The part that both kinds of scope share.
struct Base<'scope> {
    /// The pool in which the jobs run, valid while the scope is. None: they run on the owner, after the body.
    pool: Option<NonNull<Shared>>,
    /// The owner's seat in any pool, or null.
    owner: *const Seat,
    /// The owner's seat, if it is a seat of the scope's pool and the owner has not folded its count.
    /// Otherwise an address that no seat has. Written by the owner.
    home: AtomicPtr<Seat>,
    /// The lowest index of the owner's child jobs.
    floor: u32,
    count: CountLatch<OwnerLatch>,
    /// The first panic, boxed; or null.
    panic: AtomicPtr<Payload>,
    /// Whether a job was dropped, or unwound, because the computation was cancelled.
    is_cut_short: AtomicBool,
    /// The region in which the scope was made, and to which its jobs belong. A spawner's region may end
    /// before the jobs.
    region: *const Region,
    tag: Tag,
    /// The region's question, which is asked before a job begins; or null.
    question: *const Question,
    /// Keeps the region, if the owner holds no seat of the pool.
    _foreign: Option<CallRegion>,
    /// Jobs of a scope without a pool.
    shelf: Shelf<JobRef>,
    /// Invariant: jobs borrow for exactly `'scope`. A shorter or longer lifetime must not pass for it.
    _marker: PhantomData<&'scope mut &'scope ()>,
}

// SAFETY: the count's cells and the latch are the owner's, which is told by its seat, or its calls; jobs are
// `Send`; all else is atomic, locked, or not written.
unsafe impl Send for Base<'_> {}
// SAFETY: as above.
unsafe impl Sync for Base<'_> {}

/// The region of jobs that the calling thread, which holds `seat`, makes and awaits.
#[inline]
pub(super) fn region_of(seat: Option<&Seat>) -> (*const Region, Tag) {
    let (region, tag) = seat.map_or_else(context::region, |seat| (seat.region(), seat.tag()));
    // On a stack that unwinds a cancellation could not go on.
    let is_stuck = !region.is_null() && std::thread::panicking();
    (if is_stuck { null() } else { region }, tag)
}

/// Runs a job on the calling thread, which holds `seat`.
///
/// # Safety
/// 1. The caller has claimed the job.
unsafe fn run_here(seat: Option<&Seat>, job: JobRef) {
    // SAFETY: (1); a seat's owner is its thread. Jobs do not unwind.
    unsafe {
        let Some(seat) = seat else {
            let (region, tag) = context::replace_region(job.region(), job.tag());
            context::in_surroundings(context::current(), || job.run());
            context::replace_region(region, tag);
            return;
        };
        seat.run(job);
    }
}

/// The jobs of a scope whose owner has a seat of its pool, and waits for them.
struct JobsOf<'a, 'scope>(&'a Base<'scope>);

impl JobsOf<'_, '_> {
    fn core(&self) -> &CoreLatch {
        self.0.count.latch().core().expect("the latch was made for a seat of the pool")
    }
}

impl Awaited for JobsOf<'_, '_> {
    fn is_over(&self) -> bool {
        let count = &self.0.count;
        if count.is_folded() { self.core().is_set() } else { count.is_done() }
    }

    // Other threads write the count for each of their jobs.
    fn is_over_after(&self, jobs: u32) -> bool {
        jobs % 32 == 0 && self.is_over()
    }

    fn fall_asleep(&self) -> bool {
        self.0.fold() && self.core().fall_asleep()
    }

    fn wake_up(&self) {
        self.core().wake_up();
        self.0.unfold();
    }
}

/// Keeps a pool's workers for a scope whose owner has no seat of the pool.
struct Stay {
    _end: RootEnd,
    /// Dropped last.
    _hold: Hold,
}

impl<'scope> Base<'scope> {
    /// For the owner of `seat`, in its pool.
    #[inline]
    fn on(seat: Option<&Seat>) -> Self {
        if let Some(seat) = seat {
            cancel::split_point(seat);
        }
        Self::new(seat.map(Seat::shared_ptr), seat)
    }

    /// For the calling thread, in any pool, or none.
    ///
    /// # Safety
    /// 1. The pool is valid now.
    unsafe fn in_place(pool: Option<NonNull<Shared>>) -> (Self, Option<Stay>) {
        // SAFETY: used in this call only; the thread does not lose its seat inside of a scope.
        let seat = unsafe { context::seat() };
        if let Some(seat) = seat {
            cancel::split_point(seat);
            if pool == Some(seat.shared_ptr()) {
                return (Self::new(pool, Some(seat)), None);
            }
        }
        let stay = pool.and_then(|pool| {
            // SAFETY: (1); held, and counted if `try_begin` says so.
            unsafe {
                let hold = Hold::new(pool);
                pool.as_ref().jobs.try_begin().then(|| Stay { _end: RootEnd::new(pool), _hold: hold })
            }
        });
        (Self::new(pool.filter(|_| stay.is_some()), seat), stay)
    }

    #[inline]
    fn new(pool: Option<NonNull<Shared>>, seat: Option<&Seat>) -> Self {
        let home = seat.filter(|seat| Some(seat.shared_ptr()) == pool);
        // SAFETY: a scope's pool is valid.
        let foreign =
            pool.filter(|_| home.is_none()).map(|pool| CallRegion::of(seat, unsafe { pool.as_ref() }));
        let (region, tag) =
            foreign.as_ref().map_or_else(|| region_of(seat), |call| (call.region(), call.tag()));
        Self {
            pool,
            owner: seat.map_or(null(), |seat| seat),
            home: AtomicPtr::new(home.map_or(NOBODY, |seat| ptr::from_ref(seat).cast_mut())),
            floor: seat.map_or(0, Seat::head),
            count: CountLatch::new(OwnerLatch::new(seat, pool)),
            panic: AtomicPtr::new(null_mut()),
            is_cut_short: AtomicBool::new(false),
            region,
            tag,
            // SAFETY: a scope's region is live.
            question: unsafe { region.as_ref() }.map_or(null(), Region::asked_at_splits),
            _foreign: foreign,
            shelf: Shelf::new(),
            _marker: PhantomData,
        }
    }

    /// The calling thread's `seat`, if the thread is the owner, on a seat of the scope's pool, and has not
    /// folded. Any other thread counts as one of the others. So does the owner in its sleep, because wakers
    /// run there, and with them any code that they call.
    #[inline(always)]
    fn at_home<'a>(&self, seat: Option<&'a Seat>) -> Option<&'a Seat> {
        let seat: *const Seat = seat.map_or(null(), |seat| seat);
        // Relaxed: it is the caller's seat only if the caller wrote it.
        // SAFETY: the address `NOBODY` is that of no seat, nor null.
        ptr::eq(seat, self.home.load(Relaxed)).then(|| unsafe { &*seat })
    }

    /// Returns true if jobs are left. For the owner, at home or folded.
    fn fold(&self) -> bool {
        // Relaxed: see `at_home`.
        self.home.store(NOBODY, Relaxed);
        self.count.is_folded() || self.count.fold()
    }

    /// For the owner, which has folded.
    fn unfold(&self) {
        if self.count.unfold() {
            // Relaxed: see `at_home`.
            self.home.store(self.owner.cast_mut(), Relaxed);
        }
    }

    /// Whether the computation was cancelled, and its jobs need not begin.
    #[inline(always)]
    fn is_cancelled(&self) -> bool {
        // SAFETY: a part of the scope's region, which is live.
        unsafe { self.question.as_ref() }.is_some_and(Question::is_cancelled)
    }

    /// A job has ended, and its memory is freed.
    ///
    /// # Safety
    /// 1. `this` is live: the job is counted; afterwards it may be gone. 2. As [`Memory::free`].
    #[inline(always)]
    unsafe fn end_job(this: *const Self, memory: NonNull<u8>, layout: Layout) {
        // SAFETY: used in this call only; (1) and `at_home`; (2).
        unsafe {
            match (*this).at_home(context::seat()) {
                Some(seat) => {
                    CountLatch::decrement(&raw const (*this).count, true);
                    seat.free(memory, layout);
                }
                None => Self::end_elsewhere(this, memory, layout),
            }
        }
    }

    /// # Safety
    /// As [`end_job`](Self::end_job), on another thread than the owner's, or not on the scope's seat.
    #[inline(never)]
    unsafe fn end_elsewhere(this: *const Self, memory: NonNull<u8>, layout: Layout) {
        // SAFETY: (2); (1).
        unsafe {
            JobMemory::free(memory, layout);
            CountLatch::decrement(&raw const (*this).count, false);
        }
    }

    /// A job was cancelled before it began.
    ///
    /// # Safety
    /// As [`end_job`](Self::end_job).
    #[cold]
    #[inline(never)]
    unsafe fn cancel_job(this: *const Self, memory: NonNull<u8>, layout: Layout, body: impl Sized) {
        // SAFETY: (1), (2).
        unsafe {
            (*this).is_cut_short.store(true, Relaxed);
            unwind::drop_quietly(body);
            Self::end_job(this, memory, layout);
        }
    }

    /// A job panicked.
    ///
    /// # Safety
    /// As [`end_job`](Self::end_job).
    #[cold]
    #[inline(never)]
    unsafe fn end_panicked(this: *const Self, memory: NonNull<u8>, layout: Layout, payload: Payload) {
        // SAFETY: (1), (2).
        unsafe {
            (*this).keep_panic(payload);
            Self::end_job(this, memory, layout);
        }
    }

    #[inline]
    fn run_body<R>(&self, body: impl FnOnce() -> R) -> Option<R> {
        unwind::catch(body).map_err(|payload| self.keep_panic(payload)).ok()
    }

    /// Keeps the first panic. A cancellation is no panic.
    #[cold]
    #[inline(never)]
    fn keep_panic(&self, payload: Payload) {
        if payload.is::<Cancelled>() {
            self.is_cut_short.store(true, Relaxed);
            return;
        }
        let new = Box::into_raw(Box::new(payload));
        // AcqRel: pairs with `end`. A thread that waits has seen everything anyway.
        if self.panic.compare_exchange(null_mut(), new, AcqRel, Acquire).is_err() {
            // SAFETY: made above, and no other thread has it.
            unwind::drop_quietly(unsafe { Box::from_raw(new) });
        }
    }

    /// Waits for all jobs, and goes on with a panic if there is one. For the owner, after the body.
    #[inline]
    fn end(&self) {
        self.wait();
        // Acquire, although the count orders this already.
        let panic = self.panic.load(Acquire);
        if !panic.is_null() || self.is_cut_short.load(Relaxed) {
            // SAFETY: all jobs have ended.
            unsafe { self.go_on_with_panic() };
        }
    }

    #[inline]
    fn wait(&self) {
        // SAFETY: the owner's, for it runs this; its thread keeps it.
        let seat = unsafe { self.owner.as_ref() };
        match seat {
            Some(seat) if self.at_home(Some(seat)).is_some() => {
                seat.run_own(self.floor, || self.count.is_done());
                seat.wait(&JobsOf(self), self.floor);
            }
            _ => {
                self.run_shelf(seat);
                if !self.count.is_done() && self.count.fold() {
                    self.count.latch().wait(seat, self.floor);
                }
            }
        }
    }

    /// Runs the jobs of a scope without a pool. Whether in the order of their spawns or against it makes no
    /// difference to the jobs.
    fn run_shelf(&self, seat: Option<&Seat>) {
        while let Some(job) = self.shelf.pop_back() {
            // SAFETY: claimed by the pop.
            unsafe { run_here(seat, job) };
        }
    }

    /// # Safety
    /// 1. All jobs have ended.
    #[cold]
    unsafe fn go_on_with_panic(&self) {
        let panic = self.panic.swap(null_mut(), Acquire);
        if panic.is_null() {
            cancel::unwind_quietly();
        }
        // SAFETY: (1): ours alone.
        std::panic::resume_unwind(*unsafe { Box::from_raw(panic) });
    }

    fn fields(&self, debug: &mut fmt::DebugStruct<'_, '_>) {
        debug.field("pool_id", &self.pool).field("panic", &self.panic.load(Relaxed));
    }
}

#[inline(always)]
fn spawn<'scope, S: Kind<'scope>>(scope: &S, fifos: Option<&Fifos>, body: impl FnOnce(&S) + Send) {
    let base = scope.base();
    // SAFETY: used in this call only.
    let seat = unsafe { context::seat() };
    let (is_home, seat) = match base.at_home(seat) {
        Some(seat) => (true, seat),
        None => match seat {
            Some(seat) if Some(seat.shared_ptr()) == base.pool => (false, seat),
            _ => return spawn_outside(scope, seat, body),
        },
    };
    let fifo = match fifos {
        None => None,
        Some(fifos) => match fifos.at(seat, is_home) {
            None => return spawn_outside(scope, Some(seat), body),
            fifo => fifo,
        },
    };
    // SAFETY: the calling thread runs the body, or a job of the scope, or is waited for by one: for it has
    // the scope.
    unsafe { base.count.increment(is_home) };
    // SAFETY: (1) just counted; (2) all seats and workers have their memory from one allocator.
    let job = unsafe { job(scope, |layout| seat.allocate(layout), body) };
    let job = match fifo {
        None => job,
        // SAFETY: (1) the FIFO is the scope's, which stays until the job has run; (2) the token is pushed
        // below; (3) this thread is the seat's owner, or the scope's.
        Some(fifo) => unsafe { fifo.get_or_init(|| Fifo::new(base.region)).push(job) },
    };
    // SAFETY: this thread is the seat's owner.
    unsafe { seat.push(job) };
}

#[cold]
#[inline(never)]
fn spawn_outside<'scope, S: Kind<'scope>>(scope: &S, seat: Option<&Seat>, body: impl FnOnce(&S) + Send) {
    let base = scope.base();
    // SAFETY: as in `spawn`.
    unsafe { base.count.increment(false) };
    let Some(pool) = base.pool else {
        // SAFETY: (1) just counted; (2) it is its memory.
        return base.shelf.push_back(unsafe { job(scope, JobMemory::allocate, body) });
    };
    // SAFETY: a scope's pool is valid.
    let shared = unsafe { pool.as_ref() };
    if shared.jobs.try_begin() {
        // SAFETY: just counted.
        return shared.queue_install(unsafe { root_job(scope, pool, body) });
    }
    // SAFETY: as above. The hold is for the owner's latch, which a thread of no pool is about to set.
    let _hold = unsafe { Hold::new(pool) };
    // SAFETY: (1) counted above; (2) it is its memory. Then: just made, and in no queue.
    unsafe { run_here(seat, job(scope, JobMemory::allocate, body)) };
}

fn spawn_broadcast<'scope, S: Kind<'scope>>(
    scope: &S,
    body: impl Fn(&S, BroadcastContext<'_>) + Send + Sync,
) {
    let base = scope.base();
    // SAFETY: a scope's pool is valid.
    let shared = base.pool.map(|pool| (pool, unsafe { pool.as_ref() }));
    let Some((pool, shared)) = shared.filter(|(_, shared)| shared.try_begin_many(shared.config.workers))
    else {
        return spawn(scope, None, move |scope: &S| body(scope, BroadcastContext::new(0, 1)));
    };
    let (threads, body) = (shared.config.workers, Arc::new(body));
    shared.queue_broadcast((0..threads).map(|index| {
        // SAFETY: as in `spawn`.
        unsafe { base.count.increment(false) };
        let body = body.clone();
        // SAFETY: just counted.
        unsafe { root_job(scope, pool, move |scope: &S| body(scope, BroadcastContext::new(index, threads))) }
    }));
}

/// A job of the scope that is also an injected job of its pool.
///
/// # Safety
/// 1. It was counted, by both.
unsafe fn root_job<'scope, S: Kind<'scope>>(
    scope: &S,
    pool: NonNull<Shared>,
    body: impl FnOnce(&S) + Send,
) -> JobRef {
    // SAFETY: (1), and the seat that runs or drops it keeps its pool.
    let end = unsafe { RootEnd::new(pool) };
    let body = move |scope: &S| {
        // Drops in this order, also if the job is dropped unrun: the root ends last.
        let (body, _end) = (body, end);
        body(scope);
    };
    // SAFETY: (1); (2) it is its memory.
    unsafe { job(scope, JobMemory::allocate, body) }
}

/// A job of the scope.
///
/// # Safety
/// 1. It was counted. 2. `allocate` returns memory that [`JobMemory`] takes.
#[inline(always)]
unsafe fn job<'scope, S: Kind<'scope>>(
    scope: &S,
    allocate: impl FnOnce(Layout) -> NonNull<u8>,
    body: impl FnOnce(&S) + Send,
) -> JobRef {
    let (this, base) = (Pointer(scope), scope.base());
    let run = move |spot| {
        // SAFETY: (1).
        unsafe { run_job(this.get(), spot, body) }
    };
    // SAFETY: (1) to (3) by our (1) the job is counted, so that the scope, whatever its body borrows, and the
    // region are there until it has run. It does not unwind. The body is `Send`; the scope is `Sync`. (4) is
    // our (2).
    unsafe { HeapJob::<JobMemory, _>::allocate_by(allocate, base.region, base.tag, run) }
}

/// # Safety
/// 1. The scope is live: the job is counted.
#[inline(always)]
unsafe fn run_job<'scope, S: Kind<'scope>>(scope: *const S, spot: Spot<JobMemory>, body: impl FnOnce(&S)) {
    // After the body, so that only the job's memory has to be kept.
    let (memory, layout) = spot.into_raw();
    // SAFETY: (1), until the decrement; the memory is not used any more.
    unsafe {
        let base: *const Base<'scope> = (*scope).base();
        if (*base).is_cancelled() {
            return Base::cancel_job(base, memory, layout, body);
        }
        match unwind::catch(|| body(&*scope)) {
            Ok(()) => Base::end_job(base, memory, layout),
            Err(payload) => Base::end_panicked(base, memory, layout, payload),
        }
    }
}

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Scope");
        self.base.fields(&mut debug);
        debug.finish_non_exhaustive()
    }
}

impl fmt::Debug for ScopeFifo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("ScopeFifo");
        debug.field("num_fifos", &self.fifos.of_seats.len());
        self.base.fields(&mut debug);
        debug.finish_non_exhaustive()
    }
}
