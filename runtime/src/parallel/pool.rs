//! Thread pools of a program's own: job processors that run jobs and nothing else.
//!
//! A pool is a [`Shared`], like a runtime's, without driver, tasks and spare workers. Dropping the
//! [`ThreadPool`] only begins its shutdown. Its workers leave once no injected job and no detached job is
//! left (`scheduler/jobs/injected.rs`), and the last reference frees the pool. A call by `&self` keeps
//! the pool. So do its own threads for the jobs that run on them.

use std::fmt;
use std::ptr::NonNull;

use crate::scheduler::Shared;

/// Threads that run jobs, separate from those of the runtime and of the process-wide pool.
///
/// A job on its threads that calls [`join`](super::join) and the like stays on its threads.
///
/// # Dropping it
/// The drop does not wait. Jobs that were spawned still run, and so do the jobs that they spawn. Then the
/// threads end. So a pool may be dropped on one of its own threads.
///
/// # Examples
/// ```
/// use runtime::parallel::{self, ThreadPoolBuilder};
///
/// let pool = ThreadPoolBuilder::new().num_threads(4).build()?;
/// let sum = pool.install(|| {
///     let (a, b) = parallel::join(|| 1, || 2);
///     a + b
/// });
/// assert_eq!(sum, 3);
/// # Ok::<(), parallel::ThreadPoolBuildError>(())
/// ```
///
/// Prior art: `rayon::ThreadPool`.
pub struct ThreadPool {
    /// A reference; see `scheduler/shared.rs`.
    shared: NonNull<Shared>,
}

// SAFETY: the shared state is made to be used from all threads, and counted.
unsafe impl Send for ThreadPool {}
// SAFETY: as above.
unsafe impl Sync for ThreadPool {}

impl ThreadPool {
    /// # Safety
    /// 1. The caller has a reference, and gives it to the pool.
    pub(super) unsafe fn adopt(shared: NonNull<Shared>) -> Self {
        Self { shared }
    }

    /// Valid for as long as the pool or one of its jobs lives.
    pub(super) fn shared_ptr(&self) -> NonNull<Shared> {
        self.shared
    }

    fn shared(&self) -> &Shared {
        // SAFETY: our reference keeps it.
        unsafe { self.shared.as_ref() }
    }

    /// Returns the number of the pool's threads.
    pub fn current_num_threads(&self) -> usize {
        self.shared().config.workers
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared().begin_shutdown();
        // SAFETY: `adopt` got the reference that is given up here, and the pool is not used any more.
        unsafe { Shared::release(self.shared) };
    }
}

impl fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPool")
            .field("num_threads", &self.current_num_threads())
            .field("id", &self.shared)
            .finish()
    }
}
