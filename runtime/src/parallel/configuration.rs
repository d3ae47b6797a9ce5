//! The former names of `ThreadPoolBuilder`, for programs that still use them.

use std::any::Any;
use std::error::Error;
use std::fmt;

use super::builder::ThreadPoolBuilder;
use super::pool::ThreadPool;

/// Builds a [`ThreadPool`], under the name before [`ThreadPoolBuilder`].
#[deprecated(note = "Use `ThreadPoolBuilder`")]
#[derive(Default)]
pub struct Configuration {
    builder: ThreadPoolBuilder,
}

/// Builds the process-wide pool; as [`ThreadPoolBuilder::build_global`].
///
/// # Errors
/// As [`ThreadPoolBuilder::build_global`].
#[deprecated(note = "use `ThreadPoolBuilder::build_global`")]
#[allow(deprecated)]
pub fn initialize(config: Configuration) -> Result<(), Box<dyn Error>> {
    Ok(config.builder.build_global()?)
}

#[allow(deprecated)]
impl Configuration {
    /// Begins a pool with default settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Builds the pool; as [`ThreadPoolBuilder::build`].
    ///
    /// # Errors
    /// As [`ThreadPoolBuilder::build`].
    pub fn build(self) -> Result<ThreadPool, Box<dyn Error + 'static>> {
        Ok(self.builder.build()?)
    }

    /// Names the threads; as [`ThreadPoolBuilder::thread_name`].
    pub fn thread_name<F>(self, name: F) -> Self
    where
        F: FnMut(usize) -> String + 'static,
    {
        Self { builder: self.builder.thread_name(name) }
    }

    /// Sets the number of threads; as [`ThreadPoolBuilder::num_threads`].
    pub fn num_threads(self, num_threads: usize) -> Self {
        Self { builder: self.builder.num_threads(num_threads) }
    }

    /// Sets the function that gets the panics of jobs that no caller waits for; as
    /// [`ThreadPoolBuilder::panic_handler`].
    pub fn panic_handler<H>(self, handler: H) -> Self
    where
        H: Fn(Box<dyn Any + Send>) + Send + Sync + 'static,
    {
        Self { builder: self.builder.panic_handler(handler) }
    }

    /// Sets the stack size of the threads in bytes; as [`ThreadPoolBuilder::stack_size`].
    pub fn stack_size(self, bytes: usize) -> Self {
        Self { builder: self.builder.stack_size(bytes) }
    }

    /// Makes each thread run its own jobs in order; as [`ThreadPoolBuilder::breadth_first`].
    pub fn breadth_first(self) -> Self {
        Self { builder: self.builder.breadth_first() }
    }

    /// Sets the function that is called first on each thread; as [`ThreadPoolBuilder::start_handler`].
    pub fn start_handler<H>(self, handler: H) -> Self
    where
        H: Fn(usize) + Send + Sync + 'static,
    {
        Self { builder: self.builder.start_handler(handler) }
    }

    /// Sets the function that is called last on each thread; as [`ThreadPoolBuilder::exit_handler`].
    pub fn exit_handler<H>(self, handler: H) -> Self
    where
        H: Fn(usize) + Send + Sync + 'static,
    {
        Self { builder: self.builder.exit_handler(handler) }
    }
}

#[allow(deprecated)]
impl fmt::Debug for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.builder.fmt(f)
    }
}
