//! Yielding to other jobs, and what a thread can ask about its pool.

use std::ptr::NonNull;

use super::enter;
use crate::job::Tag;
use crate::runtime::builder::{MAX_SPARE_WORKERS, MAX_WORKERS};
use crate::scheduler::{OwnJobs, Shared};

/// The result of [`yield_now`] and [`yield_local`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Yield {
    /// A job was run.
    Executed,
    /// No job was found that the call may run.
    Idle,
}

/// Runs one job that waits in the pool, on top of the calling thread's present work. Returns `None` outside
/// of pools.
///
/// It is for threads that wait for something in a loop. First it looks where [`yield_local`] looks, then at
/// other threads' jobs, then at injected jobs. The job runs on top of the caller's stack. It may take long,
/// or need what the caller holds. Inside of [`isolated`](super::isolated) only parts of that computation run.
/// The call never polls tasks.
///
/// # Panics
/// Never. A panic of the job goes where the job belongs.
///
/// # Examples
/// ```
/// use runtime::parallel::{Yield, scope, yield_now};
/// use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
///
/// let is_done = AtomicBool::new(false);
/// scope(|s| {
///     s.spawn(|_| is_done.store(true, SeqCst));
///     while !is_done.load(SeqCst) {
///         if yield_now() != Some(Yield::Executed) {
///             std::thread::yield_now();
///         }
///     }
/// });
/// ```
///
/// Prior art: `rayon::yield_now`.
pub fn yield_now() -> Option<Yield> {
    enter::with_own(|processor| processor.map(|processor| yield_on(processor, false)))
}

/// Runs one job that waits on the calling thread. As [`yield_now`], but takes no job from elsewhere.
///
/// First come child jobs of computations, the youngest if possible, then detached jobs, then broadcasts.
///
/// # Panics
/// Never. A panic of the job goes where the job belongs.
///
/// # Examples
/// ```
/// use runtime::parallel::{ThreadPoolBuilder, Yield, spawn, yield_local};
///
/// let pool = ThreadPoolBuilder::new().num_threads(1).build()?;
/// pool.install(|| {
///     spawn(|| ());
///     assert_eq!(yield_local(), Some(Yield::Executed));
///     assert_eq!(yield_local(), Some(Yield::Idle));
/// });
/// assert_eq!(yield_local(), None);
/// # Ok::<(), runtime::parallel::ThreadPoolBuildError>(())
/// ```
///
/// Prior art: `rayon::yield_local`.
pub fn yield_local() -> Option<Yield> {
    enter::with_own(|processor| processor.map(|processor| yield_on(processor, true)))
}

/// [`yield_now`], or [`yield_local`], for threads of the pool `shared`.
pub(super) fn yield_in(shared: NonNull<Shared>, is_local: bool) -> Option<Yield> {
    enter::with_own(|processor| {
        let processor = processor.filter(|processor| processor.shared_ptr() == shared)?;
        Some(yield_on(processor, is_local))
    })
}

fn yield_on(processor: &OwnJobs, is_local: bool) -> Yield {
    if processor.yield_to_job(is_local) {
        return Yield::Executed;
    }
    if processor.waits_for() != Tag::NONE || std::thread::panicking() {
        // The caller may wait for jobs that it may not run here, so other threads have to find them.
        processor.expose_child_jobs();
    }
    Yield::Idle
}

/// Returns the index of the calling thread in its pool, mostly below [`current_num_threads`]; `None` outside
/// of pools.
///
/// It does not change while the thread lives, and no other thread of the pool has it. Spare workers, which
/// run jobs while others are blocked or stuck (see [`spare_workers`](crate::Builder::spare_workers)), have
/// indices from [`current_num_threads`] on, below [`max_num_threads`]. A non-worker thread that runs its own
/// call (see [`join`](super::join)) has none.
///
/// # Examples
/// ```
/// use runtime::parallel::{ThreadPoolBuilder, current_thread_index};
///
/// let pool = ThreadPoolBuilder::new().num_threads(1).build()?;
/// assert_eq!(pool.install(current_thread_index), Some(0));
/// assert_eq!(current_thread_index(), None);
/// # Ok::<(), runtime::parallel::ThreadPoolBuildError>(())
/// ```
///
/// Prior art: `rayon::current_thread_index`.
#[inline]
pub fn current_thread_index() -> Option<usize> {
    // SAFETY: (1) used in this call only.
    unsafe { enter::job_processor() }.and_then(|processor| processor.thread_index())
}

/// Returns the number of threads of the pool that calls from here belong to.
///
/// Outside of runtimes and pools, this counts the process-wide pool, and starts it if necessary. Where calls
/// run in place, the number is 1.
///
/// # Examples
/// ```
/// use runtime::parallel::{ThreadPoolBuilder, current_num_threads};
///
/// let pool = ThreadPoolBuilder::new().num_threads(3).build()?;
/// assert_eq!(pool.install(current_num_threads), 3);
/// # Ok::<(), runtime::parallel::ThreadPoolBuildError>(())
/// ```
///
/// Prior art: `rayon::current_num_threads`.
pub fn current_num_threads() -> usize {
    // SAFETY: what makes it the pool of this call stays until the call returns.
    enter::current_pool().map_or(1, |shared| unsafe { shared.as_ref() }.config.workers)
}

/// Returns whether jobs that were split off or spawned on the calling thread wait there; `None` outside of
/// pools.
///
/// A hint: other threads take jobs at any moment. Broadcasts do not count.
///
/// # Examples
/// ```
/// use runtime::parallel::{ThreadPoolBuilder, current_thread_has_pending_tasks, spawn};
///
/// let pool = ThreadPoolBuilder::new().num_threads(1).build()?;
/// pool.install(|| {
///     assert_eq!(current_thread_has_pending_tasks(), Some(false));
///     spawn(|| ());
///     assert_eq!(current_thread_has_pending_tasks(), Some(true));
/// });
/// # Ok::<(), runtime::parallel::ThreadPoolBuildError>(())
/// ```
///
/// Prior art: `rayon::current_thread_has_pending_tasks` of its core.
#[inline]
pub fn current_thread_has_pending_tasks() -> Option<bool> {
    // SAFETY: (1) used in this call only.
    unsafe { enter::job_processor() }.map(OwnJobs::has_pending_jobs)
}

/// Returns a number above every thread's [index](current_thread_index): the largest possible number of
/// threads of a pool plus spare workers.
///
/// # Examples
/// ```
/// assert!(runtime::parallel::max_num_threads() >= runtime::parallel::current_num_threads());
/// ```
///
/// Prior art: `rayon::max_num_threads`, which returns another number.
pub fn max_num_threads() -> usize {
    MAX_WORKERS + MAX_SPARE_WORKERS
}
