//! Building: the bounds of every setting, and what happens if the system refuses.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use super::settings::{Builder, MAX_SPARE_WORKERS};
use crate::config::hooks::{ThreadName, invalid};
use crate::config::{Config, Flavor, HistogramConfiguration, Observer, UnhandledPanic};
use crate::driver::Driver;
use crate::driver::io::IoDriver;
use crate::driver::time::TimeDriver;
use crate::loom::HAS_MONITOR;
use crate::runtime::handle::Handle;
use crate::runtime::value::Runtime;
use crate::scheduler::{self, Shared};
use crate::util::affinity::Pins;
use crate::util::named_error::always_named;

/// The largest number of worker threads.
pub const MAX_WORKERS: usize = 4096;
/// The largest number of events of one turn. The driver keeps 12 MiB for so many.
const MAX_EVENTS_PER_TURN: usize = 1 << 20;
/// The environment variables that set the default number of worker threads: ours, then Tokio's.
const WORKERS_VARIABLES: [&str; 2] = ["RUNTIME_WORKER_THREADS", "TOKIO_WORKER_THREADS"];

impl Builder {
    /// Builds the runtime and starts its workers.
    ///
    /// # Errors
    /// - [`InvalidInput`](io::ErrorKind::InvalidInput), with the value, if a setting, or the environment
    ///   variable that stands for it, is out of its range.
    /// - The system's error if it refuses a descriptor or a thread. The threads that were started have ended
    ///   then, and nothing is left open.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_multi_thread().enable_all().build()?;
    ///
    /// let error = runtime::Builder::new_multi_thread().worker_threads(10_000).build().unwrap_err();
    /// assert_eq!(error.to_string(), "worker_threads must be at most 4096, got 10000");
    /// # std::io::Result::Ok(())
    /// ```
    pub fn build(&mut self) -> io::Result<Runtime> {
        let config = self.config()?;
        let workers = config.workers;
        let driver = self.driver(workers)?;
        let shared = Shared::new(config, driver);
        // SAFETY: (1) the reference that `Shared::new` returns.
        let handle = unsafe { Handle::adopt(shared) };
        let runtime = match self.flavor {
            Flavor::CurrentThread => Runtime::new_current_thread(handle),
            Flavor::MultiThread => start_workers(shared, workers, handle)?,
        };
        Ok(runtime)
    }

    /// Checks the settings.
    fn config(&self) -> io::Result<Config> {
        let workers = match self.flavor {
            Flavor::CurrentThread => 1,
            Flavor::MultiThread => self.workers()?,
        };
        at_least_one("max_blocking_threads", self.max_blocking_threads)?;
        at_least_one("event_interval", self.event_interval as usize)?;
        at_least_one("global_queue_interval", self.global_queue_interval as usize)?;
        check_events("max_io_events_per_tick", self.max_io_events_per_tick)?;
        if let Some(events) = self.max_io_events_per_busy_tick {
            check_events("max_io_events_per_busy_tick", events)?;
        }
        if let Some(name) = self.name.as_ref().filter(|name| name.trim().is_empty()) {
            return Err(invalid(format!("name must not be empty, got {name:?}")));
        }
        if let Some(size) = self.thread_stack_size.filter(|&size| size == 0 || size > isize::MAX as usize / 2)
        {
            return Err(invalid(format!(
                "thread_stack_size must be from 1 to {} bytes, got {size}",
                isize::MAX / 2
            )));
        }
        if let ThreadName::Fixed(_) = self.thread_name {
            self.thread_name.next()?;
        }
        if self.is_start_paused && (self.flavor != Flavor::CurrentThread || !self.has_time) {
            let text = "start_paused needs a current_thread runtime with time enabled";
            return Err(invalid(text.to_owned()));
        }
        if self.unhandled_panic != UnhandledPanic::Ignore && self.flavor != Flavor::CurrentThread {
            let text = "unhandled_panic needs a current_thread runtime unless it is `Ignore`";
            return Err(invalid(text.to_owned()));
        }
        let poll_times = self.has_poll_times.then_some(&self.poll_times);
        poll_times.map_or(Ok(()), HistogramConfiguration::check).map_err(invalid)?;
        Ok(Config {
            name: self.name.clone(),
            flavor: self.flavor,
            workers,
            max_blocking_threads: self.max_blocking_threads,
            spare_workers: self.spare_workers.min(MAX_SPARE_WORKERS),
            thread_keep_alive: self.thread_keep_alive,
            thread_stack_size: self.thread_stack_size,
            thread_name: self.thread_name.clone(),
            event_interval: self.event_interval,
            global_queue_interval: self.global_queue_interval,
            hooks: self.hooks.clone(),
            pins: self.pins(workers),
            has_io: self.has_io,
            is_pool: false,
            is_breadth_first: false,
            panic_handler: None,
            start_handler: None,
            exit_handler: None,
            deadlock_handler: self.deadlock_handler.clone(),
            observer: Observer::new(&self.task_hooks, poll_times, workers),
            unhandled_panic: self.unhandled_panic.clone(),
            rng_seed: self.rng_seed.clone(),
            has_lifo_slot: self.has_lifo_slot,
        })
    }

