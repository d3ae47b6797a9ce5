//! The process-wide pool, for parallel calls that belong to no other pool. `build_global` makes it, or the
//! first call that needs it. It lives until the process ends.

use std::cell::Cell;
use std::sync::OnceLock;

use parking_lot::ReentrantMutex;

use super::builder::ThreadPoolBuilder;
use super::error::{ErrorKind, ThreadPoolBuildError};
use super::pool::ThreadPool;
use super::thread::ThreadSpawn;
use crate::util::affinity;

/// The inner option is `None` if the system refused every thread.
static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();

/// Locked by the thread that builds the pool. True while it builds: the functions that name and start threads
/// may call this module again.
static IS_BUILDING: ReentrantMutex<Cell<bool>> = ReentrantMutex::new(Cell::new(false));

/// The pool. None if the system refused every thread, or if this thread is about to build the pool; then
/// calls run in place.
#[inline]
pub fn get() -> Option<&'static ThreadPool> {
    match POOL.get() {
        Some(pool) => pool.as_ref(),
        None => make(),
    }
}

#[cold]
fn make() -> Option<&'static ThreadPool> {
    // An error means that another thread was first, or that this thread is building the pool.
    _ = set(|| Ok(start_as_many_as_possible()));
    POOL.get()?.as_ref()
}

impl<S: ThreadSpawn> ThreadPoolBuilder<S> {
    /// Builds the process-wide pool, which runs the parallel calls of threads that belong to no pool and no
    /// multi-thread runtime.
    ///
    /// Without this call, the pool is built when it is first needed, with default settings and threads that
    /// are named `runtime-pool-0` and so on. It lives until the process ends. After a `build_global` that has
    /// failed, a program may try again.
    ///
    /// # Errors
    /// If the pool has been built already, is being built by this thread, or could not be built when it was
    /// first needed; or as [`build`](Self::build).
    ///
    /// # Panics
    /// As [`build`](Self::build).
    pub fn build_global(self) -> Result<(), ThreadPoolBuildError> {
        set(|| self.build().map(Some))
    }
}

fn set(
    build: impl FnOnce() -> Result<Option<ThreadPool>, ThreadPoolBuildError>,
) -> Result<(), ThreadPoolBuildError> {
    struct End<'a>(&'a Cell<bool>);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.set(false);
        }
    }
    let is_building = IS_BUILDING.lock();
    if is_building.get() || POOL.get().is_some() {
        return Err(ThreadPoolBuildError::new(ErrorKind::GlobalPoolAlreadyInitialized));
    }
    is_building.set(true);
    let _end = End(&is_building);
    let pool = build()?;
    assert!(POOL.set(pool).is_ok(), "the thread that sets the pool holds the lock");
    Ok(())
}

/// A pool with default settings, except that its threads have names. If the system refuses a thread, a pool
/// with as many threads as the system granted, if there is at least one.
fn start_as_many_as_possible() -> Option<ThreadPool> {
    let mut wanted = 0;
    loop {
        let mut started = Vec::new();
        let builder =
            ThreadPoolBuilder::new().num_threads(wanted).thread_name(|i| format!("runtime-pool-{i}"));
        let builder = builder.spawn_handler(|thread| {
            started.push(thread.std_builder().spawn(affinity::unpinned(None, || thread.run()))?);
            Ok(())
        });
        if let Ok(pool) = builder.build() {
            return Some(pool);
        }
        wanted = started.len();
        if wanted == 0 {
            return None;
        }
        // The threads end at once. They must have ended before the next attempt, which would get fewer
        // threads otherwise.
        started.into_iter().for_each(|thread| _ = thread.join());
    }
}
