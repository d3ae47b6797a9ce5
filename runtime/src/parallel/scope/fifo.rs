//! Scopes whose jobs run first in, first out; see *First in, first out* in `mod.rs`.

use std::fmt;
use std::ptr::NonNull;
use std::sync::OnceLock;

use super::base::Base;
use super::jobs::{Fifos, Kind, spawn, spawn_broadcast};
use crate::parallel::broadcast::BroadcastContext;
use crate::parallel::enter::{self, Outside, OwnComputation};
use crate::scheduler::Shared;

/// Spawns jobs that end before the scope does, first in, first out; see [`scope_fifo`].
pub struct ScopeFifo<'scope> {
    base: Base<'scope>,
    fifos: Fifos,
}

/// Runs a closure that can spawn jobs, which each thread runs in the order in which it spawned them.
///
/// Otherwise as [`scope`](super::scope()). The order holds for each thread. If another thread has taken a
/// job, the job runs there. The jobs that it spawns come after those that its new thread has spawned into
/// this scope before. Scopes of both kinds and `join` can be nested, and each keeps its order.
///
/// # Panics
/// As [`scope`](super::scope()).
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
    // SAFETY: (1) the base is made here, on the same thread.
    enter::in_pool_of_scope(Outside::Visits, |processor, _| unsafe {
        ScopeFifo::run(Base::on(processor), op)
    })
}

/// As [`scope_fifo`], but on a non-worker thread the closure is sent to a worker.
pub fn scope_fifo_sent<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&ScopeFifo<'scope>) -> R + Send,
    R: Send,
{
    // SAFETY: (1) the base is made here, on the same thread.
    enter::in_pool_of_scope(Outside::Sends, |processor, _| unsafe { ScopeFifo::run(Base::on(processor), op) })
}

/// Runs a closure on the calling thread that can spawn jobs, which each thread runs in the order in which it
/// spawned them.
///
/// It is to [`scope_fifo`] what [`in_place_scope`](super::in_place_scope) is to [`scope`](super::scope()).
///
/// # Panics
/// As [`scope`](super::scope()).
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
    let _own = OwnComputation::begin();
    // SAFETY: (1) what makes the pool the place of this call stays until the call returns.
    unsafe { in_place_scope_fifo_in(enter::current_pool(), op) }
}

/// [`scope_fifo`] in the pool `shared`.
///
/// # Safety
/// 1. `shared` is valid until this returns.
pub(in crate::parallel) unsafe fn scope_fifo_in<'scope, OP, R>(shared: NonNull<Shared>, op: OP) -> R
where
    OP: FnOnce(&ScopeFifo<'scope>) -> R + Send,
    R: Send,
{
    // SAFETY: `install`: (1). `run`: (1) the base is made here, on the same thread.
    unsafe { enter::install(shared, |processor, _| ScopeFifo::run(Base::on(processor), op)) }
}

/// [`in_place_scope_fifo`] with the jobs in `pool`, if there is one.
///
/// # Safety
/// 1. The pool is valid now.
pub(in crate::parallel) unsafe fn in_place_scope_fifo_in<'scope, OP, R>(
    pool: Option<NonNull<Shared>>,
    op: OP,
) -> R
where
    OP: FnOnce(&ScopeFifo<'scope>) -> R,
{
    let _own = OwnComputation::begin();
    // SAFETY: (1).
    let (base, _stay) = unsafe { Base::in_place(pool) };
    // SAFETY: (1) this thread has just made it.
    unsafe { ScopeFifo::run(base, op) }
}

impl<'scope> ScopeFifo<'scope> {
    /// # Safety
    /// 1. The calling thread made `base`.
    #[inline]
    unsafe fn run<R>(base: Base<'scope>, op: impl FnOnce(&Self) -> R) -> R {
        // SAFETY: a scope's pool is valid.
        let processors = base.pool.map_or(0, |pool| unsafe { pool.as_ref() }.config.workers);
        let of_workers = (0..processors).map(|_| OnceLock::new()).collect();
        let scope = Self { base, fifos: Fifos { of_workers, of_owner: OnceLock::new() } };
        let result = scope.base.run_body(|| op(&scope));
        // SAFETY: (1). (2) `run_body` has returned. (3) This is the only call for this scope.
        unsafe { scope.base.end() };
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
    /// As [`broadcast`](crate::parallel::broadcast()), without waiting here. In a scope without threads,
    /// because its pool is gone, it runs once.
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

impl fmt::Debug for ScopeFifo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("ScopeFifo");
        debug.field("num_fifos", &self.fifos.of_workers.len());
        self.base.fields(&mut debug);
        debug.finish_non_exhaustive()
    }
}