    fn workers(&self) -> io::Result<usize> {
        let from_environment =
            || WORKERS_VARIABLES.iter().find_map(|&name| Some((name, std::env::var_os(name)?)));
        let (what, n) = match self.worker_threads {
            Some(n) => ("worker_threads", n),
            None => match from_environment() {
                Some((name, text)) => match text.to_str().and_then(|text| text.trim().parse().ok()) {
                    Some(n) => (name, n),
                    None => return Err(invalid(format!("{name} must be a number, got {text:?}"))),
                },
                None => ("worker_threads", available_cpus()),
            },
        };
        match n {
            1..=MAX_WORKERS => Ok(n),
            0 => Err(invalid(format!("{what} must be at least 1, got 0"))),
            _ => Err(invalid(format!("{what} must be at most {MAX_WORKERS}, got {n}"))),
        }
    }

    fn pins(&self, workers: usize) -> Option<Pins> {
        (self.is_pinning && self.flavor == Flavor::MultiThread).then(|| {
            // `available_cpus` keeps its first answer. A first call on a pinned worker would make it 1 for
            // good.
            available_cpus();
            Pins::new(workers)
        })
    }

    fn driver(&self, workers: usize) -> io::Result<Driver> {
        // Timers need a place to sleep. So a runtime has an I/O driver also if only time is enabled.
        let io = match self.has_io || self.has_time {
            true => Some(self.io_driver()?),
            false => None,
        };
        // One wheel for each worker, and one for all other threads.
        let mut time = self.has_time.then(|| TimeDriver::new(workers + 1, self.is_start_paused));
        if self.flavor == Flavor::CurrentThread {
            time.as_mut().map(TimeDriver::allow_pausing);
        }
        Ok(Driver::new(io, time))
    }

    fn io_driver(&self) -> io::Result<IoDriver> {
        IoDriver::new(self.max_io_events_per_tick, self.max_io_events_per_busy_tick)
            .map_err(|error| always_named("could not open", "the driver's descriptors", error))
    }
}

impl Runtime {
    /// Builds a multi-thread runtime with default settings and everything enabled.
    ///
    /// # Errors
    /// As [`Builder::build`].
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Runtime::new()?;
    /// assert_eq!(runtime.block_on(async { 42 }), 42);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn new() -> io::Result<Self> {
        Builder::new_multi_thread().enable_all().build()
    }
}

/// Starts all workers, or none.
fn start_workers(shared: NonNull<Shared>, workers: usize, handle: Handle) -> io::Result<Runtime> {
    let mut threads = Vec::with_capacity(workers);
    let mut refused = None;
    for index in 0..workers {
        // SAFETY: (1) the builder counts as a worker until `leave`. (2) No thread owns the processor yet.
        match unsafe { scheduler::start_worker(shared, index) } {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                let thread = format!("worker thread {} of {workers}", index + 1);
                refused = Some(always_named("could not start", thread, error));
                break;
            }
        }
    }
    if refused.is_none() && HAS_MONITOR {
        // SAFETY: (1) as above.
        match unsafe { scheduler::start_monitor(shared) } {
            Ok(thread) => threads.push(thread),
            Err(error) => refused = Some(always_named("could not start", "the monitor's thread", error)),
        }
    }
    match &refused {
        Some(_) => handle.shared().begin_shutdown(),
        // So that the metrics say at once on which CPU each worker is.
        None => handle.shared().config.pins.iter().for_each(Pins::wait),
    }
    // SAFETY: (1) `Shared::new` counted the builder as a worker, and this is the last use by that count: what
    // follows uses the handle. (2) The builder is in no worker's context of this runtime.
    unsafe { Shared::leave(shared, 0) };
    match refused {
        None => Ok(Runtime::new_multi_thread(handle, threads)),
        Some(error) => {
            threads.into_iter().for_each(|thread| _ = thread.join());
            Err(error)
        }
    }
}

/// The number of CPUs that the process may use. It is asked for once, because the answer costs reading files
/// of the control group.
pub fn available_cpus() -> usize {
    static CPUS: AtomicUsize = AtomicUsize::new(0);
    match CPUS.load(Relaxed) {
        0 => {
            let cpus = std::thread::available_parallelism().map_or(1, |n| n.get()).min(MAX_WORKERS);
            CPUS.store(cpus, Relaxed);
            cpus
        }
        cpus => cpus,
    }
}

fn at_least_one(what: &str, n: usize) -> io::Result<()> {
    if n == 0 { Err(invalid(format!("{what} must be at least 1, got 0"))) } else { Ok(()) }
}

fn check_events(what: &str, n: usize) -> io::Result<()> {
    at_least_one(what, n)?;
    match n {
        0..=MAX_EVENTS_PER_TURN => Ok(()),
        _ => Err(invalid(format!("{what} must be at most {MAX_EVENTS_PER_TURN}, got {n}"))),
    }
}
