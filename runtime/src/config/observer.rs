//! The task hooks and the histograms of poll times of a runtime that observes its tasks.
//!
//! A runtime without hooks and histograms pays nothing for them. Each spawn tests one flag
//! (`Lifecycle::spawns_slowly`) in any case, because the shutdown sets this flag. In a runtime that observes
//! its tasks the flag is always set. The spawner then gives the task the vtable whose `run` calls
//! [`Observer::around_poll`]. It also enters the task among the owned tasks at once, because the end of an
//! owned task calls [`Observer::on_terminate`].

use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;
use std::time::Instant;

use crate::config::histogram::{Histogram, HistogramConfiguration};
use crate::coop;
use crate::task::Id;
use crate::util::unwind;

/// The properties of a task that its runtime passes to the task hooks.
///
/// # Examples
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use std::sync::Arc;
///
/// let polls = Arc::new(AtomicUsize::new(0));
/// let seen = polls.clone();
/// let runtime = runtime::Builder::new_current_thread()
///     .on_before_task_poll(move |task| {
///         println!("task {}, spawned at {}, is polled", task.id(), task.spawned_at());
///         seen.fetch_add(1, Ordering::Relaxed);
///     })
///     .build()?;
/// runtime.block_on(runtime.spawn(async { runtime::task::yield_now().await }))?;
/// assert_eq!(polls.load(Ordering::Relaxed), 2);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct TaskMeta<'a> {
    id: Id,
    spawned_at: &'static Location<'static>,
    // The lifetime is there so that a later release may add a reference into the task.
    not_static: PhantomData<&'a ()>,
}

impl TaskMeta<'_> {
    /// Returns the task's id.
    pub fn id(&self) -> Id {
        self.id
    }

    /// Returns the source line that spawned the task.
    pub fn spawned_at(&self) -> &'static Location<'static> {
        self.spawned_at
    }
}

/// A function of the user that the runtime calls with a task's properties.
pub type TaskHook = Arc<dyn Fn(&TaskMeta<'_>) + Send + Sync>;

/// The task hooks that the builder was given.
#[derive(Clone, Default)]
pub struct TaskHooks {
    pub spawn: Option<TaskHook>,
    pub before_poll: Option<TaskHook>,
    pub after_poll: Option<TaskHook>,
    pub terminate: Option<TaskHook>,
}

/// The hooks of a runtime and its histograms of poll times.
pub struct Observer {
    hooks: TaskHooks,
    /// The durations of the polls, one histogram for each worker. Empty unless the runtime measures polls.
    poll_times: Vec<Histogram>,
}

impl Observer {
    /// Returns `None` if there is neither a hook nor a histogram.
    pub fn new(
        hooks: &TaskHooks,
        poll_times: Option<&HistogramConfiguration>,
        workers: usize,
    ) -> Option<Arc<Self>> {
        let TaskHooks { spawn, before_poll, after_poll, terminate } = hooks;
        let has_hooks = [spawn, before_poll, after_poll, terminate].iter().any(|hook| hook.is_some());
        (has_hooks || poll_times.is_some()).then(|| {
            let poll_times =
                poll_times.map_or(Vec::new(), |scale| (0..workers).map(|_| Histogram::new(scale)).collect());
            Arc::new(Self { hooks: hooks.clone(), poll_times })
        })
    }

    /// Returns the histogram of permanent worker `worker`, if the runtime measures polls.
    pub fn poll_times(&self, worker: usize) -> Option<&Histogram> {
        self.poll_times.get(worker)
    }

    /// Reports that a task was made. The caller queues it afterwards.
    pub fn on_spawn(&self, id: Id, spawned_at: &'static Location<'static>) {
        call(&self.hooks.spawn, id, spawned_at);
    }

    /// Reports that a task has ended: its future was dropped, and its `JoinHandle` does not return yet.
    pub fn on_terminate(&self, id: Id, spawned_at: &'static Location<'static>) {
        call(&self.hooks.terminate, id, spawned_at);
    }

    /// Calls the hook before the poll, `poll`, and the hook after it. Measures `poll`, if the runtime
    /// measures polls. `poll` polls one task and does not unwind. `worker` is the polling worker's index, if
    /// a worker polls.
    pub fn around_poll(
        &self,
        worker: Option<usize>,
        id: Id,
        spawned_at: &'static Location<'static>,
        poll: impl FnOnce(),
    ) {
        call(&self.hooks.before_poll, id, spawned_at);
        // The polls of a spare worker count for a permanent worker.
        let histogram = worker.and_then(|index| self.poll_times(index.checked_rem(self.poll_times.len())?));
        let began = histogram.map(|_| Instant::now());
        poll();
        if let (Some(histogram), Some(began)) = (histogram, began) {
            histogram.record(began.elapsed());
        }
        call(&self.hooks.after_poll, id, spawned_at);
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").field("poll_times", &self.poll_times.len()).finish_non_exhaustive()
    }
}

/// Calls a hook.
///
/// It catches a panic in the hook, as with the other hooks, because the panic is not the task's. Only the
/// panic hook reports it. The hook is not part of a poll: it runs without the task's budget, and may block.
fn call(hook: &Option<TaskHook>, id: Id, spawned_at: &'static Location<'static>) {
    if let Some(hook) = hook {
        let meta = TaskMeta { id, spawned_at, not_static: PhantomData };
        unwind::drop_quietly(coop::suspended(|| unwind::catch(|| hook(&meta))));
    }
}
