//! rayon-core's unit tests, compiled outside of rayon-core.
//!
//! They are modules of the crate they test and say `crate::join`. Here the crate's root has those names
//! because it re-exports the public face of whatever rayon-core the workspace links, so a test cannot tell
//! the difference. What the tests take from rayon-core's private modules is little, and is written anew below
//! on the public face.
//!
//! `../rayon-core` is the published `src` folder.

pub use rayon_core::*;

#[path = "../rayon-core/compile_fail/mod.rs"]
mod compile_fail;

/// The examples of the documentation, a file of doc comments for each source file.
mod examples;

#[cfg(test)]
#[path = "../rayon-core/test.rs"]
mod test;

#[cfg(test)]
#[path = "../rayon-core/broadcast"]
mod broadcast {
    mod test;
}

#[cfg(test)]
#[path = "../rayon-core/join"]
mod join {
    use crate::{join, join_context, unwind};

    mod test;
}

#[cfg(test)]
#[path = "../rayon-core/scope"]
mod scope {
    mod test;
}

#[cfg(test)]
#[path = "../rayon-core/spawn"]
mod spawn {
    use crate::{spawn, spawn_fifo};

    mod test;
}

#[cfg(test)]
#[path = "../rayon-core/thread_pool"]
mod thread_pool {
    mod test;
}

#[cfg(test)]
mod unwind {
    use std::panic::{catch_unwind, AssertUnwindSafe};

    pub(crate) fn halt_unwinding<R>(f: impl FnOnce() -> R) -> std::thread::Result<R> {
        catch_unwind(AssertUnwindSafe(f))
    }
}

#[cfg(test)]
mod registry {
    use std::cell::RefCell;
    use std::sync::Arc;
    use std::time::Duration;

    use crate::ThreadPool;

    thread_local! {
        /// One entry for each pool that counts this thread; the thread's end drops them.
        static COUNTED: RefCell<Vec<Arc<()>>> = const { RefCell::new(Vec::new()) };
    }

    /// The threads of a pool, so that a test can wait for their end.
    pub(crate) struct Registry {
        num_threads: usize,
        alive: Arc<()>,
    }

    /// Stands in for the pool's private field `registry`: leaves a count in each of its threads.
    pub(crate) fn of(pool: &ThreadPool) -> Arc<Registry> {
        let alive = Arc::new(());
        let counted = pool.broadcast(|_| COUNTED.with_borrow_mut(|counts| counts.push(Arc::clone(&alive))));
        Arc::new(Registry { num_threads: counted.len(), alive })
    }

    impl Registry {
        pub(crate) fn num_threads(&self) -> usize {
            self.num_threads
        }

        pub(crate) fn wait_until_stopped(&self) {
            while Arc::strong_count(&self.alive) > 1 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Runs `op` on a thread of the current pool. The tests use neither argument.
    pub(crate) fn in_worker<R: Send>(op: impl FnOnce((), bool) -> R + Send) -> R {
        crate::scope(|_| op((), false))
    }
}
