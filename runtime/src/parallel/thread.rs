//! One thread of a pool that is being built, and how it is started.

use std::fmt;
use std::io;
use std::thread;

use crate::scheduler::WorkerStart;
use crate::util::affinity;

/// One thread of a pool that is being built. A [`spawn_handler`](super::ThreadPoolBuilder::spawn_handler)
/// gets it.
///
/// Prior art: `rayon::ThreadBuilder`.
pub struct ThreadBuilder {
    pub(super) name: Option<String>,
    pub(super) stack_size: Option<usize>,
    pub(super) worker: WorkerStart,
}

impl ThreadBuilder {
    /// Returns the thread's index in the pool.
    pub fn index(&self) -> usize {
        self.worker.index()
    }

    /// Returns the thread's name, if the pool's threads were given names.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the size of the thread's stack in bytes, if one was set.
    pub fn stack_size(&self) -> Option<usize> {
        self.stack_size
    }

    /// Makes the calling thread this thread of the pool, until the pool has ended.
    pub fn run(self) {
        self.worker.run();
    }

    /// The builder that starts the thread with `std`.
    pub(super) fn std_builder(&self) -> thread::Builder {
        let mut builder = thread::Builder::new();
        if let Some(name) = self.name() {
            builder = builder.name(name.to_owned());
        }
        if let Some(size) = self.stack_size {
            builder = builder.stack_size(size);
        }
        builder
    }
}

impl fmt::Debug for ThreadBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadBuilder")
            .field("pool", &std::ptr::from_ref(self.worker.shared()))
            .field("index", &self.index())
            .field("name", &self.name)
            .field("stack_size", &self.stack_size)
            .finish()
    }
}

/// Starts a pool's threads: [`DefaultSpawn`], or the user's function.
pub trait ThreadSpawn: sealed::Sealed {
    /// Starts one thread.
    #[doc(hidden)]
    fn spawn(&mut self, thread: ThreadBuilder) -> io::Result<()>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::DefaultSpawn {}
    impl<F> Sealed for super::CustomSpawn<F> {}
}

/// Threads of `std`.
#[derive(Debug, Default)]
pub struct DefaultSpawn;

impl ThreadSpawn for DefaultSpawn {
    fn spawn(&mut self, thread: ThreadBuilder) -> io::Result<()> {
        thread.std_builder().spawn(affinity::unpinned(None, || thread.run()))?;
        Ok(())
    }
}

/// Starts threads with the user's function.
#[derive(Debug)]
pub struct CustomSpawn<F>(pub(super) F);

impl<F: FnMut(ThreadBuilder) -> io::Result<()>> ThreadSpawn for CustomSpawn<F> {
    fn spawn(&mut self, thread: ThreadBuilder) -> io::Result<()> {
        (self.0)(thread)
    }
}
