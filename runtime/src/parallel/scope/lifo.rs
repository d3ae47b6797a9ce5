//! Scopes whose jobs run in any order, mostly the last first.

use std::fmt;
use std::ptr::NonNull;

use super::base::Base;
use super::jobs::{Kind, spawn, spawn_broadcast};
use crate::parallel::broadcast::BroadcastContext;
use crate::parallel::enter::{self, Outside, OwnComputation};
use crate::scheduler::Shared;

/// Spawns jobs that end before the scope does; see [`scope`].
pub struct Scope<'scope> {
    base: Base<'scope>,
}

/// Runs a closure that can spawn jobs, and returns when all of them have ended.
///
/// So the jobs may borrow data that lives longer than the scope. They run in any order and on any thread of
/// the pool, perhaps while the closure still runs, and perhaps only after it has ended: on a spare worker,
/// there is no thread to share with. So the closure must not wait for a job except by ending. Jobs can spawn
/// more jobs into the same scope. A thread runs its own youngest job first, and other threads take the
/// oldest. [`scope_fifo`](super::scope_fifo) is the other way round. A spawn costs an allocation, and a
/// [`join`](crate::parallel::join) does not.
///
/// On a thread of a runtime or a [`ThreadPool`](crate::parallel::ThreadPool), the closure runs on that
/// thread. Elsewhere it runs on the calling thread if a worker sleeps, under the conditions of
/// [`join`](crate::parallel::join). Otherwise the closure runs on a thread of the pool that the call belongs
/// to, and the caller waits. Use [`in_place_scope`] for a closure that always stays on the calling thread.
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
    // SAFETY: (1) the base is made here, on the same thread.
    enter::in_pool_of_scope(Outside::Visits, |processor, _| unsafe { Scope::run(Base::on(processor), op) })
}

/// As [`scope`], but on a non-worker thread the closure is sent to a worker.
pub fn scope_sent<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&Scope<'scope>) -> R + Send,
    R: Send,
{
    // SAFETY: (1) the base is made here, on the same thread.
    enter::in_pool_of_scope(Outside::Sends, |processor, _| unsafe { Scope::run(Base::on(processor), op) })
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
    let _own = OwnComputation::begin();
    // SAFETY: (1) what makes the pool the place of this call stays until the call returns.
    unsafe { in_place_scope_in(enter::current_pool(), op) }
}

/// [`scope`] in the pool `shared`.
///
/// # Safety
/// 1. `shared` is valid until this returns.
pub(in crate::parallel) unsafe fn scope_in<'scope, OP, R>(shared: NonNull<Shared>, op: OP) -> R
where
    OP: FnOnce(&Scope<'scope>) -> R + Send,
    R: Send,
{
    // SAFETY: `install`: (1). `run`: (1) the base is made here, on the same thread.
    unsafe { enter::install(shared, |processor, _| Scope::run(Base::on(processor), op)) }
}

/// [`in_place_scope`] with the jobs in `pool`, if there is one.
///
/// # Safety
/// 1. The pool is valid now.
pub(in crate::parallel) unsafe fn in_place_scope_in<'scope, OP, R>(pool: Option<NonNull<Shared>>, op: OP) -> R
where
    OP: FnOnce(&Scope<'scope>) -> R,
{
    let _own = OwnComputation::begin();
    // SAFETY: (1).
    let (base, _stay) = unsafe { Base::in_place(pool) };
    // SAFETY: (1) this thread has just made it.
    unsafe { Scope::run(base, op) }
}

impl<'scope> Scope<'scope> {
    /// # Safety
    /// 1. The calling thread made `base`.
    #[inline]
    unsafe fn run<R>(base: Base<'scope>, op: impl FnOnce(&Self) -> R) -> R {
        let scope = Self { base };
        let result = scope.base.run_body(|| op(&scope));
        // SAFETY: (1). (2) `run_body` has returned. (3) This is the only call for this scope.
        unsafe { scope.base.end() };
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
    /// As [`broadcast`](crate::parallel::broadcast()), without waiting here. In a scope without threads,
    /// because its pool is gone, it runs once.
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

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Scope");
        self.base.fields(&mut debug);
        debug.finish_non_exhaustive()
    }
}
