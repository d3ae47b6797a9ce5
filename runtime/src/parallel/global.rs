//! The process-wide pool: where parallel calls go that belong to no other pool. Made when it is first needed,
//! or before by `build_global`; it lives until the process ends.

use std::cell::Cell;
use std::sync::OnceLock;

use parking_lot::ReentrantMutex;

use super::builder::ThreadPoolBuilder;
use super::error::{ErrorKind, ThreadPoolBuildError};
use super::pool::ThreadPool;

/// Inside: none if the system had no thread for it.
static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();

/// The thread that builds holds it. True while a thread builds: the functions that name and start threads may
/// call us.
static IS_BUILDING: ReentrantMutex<Cell<bool>> = ReentrantMutex::new(Cell::new(false));

/// The pool; none if the system has no thread for it, or if this thread is about to build it: then calls run
/// in place.
#[inline]
pub fn get() -> Option<&'static ThreadPool> {
    match POOL.get() {
        Some(pool) => pool.as_ref(),
        None => make(),
    }
}

#[cold]
fn make() -> Option<&'static ThreadPool> {
    // An error says that another thread was first, or that this one is at it.
    _ = set(|| Ok(start_as_many_as_possible()));
    POOL.get()?.as_ref()
}

/// Makes what `build` returns the process-wide pool.
pub fn build(
    build: impl FnOnce() -> Result<ThreadPool, ThreadPoolBuildError>,
) -> Result<(), ThreadPoolBuildError> {
    set(|| build().map(Some))
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
    assert!(POOL.set(pool).is_ok(), "whoever sets the pool holds the lock");
    Ok(())
}

/// A pool with default settings, but that its threads have names; if the system refuses a thread, one with as
/// many as it granted, if that is at least one.
fn start_as_many_as_possible() -> Option<ThreadPool> {
    let mut wanted = 0;
    loop {
        let mut started = Vec::new();
        let builder =
            ThreadPoolBuilder::new().num_threads(wanted).thread_name(|i| format!("runtime-pool-{i}"));
        let builder = builder.spawn_handler(|thread| {
            started.push(thread.std_builder().spawn(|| thread.run())?);
            Ok(())
        });
        if let Ok(pool) = builder.build() {
            return Some(pool);
        }
        wanted = started.len();
        if wanted == 0 {
            return None;
        }
        // They end at once, and must have, lest the next attempt gets less.
        started.into_iter().for_each(|thread| _ = thread.join());
    }
}
