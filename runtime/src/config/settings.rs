//! The settings of a runtime that was built.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::deadlock::DeadlockHandler;
use super::hooks::{Hooks, IndexedHook, PanicHandler, ThreadName};
use super::kinds::{Flavor, RngSeed, UnhandledPanic};
use super::observer::Observer;
use crate::loom::thread;
use crate::util::affinity::{self, Pins};
use crate::util::either_thread::called_once;

/// The name of the monitor's thread.
const MONITOR_NAME: &str = "runtime-monitor";
/// The name of a thread that calls foreign code in another thread's place.
const HELPER_NAME: &str = "runtime-helper";
/// The default of `event_interval` and of `global_queue_interval`, in rounds of a worker's loop. The number
/// is prime, as in Go, so that no periodic load falls in step with it.
pub const INTERVAL: u32 = 61;

/// The settings of a built runtime.
pub struct Config {
    /// The name of the runtime. Its threads have names of their own.
    pub name: Option<String>,
    pub flavor: Flavor,
    pub workers: usize,
    pub max_blocking_threads: usize,
    pub spare_workers: usize,
    pub thread_keep_alive: Duration,
    pub thread_stack_size: Option<usize>,
    pub thread_name: ThreadName,
    pub event_interval: u32,
    pub global_queue_interval: u32,
    pub hooks: Hooks,
    /// Keeps each worker on one CPU.
    pub pins: Option<Pins>,
    pub has_io: bool,
    /// The runtime runs only jobs: it has no driver and no spare workers.
    pub is_pool: bool,
    /// Jobs run in the order in which they were spawned; see `ThreadPoolBuilder::breadth_first`.
    pub is_breadth_first: bool,
    /// Gets the panics of detached jobs.
    pub panic_handler: Option<PanicHandler>,
    /// Called on each worker thread before its first job, and after its last.
    pub start_handler: Option<IndexedHook>,
    pub exit_handler: Option<IndexedHook>,
    /// Called when nothing can unblock the marked threads.
    pub deadlock_handler: Option<DeadlockHandler>,
    /// Calls the task hooks and measures polls.
    pub observer: Option<Arc<Observer>>,
    pub unhandled_panic: UnhandledPanic,
    pub rng_seed: Option<RngSeed>,
    pub has_lifo_slot: bool,
}

impl Config {
    /// The settings of a pool of jobs. The pool's builder starts and names the threads.
    pub fn of_pool(workers: usize) -> Self {
        Self {
            name: None,
            flavor: Flavor::MultiThread,
            workers,
            max_blocking_threads: 0,
            spare_workers: 0,
            thread_keep_alive: Duration::ZERO,
            thread_stack_size: None,
            thread_name: ThreadName::Fixed(String::new()),
            event_interval: INTERVAL,
            global_queue_interval: INTERVAL,
            hooks: Hooks::default(),
            pins: None,
            has_io: false,
            is_pool: true,
            is_breadth_first: false,
            panic_handler: None,
            start_handler: None,
            exit_handler: None,
            deadlock_handler: None,
            observer: None,
            unhandled_panic: UnhandledPanic::Ignore,
            rng_seed: None,
            has_lifo_slot: true,
        }
    }

    /// Whether a thread that is no worker may run its own parallel calls, as an external thread; see
    /// `scheduler/jobs/external.rs`.
    pub fn takes_external(&self) -> bool {
        let are_threads_special = self.thread_stack_size.is_some()
            || self.start_handler.is_some()
            || self.hooks.thread_start.is_some();
        self.flavor == Flavor::MultiThread
            && self.workers >= 2
            && self.deadlock_handler.is_none()
            && !are_threads_special
    }

    /// Starts a thread of the runtime.
    ///
    /// # Errors
    /// The system's error if it refuses the thread, or an error if the thread cannot be named. `main` was
    /// dropped by then.
    pub fn start_thread(&self, main: impl FnOnce() + Send + 'static) -> io::Result<thread::JoinHandle<()>> {
        start(self.thread_name.next()?, self.thread_stack_size, self.unpinned(Box::new(main)))
    }

    /// Starts the monitor's thread, which has its own name and the default stack size.
    ///
    /// # Errors
    /// The system's error if it refuses the thread.
    pub fn start_monitor(&self, main: impl FnOnce() + Send + 'static) -> io::Result<thread::JoinHandle<()>> {
        start(MONITOR_NAME.to_owned(), None, self.unpinned(Box::new(main)))
    }

    /// Starts a thread for a call of foreign code. It has a name of its own. Its stack has the size that the
    /// user chose for such code, or the default size if the system refuses the larger one.
    ///
    /// # Errors
    /// The system's error if it refuses the thread. `main` was dropped by then.
    pub fn start_helper(&self, main: impl FnOnce() + Send + 'static) -> io::Result<thread::JoinHandle<()>> {
        let start = |size, main| start(HELPER_NAME.to_owned(), size, self.unpinned(main));
        let Some(size) = self.thread_stack_size else {
            return start(None, Box::new(main));
        };
        let main = called_once(main);
        start(Some(size), main()).or_else(|_| start(None, main()))
    }

    /// Wraps `main` for a thread that the calling thread starts. The new thread does not stay on the one CPU
    /// of a pinned worker.
    fn unpinned(&self, main: Box<dyn FnOnce() + Send>) -> Box<dyn FnOnce() + Send> {
        Box::new(affinity::unpinned(self.pins.as_ref(), main))
    }

    pub fn max_spares(&self) -> usize {
        match self.flavor {
            Flavor::CurrentThread => 0,
            Flavor::MultiThread if self.is_pool => 0,
            Flavor::MultiThread => self.spare_workers,
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("name", &self.name)
            .field("flavor", &self.flavor)
            .field("workers", &self.workers)
            .field("max_blocking_threads", &self.max_blocking_threads)
            .field("has_io", &self.has_io)
            .finish_non_exhaustive()
    }
}

/// Starts a thread. `main` is boxed, so that this code is compiled once and not for each kind of thread. std
/// would box `main` anyway.
fn start(
    name: String,
    stack_size: Option<usize>,
    main: Box<dyn FnOnce() + Send>,
) -> io::Result<thread::JoinHandle<()>> {
    let builder = thread::Builder::new().name(name);
    let builder = match stack_size {
        Some(size) => builder.stack_size(size),
        None => builder,
    };
    builder.spawn(main)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Starts a helper thread under this setting, and returns the size of its stack.
    fn stack_of_helper(setting: usize) -> usize {
        let config = Config { thread_stack_size: Some(setting), ..Config::of_pool(1) };
        let (sender, receiver) = mpsc::channel();
        let started = config.start_helper(move || sender.send(own_stack()).expect("the test waits"));
        let size = receiver.recv().unwrap();
        started.unwrap().join().unwrap();
        size
    }

    fn own_stack() -> usize {
        let mut size = 0;
        // SAFETY: the attributes are initialised by the first call, read by the second, and then destroyed.
        // The pointers are valid for each call.
        unsafe {
            let mut attributes = std::mem::zeroed();
            assert_eq!(libc::pthread_getattr_np(libc::pthread_self(), &mut attributes), 0);
            assert_eq!(libc::pthread_attr_getstacksize(&attributes, &mut size), 0);
            libc::pthread_attr_destroy(&mut attributes);
        }
        size
    }

    #[test]
    fn a_helper_has_the_stack_that_the_user_chose() {
        assert!(stack_of_helper(24 << 20) >= 24 << 20);
    }

    #[test]
    fn a_helper_whose_stack_is_refused_has_a_smaller_one() {
        assert!(stack_of_helper(1 << 60) < 1 << 60);
    }
}
